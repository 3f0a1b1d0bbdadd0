"""The loss against the paper's loops in float64, for admission × hardening × positives."""

from __future__ import annotations

import copy
import math
import pickle
from itertools import product
from typing import get_args

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from gcl_hard import (
    ContrastiveLoss,
    Custom,
    Exponential,
    InputError,
    MeanThreshold,
    MixturePosterior,
    NegativeSampler,
    Threshold,
    Uniform,
    contrastive_loss,
)
from gcl_hard.functional.dense import DenseScores, dense
from gcl_hard.functional.hardness import EmbeddedScale
from gcl_hard.functional.labels import Relation
from gcl_hard.losses.methods import METHODS, method
from gcl_hard.losses.pairing import LabelUse, pair_local_global
from tests.reference import loops
from tests.said import says

ETAS = {
    "uniform": (Uniform(), lambda t: 1.0),
    "exponential": (Exponential(1.7), lambda t: math.exp(1.7 * t)),
    "threshold": (Threshold(0.1), lambda t: float(t >= 0.1 / 0.5)),
    "custom": (lambda t: 0.3 * t**3, lambda t: math.exp(0.3 * t**3)),
}
LABELS = torch.tensor([0, 1, 1, 2, 0, 3, 1])


def views(n=7, d=5, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(2, n, d, generator=g, dtype=dtype).unbind()


def graphs_and_nodes(seed=0, d=4):
    g = torch.Generator().manual_seed(seed)
    batch = torch.tensor([0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 4])
    nodes = torch.randn(len(batch), d, generator=g, dtype=torch.float64)
    graphs = torch.randn(5, d, generator=g, dtype=torch.float64)
    return nodes, graphs, batch, torch.tensor([0, 1, 0, 2, 1])


@pytest.mark.parametrize("reduction", ["pairs", "anchors"])
@pytest.mark.parametrize("positives", ["view", "class"])
@pytest.mark.parametrize("admit", ["others", "other_labels"])
@pytest.mark.parametrize("name", [*ETAS, "mean"])
def test_two_views_equal_the_loops(name, admit, positives, reduction):
    z1, z2 = views()
    mean = name == "mean"
    hardening, eta = (MeanThreshold(), None) if mean else ETAS[name]
    loss = ContrastiveLoss(
        NegativeSampler(admit, hardening), positives=positives, reduction=reduction
    )
    expected = loops.infonce_two_view(
        z1.tolist(), z2.tolist(), LABELS.tolist(), admit=admit, positives=positives,
        eta=eta, gamma=0.5, reduction=reduction, mean=mean,
    )  # fmt: skip
    assert abs(loss(z1, z2, LABELS).item() - expected) < 1e-10


@pytest.mark.filterwarnings("ignore:.*class_prior:UserWarning")
@pytest.mark.parametrize("gamma", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("prior", [0.0, 0.1, 0.5, 0.95])
@pytest.mark.parametrize("positives", ["view", "class"])
def test_debiasing_equals_the_loops(prior, gamma, positives):
    z1, z2 = views(seed=1)
    loss = ContrastiveLoss(
        NegativeSampler("others", Exponential(1.7)), temperature=gamma, class_prior=prior,
        positives=positives, reduction="pairs",
    )  # fmt: skip
    expected = loops.infonce_two_view(
        z1.tolist(), z2.tolist(), LABELS.tolist(), admit="others", positives=positives,
        eta=ETAS["exponential"][1], gamma=gamma, prior=prior, reduction="pairs",
    )  # fmt: skip
    assert abs(loss(z1, z2, LABELS).item() - expected) < 1e-10


@pytest.mark.parametrize("admit", ["others", "other_labels"])
@pytest.mark.parametrize("name", ETAS)
def test_local_global_equals_the_loops(name, admit):
    nodes, graphs, batch, y = graphs_and_nodes()
    hardening, eta = ETAS[name]
    loss = ContrastiveLoss(NegativeSampler(admit, hardening))
    expected = loops.local_global(
        nodes.tolist(), graphs.tolist(), batch.tolist(), y.tolist(),
        admit=admit, eta=eta, objective="infonce",
    )  # fmt: skip
    assert abs(loss.local_global(nodes, graphs, batch, y).item() - expected) < 1e-10


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("scale", get_args(EmbeddedScale))
@pytest.mark.parametrize("admit", ["others", "other_labels"])
@pytest.mark.parametrize("name", ETAS)
def test_every_scale_of_jsd_equals_the_loops(name, admit, scale, fused):
    nodes, graphs, batch, y = graphs_and_nodes()
    graphs[2] = graphs[1]  # equal scores
    hardening, eta = ETAS[name]
    if name == "threshold" and scale in ("anchor", "rank"):
        eta = lambda z: float(z >= 0.1)  # noqa: E731 (in deviations)
    loss = ContrastiveLoss(NegativeSampler(admit, hardening), objective="jsd", hardness_scale=scale)
    loss.fused = fused
    expected = loops.local_global(
        nodes.tolist(), graphs.tolist(), batch.tolist(), y.tolist(),
        admit=admit, eta=eta, objective="jsd", scale=scale,
    )  # fmt: skip
    assert abs(loss.local_global(nodes, graphs, batch, y).item() - expected) < 1e-10


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("method", ["ucl", "dcl", "hscl"])
def test_graphs_as_constants_give_nodes_the_gradient_that_they_have(method, fused):
    """With ``detach_candidates`` graphs, positives too, have no gradient; nodes keep theirs."""
    results = []
    for constant in (False, True):
        nodes, graphs, batch, y = graphs_and_nodes()
        nodes, graphs = (z.detach().clone().requires_grad_() for z in (nodes, graphs))
        loss = contrastive_loss(
            method, objective="jsd", hardness_scale="cosine", detach_weights=True,
            detach_candidates=constant,
        )  # fmt: skip
        loss.fused = fused
        loss.local_global(nodes, graphs, batch, y).backward()
        results.append((nodes.grad, graphs.grad))
    (expected, graph_gradient), (actual, none) = results
    assert graph_gradient.abs().sum() > 0
    assert none is None or not none.any()
    assert torch.allclose(actual, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("fused", [True, False])
def test_the_scale_of_jsd_never_sees_a_nodes_own_graph(fused):
    nodes, graphs, batch, y = graphs_and_nodes(seed=3)
    nodes += 5 * graphs[batch]
    largest = (nodes @ graphs.T).abs().argmax()
    assert largest % 5 == batch[largest // 5]
    hardening, eta = ETAS["exponential"]
    loss = ContrastiveLoss(
        NegativeSampler("others", hardening), objective="jsd", hardness_scale="batch-max"
    )
    loss.fused = fused
    expected = loops.local_global(
        nodes.tolist(), graphs.tolist(), batch.tolist(), y.tolist(),
        admit="others", eta=eta, objective="jsd", scale="batch-max",
    )  # fmt: skip
    assert abs(loss.local_global(nodes, graphs, batch).item() - expected) < 1e-10


@pytest.mark.parametrize("objective", ["jsd", "infonce"])
@pytest.mark.parametrize("prior", [0.0, 0.2, 0.9])
def test_local_global_debiasing_equals_the_loops(prior, objective):
    nodes, graphs, batch, y = graphs_and_nodes(seed=2)
    sampler = NegativeSampler("others", Exponential(1.7))
    loss = ContrastiveLoss(sampler, objective=objective, class_prior=prior)
    expected = loops.local_global(
        nodes.tolist(), graphs.tolist(), batch.tolist(), y.tolist(),
        admit="others", eta=ETAS["exponential"][1], objective=objective, prior=prior,
    )  # fmt: skip
    assert abs(loss.local_global(nodes, graphs, batch).item() - expected) < 1e-10


def test_pooling_by_logsumexp_with_kept_weight_is_spacls_ratio():
    z1, z2 = views(seed=3)
    z, y = F.normalize(torch.cat([z1, z2])), LABELS.repeat(2)
    s, cosine = z @ z.T, 0.2
    expected = []
    for i in range(len(z)):
        pos = [j for j in range(len(z)) if j != i and y[j] == y[i]]
        kept = [j for j in range(len(z)) if y[j] != y[i] and s[i, j] >= cosine]
        if kept:
            up = sum(math.exp(s[i, j] / 0.5) for j in pos)
            down = sum(math.exp(s[i, j] / 0.5) for j in kept)
            expected.append(-math.log(up / (up + down)))
    loss = ContrastiveLoss(
        NegativeSampler("other_labels", Threshold(cosine)), positives="class", pooling="logsumexp",
        weight="kept", reduction="anchors",
    )  # fmt: skip
    assert 0 < len(expected) < len(z)
    assert abs(loss(z1, z2, LABELS).item() - sum(expected) / len(expected)) < 1e-10


def test_finite_k_is_the_papers_psi_on_the_drawn_negatives():
    z1, z2 = views(seed=4)
    sampler = NegativeSampler("others", Exponential(2.0), draws=5, seed=11)
    loss = ContrastiveLoss(sampler, weight=1.0)
    z = F.normalize(torch.cat([z1, z2]))
    t = z @ z.T / 0.5
    others = ~torch.eye(7, dtype=torch.bool).tile(2, 2)
    log_q = NegativeSampler("others", Exponential(2.0))(t / 2, others=others, temperature=0.5).log_q
    drawn = torch.multinomial(
        log_q.exp(), 5, replacement=True, generator=torch.Generator().manual_seed(11)
    )
    expected = [
        math.log(1 + math.exp(-t[i, (i + 7) % 14]) * sum(math.exp(t[i, j]) for j in drawn[i]) / 5)
        for i in range(14)
    ]
    assert abs(loss(z1, z2).item() - sum(expected) / 14) < 1e-10


def test_finite_k_tends_to_the_large_k_value():
    z1, z2 = views(seed=5)
    large = ContrastiveLoss(NegativeSampler("others", Exponential(1.0)))(z1, z2)
    finite = ContrastiveLoss(NegativeSampler("others", Exponential(1.0), draws=200_000))(z1, z2)
    assert abs(large - finite) < 5e-3
    assert large != finite


def test_gradients_equal_finite_differences():
    z1, z2 = (z.requires_grad_() for z in views(n=4, d=3, seed=6))
    y = torch.tensor([0, 1, 0, 2])
    for admit in ("others", "other_labels"):
        prior = 0.1 if admit == "others" else None
        loss = ContrastiveLoss(
            NegativeSampler(admit, Exponential(1.3)), positives="class", detach_weights=False,
            class_prior=prior,
        )  # fmt: skip
        assert torch.autograd.gradcheck(lambda a, b, loss=loss: loss(a, b, y), (z1, z2))


def test_jsd_gradients_equal_finite_differences():
    nodes, graphs, batch, y = graphs_and_nodes(seed=7)
    loss = ContrastiveLoss(
        NegativeSampler("other_labels", lambda t: 0.0 * t), objective="jsd", detach_weights=False
    )
    inputs = (nodes.requires_grad_(), graphs.requires_grad_())
    assert torch.autograd.gradcheck(lambda n, g: loss.local_global(n, g, batch, y), inputs)


def test_detached_weights_give_the_gradient_of_a_frozen_q():
    z1, z2 = (z.requires_grad_() for z in views(seed=8))
    z = F.normalize(torch.cat([z1, z2]))
    t = z @ z.T / 0.5
    others = ~torch.eye(7, dtype=torch.bool).tile(2, 2)
    q = (torch.exp(1.3 * t) * others).detach()
    q = q / q.sum(1, keepdim=True)
    t_pos = t[torch.arange(14), torch.arange(14).roll(7)]
    by_hand = torch.log1p(12 * torch.exp(-t_pos) * (q * t.exp()).sum(1)).mean()
    expected = torch.autograd.grad(by_hand, (z1, z2))
    loss = ContrastiveLoss(NegativeSampler("others", Exponential(1.3)))(z1, z2)
    for ours, theirs in zip(torch.autograd.grad(loss, (z1, z2)), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_detached_weights_freeze_those_of_the_debiasing_too():
    z1, z2 = (z.requires_grad_() for z in views(seed=9))
    z, y = F.normalize(torch.cat([z1, z2])), LABELS.repeat(2)

    def frozen(t):
        """The expectation of e^t under weights that are constants."""
        weights = torch.exp(1.3 * t).detach()
        return (weights * t.exp()).sum() / weights.sum()

    terms = []
    for i, t in enumerate(z @ z.T / 0.5):
        negatives = [j for j in range(14) if j not in (i, (i + 7) % 14)]
        positives = [j for j in range(14) if j != i and y[j] == y[i]]
        debiased = (frozen(t[negatives]) - 0.1 * frozen(t[positives])) / 0.9
        assert debiased > math.exp(-1 / 0.5)  # where it is clamped
        terms += [torch.log1p(12 * torch.exp(-t[p]) * debiased) for p in positives]
    expected = torch.autograd.grad(torch.stack(terms).mean(), (z1, z2))
    loss = ContrastiveLoss(
        NegativeSampler("others", Exponential(1.3)), positives="class", class_prior=0.1
    )
    for ours, theirs in zip(
        torch.autograd.grad(loss(z1, z2, LABELS), (z1, z2)), expected, strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_scores_outside_others_are_never_looked_at():
    """NaN and 1e30 where nobody may look change neither the value nor the gradient."""
    nodes, graphs, batch, y = graphs_and_nodes(seed=9)
    pairing = pair_local_global(nodes, graphs, batch, y, LabelUse("labels", None), gathers=False)
    scores = nodes @ graphs.T
    others = batch[:, None] != torch.arange(5)
    same = y[batch][:, None] == y
    for objective in ("jsd", "infonce"):
        for hardening in (None, Exponential(2.0), Threshold(0.0), MeanThreshold(), lambda t: t):
            sampler = NegativeSampler("other_labels", hardening)
            loss = ContrastiveLoss(
                sampler, objective=objective, detach_weights=False, reduction="none"
            )
            results = []
            for poison in (0.0, math.nan, 1e30, -1e30, math.inf):
                t = torch.where(others, scores, poison)
                own_scores = scores.gather(1, batch[:, None])
                t = torch.cat(
                    [t, own_scores], 1
                ).requires_grad_()  # the positive in a column of its own
                wide = torch.cat([others, torch.zeros(len(t), 1, dtype=torch.bool)], 1)
                same_wide = torch.cat([same, torch.ones(len(t), 1, dtype=torch.bool)], 1)
                positive = torch.full((len(t), 1), 5)
                items = batch, torch.arange(t.shape[1])
                labels = Relation(same_wide, same_wide)
                table = DenseScores(t, wide, labels, positive, 4, None, items)
                value = dense(pairing, loss._plan(sampler), table).total
                (grad,) = torch.autograd.grad(value.sum(), t)
                results.append((value, grad))
            for value, grad in results[1:]:
                assert torch.equal(value, results[0][0])
                assert torch.equal(grad, results[0][1])
                assert grad.isfinite().all()


@pytest.mark.parametrize("reduction", ["pairs", "anchors", "none"])
@pytest.mark.parametrize("n_extra", [0, 4])
@pytest.mark.parametrize("n_views", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("admit", "positives"),
    list(product(["others", "other_labels", "rest"], ["view", "class"])),
)
def test_any_views_and_further_candidates_equal_the_loops(
    admit, positives, n_views, n_extra, reduction
):
    if (n_views, positives) == (1, "view"):
        return
    g = torch.Generator().manual_seed(n_views)
    zs = [z.requires_grad_() for z in torch.randn(n_views, 7, 5, generator=g).double()]
    extra = torch.randn(n_extra, 5, generator=g).double()
    extra_y = torch.tensor([0, 4, 1, 1])[:n_extra]
    hardening, eta = ETAS["exponential"]
    sampler = NegativeSampler(admit, hardening)
    loss = ContrastiveLoss(sampler, positives=positives, reduction=reduction)
    settings = {"admit": admit, "positives": positives, "eta": eta, "gamma": 0.5}
    expected = loops.infonce_views(
        [z.tolist() for z in zs], LABELS.tolist(), reduction=reduction, extra=extra.tolist(),
        extra_y=extra_y.tolist(), **settings,
    )  # fmt: skip
    more = {"candidates": extra, "candidate_labels": extra_y} if n_extra else {}
    value = loss(zs, LABELS, **more)
    if reduction == "none":
        # Anchors without a positive are 0, and the loops leave them out.
        assert value.shape == (7 * n_views,)
        value = value[value != 0]
    np.testing.assert_allclose(value.tolist(), expected, rtol=1e-10)
    assert all(g.isfinite().all() for g in torch.autograd.grad(value.sum(), zs))
    if n_views == 2:
        torch.testing.assert_close(loss(*zs, LABELS, **more), loss(zs, labels=LABELS, **more))


def test_a_single_view_and_its_labels_are_enough():
    z, _ = views()
    loss = contrastive_loss("hscl")
    assert loss(z, LABELS) == loss([z], LABELS.tolist()) == loss(z, labels=LABELS.numpy())
    with pytest.raises(InputError, match=r'\bview\b.*\bpositives="class"'):
        contrastive_loss("ucl")(z)
    with pytest.raises(InputError, match=r"labels\b.*\(z1, z2, labels\).*\(\[z1, …\], labels\)"):
        loss(z, LABELS, LABELS)
    array = z.detach().numpy()
    for arrays in ((array, array), ([array, array],)):
        with pytest.raises(InputError, match=r"tensors\b.*\bndarray\b.*\btorch\.as_tensor\b"):
            loss(*arrays, labels=LABELS)
    with pytest.raises(InputError, match=r"candidates\b.*\[K, 5\].*\[7, 2\]"):
        loss(z, LABELS, candidates=z[:, :2])
    with pytest.raises(InputError, match=r"candidate_labels\b.*\bcandidates\b"):
        loss(z, LABELS, candidate_labels=LABELS)
    assert loss(z, LABELS.to(torch.uint8), candidates=z, candidate_labels=LABELS + 256) == loss(
        z, LABELS, candidates=z, candidate_labels=LABELS + 256
    )
    with pytest.raises(InputError, match=r"candidates\b.*\blabels\b.*\binteger\b.*\[7\]"):
        loss(z, LABELS, candidates=z)


def test_a_reduction_of_each_anchor_has_the_mean_of_the_others():
    z1, z2 = views()
    for positives in ("view", "class"):
        each, mean = (
            ContrastiveLoss(
                NegativeSampler("other_labels"), positives=positives, reduction=reduction
            )(z1, z2, LABELS)
            for reduction in ("none", "anchors")
        )
        torch.testing.assert_close(each.mean(), mean)
    empty = torch.zeros(0, 5, requires_grad=True)
    none = contrastive_loss("hscl", reduction="none")(empty, empty, [])
    assert none.shape == (0,)
    assert none.requires_grad


COMPILED = sorted({*METHODS} - {"ot", "mochi", "spacl", "spacl-sup"})


traced = pytest.mark.skipif(
    torch.__version__ < "2.9", reason="older versions do not trace _replace of a named tuple"
)


@traced
@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_loss_is_one_graph_and_the_same_value(name):
    torch.compiler.reset()
    loss = contrastive_loss(name)
    z1, z2 = (z.requires_grad_() for z in views())
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    values = [f(z1, z2, LABELS) for f in (loss, compiled)]
    torch.testing.assert_close(*values)
    ours, theirs = (torch.autograd.grad(value, (z1, z2)) for value in values)
    torch.testing.assert_close(ours, theirs)


@traced
def test_a_compiled_loss_fits_its_mixture_outside_of_the_graph():
    torch.compiler.reset()
    compiled, plain = contrastive_loss("progcl"), contrastive_loss("progcl")
    call = torch.compile(compiled, backend="aot_eager")
    for epoch in (1, 5, 5):
        for loss in (compiled, plain):
            loss.set_epoch(epoch, 10)
        torch.testing.assert_close(call(*views()), plain(*views()))
    assert compiled.sampler.current == plain.sampler.current != MixturePosterior()


@traced
@pytest.mark.parametrize("objective", ["jsd", "infonce"])
def test_nodes_against_graphs_compile_to_one_graph(objective):
    torch.compiler.reset()
    nodes, graphs, batch, y = graphs_and_nodes()
    loss = contrastive_loss("hscl", objective=objective)
    compiled = torch.compile(loss.local_global, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(
        compiled(nodes, graphs, batch, y), loss.local_global(nodes, graphs, batch, y)
    )


@traced
def test_a_negative_label_is_nan_where_nobody_can_wait_for_it():
    torch.compiler.reset()
    z1, z2 = views()
    wrong = LABELS.clone()
    wrong[2] = -1
    loss = contrastive_loss("hscl")
    with pytest.raises(InputError, match=r"labels\b.*\b0\b.*-1\b"):
        loss(z1, z2, wrong)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    assert compiled(z1, z2, wrong).isnan()
    assert compiled(z1, z2, LABELS).isfinite()


def test_one_class_gives_an_attached_zero_and_counts():
    z1, z2 = (z.requires_grad_() for z in views(n=3))
    loss = ContrastiveLoss(NegativeSampler("other_labels"), positives="class")
    value, diagnostics = loss.with_diagnostics(z1, z2, torch.zeros(3, dtype=torch.int64))
    value.backward()
    assert value.item() == 0.0
    assert z1.grad is not None
    assert torch.equal(z1.grad, torch.zeros_like(z1))
    assert (diagnostics.without_negative, diagnostics.contributing) == (6, 0)


def test_anchors_without_a_negative_leave_the_mean_and_are_counted():
    nodes, graphs, batch, _ = graphs_and_nodes()
    sampler = NegativeSampler("others", Threshold(0.3))
    loss = ContrastiveLoss(sampler)
    value, seen = loss.local_global_with_diagnostics(nodes, graphs, batch)
    s = F.normalize(nodes) @ F.normalize(graphs).T
    kept = (s >= 0.3) & (batch[:, None] != torch.arange(5))
    assert 0 < (~kept.any(1)).sum() < len(nodes)
    assert seen.without_negative == (~kept.any(1)).sum()
    assert seen.contributing == kept.any(1).sum() == seen.pairs
    keep = kept.any(1)
    assert torch.allclose(loss.local_global(nodes[keep], graphs, batch[keep]), value, atol=1e-12)
    strict = ContrastiveLoss(sampler, on_empty="raise")
    n_empty = int((~keep).sum())
    with pytest.raises(InputError, match=rf"\b{n_empty} .*\b{len(nodes)} .*\b0 .*on_empty='raise'"):
        strict.local_global(nodes, graphs, batch)


def test_a_batch_of_one_item_is_an_attached_zero():
    z1, z2 = (z.requires_grad_() for z in views(n=1))
    loss = ContrastiveLoss(NegativeSampler())(z1, z2)
    loss.backward()
    assert loss.item() == 0.0


def test_a_mean_threshold_tells_scores_apart_whose_softplus_underflows():
    """Scores −120, −200, −300 of one anchor: e^−120 alone reaches the mean of the three."""
    graphs = torch.tensor([[1.0], [-120.0], [-200.0], [-300.0]])
    nodes, batch = torch.ones(1, 1, requires_grad=True), torch.zeros(1, dtype=torch.int64)
    loss = ContrastiveLoss(NegativeSampler("others", MeanThreshold()), objective="jsd")
    seen = []
    loss.sampler.register_forward_hook(lambda *call: seen.append(call[-1][0]))
    for dtype in (torch.float32, torch.float64):
        loss.local_global(nodes.to(dtype), graphs.to(dtype), batch)
        assert seen[-1].exp().tolist() == [[0.0, 1.0, 0.0, 0.0]]


@pytest.mark.parametrize("objective", ["infonce", "jsd"])
@pytest.mark.parametrize("n_graphs", [0, 3])
@pytest.mark.parametrize(
    "sampler",
    [
        NegativeSampler("others", Exponential(1.0)),
        NegativeSampler("other_labels", MeanThreshold()),
        NegativeSampler("others", Exponential(1.0), draws=2),
    ],
    ids=str,
)
def test_an_empty_batch_is_an_attached_zero_or_refused(sampler, n_graphs, objective):
    none = torch.zeros(0, 4, requires_grad=True)
    graphs = torch.full((n_graphs, 4), math.nan, requires_grad=True)  # of which none has a node
    labels, batch = torch.arange(n_graphs), torch.arange(0)
    loss = ContrastiveLoss(sampler, objective=objective)
    strict = ContrastiveLoss(sampler, objective=objective, on_empty="raise")
    for value, seen in (
        loss.with_diagnostics(none, none, batch),
        loss.local_global_with_diagnostics(none, graphs, batch, labels),
    ):
        value.backward()
        assert value.item() == 0.0
        assert [*map(int, seen.counts.values())] == [0] * 5
        assert len(seen.effective_negatives) == len(seen.clamped) == 0
    assert none.grad is not None
    assert none.grad.shape == none.shape
    assert graphs.grad is not None
    assert torch.equal(graphs.grad, torch.zeros_like(graphs))
    with pytest.raises(InputError, match=r"batch\b.*\bempty\b"):
        strict(none, none, batch)
    with pytest.raises(InputError, match=r"batch\b.*\bempty\b"):
        strict.local_global(none, graphs, batch, labels)


@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if not row.label_aware])
def test_label_free_losses_never_read_labels(name):
    class Forbidden:
        def __getattr__(self, name):
            raise AssertionError(f"labels were read: {name}")

    z1, z2 = views()
    nodes, graphs, batch, _ = graphs_and_nodes()
    loss = contrastive_loss(name)
    assert loss(z1, z2, Forbidden()).isfinite()
    if not METHODS[name].infonce_only:
        assert loss.local_global(nodes, graphs, batch, Forbidden()).isfinite()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("gamma", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("beta", [0.0, 1.0, 100.0])
def test_error_against_float64_is_bounded(dtype, gamma, beta):
    """Half inputs are computed in float32: the same bound holds given the same rounded inputs.

    t = s / γ carries a relative error of some 2⁻²³ · d, η multiplies it by β; what is left after
    the normalisation of q is the error of the hardest negatives' t.
    """
    z1, z2 = (z.to(dtype) for z in views(n=16, d=8, seed=10))
    y = torch.arange(16) % 4
    loss = ContrastiveLoss(
        NegativeSampler("other_labels", Exponential(beta)), temperature=gamma, positives="class"
    )
    exact = loss(z1.double(), z2.double(), y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = loss(z1, z2, y)
    assert ours.dtype == torch.float32
    assert abs(ours.item() - exact.item()) < 4e-6 * (1 + 1 / gamma)


def test_run_state_pickle_and_deepcopy_keep_the_draws():
    from gcl_hard import Linear

    z1, z2 = views()
    make = lambda: ContrastiveLoss(  # noqa: E731
        NegativeSampler("others", Exponential(Linear(0.0, 3.0)), draws=4)
    )
    loss = make()
    loss.set_epoch(4, 10)
    loss(z1, z2)
    restored = make()
    restored.set_epoch(4, 10)
    restored.sampler.set_run_state(copy.deepcopy(loss.sampler.run_state()))
    copies = [restored, copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))]
    expected = loss(z1, z2)
    for other in copies:
        assert other(z1, z2).item() == expected.item()


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ({"temperature": 0.0}, ["temperature", 0, 0.0]),
        ({"temperature": math.nan}, ["temperature", "finite", "nan"]),
        ({"objective": "jsd", "temperature": 0.5}, ["temperature", "JSD", "infonce", 0.5]),
        ({"objective": "jsd", "pooling": "logsumexp"}, ["pooling", "InfoNCE", "JSD"]),
        ({"objective": "nce"}, ["objective", "'nce'", "infonce", "infonce"]),
        ({"weight": -1.0}, ["weight", 0, -1.0]),
        ({"class_prior": 1.0}, ["class_prior", 0, 1, 1.0]),
        ({"positives": "clas"}, ["positives", "'clas'", "class", "class"]),
        ({"temperature": "a"}, ["temperature", 0, "'a'"]),
        ({"class_prior": "0.1"}, ["class_prior", 0, 1, "'0.1'"]),
        ({"weight": None}, ["weight", 0, "None"]),
    ],
)
def test_bad_arguments_are_named(arguments, facts):
    with pytest.raises(InputError) as error:
        ContrastiveLoss(NegativeSampler(), **arguments)
    assert says(str(error.value), *facts)


@pytest.mark.parametrize("beta", ["1", None, True, math.inf, torch.nn.Parameter(torch.ones(()))])
def test_a_beta_that_would_not_act_is_refused(beta):
    got = "Parameter" if isinstance(beta, torch.Tensor) else repr(beta)
    with pytest.raises(InputError, match=rf"^beta\b.*\bnumber\b.*{got}"):
        contrastive_loss("hscl", beta=beta)


def test_a_temperature_can_be_learned():
    temperature = torch.nn.Parameter(torch.tensor(0.5))
    loss = ContrastiveLoss(NegativeSampler(), temperature=temperature)
    z1, z2 = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0)).unbind()
    loss(z1, z2).backward()
    step = 1e-3
    with torch.no_grad():
        ends = [
            ContrastiveLoss(NegativeSampler(), temperature=0.5 + h)(z1.double(), z2.double())
            for h in (-step, step)
        ]
    slope = (ends[1] - ends[0]) / (2 * step)
    torch.testing.assert_close(temperature.grad.double(), slope, rtol=1e-4, atol=0)


def test_beta_and_threshold_of_a_loss_can_be_set():
    z1, z2 = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0)).unbind()
    for name, setting, values in (("hucl", "beta", (1.0, 3.0)), ("hscl-tau", "threshold", (-1, 0))):
        labels = [0, 0, 1, 1, 2, 2]
        loss, other = (contrastive_loss(name, **{setting: value}) for value in values)
        assert getattr(loss, setting) == values[0]
        before = loss(z1, z2, labels)
        setattr(loss, setting, values[1])
        assert loss(z1, z2, labels) == other(z1, z2, labels) != before
    with pytest.raises(InputError, match=r"\bbeta\b.*\bThreshold\("):
        loss.beta = 3.0
    with pytest.raises(InputError, match=r"^beta\b.*\b0\b.*-1\.0$"):
        contrastive_loss("hscl").beta = -1.0


def test_labels_elsewhere_and_embeddings_without_columns_are_told():
    z1, z2 = views(6)
    with pytest.raises(InputError, match=r"labels.*meta.*cpu.*labels\.to\('cpu'\)"):
        contrastive_loss("hscl")(z1, z2, torch.zeros(6, dtype=torch.long, device="meta"))
    with pytest.raises(InputError, match=r"column.*\b0\]"):
        contrastive_loss("ucl")(z1[:, :0], z2[:, :0])


def test_labels_may_be_a_list_or_an_array():
    z1, z2 = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)).unbind()
    loss, labels = contrastive_loss("hscl"), [0, 1, 0, 2]
    expected = loss(z1, z2, torch.tensor(labels))
    assert loss(z1, z2, labels) == loss(z1, z2, np.array(labels)) == expected
    for words in (["a", "b", "a", "c"], np.array(["a", "b", "a", "c"])):
        with pytest.raises(InputError, match=r"labels\b.*\bintegers\b.*\b(str|ndarray): "):
            loss(z1, z2, words)


def test_combinations_that_mean_nothing_are_refused():
    with pytest.raises(InputError, match=r'class_prior\b.*admit="others"'):
        ContrastiveLoss(NegativeSampler("other_labels"), class_prior=0.1)
    with pytest.raises(InputError, match=r"class_prior\b.*hardening\b.*\bExponential\b"):
        ContrastiveLoss(NegativeSampler("others", Threshold(0.0)), class_prior=0.1)
    with pytest.raises(InputError, match=r"detach_weights=False\b.*\bdraws=None\b"):
        ContrastiveLoss(NegativeSampler(draws=3), detach_weights=False)
    with pytest.raises(InputError, match=r"t = -[0-9.]+ .*t = -[0-9.]+.*\beasy\b"):
        ContrastiveLoss(NegativeSampler("others", lambda t: -2 * t))


@pytest.mark.parametrize(
    ("labels", "facts"),
    [
        (None, ["labels", "integer", "[7]"]),
        (torch.zeros(6, dtype=torch.int64), ["labels", "[7]", "[6]"]),
        (torch.zeros(7), ["labels", "integers", "float32"]),
        (torch.tensor([0, 1, 1, -1, 0, 3, 1]), ["labels", 0, -1]),
    ],
)
def test_bad_labels_are_named(labels, facts):
    z1, z2 = views()
    with pytest.raises(InputError) as error:
        ContrastiveLoss(NegativeSampler("other_labels"))(z1, z2, labels)
    assert says(str(error.value), *facts)


def test_wrong_shapes_are_named():
    loss = ContrastiveLoss(NegativeSampler())
    with pytest.raises(InputError, match=r"views\b.*\[3, 2\].*\[4, 2\]"):
        loss(torch.zeros(3, 2), torch.zeros(4, 2))
    with pytest.raises(InputError, match=r"nodes\b.*\bgraphs\b.*\[3, 2\].*\[4, 5\]"):
        loss.local_global(torch.zeros(3, 2), torch.zeros(4, 5), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(InputError, match="floating"):
        loss(torch.zeros(3, 2, dtype=torch.int64), torch.zeros(3, 2, dtype=torch.int64))


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("admit", ["others", "other_labels"])
@pytest.mark.parametrize("hardening", [None, Exponential(2.5), Threshold(0.05), Threshold(0.6)])
def test_fused_path_equals_the_general_one_in_value_and_gradient(hardening, admit, detach):
    """Several blocks of rows, a graph alone in its class, rows without a negative."""
    g = torch.Generator().manual_seed(3)
    batch = torch.randint(0, 9, (1300,), generator=g)
    y = torch.tensor([0, 0, 0, 0, 0, 0, 0, 1, 1])
    nodes = torch.randn(1300, 4, generator=g, dtype=torch.float64).requires_grad_()
    graphs = torch.randn(9, 4, generator=g, dtype=torch.float64).requires_grad_()
    results = []
    for fused in (True, False):
        loss = ContrastiveLoss(
            NegativeSampler(admit, hardening), objective="jsd", detach_weights=detach,
            class_prior=0.2 if admit == "others" and not isinstance(hardening, Threshold) else None,
        )  # fmt: skip
        loss.fused = fused
        value, seen = loss.local_global_with_diagnostics(nodes, graphs, batch, y)
        grads = torch.autograd.grad(value, (nodes, graphs))
        results.append((value, *grads, *map(torch.as_tensor, seen.counts.values())))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


def test_fused_path_of_equal_scores_has_no_hardening():
    loss = ContrastiveLoss(NegativeSampler("others", Exponential(5.0)), objective="jsd")
    zeros = torch.zeros(4, 3, requires_grad=True)
    value = loss.local_global(zeros, torch.zeros(2, 3), torch.tensor([0, 0, 1, 1]))
    value.backward()
    assert abs(value.item()) < 1e-6


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e25])
def test_cosines_do_not_depend_on_the_size_of_rows(size):
    z1, z2 = (z.float() for z in views())
    loss = ContrastiveLoss(NegativeSampler("others", Exponential(1.0)))
    torch.testing.assert_close(loss(size * z1, size * z2), loss(z1, z2), rtol=1e-5, atol=0)


def test_a_row_of_zeros_has_a_finite_gradient():
    z1, z2 = views()
    z1[0] = 0.0
    z1.requires_grad_()
    ContrastiveLoss(NegativeSampler())(z1, z2).backward()
    assert z1.grad is not None
    assert z1.grad.abs().max() < 1e3


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("method", ["ucl", "hucl", "hscl"])
def test_an_embedding_that_is_not_finite_shows_in_the_loss(method, fused):
    """A divergence must not be hidden by turning the hardening off."""
    nodes, graphs, batch, y = graphs_and_nodes()
    loss = contrastive_loss(method, objective="jsd")
    loss.fused = fused
    graphs[1] = math.nan
    assert not loss.local_global(nodes, graphs, batch, y).isfinite()


def test_debiased_jsd_never_asks_a_hardening_outside_its_range():
    nodes, graphs, batch, _ = graphs_and_nodes()
    graphs = graphs + 10 * nodes[[0, 3, 5, 6, 10]]  # positives far above every negative
    hardening = Custom(lambda t: (t + 2.1).log(), positive=True)
    loss = ContrastiveLoss(
        NegativeSampler("others", hardening), objective="jsd", class_prior=0.1,
        hardness_scale="cosine",
    )  # fmt: skip
    assert loss.local_global(nodes, graphs, batch).isfinite()


# What diagnostics measure of each anchor


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("admit", ["others", "other_labels", "rest"])
def test_diagnostics_measure_what_loops_do(admit, streaming):
    z1, z2 = views()
    loss = ContrastiveLoss(
        NegativeSampler(admit, Exponential(2.0)), temperature=0.5, streaming=streaming
    )
    seen = loss.with_diagnostics(z1, z2, LABELS)[1]
    z, y = F.normalize(torch.cat([z1, z2]).double().detach()), LABELS.repeat(2).tolist()
    effective, label_weights = [], []
    for i in range(14):
        among = [j for j in range(14) if j != i and (admit == "rest" or j % 7 != i % 7)]
        if admit == "other_labels":
            among = [j for j in among if y[j] != y[i]]
        eta = [math.exp(2 * float(z[i] @ z[j]) / 0.5) for j in among]
        q = [e / sum(eta) for e in eta]
        effective.append(1 / sum(p * p for p in q))
        label_weights.append(math.fsum(p for p, j in zip(q, among, strict=True) if y[j] == y[i]))
    torch.testing.assert_close(seen.effective_negatives.tolist(), effective, rtol=1e-6, atol=0)
    torch.testing.assert_close(seen.own_label_weight.tolist(), label_weights, rtol=1e-6, atol=1e-12)
    assert not seen.clamped.any()


def test_diagnostics_are_of_the_settings_that_the_loss_had():
    z1, z2 = views()
    loss = contrastive_loss("hucl", beta=1.0)
    early, late = (loss.with_diagnostics(z1, z2)[1] for _ in range(2))
    expected = early.effective_negatives
    loss.beta = 30.0
    loss.sampler.pair_weights = torch.zeros(3, 3)
    assert torch.equal(late.effective_negatives, expected)
    assert torch.equal(pickle.loads(pickle.dumps(late)).effective_negatives, expected)


def test_labels_that_nothing_needs_may_be_of_any_kind():
    z1, z2 = views()
    seen = contrastive_loss("ucl").with_diagnostics(z1, z2, torch.full((7,), -1))[1]
    torch.testing.assert_close(seen.effective_negatives, torch.full((14,), 12.0).double())
    with pytest.raises(InputError, match=r"labels\b.*\b0\b.*-1\b"):
        _ = seen.own_label_weight


def test_diagnostics_need_no_labels_and_draw_nothing():
    z1, z2 = views()
    loss = ContrastiveLoss(NegativeSampler(draws=5, seed=3))
    first = loss(z1, z2)
    twin = ContrastiveLoss(NegativeSampler(draws=5, seed=3))
    value, seen = twin.with_diagnostics(z1, z2)
    assert value == first
    assert seen.own_label_weight is None
    torch.testing.assert_close(seen.effective_negatives, torch.full((14,), 12.0).double())
    assert loss(z1, z2) == twin(z1, z2)  # reading has drawn nothing
    assert not seen.effective_negatives.requires_grad


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("scale", get_args(EmbeddedScale))
def test_diagnostics_of_nodes_count_clamped_anchors(scale, fused):
    """An anchor is clamped if moving its negatives changes nothing."""
    nodes, graphs, batch, y = graphs_and_nodes(seed=4)
    nodes.requires_grad_()
    loss = ContrastiveLoss(
        NegativeSampler("others", Exponential(1.0)), objective="jsd", hardness_scale=scale,
        class_prior=0.5, reduction="none",
    )  # fmt: skip
    loss.fused = fused
    value, seen = loss.local_global_with_diagnostics(nodes, graphs, batch, y)
    (slope,) = torch.autograd.grad(value.sum(), nodes)
    t_pos = torch.where(batch[:, None] == torch.arange(5), nodes @ graphs.T, 0.0).sum(1)
    alone = -(torch.sigmoid(-t_pos)[:, None] * graphs[batch])
    unmoved = (slope - alone).abs().amax(1) < 1e-9
    assert torch.equal(seen.clamped, unmoved)
    assert 0 < seen.clamped.sum() < len(nodes)
    assert seen.own_label_weight is not None


@pytest.mark.parametrize("fused", [True, False])
def test_a_prior_that_clamps_most_anchors_is_warned_of(fused):
    _, graphs, batch, _ = graphs_and_nodes(seed=4)
    nodes = graphs[batch]  # each nearest to its own graph
    for prior in (0.01, 0.9):
        loss = contrastive_loss("hcl", objective="jsd", class_prior=prior)
        loss.fused = fused
        seen = loss.local_global_with_diagnostics
        if prior < 0.5:
            assert seen(nodes, graphs, batch)[1].clamped.double().mean() < 0.5
            continue
        with pytest.warns(UserWarning, match="class_prior 0.9"):
            diagnostics = seen(nodes, graphs, batch)[1]
        assert diagnostics.clamped.double().mean() > 0.5


@pytest.mark.parametrize("streaming", [True, False])
def test_it_is_warned_of_in_blocks_too(streaming):
    z1, z2 = views(n=40, d=20)
    loss = contrastive_loss("hcl", class_prior=0.9, temperature=0.1, streaming=streaming)
    with pytest.warns(UserWarning, match=r"\bhalf\b.*class_prior 0\.9\b"):
        loss(z1, z1 + 0.1 * z2)


def test_a_misspelt_setting_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"'detach_weight'(.*\bdetach_weights\b){2}"):
        contrastive_loss("hscl", detach_weight=True)  # type: ignore[call-arg]


def test_methods_and_samplers_name_what_is_wrong() -> None:
    with pytest.raises(InputError, match=r"hscll.*hscl"):
        method("hscll")
    with pytest.raises(InputError, match="draws"):
        NegativeSampler("others").sample(torch.zeros(2, 3))


def test_a_setting_by_the_name_that_others_give_it_is_led_to_ours() -> None:
    for name, meant in (
        ("tau", "temperature"), ("tau_plus", "class_prior"), ("temp", "temperature"),
    ):  # fmt: skip
        with pytest.raises(InputError) as caught:
            contrastive_loss("hucl", **{name: 0.1})  # type: ignore[arg-type]
        offered = str(caught.value).partition("known:")[0]
        assert meant in offered
        assert "auc" not in offered
