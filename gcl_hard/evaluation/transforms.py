"""Closed-form linear maps of embeddings: whitening, whitening within classes, and LDA."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gcl_hard.errors import InputError, check_number
from gcl_hard.evaluation.checks import Floats, Indices, check_classes, check_numbers

SHRINKAGES = (0.001, 0.01, 0.03, 0.1, 0.2, 0.5, 0.8, 1.0)
"""Candidates for the shrinkage of a covariance; at 1 whitening within classes only centres."""


class LinearMap(NamedTuple):
    """A linear map of centred embeddings.

    Attributes:
        mean: float64 [d].
        matrix: float64 [d, r].

    Example:
        >>> LinearMap(np.array([1.0]), np.array([[2.0]])).apply([[3]])
        array([[4.]])
    """

    mean: Floats
    matrix: Floats

    def apply(self, z: ArrayLike) -> Floats:
        """(z − mean) · matrix, float64 [m, r], of real numbers [m, d]."""
        return np.asarray((check_numbers("z", z) - self.mean) @ self.matrix)


def pca_whitening(z: ArrayLike) -> LinearMap:
    r"""Whitening: afterwards the covariance of all items is the identity.

    .. math:: (z - \mu) \, \Sigma^{-1/2}

    Cosines are those after PCA with unit variances; directions without variance are dropped.

    Args:
        z: real numbers [n, d], n ≥ 2.

    Source: scikit-learn, ``PCA(whiten=True)``, of which this is a rotation.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(50, 3)) * [1, 2, 3]
        >>> np.cov(pca_whitening(z).apply(z).T).round(6) + 0.0
        array([[1., 0., 0.],
               [0., 1., 0.],
               [0., 0., 1.]])
    """
    x = check_numbers("z", z)
    mean = x.mean(0)
    return LinearMap(mean, _inverse_root((x - mean).T @ (x - mean) / (len(x) - 1)))


def within_class_whitening(z: ArrayLike, y: ArrayLike, shrinkage: float = 0.0) -> LinearMap:
    r"""Whitening of what varies within classes.

    .. math:: (z - \mu) \, \bigl((1 - \lambda) S_w
              + \lambda \tfrac{\operatorname{tr} S_w}{d} I\bigr)^{-1/2}, \qquad
              S_w = \frac{1}{n} \sum_i (z_i - \mu_{y_i})(z_i - \mu_{y_i})^\top

    Directions without variance are dropped.

    Args:
        z: real numbers [n, d].
        y: integers [n], classes.
        shrinkage: λ, from 0 to 1; candidates are ``SHRINKAGES``.

    Raises:
        InputError: for invalid numbers, classes or λ, or items that all are their class's mean.

    Source: Hatch and Stolcke, *Generalized Linear Kernels for One-Versus-All Classification:
        Application to Speaker Recognition*, 2006 (within-class covariance normalisation).

    Example:
        >>> z, y = np.array([[0, 0], [2, 0], [5, 5], [5, 9.0]]), [0, 0, 1, 1]
        >>> within_class_whitening(z, y).matrix.round(3)
        array([[1.414, 0.   ],
               [0.   , 0.707]])
    """
    x = check_numbers("z", z)
    classes, means = class_means(x, y)
    check_number("shrinkage", shrinkage, least=0, most=1)
    centred = x - means[classes]
    within = centred.T @ centred / len(x)
    within = (1 - shrinkage) * within + shrinkage * np.trace(within) / len(within) * np.eye(
        len(within)
    )
    return LinearMap(x.mean(0), _inverse_root(within))


def lda(z: ArrayLike, y: ArrayLike, shrinkage: float = 0.0) -> LinearMap:
    """Linear discriminant analysis: the directions that separate classes best, C − 1 at most.

    Args:
        z: real numbers [n, d].
        y: integers [n], two classes or more.
        shrinkage: of the covariance within classes, from 0 to 1, as in
            :func:`within_class_whitening`.

    Source: scikit-learn, ``LinearDiscriminantAnalysis(solver="eigen")``.

    Example:
        >>> z = np.array([[0, 0], [2, 1], [5, 5], [5, 9.0]])
        >>> lda(z, [0, 0, 1, 1], 0.1).apply(z).shape
        (4, 1)
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    x = check_numbers("z", z)
    check_number("shrinkage", shrinkage, least=0, most=1)
    model = LinearDiscriminantAnalysis(solver="eigen", shrinkage=shrinkage)
    model.fit(x, check_classes("y", y, len(x)))
    return LinearMap(x.mean(0), model.scalings_[:, : min(len(model.classes_) - 1, x.shape[1])])


def class_means(z: Floats, y: ArrayLike) -> tuple[Indices, Floats]:
    """The class of each item by its position among the classes, int64 [n], and their means, [C, d].

    Example:
        >>> class_means(np.array([[0.0], [2.0], [5.0]]), [3, 3, 7])
        (array([0, 0, 1]), array([[1.],
               [5.]]))
    """
    labels, classes = np.unique(check_classes("y", y, len(z)), return_inverse=True)
    return classes, np.stack([z[classes == k].mean(0) for k in range(len(labels))])


def _inverse_root(covariance: Floats) -> Floats:
    """The inverse square root of a covariance, symmetric; 0 along directions without variance."""
    variances, axes = np.linalg.eigh(covariance)
    kept = variances > variances[-1] * len(variances) * np.finfo(np.float64).eps
    if not kept.any():
        raise InputError("z: items do not vary, so that there is nothing to whiten")
    return np.asarray((axes[:, kept] / np.sqrt(variances[kept])) @ axes[:, kept].T)
