"""Atomic writing, whatever interrupts it, and the folder of the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from gcl_hard.errors import InputError
from gcl_hard.io import atomic_write, cache_root


class Stopped:
    """A file whose writing ends in an error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def write(self, _: Any) -> int:
        raise self.error


@pytest.mark.parametrize(
    ("error", "seen", "said"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
        (OSError(28, "No space left on device"), InputError, "cannot write .*: No space left"),
    ],
)
def test_what_stops_torch_save_is_not_hidden_by_its_own_error(
    tmp_path: Path, error: BaseException, seen: type[BaseException], said: str
) -> None:
    target = tmp_path / "state.ckpt"
    target.write_text("before", encoding="utf-8")
    with pytest.raises(seen, match=said), atomic_write(target):
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
        pytest.raises(InputError, match=r"cannot write .*file/new"),
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
