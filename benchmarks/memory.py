"""Memory of training steps: the fused loss, the general one and the common formulation.

Run: python benchmarks/memory.py [--data-dir DIR] [--dataset IMDB-MULTI] [--repeats 3]
     [--out results.csv]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch
from baseline import data_loader, dense_loss, masks_by_loop, step_loss
from live_tensors import LiveTensors, peak_resident
from pairs import Table
from speed import BATCH_SIZE, new_model, our_batches
from torch import Tensor

from gcl_hard.graphs import GraphBatch, GraphSet, InfoGraph, load_graphs

METHOD = "hscl"
CASES = ("fused", "general", "common")
MB = 1e6


def loss_of(case: str, model: InfoGraph) -> Callable[[GraphBatch], Tensor]:
    if case == "common":
        return lambda batch: step_loss(model, batch, hardened=True)
    model.loss.fused = case == "fused"
    return model


def loss_alone(case: str, model: InfoGraph, batch: GraphBatch) -> LiveTensors:
    """Forward and backward from the heads' outputs, where all tensors that large are N × G."""
    with torch.no_grad():
        nodes, z = model.encoder(batch.x, batch.edge_index, batch.batch)
        nodes, z = model.node_head(nodes), model.graph_head(z)
    nodes.requires_grad_()
    z.requires_grad_()
    live = LiveTensors(large=len(nodes) * len(z))
    with live:
        if case == "common":
            masks = masks_by_loop(batch.batch, len(z))
            labels = (batch.y[batch.batch], batch.y)
            loss = dense_loss(nodes, z, masks, beta=1.0, labels=labels)
        else:
            loss = model.loss.local_global(nodes, z, batch.batch, batch.y)
        loss.backward()
    return live


def measure(case: str, graphs: GraphSet) -> dict[str, float]:
    """One case, in a fresh process: an epoch for resident memory, then one counted step."""
    torch.set_num_threads(1)
    model = new_model(METHOD, graphs)
    loss = loss_of(case, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    batches = data_loader(graphs, BATCH_SIZE) if case == "common" else our_batches(graphs)()

    def step(batch: GraphBatch) -> None:
        optimizer.zero_grad()
        loss(batch).backward()
        optimizer.step()

    before = peak_resident()
    for batch in batches:
        step(batch)
    after = peak_resident()
    batch = next(iter(our_batches(graphs)()))
    optimizer.zero_grad()
    with LiveTensors(large=len(batch.x) * batch.n_graphs) as live:
        step(batch)
    alone = loss_alone(case, model, batch)
    return {
        "step, peak of tensors": live.peak_bytes / MB,
        "loss, peak of tensors": alone.peak_bytes / MB,
        "loss, live N x G tensors": alone.peak_large,
        "process, resident before training": before,
        "process, peak resident": after,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder with NAME.zip files (GCL_HARD_DATA)")
    parser.add_argument("--dataset", default="IMDB-MULTI", help="a TU data set (IMDB-MULTI)")
    parser.add_argument("--repeats", type=int, default=3, help="processes of each case (3)")
    parser.add_argument("--out", type=Path, help="CSV file to write")
    arguments = parser.parse_args()
    graphs = load_graphs(arguments.dataset, data_dir=arguments.data_dir, download=False)
    batch = next(iter(our_batches(graphs)()))
    n, g = len(batch.x), batch.n_graphs
    print(f"one batch: N={n} nodes, G={g} graphs; N x G in float32 is {4 * n * g / MB:.3f} MB")
    table = Table("memory")
    for case in CASES:
        measured = []
        for _ in range(arguments.repeats):
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
                measured.append(fresh.submit(measure, case, graphs).result())
        columns = {metric: [run[metric] for run in measured] for metric in measured[0]}
        tensors = "loss, live N x G tensors"
        name = f"{graphs.name} {METHOD} {case}"
        table.add(name, {tensors: columns.pop(tensors)}, unit="tensors")
        table.add(name, columns, unit="MB")
    table.write(arguments.out)


if __name__ == "__main__":
    main()
