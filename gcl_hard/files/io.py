"""The folders of data on this machine, and atomic writing of files."""

from __future__ import annotations

import base64
import contextlib
import errno
import glob
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from gcl_hard.errors import GclHardError, InputError

SCRATCH, PARTIAL = ".partial-", ".partial"
"""Prefix of temporary folders, and suffix of temporary files."""
DAY = 24 * 60 * 60


def cache_root(cache_dir: str | Path | None = None) -> Path:
    """The root folder of the cache; it need not exist.

    Args:
        cache_dir: the root itself; by default the environment's ``GCL_HARD_CACHE``, else
            ``gcl_hard`` under ``XDG_CACHE_HOME``, else ``~/.cache/gcl_hard``.

    Returns:
        The folder; graph sets are in its subfolder ``tu``, graphs with classes of nodes in
        ``nodes``, image sets in ``images``. Where no home can be entered, as in a container, it
        is in the folder of temporary files.

    Example:
        >>> cache_root("a/b").as_posix()
        'a/b'
    """
    root = cache_dir or os.environ.get("GCL_HARD_CACHE")
    if root:
        return expanded(root)
    shared = os.environ.get("XDG_CACHE_HOME")
    if shared:
        return Path(shared) / "gcl_hard"
    home = expanded("~")
    usable = os.access(home, os.X_OK)
    return (home if usable else Path(tempfile.gettempdir())) / ".cache" / "gcl_hard"


def expanded(path: str | Path) -> Path:
    """A path in which ``~`` and ``~USER`` are home folders; that of an unknown user stays.

    Example:
        >>> expanded("a/b").as_posix()
        'a/b'
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111 - that of pathlib raises


def public_path(path: str | Path) -> str:
    """A path as result pages show it: relative to the working folder, or else its name alone.

    Example:
        >>> public_path("/home/me/secret/made.csv"), public_path("data/made.csv")
        ('made.csv', 'data/made.csv')
        >>> public_path(Path.cwd() / "data" / "made.csv")
        'data/made.csv'
    """
    plain = Path(path).expanduser() if str(path).startswith("~/") else Path(path)
    if not plain.is_absolute():
        return Path(path).as_posix() if isinstance(path, Path) else path
    if plain.is_relative_to(Path.cwd()):
        return plain.relative_to(Path.cwd()).as_posix()
    return plain.name


def check_regular(path: Path) -> None:
    """InputError for a path that is no regular file, such as a pipe, which might block for ever.

    Raises:
        InputError: if it is a folder, a pipe or a device; names it.
    """
    with contextlib.suppress(OSError):  # left to the reader
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "folder" if stat.S_ISDIR(mode) else "pipe or device"
            raise InputError(f"{path} is a {kind}, and must be a file")


def file_digest(path: str | Path) -> str:
    """Sixteen hexadecimal digits of the SHA-256 of a file's content."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]


def digest_of_arrays(*arrays: Any) -> str:
    """Sixteen hexadecimal digits of the SHA-256 of arrays: their types, shapes and values.

    Args:
        arrays: NumPy arrays, or tensors on any device.

    Example:
        >>> digest_of_arrays([1, 2], [3.0]) == digest_of_arrays([1, 2], [3.0])
        True
        >>> digest_of_arrays([1, 2]) == digest_of_arrays([[1, 2]])
        False
    """
    digest = hashlib.sha256()
    for value in arrays:
        array = storable(np.ascontiguousarray(value.cpu() if hasattr(value, "cpu") else value))
        digest.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()[:16]


def storable(array: NDArray[Any]) -> NDArray[Any]:
    """An array as stored in a file: Python strings become JSON, a single bytes value.

    Example:
        >>> storable(np.array(["a", "b\\0"], object)).item()
        b'["a", "b\\\\u0000"]'
    """
    return array if array.dtype != object else np.array(json.dumps(array.tolist()).encode())


def joined_digest(digest: str, *more: str) -> str:
    """A digest, combined with further distinguishing texts if there are any.

    Example:
        >>> joined_digest("0123") == "0123" != joined_digest("0123", "fold 1")
        True
    """
    if not more:
        return digest
    return hashlib.sha256(" ".join([digest, *more]).encode()).hexdigest()[:16]


def file_stamp(path: Path) -> tuple[int, int, int] | None:
    """Size, modification and change time of a file, by which changed content is recognised.

    The change time is set by the system alone; on Windows it is the time of creation, and a file
    rewritten with its old size and time goes unnoticed there. None if there is no file.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def given_folder(data_dir: str | Path | None, *, files: str) -> Path | None:
    """The offline mirror of data sets: ``data_dir``, else the folder that ``GCL_HARD_DATA`` names.

    Args:
        data_dir: a folder, or None.
        files: the kind of files expected in it, for the message.

    Returns:
        The folder; None if neither names one.

    Raises:
        InputError: if it is not a folder.

    Example:
        >>> given_folder(".", files="NAME.zip files").as_posix()
        '.'
    """
    folder = data_dir or os.environ.get("GCL_HARD_DATA")
    if not folder:
        return None
    path = expanded(folder)
    if not path.is_dir():
        who = "data_dir" if data_dir else "GCL_HARD_DATA"
        raise InputError(f"{who}={str(folder)!r} is not a folder; expected one with {files}")
    return path


@contextmanager
def opened_npz(path: Path) -> Iterator[NpzFile]:
    """An ``.npz`` file, opened without loading pickles.

    Args:
        path: the file.

    Yields:
        Its arrays, to be read by :func:`array_of`.

    Raises:
        InputError: if it is no such file; names it.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.savez(Path(folder) / "a.npz", x=[1, 2])
        ...     with opened_npz(Path(folder) / "a.npz") as stored:
        ...         array_of(stored, Path("a.npz"), "x")
        array([1, 2])
    """
    with path.open("rb") as file:
        with reading(path, "an .npz file of named arrays, as numpy.savez writes"):
            stored = np.load(file, allow_pickle=False)
            stored.files  # noqa: B018 - a single array has none
        yield stored


def array_of(stored: NpzFile, path: Path, key: str) -> Any:
    """An array of an ``.npz`` file.

    Args:
        stored: from :func:`opened_npz`.
        path: its path, for messages.
        key: name of the array.

    Raises:
        InputError: if it is missing, damaged, or holds Python objects.
    """
    if key not in stored.files:
        raise InputError(f"{path} lacks {key}; it has {', '.join(sorted(stored.files))}")
    try:
        return stored[key]
    except Exception as error:  # from zip and its decompressors, or of Python objects
        raise InputError(
            f"{path}: {key} is damaged, or holds Python objects ({error}): save text of pandas by "
            f".to_numpy(dtype='U')"
        ) from error


def texts_of(stored: NpzFile, path: Path, key: str) -> tuple[str, ...]:
    """Words of an ``.npz`` file, such as names of classes; arguments as for :func:`array_of`.

    Raises:
        InputError: as for :func:`array_of`, and for bytes that are not UTF-8.
    """
    names = array_of(stored, path, key).ravel()
    try:
        return tuple(
            (np.char.decode(names) if names.dtype.kind == "S" else names.astype(str)).tolist()
        )
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {key} are no text in UTF-8 ({error})") from error


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Write a file atomically: it replaces ``path`` once it is complete and on the disk.

    Readers, and a process restarted after a kill, find either the old file or the new one.

    Args:
        path: path of the file; its folder is created if needed.

    Yields:
        A temporary binary file in the same folder, removed if an exception is raised.

    Raises:
        InputError: if the file cannot be written; names it.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with atomic_write(Path(folder) / "a" / "b.txt") as file:
        ...         _ = file.write(b"whole")
        ...     (Path(folder) / "a" / "b.txt").read_text()
        'whole'
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path.parent, f".{glob.escape(path.name)}.*{PARTIAL}")
        temporary = path.with_name(f".{path.name}.{uuid4().hex}{PARTIAL}")
        try:
            with temporary.open("xb") as file:  # with the rights of the user's umask
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException as error:
            temporary.unlink(missing_ok=True)
            cause = error.__context__  # torch.save hides the cause behind its own error
            if isinstance(error, RuntimeError) and isinstance(cause, (KeyboardInterrupt, OSError)):
                raise cause from None
            raise
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def reading(path: Path, kind: str, remedy: str = "") -> Iterator[None]:
    """Turn any error of reading a damaged file into an InputError that names the file.

    Args:
        path: the file.
        kind: the expected kind of file, with its article.
        remedy: what to do about a damaged file; ends the message.

    Raises:
        InputError: for any error inside; this package's errors pass unchanged.

    Example:
        >>> with reading(Path("missing.pt"), "an encoder"):
        ...     open("missing.pt")
        Traceback (most recent call last):
        ...
        gcl_hard.errors.InputError: cannot read missing.pt: No such file or directory
    """
    try:
        yield
    except GclHardError:
        raise
    except Exception as error:  # from zip, pickle, a seek, missing content
        if isinstance(error, OSError) and error.filename:  # from opening it, not from a seek
            raise InputError(f"cannot read {path}: {error.strerror}") from error
        if isinstance(error, UnicodeDecodeError):
            raise InputError(
                f"{path} is not text in UTF-8: save it so (in Excel: CSV UTF-8)"
            ) from error
        raise InputError(
            f"{path} is damaged, or not {kind} ({type(error).__name__}){remedy}"
        ) from error


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A temporary folder inside another, removed at the end, with those of killed processes.

    Args:
        parent: path of the outer folder; it is created if needed.

    Yields:
        The path, whose name is hidden.

    Example:
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with scratch_folder(Path(root) / "sets") as folder:
        ...         _ = (folder / "a.txt").write_text("half")
        ...     list(Path(root).glob("sets/*"))
        []
    """
    parent.mkdir(parents=True, exist_ok=True)
    for pattern in (f"{SCRATCH}*", f".*{PARTIAL}"):
        _remove_leftovers(parent, pattern)
    with tempfile.TemporaryDirectory(dir=parent, prefix=SCRATCH) as folder:
        yield Path(folder)


def _remove_leftovers(folder: Path, pattern: str) -> None:
    """Remove what killed processes left half-written, after a day in which it may be in use."""
    for path in folder.glob(pattern):
        with contextlib.suppress(FileNotFoundError):  # another process has been faster
            if path.stat().st_mtime < time.time() - DAY:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold a lock that ends with the process; yields False if another process holds it.

    On file systems without locks it holds a lease instead, which expires by itself.
    """
    from filelock import BaseFileLock, FileLock, SoftFileLease, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    lock: BaseFileLock = FileLock(path, fallback_to_soft=False)
    try:
        try:
            lock.acquire(timeout=0)
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
            lock = SoftFileLease(path)
            lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        # Unlinked while held: a process that waits for the old file sees that it is gone.
        path.unlink(missing_ok=True)
        lock.release()


def write_json(content: dict[str, Any], path: Path) -> None:
    """Write JSON atomically.

    Raises:
        InputError: if the file cannot be written; names it.
    """
    with atomic_write(path) as file:
        file.write(f"{json_text(content, 1)}\n".encode())


def json_text(content: Any, indent: int | None = None) -> str:
    """A document as JSON, in which NaN and infinities are errors."""
    return json.dumps(content, indent=indent, ensure_ascii=False, allow_nan=False)


EXACT = 1e-6
"""Largest spread of float32's rounding errors, relative to the numbers', at which it is used."""


def packed(values: Any) -> str:
    """Numbers as text: their type, and base64 of their little-endian bytes.

    Whole numbers are stored as integers, and others in float32, or in float64 if float32 would make
    distinct numbers equal, or if their spread is too small relative to their size.

    Example:
        >>> packed([0, 1, 255]), packed([256]), packed([0.5, 1.0])
        ('u1:AAH/', 'u2:AAE=', 'f4:AAAAPwAAgD8=')
        >>> unpacked(packed([-1, 1]))
        array([-1,  1])
    """
    array = np.asarray(values)
    kind = _kind(array)
    return f"{kind}:{base64.b64encode(array.astype(f'<{kind}').tobytes()).decode()}"


def _kind(array: np.ndarray[Any, Any]) -> str:
    """The smallest type that preserves the numbers."""
    if array.dtype.kind != "f" or (array == np.floor(array.clip(0, 2**32 - 1))).all():
        if array.min(initial=0) < 0:
            return "i8"
        largest = int(array.max(initial=0))
        return next(k for k in ("u1", "u2", "u4", "u8") if largest <= np.iinfo(k).max)
    finite = array[np.isfinite(array)]
    short = finite.astype(np.float32)
    apart = len(np.unique(short)) == len(np.unique(finite))  # so that ranks stay as they are
    near = not finite.size or np.std(finite - short) <= EXACT * np.std(finite)
    return "f4" if apart and near else "f8"


BITS = "bits"
"""Prefix of the type of numbers that :func:`packed_bits` wrote."""


def packed_bits(values: Any) -> str:
    """Whole numbers from 0 as text, each in as many bits as the largest needs.

    Args:
        values: whole numbers or booleans, of any shape.

    Returns:
        Bits per number, the count of numbers, and base64 of the concatenated bits.

    Example:
        >>> packed_bits([True, False, True]), packed_bits([5, 1])
        ('bits1:3:oA==', 'bits3:2:pA==')
        >>> unpacked(packed_bits([5, 1]))
        array([5, 1])
    """
    array = np.asarray(values).ravel().astype(np.uint64)
    width = max(1, int(array.max(initial=0)).bit_length())
    bits = array[:, None] >> np.arange(width - 1, -1, -1, dtype=np.uint64) & 1
    encoded = base64.b64encode(np.packbits(bits.astype(bool)).tobytes()).decode()
    return f"{BITS}{width}:{array.size}:{encoded}"


def unpacked(text: str) -> np.ndarray[Any, Any]:
    """The numbers that :func:`packed` or :func:`packed_bits` wrote, int64 or float64.

    Example:
        >>> unpacked("u2:AAE=")
        array([256])
    """
    kind, _, encoded = text.partition(":")
    if kind.startswith(BITS):
        width, (count, _, encoded) = int(kind.removeprefix(BITS)), encoded.partition(":")
        held = np.frombuffer(base64.b64decode(encoded), np.uint8)
        bits = np.unpackbits(held, count=int(count) * width).reshape(-1, width)
        return bits @ (1 << np.arange(width - 1, -1, -1, dtype=np.int64))
    numbers = np.frombuffer(base64.b64decode(encoded), f"<{kind}")
    return numbers.astype(np.float64 if kind.startswith("f") else np.int64)


def check_new(path: Path, *, force: bool) -> None:
    """Refuse a file that is there, unless it may be replaced.

    Raises:
        InputError: for such a file.
    """
    if path.exists() and not force:
        raise InputError(f"{path} is there: give another name, or force=True (--force)")


def check_writable(folder: Path) -> None:
    """Create a folder and check that it is writable.

    Raises:
        InputError: if that fails; names the folder and the reason.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"cannot write to {folder}: {error.strerror}; name another folder"
        ) from error
