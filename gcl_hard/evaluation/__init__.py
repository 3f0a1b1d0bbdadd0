"""How good embeddings are: NumPy arrays in, scores out.

Names are imported when used: a table that is only shown does not wait for scikit-learn. Probes
that run on a device import torch when they are called, everything else does without.
"""

from typing import TYPE_CHECKING

from gcl_hard.lazy import lazy

if TYPE_CHECKING:
    from gcl_hard.evaluation.baselines import majority_cross_validation
    from gcl_hard.evaluation.knn import K_GRID, knn_cross_validation
    from gcl_hard.evaluation.linear import linear_cross_validation
    from gcl_hard.evaluation.nested import CrossValidation, FoldScore
    from gcl_hard.evaluation.probes import ProbeRecipe, linear_probe, weighted_knn
    from gcl_hard.evaluation.ranks import average_ranks, cliques, critical_difference, friedman
    from gcl_hard.evaluation.significance import (
        Interval,
        PairedTest,
        corrected_interval,
        corrected_t_test,
        holm,
        wilcoxon,
    )
    from gcl_hard.evaluation.splits import Fold, check_labels, inner_holdout, outer_folds
    from gcl_hard.evaluation.svm import (
        C_GRID,
        kernel_cross_validation,
        kernel_fold,
        svm_cross_validation,
        svm_fold,
    )

__all__ = [
    "C_GRID",
    "K_GRID",
    "CrossValidation",
    "Fold",
    "FoldScore",
    "Interval",
    "PairedTest",
    "ProbeRecipe",
    "average_ranks",
    "check_labels",
    "cliques",
    "corrected_interval",
    "corrected_t_test",
    "critical_difference",
    "friedman",
    "holm",
    "inner_holdout",
    "kernel_cross_validation",
    "kernel_fold",
    "knn_cross_validation",
    "linear_cross_validation",
    "linear_probe",
    "majority_cross_validation",
    "outer_folds",
    "svm_cross_validation",
    "svm_fold",
    "weighted_knn",
    "wilcoxon",
]

__getattr__ = lazy(
    __name__,
    {
        "C_GRID": "svm",
        "K_GRID": "knn",
        "CrossValidation": "nested",
        "Fold": "splits",
        "FoldScore": "nested",
        "Interval": "significance",
        "PairedTest": "significance",
        "ProbeRecipe": "probes",
        "average_ranks": "ranks",
        "check_labels": "splits",
        "cliques": "ranks",
        "corrected_interval": "significance",
        "corrected_t_test": "significance",
        "critical_difference": "ranks",
        "friedman": "ranks",
        "holm": "significance",
        "inner_holdout": "splits",
        "kernel_cross_validation": "svm",
        "kernel_fold": "svm",
        "knn_cross_validation": "knn",
        "linear_cross_validation": "linear",
        "linear_probe": "probes",
        "majority_cross_validation": "baselines",
        "outer_folds": "splits",
        "svm_cross_validation": "svm",
        "svm_fold": "svm",
        "weighted_knn": "probes",
        "wilcoxon": "significance",
    },
)
