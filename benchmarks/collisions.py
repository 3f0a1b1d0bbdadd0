"""Composition of the hardest negatives: the weight on the anchor's label, and on duplicates.

Run: python benchmarks/collisions.py [--sets MUTAG,ENZYMES,PTC_MR] [--seeds 2] [--epochs 200]
     [--out collisions.csv]

InfoGraph is trained with hucl at β = 1 (JSD, hardness by rank); then the nodes of a batch of 128
graphs are anchors. Weights of q are compared with uniform ones over the same negatives. A duplicate
is another graph whose embedding equals that of the anchor's graph up to rounding: no training makes
the encoder tell the two apart.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from pairs import Table, Values
from torch.nn import functional as F

import gcl_hard
from gcl_hard.graphs import GIN, GraphSet, InfoGraph, load_graphs
from gcl_hard.graphs.models import encode
from gcl_hard.models import evaluating

SETS = "MUTAG,ENZYMES,PTC_MR,IMDB-BINARY,IMDB-MULTI"


def shares(graphs: GraphSet, epochs: int, seed: int) -> dict[str, float]:
    torch.manual_seed(seed)
    model = InfoGraph(GIN(graphs.n_features), method="hucl", beta=1.0)
    gcl_hard.fit(model, graphs, epochs=epochs, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    batch = graphs.batch(torch.randperm(len(graphs), generator=generator)[:128])
    weights = {}
    with evaluating(model), torch.no_grad():
        nodes, z = encode(model.encoder, batch, model.out_dim)
        unit = F.normalize(z.double())
        equal = unit @ unit.T > 1 - 1e-9
        for labelling, labels in (("own label", batch.y), ("duplicates", equal.int().argmax(1))):
            for weighting, beta in (("hardened", 1.0), ("uniform", 0.0)):
                loss = gcl_hard.contrastive_loss("hucl", objective="jsd", beta=beta)
                diagnostics = loss.local_global_with_diagnostics(
                    model.node_head(nodes), model.graph_head(z), batch.batch, labels
                )[1]
                assert diagnostics.own_label_weight is not None
                weights[f"{labelling}, {weighting}"] = diagnostics.own_label_weight.mean().item()
    return weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=SETS, help="data sets")
    parser.add_argument("--seeds", type=int, default=2, help="encoders of each set (2)")
    parser.add_argument("--epochs", type=int, default=200, help="epochs of each (200)")
    parser.add_argument("--out", type=Path, help="CSV file to write")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = Table("collisions")
    for name in arguments.sets.split(","):
        every: Values = {}
        for seed in range(arguments.seeds):
            for metric, share in shares(load_graphs(name), arguments.epochs, seed).items():
                every.setdefault(metric, []).append(share)
        table.add(name, every, unit="share")
        table.write(arguments.out)


if __name__ == "__main__":
    main()
