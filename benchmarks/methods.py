"""The loss of every method beside ucl's: forward and backward of 512 items of 128 dimensions.

Run: python benchmarks/methods.py [--items 512] [--pairs 15] [--device cpu] [--out results.csv]

Contenders take turns in one process, with one thread on a CPU; seconds are CPU time there, and
the whole call on another device. Methods with hard positives get four views, others two.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from pairs import Table, Values, ratios

from gcl_hard import METHODS, ContrastiveLoss, NegativeSampler, contrastive_loss
from gcl_hard.functional.rowwise import RelativeThreshold

DENSE = "ucl, all scores at once"
DIM, CLASSES = 128, 10
HALFWAY = (5, 10)
"""Epoch and number of epochs: schedules have moved."""


def seconds(items: int, rounds: int, device: str) -> Values:
    """Seconds of a step of every method, in turns."""
    generator = torch.Generator().manual_seed(0)
    views = torch.randn(4, items, DIM, generator=generator).to(device)
    y = torch.randint(0, CLASSES, (items,), generator=generator).to(device)
    losses = {name: contrastive_loss(name) for name in METHODS}
    losses["relative threshold"] = ContrastiveLoss(NegativeSampler(hardening=RelativeThreshold()))
    losses[DENSE] = contrastive_loss("ucl", streaming=False)
    measured: Values = {name: [] for name in losses}
    clock = time.process_time if device == "cpu" else time.perf_counter
    for turn in range(rounds + 1):
        for name, loss in losses.items():
            loss.set_epoch(*HALFWAY)
            chosen_views = [
                v.clone().requires_grad_() for v in views[: 4 if loss.takes_items else 2]
            ]
            start = clock()
            loss(chosen_views, labels=y).backward()
            if device != "cpu":
                torch.cuda.synchronize()
            if turn:  # the first is not timed
                measured[name].append(clock() - start)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=512, help="items of a batch (512)")
    parser.add_argument("--pairs", type=int, default=15, help="rounds (15)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--out", type=Path, help="CSV file to write")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    measured = seconds(arguments.items, arguments.pairs, arguments.device)
    table = Table("methods")
    for name, values in measured.items():
        compared = ratios({"loss": values, "ucl": measured["ucl"], DENSE: measured[DENSE]}, [
            ("loss", "ucl"), ("loss", DENSE)
        ])  # fmt: skip
        table.add(name, {"loss": values, **compared})
    table.write(arguments.out)


if __name__ == "__main__":
    main()
