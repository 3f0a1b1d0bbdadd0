"""Tests with several processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import multiprocessing


def run_processes(function: Callable[..., Any], *arguments: Any, nprocs: int) -> None:
    """Run function(rank, *arguments) in processes that are forked from a fresh one.

    From this one they cannot be where a test before has made autograd start threads.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lightning_fabric", "gcl_hard.losses.loss", "pytest"])
    multiprocessing.start_processes(function, arguments, nprocs=nprocs, start_method="forkserver")
