"""A hardening on some batches against the paper's loops, and where there is nothing to say."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from gcl_hard import Custom, Exponential, InputError, Threshold
from gcl_hard.theory.assumptions import Diagnosis, diagnose
from gcl_hard.theory.similarity import ScoreTable, local_global_scores, two_view_scores
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


@pytest.mark.parametrize("objective", ["infonce", "jsd"])
def test_a_single_item_has_nobody(objective):
    result = only(torch.tensor([[0.6, 0.8]]), [0], Exponential(1.0), objective)
    assert_is(result, {
        "assumption_1": NAN, "lemma_1": NAN, "defined": 0, "alone": 2, "spared": 0,
        "unopposed": 0, "losses": NOTHING, "common": 0, "collisions": NAN, "negatives": NAN,
        "effective_hucl": NAN, "effective_hscl": NAN, "same_label_weight": NAN,
        "others": 0, "other_labels": 0,
    })  # fmt: skip


def test_no_batches_and_two_objectives_are_named():
    (infonce, _), (jsd, _) = (CASES["two-view", kind, 0.0][0] for kind in ("infonce", "jsd"))
    with pytest.raises(InputError, match=r"objective.*\[\]"):
        diagnose([], {"none": None})
    with pytest.raises(InputError, match=r"objective.*\['infonce', 'jsd'\]"):
        diagnose([infonce, jsd], {"none": None})
    assert diagnose([infonce], {}) == {}
