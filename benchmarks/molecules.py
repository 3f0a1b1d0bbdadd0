"""Molecules: parsing, a pre-training step beside the network alone and a usual loader, memory.

Run: python benchmarks/molecules.py [--data-dir DIR] [--n 4096] [--pairs 7] [--out results.csv]

A step is two views of 256 molecules, encoder, loss, gradients and Adam, by one thread. *Network
alone* is encoder and gradients on precomputed views. *Usual* is PyTorch Geometric's ``DataLoader``
over pairs of ``Data``, each augmented separately as in GraphCL, with the same encoder and loss.
Memory is that of a process that opens all of MOSES and takes random batches.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from pairs import Table, ratios, take_turns
from torch import Tensor
from torch.utils.data import Dataset
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import subgraph

from gcl_hard.graphs import TwoView
from gcl_hard.graphs.data import GraphBatch
from gcl_hard.molecules import MoleculeGIN, Molecules, from_smiles, load_molecules

BATCH = 256
AUGMENTATIONS, STRENGTH = ("mask-attributes", "drop-nodes"), 0.2
MEMORY = """
import resource, sys, time, torch
from gcl_hard.molecules import load_molecules
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
molecules = load_molecules("MOSES", data_dir=sys.argv[1] or None).molecules
seconds = time.perf_counter() - start
for ids in torch.randperm(len(molecules)).split(4096)[:100]:
    molecules.batch(ids)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(len(molecules), seconds, before / 1e6, after / 1e6)
"""


class Pairs(Dataset):
    """Two views of each molecule, made one by one."""

    def __init__(self, graphs: list[Data]) -> None:
        self.graphs = graphs

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, i: int) -> tuple[Data, Data]:
        return view(self.graphs[i]), view(self.graphs[i])


def view(graph: Data) -> Data:
    """Mask a fifth of the atoms, then drop another."""
    n = len(graph.x)
    x = graph.x.clone()
    x[torch.randperm(n)[: round(STRENGTH * n)]] = 0
    kept = torch.randperm(n)[round(STRENGTH * n) :].sort().values
    edges, attributes = subgraph(
        kept, graph.edge_index, graph.edge_attr, relabel_nodes=True, num_nodes=n
    )
    return Data(x[kept], edges, attributes)


def model_of() -> tuple[TwoView, torch.optim.Optimizer]:
    """A model and its optimiser, with the same weights each time."""
    torch.manual_seed(0)
    model = TwoView(
        MoleculeGIN(64, 4), method="hucl", augmentations=AUGMENTATIONS, strength=STRENGTH
    )
    return model, torch.optim.Adam(model.parameters(), 1e-3, fused=True)


def update(loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def joined(first: Batch, second: Batch) -> GraphBatch:
    return GraphBatch.of(first).followed_by(GraphBatch.of(second))


def contenders(molecules: Molecules) -> dict[str, Callable[[], None]]:
    """An epoch over the molecules: ours, the network alone, and the usual way."""
    model, optimizer = model_of()
    alone, _ = model_of()
    usual, usual_optimizer = model_of()
    ids = torch.arange(len(molecules)).split(BATCH)
    view_pairs = [
        model.views_of(molecules.batch(batch_ids), torch.Generator()) for batch_ids in ids
    ]
    both = [a.followed_by(b) for a, b in view_pairs]
    graphs = [Data(g.x, g.edge_index, g.edge_attr) for g in molecules]

    def ours() -> None:
        for batch_ids in ids:
            update(model(molecules.batch(batch_ids)), optimizer)

    def network() -> None:
        for pair in both:
            z = alone.project(pair)
            z.backward(torch.ones_like(z))

    def common() -> None:
        loader: Iterator[tuple[Batch, Batch]] = iter(DataLoader(Pairs(graphs), BATCH, shuffle=True))
        for first, second in loader:
            update(usual.loss(usual.project(joined(first, second)).chunk(2)), usual_optimizer)

    return {"pre-training": ours, "network alone": network, "usual": common}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, help="folder with moses/train.csv.gz")
    parser.add_argument("--n", type=int, default=4096, help="molecules of an epoch (4096)")
    parser.add_argument("--pairs", type=int, default=7, help="rounds (7)")
    parser.add_argument("--out", type=Path, help="CSV file to write")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = Table("molecules")
    molecules = load_molecules("MOSES", data_dir=arguments.data_dir, limit=arguments.n).molecules
    texts = [text.decode() for text in molecules.smiles]
    rates = []
    for _ in range(arguments.pairs):
        start = time.process_time()
        from_smiles(texts)
        rates.append(len(texts) / (time.process_time() - start))
    table.add(f"{arguments.n} molecules", {"parsed by one core": rates}, unit="1/s")
    seconds_by_name = take_turns(contenders(molecules), arguments.pairs)
    case = f"an epoch of {arguments.n} molecules"
    table.add(case, seconds_by_name)
    table.add(
        case,
        ratios(seconds_by_name, [("pre-training", "network alone"), ("usual", "pre-training")]),
    )
    table.add(
        case,
        {"pre-training": [arguments.n / value for value in seconds_by_name["pre-training"]]},
        unit="1/s",
    )
    command = [sys.executable, "-c", MEMORY, str(arguments.data_dir or "")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    n, seconds, before, after = map(float, printed.split())
    table.add(f"{n:.0f} molecules, opened", {"seconds": [seconds]})
    memory = {"before": [before], "after 409,600 of them in batches": [after]}
    table.add(f"{n:.0f} molecules, memory", memory, unit="GB")
    table.write(arguments.out)


if __name__ == "__main__":
    main()
