"""Packs one after the other: accidents, Ctrl-C, and scores made elsewhere."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from gcl_hard.experiments.graph_seeds import run_seed
from gcl_hard.experiments.run import _scorers
from gcl_hard.experiments.scorers import in_turn
from gcl_hard.experiments.work import Setting, Worker

from gcl_hard import evaluation
from gcl_hard.errors import DivergenceError
from gcl_hard.experiments import ensembles, scorers
from gcl_hard.experiments.ensembles import Encoder
from gcl_hard.experiments.runs import Run
from gcl_hard.graphs import GraphSet
from tests.experiments.small_cells import mutag, small
from tests.experiments.test_workers import alive

__all__ = ["mutag"]

ROOT = Path(__file__).parents[2]


def worker(output: Path) -> Worker:
    output.mkdir(exist_ok=True)
    return Worker(Setting(output, None, "cpu", 1, 1, hardware.versions()))


def jobs(n: int) -> list[Run]:
    return [Run(small(), seed) for seed in range(n)]


def ignored(encoder: int, epoch: float, loss: float, beside: int = 1) -> None:
    """An epoch that nobody watches."""


def test_what_a_killed_scorer_had_is_scored_here(tmp_path: Path) -> None:
    todo, killed = jobs(3), list[int]()

    def started(job: Run) -> Callable[..., None]:
        if job.seed == 1:  # while the first is being scored, or has been
            for child in multiprocessing.active_children():
                assert child.pid is not None
                os.kill(child.pid, signal.SIGKILL)
                killed.append(child.pid)
        return ignored

    done = list(in_turn([(job,) for job in todo], worker(tmp_path), started, scorers=1))
    assert killed
    assert {d.job for d in done} == set(todo)
    assert all(one.record is not None for one in done)
    assert not list(tmp_path.glob(".*"))  # no claim is left


def assert_second_of_three_fails(folder: Path, message: str) -> None:
    todo = jobs(3)
    done = {d.job: d for d in in_turn([tuple(todo)], worker(folder), lambda _: ignored)}
    assert [done[job].record is None for job in todo] == [False, True, False]
    assert message in str(done[todo[1]].failure)


def test_an_accident_in_scoring_is_its_seeds_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = evaluation.svm_cross_validation

    def broken(*arguments: Any, seed: int, **settings: Any) -> Any:
        if seed == 1:
            raise ZeroDivisionError("by zero")
        return real(*arguments, seed=seed, **settings)

    monkeypatch.setattr(evaluation, "svm_cross_validation", broken)
    assert_second_of_three_fails(tmp_path, "seed 1: ZeroDivisionError: by zero")


def test_an_accident_in_a_pack_is_traced_to_its_job_and_the_others_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Encoder.build

    def broken(self: Encoder) -> Any:
        if self.seed == 1:
            raise ZeroDivisionError("by zero")
        return real(self)

    monkeypatch.setattr(Encoder, "build", broken)
    assert_second_of_three_fails(tmp_path, "seed 1: ZeroDivisionError: by zero")


def test_ctrl_c_gives_all_claims_of_a_pack_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ensembles, "train_ensemble", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(in_turn([tuple(jobs(2))], worker(tmp_path), lambda _: ignored))
    assert list(tmp_path.iterdir()) == []


def test_a_fold_that_diverges_fails_its_seed_and_no_other(
    mutag: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Encoder.build

    def spoilt(self: Encoder) -> Any:
        model = real(self)
        if (self.seed, self.fold, self.cell.method) == (1, 2, "hscl"):
            torch.nn.init.constant_(model.encoder.norms[0].bias, torch.nan)
        return model

    monkeypatch.setattr(Encoder, "build", spoilt)
    cells = [small(protocol="inductive"), small("ucl", protocol="inductive")]
    todo = [Run(cell, seed) for seed in (0, 1) for cell in cells]
    found = in_turn([tuple(todo[:2]), tuple(todo[2:])], worker(tmp_path), lambda _: ignored)
    done = {d.job: d for d in found}
    assert [done[job].record is None for job in todo] == [False, False, True, False]
    assert "(MUTAG hscl β=1 inductive, seed 1, fold 2)" in str(done[todo[2]].failure)
    with pytest.raises(DivergenceError, match="seed 1, fold 2"):
        run_seed(cells[0], mutag, 1)


def test_a_gpu_has_scorers_though_there_is_one_pack(tmp_path: Path) -> None:
    of = worker(tmp_path)
    for device, cores, threads, n_packs, expected in (
        ("cpu", 4, None, 1, 0), ("cpu", 4, None, 2, 3), ("cpu", 4, 2, 2, 1), ("cpu", 1, None, 9, 0),
        ("cuda:0", 4, None, 1, 3), ("cuda:0", 4, 1, 1, 0),
    ):  # fmt: skip
        of.setting = replace(of.setting, device=device, cores=cores, threads=threads)
        assert _scorers(of, n_packs) == expected


def test_a_score_that_is_ready_is_saved_at_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    todo = jobs(2)

    def started(job: Run) -> Callable[..., None]:
        if job.seed == 1:
            assert _pool is not None
            for future in _pool._waiting:
                future.result()
            raise KeyboardInterrupt
        return ignored

    _pool: scorers.Scorers | None = None

    class Watched(scorers.Scorers):
        def __init__(self, *arguments: Any) -> None:
            nonlocal _pool
            super().__init__(*arguments)
            _pool = self

        def ready(self) -> Any:  # nobody looks until the end
            return iter(())

    monkeypatch.setattr(scorers, "Scorers", Watched)
    with pytest.raises(KeyboardInterrupt):
        list(in_turn([(job,) for job in todo], worker(tmp_path), started, scorers=1))
    assert [path.name for path in tmp_path.iterdir()] == [todo[0].file_name]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at Linux's /proc")
def test_a_scorer_ends_with_the_command_that_began_it(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from tests.experiments.test_scorers import jobs, worker, ignored\n"
        "from gcl_hard.experiments.scorers import Scorers\n"
        "if __name__ == '__main__':\n"
        "    pool = Scorers(worker(Path(sys.argv[1])), 1)\n"
        "    child = pool._pool.submit(__import__('os').getpid).result()\n"
        "    print(child, flush=True); time.sleep(600)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 30
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive(child)
