"""The page of results and the files beside it, of records made by hand."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

import pytest

from gcl_hard.errors import InputError
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.lines import lines
from gcl_hard.experiments.reporting.page import page, write
from gcl_hard.experiments.results import Results
from tests.experiments import record

COMMAND = "python -m gcl_hard.bench --table 2"
FOLDS = [[80.0, 90.0, 85.0], [70.0, 71.0, 78.0]]  # seeds' means 85 and 73: 79.0 ± 8.5


def cell(method: str = "hscl", **settings: object) -> GraphCell:
    return GraphCell(method=method, folds=3, **settings)  # type: ignore[arg-type]


def results(
    cells: Sequence[GraphCell],
    *,
    seeds: Sequence[int] = (0, 1),
    shift: Mapping[GraphCell, float] | None = None,
    select: bool = False,
    **changed: object,
) -> Results:
    """Every cell with the accuracies above, shifted by some points; two seeds asked for."""
    records = {
        Job(c, s, inner): record(
            c, s, [a + (shift or {}).get(c, 0.0) for a in FOLDS[s]], inner=inner, **changed
        )
        for c in cells for s in seeds for inner in (False, True)
    }  # fmt: skip
    return Results(cells, (0, 1), {j: r for j, r in records.items() if select or not j.inner},
                   select=select)  # fmt: skip


def text(found: Results, *, quick: bool = False, **figures: str) -> str:
    return page(found, command=COMMAND, quick=quick, figures=figures)


# The page


def test_a_quick_look_is_marked_first_and_only_it() -> None:
    found = results([cell("ucl", epochs=3)])
    first, second = text(found, quick=True).split("\n\n")[:2]
    assert first == "# Results"
    assert second.startswith("> **A quick look: 2 seeds, 3 epochs; not results.**")
    assert "## What this quick look shows" in text(found, quick=True)
    assert "quick look" not in text(found).casefold()


def test_the_page_counts_what_is_open_and_names_the_command() -> None:
    cells = [cell("ucl"), cell("scl")]
    whole = text(results(cells))
    assert "All 4 runs (a seed of a setting each) are finished, by this command:" in whole
    assert f"```bash\n{COMMAND}\n```" in whole
    some = results([*cells, cell("hscl")], seeds=(0,))
    assert "3 of 6 runs (a seed of a setting each) are open. This command finishes them" in text(
        some
    )


def test_a_page_of_nothing_says_so() -> None:
    found = text(results([cell("ucl")], seeds=()))
    assert "Nothing is finished yet." in found
    assert "| ucl | open |" in found
    assert "There are none yet." in found


@pytest.mark.parametrize(
    ("method", "protocol", "mark"),
    [
        ("hscl", "paper", "have seen the labels of the graphs they are tested on"),
        ("hscl", "inductive", "have seen the labels of that cross-validation"),
        ("hucl", "paper", None),
        ("hucl", "inductive", None),
    ],
)
def test_the_page_says_what_label_aware_encoders_have_seen(
    method: str, protocol: str, mark: str | None
) -> None:
    found = text(results([cell(method, protocol=protocol)]))
    assert f"## Protocol `{protocol}`" in found
    assert found.count("have seen the labels") == (mark is not None)
    assert mark is None or f"({method}) {mark}" in found.replace("**", "")


def test_every_table_is_whole_and_stands_alone() -> None:
    cells = [cell(m, beta=b, protocol="inductive") for m in ("ucl", "hscl") for b in (1.0, 10.0)]
    cells += [cell(m, dataset=d) for m in ("majority", "wl") for d in ("MUTAG", "PTC_MR")]
    found = text(results(list(dict.fromkeys(cells)), select=True))
    tables = [block for block in found.split("\n\n") if block.startswith("|")]
    assert len(tables) == 3  # accuracies, tests, choices
    for table in tables:
        assert len({row.count("|") for row in table.splitlines()}) == 1
    assert found.count("<details") == found.count("</details>") == found.count("<summary>") == 1
    assert "</summary>\n\n" in found
    assert "\n\n</details>" in found
    assert found.count("```") == 2


def test_only_figures_that_are_there_are_shown() -> None:
    shown = {"paper-accuracy": "r-paper-accuracy.svg", "inductive-beta": "r.svg"}
    found = text(results([cell("ucl")]), **shown)
    assert re.findall(r"!\[(.*?)\]\((.*?)\)", found) == [
        ("Mean accuracies with 95 % intervals, protocol paper", "r-paper-accuracy.svg")
    ]


def test_the_origin_is_that_of_the_records() -> None:
    found = results([cell("ucl"), cell("hscl")])
    one, *_ = found.records
    records = dict(found.records) | {
        one: record(one.cell, one.seed, [80.0] * 3, device="H200", finished="2026-03-04T00:00",
                    versions={"torch": "2.9", "source": "abc"})
    }  # fmt: skip
    origin = text(Results(found.cells, found.seeds, records)).split("come from\n\n")[1]
    assert "4 records, 2026-01-01 to 2026-03-04, made by 1 state of the source; 3 do not" in origin
    assert "- CPU; H200." in origin
    assert "- torch 2.8, 2.9." in origin
    assert "lr 0.01;" in origin
    assert "temperature" not in origin  # of JSD there is none


def test_findings_of_records_are_those_of_their_lines() -> None:
    ucl, far = cell("ucl"), cell("hucl")
    found = text(results([ucl, far, cell("majority")], shift={far: -40.0}))
    assert "of 1 comparison with ucl, 1 significant: MUTAG hucl β=1 -40.0 points." in found
    assert "not told apart: MUTAG (majority)." in found
    assert "MUTAG: majority (79.0) reaches or beats every trained method" in found


# Files


def test_everything_is_written_beside_the_page(tmp_path: Path) -> None:
    cells = [cell(m, beta=b) for m in ("ucl", "hucl", "scl") for b in (1.0, 2.0)]
    cells = [*dict.fromkeys(cells), *(cell(m, dataset="PTC_MR") for m in ("ucl", "hucl", "scl"))]
    found, path = results(cells), tmp_path / "docs" / "out.md"
    written = write(found, path, command=COMMAND, quick=False)
    assert [p.name for p in written] == [
        "out.md", "out.csv", "out.tex",
        "out-paper-accuracy.svg", "out-paper-ranks.svg", "out-paper-beta.svg",
    ]  # fmt: skip
    assert sorted(p.name for p in path.parent.iterdir()) == sorted(p.name for p in written)
    shown = path.read_text(encoding="utf-8")
    assert re.findall(r"\]\((.*?)\)", shown) == [p.name for p in written[3:]]
    rows = list(csv.DictReader(StringIO(written[1].read_text(encoding="utf-8"))))
    assert [float(r["mean"]) for r in rows] == [
        x.scores.mean for x in lines(found) if x.scores
    ] == [79.0] * len(rows)  # fmt: skip
    before = [p.read_bytes() for p in written]
    write(found, path, command=COMMAND, quick=False)
    assert [p.read_bytes() for p in written] == before


def test_a_quick_look_is_marked_in_latex_too(tmp_path: Path) -> None:
    for quick in (True, False):
        _, _, tex, *_ = write(
            results([cell("ucl")]), tmp_path / "q.md", command=COMMAND, quick=quick
        )
        assert tex.read_text(encoding="utf-8").startswith("% A quick look") is quick


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"cannot write .*file"):
        write(results([cell("ucl")]), tmp_path / "file" / "r.md", command=COMMAND, quick=False)
