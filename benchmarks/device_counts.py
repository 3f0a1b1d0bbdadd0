"""Requests of a training step to a GPU, counted on a pretended one.

Run: python -m benchmarks.device_counts [--out counts.csv]

Launches, waits of the host and copies to the device per step, by workload: the requests of two more
epochs, divided by their steps. Launches are operations of PyTorch, some of which start several
kernels.
"""

from __future__ import annotations

import argparse
import csv
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gcl_hard import contrastive_loss, fit
from gcl_hard.graphs import GIN, Ensemble, InfoGraph, TwoView, load
from gcl_hard.images import ImageContrast, Split, ViewPairs, ViewRecipe, Views
from gcl_hard.losses.queue import Queue
from gcl_hard.training.ensemble import train_ensemble
from gcl_hard.training.loop import Optimisation
from tests.devices.pretended import Record, pretended

GPU = "cuda"
Run = Callable[[int], object]
SETTINGS: list[dict[str, Any]] = [
    {"method": "ucl"}, *({"method": "hucl", "beta": beta} for beta in (1.0, 2.0, 10.0)),
    {"method": "scl"}, *({"method": "hscl", "beta": beta} for beta in (1.0, 2.0, 10.0)),
]  # fmt: skip


def ensemble(kind: Any, n_models: int) -> Run:
    """Trains models on MUTAG, two steps an epoch."""
    graphs = load("MUTAG", download=False)
    chosen = sorted((SETTINGS * n_models)[:n_models], key=str) if n_models > 1 else SETTINGS[5:6]

    def run(epochs: int) -> None:
        models = [kind(GIN(graphs.n_features), **options).to(GPU) for options in chosen]
        train_ensemble(Ensemble(models, graphs.to(GPU)), Optimisation(epochs=epochs))

    return run


def loss(method: str, n: int) -> Run:
    """Takes a loss and its gradient, twice an epoch."""
    drawn = torch.Generator().manual_seed(0)
    z = [torch.randn(n, 16, generator=drawn) for _ in range(2)]
    y = torch.arange(n) % 5

    def run(epochs: int) -> None:
        contrastive = contrastive_loss(method).to(GPU)
        leaves, labels = [view.to(GPU).requires_grad_() for view in z], y.to(GPU)
        for _ in range(2 * epochs):
            contrastive(leaves, labels=labels).backward()

    return run


def images(*, queue: bool) -> Run:
    """Trains a linear encoder, two steps an epoch: counts the work around the network."""
    drawn = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (64, 3, 8, 8), generator=drawn, dtype=torch.uint8)
    split = Split(pixels, torch.arange(64) % 4)
    views = Views(ViewRecipe(), size=8, mean=(0.5,) * 3, std=(0.5,) * 3)

    def run(epochs: int) -> None:
        more: dict[str, Any] = {"momentum": 0.9, "queue": Queue(64, 8)} if queue else {}
        encoder = nn.Sequential(nn.Flatten(), nn.Linear(192, 8))
        model = ImageContrast(encoder, 8, method="hscl", head=nn.Linear(8, 8), **more)
        pairs = ViewPairs(split.to(GPU), views.to(GPU), batch_size=32, device=GPU)
        fit(model, pairs, epochs=epochs, lr=0.01, device=GPU)

    return run


def workloads() -> Iterator[tuple[str, Run]]:
    """Workloads by name."""
    for n in (1, 8, 64):
        yield f"ensemble of {n}, InfoGraph", ensemble(InfoGraph, n)
    for n in (1, 8, 64):
        yield f"ensemble of {n}, two views", ensemble(TwoView, n)
    for method, n in (("ucl", 512), ("hscl", 512), ("hscl", 3000), ("ot", 256), ("spacl", 256)):
        yield f"loss {method}, {2 * n} embeddings", loss(method, n)
    yield "images, linear encoder", images(queue=False)
    yield "images, queue and momentum encoder", images(queue=True)


def counts(run: Run) -> dict[str, float]:
    """Requests of a step."""
    records = []
    for epochs in (1, 3):
        torch.manual_seed(0)
        with pretended() as record:
            run(epochs)
        records.append(Counter(record))
    asked, steps = Record((records[1] - records[0]).elements()), 4
    moved = Counter(event.operation for event in asked if event.kind == "to device")
    return {
        "launches": asked.count("launch") / steps, "waits": asked.count("wait") / steps,
        "copies, pinned": moved["pinned"] / steps,
        "copies, others": (moved["pageable"] + moved["index"]) / steps,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [{"workload": name, **counts(run)} for name, run in workloads()]
    for file in (sys.stdout, *([arguments.out.open("w")] if arguments.out else [])):
        writer = csv.DictWriter(file, [*lines[0]], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main()
