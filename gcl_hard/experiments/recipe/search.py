"""Search for a recipe: each lever by itself, what helps joined, all by inner scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gcl_hard.errors import GclHardError, InputError
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.recipe.gains import Gain, Scores, gains_of, over_sets
from gcl_hard.experiments.recipe.levers import Alternative, Search, Settings, said
from gcl_hard.experiments.records import Record

Do = Callable[[list[Job]], Mapping[Job, Record]]
"""Runs jobs that are not finished; gives the records of all."""


@dataclass(frozen=True, eq=False)
class Tried:
    """Settings that were scored against the start.

    Attributes:
        settings: that differ from the start.
        lever: what they set; empty where several are joined.
        gains: over the start, by data set, mean over the methods that decide.
        by_method: the gain over all data sets of each method, floors too.
    """

    settings: Settings
    lever: str
    gains: Mapping[str, Gain]
    by_method: Mapping[str, Gain]

    @cached_property
    def gain(self) -> Gain:
        """Over all data sets."""
        return over_sets([*self.gains.values()])


@dataclass(frozen=True, eq=False)
class Chosen:
    """What a search came to.

    Attributes:
        search: what was asked.
        scores: mean inner accuracy of the start in percent, by data set and method.
        alternatives: each by itself, in the file's order.
        helping: of each lever the best one, where it helps; best first.
        joined: what helps, joined one after the other: each settings with those before.
        left_out: what helps by itself but is not joined.
        best: the settings of the one recipe for all sets.
        own: of data sets that prefer others, these, over the one for all.
        final: mean inner accuracy of what was chosen, by data set and method.
    """

    search: Search
    scores: Mapping[tuple[str, str], float]
    alternatives: Sequence[Tried]
    helping: Sequence[Tried]
    joined: Sequence[Tried]
    left_out: Sequence[Tried]
    best: Settings
    own: Mapping[str, Tried] = field(default_factory=dict)
    final: Mapping[tuple[str, str], float] = field(default_factory=dict)


def choose(search: Search, do: Do, *, with_edges: Callable[[str], bool]) -> Chosen:
    """Run a search.

    First every alternative by itself, against the start, on the same hold-outs. Of each lever the
    best alternative counts as helping if its mean gain over data sets is above some 1.2 standard
    errors. What helps is joined, best first; what does not raise the gain further, or cannot be
    set beside the others, is left out. A data set takes an alternative of its own over this recipe
    only if its 95 % interval there is above 0, and so is that of all of them joined against it.

    Args:
        search: what to try.
        do: runs jobs.
        with_edges: whether a data set has edge features; ``edge_labels`` is skipped without.

    Returns:
        What was found and chosen; no test fold is scored.

    Raises:
        GclHardError: if a score is missing because its training failed.
    """
    board = _Board(search, do, with_edges)
    board.run([{}, *(one.settings for one in search.levers)], search.datasets)
    alternatives = [board.tried(one.settings, one.lever) for one in search.levers]
    helping = _helping(alternatives)
    joined, left_out = _joined(board, helping)
    best = joined[-1].settings if joined else {}
    preferred = {name: _own(board, name, best) for name in search.datasets}
    own = {name: one for name, one in preferred.items() if one is not None}
    final = {
        (name, method): board.mean(name, method, own[name].settings if name in own else best)
        for name in search.datasets
        for method in search.methods
    }
    start = {(n, m): board.mean(n, m, {}) for n in search.datasets for m in search.methods}
    return Chosen(search, start, alternatives, helping, joined, left_out, best, own, final)


def _helping(alternatives: Iterable[Tried]) -> list[Tried]:
    """Of each lever the best alternative, if it helps; best first."""
    levers: dict[str, Tried] = {}
    for one in sorted(alternatives, key=lambda one: -one.gain.mean):
        levers.setdefault(one.lever, one)
    return [one for one in levers.values() if one.gain.mean > one.gain.error]


def _joined(board: _Board, helping: Sequence[Tried]) -> tuple[list[Tried], list[Tried]]:
    """What helps, joined, and what is left out."""
    joined, left_out = [*helping[:1]], []
    for one in helping[1:]:
        settings = {**joined[-1].settings, **one.settings}
        if board.possible(settings):
            board.run([settings], board.search.datasets)
            tried = board.tried(settings, "")
            if tried.gain.mean > joined[-1].gain.mean:
                joined.append(tried)
                continue
        left_out.append(one)
    return joined, left_out


def _own(board: _Board, name: str, best: Settings) -> Tried | None:
    """What a data set prefers to the recipe for all."""
    preferred = sorted(
        (
            one
            for one in board.search.levers
            if board.on(one.settings, {}, name).low > 0
            and any(best.get(k) != v for k, v in one.settings.items())
        ),
        key=lambda one: -board.on(one.settings, {}, name).mean,
    )
    taken: Settings = {}
    for one in _one_each(preferred):
        more = {**one.settings, **taken}  # the better one has its way
        if board.possible({**best, **more}):
            taken = more
    if not taken:
        return None
    settings = {**best, **taken}
    board.run([settings], [name])
    against = board.on(settings, best, name)
    if against.low <= 0:
        return None
    of = {m: board.gain_of(m, settings, best, name) for m in board.search.methods}
    return Tried(settings, "", {name: against}, of)


def _one_each(alternatives: Sequence[Alternative]) -> list[Alternative]:
    """The first alternative of each lever."""
    levers: dict[str, Alternative] = {}
    for one in alternatives:
        levers.setdefault(one.lever, one)
    return [*levers.values()]


class _Board:
    """Inner scores by data set, method and settings."""

    def __init__(self, search: Search, do: Do, with_edges: Callable[[str], bool]) -> None:
        self.search, self._do = search, do
        self._edges = {name: with_edges(name) for name in search.datasets}
        self._records: dict[Job, Record] = {}

    def jobs(self, name: str, method: str, settings: Settings) -> list[Job]:
        """Of one cell."""
        if not self._edges[name]:
            settings = {k: v for k, v in settings.items() if k != "edge_labels"}
        cell = self.search.cell(name, method, settings)
        return [Job(cell, seed, inner=True) for seed in self.search.seeds]

    def run(self, several: Sequence[Settings], datasets: Sequence[str]) -> None:
        """Score settings with all methods, data set by data set."""
        jobs = [
            job
            for name in datasets
            for settings in several
            for method in self.search.methods
            for job in self.jobs(name, method, settings)
        ]
        new = [job for job in dict.fromkeys(jobs) if job not in self._records]
        if new:
            self._records |= self._do(new)

    def possible(self, settings: Settings) -> bool:
        """Whether settings go together: two levers may each be fine by themselves."""
        try:
            for method in self.search.methods:
                self.search.cell(self.search.datasets[0], method, settings)
        except InputError:
            return False
        return True

    def scores(self, name: str, method: str, settings: Settings) -> Scores:
        """Seeds × hold-outs."""
        jobs = self.jobs(name, method, settings)
        missing = [job for job in jobs if job not in self._records]
        if missing:
            tried = said(settings) or "the start"
            raise GclHardError(f"no score of {missing[0]} ({tried}), so nothing can be chosen")
        return np.array([self._records[job].fold_accuracies for job in jobs])

    def mean(self, name: str, method: str, settings: Settings) -> float:
        """Percent."""
        return float(self.scores(name, method, settings).mean())

    def gain_of(self, method: str, ours: Settings, theirs: Settings, name: str) -> Gain:
        """Of one method on one data set."""
        return self._gains(ours, theirs, [name], [method])[name]

    def on(self, ours: Settings, theirs: Settings, name: str) -> Gain:
        """Of the methods that decide on one data set."""
        return self._gains(ours, theirs, [name], self.search.deciding)[name]

    def tried(self, settings: Settings, lever: str) -> Tried:
        """Against the start, on all data sets."""
        datasets, methods = self.search.datasets, self.search.methods
        by_method = {
            m: over_sets([self.gain_of(m, settings, {}, name) for name in datasets])
            for m in methods
        }
        gains = self._gains(settings, {}, datasets, self.search.deciding)
        return Tried(settings, lever, gains, by_method)

    def _gains(
        self, ours: Settings, theirs: Settings, datasets: Sequence[str], methods: Sequence[str]
    ) -> Mapping[str, Gain]:
        return gains_of(
            lambda name, method: self.scores(name, method, ours),
            lambda name, method: self.scores(name, method, theirs),
            datasets, methods,
        )  # fmt: skip
