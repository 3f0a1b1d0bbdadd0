"""Models that score facts, and their training by contrast of a query's answer with candidates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from gcl_hard.errors import InputError, check_at_least, check_number, unknown
from gcl_hard.graphs.links import Facts, LinkSet, Queries
from gcl_hard.losses import ContrastiveLoss
from gcl_hard.models import evaluating, loss_of
from gcl_hard.seeds import Generators


class Scorer(nn.Module, ABC):
    """Base of models that score a query (entity, relation, ?) against candidates.

    A module of your own needs ``query``, ``candidates`` and ``compare``; with drawn
    candidates ``pairwise`` as well, and with ``n3`` ``relations``.

    Args:
        n_entities: E.
        n_relations: R; with the questions for heads there are 2 R vectors.
        dim: d, width of the vectors of entities and relations.
        bias: added to every score; under JSD, the logistic loss, negative where most candidates
            are wrong, and of distances positive: RotatE's margin.
    """

    def __init__(self, n_entities: int, n_relations: int, dim: int, *, bias: float = 0.0) -> None:
        super().__init__()
        for name, number in (("n_entities", n_entities), ("n_relations", n_relations),
                             ("dim", dim)):  # fmt: skip
            check_at_least(name, number, 1)
        check_number("bias", bias)
        self.entities = nn.Embedding(n_entities, dim)
        self.relations = nn.Embedding(2 * n_relations, dim)
        self.bias = bias
        for table in (self.entities, self.relations):
            nn.init.normal_(table.weight, std=dim**-0.5)

    @abstractmethod
    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        """What candidates are compared with, float [B, d], of int64 [B] and [B]."""

    def candidates(self, entities: Tensor | None = None) -> Tensor:
        """Vectors of some entities, float [C, d] of int64 [C]; of all if None."""
        found: Tensor = self.entities.weight if entities is None else self.entities(entities)
        return found

    def compare(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """Scores, float [B, C]: dot products, unless a model has others."""
        return queries @ candidates.T + self.bias

    def pairwise(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """The score of each query with a candidate of its own, float [B]."""
        return (queries * candidates).sum(1) + self.bias


class DistMult(Scorer):
    r"""Scores by three vectors, the same for both directions of a relation's facts.

    .. math:: s(h, r, t) = \sum_k h_k r_k t_k + b

    Args:
        n_entities: E.
        n_relations: R.
        dim: d.
        bias: b.

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
        found: Tensor = self.entities(entity) * self.relations(relation)
        return found


class ComplEx(Scorer):
    r"""Scores by complex vectors, of which the first half is real and the second imaginary.

    .. math:: s(h, r, t) = \operatorname{Re} \sum_k h_k r_k \bar t_k + b

    Args:
        n_entities: E.
        n_relations: R.
        dim: d, even: d / 2 complex numbers.
        bias: b.

    Source:
        Trouillon et al. (2016), with reciprocal relations.

    Example:
        >>> ComplEx(4, 2, dim=8).query(torch.tensor([0]), torch.tensor([1])).shape
        torch.Size([1, 8])
    """

    def __init__(self, n_entities: int, n_relations: int, dim: int, *, bias: float = 0.0) -> None:
        super().__init__(n_entities, n_relations, dim, bias=bias)
        if dim % 2:
            raise InputError(
                f"dim of ComplEx must be even, for real and imaginary halves, got {dim}"
            )

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
        found: Tensor = self.entities(entity) + self.relations(relation)
        return found

    def compare(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """Scores by distances, [B, C]."""
        distance: Tensor = torch.cdist(queries, candidates)
        return self.bias - distance

    def pairwise(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """The score of each query with a candidate of its own, [B]."""
        distance: Tensor = torch.linalg.vector_norm(queries - candidates, dim=1)
        return self.bias - distance


SCORERS: dict[str, type[Scorer]] = {"distmult": DistMult, "complex": ComplEx, "transe": TransE}
"""The models by name."""


class LinkContrast(nn.Module):
    """Contrast the right answer of each query with candidates, all entities or some drawn.

    The known facts are those of the training part alone; what stands in another part is never
    read. Every method takes positives ``"view"`` here: the one answer of the query.

    Args:
        scorer: a :class:`Scorer`, or a module of your own with its methods.
        links: the set; its training facts are what label-aware methods leave out of the negatives.
        method: a name of ``METHODS``; ignored if ``loss`` is given.
        loss: a :class:`ContrastiveLoss` of your own, whose positives are ``"view"``.
        candidates: entities drawn in each step, uniformly and with replacement; its queries share
            those that are drawn, each once. None for all.
        n3: λ ≥ 0 of the regulariser λ Σ |x|³ of the vectors of a fact, a mean over queries.
        seed: seed of the candidates.
        **options: options of :func:`gcl_hard.contrastive_loss`.

    Raises:
        InputError: for a loss with other positives, or a size below 1.

    Source:
        n3: Lacroix, Usunier and Obozinski (2018).

    Example:
        >>> from gcl_hard import fit
        >>> links = LinkSet.from_triples([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a")])
        >>> model = LinkContrast(DistMult(3, 1, dim=4), links, method="hscl", temperature=1.0)
        >>> len(fit(model, links, epochs=2, batch_size=3))
        2
    """

    def __init__(
        self,
        scorer: nn.Module,
        links: LinkSet,
        *,
        method: str = "hscl",
        loss: ContrastiveLoss | None = None,
        candidates: int | None = 512,
        n3: float = 0.0,
        seed: int = 0,
        **options: Any,
    ) -> None:
        super().__init__()
        if loss is None:
            options = {"positives": "view", **options}
            if options.get("objective") == "jsd":
                options = {"hardness_scale": "score", **options}
        self.loss = loss_of(method, loss, options)
        self.loss._refuse_scored()
        if candidates is not None:
            check_at_least("candidates", candidates, 1)
        check_number("n3", n3, least=0)
        self.scorer: Any = scorer
        self.n_candidates, self.n3 = candidates, n3
        self._n_entities, self._n_relations = links.n_entities, links.n_relations
        self._known, self._key = links.training_facts, links.key
        self._generators = Generators(seed)

    def forward(self, batch: Queries) -> Tensor:
        """Loss of a batch of training queries, float [], nats, with the regulariser."""
        query = self.scorer.query(batch.entity, batch.relation)
        known, where = self._known_of(batch.entity.device), None
        answers = None
        rows = torch.arange(batch.number, device=batch.entity.device)
        if self.n_candidates is None:
            scores = self.scorer.compare(query, self.scorer.candidates())
            own, repeated = batch.answer, None
        else:
            drawn = torch.randint(
                self._n_entities, (self.n_candidates,), device=batch.entity.device,
                generator=self._generators.on(batch.answer),
            )  # fmt: skip
            drawn = torch.unique(drawn)
            answers = self.scorer.candidates(batch.answer)
            right = self.scorer.pairwise(query, answers)
            others = self.scorer.compare(query, self.scorer.candidates(drawn))
            scores, own = torch.cat([right[:, None], others], 1), torch.zeros_like(rows)
            where = torch.full((self._n_entities,), -1, device=rows.device)
            where[drawn] = torch.arange(1, len(drawn) + 1, device=rows.device)
            again = where[batch.answer]
            repeated = rows[again > 0], again[again > 0]
        facts = None
        if self.loss.sampler.needs_labels:
            facts = known.pairs(self._key(batch), where)
        value = self.loss.scored(scores, own, known=facts, repeated=repeated)
        return value + self.n3 * self._cubes(batch, answers) if self.n3 else value

    def _known_of(self, device: torch.device) -> Facts:
        if self._known.keys.device != device:
            known = self._known
            self._known = Facts(*(x.to(device) for x in (known.keys, known.starts, known.answers)))
        return self._known

    def _cubes(self, batch: Queries, answers: Tensor | None) -> Tensor:
        """Σ |x|³ of the vectors of a fact, a mean over the batch."""
        if answers is None:
            answers = self.scorer.candidates(batch.answer)
        vectors = (
            self.scorer.candidates(batch.entity), self.scorer.relations(batch.relation), answers
        )  # fmt: skip
        return torch.stack([one.abs().pow(3).sum() for one in vectors]).sum() / batch.number

    def scores(self, queries: Queries) -> Tensor:
        """Scores of queries against all entities, float [B, E], in evaluation mode."""
        return scores_of(self.scorer, queries)

    def predict(
        self,
        links: LinkSet,
        head: str | None,
        relation: str,
        tail: str | None = None,
        *,
        k: int = 10,
        filtered: bool = True,
    ) -> list[tuple[str, float]]:
        """The k best answers to a question, by name.

        Args:
            links: the set that the model was trained on, which has the names.
            head: name of the head, or None to ask for it.
            relation: name of the relation.
            tail: name of the tail, where heads are asked for.
            k: answers.
            filtered: whether answers known from training are left out.

        Returns:
            Names and scores, the best first.

        Raises:
            InputError: for a name that there is not, or where not one end is given.

        Example:
            >>> links = LinkSet.from_triples([("a", "r", "b"), ("b", "r", "c")])
            >>> model = LinkContrast(DistMult(3, 1, dim=4), links)
            >>> sorted(name for name, _ in model.predict(links, "a", "r"))
            ['a', 'c']
        """
        if (head is None) == (tail is None):
            raise InputError("give the head or the tail: the other one is what is asked for")
        entity = _index("entity", head or tail or "", links.entities)
        r = _index("relation", relation, links.relations) + (links.n_relations if tail else 0)
        device = next(self.parameters()).device
        asked = Queries(*(torch.tensor([one], device=device) for one in (entity, r, 0)))
        scores = self.scores(asked)[0].cpu()
        if filtered:
            _, known = links.training_facts.pairs(links.key(Queries(*(x.cpu() for x in asked))))
            scores[known] = -torch.inf
        best = scores.topk(min(k, links.n_entities))
        return [
            (links.entities[i], value)
            for value, i in zip(best.values.tolist(), best.indices.tolist(), strict=True)
            if value > -torch.inf
        ]


def scores_of(scorer: Any, queries: Queries) -> Tensor:
    """Scores of queries by a :class:`Scorer` against all entities, [B, E], in evaluation mode."""
    with evaluating(scorer):
        query = scorer.query(queries.entity, queries.relation)
        found: Tensor = scorer.compare(query, scorer.candidates())
    return found


def _index(kind: str, name: str, names: tuple[str, ...]) -> int:
    if name not in names:
        raise unknown(kind, name, names[:20])
    return names.index(name)
