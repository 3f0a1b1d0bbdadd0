"""Logistic regressions at the optimum of their objective, for several penalties in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gcl_hard.evaluation.checks import Floats, Indices

TOLERANCE = 1e-11
"""Largest distance of an objective from the least, relative to it."""
NEWTON_STEPS, CG_STEPS = 100, 500
"""Many times more than it takes."""
INEXACT = 1e-3
"""Share of the gradient's squared norm that a direction leaves."""
STRONG, MOST_TERMS = 10.0, 200
"""Curvature from which a row is part of the preconditioner (the penalty's is 1), and the largest
number of such rows."""
SINGLE = 1e6
"""Total curvature up to which single precision has digits left for the penalty's."""
DENSE, DENSER = 2**24, 20
"""Size up to which sparse columns, fewer than rows, become dense, and how many times more numbers
than stored the inner products of rows may be that replace them."""
DROPPED = 1e-12
"""Squared length, beside the largest, below which a row is spanned by others."""
HALVES = 0.5 ** np.arange(11)
"""Parts of a step, until one lowers the objective."""
Solve = Callable[[Floats], Floats]


class Regressions(NamedTuple):
    """Fitted logistic regressions, one for each of P penalties.

    Attributes:
        weights: float64 [P, K, d]; of two classes [P, 1, d], for the second one.
        offsets: float64 [P, K] or [P, 1].
    """

    weights: Floats
    offsets: Floats


def logistic_regressions(x: Any, y: ArrayLike, penalties: Sequence[float]) -> Regressions:
    r"""Logistic regressions whose objective is within 10⁻¹¹ of the least, relative to it.

    .. math:: \min_{W, b} \; \frac{1}{2} \lVert W \rVert^2
              - C \sum_i \log \operatorname{softmax}(W x_i + b)_{y_i}

    With two classes the softmax is a sigmoid of one row, as scikit-learn defines both.

    By truncated Newton steps. Their directions are computed in single precision where its digits
    suffice; objectives and gradients, by which a fit ends, in double precision.

    Args:
        x: float64 [n, d], dense, or sparse of SciPy; rows of about length 1.
        y: int [n], two classes or more.
        penalties: values of C, each > 0; quickest if ascending and equally spaced in log C.

    Returns:
        The regressions, in the order of the penalties.

    Source:
        Nocedal & Wright (2006), *Numerical Optimization*, algorithm 7.1; Boyd & Vandenberghe
        (2004), *Convex Optimization*, section 9.5, for the criterion, the Newton decrement.

    Example:
        >>> x = np.array([[0.0], [1.0], [0.0], [1.0]])
        >>> weights, offsets = logistic_regressions(x, [0, 1, 1, 1], [1e6])
        >>> float((x[0] @ weights[0, 0] + offsets[0, 0]).round(3))
        0.0
    """
    classes, y = np.unique(y, return_inverse=True)
    two = len(classes) == 2
    rows, mean, in_columns = _centred(x)
    # Columns ±w/2 have half the penalty of w.
    fits = np.stack([*_minima(rows, y, [penalty / (1 + two) for penalty in penalties])])
    fits = fits[:, 1:] - fits[:, :1] if two else fits
    weights = in_columns(fits[..., :-1].reshape(-1, rows.shape[1]))
    weights = weights.reshape(*fits.shape[:2], -1)
    return Regressions(weights, fits[..., -1] - weights @ mean)


def _centred(x: Any) -> tuple[Any, Floats, Callable[[Floats], Floats]]:
    """Rows with the inner products of the centred rows of x, their mean, and a function from
    weights of these rows to those of x. The offset absorbs the mean. Sparse rows that are many
    stay as they are.
    """
    from scipy.linalg import solve_triangular
    from scipy.linalg.lapack import dpstrf
    from scipy.sparse import csr_array, issparse

    n, d = x.shape
    if n > d and n * d <= DENSE:
        x = _dense(x)
    if issparse(x) and (n > d or n**2 > DENSER * x.nnz):
        return csr_array(x), np.zeros(d), lambda weights: weights
    mean = np.asarray(x.mean(0)).ravel()
    if n > d:
        return x - mean, mean, lambda weights: weights
    if issparse(x):
        products = _dense(x @ x.T)
        products -= products.mean(0)
        products -= products.mean(1, keepdims=True)
        largest = 1.0
    else:
        centred = x - mean
        products = centred @ centred.T
        largest = products.diagonal().max()
    # x xᵀ = L Lᵀ with pivots, so that the rows of L serve as well, and there are fewer columns.
    factor, pivots, rank, _ = dpstrf(products, lower=1, tol=DROPPED * largest)
    pivots, factor = pivots - 1, np.tril(factor)[:, :rank]
    rows = np.empty_like(factor)
    rows[pivots] = factor

    def in_columns(weights: Floats) -> Floats:
        of_rows = np.zeros((n, len(weights)))
        of_rows[pivots[:rank]] = solve_triangular(factor[:rank], weights.T, lower=True, trans="T")
        return np.asarray(x.T @ (of_rows - of_rows.mean(0))).T

    return rows, mean, in_columns


def _minima(x: Any, y: Indices, penalties: Sequence[float]) -> Iterator[Floats]:
    """Weights [K, r + 1] of least objective for each penalty; their last column is the offsets."""
    from scipy.sparse import hstack, issparse

    ones = np.ones((x.shape[0], 1))
    x = hstack([x, ones], format="csr") if issparse(x) else np.hstack([x, ones])
    problem = _Problem(x, y)
    weights = np.zeros((y.max() + 1, x.shape[1]))
    weights[:, -1] = np.log(np.bincount(y) / len(y))
    ends = [(weights, weights @ problem.double[1])]  # from the optimum of C = 0
    for penalty in penalties:
        starts = [ends[-1]]
        if len(ends) > 1:  # on the line through the last two, in log C
            starts.append(tuple(2 * last - before for before, last in zip(*ends, strict=True)))
        points = [problem.at(weights, logits, penalty) for weights, logits in starts]
        point = problem.minimum(min(points, key=lambda point: point.objective), penalty)
        ends = [ends[-1], (point.weights, point.logits)]
        yield point.weights


class _Point(NamedTuple):
    weights: Floats  # [K, r + 1]
    logits: Floats  # [K, n]
    shares: Floats  # [K, n], their softmax
    objective: float


class _Problem:
    """The objective of a softmax regression, and its Newton steps.

    Args:
        x: float64 [n, r + 1], dense or sparse, the last column 1.
        y: [n], classes from 0.
    """

    def __init__(self, x: Any, y: Indices) -> None:
        self.y, self.truth = y, np.arange(y.max() + 1)[:, None] == y
        self.double, self.single = ((z, z.T.copy()) for z in (x, x.astype(np.float32)))
        self.squares = np.asarray((x * x).sum(1)).ravel()

    def at(self, weights: Floats, logits: Floats, penalty: float) -> _Point:
        """The objective at some weights, whose logits are known."""
        most = logits.max(0)
        exps = np.exp(logits - most)
        sums = exps.sum(0)
        misfit = (np.log(sums) + most - logits[self.y, np.arange(len(self.y))]).sum()
        objective = np.square(weights[:, :-1]).sum() / 2 + penalty * misfit
        return _Point(weights, logits, exps / sums, float(objective))

    def minimum(self, point: _Point, penalty: float) -> _Point:
        """The point of least objective, from one near it."""
        rows, moved = self.single, np.inf
        for _ in range(NEWTON_STEPS):
            if moved > 1:  # by less, no curvature changes by more than a factor of e
                if penalty * (1 - np.square(point.shares).sum(0)) @ self.squares > SINGLE:
                    rows = self.double
                solve = self._preconditioner(rows[0], point.shares, penalty)
            gradient = penalty * (point.shares - self.truth) @ self.double[0]
            gradient[:, :-1] += point.weights[:, :-1]
            step = self._step(gradient, rows, point, penalty, solve)
            if step is None:
                break
            along, slope = step @ self.double[1], np.vdot(gradient, step)
            for part in HALVES:
                new = self.at(point.weights + part * step, point.logits + part * along, penalty)
                if new.objective <= point.objective + 1e-4 * part * slope:
                    point, moved = new, part * np.abs(along).max()
                    break
            else:
                if rows is self.double:  # no digits are left
                    break
                rows, moved = self.double, np.inf
        return point

    def _step(
        self, gradient: Floats, rows: tuple[Any, Any], point: _Point, penalty: float, solve: Solve
    ) -> Floats | None:
        """Newton's step by conjugate gradients; None where it would gain too little."""
        (x, xT), residual = rows, -gradient.astype(rows[0].dtype)
        shares = point.shares.astype(x.dtype)
        scaled = x.dtype.type(penalty) * shares
        step = np.zeros_like(residual)
        along = preconditioned = solve(residual)
        norm = first = np.vdot(residual, preconditioned)
        enough = TOLERANCE * point.objective
        for k in range(CG_STEPS):
            logits = along @ xT
            logits -= np.einsum("kn,kn->n", shares, logits)
            curved = (scaled * logits) @ x
            curved[:, :-1] += along[:, :-1]
            curvature = np.vdot(along, curved)
            if curvature <= 0:  # of a step of length 0, or one of all offsets together
                return step if k else None
            size = norm / curvature
            # The norm bounds twice the gain, as the preconditioner is a part of the Hessian; but
            # for the offsets it is not, and then the step is long.
            bound = norm * max(size, 1)
            if k == 0:
                if bound <= 2 * enough:
                    return None
                least = max(INEXACT * bound, enough)
            step += size * along
            if bound <= least:
                break
            residual -= size * curved
            preconditioned, before = solve(residual), norm
            norm = np.vdot(residual, preconditioned)
            if norm <= np.finfo(x.dtype).eps ** 2 * first:  # what is left are rounding errors
                break
            along = preconditioned + norm / before * along
        return step

    def _preconditioner(self, x: Any, shares: Floats, penalty: float) -> Solve:
        r"""Solves with :math:`D + C \sum_i v_i v_i^T \otimes x_i x_i^T` over the strongest rows.

        Of the Hessian of row i, :math:`C \sum_{k<l} p_k p_l (e_k - e_l)(e_k - e_l)^T \otimes
        x_i x_i^T`, it has the two likeliest classes. D is 1, and for the offsets what is left.
        """
        from scipy.linalg.lapack import get_lapack_funcs

        second, first = np.argsort(shares, 0)[-2:]
        n = np.arange(len(first))
        strength = 2 * penalty * shares[first, n] * shares[second, n]
        i = np.flatnonzero(strength * self.squares > STRONG)
        if len(i) > (most := min(MOST_TERMS, x.shape[1])):
            i = i[np.argpartition(strength[i] * self.squares[i], -most)[-most:]]
        terms, m = np.zeros((len(shares), len(i)), x.dtype), np.arange(len(i))
        terms[first[i], m] = np.sqrt(strength[i] / 2)
        terms[second[i], m] = -terms[first[i], m]
        curvature = penalty * (shares * (1 - shares)).sum(1)
        left = np.maximum(curvature - np.square(terms).sum(1), 0.01 * curvature)
        diagonal = np.ones((len(shares), x.shape[1]), x.dtype)
        diagonal[:, -1] = np.maximum(left, np.finfo(x.dtype).tiny)
        if not len(i):
            return lambda vector: vector / diagonal
        rows = x[i]
        across, columns = rows.T.copy(), rows[:, :-1]
        # Woodbury: the inverse of a matrix as large as the number of terms.
        inner = _dense(columns @ columns.T) * (terms.T @ terms)
        inner += terms.T @ (terms / diagonal[:, -1:])
        inner[m, m] += 1
        factorise, solve_by = get_lapack_funcs(("potrf", "potrs"), (inner,))
        factor, _ = factorise(inner, lower=1, overwrite_a=1, clean=0)

        def solve(vector: Floats) -> Floats:
            solution = vector / diagonal
            weights = np.einsum("km,km->m", solution @ across, terms)
            weights, _ = solve_by(factor, weights, lower=1, overwrite_b=1)
            solution -= (weights * terms) @ rows / diagonal
            return solution

        return solve


def _dense(x: Any) -> Any:
    return x.toarray() if hasattr(x, "toarray") else x
