"""JSD of nodes against graphs in closed form: of several models on counted nodes.

That of one model is in :mod:`gcl_hard.functional.fused`.

Nodes of one colour have one embedding, so that scores are taken colour by colour: a table of
colours × graphs for each model, and how often a colour occurs in each graph. Sums over the admitted
graphs of an anchor are products with a matrix of zeros and ones, without cancellation. Hardness
relative to the others of an anchor differs between the graphs that a colour occurs in: then there
is a row for each of these pairs. The gradient with respect to the scores is in closed form, so that
each model keeps one such table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gcl_hard.functional.fused import ROWS, SINGLE, Rule, expected_softplus, jsd_negatives
from gcl_hard.functional.hardening import Exponential, Hardening, Threshold, Uniform
from gcl_hard.functional.hardness import (
    DEFAULT_SCALE,
    TEMPERATURE,
    Hardness,
    HardnessScale,
    bounded,
    jsd_hardness,
    norms,
)
from gcl_hard.functional.negatives import warn_of_clamping
from gcl_hard.functional.objectives import softplus
from gcl_hard.functional.schedules import as_schedule

__all__ = ["Classes", "Pairs", "Rule", "counted_jsd", "jsd_negatives", "refusal"]

BLOCK = 1024
"""Colours of a block on a CPU, so that with 128 graphs a block fits a second-level cache."""
DOUBLE = 650.0
"""Largest span of log η that float64 holds without a row maximum, as float32 does ``SINGLE``."""


def refusal(hardening: Hardening, scale: HardnessScale = DEFAULT_SCALE) -> str | None:
    """Reason why a hardening cannot be computed on colours, or None.

    Args:
        hardening: with its schedule.
        scale: hardness scale.

    Example:
        >>> [refusal(Exponential(beta), "cosine") is None for beta in (10.0, 1000.0)]
        [True, False]
    """
    if type(hardening) not in (Uniform, Exponential, Threshold):
        return f"{type(hardening).__name__} cannot be stacked"
    if isinstance(hardening, Exponential) and bounded(scale):
        beta = as_schedule(hardening.beta).bounds[1]
        if 2 * beta / TEMPERATURE[scale] > DOUBLE:
            return f"weights of beta {beta:g} span more than float64 holds without row maxima"
    return None


class Classes(NamedTuple):
    """Labels of graphs, numbered 0 … n − 1.

    Attributes:
        ids: int64 [G].
        n: number of classes.
    """

    ids: Tensor
    n: int

    def separated(self, unknown: Tensor) -> Classes:
        """Classes in which every graph of unknown label has a class of its own.

        Args:
            unknown: bool [G].

        Example:
            >>> both = Classes(torch.tensor([0, 1, 0]), 2)
            >>> both.separated(torch.tensor([True, False, True])).ids
            tensor([2, 1, 4])
        """
        separate = self.n + torch.arange(len(self.ids), device=self.ids.device)
        return Classes(torch.where(unknown, separate, self.ids), self.n + len(self.ids))


class Pairs(NamedTuple):
    """Pairs of a colour and a graph that contains it.

    Attributes:
        colour: int64 [A], ascending.
        graph: int64 [A].
        times: float [A], number of nodes of that colour in the graph, ≥ 1.
        edges: list of ints: starts of the blocks of ``BLOCK`` colours among the pairs, and A.
    """

    colour: Tensor
    graph: Tensor
    times: Tensor
    edges: list[int]


def counted_jsd(  # noqa: PLR0917 (a batch, and its embeddings by each model)
    nodes: Tensor,
    graphs: Tensor,
    pairs: Pairs,
    rules: Sequence[Rule],
    classes: Classes | None = None,
    kept: Tensor | None = None,
) -> Tensor:
    r"""JSD of every model, with anchors weighted by their counts.

    .. math:: \ell = \frac{1}{N} \sum_{u, g} c_{ug} \big[\operatorname{softplus}(-t_{ug})
              + E_{ug} - 2 \log 2\big], \qquad
              E_{ug} = \frac{\sum_j a_{gj} \eta_{uj} \operatorname{softplus}(t_{uj})}
              {\sum_j a_{gj} \eta_{uj}}

    with a the admission, and N the number of nodes that have a negative.

    Args:
        nodes: float [P, U, d], embeddings of the colours, one table per model.
        graphs: float [P, G, d].
        pairs: colours with the graphs that contain them.
        rules: rules of the P models.
        classes: classes of the graphs; read only by rules of other labels.
        kept: bool [P, G], graphs that a model trains on; None if all do. The others are neither
            anchor nor positive nor candidate.

    Returns:
        float [P], nats; an attached 0 for a model without any negative.

    Source:
        ``ContrastiveLoss.local_global`` on every node is its oracle.

    Example:
        >>> pairs = Pairs(torch.tensor([0, 0]), torch.tensor([0, 1]), torch.ones(2), [0, 2])
        >>> zeros = torch.zeros(1, 2, 3)
        >>> counted_jsd(zeros[:, :1], zeros, pairs, [Rule(Uniform())])
        tensor([0.])
    """
    return _CountedJSD.apply(nodes, graphs, pairs, tuple(rules), classes, kept)


class _CountedJSD(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes them by position)
        ctx: Any, nodes: Tensor, graphs: Tensor, pairs: Pairs, rules: tuple[Rule, ...],
        classes: Classes | None, kept: Tensor | None,
    ) -> Tensor:  # fmt: skip
        scores = torch.bmm(nodes, graphs.transpose(1, 2))
        losses = scores.new_empty(len(scores))
        for models in _together(rules, scores.device):
            mine = None if kept is None else kept[models]
            table = _Tables(scores[models], pairs, rules[models], classes, mine)
            if rules[models.start].scale == "cosine":
                table.norms = norms(nodes[models]), norms(graphs[models])
            losses[models] = table.losses()
        ctx.save_for_backward(nodes, graphs, scores)
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        nodes, graphs, slopes = ctx.saved_tensors
        each = grad[:, None, None]
        if each.is_cuda:  # cuBLAS warns if it is the first call of an autograd thread
            each = each.clone()
        to_nodes = torch.bmm(slopes, graphs).mul_(each)
        to_graphs = torch.bmm(slopes.transpose(1, 2), nodes).mul_(each)
        return to_nodes, to_graphs, None, None, None, None


def _together(rules: Sequence[Rule], device: torch.device) -> Iterator[slice]:
    """Groups of models of one kind; on a CPU single models, which fit the cache."""
    start = 0
    for end in range(1, len(rules) + 1):
        if end == len(rules) or device.type == "cpu" or rules[end].kind != rules[start].kind:
            yield slice(start, end)
            start = end


def _admission(
    scores: Tensor, rule: Rule, classes: Classes | None, kept: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Admitted candidates by kind of anchor, float [p or 1, K, G], and each graph's kind [G].

    Anchors of one label share their negatives: their kind is the label; otherwise every graph is a
    kind of its own, which admits all but itself.
    """
    n_kinds = scores.shape[2]
    kind = torch.arange(n_kinds, device=scores.device)
    if rule.other_labels:
        assert classes is not None
        kind, n_kinds = classes
    admitted = torch.arange(n_kinds, device=scores.device)[:, None] != kind
    table = admitted.to(scores.dtype)[None]
    return (table if kept is None else table * kept[:, None, :]), kind


class _Tables:
    """The tables of some models of one kind, computed in blocks of colours."""

    def __init__(
        self, scores: Tensor, pairs: Pairs, rules: tuple[Rule, ...], classes: Classes | None,
        kept: Tensor | None,
    ) -> None:  # fmt: skip
        self.scores, self.pairs, self.rule = scores, pairs, rules[0]
        self.dtype = torch.float64 if self.rule.span > SINGLE else scores.dtype
        admitted, self.kind = _admission(scores, self.rule, classes, kept)
        self.admitted = admitted.to(self.dtype).expand(len(rules), -1, -1)
        weight = pairs.times if kept is None else pairs.times * kept[:, pairs.graph]
        self.weight = weight = weight.to(scores.dtype).expand(len(rules), -1)
        # Uniform weights need no product: a sum less its own term. Under η that may dwarf the rest.
        uniform = isinstance(self.rule.hardening, Uniform)
        self.plain = uniform and not self.rule.other_labels and kept is None
        self.prior = None
        if self.rule.class_prior is not None:
            self.prior = self._each(tuple(rule.class_prior or 0.0 for rule in rules))[:, 0]
        self.clamped = scores.new_zeros(len(rules))
        self.kept = kept
        self.norms: tuple[Tensor, Tensor] | None = None
        self.largest: Tensor | None = None
        if not uniform:
            self.value = self._each(tuple(map(_value, rules)))
            if self.rule.scale == "batch-max":
                self.largest = _scale(scores, pairs, weight, kept).to(self.dtype)

    def _each(self, values: tuple[float, ...]) -> Tensor:
        return _column(values, self.dtype, self.scores.device)[:, None, None]

    def losses(self) -> Tensor:
        """Losses [p]; the scores [p, U, G] become dℓ/dt."""
        total = summed = self.scores.new_zeros(len(self.scores))
        blocks = self.pairs.edges
        n_colours = self.scores.shape[1]
        size = BLOCK if len(blocks) > 2 else n_colours
        if self.scores.device.type != "cpu":
            blocks, size = [blocks[0], blocks[-1]], n_colours
        for i, (first, last) in enumerate(pairwise(blocks)):
            rows = slice(i * size, min((i + 1) * size, n_colours))
            weights, losses = self._block(rows, slice(first, last))
            total, summed = total + weights, summed + losses
        if self.prior is not None and total.device.type == "cpu":
            for clamped, weight, prior in zip(self.clamped, total, self.prior[:, 0], strict=True):
                warn_of_clamping(clamped, weight, float(prior))
        total = torch.where(total == 0, 1.0, total)
        self.scores.div_(total[:, None, None])
        return summed / total

    def _block(self, rows: slice, pairs: slice) -> tuple[Tensor, Tensor]:
        if self.rule.relative:
            return self._pair_block(rows, pairs)
        scores = self.scores[:, rows]
        t = scores.to(self.dtype)
        graph, weight = self.pairs.graph[pairs], self.weight[:, pairs].to(self.dtype)
        row = self.pairs.colour[pairs] - rows.start
        n_kinds, n_graphs = self.admitted.shape[1:]
        kind_at = row * n_kinds + self.kind[graph]
        pair_at = row * n_graphs + graph
        h = softplus(t)
        hardness = self._hardness(t, rows)
        if hardness is None:
            below = self.admitted.sum(2)[:, None, :].expand(-1, t.shape[1], -1)
            above = self._over_admitted(h)
        else:
            eta = self._eta(hardness.value)
            below, above = self._over_admitted(eta), self._over_admitted(eta * h)
        empty = below <= 0
        below = below.masked_fill(empty, 1.0)
        expected = above / below
        weight = weight * ~empty.flatten(1)[:, kind_at]
        terms = self._terms(weight, t.flatten(1)[:, pair_at], expected.flatten(1)[:, kind_at])
        share = torch.zeros_like(expected).flatten(1).index_add_(1, kind_at, terms.to_negative)
        share = share.view_as(expected).div_(below)
        slopes = t.sigmoid().mul_(slope := self._over_kinds(share))
        if hardness is not None:
            if self._steep:
                centre = self._over_kinds(share.mul_(expected))
                slopes.add_(h.mul_(slope).sub_(centre).mul_(self.value * hardness.rate))
            slopes.mul_(eta)
        slopes.flatten(1).index_add_(1, pair_at, terms.to_positive)
        scores.copy_(slopes)
        return weight.sum(1).to(scores.dtype), terms.losses.sum(1).to(scores.dtype)

    def _pair_block(self, rows: slice, pairs: slice) -> tuple[Tensor, Tensor]:
        """A block whose anchors are pairs of a colour and a graph, each with its own weights."""
        scores = self.scores[:, rows]
        slopes = torch.zeros_like(scores)
        n_graphs = scores.shape[2]
        every = torch.arange(n_graphs, device=scores.device)
        total = summed = scores.new_zeros(len(scores))
        n_pairs = pairs.stop - pairs.start
        size = ROWS if scores.device.type == "cpu" else max(n_pairs, 1)
        for start in range(pairs.start, pairs.stop, size):
            part = slice(start, min(start + size, pairs.stop))
            graph, row = self.pairs.graph[part], self.pairs.colour[part] - rows.start
            t = scores.index_select(1, row)
            others = every != graph[:, None]
            if self.kept is not None:
                others = others & self.kept[:, None, :]
            hardness = jsd_hardness(t, others, self.rule.scale)
            excluded = self.admitted.index_select(1, self.kind[graph]) == 0
            log_eta = self._log_eta(hardness.value).masked_fill_(excluded, -math.inf)
            empty = log_eta.amax(2) == -math.inf
            q = log_eta.masked_fill_(empty[:, :, None], 0.0).softmax(2)
            columns = graph.expand(len(t), -1)[:, :, None]
            t_pos = t.gather(2, columns)[:, :, 0]
            rate = self.value * hardness.rate if self._steep else None
            expected = expected_softplus(t, q, rate)  # t becomes dE/dt
            terms = self._terms(self.weight[:, part] * ~empty, t_pos, expected)
            slopes.index_add_(1, row, t.mul_(terms.to_negative[:, :, None]))
            slopes.flatten(1).index_add_(1, row * n_graphs + graph, terms.to_positive)
            total, summed = total + terms.weight.sum(1), summed + terms.losses.sum(1)
        scores.copy_(slopes)
        return total, summed

    def _terms(self, weight: Tensor, t_pos: Tensor, negative: Tensor) -> _Terms:
        """Losses of anchors, and their slopes."""
        to_negative, to_positive = weight, weight * (-t_pos).sigmoid().neg_()
        if self.prior is not None:
            raw = (negative - self.prior * softplus(t_pos)) / (1 - self.prior)
            negative = raw.clamp(min=0.0)
            self.clamped = self.clamped + (weight * (raw <= 0)).sum(1)
            to_negative = weight * (raw > 0) / (1 - self.prior)
            to_positive -= to_negative * self.prior * t_pos.sigmoid()
        losses = weight * (softplus(-t_pos) + negative - 2 * math.log(2))
        return _Terms(weight, losses, to_negative, to_positive)

    def _over_admitted(self, x: Tensor) -> Tensor:
        """Sums over the candidates that each kind of anchor admits, [p, R, G] to [p, R, K]."""
        if self.plain:
            return x.sum(2, keepdim=True) - x
        return torch.bmm(x, self.admitted.transpose(1, 2))

    def _over_kinds(self, x: Tensor) -> Tensor:
        """Sums over the kinds that admit a candidate, [p, R, K] to [p, R, G]."""
        return x.sum(2, keepdim=True) - x if self.plain else torch.bmm(x, self.admitted)

    def _hardness(self, t: Tensor, rows: slice) -> Hardness | None:
        """Hardness of a block of colours; None if η is 1 everywhere."""
        if isinstance(self.rule.hardening, Uniform):
            return None
        lengths = None
        if self.norms is not None:
            node_norms, graph_norms = (norm.to(self.dtype) for norm in self.norms)
            lengths = node_norms[:, rows, None] * graph_norms[:, None, :]
        every = torch.ones((), dtype=torch.bool, device=t.device)
        return jsd_hardness(t, every, self.rule.scale, lengths=lengths, largest=self.largest)

    def _eta(self, hardness: Tensor) -> Tensor:
        """η up to a factor, [p, R, G]; hardness is at most 1, so that no row maximum is needed."""
        if isinstance(self.rule.hardening, Threshold):
            return (self._log_eta(hardness) == 0).to(hardness.dtype)
        span = self.value / math.log(2)
        return (hardness * span).sub_(span).exp2_()

    def _log_eta(self, hardness: Tensor) -> Tensor:
        """Log η of the models, [p, R, G]."""
        if not isinstance(self.rule.hardening, Threshold):
            return hardness * self.value
        slack = 4 * torch.finfo(self.scores.dtype).eps
        all_from = -1 if bounded(self.rule.scale) else -math.inf
        bound = torch.where(self.value <= all_from, -math.inf, self.value - slack)
        return torch.zeros_like(hardness).masked_fill_(hardness < bound, -math.inf)

    @property
    def _steep(self) -> bool:
        """Whether η has a gradient."""
        return not self.rule.detach and isinstance(self.rule.hardening, Exponential)


class _Terms(NamedTuple):
    """Terms of anchors, float [p, A] each."""

    weight: Tensor
    losses: Tensor
    to_negative: Tensor  # dℓ/dE
    to_positive: Tensor  # dℓ/dt⁺


def _scale(scores: Tensor, pairs: Pairs, weight: Tensor, kept: Tensor | None) -> Tensor:
    """m, the largest |t| over others, [p, 1, 1]; +inf if they are all 0."""
    magnitude = scores.abs()
    nodes = weight.new_zeros(len(scores), scores.shape[1])
    nodes.index_add_(1, pairs.colour, weight)
    # A colour in a single graph has no anchor for which that graph is among the others.
    sole = weight == nodes[:, pairs.colour]
    at = pairs.colour * scores.shape[2] + pairs.graph
    flat = magnitude.flatten(1)
    flat[:, at] = flat[:, at].masked_fill(sole, 0.0)
    if kept is not None:
        magnitude = magnitude.masked_fill(~kept[:, None, :] | (nodes == 0)[:, :, None], 0.0)
    largest = magnitude.amax((1, 2))[:, None, None]
    return torch.where(largest == 0, math.inf, largest)


@lru_cache(maxsize=64)
def _column(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Cached; avoids waiting for the device in every step."""
    return torch.tensor(values, dtype=dtype, device=device)


def _value(rule: Rule) -> float:
    """β / γ of an exponential, l of a threshold."""
    if isinstance(rule.hardening, Threshold):
        assert isinstance(rule.hardening.cosine, (int, float))
        return float(rule.hardening.cosine)
    return rule.slope
