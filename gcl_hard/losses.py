"""The contrastive loss: an objective taken under the sampler's negative distribution."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Literal, NamedTuple, TypeVar, get_args

import torch
from torch import Tensor, nn

from gcl_hard.errors import InputError, check_number, check_option
from gcl_hard.functional import negatives as neg
from gcl_hard.functional import objectives
from gcl_hard.functional.exclusive import logsumexp_without
from gcl_hard.functional.hardening import Exponential, Hardening, Threshold, Uniform
from gcl_hard.functional.hardness import (
    DEFAULT_SCALE,
    TEMPERATURE,
    HardnessScale,
    bounded,
    jsd_hardness,
    norms,
)
from gcl_hard.functional.jsd import Rule, jsd_negatives
from gcl_hard.functional.labels import Relation, relation
from gcl_hard.functional.negatives import Labels
from gcl_hard.functional.objectives import Objective
from gcl_hard.functional.pool import HardPositives
from gcl_hard.functional.rowwise import (
    MeanThreshold,
    RankPosterior,
    RelativeThreshold,
    Ring,
    Transport,
)
from gcl_hard.functional.schedules import Schedule
from gcl_hard.functional.streaming import Plan, streamed_infonce
from gcl_hard.functional.tracing import transformed
from gcl_hard.gathering import refusing_together, sum_for_mean_gradients, summed, world_size
from gcl_hard.pairing import (
    LabelUse,
    Pairing,
    pair_local_global,
    pair_pools,
    pair_views,
    unit,
    views_of,
)
from gcl_hard.sampling import NegativeSampler, PairWeights
from gcl_hard.synthetic import Scene

Positives = Literal["view", "class", "hard"]
Pooling = Literal["pair", "logsumexp"]
Reduction = Literal["pairs", "anchors", "none"]
OnEmpty = Literal["skip", "raise"]
Streaming = Literal["auto"] | bool
Negatives = Literal["local", "gathered"]

H = TypeVar("H", Exponential, Threshold)


ROW_WISE = (MeanThreshold, RankPosterior, RelativeThreshold, Ring)
"""Hardenings of whole rows that stream."""
STREAMED_FROM = 128**2
"""Scores from which InfoNCE is taken in blocks."""
MEASURED_SCORES = 2**22
"""Scores that diagnostics are computed of at a time."""


class Measured(NamedTuple):
    """What :class:`Diagnostics` measures of each anchor."""

    effective_negatives: Tensor
    own_label_weight: Tensor | None
    clamped: Tensor


class Diagnostics:
    """What is behind a loss; tensors, so that no call waits for the device.

    The counts are those of the joined batch with gathered negatives. The three quantities of each
    anchor are those of this process; they are computed when one is read, at about the cost of the
    loss. Until then the embeddings are kept: of many batches keep ``counts``.

    Attributes:
        anchors: number of anchors in the batch.
        contributing: int64 [], anchors in the mean.
        pairs: int64 [], anchor–positive pairs that the mean ran over.
        without_negative: int64 [], anchors left out because they have no negative.
        without_positive: int64 [], anchors left out because they have no positive.

    Example:
        >>> z, y = torch.eye(4), torch.tensor([0, 0, 1, 1])
        >>> loss = ContrastiveLoss(NegativeSampler())
        >>> seen = loss.with_diagnostics(z, z, y)[1]
        >>> seen.pairs, seen.effective_negatives.mean(), seen.own_label_weight.mean()
        (tensor(8), tensor(6.0000, dtype=torch.float64), tensor(0.3333, dtype=torch.float64))
    """

    def __init__(
        self, anchors: int, counts: Sequence[Tensor], measure: Callable[[bool], Measured]
    ) -> None:
        self.anchors = anchors
        self.contributing, self.pairs, self.without_negative, self.without_positive = counts
        self._measure = measure

    @property
    def counts(self) -> dict[str, int | Tensor]:
        """The counts by name, as for a log."""
        names = ("anchors", "contributing", "pairs", "without_negative", "without_positive")
        return {name: getattr(self, name) for name in names}

    @cached_property
    def _measured(self) -> Measured:
        return self._measure(False)

    @property
    def effective_negatives(self) -> Tensor:
        """1 / Σ q² of each anchor, float64 [A], 0 without a negative.

        :func:`~gcl_hard.functional.negatives.effective_negatives`; under admission ``"rest"`` of q
        over all but the anchor.
        """
        return self._measured.effective_negatives

    @cached_property
    def own_label_weight(self) -> Tensor | None:
        """Weight of q on candidates with the anchor's label, float64 [A].

        None if the loss was given no labels, or gathers and needs none. Labels that the loss has
        not read are read here: InputError if they cannot be.
        """
        return self._measure(True).own_label_weight

    @property
    def clamped(self) -> Tensor:
        """Whether the debiased expectation of each anchor is at its bound, bool [A].

        They have no gradient from their negatives. All False without a class prior.
        """
        return self._measured.clamped

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}={int(count)}" for name, count in self.counts.items())
        return f"Diagnostics({counts})"


class _Scores(NamedTuple):
    """A batch as anchors × candidates."""

    t: Tensor  # [A, C] logits (InfoNCE) or raw scores (JSD)
    others: Tensor  # bool [A, C]; under admission rest all candidates but the anchor
    labels: Relation | None  # what labels say of the pairs; None if nothing needs them
    positive: Tensor  # int64 [A, 1] candidate, or bool [A, C]
    n_others: int
    lengths: Tensor | None  # [A, C] products of norms, None if no hardness reads them
    items: tuple[Tensor, Tensor]  # int64 [A] and [C], items of anchors and candidates
    rest: bool = False  # whether each positive has negatives of its own

    def and_own(self, t: Tensor, negative: Tensor | None = None) -> _Scores:
        """The scores with further columns [A, K], candidates of one anchor each.

        Args:
            t: float [A, K].
            negative: bool [A, K], which are negatives of their anchors; None if none is.
        """
        none = torch.zeros_like(t, dtype=torch.bool)
        more = 0 if negative is None else t.shape[1]
        negative = none if negative is None else negative
        positive, labels = self.positive, self.labels
        if positive.dtype == torch.bool:
            positive = torch.cat([positive, none], 1)
        if labels is not None:
            labels = Relation(*(torch.cat([of, none], 1) for of in labels))
        return self._replace(
            t=torch.cat([self.t, t], 1), others=torch.cat([self.others, negative], 1),
            labels=labels, positive=positive, n_others=self.n_others + more,
        )  # fmt: skip


class _Negatives(NamedTuple):
    """What the loss takes of the negatives."""

    expected: Tensor  # [A], or [A, P] for each positive; its log for InfoNCE
    log_weight: float | Tensor  # log M, likewise
    empty: Tensor  # bool, likewise: without a negative


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
            ``admit="other_labels"``, where there is nothing to debias.
        detach_weights: whether q is a constant to the gradient. False reproduces the published
            training code; it is an error with ``draws``, which carry no gradient.
        detach_candidates: whether candidates and positives are constants to the gradient, as
            embeddings of a second encoder are.
        reduction: mean over ``"pairs"`` (default for class positives) or over ``"anchors"`` of
            their mean over positives (default otherwise); ``"none"`` gives that mean for each
            anchor, 0 for those that are left out.
        streaming: ``"auto"`` takes large batches of InfoNCE in blocks of scores: the same value and
            gradient in memory that grows with the batch and not with its square, but no second
            derivative; not inside torch.func or torch.compile. True and False decide. JSD,
            ``draws``, synthetic negatives, hard positives, optimal transport and hardenings of
            your own do not stream.
        hardness_scale: what a hardening sees of JSD's scores, which have no bounds: ``"rank"``
            (normal scores of ranks among the anchor's others, under admission ``"rest"`` among all
            but the anchor; None), ``"anchor"`` (deviations from
            their mean), ``"cosine"`` (γ = 0.5) or ``"batch-max"`` (HCL's published code; hardens
            hardly at all); see :func:`~gcl_hard.functional.hardness.jsd_hardness`. An error with
            InfoNCE, whose hardenings see cosines.
        negatives: ``"local"``, or ``"gathered"`` for a batch that is spread over processes
            (torch.distributed, as torchrun starts them): every process keeps its own anchors and
            sees the candidates of all. Value and diagnostics are those of the joined batch, whose
            items are in the order of the processes; its gradient, too, after
            DistributedDataParallel has taken the mean over processes. Not with ``"batch-max"``.
            Further candidates stay those of each process, and ``"none"`` gives its own anchors.
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
    """Sums of :attr:`Diagnostics.counts` since this was None, to which training sets it before each
    batch."""

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
        on_empty: OnEmpty = "skip",
    ) -> None:
        super().__init__()
        if reduction is None:
            reduction = "pairs" if positives == "class" else "anchors"
        if positives == "hard":
            positives = HardPositives()
        hard_positives = isinstance(positives, HardPositives)
        for name, given, known in (
            ("objective", objective, get_args(Objective)), ("pooling", pooling, get_args(Pooling)),
            ("positives", "hard" if hard_positives else positives, get_args(Positives)),
            ("reduction", reduction, get_args(Reduction)),
            ("on_empty", on_empty, get_args(OnEmpty)),
            ("negatives", negatives, get_args(Negatives)),
            ("streaming", str(streaming), ("auto", "True", "False")),
        ):  # fmt: skip
            check_option(name, str(given), known)
        if weight not in ("others", "kept"):
            check_number("weight", weight, above=0)
        if objective == "jsd":
            _refuse_with_jsd(temperature, pooling, weight, sampler, hard_positives=hard_positives)
            hardness_scale = hardness_scale or DEFAULT_SCALE
            check_option("hardness_scale", hardness_scale, get_args(HardnessScale))
            temperature = TEMPERATURE[hardness_scale]
        elif hardness_scale is not None:
            raise InputError(
                f"hardness_scale belongs to JSD, whose scores have no bounds: InfoNCE hardens by "
                f"the cosine, leave it out (got {hardness_scale!r})"
            )
        temperature = 0.5 if temperature is None else temperature
        value = _value_of(temperature)
        if class_prior is not None:
            _check_class_prior(class_prior, sampler)
        if sampler.hardening.batch_wide and sampler.synthetic is not None:
            raise InputError(
                f"{type(sampler.hardening).__name__} shares candidates out among all anchors, and "
                f"synthetic negatives are of one each: use one of the two"
            )
        if negatives == "gathered":
            _check_gathered(sampler, hardness_scale)
        if sampler.admit == "rest":
            _check_rest(sampler, pooling, class_prior, hard_positives=hard_positives)
        if sampler.draws is not None and not detach_weights:
            raise InputError(
                "draws carry no gradient of their probabilities: detach_weights=False needs "
                "draws=None"
            )
        self.sampler = sampler
        self.temperature = temperature
        """γ; under JSD that of the hardening alone."""
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
        self.on_empty: OnEmpty = on_empty
        self.streaming: Streaming = streaming
        self.fused = True
        """Whether nodes against graphs use the fused implementation where it applies."""
        if streaming is True and self._unstreamed is not None:
            raise InputError(
                f"{self._unstreamed} cannot be streamed: pass streaming='auto', which streams "
                f"InfoNCE with exact expectations and our hardenings but {Transport.__name__}"
            )
        sampler.hardening.check(value, bounded=self._bounded)

    @property
    def takes_items(self) -> bool:
        """Whether the first of the views is the item itself: with hard positives."""
        return isinstance(self.positives, HardPositives)

    @property
    def _gathers(self) -> bool:
        return self.negatives == "gathered" and world_size() > 1

    @property
    def _bounded(self) -> bool:
        """Whether a hardening sees cosines, or what stands for them."""
        return self.hardness_scale is None or bounded(self.hardness_scale)

    @property
    def rule(self) -> Rule:
        """Hardening and admission in the current epoch."""
        return Rule(
            self.sampler.current, self.sampler.needs_labels, self.detach_weights,
            self.class_prior, self.hardness_scale or DEFAULT_SCALE,
        )  # fmt: skip

    @property
    def beta(self) -> float | Schedule:
        """β of the exponential hardening; can be set. InputError for another hardening."""
        return self._hardening(Exponential, "beta").beta

    @beta.setter
    def beta(self, value: float | Schedule) -> None:
        self.sampler.hardening = replace(self._hardening(Exponential, "beta"), beta=value)

    @property
    def threshold(self) -> float | Schedule:
        """Cosine l of the threshold hardening; can be set. InputError for another hardening."""
        return self._hardening(Threshold, "threshold").cosine

    @threshold.setter
    def threshold(self, value: float | Schedule) -> None:
        self.sampler.hardening = replace(self._hardening(Threshold, "threshold"), cosine=value)

    def _hardening(self, kind: type[H], setting: str) -> H:
        hardening = self.sampler.hardening
        if not isinstance(hardening, kind):
            raise InputError(f"this loss has no {setting}: its hardening is {hardening}")
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
    ) -> Tensor:
        """Loss of two views, ``loss(z1, z2, labels)``, or of any number, ``loss([z1, …], labels)``.

        One view, ``loss(z, labels)``, has positives of its class alone: any number of embeddings
        of a label, in any order.

        Args:
            z1: float [B, d], first view of each item, a list of views, or all as [B, V, d]; rows
                need not be normalised. Half precision is computed in float32, also under autocast.
            z2: float [B, d], second view; or the labels, after a list or a single view.
            labels: int64 [B], ≥ 0, or a list or NumPy array of them; with a ``label_gap`` also
                float [B], or [B, T] as ``labels=`` or after a list of views (as a second argument
                it is a view). Used only if the admission or the positives need them. On a GPU, and
                compiled, a negative label makes the loss NaN instead of an error.
            candidates: float [K, d], further candidates, such as a queue: others of every anchor,
                and positives of its class with class positives.
            candidate_labels: [K], where labels are used.

        Returns:
            float [], nats; with ``reduction="none"`` [V B], view after view, or [B] of hard
            positives.
        """
        return self.with_diagnostics(
            z1, z2, labels, candidates=candidates, candidate_labels=candidate_labels
        )[0]

    def with_diagnostics(
        self,
        z1: Tensor | Sequence[Tensor],
        z2: Tensor | Labels | None = None,
        labels: Labels | None = None,
        *,
        candidates: Tensor | None = None,
        candidate_labels: Labels | None = None,
    ) -> tuple[Tensor, Diagnostics]:
        """Loss of views and its diagnostics; arguments as for :meth:`forward`."""
        with refusing_together(self._gathers):
            if candidates is None and candidate_labels is not None:
                raise InputError("candidate_labels are of candidates, and none are given")
            if self._gathers:
                self._divisor()  # checks it
            views = views_of(z1, z2, labels)._replace(
                candidates=candidates, candidate_labels=candidate_labels
            )
            use = self._label_use(class_positives=self.positives == "class")
            with torch.autocast(views.views[0].device.type, enabled=False):
                if isinstance(self.positives, HardPositives):
                    pairing = pair_pools(views, use, self.positives, gathers=self._gathers)
                else:
                    pairing = pair_views(views, use, gathers=self._gathers)
        with torch.autocast(views.views[0].device.type, enabled=False):
            if isinstance(self.positives, HardPositives):
                self.sampler.check_weights(pairing.n_items, len(pairing.candidates))
                return self._of(pairing)
            if pairing.n_anchors and self.positives == "view" and pairing.n_views == 1:
                raise InputError('one view has no other: give a second, or positives="class"')
            self.sampler.check_weights(
                pairing.n_items, len(pairing.candidates) - (pairing.n_views - 1) * pairing.n_items
            )
            return self._of(pairing)

    def local_global(
        self, nodes: Tensor, graphs: Tensor, batch: Tensor, graph_labels: Labels | None = None
    ) -> Tensor:
        """Loss of nodes against graphs; the positive of a node is its own graph.

        Args:
            nodes: float [N, d], the anchors.
            graphs: float [G, d], the candidates.
            batch: int64 [N], graph of each node, 0 … G − 1.
            graph_labels: int64 [G], ≥ 0, or a list or NumPy array of them; with a ``label_gap``
                also float [G] or [G, T]. Used only if the admission needs them.

        Returns:
            float [], nats.
        """
        return self.local_global_with_diagnostics(nodes, graphs, batch, graph_labels)[0]

    def local_global_with_diagnostics(
        self, nodes: Tensor, graphs: Tensor, batch: Tensor, graph_labels: Labels | None = None
    ) -> tuple[Tensor, Diagnostics]:
        """Loss of nodes against graphs and its diagnostics, as :meth:`local_global`."""
        if isinstance(self.positives, HardPositives):
            raise InputError(
                "hard positives are chosen from views, and the positive of a node is its graph: "
                "give the loss views (TwoView, contrast two-view)"
            )
        use = self._label_use(class_positives=False)
        with refusing_together(self._gathers):
            neg.check_local_global(nodes, graphs, batch)
            with torch.autocast(nodes.device.type, enabled=False):
                pairing = pair_local_global(
                    nodes, graphs, batch, graph_labels, use, gathers=self._gathers
                )
        with torch.autocast(nodes.device.type, enabled=False):
            fused = self.fused and not torch.compiler.is_compiling()  # it is no single graph
            if fused and self.objective == "jsd" and self.sampler.has_slope and pairing.n_anchors:
                return self._fused(pairing)
            self.sampler.check_weights(pairing.n_items, pairing.n_items)
            return self._of(pairing)

    def _label_use(self, *, class_positives: bool) -> LabelUse:
        user = None
        if self.sampler.needs_labels:
            user = 'admit="other_labels"'
        elif class_positives:
            user = 'positives="class"'
        return LabelUse(user, self.sampler.label_gap)

    def _of(self, pairing: Pairing) -> tuple[Tensor, Diagnostics]:
        if pairing.n_anchors == 0:
            return self._no_anchors(pairing)
        if self.detach_candidates:
            pairing = pairing.detached(anchors=False)
        if self._streams(len(pairing.anchors) * len(pairing.candidates)):
            return self._streamed(pairing)
        scores = self._scores(pairing)
        if self.sampler.synthetic is not None and len(pairing.anchors):
            z, real = self._made(scores, pairing)
            pairing = pairing._replace(synthetic=(z, real))
            scores = scores.and_own(self._own_logits(pairing.anchors, z), real)
        return self._mean(*self._sums(scores), pairing)

    def _scores(self, pairing: Pairing) -> _Scores:
        anchors, candidates, items, columns, *_ = pairing
        others, labels = items[:, None] != columns, None
        if pairing.labels is not None:
            of_anchors = pairing.labels[pairing.label_columns]
            labels = relation(of_anchors, pairing.labels, self.sampler.label_gap)
        rest, positive, me = False, items[:, None], pairing.me
        if me is not None:
            rest = self.sampler.admit == "rest"
            is_me = me[:, None] == torch.arange(len(columns), device=me.device)
            if self.positives == "class" and labels is not None:
                positive = (labels.near | ~others) & ~is_me
            elif pairing.n_views == 2:
                positive = pairing.own()[:, 1:]
            else:
                positive = ~others & ~is_me
            others = ~is_me if rest else others
        scores = _Scores(
            self._logits(anchors, candidates), others, labels, positive, pairing.n_others,
            self._lengths(anchors, candidates), (items, columns), rest,
        )  # fmt: skip
        if pairing.positives is not None:
            scores = self._and_positives(scores, anchors, pairing.positives)
        if pairing.synthetic is not None:
            z, real = pairing.synthetic
            scores = scores.and_own(self._own_logits(anchors, z), real)
        return scores

    def _and_positives(self, scores: _Scores, anchors: Tensor, positives: Tensor) -> _Scores:
        own = self._own_logits(anchors, unit(positives))
        at = torch.arange(own.shape[1], device=own.device) + scores.t.shape[1]
        return scores.and_own(own)._replace(positive=at.expand(len(own), -1))

    def _made(self, scores: _Scores, pairing: Pairing) -> tuple[Tensor, Tensor]:
        """The sampler's synthetic negatives of a batch."""
        anchors, candidates = unit(pairing.anchors.detach()), unit(pairing.candidates.detach())
        n = len(candidates)
        # Each view of the batch is a positive of its other ones.
        positives = candidates[: pairing.n_views * pairing.n_items]
        if pairing.positives is not None:
            positives = unit(pairing.positives.detach()).flatten(0, 1)
        admitted = scores.others
        if self.sampler.needs_labels and scores.labels is not None:
            admitted = admitted & ~scores.labels.barred
        assert self.sampler.synthetic is not None
        made: tuple[Tensor, Tensor] = self.sampler.synthetic(
            Scene(anchors, candidates, scores.t.detach()[:, :n], admitted[:, :n],
                  candidates[pairing.label_columns], positives)
        )  # fmt: skip
        return made

    def _fused(self, pairing: Pairing) -> tuple[Tensor, Diagnostics]:
        """Nodes against graphs under JSD, without the intermediate tensors of the general path."""
        same, labels = None, pairing.labels
        if labels is not None:
            same = relation(labels, labels, self.sampler.label_gap).barred
        expected, t_pos, empty = jsd_negatives(
            pairing.anchors, pairing.candidates, pairing.items, same, self.rule
        )
        if self.class_prior is not None:
            expected = neg.debiased(expected, objectives.softplus(t_pos), self.class_prior)
        one = torch.ones_like(t_pos, dtype=torch.int64)
        return self._mean(objectives.jsd(expected, t_pos), one, empty, pairing)

    def _streams(self, n_scores: int) -> bool:
        """Whether a loss of so many scores is taken in blocks."""
        if self.streaming is False or self._unstreamed is not None:
            return False
        return self.streaming is True or (n_scores >= STREAMED_FROM and not transformed())

    @property
    def _unstreamed(self) -> str | None:
        """Why the loss cannot be taken in blocks, or None."""
        hardening, learned = self.sampler.hardening, isinstance(self.temperature, nn.Parameter)
        reasons = {
            "JSD": self.objective == "jsd",
            "draws": self.sampler.draws is not None,
            "a loss of hard positives": isinstance(self.positives, HardPositives),
            "a loss with synthetic negatives": self.sampler.synthetic is not None,
            "a debiased loss with a learned temperature": self.class_prior is not None and learned,
            f"the hardening {type(hardening).__name__}": (
                type(hardening) not in {Uniform, Exponential, Threshold, *ROW_WISE}
            ),
        }
        return next((reason for reason, applies in reasons.items() if applies), None)

    def _streamed(self, pairing: Pairing) -> tuple[Tensor, Diagnostics]:
        """InfoNCE in blocks."""
        anchors, candidates, items, columns, *_ = pairing
        own, me, labels = pairing.own(), pairing.me, pairing.labels
        rest = me is not None and self.sampler.admit == "rest"
        hardening = self.sampler.current
        threshold = None
        if isinstance(hardening, Threshold):
            threshold = hardening.least(anchors.dtype)
        gamma = self.temperature
        row_wise = hardening if hardening.row_wise else None
        if isinstance(gamma, Tensor) and (threshold is not None or row_wise is not None):
            gamma = gamma.item()  # of a GPU it is waited for
        units = unit(candidates)
        rows = units if anchors is candidates else unit(anchors)
        plan = Plan(
            own=own[:, :1] if rest else own, views=own if me is None else own[:, 1:], me=me,
            row_labels=None if labels is None else labels[pairing.label_columns],
            column_labels=labels, label_gap=self.sampler.label_gap,
            other_labels=self.sampler.needs_labels, rest=rest,
            class_positives=self.positives == "class" and me is not None,
            beta=hardening.slope(1.0) or 0.0,
            threshold=None if threshold is None else threshold / gamma,
            detach=self.detach_weights, class_prior=self.class_prior,
            clamp=0.0 if self.class_prior is None else -1 / gamma,
            log_weight=None if self.weight == "kept" else self._log_m(pairing.n_others),
            pooled=self.pooling == "logsumexp", reduction=self.reduction,
            weights=None if self.sampler.pair_weights is None else self.sampler.log_weights,
            row_wise=row_wise, temperature=1.0 if isinstance(gamma, Tensor) else gamma,
            row_items=items, column_items=columns,
        )  # fmt: skip
        total, count, empty = streamed_infonce(rows / self._divisor(), units, plan)
        return self._finished(total, count, empty, pairing)

    def _logits(self, anchors: Tensor, candidates: Tensor) -> Tensor:
        if self.objective == "jsd":
            return anchors @ candidates.T
        return unit(anchors) @ unit(candidates).T / self._divisor()

    def _own_logits(self, anchors: Tensor, own: Tensor) -> Tensor:
        """Logits of each anchor with unit candidates of its own, [A, K, d]."""
        return torch.einsum("ad,akd->ak", unit(anchors), own) / self._divisor()

    def _divisor(self) -> Tensor | float:
        """The temperature; of a learned one that is no more above 0 an error, or NaN on a GPU."""
        gamma = self.temperature
        if not isinstance(gamma, nn.Parameter):
            if gamma <= 0:
                raise InputError(f"temperature must be above 0, got {gamma:g}")
            return gamma
        if neg.readable(gamma) and gamma.item() <= 0:
            raise InputError(
                f"the learned temperature has become {gamma.item():.3g}, and must be above 0: keep "
                f"it there after each step, as by temperature.data.clamp_(min=0.01), or lower its "
                f"learning rate"
            )
        return torch.where(gamma > 0, gamma, math.nan)

    def _lengths(self, anchors: Tensor, candidates: Tensor) -> Tensor | None:
        if self.hardness_scale != "cosine":
            return None
        return norms(anchors)[:, None] * norms(candidates)

    def _sums(self, scores: _Scores) -> tuple[Tensor, Tensor, Tensor]:
        """Sums over positives [A], their number, and which anchors have no negative."""
        negatives = self._negative_side(scores)
        t_pos, positive = self._positive_side(scores)
        empty = negatives.empty
        if empty.dim() == 2:
            had, positive = positive.any(1), positive & ~empty
            empty = empty.all(1) | (had & ~positive.any(1))
        count = positive.sum(1)
        if t_pos.shape[1] == 1 or not neg.readable(t_pos):
            terms = self._terms(_each(negatives.expected), _each(negatives.log_weight), t_pos)
            total = torch.where(positive, terms, 0.0).sum(1)
        else:  # at the positives alone, where their number may be asked for
            row = torch.arange(len(t_pos)).repeat_interleave(count)
            terms = self._terms(
                _each(negatives.expected, row, positive),
                _each(negatives.log_weight, row, positive), t_pos.masked_select(positive),
            )  # fmt: skip
            total = terms.new_zeros(len(t_pos)).index_add(0, row, terms)
        return total, count, empty

    def _terms(self, expected: Tensor, log_weight: float | Tensor, t_pos: Tensor) -> Tensor:
        if self.objective == "infonce":
            return objectives.infonce(expected, t_pos, log_weight)
        return objectives.jsd(expected, t_pos)

    def _positive_side(self, scores: _Scores) -> tuple[Tensor, Tensor]:
        """Scores of positives [A, P], and which of them there are, bool [A, P]."""
        t, positive = scores.t, scores.positive
        if positive.dtype != torch.bool:
            t = t.gather(1, positive)
            t = t.logsumexp(1, keepdim=True) if self.pooling == "logsumexp" else t
            return t, torch.ones_like(t, dtype=torch.bool)
        if self.pooling == "logsumexp":
            return neg.masked_logsumexp(t, positive), positive.any(1, keepdim=True)
        return torch.where(positive, t, 0.0), positive

    def _mean(
        self, total: Tensor, count: Tensor, empty: Tensor, pairing: Pairing
    ) -> tuple[Tensor, Diagnostics]:
        """Mean over what contributes, of the sums [A] over positives and their number [A]."""
        total = torch.where((count > 0) & ~empty, total, 0.0)
        if self.reduction != "pairs":
            total = total / count.clamp(min=1)
        if self.reduction != "none":
            total = total.sum()
        return self._finished(total, count, empty, pairing)

    def _finished(
        self, total: Tensor, count: Tensor, empty: Tensor, pairing: Pairing
    ) -> tuple[Tensor, Diagnostics]:
        """The loss of all processes; NaN where labels that could not be read are negative."""
        found = self._kept(self._diagnostics(count, empty, pairing))
        if self.reduction != "none":
            number = found.pairs if self.reduction == "pairs" else found.contributing
            total = total / number.clamp(min=1)
            if self._gathers:
                total = sum_for_mean_gradients(total)
        return (total if pairing.labels is None else neg.poison(total, pairing.labels)), found

    def _diagnostics(self, count: Tensor, empty: Tensor, pairing: Pairing) -> Diagnostics:
        pairs, used = count.masked_fill(empty, 0).sum(), ((count > 0) & ~empty).sum()
        none = count == 0
        if self.sampler.admit == "rest":  # a positive may lack negatives of its own
            none = none & ~empty
        counts = [used, pairs, empty.sum(), none.sum()]
        if self._gathers:
            counts = [*summed(torch.stack(counts))]
        settings = self.sampler.current, self.sampler.pair_weights
        measure = partial(self._measured, pairing.detached(), settings)
        found = Diagnostics(pairing.n_anchors, counts, measure)
        if self.on_empty == "raise" and not bool(found.contributing == found.anchors):
            raise InputError(
                f"{int(found.without_negative)} of {found.anchors} anchors have no negative and "
                f"{int(found.without_positive)} no positive (on_empty='raise')"
            )
        return found

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

    def _kept(self, found: Diagnostics) -> Diagnostics:
        if not transformed():
            before = self.counts or {}
            self.counts = {name: n + before.get(name, 0) for name, n in found.counts.items()}
        return found

    @torch.no_grad()
    def _measured(
        self, pairing: Pairing, settings: tuple[Hardening, PairWeights | None], labels: bool
    ) -> Measured:
        """What the diagnostics tell of the anchors, a block of them at a time.

        Args:
            pairing: the batch.
            settings: hardening and pair weights as they were.
            labels: whether labels that the loss does not need are read.
        """
        if labels and pairing.labels is None and pairing.known is not None:
            pairing = pairing._replace(labels=pairing.known())
        sampler = NegativeSampler(
            self.sampler.admit, settings[0], pair_weights=settings[1],
            label_gap=self.sampler.label_gap,
        )  # fmt: skip
        n = len(pairing.anchors)
        # The largest score, and what depends on all anchors, is of the batch.
        whole = self.hardness_scale == "batch-max" or settings[0].batch_wide
        size = n if whole else max(MEASURED_SCORES // len(pairing.candidates), 1)
        with (
            torch.autocast(pairing.anchors.device.type, enabled=False),
            warnings.catch_warnings(),  # the loss has warned
        ):
            warnings.simplefilter("ignore")
            parts = [
                self._measured_block(self._scores(pairing.rows(slice(i, i + size))), sampler)
                for i in range(0, max(n, 1), max(size, 1))
            ]
        known = [part.own_label_weight for part in parts if part.own_label_weight is not None]
        return Measured(
            torch.cat([part.effective_negatives for part in parts]),
            torch.cat(known) if known else None,
            torch.cat([part.clamped for part in parts]),
        )

    def _measured_block(self, scores: _Scores, sampler: NegativeSampler) -> Measured:
        t, log_q, empty = self._distribution(scores, sampler)
        clamped = torch.zeros_like(empty)
        if self.class_prior is not None:
            expected = self._debias(self._expected(t, log_q), scores, sampler)
            clamped = expected <= (0.0 if self.objective == "jsd" else -1 / self.temperature)
        log_q = log_q.masked_fill(empty[:, None], -math.inf)
        weight = None
        if scores.labels is not None:
            weight = neg.same_label_weight(log_q, scores.labels.near)
        return Measured(neg.effective_negatives(log_q), weight, clamped & ~empty)

    def _distribution(
        self, scores: _Scores, sampler: NegativeSampler
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The scores t and log q [A, C], and anchors without a negative [A]."""
        # Excluded scores are replaced before any function sees them, or their gradient is 0 · NaN.
        t = torch.where(scores.others, scores.t, 0.0)
        row_wise = sampler.hardening.row_wise and self.objective == "jsd"
        log_q, empty = sampler(
            self._similarity(t, scores),
            others=scores.others,
            temperature=self.temperature,
            same_label=None if scores.labels is None else scores.labels.barred,
            log_integrand=objectives.log_softplus(t) if row_wise else t,
            bounded=self._bounded,
            log_weights=self._log_weights(scores, sampler),
        )
        return t, log_q.detach() if self.detach_weights else log_q, empty

    def _log_weights(self, scores: _Scores, sampler: NegativeSampler) -> Tensor | None:
        found = sampler.log_weights(*scores.items, scores.t.dtype)
        own = scores.t.shape[1] - len(scores.items[1])
        return found if found is None else nn.functional.pad(found, (0, own))

    def _expected(self, t: Tensor, log_q: Tensor) -> Tensor:
        """E over negatives [A], its log for InfoNCE."""
        if self.objective == "infonce":
            return neg.log_expectation(log_q, t)
        return neg.expectation(log_q, objectives.softplus(torch.where(log_q > -math.inf, t, 0.0)))

    def _negative_side(self, scores: _Scores) -> _Negatives:
        t, log_q, empty = self._distribution(scores, self.sampler)
        if scores.rest:
            return self._rest(log_q.masked_fill(empty[:, None], -math.inf), t, scores)
        kept = (log_q > -math.inf).sum(1)
        log_weight = self._log_weight(scores.n_others, kept, log_q.dtype)
        if self.sampler.draws is not None:
            t = t.gather(1, self.sampler.sample(log_q, scores.t))
            log_q = torch.full_like(t, -math.log(self.sampler.draws))
        expected = self._expected(t, log_q)
        if self.class_prior is not None:
            expected = self._debias(expected, scores, self.sampler)
        return _Negatives(expected, log_weight, empty)

    def _rest(self, log_q: Tensor, t: Tensor, scores: _Scores) -> _Negatives:
        """E over the candidates without the anchor and one positive, for each positive."""
        kept = log_q > -math.inf
        number = kept.sum(1, keepdim=True) - kept.long()
        infonce = self.objective == "infonce"
        log_h = t if infonce else objectives.log_softplus(torch.where(kept, t, 0.0))
        above = logsumexp_without((log_q + log_h).masked_fill(~kept, -math.inf))
        log_e = torch.where(number > 0, above - logsumexp_without(log_q), 0.0)
        log_weight = self._log_weight(scores.n_others, number.clamp(min=1), t.dtype)
        expected, empty, at = log_e if infonce else log_e.exp(), number == 0, scores.positive
        if at.dtype != torch.bool:
            expected, empty = expected.gather(1, at), empty.gather(1, at)
            log_weight = log_weight.gather(1, at) if isinstance(log_weight, Tensor) else log_weight
        return _Negatives(expected, log_weight, empty)

    def _log_weight(self, n_others: int, kept: Tensor, dtype: torch.dtype) -> float | Tensor:
        return kept.to(dtype).log() if self.weight == "kept" else self._log_m(n_others)

    def _log_m(self, n_others: int) -> float:
        assert self.weight != "kept"
        if self.weight != "others":
            check_number("weight", self.weight, above=0)
        return math.log(max(n_others, 1) if self.weight == "others" else self.weight)

    def _similarity(self, t: Tensor, scores: _Scores) -> Tensor:
        """What a hardening sees of the scores t."""
        if self.objective == "infonce":
            return t / (1 / self.temperature)
        assert self.hardness_scale is not None
        hardness = jsd_hardness(t, scores.others, self.hardness_scale, lengths=scores.lengths)
        return hardness.value if self.detach_weights else hardness.of(t)

    def _debias(self, expected: Tensor, scores: _Scores, sampler: NegativeSampler) -> Tensor:
        assert self.class_prior is not None
        positive = scores.positive
        if positive.dtype != torch.bool and positive.shape[1] > 1:
            positive = torch.zeros_like(scores.others).scatter_(1, positive, True)
        if positive.dtype == torch.bool:
            t_pos = torch.where(positive, scores.t, 0.0)
            seen = torch.where(positive | scores.others, scores.t, 0.0)
            log_eta = sampler.log_eta(
                self._similarity(seen, scores),
                others=positive, temperature=self.temperature, bounded=self._bounded,
            )  # fmt: skip
            log_q_pos, _ = neg.log_negative_distribution(log_eta, positive)
            if self.detach_weights:
                log_q_pos = log_q_pos.detach()
        else:  # the only positive has all the weight, whatever its η
            t_pos = scores.t.gather(1, positive)
            log_q_pos = torch.zeros_like(t_pos)
        if self.objective == "infonce":
            log_e_pos = neg.log_expectation(log_q_pos, t_pos)
            return neg.log_debiased(expected, log_e_pos, self.class_prior, -1 / self.temperature)
        e_pos = neg.expectation(log_q_pos, objectives.softplus(t_pos))
        return neg.debiased(expected, e_pos, self.class_prior)

    def extra_repr(self) -> str:
        """The summary that ``print`` shows."""
        temperature = f", temperature={self.temperature}" if self.objective == "infonce" else ""
        return f"objective={self.objective!r}{temperature}, positives={self.positives!r}"


T = TypeVar("T", Tensor, float | Tensor)


def _each(x: T, row: Tensor | None = None, positive: Tensor | None = None) -> T:
    """A quantity of anchors [A] or of pairs [A, P] for every pair, or for the positive ones."""
    if isinstance(x, float):
        return x
    if row is None or positive is None:
        return x[:, None] if x.dim() == 1 else x
    return x[row] if x.dim() == 1 else x.masked_select(positive)


def _refuse_with_jsd(
    temperature: float | None, pooling: str, weight: str | float, sampler: NegativeSampler, *,
    hard_positives: bool,
) -> None:  # fmt: skip
    if hard_positives or sampler.synthetic is not None:
        raise InputError(
            "hard positives and synthetic negatives are of views and InfoNCE, whose embeddings "
            'have length 1: use TwoView (contrast two-view) and objective="infonce"'
        )
    if temperature is not None:
        raise InputError(
            f"temperature is InfoNCE's: JSD scores are raw dot products. Leave it out (got "
            f"{temperature:g}), or use the objective infonce, as the contrast two-view does"
        )
    if pooling != "pair" or weight != "others":
        raise InputError("pooling and weight belong to InfoNCE: leave them out with JSD")


def _value_of(temperature: float | nn.Parameter) -> float:
    """A temperature, or what a learned one is now; InputError for no number above 0."""
    value = temperature
    if isinstance(temperature, nn.Parameter):
        if temperature.numel() != 1:
            raise InputError(f"temperature must be one number, got {[*temperature.shape]}")
        value = temperature.item()
    check_number("temperature", value, above=0)
    return float(value)


def _check_gathered(sampler: NegativeSampler, hardness_scale: str | None) -> None:
    if hardness_scale == "batch-max":
        raise InputError(
            'hardness_scale "batch-max" is of one batch: gathered negatives need another'
        )
    if sampler.synthetic is not None:
        raise InputError(
            "gathered negatives are those of the joined batch, and each process makes its own "
            "synthetic ones: use local negatives"
        )
    if sampler.hardening.batch_wide:
        raise InputError(
            f"{type(sampler.hardening).__name__} is of all anchors of one batch, and gathered "
            f"negatives leave each process its own: use local ones"
        )


def _check_rest(
    sampler: NegativeSampler, pooling: str, class_prior: float | None, *, hard_positives: bool
) -> None:
    """Check what goes with negatives that differ from positive to positive."""
    odd = {
        "draws": sampler.draws is not None,
        'pooling="logsumexp"': pooling != "pair",
        "a hardening of the whole row": sampler.hardening.row_wise,
        "class_prior": class_prior is not None,
        "hard positives": hard_positives,
        "synthetic negatives": sampler.synthetic is not None,
    }
    for name, given in odd.items():
        if given:
            raise InputError(
                f'admit="rest" takes the negatives of each positive by themselves, and {name} '
                f'needs those of the anchor: leave it out, or use admit="others"'
            )


def _check_class_prior(class_prior: float, sampler: NegativeSampler) -> None:
    check_number("class_prior", class_prior, least=0, below=1)
    if sampler.needs_labels:
        raise InputError(
            'class_prior goes with admit="others": with labels no negative shares the anchor\'s '
            "class, so there is nothing to debias"
        )
    if not sampler.hardening.positive:
        raise InputError(
            "class_prior needs a hardening above 0 everywhere (None or Exponential): a step may "
            "leave no positive to estimate the class's share with"
        )
