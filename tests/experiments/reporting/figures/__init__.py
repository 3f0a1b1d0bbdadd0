"""Hand-made lines of figures, and what was drawn of them."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gcl_hard.reports.frame import (
    Scores,
)
from gcl_hard.reports.rows import (
    Kind,
    Row,
)

SETS = ("MUTAG", "PTC_MR", "ENZYMES")


def scores(mean: float, seeds: int = 2) -> Scores:
    return Scores(tuple(range(seeds)), ((mean - 3.0, mean, mean + 3.0),) * seeds)


def line(
    method: str, mean: float | None, kind: Kind = "fixed", *, dataset: str = "MUTAG",
    setting: str = "", beta: float | None = None, paper: float | None = None, n: int = 2,
) -> Row:  # fmt: skip
    found = None if mean is None else scores(mean, n)
    setting = setting if beta is None else f"β={beta:g}"
    curve = () if mean is None else ((1, mean - 5.0), (2, mean))
    return Row(
        dataset, method, "paper", kind, setting, found, 2, paper=paper, beta=beta, curve=curve
    )


def drawn(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    return {
        str(artist.get_label()): (list(artist.get_xdata()), list(artist.get_ydata()))  # type: ignore[arg-type]
        for artist in axes.get_lines()
    }


def made(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


# Ranks

MEANS = {"ucl": (80.0, 60.0, 50.0), "scl": (82.0, 61.0, 49.0), "hucl": (79.0, 59.0, 40.0),
         "wl": (85.0, 64.0, 30.0)}  # fmt: skip


def ranked(changed: Sequence[Row] = (), **means: Sequence[float | None]) -> list[Row]:
    found = [
        line(method, mean, "baseline" if method == "wl" else "fixed", dataset=dataset)
        for method, row in {**MEANS, **means}.items()
        for dataset, mean in zip(SETS, row, strict=True)
    ]
    return [*found, *changed]
