"""The best settings as a config: read back by bench it is the same config, bit for bit."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from gcl_hard.experiments.options import LISTED, parse_bench

from gcl_hard.experiments.config import GraphConfig, ImageConfig, RunConfig
from gcl_hard.methods import METHODS
from gcl_hard.reports.study_page import (
    best_yaml,
)

ODD: dict[str, Any] = {"lr": 1e-05, "weight_decay": 1e-06, "batch_size": 17}
SETTINGS: list[tuple[type[RunConfig], dict[str, Any]]] = [
    (GraphConfig, {**ODD, "protocol": "inductive", "beta": math.pi}),
    (GraphConfig, {"contrast": "two-view", "strength": 0.1 + 0.2, "temperature": 1e-05}),
    (GraphConfig, {"objective": "infonce", "epochs": 3, "dim": 5}),
    (
        ImageConfig,
        {**ODD, "dataset": "CIFAR10", "beta": 1e22, "probe_lr": (1e-05, 0.2), "flip": 0.1},
    ),
    (ImageConfig, {"positives": "class", "subset": 100, "size": 16, "probe": "logistic"}),
]


@pytest.mark.parametrize(
    ("kind", "settings", "method"),
    [
        *((kind, {}, method) for kind in (GraphConfig, ImageConfig) for method in METHODS),
        *((kind, settings, "hscl") for kind, settings in SETTINGS),
        (GraphConfig, {**ODD, "threshold_start": -1 / 3}, "hscl-tau"),
    ],
)
def test_bench_reads_exactly_this_config(
    kind: type[RunConfig], settings: dict[str, Any], method: str, tmp_path: Path
) -> None:
    config = kind(method=method, **settings)  # type: ignore[call-arg]
    file = tmp_path / "best.yaml"
    file.write_text(best_yaml(config, "head"), encoding="utf-8")
    assert parse_bench(["--config", str(file)]).configs == (config,)


@pytest.mark.parametrize(("kind", "settings"), SETTINGS)
def test_every_yaml_reader_reads_the_same_numbers(
    kind: type[RunConfig], settings: dict[str, Any]
) -> None:
    config = kind(method="hcl", class_prior=0.1234567890123456, **settings)  # type: ignore[call-arg]
    read = yaml.safe_load(best_yaml(config, "head"))
    for name, value in dataclasses.asdict(config).items():
        if name not in read:
            assert value is None
            continue
        found = read[name]
        if name in LISTED:
            (found,) = found
        same = tuple(found) if isinstance(found, list) else found
        assert (same, type(same)) == (value, type(value)), name


def test_the_head_is_a_comment_of_as_many_lines() -> None:
    text = best_yaml(GraphConfig(), "one\n\n  two: [")
    assert text.startswith("# one\n#\n#   two: [\n\ndataset: [MUTAG]\n")


def test_names_that_yaml_takes_for_something_else_stay_names() -> None:
    read = yaml.safe_load(best_yaml(GraphConfig(dataset="1e5"), "head"))
    assert read["dataset"] == ["1e5"]
    assert yaml.safe_load(best_yaml(GraphConfig(dataset="no"), "head"))["dataset"] == ["no"]
