"""Runs without a command: contexts, runners, and what they leave in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from gcl_hard.experiments import hardware
from gcl_hard.experiments.experiment import RunContext, RunOptions
from gcl_hard.experiments.runner import Runner
from gcl_hard.experiments.runs import Run
from gcl_hard.experiments.store import RunResult


def context(output: Path, *, data_dir: Path | None = None, **options: Any) -> RunContext:
    """One thread of the CPU."""
    return RunContext(
        output, data_dir, "cpu", threads=1, cores=1, versions=hardware.versions(),
        options=RunOptions(**options), digest="of the data",
    )  # fmt: skip


def go_on(run: Run, share: float, loss: float) -> bool:
    """A report that never stops the training."""
    return True


class Ran:
    """A plan that a runner executed.

    Attributes:
        results: by run.
        failures: messages.
        shown: on the console.
    """

    def __init__(self, output: Path, plan: Iterable[Run], **given: Any) -> None:
        names = ("jobs", "scheduler", "force", "report_only")
        own = {name: given.pop(name) for name in names if name in given}
        self.console = Console(file=StringIO(), width=300)
        self.results: dict[Run, RunResult]
        self.results, self.failures = Runner(context(output, **given), self.console, **own).run(
            [*plan]
        )

    @property
    def shown(self) -> str:
        """What the console holds."""
        return self.console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


VARYING = ("seconds_train", "seconds_eval", "seconds_diagnostics", "finished")


def numbers(folder: Path) -> dict[str, dict[str, Any]]:
    """Single files by name, without what changes from one execution to the next."""
    found = {}
    for path in sorted(folder.glob("*_seed*.json")):
        stored = json.loads(path.read_text(encoding="utf-8"))
        found[path.name] = {k: v for k, v in stored.items() if k not in VARYING}
    return found
