"""The version of this package, also where it is used without being installed."""

__version__ = "1.0.0"
