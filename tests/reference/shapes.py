"""Measures of geometry and of neural collapse as their papers define them, pair by pair."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from tests.reference.loops import dot, unit


def distance(u, v) -> float:
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(u, v, strict=True)))


def alignment(z1, z2, alpha: float) -> float:
    terms = [distance(unit(u), unit(v)) ** alpha for u, v in zip(z1, z2, strict=True)]
    return sum(terms) / len(terms)


def uniformity(z, t: float) -> float:
    terms = [math.exp(-t * distance(unit(u), unit(v)) ** 2) for u, v in combinations(z, 2)]
    return math.log(sum(terms) / len(terms))


def cosines(z, y) -> tuple[list[float], list[float]]:
    """Of pairs of one label, and of pairs of two."""
    same, different = [], []
    for i, j in combinations(range(len(z)), 2):
        (same if y[i] == y[j] else different).append(dot(unit(z[i]), unit(z[j])))
    return same, different


def effective_rank(z) -> float:
    """From the eigenvalues of the smaller Gram matrix, not from a singular value decomposition."""
    z = np.asarray(z)
    gram = z @ z.T if len(z) < z.shape[1] else z.T @ z
    sigma = np.sqrt(np.clip(np.linalg.eigvalsh(gram), 0, None))
    p = [s / sum(sigma) for s in sigma if s > 0]
    return math.exp(-sum(x * math.log(x) for x in p))


def mean(rows) -> list[float]:
    return [sum(column) / len(column) for column in zip(*rows, strict=True)]


def classes(z, y) -> dict[int, list]:
    return {c: [v for v, label in zip(z, y, strict=True) if label == c] for c in sorted(set(y))}


def packing(z, y) -> float:
    """Theorem 2 of HCL with v_c the direction of the mean unit embedding."""
    v = {c: unit(mean([unit(row) for row in rows])) for c, rows in classes(z, y).items()}
    total = 0.0
    for c, v_c in v.items():
        rho = sum(label == c for label in y) / len(y)
        total += rho * min(distance(v_c, other) ** 2 for k, other in v.items() if k != c)
    return total


def least_angle(points) -> float:
    return min(math.acos(dot(u, v)) for u, v in combinations(points, 2))


def neural_collapse(z, y) -> dict[str, float]:
    """Papyan et al. (2020) and Galanti et al. (2021), every class counting the same."""
    by = classes(z, y)
    C = len(by)
    mu = {c: mean(rows) for c, rows in by.items()}
    mu_G = mean(list(mu.values()))
    centred = {c: np.array(m) - np.array(mu_G) for c, m in mu.items()}
    d = len(mu_G)
    Sigma_W, Sigma_B, var = np.zeros((d, d)), np.zeros((d, d)), {}
    for c, rows in by.items():
        for row in rows:
            r = np.array(row) - np.array(mu[c])
            Sigma_W += np.outer(r, r) / len(rows) / C
        Sigma_B += np.outer(centred[c], centred[c]) / C
        var[c] = sum(distance(row, mu[c]) ** 2 for row in rows) / len(rows)
    norms = [float(np.sqrt((m**2).sum())) for m in centred.values()]
    pairs = list(combinations(by, 2))
    cos = [dot(unit(centred[a]), unit(centred[b])) for a, b in pairs]
    cdnv = [(var[a] + var[b]) / (2 * distance(mu[a], mu[b]) ** 2) for a, b in pairs]
    return {
        "nc1": float(np.trace(Sigma_W @ np.linalg.pinv(Sigma_B, rcond=1e-10))) / C,
        "equinorm": float(np.std(norms) / np.mean(norms)),
        "spread": float(np.std(cos)),
        "gap": float(np.mean([abs(x + 1 / (C - 1)) for x in cos])),
        "cdnv": float(np.mean(cdnv)),
    }
