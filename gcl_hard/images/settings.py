"""Settings of experiments on images."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from gcl_hard.core.setting import Setting, declared
from gcl_hard.errors import InputError, unknown
from gcl_hard.evaluation.checks import check_grid, checked_shares
from gcl_hard.evaluation.splits import CLASS_SHARES
from gcl_hard.experiments.protocols import SPLIT, UNSEEN
from gcl_hard.experiments.settings import (
    BATCH_PARTS,
    BATCH_SIZE,
    EPOCHS,
    LR,
    PATIENCE,
    WEIGHT_DECAY,
    ConfigHead,
    Domain,
    OwnTraining,
    RunConfig,
    Values,
    check_unread,
    flag,
    is_own,
    method_setting,
    row,
    settings_class,
)
from gcl_hard.images.augment import ViewRecipe
from gcl_hard.losses.loss import ContrastiveLoss, Negatives, Positives
from gcl_hard.training.loop import Optimisation, Precision

ImageProtocol = Literal["split", "unseen"]

RESNETS, FAST = ("resnet50", "resnet18"), "fast"
"""The encoders of images that are ours."""
OF_LIBRARY = re.compile(r"(torchvision|timm):[\w.]+")
Stem = Literal["auto", "cifar", "imagenet"]
Forward = Literal["fused", "split"]
Precisions = Literal["fp32", "bf16", "fp16"]
Probe = Literal["adam", "logistic"]
FABRIC: dict[str, Precision] = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
DEFAULT_FLIP = 0.5
PROBED = ("pixels", "untrained", "supervised")
ENCODED = ("untrained", "supervised")
TRAINED = ("supervised",)
"""Baselines that read settings of the probe, of the encoder, and of training."""
IMAGE_BASELINES = ("majority", *PROBED)
"""Baselines on images."""


def _reads_labels(above: Values) -> bool:
    method_row = row(above)
    by_class = method_row is not None and (method_row.label_aware or above["positives"] == "class")
    read = by_class or above["class_pairs"] or above["balanced"]
    return bool(read or above["method"] in TRAINED)


def _reads_wrong_labels(above: Values) -> bool:
    return _is_split(above) and _reads_labels(above)


def _is_split(above: Values) -> bool:
    return bool(above["protocol"] == SPLIT)


def _positives(above: Values) -> Positives | None:
    method_row = row(above)
    return None if method_row is None else method_row.positives


def _flip(above: Values) -> float:
    return 0.0 if above["dataset"].casefold() == "digits" else DEFAULT_FLIP  # mirrored digits


def _width(width: int, above: Values) -> int | None:
    from gcl_hard.images.models import WIDTH

    return None if width == WIDTH.get(above["encoder"]) else width


def _rates(rates: tuple[float, ...], above: Values) -> tuple[float, ...]:
    return tuple(dict.fromkeys(check_grid("probe-lr", rates)))


def _probe_is_adam(above: Values) -> bool:
    return _is_split(above) and bool(above["probe"] == "adam")


@dataclass(frozen=True)
class ImageLoss(ConfigHead):
    """Which pairs are positives."""

    positives: Annotated[Positives | None, Setting(
        "view, class or hard; the method's own if not given (class: scl, hscl)",
        usual=_positives,
    )] = None  # fmt: skip
    class_pairs: Annotated[bool, Setting("second view from another image of the class")] = False
    balanced: Annotated[
        bool, Setting("whether batches hold all classes in equal parts", read_by=TRAINED)
    ] = False


_Views = settings_class("_Views", declared(ViewRecipe))


@dataclass(frozen=True)
class ImageConfig(OwnTraining, _Views, RunConfig, ImageLoss):  # type: ignore[misc, valid-type]
    """The settings of an experiment on images, as the files in ``configs/images`` state them.

    Raises:
        InputError: for a value out of range, an unknown name, or a meaningless
            combination; before anything is loaded or written.

    Example:
        >>> ImageConfig(method="scl").positives
        'class'
    """

    baselines: ClassVar[tuple[str, ...]] = IMAGE_BASELINES
    domain: ClassVar[Domain] = "images"

    dataset: Annotated[str, Setting(
        "digits, CIFAR10, CIFAR100, STL10, TinyImageNet, NAME of NAME.npz or NAME/train/CLASS/",
        "data", common=True, several=True,
    )] = "digits"  # fmt: skip
    method: Annotated[str, method_setting(IMAGE_BASELINES)] = "hscl"
    protocol: Annotated[
        ImageProtocol, Setting(
            "split: a probe of the test images; unseen: rankings of test images of classes that "
            "training has not seen",
            "split", common=True, several=True, read_by=IMAGE_BASELINES,
        )
    ] = "split"  # fmt: skip
    shares: Annotated[tuple[float, ...] | None, Setting(
        "unseen: shares of the classes to train, choose and test on (0.5,0.15,0.35)",
        "split", common=True, read_by=PROBED, usual=lambda above: CLASS_SHARES,
        applies=lambda above: above["protocol"] == UNSEEN, otherwise=lambda above: None,
        canonical=lambda shares, above: checked_shares("shares", shares),
    )] = None  # fmt: skip
    epochs: Annotated[int, replace(EPOCHS, help="passes over the training data")] = 200
    batch_size: Annotated[
        int, replace(BATCH_SIZE, help="images in a batch; n = 2 × batch-size embeddings")
    ] = 256
    lr: Annotated[float, LR] = 0.001
    weight_decay: Annotated[float, WEIGHT_DECAY] = 1e-6
    patience: Annotated[int, PATIENCE] = 20
    encoder: Annotated[str, Setting(
        "resnet50, resnet18, fast, torchvision:NAME, timm:NAME, or your own module:Name",
        "encoder", custom=True, several=True, common=True, read_by=ENCODED,
    )] = "resnet50"  # fmt: skip
    width: Annotated[int | None, Setting(
        "channels of the encoder's first layer (64 of a ResNet, 32 of fast)",
        "encoder", least=1, read_by=ENCODED, canonical=_width,
    )] = None  # fmt: skip
    stem: Annotated[
        Stem, Setting("auto (cifar up to 64 pixels), cifar or imagenet", "encoder", read_by=ENCODED)
    ] = "auto"
    size: Annotated[int | None, Setting(
        "side of a view in pixels; the data set's if not given",
        "views", least=4, read_by=PROBED, space=(),
    )] = None  # fmt: skip
    pretrain_split: Annotated[
        str, Setting("split that the encoder is trained on", "data", read_by=ENCODED)
    ] = "train"
    probe_split: Annotated[
        str, Setting(
            "split that the probe is trained on", "data", read_by=IMAGE_BASELINES,
            applies=_is_split,
        )
    ] = "train"  # fmt: skip
    subset: Annotated[int | None, Setting(
        "training images, a stratified draw; all if not given",
        "data", least=4, read_by=IMAGE_BASELINES,
    )] = None  # fmt: skip
    classes: Annotated[int | None, Setting(
        "the first so many classes alone; all if not given",
        "data", least=2, several=True, read_by=IMAGE_BASELINES,
    )] = None  # fmt: skip
    label_noise: Annotated[float, Setting(
        "share of the labels read in training that are wrong ones; the probe's are right",
        "data", least=0, below=1, several=True, read_by=TRAINED, applies=_reads_wrong_labels,
    )] = 0.0  # fmt: skip
    flip: Annotated[float | None, Setting(
        "probability of a horizontal flip (0.5; digits: 0)",
        "views", least=0, most=1, read_by=TRAINED, usual=_flip,
    )] = None  # fmt: skip
    forward: Annotated[
        Forward,
        Setting("both views in one pass (fused) or in two (split)", "training", read_by=TRAINED),
    ] = "fused"
    precision: Annotated[
        Precisions, Setting("fp32, bf16 or fp16, mixed", "training", read_by=ENCODED)
    ] = "fp32"
    channels_last: Annotated[
        bool, Setting("memory format of images and weights", "training", read_by=ENCODED)
    ] = True
    compile: Annotated[
        bool, Setting("whether torch.compile compiles the encoder", "training", read_by=TRAINED)
    ] = False
    accumulate: Annotated[
        int,
        Setting("batches whose mean gradient makes one step", "training", least=1, read_by=TRAINED),
    ] = 1
    parts: Annotated[int, BATCH_PARTS] = 1
    momentum_encoder: Annotated[float | None, Setting(
        "MoCo's m, such as 0.999: a slowly moving copy of the encoder gives all views but the "
        "first; none if not given",
        "training", least=0, below=1, space=(0.9, 0.9999),
    )] = None  # fmt: skip
    queue: Annotated[int | None, Setting(
        "embeddings of earlier batches that are candidates, too; none if not given",
        "training", least=1,
    )] = None  # fmt: skip
    negatives: Annotated[Negatives, Setting(
        "under torchrun: of each process (local), or of all of them (gathered)",
        "training",
    )] = "local"  # fmt: skip
    probe: Annotated[Probe, Setting(
        "linear probe: adam, or scikit-learn's logistic regression",
        "probe", read_by=PROBED, applies=_is_split,
    )] = "adam"  # fmt: skip
    probe_lr: Annotated[tuple[float, ...], Setting(
        "learning rates of adam, chosen on a part of the training images",
        "probe", read_by=PROBED, applies=_probe_is_adam, canonical=_rates,
    )] = (0.0001, 0.001, 0.01)  # fmt: skip
    probe_weight_decay: Annotated[
        float,
        Setting("weight decay of adam", "probe", least=0, read_by=PROBED, applies=_probe_is_adam),
    ] = 1e-6
    probe_epochs: Annotated[
        int, Setting("epochs of adam", "probe", least=1, read_by=PROBED, applies=_probe_is_adam)
    ] = 100
    probe_batch_size: Annotated[
        int, Setting("batch size of adam", "probe", least=1, read_by=PROBED, applies=_probe_is_adam)
    ] = 512

    def check(self) -> None:
        """Refuse meaningless combinations."""
        self.view_recipe()
        if not is_image_encoder(self.encoder) and not is_own(self.encoder):
            libraries = ("torchvision:NAME", "timm:NAME", "your own module:Name")
            raise unknown("encoder", self.encoder, [*RESNETS, FAST, *libraries])
        check_unread(self, "resnets and fast", "leave it out")
        for name in ("pretrain_split", "probe_split"):
            if getattr(self, name) == "test":
                raise InputError(
                    f"{flag(name)} must not be test: nothing is trained on test images"
                )

    @property
    def unread(self) -> frozenset[str]:
        """Settings of our encoders, if another replaces them."""
        if self.encoder in RESNETS:
            return frozenset()
        return frozenset(("stem",) if self.encoder == FAST else ("stem", "width"))

    def view_recipe(self) -> ViewRecipe:
        """The random augmentations of views."""
        return ViewRecipe(**{name: getattr(self, name) or 0.0 for name in declared(ViewRecipe)})

    def stem_at(self, size: int) -> Literal["cifar", "imagenet"]:
        """The stem for views of a size in pixels."""
        from gcl_hard.images.models import stem_for

        return stem_for(size) if self.stem == "auto" else self.stem

    @property
    def reads_labels(self) -> bool:
        """Whether the encoder is trained with labels."""
        by_setting = self.positives == "class" or self.class_pairs or self.balanced
        return super().reads_labels or by_setting or self.method == "supervised"

    @property
    def local_negatives(self) -> bool:
        """Whether each of several processes contrasts its own part of a batch."""
        return not self.is_baseline and self.negatives == "local"

    def cost(self, size: tuple[int, int]) -> tuple[float, float]:
        """Work in image-epochs; embedding an image costs a sixth of training on it.

        Args:
            size: images to train on and to score.
        """
        n_train, n_score = size
        return n_train * self.most_epochs * self.encoders, (n_train + n_score) / 6

    def optimisation(self) -> Optimisation:
        """How the encoder is optimised."""
        precision = FABRIC[self.precision]
        return replace(
            super().optimisation(), precision=precision, accumulate=self.accumulate,
            parts=self.parts
        )  # fmt: skip

    def loss(self, seed: int = 0, **options: Any) -> ContrastiveLoss:
        """A new loss with these settings; the seed draws synthetic negatives."""
        return super().loss(
            seed, objective="infonce", positives=self.positives, negatives=self.negatives,
            **options
        )  # fmt: skip


def is_image_encoder(name: str) -> bool:
    """Whether a setting names an encoder of images that is ours or a library's."""
    return name in (*RESNETS, FAST) or OF_LIBRARY.fullmatch(name) is not None


CONFIG = ImageConfig
