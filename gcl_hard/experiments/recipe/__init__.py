"""Recipes: searching them by inner scores, the configs they end up in, and their table."""
