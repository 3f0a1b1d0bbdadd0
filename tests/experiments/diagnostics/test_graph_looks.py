"""What a look at a graph encoder sees, made again from the model by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from gcl_hard.evaluation import outer_folds
from gcl_hard.experiments.config import GraphConfig
from gcl_hard.experiments.diagnostics import Sample, Watch, graph_sampler, look_at
from gcl_hard.experiments.diagnostics import graphs as of_graphs
from gcl_hard.functional.hardening import Uniform
from gcl_hard.graphs import GraphBatch, GraphSet, InfoGraph, TwoView, load
from gcl_hard.graphs.models import GraphModel
from tests.experiments.diagnostics import same_bits, small, tensors, warm
from tests.reference import theory

CONTRASTS = ("local-global", "two-view")
OBJECTIVES = ("jsd", "infonce")


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    return load("MUTAG", download=False)


@pytest.fixture(autouse=True)
def one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small it is; see the test of several."""
    monkeypatch.setattr(of_graphs, "GRAPHS", 1)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Ids of the batches that are made from now on."""
    seen: list[Tensor] = []
    real = GraphSet.batch

    def batch(self: GraphSet, index: Tensor) -> GraphBatch:
        seen.append(index)
        return real(self, index)

    monkeypatch.setattr(GraphSet, "batch", batch)
    return seen


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> list[GraphBatch]:
    """The views that are projected from now on."""
    seen: list[GraphBatch] = []
    real = TwoView.project

    def project(self: TwoView, graphs: GraphBatch) -> Tensor:
        seen.append(graphs)
        return real(self, graphs)

    monkeypatch.setattr(TwoView, "project", project)
    return seen


def looked(cell: GraphConfig, graphs: GraphSet, model: GraphModel, held_out: Any = None) -> Sample:
    sample = graph_sampler(cell, graphs, held_out)(model)
    assert sample is not None
    return sample


def by_hand(model: GraphModel, graphs: GraphBatch) -> tuple[Tensor, Tensor]:
    """Nodes and graphs of the encoder as it is after training, of one big batch."""
    model.eval()
    with torch.no_grad():
        nodes, z = model.encoder(graphs.x, graphs.edge_index, graphs.batch)
    model.train()
    return nodes, z


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def assert_scores(sample: Sample, anchors: list[theory.Anchor], cell: GraphConfig) -> None:
    (batch,) = sample.batches
    scores = batch.scores
    assert (scores.objective, scores.temperature) == (cell.objective, cell.temperature or 0.5)
    assert len(scores.t) == len(anchors)
    for i, x in enumerate(anchors):
        row = scores.others[i]
        assert scores.t_pos[i].item() == pytest.approx(x.g_pos, abs=1e-9)
        assert scores.t[i, row].tolist() == pytest.approx([g for _, g in x.others], abs=1e-9)
        assert scores.same[i, row].tolist() == [y == x.y for y, _ in x.others]


# Nodes against graphs


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("batch_size", [8, 32])
def test_nodes_and_graphs_are_those_of_the_heads_in_eval_mode(
    mutag: GraphSet, drawn: list[Tensor], objective: str, batch_size: int
) -> None:
    cell = small(objective=objective, batch_size=batch_size)
    model = warm(cell, mutag)
    assert isinstance(model, InfoGraph)
    drawn.clear()
    sample = looked(cell, mutag, model)
    (index,), (batch,) = drawn, sample.batches
    assert len(index) == len(set(index.tolist())) == batch_size

    nodes, z = by_hand(model, mutag.all())
    model.eval()
    with torch.no_grad():
        nodes, heads = model.node_head(nodes), model.graph_head(z)
    close(batch.candidates, heads[index])
    slices = [nodes[mutag.node_ptr[g] : mutag.node_ptr[g + 1]] for g in index.tolist()]
    largest = max(
        float((own @ other).abs().max())
        for place, own in enumerate(slices)
        for at, other in enumerate(heads[index])
        if at != place
    )  # of all nodes, whichever are anchors
    scale = largest if objective == "jsd" else 1 / 0.5
    assert float(batch.scores.scale) == pytest.approx(scale, rel=1e-4)
    assert torch.equal(batch.candidate_labels, mutag.y[index])
    assert torch.equal(batch.anchor_labels, mutag.y[index][batch.positive])
    assert (batch.own == -1).all()
    assert batch.n_items == batch_size
    assert torch.equal(sample.items, batch.candidates)
    sizes = mutag.node_ptr.diff()[index]
    n_nodes = int(sizes.sum())
    assert len(batch.anchors) == min(n_nodes, of_graphs.ANCHORS)
    assert (n_nodes < of_graphs.ANCHORS) == (batch_size == 8)
    # Each anchor is a node of its graph, and none of them is taken twice.
    for place, g in enumerate(index.tolist()):
        own = nodes[mutag.node_ptr[g] : mutag.node_ptr[g + 1]]
        taken = batch.anchors[batch.positive == place]
        assert len(taken) <= len(own)
        if batch_size == 8:
            close(taken.sort(0).values, own.sort(0).values)
        nearest = torch.cdist(taken.double(), own.double()).amin(1)
        assert (nearest < 1e-4).all()
    first, second = sample.positives
    assert torch.equal(first, batch.anchors)
    assert torch.equal(second, batch.candidates[batch.positive])

    rows = (batch.anchors, batch.candidates, batch.positive, mutag.y[index])
    gamma = None if objective == "jsd" else 0.5
    anchors = theory.local_global_anchors(*(row.double().tolist() for row in rows[:2]),
                                          *(row.tolist() for row in rows[2:]), gamma)  # fmt: skip
    assert_scores(sample, list(anchors), cell)


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_small_batches_are_joined(
    mutag: GraphSet, monkeypatch: pytest.MonkeyPatch, contrast: str
) -> None:
    cell = small(batch_size=8, contrast=contrast)
    monkeypatch.setattr(of_graphs, "GRAPHS", 35)
    sample = looked(cell, mutag, warm(cell, mutag))
    assert [batch.n_items for batch in sample.batches] == [8] * 4
    most = of_graphs.ANCHORS // 4 if contrast == "local-global" else 16
    assert all(len(batch.anchors) <= most for batch in sample.batches)
    assert len(sample.z) == len(sample.labels) == 32
    found = [batch.candidate_labels[:8] for batch in sample.batches]
    assert torch.equal(sample.labels, torch.cat(found))
    look = look_at(sample, Uniform(), 1, last=False)
    assert look["anchors"] == sum(len(batch.anchors) for batch in sample.batches)


# Two views


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_second_views_are_of_another_graph_of_the_class(
    mutag: GraphSet, drawn: list[Tensor], objective: str
) -> None:
    cell = small(contrast="two-view", objective=objective, augmentations=("identity",))
    model = warm(cell, mutag)
    assert isinstance(model, TwoView)
    drawn.clear()
    sample = looked(cell, mutag, model)
    (index, partners), (batch,) = drawn, sample.batches
    assert len(index) == len(set(index.tolist())) == 32
    assert torch.equal(mutag.y[index], mutag.y[partners])
    assert (index != partners).all()

    _, z = by_hand(model, mutag.all())
    model.eval()
    with torch.no_grad():
        projected = model.projection(z)
    close(batch.anchors, projected[torch.cat([index, partners])])
    assert torch.equal(batch.anchors, batch.candidates)
    assert torch.equal(batch.anchor_labels, mutag.y[index].repeat(2))
    assert torch.equal(batch.candidate_labels, batch.anchor_labels)
    assert batch.own.tolist() == list(range(64))
    assert batch.positive.tolist() == [*range(32, 64), *range(32)]
    assert torch.equal(sample.items, batch.anchors[:32])
    assert torch.equal(sample.positives[0], batch.anchors)
    assert torch.equal(sample.positives[1], torch.cat([batch.anchors[32:], batch.anchors[:32]]))

    z1, z2 = (part.double().tolist() for part in batch.anchors.split(32))
    gamma = None if objective == "jsd" else 0.5
    anchors = theory.two_view_anchors(z1, z2, mutag.y[index].tolist(), gamma)
    assert_scores(sample, list(anchors), cell)


def test_a_class_of_one_is_its_own_partner(mutag: GraphSet, drawn: list[Tensor]) -> None:
    y = mutag.y.clone()
    y[17] = 2
    lonely = replace(mutag, y=y, n_classes=3)
    cell = small(contrast="two-view", batch_size=188)
    model = warm(cell, lonely)
    drawn.clear()
    looked(cell, lonely, model)
    index, partners = drawn
    assert sorted(index.tolist()) == list(range(188))
    own = index == partners
    assert index[own].tolist() == [17]
    assert torch.equal(y[index], y[partners])


def test_views_are_augmented_as_in_training(
    mutag: GraphSet, drawn: list[Tensor], views: list[GraphBatch]
) -> None:
    cell = small(contrast="two-view", augmentations=("drop-nodes",), strength=0.3)
    model = warm(cell, mutag)
    drawn.clear()
    views.clear()
    sample = looked(cell, mutag, model)
    for view, ids in zip(views, drawn, strict=True):
        whole = mutag.node_ptr.diff()[ids]
        left = torch.bincount(view.batch, minlength=len(ids))
        share = left.sum() / whole.sum()
        assert 0.65 < share < 0.75
    # Embeddings of the classifier are of the graphs as they are.
    _, z = by_hand(model, mutag.batch(drawn[0]))
    close(sample.z, torch.from_numpy(StandardScaler().fit_transform(z.double().numpy())))


# What every look shares


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_embeddings_are_standardised_as_the_svm_does(mutag: GraphSet, contrast: str) -> None:
    cell = small(contrast=contrast)
    model = warm(cell, mutag)
    with torch.no_grad():  # columns that do not vary
        last = model.encoder.convs[-1]
        for parameter in last.parameters():
            parameter.zero_()
    raw = looked(replace(cell, standardise=False), mutag, model)
    scaled = looked(cell, mutag, model)
    (batch,) = raw.batches
    ids = batch.n_items
    assert torch.equal(raw.labels, batch.candidate_labels[:ids])
    constant = raw.z.std(0) == 0
    assert 0 < constant.sum() < raw.z.shape[1]
    expected = StandardScaler().fit_transform(raw.z.double().numpy())
    assert scaled.z.dtype == torch.float64
    np.testing.assert_allclose(scaled.z.numpy(), expected, rtol=0, atol=1e-12)
    assert (scaled.z[:, constant] == 0).all()


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_what_is_seen_is_the_same_at_every_look_for_all_methods_and_seeds(
    mutag: GraphSet, drawn: list[Tensor], views: list[GraphBatch], contrast: str
) -> None:
    seen, kept = [], []
    for method, seed, settings in (
        ("hscl", 0, {}), ("ucl", 1, {}), ("hcl", 5, {"dim": 6, "lr": 0.1, "epochs": 7}),
    ):  # fmt: skip
        cell = small(method, contrast=contrast, **settings)
        model = warm(cell, mutag, seed)
        drawn.clear()
        views.clear()
        sampler = graph_sampler(cell, mutag, None)
        first = tensors(sampler(model))
        ids, looks = list(drawn), list(views)
        again = sampler(model)
        assert same_bits(first, tensors(again))
        model(mutag.batch(torch.arange(20)))  # draws views, moves the running statistics
        views.clear()
        later = tensors(sampler(model))
        assert not torch.equal(later["z"], first["z"])
        assert all(torch.equal(a.x, b.x) for a, b in zip(views, looks, strict=False))
        seen.append([*ids, first["0 positive"]])
        kept.append([part for view in looks for part in (view.x, view.edge_index, view.batch)])
    for others in (seen, kept):
        for other in others[1:]:
            for one, same in zip(others[0], other, strict=True):
                assert torch.equal(one, same)


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_the_data_seed_decides_what_is_seen(
    mutag: GraphSet, drawn: list[Tensor], contrast: str
) -> None:
    found = []
    for data_seed in (0, 1):
        cell = small(contrast=contrast, data_seed=data_seed)
        graph_sampler(cell, mutag, None)
        found.append(drawn.pop(0))
        drawn.clear()
    assert not torch.equal(*found)


def garbage(graphs: GraphSet, ids: Tensor, value: float) -> GraphSet:
    """Other features, labels and edges in some graphs."""
    owner = torch.repeat_interleave(torch.arange(graphs.n_graphs), graphs.node_ptr.diff())
    x, y, edges = graphs.x.clone(), graphs.y.clone(), graphs.edge_index.clone()
    x[torch.isin(owner, ids)] = value
    y[ids] = 1 - y[ids]
    for g in ids.tolist():
        edges[:, graphs.edge_ptr[g] : graphs.edge_ptr[g + 1]] = graphs.node_ptr[g]
    return replace(graphs, x=x, y=y, edge_index=edges)


@pytest.mark.parametrize("value", [1e30, float("nan")])
@pytest.mark.parametrize("batch_size", [32, 300])
@pytest.mark.parametrize("contrast", CONTRASTS)
def test_garbage_in_held_out_graphs_changes_no_bit_of_a_look(
    mutag: GraphSet, drawn: list[Tensor], contrast: str, batch_size: int, value: float
) -> None:
    held_out = torch.from_numpy(outer_folds(mutag.y.numpy(), seed=0, n_folds=3)[0].test)
    cell = small(contrast=contrast, protocol="inductive", batch_size=batch_size)
    model = warm(cell, mutag)
    drawn.clear()
    clean = looked(cell, mutag, model, held_out)
    for ids in drawn:
        assert not np.isin(ids.numpy(), held_out.numpy()).any()
        assert len(ids) == min(batch_size, mutag.n_graphs - len(held_out))
    dirty = looked(cell, garbage(mutag, held_out, value), model, held_out)
    assert same_bits(tensors(clean), tensors(dirty))
    current = model.loss.sampler.current
    assert look_at(clean, current, 1, last=True) == look_at(dirty, current, 1, last=True)


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_a_look_leaves_the_model_and_all_generators_as_they_were(
    mutag: GraphSet, contrast: str
) -> None:
    cell = small(contrast=contrast)
    model = warm(cell, mutag)
    model.encoder.convs[0].eval()  # as somebody who freezes a part of it
    before = _state(model.state_dict())
    assert (" _extra_state cpu" in before) == (contrast == "two-view")
    modes = [module.training for module in model.modules()]
    python = torch.get_rng_state()
    watch = Watch(3, lambda: graph_sampler(cell, mutag, None))
    for epoch in (1, 2, 3):
        watch.look(epoch, model, model.loss.sampler.current)
    assert [look["anchors"] > 0 for look in watch.looks] == [True] * 3
    assert same_bits(before, _state(model.state_dict()))
    assert [module.training for module in model.modules()] == modes
    assert True in modes
    assert False in modes
    assert torch.equal(torch.get_rng_state(), python)
    assert all(part.grad is None for part in model.parameters())
    assert all(part.requires_grad for part in model.parameters())


def _state(part: Any, name: str = "") -> dict[str, Tensor]:
    """Weights, running statistics, and where the generators of the augmentations stand."""
    if not isinstance(part, dict):
        return {name: torch.as_tensor(part).clone()}
    found: dict[str, Tensor] = {}
    for key, value in part.items():
        found |= _state(value, f"{name} {key}")
    return found


@pytest.mark.parametrize("contrast", CONTRASTS)
@pytest.mark.parametrize("where", ["encoder", "head"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_gives_an_empty_look(
    mutag: GraphSet, contrast: str, where: str, value: float
) -> None:
    cell = small(contrast=contrast)
    model = warm(cell, mutag)
    head = model.graph_head if isinstance(model, InfoGraph) else model.projection
    sampler = graph_sampler(cell, mutag, None)
    watch = Watch(2, lambda: sampler)
    watch.look(1, model, model.loss.sampler.current)
    with torch.no_grad():
        next((model.encoder if where == "encoder" else head).parameters()).fill_(value)
    assert sampler(model) is None
    watch.look(2, model, model.loss.sampler.current)
    assert watch.looks[1] == {"epoch": 2, "anchors": 0, "settings": {}, "geometry": {}}
    assert watch.looks[0]["anchors"] > 0
    assert watch.points is None
