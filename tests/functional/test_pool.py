"""Anchors and hard positives against exhaustive search."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from gcl_hard import HardPositives, InputError


def pool(views, items, d=4, seed=0):
    z = torch.randn(views, items, d, generator=torch.Generator().manual_seed(seed)).double()
    return z / z.norm(dim=2, keepdim=True)


@pytest.mark.parametrize(("views", "number"), [(2, 2), (5, 2), (6, 3), (6, 5), (4, 4)])
def test_each_step_is_the_best_of_all_choices(views, number):
    z = pool(views, 20)
    for item, chosen in enumerate(HardPositives(number).choose(z).tolist()):
        apart = -(z[:, item] @ z[:, item].T)
        hardness = [
            sum(float(apart[u, v]) for v in range(views) if v != u) / (views - 1)
            for u in range(views)
        ]
        assert hardness[chosen[0]] == max(hardness)
        for n in range(1, number):
            before = chosen[:n]
            reach = {
                u: min(float(apart[u, v]) for v in before) for u in range(views) if u not in before
            }
            assert reach[chosen[n]] == max(reach.values())


@pytest.mark.parametrize("number", [3, 4])
def test_the_set_is_at_least_half_as_spread_as_the_best_with_its_anchor(number):
    z = pool(8, 30, d=3)
    for item, (anchor, *others) in enumerate(HardPositives(number).choose(z).tolist()):
        distance = torch.cdist(z[:, item], z[:, item])

        def spread(views, distance=distance):
            return min(float(distance[u, v]) for u, v in combinations(views, 2))

        rest = [v for v in range(8) if v != anchor]
        best = max(spread([anchor, *more]) for more in combinations(rest, number - 1))
        assert spread([anchor, *others]) >= best / 2


def test_parts_can_be_left_out():
    z = pool(5, 20)
    plain = HardPositives(3, dynamic_anchor=False, farthest=False).choose(z)
    assert (plain == torch.tensor([0, 1, 2])).all()
    fixed = HardPositives(3, dynamic_anchor=False).choose(z)
    assert (fixed[:, 0] == 0).all()
    assert (fixed[:, 1] != 1).any()
    first = HardPositives(3, farthest=False).choose(z)
    assert torch.equal(first[:, 0], HardPositives(3).choose(z)[:, 0])
    for anchor, *others in first.tolist():
        assert others == [v for v in range(5) if v != anchor][:2]


def test_more_positives_than_views_and_fewer_than_two_are_refused():
    with pytest.raises(InputError, match=r"\b4 .*positives.*\b3\b"):
        HardPositives(4).choose(pool(3, 2))
    with pytest.raises(InputError, match=r"positives.*\b2\b.*\b1\b"):
        HardPositives(1)
