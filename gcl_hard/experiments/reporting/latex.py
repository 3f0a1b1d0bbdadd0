"""Lines of results as LaTeX tables of a paper."""

from __future__ import annotations

from collections.abc import Sequence

from gcl_hard.experiments.lines import LEVEL, Line
from gcl_hard.experiments.reporting.pick import (
    best_trained,
    datasets,
    grid,
    label_aware,
    protocols,
)
from gcl_hard.experiments.reporting.words import count, of_images, test_name

SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{c: f"\\{c}" for c in "_%&#${}"}, "β": r"$\beta$",
}  # fmt: skip


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
        floor = all(line.is_baseline for line in row.values())
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
    aware = dict.fromkeys(line.method for line in lines if label_aware(line))
    if lines[0].protocol == "paper" and aware:
        names = _escaped(", ".join(aware))
        parts.append(f"Encoders of {names} have seen the labels of the graphs they are tested on.")
    if any(line.kind == "best" for line in lines):
        parts.append("Best on test: the best of several settings there, no estimate.")
    if any("ucl" in line.tests for line in lines):
        split = of_images(lines[0].protocol)
        test = test_name(lines[0].protocol) + ("" if split else " on paired folds")
        parts.append(
            rf"$^{{*}}$: differs from ucl at {100 * LEVEL:.0f}\,\% ({test}, "
            "Holm-corrected per data set); bold: the highest mean of a trained "
            "method, only where it is significantly above ucl."
        )
    if any(line.scores and len(line.scores.seeds) < line.expected for line in scored):
        parts.append("[n]: n seeds so far.")
    if len(scored) < len(lines):
        parts.append("--: not finished.")
    return " ".join(parts)


def _escaped(text: str) -> str:
    return "".join(SPECIAL.get(character, character) for character in text)
