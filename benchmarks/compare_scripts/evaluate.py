"""Own encoders through ``gcl_hard.evaluate``, ``load_encoder`` and ``fit``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATv2Conv, global_add_pool

import gcl_hard
from gcl_hard.graphs import InfoGraph, TwoView, embed_graphs, load_graphs


class GAT(nn.Module):
    """One layer that reads edge labels."""

    out_dim = 8

    def __init__(self, n_features: int, edge_dim: int | None) -> None:
        super().__init__()
        self.layer = GATv2Conv(n_features, self.out_dim, edge_dim=edge_dim)

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, edge_attr: Tensor
    ) -> tuple[Tensor, Tensor]:
        nodes = self.layer(x, edge_index, edge_attr).relu()
        return nodes, global_add_pool(nodes, batch)


def main() -> None:
    graphs = load_graphs("MUTAG")
    output: dict[str, Any] = {}
    for protocol in ("inductive", "transductive"):
        done = gcl_hard.evaluate(
            GAT, graphs, ["ucl", "hscl"], protocol=protocol, seeds=2, folds=3, epochs=2,
            baselines=["majority", "untrained", "supervised"], output="results", device="cpu",
            threads=1, progress=False, report=f"{protocol}.md",
        )  # fmt: skip
        done.table.to_csv(f"{protocol}-table.csv", index=False)
        (saved,) = Path("results").glob(f"*_hscl_{protocol}_*seed1.pt")
        encoders = done.encoders("hscl", seed=1)
        loaded = gcl_hard.load_encoder(saved, GAT, fold=len(encoders) - 1)
        output[protocol] = {
            "embeddings": done.embeddings("hscl", seed=1)[-1].tolist(),
            "encoder": embed_graphs(encoders[-1], graphs).tolist(),
            "loaded": embed_graphs(loaded, graphs).tolist(),
        }
    named = gcl_hard.evaluate(
        "gin", "MUTAG", "hscl", beta=[1, 5], select=True, seeds=1, folds=2, epochs=1, dim=8,
        output="results", device="cpu", threads=1, progress=False,
    )  # fmt: skip
    named.table.to_csv("named-table.csv", index=False)
    for wrapped in (InfoGraph, TwoView):
        torch.manual_seed(0)
        model = wrapped(GAT(graphs.n_features, graphs.edge_dim), method="hscl")
        losses = gcl_hard.fit(model, graphs, epochs=2, batch_size=64, lr=0.01, device="cpu")
        output[wrapped.__name__] = {"losses": losses, "embeddings": model.embed(graphs).tolist()}
    Path("found.json").write_text(json.dumps(output), encoding="utf-8")


if __name__ == "__main__":
    main()
