"""Negatives: the admission of candidates, and their distribution q in log space.

Masks are anchors × candidates. For q: expectations, draws, debiasing and concentration.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from gcl_hard.core.tracing import transformed
from gcl_hard.errors import InputError

__all__ = [
    "debiased",
    "draw",
    "effective_negatives",
    "expectation",
    "local_global_others",
    "log_debiased",
    "log_expectation",
    "log_negative_distribution",
    "masked_logsumexp",
    "same_label",
    "same_label_weight",
    "view_others",
]


def view_others(n_items: int, views: int = 2, device: torch.device | None = None) -> Tensor:
    """The ``others`` of every embedding of stacked views: all but the views of its own item.

    Args:
        n_items: B, number of items; rows i, i + B, … are the views of item i.
        views: V, number of views.
        device: where the mask is made.

    Returns:
        bool [VB, VB]; row sums are V (B − 1).

    Example:
        >>> view_others(2).int()
        tensor([[0, 1, 0, 1],
                [1, 0, 1, 0],
                [0, 1, 0, 1],
                [1, 0, 1, 0]], dtype=torch.int32)
    """
    same_item = torch.eye(n_items, dtype=torch.bool, device=device)
    return ~same_item.tile(views, views)


def local_global_others(batch: Tensor, n_graphs: int) -> Tensor:
    """The ``others`` of every node: all graphs but its own.

    Args:
        batch: int64 [N], graph of each node, 0 … n_graphs − 1.
        n_graphs: G.

    Returns:
        bool [N, G]; row sums are G − 1.

    Example:
        >>> local_global_others(torch.tensor([0, 0, 1]), 2).int()
        tensor([[0, 1],
                [0, 1],
                [1, 0]], dtype=torch.int32)
    """
    return batch[:, None] != torch.arange(n_graphs, device=batch.device)


def same_label(anchor_labels: Tensor, candidate_labels: Tensor) -> Tensor:
    """Which candidates have the anchor's label.

    Args:
        anchor_labels: int [A].
        candidate_labels: int [C].

    Returns:
        bool [A, C].

    Example:
        >>> same_label(torch.tensor([0, 1]), torch.tensor([1, 1, 0])).int()
        tensor([[0, 0, 1],
                [1, 1, 0]], dtype=torch.int32)
    """
    return anchor_labels[:, None] == candidate_labels


Labels = Tensor | Sequence[int]
"""Class labels: an integer tensor, a list, or anything that PyTorch can convert to one."""


def check_labels(
    labels: Labels | None,
    n_items: int,
    needed_by: str,
    device: torch.device | None = None,
    *,
    wait: bool = True,
    unknown: int | None = None,
) -> Tensor:
    """Labels, checked to be class labels.

    Args:
        labels: class of each item, integers [n_items], ≥ 0.
        n_items: number of items.
        needed_by: what needs the labels, for the message.
        device: device for labels that are not yet a tensor.
        wait: whether to wait for a GPU, or leave a compiled graph, to find negative labels; see
            :func:`nan_if_negative`.
        unknown: label of items of unknown class, of any sign; None if there are none.

    Returns:
        The labels as a tensor.

    Raises:
        InputError: if they are missing, of another length or dtype, or negative (the −1 of
            unlabelled splits would make one class of all unlabelled items).

    Example:
        >>> check_labels(torch.tensor([0, 1]), 2, needed_by="scl")
        tensor([0, 1])
    """
    if labels is None:
        raise InputError(f"{needed_by} needs labels: pass an integer tensor of shape [{n_items}]")
    if not isinstance(labels, Tensor):
        labels = as_labels(labels, device)
        labels = labels if labels.numel() else labels.long()  # an empty list is of float
    if labels.dtype in (torch.uint16, torch.uint32, torch.uint64):
        labels = labels.long()  # PyTorch has no min of these
    if labels.shape != (n_items,) or not is_integer(labels):
        raise InputError(f"labels must be integers [{n_items}], got {described(labels)}")
    if wait or readable(labels):
        _check_classes(labels, needed_by, unknown)
    return labels


def _check_classes(labels: Tensor, needed_by: str, unknown: int | None) -> None:
    negative = labels[labels < 0].long()
    if unknown is not None:
        negative = negative[negative != unknown]
    if not len(negative):
        return
    least = int(negative.min())
    if unknown is not None:
        raise InputError(f"labels must be at least 0, or {unknown} where unknown, got {least}")
    raise InputError(
        f"labels must be at least 0, got {least}: {needed_by} needs the class of each item, unless "
        f"unknown={least} marks those of unknown class"
    )


def as_labels(labels: Any, device: torch.device | None = None) -> Tensor:
    """Lists and arrays as a tensor; InputError for what is none."""
    try:
        return torch.as_tensor(labels, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"labels or ids must be numbers, one per item: {error}") from error


def is_integer(values: Tensor) -> bool:
    """Whether a tensor holds integers, truth values apart."""
    real = values.is_floating_point() or values.is_complex()
    return not real and values.dtype != torch.bool


def described(value: object) -> str:
    """A tensor's dtype and shape, or a type, for messages.

    Example:
        >>> described(torch.ones(2)), described([])
        ('torch.float32 [2]', 'list')
    """
    return f"{value.dtype} {[*value.shape]}" if isinstance(value, Tensor) else type(value).__name__


def check_dense(values: Tensor, description: str) -> None:
    """InputError for a sparse tensor; ``description`` begins with its name."""
    if values.layout != torch.strided:
        raise InputError(f"{description} must be dense, got {values.layout}: give to_dense()")


def readable(values: Tensor) -> bool:
    """Whether values can be read without waiting for a device or leaving a compiled graph."""
    return values.device.type == "cpu" and not torch.compiler.is_compiling()


def all_finite(tensors: Iterable[Tensor]) -> bool:
    """Whether all numbers of some tensors are finite; waits once for a device.

    Example:
        >>> all_finite([torch.ones(2), torch.tensor([math.nan])]), all_finite([])
        (False, True)
    """
    finite = [x.isfinite().all() for x in tensors]
    return not finite or bool(torch.stack(finite).all())


def warn_of_clamping(clamped: Tensor, total: float | Tensor, class_prior: float) -> None:
    """Warn if more than half of the anchors are clamped, on a CPU, where it is known at once.

    Args:
        clamped: number or weight of the anchors whose debiased expectation is at its bound.
        total: number or weight of all anchors.
        class_prior: τ⁺.
    """
    if clamped.device.type == "cpu" and not transformed() and bool(2 * clamped > total):
        warnings.warn(
            f"more than half of the anchors of a batch are clamped at class_prior {class_prior:g}, "
            f"and have no gradient from their negatives: lower it",
            stacklevel=2,
        )


def nan_if_negative(loss: Tensor, labels: Tensor, least: int = 0) -> Tensor:
    """The loss, or NaN if a label is below ``least``: a check that waits for no device.

    Example:
        >>> nan_if_negative(torch.ones(()), torch.tensor([0, -1]))  # has been read
        tensor(1.)
    """
    if readable(labels) or labels.is_floating_point() or labels.dim() > 1:
        return loss
    return torch.where((labels < least).any(), math.nan, loss)


def check_local_global(nodes: Tensor, graphs: Tensor, batch: Tensor) -> None:
    """Check that embeddings of nodes and graphs match.

    Args:
        nodes: must be [N, d].
        graphs: must be [G, d].
        batch: must be int64 [N], 0 … G − 1; on a GPU, and compiled, its values are not read.

    Raises:
        InputError: if they do not; names the shapes or values.

    Example:
        >>> check_local_global(torch.ones(3, 2), torch.ones(2, 2), torch.tensor([0, 0, 1]))
    """
    if nodes.shape[1:] != graphs.shape[1:] or batch.shape != nodes.shape[:1]:
        got = ", ".join(map(described, (nodes, graphs, batch)))
        raise InputError(f"nodes, graphs and batch must be [N, d], [G, d] and [N], got {got}")
    if len(batch) and readable(batch) and not within(batch, len(graphs)):
        raise InputError(f"batch must number the graphs of the nodes, 0 to {len(graphs) - 1}")


def within(ids: Tensor, n: int) -> bool:
    """Whether ids, one or more, are from 0 to n − 1."""
    least, most = ids.aminmax()
    return bool((least >= 0) & (most < n))


def mean_or_nan(values: Tensor, mask: Tensor) -> float:
    """Mean of the marked entries as a Python number; NaN if there are none.

    Args:
        values: float, any shape.
        mask: bool, the same shape.

    Example:
        >>> mean_or_nan(torch.tensor([1.0, 3.0, 9.0]), torch.tensor([True, True, False]))
        2.0
    """
    return values[mask].mean().item()


def masked_logsumexp(values: Tensor, mask: Tensor) -> Tensor:
    """Log-sum-exp of the marked entries of each row, with a finite gradient in empty rows.

    Args:
        values: float [A, C].
        mask: bool [A, C].

    Returns:
        float [A, 1]; log C, a meaningless number, in rows without a marked entry.

    Example:
        >>> masked_logsumexp(torch.tensor([[0.0, 0.0, 9.0]]), torch.tensor([[True, True, False]]))
        tensor([[0.6931]])
    """
    none = ~mask.any(1, keepdim=True)
    return torch.where(mask, values, -math.inf).masked_fill(none, 0.0).logsumexp(1, keepdim=True)


def log_negative_distribution(log_eta: Tensor, admitted: Tensor) -> tuple[Tensor, Tensor]:
    r"""Log q: admission times hardening, normalised per anchor.

    .. math:: \log q_{ij} = \log \eta_{ij} + \log 1[\text{admitted}_{ij}]
              - \operatorname{logsumexp}_j (\ldots)

    Entries that are not admitted may hold anything, NaN included: they affect neither the value
    nor the gradient.

    Args:
        log_eta: float [A, C], log hardening; −inf where η is 0.
        admitted: bool [A, C].

    Returns:
        ``log_q`` float [A, C], −inf where a candidate has no weight, and ``empty`` bool [A]:
        anchors without a negative. Their row of ``log_q`` is uniform, so that no NaN arises later;
        leave them out of the loss.

    Source:
        q_H-SCL of the H-SCL paper, section III-C.

    Example:
        >>> log_q, empty = log_negative_distribution(torch.zeros(1, 3),
        ...                                          torch.tensor([[True, True, False]]))
        >>> log_q.exp()
        tensor([[0.5000, 0.5000, 0.0000]])
    """
    log_eta = log_eta.masked_fill(~admitted, -math.inf)
    empty = (log_eta == -math.inf).all(1)
    return log_eta.masked_fill(empty[:, None], 0.0).log_softmax(1), empty


def log_expectation(log_q: Tensor, t: Tensor) -> Tensor:
    r"""Log E_q[e^t] of each anchor.

    .. math:: \log \mathbb{E}_q[e^t] = \operatorname{logsumexp}_j (\log q_{ij} + t_{ij})

    Args:
        log_q: float [A, C].
        t: float [A, C], logits; ignored where ``log_q`` is −inf.

    Returns:
        float [A].

    Example:
        >>> log_expectation(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[1.0, 1.0]]))
        tensor([1.])
    """
    kept = log_q > -math.inf
    return (log_q + torch.where(kept, t, 0.0)).logsumexp(1)


def expectation(log_q: Tensor, h: Tensor) -> Tensor:
    r"""E_q[h] of each anchor.

    .. math:: \mathbb{E}_q[h] = \sum_j q_{ij} h_{ij}

    Args:
        log_q: float [A, C].
        h: float [A, C], values; ignored where ``log_q`` is −inf.

    Returns:
        float [A].

    Example:
        >>> expectation(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[1.0, 3.0]]))
        tensor([2.])
    """
    kept = log_q > -math.inf
    return (log_q.exp() * torch.where(kept, h, 0.0)).sum(1)


def draw(log_q: Tensor, k: int, generator: torch.Generator | None = None) -> Tensor:
    """Draw k candidates per anchor from q, with replacement.

    Args:
        log_q: float [A, C]; the draws carry no gradient.
        k: draws per anchor, ≥ 1.
        generator: random generator on the device of ``log_q``.

    Returns:
        int64 [A, k], indices of candidates.

    Source:
        ψ_k of the H-SCL paper, section III-A.

    Example:
        >>> draw(torch.tensor([[0.0, 1.0]]).log(), k=3)
        tensor([[1, 1, 1]])
    """
    return torch.multinomial(log_q.detach().exp(), k, replacement=True, generator=generator)


def log_debiased(log_e: Tensor, log_e_pos: Tensor, class_prior: float, clamp: float) -> Tensor:
    r"""Log of the debiased expectation, clamped from below.

    .. math:: E^- = \max\left\{
              \frac{E_q[e^t] - \tau^+ E_{q^+}[e^t]}{1 - \tau^+},\; e^{\text{clamp}} \right\}

    Args:
        log_e: float [A], log E_q[e^t].
        log_e_pos: float [A], log E_{q⁺}[e^t], over the anchor's positives.
        class_prior: τ⁺ in [0, 1): probability that a candidate shares the anchor's class.
        clamp: log of the smallest value allowed; the smallest log e^t is −1/γ.

    Returns:
        float [A]; its gradient is zero where it is clamped.

    Source:
        Robinson et al. (2021), Eq. 2, without a clamp. The clamp is that of their code: e^{−1/γ}
        for the mean and so N e^{−1/γ} for the sum (their N is our weight M); their Fig. 5 has
        e^{−1/t} for the sum.

    Example:
        >>> log_debiased(torch.zeros(1), torch.zeros(1), class_prior=0.1, clamp=-2.0).abs() < 1e-6
        tensor([True])
    """
    if class_prior == 0.0:
        return log_e.clamp(min=clamp)
    gap = log_e_pos + math.log(class_prior) - log_e
    above = gap < 0
    # log(1 − e^gap) is taken only where it is defined: elsewhere its gradient would be NaN.
    rest = torch.log(-torch.expm1(torch.where(above, gap, -1.0)))
    debiased = log_e + rest - math.log1p(-class_prior)
    debiased = torch.where(above, debiased, clamp).clamp(min=clamp)
    warn_of_clamping((debiased.detach() <= clamp).sum(), debiased.numel(), class_prior)
    return debiased


def debiased(e: Tensor, e_pos: Tensor, class_prior: float) -> Tensor:
    r"""The debiased expectation of a non-negative integrand, clamped at 0.

    .. math:: E^- = \max\left\{ \frac{E_q[h] - \tau^+ E_{q^+}[h]}{1 - \tau^+},\; 0 \right\}

    Args:
        e: float [A], E_q[h], h = softplus(t) for JSD.
        e_pos: float [A], E_{q⁺}[h].
        class_prior: τ⁺ in [0, 1).

    Returns:
        float [A].

    Source:
        Robinson et al. (2021), Eq. 2, by analogy for the JSD objective.

    Example:
        >>> debiased(torch.tensor([1.0]), torch.tensor([1.0]), class_prior=0.5)
        tensor([1.])
    """
    debiased = ((e - class_prior * e_pos) / (1 - class_prior)).clamp(min=0.0)
    if class_prior:
        warn_of_clamping((debiased.detach() <= 0).sum(), debiased.numel(), class_prior)
    return debiased


def effective_negatives(log_q: Tensor) -> Tensor:
    r"""Effective number of negatives, 1 / Σ q².

    .. math:: 1 / \textstyle\sum_j q_{ij}^2

    Args:
        log_q: float [A, K], −inf where q has no weight.

    Returns:
        float64 [A], from 1 (a single negative) to the number of candidates with weight; 0 for a
        row without weight.

    Source:
        Kish (1965), the effective sample size of weights.

    Example:
        >>> effective_negatives(torch.tensor([[0.5, 0.5, 0.0]]).log())
        tensor([2.0000], dtype=torch.float64)
    """
    squares = log_q.detach().double().exp().square().sum(1)
    return torch.where(squares > 0, 1 / squares, 0.0)


def same_label_weight(log_q: Tensor, same: Tensor) -> Tensor:
    r"""Weight of q on candidates with the anchor's own label.

    .. math:: \textstyle\sum_j q_{ij}\, 1[y_j = y_i]

    For the q of H-UCL this is α_Hcol / α_H-UCL.

    Args:
        log_q: float [A, K], −inf where q has no weight.
        same: bool [A, K].

    Returns:
        float64 [A], from 0 to 1.

    Source:
        Class collisions of the H-SCL paper, sections I and IV.

    Example:
        >>> same = torch.tensor([[True, False, False]])
        >>> same_label_weight(torch.tensor([[0.25, 0.75, 0.0]]).log(), same)
        tensor([0.2500], dtype=torch.float64)
    """
    return torch.where(same, log_q.detach().double().exp(), 0.0).sum(1)
