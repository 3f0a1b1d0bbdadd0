"""What signs and columns of tables mean: fixed lines, each shown where its sign is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gcl_hard.reports.rows import END, Row

SEEN, BLIND = "§", "°"
VARIED = {
    "folds": "seeds and folds", "splits": "seeds and splits",
    "seeds": "seeds, on these test items", "items": "seeds and test items",
}  # fmt: skip
"""Sources of variation in intervals."""
TESTS = {
    "folds": "corrected resampled t-test", "splits": "corrected resampled t-test",
    "seeds": "paired t-test", "items": "t-test of Obuchowski and Rockette",
}  # fmt: skip


def varied(row: Row) -> str:
    """Source of variation in a row's intervals, a key of :data:`VARIED`."""
    if row.unit and (row.scores is None or row.scores.samples):
        return "items"
    return "seeds" if row.one_split else "splits" if row.common_splits else "folds"


def _over(*keys: str) -> Callable[[Row], bool]:
    return lambda row: varied(row) in keys


def marks(row: Row) -> str:
    """Signs of a row whose scores are no estimate, or of a classifier that sees nothing."""
    return SEEN * row.sees_test_labels + BLIND * row.blind


@dataclass(frozen=True)
class Line:
    """A line of the legend.

    Attributes:
        sign: a column, a sign or a word of a table.
        meaning: what it means.
        cell: a pattern of the heads and cells that have it; the column itself if empty.
        rows: of which rows it is true, where not of all.
    """

    sign: str
    meaning: str
    cell: str = ""
    rows: Callable[[Row], bool] | None = None

    def applies(self, rows: Sequence[Row], texts: Sequence[str]) -> bool:
        """Whether a table of these rows and texts has the sign."""
        pattern = re.compile(self.cell or f"^{re.escape(self.sign)}$")
        return any(map(pattern.search, texts)) and (self.rows is None or any(map(self.rows, rows)))


LINES = (
    Line("transductive", "one encoder a seed, trained on all items, test items among them",
         rows=lambda row: not row.common_splits),
    Line("transductive", "encoders see all items, and labels of training items alone",
         rows=lambda row: row.common_splits),
    Line("inductive", "one encoder a seed and fold, trained on the fold's training items alone"),
    Line("split", "encoders are trained on training items alone; test items are read once"),
    Line(SEEN, "its encoder has seen the labels of the test items: no estimate for new ones", SEEN),
    Line("±", "standard deviation over seeds, each with folds of its own", "±", _over("folds")),
    Line("±", "standard deviation over seeds and splits, which are the same for all rows", "±",
         _over("splits")),
    Line("±", "standard deviation over seeds, on the same test items", "±",
         _over("seeds", "items")),
    Line("folds", "standard deviation over the folds of a seed, mean over seeds"),
    Line("splits", "standard deviation over the splits of a seed, mean over seeds"),
    Line("s.e.", "standard error that the number of test items leaves"),
    Line("seeds", "finished ones, of those asked for; a seed without a defined score is left out",
         rows=lambda row: not row.whole),
    Line("seeds –", "no seed changes it, so that it is run once", "^seeds$",
         lambda row: row.is_deterministic),
    Line("seeds × splits", "of the row, – where no seed changes it; two rows are compared on what "
         "both have", "seeds × splits$"),
    Line("s", "seconds of training and scoring, all seeds"),
    Line("↓", "less is better", "↓$"),
    Line("paper", "the H-SCL paper's figure, of hucl and hscl the best of a grid on test data"),
    Line("gap", "points above the paper's figure"),
    Line("(+1.0)", "points above the H-SCL paper's figure, of hucl and hscl the best of a grid on "
         "test data", r" \([+-]"),
    Line("kNN", "the 200 nearest training items vote in the place of the probe", "kNN$"),
    Line("[1 of 3]", "finished seeds; the others are open, or have no defined score", r"\[\d+.of"),
    Line("open", "no seed is finished"),
    Line("–", "nothing, or a metric that is not defined on the test data",
         rows=lambda row: row.scores is None and row.undefined > 0),
    Line("inside", "chosen on validation items or a held-out part of the training data", "inside",
         lambda row: row.kind == "inside"),
    Line("inside", "chosen on the first splits, whose validation items may be test items of others",
         "inside", lambda row: bool(row.chosen_on)),
    Line("best", "the best of several settings on the test data: no estimate, and not tested",
         "best", lambda row: row.kind == "best"),
    Line("inner", "of the best trial, which is also the luckiest: optimistic", "^inner [^,]*$"),
    Line("outer", "of the best settings, trained once on all that the search saw, on items that no "
         "trial has seen", "^outer [^,]*$"),
    Line("optimism", "by how much choosing on the data of the score has raised it, with chance"),
    Line(BLIND, "tells no two items apart and predicts the most frequent class; not tested", BLIND),
    Line("†", "differs from ucl, p < .05; without it: not significantly, or not tested", "†"),
    Line("bold", "the best mean of trained methods, if significantly better than ucl", "textbf"),
    Line("− NAME", "difference from it, in points or the unit of the metric", "^− "),
    Line("− frozen", "difference from the same encoder, and what is joined, without training",
         "^− frozen$"),
    *(Line("[a, b]", f"95 % interval over {words}, not corrected for the number of comparisons",
           r"\[[+-]", _over(key)) for key, words in VARIED.items()),
    *(Line("p", f"{TESTS[key]} over {words}", "^p ", _over(key)) for key, words in VARIED.items()),
    Line("p", "may be too small where the folds of a seed share an encoder", "^p ",
         lambda row: row.protocol == "transductive" and varied(row) == "folds"),
    Line("(p)", "Wilcoxon's signed-rank test over seeds, never below .05 with fewer than six",
         "^p "),
    Line("p, (p)", "Holm-corrected over all rows compared with one control on one data set", "^p "),
    Line("ns", "p ≥ .05: not significant, which does not show equality", " ns$"),
    Line("highest", "the highest of several, too high on average; not tested", "^highest "),
    Line("lowest", "the lowest of several, too low on average; not tested", "^lowest "),
    Line("chosen", "the best held-out score of the settings tried, each in one shorter run; then "
         "run in full"),
    Line(END, "an end of the values tried; a better one may lie beyond", END),
    Line("in standard errors", "below two, no difference is shown"),
    Line("effective negatives", "(Σq)² / Σq² of the weights q of negatives, as a share of them"),
    Line("Assumption 1 holds", "share of anchors, of those where it says something, whose hard "
         "candidates of their own class are no less similar than those of others"),
    Line("overlap of classes", "of the histograms of similarity within and between classes"),
)  # fmt: skip
"""In the order in which they are shown."""


def legend(rows: Sequence[Row], texts: Iterable[str]) -> list[tuple[str, str]]:
    """The signs in tables, each with its meaning.

    Args:
        rows: what the tables show.
        texts: heads and cells of the tables, and the name of their protocol.

    Example:
        >>> legend([], ["method", "kNN"])
        [('kNN', 'the 200 nearest training items vote in the place of the probe')]
    """
    texts = [*texts]
    return [(line.sign, line.meaning) for line in LINES if line.applies(rows, texts)]
