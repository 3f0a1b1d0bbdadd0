"""What an encoder may see: leakage, seeds, folds and members."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from gcl_hard.experiments.graph_seeds import run_seed
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn

from gcl_hard import evaluation
from gcl_hard.errors import DivergenceError, InputError
from gcl_hard.evaluation import Fold, FoldScore, outer_folds, svm
from gcl_hard.experiments import graph_seeds, protocols
from gcl_hard.experiments.config import GraphConfig
from gcl_hard.experiments.ensembles import Encoder, Result, Trained
from gcl_hard.experiments.protocols import build
from gcl_hard.graphs import Ensemble, GraphSet, load
from gcl_hard.graphs.models import GraphModel
from gcl_hard.methods import METHODS
from gcl_hard.training.ensemble import train_ensemble
from tests.reference.one_by_one import fit

CONTRASTS = ("local-global", "two-view")


def small(method: str = "hscl", contrast: str = "local-global", **settings: Any) -> GraphConfig:
    return GraphConfig(
        **{"method": method, "contrast": contrast, "epochs": 2, "batch_size": 64, "layers": 2,
           "dim": 4, "folds": 3, **settings}
    )  # fmt: skip


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    return load("MUTAG", download=False)


@pytest.fixture(scope="module")
def fold(mutag: GraphSet) -> Fold:
    return outer_folds(mutag.y.numpy(), seed=0, n_folds=3)[1]


def of_graphs(graphs: GraphSet, ids: np.ndarray) -> Tensor:
    """Ids of the nodes of some graphs."""
    owner = torch.repeat_interleave(torch.arange(graphs.n_graphs), graphs.node_ptr.diff())
    return torch.isin(owner, torch.from_numpy(ids)).nonzero().flatten()


def with_garbage(
    graphs: GraphSet, ids: np.ndarray, *, x: float | None = None, y: int | None = None
) -> GraphSet:
    """The set with other features or labels (all different) in some graphs."""
    features, labels = graphs.x.clone(), graphs.y.clone()
    if x is not None:
        features[of_graphs(graphs, ids)] = x
    if y is not None:
        labels[torch.from_numpy(ids)] = y + torch.arange(len(ids))
    return replace(graphs, x=features, y=labels)


def rewired(graphs: GraphSet, ids: np.ndarray) -> GraphSet:
    """The set with every edge of some graphs turned into a loop at the graph's first node."""
    edges = graphs.edge_index.clone()
    for g in ids:
        edges[:, graphs.edge_ptr[g] : graphs.edge_ptr[g + 1]] = graphs.node_ptr[g]
    return replace(graphs, edge_index=edges)


def alone(
    cell: GraphConfig,
    graphs: GraphSet,
    seed: int,
    *,
    member: int = 0,
    held_out: Tensor | None = None,
) -> tuple[GraphModel, list[float]]:
    """One encoder trained as a ensemble of one, as the command does."""
    model = build(cell, graphs.n_features, seed, member, n_classes=graphs.n_classes)
    ensemble = Ensemble(
        [model], graphs, batch_size=cell.batch_size, data_seed=cell.data_seed, held_out=[held_out]
    )
    assert ensemble.alone is None
    (losses,) = train_ensemble(ensemble, cell.optimisation())
    assert isinstance(losses, list)
    return model, losses


def weights(
    cell: GraphConfig,
    graphs: GraphSet,
    seed: int = 3,
    held_out: np.ndarray | None = None,
    trainer: Any = fit,
) -> dict[str, Tensor]:
    """Everything that a trained model stores: parameters and statistics of its normalisations."""
    ids = None if held_out is None else torch.from_numpy(held_out)
    model, _ = trainer(cell, graphs, seed, member=1, held_out=ids)
    return {k: v for k, v in model.state_dict().items() if isinstance(v, Tensor)}


def same_bits(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    assert one.keys() == other.keys()
    return all(torch.equal(one[key], other[key]) for key in one)


# Leakage


@pytest.mark.parametrize(
    ("contrast", "trainer"), [("local-global", fit), ("local-global", alone), ("two-view", fit)]
)
@pytest.mark.parametrize("method", METHODS)
def test_garbage_in_held_out_graphs_leaves_an_inductive_encoder_bit_identical(
    method: str, contrast: str, trainer: Any, mutag: GraphSet, fold: Fold
) -> None:
    cell = small(method, contrast, protocol="inductive")
    clean = weights(cell, mutag, held_out=fold.test, trainer=trainer)
    for x in (float("nan"), 1e30):
        garbage = with_garbage(rewired(mutag, fold.test), fold.test, x=x, y=1_000)
        assert same_bits(weights(cell, garbage, held_out=fold.test, trainer=trainer), clean)


def encoded(graphs: GraphSet, features: str, other: np.ndarray | None = None) -> GraphSet:
    """A set encoded from its bare graphs with made-up attributes, some replaced by other graphs.

    These are complete graphs of 40 nodes with huge attributes and the label of the other class.
    """
    replaced = set() if other is None else set(other.tolist())
    complete = 1 - torch.eye(40)
    bare = []
    for g in range(graphs.n_graphs):
        one = graphs.batch(torch.tensor([g]))
        x = torch.randn(len(one.x), 3, generator=torch.Generator().manual_seed(g))
        edges, y = one.edge_index, int(graphs.y[g])
        if g in replaced:
            x, edges, y = torch.full((40, 3), 1e30), complete.nonzero().T.contiguous(), 1 - y
        bare.append(SimpleNamespace(x=x, edge_index=edges, edge_attr=None, y=y, num_nodes=len(x)))
    return GraphSet.from_graphs(bare, features=features)


@pytest.mark.parametrize("features", ["attributes", "constant", "degree-scalar"])
@pytest.mark.parametrize(
    ("contrast", "trainer"), [("local-global", fit), ("local-global", alone), ("two-view", fit)]
)
def test_other_held_out_graphs_leave_an_encoder_of_fixed_width_bit_identical(
    features: str, contrast: str, trainer: Any, mutag: GraphSet, fold: Fold
) -> None:
    """Replaced before features are made of them, where these have a width of their own."""
    cell = small("hscl", contrast, protocol="inductive", features=features)
    train = torch.from_numpy(fold.train)
    clean, other = (
        weights(cell, some.standardised_on(train), held_out=fold.test, trainer=trainer)
        for some in (encoded(mutag, features), encoded(mutag, features, fold.test))
    )
    assert same_bits(clean, other)


def relabelled(ids: np.ndarray, value: int | None = None) -> GraphSet:
    """MUTAG with the node labels of some graphs, in its files, reversed or all of one value."""
    texts = read_texts(locate("MUTAG", download=False), "MUTAG")
    owner = np.array([int(line) - 1 for line in texts["graph_indicator"].split()])
    labels = np.array([int(line) for line in texts["node_labels"].split()])
    chosen = np.isin(owner, ids)
    labels[chosen] = labels[chosen][::-1] if value is None else value
    texts["node_labels"] = "\n".join(map(str, labels))
    return GraphSet.from_raw(parse(texts, "made up"), name="MUTAG", features="labels")


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_one_hot_labels_tell_an_encoder_their_number_and_no_more_of_held_out_graphs(
    contrast: str, mutag: GraphSet, fold: Fold
) -> None:
    """A value that held-out graphs alone have adds a column, known values change no bit."""
    cell = small("hscl", contrast, protocol="inductive")
    clean = weights(cell, mutag, held_out=fold.test)
    assert same_bits(weights(cell, relabelled(fold.test), held_out=fold.test), clean)
    assert not same_bits(weights(cell, relabelled(fold.train), held_out=fold.test), clean)
    assert relabelled(fold.test, 7).n_features == mutag.n_features + 1
    assert encoded(mutag, "degree-onehot", fold.test).n_features == 40
    wider = encoded(mutag, "degree-onehot").n_features
    assert wider < 40


@pytest.mark.parametrize("contrast", CONTRASTS)
@pytest.mark.parametrize("method", METHODS)
def test_the_same_garbage_changes_an_encoder_that_sees_all_graphs(
    method: str, contrast: str, mutag: GraphSet, fold: Fold
) -> None:
    cell = small(method, contrast)
    clean = weights(cell, mutag)
    assert not same_bits(weights(cell, with_garbage(mutag, fold.test, x=0.5)), clean)
    other_labels = weights(cell, with_garbage(mutag, fold.test, y=1_000))
    assert same_bits(other_labels, clean) is not METHODS[method].label_aware


def test_graphs_that_are_not_held_out_do_change_an_inductive_encoder(
    mutag: GraphSet, fold: Fold
) -> None:
    cell = small(protocol="inductive")
    clean = weights(cell, mutag, held_out=fold.test)
    for changed in (with_garbage(mutag, fold.train[:1], x=0.5), rewired(mutag, fold.train[:1])):
        assert not same_bits(weights(cell, changed, held_out=fold.test), clean)


def test_statistics_of_degree_features_come_from_training_graphs_alone(fold: Fold) -> None:
    cell = small(protocol="inductive", features="degree-scalar")
    graphs = load("MUTAG", download=False, features="degree-scalar")
    garbage = rewired(graphs, fold.test)
    assert not torch.equal(
        *(g.standardised_on(torch.arange(g.n_graphs)).x for g in (graphs, garbage))
    )
    train = torch.from_numpy(fold.train)
    clean, dirty = (
        weights(cell, g.standardised_on(train), held_out=fold.test) for g in (graphs, garbage)
    )
    assert same_bits(clean, dirty)
    whole = weights(cell, graphs, held_out=fold.test)
    assert not same_bits(clean, whole)


@pytest.mark.parametrize("features", ["labels", "degree-scalar"])
def test_an_inductive_seed_trains_each_encoder_without_its_own_test_fold(
    features: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = small(protocol="inductive", features=features)
    graphs = load("MUTAG", download=False, features=features)
    folds = outer_folds(graphs.y.numpy(), seed=5, n_folds=3)
    dirty = with_garbage(rewired(graphs, folds[1].test), folds[1].test, x=7.0)
    clean, garbage = (captured(cell, g, 5, monkeypatch) for g in (graphs, dirty))
    for k, fold in enumerate(folds):
        assert np.array_equal(clean[k].fold.test, fold.test)
        one, other = (calls[k].embeddings[fold.train] for calls in (clean, garbage))
        assert np.array_equal(one, other) is (k == 1)


class Call(NamedTuple):
    """What the SVM of a fold was given."""

    embeddings: np.ndarray
    fold: Fold


def captured(
    cell: GraphConfig, graphs: GraphSet, seed: int, monkeypatch: pytest.MonkeyPatch
) -> list[Call]:
    """The SVM's input in every fold of an inductive seed."""
    calls: list[Call] = []

    def svm_fold(z: np.ndarray, labels: np.ndarray, fold: Fold, **_: Any) -> FoldScore:
        assert np.array_equal(labels, graphs.y.numpy())
        calls.append(Call(z, fold))
        return FoldScore(0.5, 1.0, len(fold.train), len(fold.test), 0.5)

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "svm_fold", svm_fold)
        run_seed(cell, graphs, seed)
    return calls


# Seeds, folds, members


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_a_seed_fixes_every_bit_and_another_seed_changes_them(
    contrast: str, mutag: GraphSet
) -> None:
    cell = small("hcl", contrast)
    torch.manual_seed(1)
    one = weights(cell, mutag, seed=3)
    torch.manual_seed(2)
    assert same_bits(weights(cell, mutag, seed=3), one)
    assert not same_bits(weights(cell, mutag, seed=4), one)
    assert not same_bits(weights(replace(cell, data_seed=1), mutag, seed=3), one)


@pytest.mark.parametrize("protocol", ["paper", "inductive"])
def test_a_seeds_score_repeats_to_the_bit(protocol: str, mutag: GraphSet) -> None:
    cell = small(protocol=protocol, epochs=1)
    one, two = (run_seed(cell, mutag, 1, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert (one.folds, one.final_losses) == (two.folds, two.final_losses)
    other = run_seed(cell, mutag, 2)
    assert one.final_losses != other.final_losses


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_members_of_a_seed_differ_and_building_leaves_the_global_state(
    contrast: str, mutag: GraphSet
) -> None:
    cell = small(contrast=contrast)
    before = torch.get_rng_state()
    models = [build(cell, mutag.n_features, seed, k) for seed, k in ((0, 0), (0, 1), (1, 0))]
    assert torch.equal(torch.get_rng_state(), before)
    again = build(cell, mutag.n_features, 0, 1)
    states = [dict(model.named_parameters()) for model in (*models, again)]
    drawn = [name for name, value in states[0].items() if value.ndim == 2]
    assert drawn
    for name in drawn:
        assert torch.equal(states[1][name], states[3][name])
        for i, j in ((0, 1), (0, 2), (1, 2)):
            assert not torch.equal(states[i][name], states[j][name])
    if contrast == "two-view":
        assert len({model.seed for model in models}) == 3


def test_a_seeds_folds_are_the_same_for_every_method_and_scikit_learns(
    mutag: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    y = mutag.y.numpy()
    expected = [test for _, test in StratifiedKFold(3, shuffle=True, random_state=8).split(y, y)]
    of_paper: list[list[np.ndarray]] = []

    def untrained(encoders: Sequence[Encoder], *_: Any, **__: Any) -> Iterator[Result]:
        for number, encoder in enumerate(encoders):
            yield Result(number, Trained(encoder.build(), 0.0), 0.0)

    def folds_seen(labels: np.ndarray, **settings: Any) -> list[Fold]:
        folds = outer_folds(labels, **settings)
        of_paper.append([fold.test for fold in folds])
        return folds

    monkeypatch.setattr(graph_seeds, "train_encoders", untrained)
    for method in METHODS:
        cell = small(method, protocol="inductive")
        tests = [call.fold.test for call in captured(cell, mutag, 8, monkeypatch)]
        assert all(map(np.array_equal, tests, expected))
        with monkeypatch.context() as patch:
            patch.setattr(svm, "outer_folds", folds_seen)
            run_seed(small(method), mutag, 8)
    assert len(of_paper) == len(METHODS)
    for tests in of_paper:
        assert all(map(np.array_equal, tests, expected))


def test_progress_names_encoder_and_epoch(mutag: GraphSet) -> None:
    for protocol, encoders in (("paper", 1), ("inductive", 3)):
        seen: list[tuple[int, int]] = []
        score = run_seed(
            small(protocol=protocol), mutag, 0, on_epoch=lambda *args, s=seen: s.append(args[:2])
        )
        assert seen == [(k, epoch) for k in range(encoders) for epoch in (1, 2)]
        assert len(score.final_losses) == encoders
        assert len(score.folds) == 3
        assert score.seconds_train > 0
        assert score.seconds_eval > 0


def test_a_score_is_the_svms_on_the_embeddings_of_the_trained_encoder(mutag: GraphSet) -> None:
    cell = small(epochs=1)
    model, losses = alone(cell, mutag, 2)
    z = model.embed(mutag.all()).double().numpy()
    expected = svm.svm_cross_validation(z, mutag.y.numpy(), seed=2, n_folds=3)
    score = run_seed(cell, mutag, 2)
    assert score.folds == expected.folds
    assert score.final_losses == (losses[-1],)


# What goes wrong


class Wrong(nn.Module):
    """An encoder that returns node embeddings one column too wide."""

    out_dim = 8

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        n_graphs = int(batch[-1]) + 1
        return self.weight * torch.ones(len(x), 9), self.weight * torch.ones(n_graphs, 8)


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_an_encoder_of_the_wrong_shape_is_named_with_both_shapes(
    contrast: str, mutag: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocols, "GIN", Wrong)
    with pytest.raises(InputError, match=r"graphs \[\d+, 8\]\), got \(nodes \[\d+, 9\]"):
        run_seed(small(contrast=contrast), mutag, 0)


@pytest.mark.parametrize("protocol", ["paper", "inductive"])
def test_labels_of_another_dtype_are_refused(protocol: str, mutag: GraphSet) -> None:
    with pytest.raises(InputError, match="labels: expected integers, got dtype float32"):
        run_seed(small(protocol=protocol), replace(mutag, y=mutag.y.float()), 0)


def test_a_loss_that_is_not_finite_names_epoch_batch_and_setting(mutag: GraphSet) -> None:
    cell = small(lr=1e30, epochs=3)
    with pytest.raises(DivergenceError, match=r"epoch 1, batch 2 of 3 \(MUTAG hscl β=1 paper"):
        run_seed(cell, mutag, 0)
    held_out = replace(cell, protocol="inductive")
    with pytest.raises(DivergenceError, match=r"inductive, seed 6, fold 0\)"):
        run_seed(held_out, mutag, 6)


def test_embeddings_that_are_not_finite_are_refused(mutag: GraphSet) -> None:
    one_step = small(lr=1e30, epochs=1, batch_size=188)  # its only loss is that of the start
    with pytest.raises(DivergenceError, match=r"embeddings are not finite.*MUTAG hscl.*seed 0"):
        run_seed(one_step, mutag, 0)
