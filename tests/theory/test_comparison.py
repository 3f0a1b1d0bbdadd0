"""Expectations, claims and losses of a batch against the paper's sums, and what must follow."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import pytest
import torch
from torch import Tensor

from gcl_hard import (
    Custom,
    Exponential,
    InputError,
    MeanThreshold,
    Threshold,
)
from gcl_hard.theory.assumptions import (
    assumption_1,
    eq17_averages,
    four_losses,
    lemma_1,
    undefined,
)
from gcl_hard.theory.comparison import LossComparison, compare, joined
from gcl_hard.theory.similarity import ScoreTable, local_global_scores, log_eta, two_view_scores
from tests.reference import theory

GAMMA = 0.5
ETAS = {  # of t = s / γ, as the paper has them
    "none": (None, lambda t: 1.0),
    "exp-1": (Exponential(1.0), math.exp),
    "exp-5": (Exponential(5.0), lambda t: math.exp(5 * t)),
    "thresh--0.25": (Threshold(-0.25), lambda t: float(t >= -0.25 / GAMMA)),
    "thresh-0.4": (Threshold(0.4), lambda t: float(t >= 0.4 / GAMMA)),
    "custom": (Custom(lambda t: (1 + t.exp()).log()), lambda t: 1 + math.exp(t)),
}
INTEGRANDS = {"infonce": math.exp, "jsd": lambda t: math.log(1 + math.exp(t))}
DISTRIBUTIONS = ("ucl", "scl", "hucl", "hscl", "hcol")


class Case:
    """A batch, its table and the paper's anchors; ``tight`` draws classes together."""

    def __init__(self, objective: str, seed: int, tight: float) -> None:
        g = torch.Generator().manual_seed(seed)
        centres = torch.randn(4, 3, generator=g, dtype=torch.float64)

        def near(y: Tensor) -> Tensor:
            return torch.randn(len(y), 3, generator=g, dtype=torch.float64) + tight * centres[y]

        if objective == "infonce":
            self.y = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 3])  # a class of one item
            self.inputs = (near(self.y), near(self.y), self.y)
            self.scores = two_view_scores(*self.inputs, temperature=GAMMA)
            lists = [x.tolist() for x in self.inputs]
            self.anchors = list(theory.two_view_anchors(*lists, GAMMA))
            self.to_hardening = 1.0
        else:
            self.y = torch.tensor([0, 0, 1, 1, 2, 0, 1, 0])  # a graph alone in its class
            batch = torch.tensor([0, 0, 0, 1, 2, 2, 3, 3, 4, 4, 5, 6, 6, 7, 7])
            self.inputs = (near(self.y[batch]), near(self.y), batch, self.y)
            self.scores = local_global_scores(*self.inputs, hardness_scale="batch-max")
            self.anchors = list(theory.local_global_anchors(*(x.tolist() for x in self.inputs)))
            m = max(abs(t) for x in self.anchors for _, t in x.others)
            self.to_hardening = 1 / m / GAMMA

    def compare(self, name: str) -> LossComparison:
        return compare(self.scores, log_eta(self.scores, ETAS[name][0]))

    def expected(self, name: str) -> list[dict]:
        h, eta = INTEGRANDS[self.scores.objective], ETAS[name][1]
        return [theory.five(x, lambda t: eta(t * self.to_hardening), h) for x in self.anchors]


CASES = {
    objective: [Case(objective, seed, tight) for seed in range(3) for tight in (0.0, 0.5, 2.0)]
    for objective in INTEGRANDS
}
each_objective = pytest.mark.parametrize("objective", CASES)
each_eta = pytest.mark.parametrize("name", ETAS)


@each_objective
@each_eta
def test_alphas_and_expectations_are_the_papers(objective, name):
    without = 0
    for case in CASES[objective]:
        ours = case.compare(name)
        for i, row in enumerate(case.expected(name)):
            for distribution, (alpha, mean) in row.items():
                log_alpha = getattr(ours.log_alpha, distribution)[i].item()
                log_mean = getattr(ours.log_mean, distribution)[i].item()
                if mean is None:
                    assert log_alpha == -math.inf
                    assert math.isnan(log_mean)
                    without += 1
                else:
                    assert math.exp(log_alpha) == pytest.approx(alpha, rel=1e-10)
                    assert math.exp(log_mean) == pytest.approx(mean, rel=1e-10)
    assert without > 0


@each_objective
@pytest.mark.parametrize("name", [*ETAS, "mean"])
def test_lemma_1_holds_at_an_anchor_iff_assumption_1_does(objective, name):
    seen = {True: 0, False: 0}
    for case in CASES[objective]:
        hardening = MeanThreshold() if name == "mean" else ETAS[name][0]
        c = compare(case.scores, log_eta(case.scores, hardening))
        assumption, lemma, why = assumption_1(c), lemma_1(c), undefined(c)
        near = (c.log_mean.hcol - c.log_mean.hscl).abs() < 1e-9
        sure = assumption.defined & ~near
        assert torch.equal(assumption.holds[sure], lemma.holds[sure])
        four = four_losses(c)
        assert torch.equal((four.hucl >= four.hscl)[sure], assumption.holds[sure])
        no_collision = lemma.defined & ~assumption.defined
        torch.testing.assert_close(c.log_mean.hucl[no_collision], c.log_mean.hscl[no_collision])
        assert lemma.holds[no_collision].all()
        # Four kinds of anchor and no fifth.
        kinds = torch.stack([assumption.defined, *why])
        assert (kinds.sum(0) == 1).all()
        for holds in assumption.holds[sure].tolist():
            seen[holds] += 1
    assert min(seen.values()) > 3


@each_objective
def test_what_is_no_candidate_is_never_looked_at(objective):
    for case in CASES[objective][:3]:
        eta = log_eta(case.scores, Exponential(2.0))
        clean = compare(case.scores, eta)
        for poison in (math.nan, 1e30, math.inf, -math.inf):
            t = case.scores.t.masked_fill(~case.scores.others, poison)
            dirty = compare(case.scores._replace(t=t), eta.masked_fill(~case.scores.others, poison))
            for ours, theirs in zip(clean.log_mean, dirty.log_mean, strict=True):
                assert torch.equal(ours.nan_to_num(), theirs.nan_to_num())


def test_a_nan_among_candidates_is_not_hidden():
    scores = CASES["infonce"][0].scores
    t = scores.t.clone()
    t[0, 1] = math.nan  # an other of the first anchor, of its label
    c = compare(scores._replace(t=t), torch.zeros_like(t))
    assert c.log_mean.ucl.isnan().nonzero().tolist() == [[0]]
    assert c.log_alpha.hcol[0] != -math.inf
    assert assumption_1(c).defined[0]
    assert not assumption_1(c).holds[0]
    assert math.isnan(four_losses(c).means()["ucl"])


def test_each_reason_why_nothing_is_claimed():
    t = torch.tensor([[0.1, 0.2, 0.3]] * 5)
    same = torch.tensor([[0, 0, 0], [1, 0, 0], [1, 0, 0], [1, 1, 1], [1, 0, 0]]).bool()
    eta = torch.zeros(5, 3)
    eta[1, 0] = eta[2, 1:] = eta[4] = -math.inf
    scores = ScoreTable(t, torch.ones_like(same), same, t[:, 0], 0.5, t / 2, "infonce")
    c = compare(scores, eta)
    why = undefined(c)
    assert why.alone.tolist() == [True, False, False, False, False]
    assert why.spared.tolist() == [False, True, False, False, True]
    assert why.unopposed.tolist() == [False, False, True, True, False]
    assert not assumption_1(c).defined.any()
    assert lemma_1(c).defined.tolist() == [True, True, False, False, False]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("beta", [0.0, 1.0, 100.0])
def test_a_collapsed_encoder_satisfies_the_assumption_with_equality(dtype, beta):
    z = torch.tensor([[0.1, -0.7, 0.3]], dtype=dtype).expand(40, 3)
    y = torch.arange(40) % 3
    for temperature in (0.01, 0.07, 0.5):
        scores = two_view_scores(z, z, y, temperature=temperature)
        c = compare(scores, log_eta(scores, Exponential(beta)))
        assert assumption_1(c).fraction == lemma_1(c).fraction == 1.0
        left, right = eq17_averages(c)
        assert left == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize("beta", [1, 30, 100])
def test_concentrated_weights_keep_ten_digits(beta):
    """γ = 0.01 and β = 100: weights span e^20000, summed here in decimals of 60 digits."""
    gamma = 0.01
    inputs = CASES["infonce"][1].inputs
    scores = two_view_scores(*inputs, temperature=gamma)
    ours = compare(scores, log_eta(scores, Exponential(beta)))
    labels = inputs[2].repeat(2).tolist()
    with localcontext() as context:
        context.prec = 60
        for i in range(0, len(labels), 4):
            row = [
                (labels[j], Decimal(scores.t[i, j].item()))
                for j in scores.others[i].nonzero()[:, 0].tolist()
            ]
            x = theory.Anchor(labels[i], 0.0, row)
            five = theory.five(x, lambda t: (beta * t).exp(), lambda t: t.exp())
            for distribution, (alpha, mean) in five.items():
                if mean is not None:
                    log_mean, log_alpha = (
                        getattr(logs, distribution)[i].item() for logs in ours[:2]
                    )
                    assert log_mean == pytest.approx(float(mean.ln()), abs=1e-10)
                    exact = float(Decimal(alpha).ln())
                    assert log_alpha == pytest.approx(exact, rel=1e-13, abs=1e-10)


def test_parts_of_a_row_that_lie_far_apart_keep_their_digits():
    # Others at ±t in turn: one part's weights are e^(−2000 β) of the other's, or none.
    t = torch.tensor([[1000.0, 999.0, -1000.0, -999.5]] * 3, dtype=torch.float64)
    same = torch.tensor([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0]]).bool()
    scores = ScoreTable(t, torch.ones_like(same), same, t[:, 0], 1e-3, t / 1e3, "infonce")
    c = compare(scores, log_eta(scores, Exponential(3.0)))
    top, low = (math.log((1 + math.exp(-4 * d)) / (1 + math.exp(-3 * d))) for d in (1, 0.5))
    hscl, hcol = c.log_mean.hscl.tolist(), c.log_mean.hcol.tolist()
    assert hcol[:2] == pytest.approx([1000 + top, -999.5 + low], abs=1e-10)
    assert hscl[:2] == pytest.approx([-999.5 + low, 1000 + top], abs=1e-10)
    assert c.log_mean.hucl[:2].tolist() == pytest.approx([1000 + top] * 2, abs=1e-10)
    assert (hcol[2], hscl[2]) == pytest.approx((1000, 999), abs=1e-10)


def test_batches_are_averaged_by_anchor():
    parts = [case.compare("exp-1") for case in CASES["jsd"][:3]]
    whole = joined(parts)
    claims = [assumption_1(part) for part in parts]
    assert assumption_1(whole).fraction == sum(int(c.holds.sum()) for c in claims) / sum(
        int(c.defined.sum()) for c in claims
    )
    for name, ours in zip(whole.log_mean._fields, whole.log_mean, strict=True):
        theirs = torch.cat([getattr(part.log_mean, name) for part in parts])
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
    n_hucl = torch.cat([part.effective.hucl for part in parts])
    torch.testing.assert_close(whole.effective.hucl, n_hucl, rtol=0, atol=0, equal_nan=True)
    four, each = four_losses(whole).means(), [four_losses(part) for part in parts]
    hucl = torch.cat([loss.hucl[loss.common] for loss in each])
    assert four["hucl"] == pytest.approx(hucl.mean().item(), rel=1e-12)


def test_what_cannot_be_compared_is_named():
    with pytest.raises(InputError, match=r"log_eta\b.*\[18, 18\].*\[18\]"):
        compare(CASES["infonce"][0].scores, torch.zeros(18))
