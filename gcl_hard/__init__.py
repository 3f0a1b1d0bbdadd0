"""Contrastive learning with hard negatives: on graphs first, on images with the same parts.

A negative distribution is an admission rule times a hardening function; a loss is an objective
taken under that distribution; graphs and images only differ in how they make embeddings.

Importing this package imports torch and nothing heavier; the backends are ``gcl_hard.graphs``,
``nodes``, ``links``, ``molecules`` and ``images``. ``evaluate``, ``export``, ``fit``,
``load_encoder``, ``load_pretrained``, ``pretrain_encoder`` and ``study`` are imported when they are
used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gcl_hard.core.extras import check_extra
from gcl_hard.errors import DivergenceError, GclHardError, InputError, MissingExtraError
from gcl_hard.functional.diagnostics import Diagnostics
from gcl_hard.functional.hardening import Custom, Exponential, Hardening, Threshold, Uniform
from gcl_hard.functional.mixture import MixturePosterior
from gcl_hard.functional.pool import HardPositives
from gcl_hard.functional.rowwise import (
    MeanThreshold,
    RankPosterior,
    RelativeThreshold,
    Ring,
    Transport,
)
from gcl_hard.functional.schedules import Annealed, Constant, Cosine, Linear, Schedule
from gcl_hard.losses.caching import cached_backward
from gcl_hard.losses.gathering import gather
from gcl_hard.losses.loss import ContrastiveLoss
from gcl_hard.losses.methods import METHODS, Method, contrastive_loss, method
from gcl_hard.losses.momentum import MomentumEncoder
from gcl_hard.losses.queue import Queue
from gcl_hard.losses.sampling import NegativeSampler
from gcl_hard.losses.synthetic import AdversarialNegatives, HardMixing
from gcl_hard.version import __version__ as __version__

if TYPE_CHECKING:
    from gcl_hard.commands.embed import embed
    from gcl_hard.commands.encoders import load_encoder
    from gcl_hard.commands.evaluate import evaluate
    from gcl_hard.commands.export import export
    from gcl_hard.commands.pretrain import pretrain_encoder
    from gcl_hard.commands.study import study
    from gcl_hard.molecules.pretraining import load_pretrained
    from gcl_hard.training.loop import fit

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
    "MixturePosterior",
    "MomentumEncoder",
    "NegativeSampler",
    "Queue",
    "RankPosterior",
    "RelativeThreshold",
    "Ring",
    "Schedule",
    "Threshold",
    "Transport",
    "Uniform",
    "cached_backward",
    "contrastive_loss",
    "embed",
    "evaluate",
    "export",
    "fit",
    "gather",
    "load_encoder",
    "load_pretrained",
    "method",
    "pretrain_encoder",
    "study",
]


_LAZY = {
    "embed": ("gcl_hard.commands.embed", "bench"),
    "evaluate": ("gcl_hard.commands.evaluate", "bench"),
    "export": ("gcl_hard.commands.export", "bench"),
    "fit": ("gcl_hard.training.loop", ""),
    "load_encoder": ("gcl_hard.commands.encoders", "bench"),
    "load_pretrained": ("gcl_hard.molecules.pretraining", "graphs"),
    "pretrain_encoder": ("gcl_hard.commands.pretrain", "bench"),
    "study": ("gcl_hard.commands.study", "tune"),
}
"""Names that are imported on first use, their modules, and the extras that these need."""


_PACKAGES = (
    "evaluation", "experiments", "functional", "graphs", "images", "links", "losses", "molecules",
    "nodes", "theory", "training", "tuning",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, extra = _LAZY[name]
    if extra:
        check_extra(extra, f"gcl_hard.{name}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_PACKAGES})
