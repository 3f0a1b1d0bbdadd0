"""The loss beyond its loops: what it refuses, leaves out, keeps, compiles and measures."""

from __future__ import annotations

import copy
import math
import pickle
import re
from itertools import product
from typing import get_args

import pytest
import torch
from torch.nn import functional as F

from gcl_hard import (
    ContrastiveLoss,
    Custom,
    Exponential,
    InputError,
    Linear,
    MeanThreshold,
    MixturePosterior,
    NegativeSampler,
    Threshold,
    contrastive_loss,
)
from gcl_hard.functional.dense import DenseScores, dense
from gcl_hard.functional.hardness import EmbeddedScale
from gcl_hard.functional.labels import Relation
from gcl_hard.losses.methods import METHODS, method
from gcl_hard.losses.pairing import LabelUse, pair_local_global

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


def test_a_single_view_and_its_labels_are_enough():
    z, _ = views()
    loss, array = contrastive_loss("hscl"), z.detach().numpy()
    assert loss(z, LABELS) == loss([z], LABELS.tolist()) == loss(z, labels=LABELS.numpy())
    assert loss(z, LABELS.to(torch.uint8), candidates=z, candidate_labels=LABELS + 256) == loss(
        z, LABELS, candidates=z, candidate_labels=LABELS + 256
    )
    for call in (
        lambda: contrastive_loss("ucl")(z),
        lambda: loss(z, LABELS, LABELS),
        lambda: loss(array, array, labels=LABELS),
        lambda: loss([array, array], labels=LABELS),
        lambda: loss(z, LABELS, candidates=z[:, :2]),
        lambda: loss(z, LABELS, candidate_labels=LABELS),
        lambda: loss(z, LABELS, candidates=z),
    ):
        with pytest.raises(InputError):
            call()


traced = pytest.mark.skipif(
    torch.__version__ < "2.9", reason="older versions do not trace _replace of a named tuple"
)


@traced
@pytest.mark.parametrize("name", ["bcl", "hcl", "hscl-tau"])
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
def test_an_empty_batch_is_an_attached_zero_or_refused(objective):
    for n_graphs, sampler in product((0, 3), (
        NegativeSampler("other_labels", MeanThreshold()),
        NegativeSampler("others", Exponential(1.0), draws=2),
    )):  # fmt: skip
        none = torch.zeros(0, 4, requires_grad=True)
        graphs = torch.full((n_graphs, 4), math.nan, requires_grad=True)  # of which none has a node
        labels, batch = torch.arange(n_graphs), torch.arange(0)
        loss = ContrastiveLoss(sampler, objective=objective)
        for value, seen in (
            loss.with_diagnostics(none, none, batch),
            loss.local_global_with_diagnostics(none, graphs, batch, labels),
        ):
            value.backward()
            assert value.item() == 0.0
            assert [*map(int, seen.counts.values())] == [0] * 5
            assert len(seen.effective_negatives) == len(seen.clamped) == 0
        assert none.grad.shape == none.shape
        assert torch.equal(graphs.grad, torch.zeros_like(graphs))
        each = ContrastiveLoss(sampler, objective=objective, reduction="none")(none, none, batch)
        assert (each.shape, each.requires_grad) == ((0,), True)
        strict = ContrastiveLoss(sampler, objective=objective, on_empty="raise")
        with pytest.raises(InputError, match="empty"):
            strict(none, none, batch)
        with pytest.raises(InputError, match="empty"):
            strict.local_global(none, graphs, batch, labels)


def test_label_free_losses_never_read_labels():
    class Forbidden:
        def __getattr__(self, name):
            raise AssertionError(f"labels were read: {name}")

    nodes, graphs, batch, _ = graphs_and_nodes()
    for name, row in METHODS.items():
        if not row.label_aware:
            loss = contrastive_loss(name)
            assert loss(*views(), Forbidden()).isfinite()
            if not row.infonce_only:
                assert loss.local_global(nodes, graphs, batch, Forbidden()).isfinite()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_error_against_float64_is_bounded(dtype):
    """Half inputs are computed in float32: the same bound holds given the same rounded inputs.

    t = s / γ carries a relative error of some 2⁻²³ · d, η multiplies it by β; what is left after
    the normalisation of q is the error of the hardest negatives' t.
    """
    z1, z2 = (z.to(dtype) for z in views(n=16, d=8, seed=10))
    y = torch.arange(16) % 4
    for gamma, beta in product((0.01, 0.1, 1.0), (0.0, 1.0, 100.0)):
        loss = ContrastiveLoss(
            NegativeSampler("other_labels", Exponential(beta)), temperature=gamma, positives="class"
        )
        exact = loss(z1.double(), z2.double(), y)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            ours = loss(z1, z2, y)
        assert ours.dtype == torch.float32
        assert abs(ours.item() - exact.item()) < 4e-6 * (1 + 1 / gamma)


def test_run_state_pickle_and_deepcopy_keep_the_draws():
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


GRAPH_LIST = torch.zeros(3, dtype=torch.int64)
REFUSED = [
    ("temperature", lambda: ContrastiveLoss(NegativeSampler(), temperature=0.0)),
    ("temperature", lambda: ContrastiveLoss(NegativeSampler(), temperature=math.nan)),
    ("temperature", lambda: ContrastiveLoss(NegativeSampler(), objective="jsd", temperature=0.5)),
    ("pooling", lambda: ContrastiveLoss(NegativeSampler(), objective="jsd", pooling="logsumexp")),
    ("objective", lambda: ContrastiveLoss(NegativeSampler(), objective="nce")),
    ("weight", lambda: ContrastiveLoss(NegativeSampler(), weight=-1.0)),
    ("class_prior", lambda: ContrastiveLoss(NegativeSampler(), class_prior=1.0)),
    ("positives", lambda: ContrastiveLoss(NegativeSampler(), positives="clas")),
    ("beta", lambda: contrastive_loss("hscl", beta="1")),
    ("beta", lambda: contrastive_loss("hscl", beta=math.inf)),
    ("beta", lambda: setattr(contrastive_loss("hscl-tau"), "beta", 3.0)),
    ("beta", lambda: setattr(contrastive_loss("hscl"), "beta", -1.0)),
    ("class_prior", lambda: ContrastiveLoss(NegativeSampler("other_labels"), class_prior=0.1)),
    ("hardening", lambda: ContrastiveLoss(
        NegativeSampler("others", Threshold(0.0)), class_prior=0.1)),
    ("draws", lambda: ContrastiveLoss(NegativeSampler(draws=3), detach_weights=False)),
    ("decrease", lambda: ContrastiveLoss(NegativeSampler("others", lambda t: -2 * t))),
    ("labels", lambda: contrastive_loss("scl")(*views(), None)),
    ("labels", lambda: contrastive_loss("scl")(*views(), GRAPH_LIST)),
    ("labels", lambda: contrastive_loss("scl")(*views(), torch.zeros(7))),
    ("labels", lambda: contrastive_loss("scl")(*views(), LABELS - 1)),
    ("column", lambda: contrastive_loss("ucl")(*(z[:, :0] for z in views()))),
    ("views", lambda: contrastive_loss("ucl")(torch.zeros(3, 2), torch.zeros(4, 2))),
    ("floating", lambda: contrastive_loss("ucl")(torch.ones(3, 2).int(), torch.ones(3, 2).int())),
    ("nodes", lambda: contrastive_loss("ucl").local_global(
        torch.zeros(3, 2), torch.zeros(4, 5), GRAPH_LIST)),
    ("detach_weights", lambda: contrastive_loss("hscl", detach_weight=True)),
    ("hscl", lambda: method("hscll")),
    ("draws", lambda: NegativeSampler("others").sample(torch.zeros(2, 3))),
    ("temperature", lambda: contrastive_loss("hucl", tau=0.1)),
    ("class_prior", lambda: contrastive_loss("hucl", tau_plus=0.1)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "call"), REFUSED)
def test_what_has_no_meaning_is_refused_by_name(name, call):
    with pytest.raises(InputError) as error:
        call()
    assert name in str(error.value).partition("known:")[0]


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


def test_fused_path_of_equal_scores_has_no_hardening():
    loss = ContrastiveLoss(NegativeSampler("others", Exponential(5.0)), objective="jsd")
    zeros = torch.zeros(4, 3, requires_grad=True)
    value = loss.local_global(zeros, torch.zeros(2, 3), torch.tensor([0, 0, 1, 1]))
    value.backward()
    assert abs(value.item()) < 1e-6


def test_cosines_do_not_depend_on_the_size_of_rows():
    z1, z2 = (z.float() for z in views())
    loss = ContrastiveLoss(NegativeSampler("others", Exponential(1.0)))
    for size in (1e-30, 1e25):
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


@pytest.mark.parametrize("labels", [None, LABELS, torch.full((7,), -1)])  # −1 alone is refused
def test_printed_diagnostics_are_means_over_anchors(labels):
    z1, z2 = views()
    seen = contrastive_loss("hucl", beta=2.0).with_diagnostics(z1, z2, labels)[1]
    printed = dict(re.findall(r"(\w+)=([\d.]+)", repr(seen)))
    z, y = F.normalize(torch.cat([z1, z2]).double().detach()), LABELS.repeat(2)
    eta = (2 * z @ z.T / 0.5).exp()
    eta[(torch.arange(14)[:, None] - torch.arange(14)) % 7 == 0] = 0.0
    q = eta / eta.sum(1, keepdim=True)
    effective = (1 / (q**2).sum(1)).mean().item()
    own = q.where(y[:, None] == y, 0.0).sum(1).mean().item()
    assert float(printed["effective_negatives"]) == pytest.approx(effective, 1e-3)
    assert float(printed["anchors"]) == 14
    assert ("own_label_weight" in printed) == (labels is LABELS)
    assert float(printed.get("own_label_weight", own)) == pytest.approx(own, 1e-3)


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
