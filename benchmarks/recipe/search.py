"""Ablations: a search for a recipe, which tries settings one at a time and combines what helps.

Everything is decided by inner scores; no test fold is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml
from numpy.typing import NDArray

from gcl_hard.errors import GclHardError, InputError
from gcl_hard.evaluation.significance import Interval, corrected_t_test
from gcl_hard.graphs.tudataset import canonical_name
from gcl_hard.runs.choice import inner_scores
from gcl_hard.runs.plan import Run
from gcl_hard.runs.record import RunResult
from gcl_hard.settings.flags import settings_from
from gcl_hard.settings.graphs import GraphConfig
from gcl_hard.settings.values import BadValueError, as_seeds
from gcl_hard.stored import read_yaml

KEYS = ("dataset", "method", "seeds", "folds", "start", "ablations")

Settings = Mapping[str, Any]

HOLDOUT_SHARE = 0.25
"""n_test / n_train of an inner hold-out of one fifth."""
LEVEL_Z = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""

FoldAccuracies = NDArray[np.float64]
"""Accuracies in percent, of seeds × folds."""


def gain(ours: Sequence[FoldAccuracies], theirs: Sequence[FoldAccuracies]) -> Interval:
    """Gain on one data set: the difference of the means over methods, paired by hold-out.

    The interval is that of :func:`gcl_hard.evaluation.significance.corrected_t_test`, since
    training parts overlap.

    Args:
        ours: accuracies of each method on the hold-outs.
        theirs: accuracies of the same methods on the same hold-outs.

    Returns:
        The gain with its 95 % interval, points.

    Example:
        >>> gain([np.array([61.0, 63.0])], [np.array([60.0, 60.0])]).mean
        2.0
    """
    a, b = (np.mean(scores, axis=0).ravel() for scores in (ours, theirs))
    test = corrected_t_test(a, b, test_share=HOLDOUT_SHARE)
    return Interval(test.difference, test.low, test.high)


def over_sets(gains: Sequence[Interval]) -> Interval:
    """Mean gain over data sets, with equal weights and independent errors.

    Example:
        >>> whole = over_sets([Interval(1.0, 0.0, 2.0), Interval(3.0, 2.0, 4.0)])
        >>> whole.mean, round(whole.high, 2)
        (2.0, 2.71)
    """
    mean = sum(one.mean for one in gains) / len(gains)
    half = math.sqrt(sum(((one.high - one.low) / 2) ** 2 for one in gains)) / len(gains)
    return Interval(mean, mean - half, mean + half)


@dataclass(frozen=True, eq=False)
class Alternative:
    """One value of an ablation.

    Attributes:
        ablation: name of the ablation.
        settings: settings that differ from the start.
    """

    ablation: str
    settings: Settings


@dataclass(frozen=True, eq=False)
class RecipeSearch:
    """A search for a recipe: its start, ablations, data sets and methods.

    Attributes:
        datasets: canonical names.
        methods: the mean inner score of the trained ones decides; baselines are only reported.
        seeds: seeds of encoders and folds.
        folds: folds of each seed; a fifth of each training fold is held out of training and scored.
        start: the settings that ablations change one at a time.
        ablations: every alternative, in order.
    """

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    folds: int
    start: Settings
    ablations: tuple[Alternative, ...]

    @property
    def deciding(self) -> tuple[str, ...]:
        """Trained methods, whose scores decide."""
        return tuple(m for m in self.methods if not GraphConfig(method=m).is_baseline)

    @property
    def baselines(self) -> tuple[str, ...]:
        """Methods that are only reported."""
        return tuple(m for m in self.methods if m not in self.deciding)

    def on(self, names: Iterable[str]) -> RecipeSearch:
        """The same search restricted to some data sets."""
        return replace(self, datasets=_canonical(names))

    def config(self, dataset: str, method: str, settings: Settings) -> GraphConfig:
        """The configuration of a method with the start's settings, partly replaced."""
        return GraphConfig(
            dataset=dataset, method=method, protocol="inductive", folds=self.folds,
            **{**self.start, **settings},
        )  # fmt: skip


def said(settings: Settings) -> str:
    """Settings as text.

    Example:
        >>> said({"lr": 0.001, "encodings": ("degree", "cycles"), "virtual_node": True})
        'lr 0.001, encodings degree + cycles, virtual node'
        >>> said({"c_grid": (0.1, 1.0, 10.0), "temperature": None})
        'c grid 0.1 … 10 (3 values), no temperature'
    """
    return ", ".join(_said(name.replace("_", " "), value) for name, value in settings.items())


def _said(name: str, value: Any) -> str:
    if value is None or isinstance(value, bool):
        return name if value else f"no {name}"
    if isinstance(value, tuple) and isinstance(value[0], float):
        return f"{name} {value[0]:g} … {value[-1]:g} ({len(value)} values)"
    if isinstance(value, tuple):
        return f"{name} {' + '.join(value)}"
    return f"{name} {value:g}" if isinstance(value, (int, float)) else f"{name} {value}"


def read_search(path: Path) -> RecipeSearch:
    """Read a search for a recipe from a YAML file.

    Args:
        path: YAML with ``dataset``, ``method``, ``seeds``, ``folds``, ``start`` (settings) and
            ``ablations`` (by name, lists of settings).

    Returns:
        The search; all of its configurations are valid.

    Raises:
        InputError: for a file that cannot be read or is no search for a recipe; says why.
    """
    given = read_yaml(path)
    try:
        return _search(given)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _search(given: Any) -> RecipeSearch:
    if not isinstance(given, dict) or set(given) != set(KEYS):
        got = ", ".join(map(str, given)) if isinstance(given, dict) else type(given).__name__
        raise InputError(f"a search states {', '.join(KEYS)}, got {got}")
    ablations, folds = given["ablations"], given["folds"]
    if not isinstance(ablations, dict) or not all(isinstance(v, list) for v in ablations.values()):
        raise InputError("ablations are names with lists of settings")
    try:
        seeds = as_seeds(given["seeds"])
    except BadValueError as error:
        raise InputError(f"seeds: {error}") from error
    if isinstance(folds, bool) or not isinstance(folds, int):
        raise InputError(f"folds: expected a whole number, got {folds!r}")
    search = RecipeSearch(
        datasets=_canonical(_names("dataset", given["dataset"])),
        methods=tuple(
            dict.fromkeys(GraphConfig(method=m).method for m in _names("method", given["method"]))
        ),
        seeds=seeds,
        folds=folds,
        start=settings_from(given["start"], "start"),
        ablations=tuple(
            Alternative(str(name), settings_from(one, f"ablations, {name}"))
            for name, some in ablations.items()
            for one in some
        ),
    )
    if not search.deciding:
        raise InputError(f"method must name one that is trained, got {', '.join(search.methods)}")
    _check_configs(search, {}, "start")
    for one in search.ablations:
        if not one.settings:
            raise InputError(f"ablations, {one.ablation}: expected settings, got none")
        _check_configs(search, one.settings, f"ablations, {one.ablation}")
    return search


def _check_configs(search: RecipeSearch, settings: Settings, where: str) -> None:
    for method in search.methods:
        try:
            search.config(search.datasets[0], method, settings)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error


def _names(key: str, given: Any) -> tuple[str, ...]:
    names = given if isinstance(given, list) else [given]
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"{key}: expected names, got {given!r}")
    return tuple(names)


def _canonical(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(canonical_name, names)))


Execute = Callable[[list[Run]], Mapping[Run, RunResult]]
"""Executes runs that are not finished; returns the results of all."""


@dataclass(frozen=True, eq=False)
class Tried:
    """Settings compared with the start.

    Attributes:
        settings: settings that differ from the start.
        ablation: name of the ablation; empty for a combination.
        gains: gains over the start by data set, means over the methods that decide.
        by_method: the gain over all data sets of each method, baselines included.
    """

    settings: Settings
    ablation: str
    gains: Mapping[str, Interval]
    by_method: Mapping[str, Interval]

    @cached_property
    def gain(self) -> Interval:
        """Mean gain over all data sets."""
        return over_sets([*self.gains.values()])


@dataclass(frozen=True, eq=False)
class Chosen:
    """The outcome of a search.

    Attributes:
        search: the search.
        scores: mean inner accuracy of the start in percent, by data set and method.
        alternatives: each scored alone, in the file's order.
        helping: the best alternative of each ablation, if it helps; best first.
        joined: combinations of what helps: each adds an alternative to the one before.
        left_out: alternatives that help alone but are not in the combination.
        best: settings of the recipe for all data sets.
        own: for data sets that prefer other settings, these compared with that recipe.
        final: mean inner accuracy of the chosen recipes in percent, by data set and method.
    """

    search: RecipeSearch
    scores: Mapping[tuple[str, str], float]
    alternatives: Sequence[Tried]
    helping: Sequence[Tried]
    joined: Sequence[Tried]
    left_out: Sequence[Tried]
    best: Settings
    own: Mapping[str, Tried] = field(default_factory=dict)
    final: Mapping[tuple[str, str], float] = field(default_factory=dict)


One = TypeVar("One", Alternative, Tried)


def choose(search: RecipeSearch, execute: Execute, *, with_edges: Callable[[str], bool]) -> Chosen:
    """Run a search.

    First every alternative is compared with the start on the same hold-outs. The best alternative
    of each ablation counts as helping if its mean gain over data sets exceeds some 1.2 standard
    errors. Those that help are combined, best first; one that does not raise the gain further, or
    cannot be combined with the others, is left out. A data set gets an alternative of its own on
    top of this recipe only if the 95 % interval of its gain there is above 0, and so is that of
    all of them combined.

    Args:
        search: what to try.
        execute: executes runs.
        with_edges: whether a data set has edge features; if not, ``edge_labels`` is skipped.

    Returns:
        The outcome; no test fold is scored.

    Raises:
        GclHardError: if a score is missing because its training failed.
    """
    inner = _InnerScores(search, execute, with_edges)
    inner.run([{}, *(one.settings for one in search.ablations)], search.datasets)
    alternatives = [inner.tried(one.settings, one.ablation) for one in search.ablations]
    helping = _helping(alternatives)
    joined, left_out = _joined(inner, helping)
    best = joined[-1].settings if joined else {}
    preferred = {name: _own(inner, name, best) for name in search.datasets}
    own = {name: one for name, one in preferred.items() if one is not None}
    final = {
        (name, method): inner.mean(name, method, own[name].settings if name in own else best)
        for name in search.datasets
        for method in search.methods
    }
    start = {(n, m): inner.mean(n, m, {}) for n in search.datasets for m in search.methods}
    return Chosen(search, start, alternatives, helping, joined, left_out, best, own, final)


def _helping(alternatives: Iterable[Tried]) -> list[Tried]:
    """The best alternative of each ablation, if it helps; best first."""
    ranked = sorted(alternatives, key=lambda one: -one.gain.mean)
    return [one for one in _one_each(ranked) if one.gain.mean > _error(one.gain)]


def _error(gain: Interval) -> float:
    """Approximate standard error, slightly too large: the t quantile is taken for a normal one."""
    return (gain.high - gain.low) / (2 * LEVEL_Z)


def _joined(inner: _InnerScores, helping: Sequence[Tried]) -> tuple[list[Tried], list[Tried]]:
    """Combine the alternatives that help; returns the combinations and what is left out."""
    joined, left_out = [*helping[:1]], []
    for one in helping[1:]:
        settings = {**joined[-1].settings, **one.settings}
        if inner.possible(settings):
            inner.run([settings], inner.search.datasets)
            tried = inner.tried(settings, "")
            if tried.gain.mean > joined[-1].gain.mean:
                joined.append(tried)
                continue
        left_out.append(one)
    return joined, left_out


def _own(inner: _InnerScores, name: str, best: Settings) -> Tried | None:
    """Settings that a data set prefers to the common recipe."""
    gains = {one: inner.gain(name, one.settings, {}) for one in inner.search.ablations}
    preferred = [
        one
        for one in sorted(gains, key=lambda one: -gains[one].mean)
        if gains[one].low > 0 and any(best.get(k) != v for k, v in one.settings.items())
    ]
    taken: Settings = {}
    for one in _one_each(preferred):
        more = {**one.settings, **taken}  # on conflict the better wins
        if inner.possible({**best, **more}):
            taken = more
    if not taken:
        return None
    settings = {**best, **taken}
    inner.run([settings], [name])
    against = inner.gain(name, settings, best)
    if against.low <= 0:
        return None
    of = {m: inner.gain(name, settings, best, m) for m in inner.search.methods}
    return Tried(settings, "", {name: against}, of)


def _one_each(ranked: Iterable[One]) -> list[One]:
    """The first alternative of each ablation."""
    found: dict[str, One] = {}
    for one in ranked:
        found.setdefault(one.ablation, one)
    return list(found.values())


class _InnerScores:
    """Inner scores by data set, method and settings."""

    def __init__(
        self, search: RecipeSearch, execute: Execute, with_edges: Callable[[str], bool]
    ) -> None:
        self.search, self._execute = search, execute
        self._edges = {name: with_edges(name) for name in search.datasets}
        self._records: dict[Run, RunResult] = {}

    def runs(self, name: str, method: str, settings: Settings) -> list[Run]:
        """Runs of one configuration."""
        if not self._edges[name]:
            settings = {k: v for k, v in settings.items() if k != "edge_labels"}
        config = self.search.config(name, method, settings)
        return [Run(config, seed, inner=True) for seed in self.search.seeds]

    def run(self, several: Sequence[Settings], datasets: Sequence[str]) -> None:
        """Score settings with all methods, data set by data set."""
        runs = [
            run
            for name in datasets
            for settings in several
            for method in self.search.methods
            for run in self.runs(name, method, settings)
        ]
        new = [run for run in dict.fromkeys(runs) if run not in self._records]
        if new:
            self._records |= self._execute(new)

    def possible(self, settings: Settings) -> bool:
        """Whether settings form a valid configuration: two ablations may contradict each other."""
        try:
            _check_configs(self.search, settings, "")
        except InputError:
            return False
        return True

    def scores(self, name: str, method: str, settings: Settings) -> FoldAccuracies:
        """Inner accuracies in percent, seeds × hold-outs."""
        runs = self.runs(name, method, settings)
        missing = [run for run in runs if run not in self._records]
        if missing:
            tried = said(settings) or "the start"
            raise GclHardError(f"no score of {missing[0]} ({tried}), so nothing can be chosen")
        return np.array([inner_scores(self._records[run]) for run in runs])

    def mean(self, name: str, method: str, settings: Settings) -> float:
        """Percent."""
        return float(self.scores(name, method, settings).mean())

    def gain(self, name: str, ours: Settings, theirs: Settings, *methods: str) -> Interval:
        """Gain on one data set, over some methods or else those that decide."""
        both = (
            [self.scores(name, m, settings) for m in methods or self.search.deciding]
            for settings in (ours, theirs)
        )
        return gain(*both)

    def tried(self, settings: Settings, ablation: str) -> Tried:
        """Compare settings with the start on all data sets."""
        datasets = self.search.datasets
        by_method = {
            m: over_sets([self.gain(name, settings, {}, m) for name in datasets])
            for m in self.search.methods
        }
        gains = {name: self.gain(name, settings, {}) for name in datasets}
        return Tried(settings, ablation, gains, by_method)


HEAD = "# Our recipe for "
"""First words of a recipe that a search wrote."""


def check_folder(folder: Path, datasets: Sequence[str]) -> None:
    """Refuse a folder with configs that no search wrote.

    Args:
        folder: folder for recipes.
        datasets: data sets that may get a recipe.

    Raises:
        InputError: if there is a config of one of the names that no search wrote.
    """
    for path in (folder / f"{stem}.yaml" for stem in ("all", *map(str.lower, datasets))):
        if path.exists() and not _ours(path):
            raise InputError(f"{path} is no recipe of a search: give --best another folder")


def write(chosen: Chosen, folder: Path, *, command: str) -> list[Path]:
    """Write the chosen recipes; earlier recipes of the searched data sets are removed.

    Args:
        chosen: outcome of a search.
        folder: for ``all.yaml``, and ``<set>.yaml`` where a set prefers its own.
        command: the command of the search.

    Returns:
        The files written.
    """
    recipes = {"all": ("all sets", chosen.best)}
    recipes |= {name.lower(): (name, one.settings) for name, one in chosen.own.items()}
    for stem in (name.lower() for name in chosen.search.datasets):
        path = folder / f"{stem}.yaml"
        if stem not in recipes and path.exists() and _ours(path):
            path.unlink()
    written = []
    for stem, (name, own) in recipes.items():
        path = folder / f"{stem}.yaml"
        path.write_text(
            f"{HEAD}{name}, chosen by inner scores on {', '.join(chosen.search.datasets)}, "
            f"seeds {', '.join(map(str, chosen.search.seeds))}:\n"
            f"#   {command}\n"
            f"#   python -m gcl_hard.bench --recipe best --dataset "
            f"{'NAME' if stem == 'all' else name} --method hscl\n"
            f"{_yaml({**chosen.search.start, **own})}",
            encoding="utf-8",
            newline="\n",
        )
        written.append(path)
    return written


def _ours(path: Path) -> bool:
    return path.read_bytes().startswith(HEAD.encode())


def _yaml(settings: Settings) -> str:
    names = [f.name for f in fields(GraphConfig) if f.name in settings]
    stated = {n: list(v) if isinstance(v := settings[n], tuple) else v for n in names}
    return str(yaml.safe_dump(stated, sort_keys=False, default_flow_style=None))
