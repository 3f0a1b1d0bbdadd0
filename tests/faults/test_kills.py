"""SIGKILL at random moments: what goes on afterwards ends as if nothing had been."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gcl_hard import bench
from gcl_hard.files.cached import cached_folder
from gcl_hard.training.checkpoint import Checkpoint
from gcl_hard.tuning.storage import GIVEN_UP, failure_of
from tests.experiments.made import numbers
from tests.experiments.test_pretraining import equal
from tests.faults.killed import TINY, killed, left_over, write_chains
from tests.test_commands import graphs as rings
from tests.tuning.test_processes import check_end, trials

MIB = 2**20
pytestmark = pytest.mark.faults


@pytest.mark.exact
def test_runs_killed_at_any_moment_end_as_undisturbed_ones(tmp_path: Path) -> None:
    command = [
        "--method=ucl", "--seeds=3", "--epochs=4", "--folds=2", "--ensemble-size=1",
        "--c-grid=1", "--save-encoder", "--save-embeddings", *TINY,
    ]  # fmt: skip
    whole, ended = killed("gcl_hard.bench:main", tmp_path / "out", *command)
    names = {path.name for path in whole.iterdir()}
    assert len(numbers(whole)) == 3
    for folder in ended:
        assert numbers(folder) == numbers(whole)
        # A kill between storing a result and unlocking leaves the lock of a finished run, which
        # goes when the run is trained again.
        for path in folder.glob("*_seed*.json"):
            path.with_name(f".{path.name}.lock").touch()
        left_over(folder)
        assert (
            bench.main([argument.replace("OUT", str(folder)) for argument in [*command, "--force"]])
            == 0
        )
        assert {path.name for path in folder.iterdir()} == names
        assert numbers(folder) == numbers(whole)


@pytest.mark.exact
def test_pre_training_killed_at_any_moment_ends_as_undisturbed(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    table = write_chains(tmp_path / "chains.csv", 60)
    whole, ended = killed(
        "gcl_hard.pretrain:main", tmp_path / "out", f"--dataset={table}", "--output=OUT/a.pt",
        "--layers=2", "--dim=8", "--batch-size=16", "--epochs=8", "--checkpoint-minutes=0",
    )  # fmt: skip
    for folder in ended:
        assert equal(folder / "a.pt", whole / "a.pt")
        left = {path.name for path in folder.iterdir()} - {"a.pt"}
        assert all(name == ".a.pt.lock" or name.endswith(".partial") for name in left)


def test_a_checkpoint_killed_at_any_moment_of_its_writing_is_whole(tmp_path: Path) -> None:
    _, ended = killed("tests.killing:write_checkpoints", tmp_path / "out", "OUT")
    for folder in ended:
        assert [path.name for path in folder.iterdir()] == ["run.ckpt"]
        state = Checkpoint(folder / "run.ckpt", {"lr": 1}, resume=True).load()
        assert state is not None
        assert state["step"] == 40


def write_site(folder: Path, address: str) -> str:
    """The address of a set of graphs, in an archive that takes a while to be copied."""
    rings(folder, frozenset())
    with zipfile.ZipFile(folder / "RINGS.zip", "a") as archive:
        archive.writestr("README.txt", np.random.default_rng(0).bytes(20 * MIB))
    return address


def write_images(folder: Path) -> str:
    for i in range(200):
        path = folder / "pets" / "ab"[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (64, 64), (i, i, i)).save(path)
    return str(folder)


@pytest.mark.parametrize("command", ["download_graphs", "parse_molecules", "decode_images"])
def test_a_cache_filled_by_killed_processes_holds_what_is_whole(
    command: str, tmp_path: Path, site: tuple[Path, str]
) -> None:
    if command == "parse_molecules":
        pytest.importorskip("rdkit")
    source = {
        "download_graphs": lambda: write_site(*site),
        "parse_molecules": lambda: str(write_chains(tmp_path / "chains.csv", 400)),
        "decode_images": lambda: write_images(tmp_path / "images"),
    }[command]()
    whole, ended = killed(f"tests.killing:{command}", tmp_path / "out", "OUT", source, kills=20)
    (place,) = (path for path in whole.iterdir() if path.is_dir())
    half = 0
    for folder in ended:
        assert (folder / "digest").read_text() == (whole / "digest").read_text()
        half += len(left_over(folder))
        cached_folder(folder / place.name / "another", lambda _: None)
        names = {path.name for path in (folder / place.name).iterdir()}
        assert names == {path.name for path in place.iterdir()} | {"another"}
    assert half > 0


# On all commands and storages


@pytest.mark.exact
@pytest.mark.parametrize("contrast", ["local-global", "two-view"])
def test_two_processes_killed_at_any_moment_end_as_undisturbed_ones(
    contrast: str, tmp_path: Path
) -> None:
    command = ["--method=hscl", "--seeds=4", "--epochs=4", "--folds=2", "--ensemble-size=1",
               "--c-grid=1", f"--contrast={contrast}", "--jobs=2", *TINY]  # fmt: skip
    whole, ended = killed("gcl_hard.bench:main", tmp_path / "out", *command)
    assert len(numbers(whole)) == 4
    for folder in ended:
        assert numbers(folder) == numbers(whole)


@pytest.mark.exact
def test_images_killed_at_any_moment_end_as_undisturbed_ones(tmp_path: Path) -> None:
    whole, ended = killed(
        "gcl_hard.bench:main", tmp_path / "out", "--dataset=digits", "--encoder=fast", "--width=4",
        "--method=hscl,supervised", "--epochs=2", "--batch-size=256", "--probe-epochs=2",
        "--seeds=1", "--checkpoint-minutes=0", "--monitor-every=1", "--diagnostics=1",
        "--device=cpu", "--threads=1", "--output=OUT",
    )  # fmt: skip
    assert len(numbers(whole)) == 2
    for folder in ended:
        assert numbers(folder) == numbers(whole)
        assert not [*folder.glob("*.ckpt")]


@pytest.mark.exact
def test_fine_tuning_killed_at_any_moment_ends_as_undisturbed(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    table = write_chains(tmp_path / "chains.csv", 60)
    whole, ended = killed(
        "gcl_hard.bench:main", tmp_path / "out", f"--dataset={table}", "--output=OUT",
        "--method=untrained,ecfp,scl,supervised", "--threads=1", "--epochs=3",
        "--seeds=2", "--split=random-0", "--report=OUT/p.md",
    )  # fmt: skip
    assert len(numbers(whole)) == 7
    for folder in ended:
        assert numbers(folder) == numbers(whole)


@pytest.mark.exact
@pytest.mark.parametrize("storage", ["db", "journal", "postgres"])
def test_searches_killed_at_any_moment_lose_no_trial_and_count_none_twice(
    storage: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """In three storages, by the sampler that looks back; the grid has the same scores."""
    if storage == "postgres":
        place = request.getfixturevalue("postgres_url")
    else:
        place = str(tmp_path / f"searches.{storage}")
    _, ended = killed(
        "gcl_hard.tune:main", tmp_path / "out", "--method=hscl", "--epochs=2", "--trials=6",
        "--c-grid=1", "--ensemble-size=2", "--sampler=tpe", "--study-name=ROUND",
        f"--storage={place}", *TINY,
    )  # fmt: skip
    at = place if storage == "postgres" else Path(place)
    whole = check_end(at, "whole-0")
    for k in range(len(ended)):
        gave_up = [trial for trial in trials(at, f"killed-{k}") if failure_of(trial) == GIVEN_UP]
        if not gave_up:  # as it does after several deaths in one training
            scores = check_end(at, f"killed-{k}")
            assert len({*scores.items()} & {*whole.items()}) >= 3
