"""Experiments on vectors: what is read and what is not, by the command and from Python."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

import gcl_hard
from gcl_hard import InputError, bench, evaluate, load_encoder, tune
from gcl_hard.evaluation import random_splits
from gcl_hard.vectors import VectorHead, VectorSet
from gcl_hard.vectors.items import splits_of
from gcl_hard.vectors.settings import VectorConfig
from tests.said import says
from tests.vectors.sets import blobs, digits, npz, ran, with_split

METHODS = "majority,raw,whitened,whitened-within,lda,untrained,supervised,ucl,scl,hscl,spacl"
SMALL: dict[str, Any] = {"epochs": 2, "splits": 2, "hidden": 8}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GCL_HARD_DATA", "")
    npz(with_split(blobs()), tmp_path / "mine.npz", split=with_split(blobs()).split)
    return tmp_path


def run_bench(*arguments: str) -> int:
    usual = ["--output=out", "--json=table.json", "--epochs=2", "--hidden=8"]
    return bench.main(["--dataset=mine.npz", *usual, *arguments])


def configs(folder: Path) -> list[dict[str, Any]]:
    table: dict[str, Any] = json.loads((folder / "table.json").read_text())
    return table["configs"]


def test_a_table_of_all_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_bench(f"--method={METHODS}", "--splits=2", "--seeds=2", "--report=page.md") == 0
    by_method = {config["method"]: config for config in configs(folder)}
    assert {*by_method} == {*METHODS.split(",")}
    fixed = {"majority", "raw", "whitened", "whitened-within", "lda"}
    seeds = {name: len(config["seeds"]) for name, config in by_method.items()}
    assert seeds == {name: 1 if name in fixed else 2 for name in by_method}
    assert says(capsys.readouterr().out, "2 × 2")
    assert "split" in (folder / "page.md").read_text()
    run_bench(f"--method={METHODS}", "--splits=2", "--seeds=2")
    n = sum(seeds.values())
    assert says(capsys.readouterr().out, n, n, "finished")


def test_raw_is_what_scikit_learn_says_and_an_untrained_head_is_raw(folder: Path) -> None:
    run_bench("--method=raw,untrained", "--splits=2", "--seeds=1")
    vectors = blobs()
    z = vectors.x / np.linalg.norm(vectors.x, axis=1, keepdims=True)
    raw, untrained = (config["fold_accuracies"][0] for config in configs(folder))
    assert raw == untrained
    for k, split in enumerate(random_splits(range(len(z)), 2, shares=(0.6, 0.2))):
        best, expected = -1.0, 0.0
        for c in (4.0**p for p in range(-5, 8)):
            model = LogisticRegression(C=c, max_iter=9999, tol=1e-8)
            model.fit(z[split.train], vectors.y[split.train])
            value = model.score(z[split.valid], vectors.y[split.valid])
            if value > best:
                best, expected = value, model.score(z[split.test], vectors.y[split.test])
        assert raw[k] == pytest.approx(100 * expected, abs=4.2)  # one of 24


@pytest.mark.parametrize("method", ["ucl", "hscl", "supervised", "raw", "untrained", "lda"])
@pytest.mark.parametrize("scale", ["stored", "standardised"])
def test_vectors_and_labels_of_test_items_change_no_bit(
    method: str, scale: str, tmp_path: Path
) -> None:
    """Of the encoder, of what is chosen, and of the predictions for the other test items."""
    config = VectorConfig("blobs", method, split="given", noise=0.1, scale=scale, epochs=2)
    clean = with_split(blobs())
    (split,) = splits_of(config, clean)
    x, y, poisoned = clean.x.copy(), clean.y.copy(), split.test[::2]
    x[poisoned] = 1e4
    y[poisoned] = (y[poisoned] + 1) % clean.n_classes
    runs = [ran(config, vectors, tmp_path) for vectors in (clean, replace(clean, x=x, y=y))]
    kept = ~np.isin(split.test, poisoned)
    predicted = [scored.folds[0].predicted[kept] for _, scored in runs]
    assert np.array_equal(*predicted)
    assert runs[0][1].validation == runs[1][1].validation
    assert runs[0][1].chosen == runs[1][1].chosen
    assert runs[0][0].losses == runs[1][0].losses


def test_items_without_a_label_are_trained_on_without_one(tmp_path: Path) -> None:
    vectors = with_split(blobs())
    assert vectors.split is not None
    y = np.where((vectors.split == 0) & (np.arange(len(vectors)) % 2 == 0), -1, vectors.y)
    few = replace(vectors, y=y)
    without = replace(few, split=np.where(y < 0, np.int8(-1), vectors.split).astype(np.int8))
    losses = {}
    for name, some in (("few", few), ("in none", without)):
        for method in ("ucl", "hscl", "supervised"):
            config = VectorConfig("blobs", method, split="given", epochs=1, patience=0)
            losses[name, method] = ran(config, some, tmp_path)[0].losses
    for method in ("ucl", "hscl", "supervised"):
        assert losses["few", method] == losses["in none", method]
    whole = VectorConfig("blobs", "ucl", split="given", epochs=1)
    assert ran(whole, vectors, tmp_path)[0].losses == losses["few", "ucl"]
    (split,) = splits_of(whole, few)
    assert (few.y[np.concatenate(split)] >= 0).all()


def test_validation_is_drawn_from_training_where_there_is_none() -> None:
    vectors = with_split(blobs(classes=3, each=40))
    assert vectors.split is not None
    two = replace(vectors, split=np.where(vectors.split == 1, 0, vectors.split).astype(np.int8))
    (split,) = splits_of(VectorConfig("blobs", split="given"), two)
    assert np.array_equal(np.union1d(split.train, split.valid), np.flatnonzero(two.split == 0))
    assert len(split.valid) == pytest.approx(0.1 * (two.split == 0).sum(), abs=1)
    assert np.array_equal(split.test, np.flatnonzero(two.split == 2))


class Own(nn.Module):
    out_dim = 4

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_features, 4)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.linear(x)
        return output


class Wrong(Own):
    out_dim = 5


def test_vectors_and_encoders_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options: dict[str, Any] = {
        "epochs": 2, "splits": 2, "seeds": 1, "output": tmp_path, "progress": False
    }  # fmt: skip
    evaluation = evaluate([Own, "mlp"], digits(), "hscl", **options)
    assert evaluation.embeddings("hscl", encoder="Own").shape == (2, 400, 4)
    assert len(evaluation.encoders("hscl", encoder="mlp")) == 2
    assert {*evaluation.table["method"]} >= {"hscl", "raw", "majority", "supervised"}
    with pytest.raises(InputError, match="Wrong"):
        evaluate(Wrong, digits(), "hscl", **options)
    with pytest.raises(InputError):
        evaluate("mlp", digits().x, "hscl", **options)


@pytest.mark.parametrize("scale", ["stored", "standardised"])
def test_a_saved_encoder_embeds_new_rows_as_the_run_did(
    scale: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = blobs()
    names = [f"c{i}" for i in range(vectors.x.shape[1])]
    table = pd.DataFrame(vectors.x, columns=names)
    table["label"] = vectors.y
    table.to_csv("table.csv", index=False)
    flags = ["--method=scl", "--seeds=1", "--splits=1", f"--scale={scale}", "--lr=0.1"]
    assert run_bench("--dataset=table.csv", *flags, "--save-encoder", "--save-embeddings") == 0
    (encoder,), (saved,) = Path("out").glob("*.pt"), Path("out").glob("*.embeddings.npz")
    with np.load(saved) as arrays:
        z, parts = arrays["embeddings"][0], arrays["split"][0]
    assert (parts >= 0).all()
    new = table.drop(columns="label")[names[::-1]].assign(id=[f"r{i}" for i in range(len(table))])
    embeddings = gcl_hard.embed(encoder, new)
    assert embeddings.ids[0] == "r0"
    np.testing.assert_allclose(embeddings.values, z, rtol=1e-5, atol=1e-6)
    assert not np.allclose(z, vectors.x)
    from_array = gcl_hard.embed(encoder, VectorSet.from_arrays(vectors.x))
    np.testing.assert_allclose(from_array.values, z, rtol=1e-5, atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for suffix in ("onnx", "pt2", "safetensors"):
            gcl_hard.export(encoder, f"e.{suffix}")
    program = torch.export.load("e.pt2").module()
    np.testing.assert_allclose(program(x=torch.from_numpy(vectors.x)), z, rtol=1e-4, atol=1e-5)
    again = gcl_hard.embed("e.safetensors", vectors)
    np.testing.assert_array_equal(again.values, from_array.values)
    assert load_encoder(encoder)(torch.from_numpy(vectors.x)).shape == z.shape
    for wrong in (new.drop(columns="c1"), new.rename(columns={"c1": "d"}), vectors.x[:, :2]):
        with pytest.raises(InputError):
            gcl_hard.embed(encoder, wrong)


def test_a_module_by_itself_embeds_and_is_exported(tmp_path: Path) -> None:
    vectors, head = blobs(), VectorHead(6, dim=3)
    z = gcl_hard.embed(head, vectors)
    np.testing.assert_allclose(z.values, head(torch.from_numpy(vectors.x)).detach(), atol=1e-6)
    gcl_hard.export(head, tmp_path / "e.pt2", like=vectors)
    program = torch.export.load(tmp_path / "e.pt2").module()
    np.testing.assert_allclose(program(x=torch.from_numpy(vectors.x)).detach(), z.values, atol=1e-5)


def test_a_search_and_a_choice_are_made_on_validation_items(folder: Path) -> None:
    usual = ["--method=hscl", "--epochs=1", "--hidden=4", "--splits=2"]
    found = ["--dataset=mine.npz", *usual, "--space=beta,noise", "--trials=2", "--output=found"]
    assert tune.main(found) == 0
    (path,) = (folder / "found").glob("*.json")
    (study,) = json.loads(path.read_text())["studies"]
    assert {*study["params"]} == {"beta", "noise"}
    assert run_bench(*usual, "--beta=0.5,4", "--select=true", "--seeds=1") == 0
    assert len(configs(folder)) >= 1


@pytest.mark.exact
def test_processes_give_the_bits_of_one(folder: Path) -> None:
    for name, jobs in (("one", 1), ("two", 2)):
        flags = [f"--output={name}", f"--jobs={jobs}", "--splits=2", "--seeds=1"]
        assert run_bench("--method=hscl,ucl,raw", *flags) == 0
    for path in Path("one").glob("*seed0.json"):
        one, two = (json.loads(p.read_text()) for p in (path, Path("two") / path.name))
        assert one["scores"] == two["scores"]
        assert one["final_losses"] == two["final_losses"]
