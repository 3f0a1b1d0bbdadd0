"""Searches through ``gcl_hard.study``, on a named set and on the user's own graphs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, global_add_pool

from gcl_hard import study


class GCN(nn.Module):
    """A GCN whose width is searched."""

    def __init__(self, n_features: int, width: int) -> None:
        super().__init__()
        self.layer = GCNConv(n_features, width)
        self.out_dim = width

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        nodes = self.layer(x, edge_index).relu()
        return nodes, global_add_pool(nodes, batch)


def rings(count: int) -> list[Data]:
    """Rings of 4 to 9 nodes; the odd ones are a class, and every label appears on some nodes."""
    graphs = []
    for i in range(count):
        size = 4 + i % 6
        around = torch.arange(size)
        edges = torch.stack([around, (around + 1) % size])
        x = torch.eye(3)[(around + i // 6) % 3]
        graphs.append(Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], 1), y=size % 2))
    return graphs


def main() -> None:
    usual: dict[str, Any] = {"epochs": 2, "device": "cpu", "threads": 1, "progress": False}
    numbers: list[int] = []
    custom_result = study(
        rings(48), "hscl", encoder=GCN, trials=4, sampler="random", ensemble_size=1, output="own",
        space={"encoder.width": [4, 8], "beta": (0.5, 4.0), "lr": (1e-3, 1e-1)},
        callbacks=[lambda _, trial: numbers.append(trial.number)], **usual,
    )  # fmt: skip
    named = study(
        "MUTAG", "hscl-tau", trials=4, outer_folds=2, inner_folds=2, dim=8, ensemble_size=1, seed=1,
        output="named", report="named.md", **usual,
    )  # fmt: skip
    output: dict[str, Any] = {
        name: {"inner": result.inner, "outer": result.outer, "optimism": result.optimism}
        for name, result in (("own", custom_result), ("named", named))
    }
    again = study(
        "MUTAG", "hscl-tau", trials=5, outer_folds=2, inner_folds=2, dim=8, ensemble_size=1, seed=1,
        output="named", **usual,
    )  # fmt: skip
    output |= {"again": {"inner": again.inner, "outer": again.outer}, "told": numbers}
    Path("found.json").write_text(json.dumps(output), encoding="utf-8")


if __name__ == "__main__":
    main()
