"""What a snapshot of an encoder sees, made again from the model by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from gcl_hard.evaluation import outer_folds
from gcl_hard.functional.hardening import Uniform
from gcl_hard.graphs import GraphBatch, GraphSet, InfoGraph, TwoView
from gcl_hard.graphs import snapshots as graph_snapshots
from gcl_hard.graphs.models import GraphContrast, GraphModel
from gcl_hard.graphs.protocols import build
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.graphs.snapshots import graph_sampler
from gcl_hard.images import ImageContrast, Split, Views
from gcl_hard.images import snapshots as image_snapshots
from gcl_hard.images import training as image_training
from gcl_hard.images.settings import ImageConfig
from gcl_hard.images.snapshots import image_sampler
from gcl_hard.images.training import build as build_images
from gcl_hard.theory.diagnostics import DiagnosticsCallback, Sample, snapshot
from tests.experiments.made import mutag, same_bits
from tests.experiments.tiny_images import Tiny, few_digits, tiny_encoder
from tests.experiments.tiny_images import small as small_images
from tests.reference import theory

__all__ = ["mutag", "tiny_encoder"]


def small(method: str = "hscl", **settings: Any) -> GraphConfig:
    return GraphConfig(
        **{"method": method, "epochs": 2, "batch_size": 32, "layers": 2, "dim": 4, "folds": 3,
           **settings}
    )  # fmt: skip


def warm(config: GraphConfig, graphs: GraphSet, seed: int = 0) -> GraphContrast:
    """A model with weights of its seed, and running statistics that are no defaults."""
    model = build(config, graphs.n_features, seed)
    assert isinstance(model, GraphContrast)
    model.set_epoch(1, config.epochs)
    model.train()
    for start in (0, 30, 60):
        model(graphs.batch(torch.arange(start, start + 30))).backward()
    model.zero_grad()
    return model


def tensors(sample: Sample | None) -> dict[str, Tensor]:
    """All that a sample holds."""
    assert sample is not None
    tensors_ = {"z": sample.z, "labels": sample.labels}
    for number, batch in enumerate(sample.batches):
        for part in (batch, batch.scores):
            values = part._asdict() if isinstance(part, tuple) else vars(part)
            tensors_ |= {
                f"{number} {name}": value
                for name, value in values.items()
                if isinstance(value, Tensor)
            }
    return tensors_


CONTRASTS = ("local-global", "two-view")
OBJECTIVES = ("jsd", "infonce")


@pytest.fixture(autouse=True)
def one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small it is; see the test of several."""
    monkeypatch.setattr(graph_snapshots, "GRAPHS", 1)


def recorded(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[Any]:
    """The argument of each call of a method from now on."""
    seen: list[Any] = []
    real = getattr(owner, name)

    def method(self: Any, argument: Any) -> Any:
        seen.append(argument)
        return real(self, argument)

    monkeypatch.setattr(owner, name, method)
    return seen


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Ids of the batches that are made from now on."""
    return recorded(monkeypatch, GraphSet, "batch")


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> list[GraphBatch]:
    """The views that are projected from now on."""
    return recorded(monkeypatch, TwoView, "project")


def sample_of(
    config: GraphConfig, graphs: GraphSet, model: GraphModel, held_out: Any = None
) -> Sample:
    sample = graph_sampler(config, graphs, held_out)(model)
    assert sample is not None
    return sample


def by_hand(model: GraphModel, graphs: GraphBatch) -> tuple[Tensor, Tensor]:
    """Nodes and graphs of the encoder as it is after training, of one big batch."""
    model.eval()
    with torch.no_grad():
        nodes, z = model.encoder(graphs.x, graphs.edge_index, graphs.batch)
    model.train()
    return nodes, z


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def assert_scores(sample: Sample, anchors: list[theory.Anchor], config: GraphConfig) -> None:
    (batch,) = sample.batches
    scores = batch.scores
    assert (scores.objective, scores.temperature) == (config.objective, config.temperature or 0.5)
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
    scale_of = "batch-max" if objective == "jsd" else None
    config = small(objective=objective, batch_size=batch_size, hardness_scale=scale_of)
    model = warm(config, mutag)
    assert isinstance(model, InfoGraph)
    drawn.clear()
    sample = sample_of(config, mutag, model)
    (index,), (batch,) = drawn, sample.batches
    assert len(index) == len(set(index.tolist())) == batch_size

    nodes, z = by_hand(model, mutag.all())
    model.eval()
    with torch.no_grad():
        nodes, heads = model.node_head(nodes), model.graph_head(z)
    close(batch.candidates, heads[index])
    slices = [nodes[mutag.node_ptr[g] : mutag.node_ptr[g + 1]] for g in index.tolist()]
    largest = max(
        float((own_nodes @ other).abs().max())
        for place, own_nodes in enumerate(slices)
        for at, other in enumerate(heads[index])
        if at != place
    )  # of all nodes, whichever are anchors
    scale = largest if objective == "jsd" else 1 / 0.5
    seen, t = (x[batch.scores.others] for x in (batch.scores.similarity, batch.scores.t))
    close(seen, t / scale)
    assert torch.equal(batch.candidate_labels, mutag.y[index])
    assert torch.equal(batch.anchor_labels, mutag.y[index][batch.positive])
    assert (batch.own == -1).all()
    assert batch.n_items == batch_size
    assert torch.equal(sample.items, batch.candidates)
    sizes = mutag.node_ptr.diff()[index]
    n_nodes = int(sizes.sum())
    assert len(batch.anchors) == min(n_nodes, graph_snapshots.ANCHORS)
    assert (n_nodes < graph_snapshots.ANCHORS) == (batch_size == 8)
    # Each anchor is a node of its graph, and none of them is taken twice.
    for place, g in enumerate(index.tolist()):
        own_nodes = nodes[mutag.node_ptr[g] : mutag.node_ptr[g + 1]]
        taken = batch.anchors[batch.positive == place]
        assert len(taken) <= len(own_nodes)
        if batch_size == 8:
            close(taken.sort(0).values, own_nodes.sort(0).values)
        nearest = torch.cdist(taken.double(), own_nodes.double()).amin(1)
        assert (nearest < 1e-4).all()
    first, second = sample.positives
    assert torch.equal(first, batch.anchors)
    assert torch.equal(second, batch.candidates[batch.positive])

    rows = (batch.anchors, batch.candidates, batch.positive, mutag.y[index])
    gamma = None if objective == "jsd" else 0.5
    anchors = theory.local_global_anchors(*(row.double().tolist() for row in rows[:2]),
                                          *(row.tolist() for row in rows[2:]), gamma)  # fmt: skip
    assert_scores(sample, list(anchors), config)


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_small_batches_are_joined(
    mutag: GraphSet, monkeypatch: pytest.MonkeyPatch, contrast: str
) -> None:
    config = small(batch_size=8, contrast=contrast)
    monkeypatch.setattr(graph_snapshots, "GRAPHS", 35)
    sample = sample_of(config, mutag, warm(config, mutag))
    assert [batch.n_items for batch in sample.batches] == [8] * 4
    most = graph_snapshots.ANCHORS // 4 if contrast == "local-global" else 16
    assert all(len(batch.anchors) <= most for batch in sample.batches)
    assert len(sample.z) == len(sample.labels) == 32
    label_parts = [batch.candidate_labels[:8] for batch in sample.batches]
    assert torch.equal(sample.labels, torch.cat(label_parts))
    measured = snapshot(sample, Uniform(), 1, last=False)
    assert measured["anchors"] == sum(len(batch.anchors) for batch in sample.batches)


# Two views


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_second_views_are_of_another_graph_of_the_class(
    mutag: GraphSet, drawn: list[Tensor], objective: str
) -> None:
    config = small(
        contrast="two-view", objective=objective, augmentations=("identity",),
        hardness_scale="batch-max" if objective == "jsd" else None,
    )  # fmt: skip
    model = warm(config, mutag)
    assert isinstance(model, TwoView)
    drawn.clear()
    sample = sample_of(config, mutag, model)
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
    assert_scores(sample, list(anchors), config)


def test_views_are_augmented_as_in_training(
    mutag: GraphSet, drawn: list[Tensor], views: list[GraphBatch]
) -> None:
    config = small(contrast="two-view", augmentations=("drop-nodes",), strength=0.3)
    model = warm(config, mutag)
    drawn.clear()
    views.clear()
    sample = sample_of(config, mutag, model)
    for view, ids in zip(views, drawn, strict=True):
        whole = mutag.node_ptr.diff()[ids]
        left = torch.bincount(view.batch, minlength=len(ids))
        share = left.sum() / whole.sum()
        assert 0.65 < share < 0.75
    # Embeddings of the classifier are of the graphs as they are.
    _, z = by_hand(model, mutag.batch(drawn[0]))
    close(sample.z, torch.from_numpy(StandardScaler().fit_transform(z.double().numpy())))


# What all snapshots share


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_embeddings_are_standardised_as_the_svm_does(mutag: GraphSet, contrast: str) -> None:
    config = small(contrast=contrast)
    model = warm(config, mutag)
    with torch.no_grad():  # columns that do not vary
        last = model.encoder.convs[-1]
        for parameter in last.parameters():
            parameter.zero_()
    raw = sample_of(replace(config, standardise=False), mutag, model)
    scaled = sample_of(config, mutag, model)
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
def test_what_is_seen_is_the_same_at_every_snapshot_for_all_methods_and_seeds(
    mutag: GraphSet, drawn: list[Tensor], views: list[GraphBatch], contrast: str
) -> None:
    seen, kept = [], []
    for method, seed, settings in (
        ("hscl", 0, {}), ("ucl", 1, {}), ("hcl", 5, {"dim": 6, "lr": 0.1, "epochs": 7}),
    ):  # fmt: skip
        config = small(method, contrast=contrast, **settings)
        model = warm(config, mutag, seed)
        drawn.clear()
        views.clear()
        sampler = graph_sampler(config, mutag, None)
        first = tensors(sampler(model))
        ids, snapshots = list(drawn), list(views)
        again = sampler(model)
        assert same_bits(first, tensors(again))
        model(mutag.batch(torch.arange(20)))  # draws views, moves the running statistics
        views.clear()
        later = tensors(sampler(model))
        assert not torch.equal(later["z"], first["z"])
        assert all(torch.equal(a.x, b.x) for a, b in zip(views, snapshots, strict=False))
        seen.append([*ids, first["0 positive"]])
        kept.append([part for view in snapshots for part in (view.x, view.edge_index, view.batch)])
    for others in (seen, kept):
        for other in others[1:]:
            for actual, same in zip(others[0], other, strict=True):
                assert torch.equal(actual, same)


def garbage(graphs: GraphSet, ids: Tensor, value: float) -> GraphSet:
    """Other features, labels and edges in some graphs."""
    owner = torch.repeat_interleave(torch.arange(graphs.n_graphs), graphs.node_ptr.diff())
    x, y, edges = graphs.x.clone(), graphs.y.clone(), graphs.edge_index.clone()
    x[torch.isin(owner, ids)] = value
    y[ids] = 1 - y[ids]
    for g in ids.tolist():
        edges[:, graphs.edge_ptr[g] : graphs.edge_ptr[g + 1]] = graphs.node_ptr[g]
    return replace(graphs, x=x, y=y, edge_index=edges)


@pytest.mark.parametrize(("batch_size", "value"), [(32, float("nan")), (300, 1e30)])
@pytest.mark.parametrize("contrast", CONTRASTS)
def test_garbage_in_held_out_graphs_changes_no_bit_of_a_snapshot(
    mutag: GraphSet, drawn: list[Tensor], contrast: str, batch_size: int, value: float
) -> None:
    held_out = torch.from_numpy(outer_folds(mutag.y.numpy(), seed=0, n_folds=3)[0].test)
    config = small(contrast=contrast, protocol="inductive", batch_size=batch_size)
    model = warm(config, mutag)
    drawn.clear()
    clean = sample_of(config, mutag, model, held_out)
    for ids in drawn:
        assert not np.isin(ids.numpy(), held_out.numpy()).any()
        assert len(ids) == min(batch_size, mutag.n_graphs - len(held_out))
    dirty = sample_of(config, garbage(mutag, held_out, value), model, held_out)
    assert same_bits(tensors(clean), tensors(dirty))
    current = model.loss.sampler.current
    assert snapshot(clean, current, 1, last=True) == snapshot(dirty, current, 1, last=True)


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_a_snapshot_leaves_the_model_and_all_generators_as_they_were(
    mutag: GraphSet, contrast: str
) -> None:
    config = small(contrast=contrast)
    model = warm(config, mutag)
    model.encoder.convs[0].eval()  # as when part of the encoder is frozen
    states = {
        name: module.run_state()
        for name, module in model.named_modules()
        if hasattr(module, "run_state")
    }
    before = _state({"weights": model.state_dict(), "states": states})
    assert any("states" in name for name in before) == (contrast == "two-view")
    modes = [module.training for module in model.modules()]
    python = torch.get_rng_state()
    measured = DiagnosticsCallback(3, 1, lambda: graph_sampler(config, mutag, None))
    for epoch in (1, 2, 3):
        measured(epoch, model, model.loss.sampler.current)
    assert [shot["anchors"] > 0 for shot in measured.snapshots] == [True] * 3
    states = {
        name: module.run_state()
        for name, module in model.named_modules()
        if hasattr(module, "run_state")
    }
    assert same_bits(before, _state({"weights": model.state_dict(), "states": states}))
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
    tensors_: dict[str, Tensor] = {}
    for key, value in part.items():
        tensors_ |= _state(value, f"{name} {key}")
    return tensors_


@pytest.mark.parametrize("contrast", CONTRASTS)
@pytest.mark.parametrize(("where", "value"), [("encoder", float("nan")), ("head", float("inf"))])
def test_what_is_not_finite_gives_an_empty_snapshot(
    mutag: GraphSet, contrast: str, where: str, value: float
) -> None:
    config = small(contrast=contrast)
    model = warm(config, mutag)
    head = model.graph_head if isinstance(model, InfoGraph) else model.projection
    sampler = graph_sampler(config, mutag, None)
    measured = DiagnosticsCallback(2, 1, lambda: sampler)
    measured(1, model, model.loss.sampler.current)
    with torch.no_grad():
        next((model.encoder if where == "encoder" else head).parameters()).fill_(value)
    assert sampler(model) is None
    measured(2, model, model.loss.sampler.current)
    assert measured.snapshots[1] == {"epoch": 2, "anchors": 0, "settings": {}, "geometry": {}}
    assert measured.snapshots[0]["anchors"] > 0
    assert measured.points is None


# Images


CLASSES = 4


class Plain(Views):
    """Views that are the images themselves; remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__(ImageConfig().view_recipe(), size=8, mean=(0.5,) * 3, std=(0.5,) * 3)
        self.calls: list[tuple[Tensor, int]] = []

    def forward(self, images: Tensor, *, seed: int) -> Tensor:
        self.calls.append((images, seed))
        return self.plain(images)


def numbered(n: int, labels: Tensor | None = None) -> Split:
    """Images of noise; which one it is stands in their first two pixels."""
    g = torch.Generator().manual_seed(n)
    images = torch.randint(256, (n, 3, 8, 8), generator=g, dtype=torch.uint8)
    images[:, 0, 0, 0], images[:, 0, 0, 1] = torch.arange(n) // 256, torch.arange(n) % 256
    return Split(images, torch.arange(n) % CLASSES if labels is None else labels)


def ids(images: Tensor) -> Tensor:
    return 256 * images[:, 0, 0, 0].long() + images[:, 0, 0, 1].long()


def contrast(config: ImageConfig) -> ImageContrast:
    """A model that has seen some images in training."""
    torch.manual_seed(0)
    model = ImageContrast(Tiny(), loss=config.loss())
    with torch.no_grad():
        for seed in range(3):
            model.project(Plain().plain(numbered(20 + seed).images))
    return model


@pytest.mark.parametrize(
    ("n", "batch_size", "batches", "size"),
    [(100, 20, 5, 20), (100, 30, 3, 30), (50, 60, 1, 50), (900, 100, 5, 100), (700, 600, 1, 600)],
)
def test_views_are_of_images_and_of_others_of_their_class(
    n: int, batch_size: int, batches: int, size: int
) -> None:
    config, split, views = ImageConfig(batch_size=batch_size), numbered(n), Plain()
    model = contrast(config)
    sample = image_sampler(config, split, views, torch.float32)(model)
    assert sample is not None
    ((images, _),) = views.calls
    index, partners = ids(images).chunk(2)
    assert len(index) == len(set(index.tolist())) == batches * size
    assert torch.equal(split.labels[index], split.labels[partners])
    assert (index != partners).all()
    assert 2 * batches * size <= max(image_snapshots.ANCHORS, 2 * size)

    model.eval()
    with torch.no_grad():
        normal = (split.images.float() / 255 - 0.5) / 0.5
        embedded = model.encoder(normal)
        projected = nn.functional.normalize(model.head(embedded), dim=1)
    close = torch.testing.assert_close
    assert torch.equal(sample.labels, split.labels[index])
    close(sample.z, embedded[index], rtol=1e-4, atol=1e-5)
    assert len(sample.batches) == batches
    for k, batch in enumerate(sample.batches):
        rows = slice(k * size, (k + 1) * size)
        both = torch.cat([index[rows], partners[rows]])
        close(batch.anchors, projected[both], rtol=1e-4, atol=1e-5)
        assert torch.equal(batch.anchor_labels, split.labels[both])
        assert torch.equal(batch.candidates, batch.anchors)
        assert batch.n_items == size
    close(sample.items, projected[index], rtol=1e-4, atol=1e-5)
    if size == 20:
        batch, y = sample.batches[1], split.labels[index[20:40]]
        z1, z2 = batch.anchors.double().chunk(2)
        anchors = theory.two_view_anchors(z1.tolist(), z2.tolist(), y.tolist(), 0.5)
        for i, x in enumerate(anchors):
            row = batch.scores.others[i]
            assert batch.scores.t_pos[i].item() == pytest.approx(x.g_pos, abs=1e-9)
            expected = [g for _, g in x.others]
            assert batch.scores.t[i, row].tolist() == pytest.approx(expected, abs=1e-9)
            assert batch.scores.same[i, row].tolist() == [label == x.y for label, _ in x.others]


def test_images_and_views_are_the_same_for_all_methods_and_seeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(image_training, "image_encoder", lambda name, stem, width: Tiny())
    seen: list[list[Tensor]] = []
    real = ImageContrast.project

    def project(self: ImageContrast, images: Tensor) -> Tensor:
        seen[-1].append(images)
        return real(self, images)

    monkeypatch.setattr(ImageContrast, "project", project)
    data = few_digits()
    for method, seed, more in (
        ("hscl", 0, {}), ("ucl", 4, {"class_pairs": True}), ("hucl", 1, {"data_seed": 1}),
    ):  # fmt: skip
        config = small_images(method, **more)
        encoding = build_images(config, data, seed)
        sampler = image_sampler(config, data.probe, encoding.views, torch.float32)
        snapshots = []
        for _ in range(2):
            seen.append([])
            snapshots.append(tensors(sampler(encoding.model)))
        assert same_bits(*snapshots)
    views = [torch.cat(parts) for parts in seen]
    for other in views[1:4]:
        assert torch.equal(views[0], other)
    assert not torch.equal(views[0], views[4])
    assert len(views[0]) == 2 * len(data.probe) == 240
    assert not torch.equal(views[0][:120], views[0][120:])
