"""Settings of floors: what one reads tells its cells apart, and nothing else does."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gcl_hard.errors import InputError
from gcl_hard.experiments.cells import from_dict
from gcl_hard.experiments.graph_cell import FLOORS, GraphCell
from gcl_hard.experiments.graph_seeds import run_seed
from gcl_hard.graphs import GraphSet
from gcl_hard.methods import METHODS

GIN = {"encodings", "layers", "dim", "readout", "jk", "edge_labels", "virtual_node"}
OPTIMISATION = {"epochs", "lr", "lr_schedule", "weight_decay"}
READ: dict[str, set[str]] = {
    "majority": set(),
    "graph-size": {"standardise", "c_grid", "train_share"},
    "label-histogram": {"features", "standardise", "c_grid", "train_share"},
    "wl": {"features", "c_grid", "train_share"},
    "wl-oa": {"features", "c_grid", "train_share"},
    "untrained": {"features", "standardise", "kernel", "c_grid", "train_share", *GIN},
    "supervised": {"features", "batch_size", "data_seed", "train_share", *GIN, *OPTIMISATION},
}
"""What each floor is made from, beside data set and folds."""

OTHER: dict[str, Any] = {
    "dataset": "PTC_MR",
    "beta": 2.0,
    "beta_changes": 4,
    "threshold_start": -0.25,
    "threshold_end": -0.05,
    "temperature": 0.2,
    "class_prior": 0.2,
    "objective": "infonce",
    "contrast": "two-view",
    "augmentations": ("drop-nodes",),
    "strength": 0.3,
    "detach_weights": True,
    "epochs": 100,
    "batch_size": 64,
    "lr": 0.001,
    "lr_schedule": "cosine",
    "weight_decay": 1e-4,
    "layers": 4,
    "dim": 64,
    "readout": "mean",
    "features": "constant",
    "standardise": False,
    "folds": 5,
    "data_seed": 1,
    "jk": "last",
    "edge_labels": True,
    "virtual_node": True,
    "encodings": ("degree",),
    "kernel": "rbf+wl",
    "c_grid": (0.5, 2.0),
    "train_share": 0.5,
}
"""A value that is not the default, of every setting but method and protocol."""


def floor(name: str, **settings: Any) -> GraphCell:
    return GraphCell(**{"method": name, **settings})


class Spy:
    """A cell that remembers which settings were read."""

    def __init__(self, cell: GraphCell) -> None:
        self.cell, self.read = cell, set[str]()

    def __getattr__(self, name: str) -> Any:
        self.read |= OPTIMISATION if name == "optimisation" else {name}
        return getattr(self.cell, name)


def small_set() -> GraphSet:
    """24 graphs of two classes: edges, and paths of three nodes."""
    graphs = []
    for i in range(24):
        pairs = [(0, 1), (1, 0)] + [(1, 2), (2, 1)] * (i % 2)
        x = torch.eye(3)[: 2 + i % 2]
        edges = torch.tensor(pairs).T
        graphs.append(
            SimpleNamespace(x=x, edge_index=edges, edge_attr=None, y=i % 2, num_nodes=len(x))
        )
    return GraphSet.from_graphs(graphs)


@pytest.mark.parametrize("name", READ)
def test_running_a_floor_reads_what_is_said_here(name: str) -> None:
    """So that the tests below stand on what happens; columns are read where sets are loaded."""
    spy = Spy(floor(name, folds=2, epochs=1, layers=1, dim=4))
    run_seed(spy, small_set(), 0)  # type: ignore[arg-type]
    settings = {field.name for field in fields(GraphCell)}
    always = {"method", "folds"} | ({"train_share"} if name == "majority" else set())  # it is 1
    assert spy.read & settings - always == READ[name] - {"features", "encodings"}


def test_the_tables_here_are_whole() -> None:
    assert set(OTHER) == {field.name for field in fields(GraphCell)} - {"method", "protocol"}
    assert set(READ) == set(FLOORS)
    assert not set(FLOORS) & set(METHODS)


@pytest.mark.parametrize("setting", OTHER)
@pytest.mark.parametrize("name", READ)
def test_exactly_what_a_floor_reads_makes_another_cell_of_it(name: str, setting: str) -> None:
    plain, changed = floor(name), floor(name, **{setting: OTHER[setting]})
    read = setting in {"dataset", "folds", *READ[name]}
    assert (changed != plain) == read
    assert (changed.key() != plain.key()) == read
    assert (getattr(changed, setting) == OTHER[setting]) == read


@pytest.mark.parametrize("name", READ)
def test_settings_that_are_read_differ_in_pairs_too(name: str) -> None:
    read = {s: OTHER[s] for s in ("dataset", "folds", *READ[name])}
    cells = [floor(name, **{s: value}) for s, value in read.items()]
    cells += [floor(name), floor(name, **OTHER)]
    assert len(set(cells)) == len({cell.key() for cell in cells}) == len(read) + 2
    assert floor(name, **OTHER) == floor(name, **read)


@pytest.mark.parametrize("name", READ)
def test_a_floor_is_inductive_whatever_is_asked(name: str) -> None:
    cells = [floor(name, protocol=protocol) for protocol in ("paper", "inductive")]
    assert cells[0] == cells[1]
    assert [cell.protocol for cell in cells] == ["inductive"] * 2
    assert cells[0].key().startswith(f"MUTAG_{name}_inductive_")
    with pytest.raises(InputError, match="unknown protocol 'papre'"):
        floor(name, protocol="papre")


@pytest.mark.parametrize("name", READ)
def test_case_does_not_matter(name: str) -> None:
    for spelling in (name.upper(), name.title()):
        cell = floor(spelling, protocol="paper", beta=7.0)
        assert (cell, cell.key(), cell.method) == (floor(name), floor(name).key(), name)
        assert cell.is_floor


@pytest.mark.parametrize("name", READ)
def test_a_floor_has_nothing_of_a_contrastive_loss(name: str) -> None:
    cell = floor(name, **OTHER)
    for setting in ("beta", "threshold_start", "threshold_end", "temperature", "class_prior",
                    "objective", "augmentations", "strength"):  # fmt: skip
        assert getattr(cell, setting) is None, setting
    assert (cell.beta_changes, cell.contrast, cell.detach_weights) == (0, "local-global", False)
    assert "β" not in str(cell)


@pytest.mark.parametrize("name", READ)
def test_a_floor_survives_json_and_is_its_own_normal_form(name: str) -> None:
    for cell in (floor(name), floor(name, **OTHER), floor(name, lr=1, weight_decay=0)):
        again = from_dict(json.loads(json.dumps(asdict(cell))))
        assert (again, again.key(), hash(again)) == (cell, cell.key(), hash(cell))
        assert replace(cell) == cell
    assert floor(name, lr=1) == floor(name, lr=1.0)


@pytest.mark.parametrize("name", READ)
def test_a_stored_floor_without_a_setting_at_its_default_is_the_same_cell(name: str) -> None:
    cell = floor(name, folds=7)
    for setting in set(asdict(cell)) - {"method", "folds"}:
        older = {k: v for k, v in json.loads(json.dumps(asdict(cell))).items() if k != setting}
        assert from_dict(older) == cell, setting


def test_only_supervised_trains_encoders_one_for_every_fold() -> None:
    counts = {name: floor(name, folds=4, protocol="paper").encoders for name in READ}
    assert counts == {**dict.fromkeys(READ, 0), "supervised": 4}
    assert GraphCell(folds=4).encoders == 1
    assert GraphCell(folds=4, protocol="inductive").encoders == 4
    assert not GraphCell().is_floor
    assert all(floor(name).is_floor for name in READ)


def test_an_unknown_method_is_told_of_methods_and_floors() -> None:
    with pytest.raises(InputError) as caught:
        floor("nothing-like-it")
    known = str(caught.value).rpartition("known: ")[2].split(", ")
    assert sorted(known) == sorted([*METHODS, *READ])


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("majorty", "majority"),
        ("graphsize", "graph-size"),
        ("wl_oa", "wl-oa"),
        ("Untraind", "untrained"),
        ("supervise", "supervised"),
        ("hslc", "hscl"),
    ],
)
def test_a_misspelt_floor_is_recognised(wrong: str, meant: str) -> None:
    with pytest.raises(InputError, match=rf"unknown method '{wrong}'; did you mean .*\b{meant}\b"):
        floor(wrong)


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("majority", {"folds": 1}, "folds must be at least 2, got 1"),
        ("untrained", {"dim": 0}, "dim must be at least 1, got 0"),
        ("supervised", {"lr": 0.0}, "lr must be .*above 0, got 0"),
        ("supervised", {"epochs": 0}, "epochs must be at least 1, got 0"),
        ("supervised", {"batch_size": 1}, "batch-size must be at least 2, got 1"),
        ("wl", {"features": "degree-onehto"}, "degree-onehot"),
    ],
)
def test_a_setting_that_a_floor_reads_is_checked(
    name: str, settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        floor(name, **settings)
