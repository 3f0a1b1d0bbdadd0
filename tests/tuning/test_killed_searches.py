"""A search whose driver is killed at any moment asks what an undisturbed one asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import optuna
import pytest
from optuna.trial import TrialState

from gcl_hard.tuning.options import PerTrialSeed, SamplerName, sampler
from gcl_hard.tuning.storage import (
    DEATHS,
    DRAWN,
    opened,
    positions,
    put_back_orphans,
    url_of,
    waiting,
)

TRIALS, SIZE = 24, 3  # beyond the ten that TPE draws at random
Found = dict[int, tuple[tuple[Any, ...], float]]


class Killed(BaseException):
    """Nothing is written after it."""


class Moments:
    """Moments at which a driver may be killed; the numbered ones kill it."""

    def __init__(self, *fatal: int) -> None:
        self.fatal, self.n = set(fatal), 0

    def __call__(self) -> None:
        self.n += 1
        if self.n in self.fatal:
            raise Killed


def drive(study: optuna.Study, moment: Moments) -> None:
    """What a driver does: draws a batch, trains it, stores the scores."""
    ours: Any = study.sampler
    while True:
        ended = len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
        if ended >= TRIALS:
            return
        ours.size, batch = min(SIZE, TRIALS - ended), list[optuna.Trial]()
        for _ in range(ours.size):
            if batch and not ours.goes_on(study, batch[-1].number):
                break
            batch.append(study.ask())
            moment()
            batch[-1].suggest_float("lr", 1e-4, 0.1, log=True)
            moment()
            batch[-1].suggest_float("beta", 0.1, 20)
            moment()
            batch[-1].set_user_attr(DRAWN, batch[-1].number)
            moment()
        for trial in batch:
            study.tell(trial, trial.params["beta"] - 100 * trial.params["lr"])
            moment()


def close(study: optuna.Study) -> None:
    """End the connections to a database, as the end of a process does."""
    base = getattr(study._storage, "_backend", None)
    if hasattr(base, "engine"):
        base.scoped_session.remove()
        base.engine.dispose()


def searched(
    name: SamplerName, moment: Moments, monkeypatch: pytest.MonkeyPatch, url: str | None = None
) -> Found:
    """Settings and scores of a search by their positions, gone on with whenever it is killed."""
    before = PerTrialSeed.before_trial

    def around(self: PerTrialSeed, *arguments: Any) -> None:
        moment()  # the trial is there, and nothing of it
        before(self, *arguments)
        moment()

    title = f"killed at {sorted(moment.fatal)}"

    def driver() -> optuna.Study:
        return optuna.create_study(
            direction="maximize", study_name=title, load_if_exists=True,
            storage=url and opened(url),
        )  # fmt: skip

    study = driver()
    study.enqueue_trial({"beta": 1.0})
    with monkeypatch.context() as patched:
        patched.setattr(PerTrialSeed, "before_trial", around)
        while True:
            study.sampler = sampler(name, 7)
            try:
                put_back_orphans(study)
                drive(study, moment)
                break
            except Killed:
                if url is not None:
                    close(study)
                    study = driver()
    assert not waiting(study)
    trials = study.get_trials(deepcopy=False)
    if url is not None:
        close(study)
    return {
        at: (tuple(sorted(trial.params.items())), float(trial.value or 0))
        for trial, at in zip(trials, positions(trials), strict=True)
        if trial.state == TrialState.COMPLETE
    }


@pytest.mark.parametrize("name", get_args(SamplerName))
@pytest.mark.parametrize(
    "kills",
    [
        lambda last: [(k,) for k in range(1, last, 11)],
        lambda last: [(k, k + 2) for k in range(3, last, 29)],
        lambda last: [(k, k + 1, k + 9, k + 10) for k in range(60, last, 37)],
    ],
    ids=["one", "two", "four"],
)
def test_a_killed_search_is_the_same_search(
    name: SamplerName,
    kills: Callable[[int], list[tuple[int, ...]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    undisturbed = Moments()
    whole = searched(name, undisturbed, monkeypatch)
    assert sorted(whole) == [*range(TRIALS)]
    assert whole[0][0][0] == ("beta", 1.0)
    for fatal in kills(undisturbed.n):
        assert searched(name, Moments(*fatal), monkeypatch) == whole, fatal


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Heartbeat of storage")  # which drivers of ours have
@pytest.mark.parametrize("kind", ["db", "journal", "postgres"])
def test_a_killed_search_is_the_same_search_in_any_storage(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else None
    url = url or url_of(f"{tmp_path}/s.{kind}", tmp_path, "s")
    undisturbed = Moments()
    whole = searched("tpe", undisturbed, monkeypatch)
    assert searched("tpe", Moments(), monkeypatch, url) == whole
    fatal = [(k, k + 1, k + 5) for k in range(7, undisturbed.n, undisturbed.n // 19)]
    assert len(fatal) >= 18
    for moments in fatal:
        assert searched("tpe", Moments(*moments), monkeypatch, url) == whole, moments


def test_a_batch_does_not_see_itself() -> None:
    """Its draws are the same whatever the order in which its trials end."""
    drawn = []
    for reverse in (False, True):
        study = optuna.create_study(direction="maximize", sampler=sampler("tpe", 1))
        ours: Any = study.sampler
        ours.size = 6
        for _ in range(3):
            batch = [study.ask() for _ in range(6)]
            for trial in batch[:3]:
                trial.suggest_float("beta", 0.1, 20)
            if reverse:
                study.tell(batch[0], batch[0].params["beta"])
            for trial in batch[3:]:
                trial.suggest_float("beta", 0.1, 20)
            for trial in batch[1 if reverse else 0 :]:
                study.tell(trial, trial.params["beta"])
        drawn.append([trial.params for trial in study.trials])
    assert drawn[0] == drawn[1]


def test_deaths_are_counted_only_in_training() -> None:
    study = optuna.create_study(sampler=sampler("random", 0))
    for _ in range(4):  # while it is drawn
        study.ask().suggest_float("beta", 0.1, 20)
        put_back_orphans(study)
    (again,) = waiting(study)
    assert DEATHS not in again.user_attrs
    trial = study.ask()
    trial.suggest_float("beta", 0.1, 20)
    trial.set_user_attr(DRAWN, trial.number)
    put_back_orphans(study)
    study.ask()  # and dies before it is drawn again
    put_back_orphans(study)
    assert waiting(study)[0].user_attrs[DEATHS] == 1
