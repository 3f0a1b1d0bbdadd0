"""Dimensions, and the commands that search them."""

from __future__ import annotations

from typing import Any

import pytest
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.image_cell import ImageCell

from gcl_hard.errors import InputError
from gcl_hard.tuning.space import Base, Space

LR = {"type": "float", "low": 1e-4, "high": 0.1, "log": True}
BETA = {"type": "float", "low": 0.1, "high": 20, "log": True}
HARDENED = {**BETA, "when": {"method": ["hucl", "hcl", "hscl"]}}
COSINE = {"type": "float", "low": -1, "high": 0.5, "when": {"method": ["hscl-tau"]}}
THRESHOLDS = {"threshold_start": COSINE, "threshold_end": COSINE}


def graphs(method: str = "hscl", **settings: Any) -> Base:
    return Base(GraphCell, {"method": method, **settings})


def images(method: str = "hscl", **settings: Any) -> Base:
    return Base(ImageCell, {"method": method, **settings})


def methods(*names: Any) -> dict[str, Any]:
    return {"type": "categorical", "choices": list(names)}


def refusal(space: Any, base: Base | None = None, *, encoder: bool = False) -> str:
    with pytest.raises(InputError) as caught:
        Space.of(space).fitted(base or graphs(), encoder=encoder)
    return str(caught.value)
