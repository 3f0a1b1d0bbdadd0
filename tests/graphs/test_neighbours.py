"""Tests of batches of nodes with drawn neighbours."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gcl_hard import InputError
from gcl_hard.graphs import GCN, GraphSAGE, Neighbourhoods, NodeBatch, NodeContrast, embed_nodes
from tests.graphs.test_node_models import as_sparse, graph
from tests.said import says


def named(batch: NodeBatch, whole: NodeBatch) -> list[int]:
    """Which nodes of a graph with distinct rows of features a batch has."""
    rows = {tuple(row): v for v, row in enumerate(whole.x.tolist())}
    x = batch.x if batch.x.layout == torch.strided else batch.x.to_dense()
    return [rows[tuple(row)] for row in x.tolist()]


@pytest.mark.parametrize("sparse", [False, True])
def test_every_node_comes_once_an_epoch_with_edges_of_the_graph(sparse: bool) -> None:
    whole = graph(50, weights=True)
    given = whole._replace(x=as_sparse(whole.x)) if sparse else whole
    assert whole.edge_weight is not None
    weight = {
        tuple(e): float(w)
        for e, w in zip(whole.edge_index.T.tolist(), whole.edge_weight, strict=True)
    }
    seen: list[int] = []
    drawn = Neighbourhoods(given, (3, 2))
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


def test_seeds_see_what_they_see_in_the_whole_graph_if_all_neighbours_are_drawn() -> None:
    whole = graph(40)
    torch.manual_seed(0)
    encoder = GraphSAGE(6, dim=4)
    z = embed_nodes(encoder, whole)
    for batch in Neighbourhoods(whole, (50, 50)).batches(7)(1):
        names = named(batch, whole)[: batch.seeds]
        np.testing.assert_allclose(embed_nodes(encoder, batch)[: batch.seeds], z[names], rtol=1e-4)


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
    of = drawn.batches(7, seed=3)
    first, again, second = (next(iter(of(epoch))) for epoch in (1, 1, 2))
    assert first.x.equal(again.x)
    assert first.edge_index.equal(again.edge_index)
    assert not first.x.equal(second.x)


def test_seeds_alone_are_contrasted() -> None:
    whole = graph(40)
    batch = next(iter(Neighbourhoods(whole, (3, 3)).batches(10)(1)))
    model = NodeContrast(GCN(6, dim=4), method="ucl")
    _, found = model.loss.with_diagnostics(
        *(model.project(view)[: batch.seeds] for view in model.views_of(batch, torch.Generator()))
    )
    model.loss.counts = None
    model(batch)
    assert model.loss.counts is not None
    assert model.loss.counts["anchors"] == found.anchors == 20


def test_sizes_that_are_none_are_refused() -> None:
    for sizes in ((), (0, 3)):
        with pytest.raises(InputError):
            Neighbourhoods(graph(), sizes)


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
