"""How large populations may be where nobody asked for a size; known before PyTorch is loaded."""

MOST = {"cpu": 16, "cuda": 256}
"""Members side by side."""
SHARE = {"cpu": 0.5, "cuda": 0.8}
"""Of a device's free memory that they may fill."""
