"""Lines of results as a long CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from gcl_hard.experiments.lines import CONTROLS, Line

COLUMNS = (
    "dataset", "protocol", "method", "kind", "choice", "seeds", "seeds_expected", "mean",
    "std_seeds", "std_folds", "se_test", "low", "high", "paper", "gap",
    *(f"{name}_{control}" for control in CONTROLS for name in ("vs", "p", "p_wilcoxon")),
    "optimism", "seconds",
)  # fmt: skip


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
    if scores := line.scores:
        known |= {"mean": scores.mean, "std_seeds": scores.std, "std_folds": scores.fold_std}
        known["se_test"] = scores.test_error
    if interval := line.interval:
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
