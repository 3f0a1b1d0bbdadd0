"""Experiments on texts: protocols, what is fitted to what, files of encoders, their folders."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor, nn

from gcl_hard import InputError, bench, embed, evaluate, export, load_encoder
from gcl_hard.experiments.experiment import TrainedRun, silent
from gcl_hard.experiments.record import Scored
from gcl_hard.experiments.run import Run
from gcl_hard.texts import SentenceEncoder, TextSet, load_texts
from gcl_hard.texts.experiment import TextExperiment
from gcl_hard.texts.settings import TextConfig
from gcl_hard.texts.tfidf import TfidfInputs
from gcl_hard.vectors.items import splits_of
from tests.experiments.made import context
from tests.texts.saved import WORDS, saved_encoder

TOPICS, EACH = 12, 10
ONCE: dict[str, Any] = {
    "epochs": 1, "splits": 1, "seeds": 1, "output": "out", "baselines": (), "progress": False,
}  # fmt: skip


def topics(seed: int = 0) -> TextSet:
    """Texts of twelve classes, each with two words of its own and some that all have."""
    draws = np.random.default_rng(seed)
    y = draws.permutation(np.repeat(np.arange(TOPICS), EACH))
    texts = [
        " ".join(draws.permutation([WORDS[2 * k], WORDS[2 * k + 1], *draws.choice(WORDS[24:], 3)]))
        for k in y
    ]  # fmt: skip
    return TextSet.from_texts(texts, y, name="topics")


def table(texts: TextSet, path: Path) -> Path:
    rows = zip(texts.names.tolist(), texts.texts, texts.y.tolist(), strict=True)
    lines = [json.dumps({"id": n, "text": text, "label": y}) for n, text, y in rows]
    path.write_text("\n".join(lines))
    return path


def ran(config: TextConfig, texts: TextSet, folder: Path, **run: Any) -> tuple[TrainedRun, Scored]:
    experiment, where = TextExperiment(), context(folder).without_checkpoints()
    (trained,) = experiment.train([Run(config, 0, **run)], texts, where, silent)
    return trained, experiment.score(trained, texts, where)


class Counted(nn.Module):
    """An encoder of the user's own: how often each word stands in a text, below a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.out_dim = 4
        self.linear = nn.Linear(len(WORDS), 4)

    def forward(self, texts: list[str]) -> Tensor:
        rows = [[float(text.split().count(word)) for word in WORDS] for text in texts]
        return self.linear(nn.functional.dropout(torch.tensor(rows), 0.1, self.training))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GCL_HARD_DATA", "")
    table(topics(), tmp_path / "topics.jsonl")
    return tmp_path


def test_tfidf_is_that_of_scikit_learn_fitted_to_the_training_part() -> None:
    texts, train = topics().texts, np.arange(0, 90)
    inputs = TfidfInputs.fitted(texts, train, 8)
    vectorizer = TfidfVectorizer(sublinear_tf=True).fit([texts[k] for k in train])
    weights = vectorizer.transform(texts)
    svd = TruncatedSVD(8, algorithm="arpack", random_state=0).fit(weights[train])
    expected = svd.transform(weights)
    signs = np.sign((inputs.x.numpy() * expected).sum(0))
    np.testing.assert_allclose(inputs.x.numpy() * signs, expected, atol=1e-3)
    other = TfidfInputs.fitted([*texts[:90], *["pin pin new"] * 30], train, 8)
    assert other.x[:90].equal(inputs.x[:90])
    narrow = TfidfInputs.fitted(["my card", "my rate"], np.arange(2), 256)
    assert narrow.x.shape == (2, 2)
    with pytest.raises(InputError, match="word"):
        TfidfInputs.fitted(["a", "b"], np.arange(2), 3)


@pytest.mark.parametrize("protocol", ["split", "unseen", "ood"])
@pytest.mark.parametrize("method", ["raw", "whitened-within", "untrained", "ucl", "scl", "hscl"])
def test_every_protocol_scores_words(tmp_path: Path, protocol: str, method: str) -> None:
    config = TextConfig("topics", method, protocol, epochs=2, splits=2, dim=16, hidden=8)
    trained, scored = ran(config, topics(), tmp_path)
    assert trained.error is None
    assert len(scored.folds) == len(scored.validation) == 2


@pytest.mark.parametrize("sentence", [False, True])
def test_texts_that_are_not_trained_on_change_no_weight(
    tmp_path: Path, encoder_folder: str, sentence: bool
) -> None:
    encoder = {"encoder": encoder_folder} if sentence else {"dim": 8, "hidden": 8}
    config = TextConfig(
        "topics", "hscl", "ood", epochs=2, splits=1, known=0.5, batch_size=32, **encoder
    )
    texts = topics()
    (split,) = splits_of(config, texts)
    changed = [*texts.texts]
    for k in np.setdiff1d(np.arange(len(texts)), split.train):
        changed[k] = "phone " * 20
    runs = []
    for some in (texts, replace(texts, texts=tuple(changed))):
        where = context(tmp_path, save_encoder=True).without_checkpoints()
        runs += TextExperiment().train([Run(config, 0)], some, where, silent)
    if sentence:  # texts of one length pass the lower layers together, which may change last bits
        assert runs[0].losses == pytest.approx(runs[1].losses, rel=1e-4)
        return
    first, second = (run.encoders["encoders"][0] for run in runs)
    assert all(second[name].equal(weight) for name, weight in first.items())


@pytest.mark.parametrize("layers", [0, 1])
def test_a_sentence_encoder_learns_and_its_lower_layers_stay(
    encoder_folder: str, tmp_path: Path, layers: int
) -> None:
    config = TextConfig(
        "topics", "scl", encoder=encoder_folder, trained_layers=layers, epochs=10, splits=1,
        lr=2e-3, batch_size=32,
    )  # fmt: skip
    trained, _ = ran(config, topics(), tmp_path)
    first, _ = ran(replace(config, epochs=1), topics(), tmp_path)
    assert trained.losses[0] < 0.9 * first.losses[0]
    assert np.array_equal(trained.embeddings[0], ran(config, topics(), tmp_path)[0].embeddings[0])
    where = context(tmp_path, save_encoder=True).without_checkpoints()
    (saved,) = TextExperiment().train([Run(config, 0)], topics(), where, silent)
    encoder = SentenceEncoder(encoder_folder, layers)
    encoder.load_state_dict(saved.encoders["encoders"][0])
    before = dict(SentenceEncoder(encoder_folder).model.named_parameters())
    moved = {name for name, p in encoder.model.named_parameters() if not p.equal(before[name])}
    assert any("layer.2." in name for name in moved)
    assert any("layer.0." in name for name in moved) == (layers == 0)


def test_a_model_without_dropout_is_warned_of(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    still = saved_encoder(tmp_path, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    config = TextConfig("topics", "scl", encoder=still, epochs=1, splits=1)
    with pytest.warns(UserWarning, match="no dropout"):
        ran(config, topics(), tmp_path)


def test_raw_is_what_the_encoder_gives(encoder_folder: str, tmp_path: Path) -> None:
    config = TextConfig("topics", "raw", encoder=encoder_folder, splits=2)
    texts, where = topics(), context(tmp_path)
    inputs = TextExperiment().inputs(config, texts, np.arange(3), where)
    z = TextExperiment().raw(config, texts, inputs)
    expected = SentenceEncoder(encoder_folder).model.encode([*texts.texts])
    np.testing.assert_allclose(z, expected, atol=1e-5)


def test_the_command_names_a_folder_by_its_digest(
    folder: Path, encoder_folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = folder / "one", folder / "deep" / "one"
    shutil.copytree(encoder_folder, one)
    shutil.copytree(encoder_folder, other)
    usual = [
        "--dataset=topics.jsonl", "--protocol=unseen", "--method=raw,scl", "--splits=1",
        "--seeds=1", "--epochs=1", "--output=out", "--json=table.json",
    ]  # fmt: skip
    assert bench.main([*usual, "--encoder=one", "--save-encoder"]) == 0
    files = {path.name for path in (folder / "out").glob("*.json")}
    assert bench.main([*usual, "--encoder=deep/one"]) == 0
    assert {path.name for path in (folder / "out").glob("*.json")} == files
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 1e-6}))
    assert bench.main([*usual, "--encoder=deep/one"]) == 0
    assert {path.name for path in (folder / "out").glob("*.json")} > files
    capsys.readouterr()


def test_a_saved_encoder_embeds_and_becomes_a_folder(folder: Path, encoder_folder: str) -> None:
    evaluate(
        encoder_folder, "topics.jsonl", "scl", **ONCE, trained_layers=1, lr=1e-3, batch_size=32
    )
    (file,) = (folder / "out").glob("*.pt")
    assert file.stat().st_size < sum(
        path.stat().st_size for path in Path(encoder_folder).glob("*.safetensors")
    )
    texts = list(topics().texts[:7])
    z = embed(file, texts, progress=False)
    exported = export(file, folder / "exported")
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(exported.path), device="cpu").encode(texts)
    before = SentenceTransformer(encoder_folder, device="cpu").encode(texts)
    np.testing.assert_allclose(z.values, theirs, atol=1e-5)
    assert not np.allclose(before, theirs, atol=1e-3)
    named = embed(file, "topics.jsonl", progress=False)
    np.testing.assert_allclose(named.values[:7], theirs, atol=1e-5)
    weights = export(file, folder / "weights.safetensors")
    np.testing.assert_allclose(embed(weights.path, texts, progress=False).values, theirs, atol=1e-5)
    with pytest.raises(InputError):
        export(file, folder / "encoder.onnx")
    with pytest.raises(InputError, match="is there"):
        export(file, folder / "exported")


def test_a_saved_tfidf_embeds_texts_alone(folder: Path) -> None:
    evaluate("tfidf", "topics.jsonl", "scl", **ONCE, dim=8, hidden=8)
    (file,) = (folder / "out").glob("*.pt")
    (kept,) = (folder / "out").glob("*.embeddings.npz")
    z = embed(file, "topics.jsonl", progress=False)
    np.testing.assert_allclose(z.values, np.load(kept)["embeddings"][0], atol=1e-5)
    assert z.ids.tolist() == load_texts("topics.jsonl").names.tolist()
    with pytest.raises(InputError, match="file"):
        export(file, folder / "exported")


def test_an_encoder_of_ones_own_reads_texts(folder: Path) -> None:
    evaluate(Counted, topics(), ("raw", "ucl"), **ONCE)
    (file,) = (folder / "out").glob("*.pt")
    z = embed(file, list(topics().texts), encoder=Counted, progress=False)
    assert z.values.shape == (TOPICS * EACH, 4)
    assert load_encoder(file, Counted).out_dim == 4


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"encoder": "a/b", "dim": 9}, "tfidf"),
        ({"text": "body"}, "no table"),
        ({"encoder": "a/b", "trained_layers": -1}, "trained-layers"),
    ],
)
def test_settings_without_meaning_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        TextConfig(**settings)


def test_an_encoder_that_changed_since_training_is_refused(
    folder: Path, encoder_folder: str
) -> None:
    shutil.copytree(encoder_folder, folder / "one")
    evaluate("one", "topics.jsonl", "scl", **ONCE)
    (file,) = (folder / "out").glob("*.pt")
    (folder / "one" / "extra.json").write_text("{}")
    with pytest.raises(InputError, match="in training"):
        embed(file, ["my card"], progress=False)
