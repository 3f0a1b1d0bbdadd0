"""Figures of the papers' ideas: ``python -m benchmarks.paper``."""
