"""A pipe in place of any file that is read: refused at once, for its reader might never end."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gcl_hard import InputError, load_encoder, load_pretrained
from gcl_hard.experiments.store import COMPACT
from tests.faults.commands import SMALL, ended

pytestmark = [pytest.mark.faults, pytest.mark.filterwarnings("ignore")]
BENCH = [*SMALL, "--method=ucl"]
CASES = {
    "a result": ("bench", "RESULT", [*BENCH, "--output=."]),
    "a result to compact": ("bench", "RESULT", ["--compact=."]),
    "a result to draw": ("figures", "RESULT", ["beta", ".", "-o", "f"]),
    "a result of its own to draw": ("figures", "RESULT", ["beta", "RESULT", "-o", "f"]),
    "a compact form": ("bench", COMPACT, [*BENCH, "--output=.", "--report-only"]),
    "a compact form to compact": ("bench", COMPACT, ["--compact=."]),
    "settings": ("bench", "a.yaml", [*BENCH, "--config=a.yaml"]),
    "a space": ("tune", "a.yaml", ["--space=a.yaml"]),
    "a report": ("bench", "p.md", [*BENCH, "--output=.", "--report=p.md"]),
    "a table of molecules": ("bench", "m.csv", ["--dataset=m.csv", "--method=ecfp"]),
    "a gzipped table": ("bench", "m.csv.gz", ["--dataset=m.csv.gz", "--method=ecfp"]),
    "an encoder": ("bench", "e.pt", ["--dataset=BACE", "--method=scl", "--encoder=e.pt"]),
    "an encoder to train": ("pretrain", "e.pt", ["--dataset=BACE", "--output=e.pt"]),
    "an archive of graphs": ("bench", "SET.zip", [*BENCH, "--dataset=SET", "--data-dir=."]),
    "a file of graphs": ("bench", "SET/SET_A.txt", [*BENCH, "--dataset=SET", "--data-dir=."]),
    "arrays of images": ("bench", "SET.npz", ["--method=pixels", "--dataset=SET", "--data-dir=."]),
    "arrays of nodes": ("bench", "Cora.npz", ["--method=raw", "--dataset=Cora", "--data-dir=."]),
    "images": ("bench", "pets/a/1.png", ["--method=pixels", "--dataset=./pets"]),
    "a journal": ("tune", "s.journal", ["--method=ucl", "--storage=s.journal", "--trials=1"]),
    "a database": ("tune", "s.db", ["--method=ucl", "--storage=s.db", "--trials=1"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_any_pipe(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.delenv("GCL_HARD_DATA", raising=False)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nothing is downloaded
    monkeypatch.chdir(tmp_path)
    command, file, arguments = CASES[name]
    if file == "RESULT":
        assert ended(capsys, "bench", [*BENCH, "--output=made"])[0] == 0
        (result,) = Path("made").glob("*_seed0.json")
        file = result.name
        shutil.rmtree("made")
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(file)
    filled = [file if argument == "RESULT" else argument for argument in arguments]
    status, _ = ended(capsys, command, filled, 20)
    assert status == 2
    assert Path(file).is_fifo()


@pytest.mark.parametrize("read", [load_encoder, load_pretrained])
def test_a_pipe_is_no_encoder(read: object, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "e.pt")
    with pytest.raises(InputError, match=r"e\.pt is a pipe"):
        read(tmp_path / "e.pt")  # type: ignore[operator]
