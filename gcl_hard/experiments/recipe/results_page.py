"""The page of ``--table recipe``, with its CSV and its figure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from gcl_hard.experiments.lines import LEVEL
from gcl_hard.experiments.recipe.accuracies import (
    OPEN,
    floors,
    is_baseline,
    protocol_section,
    whose,
)
from gcl_hard.experiments.recipe.answers import answers
from gcl_hard.experiments.recipe.compared import Compared
from gcl_hard.experiments.recipe.learning_curves import learning_curves
from gcl_hard.experiments.recipe.paired import differences, levers
from gcl_hard.experiments.recipe.results_csv import to_csv
from gcl_hard.experiments.recipe.top import top
from gcl_hard.experiments.recipe.two_recipes import recipes
from gcl_hard.experiments.recipe_table import SHARES, Entry
from gcl_hard.experiments.reporting.markdown import markdown_table
from gcl_hard.experiments.reporting.origin import origin
from gcl_hard.experiments.reporting.page import check_target
from gcl_hard.experiments.reporting.words import count
from gcl_hard.experiments.reporting.written import write_files
from gcl_hard.experiments.results import Results

TESTS = f"""## How the tests work

Two rows are compared on the same folds of the same seeds. Training sets overlap, so folds are not
independent, and an ordinary t-test finds differences that are not there. The corrected resampled
t-test takes t = d / √((1/J + n_test/n_train) s²) with J − 1 degrees of freedom, where d and s² are
the mean and the variance of the J differences, one of each seed and fold (Nadeau and Bengio,
Machine Learning 52, 2003; for several runs Bouckaert and Frank, PAKDD 2004).
[More](protocols.md#is-a-difference-real).

- **Intervals** are at 95 % with the same correction, in tables and figure; they do not know how
  many comparisons there are. Those over sets are of the mean of the sets' differences.
- **Bold** does: p of the test is corrected (Holm 1979) over all comparisons of a question and all
  data sets, and in the table of levers over that table. A difference is significant, and bold, if
  the corrected p is below {LEVEL:g}. So an interval can leave out 0 where nothing is bold.
- What is not significant is not shown to be equal: an interval tells how far apart two rows may
  be."""


def write(results: Results, path: Path, *, command: str, quick: bool) -> list[Path]:
    """Write the page, NAME.csv and NAME-curves.svg beside it.

    Args:
        results: of ``--table recipe``.
        path: of the page, NAME.md.
        command: that made the results.
        quick: whether they are a quick look.

    Returns:
        What was written, the page first.

    Raises:
        InputError: if the place cannot be written to, or a quick look would replace results.
    """
    check_target(path, quick=quick)
    compared = Compared(results, quick=quick)
    figure, drawn = learning_curves(compared), path.with_name(f"{path.stem}-curves.svg")
    text = page(compared, command, figure=drawn.name if figure else None)
    texts = {path: text, path.with_suffix(".csv"): to_csv(compared)}
    return write_files(texts, {drawn: figure} if figure else {})


def page(compared: Compared, command: str, *, figure: str | None) -> str:
    """The page; every sentence about the numbers is made from them.

    Args:
        compared: the rows.
        command: that made them.
        figure: relative path of the learning curves, where there are any.
    """
    parts = [*top(compared, command), *recipes(compared)]
    for protocol in compared.protocols:
        parts += protocol_section(compared, protocol)
    if "inductive" in compared.protocols:
        parts += [*differences(compared), *levers(compared), *_curves(compared, figure)]
    parts += [*_cost(compared), TESTS, origin(compared.results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _curves(compared: Compared, figure: str | None) -> list[str]:
    if figure is None:
        return []
    of = ", of the seeds that are finished" if compared.results.open else ""
    shares = ", ".join(f"{100 * share:g}" for share in SHARES)
    return [
        "## Fewer graphs",
        f"Protocol `inductive`, our recipe, with {shares} and 100 % of each training fold's "
        f"graphs, class by class: encoders and SVMs see none of the others. Bars are 95 % "
        f"intervals{of}.",
        f"![Accuracy against training graphs]({figure})",
    ]


def in_short(compared: Compared) -> str:
    """For a terminal: the answers, and what is open."""
    n_open = len(compared.results.open)
    told = [text.replace("**", "") for text in answers(compared)]
    return "\n".join([*told, f"{count(n_open, 'run')} open" if n_open else "all runs are finished"])


def _cost(compared: Compared) -> list[str]:
    """Seconds a seed: the mean of the trained methods by recipe and protocol, and floors."""
    return [
        "## Cost",
        "Seconds a seed takes to train and to score, as its record has them; of trained methods "
        "the mean. Methods train side by side on busy machines, so these are rough.",
        _seconds(compared),
    ]


def _seconds(compared: Compared) -> str:
    rows: dict[tuple[str, str, str], list[Entry]] = {}
    for row in compared.rows("ours", "paper"):
        if not is_baseline(row):
            rows.setdefault(("trained", whose(row), row.protocol), []).append(row)
    for row in floors(compared):
        rows[row.name, whose(row), ""] = [row]
    body = [[*key, *(_mean(compared, some, d) for d in compared.datasets)]
            for key, some in rows.items()]  # fmt: skip
    return markdown_table(["", "recipe", "protocol", *compared.datasets], body, texts=3)


def _mean(compared: Compared, rows: Sequence[Entry], dataset: str) -> str:
    found = [r for row in rows if (r := compared.result(row, dataset)) is not None]
    if not found:
        return OPEN
    mean = statistics.fmean(one.seconds / len(one.records) for one in found)
    return f"{mean:.0f}" if mean >= 1 else "< 1"
