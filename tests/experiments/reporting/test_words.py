"""Numbers and settings as words."""

from __future__ import annotations

from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.reporting.words import points, values


def test_points_have_a_sign_and_zero_is_positive() -> None:
    assert [points(v) for v in (1.26, -1.26, -0.01)] == ["+1.3", "-1.3", "+0.0"]


def test_values_of_a_setting() -> None:
    cells = [GraphCell(beta=b, contrast="two-view") for b in (10.0, 1.0, 10.0)]
    assert values(cells, "beta") == "10, 1"
    assert values(cells, "augmentations") == "mask-attributes+perturb-edges"
    assert values(cells, "standardise") == "true"
    assert values([GraphCell(method="ucl")], "beta") == ""
