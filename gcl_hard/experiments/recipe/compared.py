"""The rows of the recipe table as numbers: accuracies, and paired differences between rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gcl_hard.evaluation.significance import Interval, holm
from gcl_hard.experiments.ablations import Gain, over_sets
from gcl_hard.experiments.lines import LEVEL
from gcl_hard.experiments.recipe_table import REPORTED, Entry, Part, entries
from gcl_hard.experiments.results import CellResult, Results


@dataclass(frozen=True)
class Difference:
    """A row less another on a data set, on the folds of the seeds that both have.

    Attributes:
        mean: points.
        low: lower end of its 95 % interval (corrected resampled t).
        high: upper end.
        p: of the same test, Holm-corrected over the question that it belongs to.
        seeds: that both rows have.
    """

    mean: float
    low: float
    high: float
    p: float
    seeds: int

    @property
    def significant(self) -> bool:
        """Whether the corrected p is below 5 %."""
        return self.p < LEVEL


@dataclass(frozen=True, eq=False)
class Pair:
    """A row less another, data set by data set.

    Attributes:
        ours: the first row.
        theirs: the second.
        on: differences by data set, where a seed is finished for both.
    """

    ours: Entry
    theirs: Entry
    on: dict[str, Difference]


Asked = tuple[tuple[Part, str], tuple[Part, str]]

QUESTIONS: dict[str, tuple[Asked, ...]] = {
    "contrast": tuple((("ours", m), ("ours", "untrained")) for m in REPORTED),
    "hard": ((("ours", "hucl"), ("ours", "ucl")), (("ours", "hscl"), ("ours", "scl"))),
    "labels": ((("ours", "scl"), ("ours", "ucl")), (("ours", "hscl"), ("ours", "hucl"))),
    "papers": tuple((("paper", m), ("floors", "untrained")) for m in REPORTED),
    "views": ((("on", "two views"), ("floors", "untrained")),),
    "recipe": tuple((("ours", m), ("paper", m)) for m in REPORTED),
    "kernels": ((("ours", "hucl"), ("floors", "wl-oa")), (("ours", "hscl"), ("floors", "wl-oa"))),
    "supervised": ((("ours", "hscl"), ("ours", "supervised")),),
}
"""Pairs of rows under ``inductive`` that answer a question; Holm's correction is over each.

``("floors", "untrained")`` has encoder and SVM of the paper's recipe, ``("ours", "untrained")``
those of ours."""


class Compared:
    """Rows of a command's results, and how they differ.

    Args:
        results: of ``--table recipe``.
        quick: whether they are a quick look.
    """

    def __init__(self, results: Results, *, quick: bool) -> None:
        self.results = results
        self.quick = quick
        self.datasets = list(dict.fromkeys(cell.dataset for cell in results.cells))
        methods = list(dict.fromkeys(cell.method for cell in results.cells))
        protocols = list(
            dict.fromkeys(c.protocol for c in results.cells if not c.is_baseline) or ["inductive"]
        )
        self.protocols = protocols
        asked = set(results.cells)  # floors do not tell which protocols were
        self.entries = [
            row
            for row in entries(self.datasets, methods, protocols, quick=quick)
            if asked.issuperset(row.cells.values())
        ]

    def row(self, part: Part, name: str, protocol: str = "inductive") -> Entry | None:
        """A row by its part, name and protocol."""
        for one in self.entries:
            if (one.part, one.name, one.protocol) == (part, name, protocol):
                return one
        return None

    def rows(self, *parts: Part) -> list[Entry]:
        """All rows of some parts."""
        return [one for one in self.entries if one.part in parts]

    def result(self, row: Entry, dataset: str) -> CellResult | None:
        """What a row has on a data set; None if nothing is finished."""
        cell = row.cells.get(dataset)
        return None if cell is None else self.results.result(cell)

    def interval(self, row: Entry, dataset: str) -> Interval | None:
        """Mean of a row and its 95 % interval; None if nothing is finished."""
        found = self.result(row, dataset)
        return None if found is None else found.scores.interval

    def pair(self, ours: Entry | None, theirs: Entry | None) -> Pair | None:
        """The difference of two rows, p not corrected; None where no data set has both."""
        if ours is None or theirs is None:
            return None
        found = {}
        for dataset in self.datasets:
            one = self._difference(self.result(ours, dataset), self.result(theirs, dataset))
            if one is not None:
                found[dataset] = one
        return Pair(ours, theirs, found) if found else None

    def over_sets(self, pair: Pair) -> Gain | None:
        """The mean difference over data sets, each weighing the same, errors independent.

        Args:
            pair: of rows; a set on which the first one changes nothing counts as exactly 0.

        Returns:
            Points with the interval, which is for these sets; None until all seeds are finished.
        """
        each = []
        for dataset in self.datasets:
            one = pair.on.get(dataset)
            if one is not None and one.seeds == len(self.results.seeds):
                each.append(Gain(one.mean, one.low, one.high))
            elif one is None and dataset not in pair.ours.cells:
                each.append(Gain(0.0, 0.0, 0.0))
            else:
                return None
        return over_sets(each)

    @cached_property
    def answers(self) -> dict[str, list[Pair]]:
        """By question, its pairs, p corrected over all of them and all data sets."""
        return {
            question: self.corrected([
                pair
                for ours, theirs in asked
                if (pair := self.pair(self.row(*ours), self.row(*theirs))) is not None
            ])
            for question, asked in QUESTIONS.items()
        }  # fmt: skip

    @staticmethod
    def corrected(pairs: Sequence[Pair]) -> list[Pair]:
        """Pairs with Holm's correction over all their differences."""
        p = iter(holm([one.p for pair in pairs for one in pair.on.values()]))
        return [
            replace(
                pair,
                on={d: replace(one, p=float(next(p) or 0.0)) for d, one in pair.on.items()},
            )
            for pair in pairs
        ]  # fmt: skip

    @staticmethod
    def _difference(ours: CellResult | None, theirs: CellResult | None) -> Difference | None:
        if ours is None or theirs is None:
            return None
        seeds = [seed for seed in ours.scores.seeds if seed in theirs.scores.seeds]
        if not seeds:
            return None
        t = ours.scores.of(seeds).test_against(theirs.scores.of(seeds))
        return None if t is None else Difference(t.difference, t.low, t.high, t.p, len(seeds))
