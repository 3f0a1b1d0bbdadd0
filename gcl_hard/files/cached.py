"""Files and folders of the cache, with the digests of what was written there."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

from gcl_hard.files.io import file_stamp, scratch_folder, write_json

CONTENTS = ".contents.json"
"""File with the digests of its folder; those of a file NAME are in ``.NAME.json`` beside it."""
_compared: dict[Path, object] = {}
"""What this process has compared with its digests, with the stamps of the files then."""


def cached_folder(path: Path, make: Callable[[Path], object]) -> Path:
    """A folder of the cache, made if it is missing or damaged.

    Args:
        path: the folder.
        make: fills a folder, which then appears under this path.

    Returns:
        The path.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as root:
        ...     folder = cached_folder(Path(root) / "set", lambda new: (new / "a").touch())
        ...     sorted(path.name for path in folder.iterdir())
        ['.contents.json', 'a']
    """
    if (file := first_damaged(path)) is not None:
        warnings.warn(f"{file} is not what was written, and {path} is made again", stacklevel=2)
        shutil.rmtree(path)
    if not path.is_dir():
        with scratch_folder(path.parent) as scratch:
            new = scratch / path.name
            new.mkdir()
            make(new)
            add(new, path)
    return path


def add(new: Path, path: Path) -> None:
    """Move a finished file or folder to its path in the cache, with its digests.

    A folder that another process has moved there meanwhile stays.
    """
    files = {"": new} if new.is_file() else {
        file.relative_to(new).as_posix(): file
        for file in sorted(new.rglob("*")) if file.is_file()
    }  # fmt: skip
    digests = {name: [file.stat().st_size, _sha256(file)] for name, file in files.items()}
    write_json({"files": digests}, _record(path) if new.is_file() else new / CONTENTS)
    try:
        new.replace(path)
    except OSError:
        if not path.is_dir():
            raise


def first_damaged(path: Path) -> Path | None:
    """The first file that is missing, or not what was written; None if all are or are unrecorded.

    Digests are compared once per process, unless a file is rewritten.

    Args:
        path: a file or folder of the cache, which may have been put there by hand.
    """
    record = path / CONTENTS if path.is_dir() else _record(path)
    if not path.exists() or not record.exists():
        return None
    try:
        digests: dict[str, list[str]] = json.loads(record.read_text(encoding="utf-8"))["files"]
    except (ValueError, LookupError):
        return record
    stamps = [file_stamp(path / name) for name in digests]
    if _compared.get(path) != stamps:
        for (name, (_, digest)), stamp in zip(digests.items(), stamps, strict=True):
            if stamp is None or _sha256(path / name) != digest:
                return path / name
        _compared[path] = stamps
    return None


def _record(file: Path) -> Path:
    return file.with_name(f".{file.name}.json")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
