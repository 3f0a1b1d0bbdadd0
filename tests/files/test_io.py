"""Atomic writing, whatever interrupts it, and the folder of the cache."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from gcl_hard.errors import InputError
from gcl_hard.files.cached import cached_folder
from gcl_hard.files.io import DAY, atomic_write, cache_root, scratch_folder, write_json


class Stopped:
    """A file whose writing ends in an error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def write(self, _: Any) -> int:
        raise self.error


@pytest.mark.parametrize(
    ("error", "seen", "message"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
        (
            OSError(28, "No space left on device"),
            InputError,
            r"write .*state\.ckpt: No space left",
        ),
    ],
)
def test_what_stops_torch_save_is_not_hidden_by_its_own_error(
    tmp_path: Path, error: BaseException, seen: type[BaseException], message: str
) -> None:
    target = tmp_path / "state.ckpt"
    target.write_text("before", encoding="utf-8")
    with pytest.raises(seen, match=message), atomic_write(target):
        torch.save({"w": torch.ones(3)}, Stopped(error))  # type: ignore[arg-type]
    assert target.read_text(encoding="utf-8") == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["state.ckpt"]


def test_an_error_of_ones_own_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="mine"), atomic_write(tmp_path / "new"):
        raise RuntimeError("mine")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with (
        pytest.raises(InputError, match=r"\bwrite\b.*file/new: File exists"),
        atomic_write(tmp_path / "file" / "new"),
    ):
        pass


def test_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_root("/explicit") == Path("/explicit")
    monkeypatch.setenv("GCL_HARD_CACHE", "/own")
    assert cache_root() == Path("/own")
    monkeypatch.delenv("GCL_HARD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_root() == Path("/xdg/gcl_hard")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root() == Path.home() / ".cache/gcl_hard"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
@pytest.mark.parametrize("mask", [0o077, 0o002])
def test_files_have_the_rights_of_the_umask(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        write_json({}, tmp_path / "a.json")
        cached_folder(tmp_path / "b", lambda folder: (folder / "c").touch())
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("[!.]*")}
    assert modes == {"a.json": 0o666 & ~mask, "b": 0o777 & ~mask, "c": 0o666 & ~mask}


def test_leftovers_of_killed_processes_are_removed_after_a_day(tmp_path: Path) -> None:
    day = time.time() - 2 * DAY
    for name in (".a.json.1.partial", ".a.json.2.partial"):
        (tmp_path / name).touch()
    for name in (".partial-1", ".partial-2"):
        (tmp_path / name / "in").mkdir(parents=True)
    for name in (".a.json.1.partial", ".partial-1"):
        os.utime(tmp_path / name, (day, day))
    write_json({}, tmp_path / "a.json")
    with scratch_folder(tmp_path):
        pass
    left = {".a.json.2.partial", ".partial-2", "a.json"}
    assert {path.name for path in tmp_path.iterdir()} == left
