"""Closed-form maps, against scikit-learn and the covariances that they should leave."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.covariance import shrunk_covariance
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from gcl_hard.errors import InputError
from gcl_hard.evaluation import SHRINKAGES, lda, pca_whitening, retrieve, within_class_whitening


def problem(n: int = 200, d: int = 6) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(0)
    y = draws.integers(5, size=n)
    return draws.normal(size=(n, d)) @ draws.normal(size=(d, d)) + 3 * np.eye(5, d)[y] + 10, 7 * y


def within(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    centred = np.concatenate([z[y == c] - z[y == c].mean(0) for c in np.unique(y)])
    return centred.T @ centred / len(z)


@pytest.mark.parametrize("n", [200, 5])  # with 5 items 2 of 6 directions have no variance
def test_whitening_is_a_rotation_of_scikit_learns(n: int) -> None:
    z = problem(n)[0]
    whitened = PCA(min(n - 1, 6), whiten=True).fit_transform(z)
    ours = pca_whitening(z).apply(z)
    assert np.allclose(ours @ ours.T, whitened @ whitened.T, atol=1e-9)


@pytest.mark.parametrize("shrinkage", [0.0, *SHRINKAGES])
def test_whitening_within_classes_whitens_the_shrunk_covariance(shrinkage: float) -> None:
    z, y = problem()
    transform = within_class_whitening(z, y, shrinkage)
    matrix = transform.matrix
    shrunk = shrunk_covariance(within(z, y), shrinkage)
    assert np.allclose(matrix.T @ shrunk @ matrix, np.eye(6), atol=1e-10)
    assert np.allclose(transform.apply(z).mean(0), 0, atol=1e-10)
    if shrinkage == 0:
        assert np.allclose(within(transform.apply(z), y), np.eye(6), atol=1e-10)
    if shrinkage == 1:  # then it only centres
        plain, centred = retrieve(transform.apply(z), y), retrieve(z - z.mean(0), y)
        assert np.array_equal(plain.rank, centred.rank)


@pytest.mark.parametrize("shrinkage", [0.0, 0.3])
def test_lda_is_scikit_learns(shrinkage: float) -> None:
    z, y = problem()
    ours = lda(z, y, shrinkage).apply(z)
    theirs = LinearDiscriminantAnalysis(solver="eigen", shrinkage=shrinkage).fit_transform(z, y)
    theirs -= theirs.mean(0)
    assert ours.shape == (200, 4)
    assert np.allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-9)


def test_lda_spans_what_the_singular_value_decomposition_does() -> None:
    """Without shrinkage, scikit-learn's other solver has the same space, centred."""
    z, y = problem()
    ours = lda(z, y).apply(z)
    theirs = LinearDiscriminantAnalysis(solver="svd").fit_transform(z, y)
    angles = np.linalg.svd(np.linalg.qr(ours)[0].T @ np.linalg.qr(theirs)[0], compute_uv=False)
    assert np.allclose(angles, 1)


def test_items_that_do_not_vary_and_shrinkages_out_of_range_are_refused() -> None:
    z, y = problem()
    for fit in (within_class_whitening, lda):
        with pytest.raises(InputError):
            fit(z, y, 1.1)
    with pytest.raises(InputError):
        within_class_whitening(z, np.arange(len(z)))
    with pytest.raises(InputError):
        pca_whitening(np.ones((9, 2)))
