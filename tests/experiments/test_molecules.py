"""Molecules as a domain: by bench as by transfer, and results of the store that transfer had."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcl_hard import bench
from gcl_hard.experiments.labelled import Labelled
from gcl_hard.graphs import read_molecules
from gcl_hard.runs.plan import Run
from gcl_hard.runs.store import Store
from gcl_hard.settings.molecules import MoleculeConfig
from gcl_hard.transfer import main
from tests.experiments.test_transfer import write

pytest.importorskip("rdkit")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))


def test_bench_and_transfer_score_the_same_runs(tmp_path: Path) -> None:
    path, small = write(tmp_path, "cliffs"), ["--epochs=2", "--batch-size=16", "--seeds=2"]
    common = ["--dataset", str(path), *small, "--split=given"]
    one, other = tmp_path / "bench", tmp_path / "transfer"
    methods = "--method=scl,hscl,supervised,untrained,ecfp"
    assert bench.main([*common, methods, f"--output={one}", "--threads=1"]) == 0
    tuned = ["--embeddings=untrained,ecfp", "--finetune=none,scl,hscl,supervised"]
    assert main([*common, *tuned, f"--output={other}"]) == 0
    found = {row.name: row for row in Store(one).rows()}
    assert len(found) == 2 * 5
    for row in Store(other).rows():  # what no seed changes has one
        assert row.scores == found[row.name].scores
        assert row.predicted == found[row.name].predicted
        assert row.validation == found[row.name].validation


def test_a_run_inside_the_training_data_is_scored_on_its_validation_part(tmp_path: Path) -> None:
    data = Labelled(read_molecules(write(tmp_path, "values")))
    for run in (Run(MoleculeConfig(method="ecfp"), 0), Run(MoleculeConfig(train_share=0.5), 1)):
        outer, inner = (data.split_of(run._replace(inner=one)) for one in (False, True))
        assert inner.test.tolist() == outer.valid.tolist()
        assert inner.train.tolist() == outer.train.tolist()


def test_what_the_data_decide_is_recorded_beside_them(tmp_path: Path) -> None:
    path, out = write(tmp_path, "cliffs"), tmp_path / "out"
    command = ["--dataset", str(path), "--method=untrained,supervised", "--epochs=1", "--seeds=1"]
    assert bench.main([*command, f"--output={out}"]) == 0
    probed, head = sorted(Store(out).rows(), key=lambda row: "probe" not in row.data)
    for row in (probed, head):
        assert (row.run.config.split, row.data["split"]) == (None, "given")
        assert row.data["sizes"][2] == len(row.tested()[0].items)
    assert (probed.run.config.probe, probed.data["probe"]) == (None, "kernel")
