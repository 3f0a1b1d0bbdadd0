"""The commands, and their Python doors: parsers, options, execution, output."""
