"""Decoding of image files to RGB squares, once, into the cache."""

from __future__ import annotations

import glob
import hashlib
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gcl_hard.errors import InputError
from gcl_hard.files.cached import cached_folder
from gcl_hard.files.io import file_digest, file_stamp
from gcl_hard.images.folders import Listed, shown

LARGEST = 224
"""Largest side, in pixels, that images of folders are scaled to."""
NOTE = "note.txt"
"""File in the cache with warnings about a set; empty without any."""
LEAST, OUTLIER = 4, 0.5
"""Smallest side in pixels; share of the median below which the smallest image is an outlier."""
AT_A_TIME = 1024  # images submitted to the threads at a time
MOST_NAMED = 20  # damaged images named in a message
BACKGROUND = "white"
"""Background of transparent pixels."""
ONE_OF_MANY = {"AVIF", "GIF", "PNG", "TIFF", "WEBP"}
"""Formats of animations and pages, of which the first picture is read."""

Images = NDArray[Any]
"""Expected as uint8 [n, S, S, 3]."""
Labels = NDArray[Any]
"""Expected as integers [n] in 0 … C − 1, or −1 for none."""


class Stored(NamedTuple):
    """The images of a split as stored, not yet validated.

    Attributes:
        images: the pixels.
        labels: their classes.
        ids: their names, [n]; None for their numbers.
    """

    images: Images
    labels: Labels
    ids: NDArray[Any] | None = None


Arrays = dict[str, Stored]
"""Stored images by split."""


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
    """Images as RGB squares of one size, decoded into memory-mapped files in the cache.

    So a set may be larger than memory. Images are rotated by their EXIF orientation, transparent
    pixels show :data:`BACKGROUND`, and of several pictures in a file the first is read. A copy of
    the folder has its own decoded images; those of an earlier state of its files, of this module or
    of Pillow are removed.

    Args:
        listed: the files of every split.
        path: their folder.
        cache: folder of decoded images, kept as ``NAME-WHERE-STATE``.
        name: name of the set.
        side: side that all images must have, in pixels; if None they are scaled and cropped.
        scale_to: side that images are scaled and cropped to; by default the shortest side of all,
            at most :data:`LARGEST`.
        others: further files of the set, such as labels.

    Raises:
        InputError: for images that cannot be read, or are too small; names them.
    """
    key = [] if len(listed) > 1 and scale_to is None else [*listed, str(scale_to)]
    where, state = _digest(str(path.resolve()), *key), _state(listed, path, others)
    kept = cache / f"{name}-{where}-{state}"

    def write(folder: Path) -> None:
        every, final, note = [*chain(*listed.values())], side or scale_to, ""
        if final is None:
            final, note = _common_side(every, name)
        images = _mapped(every, partial(_square, side=final, fit=side is None), name)
        (folder / NOTE).write_text(note, encoding="utf-8", errors="surrogateescape")
        for split, part in listed.items():
            shape = (len(part), 3, final, final)
            _write(islice(images, len(part)), folder / f"{split}.npy", shape)

    cached_folder(kept, write)
    for earlier in cache.glob(f"{glob.escape(f'{name}-{where}')}-*"):
        if earlier != kept:
            shutil.rmtree(earlier, ignore_errors=True)
    for line in (kept / NOTE).read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        warnings.warn(line, stacklevel=2)
    return {
        split: Stored(
            np.moveaxis(np.load(kept / f"{split}.npy", mmap_mode="c"), 1, -1),
            np.array([label for _, label in part], np.int64),
            np.array([shown(file.relative_to(path).as_posix()) for file, _ in part]),
        )
        for split, part in listed.items()
    }


def _digest(*lines: str) -> str:
    """Twelve hexadecimal digits of a hash of lines, which need not be UTF-8."""
    text = "\0".join(lines).encode(errors="surrogatepass")
    return hashlib.sha256(text).hexdigest()[:12]


def _state(listed: dict[str, Listed], path: Path, others: Sequence[Path]) -> str:
    """A digest of the files' names and stamps, and of the decoder's version."""
    from PIL import __version__

    files = [*others, *(file for part in listed.values() for file, _ in part)]
    stamps = [f"{file.relative_to(path)} {file_stamp(file)}" for file in files]
    return _digest(file_digest(__file__), __version__, *stamps)


def _common_side(listed: Listed, name: str) -> tuple[int, str]:
    """The side that images are scaled to, and warnings.

    Warnings are of a single small image that decides it, and of files with several pictures.
    """
    sizes = [*_mapped(listed, _size, f"sizes of {name}")]
    sides = [side for side, _ in sizes]
    least, median = min(sides), float(np.median(sides))
    smallest = f"{listed[sides.index(least)][0]} has a shorter side of {least} pixels"
    if least < LEAST:
        raise InputError(
            f"{smallest}, the median of {name} {median:g}: give images of at least {LEAST}"
        )
    notes = []
    if least < OUTLIER * min(median, LARGEST):
        notes.append(
            f"{smallest}, and all of {name} are scaled to that; their median is {median:g}: remove "
            f"it?"
        )
    if multiple := [file for (file, _), (_, several) in zip(listed, sizes, strict=True) if several]:
        notes.append(
            f"{name}: {len(multiple)} files have several pictures, of which the first is read, "
            f"such as {multiple[0]}"
        )
    return min(LARGEST, least), "\n".join(notes)


def _write(images: Iterable[Images], path: Path, shape: tuple[int, ...]) -> None:
    """Write images [S, S, 3] one at a time as a channels-first .npy array."""
    with path.open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for image in images:
            file.write(np.ascontiguousarray(image.transpose(2, 0, 1)).data)


T = TypeVar("T")


def _mapped(listed: Listed, function: Callable[[Any], T], description: str) -> Iterator[T]:
    """Apply a function to every opened image by threads, in order; with a bar on a terminal.

    Raises:
        InputError: at the end, if some cannot be read; names them.
    """
    from PIL import Image
    from tqdm import tqdm

    def attempt(file: Path) -> T | Exception:
        try:
            with Image.open(file) as image:
                return function(image)
        except Exception as error:  # decoders raise anything
            return error

    damaged = []
    hidden = not sys.stderr.isatty()
    with (
        ThreadPoolExecutor() as pool,
        tqdm(total=len(listed), desc=f"reading {description}", unit="image", disable=hidden) as bar,
    ):
        for start in range(0, len(listed), AT_A_TIME):  # not all at once: they are kept in memory
            files = [file for file, _ in listed[start : start + AT_A_TIME]]
            for file, outcome in zip(files, pool.map(attempt, files), strict=True):
                bar.update()
                if isinstance(outcome, Exception):
                    damaged.append(f"{file} cannot be read as an image ({outcome})")
                elif not damaged:
                    yield outcome
    if damaged:
        more = f"\nand {len(damaged) - MOST_NAMED} more" if len(damaged) > MOST_NAMED else ""
        raise InputError("\n".join(damaged[:MOST_NAMED]) + more + "\nremove or replace them")


def _size(image: Any) -> tuple[int, bool]:
    """The shorter side of an image, and whether its file has several pictures."""
    several = image.format in ONE_OF_MANY and getattr(image, "is_animated", False)
    return min(image.size), several


def _square(image: Any, *, side: int, fit: bool) -> Images:
    """RGB pixels of an image, uint8 [side, side, 3]; other sizes are fitted or refused."""
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
    """An image rotated by its EXIF data; unchanged if they cannot be read."""
    from PIL import ImageOps

    image.load()  # damaged pixels are an error
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # damaged EXIF data, which viewers ignore
        return image


def _opaque(image: Any) -> Any:
    """An image as RGB, transparent pixels on a background."""
    from PIL import Image

    if image.mode[-1] not in "APa" and "transparency" not in image.info:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, BACKGROUND), layer).convert("RGB")
