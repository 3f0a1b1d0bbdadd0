"""Models that score facts, and their training by contrast of a query's answer with candidates."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from gcl_hard.core.seeds import Draws, Generators
from gcl_hard.errors import InputError, check_at_least, check_number
from gcl_hard.links.data import MISSING, Facts, LinkSet, Missing, Queries
from gcl_hard.losses.loss import ContrastiveLoss
from gcl_hard.models import evaluating, loss_of

if TYPE_CHECKING:
    from typing import Unpack

    from gcl_hard.losses.keywords import MethodOptions

ELEMENTS = 2**24
"""Numbers of a tensor of queries × candidates × width."""
ANSWERS = 2**18
"""Answers of a block whose scores are compared at a time, of as many queries as ELEMENTS allow."""
CLOSE = 2**18
"""Numbers of candidates, times their width, that are compared in double precision at a time."""


class Scorer(nn.Module, ABC):
    """Base of models that score a query (entity, relation, ?) against candidates.

    A model of your own defines ``query``; ``candidates``, where these are no rows of its table; and
    ``compare`` with ``pairwise`` where scores are no dot products.

    Args:
        n_entities: E.
        n_relations: R; with the questions for heads there are 2 R vectors.
        dim: d, width of the vectors of entities and relations.
        bias: added to every score; under JSD, the logistic loss, negative where most candidates
            are wrong, and of distances positive: RotatE's margin.
        sparse: whether gradients are those of a batch's rows alone, for
            :func:`gcl_hard.training.loop.sparse_adam`: a step then costs the same however many
            entities there are.
    """

    def __init__(
        self, n_entities: int, n_relations: int, dim: int, *, bias: float = 0.0,
        sparse: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        for name, number in (("n_entities", n_entities), ("n_relations", n_relations),
                             ("dim", dim)):  # fmt: skip
            check_at_least(name, number, 1)
        check_number("bias", bias)
        self.entities = nn.Embedding(n_entities, dim, sparse=sparse)
        self.relations = nn.Embedding(2 * n_relations, dim, sparse=sparse)
        self.bias = bias
        for table in (self.entities, self.relations):
            nn.init.normal_(table.weight, std=dim**-0.5)

    @abstractmethod
    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        """What candidates are compared with, float [B, d], of int64 [B] and [B]."""

    def candidates(self, entities: Tensor | None = None) -> Tensor:
        """Vectors of some entities, float [C, d] of int64 [C]; of all if None."""
        return self.entities.weight if entities is None else self.entities(entities)

    @property
    def products(self) -> bool:
        """Whether scores are dot products, and the bias."""
        return type(self).compare is Scorer.compare

    def compare(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """Scores, float [B, C]: dot products, unless a model has others."""
        return queries @ candidates.T + self.bias

    def pairwise(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """The score of each query with a candidate of its own, float [B]."""
        if not self.products:
            raise InputError(f"{type(self).__name__} has its own compare, and needs pairwise, too")
        return (queries * candidates).sum(1) + self.bias

    @contextmanager
    def encoding(self) -> Iterator[None]:
        """What is around each step, and around all ranks."""
        yield


class DistMult(Scorer):
    r"""Scores by three vectors, the same for both directions of a relation's facts.

    .. math:: s(h, r, t) = \sum_k h_k r_k t_k + b

    Args:
        n_entities: E.
        n_relations: R.
        dim: d.
        bias: b.
        sparse: as of :class:`Scorer`.

    Source:
        Yang et al. (2015), with reciprocal relations (Lacroix et al., 2018).

    Example:
        >>> model = DistMult(4, 2, dim=8)
        >>> q = model.query(torch.tensor([0]), torch.tensor([3]))
        >>> model.compare(q, model.candidates()).shape
        torch.Size([1, 4])
    """

    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        """h ∘ r."""
        return self.entities(entity) * self.relations(relation)


class ComplEx(Scorer):
    r"""Scores by complex vectors, of which the first half is real and the second imaginary.

    .. math:: s(h, r, t) = \operatorname{Re} \sum_k h_k r_k \bar t_k + b

    Args:
        n_entities: E.
        n_relations: R.
        dim: d, even: d / 2 complex numbers.
        bias: b.
        sparse: as of :class:`Scorer`.

    Source:
        Trouillon et al. (2016), with reciprocal relations.

    Example:
        >>> ComplEx(4, 2, dim=8).query(torch.tensor([0]), torch.tensor([1])).shape
        torch.Size([1, 8])
    """

    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        """h r, whose real part of the product with t̄ is a dot product of halves."""
        h, hi = self.entities(entity).chunk(2, 1)
        r, ri = self.relations(relation).chunk(2, 1)
        return torch.cat([h * r - hi * ri, h * ri + hi * r], 1)


class TransE(Scorer):
    r"""Scores by the distance of a translated vector.

    .. math:: s(h, r, t) = b - \lVert h + r - t \rVert_2

    Args:
        n_entities: E.
        n_relations: R.
        dim: d.
        bias: b, the margin γ_R of the logistic loss.
        sparse: as of :class:`Scorer`.

    Source:
        Bordes et al. (2013), with the Euclidean norm and reciprocal relations.

    Example:
        >>> model = TransE(4, 2, dim=8, bias=6.0)
        >>> model.compare(model.query(torch.tensor([0]), torch.tensor([1])),
        ...               model.candidates()).max() <= 6
        tensor(True)
    """

    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        """h + r."""
        return self.entities(entity) + self.relations(relation)

    def compare(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """Scores by distances, [B, C]."""
        distance: Tensor = torch.cdist(queries, candidates)
        return self.bias - distance

    def pairwise(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """The score of each query with a candidate of its own, [B]."""
        distance: Tensor = torch.linalg.vector_norm(queries - candidates, dim=1)
        return self.bias - distance

    def rounding_window(
        self, queries: Tensor, longest: Tensor, scores: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Between which scores rounding leaves open whether a candidate is above another one.

        ``compare`` has squared distances from a product of d + 2 columns, |q|² + |t|² − 2 q·t, so
        that they are off by up to (d + 2) ε (|q| + |t|)², however small they are.

        Args:
            queries: float [B, d].
            longest: float [], largest norm of a candidate.
            scores: float [B], the score of each query with one candidate, by ``compare``.

        Returns:
            The lowest and the highest score by ``compare`` of which that is open, float64 [B] each.

        Source:
            Higham (2002), *Accuracy and Stability of Numerical Algorithms*, section 3.1.
        """
        eps = torch.finfo(scores.dtype).eps
        q = torch.linalg.vector_norm(queries, dim=1).double()
        d = self.bias - scores.double()
        off = 2 * (queries.shape[1] + 2) * eps * (q + longest) ** 2
        nearest, farthest = (d**2 - off).clamp(min=0).sqrt(), (d**2 + off).sqrt()
        rounding = 4 * eps * (abs(self.bias) + farthest + q)  # of b − d, and of h + r
        return self.bias - farthest - rounding, self.bias - nearest + rounding


class RotatE(Scorer):
    r"""Scores by the distance of a rotated complex vector, of which halves are real and imaginary.

    .. math:: s(h, r, t) = b - \sum_k \lvert h_k e^{i \theta_k} - t_k \rvert

    Its sum of moduli is no matrix product: on a CPU a step takes many times as long as DistMult's.

    Args:
        n_entities: E.
        n_relations: R; 2 R vectors of angles, of which the first half is read.
        dim: d, even: d / 2 complex numbers.
        **options: ``bias``, b, the margin γ_R, and ``sparse``, as of :class:`Scorer`.

    Source:
        Sun et al. (2019), Eq. 4, with the sum of moduli of its published code, and reciprocal
        relations.

    Example:
        >>> model = RotatE(4, 2, dim=8)
        >>> q = model.query(torch.tensor([0]), torch.tensor([1]))
        >>> model.compare(q, model.candidates()).max() <= 0
        tensor(True)
    """

    def __init__(self, n_entities: int, n_relations: int, dim: int, **options: Any) -> None:
        super().__init__(n_entities, n_relations, dim, **options)
        nn.init.uniform_(self.relations.weight, -math.pi, math.pi)

    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        """h turned by the angles of r."""
        h, hi = self.entities(entity).chunk(2, 1)
        angle = self.relations(relation).chunk(2, 1)[0]
        r, ri = angle.cos(), angle.sin()
        return torch.cat([h * r - hi * ri, h * ri + hi * r], 1)

    def compare(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """Scores by distances, [B, C]."""
        parts = torch.split(candidates, max(1, ELEMENTS // max(queries.numel(), 1)))
        return torch.cat([self.pairwise(queries[:, None], part) for part in parts], 1)

    def pairwise(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """The score of each query with a candidate of its own, [B]."""
        halves = torch.stack((queries - candidates).chunk(2, -1))
        distance: Tensor = torch.linalg.vector_norm(halves, dim=0).sum(-1)
        return self.bias - distance


class RGCN(DistMult):
    r"""DistMult between vectors that a graph network makes of the training graph.

    .. math:: x'_i = x_i + \sum_r \sum_{j \in N_r(i)} \frac{1}{\lvert N_r(i) \rvert} W_r x_j

    with W_r of blocks, layer after layer, with a ReLU between them. All entities are encoded in
    each step, so that large batches pay.

    Args:
        links: the set, whose training facts are the graph, in both directions.
        dim: d, a multiple of ``blocks``.
        layers: of the network, at least 1.
        blocks: number of blocks on the diagonal of each W_r, at least 1.
        bias: b.

    Source:
        Schlichtkrull et al. (2018), with PyTorch Geometric's ``RGCNConv``.

    Example:
        >>> links = LinkSet.from_triples([("a", "r", "b"), ("b", "r", "c")])
        >>> model = LinkContrast(RGCN(links, dim=4, blocks=2), links, method="ucl")
        >>> model(links.queries("train")).shape
        torch.Size([])
    """

    edges: Tensor
    kinds: Tensor

    def __init__(
        self, links: LinkSet, dim: int, *, layers: int = 1, blocks: int = 4, bias: float = 0.0
    ) -> None:
        super().__init__(links.n_entities, links.n_relations, dim, bias=bias)
        from torch_geometric.nn import RGCNConv

        self.layers = nn.ModuleList(
            RGCNConv(
                dim, dim, 2 * links.n_relations, num_blocks=blocks, root_weight=False, bias=False
            )
            for _ in range(layers)
        )
        facts = links.queries("train")
        self.register_buffer("edges", torch.stack([facts.entity, facts.answer]), persistent=False)
        self.register_buffer("kinds", facts.relation, persistent=False)
        self._encoded: Tensor | None = None

    @contextmanager
    def encoding(self) -> Iterator[None]:
        """Encode all entities once for what is inside, such as a step, or all ranks."""
        self._encoded = self._all()
        try:
            yield
        finally:
            self._encoded = None

    def _all(self) -> Tensor:
        x: Tensor = self.entities.weight
        for k, layer in enumerate(self.layers):
            x = x.relu() if k else x
            x = x + layer(x, self.edges, self.kinds)
        return x

    def candidates(self, entities: Tensor | None = None) -> Tensor:
        """Encoded vectors of some entities, or of all."""
        x = self._all() if self._encoded is None else self._encoded
        return x if entities is None else x[entities]

    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        """h ∘ r."""
        return self.candidates(entity) * self.relations(relation)


SCORERS: dict[str, type[Scorer]] = {
    "distmult": DistMult, "complex": ComplEx, "transe": TransE, "rotate": RotatE,
}  # fmt: skip
"""The models that are made of numbers of entities and relations, by name."""


class LinkContrast(Draws, nn.Module):
    """Contrast the right answer of each query with candidates, all entities or some drawn.

    The known facts are those of the training part alone; what stands in another part is never
    read. Every method takes positives ``"view"`` here: the one answer of the query.

    Args:
        scorer: the model.
        links: the set; its training facts are what label-aware methods leave out of the negatives,
            and its names are what ``fit`` and ``predict`` compare those of another set with.
        method: a name in ``METHODS``, ``ucl`` if None.
        loss: a :class:`ContrastiveLoss` of your own, whose positives are ``"view"``.
        candidates: K entities drawn in each step, uniformly and with replacement, each once, which
            its queries share; ``"batch"`` for the answers of the batch, each once, of which q is
            divided by the probability that it is among them; ``"all"`` for all entities.
        rare: whether queries are weighed by (n + n' + 6)^(−1/2), n and n' being the known facts of
            the query and of the question that asks its answer for its entity.
        n3: λ ≥ 0 of the regulariser λ Σ |x|³ of the vectors of a fact, a mean over queries.
        seed: seed of the candidates.
        **options: options of :func:`gcl_hard.contrastive_loss`; γ is 2 if not given.

    Raises:
        InputError: for a loss with other positives, a size below 1, or a scorer of another number
            of entities or relations than the set.

    Source:
        n3: Lacroix, Usunier and Obozinski (2018). rare: the code of RotatE (Sun et al., 2019).

    Example:
        >>> from gcl_hard import fit
        >>> links = LinkSet.from_triples([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a")])
        >>> model = LinkContrast(DistMult(3, 1, dim=4), links, method="hscl", temperature=1.0)
        >>> len(fit(model, links, epochs=2, batch_size=3))
        2
    """

    def __init__(
        self,
        scorer: Scorer,
        links: LinkSet,
        *,
        method: str | None = None,
        loss: ContrastiveLoss | None = None,
        candidates: int | Literal["batch", "all"] = 512,
        rare: bool = False,
        n3: float = 0.0,
        seed: int = 0,
        **options: Unpack[MethodOptions],
    ) -> None:
        super().__init__()
        if loss is None:
            usual: MethodOptions = (
                {"hardness_scale": "score"} if options.get("objective") == "jsd"
                else {"temperature": 2.0}
            )  # fmt: skip
            options = {"positives": "view", **usual, **options}
        self.loss = loss_of(method, loss, options)
        self.loss.check_scored()
        if candidates not in ("batch", "all"):
            check_at_least("candidates", candidates, 1)
        check_number("n3", n3, least=0)
        check_scorer(scorer, links)
        self.scorer = scorer
        self.n_candidates, self.rare, self.n3 = candidates, rare, n3
        self._links = links
        self._known = links.training_facts
        answers = links.queries("train").answer
        self._frequency = torch.bincount(answers, minlength=links.n_entities) / len(answers)
        self._where: tuple[Tensor, Tensor] | None = None
        self._generators = Generators(seed)

    def forward(self, batch: Queries) -> Tensor:
        """Loss of a batch of training queries, float [], nats, with the regulariser.

        On a GPU it waits for the device where candidates are drawn or known facts left out.
        """
        with self.scorer.encoding():
            return self._loss(batch)

    def _loss(self, batch: Queries) -> Tensor:
        device = batch.entity.device
        self._known = self._known.to(device)
        query = self.scorer.query(batch.entity, batch.relation)
        entities: Tensor | None = None
        where: Tensor | None = None
        options: dict[str, Any] = {}
        if self.n_candidates == "all":
            positives = batch.answer
        elif self.n_candidates == "batch":
            entities, positives = torch.unique(batch.answer, return_inverse=True)
            where = self._columns(entities)
            options["log_proposal"] = self._log_present(entities, batch.number)
        else:
            entities, positives = self._drawn(batch), torch.zeros_like(batch.answer)
            where = self._columns(entities, after=1)
            # where the answer is not drawn, its own column, which is barred anyway
            again = where[batch.answer].clamp(min=0)
            options["repeated"] = torch.arange(batch.number, device=device), again
        if self.loss.sampler.needs_labels:
            options["known"] = self._known.pairs(self._links.key(batch), where)
        if self.rare:
            options["anchor_weights"] = self._rarity(batch).to(query.dtype)
        candidates, answers = self.scorer.candidates(entities), None
        if "repeated" in options:  # the answer of each query stands before what is drawn
            answers = self.scorer.candidates(batch.answer)
            right = self.scorer.pairwise(query, answers)
            scores = torch.cat([right[:, None], self.scorer.compare(query, candidates)], 1)
            value: Tensor = self.loss.scored(scores, positives, **options)
        elif self.scorer.products:
            value = self.loss.against(
                query, candidates, positives, bias=self.scorer.bias, **options
            )
        else:
            value = self.loss.scored(self.scorer.compare(query, candidates), positives, **options)
        if self.n3:
            value = value + self.n3 * self._cubes(batch, answers)
        return value

    def _log_present(self, entities: Tensor, n: int) -> Tensor:
        """Log of the chance that an answer is among those of n training queries, float64."""
        self._frequency = self._frequency.to(entities.device)
        share = self._frequency[entities].double()
        return (-torch.expm1(n * torch.log1p(-share))).log()

    def _drawn(self, batch: Queries) -> Tensor:
        assert isinstance(self.n_candidates, int)
        drawn = torch.randint(
            self._links.n_entities, (self.n_candidates,), device=batch.answer.device,
            generator=self._generators.on(batch.answer),
        )  # fmt: skip
        return torch.unique(drawn)

    def _columns(self, entities: Tensor, after: int = 0) -> Tensor:
        """The column of each entity among some, −1 where it is none.

        One table for all steps, so that a step does not depend on the number of entities.
        """
        if self._where is None or self._where[0].device != entities.device:
            empty = torch.full((self._links.n_entities,), -1, device=entities.device)
            self._where = empty, entities[:0]
        where, before = self._where
        where[before] = -1
        where[entities] = torch.arange(after, after + len(entities), device=entities.device)
        self._where = where, entities
        return where

    def _rarity(self, batch: Queries) -> Tensor:
        """Weights of the queries of a batch, [B]."""
        n = self._links.n_relations
        back = Queries(batch.answer, (batch.relation + n) % (2 * n), batch.entity)
        both = [self._known.number(self._links.key(queries)) for queries in (batch, back)]
        return (torch.stack(both).sum(0) + 6.0).rsqrt()

    def _cubes(self, batch: Queries, answers: Tensor | None) -> Tensor:
        """Σ |x|³ of the vectors of a fact, a mean over the batch."""
        if answers is None:
            answers = self.scorer.candidates(batch.answer)
        vectors = (
            self.scorer.candidates(batch.entity), self.scorer.relations(batch.relation), answers
        )  # fmt: skip
        cubes: list[Tensor] = [rows.abs().pow(3).sum() for rows in vectors]
        return torch.stack(cubes).sum() / batch.number

    def check_data(self, data: Any) -> None:
        """Refuse a set with other names than that of the model, or with them in another order.

        Args:
            data: a set; what is none has no names, and is not checked.

        Raises:
            InputError: for such a set.
        """
        if not isinstance(data, LinkSet):
            return
        for kind in ("entities", "relations"):
            known, names = getattr(self._links, kind), getattr(data, kind)
            if names != known:
                raise InputError(
                    f"{data.name} is not the set of the model: its {len(names):,} {kind} are not "
                    f"the {len(known):,} of the model, or in another order, which "
                    f"LinkSet.from_triples(…, {kind}=) takes"
                )

    def scores(self, queries: Queries) -> Tensor:
        """Scores of queries against all entities, float [B, E], in evaluation mode.

        Args:
            queries: of entities and relations that the model has.

        Raises:
            InputError: for a query of what the model does not have.
        """
        self._check_known(queries)
        return scores_of(self.scorer, queries)

    def _check_known(self, queries: Queries) -> None:
        n_entities, n_relations = self._links.n_entities, self._links.n_relations
        known = (queries.entity >= 0) & (queries.entity < n_entities)
        known &= (queries.relation >= 0) & (queries.relation < 2 * n_relations)
        if not bool(known.all()):
            raise InputError(
                f"query {int(known.long().argmin())} is not of the model's {n_entities:,} entities "
                f"and 2 × {n_relations:,} relations"
            )

    @property
    def links(self) -> LinkSet:
        """The set that the model was made of."""
        return self._links

    def best(
        self, facts: Tensor, missing: Missing, *, k: int = 10, known: Facts | None = None
    ) -> tuple[Tensor, Tensor]:
        """The k best answers to many questions, by number, in memory for a block of scores.

        Relations are ordered by the mean of the scores of both questions of a fact.

        Args:
            facts: int64 [n, 3], heads, relations and tails; the missing column is not read.
            missing: ``head``, ``relation`` or ``tail``.
            k: answers, at least 1.
            known: answers that are left out, such as ``links.known(missing)``.

        Returns:
            Numbers of entities or relations, int64, and scores, float, [n, k] each or as many
            columns as there are answers, the best first; −∞ where known facts leave no more.

        Raises:
            InputError: for a number that the model does not have.

        Example:
            >>> links = LinkSet.from_triples([("a", "r", "b"), ("b", "r", "c")])
            >>> model = LinkContrast(DistMult(3, 1, dim=4), links)
            >>> answers, scores = model.best(links.train, "tail", k=2, known=links.known("tail"))
            >>> answers.shape, sorted(answers[0].tolist())
            (torch.Size([2, 2]), [0, 2])
        """
        check_at_least("k", k, 1)
        device = next((weight.device for weight in self.parameters()), facts.device)
        facts = facts.to(device).clone()
        facts[:, MISSING.index(missing)] = 0
        ends = facts[:, [0, 2]].T.reshape(-1)
        self._check_known(Queries(ends, facts[:, 1].repeat(2), ends))
        number, width = self._links.n_entities, 1
        if missing == "relation":
            number, width = self._links.n_relations, self.scorer.relations.weight.shape[1]
        known = None if known is None else known.to(device)
        size = max(1, ELEMENTS // (min(number, ANSWERS) * width))
        with evaluating(self.scorer), self.scorer.encoding():
            parts = [
                _highest(*self._scores_in_blocks(part, missing, known), number, k)
                for part in torch.split(facts, size)
            ]
        return torch.cat([ids for ids, _ in parts]), torch.cat([values for _, values in parts])

    def _scores_in_blocks(
        self, facts: Tensor, missing: Missing, known: Facts | None
    ) -> tuple[Callable[[int, int], Tensor], tuple[Tensor, Tensor]]:
        """Scores of the answers from a first to before a last one; and those that are known."""
        (head, relation, tail), links, scorer = facts.unbind(1), self._links, self.scorer
        n, entities = links.n_relations, scorer.candidates()
        entity, asked = (tail, relation + n) if missing == "head" else (head, relation)
        key = head * links.n_entities + tail
        if missing != "relation":
            key = links.key(Queries(entity, asked, tail))
        answers = (key[:0], key[:0]) if known is None else known.pairs(key)
        query = scorer.query(entity, asked)

        def compared(begin: int, end: int) -> Tensor:
            return scorer.compare(query, entities[begin:end])

        def of_relations(begin: int, end: int) -> Tensor:
            kinds, n_kinds = torch.arange(begin, end, device=facts.device), end - begin
            scores = [
                scorer.pairwise(
                    scorer.query(one.repeat_interleave(n_kinds), of.repeat(len(facts))),
                    entities[other].repeat_interleave(n_kinds, 0),
                )
                for one, of, other in ((head, kinds, tail), (tail, kinds + n, head))
            ]
            return (scores[0] + scores[1]).view(-1, n_kinds) / 2

        return of_relations if missing == "relation" else compared, answers

    def predict(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        links: LinkSet | None = None,
        k: int = 10,
        filtered: bool = True,
    ) -> list[tuple[str, float]]:
        """The k best answers to a question, by name.

        Args:
            head: name of the head, or None to ask for it.
            relation: name of the relation, likewise; relations are ordered by the mean of the
                scores of both questions.
            tail: name of the tail, likewise.
            links: another set than the model was made of, with the same names in the same order,
                whose facts are those known; None for its own.
            k: answers.
            filtered: whether known answers, of all parts, are left out.

        Returns:
            Names and scores, the best first.

        Raises:
            InputError: for a name that the model does not have, with the nearest ones, a set with
                other names, or where not two of the three are given.

        Example:
            >>> links = LinkSet.from_triples([("a", "r", "b"), ("b", "r", "c")])
            >>> model = LinkContrast(DistMult(3, 1, dim=4), links)
            >>> sorted(name for name, _ in model.predict("a", "r"))
            ['a', 'c']
        """
        links, named = self.links if links is None else links, (head, relation, tail)
        if named.count(None) != 1:
            raise InputError("give two of head, relation and tail: the third is what is asked for")
        self.check_data(links)
        missing = MISSING[named.index(None)]
        known = links.known(missing, "test") if filtered else None
        ids, scores = self.best(links.numbered([named]), missing, k=k, known=known)
        names = links.relations if missing == "relation" else links.entities
        best = zip(ids[0].tolist(), scores[0].tolist(), strict=True)
        return [(names[i], score) for i, score in best if score > -math.inf]


def _highest(
    scores: Callable[[int, int], Tensor], left_out: tuple[Tensor, Tensor], number: int, k: int
) -> tuple[Tensor, Tensor]:
    """Columns and values of the k highest scores of each row, from blocks of columns.

    Args:
        scores: scores with the columns from a first to before a last one.
        left_out: rows and columns of scores that do not count.
        number: of columns.
        k: how many.
    """
    best, (rows, columns) = list[tuple[Tensor, Tensor]](), left_out
    for begin in range(0, number, ANSWERS):
        block = scores(begin, min(begin + ANSWERS, number))
        inside = (columns >= begin) & (columns < begin + ANSWERS)
        block[rows[inside], columns[inside] - begin] = -math.inf
        top = block.topk(min(k, block.shape[1]))
        best.append((top.indices + begin, top.values))
        ids, values = (torch.cat(part, 1) for part in zip(*best, strict=True))
        values, order = values.topk(min(k, values.shape[1]))
        best = [(ids.gather(1, order), values)]
    return best[0]


def check_scorer(scorer: Any, links: LinkSet) -> None:
    """Refuse a model of another number of entities or relations than a set has.

    Raises:
        InputError: for such a model, or what is no :class:`Scorer`.
    """
    if not isinstance(scorer, Scorer):
        raise InputError(f"a scorer is a gcl_hard.links.Scorer, got {type(scorer).__name__}")
    sizes = scorer.entities.num_embeddings, scorer.relations.num_embeddings // 2
    if sizes != (links.n_entities, links.n_relations):
        raise InputError(
            f"{type(scorer).__name__} is of {sizes[0]:,} entities and {sizes[1]:,} relations, "
            f"and {links.name} has {links.n_entities:,} and {links.n_relations:,}"
        )


def scores_of(scorer: Scorer, queries: Queries) -> Tensor:
    """Scores of queries by a model against all entities, [B, E], in evaluation mode."""
    with evaluating(scorer), scorer.encoding():
        return Entities(scorer).scores(queries)


class Entities:
    """All entities as a model's candidates, inside of its ``encoding()``."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer, self.candidates = scorer, scorer.candidates()

    @cached_property
    def longest(self) -> Tensor:
        """The largest norm of a candidate."""
        norms: Tensor = torch.linalg.vector_norm(self.candidates, dim=1)
        return norms.max()

    @cached_property
    def exact(self) -> Scorer:
        """The model in double precision."""
        return deepcopy(self.scorer).double()

    def scores(self, queries: Queries, *, ranked: bool = False) -> Tensor:
        """Scores of queries, float [B, E].

        Where rounding leaves open which candidates are above the right answer, these are compared
        once more in double precision.

        Args:
            queries: the queries, whose answers may be unknown.
            ranked: whether of such candidates those above the right answer have the score ∞, those
                below −∞, and those level its own: the answer then has its rank in double precision.
        """
        answer = queries.answer.clamp(0, len(self.candidates) - 1)
        query = self.scorer.query(queries.entity, queries.relation)
        scores = self.scorer.compare(query, self.candidates)
        if not isinstance(self.scorer, TransE) or type(self.scorer).compare is not TransE.compare:
            return scores
        right = scores.gather(1, answer[:, None])[:, 0]
        window = self.scorer.rounding_window(query, self.longest, right)
        low, high = (end[:, None].to(scores.dtype) for end in window)
        # Sums of truth values go through int64, which takes ten times as long.
        truth = torch.empty_like(scores, dtype=None if scores.shape[1] < 2**24 else torch.float64)
        within = torch.ge(scores, low, out=truth).sum(1) - torch.gt(scores, high, out=truth).sum(1)
        asked = (within > 1).nonzero()[:, 0]  # the answer itself is within
        some = scores[asked]
        rows, columns = ((some >= low[asked]) & (some <= high[asked])).nonzero(as_tuple=True)
        if not len(rows):
            return scores
        query = self.exact.query(queries.entity[asked], queries.relation[asked])
        answers = self.exact.pairwise(query, self.exact.candidates(answer[asked]))[rows]
        size = max(1, CLOSE // query.shape[1])
        close = torch.cat([
            self.exact.pairwise(query[i], self.exact.candidates(j))
            for i, j in zip(torch.split(rows, size), torch.split(columns, size), strict=True)
        ])  # fmt: skip
        if ranked:
            level = right[asked][rows].masked_fill(close > answers, math.inf)
            close = level.masked_fill(close < answers, -math.inf)
        scores[asked[rows], columns] = close.to(scores.dtype)
        return scores
