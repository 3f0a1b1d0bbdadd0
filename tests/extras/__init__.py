"""What each extra is installed for, as scripts that run where nothing else is installed."""
