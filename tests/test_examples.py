"""The programs of ``docs/examples`` run, and the parts in them pass their own checks."""

from __future__ import annotations

import importlib.util
import runpy
import sys
import warnings
from pathlib import Path

import pytest
import torch

EXAMPLES = sorted((Path(__file__).parents[1] / "docs" / "examples").glob("*.py"))
OWN_PARTS = [file for file in EXAMPLES if file.stem.startswith("own_")]
SHORTER = {"link_prediction": ["--method=hscl,spacl-sup", "--epochs=3", "--seeds=1"]}
"""Arguments of programs that otherwise train for longer."""


@pytest.mark.slow
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_runs(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(file), *SHORTER.get(file.stem, [])])
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        runpy.run_path(str(file), run_name="__main__")
    assert capfd.readouterr().out.strip() or any(tmp_path.iterdir()), "it shows or stores"


# The checks in them, which pytest finds here as in their own files.
for _file in OWN_PARTS:
    _spec = importlib.util.spec_from_file_location(_file.stem, _file)
    assert _spec is not None
    assert _spec.loader is not None
    _module = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(_module)
    globals().update({k: v for k, v in vars(_module).items() if k.startswith("Test")})


@pytest.mark.parametrize("file", OWN_PARTS, ids=lambda file: file.stem)
def test_own_parts_are_short(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 40


def test_there_is_an_example_of_each_part_of_ones_own() -> None:
    assert {file.stem for file in OWN_PARTS} == {"own_encoder", "own_graphs", "own_hardening"}
    assert {"TestGAT", "TestGraphs", "TestPlateau", "TestSampler"} <= globals().keys()
