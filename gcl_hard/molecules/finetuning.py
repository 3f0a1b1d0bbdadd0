"""Fine-tuning on labelled molecules: by a label-aware method, or with a supervised head."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from gcl_hard.errors import InputError
from gcl_hard.evaluation.transfer import Probed, rmse, roc_auc
from gcl_hard.experiments.custom import own_part
from gcl_hard.experiments.experiment import Parts, check_finite, seeded_weights
from gcl_hard.experiments.run import Run
from gcl_hard.functional.labels import check_gap
from gcl_hard.graphs.data import GraphBatch
from gcl_hard.graphs.models import GraphModel, TwoView, encode
from gcl_hard.graphs.order import cluster_order, epoch_batches
from gcl_hard.models import evaluating
from gcl_hard.molecules.data import most_similar, tanimoto
from gcl_hard.molecules.encoders import MoleculeGIN
from gcl_hard.molecules.labelled import Labelled
from gcl_hard.molecules.settings import MoleculeConfig, label_gap
from gcl_hard.training.loop import OnEpoch, train

CALIBRATION = 10
"""Batches that calibrate the BatchNorm of an untrained encoder."""


def new_encoder(run: Run, labelled: Labelled, parts: Parts | None = None) -> MoleculeGIN:
    """The encoder that a run begins with; BatchNorm of an untrained one is calibrated.

    Args:
        run: a run with an encoder.
        labelled: its set.
        parts: encoders from files, by their names in configurations.
    """
    config = _config(run)
    if (make := own_part(config.encoder, parts)) is not None:
        return cast("MoleculeGIN", make(labelled.molecules.n_features))
    with seeded_weights(run.seed, 0):
        encoder = MoleculeGIN(**config.shape)
    norms = [part for part in encoder.modules() if isinstance(part, nn.BatchNorm1d)]
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = None  # a plain mean
    train_ids = labelled.split_of(run).train
    with torch.no_grad():
        for ids in torch.split(torch.from_numpy(train_ids), 256)[:CALIBRATION]:
            encode(encoder, labelled.molecules.batch(ids), encoder.out_dim)
    for norm, momentum in zip(norms, usual, strict=True):
        norm.momentum = momentum
    return encoder.eval()


class TargetModel(GraphModel):
    r"""The supervised baseline: an encoder and a linear head.

    .. math:: \ell = \text{mean over known targets of } \operatorname{BCE}(\hat y, y)
              \text{ or } (\hat y - y)^2

    Args:
        encoder: trained with the head.
        n_targets: T.
        classes: whether targets are 0 and 1.
        scale: mean and standard deviation of the training targets, for numbers.
    """

    def __init__(
        self, encoder: MoleculeGIN, n_targets: int, *, classes: bool, scale: tuple[float, float]
    ) -> None:
        super().__init__(encoder)
        # Sums over atoms are large, and a head that begins at 0 predicts the mean.
        self.norm = nn.LayerNorm(self.out_dim)
        self.head = nn.Linear(self.out_dim, n_targets)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.classes, self.scale = classes, scale

    def forward(self, graphs: GraphBatch) -> Tensor:
        """Loss of a batch, float []."""
        y, predicted = graphs.y.double().view(graphs.n_graphs, -1), self._targets(graphs)
        known = y.isfinite()
        if not known.any():
            return predicted.sum() * 0
        # In double precision, so that a constant added to all targets changes nothing.
        scaled = ((y[known] - self.scale[0]) / self.scale[1]).to(predicted.dtype)
        if self.classes:
            return nn.functional.binary_cross_entropy_with_logits(predicted[known], scaled)
        return nn.functional.mse_loss(predicted[known], scaled)

    def _targets(self, graphs: GraphBatch) -> Tensor:
        _, z = encode(self.encoder, graphs, self.out_dim)
        return self.head(self.norm(z))

    def predict(self, graphs: GraphBatch) -> np.ndarray[Any, Any]:
        """Logits or numbers, [G, T], in evaluation mode."""
        with evaluating(self):
            predicted = self._targets(graphs).double().numpy()
        return predicted if self.classes else predicted * self.scale[1] + self.scale[0]


def finetune(
    run: Run, labelled: Labelled, parts: Parts | None = None, on_epoch: OnEpoch | None = None
) -> tuple[MoleculeGIN, float]:
    """A run's encoder, trained by its method on its training part, and the last loss; ``parts`` as
    for :func:`new_encoder`, ``on_epoch`` as for training.
    """
    config, train_ids = _config(run), labelled.split_of(run).train
    part = labelled.molecules.take(torch.from_numpy(train_ids))
    batch_ids: list[Tensor] = []

    def weights(rows: Tensor, columns: Tensor) -> Tensor:
        a, b = (labelled.fingerprints[train_ids[batch_ids[-1][positions].numpy()]]
                for positions in (rows, columns))  # fmt: skip
        return torch.from_numpy(config.similarity * tanimoto(a, b)).float()

    encoder = new_encoder(run, labelled, parts)
    with seeded_weights(run.seed, 1) as views:
        loss = config.loss(views)
    if part.n_classes == 0:
        loss.sampler.label_gap = check_gap(label_gap(config, labelled.data.kind))
    if config.similarity:
        loss.sampler.pair_weights = weights
    with seeded_weights(run.seed, 2) as views:
        model = TwoView(
            encoder, loss=loss, augmentations=config.augmentations, strength=config.strength,
            n_views=config.views or 2, seed=views,
        )  # fmt: skip
    near = most_similar(labelled.fingerprints[train_ids]) if config.neighbours else None

    def batches(epoch: int) -> Iterator[GraphBatch]:
        drawn = [*epoch_batches(len(part), config.batch_size, seed=_order(run), epoch=epoch)]
        if near is not None:
            order = cluster_order(torch.cat(drawn).numpy(), near, config.neighbours)
            drawn = [*torch.split(torch.from_numpy(order), [*map(len, drawn)])]
        for ids in drawn:
            batch_ids[:] = [ids]
            yield part.batch(ids)

    losses = train(model, batches, config.optimisation(), on_epoch=on_epoch, setting=run.key)
    return encoder, losses[-1]


def train_head(
    run: Run, labelled: Labelled, parts: Parts | None = None, on_epoch: OnEpoch | None = None
) -> tuple[Probed, float, int]:
    """A run's encoder and a linear head trained on its training part; arguments as for
    :func:`finetune`.

    Returns:
        Predictions after the epoch that is best on the validation part, the last loss, and that
        epoch.
    """
    config, split = _config(run), labelled.split_of(run)
    y, classes = labelled.y, labelled.classes
    y_train, y_valid = y[split.train], y[split.valid]
    known = y_train[np.isfinite(y_train)]
    if not known.size:
        raise InputError(f"{run.key}: no target is known in the training part")
    scale = (0.0, 1.0) if classes else (float(known.mean()), float(known.std()) or 1.0)
    encoder = new_encoder(run, labelled, parts)
    model = TargetModel(encoder, y[:1].size, classes=classes, scale=scale)
    part = labelled.molecules.take(torch.from_numpy(split.train))
    valid, test = (
        labelled.molecules.batch(torch.from_numpy(ids)) for ids in (split.valid, split.test)
    )
    best: dict[str, Any] = {"error": np.inf}

    def ended(epoch: int, loss: float) -> None:
        if on_epoch is not None:
            on_epoch(epoch, loss)
        predicted = model.predict(valid)
        score = (
            roc_auc(y_valid, predicted.reshape(y_valid.shape)).mean
            if classes
            else rmse(y_valid, predicted[:, 0])
        )
        error = math.inf if math.isnan(score) else -score if classes else score
        if error <= best["error"]:  # the last of equally good epochs
            best.update(error=error, validation=score, test=model.predict(test), epoch=epoch)

    def batches(epoch: int) -> Iterator[GraphBatch]:
        for ids in epoch_batches(len(part), config.batch_size, seed=_order(run), epoch=epoch):
            yield part.batch(ids)

    losses = train(model, batches, config.optimisation(), on_epoch=ended, setting=run.key)
    predictions: np.ndarray[Any, Any] = best["test"]
    check_finite(predictions, run.key)
    if classes:
        tasks = y_train.reshape(len(y_train), -1).T
        predictions[:, [len(set(task[np.isfinite(task)])) < 2 for task in tasks]] = np.nan
    return (
        Probed(predictions[:, 0] if y.ndim == 1 else predictions, best["validation"]),
        losses[-1],
        best["epoch"],
    )


def _config(run: Run) -> MoleculeConfig:
    return cast("MoleculeConfig", run.config)


def _order(run: Run) -> int:
    """Seed of the batch order."""
    seed = _config(run).data_seed
    return run.seed if seed is None else seed
