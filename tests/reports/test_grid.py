"""What hardness adds, how hard negatives are, and what shorter runs chose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from gcl_hard.experiments.choice import choices
from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.images.settings import ImageConfig
from gcl_hard.links.settings import LinkConfig
from gcl_hard.reports.frame import Results
from gcl_hard.reports.grid import (
    choice_lines,
    effective,
    gain_figure,
    gain_table,
    gains,
    negatives_table,
)
from gcl_hard.theory.snapshots import OWN
from tests.experiments import record

GAMMAS, BETAS = (0.1, 0.5), (0.25, 1.0)


def configs() -> list[RunConfig]:
    plain = [ImageConfig(method="scl", temperature=g) for g in GAMMAS]
    return [*plain, *(ImageConfig(temperature=g, beta=b) for b in BETAS for g in GAMMAS)]


def accuracy(config: RunConfig) -> float:
    """Distinct for every cell; the highest at γ = 0.5 and β = 0.25."""
    return 50 + 10 * (config.temperature or 0) + ((config.beta or 0) == 0.25) + (config.beta or 0)


def result(run: Run, **changed: Any) -> RunResult:
    scores = [accuracy(run.config) + run.seed]
    return record(run.config, run.seed, scores, inner=run.inner, **changed)


def results(**changed: Any) -> Results:
    runs = [Run(config, seed) for config in configs() for seed in (0, 1)]
    return Results(configs(), (0, 1), {run: result(run, **changed) for run in runs})


def by_trials() -> Results:
    runs = {config: Run(config, 0, inner=True) for config in configs()}
    records = {run: result(run) for run in runs.values()}
    chosen = [best for choice in choices(runs, records) if (best := choice.best) is not None]
    return Results(chosen, (0,), records, shorter=runs)


def test_annealed_hardness_is_that_of_the_last_epoch() -> None:
    config = ImageConfig(beta=2.0, beta_changes=2)
    settings = {
        "beta=2": {"effective_hscl": 4.0, "other_labels": 10.0},
        OWN: {"effective_hscl": 10.0, "other_labels": 10.0, "setting": "beta=0"},
    }
    seen = [{"epoch": config.epochs, "settings": settings}]
    assert effective(record(config, 0, [50.0], diagnostics=seen), config) == 100.0


def test_the_table_of_negatives_has_means_over_seeds_of_the_last_epoch() -> None:
    """Of scl, which hardens nothing, the overlap alone; what is not defined has no number."""
    first = {"effective_hscl": 30.0, "other_labels": 120.0, "assumption_1": 0.5}
    second = first | {"effective_hscl": 60.0, "assumption_1": None}
    asked = [ImageConfig(method="scl"), ImageConfig(temperature=0.5, beta=0.25)]
    records = {
        Run(c, seed): result(Run(c, seed), diagnostics=[
            {"epoch": 1, "settings": {}, "geometry": {}},
            {"epoch": 2, "settings": {OWN: accuracies}, "geometry": {"overlap": 0.2 + 0.4 * seed}},
        ])
        for c in asked for seed, accuracies in enumerate((first, second))
    }  # fmt: skip
    table = negatives_table(Results(asked, (0, 1), records), "split", [asked[0].dataset])
    assert table.drop(columns=["data set", "setting"]).to_numpy().tolist() == [
        ["scl", "–", "–", "40.0 %"], ["hscl", "37.5 %", "50.0 %", "40.0 %"],
    ]  # fmt: skip
    assert negatives_table(results(), "split", ["CIFAR10"]).empty


def test_the_best_of_the_shorter_runs_is_chosen() -> None:
    outcome = by_trials()
    best = [(c.method, c.temperature, c.beta) for c in outcome.configs]
    assert best == [("scl", 0.5, None), ("hscl", 0.5, 0.25)]
    lines = choice_lines(outcome)
    assert list(lines["settings tried"]) == ["2", "4"]


@pytest.mark.parametrize(
    ("rates", "chosen", "text"),
    [
        ((1, 2, 4), 4, "b=4‡"),
        ((4, 2, 1), 1, "b=1‡"),
        ((1, 2, 4), 2, "b=2"),
        ((2,), 2, ""),
    ],
)
def test_a_chosen_value_at_an_end_of_what_was_compared_is_marked(
    rates: tuple[float, ...], chosen: float, text: str
) -> None:
    """Beside a regularisation of 0, the least that there is, which is no end to go beyond."""
    asked = [
        LinkConfig("UMLS", "ucl", objective="jsd", bias=b, n3=n) for b in rates for n in (0.0, 1.0)
    ]
    runs: dict[RunConfig, Run] = {config: Run(config, 0, inner=True) for config in asked}
    records = {
        run: record(config, 0, [50.0 - abs(config.bias - chosen) - config.n3], inner=True)
        for config, run in runs.items()
    }
    outcome = Results([], (0,), records, shorter=runs)
    assert choice_lines(outcome)["chosen"].tolist() == [f"{text} λ=0".strip()]
    assert choices(runs, {})[0].ends == set()


def test_a_gain_is_the_paired_difference_at_equal_settings() -> None:
    noisy = [
        ImageConfig(method=m, temperature=g, label_noise=n, beta=1.0)
        for m in ("scl", "hscl") for g in GAMMAS for n in (0.0, 0.4)
    ]  # fmt: skip
    scores = {
        Run(c, seed): 60 + seed * (3 if c.method == "scl" else 5) + 7 * (c.method == "hscl")
        for c in noisy for seed in (0, 1, 2)
    }  # fmt: skip
    records = {run: record(run.config, run.seed, [score]) for run, score in scores.items()}
    data = gains(Results(noisy, (0, 1, 2), records))
    assert list(data["setting"]) == [
        "γ=0.1 label-noise=0", "γ=0.1 label-noise=0.4", "γ=0.5 label-noise=0",
        "γ=0.5 label-noise=0.4",
    ]  # fmt: skip
    # Differences 7, 9 and 11: mean 9, and t of 2 degrees at 97.5 % times 2 / √3.
    half = float(student.ppf(0.975, 2)) * 2 / 3**0.5
    for line in data.itertuples():
        assert (line.mean, line.low, line.high) == pytest.approx((9, 9 - half, 9 + half))
    text = f"+9.0 [{9 - half:+.1f},\N{NO-BREAK SPACE}{9 + half:+.1f}]"
    assert gain_table(data)["points"].tolist() == [text] * 4
    figure = gain_figure(data)
    assert figure is not None
    (panel,) = figure.axes
    settings = list(data["setting"])
    points = [line.get_xdata() for line in panel.get_lines() if line.get_label() in settings]
    assert np.ravel(points) == pytest.approx([9.0] * 4)
    assert [tick.get_text() for tick in panel.get_yticklabels()] == list(data["setting"])


def test_without_its_plain_method_or_a_second_seed_there_is_no_gain() -> None:
    hard = [ImageConfig(beta=b) for b in BETAS]
    assert gains(Results(hard, (0,), {Run(c, 0): record(c, 0, [50.0]) for c in hard})).empty
    pair = [ImageConfig(method="scl"), *hard]
    assert gains(Results(pair, (0,), {Run(c, 0): record(c, 0, [50.0]) for c in pair})).empty
