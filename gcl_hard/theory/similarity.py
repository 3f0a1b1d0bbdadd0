"""Similarities of embeddings: score tables for comparing losses, and cosine histograms.

Everything is computed in float64 and without a gradient.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from gcl_hard.errors import InputError, check_at_least, check_number
from gcl_hard.functional import negatives, objectives
from gcl_hard.functional.hardening import Hardening, Rows, as_hardening
from gcl_hard.functional.hardness import (
    DEFAULT_SCALE,
    TEMPERATURE,
    HardnessScale,
    bounded,
    jsd_hardness,
    norms,
)
from gcl_hard.functional.objectives import Objective

BLOCK = 1024
"""Rows of a histogram whose cosines with all others are computed at once."""


def embeddings(z: Tensor, name: str = "z", at_least: int = 1) -> Tensor:
    """Embeddings in float64, detached and checked.

    Args:
        z: float [n, d], n ≥ ``at_least``, d ≥ 1, finite.
        name: the argument's name, for the message.
        at_least: smallest number of rows.

    Returns:
        float64 [n, d].

    Raises:
        InputError: for another shape or dtype, or a value that is not finite.

    Example:
        >>> embeddings(torch.ones(1, 2)).dtype
        torch.float64
    """
    fits = z.dim() == 2 and len(z) >= at_least and z.shape[1] >= 1
    if not fits or not z.is_floating_point():
        got = negatives.described(z)
        raise InputError(f"{name} must be float [n, d], n at least {at_least}, got {got}")
    if not bool(z.isfinite().all()):
        raise InputError(f"{name} must be finite, got {int((~z.isfinite()).sum())} NaN or infinite")
    return z.detach().double()


def unit(z: Tensor) -> Tensor:
    """Rows scaled to length 1; a row of zeros stays zero, at cosine 0 to every other.

    Args:
        z: float64 [n, d].

    Returns:
        float64 [n, d].

    Example:
        >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]], dtype=torch.float64))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]], dtype=torch.float64)
    """
    return F.normalize(z, dim=1, eps=torch.finfo(z.dtype).tiny)


class ScoreTable(NamedTuple):
    """Scores of a batch, anchors × candidates, with one positive for each anchor.

    Attributes:
        t: float64 [A, K], t = s / γ (InfoNCE) or raw dot products (JSD); may hold anything, NaN
            included, outside ``others``.
        others: bool [A, K], candidates that are neither the anchor nor its other view (nor its
            own graph).
        same: bool [A, K], whether the candidate has the anchor's label.
        t_pos: float64 [A], t⁺ of the anchor's positive.
        temperature: γ > 0 of the hardening.
        similarity: float64 [A, K], input of a hardening: cosines, or hardness under JSD; may hold
            anything outside ``others``.
        objective: ``"infonce"``, whose integrand h is e^t, or ``"jsd"``, with softplus(t).
        bounded: whether similarities are in [−1, 1]; else they are in deviations.
    """

    t: Tensor
    others: Tensor
    same: Tensor
    t_pos: Tensor
    temperature: float
    similarity: Tensor
    objective: Objective
    bounded: bool = True


def two_view_scores(
    z1: Tensor,
    z2: Tensor,
    labels: Tensor,
    *,
    temperature: float = 0.5,
    objective: Objective = "infonce",
    hardness_scale: HardnessScale | None = None,
) -> ScoreTable:
    r"""Every embedding of two views against every other.

    .. math:: t_{ij} = \cos(z_i, z_j) / \gamma

    for InfoNCE; for JSD t is the dot product. The positive is the anchor's other view. Make ``z2``
    from another random item of the class for the setting in which the paper compares its losses
    (augmentation and labels).

    Args:
        z1: float [B, d], finite; rows need not be normalised.
        z2: float [B, d].
        labels: int [B], ≥ 0.
        temperature: γ > 0 of InfoNCE.
        objective: ``"infonce"`` or ``"jsd"``.
        hardness_scale: as for :class:`~gcl_hard.ContrastiveLoss`, under JSD.

    Returns:
        :class:`ScoreTable` of 2B anchors and 2B candidates, ``z1`` first.

    Raises:
        InputError: for shapes that differ, values that are not finite, labels other than integers
            ≥ 0, or γ ≤ 0.

    Source:
        g(x, x') of the H-SCL paper, section III.

    Example:
        >>> z = torch.eye(2)
        >>> two_view_scores(z, z, torch.tensor([0, 1])).t[0]
        tensor([2., 0., 2., 0.], dtype=torch.float64)
    """
    if z1.shape != z2.shape:
        raise InputError(f"z1 and z2 must be [B, d] each, got {[*z1.shape]} and {[*z2.shape]}")
    check_number("temperature", temperature, above=0)
    n = len(z1)
    z = torch.cat([embeddings(z1, "z1"), embeddings(z2, "z2")])
    labels = negatives.check_labels(labels, n, "a comparison of losses").repeat(2)
    others = negatives.view_others(n, device=z.device)
    table = _table(z, z, others, temperature, objective, hardness_scale)
    t_pos = table.t.diagonal(n).repeat(2)
    return table._replace(same=negatives.same_label(labels, labels), t_pos=t_pos)


def local_global_scores(
    nodes: Tensor,
    graphs: Tensor,
    batch: Tensor,
    labels: Tensor,
    *,
    temperature: float = 0.5,
    objective: Objective = "jsd",
    hardness_scale: HardnessScale | None = None,
    largest: Tensor | None = None,
) -> ScoreTable:
    r"""Nodes against graphs; a node's positive is its own graph.

    .. math:: t_{ij} = \text{nodes}_i \cdot \text{graphs}_j

    for JSD; for InfoNCE t is the cosine by γ.

    Args:
        nodes: float [N, d], finite, the anchors: all nodes of the graphs, or some of them.
        graphs: float [G, d], the candidates.
        batch: int64 [N], graph of each node, 0 … G − 1.
        labels: int [G], ≥ 0, class of each graph.
        temperature: γ > 0 of InfoNCE.
        objective: ``"jsd"`` or ``"infonce"``.
        hardness_scale: as for :class:`~gcl_hard.ContrastiveLoss`, under JSD.
        largest: m of ``"batch-max"``, required if the anchors are only some of the loss's nodes;
            None computes it from these anchors.

    Returns:
        :class:`ScoreTable` of N anchors and G candidates.

    Raises:
        InputError: for mismatched shapes, values that are not finite, labels other than integers
            ≥ 0, or γ ≤ 0.

    Source:
        InfoGraph's scores; :func:`~gcl_hard.functional.hardness.jsd_hardness`.

    Example:
        >>> nodes, graphs = torch.tensor([[1.0]]), torch.tensor([[3.0], [-2.0]])
        >>> scores = local_global_scores(nodes, graphs, torch.tensor([0]), torch.tensor([0, 1]))
        >>> scores.t.tolist(), scores.t_pos.tolist()
        ([[3.0, -2.0]], [3.0])
    """
    nodes, graphs = embeddings(nodes, "nodes"), embeddings(graphs, "graphs")
    negatives.check_local_global(nodes, graphs, batch)
    check_number("temperature", temperature, above=0)
    labels = negatives.check_labels(labels, len(graphs), "a comparison of losses")
    others = negatives.local_global_others(batch, len(graphs))
    table = _table(nodes, graphs, others, temperature, objective, hardness_scale, largest)
    t_pos = table.t.gather(1, batch[:, None])[:, 0]
    return table._replace(same=negatives.same_label(labels[batch], labels), t_pos=t_pos)


def log_integrand(scores: ScoreTable) -> Tensor:
    r"""Log h, the integrand of the losses: t for InfoNCE, log softplus(t) for JSD.

    Args:
        scores: scores of the batch.

    Returns:
        float64 [A, K]; meaningless outside ``others``.

    Example:
        >>> z = torch.eye(2)
        >>> log_integrand(two_view_scores(z, z, torch.tensor([0, 1])))[0]
        tensor([0., 0., 0., 0.], dtype=torch.float64)
    """
    t = torch.where(scores.others, scores.t.double(), 0.0)
    if scores.objective == "infonce":
        return t
    return objectives.log_softplus(t)


def log_eta(scores: ScoreTable, hardening: Hardening | None = None) -> Tensor:
    r"""Log η of a hardening; H-UCL, H-SCL and the collisions share it.

    Args:
        scores: scores of the batch.
        hardening: as it is this epoch (``sampler.current``); None for η = 1.

    Returns:
        float64 [A, K], −inf where η is 0; meaningless outside ``others``.

    Source:
        H-SCL paper, Definition 1.

    Example:
        >>> from gcl_hard import Exponential
        >>> z = torch.eye(2)
        >>> scores = two_view_scores(z, z.flip(1), torch.tensor([0, 1]), temperature=0.5)
        >>> log_eta(scores, Exponential(3.0))[0]
        tensor([0., 0., 0., 6.], dtype=torch.float64)
    """
    return log_etas(scores, [hardening])[0]


def log_etas(scores: ScoreTable, hardenings: Iterable[Hardening | None]) -> list[Tensor]:
    """Log η of several hardenings.

    Args:
        scores: scores of the batch.
        hardenings: each as for :func:`log_eta`.

    Returns:
        One float64 [A, K] per hardening.

    Example:
        >>> from gcl_hard import Exponential
        >>> z = torch.eye(2)
        >>> scores = two_view_scores(z, z, torch.tensor([0, 1]))
        >>> len(log_etas(scores, [None, Exponential(1.0)]))
        2
    """
    similarity = torch.where(scores.others, scores.similarity.double(), 0.0)
    rows = Rows(
        similarity, scores.temperature, log_integrand(scores), scores.others, scores.bounded
    )  # fmt: skip
    return [as_hardening(hardening).log_eta(rows) for hardening in hardenings]


class Histograms(NamedTuple):
    """Numbers of pairs by their cosine; counts of several batches may be added.

    Attributes:
        edges: float64 [bins + 1], from −1 to 1; a bin includes its left edge, the last one
            both.
        same: int64 [bins], pairs with equal labels.
        different: int64 [bins], pairs with different labels.
    """

    edges: Tensor
    same: Tensor
    different: Tensor


def cosine_histograms(z: Tensor, labels: Tensor, bins: int = 50) -> Histograms:
    """Histograms of the cosines of pairs with equal and with different labels.

    Args:
        z: float [n, d].
        labels: int [n], ≥ 0.
        bins: ≥ 1, number of equal bins of [−1, 1].

    Returns:
        :class:`Histograms` of the n (n − 1) / 2 pairs.

    Raises:
        InputError: for no row, values that are not finite, labels other than integers ≥ 0, or
            fewer than one bin.

    Source:
        Robinson et al. (2021), Fig. 3 and 4.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]])
        >>> cosine_histograms(z, torch.tensor([0, 0, 1]), bins=2)[1:]
        (tensor([0, 1]), tensor([2, 0]))
    """
    check_at_least("bins", bins, 1)
    z = unit(embeddings(z))
    labels = negatives.check_labels(labels, len(z), "a histogram of pairs")
    every = torch.arange(len(z), device=z.device)
    counts = torch.zeros(2, bins, dtype=torch.int64, device=z.device)
    for start in range(0, len(z), BLOCK):
        rows = every[start : start + BLOCK]
        index = ((z[rows] @ z.T + 1) * (bins / 2)).long().clamp_(0, bins - 1)
        later, same = rows[:, None] < every, negatives.same_label(labels[rows], labels)
        for i, mask in enumerate((later & same, later & ~same)):
            counts[i] += torch.bincount(index[mask], minlength=bins)
    edges = torch.linspace(-1, 1, bins + 1, dtype=torch.float64, device=z.device)
    return Histograms(edges, counts[0], counts[1])


def overlap(first: Tensor, second: Tensor) -> Tensor:
    r"""Overlap coefficient of two histograms over the same bins.

    .. math:: \sum_b \min(p_b, q_b), \qquad p = \text{first} / \textstyle\sum \text{first}, \;
              q = \text{second} / \textstyle\sum \text{second}

    Args:
        first: int or float [bins], counts ≥ 0.
        second: likewise.

    Returns:
        float64 [], from 0 (no common bin) to 1 (the same shape); NaN if either is empty.

    Raises:
        InputError: unless both are vectors of one length.

    Source:
        Inman & Bradley (1989), the overlapping coefficient of binned densities, as discussed in
        the appendix of Robinson et al. (2021).

    Example:
        >>> overlap(torch.tensor([1, 1, 0]), torch.tensor([0, 3, 1]))
        tensor(0.5000, dtype=torch.float64)
    """
    if first.dim() != 1 or first.shape != second.shape:
        raise InputError(f"histograms must be [n] each, got {[*first.shape]}, {[*second.shape]}")
    p, q = (counts.double() / counts.sum() for counts in (first, second))
    return torch.minimum(p, q).sum()


def _table(  # noqa: PLR0917 (a batch, and what its loss makes of it)
    anchors: Tensor,
    candidates: Tensor,
    others: Tensor,
    temperature: float,
    objective: Objective,
    scale: HardnessScale | None,
    largest: Tensor | None = None,
) -> ScoreTable:
    """Scores and similarities, labels and positives to be filled in."""
    if objective == "infonce":
        cosines = unit(anchors) @ unit(candidates).T
        return ScoreTable(
            cosines / temperature, others, others, cosines, temperature, cosines, objective
        )  # fmt: skip
    scale = scale or DEFAULT_SCALE
    t = anchors @ candidates.T
    lengths = norms(anchors)[:, None] * norms(candidates)
    hardness = jsd_hardness(t, others, scale, lengths=lengths, largest=largest).value
    gamma = TEMPERATURE[scale]
    return ScoreTable(t, others, others, t, gamma, hardness, objective, bounded(scale))
