"""The papers' losses as double loops over anchors and pairs, in their symbols, for floats.

Slow and obvious on purpose: no masks, no log space, nothing shared with the package.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

Eta = Callable[[float], float]


def expectation(eta: list[float], value: list[float]) -> float:
    """E_q[value] with q ∝ η (Proposition 1)."""
    alpha = sum(eta)
    return sum(e * v for e, v in zip(eta, value, strict=True)) / alpha


def alike(a, b, unknown=None) -> bool:
    """1[y_i = y_j ≠ unknown]."""
    return a == b and a != unknown


def rows_of_views(views, y, admit: str, positives: str, *, extra=(), extra_y=(), unknown=None):
    """Per anchor: (indices of positives, of negatives, of others), and all embeddings."""
    B, n = len(views[0]), len(views) * len(views[0])
    z, y = [*(v for view in views for v in view), *extra], [*(list(y) * len(views)), *extra_y]
    item = [j % B if j < n else None for j in range(len(z))]
    for i in range(n):
        others = [j for j in range(len(z)) if item[j] != item[i]]
        neg = [j for j in others if admit == "others" or not alike(y[i], y[j], unknown)]
        mine = [j for j in range(len(z)) if j not in {i, *others}]
        pos = mine + [j for j in others if positives == "class" and alike(y[i], y[j], unknown)]
        yield i, pos, neg, others, z


def rows_of_two_views(z1, z2, y, admit: str, positives: str):
    """:func:`rows_of_views` of two views."""
    return rows_of_views([z1, z2], y, admit, positives)


def unit(v: Sequence[float]) -> list[float]:
    norm = math.sqrt(sum(x * x for x in v))
    return [x / norm for x in v]


def dot(u: Sequence[float], v: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(u, v, strict=True))


def reduce(terms: list[list[float]], reduction: str) -> float:
    """Mean over pairs, or over anchors of their mean over pairs; or these means."""
    if reduction == "pairs":
        flat = [term for row in terms for term in row]
        return sum(flat) / len(flat)
    means = [sum(row) / len(row) for row in terms if row]
    return means if reduction == "none" else sum(means) / len(means)


def infonce_two_view(z1, z2, y, **settings):
    """:func:`infonce_views` of two views."""
    return infonce_views([z1, z2], y, **settings)


def infonce_views(
    views, y, *, admit, positives, eta: Eta, gamma, M=None, prior=None, reduction, mean=False,
    extra=(), extra_y=(), w=lambda i, j: 1.0,
):  # fmt: skip
    """Eq. 3: log(1 + M e^{-g(x,x+)} E_q[e^g]), HCL's debiasing, the paper's τ(x, f)."""
    terms = []
    more = {"extra": extra, "extra_y": extra_y}
    for i, pos, neg, others, z in rows_of_views(views, y, admit, positives, **more):
        g = [dot(unit(z[i]), unit(v)) / gamma for v in z]
        tau = sum(math.exp(g[j]) for j in others) / len(others)
        weigh = (lambda t, tau=tau: float(math.exp(t) >= tau)) if mean else eta
        B, n = len(views[0]), len(views) * len(views[0])
        item = [j % B if j < n else B + j - n for j in range(len(z))]
        row = []
        for p in pos:
            among = neg if admit != "rest" else [j for j in range(len(z)) if j not in {i, p}]
            weights = [weigh(g[j]) * w(item[i], item[j]) for j in among]
            if not sum(weights):
                continue
            E = expectation(weights, [math.exp(g[j]) for j in among])
            if prior is not None:
                E_pos = expectation([eta(g[j]) for j in pos], [math.exp(g[j]) for j in pos])
                E = max((E - prior * E_pos) / (1 - prior), math.exp(-1 / gamma))
            weight = len(others) if M is None else M
            weight = sum(x > 0 for x in weights) if M == "kept" else weight
            row.append(math.log(1 + weight * math.exp(-g[p]) * E))
        terms.append(row)
    return reduce(terms, reduction)


def with_gradient(
    views, y, *, admit, positives, eta: Eta, objective, reduction, unknown=None, anchors=None,
    extra=(), extra_y=(),
):  # fmt: skip
    """A loss of tensors at γ = 0.5 whose weights η(cos / γ) are constants to the gradient."""
    terms = []
    more = {"extra": extra, "extra_y": extra_y, "unknown": unknown}
    for i, pos, neg, others, z in rows_of_views(views, y, admit, positives, **more):
        if anchors is not None and i % len(y) not in anchors:
            continue
        cos = [z[i] @ v / z[i].norm() / v.norm() / 0.5 for v in z]
        weights = [eta(cos[j].item()) for j in neg]
        row = []
        for p in pos if sum(weights) else []:
            if objective == "infonce":
                E = expectation(weights, [cos[j].exp() for j in neg])
                row.append((1 + len(others) * (-cos[p]).exp() * E).log())
            else:
                E = expectation(weights, [(1 + (z[i] @ z[j]).exp()).log() for j in neg])
                row.append((1 + (-z[i] @ z[p]).exp()).log() + E - 2 * math.log(2))
        terms.append(row)
    return reduce(terms, reduction)


def hardness(scale, i, j, *, t, rows, u, v) -> float:
    """What stands for t = s / γ under JSD, of candidate j to anchor i, whose others are rows[i]."""
    if scale == "batch-max":
        return t[i][j] / max(abs(t[k][o]) for k, row in enumerate(rows) for o in row) / 0.5
    if scale == "cosine":
        return dot(unit(u[i]), unit(v[j])) / 0.5
    among = [t[i][o] for o in rows[i]]
    if scale == "anchor":
        deviation = statistics.pstdev(among)
        if len(among) < 3 or deviation < 1e-12 * max(map(abs, among)):
            return 0.0
        return (t[i][j] - statistics.fmean(among)) / deviation
    below, equal = (sum(x < t[i][j] for x in among), sum(x == t[i][j] for x in among))
    return statistics.NormalDist().inv_cdf((below + equal / 2) / len(among))


def local_global(
    nodes, graphs, batch, y, *, admit, eta: Eta, objective, gamma=0.5, prior=None, scale="rank",
    w=lambda i, j: 1.0, unknown=None,
):  # fmt: skip
    """InfoGraph's JSD on raw dot products, or Eq. 3 on cosines; the node is the anchor."""
    t = [[dot(v, u) for u in graphs] for v in nodes]
    if objective == "infonce":
        t = [[dot(unit(v), unit(u)) / gamma for u in graphs] for v in nodes]
    rows = [[j for j in range(len(graphs)) if j != own_graph] for own_graph in batch]
    terms = []
    for i, others in enumerate(rows):
        neg = [j for j in others if admit == "others" or not alike(y[j], y[batch[i]], unknown)]
        if objective == "infonce":
            hard = [eta(t[i][j]) for j in neg]
        else:
            hard = [eta(hardness(scale, i, j, t=t, rows=rows, u=nodes, v=graphs)) for j in neg]
        hard = [h * w(batch[i], j) for h, j in zip(hard, neg, strict=True)]
        if not sum(hard):
            continue
        positive = t[i][batch[i]]
        if objective == "infonce":
            E = expectation(hard, [math.exp(t[i][j]) for j in neg])
            E = E if prior is None else (E - prior * math.exp(positive)) / (1 - prior)
            E = E if prior is None else max(E, math.exp(-1 / gamma))
            terms.append(math.log(1 + len(others) * math.exp(-positive) * E))
        else:
            E = expectation(hard, [math.log(1 + math.exp(t[i][j])) for j in neg])
            sp = math.log(1 + math.exp(positive))
            E = E if prior is None else max((E - prior * sp) / (1 - prior), 0.0)
            terms.append(math.log(1 + math.exp(-positive)) + E - 2 * math.log(2))
    return sum(terms) / len(terms)
