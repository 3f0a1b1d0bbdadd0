"""Kernels of molecules that do not fit into memory: said before they are made, and how to go on."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gcl_hard.evaluation.transfer import rbf_kernels
from gcl_hard.experiments import hardware
from gcl_hard.graphs import load_graphs
from gcl_hard.graphs.refinement import wl_kernel
from gcl_hard.molecules import tanimoto
from tests.molecules.test_runs import SMILES, main, results, write
from tests.said import says

pytest.importorskip("rdkit")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))


def command(folder: Path, *arguments: str) -> list[str]:
    path = write(folder, "classes")
    return ["--dataset", str(path), "--seeds=1", "--output", str(folder / "out"), *arguments]


@pytest.mark.parametrize("method", ["untrained", "wl"])
def test_kernels_larger_than_memory_are_refused(
    method: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(hardware, "available_memory", lambda: 8 * len(SMILES) ** 2)
    assert main(command(tmp_path, f"--method={method}")) != 0
    message = capsys.readouterr().err
    assert says(message, len(SMILES), "GB", "--probe linear", "nystroem")
    assert says(message, "wl") == (method == "wl")
    assert "Traceback" not in message


@pytest.mark.parametrize("arguments", [["--probe=linear"], ["--probe=nystroem"], []])
def test_what_needs_no_kernels_or_has_room_for_them_is_scored(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 1 if arguments else 100 * 8 * len(SMILES) ** 2
    monkeypatch.setattr(hardware, "available_memory", lambda: room)
    assert main(command(tmp_path, "--method=ecfp,untrained", *arguments)) == 0
    assert len(results(tmp_path / "out")) == 2


def peak(make: Callable[[], object]) -> float:
    """Most bytes that are in use meanwhile."""
    tracemalloc.start()
    make()
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak_bytes


def test_kernels_are_made_without_copies_of_their_size() -> None:
    n, draws = 3000, np.random.default_rng(0)
    bits, x = (draws.random((n, 64)) < 0.1).astype(np.uint8), draws.normal(size=(n, 4))
    graphs = load_graphs("MUTAG").take([*(np.arange(n) % 188)])
    size = 8 * n**2
    assert size < peak(lambda: tanimoto(bits, bits)) < 2.5 * size
    assert 4 * size < peak(lambda: rbf_kernels(x, np.arange(n // 2))) < 4.5 * size
    assert size < peak(lambda: wl_kernel(graphs, optimal_assignment=False)) < 2.5 * size
