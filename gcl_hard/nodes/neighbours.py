"""Training on parts of a large graph: nodes in batches, with neighbours drawn around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from gcl_hard.core.seeds import seed_for
from gcl_hard.errors import InputError, check_at_least, check_option
from gcl_hard.graphs.sparse import check_ends, in_degree, rows_of
from gcl_hard.nodes.views import Degrees, NodeBatch

Ids = NDArray[np.int64]
DegreesOf = Literal["graph", "part"]


class Neighbourhoods:
    """Batches of a graph's nodes, each with neighbours drawn around it, layer by layer.

    ``sizes[0]`` of the nodes that lead to a node are drawn without replacement, ``sizes[1]`` of
    those that lead to each of these, and so on; a batch has the drawn edges alone, like those of
    ``torch_geometric.loader.NeighborLoader``.

    A batch stands for the graph: if k of the d edges that lead to a node are drawn, its ``degrees``
    give each d/k times its weight in the whole graph's normalised adjacency, so that the sum of a
    layer is unbiased, and with all neighbours drawn that of the whole graph.

    Args:
        graph: on the CPU, a :class:`NodeSet`, a :class:`NodeBatch` or a
            ``torch_geometric.data.Data``.
        sizes: neighbours of a node in each layer, one an encoder's layer.
        degrees: ``"graph"``; ``"part"`` normalises each batch by itself, as NeighborLoader with
            PyTorch Geometric's layers does, a different function from that of the whole graph.

    Raises:
        InputError: for no size, or one below 1; edges to nodes that do not exist; a wrong number of
            labels; with ``degrees="graph"`` for self-loops.

    Source:
        Hamilton, Ying, Leskovec (2017), *Inductive Representation Learning on Large Graphs*,
        appendix A.

    Example:
        >>> ring = NodeBatch(torch.eye(4), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> first, second = Neighbourhoods(ring, (1,)).batches(2, seed=0)(1)
        >>> first.seeds, first.edge_index.shape
        (2, torch.Size([2, 2]))
    """

    def __init__(self, graph: Any, sizes: Sequence[int], *, degrees: DegreesOf = "graph") -> None:
        self.graph = NodeBatch.of(graph)
        self.sizes = tuple(sizes)
        if not self.sizes:
            raise InputError("neighbours are numbers, one for each layer, such as 15,10: got none")
        for size in self.sizes:
            check_at_least("neighbours", size, 1)
        check_option("degrees", degrees, get_args(DegreesOf))
        n, y = self.graph.num_nodes, self.graph.y
        check_ends(self.graph.edge_index, n)
        if y is not None and len(y) != n:
            raise InputError(f"labels y are {[*y.shape]}; expected one for each node, [{n}]")
        sources, targets = self.graph.edge_index.numpy()
        if degrees == "graph" and (loops := int((sources == targets).sum())):
            raise InputError(
                f"edge_index has {loops} self-loops (edges of a node to itself), which "
                f"convolutions add by themselves: leave them out, as NodeSet.from_graph does"
            )
        order = np.argsort(targets, kind="stable")
        self._sources, self._edges = sources[order], order
        self._starts = np.concatenate([[0], np.bincount(targets, minlength=n).cumsum()])
        self._place = np.full(n, -1)
        self._degrees = Degrees.of(self.graph) if degrees == "graph" else None

    def batches(self, batch_size: int, *, seed: int = 0) -> Callable[[int], Iterator[NodeBatch]]:
        """A function from an epoch to its batches, in which every node comes once.

        Args:
            batch_size: nodes in a batch, not counting their neighbours, at least 2.
            seed: seed of the order and of the neighbours.
        """
        check_at_least("batch_size", batch_size, 2)

        def epoch_batches(epoch: int) -> Iterator[NodeBatch]:
            draws = np.random.default_rng(seed_for(seed, epoch))
            order = draws.permutation(self.graph.num_nodes)
            for start in range(0, len(order), batch_size):
                yield self.around(order[start : start + batch_size], draws)

        return epoch_batches

    def around(self, nodes: Ids, draws: np.random.Generator) -> NodeBatch:
        """A batch of some nodes and their drawn neighbours.

        Args:
            nodes: int64 [B], distinct.
            draws: random generator.
        """
        place, layers = self._place, [nodes]
        place[nodes] = np.arange(len(nodes))
        count, frontier, edges = len(nodes), nodes, []
        for size in self.sizes:
            chosen = self._drawn(frontier, size, draws)
            edges.append(chosen)
            sources = self._sources[chosen]
            frontier = np.unique(sources[place[sources] < 0])
            place[frontier] = np.arange(count, count + len(frontier))
            count += len(frontier)
            layers.append(frontier)
        reached, kept = np.concatenate(layers), np.unique(np.concatenate(edges))
        graph, edge_ids = self.graph, torch.from_numpy(self._edges[kept])
        edge_index = torch.from_numpy(place)[graph.edge_index[:, edge_ids]]
        place[reached] = -1
        weight, degrees = graph.edge_weight, self._degrees
        ids = torch.from_numpy(reached)
        if degrees is not None:
            degrees = degrees.part(ids, in_degree(edge_index, len(ids)))
        return NodeBatch(
            rows_of(graph.x, ids), edge_index, None if weight is None else weight[edge_ids],
            None if graph.y is None else graph.y[ids], len(nodes), degrees,
        )  # fmt: skip

    def _drawn(self, nodes: Ids, size: int, draws: np.random.Generator) -> Ids:
        """Up to ``size`` of the edges that lead to each node, as positions in ``_sources``."""
        first, degree = self._starts[nodes], self._starts[nodes + 1] - self._starts[nodes]
        ends = degree.cumsum()
        owner = np.repeat(np.arange(len(nodes)), degree)
        positions = np.arange(len(owner)) - (ends - degree)[owner] + first[owner]
        order = np.lexsort((draws.random(len(owner)), owner))
        rank = np.arange(len(owner)) - (ends - degree)[owner]
        drawn: Ids = positions[order][rank < size]
        return drawn
