"""The papers' losses as loops over anchors, positives and negatives, in their symbols.

Slow and obvious on purpose: no masks, no log space, nothing shared with the package. Scores are
tensors only so that autograd has the gradient.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

Eta = Callable[[float], float]
Weigh = Callable[..., Tensor]
"""η of a row, [C]: of its similarities s, γ, the log of what is averaged, others and admitted."""


def expectation(eta, value):
    """E_q[value] with q ∝ η (Proposition 1)."""
    alpha = sum(eta)
    return sum(e * v for e, v in zip(eta, value, strict=True)) / alpha


def unit(v: Sequence[float]) -> list[float]:
    norm = math.sqrt(sum(x * x for x in v))
    return [x / norm for x in v]


def dot(u: Sequence[float], v: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(u, v, strict=True))


def alike(a, b, unknown=None) -> bool:
    """1[y_i = y_j ≠ unknown]."""
    return a == b and a != unknown


def distance(first, second) -> float:
    """d of classes, real numbers or rows of tasks; NaN where nothing is known."""
    if isinstance(first, int):
        return float(first != second)
    if isinstance(first, float):
        return abs(first - second)
    known = [pair for pair in zip(first, second, strict=True) if not any(map(math.isnan, pair))]
    apart = sum(a != b for a, b in known)
    agree = [sum(a == b == value for a, b in known) for value in (0, 1)]
    shares = [apart / (apart + n) for n in agree if apart + n]
    return sum(shares) / len(shares) if shares else math.nan


class Table(NamedTuple):
    """Anchors × candidates."""

    t: Tensor  # [A, C] cosines over γ, or raw scores
    item: list[int]  # of each anchor
    columns: list[int]  # items of the candidates
    me: list[int | None]  # the candidate that is the anchor
    near: list[list[bool]]  # pairs that labels make positives
    barred: list[list[bool]]  # pairs that labels keep from being negatives
    cosine: Tensor | None = None  # [A, C], where scores are raw
    w: list[list[float]] | None = None  # pair weights


def labelled(y, columns_y, *, gap=None, unknown=None) -> tuple[list[list[bool]], list[list[bool]]]:
    """``near`` and ``barred`` of labels."""
    if gap is None:
        same = [[alike(a, b, unknown) for b in columns_y] for a in y]
        return same, same
    d = [[distance(a, b) for b in columns_y] for a in y]
    return [[x <= gap[0] for x in row] for row in d], [[not x > gap[1] for x in row] for row in d]


def hardness(scale: str, i: int, table: Table, rows: list[list[int]]) -> tuple[Tensor, float]:
    """Similarities that a hardening sees of an anchor's scores, and their γ (JSD has none)."""
    t = table.t[i]
    values = t.tolist()
    if scale == "score":
        return t, 1.0
    if scale == "cosine":
        size = (table.cosine[i] / t).detach()
        return t * size, 0.5
    if scale == "batch-max":
        m = max([abs(table.t[k, j].item()) for k, row in enumerate(rows) for j in row], default=0)
        return t / (m or math.inf), 0.5
    among = [values[j] for j in rows[i]]
    if scale == "anchor":
        deviation = statistics.pstdev(among) if among else 0.0
        if len(among) < 3 or deviation < 1e-12 * max(map(abs, among)):
            return 0 * t, 1.0
        return (t - statistics.fmean(among)) / deviation, 1.0
    rounding = 1e-12 * max(map(abs, values))  # scores that differ by it are equal
    ranks = [
        (sum(x < v - rounding for x in among) + sum(x <= v + rounding for x in among))
        / (2 * max(len(among), 1))
        for v in values
    ]
    half = 0.5 / max(len(among), 1)
    ranks = [min(max(r, half), 1 - half) for r in ranks]
    return t.new_tensor([statistics.NormalDist().inv_cdf(r) for r in ranks]), 1.0


def terms(
    table: Table, weigh: Weigh, *, objective="infonce", admit="others", positives="view",
    gamma=0.5, scale="rank", M: str | float = "others", prior=None, detach=True, pooled=False,
) -> list[list[Tensor]]:  # fmt: skip
    """Eq. 3, log(1 + M e^{-t⁺} E_q[e^t]), or InfoGraph's JSD, of each anchor's positives.

    With HCL's debiasing; a positive without a negative has no term.
    """
    n, result = len(table.columns), []
    own = [[j for j in range(n) if table.columns[j] == item] for item in table.item]
    rows = [[j for j in range(n) if j not in columns] for columns in own]
    all_but_me = [[j for j in range(n) if j != me] for me in table.me]
    nodes = table.me[:1] == [None]
    if admit == "rest" and not nodes:
        rows = all_but_me
    infonce = objective == "infonce"
    for i, t in enumerate(table.t):
        others = [j for j in range(n) if j not in own[i]]
        near = [j for j in others if positives == "class" and table.near[i][j]]
        pos = [j for j in own[i] if j != table.me[i]] + near
        neg = [j for j in others if admit != "other_labels" or not table.barred[i][j]]
        neg = rows[i] if admit == "rest" else neg
        s, gamma_s = (t * gamma, gamma) if infonce else hardness(scale, i, table, rows)
        value = t.exp() if infonce else (1 + t.exp()).log()
        eta = weigh(s, gamma_s, t if infonce else value.log(), rows[i], neg)
        eta = eta.detach() if detach else eta
        w = t.new_tensor([1.0] * n if table.w is None else table.w[i])
        row = []
        for p in [pos] if pooled and pos else pos:
            among = [j for j in neg if j != p] if admit == "rest" else neg
            kept = [j for j in among if (eta[j] * w[j]).item() > 0]
            if not kept:
                continue
            E = expectation([eta[j] * w[j] for j in kept], [value[j] for j in kept])
            if prior is not None:
                E_pos = expectation([eta[j] for j in pos], [value[j] for j in pos])
                least = math.exp(-1 / gamma) if infonce else 0.0
                E = ((E - prior * E_pos) / (1 - prior)).clamp(min=least)
            t_pos = t[p].logsumexp(0) if pooled else t[p]
            weight = {"others": len(others), "kept": len(kept)}.get(M, M)
            if infonce:
                row.append((1 + weight * (-t_pos).exp() * E).log())
            else:
                row.append((1 + (-t_pos).exp()).log() + E - 2 * math.log(2))
        result.append(row)
    return result


def reduced(rows: list[list[Tensor]], reduction: str, weights=None) -> Tensor:
    """Mean over pairs, or over anchors of their mean over pairs; or these means, 0 where none."""
    if reduction == "pairs":
        flat = [term for row in rows for term in row]
        return sum(flat) / max(len(flat), 1) + torch.zeros(())
    means = [sum(row) / len(row) if row else torch.zeros(()).double() for row in rows]
    if reduction == "none":
        return torch.stack(means) if means else torch.zeros(0)
    weights = [1.0] * len(rows) if weights is None else weights
    whole = sum(w for w, row in zip(weights, rows, strict=True) if row)
    return sum(w * mean for w, mean in zip(weights, means, strict=True)) / (whole or 1)


def elementwise(eta: Eta) -> Weigh:
    """η of t = s / γ."""
    return lambda s, gamma, *_: s.new_tensor([eta(x) for x in (s / gamma).tolist()])


def table_of_views(
    views: Sequence[Tensor], near, barred, *, gamma=0.5, raw=False, extra=None, w=None,
    anchors=None, detach_candidates=False,
) -> Table:  # fmt: skip
    """All views of all items, or of some, against all views and further candidates.

    ``near``, ``barred`` and ``w`` are of items, further candidates among the columns.
    """
    B, n = len(views[0]), len(views) * len(views[0])
    z = torch.cat([*views, *([] if extra is None else [extra])])
    columns = [j % B if j < n else B + j - n for j in range(len(z))]
    chosen = range(B) if anchors is None else anchors
    rows = [v * B + i for v in range(len(views)) for i in chosen]
    u = z / z.norm(dim=1, keepdim=True)
    candidates, unit_candidates = (x.detach() if detach_candidates else x for x in (z, u))
    cosine = u[rows] @ unit_candidates.T

    def expanded(x):
        return None if x is None else [[x[columns[i]][item] for item in columns] for i in rows]

    return Table(
        z[rows] @ candidates.T if raw else cosine / gamma, [columns[i] for i in rows], columns,
        list(rows), expanded(near), expanded(barred), cosine, expanded(w),
    )  # fmt: skip


def table_of_nodes(nodes, graphs, batch, near, barred, *, gamma=0.5, raw=False, w=None) -> Table:
    """Nodes against graphs; ``near``, ``barred`` and ``w`` are of graphs."""
    cosine = nodes @ graphs.T / nodes.norm(dim=1)[:, None] / graphs.norm(dim=1)
    t = nodes @ graphs.T if raw else cosine / gamma
    batch, n = [int(g) for g in batch], len(graphs)
    near, barred, w = (None if x is None else [x[g] for g in batch] for x in (near, barred, w))
    return Table(t, batch, list(range(n)), [None] * len(batch), near, barred, cosine, w)


def infonce_two_view(z1, z2, y, *, admit, positives, eta: Eta, gamma, reduction) -> float:
    """The loss of two views of unit rows' classes, as lists of floats."""
    views = [torch.tensor(z, dtype=torch.float64) for z in (z1, z2)]
    table = table_of_views(views, *labelled(y, y), gamma=gamma)
    rows = terms(table, elementwise(eta), admit=admit, positives=positives, gamma=gamma)
    return reduced(rows, reduction).item()


def local_global(
    nodes, graphs, batch, y, *, admit, eta: Eta, objective, gamma=0.5, prior=None, scale="rank"
) -> float:
    """InfoGraph's JSD on raw dot products, or Eq. 3 on cosines, as lists of floats."""
    rows = [torch.tensor(z, dtype=torch.float64) for z in (nodes, graphs)]
    raw = objective == "jsd"
    table = table_of_nodes(*rows, batch, *labelled(y, y), gamma=gamma, raw=raw)
    settings = {"objective": objective, "admit": admit, "gamma": gamma, "prior": prior}
    return reduced(terms(table, elementwise(eta), scale=scale, **settings), "anchors").item()
