"""JSD over counted colours against the general loss on every single node."""

from __future__ import annotations

import math
from itertools import product
from typing import NamedTuple, get_args

import pytest
import torch

from gcl_hard import ContrastiveLoss, Exponential, InputError, Linear, NegativeSampler, Threshold
from gcl_hard.functional import jsd
from gcl_hard.functional.hardening import Hardening, Uniform
from gcl_hard.functional.hardness import EmbeddedScale
from gcl_hard.functional.jsd import Classes, Pairs, Rule, counted_jsd, refusal
from gcl_hard.functional.rowwise import MeanThreshold
from tests.said import says

HARDENINGS = [
    Uniform(), Exponential(0.0), Exponential(1.0), Exponential(10.0), Exponential(30.0),
    Exponential(100.0), Threshold(-1.0), Threshold(-0.2), Threshold(0.3), Threshold(1.0),
]  # fmt: skip


def all_rules() -> list[Rule]:
    """Every hardening, scale, admission and gradient, and debiasing where it means something."""
    rules = [
        Rule(hardening, *options, None, scale)
        for hardening, options, scale in product(
            HARDENINGS, product((False, True), repeat=2), get_args(EmbeddedScale)
        )
        if scale == "rank" or hardening != Uniform()
    ]
    return rules + [
        Rule(hardening, False, detach, prior, scale)
        for hardening in HARDENINGS[:6]
        for detach, prior in product((False, True), (0.0, 0.1, 0.6))
        for scale in ("anchor", "rank", "batch-max")
    ]


class Problem(NamedTuple):
    nodes: torch.Tensor
    graphs: torch.Tensor
    counts: torch.Tensor  # int64 [U, G]
    classes: Classes

    @property
    def pairs(self) -> Pairs:
        return pairs_of(self.counts)


def pairs_of(counts, block=jsd.BLOCK):
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


def value_and_gradient(it, rules, kept=None, pairs=None):
    nodes, graphs = (z.clone().requires_grad_() for z in it[:2])
    losses = counted_jsd(nodes, graphs, pairs or it.pairs, rules, it.classes, kept)
    assert losses.requires_grad
    return losses.detach(), *torch.autograd.grad(losses.sum(), (nodes, graphs))


def node_by_node(it, rule, kept=None):
    """The general loss of the first member's nodes, graphs that are not kept really gone."""
    nodes, graphs = (z[0].double().requires_grad_() for z in it[:2])
    here = torch.arange(len(graphs)) if kept is None else kept[0].nonzero().flatten()
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
    return tuple(x.detach()[None] for x in (value, *torch.autograd.grad(value, (nodes, graphs))))


def assert_all_close(ours, theirs, atol):
    for actual, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(actual.double(), expected.double(), rtol=atol, atol=atol)


def some_kept(n_graphs):
    kept = torch.ones(1, n_graphs, dtype=torch.bool)
    kept[0, [1, 3]] = False
    return kept


@pytest.mark.parametrize("rule", all_rules(), ids=str)
def test_counted_nodes_equal_single_nodes_in_value_and_gradient(rule):
    it = problem(seed=1)
    for kept in (None, some_kept(7)):
        assert_all_close(value_and_gradient(it, [rule], kept), node_by_node(it, rule, kept), 1e-12)


@pytest.mark.parametrize("scale", ["rank", "batch-max"])
def test_a_prior_that_clamps_most_anchors_is_warned_of(scale):
    it = problem(members=2, seed=1)
    identity = torch.eye(7, dtype=torch.int64)  # every node is nearest to its own graph
    it = Problem(it.graphs.clone(), it.graphs, identity, it.classes)
    rules = [Rule(Exponential(1.0), False, False, prior, scale) for prior in (0.01, 0.9)]
    with pytest.warns(UserWarning, match="class_prior 0.9") as seen:
        value_and_gradient(it, rules)
    assert len(seen) == 1


@pytest.mark.parametrize("rule", all_rules(), ids=str)
def test_single_precision_loses_no_more_than_its_scores_do(rule):
    """A rounded score is off by about ε, and log η by its slope times that."""
    it = problem(seed=2, dtype=torch.float32)
    atol = 2e-6 + 1e-7 * (rule.hardening.slope(0.5) or 0.0)
    for kept in (None, some_kept(7)):
        assert_all_close(value_and_gradient(it, [rule], kept), node_by_node(it, rule, kept), atol)


@pytest.mark.parametrize("rule", [r for r in all_rules() if not r.detach], ids=str)
def test_scores_of_any_size(rule):
    for size in (1e-3, 30.0):
        it = problem(seed=3)
        it = it._replace(nodes=size * it.nodes)
        ours, theirs = value_and_gradient(it, [rule]), node_by_node(it, rule)
        for actual, expected in zip(ours, theirs, strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12 * max(1, size))


@pytest.mark.parametrize("hardening", HARDENINGS)
def test_scores_that_are_all_zero_tell_nothing_apart(hardening):
    it = problem()
    it = it._replace(graphs=torch.zeros_like(it.graphs))
    for other_labels, detach in product((False, True), repeat=2):
        rule = Rule(hardening, other_labels, detach)
        if hardening == Threshold(1.0):  # similarities are 0
            expected = node_by_node(it, rule)
            assert expected[0] == 0
            assert_all_close(value_and_gradient(it, [rule]), expected, 0)
            continue
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


def kept_by_each(members, n_graphs):
    """Other graphs for every member; all for the first."""
    kept = torch.ones(members, n_graphs, dtype=torch.bool)
    for m in range(1, members):
        kept[m, [m % n_graphs, (2 * m + 1) % n_graphs]] = False
    return kept


def alone(it, rules, kept, m):
    single = it._replace(nodes=it.nodes[m : m + 1], graphs=it.graphs[m : m + 1])
    return value_and_gradient(single, [rules[m]], None if kept is None else kept[m : m + 1])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_model_does_not_depend_on_those_beside_it(dtype, masked):
    it = problem(members=len(MIXED), n_colours=40, n_graphs=11, width=8, dtype=dtype)
    kept = kept_by_each(len(MIXED), 11) if masked else None
    together = value_and_gradient(it, MIXED, kept)
    rtol, atol = (1e-5, 1e-7) if dtype == torch.float32 else (1e-12, 1e-14)
    for m in range(len(MIXED)):
        for ours, expected in zip(together, alone(it, MIXED, kept, m), strict=True):
            assert torch.allclose(ours[m : m + 1], expected, rtol=rtol, atol=atol), (m, MIXED[m])


@pytest.mark.parametrize("masked", [False, True])
def test_models_of_one_kind_worked_on_together_equal_each_alone(masked, monkeypatch):
    """As a device other than the CPU has them."""
    it = problem(members=len(MIXED))
    kept = kept_by_each(len(MIXED), 7) if masked else None
    expected = [alone(it, MIXED, kept, m) for m in range(len(MIXED))]
    runs = []
    together = jsd._together

    def as_elsewhere(rules, device):
        for models in together(rules, torch.device("meta")):
            runs.append((models.start, models.stop))
            yield models

    monkeypatch.setattr(jsd, "_together", as_elsewhere)
    got = value_and_gradient(it, MIXED, kept)
    assert runs == [
        (0, 1),
        (1, 2),
        (2, 4),
        (4, 6),
        (6, 7),
        (7, 8),
        (8, 10),
        (10, 12),
        (12, 13),
        (13, 15),
    ]
    for m, alone_m in enumerate(expected):
        assert_all_close([x[m : m + 1] for x in got], alone_m, 1e-13)


@pytest.mark.parametrize("block", [1, 4, 13, 100])
def test_blocks_of_colours_add_up(block, monkeypatch):
    it = problem(members=len(MIXED), seed=4)
    kept = kept_by_each(len(MIXED), 7)
    whole = value_and_gradient(it, MIXED, kept)
    monkeypatch.setattr(jsd, "BLOCK", block)
    pairs = pairs_of(it.counts, block)
    assert len(pairs.edges) == math.ceil(13 / block) + 1
    assert_all_close(value_and_gradient(it, MIXED, kept, pairs), whole, 1e-13)


def test_more_colours_than_a_block_has():
    it = problem(n_colours=2 * jsd.BLOCK + 3, n_graphs=5, width=3)
    assert len(it.pairs.edges) == 4
    rule = Rule(Exponential(10.0), True, False)
    assert_all_close(value_and_gradient(it, [rule]), node_by_node(it, rule), 1e-12)


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


def test_nodes_without_a_negative_are_left_out_of_the_mean():
    it = problem(seed=5)
    strict, lax = (published(Threshold(cosine)) for cosine in (0.5, -1.0))
    loss = ContrastiveLoss(
        NegativeSampler("others", strict.hardening), objective="jsd", hardness_scale=strict.scale
    )
    graph, colour = it.counts.T.nonzero().T
    seen = loss.local_global_with_diagnostics(it.nodes[0][colour], it.graphs[0], graph)[1]
    assert 0 < seen.contributing < seen.anchors
    assert_all_close(value_and_gradient(it, [strict]), node_by_node(it, strict), 1e-12)
    assert value_and_gradient(it, [strict])[0] != value_and_gradient(it, [lax])[0]


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


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 1e15), (torch.float64, 1e60)])
@pytest.mark.parametrize("rule", [*MIXED, Rule(Threshold(0.3), True)], ids=str)
def test_garbage_in_graphs_that_are_not_kept_has_no_effect(rule, dtype, size, sign):
    it = problem(seed=6, dtype=dtype)
    kept = some_kept(7)
    gone = it.counts[:, kept[0]].sum(1) == 0  # colours of those graphs alone
    assert gone.sum() >= 2
    clean = value_and_gradient(it, [rule], kept)
    nodes, graphs, y = it.nodes.clone(), it.graphs.clone(), it.classes.ids.clone()
    nodes[:, gone] *= size * sign
    graphs[:, ~kept[0]] *= size
    y[~kept[0]] = 0
    dirty = it._replace(nodes=nodes, graphs=graphs, classes=Classes(y, 3))
    value, to_nodes, to_graphs = value_and_gradient(dirty, [rule], kept)
    assert_all_close((value, to_nodes, to_graphs), clean, 1e-9 if dtype == torch.float64 else 1e-6)
    assert torch.count_nonzero(to_nodes[:, gone]) == 0
    assert torch.count_nonzero(to_graphs[:, ~kept[0]]) == 0


@pytest.mark.parametrize("garbage", [math.nan, math.inf])
@pytest.mark.parametrize("where", ["nodes", "graphs"])
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


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "rule",
    [
        published(Uniform()), published(Uniform(), True), published(Uniform(), False, True, 0.2),
        published(Exponential(2.0), False, False), published(Exponential(2.0), True, False),
        published(Exponential(2.0), False, False, 0.2), published(Threshold(-0.01), True),
    ],
    ids=str,
)  # fmt: skip
def test_gradient_is_that_of_finite_differences(rule, masked):
    """One colour and one graph are constants whose score is m, which carries no gradient."""
    it = problem(members=2, n_colours=8, n_graphs=5, width=2)
    counts = it.counts.clone()
    counts[0] = torch.tensor([1, 0, 2, 0, 0])
    kept = torch.tensor([[True, True, True, True, False]] * 2) if masked else None

    def loss(nodes, graphs):
        far = torch.tensor([[[-4.0, 0.0]]], dtype=torch.float64).expand(2, 1, 2)
        nodes, graphs = torch.cat([-far, nodes], 1), torch.cat([graphs[:, :3], far], 1)
        graphs = torch.cat([graphs, it.graphs[:, 4:]], 1)
        scores = (nodes @ graphs.transpose(1, 2)).abs()
        assert torch.allclose(scores.flatten(1).amax(1), scores.new_tensor(16.0), atol=1e-12)
        return counted_jsd(nodes, graphs, pairs_of(counts), [rule] * 2, it.classes, kept)

    inputs = (0.5 * it.nodes[:, 1:]).requires_grad_(), (0.5 * it.graphs[:, :3]).requires_grad_()
    assert torch.autograd.gradcheck(loss, inputs)


def test_gradients_of_members_scale_with_what_comes_from_above():
    it = problem(members=3)
    rules = MIXED[:3]
    nodes = it.nodes.clone().requires_grad_()
    losses = counted_jsd(nodes, it.graphs, it.pairs, rules, it.classes)
    (each,) = torch.autograd.grad(losses.sum(), nodes, retain_graph=True)
    weights = torch.tensor([2.0, 0.0, -3.0], dtype=torch.float64)
    (got,) = torch.autograd.grad(losses @ weights, nodes)
    torch.testing.assert_close(got, each * weights[:, None, None], rtol=1e-14, atol=0)


def test_other_labels_ask_for_labels():
    it = problem()
    with pytest.raises(InputError, match="labels"):
        counted_jsd(it.nodes, it.graphs, it.pairs, [Rule(Uniform(), True)])


class Steeper(Exponential):
    """A hardening of somebody's own."""


@pytest.mark.parametrize(
    ("hardening", "facts"),
    [
        (Uniform(), None),
        (Threshold(0.3), None),
        (Threshold(Linear(-0.5, 0.0)), None),
        (Exponential(162.5), None),
        (Exponential(162.6), ["beta", 162.6, "float64"]),
        (Exponential(Linear(1.0, 1000.0)), ["beta", 1000, "float64"]),
        (MeanThreshold(), ["MeanThreshold"]),
        (Steeper(1.0), ["Steeper"]),
    ],
)
def test_refusal_says_what_tables_cannot_hold(hardening: Hardening, facts: list[object] | None):
    reason = refusal(hardening, "batch-max")
    assert reason is None if facts is None else says(str(reason), *facts)


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
