"""The probes that configurations name: each scores the embeddings of one outer fold."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from gcl_hard.evaluation.folds import FoldScore
from gcl_hard.evaluation.probes import probe_fold
from gcl_hard.evaluation.svm import svm_fold


class Probe(NamedTuple):
    """A probe.

    Attributes:
        help: a phrase for the help of a flag.
        score: called as ``score(embeddings, labels, fold, standardise=, C_grid=, seed=)``, as
            ``svm_fold`` is.
    """

    help: str
    score: Callable[..., FoldScore]


PROBES: dict[str, Probe] = {
    "svm": Probe("svm", svm_fold),
    "logistic": Probe("logistic (linear probe)", partial(probe_fold, probe="logistic")),
    "nystroem": Probe(
        "nystroem (approximates the SVM's rbf)", partial(probe_fold, probe="nystroem")
    ),
}
"""Probes by the name in a configuration; flags, runs and tables take a row that is added here."""
