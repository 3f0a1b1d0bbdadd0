"""The README's accuracies are those of the results page."""

from __future__ import annotations

import csv
from pathlib import Path

ROOT = Path(__file__).parents[1]
METHODS = ("ucl", "hucl", "scl", "hscl")
BASELINES = {
    "baseline: untrained, same encoder and SVM": ("ours", "untrained"),
    "baseline: WL-OA kernel": ("baselines", "wl-oa"),
}


def _rows_of(section: str) -> list[list[str]]:
    """The body of a results section's table, whose last column is "over sets"."""
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").replace("\u00a0", " ")
    text = page.partition(f"## {section}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    assert rows[0][-1].strip() == "over sets"
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_the_first_table_of_what_to_expect_is_that_of_the_results() -> None:
    part = (ROOT / "README.md").read_text(encoding="utf-8").partition("## What to expect\n")[2]
    lines = part[part.index("|") :].partition("\n\n")[0].splitlines()
    heads, _, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    with (ROOT / "docs" / "results.csv").open(encoding="utf-8", newline="") as file:
        found = {
            (row["part"], row["row"], row["dataset"]): row
            for row in csv.DictReader(file)
            if row["protocol"] == "inductive"
        }
    assert [row[0] for row in body] == [*METHODS, *BASELINES]
    for name, *cells in body:
        rows = [found[*BASELINES.get(name, ("ours", name)), dataset] for dataset in heads[1:]]
        assert cells == [f"{float(r['mean']):.1f} ± {float(r['std_seeds']):.1f}" for r in rows]
        assert {r["seeds"] for r in rows} == {"5"}


def test_the_mean_differences_are_those_of_the_results() -> None:
    part = (ROOT / "README.md").read_text(encoding="utf-8").partition("| over untrained |")[2]
    lines = part.partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    shown = {
        (name if "−" in name else f"{name} − untrained"): points
        for row in cells
        for name, points in zip(row[::2], row[1::2], strict=True)
        if name
    }
    over_sets = {row[1]: row[-1] for row in _rows_of("Paired differences")}
    assert len(shown) == 8
    assert shown == {name: over_sets[name] for name in shown}


def test_gains_over_the_papers_recipe_are_those_of_the_results() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    differences = {row[1]: row[-1] for row in _rows_of("Paired differences")}
    over = {method: differences[f"{method} − {method}, paper's"] for method in METHODS}
    means = {method: float(text.partition(" ")[0]) for method, text in over.items()}
    least, most = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    gains = f"{over[least]} ({least}) to {over[most]} points ({most})"
    assert f"ours gains {gains} over the paper's recipe." in readme
    ablations = _rows_of("Ablations: each part of the recipe off, and on")
    at = next(k for k, row in enumerate(ablations) if row[:2] == ["SVM", "off"])
    assert ablations[at + 1][1] == "on"
    assert f"the paper's hscl gains {ablations[at + 1][-1]}." in readme


def test_gains_by_the_search_are_those_of_its_page() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    page = (ROOT / "docs" / "recipe.md").read_text(encoding="utf-8").replace("\u00a0", " ")
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("|")]
    found = {row[1].strip().removesuffix(" *helping*"): row[-2:] for row in rows}
    for setting in ("kernel rbf+wl", "edge labels"):
        for gain in found[setting]:
            assert gain.strip() in readme
