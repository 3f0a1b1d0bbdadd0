"""A hardening on some batches against the paper's loops, and where there is nothing to say."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from gcl_hard import Custom, Exponential, InputError, MeanThreshold, Threshold
from gcl_hard.functional.negatives import (
    effective_negatives,
    log_negative_distribution,
    same_label_weight,
)
from gcl_hard.theory.assumptions import Diagnosis, diagnose
from gcl_hard.theory.similarity import ScoreTable, local_global_scores, log_eta, two_view_scores
from tests.reference import theory

SCALE = {"infonce": None, "jsd": "batch-max"}
"""That of the loops."""
GAMMA = 0.5
ETAS = {  # of t = s / γ, as the paper has them
    "none": (None, lambda t: 1.0),
    "beta=1": (Exponential(1.0), math.exp),
    "beta=2": (Exponential(2.0), lambda t: math.exp(2 * t)),
    "beta=4": (Exponential(4.0), lambda t: math.exp(4 * t)),
    "l=-0.25": (Threshold(-0.25), lambda t: float(t >= -0.25 / GAMMA)),
    "l=-0.05": (Threshold(-0.05), lambda t: float(t >= -0.05 / GAMMA)),
    "l=0.7": (Threshold(0.7), lambda t: float(t >= 0.7 / GAMMA)),
    "custom": (Custom(lambda t: (1 + t.exp()).log()), lambda t: 1 + math.exp(t)),
}
HARDENINGS = {name: hardening for name, (hardening, _) in ETAS.items()}
COUNTS = ("defined", "alone", "spared", "unopposed", "common")
NAN = math.nan

Batch = tuple[ScoreTable, list[theory.Anchor]]


def near(y: Tensor, seed: int, tight: float, d: int = 3) -> Tensor:
    """Embeddings that the class draws together."""
    g = torch.Generator().manual_seed(seed)
    centres = torch.randn(5, d, generator=g, dtype=torch.float64)
    return torch.randn(len(y), d, generator=g, dtype=torch.float64) + tight * centres[y]


def two_views(objective: str, labels: list[int], seed: int, tight: float) -> Batch:
    y = torch.tensor(labels)
    z1, z2 = near(y, seed, tight), near(y, seed + 50, tight)
    scores = two_view_scores(
        z1, z2, y, temperature=GAMMA, objective=objective, hardness_scale=SCALE[objective]
    )
    gamma = GAMMA if objective == "infonce" else None
    return scores, list(theory.two_view_anchors(z1.tolist(), z2.tolist(), labels, gamma))


def local_global(objective: str, labels: list[int], seed: int, tight: float) -> Batch:
    y = torch.tensor(labels)
    owner = torch.arange(len(y)).repeat_interleave(torch.tensor([2, 1, 3, 1, 2, 1, 1, 2])[: len(y)])
    nodes, graphs = near(y[owner], seed, tight), near(y, seed + 50, tight)
    scores = local_global_scores(
        nodes, graphs, owner, y, temperature=GAMMA, objective=objective,
        hardness_scale=SCALE[objective],
    )  # fmt: skip
    gamma = GAMMA if objective == "infonce" else None
    lists = (nodes.tolist(), graphs.tolist(), owner.tolist(), labels)
    return scores, list(theory.local_global_anchors(*lists, gamma))


def batches(contrast: str, objective: str, tight: float) -> list[Batch]:
    """Of unequal sizes: classes of one, one class alone, a pair of classes."""
    make = two_views if contrast == "two-view" else local_global
    label_lists = ([0, 0, 1, 1, 2, 0, 1, 4], [0, 0, 0], [1, 2, 1, 2, 1], [3, 3, 2, 1])
    return [make(objective, labels, seed, tight) for seed, labels in enumerate(label_lists)]


CASES = {
    (contrast, objective, tight): batches(contrast, objective, tight)
    for contrast in ("two-view", "local-global")
    for objective in ("infonce", "jsd")
    for tight in (0.0, 0.6, 2.0)
}
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case)))


def assert_is(actual: Diagnosis, expected: dict[str, Any]) -> None:
    ours = actual._asdict()
    assert ours.keys() == expected.keys()
    assert {name: ours[name] for name in COUNTS} == {name: expected[name] for name in COUNTS}
    assert ours.pop("losses") == pytest.approx(expected["losses"], rel=1e-10, nan_ok=True)
    rest = {name: value for name, value in expected.items() if name != "losses"}
    assert ours == pytest.approx(rest, rel=1e-10, abs=1e-12, nan_ok=True)


@each_case
def test_every_number_is_the_papers_over_all_anchors(case):
    whole = CASES[case]
    result = diagnose([scores for scores, _ in whole], HARDENINGS)
    assert list(result) == list(ETAS)
    anchors = [row for _, row in whole]
    for name, (_, eta) in ETAS.items():
        assert_is(result[name], theory.diagnosis(anchors, eta, case[1], GAMMA))


@each_case
def test_each_batch_by_itself_is_the_papers(case):
    for (scores, anchors), name in itertools.product(CASES[case], ("beta=2", "l=-0.05")):
        result = diagnose([scores], {name: HARDENINGS[name]})[name]
        assert_is(result, theory.diagnosis([anchors], ETAS[name][1], case[1], GAMMA))


def test_cases_reach_every_count_and_both_answers():
    seen = [
        result
        for whole in CASES.values()
        for result in diagnose([scores for scores, _ in whole], HARDENINGS).values()
    ]
    for name in COUNTS:
        assert any(getattr(result, name) > 0 for result in seen), name
    fractions = [result.assumption_1 for result in seen]
    assert min(fractions) < 0.5 < max(fractions)
    assert len({result.common - result.defined for result in seen}) > 2


@each_case
def test_lemma_1_holds_at_as_many_anchors_as_assumption_1(case):
    tables = [scores for scores, _ in CASES[case]]
    for result in diagnose(tables, HARDENINGS).values():
        assert result.lemma_1 == pytest.approx(result.assumption_1, abs=0, nan_ok=True)
    # A collision of weight e^(-200) is none in floats: both losses are equal, and that counts.
    result = diagnose(tables, {"beta=100": Exponential(100.0)})["beta=100"]
    assert result.lemma_1 >= result.assumption_1


@each_case
def test_effective_numbers_and_weights_are_those_of_the_distributions(case):
    tables = [scores for scores, _ in CASES[case]]
    names = {**HARDENINGS, "mean": MeanThreshold()}
    results = diagnose(tables, names)
    for name, hardening in names.items():
        n_hucl, n_hscl, weights = [], [], []
        for scores in tables:
            eta = log_eta(scores, hardening)
            q, empty = log_negative_distribution(eta, scores.others)
            n_hucl.append(effective_negatives(q)[~empty])
            weights.append(same_label_weight(q, scores.same)[~empty])
            q, empty = log_negative_distribution(eta, scores.others & ~scores.same)
            n_hscl.append(effective_negatives(q)[~empty])
        for ours, theirs in (
            (results[name].effective_hucl, n_hucl), (results[name].effective_hscl, n_hscl),
            (results[name].same_label_weight, weights),
        ):  # fmt: skip
            assert ours == pytest.approx(torch.cat(theirs).mean().item(), rel=1e-10)


# Where there is nothing to say


def only(z: Tensor, y: list[int], hardening: Any, objective: str = "infonce") -> Diagnosis:
    scores = two_view_scores(
        z,
        z,
        torch.tensor(y),
        temperature=GAMMA,
        objective=objective,
        hardness_scale=SCALE[objective],
    )
    return diagnose([scores], {"it": hardening})["it"]


NOTHING = dict.fromkeys(("ucl", "scl", "hucl", "hscl"), NAN)


@pytest.mark.parametrize("objective", ["infonce", "jsd"])
def test_one_class_has_collisions_and_nobody_to_compare_them_with(objective):
    result = only(near(torch.zeros(4).long(), 1, 0.0), [2] * 4, Exponential(1.0), objective)
    assert_is(result, {
        "assumption_1": NAN, "lemma_1": NAN, "defined": 0, "alone": 0, "spared": 0,
        "unopposed": 8, "losses": NOTHING, "common": 0, "collisions": NAN, "negatives": NAN,
        "effective_hucl": result.effective_hucl, "effective_hscl": NAN, "same_label_weight": 1.0,
        "others": 6, "other_labels": 0,
    })  # fmt: skip
    assert 1 <= result.effective_hucl <= 6


@pytest.mark.parametrize("objective", ["infonce", "jsd"])
def test_classes_of_one_have_losses_but_no_collision(objective):
    result = only(near(torch.arange(4), 1, 0.0), [0, 1, 2, 3], Exponential(3.0), objective)
    assert result.losses["ucl"] == pytest.approx(result.losses["scl"], rel=1e-12)
    assert result.losses["hucl"] == pytest.approx(result.losses["hscl"], rel=1e-12)
    assert result.losses["hucl"] > result.losses["ucl"]
    assert result.effective_hucl == pytest.approx(result.effective_hscl, rel=1e-12)
    assert_is(result, {
        "assumption_1": NAN, "lemma_1": NAN, "defined": 0, "alone": 8, "spared": 0,
        "unopposed": 0, "losses": result.losses, "common": 8, "collisions": NAN,
        "negatives": NAN, "effective_hucl": result.effective_hucl,
        "effective_hscl": result.effective_hscl, "same_label_weight": 0.0,
        "others": 6, "other_labels": 6,
    })  # fmt: skip


def test_collisions_that_are_all_spared_leave_two_losses():
    # Of one class: opposite ones. Of two: a right angle, at which cosine 0 passes the threshold.
    z = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    result = only(z, [0, 0, 1, 1], Threshold(-0.5))
    # A view's others: two of its class at cosine −1, four of the other at 0; t⁺ = 1 / γ.
    plain = (2 * math.exp(-2) + 4) / 6
    ucl, rest = (math.log1p(6 * math.exp(-2) * mean) for mean in (plain, 1.0))
    assert_is(result, {
        "assumption_1": NAN, "lemma_1": NAN, "defined": 0, "alone": 0, "spared": 8,
        "unopposed": 0, "losses": {"ucl": ucl, "scl": rest, "hucl": rest, "hscl": rest},
        "common": 8, "collisions": NAN, "negatives": NAN, "effective_hucl": 4.0,
        "effective_hscl": 4.0, "same_label_weight": 0.0,
        "others": 6, "other_labels": 4,
    })  # fmt: skip


def test_all_others_spared_leave_nothing_but_counts():
    z = torch.eye(4)
    result = only(z, [0, 0, 1, 1], Threshold(0.5))
    assert_is(result, {
        "assumption_1": NAN, "lemma_1": NAN, "defined": 0, "alone": 0, "spared": 8,
        "unopposed": 0, "losses": NOTHING, "common": 0, "collisions": NAN, "negatives": NAN,
        "effective_hucl": NAN, "effective_hscl": NAN, "same_label_weight": NAN,
        "others": 6, "other_labels": 4,
    })  # fmt: skip


@pytest.mark.parametrize("objective", ["infonce", "jsd"])
@pytest.mark.parametrize("name", ETAS)
def test_a_single_item_has_nobody(name, objective):
    result = only(torch.tensor([[0.6, 0.8]]), [0], HARDENINGS[name], objective)
    assert_is(result, {
        "assumption_1": NAN, "lemma_1": NAN, "defined": 0, "alone": 2, "spared": 0,
        "unopposed": 0, "losses": NOTHING, "common": 0, "collisions": NAN, "negatives": NAN,
        "effective_hucl": NAN, "effective_hscl": NAN, "same_label_weight": NAN,
        "others": 0, "other_labels": 0,
    })  # fmt: skip


@pytest.mark.parametrize("objective", ["infonce", "jsd"])
@pytest.mark.parametrize("name", ["none", "beta=1"])
def test_nothing_but_nan_holds_nowhere_and_has_no_number(name, objective):
    scores = CASES["two-view", objective, 0.0][0][0]
    broken = scores._replace(t=scores.t * NAN, t_pos=scores.t_pos * NAN)
    result = diagnose([broken], {name: HARDENINGS[name]})[name]
    assert result.assumption_1 == result.lemma_1 == 0
    for value in (*result.losses.values(), result.collisions, result.negatives):
        assert math.isnan(value)


@pytest.mark.parametrize("beta", [0.0, 1.0, 30.0])
def test_a_collapsed_encoder_takes_everybody_and_holds_with_equality(beta):
    result = only(torch.ones(6, 2), [0, 0, 1, 1, 1, 2], Exponential(beta))
    assert result.assumption_1 == result.lemma_1 == 1.0
    assert result.collisions == pytest.approx(math.exp(2), rel=1e-12)
    assert result.negatives == pytest.approx(math.exp(2), rel=1e-12)
    assert result.effective_hucl == pytest.approx(10)
    # Others of another label: 8 of four views, 6 of six, 10 of the two that are alone.
    assert result.effective_hscl == pytest.approx((4 * 8 + 6 * 6 + 2 * 10) / 12)
    assert result.same_label_weight == pytest.approx((4 * 0.2 + 6 * 0.4) / 12)
    assert (result.defined, result.alone) == (10, 2)


def test_no_batches_and_two_objectives_are_named():
    (infonce, _), (jsd, _) = (CASES["two-view", kind, 0.0][0] for kind in ("infonce", "jsd"))
    with pytest.raises(InputError, match=r"objective.*\[\]"):
        diagnose([], {"none": None})
    with pytest.raises(InputError, match=r"objective.*\['infonce', 'jsd'\]"):
        diagnose([infonce, jsd], {"none": None})
    assert diagnose([infonce], {}) == {}
