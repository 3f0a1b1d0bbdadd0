"""Contrastive learning with hard negatives, on graphs first, with the same parts on other data.

A negative distribution is an admission rule times a hardening function; a loss is an objective
taken under that distribution; kinds of data only differ in how they make embeddings.

Names are imported when they are used: losses and samplers need torch and nothing heavier; the
backends are ``gcl_hard.graphs``, ``nodes``, ``links``, ``molecules``, ``images``, ``vectors`` and
``texts``.
"""

from importlib import import_module
from typing import Any

from gcl_hard.core.lazy import lazy
from gcl_hard.version import __version__ as __version__

_named, __dir__, __all__ = lazy(__name__, __file__, {
    **dict.fromkeys((
        "embed", "evaluate", "export", "load_encoder", "load_links_model", "pretrain_encoder",
        "save_links_model",
    ), "bench"),
    "load_pretrained": "graphs", "study": "tune",
})  # fmt: skip
_PACKAGES = (
    "evaluation", "experiments", "functional", "graphs", "images", "links", "losses", "molecules",
    "nodes", "texts", "theory", "training", "tuning", "vectors",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    return import_module(f"{__name__}.{name}") if name in _PACKAGES else _named(name)
