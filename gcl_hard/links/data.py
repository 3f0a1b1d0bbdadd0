"""Facts (head, relation, tail) of a knowledge graph in parts, and the known answers of queries."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import nlargest
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.core.ids import ordered_names
from gcl_hard.errors import InputError, check_at_least, check_option, nearest
from gcl_hard.files.io import digest_of_arrays
from gcl_hard.graphs.copies import on_device
from gcl_hard.graphs.parts import count
from gcl_hard.links import PARTS, Part
from gcl_hard.links.reversed_facts import reversed_notes
from gcl_hard.links.tables import Columns, Triple, read_facts

Names = Sequence[str] | Mapping[str, int] | Mapping[int, str]
Missing = Literal["head", "relation", "tail"]
"""What a question asks for."""
MISSING: tuple[Missing, ...] = get_args(Missing)
KINDS = ("1_1", "1_n", "n_1", "n_n")
"""Kinds of relations: one or many entities that ask, one or many that answer."""
APART = ("train_mask", "val_mask", "test_mask", "train_edge_index", "test_edge_index")
"""Attributes of PyTorch Geometric graphs whose edges belong to several parts."""
MANY = 1.5
"""Mean number of answers of a query from which they count as many."""


class Queries(NamedTuple):
    """Questions (entity, relation, ?) and their answers, int64 [n] each."""

    entity: Tensor
    relation: Tensor
    answer: Tensor

    @property
    def number(self) -> int:
        """n."""
        return len(self.entity)

    def at(self, ids: Any) -> Queries:
        """Some of the queries, by an index of a tensor."""
        return Queries(self.entity[ids], self.relation[ids], self.answer[ids])

    def split(self, size: int) -> Iterator[Queries]:
        """All queries in order, ``size`` at a time."""
        for begin in range(0, self.number, size):
            yield self.at(slice(begin, begin + size))


@dataclass(frozen=True, eq=False)
class Facts:
    """The known answers of every query, in the order of queries.

    Args:
        keys: int64 [K], the queries that have answers, ascending; see :meth:`LinkSet.key`.
        starts: int64 [K + 1], position of the first answer of each.
        answers: int64 [n], entities, ascending within a query.
    """

    keys: Tensor
    starts: Tensor
    answers: Tensor

    @classmethod
    def of(cls, keys: Tensor, answers: Tensor) -> Self:
        """The facts of queries and their answers, in any order; repeated ones count once."""
        n = int(answers.max()) + 1 if len(answers) else 1
        pairs = torch.unique(keys * n + answers)  # rows of two take several times the memory
        distinct, counts = torch.unique_consecutive(pairs // n, return_counts=True)
        starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return cls(distinct, starts, pairs % n)

    def to(self, device: torch.device) -> Facts:
        """The same facts on a device."""
        if self.keys.device == device:
            return self
        return Facts(self.keys.to(device), self.starts.to(device), self.answers.to(device))

    def _ranges(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """First position and number of the answers of each query, int64 [B] each."""
        if not len(self.keys):
            return torch.zeros_like(keys), torch.zeros_like(keys)
        rows = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        begin = self.starts[rows]
        return begin, torch.where(self.keys[rows] == keys, self.starts[rows + 1] - begin, 0)

    def number(self, keys: Tensor) -> Tensor:
        """Number of known answers of each query, int64 [B]."""
        return self._ranges(keys)[1]

    def pairs(self, keys: Tensor, where: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The known answers of a batch of queries, as rows and columns of its scores.

        Args:
            keys: int64 [B].
            where: int64 [E], the column of each entity among some candidates, −1 if it is no
                candidate; None if all entities are candidates.

        Returns:
            Rows and columns, int64 [K] each.

        Example:
            >>> facts = Facts.of(torch.tensor([4, 7, 7]), torch.tensor([1, 0, 2]))
            >>> rows, columns = facts.pairs(torch.tensor([7, 5, 4]))
            >>> rows.tolist(), columns.tolist()
            ([0, 0, 2], [0, 2, 1])
        """
        begin, number = self._ranges(keys)
        begin = begin - (number.cumsum(0) - number)  # less the pairs of the rows before
        rows = torch.repeat_interleave(torch.arange(len(keys), device=keys.device), number)
        positions = torch.repeat_interleave(begin, number)
        positions += torch.arange(len(rows), device=keys.device)
        # index_select takes a quarter of the time of indexing by a tensor.
        columns = self.answers.index_select(0, positions)
        if where is None:
            return rows, columns
        columns = where.index_select(0, columns)
        kept = (columns >= 0).nonzero()[:, 0]
        return rows.index_select(0, kept), columns.index_select(0, kept)


@dataclass(frozen=True, eq=False)
class LinkSet:
    """Facts between entities, in parts for training, validation and testing.

    Args:
        train: int64 [n, 3], heads, relations and tails.
        valid: likewise.
        test: likewise.
        entities: names of the E entities, all of which are ranked, as
            :func:`gcl_hard.core.ids.ordered_names` returns them.
        relations: names of the R relations, likewise.
        name: name of the set in results.
        notes: what was changed or is uncertain, with numbers.

    Raises:
        InputError: for a fact in several parts, an empty training part, ids out of range, or names
            that are blank, repeated or in no order.

    Example:
        >>> family = LinkSet.from_triples(
        ...     [("ann", "parent", "bob"), ("bob", "parent", "cid")], [],
        ...     [("ann", "grandparent", "cid"), ("ann", "parent", "dan")],
        ... )
        >>> family
        LinkSet(own: 4 entities, 2 relations, 2 / 0 / 2 facts)
        >>> family.notes[0]
        'entities without a training fact, ranked like others: 1'
    """

    train: Tensor
    valid: Tensor
    test: Tensor
    entities: tuple[str, ...]
    relations: tuple[str, ...]
    name: str = "own"
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        for kind in ("entities", "relations"):
            object.__setattr__(self, kind, ordered_names(getattr(self, kind), kind))
        sizes = torch.tensor([self.n_entities, self.n_relations, self.n_entities])
        for part in PARTS:
            facts = self.part(part)
            if facts.dim() != 2 or facts.shape[1] != 3 or facts.dtype != torch.int64:
                raise InputError(f"{part} must be int64 [n, 3], got {facts.dtype} {[*facts.shape]}")
            if bool(((facts < 0) | (facts >= sizes.to(facts.device))).any()):
                raise InputError(f"{part}: a fact has an entity or relation out of range")
        if not len(self.train):
            raise InputError(f"{self.name} has no training fact")
        if self.train.device.type == "cpu":  # where it was made
            self._check_apart()

    def _check_apart(self) -> None:
        """InputError for facts in two parts."""
        keys = {part: _keys(self.part(part), self.n_entities, self.n_relations) for part in PARTS}
        for part, other in combinations(PARTS, 2):
            both, first, second = np.intersect1d(keys[part], keys[other], return_indices=True)
            if len(both):
                header = (
                    " (the first of both: a header line?)" if first[0] == second[0] == 0 else ""
                )
                h, r, t = self.part(part)[int(first[0])].tolist()
                fact = f"{self.entities[h]} {self.relations[r]} {self.entities[t]}"
                raise InputError(
                    f"{self.name}: {len(both):,} facts of {part} are in {other} as well, such as "
                    f"{fact}{header}: a fact belongs to one part"
                )

    def __repr__(self) -> str:
        sizes = " / ".join(f"{len(self.part(part)):,}" for part in PARTS)
        return (
            f"{type(self).__name__}({self.name}: {count(self.n_entities, 'entity', 'entities')}, "
            f"{count(self.n_relations, 'relation')}, {sizes} facts)"
        )

    @classmethod
    def from_triples(
        cls,
        train: Iterable[Triple],
        valid: Iterable[Triple] = (),
        test: Iterable[Triple] = (),
        *,
        entities: Names | None = None,
        relations: Names | None = None,
        name: str = "own",
        notes: Sequence[str] = (),
    ) -> Self:
        """A set of named triples.

        Args:
            train: (head, relation, tail) as text.
            valid: likewise.
            test: likewise. Entities that training has not seen are kept, and counted.
            entities: names of entities in the order of their numbers, such as those of a model's
                set, or their numbers by name; sorted names if None.
            relations: likewise of relations.
            name: name of the set in results.
            notes: on how it was read.

        Raises:
            InputError: for facts in several parts, or a name that is not among ``entities`` or
                ``relations``.

        Example:
            >>> family = LinkSet.from_triples([("bob", "parent", "cid")])
            >>> more = LinkSet.from_triples(
            ...     [("ann", "parent", "bob")], entities=[*family.entities, "ann"]
            ... )
            >>> more.entities, more.train.tolist()
            (('bob', 'cid', 'ann'), [[2, 0, 0]])
        """
        triples = {part: [*facts] for part, facts in zip(PARTS, (train, valid, test), strict=True)}
        for part, facts in triples.items():
            for fact in facts:
                if not (isinstance(fact, tuple | list) and len(fact) == 3
                        and all(isinstance(name, str) for name in fact)):  # fmt: skip
                    raise InputError(
                        f"{part} must be triples of text, (head, relation, tail), got {fact!r}; "
                        f"LinkSet.from_graphs reads numbers"
                    )
        heads, kinds, tails = (
            {fact[k] for facts in triples.values() for fact in facts} for k in range(3)
        )
        entity_ids = _numbers(entities, heads | tails, "entities")
        relation_ids = _numbers(relations, kinds, "relations")
        notes = [*notes]
        if len(tails) < len(kinds) and not tails & heads:
            notes.append(
                f"the third names, {len(tails):,} of which none is a head, are fewer than the "
                f"{len(kinds):,} second ones: are these triples (head, tail, relation)?"
            )
        ids = [
            torch.tensor(
                [(entity_ids[h], relation_ids[r], entity_ids[t]) for h, r, t in facts],
                dtype=torch.int64,
            ).view(-1, 3)
            for facts in triples.values()
        ]
        return cls._from_ids(ids, [*entity_ids], [*relation_ids], name, notes)

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        columns: Columns = None,
        shares: Sequence[float] | None = None,
        split_seed: int = 0,
        entities: Names | None = None,
        relations: Names | None = None,
        name: str | None = None,
    ) -> Self:
        """A set of the facts in one table, a row each, split by a seed.

        Every entity and relation has a fact in training. Facts between the same two entities, in
        either direction and by any relations, are in one part, so that no held-out fact is that of
        training the other way round. Notes say how many facts this moved. The split does not
        depend on the order of rows.

        Args:
            table: path of NAME.csv or NAME.tsv (UTF-8; separated by comma, semicolon or tab) or of
                NAME.parquet (extra ``parquet``), or a data frame. Numbers are taken as names.
            columns: columns of heads, relations and tails, and perhaps of parts, with the words
                train, valid and test; those called so if None, such as subject, predicate, object
                and split. Others are not read, and noted.
            shares: of training, validation and testing; if None, the parts in their column,
                or 0.8, 0.1 and 0.1 where there is none.
            split_seed: seed of the split.
            entities: as of :meth:`from_triples`.
            relations: likewise.
            name: name of the set in results; that of the file if None.

        Raises:
            InputError: for columns that are not there, or not called as those of facts are, an
                empty cell, or shares that do not sum to 1.

        Example:
            >>> import pandas as pd
            >>> stops = pd.DataFrame({"from": range(20), "to": [*range(1, 20), 0]})
            >>> LinkSet.from_table(stops.assign(relation="next"), shares=(0.6, 0.2, 0.2))
            LinkSet(own: 20 entities, 1 relation, 12 / 4 / 4 facts)
        """
        parts, notes = read_facts(table, columns, shares, split_seed)
        if name is None:
            name = Path(table).name if isinstance(table, str | Path) else "own"
        return cls.from_triples(
            *parts, entities=entities, relations=relations, name=name, notes=notes
        )

    @classmethod
    def from_graphs(
        cls,
        train: Any,
        valid: Any = None,
        test: Any = None,
        *,
        entities: Names | None = None,
        relations: Names | None = None,
        name: str = "own",
    ) -> Self:
        """A set from graphs with kinds of edges, as PyTorch Geometric has them.

        Args:
            train: an object with ``edge_index`` int64 [2, n], heads and tails, and ``edge_type``
                int64 [n] or [n, 1], such as a ``torch_geometric.data.Data``, without inverse edges:
                queries ask in both directions. Its ``num_nodes`` is E, if it has one.
            valid: likewise; None for none.
            test: likewise.
            entities: names of entities in the order of their numbers, or their numbers by name;
                the numbers if None.
            relations: likewise of relations.
            name: name of the set in results.

        Raises:
            InputError: for an object without these, a number without a name, or a fact in several
                parts.

        Example:
            >>> from types import SimpleNamespace
            >>> graph = SimpleNamespace(
            ...     edge_index=torch.tensor([[0, 1], [1, 2]]), edge_type=torch.tensor([0, 0])
            ... )
            >>> LinkSet.from_graphs(graph, relations=["next"])
            LinkSet(own: 3 entities, 1 relation, 2 / 0 / 0 facts)
        """
        graphs = (train, valid, test)
        ids = [_triples(graph, part) for graph, part in zip(graphs, PARTS, strict=True)]
        ends = torch.cat([facts[:, [0, 2]].reshape(-1) for facts in ids])
        kinds = torch.cat([facts[:, 1] for facts in ids])
        seen = int(ends.max()) + 1 if len(ends) else 0
        with warnings.catch_warnings(action="ignore"):  # PyTorch Geometric infers it from the edges
            stated = [int(getattr(graph, "num_nodes", 0) or 0) for graph in graphs]
        number = max([seen, *stated])
        if entities is None:
            entities = [str(i) for i in range(number)]
        if relations is None:
            relations = [str(i) for i in range(int(kinds.max()) + 1 if len(kinds) else 0)]
        names = ordered_names(entities, "entities")
        if number > len(names):
            raise InputError(f"names of {number} entities are needed, got {len(names)}")
        return cls._from_ids(ids, names, ordered_names(relations, "relations"), name, ())

    @classmethod
    def _from_ids(
        cls, ids: Sequence[Tensor], entities: Sequence[str], relations: Sequence[str], name: str,
        notes: Sequence[str],
    ) -> Self:  # fmt: skip
        """A set of numbered facts, repeated ones counted once, with notes on what is uncertain."""
        notes, parts = [*notes], list[Tensor]()
        for part, facts in zip(PARTS, ids, strict=True):
            first = np.unique(_keys(facts, len(entities), len(relations)), return_index=True)[1]
            if repeated := len(facts) - len(first):
                notes.append(f"{part}: {count(repeated, 'repeated fact')} counted once")
            parts.append(facts[torch.from_numpy(np.sort(first))] if repeated else facts)
        links = cls(parts[0], parts[1], parts[2], tuple(entities), tuple(relations), name)
        seen = {"entities": links.train[:, [0, 2]], "relations": links.train[:, 1]}
        for kind, ids_seen in seen.items():
            if n_unseen := len(getattr(links, kind)) - len(torch.unique(ids_seen)):
                notes.append(f"{kind} without a training fact, ranked like others: {n_unseen}")
        notes += reversed_notes(
            links.train, links.valid, links.test, links.n_entities, links.n_relations
        )
        return replace(links, notes=tuple(notes))

    def part(self, name: Part) -> Tensor:
        """The facts of a part, int64 [n, 3]."""
        return getattr(self, check_option("part", name, PARTS))

    @property
    def n_entities(self) -> int:
        """E."""
        return len(self.entities)

    @property
    def n_relations(self) -> int:
        """R; queries have 2 R relations, of which the second half asks for heads."""
        return len(self.relations)

    def queries(self, part: Part) -> Queries:
        """Both questions of each fact: (head, r) for the tail, then (tail, r + R) for the head.

        Args:
            part: ``train``, ``valid`` or ``test``.

        Returns:
            2 n queries; the first n ask for tails.
        """
        head, relation, tail = self.part(part).unbind(1)
        return Queries(
            torch.cat([head, tail]),
            torch.cat([relation, relation + self.n_relations]),
            torch.cat([tail, head]),
        )

    def batches(
        self, batch_size: int | None = None, *, seed: int = 0
    ) -> Callable[[int], Iterator[Queries]]:
        """A function from an epoch to its batches of training queries, for :func:`gcl_hard.fit`.

        Each epoch has both queries of every fact once, in an order drawn from the seed and epoch.

        Args:
            batch_size: queries in a batch, ≥ 1; 512 if None.
            seed: seed of the order.
        """
        queries, size = self.queries("train"), 512 if batch_size is None else batch_size
        check_at_least("batch_size", size, 1)

        def epoch_batches(epoch: int) -> Iterator[Queries]:
            order = np.random.default_rng((seed, epoch)).permutation(queries.number)
            return queries.at(torch.from_numpy(order).to(self.train.device)).split(size)

        return epoch_batches

    def key(self, queries: Queries) -> Tensor:
        """A number for each query by its entity and relation, int64 [n]."""
        return queries.entity * (2 * self.n_relations) + queries.relation

    @cached_property
    def kinds(self) -> Tensor:
        """The kind of each of 2 R relations in training, int64, an index of :data:`KINDS`.

        A side is "n" if its queries have at least 1.5 answers on average; queries for heads have
        the mirrored kind.

        Source:
            Bordes et al. (2013), section 4.
        """
        known = self.queries("train")
        pairs = torch.unique(torch.stack([known.relation, known.entity], 1), dim=0)[:, 0]
        n = 2 * self.n_relations
        facts = torch.bincount(known.relation, minlength=n)
        queries = torch.bincount(pairs, minlength=n)
        many = facts / queries.clamp(min=1) >= MANY
        back = many.roll(self.n_relations)
        return many.long() + 2 * back.long()

    @cached_property
    def training_facts(self) -> Facts:
        """The facts of the training part, all that training may read."""
        return self._facts(("train",))

    @cached_property
    def all_facts(self) -> Facts:
        """The facts of all parts, which filtered ranks of test facts leave out."""
        return self._facts(PARTS)

    def known(self, missing: Missing, until: Part = "train") -> Facts:
        """The known answers to questions for heads, relations or tails.

        Args:
            missing: what is asked for; the key of a pair of entities is head · E + tail, that of
                other questions as in :meth:`key`.
            until: part whose facts are known, with those of the parts before it.
        """
        if missing != "relation":
            return self.facts_until(until)
        parts = PARTS[: PARTS.index(until) + 1]
        head, relation, tail = torch.cat([self.part(part) for part in parts]).unbind(1)
        return Facts.of(head * self.n_entities + tail, relation)

    def has(self, facts: Tensor) -> Tensor:
        """Whether facts, int64 [n, 3], are in one of the parts, bool [n]."""
        keys, known = _keys(facts.cpu(), self.n_entities, self.n_relations), self._sorted_keys
        first, end = (np.searchsorted(known, keys, side) for side in ("left", "right"))
        return torch.from_numpy(first < end)

    @cached_property
    def _sorted_keys(self) -> NDArray[np.int64]:
        """Numbers of the facts of all parts, ascending."""
        facts = torch.cat([self.part(part) for part in PARTS]).cpu()
        return np.sort(_keys(facts, self.n_entities, self.n_relations))

    def numbered(self, triples: Sequence[Sequence[str | None]]) -> Tensor:
        """Triples of names by their numbers, int64 [n, 3].

        Args:
            triples: names of a head, a relation and a tail; −1 stands for None, or an empty one.

        Raises:
            InputError: for a name that the set does not have; offers the nearest.

        Example:
            >>> links = LinkSet.from_triples([("Müller", "buys", "tent")])
            >>> links.numbered([("Müller", "buys", None)])
            tensor([[ 0,  0, -1]])
            >>> links.numbered([("Mueller", "buys", None)])
            Traceback (most recent call last):
            ...
            gcl_hard.errors.InputError: unknown entities: 'Mueller' (did you mean 'Müller'?)
        """
        columns, unknown = [], dict[str, None]()
        for column, kind in enumerate(("entities", "relations", "entities")):
            numbers = self._numbers_by_name[kind]
            names = [triple[column] or "" for triple in triples]
            if lacking := [*dict.fromkeys(name for name in names if name not in numbers)]:
                rows = {x: f" in row {names.index(x) + 1}" * (len(names) > 1) for x in lacking[:3]}
                shown = "; ".join(_with_nearest(x, numbers) + row for x, row in rows.items())
                more = f"; and {len(lacking) - 3:,} more" if len(lacking) > 3 else ""
                unknown[f"unknown {kind}: {shown}{more}"] = None
            numbered = [numbers.get(name, -1) for name in names]
            columns.append(torch.tensor(numbered, dtype=torch.int64))
        if unknown:
            raise InputError("; ".join(unknown))
        return torch.stack(columns, 1)

    @cached_property
    def _numbers_by_name(self) -> dict[str, dict[str, int]]:
        kinds = {"entities": self.entities, "relations": self.relations}
        return {
            kind: {"": -1, **{name: i for i, name in enumerate(names)}}
            for kind, names in kinds.items()
        }

    @cached_property
    def _until_valid(self) -> Facts:
        return self._facts(("train", "valid"))

    def facts_until(self, part: Part) -> Facts:
        """The facts left out of filtered ranks of a part: its own and those of the parts before it.

        So nothing chosen on validation facts depends on test facts.

        Args:
            part: ``train``, ``valid`` or ``test``.
        """
        check_option("part", part, PARTS)
        if part == "test":
            return self.all_facts
        return self._until_valid if part == "valid" else self.training_facts

    def _facts(self, parts: Sequence[Part]) -> Facts:
        queries = [self.queries(part) for part in parts]
        keys = torch.cat([self.key(questions) for questions in queries])
        return Facts.of(keys, torch.cat([questions.answer for questions in queries]))

    def to(self, device: torch.device | str) -> LinkSet:
        """The same set on a device."""
        return on_device(self, device)

    @cached_property
    def digest(self) -> str:
        """Digest of facts and names."""
        names = "\0".join([*self.entities, "", *self.relations]).encode()
        return digest_of_arrays(
            *(self.part(part) for part in PARTS), np.frombuffer(names, np.uint8)
        )


def _numbers(names: Names | None, needed: set[str], kind: str) -> dict[str, int]:
    """The number of each name, in order; InputError if a needed one is missing."""
    ordered = sorted(needed) if names is None else ordered_names(names, kind)
    numbers = {name: i for i, name in enumerate(ordered)}
    if lacking := needed - numbers.keys():
        raise InputError(
            f"{kind} lack {count(len(lacking), 'name')} that facts have, such as "
            f"{_with_nearest(min(lacking), numbers)}"
        )
    return numbers


def _with_nearest(name: str, names: Iterable[str]) -> str:
    """A name, and those nearest to it among the ones that share most pairs of letters with it."""

    def pairs(word: str) -> set[str]:
        return {word[i : i + 2] for i in range(len(word) - 1)}

    letters = pairs(name.casefold())
    shared = nlargest(200, names, key=lambda other: len(letters & pairs(other.casefold())))
    close = nearest(name, shared)
    return f"{name!r}" + (f" (did you mean {' or '.join(map(repr, close))}?)" if close else "")


def _keys(facts: Tensor, n_entities: int, n_relations: int) -> NDArray[np.int64]:
    """A number for each fact, int64 [n]."""
    head, relation, tail = facts.numpy().T
    return (head * n_relations + relation) * n_entities + tail


def _triples(graph: Any, part: str) -> Tensor:
    """The facts of a graph with kinds of edges, int64 [n, 3]."""
    if graph is None:
        return torch.empty(0, 3, dtype=torch.int64)
    ends, kinds = getattr(graph, "edge_index", None), getattr(graph, "edge_type", None)
    apart = [name for name in APART if getattr(graph, name, None) is not None]
    if apart:
        raise InputError(
            f"{part} has {', '.join(apart)}, so its facts belong to several parts: give a graph "
            f"for each part, without inverse edges"
        )
    if isinstance(kinds, Tensor) and kinds.dim() == 2 and kinds.shape[1] == 1:
        kinds = kinds[:, 0]
    if (
        isinstance(ends, Tensor) and isinstance(kinds, Tensor) and kinds.dim() == 1
        and ends.shape == (2, len(kinds)) and {ends.dtype, kinds.dtype} == {torch.int64}
    ):  # fmt: skip
        return torch.stack([ends[0], kinds, ends[1]], 1).cpu()
    raise InputError(f"{part} must have edge_index int64 [2, n] and edge_type int64 [n]")
