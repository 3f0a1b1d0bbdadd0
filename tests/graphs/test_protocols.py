"""The protocols: what an encoder may see, its folds and its weights."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.model_selection import StratifiedKFold, train_test_split
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.evaluation import Fold, outer_folds
from gcl_hard.experiments.run import Run
from gcl_hard.graphs import GraphSet, load_graphs
from gcl_hard.graphs.protocols import build, folds_of, part_of
from gcl_hard.graphs.settings import GRAPH_BASELINES, GraphConfig
from gcl_hard.graphs.tudataset import locate, parse, read_texts
from gcl_hard.losses.methods import METHODS
from tests.experiments import small
from tests.experiments.made import (
    encoders,
    fixed_folds,
    mutag,
    rewired,
    same_bits,
    with_garbage,
)
from tests.reference.one_by_one import fit

__all__ = ["mutag"]

CONTRASTS = ("local-global", "two-view")
DEFINED = [
    (name, contrast)
    for name, row in METHODS.items()
    for contrast in CONTRASTS
    if contrast == "two-view" or not row.infonce_only
]


@pytest.fixture(scope="module")
def fold(mutag: GraphSet) -> Fold:
    return outer_folds(mutag.y.numpy(), seed=0, n_folds=3)[1]


def weights(
    config: GraphConfig, graphs: GraphSet, seed: int = 3, held_out: np.ndarray | None = None
) -> dict[str, Tensor]:
    """Everything that a model stores that is trained in the plain loop."""
    ids = None if held_out is None else torch.from_numpy(held_out)
    model, _ = fit(config, graphs, seed, member=1, held_out=ids)
    return {k: v for k, v in model.state_dict().items() if isinstance(v, Tensor)}


# Leakage


@pytest.mark.parametrize(
    ("method", "contrast"), [*DEFINED, *(("supervised", contrast) for contrast in CONTRASTS)]
)
def test_garbage_in_held_out_graphs_leaves_an_inductive_encoder_bit_identical(
    method: str, contrast: str, mutag: GraphSet, fold: Fold
) -> None:
    config = small(method, contrast, protocol="inductive")
    clean = weights(config, mutag, held_out=fold.test)
    for x in (float("nan"), 1e30):
        garbage = with_garbage(rewired(mutag, fold.test), fold.test, x=x, y=1_000)
        assert same_bits(weights(config, garbage, held_out=fold.test), clean)


@pytest.mark.parametrize("method", [*METHODS, "supervised"])
def test_garbage_in_a_test_fold_leaves_the_encoders_of_a_run_bit_identical(
    method: str, mutag: GraphSet, fold: Fold, tmp_path: Path
) -> None:
    run = Run(small(method, protocol="inductive", folds=2), 3)
    with fixed_folds([fold, fold]):  # whatever the labels are
        clean = encoders(run, mutag, tmp_path)
        for x in (float("nan"), 1e30):
            garbage = with_garbage(rewired(mutag, fold.test), fold.test, x=x, y=1_000)
            dirty = encoders(run, garbage, tmp_path)
            assert all(same_bits(a.weights, b.weights) for a, b in zip(clean, dirty, strict=True))
        changed = encoders(run, rewired(mutag, fold.train[:1]), tmp_path)
        assert not any(same_bits(a.weights, b.weights) for a, b in zip(clean, changed, strict=True))


def encoded(graphs: GraphSet, features: str, other: np.ndarray | None = None) -> GraphSet:
    """A set encoded from its bare graphs with made-up attributes, some replaced by other graphs.

    These are complete graphs of 40 nodes with huge attributes and the label of the other class.
    """
    replaced = set() if other is None else set(other.tolist())
    complete = 1 - torch.eye(40)
    bare = []
    for g in range(graphs.n_graphs):
        graph = graphs.batch(torch.tensor([g]))
        x = torch.randn(len(graph.x), 3, generator=torch.Generator().manual_seed(g))
        edges, y = graph.edge_index, int(graphs.y[g])
        if g in replaced:
            x, edges, y = torch.full((40, 3), 1e30), complete.nonzero().T.contiguous(), 1 - y
        bare.append(SimpleNamespace(x=x, edge_index=edges, edge_attr=None, y=y, num_nodes=len(x)))
    return GraphSet.from_graphs(bare, features=features)


@pytest.mark.parametrize("features", ["attributes", "constant", "degree-scalar"])
@pytest.mark.parametrize("contrast", CONTRASTS)
def test_other_held_out_graphs_leave_an_encoder_of_fixed_width_bit_identical(
    features: str, contrast: str, mutag: GraphSet, fold: Fold
) -> None:
    """Replaced before features are made of them, where these have a width of their own."""
    config = small("hscl", contrast, protocol="inductive", features=features)
    train = torch.from_numpy(fold.train)
    clean, other = (
        weights(config, some.standardised_on(train), held_out=fold.test)
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
    config = small("hscl", contrast, protocol="inductive")
    clean = weights(config, mutag, held_out=fold.test)
    assert same_bits(weights(config, relabelled(fold.test), held_out=fold.test), clean)
    assert not same_bits(weights(config, relabelled(fold.train), held_out=fold.test), clean)
    assert relabelled(fold.test, 7).n_features == mutag.n_features + 1
    assert encoded(mutag, "degree-onehot", fold.test).n_features == 40
    wider = encoded(mutag, "degree-onehot").n_features
    assert wider < 40


@pytest.mark.parametrize(("method", "contrast"), DEFINED)
def test_the_same_garbage_changes_an_encoder_that_sees_all_graphs(
    method: str, contrast: str, mutag: GraphSet, fold: Fold
) -> None:
    config = small(method, contrast)
    clean = weights(config, mutag)
    assert not same_bits(weights(config, with_garbage(mutag, fold.test, x=0.5)), clean)
    other_labels = weights(config, with_garbage(mutag, fold.test, y=1_000))
    assert same_bits(other_labels, clean) is not METHODS[method].label_aware


def test_statistics_of_degree_features_come_from_training_graphs_alone(fold: Fold) -> None:
    config = small(protocol="inductive", features="degree-scalar")
    graphs = load_graphs("MUTAG", download=False, features="degree-scalar")
    garbage = rewired(graphs, fold.test)
    assert not torch.equal(
        *(g.standardised_on(torch.arange(g.n_graphs)).x for g in (graphs, garbage))
    )
    train = torch.from_numpy(fold.train)
    clean, dirty = (
        weights(config, g.standardised_on(train), held_out=fold.test) for g in (graphs, garbage)
    )
    assert same_bits(clean, dirty)
    whole = weights(config, graphs, held_out=fold.test)
    assert not same_bits(clean, whole)


@pytest.mark.parametrize("features", ["labels", "degree-scalar"])
def test_each_encoder_of_a_run_is_trained_without_its_own_test_fold(
    features: str, tmp_path: Path
) -> None:
    config = small(protocol="inductive", features=features)
    graphs = load_graphs("MUTAG", download=False, features=features)
    second = outer_folds(graphs.y.numpy(), seed=5, n_folds=3)[1].test
    dirty = with_garbage(rewired(graphs, second), second, x=7.0)
    clean, garbage = (encoders(Run(config, 5), g, tmp_path) for g in (graphs, dirty))
    same = [same_bits(a.weights, b.weights) for a, b in zip(clean, garbage, strict=True)]
    assert same == [False, True, False]


@pytest.mark.parametrize("method", ["hscl", "supervised"])
def test_an_inner_encoder_sees_neither_test_fold_nor_hold_out(
    method: str, mutag: GraphSet, tmp_path: Path
) -> None:
    run = Run(small(method, protocol="inductive"), 4, inner=True)
    y = mutag.y.numpy()
    fold = outer_folds(y, seed=4, n_folds=3)[1]
    kept, _ = train_test_split(fold.train, test_size=0.2, stratify=y[fold.train], random_state=4)
    unseen = np.setdiff1d(np.arange(mutag.n_graphs), kept)
    dirty = with_garbage(rewired(mutag, unseen), unseen, x=7.0)
    clean, garbage = (encoders(run, graphs, tmp_path) for graphs in (mutag, dirty))
    same = [same_bits(a.weights, b.weights) for a, b in zip(clean, garbage, strict=True)]
    assert same == [False, True, False]


@pytest.mark.parametrize(("method", "contrast"), [("hscl", "two-view"), ("supervised", None)])
def test_an_encoder_sees_its_share_and_nothing_else(
    method: str, contrast: str | None, mutag: GraphSet, tmp_path: Path
) -> None:
    share = {"protocol": "inductive", "train_share": 0.5}
    config = small(method, contrast or "local-global", **share)
    part = folds_of(config, mutag.y.numpy(), 4)[1]
    unseen = np.setdiff1d(np.arange(mutag.n_graphs), part.train)
    clean, garbage, whole = (
        encoders(Run(c, 4), graphs, tmp_path)
        for c, graphs in (
            (config, mutag), (config, with_garbage(mutag, unseen, x=7.0)),
            (small(method, contrast or "local-global", protocol="inductive"), mutag),
        )
    )  # fmt: skip
    assert same_bits(clean[1].weights, garbage[1].weights)
    assert not any(same_bits(a.weights, b.weights) for a, b in zip(clean, whole, strict=True))


# Seeds, folds, weights


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_a_seed_fixes_every_bit_and_another_seed_changes_them(
    contrast: str, mutag: GraphSet
) -> None:
    config = small("hcl", contrast)
    torch.manual_seed(1)
    first = weights(config, mutag, seed=3)
    torch.manual_seed(2)
    assert same_bits(weights(config, mutag, seed=3), first)
    assert not same_bits(weights(config, mutag, seed=4), first)
    assert not same_bits(weights(replace(config, data_seed=1), mutag, seed=3), first)


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_members_of_a_seed_differ_and_building_leaves_the_global_state(
    contrast: str, mutag: GraphSet
) -> None:
    config = small(contrast=contrast)
    before = torch.get_rng_state()
    models = [build(config, mutag.n_features, seed, k) for seed, k in ((0, 0), (0, 1), (1, 0))]
    assert torch.equal(torch.get_rng_state(), before)
    again = build(config, mutag.n_features, 0, 1)
    states = [dict(model.named_parameters()) for model in (*models, again)]
    drawn = [name for name, value in states[0].items() if value.ndim == 2]
    assert drawn
    for name in drawn:
        assert torch.equal(states[1][name], states[3][name])
        for i, j in ((0, 1), (0, 2), (1, 2)):
            assert not torch.equal(states[i][name], states[j][name])
    if contrast == "two-view":
        assert len({model.seed for model in models}) == 3


def test_encoders_start_from_the_same_weights_whatever_the_method(mutag: GraphSet) -> None:
    starts = [
        build(small(method), mutag.n_features, 7, 1, n_classes=2).encoder.state_dict()
        for method in (*METHODS, "supervised", "untrained")
    ]
    assert all(same_bits(start, starts[0]) for start in starts[1:])


@pytest.mark.parametrize("method", [*METHODS, *GRAPH_BASELINES])
def test_a_seeds_folds_are_the_same_for_every_method_and_scikit_learns(
    method: str, mutag: GraphSet
) -> None:
    y = mutag.y.numpy()
    expected = [*StratifiedKFold(3, shuffle=True, random_state=8).split(y, y)]
    for protocol in ("transductive", "inductive"):
        folds = folds_of(small(method, protocol=protocol), y, 8)
        for fold, (train, test) in zip(folds, expected, strict=True):
            assert np.array_equal(fold.train, train)
            assert np.array_equal(fold.test, test)


LABELS = np.array([0] * 50 + [1] * 24 + [2] * 7 + [3] * 1)
WHOLE = Fold(np.setdiff1d(np.arange(82), [0, 1, 50, 74]), np.array([0, 1, 50, 74]))


@pytest.mark.parametrize("seed", range(5))
def test_parts_of_a_fold_are_stratified_nested_and_leave_the_test_part(seed: int) -> None:
    shares = (0.01, 0.25, 0.5, 0.77, 1.0)
    parts = [part_of(WHOLE, LABELS, seed=seed, share=share) for share in shares]
    for share, part in zip(shares, parts, strict=True):
        assert np.array_equal(part.test, WHOLE.test)
        assert np.array_equal(part.train, np.unique(part.train))
        assert set(part.train) <= set(WHOLE.train)
        sizes = np.bincount(LABELS[part.train], minlength=4)
        whole = np.bincount(LABELS[WHOLE.train], minlength=4)
        assert (sizes >= 1).all()
        assert (np.abs(sizes - np.maximum(share * whole, 1)) <= 0.5).all()
    for smaller, larger in itertools.pairwise(parts):
        assert set(smaller.train) < set(larger.train)
    assert np.array_equal(parts[-1].train, WHOLE.train)
    again = part_of(WHOLE, LABELS, seed=seed, share=0.5)
    assert np.array_equal(again.train, parts[2].train)
    assert not np.array_equal(part_of(WHOLE, LABELS, seed=seed + 100, share=0.5).train, again.train)


def test_labels_of_another_dtype_are_refused(mutag: GraphSet) -> None:
    with pytest.raises(InputError, match=r"^labels\b.*\bintegers\b.*\bfloat32\b"):
        folds_of(small(), mutag.y.float().numpy(), 0)  # type: ignore[arg-type]


def test_supervised_loss_is_cross_entropy_of_its_logits(mutag: GraphSet) -> None:
    model = build(small("supervised"), mutag.n_features, 0, n_classes=2)
    batch = mutag.batch(torch.arange(9))
    with torch.no_grad():
        logits = model.classifier(model.encoder(batch.x, batch.edge_index, batch.batch)[1])
        loss = float(model(batch))
    expected = -sum(
        float(logits[g, y] - torch.logsumexp(logits[g], 0)) for g, y in enumerate(batch.y)
    )
    assert loss == pytest.approx(expected / 9, rel=1e-5)
