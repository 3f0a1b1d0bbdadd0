"""Where studies are kept, which of them a search may go on with, and trials left by drivers."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.pruners import NopPruner
from optuna.samplers import RandomSampler
from optuna.storages import RDBStorage
from optuna.trial import TrialState

from gcl_hard.errors import InputError, MissingExtraError
from gcl_hard.tuning import storage
from gcl_hard.tuning.options import sampler
from gcl_hard.tuning.storage import (
    FAILURE,
    GIVEN_UP,
    GRID,
    IDENTITY,
    INTERRUPTED,
    READY,
    RETRIES,
    TRIES,
    StudyStorage,
    TrialCounts,
    best_trial,
    exclusive,
    fail,
    failure_of,
    opened,
    put_back,
    reachable,
    retry_orphans,
    surplus,
    url_of,
    waiting,
)
from tests.said import says
from tests.tuning.postgres import free_port

MINE: dict[str, Any] = {
    "dataset": "MUTAG", "method": "hscl", "protocol": "inductive", "settings": {"epochs": 50},
    "space": {"beta": "0.1 to 20"}, "digest": "abc", "inner": "a hold-out of 20 %",
    "outer": "1 of a hold-out of 30 %", "sampler": "tpe", "pruner": "none", "seed": 0,
    "encoder": None,
}  # fmt: skip
TRIED = [{"beta": 1.0}, {"beta": 2.0}, {"beta": 10.0}]


def join(home: StudyStorage, identity: dict[str, Any] = MINE) -> optuna.Study:
    return home.join(identity, TRIED, sampler=sampler("random", 0), pruner=NopPruner())


def close(home: StudyStorage) -> None:
    """Let go of a database's connections, which warn when they are forgotten."""
    database = getattr(home.storage, "_backend", None)
    if isinstance(database, RDBStorage):
        database.remove_session()
        database.engine.dispose()


At = Callable[..., StudyStorage]


@pytest.fixture
def at() -> Iterator[At]:
    """Opens studies, and closes them in the end."""
    places: list[StudyStorage] = []

    def open_(url: str, name: str = "study", **options: bool) -> StudyStorage:
        places.append(StudyStorage(url, name, opened(url, **options)))
        return places[-1]

    yield open_
    for home in places:
        close(home)


def enqueued(study: optuna.Study) -> list[dict[str, Any]]:
    assert all(trial.user_attrs.get(GRID) for trial in waiting(study))
    return [trial.system_attrs["fixed_params"] for trial in waiting(study)]


@pytest.fixture(params=["a.db", "a.journal"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(str(tmp_path / "new" / request.param), tmp_path, "")


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return url_of(str(tmp_path / "a.journal"), tmp_path, "")


# Making and joining


def test_a_study_is_made_once_with_its_identity_and_grid(url: str, at: At, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\bstorage .*\ba\.\w+\b.*--report-only\b"):
        at(url, create=False)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match=r"'study'.*\ba\.\w+\b.*--report-only\b"):
        at(url).existing(MINE)
    for _ in range(2):
        study = join(at(url))
        assert study.user_attrs == {IDENTITY: MINE, READY: True}
        assert enqueued(study) == TRIED
    study.tell(study.ask(), 71.0)
    assert enqueued(join(at(url))) == TRIED[1:]
    seen = at(url, create=False).existing(MINE)
    assert [trial.value for trial in seen.trials] == [71.0, None, None]
    with pytest.raises(InputError, match=r"\bMUTAG hscl\b.*\bPTC_MR\b"):
        at(url).existing(MINE | {"dataset": "PTC_MR"})
    assert enqueued(join(at(url, "second"), MINE | {"dataset": "PTC_MR"})) == TRIED


def test_settings_are_compared_as_they_are_stored(journal: str, at: At) -> None:
    words = MINE | {"settings": {"augmentations": ("drop-nodes",), "strength": 0.1 + 0.2}}
    assert words != json.loads(json.dumps(words))
    join(at(journal), words)
    join(at(journal), words)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"dataset": "PTC_MR"}, ["dataset", "MUTAG", "PTC_MR"]),
        ({"digest": "def"}, ["digest", "abc", "def"]),
        ({"encoder": "Mine"}, ["encoder", "usual", "Mine"]),
        ({"settings": {"epochs": 20}}, ["epochs", "50", "20"]),
        ({"settings": {"epochs": 50, "lr": 0.1}}, ["lr", "usual", "0.1"]),
        ({"space": {"beta": "0.1 to 5", "lr": "1"}}, ["space", "beta", "lr"]),
        ({"seed": 1, "pruner": "median"}, ["pruner", "none", "median", "seed", "0", "1"]),
        # The rest follows from another data set.
        ({"dataset": "PTC_MR", "digest": "def", "settings": {}, "space": {}},
         ["dataset", "MUTAG", "PTC_MR"]),
    ],
)  # fmt: skip
def test_a_study_of_something_else_says_what_differs(
    at: At, journal: str, other: dict[str, Any], named: list[str]
) -> None:
    join(at(journal))
    with pytest.raises(InputError) as caught:
        join(at(journal), MINE | other)
    message = str(caught.value)
    assert says(message, "'study'", journal, "MUTAG hscl", "inductive", "--study-name", "--storage")
    assert re.search(".*".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in named), message)
    same = {*MINE, "epochs", "lr"} - {"dataset", "method", "protocol", "settings", *named}
    assert not any(says(message, name) for name in same)


@pytest.mark.parametrize("directions", [["maximize"], ["minimize"], ["maximize", "minimize"]])
def test_a_study_of_another_program_is_left_alone(
    at: At, journal: str, directions: list[str]
) -> None:
    foreign = optuna.create_study(
        storage=at(journal).storage, study_name="study", directions=directions
    )
    foreign.ask()
    for use in (join, lambda home: home.existing(MINE)):
        with pytest.raises(InputError, match=r"'study'.*\bgcl_hard\b.*--study-name\b"):
            use(at(journal))
    assert [trial.state for trial in foreign.trials] == [TrialState.RUNNING]


def test_on_a_server_the_maker_of_a_study_is_waited_for(
    at: At, journal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "is_server", lambda url: url == journal)
    home = StudyStorage(journal, "study", optuna.storages.InMemoryStorage())
    study = optuna.create_study(
        storage=home.storage, study_name="study", direction="maximize", sampler=RandomSampler(0)
    )
    study.set_user_attr(IDENTITY, MINE)
    study.enqueue_trial(TRIED[0], user_attrs={GRID: True})
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            for params in TRIED[1:]:
                study.enqueue_trial(params, user_attrs={GRID: True})
            study.set_user_attr(READY, True)

    monkeypatch.setattr(storage.time, "sleep", sleep)
    assert enqueued(join(home)) == TRIED
    assert len(slept) == 3


# Names of places


@pytest.mark.parametrize(
    ("place", "meant"),
    [
        (None, "sqlite:///results/PTC_MR_hscl.db"),
        ("/folder/a.db", "sqlite:////folder/a.db"),
        ("/shared/a.log", "journal:/shared/a.log"),
        ("journal:shared/a", "journal:shared/a"),
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("postgres://me:a//b@host/name", "postgresql+psycopg://me:a//b@host/name"),
        ("postgresql://me@host/name", "postgresql+psycopg://me@host/name"),
        ("postgresql+psycopg2://me@host/name", "postgresql+psycopg2://me@host/name"),
        ("mysql://me@host/name", "mysql://me@host/name"),
    ],
)
def test_a_storage_is_a_file_a_journal_or_a_database(place: str | None, meant: str) -> None:
    assert url_of(place, Path("results"), "PTC_MR_hscl") == meant


@pytest.mark.parametrize(
    "place", ["sqlite://", "sqlite:///", ":memory:", "sqlite:///:memory:", "sqlite:/folder/a.db"]
)
def test_a_storage_keeps_what_is_in_it(place: str) -> None:
    with pytest.raises(InputError, match=r"\bfile\b"):
        url_of(place, Path("results"), "PTC_MR_hscl")


@pytest.mark.parametrize("name", ["a?b#c", "a%41 %3F", "über {1} {", "a@b:c&d=e;f+g'\"h"])
def test_a_path_is_the_file_that_it_says(tmp_path: Path, at: At, name: str) -> None:
    paths = {url_of(None, tmp_path / name, "x"): tmp_path / name / "x.db"}
    for suffix in ("db", "journal"):
        path = tmp_path / f"{name}.{suffix}"
        paths[url_of(str(path), tmp_path, "")] = path
    for url, path in paths.items():
        with exclusive(url):
            join(at(url))
            assert path.with_name(f".{path.name}.lock").is_file()
    assert {p for p in tmp_path.rglob("*") if p.is_file()} == {*paths.values()}


# Places that cannot be used


def unusable(url: str, at: At) -> str:
    with pytest.raises(InputError) as caught:
        join(at(url))
    return str(caught.value)


def test_a_server_that_does_not_answer_is_named_without_the_password(at: At) -> None:
    port = free_port()
    message = unusable(url_of(f"postgresql://me:secret@127.0.0.1:{port}/db", Path(), ""), at)
    where = f"postgresql+psycopg://me:***@127.0.0.1:{port}/db"
    assert says(message, where, "refused", "--storage")
    assert "secret" not in message


@pytest.mark.parametrize(
    "url",
    ["postgresq://me:secret@host/x", "postgresql://me:secret@host:x/y", "redis://me:secret@host"],
)
def test_a_misspelt_url_keeps_its_password(at: At, url: str) -> None:
    message = unusable(url_of(url, Path(), ""), at)
    assert "secret" not in message
    assert says(message, "NAME.db", "NAME.journal", "postgresql://user@host/name")


@pytest.mark.parametrize("suffix", ["db", "log"])
def test_another_file_is_named_and_stays_as_it_is(tmp_path: Path, at: At, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_text("notes\n" * 200, encoding="utf-8")
    assert says(unusable(url_of(str(path), tmp_path, ""), at), str(path))
    assert path.read_text(encoding="utf-8") == "notes\n" * 200


def test_a_database_that_is_held_cut_or_of_another_optuna_is_named(
    tmp_path: Path, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "LOCK_SECONDS", 0.1)
    url, path = url_of(None, tmp_path, "a"), tmp_path / "a.db"
    study = join(at(url))
    content = path.read_bytes()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputError, match=r"\ba\.db\b.*\blocked\b.*--storage\b"):
            at(url)
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE version_info SET schema_version = 99")
        file.execute("UPDATE alembic_version SET version_num = 'v99'")
        file.commit()
    assert says(unusable(url, at), url, "optuna", "--storage")
    path.write_bytes(content[:4096])
    assert says(unusable(url, at), url, "malformed")
    assert path.read_bytes() == content[:4096]
    with pytest.raises(InputError, match=r"\ba\.db\b.*--storage\b"), reachable(url):
        study.ask()


def test_drivers_of_other_databases_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"\.\[postgres\]"):
        opened("postgresql+psycopg://me@127.0.0.1/db")
    monkeypatch.setitem(sys.modules, "MySQLdb", None)
    with pytest.raises(InputError, match=r"\bmysql://me:\*\*\*@host/db\b.*\bMySQLdb\b"):
        opened("mysql://me:secret@host/db")


def test_what_is_wrong_elsewhere_is_not_blamed_on_the_storage() -> None:
    for error in (OSError("no file of graphs"), ValueError("shape"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught, reachable("sqlite:///a.db"):
            raise error
        assert caught.value is error


def test_a_file_is_of_one_driver_at_a_time_and_a_server_of_several(url: str) -> None:
    with exclusive(url):
        with pytest.raises(InputError) as caught, exclusive(url):
            raise AssertionError
        assert says(str(caught.value), url, "search", "--storage", "PostgreSQL")
    with exclusive(url):  # it has ended
        pass
    server = "postgresql+psycopg://me@host/db"
    with exclusive(server), exclusive(server):
        pass


# Trials


@pytest.fixture
def study() -> optuna.Study:
    return optuna.create_study(direction="maximize", sampler=RandomSampler(0))


def left(study: optuna.Study) -> optuna.Trial:
    """A trial whose driver has died."""
    trial = study.ask()
    trial.suggest_float("beta", 0.1, 20)
    return trial


def test_orphans_fail_and_are_enqueued_once_more(study: optuna.Study) -> None:
    orphan = left(study)
    study.tell(study.ask(), 1.0)
    for _ in range(2):
        retry_orphans(study)
        assert [t.state.name for t in study.trials] == ["FAIL", "COMPLETE", "WAITING"]
    assert failure_of(study.trials[0]) == INTERRUPTED
    assert waiting(study)[0].params == orphan.params
    assert TrialCounts.of(study).failures == {}
    again = study.ask()
    assert again.suggest_float("beta", 0.1, 20) == orphan.params["beta"]
    assert 0.0 <= again.suggest_float("strength", 0.0, 1.0) <= 1.0  # which was not drawn yet


def test_what_a_driver_failed_and_did_not_live_to_enqueue_is_enqueued(study: optuna.Study) -> None:
    lost, other = left(study), left(study)
    study.tell(lost, state=TrialState.FAIL)  # as Optuna does with a stale trial
    fail(study, study.ask(), "diverged")
    for _ in range(2):
        retry_orphans(study, alone=False)
        assert [trial.params for trial in waiting(study)] == [lost.params]
        assert study.trials[other.number].state == TrialState.RUNNING  # another driver's


def test_of_two_drivers_that_asked_at_once_the_later_one_gives_back(study: optuna.Study) -> None:
    study.tell(study.ask(), 1.0)
    fail(study, study.ask(), "diverged")
    asked = [left(study) for _ in range(4)]
    assert surplus(study, 5) == set()
    assert surplus(study, 3) == {trial.number for trial in asked[2:]}
    put_back(study, asked[3])
    assert surplus(study, 3) == {asked[2].number}


def test_settings_that_ended_three_drivers_are_not_tried_again(study: optuna.Study) -> None:
    study.enqueue_trial({"beta": 2.0}, user_attrs={GRID: True})
    for deaths in range(TRIES):
        assert left(study).params == {"beta": 2.0}
        retry_orphans(study)
        again = waiting(study)
        assert len(again) == (deaths < TRIES - 1)
        assert all(trial.user_attrs == {GRID: True} for trial in again)
        assert all(trial.system_attrs[RETRIES] == [*range(deaths + 1)] for trial in again)
    assert TrialCounts.of(study).failures == {GIVEN_UP: 1}


def test_what_is_put_back_after_ctrl_c_costs_no_try(study: optuna.Study) -> None:
    params = left(study).params
    retry_orphans(study)
    for _ in range(TRIES):
        put_back(study, left(study))
        assert waiting(study)[0].system_attrs[RETRIES] == [0]
    assert left(study).params == params
    assert TrialCounts.of(study).failures == {}


def test_counts_are_of_what_ended_and_why_others_failed(study: optuna.Study) -> None:
    ends: list[tuple[TrialState, float | None, str | None]] = [
        (TrialState.COMPLETE, 60.0, None), (TrialState.COMPLETE, 70.0, None),
        (TrialState.COMPLETE, 70.0 + 1e-12, None), (TrialState.PRUNED, None, None),
        (TrialState.FAIL, None, "a"), (TrialState.FAIL, None, "a"), (TrialState.FAIL, None, "b"),
        (TrialState.FAIL, None, INTERRUPTED),
    ]  # fmt: skip
    for state, value, reason in ends:
        trial = study.ask()
        if reason is not None:
            trial.set_user_attr(FAILURE, reason)
        study.tell(trial, value, state=state)
    study.ask()
    study.enqueue_trial({"beta": 0.1})
    counts = TrialCounts.of(study)
    assert counts == TrialCounts(3, 1, 1, Counter(a=2, b=1), study.trials[1])  # the oldest
    assert best_trial(study.trials[3:]) is None
    assert counts.finished == 4
    assert [counts.over(asked) for asked in (3, 4, 5)] == [True, True, False]


@pytest.mark.parametrize("finished", [False, True])
def test_a_trial_that_another_driver_has_ended_keeps_its_score(
    study: optuna.Study, *, finished: bool
) -> None:
    trial = study.ask()
    if finished:
        study.tell(trial, 1.0)
    fail(study, trial, "refused")
    put_back(study, trial)
    (stored,) = study.trials
    assert (stored.value, failure_of(stored)) == ((1.0, None) if finished else (None, "refused"))


@pytest.mark.parametrize("nested", [False, True])
def test_ctrl_c_waits_for_the_end_of_a_write(*, nested: bool) -> None:
    done = []

    @storage.uninterrupted()
    def write() -> None:
        signal.raise_signal(signal.SIGINT)
        done.append("written")

    @storage.uninterrupted()
    def outer() -> None:
        write()
        done.append("outer")

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        outer() if nested else write()
    assert done == ["written", "outer"][: 1 + nested]
    assert signal.getsignal(signal.SIGINT) is before
