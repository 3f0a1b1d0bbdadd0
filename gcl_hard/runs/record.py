"""The record of a finished run: what is stored of it, and how it is read again."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gcl_hard.evaluation.metrics import metric
from gcl_hard.io import json_text
from gcl_hard.runs.plan import Run
from gcl_hard.runs.snapshots import snapshot_epochs
from gcl_hard.settings.domains import from_dict

if TYPE_CHECKING:
    from gcl_hard.evaluation import FoldScore

SCHEMA_VERSION, BEFORE = 3, 2
"""The schema of records that are written, and the one before, which is read as well."""
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
        final_losses: losses of the encoders trained, nats.
        fold_c: the choice of each fold's classifier inside its training part: C of an SVM, the
            learning rate or C of a linear probe; empty where there is no such choice.
        inner: whether scores come from hold-outs inside the training folds, by which settings
            are chosen, and not from the test folds.
        test: the test items, fold after fold, as :func:`packed` writes them: ``sizes`` of the
            folds, ``items``, their ids, and ``targets``, their classes; None without predictions.
        predicted: the predicted class of each of them, in the same form.
        knn: for images, the accuracy in percent of nearest neighbours among the training images, on
            the same test images; None for graphs and in earlier results.
        curve: monitoring for images: epochs and accuracies in percent of nearest neighbours among
            training images. No number of a table comes from it.
        diagnostics: snapshots of the run's first encoder, in the order of their epochs (docs:
            theory).
        seconds_diagnostics: for the snapshots, in neither of the other times.
        threads: CPU threads that trained; None where that was not recorded.
        migrated: the schema of a record that an earlier version wrote: its scores are those that
            were recorded, and it has no predictions.
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

    def tested(self) -> list[Tested]:
        """The predictions, fold by fold; none of a record without them."""
        if self.test is None or self.predicted is None:
            return []
        ends = np.cumsum(self.test["sizes"])[:-1]
        targets = unpacked(self.test["targets"])
        items = self.test.get("items")
        ids = np.arange(len(targets)) if items is None else unpacked(items)
        parts = (np.split(array, ends) for array in (ids, targets, unpacked(self.predicted)))
        return [Tested(*fold) for fold in zip(*parts, strict=True)]

    def stored(self) -> dict[str, Any]:
        """What is written, with a digest of it."""
        content = asdict(self)
        unknown = content.pop("unknown")
        content = {"schema_version": SCHEMA_VERSION, **content, **unknown}
        return {**content, "digest": digest_of(content)}

    @classmethod
    def read(cls, stored: Mapping[str, Any], *, checked: bool = False) -> RunResult:
        """A record of this schema, or of the one before.

        Args:
            stored: what was written.
            checked: whether the digest is compared.

        Raises:
            InputError: for a setting or a domain that this version does not know; names it.
            KeyError, TypeError, ValueError: for a record that is damaged.
        """
        content = dict(stored)
        digest = content.pop("digest", None)
        if checked and digest is not None and digest != digest_of(content):
            raise ValueError("its content is not what its digest says")
        if content.pop("schema_version", SCHEMA_VERSION) == BEFORE:
            scores = {ACCURACY: content.pop("fold_accuracies", [])}
            content |= {"scores": scores, "migrated": BEFORE}
        unknown = {name: content.pop(name) for name in [*content] if name not in NAMES}
        config = from_dict(content["config"], content.get("domain", ""))
        # Every setting, whatever was stated.
        content |= {"config": config.as_json(), "domain": config.domain}
        found = cls(**content, unknown=unknown)
        found.__dict__["run"] = Run(config, found.seed, found.inner)
        return found


NAMES = frozenset(one.name for one in fields(RunResult)) - {"unknown"}


class Tested(NamedTuple):
    """The test items of a fold.

    Attributes:
        items: int64 [n], their ids.
        targets: int64 [n], their classes.
        predicted: int64 [n], the predicted ones.
    """

    items: NDArray[np.int64]
    targets: NDArray[np.int64]
    predicted: NDArray[np.int64]


@dataclass(frozen=True)
class Scored:
    """What a trained run predicts, from which its scores are computed.

    Attributes:
        folds: the predictions, fold after fold; one if there is one test part.
        chosen: what was chosen inside the training part of each fold, such as C of an SVM; empty
            where there is no such choice.

    Example:
        >>> fold = Tested(np.arange(4), np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0]))
        >>> Scored((fold,)).scores(["accuracy"])
        {'accuracy': [75.0]}
    """

    folds: tuple[Tested, ...]
    chosen: tuple[float, ...] = ()

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
        """By the name of a metric, its value in each fold."""
        return {
            name: [metric(name).score(one.targets, one.predicted) for one in self.folds]
            for name in metrics
        }

    def packed(self) -> tuple[dict[str, Any], str]:
        """The fields ``test`` and ``predicted`` of a record."""
        items, targets, predicted = (
            np.concatenate([one[field] for one in self.folds]) for field in range(3)
        )
        test: dict[str, Any] = {"sizes": [len(one.items) for one in self.folds]}
        if not np.array_equal(items, np.arange(len(items))):
            test["items"] = packed(items)
        return {**test, "targets": packed(targets)}, packed(predicted)


def packed(values: ArrayLike) -> str:
    """Whole numbers of at least 0 as text: their type, and base64 of their little-endian bytes.

    Example:
        >>> packed([0, 1, 255]), packed([256])
        ('u1:AAH/', 'u2:AAE=')
    """
    array = np.asarray(values)
    kind = next(k for k in ("u1", "u2", "u4", "u8") if array.max(initial=0) <= np.iinfo(k).max)
    return f"{kind}:{base64.b64encode(array.astype(f'<{kind}').tobytes()).decode()}"


def unpacked(text: str) -> NDArray[np.int64]:
    """The numbers that :func:`packed` wrote.

    Example:
        >>> unpacked("u2:AAE=")
        array([256])
    """
    kind, _, encoded = text.partition(":")
    return np.frombuffer(base64.b64decode(encoded), f"<{kind}").astype(np.int64)


def says_nothing(value: Any) -> bool:
    """Whether a field may be left out: None, False, or an empty list."""
    return value is None or value is False or value == []


def digest_of(content: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits of a record, whatever the order of its fields and its form."""
    said = {name: value for name, value in content.items() if not says_nothing(value)}
    text = json.dumps(json.loads(json_text(said)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
