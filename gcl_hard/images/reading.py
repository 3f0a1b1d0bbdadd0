"""Image sets as arrays, out of scikit-learn, NAME.npz files and torchvision's folders."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile

from gcl_hard.errors import InputError
from gcl_hard.images.checks import Images, Labels, check_splits

Arrays = dict[str, tuple[Images, Labels]]
"""By split; as they are in the files, to be checked."""

DIGIT_LEVELS = 16  # grey levels of scikit-learn's digits above 0
SPLIT_SEED, TEST_SHARE = 0, 0.2
PLAIN = ("train", "test")


def digits(splits: Sequence[str] = PLAIN) -> tuple[Arrays, tuple[str, ...]]:
    """Scikit-learn's 1,797 digits of 8×8 pixels, grey tripled, one fixed stratified split."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    check_splits("digits", splits, PLAIN)
    bunch = load_digits()
    grey = np.rint(bunch.images * (255 / DIGIT_LEVELS)).astype(np.uint8)
    images, labels = np.repeat(grey[..., None], 3, axis=-1), bunch.target.astype(np.int64)
    train, test = train_test_split(
        np.arange(len(labels)), test_size=TEST_SHARE, stratify=labels, random_state=SPLIT_SEED
    )
    ids = {"train": np.sort(train), "test": np.sort(test)}
    arrays = {split: (images[ids[split]], labels[ids[split]]) for split in splits}
    return arrays, tuple(map(str, range(10)))


def from_npz(path: Path, name: str, splits: Sequence[str]) -> tuple[Arrays, tuple[str, ...]]:
    """A mirror file: ``SPLIT_images``, ``SPLIT_labels``, and ``class_names`` or none."""
    with _opened(path) as stored:
        if "train_webp" in stored.files:
            raise InputError(
                f"{path} is packed; unpack it with the unpack.py that lies beside it: python "
                f"unpack.py {name.lower().removesuffix('_rest')} OUT (with --full if a "
                f"{name.lower().removesuffix('_rest')}_rest.npz is there: the whole set), then "
                f"--data-dir OUT"
            )
        also = [key.removesuffix("_images") for key in stored.files if key.endswith("_images")]
        if "unlabeled" in also:
            also.append("train+unlabeled")
        check_splits(name, splits, list(dict.fromkeys([*PLAIN, *also])))
        arrays = {split: _npz_split(stored, path, split) for split in splits}
        return arrays, _class_names(stored, path)


@contextmanager
def _opened(path: Path) -> Iterator[NpzFile]:
    with ExitStack() as stack:
        try:  # opened here, for NumPy leaves a file open that it does not accept
            stored = np.load(stack.enter_context(path.open("rb")), allow_pickle=False)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(
                f"{path} is truncated or no .npz file ({error}): copy it anew"
            ) from error
        if not isinstance(stored, NpzFile):
            raise InputError(f"{path} is one array: numpy.savez writes .npz files of named ones")
        yield stack.enter_context(stored)


def _npz_split(stored: NpzFile, path: Path, split: str) -> tuple[Images, Labels]:
    if split == "train+unlabeled":
        parts = [_npz_split(stored, path, part) for part in split.split("+")]
        images, labels = zip(*parts, strict=True)
        if images[0].shape[1:] != images[1].shape[1:]:
            sizes = " and ".join(str(list(part.shape)) for part in images)
            raise InputError(f"{path}: {split} would join images of different size: {sizes}")
        return np.concatenate(images), np.concatenate(labels)
    pixels = _array(stored, path, f"{split}_images")
    if split == "unlabeled":
        return pixels, np.full(len(pixels), -1)
    return pixels, _array(stored, path, f"{split}_labels")


def _class_names(stored: NpzFile, path: Path) -> tuple[str, ...]:
    """Those stored; without any, classes are called by their numbers."""
    if "class_names" in stored.files:
        return tuple(_array(stored, path, "class_names").ravel().astype(str).tolist())
    keys = [key for key in stored.files if key.endswith("_labels")]
    labels = [part for key in keys if (part := _array(stored, path, key)).dtype.kind in "iu"]
    top = max((int(part.max()) for part in labels if part.size), default=-1)
    if top >= (n := sum(part.size for part in labels)) > 0:
        raise InputError(
            f"{path}: there is a label {top}, and only {n} images: number the classes 0, 1, …, or "
            f"add class_names"
        )
    return tuple(map(str, range(top + 1)))


def _array(stored: NpzFile, path: Path, key: str) -> Any:
    if key not in stored.files:
        raise InputError(f"{path} lacks {key}; it has {', '.join(sorted(stored.files))}")
    try:
        return stored[key]
    except ValueError as error:
        raise InputError(
            f"{path}: {key} is no plain array ({error}): save it as numbers, or class names as text"
        ) from error
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} is damaged in {key} ({error}): copy it anew") from error


def from_torchvision(
    path: Path, name: str, splits: Sequence[str]
) -> tuple[Arrays, tuple[str, ...]]:
    """CIFAR and STL10 as torchvision unpacks them."""
    from torchvision import datasets

    kind = getattr(datasets, name)
    check_splits(name, splits, getattr(kind, "splits", PLAIN))
    arrays: Arrays = {}
    names: tuple[str, ...] = ()
    try:
        for split in splits:
            if name == "STL10":
                found = kind(path.parent, split=split)
                arrays[split] = np.moveaxis(found.data, 1, -1), found.labels
            else:
                found = kind(path.parent, train=split == "train")
                arrays[split] = found.data, np.asarray(found.targets)
            names = tuple(found.classes)
    except (RuntimeError, OSError, AttributeError) as error:  # the last: no list of classes
        faults = _faults(path, kind)
        raise InputError(
            f"{path} is incomplete or damaged: {', '.join(faults) or error}; unpack {kind.url} anew"
        ) from error
    return arrays, names


def _faults(path: Path, kind: Any) -> list[str]:
    """The files that torchvision does not accept, and whether they are there."""
    from torchvision.datasets.utils import check_integrity

    listed = [*kind.train_list, *kind.test_list]
    if hasattr(kind, "meta"):
        listed.append((kind.meta["filename"], kind.meta["md5"]))
    else:
        listed.append((kind.class_names_file, None))
    return [
        f"{file} has another checksum" if (path / file).is_file() else f"no {file}"
        for file, md5 in listed
        if not check_integrity(path / file, md5)
    ]
