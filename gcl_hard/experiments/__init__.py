"""Experiments: a configuration is data set × method × protocol × settings, run for some seeds."""
