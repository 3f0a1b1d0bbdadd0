"""Losses of queries and candidates by any scores, against slow loops in the paper's symbols."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from scipy.stats import norm, rankdata
from torch import Tensor
from torch.nn.functional import logsigmoid
from torch.profiler import ProfilerActivity, profile

from gcl_hard import ContrastiveLoss, InputError, NegativeSampler, contrastive_loss
from gcl_hard.functional import streaming
from gcl_hard.functional.hardening import Exponential, Threshold, Uniform

METHODS = ("ucl", "hucl", "scl", "hscl")
B, C = 5, 9
OWN = torch.tensor([3, 0, 8, 3, 1])


def scores(seed: int = 0) -> Tensor:
    draws = torch.randn(B, C, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return 4 * draws - 1


def known() -> Tensor:
    """Facts of each query; the own one is among those of some, and the last has all of them."""
    mask = torch.rand(B, C, generator=torch.Generator().manual_seed(1)) < 0.3
    mask[0, OWN[0]] = True
    mask[4] = True
    return mask


def softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def loop(
    t: Tensor, method: str, objective: str, *, beta: float, gamma: float, scale: str = "score",
    log_w: Tensor | None = None, prior: float = 0.0,
) -> list[float | None]:  # fmt: skip
    """Each query's loss; None without a negative."""
    losses: list[float | None] = []
    facts, filtered, hard = known(), method in ("scl", "hscl"), method in ("hucl", "hscl")
    for i in range(len(t)):
        others = [j for j in range(C) if j != OWN[i]]
        values = t[i, others].tolist()
        if objective == "infonce":
            hardness = {j: float(t[i, j]) / gamma for j in others}
        elif scale == "rank":
            normal_scores = norm.ppf((rankdata(values) - 0.5) / len(values))
            hardness = dict(zip(others, normal_scores, strict=True))
        elif scale == "anchor":
            mean = sum(values) / len(values)
            std = math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))
            hardness = {j: (float(t[i, j]) - mean) / std for j in others}
        else:
            hardness = {j: float(t[i, j]) for j in others}
        kept = [j for j in others if not (filtered and facts[i, j])]
        if not kept:
            losses.append(None)
            continue
        weight = {
            j: math.exp((beta if hard else 0.0) * hardness[j] + (0 if log_w is None else log_w[j]))
            for j in kept
        }
        whole = sum(weight.values())
        if objective == "infonce":
            e = sum(weight[j] / whole * math.exp(float(t[i, j]) / gamma) for j in kept)
            losses.append(math.log1p((C - 1) * e / math.exp(float(t[i, OWN[i]]) / gamma)))
        else:
            e = sum(weight[j] / whole * softplus(float(t[i, j])) for j in kept)
            e = max(0.0, (e - prior * softplus(float(t[i, OWN[i]]))) / (1 - prior))
            losses.append(softplus(-float(t[i, OWN[i]])) + e - 2 * math.log(2))
    return losses


def mean(terms: list[float | None], weights: list[float] | None = None) -> float:
    weights = [1.0] * len(terms) if weights is None else weights
    pairs = [(term, w) for term, w in zip(terms, weights, strict=True) if term is not None]
    return sum(term * w for term, w in pairs) / sum(w for _, w in pairs)


def loss(method: str, objective: str, beta: float = 1.3, **options: Any) -> ContrastiveLoss:
    settings: dict[str, Any] = {"objective": objective, "positives": "view", **options}
    if objective == "jsd":
        settings.setdefault("hardness_scale", "score")
    return contrastive_loss(method, beta=beta, **settings)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("gamma", [0.5, 3.0])
def test_infonce_is_that_of_slow_loops(method: str, gamma: float, streaming: bool) -> None:
    t, options = scores(), {"temperature": gamma, "streaming": streaming}
    value = loss(method, "infonce", **options).scored(t, OWN, known=known())
    expected = loop(t, method, "infonce", beta=1.3, gamma=gamma)
    assert value.item() == pytest.approx(mean(expected), rel=1e-10)
    each = loss(method, "infonce", reduction="none", **options)
    terms = each.scored(t, OWN, known=known()).tolist()
    assert terms == pytest.approx([term or 0.0 for term in expected], rel=1e-10)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", ["score", "rank", "anchor"])
def test_jsd_is_that_of_slow_loops(method: str, scale: str) -> None:
    t = scores(2)
    value = loss(method, "jsd", hardness_scale=scale).scored(t, OWN, known=known())
    if scale == "score":
        streamed = loss(method, "jsd", streaming=True).scored(t, OWN, known=known())
        assert streamed.item() == pytest.approx(value.item(), rel=1e-12)
    expected = mean(loop(t, method, "jsd", beta=1.3, gamma=1.0, scale=scale))
    assert value.item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("streaming_", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_what_is_not_known_can_be_debiased(method: str, streaming_: bool) -> None:
    """Known facts are never all: the rest of the anchor's class is a share of what is left."""
    t = scores(2) + 2
    options = {"class_prior": 0.15, "unknown": -1, "streaming": streaming_}
    admission = "other_labels" if method in ("scl", "hscl") else "others"
    hardening = Exponential(beta=1.3) if method in ("hucl", "hscl") else Uniform()
    debiased = ContrastiveLoss(
        NegativeSampler(admission, hardening), objective="jsd", hardness_scale="score", **options
    )
    with warnings.catch_warnings(action="ignore"):  # of clamping
        value = debiased.scored(t, OWN, known=known())
    expected = loop(t, method, "jsd", beta=1.3, gamma=1.0, prior=0.15)
    assert value.item() == pytest.approx(mean(expected), rel=1e-10)
    assert any(
        term != more
        for term, more in zip(expected, loop(t, method, "jsd", beta=1.3, gamma=1.0), strict=True)
    )


def test_a_label_aware_method_takes_a_class_prior_where_labels_are_incomplete() -> None:
    debiased = contrastive_loss("hscl", positives="view", class_prior=0.1, unknown=-1)
    assert debiased.class_prior == 0.1


def test_debiasing_what_labels_leave_out_needs_them_to_be_incomplete() -> None:
    with pytest.raises(InputError, match=r"class_prior\b.*\bunknown=-1\b"):
        ContrastiveLoss(NegativeSampler("other_labels"), class_prior=0.1)


@pytest.mark.parametrize("objective", ["infonce", "jsd"])
@pytest.mark.parametrize("method", METHODS)
def test_weights_of_queries_and_of_candidates(method: str, objective: str) -> None:
    t, query_weights = scores(3), torch.rand(B, dtype=torch.float64)
    log_proposal = torch.randn(C, dtype=torch.float64)
    gamma = {"temperature": 2.0} if objective == "infonce" else {}
    value = loss(method, objective, **gamma).scored(
        t, OWN, known=known(), anchor_weights=query_weights, log_proposal=log_proposal
    )
    terms = loop(t, method, objective, beta=1.3, gamma=2.0, log_w=-log_proposal)
    assert value.item() == pytest.approx(mean(terms, query_weights.tolist()), rel=1e-10)


@pytest.mark.parametrize("margin", [6.0, 12.0])
@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_rotates_self_adversarial_loss_is_half_of_hscl(margin: float, alpha: float) -> None:
    """Eq. 5 of Sun et al. (2019), with p of the negatives a constant to the gradient."""
    d = scores(4).abs().requires_grad_()
    facts = known()[:4]  # each has a negative
    theirs, positive = torch.zeros((), dtype=torch.float64), OWN[:4]
    for i in range(4):
        negative = torch.tensor([j for j in range(C) if j != positive[i] and not facts[i, j]])
        t = margin - d[i, negative]
        p = (alpha * t).softmax(0).detach()
        theirs = (
            theirs - (logsigmoid(margin - d[i, positive[i]]) + (p * logsigmoid(-t)).sum()) / 2 / 4
        )
    ours = loss("hscl", "jsd", beta=alpha).scored(margin - d[:4], positive, known=facts)
    torch.testing.assert_close((ours + 2 * math.log(2)) / 2, theirs, rtol=1e-12, atol=0)
    slopes = (torch.autograd.grad(value, d)[0] for value in (ours / 2, theirs))
    torch.testing.assert_close(*slopes, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("inputs", ["mean", "weighted", "none"])
@pytest.mark.parametrize("detach_weights", [True, False])
@pytest.mark.parametrize("objective", ["infonce", "jsd", "debiased"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:more than half")
def test_blocks_have_the_value_and_gradient_of_the_whole_table(
    method: str, objective: str, detach_weights: bool, inputs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of dot products, which are never all there."""
    monkeypatch.setattr(streaming, "FEWEST_ROWS", 2)
    monkeypatch.setattr(streaming, "SCORES", 2 * C)
    draw = torch.Generator().manual_seed(8)
    q, c = (torch.randn(n, 4, generator=draw, dtype=torch.float64) for n in (B, C))
    log_proposal = torch.randn(C, generator=draw, dtype=torch.float64)
    weights = torch.rand(B, generator=draw, dtype=torch.float64)
    pairs = known().nonzero(as_tuple=True)
    order = torch.randperm(len(pairs[0]), generator=draw)
    batch: dict[str, Any] = {
        "known": (pairs[0][order], pairs[1][order]), "log_proposal": log_proposal,
        "repeated": (torch.tensor([1, 2]), torch.tensor([5, 5])),
    }  # fmt: skip
    if inputs == "weighted":
        batch["anchor_weights"] = weights
    options: dict[str, Any] = {"detach_weights": detach_weights}
    if inputs == "none":
        options["reduction"] = "none"
    objective, prior = ("jsd", 0.2) if objective == "debiased" else (objective, None)
    outputs = []
    for way in ("dense", "scored", "against"):
        ends = [x.clone().requires_grad_() for x in (q, c)]
        contrastive = loss(method, objective, streaming=way != "dense", **options)
        contrastive.class_prior = prior
        if way == "against":
            value = contrastive.against(ends[0], ends[1], OWN, bias=-0.7, **batch)
        else:
            value = contrastive.scored(ends[0] @ ends[1].T - 0.7, OWN, **batch)
        (value * (weights if inputs == "none" else 3.0)).sum().backward()
        outputs.append([value.detach(), *(end.grad for end in ends)])
    for other in outputs[1:]:
        for actual, expected in zip(other, outputs[0], strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-13)


def test_weights_that_are_learned_have_their_gradient() -> None:
    outputs = []
    for way in ("dense", "scored", "against"):
        draw = torch.Generator().manual_seed(3)
        q, c = (torch.randn(n, 4, generator=draw, dtype=torch.float64) for n in (B, C))
        weights = torch.rand(B, generator=draw, dtype=torch.float64).requires_grad_()
        contrastive = loss("hucl", "infonce", streaming=way != "dense")
        if way == "against":
            value = contrastive.against(q.requires_grad_(), c, OWN, anchor_weights=weights)
        else:
            value = contrastive.scored(q.requires_grad_() @ c.T, OWN, anchor_weights=weights)
        value.backward()
        outputs.append((weights.grad, q.grad))
    for other in outputs[1:]:
        for actual, expected in zip(other, outputs[0], strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-13)


def test_a_learned_temperature_has_its_gradient_in_blocks() -> None:
    outputs = []
    for streaming_ in (False, True):
        gamma = torch.nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
        contrastive = loss("hscl", "infonce", temperature=gamma, streaming=streaming_)
        contrastive.scored(scores(9), OWN, known=known()).backward()
        outputs.append(gamma.grad)
    torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-10, atol=0)


def test_products_of_many_candidates_are_never_all_there() -> None:
    """Memory grows with candidates, not with their number times that of queries."""
    n, d = 200_000, 8
    q, c = torch.randn(1024, d, requires_grad=True), torch.randn(n, d, requires_grad=True)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        loss("hucl", "infonce").against(q, c, torch.arange(1024)).backward()
    largest = max(event.self_cpu_memory_usage for event in seen.events() or [])
    assert largest < 1024 * n  # bytes: a fourth of the scores


@pytest.mark.parametrize("streaming_", [True, False])
@pytest.mark.parametrize("objective", ["infonce", "jsd"])
@pytest.mark.parametrize("method", METHODS)
def test_what_is_no_negative_changes_neither_value_nor_gradient(
    method: str, objective: str, streaming_: bool
) -> None:
    facts = known()
    facts[4, 2:] = False
    barred = facts if method in ("scl", "hscl") else torch.zeros_like(facts)
    barred = barred & (torch.arange(C) != OWN[:, None])
    outputs = []
    for poison in (0.0, math.nan, 1e30):
        t = scores(5).masked_fill(barred, poison).requires_grad_()
        value = loss(method, objective, streaming=streaming_).scored(t, OWN, known=facts)
        value.backward()
        assert t.grad is not None
        assert not t.grad[barred].any()
        outputs.append((value.detach(), t.grad))
    for value, grad in outputs[1:]:
        torch.testing.assert_close(value, outputs[0][0], rtol=1e-12, atol=0)
        torch.testing.assert_close(grad, outputs[0][1], rtol=1e-12, atol=0)


def test_known_facts_are_a_mask_or_pairs() -> None:
    facts, t = known(), scores()
    contrastive = loss("hscl", "infonce")
    pairs = facts.nonzero(as_tuple=True)
    assert contrastive.scored(t, OWN, known=(pairs[0], pairs[1])) == contrastive.scored(
        t, OWN, known=facts
    )
    alone = torch.zeros(B, C, dtype=torch.bool)
    alone[torch.arange(B), OWN] = True  # none but the own: then filtering does nothing
    assert contrastive.scored(t, OWN, known=alone) == loss("hucl", "infonce").scored(t, OWN)


def test_a_query_without_a_negative_is_counted_and_left_out() -> None:
    t = scores().requires_grad_()
    value, seen = loss("scl", "infonce").scored_with_diagnostics(t, OWN, known=known())
    assert (int(seen.contributing), int(seen.without_negative), int(seen.pairs)) == (4, 1, 4)
    assert seen.effective_negatives[4] == 0
    value.backward()
    assert t.grad is not None
    assert not t.grad[4].any()
    strict = loss("scl", "infonce", on_empty="raise")
    with pytest.raises(InputError, match=r"\b1 of 5\b"):
        strict.scored(t, OWN, known=known())
    every = torch.ones(B, C, dtype=torch.bool)
    nothing = loss("scl", "infonce").scored(t, OWN, known=every)
    assert nothing == 0
    nothing.backward()


def test_the_weight_on_known_facts_is_that_of_q() -> None:
    t, facts = scores(6), known()
    seen = loss("hucl", "infonce", temperature=2.0).scored_with_diagnostics(t, OWN, known=facts)[1]
    others = torch.arange(C) != OWN[:, None]
    q = (1.3 * t / 2.0).masked_fill(~others, -math.inf).softmax(1)
    expected = (q * (facts & others)).sum(1)
    assert seen.own_label_weight is not None
    torch.testing.assert_close(seen.own_label_weight, expected)
    torch.testing.assert_close(seen.effective_negatives, 1 / q.square().sum(1))


def test_thresholds_are_scores_and_draws_tend_to_the_expectation() -> None:
    t = scores(7)
    kept = ContrastiveLoss(
        NegativeSampler(hardening=Threshold(cosine=-2.0)), reduction="none", temperature=1.0
    )
    plain = ContrastiveLoss(NegativeSampler(hardening=Uniform()), temperature=1.0,
                            reduction="none")  # fmt: skip
    facts = t < -2
    filtered = ContrastiveLoss(NegativeSampler("other_labels"), temperature=1.0, reduction="none")
    torch.testing.assert_close(
        kept.scored(t, OWN), filtered.scored(t, OWN, known=facts), rtol=1e-12, atol=0
    )
    assert (kept.scored(t, OWN) >= plain.scored(t, OWN)).all()
    exact = loss("hucl", "infonce", temperature=4.0).scored(t, OWN)
    sampler = NegativeSampler(hardening=Exponential(beta=1.3), draws=20_000)
    drawn = ContrastiveLoss(sampler, temperature=4.0).scored(t, OWN)
    assert drawn.item() == pytest.approx(exact.item(), rel=0.01)


def test_half_precision_is_computed_in_single_and_an_empty_batch_is_0() -> None:
    contrastive, t = loss("hscl", "jsd"), scores().float()
    half = t.half()
    assert contrastive.scored(half, OWN, known=known()) == contrastive.scored(
        half.float(), OWN, known=known()
    )
    for streaming_ in (True, False):
        none = torch.zeros(0, C, requires_grad=True)
        value = loss("hucl", "infonce", streaming=streaming_).scored(none, OWN[:0])
        assert value == 0
        value.backward()


def test_blocks_refuse_a_second_derivative() -> None:
    t = scores().requires_grad_()
    value = loss("hucl", "infonce", streaming=True).scored(t, OWN)
    with pytest.raises(InputError, match="streaming=False"):
        torch.autograd.grad(value, t, create_graph=True)


def test_vectors_that_do_not_fit_are_named() -> None:
    q, c = torch.zeros(B, 3), torch.zeros(C, 4)
    with pytest.raises(InputError, match=r"\[5, 3\].*\[9, 4\]"):
        loss("hucl", "infonce").against(q, c, OWN)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"scores": torch.zeros(B)}, r"scores\b.*\[B, C\]"),
        ({"scores": torch.zeros(B, C, dtype=torch.int64)}, r"scores\b.*float"),
        ({"positive": OWN.float()}, r"positive\b.*int64"),
        ({"positive": OWN[:2]}, r"positive\b.*\[5\]"),
        ({"positive": OWN + 1}, r"positive\b.*\b0 to 8\b.*\b1 to 9\b"),
        ({"known": torch.zeros(B, 2, dtype=torch.bool)}, r"known\b.*\[5, 9\]"),
        ({"known": [True]}, r"known\b.*list"),
        ({"anchor_weights": [1.0]}, r"anchor_weights\b.*list"),
        ({"log_proposal": [1.0]}, r"log_proposal\b.*list"),
        ({"known": (OWN, OWN + 1)}, r"known\b.*\[5, 9\]"),
        ({"known": None}, r"other_labels\b.*\bknown\b"),
        ({"anchor_weights": torch.ones(2)}, r"anchor_weights\b.*\[5\]"),
        ({"anchor_weights": -torch.ones(B)}, r"anchor_weights\b.*at least 0"),
        ({"log_proposal": torch.full((C,), math.nan)}, r"log_proposal\b.*finite"),
    ],
)
def test_what_does_not_fit_is_named(changed: dict[str, Any], words: str) -> None:
    arguments = {"scores": scores(), "positive": OWN, "known": known()} | changed
    with pytest.raises(InputError, match=words):
        loss("hscl", "infonce").scored(
            arguments.pop("scores"), arguments.pop("positive"), **arguments
        )


@pytest.mark.parametrize(
    ("unusable", "words"),
    [
        (lambda: contrastive_loss("hscl"), r'positives="view"'),
        (lambda: loss("mochi", "infonce"), r"synthetic"),
        (lambda: loss("hucl", "jsd", hardness_scale="cosine"), r'"score"'),
        (lambda: loss("hcl", "infonce"), r"class_prior"),
        (lambda: loss("progcl", "infonce"), r"MixturePosterior"),
        (lambda: loss("hucl", "infonce", detach_candidates=True), r"detach_candidates"),
        (
            lambda: ContrastiveLoss(
                NegativeSampler(hardening=Threshold(cosine=0.0)), streaming=True
            ),
            r"streaming=True",
        ),
    ],
)
def test_losses_that_need_embeddings_are_refused(unusable: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        unusable().scored(scores(), OWN, known=known())


def test_the_score_as_hardness_belongs_to_scores() -> None:
    z = torch.randn(4, 3)
    with pytest.raises(InputError, match=r'hardness_scale="score".*\bscored\b'):
        loss("hucl", "jsd")(z, z)
