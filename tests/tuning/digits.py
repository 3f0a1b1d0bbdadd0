"""A tiny encoder and a few digits: a configuration of images that trains in a tenth of a second."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import nn

from gcl_hard.experiments.config import ImageConfig
from gcl_hard.experiments.image_data import ImageData, image_data
from gcl_hard.images import Split


class Tiny(nn.Sequential):
    """An encoder with what a ResNet has: convolutions, BatchNorm, pooling."""

    out_dim = 8

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip


@cache
def few_digits() -> ImageData:
    """120 + 60 images."""
    found = image_data(ImageConfig(subset=120), None, torch.device("cpu"))
    return replace(found, test=found.test.take(torch.arange(60)))


def small(method: str = "hscl", **settings: Any) -> ImageConfig:
    return ImageConfig(
        **{"method": method, "subset": 120, "epochs": 2, "batch_size": 40, "blur": 0.0,
           "probe_epochs": 40, "probe_lr": (0.01, 0.1), **settings}
    )  # fmt: skip


def garbage(split: Split, seed: int = 0) -> Split:
    """Other pixels, and every label another one."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randint(256, split.images.shape, generator=generator, dtype=torch.uint8)
    return Split(noise, (split.labels + 1) % 10)
