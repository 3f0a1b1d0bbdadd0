"""Settings of experiments on labelled items, and of those on vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from gcl_hard.core.setting import Setting, declared
from gcl_hard.errors import InputError
from gcl_hard.evaluation.checks import checked_shares
from gcl_hard.evaluation.splits import CLASS_SHARES
from gcl_hard.experiments.protocols import LINEAR, MAJORITY, OOD, SPLIT, UNSEEN
from gcl_hard.experiments.settings import (
    BATCH_SIZE,
    EPOCHS,
    LR,
    TEMPERATURE,
    ConfigHead,
    Domain,
    OwnTraining,
    RunConfig,
    Values,
    check_unread,
    is_own,
    method_setting,
    of_part,
    settings_class,
)
from gcl_hard.files.tables import is_table
from gcl_hard.losses.loss import ContrastiveLoss, Reduction
from gcl_hard.vectors.models import Scale
from gcl_hard.vectors.views import VectorViews

RAW, UNTRAINED, SUPERVISED = "raw", "untrained", "supervised"
BASELINES = (MAJORITY, RAW, *LINEAR, UNTRAINED, SUPERVISED)
EMBEDDED, ENCODED, TRAINED = BASELINES[1:], (UNTRAINED, SUPERVISED), (SUPERVISED,)
"""Baselines that read settings of the inputs, of the encoder, and of training."""
ItemProtocol = Literal["split", "unseen", "ood"]
Splits = Literal["random", "given"]
SHARES = (0.6, 0.2, 0.2)
"""Usual parts of the items."""
RANDOM, DRAWS = 5, 10
"""Usual numbers of random splits, and of draws of classes."""


def _shares(above: Values) -> tuple[float, ...]:
    return CLASS_SHARES if above["protocol"] == UNSEEN else SHARES


def _splits(above: Values) -> int:
    if above["split"] == "given" and above["protocol"] != OOD:
        return 1
    return RANDOM if above["protocol"] == SPLIT else DRAWS


def _column(text: str) -> Any:
    """A setting that names columns of the user's own table."""
    return Setting(
        text, "data", common=True, read_by=BASELINES,
        canonical=lambda names, above: names or None,
    )  # fmt: skip


@dataclass(frozen=True)
class ItemLoss(ConfigHead):
    """How the loss is averaged."""

    reduction: Annotated[Literal["anchors", "pairs"], Setting(
        "mean over anchors, each by its mean over positives, or over pairs, of which large classes "
        "then own most",
        several=True,
    )] = "anchors"  # fmt: skip


@dataclass(frozen=True)
class ItemConfig(OwnTraining, RunConfig, ItemLoss):
    """The settings that experiments on all kinds of labelled items have.

    An encoder is trained on the training part of a split, and with labels on its labels alone, or
    left untrained. ``split`` scores a logistic regression on the test items; ``unseen`` ranks items
    of classes that training has not seen; ``ood`` tells items of unknown classes from known ones.
    """

    baselines: ClassVar[tuple[str, ...]] = BASELINES

    method: Annotated[str, method_setting(BASELINES)] = "hscl"
    protocol: Annotated[ItemProtocol, Setting(
        "split: classes of test items; unseen: rankings of items of classes that training has not "
        "seen; ood: items of unknown classes",
        "split", common=True, several=True, read_by=BASELINES,
    )] = "split"  # fmt: skip
    epochs: Annotated[int, EPOCHS] = 50
    lr: Annotated[float, LR] = 0.001
    temperature: Annotated[float | None, replace(
        TEMPERATURE, help="γ of InfoNCE", usual=lambda above: 0.1
    )] = None  # fmt: skip
    batch_size: Annotated[
        int, replace(BATCH_SIZE, help="items in a batch, whose batches are nearly equal")
    ] = 256
    label: Annotated[str | None, _column("column of classes of a table (label)")] = None
    id: Annotated[str | None, _column("column of ids of a table (id)")] = None
    split: Annotated[Splits, Setting(
        "random, by --shares, or given, that of the data, of whose training part some is for "
        "validation if it has none",
        "split", common=True, read_by=BASELINES,
    )] = "random"  # fmt: skip
    shares: Annotated[tuple[float, ...] | None, Setting(
        "parts of random splits to train, choose and test on (0.6,0.2,0.2), and under unseen of "
        "the classes (0.5,0.15,0.35)",
        "split", common=True, read_by=BASELINES, usual=_shares,
        applies=lambda above: above["split"] != "given", otherwise=lambda above: None,
        canonical=lambda shares, above: checked_shares("shares", shares),
    )] = None  # fmt: skip
    splits: Annotated[int | None, Setting(
        "splits (5, a given one 1), or draws of classes (10), with an encoder each",
        "split", least=1, common=True, read_by=BASELINES, usual=_splits,
    )] = None  # fmt: skip
    known: Annotated[float | None, Setting(
        "share of the classes that are known, under ood",
        "split", above=0, below=1, symbol="known", title="known classes", common=True,
        several=True, read_by=BASELINES, applies=lambda above: above["protocol"] == OOD,
        usual=lambda above: 0.5, otherwise=lambda above: None,
    )] = None  # fmt: skip

    def check(self) -> None:
        """Refuse several splits where the data come with one."""
        if self.protocol != OOD and self.split == "given" and self.splits != 1:
            raise InputError(f"data come with one split, got splits {self.splits}: leave it out")

    @property
    def encoders(self) -> int:
        """Encoders that a run trains, one a split."""
        return super().encoders * self.n_scores

    @property
    def n_scores(self) -> int:
        """One score a split."""
        return int(self.splits or 0)

    @property
    def is_deterministic(self) -> bool:
        """Whether every seed gives the same scores."""
        return self.method in (MAJORITY, RAW, *LINEAR)

    def cost(self, size: tuple[int, int]) -> tuple[float, float]:
        """Work in items and epochs; the scores of a split cost about as much as ten epochs."""
        n_train, n_scored = size
        n_trained = self.encoders * self.most_epochs
        return float(n_train * n_trained), float(10 * n_scored * self.n_scores)

    def loss(self, seed: int = 0, **options: Any) -> ContrastiveLoss:
        """A new loss with these settings; the seed draws synthetic negatives."""
        reduction: Reduction = self.reduction
        return super().loss(seed, reduction=reduction, unknown=-1, **options)


_Views = settings_class("_Views", declared(VectorViews))


@dataclass(frozen=True)
class VectorConfig(_Views, ItemConfig):  # type: ignore[misc, valid-type]
    """The settings of an experiment on vectors.

    Example:
        >>> VectorConfig("wine", "ucl").splits, VectorConfig("wine", protocol="unseen").shares
        (5, (0.5, 0.15, 0.35))
    """

    domain: ClassVar[Domain] = "vectors"

    dataset: Annotated[
        str, Setting("wine, …, NAME of NAME.npz, or a table", "data", common=True, several=True)
    ] = "wine"
    encoder: Annotated[str, Setting(
        "mlp, or your own module:Name",
        "encoder", custom=True, several=True, common=True, read_by=ENCODED,
    )] = "mlp"  # fmt: skip
    dim: Annotated[int | None, Setting(
        "width of the embeddings; that of the vectors if not given, and mlp then adds to them, "
        "beginning at 0",
        "gin", least=1, title="width of the embeddings", read_by=ENCODED,
    )] = None  # fmt: skip
    hidden: Annotated[int, Setting(
        "width of the hidden layers", "gin", least=1, read_by=ENCODED
    )] = 512  # fmt: skip
    layers: Annotated[int, Setting("hidden layers", "gin", least=1, read_by=ENCODED)] = 1
    dropout: Annotated[float, Setting(
        "share of hidden units dropped in training",
        "gin", least=0, below=1, several=True, read_by=ENCODED,
    )] = 0.0  # fmt: skip
    projection: Annotated[int | None, Setting(
        "width of the projection head's hidden layer; without one the embeddings themselves are "
        "contrasted",
        "encoder", least=1,
    )] = None  # fmt: skip
    scale: Annotated[Scale, Setting(
        "vectors as stored, of length 1 (unit), or standardised, by means and deviations of the "
        "training part; raw is scaled as well",
        "encoder", several=True, common=True, read_by=EMBEDDED,
    )] = "stored"  # fmt: skip
    columns: Annotated[tuple[str, ...] | None, _column(
        "columns of a table that are the vector, or one of lists; all others if not given"
    )] = None  # fmt: skip

    def check(self) -> None:
        """Refuse meaningless combinations on vectors."""
        super().check()
        if not is_table(self.dataset) and (self.columns or self.label or self.id):
            raise InputError(
                f"{self.dataset} is no table, whose columns --columns, --label and --id name"
            )
        if self.encoder == "mlp":
            return
        if not is_own(self.encoder):
            raise InputError(
                f"encoder is mlp or your own module:Name, with the module in the working folder or "
                f"installed, got {self.encoder!r}"
            )
        check_unread(self, "mlp")

    @property
    def unread(self) -> frozenset[str]:
        """Settings of the MLP, if another encoder replaces it."""
        return frozenset(of_part(type(self), "gin") if is_own(self.encoder) else ())


CONFIG = VectorConfig
