"""The probes that configurations name: each scores the embeddings of one outer fold."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gcl_hard.evaluation.folds import FoldScore


class Probe(NamedTuple):
    """A probe.

    Attributes:
        help: a phrase for the help of a flag.
        score: called as ``score(embeddings, labels, fold, standardise=, C_grid=, seed=)``, as
            ``svm_fold`` is.
    """

    help: str
    score: Callable[..., FoldScore]


def _svm(*data: Any, **options: Any) -> FoldScore:
    from gcl_hard.evaluation.svm import svm_fold

    return svm_fold(*data, **options)


def _regression(name: Any, *data: Any, **options: Any) -> FoldScore:
    from gcl_hard.evaluation.probes import probe_fold

    return probe_fold(*data, probe=name, **options)


PROBES: dict[str, Probe] = {
    "svm": Probe("svm", _svm),
    "logistic": Probe("logistic (linear probe)", partial(_regression, "logistic")),
    "nystroem": Probe("nystroem (approximates the SVM's rbf)", partial(_regression, "nystroem")),
}
"""Probes by the name in a configuration; flags, runs and tables take a row that is added here."""
