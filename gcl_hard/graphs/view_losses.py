"""Losses of two-view models that train as an ensemble."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gcl_hard.functional.hardening import Exponential, Threshold, Uniform
from gcl_hard.functional.labels import separated
from gcl_hard.functional.negatives import nan_if_negative
from gcl_hard.functional.stacked import Stack, stacked_infonce
from gcl_hard.losses.loss import ContrastiveLoss
from gcl_hard.losses.sampling import NegativeSampler


class _Form(NamedTuple):
    """Settings shared by losses that are computed together."""

    class_positives: bool
    reads_labels: bool
    unknown: int | None
    weight: float | str
    detach: bool
    reduction: str


class ViewLosses:
    """Losses of several models on the same views, in the current epoch.

    On a GPU losses of one form, which differ in hardness, temperature and admission, are computed
    together, so that a step has as many operations with eight models as with one. Other losses,
    and all losses on a CPU, where that is faster, are computed one by one.

    Args:
        losses: losses of the models, in order.
        like: a tensor with the dtype and device of the embeddings.
    """

    def __init__(self, losses: Sequence[ContrastiveLoss], like: Tensor) -> None:
        self.losses = losses
        self._alone: list[int] = []
        forms: dict[_Form, list[int]] = {}
        for number, loss in enumerate(losses):
            form = None if like.device.type == "cpu" else form_of(loss)
            if form is None:
                self._alone.append(number)
            else:
                forms.setdefault(form, []).append(number)
        self._together = [
            (
                form,
                torch.tensor(rows, device=like.device),
                _stack(form, [losses[row] for row in rows], like),
            )
            for form, rows in forms.items()
        ]
        order = [row for rows in forms.values() for row in rows] + self._alone
        self._back = torch.tensor(order, device=like.device).argsort()

    def __call__(self, z: Tensor, n_views: int, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of every model, float [P], and its number of contributing anchors, int64 [P].

        Args:
            z: float [P, V G, d], view after view.
            n_views: V.
            labels: int64 [G].
        """
        losses: list[Tensor] = []
        used: list[Tensor] = []
        n_others = max(z.shape[1] - n_views, 1)
        for form, rows, stack in self._together:
            weight = n_others if form.weight == "others" else float(form.weight)
            settings = stack._replace(log_m=math.log(weight))
            classes = None
            if form.reads_labels:
                classes = labels if form.unknown is None else separated(labels, form.unknown)
            values, n = stacked_infonce(z[rows], n_views, settings, classes)
            if classes is not None:
                least = 0 if form.unknown is None else -len(classes)
                values = nan_if_negative(values, classes, least)
            losses.append(values)
            used.append(n)
        for row in self._alone:
            loss = self.losses[row]
            loss.counts = None
            losses.append(loss(z[row].chunk(n_views), labels=labels)[None])
            counts = {"contributing": z.shape[1]} if loss.counts is None else loss.counts
            used.append(torch.as_tensor(counts["contributing"], device=z.device)[None])
        return torch.cat(losses)[self._back], torch.cat(used)[self._back]


def form_of(loss: ContrastiveLoss) -> _Form | None:
    """Settings shared with losses that are computed together; None if it is computed alone."""
    sampler = loss.sampler
    plain = (
        type(loss) is ContrastiveLoss and type(sampler) is NegativeSampler
        and loss.objective == "infonce" and loss.positives in ("view", "class")
        and sampler.admit in ("others", "other_labels") and sampler.draws is None
        and sampler.pair_weights is None and sampler.synthetic is None
        and sampler.label_gap is None and loss.pooling == "pair" and loss.weight != "kept"
        and loss.class_prior is None and not loss.detach_candidates and loss.reduction != "none"
        and loss.negatives == "local" and loss.on_empty == "skip"
        and isinstance(loss.temperature, int | float)
        and type(sampler.current) in (Uniform, Exponential, Threshold)
    )  # fmt: skip
    if not plain:
        return None
    by_class = loss.positives == "class"
    reads = by_class or sampler.needs_labels
    return _Form(
        by_class, reads, loss.unknown if reads else None, loss.weight, loss.detach_weights,
        loss.reduction,
    )  # fmt: skip


def _stack(form: _Form, losses: Sequence[ContrastiveLoss], like: Tensor) -> Stack:
    """The settings of losses of one form in the current epoch."""
    hardenings = [loss.sampler.current for loss in losses]
    bounds = [h.least(like.dtype) if isinstance(h, Threshold) else None for h in hardenings]
    numbers = [
        [h.slope(loss.temperature) or 0.0 for h, loss in zip(hardenings, losses, strict=True)],
        [loss.temperature for loss in losses],
        [-math.inf if bound is None else bound for bound in bounds],
    ]
    slope, temperature, limit = torch.tensor(numbers, dtype=like.dtype).to(like.device)
    other = torch.tensor([loss.sampler.needs_labels for loss in losses]).to(like.device)
    return Stack(
        slope, temperature, limit, other, 0.0, form.class_positives, form.detach, form.reduction
    )
