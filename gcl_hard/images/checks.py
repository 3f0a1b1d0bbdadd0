"""What every image set must be before it is used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.errors import InputError, unknown

Images = NDArray[Any]
"""What should be uint8 [n, S, S, 3]."""

Labels = NDArray[Any]
"""What should be integers [n] in 0 … C − 1, or −1 for none."""


def check_splits(name: str, asked: Iterable[str], there: Sequence[str]) -> None:
    """Refuse splits that a set does not have; names those it has."""
    for split in asked:
        if split not in there:
            raise unknown(f"split of {name}", split, there)


def checked(images: Images, labels: Labels, n_classes: int, where: str) -> tuple[Tensor, Tensor]:
    """Images uint8 [n, 3, S, S] and labels int64 [n], once they can be used.

    Args:
        images: what should be uint8 [n, S, S, 3].
        labels: what should be integers [n] in 0 … n_classes − 1, or −1 for none.
        n_classes: C.
        where: file and split, for the messages.

    Returns:
        Both as tensors.

    Raises:
        InputError: says what was found and what to do.

    Example:
        >>> grey = np.zeros((2, 8, 8, 1), np.uint8)
        >>> checked(np.repeat(grey, 3, axis=-1), np.array([0, 1]), 2, "train")[0].shape
        torch.Size([2, 3, 8, 8])
    """
    _check_pixels(images, where)
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) != len(images):
        raise InputError(
            f"{where}: labels must be {len(images)} integers, one an image, got "
            f"{labels.dtype} {list(labels.shape)}"
        )
    wrong = (labels < -1) | (labels >= n_classes)
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(
            f"{where}: label {labels[first]} of image {first} is out of range: there are "
            f"{n_classes} classes, 0 to {n_classes - 1} (−1 for no label)"
        )
    pixels = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    return pixels, torch.from_numpy(labels.astype(np.int64))


def _check_pixels(images: Images, where: str) -> None:
    got = f"got {images.dtype} {list(images.shape)}"
    if images.dtype != np.uint8:
        raise InputError(
            f"{where}: images must be uint8, 0 to 255, {got}; if they are shares of 1: "
            f"(255 * images).round().astype(numpy.uint8)"
        )
    if images.ndim == 3 or (images.ndim == 4 and images.shape[-1] == 1):
        last = "images[..., None]" if images.ndim == 3 else "images"
        raise InputError(
            f"{where}: images must be [n, S, S, 3], {got}, grey ones; make them three channels: "
            f"numpy.repeat({last}, 3, axis=-1)"
        )
    if images.ndim != 4 or images.shape[-1] != 3:
        first = images.ndim == 4 and images.shape[1] == 3
        remedy = "; channels come last: numpy.moveaxis(images, 1, -1)" if first else ""
        raise InputError(f"{where}: images must be [n, S, S, 3], {got}{remedy}")
    if images.shape[1] != images.shape[2]:
        raise InputError(f"{where}: images must be square, {got}; crop or pad them")
    if not images.size:
        raise InputError(f"{where}: there are no images, {got}")
