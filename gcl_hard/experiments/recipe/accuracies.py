"""The results page: accuracies under each protocol."""

from __future__ import annotations

from gcl_hard.experiments.recipe.compared import Compared
from gcl_hard.experiments.recipe_table import SCORED_ALIKE, Entry
from gcl_hard.experiments.reporting.explained import SEEN, SEEN_LABELS
from gcl_hard.experiments.reporting.markdown import markdown_table
from gcl_hard.experiments.reporting.words import NBSP

OPEN, NOTHING = "open", "–"
PAPERS, OURS = "paper's", "ours"
ALIKE = {
    "untrained": "Untrained has a recipe's encoder and SVM.",
    "supervised": (
        "Supervised has a recipe's encoder and optimiser, is not tuned by itself and has no SVM."
    ),
}
"""Floors of each recipe."""


def protocol_section(compared: Compared, protocol: str) -> list[str]:
    """What encoders have seen, and accuracies of methods and floors."""
    own = [row for row in compared.rows("ours", "paper") if row.protocol == protocol]
    aware = [r.name for r in own if any(cell.reads_labels for cell in r.cells.values())]
    seen = [SEEN[protocol]]
    if aware:
        seen.append(SEEN_LABELS[protocol].format(", ".join(dict.fromkeys(aware))))
    scored = floors(compared)
    if scored:
        both = " They are the same under both protocols." if len(compared.protocols) > 1 else ""
        seen.append(f"[Floors](methods.md#floors) are fitted to training folds alone.{both}")
    seen += [told for name, told in ALIKE.items() if any(row.name == name for row in scored)]
    table = _accuracies(compared, protocol)
    return [f"## Protocol `{protocol}`", " ".join(seen), table, _marks(table, compared)]


def _marks(table: str, compared: Compared) -> str:
    """What marks of a table mean, of those that are there."""
    n, notes = len(compared.results.seeds), []
    if f"| {OPEN} |" in table:
        notes.append("open: no seed is finished.")
    if any(f"[{some}]" in table for some in range(1, n)):
        notes.append(f"In square brackets: seeds that are finished, of {n}.")
    return " ".join(notes)


def _accuracies(compared: Compared, protocol: str) -> str:
    """Methods under a protocol, ours first, and floors, which are the same under either."""
    trained = [
        row
        for part in ("ours", "paper")
        for row in compared.entries
        if (row.part, row.protocol) == (part, protocol) and not is_baseline(row)
    ]
    body = [
        [row.name, whose(row), *(_accuracy(compared, row, d) for d in compared.datasets)]
        for row in (*trained, *floors(compared))
    ]
    return markdown_table(["", "recipe", *compared.datasets], body, texts=2)


def is_baseline(row: Entry) -> bool:
    """Whether nothing contrastive is trained."""
    return any(cell.is_baseline for cell in row.cells.values())


def floors(compared: Compared) -> list[Entry]:
    """Rows of floors, those of one method together."""
    rows = [row for row in compared.rows("floors", "ours") if is_baseline(row)]
    names = [row.name for row in compared.rows("floors")]
    return sorted(rows, key=lambda row: (names.index(row.name), row.part == "floors"))


def whose(row: Entry) -> str:
    """Of which recipe; most floors have none."""
    if row.part == "floors" and row.name not in SCORED_ALIKE:
        return ""
    return OURS if row.part == "ours" else PAPERS


def _accuracy(compared: Compared, row: Entry, dataset: str) -> str:
    found = compared.result(row, dataset)
    if found is None:
        return OPEN
    std = found.scores.std
    text = f"{found.scores.mean:.1f}" + ("" if std is None else f"{NBSP}±{NBSP}{std:.1f}")
    return text + so_far(compared, len(found.scores.seeds))


def so_far(compared: Compared, n_seeds: int) -> str:
    """How many seeds there are, where some are missing."""
    return "" if n_seeds == len(compared.results.seeds) else f" [{n_seeds}]"
