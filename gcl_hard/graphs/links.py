"""Facts (head, relation, tail) of a graph with kinds of edges, in parts, and what is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import torch
from torch import Tensor

from gcl_hard.errors import InputError, check_option
from gcl_hard.graphs.node_parts import count
from gcl_hard.io import digest_of_arrays

Part = Literal["train", "valid", "test"]
PARTS: tuple[Part, ...] = get_args(Part)
Triple = tuple[str, str, str]


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
        at = torch.searchsorted(self.keys, keys).clamp(max=max(len(self.keys) - 1, 0))
        if not len(self.keys):
            return keys[:0], keys[:0]
        begin = self.starts[at]
        number = torch.where(self.keys[at] == keys, self.starts[at + 1] - begin, 0)
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
        entities: names of the E entities, all of which are ranked.
        relations: names of the R relations.
        name: name of the set in results.
        notes: what was changed or is uncertain, with numbers.

    Raises:
        InputError: for a fact in several parts, an empty training part, or ids out of range.

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
        sizes = torch.tensor([self.n_entities, self.n_relations, self.n_entities])
        for part in PARTS:
            facts = self.part(part)
            if facts.dim() != 2 or facts.shape[1] != 3 or facts.dtype != torch.int64:
                raise InputError(f"{part} must be int64 [n, 3], got {facts.dtype} {[*facts.shape]}")
            if bool(((facts < 0) | (facts >= sizes.to(facts.device))).any()):
                raise InputError(f"{part}: a fact names an entity or relation that there is not")
        if not len(self.train):
            raise InputError(f"{self.name} has no training fact")

    def __repr__(self) -> str:
        sizes = " / ".join(f"{len(self.part(part)):,}" for part in PARTS)
        return (
            f"{type(self).__name__}({self.name}: {self.n_entities:,} entities, "
            f"{self.n_relations:,} relations, {sizes} facts)"
        )

    @classmethod
    def from_triples(
        cls,
        train: Iterable[Triple],
        valid: Iterable[Triple] = (),
        test: Iterable[Triple] = (),
        *,
        name: str = "own",
        notes: Sequence[str] = (),
    ) -> Self:
        """A set of named triples; entities and relations are numbered in the order of names.

        Args:
            train: (head, relation, tail) as text.
            valid: likewise.
            test: likewise. Entities that training has not seen are kept, and counted.
            name: name of the set in results.
            notes: of how it was read.

        Raises:
            InputError: for a fact in several parts; names it and counts them.
        """
        given = {part: [*facts] for part, facts in zip(PARTS, (train, valid, test), strict=True)}
        parts = {part: [*dict.fromkeys(facts)] for part, facts in given.items()}
        notes = [*notes]
        for part, facts in parts.items():
            if repeated := len(given[part]) - len(facts):
                notes.append(f"{part}: {count(repeated, 'repeated fact')} counted once")
        for one, other in (("train", "valid"), ("train", "test"), ("valid", "test")):
            both = {*parts[one]} & {*parts[other]}  # type: ignore[index]
            if both:
                raise InputError(
                    f"{name}: {count(len(both), 'fact')} stand in {one} and in {other}, such as "
                    f"{' '.join(min(both))}: a fact belongs to one part"
                )
        every = [fact for facts in parts.values() for fact in facts]
        entities = sorted({end for head, _, tail in every for end in (head, tail)})
        relations = sorted({relation for _, relation, _ in every})
        of_entity = {entity: i for i, entity in enumerate(entities)}
        of_relation = {relation: i for i, relation in enumerate(relations)}
        ids = {
            part: torch.tensor(
                [(of_entity[h], of_relation[r], of_entity[t]) for h, r, t in facts],
                dtype=torch.int64,
            ).view(-1, 3)
            for part, facts in parts.items()
        }
        known = ids["train"]
        unseen = len(entities) - len(torch.unique(known[:, [0, 2]]))
        new = len(relations) - len(torch.unique(known[:, 1]))
        if unseen:
            has = "has" if unseen == 1 else "have"
            notes.append(
                f"{count(unseen, 'entity', 'entities')} {has} no training fact: "
                f"{'it is' if unseen == 1 else 'they are'} ranked like others"
            )
        if new:
            notes.append(f"{count(new, 'relation')} {'has' if new == 1 else 'have'} no training "
                         f"fact")  # fmt: skip
        return cls(
            ids["train"], ids["valid"], ids["test"], tuple(entities), tuple(relations), name,
            tuple(notes),
        )  # fmt: skip

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
            batch_size: queries in a batch; 512 if None.
            seed: of the order.
        """
        queries, size = self.queries("train"), batch_size or 512

        def of_epoch(epoch: int) -> Iterator[Queries]:
            order = np.random.default_rng((seed, epoch)).permutation(queries.number)
            return queries.at(torch.from_numpy(order).to(self.train.device)).split(size)

        return of_epoch

    def key(self, queries: Queries) -> Tensor:
        """A number for each query by its entity and relation, int64 [n]."""
        return queries.entity * (2 * self.n_relations) + queries.relation

    @cached_property
    def training_facts(self) -> Facts:
        """The facts that training may read: those of the training part."""
        return self._facts(("train",))

    @cached_property
    def all_facts(self) -> Facts:
        """The facts of all parts, which filtered ranks leave out; for evaluation alone."""
        return self._facts(PARTS)

    def _facts(self, parts: Sequence[Part]) -> Facts:
        found = [self.queries(part) for part in parts]
        keys = torch.cat([self.key(one) for one in found])
        return Facts.of(keys, torch.cat([one.answer for one in found]))

    def to(self, device: torch.device | str) -> LinkSet:
        """The same set on a device."""
        moved: dict[str, Any] = {
            one.name: value.to(device)
            for one in fields(self)
            if isinstance(value := getattr(self, one.name), Tensor)
        }
        return replace(self, **moved)

    @cached_property
    def digest(self) -> str:
        """Digest of facts and names."""
        names = "\0".join([*self.entities, "", *self.relations]).encode()
        return digest_of_arrays(
            *(self.part(part) for part in PARTS), np.frombuffer(names, np.uint8)
        )
