"""``python -m gcl_hard.figures``: exit statuses, what is printed, and what is written."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from matplotlib.image import imread

from gcl_hard import figures
from gcl_hard.commands.figures import FIGURES, figures_parser, parse_figures
from gcl_hard.errors import InputError
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from tests.reports import made_runs as runs
from tests.said import says

EPOCHS = (1, 2, 3)


class Command:
    """The command in this process, writing to a folder of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.results, self.output = folder / "results", folder / "figures"
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str) -> int:
        status = figures.main([*arguments, "-o", str(self.output)])
        self.out, self.err = self._capsys.readouterr()
        assert "Traceback" not in self.out + self.err
        return status

    def refuses(self, *arguments: str) -> str:
        """The message, which is one line; nothing is written."""
        assert self(*arguments) == 2
        assert self.err.startswith("error: ")
        assert self.err.count("\n") == 1
        assert (self.out, self.output.exists()) == ("", False)
        return self.err.strip()

    @property
    def written(self) -> set[str]:
        return {path.name for path in self.output.iterdir()}

    def rows(self, name: str) -> list[dict[str, str]]:
        with (self.output / name).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, capsys)


def test_a_figure_is_written_with_its_data(command: Command) -> None:
    for method in ("ucl", "hucl", "hscl"):
        runs.save(command.results, GraphConfig(method=method), epochs=EPOCHS)
    assert command("fig5", str(command.results)) == 0
    stem = "fig5-MUTAG-jsd"
    assert command.written == {f"{stem}.png", f"{stem}.svg", f"{stem}.csv"}
    height, width, _ = imread(command.output / f"{stem}.png").shape
    assert 1300 < width < 1500
    assert 600 < height < 1000
    assert ET.parse(command.output / f"{stem}.svg").getroot().tag.endswith("svg")
    rows = command.rows(f"{stem}.csv")
    assert len(rows) == 2 * len(EPOCHS) * 4
    for row in rows:
        losses = runs.snapshot(int(row["epoch"]))["settings"][row["panel"]]["losses"]
        assert {name: float(row[name]) for name in losses} == losses
    note, files = command.out.strip().split("\n")
    assert note.endswith(".")
    paths = [str(command.output / f"{stem}.{suffix}") for suffix in ("png", "svg", "csv")]
    assert files == f"figure: {', '.join(paths)}"


def test_only_chooses_and_name_names(command: Command) -> None:
    for method in ("ucl", "hucl", "hscl", "wl"):
        runs.save(command.results, GraphConfig(method=method, protocol="inductive"), epochs=EPOCHS)
    runs.save(command.results, GraphConfig(protocol="inductive"), 1, inner=True)
    runs.save(command.results, ImageConfig(), epochs=EPOCHS)
    only = ["--only", "dataset=mutag", "--only=method=ucl,hscl"]
    assert command("fig5", str(command.results), *only, "--name", "a.b") == 0
    assert command.written == {"a.b.png", "a.b.svg", "a.b.csv"}
    pairs = {(row["method"], row["seed"]) for row in command.rows("a.b.csv")}
    assert pairs == {("hscl", "0"), ("ucl", "0")}


def test_the_same_results_give_the_same_bytes_without_data_set_or_backend(command: Command) -> None:
    """Here and in a process of its own, where what is imported is seen."""
    # a set that is not in the package
    config = GraphConfig(dataset="PROTEINS", protocol="transductive", contrast="two-view")
    paths = [str(runs.save(command.results, config, seed, epochs=EPOCHS)) for seed in (0, 1)]
    place = command.output.with_name("other")
    door = ["-X", "importtime", "-m", "gcl_hard.figures"]
    done = subprocess.run(
        [sys.executable, *door, "fig4", *paths, "-o", str(place)], capture_output=True, text=True,
        check=False, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    log = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    loaded = {line.rpartition("|")[2].strip().split(".")[0] for line in log}
    assert "matplotlib" in loaded
    assert loaded & {"torch_geometric", "torchvision", "kornia", "optuna", "sklearn"} == set()
    assert command("fig4", *reversed(paths)) == 0
    assert command.written == {f"fig4-PROTEINS-two-view.{x}" for x in ("png", "svg", "csv")}
    for path in command.output.iterdir():
        assert path.read_bytes() == (place / path.name).read_bytes()


def test_results_without_diagnostics_say_what_gives_them(command: Command) -> None:
    runs.save(command.results, GraphConfig())
    for figure in ("fig4", "fig5"):
        err = command.refuses(figure, str(command.results))
        assert says(err, "--diagnostics 1")
        assert not says(err, "seed")
    runs.save(command.results, GraphConfig(), 1, epochs=EPOCHS)
    err = command.refuses("fig4", str(command.results))
    assert says(err, "MUTAG hscl β=1 transductive, seed 0", "--diagnostics 1", "--only")


@pytest.mark.parametrize("figure", sorted(FIGURES))
def test_data_sets_are_not_mixed(figure: str, command: Command) -> None:
    for name in ("MUTAG", "PTC_MR"):
        runs.save(command.results, GraphConfig(dataset=name), epochs=EPOCHS)
    err = command.refuses(figure, str(command.results))
    assert says(err, "MUTAG, PTC_MR", "--only dataset=MUTAG")


def test_places_that_give_nothing_are_named(command: Command) -> None:
    results = command.results
    assert says(command.refuses("fig4", str(results)), str(results), "exist", "--output")
    results.mkdir()
    assert says(command.refuses("fig4", str(results)), str(results), "finished", "--output")
    broken = results / "broken_seed0.json"
    broken.write_text("{", encoding="utf-8")
    with pytest.warns(UserWarning, match=rf"{broken.name}.*damaged"):
        assert says(command.refuses("fig4", str(results)), str(results), "finished")
    broken.write_text(json.dumps(runs.stored(GraphConfig()) | {"schema_version": 99}))
    assert says(command.refuses("fig4", str(broken)), str(broken), "schema", 99)


def test_a_wrong_command_is_one_message(command: Command) -> None:
    assert says(command.refuses("fgi4", "a"), "'fgi4'", "fig4", "fig4")
    assert says(command.refuses("fig4", "a", "--onyl", "b"), "flag", "'--onyl'", "--only")


def test_a_place_that_cannot_be_written_to_is_named(command: Command) -> None:
    runs.save(command.results, GraphConfig(), epochs=EPOCHS)
    command.output.write_text("a file", encoding="utf-8")
    assert command("fig4", str(command.results)) == 2
    assert command.err.startswith("error: ")
    assert says(command.err, "write", str(command.output / "fig4-MUTAG-jsd.png"))


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        figures.main(["--help"])
    assert stopped.value.code == 0
    assert "python -m gcl_hard.figures fig4 results -o figures" in capsys.readouterr().out


# The command line


PLAIN = ["fig4", "a", "b.json", "-o", "out"]


def refusal(*arguments: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_figures(arguments)
    return str(caught.value)


def test_what_is_given_is_read() -> None:
    options = parse_figures([*PLAIN, "--only", "method=ucl,scl", "--only=beta=2", "--name", "mine"])
    assert (options.figure, options.output, options.name) == ("fig4", Path("out"), "mine")
    assert options.results == [Path("a"), Path("b.json")]
    assert options.only == {"method": ["ucl", "scl"], "beta": ["2"]}


def test_flags_may_stand_anywhere() -> None:
    plain = parse_figures(PLAIN)
    assert parse_figures(["-o", "out", "fig4", "a", "b.json"]) == plain
    assert parse_figures(["fig4", "a", "--output=out", "b.json"]) == plain


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["figure", ", ".join(FIGURES), "--help"]),
        (["fig44", "a", "-o", "b"], ["figure", "'fig44'", "fig4", "fig4"]),
        (["fig4", "-o", "b"], ["fig4", "results", "python -m gcl_hard.bench", "--output"]),
        (["fig4", "a"], ["-o DIR"]),
        ([*PLAIN, "--onyl", "x=y"], ["flag", "'--onyl'", "--only", "--only"]),
        ([*PLAIN, "--onyl=x"], ["flag", "'--onyl'", "--only", "--only"]),
        ([*PLAIN, "--only"], ["--only", "argument"]),
        ([*PLAIN, "--name", "a/b"], ["--name", "folder", "'a/b'"]),
        ([*PLAIN, "--name", ""], ["--name", "folder", "''"]),
    ],
)
def test_what_cannot_be_read_is_refused(arguments: list[str], words: list[str]) -> None:
    assert says(refusal(*arguments), *words)


def test_help_names_every_figure() -> None:
    text = figures_parser().format_help()
    for name, words in FIGURES.items():
        assert f"{name} " in text
        assert words in text
    assert "python -m gcl_hard.figures fig4 results -o figures" in text
