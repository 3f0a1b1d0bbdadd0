"""Folders of images: recognition of splits, classes and image files."""

from __future__ import annotations

import csv
import mimetypes
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gcl_hard.errors import InputError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
"""Usual suffixes, for messages; :func:`openable` has all."""
BY_CONTENT = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP", "AVIF")
"""Formats recognised in files without a suffix."""
NO_PICTURES = {"BUFR", "EPS", "FITS", "FLI", "GRIB", "HDF5", "IPTC", "MPEG", "PDF", "WMF"}
"""Pillow's formats of drawings, films, documents or measurements."""
COMPANIONS = {
    ".txt", ".json", ".xml", ".csv", ".tsv", ".md", ".rst", ".yaml", ".yml", ".html", ".ini", ".log"
}  # fmt: skip
"""Suffixes of labels and notes, which are left out without a warning."""
COMPANION_NAMES = {"thumbs.db", "desktop.ini", "readme", "license", "makefile"}
THUMBNAILS = {"@eadir", "__macosx", "$recycle.bin", "#recycle", "lost+found"}
"""System folders without data."""
PARTS = {
    "train": "train", "training": "train", "trn": "train", "trainval": "train",
    "test": "test", "testing": "test", "tst": "test",
    "val": "val", "valid": "val", "validation": "val", "dev": "val", "eval": "val",
    "evaluation": "val",
    "unlabeled": "other", "unlabelled": "other", "extra": "other", "holdout": "other",
    "pred": "other", "predict": "other", "prediction": "other",
}  # fmt: skip
"""Parts of a split by folder name."""
FILLERS = {"set", "data", "dataset", "image", "images", "imgs", "split", "folder"}
GLUED = re.compile("(.+?)(?:sets?|data|images|imgs)")
BORDERS = re.compile(r"[\W\d_]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Word boundaries in a name, such as trainA, train_a, or ATrain."""
NAMED = 3  # examples in a message
UNLABELLED = -1
"""Label of images without one."""

Listed = list[tuple[Path, int]]
"""Image files with their labels."""


class Listing(NamedTuple):
    """The images of a folder.

    Attributes:
        parts: images of ``train`` and ``test``, or of ``all`` without a split.
        names: names of the classes, by label.
        notes: warnings of files left out and ambiguities.
    """

    parts: dict[str, Listed]
    names: tuple[str, ...]
    notes: tuple[str, ...]


def openable() -> frozenset[str]:
    """Lower-case suffixes of the images that Pillow and its plugins open."""
    from PIL import Image

    Image.init()
    opened = {*Image.OPEN, "MPO"} - NO_PICTURES  # MPO is opened as JPEG
    return frozenset(s for s, kind in Image.registered_extensions().items() if kind in opened)


def has_classes(path: Path) -> bool:
    """Whether a folder has images in class folders."""
    if not path.is_dir():
        return False
    walk = _Walk(path)
    return any(True for folder in walk.inside(path).folders for _ in walk.images(folder))


def has_images(path: Path) -> bool:
    """Whether a folder has images, directly or in subfolders."""
    return path.is_dir() and any(True for _ in _Walk(path).images(path))


def list_images(path: Path) -> Listing:
    """The images of a folder with their classes and parts.

    ``train/CLASS/*`` and ``test/CLASS/*`` (or ``val``), under these or other usual names, or
    ``CLASS/*``. Classes may have nested folders, as for torchvision's ImageFolder; each is read
    once, however many links lead to it. A split may be inside a single enclosing folder.

    Raises:
        InputError: if the folders are ambiguous, if a class or the test part has no images, if a
            file belongs to two classes, or if something cannot be read; names it.
    """
    walk = _Walk(path)
    folder, split = _find_split(walk)
    if split:
        names, parts = _split_images(walk, folder, split)
    else:
        _refuse_wrapper(walk, path)
        _refuse_hidden_split(walk, path)
        walk.note_direct(path)
        names = [child.name for child in walk.inside(path).folders]
        parts = {"all": walk.classes(path, names)}
    parts = walk.each_once(parts)
    return Listing(parts, tuple(map(shown, names)), walk.notes())


def list_unlabelled(path: Path, *, whole: bool) -> Listing:
    """All images below a folder, without classes.

    Args:
        path: the folder; its subfolders are not read as classes.
        whole: whether to read all parts of a split, or only the training part.

    Returns:
        The images as ``train`` if there is such a part, otherwise as ``all``.

    Raises:
        InputError: if there are none, or something cannot be read; names it.
    """
    walk = _Walk(path)
    split = {} if whole else _find_split(walk)[1]
    part, top = ("train", split["train"][0]) if split else ("all", path)
    listed = walk.each_once({part: [(file, UNLABELLED) for file in walk.images(top)]})
    if not listed[part]:
        raise InputError(
            f"{path} has no images (images are {', '.join(SUFFIXES)} and others that Pillow opens)"
        )
    notes = [f"{path}: only the images in {top.name}/ are read"] if split else []
    return Listing(listed, (), (*notes, *walk.notes()))


def read_labels(path: Path, files: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
    """Labels of images in a folder, from a CSV file.

    Args:
        path: the file, with a header: ``file`` and ``label``, or any two columns in this order. An
            image is named by its path in the folder, or by its file name alone if unique; an empty
            label means none.
        files: paths of the images in the folder.

    Returns:
        The label of each image, −1 without one, and the sorted class names.

    Raises:
        InputError: for a file that cannot be read, has other columns, names an unknown or ambiguous
            image, or gives an image two labels; names it.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as text:
            lines = csv.reader(text)
            read = [(lines.line_num, row) for row in lines if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        ) from error
    rows, numbers = [row for _, row in read], [number for number, _ in read]
    header = [column.strip().casefold() for column in rows[0]] if rows else []
    names = {name for file in files for name in (file, file.rpartition("/")[2])}
    if rows and rows[0][0].strip() in names:
        raise InputError(f"{path} begins with an image, {rows[0][0]}: give it a header file,label")
    if repeated := [column for column in ("file", "label") if header.count(column) > 1]:
        raise InputError(f"{path} has two columns {repeated[0]}: rename one")
    if {"file", "label"} <= {*header}:
        columns = header.index("file"), header.index("label")
    elif len(header) == 2:
        columns = 0, 1
    else:
        raise InputError(
            f"{path} needs columns file and label, and has {', '.join(header) or 'none'}"
        )
    places = {file: [i] for i, file in enumerate(files)}
    for i, file in enumerate(files):
        if "/" in file:
            places.setdefault(file.rpartition("/")[2], []).append(i)
    label_of: dict[int, str] = {}
    for number, row in zip(numbers[1:], rows[1:], strict=True):
        if len(row) != len(header):
            raise InputError(f"{path}, line {number}: {len(row)} columns, expected {len(header)}")
        name, label = row[columns[0]].strip(), row[columns[1]].strip()
        matches = places.get(name, [])
        if len(matches) != 1:
            several = " and ".join(files[i] for i in matches[:2])
            raise InputError(
                f"{path}, line {number}: {name} is "
                + (f"both {several}: give its path" if matches else "not among the images")
            )
        if label_of.setdefault(matches[0], label) != label:
            raise InputError(
                f"{path}, line {number}: {name} is {label or 'without label'}, but "
                f"{label_of[matches[0]] or 'without label'} above"
            )
    classes = tuple(sorted({label for label in label_of.values() if label}))
    number_of = {name: k for k, name in enumerate(classes)}
    return [number_of.get(label_of.get(i, ""), UNLABELLED) for i in range(len(files))], classes


def shown(name: str) -> str:
    """A name as text, with non-UTF-8 bytes escaped."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _examples(paths: Iterable[Path]) -> str:
    shown = [*map(str, paths)]
    return ", ".join(shown[:NAMED]) + ", …" * (len(shown) > NAMED)


# Parts of a split


def _find_split(walk: _Walk) -> tuple[Path, dict[str, list[Path]]]:
    """The folder with the parts of a split, and the parts; empty without a split."""
    folder = walk.path
    inside = walk.inside(folder)
    while not (split := _split(inside.folders)) and len(inside.folders) == 1 and not inside.images:
        folder = inside.folders[0]
        inside = walk.inside(folder)
    return folder, split


def _part(folder: Path) -> tuple[str, tuple[str, ...]] | None:
    """The part of a split in a folder's name, and the remaining words; None for a class.

    ``seg_train`` is the training part of ``seg``; ``training_set`` has no remaining words.
    """
    words = [w for w in map(str.casefold, BORDERS.split(folder.name)) if w and w not in FILLERS]
    for at in (-1, 0) if words else ():
        glued = GLUED.fullmatch(words[at])
        part = PARTS.get(words[at]) or (glued and PARTS.get(glued[1]))
        if part:
            return part, tuple(words[:-1] if at else words[1:])
    return None


def _is_part(folder: Path, *parts: str) -> bool:
    return _part(folder) in [(part, ()) for part in parts]


def _split(folders: Iterable[Path]) -> dict[str, list[Path]]:
    """Folders by part that form a split with training and test images; {} without one.

    A single part is no split: ``train`` may be a class beside ``plane`` and ``car``.

    Raises:
        InputError: for two candidates of the training part.
    """
    by_prefix: dict[tuple[str, ...], dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for folder in folders:
        if part := _part(folder):
            same = by_prefix[part[1]][part[0]]
            if not any(
                known.samefile(folder) for known in same
            ):  # training/ may be a link to train/
                same.append(folder)
    complete = [
        parts
        for parts in by_prefix.values()
        if "train" in parts and ("test" in parts or "val" in parts)
    ]
    training = [folder for parts in complete for folder in parts["train"]]
    if len(training) > 1:
        raise InputError(
            f"{_examples(training)}: each might be the training images; keep one of them beside "
            f"the test images; if they belong to classes, put them into train/CLASS/ and "
            f"test/CLASS/; if they are classes, rename them"
        )
    return complete[0] if complete else {}


def _split_images(
    walk: _Walk, top: Path, split: dict[str, list[Path]]
) -> tuple[list[str], dict[str, Listed]]:
    """The classes and images of a split."""
    (train,) = split["train"]
    offered = [*split.get("test", ()), *split.get("val", ())]
    within = _unwrapped(walk, train)
    names = [folder.name for folder in walk.inside(within).folders]
    if not names:
        raise InputError(
            f"{train} and {offered[0]}, as parts of a split, need class folders, such as "
            f"{train.name}/CLASS/*; if they are classes themselves, put them into {top}/train/ and "
            f"{top}/test/, or rename them"
        )
    _refuse_wrapper(walk, within)
    tests = [folder for folder in offered if has_classes(_unwrapped(walk, folder))]
    if not tests:
        raise InputError(
            f"there are no test images in {top}/test/CLASS/ (or val/CLASS/; without train/, a "
            f"fifth "
            f"of the images in CLASS/ become the test images)"
        )
    test = tests[0]
    same = [folder for folder in tests if _part(folder) == _part(test)]
    if len(same) > 1:
        raise InputError(
            f"{_examples(same)}: each might be the test images; keep one of them in {top}"
        )
    parts = {"train": within, "test": _unwrapped(walk, test)}
    for folder in dict.fromkeys((top, train, test, *parts.values())):
        walk.note_direct(folder)
    listed = {part: walk.classes(folder, names) for part, folder in parts.items()}
    others = [folder for folder in walk.inside(top).folders if folder not in (train, test)]
    read = {walk.real(file) for part in listed.values() for file, _ in part} if others else set()
    for folder in others:
        inner = _Walk(folder)
        if extra := {inner.real(file) for file in inner.images(folder)} - read:
            walk.left[f"images outside {train.name}/ and {test.name}/"][folder] = len(extra)
            read |= extra
    return names, listed


def _unwrapped(walk: _Walk, part: Path) -> Path:
    """The folder with a part's classes, such as ``seg_train/seg_train`` for ``seg_train``."""
    inside = walk.inside(part)
    while len(inside.folders) == 1 and not inside.images:
        (only,) = inside.folders
        inside = walk.inside(only)
        if _part(only) != _part(part) or not inside.folders:
            break
        part = only
    return part


def _refuse_wrapper(walk: _Walk, path: Path) -> None:
    """Refuse a single nested folder: one class with subfolders, or wrapped classes."""
    lone, inside = path, walk.inside(path)
    while len(inside.folders) == 1 and not inside.images:
        (lone,) = inside.folders
        inside = walk.inside(lone)
    if lone == path or len(inside.folders) < 2 or inside.images:
        return
    remedy = f"move them into {path}"
    if (part := _part(lone)) and part[0] == "train":
        remedy = f"put test images into {path}/test/CLASS/"
    elif path == walk.path:
        remedy += f", or name {lone} as the set"
    raise InputError(
        f"{path} has only {lone.relative_to(path)}/, with subfolders "
        f"{_examples(Path(folder.name) for folder in inside.folders)}: if these are the classes, "
        f"{remedy}; if {lone.name} is the only class, move its images into it directly"
    )


def _refuse_hidden_split(walk: _Walk, path: Path) -> None:
    """Refuse folders that may be classes or parts of a split."""
    folders = walk.inside(path).folders
    inner = {folder: {part.name for part in walk.inside(folder).folders} for folder in folders}
    flat = {folder for folder in folders if walk.inside(folder).images}
    for folder in folders:
        if split := _split(walk.inside(folder).folders):
            ((train, *_), (test, *_)) = split["train"], split.get("test") or split["val"]
            raise InputError(
                f"{folder} has {train.name}/ and {test.name}/: if it is a class, put its images "
                f"into {path}/train/{folder.name}/ and {path}/test/{folder.name}/; if it is the "
                f"set, "
                f"name it as the set; if they are not parts of a split, rename them"
            )
        if not _is_part(folder, "train", "test", "val") or folder in flat or not inner[folder]:
            continue
        for other in folders:
            shared = inner[folder] & {*inner[other], other.name}
            if other != folder and (shared or _is_part(other, *PARTS.values())):
                raise InputError(
                    f"{folder} and {other} may be parts of a split without {path}/train/CLASS/ or "
                    f"without {path}/test/CLASS/ (or val/), or classes: name them train and "
                    f"test, or rename {folder.name}"
                )
    shared = set.intersection(*inner.values()) if len(folders) > 1 else set()
    if len(shared) > 1 and not flat:
        walk.doubts.append(
            f"{path}: {_examples(folders)} are read as classes, but have the same subfolders, "
            f"{_examples(map(Path, sorted(shared)))}: if they are parts of a split, name them "
            f"train "
            f"and test"
        )


class _Inside(NamedTuple):
    """Direct contents of a folder: subfolders, images, hidden images, other files."""

    folders: list[Path]
    images: list[Path]
    hidden: list[Path]
    others: list[Path]


class _Walk:
    """Lists the images of classes, and records what is left out.

    Args:
        path: folder of the set.
        by_content: whether files without a suffix are recognised by content.

    Attributes:
        left: numbers of files left out, by kind and path.
        doubts: other notes.
    """

    def __init__(self, path: Path, *, by_content: bool = True) -> None:
        self.path = path
        self.left: dict[str, Counter[Path]] = defaultdict(Counter)
        self.doubts: list[str] = []
        self._by_content = by_content
        self._suffixes = openable()
        self._scanned: dict[Path, _Inside] = {}
        self._real: dict[Path, str] = {}  # resolved paths of folders
        self._links = False

    def inside(self, folder: Path) -> _Inside:
        """Direct contents of a folder, sorted by name.

        Raises:
            InputError: if it cannot be read, or has a broken link.
        """
        if folder not in self._scanned:
            try:
                with os.scandir(folder) as entries:
                    ordered = sorted(entries, key=lambda entry: entry.name)
                self._scanned[folder] = self._sorted(ordered)
            except OSError as error:
                raise InputError(f"cannot read {error.filename}: {error.strerror}") from error
        return self._scanned[folder]

    def _sorted(self, entries: Iterable[os.DirEntry[str]]) -> _Inside:
        inside = _Inside([], [], [], [])
        for entry in entries:
            path, name = Path(entry.path), entry.name.casefold()
            picture = path.suffix.casefold() in self._suffixes
            if name.startswith("._"):  # companion files of macOS
                continue
            if name.startswith(".") or name in THUMBNAILS:
                if picture or path.is_dir():
                    inside.hidden.append(path)
            elif entry.is_dir():
                inside.folders.append(path)
            elif entry.is_symlink() and not picture and not path.exists():
                if not _is_other_file(path):
                    raise InputError(f"{path} is a link to {path.readlink()}, which does not exist")
                self.left["links to nothing (not images by their names)"][path] = 1
            elif self._is_image(entry, path, picture=picture):
                inside.images.append(path)
            elif not _is_companion(path):
                inside.others.append(path)
        return inside

    def _is_image(self, entry: os.DirEntry[str], path: Path, *, picture: bool) -> bool:
        """Whether a file is an image. A broken link counts as one; reading it is an error."""
        if picture:
            return entry.is_file() or entry.is_symlink()
        return self._by_content and not path.suffix and entry.is_file() and _opens(path)

    def note_direct(self, folder: Path) -> None:
        """Record images beside the class folders, and hidden ones."""
        inside = self.inside(folder)
        self.left["images outside the folders of classes"].update(inside.images)
        self._note_hidden(inside)

    def _note_hidden(self, inside: _Inside) -> None:
        for path in inside.hidden:
            with suppress(InputError):  # lost+found is often not readable
                n = _count(path, by_content=False) if path.is_dir() else 1
                self.left["hidden images or thumbnails"][path] = n

    def classes(self, folder: Path, names: Sequence[str]) -> Listed:
        """The images of classes with their labels, in order.

        Raises:
            InputError: for an unknown or an empty class.
        """
        label_of = {name: label for label, name in enumerate(names)}
        listed: Listed = []
        for class_folder in self.inside(folder).folders:
            if class_folder.name not in label_of:
                raise InputError(f"{class_folder} is not a class of the training images")
            n = len(listed)
            listed += [(file, label_of[class_folder.name]) for file in self.images(class_folder)]
            if len(listed) == n:
                raise InputError(
                    f"{class_folder} has no images: each folder beside it is a class, so fill or "
                    f"remove it (images are {', '.join(SUFFIXES)} and others that Pillow opens)"
                )
        return listed

    def images(self, top: Path) -> Iterator[Path]:
        """All images below a folder, in the order of torchvision's ImageFolder.

        Each folder is entered once, and none above it.
        """
        root = os.path.realpath(self.path)
        above = (os.path.realpath(top.parent), *[root] * (top != self.path))
        waiting = [(top, str(Path(root, top.relative_to(self.path))), above)]
        entered = set()
        while waiting:
            folder, expected, above = waiting.pop()
            real = os.path.realpath(folder)
            self._links |= real != expected
            if real in entered or any(Path(child).is_relative_to(real) for child in above):
                self.left["links to folders that are read already"][folder] = 1
                continue
            entered.add(real)
            self._real[folder] = real
            inside = self.inside(folder)
            for file in inside.others:
                suffix = file.suffix.casefold()
                kind = f"{suffix} files" if suffix else "files without a suffix"
                self.left[f"{kind} (not read as images)"][file] = 1
            self._note_hidden(inside)
            yield from inside.images
            waiting += [
                (child, str(Path(real, child.name)), (*above, real))
                for child in inside.folders[::-1]
            ]

    def real(self, file: Path) -> str:
        """The resolved path of a listed image."""
        path = Path(self._real[file.parent], file.name)
        return os.path.realpath(path) if file.is_symlink() else str(path)

    def each_once(self, parts: dict[str, Listed]) -> dict[str, Listed]:
        """The images without duplicates by links.

        Raises:
            InputError: if a file belongs to two classes; names both.
        """
        files = (file for listed in parts.values() for file, _ in listed)
        if not self._links and not any(file.is_symlink() for file in files):
            return parts
        kept: dict[str, Listed] = {part: [] for part in parts}
        met: dict[str, dict[str, tuple[Path, int]]] = defaultdict(dict)
        for part, listed in parts.items():
            for file, label in listed:
                first, its_label = met[self.real(file)].setdefault(part, (file, label))
                if its_label != label:
                    raise InputError(
                        f"{first} and {file} are one file, in two classes: remove a link"
                    )
                if first == file:
                    kept[part].append((file, label))
                else:
                    self.left["links to images that are read already"][file] = 1
        leaked = [[*copies.values()] for copies in met.values() if len(copies) > 1]
        if leaked:
            self.doubts.append(
                f"{self.path}: {len(leaked)} files are both training and test images, such as "
                f"{' and '.join(str(file) for file, _ in leaked[0])}"
            )
        return kept

    def notes(self) -> tuple[str, ...]:
        """Notes on files left out, one line per reason."""
        return (*self.doubts, *(
            f"{self.path}: left out: {n} {kind}: {_examples(paths)}"
            for kind, paths in self.left.items() if (n := paths.total())
        ))  # fmt: skip


def _is_companion(path: Path) -> bool:
    return path.suffix.casefold() in COMPANIONS or path.name.casefold() in COMPANION_NAMES


def _is_other_file(link: Path) -> bool:
    """Whether a broken link led to a file other than an image, by its name or its target's.

    Other links may be a lost class or image.
    """
    named = link if link.suffix or _is_companion(link) else link.readlink()
    if named.suffix.casefold() in openable():
        return False
    return _is_companion(named) or mimetypes.guess_type(named.name)[0] is not None


def _opens(path: Path) -> bool:
    """Whether a file is an image by its content."""
    from PIL import Image

    try:
        with Image.open(path, formats=[kind for kind in BY_CONTENT if kind in Image.OPEN]):
            return True
    except Exception:  # decoders raise anything
        return False


def _count(folder: Path, *, by_content: bool = True) -> int:
    """Number of images below a folder."""
    return sum(1 for _ in _Walk(folder, by_content=by_content).images(folder))
