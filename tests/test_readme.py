"""The README's accuracies are those of the results page."""

from __future__ import annotations

import csv
from pathlib import Path

ROOT = Path(__file__).parents[1]
FLOORS = {
    "floor: untrained, same encoder and SVM": ("ours", "untrained"),
    "floor: WL-OA kernel": ("floors", "wl-oa"),
}


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
    assert [row[0] for row in body] == ["ucl", "hucl", "scl", "hscl", *FLOORS]
    for name, *cells in body:
        rows = [found[*FLOORS.get(name, ("ours", name)), dataset] for dataset in heads[1:]]
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
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").replace("\u00a0", " ")
    table = page.partition("## Paired differences")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    assert rows[0][-1].strip() == "over sets"
    over_sets = {row[1].strip(): row[-1].strip() for row in rows[2:]}
    assert len(shown) == 8
    assert shown == {name: over_sets[name] for name in shown}


def test_gains_by_the_search_are_those_of_its_page() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    page = (ROOT / "docs" / "recipe.md").read_text(encoding="utf-8").replace("\u00a0", " ")
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("|")]
    found = {row[1].strip().removesuffix(" *helping*"): row[-2:] for row in rows}
    for setting in ("kernel rbf+wl", "edge labels"):
        for gain in found[setting]:
            assert gain.strip() in readme
