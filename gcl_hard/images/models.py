"""Image encoders, SimCLR's projection head, and their training with a loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, cast, get_args

import torch
from torch import Tensor, nn

from gcl_hard.core.extras import check_extra
from gcl_hard.errors import InputError, check_at_least, check_option, unknown
from gcl_hard.images.augment import Views
from gcl_hard.images.batching import ViewPair
from gcl_hard.losses.loss import ContrastiveLoss
from gcl_hard.losses.momentum import MomentumEncoder
from gcl_hard.losses.queue import Queue
from gcl_hard.models import InParts, evaluating, loss_of, width

if TYPE_CHECKING:
    from typing import Unpack

    from gcl_hard.losses.keywords import SeededOptions

ResNet = Literal["resnet18", "resnet50"]
Stem = Literal["cifar", "imagenet"]

SMALL = 64  # pixels: at or below, the ImageNet stem would discard most of an image
HIDDEN, PROJECTED = 512, 128
CLASSES = 1000  # classes of torchvision's models
AUXILIARY = ("googlenet", "inception_v3")  # with auxiliary classifiers during training
WIDTH: dict[str, int] = {"resnet50": 64, "resnet18": 64, "fast": 32}
"""Default channels of the first layer."""


def stem_for(size: int) -> Stem:
    """The stem for images of a size in pixels: ``"cifar"`` up to 64, else ``"imagenet"``.

    Example:
        >>> stem_for(32), stem_for(96)
        ('cifar', 'imagenet')
    """
    return "cifar" if size <= SMALL else "imagenet"


def image_encoder(name: str, *, stem: Stem = "cifar", width: int | None = None) -> nn.Module:
    """An untrained encoder by name: :func:`resnet`, :func:`fast_net`, or one from a library.

    Args:
        name: ``"resnet50"``, ``"resnet18"``, ``"fast"``, ``"torchvision:NAME"`` or
            ``"timm:NAME"``. A library's classifier is removed.
        stem: stem of ``"resnet50"`` and ``"resnet18"``; the others have a fixed one.
        width: channels of their first layer; by default 64 for a ResNet, 32 for the fast net.
            Encoders from a library have fixed widths.

    Returns:
        A module from float [B, 3, S, S] to float [B, d]; ``out_dim`` is d.

    Raises:
        InputError: for another name or stem, or a width below 1.
        MissingExtraError: if timm is needed but not installed; names the command.

    Example:
        >>> image_encoder("resnet18", width=16).out_dim, image_encoder("fast").out_dim
        (128, 128)
        >>> image_encoder("torchvision:mobilenet_v3_small").out_dim
        1024
    """
    library, _, model = name.partition(":")
    if model:
        return LIBRARIES[check_option("library of encoders", library, LIBRARIES)](model)
    if name not in WIDTH:
        raise unknown("encoder", name, [*WIDTH, *(f"{library}:NAME" for library in LIBRARIES)])
    channels = WIDTH[name] if width is None else width
    if name == "fast":
        return fast_net(channels)
    return resnet(cast("ResNet", name), stem=stem, width=channels)


def _torchvision_encoder(name: str) -> nn.Module:
    """A torchvision classifier without its last layer, linear or (SqueezeNet) a convolution."""
    from torchvision import models

    options = {"aux_logits": False, "init_weights": True} if name in AUXILIARY else {}
    network: nn.Module = models.get_model(name, weights=None, **options)
    *_, (parent, attribute, layer) = (
        (parent, attribute, layer)
        for parent in network.modules()
        for attribute, layer in parent.named_children()
        if CLASSES in (getattr(layer, "out_features", None), getattr(layer, "out_channels", None))
    )
    setattr(parent, attribute, nn.Identity())
    inputs = "in_features" if isinstance(layer, nn.Linear) else "in_channels"
    network.out_dim = getattr(layer, inputs)
    return network


def _timm_encoder(name: str) -> nn.Module:
    """A timm model without its classifier."""
    check_extra("timm", f"timm:{name}", "timm")
    import timm

    if "." in name:
        raise InputError(
            f"timm:{name} names weights, but encoders start untrained: give "
            f"timm:{name.partition('.')[0]}, or MODULE:FUNCTION, your function that returns a "
            f"pretrained encoder"
        )
    network: nn.Module = timm.create_model(name, pretrained=False, num_classes=0)
    network.out_dim = getattr(network, "head_hidden_size", None) or network.num_features
    return network


LIBRARIES: dict[str, Callable[[str], nn.Module]] = {
    "torchvision": _torchvision_encoder,
    "timm": _timm_encoder,
}
"""Functions that create an encoder by name, by library."""


def fast_net(width: int = 32) -> nn.Module:
    """A small untrained convolutional net for images of about 32 pixels.

    2×2 patches, then three blocks of a 3×3 convolution, max-pooling (not in the first) and a 3×3
    convolution, each convolution followed by BatchNorm and ReLU; the mean over positions.

    Args:
        width: channels w of the first block; the others have 2w and 4w, the embedding width.

    Returns:
        A module from float [B, 3, S, S], S ≥ 8, to float [B, 4w]; ``out_dim`` is 4w.

    Raises:
        InputError: for a width below 1.

    Source:
        In the manner of Jordan (2024), *94% on CIFAR-10 in 3.29 Seconds on a Single GPU*.

    Example:
        >>> fast_net(8)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 32])
    """
    check_at_least("width", width, 1)

    def convolution(inputs: int, outputs: int, *, pooled: bool = False) -> list[nn.Module]:
        layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        pool = [nn.MaxPool2d(2)] if pooled else []
        return [layer, *pool, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]

    layers: list[nn.Module] = [nn.Conv2d(3, width, 2, stride=2), nn.BatchNorm2d(width), nn.ReLU()]
    channels = width
    for block in range(3):
        outputs = width * 2**block
        layers += convolution(channels, outputs, pooled=block > 0)
        layers += convolution(outputs, outputs)
        channels = outputs
    network: nn.Module = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    network.out_dim = channels  # type: ignore[assignment]
    return network


def resnet(name: ResNet = "resnet50", *, stem: Stem = "cifar", width: int = 64) -> nn.Module:
    """A torchvision ResNet without its classifier, untrained.

    Args:
        name: ``"resnet50"`` (embeddings 2048 wide) or ``"resnet18"`` (512).
        stem: ``"cifar"``, a 3×3 convolution of stride 1 and no max-pooling, for images up to 64
            pixels; ``"imagenet"``, torchvision's own 7×7 of stride 2 with max-pooling.
        width: channels of the first stage; embeddings are 8 (ResNet-50: 32) times as wide.

    Returns:
        A module from float [B, 3, S, S] to float [B, d]; ``out_dim`` is d.

    Raises:
        InputError: for another name or stem, or a width below 1.

    Source:
        He et al. (2016); Chen et al. (2020), *SimCLR*, appendix B.9, for the stem. The H-SCL paper
        uses the ResNet-50.

    Example:
        >>> import torch
        >>> encoder = resnet("resnet18")
        >>> encoder(torch.zeros(2, 3, 8, 8)).shape, encoder.out_dim
        (torch.Size([2, 512]), 512)
    """
    check_option("encoder", name, get_args(ResNet))
    check_option("stem", stem, get_args(Stem))
    check_at_least("width", width, 1)
    from torchvision import models  # takes a second

    network: nn.Module = models.get_model(name, weights=None)
    if stem == "cifar":
        network.conv1 = nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=1, bias=False)
        nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
        network.maxpool = nn.Identity()
    classifier = network.fc
    assert isinstance(classifier, nn.Linear)
    out_dim = classifier.in_features
    network.fc = nn.Identity()
    if width != WIDTH[name]:
        _set_width(network, width)
        out_dim = out_dim * width // WIDTH[name]
    network.out_dim = out_dim  # type: ignore[assignment]
    return network


def _set_width(network: nn.Module, width: int) -> None:
    """Scale the channels of a ResNet; torchvision has no argument for it."""

    def scaled(channels: int) -> int:
        return channels if channels == 3 else channels * width // 64  # 3 are the colours

    for module in list(network.modules()):
        for name, old in list(module.named_children()):
            if isinstance(old, nn.Conv2d):
                new = nn.Conv2d(
                    scaled(old.in_channels), scaled(old.out_channels), old.kernel_size,  # type: ignore[arg-type]
                    old.stride, old.padding, bias=False,  # type: ignore[arg-type]
                )  # fmt: skip
                nn.init.kaiming_normal_(new.weight, mode="fan_out", nonlinearity="relu")
                setattr(module, name, new)
            elif isinstance(old, nn.BatchNorm2d):
                setattr(module, name, nn.BatchNorm2d(scaled(old.num_features)))


def projection_head(in_dim: int, hidden: int = HIDDEN, out_dim: int = PROJECTED) -> nn.Sequential:
    """The projection head between embeddings and loss, discarded after training.

    Args:
        in_dim: width of the embeddings.
        hidden: width of the hidden layer.
        out_dim: width of the loss's inputs.

    Returns:
        Linear without bias, BatchNorm, ReLU, Linear.

    Source: Chen et al. (2020), *SimCLR*; the widths are those of HCL's and H-SCL's code.

    Example:
        >>> projection_head(2048)[-1].out_features
        128
    """
    return nn.Sequential(
        nn.Linear(in_dim, hidden, bias=False),
        nn.BatchNorm1d(hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, out_dim),
    )


class ImageContrast(nn.Module):
    """An image encoder trained by a contrastive loss between its views.

    Args:
        encoder: any module from float [B, 3, S, S] to embeddings [B, d].
        out_dim: d; read from ``encoder.out_dim`` if None.
        method: a name in ``METHODS``, ``ucl`` if None.
        loss: a :class:`ContrastiveLoss` in place of the method's.
        head: the projection from embeddings to the loss's inputs; SimCLR's if None.
        one_forward: encode all views in one forward pass, with joint BatchNorm statistics; False
            uses one pass per view, as in the papers' code.
        channels_last: whether views and the encoder's weights are in channels-last memory format.
        momentum: m in [0, 1) of a :class:`~gcl_hard.MomentumEncoder` of encoder and head, which
            encodes all views but the first, without gradient; updated at the start of each
            training batch. None for none.
        queue: a :class:`~gcl_hard.Queue` of such views of earlier batches as further candidates;
            as wide as the head's outputs (128), with the ``unknown`` of the loss.
        **options: options of :func:`gcl_hard.contrastive_loss`.

    Raises:
        InputError: if the encoder's width is unknown, or its output does not have that width; for
            momentum or a queue with hard positives.

    Source: Chen et al. (2020), *SimCLR*; H-SCL paper, section V-A; He et al. (2020), *MoCo*.

    Example:
        >>> from gcl_hard.images import resnet
        >>> model = ImageContrast(resnet("resnet18"), method="hscl", beta=1.0)
        >>> x, labels = torch.rand(4, 3, 8, 8), torch.tensor([0, 0, 1, 1])
        >>> model(ViewPair(x, x.flip(3), labels)).isfinite()
        tensor(True)
    """

    def __init__(
        self,
        encoder: nn.Module,
        out_dim: int | None = None,
        *,
        method: str | None = None,
        loss: ContrastiveLoss | None = None,
        head: nn.Module | None = None,
        one_forward: bool = True,
        channels_last: bool = False,
        momentum: float | None = None,
        queue: Queue | None = None,
        **options: Unpack[SeededOptions],
    ) -> None:
        super().__init__()
        self.loss: ContrastiveLoss = loss_of(method, loss, options)
        self.out_dim: int = width(encoder, out_dim)
        self.encoder: nn.Module = encoder
        self.head: nn.Module = projection_head(self.out_dim) if head is None else head
        self.one_forward = one_forward
        self.channels_last = channels_last
        if channels_last:
            self.encoder.to(memory_format=torch.channels_last)
        if self.loss.takes_items and (momentum is not None or queue is not None):
            raise InputError(
                f"hard positives are chosen from views of a single encoder, so leave out "
                f"momentum={momentum} and queue={queue}"
            )
        self.momentum = None if momentum is None else MomentumEncoder(self._network, momentum)
        self.queue = queue

    @property
    def _network(self) -> nn.Sequential:
        return nn.Sequential(self.encoder, self.head)

    def set_epoch(self, epoch: int, epochs: int) -> None:
        """Set the loss's schedules to ``epoch`` (1 … ``epochs``)."""
        self.loss.set_epoch(epoch, epochs)

    def forward(self, pair: ViewPair) -> Tensor:
        """Loss of a batch of two images or more, float [], nats."""
        (whole,), loss = self.in_parts(pair, 1)
        return loss(*self.encode_part(whole))

    def in_parts(self, pair: ViewPair, parts: int) -> InParts:
        """A batch in parts of two images or more for :meth:`encode_part`, and the loss of their
        joined outputs; see :func:`gcl_hard.cached_backward`.
        """
        if not isinstance(pair, ViewPair):
            raise InputError(
                f"a batch of images is a ViewPair of two views and labels, got "
                f"{type(pair).__name__}: ViewPairs(split, views) makes them from images"
            )
        self._check(pair)
        if self.momentum is not None and self._trains:
            self.momentum.update(self._network)
        n_parts, pieces = min(parts, len(pair) // 2), [pair.views]  # BatchNorm needs two images
        if n_parts > 1:
            pieces = [*zip(*(view.tensor_split(n_parts) for view in pair.views), strict=True)]
        return pieces, partial(self._loss_of, pair)

    def encode_part(self, part: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The inputs of the loss for each view."""
        if self.momentum is None:
            return tuple(self.of_views(part, self.project))
        first, others = self.of_views(part[:1], self.project), self.of_views(part[1:], self._keys)
        return *first, *others

    def _keys(self, images: Tensor) -> Tensor:
        """Unit projections by the momentum encoder."""
        assert self.momentum is not None
        return nn.functional.normalize(self.momentum(self._formatted(images)).float(), dim=1)

    @property
    def _trains(self) -> bool:
        """Whether a batch updates the momentum encoder and the queue."""
        return self.training and torch.is_grad_enabled()

    def _check(self, pair: ViewPair) -> None:
        if len(pair) < 2:
            raise InputError(f"a batch must have at least 2 images, got {len(pair)}")

    def _loss_of(self, pair: ViewPair, *z: Tensor) -> Tensor:
        more = {} if self.queue is None else self.queue.candidates()
        loss: Tensor = self.loss(z, labels=pair.labels, **more)
        if self.queue is not None and self._trains:
            labels = None if pair.labels is None else pair.labels.repeat(len(z) - 1)
            self.queue.add(torch.cat(z[1:]), labels)
        return loss

    def of_views(self, views: Sequence[Tensor], encode: Callable[[Tensor], Tensor]) -> list[Tensor]:
        """``encode`` applied to the views, in one forward pass or one per view.

        Raises:
            InputError: for views of different sizes, or that the encoder does not accept.
        """
        if len({view.shape for view in views}) > 1:
            shapes = " and ".join(str([*view.shape]) for view in views)
            raise InputError(f"views must show the same images at the same size, got {shapes}")
        if not self.one_forward:
            return [encode(view) for view in views]
        return list(encode(torch.cat([*views])).chunk(len(views)))

    def project(self, images: Tensor) -> Tensor:
        """Unit projections of normalised images, the loss's inputs, float [B, 128]."""
        projected: Tensor = self.head(self.encode(images))
        return nn.functional.normalize(projected.float(), dim=1)

    def encode(self, images: Tensor) -> Tensor:
        """Embeddings float [B, d] of normalised images, in the encoder's current mode."""
        z: Tensor = self.encoder(self._formatted(images))
        if not isinstance(z, Tensor) or z.shape != (len(images), self.out_dim):
            got = f"{list(z.shape)}" if isinstance(z, Tensor) else type(z).__name__
            raise InputError(
                f"the encoder must return embeddings [{len(images)}, {self.out_dim}], got {got}; "
                f"is out_dim={self.out_dim} its width?"
            )
        return z

    def _formatted(self, images: Tensor) -> Tensor:
        return (
            images.contiguous(memory_format=torch.channels_last) if self.channels_last else images
        )

    def embed(
        self,
        images: Tensor,
        views: Views,
        *,
        batch_size: int = 512,
        precision: torch.dtype = torch.float32,
    ) -> Tensor:
        """The encoder's embeddings in eval mode, without gradient, for probes.

        Args:
            images: uint8 [n, 3, H, W], on any device.
            views: views whose :meth:`~gcl_hard.images.Views.plain` normalises them.
            batch_size: number of images encoded at a time.
            precision: ``torch.float32``, or a half precision to encode in.

        Returns:
            float32 [n, d] on the model's device; every module keeps its mode.
        """
        device = next(self.parameters()).device
        half = precision != torch.float32
        with evaluating(self), torch.autocast(device.type, dtype=precision, enabled=half):
            return torch.cat([
                self.encode(views.plain(chunk.to(device))).float()
                for chunk in torch.split(images, batch_size)
            ])  # fmt: skip


class PixelEncoder(nn.Module):
    """An encoder of unnormalised images, for export.

    Args:
        encoder: any module from float [B, 3, S, S] to embeddings [B, d].
        views: views whose :meth:`~gcl_hard.images.Views.plain` resizes and normalises images.

    Example:
        >>> from gcl_hard.images import ViewRecipe
        >>> views = Views(ViewRecipe(), size=8, mean=(0.5,) * 3, std=(0.5,) * 3)
        >>> PixelEncoder(fast_net(4), views)(torch.zeros(2, 3, 8, 8, dtype=torch.uint8)).shape
        torch.Size([2, 16])
    """

    def __init__(self, encoder: nn.Module, views: Views) -> None:
        super().__init__()
        self.encoder, self.views = encoder, views

    def forward(self, images: Tensor) -> Tensor:
        """Embeddings float [B, d] of images uint8 [B, 3, H, W]."""
        return self.encoder(self.views.plain(images))


class ImageClassifier(ImageContrast):
    """The supervised baseline: an image encoder and a linear classifier, trained by cross-entropy.

    Args:
        encoder: any module from float [B, 3, S, S] to embeddings [B, d].
        n_classes: C ≥ 2.
        out_dim: d, if it cannot be asked of the encoder.
        one_forward: as of :class:`ImageContrast`.
        channels_last: likewise.

    Raises:
        InputError: if the encoder's width is unknown, or its output does not have that width.

    Example:
        >>> model = ImageClassifier(fast_net(4), n_classes=2)
        >>> x = torch.rand(4, 3, 8, 8)
        >>> model(ViewPair(x, x.flip(3), torch.tensor([0, 0, 1, 1]))).isfinite()
        tensor(True)
    """

    def __init__(
        self, encoder: nn.Module, n_classes: int, out_dim: int | None = None, *,
        one_forward: bool = True, channels_last: bool = False,
    ) -> None:  # fmt: skip
        head = nn.Linear(width(encoder, out_dim), n_classes)
        super().__init__(
            encoder, out_dim, method="ucl", head=head, one_forward=one_forward,
            channels_last=channels_last,
        )  # fmt: skip

    def encode_part(self, part: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The logits of each view."""
        return tuple(self.of_views(part, lambda x: self.head(self.encode(x))))

    def _check(self, pair: ViewPair) -> None:
        if pair.labels is None:
            raise InputError("a classifier needs the images' labels, and this ViewPair has none")

    def _loss_of(self, pair: ViewPair, *z: Tensor) -> Tensor:
        """Cross-entropy of a batch, mean over images and views."""
        logits = torch.cat(z)
        labels = torch.as_tensor(pair.labels, device=logits.device).repeat(len(pair.views))
        return nn.functional.cross_entropy(logits.float(), labels)
