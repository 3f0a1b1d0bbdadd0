"""Searches as files: what they mean, and what is said of those that mean nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gcl_hard.errors import InputError
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.recipe.levers import Search, checked, read_search, said
from tests.experiments.recipe.made_up import search_of

SHIPPED = Path(__file__).parents[3] / "configs" / "search" / "recipe.yaml"
STATED: dict[str, Any] = {
    "dataset": ["ptc", "MUTAG"], "method": ["untrained", "HSCL"], "seeds": [3, 1], "folds": 4,
    "start": {"contrast": "two-view", "lr": 0.002, "augmentations": ["drop-nodes"]},
    "levers": {"rate": [{"lr": 0.1}, {"lr": 1}], "grid": [{"c_grid": [1, 10]}]},
}  # fmt: skip


def read(folder: Path, **changed: Any) -> Search:
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(STATED | changed, sort_keys=False), encoding="utf-8")
    return read_search(path)


def refusal(folder: Path, text: str | None = None, **changed: Any) -> str:
    """What is said of a file; of any, that it is this one."""
    path = folder / "mine.yaml"
    path.write_text(
        yaml.safe_dump(STATED | changed, sort_keys=False) if text is None else text,
        encoding="utf-8",
    )
    with pytest.raises(InputError) as caught:
        read_search(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


# Files


def test_a_file_is_read_as_it_is_stated(tmp_path: Path) -> None:
    search = read(tmp_path)
    assert search.datasets == ("PTC_MR", "MUTAG")
    assert (search.methods, search.deciding) == (("untrained", "hscl"), ("hscl",))
    assert (tuple(search.seeds), search.folds) == ((3, 1), 4)
    start = {"contrast": "two-view", "lr": 0.002, "augmentations": ("drop-nodes",)}
    assert search.start == start
    assert [(a.lever, a.settings) for a in search.levers] == [
        ("rate", {"lr": 0.1}), ("rate", {"lr": 1.0}), ("grid", {"c_grid": (1.0, 10.0)}),
    ]  # fmt: skip
    assert search.cell("MUTAG", "hscl", {"lr": 0.1}) == GraphCell(
        dataset="MUTAG", method="hscl", protocol="inductive", folds=4, **{**start, "lr": 0.1}
    )


def test_one_name_needs_no_list_and_none_counts_twice(tmp_path: Path) -> None:
    search = read(tmp_path, dataset="MUTAG", method="hucl", seeds=2)
    assert (search.datasets, search.methods) == (("MUTAG",), ("hucl",))
    assert tuple(search.seeds) == (0, 1)
    twice = read(tmp_path, dataset=["PTC", "PTC_MR"], method=["hscl", "hucl", "Hscl"])
    assert (twice.datasets, twice.methods) == (("PTC_MR",), ("hscl", "hucl"))


def test_numbers_as_yaml_misreads_them_are_numbers(tmp_path: Path) -> None:
    text = yaml.safe_dump(STATED).replace("lr: 0.002", "lr: 2e-3")
    assert yaml.safe_load(text)["start"]["lr"] == "2e-3"  # as YAML 1.1 has it
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    assert read_search(path).start["lr"] == 0.002


def test_the_shipped_search_says_what_its_file_says() -> None:
    stated, search = yaml.safe_load(SHIPPED.read_text(encoding="utf-8")), read_search(SHIPPED)
    assert set(search.datasets) == {"PTC_MR", "MUTAG", "ENZYMES", "IMDB-BINARY"}
    assert (tuple(search.seeds), search.folds) == ((0, 1, 2), 3)
    assert search.deciding == ("hucl", "hscl")
    rows = [(name, one) for name, some in stated["levers"].items() for one in some]
    assert len(rows) == len(search.levers) > 30
    for (name, one), found in zip(rows, search.levers, strict=True):
        assert found.lever == name
        assert {k: list(v) if isinstance(v, tuple) else v for k, v in found.settings.items()} == one


def test_every_row_of_the_shipped_search_changes_a_cell_and_has_a_name_of_its_own() -> None:
    search = read_search(SHIPPED)
    names = [alternative.name for alternative in search.levers]
    assert len(set(names)) == len(names)
    cells = [search.cell("MUTAG", "hscl", alternative.settings) for alternative in search.levers]
    assert len({search.cell("MUTAG", "hscl", {}), *cells}) == len(cells) + 1


def test_some_of_the_sets_leave_the_rest_as_it_is() -> None:
    search = search_of({"rate": [{"lr": 0.1}]})
    some = search.on(["imdb-b", "PTC", "ptc_mr"])
    assert some.datasets == ("IMDB-BINARY", "PTC_MR")
    assert (some.start, some.levers, some.seeds) == (search.start, search.levers, search.seeds)


# What is wrong with a file


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*gone\.yaml: No such file"):
        read_search(tmp_path / "gone.yaml")


@pytest.mark.parametrize("text", ["start: {lr: [", "\tstart: 1", "a: b: c"])
def test_what_is_no_yaml_is_named(tmp_path: Path, text: str) -> None:
    assert "is no YAML" in refusal(tmp_path, text)


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(b"\xff\xfe\x00levers")
    with pytest.raises(InputError, match=r"mine\.yaml is no YAML"):
        read_search(tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("text", "got"), [("", "NoneType"), ("- 1", "list"), ("space: {}\nbeta: 1", "space, beta")]
)
def test_another_kind_of_file_is_told_what_a_search_states(
    tmp_path: Path, text: str, got: str
) -> None:
    states = "a search states dataset, method, seeds, folds, start, levers"
    assert refusal(tmp_path, text) == f"{states}, got {got}"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"levers": [{"lr": 0.1}]}, "levers are names with lists of settings"),
        ({"levers": {"rate": {"lr": 0.1}}}, "levers are names with lists of settings"),
        ({"levers": {"rate": [0.1]}}, "levers, rate: expected settings, got 0.1"),
        ({"levers": {"rate": [{}]}}, "levers, rate: expected settings, got none"),
        ({"levers": {"r": [{"lrr": 1}]}}, "levers, r: unknown setting 'lrr'; did you mean lr"),
        ({"start": {"edge-labels": True}}, "setting 'edge-labels'; did you mean edge_labels"),
        ({"start": {"protocol": "paper"}}, "start: protocol is no part of a recipe"),
        ({"levers": {"l": [{"train_share": 0.5}]}}, "l: train_share is no part of a recipe"),
        ({"start": None}, "start: expected settings, got None"),
        ({"start": {"epochs": 2.5}}, "start: epochs: expected a whole number, got 2.5"),
        ({"start": {"lr": "fast"}}, "start: lr must be a finite number, got fast"),
        ({"levers": {"r": [{"readout": "maen"}]}}, "unknown readout 'maen'; did you mean mean"),
        ({"levers": {"e": [{"encodings": []}]}}, "levers, e: encodings: at least one is needed"),
        ({"levers": {"r": [{"lr": -1.0}]}}, "levers, r: lr "),
        ({"levers": {"o": [{"objective": "jsd", "temperature": 0.5}]}}, "levers, o: temperature"),
        ({"start": {"layers": 0}}, "start: layers must be at least 1, got 0"),
        ({"folds": "three"}, "folds: expected a whole number, got 'three'"),
        ({"folds": True}, "folds: expected a whole number, got True"),
        ({"folds": 1}, "start: folds must be at least 2, got 1"),
        ({"seeds": "x"}, "seeds: expected a count of at least 1"),
        ({"seeds": None}, "seeds: expected a count of at least 1"),
        ({"seeds": [1, 1]}, "seeds: expected a count of at least 1"),
        ({"dataset": []}, "dataset: expected names, got []"),
        ({"method": 3}, "method: expected names, got 3"),
        ({"method": "hslc"}, "unknown method 'hslc'; did you mean hscl"),
        ({"dataset": "a,b"}, "dataset 'a,b'; expected letters"),
        ({"method": ["untrained", "wl"]}, "must name one that is trained, got untrained, wl"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    assert message in refusal(tmp_path, **changed)


# Settings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, ""),
        ({"lr": 0.0003}, "lr 0.0003"),
        ({"temperature": 1.0, "epochs": 80}, "temperature 1, epochs 80"),
        ({"virtual_node": True, "standardise": False}, "virtual node, no standardise"),
        ({"objective": "jsd", "temperature": None}, "objective jsd, no temperature"),
        ({"augmentations": ("drop-nodes",)}, "augmentations drop-nodes"),
        ({"encodings": ("degree", "wl")}, "encodings degree + wl"),
        ({"c_grid": (0.001, 0.01, 1.0)}, "c grid 0.001 … 1 (3 values)"),
    ],
)  # fmt: skip
def test_settings_in_words(settings: dict[str, Any], words: str) -> None:
    assert said(settings) == words


def test_settings_are_as_a_cell_has_them() -> None:
    given = {"encodings": "wl", "c_grid": [1], "beta": 2, "epochs": 3, "temperature": None}
    found = checked(given, "here")
    assert found == {"encodings": ("wl",), "c_grid": (1.0,), "beta": 2.0, "epochs": 3,
                     "temperature": None}  # fmt: skip
    assert list(found) == list(given)
    assert {k: type(v) for k, v in found.items()} == {
        "encodings": tuple, "c_grid": tuple, "beta": float, "epochs": int,
        "temperature": type(None),
    }  # fmt: skip
