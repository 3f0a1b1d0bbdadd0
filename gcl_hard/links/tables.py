"""Tables of facts: which columns they are in, and a split of them drawn by a seed."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcl_hard.errors import InputError, unknown
from gcl_hard.evaluation.checks import checked_shares
from gcl_hard.files.io import expanded, reading
from gcl_hard.files.tables import header_of, is_parquet, lines_of, parts_of

Triple = tuple[str, str, str]

ENDS = (
    ("head", "tail"), ("h", "t"), ("subject", "object"), ("subj", "obj"), ("s", "o"),
    ("source", "target"), ("src", "dst"), ("from", "to"), ("entity1", "entity2"),
    ("head_id", "tail_id"), ("head_label", "tail_label"), ("node1", "node2"),
)  # fmt: skip
RELATIONS = (
    "relation", "rel", "r", "relation_id", "relation_label", "relation_type", "relationship",
    "predicate", "pred", "p", "property",
)  # fmt: skip
VAGUE = ("type", "edge", "edge_type", "label", "kind", "verb")
"""Names of columns in small letters; the vague ones are of relations where no other is there."""
SPLIT = "split"
SHARES = (0.8, 0.1, 0.1)
"""Shares of the facts for training, validation and testing, unless others are asked for."""
EMPTY = ("None", "nan", "<NA>", "NaT")
Columns = Sequence[str] | None


def named_columns(header: Sequence[str], *, surely: bool = False) -> list[str] | None:
    """The columns of heads, relations and tails by their names alone, and that of parts if any.

    Args:
        header: names of all columns.
        surely: whether names of relations that other tables have, such as ``type``, do not count.

    Returns:
        Their names; None where the names do not say it, or say it twice.

    Example:
        >>> named_columns(["weight", "Subject", "Object", "predicate"])
        ['Subject', 'predicate', 'Object']
        >>> named_columns(["name", "size"])
    """
    by_name = {column.strip().casefold(): column for column in reversed(header)}
    ends = [pair for pair in ENDS if by_name.keys() >= {*pair}]
    relations = [name for name in RELATIONS if name in by_name]
    if not relations and not surely:
        relations = [name for name in VAGUE if name in by_name]
    if len(ends) != 1 or len(relations) != 1 or len(by_name) < len(header):
        return None
    (head, tail), more = ends[0], [by_name[SPLIT]] if SPLIT in by_name else []
    return [by_name[head], by_name[relations[0]], by_name[tail], *more]


def _header(table: Any) -> list[str]:
    """The names of the columns of a file or a data frame; InputError for what is no table."""
    if isinstance(table, str | Path):
        return header_of(expanded(table))
    if not hasattr(table, "columns"):
        raise InputError(f"a table is a file or a data frame, got {type(table).__name__}")
    return [str(column) for column in table.columns]


def _cells(table: Any, header: Sequence[str], names: Sequence[str]) -> list[tuple[str, ...]]:
    """Some columns of a table as text, without spaces around it; "" where a cell is empty."""
    at = [header.index(name) for name in names]
    if not isinstance(table, str | Path):
        return [_texts(table.iloc[:, i].to_list()) for i in at]
    path = expanded(table)
    if not is_parquet(path):
        rows = [[row[i].strip() for i in at] for row in islice(lines_of(path), 1, None)]
        return [*zip(*rows, strict=True)] if rows else [()] * len(at)
    from pyarrow import parquet

    with reading(path, "a Parquet file"):
        content = parquet.read_table(path, columns=[*names])
    return [_texts(content[name].to_pylist()) for name in names]


def _texts(cells: Sequence[Any]) -> tuple[str, ...]:
    """Cells of a data frame as text; whole numbers beside empty cells are floats there."""
    whole = (int(x) if isinstance(x, float) and x.is_integer() else x for x in cells)
    texts = ((x.strip() if isinstance(x, str) else str(x), x) for x in whole)
    return tuple("" if text in EMPTY and not isinstance(x, str) else text for text, x in texts)


def chosen_columns(
    table: Any, header: Sequence[str], columns: Columns, notes: list[str]
) -> list[str]:
    """The columns that are read: those named, or those whose names say what they are.

    Raises:
        InputError: for columns that are not there, or names that leave it open; shows all.
    """
    chosen = named_columns(header) if columns is None else [*columns]
    if chosen is None:
        raise InputError(
            f"{_name(table)} has the columns {', '.join(map(repr, header))}, whose names do not "
            f"say which are head, relation and tail: name them, columns=[…] (--columns "
            f"HEAD,RELATION,TAIL), or give the file a first line head,relation,tail"
        )
    for column in chosen:
        if column not in header:
            raise unknown(f"column of {_name(table)}", column, header)
    if not 3 <= sum(header.count(column) for column in {*chosen}) == len(chosen) <= 4:
        raise InputError(
            f"columns are those of head, relation and tail, and perhaps of the part, each once, "
            f"got {', '.join(chosen)} of {', '.join(header)}"
        )
    if others := [column for column in header if column not in chosen]:
        notes.append(f"columns that are not read: {', '.join(others)}")
    return chosen


def _name(table: Any) -> str:
    return str(table) if isinstance(table, str | Path) else "the table"


def read_facts(
    table: Any, columns: Columns, shares: Sequence[float] | None, seed: int
) -> tuple[list[list[Triple]], list[str]]:
    """The facts of a table for training, validation and testing, and notes on how they were read.

    Args:
        table: as of :meth:`gcl_hard.links.LinkSet.from_table`, as is the rest.
        columns: those of heads, relations and tails, and perhaps of parts.
        shares: of the parts.
        seed: seed of the split.
    """
    notes, header = list[str](), _header(table)
    names = chosen_columns(table, header, columns, notes)
    cells = _cells(table, header, names)
    if not cells[0]:
        raise InputError(f"{_name(table)} has no fact")
    for column, texts in zip(names[:3], cells, strict=False):
        if "" in texts:
            raise InputError(
                f"{_name(table)}, row {texts.index('') + 1}, column {column} is empty: a fact has "
                f"a head, a relation and a tail"
            )
    triples = [*zip(*cells[:3], strict=True)]
    if len(cells) == 4 and shares is None:
        part_of = parts_of(cells[3], f"{_name(table)}, column {names[3]}").tolist()
    else:
        n_rows, triples = len(triples), [*dict.fromkeys(triples)]
        if len(triples) < n_rows:
            notes.append(f"repeated facts, counted once: {n_rows - len(triples):,} rows")
        drawn, note = drawn_parts(triples, checked_shares("shares", shares or SHARES), seed)
        part_of = drawn.tolist()
        notes.append(note)
    parts: list[list[Triple]] = [[], [], []]
    for fact, part in zip(triples, part_of, strict=True):
        parts[part].append(fact)
    return [sorted(part) for part in parts], notes


def read_questions(table: Any, columns: Columns) -> list[tuple[str, ...]]:
    """Questions in a table: heads, relations and tails, of which "" is asked for.

    Args:
        table: as of :meth:`gcl_hard.links.LinkSet.from_table`; the column that is asked for may
            not be there.
        columns: as of :meth:`gcl_hard.links.LinkSet.from_table`.

    Raises:
        InputError: for a row in which not one cell is empty.
    """
    header, names = _header(table), None
    if columns is None:  # one may be missing
        more = ([], *([name] for name in (*chain(*ENDS), *RELATIONS)))
        names = next(filter(None, (named_columns([*header, *name]) for name in more)), None)
    names = (names or chosen_columns(table, header, columns, []))[:3]
    cells = iter(_cells(table, header, [name for name in names if name in header]))
    given = [next(cells) if name in header else () for name in names]
    questions = [*zip_longest(*given, fillvalue="")]
    if not questions:
        raise InputError(f"{_name(table)} has no question")
    for row, question in enumerate(questions, 1):
        if question.count("") != 1:
            raise InputError(
                f"{_name(table)}, row {row}: {' | '.join(question)} has {question.count('')} empty "
                f"cells: one of head, relation and tail is empty, and asked for"
            )
    return questions


def _numbered(triples: Sequence[Triple]) -> NDArray[np.int64]:
    """Facts by numbers of the sorted names, int64 [n, 3]."""
    heads, relations, tails = zip(*triples, strict=True)
    ends = {name: i for i, name in enumerate(sorted({*heads, *tails}))}
    kinds = {name: i for i, name in enumerate(sorted({*relations}))}
    return np.array([(ends[h], kinds[r], ends[t]) for h, r, t in triples])


def drawn_parts(
    triples: Sequence[Triple], shares: tuple[float, float, float], seed: int
) -> tuple[NDArray[np.int64], str]:
    """A part for each fact, drawn by a seed, whatever the order of the facts.

    Facts between the same two entities, in either direction and by any relations, are in one part,
    so that none is answered by its inverse. They leave training if a fact of each of their entities
    and relations stays there, and the part then is nearer to its share. Pairs of entities are taken
    in the order of a digest of their names: facts that are added move few others.

    Args:
        triples: n facts, each once.
        shares: of training, validation and testing.
        seed: of the order in which pairs of entities are taken.

    Returns:
        The parts, int64 [n], 0, 1 and 2; and a sentence on them.

    Example:
        >>> ring = [(f"{i}", "next", f"{(i + k) % 10}") for i in range(10) for k in (1, 2)]
        >>> parts, note = drawn_parts(ring, (0.8, 0.1, 0.1), 0)
        >>> np.bincount(parts).tolist()
        [16, 2, 2]
    """
    facts = _numbered(triples)
    low, high = np.sort(facts[:, [0, 2]], 1).T
    _, first, pair, sizes = np.unique(
        low * (high.max() + 1) + high, return_index=True, return_inverse=True, return_counts=True
    )
    members, begins = np.argsort(pair, kind="stable"), np.cumsum(sizes) - sizes
    of_entity = np.bincount(np.concatenate([low, high[low != high]])).tolist()
    of_relation = np.bincount(facts[:, 1]).tolist()
    names = (sorted((triples[i][0], triples[i][2])) for i in first.tolist())
    digests = [hashlib.blake2b(repr((seed, *ends)).encode()).digest() for ends in names]
    parts, needed = np.zeros(len(facts), np.int64), 0
    room = [0, *(round(share * len(facts)) for share in shares[1:])]
    for k in sorted(range(len(sizes)), key=digests.__getitem__):
        part, size = 2 if room[2] > 0 else 1, int(sizes[k])
        if room[part] <= 0:
            break
        if size > 2 * room[part]:
            continue
        ids = members[begins[k] : begins[k] + size]
        ends = {int(low[ids[0]]), int(high[ids[0]])}
        relations = Counter(facts[ids, 1].tolist())
        if any(of_entity[e] <= size for e in ends) or any(
            of_relation[r] <= n for r, n in relations.items()
        ):
            needed += size
            continue
        parts[ids] = part
        room[part] -= size
        for e in ends:
            of_entity[e] -= size
        for r, n in relations.items():
            of_relation[r] -= n
    counts = " / ".join(f"{n:,}" for n in np.bincount(parts, minlength=3))
    together = int(sizes[sizes > 1].sum())
    return parts, (
        f"split by seed {seed}: {counts} facts; {needed:,} drawn for others stay in training, as "
        f"the last of an entity or relation there; {together:,} are between the same two entities "
        f"as other facts, and in one part with them"
    )
