"""Pre-training: what is drawn, in which order, resumed, saved, and read again."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gcl_hard import bench, evaluate, load_encoder
from gcl_hard.commands.pretrain import parse_pretrain
from gcl_hard.errors import InputError
from gcl_hard.experiments.pretraining import drawn
from gcl_hard.graphs import TwoView, embed_graphs, load_graphs
from gcl_hard.graphs.features import vocabulary
from gcl_hard.molecules import MoleculeGIN, from_smiles, from_tu
from gcl_hard.molecules import pretraining as molecule_pretraining
from gcl_hard.molecules.pretraining import GROUP_SIZE, load_pretrained, order
from gcl_hard.pretrain import main
from tests.said import says

pytest.importorskip("rdkit")
CHAINS = ["C" * n + end for n in range(1, 13) for end in ("O", "N", "c1ccccc1", "C1CC1", "F")]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "chains.csv"
    path.write_text("smiles\n" + "\n".join(CHAINS) + "\n")
    return path


def flags(csv: Path, output: Path, *more: str) -> list[str]:
    small = ["--layers=2", "--dim=8", "--batch-size=16", "--epochs=2"]
    return ["--dataset", str(csv), "--output", str(output), *small, *more]


def state(path: Path) -> dict[str, torch.Tensor]:
    return dict(torch.load(path, weights_only=True)["encoder"])


def equal(a: Path, b: Path) -> bool:
    first, second = state(a), state(b)
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


def test_the_command_trains_saves_and_does_not_repeat(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "encoder.pt"
    assert main(flags(csv, path)) == 0
    encoder = load_pretrained(path)
    assert encoder.vocabulary == vocabulary()
    assert len(encoder.about["losses"]) == 2
    assert encoder.about["n"] == len(CHAINS)
    assert not encoder.encoder.training
    assert not path.with_suffix(".ckpt").exists()
    assert embed_graphs(encoder.encoder, from_smiles(["CCO", "CCN"])).shape == (2, 16)
    written = path.stat().st_mtime_ns
    assert main(flags(csv, path)) == 0
    assert path.stat().st_mtime_ns == written
    assert main(flags(csv, path, "--lr=0.1")) == 2
    assert says(capsys.readouterr().err, path.name, "--force")
    assert main(flags(csv, path, "--lr=0.1", "--force")) == 0
    assert path.stat().st_mtime_ns != written


def test_a_setting_that_is_newer_than_a_file_has_its_default_there(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.pt"
    assert main(flags(csv, file)) == 0
    whole = torch.load(file, weights_only=True)
    assert whole["about"]["run"]["config"].pop("parts") == 1
    torch.save(whole, file)
    assert main(flags(csv, file)) == 0
    assert says(capsys.readouterr().out, file.name, "before")
    assert main(flags(csv, file, "--parts=2")) == 2
    assert main(flags(csv, file, "--parts=2", "--force")) == 0


def test_words_beside_the_smiles_are_no_targets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file as others have them: ids and notes in words, SMILES under a name of its own."""
    digests = []
    for head, more in (("smiles", []), ("structure", ["--smiles=structure"])):
        path = tmp_path / "own.csv"
        lines = [f"id,{head},note", "A1,CCO,x", "A2,CCC,", "A3,CCN,1", "A4,c1ccccc1,y"]
        path.write_text("\n".join(lines), encoding="utf-8")
        command = [f"--dataset={path}", "--method=hucl", "--epochs=1", "--threads=1", "--force",
                   f"--output={tmp_path / 'own.pt'}"]  # fmt: skip
        assert main([*command, *more]) == 0
        digests.append(load_pretrained(tmp_path / "own.pt").about["run"]["data"])
    assert digests[0] == digests[1]
    assert main(command) == 2
    assert says(capsys.readouterr().err, "structure", "--smiles")


def test_a_last_step_that_diverges_saves_nothing(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "encoder.pt"
    assert main(flags(csv, path, "--lr=1e30", "--batch-size=512", "--epochs=1")) == 2
    assert says(capsys.readouterr().err, "finite", "Lower lr")
    assert not [*tmp_path.glob("encoder*")]
    assert main(flags(csv, path, "--batch-size=512", "--epochs=1")) == 0


IMAGES = ["--dataset=digits", "--encoder=fast", "--width=4", "--subset=64", "--batch-size=16",
          "--epochs=2"]  # fmt: skip


@pytest.mark.parametrize("kind", ["hucl", "hscl", "spacl", "images"])
def test_ctrl_c_saves_the_step_and_the_same_command_goes_on(
    kind: str, csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, stopped = tmp_path / "whole.pt", tmp_path / "stopped.pt"
    command, model = [*flags(csv, whole), f"--method={kind}"], TwoView
    if kind == "images":
        pytest.importorskip("torchvision")
        from gcl_hard.images import ImageContrast

        command, model = [*IMAGES, f"--output={whole}"], ImageContrast
    assert main(command) == 0
    steps: list[int] = []
    forward = model.forward

    def interrupted(self: Any, batch: Any) -> Any:
        steps.append(len(steps))
        if len(steps) == 6:
            signal.raise_signal(signal.SIGINT)
        return forward(self, batch)

    monkeypatch.setattr(model, "forward", interrupted)
    before = signal.getsignal(signal.SIGINT)
    command.append(f"--output={stopped}")
    assert main(command) == 130
    assert signal.getsignal(signal.SIGINT) is before
    assert not stopped.exists()
    saved = torch.load(stopped.with_suffix(".ckpt"), weights_only=True)["state"]
    assert saved["epoch"] == 2
    assert saved["step"] > 0
    assert main(command) == 0
    assert equal(whole, stopped)
    assert len(steps) == 8  # no step was repeated


def test_a_larger_draw_holds_a_smaller_one_and_seeds_differ(csv: Path, tmp_path: Path) -> None:
    draws = [set(drawn(60, n, 3, "molecules").tolist()) for n in (5, 20, None)]
    assert [len(draw) for draw in draws] == [5, 20, 60]
    assert draws[0] < draws[1] < draws[2]
    with pytest.raises(InputError, match=r"\bsubset\b\D+61\D+60 molecules"):
        drawn(60, 61, 0, "molecules")
    paths = [tmp_path / f"{seed}.pt" for seed in (0, 1)]
    for seed, path in enumerate(paths):
        assert main(flags(csv, path, "--subset=20", f"--seed={seed}")) == 0
    assert not equal(*paths)


@settings(max_examples=100, deadline=None)
@given(
    groups=st.lists(st.integers(0, 6), min_size=2, max_size=60), size=st.integers(2, 20),
    seed=st.integers(0, 5), grouped=st.booleans(),
)  # fmt: skip
def test_an_epoch_has_every_molecule_once_and_groups_sit_together(
    groups: list[int], size: int, seed: int, grouped: bool
) -> None:
    group_of = torch.tensor(groups)
    chosen = torch.arange(len(group_of))
    batches = order(chosen, group_of if grouped else None, size, seed, 1)
    ids = torch.cat(batches)
    assert sorted(ids.tolist()) == chosen.tolist()
    assert all(len(batch) in (size, size + 1) for batch in batches[:-1])
    assert len(batches) == 1 or len(batches[-1]) > 1
    if grouped:
        changes = int((group_of[ids].diff() != 0).sum())
        pieces = sum(-(-count // GROUP_SIZE) for count in np.bincount(group_of))
        assert changes < pieces


def test_label_aware_methods_are_given_scaffolds(
    csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []
    build = molecule_pretraining.build

    def watched(*args: Any, **kwargs: Any) -> Any:
        model = build(*args, **kwargs)
        model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].y))
        return model

    monkeypatch.setattr(molecule_pretraining, "build", watched)
    assert main(flags(csv, tmp_path / "a.pt", "--method=scl")) == 0
    labels = torch.cat(seen[: len(seen) // 2])
    counts = sorted(torch.bincount(labels).tolist())
    # Benzenes and cyclopropanes share a scaffold; an acyclic molecule has one of its own.
    assert counts == [1] * 36 + [12, 12]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--output=a.txt"], "NAME.pt"),
        (["--method=untrained"], r"\buntrained\b.*\bcontrast\b"),
        (["--subset=1"], r"\bsubset\b\D+2\D+1\b"),
        (["--pseudo-labels=colour"], "pseudo-labels"),
        (["--dataset=BASE"], r"'BASE'[^,]*\bBACE\b[^,]*\bBACE\b"),
    ],
)
def test_what_cannot_be_trained_is_one_message(
    more: list[str], message: str, csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "none.pt"
    assert main([*flags(csv, output), *more]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error)
    assert error.count("error:") == 1
    assert not output.exists()


@pytest.mark.parametrize(
    ("smiles", "facts"),
    [
        (["CCO"], ["few.csv", "molecule"]),
        (["c1ccccc1O", "c1ccccc1N"], ["2 molecules", "scaffold", "scl", "hucl"]),
    ],
)
def test_molecules_that_give_no_contrast_are_refused(
    smiles: list[str], facts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, output = tmp_path / "few.csv", tmp_path / "none.pt"
    path.write_text("\n".join(["smiles", *smiles, ""]))
    assert main([*flags(path, output), "--method=scl"]) == 2
    assert says(capsys.readouterr().err, *facts)
    assert not output.exists()


def test_settings_are_printed_and_read_back(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--print-config", "--method=hscl", "--subset=50"])
    path = tmp_path / "config.yaml"
    path.write_text(capsys.readouterr().out)
    options = parse_pretrain(["--config", str(path)])
    assert options == parse_pretrain(["--method=hscl", "--subset=50"])
    assert json.dumps(options.label_kind) == '"scaffold"'


def test_the_benchmark_begins_with_a_pre_trained_encoder(
    csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "encoder.pt"
    assert main(flags(csv, path)) == 0
    first = ["--dataset=MUTAG", "--protocol=inductive", "--epochs=1", "--folds=2", "--seeds=1",
             "--c-grid=1", "--threads=1", "--save-embeddings"]  # fmt: skip
    run = [*first, f"--encoder={path}", "--method=untrained,scl"]
    assert bench.main(run) == 0
    assert bench.main([*first, "--encoder=./encoder.pt", "--method=untrained"]) == 0
    saved = {
        name: next(Path("results").glob(f"MUTAG_{name}_*.npz")) for name in ("untrained", "scl")
    }
    graphs = from_tu(load_graphs("MUTAG", features="labels", download=False))
    frozen = embed_graphs(load_pretrained(path).encoder, graphs)
    np.testing.assert_array_equal(embed_graphs(load_encoder(path), graphs), frozen)
    embedded = {name: np.load(file)["embeddings"] for name, file in saved.items()}
    np.testing.assert_allclose(embedded["untrained"][0], frozen, rtol=1e-5)
    assert all(not np.allclose(z, frozen, rtol=1e-3) for z in embedded["scl"])
    capsys.readouterr()
    assert bench.main(run) == 0
    assert says(capsys.readouterr().out, 2, 2, "finished")
    assert main(flags(csv, path, "--lr=0.1", "--force")) == 0  # other weights, another run
    assert bench.main(run) == 0
    assert not says(capsys.readouterr().out, "finished")


@pytest.mark.parametrize(
    ("more", "facts"),
    [
        (["--encoder=missing.pt"], ["missing.pt", "No such file"]),
        (["--encoder=csv.pt"], ["csv.pt", "damaged"]),
        (["--encoder=encoder.pt", "--dim=16"], ["dim", "GIN"]),
        (["--encoder=encoder.pt", "--features=labels"], ["features", "gin", "encoder.pt"]),
        (["--encoder=encoder.pt", "--dataset=PTC_FM"], ["PTC_FM"]),
        (["--encoder=encoder.pt@0123abcd"], ["encoder.pt@0123abcd", "changed"]),
    ],
)
def test_a_file_that_cannot_begin_a_benchmark_is_refused(
    more: list[str], facts: list[str], *, csv: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(flags(csv, tmp_path / "encoder.pt")) == 0
    (tmp_path / "csv.pt").write_bytes(csv.read_bytes())
    assert bench.main(["--dataset=MUTAG", "--method=untrained", "--threads=1", *more]) == 2
    assert says(capsys.readouterr().err, *facts)
    assert not (tmp_path / "results").exists()


def test_molecules_of_ones_own_are_evaluated(tmp_path: Path) -> None:
    smiles = ["CCO", "CCN", "CCC", "CCCO", "CCCN", "c1ccccc1O", "c1ccccc1N", "c1ccccc1C"] * 4
    molecules = from_smiles(smiles, [int("O" in text) for text in smiles], classes=True, name="own")
    results = evaluate(
        lambda n_features: MoleculeGIN(dim=8, layers=1), molecules, "scl", seeds=1, epochs=1,
        folds=2, output=tmp_path, progress=False,
    )  # fmt: skip
    assert set(results.table["method"]) == {"scl", "majority", "untrained"}
    assert results.embeddings("untrained")[0].shape[-1] == 8
