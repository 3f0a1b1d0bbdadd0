"""JSD over counted colours against the general loss on every single node."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, get_args
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gcl_hard import ContrastiveLoss, Exponential, Linear, NegativeSampler, Threshold
from gcl_hard.functional import jsd
from gcl_hard.functional.hardening import Uniform
from gcl_hard.functional.hardness import EmbeddedScale
from gcl_hard.functional.jsd import Classes, Pairs, Rule, counted_jsd, refusal
from gcl_hard.functional.rowwise import MeanThreshold

HARDENINGS = [
    Uniform(), Exponential(0.0), Exponential(1.0), Exponential(10.0), Exponential(30.0),
    Exponential(100.0), Threshold(-1.0), Threshold(-0.2), Threshold(0.3), Threshold(1.0),
]  # fmt: skip


@st.composite
def rules(draw: Any) -> Rule:
    """Every hardening, scale, admission and gradient, and debiasing where it means something."""
    hardening, prior = draw(st.sampled_from(HARDENINGS)), None
    other_labels = draw(st.booleans())
    if not other_labels and not isinstance(hardening, Threshold):
        prior = draw(st.sampled_from([None, 0.0, 0.1, 0.6]))
    scale = draw(st.sampled_from(get_args(EmbeddedScale)))
    return Rule(hardening, other_labels, draw(st.booleans()), prior, scale)


class Problem(NamedTuple):
    nodes: torch.Tensor
    graphs: torch.Tensor
    counts: torch.Tensor  # int64 [U, G]
    classes: Classes

    @property
    def pairs(self) -> Pairs:
        return pairs_of(self.counts)


def pairs_of(counts, block=None):
    block = block or jsd.BLOCK
    colour, graph = counts.nonzero().T
    n = len(counts)
    edges = [int((colour < min(first, n)).sum()) for first in range(0, n + block, block)]
    return Pairs(colour, graph, counts[colour, graph].float(), edges)


def problem(*, members=1, n_colours=13, n_graphs=7, width=5, seed=0, dtype=torch.float64):
    """Graphs of several sizes; colours of one graph, of several and of all; three labels."""
    g = torch.Generator().manual_seed(seed)
    counts = torch.randint(1, 4, (n_colours, n_graphs), generator=g)
    counts *= torch.rand(n_colours, n_graphs, generator=g) < 0.3
    owner = torch.arange(n_graphs)
    counts[owner, owner] += 1  # every graph has a node
    counts[n_graphs] = 1  # in all graphs
    counts[n_graphs + 1 :, 2] += counts[n_graphs + 1 :].sum(1) == 0  # every colour has a graph
    counts[-1] = 0
    counts[-1, 3] = 2  # in one graph
    y = torch.arange(n_graphs) % 3
    nodes = torch.randn(members, n_colours, width, generator=g, dtype=dtype)
    graphs = torch.randn(members, n_graphs, width, generator=g, dtype=dtype)
    return Problem(nodes, graphs, counts, Classes(y, 3))


def value_and_gradient(it, rules_, kept=None):
    """Losses, and the gradient with another weight for each model."""
    nodes, graphs = (z.clone().requires_grad_() for z in it[:2])
    losses = counted_jsd(nodes, graphs, it.pairs, rules_, it.classes, kept)
    assert losses.requires_grad
    weights = 1.0 + torch.arange(len(losses), dtype=losses.dtype)
    return losses.detach(), *torch.autograd.grad(losses @ weights, (nodes, graphs))


def node_by_node(it, rule, kept=None, member=0):
    """The general loss of a member's nodes, graphs that are not kept really gone."""
    nodes, graphs = (z[member].double().requires_grad_() for z in it[:2])
    here = torch.arange(len(graphs)) if kept is None else kept[member].nonzero().flatten()
    times = it.counts[:, here].T
    graph, colour = times.nonzero().T
    repeats = times[graph, colour]
    loss = ContrastiveLoss(
        NegativeSampler("other_labels" if rule.other_labels else "others", rule.hardening),
        objective="jsd", detach_weights=rule.detach, class_prior=rule.class_prior,
        hardness_scale=rule.scale,
    )  # fmt: skip
    loss.fused = False
    value = loss.local_global(
        nodes[colour.repeat_interleave(repeats)], graphs[here], graph.repeat_interleave(repeats),
        it.classes.ids[here],
    )  # fmt: skip
    slopes = torch.autograd.grad((1 + member) * value, (nodes, graphs))
    return tuple(x.detach()[None] for x in (value, *slopes))


def assert_all_close(ours, theirs, atol):
    for actual, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(actual.double(), expected.double(), rtol=atol, atol=atol)


def some_kept(n_graphs):
    kept = torch.ones(1, n_graphs, dtype=torch.bool)
    kept[0, [1, 3]] = False
    return kept


@settings(max_examples=120)
@given(data=st.data())
@pytest.mark.filterwarnings("ignore:.*class_prior:UserWarning")
def test_counted_nodes_equal_single_nodes_in_value_and_gradient(data):
    """Of several models, each with other graphs held out, in blocks, and as another device works.

    A rounded score is off by about ε, and log η by its slope times that.
    """
    members, seed = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 99))
    single = data.draw(st.booleans())
    it = problem(members=members, seed=seed, dtype=torch.float32 if single else torch.float64)
    it = it._replace(nodes=data.draw(st.sampled_from([1e-3, 1.0, 1.0, 30.0])) * it.nodes)
    if single:
        it = it._replace(nodes=it.nodes / it.nodes.abs().max())
    drawn = [data.draw(rules()) for _ in range(members)]
    if data.draw(st.booleans()):
        drawn = [drawn[0]] * members
    kept = data.draw(st.none() | st.lists(st.sets(st.integers(0, 6), max_size=3), min_size=members,
                                          max_size=members))  # fmt: skip
    if kept is not None:
        kept = torch.tensor([[g not in gone for g in range(7)] for gone in kept])
    together, elsewhere = jsd._together, data.draw(st.booleans())

    def as_elsewhere(rules_, device):
        yield from together(rules_, torch.device("meta") if elsewhere else device)

    block = data.draw(st.sampled_from([1, 4, 13, 100]))
    with patch.object(jsd, "_together", as_elsewhere), patch.object(jsd, "BLOCK", block):
        ours = value_and_gradient(it, drawn, kept)
    for m, rule in enumerate(drawn):
        size = max(1.0, float(it.nodes.abs().max()))
        atol = 1e-11 * size
        if single:
            atol = 3e-6 + 3e-7 * (rule.hardening.slope(0.5) or 0.0)
        expected = node_by_node(it, rule, kept, m)
        assert_all_close([x[m : m + 1] for x in ours], expected, atol * (1 + m))


@pytest.mark.parametrize("scale", ["rank", "batch-max"])
def test_a_prior_that_clamps_most_anchors_is_warned_of(scale):
    it = problem(members=2, seed=1)
    identity = torch.eye(7, dtype=torch.int64)  # every node is nearest to its own graph
    it = Problem(it.graphs.clone(), it.graphs, identity, it.classes)
    rules = [Rule(Exponential(1.0), False, False, prior, scale) for prior in (0.01, 0.9)]
    with pytest.warns(UserWarning, match="class_prior 0.9") as seen:
        value_and_gradient(it, rules)
    assert len(seen) == 1


@pytest.mark.parametrize("hardening", HARDENINGS)
def test_scores_that_are_all_zero_tell_nothing_apart(hardening):
    it = problem()
    it = it._replace(graphs=torch.zeros_like(it.graphs))
    rule = Rule(hardening, other_labels=True, detach=False)
    assert_all_close(value_and_gradient(it, [rule]), node_by_node(it, rule), 1e-12)


def published(*rule) -> Rule:
    """A rule under the scale of HCL's code."""
    return Rule(*rule)._replace(scale="batch-max")


MIXED = [
    published(Exponential(10.0), True),
    Rule(Uniform()),
    published(Exponential(1.0), True),
    published(Exponential(2.0), True),
    published(Threshold(0.1)),
    published(Threshold(-1.0)),
    published(Exponential(100.0), False, False),
    published(Exponential(3.0), False, False),
    published(Exponential(3.0), False, True, 0.1),
    published(Exponential(0.0), False, True, 0.3),
    Rule(Exponential(1.0), True, False, scale="anchor"),
    Rule(Exponential(2.0), True, False, scale="anchor"),
    Rule(Threshold(-0.5), scale="rank"),
    Rule(Exponential(2.0), False, False, scale="cosine"),
    Rule(Exponential(1.0), False, False, scale="cosine"),
]


@pytest.mark.parametrize("hardening", [Uniform(), Exponential(30.0), Threshold(0.2)])
def test_without_any_negative_the_loss_is_an_attached_zero(hardening):
    it = problem()
    rules = [Rule(hardening, True)]
    one_class = it._replace(classes=Classes(torch.zeros(7, dtype=torch.int64), 1))
    lone_class = some_kept(7) & (it.classes.ids == 1)  # three classes, one of them kept
    for where, kept in ((one_class, None), (it, lone_class)):
        value, *gradients = value_and_gradient(where, rules, kept)
        assert value.tolist() == [0.0]
        assert all(torch.count_nonzero(gradient) == 0 for gradient in gradients)


def test_the_scale_never_sees_a_colour_in_its_only_graph():
    """Of the score 9 of the only graph nothing may be left in m = 4."""
    nodes = torch.tensor([[[9.0, 2.0, -4.0], [0.0, 1.0, 1.0]]], dtype=torch.float64)
    it = Problem(
        nodes, torch.eye(3, dtype=torch.float64)[None], torch.tensor([[2, 0, 0], [0, 1, 1]]),
        Classes(torch.tensor([0, 1, 1]), 2),
    )  # fmt: skip
    eta = [math.exp(2 * 2.0 / 4), math.exp(-2 * 4.0 / 4)]
    h = [math.log1p(math.exp(2.0)), math.log1p(math.exp(-4.0))]
    first = math.log1p(math.exp(-9.0)) + (eta[0] * h[0] + eta[1] * h[1]) / sum(eta)
    eta = [1.0, math.exp(2 * 1.0 / 4)]
    h = [math.log(2), math.log1p(math.exp(1.0))]
    other = math.log1p(math.exp(-1.0)) + (eta[0] * h[0] + eta[1] * h[1]) / sum(eta)
    expected = (2 * first + 2 * other) / 4 - 2 * math.log(2)
    (value,) = value_and_gradient(it, [published(Exponential(1.0))])[0].tolist()
    assert abs(value - expected) < 1e-14


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, -1e15), (torch.float64, 1e60)])
def test_garbage_in_graphs_that_are_not_kept_has_no_effect(dtype, size):
    it = problem(members=len(MIXED), seed=6, dtype=dtype)
    kept = some_kept(7).expand(len(MIXED), -1)
    gone = it.counts[:, kept[0]].sum(1) == 0  # colours of those graphs alone
    assert gone.sum() >= 2
    clean = value_and_gradient(it, MIXED, kept)
    nodes, graphs, y = it.nodes.clone(), it.graphs.clone(), it.classes.ids.clone()
    nodes[:, gone] *= size
    graphs[:, ~kept[0]] *= abs(size)
    y[~kept[0]] = 0
    dirty = it._replace(nodes=nodes, graphs=graphs, classes=Classes(y, 3))
    value, to_nodes, to_graphs = value_and_gradient(dirty, MIXED, kept)
    assert_all_close((value, to_nodes, to_graphs), clean, 1e-9 if dtype == torch.float64 else 2e-5)
    assert torch.count_nonzero(to_nodes[:, gone]) == 0
    assert torch.count_nonzero(to_graphs[:, ~kept[0]]) == 0


@pytest.mark.parametrize(("where", "garbage"), [("nodes", math.inf), ("graphs", math.nan)])
def test_a_divergence_shows_in_its_own_loss_alone(where, garbage):
    it = problem(members=len(MIXED))
    clean = value_and_gradient(it, MIXED)
    for m in range(len(MIXED)):
        broken = it._replace(**{where: getattr(it, where).clone()})
        getattr(broken, where)[m, 2] = garbage
        got = value_and_gradient(broken, MIXED)
        assert not got[0][m].isfinite()
        others = [i for i in range(len(MIXED)) if i != m]
        for actual, expected in zip(got, clean, strict=True):
            assert torch.equal(actual[others], expected[others])


class Steeper(Exponential):
    """A hardening of somebody's own."""


def test_what_tables_cannot_hold_is_refused():
    fine = [Uniform(), Threshold(0.3), Threshold(Linear(-0.5, 0.0)), Exponential(162.5)]
    steep = [Exponential(162.6), Exponential(Linear(1.0, 1000.0))]
    assert not any(refusal(hardening, "batch-max") for hardening in fine)
    for hardening in (*steep, MeanThreshold(), Steeper(1.0)):
        assert refusal(hardening, "batch-max")


def test_the_steepest_hardening_that_is_not_refused_is_still_right():
    """The hardest negative of some rows is the easiest of all."""
    it = problem(seed=7)
    rule = published(Exponential(162.5), True, False)
    graphs = 1 - 0.01 * it.graphs.abs()  # graphs nearly alike, scores all near −m
    it = it._replace(graphs=graphs, nodes=-it.nodes.abs())
    assert refusal(rule.hardening, rule.scale) is None
    ours, theirs = value_and_gradient(it, [rule]), node_by_node(it, rule)
    assert_all_close(ours, theirs, 1e-11)


@pytest.mark.parametrize("times", [1, 10_000])
@pytest.mark.parametrize("beta", [20.0, 160.0])
def test_collapsed_scores_of_many_nodes_do_not_overflow(beta, times):
    """All scores −m: η is the smallest there is; one colour, one graph in a class of its own."""
    y = torch.tensor([0] * 6 + [1])
    it = Problem(
        torch.full((1, 1, 4), -1.0), torch.ones(1, 7, 4), torch.full((1, 7), times), Classes(y, 2)
    )
    rule = published(Exponential(beta), True, False)
    once = it._replace(counts=torch.ones_like(it.counts))
    assert_all_close(value_and_gradient(it, [rule]), node_by_node(once, rule), 1e-5)
