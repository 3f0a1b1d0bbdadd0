"""Node features: resolved kinds, column counts, closed forms."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
import torch

from gcl_hard.errors import InputError
from gcl_hard.graphs.features import node_features
from gcl_hard.graphs.tudataset import load_graphs

TU = Path(__file__).parents[3] / "shared" / "data" / "tu"


def edges_of(graph: nx.Graph) -> torch.Tensor:
    directed = sorted(graph.to_directed().edges)
    return torch.tensor(directed, dtype=torch.int64).reshape(-1, 2).T


@pytest.mark.parametrize(
    ("name", "kind", "resolved", "n_features"),
    [
        ("MUTAG", "auto", "labels", 7),
        ("PTC_MR", "auto", "labels", 18),
        ("ENZYMES", "auto", "labels", 3),
        ("ENZYMES", "attributes", "attributes", 18 + 3),
        ("IMDB-BINARY", "auto", "degree-onehot", 136),
        ("IMDB-MULTI", "auto", "degree-onehot", 89),
        ("IMDB-MULTI", "degree-scalar", "degree-scalar", 1),
        ("MUTAG", "constant", "constant", 1),
        ("MUTAG", "degree-onehot", "degree-onehot", 5),
    ],
)
def test_resolved_kind_and_columns(name: str, kind: str, resolved: str, n_features: int) -> None:
    if name != "MUTAG" and not TU.is_dir():
        pytest.skip(f"{TU} is not there")
    graphs = load_graphs(name, data_dir=TU if name != "MUTAG" else None, features=kind)
    assert (graphs.features, graphs.n_features) == (resolved, n_features)
    assert graphs.x.dtype == torch.float32
    if resolved in {"labels", "degree-onehot"}:
        assert torch.equal(graphs.x.sum(dim=1), torch.ones(graphs.n_nodes))


@pytest.mark.parametrize(
    ("graph", "resolved"),
    [
        (nx.star_graph(999), "degree-onehot"),
        (nx.star_graph(1000), "degree-scalar"),
        (nx.cycle_graph(5), "constant"),
        (nx.empty_graph(3), "constant"),
    ],
)
def test_auto_without_labels_goes_by_degree(graph: nx.Graph, resolved: str) -> None:
    x, kind = node_features("auto", edges_of(graph), len(graph))
    assert kind == resolved
    assert x.shape[0] == len(graph)
    assert x.isfinite().all()


def test_kinds_that_a_set_lacks_or_nobody_has() -> None:
    with pytest.raises(InputError, match=r"'attributes'.*auto, labels, degree-onehot"):
        load_graphs("MUTAG", features="attributes", download=False)
    with pytest.raises(InputError, match=r"'labels'.*auto, degree-onehot"):
        node_features("labels", edges_of(nx.path_graph(2)), 2)
    with pytest.raises(InputError, match=r"'lables'.*\blabels\b.*\blabels\b"):
        load_graphs("MUTAG", features="lables", download=False)
