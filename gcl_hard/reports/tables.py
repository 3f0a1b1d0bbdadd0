"""Numbers and settings as text, and tables of results: terminal, Markdown, LaTeX and CSV.

pandas is imported where a table of a file is made; the terminal needs rich alone.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from gcl_hard.evaluation.significance import Interval
from gcl_hard.reports.frame import LEVEL, Comparison, Scores, Selection
from gcl_hard.reports.rows import CONTROLS, SYMBOLS, Row, in_symbols, rows_frame
from gcl_hard.settings.base import RunConfig, known
from gcl_hard.settings.domains import CONFIGS

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import RenderableType

OPEN, NOTHING = "open", "–"
NBSP = "\u00a0"
"""A no-break space keeps a number on one line."""
ACCURACY = "inner accuracy, %"
"""Quantity that is the value of a trial."""
BETA, TEMPERATURE = "β", "temperature γ"
TITLES = {
    name: one.setting.title
    for config in CONFIGS.values()
    for name, one in known(config).items()
    if one.setting.title
}
"""Settings that have another name in tables than in configurations."""


def points(value: float) -> str:
    """A difference in points, with its sign.

    Example:
        >>> points(1.25), points(-0.01)
        ('+1.2', '+0.0')
    """
    return f"{value:+z.1f}"


def interval(one: Interval) -> str:
    """A difference with its interval, without line breaks.

    Example:
        >>> interval(Interval(1.25, -0.01, 3.0)).replace(NBSP, " ")
        '+1.2 [+0.0, +3.0]'
    """
    return f"{points(one.mean)} [{points(one.low)},{NBSP}{points(one.high)}]"


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


def percent(accuracy: float | None) -> str:
    """An accuracy as text.

    Example:
        >>> percent(88.06), percent(None)
        ('88.1 %', '–')
    """
    return "–" if accuracy is None else f"{accuracy:.1f} %"


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
    found = dict.fromkeys(getattr(config, name) for config in configs)
    return ", ".join(_flag(value) for value in found if value is not None)


def _flag(given: object) -> str:
    if isinstance(given, tuple):
        return "+".join(map(_flag, given))
    return f"{given:g}" if isinstance(given, float) else str(given).lower()


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
    return TITLES.get(name, name.replace(".", " ").replace("_", " "))


def value(given: Any) -> str:
    """A value of a setting, in three digits.

    Example:
        >>> value(0.012345), value(3), value(True), value(None)
        ('0.0123', '3', 'true', '–')
    """
    if given is None:
        return "–"
    if isinstance(given, bool):
        return str(given).lower()
    return f"{given:.3g}" if isinstance(given, float) else str(given)


def settings(params: Mapping[str, Any]) -> str:
    """A trial's settings in a line.

    Example:
        >>> settings({"beta": 2.0, "lr": 0.001})
        'β 2, learning rate 0.001'
    """
    return ", ".join(f"{setting(name)} {value(given)}" for name, given in params.items())


def of_images(protocol: str) -> bool:
    """Whether a protocol is the one for images: one split, no folds."""
    return protocol == "split"


def test_part(protocol: str) -> str:
    """Name of the data that accuracies are measured on."""
    return "test images" if of_images(protocol) else "test folds"


def test_name(protocol: str) -> str:
    """Name of the test whose p-values are shown."""
    return "paired t-test over seeds" if of_images(protocol) else "corrected resampled t-test"


def escaped(text: str) -> str:
    """User text escaped for Markdown and HTML.

    Example:
        >>> escaped("a|b <i>")
        'a\\\\|b &lt;i&gt;'
    """
    return escape(text, quote=False).replace("|", "\\|")


# Tables

ACROSS = 5
"""Number of data sets in a table on a page."""


def markdown(table: DataFrame | None, *, texts: int = 1, users: bool = False) -> str:
    """A frame of texts as a Markdown table.

    Args:
        table: texts, its index left out.
        texts: how many columns, from the first, are aligned to the left; the others hold numbers.
        users: whether it contains text of users, which is escaped for HTML, too.

    Returns:
        The table; empty without a row.
    """
    if table is None or table.empty:
        return ""
    cell = escaped if users else in_a_cell
    table = table.map(cell).rename(columns=cell)
    sides = ["left"] * texts + ["right"] * (len(table.columns) - texts)
    return str(table.to_markdown(index=False, disable_numparse=True, colalign=sides))


def in_a_cell(text: str) -> str:
    """Text for a cell of a Markdown table, of which a ``|`` would be the edge."""
    return text.replace("|", "\\|")


def html(table: DataFrame) -> str:
    """A frame of texts as an HTML table, escaped."""
    return str(table.to_html(index=False, border=0))


def text_frame(heads: Sequence[str], body: Iterable[Sequence[Any]]) -> DataFrame:
    """Text rows as a frame."""
    from pandas import DataFrame

    return DataFrame([*body], columns=[*heads])


def accuracy(scores: Scores | None) -> str:
    """Mean ± standard deviation over seeds, percent."""
    if scores is None:
        return OPEN
    return f"{scores.mean:.1f}" + ("" if scores.std is None else f" ± {scores.std:.1f}")


def names(rows: Iterable[Row], attribute: str) -> list[str]:
    """Distinct values of an attribute, such as ``protocol``, in order."""
    return list(dict.fromkeys(getattr(row, attribute) for row in rows))


def by_label(rows: Iterable[Row]) -> dict[str, dict[str, Row]]:
    """Rows of one protocol by label and data set.

    Args:
        rows: rows of one protocol.

    Returns:
        In the order of the rows; what was best on the test folds is one label, whatever the
        setting was that was best.
    """
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row.entry, {})[row.dataset] = row
    return found


def best_trained(rows: Iterable[Row]) -> Row | None:
    """The trained row with the highest mean, of finished ones that are fixed or chosen inside."""
    return _highest(
        row for row in rows if row.whole and row.kind in ("fixed", "inside") and not row.is_baseline
    )


def _highest(rows: Iterable[Row]) -> Row | None:
    return max(rows, key=lambda row: row.scores.mean if row.scores else 0.0, default=None)


# Tables of results on a page


def accuracy_tables(rows: Sequence[Row]) -> list[DataFrame]:
    """Methods down and at most five data sets across, of one protocol.

    An entry is the mean ± standard deviation over seeds, † if it differs significantly from ucl,
    points above the paper's figure, the setting of what was best on the test folds, and seeds where
    they are not all finished. Nearest neighbours have a column beside it where any row has them.
    """
    from pandas import DataFrame

    sets, tables = names(rows, "dataset"), []
    voted = {row.dataset for row in rows if row.knn}
    for start in range(0, len(sets), ACROSS):
        shown = sets[start : start + ACROSS]
        body = [
            {"": label}
            | {name: _entry(of_set.get(name)) for name in shown}
            | {f"{name}, kNN": _neighbours(of_set.get(name)) for name in shown if name in voted}
            for label, of_set in by_label(row for row in rows if row.dataset in shown).items()
        ]
        tables.append(DataFrame(body))
    return tables


def _neighbours(row: Row | None) -> str:
    """Accuracy of nearest neighbours, mean ± standard deviation over seeds."""
    if row is None or not row.knn:
        return NOTHING
    spread = f" ± {statistics.stdev(row.knn):.1f}" if len(row.knn) > 1 else ""
    return f"{statistics.fmean(row.knn):.1f}{spread}".replace(" ", NBSP)


def _entry(row: Row | None) -> str:
    if row is None or row.scores is None:
        return NOTHING if row is None else OPEN
    seeds, ucl = len(row.scores.seeds), row.tests.get("ucl")
    parts = [accuracy(row.scores).replace(" ", NBSP) + ("†" if ucl and ucl.significant else "")]
    if row.gap is not None:
        parts.append(f"({points(row.gap)})")
    if row.kind == "best":
        parts.append(row.setting.replace(" ", NBSP))
    if seeds < row.expected:
        parts.append(f"[{seeds}{NBSP}of{NBSP}{row.expected}]")
    return " ".join(parts)


def difference_table(rows: Sequence[Row]) -> DataFrame:
    """Differences from the controls with intervals and p-values, of rows of one protocol."""
    table = text_frame(DIFFERENCES, (_tested(row, interval) for row in rows if row.tests))
    return table.drop(columns="protocol")


DIFFERENCES = ("data set", "method", "protocol", "− ucl", "p ucl", "− scl", "p scl")


def _tested(row: Row, text: Callable[[Comparison], str]) -> tuple[str, ...]:
    tests = [row.tests.get(control) for control in CONTROLS]
    texts = [x for test in tests for x in (_difference(test, text), _p_values(test))]
    return (row.dataset, _name(row), row.protocol, *texts)


def _difference(test: Comparison | None, text: Callable[[Comparison], str]) -> str:
    """A difference, marked if it is not significant."""
    if test is None:
        return "–"
    return text(test) + ("" if test.significant else " ns")


def _p_values(test: Comparison | None) -> str:
    """p of the t-test, and in brackets that of Wilcoxon's test."""
    return "–" if test is None else f"{p_value(test.p)} ({p_value(test.p_wilcoxon)})"


def significance_table(rows: Sequence[Row]) -> DataFrame:
    """Counts of comparisons with each control, of trained methods and of baselines."""
    lines = [
        (protocol, "baselines" if row.is_baseline else "trained methods", control,
         1, test.significant and test.mean > 0, test.significant and test.mean < 0)
        for protocol in names(rows, "protocol")
        for control in CONTROLS
        for row in rows
        if row.protocol == protocol and (test := row.tests.get(control)) is not None
    ]  # fmt: skip
    heads = ["protocol", "rows", "compared with", "comparisons",
             "significantly above", "significantly below"]  # fmt: skip
    table = text_frame(heads, lines)
    return table.groupby(heads[:3], sort=False).sum().reset_index().astype(str)


def baseline_table(rows: Sequence[Row]) -> DataFrame:
    """The best trained method and the best baseline on each data set, all seeds of both."""
    blocks: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        blocks.setdefault((row.protocol, row.dataset), []).append(row)
    lines = []
    for block, own in blocks.items():
        best = best_trained(own)
        baseline = _highest(row for row in own if row.is_baseline and row.whole)
        if best and best.scores and baseline and baseline.scores:
            means = best.scores.mean, baseline.scores.mean
            lines.append((*block, best.label, baseline.label, f"{means[0]:.1f}",
                          f"{means[1]:.1f}", points(means[0] - means[1])))  # fmt: skip
    heads = ("protocol", "data set", "highest trained method", "highest baseline", "trained, %",
             "baseline, %", "difference, points")  # fmt: skip
    return text_frame(heads, lines)


def protocol_table(rows: Sequence[Row]) -> DataFrame:
    """Protocol ``transductive`` minus ``inductive``, same seeds and settings, mean over methods."""
    fixed = {(r.protocol, r.dataset, r.method, r.setting): r for r in rows if r.kind == "fixed"}
    lines = []
    for (protocol, dataset, *key), row in fixed.items():
        other = fixed.get(("inductive", dataset, *key))  # type: ignore[arg-type]
        if protocol == "transductive" and other is not None and row.scores and other.scores:
            seeds = [seed for seed in row.scores.seeds if seed in other.scores.seeds]
            aware = "label-aware" if row.reads_labels else "label-free"
            gain = row.scores.of(seeds).mean - other.scores.of(seeds).mean if seeds else None
            lines += [(aware, dataset, gain)] * bool(seeds)
    mean = "mean over methods and sets"
    lines += [(aware, mean, gain) for aware, _, gain in lines]
    return _points_across(lines, ["methods", "dataset"])


def optimism_table(rows: Sequence[Row]) -> DataFrame:
    """Accuracy of ``best`` minus ``inside``, points."""
    known = [r for r in rows if r.optimism is not None]
    lines = [(r.protocol, r.method, r.dataset, r.optimism) for r in known]
    return _points_across(lines, ["protocol", "method", "dataset"])


def _points_across(lines: Sequence[tuple[Any, ...]], keys: list[str]) -> DataFrame:
    """Mean points as a table with the last key as columns."""
    table = text_frame([*keys, "points"], lines)
    if table.empty:
        return table
    wide = table.pivot_table(index=keys[:-1], columns=keys[-1], values="points", sort=False)
    wide = wide.map(points, na_action="ignore").fillna("–").reset_index()
    wide.columns.name = None
    return wide


def choice_table(selections: Sequence[Selection]) -> DataFrame:
    """How many folds chose which setting; for one split, how many seeds."""
    unit = "seeds" if any(one.scores.one_split for one in selections) else "folds"
    lines = []
    for one in selections:
        chosen = Counter(index for row in one.chosen for index in row)
        varied = [n for n in SYMBOLS if len({getattr(c, n) for c in one.candidates}) > 1]
        lines += [
            (config.set_name, config.method, in_symbols(config, varied), str(chosen[index]))
            for index, config in enumerate(one.candidates)
        ]
    return text_frame(["data set", "method", "setting", unit], lines)


# Files


def to_csv(rows: Sequence[Row]) -> str:
    """One line per row; percent and points have four decimals, p-values four significant digits.

    Args:
        rows: in the order to write them.

    Returns:
        The text; missing values are empty.

    Example:
        >>> text = to_csv([Row("MUTAG", "hscl", "transductive", "fixed", "β=2", None, expected=5)])
        >>> text.splitlines()[1][:37]
        'MUTAG,transductive,hscl,fixed,β=2,0,5'
    """
    table = rows_frame(rows)
    for name in table.columns:
        if name.startswith("p_"):
            table[name] = table[name].map("{:.4g}".format, na_action="ignore")
    text: str = table.to_csv(index=False, float_format="{:z.4f}".format, lineterminator="\n")
    return text


def to_latex(rows: Sequence[Row], caption: Mapping[str, str]) -> str:
    """One table for each protocol, methods down and data sets across, for LaTeX with booktabs.

    Args:
        rows: rows of any protocols.
        caption: captions by protocol.

    Returns:
        The source of the tables; the preamble needs ``\\usepackage{booktabs}``.
    """
    found = [_latex([row for row in rows if row.protocol == p], caption[p]) for p in caption]
    return "% needs \\usepackage{booktabs}\n" + "\n".join(found)


def _latex(rows: Sequence[Row], caption: str) -> str:
    from pandas import DataFrame

    sets, labels = names(rows, "dataset"), by_label(rows)
    best = {d: best_trained(row for row in rows if row.dataset == d) for d in sets}
    body = [[_latex_entry(of_set.get(d), best[d]) for d in sets] for of_set in labels.values()]
    style = DataFrame(body, index=[*labels], columns=sets).style
    for axis in (0, 1):
        style = style.format_index(
            lambda text: str(text).replace("β", r"$\beta$"), escape="latex", axis=axis
        )
    lines = style.to_latex(
        column_format="l" + "c" * len(sets), position_float="centering", hrules=True,
        caption=caption,
    ).splitlines(keepends=True)  # fmt: skip
    trained = sum(not next(iter(of_set.values())).is_baseline for of_set in labels.values())
    if 0 < trained < len(labels):  # a rule above the baselines, which are last
        lines.insert(lines.index("\\midrule\n") + 1 + trained, "\\midrule\n")
    return "".join(lines)


def _latex_entry(row: Row | None, best: Row | None) -> str:
    if row is None or row.scores is None:
        return "--"
    number, test = accuracy(row.scores).replace("±", r"\pm"), row.tests.get("ucl")
    if test and test.significant:
        number = rf"\mathbf{{{number}}}" if row is best and test.mean > 0 else number
        number += "^{*}"
    return f"${number}$" + ("" if row.whole else f" [{len(row.scores.seeds)}]")


# The terminal

WIDTH = 79
"""Characters of a line in which a table has to fit; settings that make it wider are a note."""
HEADS = ("data set", "method", "protocol", "accuracy %", "folds", "paper", "gap", "seeds", "s")


def terminal(rows: Sequence[Row]) -> RenderableType:
    """The tables of results for a terminal, with explanations."""
    from rich.console import Group
    from rich.text import Text

    split = any(row.scores and row.scores.one_split for row in rows)
    heads = [head if head != "folds" or not split else "s.e." for head in HEADS]
    texts = [_texts(row, _changed(row)) for row in rows]
    fits = sum(max(map(len, column)) + 1 for column in zip(heads, *texts, strict=True)) <= WIDTH
    if not fits:
        texts = [_texts(row) for row in rows]
    parts = [rich_table(heads, texts)]
    if tested := [_tested(row, lambda test: points(test.mean)) for row in rows if row.tests]:
        parts.append(rich_table(DIFFERENCES, tested))
    said = notes(rows)
    if not fits and any(row.changed for row in rows):
        several = dict.fromkeys(f"{row.method}: {_changed(row)}" for row in rows if row.changed)
        said = [f"Settings that are not usual: {'; '.join(several)}.", *said]
    return Group(*parts, *(Text(f"· {note}", style="dim") for note in said))


def _texts(row: Row, changed: str = "") -> tuple[str, ...]:
    scores = row.scores
    n_seeds, spread = (len(scores.seeds) if scores else 0), None
    if scores is not None:
        spread = scores.test_error if scores.one_split else scores.fold_std
    return (
        row.dataset, f"{_name(row)} {changed}".strip(), row.protocol, accuracy(scores),
        "–" if spread is None else f"{spread:.1f}",
        "–" if row.paper is None else f"{row.paper:.1f}",
        "–" if row.gap is None else f"{row.gap:+.1f}",
        str(n_seeds) if row.whole else f"{n_seeds}/{row.expected}",
        f"{row.seconds:.0f}" if row.seconds else "–",
    )  # fmt: skip


def _name(row: Row) -> str:
    """Method and setting, short enough for a terminal."""
    kind = row.kind if row.kind in ("inside", "best") else ""
    return " ".join(part for part in (row.method, kind, row.setting) if part)


def _changed(row: Row) -> str:
    return " ".join(row.changed)


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


def remarks(rows: Sequence[Row]) -> list[str]:
    """What was said as data were read, what WL took for features, and blind baselines."""
    starts: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        if row.wl_start:
            starts.setdefault((row.dataset, row.wl_start), {})[row.method] = None
    said = dict.fromkeys(
        f"{'' if note.startswith(row.dataset) else f'{row.dataset}: '}{note}."
        for row in rows
        for note in row.notes
    )
    blind = dict.fromkeys(f"{row.method} on {row.dataset}" for row in rows if row.blind)
    found = [
        *said,
        *(
            f"Hardly two graphs of {dataset} share the features of a node: WL starts from their "
            f"{start} ({', '.join(methods)})."
            for (dataset, start), methods in starts.items()
        ),
    ]
    if blind:
        found.append(
            f"Not tested, since it cannot tell any two graphs apart and predicts the most frequent "
            f"class: {', '.join(blind)}."
        )
    return found


def notes(rows: Sequence[Row]) -> list[str]:
    """Notes that explain the terminal's table."""
    split = any(of_images(row.protocol) for row in rows)
    trained = [row for row in rows if not row.is_baseline]
    kinds = {row.kind for row in rows}
    compared = any(row.paper is not None and row.setting for row in trained)
    optimism = [f"{r.dataset} {r.method} {r.optimism:+.1f}" for r in rows if r.optimism is not None]
    found = {
        "± is the standard deviation over seeds (a seed varies the encoder and the folds); folds, "
        "the one over a seed's folds; s, seconds of training and scoring, all seeds.": not split,
        "± is the standard deviation over seeds (the split is the same for all); s.e., the "
        "standard error that the number of test images leaves; s, seconds of training and "
        "scoring, all seeds.": split,
        "The transductive protocol (paper) trains on all graphs: label-aware encoders have seen "
        "the labels of the graphs they are tested on.": any(
            row.protocol == "transductive" and row.reads_labels for row in trained
        ),
        "The paper's figures for hucl and hscl are the best of β = 1, 2, 10, chosen on the test "
        "folds.": compared and not split,
        "The paper's figures are of ResNet-50 after 200 epochs on all training images, the best "
        "of a grid.": compared and split,
        f"best: the setting with the best mean on the {test_part(rows[0].protocol)}"
        ", which is the paper's way and no estimate for new data.": "best" in kinds,
        "inside: the setting was chosen on a fifth of the training data that the encoder had not "
        "seen, once or by every training fold (of images every seed).": "inside" in kinds,
        f"Optimism, best less inside, in points: {', '.join(optimism)}.": bool(optimism),
        "Baselines use training folds alone, so they are shown under both protocols.": (
            len(trained) < len(rows) and not split
        ),
        f"− ucl, − scl: differences in points. p: {test_name(rows[0].protocol)}, in brackets "
        "Wilcoxon's test over seeds; both Holm-corrected over what is compared with one control "
        f"on one data set. ns: not significant at {LEVEL:.0%}.": any(row.tests for row in rows),
    }
    return [*(note for note, applies in found.items() if applies), *remarks(rows)]
