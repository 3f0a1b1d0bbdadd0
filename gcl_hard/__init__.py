"""Contrastive learning with hard negatives: on graphs first, on images with the same parts.

A negative distribution is an admission rule times a hardening function; a loss is an objective
taken under that distribution; graphs and images only differ in how they make embeddings.

Importing this package imports torch and nothing heavier; the backends are ``gcl_hard.graphs``
and ``gcl_hard.images``.
"""

from gcl_hard.errors import DivergenceError, GclHardError, InputError, MissingExtraError
from gcl_hard.functional.hardening import (
    Custom,
    Exponential,
    Hardening,
    MeanThreshold,
    Threshold,
    Uniform,
)
from gcl_hard.functional.schedules import Annealed, Constant, Cosine, Linear, Schedule
from gcl_hard.losses import ContrastiveLoss, Diagnostics
from gcl_hard.methods import METHODS, Method, contrastive_loss, method
from gcl_hard.sampling import NegativeSampler

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Annealed",
    "Constant",
    "ContrastiveLoss",
    "Cosine",
    "Custom",
    "Diagnostics",
    "DivergenceError",
    "Exponential",
    "GclHardError",
    "Hardening",
    "InputError",
    "Linear",
    "MeanThreshold",
    "Method",
    "MissingExtraError",
    "NegativeSampler",
    "Schedule",
    "Threshold",
    "Uniform",
    "contrastive_loss",
    "method",
]
