"""A whole graph set pre-collated once, and batches sliced from it by index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.graphs.custom import GraphLike, collate
from gcl_hard.graphs.features import node_features, standardise
from gcl_hard.graphs.reading import RawGraphs


@dataclass(eq=False)
class GraphBatch:
    """Some graphs as one: fields named as in a PyTorch Geometric ``Batch``.

    Attributes:
        x: float32 [n, F].
        edge_index: int64 [2, e], node ids 0..n-1 of this batch; no edge crosses graphs.
        batch: int64 [n], sorted: the graph, 0..B-1, of each node.
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
        """B, under the name that PyTorch Geometric uses."""
        return self.n_graphs

    @classmethod
    def of(cls, graphs: Any) -> GraphBatch:
        """A PyTorch Geometric ``Batch``, or anything with its fields, as a GraphBatch."""
        if isinstance(graphs, cls):
            return graphs
        y: Any = getattr(graphs, "y", None)  # label-free training does without
        edge_attr = getattr(graphs, "edge_attr", None)
        return cls(graphs.x, graphs.edge_index, graphs.batch, y, graphs.num_graphs, edge_attr)

    def followed_by(self, other: GraphBatch) -> GraphBatch:
        """The graphs of this batch, then those of another with as many features."""
        attributes = [a for a in (self.edge_attr, other.edge_attr) if a is not None]
        return GraphBatch(
            x=torch.cat([self.x, other.x]),
            edge_index=torch.cat([self.edge_index, other.edge_index + len(self.x)], dim=1),
            batch=torch.cat([self.batch, other.batch + self.n_graphs]),
            y=self.y if self.y is None else torch.cat([self.y, other.y]),
            n_graphs=self.n_graphs + other.n_graphs,
            edge_attr=torch.cat(attributes) if len(attributes) == 2 else None,
        )


@dataclass(frozen=True, eq=False)
class GraphSet:
    """A graph classification set, collated once on its device.

    Attributes:
        name: of the set.
        x: float32 [N, F].
        edge_index: int64 [2, E], global node ids, edges grouped by graph, in graph order.
        y: int64 [G] in 0..n_classes-1.
        node_ptr: int64 [G + 1]; graph g owns the nodes node_ptr[g] to node_ptr[g + 1] - 1.
        edge_ptr: int64 [G + 1]; the same for edges.
        n_classes: C.
        features: the resolved kind of node features.
        edge_attr: float32 [E, K], or None.
        n_encoded: how many of the last columns of ``x`` are structural encodings.

    Example:
        >>> from gcl_hard.graphs.datasets import load
        >>> mutag = load("MUTAG", download=False)
        >>> batch = mutag.batch(torch.tensor([5, 0]))
        >>> batch.x.shape, batch.edge_index.shape, batch.y.tolist()
        (torch.Size([45, 7]), torch.Size([2, 100]), [1, 1])
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

    @property
    def n_graphs(self) -> int:
        """G."""
        return self.y.numel()

    @property
    def n_nodes(self) -> int:
        """N, over all graphs."""
        return self.x.shape[0]

    @property
    def n_features(self) -> int:
        """F."""
        return self.x.shape[1]

    @property
    def edge_dim(self) -> int | None:
        """K, None of a set without edge features."""
        return None if self.edge_attr is None else self.edge_attr.shape[1]

    @property
    def class_counts(self) -> Tensor:
        """Graphs per class, int64 [C]."""
        return torch.bincount(self.y, minlength=self.n_classes)

    @cached_property
    def _sizes(self) -> tuple[Tensor, Tensor]:
        """Nodes and edges per graph on the CPU: a batch's size is known without a device sync."""
        return self.node_ptr.diff().cpu(), self.edge_ptr.diff().cpu()

    def to(self, device: torch.device | str) -> GraphSet:
        """The same set on a device."""
        moved: dict[str, Any] = {
            key: value.to(device) for key, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **moved)

    def all(self) -> GraphBatch:
        """Every graph, in order."""
        return self.batch(torch.arange(self.n_graphs))

    def batch(self, index: Tensor) -> GraphBatch:
        """The graphs with the given ids, in the given order, by tensor operations alone.

        Args:
            index: int64 [B], ids in 0..G-1, any order, repeats allowed; a CPU tensor avoids a
                device synchronisation.

        Returns:
            The batch, on the set's device.

        Raises:
            InputError: the index is empty, of another dtype or shape, or out of range.
        """
        ids = checked_ids(index, self.n_graphs, "index")
        node_sizes, edge_sizes = (sizes[ids] for sizes in self._sizes)
        ids = ids.to(self.y.device)
        nodes, owner, shift = _slices(self.node_ptr, ids, int(node_sizes.sum()))
        edges, edge_owner, _ = _slices(self.edge_ptr, ids, int(edge_sizes.sum()))
        return GraphBatch(
            x=self.x[nodes],
            edge_index=self.edge_index[:, edges] - shift[edge_owner],
            batch=owner,
            y=self.y[ids],
            n_graphs=ids.numel(),
            edge_attr=None if self.edge_attr is None else self.edge_attr[edges],
        )

    def take(self, index: Tensor) -> GraphSet:
        """A set of some graphs alone, in the given order; nothing of the others is in it.

        Node features stay as they are in this set (a one-hot degree keeps its columns).

        Args:
            index: as for :meth:`batch`.

        Returns:
            The smaller set, with the same classes.

        Raises:
            InputError: as :meth:`batch`.

        Example:
            >>> from gcl_hard.graphs.datasets import load
            >>> load("MUTAG", download=False).take(torch.tensor([5, 0])).node_ptr
            tensor([ 0, 28, 45])
        """
        chosen = self.batch(index)
        ptrs = [
            torch.cat([sizes.new_zeros(1), sizes[index.cpu()].cumsum(0)]) for sizes in self._sizes
        ]
        node_ptr, edge_ptr = (ptr.to(self.y.device) for ptr in ptrs)
        return replace(
            self, x=chosen.x, edge_index=chosen.edge_index, y=chosen.y, node_ptr=node_ptr,
            edge_ptr=edge_ptr, edge_attr=chosen.edge_attr,
        )  # fmt: skip

    def standardised_on(self, index: Tensor) -> GraphSet:
        """The set with degree scalars standardised over some graphs only (an inductive fold).

        Args:
            index: int64 ids of the graphs that mean and deviation may see.

        Returns:
            The set itself unless its features are ``degree-scalar``: no other kind has statistics.
        """
        if self.features != "degree-scalar":
            return self
        ids = checked_ids(index, self.n_graphs, "index")
        nodes, _, _ = _slices(self.node_ptr, ids.to(self.y.device), int(self._sizes[0][ids].sum()))
        degree = torch.bincount(self.edge_index[0], minlength=self.n_nodes).double()
        return replace(self, x=standardise(degree.unsqueeze(1), nodes).float())

    def encoded(self, names: Sequence[str]) -> GraphSet:
        """The set with structural encodings behind its features.

        Arguments and errors are those of :func:`gcl_hard.graphs.encodings.encoded`.
        """
        from gcl_hard.graphs.encodings import encoded  # it imports this module

        return encoded(self, names)

    @classmethod
    def from_graphs(
        cls, graphs: Iterable[GraphLike], *, name: str = "custom", features: str = "auto"
    ) -> GraphSet:
        """Your own graphs: a list or data set of PyTorch Geometric ``Data``, or objects like it.

        Args:
            graphs: each with edge_index int64 [2, e], y (one integer label), x float [n, F] or
                None (then num_nodes counts), edge_attr [e, K] or None.
            name: what results call the set.
            features: ``auto`` takes x where the graphs have one (recorded as ``attributes``);
                otherwise as in :func:`gcl_hard.graphs.features.node_features`.

        Returns:
            The set; labels are renumbered 0..C-1 in increasing order.

        Raises:
            InputError: no graphs, a graph without exactly one integer label, without nodes, with
                node ids out of range, or with other columns than the first one.

        Example:
            >>> from types import SimpleNamespace
            >>> pair = torch.tensor([[0, 1], [1, 0]])
            >>> one = dict(x=None, edge_attr=None, edge_index=pair)
            >>> graphs = [SimpleNamespace(y=y, num_nodes=y, **one) for y in (2, 3)]
            >>> GraphSet.from_graphs(graphs).y
            tensor([0, 1])
        """
        raw = collate(graphs)
        if features == "auto" and raw.node_attributes is not None:
            features = "attributes"
        return cls.from_raw(raw, name=name, features=features)

    @classmethod
    def from_raw(cls, raw: RawGraphs, *, name: str, features: str = "auto") -> GraphSet:
        """A set as read, with node features chosen.

        Args:
            raw: from :func:`gcl_hard.graphs.reading.parse` or your own reader.
            name: what results call the set.
            features: as in :func:`gcl_hard.graphs.features.node_features`.

        Returns:
            The set; edge attributes stand before one-hot edge labels where there are both.

        Raises:
            InputError: the set lacks the features asked for.
        """
        x, kind = node_features(
            features,
            raw.edge_index,
            int(raw.node_ptr[-1]),
            labels=raw.node_labels,
            attributes=raw.node_attributes,
        )
        edge_columns = [part for part in (raw.edge_attributes, raw.edge_labels) if part is not None]
        return cls(
            name=name,
            x=x,
            edge_index=raw.edge_index,
            y=raw.y,
            node_ptr=raw.node_ptr,
            edge_ptr=raw.edge_ptr,
            n_classes=int(raw.y.max()) + 1,
            features=kind,
            edge_attr=torch.cat(edge_columns, dim=1) if edge_columns else None,
        )


def _slices(ptr: Tensor, ids: Tensor, total: int) -> tuple[Tensor, Tensor, Tensor]:
    """Positions owned by the ids in ``ptr``, each one's place in ``ids``, and old - new start."""
    sizes = ptr[ids + 1] - ptr[ids]
    shift = ptr[ids] - (sizes.cumsum(0) - sizes)
    places = torch.arange(ids.numel(), device=ids.device)
    owner = torch.repeat_interleave(places, sizes, output_size=total)
    return torch.arange(total, device=ids.device) + shift[owner], owner, shift


def checked_ids(index: Tensor, n_graphs: int, what: str, *, least: int = 1) -> Tensor:
    """The ids on the CPU, once they are known to be ids."""
    if index.dtype != torch.int64 or index.ndim != 1 or index.numel() < least:
        raise InputError(
            f"{what} is {index.dtype} {list(index.shape)}; expected graph ids, int64 [B], B >= 1"
        )
    ids = index.cpu()
    if ids.numel() and not (ids.min() >= 0 and ids.max() < n_graphs):
        bounds = f"{int(ids.min())}..{int(ids.max())}"
        raise InputError(f"{what} holds graph ids {bounds}; this set has 0..{n_graphs - 1}")
    return ids
