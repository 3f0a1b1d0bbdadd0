"""Tiny image sets, in memory and in the forms that files have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchvision import datasets as tv

from gcl_hard.images import KNOWN
from gcl_hard.images.augment import ViewRecipe, Views
from gcl_hard.images.datasets import (
    Split,
)

REAL = Path(__file__).parents[3] / "shared" / "data" / "images"
NOWHERE = "http://127.0.0.1:9"
rng = np.random.default_rng(0)


def set_url(monkeypatch: pytest.MonkeyPatch, name: str, url: str, checksum: str = "") -> None:
    known = KNOWN[name]._replace(url=url, checksum=checksum)
    monkeypatch.setitem(KNOWN, name, known)
    if hasattr(tv, name):
        monkeypatch.setattr(getattr(tv, name), "url", url)


def pixels(n: int, side: int = 6) -> NDArray[np.uint8]:
    return rng.integers(0, 256, (n, side, side, 3), dtype=np.uint8)


def arrays(n_train: int = 5, n_test: int = 3, **changed: Any) -> dict[str, Any]:
    """A mirror file's arrays with three classes; an entry of None is left out."""
    stored = {
        "train_images": pixels(n_train), "train_labels": np.arange(n_train) % 3,
        "test_images": pixels(n_test), "test_labels": np.arange(n_test) % 3,
        "class_names": np.array(["ant", "bee", "cow"]),
    }  # fmt: skip
    return {key: value for key, value in (stored | changed).items() if value is not None}


def write(folder: Path, name: str = "Mine", **changed: Any) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    stored = arrays(**changed)
    np.savez(folder / f"{name}.npz", **stored)
    return stored


def same(split: Split, images: NDArray[Any], labels: Any) -> bool:
    """Pixel by pixel, in the order n, row, column, channel."""
    back = split.images.permute(0, 2, 3, 1).numpy()
    return np.array_equal(back, images) and split.labels.tolist() == list(labels)


def images(n: int, size: int = 8, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, 3, size, size), generator=generator, dtype=torch.uint8)


def views(recipe: ViewRecipe | None = None, size: int = 8) -> Views:
    return Views(recipe or ViewRecipe(), size=size, mean=(0.5,) * 3, std=(0.25,) * 3)
