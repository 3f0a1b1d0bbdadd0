"""A search from its options to what it found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optuna import Study

from gcl_hard.experiments.store import check_writable, write_json
from gcl_hard.tuning.board import board
from gcl_hard.tuning.options import TuneOptions
from gcl_hard.tuning.outcome import Outcome, find
from gcl_hard.tuning.search import Search
from gcl_hard.tuning.setup import Setup, setup
from gcl_hard.tuning.storage import reachable
from gcl_hard.tuning.tally import Tally
from gcl_hard.tuning.workers import in_processes

if TYPE_CHECKING:
    from rich.console import Console


def run(options: TuneOptions, console: Console) -> tuple[Outcome, Path]:
    """Do what is left of a search, score the best settings on the outer parts, save the result.

    Args:
        options: as parsed.
        console: where progress goes.

    Returns:
        What was found, and the file it was written to.

    Raises:
        InputError: for anything wrong with data, space, storage or folders, before training.
        AllFailed: if no trial has a score.
    """
    from gcl_hard.reports.study_page import (
        check_target,
    )

    check_writable(options.output)
    if options.report is not None:
        check_writable(options.report.absolute().parent)
        check_target(options.report)
    found = setup(options)
    with reachable(found.url):
        studies = found.join()
        if not options.report_only:
            _search(found, studies, console)
        findings = []
        for study, outer in zip(studies, found.outers, strict=True):
            trials = study.get_trials(deepcopy=False)
            over = Tally.of(trials).over(options.trials) and not options.report_only
            base, seed = found.options.base, options.seed
            findings.append(find(study, base, outer, seed, look=over))
    outcome = Outcome(tuple(findings), options.trials, found.facts())
    path = options.output / f"{found.stem}_search.json"
    write_json(as_json(outcome), path)
    return outcome, path


def _search(found: Setup, studies: list[Study], console: Console) -> None:
    options = found.options
    where = "on the test folds" if found.cell.protocol == "paper" else "inside"
    with board(console, studies, options.trials, where) as shown:
        if options.workers > 1:
            in_processes(options, studies, shown)
            return
        for k in range(len(studies)):
            worker(found, studies, k, shown.move).run()


def worker(
    found: Setup,
    studies: Sequence[Study],
    k: int,
    moved: Callable[[int, Tally, float], None] = lambda k, tally, under_way: None,
) -> Search:
    """This process as a worker of the k-th study; ``moved`` is called with k and the progress."""
    options = found.options
    return Search(
        studies[k], options.space, options.base, found.outers[k].part, options.inner,
        options.trials, options.batch_on(found.local.device.type), options.workers,
        partial(moved, k),
    )  # fmt: skip


def as_json(outcome: Outcome) -> dict[str, Any]:
    """A search's result as it is saved."""
    studies = []
    for finding in outcome.findings:
        tally = Tally.of(finding.study.get_trials(deepcopy=False))
        studies.append({
            "study": finding.study.study_name,
            "trial": finding.best.number,
            "params": finding.best.params,
            "config": asdict(finding.cell),
            "inner": finding.inner,
            "outer": finding.outer,
            "why_no_outer": finding.why,
            "optimism": finding.optimism,
            "looks": finding.looks,
            "complete": tally.complete,
            "pruned": tally.pruned,
            "failures": dict(tally.failures),
            "seconds": finding.seconds,
        })  # fmt: skip
    return {
        "schema_version": 1,
        "facts": outcome.facts,
        "trials": outcome.asked,
        "inner": outcome.inner,
        "outer": outcome.outer,
        "optimism": outcome.optimism,
        "studies": studies,
    }
