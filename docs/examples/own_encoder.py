"""A graph attention network (GAT) as encoder: checked, and scored under protocol inductive."""

from torch import nn
from torch_geometric.nn import GATv2Conv, global_mean_pool

from gcl_hard import evaluate
from gcl_hard.graphs import load_graphs
from gcl_hard.testing import GraphEncoderChecks


class GAT(nn.Module):
    def __init__(self, n_features, edge_dim, out_dim=32):
        super().__init__()
        self.first = GATv2Conv(n_features, out_dim, edge_dim=edge_dim)
        self.second = GATv2Conv(out_dim, out_dim, edge_dim=edge_dim)
        self.out_dim = out_dim

    def forward(self, x, edge_index, batch, edge_attr):
        nodes = self.first(x, edge_index, edge_attr).relu()
        nodes = self.second(nodes, edge_index, edge_attr)
        return nodes, global_mean_pool(nodes, batch)


class TestGAT(GraphEncoderChecks):  # `pytest own_encoder.py` runs these checks
    def make(self, n_features, edge_dim):
        return GAT(n_features, edge_dim)


if __name__ == "__main__":
    graphs, methods = load_graphs("MUTAG"), ["ucl", "hscl", "untrained", "majority"]
    print(evaluate(GAT, graphs, methods, seeds=1, folds=3, epochs=5, progress=False))
