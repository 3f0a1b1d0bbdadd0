"""Facts that a set has the other way round, against slow loops."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from gcl_hard.links import LinkSet, load_links
from gcl_hard.links.reversed_facts import reversals, reversed_pairs
from tests.said import says

DATA = Path(__file__).parents[3] / "shared" / "data" / "links"


def test_pairs_and_reversals_are_those_of_a_slow_loop() -> None:
    draw = np.random.default_rng(0)
    triples = {(int(h), int(r), int(t)) for h, r, t in draw.integers((9, 4, 9), size=(200, 3))}
    triples |= {(t, 3 - r, h) for h, r, t in triples if r in (1, 2) or draw.random() < 0.6}
    facts = torch.tensor([*triples])
    rows, others = reversed_pairs(facts, 9)
    expected = {
        (i, j)
        for (i, (h, _, t)), (j, (a, _, b)) in product(enumerate(facts.tolist()), repeat=2)
        if (a, b) == (t, h) and i != j  # a fact is no reverse of itself
    }
    pairs = list(zip(rows.tolist(), others.tolist(), strict=True))
    assert set(pairs) == expected
    assert len(pairs) == len(expected)
    pairs_of = [{(h, t) for h, kind, t in triples if kind == r} for r in range(4)]
    for share in (0.3, 0.6, 0.9, 1.0):
        right = set()
        for r, back in product(range(4), repeat=2):
            both = len({(h, t) for h, t in pairs_of[r] & {(t, h) for h, t in pairs_of[back]}
                        if h != t or r != back})  # fmt: skip
            if both >= 30 and both >= share * max(len(pairs_of[r]), len(pairs_of[back])):
                right.add((r, back))
        relations = reversals(facts, 9, 4, share)
        assert {*zip(*(x.tolist() for x in relations), strict=True)} == right
        assert share > 0.6 or len(right) > 2


def both_ways(n: int) -> list[tuple[str, str, str]]:
    """2 n facts of one relation: undirected edges in both directions."""
    edges = [(f"e{i}", f"e{i + step}") for i in range(n) for step in (1, 2)][:n]
    return [(h, "near", t) for a, b in edges for h, t in ((a, b), (b, a))]


def test_held_out_edges_that_training_has_in_the_other_direction_are_noted() -> None:
    facts = both_ways(60)
    draw = np.random.default_rng(1).permutation(len(facts))
    train, valid, test = ([facts[i] for i in ids] for ids in np.split(draw, [72, 96]))
    links = LinkSet.from_triples(train, valid, test)
    shares = [100 * np.mean([(t, r, h) in train for h, r, t in part]) for part in (valid, test)]
    assert 0 < shares[0] != shares[1] > 0
    (note,) = (note for note in links.notes if "reversed" in note)
    assert says(note, *(f"{share:.1f}" for share in shares), "symmetric", "reversal", "valid",
                "test")  # fmt: skip
    assert "pairs" not in note
    together = LinkSet.from_triples(facts[:80], facts[80:100], facts[100:])
    assert not any("reversed" in note for note in together.notes)


@pytest.mark.parametrize("number", [29, 30])
def test_pairs_of_relations_are_told_from_symmetric_ones(number: int) -> None:
    parents = [(f"p{i}", "parent", f"c{i}") for i in range(number)]
    children = [(t, "child", h) for h, _, t in parents]
    others = [(f"p{i}", "knows", f"c{i + 1}") for i in range(number)]
    links = LinkSet.from_triples([*parents, *children[:-6], *others], [], children[-6:])
    notes = [note for note in links.notes if "reversed" in note]
    assert len(notes) == (number >= 30)
    assert all(says(note, "100.0", "test", "pairs") for note in notes)
    assert not any("symmetric" in note for note in notes)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the published sets")
@pytest.mark.parametrize(
    ("name", "shares"),
    [("FB15k-237", []), ("WN18RR", ["34.5", "33.6"]), ("UMLS", ["1.2", "1.7"]),
     ("Kinship", ["12.9", "11.8"])],
)  # fmt: skip
def test_shares_of_the_published_sets(name: str, shares: list[str]) -> None:
    links = load_links(name, data_dir=DATA, download=False)
    notes = [note for note in links.notes if "reversed" in note]
    assert len(notes) == bool(shares)
    assert all(says(note, *shares, "valid", "test", "symmetric") for note in notes)
    assert not any("pairs" in note for note in notes)
    if shares:  # by a slow loop over facts of relations that are nearly symmetric
        train = {tuple(fact) for fact in links.train.tolist()}
        every = train | {tuple(fact) for part in (links.valid, links.test)
                         for fact in part.tolist()}  # fmt: skip
        back = [(t, r, h) in every for h, r, t in every]
        kinds = np.array([r for _, r, _ in every])
        same = {r for r in range(links.n_relations) if np.mean(np.array(back)[kinds == r]) >= 0.8}
        assert (name == "WN18RR") <= (len(same) == 3)
        for part, share in zip((links.valid, links.test), shares, strict=True):
            reversed_in_train = [r in same and (t, r, h) in train for h, r, t in part.tolist()]
            assert f"{100 * np.mean(reversed_in_train):.1f}" == share
