"""Answers to many questions, by name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import torch

from gcl_hard.links import PARTS
from gcl_hard.links.data import MISSING
from gcl_hard.links.models import LinkContrast

ANSWER_COLUMNS = {
    "query": int, "head": str, "relation": str, "tail": str, "missing": str, "rank": int,
    "score": float, "known": bool,
}  # fmt: skip
QUESTIONS = 4096
"""Questions whose answers are held at a time."""
Rows = list[tuple[Any, ...]]


def answered(
    model: LinkContrast, asked: Sequence[tuple[str, ...]], k: int, known: bool
) -> Iterator[Rows]:
    """Rows of the answers to some questions at a time, in their order."""
    links, facts = model.links, model.links.numbered(asked)
    kinds = (facts == -1).long().argmax(1)
    left_out: dict[Any, Any] = {
        kind: None if known else links.known(MISSING[kind], PARTS) for kind in set(kinds.tolist())
    }
    for numbers in torch.split(torch.arange(len(asked)), QUESTIONS):
        rows: Rows = []
        for kind, answers in left_out.items():
            of_kind = numbers[kinds[numbers] == kind]
            best = model.best(facts[of_kind], MISSING[kind], k=k, known=answers)
            ids, scores = (part.cpu() for part in best)
            row, rank = (scores > -math.inf).nonzero(as_tuple=True)
            filled = facts[of_kind[row]]
            filled[:, kind] = ids[row, rank]
            is_known = links.has(filled).tolist() if known else [False] * len(filled)
            each = zip(of_kind[row].tolist(), filled.tolist(), rank.tolist(),
                       scores[row, rank].numpy(), is_known, strict=True)  # fmt: skip
            rows += (
                (i + 1, links.entities[h], links.relations[r], links.entities[t], MISSING[kind],
                 place + 1, score, mark)
                for i, (h, r, t), place, score, mark in each
            )  # fmt: skip
        yield sorted(rows, key=itemgetter(0))
