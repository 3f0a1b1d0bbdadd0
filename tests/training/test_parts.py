"""Training on batches in parts against training on whole ones, and what cannot be in parts."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gcl_hard import InputError, fit
from gcl_hard.graphs import GIN, GraphClassifier, GraphSet, InfoGraph, TwoView, load_graphs
from gcl_hard.graphs.order import epoch_batches
from gcl_hard.graphs.training import Encoder, ensemble_of, train_encoders
from gcl_hard.images import ImageClassifier, ImageContrast, ViewPair
from gcl_hard.training.loop import train
from tests.experiments.small_cells import small, two_view, weights
from tests.said import says


class Plain(nn.Module):
    """Sums of neighbours and a linear layer: no statistics of a batch."""

    out_dim = 5

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_features, 5)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        source, target = edge_index
        nodes = self.linear(x.index_add(0, target, x[source])).tanh()
        graphs = nodes.new_zeros(int(batch.max()) + 1, 5).index_add(0, batch, nodes)
        return nodes, graphs


class Pixels(nn.Module):
    out_dim = 6

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * 8 * 8, 6)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.linear(x.flatten(1)).tanh()
        return z


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    return replace(load_graphs("MUTAG")[:90], edge_attr=None)


def pairs() -> list[ViewPair]:
    views = torch.rand(2, 3, 14, 3, 8, 8, generator=torch.Generator().manual_seed(0)).double()
    labels = torch.arange(14) % 3
    return [ViewPair(*view[:2], labels, (view[2],)) for view in views]


def graph_models(graphs: GraphSet) -> dict[str, Any]:
    """Functions of new models, of all kinds of contrast."""

    def build(kind: Any, **options: Any) -> Any:
        return lambda: kind(Plain(graphs.n_features), **options)

    drawn = ["drop-nodes", "perturb-edges", "mask-attributes"]
    return {
        "local-global": build(InfoGraph, method="hscl"),
        "infonce": build(InfoGraph, method="hucl", objective="infonce"),
        "two-view": build(TwoView, method="hcl", augmentations=drawn),
        "passes": build(TwoView, method="hscl", augmentations=drawn, n_views=3, one_forward=False),
        "hard": build(TwoView, method="spacl", augmentations=drawn, n_views=4),
    }


def image_models() -> dict[str, Any]:
    head = nn.Linear(6, 4)
    return {
        "images": lambda: ImageContrast(Pixels(), method="hscl", head=head),
        "images in passes": lambda: ImageContrast(
            Pixels(), method="ucl", head=head, one_forward=False
        ),
        "classifier": lambda: ImageClassifier(Pixels(), 3),
    }


KINDS = [
    "local-global", "infonce", "two-view", "passes", "hard",
    "images", "images in passes", "classifier",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_parts_train_the_weights_of_whole_batches(kind: str, mutag: GraphSet) -> None:
    make = (graph_models(mutag) | image_models())[kind]
    on_graphs = kind in graph_models(mutag)
    close = {"rtol": 1e-6, "atol": 1e-8 if on_graphs else 1e-5}  # projections are in float32
    outputs = []
    for parts in (1, 3, 99):
        torch.manual_seed(0)
        model = copy.deepcopy(make()).double()
        if on_graphs:
            losses = fit(model, mutag, epochs=2, lr=0.01, parts=parts, batch_size=30)
        else:
            losses = fit(model, lambda epoch: pairs(), epochs=2, lr=0.01, parts=parts, accumulate=2)
        outputs.append((losses, model))
    (expected, whole), *others = outputs
    for losses, model in others:
        assert losses == pytest.approx(expected, rel=1e-6)
        for ours, theirs in zip(model.parameters(), whole.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, **close)


def test_a_batch_is_split_into_the_graphs_that_it_has(mutag: GraphSet) -> None:
    ids = [5, 0, 33, 2, 7, 8, 40]
    whole = load_graphs("MUTAG").batch(ids)
    for n, sizes in ((1, [7]), (3, [2, 2, 3]), (99, [1] * 7)):
        parts = whole.split(n)
        assert [part.n_graphs for part in parts] == sizes
        for part, graph_ids in zip(parts, torch.tensor(ids).split(sizes), strict=True):
            alone = load_graphs("MUTAG").batch(graph_ids)
            for name in ("x", "edge_index", "batch", "y", "edge_attr"):
                torch.testing.assert_close(getattr(part, name), getattr(alone, name))


def test_nodes_may_come_in_any_order(mutag: GraphSet) -> None:
    batch = mutag.batch([3, 1, 7, 9])
    order = torch.randperm(len(batch.x), generator=torch.Generator().manual_seed(0))
    mixed = replace(
        batch, x=batch.x[order], batch=batch.batch[order],
        edge_index=order.argsort()[batch.edge_index],
    )  # fmt: skip
    model = InfoGraph(Plain(mutag.n_features), method="hscl").double()
    parts, loss = model.in_parts(mixed, 3)
    joined = zip(*map(model.encode_part, parts), strict=True)
    torch.testing.assert_close(loss(*map(torch.cat, joined)), model(batch))


@pytest.mark.parametrize(("precision", "enabled"), [("bf16-mixed", True), ("64-true", False)])
def test_parts_are_encoded_in_the_precision_of_training(
    precision: str, enabled: bool, mutag: GraphSet
) -> None:
    pytest.importorskip("lightning_fabric")
    seen = []
    model = InfoGraph(Plain(mutag.n_features), method="hscl")
    model.encoder.register_forward_hook(
        lambda *_: seen.append((torch.is_autocast_enabled("cpu"), model.node_head.training))
    )
    whole = copy.deepcopy(model)
    losses = fit(model, mutag, epochs=2, parts=2, precision=precision, batch_size=45, lr=0.001)
    assert set(seen) == {(enabled, True)}
    assert len(seen) == 2 * 2 * 2 * 2  # epochs, batches, parts, passes
    expected = fit(whole, mutag, epochs=2, precision=precision, batch_size=45, lr=0.001)
    assert losses == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("make", [small, two_view])
def test_encoders_in_parts_are_trained_one_by_one(make: Any) -> None:
    graphs = load_graphs("MUTAG")
    config = make("hscl", parts=3, epochs=2)
    assert config.group_key is None
    assert config.optimisation().parts == 3
    encoders = [Encoder(config, graphs, seed, 0, torch.arange(20)) for seed in range(2)]
    trained = weights([*train_encoders(encoders, graphs, size=16)])
    for number, encoder in enumerate(encoders):
        model = encoder.build()

        def batches(epoch: int) -> Any:
            return map(graphs.batch, epoch_batches(
                len(graphs), config.batch_size, seed=0, epoch=epoch, held_out=torch.arange(20)
            ))  # fmt: skip

        train(model, batches, config.optimisation())
        for name, value in model.state_dict().items():
            torch.testing.assert_close(trained[number][name], value)
    assert says(str(ensemble_of(encoders[:1], graphs).alone), "parts")


def test_what_has_no_parts_is_refused(mutag: GraphSet) -> None:
    class Mine(InfoGraph):
        def forward(self, graphs: Any) -> Tensor:
            return super().forward(graphs) + 1

    classifier = GraphClassifier(GIN(mutag.n_features), n_classes=2)
    for model, name in ((classifier, "GraphClassifier"), (Mine(Plain(mutag.n_features)), "Mine")):
        with pytest.raises(InputError) as caught:
            fit(model, mutag, epochs=1, parts=2)
        assert says(str(caught.value), "parts", 2, name, "in_parts(batch, n)")
    with pytest.raises(InputError, match=r"\bparts\b.*\b1\b.*\b0\b"):
        fit(Mine(Plain(mutag.n_features)), mutag, parts=0)
