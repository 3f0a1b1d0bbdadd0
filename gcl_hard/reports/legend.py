"""What signs and columns of tables mean: fixed lines, each shown where its sign is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gcl_hard.evaluation.metrics import metric
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.reports.frame import Comparison
from gcl_hard.reports.rows import END, Row, controls

SEEN, BLIND = "§", "°"
SOURCES = {
    "folds": ("seeds and folds", "corrected resampled t-test, whose p may be too small where folds "
              "share an encoder,"),
    "splits": ("splits, means over seeds", "corrected resampled t-test"),
    "seeds": ("seeds, on these test items", "paired t-test"),
    "draws": ("seeds, each with a draw of classes", "corrected resampled t-test"),
    "items": ("seeds and test items", "t-test of Obuchowski and Rockette"),
}  # fmt: skip
"""Sources of variation in intervals, and the test of differences."""

LINES = (
    ("transductive", "^transductive$", "encoders see all items, test items among them"),
    ("inductive", "^inductive$", "encoders are trained on a fold's training items alone"),
    ("split", "^split$", "encoders are trained on training items alone; test items are read once"),
    ("unseen", "^unseen$", "test items are of classes that are in no training and no validation"),
    ("ood", "^ood$", "encoders see items of known classes alone; test items are of others, too"),
    (SEEN, SEEN, "its encoder has seen the labels of the test items: no estimate for new ones"),
    ("±", "±", "standard deviation over seeds, and over splits that are the same for all rows"),
    ("folds", "(^|, )folds$", "standard deviation over the folds of a seed, mean over seeds"),
    ("splits", "(^|, )splits$", "standard deviation over the splits of a seed, mean over seeds"),
    ("s.e.", r"(^|, )s\.e\.$", "standard error that the number of test items leaves"),
    ("seeds", "^seeds$", "with a defined score; – where no seed changes it"),
    ("seeds × splits", "seeds × splits$", "– where no seed changes it; two rows are compared on "
     "what both have"),
    ("s", "^s$", "seconds of training and scoring, all seeds"),
    ("↓", "↓$", "less is better"),
    ("paper", "^paper$", "the H-SCL paper's figure, of hucl and hscl the best of a grid on test "
     "data"),
    ("gap", "^gap$", "points above the paper's figure"),
    ("(+1.0)", r" \([+-]", "points above the H-SCL paper's figure, of hucl and hscl the best of a "
     "grid on test data"),
    ("macro-F1", "macro-F1$", "mean over classes, where one has more than twice the test items of "
     "another"),
    ("kNN", "kNN$", "the 200 nearest training items vote in the place of the probe"),
    ("[1 of 3]", r"\[\d+.of", "finished seeds; the others are open, or have no defined score"),
    ("open", "^open$", "no seed is finished"),
    ("inside", r"\binside\b", "chosen on validation items or a held-out part of the training data"),
    ("best", r"\bbest\b", "the best of several settings on the test data: no estimate, not tested"),
    ("inner", "^inner [^,\n]*$", "of the best trial, which is also the luckiest: optimistic"),
    ("outer", "^outer [^,\n]*$", "of the best settings, on test items"),
    ("optimism", r"\boptimism\b", "by how much choosing on the data of the score has raised "
     "it, with chance"),
    (BLIND, BLIND, "tells no two items apart and predicts the most frequent class; not tested"),
    ("†", "†", "differs from {control}, p < .05; without it: not significantly, or not tested"),
    ("bold", "textbf", "the best mean of trained methods, if significantly better than {control}"),
    ("− NAME", "^− ", "difference from it, in points or the unit of the metric"),
    ("− frozen", "^− frozen$", "difference from the same encoder, and what is joined, without "
     "training"),
    ("[a, b]", r"\[[+-]", "95 % interval over {over}, not corrected for the number of comparisons"),
    ("p", "^p ", "{test}"),
    ("(p)", "^p ", "Wilcoxon's signed-rank test over seeds, never below .05 with fewer than six"),
    ("p, (p)", "^p ", "Holm-corrected over all rows compared with one control on one data set"),
    ("ns", " ns$", "p ≥ .05: not significant, which does not show equality{least}"),
    ("chosen", "^chosen$", "the best held-out score of the settings tried, each in one shorter "
     "run, then run in full; held-out items of a few splits may be test items of others"),
    (END, END, "an end of the values tried; a better one may lie beyond"),
    ("in standard errors", "^in standard errors$", "below two, no difference is shown"),
    ("effective negatives", "^effective negatives$", "(Σq)² / Σq² of the weights q of negatives, "
     "as a share of them"),
    ("Assumption 1 holds", "^Assumption 1 holds$", "share of anchors, of those where it says "
     "something, whose hard candidates of their own class are no less similar than those of "
     "others"),
    ("overlap of classes", "^overlap of classes$", "of the histograms of similarity within and "
     "between classes"),
)  # fmt: skip
"""Signs, each with a pattern of the heads and cells that have it, in the order shown."""


def varied(row: Row) -> str:
    """Source of variation in a row's intervals, a key of :data:`SOURCES`."""
    if row.unit and (row.scores is None or row.scores.samples):
        return "items"
    if row.one_split:
        return "draws" if row.scores and row.scores.test_share else "seeds"
    return "splits" if row.common_splits else "folds"


def marks(row: Row) -> str:
    """Signs of a row whose scores are no estimate, or of a classifier that sees nothing."""
    return SEEN * row.sees_test_labels + BLIND * row.blind


def _least(rows: Sequence[Row]) -> str:
    """The differences that tests of rows could not have found, and what finds smaller ones."""
    by_metric = dict[str, list[tuple[float, str]]]()
    designs, ways = dict[str, None](), dict[str, None]()
    for row in rows:
        for control, test in row.tests.items():
            if test.least and row.config is not None:
                pair = f"{row.label} − {control}"
                by_metric.setdefault(row.metric, []).append((test.least, pair))
                experiment = experiment_of(row.config)
                leave = f", down to what the test {experiment.unit}s leave" * bool(experiment.unit)
                designs[_design(row, test)] = ways[experiment.power + leave] = None
    if not by_metric:
        return ""
    ranges = []
    for name, values in by_metric.items():
        ends = {metric(name).text(value): pair for value, pair in (max(values), min(values))}
        texts = [f"{text} {metric(name).points} ({pair})" for text, pair in ends.items()]
        ranges.append(" to ".join(reversed(texts)))
    design = next(iter(designs)) if len(designs) == 1 else "as many seeds and test parts as here"
    return (
        f": the least difference that this test finds is {' or '.join(ranges)} with {design}; "
        f"{' or '.join(ways)}"
    )


def _design(row: Row, test: Comparison) -> str:
    """The numbers of seeds, test parts and items of a comparison."""
    facts, item = row.records[0].data if row.records else {}, experiment_of(row.config).item
    design = f"{test.seeds} seed{'s' * (test.seeds != 1)}"
    if test.folds > 1:
        design += f" × {test.folds} {'splits' if row.common_splits else 'folds'}"
    if {"n_train", "n_test"} <= facts.keys():
        design += " of " if test.folds > 1 else ", "
        design += f"{facts['n_train']:,} training and {facts['n_test']:,} test {item}s"
    return design


def legend(rows: Sequence[Row], texts: Iterable[str]) -> list[tuple[str, str]]:
    """The signs in tables, each with its meaning.

    Args:
        rows: what the tables show.
        texts: heads and cells of the tables, and the name of their protocol.

    Example:
        >>> legend([], ["method", "kNN"])
        [('kNN', 'the 200 nearest training items vote in the place of the probe')]
    """
    joined = "\n".join(text.replace("\n", " ") for text in texts)
    sources = dict.fromkeys(SOURCES[varied(row)] for row in rows)
    facts = {
        "over": " or ".join(over for over, _ in sources),
        "test": " or ".join(f"{test} over {over}" for over, test in sources),
        "control": (*controls(rows), "ucl")[0],
        "least": _least(rows),
    }
    return [
        (sign, meaning.format(**facts))
        for sign, pattern, meaning in LINES
        if re.search(pattern, joined, re.MULTILINE)
    ]
