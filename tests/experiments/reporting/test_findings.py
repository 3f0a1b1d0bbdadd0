"""Sentences about the numbers stand exactly where the lines say so."""

from __future__ import annotations

import pytest

from gcl_hard.experiments.lines import Comparison, Kind, Line
from gcl_hard.experiments.reporting.findings import findings
from gcl_hard.experiments.results import Scores
from tests.experiments.reporting import LABEL_AWARE


def line(
    method: str, mean: float | None, kind: Kind = "fixed", *, dataset: str = "MUTAG",
    protocol: str = "paper", ucl: tuple[float, float] | None = None, n: int = 5, **rest: object,
) -> Line:  # fmt: skip
    """Of n seeds; ``ucl``: difference and p."""
    scores = None if mean is None else Scores(tuple(range(n)), ((mean, mean),) * n)
    tests = {"ucl": Comparison("ucl", n, *ucl, None)} if ucl else {}
    values = {"setting": "", "expected": 5, "tests": tests, **rest}
    values["reads_labels"] = method in LABEL_AWARE
    return Line(dataset, method, protocol, kind, scores=scores, **values)  # type: ignore[arg-type]


def said(mark: str, *found: Line) -> str:
    """The one finding that begins with a mark; empty without."""
    own = [f.removeprefix("- ") for f in findings(found) if f.startswith(f"- **{mark}")]
    assert len(own) < 2
    return own[0] if own else ""


def test_nothing_is_found_where_nothing_is_finished() -> None:
    assert findings([line("ucl", None)]) == []


def test_one_sentence_says_it_all() -> None:
    level, far = line("scl", 81.0, ucl=(1.0, 0.05)), line("hucl", 76.0, ucl=(-4.0, 0.049))
    assert said("In short", line("ucl", 80.0)) == ""
    assert said("In short", line("wl", 90.0, "floor", ucl=(10.0, 0.001))) == ""
    assert said("In short", level) == (
        "**In short:** of 1 comparison of trained methods with ucl and scl so far, none shows a "
        "significant difference."
    )
    untrained = line("untrained", 79.0, "floor", ucl=(-1.0, 0.7))
    worse = line("untrained", 40.0, "floor", ucl=(-40.0, 0.01), dataset="PTC_MR")
    best = [line("hucl", 80.0, "best", optimism=o) for o in (1.0, 2.0)]
    assert said("In short", level, far, untrained, worse, *best) == (
        "**In short:** of 2 comparisons of trained methods with ucl and scl so far, 0 show a "
        "method significantly above and 1 one significantly below; an untrained encoder is not "
        "told apart from ucl in 1 of 2 cases (a data set under a protocol); the best setting on "
        "the test folds lies +1.5 points above what was chosen inside the training folds, on "
        "average."
    )


def test_finished_counts_pairs_of_data_set_and_method() -> None:
    shown = [
        line("ucl", 80.0), line("scl", 80.0, n=3), line("hscl", None),
        line("hucl", 80.0, setting="β=1"), line("hucl", None, setting="β=2"),
        line("hucl", 80.0, "best"),
    ]  # fmt: skip
    assert said("Finished", *shown) == (
        "**Finished, `paper`:** 1 of 4 pairs of data set and method; 2 more in part, 1 not begun."
    )


def test_significant_differences_of_trained_methods_are_named() -> None:
    level = line("scl", 81.0, ucl=(1.0, 0.05))
    found = said("Trained", level)
    assert found == "**Trained methods, `paper`:** of 1 comparison with ucl, none significant."
    far = line("hucl", 76.0, ucl=(-4.0, 0.049), setting="β=2")
    floor = line("majority", 50.0, "floor", ucl=(-30.0, 0.0))
    assert "of 2 comparisons with ucl, 1 significant: MUTAG hucl β=2 -4.0 points." in said(
        "Trained", level, far, floor
    )
    assert said("Trained", line("ucl", 80.0), floor) == ""


def test_floors_are_below_above_or_level_with_ucl() -> None:
    below = line("majority", 50.0, "floor", ucl=(-30.0, 0.001))
    above = line("wl", 90.0, "floor", ucl=(10.0, 0.001))
    level = line("wl-oa", 81.0, "floor", ucl=(1.0, 0.5), dataset="PTC_MR")
    assert said("Floors and ucl", below, above, level, line("scl", 1.0, ucl=(1.0, 0.5))) == (
        "**Floors and ucl, `paper`:** of 3 comparisons, 1 significantly below ucl; significantly "
        "above: MUTAG (wl); not told apart: PTC_MR (wl-oa)."
    )
    assert "above: none; not told apart: none." in said("Floors and ucl", below)
    assert said("Floors and ucl", line("ucl", 80.0)) == ""


def test_floors_that_reach_the_best_trained_method_are_named() -> None:
    shown = [line("ucl", 80.0), line("hucl", 99.0, "best"), line("scl", 82.0)]
    under = said("Floors and the", *shown, line("wl", 81.9, "floor"), line("majority", 1, "floor"))
    assert under.endswith(
        "\n    - MUTAG: no floor reaches the best trained method, scl (82.0); the nearest is wl "
        "(81.9)."
    )
    reach = said("Floors and the", *shown, line("wl", 82.0, "floor"))
    assert "MUTAG: wl (82.0) reaches or beats every trained method; their best is scl" in reach
    both = said("Floors and the", *shown, line("wl", 82.0, "floor"), line("wl-oa", 83.0, "floor"))
    assert "MUTAG: wl-oa (83.0), wl (82.0) reach or beat every" in both
    partly = [line("hscl", 99.0, n=4), line("wl", 83.0, "floor", n=4), line("wl-oa", 70, "floor")]
    assert "scl (82.0); the nearest is wl-oa (70.0)" in said("Floors and the", *shown, *partly)
    assert said("Floors and the", *shown) == ""
    assert said("Floors and the", line("wl", 80.0, "floor")) == ""


def test_protocols_are_compared_on_the_seeds_and_settings_of_both() -> None:
    folds = ((80.0, 80.0), (82.0, 82.0), (99.0, 99.0))  # the third seed is paper's alone
    paper = [line(m, 0.0) for m in ("scl", "ucl")]
    paper = [Line(**{**vars(x), "scores": Scores((0, 1, 2), folds)}) for x in paper]
    inductive = [line("scl", 78.0, n=2, protocol="inductive"),
                 line("ucl", 80.5, n=2, protocol="inductive")]  # fmt: skip
    other = [line("hscl", 90.0, setting="β=1"),
             line("hscl", 10.0, setting="β=2", protocol="inductive"),
             line("scl", 90.0, dataset="PTC_MR"),
             line("hucl", 90.0, "best"), line("hucl", 10.0, "best", protocol="inductive"),
             line("wl", 90.0, "floor"),
             line("wl", 10.0, "floor", protocol="inductive")]  # fmt: skip
    found = said("`paper` less", *paper, *inductive, *other)
    assert "label-aware methods +3.0 (MUTAG +3.0); label-free methods +0.5 (MUTAG +0.5)." in found
    assert "label-aware" not in said("`paper` less", paper[1], inductive[1]).split(".")[0]
    assert said("`paper` less", *paper, *other) == ""


def test_optimism_and_gaps_are_listed() -> None:
    best = line("hucl", 84.0, "best", optimism=1.26, paper=85.0)
    found = [best, line("ucl", 82.0, paper=80.0), line("scl", None, paper=80.0)]
    assert (
        said("Best on test", *found)
        == "**Best on test less chosen inside**, points: MUTAG hucl +1.3."
    )
    assert said("Ours less", *found) == (
        "**Ours less the paper's figures:** +0.5 points on average, from -1.0 (MUTAG hucl) to "
        "+2.0 (MUTAG ucl); 1 of 2 are not below the paper's."
    )
    assert said("Best on test", line("ucl", 82.0)) == said("Ours less", line("ucl", 82.0)) == ""


@pytest.mark.parametrize(
    ("n", "expected"), [(2, "2 seeds its p is at least 0.5 "), (5, "at least 0.0625 "), (6, "")]
)
def test_few_seeds_cannot_be_decided_by_wilcoxon(n: int, expected: str) -> None:
    found = said("Wilcoxon", line("scl", 80.0, ucl=(1.0, 0.5), n=n))
    assert expected in found
    assert bool(found) == (n < 6) == ("takes 6 seeds to get below 0.05" in found)
    assert said("Wilcoxon", line("scl", 80.0, n=n)) == ""


def test_more_comparisons_need_more_seeds_for_wilcoxon() -> None:
    family = [line("hscl", 80.0, setting=f"β={b}", ucl=(1.0, 0.5), n=6) for b in range(13)]
    assert said("Wilcoxon", *family).endswith(
        "among 13 comparisons with one control it takes 10 seeds to get below 0.05."
    )
