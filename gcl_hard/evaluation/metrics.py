"""Metrics: scores of predictions by name."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.errors import InputError, unknown
from gcl_hard.evaluation.checks import as_array
from gcl_hard.evaluation.ranking import (
    AnswerRanks,
    adjusted_mean_rank_index,
    hits,
    mean_reciprocal_rank,
    reciprocals,
)
from gcl_hard.evaluation.transfer import resampled_auc, resampled_rmse, rmse, roc_auc


@dataclass(frozen=True)
class Metric:
    """A score of predictions.

    Attributes:
        title: title in tables and on axes.
        score: called with targets [n] or [n, T], and predictions of the same shape.
        higher: whether more is better.
        unit: unit of the values, such as ``"%"``; empty for none.
        digits: decimals in tables.
        share: whether it is the share of items predicted right, in percent, and so has the
            standard error of a share.
        each: called with targets and predictions; returns the value of each item, whose mean is
            the score, float [n]; None if the score is no mean.
        kind: kind of predictions: ``"classes"``, ``"scores"`` of a class, ``"numbers"``,
            ``"ranks"``, ``"retrieval"`` or ``"ood"``; predictions of a kind suffice for all its
            metrics.
        least: smallest value, None for no limit.
        most: largest value.
        mask: name of the mask of the test items that count; empty for all.
        resampled: called with targets, predictions, ids of the items of several draws, int64
            [B, n], and a mask of the items that count, bool [n] or None; returns the score of each
            draw, float [B]. None if intervals are over seeds alone.

    Example:
        >>> error = Metric("RMSE", _accuracy, higher=False, unit="cm", digits=2)
        >>> error.label, error.text(0.1), error.difference(0.25), error.gain(0.1, 0.25)
        ('RMSE, cm', '0.10', '+0.25', 0.15)
        >>> METRICS["accuracy"].label, METRICS["accuracy"].points
        ('accuracy, %', 'points')
    """

    title: str
    score: Callable[[Any, Any], float]
    higher: bool = True
    unit: str = "%"
    digits: int = 1
    share: bool = False
    each: Callable[[Any, Any], Any] | None = None
    kind: str = ""
    least: float | None = None
    most: float | None = None
    mask: str = ""
    resampled: Callable[[Any, Any, Any, Any], Any] | None = None

    @property
    def label(self) -> str:
        """Title and unit, for a column header or an axis."""
        return f"{self.title}, {self.unit}" if self.unit else self.title

    @property
    def points(self) -> str:
        """Unit of differences: points, for values in percent."""
        return "points" if self.unit == "%" else self.unit or self.title

    def text(self, value: float) -> str:
        """A value with the decimals of tables."""
        return f"{value:.{self.digits}f}"

    def shown(self, value: float) -> str:
        """A value with its unit."""
        return f"{self.text(value)} {self.unit}".rstrip()

    def difference(self, value: float) -> str:
        """A difference with its sign, even if it rounds to 0."""
        return f"{value:+.{self.digits}f}"

    def within(self, value: float) -> float:
        """A value, clipped to the metric's range.

        Example:
            >>> METRICS["accuracy"].within(103.2), METRICS["rmse"].within(-0.1)
            (100.0, 0.0)
        """
        value = value if self.most is None else min(value, self.most)
        return value if self.least is None else max(value, self.least)

    def gain(self, ours: float, theirs: float) -> float:
        """How much better our score is than theirs; below 0 if it is worse."""
        return ours - theirs if self.higher else theirs - ours


def _accuracy(targets: Any, predicted: Any) -> float:
    y, predicted = _classes(targets, predicted)
    return 100 * float(np.mean(predicted == y))


def _rights(targets: Any, predicted: Any) -> Any:
    y, predicted = _classes(targets, predicted)
    return 100.0 * (predicted == y)


def _pair(targets: Any, predicted: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Targets and predictions; InputError if their shapes differ."""
    y, predicted = as_array("targets", targets), as_array("predictions", predicted)
    if y.shape != predicted.shape or not y.size:
        raise InputError(f"targets are {[*y.shape]} and predictions {[*predicted.shape]}")
    return y, predicted


def _classes(targets: Any, predicted: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Targets and predictions; InputError for targets that are no classes."""
    y, predicted = _pair(targets, predicted)
    if y.dtype.kind == "f" and (y % 1 != 0).any():  # NaN, too
        raise InputError("targets must be classes: score real numbers by rmse or r2")
    return y, predicted


def _auc(targets: Any, predicted: Any) -> float:
    return 100 * roc_auc(targets, predicted).mean


def _resampled_auc(targets: Any, predicted: Any, ids: Any, mask: Any) -> Any:
    return 100 * resampled_auc(targets, predicted, ids)


def _rank_metric(score: Callable[[AnswerRanks], float]) -> Callable[[Any, Any], float]:
    """A metric of ranks, in percent; its targets are the numbers of ranked candidates."""
    return lambda candidates, ranks: 100 * score(AnswerRanks(ranks, candidates))


def _amri(candidates: Any, ranks: Any) -> float:
    return adjusted_mean_rank_index(AnswerRanks(ranks, candidates))


def _reciprocals(candidates: Any, ranks: Any) -> Any:
    return 100 * reciprocals(AnswerRanks(ranks, candidates)).numpy()


def _hits(candidates: Any, ranks: Any, k: int) -> Any:
    """Of each query, whether its answer is among the first k, in percent."""
    return 100.0 * (np.asarray(ranks) <= k)


def _recalls(targets: Any, predicted: Any, k: int) -> Any:
    """Of each query, whether its rank is at most k, in percent."""
    return _hits(targets, _pair(targets, predicted)[1][:, 0], k)


def _precisions(targets: Any, predicted: Any) -> Any:
    """AP@R of each query, in percent."""
    return 100 * _pair(targets, predicted)[1][:, 1]


def _mean(each: Callable[[Any, Any], Any], title: str) -> Metric:
    """A metric that is the mean of the values of items."""
    return Metric(
        title, lambda targets, predicted: float(np.mean(each(targets, predicted))), each=each,
        kind="retrieval", least=0.0, most=100.0,
    )  # fmt: skip


def _auroc(is_open: NDArray[Any], margins: NDArray[Any]) -> float:
    return 100 * roc_auc(is_open, margins).mean


def _fpr95(is_open: NDArray[Any], margins: NDArray[Any]) -> float:
    if is_open.all() or not is_open.any():
        return math.nan
    threshold = np.quantile(margins[~is_open], 0.95, method="inverted_cdf")
    return 100 * float(np.mean(margins[is_open] <= threshold))


def _open_f1(targets: NDArray[Any], predicted: NDArray[Any]) -> float:
    right = np.sum((targets == OPEN) & (predicted == OPEN))
    either = np.sum(targets == OPEN) + np.sum(predicted == OPEN)
    return 100 * float(2 * right / either) if either else math.nan


def _detection(score: Callable[[Any, Any], float], column: int) -> Callable[[Any, Any], float]:
    """A metric of how far a detector's scores are above its threshold."""

    def of_columns(targets: Any, predicted: Any) -> float:
        y, predictions = _pair(targets, predicted)
        return score(y[:, 0] == OPEN, predictions[:, column])

    return of_columns


def _open_set(score: Callable[[Any, Any], float], column: int) -> Callable[[Any, Any], float]:
    """A metric of the classes that a probe predicts for what a detector lets pass."""

    def of_columns(targets: Any, predicted: Any) -> float:
        y, predictions = _pair(targets, predicted)
        return score(y[:, 0], np.where(predictions[:, column] > 0, OPEN, predictions[:, 0]))

    return of_columns


def _by_sklearn(name: str, **options: Any) -> Callable[[Any, Any], float]:
    """A score of scikit-learn, in percent."""

    def score(targets: Any, predicted: Any) -> float:
        import sklearn.metrics

        with warnings.catch_warnings(action="ignore"):  # about classes without a test item
            value = getattr(sklearn.metrics, name)(*_classes(targets, predicted), **options)
        return 100 * float(value)

    return score


def _f1_macro(targets: Any, predicted: Any) -> float:
    # Stands beside the accuracy in finished tables, which load no scikit-learn.
    y, predicted = _classes(targets, predicted)
    classes, ids = np.unique([y, predicted], return_inverse=True)
    true, guessed = ids.reshape(2, -1)
    right = np.bincount(true[true == guessed], minlength=len(classes))
    return 100 * float(np.mean(2 * right / np.bincount(ids.ravel())))


def _by_task(name: str, *, classes: bool) -> Callable[[Any, Any], float]:
    """A score of scikit-learn, averaged over the tasks for which it is defined."""

    def score(targets: Any, predicted: Any) -> float:
        import sklearn.metrics

        scores = list[float]()
        both = (values.astype(float) for values in _pair(targets, predicted))
        tasks = zip(*(values.reshape(len(values), -1).T for values in both), strict=True)
        for task_targets, task_predictions in tasks:
            known = np.isfinite(task_targets)
            pair = task_targets[known], task_predictions[known]
            if len(np.unique(pair[0])) > 1 and not np.isnan(pair[1]).any():
                scores.append(float(getattr(sklearn.metrics, name)(*pair)))
        return (100 if classes else 1) * float(np.mean(scores)) if scores else math.nan

    return score


_CLASSES: dict[str, Any] = {"kind": "classes", "least": 0.0, "most": 100.0}
_SCORES: dict[str, Any] = {"kind": "scores", "least": 0.0, "most": 100.0}
_RANKS: dict[str, Any] = {"kind": "ranks", "least": 0.0, "most": 100.0}
_OOD: dict[str, Any] = {"kind": "ood", "least": 0.0, "most": 100.0}
_NUMBERS: dict[str, Any] = {"kind": "numbers", "unit": "", "digits": 3}

OPEN = -1
"""The class of items that are of no known class."""
DETECTORS = {"knn": "kNN", "lof": "LOF", "mahalanobis": "Mahalanobis", "energy": "energy"}
"""The detectors of such items, in the order of the columns of their predictions, and their titles.
"""

METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy", _accuracy, share=True, each=_rights, **_CLASSES),
    "balanced_accuracy": Metric(
        "balanced accuracy", _by_sklearn("balanced_accuracy_score"), **_CLASSES
    ),
    "f1_macro": Metric("macro-F1", _f1_macro, **_CLASSES),
    "auc": Metric("ROC-AUC", _auc, resampled=_resampled_auc, **_SCORES),
    "average_precision": Metric(
        "average precision", _by_task("average_precision_score", classes=True), **_SCORES
    ),
    "rmse": Metric(
        "RMSE", rmse, higher=False, least=0.0, resampled=resampled_rmse, **_NUMBERS
    ),
    "r2": Metric("R²", _by_task("r2_score", classes=False), most=1.0, **_NUMBERS),
    "cliff_rmse": Metric(
        "RMSE of molecules with an activity cliff", rmse, higher=False, mask="cliffs", least=0.0,
        resampled=resampled_rmse, **_NUMBERS,
    ),
    "mrr": Metric("MRR", _rank_metric(mean_reciprocal_rank), each=_reciprocals, **_RANKS),
    **{
        f"hits{k}": Metric(
            f"Hits@{k}", _rank_metric(partial(hits, k=k)), each=partial(_hits, k=k), **_RANKS
        )
        for k in (1, 3, 10)
    },
    **{
        f"mrr_{kind}": Metric(
            f"MRR of {kind.replace('_', '-').upper()} questions",
            _rank_metric(mean_reciprocal_rank), mask=kind, **_RANKS,
        )
        for kind in ("1_1", "1_n", "n_1", "n_n")
    },
    "amri": Metric(
        "AMRI", _amri, kind="ranks", unit="", digits=3, most=1.0
    ),
    "map_at_r": _mean(_precisions, "MAP@R"),
    **{f"recall_{k}": _mean(partial(_recalls, k=k), f"R@{k}") for k in (1, 2, 4, 8)},
    **{
        f"{name}_{detector}": Metric(
            f"{title} ({label})", of_columns(score, column), higher=name != "fpr95", **_OOD
        )
        for column, (detector, label) in enumerate(DETECTORS.items(), start=1)
        for name, title, of_columns, score in (
            ("auroc", "AUROC", _detection, _auroc),
            ("aupr", "AUPR", _detection, _by_task("average_precision_score", classes=True)),
            ("fpr95", "FPR95", _detection, _fpr95),
            ("open_accuracy", "accuracy with an open class", _open_set, _accuracy),
            ("open_f1_macro", "macro-F1 with an open class", _open_set, _f1_macro),
            ("open_f1", "F1 of the open class", _open_set, _open_f1),
        )
    },
}  # fmt: skip
"""The metrics by name; :func:`register_metric` adds one."""


def register_metric(name: str, metric: Metric) -> None:
    """Register a metric by a name, under which records keep its values.

    Raises:
        ValueError: if another metric has the name.

    Example:
        >>> def error(targets, predicted):
        ...     return float(np.abs(np.asarray(targets) - predicted).mean())
        >>> register_metric("mae", Metric("MAE", error, higher=False, unit="", digits=3))
        >>> metric("mae").score([1.0, 2.0], [1.5, 2.0])
        0.25
    """
    if METRICS.setdefault(name, metric) != metric:
        raise ValueError(f"another metric is called {name!r}: choose another name")


def alike(name: str) -> list[str]:
    """The names of the metrics that take the same kind of predictions as another one.

    Example:
        >>> alike("accuracy")
        ['accuracy', 'balanced_accuracy', 'f1_macro']
    """
    kind = metric(name).kind
    return [
        other
        for other, other_metric in METRICS.items()
        if other == name or (kind and other_metric.kind == kind)
    ]


def metric(name: str) -> Metric:
    """The metric of a name.

    Raises:
        InputError: for an unknown name.

    Example:
        >>> metric("accuracy").score([0, 1, 1, 0], [0, 1, 0, 0])
        75.0
    """
    if name not in METRICS:
        raise unknown("metric", name, METRICS)
    return METRICS[name]


def predicted_by(logits: Any, name: str) -> NDArray[Any]:
    """Predictions for a metric from logits [n, C]: classes, or the second logit less the first."""
    scores = as_array("logits", logits)
    if metric(name).kind == "scores":
        return np.asarray(scores[:, 1] - scores[:, 0])
    return np.asarray(scores.argmax(1))


def score_of_logits(logits: Tensor, targets: Tensor, name: str = "accuracy") -> tuple[float, float]:
    """A metric of classes, and the log-likelihood to break ties.

    Args:
        logits: float [n, C].
        targets: int64 [n].
        name: name of a metric for which more is better.

    Example:
        >>> score_of_logits(torch.zeros(2, 2), torch.tensor([0, 1]))
        (50.0, -0.6931471824645996)
    """
    likelihood = -float(torch.nn.functional.cross_entropy(logits, targets))
    predicted = predicted_by(logits.cpu(), name)
    return metric(name).score(targets.cpu().numpy(), predicted), likelihood
