"""The version of this package, also where it is used without being installed."""

__version__ = "0.3.0.dev0"
