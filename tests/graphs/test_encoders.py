"""GIN with edge features, a virtual node, two readouts and its last layer alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gcl_hard.errors import InputError
from gcl_hard.graphs import GIN, Ensemble, GraphBatch, GraphSet, InfoGraph, TwoView, load_graphs
from gcl_hard.graphs.ensemble import refusal
from gcl_hard.graphs.models import encode
from tests.said import says

IDS = [0, 1, 3, 2, 8]


@pytest.fixture(scope="module")
def batch() -> GraphBatch:
    """Some graphs of MUTAG in double precision."""
    molecules = load_graphs("MUTAG").batch(torch.tensor(IDS))
    assert molecules.edge_attr is not None
    return replace(
        molecules, x=molecules.x.double(), edge_attr=torch.rand_like(molecules.edge_attr).double()
    )


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    return load_graphs("MUTAG")


def small_batch(mutag: GraphSet) -> GraphBatch:
    return mutag.batch(torch.tensor(IDS))


def gin_of(**options: Any) -> GIN:
    torch.manual_seed(0)
    gin = GIN(7, **({"dim": 4, "layers": 3} | options)).double()
    for parameter in gin.parameters():  # zero biases and unit weights hide much
        nn.init.normal_(parameter)
    return gin


def embedded(gin: GIN, batch: GraphBatch) -> tuple[Tensor, Tensor]:
    nodes, graphs = gin(batch.x, batch.edge_index, batch.batch, edge_attr=batch.edge_attr)
    return nodes, graphs


def affine(layer: nn.Module, z: Tensor) -> Tensor:
    weight, bias = layer.get_parameter("weight"), layer.get_parameter("bias")
    units = zip(weight, bias, strict=True)
    return torch.stack([sum((w * v for w, v in zip(row, z, strict=True)), b) for row, b in units])


def normed(norm: nn.Module, rows: list[Tensor]) -> list[Tensor]:
    assert isinstance(norm, nn.BatchNorm1d)
    mean = sum(rows) / len(rows)
    variance = sum((row - mean) ** 2 for row in rows) / len(rows)
    return [(row - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias for row in rows]


def slowly(gin: GIN, batch: GraphBatch) -> list[list[Tensor]]:
    """Each layer's rows, node by node and edge by edge."""
    h = list(batch.x)
    owner = batch.batch.tolist()
    edges = batch.edge_index.T.tolist()
    virtual: list[Tensor] | None = None
    layers: list[list[Tensor]] = []
    for k, (conv, norm) in enumerate(zip(gin.convs, gin.norms, strict=True)):
        if k and len(gin.virtual):
            seen = [sum(v for v, g in zip(layers[-1], owner, strict=True) if g == graph)
                    for graph in range(batch.n_graphs)]  # fmt: skip
            if virtual is not None:
                seen = [s + v for s, v in zip(virtual, seen, strict=True)]
            linear, _, of_virtual = gin.get_submodule(f"virtual.{k - 1}")
            virtual = normed(of_virtual, [affine(linear, s).clamp(min=0) for s in seen])
            h = [v + virtual[g] for v, g in zip(h, owner, strict=True)]
        first, _, second = conv.nn
        out = []
        for v in range(len(h)):
            total = h[v].clone()
            for e, (source, target) in enumerate(edges):
                if target != v:
                    continue
                message = h[source]
                if gin.edge_dim is not None:
                    assert batch.edge_attr is not None
                    message = (message + affine(conv.lin, batch.edge_attr[e])).clamp(min=0)
                total += message
            out.append(affine(second, affine(first, total).clamp(min=0)).clamp(min=0))
        h = normed(norm, out)
        layers.append(h)
    return layers


@pytest.mark.parametrize("virtual_node", [False, True])
@pytest.mark.parametrize("edge_dim", [None, 4])
def test_layers_equal_loops_over_nodes_and_edges(
    edge_dim: int | None, *, virtual_node: bool, batch: GraphBatch
) -> None:
    gin = gin_of(edge_dim=edge_dim, virtual_node=virtual_node)
    nodes, graphs = embedded(gin, batch)
    layers = slowly(gin, batch)
    expected = torch.cat([torch.stack(rows) for rows in layers], 1)
    torch.testing.assert_close(nodes, expected, rtol=1e-9, atol=1e-9)
    for g in range(batch.n_graphs):
        pooled = expected[batch.batch == g].sum(0)
        torch.testing.assert_close(graphs[g], pooled, rtol=1e-9, atol=1e-9)
    plain, _ = gin_of()(batch.x, batch.edge_index, batch.batch)
    assert torch.allclose(nodes, plain) is (edge_dim is None and not virtual_node)


@pytest.mark.parametrize("jk", ["cat", "last"])
def test_readout_both_is_the_sum_and_then_the_mean(jk: Any, batch: GraphBatch) -> None:
    outputs = {
        readout: embedded(gin_of(readout=readout, jk=jk), batch)
        for readout in ("sum", "mean", "both")
    }
    nodes, graphs = outputs["both"]
    assert torch.equal(graphs, torch.cat([outputs["sum"][1], outputs["mean"][1]], 1))
    assert torch.equal(nodes, torch.cat([outputs["sum"][0]] * 2, 1))
    sizes = torch.bincount(batch.batch)[:, None]
    torch.testing.assert_close(graphs.chunk(2, 1)[0] / sizes, graphs.chunk(2, 1)[1])


def test_jk_last_is_the_end_of_jk_cat(batch: GraphBatch) -> None:
    last, cat = (embedded(gin_of(jk=jk), batch) for jk in ("last", "cat"))
    assert last[0].shape == (len(batch.x), 4)
    assert all(torch.equal(end, layers[:, -4:]) for end, layers in zip(last, cat, strict=True))


def test_new_options_leave_old_weights_as_they_were() -> None:
    """By default nothing is drawn or stored that was not before."""
    torch.manual_seed(0)
    names = set(GIN(7).state_dict())
    after = torch.rand(())
    assert names == {
        f"{part}.{k}.{name}"
        for k in range(3)
        for part, of_part in (
            ("convs", ["eps", *(f"nn.{i}.{p}" for i in (0, 2) for p in ("weight", "bias"))]),
            ("norms", ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]),
        )
        for name in of_part
    }
    torch.manual_seed(0)
    GIN(7, readout="both", jk="last")
    assert torch.equal(torch.rand(()), after)


# What a user meets


def test_edge_features_are_checked(batch: GraphBatch) -> None:
    gin, features = gin_of(edge_dim=4), batch.edge_attr
    assert features is not None
    for wrong in (None, features[:, :3], features[1:], features[:, 0]):
        with pytest.raises(InputError, match="edge"):
            encode(gin, replace(batch, edge_attr=wrong), gin.out_dim)


class Pooling(nn.Module):
    """Embeds nodes as they are, and keeps what else it is called with."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def pooled(self, x: Tensor, batch: Tensor, *more: Any) -> tuple[Tensor, Tensor]:
        self.seen += more
        return x, torch.stack([x[batch == g].sum(0) for g in range(int(batch.max()) + 1)])


class Optional(Pooling):
    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, edge_attr: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        return self.pooled(x, batch, edge_attr)


class Required(Pooling):
    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, edge_attr: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self.pooled(x, batch, edge_attr)


class NoEdges(Pooling):
    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        return self.pooled(x, batch)


@pytest.mark.parametrize("kind", [Optional, Required])
def test_an_encoder_gets_the_edge_features_that_its_forward_takes(
    kind: type[Pooling], batch: GraphBatch
) -> None:
    encoder = kind()
    model = InfoGraph(encoder, 7, method="ucl").double()
    model(batch)
    model.embed(batch)
    encode(torch.compile(encoder, backend="eager"), batch, 7)  # type: ignore[arg-type]
    assert len(encoder.seen) == 3
    assert all(seen is batch.edge_attr for seen in encoder.seen)


def test_edge_features_that_nothing_takes_are_warned_of(batch: GraphBatch) -> None:
    with pytest.warns(UserWarning, match=r"\b4 .*\bNoEdges\.forward\b.*edge_attr"):
        encode(NoEdges(), batch, 7)
    encode(NoEdges(), replace(batch, edge_attr=None), 7)  # warns of nothing


@pytest.mark.parametrize(
    "options", [{"edge_dim": 4}, {"virtual_node": True}, {"readout": "both"}, {"jk": "last"}]
)
def test_local_global_models_with_options_train_one_by_one(options: dict[str, Any]) -> None:
    mutag = load_graphs("MUTAG").take(torch.arange(20))
    model = InfoGraph(GIN(7, dim=4, layers=2, **options))
    why = refusal(model)
    assert why is not None
    assert says(why, "edge", "virtual", "both", "last")
    assert Ensemble([model], mutag).alone == why
    assert refusal(InfoGraph(GIN(7, dim=4))) is None
    assert refusal(TwoView(GIN(7, dim=4, **options))) is None


def test_gin_starts_from_xavier_weights():
    torch.manual_seed(0)
    gin = GIN(7, dim=64, layers=2)
    for linear in (m for m in gin.modules() if isinstance(m, nn.Linear)):
        bound = (6 / (linear.in_features + linear.out_features)) ** 0.5
        assert 0.9 * bound < linear.weight.abs().max() <= bound
        assert torch.equal(linear.bias, torch.zeros_like(linear.bias))


def test_gin_refuses_bad_sizes(mutag):
    for options in ({"layers": 0}, {"edge_dim": 0}, {"readout": "max"}, {"jk": "max"}):
        with pytest.raises(InputError):
            GIN(7, **options)
    with pytest.raises(InputError, match=r"\b7\b.*\bGIN\b.*\b5\b"):
        InfoGraph(GIN(5))(small_batch(mutag))
