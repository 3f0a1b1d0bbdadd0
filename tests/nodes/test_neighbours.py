"""Tests of batches of nodes with drawn neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.transforms import AddSelfLoops

from gcl_hard import InputError
from gcl_hard.nodes import (
    GCN,
    GraphSAGE,
    Neighbourhoods,
    NodeBatch,
    NodeContrast,
    NodeViews,
    embed_nodes,
)
from gcl_hard.nodes.models import encode_nodes
from gcl_hard.nodes.views import transformed_by
from tests.nodes.test_models import as_sparse, graph
from tests.said import says


def named(batch: NodeBatch, whole: NodeBatch) -> list[int]:
    """Which nodes of a graph with distinct rows of features a batch has."""
    rows = {tuple(row): v for v, row in enumerate(whole.x.tolist())}
    x = batch.x if batch.x.layout == torch.strided else batch.x.to_dense()
    return [rows[tuple(row)] for row in x.tolist()]


@pytest.mark.parametrize("sparse", [False, True])
def test_every_node_comes_once_an_epoch_with_edges_of_the_graph(sparse: bool) -> None:
    whole = graph(50, weights=True)
    source = whole._replace(x=as_sparse(whole.x)) if sparse else whole
    assert whole.edge_weight is not None
    weight = {
        tuple(e): float(w)
        for e, w in zip(whole.edge_index.T.tolist(), whole.edge_weight, strict=True)
    }
    seen: list[int] = []
    drawn = Neighbourhoods(source, (3, 2))
    for batch in drawn.batches(8, seed=1)(1):
        names = named(batch, whole)
        assert batch.seeds is not None
        assert len(set(names)) == len(names)
        assert batch.y is not None
        assert whole.y is not None
        assert batch.y.equal(whole.y[names])
        seen += names[: batch.seeds]
        assert batch.edge_weight is not None
        for (a, b), w in zip(batch.edge_index.T.tolist(), batch.edge_weight.tolist(), strict=True):
            assert weight[names[a], names[b]] == w
        degree = torch.bincount(batch.edge_index[1], minlength=len(names))
        full = torch.bincount(whole.edge_index[1], minlength=50)[names]
        assert degree[: batch.seeds].equal(full[: batch.seeds].clamp(max=3))
        assert bool((degree[batch.seeds :] <= 2).all())
    assert sorted(seen) == list(range(50))


@pytest.fixture
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("encoder", [GCN, GraphSAGE])
def test_with_all_neighbours_drawn_nodes_are_those_of_the_whole_graph(
    encoder: Any, layers: int, weights: bool, float64: None
) -> None:
    whole = sparse_graph(60, weights=weights)
    torch.manual_seed(0)
    model = encoder(6, dim=4, layers=layers).eval()
    z = model(whole.x, whole.edge_index, whole.edge_weight)
    for batch in Neighbourhoods(whole, (60,) * layers).batches(7)(1):
        assert batch.num_nodes < 60 or layers > 1
        names = named(batch, whole)[: batch.seeds]
        of_batch = model(batch.x, batch.edge_index, batch.edge_weight, batch.degrees)
        off = (of_batch[: batch.seeds] - z[names]).detach().abs().max()
        assert float(off) < 1e-12 * float(z.detach().abs().max())


def sparse_graph(n: int, *, weights: bool = False, seed: int = 0) -> NodeBatch:
    """A graph of some n nodes with few neighbours each, in the type that is the default."""
    draws = torch.Generator().manual_seed(seed)
    upper = (torch.rand(n, n, generator=draws) < 4 / n).triu(1)
    edges = (upper | upper.T).nonzero().T.contiguous()
    weight = torch.rand(edges.shape[1], generator=draws) + 0.1 if weights else None
    return NodeBatch(torch.randn(n, 6, generator=draws), edges, weight, torch.arange(n) % 3)


class Permutations:
    """In place of a random generator: all orders of the edges of one draw, each once."""

    def __init__(self, n: int) -> None:
        self.orders = permutations(range(n))

    def random(self, n: int) -> Any:
        order = next(self.orders)
        assert len(order) == n
        return np.array(order, dtype=float)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("encoder", [GCN, GraphSAGE])
def test_the_sum_of_a_layer_is_unbiased_over_all_draws(
    encoder: Any, weights: bool, float64: None
) -> None:
    whole = sparse_graph(30, weights=weights)
    degree = torch.bincount(whole.edge_index[1])
    node = int((degree == 5).nonzero()[0])
    torch.manual_seed(0)
    model = encoder(6, dim=4, layers=1).eval()
    model.activations[0] = torch.nn.Identity()
    full = model(whole.x, whole.edge_index, whole.edge_weight)[node]
    parts, orders, sums = Neighbourhoods(whole, (2,)), Permutations(5), []
    for _ in range(math.factorial(5)):
        batch = parts.around(np.array([node]), cast("np.random.Generator", orders))
        sums.append(model(batch.x, batch.edge_index, batch.edge_weight, batch.degrees)[0])
    off = (torch.stack(sums) - full).detach()
    assert float(off.norm(dim=1).min()) > 1e-3
    assert float(off.mean(0).abs().max()) < 1e-12 * float(full.detach().abs().max())


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("size", [2, 60])
@pytest.mark.parametrize("encoder", [GCN, GraphSAGE])
def test_views_of_parts_have_the_row_sums_of_views_of_the_graph(
    encoder: Any, size: int, weights: bool, adaptive: bool
) -> None:
    # An encoder that returns the row sums of what it multiplies by, as its features are all 1.
    whole = sparse_graph(400, weights=weights)._replace(x=torch.ones(400, 1))
    model = encoder(1, dim=1, layers=1).eval()
    model.activations[0] = torch.nn.Identity()
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    torch.nn.init.ones_(next(p for p in model.parameters() if p.dim() == 2))
    views, generator = NodeViews(0.5, 0.0, adaptive=adaptive), torch.Generator().manual_seed(0)

    def mean_row_sum(batch: NodeBatch) -> float:
        view = views(batch, generator)
        sums = encode_nodes(model, view, 1)[: batch.seeds]
        return float(sums.detach().mean())

    full = np.mean([mean_row_sum(whole) for _ in range(25)])
    parts = Neighbourhoods(whole, (size,)).batches(200)
    of_parts = np.mean([mean_row_sum(batch) for epoch in range(25) for batch in parts(epoch)])
    assert of_parts == pytest.approx(full, rel=0.02)


def test_adaptive_views_of_parts_drop_and_mask_by_the_whole_graph() -> None:
    whole = graph(50)
    whole = whole._replace(x=(whole.x > 0.5).float() * torch.arange(1, 51)[:, None])
    degree = torch.bincount(whole.edge_index[1], minlength=50)
    scores = torch.log1p(degree.float())[whole.edge_index[1]]
    # GCA, Eq. 5: of the whole graph's edges, in loops over the draws of many views
    wanted = (0.4 * (scores.max() - scores) / (scores.max() - scores.mean())).clamp(max=0.7)
    rate = {int(v): float(p) for v, p in zip(whole.edge_index[1], wanted, strict=True)}
    batch = Neighbourhoods(whole, (50,)).around(np.arange(6), np.random.default_rng(0))
    generator = torch.Generator().manual_seed(0)
    views, kept = NodeViews(0.4, 0.0, adaptive=True), torch.zeros(6)
    for _ in range(800):
        view = views(batch, generator)
        kept += torch.bincount(view.edge_index[1], minlength=6)[:6]
    shares = (kept / 800 / degree[:6]).tolist()
    assert shares == pytest.approx([1 - rate[v] for v in range(6)], abs=0.04)
    columns = torch.log1p((whole.x != 0).float().T @ degree.float())
    mask = (0.4 * (columns.max() - columns) / (columns.max() - columns.mean())).clamp(max=0.7)
    views, left = NodeViews(0.0, 0.4, adaptive=True), torch.zeros(6)
    for _ in range(800):
        left += views(batch, generator).x.any(0)
    assert (left / 800).tolist() == pytest.approx((1 - mask).tolist(), abs=0.06)


def test_degrees_of_the_part_are_those_of_pytorch_geometric() -> None:
    whole = graph(50)
    batch = Neighbourhoods(whole, (3, 2), degrees="part").around(
        np.arange(8), np.random.default_rng(0)
    )
    torch.manual_seed(0)
    model = GCN(6, dim=4, layers=1).eval()
    conv = GCNConv(6, 4)
    conv.load_state_dict(model.convs[0].state_dict())
    np.testing.assert_allclose(
        embed_nodes(model, batch), conv(batch.x, batch.edge_index).relu().detach(), rtol=1e-4,
        atol=1e-6,
    )  # fmt: skip


def test_an_augmentation_of_ones_own_changes_degrees_as_it_changes_edges() -> None:
    def half(data: Data) -> Data:
        assert data.edge_index is not None
        data.edge_index = data.edge_index[:, torch.rand(data.edge_index.shape[1]) < 0.5]
        return data

    whole = sparse_graph(400)._replace(x=torch.ones(400, 1))
    still = NodeViews(0.0, 0.0)
    model = NodeContrast(GCN(1, dim=1, layers=1), method="ucl", views=still, augmentations=[half])
    encoder = cast("GCN", model.encoder)
    encoder.activations[0] = torch.nn.Identity()
    torch.nn.init.ones_(next(p for p in encoder.parameters() if p.dim() == 2))
    generator = torch.Generator().manual_seed(0)

    def mean_row_sum(batch: NodeBatch) -> float:
        view, _ = model.views_of(batch, generator)
        return float(encode_nodes(encoder, view, 1)[: batch.seeds].detach().mean())

    full = np.mean([mean_row_sum(whole) for _ in range(20)])
    parts = Neighbourhoods(whole, (2,)).batches(200)
    of_parts = np.mean([mean_row_sum(batch) for epoch in range(20) for batch in parts(epoch)])
    assert of_parts == pytest.approx(full, rel=0.05)


def test_neighbours_are_drawn_evenly_and_anew_in_each_epoch() -> None:
    leaves = 6
    star = NodeBatch(
        torch.eye(leaves + 1),
        torch.stack([torch.arange(1, leaves + 1), torch.zeros(leaves).long()]),
    )
    drawn, counts = Neighbourhoods(star, (2,)), np.zeros(leaves + 1)
    draws = np.random.default_rng(0)
    for _ in range(600):
        batch = drawn.around(np.array([0]), draws)
        assert batch.edge_index.shape == (2, 2)
        counts[named(batch, star)[1:]] += 1
    assert counts[0] == 0
    assert counts[1:] / 600 == pytest.approx(2 / leaves, abs=0.07)
    batches = drawn.batches(7, seed=3)
    first, again, second = (next(iter(batches(epoch))) for epoch in (1, 1, 2))
    assert first.x.equal(again.x)
    assert first.edge_index.equal(again.edge_index)
    assert not first.x.equal(second.x)


def test_seeds_alone_are_contrasted() -> None:
    whole = graph(40)
    batch = next(iter(Neighbourhoods(whole, (3, 3)).batches(10)(1)))
    model = NodeContrast(GCN(6, dim=4), method="ucl")
    _, diagnostics = model.loss.with_diagnostics(
        *(model.project(view)[: batch.seeds] for view in model.views_of(batch, torch.Generator()))
    )
    model.loss.counts = None
    model(batch)
    assert model.loss.counts is not None
    assert model.loss.counts["anchors"] == diagnostics.anchors == 20


@pytest.mark.parametrize("ends", [[[7, 1], [0, 0]], [[0, 1], [9, 0]], [[-1, 1], [0, 0]],
                                  [[0, 1], [-1, 0]]])  # fmt: skip
def test_edges_of_nodes_that_are_not_there_are_refused(ends: list[list[int]]) -> None:
    right = NodeBatch(torch.eye(7), torch.tensor([[0, 6], [6, 0]]))
    assert Neighbourhoods(right, (2,)).graph is right
    with pytest.raises(InputError) as error:
        Neighbourhoods(right._replace(edge_index=torch.tensor(ends)), (2,))
    assert says(str(error.value), 7)
    with pytest.raises(InputError) as error:
        Neighbourhoods(right._replace(y=torch.arange(5)), (2,))
    assert says(str(error.value), "[5]", "[7]")


@pytest.mark.parametrize("weights", [False, True])
def test_loops_that_an_augmentation_adds_are_those_of_the_whole_graph(
    weights: bool, float64: None
) -> None:
    whole = sparse_graph(60, weights=weights)
    batch = Neighbourhoods(whole, (60,)).around(np.arange(7), np.random.default_rng(0))
    torch.manual_seed(0)
    encoder = GCN(6, dim=4, layers=1).eval()
    for by in ([], [AddSelfLoops()], [AddSelfLoops("edge_weight")] * weights):
        views = [transformed_by(graph, by, torch.Generator()) for graph in (whole, batch)]
        z, of_batch = (encode_nodes(encoder, view, 4)[:7].detach() for view in views)
        torch.testing.assert_close(of_batch, z, rtol=0, atol=1e-12 * float(z.abs().max()))
