"""The hardware that a run uses: device, threads, versions."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

from gcl_hard.errors import InputError
from gcl_hard.files.io import file_digest
from gcl_hard.version import __version__

PACKAGES = ("torch", "torch-geometric", "torchvision", "kornia", "scikit-learn", "numpy")

CONTAINER = Path("/sys/fs/cgroup")
"""Folder with the memory limit and the memory use of a container."""


def choose_device(asked: str) -> torch.device:
    """Choose the device to train on.

    Args:
        asked: ``auto`` (CUDA where there is one), ``cpu``, ``cuda`` or ``cuda:N``.

    Returns:
        The device.

    Raises:
        InputError: for another word, or a device that is not available.

    Example:
        >>> choose_device("cpu")
        device(type='cpu')
    """
    if asked == "auto":
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(asked)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"device must be auto, cpu, cuda or cuda:N, got {asked!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(
            f"device {asked} is not available: this PyTorch sees {torch.cuda.device_count()} CUDA "
            f"device(s); use --device cpu"
        )
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else device


@contextmanager
def arithmetic(device: torch.device, *, tf32: bool, deterministic: bool) -> Iterator[str]:
    """Set the arithmetic of a GPU; that of a CPU stays as it is.

    Args:
        device: the device.
        tf32: whether products of float32 use 10 bits of each factor; convolutions always do, as is
            PyTorch's default.
        deterministic: whether algorithms whose sums depend on the order of atomics are avoided; an
            operation that has no other raises an error that names it.

    Yields:
        Settings other than the defaults, to append to the name of the device.

    Example:
        >>> with arithmetic(torch.device("cpu"), tf32=True, deterministic=False) as suffix:
        ...     suffix
        ''
    """
    if device.type != "cuda":
        yield ""
        return
    with ExitStack() as restored:
        if tf32:
            matmul = torch.backends.cuda.matmul
            restored.callback(setattr, matmul, "allow_tf32", matmul.allow_tf32)
            matmul.allow_tf32 = True
        if deterministic:
            # Read when cuBLAS starts; only with such workspaces do its sums keep their order.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            restored.callback(
                torch.use_deterministic_algorithms,
                torch.are_deterministic_algorithms_enabled(),
                warn_only=torch.is_deterministic_algorithms_warn_only_enabled(),
            )
            torch.use_deterministic_algorithms(True)
        yield ", TF32" * tf32 + ", deterministic" * deterministic


def device_name(device: torch.device) -> str:
    """Description of a device, for the result file."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU {_processor()}, {torch.get_num_threads()} thread(s)"


def _processor() -> str:
    """Name of the CPU model: Linux's, or else what Python knows."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> int | None:
    """Bytes that this process may still take; None if the system does not say.

    The lesser of the memory that Linux has available and of that which a container's limit leaves.
    """
    known = []
    if "MemAvailable:" in (info := _words(Path("/proc/meminfo"))):
        known.append(1024 * int(info[info.index("MemAvailable:") + 1]))
    most, used = (_words(CONTAINER / f"memory.{name}") for name in ("max", "stat"))
    if "anon" in used and most and most[0].isdecimal():  # without the page cache, which gives way
        known.append(int(most[0]) - int(used[used.index("anon") + 1]))
    return max(0, min(known)) if known else None


def _words(file: Path) -> list[str]:
    """The words of a file of the system; none without it."""
    try:
        return file.read_text(encoding="utf-8").split()
    except OSError:
        return []


def use_threads(
    asked: int | None, nodes_in_batch: float, width: int, cores: int | None = None
) -> int:
    """Set PyTorch's threads for a training run.

    A second thread pays once matrices are large; with TU-sized batches threads mostly wait for
    each other, and next to another busy process they slow down both many times.

    Args:
        asked: a number of threads, or None to choose, at most ``OMP_NUM_THREADS`` if that is set.
        nodes_in_batch: nodes that a step pushes through the encoder; infinity for images.
        width: width of the embeddings.
        cores: cores to choose from; all that this process may use if None.

    Returns:
        The number set.
    """
    if asked is None:
        cores = cores or available_cores()
        if (limit := os.environ.get("OMP_NUM_THREADS", "")).isdecimal():
            cores = min(cores, int(limit))
        asked = max(1, int(min(cores, nodes_in_batch * width / 1_000_000)))
    torch.set_num_threads(asked)
    threadpool_limits(asked)  # of NumPy's and scikit-learn's libraries
    return asked


def versions() -> dict[str, str]:
    """Versions of the packages that the numbers depend on, and of Python."""
    by_package = {"python": platform.python_version(), "gcl-hard": __version__}
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            by_package[name] = importlib.metadata.version(name)
    return {**by_package, "source": source_digest()}


@cache  # from the first call on, since later edits do not change the code that runs
def own_source(module: str) -> str:
    """Digest of the module that declares a configuration; empty for one of this package."""
    file = getattr(sys.modules[module], "__file__", None)
    ours = module.partition(".")[0] == __name__.partition(".")[0]
    return "" if ours or file is None else file_digest(file)


def source_digest() -> str:
    """Digest of this package's source, stored in results."""
    digest = hashlib.sha256()
    root = Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]
