"""The contrastive loss: an objective taken under the sampler's negative distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any, Literal, TypeVar, get_args

import torch
from torch import Tensor, nn

from gcl_hard.core.tracing import transformed
from gcl_hard.errors import InputError, check_number, check_option, checking_keywords
from gcl_hard.functional import negatives as neg
from gcl_hard.functional.dense import dense, own_logits, scores_of
from gcl_hard.functional.diagnostics import Diagnostics, Measured, measured, measured_scores
from gcl_hard.functional.fused import Rule, fused
from gcl_hard.functional.hardening import Exponential, Hardening, Threshold
from gcl_hard.functional.hardness import (
    DEFAULT_SCALE,
    TEMPERATURE,
    HardnessScale,
    ScoredScale,
    bounded,
)
from gcl_hard.functional.labels import check_unknown
from gcl_hard.functional.mixture import drawn_similarities
from gcl_hard.functional.negatives import Labels
from gcl_hard.functional.objectives import Objective
from gcl_hard.functional.plan import Pairing, Plan, Totals, divisor
from gcl_hard.functional.pool import HardPositives
from gcl_hard.functional.schedules import Schedule
from gcl_hard.functional.scored import (
    Known,
    ScoredBatch,
    blocks_of_products,
    blocks_of_scores,
    checked,
    streams,
)
from gcl_hard.functional.streaming import HARDENINGS, streamed
from gcl_hard.functional.symmetric import is_symmetric, symmetric
from gcl_hard.losses.gathering import (
    gather,
    refusing_together,
    sum_for_mean_gradients,
    summed,
    world_size,
)
from gcl_hard.losses.pairing import (
    LabelUse,
    only,
    pair_local_global,
    pair_pools,
    pair_views,
    views_of,
)
from gcl_hard.losses.sampling import NegativeSampler, PairWeights
from gcl_hard.losses.synthetic import scene_of

Positives = Literal["view", "class", "hard"]
Pooling = Literal["pair", "logsumexp"]
Reduction = Literal["pairs", "anchors", "none"]
OnEmpty = Literal["skip", "raise"]
Streaming = Literal["auto"] | bool
Negatives = Literal["local", "gathered"]

H = TypeVar("H", Exponential, Threshold)


STREAMED_FROM = 128**2
"""Scores from which InfoNCE is taken in blocks."""


class ContrastiveLoss(nn.Module):
    r"""Contrastive loss with hard negatives, for views of items or for nodes against graphs.

    InfoNCE (t = cosine / γ) and JSD (t = dot product):

    .. math:: \ell = \log\left(1 + M e^{-t^+} \mathbb{E}_q[e^t]\right), \qquad
              \ell = \operatorname{softplus}(-t^+) + \mathbb{E}_q[\operatorname{softplus}(t)]
              - 2 \log 2

    Args:
        sampler: the negative distribution q.
        temperature: γ > 0 of InfoNCE, 0.5 if None; an error with JSD, which has none.
        objective: ``"infonce"`` or ``"jsd"``.
        positives: ``"view"`` (the anchor's other views), ``"class"`` (every other embedding of
            its class, the other views included, one term per pair; needs labels), or ``"hard"``, a
            :class:`~gcl_hard.functional.pool.HardPositives` (one anchor of each item and positives
            chosen from its views; candidates are the first views of the other items). The positive
            of a node is always its own graph.
        pooling: ``"pair"`` (a term per positive) or ``"logsumexp"`` (positives summed inside the
            logarithm; InfoNCE only).
        weight: M; ``"others"`` is the number of `others` of an anchor (n − 2 for two views, V (B −
            1) for V views of B items, B − 1 with hard positives, G − 1 for graphs, plus further
            candidates and synthetic negatives), the same for every method; ``"kept"`` the number
            of candidates that q keeps, so that E_q becomes a sum; or a number. InfoNCE only.
        class_prior: τ⁺ in [0, 1) of the debiased loss, None for none; an error with
            ``admit="other_labels"``, where there is nothing to debias, unless ``unknown`` marks
            labels as incomplete: then it is the probability that a remaining negative shares the
            anchor's class, as unknown facts do.
        detach_weights: whether q is a constant to the gradient. False reproduces the published
            training code; it is an error with ``draws``, which carry no gradient.
        detach_candidates: whether candidates and positives are constants to the gradient, as
            embeddings of a second encoder are.
        reduction: mean over ``"pairs"`` (default for class positives) or over ``"anchors"`` of
            their mean over positives (default otherwise), which alone is unbiased where
            ``anchors`` are drawn; ``"none"`` gives that mean for each anchor, 0 for those that are
            left out.
        streaming: ``"auto"`` takes large batches of InfoNCE in blocks of scores: the same value and
            gradient in memory that grows with the batch and not with its square, but no second
            derivative; not inside torch.func or torch.compile; on a GPU with class positives in
            several blocks it waits once for where classes begin. True and False override this. JSD
            (except on scores with ``hardness_scale="score"``), ``draws``, synthetic negatives, hard
            positives, optimal transport and custom hardenings do not stream.
        hardness_scale: what a hardening sees of JSD's scores, which have no bounds: ``"rank"``
            (normal scores of ranks among the anchor's others, under admission ``"rest"`` among all
            but the anchor; the default), ``"anchor"`` (deviations from their mean), ``"cosine"``
            (γ = 0.5) or ``"batch-max"`` (HCL's published code; hardly hardens); :meth:`scored` also
            takes ``"score"``, the score itself; see
            :func:`~gcl_hard.functional.hardness.jsd_hardness`. An error with InfoNCE, whose
            hardenings see cosines.
        negatives: ``"local"``, or ``"gathered"`` for a batch that is spread over processes
            (torch.distributed, as torchrun starts them): every process keeps its own anchors and
            sees the candidates of all. Value and diagnostics are those of the joined batch, whose
            items are in the order of the processes; its gradient, too, after
            DistributedDataParallel has taken the mean over processes. Not with ``"batch-max"``.
            Further candidates stay those of each process, and ``"none"`` gives its own anchors.
        unknown: label of items whose class is unknown, any integer such as −1; None if all classes
            are known. A pair with such a label is never a class positive, and it is a negative: an
            anchor without a label has its other views as positives and all others as negatives, so
            that hscl is hucl there. M stays the same. An error with a ``label_gap``, under which
            unknown labels are NaN and a pair with one is neither positive nor negative.
        on_empty: ``"skip"`` leaves anchors without a negative or without a positive out of the
            mean (if none is left, or the batch is empty, the loss is an attached 0);
            ``"raise"`` makes them an error.

    Raises:
        InputError: for values outside the ranges above, or combinations without a meaning.

    Source:
        H-SCL paper, Eq. 3; sunfanyunn/InfoGraph for JSD.

    Example:
        >>> from gcl_hard import Exponential
        >>> sampler = NegativeSampler(admit="other_labels", hardening=Exponential(beta=1.0))
        >>> loss = ContrastiveLoss(sampler, positives="class", temperature=0.5)
        >>> z = torch.nn.functional.one_hot(torch.arange(4)).float()
        >>> loss(z, z, torch.tensor([0, 1, 2, 3]))
        tensor(0.5944)
    """

    counts: dict[str, int | Tensor] | None = None
    """Sums of :attr:`Diagnostics.counts` since it was last None; training resets it before each
    batch."""

    @checking_keywords(beta="sampler=NegativeSampler(hardening=Exponential(beta={}))")
    def __init__(
        self,
        sampler: NegativeSampler,
        *,
        temperature: float | None = None,
        objective: Objective = "infonce",
        positives: Positives | HardPositives = "view",
        pooling: Pooling = "pair",
        weight: Literal["others", "kept"] | float = "others",
        class_prior: float | None = None,
        detach_weights: bool = True,
        detach_candidates: bool = False,
        reduction: Reduction | None = None,
        streaming: Streaming = "auto",
        hardness_scale: HardnessScale | None = None,
        negatives: Negatives = "local",
        unknown: int | None = None,
        on_empty: OnEmpty = "skip",
    ) -> None:
        super().__init__()
        if not isinstance(sampler, NegativeSampler):
            named = f"contrastive_loss({sampler!r}) makes the loss of a method"
            hint = named if isinstance(sampler, str) else "such as NegativeSampler()"
            raise InputError(f"sampler is a NegativeSampler, got {sampler!r}: {hint}")
        if reduction is None:
            reduction = "pairs" if positives == "class" else "anchors"
        if positives == "hard":
            positives = HardPositives()
        hard_positives = isinstance(positives, HardPositives)
        for name, option, allowed in (
            ("objective", objective, get_args(Objective)), ("pooling", pooling, get_args(Pooling)),
            ("positives", "hard" if hard_positives else positives, get_args(Positives)),
            ("reduction", reduction, get_args(Reduction)),
            ("on_empty", on_empty, get_args(OnEmpty)),
            ("negatives", negatives, get_args(Negatives)),
            ("streaming", str(streaming), ("auto", "True", "False")),
        ):  # fmt: skip
            check_option(name, str(option), allowed)
        if weight not in ("others", "kept"):
            check_number("weight", weight, above=0)
        if objective == "jsd":
            of_infonce = {
                "temperature": temperature is not None, "pooling": pooling != "pair",
                "weight": weight != "others", "hard positives": hard_positives,
                "synthetic negatives": sampler.synthetic is not None,
            }  # fmt: skip
            _refuse('JSD does not go with what belongs to objective="infonce": ', of_infonce)
            hardness_scale = hardness_scale or DEFAULT_SCALE
            check_option("hardness_scale", hardness_scale, get_args(HardnessScale))
            temperature = TEMPERATURE[hardness_scale]
        elif hardness_scale is not None:
            raise InputError(f"hardness_scale={hardness_scale!r} belongs to JSD: leave it out")
        temperature = 0.5 if temperature is None else temperature
        value = _value_of(temperature)
        self.sampler = sampler
        self.method = "this loss"
        """What messages call it; of :func:`contrastive_loss` the name of the method."""
        self.temperature = temperature
        """γ; under JSD of the hardening alone."""
        self.hardness_scale = hardness_scale
        self.objective: Objective = objective
        self.positives: Positives | HardPositives = positives
        self.pooling: Pooling = pooling
        self.weight: Literal["others", "kept"] | float = weight
        self.class_prior = class_prior
        self.detach_weights = detach_weights
        self.detach_candidates = detach_candidates
        self.reduction: Reduction = reduction
        self.negatives: Negatives = negatives
        self.unknown = None if unknown is None else check_unknown(unknown)
        """The label of items of unknown class."""
        self.on_empty: OnEmpty = on_empty
        self.streaming: Streaming = streaming
        self.fused = True
        """Whether nodes against graphs use the fused implementation where it applies."""
        _check(self)
        sampler.hardening.check(value, bounded=hardness_scale is None or bounded(hardness_scale))

    @property
    def takes_items(self) -> bool:
        """Whether the first view is the item itself, as hard positives need."""
        return isinstance(self.positives, HardPositives)

    @property
    def _gathers(self) -> bool:
        return self.negatives == "gathered" and world_size() > 1

    @property
    def rule(self) -> Rule:
        """Hardening and admission in the current epoch."""
        return Rule(
            self.sampler.current, self.sampler.needs_labels, self.detach_weights,
            self.class_prior, self.hardness_scale or DEFAULT_SCALE,
        )  # fmt: skip

    @property
    def beta(self) -> float | Schedule:
        """β of the exponential hardening; can be set. AttributeError for another hardening."""
        return self._hardening(Exponential, "beta", AttributeError).beta

    @beta.setter
    def beta(self, value: float | Schedule) -> None:
        self.sampler.hardening = replace(self._hardening(Exponential, "beta"), beta=value)

    @property
    def threshold(self) -> float | Schedule:
        """Cosine l of the threshold hardening; can be set. AttributeError for another hardening."""
        return self._hardening(Threshold, "threshold", AttributeError).cosine

    @threshold.setter
    def threshold(self, value: float | Schedule) -> None:
        self.sampler.hardening = replace(self._hardening(Threshold, "threshold"), cosine=value)

    def _hardening(self, kind: type[H], setting: str, error: type[Exception] = InputError) -> H:
        hardening = self.sampler.hardening
        if not isinstance(hardening, kind):
            raise error(f"this loss has no {setting}: its hardening is {hardening}")
        return hardening

    def set_epoch(self, epoch: int, epochs: int) -> None:
        """Set the sampler's schedule to ``epoch`` (1 … ``epochs``)."""
        self.sampler.set_epoch(epoch, epochs)

    def forward(
        self,
        z1: Tensor | Sequence[Tensor],
        z2: Tensor | Labels | None = None,
        labels: Labels | None = None,
        *,
        candidates: Tensor | None = None,
        candidate_labels: Labels | None = None,
        anchors: Tensor | Sequence[int] | None = None,
    ) -> Tensor:
        """Loss of two views, ``loss(z1, z2, labels)``, or of any number, ``loss([z1, …], labels)``.

        One view, ``loss(z, labels)``, has positives of its class alone: any number of embeddings
        of a label, in any order.

        Args:
            z1: float [B, d], first view of each item, a list of views, or all as [B, V, d]; rows
                need not be normalised. Half precision is computed in float32, also under autocast.
            z2: float [B, d], second view; or the labels, after a list or a single view.
            labels: int64 [B], ≥ 0 or ``unknown``, or a list or NumPy array; with a ``label_gap``
                also float [B], or [B, T] as ``labels=`` or after a list of views (as a second
                argument it is a view). Used only if the admission or the positives need them. On a
                GPU, and compiled, a negative label makes the loss NaN instead of an error.
            candidates: float [K, d], further candidates, such as a queue: others of every anchor,
                and positives of its class with class positives.
            candidate_labels: [K], where labels are used.
            anchors: int64 [A], or a list, ids of different items from 0 to B − 1: their
                embeddings alone, of all views, are anchors. Candidates, positives and M stay those
                of all items, so that in blocks the memory grows with a block of anchors times the
                candidates. On a GPU, and compiled, an id out of range makes the loss NaN instead of
                an error. None for all items; not with gathered negatives, or where scores of all
                anchors count (``"batch-max"``, optimal transport).

        Returns:
            float [], nats; with ``reduction="none"`` [V B], view after view, or [B] of hard
            positives; with ``anchors`` [V A] or [A].
        """
        return self.with_diagnostics(
            z1, z2, labels, candidates=candidates, candidate_labels=candidate_labels,
            anchors=anchors,
        )[0]  # fmt: skip

    def with_diagnostics(
        self,
        z1: Tensor | Sequence[Tensor],
        z2: Tensor | Labels | None = None,
        labels: Labels | None = None,
        *,
        candidates: Tensor | None = None,
        candidate_labels: Labels | None = None,
        anchors: Tensor | Sequence[int] | None = None,
    ) -> tuple[Tensor, Diagnostics]:
        """Loss of views and its diagnostics; arguments as for :meth:`forward`."""
        with refusing_together(self._gathers):
            if candidates is None and candidate_labels is not None:
                raise InputError("candidate_labels need candidates")
            if anchors is not None:
                self.check_anchors()
            if self._gathers:
                divisor(self.temperature)  # checks it
            views = views_of(z1, z2, labels)._replace(
                candidates=candidates, candidate_labels=candidate_labels
            )
            use = self._label_use(class_positives=self.positives == "class")
            with torch.autocast(views.views[0].device.type, enabled=False):
                if isinstance(self.positives, HardPositives):
                    pairing = pair_pools(views, use, self.positives, gathers=self._gathers)
                else:
                    pairing = pair_views(views, use, gathers=self._gathers)
            if anchors is not None:
                pairing = only(pairing, anchors)
        if pairing.n_anchors and self.positives == "view" and pairing.n_views == 1:
            if use.needed_by is None and views.labels is not None:
                raise InputError(f"{self.method} reads no labels; hscl takes (z, labels)")
            raise InputError('one view has no other: give a second, or positives="class"')
        return self._compute(pairing)

    def local_global(
        self, nodes: Tensor, graphs: Tensor, batch: Tensor, graph_labels: Labels | None = None
    ) -> Tensor:
        """Loss of nodes against graphs; the positive of a node is its own graph.

        Args:
            nodes: float [N, d], the anchors.
            graphs: float [G, d], the candidates.
            batch: int64 [N], graph of each node, 0 … G − 1.
            graph_labels: int64 [G], ≥ 0 or ``unknown``, or a list or NumPy array; with a
                ``label_gap`` also float [G] or [G, T]. Used only if the admission needs them.

        Returns:
            float [], nats.
        """
        return self.local_global_with_diagnostics(nodes, graphs, batch, graph_labels)[0]

    def local_global_with_diagnostics(
        self, nodes: Tensor, graphs: Tensor, batch: Tensor, graph_labels: Labels | None = None
    ) -> tuple[Tensor, Diagnostics]:
        """Loss of nodes against graphs and its diagnostics, as :meth:`local_global`."""
        if isinstance(self.positives, HardPositives):
            raise InputError("hard positives are chosen from views: TwoView, contrast two-view")
        use = self._label_use(class_positives=False)
        with refusing_together(self._gathers):
            neg.check_local_global(nodes, graphs, batch)
            with torch.autocast(nodes.device.type, enabled=False):
                pairing = pair_local_global(
                    nodes, graphs, batch, graph_labels, use, gathers=self._gathers
                )
        return self._compute(pairing)

    def scored(
        self,
        scores: Tensor,
        positive: Tensor,
        *,
        known: Known | None = None,
        anchor_weights: Tensor | None = None,
        log_proposal: Tensor | None = None,
        repeated: Known | None = None,
    ) -> Tensor:
        r"""Loss of queries against candidates by the scores of any model, as for predicting links.

        A query (head, relation) is an anchor, entities are the candidates, and the known facts of
        the query are its class: ``others`` admits all columns but the positive's,
        ``other_labels`` only those that are no known facts ("filtering"), and M = C − 1. InfoNCE
        takes t = score / γ and hardens by the score, JSD (the logistic loss) t = score, to which
        a bias may have been added.

        Args:
            scores: float [B, C], of any size and sign; half precision is computed in float32.
            positive: int64 [B], column of each query's positive, which is no candidate.
            known: the known facts, bool [B, C], or rows and columns of the pairs, int64 [K] each;
                the positive may be among them. Needed by ``other_labels``.
            anchor_weights: float [B], ≥ 0, weights of the queries in the mean; 1 if None.
            log_proposal: float [C], log of how often a candidate is drawn, up to a constant: q is
                divided by it. None if the candidates are complete or drawn uniformly.
            repeated: further columns of a query's positive, as drawn candidates may have, in the
                form of ``known``: they are no candidates under any admission.

        Returns:
            float [], nats; [B] with ``reduction="none"``. A query without a negative is left out.

        Raises:
            InputError: for mismatched shapes, or a loss whose parts need embeddings.

        Source:
            The self-adversarial loss of RotatE (Sun et al., 2019) with margin γ_R and α is, for
            t = γ_R − d, (ℓ + 2 log 2) / 2 of hscl under JSD with β = α, ``hardness_scale="score"``
            and ``positives="view"``.

        Example:
            >>> loss = ContrastiveLoss(NegativeSampler("other_labels"))
            >>> known = torch.tensor([[True, True, False]])
            >>> loss.scored(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([0]), known=known)
            tensor(0.0360)
        """
        return self.scored_with_diagnostics(
            scores, positive, known=known, anchor_weights=anchor_weights, log_proposal=log_proposal,
            repeated=repeated,
        )[0]  # fmt: skip

    def scored_with_diagnostics(
        self,
        scores: Tensor,
        positive: Tensor,
        *,
        known: Known | None = None,
        anchor_weights: Tensor | None = None,
        log_proposal: Tensor | None = None,
        repeated: Known | None = None,
    ) -> tuple[Tensor, Diagnostics]:
        """Loss of scores and its diagnostics, as :meth:`scored`; known facts share a label."""
        self.check_scored()
        if scores.dim() != 2 or not scores.is_floating_point():
            raise InputError(f"scores must be float [B, C], got {neg.described(scores)}")
        batch = self._checked(
            (len(scores), scores.shape[1]), positive, known=known, anchor_weights=anchor_weights,
            log_proposal=log_proposal, repeated=repeated,
        )  # fmt: skip
        plan = self._scored_plan(batch)._replace(reduction="none")
        with torch.autocast(scores.device.type, enabled=False):
            scores = _at_least_single(scores)
            if self._streams_scored(scores.numel(), plan):
                sums = blocks_of_scores(scores, batch._replace(anchor_weights=None), plan)
            else:
                sums = dense(None, plan, batch.dense(scores, plan))
            detached = scores.detach()

            def measure(labels: bool) -> Measured:
                return measured_scores(batch.dense(detached, plan), plan, labels)

            diagnostics = self._kept(self._counted(sums.number, sums.empty, len(positive), measure))
            return self._reduced(sums.total, sums, batch, summed_up=False), diagnostics

    def against(
        self,
        queries: Tensor,
        candidates: Tensor,
        positive: Tensor,
        *,
        known: Known | None = None,
        anchor_weights: Tensor | None = None,
        log_proposal: Tensor | None = None,
        repeated: Known | None = None,
        bias: float = 0.0,
    ) -> Tensor:
        r"""Loss of queries against candidates by dot products, never all in memory at once.

        The same as :meth:`scored` of ``queries @ candidates.T + bias`` in memory that grows with B
        + C and not with B · C, so that all entities can be candidates.

        Args:
            queries: float [B, d], not normalised.
            candidates: float [C, d].
            positive: as for :meth:`scored`.
            known: likewise.
            anchor_weights: likewise.
            log_proposal: likewise.
            repeated: likewise.
            bias: b, added to every score.

        Returns:
            float [], nats; [B] with ``reduction="none"``.

        Raises:
            InputError: as for :meth:`scored`.

        Example:
            >>> loss = ContrastiveLoss(NegativeSampler(), streaming=True)
            >>> q, c = torch.eye(2, 3), torch.eye(3)
            >>> positive = torch.tensor([0, 1])
            >>> torch.equal(loss.against(q, c, positive), loss.scored(q @ c.T, positive))
            True
        """
        self.check_scored()
        batch = self._checked(
            (len(queries), len(candidates)), positive, known=known,
            anchor_weights=anchor_weights, log_proposal=log_proposal, repeated=repeated,
        )  # fmt: skip
        check_number("bias", bias)
        plan = self._scored_plan(batch)
        with torch.autocast(queries.device.type, enabled=False):
            queries, candidates = _at_least_single(queries), _at_least_single(candidates)
            if not self._streams_scored(len(queries) * len(candidates), plan):
                return self.scored(
                    queries @ candidates.T + bias, positive, known=known,
                    anchor_weights=anchor_weights, log_proposal=log_proposal, repeated=repeated,
                )  # fmt: skip
            weights = batch.anchor_weights
            summed_up = self.reduction != "none" and not (
                weights is not None and weights.requires_grad
            )
            inside = weights.to(queries.dtype) if weights is not None and summed_up else None
            plan = plan if summed_up else plan._replace(reduction="none")
            sums = blocks_of_products(
                queries, candidates, batch._replace(anchor_weights=inside), plan, bias
            )
            self._kept(self._counted(sums.number, sums.empty, len(positive), _no_measures))
            return self._reduced(sums.total, sums, batch, summed_up=summed_up)

    def _checked(self, shape: tuple[int, int], positive: Tensor, **detached: Any) -> ScoredBatch:
        """A batch of queries and candidates, checked."""
        batch = checked(shape, positive, **detached)
        if batch.known is None and self.sampler.needs_labels:
            raise InputError('admit="other_labels" needs the known facts of each query: give known')
        if batch.anchor_weights is not None and self.reduction == "none":
            raise InputError("anchor_weights weigh a mean: leave them out with reduction='none'")
        return batch

    def _scored_plan(self, batch: ScoredBatch) -> Plan:
        return self._plan(self.sampler)._replace(
            raw=True, class_positives=False, log_weights=batch.log_weights_of
        )

    def _streams_scored(self, n_scores: int, plan: Plan) -> bool:
        """Whether this many scores of queries are computed in blocks."""
        if self.streaming is False or not streams(plan) or transformed():
            return False
        return self.streaming is True or n_scores >= STREAMED_FROM

    def _reduced(
        self, total: Tensor, sums: Totals, batch: ScoredBatch, *, summed_up: bool
    ) -> Tensor:
        """The weighted mean over queries that have a negative, or the loss of each."""
        if self.reduction == "none":
            return total
        weights = (~sums.empty).to(total.dtype)
        if batch.anchor_weights is not None:
            weights = weights * batch.anchor_weights.to(total.dtype)
        whole = weights.sum()
        total = total if summed_up else (total * weights).sum()
        return total / torch.where(whole > 0, whole, 1.0)

    def check_scored(self) -> None:
        """Check that the loss can be computed from scores alone.

        Raises:
            InputError: if a part of it needs embeddings, or several positives.
        """
        sampler = self.sampler
        reasons = {
            f'positives={self.positives!r}: give positives="view"': self.positives != "view",
            "synthetic negatives": sampler.synthetic is not None,
            "pair_weights of items: give log_proposal or known": sampler.pair_weights is not None,
            f'hardness_scale="{self.hardness_scale}"': (
                self.hardness_scale not in (None, *get_args(ScoredScale))
            ),
            "gathered negatives": self.negatives == "gathered",
            "detach_candidates": self.detach_candidates,
            "streaming=True and such a hardening": (
                self.streaming is True and not streams(self._plan(sampler))
            ),
            "class_prior under InfoNCE": self.class_prior is not None and not self.hardness_scale,
            "label_gap": sampler.label_gap is not None,
        }  # fmt: skip
        _refuse("scores of any model do not go with ", reasons)
        if not isinstance(self.temperature, nn.Parameter):  # reading it would wait for a GPU
            sampler.hardening.check(self.temperature, bounded=False)

    def _label_use(self, *, class_positives: bool) -> LabelUse:
        user = 'positives="class"' if class_positives else None
        user = 'admit="other_labels"' if self.sampler.needs_labels else user
        if self.unknown is not None and self.sampler.label_gap is not None:
            raise InputError(
                f"unknown={self.unknown} marks classes, and under label_gap an unknown label is NaN"
            )
        return LabelUse(user, self.sampler.label_gap, self.unknown)

    def check_anchors(self) -> None:
        """Check that the loss allows a part of the batch as anchors.

        Raises:
            InputError: for gathered negatives, ``"batch-max"``, or a hardening of whole batches.
        """
        hardening = self.sampler.hardening
        reasons = {
            "gathered negatives": self.negatives == "gathered",
            'hardness_scale "batch-max"': self.hardness_scale == "batch-max",
            f"{type(hardening).__name__}, which is of all anchors": hardening.batch_wide,
        }
        _refuse("anchors, a part of the batch, do not go with ", reasons)

    def _compute(self, pairing: Pairing) -> tuple[Tensor, Diagnostics]:
        n_candidates = len(pairing.candidates)
        with torch.autocast(pairing.anchors.device.type, enabled=False):
            self.sampler.check_weights(
                pairing.n_items, n_candidates - (pairing.n_views - 1) * pairing.n_items
            )
            if self.hardness_scale == "score":
                raise InputError('hardness_scale="score" belongs to loss.scored')
            if pairing.n_anchors == 0:
                return self._no_anchors(pairing)
            if self.sampler.unfitted:
                self._fit(pairing)
            plan = self._plan(self.sampler)
            if self.detach_candidates:
                pairing = pairing.detached(anchors=False)
            if self._fuses(pairing):
                return self._mean(fused(pairing, plan), pairing)
            if self._streams(len(pairing.anchors) * n_candidates):
                executor = symmetric if is_symmetric(pairing, plan) else streamed
                return self._mean(executor(pairing, plan), pairing)
            scores = scores_of(pairing, plan)
            if self.sampler.synthetic is not None and len(pairing.anchors):
                z, real = self.sampler.synthetic(scene_of(pairing, scores, plan))
                pairing = pairing._replace(synthetic=(z, real))
                scores = scores.with_columns(own_logits(pairing.anchors, z, plan), real)
            return self._mean(dense(pairing, plan, scores), pairing)

    def _fit(self, pairing: Pairing) -> None:
        """Fit the sampler's hardening to negatives, alike on all processes that gather."""
        if torch.compiler.is_compiling():
            torch.compiler.disable(self._fit)(pairing)  # type: ignore[no-untyped-call]
            return
        similarity = drawn_similarities(pairing, self._plan(self.sampler), self.sampler.seed)
        if self._gathers:
            (similarity,) = gather(similarity)
        self.sampler.fit(similarity)

    def _plan(self, sampler: NegativeSampler) -> Plan:
        return Plan(
            sampler, sampler.log_eta, sampler.log_weights,
            sample=None if sampler.draws is None else sampler.sample, hardening=sampler.current,
            admit=sampler.admit, label_gap=sampler.label_gap, objective=self.objective,
            temperature=self.temperature, scale=self.hardness_scale,
            class_positives=self.positives == "class", pooled=self.pooling == "logsumexp",
            weight=self.weight, class_prior=self.class_prior, detach=self.detach_weights,
            reduction=self.reduction,
        )  # fmt: skip

    def _fuses(self, pairing: Pairing) -> bool:
        """Whether the fused implementation applies: nodes against graphs under JSD."""
        if not self.fused or self.objective != "jsd" or pairing.me is not None:
            return False
        return self.sampler.has_slope and not torch.compiler.is_compiling()  # breaks the graph

    def _streams(self, n_scores: int) -> bool:
        """Whether a loss of this many scores is computed in blocks."""
        if self.streaming is False or self._unstreamed is not None:
            return False
        return self.streaming is True or (n_scores >= STREAMED_FROM and not transformed())

    @property
    def _unstreamed(self) -> str | None:
        """Why the loss cannot be computed in blocks, or None."""
        hardening, learned = self.sampler.hardening, isinstance(self.temperature, nn.Parameter)
        reasons = {
            "JSD": self.objective == "jsd" and self.hardness_scale != "score",
            "draws": self.sampler.draws is not None,
            "a loss of hard positives": isinstance(self.positives, HardPositives),
            "a loss with synthetic negatives": self.sampler.synthetic is not None,
            "a debiased loss with a learned temperature": self.class_prior is not None and learned,
            f"the hardening {type(hardening).__name__}": type(hardening) not in HARDENINGS,
        }
        return next((reason for reason, applies in reasons.items() if applies), None)

    def _mean(self, sums: Totals, pairing: Pairing) -> tuple[Tensor, Diagnostics]:
        """The loss of all processes; NaN for negative labels that could not be checked."""
        total, count, empty = sums
        diagnostics = self._kept(self._diagnostics(count, empty, pairing))
        if self.reduction != "none":
            number = diagnostics.pairs if self.reduction == "pairs" else diagnostics.contributing
            total = total / number.clamp(min=1)
            if self._gathers:
                total = sum_for_mean_gradients(total)
        if pairing.labels is not None:
            least = 0 if self.unknown is None else -len(pairing.labels)
            total = neg.nan_if_negative(total, pairing.labels, least)
        return total, diagnostics

    def _diagnostics(self, count: Tensor, empty: Tensor, pairing: Pairing) -> Diagnostics:
        settings = self.sampler.current, self.sampler.pair_weights
        measure = partial(self._measured, pairing.detached(), settings)
        return self._counted(count, empty, pairing.n_anchors, measure)

    def _counted(
        self, count: Tensor, empty: Tensor, n_anchors: int, measure: Callable[[bool], Measured]
    ) -> Diagnostics:
        pairs, used = count.masked_fill(empty, 0).sum(), ((count > 0) & ~empty).sum()
        none = count == 0
        if self.sampler.admit == "rest":  # a positive may lack negatives of its own
            none = none & ~empty
        counts = [used, pairs, empty.sum(), none.sum()]
        if self._gathers:
            counts = [*summed(torch.stack(counts))]
        diagnostics = Diagnostics(n_anchors, counts, measure)
        if self.on_empty == "raise" and not bool(diagnostics.contributing == diagnostics.anchors):
            raise InputError(
                f"{int(diagnostics.without_negative)} of {diagnostics.anchors} anchors have no "
                f"negative and {int(diagnostics.without_positive)} no positive (on_empty='raise')"
            )
        return diagnostics

    def _no_anchors(self, pairing: Pairing) -> tuple[Tensor, Diagnostics]:
        """The loss of an empty batch: an attached 0."""
        if self.on_empty == "raise":
            raise InputError("the batch is empty: there is no anchor (on_empty='raise')")
        parts = [z[:0] for z in (pairing.anchors, pairing.candidates)]
        none = torch.zeros((), dtype=torch.int64, device=parts[0].device)
        attached = torch.cat(parts).sum(1 if self.reduction == "none" else ())
        empty = attached.new_zeros(0)
        measured = Measured(empty.double(), None, empty.bool())
        return attached, self._kept(Diagnostics(0, [none] * 4, lambda labels: measured))

    def _kept(self, diagnostics: Diagnostics) -> Diagnostics:
        if not transformed():
            before = self.counts or {}
            self.counts = {name: n + before.get(name, 0) for name, n in diagnostics.counts.items()}
        return diagnostics

    def _measured(
        self, pairing: Pairing, settings: tuple[Hardening, PairWeights | None], labels: bool
    ) -> Measured:
        """Diagnostics under the hardening and pair weights of that batch; with ``labels`` set they
        are read even if the loss needs none.
        """
        if labels and pairing.labels is None and pairing.known is not None:
            pairing = pairing._replace(labels=pairing.known())
        sampler = NegativeSampler(
            self.sampler.admit, settings[0], pair_weights=settings[1],
            label_gap=self.sampler.label_gap,
        )  # fmt: skip
        return measured(pairing, self._plan(sampler))

    def extra_repr(self) -> str:
        """The summary that ``print`` shows: what is not the default, objective and positives."""
        hidden = {"sampler", *(["temperature"] if self.objective == "jsd" else [])}
        usual = {"objective", "positives"}
        return ", ".join(
            f"{name}={value!r}"
            for name, argument in signature(ContrastiveLoss).parameters.items()
            if name not in hidden
            and ((value := getattr(self, name)) != argument.default or name in usual)
        )


def _refuse(prefix: str, reasons: Mapping[str, bool]) -> None:
    """InputError with the first reason that applies."""
    for reason, applies in reasons.items():
        if applies:
            raise InputError(prefix + reason)


def _no_measures(labels: bool) -> Measured:
    """Never called: streamed products keep their counts alone."""
    raise NotImplementedError


def _at_least_single(x: Tensor) -> Tensor:
    """Half precision as float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _value_of(temperature: float | nn.Parameter) -> float:
    """The current value of a temperature; InputError unless it is above 0."""
    value = temperature
    if isinstance(temperature, nn.Parameter):
        if temperature.numel() != 1:
            raise InputError(f"temperature must be one number, got {[*temperature.shape]}")
        value = temperature.item()
    check_number("temperature", value, above=0)
    return float(value)


def _check(loss: ContrastiveLoss) -> None:
    """Check that the parts of a loss go together."""
    sampler, prior, unstreamed = loss.sampler, loss.class_prior, loss._unstreamed
    hardening, synthetic = sampler.hardening, sampler.synthetic is not None
    name, gathered = type(hardening).__name__, loss.negatives == "gathered"
    per_anchor = {
        "draws": sampler.draws is not None,
        'pooling="logsumexp"': loss.pooling != "pair",
        "a hardening of the whole row": hardening.row_wise,
        "class_prior": prior is not None,
        "hard positives": loss.takes_items,
        "synthetic negatives": synthetic,
    }
    if prior is not None:
        check_number("class_prior", prior, least=0, below=1)
    refusals = {
        "class_prior with labels has nothing to debias, unless unknown=-1 says that they are "
        "incomplete": prior is not None and sampler.needs_labels and loss.unknown is None,
        "class_prior needs a hardening above 0 everywhere (None or Exponential)": (
            prior is not None and not hardening.positive
        ),
        f"{name} is of all anchors, and synthetic negatives are of one": (
            hardening.batch_wide and synthetic
        ),
        "gathered negatives do not go with hardness_scale batch-max": (
            gathered and loss.hardness_scale == "batch-max"
        ),
        "gathered negatives do not go with synthetic ones: use local negatives": (
            gathered and synthetic
        ),
        f"{name} needs all anchors: use local, not gathered negatives": (
            gathered and hardening.batch_wide
        ),
        **{
            f'admit="rest" gives each positive its own negatives, and {part} needs those of the '
            f'anchor: use admit="others"': sampler.admit == "rest" and used
            for part, used in per_anchor.items()
        },
        "draws carry no gradient of their probabilities: detach_weights=False needs draws=None": (
            sampler.draws is not None and not loss.detach_weights
        ),
        f"{unstreamed} cannot be streamed: pass streaming='auto'": (
            loss.streaming is True and unstreamed is not None
        ),
    }
    _refuse("", refusals)
    loss._label_use(class_positives=False)
