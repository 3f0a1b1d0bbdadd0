"""Sentences that notes of figures against the epoch share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gcl_hard.experiments.config import RunConfig
from gcl_hard.experiments.figures.epochs import epochs_of
from gcl_hard.experiments.figures.runs import Run, measured


def encoder(runs: Sequence[Run]) -> str:
    """Which encoder is looked at, as a sentence of the note."""
    first = " of the first fold" if runs[0].cell.encoders > 1 else ""
    return f"The encoder{first} is frozen at the end of the epoch, in eval mode. "


def lines(cells: Mapping[RunConfig, Sequence[Run]]) -> str:
    """What lines and bands are, as a sentence of the note; empty of one seed."""
    said = ""
    if max(map(len, cells.values())) > 1:
        said = "Lines are means over seeds, bands reach from the lowest to the highest. "
    each = [list(map(epochs_of, runs)) for runs in cells.values()]
    if any(one != own[0] for own in each for one in own):
        said += "Epochs that not all seeds looked at are left out. "
    if any(not look["settings"] for runs in cells.values() for run in runs for look in run.looks):
        said += "Where a look is missing, embeddings were not finite. "
    return said


def in_effect(runs: Sequence[Run], shown: Iterable[str]) -> str:
    """How hard H-UCL chooses, as a sentence of the note; empty where looks do not say it."""
    last = [measured(run.looks[-1], name) for run in runs for name in shown]
    found = [(x["effective_hucl"], x["others"]) for x in last]
    if any(None in pair for pair in found):
        return ""
    taken, others = ([round(number) for number in column] for column in zip(*found, strict=True))
    return f"At the last look H-UCL takes {between(taken)} of {between(others)} others in effect. "


def beyond(cut: Sequence[str]) -> str:
    """What ``axes.top`` cut off, as a sentence of the note; empty of nothing."""
    return f" Peaks above the axis: {'; '.join(cut)}." if cut else ""


def anchors(runs: Sequence[Run]) -> str:
    """How many anchors looks have, in words."""
    numbers = sorted({int(look["anchors"]) for run in runs for look in run.looks} - {0})
    return between(numbers or [0]) + " anchors"


def between(numbers: Sequence[int]) -> str:
    """A range in words, of one number that number."""
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"
