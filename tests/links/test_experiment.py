"""Experiments on links, through public doors: their numbers, and what they may read."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gcl_hard import bench, tune
from gcl_hard.evaluation import filtered_ranks, mean_reciprocal_rank
from gcl_hard.evaluation.significance import crossed_test
from gcl_hard.experiments.experiment import RunContext, silent
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.store import Store
from gcl_hard.links import LinkSet, load_links
from gcl_hard.links.experiment import (
    Frequencies,
    LinkExperiment,
    ReversedFacts,
    new_scorer,
    ranks,
)
from gcl_hard.links.settings import LinkConfig
from gcl_hard.reports.frame import Results
from gcl_hard.reports.rows import rows
from tests.said import says

SHORT = ("--epochs=2", "--lr=0.05", "--dim=8", "--candidates=8", "--batch-size=64",
         "--device=cpu", "--threads=1", "--output=out")  # fmt: skip


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Thirty people, of whom each has a next one, and one two further on."""
    folder = tmp_path / "ring"
    folder.mkdir()
    facts = [(f"p{i}", name, f"p{(i + step) % 30}") for i in range(30)
             for name, step in (("next", 1), ("second", 2), ("third", 3))]  # fmt: skip
    order = np.random.default_rng(0).permutation(len(facts))
    for part, ids in {"train": order[:70], "valid": order[70:80], "test": order[80:]}.items():
        lines = ["\t".join(facts[i]) for i in ids]
        (folder / f"{part}.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    return folder


def made_context(data_dir: Path | None) -> RunContext:
    context = RunContext(Path("out"), data_dir, "cpu", 1, 1, {"source": "0"}, experiment_of)
    return context.without_checkpoints()


def records(folder: str = "out") -> dict[str, dict[str, Any]]:
    return {result.name: result.scores for result in Store(folder).rows()}


def test_a_folder_of_triples_becomes_a_table_that_is_not_computed_again(
    ring: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--dataset=ring", "--data-dir=.", "--domain=links", "--seeds=2", *SHORT,
               "--method=ucl,hucl,scl,hscl,frequency,untrained"]  # fmt: skip
    assert bench.main(command) == 0
    assert says(capsys.readouterr().out, "MRR", "frequency", "hscl")
    scores_by_run = records()
    assert len(scores_by_run) == 4 * 2 + 1 + 2  # frequency has one seed
    for scores in scores_by_run.values():
        assert {*scores} == {"mrr", "hits1", "hits3", "hits10", "amri", "mrr_1_1"}
        assert 0 < scores["mrr"][0] <= 100
        assert scores["hits1"][0] <= scores["hits3"][0] <= scores["hits10"][0]
    assert bench.main([*command, "--report=page.html"]) == 0
    assert records() == scores_by_run
    assert says(Path("page.html").read_text(encoding="utf-8"), "MRR", "frequency")


def test_the_scores_are_those_of_the_ranks(ring: Path) -> None:
    config = LinkConfig("ring", "hucl", epochs=2, dim=8, candidate_pool="all", lr=0.05)
    context = made_context(Path())
    experiment, run = LinkExperiment(), Run(config, 3)
    data = experiment.load(config, context)
    trained = experiment.train_run(run, data, context, silent)
    metrics = experiment.score(trained, data, context).scores(experiment.metrics(config, data))
    model = trained.embeddings
    reciprocal = []
    every = {tuple(fact) for part in (data.train, data.valid, data.test) for fact in part.tolist()}
    with torch.no_grad():
        for h, r, t in data.test.tolist():
            for asked, entity, relation, answer in (("t", h, r, t), ("h", t, r + 3, h)):
                q = model.query(torch.tensor([entity]), torch.tensor([relation]))
                scores = model.compare(q, model.candidates())[0].tolist()
                better = 0
                for other in range(data.n_entities):
                    fact = (h, r, other) if asked == "t" else (other, r, t)
                    better += other != answer and fact not in every and (
                        scores[other] > scores[answer]
                    )  # fmt: skip
                reciprocal.append(1 / (1 + better))
    assert metrics["mrr"][0] == pytest.approx(100 * np.mean(reciprocal), rel=1e-6)
    assert metrics["hits1"][0] == pytest.approx(100 * np.mean([x == 1 for x in reciprocal]))


def drawn_facts() -> LinkSet:
    """Facts of four relations, of which near is nearly symmetric and up and down are reversals."""
    draw = np.random.default_rng(0)
    facts = set[tuple[str, str, str]]()
    while len(facts) < 500:
        h, t = (f"e{int(x) ** 2 // 40}" for x in draw.integers(40, size=2))
        kind = ("near", "up", "other", "rare")[int(draw.choice(4, p=(0.3, 0.4, 0.29, 0.01)))]
        facts.add((h, kind, t))
        if kind in ("near", "up") and draw.random() < 0.95:
            facts.add((t, "down" if kind == "up" else kind, h))
    every = [sorted(facts)[i] for i in draw.permutation(len(facts))]
    return LinkSet.from_triples(every[:360], every[360:430], every[430:])


@pytest.mark.parametrize("method", ["frequency", "reversal"])
def test_counts_rank_as_a_slow_loop_does(method: str) -> None:
    links = drawn_facts()
    train = [tuple(fact) for fact in links.train.tolist()]
    both = [*train, *((t, r + links.n_relations, h) for h, r, t in train)]
    every = {tuple(fact) for part in (links.train, links.valid, links.test)
             for fact in part.tolist()}  # fmt: skip
    of_relation, of_any = Counter((r, a) for _, r, a in both), Counter(a for _, _, a in both)
    names = {name: i for i, name in enumerate(links.relations)}
    back = {names["near"]: names["near"], names["up"]: names["down"], names["down"]: names["up"]}

    def score(h: int | None, r: int, t: int | None, answer: int) -> float:
        asked = r if t is None else r + links.n_relations
        count = of_relation[asked, answer] + of_any[answer] / (1 + max(of_any.values()))
        fact = (answer, back.get(r), h) if t is None else (t, back.get(r), answer)
        return count + 1000 * (method == "reversal" and fact in train)

    expected = []
    for tails in (True, False):
        for h, r, t in links.test.tolist():
            right, known = (t, {x for x in range(40) if (h, r, x) in every}) if tails else (
                h, {x for x in range(40) if (x, r, t) in every}
            )  # fmt: skip
            values = {
                x: score(h if tails else None, r, None if tails else t, x)
                for x in range(links.n_entities) if x == right or x not in known
            }  # fmt: skip
            above = sum(value > values[right] for value in values.values())
            level = sum(value == values[right] for value in values.values()) - 1
            expected.append(1 + above + level / 2)
    experiment, context = LinkExperiment(), made_context(None)
    run = Run(LinkConfig("own", method), 0)
    scored = experiment.score(experiment.train_run(run, links, context, silent), links, context)
    assert scored.folds[0].predicted == pytest.approx(expected, rel=1e-6)


def test_reversed_training_facts_answer_better_where_there_are_some() -> None:
    links, context, experiment = drawn_facts(), made_context(None), LinkExperiment()
    mrr = {}
    for method in ("frequency", "reversal"):
        run = Run(LinkConfig("own", method), 0)
        trained = experiment.train_run(run, links, context, silent)
        mrr[method] = experiment.score(trained, links, context).scores(["mrr"])["mrr"][0]
    assert mrr["reversal"] > 1.5 * mrr["frequency"]
    # other held-out facts change no answer: relations are compared by training facts alone
    fewer = replace(links, valid=links.valid[:0], test=links.test[:40])
    queries = fewer.queries("test")
    scores = [ReversedFacts(known, Frequencies(known))(queries) for known in (links, fewer)]
    assert torch.equal(*scores)


def test_counting_takes_memory_for_the_pairs_that_there_are() -> None:
    n, n_relations = 4_000, 1_000
    ids = torch.arange(n)
    facts = torch.stack([ids, ids % n_relations, (7 * ids + 1) % n], 1)
    links = LinkSet(facts[:-10], facts[:0], facts[-10:], tuple(f"e{i}" for i in range(n)),
                    tuple(f"r{i}" for i in range(n_relations)))  # fmt: skip
    baseline = Frequencies(links)
    held = sum(
        value.numel() for value in vars(baseline).values() if isinstance(value, torch.Tensor)
    )
    assert held <= 2 * 2 * n + n < 2 * n_relations * n / 100
    assert baseline(links.queries("test")).shape == (20, n)


def test_choices_and_epochs_do_not_depend_on_test_facts(tmp_path: Path) -> None:
    """Of facts that differ in the test part alone, where filtering by it would move ranks."""
    draw = np.random.default_rng(0)
    every = [(f"e{i}", "r", f"e{j}") for i in range(12) for j in range(12)]
    order = draw.permutation(len(every))
    train, valid, rest = ([every[i] for i in order[a:b]] for a, b in ((0, 60), (60, 80), (80, 144)))
    context, experiment, results = made_context(tmp_path), LinkExperiment(), []
    config = LinkConfig("own", "hucl", epochs=6, dim=4, candidates=4, lr=0.1, patience=1)
    for part in (0, 1):
        links = LinkSet.from_triples(train, valid, rest[part::2])
        weights, scores = [], []
        for inner in (True, False):
            run = Run(config, 0, inner=inner)
            trained = experiment.train_run(run, links, context, silent)
            scored = experiment.score(trained, links, context)
            weights.append(trained.embeddings.entities.weight)
            scores += scored.scores(["mrr"])["mrr"] if inner else scored.validation
        results.append((weights, scores, trained.scores))
    (weights_a, scores_a, epoch), (weights_b, scores_b, other_epoch) = results
    assert all(torch.equal(a, b) for a, b in zip(weights_a, weights_b, strict=True))
    assert (scores_a, epoch) == (scores_b, other_epoch)


def test_a_search_chooses_by_valid_facts(ring: Path) -> None:
    command = ["--dataset=ring", "--data-dir=.", "--domain=links", "--method=hucl",
               "--space=beta,temperature,n3", "--trials=3", *SHORT]  # fmt: skip
    assert tune.main(command) == 0
    (path,) = Path("out").glob("*_search.json")
    assert "mrr" in path.read_text(encoding="utf-8")


def test_ranks_in_batches_are_those_of_all_at_once(
    ring: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gcl_hard.links.experiment.SCORES", 90)  # three queries
    data = load_links("ring", data_dir=".")
    config = LinkConfig("ring", "ucl", dim=8)
    torch.manual_seed(0)
    scorer = new_scorer(config, data, None)

    def score(queries: Any) -> torch.Tensor:
        with torch.no_grad():
            return scorer.compare(
                scorer.query(queries.entity, queries.relation), scorer.candidates()
            )

    whole = ranks(score, data, "test")
    queries = data.queries("test")
    again = filtered_ranks(score(queries), queries.answer,
                           data.all_facts.pairs(data.key(queries)))  # fmt: skip
    assert mean_reciprocal_rank(whole) == mean_reciprocal_rank(again)


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["--method=hcl"], ["hcl", "scores"]),
        (["--encoder=conve"], ["encoder", "distmult", "rgcn", "module:Name"]),
        (["--sparse=true", "--candidate-pool=all"], ["sparse", "candidate-pool all"]),
        (["--sparse=true", "--encoder=rgcn"], ["sparse", "rgcn"]),
        (["--sparse=true", "--weight-decay=0.1"], ["sparse", "weight-decay"]),
        (["--encoder=complex", "--dim=7"], ["complex", 2, 7]),
        (["--encoder=rgcn", "--dim=6"], ["rgcn", 4, 6]),
        (["--hardness-scale=cosine", "--objective=jsd"], ["hardness-scale", "score"]),
        (["--diagnostics=1"], ["links", "--diagnostics"]),
    ],
)
def test_what_links_do_not_have_is_one_message(
    arguments: list[str], facts: list[object], ring: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main(["--dataset=ring", "--data-dir=.", "--domain=links", *arguments]) == 2
    assert says(capsys.readouterr().err, *facts)


@pytest.mark.parametrize(
    "options",
    [
        ["--encoder=rgcn", "--layers=2"],
        ["--encoder=rotate", "--objective=jsd"],
        ["--candidate-pool=batch", "--rare=true"],
        ["--candidate-pool=all", "--encoder=transe"],
        ["--sparse=true", "--n3=0.01"],
    ],
)
def test_models_and_ways_of_training_make_tables(options: list[str], ring: Path) -> None:
    pooled = "pool" in " ".join(options)
    short = [option for option in SHORT if not pooled or "--candidates" not in option]
    command = ["--dataset=ring", "--data-dir=.", "--domain=links", "--seeds=1", "--method=hscl"]
    assert bench.main([*command, *short, *options]) == 0
    (scores,) = records().values()
    assert 0 < scores["mrr"][0] <= 100


def test_a_run_ends_where_it_no_longer_helps_and_keeps_its_best_epoch(ring: Path) -> None:
    config = LinkConfig("ring", "hucl", epochs=12, dim=8, candidates=8, lr=0.1, patience=2)
    context, experiment, run = made_context(Path()), LinkExperiment(), Run(config, 0)
    data, seen, shares = experiment.load(config, context), list[float](), list[float]()

    def report(run: Run, share: float, loss: float | None = None) -> bool:
        shares.append(share)
        return True

    trained = experiment.train_run(run, data, context, report)
    scored = experiment.score(trained, data, context)
    best = scored.facts["best_epoch"]
    ends = shares[1::2]  # of epochs, whose one batch is reported, too, as it begins
    for epochs in range(1, len(ends) + 1):  # of runs of a given length
        shorter = replace(config, epochs=epochs, patience=0)
        shorter_run = experiment.train_run(Run(shorter, 0), data, context, silent)
        seen.append(experiment.score(shorter_run, data, context).validation[0])
    assert best == 1 + int(np.argmax(seen))
    assert scored.validation == (max(seen),)
    assert len(ends) in (best + 2, 12)
    assert ends[-1] == 1.0


def test_the_mrr_of_a_kind_of_questions_is_over_those_alone(tmp_path: Path) -> None:
    many = [(f"p{i}", "in", f"c{i % 3}") for i in range(12)]
    links = LinkSet.from_triples([*many[:9], ("a", "next", "b"), ("b", "next", "c")], [],
                                 [*many[9:], ("c", "next", "a")])  # fmt: skip
    config, context = LinkConfig("own", "ucl", dim=4, epochs=1), made_context(None)
    experiment = LinkExperiment()
    trained = experiment.train_run(Run(config, 0), links, context, silent)
    scored = experiment.score(trained, links, context)
    metrics = experiment.metrics(config, links)
    assert {*metrics} >= {"mrr_1_1", "mrr_1_n", "mrr_n_1"}
    assert "mrr_n_n" not in metrics
    scores = scored.scores(metrics)
    reciprocal = 100 / scored.folds[0].predicted  # tails of the four facts, then heads
    for name, ids in {"mrr_n_1": [0, 1, 2], "mrr_1_n": [4, 5, 6], "mrr_1_1": [3, 7]}.items():
        assert scores[name][0] == pytest.approx(reciprocal[ids].mean())


OWN = """
import torch
from gcl_hard.links import Scorer

class Plain(Scorer):
    def query(self, entity, relation):
        return self.entities(entity) + self.relations(relation)

class Narrow(Plain):
    def candidates(self, entities=None):
        return self.entities.weight[:3]

class Unpaired(Plain):
    def compare(self, queries, candidates):
        return -torch.cdist(queries, candidates)

class Lacking(torch.nn.Module):
    def __init__(self, *given, bias=0.0):
        super().__init__()
"""


def test_a_model_of_ones_own_is_named(
    ring: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_scorers.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    command = ["--dataset=ring", "--data-dir=.", "--domain=links", "--seeds=1", "--method=hucl",
               "--save-embeddings", *SHORT]  # fmt: skip
    assert bench.main([*command, "--encoder=own_scorers:Plain"]) == 0
    (path,) = Path("out").glob("*.npz")
    with np.load(path) as saved:
        assert saved["embeddings"].shape == (30, 8)
        assert saved["entity_names"][0] == "p0"
    capsys.readouterr()
    for name, facts, more in (
        ("Narrow", ["30", "3"], []), ("Lacking", ["Scorer"], []),
        ("Unpaired", ["pairwise"], []), ("Plain", ["sparse"], ["--sparse=true"]),
    ):  # fmt: skip
        assert bench.main([*command, f"--encoder=own_scorers:{name}", *more]) == 2
        assert says(capsys.readouterr().err, name, *facts)


@pytest.mark.parametrize("seeds", [1, 3])
def test_intervals_are_over_seeds_and_facts(seeds: int, ring: Path) -> None:
    command = ["--dataset=ring", "--data-dir=.", "--domain=links", f"--seeds={seeds}", *SHORT,
               "--method=ucl,hucl", "--report=page.md"]  # fmt: skip
    assert bench.main(command) == 0
    stored = [*Store("out").rows()]
    by_method = {
        name: np.stack([r.tested()[0].predicted for r in stored if r.config["method"] == name])
        for name in ("ucl", "hucl")
    }
    reciprocal = {name: 100 / ranks.reshape(seeds, 2, -1) for name, ranks in by_method.items()}
    expected = crossed_test(reciprocal["hucl"].mean(1), reciprocal["ucl"].mean(1))
    configs = list(dict.fromkeys(result.run.config for result in stored))
    results = Results(
        configs, tuple(range(seeds)), {result.run: result for result in stored}, False
    )
    (row,) = (row for row in rows(results) if row.method == "hucl")
    test = row.tests["ucl"]
    assert (test.mean, test.low, test.high) == pytest.approx(
        (expected.difference, expected.low, expected.high)
    )
    assert row.interval is not None
    assert row.interval.low < row.interval.mean < row.interval.high
    assert says(Path("page.md").read_text(encoding="utf-8"), "interval", "seeds and test items")
