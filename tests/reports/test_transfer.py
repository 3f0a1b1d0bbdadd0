"""Differences of molecules' scores: which runs are paired, and what their intervals hold."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from gcl_hard.reports.transfer import Shown, differences
from gcl_hard.runs import record
from gcl_hard.settings.molecules import MoleculeConfig
from tests.said import says

Y = [0.0, 1.0] * 20


def result(row: str, seed: int, predictions: list[float], **settings: Any) -> Shown:
    """A finished run on a set of classes; a row that is no fingerprint's has an encoder's file."""
    representation, _, tuned = row.partition(", ")
    first, *joined = representation.split("+")
    fixed = first in ("ecfp", "wl", "counts")
    method = first if fixed else tuned or "untrained"
    file = {} if fixed or first == "untrained" else {"encoder": f"{first}.pt@0123"}
    config = MoleculeConfig(method=method, joined=tuple(joined), **file | settings)
    fold = record.Tested(np.arange(len(Y)), np.array(Y), np.array(predictions))
    test, predicted = record.Scored((fold,), ("auc",)).packed()
    found = record.RunResult(
        config.as_json(), seed, {"auc": [50.0]}, 0.0, 0.0, {"split": "scaffold"}, "", {}, "",
        domain="molecules", metric="auc", test=test, predicted=predicted,
    )  # fmt: skip
    return Shown(row, found)


def auc(wins: float) -> list[float]:
    """Predictions with this share of pairs in the right order."""
    high = round(20 * wins)  # of each class, in turn: the others are at the other end
    positives = [2.0] * high + [0.0] * (20 - high)
    return [one for positive in positives for one in (1.0, positive)]


def said(results: list[Shown], row: str, control: str) -> tuple[float, str]:
    cell = differences(results, "auc", against=control).loc[row, f"− “{control}”"]
    return float(cell.split(" ")[0]), cell


def test_rows_are_compared_on_the_seeds_that_both_have() -> None:
    untrained = [result("untrained", seed, auc(1.0 if seed == 0 else 0.3)) for seed in range(3)]
    other = [result("large", 0, auc(1.0))]
    difference, cell = said(untrained + other, "large", "untrained")
    assert difference == 0
    assert says(cell, "1 seed")


@pytest.mark.parametrize("row", ["ecfp", "counts+wl"])
def test_what_no_seed_changes_is_compared_with_all_seeds(row: str) -> None:
    trained = [result("own, scl", seed, auc(wins)) for seed, wins in enumerate((0.5, 0.7, 0.9))]
    fixed = [result(row, 0, auc(0.6))]
    difference, cell = said(trained + fixed, "own, scl", row)
    assert difference == pytest.approx(100 * (0.7 - 0.6), abs=0.05)
    assert says(cell, "3 seeds")
    difference, _ = said(trained + fixed, row, "own, scl")
    assert difference == pytest.approx(-10, abs=0.05)


def test_a_fingerprint_of_a_drawn_part_has_the_seed_of_its_draw() -> None:
    drawn = [result("ecfp", 0, auc(0.6), train_share=0.2)]
    trained = [result("own", seed, auc(wins), train_share=0.2) for seed, wins in ((0, 0.5), (1, 1))]
    difference, cell = said(trained + drawn, "own", "ecfp")
    assert difference == pytest.approx(-10, abs=0.05)
    assert says(cell, "1 seed")


def test_an_encoder_of_one_file_is_compared_with_all_seeds_of_its_own_finetuning_alone() -> None:
    frozen, wins = [result("own", 0, auc(0.5))], (0.5, 0.7, 0.9)
    tuned = [result("own, scl", seed, auc(one)) for seed, one in enumerate(wins)]
    untrained = [result("untrained", seed, auc(wins)) for seed, wins in ((0, 0.4), (1, 1.0))]
    assert said(frozen + tuned, "own, scl", "own")[0] == pytest.approx(20, abs=0.05)
    assert said(frozen + untrained, "own", "untrained")[0] == pytest.approx(10, abs=0.05)
    others = [
        result("own, scl", seed, auc(one), encoder=f"own.pt@{seed}")
        for seed, one in enumerate(wins)
    ]
    assert said(frozen + others, "own, scl", "own")[0] == 0


@pytest.mark.parametrize("row", ["untrained", "untrained, scl"])
def test_what_is_trained_with_one_seed_is_compared_on_that_seed_alone(row: str) -> None:
    one = [result(row, 0, auc(0.6))]
    tuned = [result("untrained, hscl", seed, auc(wins)) for seed, wins in enumerate((0.5, 0.9))]
    difference, cell = said(one + tuned, "untrained, hscl", row)
    assert difference == pytest.approx(-10, abs=0.05)
    assert says(cell, "1 seed")


def test_rows_without_a_seed_in_common_are_not_compared() -> None:
    mine = [result("own", 0, auc(0.5)), result("untrained", 1, auc(0.6))]
    assert differences(mine, "auc").empty


def test_sets_on_which_seeds_are_missing_keep_their_others() -> None:
    wins = {("BACE", 0): 0.5, ("BACE", 1): 0.7, ("BACE", 2): 0.9, ("BBBP", 0): 0.5,
            ("BBBP", 1): 0.6}  # fmt: skip
    own = [result("own", seed, auc(one), dataset=name) for (name, seed), one in wins.items()]
    control = [result("untrained", seed, auc(0.5), dataset=name)
               for name in ("BACE", "BBBP") for seed in range(3)]  # fmt: skip
    difference, cell = said(own + control, "own", "untrained")
    assert difference == pytest.approx((20 + 5) / 2, abs=0.05)
    assert says(cell, 2, "2–3 seeds")


def test_the_interval_of_a_trained_row_knows_that_seeds_differ() -> None:
    def width(wins: tuple[float, ...]) -> float:
        own = [result("own", seed, auc(one)) for seed, one in enumerate(wins)]
        cell = said([*own, result("ecfp", 0, auc(0.6))], "own", "ecfp")[1]
        low, high = re.findall(r"[+-][\d.]+", cell)[1:]
        return float(high) - float(low)

    alike, apart = width((0.7, 0.7, 0.7)), width((0.5, 0.7, 0.9))
    half_of_t = 4.303 * np.std([50, 70, 90], ddof=1) / np.sqrt(3)  # of seeds alone, t of 2 degrees
    assert alike < 40 < half_of_t < apart
