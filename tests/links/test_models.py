"""Models of facts and their contrast: scores and losses against slow loops, and on real facts."""

from __future__ import annotations

import cmath
import copy
import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from gcl_hard import ContrastiveLoss, InputError, NegativeSampler, fit
from gcl_hard.evaluation import (
    AnswerRanks,
    adjusted_mean_rank_index,
    filtered_ranks,
    mean_reciprocal_rank,
)
from gcl_hard.links import (
    PARTS,
    RGCN,
    ComplEx,
    DistMult,
    LinkContrast,
    LinkSet,
    Queries,
    RotatE,
    Scorer,
    TransE,
    load_links,
)
from gcl_hard.links.experiment import ranks as ranks_of_part
from gcl_hard.training.loop import sparse_adam

DATA = Path(__file__).parents[3] / "shared" / "data" / "links"
LETTERS = "abcdefg"


def facts() -> LinkSet:
    """Seven entities, two relations, and facts of all parts."""
    generator = torch.Generator().manual_seed(0)
    every = list(product(LETTERS, "rs", LETTERS))
    order = torch.randperm(len(every), generator=generator).tolist()
    chosen = [every[i] for i in order[:30]]
    return LinkSet.from_triples(chosen[:20], chosen[20:25], chosen[25:])


def loop(model: Any, h: int, r: int, t: int) -> float:
    """A score in the papers' symbols."""
    entities, relations = model.entities.weight.detach(), model.relations.weight.detach()
    a, b, c = entities[h], relations[r], entities[t]
    if isinstance(model, DistMult):
        return sum(float(x * y * z) for x, y, z in zip(a, b, c, strict=True)) + model.bias
    if isinstance(model, ComplEx):
        n = len(a) // 2
        total = 0.0
        for k in range(n):
            x, y, z = (complex(float(v[k]), float(v[n + k])) for v in (a, b, c))
            total += (x * y * z.conjugate()).real
        return total + model.bias
    if isinstance(model, RotatE):
        n = len(a) // 2
        far = 0.0
        for k in range(n):
            x, z = (complex(float(v[k]), float(v[n + k])) for v in (a, c))
            far += abs(x * cmath.exp(1j * float(b[k])) - z)
        return float(model.bias) - far
    squares = [float(x + y - z) ** 2 for x, y, z in zip(a, b, c, strict=True)]
    return float(model.bias) - math.sqrt(sum(squares))


@pytest.mark.parametrize("kind", [DistMult, ComplEx, TransE, RotatE])
def test_scores_are_those_of_a_slow_loop(kind: Any) -> None:
    torch.manual_seed(0)
    model = kind(7, 2, dim=6, bias=0.5).double()
    entity, relation = torch.tensor([0, 3, 6]), torch.tensor([0, 3, 2])
    q = model.query(entity, relation)
    scores = model.compare(q, model.candidates())
    for i, j in product(range(3), range(7)):
        expected = loop(model, int(entity[i]), int(relation[i]), j)
        assert scores[i, j].item() == pytest.approx(expected, rel=1e-10)
    ids = torch.tensor([5, 5, 1])
    assert torch.allclose(model.compare(q, model.candidates(ids)), scores[:, ids])
    assert torch.allclose(model.pairwise(q, model.candidates(ids)),
                          scores[torch.arange(3), ids])  # fmt: skip


@pytest.mark.parametrize("method", ["ucl", "hucl", "scl", "hscl"])
@pytest.mark.parametrize("objective", ["infonce", "jsd"])
@pytest.mark.parametrize("number", [None, 3, 500])
def test_the_loss_is_that_of_the_scores_with_known_training_facts(
    method: str, objective: str, number: int | None
) -> None:
    links = facts()
    torch.manual_seed(1)
    scorer = DistMult(7, 2, dim=4, bias=-0.5).double()
    options: dict[str, Any] = {"objective": objective}
    if objective == "infonce":
        options["temperature"] = 2.0
    model = LinkContrast(
        scorer,
        links,
        method=method,
        beta=1.5,
        candidates=number or "all",
        n3=0.1,
        seed=3,
        **options,
    )
    batch = links.queries("train").at(slice(9))
    torch.manual_seed(5)
    loss = model(batch)
    again = LinkContrast(
        scorer, links, method=method, beta=1.5, candidates=number or "all", seed=3, **options
    )
    # the same draws, seen through the scores that the loss is given
    seen: list[tuple[Any, ...]] = []
    plain = again.loss.scored

    def watched(scores: Tensor, positive: Tensor, **options: Any) -> Tensor:
        seen.append((scores, positive, options))
        return plain(scores, positive, **options)

    again.loss.scored = watched  # type: ignore[method-assign]
    value = again(batch)
    scores, positives, _ = seen[0]
    trained = {
        tuple(fact) for fact in zip(*(x.tolist() for x in links.queries("train")), strict=True)
    }
    tables = scorer.entities.weight.detach(), scorer.relations.weight.detach()
    cubes = 0.0
    for e, r, a in zip(*(x.tolist() for x in batch), strict=True):
        vectors = tables[0][e], tables[1][r], tables[0][a]
        cubes += sum(float(v.abs().pow(3).sum()) for v in vectors)
    assert loss.item() == pytest.approx(value.item() + 0.1 * cubes / 9, rel=1e-10)
    # which entity a column is, by its scores with all entities
    every = scorer.compare(scorer.query(batch.entity, batch.relation), scorer.candidates())
    columns = [
        next(j for j in range(7) if torch.allclose(scores[:, c], every[:, j], atol=1e-12))
        for c in range(scores.shape[1])
        if number is None or c > 0
    ]
    assert len(set(columns)) == len(columns)
    masked = []
    for i in range(9):
        e, r, a = (int(x[i]) for x in batch)
        assert scores[i, positives[i]].item() == pytest.approx(every[i, a].item(), rel=1e-10)
        keep = [
            j for j in columns
            if j != a and not (method in ("scl", "hscl") and (e, r, j) in trained)
        ]  # fmt: skip
        masked.append(keep)
    sampler = NegativeSampler("other_labels", model.loss.sampler.hardening)
    known = torch.ones(9, 7, dtype=torch.bool)
    for i, keep in enumerate(masked):
        known[i, keep] = False
    direct = ContrastiveLoss(
        sampler, objective=objective, temperature=options.get("temperature"),  # type: ignore[arg-type]
        hardness_scale="score" if objective == "jsd" else None, reduction="none",
        weight=float(scores.shape[1] - 1) if objective == "infonce" else "others",
    )  # fmt: skip
    terms = direct.scored(every, batch.answer, known=known)
    kept = torch.tensor([bool(keep) for keep in masked])
    expected = terms[kept].mean() if kept.any() else torch.tensor(0.0)
    assert value.item() == pytest.approx(expected.item(), rel=1e-9)


@pytest.mark.parametrize("method", ["hucl", "hscl"])
@pytest.mark.parametrize("objective", ["infonce", "jsd"])
@pytest.mark.parametrize("kind", [DistMult, TransE])
def test_answers_of_a_batch_are_weighed_by_how_often_they_are_there(
    method: str, objective: str, kind: Any
) -> None:
    """By a slow loop over queries and the batch's answers, with RotatE's weights of queries."""
    links, beta = facts(), 1.2
    torch.manual_seed(2)
    scorer = kind(7, 2, dim=4, bias=-0.5).double()
    options: dict[str, Any] = {"objective": objective}
    if objective == "infonce":
        options["temperature"] = 1.5
    model = LinkContrast(
        scorer, links, method=method, beta=beta, candidates="batch", rare=True, **options
    )
    batch = next(links.batches(11)(1))
    asked = [*zip(*(x.tolist() for x in links.queries("train")), strict=True)]
    share = {j: sum(a == j for _, _, a in asked) / len(asked) for j in range(7)}
    present = sorted(set(batch.answer.tolist()))
    number = {j: -math.log(1 - (1 - share[j]) ** 11) for j in present}
    total = whole = 0.0
    for e, r, a in zip(*(x.tolist() for x in batch), strict=True):
        t = {j: loop(scorer, e, r, j) / options.get("temperature", 1.0) for j in present}
        kept = [j for j in present
                if j != a and not (method == "hscl" and (e, r, j) in asked)]  # fmt: skip
        if not kept:
            continue
        q = {j: math.exp(beta * t[j] + number[j]) for j in kept}
        norm = sum(q.values())
        if objective == "infonce":
            expected = sum(q[j] / norm * math.exp(t[j]) for j in kept)
            term = math.log1p((len(present) - 1) * expected / math.exp(t[a]))
        else:
            expected = sum(q[j] / norm * math.log1p(math.exp(t[j])) for j in kept)
            term = math.log1p(math.exp(-t[a])) + expected - 2 * math.log(2)
        both = sum((e, r) == (x, y) for x, y, _ in asked)
        both += sum((a, (r + 2) % 4) == (x, y) for x, y, _ in asked)
        total, whole = total + term * (both + 6) ** -0.5, whole + (both + 6) ** -0.5
    assert model(batch).item() == pytest.approx(total / whole, rel=1e-6)


def test_sparse_gradients_are_those_of_the_dense_and_touch_no_other_rows() -> None:
    links, tables = facts(), list[Tensor]()
    batch = links.queries("train").at(slice(3))
    for sparse in (False, True):
        torch.manual_seed(0)
        scorer = DistMult(7, 2, dim=4, sparse=sparse)
        model = LinkContrast(scorer, links, method="hucl", candidates=2, n3=0.1)
        before = scorer.entities.weight.detach().clone()
        make = sparse_adam if sparse else torch.optim.Adam
        optimiser = make(model.parameters(), lr=0.1)  # type: ignore[operator]
        model(batch).backward()
        optimiser.step()
        grad = scorer.entities.weight.grad
        assert grad is not None
        assert grad.is_sparse == sparse
        tables.append(scorer.entities.weight.detach())
    rows = grad.coalesce().indices()[0]
    assert 0 < len(rows) < 7
    # the first step of Adam, whose moments are those of one gradient
    assert torch.allclose(tables[0][rows], tables[1][rows], atol=1e-6)
    rest = torch.ones(7, dtype=torch.bool).index_fill(0, rows, False)
    assert torch.equal(tables[1][rest], before[rest])
    with pytest.raises(InputError, match="weight decay"):
        sparse_adam(model.parameters(), lr=0.1, weight_decay=0.1)


def test_a_graph_network_over_the_training_facts_scores_and_learns() -> None:
    links = facts()
    torch.manual_seed(0)
    scorer = RGCN(links, dim=8, blocks=2)
    (layer,) = scorer.layers
    encoded = [0]
    layer.register_forward_hook(lambda *_: encoded.__setitem__(0, encoded[0] + 1))
    model = LinkContrast(scorer, links, method="hucl", candidates=5, n3=0.01)
    losses = fit(model, links, epochs=3, batch_size=10, lr=0.05)
    assert encoded[0] == 3 * 4  # once a step
    assert losses[-1] < losses[0]
    # W_r of blocks, mean over the neighbours that a relation comes from
    x, triples = scorer.entities.weight.detach(), links.queries("train")
    expected = x.clone()
    for i, r in product(range(7), range(4)):
        near = [e for e, kind, a in zip(*(v.tolist() for v in triples), strict=True)
                if (kind, a) == (r, i)]  # fmt: skip
        if near:
            mean = x[near].mean(0).view(2, 1, 4)
            expected[i] += (mean @ layer.weight.detach()[r]).flatten()
    with torch.no_grad():
        assert torch.allclose(scorer.candidates(), expected, atol=1e-5)
    before = encoded[0]
    ranks_of_part(scorer, links, "test")
    assert encoded[0] == before + 1  # once for all batches
    assert copy.deepcopy(model).double().scores(triples.at(slice(2))).dtype == torch.float64
    for _ in range(2):
        scorer.candidates().sum().backward()


class Own(Scorer):
    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        rows: Tensor = self.entities(entity)
        return rows * (1 + relation[:, None])


class Manhattan(Own):
    def compare(self, queries: Tensor, candidates: Tensor) -> Tensor:
        distance: Tensor = torch.cdist(queries, candidates, p=1)
        return self.bias - distance


@pytest.mark.parametrize("candidates", [5, "batch", "all"])
def test_a_model_of_ones_own_needs_a_query(candidates: Any) -> None:
    links = facts()
    torch.manual_seed(0)
    model = LinkContrast(Own(7, 2, 4), links, method="hscl", temperature=0.5, candidates=candidates)
    losses = fit(model, links, epochs=3, batch_size=10, lr=0.05)
    assert losses[-1] < losses[0]
    q = links.queries("test")
    expected = model.scorer.query(q.entity, q.relation) @ model.scorer.entities.weight.T
    assert torch.equal(model.scores(q), expected)


def test_scores_of_ones_own_that_are_no_products_need_pairs_as_well() -> None:
    links, q = facts(), facts().queries("train").at(slice(5))
    torch.manual_seed(0)
    scorer = Manhattan(7, 2, 4)
    model = LinkContrast(scorer, links, method="ucl", candidates="all")
    scores = scorer.compare(scorer.query(q.entity, q.relation), scorer.candidates())
    assert torch.equal(model(q), model.loss.scored(scores, q.answer))
    with pytest.raises(InputError, match=r"Manhattan\b.*\bpairwise\b"):
        LinkContrast(scorer, links, method="ucl", candidates=5)(q)


def test_a_fact_of_valid_or_test_changes_no_loss() -> None:
    links = facts()
    triples = {
        part: [
            (links.entities[h], links.relations[r], links.entities[t])
            for h, r, t in links.part(part).tolist()  # type: ignore[arg-type]
        ]
        for part in ("train", "valid", "test")
    }
    taken = {fact for facts in triples.values() for fact in facts}
    new = next(fact for fact in product(LETTERS, "rs", LETTERS) if fact not in taken)
    for part in ("valid", "test"):
        changed = (facts + [new] * (name == part) for name, facts in triples.items())
        more = LinkSet.from_triples(*changed)
        values = []
        for data in (links, more):
            torch.manual_seed(0)
            model = LinkContrast(ComplEx(7, 2, dim=4), data, method="hscl", candidates=5)
            values.append([model(batch) for batch in data.batches(8, seed=1)(1)])
        assert torch.equal(*map(torch.stack, values))


def test_an_epoch_asks_every_question_once_in_an_order_of_its_own() -> None:
    links = facts()
    orders = []
    for epoch in (1, 2):
        batches = [*links.batches(7, seed=0)(epoch)]
        assert [batch.number for batch in batches] == [7] * 5 + [5]
        asked = [x for batch in batches for x in zip(*(t.tolist() for t in batch), strict=True)]
        assert sorted(asked) == sorted(zip(*(t.tolist() for t in links.queries("train")),
                                           strict=True))  # fmt: skip
        orders.append(asked)
    assert orders[0] != orders[1]


def ranks(model: LinkContrast, links: LinkSet, queries: Queries) -> AnswerRanks:
    parts: list[AnswerRanks] = []
    for batch in queries.split(256):
        known = links.all_facts.pairs(links.key(batch))
        parts.append(filtered_ranks(model.scores(batch), batch.answer, known))
    return AnswerRanks.joined(parts)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the published sets")
@pytest.mark.parametrize("objective", ["infonce", "jsd"])
def test_umls_is_learned(objective: str) -> None:
    links = load_links("UMLS", data_dir=DATA, download=False)
    torch.manual_seed(0)
    scorer = DistMult(links.n_entities, links.n_relations, dim=32,
                      bias=-3.0 if objective == "jsd" else 0.0)  # fmt: skip
    options = {"temperature": 1.0} if objective == "infonce" else {}
    model = LinkContrast(scorer, links, method="hucl", beta=1.0, candidates=64,
                         objective=objective, **options)  # fmt: skip
    queries = links.queries("valid")
    before = ranks(model, links, queries)
    assert abs(adjusted_mean_rank_index(before)) < 0.2
    losses = fit(model, links, epochs=5, batch_size=512, lr=0.03)
    after = ranks(model, links, queries)
    assert losses[-1] < losses[0]
    assert mean_reciprocal_rank(after) > 0.5
    assert adjusted_mean_rank_index(after) > 0.8


def crowd(
    norm: float, apart: float, *, dim: int = 64, bias: float = 0.0, kind: Any = TransE
) -> tuple[TransE, LinkSet]:
    """A model whose vectors are as long, and about as far from each other, and facts at random."""
    generator, n = torch.Generator().manual_seed(dim), 90
    pairs = torch.randint(n, (200, 2), generator=generator).unique(dim=0)
    pairs = pairs[torch.randperm(len(pairs), generator=generator)].tolist()
    triples = [(f"{i}", "rs"[k % 2], f"{j}") for k, (i, j) in enumerate(pairs) if i != j]
    loops = [(f"{i}", "r", f"{i}") for i in range(n)]
    links = LinkSet.from_triples(triples[:40] + loops, triples[40:50], triples[50:])
    model = kind(n, 2, dim=dim, bias=bias)
    with torch.no_grad():
        middle = torch.randn(dim, generator=generator)
        around = torch.randn(n, dim, generator=generator) * apart / dim**0.5
        model.entities.weight.copy_(norm * middle / middle.norm() + around)
        model.entities.weight[1::9] = model.entities.weight[0::9]  # ties
        model.relations.weight.mul_(apart / 9)
    return model, links


def ranks_by_loop(model: TransE, links: LinkSet, dtype: torch.dtype = torch.float64) -> list[float]:
    """Ranks of test answers by distances in double precision, then rounded, without scores."""
    x, r = (t.weight.detach().double() for t in (model.entities, model.relations))
    facts = {
        tuple(fact) for part in ("train", "valid", "test") for fact in links.part(part).tolist()
    }  # type: ignore[arg-type]
    ranks = []
    for entity, relation, answer in zip(*(t.tolist() for t in links.queries("test")), strict=True):
        d = (x[entity] + r[relation] - x).square().sum(1).sqrt().to(dtype).tolist()
        rest = [
            j for j in range(len(d)) if j != answer
            and ((entity, relation, j) if relation < 2 else (j, relation - 2, entity)) not in facts
        ]  # fmt: skip
        above, level = (sum(f(d[j]) for j in rest) for f in (d[answer].__gt__, d[answer].__eq__))
        ranks.append(1 + above + level / 2)
    return ranks


class Moved(TransE):
    """A model that is not made of tables alone."""

    def __init__(self, *sizes: int, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.shift = torch.nn.Parameter(torch.zeros(1))

    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        return super().query(entity, relation) + self.shift


@pytest.mark.parametrize(
    ("norm", "apart", "dim"),
    [
        (10.0, 1e-3, 64),
        (10.0, 1e-3, 300),
        (1.0, 1e-4, 3),
        (100.0, 0.1, 64),
        (1.0, 1.0, 8),
        (0, 1, 4),
    ],
)
@pytest.mark.parametrize("bias", [0.0, 9.0])
def test_ranks_of_close_vectors_are_those_of_double_precision(
    norm: float, apart: float, dim: int, bias: float
) -> None:
    model, links = crowd(norm, apart, dim=dim, bias=bias)
    right = ranks_by_loop(model, links)
    assert ranks_of_part(model, links, "test").rank.tolist() == right
    assert 1 < sum(right) / len(right) < 90
    if not bias:  # whose digits scores would share
        queries = links.queries("test")
        known = links.all_facts.pairs(links.key(queries))
        result = filtered_ranks(
            LinkContrast(model, links, method="ucl").scores(queries), queries.answer, known
        )
        # Distances that differ in double precision may be one number in single precision.
        assert result.rank.tolist() == ranks_by_loop(model, links, torch.float32)


def test_close_candidates_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model, links = crowd(10.0, 1e-3)
    right = ranks_by_loop(model, links)
    monkeypatch.setattr("gcl_hard.links.models.CLOSE", 200)
    assert ranks_of_part(model, links, "test").rank.tolist() == right


def test_close_candidates_of_a_model_of_ones_own_are_compared_anew() -> None:
    model, links = crowd(10.0, 0.01, kind=Moved)
    right = torch.tensor(ranks_by_loop(model, links), dtype=torch.float64)
    ranks = ranks_of_part(model, links, "test").rank
    assert (ranks - right).abs().max() <= 1  # its queries are rounded


def test_a_model_with_distances_of_its_own_is_ranked_by_them() -> None:
    class Manhattan(TransE):
        def compare(self, queries: Tensor, candidates: Tensor) -> Tensor:
            return self.bias - torch.cdist(queries, candidates, p=1)

    model, links = crowd(10.0, 1e-3, kind=Manhattan)
    queries = links.queries("test")
    with torch.no_grad():
        scores = model.compare(model.query(queries.entity, queries.relation), model.candidates())
    known = links.all_facts.pairs(links.key(queries))
    expected = filtered_ranks(scores, queries.answer, known).rank
    assert torch.equal(ranks_of_part(model, links, "test").rank, expected)


def test_vectors_that_are_no_numbers_are_ranked_last() -> None:
    model, links = crowd(10.0, 1e-3)
    torch.nn.init.constant_(model.relations.weight, math.nan)
    assert ranks_of_part(model, links, "test").rank.min() > 30


@pytest.mark.parametrize("kind", [TransE, RotatE])
def test_distances_of_0_have_finite_gradients(kind: Any) -> None:
    links = LinkSet.from_triples([("a", "r", "a"), ("b", "r", "c")])
    scorer = kind(3, 1, dim=4)
    torch.nn.init.zeros_(scorer.relations.weight)
    LinkContrast(scorer, links, method="ucl", candidates="all")(links.queries("train")).backward()
    assert scorer.entities.weight.grad.isfinite().all()


def test_rotate_compares_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = RotatE(7, 2, dim=4)
    q = model.query(torch.arange(5), torch.zeros(5, dtype=torch.int64))
    whole = model.compare(q, model.candidates())
    monkeypatch.setattr("gcl_hard.links.models.ELEMENTS", 60)
    assert torch.allclose(model.compare(q, model.candidates()), whole)


def test_answers_have_names_and_known_ones_are_left_out() -> None:
    links = facts()
    torch.manual_seed(0)
    model = LinkContrast(DistMult(7, 2, dim=4), links)
    h, r, _ = links.train[0].tolist()
    head, relation = links.entities[h], links.relations[r]
    of_all_parts = [fact for part in PARTS for fact in links.part(part).tolist()]
    known = {links.entities[t] for a, b, t in of_all_parts if (a, b) == (h, r)}
    every = model.predict(head, relation, filtered=False, k=7)
    assert [name for name, _ in every] != sorted(name for name, _ in every) or len(every) == 7
    scores = [score for _, score in every]
    assert scores == sorted(scores, reverse=True)
    assert {name for name, _ in every} == {*LETTERS}
    left = model.predict(head, relation, k=7)
    assert {name for name, _ in left} == {*LETTERS} - known
    asked = model.predict(None, relation, LETTERS[0], filtered=False, k=1)
    expected: Tensor = model.scores(
        Queries(torch.tensor([0]), torch.tensor([r + 2]), torch.tensor([0]))
    )
    assert asked[0][0] == links.entities[int(expected.argmax())]
    with pytest.raises(InputError, match=r"\bk\b"):
        model.predict(head, relation, k=-1)
    for wrong in (("zoe", "r", None), ("a", "q", None), ("a", "r", "b"), (None, "r", None)):
        with pytest.raises(InputError):
            model.predict(*wrong)


CHAIN = [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "d"), ("d", "s", "e")]


def chain_model() -> LinkContrast:
    torch.manual_seed(0)
    links = LinkSet.from_triples(CHAIN)
    return LinkContrast(DistMult(5, 2, dim=4), links, method="scl", candidates="all")


@pytest.mark.parametrize("saved", [False, True])
def test_a_model_answers_by_its_names_whatever_the_set(saved: bool, tmp_path: Path) -> None:
    links, model = LinkSet.from_triples(CHAIN), chain_model()
    expected = {
        ends: model.predict(ends[0], "r", ends[1], k=9, filtered=False)
        for ends in (("a", None), (None, "a"))
    }
    if saved:
        torch.save(model, tmp_path / "model.pt")
        model = torch.load(tmp_path / "model.pt", weights_only=False)
    assert {"scorer.entities.weight", "scorer.relations.weight"} == {*model.state_dict()}
    more = LinkSet.from_triples([*CHAIN, ("e", "r", "a"), ("a", "r", "e")])
    for other in (links, more):
        for ends, answers in expected.items():
            ranking = model.predict(ends[0], "r", ends[1], links=other, k=9, filtered=False)
            assert [name for name, _ in ranking] == [name for name, _ in answers]
            assert [x for _, x in ranking] == pytest.approx([x for _, x in answers], abs=1e-6)
    assert {name for name, _ in model.predict("a", "r", links=more)} == {*"acd"}
    asked = links.queries("train").at(slice(2))
    for wrong in ({"entity": torch.tensor([0, 5])}, {"relation": torch.tensor([4, -1])}):
        with pytest.raises(InputError, match=r"5 entities.*2 relations"):
            model.scores(asked._replace(**wrong))


@pytest.mark.parametrize("kind", [DistMult, TransE])
def test_scores_do_not_depend_on_answers_beyond_the_model(kind: Any) -> None:
    links = LinkSet.from_triples(CHAIN)
    torch.manual_seed(0)
    model = LinkContrast(kind(5, 2, dim=4), links, method="ucl")
    asked = Queries(*(torch.tensor([k]) for k in (0, 1, 4)))
    for answer in (-1, 7):
        beyond = asked._replace(answer=torch.tensor([answer]))
        torch.testing.assert_close(model.scores(beyond), model.scores(asked))


def test_a_set_of_other_names_meets_no_model() -> None:
    model = chain_model()
    numbered = {"entities": ["a", "b", "c", "d", "e"], "relations": ["r", "s"]}
    before = [weights.clone() for weights in model.parameters()]
    sets = {
        "shifted": LinkSet.from_triples([("aa", "r", "a"), *CHAIN[:2], ("c", "s", "d")]),
        "smaller": LinkSet.from_triples(CHAIN[:3]),
        "other order": LinkSet.from_triples(CHAIN, entities=["b", "a", "c", "d", "e"]),
        "other relations": LinkSet.from_triples(CHAIN, relations=["s", "r"]),
        "larger": LinkSet.from_triples([*CHAIN, ("e", "r", "f")]),
    }
    for name, other in sets.items():
        kind = "relations" if "relations" in name else "entities"
        with pytest.raises(InputError, match=rf"\b{kind}\b"):
            fit(model, other, epochs=1, batch_size=4)
        with pytest.raises(InputError, match=rf"\b{kind}\b"):
            model.predict("a", "r", links=other)
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))
    same = LinkSet.from_triples([("e", "r", "a"), ("c", "s", "d")], **numbered)
    assert len(fit(model, same, epochs=2, batch_size=4, lr=0.1)) == 2
    assert len(fit(model, same.batches(4), epochs=1)) == 1  # what has no names is not compared


def test_a_scorer_has_the_entities_and_relations_of_its_set() -> None:
    links = facts()  # 7 entities, 2 relations
    for scorer in (DistMult(7, 2, dim=4), RGCN(links, dim=4)):
        LinkContrast(scorer, links)
    wrong: list[tuple[Any, str]] = [
        (TransE(50, 2, dim=4), "50"), (TransE(6, 2, dim=4), "6"), (ComplEx(7, 1, dim=4), "1"),
        (ComplEx(7, 3, dim=4), "3"), (RGCN(chain_model()._links, dim=4), "5"),
        (torch.nn.Linear(7, 4), "Scorer"),
    ]  # fmt: skip
    for scorer, number in wrong:
        with pytest.raises(InputError, match=rf"\b{number}\b"):
            LinkContrast(scorer, links)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: DistMult(3, 1, dim=0), r"dim\b.*at least 1"),
        (lambda: LinkContrast(DistMult(7, 2, 4), facts(), candidates=0), r"candidates\b"),
        (lambda: LinkContrast(DistMult(7, 2, 4), facts(), n3=-1), r"n3\b"),
        (lambda: LinkContrast(DistMult(7, 2, 4), facts(), positives="class"), r"positives='class'"),
        (lambda: LinkContrast(DistMult(7, 2, 4), facts(), method="hcl"), r"class_prior"),
    ],
)
def test_what_cannot_be_is_named(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
