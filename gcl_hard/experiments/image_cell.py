"""The settings of a cell on images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from gcl_hard.errors import InputError
from gcl_hard.experiments.cell import Cell, LrSchedule, defaults, flag
from gcl_hard.experiments.paper import paper_accuracy
from gcl_hard.losses import ContrastiveLoss, Positives
from gcl_hard.methods import method
from gcl_hard.training.loop import Optimisation, Precision

if TYPE_CHECKING:
    from gcl_hard.images import ViewRecipe

Protocol = Literal["split"]
Encoder = Literal["resnet50", "resnet18"]
Stem = Literal["auto", "cifar", "imagenet"]
Forward = Literal["fused", "split"]
Precisions = Literal["fp32", "bf16", "fp16"]
Probe = Literal["adam", "logistic"]

FABRIC: dict[str, Precision] = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
DEFAULT_FLIP = 0.5

_ADAM = ("probe_lr", "probe_weight_decay", "probe_epochs", "probe_batch_size")
_PROBE = ("probe", *_ADAM, "probe_split", "subset")
FLOORS: dict[str, tuple[str, ...]] = {
    "majority": ("probe_split", "subset"),
    "pixels": (*_PROBE, "size"),
    "untrained": (
        *_PROBE, "size", "encoder", "stem", "precision", "channels_last", "pretrain_split",
    ),
}  # fmt: skip
"""What needs no contrastive training, with the settings that it reads beside the data set."""


@dataclass(frozen=True)
class ImageCell(Cell):
    """One cell on images. Field for field what the configs in ``configs/images`` state.

    Raises:
        InputError: for a value out of range, an unknown name, or a combination that means
            nothing; before anything is loaded or written.

    Example:
        >>> ImageCell(method="scl").positives
        'class'
    """

    floors: ClassVar[dict[str, tuple[str, ...]]] = FLOORS
    floor_protocol: ClassVar[str] = "split"
    words: ClassVar[dict[str, Any]] = {
        "protocol": Protocol, "lr_schedule": LrSchedule, "encoder": Encoder, "stem": Stem,
        "forward": Forward, "precision": Precisions, "probe": Probe,
    }  # fmt: skip
    least: ClassVar[dict[str, int]] = {
        "batch_size": 2, "size": 4, "subset": 4, "accumulate": 1, "probe_epochs": 1,
        "probe_batch_size": 1, "beta_changes": 0, "data_seed": 0,
    }  # fmt: skip
    backend: ClassVar[Literal["graphs", "images"]] = "images"

    dataset: Annotated[
        str, "digits, CIFAR10, CIFAR100, STL10, TinyImageNet, or NAME of your NAME.npz"
    ] = "digits"
    method: Annotated[
        str, "ucl, dcl, hucl, hcl, scl, hscl or hscl-tau; or a floor: " + ", ".join(FLOORS)
    ] = "hscl"
    protocol: Annotated[Protocol, "split: trained on the training images, tested once"] = "split"
    epochs: Annotated[int, "passes over the images"] = 200
    batch_size: Annotated[int, "images in a batch; n = 2 × batch-size embeddings"] = 256
    lr: Annotated[float, "learning rate of Adam"] = 0.001
    weight_decay: Annotated[float, "of Adam"] = 1e-6
    positives: Annotated[
        Positives | None, "view or class; the method's own if not given (class: scl, hscl)"
    ] = None
    class_pairs: Annotated[bool, "second view from another image of the class"] = False
    balanced: Annotated[bool, "whether batches hold all classes in equal parts"] = False
    encoder: Annotated[Encoder, "resnet50 or resnet18"] = "resnet50"
    stem: Annotated[Stem, "auto (cifar up to 64 pixels), cifar or imagenet"] = "auto"
    size: Annotated[int | None, "pixels of a view's side; the set's own if not given"] = None
    pretrain_split: Annotated[str, "split that the encoder is trained on"] = "train"
    probe_split: Annotated[str, "split that the probe is trained on"] = "train"
    subset: Annotated[int | None, "training images, a stratified draw; all if not given"] = None
    crop: Annotated[float, "least share of the area that a random crop keeps"] = 0.08
    flip: Annotated[float | None, "probability of a mirror image; 0.5, of digits 0"] = None
    jitter: Annotated[float, "strength of the colour jitter"] = 0.4
    grayscale: Annotated[float, "probability of losing all colour"] = 0.2
    blur: Annotated[float, "probability of a Gaussian blur"] = 0.5
    noise: Annotated[float, "standard deviation of Gaussian noise"] = 0.0
    forward: Annotated[Forward, "both views in one pass (fused) or in two (split)"] = "fused"
    precision: Annotated[Precisions, "fp32, bf16 or fp16, mixed"] = "fp32"
    channels_last: Annotated[bool, "memory format of images and weights"] = True
    compile: Annotated[bool, "whether torch.compile compiles the encoder"] = False
    accumulate: Annotated[int, "batches whose gradients make a step"] = 1
    probe: Annotated[Probe, "linear probe: adam, or scikit-learn's logistic regression"] = "adam"
    probe_lr: Annotated[
        tuple[float, ...], "learning rates of adam, chosen on a part of the training images"
    ] = (0.0001, 0.001, 0.01)
    probe_weight_decay: Annotated[float, "of adam"] = 1e-6
    probe_epochs: Annotated[int, "of adam"] = 100
    probe_batch_size: Annotated[int, "of adam"] = 512

    def _check(self) -> None:
        self.view_recipe()
        for name in ("pretrain_split", "probe_split"):
            if getattr(self, name) == "test":
                raise InputError(
                    f"{flag(name)} must not be test: nothing is trained on test images"
                )

    def _filled(self) -> dict[str, Any]:
        return {
            "temperature": 0.5 if self.temperature is None else self.temperature,
            "positives": self.positives or method(self.method).positives,
            "flip": self._flip(),
            **self._probe(),
        }

    def _as_floor(self) -> dict[str, Any]:
        read = self.floors[self.method.casefold()]
        return super()._as_floor() | {k: v for k, v in self._probe().items() if k in read}

    def _probe(self) -> dict[str, Any]:
        """Settings of the probe in one form: rates in order, and of adam alone."""
        rates = tuple(sorted({float(rate) for rate in self.probe_lr}))
        if not rates or not all(0 < rate < math.inf for rate in rates):
            raise InputError(f"probe-lr must be finite numbers above 0, got {self.probe_lr}")
        if self.probe_weight_decay < 0:
            raise InputError(
                f"probe-weight-decay must be at least 0, got {self.probe_weight_decay}"
            )
        if self.probe == "logistic":
            return {name: defaults(ImageCell)[name] for name in _ADAM}
        return {"probe_lr": rates, "probe_weight_decay": float(self.probe_weight_decay)}

    def _flip(self) -> float:
        """A mirrored digit is no digit."""
        if self.flip is not None:
            return self.flip
        return 0.0 if self.dataset.casefold() == "digits" else DEFAULT_FLIP

    def view_recipe(self) -> ViewRecipe:
        """How its views are made."""
        from gcl_hard.images import ViewRecipe

        return ViewRecipe(
            crop=self.crop, flip=self.flip or 0.0, jitter=self.jitter, grayscale=self.grayscale,
            blur=self.blur, noise=self.noise,
        )  # fmt: skip

    def stem_at(self, size: int) -> Literal["cifar", "imagenet"]:
        """The stem for views of a size in pixels."""
        from gcl_hard.images import stem_for

        return stem_for(size) if self.stem == "auto" else self.stem

    @property
    def encoders(self) -> int:
        """How many encoders a seed trains."""
        return 0 if self.is_floor else 1

    @property
    def n_scores(self) -> int:
        """One, of the test split."""
        return 1

    @property
    def can_select(self) -> bool:
        """A part of the training images can be held out of training."""
        return not self.is_floor

    @property
    def label_reader(self) -> str:
        """What reads labels in training, in words."""
        if self.positives == "class" and method(self.method).positives == "view":
            return f"{self.method} with positives class"
        if not method(self.method).label_aware:
            return "class-pairs" if self.class_pairs else "balanced"
        return self.method

    @property
    def reads_labels(self) -> bool:
        """Whether the encoder's training does."""
        by_setting = self.positives == "class" or self.class_pairs or self.balanced
        return super().reads_labels or by_setting

    @property
    def paper(self) -> float | None:
        """The paper's figure, percent, of all training images."""
        whole = self.subset is None and self.pretrain_split == self.probe_split == "train"
        return paper_accuracy(self.dataset, self.method, self.protocol) if whole else None

    def cost(self, size: tuple[int, int]) -> tuple[float, float]:
        """Work in image-epochs; embedding an image costs a sixth of training on it.

        Args:
            size: images to train on and to score.
        """
        n_train, n_score = size
        return n_train * self.epochs * self.encoders, (n_train + n_score) / 6

    def optimisation(self) -> Optimisation:
        """How the encoder is optimised."""
        return Optimisation(
            epochs=self.epochs, lr=self.lr, weight_decay=self.weight_decay,
            lr_schedule=self.lr_schedule, precision=FABRIC[self.precision],
            accumulate=self.accumulate,
        )  # fmt: skip

    def loss(self) -> ContrastiveLoss:
        """The loss of this cell, made anew."""
        return self._loss("infonce", self.positives)
