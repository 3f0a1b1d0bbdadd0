"""Who makes a study and who may join it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial, TrialState

from gcl_hard.errors import InputError
from gcl_hard.tuning import home as place
from gcl_hard.tuning.home import ABOUT, READY, About, Home
from gcl_hard.tuning.lease import GRID
from gcl_hard.tuning.storage import url_of
from tests.tuning import storages
from tests.tuning.storages import MINE, TRIED, enqueued, join

at = storages.at  # here pytest finds the fixture


@pytest.fixture(params=["a.db", "a.journal"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(str(tmp_path / request.param), tmp_path, "")


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return url_of(str(tmp_path / "a.journal"), tmp_path, "")


# Making and joining


def test_a_study_is_made_with_what_it_is_of_and_its_grid(url: str, at: Callable[..., Home]) -> None:
    study = join(at(url))
    assert study.direction == optuna.study.StudyDirection.MAXIMIZE
    assert study.user_attrs[ABOUT] == MINE.as_json()
    assert study.user_attrs[READY] is True
    assert enqueued(study) == TRIED


def test_folders_are_made(tmp_path: Path, at: Callable[..., Home]) -> None:
    for name in ("a.db", "a.journal"):
        at(url_of(str(tmp_path / "new" / name), tmp_path, ""))
        assert (tmp_path / "new" / name).is_file()


def test_whoever_joins_adds_nothing(url: str, at: Callable[..., Home]) -> None:
    made = join(at(url))
    for _ in range(2):
        assert enqueued(join(at(url))) == TRIED
    trial = made.ask()
    made.tell(trial, trial.suggest_float("beta", 0.1, 20))
    assert enqueued(join(at(url))) == TRIED[1:]


def test_a_place_has_room_for_many_studies(journal: str, at: Callable[..., Home]) -> None:
    join(at(journal, "first"))
    other = join(at(journal, "second"), replace(MINE, dataset="PTC_MR"), [])
    assert enqueued(other) == []
    assert at(journal, "first").found(MINE).study_name == "first"


def test_a_study_is_found_to_be_looked_at(url: str, at: Callable[..., Home]) -> None:
    with pytest.raises(InputError, match=r"there is no study 'study' in .*a\..*: the command"):
        at(url).found(MINE)
    made = join(at(url))
    made.tell(made.ask(), 71.0)
    assert [trial.value for trial in at(url).found(MINE).trials] == [71.0, None, None]
    with pytest.raises(InputError, match="is of MUTAG hscl"):
        at(url).found(replace(MINE, dataset="PTC_MR"))


def test_looking_makes_no_file(url: str, at: Callable[..., Home], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no storage .*a\..*: the command without"):
        at(url, create=False)
    assert list(tmp_path.iterdir()) == []
    join(at(url))
    assert at(url, create=False).found(MINE).study_name == "study"


def test_settings_are_compared_as_they_are_stored(journal: str, at: Callable[..., Home]) -> None:
    words = replace(MINE, settings={"augmentations": ("drop-nodes",), "strength": 0.1 + 0.2})
    assert words.as_json() == json.loads(json.dumps(words.as_json()))
    join(at(journal), words)
    join(at(journal), words)


# Studies of something else


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"dataset": "PTC_MR"}, "dataset MUTAG there, PTC_MR here"),
        ({"method": "hucl"}, "method hscl there, hucl here"),
        ({"protocol": "paper"}, "protocol inductive there, paper here"),
        ({"digest": "def"}, "digest abc there, def here"),
        ({"seed": 1}, "seed 0 there, 1 here"),
        ({"sampler": "random"}, "sampler tpe there, random here"),
        ({"inner": "5 folds"}, "inner a hold-out of 20 % there, 5 folds here"),
        ({"encoder": "Mine"}, "encoder as usual there, Mine here"),
        ({"settings": {"epochs": 20}}, "epochs 50 there, 20 here"),
        ({"settings": {}}, "epochs 50 there, as usual here"),
        ({"settings": {"epochs": 50, "lr": 0.1}}, "lr as usual there, 0.1 here"),
        ({"space": {"beta": "0.1 to 5", "lr": "1"}}, "another search space (beta, lr)"),
        ({"seed": 1, "pruner": "median"}, "pruner none there, median here; seed 0 there, 1 here"),
    ],
)
def test_a_study_of_something_else_says_of_what_and_what_differs(
    at: Callable[..., Home], journal: str, other: dict[str, Any], said: str
) -> None:
    join(at(journal))
    with pytest.raises(InputError) as caught:
        join(at(journal), replace(MINE, **other))
    found = str(caught.value)
    assert found.startswith(f"study 'study' in {journal} is of MUTAG hscl, inductive, and")
    assert f"differs: {said}. Give another --study-name or --storage" in found
    assert len(at(journal).found(MINE).trials) == len(TRIED)


def test_what_follows_from_another_data_set_is_not_listed(
    at: Callable[..., Home], journal: str
) -> None:
    join(at(journal))
    other = replace(MINE, dataset="PTC_MR", method="hucl", digest="def", settings={}, space={})
    with pytest.raises(InputError) as caught:
        join(at(journal), other)
    said = "differs: dataset MUTAG there, PTC_MR here; method hscl there, hucl here. Give"
    assert said in str(caught.value)


def test_a_study_that_is_not_of_ours_is_left_alone(at: Callable[..., Home], journal: str) -> None:
    home = at(journal)
    optuna.create_study(storage=home.storage, study_name="study").ask()
    for use in (join, lambda home: home.found(MINE)):
        with pytest.raises(InputError, match=r"study 'study' in .* is not of gcl_hard: give"):
            use(at(journal))
    (trial,) = optuna.load_study(storage=home.storage, study_name="study").trials
    assert trial.state == TrialState.RUNNING


def test_a_study_that_minimises_is_not_of_ours(at: Callable[..., Home], journal: str) -> None:
    optuna.create_study(storage=at(journal).storage, study_name="study", direction="minimize")
    for use in (join, lambda home: home.found(MINE)):
        with pytest.raises(InputError, match=r"study 'study' in .* is not of gcl_hard: give"):
            use(at(journal))


def test_a_study_of_two_numbers_is_not_of_ours(at: Callable[..., Home], journal: str) -> None:
    both = ["maximize", "minimize"]
    optuna.create_study(storage=at(journal).storage, study_name="study", directions=both)
    for use in (join, lambda home: home.found(MINE)):
        with pytest.raises(InputError, match=r"study 'study' in .* is not of gcl_hard: give"):
            use(at(journal))


# Whoever makes a study may be at it, or may have died over it


class Clock:
    """Time that passes while one sleeps; ``then`` happens ``after`` so many seconds."""

    def __init__(self, after: float = 0.0, then: Callable[[], None] | None = None) -> None:
        self.now, self._after, self._then = 0.0, after, then

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self._then is not None and self.now >= self._after:
            self._then, then = None, self._then
            then()


def half_made(home: Home, about: About | None, n: int) -> optuna.Study:
    """A study as its maker has left it after a part of its work."""
    study = optuna.create_study(
        storage=home.storage, study_name=home.name, direction="maximize", sampler=RandomSampler(0)
    )
    if about is not None:
        study.set_user_attr(ABOUT, about.as_json())
    enqueue(study, TRIED[:n])
    return study


def enqueue(study: optuna.Study, tried: list[dict[str, Any]]) -> None:
    for params in tried:
        study.enqueue_trial(params, user_attrs={GRID: True})


def test_a_maker_that_is_at_it_is_waited_for(
    at: Callable[..., Home], journal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = half_made(at(journal), MINE, 1)

    def ends() -> None:
        enqueue(made, TRIED[1:])
        made.set_user_attr(READY, True)

    clock = Clock(after=3.0, then=ends)
    monkeypatch.setattr(place, "time", clock)
    assert enqueued(join(at(journal))) == TRIED
    assert 3.0 <= clock.now < place.READY_SECONDS


@pytest.mark.parametrize(("about", "n"), [(MINE, 2), (MINE, 0), (None, 0)])
def test_the_work_of_a_maker_that_died_is_done_by_whoever_joins(
    at: Callable[..., Home],
    journal: str,
    monkeypatch: pytest.MonkeyPatch,
    about: About | None,
    n: int,
) -> None:
    half_made(at(journal), about, n)
    clock = Clock()
    monkeypatch.setattr(place, "time", clock)
    study = join(at(journal))
    assert enqueued(study) == TRIED
    assert study.user_attrs[ABOUT] == MINE.as_json()
    assert place.READY_SECONDS <= clock.now < 2 * place.READY_SECONDS
    before = clock.now
    assert enqueued(join(at(journal))) == TRIED
    assert clock.now == before  # nothing is left to wait for


def test_a_maker_may_take_a_moment_to_say_what_it_makes(
    at: Callable[..., Home], journal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = half_made(at(journal), None, 0)
    other = replace(MINE, dataset="PTC_MR")
    clock = Clock(after=1.0, then=lambda: made.set_user_attr(ABOUT, other.as_json()))
    monkeypatch.setattr(place, "time", clock)
    with pytest.raises(InputError, match="is of PTC_MR hscl"):
        join(at(journal))
    assert enqueued(made) == []


def test_a_maker_that_is_quick_is_not_taken_for_another_program(
    at: Callable[..., Home], journal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, look = half_made(at(journal), None, 0), optuna.Study.get_trials

    def meanwhile(self: optuna.Study, *args: Any, **kwargs: Any) -> list[FrozenTrial]:
        if not made.user_attrs:
            made.set_user_attr(ABOUT, MINE.as_json())
            enqueue(made, TRIED)
            made.set_user_attr(READY, True)
        return look(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(optuna.Study, "get_trials", meanwhile)
        study = join(at(journal))
    assert enqueued(study) == TRIED
