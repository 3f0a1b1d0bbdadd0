"""Real faults: decompression bombs, killed processes, full disks, clocks that jump."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from gcl_hard import bench, load_pretrained, pretrain, tune
from gcl_hard.errors import InputError
from gcl_hard.experiments.store import Store
from gcl_hard.files.io import refuse_bomb
from gcl_hard.graphs import load as load_graphs
from gcl_hard.molecules import read_molecules
from gcl_hard.training.checkpoint import Checkpoint
from tests.experiments import engine_tasks as tasks
from tests.experiments.made import numbers
from tests.experiments.test_pretraining import equal
from tests.experiments.test_store import held_elsewhere
from tests.faults.killed import TINY, write_chains
from tests.said import says
from tests.test_commands import complete, outcome, scores

ROOT = Path(__file__).parents[1]
MIB = 2**20

# Decompression bombs


@contextmanager
def in_little_memory(most: int = 64 * MIB) -> Iterator[None]:
    """The block allocates at most so many bytes at a time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def bomb(path: Path, *, times: int) -> Path:
    """An archive of a set of graphs whose list of edges unpacks to so many MiB."""
    edges = b"1, 2\n2, 1\n" * (MIB // 10 + 1)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("SET/SET_graph_indicator.txt", "1\n1\n")
        archive.writestr("SET/SET_graph_labels.txt", "1\n")
        with archive.open("SET/SET_A.txt", "w") as member:
            for _ in range(times):
                member.write(edges)
    return path


def test_an_archive_that_unpacks_to_a_thousandfold_is_refused_unread(tmp_path: Path) -> None:
    path = bomb(tmp_path / "SET.zip", times=220)
    assert path.stat().st_size < MIB
    sizes = rf"SET\.zip\b.*\b{path.stat().st_size:,}\b.*\b2\d\d,\d{{3}},\d{{3}}\b"
    with in_little_memory(), pytest.raises(InputError, match=sizes):
        load_graphs("SET", data_dir=tmp_path, download=False)


def test_an_archive_is_not_unpacked_beyond_the_size_that_it_declares(tmp_path: Path) -> None:
    path = bomb(tmp_path / "SET.zip", times=220)
    with zipfile.ZipFile(path) as archive:
        real = archive.getinfo("SET/SET_A.txt").file_size
    content = path.read_bytes()
    assert content.count(struct.pack("<L", real)) == 2  # in the member's header and the directory
    path.write_bytes(content.replace(struct.pack("<L", real), struct.pack("<L", 1000)))
    with (
        in_little_memory(),
        pytest.raises(InputError, match=r"SET\.zip .*read.*SET_A\.txt.*copy"),
    ):
        load_graphs("SET", data_dir=tmp_path, download=False)


def test_a_large_archive_that_is_hardly_compressed_is_none(tmp_path: Path) -> None:
    path = tmp_path / "SET.zip"
    with zipfile.ZipFile(path, "w") as archive, archive.open("SET/SET_A.txt", "w") as member:
        for _ in range(220):
            member.write(bytes(MIB))
    with zipfile.ZipFile(path) as archive:
        refuse_bomb(archive, path)


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
    with pytest.raises(InputError, match=f"write {disk}.*: No space left"):
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
    out, alone = tmp_path / "out", tmp_path / "alone"
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
    assert 0 < complete(out) < 6
    for folder in (out, alone):
        assert tune.main([*command, f"--output={folder}"]) == 0
    assert scores(out) == scores(alone)
    assert outcome(out) == outcome(alone)


# Clocks that jump

JUMPING = """
import datetime, itertools, sys, time
from gcl_hard.experiments import runner
jumps = itertools.cycle(int(one) for one in sys.argv[2].split(","))
real = time.time
class Jumping(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.now(tz) + datetime.timedelta(seconds=next(jumps))
runner.datetime = Jumping
time.time = lambda: real() + next(jumps)
sys.exit(__import__(sys.argv[1], fromlist=["main"]).main(sys.argv[3:]))
"""
YEAR = 365 * 24 * 3600


def with_clock(
    jumps: str, command: Callable[..., int], arguments: list[str]
) -> subprocess.CompletedProcess[str]:
    """A command whose clock is off by so many seconds each time that it looks, in turn."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", JUMPING, entry(command), jumps, *arguments],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.exact
def test_results_of_a_clock_that_was_set_back_replace_older_ones(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["--method=ucl", "--epochs=1", "--seeds=1", "--folds=2", "--c-grid=1", *TINY[:-1],
               f"--output={out}"]  # fmt: skip
    assert bench.main(command) == 0
    (first,) = Store(out).rows()
    for years in (1, 2):  # the second time there is the compact form
        done = with_clock(f"{-years * YEAR}", bench.main, [*command, "--force"])
        assert done.returncode == 0, done.stderr
        (second,) = Store(out).rows()
        assert second.seconds_train != first.seconds_train
        older = pytest.warns(UserWarning, match="moved to .*older")  # of the compact form
        with older if years == 2 else contextlib.nullcontext():
            assert bench.main([f"--compact={out}"]) == 0
        (kept,) = Store(out).rows()
        assert kept.seconds_train == second.seconds_train
        first = kept


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("name", ["bench", "tune", "pretrain"])
def test_a_clock_that_jumps_changes_no_number(name: str, tmp_path: Path) -> None:
    outcomes = {}
    for kind in ("steady", "jumping"):
        (tmp_path / kind).mkdir()
        command, arguments = commands(tmp_path / kind, tmp_path)[name]
        arguments = [*arguments, "--study-name=search"] if name == "tune" else arguments
        if kind == "steady":
            assert command(arguments) == 0
        else:
            jumps = f"0,{-YEAR},0,{YEAR}"
            done = with_clock(jumps, command, arguments)
            assert done.returncode == 0, done.stderr
            assert "Traceback" not in done.stderr
        out = tmp_path / kind / "out"
        outcomes[kind] = {
            "bench": lambda out=out: numbers(out),
            "tune": lambda out=out: (scores(out), outcome(out)),
            "pretrain": lambda out=out: load_pretrained(out.with_name("a.pt")).about["losses"],
        }[name]()
    assert outcomes["steady"]
    assert outcomes["jumping"] == outcomes["steady"]
