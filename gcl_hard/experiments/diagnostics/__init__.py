"""What the theory says of an encoder while it trains; nothing here changes a number of it."""
