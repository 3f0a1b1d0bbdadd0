"""Facts that a set also has in the other direction, such as those of symmetric relations."""

from __future__ import annotations

import torch
from torch import Tensor

SHARE, LEAST = 0.8, 30
"""The least share and number of reversed facts that make two relations reversals."""


def reversed_pairs(facts: Tensor, n_entities: int) -> tuple[Tensor, Tensor]:
    """The facts between the same two entities in opposite directions.

    Args:
        facts: int64 [n, 3], heads, relations and tails.
        n_entities: E.

    Returns:
        The rows of facts (h, r, t), and those of their facts (t, r′, h), int64 [K] both.

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
    different = rows != others  # a self-loop is not its own reverse
    return rows[different], others[different]


def reversals(
    facts: Tensor, n_entities: int, n_relations: int, share: float = SHARE
) -> tuple[Tensor, Tensor]:
    """Pairs of relations whose facts are each other's with heads and tails exchanged.

    Args:
        facts: int64 [n, 3], without repeats.
        n_entities: E.
        n_relations: R.
        share: least share of each relation's facts that have their reverse, and at least 30.

    Returns:
        r and r′, int64 [P] both, each pair in both orders; r = r′ is a symmetric relation.

    Example:
        >>> after = [[i, 0, i + 1] for i in range(40)]
        >>> before = [[t, 1, h] for h, _, t in after]
        >>> reversals(torch.tensor(after + before), 41, 2)
        (tensor([0, 1]), tensor([1, 0]))
    """
    keys = _reversals(facts, reversed_pairs(facts, n_entities), n_relations, share)
    return keys // n_relations, keys % n_relations


def _reversals(
    facts: Tensor, pairs: tuple[Tensor, Tensor], n_relations: int, share: float = SHARE
) -> Tensor:
    """r R + r′ of each pair of reversals, ascending."""
    kinds = facts[:, 1]
    both = kinds[pairs[0]] * n_relations + kinds[pairs[1]]
    keys, number = torch.unique(both, return_counts=True)
    size = torch.bincount(kinds, minlength=n_relations)
    most = torch.maximum(size[keys // n_relations], size[keys % n_relations])
    return keys[(number >= share * most) & (number >= LEAST)]


def reversed_notes(
    train: Tensor, valid: Tensor, test: Tensor, n_entities: int, n_relations: int
) -> list[str]:
    """A sentence on held-out facts whose reverse is in training, if there are any.

    Args:
        train: int64 [n, 3], without repeats.
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
        f"{100 * mask[part].double().mean():.1f} % of {name} by {relations}"
        for relations, mask in (("symmetric relations", symmetric), ("pairs of relations", paired))
        for name, part in held_out.items()
        if mask[part].any()
    ]
    if not shares:
        return []
    return [
        f"reversed facts, which training has the other way round: {', '.join(shares)}; the "
        f"baseline reversal answers by them"
    ]
