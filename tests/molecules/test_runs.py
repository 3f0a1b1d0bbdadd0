"""Runs on labelled molecules: which there are, what they may know, and how rows are compared."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from gcl_hard import bench, pretrain
from gcl_hard.commands.bench import parse_bench
from gcl_hard.evaluation import scaffold_split
from gcl_hard.evaluation.transfer import Probed, rmse
from gcl_hard.experiments.custom import UserParts
from gcl_hard.experiments.experiment import RunContext, TrainedRun, seeded_weights
from gcl_hard.experiments.plan import plan
from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.experiments.store import Store
from gcl_hard.molecules import MoleculeGIN, finetuning, from_smiles, labelled, read_molecules
from gcl_hard.molecules.experiment import MoleculeExperiment
from gcl_hard.molecules.labelled import Labelled
from gcl_hard.molecules.settings import MoleculeConfig, representation
from tests.said import says

pytest.importorskip("rdkit")
RINGS = ["c1ccccc1", "C1CC1", "c1ccncc1", "C1CCCCC1", "c1ccoc1", "c1ccsc1", "C1CCNCC1", "C1CCOC1"]
SMILES = [f"{'C' * n}{end}{ring}" for n in range(1, 6) for end in ("", "O") for ring in RINGS]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))


def write(folder: Path, kind: str) -> Path:
    """Targets that depend on the molecule: oxygen, and the length of the chain."""
    lengths = np.array([smiles.count("C") for smiles in SMILES])
    oxygen = np.array(["O" in smiles for smiles in SMILES], int)
    columns = {
        "classes": [f"{o}" for o in oxygen],
        "tasks": [
            f"{o},{int(n > 3) if n % 2 else ''}" for o, n in zip(oxygen, lengths, strict=True)
        ],
        "values": [f"{n + 0.5 * o}" for o, n in zip(oxygen, lengths, strict=True)],
        "cliffs": [
            f"{n + 0.5 * o},{o},{'test' if i % 5 == 0 else 'train'}"
            for i, (o, n) in enumerate(zip(oxygen, lengths, strict=True))
        ],
    }[kind]
    head = {"tasks": "a,b", "cliffs": "y,cliff_mol,split"}.get(kind, "y")
    path = folder / f"{kind}.csv"
    rows = [f"{s},{c}" for s, c in zip(SMILES, columns, strict=True)]
    path.write_text(f"smiles,{head}\n" + "\n".join(rows) + "\n")
    return path


def main(arguments: list[str]) -> int:
    """``bench`` in one thread, so that probes repeat to the last bit."""
    return bench.main([*arguments, "--threads=1"])


def csv_of(page: Path) -> list[dict[str, str]]:
    """The rows beside a page, of all metrics."""
    rows = csv.DictReader(page.with_suffix(".csv").read_text(encoding="utf-8").splitlines())
    return [*rows]


def results(folder: Path) -> list[RunResult]:
    return [*Store(folder).rows()]


def config_of(result: RunResult) -> MoleculeConfig:
    return cast("MoleculeConfig", result.run.config)


def predictions(result: RunResult) -> np.ndarray[Any, Any]:
    """What is predicted for the known targets."""
    (fold,) = result.tested()
    known: np.ndarray[Any, Any] = fold.predicted[np.isfinite(fold.targets)]
    return known


def run_of(method: str = "untrained", seed: int = 0, **settings: Any) -> Run:
    """A run on a set that the test has read itself."""
    return Run(MoleculeConfig(method=method, **settings), seed)


@pytest.mark.parametrize(
    ("kind", "split", "metric"),
    [("classes", "scaffold", "auc"), ("tasks", "random-2", "auc"), ("values", "scaffold", "rmse"),
     ("cliffs", "given", "cliff_rmse")],
)  # fmt: skip
def test_representations_and_finetuning_are_scored(
    kind: str, split: str, metric: str, tmp_path: Path
) -> None:
    path, output = write(tmp_path, kind), tmp_path / "results"
    page = tmp_path / "page.md"
    common = ["--dataset", str(path), "--split", split, "--seeds=1", "--output", str(output)]
    common += ["--epochs=2", "--batch-size=16", "--report", str(page)]
    assert main([*common, "--method=untrained,ecfp,wl,counts", "--joined=none,ecfp,counts"]) == 0
    assert main([*common, "--method=counts,wl", "--joined=wl"]) == 0
    assert main([*common, "--method=scl,hscl,supervised", "--joined=none,ecfp"]) == 0
    finished = results(output)
    assert sorted(row_name(config_of(result)) for result in finished) == sorted([
        "untrained", "untrained+ecfp", "untrained+counts", "ecfp", "wl", "counts", "counts+wl",
        "untrained scl", "untrained+ecfp scl", "untrained hscl", "untrained+ecfp hscl",
        "untrained supervised",  # a head is its own probe
    ])  # fmt: skip
    for result in finished:
        assert np.isfinite(result.scores[metric]).all()
        assert len(predictions(result)) > 0
        assert np.isfinite(predictions(result)).all()
    assert says(page.read_text(), "untrained+ecfp hscl")


@pytest.mark.parametrize("method", ["ecfp", "supervised"])
def test_a_constant_added_to_all_targets_changes_no_error(method: str, tmp_path: Path) -> None:
    scores = []
    for offset in (0, -2_012_742, 10**9):
        path, output = tmp_path / f"from{offset}.csv", tmp_path / str(offset)
        rows = [f"{s},{offset + len(s) / 100:.4f}" for s in SMILES]
        path.write_text("smiles,y\n" + "\n".join(rows) + "\n")
        command = [f"--method={method}", "--epochs=3", "--seeds=1"]
        assert main(["--dataset", str(path), *command, "--output", str(output)]) == 0
        scores.append(results(output)[0].scores["rmse"][0])
    assert scores[1:] == pytest.approx([scores[0]] * 2, rel=1e-3)


def mirrored(folder: Path) -> Path:
    """Two diastereomers of each of several fused rings, and others without stereo centres."""
    rings = [
        f"{'C' * n}C1C[C{turn}H]2CCC{'C' * size}[C@H]2O1"
        for size in range(4) for turn in ("@", "@@") for n in range(size + 1, 4)
    ]  # fmt: skip
    path = folder / "mirrored.csv"
    rows = [f"{smiles},{i % 7}.5" for i, smiles in enumerate([*rings, *SMILES[:30]])]
    path.write_text("smiles,y\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("chirality", [False, True])
def test_splits_by_scaffold_tell_mirror_images_apart_where_their_name_says_so(
    chirality: bool, tmp_path: Path
) -> None:
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    data = Labelled(read_molecules(mirrored(tmp_path)))
    frameworks = [
        MurckoScaffoldSmiles(smiles.decode(), includeChirality=chirality)
        for smiles in data.molecules.smiles
    ]
    for name in ("scaffold", "random-0", "random-2"):
        split = data.split(f"{name}-chirality" if chirality else name)
        seed = None if name == "scaffold" else int(name[-1])
        for part, expected in zip(split, scaffold_split(frameworks, seed=seed), strict=True):
            assert part.tolist() == expected.tolist()
        assert not {frameworks[i] for i in split.train} & {frameworks[i] for i in split.test}


CONTROLS = "--control=scl,ecfp,untrained,frozen,untrained hscl chosen inside"


def test_rows_are_compared_with_controls_of_the_same_settings(tmp_path: Path) -> None:
    path, page = write(tmp_path, "cliffs"), tmp_path / "page.md"
    command = ["--dataset", str(path), "--method=untrained,scl,hscl,ecfp", "--joined=none,ecfp"]
    command += ["--beta=0.5,4", "--similarity=0,2", "--seeds=2", "--epochs=1", "--batch-size=16"]
    command += ["--select=true", "--output", str(tmp_path / "results"), "--report", str(page)]
    assert main([*command, CONTROLS]) == 0
    rows = {(row["representation"], row["method"], row["choice"]): row
            for row in csv_of(page) if row["metric"] == "cliff_rmse"}  # fmt: skip

    def less(row: tuple[str, str, str], control: tuple[str, str, str], name: str) -> None:
        ours, theirs = float(rows[row]["mean"]), float(rows[control]["mean"])
        assert float(rows[row][f"vs_{name}"]) == pytest.approx(ours - theirs, abs=2e-4)

    for features in ("untrained", "untrained+ecfp"):
        for kappa in ("κ=0", "κ=2"):
            for beta in ("β=0.5", "β=4"):
                less(
                    (features, "hscl", f"{kappa} {beta}"),
                    (features, "scl", kappa),
                    "scl",
                )
                untrained = (features, "untrained", "")
                less((features, "hscl", f"{kappa} {beta}"), untrained, "frozen")
        chosen = (features, "hscl", "chosen inside")
        less(chosen, (features, "scl", "chosen inside"), "scl")
        less(chosen, ("ecfp", "ecfp", ""), "ecfp")
        less(chosen, ("untrained", "untrained", ""), "untrained")
    less(("ecfp", "ecfp", ""), ("untrained", "hscl", "chosen inside"),
         "untrained hscl chosen inside")  # fmt: skip
    assert rows["untrained", "untrained", ""]["vs_scl"] == ""
    assert "(page-split-cliff_rmse-cliffs.png)" in page.read_text()
    assert "GCN" not in page.read_text()  # published means are over twenty sets


def test_the_mean_over_sets_is_a_row_and_is_compared_too(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path, "values").rename(tmp_path / f"{name}.csv")
    (tmp_path / "b.csv").write_text((tmp_path / "b.csv").read_text().replace("5\n", "9\n"))
    page, sets = tmp_path / "page.md", f"{tmp_path}/a.csv,{tmp_path}/b.csv"
    command = ["--dataset", sets, "--method=untrained,ecfp", "--seeds=2", "--report", str(page)]
    assert main([*command, "--output", str(tmp_path / "out")]) == 0
    rows = {(row["dataset"], row["method"]): row for row in csv_of(page)}
    for method in ("untrained", "ecfp"):
        means = [float(rows[name, method]["mean"]) for name in "ab"]
        assert float(rows["mean of 2", method]["mean"]) == pytest.approx(np.mean(means), abs=1e-4)
    less = [float(rows[name, "untrained"]["vs_ecfp"]) for name in ("a", "b", "mean of 2")]
    assert less[2] == pytest.approx(np.mean(less[:2]), abs=2e-4)


def test_a_share_of_the_training_part_is_drawn_inside_it_and_gives_a_curve(tmp_path: Path) -> None:
    data = Labelled(read_molecules(write(tmp_path, "values")))
    whole = data.split("scaffold")
    parts = {
        (share, seed): data.split_of(run_of("ecfp", seed, train_share=share))
        for share in (0.25, 0.5, 1.0)
        for seed in (0, 1)
    }
    for (share, seed), part in parts.items():
        assert len(part.train) == round(share * len(whole.train))
        assert {*part.train} <= {*parts[1.0, seed].train} == {*whole.train}
        np.testing.assert_array_equal(part.test, whole.test)
        np.testing.assert_array_equal(part.valid, whole.valid)
    assert {*parts[0.25, 0].train} <= {*parts[0.5, 0].train}
    assert {*parts[0.25, 0].train} != {*parts[0.25, 1].train}

    page, output = tmp_path / "page.md", tmp_path / "results"
    command = ["--dataset", str(tmp_path / "values.csv"), "--method=ecfp", "--seeds=2"]
    target = ["--output", str(output), "--report", str(page)]
    assert main([*command, "--train-share=0.25,0.5,1", *target]) == 0
    sizes = sorted(result.data["sizes"][0] for result in results(output))
    assert sizes == sorted([*(len(p.train) for k, p in parts.items() if k != (1.0, 1))])
    rows = {row["share"]: row for row in csv_of(page)}
    assert [rows[share]["seeds"] for share in rows] == ["2", "2", "1"]
    for share, row in rows.items():
        scores = [result.scores["rmse"][0] for result in results(output)
                  if config_of(result).train_share == float(share)]  # fmt: skip
        assert float(row["mean"]) == pytest.approx(np.mean(scores), abs=1e-4)
    assert page.with_name("page-split-learning.png").stat().st_size > 1000
    assert main([*command, *target]) == 0
    assert len(results(output)) == 5  # the whole part has been run
    assert main([*command, "--train-share=0", *target]) == 2


@pytest.mark.parametrize(("kind", "metric"), [("values", "rmse"), ("classes", "auc")])
def test_of_several_settings_the_validation_part_chooses_for_each_seed(
    kind: str, metric: str, tmp_path: Path
) -> None:
    path, output, page = write(tmp_path, kind), tmp_path / "results", tmp_path / "page.md"
    command = ["--dataset", str(path), "--method=untrained,scl,hscl", "--seeds=2", "--epochs=1"]
    command += ["--batch-size=16", "--beta=0.5,4", "--similarity=0,2", "--select=true"]
    assert main([*command, "--output", str(output), "--report", str(page)]) == 0
    done = results(output)
    assert len(done) == 2 * (1 + 2 + 4)
    chosen = {row["method"]: row for row in csv_of(page) if row["choice"] == "chosen inside"}
    for method in ("scl", "hscl"):
        scores = []
        for seed in (0, 1):
            mine = [r for r in done if (config_of(r).method, r.seed) == (method, seed)]
            assert len(mine) == (4 if method == "hscl" else 2)
            best = (max if metric == "auc" else min)(mine, key=lambda result: result.validation[0])
            scores.append(best.scores[metric][0])
        assert float(chosen[method]["mean"]) == pytest.approx(np.mean(scores), abs=1e-4)


def test_a_pretrained_encoder_is_known_by_its_content(tmp_path: Path) -> None:
    path, output = write(tmp_path, "classes"), tmp_path / "results"
    small = ["--layers=2", "--dim=8", "--batch-size=16"]
    for seed in (0, 1):
        file = tmp_path / f"own-{seed}.pt"
        arguments = ["--dataset", str(path), "--output", str(file), f"--seed={seed}", *small]
        assert pretrain.main(arguments) == 0
    command = ["--dataset", str(path), "--seeds=2", "--output", str(output)]
    encoder = f"--encoder={tmp_path}/own-{{seed}}.pt"
    page = tmp_path / "page.md"
    assert main([*command, "--method=untrained", encoder, "--report", str(page)]) == 0
    representations = {result.seed: representation(config_of(result)) for result in results(output)}
    assert representations == {0: "own-0", 1: "own-1"}
    (row,) = csv_of(page)
    assert (row["representation"], row["seeds"]) == ("own", "2")
    copy = tmp_path / "elsewhere" / "own-0.pt"
    copy.parent.mkdir()
    copy.write_bytes((tmp_path / "own-0.pt").read_bytes())
    keys = [
        UserParts().resolved(MoleculeConfig(str(path), "untrained", encoder=str(file))).key()
        for file in (copy, tmp_path / "own-0.pt", tmp_path / "own-1.pt")
    ]
    assert keys[0] == keys[1] != keys[2]


def test_an_untrained_encoder_may_have_the_shape_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, page = write(tmp_path, "classes"), tmp_path / "page.md"
    files = {}
    for name, shape in (("own", ["--layers=2", "--dim=8"]), ("usual", [])):
        files[name] = str(tmp_path / f"{name}.pt")
        arguments = ["--dataset", str(path), "--output", files[name], "--epochs=1", *shape]
        assert pretrain.main(arguments) == 0
    new, usual = (f"untrained:{files[name]}" for name in files)
    data, user_parts = Labelled(read_molecules(path)), UserParts()
    runs = [
        Run(user_parts.resolved(MoleculeConfig(method="untrained", encoder=encoder)), 0)
        for encoder in (new, usual, "untrained", files["own"])
    ]
    pretrained = finetuning.new_encoder(runs[3], data, user_parts.parts)
    mine = finetuning.new_encoder(runs[0], data)
    assert [p.shape for p in mine.parameters()] == [p.shape for p in pretrained.parameters()]
    assert any(
        (p != q).any() for p, q in zip(mine.parameters(), pretrained.parameters(), strict=True)
    )
    assert runs[0] != runs[1] == runs[2]

    command = ["--dataset", str(path), "--method=untrained", "--seeds=1", "--report", str(page)]
    command += ["--output", str(tmp_path / "results")]
    assert main([*command, f"--encoder={new},{files['own']}"]) == 0
    assert len(results(tmp_path / "results")) == 2
    rows = {row["representation"]: row for row in csv_of(page)}
    less = float(rows["own"]["mean"]) - float(rows["untrained:dim=8+layers=2"]["mean"])
    assert float(rows["own"]["vs_untrained"]) == pytest.approx(less, abs=2e-4)
    assert main([*command, "--encoder=untrained:none.pt"]) == 2
    assert says(capsys.readouterr().err, "none.pt", "untrained", "gcl_hard.pretrain")


def test_training_sees_no_test_molecule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Labelled(read_molecules(write(tmp_path, "values")))
    split = data.split("scaffold")
    seen: list[torch.Tensor] = []
    forward = finetuning.TwoView.forward

    def watched(self: Any, graphs: Any) -> Any:
        seen.append(graphs.y)
        return forward(self, graphs)

    monkeypatch.setattr(finetuning.TwoView, "forward", watched)
    data.y = data.y.copy()
    run = run_of("scl", epochs=1)
    marked = data.molecules.y.clone()
    marked[split.test] = marked[split.valid] = 1000.0
    object.__setattr__(data.molecules, "y", marked)
    finetuning.finetune(run, data)
    assert torch.cat(seen).max() < 1000
    assert len(torch.cat(seen)) == len(split.train)


def test_batchnorm_of_an_untrained_encoder_is_that_of_the_training_part(tmp_path: Path) -> None:
    data = Labelled(read_molecules(write(tmp_path, "classes")))
    encoder = finetuning.new_encoder(run_of(), data)
    train = torch.from_numpy(data.split("scaffold").train)
    batch = data.molecules.batch(train)
    first: list[torch.Tensor] = []
    conv = encoder.gin.convs[0]
    handle = conv.register_forward_hook(lambda _, __, out: first.append(out.relu()))
    with torch.no_grad():
        encoder(batch.x, batch.edge_index, batch.batch, batch.edge_attr)
    handle.remove()
    torch.testing.assert_close(encoder.gin.norms[0].running_mean, first[0].mean(0))
    torch.testing.assert_close(encoder.gin.norms[0].running_var, first[0].var(0))
    assert not encoder.training


def test_the_weights_of_a_new_encoder_are_those_that_its_seed_draws(tmp_path: Path) -> None:
    data = Labelled(read_molecules(write(tmp_path, "classes")))
    for shape in ("", "dim=8+layers=2"):
        run = run_of(encoder=":".join(filter(None, ("untrained", shape))), seed=3)
        with seeded_weights(3, 0):
            drawn = MoleculeGIN(8, 2) if shape else MoleculeGIN()
        named = dict(finetuning.new_encoder(run, data).named_parameters())
        assert named.keys() == dict(drawn.named_parameters()).keys()
        for name, weights in drawn.named_parameters():
            assert torch.equal(named[name], weights)


def test_the_similarity_weighs_negatives_by_tanimoto(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gcl_hard.molecules import tanimoto

    data = Labelled(read_molecules(write(tmp_path, "values")))
    split = data.split("scaffold")
    seen: list[tuple[Any, torch.Tensor]] = []
    forward = finetuning.TwoView.forward

    def watched(self: Any, graphs: Any) -> Any:
        rows, columns = torch.tensor([0, 2, 1]), torch.arange(graphs.n_graphs)
        seen.append((graphs.x, self.loss.sampler.pair_weights(rows, columns)))
        return forward(self, graphs)

    monkeypatch.setattr(finetuning.TwoView, "forward", watched)
    finetuning.finetune(run_of("hscl", epochs=1, similarity=4.0, batch_size=16), data)
    part = data.molecules.take(torch.from_numpy(split.train))
    batches = finetuning.epoch_batches(len(part), 16, seed=0, epoch=1)
    for ids, (x, weights) in zip(batches, seen, strict=True):
        assert torch.equal(part.batch(ids).x, x)
        bits = data.fingerprints[split.train[ids.numpy()]]
        expected = 4 * tanimoto(bits[[0, 2, 1]], bits)
        np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [1, 3])
def test_neighbours_stand_beside_each_drawn_molecule_in_its_batch(
    n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rdkit import Chem, DataStructs
    from rdkit.Chem import AllChem

    data = Labelled(read_molecules(write(tmp_path, "values")))
    split = data.split("scaffold")
    part = data.molecules.take(torch.from_numpy(split.train))
    seen: list[torch.Tensor] = []
    forward = finetuning.TwoView.forward
    monkeypatch.setattr(
        finetuning.TwoView, "forward",
        lambda self, graphs: (seen.append(graphs.y), forward(self, graphs))[1],
    )  # fmt: skip
    finetuning.finetune(run_of("hscl", epochs=1, neighbours=n, batch_size=16), data)

    generator = AllChem.GetMorganGenerator(radius=2, fpSize=data.fingerprints.shape[1])
    bits = [generator.GetFingerprint(Chem.MolFromSmiles(s.decode())) for s in part.smiles]
    waiting = torch.cat([*finetuning.epoch_batches(len(part), 16, seed=0, epoch=1)]).tolist()
    expected: list[int] = []
    while waiting:
        drawn = waiting.pop(0)
        alike = DataStructs.BulkTanimotoSimilarity(bits[drawn], bits)
        near = sorted(waiting, key=lambda other: (-alike[other], other))
        near = [other for other in near if rank(alike, drawn, other) < 64][:n]
        expected += [drawn, *near]
        waiting = [other for other in waiting if other not in near]
    assert sorted(expected) == list(range(len(part)))
    assert torch.equal(torch.cat(seen), part.y[expected])
    assert {len(batch) for batch in seen[:-1]} == {16}


def rank(alike: list[float], drawn: int, other: int) -> int:
    """How many others are more similar to a molecule, or as similar and before it."""
    key = (-alike[other], other)
    return sum((-a, k) < key for k, a in enumerate(alike) if k != drawn)


@pytest.mark.slow
def test_the_supervised_head_beats_the_mean_where_there_is_something_to_learn(
    tmp_path: Path,
) -> None:
    data = Labelled(read_molecules(write(tmp_path, "cliffs")))
    split = data.split("given")
    run = run_of("supervised", batch_size=16, split="given", dataset="mine.csv")
    probed, _, _ = finetuning.train_head(run, data)
    assert isinstance(probed, Probed)
    assert rmse(data.y[split.test], probed.test) < 0.7 * data.y[split.test].std()
    assert 0 < probed.validation < data.y[split.valid].std()


def test_a_batch_of_unknown_targets_does_not_end_training() -> None:
    graphs = from_smiles(["C", "CC"], [[np.nan], [np.nan]])
    model = finetuning.TargetModel(finetuning.MoleculeGIN(8, 2), 1, classes=True, scale=(0.0, 1.0))
    loss = model(graphs.all())
    loss.backward()
    assert loss == 0


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        (["smiles,a,b", "C,1.5,2", "CC,2.5,1"], ["a, b", "targets"]),
        (["smiles,y", "C,1.5", "CC,inf"], ["targets", "finite"]),
        (["smiles,y", "C,0", "CC,1", "CCC,2"], ["3 classes"]),
        (["smiles", "C", "CC"], ["mine", "targets", "scored"]),
        (["smiles,y,split", "C,1.5,train", "CC,2,train"], ["column", "split", "test"]),
        (["smiles,y,split", "C,1.5,test", "CC,2,valid"], ["column", "split", "training"]),
    ],
)
def test_a_file_that_cannot_be_scored_is_refused(
    lines: list[str], facts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(lines) + "\n")
    command = ["--dataset", str(path), "--method=ecfp", "--output", str(tmp_path / "results")]
    assert main(command) == 2
    assert says(capsys.readouterr().err, *facts)


def test_a_kernel_of_a_large_set_is_computed_only_if_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(labelled, "LARGE", 10)
    command = ["--dataset", str(write(tmp_path, "classes")), "--method=wl,ecfp", "--seeds=1"]
    command += ["--output", str(tmp_path / "results")]
    assert main(command) == 2
    assert says(capsys.readouterr().err, "classes", "large", "wl", "--probe kernel")
    assert not results(tmp_path / "results")
    assert main([*command, "--probe=kernel"]) == 0
    assert len(results(tmp_path / "results")) == 2


@pytest.mark.parametrize("kind", ["tasks", "values"])
def test_another_probe_is_another_run(kind: str, tmp_path: Path) -> None:
    common = ["--dataset", str(write(tmp_path, kind)), "--seeds=1", f"--output={tmp_path}/results"]
    embeddings = ["--method=untrained,ecfp", "--joined=none,counts+ecfp"]
    for probe in (["--probe=linear"], ["--probe=nystroem"], ["--probe=kernel"], []):
        assert main([*common, *embeddings, *probe]) == 0
    finished = results(tmp_path / "results")
    assert len(finished) == 12
    by_probe = {
        (representation(config_of(result)), config_of(result).probe): predictions(result).tolist()
        for result in finished
    }
    for name in ("untrained", "ecfp", "untrained+counts+ecfp"):
        assert by_probe[name, "kernel"] == by_probe[name, None] != by_probe[name, "linear"]
    assert by_probe["untrained", "linear"] != by_probe["untrained", "nystroem"]
    assert by_probe["ecfp", "linear"] == by_probe["ecfp", "nystroem"]
    assert all(np.isfinite(result.validation).all() for result in finished)


def test_what_is_joined_with_an_encoder_trains_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    forward = finetuning.TwoView.forward
    monkeypatch.setattr(
        finetuning.TwoView, "forward",
        lambda self, graphs: (batches.append(graphs.n_graphs), forward(self, graphs))[1],
    )  # fmt: skip
    path = write(tmp_path, "values")
    common = ["--dataset", str(path), "--method=scl", "--epochs=2", "--seeds=2"]
    joined = "untrained+ecfp"
    assert main([*common, "--joined=ecfp", f"--output={tmp_path}/one"]) == 0
    alone = len(batches)
    assert main([*common, "--joined=none,ecfp", f"--output={tmp_path}/two"]) == 0
    assert len(batches) == 2 * alone
    first, second = (results(tmp_path / name) for name in ("one", "two"))
    again = [result.predicted for result in second if representation(config_of(result)) == joined]
    assert again == [result.predicted for result in first]


@pytest.mark.parametrize(
    ("method", "epochs"), [("scl", 1), ("scl", 3), ("supervised", 3)],
    ids=["embeddings", "loss", "of a head"],
)  # fmt: skip
def test_a_run_that_diverges_does_not_stop_the_others(
    method: str, epochs: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--dataset", str(write(tmp_path, "values")), f"--method={method},untrained,ecfp",
               "--joined=none,ecfp", f"--epochs={epochs}", "--seeds=1", "--lr=1e30",
               f"--output={tmp_path / 'out'}", f"--report={tmp_path / 'page.md'}"]  # fmt: skip
    assert main(command) == 2
    n = 2 if method == "scl" else 1  # with a head nothing is joined
    err = capsys.readouterr().err
    assert says(err, "lr", "temperature")
    assert "Traceback" not in err
    assert len(results(tmp_path / "out")) == 3
    assert not [*(tmp_path / "out").glob(".*")]
    assert says((tmp_path / "page.md").read_text(), n, n + 3, "open")


def context(tmp_path: Path) -> RunContext:
    return RunContext(tmp_path, None, "cpu", 1, 1, {"source": "0"}, experiment_of)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--encoder=missing-{seed}.pt"], r"missing-0\.pt\b.*gcl_hard\.pretrain"),
        (["--method=hucl"], r"\bhucl\b.*\blabels\b.*\bscl, hscl\b"),
    ],
)
def test_what_cannot_be_run_is_one_message(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delenv("GCL_HARD_DATA", raising=False)
    output = ["--output", str(tmp_path / "results")]
    assert main(["--domain=molecules", "--method=untrained", *arguments, *output]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error)
    assert error.count("error:") == 1


def test_a_head_scores_the_tasks_that_training_can_tell_apart(tmp_path: Path) -> None:
    path, output = tmp_path / "mine.csv", tmp_path / "results"
    lines = [f"{s},{int('O' in s)},{0 if i % 7 == 0 else ''}" for i, s in enumerate(SMILES)]
    path.write_text("\n".join(["smiles,oxygen,rare", *lines, ""]))
    command = ["--dataset", str(path), "--method=supervised"]
    assert main([*command, "--epochs=2", "--seeds=1", "--output", str(output)]) == 0
    (result,) = results(output)
    assert result.scores["auc"][0] > 0
    assert result.data["one_class"] == ["rare"]


def test_two_files_of_one_name_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paths.append(str(write(tmp_path / name, "classes")))
    command = ["--dataset", ",".join(paths), "--method=ecfp"]
    assert main([*command, "--output", str(tmp_path / "results")]) == 2
    assert says(capsys.readouterr().err, *paths, "named")
    assert not (tmp_path / "results").exists()


def test_one_of_several_targets_is_scored_and_named_runs_differ(tmp_path: Path) -> None:
    path, output = tmp_path / "two.csv", tmp_path / "results"
    lines = [f"{s},{i / 2},{s.upper().count('C')}" for i, s in enumerate(SMILES)]
    path.write_text("smiles,id,y\n" + "\n".join(lines) + "\n")
    common = ["--dataset", str(path), "--method=counts", "--output", str(output)]
    assert main([*common, "--targets=y"]) == 0
    (first,) = results(output)
    assert first.scores["rmse"][0] < 0.5  # carbon atoms are counted
    (fold,) = first.tested()
    assert fold.targets.tolist() == [SMILES[i].upper().count("C") for i in fold.items]
    assert main([*common, "--targets=id"]) == 0
    assert len(results(output)) == 2


def test_what_is_left_out_of_data_and_scores_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.csv"
    rows = [f"{s},{int('O' in s)},{int(i == 0)}" for i, s in enumerate(SMILES)]
    path.write_text("smiles,oxygen,first\nnothing,1,1\n" + "\n".join(rows) + "\n")
    command = ["--dataset", str(path), "--method=ecfp", "--output", str(tmp_path / "results")]
    assert main([*command, "--split=scaffold"]) == 0
    error = capsys.readouterr().out
    assert says(error, 1, 81, "SMILES", "'nothing'", "number 1")
    assert says(error, "auc", "class", "first")


def row_name(config: RunConfig) -> str:
    """What its row is called."""
    return experiment_of(config).row_name(config)


def planned(*arguments: str, seeds: int = 2) -> Counter[str]:
    """How many runs a command has, by what their rows are called."""
    configs = parse_bench(["--domain=molecules", *arguments]).configs
    return Counter(row_name(run.config) for run in plan(configs, range(seeds), select=False))


def test_what_no_seed_changes_runs_once_and_joins_nothing_that_means_nothing() -> None:
    joined = planned("--method=ecfp,untrained,scl,supervised", "--joined=none,ecfp")
    assert joined == {
        "ecfp": 1, "untrained": 2, "untrained+ecfp": 2, "untrained scl": 2,
        "untrained+ecfp scl": 2, "untrained supervised": 2,
    }  # fmt: skip
    assert planned("--method=ecfp,counts", "--joined=ecfp") == {"ecfp": 1, "counts+ecfp": 1}
    assert planned("--method=ecfp", "--train-share=0.5") == {"ecfp": 2}
    assert planned("--method=untrained,scl", "--encoder=a.pt") == {"a": 1, "a scl": 2}
    assert planned("--method=untrained", "--encoder=a-{seed}.pt") == {"a": 2}


def test_molecules_of_one_class_in_the_test_part_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Labelled(read_data(["C", "CC", "CO", "CN"], [[0, 1], [1, 1], [0, 1], [1, 1]]))
    from gcl_hard.evaluation import ThreeWaySplit

    ids = np.arange(4)
    split = ThreeWaySplit(ids[:1], ids[1:2], ids)
    monkeypatch.setattr(data, "split_of", lambda _: split)
    trained = TrainedRun(run_of("supervised"), scores=Probed(np.zeros((4, 2)), 0.5))
    scored = MoleculeExperiment().score(trained, data, context(tmp_path))
    assert scored.facts["one_class"] == ["b"]
    assert scored.facts["few"] == ["a"]
    assert scored.scores(MoleculeExperiment().metrics(run_of("supervised").config, data)) == {
        "auc": [50]
    }
    assert scored.validation == (50,)


def read_data(smiles: list[str], y: Any) -> Any:
    from gcl_hard.molecules import MoleculeData

    return MoleculeData(from_smiles(smiles, y, tasks=["a", "b"]), "tasks")
