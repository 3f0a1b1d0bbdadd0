"""Quantities of the theory: Assumption 1, bounds, geometry, optimality, snapshots of them."""
