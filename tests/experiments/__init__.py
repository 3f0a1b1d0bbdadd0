"""Results made by hand, and small experiments that train in a moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gcl_hard.experiments.record import RunResult, digest_of
from gcl_hard.experiments.settings import RunConfig, as_json
from gcl_hard.graphs.settings import GraphConfig


def record(config: RunConfig, seed: int, accuracies: list[float], **changed: Any) -> RunResult:
    """A result of a configuration with the accuracies given, in percent."""
    values: dict[str, Any] = {
        "config": as_json(config),
        "domain": config.domain,
        "seed": seed,
        "scores": {"accuracy": accuracies},
        "fold_c": [1.0] * len(accuracies),
        "final_losses": [0.5],
        "seconds_train": 20.0,
        "seconds_eval": 3.0,
        "data": {"n_graphs": 188, "n_classes": 2, "n_features": 7, "features": "labels"},
        "device": "CPU",
        "versions": {"torch": "2.8"},
        "finished": "2026-01-01T00:00:00+00:00",
    }
    return RunResult(**{**values, **changed})


def small(method: str = "hscl", contrast: str | None = None, **settings: Any) -> GraphConfig:
    """Two epochs of a narrow encoder, and three folds."""
    return GraphConfig(
        **{"method": method, "contrast": contrast, "epochs": 2, "batch_size": 64, "layers": 2,
           "dim": 4, "folds": 3, **settings}
    )  # fmt: skip


def rewrite(path: Path, **changed: Any) -> None:
    """Change fields of a single file, None for none, as another version might write it."""
    content = json.loads(path.read_text(encoding="utf-8")) | changed
    content = {name: value for name, value in content.items() if value is not None}
    del content["digest"]
    path.write_text(json.dumps({**content, "digest": digest_of(content)}))
