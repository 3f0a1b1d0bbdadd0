"""How good embeddings are: NumPy arrays in, a dataclass of scores out; no torch in here."""

from gcl_hard.evaluation.folds import Fold, check_labels, inner_holdout, outer_folds
from gcl_hard.evaluation.knn import K_GRID, knn_cross_validation
from gcl_hard.evaluation.linear import linear_cross_validation
from gcl_hard.evaluation.nested import CrossValidation, FoldScore
from gcl_hard.evaluation.svm import C_GRID, svm_cross_validation, svm_fold

__all__ = [
    "C_GRID",
    "K_GRID",
    "CrossValidation",
    "Fold",
    "FoldScore",
    "check_labels",
    "inner_holdout",
    "knn_cross_validation",
    "linear_cross_validation",
    "outer_folds",
    "svm_cross_validation",
    "svm_fold",
]
