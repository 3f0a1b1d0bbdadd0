"""``--search``: run it, print what it chose, write its page and configs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gcl_hard.errors import GclHardError, InputError
from gcl_hard.experiments import machine, run
from gcl_hard.experiments.data import Data
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.options import BenchOptions
from gcl_hard.experiments.recipe import files
from gcl_hard.experiments.recipe.search import Chosen, choose
from gcl_hard.experiments.records import Record, check_writable
from gcl_hard.graphs.datasets import MANIFEST, lacks_edge_labels

if TYPE_CHECKING:
    from rich.console import Console


def search(options: BenchOptions, console: Console, command: str) -> Chosen:
    """Run a search to its end.

    Args:
        options: with a ``search``.
        console: where progress and what was chosen go.
        command: as pages show it.

    Returns:
        What was chosen; its page is written to ``options.report`` and its configs to
        ``options.best``, where these are given.

    Raises:
        InputError: for anything wrong with data, device or folders.
        GclHardError: if a score is missing because its training failed; says which.
    """
    from gcl_hard.reports import recipe_page

    asked = options.search
    assert asked is not None
    for folder in (options.best, options.report and options.report.absolute().parent):
        if folder is not None:
            check_writable(folder)
    if options.best is not None:
        files.check_folder(options.best, asked.datasets)
    failures: list[str] = []

    def do(jobs: list[Job]) -> Mapping[Job, Record]:
        found, failed = run.do(jobs, options, console)
        failures.extend(failed)
        return found

    data = Data(options.data_dir, machine.choose_device("cpu"), machine.versions()["source"])

    def with_edges(name: str) -> bool:
        if name in MANIFEST:  # finished scores need no data
            return not lacks_edge_labels(name)
        return data.of(asked.cell(name, "untrained", {})).edge_dim is not None

    try:
        chosen = choose(asked, do, with_edges=with_edges)
    except InputError:
        raise
    except GclHardError as error:
        why = ["--report-only runs nothing: leave it out"] if options.report_only else failures
        raise GclHardError("\n".join([str(error), *why])) from error
    console.print("\n".join(recipe_page.in_short(chosen)), highlight=False)
    written = []
    if options.best is not None:
        written += files.write(chosen, options.best, command=command)
    if options.report is not None:
        written += recipe_page.write_search(chosen, options.report, command=command)
    if written:
        console.print(f"written: {', '.join(map(str, written))}", highlight=False, soft_wrap=True)
    return chosen
