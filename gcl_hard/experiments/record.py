"""The record of a finished run: what is stored of it, and how it is read again."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gcl_hard.evaluation.metrics import alike, metric
from gcl_hard.experiments.domains import from_dict
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig, as_json
from gcl_hard.files.io import BITS, json_text, packed, packed_bits, unpacked
from gcl_hard.files.stored import unlike
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
        scores: by the name of a metric its values, such as accuracies in percent in the order of
            the folds; for images one, on the test split.
        seconds_train: for training.
        seconds_eval: for embedding and scoring.
        data: sizes, what was resolved by reading the data set, and its digest.
        device: name of the hardware that trained.
        versions: versions of the packages that numbers depend on.
        finished: date, UTC, ISO 8601.
        domain: name of the domain that the run belongs to.
        metric: name of the score that tables show.
        validation: the score inside the training part by which settings are chosen, one a fold, in
            the unit of ``metric``; empty where there is none.
        final_losses: losses of the encoders trained, nats.
        fold_c: the choice of each fold's classifier inside its training part: C of an SVM, the
            learning rate or C of a linear probe; empty where there is no such choice.
        inner: whether scores come from hold-outs inside the training folds, by which settings
            are chosen, and not from the test folds.
        test: the test items, fold after fold, as :func:`packed` writes them: ``sizes`` of the
            folds, ``items``, their ids, ``targets``, their classes or numbers, ``width``, how many
            each has if it is several, and ``masks``, which of them some metrics are over; None
            without predictions. Where items are in several folds, ``items`` may be bits, which of
            all ids each fold has; ``targets`` are then once those of each item, by ascending ids.
        predicted: what is predicted for each known target, in the same form; or, item after item,
            bits that say which classes are predicted wrongly, and what is predicted for these.
        knn: for images, the accuracy in percent of nearest neighbours among the training images, on
            the same test images; None for graphs and in earlier results.
        curve: monitoring for images: epochs and accuracies in percent of nearest neighbours among
            training images. No number of a table comes from it.
        diagnostics: snapshots of the run's first encoder, in the order of their epochs (docs:
            theory).
        seconds_diagnostics: for the snapshots, in neither of the other times.
        threads: CPU threads that trained; None where that was not recorded.
        migrated: the schema of a record that an earlier version wrote: its scores are those that
            were recorded, and its predictions, if it has any, were rounded.
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
        """The result with its scores by another metric; None without what that needs.

        Scores that are not recorded are computed of the predictions, as far as these are such as
        the metric takes.
        """
        if name == self.metric:
            return self
        scores = self.scores.get(name)
        if scores is None and name in alike(self.metric):
            scores = [one.score(name) for one in self.tested()]
        if not scores:
            return None
        found = replace(self, metric=name, scores={**self.scores, name: scores}, validation=[])
        found.__dict__["run"] = self.run
        return found

    def tested(self) -> list[Tested]:
        """The predictions, fold by fold; none of a record without them."""
        if self.test is None or self.predicted is None:
            return []
        return _folds(self.test, self.predicted)

    def stored(self) -> dict[str, Any]:
        """What is written, with a digest of it."""
        content = {name: getattr(self, name) for name in TYPES}
        content["scores"] = {name: _known(values) for name, values in self.scores.items()}
        content["validation"] = _known(self.validation)
        content = _as_json({"schema_version": SCHEMA_VERSION, **content, **self.unknown})
        return {**content, "digest": _digest(content)}

    @classmethod
    def read(
        cls, stored: Mapping[str, Any], *, checked: bool = False, config: RunConfig | None = None
    ) -> RunResult:
        """A record of this schema.

        Args:
            stored: what was written, as JSON gives it back.
            checked: whether the digest is compared.
            config: the configuration that it may be of, which is then not made again.

        Raises:
            InputError: for a setting or a domain that this version does not know; names it.
            KeyError, TypeError, ValueError: for a record that is damaged.
        """
        content = dict(stored)
        digest = content.pop("digest", None)
        altered = checked and digest is not None and digest != _digest(content)
        content.pop("schema_version", None)
        unknown = {name: content.pop(name) for name in [*content] if name not in NAMES}
        every = None if config is None else as_json(config)
        if config is None or (content["config"], content.get("domain")) != (every, config.domain):
            config = from_dict(content["config"], content.get("domain", ""), recorded=True)
            every = as_json(config)
        if altered:  # which of another version's record cannot be told
            raise ValueError("its content is not what its digest says")
        content["scores"] = {name: _numbers(one) for name, one in content["scores"].items()}
        content["validation"] = _numbers(content.get("validation", []))
        # Every setting, whatever was stated.
        content |= {"config": every, "domain": config.domain}
        declared = {name: kind for name, kind in TYPES.items() if name in content}
        why = unlike(content, declared) or unlike(content["data"], {"processes": int | None})
        if why is not None:
            raise ValueError(why)
        found = cls(**content, unknown=unknown)
        found.__dict__["run"] = Run(config, found.seed, found.inner)
        return found


TYPES = {name: kind for name, kind in get_type_hints(RunResult).items() if name != "unknown"}
NAMES = frozenset(TYPES)


class Tested(NamedTuple):
    """The test items of a fold.

    Attributes:
        items: int64 [n], their ids.
        targets: [n] or [n, T], their classes (int64) or numbers (float64, NaN where not known).
        predicted: of the same shape, what is predicted; numbers for unknown targets are not kept.
        masks: bool [n] by name, which of them some metrics are over.
    """

    items: NDArray[np.int64]
    targets: NDArray[Any]
    predicted: NDArray[Any]
    masks: Mapping[str, NDArray[np.bool_]] = {}

    def score(self, name: str) -> float:
        """The value of a metric."""
        how = metric(name)
        if how.mask and how.mask not in self.masks:
            return math.nan  # none of the items is known to be one of these
        which = self.masks[how.mask] if how.mask else slice(None)
        return how.score(self.targets[which], self.predicted[which])


def _folds(test: Mapping[str, Any], predicted: str) -> list[Tested]:
    """The folds of a record's test items and predictions."""
    targets = unpacked(test["targets"])
    items = np.arange(sum(test["sizes"])) if test.get("items") is None else unpacked(test["items"])
    if test.get("items", "").startswith(BITS):
        items = np.nonzero(items.reshape(len(test["sizes"]), -1))[1]
        of_item = np.unique(items, return_inverse=True)[1]
        targets = targets.reshape(-1, test.get("width", 1))[of_item].ravel()
    found = _predicted(predicted, items, targets)
    known = np.isfinite(targets)
    if not known.all():
        every = np.full(targets.shape, np.nan)
        every[known] = found
        found = every
    if "width" in test:
        targets, found = (one.reshape(-1, test["width"]) for one in (targets, found))
    masks = {name: unpacked(one).astype(bool) for name, one in test.get("masks", {}).items()}
    ends = np.cumsum(test["sizes"])[:-1]
    folds = zip(*(np.split(array, ends) for array in (items, targets, found)), strict=True)
    masked = {name: np.split(one, ends) for name, one in masks.items()}
    return [
        Tested(ids, known, predictions, {name: one[k] for name, one in masked.items()})
        for k, (ids, known, predictions) in enumerate(folds)
    ]


def _predicted(text: str, items: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any]:
    """What a record says was predicted, fold after fold."""
    wrong, _, classes = text.partition(" ")
    if not classes:
        return unpacked(text)
    found = targets.copy()
    found[_by_item(items)[unpacked(wrong).astype(bool)]] = unpacked(classes)
    return found


def _by_item(items: NDArray[Any]) -> NDArray[Any]:
    """Indices of test items, item after item, since what is wrong in one fold is often so in all,
    which compresses well.
    """
    return np.argsort(items, kind="stable")


def _are_classes(values: NDArray[Any]) -> bool:
    return values.ndim == 1 and values.dtype.kind in "iu" and values.min(initial=0) >= 0


@dataclass(frozen=True)
class Scored:
    """What a trained run predicts, from which its scores are computed.

    Attributes:
        folds: the predictions, fold after fold; one if there is one test part.
        chosen: what was chosen inside the training part of each fold, such as C of an SVM; empty
            where there is no such choice.
        validation: the first metric inside the training part of each fold, by which settings can
            be chosen; empty where it is not measured.
        facts: what the record states beside the facts of the data, such as settings that were left
            to these.

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
        """The predictions of classes in scores of folds, which must have them.

        Args:
            scores: scores of the folds.
            targets: int [n], the class of each item by its id.
        """
        classes, folds, chosen = np.asarray(targets), list[Tested](), list[float]()
        for one in scores:
            items, predicted = np.asarray(one.test), np.asarray(one.predicted)
            folds.append(Tested(items, classes[items], predicted))
            chosen += [] if one.chosen is None else [one.chosen]
        return cls(tuple(folds), chosen=tuple(chosen))

    def scores(self, metrics: Iterable[str]) -> dict[str, list[float]]:
        """By the name of a metric, its value in each fold, from the predictions as stored."""
        folds = _folds(*self._packed)
        return {name: [one.score(name) for one in folds] for name in metrics}

    def packed(self) -> tuple[dict[str, Any], str]:
        """The fields ``test`` and ``predicted`` of a record."""
        return self._packed

    @cached_property
    def _packed(self) -> tuple[dict[str, Any], str]:
        items, targets, predicted = (
            np.concatenate([one[field] for one in self.folds]) for field in range(3)
        )
        test: dict[str, Any] = {"sizes": [len(one.items) for one in self.folds]}
        of_item = self._once(items, targets)
        if of_item is not None:
            has = np.zeros((len(self.folds), items.max() + 1), dtype=bool)
            for row, one in zip(has, self.folds, strict=True):
                row[one.items] = True
            test["items"] = packed_bits(has)
        elif not np.array_equal(items, np.arange(len(items))):
            test["items"] = packed(items)
        if targets.ndim > 1:
            test["width"] = targets.shape[1]
        if masks := self.folds[0].masks:
            test["masks"] = {
                name: packed(np.concatenate([one.masks[name] for one in self.folds]))
                for name in masks
            }
        known = np.isfinite(targets)
        if of_item is None:
            return {**test, "targets": packed(targets.ravel())}, packed(predicted[known])
        if not (_are_classes(of_item) and _are_classes(predicted)):
            return {**test, "targets": packed(of_item.ravel())}, packed(predicted[known])
        order = _by_item(items)
        wrong = (predicted != targets)[order]
        apart = f"{packed_bits(wrong)} {packed_bits(predicted[order][wrong])}"
        return {**test, "targets": packed_bits(of_item)}, apart

    def _once(self, items: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any] | None:
        """The targets of each item, by ascending ids, if folds share items and a bit for each id
        and fold says which; None if items are stored as ids.
        """
        shared = 0 < len(distinct := np.unique(items)) < len(items)
        ascend = all((np.diff(one.items) > 0).all() for one in self.folds)
        if not (shared and ascend and distinct[0] >= 0):
            return None
        if len(self.folds) * (int(distinct[-1]) + 1) > 16 * len(items):  # more than two bytes an id
            return None
        _, first, of_item = np.unique(items, return_index=True, return_inverse=True)
        same = np.array_equal(targets[first][of_item], targets, equal_nan=targets.dtype.kind == "f")
        return targets[first] if same else None


def _known(values: Iterable[float]) -> list[float | None]:
    """Scores for JSON: None for one that is not defined."""
    return [None if math.isnan(one) else one for one in values]


def _numbers(values: Iterable[float | None]) -> list[float]:
    """Scores from JSON."""
    return [math.nan if one is None else one for one in values]


def says_nothing(value: Any) -> bool:
    """Whether a field may be left out: None, False, or an empty list."""
    return value is None or value is False or value == []


def digest_of(content: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits of a record, whatever the order of its fields and its form."""
    return _digest(_as_json(content))


def _as_json(content: Mapping[str, Any]) -> dict[str, Any]:
    """A record as JSON gives it back."""
    found: dict[str, Any] = json.loads(json_text(content))
    return found


def _digest(content: Mapping[str, Any]) -> str:
    """The digest of a record that is as JSON gives it back."""
    said = {name: value for name, value in content.items() if not says_nothing(value)}
    text = json.dumps(said, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
