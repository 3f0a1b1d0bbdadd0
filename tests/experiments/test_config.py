"""A cell's settings: what is refused, what counts as the same experiment, what names its files."""

from __future__ import annotations

import json
import string
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcl_hard.errors import InputError
from gcl_hard.experiments.cell import defaults
from gcl_hard.experiments.cells import from_dict
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.functional.hardening import Exponential, Hardening, Threshold

CELLS = Path(__file__).parents[2] / "benchmarks" / "results" / "cells"

TWO_VIEW = {"contrast": "two-view"}
CHANGED: dict[str, tuple[dict[str, Any], Any]] = {
    "dataset": ({}, "PTC_MR"),
    "method": ({}, "hucl"),
    "protocol": ({}, "inductive"),
    "beta": ({}, 2.0),
    "beta_changes": ({}, 4),
    "threshold_start": ({"method": "hscl-tau"}, -0.25),
    "threshold_end": ({"method": "hscl-tau"}, -0.05),
    "temperature": ({"objective": "infonce"}, 0.2),
    "class_prior": ({"method": "dcl"}, 0.2),
    "objective": ({}, "infonce"),
    "contrast": ({}, "two-view"),
    "augmentations": (TWO_VIEW, ("drop-nodes",)),
    "strength": (TWO_VIEW, 0.3),
    "detach_weights": ({}, True),
    "epochs": ({}, 100),
    "batch_size": ({}, 64),
    "lr": ({}, 0.001),
    "lr_schedule": ({}, "cosine"),
    "weight_decay": ({}, 1e-4),
    "layers": ({}, 4),
    "dim": ({}, 64),
    "readout": ({}, "mean"),
    "features": ({}, "constant"),
    "standardise": ({}, False),
    "folds": ({}, 5),
    "data_seed": ({}, 1),
    "jk": ({}, "last"),
    "edge_labels": ({}, True),
    "virtual_node": ({}, True),
    "encodings": ({}, ("degree",)),
    "kernel": ({}, "rbf+wl"),
    "c_grid": ({}, (0.5, 2.0)),
    "train_share": ({"protocol": "inductive"}, 0.5),
}
"""Every setting: under which others it applies, and a value that is not its default."""


def test_defaults_are_the_papers() -> None:
    cell = GraphCell()
    assert (cell.dataset, cell.method, cell.protocol, cell.beta) == ("MUTAG", "hscl", "paper", 1.0)
    assert (cell.epochs, cell.lr, cell.batch_size, cell.layers, cell.dim) == (200, 0.01, 128, 3, 32)
    assert (cell.objective, cell.contrast, cell.folds) == ("jsd", "local-global", 10)


# The same experiment, however it was asked for


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"objective": "jsd"}),
        ({}, {"strength": 0.7, "augmentations": ("drop-nodes",)}),
        ({}, {"threshold_start": -1.0, "threshold_end": 1.0}),
        ({"method": "ucl"}, {"method": "UCL", "beta": 7.0, "beta_changes": 3}),
        ({"method": "dcl"}, {"method": "dcl", "class_prior": 0.1, "beta": None}),
        ({"method": "hscl-tau"}, {"method": "hscl-tau", "beta": 3.0, "threshold_start": -0.5}),
        ({"objective": "infonce"}, {"objective": "infonce", "temperature": 0.5}),
        (
            TWO_VIEW,
            {
                **TWO_VIEW,
                "objective": "infonce",
                "temperature": 0.5,
                "augmentations": ("mask-attributes", "perturb-edges"),
                "strength": 0.2,
            },
        ),
        ({"beta": 2.0}, {"beta": 2}),
        ({"lr": 1.0, "weight_decay": 1.0}, {"lr": 1, "weight_decay": 1}),
    ],
)
def test_equal_settings_are_equal_cells_with_equal_keys(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert GraphCell(**one) == GraphCell(**other)
    assert GraphCell(**one).key() == GraphCell(**other).key()


def test_every_setting_changes_the_key() -> None:
    assert set(CHANGED) == {field.name for field in fields(GraphCell)}
    for name, (others, value) in CHANGED.items():
        plain, changed = GraphCell(**others), GraphCell(**{**others, name: value})
        assert getattr(changed, name) == value
        assert changed.key() != plain.key(), name
    keys = {GraphCell(**{**others, name: v}).key() for name, (others, v) in CHANGED.items()}
    assert len(keys) == len(CHANGED)


@pytest.mark.parametrize("method", ["ucl", "dcl", "hucl", "hcl", "scl", "hscl", "hscl-tau"])
@pytest.mark.parametrize("contrast", ["local-global", "two-view"])
def test_a_stored_config_without_a_setting_at_its_default_is_the_same_cell(
    method: str, contrast: str
) -> None:
    cell = GraphCell(method=method, contrast=contrast, epochs=7)  # type: ignore[arg-type]
    stored = json.loads(json.dumps(asdict(cell)))
    for name in set(stored) - {"method", "contrast", "epochs"}:
        older = {key: value for key, value in stored.items() if key != name}
        assert from_dict(older) == cell, name
        assert from_dict(older).key() == cell.key(), name


def test_a_stored_config_with_a_setting_from_the_future_is_refused() -> None:
    with pytest.raises(InputError, match="unknown settings: colour, shape"):
        from_dict({**asdict(GraphCell()), "shape": 1, "colour": 2})


@given(
    method=st.sampled_from(["ucl", "hucl", "hscl", "hscl-tau"]),
    beta=st.floats(0, 100),
    threshold=st.floats(-1, 1),
    lr=st.floats(1e-6, 10),
    contrast=st.sampled_from(["local-global", "two-view"]),
    epochs=st.integers(1, 1000),
)
def test_a_cell_survives_json_and_is_its_own_normal_form(**settings: Any) -> None:
    settings["threshold_start"] = settings.pop("threshold")
    cell = GraphCell(**settings)
    again = from_dict(json.loads(json.dumps(asdict(cell))))
    assert (again, again.key()) == (cell, cell.key())
    assert replace(cell) == cell


def test_a_key_begins_readably_and_fits_into_a_file_name() -> None:
    key = GraphCell(dataset="IMDB-BINARY", method="hscl-tau", protocol="inductive").key()
    assert key.startswith("IMDB-BINARY_hscl-tau_inductive_")
    assert set(key) <= set(string.ascii_letters + string.digits + "_-")


def test_names_of_published_records_are_the_keys_of_their_configs() -> None:
    paths = sorted(CELLS.glob("*_seed*.json"))
    if not paths:
        pytest.skip(f"no records in {CELLS.name}")
    for path in paths:
        stored = json.loads(path.read_text(encoding="utf-8"))
        inner = "_inner" if stored.get("inner") else ""
        assert path.stem == f"{from_dict(stored['config']).key()}{inner}_seed{stored['seed']}"


# What is refused


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"method": "hslc"}, "unknown method 'hslc'; did you mean hscl"),
        ({"protocol": "papre"}, "unknown protocol 'papre'; did you mean paper"),
        ({"contrast": "two-veiw"}, "unknown contrast 'two-veiw'; did you mean two-view"),
        ({"lr_schedule": "cosin"}, "unknown lr-schedule 'cosin'; did you mean cosine"),
        ({"readout": "max"}, "unknown readout 'max'.*sum, mean"),
        ({"objective": "jds"}, "unknown objective 'jds'"),
        ({"beta": -1.0}, "beta .*at least 0, got -1"),
        ({"beta": None}, "hscl needs a beta"),
        ({"beta_changes": -1}, "beta-changes must be at least 0, got -1"),
        ({"method": "hscl-tau", "threshold_start": 1.5}, r"threshold-start .*\[-1, 1\], got 1.5"),
        ({"method": "hscl-tau", "threshold_end": -1.01}, r"threshold-end .*\[-1, 1\], got -1.01"),
        ({"objective": "infonce", "temperature": 0.0}, "temperature .*above 0, got 0"),
        ({"temperature": 0.5}, "temperature .*JSD"),
        ({"class_prior": 0.1}, "class prior 0.1 with hscl.*label-aware"),
        ({"method": "scl", "class_prior": 0.1}, "class prior 0.1 with scl.*label-aware"),
        ({"method": "hscl-tau", "class_prior": 0.1}, "class prior 0.1 with hscl-tau.*label-aware"),
        ({"method": "ucl", "class_prior": 0.1}, "class prior 0.1 with ucl: only dcl, hcl"),
        ({"method": "dcl", "class_prior": 1.0}, r"\[0, 1\), got 1"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"batch_size": 1}, "batch-size must be at least 2, got 1"),
        ({"layers": 0}, "layers must be at least 1, got 0"),
        ({"dim": 0}, "dim must be at least 1, got 0"),
        ({"folds": 1}, "folds must be at least 2, got 1"),
        ({"data_seed": -1}, "data-seed must be at least 0, got -1"),
        ({"lr": 0.0}, "lr must be .*above 0, got 0"),
        ({"weight_decay": -0.1}, "weight-decay must be .*at least 0, got -0.1"),
    ],
)
def test_a_value_that_means_nothing_is_refused_by_name(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        GraphCell(**settings)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    "name",
    ["beta", "threshold_start", "threshold_end", "temperature", "class_prior", "strength", "lr",
     "weight_decay"],
)  # fmt: skip
def test_no_number_may_be_nan_or_infinite(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{name.replace('_', '-')} must be a finite number"):
        from_dict({name: value})


@pytest.mark.parametrize("name", ["threshold_start", "threshold_end"])
def test_a_threshold_method_without_a_threshold_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=name.replace("_", "-")):
        from_dict({"method": "hscl-tau", name: None})


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "ucl", "beta": -1.0},
        {"method": "hscl", "threshold_start": 1.5},
        {"method": "hscl", "threshold_end": -1.5},
    ],
)
def test_a_number_out_of_range_is_refused_by_methods_that_do_not_use_it(
    settings: dict[str, Any],
) -> None:
    with pytest.raises(InputError, match=r"beta|threshold"):
        GraphCell(**settings)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({**TWO_VIEW, "strength": 1.0}, "strength"),
        ({**TWO_VIEW, "augmentations": ("drop-node",)}, "drop-nodes"),
        ({"features": "degree-onehto"}, "degree-onehot"),
    ],
)
def test_an_unknown_name_is_refused_before_anything_is_loaded(
    settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        GraphCell(**settings)


# What the settings make


def hardening_at(cell: GraphCell, epoch: int) -> Hardening:
    loss = cell.loss()
    loss.set_epoch(epoch, cell.epochs)
    return loss.sampler.current


def test_the_threshold_runs_from_start_to_end_over_the_epochs() -> None:
    cell = GraphCell(method="hscl-tau", threshold_start=-0.4, threshold_end=0.2, epochs=3)
    for epoch, expected in ((1, -0.4), (2, -0.1), (3, 0.2)):
        now = hardening_at(cell, epoch)
        assert isinstance(now, Threshold)
        assert now.cosine == pytest.approx(expected)


def test_beta_is_constant_unless_it_is_annealed() -> None:
    for changes, expected in ((0, [4.0, 4.0, 4.0, 4.0]), (2, [4.0, 2.0, 2.0, 0.0])):
        cell = GraphCell(beta=4.0, beta_changes=changes, epochs=4)
        now = [hardening_at(cell, epoch) for epoch in (1, 2, 3, 4)]
        assert [getattr(h, "beta", None) for h in now] == expected
        assert isinstance(now[0], Exponential)


def test_defaults_of_the_dataclass_are_known_for_every_field() -> None:
    assert set(defaults(GraphCell)) == {field.name for field in fields(GraphCell)}
