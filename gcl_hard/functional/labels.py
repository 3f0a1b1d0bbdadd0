"""Distances between labels beyond classes, and which pairs they make positive or negative."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import NamedTuple

import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.functional.negatives import (
    Labels,
    as_labels,
    check_labels,
    described,
    readable,
    same_label,
)

HALVES = (torch.float16, torch.bfloat16)
LabelGap = tuple[float, float]
"""(δ₊, δ₋): labels at most δ₊ apart make a positive, those more than δ₋ apart a negative."""


class Relation(NamedTuple):
    """Relation of the labels of pairs.

    Attributes:
        near: bool [A, C], pairs whose labels make them positives.
        barred: bool [A, C], pairs whose labels keep them from being negatives; under a gap there
            are pairs that are barred and not near.
    """

    near: Tensor
    barred: Tensor


def label_distance(anchors: Tensor, candidates: Tensor) -> Tensor:
    r"""Distance d between labels.

    Of classes 1[≠], of real numbers the absolute difference, and of multi-hot rows, over the T
    tasks that both know, the balanced disagreement: with :math:`n_{11}` tasks active in both,
    :math:`n_{00}` in none and :math:`n_{\ne}` in one of them,

    .. math:: d = \frac{1}{2} \left( \frac{n_{\ne}}{n_{11} + n_{\ne}}
              + \frac{n_{\ne}}{n_{00} + n_{\ne}} \right)

    so that rare active tasks count as much as frequent inactive ones. A fraction without a task is
    left out of the mean.

    Args:
        anchors: int [A] (classes), float [A] (real numbers), or [A, T] of 0, 1 and, where unknown,
            NaN.
        candidates: likewise, [C] or [C, T].

    Returns:
        float [A, C]; NaN where a real number is, or where no task is known to both.

    Example:
        >>> label_distance(torch.tensor([0, 1]), torch.tensor([1, 1]))
        tensor([[1., 1.],
                [0., 0.]])
        >>> nan = float("nan")
        >>> y = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, nan], [0.0, nan, nan]])
        >>> label_distance(y[:1], y)
        tensor([[0.0000, 0.7500, 1.0000]])
    """
    if anchors.dim() == 2:
        return _disagreement(anchors, candidates)
    if anchors.is_floating_point():
        return (anchors[:, None] - candidates).abs()
    return (anchors[:, None] != candidates).to(torch.get_default_dtype())


def _disagreement(anchors: Tensor, candidates: Tensor) -> Tensor:
    dtype = anchors.dtype if anchors.is_floating_point() else torch.get_default_dtype()
    (active, inactive), (candidate_active, candidate_inactive) = (
        ((labels == 1).to(dtype), (labels == 0).to(dtype)) for labels in (anchors, candidates)
    )
    both = active @ candidate_active.T
    neither = inactive @ candidate_inactive.T
    apart = active @ candidate_inactive.T + inactive @ candidate_active.T
    parts = torch.stack([apart / (both + apart), apart / (neither + apart)])
    return parts.nanmean(0)


def relation(anchors: Tensor, candidates: Tensor, gap: LabelGap | None) -> Relation:
    """Which pairs are positives by their labels, and which may not be negatives.

    A distance that differs from an end of the gap only by rounding counts as equal.

    Args:
        anchors: labels as for :func:`label_distance`.
        candidates: likewise.
        gap: (δ₊, δ₋), or None for classes.

    Example:
        >>> near, barred = relation(torch.tensor([0.0]), torch.tensor([0.1, 0.5, 2.0]), (0.2, 1.0))
        >>> near, barred
        (tensor([[ True, False, False]]), tensor([[ True,  True, False]]))
        >>> relation(torch.tensor([5.0]), torch.tensor([5.3]), (0.3, 1.0)).near  # 0.30000019
        tensor([[True]])
    """
    if gap is None:
        same = same_label(anchors, candidates)
        return Relation(same, same)
    anchors, candidates = _read_exactly(anchors), _read_exactly(candidates)
    distance = label_distance(anchors, candidates)
    slack = _rounding(anchors, candidates, distance)
    return Relation(distance <= gap[0] + slack, ~(distance > gap[1] + slack))


def _read_exactly(labels: Tensor) -> Tensor:
    """Labels in at least single precision, so that differences exceed their rounding."""
    return labels.float() if labels.dtype in HALVES else labels


def _rounding(anchors: Tensor, candidates: Tensor, distance: Tensor) -> Tensor | float:
    """Largest rounding error of a distance between labels.

    A number is off by half a unit in its last place; disagreements are quotients of counts.
    """
    eps = torch.finfo(distance.dtype).eps
    if anchors.dim() == 1 and anchors.is_floating_point():
        size: Tensor = anchors.abs()[:, None] + candidates.abs()
        return (eps * size).nan_to_num(0.0, posinf=0.0)
    return 4 * eps


def separated(labels: Tensor, unknown: int) -> Tensor:
    r"""Classes in which every item of unknown label has a class of its own, below 0.

    Two items then share a class only if their labels are equal and known, and an item of unknown
    label shares it with its own views alone: the admission ``"other_labels"`` becomes

    .. math:: A_{ij} = 1[\text{others}_{ij}] \, (1 - 1[y_i = y_j \ne \text{unknown}])

    Under a gap a pair with an unknown label, NaN, is neither positive nor negative; here it is a
    negative.

    Args:
        labels: int [n].
        unknown: label of items of unknown class.

    Returns:
        int64 [n]; known labels stay, unknown ones become −1 … −n, and other negative ones, which
        are no classes, the smallest integer.

    Example:
        >>> separated(torch.tensor([1, -1, 0, 1, -1]), unknown=-1)
        tensor([ 1, -2,  0,  1, -5])
    """
    labels = labels.long()
    unique = -1 - torch.arange(len(labels), device=labels.device)
    known = torch.where(labels < 0, torch.iinfo(torch.int64).min, labels)
    return torch.where(labels == unknown, unique, known)


def check_unknown(unknown: int) -> int:
    """The label of items of unknown class, checked to be an integer."""
    largest = torch.iinfo(torch.int64).max
    whole = isinstance(unknown, Integral) and not isinstance(unknown, bool)
    if not whole or abs(unknown) > largest:
        raise InputError(f"unknown must be an integer, such as -1, got {unknown!r}")
    return int(unknown)


def check_gap(gap: Sequence[float]) -> LabelGap:
    """The gap, checked: two numbers, 0 ≤ δ₊ ≤ δ₋. InputError for anything else."""
    if not isinstance(gap, list | tuple) or len(gap) != 2 or not 0 <= gap[0] <= gap[1] < math.inf:
        raise InputError(f"label_gap must be two numbers, 0 ≤ δ₊ ≤ δ₋, got {gap!r}")
    return float(gap[0]), float(gap[1])


def labels_for(
    labels: Labels | None,
    n_items: int,
    needed_by: str,
    gap: LabelGap | None,
    device: torch.device | None = None,
    *,
    unknown: int | None = None,
) -> Tensor:
    """Labels, checked: classes, and with a gap also real numbers and multi-hot rows.

    Args:
        labels: as passed by the user.
        n_items: number of items.
        needed_by: what needs the labels, for the message.
        gap: the sampler's label gap.
        device: device for labels that are not yet a tensor.
        unknown: label of items of unknown class; None if there are none, and with a gap.

    Returns:
        The labels as a tensor, [n_items] or [n_items, T].

    Raises:
        InputError: for labels of another kind or number, and for numbers in half precision whose
            spacing at the largest exceeds δ₊ or δ₋ − δ₊ (where these are not 0); on a GPU, and
            compiled, values are not read.

    Example:
        >>> labels_for([0.5, 1.5], 2, "other_labels", (0.0, 1.0))
        tensor([0.5000, 1.5000])
    """
    values = labels
    if labels is not None and gap is not None and not isinstance(labels, Tensor):
        values = as_labels(labels, device)
    beyond = isinstance(values, Tensor) and (values.dim() == 2 or values.is_floating_point())
    rows = isinstance(values, Tensor) and values.dim() == 2
    if values is not None and gap is not None and gap[1] >= 1 and (rows or not beyond):
        raise InputError(
            f"labels that are classes or multi-hot rows are at most 1 apart, none more than δ₋ = "
            f"{gap[1]:g}: lower it, or give numbers as floats"
        )
    if not beyond:
        values = labels if values is None else values
        return check_labels(values, n_items, needed_by, device, wait=False, unknown=unknown)
    assert isinstance(values, Tensor)
    if gap is None:
        column = values.dim() == 2 and values.shape[1] == 1
        remedy = "labels[:, 0]" if column else "labels.argmax(1)" if rows else "labels.long()"
        raise InputError(
            f"labels must be integers, the classes of {n_items} items, got {described(values)}: "
            f"give {remedy}{'' if column else ', or NegativeSampler(label_gap=(δ₊, δ₋))'}"
        )
    if values.dim() not in (1, 2) or len(values) != n_items:
        raise InputError(f"labels must be [{n_items}] or [{n_items}, T], got {described(values)}")
    if values.dim() == 2 and values.device.type == "cpu" and not torch.compiler.is_compiling():
        odd = ~((values == 0) | (values == 1) | values.isnan())
        if bool(odd.any()):
            raise InputError(
                f"multi-hot labels hold 0, 1 and, where unknown, NaN, got {values[odd][0].item()}"
            )
    if values.dim() == 1 and values.dtype in HALVES and readable(values):
        _check_spacing(values, gap)
    return values


def _check_spacing(labels: Tensor, gap: LabelGap) -> None:
    """InputError for labels in half precision that are spaced too widely for a gap."""
    finite = labels[labels.isfinite()].abs()
    largest = float(finite.max()) if len(finite) else 0.0
    spacing = torch.finfo(labels.dtype).eps * 2.0 ** (math.frexp(largest)[1] - 1)
    if largest and any(0 < width < spacing for width in (gap[0], gap[1] - gap[0])):
        raise InputError(
            f"labels of {labels.dtype} are {spacing:g} apart at {largest:g}, too far for "
            f"label_gap={gap}: give them as torch.float32"
        )
