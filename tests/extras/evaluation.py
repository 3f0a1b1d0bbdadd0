"""Scores of one's own embeddings by the nested SVM, and a test of their difference."""

import numpy as np

from gcl_hard.evaluation import corrected_t_test, svm_cross_validation
from tests.extras.absent import refused_import

rng = np.random.default_rng(0)
y = np.arange(60) % 2
near, far = (
    svm_cross_validation(rng.normal(size=(60, 4)) + gap * y[:, None], y, seed=0, n_folds=5)
    for gap in (0.5, 4.0)
)
scores = [[fold.accuracy for fold in result.folds] for result in (far, near)]
assert np.mean(scores[0]) > np.mean(scores[1]), scores
assert 0 <= corrected_t_test(*scores, test_share=1 / 4).p <= 1
refused_import("gcl_hard.graphs.GIN", "graphs")
