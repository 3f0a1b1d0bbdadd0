"""Contrast between nodes: the loss beside GRACE's dense one, steps, and a random graph by size.

Run: python benchmarks/nodes.py [--parts loss,step,scale,drawn] [--repeats 3] [--out results.csv]

Every measurement is a process of its own, with one thread; seconds are CPU time, memory is the
increase of the process's peak. Loss: forward and backward of two views of n nodes of 128
dimensions. Step: views, a GCN, the loss and Adam, on random graphs of the sizes of Coauthor CS and
Physics. Scale: random graphs of N nodes, 10 N edges and 64 features, by --neighbours 15,10 and by
--anchors. Drawn: distance of embeddings of 100 nodes of CS (in GCL_HARD_DATA) by an untrained
encoder from those in the whole graph, for one draw of neighbours, and for the mean of 200 draws:
the bias.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from live_tensors import peak_resident
from pairs import Table, Values, ratios
from torch import Tensor, nn

from gcl_hard import contrastive_loss
from gcl_hard.graphs.sparse import csr
from gcl_hard.nodes import (
    GCN,
    GraphSAGE,
    Neighbourhoods,
    NodeBatch,
    NodeContrast,
    embed_nodes,
    load_nodes,
)
from gcl_hard.nodes.views import DegreesOf

DIM, GAMMA = 128, 0.4
NODES = {"Cora": 2708, "Photo": 7650, "CS": 18_333, "Physics": 34_493}
DENSE_BYTES = 8
"""Least number of n × n float matrices of the dense loss; it is skipped beyond ``MEMORY``."""
MEMORY = 20e9
STEPS = {  # nodes, edges, features, entries that are not 0
    "CS": (18_333, 163_788, 6805, 1_092_079),
    "Physics": (34_493, 495_924, 8415, 1_140_000),
}
WHOLE = (("CS", 1000), ("CS", None), ("Physics", 1000))
SIZES = (100_000, 300_000, 1_000_000)
DRAWN = ((1_000_000, 1_000_000), (15, 10), (5, 5))


def grace_dense(z1: Tensor, z2: Tensor) -> Tensor:
    """GRACE's objective as whole matrices: similarities within a view and between both."""
    a, b = nn.functional.normalize(z1), nn.functional.normalize(z2)

    def half(view: Tensor, other: Tensor) -> Tensor:
        within = torch.exp(view @ view.T / GAMMA)
        between = torch.exp(view @ other.T / GAMMA)
        rest = within.sum(1) + between.sum(1) - within.diagonal()
        return -torch.log(between.diagonal() / rest)

    return (half(a, b) + half(b, a)).mean() / 2


def loss_named(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    if name == "GRACE dense":
        return grace_dense
    return contrastive_loss(name, temperature=GAMMA, reduction="anchors")


def measured_loss(name: str, n: int) -> tuple[float, float]:
    """CPU seconds and MB of a forward and backward pass."""
    torch.set_num_threads(1)
    loss = loss_named(name)
    generator = torch.Generator().manual_seed(0)
    for size in (64, n):
        z = torch.randn(2, size, DIM, generator=generator).requires_grad_()
        before, start = peak_resident(), time.process_time()
        loss(z[0], z[1]).backward()
    return time.process_time() - start, peak_resident() - before


def random_graph(n: int, n_edges: int, n_features: int, entries: int | None) -> NodeBatch:
    """A random graph with both directions of each edge; sparse features of ones, or dense ones."""
    draws = np.random.default_rng(0)
    first = draws.integers(n, size=n_edges)
    ends = np.stack([first, (first + draws.integers(1, n, size=n_edges)) % n])  # no self-loops
    edges = torch.from_numpy(np.concatenate([ends, ends[::-1]], 1))
    if entries is None:
        return NodeBatch(torch.randn(n, n_features), edges)
    per_row = entries // n
    columns = torch.from_numpy(draws.integers(n_features, size=(n, per_row))).sort(1).values
    starts = torch.arange(n + 1) * per_row
    values = torch.full((n * per_row,), 1 / per_row)
    return NodeBatch(csr(starts, columns.flatten(), values, (n, n_features)), edges)


def measured_step(name: str, anchors: int | None, steps: int) -> tuple[float, float]:
    """CPU seconds of a step, and MB added after the graph has been made."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    graph = random_graph(*STEPS[name])
    before = peak_resident()
    model = NodeContrast(GCN(graph.x.shape[1], dim=256), method="hucl", anchors=anchors)
    return seconds_of(model, [graph] * (steps + 1)), peak_resident() - before


def seconds_of(model: NodeContrast, batches: list[NodeBatch]) -> float:
    """CPU seconds of a step, without the first."""
    optimiser = torch.optim.Adam(model.parameters(), fused=True)
    start = 0.0
    for number, batch in enumerate(batches):
        if number == 1:
            start = time.process_time()
        optimiser.zero_grad()
        model(batch).backward()
        optimiser.step()
    return (time.process_time() - start) / (len(batches) - 1)


def measured_scale(contender: str, n: int) -> tuple[float, float, float]:
    """CPU seconds of a step, nodes a second, and MB that the process adds to the graph."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    graph = random_graph(n, 10 * n, 64, None)
    before = peak_resident()
    model = NodeContrast(
        GCN(64, dim=64), method="hucl", anchors=None if contender[0] == "n" else 500
    )
    if contender == "anchors":
        seconds = seconds_of(model, [graph] * 2)
        return seconds, n / seconds, peak_resident() - before
    batches_of_epoch = Neighbourhoods(graph, (15, 10)).batches(1024)(1)  # sorts the edges, once
    start, batches = time.process_time(), []
    for _, batch in zip(range(6), batches_of_epoch, strict=False):
        batches.append(batch)
    sampling = (time.process_time() - start) / 6
    seconds = seconds_of(model, batches) + sampling
    return seconds, 1024 / seconds, peak_resident() - before


def measured_parts(sage: bool, degrees: DegreesOf, sizes: tuple[int, int]) -> tuple[float, float]:
    """Relative difference of a draw, and of the mean of all draws."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    graph, draws = load_nodes("CS").normalised(), np.random.default_rng(0)
    encoder = (GraphSAGE if sage else GCN)(graph.n_features, dim=128)
    ids = draws.permutation(graph.n_nodes)[:100]
    whole = embed_nodes(encoder, graph)[ids]
    parts, number = Neighbourhoods(graph, sizes, degrees=degrees), 200 if max(sizes) < 100 else 1
    sampled = [embed_nodes(encoder, parts.around(ids, draws))[:100] for _ in range(number)]
    length = float(np.linalg.norm(whole))
    return tuple(
        float(np.linalg.norm(z - whole)) / length for z in (sampled[0], np.mean(sampled, 0))
    )


def alone(call: Callable[..., tuple[float, ...]], *arguments: object) -> tuple[float, ...]:
    """Result of a call in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(call, *arguments).result()


def compare_losses(table: Table, repeats: int) -> None:
    for name, n in NODES.items():
        names = ["ucl", "hucl"]
        if DENSE_BYTES * 4 * n * n < MEMORY:
            names.append("GRACE dense")
        seconds: Values = {contender: [] for contender in names}
        memory: Values = {contender: [] for contender in names}
        for _ in range(repeats):
            for contender in names:
                spent, added = alone(measured_loss, contender, n)
                seconds[contender].append(spent)
                memory[contender].append(added)
        table.add(f"{name}, n={n}", seconds)
        if "GRACE dense" in names:
            pairs = [("GRACE dense", contender) for contender in names[:2]]
            table.add(f"{name}, n={n}", ratios(seconds, pairs))
        table.add(f"{name}, n={n}, memory", memory, unit="MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="loss,step,scale")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="CSV file to write")
    arguments = parser.parse_args()
    table = Table("nodes", arguments)
    for part in table.each(arguments.parts.split(",")):
        if part == "loss":
            compare_losses(table, arguments.repeats)
        for name, anchors in WHOLE if part == "step" else ():
            steps = 1 if anchors is None else 2
            measurements = [
                alone(measured_step, name, anchors, steps) for _ in range(arguments.repeats)
            ]
            seconds, memory = map(list, zip(*measurements, strict=True))
            case = f"{name}, a step, {'all' if anchors is None else anchors} anchors"
            table.add(case, {"seconds": seconds})
            table.add(case, {"memory": memory}, unit="MB")
        for contender in ("neighbours", "anchors") if part == "scale" else ():
            for n in SIZES:
                seconds, rate, memory = alone(measured_scale, contender, n)
                table.add(f"{contender}, N={n}", {"seconds of a step": [seconds]})
                table.add(f"{contender}, N={n}", {"nodes per second": [rate]}, unit="1/s")
                table.add(f"{contender}, N={n}", {"memory": [memory]}, unit="MB")
        for sage in (False, True) if part == "drawn" else ():
            for degrees, sizes in product(get_args(DegreesOf), DRAWN):
                once, bias = alone(measured_parts, sage, degrees, sizes)
                case = f"{'sage' if sage else 'gcn'}, degrees of {degrees}, {sizes[0]},{sizes[1]}"
                table.add(case, {"one draw": [100 * once]}, unit="%")
                table.add(case, {"mean of draws": [100 * bias]}, unit="%")
    table.write(arguments.out)


if __name__ == "__main__":
    main()
