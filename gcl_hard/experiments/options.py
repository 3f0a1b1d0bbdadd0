"""Command line and YAML of ``python -m gcl_hard.bench``."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser

from gcl_hard.errors import InputError, unknown
from gcl_hard.experiments.cell import Cell, defaults, flag
from gcl_hard.experiments.cells import CELLS
from gcl_hard.experiments.choose import backend_for
from gcl_hard.experiments.flags import Help, add_flags, add_settings, parse, settings_of
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.place import Running
from gcl_hard.experiments.running_flags import RUNNING, RUNNING_SWITCHES
from gcl_hard.experiments.table import QUICK, TABLES, Table
from gcl_hard.experiments.values import Counts, Numbers, Seeds, Words

if TYPE_CHECKING:
    from gcl_hard.experiments.recipe.levers import Search

LISTED: dict[str, type] = {
    "dataset": Words,
    "method": Words,
    "protocol": Words,
    "beta": Numbers,
    "threshold_start": Numbers,
    "threshold_end": Numbers,
    "lr": Numbers,
    "epochs": Counts,
}
"""Fields of a cell of which a command takes several, comma-separated; it runs all combinations."""
RECIPES = ("paper", "best")
VIEWS = ("objective", "temperature", "augmentations", "strength")
"""Settings of a recipe that mean nothing under another contrast or objective."""


@dataclass(frozen=True)
class BenchOptions:
    """What ``python -m gcl_hard.bench`` was asked for.

    Attributes:
        cells: every combination of data set, method, protocol, β, thresholds, lr and epochs.
        seeds: to run each of them with.
        device: ``auto``, ``cpu``, ``cuda``, …
        data_dir: an offline mirror, or None.
        output: folder of the records.
        json: the result file; None for one in ``output``.
        threads: of the CPU, for all processes together; None to choose.
        jobs: processes; None to choose.
        select: whether settings of which several are listed are chosen inside training data.
        force: whether finished seeds are run again.
        table: the paper's table that is asked for, or None.
        quick: whether this is a look with few seeds and epochs.
        report: the page of results to write, with its figures and files beside it, or None.
        report_only: whether nothing is run.
        search: for a recipe, in the place of cells, or None.
        best: folder for the configs that a search chooses, or None.
        running: how seeds are run.
    """

    cells: tuple[Cell, ...]
    seeds: Seeds
    device: str
    data_dir: Path | None
    output: Path
    json: Path | None
    threads: int | None
    jobs: int | None
    select: bool
    force: bool
    table: str | None
    quick: bool
    report: Path | None
    report_only: bool
    search: Search | None
    best: Path | None
    running: Running


def bench_parser(backend: str = "graphs") -> ArgumentParser:
    """The parser of ``python -m gcl_hard.bench``, with the settings of a backend."""
    cell = CELLS[backend]
    parser = ArgumentParser(
        prog="python -m gcl_hard.bench",
        description=DESCRIPTION[backend],
        epilog=EPILOG[backend],
        usage="python -m gcl_hard.bench [--dataset NAMES] [--method NAMES] [--beta NUMBERS] [...]",
        formatter_class=Help,
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser.add_argument(
        "--config", action="config", metavar="FILE", help="YAML with any of these; flags win"
    )
    add_settings(parser, cell, LISTED)
    add_flags(parser, (*OPTIONS, *RUNNING[backend]), (*SWITCHES, *RUNNING_SWITCHES[backend]))
    return parser


DESCRIPTION = {
    "graphs": "Train graph encoders with hard negatives and score them by a nested 10-fold SVM. "
    "Several data sets, methods, β or protocols (a,b,c) run in all combinations; what is finished "
    "is not run again.",
    "images": "Train image encoders with hard negatives and score them by a linear probe. Several "
    "data sets, methods, β or thresholds (a,b,c) run in all combinations; what is finished is not "
    "run again.",
}
EPILOG = {
    "graphs": "Example: python -m gcl_hard.bench --dataset PTC --method ucl,hscl --seeds 3. The "
    "settings of images: python -m gcl_hard.bench --dataset CIFAR10 --help",
    "images": "Example: python -m gcl_hard.bench --dataset digits --encoder resnet18 --epochs 3. "
    "The settings of graphs: python -m gcl_hard.bench --help",
}
OPTIONS: list[tuple[str, Any, Any, str]] = [
    (
        "table",
        str | None,
        None,
        "of the paper: " + "; ".join(f"{n}: {t.shows}" for n, t in TABLES.items()),
    ),
    ("recipe", str, "paper", "settings that are not given: paper, or best, ours for a data set"),
    ("search", Path | None, None, "YAML of a search for a recipe, as configs/search/recipe.yaml"),
    ("best", Path | None, None, "folder for the configs that a search chooses"),
    ("select", bool, False, "choose β, thresholds, lr, epochs inside training data, where listed"),
    ("seeds", Seeds, Seeds(range(5)), "a count (5 is 0…4) or a list (0,1,2)"),
    ("device", str, "auto", "auto, cpu, cuda or cuda:N"),
    ("data-dir", Path | None, None, "folder with your copies of data sets (or set GCL_HARD_DATA)"),
    ("output", Path, Path("results"), "folder that finished seeds are saved in at once"),
    ("json", Path | None, None, "result file; one in the output folder if not given"),
    ("report", Path | None, None, "page.md to write; page.csv, .tex and figures go beside it"),
    ("jobs", int | None, 1, "processes; --table 2 takes one a core"),
    ("threads", int | None, None, "CPU threads of all processes, one each at least; else chosen"),
]
SWITCHES = [
    ("quick", "few seeds and epochs: a look in minutes, not results"),
    ("force", "run finished seeds again"),
    ("report-only", "run nothing: show what is finished"),
]


def parse_bench(arguments: Sequence[str]) -> BenchOptions:
    """Read a command line.

    Args:
        arguments: without the program's name.

    Returns:
        The options; every cell is checked.

    Raises:
        InputError: for anything that cannot be run; names the flag and the nearest ones.
    """
    backend = backend_for(arguments)
    cell = CELLS[backend]
    parser = bench_parser(backend)
    values, stated = (parse(parser, arguments, defaults=given) for given in (True, False))
    if values["best"] is not None and values["search"] is None:
        raise InputError("best is the folder for what a search chooses: give --search too")
    table = TABLES.get(values["table"])
    preset = (table.values if table else {}) | (QUICK[backend] if values["quick"] else {})
    if preset:  # what was not given is the table's
        parser.set_defaults(preset)
        values = parse(parser, arguments)
    if values["search"] is not None:
        values["search"] = _search(values["search"], stated, cell)
        values["seeds"] = values["search"].seeds
    cells = [] if values["search"] else _cells(cell, values, table, stated)
    for name in ("threads", "jobs"):
        if values[name] is not None and values[name] < 1:
            raise InputError(f"{name} must be at least 1, got {values[name]}")
    if values["report"] is not None and values["report"].suffix != ".md":
        raise InputError(f"report is a page of Markdown, NAME.md, got {values['report']}")
    given = {f.name: values[f.name] for f in fields(Running) if f.name in values}
    running = Running(**given | {"members": int(given.get("members", 0)) or None})
    for name in ("workers", "monitor_every", "checkpoint_minutes", "diagnostics"):
        if not 0 <= getattr(running, name) < float("inf"):
            raise InputError(f"{flag(name)} must be at least 0, got {getattr(running, name)}")
    if running.workers and values["jobs"] != 1:
        raise InputError("workers need jobs 1: a process of several has none of its own")
    if running.resume and values["force"]:
        raise InputError("resume goes on from checkpoints and force starts over: give one of them")
    own = [f.name for f in fields(BenchOptions) if f.name not in ("cells", "running")]
    named = {name: values[name] for name in own}
    return BenchOptions(tuple(dict.fromkeys(cells)), running=running, **named)


def _cells(
    cell: type[Cell], values: Mapping[str, Any], table: Table | None, stated: Mapping[str, Any]
) -> list[Cell]:
    """All combinations that were asked for, every one checked."""
    if values["table"] == "recipe":
        return _of_recipes(values, stated)
    if values["recipe"] not in RECIPES:
        raise unknown("recipe", values["recipe"], RECIPES)
    if table and values["recipe"] != "paper":
        raise InputError(
            f"--table {values['table']} is of the paper's recipe: leave out recipe; for graphs, "
            f"--table recipe sets ours beside it"
        )
    given = {*stated, *(QUICK[cell.backend] if values["quick"] else ())}
    listed = [name for name in LISTED if name in defaults(cell)]
    shared = settings_of(values, [name for name in defaults(cell) if name not in listed])
    cells = []
    for combination in itertools.product(*(values[name] for name in listed)):
        one = dict(zip(listed, combination, strict=True))
        of_set = dict(table.of_set.get(one["dataset"], {})) if table else {}
        if values["recipe"] == "best":
            of_set |= _best(cell, one["dataset"])
        if given & {"contrast", "objective"}:  # what hangs on them is theirs to fill in
            of_set = {k: v for k, v in of_set.items() if k not in VIEWS}
        of_set = {name: value for name, value in of_set.items() if name not in given}
        cells.append(cell(**one | shared | of_set))
    return cells


def _best(cell: type[Cell], dataset: str) -> dict[str, Any]:
    """Settings of our recipe; those of the paper's are the defaults."""
    if cell is not GraphCell:
        raise InputError(f"recipes are of graphs, and {dataset} holds images")
    from gcl_hard.experiments.recipe.files import best
    from gcl_hard.graphs.tudataset import canonical_name

    return {"protocol": "inductive"} | best(canonical_name(dataset))


def _of_recipes(values: Mapping[str, Any], stated: Mapping[str, Any]) -> list[Cell]:
    """The cells of ``--table recipe``."""
    from gcl_hard.experiments.recipe.table import entries
    from gcl_hard.graphs.tudataset import canonical_name

    mine = ("dataset", "method", "protocol")
    own = sorted((set(stated) & {*defaults(GraphCell), "recipe", "select"}) - {*mine})
    if own:
        raise InputError(
            f"--table recipe has settings of its own: leave out {', '.join(map(flag, own))}; it "
            f"takes {', '.join(mine)} and seeds"
        )
    datasets = dict.fromkeys(map(canonical_name, values["dataset"]))
    methods = dict.fromkeys(GraphCell(method=name).method for name in values["method"])
    protocols = dict.fromkeys(GraphCell(protocol=name).protocol for name in values["protocol"])
    rows = entries([*datasets], [*methods], [*protocols], quick=values["quick"])
    return [cell for row in rows for cell in row.cells.values()]


def _search(path: Path, stated: Mapping[str, Any], cell: type[Cell]) -> Search:
    """The search of a file, on the data sets that are given."""
    from gcl_hard.experiments.recipe.levers import read_search

    if cell is not GraphCell:
        raise InputError(
            f"{path} searches on graphs, and {', '.join(stated['dataset'])} are images"
        )
    others = ("table", "select", "seeds", "recipe", "quick", "json")
    own = sorted(set(stated) & {*defaults(GraphCell), *others} - {"dataset"})
    if own:
        raise InputError(f"{path} states what is searched: leave out {', '.join(map(flag, own))}")
    search = read_search(path)
    names = stated.get("dataset")
    return search if names is None else search.on(names)


__all__ = ["BenchOptions", "bench_parser", "parse_bench"]
