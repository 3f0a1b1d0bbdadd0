"""Weisfeiler-Lehman kernels against loops in the papers' words, and against GraKeL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gcl_hard.evaluation import kernel_cross_validation
from gcl_hard.graphs import GraphSet, load_graphs
from gcl_hard.graphs.encodings import wl
from gcl_hard.graphs.refinement import wl_kernel, wl_start


def labelled(edges: str, labels: str, y: int = 0) -> SimpleNamespace:
    """A graph from "01 12" and one letter a node; both directions of an edge are stored."""
    pairs = [(int(a), int(b)) for a, b in edges.split()]
    directed = [*pairs, *((b, a) for a, b in pairs)]
    edge_index = torch.tensor(directed, dtype=torch.int64).reshape(-1, 2).T
    x = torch.nn.functional.one_hot(torch.tensor([ord(c) - ord("a") for c in labels]), 4).float()
    return SimpleNamespace(x=x, edge_index=edge_index, edge_attr=None, y=y, num_nodes=len(labels))


def tiny() -> GraphSet:
    graphs = [
        labelled("01 12", "aba"),
        labelled("01", "abac", y=1),  # two isolated nodes
        labelled("", "a"),
        labelled("", "bca"),  # no edge at all
        labelled("01 12 23 30", "aaaa"),
        labelled("01 12 20 34 45 53", "aaaaaa"),  # no WL label tells it from a ring of six
        labelled("01 12 23 34 45 50", "aaaaaa"),
        labelled("", "d"),  # shares no label with any other
    ]
    return GraphSet.from_graphs(graphs)


def subset(graphs: GraphSet, ids: Iterable[int]) -> GraphSet:
    """Some graphs as a set of their own."""
    batches = [graphs.batch(torch.tensor([i])) for i in ids]
    return GraphSet.from_graphs(
        SimpleNamespace(x=b.x, edge_index=b.edge_index, edge_attr=None, y=b.y, num_nodes=None)
        for b in batches
    )


def slow_wl(graphs: GraphSet, rounds: int, *, assignment: bool) -> np.ndarray:
    """A number for each (label, sorted labels around), a Counter of them, a loop over pairs."""
    number: dict[object, int] = {}
    counters = []
    for g in range(graphs.n_graphs):
        batch = graphs.batch(torch.tensor([g]))
        rows = dict(enumerate(map(tuple, batch.x.tolist())))
        label = {v: number.setdefault(rows[v], len(number)) for v in rows}
        neighbours = {v: set() for v in label}
        for u, v in batch.edge_index.T.tolist():
            neighbours[u].add(v)
        counter = Counter((0, label[v]) for v in label)
        for r in range(1, rounds + 1):
            seen = {v: (r, label[v], tuple(sorted(label[u] for u in neighbours[v]))) for v in label}
            label = {v: number.setdefault(seen[v], len(number)) for v in seen}
            counter.update((r, label[v]) for v in label)
        counters.append(counter)

    def k(a: Counter, b: Counter) -> int:
        return sum(min(a[key], b[key]) if assignment else a[key] * b[key] for key in a)

    return np.array([[k(a, b) / (k(a, a) * k(b, b)) ** 0.5 for b in counters] for a in counters])


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    return load_graphs("MUTAG")


KINDS = pytest.mark.parametrize("optimal_assignment", [False, True], ids=["wl", "wl-oa"])


@KINDS
@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_tiny_graphs_equal_slow_loops(iterations, optimal_assignment):
    ours = wl_kernel(tiny(), optimal_assignment=optimal_assignment, iterations=iterations)
    expected = slow_wl(tiny(), iterations, assignment=optimal_assignment)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-10)
    assert (ours[7, :7] == 0).all()
    assert ours[5, 6] == pytest.approx(1)


@KINDS
def test_mutag_equals_slow_loops_and_rounds_are_counted_from_zero(mutag, optimal_assignment):
    graphs = subset(mutag, range(20))
    ours = wl_kernel(graphs, optimal_assignment=optimal_assignment)
    np.testing.assert_allclose(
        ours, slow_wl(graphs, 5, assignment=optimal_assignment), rtol=0, atol=1e-10
    )
    for other in (4, 6):
        assert np.abs(ours - slow_wl(graphs, other, assignment=optimal_assignment)).max() > 1e-3


@KINDS
def test_kernels_are_positive_semidefinite_symmetric_and_normalised(mutag, optimal_assignment):
    K = wl_kernel(mutag, optimal_assignment=optimal_assignment)
    assert K.shape == (188, 188)
    assert K.dtype == np.float64
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(K.diagonal(), 1, rtol=1e-15)
    assert np.linalg.eigvalsh(K).min() > -1e-12
    assert kernel_cross_validation(K, mutag.y.numpy(), seed=0).accuracy > 0.8


@KINDS
def test_other_graphs_of_the_set_change_no_value(mutag, optimal_assignment):
    whole = wl_kernel(mutag, optimal_assignment=optimal_assignment)
    few = wl_kernel(subset(mutag, range(20, 32)), optimal_assignment=optimal_assignment)
    np.testing.assert_allclose(few, whole[20:32, 20:32], rtol=0, atol=1e-15)


@KINDS
def test_kernels_equal_grakels_bit_for_bit(mutag, optimal_assignment):
    grakel = pytest.importorskip("grakel")
    options = {"n_iter": 5, "normalize": True}
    if optimal_assignment:
        theirs = grakel.WeisfeilerLehmanOptimalAssignment(**options)
    else:
        theirs = grakel.WeisfeilerLehman(base_graph_kernel=grakel.VertexHistogram, **options)
    labels = mutag.x.argmax(1).tolist()
    inputs = []
    for start, stop in pairwise(mutag.node_ptr.tolist()):
        near = {v: {} for v in range(start, stop)}
        for source, target in mutag.edge_index.T.tolist():
            if start <= source < stop:
                near[source][target] = 1.0
        inputs.append((near, {v: labels[v] for v in near}))
    ours = wl_kernel(mutag, optimal_assignment=optimal_assignment)
    np.testing.assert_array_equal(ours, theirs.fit_transform(inputs))


def with_features(
    x: Callable[[GraphSet, np.random.Generator], np.ndarray], mutag: GraphSet
) -> GraphSet:
    """The graphs of a set as of one's own, with other node features."""
    columns = torch.from_numpy(np.asarray(x(mutag, np.random.default_rng(0)), np.float32))
    batches = [mutag.batch([i]) for i in range(mutag.n_graphs)]
    return GraphSet.from_graphs(
        SimpleNamespace(x=rows, edge_index=b.edge_index, edge_attr=None, y=int(b.y), num_nodes=None)
        for b, rows in zip(batches, columns.split(mutag.node_ptr.diff().tolist()), strict=True)
    )


def noise(graphs: GraphSet, draws: np.random.Generator) -> np.ndarray:
    return draws.normal(size=(graphs.n_nodes, 3))


def ids(graphs: GraphSet, draws: np.random.Generator) -> np.ndarray:
    return np.arange(graphs.n_nodes)[:, None]


def label(graphs: GraphSet, draws: np.random.Generator) -> np.ndarray:
    return graphs.x.numpy()


def beside(*parts: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda graphs, draws: np.column_stack([part(graphs, draws) for part in parts])


@pytest.mark.parametrize(
    ("x", "like", "start"),
    [
        (label, "labels", "features"),
        (lambda g, _: 0.3 * label(g, _) - 0.1, "labels", "features"),
        (lambda g, _: label(g, _).argmax(1)[:, None], "labels", "features"),
        (beside(lambda g, _: label(g, _).argmax(1), noise), "labels", "whole-numbered features"),
        (beside(noise, label), "labels", "whole-numbered features"),
        (beside(noise, ids, label), "labels", "features of 0 and 1"),
        (noise, "degree-onehot", "degrees"),
        (ids, "degree-onehot", "degrees"),
        (beside(noise, lambda g, _: np.ones(g.n_nodes)), "degree-onehot", "degrees"),
        # of each graph one number for all of its nodes
        (lambda g, draws: draws.normal(size=188).repeat(g.node_ptr.diff())[:, None],
         "degree-onehot", "degrees"),
    ],
)  # fmt: skip
def test_real_valued_features_give_way_to_labels_or_degrees(
    x, like: str, start: str, mutag: GraphSet
) -> None:
    graphs, expected = with_features(x, mutag), load_graphs("MUTAG", features=like, download=False)
    assert wl_start(graphs)[1] == start
    for kind in (False, True):
        np.testing.assert_array_equal(
            wl_kernel(graphs, optimal_assignment=kind),
            wl_kernel(expected, optimal_assignment=kind),
        )
    assert sorted(wl(graphs).sum(0).tolist()) == sorted(wl(expected).sum(0).tolist())


def test_graphs_that_share_nothing_keep_their_features() -> None:
    single = subset(tiny(), [0])
    np.testing.assert_array_equal(wl_kernel(single, optimal_assignment=False), [[1.0]])
    assert wl_start(single)[1] == "features"
