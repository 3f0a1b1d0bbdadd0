"""Commands go on whatever the console does, and the system's refusals are messages."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gcl_hard.files.io import cache_root, expanded
from gcl_hard.files.stored import read_yaml

PRINTS = """
import sys
from pathlib import Path
from gcl_hard.commands.running import run_command

def command():
    for n in range(200):
        print("β = 1 ± 2 → 數", "." * 1000)
        print("β", file=sys.stderr)
    Path(sys.argv[1]).write_text("done")
    return 7

sys.exit(run_command(command, stopped=str))
"""


def start(folder: Path, **options: object) -> subprocess.Popen[bytes]:
    """Runs a command that prints much, and then writes a file."""
    environment = os.environ | options.pop("env", {})  # type: ignore[operator]
    return subprocess.Popen(
        [sys.executable, "-c", PRINTS, str(folder / "written")], env=environment, **options
    )  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("lost", ["stdout", "stderr", "both"])
def test_a_reader_that_leaves_ends_no_command(lost: str, tmp_path: Path) -> None:
    pipes = {name: subprocess.PIPE for name in ("stdout", "stderr") if lost in (name, "both")}
    kept = {name: subprocess.DEVNULL for name in ("stdout", "stderr") if name not in pipes}
    with start(tmp_path, **pipes, **kept) as process:
        for name in pipes:
            getattr(process, name).close()
        assert process.wait(60) == 7
    assert (tmp_path / "written").read_text() == "done"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_behind_the_console_ends_no_command(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full, start(tmp_path, stdout=full, stderr=full) as process:
        assert process.wait(60) == 7
    assert (tmp_path / "written").exists()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_signs_that_the_console_lacks_are_question_marks(encoding: str, tmp_path: Path) -> None:
    with start(
        tmp_path, env={"PYTHONIOENCODING": encoding}, stdout=-1, stderr=subprocess.STDOUT
    ) as process:
        output = process.communicate(timeout=60)[0].decode(encoding)
        assert process.returncode == 7
    first = output.split(" .", 1)[0]
    assert first == {
        "ascii": "? = 1 ? 2 ? ?", "latin-1": "? = 1 ± 2 ? ?", "utf-8": "β = 1 ± 2 → 數",
    }[encoding]  # fmt: skip


def test_users_without_a_home_and_unknown_ones_have_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    assert expanded("~nosuchuser/x") == Path("~nosuchuser/x")
    for name in ("GCL_HARD_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")
    assert cache_root() == Path(tempfile.gettempdir(), ".cache", "gcl_hard")


def test_yaml_is_read_or_named(tmp_path: Path) -> None:
    (tmp_path / "few.yaml").write_text("a: &a [1, 2]\nb: *a\n")
    assert read_yaml(tmp_path / "few.yaml") == {"a": [1, 2], "b": [1, 2]}
    for content in (b"a: [1", b"a: \xff", b"a: !!python/object/apply:os.getcwd []"):
        (tmp_path / "odd.yaml").write_bytes(content)
        with pytest.raises(ValueError, match=r"odd\.yaml"):
            read_yaml(tmp_path / "odd.yaml")
