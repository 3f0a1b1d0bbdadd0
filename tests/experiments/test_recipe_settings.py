"""Settings of recipes: what they name, what is refused, and which of them training sees."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gcl_hard.errors import InputError
from gcl_hard.experiments.cell import defaults
from gcl_hard.experiments.cells import from_dict
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.groups import groups
from gcl_hard.experiments.jobs import Job
from tests.experiments.small_cells import two_view

CELLS = Path(__file__).parents[2] / "benchmarks" / "results" / "cells"
NEW = ("jk", "edge_labels", "virtual_node", "encodings", "kernel", "c_grid", "train_share")


@pytest.mark.parametrize(
    "name",
    [
        "MUTAG_hscl_paper_*_seed0.json", "ENZYMES_ucl_inductive_*.json",
        "PTC_MR_wl_inductive_*_seed0.json", "MUTAG_supervised_inductive_*_seed0.json",
        "IMDB-BINARY_untrained_inductive_*_seed0.json",
    ],
)  # fmt: skip
def test_finished_cells_keep_their_names(name: str) -> None:
    paths = sorted(CELLS.glob(name))
    assert paths
    for path in paths:
        config = json.loads(path.read_text(encoding="utf-8"))["config"]
        cell = from_dict(config)
        assert path.name.startswith(f"{cell.key()}_")
        again = json.loads(json.dumps({**config, **{n: getattr(cell, n) for n in NEW}}))
        assert from_dict(again) == cell


@pytest.mark.parametrize(
    "changed",
    [
        {"jk": "last"}, {"edge_labels": True}, {"virtual_node": True}, {"encodings": ("wl",)},
        {"kernel": "linear"}, {"c_grid": (1.0,)}, {"readout": "both"},
        {"protocol": "inductive", "train_share": 0.5},
    ],
)  # fmt: skip
def test_every_new_setting_is_in_the_name(changed: dict[str, Any]) -> None:
    plain = GraphCell(protocol=changed.get("protocol", "paper"))
    cell = replace(plain, **changed)
    assert cell.key() != plain.key()
    assert from_dict(json.loads(json.dumps(vars(cell)))) == cell


def test_empty_lists_and_whole_numbers_are_one_experiment() -> None:
    assert GraphCell(encodings=(), c_grid=()) == GraphCell()
    assert GraphCell(c_grid=(1, 10)) == GraphCell(c_grid=(1.0, 10.0))
    assert GraphCell(c_grid=(1, 10)).key() == GraphCell(c_grid=(1.0, 10.0)).key()
    floor = GraphCell(method="wl", c_grid=[1, 10])  # type: ignore[arg-type]
    assert floor.c_grid == (1.0, 10.0)


@pytest.mark.parametrize(
    ("method", "read"),
    [
        ("majority", set()),
        ("wl", {"c_grid", "train_share"}),
        ("graph-size", {"c_grid", "train_share"}),
        ("untrained", set(NEW)),
        ("supervised", {"jk", "edge_labels", "virtual_node", "encodings", "train_share"}),
    ],
)
def test_a_floor_has_the_settings_that_it_reads_alone(method: str, read: set[str]) -> None:
    every = {
        "jk": "last", "edge_labels": True, "virtual_node": True, "encodings": ("wl",),
        "kernel": "linear", "c_grid": (1.0,), "train_share": 0.5,
    }  # fmt: skip
    assert set(every) == set(NEW)
    cell, default = GraphCell(method=method, **every), defaults(GraphCell)
    assert {name for name in NEW if getattr(cell, name) != default[name]} == read


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"jk": "lats"}, "unknown jk 'lats'; did you mean last"),
        ({"kernel": "rbf+wloa"}, r"unknown kernel 'rbf\+wloa'; did you mean rbf\+wl"),
        ({"readout": "bth"}, "unknown readout 'bth'; did you mean both"),
        ({"encodings": ("cycels",)}, "unknown encoding 'cycels'; did you mean cycles"),
        ({"encodings": ("wl", "wl")}, "encoding 'wl' is named twice"),
        ({"c_grid": (1.0, 0.0)}, r"c-grid holds penalties C > 0, got \(1.0, 0.0\)"),
        ({"c_grid": (float("nan"),)}, "c-grid holds penalties C > 0"),
        ({"c_grid": (float("inf"),)}, "c-grid holds penalties C > 0"),
        ({"protocol": "inductive", "train_share": 0.0}, r"train-share is in \(0, 1\], got 0"),
        ({"protocol": "inductive", "train_share": 1.5}, r"train-share is in \(0, 1\], got 1.5"),
        ({"train_share": 0.5}, "under protocol paper encoders see all graphs"),
    ],
)  # fmt: skip
def test_cells_refuse(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        GraphCell(**settings)


def test_trained_leaves_out_what_only_the_svm_sees() -> None:
    cell = two_view(kernel="linear", standardise=False, c_grid=(1.0,), virtual_node=True)
    assert cell.trained == two_view(virtual_node=True)
    assert Job(cell, 3, inner=True).trained == Job(cell.trained, 3, inner=True)
    fields = set(defaults(GraphCell)) - {"kernel", "standardise", "c_grid"}
    assert all(getattr(cell, name) == getattr(cell.trained, name) for name in fields)


@pytest.mark.parametrize(
    ("dataset", "there"),
    [
        ("MUTAG", True), ("PTC_MR", True), ("PROTEINS", True), ("ENZYMES", False),
        ("IMDB-MULTI", False),
    ],
)  # fmt: skip
def test_edge_labels_train_apart_unless_a_set_is_known_to_have_none(
    dataset: str, there: bool
) -> None:
    with_edges, without = (two_view(dataset=dataset, edge_labels=given) for given in (True, False))
    assert (with_edges.trained != without.trained) is there
    assert (with_edges.together != without.together) is there
    found = groups([Job(with_edges, 0), Job(without, 0)], members=1)
    assert len(found) == 1 + there
