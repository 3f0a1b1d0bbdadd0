"""TinyImageNet as its publisher packs it: 110,000 JPEG files, decoded once."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from gcl_hard.errors import InputError
from gcl_hard.images.checks import Images, Labels, check_splits
from gcl_hard.images.reading import PLAIN, Arrays, from_npz
from gcl_hard.io import atomic_write

NAME = "TinyImageNet"
Listed = list[tuple[Path, int]]
"""Files with their labels."""


def from_folders(path: Path, splits: Sequence[str], cache: Path) -> tuple[Arrays, tuple[str, ...]]:
    """``train`` by class, and ``val`` with its list as our test split.

    What was decoded is kept in the cache under a name made of the folder's place and age, so that
    a copy elsewhere, or a changed one, is never taken for it.
    """
    check_splits(NAME, splits, PLAIN)
    kept = cache / f"{NAME}-{_mark(path)}.npz"
    if kept.is_file():
        return from_npz(kept, NAME, splits)
    names = tuple(sorted(_text(path / "wnids.txt").split()))
    listed = {"train": _by_class, "test": _annotated}
    arrays = {split: _decoded(listed[split](path, names), split) for split in splits}
    if set(arrays) == set(PLAIN):
        stored: dict[str, Any] = {f"{split}_images": arrays[split][0] for split in PLAIN}
        stored |= {f"{split}_labels": arrays[split][1] for split in PLAIN}
        with suppress(InputError), atomic_write(kept) as file:  # no room: decode next time too
            np.savez(file, class_names=np.array(names), **stored)
    return arrays, names


def _mark(path: Path) -> str:
    files = [path / "wnids.txt", path / "train", path / "val" / "val_annotations.txt"]
    ages = [str(file.stat().st_mtime_ns) if file.exists() else "" for file in files]
    return hashlib.sha256("\n".join([str(path.resolve()), *ages]).encode()).hexdigest()[:12]


def _text(file: Path) -> str:
    if not file.is_file():
        raise InputError(f"there is no {file}: unpack {NAME} anew")
    return file.read_text(encoding="utf-8", errors="replace")


def _by_class(path: Path, names: Sequence[str]) -> Listed:
    """The training images with their classes."""
    listed: Listed = []
    for label, wnid in enumerate(names):
        folder = path / "train" / wnid / "images"
        files = sorted(folder.glob("*.JPEG"))
        if not files:
            raise InputError(f"no *.JPEG images in {folder}: unpack {NAME} anew")
        listed += [(file, label) for file in files]
    return listed


def _annotated(path: Path, names: Sequence[str]) -> Listed:
    """The validation images with their classes."""
    file = path / "val" / "val_annotations.txt"
    label_of = {wnid: label for label, wnid in enumerate(names)}
    listed: Listed = []
    for number, line in enumerate(_text(file).splitlines(), start=1):
        words = line.split("\t")
        if len(words) < 2 or words[1] not in label_of:
            raise InputError(
                f"{file}, line {number}: expected a file name, a tab and one of the "
                f"{len(names)} classes of wnids.txt, got {line[:60]!r}"
            )
        listed.append((file.parent / "images" / words[0], label_of[words[1]]))
    return listed


def _decoded(listed: Listed, split: str) -> tuple[Images, Labels]:
    """Images of files, grey ones as RGB; with a bar on a terminal, for there are many."""
    from PIL import Image
    from tqdm import tqdm

    shown: Iterable[tuple[Path, int]] = tqdm(
        listed, desc=f"reading {NAME} {split}", unit="image", disable=not sys.stderr.isatty()
    )
    images = np.empty((0, 0, 0, 3), np.uint8)
    for place, (file, _) in enumerate(shown):
        try:
            with Image.open(file) as image:
                pixels = np.asarray(image.convert("RGB"))
        except OSError as error:
            raise InputError(f"{file} cannot be read as an image ({error})") from error
        if not place:
            images = np.empty((len(listed), *pixels.shape), np.uint8)
        if pixels.shape != images.shape[1:]:
            raise InputError(
                f"{file} is of shape {list(pixels.shape)}, those before it of "
                f"{list(images.shape[1:])}"
            )
        images[place] = pixels
    return images, np.array([label for _, label in listed], np.int64)
