from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from benchmarks.published_loss import (
    Indicator,
    published_loss,
    same_class_at_once,
    same_class_by_loop,
)
from gcl_hard import contrastive_loss
from tests.reference import loops

INDICATORS = [same_class_by_loop, same_class_at_once]


def two_views(n: int, d: int, n_classes: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    z1, z2 = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    return z1.requires_grad_(), z2.requires_grad_(), torch.arange(n) % n_classes


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("indicator", INDICATORS)
def test_value_and_gradient_equal_ours(indicator: Indicator, beta: float) -> None:
    z1, z2, labels = two_views(32, 8, n_classes=5)  # classes of 6 and of 7
    ours = contrastive_loss("hscl", beta=beta, temperature=0.5, detach_weights=False)
    expected = ours(z1, z2, labels)
    got = published_loss(z1, z2, labels, beta=beta, indicator=indicator)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=0)
    for published, ours_ in zip(
        torch.autograd.grad(got, (z1, z2)), torch.autograd.grad(expected, (z1, z2)), strict=True
    ):
        torch.testing.assert_close(published, ours_, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("indicator", INDICATORS)
def test_value_equals_the_double_loop(indicator: Indicator, beta: float) -> None:
    z1, z2, labels = two_views(6, 4, n_classes=3)
    expected = loops.infonce_two_view(
        z1.tolist(), z2.tolist(), labels.tolist(), admit="other_labels", positives="class",
        eta=lambda t: math.exp(beta * t), gamma=0.5, reduction="pairs",
    )  # fmt: skip
    got = published_loss(z1, z2, labels, beta=beta, indicator=indicator)
    assert got.item() == pytest.approx(expected, rel=1e-5)


def test_indicators_mark_the_embeddings_of_a_class() -> None:
    expected = [[1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]]
    for indicator in INDICATORS:
        assert indicator(torch.tensor([4, 0, 4, 7])).tolist() == expected
