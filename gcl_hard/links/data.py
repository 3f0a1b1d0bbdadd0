"""Facts (head, relation, tail) of a graph with kinds of edges, in parts, and what is known."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.core.ids import alike_notes, ordered_names
from gcl_hard.errors import InputError, check_at_least, check_option
from gcl_hard.files.io import digest_of_arrays
from gcl_hard.graphs.copies import fields_on_device
from gcl_hard.graphs.parts import count
from gcl_hard.links import PARTS, Part
from gcl_hard.links.reversed_facts import reversed_notes

Triple = tuple[str, str, str]
Names = Sequence[str] | Mapping[str, int] | Mapping[int, str]
KINDS = ("1_1", "1_n", "n_1", "n_n")
"""Kinds of relations: how many entities ask, and how many answer."""
APART = ("train_mask", "val_mask", "test_mask", "train_edge_index", "test_edge_index")
"""What graphs of PyTorch Geometric have where their edges are not all of one part."""
MANY = 1.5
"""Answers of a query on average from which they are several."""


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
        """Some of them, by what indexes a tensor."""
        return Queries(self.entity[ids], self.relation[ids], self.answer[ids])

    def split(self, size: int) -> Iterator[Queries]:
        """All of them in order, so many at a time."""
        for begin in range(0, self.number, size):
            yield self.at(slice(begin, begin + size))


@dataclass(frozen=True, eq=False)
class Facts:
    """The known answers of every query, in the order of queries.

    Args:
        keys: int64 [K], the queries that have answers, ascending; see :meth:`LinkSet.key`.
        starts: int64 [K + 1], where the answers of each begin.
        answers: int64 [n], entities, ascending within a query.
    """

    keys: Tensor
    starts: Tensor
    answers: Tensor

    @classmethod
    def of(cls, keys: Tensor, answers: Tensor) -> Self:
        """The facts of queries and their answers, in any order; repeated ones count once."""
        pairs = torch.unique(torch.stack([keys, answers], 1), dim=0)
        found, counts = torch.unique_consecutive(pairs[:, 0], return_counts=True)
        starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return cls(found, starts, pairs[:, 1].contiguous())

    def to(self, device: torch.device) -> Facts:
        """The same on a device."""
        if self.keys.device == device:
            return self
        return Facts(self.keys.to(device), self.starts.to(device), self.answers.to(device))

    def _found(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Where the answers of queries begin, and how many there are, int64 [B] each."""
        if not len(self.keys):
            return torch.zeros_like(keys), torch.zeros_like(keys)
        at = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        begin = self.starts[at]
        return begin, torch.where(self.keys[at] == keys, self.starts[at + 1] - begin, 0)

    def number(self, keys: Tensor) -> Tensor:
        """How many answers are known of each query, int64 [B]."""
        return self._found(keys)[1]

    def pairs(self, keys: Tensor, where: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The known answers of a batch of queries, as rows and columns of its scores.

        Args:
            keys: int64 [B].
            where: int64 [E], the column of each entity among some candidates, −1 where it is none;
                None for all entities.

        Returns:
            Rows and columns, int64 [K] each.

        Example:
            >>> facts = Facts.of(torch.tensor([4, 7, 7]), torch.tensor([1, 0, 2]))
            >>> rows, columns = facts.pairs(torch.tensor([7, 5, 4]))
            >>> rows.tolist(), columns.tolist()
            ([0, 0, 2], [0, 2, 1])
        """
        begin, number = self._found(keys)
        begin = begin - (number.cumsum(0) - number)  # less the pairs of the rows before
        rows = torch.repeat_interleave(torch.arange(len(keys), device=keys.device), number)
        which = torch.repeat_interleave(begin, number)
        which += torch.arange(len(rows), device=keys.device)
        # which takes a fourth of the time of indexing by a tensor
        columns = self.answers.index_select(0, which)
        if where is None:
            return rows, columns
        columns = where.index_select(0, columns)
        among = (columns >= 0).nonzero()[:, 0]
        return rows.index_select(0, among), columns.index_select(0, among)


@dataclass(frozen=True, eq=False)
class LinkSet:
    """Facts between entities, in parts to train on, to choose by and to test on.

    Args:
        train: int64 [n, 3], heads, relations and tails.
        valid: likewise.
        test: likewise.
        entities: names of the E entities, all of which are ranked, as of
            :func:`gcl_hard.core.ids.ordered_names`.
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
        '1 entity has no training fact: it is ranked like others'
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
                raise InputError(f"{part}: a fact names an entity or relation that there is not")
        if not len(self.train):
            raise InputError(f"{self.name} has no training fact")
        if self.train.device.type == "cpu":  # where it was made
            self._check_apart()

    def _check_apart(self) -> None:
        """InputError for facts that stand in two parts."""
        keys = {part: _keys(self.part(part), self.n_entities, self.n_relations) for part in PARTS}
        for one, other in combinations(PARTS, 2):
            both, first, _ = np.intersect1d(keys[one], keys[other], return_indices=True)
            if len(both):
                h, r, t = self.part(one)[int(first[0])].tolist()
                fact = f"{self.entities[h]} {self.relations[r]} {self.entities[t]}"
                raise InputError(
                    f"{self.name}: {count(len(both), 'fact stands', 'facts stand')} in {one} and "
                    f"in {other}, such as {fact}: a fact belongs to one part"
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
            notes: of how it was read.

        Raises:
            InputError: for a fact in several parts; names it and counts them. For a name that is
                not among ``entities`` or ``relations``.

        Example:
            >>> family = LinkSet.from_triples([("bob", "parent", "cid")])
            >>> more = LinkSet.from_triples(
            ...     [("ann", "parent", "bob")], entities=[*family.entities, "ann"]
            ... )
            >>> more.entities, more.train.tolist()
            (('bob', 'cid', 'ann'), [[2, 0, 0]])
        """
        given = {part: [*facts] for part, facts in zip(PARTS, (train, valid, test), strict=True)}
        for part, facts in given.items():
            for one in facts:
                if not (isinstance(one, tuple | list) and len(one) == 3
                        and all(isinstance(name, str) for name in one)):  # fmt: skip
                    raise InputError(
                        f"{part} must be triples of text, (head, relation, tail), got {one!r}; of "
                        f"numbers LinkSet.from_graphs makes a set"
                    )
        heads, kinds, tails = (
            {fact[k] for facts in given.values() for fact in facts} for k in range(3)
        )
        of_entity = _numbers(entities, heads | tails, "entities")
        of_relation = _numbers(relations, kinds, "relations")
        notes = [*notes]
        if len(tails) < len(kinds) and not tails & heads:
            notes.append(
                f"the third names, {len(tails):,} of which none is a head, are fewer than the "
                f"{len(kinds):,} second ones: are these triples (head, tail, relation)?"
            )
        ids = [
            torch.tensor(
                [(of_entity[h], of_relation[r], of_entity[t]) for h, r, t in facts],
                dtype=torch.int64,
            ).view(-1, 3)
            for facts in given.values()
        ]
        return cls._of_ids(ids, [*of_entity], [*of_relation], name, notes)

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
        """A set of graphs with kinds of edges, as PyTorch Geometric has them.

        Args:
            train: an object with ``edge_index`` int64 [2, n], heads and tails, and ``edge_type``
                int64 [n] or [n, 1], such as a ``torch_geometric.data.Data``; without inverse edges,
                which are asked for all the same. Its ``num_nodes`` is E, if it has one.
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
        graphs = [one for one in (train, valid, test) if one is not None]
        ids = [_triples(one, part) for one, part in zip((train, valid, test), PARTS, strict=True)]
        ends = torch.cat([one[:, [0, 2]].reshape(-1) for one in ids])
        kinds = torch.cat([one[:, 1] for one in ids])
        if train is None:
            raise InputError("train must be a graph with edge_index and edge_type, got None")
        seen = int(ends.max()) + 1 if len(ends) else 0
        with warnings.catch_warnings(action="ignore"):  # PyTorch Geometric guesses what is seen
            given = [int(getattr(one, "num_nodes", 0) or 0) for one in graphs]
        number = max([seen, *given])
        if entities is None:
            entities = [str(i) for i in range(number)]
        if relations is None:
            relations = [str(i) for i in range(int(kinds.max()) + 1 if len(kinds) else 0)]
        names = ordered_names(entities, "entities")
        if number > len(names):
            raise InputError(f"names of {number} entities are needed, got {len(names)}")
        return cls._of_ids(ids, names, ordered_names(relations, "relations"), name, ())

    @classmethod
    def _of_ids(
        cls, ids: Sequence[Tensor], entities: Sequence[str], relations: Sequence[str], name: str,
        notes: Sequence[str],
    ) -> Self:  # fmt: skip
        """A set of numbered facts, each of which counts once, with notes of what is uncertain."""
        notes, parts = [*notes], list[Tensor]()
        for part, facts in zip(PARTS, ids, strict=True):
            first = np.unique(_keys(facts, len(entities), len(relations)), return_index=True)[1]
            if repeated := len(facts) - len(first):
                notes.append(f"{part}: {count(repeated, 'repeated fact')} counted once")
            parts.append(facts[torch.from_numpy(np.sort(first))] if repeated else facts)
        found = cls(parts[0], parts[1], parts[2], tuple(entities), tuple(relations), name)
        unseen = len(entities) - len(torch.unique(found.train[:, [0, 2]]))
        new = len(relations) - len(torch.unique(found.train[:, 1]))
        if unseen:
            has = "has" if unseen == 1 else "have"
            notes.append(
                f"{count(unseen, 'entity', 'entities')} {has} no training fact: "
                f"{'it is' if unseen == 1 else 'they are'} ranked like others"
            )
        if new:
            notes.append(f"{count(new, 'relation')} {'has' if new == 1 else 'have'} no training "
                         f"fact")  # fmt: skip
        notes += alike_notes(found.entities, "entities")
        notes += alike_notes(found.relations, "relations")
        notes += reversed_notes(
            found.train, found.valid, found.test, found.n_entities, found.n_relations
        )
        return replace(found, notes=tuple(notes))

    def part(self, name: Part) -> Tensor:
        """The facts of a part, int64 [n, 3]."""
        facts: Tensor = getattr(self, check_option("part", name, PARTS))
        return facts

    @property
    def n_entities(self) -> int:
        """E."""
        return len(self.entities)

    @property
    def n_relations(self) -> int:
        """R; queries have 2 R of them, the second half asks for heads."""
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

        Every fact asks both its questions once an epoch, in an order that the epoch and the seed
        decide.

        Args:
            batch_size: queries in a batch, ≥ 1; 512 if None.
            seed: of the order.
        """
        queries, size = self.queries("train"), 512 if batch_size is None else batch_size
        check_at_least("batch_size", size, 1)

        def of_epoch(epoch: int) -> Iterator[Queries]:
            order = np.random.default_rng((seed, epoch)).permutation(queries.number)
            return queries.at(torch.from_numpy(order).to(self.train.device)).split(size)

        return of_epoch

    def key(self, queries: Queries) -> Tensor:
        """A number for each query by its entity and relation, int64 [n]."""
        return queries.entity * (2 * self.n_relations) + queries.relation

    @cached_property
    def kinds(self) -> Tensor:
        """By the answers of its queries in training, the kind of each of 2 R relations, int64.

        An index into :data:`KINDS`: whether a query and, the other way round, an answer have more
        than 1.5 answers on average. The kind of the question for heads is the mirrored one.

        Source:
            Bordes et al. (2013), section 4.
        """
        known = self.queries("train")
        pairs = torch.unique(torch.stack([known.relation, known.entity], 1), dim=0)[:, 0]
        n = 2 * self.n_relations
        facts, queries = (torch.bincount(of, minlength=n) for of in (known.relation, pairs))
        many = facts / queries.clamp(min=1) >= MANY
        back = many.roll(self.n_relations)
        return many.long() + 2 * back.long()

    @cached_property
    def training_facts(self) -> Facts:
        """The facts that training may read: those of the training part."""
        return self._facts(("train",))

    @cached_property
    def all_facts(self) -> Facts:
        """The facts of all parts, which filtered ranks of test facts leave out."""
        return self._facts(PARTS)

    @cached_property
    def _until_valid(self) -> Facts:
        return self._facts(("train", "valid"))

    def facts_until(self, part: Part) -> Facts:
        """What filtered ranks of a part leave out: its facts and those of the parts before it.

        So nothing that is chosen by validation facts depends on test facts.

        Args:
            part: ``train``, ``valid`` or ``test``.
        """
        check_option("part", part, PARTS)
        if part == "test":
            return self.all_facts
        return self._until_valid if part == "valid" else self.training_facts

    def _facts(self, parts: Sequence[Part]) -> Facts:
        found = [self.queries(part) for part in parts]
        keys = torch.cat([self.key(one) for one in found])
        return Facts.of(keys, torch.cat([one.answer for one in found]))

    def to(self, device: torch.device | str) -> LinkSet:
        """The same set on a device."""
        return fields_on_device(self, device)

    @cached_property
    def digest(self) -> str:
        """Digest of facts and names."""
        names = "\0".join([*self.entities, "", *self.relations]).encode()
        return digest_of_arrays(
            *(self.part(part) for part in PARTS), np.frombuffer(names, np.uint8)
        )


def _numbers(names: Names | None, needed: set[str], kind: str) -> dict[str, int]:
    """The number of each name, in order; InputError for a needed one that is not there."""
    ordered = sorted(needed) if names is None else ordered_names(names, kind)
    numbers = {name: i for i, name in enumerate(ordered)}
    if lacking := needed - numbers.keys():
        raise InputError(
            f"{kind} lack {count(len(lacking), 'name')} that facts have, such as {min(lacking)!r}"
        )
    return numbers


def _keys(facts: Tensor, n_entities: int, n_relations: int) -> NDArray[np.int64]:
    """A number for each fact, int64 [n]."""
    head, relation, tail = facts.numpy().T
    found: NDArray[np.int64] = (head * n_relations + relation) * n_entities + tail
    return found


def _triples(graph: Any, part: str) -> Tensor:
    """The facts of a graph with kinds of edges, int64 [n, 3]."""
    if graph is None:
        return torch.empty(0, 3, dtype=torch.int64)
    ends, kinds = getattr(graph, "edge_index", None), getattr(graph, "edge_type", None)
    apart = [name for name in APART if getattr(graph, name, None) is not None]
    if apart:
        raise InputError(
            f"{part} has {', '.join(apart)}, which tell its facts apart: give a graph of the facts "
            f"of each part, without inverse edges, such as "
            f"Data(edge_index=data.edge_index[:, data.train_mask], edge_type=…)"
        )
    if isinstance(kinds, Tensor) and kinds.dim() == 2 and kinds.shape[1] == 1:
        kinds = kinds[:, 0]
    if (
        isinstance(ends, Tensor) and isinstance(kinds, Tensor) and kinds.dim() == 1
        and ends.shape == (2, len(kinds)) and {ends.dtype, kinds.dtype} == {torch.int64}
    ):  # fmt: skip
        return torch.stack([ends[0], kinds, ends[1]], 1).cpu()
    got = ", ".join(
        f"{name} {one.dtype} {[*one.shape]}" if isinstance(one, Tensor) else f"no {name}"
        for name, one in (("edge_index", ends), ("edge_type", kinds))
    )
    raise InputError(f"{part} must have edge_index int64 [2, n] and edge_type int64 [n], got {got}")
