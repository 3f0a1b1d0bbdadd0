"""Rankings by cosine, against a slow loop and pytorch-metric-learning."""

from __future__ import annotations

import numpy as np
import pytest

from gcl_hard.errors import InputError
from gcl_hard.evaluation import Retrieval, retrieve
from gcl_hard.evaluation import retrieval as module
from gcl_hard.evaluation.metrics import alike, metric
from gcl_hard.experiments import record

KINDS = ["random", "duplicates", "whole numbers", "unequal classes", "collapsed"]


def problem(kind: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(seed)
    n = 150
    y = draws.integers(12, size=n)
    if kind == "unequal classes":
        y = np.where(np.arange(n) < 90, 99, np.arange(n) // 2)
    y[:2] = 1000, 1001  # alone in their class
    z = draws.normal(size=(n, 5)) + 0.5 * draws.normal(size=(1100, 5))[y]
    if kind == "duplicates":
        z[70:] = 2 * z[:80]
        z[5:8] = 0
    if kind == "whole numbers":
        z = draws.integers(-1, 2, size=(n, 4)).astype(float)
    if kind == "collapsed":
        z = np.ones((n, 3)) / 3
    return z, y


def slow(z: np.ndarray, y: np.ndarray, largest: int = 8) -> list[tuple[int, float, float, int]]:
    """Id, rank, AP@R and tied items of each query, by Python's stable sort."""
    rows = []
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i]
        norms = [np.linalg.norm(z[i]) * np.linalg.norm(z[j]) for j in others]
        cosines = [round(z[i] @ z[j] / (c or 1), 9) for j, c in zip(others, norms, strict=True)]
        order = sorted(range(len(others)), key=lambda k: -cosines[k])
        n_relevant = sum(y[j] == y[i] for j in others)
        if not n_relevant:
            continue
        rank, hits, total = np.inf, 0, 0.0
        depth = max(n_relevant, largest)
        for place, k in enumerate(order[:depth], start=1):
            if y[others[k]] == y[i]:
                rank, hits = min(rank, place), hits + 1
                total += hits / place if place <= n_relevant else 0
        tied = sum(cosines.count(cosines[k]) > 1 for k in order[:depth])
        rows.append((i, rank, total / n_relevant, tied))
    return rows


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [2**25, 2000])
def test_ranks_are_those_of_a_slow_loop(
    kind: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    monkeypatch.setattr(module, "PART", block // 4)
    z, y = problem(kind)
    ranked = retrieve(z, y)
    ids, ranks, precisions, tied = map(np.array, zip(*slow(z, y), strict=True))
    assert np.array_equal(ranked.ids, ids)
    assert np.array_equal(ranked.rank, ranks)
    assert np.allclose(ranked.average_precision, precisions, rtol=0, atol=1e-12)
    assert np.array_equal(ranked.n_tied, tied)
    assert ranked.n_alone == len(z) - len(ids) == 2
    for k in (1, 2, 4, 8):
        assert ranked.recall(k) == pytest.approx(np.mean([rank <= k for rank in ranks]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["random", "unequal classes"])
def test_recall_and_map_are_those_of_pytorch_metric_learning(kind: str, dtype: type) -> None:
    accuracy = pytest.importorskip("pytorch_metric_learning.utils.accuracy_calculator")
    pytest.importorskip("faiss")
    z, y = problem(kind)
    units = (z / np.linalg.norm(z, axis=1, keepdims=True)).astype(np.float32)
    expected = accuracy.AccuracyCalculator(
        include=("precision_at_1", "mean_average_precision_at_r"), k="max_bin_count"
    ).get_accuracy(units, y)
    ranked = retrieve(z.astype(dtype), y)
    assert ranked.recall(1) == pytest.approx(expected["precision_at_1"], abs=1e-9)
    assert ranked.map_at_r == pytest.approx(expected["mean_average_precision_at_r"], abs=1e-9)


def test_scores_are_computed_from_a_record() -> None:
    z, y = problem("random")
    test = np.arange(500, 500 + len(z))  # ids in the whole set
    ranked = retrieve(z, y)
    scored = record.Scored((record.Tested(test[ranked.ids], ranked.targets, ranked.predicted),))
    names = alike("map_at_r")
    assert names == ["map_at_r", *(f"recall_{k}" for k in (1, 2, 4, 8))]
    scores = scored.scores(names)
    assert scores["map_at_r"] == [pytest.approx(100 * ranked.map_at_r, abs=1e-5)]
    assert [scores[f"recall_{k}"] for k in (1, 2, 4, 8)] == [
        [pytest.approx(100 * ranked.recall(k))] for k in (1, 2, 4, 8)
    ]
    values = metric("map_at_r").each
    assert values is not None
    assert values(ranked.targets, ranked.predicted).mean() == pytest.approx(100 * ranked.map_at_r)


@pytest.mark.parametrize(
    ("z", "y", "ks"),
    [
        (np.eye(8), [0, 1] * 4, (1, 8)),  # nine items are needed
        (np.eye(8), range(8), (1,)),  # nothing to find
        (np.eye(8), [0, 1] * 4, (0, 1)),
        (np.full((8, 2), np.nan), [0, 1] * 4, (1,)),
        (np.eye(8), [0, 1] * 3, (1,)),
    ],
)
def test_what_cannot_be_ranked_is_refused(z: np.ndarray, y: list[int], ks: tuple[int]) -> None:
    with pytest.raises(InputError):
        retrieve(z, y, ks=ks)


def test_recall_beyond_what_was_ranked_is_refused() -> None:
    ranked: Retrieval = retrieve(*problem("random"), ks=(1, 3))
    with pytest.raises(InputError):
        ranked.recall(4)
