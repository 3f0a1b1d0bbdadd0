"""ResNets with a stem for small images, and SimCLR's projection head."""

from __future__ import annotations

from typing import Literal, get_args

from torch import nn

from gcl_hard.errors import unknown

ResNet = Literal["resnet18", "resnet50"]
Stem = Literal["cifar", "imagenet"]

SMALL = 64  # pixels: at or below, the ImageNet stem would discard most of an image
HIDDEN, PROJECTED = 512, 128


def stem_for(size: int) -> Stem:
    """The stem for images of a size in pixels: ``"cifar"`` up to 64, else ``"imagenet"``.

    Example:
        >>> stem_for(32), stem_for(96)
        ('cifar', 'imagenet')
    """
    return "cifar" if size <= SMALL else "imagenet"


def resnet(name: ResNet = "resnet50", *, stem: Stem = "cifar") -> nn.Module:
    """A torchvision ResNet without its classifier, untrained.

    Args:
        name: ``"resnet50"`` (embeddings 2048 wide) or ``"resnet18"`` (512).
        stem: ``"cifar"``, a 3×3 convolution of stride 1 and no max-pooling, for images up to 64
            pixels; ``"imagenet"``, torchvision's own 7×7 of stride 2 with max-pooling.

    Returns:
        A module from float [B, 3, S, S] to float [B, d]; ``out_dim`` is d.

    Raises:
        InputError: for another name or stem.

    Source:
        He et al. (2016); Chen et al. (2020), *SimCLR*, appendix B.9, for the stem. The H-SCL paper
        uses the ResNet-50.

    Example:
        >>> import torch
        >>> encoder = resnet("resnet18")
        >>> encoder(torch.zeros(2, 3, 8, 8)).shape, encoder.out_dim
        (torch.Size([2, 512]), 512)
    """
    if name not in get_args(ResNet):
        raise unknown("encoder", name, get_args(ResNet))
    if stem not in get_args(Stem):
        raise unknown("stem", stem, get_args(Stem))
    from torchvision import models  # takes a second

    network: nn.Module = models.get_model(name, weights=None)
    if stem == "cifar":
        network.conv1 = nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=1, bias=False)
        nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
        network.maxpool = nn.Identity()
    classifier = network.fc
    assert isinstance(classifier, nn.Linear)
    network.out_dim = classifier.in_features  # type: ignore[assignment]
    network.fc = nn.Identity()
    return network


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
