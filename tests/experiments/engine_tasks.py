"""Tasks that workers import by name, and processes that engines are tested with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from distributed import Client, get_worker
from distributed.comm import CommClosedError
from distributed.core import Status

ROOT = Path(__file__).parents[2]
Reporter = Callable[..., bool]


def double(n: int, *, report: Reporter) -> int:
    return 2 * n


def add(a: int, b: int, *, report: Reporter) -> int:
    return a + b


def divide(a: int, b: int, *, report: Reporter) -> float:
    return a / b


def ask(name: str, *, report: Reporter) -> bool:
    """The driver's answer."""
    return report(name, 1.0, 0.0, wait=True)


def work(name: str, seconds: float, *, report: Reporter) -> str:
    """Reports as training does, and ends early where it is asked to."""
    end = time.monotonic() + seconds
    while report(name, 0.5, 0.0):
        if time.monotonic() >= end:
            return name
        time.sleep(0.02)
    return f"{name} stopped"


def timed(seconds: float, *arguments: Any, report: Reporter) -> tuple[int, float, float]:
    """The process that it runs in, and when it began and ended."""
    start = time.time()
    time.sleep(seconds)
    return os.getpid(), start, time.time()


def touch(path: str, *arguments: Any, report: Reporter) -> str:
    Path(path).touch()
    return path


def interrupted(path: str, *, report: Reporter) -> None:
    """Is stopped by Ctrl-C once a file is there."""
    while not Path(path).exists():
        time.sleep(0.02)
    time.sleep(0.5)  # until the driver has been told that another task ended
    raise KeyboardInterrupt


def meet(folder: str, n: int, *, report: Reporter) -> int:
    """The process that it runs in, once so many do this at the same time."""
    Path(folder, f"here-{os.getpid()}").touch()
    while len(list(Path(folder).glob("here-*"))) < n:
        time.sleep(0.02)
    return os.getpid()


def lose_the_scheduler(*, report: Reporter) -> None:
    """Ends as a result does that is fetched while the scheduler dies."""
    raise CommClosedError("in <TCP (closed) ConnectionPool.gather>")


def die_once(marker: str, *, report: Reporter) -> str:
    """Kills the worker that it is tried on first."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def die(count: str, *, report: Reporter) -> None:
    """Kills every worker that it is tried on."""
    with Path(count).open("a", encoding="utf-8") as file:
        file.write("x")
    os.kill(os.getpid(), signal.SIGKILL)


def pause_once(marker: str, *, report: Reporter) -> str:
    """Pauses the worker that it is tried on first, as Dask does one that is short of memory."""
    if Path(marker).exists():
        return "alive"
    Path(marker).touch()
    get_worker().status = Status.paused
    while report("paused", 0.5, 0.0):
        time.sleep(0.02)
    raise KeyboardInterrupt  # as training does


def until_stopped(started: str, saved: str, *, report: Reporter) -> None:
    """Works until it is asked to stop, then saves."""
    Path(started).touch()
    while report("endless", 0.5, 0.0):
        time.sleep(0.02)
    Path(saved).touch()


# Processes


def wait_for(ready: Callable[[], Any], process: subprocess.Popen[str] | None = None) -> None:
    """Wait until something is so; the limit is that of every test.

    Raises:
        AssertionError: if a process ends before.
    """
    while not ready():
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.02)


def command(entry: str, *arguments: str) -> list[str]:
    return [sys.executable, "-W", "ignore", "-m", entry, *arguments]


@contextmanager
def process(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A process with a group of its own, all of which has ended afterwards."""
    with subprocess.Popen(
        words, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        # Logs are not read, and a scheduler stops when their pipe is full.
        env={**os.environ, "OMP_NUM_THREADS": "1", "DASK_LOGGING__DISTRIBUTED": "error"},
        start_new_session=True,
        # What a script starts in the background ignores Ctrl-C, and so do its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as started:  # fmt: skip
        try:
            yield started
        finally:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)


@contextmanager
def scheduler(folder: Path, threads: tuple[int, ...] = (1, 1)) -> Iterator[tuple[str, Any]]:
    """A scheduler with workers of so many threads; yields its address and process."""
    file = folder / "scheduler.json"
    with process(
        *command("distributed.cli.dask_scheduler"), "--port=0", "--no-dashboard",
        "--host=127.0.0.1", f"--scheduler-file={file}",
    ) as of_scheduler:  # fmt: skip
        wait_for(lambda: file.exists() and file.read_text(encoding="utf-8").endswith("}"))
        address = json.loads(file.read_text(encoding="utf-8"))["address"]
        with workers(folder, address, list(threads)):
            wait_for(lambda: _connected(address) == len(threads))
            yield address, of_scheduler


def _connected(address: str) -> int:
    """Workers of a scheduler."""
    with Client(address, set_as_default=False) as client:
        return len(client.scheduler_info()["workers"])


@contextmanager
def workers(folder: Path, address: str, threads: list[int]) -> Iterator[None]:
    """Workers of so many threads that join a scheduler."""
    if not threads:
        yield
        return
    with process(
        *command("distributed.cli.dask_worker"), address, f"--nthreads={threads[0]}",
        "--no-dashboard", f"--local-directory={folder}", "--death-timeout=60",
    ), workers(folder, address, threads[1:]):  # fmt: skip
        yield


def below(pid: int) -> set[int]:
    """All processes below one."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
    pids, new = set[int](), {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - pids
        pids |= new
    return pids


def alive(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def is_worker(pid: int) -> bool:
    """Whether it is a worker process of a local cluster."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"spawn_main" in line
