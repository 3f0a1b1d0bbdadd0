"""Sections III and IV of the H-SCL paper, anchor by anchor and in its symbols."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.reference.loops import dot, expectation, rows_of_two_views, unit

Function = Callable[[Any], Any]  # of floats, or of decimals


class Anchor(NamedTuple):
    y: int  # y(x)
    g_pos: float  # g(x, x⁺)
    others: list[tuple[int, float]]  # (y(x⁻), g(x, x⁻)) of what q_UCL is uniform over


def two_view_anchors(z1, z2, y, gamma: float) -> Iterator[Anchor]:
    for i, (own,), _, others, z in rows_of_two_views(z1, z2, y, "others", "view"):
        g = [dot(unit(z[i]), unit(v)) / gamma for v in z]
        labels = [*y, *y]
        yield Anchor(labels[i], g[own], [(labels[j], g[j]) for j in others])


def local_global_anchors(nodes, graphs, batch, y) -> Iterator[Anchor]:
    for v, own in zip(nodes, batch, strict=True):
        g = [dot(v, u) for u in graphs]
        yield Anchor(y[own], g[own], [(y[j], g[j]) for j in range(len(graphs)) if j != own])


def five(x: Anchor, eta: Function, h: Function) -> dict[str, tuple[Any, Any]]:
    """α and E_q[h] under each negative distribution; E is None where α is 0."""
    admits = {
        "ucl": (lambda y: True, lambda g: 1),
        "scl": (lambda y: y != x.y, lambda g: 1),
        "hucl": (lambda y: True, eta),
        "hscl": (lambda y: y != x.y, eta),
        "hcol": (lambda y: y == x.y, eta),
    }
    out = {}
    for name, (indicator, weigh) in admits.items():
        rho = [weigh(g) if indicator(y) else 0 for y, g in x.others]
        alpha = sum(rho) / len(rho) if rho else 0
        out[name] = (alpha, expectation(rho, [h(g) for _, g in x.others]) if alpha else None)
    return out


def psi(x: Anchor, mean: float, objective: str) -> float:
    """Eq. 3 with M the number of others, or InfoGraph's JSD."""
    if objective == "infonce":
        return math.log(1 + len(x.others) * math.exp(-x.g_pos) * mean)
    return math.log(1 + math.exp(-x.g_pos)) + mean - 2 * math.log(2)
