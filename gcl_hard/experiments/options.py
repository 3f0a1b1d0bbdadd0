"""What all commands that run something are told: where, and on what."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gcl_hard.errors import check_processes


def as_path(path: str | Path | None) -> Path | None:
    """A path from Python, where it may be a text."""
    return None if path is None else Path(path)


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """Where and on what a command runs.

    Attributes:
        output: folder of the results, which are saved as runs finish.
        data_dir: folder with your data sets (or set GCL_HARD_DATA).
        device: auto, cpu, cuda or cuda:N.
        jobs: processes on this machine.
        threads: CPU threads of all processes together; at least one per process.
        scheduler: tcp://HOST:PORT of a Dask scheduler that has workers.
    """

    output: Path = Path("results")
    data_dir: Path | None = None
    device: str = "auto"
    jobs: int = 1
    threads: int | None = None
    scheduler: str | None = None

    def __post_init__(self) -> None:
        check_processes(threads=self.threads, jobs=self.jobs)
