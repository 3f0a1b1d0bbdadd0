"""Training on several processes, as torchrun starts them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gcl_hard.tune import main as tune
from tests.distributed import run_processes, small_training
from tests.experiments.engine_tasks import wait_for
from tests.said import says

ROOT = Path(__file__).parents[2]
SMALL = [
    "gcl_hard.bench", "--dataset=digits", "--encoder=fast", "--width=4", "--method=hscl",
    "--seeds=1", "--batch-size=32", "--subset=64", "--monitor-every=0", "--probe-epochs=1",
    "--size=8", "--device=cpu", "--threads=2",
]  # fmt: skip


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
        stderr = process.communicate()[1]
    return process.returncode, stderr


@pytest.mark.exact
def test_processes_train_the_weights_of_one(tmp_path: Path) -> None:
    saved = []
    for n, parts in ((1, 1), (3, 1), (3, 2)):
        path = tmp_path / f"{n}-{parts}.pt"
        run_processes(small_training.main, n, str(path), parts, nprocs=n)
        saved.append(torch.load(path))
    (losses, weights), *others = saved
    for losses_of_three, weights_of_three in others:
        assert losses_of_three == pytest.approx(losses, rel=1e-6)
        for name, expected in weights.items():
            torch.testing.assert_close(weights_of_three[name], expected, rtol=1e-6, atol=1e-9)


def test_a_search_is_started_without_it(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert tune(["--dataset", "MUTAG", "--trials", "1"]) == 2
    assert says(capsys.readouterr().err, "torchrun", "--jobs", "--scheduler")


@pytest.mark.slow
def test_the_command_trains_images_together_and_resumes_with_as_many(tmp_path: Path) -> None:
    command = [
        "gcl_hard.bench", "--dataset=digits", "--encoder=fast", "--width=4", "--size=8",
        "--method=hscl", "--seeds=1", "--negatives=gathered", "--batch-size=64", "--subset=256",
        "--monitor-every=0", "--checkpoint-minutes=0",
    ]  # fmt: skip
    with started(2, *command, "--epochs=4000", folder=tmp_path) as process:
        wait_for(lambda: [*tmp_path.glob("results/*.ckpt")], process)
        process.send_signal(signal.SIGINT)
        process.communicate()
    status, stderr = torchrun(3, *command, "--epochs=4000", folder=tmp_path)
    assert status != 0
    assert re.search(r"\bprocesses 2\b.*\b3\b", stderr)

    def times() -> dict[str, float]:
        return {path.name: path.stat().st_mtime for path in tmp_path.glob("results/*.ckpt")}

    saved = times()
    with started(2, *command, "--epochs=4000", folder=tmp_path) as process:
        wait_for(lambda: saved != times(), process)
        process.send_signal(signal.SIGINT)
        process.communicate()


@pytest.mark.slow
def test_another_number_of_processes_leaves_finished_results_as_they_are(tmp_path: Path) -> None:
    command = [*SMALL, "--epochs=1", "--save-encoder"]
    contents: dict[str, bytes] = {}
    for n in (1, 2):
        status, stderr = torchrun(n, *command, folder=tmp_path)
        assert status == 0, stderr
        now = {path.name: path.read_bytes() for path in (tmp_path / "results").glob("*_seed0.*")}
        assert contents.items() <= now.items()
        contents = now
    assert len(contents) == 4
    devices = [json.loads(contents[name])["device"] for name in contents if name.endswith(".json")]
    assert sorted(device.startswith("2 × ") for device in devices) == [False, True]


@pytest.mark.slow
@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_of_one_process_ends_all(failing: int, tmp_path: Path) -> None:
    status, stderr = torchrun(2, "tests.distributed.failing", str(failing), folder=tmp_path)
    assert status != 0
    assert "no space left for it" in stderr


@pytest.mark.slow
def test_a_loss_that_diverges_ends_its_run_alone(tmp_path: Path) -> None:
    command = [*SMALL, "--epochs=2", "--lr=1e30,0.01"]
    status, stderr = torchrun(2, *command, folder=tmp_path)
    assert status != 0
    assert says(stderr, "hscl", "epoch", 1, "lr")
    (path,) = (tmp_path / "results").glob("*_seed0.json")
    assert json.loads(path.read_text(encoding="utf-8"))["config"]["lr"] == 0.01


@pytest.mark.slow
def test_graphs_are_not_trained_together(tmp_path: Path) -> None:
    status, stderr = torchrun(2, "gcl_hard.bench", "--dataset=MUTAG", "--epochs=2", folder=tmp_path)
    assert status != 0
    assert says(stderr, "torchrun", "image", "--jobs", "--scheduler")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="a batch script of a Unix system")
def test_the_batch_script_of_the_docs_saves_and_queues_itself_again(tmp_path: Path) -> None:
    """Without Slurm: its scontrol is one that writes down what it is asked for."""
    text = (ROOT / "docs/running.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```bash\n(#!/bin/bash\n#SBATCH.*?)```", text, re.DOTALL)
    (tmp_path / "job.sh").write_text(script, encoding="utf-8")
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "scontrol").write_text('#!/bin/bash\necho "$@" >> requeued\n', encoding="utf-8")
    (fake / "scontrol").chmod(0o755)
    (fake / "torchrun").write_text(
        f'#!/bin/bash\nexec {sys.executable} -m torch.distributed.run "$@"\n', encoding="utf-8"
    )
    (fake / "torchrun").chmod(0o755)
    path = os.pathsep.join((str(fake), os.environ["PATH"]))

    def job(epochs: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "job.sh", *SMALL[1:], f"--epochs={epochs}", "--checkpoint-minutes=0"],
            cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": path,
                 "NPROC": "2", "SLURM_JOB_ID": "7"},
        )  # fmt: skip

    with job(4000) as process:
        wait_for(lambda: [*tmp_path.glob("results/*.ckpt")], process)
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert (tmp_path / "requeued").read_text(encoding="utf-8").split() == ["requeue", "7"]
    (tmp_path / "requeued").unlink()
    for checkpoint in tmp_path.glob("results/*.ckpt"):
        checkpoint.unlink()
    with job(1) as process:
        stderr = process.communicate()[1]
    assert process.returncode == 0, stderr
    assert not (tmp_path / "requeued").exists()
    assert [*tmp_path.glob("results/*_seed0.json")]
