"""Graphs of your own, here from NetworkX: checked, embedded and scored."""

import networkx as nx
import numpy as np

from gcl_hard import fit
from gcl_hard.evaluation import svm_cross_validation
from gcl_hard.graphs import GIN, GraphSet, InfoGraph
from gcl_hard.testing import GraphSetChecks


def trees_and_meshes(n=60):
    """Random trees (class 0), and the same trees with a few more edges (class 1)."""
    graphs = []
    for seed in range(n):
        graph = nx.random_labeled_tree(12, seed=seed)
        if seed % 2:
            graph.add_edges_from(nx.gnm_random_graph(12, 6, seed=seed).edges)
        graph.graph["y"] = seed % 2
        graphs.append(graph)
    return GraphSet.from_graphs(graphs, features="degree-onehot")


class TestGraphs(GraphSetChecks):  # `pytest own_graphs.py` runs these checks
    def make(self):
        return trees_and_meshes()


if __name__ == "__main__":
    graphs = trees_and_meshes()
    model = InfoGraph(GIN(graphs.n_features, 16, 2), method="hscl", beta=1.0)
    fit(model, graphs, epochs=5, lr=0.001)
    embeddings = model.embed(graphs)
    np.save("embeddings.npy", embeddings)
    print(f"accuracy {svm_cross_validation(embeddings, graphs.y.numpy(), seed=0).accuracy:.2f}")
