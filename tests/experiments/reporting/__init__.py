"""Hand-made lines, of which every format shows its part."""

from __future__ import annotations

from gcl_hard.experiments.lines import Comparison, Kind, Line
from gcl_hard.experiments.results import Scores

SCORES = Scores((0, 1), ((80.0, 90.0, 85.0), (70.0, 71.0, 78.0)))  # means 85 and 73


LABEL_AWARE = ("scl", "hscl", "hscl-tau")


def line(
    method: str = "hscl",
    kind: Kind = "fixed",
    *,
    dataset: str = "PTC_MR",
    protocol: str = "paper",
    setting: str = "",
    scores: Scores | None = SCORES,
    expected: int = 2,
    **rest: object,
) -> Line:
    rest = {"reads_labels": method in LABEL_AWARE, **rest}
    return Line(dataset, method, protocol, kind, setting, scores, expected, **rest)  # type: ignore[arg-type]


def differs(p: float, difference: float = 4.25) -> dict[str, Comparison]:
    return {"ucl": Comparison("ucl", 2, difference, p, 0.5)}


OPEN = line(scores=None, setting="β=10", paper=57.7)
FULL = line(
    "scl",
    paper=55.8,
    seconds=46.0,
    tests={**differs(0.012345), "scl": Comparison("scl", 2, -1, 1, None)},
)
BEST = line(kind="best", setting="β=2", optimism=1.5, expected=5)
LINES = [FULL, OPEN, BEST, line("majority", "floor", protocol="inductive")]
