"""The record of a finished run, how it is stored, and how it is read."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gcl_hard.evaluation.metrics import alike, metric
from gcl_hard.experiments.domains import from_dict
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import as_json
from gcl_hard.files.io import BITS, json_text, packed, packed_bits, unpacked
from gcl_hard.theory.snapshots import snapshot_epochs

if TYPE_CHECKING:
    from gcl_hard.evaluation import FoldScore

SCHEMA_VERSION = 3
"""The schema of records."""
ACCURACY = "accuracy"


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Attributes:
        config: every setting, resolved.
        seed: seed of encoder and folds.
        scores: values by the name of a metric, such as accuracies in percent in the order of the
            folds; for images one, on the test split.
        seconds_train: for training.
        seconds_eval: for embedding and scoring.
        data: sizes of the data set, settings resolved by reading it, and its digest.
        device: name of the hardware that trained.
        versions: versions of the packages that numbers depend on.
        finished: date, UTC, ISO 8601.
        domain: name of the domain that the run belongs to.
        metric: name of the score that tables show.
        validation: the score inside the training part by which settings are chosen, one a fold, in
            the unit of ``metric``; empty if there is none.
        final_losses: losses of the encoders trained, nats.
        fold_c: the choice of each fold's classifier inside its training part: C of an SVM, the
            learning rate or C of a linear probe; empty if there is no such choice.
        inner: whether scores come from hold-outs inside the training folds, by which settings
            are chosen, and not from the test folds.
        test: the test items, fold after fold, as :func:`packed` writes them: ``sizes`` of the
            folds, ``items`` (ids), ``targets`` (classes or numbers), ``width``, the number of
            targets of an item if it has several, and ``masks`` of the items that some metrics are
            over; None without predictions. If items are in several folds, ``items`` may be bits
            that mark the ids of each fold; ``targets`` then has each item once, by ascending ids.
        predicted: predictions for the known targets, in the same form; or, item after item, bits
            that mark the classes predicted wrongly, and the predictions of these.
        knn: for images, the accuracy in percent of nearest neighbours among the training images, on
            the same test images; None for graphs and in earlier results.
        curve: monitoring for images: epochs and accuracies in percent of nearest neighbours among
            training images. No number of a table comes from it.
        diagnostics: snapshots of the run's first encoder, in the order of their epochs (docs:
            theory).
        seconds_diagnostics: for the snapshots, in neither of the other times.
        threads: CPU threads that trained; None if not recorded.
        migrated: the schema of a record that an earlier version wrote: its scores are the recorded
            ones, and its predictions, if it has any, were rounded.
        unknown: fields that this version does not know, kept as they are.
    """

    config: dict[str, Any]
    seed: int
    scores: dict[str, list[float]]
    seconds_train: float
    seconds_eval: float
    data: dict[str, Any]
    device: str
    versions: dict[str, str]
    finished: str
    domain: str = ""
    metric: str = ACCURACY
    final_losses: list[float] = field(default_factory=list)
    fold_c: list[float] = field(default_factory=list)
    inner: bool = False
    test: dict[str, Any] | None = None
    predicted: str | None = None
    knn: float | None = None
    curve: list[list[float]] = field(default_factory=list)
    diagnostics: list[dict[str, Any]] = field(default_factory=list)
    seconds_diagnostics: float = 0.0
    threads: int | None = None
    migrated: int | None = None
    validation: list[float] = field(default_factory=list)
    unknown: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def run(self) -> Run:
        """The run of this result."""
        return Run(from_dict(self.config, self.domain), self.seed, self.inner)

    @property
    def name(self) -> str:
        """Stem of its file names."""
        return self.run.name(self.data.get("processes", 1))

    @property
    def values(self) -> list[float]:
        """The values of the score that tables show, in fold order."""
        return self.scores[self.metric]

    def lacks_snapshots(self, every: int) -> bool:
        """Whether a requested snapshot is missing.

        Args:
            every: epochs between snapshots, 0 for none. Baselines and inner hold-outs have none.
        """
        if not every or self.inner or self.run.config.is_baseline:
            return False
        epochs = {snapshot["epoch"] for snapshot in self.diagnostics}
        return not epochs >= {*snapshot_epochs(every, self.run.config.epochs)}

    def by(self, name: str) -> RunResult | None:
        """The result with its scores by another metric; None if they cannot be had.

        Scores that are not recorded are computed from the predictions if the metric takes these.
        """
        if name == self.metric:
            return self
        scores = self.scores.get(name)
        if scores is None and name in alike(self.metric):
            scores = [fold.score(name) for fold in self.tested()]
        if not scores:
            return None
        result = replace(self, metric=name, scores={**self.scores, name: scores}, validation=[])
        result.__dict__["run"] = self.run
        return result

    def tested(self) -> list[Tested]:
        """The predictions, fold by fold; empty without any."""
        if self.test is None or self.predicted is None:
            return []
        return _folds(self.test, self.predicted)

    def stored(self) -> dict[str, Any]:
        """The record as it is written, with its digest."""
        content = {f.name: getattr(self, f.name) for f in fields(self) if f.name in NAMES}
        content["scores"] = {name: _known(values) for name, values in self.scores.items()}
        content["validation"] = _known(self.validation)
        content = {"schema_version": SCHEMA_VERSION, **content, **self.unknown}
        content = json.loads(json_text(content))  # tuples as lists
        return {**content, "digest": digest_of(content)}

    @classmethod
    def read(cls, stored: Mapping[str, Any], *, checked: bool = False) -> RunResult:
        """A record of this schema.

        Args:
            stored: the written record, as read from JSON.
            checked: whether its digest must be that of its content.

        Raises:
            InputError: for a setting or a domain that this version does not know; names it.
            KeyError, TypeError, ValueError: for a damaged record.
        """
        content = {**stored, "schema_version": SCHEMA_VERSION}
        digest = content.pop("digest", None)
        # Before the digest: a record with unknown settings is another version's.
        config = from_dict(content["config"], content.get("domain", ""), recorded=True)
        if checked and digest != digest_of(content):
            raise ValueError("its content does not match its digest")
        del content["schema_version"]
        unknown = {name: content.pop(name) for name in [*content] if name not in NAMES}
        content["scores"] = {name: _numbers(values) for name, values in content["scores"].items()}
        content["validation"] = _numbers(content.get("validation", []))
        # All settings, stated or not.
        content |= {"config": as_json(config), "domain": config.domain}
        result = cls(**content, unknown=unknown)
        result.__dict__["run"] = Run(config, result.seed, result.inner)
        return result


NAMES = frozenset(field.name for field in fields(RunResult)) - {"unknown"}


class Tested(NamedTuple):
    """The test items of a fold.

    Attributes:
        items: int64 [n], their ids.
        targets: [n] or [n, T], their classes (int64) or numbers (float64, NaN if unknown).
        predicted: predictions of the same shape; numbers for unknown targets are not kept.
        masks: bool [n] by name, the items that some metrics are over.
    """

    items: NDArray[np.int64]
    targets: NDArray[Any]
    predicted: NDArray[Any]
    masks: Mapping[str, NDArray[np.bool_]] = {}

    def score(self, name: str) -> float:
        """The value of a metric."""
        measure = metric(name)
        if measure.mask and measure.mask not in self.masks:
            return math.nan  # no item is known to be in the mask
        rows = self.masks[measure.mask] if measure.mask else slice(None)
        return measure.score(self.targets[rows], self.predicted[rows])


def _folds(test: Mapping[str, Any], predicted: str) -> list[Tested]:
    """The folds of a record's test items and predictions."""
    targets = unpacked(test["targets"])
    items = np.arange(sum(test["sizes"])) if test.get("items") is None else unpacked(test["items"])
    if test.get("items", "").startswith(BITS):
        items = np.nonzero(items.reshape(len(test["sizes"]), -1))[1]
        positions = np.unique(items, return_inverse=True)[1]
        targets = targets.reshape(-1, test.get("width", 1))[positions].ravel()
    values = _predicted(predicted, items, targets)
    known = np.isfinite(targets)
    if not known.all():
        padded = np.full(targets.shape, np.nan)
        padded[known] = values
        values = padded
    if "width" in test:
        targets, values = (array.reshape(-1, test["width"]) for array in (targets, values))
    masks = {name: unpacked(mask).astype(bool) for name, mask in test.get("masks", {}).items()}
    ends = np.cumsum(test["sizes"])[:-1]
    folds = zip(*(np.split(array, ends) for array in (items, targets, values)), strict=True)
    fold_masks = {name: np.split(mask, ends) for name, mask in masks.items()}
    return [
        Tested(ids, classes, predictions, {name: parts[k] for name, parts in fold_masks.items()})
        for k, (ids, classes, predictions) in enumerate(folds)
    ]


def _predicted(text: str, items: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any]:
    """The predictions of a record, fold after fold."""
    wrong, _, classes = text.partition(" ")
    if not classes:
        return unpacked(text)
    predictions = targets.copy()
    predictions[_by_item(items)[unpacked(wrong).astype(bool)]] = unpacked(classes)
    return predictions


def _by_item(items: NDArray[Any]) -> NDArray[Any]:
    """Indices that sort test items by id: an item that is wrong in one fold is often wrong in all,
    which compresses well.
    """
    return np.argsort(items, kind="stable")


def _are_classes(values: NDArray[Any]) -> bool:
    return values.ndim == 1 and values.dtype.kind in "iu" and values.min(initial=0) >= 0


@dataclass(frozen=True)
class Scored:
    """The predictions of a trained run, from which its scores are computed.

    Attributes:
        folds: the predictions, fold after fold; one if there is one test part.
        chosen: the choice inside the training part of each fold, such as C of an SVM; empty if
            there is none.
        validation: the first metric inside the training part of each fold, by which settings can
            be chosen; empty if it is not measured.
        facts: fields of the record's ``data`` beside the facts of the data set, such as settings
            resolved by these.

    Example:
        >>> fold = Tested(np.arange(4), np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0]))
        >>> Scored((fold,)).scores(["accuracy"])
        {'accuracy': [75.0]}
    """

    folds: tuple[Tested, ...]
    chosen: tuple[float, ...] = ()
    validation: tuple[float, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, scores: Iterable[FoldScore], targets: ArrayLike) -> Scored:
        """The predicted classes of scores of folds, which must have some.

        Args:
            scores: scores of the folds.
            targets: int [n], the class of each item by its id.
        """
        classes, folds, chosen = np.asarray(targets), list[Tested](), list[float]()
        for fold in scores:
            items, predicted = np.asarray(fold.test), np.asarray(fold.predicted)
            folds.append(Tested(items, classes[items], predicted))
            chosen += [] if fold.chosen is None else [fold.chosen]
        return cls(tuple(folds), chosen=tuple(chosen))

    def scores(self, metrics: Iterable[str]) -> dict[str, list[float]]:
        """The values in each fold by metric, from the predictions as stored."""
        folds = _folds(*self._packed)
        return {name: [fold.score(name) for fold in folds] for name in metrics}

    def packed(self) -> tuple[dict[str, Any], str]:
        """The fields ``test`` and ``predicted`` of a record."""
        return self._packed

    @cached_property
    def _packed(self) -> tuple[dict[str, Any], str]:
        items, targets, predicted = (
            np.concatenate([fold[field] for fold in self.folds]) for field in range(3)
        )
        test: dict[str, Any] = {"sizes": [len(fold.items) for fold in self.folds]}
        item_targets = self._once(items, targets)
        if item_targets is not None:
            bits = np.zeros((len(self.folds), items.max() + 1), dtype=bool)
            for row, fold in zip(bits, self.folds, strict=True):
                row[fold.items] = True
            test["items"] = packed_bits(bits)
        elif not np.array_equal(items, np.arange(len(items))):
            test["items"] = packed(items)
        if targets.ndim > 1:
            test["width"] = targets.shape[1]
        if masks := self.folds[0].masks:
            test["masks"] = {
                name: packed(np.concatenate([fold.masks[name] for fold in self.folds]))
                for name in masks
            }
        known = np.isfinite(targets)
        if item_targets is None:
            return {**test, "targets": packed(targets.ravel())}, packed(predicted[known])
        if not (_are_classes(item_targets) and _are_classes(predicted)):
            return {**test, "targets": packed(item_targets.ravel())}, packed(predicted[known])
        order = _by_item(items)
        wrong = (predicted != targets)[order]
        errors = f"{packed_bits(wrong)} {packed_bits(predicted[order][wrong])}"
        return {**test, "targets": packed_bits(item_targets)}, errors

    def _once(self, items: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any] | None:
        """The targets of each item once, by ascending ids, if folds share items that are stored as
        a bit for each id and fold; None if items are stored as ids.
        """
        shared = 0 < len(distinct := np.unique(items)) < len(items)
        ascend = all((np.diff(fold.items) > 0).all() for fold in self.folds)
        if not (shared and ascend and distinct[0] >= 0):
            return None
        if len(self.folds) * (int(distinct[-1]) + 1) > 16 * len(items):  # more than two bytes an id
            return None
        _, first, item = np.unique(items, return_index=True, return_inverse=True)
        same = np.array_equal(targets[first][item], targets, equal_nan=targets.dtype.kind == "f")
        return targets[first] if same else None


def _known(values: Iterable[float]) -> list[float | None]:
    """Scores for JSON: None for an undefined one."""
    return [None if math.isnan(score) else score for score in values]


def _numbers(values: Iterable[float | None]) -> list[float]:
    """Scores from JSON."""
    return [math.nan if score is None else score for score in values]


def says_nothing(value: Any) -> bool:
    """Whether a field may be left out: None, False, or an empty list."""
    return value is None or value is False or value == []


def digest_of(content: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits of a record as read from JSON, in any order of its fields."""
    stated = {name: value for name, value in content.items() if not says_nothing(value)}
    text = json.dumps(stated, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
