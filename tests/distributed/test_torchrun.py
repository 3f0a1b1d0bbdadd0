"""Training on several processes, as torchrun starts them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from gcl_hard.tune import main as tune

ROOT = Path(__file__).parents[2]


def started(n: int, *arguments: str, folder: Path) -> subprocess.Popen[str]:
    start = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n}", "-m"]
    return subprocess.Popen(
        [sys.executable, *(start if n > 1 else ["-m"]), *arguments],
        cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def torchrun(n: int, *arguments: str, folder: Path) -> tuple[int, str]:
    """Exit status and what was said on stderr."""
    with started(n, *arguments, folder=folder) as process:
        said = process.communicate(timeout=500)[1]
    return process.returncode, said


def test_processes_train_the_weights_of_one(tmp_path: Path) -> None:
    found = []
    for n in (1, 3):
        path = tmp_path / f"{n}.pt"
        status, said = torchrun(n, "tests.distributed.small_training", str(path), folder=tmp_path)
        assert status == 0, said
        found.append(torch.load(path))
    (losses, weights), (losses_of_three, weights_of_three) = found
    assert losses_of_three == pytest.approx(losses, rel=1e-6)
    for name, of_one in weights.items():
        torch.testing.assert_close(weights_of_three[name], of_one, rtol=1e-6, atol=1e-9)


def test_a_search_is_started_without_it(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert tune(["--dataset", "MUTAG", "--trials", "1"]) == 2
    assert "without torchrun" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_trains_images_together_and_resumes_with_as_many(tmp_path: Path) -> None:
    command = [
        "gcl_hard.bench", "--dataset=digits", "--encoder=fast", "--width=4", "--size=8",
        "--method=hscl", "--seeds=1", "--negatives=gathered", "--batch-size=64", "--subset=256",
        "--monitor-every=0", "--checkpoint-minutes=0",
    ]  # fmt: skip
    with started(2, *command, "--epochs=4000", folder=tmp_path) as process:
        end = time.monotonic() + 300
        while not [*tmp_path.glob("results/*.ckpt")]:
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=100)
    status, said = torchrun(3, *command, "--epochs=4000", "--resume", folder=tmp_path)
    assert status != 0
    assert "processes 2 there, 3 here" in said
    saved = {path.name: path.stat().st_mtime for path in tmp_path.glob("results/*.ckpt")}
    with started(2, *command, "--epochs=4000", "--resume", folder=tmp_path) as process:
        end = time.monotonic() + 300
        while saved == {p.name: p.stat().st_mtime for p in tmp_path.glob("results/*.ckpt")}:
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=100)
    status, said = torchrun(2, *command, "--epochs=2", "--output=short", folder=tmp_path)
    assert status == 0, said
    (path,) = (tmp_path / "short").glob("*_seed0.json")
    assert json.loads(path.read_text())["device"].startswith("2 × ")


@pytest.mark.slow
def test_another_number_of_processes_leaves_finished_results_as_they_are(tmp_path: Path) -> None:
    command = [
        "gcl_hard.bench", "--dataset=digits", "--encoder=fast", "--width=4", "--method=hscl",
        "--seeds=1", "--batch-size=32", "--subset=64", "--epochs=1", "--monitor-every=0",
        "--probe-epochs=1", "--size=8", "--device=cpu", "--threads=2", "--save-encoder",
    ]  # fmt: skip
    found: dict[str, bytes] = {}
    for n in (1, 2):
        status, said = torchrun(n, *command, folder=tmp_path)
        assert status == 0, said
        now = {path.name: path.read_bytes() for path in (tmp_path / "results").glob("*_seed0.*")}
        assert found.items() <= now.items()
        found = now
    assert len(found) == 4


@pytest.mark.slow
@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_of_one_process_ends_all(failing: int, tmp_path: Path) -> None:
    status, said = torchrun(2, "tests.distributed.failing", str(failing), folder=tmp_path)
    assert status != 0
    assert "no space left for it" in said


@pytest.mark.slow
def test_graphs_are_not_trained_together(tmp_path: Path) -> None:
    status, said = torchrun(2, "gcl_hard.bench", "--dataset=MUTAG", "--epochs=2", folder=tmp_path)
    assert status != 0
    assert "image encoders" in said
