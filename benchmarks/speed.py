"""Training epochs, batches and losses: ours against the common formulation, one thread.

Run: python benchmarks/speed.py [--data-dir DIR] [--pairs 9] [--out results.csv] [--quick]
"""

from __future__ import annotations

import argparse
import copy
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from baseline import data_loader, dense_loss, masks_at_once, masks_by_loop, step_loss
from pairs import Table, Values, ratios, take_turns
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.graphs import GraphBatch, GraphSet, InfoGraph, epoch_batches, load_graphs
from gcl_hard.graphs.protocols import build
from gcl_hard.graphs.settings import GraphConfig

DATASETS = ("MUTAG", "PTC_MR", "ENZYMES", "IMDB-BINARY", "IMDB-MULTI")
METHODS = ("ucl", "hscl")
BATCH_SIZE = 128
LOSS_CALLS = 10


def new_model(method: str, graphs: GraphSet) -> InfoGraph:
    """The model of ``python -m gcl_hard.bench``; the same weights at every call."""
    model = build(GraphConfig(method=method), graphs.n_features, seed=0)
    assert isinstance(model, InfoGraph)
    return model


def our_batches(graphs: GraphSet) -> Callable[[], Iterable[GraphBatch]]:
    """A new epoch of batches at every call."""
    epochs = itertools.count(1)
    return lambda: (
        graphs.batch(index)
        for index in epoch_batches(graphs.n_graphs, BATCH_SIZE, seed=0, epoch=next(epochs))
    )


def epoch_of(
    model: InfoGraph,
    batches: Callable[[], Iterable[GraphBatch]],
    loss: Callable[[InfoGraph, GraphBatch], Tensor],
    *,
    fused_adam: bool = False,
) -> Callable[[], None]:
    """An epoch of training, the same loop whatever makes the batches and the loss."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=fused_adam)

    def epoch() -> None:
        for batch in batches():
            optimizer.zero_grad()
            loss(model, batch).backward()
            optimizer.step()

    return epoch


def check_equal(graphs: GraphSet, method: str) -> None:
    """Refuse to time two different losses."""
    batch = next(iter(our_batches(graphs)()))
    ours = new_model(method, graphs)(batch)
    for fill in (masks_by_loop, masks_at_once):
        common = step_loss(new_model(method, graphs), batch, hardened=method == "hscl", fill=fill)
        torch.testing.assert_close(ours, common, rtol=1e-5, atol=1e-5)


def time_epochs(graphs: GraphSet, method: str, pairs: int) -> Values:
    loader = data_loader(graphs, BATCH_SIZE)
    model, hardened = new_model(method, graphs), method == "hscl"

    def common(fill: Callable[[Tensor, int], tuple[Tensor, Tensor]]) -> Callable[[], None]:
        return epoch_of(
            copy.deepcopy(model),
            lambda: loader,
            lambda model, batch: step_loss(model, batch, hardened=hardened, fill=fill),
        )

    seconds = take_turns(
        {
            "epoch, common": common(masks_by_loop),
            "epoch, common without mask loop": common(masks_at_once),
            "epoch, ours": epoch_of(
                copy.deepcopy(model),
                our_batches(graphs),
                lambda model, batch: model(batch),
                fused_adam=True,
            ),
        },
        pairs,
    )
    common_names = list(seconds)[:2]
    return seconds | ratios(seconds, [(name, "epoch, ours") for name in common_names])


def time_batches(graphs: GraphSet, pairs: int) -> Values:
    """What a step needs before it can multiply nodes by graphs, for an epoch."""
    loader, batches = data_loader(graphs, BATCH_SIZE), our_batches(graphs)
    seconds = take_turns(
        {
            "batches, loader and masks": lambda: [
                masks_by_loop(batch.batch, batch.num_graphs) for batch in loader
            ],
            "batches, loader": lambda: [None for _ in loader],
            "batches, ours": lambda: [None for _ in batches()],
        },
        pairs,
    )
    common_names = list(seconds)[:2]
    return seconds | ratios(seconds, [(name, "batches, ours") for name in common_names])


def time_losses(graphs: GraphSet, method: str, pairs: int) -> Values:
    """Forward and backward of the loss alone, on the heads' outputs of one batch."""
    batch, model = next(iter(our_batches(graphs)())), new_model(method, graphs)
    with torch.no_grad():
        nodes, z = model.encoder(batch.x, batch.edge_index, batch.batch)
        nodes, z = model.node_head(nodes), model.graph_head(z)
    nodes.requires_grad_()
    z.requires_grad_()
    masks = masks_by_loop(batch.batch, batch.n_graphs)
    hardened = method == "hscl"
    labels = (batch.y[batch.batch], batch.y) if hardened else None
    general = copy.deepcopy(model.loss)
    general.fused = False

    def calls(loss: Callable[[], Tensor]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(LOSS_CALLS):
                torch.autograd.grad(loss(), (nodes, z))

        return run

    seconds = take_turns(
        {
            "loss, general": calls(lambda: general.local_global(nodes, z, batch.batch, batch.y)),
            "loss, masks given": calls(
                lambda: dense_loss(
                    nodes, z, masks, beta=1.0 if hardened else None, labels=labels
                )
            ),
            "loss, fused": calls(lambda: model.loss.local_global(nodes, z, batch.batch, batch.y)),
        },
        pairs,
    )  # fmt: skip
    seconds = {name: [value / LOSS_CALLS for value in values] for name, values in seconds.items()}
    return seconds | ratios(seconds, [(name, "loss, fused") for name in list(seconds)[:2]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder with NAME.zip files (GCL_HARD_DATA)")
    parser.add_argument("--pairs", type=int, default=9, help="interleaved runs of each (9)")
    parser.add_argument("--out", type=Path, help="CSV file to write")
    parser.add_argument("--quick", action="store_true", help="MUTAG alone, 3 pairs")
    arguments = parser.parse_args()
    pairs = 3 if arguments.quick else arguments.pairs
    torch.set_num_threads(1)
    table = Table("speed")
    for name in DATASETS[:1] if arguments.quick else DATASETS:
        try:
            graphs = load_graphs(name, data_dir=arguments.data_dir, download=False)
        except InputError:
            print(f"{name:32}left out: neither in the data folder nor in the cache")
            continue
        table.add(name, time_batches(graphs, pairs))
        for method in METHODS:
            check_equal(graphs, method)
            table.add(f"{name} {method}", time_epochs(graphs, method, pairs))
            table.add(f"{name} {method}", time_losses(graphs, method, pairs))
    table.write(arguments.out)


if __name__ == "__main__":
    main()
