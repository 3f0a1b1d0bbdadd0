"""Sets of labelled items, and of vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.core.ids import checked_names, repeated
from gcl_hard.core.labels import classes
from gcl_hard.errors import InputError, unknown
from gcl_hard.evaluation.checks import as_array, check_numbers
from gcl_hard.files.io import digest_of_arrays
from gcl_hard.files.tables import name_of_table, parts_of, read_table

UNKNOWN = -1
"""The label of an item whose class is not known, and the part of one that is in none."""
Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LabelledItems:
    """Items with classes: what vectors and texts share.

    Attributes:
        name: name of the set.
        y: int64 [n] in 0..C-1; −1 where unknown.
        class_names: names of the C classes in the source.
        names: ids of the items, [n], numbers or words.
        split: int8 [n], the given split: 0 train, 1 valid, 2 test, −1 in none; or None.
        notes: how the data were read, a sentence each.
        item: what an item is called.
    """

    item: ClassVar[str] = "item"

    name: str
    y: NDArray[np.int64]
    class_names: tuple[str, ...]
    names: NDArray[Any]
    split: NDArray[np.int8] | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        split = "" if self.split is None else ", a given split"
        return (
            f"{type(self).__name__}({self.name}: {len(self)} {self.item}s, {self.n_classes} "
            f"classes{split})"
        )

    @property
    def n_classes(self) -> int:
        """C."""
        return len(self.class_names)

    @property
    def labelled(self) -> NDArray[np.int64]:
        """Ids of the items whose class is known, ascending."""
        return np.flatnonzero(self.y != UNKNOWN)

    def digest_with(self, *inputs: Any) -> str:
        """Sixteen hexadecimal digits of the items' inputs, classes, names and split."""
        split: Any = [] if self.split is None else self.split
        return digest_of_arrays(*inputs, self.y, [*self.class_names], self.names, split)

    @classmethod
    def fields(cls, n: int, name: str, y: Any, ids: Any, split: Any) -> dict[str, Any]:
        """The fields that all sets have, checked.

        Args:
            n: number of items.
            name: name of the set.
            y: classes [n], whole numbers or words; −1, NaN or nothing where unknown; or None.
            ids: names [n], or None.
            split: words train, valid and test [n], nothing in none; or their numbers; or None.

        Raises:
            InputError: for labels, ids or parts that do not fit, and an id of several items.
        """
        labels = np.full(n, np.nan) if y is None else y
        codes, class_names = classes(labels, n, name, item=cls.item)
        names, notes = checked_names(ids, n, cls.item), []
        if several := repeated(names):
            kinds, counts = np.unique(names, return_counts=True)
            raise InputError(
                f"{name}: {several} ids stand for several {cls.item}s, such as "
                f"{kinds[counts.argmax()]}: give each one id"
            )
        if n_unknown := int((codes == UNKNOWN).sum()):
            notes.append(f"{cls.item}s without a label: {n_unknown:,}")
        parts = None if split is None else _parts(split, n, name)
        if parts is not None and (n_none := int((parts == UNKNOWN).sum())):
            notes.append(f"{cls.item}s in no part of the given split: {n_none:,}")
        return {
            "name": name, "y": codes, "class_names": class_names, "names": names, "split": parts,
            "notes": tuple(notes),
        }  # fmt: skip


def _parts(split: Any, n: int, name: str) -> NDArray[np.int8]:
    values = as_array("split", split)
    if values.shape != (n,):
        raise InputError(f"{name}: split is {[*values.shape]}, expected a part for each, [{n}]")
    if values.dtype.kind in "OUS":
        values = parts_of([None if v in (None, "") else str(v) for v in values], f"{name}: split")
    if values.dtype.kind not in "iu" or not np.isin(values, (UNKNOWN, 0, 1, 2)).all():
        raise InputError(f"{name}: split has the words train, valid and test, or 0, 1 and 2")
    parts = values.astype(np.int8)
    if absent := [part for part, number in (("train", 0), ("test", 2)) if number not in parts]:
        raise InputError(f"{name}: the given split has no {absent[0]} part")
    return parts


def shuffled(ids: NDArray[np.int64], batch_size: int, *key: int) -> list[NDArray[np.int64]]:
    """Ids in an order drawn by whole numbers, cut into the fewest nearly equal batches.

    Example:
        >>> [*map(len, shuffled(np.arange(9), 8, 0))]
        [5, 4]
    """
    order = np.random.default_rng(key).permutation(ids)
    return np.array_split(order, math.ceil(len(ids) / batch_size))


def label_columns(
    table: Any, kind: str, *, label: str | None, id: str | None, split: str | None
) -> tuple[Columns, dict[str, Any]]:
    """The columns of a table but for labels, ids and parts; and these, arguments of ``fields``.

    Args:
        table: a file or a DataFrame, as of :func:`gcl_hard.files.tables.read_table`.
        kind: what it holds, for messages.
        label: column of classes; ``label`` if None, if there is one.
        id: column of ids, likewise ``id``.
        split: column with the words train, valid and test, likewise ``split``.
    """
    columns = read_table(table, kind)
    folded = {name.casefold(): name for name in reversed([*columns])}
    read: dict[str, Any] = {}
    for argument, usual, named in (("y", "label", label), ("ids", "id", id),
                                   ("split", "split", split)):  # fmt: skip
        name = folded.get(usual) if named is None else named
        if not isinstance(name, str | None):
            raise InputError(f"{usual} is the name of a column of {kind}, got {name!r}")
        if name is not None and name not in columns:
            raise unknown(f"column of {kind}", name, columns)
        read[argument] = None if name is None else columns.pop(name)
    return columns, read


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class VectorSet(LabelledItems):
    """Vectors with classes.

    Attributes:
        x: float32 [n, d].
        columns: names of the d columns; empty if unknown.

    Example:
        >>> vectors = VectorSet.from_arrays([[1.0, 0.0], [0.0, 1.0]], ["a", "b"], name="two")
        >>> vectors, vectors.class_names
        (VectorSet(two: 2 vectors, 2 classes), ('a', 'b'))
    """

    item: ClassVar[str] = "vector"

    x: NDArray[np.float32]
    columns: tuple[str, ...] = ()

    @property
    def n_features(self) -> int:
        """d."""
        return self.x.shape[1]

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits of all arrays and names."""
        return self.digest_with(self.x, ["columns", *self.columns])

    def batches(
        self, batch_size: int = 256, *, seed: int = 0
    ) -> Callable[[int], list[tuple[Tensor, Tensor]]]:
        """A function from an epoch to its batches of vectors and labels, for :func:`gcl_hard.fit`.

        With a split they are those of the training part.

        Args:
            batch_size: vectors in a batch at most; batches are nearly equal.
            seed: of the order.
        """
        x, y = torch.from_numpy(self.x), torch.from_numpy(self.y)
        chosen = np.arange(len(x)) if self.split is None else np.flatnonzero(self.split == 0)

        def of_epoch(epoch: int) -> list[tuple[Tensor, Tensor]]:
            return [(x[ids], y[ids]) for ids in shuffled(chosen, batch_size, seed, epoch)]

        return of_epoch

    @classmethod
    def from_arrays(
        cls,
        x: Any,
        y: Any = None,
        *,
        split: Any = None,
        ids: Sequence[Hashable] | None = None,
        columns: Sequence[str] = (),
        name: str = "own",
    ) -> Self:
        """A set of arrays.

        Args:
            x: real numbers [n, d], an array or a tensor.
            y: classes [n], whole numbers or words; −1, NaN or nothing where unknown; or None.
            split: parts [n], the words train, valid and test, or 0, 1 and 2; validation is drawn
                from training where there is none.
            ids: names of the vectors [n]; 0 to n − 1 if None.
            columns: names of the d columns.
            name: name of the set in results.

        Raises:
            InputError: for numbers that are not finite, and what does not fit.
        """
        rows = check_numbers(f"vectors of {name}", x, dtype=np.float32)
        if len(columns) not in (0, rows.shape[1]):
            raise InputError(f"{name}: {len(columns)} names of {rows.shape[1]} columns")
        return cls(x=rows, columns=(*columns,), **cls.fields(len(rows), name, y, ids, split))

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        columns: Sequence[str] | None = None,
        label: str | None = None,
        id: str | None = None,
        split: str | None = None,
        name: str | None = None,
    ) -> Self:
        """A set of a table with a row for each vector.

        Args:
            table: a DataFrame, or the path of a CSV or Parquet file.
            columns: columns of numbers that are the vector, or one column of lists; all others if
                None.
            label: column of classes; ``label`` if None, if there is one.
            id: column of ids, likewise ``id``.
            split: column with the words train, valid and test, likewise ``split``.
            name: name of the set in results; that of the file, or ``own``, if None.

        Raises:
            InputError: for columns that are not there or hold words, a missing number, lists of
                two lengths, and an id of several rows.

        Example:
            >>> import pandas as pd
            >>> frame = pd.DataFrame({"id": [7, 8], "a": [1, 2], "b": [0.5, 0.0], "label": [1, 0]})
            >>> vectors = VectorSet.from_table(frame)
            >>> vectors.columns, vectors.names.tolist()
            (('a', 'b'), [7, 8])
        """
        name = name_of_table(table) if name is None else name
        others, read = label_columns(table, "vectors", label=label, id=id, split=split)
        for column in columns or ():
            if column not in others:
                raise unknown("column of vectors", column, others)
        chosen = others if columns is None else {column: others[column] for column in columns}
        if not chosen:
            raise InputError(f"{name} has no columns of numbers beside labels, ids and parts")
        x, names = _numbers(chosen, name)
        return cls.from_arrays(x, read["y"], split=read["split"], ids=read["ids"], columns=names,
                               name=name)  # fmt: skip


def _numbers(columns: Mapping[str, NDArray[Any]], name: str) -> tuple[Any, Sequence[str]]:
    """The vectors in columns of numbers, or in one of lists, and the names of their columns."""
    if len(columns) == 1:
        (values,) = columns.values()
        if values.dtype == object and all(isinstance(v, list | np.ndarray) for v in values):
            widths = sorted({len(v) for v in values})
            if len(widths) > 1:
                raise InputError(
                    f"{name}: vectors have {widths[0]} to {widths[-1]} numbers, expected as many "
                    f"in each"
                )
            return np.stack([np.asarray(v) for v in values]), ()
    words = [column for column, values in columns.items() if values.dtype == object]
    if words:
        rest = ",".join(column for column in columns if column not in words)
        raise InputError(
            f"{name}: column {words[0]} holds no numbers: leave it out (--columns {rest or '…'}), "
            f"name the columns of labels and ids (--label, --id), or give the edges of nodes "
            f"(--edges)"
        )
    return np.stack([*columns.values()], axis=1), [*columns]
