"""Sections III and IV of the H-SCL paper, anchor by anchor and in its symbols."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.reference.loops import dot, expectation, unit

Function = Callable[[Any], Any]  # of floats, or of decimals


class Anchor(NamedTuple):
    y: int  # y(x)
    g_pos: float  # g(x, x⁺)
    others: list[tuple[int, float]]  # (y(x⁻), g(x, x⁻)) of what q_UCL is uniform over


def similarity(u, v, gamma: float | None) -> float:
    """Cosine by γ; None for the dot product of JSD."""
    return dot(u, v) if gamma is None else dot(unit(u), unit(v)) / gamma


def two_view_anchors(z1, z2, y, gamma: float | None) -> Iterator[Anchor]:
    z, labels, n = [*z1, *z2], [*y, *y], len(y)
    for i, anchor in enumerate(z):
        g = [similarity(anchor, v, gamma) for v in z]
        others = [(labels[j], g[j]) for j in range(2 * n) if j % n != i % n]
        yield Anchor(labels[i], g[(i + n) % (2 * n)], others)


def local_global_anchors(nodes, graphs, batch, y, gamma: float | None = None) -> Iterator[Anchor]:
    for v, own_graph in zip(nodes, batch, strict=True):
        g = [similarity(v, u, gamma) for u in graphs]
        yield Anchor(
            y[own_graph], g[own_graph], [(y[j], g[j]) for j in range(len(graphs)) if j != own_graph]
        )


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


def taken(x: Anchor, eta: Function) -> list[tuple[int, float]]:
    """Label of each other, and its q; empty where η is 0 on all of them."""
    rho = [eta(g) for _, g in x.others]
    return [(y, r / sum(rho)) for (y, _), r in zip(x.others, rho, strict=True)] if any(rho) else []


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def diagnosis(batches: list[list[Anchor]], eta: Function, objective: str, gamma: float) -> dict:
    """What Fig. 4 and 5 show of η(t), t = s / γ, and whom it takes; NaN where no anchor has it."""
    columns: dict[str, list[Any]] = {name: [] for name in (
        "holds", "lemma", "left", "right", "ucl", "scl", "hucl", "hscl",
        "n_hucl", "n_hscl", "own", "alone", "spared", "unopposed",
    )}  # fmt: skip
    for anchors in batches:
        m = max((abs(g) for x in anchors for _, g in x.others), default=1.0)
        to_t = 1.0 if objective == "infonce" else 1 / m / gamma
        for x in anchors:
            _add(columns, x, lambda g, to_t=to_t: eta(g * to_t), objective)
    counts = {name: sum(columns[name]) for name in ("alone", "spared", "unopposed")}
    return counts | {
        "assumption_1": mean(columns["holds"]),
        "lemma_1": mean(columns["lemma"]),
        "defined": len(columns["holds"]),
        "losses": {name: mean(columns[name]) for name in ("ucl", "scl", "hucl", "hscl")},
        "common": len(columns["hscl"]),
        "collisions": mean(columns["left"]),
        "negatives": mean(columns["right"]),
        "effective_hucl": mean(columns["n_hucl"]),
        "effective_hscl": mean(columns["n_hscl"]),
        "same_label_weight": mean(columns["own"]),
        "others": mean([len(x.others) for anchors in batches for x in anchors]),
        "other_labels": mean(
            [sum(y != x.y for y, _ in x.others) for anchors in batches for x in anchors]
        ),
    }


def _add(columns: dict[str, list[Any]], x: Anchor, eta: Function, objective: str) -> None:
    row = five(x, eta, math.exp if objective == "infonce" else lambda g: math.log(1 + math.exp(g)))
    e = {name: expected for name, (_, expected) in row.items()}
    losses = {
        name: psi(x, e[name], objective)
        for name in ("ucl", "scl", "hucl", "hscl")
        if e[name] is not None
    }
    if e["hcol"] is not None and e["hscl"] is not None:
        columns["holds"].append(e["hcol"] >= e["hscl"])
        columns["lemma"].append(losses["hucl"] >= losses["hscl"])
        columns["left"].append(e["hcol"])
        columns["right"].append(e["hscl"])
    if len(losses) == 4:
        for name, loss in losses.items():
            columns[name].append(loss)
    for name, anchor in (("n_hucl", x), ("n_hscl", x._replace(
        others=[(y, g) for y, g in x.others if y != x.y]
    ))):  # fmt: skip
        if q := taken(anchor, eta):
            columns[name].append(1 / sum(weight**2 for _, weight in q))
    if q := taken(x, eta):
        columns["own"].append(sum(weight for y, weight in q if y == x.y))
    alone = all(y != x.y for y, _ in x.others)
    columns["alone"].append(alone)
    columns["spared"].append(not alone and e["hcol"] is None)
    columns["unopposed"].append(e["hcol"] is not None and e["hscl"] is None)
