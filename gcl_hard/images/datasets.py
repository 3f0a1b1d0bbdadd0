"""Image sets as uint8 tensors: CIFAR, STL10, TinyImageNet, digits, NAME.npz and folders."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.core.ids import checked_names
from gcl_hard.errors import InputError, check_option
from gcl_hard.files.io import cache_root
from gcl_hard.images import KNOWN, canonical_name, files
from gcl_hard.images.decoding import Images, Labels, decoded
from gcl_hard.images.folders import list_images, list_unlabelled


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Images with their labels.

    ``split[3]`` is an image and its label; a slice, a list of indices or a mask give a smaller
    split. Arrays and lists become tensors.

    Attributes:
        images: uint8 [n, 3, S, S].
        labels: int64 [n]; −1 without a label.
        ids: names of the images, NumPy [n]: for a folder the relative paths of its files; by
            default their numbers.

    Raises:
        InputError: for images, labels or ids of another type or shape.
    """

    images: Tensor
    labels: Tensor
    ids: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        for field in ("images", "labels"):
            if not isinstance(values := getattr(self, field), Tensor):
                values = torch.from_numpy(np.require(values, requirements=["C", "W"]))
                object.__setattr__(self, field, values)
        if self.images.dtype != torch.uint8 or self.images.ndim != 4 or self.images.shape[1] != 3:
            raise InputError(
                f"images must be uint8 [n, 3, S, S], got {self.images.dtype} "
                f"{[*self.images.shape]}; if channels come last, images.permute(0, 3, 1, 2); if "
                f"values are in 0..1, (255 * images).round().to(torch.uint8)"
            )
        if self.labels.is_floating_point() or self.labels.is_complex():
            raise InputError(f"labels must be integers, got {self.labels.dtype}")
        object.__setattr__(self, "labels", self.labels.long())
        if self.labels.shape != self.images.shape[:1]:
            raise InputError(
                f"labels must be the classes of {len(self.images)} images, [{len(self.images)}], "
                f"got {[*self.labels.shape]}; for one-hot rows use labels.argmax(1)"
            )
        object.__setattr__(self, "ids", checked_names(self.ids, len(self.images), "image"))

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        side = self.images.shape[-1]
        return f"Split({len(self)} images of {side} × {side} pixels)"

    @overload
    def __getitem__(self, index: int) -> tuple[Tensor, int]: ...

    @overload
    def __getitem__(self, index: Tensor | Sequence[int] | slice) -> Split: ...

    def __getitem__(self, index: Any) -> tuple[Tensor, int] | Split:
        if isinstance(index, int | np.integer):
            return self.images[index], int(self.labels[index])
        if isinstance(index, Tensor):
            return self.take(index)
        assert self.ids is not None
        return Split(self.images[index], self.labels[index], self.ids[index])

    def to(self, device: torch.device) -> Split:
        """A copy on a device."""
        return Split(self.images.to(device), self.labels.to(device), self.ids)

    def take(self, index: Tensor) -> Split:
        """The images at ``index``, int64 [m], on the same device."""
        assert self.ids is not None
        ids, index = self.ids[index.cpu().numpy()], index.to(self.labels.device)
        return Split(self.images[index], self.labels[index], ids)


@dataclass(frozen=True, eq=False)
class ImageSet:
    """An image classification set.

    Attributes:
        name: name of the set.
        splits: splits by name: ``train`` and ``test``; for STL10 also ``unlabeled`` and
            ``train+unlabeled``, if requested.
        class_names: names of labels 0, 1, ….
    """

    name: str
    splits: dict[str, Split]
    class_names: tuple[str, ...]

    @property
    def n_classes(self) -> int:
        """C."""
        return len(self.class_names)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the images."""
        height, width = next(iter(self.splits.values())).images.shape[-2:]
        return int(height), int(width)

    def split(self, name: str) -> Split:
        """A split by name.

        Raises:
            InputError: for an unknown name.
        """
        return self.splits[check_option(f"split of {self.name}", name, self.splits)]

    def to(self, device: torch.device) -> ImageSet:
        """A copy on a device."""
        return replace(self, splits={name: part.to(device) for name, part in self.splits.items()})


def load_images(
    name: str | Path,
    *,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    download: bool = True,
    splits: Sequence[str] = ("train", "test"),
) -> ImageSet:
    """Load an image set.

    Searched in this order: the data folder, the cache, the package (digits), the download. In a
    folder, ``NAME.npz`` (in any case) takes precedence over the publisher's files. A folder of
    images with the name of a known set, in any spelling, is refused, and so are two files or
    folders that might be the set.

    Images of folders are files with a suffix that Pillow opens, except films, drawings and
    documents, and files without a suffix that contain a picture; hidden ones are passed over.
    Links are followed, and each image is read once. Images are rotated by their EXIF orientation,
    transparent pixels become white, and all are scaled to squares of one size; only the first of
    several pictures in a file is read. Warnings count the files left out, except labels and notes.
    Images are decoded once, into the
    cache, and again when the name, size or a time of a file has changed, or this version of the
    package or of Pillow decodes differently. The times include the change time, which no tool sets;
    Windows has none, and misses files replaced by others of the same size and time.

    Args:
        name: ``digits``, ``CIFAR10``, ``CIFAR100``, ``STL10``, ``TinyImageNet``, or any other NAME
            of a NAME.npz with ``train_images`` uint8 [n, S, S, 3], ``train_labels`` int [n],
            ``test_images``, ``test_labels``, and ``class_names`` [C] or none; or NAME of a folder
            with images as ``NAME/train/CLASS/*`` and ``NAME/test/CLASS/*`` (or ``training``;
            ``testing``, ``val``, ``valid``, ``validation``, ``dev`` or ``eval``, in any case), or
            as ``NAME/CLASS/*``, of which a stratified fifth are the test images; a class may have
            subfolders.
        data_dir: an offline mirror; by default the folder in ``GCL_HARD_DATA``.
        cache_dir: the cache's root, see :func:`gcl_hard.files.io.cache_root`.
        download: whether it may be downloaded.
        splits: splits to read; STL10's ``unlabeled`` and ``train+unlabeled`` are large.

    Returns:
        The set, on the CPU.

    Raises:
        InputError: if the set cannot be found or used; the message lists the searched paths or
            the fault.

    Source:
        Krizhevsky (2009) for CIFAR; Coates, Ng and Lee (2011) for STL10; Le and Yang (2015) for
        TinyImageNet, whose validation images are the test split, the official one being without
        labels; Alpaydin and Kaynak (1998) for the digits, scikit-learn's copy.

    Example:
        >>> digits = load_images("digits")
        >>> digits.split("train").images.shape, digits.size
        (torch.Size([1437, 3, 8, 8]), (8, 8))
    """
    name = canonical_name(os.fspath(name))
    path = files.locate(name, data_dir=data_dir, cache_dir=cache_dir, download=download)
    wanted = tuple(dict.fromkeys(splits))
    where = "scikit-learn's digits" if path is None else str(path)
    cache = cache_root(cache_dir) / "images"
    if path is None:
        arrays, class_names = files.digits(wanted)
    else:
        match files.layout_of(path, name):
            case "npz":
                arrays, class_names = files.from_npz(path, name, wanted)
            case "torchvision":
                arrays, class_names = files.from_torchvision(path, name, wanted)
            case "folders":
                arrays, class_names = files.from_folders(path, wanted, cache)
            case "classes":
                arrays, class_names = files.from_class_folders(path, wanted, cache)
    parts = {}
    for split in wanted:  # one at a time: the largest is 2.7 GB
        images, labels, ids = arrays.pop(split)
        pixels, classes = checked(images, labels, len(class_names), f"{where}: {split}")
        parts[split] = Split(pixels, classes, ids)
    _check_sizes(name, parts, len(class_names), where)
    return ImageSet(name, parts, class_names)


def load_folder(
    path: str | Path,
    *,
    side: int | None = None,
    classes: bool = False,
    whole: bool = False,
    labels: str | Path | None = None,
    cache_dir: str | Path | None = None,
) -> ImageSet:
    """All images of a folder for training or embedding, without a test split.

    They are decoded and cached as by :func:`load_images`. In a folder with ``train/`` and ``test/``
    only the training images are read, with a warning, unless ``whole``.

    Args:
        path: the folder.
        side: pixels of the square that images are scaled and cropped to, such as the image size of
            an encoder; by default the shortest side of all, at most 224.
        classes: whether subfolders are classes; otherwise images have no labels.
        whole: whether test images are also read; not with ``classes``.
        labels: a CSV file with columns ``file`` and ``label``; images not listed have no label.
        cache_dir: the cache's root.

    Returns:
        A set of one split, ``train`` or ``all``, with the paths of the files as ``ids``, on the
        CPU.

    Raises:
        InputError: if there are no images, or some cannot be read; names them.
    """
    path = Path(path)
    if labels is not None and classes:
        raise InputError(f"labels are in {labels}, or in the names of folders: give one of them")
    if whole and classes:
        raise InputError("test images are read without classes: leave out whole or classes")
    listing = list_images(path) if classes else list_unlabelled(path, whole=whole)
    for note in listing.notes:
        warnings.warn(note, stacklevel=2)
    names = listing.names
    if classes and not names:
        raise InputError(
            f"{path} has no class folders: give labels in a file (--labels), or use a method "
            f"without labels, such as hucl"
        )
    part = "train" if "train" in listing.parts else "all"
    images = {part: listing.parts[part]}
    cache = cache_root(cache_dir) / "images"
    stored = decoded(images, path, cache, name=path.name, scale_to=side)[part]
    pixels, targets = checked(stored.images, stored.labels, max(len(names), 1), str(path))
    split = Split(pixels, targets, stored.ids)
    if labels is not None:
        assert split.ids is not None
        label_ids, names = files.read_labels(Path(labels), split.ids.tolist())
        split = replace(split, labels=torch.tensor(label_ids))
    return ImageSet(path.name, {part: split}, names)


def _check_sizes(name: str, parts: dict[str, Split], n_classes: int, where: str) -> None:
    sides = {split: part.images.shape[-1] for split, part in parts.items()}
    if len(set(sides.values())) > 1:
        raise InputError(
            f"{where}: images of different splits differ in size: "
            f"{', '.join(f'{split} {side} pixels' for split, side in sides.items())}"
        )
    known = KNOWN.get(name)
    if known is None:
        return
    got = (n_classes, *set(sides.values()))
    if got != (known.n_classes, known.side):
        raise InputError(
            f"{where} is not {name}: {got[0]} classes and {got[1]} pixels a side instead of "
            f"{known.n_classes} and {known.side}; give another set its own name"
        )


def checked(images: Images, labels: Labels, n_classes: int, where: str) -> tuple[Tensor, Tensor]:
    """Images uint8 [n, 3, S, S] and labels int64 [n], checked.

    Args:
        images: expected as uint8 [n, S, S, 3].
        labels: expected as integers [n] in 0 … n_classes − 1, or −1 for none.
        n_classes: C.
        where: file and split, for the messages.

    Returns:
        Both as tensors.

    Raises:
        InputError: for invalid arrays; the message names the fault and a remedy.

    Example:
        >>> grey = np.zeros((2, 8, 8, 1), np.uint8)
        >>> checked(np.repeat(grey, 3, axis=-1), np.array([0, 1]), 2, "train")[0].shape
        torch.Size([2, 3, 8, 8])
    """
    _check_pixels(images, where)
    if labels.dtype.kind not in "iu" or labels.shape != images.shape[:1]:
        got = f"{labels.dtype} {list(labels.shape)}"
        raise InputError(f"{where}: labels must be {len(images)} integers, got {got}")
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
    square = images.ndim == 4 and images.shape[3] == 3 and images.shape[1] == images.shape[2]
    if images.dtype != np.uint8 or not square or not images.size:
        raise InputError(
            f"{where}: images must be square and uint8, [n, S, S, 3], got {images.dtype} "
            f"{list(images.shape)}: numpy.repeat(images[..., None], 3, axis=-1) of grey ones, "
            f"numpy.moveaxis(images, 1, -1) of channels first, (255 * images).round() of 0..1"
        )
