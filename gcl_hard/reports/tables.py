"""Numbers and settings as text, and tables of results: terminal, Markdown, LaTeX and CSV.

pandas is imported where a table of a file is made; the terminal needs rich alone.
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gcl_hard.evaluation.metrics import metric
from gcl_hard.evaluation.significance import Interval
from gcl_hard.experiments.choice import best
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.experiment import Experiment
from gcl_hard.experiments.record import ACCURACY
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import RunConfig, known
from gcl_hard.reports.frame import Comparison, Scores, Selection, set_name
from gcl_hard.reports.legend import legend, marks
from gcl_hard.reports.rows import (
    Row,
    apart,
    beside,
    controls,
    in_symbols,
    rows_frame,
    shown,
    symbols_that_differ,
)

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import RenderableType

OPEN, NOTHING, LESS = "open", "–", " ↓"
NBSP = "\u00a0"
"""A no-break space keeps a number on one line."""
BETA, TEMPERATURE = "β", "temperature γ"


def points(value: float, name: str = ACCURACY) -> str:
    """A difference of a metric's values, with its sign.

    Example:
        >>> points(1.25), points(-0.01)
        ('+1.2', '-0.0')
    """
    return metric(name).difference(value)


def interval(difference: Interval, name: str = ACCURACY) -> str:
    """A difference of a metric's values with its interval, without line breaks.

    Example:
        >>> interval(Interval(1.25, -0.01, 3.0)).replace(NBSP, " ")
        '+1.2 [-0.0, +3.0]'
    """
    low, high = points(difference.low, name), points(difference.high, name)
    return f"{points(difference.mean, name)} [{low},{NBSP}{high}]"


def score(value: float | None, name: str = ACCURACY) -> str:
    """A value of a metric with its unit.

    Example:
        >>> score(88.06), score(None)
        ('88.1 %', '–')
    """
    return NOTHING if value is None else metric(name).shown(value)


def p_value(p: float | None) -> str:
    """A p-value in three decimals.

    Example:
        >>> p_value(0.0312), p_value(0.0002), p_value(1.0), p_value(None)
        ('.031', '<.001', '1', '–')
    """
    if p is None:
        return "–"
    if p < 0.001:
        return "<.001"
    return "1" if p >= 0.9995 else f"{p:.3f}".removeprefix("0")


def duration(seconds: float) -> str:
    """A time in a suitable unit.

    Example:
        >>> duration(42), duration(600), duration(9000)
        ('42 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def count(n: int, word: str) -> str:
    """A number with its noun, such as ``2 seeds``."""
    return f"{n} {word}{'s' * (n != 1)}"


def values(configs: Iterable[RunConfig], name: str) -> str:
    """The distinct values of a setting, in order, as flags spell them."""
    read = (config for config in configs if name not in config.unread)
    distinct = dict.fromkeys(getattr(config, name) for config in read)
    return ", ".join(shown(value) for value in distinct if value is not None)


def between(numbers: Iterable[float]) -> str:
    """A range as text.

    Example:
        >>> between([3, 1, 2]), between([4, 4])
        ('1 to 3', '4')
    """
    low, high = min(numbers := list(numbers)), max(numbers)
    return f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}"


def setting(name: str) -> str:
    """The name of a setting, of a configuration or of an encoder, in tables.

    Example:
        >>> setting("lr"), setting("weight_decay"), setting("encoder.hidden_dim")
        ('learning rate', 'weight decay', 'encoder hidden dim')
    """
    declared = (known(config).get(name) for config in CONFIGS.values())
    title = next((field.setting.title for field in declared if field and field.setting.title), "")
    return title or name.replace(".", " ").replace("_", " ")


def value(setting_value: Any) -> str:
    """A value of a setting, in three digits.

    Example:
        >>> value(0.012345), value(3), value(True), value(None)
        ('0.0123', '3', 'true', '–')
    """
    if setting_value is None:
        return "–"
    if isinstance(setting_value, bool):
        return str(setting_value).lower()
    return f"{setting_value:.3g}" if isinstance(setting_value, float) else str(setting_value)


def fold_name(rows: Iterable[Row | Experiment[Any, Any]]) -> str:
    """Word for one of several test parts: a split where all rows share them, else a fold."""
    return "split" if any(row.common_splits for row in rows) else "fold"


def extent(row: Row) -> str:
    """Finished seeds of a row, – where none changes it, and its splits where all rows share them.

    Example:
        >>> extent(Row("Cora", "ucl", "split", "fixed", "", None, 3, n_folds=20,
        ...            common_splits=True))
        '0/3 × 20'
    """
    n = len(row.scores.seeds) if row.scores else 0
    seeds = str(n) if row.whole else f"{n}/{row.expected}"
    if row.is_deterministic and row.whole:
        seeds = NOTHING
    return f"{seeds} × {row.n_folds}" if row.common_splits else seeds


def escaped(text: str) -> str:
    """Text of users, such as names, as Markdown and HTML show it: on one line, and no markup.

    Example:
        >>> escaped("a|b <i>\\nc")
        'a\\\\|b &lt;i> c'
    """
    in_a_line = " ".join(str(text).splitlines())
    return re.sub(r"<(?=[a-zA-Z/!?])", "&lt;", in_a_line).replace("|", "\\|")


def no_formula(value: Any) -> Any:
    """A cell of a CSV file; a text that spreadsheets would compute begins with an apostrophe.

    Example:
        >>> no_formula("=1+1"), no_formula("MUTAG"), no_formula(-1.5)
        ("'=1+1", 'MUTAG', -1.5)
    """
    if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"}:
        return f"'{value}"
    return value


# Tables

ACROSS = 5
"""Number of data sets in a table on a page."""


def markdown(table: DataFrame | None, *, texts: int = 1) -> str:
    """A frame of texts as a Markdown table.

    Args:
        table: texts, its index left out.
        texts: how many columns, from the first, are aligned to the left; the others hold numbers.

    Returns:
        The table; empty without a row.
    """
    if table is None or table.empty:
        return ""
    table = table.map(escaped).rename(columns=escaped)
    sides = ["left"] * texts + ["right"] * (len(table.columns) - texts)
    return str(table.to_markdown(index=False, disable_numparse=True, colalign=sides))


def html(table: DataFrame) -> str:
    """A frame of texts as an HTML table, escaped."""
    return str(table.to_html(index=False, border=0))


def text_frame(heads: Sequence[str], body: Iterable[Sequence[Any]]) -> DataFrame:
    """Text rows as a frame."""
    from pandas import DataFrame

    return DataFrame([*body], columns=[*heads])


def mean_std(scores: Scores | None) -> str:
    """Mean ± standard deviation, in the unit of the metric."""
    if scores is None:
        return OPEN
    measure = metric(scores.metric)
    spread = "" if scores.std is None else f" ± {measure.text(scores.std)}"
    return measure.text(scores.mean) + spread


def names(rows: Iterable[Row], attribute: str) -> list[str]:
    """Distinct values of an attribute, such as ``protocol``, in order."""
    return list(dict.fromkeys(getattr(row, attribute) for row in rows))


def sections(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Rows by protocol and metric, whose numbers never share a table."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.protocol, row.metric), []).append(row)
    return groups


def by_metric(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by metric, in order."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.metric, []).append(row)
    return groups


def by_label(rows: Iterable[Row]) -> dict[str, dict[str, Row]]:
    """Rows of one protocol by label and data set.

    Args:
        rows: rows of one protocol.

    Returns:
        In the order of the rows; what was best on the test folds is one label, whatever the
        setting was that was best.
    """
    groups: dict[str, dict[str, Row]] = {}
    for row in rows:
        groups.setdefault(row.entry, {})[row.dataset] = row
    return groups


def best_row(rows: Iterable[Row], *, baseline: bool = False) -> Row | None:
    """The trained row, or the baseline, with the best mean, of finished ones not chosen on test.

    Args:
        rows: of one metric.
        baseline: whether it is of baselines.
    """
    able = [
        (row, row.scores.mean) for row in rows
        if row.scores and row.whole and row.kind != "best" and row.is_baseline == baseline
    ]  # fmt: skip
    if not able:
        return None
    return able[best([mean for _, mean in able], higher=metric(able[0][0].metric).higher)][0]


# Tables of results on a page


def score_tables(rows: Sequence[Row]) -> list[DataFrame]:
    """Methods down and at most five data sets across, of one protocol and metric.

    An entry is the mean ± standard deviation, † if it differs significantly from the first
    control, points above the paper's figure, setting and optimism of what was best on the test
    folds, and seeds where they are not all finished. Further metrics, nearest neighbours, the
    standard error where there is no ±, and the numbers of seeds and splits where splits are the
    same for all, have a column beside it.
    """
    from pandas import DataFrame

    sets, tables, control = names(rows, "dataset"), [], _first(rows)
    further: dict[str, tuple[Callable[[Row | None], str], Callable[[Row], Any]]] = {
        spread_name(rows): (spread, _alone),
        **{metric(name).title: (partial(score_by, name), partial(_has_score, name))
           for name in beside(rows)},
        "kNN": (_neighbours, lambda row: row.knn),
        SEEDS_SPLITS: (_extent, lambda row: row.common_splits),
    }  # fmt: skip
    for start in range(0, len(sets), ACROSS):
        shown = sets[start : start + ACROSS]
        beside_it = [
            (name, head, text)
            for head, (text, has) in further.items()
            for name in shown
            if any(has(row) for row in rows if row.dataset == name)
        ]
        body = [
            {"": label}
            | {name: _entry(of_set.get(name), control) for name in shown}
            | {f"{name}, {head}": text(of_set.get(name)) for name, head, text in beside_it}
            for label, of_set in by_label(row for row in rows if row.dataset in shown).items()
        ]
        tables.append(DataFrame(body))
    return tables


SEEDS_SPLITS = "seeds × splits"


def _extent(row: Row | None) -> str:
    return NOTHING if row is None else extent(row).replace(" ", NBSP)


def _alone(row: Row) -> bool:
    """Whether a row has scores without ±."""
    return row.scores is not None and row.scores.std is None


def _has_score(name: str, row: Row) -> bool:
    return name in row.beside


def score_by(name: str, row: Row | None) -> str:
    """The mean by a further metric."""
    scores = row and row.beside.get(name)
    return metric(name).text(scores.mean) if scores else NOTHING


def spread(row: Row | None) -> str:
    """Of one test part the standard error, else the standard deviation over folds."""
    if row is None or row.scores is None:
        return NOTHING
    value = row.scores.test_error if row.scores.one_split else row.scores.fold_std
    return NOTHING if value is None else metric(row.metric).text(value)


def spread_name(rows: Iterable[Row]) -> str:
    """What :func:`spread` is: s.e. where any row has one test part."""
    rows = [*rows]
    split = any(row.scores and row.scores.one_split for row in rows)
    return "s.e." if split else f"{fold_name(rows)}s"


def _first(rows: Sequence[Row]) -> str:
    """The first control of some rows."""
    return next(iter(controls(rows)), "")


def _neighbours(row: Row | None) -> str:
    """Accuracy of nearest neighbours, mean ± standard deviation over seeds."""
    if row is None or not row.knn:
        return NOTHING
    spread = f" ± {statistics.stdev(row.knn):.1f}" if len(row.knn) > 1 else ""
    return f"{statistics.fmean(row.knn):.1f}{spread}".replace(" ", NBSP)


def _entry(row: Row | None, control: str, *, plain: bool = False) -> str:
    """An entry of a table; without the paper's figure and the setting if ``plain``."""
    if row is None or row.scores is None:
        return NOTHING if row is None or row.undefined else OPEN
    seeds, test = len(row.scores.seeds), row.tests.get(control)
    parts = [mean_std(row.scores) + "†" * bool(test and test.significant) + marks(row)]
    if row.gap is not None and not plain:
        parts.append(f"({points(row.gap)})")
    if row.kind == "best" and not plain:
        parts.append(row.setting)
        if row.optimism is not None:
            parts.append(f"optimism {metric(row.metric).difference(row.optimism)}")
    if seeds < row.expected:
        parts.append(f"[{seeds} of {row.expected}]")
    return " ".join(part.replace(" ", NBSP) for part in parts)


def _significantly_better(row: Row, control: str) -> bool:
    test = row.tests.get(control)
    return bool(test and test.significant and metric(row.metric).gain(test.mean, 0.0) > 0)


def difference_table(rows: Sequence[Row]) -> DataFrame:
    """Differences from the controls with intervals and p-values, of rows of one protocol."""
    compared = controls(rows)
    lines = [_tested(row, compared, interval) for row in rows if row.tests]
    heads, body = _filled(_difference_heads(compared), lines)
    return text_frame(heads, body).drop(columns="protocol")


def _difference_heads(names: Iterable[str]) -> list[str]:
    heads = (head for name in names for head in (f"− {name}", f"p {name}"))
    return ["data set", "method", "protocol", *heads]


def _tested(
    row: Row, names: Iterable[str], text: Callable[[Comparison, str], str]
) -> tuple[str, ...]:
    tests = [row.tests.get(control) for control in names]
    texts = [x for test in tests for x in (_difference(test, text, row.metric), _p_values(test))]
    return (row.dataset, _name(row), row.protocol, *texts)


def _difference(test: Comparison | None, text: Callable[[Comparison, str], str], name: str) -> str:
    """A difference of a metric's values, marked if it is not significant."""
    if test is None:
        return NOTHING
    return text(test, name) + ("" if test.significant else " ns")


def _p_values(test: Comparison | None) -> str:
    """p of the t-test, and in brackets that of Wilcoxon's test."""
    return NOTHING if test is None else f"{p_value(test.p)} ({p_value(test.p_wilcoxon)})"


def significance_table(rows: Sequence[Row]) -> DataFrame:
    """Counts of comparisons with each control, of trained methods and of baselines."""
    of_sets = [row for row in rows if row.sets == 1]
    lines = [
        (protocol, "baselines" if row.is_baseline else "trained methods", control,
         1, test.significant and gain > 0, test.significant and gain < 0)
        for protocol in names(rows, "protocol")
        for control in controls(rows)
        for row in of_sets
        if row.protocol == protocol and (test := row.tests.get(control)) is not None
        for gain in [metric(row.metric).gain(test.mean, 0.0)]
    ]  # fmt: skip
    more = all(metric(row.metric).higher for row in rows)
    signs = ("above", "below") if more else ("better", "worse")
    heads = ["protocol", "rows", "compared with", "comparisons",
             *(f"significantly {sign}" for sign in signs)]  # fmt: skip
    table = text_frame(heads, lines)
    return table.groupby(heads[:3], sort=False).sum().reset_index().astype(str)


def choice_table(selections: Sequence[Selection]) -> DataFrame:
    """How many folds chose which setting; for one split, how many seeds."""
    of_splits = any(selection.scores.common_splits for selection in selections)
    unit = "splits" if of_splits else "folds"
    unit = "seeds" if any(selection.scores.one_split for selection in selections) else unit
    lines = []
    for selection in selections:
        chosen = Counter(index for row in selection.chosen for index in row)
        first = selection.candidates[0]
        others = [
            config
            for other in selections
            for config in other.candidates
            if (set_name(config), experiment_of(config).row_name(config))
            == (set_name(first), experiment_of(first).row_name(first))
        ]
        varied = [*apart(others), *symbols_that_differ(selection.candidates)]
        lines += [
            (
                set_name(config),
                experiment_of(config).row_name(config),
                in_symbols(config, varied),
                str(chosen[index]),
            )
            for index, config in enumerate(selection.candidates)
        ]
    return text_frame(["data set", "method", "setting", f"chosen by {unit}"], lines)


# Files


def to_csv(rows: Sequence[Row]) -> str:
    """One line per row; percent and points have four decimals, p-values four significant digits.

    Args:
        rows: in the order to write them.

    Returns:
        The text; missing values are empty.

    Example:
        >>> text = to_csv([Row("MUTAG", "hscl", "transductive", "fixed", "β=2", None, expected=5)])
        >>> text.splitlines()[1][:38]
        'MUTAG,transductive,hscl,fixed,β=2,,0,5'
    """
    table = rows_frame(rows)
    for name in table.columns:
        if name.startswith("p_"):
            table[name] = table[name].map("{:.4g}".format, na_action="ignore")
    table = table.map(no_formula)
    return table.to_csv(index=False, float_format="{:z.4f}".format, lineterminator="\n")


def to_latex(rows: Sequence[Row]) -> str:
    """One table for each protocol and metric, methods down and data sets across, for booktabs.

    Args:
        rows: rows of any protocols and metrics.

    Returns:
        The source of the tables; the preamble needs ``\\usepackage{booktabs}``.
    """
    sources = [_latex(section) for section in sections(rows).values()]
    return "% needs \\usepackage{booktabs}\n" + "\n".join(sources)


def _latex(rows: Sequence[Row]) -> str:
    from pandas import DataFrame

    sets, labels, control = names(rows, "dataset"), by_label(rows), _first(rows)
    best = {d: best_row(row for row in rows if row.dataset == d) for d in sets}
    cells = [[(of_set.get(d), best[d]) for d in sets] for of_set in labels.values()]
    body = [[_latex_entry(row, highest, control) for row, highest in line] for line in cells]
    plain = [_entry(row, control, plain=True) for line in cells for row, _ in line]
    texts = [rows[0].protocol, *labels, *plain, *(cell for line in body for cell in line)]
    meanings = [f"{sign}: {meaning}" for sign, meaning in legend(rows, texts)]
    measure = metric(rows[0].metric)
    style = DataFrame(body, index=map(latex, labels), columns=map(latex, sets)).style
    lines = style.to_latex(
        column_format="l" + "c" * len(sets), position_float="centering", hrules=True,
        caption=latex(
            ". ".join([f"{measure.label}, protocol {rows[0].protocol}", *meanings, ""]).strip()
        ),
    ).splitlines(keepends=True)  # fmt: skip
    trained = sum(not next(iter(of_set.values())).is_baseline for of_set in labels.values())
    if 0 < trained < len(labels):  # a rule above the baselines, which are last
        lines.insert(lines.index("\\midrule\n") + 1 + trained, "\\midrule\n")
    return "".join(lines)


LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", NBSP: "~",
    "±": r"$\pm$", "†": r"$^\dagger$", "§": r"$^\S$", "°": r"$^\circ$", "β": r"$\beta$",
    "γ": r"$\gamma$", "×": r"$\times$", "<": "$<$", "≥": r"$\geq$", "–": "--",
}  # fmt: skip


def latex(text: object) -> str:
    """A text in the source of LaTeX.

    Example:
        >>> print(latex("hscl β=1: 5 %"))
        hscl $\\beta$=1: 5 \\%
    """
    return str(text).translate({ord(sign): source for sign, source in LATEX.items()})


def _latex_entry(row: Row | None, best: Row | None, control: str) -> str:
    number = latex(_entry(row, control, plain=True))
    bold = row and row is best and _significantly_better(row, control)
    return rf"\textbf{{{number}}}" if bold else number


# The terminal


def terminal(rows: Sequence[Row]) -> RenderableType:
    """The tables of results for a terminal, one for each metric, with their legend."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts, texts = list[Any](), list[str]()
    for name, metric_rows in by_metric(rows).items():
        body = [_texts(row, beside(metric_rows)) for row in metric_rows]
        tables = [_filled(_heads(metric_rows, name), body)]
        compared = [row for row in metric_rows if row.tests]
        compared = [row for row in compared if row.sets > 1] or compared
        against = controls(compared)
        for start in range(0, len(against), 2):  # more than two are wider than a terminal
            pair = against[start : start + 2]
            lines = [_tested(row, pair, lambda t, n: points(t.mean, n))
                     for row in compared if row.tests.keys() & {*pair}]  # fmt: skip
            tables.append(_filled(_difference_heads(pair), lines))
        parts += [rich_table(*table) for table in tables]
        texts += [text for heads, body in tables for text in (*heads, *itertools.chain(*body))]
    signs = Table.grid(padding=(0, 2), pad_edge=False)
    for line in legend(rows, texts):
        signs.add_row(*(Text(text, style="dim") for text in line))
    notes = [*_settings(rows), *remarks(rows)]
    return Group(*parts, *(Text(note, style="dim") for note in notes), signs)


def _settings(rows: Iterable[Row]) -> list[str]:
    """The settings that are not usual, with the rows that have them."""
    by_change: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.changed:
            by_change.setdefault(" ".join(row.changed), {})[_unmarked_name(row)] = None
    return [f"{', '.join(labels)}: {changed}" for changed, labels in by_change.items()]


def _filled(
    heads: Sequence[str], body: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """A table without the columns of numbers in which there are none."""
    if not body:
        return [*heads], []
    kept = [k for k, cells in enumerate(zip(*body, strict=True)) if k < 4 or {*cells} != {NOTHING}]
    return [heads[k] for k in kept], [[line[k] for k in kept] for line in body]


def _heads(rows: Sequence[Row], name: str) -> tuple[str, ...]:
    """Heads of the terminal's table; of one test part, s.e. is its standard error."""
    measure, splits = metric(name), fold_name(rows) == "split"
    return ("data set", "method", "protocol",
            f"{measure.title} {measure.unit}".strip() + LESS * (not measure.higher),
            spread_name(rows), *(metric(other).title for other in beside(rows)), "paper", "gap",
            "optimism", SEEDS_SPLITS if splits else "seeds", "s")  # fmt: skip


def _texts(row: Row, further: Iterable[str]) -> tuple[str, ...]:
    scores, measure = row.scores, metric(row.metric)
    return (
        row.dataset, _name(row), row.protocol,
        NOTHING if scores is None and row.undefined else mean_std(scores),
        spread(row), *(score_by(name, row) for name in further),
        NOTHING if row.paper is None else f"{row.paper:.1f}",
        NOTHING if row.gap is None else f"{row.gap:+.1f}",
        NOTHING if row.optimism is None else measure.difference(row.optimism),
        extent(row),
        f"{row.seconds:.0f}" if row.seconds else NOTHING,
    )  # fmt: skip


def _unmarked_name(row: Row) -> str:
    """Method and setting, short enough for a terminal."""
    kind = row.kind if row.kind in ("inside", "best") else ""
    group = row.group if kind == "inside" else ""
    return " ".join(part for part in (row.title, kind, row.setting, group) if part)


def _name(row: Row) -> str:
    return f"{_unmarked_name(row)} {marks(row)}".strip()


def rich_table(
    heads: Sequence[str], body: Iterable[Sequence[str]], texts: int = 3
) -> RenderableType:
    """A plain table with text in the first columns and numbers in the others."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for index, head in enumerate(heads):
        text = index < texts  # where the terminal is too narrow, words wrap and numbers stay whole
        table.add_column(
            head, justify="left" if text else "right", no_wrap=not text, overflow="fold"
        )
    for line in body:
        table.add_row(*line)
    return table


def remarks(rows: Iterable[Row]) -> list[str]:
    """Baselines above all else, what was changed and left out as data were read, and what intervals
    leave out.
    """
    lines, blocks = dict[str, None](), dict[tuple[str, ...], list[Row]]()
    for row in (rows := [*rows]):
        blocks.setdefault((row.dataset, row.protocol, row.metric), []).append(row)
    for (dataset, protocol, name), block in blocks.items():
        ours, theirs = best_row(block), best_row(block, baseline=True)
        means = [row.scores.mean for row in (theirs, ours) if row and row.scores]
        if ours and theirs and metric(name).gain(*means) > 0:
            under = f" {protocol}," * (len(names(rows, "protocol")) > 1)
            above, below = (score(mean, name) for mean in means)
            lines[
                f"{dataset}:{under} no trained row reaches the mean of the baseline "
                f"{theirs.label}, {above}: the best, {ours.label}, has {below}"
            ] = None
    for row in rows:
        alone = row.unit and row.scores is not None and not row.scores.samples
        lost = [f"{row.label}: over seeds alone, as some results have no predictions"] * bool(alone)
        for note in (*row.notes, *lost):
            lines[note if note.startswith(row.dataset) else f"{row.dataset}: {note}"] = None
    return [*lines]


def legend_of(
    rows: Sequence[Row], *shown: DataFrame | None, heads: Iterable[str] = ()
) -> list[tuple[str, str]]:
    """The legend of tables of some rows and of their headings."""
    frames = [frame for frame in shown if frame is not None and not frame.empty]
    texts = [text for frame in frames for text in (*frame.columns, *frame.to_numpy().flat)]
    return legend(rows, [*heads, *texts])
