"""Lines of results in three formats: a long CSV, LaTeX tables of a paper, Markdown tables."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence

from gcl_hard.experiments.config import CellConfig
from gcl_hard.experiments.lines import CONTROLS, LEVEL, SYMBOLS, Line
from gcl_hard.experiments.report import accuracy
from gcl_hard.experiments.results import Selection
from gcl_hard.methods import METHODS

ACROSS = 5  # data sets of a table on a page
NBSP = "\u00a0"  # keeps a number in one piece

COLUMNS = (
    "dataset", "protocol", "method", "kind", "choice", "seeds", "seeds_expected", "mean",
    "std_seeds", "std_folds", "low", "high", "paper", "gap",
    *(f"{name}_{control}" for control in CONTROLS for name in ("vs", "p", "p_wilcoxon")),
    "optimism", "seconds",
)  # fmt: skip


def protocols(lines: Iterable[Line]) -> list[str]:
    """Protocols of lines, in their order."""
    return list(dict.fromkeys(line.protocol for line in lines))


def datasets(lines: Iterable[Line]) -> list[str]:
    """Data sets of lines, in their order."""
    return list(dict.fromkeys(line.dataset for line in lines))


def grid(lines: Iterable[Line]) -> dict[str, dict[str, Line]]:
    """Lines of one protocol by what their row is called, and by data set.

    Args:
        lines: of one protocol.

    Returns:
        Rows in the order of the lines; what was best on the test folds is one row, whatever the
        setting was that was best.
    """
    rows: dict[str, dict[str, Line]] = {}
    for line in lines:
        name = f"{line.method} best on test" if line.kind == "best" else line.label
        rows.setdefault(name, {})[line.dataset] = line
    return rows


def whole(line: Line | None) -> bool:
    """Whether a line has all its seeds."""
    return line is not None and line.scores is not None and len(line.scores.seeds) == line.expected


def best_trained(lines: Iterable[Line]) -> Line | None:
    """The line with the highest mean, of whole ones that were fixed or chosen inside."""
    scored = [line for line in lines if whole(line) and line.kind in ("fixed", "inside")]
    return max(scored, key=lambda line: line.scores.mean if line.scores else 0.0, default=None)


def to_csv(lines: Sequence[Line]) -> str:
    """One row a line, as CSV.

    Percent and points have four decimals, p-values four significant digits; what there is not is
    empty.

    Args:
        lines: in the order to write them.

    Returns:
        The text: a head, and a row a line, of ``COLUMNS``.

    Example:
        >>> text = to_csv([Line("MUTAG", "hscl", "paper", "fixed", "β=2", None, expected=5)])
        >>> text.splitlines()[1][:35]
        'MUTAG,paper,hscl,fixed,β=2,0,5,,,,,'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_row(line) for line in lines)
    return text.getvalue()


def _row(line: Line) -> list[str]:
    known: dict[str, float | None] = {"paper": line.paper, "gap": line.gap}
    known |= {"optimism": line.optimism, "seconds": line.seconds or None}
    if (scores := line.scores) and (interval := line.interval):
        known |= {"mean": scores.mean, "std_seeds": scores.std, "std_folds": scores.fold_std}
        known |= {"low": interval.low, "high": interval.high}
    for control, test in line.tests.items():
        known[f"vs_{control}"] = test.difference
    words = {
        "dataset": line.dataset, "protocol": line.protocol, "method": line.method,
        "kind": line.kind, "choice": line.choice,
        "seeds": str(len(scores.seeds) if scores else 0), "seeds_expected": str(line.expected),
        **{f"p_{control}": _p(test.p) for control, test in line.tests.items()},
        **{f"p_wilcoxon_{control}": _p(test.p_wilcoxon) for control, test in line.tests.items()},
    }  # fmt: skip
    return [words.get(column) or _number(known.get(column)) for column in COLUMNS]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:z.4f}"


def _p(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def to_markdown(lines: Sequence[Line]) -> list[str]:
    """Tables of one protocol, methods down and at most five data sets across.

    A cell is the mean ± deviation over seeds, † if it differs significantly from ucl, points above
    the paper's figure, the setting of what was best on the test folds, and seeds where they are
    not all finished.

    Args:
        lines: of one protocol.

    Returns:
        The tables.
    """
    sets = datasets(lines)
    tables = []
    for start in range(0, len(sets), ACROSS):
        shown = sets[start : start + ACROSS]
        rows = grid(line for line in lines if line.dataset in shown)
        body = [[name, *(_markdown_cell(row.get(d)) for d in shown)] for name, row in rows.items()]
        tables.append(markdown_table(["", *shown], body, texts=1))
    return tables


def _markdown_cell(line: Line | None) -> str:
    if line is None or line.scores is None:
        return "–" if line is None else "open"
    seeds, ucl = len(line.scores.seeds), line.tests.get("ucl")
    parts = [accuracy(line).replace(" ", NBSP) + ("†" if ucl and ucl.significant else "")]
    if line.gap is not None:
        parts.append(f"({points(line.gap)})")
    if line.kind == "best":
        parts.append(line.setting.replace(" ", NBSP))
    if seeds < line.expected:
        parts.append(f"[{seeds}{NBSP}of{NBSP}{line.expected}]")
    return " ".join(parts)


def marks(lines: Sequence[Line]) -> list[str]:
    """What the marks and rows of :func:`to_markdown` mean, of those that are there."""
    notes = []
    if any("ucl" in line.tests for line in lines):
        notes.append(
            "†: significantly different from ucl. Without it: not significantly, or not tested, "
            "where ucl is open and of what was best on test."
        )
    if any(line.gap is not None for line in lines):
        notes.append(
            "In round brackets: points above the figure of the H-SCL paper's Table II, a mean of "
            "ten runs; "
            "for hucl and hscl the paper took the best of β = 1, 2, 10 on the test folds."
        )
    if any(line.scores and len(line.scores.seeds) < line.expected for line in lines):
        notes.append("In square brackets: seeds that are finished, where some are open.")
    if any(line.scores is None for line in lines):
        notes.append("open: no seed is finished.")
    if any(line.kind == "inside" for line in lines):
        notes.append(
            "chosen inside: every training fold chose its own setting by encoders trained without "
            "a fifth of it and scored on that fifth, then trained anew on all of it."
        )
    if any(line.kind == "best" for line in lines):
        notes.append(
            "best on test: of several settings the best on the test folds, named beside it. That "
            "is the paper's way, too high on average, and no estimate."
        )
    return notes


def choices(chosen: Sequence[Selection]) -> str:
    """How many folds chose which setting, as Markdown."""
    body = []
    for selection in chosen:
        counts = Counter(c for row in selection.chosen for c in row)
        cells = [result.cell for result in selection.outer]
        names = [n for n in SYMBOLS if len({getattr(c, n) for c in cells}) > 1]
        for index, cell in enumerate(cells):
            setting = " ".join(f"{SYMBOLS[n]}={getattr(cell, n):g}" for n in names)
            body.append([cell.dataset, cell.method, setting, str(counts[index])])
    return markdown_table(["data set", "method", "setting", "folds"], body, texts=3)


def markdown_table(heads: Sequence[str], body: Iterable[Sequence[str]], *, texts: int) -> str:
    """A table whose first columns are ``texts``, the others numbers."""
    rule = ["---"] * texts + ["---:"] * (len(heads) - texts)
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, rule, *body))


def count(n: int, word: str) -> str:
    """How many there are, in words."""
    return f"{n} {word}{'s' * (n != 1)}"


def values(cells: Iterable[CellConfig], name: str) -> str:
    """The different values of a setting, in their order."""
    found = dict.fromkeys(getattr(cell, name) for cell in cells)
    return ", ".join(_value(value) for value in found if value is not None)


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return "+".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def points(value: float) -> str:
    """A difference, with its sign."""
    return f"{value:+z.1f}"


def to_latex(lines: Sequence[Line]) -> str:
    """One table a protocol, methods down and data sets across, for LaTeX with booktabs.

    Args:
        lines: of any protocols.

    Returns:
        The source of the tables; the preamble needs ``\\usepackage{booktabs}``.
    """
    found = [_table([line for line in lines if line.protocol == p]) for p in protocols(lines)]
    return "% needs \\usepackage{booktabs}\n" + "\n".join(found)


def _table(lines: Sequence[Line]) -> str:
    sets, rows = datasets(lines), grid(lines)
    best = [best_trained(line for line in lines if line.dataset == name) for name in sets]
    body: list[str] = []
    above = False
    for name, row in rows.items():
        floor = all(line.kind == "floor" for line in row.values())
        if floor and above:
            body.append(r"\midrule")
        above = not floor
        cells = [_cell(row.get(d), row.get(d) is top) for d, top in zip(sets, best, strict=True)]
        body.append(" & ".join([_escaped(name), *cells]) + r" \\")
    head = " & ".join(["", *map(_escaped, sets)]) + r" \\"
    return "\n".join([
        r"\begin{table}", r"\centering", rf"\caption{{{_caption(lines)}}}",
        rf"\begin{{tabular}}{{l{'c' * len(sets)}}}", r"\toprule", head.strip(), r"\midrule",
        *body, r"\bottomrule", r"\end{tabular}", r"\end{table}", "",
    ])  # fmt: skip


def _cell(line: Line | None, best: bool) -> str:
    if line is None or line.scores is None:
        return "--"
    std = line.scores.std
    number = f"{line.scores.mean:.1f}" + ("" if std is None else rf" \pm {std:.1f}")
    test = line.tests.get("ucl")
    if test and test.significant:
        number = rf"\mathbf{{{number}}}" if best and test.difference > 0 else number
        number += "^{*}"
    few = "" if len(line.scores.seeds) == line.expected else f" [{len(line.scores.seeds)}]"
    return f"${number}${few}"


def _caption(lines: Sequence[Line]) -> str:
    """What a reader of the table alone must know."""
    scored = [line for line in lines if line.scores]
    seeds = max((line.expected for line in lines), default=0)
    parts = [
        f"Accuracy in percent under protocol {_escaped(lines[0].protocol)}: mean "
        rf"$\pm$ standard deviation over {count(seeds, 'seed')}."
    ]
    aware = dict.fromkeys(
        line.method for line in lines if line.kind != "floor" and METHODS[line.method].label_aware
    )
    if lines[0].protocol == "paper" and aware:
        names = _escaped(", ".join(aware))
        parts.append(f"Encoders of {names} have seen the labels of the graphs they are tested on.")
    if any(line.kind == "best" for line in lines):
        parts.append("Best on test: the best of several settings on the test folds, no estimate.")
    if any("ucl" in line.tests for line in lines):
        parts.append(
            rf"$^{{*}}$: differs from ucl at {100 * LEVEL:.0f}\,\% (corrected resampled t-test on "
            "paired folds, Holm-corrected per data set); bold: the highest mean of a trained "
            "method, only where it is significantly above ucl."
        )
    if any(line.scores and len(line.scores.seeds) < line.expected for line in scored):
        parts.append("[n]: n seeds so far.")
    if len(scored) < len(lines):
        parts.append("--: not finished.")
    return " ".join(parts)


SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{c: f"\\{c}" for c in "_%&#${}"}, "β": r"$\beta$",
}  # fmt: skip


def _escaped(text: str) -> str:
    return "".join(SPECIAL.get(character, character) for character in text)
