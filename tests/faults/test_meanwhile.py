"""Folders and files that go, or become something else, while a command works with them."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.commands import ended

pytestmark = [pytest.mark.faults, pytest.mark.filterwarnings("ignore")]
GRAPHS = ["--method=ucl,hscl", "--epochs=4", "--seeds=4", "--folds=2", "--layers=1", "--dim=8",
          "--threads=1", "--ensemble-size=1"]  # fmt: skip
SEARCH = ["--method=hscl", "--trials=8", "--epochs=4", "--layers=1", "--dim=8", "--threads=1",
          "--ensemble-size=1"]  # fmt: skip
MOLECULES = ["--dataset=made.csv", "--targets=size", "--method=untrained,ecfp,scl",
             "--threads=1", "--epochs=4", "--seeds=2", "--split=random-0"]  # fmt: skip
PRETRAINING = ["--dataset=made.csv", "--epochs=4", "--batch-size=16", "--layers=1", "--dim=8",
               "--checkpoint-minutes=0"]  # fmt: skip


def write_table(n: int = 60) -> None:
    lines = [f"{'C' * (k % 9 + 1)}{'O' * (k // 9)}c1ccccc1,{k / 7}\n" for k in range(n)]
    Path("made.csv").write_text("smiles,size\n" + "".join(lines))


def by_a_file(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.write_text("x")


def locked(path: Path) -> None:
    """Hold a database for some seconds."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as held:
        held.execute("BEGIN EXCLUSIVE")
        time.sleep(3)


def by_a_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


CASES: dict[str, tuple[str, list[str], str, Callable[[Path], object]]] = {
    "results deleted": ("bench", [*GRAPHS, "--output=out"], "out", shutil.rmtree),
    "results become a file": ("bench", [*GRAPHS, "--output=out"], "out", by_a_file),
    "results renamed": ("bench", [*GRAPHS, "--output=out"], "out", lambda p: p.rename("other")),
    "a table deleted": ("bench", [*MOLECULES, "--output=out"], "made.csv", Path.unlink),
    "a table changed": ("bench", [*MOLECULES, "--output=out"], "made.csv",
                        lambda _: write_table(20)),
    "a search deleted": ("tune", [*SEARCH, "--output=out", "--storage=s.db"], "s.db", Path.unlink),
    "a search with its folder": ("tune", [*SEARCH, "--output=out"], "out", shutil.rmtree),
    "a search emptied": ("tune", [*SEARCH, "--output=out", "--storage=s.db"], "s.db",
                         lambda p: p.write_bytes(b"")),
    "a search held": ("tune", [*SEARCH, "--output=out", "--storage=s.db"], "s.db", locked),
    "a journal deleted": ("tune", [*SEARCH, "--output=out", "--storage=s.journal"], "s.journal",
                          Path.unlink),
    "a pre-training's folder": ("pretrain", [*PRETRAINING, "--output=out/e.pt"], "out",
                                shutil.rmtree),
    "a checkpoint becomes a folder": ("pretrain", [*PRETRAINING, "--output=e.pt"], "e.ckpt",
                                      by_a_folder),
}  # fmt: skip


@pytest.mark.parametrize("wait", [0, 0.3, 1])
@pytest.mark.parametrize("name", CASES)
def test_what_changes_meanwhile(
    name: str, wait: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Some of these end before the change, which is fine, too."""
    monkeypatch.chdir(tmp_path)
    command, arguments, file, change = CASES[name]
    if "--dataset=made.csv" in arguments:
        pytest.importorskip("rdkit")
        write_table()
    path, over = tmp_path / file, threading.Event()

    def act() -> None:
        while not path.exists() and not over.is_set():
            time.sleep(0.002)
        time.sleep(wait)
        with contextlib.suppress(OSError, sqlite3.Error):
            change(path)

    thread = threading.Thread(target=act)
    thread.start()
    try:
        ended(capsys, command, arguments, 120)
    finally:
        over.set()
        thread.join()
