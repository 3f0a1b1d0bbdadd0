"""Graph sets, the batches sliced from them, and reading of user-supplied graphs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from gcl_hard.core.ids import checked_names
from gcl_hard.core.labels import as_array
from gcl_hard.errors import InputError
from gcl_hard.functional.negatives import check_dense, readable
from gcl_hard.graphs.attributes import Attributes, read_attributes
from gcl_hard.graphs.copies import on_device
from gcl_hard.graphs.features import aligned_columns, column_names, node_features, standardise
from gcl_hard.graphs.order import Ids, checked_ids, epoch_batches
from gcl_hard.graphs.sparse import check_ends, slices

if TYPE_CHECKING:
    from torch_geometric.data import Data

Real = TypeVar("Real", np.float32, np.float64)

NO_LABEL = -1
"""Label of graphs without one."""


@dataclass(frozen=True, eq=False)
class RawGraphs:
    """A graph classification set as read, before node features are selected.

    Attributes:
        edge_index: int64 [2, E], global node ids, sorted by source node; no loops, no repeats.
        node_ptr: int64 [G + 1]; graph g has nodes node_ptr[g] to node_ptr[g + 1] - 1.
        edge_ptr: int64 [G + 1]; the same for edges.
        y: int64 [G] in 0..C-1, in the order of the original labels; −1 without labels; float32 or
            float64 [G] or [G, T] for regression targets.
        nodes: labels and attributes of the N nodes.
        edges: labels and attributes of the E edges.
        ids: names of the graphs, [G]; None for their numbers.
        class_names: names of the C classes in the source; empty if unknown.
    """

    edge_index: Tensor
    node_ptr: Tensor
    edge_ptr: Tensor
    y: Tensor
    nodes: Attributes
    edges: Attributes
    ids: NDArray[Any] | None = None
    class_names: tuple[str, ...] = ()


@dataclass(eq=False)
class GraphBatch:
    """A batch of graphs as one graph, with the fields of a PyTorch Geometric ``Batch``.

    Attributes:
        x: float32 [n, F].
        edge_index: int64 [2, e], node ids 0..n-1 of this batch; no edge crosses graphs.
        batch: int64 [n], sorted: graph of each node, 0..B-1.
        y: int64 [B].
        n_graphs: B.
        edge_attr: float32 [e, K], or None.
    """

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    y: Tensor
    n_graphs: int
    edge_attr: Tensor | None = None

    @property
    def num_graphs(self) -> int:
        """B, under PyTorch Geometric's name."""
        return self.n_graphs

    def to(self, device: torch.device | str) -> GraphBatch:
        """The batch on a device."""
        return on_device(self, device)

    @classmethod
    def of(cls, graphs: Any) -> GraphBatch:
        """Convert a PyTorch Geometric ``Batch``, or anything with its fields.

        Raises:
            InputError: for anything else, features with another number of rows, or (on a CPU)
                edges to missing nodes; without node features ``x`` is None.
        """
        if isinstance(graphs, cls):
            batch: GraphBatch = graphs
        else:
            owner = getattr(graphs, "batch", None)
            if owner is None or not hasattr(graphs, "edge_index"):
                raise InputError(
                    f"a model takes batches of graphs, such as torch_geometric.loader.DataLoader "
                    f"makes; got {type(graphs).__name__} without edge_index and batch"
                )
            fields: Any = {name: getattr(graphs, name, None) for name in ("x", "y", "edge_attr")}
            n = getattr(graphs, "num_graphs", None)
            n = int(owner.max()) + 1 if n is None else n
            batch = cls(edge_index=graphs.edge_index, batch=owner, n_graphs=n, **fields)
        _check_fields(batch)
        return batch

    def followed_by(self, other: GraphBatch) -> GraphBatch:
        """This batch concatenated with another one of equal feature width."""
        attributes = [a for a in (self.edge_attr, other.edge_attr) if a is not None]
        return GraphBatch(
            x=torch.cat([self.x, other.x]),
            edge_index=torch.cat([self.edge_index, other.edge_index + len(self.x)], dim=1),
            batch=torch.cat([self.batch, other.batch + self.n_graphs]),
            y=self.y if self.y is None else torch.cat([self.y, other.y]),
            n_graphs=self.n_graphs + other.n_graphs,
            edge_attr=torch.cat(attributes) if len(attributes) == 2 else None,
        )

    def split(self, parts: int) -> list[GraphBatch]:
        """The batch in parts of about equally many graphs, in order; at most one per graph."""
        parts = max(1, min(parts, self.n_graphs))
        if parts == 1:
            return [self]
        cuts = [self.n_graphs * part // parts for part in range(parts + 1)]
        return [self._between(first, end) for first, end in pairwise(cuts)]

    def _between(self, first: int, end: int) -> GraphBatch:
        nodes = (self.batch >= first) & (self.batch < end)
        edges = nodes[self.edge_index[0]]
        return GraphBatch(
            x=self.x[nodes],
            edge_index=(nodes.cumsum(0) - 1)[self.edge_index[:, edges]],
            batch=self.batch[nodes] - first,
            y=self.y if self.y is None else self.y[first:end],
            n_graphs=end - first,
            edge_attr=None if self.edge_attr is None else self.edge_attr[edges],
        )


@dataclass(frozen=True, eq=False, repr=False)
class GraphSet:
    """A set of graphs, collated once on its device.

    It has a length; ``graphs[3]`` is a ``torch_geometric.data.Data``, whose y is None in a set
    without labels; ``graphs[:100]``, a list of ids or a mask give a smaller set, and iterating
    yields the graphs.

    Attributes:
        name: name of the set.
        x: float32 [N, F].
        edge_index: int64 [2, E], global node ids, edges grouped by graph, in graph order.
        y: int64 [G] in 0..n_classes-1; −1 without labels; float32 or float64 [G] or [G, T] for
            regression targets.
        node_ptr: int64 [G + 1]; graph g has nodes node_ptr[g] to node_ptr[g + 1] - 1.
        edge_ptr: int64 [G + 1]; the same for edges.
        n_classes: C; 0 without class labels.
        features: kind of node features, never ``auto``.
        edge_attr: float32 [E, K], or None.
        n_encoded: number of columns at the end of ``x`` that are structural encodings.
        columns: names of the F columns of ``x``, such as ``label=3``, ``degree=2`` or
            ``element=C``; empty if unknown.
        edge_columns: names of the K columns of ``edge_attr``.
        ids: names of the graphs, NumPy [G]; None for their numbers.
        class_names: names of the C classes in the source; empty if unknown.

    Example:
        >>> from gcl_hard.graphs import load_graphs
        >>> mutag = load_graphs("MUTAG", download=False)
        >>> batch = mutag.batch(torch.tensor([5, 0]))
        >>> batch.x.shape, batch.edge_index.shape, batch.y.tolist()
        (torch.Size([45, 7]), torch.Size([2, 100]), [1, 1])
        >>> mutag[:10]
        GraphSet(MUTAG: 10 graphs, 166 nodes with 7 features (labels), 4 edge features, 2 classes)
    """

    name: str
    x: Tensor
    edge_index: Tensor
    y: Tensor
    node_ptr: Tensor
    edge_ptr: Tensor
    n_classes: int
    features: str
    edge_attr: Tensor | None = None
    n_encoded: int = 0
    columns: tuple[str, ...] = ()
    edge_columns: tuple[str, ...] = ()
    ids: NDArray[Any] | None = None
    class_names: tuple[str, ...] = ()

    @property
    def n_graphs(self) -> int:
        """G."""
        return self.node_ptr.numel() - 1

    def __len__(self) -> int:
        return self.n_graphs

    def __repr__(self) -> str:
        edges = f", {self.edge_dim} edge features" if self.edge_dim else ""
        targets = f"{self.n_classes} classes" if self.n_classes else "no class labels"
        return (
            f"{type(self).__name__}({self.name}: {self.n_graphs} graphs, {self.n_nodes} nodes with "
            f"{self.n_features} features ({self.features}){edges}, {targets})"
        )

    def __iter__(self) -> Iterator[Data]:
        return (self[number] for number in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Data: ...

    @overload
    def __getitem__(self, index: Ids) -> GraphSet: ...

    def __getitem__(self, index: int | Ids) -> Data | GraphSet:
        if isinstance(index, Tensor) and not index.ndim:
            index = int(index)  # of a torch.utils.data.Subset
        if not isinstance(index, int | np.integer):
            return self.take(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"graph {index} of {len(self)}")  # the end of an iteration
        from torch_geometric.data import Data

        graph = self.batch([index % len(self)])
        y = graph.y if self.n_classes or graph.y.is_floating_point() else None
        return Data(graph.x, graph.edge_index, graph.edge_attr, y)

    @property
    def n_nodes(self) -> int:
        """N, over all graphs."""
        return self.x.shape[0]

    @property
    def n_features(self) -> int:
        """F."""
        return self.x.shape[1]

    @property
    def names(self) -> NDArray[Any]:
        """``ids``, or the numbers 0 to G − 1 without any."""
        return checked_names(self.ids, self.n_graphs, "graph")

    @property
    def edge_dim(self) -> int | None:
        """K, or None without edge features."""
        return None if self.edge_attr is None else self.edge_attr.shape[1]

    @property
    def class_counts(self) -> Tensor:
        """Number of graphs of each class, int64 [C]; empty without class labels."""
        labels = self.y if self.n_classes else self.y.new_zeros(0, dtype=torch.int64)
        return torch.bincount(labels, minlength=self.n_classes)

    @cached_property
    def _sizes(self) -> tuple[Tensor, Tensor]:
        """Nodes and edges per graph, on the CPU: sizing a batch needs no synchronisation."""
        return self.node_ptr.diff().cpu(), self.edge_ptr.diff().cpu()

    def to(self, device: torch.device | str) -> GraphSet:
        """The same set on a device."""
        return on_device(self, device)

    def all(self) -> GraphBatch:
        """Every graph, in order."""
        return self.batch(torch.arange(self.n_graphs))

    def batch(self, index: Ids) -> GraphBatch:
        """A batch of graphs by their ids, in that order.

        Args:
            index: [B], ids in 0..G-1 in any order, repeats allowed, or a mask [G]; a CPU tensor
                avoids a device synchronisation.

        Returns:
            The batch, on the set's device.

        Raises:
            InputError: if the index is empty, of another type or shape, or out of range.
        """
        ids = checked_ids(index, self.n_graphs, "index")
        node_sizes, edge_sizes = (sizes[ids] for sizes in self._sizes)
        ids = ids.to(self.y.device)
        nodes, owner, shift = slices(self.node_ptr, ids, int(node_sizes.sum()))
        edges, edge_owner, _ = slices(self.edge_ptr, ids, int(edge_sizes.sum()))
        return GraphBatch(
            x=self.x[nodes],
            edge_index=self.edge_index[:, edges] - shift[edge_owner],
            batch=owner,
            y=self.y[ids],
            n_graphs=ids.numel(),
            edge_attr=None if self.edge_attr is None else self.edge_attr[edges],
        )

    def batches(self, batch_size: int, *, seed: int = 0) -> Callable[[int], Iterator[GraphBatch]]:
        """A function from an epoch (from 1) to its shuffled batches.

        Args:
            batch_size: graphs in a batch, ≥ 2.
            seed: seed of the order, ≥ 0.

        Example:
            >>> from gcl_hard.graphs import load_graphs
            >>> batches = load_graphs("MUTAG", download=False).batches(64)
            >>> [batch.num_graphs for batch in batches(1)]
            [64, 64, 60]
        """

        def iterate(epoch: int) -> Iterator[GraphBatch]:
            return map(self.batch, epoch_batches(len(self), batch_size, seed=seed, epoch=epoch))

        return iterate

    def take(self, index: Ids) -> GraphSet:
        """A subset of the graphs, without data of the others.

        Node features keep their columns (those of one-hot degrees too).

        Args:
            index: as for :meth:`batch`.

        Returns:
            The smaller set, with the same classes.

        Raises:
            InputError: as for :meth:`batch`.

        Example:
            >>> from gcl_hard.graphs import load_graphs
            >>> load_graphs("MUTAG", download=False).take(torch.tensor([5, 0])).node_ptr
            tensor([ 0, 28, 45])
        """
        ids = checked_ids(index, self.n_graphs, "index")
        chosen = self.batch(ids)
        ptrs = [torch.cat([sizes.new_zeros(1), sizes[ids].cumsum(0)]) for sizes in self._sizes]
        node_ptr, edge_ptr = (ptr.to(self.y.device) for ptr in ptrs)
        return replace(
            self, x=chosen.x, edge_index=chosen.edge_index, y=chosen.y, node_ptr=node_ptr,
            edge_ptr=edge_ptr, edge_attr=chosen.edge_attr, ids=self.names[ids.numpy()],
        )  # fmt: skip

    def standardised_on(self, index: Tensor) -> GraphSet:
        """The set with degree scalars standardised over a subset of graphs, for inductive folds.

        Args:
            index: int64 ids of the graphs that mean and standard deviation are computed on.

        Returns:
            The set itself unless its features are ``degree-scalar``; no other kind has statistics.
        """
        if self.features != "degree-scalar":
            return self
        ids = checked_ids(index, self.n_graphs, "index")
        nodes, _, _ = slices(self.node_ptr, ids.to(self.y.device), int(self._sizes[0][ids].sum()))
        degree = torch.bincount(self.edge_index[0], minlength=self.n_nodes).double()
        return replace(self, x=standardise(degree.unsqueeze(1), nodes).float())

    @classmethod
    def from_graphs(
        cls,
        graphs: Iterable[Any],
        *,
        name: str = "custom",
        features: str = "auto",
        directed: bool = False,
        node_attrs: Sequence[str] | None = None,
        edge_attrs: Sequence[str] | None = None,
        ids: Sequence[Any] | NDArray[Any] | None = None,
    ) -> GraphSet:
        """A set of user-supplied graphs.

        Args:
            graphs: ``torch_geometric.data.Data`` objects or objects like them, a data set of
                PyTorch Geometric or a ``torch.utils.data.Subset``, NetworkX graphs, or a ``Batch``,
                a loader, a list of batches or of sets, whose graphs are read one by one. Each has
                edge_index int64 [2, e], x float [n, F] or None (then num_nodes counts), edge_attr
                [e, K] or None, and y: a class (an integer or a
                word), float targets, or None. In a NetworkX graph, x are attributes of nodes,
                edge_attr of edges, and y of the graph.
            name: name of the set in results.
            features: ``auto`` takes x if the graphs have it (recorded as ``attributes``);
                otherwise as in :func:`gcl_hard.graphs.features.node_features`.
            directed: whether edges may be in one direction only, along which messages then flow.
            node_attrs: names of node attributes to read in place of x, such as
                ``["element", "charge"]``: words and integers become one-hot, real numbers are
                columns as they are. The set's ``columns`` name each column.
            edge_attrs: names of edge attributes to read in place of edge_attr.
            ids: names of the graphs, a number or a word each; by default their attribute
                ``name`` if every graph has one (NetworkX: ``graph.graph["name"]``), else their
                numbers.

        Returns:
            The set; classes are renumbered 0..C-1 in increasing order. Targets are float32 if
            all are in single or half precision, otherwise float64.

        Raises:
            InputError: if there are no graphs, or a graph has no nodes, a y of another kind than
                the others, an edge in one direction only, node ids out of range, or other columns
                than the first one; or for a batch that was changed after it was made.

        Warns:
            UserWarning: names unread tensors and arrays of the graphs, such as edge_weight.

        Example:
            >>> from types import SimpleNamespace
            >>> pair = torch.tensor([[0, 1], [1, 0]])
            >>> fields = dict(x=None, edge_attr=None, edge_index=pair)
            >>> graphs = [SimpleNamespace(y=y, num_nodes=y, **fields) for y in (2, 3)]
            >>> GraphSet.from_graphs(graphs).y
            tensor([0, 1])
        """
        raw = collate(graphs, directed=directed, node_attrs=node_attrs, edge_attrs=edge_attrs)
        if ids is not None:
            raw = replace(raw, ids=checked_names(ids, len(raw.y), "graph"))
        if features == "auto" and raw.nodes.numbers is not None:
            features = "attributes"
        return cls.from_raw(raw, name=name, features=features)

    @classmethod
    def from_raw(cls, raw: RawGraphs, *, name: str, features: str = "auto") -> GraphSet:
        """A set from raw data, with its node features.

        Args:
            raw: from :func:`gcl_hard.graphs.tudataset.parse` or another reader.
            name: name of the set in results.
            features: as in :func:`gcl_hard.graphs.features.node_features`.

        Returns:
            The set; edge attributes come before one-hot edge labels if there are both.

        Raises:
            InputError: if the set lacks the requested features.
        """
        x, kind = node_features(
            features,
            raw.edge_index,
            int(raw.node_ptr[-1]),
            labels=raw.nodes.labels,
            attributes=raw.nodes.numbers,
        )
        edge_columns = [part for part in (raw.edges.numbers, raw.edges.labels) if part is not None]
        return cls(
            name=name,
            x=x,
            edge_index=raw.edge_index,
            y=raw.y,
            node_ptr=raw.node_ptr,
            edge_ptr=raw.edge_ptr,
            n_classes=0 if raw.y.is_floating_point() else int(raw.y.max()) + 1,
            features=kind,
            edge_attr=torch.cat(edge_columns, dim=1) if edge_columns else None,
            columns=column_names(kind, x, raw.nodes.number_names, raw.nodes.label_names),
            edge_columns=raw.edges.number_names + raw.edges.label_names,
            ids=raw.ids,
            class_names=raw.class_names,
        )

    def aligned(self, columns: Sequence[str], edge_columns: Sequence[str] = ()) -> GraphSet:
        """The set with the columns of another one, such as an encoder's training set.

        Columns are matched by name; those that no graph here has are 0.

        Args:
            columns: names of the columns of ``x``.
            edge_columns: names of those of ``edge_attr``.

        Returns:
            The set; itself if it has these columns.

        Raises:
            InputError: if graphs have features outside the columns; names these and counts the
                graphs.

        Example:
            >>> from gcl_hard.graphs import load_graphs
            >>> mutag = load_graphs("MUTAG", download=False)
            >>> mutag.aligned([*mutag.columns, "label=7"], mutag.edge_columns).n_features
            8
        """
        nodes = self._aligned("x", "columns", columns)
        edges = self._aligned("edge_attr", "edge_columns", edge_columns)
        return replace(self, **nodes, **edges)

    def _aligned(self, field: str, names_field: str, wanted: Sequence[str]) -> dict[str, Any]:
        """Node or edge features in the wanted columns, with their names."""
        values, names = getattr(self, field), getattr(self, names_field)
        if values is None or (*wanted,) == names:
            return {}
        aligned = aligned_columns(values, names, wanted, field=field, name=self.name)
        return {field: aligned, names_field: (*wanted,)}


def collate(
    graphs: Iterable[Any],
    *,
    directed: bool = False,
    node_attrs: Sequence[str] | None = None,
    edge_attrs: Sequence[str] | None = None,
) -> RawGraphs:
    """Concatenate graphs on the CPU; their features become attributes.

    Args:
        graphs: as for :meth:`GraphSet.from_graphs`.
        directed: likewise.
        node_attrs: likewise.
        edge_attrs: likewise.

    Returns:
        The set; classes are renumbered 0..C-1 in increasing order, edges are kept as given.

    Raises:
        InputError: if there are no graphs, or for an invalid one; names it.

    Example:
        >>> from types import SimpleNamespace
        >>> edge = torch.tensor([[0, 1], [1, 0]])
        >>> graph = SimpleNamespace(x=None, edge_attr=None, edge_index=edge, y=7, num_nodes=2)
        >>> collate([graph, graph]).edge_index.tolist()
        [[0, 1, 2, 3], [1, 0, 3, 2]]
    """
    listed = _listed(graphs, {*(node_attrs or ())}, {*(edge_attrs or ())})
    if not listed:
        raise InputError("graphs is empty; expected at least one graph")
    nodes = edges = Attributes()
    if node_attrs is None:
        nodes = Attributes(numbers=_column_block([graph.x for graph in listed], "x"))
    sizes = [_n_nodes(graph, i) for i, graph in enumerate(listed)]
    n_edges = [graph.edge_index.shape[1] for graph in listed]
    if node_attrs is not None:
        nodes = read_attributes(listed, node_attrs, sizes, "node")
    if edge_attrs is None:
        edges = Attributes(numbers=_column_block(_edge_blocks(listed), "edge_attr", n_edges))
    else:
        edges = read_attributes(listed, edge_attrs, n_edges, "edge")
    node_ptr = _pointer(sizes)
    shifted = [g.edge_index.cpu() + start for g, start in zip(listed, node_ptr[:-1], strict=True)]
    edge_index = torch.cat(shifted, dim=1)
    if not directed:
        _check_both_ways(edge_index, node_ptr)
    y, class_names = _targets([getattr(graph, "y", None) for graph in listed])
    return RawGraphs(
        edge_index=edge_index,
        node_ptr=node_ptr,
        edge_ptr=_pointer(n_edges),
        y=y,
        nodes=nodes,
        edges=edges,
        ids=_names_of(listed),
        class_names=class_names,
    )


def _names_of(graphs: Sequence[Any]) -> NDArray[Any] | None:
    """The ``name`` attributes of graphs; None unless all have one."""
    names = [getattr(graph, "name", None) for graph in graphs]
    if not all(isinstance(name, str) and name for name in names):
        return None
    return np.array(names)


READ = {"edge_index", "num_nodes", "x", "edge_attr", "y"}
"""Fields that a graph is read from."""


def _listed(
    graphs: Any, node_attrs: Collection[str] = (), edge_attrs: Collection[str] = ()
) -> list[Any]:
    """The single graphs: NetworkX graphs converted, batches and sets unpacked.

    Args:
        graphs: as for :meth:`GraphSet.from_graphs`.
        node_attrs: node attributes that are read by name.
        edge_attrs: edge attributes that are read by name.
    """
    from torch_geometric.data import Batch, Data
    from torch_geometric.utils import from_networkx

    if isinstance(graphs, Batch):
        graphs = [graphs]
    if isinstance(graphs, Dataset) and hasattr(graphs, "__len__"):
        graphs = [graphs[i] for i in range(len(graphs))]
    if isinstance(graphs, Data) or is_networkx(graphs) or not isinstance(graphs, Iterable):
        raise InputError(f"graphs must be a list of graphs, got {type(graphs).__name__}")
    listed: list[Any] = []
    unread: set[str] = set()
    read = {*READ, *node_attrs, *edge_attrs}
    for i, graph in enumerate(graphs):
        if isinstance(graph, GraphSet):
            listed += graph
        elif is_networkx(graph):
            converted = from_networkx(graph)
            listed.append(converted)
            unread |= {*converted.to_dict()} - read - {"name"}
        elif hasattr(graph, "edge_index"):
            listed += _of_batch(graph, i)
            unread |= unread_of(graph, read)
        else:
            raise InputError(
                f"graph {i} has type {type(graph).__name__}; expected "
                f"torch_geometric.data.Data, or a NetworkX graph"
            )
    warn_of_unread(unread, stacklevel=4)
    return listed


def unread_of(graph: Any, read: Collection[str] = READ) -> set[str]:
    """Names of the tensors and arrays of a graph or batch that are not read."""
    fields = graph.to_dict() if hasattr(graph, "to_dict") else getattr(graph, "__dict__", {})
    loader_fields = {f"{name}_{suffix}" for name in fields for suffix in ("batch", "ptr")}
    return {
        name
        for name, value in fields.items()
        if isinstance(value[0] if isinstance(value, list) and value else value, Tensor | np.ndarray)
    } - {*read, "batch", "ptr", *loader_fields}


def warn_of_unread(names: set[str], *, stacklevel: int, of_edges: str = "edge_attr") -> None:
    """Warn of unread attributes of graphs, if there are any."""
    if names:
        warnings.warn(
            f"attributes of graphs that are not read: {', '.join(sorted(names))}; node features "
            f"are read from x, edge features from {of_edges}, and the class from y",
            stacklevel=stacklevel + 1,
        )


def _of_batch(graph: Any, i: int) -> list[Any]:
    """The graphs of a PyTorch Geometric ``Batch``; a single graph as it is."""
    from torch_geometric.data import Batch

    owner = getattr(graph, "batch", None)
    if isinstance(graph, Batch):
        graphs: list[Any] = graph.to_data_list()
        again = Batch.from_data_list(graphs)
        tensors = {name: x for name, x in again.to_dict().items() if isinstance(x, Tensor)}
        alike = all(graph[name].shape == x.shape for name, x in tensors.items())
        if not alike or not torch.equal(graph.batch, again.batch):
            raise InputError(
                f"batch {i} was changed after it was made: change its graphs, before batching"
            )
        return graphs
    if owner is not None and owner.numel() and int(owner.max()) > 0:
        raise InputError(
            f"graph {i} is a batch of {int(owner.max()) + 1} graphs: give the graphs themselves, "
            f"or a torch_geometric.data.Batch of them"
        )
    return [graph]


def _check_fields(batch: GraphBatch) -> None:
    """InputError for batch fields whose shapes do not fit, without synchronising a device."""
    n, n_edges = len(batch.batch), batch.edge_index.shape[1]
    for name, value, rows in (("x", batch.x, n), ("edge_attr", batch.edge_attr, n_edges)):
        if value is not None and len(value) != rows:
            raise InputError(f"{name} of a batch has {len(value)} rows, expected {rows}")
    if batch.x is not None and batch.x.ndim == 1 and batch.x.is_floating_point():
        raise InputError(f"node features x are [{n}], expected [{n}, F]: give x.unsqueeze(1)")
    if readable(batch.edge_index):
        check_ends(batch.edge_index, n)


def is_networkx(graph: Any) -> bool:
    """Whether a graph is a NetworkX graph."""
    return type(graph).__module__.partition(".")[0] == "networkx"


def _check_both_ways(edge_index: Tensor, node_ptr: Tensor) -> None:
    source, target = edge_index
    n = int(node_ptr[-1])
    missing = ~torch.isin(target * n + source, source * n + target)
    if missing.any():
        graph = int(torch.searchsorted(node_ptr, source[missing][0], right=True)) - 1
        raise InputError(
            f"graph {graph} has an edge in one direction only: give both "
            f"(torch_geometric.utils.to_undirected), or directed=True"
        )


def _targets(targets: Sequence[Any]) -> tuple[Tensor, tuple[str, ...]]:
    """Classes int64 [G] in increasing order of labels (−1 without) or targets, and class names.

    Targets stay in single precision if all are, since the rounding tolerance depends on it.
    """
    if all(y is None for y in targets):
        return torch.full((len(targets),), NO_LABEL), ()
    rows = [as_array(y, f"y of graph {i}").reshape(-1) for i, y in enumerate(targets)]
    for i, row in enumerate(rows):
        alike = row.size == rows[0].size and (row.dtype.kind == "U") == (rows[0].dtype.kind == "U")
        if row.dtype.kind not in "biufU" or not row.size or not alike:
            raise InputError(
                f"graph {i} has a y of {row.dtype} [{row.size}]; expected a class (an integer or a "
                f"word), or equally many float targets, for every graph or for none"
            )
    values = np.stack(rows)
    if values.shape[1] == 1 and values.dtype.kind != "f":
        labels, classes = np.unique(values[:, 0], return_inverse=True)
        return torch.from_numpy(classes.astype(np.int64)), tuple(map(str, labels))
    single = all(row.dtype in (np.float16, np.float32) for row in rows)
    values = values.astype(np.float32 if single else np.float64)
    return torch.from_numpy(checked_targets(values, "graph")).squeeze(1), ()


def checked_targets(values: NDArray[Real], unit: str) -> NDArray[Real]:
    """Targets, checked to fit single precision, in which gradients are computed.

    Raises:
        InputError: for infinite or larger values; names the first, as ``unit`` and its number.
    """
    beyond: NDArray[np.int64] = np.argwhere(np.abs(values) > np.finfo(np.float32).max)
    if beyond.size:
        raise InputError(
            f"targets must be finite numbers, or NaN if unknown, got {values[*beyond[0]]:g} in "
            f"{unit} {beyond[0][0]}"
        )
    return values


def _pointer(sizes: list[int]) -> Tensor:
    return torch.tensor([0, *sizes]).cumsum(0)


def _n_nodes(graph: Any, i: int) -> int:
    n_nodes = len(graph.x) if graph.x is not None else int(graph.num_nodes or 0)
    edges = graph.edge_index
    if n_nodes < 1:
        raise InputError(f"graph {i} has no nodes; expected at least one")
    if edges is None or edges.dtype != torch.int64 or edges.ndim != 2 or len(edges) != 2:
        raise InputError(f"edge_index of graph {i} must be int64 [2, e], got {edges!r:.60}")
    if edges.numel() and not (edges.min() >= 0 and edges.max() < n_nodes):
        raise InputError(f"edge_index of graph {i} names nodes outside 0..{n_nodes - 1}")
    return n_nodes


def _edge_blocks(graphs: list[Any]) -> list[Any]:
    """Edge features of each graph; for a graph without edges no rows, with the others' columns."""
    blocks = [getattr(graph, "edge_attr", None) for graph in graphs]
    pairs = [
        (block, graph.edge_index.numel() > 0) for block, graph in zip(blocks, graphs, strict=True)
    ]
    linked = [block for block, has_edges in pairs if has_edges]
    if not linked:
        return blocks
    no_rows = None if linked[0] is None else linked[0][:0]
    return [block if has_edges else no_rows for block, has_edges in pairs]


def _column_block(
    blocks: list[Any], field: str, sizes: Sequence[int] | None = None
) -> Tensor | None:
    """The rows of all graphs, float32 [rows, K]; None if no graph has any."""
    if all(block is None for block in blocks):
        return None
    shaped: list[Tensor] = []
    for i, block in enumerate(blocks):
        if not isinstance(block, Tensor):
            raise InputError(f"{field} of graph {i} is {block!r:.60}; expected a tensor of numbers")
        check_dense(block, f"{field} of graph {i}")
        rows = block.unsqueeze(1) if block.ndim == 1 else block
        fits = rows.ndim == 2 and (sizes is None or len(rows) == sizes[i])
        if not fits or (shaped and rows.shape[1] != shaped[0].shape[1]):
            n = "n" if sizes is None else sizes[i]
            columns = shaped[0].shape[1] if shaped else "columns"
            raise InputError(f"{field} of graph {i} is {[*rows.shape]}, expected [{n}, {columns}]")
        shaped.append(rows)
    rows = torch.cat(shaped).float().cpu()
    if not rows.isfinite().all():
        raise InputError(f"{field} holds NaN or infinite values; expected finite ones")
    return rows
