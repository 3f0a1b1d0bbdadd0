"""Inner hold-outs and floors: what they see, and that their scores are what they claim."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from gcl_hard.experiments.graph_cell import FLOORS
from gcl_hard.experiments.graph_seeds import run_seed
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import train_test_split

from gcl_hard.errors import InputError
from gcl_hard.evaluation import Fold, outer_folds, svm_cross_validation, svm_fold
from gcl_hard.experiments import graph_seeds, protocols
from gcl_hard.experiments.protocols import build
from gcl_hard.graphs import GraphSet, Supervised
from tests.experiments.test_protocols import (
    alone,
    mutag,
    rewired,
    same_bits,
    small,
    weights,
    with_garbage,
)

__all__ = ["mutag"]  # the fixture

N_FOLDS = 3


def held_out_of(part: np.ndarray, n_graphs: int) -> torch.Tensor:
    return torch.tensor([g for g in range(n_graphs) if g not in set(part.tolist())])


# Inner hold-outs


def test_an_inner_seed_is_scored_on_a_fifth_of_the_training_fold_that_it_did_not_see(
    mutag: GraphSet,
) -> None:
    cell = small("hscl", protocol="inductive")
    score = run_seed(cell, mutag, 4, inner=True)
    y = mutag.y.numpy()
    for k, fold in enumerate(outer_folds(y, seed=4, n_folds=N_FOLDS)):
        kept, held = train_test_split(
            fold.train, test_size=0.2, stratify=y[fold.train], random_state=4
        )
        model, losses = alone(cell, mutag, 4, member=k, held_out=held_out_of(kept, mutag.n_graphs))
        z = model.embed(mutag.all()).double().numpy()
        assert score.folds[k] == svm_fold(z, y, Fold(np.sort(kept), np.sort(held)), seed=4)
        assert score.final_losses[k] == losses[-1]


@pytest.mark.parametrize("method", ["hscl", "supervised"])
def test_an_inner_encoder_sees_neither_test_fold_nor_hold_out(
    method: str, mutag: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = small(method, protocol="inductive")
    y = mutag.y.numpy()
    fold = outer_folds(y, seed=4, n_folds=N_FOLDS)[1]
    kept, _ = train_test_split(fold.train, test_size=0.2, stratify=y[fold.train], random_state=4)
    unseen = held_out_of(kept, mutag.n_graphs).numpy()
    dirty = with_garbage(rewired(mutag, unseen), unseen, x=7.0)
    found = []
    real = graph_seeds.train_encoders

    def spy(*arguments: Any, **settings: Any) -> Any:
        for result in real(*arguments, **settings):
            stored = result.trained.model.state_dict()  # type: ignore[union-attr]
            found.append({k: v.clone() for k, v in stored.items() if torch.is_tensor(v)})
            yield result

    monkeypatch.setattr(graph_seeds, "train_encoders", spy)
    for graphs in (mutag, dirty):
        run_seed(cell, graphs, 4, inner=True)
    clean, garbage = found[:N_FOLDS], found[N_FOLDS:]
    same = [same_bits(one, other) for one, other in zip(clean, garbage, strict=True)]
    assert same == [False, True, False]


def test_an_inner_hold_out_of_a_trained_method_needs_encoders_of_folds(mutag: GraphSet) -> None:
    with pytest.raises(InputError, match="an encoder for every fold"):
        run_seed(small("hscl"), mutag, 0, inner=True)


@pytest.mark.parametrize("method", ["wl-oa", "majority", "untrained", "graph-size"])
def test_an_inner_seed_of_a_floor_sees_no_test_fold(method: str, mutag: GraphSet) -> None:
    """Other labels on a test fold move neither what is chosen nor what is scored."""
    folds = outer_folds(mutag.y.numpy(), seed=0, n_folds=N_FOLDS)
    flipped = mutag.y.clone()
    flipped[folds[0].test] = 1 - flipped[folds[0].test]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocols, "outer_folds", lambda *_, **__: folds)
        clean, other = (
            run_seed(small(method), graphs, 0, inner=True).folds[0]
            for graphs in (mutag, replace(mutag, y=flipped))
        )
    assert clean == other
    assert clean.n_test == pytest.approx(0.2 * len(folds[0].train), abs=1)


# Supervised


def test_supervised_accuracy_is_the_share_of_right_predictions_on_the_test_fold(
    mutag: GraphSet,
) -> None:
    cell = small("supervised")
    score = run_seed(cell, mutag, 2)
    for k, fold in enumerate(outer_folds(mutag.y.numpy(), seed=2, n_folds=N_FOLDS)):
        model, _ = alone(cell, mutag, 2, member=k, held_out=torch.from_numpy(fold.test))
        assert isinstance(model, Supervised)
        model.eval()
        with torch.no_grad():
            logits = model.classifier(
                model.encoder(mutag.x, mutag.edge_index, mutag.all().batch)[1]
            )
        right = [int(logits[g].argmax()) == int(mutag.y[g]) for g in fold.test]
        assert score.folds[k].accuracy == pytest.approx(sum(right) / len(right))
        assert (score.folds[k].n_train, score.folds[k].n_test) == (len(fold.train), len(fold.test))


def test_supervised_training_does_not_see_held_out_graphs(mutag: GraphSet) -> None:
    cell = small("supervised")
    fold = outer_folds(mutag.y.numpy(), seed=0, n_folds=N_FOLDS)[0]
    clean = weights(cell, mutag, held_out=fold.test)
    for x in (float("nan"), 1e30):
        garbage = with_garbage(rewired(mutag, fold.test), fold.test, x=x, y=1_000)
        assert same_bits(weights(cell, garbage, held_out=fold.test), clean)
    flipped = with_garbage(mutag, fold.train[:1], y=1 - int(mutag.y[fold.train[0]]))
    assert not same_bits(weights(cell, flipped, held_out=fold.test), clean)


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


def test_encoders_start_from_the_same_weights_whatever_the_method(mutag: GraphSet) -> None:
    starts = [
        build(small(method), mutag.n_features, 7, 1, n_classes=2).encoder.state_dict()
        for method in ("ucl", "hscl", "supervised", "untrained")
    ]
    assert all(same_bits(start, starts[0]) for start in starts[1:])


# Floors


def test_majority_is_scikit_learns_dummy(mutag: GraphSet) -> None:
    y = mutag.y.numpy()
    expected = []
    for fold in outer_folds(y, seed=1, n_folds=N_FOLDS):
        dummy = DummyClassifier(strategy="most_frequent").fit(fold.train, y[fold.train])
        expected.append(float(dummy.score(fold.test, y[fold.test])))
    score = run_seed(small("majority"), mutag, 1)
    assert [fold.accuracy for fold in score.folds] == pytest.approx(expected)
    assert score.final_losses == ()


@pytest.mark.parametrize("method", ["graph-size", "label-histogram"])
def test_descriptions_are_counted_and_go_through_the_svm(method: str, mutag: GraphSet) -> None:
    rows = []
    for (start, stop), (first, last) in zip(
        pairwise(mutag.node_ptr.tolist()), pairwise(mutag.edge_ptr.tolist()), strict=True
    ):
        labels = mutag.x[start:stop].argmax(1).tolist()
        size = [stop - start, (last - first) / 2]
        rows.append(size if method == "graph-size" else [labels.count(i) for i in range(7)])
    expected = svm_cross_validation(np.array(rows), mutag.y.numpy(), seed=1, n_folds=N_FOLDS)
    assert run_seed(small(method), mutag, 1).folds == expected.folds


def test_untrained_is_the_svm_on_what_training_starts_from(mutag: GraphSet) -> None:
    z = build(small("hscl"), mutag.n_features, 1).embed(mutag.all()).double().numpy()
    expected = svm_cross_validation(z, mutag.y.numpy(), seed=1, n_folds=N_FOLDS)
    assert run_seed(small("untrained"), mutag, 1).folds == expected.folds


@pytest.mark.parametrize("method", ["wl", "wl-oa"])
def test_kernels_are_computed_once_for_all_seeds(
    method: str, mutag: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gcl_hard.experiments import floors

    first = run_seed(small(method), mutag, 1)
    monkeypatch.setattr(floors, "wl_kernel", None)
    assert run_seed(small(method), mutag, 1).folds == first.folds
    assert run_seed(small(method), mutag, 2).folds != first.folds


@pytest.mark.parametrize("method", FLOORS)
def test_floors_do_not_see_labels_of_their_test_fold(method: str, mutag: GraphSet) -> None:
    """Flipping the labels of a test fold turns its accuracy a into 1 - a, and changes no choice."""
    fold = outer_folds(mutag.y.numpy(), seed=1, n_folds=N_FOLDS)[0]
    flipped = mutag.y.clone()
    flipped[fold.test] = 1 - flipped[fold.test]
    with pytest.MonkeyPatch.context() as patch:
        folds = outer_folds(mutag.y.numpy(), seed=1, n_folds=N_FOLDS)  # whatever the labels are
        for module in ("gcl_hard.evaluation.svm", "gcl_hard.evaluation.baselines"):
            patch.setattr(f"{module}.outer_folds", lambda *_, **__: folds)
        patch.setattr(protocols, "outer_folds", lambda *_, **__: folds)
        clean = run_seed(small(method), mutag, 1).folds[0]
        other = run_seed(small(method), replace(mutag, y=flipped), 1).folds[0]
    assert other.accuracy == pytest.approx(1 - clean.accuracy)
    assert other.chosen == clean.chosen
