"""Answers to many questions, by name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gcl_hard.links.data import MISSING
from gcl_hard.links.models import LinkContrast

QUESTIONS = 4096
"""Questions whose answers are held at a time."""


def answered(
    model: LinkContrast, asked: Sequence[tuple[str, ...]], k: int, known: bool
) -> Iterator[dict[str, NDArray[Any]]]:
    """Columns of the answers to some questions at a time, in their order."""
    links, facts = model.links, model.links.numbered(asked)
    entities, relations = (np.array(x, object) for x in (links.entities, links.relations))
    kinds = (facts == -1).long().argmax(1)
    left_out: dict[Any, Any] = {
        kind: None if known else links.known(MISSING[kind], "test") for kind in set(kinds.tolist())
    }
    for numbers in torch.split(torch.arange(len(asked)), QUESTIONS):
        parts = []
        for kind, answers in left_out.items():
            of_kind = numbers[kinds[numbers] == kind]
            best = model.best(facts[of_kind], MISSING[kind], k=k, known=answers)
            ids, scores = (part.cpu() for part in best)
            row, rank = (scores > -math.inf).nonzero(as_tuple=True)
            filled = facts[of_kind[row]]
            filled[:, kind] = ids[row, rank]
            head, relation, tail = filled.numpy().T
            parts.append({
                "query": of_kind[row] + 1, "head": entities[head],
                "relation": relations[relation], "tail": entities[tail],
                "missing": np.full(len(row), MISSING[kind], object), "rank": rank + 1,
                "score": scores[row, rank],
                "known": links.has(filled) if known else np.zeros(len(row), bool),
            })  # fmt: skip
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        order = columns["query"].argsort(kind="stable")
        yield {name: values[order] for name, values in columns.items()}
