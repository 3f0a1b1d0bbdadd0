"""Layers of members against PyTorch's own, member by member on repeated rows."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gcl_hard.graphs.data import GraphSet
from gcl_hard.graphs.layers import Counts, Sums, add_rows, linear, relu_norm
from gcl_hard.graphs.refinement import ColouredSet
from gcl_hard.graphs.tudataset import load_graphs

MEMBERS, ROWS, WIDTH = 3, 6, 4


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    return load_graphs("MUTAG")


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_linear_is_every_members_own_layer(shared, bias):
    x = random(1 if shared else MEMBERS, ROWS, WIDTH).requires_grad_()
    weight = random(MEMBERS, 5, WIDTH, seed=1).requires_grad_()
    offset = random(MEMBERS, 5, seed=2).requires_grad_() if bias else None
    got = linear(x, weight, offset)
    each = [
        F.linear(x[0 if shared else p], weight[p], None if offset is None else offset[p])
        for p in range(MEMBERS)
    ]
    torch.testing.assert_close(got, torch.stack(each), rtol=1e-14, atol=1e-14)
    above = random(MEMBERS, ROWS, 5, seed=3)
    inputs = [part for part in (x, weight, offset) if part is not None]
    ours = torch.autograd.grad(got, inputs, above)
    theirs = torch.autograd.grad(torch.stack(each), inputs, above)
    for gradient, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-13, atol=1e-13)


def sums(seed=0):
    """A small matrix with empty rows and columns."""
    dense = torch.tensor([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 0], [1, 1, 0, 1], [0, 1, 0, 0]])
    dense = dense.double()
    return Sums(dense.to_sparse_csr(), dense.T.contiguous().to_sparse_csr()), dense


def test_add_rows_is_the_dense_product_forward_and_backward():
    table, dense = sums()
    x = random(MEMBERS, 4, 2).requires_grad_()
    got = add_rows(table, x)
    assert got.is_contiguous()
    torch.testing.assert_close(got, dense @ x, rtol=1e-15, atol=1e-15)
    above = random(MEMBERS, 5, 2, seed=1)
    (to_x,) = torch.autograd.grad(got, x, above)
    torch.testing.assert_close(to_x, dense.T @ above, rtol=1e-15, atol=1e-15)
    assert torch.autograd.gradcheck(lambda x: add_rows(table, x), (x,))


def test_a_member_of_a_sum_does_not_see_the_others(mutag):
    index = torch.randperm(188, generator=torch.Generator().manual_seed(0))[:50]
    batch = ColouredSet(mutag, 2).batch(index)
    for table in (*batch.sums, batch.readout):
        x = random(5, table.forward.shape[1], 32, dtype=torch.float32)
        x[3] = torch.nan
        got = add_rows(table, x)
        for p in (0, 1, 2, 4):
            assert torch.equal(got[p], add_rows(table, x[p : p + 1])[0])
        assert got[3].isnan().all()


def parameters(dtype=torch.float64):
    return 1 + 0.3 * random(MEMBERS, WIDTH, seed=5, dtype=dtype), random(
        MEMBERS, WIDTH, seed=6, dtype=dtype
    )


COUNT = torch.tensor([[1, 2, 3, 1, 5, 1], [4, 0, 1, 0, 2, 2], [0, 1, 1, 0, 0, 0]])


def norm_of(member, weight, bias, momentum, eps):
    norm = nn.BatchNorm1d(WIDTH, eps=eps, momentum=momentum).to(weight.dtype)
    with torch.no_grad():
        norm.weight.copy_(weight[member])
        norm.bias.copy_(bias[member])
    return norm


@pytest.mark.parametrize("shared", [False, True], ids=["own counts", "one count for all"])
def test_norm_is_that_of_repeated_rows(shared):
    """Value, gradient, and what running statistics move by; ReLU comes before it."""
    count = COUNT[:1] if shared else COUNT
    x, (weight, bias) = random(MEMBERS, ROWS, WIDTH), parameters()
    garbage = (count == 0)[..., None].expand_as(x) if not shared else torch.zeros_like(x) > 0
    x = torch.where(garbage, 1e60 * x, x)
    leaves = [part.clone().requires_grad_() for part in (x, weight, bias)]
    eps, momentum = 1e-5, 0.1
    counts = Counts(count.double())
    y, mean, variance = relu_norm(leaves[0], counts, leaves[1], leaves[2], eps)
    assert not mean.requires_grad
    assert not variance.requires_grad
    goal = random(MEMBERS, ROWS, WIDTH, seed=7)
    weights = count.double()[..., None].expand_as(y)
    lost = torch.where(weights > 0, weights * (y * goal).sin(), 0.0).sum((1, 2))
    ours = torch.autograd.grad(lost.sum(), leaves)
    for p in range(MEMBERS):
        times = count[0 if shared else p]
        norm = norm_of(p, weight, bias, momentum, eps)
        rows = x[p].clone().requires_grad_()
        repeated = norm(rows.relu().repeat_interleave(times, 0))
        seen = (times > 0).repeat_interleave(times)
        expected = y[p].repeat_interleave(times, 0)
        torch.testing.assert_close(repeated[seen], expected, rtol=1e-11, atol=1e-11)
        loss = (repeated * goal[p].repeat_interleave(times, 0)).sin().sum()
        theirs = torch.autograd.grad(loss, (rows, norm.weight, norm.bias))
        for gradient, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(gradient[p], other, rtol=1e-10, atol=1e-11)
        total = counts.total[0 if shared else p, 0]
        assert total == times.sum()
        moved = torch.zeros(WIDTH, dtype=torch.float64).lerp(mean[p], momentum)
        torch.testing.assert_close(moved, norm.running_mean, rtol=1e-12, atol=1e-13)
        unbiased = variance[p] * (total / (total - 1))
        moved = torch.ones(WIDTH, dtype=torch.float64).lerp(unbiased, momentum)
        torch.testing.assert_close(moved, norm.running_var, rtol=1e-12, atol=1e-13)


def test_rows_that_occur_never_are_in_nothing():
    """Bit for bit, in single precision, whatever finite numbers they hold."""
    weight, bias = parameters(torch.float32)
    counts = Counts(COUNT.float())
    results = []
    for size in (1.0, 1e15):
        x = random(MEMBERS, ROWS, WIDTH, dtype=torch.float32)
        x = torch.where((COUNT == 0)[..., None], size * x.abs(), x).requires_grad_()
        y, mean, variance = relu_norm(x, counts, weight, bias, 1e-5)
        (to_x,) = torch.autograd.grad((y * COUNT[..., None]).sin().sum(), x)
        present = COUNT > 0
        assert torch.count_nonzero(to_x[~present]) == 0
        results.append((y[present], mean, variance, to_x[present]))
    for clean, other in zip(*results, strict=True):
        assert torch.equal(clean, other)


def test_dead_columns_are_safe():
    """A column that ReLU empties has variance 0."""
    x = -random(MEMBERS, ROWS, WIDTH).abs()
    x.requires_grad_()
    weight, bias = parameters()
    y, mean, variance = relu_norm(x, Counts(COUNT.double()), weight, bias, 1e-5)
    assert torch.equal(y, bias[:, None].expand_as(y))
    assert mean.abs().max() == variance.abs().max() == 0
    (to_x,) = torch.autograd.grad(y.sum(), x)
    assert torch.count_nonzero(to_x) == 0
