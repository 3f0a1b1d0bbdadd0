"""Transfer: which runs there are, what they may know, and that finished ones are not repeated."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import torch

from gcl_hard import pretrain
from gcl_hard.commands import transfer
from gcl_hard.commands.transfer import Asked, parse_transfer
from gcl_hard.errors import InputError
from gcl_hard.evaluation import scaffold_split
from gcl_hard.evaluation.transfer import Probed, rmse
from gcl_hard.experiments import finetuning, labelled, molecules
from gcl_hard.experiments.custom import UserParts
from gcl_hard.experiments.labelled import Labelled
from gcl_hard.experiments.molecules import MoleculeExperiment
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.graphs import MoleculeGIN, from_smiles, read_molecules
from gcl_hard.reports.transfer import Shown, differences, frame, size_figure
from gcl_hard.runs.experiment import RunContext, TrainedRun, seeded_weights
from gcl_hard.runs.plan import Run
from gcl_hard.runs.record import RunResult
from gcl_hard.runs.store import COMPACT, Store
from gcl_hard.settings.molecules import MoleculeConfig
from gcl_hard.transfer import main
from tests.said import says

pytest.importorskip("rdkit")
RINGS = ["c1ccccc1", "C1CC1", "c1ccncc1", "C1CCCCC1", "c1ccoc1", "c1ccsc1", "C1CCNCC1", "C1CCOC1"]
SMILES = [f"{'C' * n}{end}{ring}" for n in range(1, 6) for end in ("", "O") for ring in RINGS]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))


def write(folder: Path, kind: str) -> Path:
    """Targets that depend on the molecule: oxygen, and the length of the chain."""
    lengths = np.array([one.count("C") for one in SMILES])
    oxygen = np.array(["O" in one for one in SMILES], int)
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


def asked(*arguments: str) -> list[Asked]:
    """The runs of a command line, files by their paths."""
    return parse_transfer(arguments).asked()


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
    small = ["--epochs=2", "--batch-size=16", "--report", str(page)]
    joined = "untrained+ecfp,untrained+counts,counts+wl"
    assert main([*common, f"--embeddings=untrained,ecfp,wl,counts,{joined}", *small]) == 0
    tuned = ["--embeddings=untrained", "--finetune=scl,hscl,supervised", "--similarity=2"]
    assert main([*common, *tuned, *small]) == 0
    found = results(output)
    assert len(found) == 10
    for one in found:
        assert np.isfinite(one.scores[metric]).all()
        assert len(predictions(one)) > 0
        assert np.isfinite(predictions(one)).all()
    text = page.read_text()
    assert "untrained, hscl" in text
    assert "bootstrap" in text or "untrained, scl" in text


@pytest.mark.parametrize("embedding", ["ecfp", "untrained"])
def test_a_constant_added_to_all_targets_changes_no_error(embedding: str, tmp_path: Path) -> None:
    found = []
    for offset in (0, -2_012_742, 10**9):
        path, output = tmp_path / f"from{offset}.csv", tmp_path / str(offset)
        rows = [f"{s},{offset + len(s) / 100:.4f}" for s in SMILES]
        path.write_text("smiles,y\n" + "\n".join(rows) + "\n")
        tuned = "supervised" if embedding == "untrained" else "none"
        command = [f"--embeddings={embedding}", f"--finetune={tuned}", "--epochs=3", "--seeds=1"]
        assert main(["--dataset", str(path), *command, "--output", str(output)]) == 0
        found.append(results(output)[0].scores["rmse"][0])
    assert found[1:] == pytest.approx([found[0]] * 2, rel=1e-3)


def test_a_split_of_other_words_is_refused_where_it_is_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "cliffs")
    path.write_text(path.read_text().replace(",train", ",external", 1))
    command = ["--dataset", str(path), "--embeddings=ecfp", "--output", str(tmp_path / "out")]
    assert main(command) == 2
    assert says(capsys.readouterr().err, "'external'", "train", "valid", "test")
    assert main([*command, "--split=scaffold"]) == 0


def mirrored(folder: Path) -> Path:
    """Two diastereomers of each of several fused rings, and others without stereo centres."""
    rings = [
        f"{'C' * n}C1C[C{turn}H]2CCC{'C' * size}[C@H]2O1"
        for size in range(4) for turn in ("@", "@@") for n in range(size + 1, 4)
    ]  # fmt: skip
    path = folder / "mirrored.csv"
    rows = [f"{one},{i % 7}.5" for i, one in enumerate([*rings, *SMILES[:30]])]
    path.write_text("smiles,y\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("chirality", [False, True])
def test_splits_by_scaffold_tell_mirror_images_apart_where_their_name_says_so(
    chirality: bool, tmp_path: Path
) -> None:
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    data = Labelled(read_molecules(mirrored(tmp_path)))
    of = [
        MurckoScaffoldSmiles(one.decode(), includeChirality=chirality)
        for one in data.molecules.smiles
    ]
    for name in ("scaffold", "random-0", "random-2"):
        split = data.split(f"{name}-chirality" if chirality else name)
        seed = None if name == "scaffold" else int(name[-1])
        for part, expected in zip(split, scaffold_split(of, seed=seed), strict=True):
            assert part.tolist() == expected.tolist()
        assert not {of[i] for i in split.train} & {of[i] for i in split.test}


def test_pages_say_which_splits_tell_mirror_images_apart(tmp_path: Path) -> None:
    path, output, page = mirrored(tmp_path), tmp_path / "out", tmp_path / "page.md"
    command = ["--dataset", str(path), "--embeddings=ecfp", "--output", str(output)]
    both = ["--split=scaffold,scaffold-chirality", "--report", str(page)]
    assert main([*command, *both]) == 0
    assert says(page.read_text(), "scaffold, scaffold-chirality", "DeepChem")
    assert main([*command, "--split=scaffold", "--report-only", "--report", str(page)]) == 0
    assert not says(page.read_text(), "DeepChem")


def test_results_and_pages_name_their_targets(tmp_path: Path) -> None:
    path, page = write(tmp_path, "tasks"), tmp_path / "page.md"
    out = tmp_path / "out"
    command = ["--embeddings=ecfp", "--output", str(out), "--report", str(page)]
    assert main(["--dataset", str(path), *command]) == 0
    (one,) = results(out)
    assert one.data["tasks"] == ["a", "b"]
    assert says(page.read_text(), "targets", "tasks", "a, b")


def test_hscl_is_compared_with_scl_and_the_frozen_encoder_of_the_same_settings(
    tmp_path: Path,
) -> None:
    path, page = write(tmp_path, "cliffs"), tmp_path / "page.md"
    command = ["--dataset", str(path), "--embeddings=untrained", "--finetune=none,scl,hscl"]
    more = ["--beta=0.5,4", "--similarity=0,2", "--seeds=2", "--epochs=1", "--batch-size=16"]
    target = ["--output", str(tmp_path / "results"), "--report", str(page)]
    assert main([*command, *more, *target]) == 0
    found = transfer.transfer(parse_transfer([*command, *more, *target]))
    of: dict[str, list[float]] = {}
    for one in found:
        of.setdefault(one.row, []).append(one.result.scores["cliff_rmse"][0])
    mean = {row: float(np.mean(scores)) for row, scores in of.items()}
    table = differences(found, "cliff_rmse")
    for kappa in ("0", "2"):
        for beta in ("0.5", "4"):
            row = f"untrained, hscl, beta {beta}, similarity {kappa}"
            for column, control in (
                ("− scl", f"untrained, scl, similarity {kappa}"), ("− frozen", "untrained")
            ):  # fmt: skip
                said = float(table.loc[row, column].split(" ")[0])
                assert said == pytest.approx(mean[row] - mean[control], abs=6e-4)
    assert "[" in table.loc["untrained, hscl, chosen", "− scl"]
    other = "untrained, hscl, chosen"
    table = differences(found, "cliff_rmse", other)
    assert (
        table.loc["untrained", f"− “{other}”"].split(" ")[0]
        == f"{mean['untrained'] - mean[other]:+.3f}"
    )
    assert main([*command, *more, *target, "--report-only", f"--against={other}"]) == 0
    assert f"− “{other}”" in page.read_text()
    assert main([*command, *more, *target, "--report-only", "--against=untrained, hcsl"]) == 2
    assert page.with_name("page-cliffs.png").stat().st_size > 1000
    assert "(page-cliffs.png)" in page.read_text()
    assert "GCN" not in page.read_text()  # published means are over twenty sets


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
    command = ["--dataset", str(tmp_path / "values.csv"), "--embeddings=ecfp", "--seeds=2"]
    target = ["--output", str(output), "--report", str(page)]
    assert main([*command, "--train-share=0.25,0.5,1", *target]) == 0
    sizes = sorted(one.data["sizes"][0] for one in results(output))
    assert sizes == sorted([*(len(p.train) for k, p in parts.items() if k != (1.0, 1))])
    assert says(page.read_text(), "ecfp, 25 %")
    assert page.with_name("page-curve-rmse.png").stat().st_size > 1000
    assert main([*command, *target]) == 0
    assert len(results(output)) == 5  # the whole part has been run
    assert main([*command, "--train-share=0", *target]) == 2


def test_finished_runs_are_not_repeated_and_a_part_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, output = write(tmp_path, "classes"), tmp_path / "results"
    command = ["--dataset", str(path), "--embeddings=ecfp,untrained", "--output", str(output)]
    assert main([*command, "--report-only"]) == 2
    assert says(capsys.readouterr().err, 4, "finished", str(output))
    assert main([*command, "--seeds=1"]) == 0
    times = {p.name: p.stat().st_mtime_ns for p in output.iterdir()}
    assert len(times) == 2
    page = tmp_path / "page.md"
    assert main([*command, "--report-only", "--report", str(page)]) == 0
    assert says(page.read_text(), 2, 4, "open")
    assert main(command) == 0
    now = {p.name: p.stat().st_mtime_ns for p in output.iterdir()}
    assert len(now) == 4
    assert all(now[name] == when for name, when in times.items())


@pytest.mark.parametrize(("kind", "metric"), [("values", "rmse"), ("classes", "auc")])
def test_of_several_settings_the_validation_part_chooses(
    kind: str, metric: str, tmp_path: Path
) -> None:
    path, output = write(tmp_path, kind), tmp_path / "results"
    command = ["--dataset", str(path), "--embeddings=untrained", "--finetune=none,scl,hscl"]
    small = ["--seeds=2", "--epochs=1", "--batch-size=16", "--output", str(output)]
    shown = transfer.transfer(
        parse_transfer([*command, *small, "--beta=0.5,4", "--similarity=0,2"])
    )
    done = results(output)
    assert len(done) == 2 * (1 + 2 + 4)
    chosen = {(one.row, one.result.seed): one.result for one in shown
              if one.row.endswith("chosen")}  # fmt: skip
    assert {row for row, _ in chosen} == {"untrained, scl, chosen", "untrained, hscl, chosen"}
    for (row, seed), one in chosen.items():
        mine = [
            other for other in done
            if other.seed == seed and other.run.config.method == row.split(", ")[1]
        ]  # fmt: skip
        assert len(mine) == (4 if "hscl" in row else 2)
        scores = [other.validation for other in mine]
        assert one.validation == (max(scores) if metric == "auc" else min(scores))
        assert one.scores == next(
            other.scores for other in mine if other.validation == one.validation
        )
    alone = ["--report-only", "--seeds=2", "--epochs=1", "--batch-size=16", "--beta=4"]
    rows = transfer.transfer(parse_transfer([*command, *alone, "--output", str(output)]))
    assert {one.row for one in rows} == {"untrained", "untrained, scl", "untrained, hscl"}


def test_a_pretrained_encoder_is_known_by_its_content(tmp_path: Path) -> None:
    path, output = write(tmp_path, "classes"), tmp_path / "results"
    small = ["--layers=2", "--dim=8", "--batch-size=16"]
    for seed in (0, 1):
        file = tmp_path / f"own-{seed}.pt"
        made = ["--dataset", str(path), "--output", str(file), f"--seed={seed}", *small]
        assert pretrain.main(made) == 0
    command = ["--dataset", str(path), "--seeds=2", "--output", str(output)]
    assert main([*command, f"--embeddings={tmp_path}/own-{{seed}}.pt"]) == 0
    assert len(results(output)) == 2
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
        made = ["--dataset", str(path), "--output", files[name], "--epochs=1", *shape]
        assert pretrain.main(made) == 0
    new, usual = (f"untrained:{files[name]}" for name in files)
    data, own = Labelled(read_molecules(path)), UserParts()
    of = [
        Run(own.resolved(MoleculeConfig(method="untrained", encoder=one)), 0)
        for one in (new, usual, "untrained", files["own"])
    ]
    pretrained = finetuning.new_encoder(of[3], data, own.parts)
    mine = finetuning.new_encoder(of[0], data)
    assert [p.shape for p in mine.parameters()] == [p.shape for p in pretrained.parameters()]
    assert any(
        (p != q).any() for p, q in zip(mine.parameters(), pretrained.parameters(), strict=True)
    )
    assert of[0] != of[1] == of[2]

    command = ["--dataset", str(path), "--seeds=1", "--output", str(tmp_path / "results")]
    capsys.readouterr()
    assert main([*command, f"--embeddings=untrained,{files['own']},{new}"]) == 0
    assert new not in capsys.readouterr().err
    assert main([*command, f"--embeddings=untrained,{files['own']}"]) == 0
    assert new in capsys.readouterr().err
    assert main([*command, f"--embeddings={new},{files['own']}", "--report", str(page)]) == 0
    assert len(results(tmp_path / "results")) == 3
    found = transfer.transfer(parse_transfer([*command, f"--embeddings={new},{files['own']}"]))
    means = {one.row: one.result.scores["auc"][0] for one in found}
    said = differences(found, "auc").loc["own", "− untrained"]
    assert said.startswith(f"{means['own'] - means['untrained:own']:+.1f}")
    assert main([*command, "--embeddings=untrained:none.pt"]) == 2
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
        found = dict(finetuning.new_encoder(run, data).named_parameters())
        assert found.keys() == dict(drawn.named_parameters()).keys()
        for name, weights in drawn.named_parameters():
            assert torch.equal(found[name], weights)


def test_the_similarity_weighs_negatives_by_tanimoto(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gcl_hard.graphs import tanimoto

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

    made = AllChem.GetMorganGenerator(radius=2, fpSize=data.fingerprints.shape[1])
    bits = [made.GetFingerprint(Chem.MolFromSmiles(s.decode())) for s in part.smiles]
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
    assert {len(one) for one in seen[:-1]} == {16}


def rank(alike: list[float], drawn: int, other: int) -> int:
    """How many others are more similar to a molecule, or as similar and before it."""
    key = (-alike[other], other)
    return sum((-a, k) < key for k, a in enumerate(alike) if k != drawn)


def test_the_supervised_head_beats_the_mean_where_there_is_something_to_learn(
    tmp_path: Path,
) -> None:
    data = Labelled(read_molecules(write(tmp_path, "cliffs")))
    split = data.split("given")
    run = run_of("supervised", batch_size=16, split="given", dataset="mine.csv")
    found, _, _ = finetuning.train_head(run, data)
    assert isinstance(found, Probed)
    assert rmse(data.y[split.test], found.test) < 0.7 * data.y[split.test].std()
    assert 0 < found.validation < data.y[split.valid].std()


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
        (["smiles,y", "C,1.5", "CC,inf"], ["column y", "targets", "finite"]),
        (["smiles,y", "C,0", "CC,1", "CCC,2"], ["3 classes"]),
        (["smiles", "C", "CC"], ["mine", "targets", "scored"]),
        (["smiles,y,split", "C,1.5,train", "CC,2,train"], ["column", "split", "test", "valid"]),
        (["smiles,y,split", "C,1.5,test", "CC,2,valid"], ["column", "split", "leaves", "train"]),
    ],
)
def test_a_file_that_cannot_be_scored_is_refused(
    lines: list[str], facts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(lines) + "\n")
    command = ["--dataset", str(path), "--embeddings=ecfp", "--output", str(tmp_path / "results")]
    assert main(command) == 2
    assert says(capsys.readouterr().err, *facts)


def test_a_files_own_parts_are_used(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    parts = ["train"] * 50 + ["Valid"] * 15 + ["TEST"] * 15
    rows = [f"{s},{len(s)}.5,{part}" for s, part in zip(SMILES, parts, strict=True)]
    path.write_text("\n".join(["smiles,y,split", *rows]) + "\n")
    (one,) = asked(f"--dataset={path}", "--embeddings=ecfp")
    assert one.run.config.split == "given"
    split = Labelled(read_molecules(path)).split("given")
    assert [part.tolist() for part in split] == [
        [*range(50)], [*range(50, 65)], [*range(65, 80)]
    ]  # fmt: skip


def test_seeds_of_a_row_share_its_label_and_files_of_one_name_do_not(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for seed in (0, 1):
            (tmp_path / folder / f"moses-{seed}.pt").write_bytes(b"")
    one, other = (f"{tmp_path}/{folder}/moses-{{seed}}.pt" for folder in "ab")
    tuned, seeds = "--finetune=none,scl", "--seeds=2"
    found = asked(f"--embeddings={one},{one}+ecfp,ecfp", tuned, seeds)
    assert {one.row for one in found} == {
        "moses", "moses, scl", "moses+ecfp", "moses+ecfp, scl", "ecfp"
    }  # fmt: skip
    fixed = asked(f"--embeddings={tmp_path}/a/moses-1.pt", "--finetune=scl", seeds)
    assert {one.row for one in fixed} == {"moses-1, scl"}
    assert len({one.row for one in asked(f"--embeddings={one},{other}", "--seeds=1")}) == 2


def test_a_kernel_of_a_large_set_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labelled, "LARGE", 10)
    path, page = write(tmp_path, "classes"), tmp_path / "page.md"
    command = ["--dataset", str(path), "--embeddings=wl,ecfp,ecfp+wl", "--report", str(page)]
    assert main([*command, "--output", str(tmp_path / "results")]) == 0
    assert says(page.read_text(), "large", "kernel", "classes")
    assert len(results(tmp_path / "results")) == 1
    assert main([*command, "--probe=kernel", "--output", str(tmp_path / "anyway")]) == 0
    assert len(results(tmp_path / "anyway")) == 3


@pytest.mark.parametrize("kind", ["tasks", "values"])
def test_another_probe_is_another_run(kind: str, tmp_path: Path) -> None:
    common = ["--dataset", str(write(tmp_path, kind)), "--seeds=1", f"--output={tmp_path}/results"]
    embeddings = "--embeddings=untrained,ecfp,untrained+counts+ecfp"
    for probe in (["--probe=linear"], ["--probe=nystroem"], ["--probe=kernel"], []):
        assert main([*common, embeddings, *probe]) == 0
    found = results(tmp_path / "results")
    assert len(found) == 12
    by_probe = {
        (config_of(one).representation, config_of(one).probe): predictions(one).tolist()
        for one in found
    }
    for name in ("untrained", "ecfp", "untrained+counts+ecfp"):
        assert by_probe[name, "kernel"] == by_probe[name, None] != by_probe[name, "linear"]
    assert by_probe["untrained", "linear"] != by_probe["untrained", "nystroem"]
    assert by_probe["ecfp", "linear"] == by_probe["ecfp", "nystroem"]
    assert all(np.isfinite(one.validation).all() for one in found)


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
    common = ["--dataset", str(path), "--finetune=scl", "--epochs=2", "--seeds=2"]
    joined = "untrained+ecfp"
    assert main([*common, "--embeddings", joined, f"--output={tmp_path}/one"]) == 0
    alone = len(batches)
    assert main([*common, f"--embeddings=untrained,{joined}", f"--output={tmp_path}/two"]) == 0
    assert len(batches) == 2 * alone
    first, second = (results(tmp_path / name) for name in ("one", "two"))
    again = [one.predicted for one in second if config_of(one).representation == joined]
    assert again == [one.predicted for one in first]


@pytest.mark.slow
@pytest.mark.exact
def test_processes_give_the_results_of_one(tmp_path: Path) -> None:
    command = ["--dataset", str(write(tmp_path, "cliffs")), "--embeddings=untrained,untrained+ecfp",
               "--finetune=none,scl,supervised", "--epochs=2", "--seeds=2"]  # fmt: skip
    found = {}
    for jobs in (1, 2):
        out = tmp_path / f"of-{jobs}"
        assert main([*command, f"--jobs={jobs}", f"--output={out}"]) == 0
        found[jobs] = [
            replace(one, seconds_train=0.0, seconds_eval=0.0, finished="") for one in results(out)
        ]
        assert not [*out.glob(".*")]
    assert len(found[1]) == 10
    assert found[1] == found[2]


@pytest.mark.parametrize(
    ("method", "epochs"), [("scl", 1), ("scl", 3), ("supervised", 3)],
    ids=["embeddings", "loss", "of a head"],
)  # fmt: skip
def test_a_run_that_diverges_does_not_stop_the_others(
    method: str, epochs: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    embeddings = "untrained,untrained+ecfp,ecfp"
    command = ["--dataset", str(write(tmp_path, "values")), f"--embeddings={embeddings}",
               f"--finetune={method},none", f"--epochs={epochs}", "--seeds=1", "--lr=1e30",
               f"--output={tmp_path / 'out'}", f"--report={tmp_path / 'page.md'}"]  # fmt: skip
    assert main(command) == 2
    n = 2 if method == "scl" else 1  # with a head nothing is joined
    said = capsys.readouterr().err
    assert says(said, n, n + 3, "failed")
    assert len([line for line in said.splitlines() if line.startswith("failed: ")]) == 1
    assert says(said, "lr", "temperature")
    assert "Traceback" not in said
    assert len(results(tmp_path / "out")) == 3
    assert not [*(tmp_path / "out").glob(".*")]
    assert says((tmp_path / "page.md").read_text(), n, n + 3, "open")


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a probe it ends the command at once, and the run before has been stored."""
    command = ["--dataset", str(write(tmp_path, "values")), "--embeddings=untrained,untrained+ecfp",
               "--seeds=1", f"--output={tmp_path / 'out'}"]  # fmt: skip
    probe, calls = molecules.kernel_predictions, []

    def interrupted(*given: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return probe(*given, **options)

    monkeypatch.setattr(molecules, "kernel_predictions", interrupted)
    assert main(command) == 130
    assert len(calls) == 2
    assert [config_of(one).joined for one in results(tmp_path / "out")] == [None]
    assert not [*(tmp_path / "out").glob(".*")]
    assert main(command) == 0
    assert len(results(tmp_path / "out")) == 2


def test_other_data_of_the_same_name_are_read_anew(tmp_path: Path) -> None:
    for number in (1, 2):
        folder = tmp_path / f"data-{number}"
        folder.mkdir()
        rows = [f"{s},{number * s.count('C')}" for s in SMILES]
        (folder / "delaney.csv").write_text("smiles,measured log solubility in mols per litre\n"
                                         + "\n".join(rows) + "\n")  # fmt: skip
        out = tmp_path / f"out-{number}"
        command = ["--dataset=ESOL", "--embeddings=ecfp", f"--data-dir={folder}"]
        assert main([*command, f"--output={out}"]) == 0
    first, second = (results(tmp_path / f"out-{n}")[0].tested()[0].targets for n in (1, 2))
    assert (second == 2 * first).all()


def context(tmp_path: Path) -> RunContext:
    return RunContext(tmp_path, None, "cpu", 1, 1, {"source": "0"}, experiment_of)


def test_a_file_that_changes_while_a_command_runs_is_refused(tmp_path: Path) -> None:
    path, own = write(tmp_path, "values"), UserParts()
    config = cast("MoleculeConfig", own.resolved(MoleculeConfig(str(path), "ecfp")))
    table = own.graphs[config.dataset]
    MoleculeExperiment().load(config, context(tmp_path), table)
    path.write_text(path.read_text().replace("\nC", "\nCC", 1))
    with pytest.raises(InputError, match=rf"{path}\b.*\bfile\b.*\bagain\b"):
        MoleculeExperiment().load(config, context(tmp_path), table)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--jobs=0"], r"jobs\D+1\D+0\b"),
        (["--probe=forest"], "probe"),
        (["--probe=linear", "--embeddings=ecfp,wl"], r"\bwl\b.*--probe kernel"),
        (["--embeddings=ecfp", "--finetune=scl"], r"\becfp\b.*\buntrained\b.*gcl_hard\.pretrain"),
        (["--dataset=BASE"], r"'BASE'[^,]*\bBACE\b[^,]*\bBACE\b"),
        (["--embeddings=missing.pt"], r"missing\.pt\b.*gcl_hard\.pretrain"),
        (["--embeddings=untrained+own.pt"], r"untrained\+own\.pt\b.*\bencoders\b.*\becfp\b"),
        (["--finetune=nothing"], "finetune"),
        (["--finetune=scl", "--label-gap=1"], r"label-gap\b.*\btwo\b.* 1\b"),
        (["--finetune=hucl"], r"\bhucl\b.*\blabels\b.*\bscl, hscl\b"),
        (["--dataset=BACE", "--split=given"], r"\bBACE\b.*\bgiven\b.*\bscaffold, random-0\b"),
        (["--split=sideways"], "split"),
        (["--table=3"], "table"),
        (["--targets=y"], r"\btargets\b.*\bBACE\b"),
        (["--report=page.txt"], "NAME.md"),
    ],
)
def test_what_cannot_be_run_is_one_message(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delenv("GCL_HARD_DATA", raising=False)
    assert main([*arguments, "--output", str(tmp_path / "results")]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error)
    assert error.count("error:") == 1


def test_encoders_of_several_sizes_give_a_curve(tmp_path: Path) -> None:
    path, output, page = write(tmp_path, "classes"), tmp_path / "results", tmp_path / "page.md"
    made = []
    for n in (20, 60):
        made.append(str(tmp_path / f"of-{n}.pt"))
        arguments = ["--dataset", str(path), "--subset", str(n), "--dim=4", "--layers=1"]
        assert pretrain.main([*arguments, "--output", made[-1]]) == 0
    common = ["--dataset", str(path), "--seeds=2", "--output", str(output)]
    common += ["--split=scaffold", "--report", str(page)]
    curve = page.with_name("page-size-auc.png")
    assert main([*common, f"--embeddings=untrained,{made[0]}"]) == 0
    assert not curve.exists()  # one size is no curve
    assert main([*common, f"--embeddings=untrained,{made[0]},{made[1]},ecfp"]) == 0
    assert curve.exists()
    assert curve.name in page.read_text()
    found = {config_of(one).representation: one.data.get("pretrained") for one in results(output)}
    assert found == {"untrained": 0, "of-20": 20, "of-60": 60, "ecfp": None}
    data = frame([Shown(config_of(one).representation, one) for one in results(output)])
    figure = size_figure(data, "auc")
    assert figure is not None
    drawn = [line.get_ydata() for line in figure.axes[0].get_lines()]
    expected = [data.loc[data["row"] == row, "score"].iloc[0] for row in ("of-20", "of-60")]
    assert any(np.allclose(y, expected) for y in drawn)
    other = data.assign(row=data["row"] + "-hscl")
    assert size_figure(pd.concat([data, other]), "auc") is None  # a curve of two methods


def test_a_head_scores_the_tasks_that_training_can_tell_apart(tmp_path: Path) -> None:
    path, output = tmp_path / "mine.csv", tmp_path / "results"
    lines = [f"{s},{int('O' in s)},{0 if i % 7 == 0 else ''}" for i, s in enumerate(SMILES)]
    path.write_text("\n".join(["smiles,oxygen,rare", *lines, ""]))
    command = ["--dataset", str(path), "--embeddings=untrained", "--finetune=supervised"]
    assert main([*command, "--epochs=2", "--seeds=1", "--output", str(output)]) == 0
    (found,) = results(output)
    assert found.scores["auc"][0] > 0
    assert found.data["one_class"] == ["rare"]


def test_lists_of_the_command_are_read(tmp_path: Path) -> None:
    path, output = write(tmp_path, "classes"), tmp_path / "results"
    command = ["--dataset", str(path), "--embeddings=untrained", "--finetune=scl", "--epochs=1"]
    lists = ["--neighbours=0,3", "--similarity=0,4"]
    assert main([*command, *lists, "--seeds=1", "--output", str(output)]) == 0
    settings = {(one.config["neighbours"], one.config["similarity"]) for one in results(output)}
    assert settings == {(0, 0.0), (0, 4.0), (3, 0.0), (3, 4.0)}


def test_two_files_of_one_name_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paths.append(str(write(tmp_path / name, "classes")))
    command = ["--dataset", ",".join(paths), "--embeddings=ecfp"]
    assert main([*command, "--output", str(tmp_path / "results")]) == 2
    assert says(capsys.readouterr().err, *paths, "named")
    assert not (tmp_path / "results").exists()


def test_one_of_several_targets_is_scored_and_named_runs_differ(tmp_path: Path) -> None:
    path, output = tmp_path / "two.csv", tmp_path / "results"
    lines = [f"{s},{i / 2},{s.upper().count('C')}" for i, s in enumerate(SMILES)]
    path.write_text("smiles,id,y\n" + "\n".join(lines) + "\n")
    common = ["--dataset", str(path), "--embeddings=counts", "--output", str(output)]
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
    command = ["--dataset", str(path), "--embeddings=ecfp", "--output", str(tmp_path / "results")]
    assert main([*command, "--split=scaffold"]) == 0
    error = capsys.readouterr().err
    assert says(error, 1, 81, "SMILES", "'nothing'", "number 1")
    assert says(error, "auc", "class", "first")


def test_what_has_no_encoder_runs_once() -> None:
    found = asked(
        "--embeddings=ecfp,untrained,untrained+ecfp", "--finetune=none,scl,supervised", "--seeds=2"
    )
    names = [one.row for one in found]
    assert names.count("ecfp") == 1
    assert names.count("untrained, supervised") == 2
    assert "untrained+ecfp, supervised" not in names
    assert len(found) == 1 + 2 * 3 + 2 * 2


def test_a_frozen_encoder_of_one_file_runs_once(tmp_path: Path) -> None:
    one, each = (f"--embeddings={tmp_path}/own-{seed}.pt" for seed in ("0", "{seed}"))
    assert [one.run.seed for one in asked(one, "--seeds=2")] == [0]
    assert [one.run.seed for one in asked(each, "--seeds=2")] == [0, 1]
    assert [one.run.seed for one in asked(one, "--seeds=2", "--finetune=scl")] == [0, 1]


def test_molecules_of_one_class_in_the_test_part_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Labelled(read_data(["C", "CC", "CO", "CN"], [[0, 1], [1, 1], [0, 1], [1, 1]]))
    from gcl_hard.evaluation import ThreeWaySplit

    ids = np.arange(4)
    split = ThreeWaySplit(ids[:1], ids[1:2], ids)
    monkeypatch.setattr(data, "split_of", lambda _: split)
    trained = TrainedRun(run_of("supervised"), scores=Probed(np.zeros((4, 2)), 0.5))
    found = MoleculeExperiment().score(trained, data, context(tmp_path))
    assert found.facts["one_class"] == ["b"]
    assert found.facts["few"] == ["a"]
    assert found.scores(MoleculeExperiment().metrics(run_of("supervised").config, data)) == {
        "auc": [50]
    }
    assert found.validation == (50,)


def read_data(smiles: list[str], y: Any) -> Any:
    from gcl_hard.graphs import MoleculeData

    return MoleculeData(from_smiles(smiles, y, tasks=["a", "b"]), "tasks")


def test_the_compact_form_is_read_like_single_files(tmp_path: Path) -> None:
    path, output = write(tmp_path, "tasks"), tmp_path / "results"
    page = tmp_path / "page.md"
    command = ["--dataset", str(path), "--seeds=2", "--output", str(output), "--report", str(page)]
    assert main(command) == 0
    before, pages = results(output), page.read_text()
    assert main(["--compact", str(output)]) == 0
    assert [p.name for p in output.iterdir()] == [COMPACT]
    assert main([*command, "--report-only"]) == 0
    assert page.read_text().replace(" --report-only", "") == pages
    assert results(output) == before
    assert len(before) == 3
    assert main([*command, "--embeddings=wl"]) == 0
    assert main(["--compact", str(output)]) == 0
    assert len(results(output)) == 4


def test_a_damaged_result_is_named_and_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, output = write(tmp_path, "classes"), tmp_path / "results"
    command = ["--dataset", str(path), "--embeddings=ecfp", "--output", str(output)]
    assert main(command) == 0
    (single,) = output.glob("*.json")
    whole = results(output)
    single.write_text(single.read_text()[:100])
    assert main(command) == 0
    assert says(capsys.readouterr().err, single.name, "damaged")
    assert results(output)[0].scores == whole[0].scores


def test_a_bar_in_a_sets_name_is_no_edge_of_a_cell(tmp_path: Path) -> None:
    path = write(tmp_path, "classes")
    path = path.rename(path.with_name("a|b.csv"))
    page = tmp_path / "page.md"
    command = ["--dataset", str(path), "--embeddings=ecfp", "--output", str(tmp_path / "out")]
    assert main([*command, "--report", str(page)]) == 0
    head, line, *rows = (row for row in page.read_text().splitlines() if row.startswith("|"))
    assert r"a\|b" in head
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in (head, rows[0])} == {line.count("|")}
