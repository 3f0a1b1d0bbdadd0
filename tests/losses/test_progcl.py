"""ProGCL's weights in the loss: when they are fitted, to what, and what they make of it."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from gcl_hard import (
    ContrastiveLoss,
    InputError,
    MixturePosterior,
    NegativeSampler,
    contrastive_loss,
)
from gcl_hard.functional import mixture
from gcl_hard.functional.mixture import BetaMixture
from gcl_hard.training.checkpoint import Checkpoint
from gcl_hard.training.loop import Optimisation, train
from tests.losses.cases import numbers
from tests.reference import loops


def mixture_of(loss):
    """What a loss has fitted."""
    hardening = loss.sampler.current
    assert isinstance(hardening, MixturePosterior)
    return hardening.mixture


def eta_of(mixture, gamma):
    """η of t = s / γ by densities of SciPy."""

    def eta(t):
        x = np.clip((gamma * t + 1) / 2, 1e-9, 1 - 1e-9)  # of the anchor itself 1
        low, high = (
            component.share * stats.beta.pdf(x, component.alpha, component.beta)
            for component in mixture
        )
        return low / (low + high) * x

    return eta


def cosines(z, kept):
    z = nn.functional.normalize(z, dim=1)
    return (z @ z.T)[kept]


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("detach_weights", [True, False])
def test_value_and_gradient_are_those_of_the_loop(streaming, detach_weights):
    """Its weights are constants to the gradient either way."""
    z = [numbers(7, 5, seed=v).requires_grad_() for v in range(2)]
    loss = contrastive_loss(
        "progcl", temperature=0.3, streaming=streaming, detach_weights=detach_weights
    )
    value, nothing = loss(*z), [[False] * 7] * 7
    table = loops.table_of_views(z, nothing, nothing, gamma=0.3)
    eta = loops.elementwise(eta_of(mixture_of(loss), 0.3))
    expected = loops.reduced(loops.terms(table, eta, gamma=0.3), "anchors")
    torch.testing.assert_close(
        (value, torch.autograd.grad(value, z)), (expected, torch.autograd.grad(expected, z)),
        rtol=1e-9, atol=1e-12,
    )  # fmt: skip


def test_all_negatives_of_a_batch_are_fitted():
    z = numbers(12, 6)
    loss = contrastive_loss("progcl")
    loss(z[:6], z[6:])
    item = torch.arange(12) % 6
    x = (cosines(z, item[:, None] != item) + 1) / 2
    np.testing.assert_allclose(mixture_of(loss), BetaMixture.fitted(x), rtol=1e-9)


def test_only_negatives_with_weight_are_fitted():
    z, y = numbers(12, 6), torch.tensor([0, 1, 2, 0, 1, 2])
    apart = torch.zeros(6, 6)
    apart[0, 1:] = -math.inf  # but in other views the item 0 is a candidate of the others
    sampler = NegativeSampler("other_labels", MixturePosterior(), pair_weights=apart)
    loss = ContrastiveLoss(sampler)
    loss(z[:6], z[6:], y)
    item = torch.arange(12) % 6
    kept = (y.repeat(2)[:, None] != y.repeat(2)) & (item[:, None] != 0)
    np.testing.assert_allclose(
        mixture_of(loss), BetaMixture.fitted((cosines(z, kept) + 1) / 2), rtol=1e-9
    )


@pytest.mark.parametrize("poison", [math.nan, 1e30, -math.inf])
def test_what_is_no_negative_may_hold_anything(poison):
    s, others = numbers(5, 9).tanh(), numbers(5, 9, seed=1) > -0.5
    sampler = NegativeSampler(hardening=MixturePosterior())
    sampler.fit(s[others])
    outputs = []
    for filler in (0.0, poison):
        t = torch.where(others, s, filler).requires_grad_()
        log_q = sampler(t, others=others, temperature=0.5).log_q
        value = (log_q.exp() * torch.where(others, t, 0.0)).sum()
        outputs.append((value.detach(), *torch.autograd.grad(value, t)))
    torch.testing.assert_close(outputs[1], outputs[0], rtol=0, atol=0)


@pytest.mark.parametrize("at_a_time", [2**22, 2000])
def test_a_large_batch_is_fitted_to_some_of_its_negatives(monkeypatch, at_a_time):
    monkeypatch.setattr(mixture, "MOST", 4_000)
    monkeypatch.setattr(mixture, "AT_A_TIME", at_a_time)
    z = numbers(200, 4, seed=2)
    z[:90] += 2.0
    z1, z2 = z, z + 0.1 * numbers(200, 4, seed=3)
    loss, again = contrastive_loss("progcl"), contrastive_loss("progcl")
    assert loss(z1, z2).item() == again(z1, z2).item()
    assert mixture_of(loss) == mixture_of(again)
    both = torch.cat([z1, z2])
    item = torch.arange(400) % 200
    x = (cosines(both, item[:, None] != item) + 1) / 2
    grid = torch.linspace(0.05, 0.95, 19, dtype=torch.float64)
    ours, every = (
        fitted.log_posterior(grid).exp() for fitted in (mixture_of(loss), BetaMixture.fitted(x))
    )
    assert (ours - every).abs().max() < 0.1


@pytest.mark.parametrize("objective", ["infonce", "jsd"])
def test_before_epoch_e_it_is_ucl_to_the_bit(objective):
    nodes, graphs, batch = numbers(40, 5), numbers(8, 5, seed=1), torch.arange(40) % 8
    losses = [contrastive_loss(name, objective=objective) for name in ("progcl", "ucl")]
    for epoch, same in ((1, True), (2, True), (3, False), (10, False)):
        for loss in losses:
            loss.set_epoch(epoch, 10)
        for call in (
            lambda loss: loss.local_global(nodes, graphs, batch),
            lambda loss: loss(numbers(150, 4), numbers(150, 4, seed=1)),
        ):
            progcl, ucl = map(call, losses)
            assert (progcl.item() == ucl.item()) is same


def test_a_mixture_stays_until_training_begins_anew():
    loss = contrastive_loss("progcl", fit_after=0.5)
    fitted = []
    for epoch in (1, 2, 3, 4, 1, 3):
        loss.set_epoch(epoch, 4)
        loss(numbers(8, 4, seed=len(fitted)), numbers(8, 4, seed=50))
        fitted.append(mixture_of(loss) if epoch > 2 else None)
    assert fitted[2] is not None
    assert fitted[2] == fitted[3] != fitted[5]


def test_a_batch_without_negatives_is_not_fitted():
    loss = contrastive_loss("progcl")
    z = numbers(1, 4).requires_grad_()
    assert loss(z, numbers(1, 4, seed=1)).item() == 0.0
    assert mixture_of(loss) is None
    loss(numbers(5, 4), numbers(5, 4, seed=1))
    assert mixture_of(loss) is not None


def test_copies_and_run_states_keep_the_mixture():
    z = numbers(8, 4), numbers(8, 4, seed=1)
    loss, restored = contrastive_loss("progcl"), contrastive_loss("progcl")
    loss.set_epoch(3, 10)
    restored.set_epoch(1, 10)
    loss(*z)
    restored.sampler.set_run_state(pickle.loads(pickle.dumps(loss.sampler.run_state())))
    restored.set_epoch(3, 10)
    later = numbers(8, 4, seed=2), numbers(8, 4, seed=3)
    expected = loss(*later).item()
    for other in (restored, copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert other(*later).item() == expected
    restored.sampler.set_run_state({})
    assert restored(*later).item() != expected


class Killed(Exception):  # noqa: N818
    """Stands for the process being killed."""


class Small(nn.Module):
    def __init__(self, stop_at=math.inf):
        super().__init__()
        torch.manual_seed(0)
        self.net, self.loss = nn.Linear(4, 3), contrastive_loss("progcl", fit_after=0.5)
        self.calls, self.stop_at = 0, stop_at

    def set_epoch(self, epoch, epochs):
        self.loss.set_epoch(epoch, epochs)

    def forward(self, batch):
        self.calls += 1
        if self.calls >= self.stop_at:
            raise Killed
        return self.loss(self.net(batch[0]), self.net(batch[1]))


@pytest.mark.parametrize("stop_at", [4, 9])
def test_a_resumed_training_has_the_bits_of_an_undisturbed_one(tmp_path, stop_at):
    """Three batches an epoch, and the mixture is fitted to the seventh."""

    def batches(epoch):
        return [numbers(2, 8, 4, seed=3 * epoch + k).float() for k in range(3)]

    def trained(model, name, resume=False):
        checkpoint = Checkpoint(tmp_path / name, {"lr": 0.1}, resume=resume, every=0)
        return train(model, batches, Optimisation(4, lr=0.1), checkpoint=checkpoint)

    whole = Small()
    losses = trained(whole, "whole")
    with pytest.raises(Killed):
        trained(Small(stop_at), "killed")
    resumed = Small()
    assert trained(resumed, "killed", resume=True) == losses
    assert torch.equal(resumed.net.weight, whole.net.weight)
    assert mixture_of(resumed.loss) == mixture_of(whole.loss)


def test_jsd_hardens_by_the_cosine():
    nodes, graphs, batch = numbers(20, 5), 3 * numbers(6, 5, seed=1), torch.arange(20) % 6
    loss = contrastive_loss("progcl", objective="jsd")
    assert loss.hardness_scale == "cosine"
    value = loss.local_global(nodes, graphs, batch)
    u, v = (nn.functional.normalize(z, dim=1) for z in (nodes, graphs))
    s = (u @ v.T)[batch[:, None] != torch.arange(6)]
    np.testing.assert_allclose(mixture_of(loss), BetaMixture.fitted((s + 1) / 2), rtol=1e-9)
    expected = loops.local_global(
        nodes.tolist(), graphs.tolist(), batch.tolist(), [0] * 6, admit="others",
        eta=eta_of(mixture_of(loss), 0.5), objective="jsd", scale="cosine",
    )  # fmt: skip
    assert abs(value.item() - expected) < 1e-10


def test_what_does_not_go_with_its_weights_is_refused():
    with pytest.raises(InputError, match="hardness_scale"):
        contrastive_loss("progcl", objective="jsd", hardness_scale="rank")
    with pytest.raises(InputError, match="class_prior"):
        ContrastiveLoss(NegativeSampler(hardening=MixturePosterior()), class_prior=0.1)


def test_vmap_is_refused_until_it_is_fitted():
    z1, z2 = numbers(3, 8, 4), numbers(3, 8, 4, seed=1)
    loss = contrastive_loss("progcl")
    mapped = torch.vmap(loss)
    with pytest.raises(InputError, match="vmap"):
        mapped(z1, z2)
    loss(z1[0], z2[0])
    torch.testing.assert_close(
        mapped(z1, z2), torch.stack([loss(*pair) for pair in zip(z1, z2, strict=True)])
    )
