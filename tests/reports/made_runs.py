"""Made-up runs: snapshots, results on the disk, points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.experiments.store import Store
from gcl_hard.reports.theme import Drawn
from tests.experiments import record


class Shown(NamedTuple):
    """A figure, its rows with None for what is not defined, and its caption."""

    figure: Figure
    rows: list[dict[str, Any]]
    note: str


def shown(draw: Callable[..., Drawn]) -> Callable[..., Shown]:
    """A figure's function, giving :class:`Shown`."""

    def drawn(*arguments: Any, **options: Any) -> Shown:
        figure = draw(*arguments, **options)
        data = figure.data.astype(object).where(figure.data.notna(), None)
        return Shown(figure.figure, data.to_dict("records"), figure.note)

    return drawn


SETTINGS = ("l=-0.25", "l=-0.05", "beta=1", "beta=2")
GEOMETRY = (
    "alignment", "uniformity", "effective_rank", "nc1", "equinorm", "equiangular_spread",
    "equiangular_gap", "cdnv", "packing", "least_angle", "widest_angle", "overlap",
)  # fmt: skip


def snapshot(
    epoch: int, *, seed: int = 0, hardening: str | None = None, histograms: bool = False,
    anchors: int = 64,
) -> dict[str, Any]:  # fmt: skip
    """One epoch's snapshot, different for every epoch and seed; H-SCL below H-UCL by 0.2."""
    rng = np.random.default_rng([seed, epoch])
    settings = {name: _setting(rng, anchors) for name in SETTINGS}
    if hardening is not None:
        settings["own"] = {**_setting(rng, anchors), "setting": hardening}
    content: dict[str, Any] = {
        "epoch": epoch, "anchors": anchors, "settings": settings,
        "geometry": {name: float(rng.uniform(0, 1)) for name in GEOMETRY},
    }  # fmt: skip
    if histograms:
        content["histograms"] = {
            "same": rng.multinomial(500, _bell(0.6)).tolist(),
            "different": rng.multinomial(900, _bell(0.1)).tolist(),
        }
    return content


def _setting(rng: np.random.Generator, anchors: int) -> dict[str, Any]:
    ucl, scl = rng.uniform(3, 4), rng.uniform(2, 3)
    fraction = float(rng.uniform(0.9, 1))
    return {
        "assumption_1": fraction, "defined": anchors - 6, "alone": 4, "spared": 2, "unopposed": 0,
        "lemma_1": fraction,
        "losses": {"ucl": ucl, "scl": scl, "hucl": ucl + 0.5, "hscl": ucl + 0.3},
        "common": anchors - 6, "collisions": 1.44, "negatives": 0.99, "effective_hucl": 31.2,
        "effective_hscl": 20.1, "same_label_weight": 0.55, "others": 62.0, "other_labels": 32.0,
    }  # fmt: skip


def _bell(middle: float) -> Any:
    centres = (np.arange(50) + 0.5) / 25 - 1
    weights = np.exp(-((centres - middle) ** 2) / 0.1)
    return weights / weights.sum()


def snapshots(
    epochs: Sequence[int], *, seed: int = 0, hardening: str | None = None
) -> list[dict[str, Any]]:
    """Snapshots of a run; the last has the histograms."""
    return [snapshot(e, seed=seed, hardening=hardening, histograms=e == epochs[-1]) for e in epochs]


def run(
    config: RunConfig, seed: int = 0, *, epochs: Sequence[int] = (),
    accuracies: Sequence[float] = (80.0,), curve: Sequence[tuple[int, float]] = (),
    hardening: str | None = None, version: str | None = None,
) -> RunResult:  # fmt: skip
    """A run without a file."""
    return record(
        config, seed, list(accuracies), curve=[list(point) for point in curve],
        diagnostics=snapshots(epochs, seed=seed, hardening=hardening),
        versions={} if version is None else {"source": version},
    )  # fmt: skip


def stored(
    config: RunConfig, seed: int = 0, *, epochs: Sequence[int] = (),
    accuracies: Sequence[float] = (80.0,),
    curve: Sequence[Sequence[float]] = (), hardening: str | None = None, inner: bool = False,
    version: str = "0a", finished: str = "2026-01-01T00:00:00+00:00",
) -> dict[str, Any]:  # fmt: skip
    """A run's result as its file holds it."""
    result = record(
        config, seed, list(accuracies), data={}, versions={"source": version}, finished=finished,
        inner=inner, curve=[list(point) for point in curve],
        diagnostics=snapshots(epochs, seed=seed, hardening=hardening),
    )  # fmt: skip
    return result.stored()


def save(folder: Path, config: RunConfig, seed: int = 0, **options: Any) -> Path:
    """Store a result made by :func:`stored`; gives its file."""
    content = stored(config, seed, **options)
    store, key = Store(folder), Run(config, seed, options.get("inner", False))
    store.put(key, RunResult.read(content))
    return store.path(key)
