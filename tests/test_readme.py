"""The README's accuracies and differences are those of the results page."""

from __future__ import annotations

import csv
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
METHODS = ("ucl", "hucl", "scl", "hscl")
BASELINES = {
    "baseline: untrained, same encoder and SVM": "untrained",
    "baseline: WL-OA kernel": "wl-oa",
}


def differences() -> dict[str, str]:
    """Mean differences over data sets by pair of rows, from the results page."""
    page = (
        (ROOT / "docs" / "research" / "results.md")
        .read_text(encoding="utf-8")
        .replace("\u00a0", " ")
    )
    text = page.partition("## Paired differences\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    heads, _, *rows = [[cell.strip() for cell in line] for line in lines]
    assert heads[-1] == "over sets"
    return {row[1]: row[-1] for row in rows}


def test_the_table_of_what_to_expect_is_that_of_the_results() -> None:
    part = (ROOT / "README.md").read_text(encoding="utf-8").partition("## What to expect\n")[2]
    lines = part[part.index("|") :].partition("\n\n")[0].splitlines()
    heads, _, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    with (ROOT / "benchmarks/results/recipe.csv").open(encoding="utf-8", newline="") as file:
        inductive = [row for row in csv.DictReader(file) if row["protocol"] == "inductive"]
    results: dict[tuple[str, str], dict[str, str]] = {}
    for row in inductive:  # our recipe; a baseline without settings of ours is the paper's
        if row["part"] == "ours" or row["row"] == "wl-oa":
            results[row["row"], row["dataset"]] = row
    assert [row[0] for row in body] == [*METHODS, *BASELINES]
    for name, *cells in body:
        rows = [results[BASELINES.get(name, name), dataset] for dataset in heads[1:]]
        assert cells == [f"{float(r['mean']):.1f} ± {float(r['std_seeds']):.1f}" for r in rows]
        assert {r["seeds"] for r in rows} == {"5"}


def test_differences_are_those_of_the_results() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    over = {pair: re.escape(difference) for pair, difference in differences().items()}
    between = r"[^\]]*"  # no other interval
    untrained, scl = over["hscl − untrained"], over["hscl − scl"]
    compared = "hscl", untrained, "untrained", scl, "scl"
    assert re.search(between.join(compared), readme)
    assert re.search(between.join((over["hscl − hscl, paper's"], "hscl", "paper's")), readme)


def test_every_interval_is_on_a_page_of_research() -> None:
    quoted = re.findall(r"\[[^\]]*\d,\s[^\]]*\d\](?!\()", (ROOT / "README.md").read_text("utf-8"))
    quoted = [" ".join(interval.split()) for interval in quoted if re.match(r"\[[+-]?\d", interval)]
    pages = [page.read_text("utf-8") for page in (ROOT / "docs" / "research").glob("*.md")]
    text = "".join(pages).replace("\u00a0", " ").replace("−", "-")
    assert len(quoted) > 5
    assert [interval for interval in quoted if interval not in text] == []
