"""Where data lie on this machine: a folder that the user names, and the cache."""

from __future__ import annotations

import os
from pathlib import Path

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
