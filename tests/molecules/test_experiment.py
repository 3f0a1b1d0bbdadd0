"""Molecules as a domain: what is recorded, and tables of the user's own."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gcl_hard import bench
from gcl_hard.errors import InputError
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.store import Store
from gcl_hard.molecules import load_molecules, read_molecules
from gcl_hard.molecules.experiment import MoleculeExperiment
from gcl_hard.molecules.labelled import Labelled
from gcl_hard.molecules.settings import MoleculeConfig
from tests.molecules.test_runs import write
from tests.said import says

pytest.importorskip("rdkit")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))


def test_a_run_inside_the_training_data_is_scored_on_its_validation_part(tmp_path: Path) -> None:
    data = Labelled(read_molecules(write(tmp_path, "values")))
    for run in (Run(MoleculeConfig(method="ecfp"), 0), Run(MoleculeConfig(train_share=0.5), 1)):
        outer, inner = (data.split_of(run._replace(inner=inner)) for inner in (False, True))
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


def test_test_molecules_of_a_given_split_that_are_in_another_part_are_counted(
    tmp_path: Path,
) -> None:
    path, parts = tmp_path / "repeated.csv", ["train"] * 5 + ["valid"] + ["test"] * 4
    known = ["CCO", "CCN", "CCC", "CCS", "N[C@@H](C)C(=O)O", "CCCO"]

    def advice(split: str | None, *test: str) -> str:
        rows = zip([*known, *test], range(10), parts, strict=True)
        path.write_text("smiles,y,split\n" + "\n".join(f"{s},{i}.5,{p}" for s, i, p in rows))
        config = MoleculeConfig(method="ecfp", dataset=str(path), split=split)
        return MoleculeExperiment().advice(config, Labelled(read_molecules(path))) or ""

    # Written otherwise, of the validation part, and mapped; the mirror image is another molecule.
    repeated = ("OCC", "OCCC", "[NH2:2][CH2:1][CH3:3]", "N[C@H](C)C(=O)O")
    assert says(advice(None, *repeated), "3 of 4 test molecules", "training", "validation")
    assert advice("scaffold", *repeated) == advice(None, "CCF", "CCCl", "CCBr", "CCI") == ""


@pytest.mark.parametrize("packed", [False, True])
def test_a_table_in_the_data_folder_is_found_by_its_name(packed: bool, tmp_path: Path) -> None:
    """As graphs, nodes, links and images are: its content is the same set as by its path."""
    table = write(tmp_path, "cliffs")
    path = tmp_path / "data" / "kinases" / ("CHEMBL2034_Ki.csv" + ".gz" * packed)
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(table.read_bytes()) if packed else table.read_bytes())
    common = ["--method=ecfp", "--seeds=1", f"--output={tmp_path / 'out'}", "--threads=1"]
    data_dir = f"--data-dir={tmp_path / 'data'}"
    assert bench.main([f"--dataset={path}", *common]) == 0
    before = [*Store(tmp_path / "out").rows()]
    named = ["--domain=molecules", "--dataset=CHEMBL2034_Ki", data_dir]
    assert bench.main([*named, *common]) == 0
    assert [*Store(tmp_path / "out").rows()] == before  # it was finished
    by_name = load_molecules("CHEMBL2034_Ki", data_dir=tmp_path / "data")
    assert by_name.molecules.y.tolist() == read_molecules(table).molecules.y.tolist()
    with pytest.raises(InputError, match=r"'CHEMBL2035_Ki'.*CHEMBL204_Ki"):
        load_molecules("CHEMBL2035_Ki", data_dir=tmp_path / "data")
