"""Samplers that never repeat a trial, and pruners with what a step is for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import optuna
import pytest
from optuna.samplers import BaseSampler, RandomSampler
from optuna.storages import InMemoryStorage
from optuna.trial import Trial, TrialState

from gcl_hard.experiments.trials import REPORTS, Inner
from gcl_hard.tuning.options import (
    STEPS,
    WILCOXON_FOLDS,
    BatchSampler,
    PrunerName,
    SamplerName,
    pruner,
    sampler,
)

SAMPLERS = get_args(SamplerName)
BEST = (0.003, 4.0)
EPOCHS = 50


def draw(trial: Trial) -> tuple[float, float]:
    return (
        trial.suggest_float("lr", 1e-4, 0.1, log=True),
        trial.suggest_float("beta", 0.1, 20, log=True),
    )


def score(values: tuple[float, float]) -> float:
    """A hill in the space."""
    steps = ((mine - best) / best for mine, best in zip(values, BEST, strict=True))
    return 100 - sum(min(abs(step), 10.0) for step in steps)


def study(by: BaseSampler, storage: Any = None, name: str = "study") -> optuna.Study:
    return optuna.create_study(
        storage=storage, study_name=name, direction="maximize", sampler=by, load_if_exists=True
    )


def go_on(with_study: optuna.Study, n: int, at_once: int = 1) -> None:
    """Ask and tell, as a driver does."""
    for _ in range(0, n, at_once):
        if isinstance(with_study.sampler, BatchSampler):
            with_study.sampler.begin()
        asked = [with_study.ask() for _ in range(at_once)]
        for trial, values in [(trial, draw(trial)) for trial in asked]:
            with_study.tell(trial, score(values))


def drawn(searched: optuna.Study) -> list[tuple[float, float]]:
    return [(trial.params["lr"], trial.params["beta"]) for trial in searched.trials]


# Samplers


@pytest.mark.parametrize("name", SAMPLERS)
def test_one_seed_gives_one_study(name: SamplerName) -> None:
    first, second, other = (study(sampler(name, seed)) for seed in (3, 3, 4))
    for searched in (first, second, other):
        go_on(searched, 25)
    assert drawn(first) == drawn(second)
    assert not {*drawn(first)} & {*drawn(other)}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("stopped", [1, 7, 15])
def test_a_study_that_is_gone_on_with_is_the_undisturbed_one(
    name: SamplerName, stopped: int
) -> None:
    undisturbed = study(sampler(name, 0))
    go_on(undisturbed, 25)
    storage = InMemoryStorage()
    go_on(study(sampler(name, 0), storage), stopped)
    after = study(sampler(name, 0), storage)
    go_on(after, 25 - stopped)
    assert drawn(after) == drawn(undisturbed)
    assert len({*drawn(after)}) == 25


def two_drivers(make: Callable[[], BaseSampler]) -> list[tuple[float, float]]:
    """What two processes draw that share a study: each has a sampler of its own, one seed."""
    storage = InMemoryStorage()
    drivers = [study(make(), storage) for _ in range(2)]
    for _ in range(15):
        asked = [(driver, driver.ask()) for driver in drivers]
        for driver, trial in asked:
            driver.tell(trial, score(draw(trial)))
    return drawn(drivers[0])


@pytest.mark.parametrize("name", SAMPLERS)
def test_drivers_of_one_study_never_draw_the_same(name: SamplerName) -> None:
    assert len({*two_drivers(lambda: sampler(name, 0))}) == 30
    assert len({*two_drivers(lambda: RandomSampler(0))}) == 15  # what would happen otherwise


def test_conditional_and_worded_settings_are_drawn() -> None:
    searched = study(sampler("tpe", 0))
    for _ in range(20):
        trial = searched.ask()
        method = trial.suggest_categorical("method", ("ucl", "hscl"))
        value = trial.suggest_float("beta", 0.1, 20) if method == "hscl" else 0.5
        searched.tell(trial, value)
    with_beta = [trial for trial in searched.trials if "beta" in trial.params]
    assert 0 < len(with_beta) < 20
    assert len({trial.params["beta"] for trial in with_beta}) == len(with_beta)


# Pruners


def run(by: PrunerName, inner: Inner, scores: Callable[[int], list[float]], n: int) -> optuna.Study:
    """Trials one after the other; ``scores(number)`` are what each would report."""
    searched = optuna.create_study(
        direction="maximize", study_name="pruned", pruner=pruner(by, inner, EPOCHS),
        sampler=RandomSampler(0),
    )  # fmt: skip
    steps = range(inner.folds) if inner.steps == "folds" else (*inner.report_epochs(EPOCHS), EPOCHS)
    for _ in range(n):
        trial = searched.ask()
        reported = list(zip(steps, scores(trial.number), strict=True))
        for step, value in reported[: len(reported) - (inner.steps != "folds")]:
            trial.report(value, step)
            if trial.should_prune():
                searched.tell(trial, state=TrialState.PRUNED)
                break
        else:
            searched.tell(trial, reported[-1][1])
    return searched


def pruned_at(searched: optuna.Study) -> dict[int, int | None]:
    """Steps after which trials left."""
    return {t.number: t.last_step for t in searched.trials if t.state == TrialState.PRUNED}


def looked(by: PrunerName, folds: int = 1) -> Inner:
    return Inner(folds, STEPS[by])


def test_every_pruner_has_its_step() -> None:
    assert set(STEPS) == {*get_args(PrunerName)}
    assert looked("median").report_epochs(EPOCHS) == (10, 20, 30, 40)
    assert looked("hyperband").report_epochs(EPOCHS) == (10, 20, 30, 40)
    assert looked("none").report_epochs(EPOCHS) == ()
    assert looked("wilcoxon", 5).report_epochs(EPOCHS) == ()


@pytest.mark.parametrize("epochs", [1, 2, 3, 500])
@pytest.mark.parametrize("by", ["median", "hyperband"])
def test_short_and_long_trials_can_be_looked_at(by: PrunerName, epochs: int) -> None:
    inner = looked(by)
    searched = optuna.create_study(direction="maximize", pruner=pruner(by, inner, epochs))
    for _ in range(3):
        trial = searched.ask()
        for look in inner.report_epochs(epochs):
            trial.report(50.0, look)
            trial.should_prune()
        searched.tell(trial, 50.0)
    assert len(searched.trials) == 3


def hopeless(folds: int) -> dict[int, int | None]:
    """When a trial leaves that is far worse than the first one in every fold."""

    def scores(n: int) -> list[float]:
        return [(90.0 if n == 0 else 10.0) + 1.5 * (n + 1) * k for k in range(folds)]

    return pruned_at(run("wilcoxon", looked("wilcoxon", folds), scores, 2))


def test_wilcoxon_drops_a_hopeless_trial_before_its_last_fold() -> None:
    assert hopeless(5) == {1: 3}


@pytest.mark.parametrize("folds", [2, 3, 4])
def test_fewer_folds_would_spare_none(folds: int) -> None:
    assert {*hopeless(folds).values()} <= {folds - 1}


def test_wilcoxon_has_the_fewest_folds_that_spare_one() -> None:
    assert WILCOXON_FOLDS == 5 <= REPORTS  # see the two tests above
