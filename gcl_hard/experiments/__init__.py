"""Experiments: configurations, their runs, and what trains, scores and stores them."""
