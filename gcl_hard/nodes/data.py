"""A graph for node classification: features, edges, classes and given splits, on a device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.core.ids import checked_names
from gcl_hard.core.labels import classes
from gcl_hard.errors import InputError
from gcl_hard.files.io import digest_of_arrays
from gcl_hard.files.tables import name_of_table
from gcl_hard.graphs.copies import on_device
from gcl_hard.graphs.features import aligned_columns
from gcl_hard.graphs.order import Ids, checked_ids
from gcl_hard.graphs.parts import Merge, count, splits
from gcl_hard.graphs.sparse import csr, in_degree, rows_of
from gcl_hard.nodes.sources import RawNodes, from_object, read_graph
from gcl_hard.nodes.tables import TableReading, read_tables
from gcl_hard.nodes.views import NodeBatch

SCALED = 'rows of features scaled to the sum 1, unless features="stored" (--features stored)'
DOMINANT = 0.99
"""Share of the squares of all columns from which one hides the others."""


@dataclass(frozen=True, eq=False, repr=False)
class NodeSet:
    """A graph with node classes.

    Attributes:
        name: name of the set.
        x: float32 [N, F], dense or ``torch.sparse_csr``: features stored sparse stay so if less
            than a quarter of the entries are non-zero, and dense ones become sparse below a tenth.
        edge_index: int64 [2, E], both directions of each undirected edge, sorted by row, then by
            column; no repeats, no self-loops.
        y: int64 [N] in 0..C-1; −1 where unknown.
        edge_weight: float32 [E], above 0, or None.
        train: bool [S, N], the training nodes of S given splits, or None.
        val: likewise, for validation.
        test: likewise, for tests.
        class_names: names of the C classes in the source.
        ids: names of the nodes in the source, or None.
        columns: names of the F columns of ``x``; empty if unknown.
        notes: what was changed of the stored graph, a sentence each.
        table: how it was read, of a set from tables.

    Example:
        >>> from torch_geometric.data import Data
        >>> ends = torch.tensor([[0, 1, 2], [1, 2, 2]])
        >>> graph = Data(torch.ones(4, 2), ends, y=torch.tensor([5, 7, 7, 5]))
        >>> nodes = NodeSet.from_graph(graph)
        >>> nodes
        NodeSet(own: 4 nodes with 2 features, 2 edges, 2 classes)
        >>> nodes.edge_index.tolist(), nodes.degree.tolist()
        ([[0, 1, 1, 2], [1, 0, 2, 1]], [1, 2, 1, 0])
        >>> nodes.notes
        ('made symmetric: 2 edges had one direction', '1 self-loop dropped', '1 isolated node kept')
    """

    name: str
    x: Tensor
    edge_index: Tensor
    y: Tensor
    edge_weight: Tensor | None = None
    train: Tensor | None = None
    val: Tensor | None = None
    test: Tensor | None = None
    class_names: tuple[str, ...] = ()
    ids: tuple[Hashable, ...] | None = None
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    table: TableReading | None = None

    def __repr__(self) -> str:
        splits_text = "" if self.train is None else f", {count(len(self.train), 'given split')}"
        return (
            f"{type(self).__name__}({self.name}: {self.n_nodes} nodes with {self.n_features} "
            f"{'sparse ' * self.is_sparse}features, {self.n_edges // 2} edges, {self.n_classes} "
            f"classes{splits_text})"
        )

    @property
    def names(self) -> NDArray[Any]:
        """``ids`` as an array, [N]; without any, 0 to N − 1."""
        ids = self.ids
        if ids is not None and not all(isinstance(node_id, int | np.integer) for node_id in ids):
            ids = tuple(map(str, ids))  # no file holds mixed types
        return checked_names(ids, self.n_nodes, "node")

    @property
    def n_nodes(self) -> int:
        """N."""
        return self.x.shape[0]

    @property
    def n_edges(self) -> int:
        """E, which counts both directions of an edge."""
        return self.edge_index.shape[1]

    @property
    def n_features(self) -> int:
        """F."""
        return self.x.shape[1]

    @property
    def n_classes(self) -> int:
        """C."""
        return len(self.class_names)

    @property
    def is_sparse(self) -> bool:
        """Whether ``x`` is ``torch.sparse_csr``."""
        return self.x.layout == torch.sparse_csr

    @property
    def has_negative(self) -> bool:
        """Whether a feature is below 0."""
        return bool(((self.x.values() if self.is_sparse else self.x) < 0).any())

    @cached_property
    def degree(self) -> Tensor:
        """The number of neighbours of each node, int64 [N]."""
        return in_degree(self.edge_index, self.n_nodes)

    def to(self, device: torch.device | str) -> NodeSet:
        """The same set on a device."""
        return on_device(self, device)

    def dense(self) -> NodeSet:
        """The same set with dense features."""
        return replace(self, x=self.x.to_dense()) if self.is_sparse else self

    def batches(
        self, batch_size: int | None = None, *, seed: int = 0
    ) -> Callable[[int], list[NodeBatch]]:
        """A function from an epoch to its one batch, the whole graph, for :func:`gcl_hard.fit`.

        :class:`Neighbourhoods` makes batches of some nodes.

        Args:
            batch_size: not read.
            seed: not read.
        """
        return lambda epoch: [self.as_batch()]

    def as_batch(self) -> NodeBatch:
        """The whole graph as one batch, without labels outside the first split's training nodes."""
        y = self.y if self.train is None else self.y.where(self.train[0], -1)
        return NodeBatch(self.x, self.edge_index, self.edge_weight, y)

    def rows(self, ids: Ids) -> Tensor:
        """The features of some nodes, float32 [n, F], dense or sparse as ``x`` is.

        Args:
            ids: [n], ids in 0..N-1 in any order, repeats allowed, or a mask [N].

        Raises:
            InputError: if it is empty, of another type or shape, or out of range.

        Example:
            >>> nodes = NodeSet("eye", torch.eye(3), torch.zeros(2, 0).long(), torch.arange(3))
            >>> nodes.rows([2, 0])
            tensor([[0., 0., 1.],
                    [1., 0., 0.]])
        """
        chosen = checked_ids(ids, self.n_nodes, "ids", unit="node").to(self.x.device)
        return rows_of(self.x, chosen)

    def normalised(self) -> NodeSet:
        """The same set with rows of features that sum to 1; rows of zeros stay.

        Raises:
            InputError: for negative features.

        Source:
            ``NormalizeFeatures`` of PyTorch Geometric, which leaves rows that sum to less than 1.
        """
        values = self.x.values() if self.is_sparse else self.x
        if self.has_negative:
            raise InputError(
                f"features of {self.name} have negative values, and rows cannot be scaled to a sum "
                f"of 1, as an encoder trained on scaled rows reads them"
            )
        notes = (*dict.fromkeys((*self.notes, SCALED)),)
        if not self.is_sparse:
            sums = self.x.sum(dim=1, keepdim=True)
            return replace(self, x=self.x / torch.where(sums > 0, sums, 1), notes=notes)
        ptr, columns = self.x.crow_indices(), self.x.col_indices()
        row = torch.repeat_interleave(ptr.diff(), output_size=len(columns))
        sums = values.new_zeros(self.n_nodes).index_add(0, row, values)
        return replace(
            self, x=csr(ptr, columns, values / sums[row], (self.n_nodes, self.n_features)),
            notes=notes,
        )  # fmt: skip

    def aligned(self, columns: Sequence[str]) -> NodeSet:
        """The set with the columns of another set, such as an encoder's training data.

        Args:
            columns: names of columns of ``x``, in their new order; kinds (``label=3``) that no node
                here has are 0.

        Returns:
            The new set, or this one if it has these columns.

        Raises:
            InputError: if a node has a kind that no column stands for, or a column is missing.

        Example:
            >>> nodes = NodeSet(
            ...     "two", torch.tensor([[1.0, 2.0]]), torch.zeros(2, 0).long(), torch.tensor([0]),
            ...     columns=("age", "sum"),
            ... )
            >>> nodes.aligned(["sum", "age"]).x
            tensor([[2., 1.]])
        """
        if (*columns,) == self.columns:
            return self
        x = aligned_columns(self.x, self.columns, columns, field="x", name=self.name)
        return replace(self, x=x, columns=(*columns,))

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits of all arrays and node names, the same on every device."""
        x = (
            [self.x.crow_indices(), self.x.col_indices(), self.x.values()]
            if self.is_sparse
            else [self.x]
        )
        optional = (self.edge_weight, self.train, self.val, self.test)
        arrays: list[Any] = [[] if array is None else array for array in optional]
        names: list[Any] = [] if self.ids is None else [self.names]
        if self.columns:
            names.append(["columns", *self.columns])
        return digest_of_arrays(*x, list(self.x.shape), self.edge_index, self.y, *arrays, *names)

    @classmethod
    def from_raw(cls, raw: RawNodes, *, name: str, where: str = "") -> NodeSet:
        """A set from what was read, checked.

        Args:
            raw: from :func:`gcl_hard.nodes.sources.from_object` or a reader of your own.
            name: name of the set in results.
            where: its name in messages; ``name`` by default.

        Raises:
            InputError: for features, edges, labels or masks that do not fit.
        """
        where = where or name
        x, edges = read_graph(raw, where)
        if raw.columns and len({*raw.columns}) != x.shape[1]:
            raise InputError(
                f"{where}: {len({*raw.columns})} different names of {x.shape[1]} columns of x"
            )
        labels = np.full(len(x), np.nan) if raw.y is None else raw.y
        codes, class_names = classes(labels, len(x), where, names=raw.class_names)
        y = torch.from_numpy(codes)
        n_unknown = int((y < 0).sum())
        notes = [*raw.notes, *edges.notes]
        if n_unknown:
            notes.append(f"{count(n_unknown, 'node')} without a label (−1, NaN or nothing)")
        masks = splits(raw.masks, y, where)
        n_repeated = 0 if raw.ids is None else len(raw.ids) - len({*map(str, raw.ids)})
        if n_repeated:
            notes.append(f"{count(n_repeated, 'node')} called as another one is")
        return cls(
            name=name, x=x, edge_index=edges.edge_index, y=y, edge_weight=edges.edge_weight,
            train=masks.get("train"), val=masks.get("val"), test=masks.get("test"),
            class_names=class_names, ids=raw.ids, columns=(*raw.columns,), notes=tuple(notes),
        )  # fmt: skip

    @classmethod
    def from_graph(
        cls,
        graph: Any,
        *,
        x: Any = None,
        y: Any = None,
        name: str = "own",
        train: Any = None,
        val: Any = None,
        test: Any = None,
    ) -> NodeSet:
        """A set from your own graph.

        Edges of one direction are made symmetric, self-loops dropped, repeated edges merged and
        isolated nodes kept, all counted in ``notes``. Features are kept as they are; experiments
        scale each row to the sum 1 (:meth:`normalised`) unless some are negative, or
        ``features="stored"`` says otherwise.

        Args:
            graph: a ``torch_geometric.data.Data`` (x, edge_index or adj_t, edge_weight, y, and
                train_mask, val_mask and test_mask, [N] or [N, S]); a NetworkX graph, whose nodes
                have attributes x and y, and its edges a weight or none; or a square sparse matrix
                of SciPy, with x and y given, whose entries are weights unless all are 1.
            x: features [N, F] in place of the graph's own, a row for each node: an array, a tensor
                or a matrix of SciPy, dense or sparse, in the graph's order; a DataFrame, whose
                rows are found by its index and whose ``columns`` are kept; of a NetworkX graph
                also the name of an attribute of nodes. An index has the names of the nodes, or
                where the graph has none 0 to N − 1. A list of names of attributes, of PyTorch
                Geometric's graphs too: words and truth values become a column of 0 and 1 for each
                value, numbers are taken as they are.
            y: classes [N] in place of the graph's own, whole numbers or words, with −1 or NaN
                (words: None or nothing) where unknown; likewise, or the name of an attribute.
                Without any, the graph can be trained on without labels, and embedded.
            name: name of the set in results.
            train: training nodes of given splits, bool [N], or [S, N] for several; a Series by its
                index.
            val: likewise, for validation.
            test: likewise, for tests.

        Returns:
            The set, on the CPU.

        Raises:
            InputError: for a graph of another type, without features, or whose parts do not fit.

        Warns:
            UserWarning: for tensors and arrays of the graph that are not read, for arrays taken in
                the order of a graph whose nodes have names, and for a column beside whose numbers
                all others are small.

        Example:
            >>> import networkx
            >>> club = networkx.karate_club_graph()
            >>> NodeSet.from_graph(club, x=torch.eye(34), y="club").class_names
            ('Mr. Hi', 'Officer')
        """
        masks = {"train": train, "val": val, "test": test}
        nodes = cls.from_raw(from_object(graph, x, y, masks), name=name)
        if nodes.columns and nodes.x.layout == torch.strided:
            squares = nodes.x.double().square().mean(0)
            if nodes.n_features > 1 and float(squares.max()) > DOMINANT * float(squares.sum()):
                warnings.warn(
                    f"column {nodes.columns[int(squares.argmax())]} makes up nearly all of the "
                    f"rows' length, so that all nodes look alike: scale the columns, as "
                    f"NodeSet.from_tables does",
                    stacklevel=2,
                )
        return nodes

    @classmethod
    def from_tables(
        cls,
        nodes: Any,
        edges: Any,
        *,
        id: str | None = None,
        source: str | None = None,
        target: str | None = None,
        label: str | None = None,
        weight: str | None = None,
        split: str | None = None,
        columns: Sequence[str] | None = None,
        categories: Sequence[str] = (),
        merge_weights: Merge | None = None,
        like: NodeSet | TableReading | None = None,
        name: str | None = None,
    ) -> NodeSet:
        """A set from a table of nodes and a table of edges.

        Words become a column of 0 and 1 each, in increasing order, truth values one, and numbers
        are scaled to mean 0 and deviation 1. A missing number is the mean, a missing word has 0
        everywhere, and a column NAME ``missing`` says so, if there are any. Means, deviations and
        words are those of the training rows of ``split``; without it of all rows, whose features
        the encoder sees, and no label enters. Edges are undirected, and changed as by
        :meth:`from_graph`.

        Args:
            nodes: a DataFrame, or the path of a CSV or Parquet file; a row for each node.
            edges: likewise, a row for each edge.
            id: column with the ids of nodes, numbers or words; ``id`` if None, or else the first.
            source: column of edges with the id of one end; ``source``, ``src`` or ``from`` if
                None, or else the first.
            target: with that of the other; ``target``, ``dst`` or ``to``, or else the second.
            label: column of nodes with their classes, missing where unknown; ``label`` if None, if
                there is one.
            weight: column of edges with their weights; ``weight`` if None, if there is one.
            split: column of nodes with the words train, valid and test; ``split`` if None, if
                there is one.
            columns: columns of nodes that are features; all others if None.
            categories: those of them whose numbers are words, such as codes.
            merge_weights: ``sum``, ``mean`` or ``max`` of the weights of all rows of an edge, in
                either direction; if None they must be equal.
            like: a set, or its ``table``, whose columns, words, means and deviations are used: for
                later rows that an encoder of that set embeds. Classes are numbered as in the set.
            name: name of the set in results; that of the file of nodes, or ``own``, if None.

        Returns:
            The set, on the CPU. ``notes`` say which columns were read, and count what was missing
            and, with ``like``, words that were not known.

        Raises:
            InputError: for ids that repeat, edges of other nodes, an edge of several weights, a
                column that is not there, and one of dates, of more than 1,000 words, or without a
                value.

        Example:
            >>> import pandas as pd
            >>> people = pd.DataFrame({"id": ["ann", "bob", "cid"], "age": [20, 40, None],
            ...                        "city": ["Köln", "Ulm", "Köln"], "label": ["a", "b", None]})
            >>> calls = pd.DataFrame({"from": ["ann", "bob"], "to": ["bob", "cid"]})
            >>> nodes = NodeSet.from_tables(people, calls)
            >>> nodes.columns, nodes.y.tolist()
            (('age', 'age missing', 'city=Köln', 'city=Ulm'), [0, 1, -1])
            >>> nodes.x.to_dense().tolist()
            [[-1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]]
        """
        first = like if isinstance(like, NodeSet) else None
        reading = like.table if isinstance(like, NodeSet) else like
        if first is not None and reading is None:
            raise InputError(f"{first.name} was made of no tables: give a set that was, as like")
        raw, table = read_tables(
            nodes, edges, id=id, source=source, target=target, label=label, weight=weight,
            split=split, columns=columns, categories=categories, merge_weights=merge_weights,
            like=reading,
        )  # fmt: skip
        name = name_of_table(nodes) if name is None else name
        made = replace(cls.from_raw(raw, name=name), table=table)
        return made if first is None else made._with_classes(first.class_names)

    def _with_classes(self, names: tuple[str, ...]) -> NodeSet:
        """The same set with the classes of an earlier one, by their names."""
        if new := {*self.class_names} - {*names}:
            raise InputError(
                f"{self.name} has nodes of the class {min(new)}, none of {', '.join(names)}"
            )
        numbers = torch.tensor([*map(names.index, self.class_names), -1])
        return replace(self, y=numbers[self.y], class_names=names)


def own_nodes(graph: Any) -> NodeSet:
    """A ``NodeSet`` as it is, or one made from another graph by ``NodeSet.from_graph``."""
    return graph if isinstance(graph, NodeSet) else NodeSet.from_graph(graph)
