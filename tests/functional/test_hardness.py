"""Mid-ranks against SciPy, also of scores that nearly agree."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm, rankdata

from gcl_hard.functional.hardness import jsd_hardness, mid_ranks


def numbers(*shape, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=dtype)


def test_mid_ranks_are_scipys_among_the_others():
    t = numbers(20, 30).mul(3).round()  # with ties
    others = numbers(20, 30) > -0.5
    ranks = mid_ranks(t, others)
    for row, among, row_ranks in zip(t, others, ranks, strict=True):
        expected = (rankdata(row[among]) - 0.5) / int(among.sum())
        np.testing.assert_allclose(row_ranks[among], expected, rtol=1e-12)
    scores = jsd_hardness(t, others, "rank").value
    np.testing.assert_allclose(scores[others], norm.ppf(ranks[others]), atol=1e-12)


def test_scores_that_differ_by_rounding_have_one_rank():
    t = torch.tensor([[1.0, 1.0 + 1e-12, 2.0, -1.0]], dtype=torch.float64)
    every = torch.ones(1, 4, dtype=torch.bool)
    assert mid_ranks(t, every).tolist() == [[0.5, 0.5, 0.875, 0.125]]


@pytest.mark.parametrize("outlier", [None, -300.0])
def test_dense_rows_of_single_precision_keep_their_order(outlier):
    """Neighbours nearer than rounding do not make one tie of a whole row."""
    t = 1 + 1e-3 * numbers(1, 512, dtype=torch.float32)
    if outlier is not None:
        t[0, 0] = 0.3 * outlier * 1e-1
    every = torch.ones(1, 512, dtype=torch.bool)
    single = jsd_hardness(t, every, "rank").value.double()
    double = jsd_hardness(t.double(), every, "rank").value
    assert (single - double).abs().max() < 0.5
    assert torch.corrcoef(torch.cat([single, double]))[0, 1] > 0.99


def test_ranks_do_not_fall():
    t = numbers(5, 200, dtype=torch.float32)
    ranks = mid_ranks(t, torch.ones_like(t, dtype=torch.bool))
    order = t.argsort(1)
    assert (ranks.gather(1, order).diff() >= 0).all()


def test_a_row_without_others_is_in_the_middle():
    t = numbers(1, 3)
    assert mid_ranks(t, torch.zeros(1, 3, dtype=torch.bool)).tolist() == [[0.5] * 3]
