"""Kept models of links, and the command that asks them."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import gcl_hard
from gcl_hard import InputError, bench, fit
from gcl_hard.__main__ import main
from gcl_hard.links import (
    RGCN,
    ComplEx,
    DistMult,
    LinkContrast,
    LinkSet,
    Queries,
    RotatE,
    Scorer,
    TransE,
)
from tests.said import says

NAMES = [f"Müller, Werk {i}" for i in range(15)]
FACTS = [
    (NAMES[i], name, NAMES[(i + step) % 15])
    for i in range(15) for step, name in ((1, "liefert"), (2, "kauft von"), (4, "ähnelt"))
]  # fmt: skip
RUN = ("--method=hucl", "--epochs=2", "--dim=8", "--candidates=8", "--seeds=1", "--device=cpu",
       "--threads=1", "--output=out", "--save-encoder", "--lr=0.05")  # fmt: skip


def links() -> LinkSet:
    return LinkSet.from_table(pd.DataFrame(FACTS, columns=["head", "relation", "tail"]))


class Shift(Scorer):
    def query(self, entity: torch.Tensor, relation: torch.Tensor) -> torch.Tensor:
        shifted: torch.Tensor = self.entities(entity) + self.relations(relation)
        return shifted


def slow_scores(model: LinkContrast, fact: list[int], missing: str) -> list[float]:
    """Scores of all answers to a question, one by one."""
    data, (h, r, t) = model.links, fact

    def score(entity: int, relation: int, answer: int) -> float:
        asked = Queries(*(torch.tensor([i]) for i in (entity, relation, 0)))
        return float(model.scores(asked)[0, answer])

    n = data.n_relations
    if missing == "tail":
        return [score(h, r, e) for e in range(data.n_entities)]
    if missing == "head":
        return [score(t, r + n, e) for e in range(data.n_entities)]
    return [(score(h, k, t) + score(t, k + n, h)) / 2 for k in range(n)]


@pytest.mark.parametrize("kind", [DistMult, ComplEx, TransE, RotatE, RGCN])
@pytest.mark.parametrize("missing", ["head", "relation", "tail"])
@pytest.mark.parametrize("blocks", [(2**18, 2**24), (4, 9)])
def test_the_best_answers_are_those_of_a_slow_loop(
    kind: Any, missing: Any, blocks: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gcl_hard.links.models.ANSWERS", blocks[0])
    monkeypatch.setattr("gcl_hard.links.models.ELEMENTS", blocks[1])
    data = links()
    torch.manual_seed(0)
    scorer = RGCN(data, 8) if kind is RGCN else kind(data.n_entities, data.n_relations, 8)
    model = LinkContrast(scorer, data)
    asked = data.train[:7]
    column = ("head", "relation", "tail").index(missing)
    every = {tuple(fact) for part in (data.train, data.valid, data.test) for fact in part.tolist()}
    for known in (False, True):
        facts = None if known else data.known(missing, "test")
        ids, scores = model.best(asked, missing, k=5, known=facts)
        for fact, answers, values in zip(
            asked.tolist(), ids.tolist(), scores.tolist(), strict=True
        ):
            expected = dict(enumerate(slow_scores(model, fact, missing)))
            for answer in [*expected]:
                filled = [*fact]
                filled[column] = answer
                if not known and tuple(filled) in every:
                    del expected[answer]
            top = sorted(expected, key=lambda answer: -expected[answer])[:5]
            assert [a for a, v in zip(answers, values, strict=True) if v > -math.inf] == top
            np.testing.assert_allclose(values[: len(top)], [expected[a] for a in top], atol=1e-5)


def test_questions_are_left_as_they_are_and_may_be_none() -> None:
    model = LinkContrast(DistMult(15, 3, 4), links())
    asked = model.links.train.clone()
    model.best(asked, "head")
    assert torch.equal(asked, model.links.train)
    assert [*map(len, model.best(asked[:0], "tail"))] == [0, 0]
    with pytest.raises(InputError, match="15 entities"):
        model.best(torch.tensor([[0, 0, 15]]), "head")
    assert [name for name, _ in model.predict(NAMES[0], None, NAMES[1], filtered=False, k=1)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(FACTS, columns=["head", "relation", "tail"]).to_csv("facts.csv", index=False)
    return tmp_path


def trained(*flags: str) -> Path:
    assert bench.main(["--dataset=facts.csv", *RUN, *flags]) == 0
    (path,) = Path("out").glob("*.pt")
    return path


@pytest.mark.parametrize("encoder", ["distmult", "complex", "transe", "rotate", "rgcn"])
def test_a_kept_model_has_the_scores_of_its_run(encoder: str, folder: Path) -> None:
    path = trained(f"--encoder={encoder}", "--save-embeddings")
    assert encoder in path.name
    model = gcl_hard.load_links_model(path)
    data = model.links
    assert data.digest == gcl_hard.links.load_links("facts.csv").digest
    (stored,) = Path("out").glob("*.embeddings.npz")
    with torch.no_grad(), np.load(stored) as arrays:
        np.testing.assert_array_equal(model.scorer.candidates().numpy(), arrays["embeddings"])
    assert main(["export", str(path), "-o", "model.safetensors"]) == 0
    again = gcl_hard.load_links_model("model.safetensors")
    assert again.links.digest == data.digest
    queries = data.queries("test")
    assert torch.equal(again.scores(queries), model.scores(queries))
    assert torch.equal(gcl_hard.load_encoder(path).entities.weight, model.scorer.entities.weight)  # type: ignore[union-attr]


def test_a_model_kept_under_the_name_of_its_record_is_found(folder: Path) -> None:
    path = trained()
    (record,) = Path("out").glob("*_seed0.json")
    before, old = record.read_bytes(), record.with_suffix(".pt")
    path.rename(old)
    assert trained() == old  # the only file, which was not trained again
    assert record.read_bytes() == before


def test_evaluate_keeps_models(folder: Path) -> None:
    found = gcl_hard.evaluate(
        "distmult", links(), "ucl", dim=4, epochs=1, seeds=2, baselines=(), output="out",
        progress=False, device="cpu",
    )  # fmt: skip
    (scorer,) = found.encoders("ucl", seed=1)
    models = [gcl_hard.load_links_model(path) for path in sorted(Path("out").glob("*.pt"))]
    assert len(models) == 2
    assert any(torch.equal(m.scorer.entities.weight, scorer.entities.weight) for m in models)  # type: ignore[union-attr, arg-type]


def test_training_goes_on_with_more_facts_of_the_names(folder: Path) -> None:
    model = gcl_hard.load_links_model(trained())
    before = model.scorer.entities.weight.clone()
    new = [(a, "liefert", b) for a, b in zip(NAMES, NAMES[3:], strict=False)]
    names = {"entities": model.links.entities, "relations": model.links.relations}
    more = LinkSet.from_triples(new, **names)
    losses = fit(model, more, epochs=30, batch_size=8, lr=0.05)
    assert losses[-1] < losses[0]
    assert not torch.equal(before, model.scorer.entities.weight)
    path = next(Path("out").glob("*.pt"))
    model = gcl_hard.load_links_model(path, links=more)
    assert torch.equal(model.links.train, more.train)
    fit(model, more, epochs=1, batch_size=8, lr=0.05)
    again = gcl_hard.load_links_model(gcl_hard.save_links_model(model, "next.pt", like=path))
    assert again.links.digest == more.digest
    queries = more.queries("train")
    assert torch.equal(again.scores(queries), model.scores(queries))
    scorer = gcl_hard.links.DistMult(more.n_entities, more.n_relations, dim=3)
    other = gcl_hard.links.LinkContrast(scorer, more)
    with pytest.raises(InputError):
        gcl_hard.save_links_model(other, "other.pt", like=path)
    with pytest.raises(InputError):
        gcl_hard.load_links_model(path, links=LinkSet.from_triples(new[:3]))
    others = [(f"{head}!", relation, f"{tail}!") for head, relation, tail in FACTS]
    with pytest.raises(InputError):  # as many names, but others
        gcl_hard.load_links_model(path, links=LinkSet.from_triples(others))


def rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)]


QUESTIONS = [(NAMES[0], "liefert", ""), ("", "kauft von", NAMES[3]), (NAMES[2], "", NAMES[5]),
             (NAMES[1], "liefert", "")]  # fmt: skip


def test_questions_in_a_table_are_answered_as_predict_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gcl_hard.links.asking.QUESTIONS", 3)
    path = trained()
    pd.DataFrame(QUESTIONS, columns=["head", "relation", "tail"]).to_csv("q.csv", index=False)
    assert main(["predict", str(path), "q.csv", "-k", "20", "-o", "top.csv"]) == 0
    assert main(["predict", str(path), "q.csv", "-k", "20", "-o", "all.csv", "--known"]) == 0
    model = gcl_hard.load_links_model(path)
    for i, (h, r, t) in enumerate(QUESTIONS, 1):
        expected = model.predict(h or None, r or None, t or None, k=20, filtered=False)
        missing = ("head", "relation", "tail")[(h, r, t).index("")]
        every = [row for row in rows("all.csv") if row["query"] == str(i)]
        assert [row[missing] for row in every] == [name for name, _ in expected]
        assert [row["rank"] for row in every] == [str(k + 1) for k in range(len(expected))]
        scores = [float(row["score"]) for row in every]
        np.testing.assert_allclose(scores, [score for _, score in expected], rtol=1e-5)
        for row in every:
            fact = (row["head"], row["relation"], row["tail"])
            assert row["known"] == str(fact in FACTS)
        left = [row[missing] for row in rows("top.csv") if row["query"] == str(i)]
        assert left == [row[missing] for row in every if row["known"] == "False"]
    assert main(["predict", str(path), "q.csv", "-k", "20", "-o", "top.parquet"]) == 0
    table = pd.read_parquet("top.parquet").astype({"score": float}).astype(str)
    for column in ("query", "head", "relation", "tail", "missing", "rank"):
        assert table[column].tolist() == [row[column] for row in rows("top.csv")]


def test_a_table_may_lack_what_is_asked_for(folder: Path) -> None:
    path = trained()
    pd.DataFrame({"head": NAMES[:3], "relation": "liefert"}).to_csv("q.csv", index=False)
    assert main(["predict", str(path), "q.csv", "-k", "2", "-o", "top.csv"]) == 0
    assert [row["missing"] for row in rows("top.csv")] == ["tail"] * 6


def test_what_cannot_be_asked_is_one_message(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trained()
    cases = {
        "Mueller, Werk 3,liefert,": ("Müller, Werk 3",),
        "a,b,c": (1, "empty"),
        ",,c": (1, 2),
    }
    for line, facts in cases.items():
        fields = line.rsplit(",", 2)
        pd.DataFrame([fields], columns=["head", "relation", "tail"]).to_csv("q.csv", index=False)
        capsys.readouterr()
        assert main(["predict", str(path), "q.csv", "-o", "top.csv"]) == 2
        assert says(capsys.readouterr().err, *facts)
        assert not Path("top.csv").exists()
    Path("top.csv").write_text("mine")
    assert main(["predict", str(path), "q.csv", "-o", "top.csv"]) == 2
    assert Path("top.csv").read_text() == "mine"
    assert main(["predict", str(path), "q.csv", "-o", "top.txt"]) == 2


def test_a_scorer_of_ones_own_is_given_and_never_imported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(".")
    Path("own_shift.py").write_text(
        "from gcl_hard.links import Scorer\n"
        "class Shift(Scorer):\n"
        "    def query(self, entity, relation):\n"
        "        return self.entities(entity) + self.relations(relation)\n"
    )
    path = trained("--encoder=own_shift:Shift")
    with pytest.raises(InputError, match="own_shift:Shift"):
        gcl_hard.load_links_model(path)
    with pytest.warns(UserWarning, match="code"):  # this one is of another module
        model = gcl_hard.load_links_model(path, Shift)
    trusted = gcl_hard.load_links_model(path, trust=True)
    queries = model.links.queries("test")
    assert torch.equal(model.scores(queries), trusted.scores(queries))
    pd.DataFrame({"head": NAMES[:1], "relation": "liefert"}).to_csv("q.csv", index=False)
    assert main(["predict", str(path), "q.csv", "-o", "a.csv"]) == 2
    assert says(capsys.readouterr().err, "own_shift:Shift")
    assert main(["predict", str(path), "q.csv", "-o", "a.csv", "--encoder=own_shift:Shift"]) == 0


def test_a_file_of_another_domain_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="missing"):
        gcl_hard.load_links_model("missing.pt")
