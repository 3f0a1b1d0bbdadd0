"""Synthetic negatives, hard positives and SPACL's loss, against loops."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch

from gcl_hard import (
    AdversarialNegatives,
    ContrastiveLoss,
    Exponential,
    HardMixing,
    HardPositives,
    InputError,
    NegativeSampler,
    RelativeThreshold,
    Transport,
    contrastive_loss,
)
from gcl_hard.losses.synthetic import Scene, Synthetic, SyntheticNegatives
from tests.reference.loops import dot, expectation, unit

GAMMA = 0.5
LABELS = [0, 1, 1, 2, 0, 3, 1]


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Given(SyntheticNegatives):
    """The same negatives for every batch; the last of the second anchor may not be real."""

    def __init__(self, z, *, all_real=False):
        super().__init__()
        self.z, self.all_real = z, all_real

    def forward(self, scene):
        real = torch.ones(self.z.shape[:2], dtype=torch.bool)
        real[1, -1] = self.all_real
        return Synthetic(self.z, real)


def scene(scores, admitted, d):
    """Anchors and candidates along axes, so that a mixture shows what it is made of."""
    n = scores.shape[1]
    axes = torch.eye(d, dtype=torch.float64)
    return Scene(axes[n : n + len(scores)], axes[:n], scores, admitted, axes[n:], axes[:n])


# Candidates of single anchors


@pytest.mark.parametrize("admit", ["others", "other_labels"])
@pytest.mark.parametrize("positives", ["view", "class"])
@pytest.mark.parametrize("beta", [0.0, 1.3])
@pytest.mark.parametrize("prior", [None, 0.1])
def test_synthetic_negatives_are_negatives_of_their_anchors(admit, positives, beta, prior):
    if prior is not None and admit == "other_labels":
        return
    z1, z2, vectors = numbers(7, 4), numbers(7, 4, seed=1), numbers(14, 3, 4, seed=2)
    vectors = vectors / vectors.norm(dim=2, keepdim=True)
    loss = ContrastiveLoss(
        NegativeSampler(admit, Exponential(beta), synthetic=Given(vectors)), positives=positives,
        class_prior=prior, reduction="pairs",
    )  # fmt: skip
    z = [unit(v) for v in torch.cat([z1, z2]).tolist()]
    terms = []
    for i in range(14):
        g = [dot(z[i], v) / GAMMA for v in z]
        others = [j for j in range(14) if j % 7 != i % 7]
        synthetic_t = [dot(z[i], unit(v)) / GAMMA for v in vectors[i].tolist()][
            : 2 if i == 1 else 3
        ]
        among = [
            g[j] for j in others if admit == "others" or LABELS[j % 7] != LABELS[i % 7]
        ] + synthetic_t
        expected = expectation([math.exp(beta * t) for t in among], [math.exp(t) for t in among])
        columns = [j for j in range(14) if j != i and LABELS[j % 7] == LABELS[i % 7]]
        if positives == "view":
            columns = [(i + 7) % 14]
        if prior is not None:
            mine = expectation(
                [math.exp(beta * g[j]) for j in columns], [math.exp(g[j]) for j in columns]
            )
            expected = max((expected - prior * mine) / (1 - prior), math.exp(-1 / GAMMA))
        terms += [math.log(1 + (12 + 3) * math.exp(-g[p]) * expected) for p in columns]
    got = loss(z1, z2, torch.tensor(LABELS))
    assert abs(got.item() - sum(terms) / len(terms)) < 1e-10


def test_the_gradient_is_right_and_does_not_reach_synthetic_negatives():
    vectors = numbers(8, 3, 4, seed=2)
    synthetic = Given(vectors / vectors.norm(dim=2, keepdim=True))
    sampler = NegativeSampler(hardening=Exponential(1.0), synthetic=synthetic)
    loss = ContrastiveLoss(sampler, detach_weights=False)
    views = [numbers(4, 4, seed=s).requires_grad_() for s in (0, 1)]
    assert torch.autograd.gradcheck(loss, views)


# Mixing


def test_mixtures_are_of_two_of_the_hardest_admitted_negatives():
    scores, admitted = numbers(5, 12), numbers(5, 12, seed=1) > -0.5
    admitted[3] = torch.arange(12) == 4  # one alone
    admitted[4] = False
    mixing = HardMixing(4, mixed=50, with_anchor=40)
    z, real = mixing(scene(scores, admitted, 17))
    assert z.shape == (5, 90, 17)
    assert real.tolist() == [[True] * 90] * 4 + [[False] * 90]
    torch.testing.assert_close(z.norm(dim=2), torch.ones(5, 90, dtype=z.dtype))
    for i in range(4):
        allowed = [j for j in range(12) if admitted[i, j]]
        hardest = sorted(allowed, key=lambda j: -float(scores[i, j]))[:4]
        used = {j for row in z[i] for j in row.nonzero().flatten().tolist()}
        assert used == {*hardest, 12 + i}
        for row in z[i, :50]:
            assert row[12 + i] == 0
            assert 1 <= len(row.nonzero()) <= 2
        for row in z[i, 50:]:
            assert 0 < row[12 + i] <= row[:12].max()
    shares = (z[:3, :50, :12] / z[:3, :50, :12].sum(2, keepdim=True)).amax(2)
    assert 0.6 < float(shares.mean()) < 0.9  # of uniform α, that of max(α, 1 − α) is 3 / 4


def test_mixtures_are_drawn_from_the_seed_and_go_on_after_a_restart():
    scene_ = scene(numbers(5, 12), torch.ones(5, 12, dtype=torch.bool), 17)
    first, second = HardMixing(4, seed=3), HardMixing(4, seed=3)
    assert torch.equal(first(scene_).embeddings, second(scene_).embeddings)
    assert not torch.equal(
        HardMixing(4, seed=4)(scene_).embeddings, HardMixing(4)(scene_).embeddings
    )
    again = HardMixing(4)
    again.set_run_state(first.run_state())
    assert torch.equal(first(scene_).embeddings, again(scene_).embeddings)


@pytest.mark.parametrize("settings", [{"hardest": 0}, {"mixed": -1}, {"with_anchor": -1}])
def test_settings_of_mixing_out_of_range_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        HardMixing(**settings)


# The adversarial game


def game(seed=0, **settings):
    torch.manual_seed(0)  # weights are of the game's own seed
    loss = ContrastiveLoss(NegativeSampler(synthetic=AdversarialNegatives(seed=seed, **settings)))
    return loss, loss.sampler.synthetic


def test_no_gradient_passes_between_the_game_and_the_encoder():
    """The encoder's gradient is that of constant negatives, and the game's is its own."""
    loss, adversary = game(number=2)
    assert list(loss.parameters()) == []
    views = [numbers(6, 5, seed=s).requires_grad_() for s in (0, 1)]
    embeddings_ = []
    adversary.register_forward_hook(
        lambda module, args, output: embeddings_.append(output.embeddings)
    )
    loss(*views).backward()
    assert not embeddings_[0].requires_grad
    again = [z.detach().clone().requires_grad_() for z in views]
    constant = NegativeSampler(synthetic=Given(embeddings_[0], all_real=True))
    ContrastiveLoss(constant)(*again).backward()
    for view, other in zip(views, again, strict=True):
        assert view.grad.abs().sum() > 0
        torch.testing.assert_close(view.grad, other.grad)


def weights_of(adversary):
    return [x.detach().clone() for net in adversary._game for x in net.parameters()]


def test_the_game_is_played_in_training_with_gradients_alone():
    loss, adversary = game()
    views = [numbers(6, 5, seed=s) for s in (0, 1)]
    loss(*views)
    before = weights_of(adversary)
    loss.eval()
    loss(*views)
    loss.train()
    with torch.no_grad():
        loss(*views)
    with torch.inference_mode():
        loss(*views)
    assert all(map(torch.equal, before, weights_of(adversary)))
    loss(*views)
    assert not all(map(torch.equal, before, weights_of(adversary)))


def test_a_batch_that_is_not_finite_leaves_the_game_as_it_was():
    loss, adversary = game()
    views = [numbers(6, 5, seed=s) for s in (0, 1)]
    loss(*views)
    before = weights_of(adversary)
    loss(views[0].clone().index_fill_(0, torch.tensor([2]), math.nan), views[1])
    assert not adversary.frozen
    assert all(map(torch.equal, before, weights_of(adversary)))


def test_another_precision_a_copy_and_an_earlier_state_go_on():
    loss, adversary = game()
    views = [numbers(6, 5, seed=s) for s in (0, 1)]
    fresh = copy.deepcopy(adversary.run_state())
    first = loss(*views)
    copied = pickle.loads(pickle.dumps(loss))
    torch.testing.assert_close(copied(*views), loss(*views))
    assert loss(*(v.float() for v in views)).isfinite()
    assert adversary._game[0].optimisers[0].state_dict()["state"][0]["exp_avg"].dtype == (
        torch.float32
    )
    adversary.set_run_state(fresh)
    torch.testing.assert_close(loss(*views), first)


def test_positives_of_the_game_are_of_the_batch_and_not_of_the_queue():
    seen = []

    class Seen(Given):
        def forward(self, scene):
            seen.append(scene)
            return super().forward(scene)

    sampler = NegativeSampler(
        synthetic=Seen(torch.nn.functional.normalize(numbers(8, 2, 5), dim=2))
    )
    ContrastiveLoss(sampler)(
        numbers(4, 5), numbers(4, 5, seed=1), candidates=numbers(30, 5, seed=2)
    )
    assert seen[0].positives.shape == (8, 5)
    assert seen[0].candidates.shape == (38, 5)


def test_diagnostics_count_synthetic_negatives():
    vectors = torch.nn.functional.normalize(numbers(12, 3, 4), dim=2)
    loss = ContrastiveLoss(NegativeSampler(synthetic=Given(vectors, all_real=True)))
    seen = loss.with_diagnostics(numbers(6, 4), numbers(6, 4, seed=1))[1]
    torch.testing.assert_close(seen.effective_negatives, torch.full((12,), 13.0).double())
    pools = [numbers(7, 4, seed=s) for s in range(4)]
    seen = contrastive_loss("spacl", without=["filter"]).with_diagnostics(pools)[1]
    torch.testing.assert_close(seen.effective_negatives, torch.full((7,), 7.0).double())


def test_the_generator_comes_near_the_positives():
    """Items along one axis, positives along another: G finds them."""
    adversary = AdversarialNegatives(lr=0.01)
    axes = torch.eye(4)
    scene_ = Scene(
        axes[:1].expand(64, 4), axes, torch.zeros(64, 4), torch.ones(64, 4, dtype=torch.bool),
        axes[:1].expand(64, 4), torch.nn.functional.normalize(axes[1] + 0.1 * torch.randn(64, 4)),
    )  # fmt: skip
    first = adversary(scene_).embeddings[..., 1].mean()
    for _ in range(400):
        last = adversary(scene_).embeddings
    assert float(first) < 0.5
    assert float(last[..., 1].mean()) > 0.8
    discriminator = adversary._game[0].discriminator
    x, y = torch.randn(2, 200, 4)
    with torch.no_grad():
        slope = (discriminator(x) - discriminator(y)).abs()[:, 0] / (x - y).norm(dim=1)
    assert float(slope.max()) < 1.1  # spectral norms are estimated


def test_a_restart_goes_on_as_if_there_were_none():
    views = [numbers(6, 5).float(), numbers(6, 5, seed=1).float()]
    loss, adversary = game()
    for _ in range(3):
        loss(*views)
    other, other_adversary = game(seed=9)
    other_adversary.set_run_state(adversary.run_state())
    for _ in range(2):
        assert torch.equal(loss(*views), other(*views))


def test_a_game_that_diverges_is_frozen_and_training_goes_on():
    loss, adversary = game()
    views = [numbers(6, 5).float(), numbers(6, 5, seed=1).float()]
    loss(*views)
    parameters = list(adversary._game[0].generator.parameters())
    before = [x.detach().clone() for x in parameters]
    for group in adversary._game[0].optimisers[1].param_groups:
        group["lr"] = math.inf
    with pytest.warns(UserWarning, match=r"generator\b.*\bdiverged\b.*\bfrozen\b.*\blr\b"):
        assert loss(*views).isfinite()
    assert adversary.frozen
    assert all(torch.equal(a, b) for a, b in zip(before, parameters, strict=True))
    assert loss(*views).isfinite()  # and warns no more


@pytest.mark.parametrize("settings", [{"number": 0}, {"hidden": 0}, {"lr": 0.0}])
def test_settings_of_the_game_out_of_range_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        AdversarialNegatives(**settings)


# SPACL


def spacl(views, labels, quota, number, synthetic=None):
    """The paper's objective in loops: hard positives, and the hardest negatives of other items."""
    terms = []
    for i in range(len(views[0])):
        pool = [unit(v[i]) for v in views]
        hard = [-sum(dot(u, v) for v in pool) for u in pool]  # u itself adds the same to all
        chosen = [hard.index(max(hard))]
        while len(chosen) < number:
            left = [u for u in range(len(pool)) if u not in chosen]
            chosen.append(min(left, key=lambda u: max(dot(pool[u], pool[v]) for v in chosen)))
        anchor, *positives = (pool[k] for k in chosen)
        others = [
            unit(views[0][j])
            for j in range(len(views[0]))
            if j != i and (labels is None or labels[j] != labels[i])
        ]
        logits = [
            dot(anchor, v) / GAMMA for v in others + ([] if synthetic is None else synthetic[i])
        ]
        logits.sort(reverse=True)
        total, kept = sum(map(math.exp, logits)), 0.0
        for t in logits:
            if kept >= quota * total:
                break
            kept += math.exp(t)
        near = sum(math.exp(dot(anchor, p) / GAMMA) for p in positives)
        terms.append(-math.log(near / (near + kept)))
    return sum(terms) / len(terms)


@pytest.mark.parametrize("quota", [0.5, 0.95, 1.0])
@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("labels", [None, LABELS])
def test_the_loss_of_hard_positives_and_filtered_negatives_is_spacls(quota, number, labels):
    views, vectors = [numbers(7, 4, seed=s) for s in range(4)], numbers(7, 2, 4, seed=9)
    vectors = vectors / vectors.norm(dim=2, keepdim=True)

    for synthetic in (None, vectors):
        sampler = NegativeSampler(
            "others" if labels is None else "other_labels", RelativeThreshold(quota),
            synthetic=None if synthetic is None else Given(synthetic, all_real=True),
        )  # fmt: skip
        loss = ContrastiveLoss(
            sampler, positives=HardPositives(number), pooling="logsumexp", weight="kept"
        )
        expected = spacl(
            [v.tolist() for v in views], labels, quota, number,
            None if synthetic is None else synthetic.tolist(),
        )  # fmt: skip
        label_tensor = None if labels is None else torch.tensor(labels)
        assert abs(loss(views, labels=label_tensor).item() - expected) < 1e-10


def test_the_methods_of_the_table_are_that_loss():
    views = [numbers(7, 4, seed=s) for s in range(4)]
    lists = [v.tolist() for v in views]
    plain = contrastive_loss("spacl", without=["adversarial"])
    assert abs(plain(views).item() - spacl(lists, None, 0.95, 2)) < 1e-10
    y = torch.tensor(LABELS)
    aware = contrastive_loss("spacl-sup", without=["adversarial"], quota=0.7, hard_positives=3)
    assert abs(aware(views, labels=y).item() - spacl(lists, LABELS, 0.7, 3)) < 1e-10
    unfiltered = contrastive_loss("spacl", without=["adversarial", "filter"])
    assert abs(unfiltered(views).item() - spacl(lists, None, 1.0, 2)) < 1e-10
    others = contrastive_loss(
        "ucl", positives="hard", hard_positives=3, pooling="logsumexp", weight="kept"
    )
    assert abs(others(views).item() - spacl(lists, None, 1.0, 3)) < 1e-10


def test_candidates_can_be_constants_to_the_gradient():
    views = [numbers(7, 4, seed=s).requires_grad_() for s in range(4)]
    loss = contrastive_loss("spacl", without=["adversarial", "anchor"], detach_candidates=True)
    loss(views).backward()
    assert views[0].grad.abs().sum() > 0  # anchors
    assert all(v.grad is None or not v.grad.any() for v in views[1:])
    z1, z2 = (numbers(7, 4, seed=s).requires_grad_() for s in (0, 1))
    contrastive_loss("ucl", detach_candidates=True)(z1, z2).backward()
    a1, a2, c1, c2 = (numbers(7, 4, seed=s).requires_grad_() for s in (0, 1, 0, 1))
    u = [x / x.norm(dim=1, keepdim=True) for x in (torch.cat([a1, a2]), torch.cat([c1, c2]))]
    t, at = u[0] @ u[1].T / GAMMA, torch.arange(14)
    same_item = at[:, None] % 7 == at % 7
    pulled = t.gather(1, (at[:, None] + 7) % 14)[:, 0]
    torch.log1p(t.masked_fill(same_item, -math.inf).exp().sum(1) / pulled.exp()).mean().backward()
    torch.testing.assert_close(z1.grad, a1.grad)
    torch.testing.assert_close(z2.grad, a2.grad)


@pytest.mark.parametrize("settings", [
    {"objective": "jsd"}, {"streaming": True},
])  # fmt: skip
def test_what_spacl_cannot_be_combined_with_is_refused(settings):
    with pytest.raises(InputError):
        contrastive_loss("spacl", **settings)
    with pytest.raises(InputError):
        contrastive_loss("mochi", **settings)


def test_rest_transport_and_parts_of_other_methods_are_refused():
    nodes, pools = (numbers(5, 3), numbers(2, 3)), [numbers(7, 4, seed=s) for s in range(3)]
    wide = ContrastiveLoss(NegativeSampler(pair_weights=torch.zeros(9, 9)), positives="hard")
    for name, call in (
        ('admit="rest"', lambda: ContrastiveLoss(NegativeSampler("rest", synthetic=HardMixing()))),
        ('admit="rest"', lambda: ContrastiveLoss(NegativeSampler("rest"), positives="hard")),
        ("gathered", lambda: contrastive_loss("ot", negatives="gathered")),
        ("gathered", lambda: contrastive_loss("mochi", negatives="gathered")),
        ("synthetic", lambda: ContrastiveLoss(
            NegativeSampler(hardening=Transport(), synthetic=HardMixing()))),
        ("views", lambda: contrastive_loss("spacl").local_global(*nodes, torch.arange(5) // 3)),
        ("pair_weights", lambda: wide(pools)),
        ("anchor", lambda: contrastive_loss("spacl", positives="view", without=["anchor"])),
        ("filter", lambda: contrastive_loss("ucl", without=["filter"])),
        ("filtre", lambda: contrastive_loss("spacl", without=["filtre"])),
    ):  # fmt: skip
        with pytest.raises(InputError, match=name):
            call()
