"""Losses of queries and candidates by any scores: what test_oracle.py does not draw."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid
from torch.profiler import ProfilerActivity, profile

from gcl_hard import ContrastiveLoss, InputError, NegativeSampler, contrastive_loss
from gcl_hard.functional.hardening import Threshold
from tests.losses.cases import numbers

METHODS = ("ucl", "hucl", "scl", "hscl")
B, C = 5, 9
OWN = torch.tensor([3, 0, 8, 3, 1])


def scores(seed: int = 0) -> Tensor:
    return 4 * numbers(B, C, seed=seed) - 1


def known() -> Tensor:
    """Facts of each query; the own one is among those of some, and the last has all of them."""
    mask = torch.rand(B, C, generator=torch.Generator().manual_seed(1)) < 0.3
    mask[0, OWN[0]] = True
    mask[4] = True
    return mask


def loss(method: str, objective: str, beta: float = 1.3, **options: Any) -> ContrastiveLoss:
    settings: dict[str, Any] = {"objective": objective, "positives": "view", **options}
    if objective == "jsd":
        settings.setdefault("hardness_scale", "score")
    return contrastive_loss(method, beta=beta, **settings)


def test_a_label_aware_method_takes_a_class_prior_where_labels_are_incomplete() -> None:
    debiased = contrastive_loss("hscl", positives="view", class_prior=0.1, unknown=-1)
    assert debiased.class_prior == 0.1


@pytest.mark.parametrize(("margin", "alpha"), [(6.0, 0.5), (12.0, 1.0)])
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


def test_products_of_many_candidates_are_never_all_there() -> None:
    """Memory grows with candidates, not with their number times that of queries."""
    n, d = 40_000, 8
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


@pytest.mark.parametrize(
    "changed",
    [
        {"scores": torch.zeros(B, C, dtype=torch.int64)},
        {"positive": OWN.float()},
        {"positive": OWN + 1},
        {"known": torch.zeros(B, 2, dtype=torch.bool)},
        {"known": (OWN, OWN + 1)},
        {"known": None},
        {"anchor_weights": torch.ones(2)},
        {"anchor_weights": -torch.ones(B)},
        {"log_proposal": torch.full((C,), math.nan)},
    ],
)
def test_what_does_not_fit_is_named(changed: dict[str, Any]) -> None:
    arguments = {"scores": scores(), "positive": OWN, "known": known()} | changed
    with pytest.raises(InputError, match=next(iter(changed))):
        loss("hscl", "infonce").scored(
            arguments.pop("scores"), arguments.pop("positive"), **arguments
        )


@pytest.mark.parametrize(
    ("words", "unusable"),
    [
        ("positives", lambda: contrastive_loss("hscl")),
        ("synthetic", lambda: loss("mochi", "infonce")),
        ("hardness_scale", lambda: loss("hucl", "jsd", hardness_scale="cosine")),
        ("class_prior", lambda: loss("hcl", "infonce")),
        ("MixturePosterior", lambda: loss("progcl", "infonce")),
        ("detach_candidates", lambda: loss("hucl", "infonce", detach_candidates=True)),
        ("streaming", lambda: ContrastiveLoss(
            NegativeSampler(hardening=Threshold(cosine=0.0)), streaming=True)),
    ],
)  # fmt: skip
def test_losses_that_need_embeddings_are_refused(words: str, unusable: Any) -> None:
    with pytest.raises(InputError, match=words):
        unusable().scored(scores(), OWN, known=known())


def test_the_score_as_hardness_belongs_to_scores() -> None:
    z = torch.randn(4, 3)
    with pytest.raises(InputError, match=r'hardness_scale="score".*\bscored\b'):
        loss("hucl", "jsd")(z, z)
