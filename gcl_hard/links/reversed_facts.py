"""Facts that a set has the other way round, such as those of symmetric relations."""

from __future__ import annotations

import torch
from torch import Tensor

SHARE, LEAST = 0.8, 30
"""The share of the facts of each of two relations, and how many, that make them reversals."""


def reversed_pairs(facts: Tensor, n_entities: int) -> tuple[Tensor, Tensor]:
    """The facts between the same two entities in opposite directions.

    Args:
        facts: int64 [n, 3], heads, relations and tails.
        n_entities: E.

    Returns:
        The rows of facts (h, r, t), and of the facts (t, r′, h) of each, int64 [K] both.

    Example:
        >>> reversed_pairs(torch.tensor([[0, 0, 1], [1, 1, 0], [1, 0, 2]]), 3)
        (tensor([0, 1]), tensor([1, 0]))
    """
    head, _, tail = facts.unbind(1)
    ends, order = (head * n_entities + tail).sort()
    back = tail * n_entities + head
    begin = torch.searchsorted(ends, back)
    number = torch.searchsorted(ends, back, right=True) - begin
    rows = torch.repeat_interleave(number)
    before = number.cumsum(0) - number
    others = order[torch.arange(len(rows), device=rows.device) + (begin - before)[rows]]
    different = rows != others  # a fact of an entity with itself is not its own reverse
    return rows[different], others[different]


def reversals(
    facts: Tensor, n_entities: int, n_relations: int, share: float = SHARE
) -> tuple[Tensor, Tensor]:
    """Relations whose facts are those of each other with heads and tails exchanged.

    Args:
        facts: int64 [n, 3], different ones.
        n_entities: E.
        n_relations: R.
        share: how many of the facts of each have the other, at least; and 30 of them.

    Returns:
        r and r′, int64 [P] both, each pair in both orders; r = r′ is a symmetric relation.

    Example:
        >>> next_one = [[i, 0, i + 1] for i in range(40)]
        >>> before = [[t, 1, h] for h, _, t in next_one]
        >>> reversals(torch.tensor(next_one + before), 41, 2)
        (tensor([0, 1]), tensor([1, 0]))
    """
    keys = _reversals(facts, reversed_pairs(facts, n_entities), n_relations, share)
    return keys // n_relations, keys % n_relations


def _reversals(
    facts: Tensor, pairs: tuple[Tensor, Tensor], n_relations: int, share: float = SHARE
) -> Tensor:
    """r R + r′ of the relations that are reversals, ascending."""
    kinds = facts[:, 1]
    both = kinds[pairs[0]] * n_relations + kinds[pairs[1]]
    keys, number = torch.unique(both, return_counts=True)
    size = torch.bincount(kinds, minlength=n_relations)
    most = torch.maximum(size[keys // n_relations], size[keys % n_relations])
    kept: Tensor = keys[(number >= share * most) & (number >= LEAST)]
    return kept


def reversed_notes(
    train: Tensor, valid: Tensor, test: Tensor, n_entities: int, n_relations: int
) -> list[str]:
    """A sentence on the held-out facts that training has the other way round, if there are any.

    Args:
        train: int64 [n, 3], different facts.
        valid: likewise.
        test: likewise.
        n_entities: E.
        n_relations: R.
    """
    facts = torch.cat([train, valid, test])
    rows, others = pairs = reversed_pairs(facts, n_entities)
    kinds, back = facts[rows, 1], facts[others, 1]
    counted = torch.isin(kinds * n_relations + back, _reversals(facts, pairs, n_relations))
    counted &= (rows >= len(train)) & (others < len(train))
    symmetric, paired = torch.zeros(2, len(facts), dtype=torch.bool)
    symmetric[rows[counted & (kinds == back)]] = True
    paired[rows[counted]] = True
    paired &= ~symmetric
    held_out = {"valid": slice(len(train), len(train) + len(valid))}
    held_out["test"] = slice(len(train) + len(valid), None)
    shares = [
        f"{100 * of[part].double().mean():.1f} % of {name} by {relations}"
        for relations, of in (("symmetric relations", symmetric), ("pairs of relations", paired))
        for name, part in held_out.items()
        if of[part].any()
    ]
    if not shares:
        return []
    return [
        f"reversed facts, which training has the other way round: {', '.join(shares)}; the "
        f"baseline reversal answers by them"
    ]
