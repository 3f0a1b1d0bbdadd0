"""Filtered ranks, against slow loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from gcl_hard.evaluation import (
    AnswerRanks,
    adjusted_mean_rank_index,
    filtered_ranks,
    hits,
    mean_reciprocal_rank,
)


def batch(seed: int, ties: bool) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(20, 30, generator=generator)
    scores = scores.round() if ties else scores
    answer = torch.randint(30, (20,), generator=generator)
    known = torch.rand(20, 30, generator=generator) < 0.2
    return scores, answer, known


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_ranks_are_those_of_a_slow_loop(seed: int, ties: bool) -> None:
    scores, answer, known = batch(seed, ties)
    ranks = filtered_ranks(scores, answer, known.nonzero(as_tuple=True))  # type: ignore[arg-type]
    for i in range(len(scores)):
        right_score = scores[i, answer[i]]
        rest = [
            scores[i, j] for j in range(30) if j != answer[i] and not known[i, j]
        ]  # without the right answers
        above, level = sum(s > right_score for s in rest), sum(s == right_score for s in rest)
        # the mean of the places that the tied ones share
        places = range(1 + int(above), 1 + int(above) + int(level) + 1)
        assert ranks.rank[i] == pytest.approx(sum(places) / len(places))
        assert ranks.candidates[i] == len(rest) + 1


def test_metrics_are_those_of_a_slow_loop() -> None:
    scores, answer, known = batch(5, ties=True)
    rows, columns = known.nonzero(as_tuple=True)
    answers = filtered_ranks(scores, answer, (rows, columns))
    ranks, numbers = answers.rank.tolist(), answers.candidates.tolist()
    assert mean_reciprocal_rank(answers) == pytest.approx(sum(1 / r for r in ranks) / 20)
    for k in (1, 3, 10):
        assert hits(answers, k) == pytest.approx(sum(r <= k for r in ranks) / 20)
    chance = sum((n + 1) / 2 - 1 for n in numbers)
    expected = 1 - sum(r - 1 for r in ranks) / chance
    assert adjusted_mean_rank_index(answers) == pytest.approx(expected)


def test_one_score_for_all_is_chance_and_nan_is_the_lowest() -> None:
    same = filtered_ranks(torch.zeros(4, 9), torch.arange(4))
    assert same.rank.tolist() == [5.0] * 4
    assert adjusted_mean_rank_index(same) == 0
    nan = torch.tensor([[math.nan, 1.0, 2.0]])
    assert filtered_ranks(nan, torch.tensor([0])).rank == 3
    perfect = filtered_ranks(torch.eye(3), torch.arange(3))
    assert adjusted_mean_rank_index(perfect) == 1


def test_batches_join() -> None:
    scores, answer, _ = batch(1, ties=False)
    parts = [filtered_ranks(scores[i : i + 7], answer[i : i + 7]) for i in range(0, 20, 7)]
    assert torch.equal(AnswerRanks.joined(parts).rank, filtered_ranks(scores, answer).rank)
