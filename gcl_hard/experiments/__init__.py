"""Experiments: a cell is data set × method × protocol × settings, run for a list of seeds."""
