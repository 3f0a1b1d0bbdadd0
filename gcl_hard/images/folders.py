"""Folders of images: which are the parts of a split, which are classes, and which files count."""

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
"""The usual ones, for messages; :func:`openable` has all."""
BY_CONTENT = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP", "AVIF")
"""Formats that a file without a suffix may have."""
NO_PICTURES = {"BUFR", "EPS", "FITS", "FLI", "GRIB", "HDF5", "IPTC", "MPEG", "PDF", "WMF"}
"""Formats of Pillow that are drawings, films, documents or measurements."""
COMPANIONS = {
    ".txt", ".json", ".xml", ".csv", ".tsv", ".md", ".rst", ".yaml", ".yml", ".html", ".ini", ".log"
}  # fmt: skip
"""Suffixes of labels and notes, which need no word where they lie beside images."""
COMPANION_NAMES = {"thumbs.db", "desktop.ini", "readme", "license", "makefile"}
THUMBNAILS = {"@eadir", "__macosx", "$recycle.bin", "#recycle", "lost+found"}
"""Folders in which systems keep what is no data."""
PARTS = {
    "train": "train", "training": "train", "trn": "train", "trainval": "train",
    "test": "test", "testing": "test", "tst": "test",
    "val": "val", "valid": "val", "validation": "val", "dev": "val", "eval": "val",
    "evaluation": "val",
    "unlabeled": "other", "unlabelled": "other", "extra": "other", "holdout": "other",
    "pred": "other", "predict": "other", "prediction": "other",
}  # fmt: skip
"""Parts of a split by the words that name their folders."""
FILLERS = {"set", "data", "dataset", "image", "images", "imgs", "split", "folder"}
GLUED = re.compile("(.+?)(?:sets?|data|images|imgs)")
BORDERS = re.compile(r"[\W\d_]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""What lies between the words of a name, such as trainA, train_a, or ATrain."""
NAMED = 3  # examples in a message
UNLABELLED = -1
"""Label of images without one."""

Listed = list[tuple[Path, int]]
"""Image files with their labels."""


class Listing(NamedTuple):
    """The images of a folder.

    Attributes:
        parts: images of ``train`` and ``test``, or of ``all`` where there is no split.
        names: names of the classes, by label.
        notes: what is left out or uncertain, for warnings.
    """

    parts: dict[str, Listed]
    names: tuple[str, ...]
    notes: tuple[str, ...]


def openable() -> frozenset[str]:
    """Suffixes, in lower case, of the pictures that Pillow opens, with its plugins."""
    from PIL import Image

    Image.init()
    opened = {*Image.OPEN, "MPO"} - NO_PICTURES  # MPO is opened as JPEG
    return frozenset(s for s, kind in Image.registered_extensions().items() if kind in opened)


def has_classes(path: Path) -> bool:
    """Whether a folder holds images in the folders of classes."""
    if not path.is_dir():
        return False
    walk = _Walk(path)
    return any(True for one in walk.inside(path).folders for _ in walk.images(one))


def has_images(path: Path) -> bool:
    """Whether a folder holds images, directly or in other folders."""
    return path.is_dir() and any(True for _ in _Walk(path).images(path))


def list_images(path: Path) -> Listing:
    """The images of a folder with their classes and parts.

    ``train/CLASS/*`` and ``test/CLASS/*`` (or ``val``), under these or other usual names, or
    ``CLASS/*``. Below a class folders may be nested, as for torchvision's ImageFolder; each is read
    once, however many links lead to it. A split may lie in a folder that is the only one.

    Raises:
        InputError: if the folders can be understood in two ways, if a folder of a class or of the
            test images has no images, if a file would belong to two classes, or if something cannot
            be read; names it.
    """
    walk = _Walk(path)
    folder, split = _find_split(walk)
    if split:
        names, parts = _of_split(walk, folder, split)
    else:
        _refuse_wrapper(walk, path)
        _refuse_hidden_split(walk, path)
        walk.note_direct(path)
        names = [one.name for one in walk.inside(path).folders]
        parts = {"all": walk.classes(path, names)}
    parts = walk.each_once(parts)
    return Listing(parts, tuple(map(shown, names)), walk.notes())


def list_unlabelled(path: Path, *, whole: bool) -> Listing:
    """The images anywhere below a folder as of no class.

    Args:
        path: the folder; its folders are not read as classes.
        whole: whether all parts of a split are read, or its training part alone.

    Returns:
        The images under ``train`` if there is such a part, and else under ``all``.

    Raises:
        InputError: if there are none, or something cannot be read; names it.
    """
    walk = _Walk(path)
    split = {} if whole else _find_split(walk)[1]
    part, top = ("train", split["train"][0]) if split else ("all", path)
    listed = walk.each_once({part: [(file, UNLABELLED) for file in walk.images(top)]})
    if not listed[part]:
        raise InputError(
            f"{path} holds no images (images are {', '.join(SUFFIXES)} and others that Pillow "
            f"opens)"
        )
    notes = [f"{path}: of its parts, the images in {top.name}/ alone"] if split else []
    return Listing(listed, (), (*notes, *walk.notes()))


def read_labels(path: Path, files: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
    """Classes of some images of a folder, from a CSV file.

    Args:
        path: the file, with a line of column names: ``file`` and ``label``, or the only two that
            it has, in this order. A file is named by its path in the folder, or by its name alone
            where no other has it; without a label it has none.
        files: paths of the images in the folder.

    Returns:
        The label of each image, −1 without one, and the names of the classes, sorted.

    Raises:
        InputError: for a file that cannot be read, has other columns, names an image that is not
            there or two of them, or gives one two labels; names it.
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
    header = [one.strip().casefold() for one in rows[0]] if rows else []
    names = {name for one in files for name in (one, one.rpartition("/")[2])}
    if rows and rows[0][0].strip() in names:
        raise InputError(
            f"{path} begins with an image, {rows[0][0]}: give it a line file,label first"
        )
    if twice := [one for one in ("file", "label") if header.count(one) > 1]:
        raise InputError(f"{path} has two columns {twice[0]}: rename one")
    if {"file", "label"} <= {*header}:
        at = header.index("file"), header.index("label")
    elif len(header) == 2:
        at = 0, 1
    else:
        raise InputError(
            f"{path} needs columns file and label, and has {', '.join(header) or 'none'}"
        )
    places = {one: [i] for i, one in enumerate(files)}
    for i, one in enumerate(files):
        if "/" in one:
            places.setdefault(one.rpartition("/")[2], []).append(i)
    said: dict[int, str] = {}
    for number, row in zip(numbers[1:], rows[1:], strict=True):
        if len(row) != len(header):
            raise InputError(f"{path}, line {number}: {len(row)} columns, expected {len(header)}")
        name, label = row[at[0]].strip(), row[at[1]].strip()
        found = places.get(name, [])
        if len(found) != 1:
            several = " and ".join(files[i] for i in found[:2])
            raise InputError(
                f"{path}, line {number}: {name} is "
                + (f"both {several}: give its path" if found else "not among the images")
            )
        if said.setdefault(found[0], label) != label:
            raise InputError(
                f"{path}, line {number}: {name} is {label or 'of no label'}, and "
                f"{said[found[0]] or 'of no label'} above"
            )
    classes = tuple(sorted({label for label in said.values() if label}))
    number_of = {name: k for k, name in enumerate(classes)}
    return [number_of.get(said.get(i, ""), UNLABELLED) for i in range(len(files))], classes


def shown(name: str) -> str:
    """A name as text: bytes of it that are no UTF-8 are written as numbers."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _some(paths: Iterable[Path]) -> str:
    shown = [*map(str, paths)]
    return ", ".join(shown[:NAMED]) + ", …" * (len(shown) > NAMED)


# Parts of a split


def _find_split(walk: _Walk) -> tuple[Path, dict[str, list[Path]]]:
    """The folder that holds the parts of a split, and these; none if there is no split."""
    folder = walk.path
    inside = walk.inside(folder)
    while not (split := _split(inside.folders)) and len(inside.folders) == 1 and not inside.images:
        folder = inside.folders[0]
        inside = walk.inside(folder)
    return folder, split


def _part(folder: Path) -> tuple[str, tuple[str, ...]] | None:
    """The part of a split that a folder's name says, and what else it says; None for a class.

    ``seg_train`` is the training part of ``seg``, ``training_set`` that of nothing named.
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
    """Folders that are the training and test parts of one thing, by part; {} for none.

    One alone is no split: ``train`` may be a class beside ``plane`` and ``car``.

    Raises:
        InputError: for two that may be the training part.
    """
    of_thing: dict[tuple[str, ...], dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for folder in folders:
        if found := _part(folder):
            same = of_thing[found[1]][found[0]]
            if not any(one.samefile(folder) for one in same):  # training/ may be a link to train/
                same.append(folder)
    complete = [of for of in of_thing.values() if "train" in of and ("test" in of or "val" in of)]
    training = [folder for of in complete for folder in of["train"]]
    if len(training) > 1:
        raise InputError(
            f"{_some(training)}: each may be the training images; keep one of them beside the "
            f"test images; if they belong to classes, put them into train/CLASS/ and test/CLASS/, "
            f"and if they are classes, give them other names"
        )
    return complete[0] if complete else {}


def _of_split(
    walk: _Walk, top: Path, split: dict[str, list[Path]]
) -> tuple[list[str], dict[str, Listed]]:
    """The classes and images of a split."""
    (train,) = split["train"]
    offered = [*split.get("test", ()), *split.get("val", ())]
    within = _unwrapped(walk, train)
    names = [folder.name for folder in walk.inside(within).folders]
    if not names:
        raise InputError(
            f"{train} and {offered[0]}, as parts of a split, need folders of classes, such as "
            f"{train.name}/CLASS/*; if they are classes themselves, put them into {top}/train/ and "
            f"{top}/test/, or give them other names"
        )
    _refuse_wrapper(walk, within)
    tests = [folder for folder in offered if has_classes(_unwrapped(walk, folder))]
    if not tests:
        raise InputError(
            f"there are no images in {top}/test/CLASS/, where the test images should be (or in "
            f"val/; without train/, a fifth of the images in CLASS/ becomes the test images)"
        )
    test = tests[0]
    same = [folder for folder in tests if _part(folder) == _part(test)]
    if len(same) > 1:
        raise InputError(f"{_some(same)}: each may be the test images; keep one of them in {top}")
    parts = {"train": within, "test": _unwrapped(walk, test)}
    for folder in dict.fromkeys((top, train, test, *parts.values())):
        walk.note_direct(folder)
    listed = {part: walk.classes(folder, names) for part, folder in parts.items()}
    others = [folder for folder in walk.inside(top).folders if folder not in (train, test)]
    read = {walk.real(file) for part in listed.values() for file, _ in part} if others else set()
    for folder in others:
        there = _Walk(folder)
        if found := {there.real(file) for file in there.images(folder)} - read:
            walk.left[f"images outside {train.name}/ and {test.name}/"][folder] = len(found)
            read |= found
    return names, listed


def _unwrapped(walk: _Walk, part: Path) -> Path:
    """The folder with the classes of a part: ``seg_train/seg_train`` for ``seg_train``."""
    inside = walk.inside(part)
    while len(inside.folders) == 1 and not inside.images:
        (only,) = inside.folders
        inside = walk.inside(only)
        if _part(only) != _part(part) or not inside.folders:
            break
        part = only
    return part


def _refuse_wrapper(walk: _Walk, path: Path) -> None:
    """Refuse what may be one class with folders of its own, or classes in a folder too many."""
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
        f"{path} holds only {lone.relative_to(path)}/, with folders of its own, "
        f"{_some(Path(one.name) for one in inside.folders)}: if these are the classes, {remedy}; "
        f"if {lone.name} is the one class, move its images into it directly"
    )


def _refuse_hidden_split(walk: _Walk, path: Path) -> None:
    """Refuse folders that may be classes, and may be parts of a split as well."""
    folders = walk.inside(path).folders
    inner = {one: {part.name for part in walk.inside(one).folders} for one in folders}
    flat = {one for one in folders if walk.inside(one).images}
    for one in folders:
        if found := _split(walk.inside(one).folders):
            ((train, *_), (test, *_)) = found["train"], found.get("test") or found["val"]
            raise InputError(
                f"{one} holds {train.name}/ and {test.name}/: if it is a class, put its images "
                f"into {path}/train/{one.name}/ and {path}/test/{one.name}/; if it is the set, "
                f"name it as the set; if they are no parts of a split, give them other names"
            )
        if not _is_part(one, "train", "test", "val") or one in flat or not inner[one]:
            continue
        for other in folders:
            shared = inner[one] & {*inner[other], other.name}
            if other != one and (shared or _is_part(other, *PARTS.values())):
                raise InputError(
                    f"{one} and {other} may be parts of a split without {path}/train/CLASS/ or "
                    f"without {path}/test/CLASS/ (or val/), and may be classes: name them train "
                    f"and test, or give {one.name} a name that is no part of a split"
                )
    shared = set.intersection(*inner.values()) if len(folders) > 1 else set()
    if len(shared) > 1 and not flat:
        walk.doubts.append(
            f"{path}: {_some(folders)} are read as classes; as they hold the same folders, "
            f"{_some(map(Path, sorted(shared)))}: if they are parts of a split, name them train "
            f"and test"
        )


class _Inside(NamedTuple):
    """What lies directly in a folder: folders, images, what is hidden, and what is no picture."""

    folders: list[Path]
    images: list[Path]
    hidden: list[Path]
    others: list[Path]


class _Walk:
    """Lists the images of classes, and keeps account of what is left out.

    Args:
        path: folder of the set.
        by_content: whether files without a suffix are looked into.

    Attributes:
        left: number of files by what they are and where.
        doubts: other notes.
    """

    def __init__(self, path: Path, *, by_content: bool = True) -> None:
        self.path = path
        self.left: dict[str, Counter[Path]] = defaultdict(Counter)
        self.doubts: list[str] = []
        self._by_content = by_content
        self._suffixes = openable()
        self._scanned: dict[Path, _Inside] = {}
        self._real: dict[Path, str] = {}  # of folders: where they lie but for links
        self._links = False

    def inside(self, folder: Path) -> _Inside:
        """What lies directly in a folder, by name.

        Raises:
            InputError: if it cannot be read, or holds a link to nothing.
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
        found = _Inside([], [], [], [])
        for entry in entries:
            path, name = Path(entry.path), entry.name.casefold()
            picture = path.suffix.casefold() in self._suffixes
            if name.startswith("._"):  # what macOS keeps beside a file
                continue
            if name.startswith(".") or name in THUMBNAILS:
                if picture or path.is_dir():
                    found.hidden.append(path)
            elif entry.is_dir():
                found.folders.append(path)
            elif entry.is_symlink() and not picture and not path.exists():
                if not _is_other_file(path):
                    raise InputError(f"{path} is a link to {path.readlink()}, which does not exist")
                self.left["links to nothing (not images by their names)"][path] = 1
            elif self._is_image(entry, path, picture=picture):
                found.images.append(path)
            elif not _is_companion(path):
                found.others.append(path)
        return found

    def _is_image(self, entry: os.DirEntry[str], path: Path, *, picture: bool) -> bool:
        """Whether a file is an image. A link to nothing counts as one; reading it is an error."""
        if picture:
            return entry.is_file() or entry.is_symlink()
        return self._by_content and not path.suffix and entry.is_file() and _opens(path)

    def note_direct(self, folder: Path) -> None:
        """Note the images that lie beside the folders of classes, and hidden ones."""
        inside = self.inside(folder)
        self.left["images outside the folders of classes"].update(inside.images)
        self._note_hidden(inside)

    def _note_hidden(self, inside: _Inside) -> None:
        for path in inside.hidden:
            with suppress(InputError):  # lost+found may often not be read
                n = _count(path, by_content=False) if path.is_dir() else 1
                self.left["hidden images or thumbnails"][path] = n

    def classes(self, folder: Path, names: Sequence[str]) -> Listed:
        """The images of classes with their labels, in order.

        Raises:
            InputError: for a folder of another class, and for an empty one.
        """
        label_of = {name: label for label, name in enumerate(names)}
        listed: Listed = []
        for one in self.inside(folder).folders:
            if one.name not in label_of:
                raise InputError(f"{one} is no class of the training images")
            n = len(listed)
            listed += [(file, label_of[one.name]) for file in self.images(one)]
            if len(listed) == n:
                raise InputError(
                    f"{one} holds no images: each folder beside it is a class, so fill or remove "
                    f"it (images are {', '.join(SUFFIXES)} and others that Pillow opens)"
                )
        return listed

    def images(self, top: Path) -> Iterator[Path]:
        """The images anywhere below a folder, in the order of torchvision's ImageFolder.

        Each folder is entered once, and none of those above it.
        """
        root = os.path.realpath(self.path)
        above = (os.path.realpath(top.parent), *[root] * (top != self.path))
        waiting = [(top, str(Path(root, top.relative_to(self.path))), above)]
        entered = set()
        while waiting:
            folder, expected, above = waiting.pop()
            real = os.path.realpath(folder)
            self._links |= real != expected
            if real in entered or any(Path(one).is_relative_to(real) for one in above):
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
                (one, str(Path(real, one.name)), (*above, real)) for one in inside.folders[::-1]
            ]

    def real(self, file: Path) -> str:
        """Where an image that was listed lies but for links."""
        found = Path(self._real[file.parent], file.name)
        return os.path.realpath(found) if file.is_symlink() else str(found)

    def each_once(self, parts: dict[str, Listed]) -> dict[str, Listed]:
        """The images without those that links lead to a second time.

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
                        f"{first} and {file} are one file, of two classes: remove a link"
                    )
                if first == file:
                    kept[part].append((file, label))
                else:
                    self.left["links to images that are read already"][file] = 1
        both = [[*of.values()] for of in met.values() if len(of) > 1]
        if both:
            self.doubts.append(
                f"{self.path}: {len(both)} files are training and test images at once, such as "
                f"{' and '.join(str(file) for file, _ in both[0])}"
            )
        return kept

    def notes(self) -> tuple[str, ...]:
        """What is left out, a line for each reason."""
        return (*self.doubts, *(
            f"{self.path}: left out: {n} {what}: {_some(where)}"
            for what, where in self.left.items() if (n := where.total())
        ))  # fmt: skip


def _is_companion(path: Path) -> bool:
    return path.suffix.casefold() in COMPANIONS or path.name.casefold() in COMPANION_NAMES


def _is_other_file(link: Path) -> bool:
    """Whether a link to nothing was one to a file, and to no picture, by its name or its target's.

    Others may be a class or an image that is lost.
    """
    named = link if link.suffix or _is_companion(link) else link.readlink()
    if named.suffix.casefold() in openable():
        return False
    return _is_companion(named) or mimetypes.guess_type(named.name)[0] is not None


def _opens(path: Path) -> bool:
    """Whether a file is a picture by its content."""
    from PIL import Image

    try:
        with Image.open(path, formats=[kind for kind in BY_CONTENT if kind in Image.OPEN]):
            return True
    except Exception:  # from decoders, which raise anything
        return False


def _count(folder: Path, *, by_content: bool = True) -> int:
    """The images anywhere below a folder."""
    return sum(1 for _ in _Walk(folder, by_content=by_content).images(folder))
