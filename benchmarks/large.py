"""Graphs larger than usual, once: training, ranks and embeddings, with time and peak memory.

Run: python benchmarks/large.py [--parts links,nodes] [--out benchmarks/results/large.csv]

One thread, a fresh process for each size, CPU seconds; memory is the highest resident one so far,
the set included. Links: random facts, two for each of up to 5,000,000 entities; DistMult of 32
dimensions with gradients of a batch's rows, steps of 4,096 queries and 512 candidates; filtered
ranks of 500 test facts, heads and tails; the ten best answers to 500 questions. Nodes: random
graphs of up to 1,000,000 nodes with ten edges and 64 features each; GCN of 64 dimensions, steps of
1,024 nodes with 15 and 10 drawn neighbours; embeddings of all nodes of the whole graph.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from live_tensors import peak_resident
from nodes import alone, random_graph
from pairs import Table

from gcl_hard.links import DistMult, LinkContrast, LinkSet
from gcl_hard.links.experiment import ranks
from gcl_hard.nodes import GCN, Neighbourhoods, NodeContrast, embed_nodes
from gcl_hard.training.loop import Optimisation, sparse_adam, train

RELATIONS, TEST, STEPS = 20, 500, 20
Stages = tuple[tuple[str, float, float], ...]
"""Name, CPU seconds and MB of each stage."""


class Clock:
    """CPU seconds and peak memory of stages."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, float, float]] = []

    def __call__(self, name: str, call: Callable[[], object]) -> object:
        start = time.process_time()
        result = call()
        self.stages.append((name, time.process_time() - start, peak_resident()))
        return result


def random_links(n: int) -> LinkSet:
    """Random facts between n entities, two for each; a few to test on."""
    draws = np.random.default_rng(0)
    facts = np.stack([draws.integers(size, size=2 * n) for size in (n, RELATIONS, n)], 1)
    different = torch.from_numpy(draws.permutation(np.unique(facts, axis=0)))
    names = tuple(map(str, range(n))), tuple(map(str, range(RELATIONS)))
    return LinkSet(different[TEST:], different[:0], different[:TEST], *names)


def of_links(n: int) -> Stages:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    clock = Clock()
    links = clock("the set", lambda: random_links(n))
    scorer = DistMult(n, RELATIONS, 32, sparse=True)
    model = LinkContrast(scorer, links, method="hucl", temperature=2.0, candidates=512)
    batches = links.batches(4096)
    steps = Optimisation(epochs=1, optimizer=sparse_adam)
    clock(f"fit, {STEPS} steps of 4,096 queries",
          lambda: train(model, lambda epoch: islice(batches(epoch), STEPS), steps))  # fmt: skip
    clock(f"filtered ranks of {2 * TEST:,} questions", lambda: ranks(scorer, links, "test"))
    questions = links.test.clone()
    questions[:, 2] = -1
    known = links.known("tail", "test")
    clock(f"ten best answers to {TEST} questions",
          lambda: model.best(questions, "tail", k=10, known=known))  # fmt: skip
    return tuple(clock.stages)


def of_nodes(n: int) -> Stages:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    clock = Clock()
    graph = clock("the graph", lambda: random_graph(n, 10 * n, 64, None))
    model = NodeContrast(GCN(64, dim=64), method="hucl")
    drawn = clock("sorting the edges", lambda: Neighbourhoods(graph, (15, 10)))
    batches = drawn.batches(1024)
    steps = Optimisation(epochs=1)
    clock(f"fit, {STEPS} steps of 1,024 nodes",
          lambda: train(model, lambda epoch: islice(batches(epoch), STEPS), steps))  # fmt: skip
    clock("embeddings of all nodes", lambda: embed_nodes(model.encoder, graph))
    return tuple(clock.stages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="links,nodes", help="links, nodes or both")
    parser.add_argument("--sizes", help="numbers of entities or nodes, in place of the usual ones")
    parser.add_argument("--out", type=Path, help="CSV file to write")
    arguments = parser.parse_args()
    table = Table("large", arguments)
    for part in table.each(arguments.parts.split(",")):
        measure, sizes = SIZES[part]
        for n in map(int, arguments.sizes.split(",")) if arguments.sizes else sizes:
            for name, seconds, megabytes in alone(measure, n):
                table.add(f"{part}, {n:,}, {name}", {"seconds": [seconds]})
                table.add(f"{part}, {n:,}, {name}", {"memory": [megabytes]}, unit="MB")
    table.write(arguments.out)


SIZES: dict[str, tuple[Callable[[int], Stages], tuple[int, ...]]] = {
    "links": (of_links, (50_000, 500_000, 5_000_000)),
    "nodes": (of_nodes, (10_000, 100_000, 1_000_000)),
}

if __name__ == "__main__":
    main()
