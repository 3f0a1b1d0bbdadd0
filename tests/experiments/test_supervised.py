"""The supervised baseline: it ends by validation items, with the weights of its best epoch."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.evaluation import inner_holdout, outer_folds
from gcl_hard.evaluation.folds import VALIDATION
from gcl_hard.experiments.domains import from_dict
from gcl_hard.experiments.experiment import TrainedRun, silent
from gcl_hard.experiments.record import Scored
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import as_json
from gcl_hard.graphs import GraphClassifier, GraphSet
from gcl_hard.graphs import experiment as graphs
from gcl_hard.graphs.training import Encoder, train_encoders
from gcl_hard.images.experiment import ImageExperiment
from gcl_hard.images.training import build, fit_run
from gcl_hard.nodes.experiment import NodeExperiment, splits_of
from gcl_hard.nodes.settings import NodeConfig
from tests.experiments import small
from tests.experiments.made import mutag, score, train
from tests.experiments.tiny_images import few_digits, tiny_encoder
from tests.experiments.tiny_images import small as small_images
from tests.nodes.test_experiment import context as node_context
from tests.nodes.test_experiment import data

__all__ = ["mutag", "tiny_encoder"]

EPOCHS = 12
OF_NODES: dict[str, Any] = {
    "dataset": "mine", "method": "supervised", "dim": 4, "splits": 2, "supervised_lr": 0.05,
}  # fmt: skip


def of_nodes(folder: Path, **settings: Any) -> tuple[TrainedRun, Scored, list[float]]:
    """A run on nodes, what it predicts, and the shares of its progress."""
    nodes, where, shares = data(), node_context(folder), list[float]()
    run = Run(NodeConfig(**OF_NODES | settings), 0)

    def report(_: Run, share: float, loss: float) -> bool:
        shares.append(share)
        return True

    trained = NodeExperiment().train_run(run, nodes, where, report)
    return trained, NodeExperiment().score(trained, nodes, where), shares


def quality(logits: NDArray[Any], y: NDArray[Any]) -> tuple[float, float]:
    """Share of right predictions, and the mean log-probability of the right ones."""
    shifted = logits - logits.max(1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return float(np.mean(logits.argmax(1) == y)), float(log_p[np.arange(len(y)), y].mean())


def test_on_nodes_it_is_the_training_stopped_at_the_best_validation_epoch(tmp_path: Path) -> None:
    """Those of the given budget, each trained anew to its end."""
    trained, scored, _ = of_nodes(tmp_path, patience=EPOCHS, supervised_epochs=EPOCHS)
    nodes = data()
    y = nodes.y.numpy()
    ended = [of_nodes(tmp_path, patience=0, epochs=e)[0] for e in range(1, EPOCHS + 1)]
    for k, split in enumerate(splits_of(NodeConfig(**OF_NODES), nodes)):
        of_epoch = [quality(model.scores[k][split.valid], y[split.valid]) for model in ended]
        best = max(range(EPOCHS), key=of_epoch.__getitem__)
        assert scored.facts["best_epoch"][k] == best + 1
        np.testing.assert_allclose(trained.scores[k], ended[best].scores[k], rtol=1e-5, atol=1e-6)
        assert scored.validation[k] == pytest.approx(100 * of_epoch[best][0])


def test_on_nodes_it_ends_its_patience_after_the_best_epoch(tmp_path: Path) -> None:
    patience = 3
    _, scored, shares = of_nodes(tmp_path, patience=patience, supervised_epochs=400)
    epochs = [best + patience for best in scored.facts["best_epoch"]]
    assert max(epochs) < 400
    assert len(shares) == 2 * sum(epochs)  # before each epoch's batch, and after it


def test_on_graphs_it_is_the_training_stopped_at_the_best_validation_epoch(
    mutag: GraphSet, tmp_path: Path
) -> None:
    """A tenth of a fold's training graphs are held out of all training; the test fold too."""
    y, seed = mutag.y.numpy(), 2
    config = small("supervised", patience=EPOCHS, supervised_epochs=EPOCHS, supervised_lr=0.02)
    (trained,) = train([Run(config, seed)], mutag, tmp_path, save_encoder=True)
    scored, saved = score(trained, mutag, tmp_path), trained.encoders
    assert saved is not None
    for k, fold in enumerate(outer_folds(y, seed=seed, n_folds=3)):
        held = inner_holdout(fold.train, y, seed=seed, fraction=VALIDATION)
        of_epoch: list[tuple[float, float]] = []
        logits: list[NDArray[Any]] = []
        states: list[dict[str, Tensor]] = []
        for epochs in range(1, EPOCHS + 1):
            ends = replace(config, patience=0, supervised_epochs=None, epochs=epochs)
            encoder = Encoder.of_fold(ends, mutag, seed, k, held)
            (result,) = train_encoders([encoder], mutag)
            assert isinstance(result.model, GraphClassifier)
            logits.append(result.model.scores(encoder.graphs.all()).numpy())
            of_epoch.append(quality(logits[-1][held.test], y[held.test]))
            states.append(result.model.encoder.state_dict())
        best = max(range(EPOCHS), key=of_epoch.__getitem__)
        assert trained.facts["best_epoch"][k] == best + 1
        np.testing.assert_array_equal(scored[k].predicted, logits[best].argmax(1)[fold.test])
        for name, value in states[best].items():
            torch.testing.assert_close(saved["encoders"][k][name], value)
        assert saved["held_out"][k].tolist() == fold.test.tolist()
        assert saved["validation"][k].tolist() == held.test.tolist()


def test_every_class_is_held_out_where_a_tenth_is_fewer(tmp_path: Path) -> None:
    pair = torch.tensor([[0, 1], [1, 0]])
    graphs = GraphSet.from_graphs(
        [
            SimpleNamespace(x=None, edge_attr=None, edge_index=pair, y=k % 5, num_nodes=2 + k % 5)
            for k in range(45)
        ]
    )
    (trained,) = train(
        [Run(small("supervised", supervised_epochs=3), 0)], graphs, tmp_path, save_encoder=True
    )
    assert trained.error is None
    assert trained.encoders is not None
    for valid in trained.encoders["validation"]:
        assert torch.bincount(graphs.y[valid]).min() >= 1


SCORES = (0, 2, 1, 1, 3, 0, 0, 0, 0, 4, *(0,) * 50)
"""Of validation graphs after each epoch: the best ones are 2, 5 and 10."""


def test_encoders_of_one_ensemble_end_by_themselves(
    mutag: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each after its own patience, whatever rounding does to what is scored."""
    epochs = Counter[GraphClassifier]()

    def scored(model: GraphClassifier, graphs: Any) -> Tensor:
        epochs[model] += 1
        return torch.full((graphs.n_graphs, 2), float(SCORES[epochs[model] - 1]))

    monkeypatch.setattr(GraphClassifier, "scores", scored)
    monkeypatch.setattr(graphs, "score_of_logits", lambda logits, y: float(logits[0, 0]))
    patience = {1: 2, 2: 2, 3: 5, 4: 5, 5: 10, 30: 10}
    runs = [Run(small("supervised", patience=n, supervised_epochs=60), 3) for n in patience]
    trained = train(runs, mutag, tmp_path)
    assert [run.facts["best_epoch"] for run in trained] == [
        [best] * 3 for best in patience.values()
    ]
    ended = sorted(epochs.values())  # predicting the test fold takes one more
    assert ended == sorted(3 * [best + n + 1 for n, best in patience.items()])


def test_a_record_of_before_was_trained_to_its_end() -> None:
    now = NodeConfig("Cora", "supervised")
    stored = {name: value for name, value in as_json(now).items() if "supervised_" not in name}
    del stored["patience"]
    before = from_dict(stored, "nodes", recorded=True)
    assert before == NodeConfig("Cora", "supervised", patience=0)
    assert before.key() != now.key()
    assert (before.most_epochs, now.most_epochs) == (200, 1000)


def test_on_images_it_is_the_training_stopped_at_the_best_validation_epoch(
    tmp_path: Path, tiny_encoder: None
) -> None:
    """A tenth of the training images, at least one of each class, are held out for this."""
    seed, epochs = 2, 8
    images, where = few_digits(), node_context(tmp_path)
    config = small_images(
        "supervised", patience=epochs, supervised_epochs=epochs, supervised_lr=0.01
    )
    (run,) = ImageExperiment().train([Run(config, seed)], images, where, silent)
    scored = ImageExperiment().score(run, images, where)
    labels = images.pretrain.labels.numpy()
    held = inner_holdout(np.arange(120), labels, seed=seed, fraction=VALIDATION)
    kept, valid = (images.pretrain.take(torch.from_numpy(ids)) for ids in (held.train, held.test))
    assert set(valid.labels.tolist()) == set(range(10))
    of_epoch, embedded = list[tuple[float, float]](), list[NDArray[Any]]()
    for n in range(1, epochs + 1):
        ends = replace(config, patience=0, supervised_epochs=None, epochs=n)
        encoding = build(ends, images, seed)
        trained = TrainedRun(Run(ends, seed))
        part = replace(images, pretrain=kept)
        fit_run(trained, part, encoding, node_context(tmp_path / str(n)), silent)
        with torch.no_grad():
            logits = encoding.model.head(torch.from_numpy(encoding.embed(valid, ends)))
        of_epoch.append(quality(logits.numpy(), valid.labels.numpy()))
        embedded.append(encoding.embed(images.test, ends))
    best = max(range(epochs), key=of_epoch.__getitem__)
    assert scored.facts["best_epoch"] == best + 1
    np.testing.assert_allclose(run.embeddings[1], embedded[best], rtol=1e-5, atol=1e-6)
