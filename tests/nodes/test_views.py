"""Tests of the random views of a graph, against the formulas in loops."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.sparse import csr_array
from torch_geometric.transforms import AddSelfLoops

from gcl_hard import InputError
from gcl_hard.graphs.sparse import column_sums, csr, rows_of, scaled_columns, to_scipy
from gcl_hard.nodes import NodeBatch, NodeViews
from gcl_hard.nodes.views import transformed_by
from tests.said import says

STAR = torch.tensor([[0, 0, 0, 1, 2, 3, 3, 4], [1, 2, 3, 0, 0, 0, 4, 3]])
X = torch.tensor([[1.0, 0, 2, 0], [0, 0, 1, 0], [1, 0, 0, 0], [1, 3, 0, 0], [0, 0, 0, 0]])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sparse(x: torch.Tensor) -> torch.Tensor:
    rows = csr_array(x.numpy())
    parts = (torch.from_numpy(part) for part in (rows.indptr, rows.indices, rows.data))
    starts, columns, values = parts
    return csr(starts.long(), columns.long(), values, (x.shape[0], x.shape[1]))


def kept(views: NodeViews, draws: int, *, second: bool = False) -> tuple[list[float], list[float]]:
    """Shares of the draws in which each edge and each column is kept."""
    edges, columns = torch.zeros(STAR.shape[1]), torch.zeros(4)
    index = {tuple(edge): k for k, edge in enumerate(STAR.T.tolist())}
    draw, batch = generator(), NodeBatch(torch.ones(5, 4), STAR)
    for _ in range(draws):
        view = views(batch, draw, second=second)
        for edge in view.edge_index.T.tolist():
            edges[index[tuple(edge)]] += 1
        columns += view.x[0]
    return (edges / draws).tolist(), (columns / draws).tolist()


def test_each_view_has_shares_of_its_own() -> None:
    views = NodeViews(0.25, 0.5, second_drop_edges=0.75, second_mask_columns=0.0)
    edges, columns = kept(views, 2000)
    assert edges == pytest.approx([0.75] * 8, abs=0.05)
    assert columns == pytest.approx([0.5] * 4, abs=0.05)
    edges, columns = kept(views, 2000, second=True)
    assert edges == pytest.approx([0.25] * 8, abs=0.05)
    assert columns == [1.0] * 4


@pytest.mark.parametrize("p", [0.3, 0.9])
def test_adaptive_probabilities_are_those_of_gca(p: float) -> None:
    degree = [3, 1, 1, 2, 1]
    scores = [math.log(1 + degree[v]) for v in STAR[1].tolist()]
    mean = sum(scores) / len(scores)
    expected = [1 - min(0.7, p * (max(scores) - s) / (max(scores) - mean)) for s in scores]
    edges, _ = kept(NodeViews(p, 0.0, adaptive=True), 4000)
    assert edges == pytest.approx(expected, abs=0.04)

    reach = [math.log(1 + sum(degree[u] for u in range(5) if X[u, f] != 0)) for f in range(4)]
    mean = sum(reach) / len(reach)
    expected = [1 - min(0.7, p * (max(reach) - s) / (max(reach) - mean)) for s in reach]
    draw, kept_columns, batch = generator(), torch.zeros(4), NodeBatch(X, STAR)
    views = NodeViews(0.0, p, adaptive=True)
    for _ in range(4000):
        x = views(batch, draw).x
        kept_columns += torch.stack([(x[:, f] == X[:, f]).all() for f in range(4)]).float()
    masked = [f for f in range(4) if bool(X[:, f].any())]  # an empty one looks the same
    assert kept_columns[masked].div(4000).tolist() == pytest.approx(
        [expected[f] for f in masked], abs=0.04
    )


def test_where_all_nodes_are_alike_adaptive_views_drop_as_others_do() -> None:
    ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    batch, draw = NodeBatch(torch.eye(4), ring), generator()
    views = NodeViews(0.5, 0.5, adaptive=True)
    n_edges = sum(views(batch, draw).edge_index.shape[1] for _ in range(500))
    assert n_edges / 2000 == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("adaptive", [False, True])
def test_sparse_features_are_masked_as_dense_ones(adaptive: bool) -> None:
    views = NodeViews(0.4, 0.5, adaptive=adaptive)
    dense = views(NodeBatch(X, STAR), generator(3))
    view = views(NodeBatch(sparse(X), STAR), generator(3))
    assert view.x.layout == torch.sparse_csr
    assert view.x.to_dense().equal(dense.x)
    assert view.edge_index.equal(dense.edge_index)


def test_weights_stay_with_their_edges() -> None:
    weight = torch.arange(8.0)
    view = NodeViews(0.5, 0.0)(NodeBatch(X, STAR, weight), generator())
    assert view.edge_weight is not None
    assert 0 < len(view.edge_weight) < 8
    assert STAR[:, view.edge_weight.long()].equal(view.edge_index)


def test_sparse_rows_and_columns() -> None:
    x, ids = sparse(X), torch.tensor([3, 0, 3, 4])
    assert rows_of(x, ids).to_dense().equal(X[ids])
    assert rows_of(x, ids[:0]).shape == (0, 4)
    assert (to_scipy(x).toarray() == X.numpy()).all()
    scale = torch.tensor([2.0, 0.0, 1.0, 5.0])
    assert scaled_columns(x, scale).to_dense().equal(X * scale)
    weights = torch.arange(5.0)
    expected = [sum(float(weights[u]) for u in range(5) if X[u, f] != 0) for f in range(4)]
    assert column_sums(x, weights).tolist() == expected
    assert column_sums(X, weights).tolist() == pytest.approx(expected)


def test_own_transforms_come_after_and_leave_the_graph_as_it_was() -> None:
    def shifted(data):  # type: ignore[no-untyped-def]
        data.x += torch.rand(())
        return data

    batch = NodeBatch(X.clone(), STAR)
    views = [transformed_by(batch, [shifted, AddSelfLoops()], generator(5)) for _ in range(2)]
    assert views[0].x.equal(views[1].x)
    assert not views[0].x.equal(X)
    assert views[0].edge_index.shape[1] == 13
    assert batch.x.equal(X)


@pytest.mark.parametrize(
    ("by", "facts"),
    [
        (lambda data: None, ["NoneType"]),
        (lambda data: data.subgraph(torch.tensor([0, 1])), [5, 2]),
    ],
)
def test_transforms_that_lose_nodes_are_refused(by: object, facts: list[object]) -> None:
    with pytest.raises(InputError) as error:
        transformed_by(NodeBatch(X, STAR), [by], generator())  # type: ignore[list-item]
    assert says(str(error.value), *facts)
