"""Tests of encoders of nodes and of contrast between them, against PyTorch Geometric and loops."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, SAGEConv

from gcl_hard import InputError, embed
from gcl_hard.graphs.sparse import csr
from gcl_hard.nodes import (
    GCN,
    GraphSAGE,
    Neighbourhoods,
    NodeBatch,
    NodeClassifier,
    NodeContrast,
    NodeSet,
    NodeViews,
    embed_nodes,
)
from tests.said import says


def graph(n: int = 12, f: int = 6, seed: int = 0, *, weights: bool = False) -> NodeBatch:
    draws = torch.Generator().manual_seed(seed)
    dense = (torch.rand(n, n, generator=draws) < 0.3).triu(1)
    dense[-1] = dense[:, -1] = False  # an isolated node
    edges = (dense | dense.T).nonzero().T.contiguous()
    weight = torch.rand(edges.shape[1], generator=draws) + 0.1 if weights else None
    y = torch.arange(n) % 3
    return NodeBatch(torch.randn(n, f, generator=draws), edges, weight, y)


def as_sparse(x: Tensor) -> Tensor:
    coo = x.to_sparse_coo().coalesce()
    counts = torch.bincount(coo.indices()[0], minlength=len(x))
    starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return csr(starts, coo.indices()[1], coo.values(), (len(x), x.shape[1]))


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize(("ours", "theirs"), [(GCN, GCNConv), (GraphSAGE, SAGEConv)])
def test_layers_are_those_of_pytorch_geometric(
    ours: type[nn.Module],
    theirs: type[nn.Module],
    weights: bool,
) -> None:
    if weights and ours is GraphSAGE:
        pytest.skip("theirs reads no weights")
    batch = graph(weights=weights)
    torch.manual_seed(0)
    encoder = ours(6, dim=5, layers=3)
    h = batch.x
    for conv in encoder.convs:
        width, out = conv.in_channels, conv.out_channels
        oracle = theirs(width, out)
        oracle.load_state_dict(conv.state_dict())
        edge_weights = () if batch.edge_weight is None else (batch.edge_weight,)
        h = oracle(h, batch.edge_index, *edge_weights).relu()
    for x in (batch.x, as_sparse(batch.x)):
        z = encoder(x, batch.edge_index, batch.edge_weight)
        torch.testing.assert_close(z, h)


def test_weighted_means_of_neighbours() -> None:
    batch = graph(weights=True)
    assert batch.edge_weight is not None
    conv = GraphSAGE(6, dim=5, layers=1)
    layer = conv.convs[0]
    for v in range(12):
        at = (batch.edge_index[1] == v).nonzero().flatten().tolist()
        total = sum(float(batch.edge_weight[e]) for e in at)
        mean = sum((batch.edge_weight[e] * batch.x[batch.edge_index[0, e]] / total for e in at),
                   torch.zeros(6))  # fmt: skip
        expected = (layer.lin_l(mean) + layer.lin_r(batch.x[v])).relu()
        row = conv(batch.x, batch.edge_index, batch.edge_weight)[v]
        torch.testing.assert_close(row, expected)


def grace(h1: Tensor, h2: Tensor, gamma: float) -> float:
    """GRACE's objective in loops: every node of both views as an anchor."""
    h1, h2 = (nn.functional.normalize(h) for h in (h1, h2))
    n, total = len(h1), 0.0
    for a, b in ((h1, h2), (h2, h1)):
        for i in range(n):
            positive = math.exp(float(a[i] @ b[i]) / gamma)
            rest = sum(
                math.exp(float(a[i] @ z[k]) / gamma) for z in (a, b) for k in range(n) if k != i
            )
            total -= math.log(positive / (positive + rest))
    return total / (2 * n)


def test_ucl_is_the_objective_of_grace() -> None:
    batch = graph()
    model = NodeContrast(GCN(6, dim=4), method="ucl", temperature=0.4, seed=7)
    loss = float(model(batch).detach())
    again = NodeContrast(model.encoder, method="ucl", seed=7)
    views = again.views_of(batch, again._generators.on(batch.edge_index.T))
    with torch.no_grad():
        h1, h2 = (model.project(view).double() for view in views)
    assert loss == pytest.approx(grace(h1, h2, 0.4), rel=1e-5)


def test_anchors_are_drawn_anew_and_have_the_mean_of_all() -> None:
    batch = graph(40)
    still = NodeViews(0.0, 0.0)
    torch.manual_seed(0)
    whole = NodeContrast(GCN(6, dim=4, activation="prelu"), method="hucl", views=still)
    sampled = NodeContrast(whole.encoder, method="hucl", views=still, anchors=8)
    sampled.projection = whole.projection
    with torch.no_grad():
        losses = torch.stack([sampled(batch) for _ in range(400)])
        assert len(losses.unique()) > 300
        assert float(losses.mean()) == pytest.approx(float(whole(batch)), rel=0.01)
        assert sampled.anchors is not None
        sampled.anchors = 40
        torch.testing.assert_close(sampled(batch), whole(batch))


@pytest.mark.parametrize("method", ["scl", "hscl"])
def test_labels_that_are_not_known_make_a_method_label_free(method: str) -> None:
    batch = graph()
    model = NodeContrast(GCN(6, dim=4), method=method, views=NodeViews(0.0, 0.0))
    free = NodeContrast(
        model.encoder, method={"scl": "ucl", "hscl": "hucl"}[method], views=NodeViews(0.0, 0.0)
    )
    free.projection = model.projection
    unknown = batch._replace(y=torch.full((12,), -1))
    torch.testing.assert_close(model(unknown), free(batch))
    assert not torch.allclose(model(batch), free(batch))
    assert model(batch._replace(y=torch.where(torch.arange(12) < 6, batch.y, -1))).isfinite()


def test_the_classifier_reads_known_labels_alone() -> None:
    batch = graph()
    y = torch.where(torch.arange(12) < 6, batch.y, -1)
    model = NodeClassifier(GCN(6, dim=4), n_classes=3)
    logits = model.scores(batch)[:6]
    expected = nn.functional.cross_entropy(logits, batch.y[:6])
    for labels in (y, y.int()):
        torch.testing.assert_close(model(batch._replace(y=labels)), expected)


@pytest.mark.parametrize(
    ("y", "facts"),
    [
        (torch.arange(12) % 3 / 1, ["float32"]),
        (torch.tensor([0.0, math.nan] * 6), ["float32"]),
        ((torch.arange(12) % 3)[:, None], ["[12, 1]"]),
        (torch.arange(12) % 4, ["0..2", 3]),
        (torch.arange(12) % 3 - 2, [-1, -2]),
        (torch.arange(8) % 3, ["[12]", "[8]"]),
    ],
)
def test_labels_that_are_no_classes_of_a_classifier_are_refused(
    y: Tensor, facts: list[object]
) -> None:
    batch, model = graph(), NodeClassifier(GCN(6, dim=4), n_classes=3)
    data = Data(batch.x, batch.edge_index, y=y)
    for labelled in (batch._replace(y=y), data):
        with pytest.raises(InputError) as error:
            model(labelled)
        assert says(str(error.value), *facts)
    if y.dim() == 2 or len(y) < 12:
        with pytest.raises(InputError):
            NodeContrast(model.encoder, method="scl")(data)


def changed(name: str) -> Data:
    """A graph as others give it, whose edges or features are read before they are multiplied."""
    batch, draws = graph(20), torch.Generator().manual_seed(1)
    edges = batch.edge_index
    upper = edges[:, edges[0] < edges[1]]
    loops = torch.arange(20).repeat(2, 1)
    graphs = {
        "one direction": Data(batch.x, upper),
        "some in one direction": Data(batch.x, edges[:, torch.rand(edges.shape[1],
                                      generator=draws) < 0.7]),
        "self-loops": Data(batch.x, torch.cat([edges, loops], 1)),
        "repeats": Data(batch.x, torch.cat([edges, edges[:, :9]], 1)),
        "doubles": Data(batch.x.double(), edges),
        "whole numbers": Data((9 * batch.x).long(), edges),
        "int32": Data(batch.x, edges.int()),
        "weights": Data(batch.x, upper, edge_weight=torch.rand(upper.shape[1], generator=draws)),
    }  # fmt: skip
    graphs[name].y = torch.arange(20) % 3
    return graphs[name]


@pytest.mark.parametrize(
    "name",
    ["one direction", "some in one direction", "self-loops", "repeats", "doubles",
     "whole numbers", "int32", "weights"],
)  # fmt: skip
@pytest.mark.parametrize("kind", [GCN, GraphSAGE])
def test_a_graph_is_one_thing_at_every_door(name: str, kind: type[GCN]) -> None:
    data = changed(name)
    nodes = NodeSet.from_graph(data)
    torch.manual_seed(0)
    encoder = kind(6, dim=4)
    model = NodeContrast(encoder, method="hscl", views=NodeViews(0.0, 0.0))
    expected = model.embed(nodes)
    for z in (model.embed(data), embed_nodes(encoder, data), embed(encoder, data).values):
        np.testing.assert_array_equal(z, expected)
    torch.testing.assert_close(model(data), model(nodes))
    classifier = NodeClassifier(encoder, n_classes=3)
    torch.testing.assert_close(classifier(data), classifier(nodes))
    torch.testing.assert_close(classifier.scores(data), classifier.scores(nodes))
    draws = (np.random.default_rng(0) for _ in range(2))
    whole = [
        Neighbourhoods(source, (3, 2)).around(np.arange(5), next(draws)) for source in (data, nodes)
    ]
    torch.testing.assert_close(*whole, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"edge_weight": torch.tensor([1.0, -1, 1, -1])}, ["weights"]),
        ({"edge_weight": torch.tensor([0.0, 1, 0, 1])}, ["weights"]),
        ({"edge_weight": torch.ones(3)}, [3, 4]),
        ({"x": torch.tensor([[1.0], [math.nan], [2.0]])}, ["node 1"]),
        ({"edge_index": torch.tensor([[0], [3]])}, ["0..2"]),
    ],
)
def test_a_graph_that_is_no_set_is_not_embedded_either(
    change: dict[str, Tensor], facts: list[object]
) -> None:
    ends = torch.tensor([[0, 1, 1, 2], [1, 2, 0, 1]])
    fields = {"x": torch.ones(3, 1), "edge_index": ends, "y": torch.tensor([0, 1, 1])} | change
    encoder = GraphSAGE(1, dim=2)
    model = NodeContrast(encoder, method="ucl")
    for door in (NodeSet.from_graph, model, model.embed, partial(embed, encoder)):
        with pytest.raises(InputError) as error:
            door(Data(**fields))
        assert says(str(error.value), *facts)


def test_features_that_are_learnt_keep_their_gradient() -> None:
    batch = graph()
    x = batch.x.clone().requires_grad_()
    NodeContrast(GCN(6, dim=4), method="ucl")(Data(x, batch.edge_index)).backward()
    assert x.grad is not None
    assert bool((x.grad != 0).any())


def test_labels_of_a_graph_keep_their_numbers() -> None:
    batch = graph()
    y = torch.where(batch.y == 0, -1, batch.y)
    data = Data(batch.x, batch.edge_index, y=y)
    model = NodeClassifier(GCN(6, dim=4), n_classes=3)
    known = (y > 0).nonzero().flatten()
    expected = nn.functional.cross_entropy(model.scores(batch)[known], y[known])
    torch.testing.assert_close(model(data), expected)


class Dense(nn.Module):
    """An encoder of one's own, which knows nothing of sparse features."""

    out_dim = 3

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        assert x.layout == torch.strided
        return self.linear(x).index_add(0, edge_index[1], self.linear(x)[edge_index[0]])


def test_own_encoders_are_given_dense_features() -> None:
    batch = graph()
    z = embed_nodes(Dense().eval(), batch._replace(x=as_sparse(batch.x)))
    assert z.shape == (12, 3)
    assert z.dtype == np.float32
    assert NodeContrast(Dense(), method="ucl")(batch).isfinite()


class Wrong(Dense):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index)[:5]


def test_a_resumed_model_draws_as_an_undisturbed_one() -> None:
    batch = graph(30)
    model = NodeContrast(GCN(6, dim=4), method="ucl", anchors=5)
    model(batch)
    state = model.run_state()
    expected = float(model(batch).detach())
    other = NodeContrast(GCN(6, dim=4), method="ucl", anchors=5)
    other.load_state_dict(model.state_dict())
    other.set_run_state(state)
    assert float(other(batch).detach()) == expected
