"""Large batches of InfoNCE: our losses, in blocks and dense, beside those of other libraries.

Run: python benchmarks/losses.py [--sizes 512,2048,8192] [--peers-up-to 8192] [--repeats 5]
     [--device cpu] [--executors] [--out results.csv]

Forward and backward of n embeddings of 128 dimensions in 10 classes. Contenders take turns in one
process; seconds are CPU time with one thread, or the whole call on another device. Memory is the
increase of a fresh process's peak by a call (on another device, of its allocator's).
lightly and pytorch-metric-learning are included if they are installed.
--executors compares the ways to compute one loss instead, and replaces their rows in the file: half
the scores (symmetric) with all of them in blocks (streaming), and nodes against graphs under JSD in
one pass (fused) with the dense form.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch
from live_tensors import peak_resident
from pairs import Table, Values, ratios
from torch import Tensor

from gcl_hard import ContrastiveLoss, NegativeSampler, contrastive_loss
from gcl_hard.losses import loss as losses

DIM, CLASSES, GAMMA = 128, 10, 0.5
VIEW = ("ucl", "hucl", "hcl")
REST = "SupCon by admission rest"
CLASS = ("scl", "hscl", "hscl-tau", REST)
NT_XENT = ("lightly NTXentLoss", "pytorch-metric-learning NTXentLoss")
SUP_CON = ("pytorch-metric-learning SupConLoss",)
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def lightly_nt_xent() -> Loss:
    from lightly.loss import NTXentLoss

    loss = NTXentLoss(temperature=GAMMA)
    return lambda z1, z2, y: loss(z1, z2)


def pml_nt_xent() -> Loss:
    from pytorch_metric_learning.losses import NTXentLoss

    loss = NTXentLoss(temperature=GAMMA)
    return lambda z1, z2, y: loss(
        torch.cat([z1, z2]), torch.arange(len(y), device=y.device).repeat(2)
    )


def pml_sup_con() -> Loss:
    from pytorch_metric_learning.losses import SupConLoss

    loss = SupConLoss(temperature=GAMMA)
    return lambda z1, z2, y: loss(torch.cat([z1, z2]), y.repeat(2))


PML_NT_XENT_UP_TO = 512
"""Beyond it pytorch-metric-learning's table of positive pairs and negatives takes 100 GB."""
ONCE_FROM = 32_768
"""Beyond it a single round is timed."""
PEERS = {
    "lightly NTXentLoss": ("lightly", lightly_nt_xent),
    "pytorch-metric-learning NTXentLoss": ("pytorch_metric_learning", pml_nt_xent),
    "pytorch-metric-learning SupConLoss": ("pytorch_metric_learning", pml_sup_con),
}


def loss_named(name: str) -> Loss:
    if name in PEERS:
        return PEERS[name][1]()
    if name == REST:
        return ContrastiveLoss(
            NegativeSampler("rest"), positives="class", weight="kept", reduction="anchors",
            temperature=GAMMA,
        )  # fmt: skip
    method, _, executor = name.partition(" ")
    return contrastive_loss(method, temperature=GAMMA, streaming=executor != "dense")


def inputs(n: int, device: str) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(2, n // 2, DIM, generator=generator)
    y = torch.randint(0, CLASSES, (n // 2,), generator=generator)
    return z[0].to(device), z[1].to(device), y.to(device)


def step(loss: Loss, z1: Tensor, z2: Tensor, y: Tensor) -> None:
    loss(z1.clone().requires_grad_(), z2.clone().requires_grad_(), y).backward()


def seconds(names: list[str], n: int, repeats: int, device: str) -> Values:
    """Measure every contender in turn, after an untimed round on few embeddings."""
    batch, small = inputs(n, device), inputs(256, device)
    losses = {name: loss_named(name) for name in names}
    for loss in losses.values():
        step(loss, *(small if n > 8192 else batch))
    measured: Values = {name: [] for name in names}
    clock = time.process_time if device == "cpu" else time.perf_counter
    for _ in range(repeats):
        for name, loss in losses.items():
            start = clock()
            step(loss, *batch)
            if device != "cpu":
                torch.cuda.synchronize()
            measured[name].append(clock() - start)
    return measured


def megabytes(name: str, n: int, device: str) -> float:
    """MB that a call adds to the peak of this process."""
    torch.set_num_threads(1)
    loss, batch = loss_named(name), inputs(n, device)
    step(loss, *inputs(256, device))
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step(loss, *batch)
        return (torch.cuda.max_memory_allocated() - before) / 1e6
    before = peak_resident()
    step(loss, *batch)
    return peak_resident() - before


def compared(names: list[str]) -> list[tuple[str, str]]:
    """Each of ours with every peer that computes a similar loss, and hscl with scl."""
    pairs = [
        (ours, peer)
        for methods, peers in ((VIEW, NT_XENT), (CLASS, SUP_CON))
        for ours in methods
        for peer in peers
    ]
    return [pair for pair in [*pairs, ("hscl", "scl")] if set(pair) <= set(names)]


GRAPHS = {2_300: 128, 30_000: 512}
"""Nodes of a batch, and its graphs."""


def half_of_all(methods: Sequence[str], n: int, repeats: int) -> Values:
    """CPU seconds of the symmetric and of the streaming executor, in turns."""
    batch, applies = inputs(n, "cpu"), losses.is_symmetric
    ways = {"symmetric": applies, "streaming": lambda pairing, plan: False}
    measured: Values = {f"{method} {way}": [] for method in methods for way in ways}
    for round_ in range(repeats + 1):
        for method in methods:
            loss = contrastive_loss(method, temperature=GAMMA, streaming=True)
            for way, losses.is_symmetric in ways.items():
                start = time.process_time()
                step(loss, *batch)
                if round_:
                    measured[f"{method} {way}"].append(time.process_time() - start)
    losses.is_symmetric = applies
    return measured


def one_pass(methods: Sequence[str], n: int, n_graphs: int, repeats: int) -> Values:
    """CPU seconds of JSD of n nodes against graphs, fused and dense, in turns."""
    generator = torch.Generator().manual_seed(0)
    nodes, graphs = (torch.randn(k, DIM, generator=generator) for k in (n, n_graphs))
    batch = torch.randint(0, n_graphs, (n,), generator=generator).sort().values
    y = torch.randint(0, 2, (n_graphs,), generator=generator)
    measured: Values = {f"{method} {way}": [] for method in methods for way in ("fused", "dense")}
    for round_ in range(repeats + 1):
        for method in methods:
            loss = contrastive_loss(method, objective="jsd")
            for loss.fused in (True, False):
                leaves = [z.clone().requires_grad_() for z in (nodes, graphs)]
                start = time.process_time()
                loss.local_global(*leaves, batch, y).backward()
                if round_:
                    way = "fused" if loss.fused else "dense"
                    measured[f"{method} {way}"].append(time.process_time() - start)
    return measured


def executors(table: Table, repeats: int) -> None:
    """Add the speed-up of each executor over its substitute."""
    methods = ("ucl", "hcl")
    for n in (1024, 2048, 4096, 8192):
        measured = half_of_all(methods, n, repeats)
        pairs = [(f"{method} streaming", f"{method} symmetric") for method in methods]
        table.add(f"executors, n={n}", ratios(measured, pairs))
    methods = ("ucl", "hcl", "hscl")
    for n, n_graphs in GRAPHS.items():
        measured = one_pass(methods, n, n_graphs, repeats)
        pairs = [(f"{method} dense", f"{method} fused") for method in methods]
        table.add(f"executors, {n} nodes, {n_graphs} graphs", ratios(measured, pairs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="512,2048,8192", help="embeddings in a batch")
    parser.add_argument("--peers-up-to", type=int, default=8192, help="largest size of n² losses")
    parser.add_argument("--repeats", type=int, default=5, help="rounds at each size (5)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--executors", action="store_true", help="compare ways to compute a loss")
    parser.add_argument("--out", type=Path, help="CSV file to write")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.executors:
        table = Table("losses")
        if arguments.out and arguments.out.exists():
            with arguments.out.open(newline="") as file:
                rows = [*csv.reader(file)][1:]
            table.rows += [row for row in rows if not row[1].startswith("executors")]
        executors(table, arguments.repeats)
        table.write(arguments.out)
        return
    peers = [name for name, (module, _) in PEERS.items() if importlib.util.find_spec(module)]
    table = Table("losses", arguments)
    for n in table.each(map(int, arguments.sizes.split(","))):
        names = [*VIEW, *CLASS]
        if n <= arguments.peers_up_to:
            names += ["ucl dense", "hscl dense", *peers]
        if n > PML_NT_XENT_UP_TO:
            names = [name for name in names if name != NT_XENT[1]]
        repeats = arguments.repeats if n <= ONCE_FROM else 1
        measured = seconds(names, n, repeats, arguments.device)
        table.add(f"n={n}", measured)
        table.add(f"n={n}", ratios(measured, compared(names)))
        for name in names:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
                added = fresh.submit(megabytes, name, n, arguments.device).result()
            table.add(f"n={n}, memory", {name: [added]}, unit="MB")
    table.write(arguments.out)


if __name__ == "__main__":
    main()
