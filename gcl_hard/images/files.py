"""Files of image sets: search in folders, cache and network, and reading as arrays."""

from __future__ import annotations

import csv
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.lib.npyio import NpzFile

from gcl_hard.errors import InputError, check_option
from gcl_hard.files import locating
from gcl_hard.files.io import array_of, opened_npz, reading, texts_of
from gcl_hard.files.locating import Download, Wanted
from gcl_hard.images import KNOWN, Layout, canonical_name, in_folder
from gcl_hard.images.decoding import Arrays, Labels, Stored, decoded
from gcl_hard.images.folders import UNLABELLED, Listed, list_images

DIGIT_LEVELS = 16  # grey levels of scikit-learn's digits above 0
SPLIT_SEED, TEST_SHARE = 0, 0.2
PLAIN = ("train", "test")


def locate(
    name: str,
    *,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    download: bool = True,
) -> Path | None:
    """The file or folder of a set, downloaded if necessary; None for scikit-learn's digits.

    Args:
        name: name of the set.
        data_dir: a folder with ``NAME.npz`` or a set as published; by default the folder in
            ``GCL_HARD_DATA``.
        cache_dir: the cache's root, see :func:`gcl_hard.files.io.cache_root`.
        download: whether it may be downloaded.

    Raises:
        InputError: if the set cannot be found; lists the searched paths, where to put the file, and
            what works offline.

    Example:
        >>> locate("digits") is None
        True
    """
    name = canonical_name(name)
    if Path(name).suffix.casefold() == ".npz":
        raise InputError(f"{name} is no name: give {Path(name).stem!r}, and its folder as data_dir")
    files = "NAME.npz files"
    places = locating.folders("images", data_dir=data_dir, cache_dir=cache_dir, files=files)
    look = partial(_files_in, name=name)
    if name == "digits":
        return locating.search(look, places)
    put, published = [(f"{name}.npz", f"{name}.npz")], None
    if site := KNOWN.get(name):
        published = Download(site.url, site.folder, site.checksum, unpack=True)
        put.append((f"{site.url} unpacked", site.folder))
    others = f"set needs its {name}.npz, or {name}/train/CLASS/* and {name}/test/CLASS/*"
    wanted = Wanted(
        look=look,
        lacks=partial(_absence, name=name),
        headline=locating.headline("dataset", name, KNOWN, others),
        put=put,
        hint="digits are in the package and work offline; a set at another place is "
        "--dataset FOLDER/NAME, or NAME with data_dir FOLDER",
        download=published,
    )
    return locating.locate(wanted, places, download=download)


def layout_of(path: Path, name: str) -> Layout:
    """Layout of the file or folder of a set."""
    if path.is_file():
        return "npz"
    return KNOWN[name].layout if name in KNOWN else "classes"


def _files_in(folder: Path, name: str) -> Path | None:
    """The user's files of a set in a folder, or else those of its publisher."""
    if (path := in_folder(folder, name)) is not None:
        return path
    site = KNOWN.get(name)
    published = folder / site.folder if site and site.folder else None
    return published if published and published.is_dir() else None


def _absence(folder: Path, name: str) -> str:
    """What is missing in a folder, and what it has instead."""
    known = KNOWN.get(name)
    lacks = f"no {name}.npz" + (f", no {known.folder}/" if known else f", no images in {name}/")
    if locating.npz_kind(folder / f"{name}.npz") == "nodes":
        lacks += f"; {name}.npz holds a graph, see gcl_hard.nodes.load_nodes"
    return lacks


def _check_splits(name: str, requested: Iterable[str], available: Sequence[str]) -> None:
    """Refuse unknown splits; the error lists the available ones."""
    for split in requested:
        check_option(f"split of {name}", split, available)


def digits(splits: Sequence[str] = PLAIN) -> tuple[Arrays, tuple[str, ...]]:
    """The 1,797 digits of scikit-learn, 8×8 pixels, grey as RGB, in one fixed stratified split."""
    from sklearn.datasets import load_digits

    _check_splits("digits", splits, PLAIN)
    bunch = load_digits()
    grey = np.rint(bunch.images * (255 / DIGIT_LEVELS)).astype(np.uint8)
    images, labels = np.repeat(grey[..., None], 3, axis=-1), bunch.target.astype(np.int64)
    ids = _fixed_split(labels, "digits")
    arrays = {split: Stored(images[ids[split]], labels[ids[split]], ids[split]) for split in splits}
    return arrays, tuple(map(str, range(10)))


def _fixed_split(labels: Labels, where: str) -> dict[str, Labels]:
    """Ids of a stratified fifth for testing and of the rest, ascending."""
    from sklearn.model_selection import train_test_split

    try:
        train, test = train_test_split(
            np.arange(len(labels)), test_size=TEST_SHARE, stratify=labels, random_state=SPLIT_SEED
        )
    except ValueError as error:
        raise InputError(
            f"{where}: a fifth of its {len(labels)} images cannot be split off for testing "
            f"({error}); give more of them, or folders train/ and test/"
        ) from error
    return {"train": np.sort(train), "test": np.sort(test)}


def from_npz(path: Path, name: str, splits: Sequence[str]) -> tuple[Arrays, tuple[str, ...]]:
    """A NAME.npz: ``SPLIT_images``, ``SPLIT_labels``, and optionally ``class_names``."""
    with opened_npz(path) as stored:
        also = [key.removesuffix("_images") for key in stored.files if key.endswith("_images")]
        if "unlabeled" in also:
            also.append("train+unlabeled")
        _check_splits(name, splits, list(dict.fromkeys([*PLAIN, *also])))
        arrays = {split: _npz_split(stored, path, split) for split in splits}
        return arrays, _class_names(stored, path)


def _npz_split(stored: NpzFile, path: Path, split: str) -> Stored:
    if split == "train+unlabeled":
        parts = [_npz_split(stored, path, part) for part in split.split("+")]
        images, labels = [part.images for part in parts], [part.labels for part in parts]
        if images[0].shape[1:] != images[1].shape[1:]:
            sizes = " and ".join(str(list(part.shape)) for part in images)
            raise InputError(f"{path}: {split} would join images of different size: {sizes}")
        return Stored(np.concatenate(images), np.concatenate(labels))
    pixels = array_of(stored, path, f"{split}_images")
    if split == "unlabeled":
        return Stored(pixels, np.full(len(pixels), -1))
    return Stored(pixels, array_of(stored, path, f"{split}_labels"))


def _class_names(stored: NpzFile, path: Path) -> tuple[str, ...]:
    """The stored class names, otherwise the class numbers."""
    if "class_names" in stored.files:
        return texts_of(stored, path, "class_names")
    keys = [key for key in stored.files if key.endswith("_labels")]
    labels = [part for key in keys if (part := array_of(stored, path, key)).dtype.kind in "iu"]
    top = max((int(part.max()) for part in labels if part.size), default=-1)
    return tuple(map(str, range(top + 1)))


def from_torchvision(
    path: Path, name: str, splits: Sequence[str]
) -> tuple[Arrays, tuple[str, ...]]:
    """CIFAR and STL10 as torchvision unpacks them."""
    from torchvision import datasets

    kind = getattr(datasets, name)
    _check_splits(name, splits, getattr(kind, "splits", PLAIN))
    arrays: Arrays = {}
    names: tuple[str, ...] = ()
    with reading(path, f"all of {name}", f": unpack {kind.url} again"):
        for split in splits:
            if name == "STL10":
                data_set = kind(path.parent, split=split)
                arrays[split] = Stored(np.moveaxis(data_set.data, 1, -1), data_set.labels)
            else:
                data_set = kind(path.parent, train=split == "train")
                arrays[split] = Stored(data_set.data, np.asarray(data_set.targets))
            names = tuple(data_set.classes)
    return arrays, names


def _labels_of(path: Path) -> list[Path]:
    """The label files of TinyImageNet."""
    return [path / "wnids.txt", path / "val" / "val_annotations.txt"]


def tiny_imagenet(path: Path) -> tuple[dict[str, Listed], tuple[str, ...]]:
    """The files of TinyImageNet, with ``val`` as test split, and its class names."""
    wnids, annotations = _labels_of(path)
    names = tuple(sorted(wnids.read_text("utf-8").split()))
    return {"train": _by_class(path, names), "test": _annotated(annotations, names)}, names


def paths(name: str, *, data_dir: str | Path | None = None) -> list[Path]:
    """The files that a set is read from; none for a set in a package."""
    path = locate(name, data_dir=data_dir)
    if path is None:
        return []
    match layout_of(path, canonical_name(name)):
        case "npz":
            return [path]
        case "torchvision":
            return sorted(file for file in path.iterdir() if file.is_file())
        case "classes":
            return [file for part in list_images(path).parts.values() for file, _ in part]
    listed, _ = tiny_imagenet(path)
    return [*_labels_of(path), *(file for part in listed.values() for file, _ in part)]


def from_folders(path: Path, splits: Sequence[str], cache: Path) -> tuple[Arrays, tuple[str, ...]]:
    """TinyImageNet, decoded once, like :func:`from_class_folders`."""
    name = "TinyImageNet"
    _check_splits(name, splits, PLAIN)
    listed, names = tiny_imagenet(path)
    arrays = decoded(listed, path, cache, name=name, side=KNOWN[name].side, others=_labels_of(path))
    return {split: arrays[split] for split in splits}, names


def from_class_folders(
    path: Path, splits: Sequence[str], cache: Path
) -> tuple[Arrays, tuple[str, ...]]:
    """Images of a folder, listed by :func:`~gcl_hard.images.folders.list_images`.

    In a folder with only ``CLASS/*`` a fixed stratified fifth are the test images. The shorter side
    of every image is scaled to the shortest of all, at most
    :data:`~gcl_hard.images.decoding.LARGEST` pixels, and the centre is cropped; a warning names an
    image much smaller than the others. The images are decoded once into the cache and
    memory-mapped.
    """
    _check_splits(path.name, splits, PLAIN)
    listing = list_images(path)
    for note in listing.notes:
        warnings.warn(note, stacklevel=2)
    listed = listing.parts
    if "all" in listed:
        whole = listed["all"]
        ids = _fixed_split(np.array([label for _, label in whole]), str(path))
        listed = {split: [whole[i] for i in ids[split]] for split in PLAIN}
    arrays = decoded(listed, path, cache, name=path.name)
    return {split: arrays[split] for split in splits}, listing.names


def _by_class(path: Path, names: Sequence[str]) -> Listed:
    """The training images with their classes."""
    listed: Listed = []
    for label, wnid in enumerate(names):
        folder = path / "train" / wnid / "images"
        files = sorted(folder.glob("*.JPEG"))
        if not files:
            raise InputError(f"no *.JPEG images in {folder}: unpack TinyImageNet again")
        listed += [(file, label) for file in files]
    return listed


def _annotated(file: Path, names: Sequence[str]) -> Listed:
    """The validation images with their classes."""
    label_of = {wnid: label for label, wnid in enumerate(names)}
    listed: Listed = []
    for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
        words = line.split("\t")
        if len(words) < 2 or words[1] not in label_of:
            raise InputError(
                f"{file}, line {number}: expected a file name, a tab and one of the "
                f"{len(names)} classes of wnids.txt, got {line[:60]!r}"
            )
        listed.append((file.parent / "images" / words[0], label_of[words[1]]))
    return listed


def read_labels(path: Path, files: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
    """Labels of images in a folder, from a CSV file.

    Args:
        path: the file, with columns ``file`` and ``label``. An image is named by its path in the
            folder, or by its file name alone if unique; an empty label means none.
        files: paths of the images in the folder.

    Returns:
        The label of each image, −1 without one, and the sorted class names.

    Raises:
        InputError: for a file that has other columns, names an unknown or ambiguous image, or gives
            an image two labels; names it.
    """
    positions = defaultdict[str, set[int]](set)
    for i, file in enumerate(files):
        positions[file.rpartition("/")[2]].add(i)
    positions |= {file: {i} for i, file in enumerate(files)}
    with path.open(encoding="utf-8-sig", newline="") as text, reading(path, "a CSV file"):
        lines = csv.DictReader(text)
        columns = [column.strip().casefold() for column in lines.fieldnames or ()]
        lines.fieldnames = columns
        rows = [(lines.reader.line_num, row) for row in lines]
    if (columns.count("file"), columns.count("label")) != (1, 1):
        raise InputError(f"{path} needs columns file and label, and has {', '.join(columns)}")
    label_of: dict[int, str] = {}
    for number, row in rows:
        if None in (*row, *row.values()):
            raise InputError(f"{path}, line {number}: expected {len(columns)} columns")
        name, label = row["file"].strip(), row["label"].strip()
        if len(positions[name]) != 1:
            problem = "the name of several images: give its path" if positions[name] else "no image"
            raise InputError(f"{path}, line {number}: {name} is {problem}")
        (image,) = positions[name]
        if (other := label_of.setdefault(image, label)) != label:
            raise InputError(f"{path}, line {number}: {name} is {label!r}, but {other!r} above")
    classes = tuple(sorted({label for label in label_of.values() if label}))
    number_of = {name: k for k, name in enumerate(classes)}
    return [number_of.get(label_of.get(i, ""), UNLABELLED) for i in range(len(files))], classes
