"""A graph from a table of nodes and a table of edges, and how its columns become features."""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from gcl_hard.errors import InputError, check_option, unknown
from gcl_hard.files.tables import CODE, parts_of, read_table
from gcl_hard.graphs.attributes import MOST_KINDS
from gcl_hard.graphs.parts import PARTS, Merge, count
from gcl_hard.nodes.sources import RawNodes

Columns = Mapping[str, NDArray[Any]]
USUAL = {
    "id": ("id",), "label": ("label",), "split": ("split",), "weight": ("weight",),
    "source": ("source", "src", "from"), "target": ("target", "dst", "to"),
}  # fmt: skip
"""Names by which columns are recognised, in any case."""
LIKE_LABELS = ("label", "labels", "class", "classes", "target", "y")
"""Names of columns that may have classes, of which a user is warned where they are features."""
NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")
DATE = re.compile(r"(\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./]\d{2,4})([ T].*)?")
SHOWN = 3


@dataclass(frozen=True)
class TableFeature:
    """How a column of a table becomes columns of features.

    Words become one column each, numbers (v − ``centre``) / ``scale``. A word that is not among
    ``words`` has 0 in all of its columns.

    Attributes:
        name: the column.
        words: its words in order, or None for numbers and truth values.
        fill: the number in place of a missing one.
        centre: mean of a number; 0 for truth values, which stay 0 and 1.
        scale: its standard deviation, likewise 1.
        flagged: whether a further column says what is missing.
    """

    name: str
    words: tuple[str, ...] | None = None
    fill: float = 0.0
    centre: float = 0.0
    scale: float = 1.0
    flagged: bool = False

    @classmethod
    def fitted(cls, name: str, values: NDArray[Any], *, category: bool = False) -> Self:
        """What the training rows of a column say.

        Args:
            name: the column.
            values: as from :func:`gcl_hard.files.tables.read_table`.
            category: whether numbers are words.

        Raises:
            InputError: for no value at all, for dates, and for more than 1,000 words.
        """
        missing = _missing(values)
        known, flagged = values[~missing], bool(missing.any())
        if not len(known):
            raise InputError(f"column {name} has no value in the rows to learn from")
        if not category and known.dtype != object:
            known = np.sort(known.astype(np.float64))  # sums do not depend on the rows' order
            if known[0] == known[-1]:
                return cls(name, None, float(known[0]), float(known[0]), 1.0, flagged)
            mean = float(known.mean())
            return cls(name, None, mean, mean, float(known.std()), flagged)
        if not category and all(isinstance(value, bool) for value in known):
            return cls(name, fill=float(np.mean(known.astype(bool))), flagged=flagged)
        words = sorted({*_texts(known)})
        if not category and all(map(DATE.fullmatch, words)):
            raise InputError(f"column {name} has dates, such as {words[0]}, and no numbers")
        odd = [word for word in words if "," in word or not NUMBER.fullmatch(word)]
        numbers = sum(NUMBER.fullmatch(word) is not None for word in words)
        codes = category or any(map(CODE.fullmatch, words))
        if odd and not codes and 2 * numbers > len(words):
            raise InputError(
                f"column {name} is of numbers but for {odd[0]!r}: correct it, or say that the "
                f"numbers are words by categories (--categories)"
            )
        if len(words) > MOST_KINDS:
            raise InputError(f"column {name} has {len(words):,} different words, each a column")
        return cls(name, tuple(words), flagged=flagged)

    @property
    def columns(self) -> list[str]:
        """Names of the columns of features."""
        words = [self.name] if self.words is None else [f"{self.name}={w}" for w in self.words]
        return words + [f"{self.name} missing"] * self.flagged

    def encoded(self, values: NDArray[Any]) -> tuple[Any, list[str]]:
        """Features of a column, sparse [n, k], and notes on what is missing or not known."""
        from scipy import sparse

        missing, notes = _missing(values), []
        if self.words is None:
            numbers = np.where(missing, self.fill, _numbers(self.name, values))
            x = sparse.csr_array(((numbers - self.centre) / self.scale)[:, None])
        else:
            number = {word: k for k, word in enumerate(self.words)}
            texts = _texts(values)
            codes = np.array([-1 if t is None else number.get(t, -1) for t in texts], np.int64)
            rows = np.flatnonzero(codes >= 0)
            entries = np.ones(len(rows)), (rows, codes[rows])
            x = sparse.csr_array(entries, shape=(len(values), len(number)))
            unseen = [t for t, code in zip(texts, codes, strict=True) if t is not None and code < 0]
            if unseen:
                some, rows_text = ", ".join(sorted({*unseen})[:SHOWN]), count(len(unseen), "row")
                notes.append(f"{self.name}: {rows_text} with unknown words ({some})")
        if missing.any():
            filled = " filled by the mean" * (self.words is None)
            notes.append(f"{self.name}: {count(int(missing.sum()), 'missing value')}{filled}")
        return (sparse.hstack([x, missing[:, None]]) if self.flagged else x), notes


@dataclass(frozen=True)
class TableReading:
    """How two tables became a graph, so that later tables are read alike.

    Attributes:
        id: column of nodes with their ids.
        source: column of edges with the ids of one end.
        target: that of the other.
        label: column of nodes with classes, if there is one.
        split: that with parts of a split, likewise.
        weight: column of edges with weights, likewise.
        features: what becomes features.
        merge_weights: how several weights of an edge become one; None if they must agree.
    """

    id: str
    source: str
    target: str
    label: str | None = None
    split: str | None = None
    weight: str | None = None
    features: tuple[TableFeature, ...] = ()
    merge_weights: Merge | None = None

    def __str__(self) -> str:
        words = [f"{f.name} ({len(f.words)})" for f in self.features if f.words is not None]
        numbers = [f.name for f in self.features if f.words is None]
        parts: dict[str, list[str | None]] = {
            "ids": [self.id], "labels": [self.label], "split": [self.split], "numbers": [*numbers],
            "words": [*words], "edges": [self.source, self.target],
            "weights": [self.weight], "merged by": [self.merge_weights],
        }  # fmt: skip
        return "columns read: " + "; ".join(
            f"{part} {', '.join(map(str, names))}" for part, names in parts.items() if any(names)
        )

    def as_dict(self) -> dict[str, Any]:
        """As records and files of encoders store it."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """What :meth:`as_dict` has stored."""
        features = (
            TableFeature(**{**f, "words": f["words"] and tuple(f["words"])})
            for f in stored["features"]
        )
        return cls(**{**stored, "features": tuple(features)})


def read_tables(
    nodes: Any,
    edges: Any,
    *,
    columns: Sequence[str] | None = None,
    categories: Sequence[str] = (),
    like: TableReading | None = None,
    **names: str | None,
) -> tuple[RawNodes, TableReading]:
    """A graph from its tables, and how they were read; arguments of ``NodeSet.from_tables``."""
    table, links = read_table(nodes, "nodes"), read_table(edges, "edges")
    if like is None:
        like = _reading(table, links, names, columns, categories)
    elif columns is not None or categories or any(names.values()):
        raise InputError("like says how tables are read: leave out all else")
    required = [like.id, *(feature.name for feature in like.features)]
    for kind, available, wanted in (
        ("nodes", table, required), ("edges", links, [like.source, like.target, like.weight])
    ):  # fmt: skip
        if absent := [name for name in wanted if name and name not in available]:
            has = ", ".join(available)
            raise InputError(f"{kind} lack the column {', '.join(absent)}: they have {has}")
    ids = keys(table[like.id], like.id)
    blocks, notes = [], [str(like)]
    for feature in like.features:
        block, more = feature.encoded(table[feature.name])
        blocks.append(block)
        notes += more
    read = {*required, like.label, like.split, like.source, like.target, like.weight}
    for kind, available in (("nodes", table), ("edges", links)):
        if unread := [name for name in available if name not in read]:
            notes.append(f"columns of {kind} that are not read: {', '.join(unread)}")
    from scipy import sparse

    raw = RawNodes(
        sparse.hstack(blocks, format="csr"), _ends(links, like, ids),
        table.get(like.label) if like.label else None,
        links[like.weight] if like.weight else None,
        once=True, n_nodes=len(ids), masks=_masks(table, like.split), ids=ids,
        columns=[column for feature in like.features for column in feature.columns],
        notes=tuple(notes), merge_weights=like.merge_weights,
    )  # fmt: skip
    return raw, like


def _reading(
    table: Columns, links: Columns, names: Mapping[str, str | None],
    features: Sequence[str] | None, categories: Sequence[str],
) -> TableReading:  # fmt: skip
    """How tables are read for the first time."""

    def column(part: str, kind: str, columns: Columns) -> str | None:
        name = names.get(part)
        if name is not None:
            return _known(name, kind, columns)
        folded = {other.casefold(): other for other in reversed([*columns])}
        return next((folded[usual] for usual in USUAL[part] if usual in folded), None)

    of_nodes = {part: column(part, "nodes", table) for part in ("id", "label", "split")}
    of_edges = {part: column(part, "edges", links) for part in ("source", "target", "weight")}
    of_nodes["id"] = of_nodes["id"] or next(iter(table))
    for part in ("source", "target"):
        others = (name for name in links if name not in of_edges.values())
        of_edges[part] = of_edges[part] or next(others, None)
    if of_edges["target"] in (None, of_edges["source"]):
        raise InputError("a table of edges has two columns of ids, and perhaps one of weights")
    if (merge := names.get("merge_weights")) is not None:
        check_option("merge_weights", merge, get_args(Merge))
        if of_edges["weight"] is None:
            raise InputError(
                "merge_weights needs a column of weights: name it by weight (--weight)"
            )
    others = (name for name in table if name not in of_nodes.values())
    chosen = [_known(n, "nodes", table) for n in (others if features is None else features)]
    if not chosen:
        raise InputError("nodes have no columns of features beside ids and labels: give some")
    if of_nodes["label"] in chosen:
        raise InputError(f"column {of_nodes['label']} is the label, which no feature may be")
    if features is None and (alike := [n for n in chosen if n.casefold() in LIKE_LABELS]):
        warnings.warn(
            f"column {alike[0]} is read as a feature: name it by label (--label) if it has "
            f"classes, or choose features by columns (--columns)",
            stacklevel=4,
        )
    for name in categories:
        _known(name, "features", dict.fromkeys(chosen))
    masks = _masks(table, of_nodes["split"])
    rows = masks["train"] if masks else slice(None)
    fitted, refused = list[TableFeature](), dict[str, str]()
    for name in chosen:
        try:
            category = name in categories
            fitted.append(TableFeature.fitted(name, table[name][rows], category=category))
        except InputError as error:
            refused[name] = str(error)
    if refused:
        rest = ",".join(name for name in chosen if name not in refused)
        raise InputError(
            f"{'; '.join(refused.values())}: name the others by columns= (--columns {rest}), or "
            f"change these"
        )
    return TableReading(**of_nodes, **of_edges, features=(*fitted,), merge_weights=merge)  # type: ignore[arg-type]


def _known(name: str, kind: str, columns: Mapping[str, Any]) -> str:
    if name not in columns:
        raise unknown(f"column of {kind}", name, columns)
    return name


def keys(values: NDArray[Any], name: str) -> tuple[Any, ...]:
    """Ids of a column, whole numbers or text.

    Raises:
        InputError: for a missing one, real numbers, and one that stands for several rows.
    """
    if values.dtype == np.float64 or _missing(values).any():
        raise InputError(
            f"ids of column {name} are missing, or are real numbers: give each row one"
        )
    ids = tuple(values.tolist() if values.dtype == np.int64 else _texts(values))
    if (most := Counter(ids).most_common(1)) and most[0][1] > 1:
        raise InputError(
            f"{most[0][1]} rows of column {name} have the id {most[0][0]}: give each node one row, "
            f"or name another column of ids by id (--id)"
        )
    return ids


def _ends(links: Columns, like: TableReading, ids: tuple[Any, ...]) -> NDArray[np.int64]:
    row = {str(name): k for k, name in enumerate(ids)}
    names = [_texts(links[end]) for end in (like.source, like.target)]
    ends = np.array([[row.get(name, -1) for name in end] for end in names], np.int64)
    if (wrong := ends < 0).any():
        strange = sorted({str(name) for end in names for name in end if name not in row})
        raise InputError(
            f"{wrong.any(0).sum():,} of {ends.shape[1]:,} edges have ends that are not among the "
            f"ids of nodes (column {like.id}), such as {', '.join(strange[:SHOWN])}: give each "
            f"node a row, or leave these edges out"
        )
    return ends.reshape(2, -1)


def _masks(table: Columns, column: str | None) -> dict[str, NDArray[np.bool_]]:
    """Parts of the split in a column of words; those without a word belong to none."""
    if column is None or column not in table:
        return {}
    numbers = parts_of(_texts(table[column]), f"column {column} of nodes")
    return {part: numbers == k for k, part in enumerate(PARTS)}


def _missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype == object:
        return np.array([value is None for value in values], bool)
    return np.asarray(np.isnan(values))


def _texts(values: NDArray[Any]) -> list[Any]:
    """Values as words, None where missing; whole numbers without a point."""
    texts = (str(v).removesuffix(".0" * isinstance(v, float)) for v in values.tolist())
    return [None if no else text for text, no in zip(texts, _missing(values), strict=True)]


def _numbers(name: str, values: NDArray[Any]) -> NDArray[np.float64]:
    if words := [v for v in values.tolist() if isinstance(v, str)]:
        raise InputError(f"column {name} had numbers before, and now {words[0]!r}")
    return values.astype(np.float64)
