"""What the hardest negatives are: how much of q lies on the anchor's own label, and on duplicates.

Run: python benchmarks/collisions.py [--sets MUTAG,PTC_MR] [--beta 1,2] [--out collisions.csv]

InfoGraph is trained with hucl (JSD, hardness by rank); then the nodes of one batch of 128 graphs
are the anchors. A duplicate is a graph other than the anchor's whose embedding equals that of the
anchor's up to rounding: no encoder of this kind tells the two apart.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from pairs import Table
from torch.nn import functional as F

import gcl_hard
from gcl_hard.functional.labels import relation
from gcl_hard.graphs import GIN, GraphSet, InfoGraph, load
from gcl_hard.models import evaluating


def measure(graphs: GraphSet, beta: float, epochs: int, seed: int) -> dict[str, list[float]]:
    """Shares of q on the own label and on duplicates, hardened and uniform, and effective ones."""
    torch.manual_seed(seed)
    model = InfoGraph(GIN(graphs.n_features), method="hucl", beta=beta)
    gcl_hard.fit(model, graphs, epochs=epochs, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    batch = graphs.batch(torch.randperm(len(graphs), generator=generator)[:128])
    found: dict[str, list[float]] = {}
    with evaluating(model), torch.no_grad():
        nodes, wholes = model.encoder(batch.x, batch.edge_index, batch.batch)
        near = F.normalize(wholes.double())
        number = torch.arange(len(near)).masked_scatter(torch.zeros(len(near)) > 0, near[:0, 0])
        same = near @ near.T > 1 - 1e-9
        number = same.int().argmax(1)  # duplicates have the number of the first of them
        heads = model.local_head(nodes), model.global_head(wholes)
        for name, labels in (("own label", batch.y), ("duplicates", number)):
            for how in ("hardened", "uniform"):
                loss = gcl_hard.contrastive_loss(
                    "hucl", objective="jsd", beta=beta if how == "hardened" else 0.0
                )
                seen = loss.local_global_with_diagnostics(*heads, batch.batch, labels)[1]
                assert seen.own_label_weight is not None
                found[f"{name}, {how}"] = [seen.own_label_weight.mean().item()]
        found["effective"] = [seen.effective_negatives.mean().item()]
    return found
