"""The propositions of the H-SCL paper and what follows from them, per anchor, in float64.

Same embeddings, positives, weight M and one common hardening; large k.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gcl_hard import (
    ContrastiveLoss,
    Exponential,
    MeanThreshold,
    NegativeSampler,
    Threshold,
    Uniform,
)
from gcl_hard.functional import objectives
from gcl_hard.functional.hardening import Hardening, Rows, as_hardening
from gcl_hard.functional.negatives import expectation, log_negative_distribution

GAMMA = 0.5
HARDENINGS = {
    "uniform": Uniform(),
    "exp-0.5": Exponential(0.5),
    "exp-2": Exponential(2.0),
    "exp-10": Exponential(10.0),
    "threshold-0": Threshold(0.0),
    "threshold-0.3": Threshold(0.3),
    "mean": MeanThreshold(),
    "custom": as_hardening(lambda t: (1 + t.exp()).log()),
}
INTEGRANDS = {"infonce": torch.exp, "jsd": objectives.softplus}


class Batch:
    """Embeddings of two views, clustered by class as far as ``tight`` says."""

    def __init__(self, seed: int, tight: float = 0.0, n: int = 12, d: int = 4) -> None:
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, 3, (n,), generator=g)
        centres = torch.randn(3, d, generator=g, dtype=torch.float64)
        z = torch.randn(2, n, d, generator=g, dtype=torch.float64) + tight * centres[self.y]
        self.z1, self.z2 = F.normalize(z, dim=-1)
        z, y = torch.cat([self.z1, self.z2]), self.y.repeat(2)
        self.s = z @ z.T
        self.others = ~torch.eye(n, dtype=torch.bool).tile(2, 2)
        self.same = y[:, None] == y

    def alpha_and_mean(
        self, hardening: Hardening, admitted: Tensor, integrand: str
    ) -> tuple[Tensor, Tensor]:
        """α = E_UCL[1[admitted] η] and E_q[h], straight from Proposition 1."""
        t = self.s / GAMMA
        h = INTEGRANDS[integrand](t)
        eta = hardening.log_eta(Rows(self.s, GAMMA, h.log(), self.others)).exp() * admitted
        alpha = eta.sum(1) / self.others.sum(1)
        return alpha, (eta * h).sum(1) / eta.sum(1)


BATCHES = [Batch(seed, tight) for seed in range(4) for tight in (0.0, 0.5, 3.0)]
each_hardening = pytest.mark.parametrize("name", HARDENINGS)
each_integrand = pytest.mark.parametrize("integrand", INTEGRANDS)


@each_integrand
@each_hardening
def test_proposition_1_expectations_under_q_are_reweighted_ones(name, integrand):
    for b in BATCHES:
        h = INTEGRANDS[integrand](b.s / GAMMA)
        for admitted in (b.others, b.others & ~b.same):
            alpha, mean = b.alpha_and_mean(HARDENINGS[name], admitted, integrand)
            log_eta = HARDENINGS[name].log_eta(Rows(b.s, GAMMA, h.log(), b.others))
            log_q, empty = log_negative_distribution(log_eta, admitted)
            assert torch.equal(empty, alpha == 0)
            ours = expectation(log_q, h)
            torch.testing.assert_close(ours[~empty], mean[~empty], rtol=1e-12, atol=0)
            total = log_q.exp().sum(1)
            torch.testing.assert_close(total, torch.ones_like(total), rtol=1e-12, atol=0)


@each_integrand
@each_hardening
def test_proposition_2_alphas_add_up(name, integrand):
    for b in BATCHES:
        hucl, _ = b.alpha_and_mean(HARDENINGS[name], b.others, integrand)
        hscl, _ = b.alpha_and_mean(HARDENINGS[name], b.others & ~b.same, integrand)
        hcol, _ = b.alpha_and_mean(HARDENINGS[name], b.others & b.same, integrand)
        torch.testing.assert_close(hucl, hscl + hcol, rtol=1e-12, atol=1e-15)


@each_integrand
@each_hardening
def test_lemma_1_holds_at_an_anchor_iff_assumption_1_does(name, integrand):
    """Through the sampler's own q; anchors without a hard collision have H-UCL = H-SCL."""
    seen = {True: 0, False: 0, "no collision": 0}
    for b in BATCHES:
        h = INTEGRANDS[integrand](b.s / GAMMA)
        means = {}
        for admit in ("others", "other_labels"):
            sampler = NegativeSampler(admit, HARDENINGS[name])
            q = sampler(
                b.s, others=b.others, temperature=GAMMA, same_label=b.same, log_integrand=h.log()
            )
            means[admit] = expectation(q.log_q, h), q.empty
        alpha_col, mean_col = b.alpha_and_mean(HARDENINGS[name], b.others & b.same, integrand)
        (hucl, _), (hscl, empty) = means["others"], means["other_labels"]
        for i in (~empty).nonzero()[:, 0].tolist():
            if alpha_col[i] == 0:
                assert abs(hucl[i] - hscl[i]) < 1e-10 * hucl[i]
                seen["no collision"] += 1
            elif abs(mean_col[i] - hscl[i]) > 1e-9:
                assumption = bool(mean_col[i] >= hscl[i])
                assert bool(hucl[i] >= hscl[i]) == assumption
                seen[assumption] += 1
    assert seen[True] > 20
    assert seen[False] > 20


def loss(admit, hardening, **options) -> ContrastiveLoss:
    return ContrastiveLoss(NegativeSampler(admit, hardening), temperature=GAMMA, **options)


@each_hardening
@pytest.mark.parametrize("admit", ["others", "other_labels"])
def test_hardening_never_lowers_the_loss(name, admit):
    for b in BATCHES:
        terms = [_anchor_terms(b, admit, h) for h in (HARDENINGS[name], Uniform())]
        hard, plain = terms
        both = ~(hard.isnan() | plain.isnan())
        assert both.any()
        assert (hard[both] >= plain[both] - 1e-12).all()


def _anchor_terms(b: Batch, admit: str, hardening: Hardening) -> Tensor:
    """E_q[e^t] of each anchor through the sampler, NaN where it has no negative."""
    q = NegativeSampler(admit, hardening)(
        b.s, others=b.others, temperature=GAMMA, same_label=b.same
    )
    return expectation(q.log_q, (b.s / GAMMA).exp()).masked_fill(q.empty, math.nan)


def test_mean_threshold_lifts_hscl_above_ucl():
    checked = 0
    for b in BATCHES:
        hscl = _anchor_terms(b, "other_labels", MeanThreshold())
        ucl = _anchor_terms(b, "others", Uniform())
        kept = ~hscl.isnan()
        assert (hscl[kept] >= ucl[kept] - 1e-12).all()
        checked += int(kept.sum())
    assert checked > 100


@pytest.mark.parametrize(
    ("admit", "positives", "prior"),
    [
        ("others", "view", None),
        ("others", "class", None),
        ("other_labels", "view", None),
        ("other_labels", "class", None),
        ("rest", "view", None),
        ("rest", "class", None),
        ("others", "view", 0.1),  # debiased, the claim is for one positive only
    ],
)
def test_loss_does_not_fall_as_beta_grows(admit, positives, prior):
    for b in BATCHES:
        values = [
            loss(admit, Exponential(beta), positives=positives, class_prior=prior)(b.z1, b.z2, b.y)
            for beta in (0.0, 0.5, 1.0, 3.0, 10.0, 100.0)
        ]
        assert all(low <= high + 1e-12 for low, high in itertools.pairwise(values))


@pytest.mark.parametrize("objective", ["infonce", "jsd"])
def test_beta_zero_is_no_hardening(objective):
    for b in BATCHES[:3]:
        for admit in ("others", "other_labels"):
            pair = [
                ContrastiveLoss(NegativeSampler(admit, h), objective=objective)(b.z1, b.z2, b.y)
                for h in (Exponential(0.0), None)
            ]
            torch.testing.assert_close(*pair, rtol=1e-12, atol=0)


@pytest.mark.parametrize("l", [-1.0, -1.5, -math.inf])
def test_threshold_of_minus_one_admits_all(l):  # noqa: E741
    b = BATCHES[0]
    torch.testing.assert_close(
        loss("others", Threshold(l))(b.z1, b.z2), loss("others", None)(b.z1, b.z2), rtol=1e-12,
        atol=0,
    )  # fmt: skip


FIELDS = {
    "weights": {"admit": "others", "pair_weights": True},
    "weights of other labels": {"admit": "other_labels", "pair_weights": True},
    "weights of the rest": {"admit": "rest", "pair_weights": True},
    "gap": {"admit": "other_labels", "label_gap": (0.2, 0.9)},
    "gap and weights": {"admit": "other_labels", "label_gap": (0.2, 0.9), "pair_weights": True},
}
each_field = pytest.mark.parametrize("field", FIELDS)
each_way = pytest.mark.parametrize("streaming", [True, False])


def field_loss(field: str, beta: float, order: Tensor, **options) -> ContrastiveLoss:
    """With weights of 12 items, some of them 0, and hardening."""
    settings = dict(FIELDS[field])
    if settings.pop("pair_weights", False):
        g = torch.Generator().manual_seed(1)
        log_w = torch.randn(12, 12, generator=g, dtype=torch.float64)
        log_w[log_w < -1.3] = -math.inf
        settings["pair_weights"] = log_w[order][:, order]
    sampler = NegativeSampler(hardening=Exponential(beta), **settings)
    return ContrastiveLoss(sampler, temperature=GAMMA, positives="class", **options)


def labels_of(b: Batch, field: str) -> Tensor:
    """Classes, or real numbers around them."""
    if "gap" not in field:
        return b.y
    return b.y + 0.3 * torch.randn(12, generator=torch.Generator().manual_seed(2)).double()


@each_way
@each_field
def test_weights_and_gaps_leave_the_loss_rising_in_beta(field, streaming):
    for b in BATCHES:
        values = [
            field_loss(field, beta, torch.arange(12), streaming=streaming)(
                b.z1, b.z2, labels=labels_of(b, field)
            )
            for beta in (0.0, 0.5, 1.0, 3.0, 10.0)
        ]
        assert all(low <= high + 1e-12 for low, high in itertools.pairwise(values))


@each_way
@each_field
def test_weights_and_gaps_leave_permutation_and_rotation(field, streaming):
    g = torch.Generator().manual_seed(0)
    rotation, _ = torch.linalg.qr(torch.randn(4, 4, generator=g, dtype=torch.float64))
    order, usual = torch.randperm(12, generator=g), torch.arange(12)
    for b in BATCHES[:3]:
        y = labels_of(b, field)
        value = field_loss(field, 1.5, usual, streaming=streaming)(b.z1, b.z2, labels=y)
        moved = field_loss(field, 1.5, order, streaming=streaming)
        turned = field_loss(field, 1.5, usual, streaming=streaming)
        for other in (
            moved(b.z1[order], b.z2[order], labels=y[order]),
            turned(b.z1 @ rotation, b.z2 @ rotation, labels=y),
            turned(b.z2, b.z1, labels=y),
        ):
            torch.testing.assert_close(other, value, rtol=1e-10, atol=0)


@pytest.mark.parametrize("scale", ["rank", "anchor", "batch-max"])
@pytest.mark.parametrize("admit", ["others", "other_labels"])
def test_hardness_that_rises_with_the_score_never_lowers_a_jsd_loss(admit, scale):
    """Not ``"cosine"``, which need not rise with a dot product."""
    batch = torch.arange(24) % 12
    for b in BATCHES:
        nodes = torch.cat([b.z1, b.z2]) * torch.linspace(0.2, 5.0, 24)[:, None]
        values = [
            ContrastiveLoss(
                NegativeSampler(admit, Exponential(beta)), objective="jsd", hardness_scale=scale
            ).local_global(nodes, b.z2 * 3, batch, b.y)
            for beta in (0.0, 0.5, 1.0, 3.0)
        ]
        assert all(low <= high + 1e-12 for low, high in itertools.pairwise(values))


def test_the_rest_of_two_views_are_the_others():
    for b in BATCHES:
        for hardening in HARDENINGS.values():
            if not hardening.row_wise:
                pair = [loss(admit, hardening)(b.z1, b.z2) for admit in ("rest", "others")]
                torch.testing.assert_close(*pair, rtol=1e-12, atol=0)


def test_beta_to_infinity_is_the_worst_negative():
    for b in BATCHES:
        worst = (b.s / GAMMA).masked_fill(~b.others, -math.inf).amax(1)
        t_pos = (b.s / GAMMA)[torch.arange(24), torch.arange(24).roll(12)]
        expected = torch.log1p(22 * (worst - t_pos).exp()).mean()
        ours = loss("others", Exponential(1e7))(b.z1, b.z2)
        torch.testing.assert_close(ours, expected, rtol=1e-7, atol=0)


def test_distinct_labels_make_scl_ucl():
    b, y = BATCHES[0], torch.arange(12)
    for hardening in (None, Exponential(2.0)):
        scl = loss("other_labels", hardening, positives="class", reduction="anchors")
        torch.testing.assert_close(
            scl(b.z1, b.z2, y), loss("others", hardening)(b.z1, b.z2), rtol=1e-12, atol=0
        )


@each_hardening
def test_identical_rows_give_log_of_one_plus_m(name):
    z = torch.ones(5, 3, dtype=torch.float64)
    for weight, m in (("others", 8.0), (1.0, 1.0), (3.5, 3.5)):
        value = loss("others", HARDENINGS[name], weight=weight)(z, z)
        assert abs(value.item() - math.log(1 + m)) < 1e-12


def test_ucl_is_nt_xent():
    """Cross-entropy over the similarities to everything but oneself (SimCLR)."""
    for b in BATCHES:
        logits = (b.s / GAMMA).masked_fill(torch.eye(24, dtype=torch.bool), -math.inf)
        expected = F.cross_entropy(logits, torch.arange(24).roll(12))
        torch.testing.assert_close(loss("others", None)(b.z1, b.z2), expected, rtol=1e-12, atol=0)


@each_hardening
@pytest.mark.parametrize("admit", ["others", "other_labels"])
def test_permutation_and_rotation_change_nothing(name, admit):
    g = torch.Generator().manual_seed(0)
    rotation, _ = torch.linalg.qr(torch.randn(4, 4, generator=g, dtype=torch.float64))
    order = torch.randperm(12, generator=g)
    for b in BATCHES[:3]:
        criterion = loss(admit, HARDENINGS[name], positives="class")
        value = criterion(b.z1, b.z2, b.y)
        torch.testing.assert_close(
            criterion(b.z1[order], b.z2[order], b.y[order]), value, rtol=1e-10, atol=0
        )
        torch.testing.assert_close(
            criterion(b.z1 @ rotation, b.z2 @ rotation, b.y), value, rtol=1e-10, atol=0
        )
        torch.testing.assert_close(criterion(b.z2, b.z1, b.y), value, rtol=1e-10, atol=0)


def test_hard_weights_rise_with_similarity():
    """The paper's sign: HCL's published graph code tilts the other way."""
    s = torch.tensor([[-0.75, -0.25, 0.0, 0.25, 0.75]], dtype=torch.float64)
    sampler = NegativeSampler("others", Exponential(1.0))
    q = sampler(s, others=torch.ones_like(s, dtype=torch.bool), temperature=0.5).log_q.exp()[0]
    assert (q.diff() > 0).all()
    expected = (2 * s[0]).exp() / (2 * s[0]).exp().sum()
    torch.testing.assert_close(q, expected, rtol=1e-12, atol=0)
