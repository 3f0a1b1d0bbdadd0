"""Files of image sets: found in a folder, the cache or the network, and read as arrays."""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import socket
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from gcl_hard.errors import InputError, check_option, nearest, unknown
from gcl_hard.io import atomic_folder, cache_root, given_folder, refuse_bomb, scratch_folder

TIMEOUT = 20.0  # seconds
DIGIT_LEVELS = 16  # grey levels of scikit-learn's digits above 0
SPLIT_SEED, TEST_SHARE = 0, 0.2
PLAIN = ("train", "test")
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
LARGEST = 224
"""Pixels of the side that images of folders are scaled to at most."""
NOTE = "note.txt"
"""File of the cache with a warning about a set; empty for none."""
LEAST, OUTLIER = 4, 0.5
"""Pixels of a side at least; share of the median below which the smallest image is an outlier."""
AT_A_TIME = 1024  # images decoded before the next are begun
MOST_NAMED = 20  # damaged images

Layout = Literal["npz", "torchvision", "folders", "classes"]
Images = NDArray[Any]
"""What should be uint8 [n, S, S, 3]."""
Labels = NDArray[Any]
"""What should be integers [n] in 0 … C − 1, or −1 for none."""
Arrays = dict[str, tuple[Images, Labels]]
"""By split; as they are in the files, not yet checked."""
Listed = list[tuple[Path, int]]
"""Image files with their labels."""


class Found(NamedTuple):
    """Path of a set and its layout."""

    path: Path
    layout: Layout


class Known(NamedTuple):
    """Official sizes of a set, and where it is published, if no package holds it.

    Attributes:
        n_train: images to train on.
        n_test: images to test on.
        n_classes: C.
        side: pixels of an image's side.
        folder: folder of the published set once unpacked; empty for one that a package holds.
        url: its address.
        layout: layout of its files.
    """

    n_train: int
    n_test: int
    n_classes: int
    side: int
    folder: str = ""
    url: str = ""
    layout: Layout = "torchvision"


KNOWN: dict[str, Known] = {
    "digits": Known(1_437, 360, 10, 8),
    "CIFAR10": Known(
        50_000, 10_000, 10, 32, "cifar-10-batches-py",
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    ),
    "CIFAR100": Known(
        50_000, 10_000, 100, 32, "cifar-100-python",
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    ),
    "STL10": Known(
        5_000, 8_000, 10, 96, "stl10_binary",
        "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
    ),
    "TinyImageNet": Known(
        100_000, 10_000, 200, 64, "tiny-imagenet-200",
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip", "folders",
    ),
}  # fmt: skip
"""The sets that need no NAME.npz."""


def cache_folder(cache_dir: str | Path | None = None) -> Path:
    """The cache's folder of image sets: ``images`` under the cache root."""
    return cache_root(cache_dir) / "images"


def npz_of(name: str, data_dir: str | Path | None = None) -> Path | None:
    """The path of a NAME.npz, in any case, in the folder given or the cache; else None."""
    given = data_dir or os.environ.get("GCL_HARD_DATA")
    folders = [Path(given).expanduser()] if given else []
    found = (_npz(folder, name) for folder in (*folders, cache_folder()))
    return next((path for path in found if path is not None), None)


def class_folder(name: str, data_dir: str | Path | None = None) -> Path | None:
    """The folder NAME with images as ``train/CLASS/*`` or ``CLASS/*``, given or cached; or None."""
    given = data_dir or os.environ.get("GCL_HARD_DATA")
    folders = [Path(given).expanduser()] if given else []
    found = (folder / name for folder in (*folders, cache_folder()))
    return next((path for path in found if has_classes(path)), None)


def has_classes(path: Path) -> bool:
    """Whether a folder holds images in the folders of classes."""
    return any(True for folder in _class_folders(path) for _ in _images_in(folder))


def _class_folders(path: Path) -> list[Path]:
    return sorted(part for part in path.glob("[!.]*") if part.is_dir())


def _images_in(folder: Path) -> Iterator[Path]:
    """Images anywhere below a folder, in the order of torchvision's ImageFolder."""
    for where, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        for name in sorted(names):
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."):
                yield Path(where, name)


def find(
    name: str,
    *,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    download: bool = True,
) -> Found | None:
    """The files of a set, downloaded if necessary; None for scikit-learn's digits.

    Args:
        name: name of the set, in its canonical spelling.
        data_dir: a folder with ``NAME.npz`` or a set as its publisher packs it; by default
            the folder in ``GCL_HARD_DATA``.
        cache_dir: the cache's root.
        download: whether it may be downloaded.

    Returns:
        The path and its layout.

    Raises:
        InputError: if the set cannot be found; lists every path tried, where to put the file, and
            what works offline.
    """
    given = given_folder(data_dir, files="NAME.npz files")
    folders = {"cache": cache_folder(cache_dir)}
    if given:
        folders = {"data folder": given, **folders}
    site = KNOWN.get(name)
    for folder in folders.values():
        if (npz := _npz(folder, name)) is not None:
            return Found(npz, "npz")
        if site and site.folder and (folder / site.folder).is_dir():
            return Found(folder / site.folder, site.layout)
        if has_classes(folder / name):
            return Found(_own_folder(folder / name), "classes")
    if name == "digits":
        return None
    looked = f"no {name}.npz" + (f", no {site.folder}/" if site else "")
    tried = [f"{where} {folder}: {looked}" for where, folder in folders.items()]
    head, needed = f"dataset {name!r} is not available", f"{name}.npz"
    if (folder := Path(name)).is_dir():
        head += f"; for the folder {name} load {folder.name!r} with data_dir {str(folder.parent)!r}"
    if site is None:
        if nearest(name, KNOWN):
            head = f"{unknown('dataset', name, KNOWN)}; any other set needs its {name}.npz, or "
            head += f"{name}/train/CLASS/* and {name}/test/CLASS/*"
    else:
        needed += f", or {site.url} unpacked to {site.folder}/,"
        reason: object = "switched off"
        if download:
            try:
                return Found(_download(name, site, folders["cache"]), site.layout)
            except Exception as error:  # of the network, of archives, of torchvision's checks
                reason = error
        tried.append(f"download {site.url}: {reason}")
    lines = "\n  ".join(["tried:", *tried])
    raise InputError(
        f"{head}\n{lines}\nto use it offline, put {needed} into {given or folders['cache']} (or "
        "any folder that --data-dir or GCL_HARD_DATA names)\ndigits are in the package and work "
        "offline"
    )


def _own_folder(path: Path) -> Path:
    """A folder of the user's images, unless a known set has its name."""
    if path.name in KNOWN:
        raise InputError(f"{path} has the name of a known set: give your images another one")
    return path


def _npz(folder: Path, name: str) -> Path | None:
    wanted = f"{name}.npz".casefold()
    found = [f for f in folder.glob("*.npz") if f.name.casefold() == wanted]
    return min(found, key=lambda f: f.name != f"{name}.npz", default=None)


def _download(name: str, site: Known, folder: Path) -> Path:
    """Fetch and unpack into a temporary folder, then rename: the cache never holds half a set."""
    from torchvision import datasets

    target = folder / site.folder
    with scratch_folder(folder) as temporary, _timeout():
        if site.layout == "torchvision":
            getattr(datasets, name)(str(temporary), download=True)
        else:
            datasets.utils.download_and_extract_archive(site.url, str(temporary))
        try:
            (temporary / site.folder).replace(target)
        except OSError:
            if not target.is_dir():  # else another process was faster
                raise
    return target


@contextmanager
def _timeout() -> Iterator[None]:
    """Connections time out after TIMEOUT: torchvision's downloads have no limit of their own."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _check_splits(name: str, asked: Iterable[str], there: Sequence[str]) -> None:
    """Refuse splits that a set does not have; the error lists those it has."""
    for split in asked:
        check_option(f"split of {name}", split, there)


def digits(splits: Sequence[str] = PLAIN) -> tuple[Arrays, tuple[str, ...]]:
    """The 1,797 digits of scikit-learn, 8×8 pixels, grey as RGB, in one fixed stratified split."""
    from sklearn.datasets import load_digits

    _check_splits("digits", splits, PLAIN)
    bunch = load_digits()
    grey = np.rint(bunch.images * (255 / DIGIT_LEVELS)).astype(np.uint8)
    images, labels = np.repeat(grey[..., None], 3, axis=-1), bunch.target.astype(np.int64)
    ids = _fixed_split(labels, "digits")
    arrays = {split: (images[ids[split]], labels[ids[split]]) for split in splits}
    return arrays, tuple(map(str, range(10)))


def _fixed_split(labels: Labels, where: str) -> dict[str, Labels]:
    """Ids of a stratified fifth for testing and of the others, ascending."""
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
    """A mirror file: ``SPLIT_images``, ``SPLIT_labels``, and ``class_names`` or none."""
    with _opened(path) as stored:
        if "train_webp" in stored.files:
            raise InputError(
                f"{path} is packed; unpack it with the unpack.py next to it: python "
                f"unpack.py {name.lower().removesuffix('_rest')} OUT (with --full if a "
                f"{name.lower().removesuffix('_rest')}_rest.npz is there: the whole set), then "
                f"--data-dir OUT"
            )
        also = [key.removesuffix("_images") for key in stored.files if key.endswith("_images")]
        if "unlabeled" in also:
            also.append("train+unlabeled")
        _check_splits(name, splits, list(dict.fromkeys([*PLAIN, *also])))
        arrays = {split: _npz_split(stored, path, split) for split in splits}
        return arrays, _class_names(stored, path)


@contextmanager
def _opened(path: Path) -> Iterator[NpzFile]:
    with ExitStack() as stack:
        try:  # opened here, since NumPy does not close a file that it rejects
            stored = np.load(stack.enter_context(path.open("rb")), allow_pickle=False)
        except Exception as error:  # of zip, of pickle
            raise InputError(
                f"{path} is truncated or not an .npz file ({error}): copy it again"
            ) from error
        if not isinstance(stored, NpzFile):
            raise InputError(
                f"{path} is a single array: numpy.savez writes .npz files of named ones"
            )
        assert stored.zip is not None  # it is until closed
        refuse_bomb(stored.zip, path)
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
    """The stored names, or else the numbers of the classes."""
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
            f"{path}: {key} is not a plain array ({error}): save it as numbers, or class names as "
            "text"
        ) from error
    except Exception as error:  # of zip and what decompresses its members
        raise InputError(f"{path} is damaged in {key} ({error}): copy it again") from error


def from_torchvision(
    path: Path, name: str, splits: Sequence[str]
) -> tuple[Arrays, tuple[str, ...]]:
    """CIFAR and STL10 as torchvision unpacks them."""
    from torchvision import datasets

    kind = getattr(datasets, name)
    _check_splits(name, splits, getattr(kind, "splits", PLAIN))
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
            f"{path} is incomplete or damaged: {', '.join(faults) or error}; "
            f"unpack {kind.url} again"
        ) from error
    return arrays, names


def _faults(path: Path, kind: Any) -> list[str]:
    """Files that torchvision rejects, and whether they exist."""
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


def from_folders(path: Path, splits: Sequence[str], cache: Path) -> tuple[Arrays, tuple[str, ...]]:
    """TinyImageNet: ``train`` by class, and ``val`` as the test split.

    Images are decoded once, as for :func:`from_class_folders`.
    """
    _check_splits("TinyImageNet", splits, PLAIN)
    names = tuple(sorted(_text(path / "wnids.txt").split()))
    listed = {"train": _by_class(path, names), "test": _annotated(path, names)}
    arrays = _decoded(listed, cache / f"TinyImageNet-{_mark(path)}", KNOWN["TinyImageNet"].side)
    return {split: arrays[split] for split in splits}, names


def from_class_folders(
    path: Path, splits: Sequence[str], cache: Path
) -> tuple[Arrays, tuple[str, ...]]:
    """Images as ``train/CLASS/*`` and ``test/CLASS/*`` (or ``val``), scaled to squares of one size.

    Below a class folders may be nested, as for torchvision's ImageFolder. Of a folder with
    ``CLASS/*`` alone a fixed stratified fifth is the test images. The shorter side of every image
    is scaled to the shortest of all, at most :data:`LARGEST` pixels, and the middle is kept; a
    warning names an image much smaller than the others. The images are decoded once, into the
    cache, and mapped into memory from there; another copy of the folder, or a changed one, is never
    mistaken for it.
    """
    name = path.name
    _check_splits(name, splits, PLAIN)
    split_already = bool(_class_folders(path / "train"))
    names = tuple(f.name for f in _class_folders(path / "train" if split_already else path))
    if split_already:
        test = path / next((one for one in ("test", "val") if (path / one).is_dir()), "test")
        listed = {"train": _in_classes(path / "train", names), "test": _in_classes(test, names)}
    else:
        whole = _in_classes(path, names)
        ids = _fixed_split(np.array([label for _, label in whole]), str(path))
        listed = {split: [whole[i] for i in ids[split]] for split in PLAIN}
    every = [file for part in listed.values() for file, _ in part]
    arrays = _decoded(listed, cache / f"{name}-{_mark(path, every)}")
    return {split: arrays[split] for split in splits}, names


def _in_classes(folder: Path, names: Sequence[str]) -> Listed:
    strange = [part.name for part in _class_folders(folder) if part.name not in names]
    if strange:
        raise InputError(f"{folder / strange[0]} is of no class of the training images")
    listed = [
        (file, label) for label, name in enumerate(names) for file in _images_in(folder / name)
    ]
    if not listed:
        raise InputError(
            f"there are no images in {folder}/CLASS/, where the test images should be (or in val/; "
            f"of folders CLASS/ without train/ a fifth becomes the test images)"
        )
    full = {label for _, label in listed}
    for label, name in enumerate(names):
        if label not in full and (folder / name).is_dir():
            raise InputError(
                f"{folder / name} holds no images: each folder beside it is a class, so fill or "
                f"remove it (images are {', '.join(SUFFIXES)})"
            )
    return listed


def _mark(path: Path, files: Sequence[Path] | None = None) -> str:
    """``WHERE-STATE`` of a folder: where it is, and the names and ages of its files."""
    if files is None:
        files = [path / "wnids.txt", path / "train", path / "val" / "val_annotations.txt"]
    ages = [_age(file, path) if file.exists() else "" for file in files]
    return "-".join(
        hashlib.sha256(text.encode()).hexdigest()[:12]
        for text in (str(path.resolve()), "\n".join(ages))
    )


def _age(file: Path, path: Path) -> str:
    found = file.stat()
    return f"{file.relative_to(path)} {found.st_mtime_ns}" + (
        f" {found.st_size}" if file.is_file() else ""
    )


def _text(file: Path) -> str:
    if not file.is_file():
        raise InputError(f"there is no {file}: unpack TinyImageNet again")
    return file.read_text(encoding="utf-8", errors="replace")


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


def _decoded(listed: dict[str, Listed], kept: Path, side: int | None = None) -> Arrays:
    """Images as RGB in squares of one size, decoded into files of the cache that memory maps.

    So a set may be larger than memory. Where nothing can be written, they are decoded into memory.
    What was decoded of an earlier state of the folder is removed.

    Args:
        listed: the files of every split.
        kept: the folder in the cache, made by the first call: ``NAME-WHERE-STATE``.
        side: pixels of the square that they must have; if None they are scaled and cropped to the
            shortest side of all, at most :data:`LARGEST`.

    Raises:
        InputError: if there are images that cannot be read, or are too small; names them.
    """
    if kept.is_dir():
        return _kept(listed, kept)
    (name, where, _), fit = kept.name.rsplit("-", 2), side is None
    every = [item for part in listed.values() for item in part]
    try:
        final, note = _common_side(every, name) if side is None else (side, "")
        square = partial(_square, side=final, fit=fit)
        images = {s: partial(_of_each, of, square, f"{name} {s}") for s, of in listed.items()}
        with atomic_folder(kept) as folder:
            (folder / NOTE).write_text(note, encoding="utf-8")
            for split, part in listed.items():
                _write(images[split](), folder / f"{split}.npy", (len(part), 3, final, final))
    except _DamagedError:  # and what is damaged below its header, or in the other splits?
        check = partial(_square, side=side or LEAST, fit=fit)
        for _ in _of_each(every, check, f"{name} for damaged images"):
            pass
        raise
    except InputError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        _warn(note)
        return {s: (np.stack([*images[s]()]), _labels(of)) for s, of in listed.items()}
    for earlier in kept.parent.glob(f"{glob.escape(f'{name}-{where}')}-*"):
        if earlier != kept:
            shutil.rmtree(earlier, ignore_errors=True)
    return _kept(listed, kept)


def _kept(listed: dict[str, Listed], kept: Path) -> Arrays:
    """The images of a folder in the cache."""
    note = kept / NOTE
    try:
        _warn(note.read_text(encoding="utf-8") if note.exists() else "")
        images = {split: np.load(kept / f"{split}.npy", mmap_mode="c") for split in listed}
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            f"{kept}, with images decoded before, is damaged ({error}): remove it, and they are "
            f"decoded again"
        ) from error
    return {
        split: (np.moveaxis(images[split], 1, -1), _labels(part)) for split, part in listed.items()
    }


def _warn(note: str) -> None:
    if note:
        warnings.warn(note, stacklevel=2)


def _common_side(listed: Listed, name: str) -> tuple[int, str]:
    """The side that images are scaled to, and a warning if a single small one decides it."""
    sides = [*_of_each(listed, _shorter_side, f"sizes of {name}")]
    least, median = min(sides), float(np.median(sides))
    said = f"{listed[sides.index(least)][0]} has a shorter side of {least} pixels"
    if least < LEAST:
        raise InputError(
            f"{said}, the median of {name} {median:g}: give images of at least {LEAST}"
        )
    if least >= OUTLIER * min(median, LARGEST):
        return min(LARGEST, least), ""
    return (
        least,
        f"{said}, and all of {name} are scaled to that; their median is {median:g}: remove it?",
    )


def _labels(listed: Listed) -> Labels:
    return np.array([label for _, label in listed], np.int64)


def _write(images: Iterable[Images], path: Path, shape: tuple[int, ...]) -> None:
    """Write images [S, S, 3] one at a time as a channels-first array of NumPy's format."""
    with path.open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for image in images:
            file.write(np.ascontiguousarray(image.transpose(2, 0, 1)).data)


T = TypeVar("T")


class _DamagedError(InputError):
    """Images that cannot be read."""


def _of_each(listed: Listed, work: Callable[[Any], T], what: str) -> Iterator[T]:
    """What a function makes of every opened image, in order, by threads; with a bar on a terminal.

    Raises:
        _DamagedError: at the end, if some cannot be read; names them.
    """
    from PIL import Image
    from tqdm import tqdm

    def tried(file: Path) -> T | Exception:
        try:
            with Image.open(file) as image:
                return work(image)
        except Exception as error:  # of decoders, which raise anything
            return error

    damaged = []
    hidden = not sys.stderr.isatty()
    with (
        ThreadPoolExecutor() as pool,
        tqdm(total=len(listed), desc=f"reading {what}", unit="image", disable=hidden) as bar,
    ):
        for start in range(0, len(listed), AT_A_TIME):  # not all at once: they are kept in memory
            files = [file for file, _ in listed[start : start + AT_A_TIME]]
            for file, found in zip(files, pool.map(tried, files), strict=True):
                bar.update()
                if isinstance(found, Exception):
                    damaged.append(f"{file} cannot be read as an image ({found})")
                elif not damaged:
                    yield found
    if damaged:
        more = f"\nand {len(damaged) - MOST_NAMED} more" if len(damaged) > MOST_NAMED else ""
        raise _DamagedError("\n".join(damaged[:MOST_NAMED]) + more + "\nremove or replace them")


def _shorter_side(image: Any) -> int:
    return int(min(image.size))


def _square(image: Any, *, side: int, fit: bool) -> Images:
    """RGB pixels of an image, uint8 [side, side, 3]; one of another size is fitted or refused."""
    from PIL import Image, ImageOps

    if image.mode.startswith(("I", "F")):
        raise ValueError(f"more than 8 bits a channel, {image.mode}: scale it to 0 … 255")
    if not fit and image.size != (side, side):
        raise ValueError(f"{image.width} × {image.height} pixels, not {side} × {side}")
    colours = image.convert("RGB")
    if image.size != (side, side):
        colours = ImageOps.fit(colours, (side, side), Image.Resampling.BICUBIC)
    return np.asarray(colours)
