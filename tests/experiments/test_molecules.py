"""Molecules as a domain: by bench as by transfer, and results of the store that transfer had."""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, root_mean_squared_error

from gcl_hard import bench
from gcl_hard.commands.transfer import parse_transfer, transfer
from gcl_hard.errors import InputError
from gcl_hard.experiments.labelled import Labelled
from gcl_hard.experiments.molecules import MoleculeExperiment
from gcl_hard.graphs import load_molecules, read_molecules
from gcl_hard.runs.plan import Run
from gcl_hard.runs.store import COMPACT, Store
from gcl_hard.settings.molecules import MoleculeConfig
from gcl_hard.transfer import main
from tests.experiments.test_transfer import write
from tests.said import says

pytest.importorskip("rdkit")
SHARED = ("test", "y", "cliffs", "sizes", "versions", "device", "finetuning")
EARLIER = [
    json.loads(line)
    for line in Path(__file__).with_name("transfer1.jsonl").read_text(encoding="utf-8").splitlines()
]
"""Results of version 0.3."""


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


def as_before(folder: Path, form: str) -> None:
    """A folder of results as version 0.3 left it."""
    folder.mkdir()
    rows = [{k: v for k, v in one.items() if k != "name"} for one in EARLIER]
    if form == "singles":
        for one, row in zip(EARLIER, rows, strict=True):
            text = json.dumps({"schema_version": 1, **row})
            (folder / f"{one['name']}.json").write_text(text)
        return
    lines: list[dict[str, Any]] = [{"schema_version": 2}]
    for name in SHARED:
        lines += [{name: row[name]} for row in rows]
    for number, (one, row) in enumerate(zip(EARLIER, rows, strict=True)):
        lines.append({"run": one["name"], **row, **dict.fromkeys(SHARED, number)})
    text = "\n".join(map(json.dumps, lines))
    if form == "transfer.jsonl":
        (folder / form).write_text(text)
    else:
        (folder / form).write_bytes(gzip.compress(text.encode()))


@pytest.mark.parametrize("form", ["singles", "transfer.jsonl", "transfer.jsonl.gz"])
def test_results_of_the_earlier_store_are_read_found_and_moved(form: str, tmp_path: Path) -> None:
    as_before(tmp_path / "out", form)
    for _ in range(2):
        found = [*Store(tmp_path / "out").rows()]
        assert len(found) == len(EARLIER)
        for row in found:
            before = next(o for o in EARLIER if o["dataset"] == row.run.config.dataset
                          and o["seed"] == row.seed and o["finished"] == row.finished)  # fmt: skip
            scores = {k: [v] for k, v in before["score"].items() if k in row.scores}
            assert row.scores == scores
            assert row.migrated == 1
            assert Store(tmp_path / "out").get(row.run) == row
            (fold,) = row.tested()
            assert fold.items.tolist() == before["test"]
            assert_scores(fold, row.scores)
        assert main(["--compact", str(tmp_path / "out")]) == 0
        assert [path.name for path in (tmp_path / "out").iterdir()] == [COMPACT]
    command = ["--dataset=FreeSolv", "--split=scaffold-chirality", "--embeddings=ecfp"]
    shown = transfer(parse_transfer([*command, "--report-only", "--output", str(tmp_path / "out")]))
    assert [one.result.scores["rmse"][0] for one in shown] == [EARLIER[0]["score"]["rmse"]]


def assert_scores(fold: Any, scores: dict[str, Sequence[float]]) -> None:
    if "auc" in scores:
        y, found = (one.reshape(len(fold.items), -1) for one in (fold.targets, fold.predicted))
        both = [k for k in range(y.shape[1]) if len({*y[:, k]}) == 2]
        auc = np.mean([roc_auc_score(y[:, k], found[:, k]) for k in both])
        assert scores["auc"][0] == pytest.approx(100 * auc, abs=1e-3)
        return
    assert scores["rmse"][0] == pytest.approx(
        root_mean_squared_error(fold.targets, fold.predicted), rel=1e-5
    )
    if "cliff_rmse" in scores:
        which = fold.masks["cliffs"]
        expected = root_mean_squared_error(fold.targets[which], fold.predicted[which])
        assert scores["cliff_rmse"][0] == pytest.approx(expected, rel=1e-5)


def test_a_finished_run_of_the_earlier_store_is_not_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_before(tmp_path / "out", "singles")
    path = next((tmp_path / "out").glob("FreeSolv*"))
    text = path.read_text()
    command = ["--dataset=FreeSolv", "--split=scaffold-chirality", "--embeddings=ecfp"]
    assert main([*command, "--report-only", "--output", str(tmp_path / "out")]) == 0
    assert says(capsys.readouterr().err, 1, 1, "finished")
    assert path.read_text() == text


@pytest.mark.parametrize("form", ["singles", "transfer.jsonl"])
def test_what_cannot_be_read_of_the_earlier_store_is_named_and_stays(
    form: str, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    as_before(folder, form)
    for path in folder.iterdir():
        path.write_text(path.read_text().replace('"method": "hscl"', '"method": "newer"'))
    for _ in range(2):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert len([*Store(folder).rows()]) == len(EARLIER) - 1
            assert main(["--compact", str(folder)]) == 0
        assert len(said) == 2
        for one in said:
            assert says(str(one.message), 1, "not read", "newer")
            assert "CHEMBL2047_EC50" in str(one.message)
        kept = [path for path in folder.iterdir() if path.name != COMPACT]
        assert len(kept) == 1
        assert "newer" in kept[0].read_text()


@pytest.mark.parametrize("packed", [False, True])
def test_a_table_in_the_data_folder_is_found_by_its_name(packed: bool, tmp_path: Path) -> None:
    """As graphs, nodes, links and images are: its content is the same set as by its path."""
    table = write(tmp_path, "cliffs")
    path = tmp_path / "data" / "kinases" / ("CHEMBL2034_Ki.csv" + ".gz" * packed)
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(table.read_bytes()) if packed else table.read_bytes())
    common = ["--method=ecfp", "--seeds=1", f"--output={tmp_path / 'out'}", "--threads=1"]
    there = f"--data-dir={tmp_path / 'data'}"
    assert bench.main([f"--dataset={path}", *common]) == 0
    before = [*Store(tmp_path / "out").rows()]
    named = ["--domain=molecules", "--dataset=CHEMBL2034_Ki", there]
    assert bench.main([*named, *common]) == 0
    assert [*Store(tmp_path / "out").rows()] == before  # it was finished
    assert main([*named[1:], "--embeddings=ecfp", f"--output={tmp_path / 'of transfer'}"]) == 0
    ((row,), (other,)) = before, [*Store(tmp_path / "of transfer").rows()]
    assert other.scores == row.scores
    by_name = load_molecules("CHEMBL2034_Ki", data_dir=tmp_path / "data")
    assert by_name.molecules.y.tolist() == read_molecules(table).molecules.y.tolist()
    with pytest.raises(InputError, match=r"'CHEMBL2035_Ki'.*CHEMBL204_Ki"):
        load_molecules("CHEMBL2035_Ki", data_dir=tmp_path / "data")
