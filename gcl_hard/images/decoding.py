"""Image files as squares of RGB pixels, decoded once into the cache."""

from __future__ import annotations

import glob
import hashlib
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gcl_hard.errors import InputError
from gcl_hard.files.io import file_digest, file_stamp
from gcl_hard.files.kept import kept_folder
from gcl_hard.images.folders import Listed, shown

LARGEST = 224
"""Pixels of the side that images of folders are scaled to at most."""
NOTE = "note.txt"
"""File of the cache with warnings about a set; empty for none."""
LEAST, OUTLIER = 4, 0.5
"""Pixels of a side at least; share of the median below which the smallest image is an outlier."""
AT_A_TIME = 1024  # images decoded before the next are begun
MOST_NAMED = 20  # damaged images
BACKGROUND = "white"
"""What shows through transparent pixels, as on a page."""
ONE_OF_MANY = {"AVIF", "GIF", "PNG", "TIFF", "WEBP"}
"""Formats of animations and pages; their first picture is read."""

Images = NDArray[Any]
"""What should be uint8 [n, S, S, 3]."""
Labels = NDArray[Any]
"""What should be integers [n] in 0 … C − 1, or −1 for none."""


class Stored(NamedTuple):
    """The images of a split as they are in the files, not yet checked.

    Attributes:
        images: the pixels.
        labels: their classes.
        ids: what they are called, [n]; None for their numbers.
    """

    images: Images
    labels: Labels
    ids: NDArray[Any] | None = None


Arrays = dict[str, Stored]
"""By split."""


def decoded(
    listed: dict[str, Listed],
    path: Path,
    cache: Path,
    *,
    name: str,
    side: int | None = None,
    scale_to: int | None = None,
    others: Sequence[Path] = (),
) -> Arrays:
    """Images as RGB in squares of one size, decoded into files of the cache that memory maps.

    So a set may be larger than memory. Images stand as their EXIF orientation says, what shows
    through transparent pixels is :data:`BACKGROUND`, and of several pictures in a file the first is
    read. Where nothing can be written, they are decoded into memory. A copy of the folder has
    decoded images of its own; those of an earlier state of its files, of an earlier version of this
    module or of Pillow are removed.

    Args:
        listed: the files of every split.
        path: their folder.
        cache: the folder in which decoded images are kept, as ``NAME-WHERE-STATE``.
        name: name of the set.
        side: pixels of the square that they must have; if None they are scaled and cropped.
        scale_to: pixels of the square that they are scaled and cropped to; the shortest side of
            all, at most :data:`LARGEST`, if None.
        others: further files of the set, such as one with labels.

    Raises:
        InputError: if there are images that cannot be read, or are too small; names them.
    """
    kind = [] if len(listed) > 1 and scale_to is None else [*listed, str(scale_to)]
    where, state = _digest(str(path.resolve()), *kind), _state(listed, path, others)
    kept = cache / f"{name}-{where}-{state}"
    fit = side is None
    every = [item for part in listed.values() for item in part]

    @lru_cache
    def plan() -> tuple[int, str, dict[str, Any]]:
        given = side if side is not None else scale_to
        final, note = _common_side(every, name) if given is None else (given, "")
        square = partial(_square, side=final, fit=fit)
        of_each = {s: partial(_of_each, of, square, f"{name} {s}") for s, of in listed.items()}
        return final, note, of_each

    def write(folder: Path) -> None:
        final, note, images = plan()
        (folder / NOTE).write_text(note, encoding="utf-8", errors="surrogateescape")
        for split, part in listed.items():
            _write(images[split](), folder / f"{split}.npy", (len(part), 3, final, final))

    try:
        kept_folder(kept, write)
    except _DamagedError:  # and what is damaged below its header, or in the other splits?
        check = partial(_square, side=side or LEAST, fit=fit)
        for _ in _of_each(every, check, f"{name} for damaged images"):
            pass
        raise
    except InputError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        _, note, images = plan()
        _warn(note)
        return {s: _stored(np.stack([*images[s]()]), of, path) for s, of in listed.items()}
    for earlier in cache.glob(f"{glob.escape(f'{name}-{where}')}-*"):
        if earlier != kept:
            shutil.rmtree(earlier, ignore_errors=True)
    return _kept(listed, kept, path)


def _digest(*lines: str) -> str:
    """Twelve hexadecimal digits of some lines, which may be names that are no UTF-8."""
    text = "\0".join(lines).encode(errors="surrogatepass")
    return hashlib.sha256(text).hexdigest()[:12]


def _state(listed: dict[str, Listed], path: Path, others: Sequence[Path]) -> str:
    """A digest of names and stamps of files, and of what decodes them."""
    from PIL import __version__

    files = [*others, *(file for part in listed.values() for file, _ in part)]
    stamps = [f"{file.relative_to(path)} {file_stamp(file)}" for file in files]
    return _digest(file_digest(__file__), __version__, *stamps)


def _kept(listed: dict[str, Listed], kept: Path, path: Path) -> Arrays:
    """The images of a folder in the cache."""
    _warn((kept / NOTE).read_text(encoding="utf-8", errors="surrogateescape"))
    images = {split: np.load(kept / f"{split}.npy", mmap_mode="c") for split in listed}
    return {
        split: _stored(np.moveaxis(images[split], 1, -1), part, path)
        for split, part in listed.items()
    }


def _stored(images: Images, listed: Listed, path: Path) -> Stored:
    """Images with their labels, called as their files in a folder are."""
    names = [shown(file.relative_to(path).as_posix()) for file, _ in listed]
    return Stored(images, np.array([label for _, label in listed], np.int64), np.array(names))


def _warn(note: str) -> None:
    for line in note.splitlines():
        warnings.warn(line, stacklevel=2)


def _common_side(listed: Listed, name: str) -> tuple[int, str]:
    """The side that images are scaled to, and warnings.

    Of a single small image that decides it, and of files with several pictures.
    """
    found = [*_of_each(listed, _size, f"sizes of {name}")]
    sides = [side for side, _ in found]
    least, median = min(sides), float(np.median(sides))
    said = f"{listed[sides.index(least)][0]} has a shorter side of {least} pixels"
    if least < LEAST:
        raise InputError(
            f"{said}, the median of {name} {median:g}: give images of at least {LEAST}"
        )
    notes = []
    if least < OUTLIER * min(median, LARGEST):
        notes.append(
            f"{said}, and all of {name} are scaled to that; their median is {median:g}: remove it?"
        )
    if several := [file for (file, _), (_, many) in zip(listed, found, strict=True) if many]:
        notes.append(
            f"{name}: {len(several)} files hold several pictures, and the first is read, such as "
            f"in {several[0]}"
        )
    return min(LARGEST, least), "\n".join(notes)


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
        except Exception as error:  # from decoders, which raise anything
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


def _size(image: Any) -> tuple[int, bool]:
    """The shorter side of an image, and whether its file holds others, too."""
    several = image.format in ONE_OF_MANY and getattr(image, "is_animated", False)
    return min(image.size), several


def _square(image: Any, *, side: int, fit: bool) -> Images:
    """RGB pixels of an image, uint8 [side, side, 3]; one of another size is fitted or refused."""
    from PIL import Image, ImageOps

    if image.mode.startswith(("I", "F")):
        raise ValueError(f"more than 8 bits a channel, {image.mode}: scale it to 0 … 255")
    colours = _opaque(_upright(image))
    if not fit and colours.size != (side, side):
        raise ValueError(f"{colours.width} × {colours.height} pixels, not {side} × {side}")
    if colours.size != (side, side):
        colours = ImageOps.fit(colours, (side, side), Image.Resampling.BICUBIC)
    return np.asarray(colours)


def _upright(image: Any) -> Any:
    """An image turned as its EXIF data say; as it is if they cannot be read."""
    from PIL import ImageOps

    image.load()  # damaged pixels are an error
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # from the EXIF data, which viewers pass over
        return image


def _opaque(image: Any) -> Any:
    """An image as RGB, on a background where it is transparent."""
    from PIL import Image

    if image.mode[-1] not in "APa" and "transparency" not in image.info:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, BACKGROUND), layer).convert("RGB")
