"""A whole graph set pre-collated once, batches sliced from it by index, and their order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.graphs.custom import GraphLike, collate
from gcl_hard.graphs.features import node_features, standardise
from gcl_hard.graphs.reading import RawGraphs
from gcl_hard.seeds import seeded


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


def epoch_batches(
    n_graphs: int, batch_size: int, *, seed: int, epoch: int, held_out: Tensor | None = None
) -> list[Tensor]:
    """The batches of one epoch: a permutation of all graphs, cut, held-out graphs dropped.

    Held-out graphs leave the batches they fell in, so models trained on different folds see the
    remaining graphs in the same order. A batch left with fewer than two graphs has no negatives
    and joins its neighbour.

    Args:
        n_graphs: G.
        batch_size: graphs per batch, >= 2, before any is dropped.
        seed: >= 0, of the order.
        epoch: >= 0; each has its own permutation.
        held_out: int64 ids of the graphs to leave out.

    Returns:
        CPU int64 index tensors of at least two graphs each.

    Raises:
        InputError: a size or seed out of range, or fewer than two graphs remain.

    Example:
        >>> batches = epoch_batches(5, 2, seed=0, epoch=1, held_out=torch.tensor([3]))
        >>> sorted(torch.cat(batches).tolist())
        [0, 1, 2, 4]
    """
    kept = torch.ones(n_graphs, dtype=torch.bool)
    if held_out is not None:
        kept[checked_ids(held_out, n_graphs, "held_out", least=0)] = False
    chunks = epoch_chunks(n_graphs, batch_size, seed=seed, epoch=epoch, kept=kept[None])
    return [chunk[kept[chunk]] for chunk in chunks]


def epoch_chunks(
    n_graphs: int, batch_size: int, *, seed: int, epoch: int, kept: Tensor | None = None
) -> list[Tensor]:
    """The batches of one epoch before held-out graphs are dropped, for several models at once.

    Args:
        n_graphs: G.
        batch_size: as in :func:`epoch_batches`; so are seed and epoch.
        seed: of the order.
        epoch: of the order.
        kept: bool [P, G], graphs that each model trains on; None if all do.

    Returns:
        CPU int64 index tensors.

    Raises:
        InputError: a size or seed out of range, a model with fewer than two graphs, or models
            whose held-out graphs would join different batches.

    Example:
        >>> sum(len(chunk) for chunk in epoch_chunks(5, 2, seed=0, epoch=1))
        5
    """
    for what, got, least in (("batch_size", batch_size, 2), ("seed", seed, 0), ("epoch", epoch, 0)):
        if got < least:
            raise InputError(f"{what}={got}; expected an integer >= {least}")
    kept = torch.ones(1, n_graphs, dtype=torch.bool) if kept is None else kept
    if (least := int(kept.sum(1).min())) < 2:
        raise InputError(f"{least} of {n_graphs} graphs to train on; expected >= 2")
    order = torch.randperm(n_graphs, generator=seeded(seed, epoch))
    chunks = torch.split(order, batch_size)
    left = torch.stack([part.sum(1) for part in torch.split(kept[:, order], batch_size, 1)], 1)
    if int(left.min()) >= 2:
        return list(chunks)
    joined = {tuple(_joined(row)) for row in left.tolist()}
    if len(joined) > 1:
        raise InputError(
            f"held-out graphs leave the models different batches in epoch {epoch}: train them in "
            f"populations of their own"
        )
    return [torch.cat([chunks[i] for i in group]) for group in joined.pop()]


def _joined(left: list[int]) -> list[tuple[int, ...]]:
    """Neighbouring chunks, joined so that none is left with fewer than two graphs."""
    groups: list[tuple[int, ...]] = []
    for i, n in enumerate(left):
        if groups and min(n, sum(left[j] for j in groups[-1])) < 2:
            groups[-1] += (i,)
        else:
            groups.append((i,))
    return groups
