"""Contrastive learning with hard negatives: on graphs first, on images with the same parts.

A negative distribution is an admission rule times a hardening function; a loss is an objective
taken under that distribution; graphs and images only differ in how they make embeddings.

Importing this package imports torch and nothing heavier; the backends are ``gcl_hard.graphs``
and ``gcl_hard.images``. ``evaluate``, ``fit``, ``load_encoder`` and
``load_pretrained`` are imported when they are used.
"""

from typing import TYPE_CHECKING, Any

from gcl_hard.errors import DivergenceError, GclHardError, InputError, MissingExtraError
from gcl_hard.functional.hardening import (
    Custom,
    Exponential,
    Hardening,
    Threshold,
    Uniform,
)
from gcl_hard.functional.pool import HardPositives
from gcl_hard.functional.rowwise import (
    MeanThreshold,
    RankPosterior,
    RelativeThreshold,
    Ring,
    Transport,
)
from gcl_hard.functional.schedules import Annealed, Constant, Cosine, Linear, Schedule
from gcl_hard.gathering import gather
from gcl_hard.losses import ContrastiveLoss, Diagnostics
from gcl_hard.methods import METHODS, Method, contrastive_loss, method
from gcl_hard.queue import Queue
from gcl_hard.sampling import NegativeSampler
from gcl_hard.synthetic import AdversarialNegatives, HardMixing

if TYPE_CHECKING:
    from gcl_hard.experiments.api import evaluate, load_encoder
    from gcl_hard.graphs.pretrained import load_pretrained
    from gcl_hard.training.loop import fit

__version__ = "0.2.0"

__all__ = [
    "METHODS",
    "AdversarialNegatives",
    "Annealed",
    "Constant",
    "ContrastiveLoss",
    "Cosine",
    "Custom",
    "Diagnostics",
    "DivergenceError",
    "Exponential",
    "GclHardError",
    "HardMixing",
    "HardPositives",
    "Hardening",
    "InputError",
    "Linear",
    "MeanThreshold",
    "Method",
    "MissingExtraError",
    "NegativeSampler",
    "Queue",
    "RankPosterior",
    "RelativeThreshold",
    "Ring",
    "Schedule",
    "Threshold",
    "Transport",
    "Uniform",
    "contrastive_loss",
    "evaluate",
    "fit",
    "gather",
    "load_encoder",
    "load_pretrained",
    "method",
]


def __getattr__(name: str) -> Any:
    if name == "fit":
        from gcl_hard.training.loop import fit

        return fit
    if name == "load_pretrained":
        from gcl_hard.graphs.pretrained import load_pretrained

        return load_pretrained
    if name not in ("evaluate", "load_encoder"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gcl_hard.experiments import api

    return getattr(api, name)
