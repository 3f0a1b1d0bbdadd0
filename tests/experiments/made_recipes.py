"""A recipe that is made up, and folders that recipes are looked for in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gcl_hard.graphs import presets

RECIPE: dict[str, Any] = {
    "contrast": "two-view", "objective": "infonce", "temperature": 0.2,
    "augmentations": ("drop-nodes",), "strength": 0.1, "lr": 0.002, "lr_schedule": "cosine",
    "epochs": 7, "batch_size": 64, "layers": 2, "dim": 16, "readout": "both", "virtual_node": True,
    "encodings": ("degree", "cycles"), "kernel": "linear", "c_grid": (0.1, 1.0), "beta": 2.0,
}  # fmt: skip
"""Not the recipe that comes with the package."""


def put(folder: Path, name: str, settings: dict[str, Any]) -> None:
    """A recipe as a file."""
    stated = {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(stated), encoding="utf-8")


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that recipes are looked for in: it has one for all sets."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    monkeypatch.setattr(presets, "RECIPE_FOLDERS", (folder,))
    put(folder, "all", RECIPE)
    return folder
