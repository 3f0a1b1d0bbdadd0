"""What an encoder in eval mode makes of the same training samples at every look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.functional.objectives import Objective
from gcl_hard.functional.similarity import ScoreTable, local_global_scores, two_view_scores

SALT = 7
"""Apart from the draws of the batch order, which have the same seed."""
Points = dict[str, NDArray[Any]]
"""A batch as arrays: the tensors of :class:`Batch`, ``scale``, ``temperature``, ``objective``."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Anchors and candidates as the loss sees them, with their scores.

    Attributes:
        scores: float64 [A, K].
        anchors: float [A, d].
        candidates: float [K, d]; the first ``n_items`` are one of each sample.
        anchor_labels: int64 [A].
        candidate_labels: int64 [K].
        positive: int64 [A], the candidate that is an anchor's positive.
        own: int64 [A], the candidate that is the anchor itself, −1 of nodes against graphs.
        n_items: samples in the batch.
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
    def two_view(
        cls, z1: Tensor, z2: Tensor, labels: Tensor, *, temperature: float, objective: Objective
    ) -> Self:
        """Two views of B samples, 2B anchors; arguments as ``two_view_scores`` takes them."""
        scores = two_view_scores(z1, z2, labels, temperature=temperature, objective=objective)
        both, n = torch.cat([z1, z2]), len(z1)
        own = torch.arange(2 * n, device=z1.device)
        labels = labels.repeat(2)
        return cls(scores, both, both, labels, labels, own.roll(n), own, n)

    @classmethod
    def local_global(
        cls,
        nodes: Tensor,
        graphs: Tensor,
        owner: Tensor,
        labels: Tensor,
        rows: Tensor | None = None,
        *,
        temperature: float,
        objective: Objective,
    ) -> Self:
        """Some nodes of a batch against its graphs, as a loss that sees all nodes sees them.

        Args:
            nodes: float [N, d], all of them.
            graphs: float [G, d].
            owner: int64 [N], graph of each node.
            labels: int64 [G].
            rows: int64 [A], the nodes that are anchors; None for all.
            temperature: γ.
            objective: of the loss; JSD's m is of all nodes.
        """
        scale = _jsd_scale(nodes, graphs, owner) if objective == "jsd" else None
        if rows is not None:
            nodes, owner = nodes[rows], owner[rows]
        scores = local_global_scores(
            nodes, graphs, owner, labels,
            temperature=temperature, objective=objective, scale=scale,
        )  # fmt: skip
        nobody = torch.full_like(owner, -1)
        return cls(scores, nodes, graphs, labels[owner], labels, owner, nobody, len(graphs))

    def points(self) -> Points:
        """What the sets of an anchor's negatives are drawn from, without the data set."""
        tensors = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        found: Points = {name: value.cpu().numpy() for name, value in tensors.items()}
        of = self.scores
        scale, temperature = np.array(float(of.scale)), np.array(of.temperature)
        return found | {
            "scale": scale, "temperature": temperature, "objective": np.array(of.objective)
        }  # fmt: skip


def _jsd_scale(nodes: Tensor, graphs: Tensor, owner: Tensor) -> Tensor:
    """``objectives.jsd_scale`` of all nodes, without tables beside that of the scores.

    +∞, and so no hardening, also where scores overflow.
    """
    t = (nodes @ graphs.T).scatter_(1, owner[:, None], 0.0)
    largest = torch.maximum(t.amax(), -t.amin()).double()
    return torch.where(largest > 0, largest, torch.inf)


@dataclass(frozen=True, eq=False)
class Sample:
    """An encoder's view of some training samples.

    Attributes:
        batches: as the loss sees them, at least one.
        z: float [n, D], embeddings of the samples, as the classifier sees them.
        labels: int64 [n].
    """

    batches: Sequence[Batch]
    z: Tensor
    labels: Tensor

    @property
    def positives(self) -> tuple[Tensor, Tensor]:
        """Float [A, d] twice: anchors and their positives."""
        pairs = [(batch.anchors, batch.candidates[batch.positive]) for batch in self.batches]
        first, second = zip(*pairs, strict=True)
        return torch.cat(first), torch.cat(second)

    @property
    def items(self) -> Tensor:
        """Float [n, d], one of each sample, as the loss sees it."""
        return torch.cat([batch.candidates[: batch.n_items] for batch in self.batches])


def finite(*parts: Tensor) -> bool:
    """Whether there is anything to measure."""
    return all(bool(part.isfinite().all()) for part in parts)
