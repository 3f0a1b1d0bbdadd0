"""Where data lie on this machine, and files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gcl_hard.errors import InputError


def cache_root(cache_dir: str | Path | None = None) -> Path:
    """The cache's root; it need not exist.

    Args:
        cache_dir: the root itself; by default the environment's ``GCL_HARD_CACHE``, else
            ``gcl_hard`` under ``XDG_CACHE_HOME``, else ``~/.cache/gcl_hard``.

    Returns:
        The folder; graph sets lie in its ``tu``, image sets in its ``images``.

    Example:
        >>> cache_root("a/b").as_posix()
        'a/b'
    """
    root = cache_dir or os.environ.get("GCL_HARD_CACHE")
    if root:
        return Path(root).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "gcl_hard"


def given_folder(data_dir: str | Path | None, *, files: str) -> Path | None:
    """The offline mirror: the folder given, else the one ``GCL_HARD_DATA`` names.

    Args:
        data_dir: a folder, or None.
        files: what is expected in it, for the message.

    Returns:
        The folder; None if none is named.

    Raises:
        InputError: if it is not a folder.

    Example:
        >>> given_folder(".", files="NAME.zip files").as_posix()
        '.'
    """
    given = data_dir or os.environ.get("GCL_HARD_DATA")
    if not given:
        return None
    path = Path(given).expanduser()
    if not path.is_dir():
        who = "data_dir" if data_dir else "GCL_HARD_DATA"
        raise InputError(f"{who}={str(given)!r} is not a folder; expected one with {files}")
    return path


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write; it takes its place when it is whole and on the disk.

    Whoever reads meanwhile, or is killed, finds the old file or the new one.

    Args:
        path: of the file; its folder is made.

    Yields:
        A binary file beside it, which is removed if anything is raised.

    Raises:
        InputError: if the place cannot be written to; names it.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with written_whole(Path(folder) / "a" / "b.txt") as file:
        ...         _ = file.write(b"whole")
        ...     (Path(folder) / "a" / "b.txt").read_text()
        'whole'
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException as error:
            Path(temporary).unlink(missing_ok=True)
            hidden = error.__context__  # torch.save raises its own error over what stopped it
            if isinstance(error, RuntimeError) and isinstance(hidden, (KeyboardInterrupt, OSError)):
                raise hidden from None
            raise
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
