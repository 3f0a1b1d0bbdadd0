"""Runs of any domain: their plan, their execution, and the store of their results."""
