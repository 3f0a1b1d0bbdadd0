"""What looks give to draw against the epoch: means over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import Any, NamedTuple

from gcl_hard.errors import InputError
from gcl_hard.experiments.figures.naming import is_usual, labels
from gcl_hard.experiments.figures.runs import Run, by_cell, measured

SETTINGS = {
    "l=-0.25": (r"$l = -0.25$", r"  ($\tau = e^{-0.5}$)"),
    "l=-0.05": (r"$l = -0.05$", r"  ($\tau = e^{-0.1}$)"),
    "beta=1": ("β = 1", ""),
    "beta=2": ("β = 2", ""),
}
"""Of the paper's Fig. 4 and 5, in their order: titles of panels, and what they add at γ = 0.5."""


class Series(NamedTuple):
    """A number against epoch, over the seeds of a cell.

    Attributes:
        epochs: that all seeds looked at.
        mean: over the seeds at which it is defined; NaN if there are none.
        low: the least of them.
        high: the greatest of them.
    """

    epochs: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]


def series(runs: Sequence[Run], setting: str, *path: str) -> Series:
    """A number of each look, over seeds.

    Args:
        runs: the seeds of a cell.
        setting: of the looks.
        *path: to the number, from the setting inwards.

    Returns:
        :class:`Series`.
    """

    def inside(look: Mapping[str, Any]) -> float | None:
        found: Any = measured(look, setting)
        number: float | None = reduce(getitem, path, found)
        return number

    return series_by(runs, inside)


def series_by(runs: Sequence[Run], read: Callable[[Mapping[str, Any]], float | None]) -> Series:
    """The same of a number that is read off a look.

    Args:
        runs: the seeds of a cell.
        read: gives the number, None where it is not defined.

    Returns:
        :class:`Series`.
    """
    epochs = sorted(shared(runs))
    looks = [{int(look["epoch"]): look for look in run.looks} for run in runs]
    found = Series(epochs, [], [], [])
    for epoch in epochs:
        numbers = [read(own[epoch]) for own in looks]
        defined = [float(number) for number in numbers if number is not None] or [math.nan]
        found.mean.append(statistics.fmean(defined))
        found.low.append(min(defined))
        found.high.append(max(defined))
    return found


def several(runs: Sequence[Run]) -> tuple[list[Run], str]:
    """The runs whose cells make lines; all, if none does.

    Args:
        runs: with looks.

    Returns:
        The runs, and which cells are left out beside them, as a sentence of the note.

    Raises:
        InputError: if in no cell all seeds looked at the same epoch.
    """
    cells = by_cell(runs)
    looks = {cell: len(shared(own)) for cell, own in cells.items()}
    if not any(looks.values()):
        raise InputError(
            "seeds looked at no epoch in common: run them with the same --diagnostics, or choose "
            f"one, as --only seed={runs[0].seed}"
        )
    left_out = [cell for cell, n in looks.items() if n < 2] if max(looks.values()) > 1 else []
    called = labels(cells)
    said = f"Left out, with fewer than two looks: {', '.join(called[cell] for cell in left_out)}. "
    return [run for run in runs if run.cell not in left_out], said if left_out else ""


def titles(runs: Sequence[Run]) -> dict[str, str]:
    """Of the panels, by setting; with the papers' τ where that is what l says at their γ."""
    usual = all(is_usual(run.cell) for run in runs)
    return {name: words + tau * usual for name, (words, tau) in SETTINGS.items()}


def epochs_of(run: Run) -> set[int]:
    """Epochs that a run looked at."""
    return {int(look["epoch"]) for look in run.looks}


def shared(runs: Sequence[Run]) -> set[int]:
    """Epochs that all runs looked at."""
    return set.intersection(*map(epochs_of, runs))


def defined(runs: Sequence[Run], count: str, what: str) -> None:
    """Check that a look defines something at an anchor.

    Args:
        runs: with looks.
        count: of a setting, at how many anchors.
        what: is defined, in words.

    Raises:
        InputError: if no look does; says why.
    """
    looks = [look for run in runs for look in run.looks]
    if any(measured(look, name)[count] for look in looks for name in SETTINGS):
        return
    if not any(look["settings"] for look in looks):
        raise InputError("embeddings were not finite at any look: there is nothing to draw")
    raise InputError(
        f"at no look has an anchor {what}: that takes others of its label and of another, and "
        f"batches are too small or of one class; train with a larger --batch-size, or draw "
        f"geometry"
    )
