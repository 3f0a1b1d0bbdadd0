"""Real faults: killed processes, full disks."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from gcl_hard import bench, pretrain, tune
from gcl_hard.errors import InputError
from gcl_hard.molecules import read_molecules
from gcl_hard.training.checkpoint import Checkpoint
from tests.experiments import engine_tasks as tasks
from tests.experiments.made import numbers
from tests.experiments.test_pretraining import equal
from tests.experiments.test_store import held_elsewhere
from tests.faults.killed import TINY, write_chains
from tests.said import says
from tests.test_commands import complete, scores

ROOT = Path(__file__).parents[1]
MIB = 2**20


# Disks that are full, and folders that cannot be written to


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """The folder of a file system of two MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    if shutil.which("mount") is None or not mounts("-t", "tmpfs", "-o", "size=2m", "tmpfs", path):
        pytest.skip("no file system can be mounted here, which takes Linux and its root")
    yield path
    assert subprocess.run(["umount", "--lazy", path], check=False).returncode == 0


def mounts(*options: str | Path) -> bool:
    return subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0


def fill(disk: Path) -> Path:
    """A file that takes up all that is left."""
    ballast = disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return ballast


def commands(disk: Path, tmp_path: Path) -> dict[str, tuple[Callable[..., int], list[str]]]:
    """Entry points with arguments that write to a disk."""
    table = tmp_path / "chains.csv"
    molecules = [f"--dataset={write_chains(table, 60)}"]
    graphs = ["--method=ucl", "--epochs=2", "--layers=1", "--dim=4", "--device=cpu", "--threads=1"]
    return {
        "bench": (bench.main, [*graphs, "--seeds=2", "--folds=2", f"--output={disk / 'out'}"]),
        "tune": (tune.main, [*graphs, "--method=hscl", "--trials=2", f"--output={disk / 'out'}"]),
        "pretrain": (pretrain.main, [*molecules, "--layers=1", "--dim=8", "--epochs=2",
                     "--batch-size=16", "--checkpoint-minutes=0", f"--output={disk / 'a.pt'}"]),
    }  # fmt: skip


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bench", "tune", "pretrain"])
def test_on_a_full_disk_a_command_says_so_and_with_room_it_goes_on(
    name: str, disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, arguments = commands(disk, tmp_path)[name]
    (disk / "out").mkdir()
    ballast = fill(disk)
    assert command(arguments) == 2
    err = capsys.readouterr().err
    assert err.count("error:") == 1
    assert "No space left" in err or "disk is full" in err
    assert str(disk) in err.replace("\n", "")
    assert "Traceback" not in err
    assert {path for path in files(disk) if path.stat().st_size} == {ballast}
    ballast.unlink()
    assert command(arguments) == 0, capsys.readouterr().err
    assert not list(disk.rglob(".*"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bench", "tune", "pretrain"])
def test_a_folder_that_cannot_be_written_to_is_one_message_before_training(
    name: str, disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    command, arguments = commands(disk, tmp_path)[name]
    (disk / "out").mkdir()
    assert mounts("-o", "remount,ro", disk)
    monkeypatch.setattr(torch.Tensor, "backward", None)  # nothing is trained
    assert command(arguments) == 2
    err = capsys.readouterr().err
    assert err.count("error:") == 1
    assert "Read-only file system" in err
    assert str(disk) in err.replace("\n", "")
    assert "Traceback" not in err


def test_a_cache_on_a_full_disk_says_so_and_with_room_it_is_filled(
    disk: Path, tmp_path: Path
) -> None:
    pytest.importorskip("rdkit")
    table = write_chains(tmp_path / "chains.csv", 400)
    ballast = fill(disk)
    with pytest.raises(OSError, match="No space left"):
        read_molecules(table, cache_dir=disk)
    assert files(disk) == {ballast}
    ballast.unlink()
    assert len(read_molecules(table, cache_dir=disk).molecules) == 400
    assert [path.name.partition("-")[0] for path in disk.glob("molecules/*")] == ["chains"]


def test_a_checkpoint_on_a_full_disk_says_so_and_leaves_the_one_before(disk: Path) -> None:
    checkpoint = Checkpoint(disk / "run.ckpt", {"lr": 1}, resume=True)
    checkpoint.save({"step": 1})
    ballast = fill(disk)
    with pytest.raises(InputError, match=r"write .*run\.ckpt: No space left"):
        checkpoint.save({"step": 2, "weights": torch.zeros(100_000)})
    assert files(disk) == {ballast, checkpoint.path}
    assert checkpoint.load() == {"step": 1}
    ballast.unlink()
    checkpoint.save({"step": 3, "weights": torch.zeros(100_000)})
    state = checkpoint.load()
    assert state is not None
    assert state["step"] == 3


# Two commands at the same time


def words(command: Callable[..., int], arguments: list[str]) -> list[str]:
    return [*tasks.command(entry(command)), *arguments]


def entry(command: Callable[..., int]) -> str:
    """What stands after ``python -m``: the commands are defined in gcl_hard.commands."""
    return f"gcl_hard.{command.__module__.rpartition('.')[2]}"


@pytest.mark.slow
@pytest.mark.exact
def test_of_two_commands_one_pre_trains_and_the_other_says_so(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    table = write_chains(tmp_path / "chains.csv", 60)
    command = [f"--dataset={table}", "--dim=8", "--batch-size=16", "--epochs=30"]
    alone = tmp_path / "alone.pt"
    assert pretrain.main([*command, f"--output={alone}"]) == 0
    both = words(pretrain.main, [*command, f"--output={tmp_path / 'out' / 'a.pt'}"])
    with tasks.process(*both) as first, tasks.process(*both) as second:
        errors = [process.communicate()[1] for process in (first, second)]
    status = {first.returncode, second.returncode}
    assert status <= {0, 2}, errors
    assert 0 in status, errors
    if 2 in status:
        assert any(says(text, "a.pt", "another command") for text in errors)
    assert equal(tmp_path / "out" / "a.pt", alone)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.pt"]


def test_an_encoder_that_another_command_trains_is_left_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rdkit")
    command, arguments = commands(tmp_path, tmp_path)["pretrain"]
    with held_elsewhere(tmp_path / ".a.pt.lock"):
        assert command(arguments) == 2
        assert says(capsys.readouterr().err, "a.pt", "another command")
    assert command(arguments) == 0


# A scheduler that is killed


@pytest.mark.slow
@pytest.mark.exact
def test_runs_go_on_with_another_scheduler_after_the_first_is_killed(tmp_path: Path) -> None:
    out, alone = tmp_path / "out", tmp_path / "alone"
    command = ["--method=ucl,hscl", "--seeds=3", "--epochs=60", "--folds=2", "--ensemble-size=1",
               "--c-grid=1", *TINY[:-1]]  # fmt: skip
    for name, status in (("first", 2), ("second", 0)):
        (tmp_path / name).mkdir()
        with (
            tasks.scheduler(tmp_path / name) as (address, of_scheduler),
            tasks.process(
                *words(bench.main, [*command, f"--output={out}", f"--scheduler={address}"])
            ) as driver,
        ):
            if status:
                tasks.wait_for(lambda: list(out.glob("*_seed*.json")), driver)
                of_scheduler.kill()
            _, err = driver.communicate()
            assert driver.returncode == status, err
    assert bench.main([*command, f"--output={alone}"]) == 0
    assert len(numbers(alone)) == 6
    assert numbers(out) == numbers(alone)
    assert not list(out.glob(".*"))


@pytest.mark.slow
@pytest.mark.exact
def test_a_search_goes_on_after_its_scheduler_is_killed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["--method=hscl", "--epochs=60", "--trials=6", "--ensemble-size=1",
               "--sampler=random", "--c-grid=1", "--study-name=search", *TINY[:-1]]  # fmt: skip
    with (
        tasks.scheduler(tmp_path) as (address, of_scheduler),
        tasks.process(
            *words(tune.main, [*command, f"--output={out}", f"--scheduler={address}"])
        ) as driver,
    ):
        tasks.wait_for(lambda: complete(out) > 0, driver)
        of_scheduler.kill()
        _, err = driver.communicate()
        assert driver.returncode == 2, err
        assert says(err, "scheduler", "lost", "command")
    ended = scores(out)
    assert 0 < len(ended) < 6
    assert tune.main([*command, f"--output={out}"]) == 0
    assert {*ended} <= {*scores(out)}  # what is drawn after a kill may differ
    assert complete(out) == 6
