"""Scores of embeddings: NumPy arrays in, accuracies out.

Names are imported on first use, so that showing a finished table does not import scikit-learn.
Only the probes that run on a device import torch, when they are called.
"""

from gcl_hard.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, __file__, "evaluation")
