"""Files of image sets as arrays, and the checks that every set goes through."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.errors import InputError

Arrays = dict[str, tuple[NDArray[Any], NDArray[Any]]]
"""By split: images uint8 [n, S, S, 3] and labels int64 [n]."""

Reader = Callable[[Path, str, Sequence[str]], tuple[Arrays, tuple[str, ...]]]

DIGIT_LEVELS = 16  # grey levels of scikit-learn's digits above 0
SPLIT_SEED, TEST_SHARE = 0, 0.2


def digits() -> tuple[Arrays, tuple[str, ...]]:
    """Scikit-learn's 1,797 digits of 8×8 pixels, grey tripled, one fixed stratified split."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    bunch = load_digits()
    grey = np.rint(bunch.images * (255 / DIGIT_LEVELS)).astype(np.uint8)
    images, labels = np.repeat(grey[..., None], 3, axis=-1), bunch.target.astype(np.int64)
    train, test = train_test_split(
        np.arange(len(labels)), test_size=TEST_SHARE, stratify=labels, random_state=SPLIT_SEED
    )
    parts = {"train": np.sort(train), "test": np.sort(test)}
    arrays = {name: (images[ids], labels[ids]) for name, ids in parts.items()}
    return arrays, tuple(map(str, range(10)))


def from_npz(path: Path, name: str, splits: Sequence[str]) -> tuple[Arrays, tuple[str, ...]]:
    """A mirror file: ``SPLIT_images``, ``SPLIT_labels``, and ``class_names`` or none."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            if "train_webp" in stored.files:
                raise InputError(
                    f"{path} is packed; unpack it with the unpack.py that lies beside it: python "
                    f"unpack.py {name.lower()} OUT, then --data-dir OUT"
                )
            arrays: Arrays = {}
            for split in splits:
                if f"{split}_images" not in stored.files and split not in ("train", "test"):
                    continue  # the caller says which splits there are
                arrays[split] = (_array(stored, path, f"{split}_images"),
                                 _labels(stored, path, split))  # fmt: skip
            if "class_names" in stored.files:
                names = tuple(map(str, stored["class_names"].ravel()))
            else:
                top = max(int(labels.max(initial=0)) for _, labels in arrays.values())
                names = tuple(map(str, range(top + 1)))
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is truncated or no .npz file ({error}): copy it anew") from error
    return arrays, names


def _array(stored: Any, path: Path, key: str) -> NDArray[Any]:
    if key not in stored.files:
        raise InputError(f"{path} lacks {key}; it has {', '.join(sorted(stored.files))}")
    found: NDArray[Any] = stored[key]
    return found


def _labels(stored: Any, path: Path, split: str) -> NDArray[Any]:
    if split == "unlabeled" and f"{split}_labels" not in stored.files:
        return np.full(len(stored[f"{split}_images"]), -1)
    return _array(stored, path, f"{split}_labels")


def from_torchvision(
    path: Path, name: str, splits: Sequence[str]
) -> tuple[Arrays, tuple[str, ...]]:
    """CIFAR and STL10 as torchvision unpacks them."""
    from torchvision import datasets

    arrays: Arrays = {}
    try:
        for split in splits:
            if name == "STL10":
                if split not in ("train", "test", "unlabeled", "train+unlabeled"):
                    continue
                found = datasets.STL10(path.parent, split=split)
                arrays[split] = (np.transpose(found.data, (0, 2, 3, 1)), np.asarray(found.labels))
            elif split in ("train", "test"):
                found = getattr(datasets, name)(path.parent, train=split == "train")
                arrays[split] = (found.data, np.asarray(found.targets))
    except (RuntimeError, OSError, ValueError, EOFError) as error:
        raise InputError(
            f"{path} is incomplete or damaged ({error}): unpack its archive anew"
        ) from error
    return arrays, tuple(map(str, found.classes))


def from_folders(path: Path, name: str, splits: Sequence[str]) -> tuple[Arrays, tuple[str, ...]]:
    """TinyImageNet's folders, ``train`` by class and ``val`` with a list, our test split."""
    listed = path / "wnids.txt"
    if not listed.is_file():
        raise InputError(f"{path} lacks wnids.txt, the list of its classes: unpack it anew")
    names = tuple(sorted(listed.read_text(encoding="utf-8").split()))
    arrays: Arrays = {}
    if "train" in splits:
        pairs = [
            (file, label)
            for label, wnid in enumerate(names)
            for file in sorted((path / "train" / wnid / "images").glob("*.JPEG"))
        ]
        arrays["train"] = _decoded(pairs, path / "train")
    if "test" in splits:
        arrays["test"] = _decoded(_annotated(path / "val", names), path / "val")
    return arrays, names


def _annotated(folder: Path, names: Sequence[str]) -> list[tuple[Path, int]]:
    """The validation images with their classes."""
    listed = folder / "val_annotations.txt"
    if not listed.is_file():
        raise InputError(f"{folder} lacks val_annotations.txt: unpack the set anew")
    label_of = {wnid: label for label, wnid in enumerate(names)}
    pairs = []
    for number, line in enumerate(listed.read_text(encoding="utf-8").splitlines(), start=1):
        words = line.split("\t")
        if len(words) < 2 or words[1] not in label_of:
            raise InputError(
                f"{listed}, line {number}: expected a file name, a tab and one of the "
                f"{len(names)} classes of wnids.txt, got {line[:60]!r}"
            )
        pairs.append((folder / "images" / words[0], label_of[words[1]]))
    return pairs


def _decoded(pairs: Sequence[tuple[Path, int]], where: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Images of files, grey ones as RGB; with a bar on a terminal, for there are many."""
    from PIL import Image
    from tqdm import tqdm

    if not pairs:
        raise InputError(f"{where} holds no *.JPEG images: unpack the set anew")
    shown: Iterable[tuple[Path, int]] = tqdm(
        pairs, desc=f"reading {where.name}", unit="image", disable=not sys.stderr.isatty()
    )
    images: NDArray[np.uint8] | None = None
    for place, (file, _) in enumerate(shown):
        try:
            with Image.open(file) as image:
                pixels = np.asarray(image.convert("RGB"))
        except OSError as error:
            raise InputError(f"{file} cannot be read as an image ({error})") from error
        if images is None:
            images = np.empty((len(pairs), *pixels.shape), np.uint8)
        if pixels.shape != images.shape[1:]:
            raise InputError(f"{file} is of shape {pixels.shape}, others of {images.shape[1:]}")
        images[place] = pixels
    assert images is not None
    return images, np.array([label for _, label in pairs])


READERS: dict[str, Reader] = {
    "npz": from_npz, "torchvision": from_torchvision, "folders": from_folders,
}  # fmt: skip


def checked(
    images: NDArray[Any], labels: NDArray[Any], n_classes: int, where: str
) -> tuple[Tensor, Tensor]:
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
    """
    if images.dtype != np.uint8:
        raise InputError(
            f"{where}: images must be uint8, 0 to 255, got {images.dtype}; if they are shares of "
            f"1: (255 * images).round().astype(numpy.uint8)"
        )
    if images.ndim == 3 or (images.ndim == 4 and images.shape[-1] == 1):
        last = "images[..., None]" if images.ndim == 3 else "images"
        raise InputError(
            f"{where}: images must be [n, S, S, 3], got grey ones, {list(images.shape)}; make them "
            f"three channels: numpy.repeat({last}, 3, axis=-1)"
        )
    if images.ndim != 4 or images.shape[-1] != 3:
        raise InputError(f"{where}: images must be [n, S, S, 3], got {list(images.shape)}")
    if images.shape[1] != images.shape[2]:
        raise InputError(
            f"{where}: images must be square, got {images.shape[1]}×{images.shape[2]} pixels; crop "
            f"or pad them"
        )
    if not len(images):
        raise InputError(f"{where}: there are no images")
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
