"""Atomic writing, whatever interrupts it, and the folder of the cache."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from gcl_hard.errors import InputError
from gcl_hard.files.io import atomic_folder, atomic_write, cache_root, refuse_bomb, write_json


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


GIB = 2**30


def declaring(path: Path, sizes: Mapping[str, float], packed: int = 1000) -> Path:
    """A zip of members that declare sizes in GiB, and take some bytes each."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, size in sizes.items():
            archive.writestr(name, bytes(packed))
            archive.getinfo(name).file_size = int(size * GIB)  # written as the archive is closed
    return path


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"small": 0.5, "large": 4.0}, "4,831,838,208"),
        ({f"part{k}": 3.0 for k in range(2)}, "6,442,450,944"),
    ],
)
def test_an_archive_that_declares_far_more_than_it_holds_is_refused(
    sizes: dict[str, float], says: str, tmp_path: Path
) -> None:
    path = declaring(tmp_path / "a.zip", sizes)
    with zipfile.ZipFile(path) as archive, pytest.raises(InputError, match=says) as caught:
        refuse_bomb(archive, path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("sizes", [{"a": 0.18}, {"a": 0.1, "b": 0.08}, {}])
def test_archives_below_a_size_may_be_packed_as_well_as_they_can(
    sizes: dict[str, float], tmp_path: Path
) -> None:
    path = declaring(tmp_path / "a.zip", sizes)
    with zipfile.ZipFile(path) as archive:
        refuse_bomb(archive, path)


def test_large_archives_of_what_packs_as_images_and_text_do_are_not_refused(
    tmp_path: Path,
) -> None:
    path = declaring(tmp_path / "a.zip", {"a": 5.0}, packed=60 * 2**20)
    with zipfile.ZipFile(path) as archive:
        refuse_bomb(archive, path)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
@pytest.mark.parametrize("mask", [0o077, 0o002, 0o027])
def test_files_have_the_rights_of_the_umask(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        write_json({}, tmp_path / "a.json")
        with atomic_folder(tmp_path / "b") as folder:
            (folder / "c").touch()
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"a.json": 0o666 & ~mask, "b": 0o777 & ~mask, "c": 0o666 & ~mask}
