"""Hypothesis strategies of batches and of losses that go with them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from gcl_hard import (
    ContrastiveLoss,
    Custom,
    Exponential,
    MeanThreshold,
    MixturePosterior,
    NegativeSampler,
    RankPosterior,
    RelativeThreshold,
    Ring,
    Threshold,
)
from gcl_hard.functional.hardening import Hardening, Rows, Uniform
from gcl_hard.functional.mixture import Beta, BetaMixture
from tests.reference import loops

NAN = math.nan
ROW_WISE = [
    MeanThreshold(), RankPosterior(0.7, 0.9), RelativeThreshold(0.6), Ring(0.1, 0.4),
    MixturePosterior(mixture=BetaMixture(Beta(4.0, 8.0, 0.8), Beta(12.0, 3.0, 0.2))),
]  # fmt: skip
"""Each is its definition in tests of its own: here η of one anchor's row is taken as it is."""


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def cubic(t: Tensor) -> Tensor:
    return 0.3 * t**3


def weigh(hardening: Hardening) -> loops.Weigh:
    """η as its definition says, of one anchor's similarities s and their γ."""
    if isinstance(hardening, Uniform):
        return lambda s, *_: torch.ones_like(s)
    if isinstance(hardening, Exponential):
        return lambda s, gamma, *_: (hardening.beta * s / gamma).exp()
    if isinstance(hardening, Threshold):
        return lambda s, *_: (s >= hardening.cosine).to(s.dtype)
    if isinstance(hardening, Custom):
        return lambda s, gamma, *_: cubic(s / gamma).exp()
    if isinstance(hardening, MeanThreshold):

        def mean(s: Tensor, gamma: float, log_h: Tensor, others: Any, _: Any) -> Tensor:
            h = log_h.exp()
            return (h >= h[others].mean() * (1 - 1e-12)).to(s.dtype)

        return mean

    def of_row(s: Tensor, gamma: float, log_h: Tensor, others: Any, admitted: Any) -> Tensor:
        masks = torch.zeros(2, 1, len(s), dtype=torch.bool)
        masks[0, 0, others], masks[1, 0, admitted] = True, True
        # What is no other must not matter, whatever it is.
        s, log_h = (torch.where(masks[0, 0], x, 0.0)[None] for x in (s, log_h))
        rows = Rows(s, gamma, log_h, masks[0], admitted=masks[1])
        return torch.where(masks[1], hardening.log_eta(rows), -math.inf)[0].exp().detach()

    return of_row


@dataclass
class Case:
    """A loss, and a batch that it takes."""

    sampler: dict[str, Any]
    loss: dict[str, Any]
    inputs: list[Tensor]
    labels: Any
    batch: dict[str, Any] = field(default_factory=dict)
    streams: bool = False
    weights_by_function: bool = False

    @property
    def hardening(self) -> Hardening:
        return self.sampler["hardening"]

    def build(self, *, streaming: bool) -> ContrastiveLoss:
        log_w, sampler = self.sampler["pair_weights"], {**self.sampler}
        if self.weights_by_function:
            sampler["pair_weights"] = lambda rows, columns: log_w[rows][:, columns]
        return ContrastiveLoss(NegativeSampler(**sampler), **self.loss, streaming=streaming)

    def oracle(self, table: loops.Table) -> list[list[Tensor]]:
        loss = self.loss
        return loops.terms(
            table, weigh(self.hardening), objective=loss["objective"], admit=self.sampler["admit"],
            positives=loss.get("positives", "view"), gamma=loss.get("temperature", 0.5),
            scale=loss.get("hardness_scale"), M=loss.get("weight", "others"),
            prior=loss["class_prior"], detach=loss["detach_weights"],
            pooled=loss.get("pooling") == "logsumexp",
        )  # fmt: skip

    def related(self, labels: list[Any]) -> tuple[list[list[bool]], list[list[bool]]]:
        gap, unknown = self.sampler.get("label_gap"), self.loss.get("unknown")
        return loops.labelled(labels, labels, gap=gap, unknown=unknown)


ELEMENTWISE = [
    *map(Exponential, (0.5, 1.0, 1.7, 10.0)), Threshold(0.1), Threshold(0.6), Uniform(),
    Threshold(-1.0), Exponential(0.0), Custom(cubic),
]  # fmt: skip


def hardenings(*, elementwise: bool) -> st.SearchStrategy[Hardening]:
    return st.sampled_from(ELEMENTWISE if elementwise else [*ELEMENTWISE, *ROW_WISE])


@st.composite
def label_settings(
    draw: Any, n: int, most_items: int
) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """Settings of the sampler and of the loss, and labels of n items that go with them."""
    kind = draw(st.sampled_from(["classes", "classes", "unknown", "real", "rows"]))
    if kind in ("classes", "unknown"):
        least = 0 if kind == "classes" else -1
        labels = draw(st.lists(st.integers(least, 3), min_size=n, max_size=n))
        return {}, {"unknown": -1} if kind == "unknown" else {}, labels
    near = draw(st.sampled_from([0.0, 0.15, 0.3]))
    gap = near, near + draw(st.sampled_from([0.0, 0.2, 0.5]))
    value = st.sampled_from([0.1, 0.2, 0.45, 0.5, 2.0, 2.1, NAN])
    if kind == "rows":
        value = st.lists(st.sampled_from([0.0, 1.0, 0.0, 1.0, NAN]), min_size=4, max_size=4)
    return {"label_gap": gap}, {}, draw(st.lists(value, min_size=n, max_size=n))


@st.composite
def pair_weights(draw: Any, rows: int, columns: int) -> Any:
    """None, or log weights of some pairs, as a tensor."""
    if draw(st.sampled_from([True, True, False])):
        return None
    log_w = 2 * numbers(rows, columns, seed=draw(st.integers(0, 99)))
    return log_w.masked_fill(log_w < -2.5, -math.inf)


@st.composite
def losses_of_views(draw: Any, admit: str) -> Case:
    """One to three views of items under any settings that go together, and what a loss is given.

    ``admit`` may be ``debiased``: all others, less the share of the anchor's class; or ``halves``:
    all others, where half of the scores are enough.
    """
    debiased, halves = admit == "debiased", admit == "halves"
    admit = "others" if debiased or halves else admit
    n_items, n_views = draw(st.integers(2, 6)), draw(st.integers(2 if halves else 1, 3))
    n_extra = 0 if halves else draw(st.sampled_from([0, 0, 3]))
    objective = "infonce" if halves else draw(st.sampled_from(["infonce"] * 3 + ["jsd"]))
    infonce = objective == "infonce"
    scale = None if infonce else draw(st.sampled_from(["rank", "anchor", "cosine", "batch-max"]))
    hardening = draw(hardenings(elementwise=admit == "rest"))
    if debiased or halves:
        hardening = Exponential(draw(st.sampled_from([0.5, 1.0])))
    if isinstance(hardening, MixturePosterior) and scale in ("rank", "anchor"):
        hardening = Uniform()
    of_sampler, of_loss, labels = draw(label_settings(n_items + n_extra, 6))
    positives = "class" if n_views == 1 else draw(st.sampled_from(["view", "class"]))
    positives = "view" if halves else positives
    prior = None
    incomplete = admit == "others" or (admit == "other_labels" and "unknown" in of_loss)
    one_positive = infonce or (n_views == 2 and positives == "view")
    if incomplete and one_positive and isinstance(hardening, Uniform | Exponential):
        prior = draw(st.sampled_from([0.1, 0.2] if debiased else [None, 0.0, 0.1, 0.9]))
    loss: dict[str, Any] = of_loss | {
        "objective": objective, "positives": positives, "class_prior": prior,
        "detach_weights": draw(st.booleans()),
        "detach_candidates": draw(st.sampled_from([False, False, True])),
        "reduction": draw(st.sampled_from(["pairs", "anchors", "none"])),
    }  # fmt: skip
    if infonce:
        loss["temperature"] = draw(st.sampled_from([0.2, 0.5, 1.0]))
        loss["weight"] = draw(st.sampled_from(["others", "kept", 3.5]))
        loss["pooling"] = (
            "pair" if admit == "rest" else draw(st.sampled_from(["pair", "logsumexp"]))
        )
    else:
        loss["hardness_scale"] = scale
    weights = None if halves else draw(pair_weights(n_items, n_items + n_extra))
    seed = draw(st.integers(0, 999))
    z = [numbers(n_items, 3, seed=seed + 1000 * v) for v in range(n_views)]
    if draw(st.booleans()):
        z[-1][0] = z[0][1]  # equal scores
    batch: dict[str, Any] = {}
    if n_extra:
        batch = {"candidates": numbers(n_extra, 3, seed=seed + 9999).requires_grad_()}
    if scale != "batch-max" and not halves and draw(st.booleans()):
        batch["anchors"] = draw(st.permutations(range(n_items)))[: draw(st.integers(1, n_items))]
    sampler = {"admit": admit, "hardening": hardening, "pair_weights": weights} | of_sampler
    streams = infonce and not isinstance(hardening, Custom)
    by_function = weights is not None and draw(st.booleans())
    z = [x.requires_grad_() for x in z]
    return Case(sampler, loss, z, labels, batch, streams, by_function)


@st.composite
def losses_of_nodes(draw: Any, scale: str | None) -> Case:
    """Nodes against graphs under any settings that go together."""
    n_graphs = draw(st.integers(2, 7))
    owners = draw(st.lists(st.integers(0, n_graphs - 1), min_size=1, max_size=12))
    infonce = scale is None
    admit = draw(st.sampled_from(["others", "other_labels", "rest"]))
    hardening = draw(hardenings(elementwise=admit == "rest"))
    if isinstance(hardening, MixturePosterior) and scale in ("rank", "anchor"):
        hardening = Uniform()
    of_sampler, of_loss, labels = draw(label_settings(n_graphs, 7))
    prior = None
    incomplete = admit == "others" or (admit == "other_labels" and "unknown" in of_loss)
    if incomplete and isinstance(hardening, Uniform | Exponential):
        prior = draw(st.sampled_from([None, 0.0, 0.2, 0.9]))
    loss: dict[str, Any] = of_loss | {
        "objective": "infonce" if infonce else "jsd", "class_prior": prior,
        "detach_weights": draw(st.booleans()),
        "detach_candidates": draw(st.sampled_from([False, False, True])),
        "reduction": draw(st.sampled_from(["anchors", "none"])),
    }  # fmt: skip
    loss |= (
        {"temperature": draw(st.sampled_from([0.2, 0.5]))} if infonce else {"hardness_scale": scale}
    )
    weights = draw(pair_weights(n_graphs, n_graphs))
    seed = draw(st.integers(0, 999))
    nodes, graphs = numbers(len(owners), 3, seed=seed), numbers(n_graphs, 3, seed=seed + 1000)
    if draw(st.booleans()):
        graphs[-1] = graphs[0]  # equal scores
    if draw(st.booleans()):
        nodes = nodes + 9 * graphs[owners]  # the largest scores are those of own graphs
    sampler = {"admit": admit, "hardening": hardening, "pair_weights": weights} | of_sampler
    inputs = [nodes.requires_grad_(), graphs.requires_grad_()]
    batch = {"batch": torch.tensor(owners)}
    streams = infonce and not isinstance(hardening, Custom)
    return Case(sampler, loss, inputs, labels, batch, streams)


@st.composite
def losses_of_scores(draw: Any) -> Case:
    """Queries against candidates by scores, with their known facts and everything that weighs."""
    rows, columns = draw(st.integers(1, 5)), draw(st.integers(2, 9))
    objective = draw(st.sampled_from(["infonce", "jsd"]))
    infonce = objective == "infonce"
    admit = draw(st.sampled_from(["others", "other_labels"]))
    scale = None if infonce else draw(st.sampled_from(["score", "score", "rank", "anchor"]))
    hardening = draw(st.sampled_from([*map(Exponential, (1.0, 1.7, 0.0)), Uniform()]))
    reduction = draw(st.sampled_from(["anchors", "none"]))
    loss: dict[str, Any] = {
        "objective": objective, "reduction": reduction, "detach_weights": draw(st.booleans()),
        "class_prior": None if infonce else draw(st.sampled_from([None, 0.2])), "unknown": -1,
    }  # fmt: skip
    loss |= (
        {"temperature": draw(st.sampled_from([0.5, 3.0]))} if infonce else {"hardness_scale": scale}
    )
    seed = draw(st.integers(0, 999))
    own = draw(st.lists(st.integers(0, columns - 1), min_size=rows, max_size=rows))
    known = draw(st.lists(st.booleans(), min_size=rows * columns, max_size=rows * columns))
    batch: dict[str, Any] = {
        "positive": torch.tensor(own), "known": torch.tensor(known).view(rows, columns)
    }  # fmt: skip
    if draw(st.booleans()):
        batch["log_proposal"] = numbers(columns, seed=seed + 1)
    if reduction == "anchors" and draw(st.booleans()):
        batch["anchor_weights"] = (
            numbers(rows, seed=seed + 2).abs().requires_grad_(draw(st.booleans()))
        )
    if scale in (None, "score") and draw(st.booleans()):
        at = draw(st.lists(st.tuples(st.integers(0, rows - 1), st.integers(0, columns - 1)),
                           max_size=3))  # fmt: skip
        at = [pair for pair in at if own[pair[0]] != pair[1]]
        batch["repeated"] = torch.tensor([*zip(*at, strict=True)] or [[], []]).long().unbind()
    q, c = numbers(rows, 3, seed=seed + 3), 2 * numbers(columns, 3, seed=seed + 4)
    sampler = {"admit": admit, "hardening": hardening, "pair_weights": None}
    streams = scale in (None, "score")
    return Case(sampler, loss, [q.requires_grad_(), c.requires_grad_()], None, batch, streams)
