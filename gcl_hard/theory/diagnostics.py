"""Diagnostics: the quantities of the theory, measured in snapshots of an encoder in training.

Measuring does not change the results of the training.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from gcl_hard.functional.hardening import Hardening
from gcl_hard.losses.loss import ContrastiveLoss
from gcl_hard.theory.assumptions import diagnose
from gcl_hard.theory.geometry import (
    alignment,
    cdnv,
    class_centres,
    effective_rank,
    equiangularity,
    equinorm,
    least_angle,
    nc1,
    packing,
    uniformity,
    widest_angle,
)
from gcl_hard.theory.optimality import cone_distance, gradient_norm, stationarity_angle
from gcl_hard.theory.similarity import (
    ScoreTable,
    cosine_histograms,
    local_global_scores,
    overlap,
    two_view_scores,
    unit,
)
from gcl_hard.theory.snapshots import OWN, Points, Snapshot, name_of, snapshot_epochs, with_own

SALT = 7
"""Separates these draws from those of the batch order, which have the same seed."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Anchors and candidates of the loss, with their scores.

    Attributes:
        scores: float64 [A, K].
        anchors: float [A, d].
        candidates: float [K, d]; the first ``n_items`` are one of each sample.
        anchor_labels: int64 [A].
        candidate_labels: int64 [K].
        positive: int64 [A], the candidate that is an anchor's positive.
        own: int64 [A], the candidate that is the anchor itself, −1 for nodes against graphs.
        n_items: number of samples in the batch.
    """

    scores: ScoreTable
    anchors: Tensor
    candidates: Tensor
    anchor_labels: Tensor
    candidate_labels: Tensor
    positive: Tensor
    own: Tensor
    n_items: int

    @classmethod
    def two_view(cls, loss: ContrastiveLoss, z1: Tensor, z2: Tensor, labels: Tensor) -> Self:
        """Two views of B samples, float [B, d] each, 2B anchors, scored as by a loss."""
        scores = two_view_scores(
            z1, z2, labels,
            temperature=loss.temperature, objective=loss.objective,
            hardness_scale=loss.hardness_scale,
        )  # fmt: skip
        both, n = torch.cat([z1, z2]), len(z1)
        index = torch.arange(2 * n, device=z1.device)
        labels = labels.repeat(2)
        return cls(scores, both, both, labels, labels, index.roll(n), index, n)

    @classmethod
    def local_global(
        cls,
        loss: ContrastiveLoss,
        nodes: Tensor,
        graphs: Tensor,
        owner: Tensor,
        labels: Tensor,
        *,
        rows: Tensor | None = None,
    ) -> Self:
        """Some nodes of a batch against its graphs, scored as by a loss over all nodes.

        Args:
            loss: the training's loss.
            nodes: float [N, d], all of them.
            graphs: float [G, d].
            owner: int64 [N], graph of each node.
            labels: int64 [G].
            rows: int64 [A], the nodes that are anchors; None for all.
        """
        by_largest = loss.hardness_scale == "batch-max"
        largest = _jsd_scale(nodes, graphs, owner) if by_largest else None
        if rows is not None:
            nodes, owner = nodes[rows], owner[rows]
        scores = local_global_scores(
            nodes, graphs, owner, labels,
            temperature=loss.temperature, objective=loss.objective,
            hardness_scale=loss.hardness_scale, largest=largest,
        )  # fmt: skip
        none = torch.full_like(owner, -1)
        return cls(scores, nodes, graphs, labels[owner], labels, owner, none, len(graphs))

    def points(self) -> Points:
        """The batch as arrays, for figures of an anchor's negatives."""
        tensors = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        points: Points = {name: value.cpu().numpy() for name, value in tensors.items()}
        scores = self.scores
        points |= {
            "temperature": np.array(scores.temperature), "objective": np.array(scores.objective)
        }  # fmt: skip
        if scores.objective == "jsd":  # under InfoNCE it is the cosine
            points["similarity"] = scores.similarity.float().cpu().numpy()
        return points


def _jsd_scale(nodes: Tensor, graphs: Tensor, owner: Tensor) -> Tensor:
    """``hardness.jsd_scale`` over all nodes; +∞, and so no hardening, also if scores overflow."""
    t = (nodes @ graphs.T).scatter_(1, owner[:, None], 0.0)
    largest = torch.maximum(t.amax(), -t.amin()).double()
    return torch.where(largest > 0, largest, torch.inf)


@dataclass(frozen=True, eq=False)
class Sample:
    """Embeddings of some training samples by an encoder in evaluation mode.

    Attributes:
        batches: the batches of the loss, at least one.
        z: float [n, D], embeddings of the samples, as the classifier uses them.
        labels: int64 [n].
    """

    batches: Sequence[Batch]
    z: Tensor
    labels: Tensor

    @property
    def positives(self) -> tuple[Tensor, Tensor]:
        """Anchors and their positives, float [A, d] each."""
        pairs = [(batch.anchors, batch.candidates[batch.positive]) for batch in self.batches]
        first, second = zip(*pairs, strict=True)
        return torch.cat(first), torch.cat(second)

    @property
    def items(self) -> Tensor:
        """One embedding per sample, as used by the loss, float [n, d]."""
        return torch.cat([batch.candidates[: batch.n_items] for batch in self.batches])


DIGITS = 6


def snapshot(sample: Sample | None, current: Hardening, epoch: int, *, last: bool) -> Snapshot:
    """Measure a sample; the result consists of plain numbers for a :class:`RunResult`.

    Args:
        sample: embeddings by an encoder; None if they are not finite.
        current: the training's hardening in this epoch.
        epoch: the epoch before the snapshot.
        last: whether it is the last snapshot, which also has histograms.

    Returns:
        The snapshot; undefined and non-finite numbers are None.
    """
    if sample is None:
        return {"epoch": epoch, "anchors": 0, "settings": {}, "geometry": {}}
    hardenings = with_own(current)
    tables = [batch.scores for batch in sample.batches]
    settings: dict[str, dict[str, Any]] = {
        name: plain(values._asdict()) for name, values in diagnose(tables, hardenings).items()
    }
    if OWN in settings:
        settings[OWN]["setting"] = name_of(current)
    cosines = cosine_histograms(sample.z, sample.labels)
    geometry = _geometry(sample) | {"overlap": overlap(cosines.same, cosines.different)}
    geometry |= _optimality(sample.batches)
    measured: Snapshot = {
        "epoch": epoch,
        "anchors": sum(len(table.t) for table in tables),
        "settings": settings,
        "geometry": plain(geometry),
    }
    if last:
        measured["histograms"] = {
            "same": cosines.same.tolist(), "different": cosines.different.tolist()
        }  # fmt: skip
    return measured


def _geometry(sample: Sample) -> dict[str, Tensor | float | None]:
    z, labels = sample.z, sample.labels
    centres = class_centres(z, labels)
    n_classes, width = centres.directions.shape
    widest = widest_angle(n_classes, width) if n_classes > 1 else None
    angles = equiangularity(z, labels)
    return {
        "alignment": alignment(*sample.positives),
        "uniformity": uniformity(sample.items),
        "effective_rank": effective_rank(z),
        "nc1": nc1(z, labels),
        "equinorm": equinorm(z, labels),
        "equiangular_spread": angles.spread,
        "equiangular_gap": angles.gap,
        "cdnv": cdnv(z, labels),
        "packing": packing(centres),
        "least_angle": torch.rad2deg(least_angle(centres.directions)),
        "widest_angle": None if widest is None else math.degrees(widest),
    }


ANCHORS = 16
"""Anchors of a batch whose optimality is measured: each needs its own least squares."""


def _optimality(batches: Sequence[Batch]) -> dict[str, float]:
    """Means of SPACL's conditions over some anchors of two views and all their others."""
    conditions: list[tuple[float, float, float]] = []
    for batch in batches:
        table, n = batch.scores, len(batch.anchors)
        if table.objective != "infonce" or bool((batch.own < 0).any()):
            continue  # not unit vectors
        anchors, z = (unit(part.double()).cpu() for part in (batch.anchors, batch.candidates))
        for i in range(0, n, -(-n // ANCHORS)):
            x, p, others = anchors[i], z[batch.positive[i]], z[table.others[i].cpu()]
            if len(others) and bool(x.any()) and bool(p.any()):
                conditions.append((
                    min(cone_distance(p, others)),
                    stationarity_angle(p, others, table.temperature),
                    gradient_norm(x, p[None], others, table.temperature),
                ))  # fmt: skip
    if not conditions:
        return {}
    cone, angle, norm = np.mean(conditions, 0)
    return {
        "cone_distance": float(cone), "stationarity_angle": math.degrees(angle),
        "gradient_norm": float(norm),
    }  # fmt: skip


def plain(value: Any) -> Any:
    """Numbers for JSON: floats in six digits, None if not finite.

    Example:
        >>> plain({"a": math.nan, "b": 1 / 3, "c": {"d": torch.tensor(2.0)}, "e": 7})
        {'a': None, 'b': 0.333333, 'c': {'d': 2.0}, 'e': 7}
    """
    if isinstance(value, Mapping):
        return {name: plain(number) for name, number in value.items()}
    if isinstance(value, Tensor):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


M = TypeVar("M")
Sampler = Callable[[M], Sample | None]
"""Returns a model's embeddings of the samples; None if they are not finite."""


@dataclass(eq=False)
class DiagnosticsCallback(Generic[M]):
    """Callback that takes snapshots of one encoder while it trains.

    Attributes:
        epochs: epochs of the training.
        every: epochs between snapshots.
        make_sampler: makes the sampler, at the first snapshot.
        snapshots: the snapshots so far.
        seconds: time that they took, including the creation of the sampler.
        points: arrays of the last epoch's snapshot.
    """

    epochs: int
    every: int
    make_sampler: Callable[[], Sampler[M]]
    snapshots: list[Snapshot] = field(default_factory=list)
    seconds: float = 0.0
    points: Points | None = None
    _sampler: Sampler[M] | None = None

    def __call__(self, epoch: int, model: M, current: Hardening) -> None:
        """Take a snapshot if the epoch has one.

        Args:
            epoch: the epoch that ended, from 1; one before the last snapshot means a restart.
            model: the model in training.
            current: the training's hardening in this epoch.
        """
        if epoch not in snapshot_epochs(self.every, self.epochs):
            return
        start = time.perf_counter()
        if self.snapshots and epoch <= self.snapshots[-1]["epoch"]:
            self.snapshots.clear()
        sample, last = self._sample(model), epoch == self.epochs
        self.snapshots.append(snapshot(sample, current, epoch, last=last))
        if sample is not None and last:
            self.points = sample.batches[0].points()
        self.seconds += time.perf_counter() - start

    def after(self, notes: dict[str, Any], epoch: int, model: M, current: Hardening) -> None:
        """Take a snapshot if the epoch has one, after those in a checkpoint's notes."""
        self.snapshots, self.seconds = notes.get("diagnostics", ([], 0.0))
        self(epoch, model, current)
        notes["diagnostics"] = [self.snapshots, self.seconds]

    def complete(self, notes: dict[str, Any], model: M) -> None:
        """Restore the snapshots of a finished training, which may predate a resume."""
        self.snapshots, self.seconds = notes["diagnostics"]
        self.points = self.last_points(model)

    def last_points(self, model: M) -> Points | None:
        """Arrays of the last epoch's snapshot, which may predate a resume."""
        if self.points is None and (sample := self._sample(model)) is not None:
            self.points = sample.batches[0].points()
        return self.points

    def _sample(self, model: M) -> Sample | None:
        """Embeddings of the samples by the model."""
        if self._sampler is None:
            self._sampler = self.make_sampler()
        return self._sampler(model)
