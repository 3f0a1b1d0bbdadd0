"""A labelled set of molecules, and training on it where its parts say little."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gcl_hard import bench
from gcl_hard.molecules import read_molecules
from gcl_hard.molecules.labelled import Labelled

pytest.importorskip("rdkit")
SMILES = ["CCO", "c1ccccc1O", "CC(=O)NC", "C#N", "CCCCCC", "c1ccncc1", "OCC1CC1", "CCO.c1ccccc1O"]
PARTS = ["train"] * 4 + ["valid"] * 2 + ["test"] * 2


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Molecules of two classes, of which the validation part has one."""
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))
    rows = zip(SMILES, [0, 1, 0, 1, 1, 1, 0, 1], PARTS, strict=True)
    path = tmp_path / "mine.csv"
    path.write_text("smiles,y,split\n" + "".join(f"{s},{y},{p}\n" for s, y, p in rows))
    return path


def test_counts_of_a_mixture_are_those_of_its_parts(file: Path) -> None:
    counts = np.expm1(Labelled(read_molecules(file)).counts)  # they are log(1 + n)
    assert counts == pytest.approx(counts.round(), abs=1e-9)
    assert counts[-1] == pytest.approx(counts[0] + counts[1])


def test_a_validation_part_of_one_class_chooses_no_epoch_and_ends_no_run(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [f"--dataset={file}", "--method=supervised", "--seeds=1"]
    asked += ["--epochs=2", "--split=given", f"--output={tmp_path / 'out'}"]
    assert bench.main(asked) == 0
    assert "mine" in capsys.readouterr().out
