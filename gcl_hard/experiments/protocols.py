"""What protocols of labelled items score: classes, rankings of unseen classes, unknown classes.

They know embeddings, classes and splits, and no domain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gcl_hard.errors import InputError
from gcl_hard.evaluation.folds import ThreeWaySplit
from gcl_hard.evaluation.metrics import metric
from gcl_hard.evaluation.ood import open_set
from gcl_hard.evaluation.retrieval import retrieve
from gcl_hard.evaluation.splits import probe_splits
from gcl_hard.evaluation.transforms import (
    SHRINKAGES,
    LinearMap,
    lda,
    pca_whitening,
    within_class_whitening,
)
from gcl_hard.experiments.record import Tested
from gcl_hard.experiments.settings import RunConfig

SPLIT, UNSEEN, OOD = "split", "unseen", "ood"
METRIC = {SPLIT: "accuracy", UNSEEN: "map_at_r", OOD: "open_f1_macro_knn"}
"""The metric of each protocol that tables show first and settings are chosen by."""
BESIDE = {
    "accuracy": ("f1_macro",),
    METRIC[UNSEEN]: ("recall_1",),
    METRIC[OOD]: ("auroc_knn", "fpr95_knn", "open_accuracy_knn"),
}
"""Metrics that tables show beside these."""
MAPS = {"whitened-within": within_class_whitening, "lda": lda}
"""Linear maps with labels, whose shrinkage the validation part chooses."""
LINEAR = ("whitened", *MAPS)
"""Linear maps that are fitted to a training part in closed form."""
MAJORITY = "majority"
"""The baseline that predicts one class."""
C = TypeVar("C", bound=RunConfig)


def of_one_protocol(configs: Sequence[C]) -> Sequence[C]:
    """Configurations without the most frequent class where classes are not what is scored.

    Raises:
        InputError: for several protocols, or if none is left.
    """
    protocols = [*dict.fromkeys(config.protocol for config in configs)]
    if len(protocols) > 1:
        raise InputError(
            f"{' and '.join(protocols)} are scored by different metrics: give each protocol a "
            f"command of its own"
        )
    some = [config for config in configs if SPLIT in protocols or config.method != MAJORITY]
    if not some:
        raise InputError(f"{MAJORITY} predicts one class, and {protocols[0]} scores no classes")
    return some


class ProtocolScore(NamedTuple):
    """What one split scores.

    Attributes:
        tested: predictions of the test part, or of the validation part in its place.
        validation: the protocol's metric on the validation part.
        chosen: what the validation part chose, C of the probe or a shrinkage; None if nothing.
        n_alone: queries that are left out, as no other item is of their class.
        n_tied: ranked items whose cosine another one has.
    """

    tested: Tested
    validation: float
    chosen: float | None = None
    n_alone: int = 0
    n_tied: int = 0


def protocol_score(
    protocol: str, z: Any, y: NDArray[np.int64], split: ThreeWaySplit, *, inner: bool = False
) -> ProtocolScore:
    """The score of embeddings by a protocol.

    Args:
        protocol: ``split``, a logistic regression whose C the validation part chooses; ``unseen``,
            rankings of the items of a part among each other; or ``ood``, four detectors.
        z: real numbers [n, d]; rows in no part are not read.
        y: classes [n].
        split: under ``unseen`` of classes; under ``ood`` training and validation have the known
            ones alone.
        inner: whether the validation part is tested on in place of the test part.

    Example:
        >>> y = np.arange(40) // 10
        >>> z = np.eye(4)[y] + 0.01 * np.random.default_rng(0).normal(size=(40, 4))
        >>> split = ThreeWaySplit(np.arange(0, 40, 2), np.arange(1, 40, 4), np.arange(3, 40, 4))
        >>> protocol_score("split", z, y, split).validation
        100.0
        >>> protocol_score("unseen", z, y, ThreeWaySplit(y[:0], *np.split(np.arange(40), 2)))[1]
        100.0
    """
    return _PROTOCOLS[protocol](z, y, split, inner)


def linear_map(
    name: str, z: Any, y: NDArray[np.int64], split: ThreeWaySplit, protocol: str
) -> tuple[NDArray[np.float64], float | None]:
    """Embeddings by a linear map fitted to the training part, and the chosen shrinkage.

    Args:
        name: ``whitened``, by the principal components; or one of :data:`MAPS`, whose shrinkage
            has the best score on the validation part, on a tie the smallest.
        z: real numbers [n, d].
        y: classes [n].
        split: as for :func:`protocol_score`.
        protocol: scores the validation part.

    Returns:
        float64 [n, r], 0 in rows of no part; and the shrinkage, None without.
    """
    rows, used = np.asarray(z), np.unique(np.concatenate(split))
    train = rows[split.train]

    def mapped(by: LinearMap, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        values = by.apply(rows[ids])
        everything = np.zeros((len(rows), values.shape[1]))
        everything[ids] = values
        return everything

    if name not in MAPS:
        return mapped(pca_whitening(train), used), None
    seen, best = np.union1d(split.train, split.valid), None
    for shrinkage in SHRINKAGES:
        by = MAPS[name](train, y[split.train], shrinkage)
        value = protocol_score(protocol, mapped(by, seen), y, split, inner=True).validation
        if best is None or value > best[0]:
            best = value, by, shrinkage
    assert best is not None
    return mapped(best[1], used), best[2]


def classified(
    predicted: NDArray[Any], y: NDArray[np.int64], split: ThreeWaySplit, *, inner: bool
) -> ProtocolScore:
    """The score of classes that are predicted for all items, [n]."""
    value = metric(METRIC[SPLIT]).score(y[split.valid], predicted[split.valid])
    part = split.valid if inner else split.test
    return ProtocolScore(Tested(part, y[part], predicted[part]), value)


def _probed(z: Any, y: NDArray[np.int64], split: ThreeWaySplit, inner: bool) -> ProtocolScore:
    (probed,) = probe_splits(z, y, [split])
    return classified(probed.predicted, y, split, inner=inner)._replace(chosen=probed.chosen)


def _ranked(z: Any, y: NDArray[np.int64], split: ThreeWaySplit, inner: bool) -> ProtocolScore:
    valid = retrieve(z[split.valid], y[split.valid])
    part = split.valid if inner else split.test
    ranked = valid if inner else retrieve(z[part], y[part])
    tested = Tested(part[ranked.ids], ranked.targets, ranked.predicted)
    return ProtocolScore(
        tested, 100 * valid.map_at_r, n_alone=ranked.n_alone, n_tied=int(ranked.n_tied.sum())
    )


def _detected(z: Any, y: NDArray[np.int64], split: ThreeWaySplit, inner: bool) -> ProtocolScore:
    part = split.valid if inner else np.concatenate([split.valid, split.test])
    opened, n = open_set(z, y, split._replace(test=part)), len(split.valid)
    value = metric(METRIC[OOD]).score(opened.targets[:n], opened.predicted[:n])
    rows = slice(None) if inner else slice(n, None)
    tested = Tested(part[rows], opened.targets[rows], opened.predicted[rows])
    return ProtocolScore(tested, value, opened.chosen)


_PROTOCOLS: dict[str, Callable[..., ProtocolScore]] = {
    SPLIT: _probed, UNSEEN: _ranked, OOD: _detected
}  # fmt: skip
