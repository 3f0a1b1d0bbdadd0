"""Training loops, independent of graphs and images."""
