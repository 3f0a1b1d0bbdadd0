"""How good embeddings are: NumPy arrays in, scores out.

Names are imported on first use, so that showing a finished table does not import scikit-learn.
Only the probes that run on a device import torch, when they are called.
"""

from typing import TYPE_CHECKING

from gcl_hard.lazy import lazy

if TYPE_CHECKING:
    from gcl_hard.evaluation.baselines import majority_cross_validation
    from gcl_hard.evaluation.kernels import C_GRID
    from gcl_hard.evaluation.nested import CrossValidation, FoldScore
    from gcl_hard.evaluation.probes import (
        K_GRID,
        ProbeRecipe,
        knn_cross_validation,
        linear_cross_validation,
        linear_probe,
        weighted_knn,
    )
    from gcl_hard.evaluation.significance import (
        Interval,
        PairedTest,
        average_ranks,
        cliques,
        corrected_interval,
        corrected_t_test,
        critical_difference,
        friedman,
        holm,
        wilcoxon,
    )
    from gcl_hard.evaluation.splits import Fold, check_labels, inner_holdout, outer_folds
    from gcl_hard.evaluation.svm import (
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

_MODULES = {
    "baselines": ("majority_cross_validation",),
    "kernels": ("C_GRID",),
    "nested": ("CrossValidation", "FoldScore"),
    "probes": (
        "K_GRID",
        "ProbeRecipe",
        "knn_cross_validation",
        "linear_cross_validation",
        "linear_probe",
        "weighted_knn",
    ),
    "significance": (
        "Interval",
        "PairedTest",
        "average_ranks",
        "cliques",
        "corrected_interval",
        "corrected_t_test",
        "critical_difference",
        "friedman",
        "holm",
        "wilcoxon",
    ),
    "splits": ("Fold", "check_labels", "inner_holdout", "outer_folds"),
    "svm": ("kernel_cross_validation", "kernel_fold", "svm_cross_validation", "svm_fold"),
}
__getattr__ = lazy(__name__, {name: module for module, names in _MODULES.items() for name in names})
