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
