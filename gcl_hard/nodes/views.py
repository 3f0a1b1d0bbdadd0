"""Random views of one graph for contrast between its nodes, and parts of a large one: nodes in
batches, with neighbours drawn around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.core.seeds import seed_for, seeded_globally
from gcl_hard.core.setting import Setting
from gcl_hard.errors import InputError, calling_own, check_at_least, check_number, check_option
from gcl_hard.graphs.augment import Transform, uniform
from gcl_hard.graphs.copies import on_device
from gcl_hard.graphs.sparse import (
    check_ends,
    column_sums,
    in_degree,
    rows_of,
    scaled_columns,
    sum_to,
)

MOST = 0.7
"""Largest probability with which an adaptive view drops an edge or masks a column."""


class Degrees(NamedTuple):
    """Degrees in the whole graph of the nodes of a part.

    Attributes:
        weight: float [N], sum of the weights of all edges that lead to each node; in a view, of
            those that the view keeps.
        edges: int64 [N], number of edges that lead to each node in the graph.
        drawn: int64 [N], number of these that were drawn for the part.
        edge_rate: float [N], factor of p when an adaptive view drops an edge to the node.
        column_rate: float [F], likewise when it masks a column.
    """

    weight: Tensor
    edges: Tensor
    drawn: Tensor
    edge_rate: Tensor
    column_rate: Tensor

    @classmethod
    def of(cls, graph: NodeBatch) -> Self:
        """Degrees of a whole graph."""
        edges = in_degree(graph.edge_index, graph.num_nodes)
        return cls(weights_to(graph), edges, edges, *_rates(graph, edges))

    def part(self, ids: Tensor, drawn: Tensor) -> Self:
        """Degrees of the nodes of a part.

        Args:
            ids: int64 [n], its nodes.
            drawn: int64 [n], number of edges in it that lead to each.
        """
        return self._replace(
            weight=self.weight[ids], edges=self.edges[ids], drawn=drawn,
            edge_rate=self.edge_rate[ids],
        )  # fmt: skip

    @property
    def scale(self) -> Tensor:
        """Number of edges of the graph that an edge to each node stands for, float [N]."""
        return (self.edges / self.drawn.clamp(min=1)).to(self.weight.dtype)

    def changed(self, before: NodeBatch, after: NodeBatch, kept: Tensor | float) -> Self:
        """Degrees of a view, which keeps a share of the edges outside of the part.

        Args:
            before: the part.
            after: the part with the edges of the view.
            kept: [N] or for all nodes, share of the edges outside of the part that is kept.
        """
        outside_weight = (self.weight - weights_to(before)).clamp(min=0)
        return self._replace(weight=weights_to(after) + kept * outside_weight)


class NodeBatch(NamedTuple):
    """A graph, or the part of one that a step reads.

    Attributes:
        x: float [N, F], features, dense or ``torch.sparse_csr``.
        edge_index: int64 [2, E], from row 0 to row 1; an undirected edge in both directions.
        edge_weight: float [E], or None.
        y: int64 [N], −1 for unknown labels; None without labels.
        seeds: number of nodes, the first ones, that are anchors and candidates; the others are
            their neighbours. None if all are anchors.
        degrees: those in the whole graph, of a part that stands for it.
    """

    x: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None = None
    y: Tensor | None = None
    seeds: int | None = None
    degrees: Degrees | None = None

    @classmethod
    def of(cls, graph: Any) -> Self:
        """A batch as it is, or a whole graph as one: of a :class:`NodeSet`, or of a
        ``torch_geometric.data.Data``, whose features and edges are read as by
        :meth:`NodeSet.from_graph`. Either has no labels outside its first training mask.
        """
        if isinstance(graph, cls):
            return graph
        from gcl_hard.nodes.sources import from_object, read_graph

        if hasattr(graph, "as_batch"):
            return graph.as_batch()
        raw = from_object(graph, None, None, {})
        x, edges = read_graph(raw, type(graph).__name__)
        if getattr(raw.x, "requires_grad", False):
            x = raw.x  # the features are learnt
        batch, y = cls(x, edges.edge_index, edges.edge_weight), raw.y
        if isinstance(y, list | np.ndarray) and np.asarray(y).dtype.kind in "biuf":
            y = torch.as_tensor(y)
        train = raw.masks.get("train")
        if train is not None and isinstance(y, Tensor):
            masks = torch.as_tensor(train, device=y.device)
            y = y.where(masks if masks.ndim == 1 else masks[0], -1)
        return batch.to(getattr(raw.x, "device", "cpu"))._replace(y=y)

    def to(self, device: torch.device | str) -> Self:
        """The same batch on a device."""
        return on_device(self, device)

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.x.shape[0]


def _share(description: str, **options: Any) -> Setting:
    return Setting(
        description, "views", least=0, below=1, several=True, chosen=True, space=(0.0, 0.8),
        **options,
    )  # fmt: skip


@dataclass(frozen=True)
class NodeViews:
    r"""Two random views of a graph: edges dropped, feature columns masked.

    Each direction of an edge is dropped by itself. Adaptive views keep what matters: the edge u → v
    is dropped with probability

    .. math:: \min\left(0.7,\; p\,\frac{s_{\max} - s_v}{s_{\max} - \bar s}\right), \qquad
              s_v = \log(1 + \deg v)

    with the mean over edges, and column f masked likewise with
    :math:`s_f = \log(1 + \sum_u 1[x_{uf} \ne 0] \deg u)` and the mean over columns. Where all
    scores are equal, every probability is p.

    Args:
        drop_edges: p in [0, 1) of edges.
        mask_columns: p in [0, 1) of feature columns.
        second_drop_edges: that of the second view, if it differs.
        second_mask_columns: likewise.
        adaptive: whether probabilities are adaptive.

    Raises:
        InputError: for a share outside [0, 1).

    Source:
        Zhu et al. 2020, *Deep Graph Contrastive Representation Learning* (GRACE); Zhu et al. 2021,
        *Graph Contrastive Learning with Adaptive Augmentation* (GCA), Eq. 4 to 7.

    Example:
        >>> ring = NodeBatch(torch.eye(4), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> views = NodeViews(drop_edges=0.5, mask_columns=0.0)
        >>> view = views(ring, torch.Generator().manual_seed(0))
        >>> view.edge_index.shape[1] < 4, view.x.equal(ring.x)
        (True, True)
    """

    drop_edges: Annotated[float, _share("share of the edges that a view drops", symbol="edges")] = (
        0.3
    )
    mask_columns: Annotated[
        float, _share("share of the feature columns that a view masks", symbol="columns")
    ] = 0.3
    second_drop_edges: Annotated[float | None, _share(
        "that of the second view, if it differs",
        usual=lambda above: above["drop_edges"],
    )] = None  # fmt: skip
    second_mask_columns: Annotated[float | None, _share(
        "that of the second view, if it differs",
        usual=lambda above: above["mask_columns"],
    )] = None  # fmt: skip
    adaptive: Annotated[
        bool, Setting("whether edges and columns that matter less are dropped more, as by GCA",
                      "views")
    ] = False  # fmt: skip

    def __post_init__(self) -> None:
        for name, first in (
            ("drop_edges", None), ("mask_columns", None),
            ("second_drop_edges", self.drop_edges), ("second_mask_columns", self.mask_columns),
        ):  # fmt: skip
            if getattr(self, name) is None:
                object.__setattr__(self, name, first)
            check_number(name, getattr(self, name), least=0, below=1)

    def __call__(
        self, batch: NodeBatch, generator: torch.Generator, *, second: bool = False
    ) -> NodeBatch:
        """A view; the generator is on the device of the batch."""
        edges, columns = (
            (self.second_drop_edges, self.second_mask_columns)
            if second
            else (self.drop_edges, self.mask_columns)
        )
        assert edges is not None
        assert columns is not None  # __post_init__ has set both
        edge_rate = column_rate = None
        if self.adaptive:
            if batch.degrees is None:
                degree = in_degree(batch.edge_index, batch.num_nodes)
                edge_rate, column_rate = _rates(batch, degree)
            else:
                edge_rate, column_rate = batch.degrees.edge_rate, batch.degrees.column_rate
        batch = batch._replace(x=masked(batch.x, columns, generator, column_rate))
        return dropped(batch, edges, generator, edge_rate)


def dropped(
    batch: NodeBatch, p: float, generator: torch.Generator, rate: Tensor | None = None
) -> NodeBatch:
    """A batch without a random share p of its edges.

    In a part that stands for a graph, the edges outside of it are dropped as well: the number left
    at each node is drawn.

    Args:
        batch: a graph or a part of one.
        p: probability that an edge is dropped.
        generator: random generator, on any device.
        rate: float [N], by which p is multiplied for edges to each node; None for p everywhere.
    """
    if p == 0:
        return batch
    ends, weight, degrees = batch.edge_index[1], batch.edge_weight, batch.degrees
    drops = p if rate is None else (p * rate).clamp(max=MOST)
    keep = uniform((len(ends),), generator, ends.device) >= (
        drops if isinstance(drops, float) else drops[ends]
    )
    view = batch._replace(
        edge_index=batch.edge_index[:, keep], edge_weight=None if weight is None else weight[keep]
    )
    if degrees is None:
        return view
    undrawn = (degrees.edges - degrees.drawn).to(degrees.weight)
    share = torch.as_tensor(1 - drops).to(undrawn).expand_as(undrawn)
    device = generator.device
    left = torch.binomial(undrawn.to(device), share.to(device), generator=generator)
    left = left.to(undrawn.device)
    return view._replace(degrees=degrees.changed(batch, view, left / undrawn.clamp(min=1)))


def masked(x: Tensor, p: float, generator: torch.Generator, rate: Tensor | None = None) -> Tensor:
    """Features with a random share p of their columns 0; sparse ones stay sparse.

    Args:
        x: float [N, F], dense or ``torch.sparse_csr``.
        p: probability that a column is masked.
        generator: random generator, on any device.
        rate: float [F], by which p is multiplied for each column; None for p everywhere.
    """
    if p == 0:
        return x
    drops = p if rate is None else (p * rate).clamp(max=MOST)
    keep = (uniform((x.shape[1],), generator, x.device) >= drops).to(x.dtype)
    return scaled_columns(x, keep)


def _rates(graph: NodeBatch, degree: Tensor) -> tuple[Tensor, Tensor]:
    """``edge_rate`` and ``column_rate`` of a whole graph."""
    nodes = torch.log1p(degree.float())
    columns = torch.log1p(column_sums(graph.x, degree.float()))
    return _rate(nodes, nodes[graph.edge_index[1]]), _rate(columns, columns)


def _rate(scores: Tensor, reference: Tensor) -> Tensor:
    """Rates that fall with the scores and have mean 1 over the reference scores."""
    if not len(reference):
        return torch.ones_like(scores)
    most = reference.max()
    mean = most - reference.mean()
    return torch.where(mean > 0, (most - scores) / mean, 1)


def weights_to(batch: NodeBatch) -> Tensor:
    """The sum of the weights of the edges that lead to each node, float [N]."""
    weight = weights_of(batch.edge_index, batch.edge_weight)
    return sum_to(batch.edge_index, weight, batch.num_nodes)


def weights_of(edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
    """The weights of edges, float [E]; 1 where there are none."""
    if edge_weight is not None:
        return edge_weight
    return torch.ones_like(edge_index[0], dtype=torch.get_default_dtype())


def _weight_between(batch: NodeBatch) -> Tensor:
    """The sum of the weights of edges between different nodes, float []."""
    source, target = batch.edge_index
    return (weights_of(batch.edge_index, batch.edge_weight) * (source != target)).sum()


def transformed_by(
    batch: NodeBatch, transforms: Sequence[Transform], generator: torch.Generator
) -> NodeBatch:
    """A batch changed by the user's own transforms, one after the other.

    Args:
        batch: a graph or a part of one.
        transforms: each is called with a ``torch_geometric.data.Data`` and returns one of the same
            nodes; they draw from the global random states, which are put back afterwards. Sparse
            features are made dense for it, and sparse again afterwards, unless its attribute
            ``sparse_features`` is true.
        generator: seeds their draws.

    Raises:
        InputError: if one returns anything else.
    """
    for transform in transforms:
        batch = _transformed(batch, transform, generator)
    return batch


def _transformed(batch: NodeBatch, transform: Transform, generator: torch.Generator) -> NodeBatch:
    from torch_geometric.data import Data

    # Copies: a transform may change its graph in place, and the other view needs it as it was.
    sparse = batch.x.layout != torch.strided
    dense = sparse and not getattr(transform, "sparse_features", False)
    x = batch.x.to_dense() if dense else batch.x.clone()
    data = Data(x=x, edge_index=batch.edge_index.clone())
    if batch.edge_weight is not None:
        data.edge_weight = batch.edge_weight.clone()
    name = getattr(transform, "__name__", type(transform).__name__)
    failure = f"the augmentation {name} fails on {batch.num_nodes} nodes"
    with calling_own(failure), seeded_globally(generator):
        changed: Any = transform(data)
    if not isinstance(changed, Data) or changed.x is None or changed.edge_index is None:
        raise InputError(
            f"the augmentation {name} must return Data with x and edge_index, got "
            f"{type(changed).__name__}"
        )
    if changed.x.shape != batch.x.shape or not changed.x.is_floating_point():
        raise InputError(
            f"the augmentation {name} must keep all nodes and columns, {[*batch.x.shape]} of "
            f"floating point, got {[*changed.x.shape]} of {changed.x.dtype}"
        )
    x = changed.x.to_sparse_csr() if sparse and changed.x.layout == torch.strided else changed.x
    view = batch._replace(
        x=x, edge_index=changed.edge_index, edge_weight=getattr(changed, "edge_weight", None)
    )
    if batch.degrees is None:
        return view
    # What the transform does to the edges of the part stands for what it would do to the others.
    after, before = _weight_between(view), _weight_between(batch)
    kept = torch.where(before > 0, after / before, 1)
    return view._replace(degrees=batch.degrees.changed(batch, view, kept))


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
        return positions[order][rank < size]
