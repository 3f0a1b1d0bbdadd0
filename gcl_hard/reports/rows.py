"""Rows of a table: fixed settings, settings chosen inside or best on test, and their tests."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gcl_hard.errors import InputError
from gcl_hard.evaluation.significance import Interval
from gcl_hard.experiments.choice import metric_of
from gcl_hard.experiments.plan import candidate_groups
from gcl_hard.experiments.record import ACCURACY, RunResult
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import CONTROLS, RunConfig, encoder_name, flag, known, symbols
from gcl_hard.losses.methods import METHODS
from gcl_hard.reports.frame import (
    Comparison,
    Results,
    Scores,
    best_on_test,
    compare,
    corrected,
    monitoring_curve,
    published,
    seconds,
    set_name,
)

if TYPE_CHECKING:
    from pandas import DataFrame

CONDITIONS = ("label_noise", "known_labels", "known", "encoder", "train_share")
"""Settings that are compared, beside epochs and what is left out, not chosen among."""

IN_NAME = ("encoder", "joined", "split")
"""Settings that are in the names of rows that have a representation, or in a field."""

END = "‡"
"""Marks a chosen value at an end of what was compared."""

Kind = Literal["fixed", "inside", "best", "baseline"]


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
        dataset: canonical name, with the classes that are left of it.
        method: method of the papers, or a baseline.
        protocol: protocol of the row; most baselines are shown under all.
        kind: ``fixed`` settings; chosen ``inside`` the training folds; ``best`` on the test folds,
            the paper's way, which is no estimate; a ``baseline``.
        setting: what distinguishes the row from others of its method, such as β=2; for ``best`` the
            setting that was best.
        group: what distinguishes it from others of its method that were chosen inside.
        scores: test scores; None while open.
        expected: number of seeds asked for, of those that it uses.
        seconds: time of training and scoring; 0 where another row includes it.
        paper: the paper's accuracy, percent, or None.
        tests: comparisons by control.
        beside: scores by further metrics, of its seeds that have them.
        optimism: for a ``best`` row, by how much it is better than what was chosen inside, if that
            is known.
        beta: β, where the setting is β alone.
        changed: other settings that are not the default, such as lr=0.02.
        sees_test_labels: whether its encoder is trained with labels, those of its test items too.
        curve: monitoring for images: epoch and accuracy in percent, mean over seeds.
        knn: for images, the accuracies of nearest neighbours, percent, of the seeds that have one.
        notes: what reading its data warned of, and what its training did.
        blind: whether it is a baseline that cannot tell any two graphs apart.
        metric: name of the metric of its scores; while it is open, that of the rows beside it.
        n_folds: number of test folds of a seed; 1 if all seeds are tested on one part of the data.
        common_splits: whether fold k is the same for all rows and seeds, and is called a split.
        is_deterministic: whether every seed has the same scores, so that one was run.
        encoder: name of its encoder, "" for a baseline without one.
        unit: what intervals are over beside seeds; empty for nothing.
        undefined: finished seeds that are left out, since their score is not defined.
        name: its name, if that is not its method.
        representation: of molecules, the encoder and what is joined with it.
        share: of molecules, the share of the training part that is used.
        split: name of its split, or of several whose scores it has.
        sets: number of data sets that it is the mean of.
        config: its configuration; the first of several to choose from, and of several data sets.
        records: results of its seeds, of what was chosen if it was.
    """

    dataset: str
    method: str
    protocol: str
    kind: Kind
    setting: str
    scores: Scores | None
    expected: int
    group: str = ""
    seconds: float = 0.0
    paper: float | None = None
    tests: dict[str, Comparison] = field(default_factory=dict)
    beside: dict[str, Scores] = field(default_factory=dict)
    optimism: float | None = None
    beta: float | None = None
    changed: tuple[str, ...] = ()
    sees_test_labels: bool = False
    curve: tuple[tuple[int, float], ...] = ()
    knn: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    blind: bool = False
    metric: str = ACCURACY
    n_folds: int = 10
    common_splits: bool = False
    is_deterministic: bool = False
    encoder: str = ""
    unit: str = ""
    undefined: int = 0
    name: str = ""
    representation: str = ""
    share: float | None = None
    split: str = ""
    sets: int = 1
    config: Any = field(default=None, compare=False, repr=False)
    records: tuple[RunResult, ...] = field(default=(), compare=False, repr=False)

    @property
    def is_baseline(self) -> bool:
        """Whether it is a baseline, whatever its kind."""
        return self.method not in METHODS

    @property
    def one_split(self) -> bool:
        """Whether all of its seeds are tested on one part of the data."""
        return self.n_folds == 1

    @property
    def whole(self) -> bool:
        """Whether all seeds are finished."""
        return self.scores is not None and len(self.scores.seeds) == self.expected

    @property
    def choice(self) -> str:
        """How the setting was chosen."""
        if self.kind == "inside":
            return "chosen inside" + (f" ({self.group})" if self.group else "")
        if self.kind == "best":
            return "best on test" + (f" ({self.setting})" if self.setting else "")
        return self.setting

    @property
    def title(self) -> str:
        """What it is called, without its choice."""
        return self.name or self.method

    @property
    def label(self) -> str:
        """What it is called, and its choice."""
        return f"{self.title} {self.choice}".strip()

    @property
    def entry(self) -> str:
        """Its label in a table over data sets, without the setting that was best."""
        return f"{self.title} best on test" if self.kind == "best" else self.label

    @property
    def interval(self) -> Interval | None:
        """Mean and 95 % interval over all seed × fold pairs; None for a single pair."""
        return None if self.scores is None else self.scores.interval

    @property
    def gap(self) -> float | None:
        """Points above the paper's accuracy."""
        return None if not self.scores or self.paper is None else self.scores.mean - self.paper


def rows(results: Results) -> list[Row]:
    """The rows of a table by protocol, data set and method as asked for; baselines last.

    Args:
        results: results of a command.

    Returns:
        One row a configuration; where several settings of a method were run, one more for the
        best on the test folds, and one for what was chosen inside, if that was asked for.

    Raises:
        InputError: for scores of one data set by two metrics, or a control that is no row.
    """
    table = [row for metric_results in results.by_metric for row in _by_metric(metric_results)]
    for name in results.control or ():
        if not any(_is_named(row, name) for row in table):
            labels = dict.fromkeys(row.label for row in table)
            raise InputError(
                f"control is the method, the encoder or the label of a row, one of "
                f"{'; '.join(map(repr, labels))}; got {name!r}"
            )
    return table


def _by_metric(results: Results) -> list[Row]:
    """The rows by one metric."""
    asked = results.shown
    trained = [c for c in asked if not c.is_baseline]

    def shared(config: RunConfig, protocol: str) -> bool:
        """Whether a baseline, which trains no encoder, is tested on the folds of a protocol."""
        common = experiment_of(config).common_splits
        return config.is_baseline and not config.encoders and any(
            other.protocol == protocol
            and (other.n_scores == config.n_scores or common)
            for other in trained
        )  # fmt: skip

    first = dict.fromkeys(c.protocol for c in trained)
    other_protocols = [
        c.protocol for c in asked if not any(shared(c, protocol) for protocol in first)
    ]
    table, usual = [], next(iter(results.records.values())).metric if results.records else ACCURACY
    for protocol in dict.fromkeys([*first, *other_protocols]):
        blocks = []
        for dataset in dict.fromkeys(set_name(c) for c in asked):
            # A baseline is shown under every protocol; one that trains encoders under its own.
            shown = [
                c
                for c in asked
                if set_name(c) == dataset and (c.protocol == protocol or shared(c, protocol))
            ]
            records = [record for config in shown for record in results.of(config)]
            name = metric_of(records) if records else usual
            methods: dict[tuple[Any, ...], list[RunConfig]] = {}
            for config in shown:
                key = (
                    config.method,
                    experiment_of(config).row_name(config),
                    experiment_of(config).row_fields(config).get("split"),
                )
                methods.setdefault(key, []).append(config)
            rows_of_set = [
                replace(row, metric=name)
                for key in sorted(methods, key=lambda key: key[0] not in METHODS)
                for row in _with_beside(results, methods[key], protocol)
            ]
            blocks.append(_merged(rows_of_set))
        averaged = [
            block for block in blocks if block and experiment_of(block[0].config).averages_sets
        ]
        for metric_name in dict.fromkeys(block[0].metric for block in averaged):
            alike = [block for block in averaged if block[0].metric == metric_name]
            if len(alike) > 1:
                means = _merged([row for block in alike for row in block if row.kind != "best"])
                table += _tested([row for row in means if row.sets == len(alike)], results.control)
        without = not any(_is_control(row) for block in blocks for row in block)
        for block in blocks:
            table += _tested(block, results.control, first=without)
    return table


def _merged(rows: Sequence[Row]) -> list[Row]:
    """The rows of several splits of a data set, or of several data sets, as one row each."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = (row.method, row.entry) if row.representation else (id(row),)
        groups.setdefault(key, []).append(row)
    return [_mean(group) if len(group) > 1 else group[0] for group in groups.values()]


def _mean(rows: Sequence[Row]) -> Row:
    """The mean of rows over splits, or over data sets."""
    first, sets = rows[0], len({row.dataset for row in rows})
    scores = [row.scores for row in rows if row.scores is not None]
    mean = Scores.over(scores, splits=sets == 1) if len(scores) == len(rows) else None
    return replace(
        first, dataset=first.dataset if sets == 1 else f"mean of {sets}", sets=sets,
        scores=mean if mean and mean.seeds else None, n_folds=len(rows) if sets == 1 else 1,
        common_splits=sets == 1, split=", ".join(dict.fromkeys(row.split for row in rows)),
        seconds=sum(row.seconds for row in rows), notes=(), beside={},
        undefined=0 if mean else sum(row.undefined for row in rows),
        records=tuple(record for row in rows for record in row.records),
    )  # fmt: skip


def _with_beside(results: Results, configs: Sequence[RunConfig], protocol: str) -> list[Row]:
    """The rows of a method, with their scores by the metrics beside the first one."""
    table = _of_method(results, configs, protocol)
    for name, other in results.beside.items():
        twins = _of_method(other, configs, protocol)
        fixed = {twin.config: twin for twin in twins if twin.kind == "fixed"}
        for index, row in enumerate(table):  # what is best is so by the first metric
            twin = fixed.get(row.config) if row.kind == "best" else twins[index]
            if twin is not None and twin.scores is not None:
                table[index] = replace(row, beside={**row.beside, name: twin.scores})
    return table


def _of_method(results: Results, configs: Sequence[RunConfig], protocol: str) -> list[Row]:
    first = configs[0]
    experiment = experiment_of(first)
    finished = [(c, records) for c in configs if (records := results.of(c))]
    in_paper = all(published(c, records) is not None for c, records in finished)
    paper = experiment.published(first) if in_paper else None
    chosen = {config: choice for choice in results.choices for config in choice.candidates}
    varied = {id(choice): _varied(choice.candidates) for choice in results.choices}
    all_varied = _varied(configs)
    method_rows = []
    for config in configs:
        by = chosen.get(config)
        names = all_varied if by is None else varied[id(by)]
        row = _row(results, config, protocol, names, results.of(config))
        if by is not None:
            row = replace(row, kind="inside", paper=paper, group=in_symbols(config, apart(configs)))
        is_open = by is not None and by.best is None
        method_rows.append(replace(row, setting="", beta=None) if is_open else row)
    if any(config in chosen for config in configs):
        return method_rows
    if len(configs) == 1:
        return [replace(method_rows[0], paper=paper)]
    groups = candidate_groups(configs) if results.select else []
    selections = [results.selection(group) for group in groups]
    for group, selection in zip(groups, selections, strict=True):
        group_name = in_symbols(group[0], apart(configs))
        inside = replace(_row(results, group[0], protocol), kind="inside", group=group_name)
        if selection is not None:
            scores = selection.scores
            inside = replace(
                inside, scores=scores, seconds=selection.seconds,
                records=tuple(results.of(group[index], seeds=[seed])[0] for seed, (index, *_)
                              in zip(scores.seeds, selection.chosen, strict=True)),
            )  # fmt: skip
        method_rows.append(inside)
    selection = selections[0] if len(selections) == 1 and len(groups[0]) == len(configs) else None
    conditions = {
        (c.epochs, c.without, *(getattr(c, name, None) for name in CONDITIONS)) for c in configs
    }
    # Of a domain that chooses once there is not even the paper's way, and a maximum of test scores
    # over conditions is the best of nothing to choose.
    if experiment.chooses_once or len(conditions) > 1:
        return method_rows
    best = _row(results, first, protocol)
    # On the seeds that all candidates have: those of the selection, where there is one.
    seeds = list(selection.scores.seeds) if selection else results.shared_seeds(configs)
    if seeds:
        outer = [Scores.of_records(results.of(c, seeds=seeds), c) for c in configs]
        at = best_on_test(outer)
        best = replace(_row(results, configs[at], protocol, all_varied), scores=outer[at])
    optimism = selection.optimism if selection else None
    return [*method_rows, replace(best, kind="best", paper=paper, optimism=optimism)]


def _varied(configs: Sequence[RunConfig]) -> list[str]:
    """β, and whatever else differs between rows of a method."""
    varied = {"beta", *differing(configs)}
    return [name for name in known(type(configs[0])) if name in varied]


def _row(
    results: Results,
    config: RunConfig,
    protocol: str,
    varied: Sequence[str] | None = None,
    records: Sequence[RunResult] = (),
) -> Row:
    """The row of a configuration with its numbers; without its setting if nothing is varied."""
    experiment, first = experiment_of(config), next(iter(records), None)
    fields = experiment.row_fields(config)
    in_name = IN_NAME if fields.get("representation") else ()
    names = [name for name in varied or () if name != "beta" or config.beta is not None]
    names.sort(key=lambda name: name not in symbols(type(config)))
    stated = config.stated() if varied is not None else {}
    return Row(
        dataset=experiment.set_name(config), method=config.method, protocol=protocol,
        kind="baseline" if config.is_baseline else "fixed",
        setting=in_symbols(config, names),
        scores=Scores.of_records(records, config) if records else None,
        expected=len(experiment.seeds_used(config, results.seeds)),
        undefined=results.undefined(config) if varied is not None else 0,
        sees_test_labels=experiment.sees_test_labels(config),
        n_folds=config.n_scores,
        common_splits=experiment.common_splits,
        is_deterministic=config.is_deterministic,
        unit=experiment.unit,
        name=experiment.row_name(config),
        encoder="" if in_name else encoder_name(config),
        beta=config.beta if names == ["beta"] else None,
        changed=tuple(
            f"{name}={shown(value)}" for name, value in stated.items()
            if name not in (*names, "classes", *in_name)
        ),
        seconds=seconds(records),
        curve=monitoring_curve(records),
        knn=tuple(record.knn for record in records if record.knn is not None),
        notes=experiment.notes(first) if first else (),
        blind=first is not None and experiment.is_blind(first),
        config=config,
        records=tuple(records),
        **fields,
    )  # fmt: skip


def shown(value: Any) -> str:
    """A value of a setting, as flags spell it; for the user's own encoder, its name."""
    if isinstance(value, tuple):
        return "+".join(map(shown, value))
    if isinstance(value, str):
        return value.partition("@")[0]
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def in_symbols(config: RunConfig, names: Iterable[str], *, ends: Collection[str] = ()) -> str:
    """Settings of a configuration as text, such as ``β=2 lr=0.01 anchor``; ``ends`` are marked."""
    values = ((name, getattr(config, name)) for name in names)
    values = ((name, "+".join(v) if isinstance(v, tuple) else v) for name, v in values)
    written = symbols(type(config))
    return " ".join(
        ("without " * (name == "without") + value)
        if isinstance(value, str)
        else f"{written.get(name, flag(name))}={value:g}{END * (name in ends)}"
        for name, value in values
        if value is not None
    )


def differing(configs: Sequence[RunConfig]) -> list[str]:
    """Settings of several values that differ among configurations of one domain."""
    return [
        name
        for name, declared in (known(type(configs[0])).items() if configs else ())
        if declared.setting.several and len({getattr(config, name) for config in configs}) > 1
    ]


def apart(configs: Sequence[RunConfig]) -> list[str]:
    """Settings that differ among configurations of one domain and are not chosen inside."""
    declared = known(type(configs[0]))
    named = IN_NAME if experiment_of(configs[0]).row_fields(configs[0]) else ()
    return [
        name
        for name in differing(configs)
        if not declared[name].setting.chosen and name not in named
    ]


def symbols_that_differ(configs: Sequence[RunConfig]) -> list[str]:
    """Settings with a symbol that differ among configurations of one domain."""
    named = symbols(type(configs[0]))
    return [name for name in named if len({getattr(config, name) for config in configs}) > 1]


def _tested(block: Sequence[Row], names: Sequence[str] | None, *, first: bool = False) -> list[Row]:
    """The rows of a data set and protocol with their tests, Holm-corrected for each control.

    A row that is the best of several on the test folds is not tested, since it was chosen there;
    nor is a blind baseline, which says nothing of the data.

    Args:
        block: the rows.
        names: of the controls; those of the domain, with the first of several encoders, if None.
        first: whether the first finished row is the control instead, since the table has none.
    """
    tested = list(block)
    able = {k: row for k, row in enumerate(block) if row.kind != "best" and not row.blind}
    encoders = {shown(row.encoder): None for row in able.values() if row.encoder}
    if names is None and first:
        names = [row.label for row in able.values() if row.scores][:1]
    elif names is None:
        known = experiment_of(block[0].config).controls if block else ()
        names = [*known, *[*encoders][: len(encoders) > 1]]
    for name in names:
        named = [row for row in able.values() if _is_named(row, name)]
        families: dict[int, dict[int, tuple[str, Comparison]]] = {}
        for index, row in able.items():
            for key, control in _controls(row, name, named, encoders).items():
                if (test := compare(row.scores, control.scores)) is not None:
                    families.setdefault(id(control), {})[index] = key, test
        for family in families.values():
            keys, tests = zip(*family.values(), strict=True)
            for index, key, test in zip(family, keys, corrected(tests), strict=True):
                tested[index] = replace(tested[index], tests={**tested[index].tests, key: test})
    return tested


def _is_control(row: Row) -> bool:
    """Whether a row's method is a control of its domain."""
    return row.method in experiment_of(row.config).controls.values()


def _controls(
    row: Row, name: str, named: Sequence[Row], encoders: Collection[str]
) -> dict[str, Row]:
    """The rows that a row is compared with as a control, by the names of columns.

    With several encoders that is the control of its own encoder; of a row without an encoder, each.
    Several rows of a control are none, unless one of them alone was chosen inside.

    Args:
        row: the row.
        name: of the control; that of an encoder has a row for each method.
        named: the rows that it names.
        encoders: names of all encoders of the block.
    """
    experiment = experiment_of(row.config)
    known = name in experiment.controls
    if known:
        named = [other for other in named if other is not row
                 and experiment.is_control(other.config, name, row.config)]  # fmt: skip
    elif any(other is row for other in named):
        return {}
    if name in encoders:
        named = [x for x in named if (x.method, _beta(x)) == (row.method, _beta(row))]
    elif len(encoders) > 1 and (known or len(named) > 1):
        by_encoder: dict[str, list[Row]] = {}
        for other in named:
            by_encoder.setdefault(other.encoder, []).append(other)
        named = by_encoder.get(row.encoder) or by_encoder.get("", [])
        if not named and not row.encoder:
            each = (_only(row, of_encoder) for of_encoder in by_encoder.values())
            return {other.label: other for other in each if other}
    control = _only(row, named)
    return {name: control} if control else {}


def _only(row: Row, named: Sequence[Row]) -> Row | None:
    """The one of several rows of a control that another row is compared with."""
    kind = row.kind if row.representation else "inside"
    alike = [other for other in named if other.kind == kind] or named
    return alike[0] if len(alike) == 1 else None


def _beta(row: Row) -> float | None:
    return getattr(row.config, "beta", None)


def _is_named(row: Row, name: str) -> bool:
    """Whether a row can be meant by the name of a control."""
    method = experiment_of(row.config).controls.get(name)
    if method is not None:
        return row.method == method
    return name in (row.label, row.title, row.method, shown(row.encoder))


def controls(rows: Iterable[Row]) -> list[str]:
    """The controls that any of some rows is compared with, ucl and scl first."""
    names = dict.fromkeys(name for row in rows for name in row.tests)
    return [*(name for name in CONTROLS if name in names), *(n for n in names if n not in CONTROLS)]


def beside(rows: Iterable[Row]) -> list[str]:
    """The metrics that have a column beside the first one."""
    return [*dict.fromkeys(name for row in rows for name in row.beside)]


def rows_frame(rows: Sequence[Row]) -> DataFrame:
    """Table rows, tidy: one line per row, in the unit of the metric; missing values: None, NaN.

    Args:
        rows: in the order to show them.

    Returns:
        The columns of a results CSV (docs: protocols); ``paper`` and ``gap`` if a row has such a
        number.
    """
    from pandas import DataFrame

    compared = dict.fromkeys((*CONTROLS, *controls(rows)))
    frame = DataFrame([_row_line(row, compared) for row in rows])
    if not any(row.paper for row in rows):
        frame = frame.drop(columns=["paper", "gap"], errors="ignore")
    if any(row.metric != ACCURACY for row in rows):
        frame.insert(5, "metric", [row.metric for row in rows])
    if rows:
        frame.insert(5, "settings", [" ".join(row.changed) for row in rows])
    if any(row.representation for row in rows):
        for name in ("split", "share", "representation"):
            frame.insert(2, name, [getattr(row, name) for row in rows])
    for name in beside(rows):
        frame[name] = [row.beside[name].mean if name in row.beside else None for row in rows]
    if any(row.common_splits for row in rows):
        frame = frame.assign(**_split_columns(rows))
    if any(row.knn for row in rows):
        frame["knn"] = [statistics.fmean(row.knn) if row.knn else None for row in rows]
    return frame


def confusion(records: Sequence[RunResult]) -> DataFrame | None:
    """How often test items of each class are predicted as each, over the folds of some results.

    Returns:
        Counts, true classes down and predicted ones across; None without predicted classes.
    """
    from pandas import DataFrame, Index

    folds = [fold for record in records for fold in record.tested()]
    if not folds or folds[0].predicted.dtype.kind != "i":
        return None
    names = records[0].data.get("class_names")
    classes = np.unique(np.concatenate([x for f in folds for x in (f.targets, f.predicted)]))
    counts = np.zeros((len(classes), len(classes)), np.int64)
    for fold in folds:
        at = (np.searchsorted(classes, values) for values in (fold.targets, fold.predicted))
        np.add.at(counts, tuple(at), 1)
    labels = [names[k] for k in classes] if names else classes
    heads = [Index(labels, name=name) for name in ("class", "predicted")]
    return DataFrame(counts, index=heads[0], columns=heads[1])


def _split_columns(rows: Sequence[Row]) -> dict[str, Any]:
    """Further columns of rows on common splits: number, deviation, seeds and splits of tests."""
    from pandas import Series

    columns: dict[str, Any] = {
        "splits": [row.n_folds for row in rows],
        "std": [row.scores and row.scores.std for row in rows],
    }  # fmt: skip
    for control in dict.fromkeys((*CONTROLS, *controls(rows))):
        tests = [row.tests.get(control) for row in rows]
        for name, attribute in (("seeds", "seeds"), ("splits", "folds")):
            counts = [test and getattr(test, attribute) for test in tests]
            columns[f"{name}_vs_{control}"] = Series(counts, dtype="Int64")
    return columns


def _row_line(row: Row, controls: Iterable[str]) -> dict[str, Any]:
    scores, interval = row.scores, row.interval
    texts = ("dataset", "protocol", "method", "kind", "choice")
    line: dict[str, Any] = {name: getattr(row, name) for name in texts}
    line |= {
        "seeds": len(scores.seeds) if scores else 0, "seeds_expected": row.expected,
        "mean": scores and scores.mean, "std_seeds": scores and scores.seed_std,
        "std_folds": scores and scores.fold_std, "se_test": scores and scores.test_error,
        "low": interval and interval.low, "high": interval and interval.high,
        "paper": row.paper, "gap": row.gap,
    }  # fmt: skip
    for control in controls:
        test = row.tests.get(control)
        for name, end in (("vs", "mean"), ("low", "low"), ("high", "high")):
            line[f"{name}_{control}"] = test and getattr(test, end)
        line[f"p_{control}"] = test and test.p
        line[f"p_wilcoxon_{control}"] = test and test.p_wilcoxon
    return line | {"optimism": row.optimism, "seconds": row.seconds or None}
