"""Colour refinement against nested tuples, and batches of colours against their nodes."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
import torch

from gcl_hard.graphs import refinement as colours
from gcl_hard.graphs.data import GraphSet
from gcl_hard.graphs.refinement import ColouredSet
from gcl_hard.graphs.tudataset import load_graphs

CPU = torch.device("cpu")
PRIME = 1_000_003.0


def graph(edges, features, y=0):
    edge_index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    x = torch.tensor(features, dtype=torch.float32)[:, None]
    return SimpleNamespace(
        x=x, edge_index=edge_index, edge_attr=None, y=y, num_nodes=len(features)
    )  # fmt: skip


ODD_ONES = [
    graph([(0, 1)], [0, 0]),  # directed: node 1 hears of node 0 alone
    graph([(0, 1), (1, 0)], [0, 0]),
    graph([(0, 0)], [0]),  # hears of itself
    graph([], [0]),
    graph([(0, 1), (0, 1), (1, 0)], [0, 0], y=4),  # repeated: node 1 hears of node 0 twice
    graph([(0, 2), (1, 2), (2, 0)], [0, 0, 0], y=4),
    graph([(1, 0)], [0, 1], y=2),
]


@pytest.fixture(scope="module")
def odd_ones() -> GraphSet:
    return GraphSet.from_graphs(ODD_ONES, directed=True)


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    return load_graphs("MUTAG")


def slowly(graphs, layers):
    """What every node knows after each layer, spelt out."""
    heard: list[list[int]] = [[] for _ in range(graphs.n_nodes)]
    for source, target in graphs.edge_index.T.tolist():
        heard[target].append(source)
    known: list[tuple] = [tuple(row) for row in graphs.x.tolist()]
    levels = [known]
    for _ in range(layers):
        known = [(known[n], tuple(sorted(known[m] for m in heard[n]))) for n in range(len(known))]
        levels.append(known)
    return levels


def assert_same_partition(ours, theirs):
    assert len(set(zip(ours, theirs, strict=True))) == len(set(ours)) == len(set(theirs))


def test_refinement_of_mutag_equals_nested_tuples(mutag):
    for ours, theirs in zip(colours.refined(mutag, 4), slowly(mutag, 4), strict=True):
        assert_same_partition(ours.tolist(), theirs)
        assert sorted(set(ours.tolist())) == list(range(ours.max() + 1))


def test_refinement_of_odd_graphs(odd_ones):
    levels = [level.tolist() for level in colours.refined(odd_ones, 3)]
    for ours, theirs in zip(levels, slowly(odd_ones, 3), strict=True):
        assert_same_partition(ours, theirs)
    # One round: how many zeros each node hears of, and what it is itself.
    #       directed  pair   loop  none  repeated  star      another feature
    first = ["0", "1", "1", "1", "1", "0", "1", "2", "1", "0", "2", "0+1", "one"]
    assert_same_partition(levels[1], first)
    pair, loop = levels[3][2:4], levels[3][4]
    assert pair == [loop, loop]  # in all rounds
    assert levels[3][1] != loop  # what it hears of has itself heard of nobody


def test_colours_do_not_depend_on_the_order_of_edges_or_features(mutag):
    g = torch.Generator().manual_seed(0)
    order = torch.randperm(mutag.edge_index.shape[1], generator=g)
    columns = torch.randperm(mutag.n_features, generator=g)
    other = GraphSet(
        "other", mutag.x[:, columns], mutag.edge_index[:, order], mutag.y, mutag.node_ptr,
        mutag.edge_ptr, 2, "other",
    )  # fmt: skip
    for colour, reordered in zip(colours.refined(mutag, 3), colours.refined(other, 3), strict=True):
        assert_same_partition(colour.tolist(), reordered.tolist())


def layers_of(n_features, layers, seed=0):
    """Weights of maps for features and for every layer."""
    g = torch.Generator().manual_seed(seed)
    widths = [n_features] + [3] * (layers + 1)
    return [torch.randint(1, 2**18, shape, generator=g) for shape in itertools.pairwise(widths)]


def apply(z, weight):
    """A random map of whole numbers to whole numbers: equal sums in whatever order."""
    h = torch.remainder(((z + 1).long() @ weight).double(), PRIME)
    return torch.remainder(h * h + 7, PRIME)


def on_nodes(batch, weights):
    """All levels of message passing, node by node."""
    source, target = batch.edge_index
    levels = [apply(batch.x.double(), weights[0])]
    for weight in weights[1:]:
        h = levels[-1]
        levels.append(apply(h.index_add(0, target, h[source]), weight))
    return levels


def on_colours(set_of, batch, weights):
    levels = [apply(set_of.graphs.x[set_of.representatives].double()[batch.features], weights[0])]
    for sums, weight in zip(batch.sums, weights[1:], strict=True):
        levels.append(apply(torch.sparse.mm(sums.forward, levels[-1]), weight))
    return levels


def orders(n, size):
    g = torch.Generator().manual_seed(1)
    shuffled = torch.randperm(n, generator=g)
    return [torch.arange(n), shuffled[:size], shuffled[:size].sort().values, shuffled[-1:]]


def rows(table):
    return sorted(map(tuple, table.tolist()))


@pytest.mark.parametrize("name", ["mutag", "odd_ones"])
@pytest.mark.parametrize("layers", [1, 3, 5])
def test_message_passing_on_colours_is_that_on_nodes_exactly(name, layers, request):
    graphs = request.getfixturevalue(name)
    set_of = ColouredSet(graphs, layers)
    weights = layers_of(graphs.n_features, layers)
    for index in orders(graphs.n_graphs, min(40, graphs.n_graphs - 2)):
        single, batch = graphs.batch(index), set_of.batch(index).to(CPU, torch.float64)
        nodes, ours = on_nodes(single, weights), on_colours(set_of, batch, weights)
        assert batch.n_colours == tuple(map(len, ours))
        for k, (level, of_nodes) in enumerate(zip(ours, nodes, strict=True)):
            assert set(rows(level)) == set(rows(of_nodes))
            known = torch.cat(nodes[: k + 1], 1).unique(dim=0)
            assert len(level) == len(known)  # every colour of the batch, and once
        # What a node has been on all levels, for every node of every graph.
        lower = [level[at] for level, at in zip(ours, batch.parents, strict=False)]
        assert len(batch.parents) == layers
        table, of_nodes = torch.cat([*lower, ours[-1]], 1), torch.cat(nodes, 1)
        colour, graph_of, times, _ = batch.pairs
        for g in range(len(index)):
            mine = graph_of == g
            repeated = table[colour[mine]].repeat_interleave(times[mine].long(), 0)
            assert rows(repeated) == rows(of_nodes[single.batch == g])
        summed = torch.zeros(len(index), table.shape[1], dtype=torch.float64)
        summed.index_add_(0, single.batch, of_nodes)
        assert torch.equal(torch.sparse.mm(batch.readout.forward, table), summed)


@pytest.mark.parametrize("name", ["mutag", "odd_ones"])
def test_tables_of_a_batch_agree_with_each_other(name, request):
    graphs = request.getfixturevalue(name)
    set_of = ColouredSet(graphs, 3)
    for index in orders(graphs.n_graphs, min(60, graphs.n_graphs - 2)):
        batch = set_of.batch(index)
        for sums in (*batch.sums, batch.readout):
            assert torch.equal(sums.forward.to_dense().T, sums.backward.to_dense())
            assert sums.forward.dtype == torch.float32
        colour, graph_of, times, edges = batch.pairs
        dense = torch.zeros(len(index), batch.n_colours[-1])
        dense[graph_of, colour] = times
        assert torch.equal(dense, batch.readout.forward.to_dense())
        assert (colour.diff() >= 0).all()
        assert times.min() >= 1
        assert edges == [0, len(colour)]
        assert torch.equal(dense.sum(1), batch.sizes)
        assert torch.equal(batch.sizes, graphs.node_ptr.diff()[index].float())


def test_classes_have_no_gaps(odd_ones):
    set_of = ColouredSet(odd_ones, 1)
    assert odd_ones.y.tolist() == [0, 0, 0, 0, 2, 2, 1]
    for index, expected in (([4, 0, 5], [1, 0, 1]), ([6, 4], [0, 1]), ([5, 4], [0, 0])):
        classes = set_of.batch(torch.tensor(index)).classes
        assert classes.ids.tolist() == expected
        assert classes.n == max(expected) + 1


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_blocks_begin_where_their_colours_do(block, mutag, monkeypatch):
    monkeypatch.setattr(colours, "BLOCK", block)
    batch = ColouredSet(mutag, 2).batch(torch.arange(30))
    colour, _, _, edges = batch.pairs
    n_blocks = -(-batch.n_colours[-1] // block)
    assert len(edges) == n_blocks + 1
    assert edges[-1] == len(colour)
    for i in range(n_blocks):
        assert set((colour[edges[i] : edges[i + 1]] // block).tolist()) == {i}
