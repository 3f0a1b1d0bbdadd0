"""A batch as a table of scores, anchors × candidates, on which the four losses can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.functional import objectives, pairs
from gcl_hard.functional.classes import embeddings, unit
from gcl_hard.functional.hardening import Hardening, Rows, as_hardening
from gcl_hard.functional.shapes import check_local_global

Objective = Literal["infonce", "jsd"]


class Scores(NamedTuple):
    """Anchors against candidates, each anchor with one positive.

    Attributes:
        t: float64 [A, K], t = s / γ (InfoNCE) or raw dot products (JSD); anything, NaN included,
            outside ``others``.
        others: bool [A, K], neither the anchor nor its own other view, or not its own graph.
        same: bool [A, K], the candidate carries the anchor's label.
        t_pos: float64 [A], t⁺ of the anchor's positive.
        temperature: γ > 0, at which a hardening sees the scores.
        scale: what turns t into similarities, s = t / ``scale``: 1/γ (InfoNCE) or m (JSD).
        objective: ``"infonce"``, whose integrand h is e^t, or ``"jsd"``, with softplus(t).
    """

    t: Tensor
    others: Tensor
    same: Tensor
    t_pos: Tensor
    temperature: float
    scale: float | Tensor
    objective: Objective


def two_view_scores(
    z1: Tensor,
    z2: Tensor,
    labels: Tensor,
    *,
    temperature: float = 0.5,
    objective: Objective = "infonce",
) -> Scores:
    r"""Every embedding of two views against every other.

    .. math:: t_{ij} = \cos(z_i, z_j) / \gamma

    for InfoNCE; for JSD t is the dot product, and s = t / m with the m of
    :func:`local_global_scores`. The positive is the anchor's other view. Make ``z2`` from another
    random item of the class for the setting in which the paper compares its losses (augmentation
    and labels).

    Args:
        z1: float [B, d], finite; rows need not be normalised. Worked on in float64.
        z2: float [B, d].
        labels: int [B], ≥ 0.
        temperature: γ > 0; with JSD only a hardening sees s by it.
        objective: ``"infonce"`` or ``"jsd"``.

    Returns:
        :class:`Scores` of 2B anchors and 2B candidates, ``z1`` first.

    Raises:
        InputError: for shapes that differ, values that are not finite, labels that are no
            integers ≥ 0, or γ ≤ 0.

    Source:
        g(x, x') of the H-SCL paper, section III.

    Example:
        >>> z = torch.eye(2)
        >>> two_view_scores(z, z, torch.tensor([0, 1])).t[0]
        tensor([2., 0., 2., 0.], dtype=torch.float64)
    """
    if z1.shape != z2.shape:
        raise InputError(
            f"z1 and z2 must be two views of the same items, [B, d] each, got {list(z1.shape)} "
            f"and {list(z2.shape)}"
        )
    _check_temperature(temperature)
    n = len(z1)
    z = torch.cat([embeddings(z1, "z1"), embeddings(z2, "z2")])
    labels = pairs.check_labels(labels, n, "a comparison of losses").repeat(2)
    others = pairs.two_view_others(n, z.device)
    t, scale = _logits(z, z, others, temperature, objective)
    t_pos = t.diagonal(n).repeat(2)
    same = pairs.same_label(labels, labels)
    return Scores(t, others, same, t_pos, temperature, scale, objective)


def local_global_scores(
    nodes: Tensor,
    graphs: Tensor,
    batch: Tensor,
    labels: Tensor,
    *,
    temperature: float = 0.5,
    objective: Objective = "jsd",
    scale: float | Tensor | None = None,
) -> Scores:
    r"""Nodes against graphs; a node's positive is its own graph.

    .. math:: t_{ij} = \text{nodes}_i \cdot \text{graphs}_j, \qquad
              s = t / m, \quad m = \max_{\text{others}} |t|

    for JSD; for InfoNCE t is the cosine by γ.

    Args:
        nodes: float [N, d], finite, the anchors: all nodes of the graphs, or some of them. Worked
            on in float64.
        graphs: float [G, d], the candidates.
        batch: int64 [N], graph of each node, 0 … G − 1.
        labels: int [G], ≥ 0, of the graphs.
        temperature: γ > 0; with JSD only a hardening sees s by it.
        objective: ``"jsd"`` or ``"infonce"``.
        scale: m, where the anchors are some of the nodes that a loss sees; None for that of the
            anchors. InfoNCE has no use for it.

    Returns:
        :class:`Scores` of N anchors and G candidates.

    Raises:
        InputError: for shapes that do not fit, values that are not finite, labels that are no
            integers ≥ 0, or γ ≤ 0.

    Source:
        InfoGraph's scores, scaled as :func:`~gcl_hard.functional.objectives.jsd_scale` says.

    Example:
        >>> nodes, graphs = torch.tensor([[1.0]]), torch.tensor([[3.0], [-2.0]])
        >>> scores = local_global_scores(nodes, graphs, torch.tensor([0]), torch.tensor([0, 1]))
        >>> scores.t.tolist(), scores.t_pos.tolist(), scores.scale.item()
        ([[3.0, -2.0]], [3.0], 2.0)
    """
    nodes, graphs = embeddings(nodes, "nodes"), embeddings(graphs, "graphs")
    check_local_global(nodes, graphs, batch)
    _check_temperature(temperature)
    labels = pairs.check_labels(labels, len(graphs), "a comparison of losses")
    others = pairs.local_global_others(batch, len(graphs))
    t, own = _logits(nodes, graphs, others, temperature, objective)
    if objective == "infonce" or scale is None:
        scale = own
    t_pos = t.gather(1, batch[:, None])[:, 0]
    same = pairs.same_label(labels[batch], labels)
    return Scores(t, others, same, t_pos, temperature, scale, objective)


def log_integrand(scores: Scores) -> Tensor:
    r"""Log h of what the losses average: t for InfoNCE, log softplus(t) for JSD.

    Args:
        scores: the table.

    Returns:
        float64 [A, K]; outside ``others`` a number that means nothing.

    Example:
        >>> z = torch.eye(2)
        >>> log_integrand(two_view_scores(z, z, torch.tensor([0, 1])))[0]
        tensor([0., 0., 0., 0.], dtype=torch.float64)
    """
    t = torch.where(scores.others, scores.t.double(), 0.0)
    if scores.objective == "infonce":
        return t
    # softplus(t) = e^t up to a factor 1 − e^t / 2, and underflows long before t does.
    return objectives.log_softplus(t)


def log_eta(scores: Scores, hardening: Hardening | None = None) -> Tensor:
    r"""Log η of one hardening, the same for H-UCL, H-SCL and Hcol.

    Args:
        scores: the table.
        hardening: as it is this epoch (``sampler.current``); None for η = 1.

    Returns:
        float64 [A, K], −inf where η is 0; outside ``others`` a number that means nothing.

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


def log_etas(scores: Scores, hardenings: Iterable[Hardening | None]) -> list[Tensor]:
    """The same of several hardenings.

    Args:
        scores: the table.
        hardenings: each as :func:`log_eta` takes it.

    Returns:
        float64 [A, K] of each.

    Example:
        >>> from gcl_hard import Exponential
        >>> z = torch.eye(2)
        >>> scores = two_view_scores(z, z, torch.tensor([0, 1]))
        >>> len(log_etas(scores, [None, Exponential(1.0)]))
        2
    """
    similarity = torch.where(scores.others, scores.t.double(), 0.0) / scores.scale
    rows = Rows(similarity, scores.temperature, log_integrand(scores), scores.others)
    return [as_hardening(hardening).log_eta(rows) for hardening in hardenings]


def _check_temperature(temperature: float) -> None:
    if not 0 < temperature < float("inf"):
        raise InputError(f"temperature must be a finite number above 0, got {temperature}")


def _logits(
    anchors: Tensor, candidates: Tensor, others: Tensor, temperature: float, objective: Objective
) -> tuple[Tensor, float | Tensor]:
    """The table t, and what turns it into similarities."""
    if objective == "infonce":
        return unit(anchors) @ unit(candidates).T / temperature, 1 / temperature
    t = anchors @ candidates.T
    return t, objectives.jsd_scale(t, others)
