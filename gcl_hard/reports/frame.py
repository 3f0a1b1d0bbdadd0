"""Scores of runs, paired comparisons, selections inside training folds, and the result file.

They are computed without pandas, so that a finished table prints at once.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcl_hard.errors import InputError, check_option
from gcl_hard.evaluation.metrics import Metric, alike, metric
from gcl_hard.evaluation.significance import (
    Interval,
    PairedTest,
    corrected_interval,
    corrected_t_test,
    crossed_test,
    holm,
    wilcoxon,
)
from gcl_hard.experiments.choice import Choice, best, choice, choices, inner_scores, metric_of
from gcl_hard.experiments.plan import candidate_groups, inner_run, plan
from gcl_hard.experiments.record import ACCURACY, RunResult, Tested
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig, selectable

SCHEMA_VERSION = 2
"""Of result files, which :func:`result_json` makes."""
LEVEL = 0.05
"""A difference is significant if its corrected p is below this."""

PAPER_NOTE = (
    "paper_accuracy: H-SCL paper; graphs: Table II, 10 runs, for hucl and hscl the best of beta in "
    "{1, 2, 10}, chosen on the test folds; images: Table I, ResNet-50, the best of a grid"
)


class UnitSample:
    """The test items of a run, as a sample of units such as molecules.

    Attributes:
        tested: the items, with what is predicted.
        metric: what they are scored by.
        config: the configuration, which knows the units.
    """

    def __init__(self, tested: Tested, metric: Metric, config: RunConfig) -> None:
        self.tested, self.metric, self.config = tested, metric, config
        self._scores: dict[int, NDArray[Any]] = {}

    @cached_property
    def values(self) -> NDArray[Any]:
        """The values of the units, whose mean the score is."""
        assert self.metric.each is not None
        return experiment_of(self.config).unit_values(
            self.metric.each(self.tested.targets, self.tested.predicted)
        )

    def resampled(self, ids: NDArray[Any]) -> NDArray[Any]:
        """The scores on draws of the items by ids [B, n], kept for other rows to compare with."""
        key = hash(ids.tobytes())
        if key not in self._scores:
            assert self.metric.resampled is not None
            mask = self.tested.masks.get(self.metric.mask)
            self._scores[key] = self.metric.resampled(*self.tested[1:3], ids, mask)
        return self._scores[key]


@dataclass(frozen=True)
class Scores:
    """Test scores by one metric, seeds × folds.

    Attributes:
        seeds: at least one.
        folds: scores of each seed's folds; one, if there is one test split.
        n_test: samples of that one test split; None for folds.
        test_share: n_test / n_train of the folds; 0 for one split.
        metric: name of the metric.
        common_splits: whether fold k is the same for all rows and seeds.
        is_deterministic: whether every seed has the same scores, so that one was run.
        samples: of each seed its test parts; empty where intervals are over seeds alone.
    """

    seeds: tuple[int, ...]
    folds: tuple[tuple[float, ...], ...]
    n_test: int | None = None
    test_share: float = 0.0
    metric: str = ACCURACY
    common_splits: bool = False
    is_deterministic: bool = False
    samples: tuple[tuple[UnitSample, ...], ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of_records(cls, records: Sequence[RunResult], config: RunConfig) -> Scores:
        """The scores of a configuration's results, at least one.

        Raises:
            InputError: for records of two metrics.
        """
        return cls(
            tuple(record.seed for record in records),
            tuple(tuple(record.values) for record in records),
            records[0].data.get("n_test") if config.n_scores == 1 else None,
            experiment_of(config).test_share(config, records[0].data),
            metric_of(records),
            experiment_of(config).common_splits,
            config.is_deterministic,
            _samples(records, config),
        )

    @classmethod
    def over(cls, scores: Sequence[Scores], *, splits: bool) -> Scores:
        """The mean of several rows, on the seeds that all have.

        Args:
            scores: by one metric, each on one test part or several.
            splits: whether they are of splits of one data set, over which ± is, too.
        """
        fixed = all(row.is_deterministic for row in scores)
        drawn = [row.seeds for row in scores if fixed or not row.is_deterministic]
        seeds = [seed for seed in drawn[0] if all(seed in others for others in drawn)]
        rows = [row.restricted(seeds) for row in scores]
        by_seed = zip(*(row.folds for row in rows), strict=True)
        folds = (tuple(chain(*x)) if splits else (fmean(map(fmean, x)),) for x in by_seed)
        samples = [row.samples for row in rows if row.samples]
        each = zip(*samples, strict=True) if len(samples) == len(rows) else ()
        return cls(
            tuple(seeds), tuple(folds), metric=scores[0].metric, common_splits=splits,
            is_deterministic=fixed, samples=tuple(tuple(chain(*x)) for x in each),
        )  # fmt: skip

    @cached_property
    def means(self) -> list[float]:
        """Mean over the folds of each seed."""
        return [fmean(folds) for folds in self.folds]

    @cached_property
    def mean(self) -> float:
        """Mean over seeds."""
        return fmean(self.means)

    @cached_property
    def std(self) -> float | None:
        """Sample standard deviation over seeds, and over splits where they are the same for all."""
        scores = self.flat if self.common_splits else self.means
        return statistics.stdev(scores) if len(scores) > 1 else None

    @cached_property
    def seed_std(self) -> float | None:
        """Sample standard deviation over seeds' means; None for one seed."""
        return statistics.stdev(self.means) if len(self.seeds) > 1 else None

    @property
    def n_folds(self) -> int:
        """Number of the folds of each seed."""
        return len(self.folds[0])

    @property
    def one_split(self) -> bool:
        """Whether all seeds are tested on the same samples, and none is trained on any of them."""
        return self.n_folds == 1

    @cached_property
    def fold_std(self) -> float | None:
        """Mean over seeds of the sample standard deviation over folds; None for one split."""
        if self.one_split:
            return None
        return float(np.std(self.folds, axis=1, ddof=1).mean())  # statistics.stdev takes longer

    @cached_property
    def test_error(self) -> float | None:
        """Standard error that one test split leaves: √(p (1 − p) / n_test) of a share, points; of
        other means that of its units.
        """
        if self.samples and metric(self.metric).each is not None:
            mean = np.mean([sample.values for (sample,) in self.samples], axis=0)
            return float(mean.std() / math.sqrt(len(mean)))
        if self.n_test is None or not metric(self.metric).share:
            return None
        return standard_error(self.mean, self.n_test)

    @cached_property
    def flat(self) -> list[float]:
        """Every seed × fold, seed by seed."""
        return [score for folds in self.folds for score in folds]

    @cached_property
    def resamples(self) -> list[float]:
        """Scores of the resamples that intervals are over: every seed × fold, or every split where
        seeds share them, its mean over seeds, as more seeds draw no other splits.
        """
        if self.one_split or not self.common_splits:
            return self.flat
        return [fmean(of_split) for of_split in zip(*self.folds, strict=True)]

    @cached_property
    def interval(self) -> Interval | None:
        """Mean and 95 % interval over the resamples by the corrected variance; None for one.

        Over seeds and test units, where these are known; within the range of the metric.
        """
        if self.samples:
            test = unit_test(self)
            if math.isnan(test.p):  # not defined on enough draws
                return None
            interval = Interval(test.difference, test.low, test.high)
        elif len(self.resamples) < 2:
            return None
        else:
            interval = corrected_interval(self.resamples, test_share=self.test_share)
        measure = metric(self.metric)
        return Interval(interval.mean, measure.within(interval.low), measure.within(interval.high))

    def restricted(self, seeds: Sequence[int], n_folds: int | None = None) -> Scores:
        """The same scores for some of the seeds and, if ``n_folds`` is given, the first folds.

        What does not depend on the seed has its scores for any.
        """
        at = {seed: k for k, seed in enumerate(self.seeds)}
        if self.is_deterministic:
            at = dict.fromkeys(seeds, 0)
        return replace(
            self, seeds=tuple(seeds), folds=tuple(self.folds[at[seed]][:n_folds] for seed in seeds),
            test_share=0.0 if n_folds == 1 else self.test_share,
            samples=tuple(self.samples[at[seed]][:n_folds] for seed in seeds)
            if self.samples else (),
        )  # fmt: skip


def _samples(records: Sequence[RunResult], config: RunConfig) -> tuple[tuple[UnitSample, ...], ...]:
    """Of each record its test parts; none unless all have predictions, of a metric of units."""
    scored = metric(metric_of(records))
    if not experiment_of(config).unit or (scored.each is None and scored.resampled is None):
        return ()
    samples = [
        tuple(UnitSample(part, scored, config) for part in record.tested()) for record in records
    ]
    return tuple(samples) if all(samples) else ()


def unit_test(ours: Scores, theirs: Scores | None = None) -> PairedTest:
    """The difference of two rows over seeds and test units, mean over their test parts.

    Args:
        ours: the first row.
        theirs: the second, of the same seeds and test parts; None for the mean of ``ours`` itself.
    """
    from gcl_hard.evaluation.transfer import paired_bootstrap

    n, first = len(ours.seeds), ours.samples[0]
    if first[0].metric.each is not None:
        rows = [row.samples for row in (ours, theirs) if row is not None]
        return crossed_test(*(np.stack([sample.values for (sample,) in row]) for row in rows))

    def score_of(part: int) -> Callable[[NDArray[Any], int], NDArray[Any]]:
        def score(ids: NDArray[Any], is_ours: int) -> NDArray[Any]:
            row = ours if is_ours else theirs
            scores = [np.zeros(len(ids)) if row is None else row.samples[seed][part].resampled(ids)
                      for seed in range(n)]  # fmt: skip
            return scores[0] if n == 1 else np.stack(scores, axis=1)

        return score

    sets = [(score_of(part), len(sample.tested.items)) for part, sample in enumerate(first)]
    return paired_bootstrap(sets, seeds=n)


def standard_error(accuracy: float, n: int) -> float:
    """Standard error of an accuracy over n held-out samples, points.

    ``100 √(p (1 − p) / n)`` with p = accuracy / 100.

    Args:
        accuracy: percent.
        n: samples, ≥ 1.

    Returns:
        Points.

    Source: the standard deviation of a binomial share.

    Example:
        >>> standard_error(50.0, 100)
        5.0
    """
    share = accuracy / 100
    return 100 * math.sqrt(share * (1 - share) / n)


@dataclass(frozen=True)
class Comparison(Interval):
    """The paired difference of two rows, ours less theirs, on the folds of the seeds of both.

    Its interval is that of the corrected resampled t-test, at 95 %, over
    :attr:`Scores.resamples`; over seeds and test units where these are known.

    Attributes:
        seeds: number of seeds that both have.
        p: p-value of the corrected resampled t-test, Holm-corrected by :func:`corrected`.
        p_wilcoxon: p-value of Wilcoxon's test over seeds' means, Holm-corrected; None without
            one.
        folds: number of folds of a seed that both have.
        degrees: degrees of freedom of the corrected resampled t-test.
        least: the smallest difference with this interval's width that would have been significant,
            if it is not; see :func:`corrected`.
    """

    seeds: int
    p: float
    p_wilcoxon: float | None
    folds: int = 1
    degrees: float = math.inf
    least: float | None = None

    @property
    def significant(self) -> bool:
        """Whether the corrected resampled t-test finds a difference at 5 %."""
        return self.p < LEVEL


def compare(ours: Scores | None, theirs: Scores | None) -> Comparison | None:
    """The paired difference of two rows, p not corrected.

    Where the two were trained on different shares of a fold, n_test / n_train is the larger. Where
    split k is the same for all, rows of different numbers of splits are compared on the first ones,
    those that both have; and a row that no seed changes, on every seed of the other.

    Args:
        ours: the first row's scores.
        theirs: the second's.

    Returns:
        The comparison; None without a shared seed, or with one seed on one test split.

    Raises:
        InputError: for rows of two metrics, or of different folds.
    """
    if ours is None or theirs is None:
        return None
    seeds, n_folds = _seeds_of_both(ours, theirs), None
    if not seeds:
        return None
    if ours.common_splits and theirs.common_splits:
        n_folds = min(ours.n_folds, theirs.n_folds)
    a, b = ours.restricted(seeds, n_folds), theirs.restricted(seeds, n_folds)
    over_units = a.samples and b.samples and a.metric == b.metric
    if len(a.resamples) < 2 and not over_units:
        return None
    if a.metric != b.metric or len(a.flat) != len(b.flat):
        raise InputError(
            f"two rows are not compared fold by fold: one has {len(a.flat)} scores by {a.metric}, "
            f"the other {len(b.flat)} by {b.metric} on the same seeds; show them by different "
            f"commands"
        )
    if over_units:
        t = unit_test(a, b)
        if math.isnan(t.p):
            return None
    else:
        share = max(a.test_share, b.test_share)
        t = corrected_t_test(a.resamples, b.resamples, test_share=share)
    p_wilcoxon = wilcoxon(a.means, b.means)
    return Comparison(
        t.difference, t.low, t.high, len(seeds), t.p, p_wilcoxon, a.n_folds, t.degrees
    )


def over_items(
    ours: Sequence[RunResult], theirs: Sequence[RunResult], name: str | None = None
) -> PairedTest:
    """The paired difference of two rows on the test items, which vary as the seeds do.

    Args:
        ours: results of the first row, one a seed.
        theirs: those of the second.
        name: of the metric; theirs if None.

    Raises:
        InputError: without predictions of the same items, a shared seed, or a metric that is a mean
            over items.
    """
    known = alike(metric_of([*ours, *theirs]))
    name = check_option("metric", name or ours[0].metric, known)
    each = metric(name).each
    if each is None:
        raise InputError(f"{name} is no mean over items, so that it has no paired test over them")
    a, b = (
        {record.seed: _item_values(record, each) for record in records}
        for records in (ours, theirs)
    )
    for records, values in ((ours, a), (theirs, b)):
        if records[0].run.config.is_deterministic:  # one run stands for all seeds
            values.update(dict.fromkeys({*a} | {*b}, values[records[0].seed]))
    seeds = [seed for seed in a if seed in b]
    if not seeds:
        raise InputError("the two rows have no seed in common")
    if any(a[seed].keys() != b[seed].keys() for seed in seeds) or not a[seeds[0]]:
        raise InputError(
            f"{ours[0].run} and {theirs[0].run} have no predictions of the same items: run both "
            f"again by --force"
        )
    items = [*a[seeds[0]]]
    pairs = ([[by_seed[seed][item] for item in items] for seed in seeds] for by_seed in (a, b))
    return crossed_test(*pairs)


def _item_values(record: RunResult, each: Callable[[Any, Any], Any]) -> dict[int, float]:
    """The value of each test item, or unit of them, the mean over the folds that have it."""
    by_item: dict[int, list[float]] = {}
    config = record.run.config
    for fold in record.tested():
        values = experiment_of(config).unit_values(each(fold.targets, fold.predicted))
        items = range(len(values)) if experiment_of(config).unit else fold.items
        for item, value in zip(items, values, strict=True):
            by_item.setdefault(int(item), []).append(float(value))
    return {item: fmean(by_item[item]) for item in sorted(by_item)}


def _seeds_of_both(ours: Scores, theirs: Scores) -> Sequence[int]:
    """The seeds on which two rows are compared."""
    if ours.is_deterministic != theirs.is_deterministic:
        return theirs.seeds if ours.is_deterministic else ours.seeds
    return [seed for seed in ours.seeds if seed in theirs.seeds]


def corrected(family: Sequence[Comparison]) -> list[Comparison]:
    """Comparisons of one family with Holm's correction, separately for each test.

    With r of m hypotheses rejected, Holm rejects one more if its p is below 0.05 / (m − r): that
    is t of its ``degrees`` at this level, in standard errors, for the ``least`` difference.
    """
    p = [0.0 if value is None else value for value in holm([test.p for test in family])]
    p_wilcoxon = holm([comparison.p_wilcoxon for comparison in family])
    tests = [
        replace(comparison, p=first, p_wilcoxon=second)
        for comparison, first, second in zip(family, p, p_wilcoxon, strict=True)
    ]
    level = LEVEL / max(1, sum(not test.significant for test in tests))
    return [
        test if test.significant else replace(test, least=_least(test, level)) for test in tests
    ]


def _least(test: Comparison, level: float) -> float:
    """The smallest difference of a comparison's precision with a p below a level."""
    from scipy.special import stdtrit

    half = (test.high - test.low) / 2
    return float(half * stdtrit(test.degrees, level / 2) / stdtrit(test.degrees, LEVEL / 2))


@dataclass(frozen=True)
class Selection:
    """Settings chosen inside every training fold, and their test score.

    For each seed and fold, the candidate whose encoder did best on a hold-out of a fifth of the
    training fold (on a tie the first); its score is that of an encoder retrained on the whole
    training fold.

    Attributes:
        choice: the candidates, with their scores on the hold-outs.
        outer: for each candidate, the scores of encoders trained on whole training folds.
        seconds: time of training and scoring for the inner scores.
    """

    choice: Choice
    outer: tuple[Scores, ...]
    seconds: float

    @property
    def candidates(self) -> tuple[RunConfig, ...]:
        """The configurations to choose from."""
        return self.choice.candidates

    @cached_property
    def chosen(self) -> tuple[tuple[int, ...], ...]:
        """For each seed and fold, the index of the chosen candidate."""
        return self.choice.fold_by_fold

    @cached_property
    def scores(self) -> Scores:
        """Test scores of the chosen settings."""
        taken = self.choice.taken([row.folds for row in self.outer])
        samples = tuple(
            tuple(self.outer[index].samples[k][fold] for fold, index in enumerate(chosen))
            for k, chosen in enumerate(self.chosen)
        ) if all(row.samples for row in self.outer) else ()  # fmt: skip
        return replace(self.outer[0], folds=tuple(map(tuple, taken.tolist())), samples=samples)

    @property
    def best(self) -> int | None:
        """Index of the candidate with the best mean on the test folds; no estimate by itself.

        None where candidates differ in epochs: there is no maximum over epochs of a test score.
        """
        comparable = len({config.epochs for config in self.candidates}) == 1
        return best_on_test(self.outer) if comparable else None

    @property
    def optimism(self) -> float | None:
        """By how much the best on test is better than what was chosen inside."""
        if self.best is None:
            return None
        return metric(self.scores.metric).gain(self.outer[self.best].mean, self.scores.mean)


def best_on_test(scores: Sequence[Scores]) -> int:
    """Index of the best mean; on a tie the first."""
    return best([row.mean for row in scores], higher=metric(scores[0].metric).higher)


@dataclass(frozen=True)
class Results:
    """Everything that a command asked for, finished or open.

    Attributes:
        configs: configurations asked for, in order; where some are to choose from, the chosen ones.
        seeds: seeds asked for.
        records: results of finished runs.
        select: whether settings are chosen inside training folds.
        shorter: by candidate, the shorter run by which it was compared with others, once.
        control: methods or labels of the rows that the others are compared with; the domain's
            if None.
        chosen_by: results whose scores choose settings, where these are not ``records``.
        further: results of the same runs by further metrics, of each metric.
    """

    configs: Sequence[RunConfig]
    seeds: tuple[int, ...]
    records: Mapping[Run, RunResult]
    select: bool = False
    shorter: Mapping[RunConfig, Run] = field(default_factory=dict)
    control: tuple[str, ...] | None = None
    chosen_by: Mapping[Run, RunResult] | None = None
    further: tuple[Mapping[Run, RunResult], ...] = ()

    @property
    def _choosing(self) -> Mapping[Run, RunResult]:
        return self.records if self.chosen_by is None else self.chosen_by

    @property
    def by_metric(self) -> list[Results]:
        """The results by each metric, the first one first."""
        return [
            self,
            *(
                replace(self, records=records, chosen_by=self.records, further=())
                for records in self.further
            ),
        ]

    @cached_property
    def beside(self) -> dict[str, Results]:
        """The results by metrics that have a column beside the first one."""
        views = dict[str, dict[Run, RunResult]]()
        for run, record in self.scored.items():
            for name in experiment_of(run.config).beside.get(record.metric, ()):
                shown = not run.inner and (name != "f1_macro" or _uneven(record))
                if shown and (view := record.by(name)) is not None:
                    views.setdefault(name, {})[run] = view
        return {
            name: replace(self, records=records, chosen_by=self._choosing, further=())
            for name, records in views.items()
        }

    @cached_property
    def scored(self) -> dict[Run, RunResult]:
        """Results of finished runs whose scores are defined."""
        return {run: record for run, record in self.records.items() if defined(record)}

    @cached_property
    def choices(self) -> list[Choice]:
        """The choices that were made by shorter runs, or are still open."""
        return choices(self.shorter, self._choosing)

    @property
    def undecided(self) -> list[Choice]:
        """The choices with an open run."""
        return [choice for choice in self.choices if choice.best is None]

    @property
    def shown(self) -> list[RunConfig]:
        """Configurations with a line in a table; the first of a group not yet chosen from."""
        return [*self.configs, *(choice.candidates[0] for choice in self.undecided)]

    @property
    def planned(self) -> list[Run]:
        """All runs that were asked for; where a choice is still open, the shorter ones."""
        runs = plan(self.configs, self.seeds, select=self.select)
        return [*dict.fromkeys((*self.shorter.values(), *runs))]

    @property
    def open(self) -> list[Run]:
        """Runs that are not finished."""
        return [run for run in self.planned if run not in self.records]

    def runs(self, config: RunConfig, seeds: Sequence[int] | None = None) -> list[Run]:
        """A configuration's runs, of all seeds that it uses or of some."""
        used = experiment_of(config).seeds_used(config, self.seeds) if seeds is None else seeds
        return [Run(config, seed) for seed in used]

    def of(self, config: RunConfig, *, seeds: Sequence[int] | None = None) -> list[RunResult]:
        """A configuration's results with defined scores, in the order of the seeds."""
        return [self.scored[run] for run in self.runs(config, seeds) if run in self.scored]

    def undefined(self, config: RunConfig) -> int:
        """Number of a configuration's finished runs whose scores are not defined."""
        return sum(run in self.records and run not in self.scored for run in self.runs(config))

    def scores(self, config: RunConfig, *, seeds: Sequence[int] | None = None) -> Scores | None:
        """A configuration's test scores; None without a finished seed."""
        records = self.of(config, seeds=seeds)
        return Scores.of_records(records, config) if records else None

    @cached_property
    def selections(self) -> list[Selection]:
        """One per group of candidates with a seed that is finished for all of them."""
        groups = candidate_groups(self.configs) if self.select else []
        return [selection for group in groups if (selection := self.selection(group)) is not None]

    def selection(self, candidates: Sequence[RunConfig]) -> Selection | None:
        """The selection among candidates; None while no seed is finished for all of them."""
        seeds = self.shared_seeds(candidates, inner=True)
        if not seeds:
            return None
        runs = {c: [inner_run(c, seed) for seed in seeds] for c in candidates}
        inner_choice = choice(candidates, runs, self._choosing)
        outer = tuple(Scores.of_records(self.of(c, seeds=seeds), c) for c in candidates)
        spent = {
            run: self._choosing[run]
            for config_runs in runs.values()
            for run in config_runs
            if run.inner
        }
        return Selection(inner_choice, outer, seconds(spent.values()))

    def shared_seeds(self, candidates: Sequence[RunConfig], *, inner: bool = False) -> list[int]:
        """Seeds that are finished for all configurations, and their inner scores if ``inner``."""

        def is_finished(config: RunConfig, seed: int) -> bool:
            chooses = self._choosing.get(inner_run(config, seed))
            decided = chooses is not None and bool(inner_scores(chooses))
            return (decided or not inner) and Run(config, seed) in self.scored

        return [seed for seed in self.seeds if all(is_finished(c, seed) for c in candidates)]


def set_name(config: RunConfig) -> str:
    """Name of a configuration's data set in tables."""
    return experiment_of(config).set_name(config)


UNEVEN = 2
"""Classes are uneven if one has more than this many times the test items of another."""


def _uneven(record: RunResult) -> bool:
    """Whether the classes of a record's test items are uneven, as far as it has predictions."""
    targets = [fold.targets for fold in record.tested()]
    counts = np.unique(np.concatenate(targets), return_counts=True)[1] if targets else [0]
    return bool(max(counts) > UNEVEN * min(counts))


def defined(record: RunResult) -> bool:
    """Whether the scores of a run are defined; an area under a curve of one class is not."""
    return all(map(math.isfinite, record.values))


def seconds(records: Iterable[RunResult]) -> float:
    """Total time of training and scoring."""
    return math.fsum(record.seconds_train + record.seconds_eval for record in records)


def published(config: RunConfig, records: Sequence[RunResult]) -> float | None:
    """The paper's accuracy in percent, or None if not comparable."""
    if metric_of(records) != ACCURACY:
        return None
    data = records[0].data if records else {}
    sizes = ((data.get("n_official"), "n_train"), (data.get("n_official_test"), "n_test"))
    whole = all(official == data[name] for official, name in sizes if official)
    return experiment_of(config).published(config) if whole else None


def monitoring_curve(records: Iterable[RunResult]) -> tuple[tuple[int, float], ...]:
    """Epoch and monitoring accuracy in percent, mean over the seeds that have the epoch."""
    points: dict[int, list[float]] = {}
    for record in records:
        for epoch, accuracy in record.curve:
            points.setdefault(int(epoch), []).append(accuracy)
    return tuple((epoch, fmean(points[epoch])) for epoch in sorted(points))


def result_json(results: Results, *, quick: bool = False) -> dict[str, Any]:
    """The whole result file; ``quick`` marks a smoke run, which is not reportable.

    The paper's accuracies are in it if a configuration has one.
    """
    configs = [
        _config_json(config, records)
        for config in results.configs
        if (records := results.of(config))
    ]
    compared = any(config["paper_accuracy"] for config in configs)
    for config in configs if not compared else ():
        del config["paper_accuracy"]
    return {
        "schema_version": SCHEMA_VERSION,
        "quick": quick,
        **({"paper_accuracy_note": PAPER_NOTE} if compared else {}),
        "configs": configs,
        "selections": [_selection_json(selection) for selection in results.selections],
    }


def scores_key(name: str) -> str:
    """The key of a metric's scores in a result file.

    Example:
        >>> scores_key("accuracy"), scores_key("rmse")
        ('accuracies', 'rmse')
    """
    return "accuracies" if name == ACCURACY else name


def _scores_json(scores: Scores) -> dict[str, Any]:
    key, name = scores_key(scores.metric), scores.metric
    return {
        "seeds": list(scores.seeds),
        key: scores.means,
        f"fold_{key}": [list(folds) for folds in scores.folds],
        f"{name}_mean": scores.mean,
        f"{name}_std": scores.std,
    }


def _config_json(config: RunConfig, records: Sequence[RunResult]) -> dict[str, Any]:
    first = records[0]
    content = {
        "dataset": config.dataset,
        "method": config.method,
        "protocol": config.protocol,
        "beta": config.beta,
        **_scores_json(Scores.of_records(records, config)),
        "paper_accuracy": published(config, records),
        **{k: v for k, v in first.data.items() if not k.endswith("digest")},
        "domain": first.domain,
        "metric": first.metric,
        "config": first.config,
        "versions": first.versions,
        "device": first.device,
        "seconds_train": math.fsum(r.seconds_train for r in records),
        "seconds_eval": math.fsum(r.seconds_eval for r in records),
    }
    if any(r.knn is not None for r in records):
        content["knn"] = [r.knn for r in records]
    if any(r.curve for r in records):
        content["curves"] = [r.curve for r in records]
    if any(r.diagnostics for r in records):
        content["diagnostics"] = [r.diagnostics for r in records]
        content["seconds_diagnostics"] = math.fsum(r.seconds_diagnostics for r in records)
    return content


def _selection_json(selection: Selection) -> dict[str, Any]:
    first, scores = selection.candidates[0], _scores_json(selection.scores)
    return {
        "dataset": first.dataset,
        "method": first.method,
        "protocol": first.protocol,
        "settings": {
            name: value
            for name, value in first.stated().items()
            if name not in selectable(type(first))
        },
        "candidates": [
            {name: getattr(config, name) for name in selectable(type(config))}
            for config in selection.candidates
        ],
        "seeds": scores.pop("seeds"),
        "chosen": [list(row) for row in selection.chosen],
        **scores,
        "best_on_test": selection.best,
        "optimism": selection.optimism,
    }
