"""InfoGraph with an encoder of one's own, its embeddings, and their accuracy; nodes of a graph."""

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GATv2Conv, global_add_pool

import gcl_hard
from gcl_hard.evaluation import svm_cross_validation
from gcl_hard.graphs import InfoGraph, load_graphs
from gcl_hard.nodes import GCN, NodeContrast, NodeSet
from tests.extras.absent import refused_command, refused_import


class MyEncoder(nn.Module):
    """One layer of attention."""

    def __init__(self, n_features: int, edge_dim: int) -> None:
        super().__init__()
        self.out_dim, self.conv = 96, GATv2Conv(n_features, 96, edge_dim=edge_dim)

    def forward(
        self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor,
        edge_attr: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        nodes = self.conv(x, edge_index, edge_attr)
        return nodes, global_add_pool(nodes, batch)


graphs = load_graphs("MUTAG")
model = InfoGraph(MyEncoder(graphs.n_features, graphs.edge_dim), method="hscl", beta=1.0)
gcl_hard.fit(model, graphs, epochs=1)
scores = svm_cross_validation(model.embed(graphs), graphs.y, seed=0, n_folds=3)
assert len(scores.folds) == 3

x, ring = torch.randn(40, 8), torch.arange(40)
edges = torch.stack([ring, ring.roll(1)])
nodes = NodeSet.from_graph(Data(x, torch.cat([edges, edges.flip(0)], 1), y=ring % 2), name="ring")
gcl_hard.fit(NodeContrast(GCN(8, 16), method="ucl"), nodes, epochs=1)

refused_import("gcl_hard.evaluate", "bench")
refused_import("gcl_hard.images.ImageContrast", "images")
refused_command("bench", "bench", "--dataset=MUTAG")
try:
    gcl_hard.molecules.from_smiles(["C"])
except gcl_hard.MissingExtraError as error:
    assert "[molecules]" in str(error), error
else:
    raise AssertionError("read molecules without rdkit")
