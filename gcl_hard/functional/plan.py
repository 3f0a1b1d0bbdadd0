"""A batch and its loss, as the dense, the streamed and the fused executor take them.

Each is a function of a :class:`Pairing` and a :class:`Plan` that returns :class:`Totals`: means are
taken inside, as streaming drops the terms. :func:`gcl_hard.functional.jsd.counted_jsd` is apart, as
its models share counted colours instead of anchors, and have one loss each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn

from gcl_hard.errors import InputError, check_number
from gcl_hard.functional.hardening import Hardening
from gcl_hard.functional.hardness import HardnessScale, bounded
from gcl_hard.functional.labels import LabelGap
from gcl_hard.functional.negatives import readable
from gcl_hard.functional.objectives import Objective


class Pairing(NamedTuple):
    """Anchors and candidates."""

    anchors: Tensor  # [A, d]
    candidates: Tensor  # [C, d]
    items: Tensor  # int64 [A], items of the anchors
    columns: Tensor  # int64 [C], items of the candidates
    n_items: int  # of the batch, further candidates apart
    n_others: int  # of an anchor
    n_anchors: int  # of all processes
    labels: Tensor | None  # of the candidates, [C] or [C, T]; None if nothing needs them
    known: Callable[[], Tensor] | None  # reads labels that the loss itself does not need
    me: Tensor | None = None  # int64 [A], columns that are the anchors; None for nodes
    n_views: int = 1  # of an item
    positives: Tensor | None = None  # [A, P, d], of each anchor, unless they are candidates
    synthetic: tuple[Tensor, Tensor] | None = None  # [A, K, d], and bool [A, K], which are real

    @property
    def label_columns(self) -> Tensor:
        """Columns that have the anchors' labels, int64 [A]."""
        return self.items if self.me is None else self.me

    @property
    def by_class(self) -> bool:
        """Whether labels are classes, below 0 where unknown."""
        labels = self.labels
        return labels is not None and labels.dim() == 1 and not labels.is_floating_point()

    def item_columns(self) -> Tensor:
        """Columns of the anchor's item, int64 [A, V]; the anchor itself first."""
        if self.me is None:
            return self.items[:, None]
        n = self.n_views * self.n_items
        steps = self.n_items * torch.arange(self.n_views, device=self.me.device)
        return (self.me[:, None] + steps) % n

    def rows(self, at: slice | Tensor) -> Self:
        """Some of the anchors."""
        me, positives = (None if x is None else x[at] for x in (self.me, self.positives))
        synthetic = self.synthetic
        if synthetic is not None:
            synthetic = synthetic[0][at], synthetic[1][at]
        return self._replace(
            anchors=self.anchors[at], items=self.items[at], me=me, positives=positives,
            synthetic=synthetic,
        )  # fmt: skip

    def detached(self, *, anchors: bool = True) -> Self:
        """A copy without gradients, or with those of the anchors alone."""
        return self._replace(
            anchors=self.anchors.detach() if anchors else self.anchors,
            candidates=self.candidates.detach(),
            positives=None if self.positives is None else self.positives.detach(),
        )


class Plan(NamedTuple):
    """A loss and its sampler, a :class:`gcl_hard.NegativeSampler`, as they are in this epoch."""

    sampler: Callable[..., tuple[Tensor, Tensor]]  # log q, and which anchors are empty
    log_eta: Callable[..., Tensor]  # of the sampler
    log_weights: Callable[[Tensor, Tensor, torch.dtype], Tensor | None]  # of the sampler
    sample: Callable[[Tensor, Tensor], Tensor] | None  # of the sampler, if it draws
    hardening: Hardening
    admit: str
    label_gap: LabelGap | None
    objective: Objective
    temperature: Any  # float, or a tensor if it is learned
    scale: HardnessScale | None  # of JSD
    class_positives: bool  # whether the positives of a view are the items of its class
    pooled: bool  # whether positives are summed inside the logarithm
    weight: Literal["others", "kept"] | float
    class_prior: float | None
    detach: bool  # whether q is a constant to the gradient
    reduction: str
    raw: bool = False  # whether scores come from any model, without bounds

    @property
    def bounded(self) -> bool:
        """Whether a hardening sees cosines, or a stand-in for them."""
        return not self.raw and (self.scale is None or bounded(self.scale))

    def log_m(self, n_others: int) -> float | None:
        """Log M; None if it depends on the kept negatives."""
        if self.weight == "kept":
            return None
        if self.weight == "others":
            return math.log(max(n_others, 1))
        check_number("weight", self.weight, above=0)
        return math.log(self.weight)


class Totals(NamedTuple):
    """Terms of the anchors, summed."""

    total: Tensor  # of all terms (reduction pairs) or of the anchors' means; [A], the means (none)
    number: Tensor  # int64 [A], positives of each anchor
    empty: Tensor  # bool [A], anchors without a negative

    @classmethod
    def of(cls, total: Tensor, number: Tensor, empty: Tensor, reduction: str) -> Self:
        """Totals of terms that have been summed over positives, [A]."""
        total = torch.where((number > 0) & ~empty, total, 0.0)
        if reduction != "pairs":
            total = total / number.clamp(min=1)
        return cls(total if reduction == "none" else total.sum(), number, empty)


def divisor(gamma: float | Tensor) -> Tensor | float:
    """The temperature; for a learned one that has left (0, ∞) an error, or NaN on a GPU."""
    if (not isinstance(gamma, nn.Parameter) or readable(gamma)) and gamma <= 0:
        raise InputError(
            f"temperature must be above 0, got {float(gamma):.3g}: clamp a learned one after a step"
        )
    return torch.where(gamma > 0, gamma, math.nan) if isinstance(gamma, nn.Parameter) else gamma


def unit(z: Tensor) -> Tensor:
    """Rows scaled to length 1, of any magnitude; zero rows stay zero, with a finite gradient."""
    largest = z.detach().abs().amax(-1, keepdim=True)
    z = z / torch.where(largest == 0, 1.0, largest)
    norm = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    return z / torch.where(norm == 0, 1.0, norm)
