"""Settings of experiments on images."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
)

from gcl_hard.errors import InputError, check_number, unknown
from gcl_hard.losses import ContrastiveLoss, Negatives, Positives
from gcl_hard.methods import (
    METHODS,
    method,
)
from gcl_hard.settings.base import TRAINING, Domain, RunConfig, defaults, flag, is_own
from gcl_hard.training.loop import Optimisation, Precision

if TYPE_CHECKING:
    from gcl_hard.images import ViewRecipe
ImageProtocol = Literal["split"]


RESNETS, FAST = ("resnet50", "resnet18"), "fast"
"""The encoders of images that are ours."""
OF_LIBRARY = re.compile(r"(torchvision|timm):[\w.]+")
Stem = Literal["auto", "cifar", "imagenet"]
Forward = Literal["fused", "split"]
Precisions = Literal["fp32", "bf16", "fp16"]
Probe = Literal["adam", "logistic"]
FABRIC: dict[str, Precision] = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
DEFAULT_FLIP = 0.5
_ADAM = ("probe_lr", "probe_weight_decay", "probe_epochs", "probe_batch_size")
_IMAGES_USED = ("probe_split", "subset", "classes")
_IMAGE_PROBE = ("probe", *_ADAM, *_IMAGES_USED)
_IMAGE_ENCODER = (
    *_IMAGE_PROBE, "size", "encoder", "width", "stem", "precision", "channels_last",
    "pretrain_split",
)  # fmt: skip
IMAGE_BASELINES: dict[str, tuple[str, ...]] = {
    "majority": _IMAGES_USED,
    "pixels": (*_IMAGE_PROBE, "size"),
    "untrained": _IMAGE_ENCODER,
    "supervised": (
        *_IMAGE_ENCODER, *TRAINING, "label_noise", "crop", "flip", "jitter", "grayscale", "blur",
        "noise", "forward", "compile", "accumulate", "balanced",
    ),
}  # fmt: skip
"""Baselines on images, with the settings that each reads in addition to the data set."""


@dataclass(frozen=True)
class ImageConfig(RunConfig):
    """The settings of an experiment on images, as the files in ``configs/images`` state them.

    Raises:
        InputError: for a value out of range, an unknown name, or a combination that means
            nothing; before anything is loaded or written.

    Example:
        >>> ImageConfig(method="scl").positives
        'class'
    """

    baselines: ClassVar[dict[str, tuple[str, ...]]] = IMAGE_BASELINES
    baseline_protocol: ClassVar[str] = "split"
    minimum: ClassVar[dict[str, int]] = {
        "batch_size": 2, "size": 4, "subset": 4, "accumulate": 1, "probe_epochs": 1,
        "probe_batch_size": 1, "beta_changes": 0, "data_seed": 0, "width": 1, "classes": 2,
        "views": 2, "hard_positives": 2, "hardest": 1, "mixed": 0, "mixed_with_anchor": 0,
    }  # fmt: skip
    domain: ClassVar[Domain] = "images"
    data_settings: ClassVar[tuple[str, ...]] = (
        "dataset", "pretrain_split", "probe_split", "subset", "classes", "label_noise",
    )  # fmt: skip

    dataset: Annotated[
        str, "digits, CIFAR10, CIFAR100, STL10, TinyImageNet, NAME of NAME.npz or NAME/train/CLASS/"
    ] = "digits"
    method: Annotated[
        str,
        f"{', '.join(METHODS)}; or a baseline: " + ", ".join(IMAGE_BASELINES),
    ] = "hscl"
    protocol: Annotated[ImageProtocol, "split: trained on the training images, tested once"] = (
        "split"
    )
    epochs: Annotated[int, "passes over the images"] = 200
    batch_size: Annotated[int, "images in a batch; n = 2 × batch-size embeddings"] = 256
    lr: Annotated[float, "learning rate of Adam"] = 0.001
    weight_decay: Annotated[float, "weight decay of Adam"] = 1e-6
    positives: Annotated[
        Positives | None, "view, class or hard; the method's own if not given (class: scl, hscl)"
    ] = None
    class_pairs: Annotated[bool, "second view from another image of the class"] = False
    balanced: Annotated[bool, "whether batches hold all classes in equal parts"] = False
    encoder: Annotated[
        str,
        "resnet50, resnet18, fast (a small net for 32 pixels), torchvision:NAME, timm:NAME, or "
        "module:Name of your own",
    ] = "resnet50"
    width: Annotated[
        int | None, "channels of the encoder's first layer (64 of a ResNet, 32 of fast)"
    ] = None
    stem: Annotated[Stem, "auto (cifar up to 64 pixels), cifar or imagenet"] = "auto"
    size: Annotated[int | None, "side of a view in pixels; the data set's if not given"] = None
    pretrain_split: Annotated[str, "split that the encoder is trained on"] = "train"
    probe_split: Annotated[str, "split that the probe is trained on"] = "train"
    subset: Annotated[int | None, "training images, a stratified draw; all if not given"] = None
    classes: Annotated[int | None, "the first so many classes alone; all if not given"] = None
    label_noise: Annotated[
        float, "share of the labels read in training that are wrong ones; the probe's are right"
    ] = 0.0
    crop: Annotated[float, "smallest share of the area that a random crop keeps"] = 0.08
    flip: Annotated[float | None, "probability of a horizontal flip (0.5; digits: 0)"] = None
    jitter: Annotated[float, "strength of the colour jitter"] = 0.4
    grayscale: Annotated[float, "probability of conversion to grey"] = 0.2
    blur: Annotated[float, "probability of a Gaussian blur"] = 0.5
    noise: Annotated[float, "standard deviation of Gaussian noise"] = 0.0
    forward: Annotated[Forward, "both views in one pass (fused) or in two (split)"] = "fused"
    precision: Annotated[Precisions, "fp32, bf16 or fp16, mixed"] = "fp32"
    channels_last: Annotated[bool, "memory format of images and weights"] = True
    compile: Annotated[bool, "whether torch.compile compiles the encoder"] = False
    accumulate: Annotated[int, "batches whose mean gradient makes one step"] = 1
    negatives: Annotated[
        Negatives, "under torchrun: of each process (local), or of all of them (gathered)"
    ] = "local"
    probe: Annotated[Probe, "linear probe: adam, or scikit-learn's logistic regression"] = "adam"
    probe_lr: Annotated[
        tuple[float, ...], "learning rates of adam, chosen on a part of the training images"
    ] = (0.0001, 0.001, 0.01)
    probe_weight_decay: Annotated[float, "weight decay of adam"] = 1e-6
    probe_epochs: Annotated[int, "epochs of adam"] = 100
    probe_batch_size: Annotated[int, "batch size of adam"] = 512

    def _check(self) -> None:
        self.view_recipe()
        check_number("label-noise", self.label_noise, least=0, below=1)
        if not is_image_encoder(self.encoder) and not is_own(self.encoder):
            libraries = ("torchvision:NAME", "timm:NAME", "module:Name of your own")
            raise unknown("encoder", self.encoder, [*RESNETS, FAST, *libraries])
        if self.encoder not in RESNETS and self.stem != "auto":
            raise InputError(
                f"stem is of {' and '.join(RESNETS)}: the encoder {self.encoder} has its own"
            )
        if self.encoder not in (*RESNETS, FAST) and self.width is not None:
            raise InputError(
                f"width is of {', '.join(RESNETS)} and {FAST}: the encoder {self.encoder} has its "
                f"own"
            )
        for name in ("pretrain_split", "probe_split"):
            if getattr(self, name) == "test":
                raise InputError(
                    f"{flag(name)} must not be test: nothing is trained on test images"
                )

    def _filled(self) -> dict[str, Any]:
        positives = self.positives or method(self.method).positives
        of_class = method(self.method).label_aware or positives == "class"
        reads_labels = of_class or self.class_pairs or self.balanced
        return {
            "temperature": 0.5 if self.temperature is None else self.temperature,
            "positives": positives,
            **self._shared(),
            "label_noise": self.label_noise if reads_labels else 0.0,
        }

    def _as_baseline(self) -> dict[str, Any]:
        read = self.baselines[self.method.casefold()]
        return super()._as_baseline() | {k: v for k, v in self._shared().items() if k in read}

    def _shared(self) -> dict[str, Any]:
        """Canonical settings of views, encoder and probe."""
        # Mirrored digits are not digits.
        from gcl_hard.images.models import WIDTH

        usual_flip = 0.0 if self.dataset.casefold() == "digits" else DEFAULT_FLIP
        return {
            "flip": usual_flip if self.flip is None else self.flip,
            "width": None if self.width == WIDTH.get(self.encoder) else self.width,
            **self._probe(),
        }

    def _probe(self) -> dict[str, Any]:
        rates = tuple(sorted({float(rate) for rate in self.probe_lr}))
        if not rates or not all(0 < rate < math.inf for rate in rates):
            raise InputError(f"probe-lr must be finite numbers above 0, got {self.probe_lr}")
        check_number("probe-weight-decay", self.probe_weight_decay, least=0)
        if self.probe == "logistic":
            return {name: defaults(ImageConfig)[name] for name in _ADAM}
        return {"probe_lr": rates, "probe_weight_decay": float(self.probe_weight_decay)}

    def view_recipe(self) -> ViewRecipe:
        """Random augmentations of the views."""
        from gcl_hard.images import ViewRecipe

        return ViewRecipe(
            crop=self.crop, flip=self.flip or 0.0, jitter=self.jitter, grayscale=self.grayscale,
            blur=self.blur, noise=self.noise,
        )  # fmt: skip

    def stem_at(self, size: int) -> Literal["cifar", "imagenet"]:
        """The stem for views of a size in pixels."""
        from gcl_hard.images import stem_for

        return stem_for(size) if self.stem == "auto" else self.stem

    def resolved(self, facts: dict[str, Any]) -> dict[str, Any]:
        """The size of views and the stem that goes with it."""
        size = self.size or int(facts["side"])
        if self.encoder not in RESNETS or self.method in ("majority", "pixels"):
            return {"size": size}
        return {"size": size, "stem": self.stem_at(size)}

    @property
    def set_name(self) -> str:
        """Name of the data set in tables, with the number of classes if ``classes`` is given."""
        return self.dataset + (f", {self.classes} classes" if self.classes else "")

    @property
    def encoders(self) -> int:
        """Encoders that one run trains."""
        return 1 if self.method == "supervised" or not self.is_baseline else 0

    @property
    def label_reader(self) -> str:
        """Name of the setting that makes training read labels, for messages."""
        if self.is_baseline:
            return self.method
        if self.positives == "class" and method(self.method).positives == "view":
            return f"{self.method} with positives class"
        if not method(self.method).label_aware:
            return "class-pairs" if self.class_pairs else "balanced"
        return self.method

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
        return n_train * self.epochs * self.encoders, (n_train + n_score) / 6

    def optimisation(self) -> Optimisation:
        """How the encoder is optimised."""
        precision = FABRIC[self.precision]
        return replace(super().optimisation(), precision=precision, accumulate=self.accumulate)

    def loss(self, seed: int = 0) -> ContrastiveLoss:
        """A new loss with these settings; the seed is of synthetic negatives."""
        return self._loss(
            seed, objective="infonce", positives=self.positives, negatives=self.negatives
        )


def is_image_encoder(name: str) -> bool:
    """Whether a setting names an encoder of images that is ours or a library's."""
    return name in (*RESNETS, FAST) or OF_LIBRARY.fullmatch(name) is not None
