"""A study as people speak of it, and what of it can be drawn."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import optuna
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.storages import InMemoryStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial

from gcl_hard.reports.study import complete
from gcl_hard.reports.text import (
    BETA,
    TEMPERATURE,
    setting,
)
from gcl_hard.tuning.lease import GRID


@contextmanager
def quiet() -> Iterator[None]:
    """Without Optuna's log and without warnings that are about its own code, or of no use here."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            for category in (ExperimentalWarning, FutureWarning, UserWarning):
                warnings.simplefilter("ignore", category)
            yield
    finally:
        optuna.logging.set_verbosity(before)


def spoken(study: Study) -> Study:
    """A copy in memory whose settings are called as people call them.

    Of the attributes of its trials only that of the grid is kept: the others are about
    workers.

    Args:
        study: of accuracies.

    Returns:
        The copy, with the numbers and times of the trials.
    """
    with quiet():
        storage = InMemoryStorage()
        study_id = storage.create_new_study([StudyDirection.MAXIMIZE], study.study_name)
        for trial in study.get_trials(deepcopy=False):
            storage.create_new_trial(study_id, _spoken(trial))
        return optuna.load_study(study_name=study.study_name, storage=storage)


def _spoken(trial: FrozenTrial) -> FrozenTrial:
    return FrozenTrial(
        number=trial.number,
        state=trial.state,
        value=trial.value,
        datetime_start=trial.datetime_start,
        datetime_complete=trial.datetime_complete,
        params={setting(name): value for name, value in trial.params.items()},
        distributions={setting(name): d for name, d in trial.distributions.items()},
        user_attrs={GRID: True} if trial.user_attrs.get(GRID) else {},
        system_attrs={},
        intermediate_values=trial.intermediate_values,
        trial_id=-1,  # the storage gives it one
    )


def importances(study: Study) -> dict[str, float]:
    """How much of the differences between scores a setting explains, most first; they sum to 1.

    Returns:
        Shares by setting; empty where the trials do not tell settings apart.
    """
    trials = complete(study)
    if len({trial.value for trial in trials}) < 2:
        return {}
    with quiet():
        found = optuna.importance.get_param_importances(study)
    return found if len(set(found.values())) > 1 else {}


def plane(study: Study) -> tuple[str, str] | None:
    """The two settings that a contour is drawn over.

    β and the temperature if both were searched, else the two most important numbers that occur
    together.

    Returns:
        Their names; None where no two vary together.
    """
    trials = complete(study)
    numbers = {
        name
        for trial in trials
        for name, distribution in trial.distributions.items()
        if isinstance(distribution, FloatDistribution | IntDistribution)
    }
    first = [TEMPERATURE, BETA] if {TEMPERATURE, BETA} <= numbers else []
    ranked = dict.fromkeys([*first, *importances(study), *sorted(numbers)])
    for pair in itertools.combinations([name for name in ranked if name in numbers], 2):
        both = [trial for trial in trials if {*pair} <= set(trial.params)]
        seen = [{trial.params[name] for trial in both} for name in pair]
        if all(len(found) > 1 for found in [*seen, {trial.value for trial in both}]):
            return pair
    return None
