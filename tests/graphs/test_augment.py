"""Properties of every augmentation on random batches, and what each one promises."""

from __future__ import annotations

import random
from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from gcl_hard.errors import InputError
from gcl_hard.graphs.augment import (
    AUGMENTATIONS,
    augment,
    drop_nodes,
    mask_attributes,
    mask_columns,
    perturb_edges,
    random_walk_subgraph,
)
from gcl_hard.graphs.data import GraphBatch
from gcl_hard.graphs.tudataset import load_graphs

SHARES = st.sampled_from([0.0, 0.1, 0.5, 0.99])
EVERY = pytest.mark.parametrize("name", AUGMENTATIONS)


def batch_of(graphs: list[nx.Graph], *, edge_attr: bool = True) -> GraphBatch:
    """Row i of x is (i, 1), an edge's attribute its two ends: what is left can be traced."""
    whole = nx.disjoint_union_all(graphs)
    edges = torch.tensor(sorted(whole.to_directed().edges)).reshape(-1, 2).T.long()
    n = len(whole)
    sizes = torch.tensor([len(graph) for graph in graphs])
    return GraphBatch(
        x=torch.stack([torch.arange(n), torch.ones(n)], dim=1).float(),
        edge_index=edges,
        batch=torch.arange(len(graphs)).repeat_interleave(sizes),
        y=torch.arange(len(graphs)) % 3,
        n_graphs=len(graphs),
        edge_attr=edges.T.float() + 1 if edge_attr else None,
    )


@st.composite
def batches(draw: st.DrawFn) -> GraphBatch:
    shapes = draw(
        st.lists(
            st.tuples(st.integers(1, 9), st.sampled_from([0, 0.3, 0.8, 1])), min_size=1, max_size=5
        )
    )
    seed = draw(st.integers(0, 99))
    graphs = [nx.gnp_random_graph(n, p, seed=seed + i) for i, (n, p) in enumerate(shapes)]
    return batch_of(graphs, edge_attr=draw(st.booleans()))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pairs(batch: GraphBatch) -> list[tuple[int, int]]:
    return [tuple(pair) for pair in batch.edge_index.T.tolist()]


def per_graph(batch: GraphBatch) -> list[int]:
    return torch.bincount(batch.batch, minlength=batch.n_graphs).tolist()


@EVERY
@settings(max_examples=60, deadline=None)
@given(batch=batches(), p=SHARES, seed=st.integers(0, 9))
def test_views_are_valid_batches_of_the_same_graphs(
    name: str, batch: GraphBatch, p: float, seed: int
) -> None:
    before = [batch.x.clone(), batch.edge_index.clone(), batch.batch.clone()]
    view = AUGMENTATIONS[name](batch, p, generator=seeded(seed))
    assert torch.equal(view.y, batch.y)
    assert view.n_graphs == batch.n_graphs
    assert min(per_graph(view)) >= 1
    assert view.batch.diff().ge(0).all()
    assert len(view.x) == len(view.batch)
    assert view.edge_index.dtype == torch.int64
    edges = pairs(view)
    assert all(0 <= a < len(view.x) and 0 <= b < len(view.x) and a != b for a, b in edges)
    assert len(set(edges)) == len(edges)
    assert {(b, a) for a, b in edges} == set(edges)
    assert torch.equal(view.batch[view.edge_index[0]], view.batch[view.edge_index[1]])
    if batch.edge_attr is None:
        assert view.edge_attr is None
    else:
        assert view.edge_attr.shape == (len(edges), 2)

    again = AUGMENTATIONS[name](batch, p, generator=seeded(seed))
    for field in ("x", "edge_index", "batch"):
        assert torch.equal(getattr(again, field), getattr(view, field)), field
    now = [batch.x, batch.edge_index, batch.batch]
    assert all(torch.equal(a, b) for a, b in zip(before, now, strict=True))


def renumbered(batch: GraphBatch, order: list[int]) -> GraphBatch:
    """The same graphs with the nodes in another order."""
    place = torch.tensor([order.index(node) for node in range(len(order))])
    return GraphBatch(
        batch.x[order], place[batch.edge_index], batch.batch[order], batch.y, batch.n_graphs,
        batch.edge_attr,
    )  # fmt: skip


@EVERY
@settings(max_examples=30, deadline=None)
@given(batch=batches(), p=SHARES, seed=st.integers(0, 9))
def test_nodes_of_a_batch_may_be_mixed(name: str, batch: GraphBatch, p: float, seed: int) -> None:
    mixed = renumbered(batch, torch.randperm(len(batch.x), generator=seeded(seed)).tolist())
    view = AUGMENTATIONS[name](mixed, p, generator=seeded(seed))
    assert torch.equal(view.batch[view.edge_index[0]], view.batch[view.edge_index[1]])
    edges = pairs(view)
    assert len({*edges}) == len(edges)
    assert {(b, a) for a, b in edges} == {*edges}
    for before, after in zip(per_graph(batch), per_graph(view), strict=True):
        assert 1 <= after <= before
    if name in ("drop-nodes", "perturb-edges", "random-walk"):
        assert torch.equal(view.batch, batch.batch[view.x[:, 0].long()])
    if name in ("perturb-edges", "random-walk"):
        order = sorted(range(len(mixed.x)), key=mixed.batch.tolist().__getitem__)
        same = AUGMENTATIONS[name](renumbered(mixed, order), p, generator=seeded(seed))
        for field in ("x", "edge_index", "batch"):
            assert torch.equal(getattr(same, field), getattr(view, field)), field


@pytest.mark.parametrize("augment", [drop_nodes, random_walk_subgraph])
@settings(max_examples=60, deadline=None)
@given(batch=batches(), p=SHARES)
def test_removed_nodes_leave_an_induced_subgraph(augment, batch: GraphBatch, p: float) -> None:
    view = augment(batch, p, generator=seeded())
    kept = view.x[:, 0].long()
    assert torch.equal(view.batch, batch.batch[kept])
    whole = nx.Graph(pairs(batch))
    whole.add_nodes_from(range(len(batch.x)))
    expected = set(whole.subgraph(kept.tolist()).to_directed().edges)
    original = kept[view.edge_index]
    assert {tuple(pair) for pair in original.T.tolist()} == expected
    if view.edge_attr is not None:
        assert torch.equal(view.edge_attr, original.T.float() + 1)


@settings(max_examples=100, deadline=None)
@given(batch=batches(), p=SHARES)
def test_perturbed_graphs_keep_their_edge_count_as_far_as_there_is_room(
    batch: GraphBatch, p: float
) -> None:
    view = perturb_edges(batch, p, generator=seeded())
    old, new = set(pairs(batch)), set(pairs(view))
    for g, n in enumerate(per_graph(batch)):
        nodes = set(torch.nonzero(batch.batch == g).flatten().tolist())
        linked = sum(a in nodes for a, _ in old) // 2
        removed = sum(a in nodes for a, _ in old - new) // 2
        added = sum(a in nodes for a, _ in new - old) // 2
        assert abs(removed - p * linked) < 1
        assert added == min(removed, n * (n - 1) // 2 - linked)
    assert torch.equal(view.x, batch.x)
    if view.edge_attr is not None:
        for pair, attribute in zip(pairs(view), view.edge_attr.tolist(), strict=True):
            assert attribute == ([pair[0] + 1, pair[1] + 1] if pair in old else [0, 0])


def test_every_set_of_absent_pairs_is_equally_likely() -> None:
    """Three of the nine absent pairs of a ring of six: 84 sets; χ² has 83 degrees of freedom."""
    rings, n = 500, 20
    batch, generator = batch_of([nx.cycle_graph(6)] * rings), seeded()
    before = {(i, (i + 1) % 6) for i in range(6)}
    before |= {(j, i) for i, j in before}
    counts: Counter[tuple[tuple[int, int], ...]] = Counter()
    for _ in range(n):
        edges = perturb_edges(batch, 0.5, generator=generator).edge_index
        added: list[list[tuple[int, int]]] = [[] for _ in range(rings)]
        for i, j in edges.T.tolist():
            pair = (i % 6, j % 6)
            if pair[0] < pair[1] and pair not in before:
                added[i // 6].append(pair)
        counts.update(tuple(sorted(of_ring)) for of_ring in added)
    expected = rings * n / 84
    assert len(counts) == 84
    assert sum((seen - expected) ** 2 / expected for seen in counts.values()) < 83 + 4 * 166**0.5


def test_self_loops_go_and_directed_edges_stay_directed() -> None:
    batch = batch_of([nx.empty_graph(4)], edge_attr=False)
    batch.edge_index = torch.tensor([[0, 1, 2], [1, 1, 0]])
    assert sorted(pairs(perturb_edges(batch, 0.0, generator=seeded()))) == [(0, 1), (2, 0)]


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5])
def test_shares_are_exact_in_the_mean_for_every_graph_size(p: float) -> None:
    sizes = [2, 3, 7, 10]
    batch = batch_of([nx.cycle_graph(n) if n > 2 else nx.path_graph(n) for n in sizes])
    dropped, masked = torch.zeros(4), torch.zeros(4)
    generator, rounds = seeded(), 2000
    for _ in range(rounds):
        dropped += torch.tensor(per_graph(batch)) - torch.tensor(
            per_graph(drop_nodes(batch, p, generator=generator))
        )
        hidden = mask_attributes(batch, p, generator=generator).x[:, 1] == 0
        masked += torch.bincount(batch.batch[hidden], minlength=4)
    expected = p * torch.tensor(sizes)
    # a count rounded at random has a deviation of at most 1/2
    torch.testing.assert_close(dropped / rounds, expected, rtol=0, atol=5 * 0.5 / rounds**0.5)
    torch.testing.assert_close(masked / rounds, expected, rtol=0, atol=5 * 0.5 / rounds**0.5)


def test_every_node_is_dropped_equally_often() -> None:
    batch = batch_of([nx.path_graph(5), nx.star_graph(3)])
    kept, generator, rounds = torch.zeros(9), seeded(), 2000
    for _ in range(rounds):
        kept[drop_nodes(batch, 0.4, generator=generator).x[:, 0].long()] += 1
    tolerance = 5 * (0.24 / rounds) ** 0.5
    torch.testing.assert_close(kept / rounds, torch.full((9,), 0.6), rtol=0, atol=tolerance)


def test_masked_rows_are_zero_even_where_features_are_not_finite() -> None:
    batch = batch_of([nx.path_graph(4)])
    batch.x = torch.full_like(batch.x, float("nan"))
    view = mask_attributes(batch, 0.5, generator=seeded())
    assert (view.x == 0).all(dim=1).sum() == 2
    assert view.x.isnan().all(dim=1).sum() == 2
    assert torch.equal(view.edge_index, batch.edge_index)


@pytest.mark.parametrize("p", [0.25, 0.6])
def test_masked_columns_are_those_of_whole_graphs_and_as_many_as_asked(p: float) -> None:
    batch = batch_of([nx.path_graph(4), nx.cycle_graph(3), nx.path_graph(1)])
    batch.x = torch.ones(8, 5, dtype=torch.uint8)
    batch.edge_attr = torch.ones(batch.edge_index.shape[1], 3)
    generator, rounds = seeded(), 2000
    counts, of_edges = torch.zeros(3, 5), torch.zeros(2, 3)
    owner = batch.batch[batch.edge_index[0]]
    for _ in range(rounds):
        view = mask_columns(batch, p, generator=generator)
        assert view.x.dtype == torch.uint8
        assert view.edge_attr is not None
        for rows, graph, total in (
            (view.x, batch.batch, counts),
            (view.edge_attr, owner, of_edges),
        ):
            for g in range(len(total)):
                mine = rows[graph == g]
                assert (mine == mine[0]).all()
                total[g] += mine[0] == 0
    tolerance = 5 * (p * (1 - p) / rounds) ** 0.5
    for total in (counts, of_edges):
        torch.testing.assert_close(
            total / rounds, torch.full_like(total, p), rtol=0, atol=tolerance
        )


@settings(max_examples=60, deadline=None)
@given(batch=batches(), p=SHARES)
def test_walks_keep_connected_parts_no_larger_than_asked(batch: GraphBatch, p: float) -> None:
    view = random_walk_subgraph(batch, p, generator=seeded())
    graph = nx.Graph(pairs(view))
    graph.add_nodes_from(range(len(view.x)))
    assert nx.number_connected_components(graph) == view.n_graphs
    for before, after in zip(per_graph(batch), per_graph(view), strict=True):
        assert 1 <= after < (1 - p) * before + 1


def test_walks_reach_the_share_on_complete_graphs_and_nearly_on_molecules() -> None:
    complete = batch_of([nx.complete_graph(10)] * 20)
    assert per_graph(random_walk_subgraph(complete, 0.2, generator=seeded())) == [8] * 20
    molecules = load_graphs("MUTAG").all()
    view = random_walk_subgraph(molecules, 0.2, generator=seeded())
    assert 0.7 < len(view.x) / len(molecules.x) <= 0.8 + 1e-2


@EVERY
@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, float("nan")])
def test_shares_out_of_range_are_refused(name: str, p: float) -> None:
    batch = batch_of([nx.path_graph(3)])
    with pytest.raises(InputError, match=rf"^p\b.*\b0\b.*\b1\b.*{p}$"):
        AUGMENTATIONS[name](batch, p, generator=seeded())


# Augmentations of the user's own


def test_a_transform_of_pyg_gets_all_graphs_and_draws_by_the_generator() -> None:
    batch = load_graphs("MUTAG").batch([3, 0, 5])
    before = torch.get_rng_state(), random.getstate()

    def drawn(seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return augment(batch, NormalNoise(), 0.0, generator=generator).x

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()


class NormalNoise(BaseTransform):
    """Adds noise by two random states."""

    def forward(self, data: Data) -> Data:
        assert data.num_graphs == 3
        data.x = data.x + torch.randn_like(data.x) + random.random() + np.random.rand()  # noqa: NPY002
        return data


def test_a_transform_in_place_leaves_the_other_view_as_it_was() -> None:
    batch = load_graphs("MUTAG").batch([3, 0, 5])
    before = batch.x.clone()

    def masked(data: Data) -> Data:
        data.x[torch.rand(len(data.x)) < 0.5] = 0
        data.edge_index[:] = 0
        return data

    generator = torch.Generator().manual_seed(0)
    views = [augment(batch, masked, 0.0, generator=generator) for _ in range(2)]
    assert not torch.equal(views[0].x, views[1].x)
    assert torch.equal(batch.x, before)
    assert batch.edge_index.any()


def test_nodes_and_edges_may_go_but_no_graph_may() -> None:
    batch = load_graphs("MUTAG").batch([3, 0, 5])

    def halved(data: Data) -> Data:
        return data.subgraph(torch.arange(len(data.x)) % 2 == 0)

    def without(data: Data) -> Data:
        return data.subgraph(data.batch != 1)

    def flipped(data: Data) -> Data:
        ends = len(data.x) - 1 - data.edge_index
        return Data(data.x.flip(0), ends, batch=data.batch.flip(0))

    view = augment(batch, halved, 0.0, generator=torch.Generator())
    assert len(view.batch) == len(view.x) < len(batch.x)
    assert view.edge_attr is not None
    assert len(view.edge_attr) == view.edge_index.shape[1]
    assert torch.equal(view.y, batch.y)
    for wrong in (
        without,
        lambda data: data.x,
        lambda data: Data(data.x, data.edge_index),
        lambda data: Data(data.x[::2], data.edge_index, batch=data.batch[::2]),
        lambda data: Data(data.x, data.edge_index - 1, batch=data.batch),
        lambda data: Data(data.x, data.edge_index, batch=data.batch + 1),
        lambda data: Data(data.x, torch.tensor([[0, 1], [1, 40]]), batch=data.batch),
        lambda data: Data(data.x, data.edge_index[:, 1:], data.edge_attr, batch=data.batch),
    ):
        with pytest.raises(InputError, match="augmentation"):
            augment(batch, wrong, 0.0, generator=torch.Generator())
    mixed = augment(batch, flipped, 0.0, generator=torch.Generator())
    assert per_graph(mixed) == per_graph(batch)
