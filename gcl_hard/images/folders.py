"""Folders of images: ``train/CLASS`` and ``test/CLASS``, or ``CLASS``."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gcl_hard.errors import InputError

NO_PICTURES = {"BUFR", "EPS", "FITS", "FLI", "GRIB", "HDF5", "IPTC", "MPEG", "PDF", "WMF"}
"""Pillow's formats of drawings, films, documents or measurements."""
COMPANIONS = {
    ".txt", ".json", ".xml", ".csv", ".tsv", ".md", ".rst", ".yaml", ".yml", ".html", ".ini",
    ".log", ".db",
}  # fmt: skip
"""Suffixes of labels and notes, which are left out without a warning."""
SYSTEM = {"@eadir", "__macosx", "$recycle.bin", "#recycle", "lost+found"}
"""System folders without data, passed over as those whose names begin with a dot."""
TRAIN, TEST = ("train", "training"), ("test", "testing")
VALIDATION = ("val", "valid", "validation", "dev", "eval")
"""Names of the parts of a split, in any case; validation images are read where none are for
testing."""
WORDS = re.compile(r"[\W\d_]+|(?<=[a-z])(?=[A-Z])")
"""Borders of words, as in train_a, trainA and TestSet."""
SHOWN = 3  # examples in a message
UNLABELLED = -1
"""Label of images without one."""

Listed = list[tuple[Path, int]]
"""Image files with their labels."""
Left = defaultdict[str, list[Path]]
"""Files that are left out, by kind."""


class Listing(NamedTuple):
    """The images of a folder.

    Attributes:
        parts: images of ``train`` and ``test``, or of ``all`` without a split.
        names: names of the classes, by label.
        notes: warnings of files left out.
    """

    parts: dict[str, Listed]
    names: tuple[str, ...]
    notes: tuple[str, ...]


@cache
def openable() -> frozenset[str]:
    """Lower-case suffixes of the images that Pillow and its plugins open."""
    from PIL import Image

    Image.init()
    opened = {*Image.OPEN, "MPO"} - NO_PICTURES  # MPO is opened as JPEG
    return frozenset(end for end, kind in Image.registered_extensions().items() if kind in opened)


def has_classes(path: Path) -> bool:
    """Whether a folder has images in folders."""
    return path.is_dir() and any(map(has_images, _inside(path)[0]))


def has_images(path: Path) -> bool:
    """Whether a folder has images, directly or in its folders."""
    return path.is_dir() and next(_images(path, Left(list)), None) is not None


def list_images(path: Path) -> Listing:
    """The images of a folder with their classes and parts.

    ``train/CLASS/*`` and ``test/CLASS/*`` (or :data:`VALIDATION`), or ``CLASS/*``. Classes may have
    nested folders, as for torchvision's ImageFolder; each is read once, however many links lead to
    it.

    Raises:
        InputError: for another layout, if a class has no images, if a class of the test part is
            none of training, or if a file belongs to two classes; names it.
    """
    left, (folders, _) = Left(list), _inside(path)
    split = _split(folders)
    parts = split or {"all": path}
    top = parts.get("train", path)
    names = [folder.name for folder in _inside(top)[0]]
    _refuse_other_layouts(top, split=bool(split))
    listed = {part: _classes(folder, names, left) for part, folder in parts.items()}
    for folder in dict.fromkeys([path, *parts.values()]):
        left["images outside the folders of classes"] += filter(_is_image, _inside(folder)[1])
    for folder in folders if split else ():
        if folder not in parts.values():
            left[f"images in {folder.name}/"] += (file for file, _ in _images(folder, Left(list)))
    return Listing(listed, tuple(map(shown, names)), _notes(path, left))


def list_unlabelled(path: Path, *, whole: bool) -> Listing:
    """All images below a folder, without classes.

    Args:
        path: the folder; its subfolders are not read as classes.
        whole: whether to read all parts of a split, or only the training part.

    Returns:
        The images as ``train`` if there is such a part, otherwise as ``all``.

    Raises:
        InputError: if there are none; names it.
    """
    left, (folders, _) = Left(list), _inside(path)
    train = _named(folders, TRAIN)
    split = not whole and len(train) == 1 and bool(_named(folders, TEST + VALIDATION))
    part, top = ("train", train[0]) if split else ("all", path)
    files = {real: file for file, real in _images(top, left)}
    listed = [(file, UNLABELLED) for file in files.values()]
    if not listed:
        raise InputError(f"{path} has no images that Pillow opens")
    notes = [f"{path}: only the images in {top.name}/ are read"] * split
    return Listing({part: listed}, (), (*notes, *_notes(path, left)))


def shown(name: str) -> str:
    """A name as text, with non-UTF-8 bytes escaped."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _split(folders: Sequence[Path]) -> dict[str, Path]:
    """The folders of training and test images in classes; empty without a split."""
    train = _named(folders, TRAIN)
    for names in (TEST, VALIDATION):
        test = list(filter(has_classes, _named(folders, names)))
        if len(train + test) > 2 and train and test:
            raise InputError(f"{' and '.join(map(str, train + test))}: keep one of each part")
        if train and test:
            return {"train": train[0], "test": test[0]}
    return {}


def _named(folders: Iterable[Path], names: Sequence[str]) -> list[Path]:
    return [folder for folder in folders if folder.name.casefold() in names]


def _refuse_other_layouts(path: Path, *, split: bool) -> None:
    """Refuse folders that may not be classes but parts of a split, or hold the classes."""
    folders, _ = _inside(path)
    words = [{*map(str.casefold, WORDS.split(folder.name))} for folder in folders]
    parts = [any(parts_of & {*names} for parts_of in words) for names in (TRAIN, TEST + VALIDATION)]
    inside = {
        folder: {inner.name for inner in inner_folders}
        for folder in folders
        for inner_folders, files in [_inside(folder)] if not any(map(_is_image, files))
    }  # fmt: skip
    shared = any(
        names & {other.name, *inside.get(other, ())}
        for folder, names in inside.items() for other in folders if other != folder
    )  # fmt: skip
    if (not split and (all(parts) or shared)) or (len(folders) == 1 and any(inside.values())):
        tree = [f"{f.name}/{min(inside.get(f, ()), default='*')}" for f in folders]
        raise InputError(
            f"{path} has {_examples(tree)}, where images are read from train/CLASS/* and "
            f"test/CLASS/* (or val/CLASS/*), or CLASS/*: name or move its folders so"
        )


def _classes(folder: Path, names: Sequence[str], left: Left) -> Listed:
    """The images of classes with their labels, in order, each file once."""
    listed: dict[str, tuple[Path, int]] = {}
    for class_folder in _inside(folder)[0]:
        if class_folder.name not in names:
            raise InputError(f"{class_folder} is not a class of the training images")
        label, n = names.index(class_folder.name), len(listed)
        for file, real in _images(class_folder, left):
            first, its_label = listed.setdefault(real, (file, label))
            if its_label != label:
                raise InputError(f"{first} and {file} are one file, in two classes: remove a link")
            if first != file:
                left["links to images that are read already"].append(file)
        if len(listed) == n:
            raise InputError(f"{class_folder} has no images: fill or remove it")
    return [*listed.values()]


def _images(top: Path, left: Left) -> Iterator[tuple[Path, str]]:
    """All images below a folder with their resolved paths; each folder is entered once.

    (torchvision's ``make_dataset`` never ends where two links lead to what they lie in, and passes
    over folders that may not be read.)
    """
    entered: set[str] = set()
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        real = os.path.realpath(folder)
        if real in entered:
            left["links to folders that are read already"].append(folder)
            continue
        entered.add(real)
        folders, files = _inside(folder)
        waiting += reversed(folders)
        for file in files:
            if _is_image(file):
                yield (
                    file,
                    os.path.realpath(file) if file.is_symlink() else f"{real}{os.sep}{file.name}",
                )
            elif (end := file.suffix.casefold()) not in COMPANIONS:
                left[f"{end} files" if end else "files without a suffix"].append(file)


def _inside(path: Path) -> tuple[list[Path], list[Path]]:
    """The folders and the files in a folder by name, but for hidden ones.

    A link to nothing, which may be a lost class, is an OSError.
    """
    folders, files = list[Path](), list[Path]()
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if not entry.name.startswith(".") and entry.name.casefold() not in SYSTEM:
                if entry.is_symlink():
                    entry.stat()
                (folders if entry.is_dir() else files).append(Path(entry.path))
    return folders, files


def _is_image(file: Path) -> bool:
    """Whether a file is an image by its suffix, or without one by its content."""
    if file.suffix:
        return file.suffix.casefold() in openable()
    from PIL import Image

    try:
        with Image.open(file):
            return True
    except Exception:  # decoders raise anything
        return False


def _notes(path: Path, left: Left) -> tuple[str, ...]:
    """Notes on files left out, one line per kind."""
    return tuple(
        f"{path}: left out: {len(files)} {kind}: {_examples(map(str, files))}"
        for kind, files in left.items() if files
    )  # fmt: skip


def _examples(names: Iterable[str]) -> str:
    listed = [*names]
    return ", ".join(listed[:SHOWN]) + ", …" * (len(listed) > SHOWN)
