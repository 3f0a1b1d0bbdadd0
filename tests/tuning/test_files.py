"""Search spaces as files: those that are shipped, and the user's own."""

from __future__ import annotations

import shlex
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from gcl_hard.experiments.cells import CELLS

from gcl_hard.errors import InputError
from gcl_hard.methods import METHODS
from gcl_hard.tuning import files
from gcl_hard.tuning.options import parse_tune
from gcl_hard.tuning.space import Base

CONFIGS = Path(__file__).parents[2] / "configs" / "search"
SHIPPED = ("beta", "full", "images", "tau-schedule")
THRESHOLD = {"threshold_start", "threshold_end"}
GRAPH = {"lr", "lr_schedule", "weight_decay", "layers", "dim", "readout"}
MOVES: dict[tuple[str, str], set[str]] = {
    ("beta", "graphs"): {"lr"}, ("beta", "images"): {"lr"},
    ("tau-schedule", "graphs"): {"lr"}, ("tau-schedule", "images"): {"lr"},
    ("full", "graphs"): GRAPH, ("images", "images"): {"lr", "temperature"},
}  # fmt: skip
"""What each file searches for every method of a backend; the rest is the method's own."""


def own(name: str, method: str) -> set[str]:
    """What a file searches for a method beside."""
    found = {"beta"} if method in ("hucl", "hcl", "hscl") and name != "tau-schedule" else set()
    if method == "hscl-tau" and name != "beta":
        found |= THRESHOLD
    if method in ("dcl", "hcl") and name in ("full", "images"):
        found |= {"class_prior"}
    return found


def read(folder: Path, text: str) -> Any:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return files.read(str(path))


def test_the_shipped_files_are_known_by_name() -> None:
    there = {p.stem for p in CONFIGS.iterdir()}
    assert sorted(files.shipped()) == sorted(SHIPPED)
    assert there == {*SHIPPED, "recipe"}


@pytest.mark.parametrize("given", ["recipe", str(CONFIGS / "recipe.yaml")])
def test_a_search_for_a_recipe_is_no_space(given: str) -> None:
    with pytest.raises(InputError, match="bench --search"):
        files.read(given)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("name", "backend"), MOVES)
def test_a_shipped_file_fits_every_method(name: str, backend: str, method: str) -> None:
    space = files.read(name).fitted(Base(CELLS[backend], {"method": method}))
    assert {d.name for d in space.dimensions} == MOVES[name, backend] | own(name, method)


@pytest.mark.parametrize(("name", "backend"), MOVES)
def test_the_paper_s_values_are_tried_first(name: str, backend: str) -> None:
    tried: dict[str, list[dict[str, float]]] = {}
    for method in METHODS:
        base = Base(CELLS[backend], {"method": method, "lr": 0.002})
        space = files.read(name).fitted(base)
        grid = space.grid_of(base)
        assert all(set(one) == {d.name for d in space.dimensions} for one in grid)
        assert all(one["lr"] == 0.002 for one in grid)
        keys = ("beta", *sorted(THRESHOLD))
        tried[method] = [{k: one[k] for k in keys if k in one} for one in grid]
    betas = [1, 2, 10] if backend == "graphs" else [0.1, 0.5, 1, 2, 5]
    hardened = [] if name == "tau-schedule" else [{"beta": b} for b in betas]
    starts_ends = product((-0.5, -0.3, -0.1), (-0.1, 0, 0.1))
    nine = [{"threshold_end": end, "threshold_start": start} for start, end in starts_ends]
    assert tried == {
        "ucl": [], "dcl": [], "hucl": hardened, "hcl": hardened, "scl": [], "hscl": hardened,
        "hscl-tau": [] if name == "beta" else nine,
    }  # fmt: skip


@pytest.mark.parametrize("name", SHIPPED)
def test_the_command_above_a_file_runs_it(name: str) -> None:
    lines = (CONFIGS / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    (command,) = (line for line in lines if "python -m" in line)
    mark, python, _, door, *arguments = shlex.split(command)
    assert (mark, python, door) == ("#", "python", "gcl_hard.tune")
    options = parse_tune(arguments)
    assert options.space_name == name
    assert options.space == files.read(name).fitted(options.base)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("backend", CELLS)
def test_every_method_has_a_usual_space(backend: str, method: str) -> None:
    cell = CELLS[backend](method=method)  # type: ignore[call-arg]
    assert files.usual(cell) == ("tau-schedule" if method == "hscl-tau" else "beta")


# The user's own


def test_a_file_of_one_s_own(tmp_path: Path) -> None:
    space = read(tmp_path, "space:\n  lr: {type: float, low: 1e-4, high: 1e-2, log: true}\n")
    assert [(d.name, *d.ends) for d in space.dimensions] == [("lr", 0.0001, 0.01)]


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(InputError, match="unknown search space 'bta'; did you mean beta"):
        files.read("bta")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no search space in .*gone\.yaml: there is no such file"):
        files.read(str(tmp_path / "gone.yaml"))
    with pytest.raises(InputError, match="there is no such file"):
        files.read(str(tmp_path / "v1.0"))


@pytest.mark.parametrize("text", ["space: {lr: [", "\tspace: 1", "a: b: c"])
def test_what_is_no_yaml_is_named_in_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"mine\.yaml is no YAML: .") as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"\xff\xfe\x00space")
    with pytest.raises(InputError, match=r"mine\.yaml is no YAML"):
        files.read(str(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "search space is empty"),
        ("# nothing\n", "search space is empty"),
        ("space:\n", "search space is empty"),
        ("- beta\n- lr\n", "a search space is a mapping"),
        ("space: {lr: {type: float, low: 1, high: 0}}", "lr: low 1 is above high 0"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_name(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(InputError, match=r"mine\.yaml: ") as caught:
        read(tmp_path, text)
    assert said in str(caught.value)
