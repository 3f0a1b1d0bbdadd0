"""Where studies are kept, which of them a search may go on with, and trials left by drivers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.pruners import NopPruner
from optuna.samplers import RandomSampler
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState

from gcl_hard import tune
from gcl_hard.errors import InputError, MissingExtraError
from gcl_hard.tuning import storage
from gcl_hard.tuning.options import sampler
from gcl_hard.tuning.storage import (
    AGAIN,
    BATCH,
    DEATHS,
    DRAWN,
    FAILURE,
    FIRST,
    GRID,
    IDENTITY,
    INTERRUPTED,
    READY,
    SURPLUS,
    StudyStorage,
    TrialCounts,
    best_trial,
    enqueue_again,
    exclusive,
    failure_of,
    opened,
    put_back,
    put_back_orphans,
    reachable,
    shown,
    url_of,
)
from tests.said import says
from tests.tuning.postgres import free_port
from tests.tuning.test_journal import full_disk

MINE: dict[str, Any] = {
    "dataset": "MUTAG", "method": "hscl", "protocol": "inductive", "settings": {"epochs": 50},
    "space": {"beta": "0.1 to 20"}, "digest": "abc", "inner": "a hold-out of 20 %",
    "outer": "1 of a hold-out of 30 %", "sampler": "tpe", "pruner": "none", "seed": 0,
    "encoder": None,
}  # fmt: skip
TRIED = [{"beta": 1.0}, {"beta": 2.0}, {"beta": 10.0}]


def join(
    home: StudyStorage, identity: dict[str, Any] = MINE, tried: list[dict[str, Any]] | None = None
) -> optuna.Study:
    tried = TRIED if tried is None else tried
    return home.join(identity, tried, sampler=sampler("random", 0), pruner=NopPruner())


def close(home: StudyStorage) -> None:
    """Let go of a database's connections, which warn when they are forgotten."""
    database = getattr(home.storage, "_backend", None)
    if isinstance(database, RDBStorage):
        database.remove_session()
        database.engine.dispose()


@pytest.fixture
def at() -> Iterator[Callable[..., StudyStorage]]:
    """Opens studies, and closes them in the end."""
    places: list[StudyStorage] = []

    def open_(url: str, name: str = "study", **options: bool) -> StudyStorage:
        places.append(StudyStorage(url, name, opened(url, **options)))
        return places[-1]

    yield open_
    for home in places:
        close(home)


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    return url_of(None, tmp_path, "a")


def enqueued(study: optuna.Study) -> list[dict[str, Any]]:
    waiting = study.get_trials(states=(TrialState.WAITING,))
    assert all(trial.user_attrs.get(GRID) for trial in waiting)
    return [trial.system_attrs["fixed_params"] for trial in waiting]


@pytest.fixture(params=["a.db", "a.journal"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(str(tmp_path / request.param), tmp_path, "")


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return url_of(str(tmp_path / "a.journal"), tmp_path, "")


# Making and joining


def test_a_study_is_made_with_what_it_is_of_and_its_grid(
    url: str, at: Callable[..., StudyStorage]
) -> None:
    study = join(at(url))
    assert study.direction == optuna.study.StudyDirection.MAXIMIZE
    assert study.user_attrs[IDENTITY] == MINE
    assert study.user_attrs[READY] is True
    assert enqueued(study) == TRIED


def test_folders_are_made(tmp_path: Path, at: Callable[..., StudyStorage]) -> None:
    for name in ("a.db", "a.journal"):
        at(url_of(str(tmp_path / "new" / name), tmp_path, ""))
        assert (tmp_path / "new" / name).is_file()


def test_going_on_adds_nothing(url: str, at: Callable[..., StudyStorage]) -> None:
    study = join(at(url))
    for _ in range(2):
        assert enqueued(join(at(url))) == TRIED
    trial = study.ask()
    study.tell(trial, trial.suggest_float("beta", 0.1, 20))
    assert enqueued(join(at(url))) == TRIED[1:]


def test_a_place_has_room_for_many_studies(journal: str, at: Callable[..., StudyStorage]) -> None:
    join(at(journal, "first"))
    other = join(at(journal, "second"), MINE | {"dataset": "PTC_MR"}, [])
    assert enqueued(other) == []
    assert at(journal, "first").existing(MINE).study_name == "first"


def test_a_study_is_found_to_be_looked_at(url: str, at: Callable[..., StudyStorage]) -> None:
    with pytest.raises(InputError, match=r"'study'.*\ba\.\w+\b.*--report-only\b"):
        at(url).existing(MINE)
    study = join(at(url))
    study.tell(study.ask(), 71.0)
    assert [trial.value for trial in at(url).existing(MINE).trials] == [71.0, None, None]
    with pytest.raises(InputError, match=r"\bMUTAG hscl\b.*\bPTC_MR\b"):
        at(url).existing(MINE | {"dataset": "PTC_MR"})


def test_looking_makes_no_file(url: str, at: Callable[..., StudyStorage], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\bstorage .*\ba\.\w+\b.*--report-only\b"):
        at(url, create=False)
    assert list(tmp_path.iterdir()) == []
    join(at(url))
    assert at(url, create=False).existing(MINE).study_name == "study"


def test_settings_are_compared_as_they_are_stored(
    journal: str, at: Callable[..., StudyStorage]
) -> None:
    words = MINE | {"settings": {"augmentations": ("drop-nodes",), "strength": 0.1 + 0.2}}
    assert words != json.loads(json.dumps(words))
    join(at(journal), words)
    join(at(journal), words)


# Studies of something else


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"dataset": "PTC_MR"}, ["dataset", "MUTAG", "PTC_MR"]),
        ({"method": "hucl"}, ["method", "hscl", "hucl"]),
        ({"protocol": "paper"}, ["protocol", "inductive", "paper"]),
        ({"digest": "def"}, ["digest", "abc", "def"]),
        ({"seed": 1}, ["seed", "0", "1"]),
        ({"sampler": "random"}, ["sampler", "tpe", "random"]),
        ({"inner": "5 folds"}, ["inner", "a hold-out of 20 %", "5 folds"]),
        ({"encoder": "Mine"}, ["encoder", "usual", "Mine"]),
        ({"settings": {"epochs": 20}}, ["epochs", "50", "20"]),
        ({"settings": {}}, ["epochs", "50", "usual"]),
        ({"settings": {"epochs": 50, "lr": 0.1}}, ["lr", "usual", "0.1"]),
        ({"space": {"beta": "0.1 to 5", "lr": "1"}}, ["space", "beta", "lr"]),
        ({"seed": 1, "pruner": "median"}, ["pruner", "none", "median", "seed", "0", "1"]),
    ],
)
def test_a_study_of_something_else_says_of_what_and_what_differs(
    at: Callable[..., StudyStorage], journal: str, other: dict[str, Any], named: list[str]
) -> None:
    join(at(journal))
    with pytest.raises(InputError) as caught:
        join(at(journal), MINE | other)
    message = str(caught.value)
    assert says(message, "'study'", journal, "MUTAG hscl", "inductive", "--study-name", "--storage")
    assert re.search(".*".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in named), message)
    same = {*MINE, "epochs", "lr"} - {"dataset", "method", "protocol", "settings", *named}
    assert not any(says(message, name) for name in same)
    assert len(at(journal).existing(MINE).trials) == len(TRIED)


def test_what_follows_from_another_data_set_is_not_listed(
    at: Callable[..., StudyStorage], journal: str
) -> None:
    join(at(journal))
    other = MINE | {"dataset": "PTC_MR", "method": "hucl", "digest": "def", "settings": {}}
    other["space"] = {}
    with pytest.raises(InputError) as caught:
        join(at(journal), other)
    message = str(caught.value)
    assert re.search(r"\bdataset MUTAG\b.*\bPTC_MR\b.*\bmethod hscl\b.*\bhucl\b", message)
    assert not any(says(message, name) for name in ("digest", "epochs", "space"))


def test_a_study_that_is_not_of_ours_is_left_alone(
    at: Callable[..., StudyStorage], journal: str
) -> None:
    home = at(journal)
    optuna.create_study(storage=home.storage, study_name="study").ask()
    for use in (join, lambda home: home.existing(MINE)):
        with pytest.raises(InputError, match=r"'study'.*\bgcl_hard\b.*--study-name\b"):
            use(at(journal))
    (trial,) = optuna.load_study(storage=home.storage, study_name="study").trials
    assert trial.state == TrialState.RUNNING


def test_a_study_that_minimises_is_not_of_ours(
    at: Callable[..., StudyStorage], journal: str
) -> None:
    optuna.create_study(storage=at(journal).storage, study_name="study", direction="minimize")
    for use in (join, lambda home: home.existing(MINE)):
        with pytest.raises(InputError, match=r"'study'.*\bgcl_hard\b.*--study-name\b"):
            use(at(journal))


def test_a_study_of_two_numbers_is_not_of_ours(
    at: Callable[..., StudyStorage], journal: str
) -> None:
    both = ["maximize", "minimize"]
    optuna.create_study(storage=at(journal).storage, study_name="study", directions=both)
    for use in (join, lambda home: home.existing(MINE)):
        with pytest.raises(InputError, match=r"'study'.*\bgcl_hard\b.*--study-name\b"):
            use(at(journal))


# Another driver may be making a study on a server, or may have died over it


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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of drivers to whom every storage is a server."""
    fake = Clock()
    monkeypatch.setattr(storage, "time", fake)
    monkeypatch.setattr(storage, "is_server", lambda url: True)
    return fake


def half_made(home: StudyStorage, identity: dict[str, Any] | None, n: int) -> optuna.Study:
    """A study as its maker has left it after a part of its work."""
    study = optuna.create_study(
        storage=home.storage, study_name=home.name, direction="maximize", sampler=RandomSampler(0)
    )
    if identity is not None:
        study.set_user_attr(IDENTITY, identity)
    enqueue(study, TRIED[:n])
    return study


def enqueue(study: optuna.Study, tried: list[dict[str, Any]]) -> None:
    for params in tried:
        study.enqueue_trial(params, user_attrs={GRID: True})


def test_a_maker_that_enqueues_its_grid_is_waited_for(
    at: Callable[..., StudyStorage], journal: str, clock: Clock
) -> None:
    home = at(journal)
    study = half_made(home, MINE, 1)

    def ends() -> None:
        enqueue(study, TRIED[1:])
        study.set_user_attr(READY, True)

    clock._after, clock._then = 3.0, ends
    assert enqueued(join(home)) == TRIED
    assert 3.0 <= clock.now < storage.READY_SECONDS


@pytest.mark.parametrize(("identity", "n"), [(MINE, 2), (MINE, 0), (None, 0)])
def test_the_work_of_a_maker_that_died_is_done_by_the_next_driver(
    at: Callable[..., StudyStorage],
    journal: str,
    clock: Clock,
    identity: dict[str, Any] | None,
    n: int,
) -> None:
    home = at(journal)
    half_made(home, identity, n)
    study = join(home)
    assert enqueued(study) == TRIED
    assert study.user_attrs[IDENTITY] == MINE
    before = clock.now
    assert storage.READY_SECONDS <= before < 2 * storage.READY_SECONDS
    assert enqueued(join(home)) == TRIED
    assert clock.now == before  # nothing is left to wait for


def test_in_a_file_nobody_is_waited_for(at: Callable[..., StudyStorage], journal: str) -> None:
    half_made(at(journal), MINE, 1)
    assert enqueued(join(at(journal))) == TRIED


def test_a_maker_may_take_a_moment_to_say_what_it_makes(
    at: Callable[..., StudyStorage], journal: str, clock: Clock
) -> None:
    home = at(journal)
    study = half_made(home, None, 0)
    other = MINE | {"dataset": "PTC_MR"}
    clock._after, clock._then = 1.0, lambda: study.set_user_attr(IDENTITY, other)
    with pytest.raises(InputError, match=r"\bPTC_MR hscl\b.*\bMUTAG\b"):
        join(home)
    assert enqueued(study) == []


# Names of places


@pytest.mark.parametrize(
    ("place", "meant"),
    [
        (None, "sqlite:///results/PTC_MR_hscl.db"),
        ("a.db", "sqlite:///a.db"),
        ("folder/a.sqlite3", "sqlite:///folder/a.sqlite3"),
        ("/folder/a.db", "sqlite:////folder/a.db"),
        ("a.journal", "journal:a.journal"),
        ("/shared/a.log", "journal:/shared/a.log"),
        ("journal:shared/a", "journal:shared/a"),
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("postgresql://me@host/name", "postgresql+psycopg://me@host/name"),
        ("postgresql+psycopg://me@host/name", "postgresql+psycopg://me@host/name"),
        ("postgres://me:a//b@host/name", "postgresql+psycopg://me:a//b@host/name"),
        ("postgresql+psycopg2://me@host/name", "postgresql+psycopg2://me@host/name"),
        ("mysql://me@host/name", "mysql://me@host/name"),
    ],
)
def test_a_storage_is_a_file_a_journal_or_a_database(place: str | None, meant: str) -> None:
    assert url_of(place, Path("results"), "PTC_MR_hscl") == meant


@pytest.mark.parametrize("place", ["sqlite://", "sqlite:///", "sqlite:////"])
def test_a_storage_keeps_what_is_in_it(place: str) -> None:
    with pytest.raises(InputError, match=rf"{place} .*\bmemory\b.*\bfile\b"):
        url_of(place, Path("results"), "PTC_MR_hscl")


@pytest.mark.parametrize("place", [":memory:", "sqlite:///:memory:", "sqlite:/folder/a.db"])
def test_what_is_no_file_either_is_refused(place: str) -> None:
    with pytest.raises(InputError):
        url_of(place, Path("results"), "PTC_MR_hscl")


STRANGE = ["a?b#c", "a%41 %3F", "über {1} {", "a@b:c&d=e;f+g'\"h"]


@pytest.mark.parametrize("name", STRANGE)
def test_a_path_is_the_file_that_it_says_whatever_its_characters_mean_in_urls(
    tmp_path: Path, at: Callable[..., StudyStorage], name: str
) -> None:
    (tmp_path / "a").mkdir()
    paths = {url_of(None, tmp_path / "a" / name, "x"): tmp_path / "a" / name / "x.db"}
    for suffix in ("db", "journal"):
        path = tmp_path / "a" / f"{name}.{suffix}"
        paths[url_of(str(path), tmp_path, "")] = path
    for url, path in paths.items():
        with exclusive(url):
            join(at(url))
            assert path.with_name(f".{path.name}.lock").is_file()
        assert at(url, create=False).existing(MINE).study_name == "study"
    assert {p for p in tmp_path.rglob("*") if p.is_file()} == {*paths.values()}
    assert len(paths) == 3


@pytest.mark.parametrize("folder", ["results", "my über+results", "a=b,~(1)"])
def test_a_study_that_an_earlier_version_has_made_is_found(
    tmp_path: Path, at: Callable[..., StudyStorage], folder: str
) -> None:
    (tmp_path / folder).mkdir()
    url = f"sqlite:///{(tmp_path / folder / 'a.db').as_posix()}"
    database = optuna.storages.RDBStorage(url)
    study = join(StudyStorage(url, "study", database))
    study.tell(study.ask(), 71.0)
    database.engine.dispose()
    for place in (None, str(tmp_path / folder / "a.db"), url):
        home = at(url_of(place, tmp_path / folder, "a"))
        assert [trial.value for trial in home.existing(MINE).trials] == [71.0, None, None]


def test_braces_in_a_url_are_those_of_the_file(
    tmp_path: Path, at: Callable[..., StudyStorage]
) -> None:
    join(at(url_of(f"sqlite:///{tmp_path}/{{a}}{{0}}.db", tmp_path, "")))
    assert [path.name for path in tmp_path.iterdir()] == ["{a}{0}.db"]


def test_a_url_whose_file_would_end_at_a_question_mark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        url_of("sqlite:///run?b/a.db", tmp_path, "")
    assert says(str(caught.value), "sqlite:///run?b/a.db", "%3F")
    options = "sqlite:///run/a.db?timeout=3"
    assert url_of(options, tmp_path, "") == options


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("postgresql+psycopg://me:secret@host:5432/db", "postgresql+psycopg://me:***@host:5432/db"),
        ("postgresql+psycopg://me@host/db", "postgresql+psycopg://me@host/db"),
        ("sqlite:////folder/a.db", "sqlite:////folder/a.db"),
        ("journal:/shared/a.log", "journal:/shared/a.log"),
        ("postgresql+psycopg://me:sec/ret@host/db", "postgresql+psycopg://me:***@host/db"),
        ("postgresql+psycopg://me:secret@host:x/db", "postgresql+psycopg://me:***@host:x/db"),
    ],
)
def test_passwords_are_not_shown(url: str, seen: str) -> None:
    assert shown(url) == seen


# Places that cannot be used


def unusable(url: str, at: Callable[..., StudyStorage]) -> str:
    with pytest.raises(InputError) as caught:
        join(at(url))
    return str(caught.value)


@pytest.mark.parametrize("name", ["a.db", "a.journal"])
def test_a_folder_that_is_a_file_is_named(
    tmp_path: Path, at: Callable[..., StudyStorage], name: str
) -> None:
    (tmp_path / "file").write_text("something else", encoding="utf-8")
    url = url_of(str(tmp_path / "file" / name), tmp_path, "")
    assert says(unusable(url, at), url, "--storage", "folder", "writable")


@pytest.mark.parametrize("name", ["a.db", "a.journal"])
def test_a_file_that_is_a_folder_is_named(
    tmp_path: Path, at: Callable[..., StudyStorage], name: str
) -> None:
    (tmp_path / name).mkdir()
    url = url_of(str(tmp_path / name), tmp_path, "")
    assert says(unusable(url, at), url, "--storage", "writable")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("name", ["a.db", "a.journal"])
def test_a_folder_that_is_not_writable_is_named(
    tmp_path: Path, at: Callable[..., StudyStorage], name: str
) -> None:
    tmp_path.chmod(0o500)
    url = url_of(str(tmp_path / name), tmp_path, "")
    assert says(unusable(url, at), url, "--storage", "folder", "writable")
    tmp_path.chmod(0o700)


def test_a_server_that_does_not_answer_is_named_without_the_password(
    at: Callable[..., StudyStorage],
) -> None:
    port = free_port()
    message = unusable(url_of(f"postgresql://me:secret@127.0.0.1:{port}/db", Path(), ""), at)
    where = f"postgresql+psycopg://me:***@127.0.0.1:{port}/db"
    assert says(message, where, "refused", "--storage")
    assert "secret" not in message


def test_a_text_file_is_no_database(tmp_path: Path, at: Callable[..., StudyStorage]) -> None:
    (tmp_path / "a.db").write_text("notes\n" * 200, encoding="utf-8")
    message = unusable(f"sqlite:///{tmp_path}/a.db", at)
    assert says(message, f"sqlite:///{tmp_path}/a.db", "not a database", "--storage")
    assert (tmp_path / "a.db").read_text(encoding="utf-8") == "notes\n" * 200


@pytest.mark.parametrize(
    "content", [b"notes\n" * 20, b"notes", b'{"loss": 1}\n', b"3\n", b"null\n", b"\xff\n", b"\n"]
)
def test_another_file_is_no_journal(
    tmp_path: Path, at: Callable[..., StudyStorage], content: bytes
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(content)
    message = unusable(f"journal:{path}", at)
    assert says(message, str(path), "journal", "Optuna", "--storage")
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_journal(tmp_path: Path, at: Callable[..., StudyStorage]) -> None:
    (tmp_path / "a.log").touch()
    assert enqueued(join(at(f"journal:{tmp_path}/a.log"))) == TRIED
    assert enqueued(join(at(f"journal:{tmp_path}/a.log"))) == TRIED


@pytest.mark.parametrize("kept", [50, 4096, 60000])
def test_a_database_that_was_cut_short_is_named_and_stays_as_it_is(
    at: Callable[..., StudyStorage], sqlite: str, kept: int
) -> None:
    study, path = join(at(sqlite)), Path(sqlite.removeprefix("sqlite:///"))
    study.tell(study.ask(), 71.0)
    path.write_bytes(path.read_bytes()[:kept])
    content = path.read_bytes()
    assert len(content) == kept
    assert says(unusable(sqlite, at), sqlite, "malformed")
    assert path.read_bytes() == content


def test_a_disk_that_is_full_costs_a_database_no_finished_trial(
    at: Callable[..., StudyStorage], sqlite: str
) -> None:
    study, path = join(at(sqlite)), Path(sqlite.removeprefix("sqlite:///"))
    study.tell(study.ask(), 71.0)
    full = full_disk(path.stat().st_size + 100)
    with full, pytest.raises(InputError) as caught, reachable(sqlite):
        study.set_user_attr("note", "x" * 10**6)
    assert says(str(caught.value), sqlite, "--storage")
    study = join(at(sqlite))
    study.tell(study.ask(), 72.0)
    assert [trial.value for trial in at(sqlite).existing(MINE).trials[:2]] == [71.0, 72.0]


@pytest.mark.parametrize(
    "url", ["http://host/x", "postgresq://host/x", "sqlite:/a.db", "sqlite://host:x/a.db"]
)
def test_what_is_no_url_of_a_database_is_shown_some(
    at: Callable[..., StudyStorage], url: str
) -> None:
    assert says(unusable(url, at), url, "URL", ".db", ".journal", "postgresql://user@host/name")


@pytest.mark.parametrize(
    "url",
    ["postgresq://me:secret@host/x", "postgresql://me:secret@host:x/y", "redis://me:secret@host"],
)
def test_a_misspelt_url_keeps_its_password(at: Callable[..., StudyStorage], url: str) -> None:
    assert "secret" not in unusable(url_of(url, Path(), ""), at)


@pytest.fixture
def held(
    at: Callable[..., StudyStorage], sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StudyStorage]:
    """A study in a file that another program holds."""
    join(at(sqlite))
    monkeypatch.setattr(storage, "LOCK_SECONDS", 0.1)
    home = at(sqlite)
    with contextlib.closing(
        sqlite3.connect(sqlite.removeprefix("sqlite:///"), isolation_level=None)
    ) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield home


def test_a_locked_file_is_said_to_be(held: StudyStorage, at: Callable[..., StudyStorage]) -> None:
    for use in (lambda: at(held.url), lambda: join(held), lambda: held.existing(MINE)):
        with pytest.raises(InputError) as caught:
            use()
        assert says(str(caught.value), held.url, "locked", "0.1 s", "--storage NAME.journal")


def test_a_file_that_is_locked_for_a_moment_is_waited_for(
    at: Callable[..., StudyStorage], sqlite: str
) -> None:
    join(at(sqlite))
    home = at(sqlite)
    script = (
        "import sqlite3, sys, time; other = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "other.execute('BEGIN EXCLUSIVE'); print(flush=True); time.sleep(0.2)"
    )
    command = [sys.executable, "-S", "-c", script, sqlite.removeprefix("sqlite:///")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert enqueued(join(home)) == TRIED


def test_a_file_of_another_optuna_is_said_to_be(
    at: Callable[..., StudyStorage], sqlite: str
) -> None:
    join(at(sqlite))
    with contextlib.closing(sqlite3.connect(sqlite.removeprefix("sqlite:///"))) as file:
        file.execute("UPDATE version_info SET schema_version = 99")
        file.execute("UPDATE alembic_version SET version_num = 'v99'")
        file.commit()
    message = unusable(sqlite, at)
    assert says(message, sqlite, "optuna", "--storage")


def test_postgresql_without_its_driver_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"\.\[postgres\]"):
        opened("postgresql+psycopg://me@127.0.0.1/db")


def test_other_databases_need_a_driver_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "MySQLdb", None)
    pattern = r"\bmysql://me:\*\*\*@host/db\b.*\bdriver\b.*\bMySQLdb\b"
    with pytest.raises(InputError, match=pattern) as caught:
        opened("mysql://me:secret@host/db")
    assert "secret" not in str(caught.value)


def test_what_breaks_later_is_said_too(at: Callable[..., StudyStorage], sqlite: str) -> None:
    study = join(at(sqlite))
    with contextlib.closing(sqlite3.connect(sqlite.removeprefix("sqlite:///"))) as file:
        file.execute("DROP TABLE trials")
        file.commit()
    pattern = r"\bsqlite:///.*\ba\.db\b.*\btable: trials\b.*--storage\b"
    with pytest.raises(InputError, match=pattern), reachable(sqlite):
        study.ask()


def test_what_is_wrong_elsewhere_is_not_blamed_on_the_storage() -> None:
    for error in (OSError("no file of graphs"), ValueError("shape"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught, reachable("sqlite:///a.db"):
            raise error
        assert caught.value is error


# One driver at a time in a file


@pytest.mark.parametrize("name", ["a.db", "a.journal"])
def test_a_file_is_of_one_driver_at_a_time(tmp_path: Path, name: str) -> None:
    url = url_of(str(tmp_path / name), tmp_path, "")
    with exclusive(url):
        with pytest.raises(InputError) as caught, exclusive(url):
            raise AssertionError
        assert says(str(caught.value), url, "search", "--storage", "PostgreSQL")
        with exclusive(url_of(str(tmp_path / "other.db"), tmp_path, "")):
            pass
    with exclusive(url):  # it has ended
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_server_is_of_several_drivers() -> None:
    with exclusive("postgresql+psycopg://me@host/db"), exclusive("postgresql+psycopg://me@host/db"):
        pass


# Trials


SPACE = {"beta": FloatDistribution(0.1, 20), "readout": CategoricalDistribution(("sum", "mean"))}


@pytest.fixture
def study() -> optuna.Study:
    return optuna.create_study(direction="maximize", sampler=RandomSampler(0))


def left(study: optuna.Study, *, drawn: bool = True) -> FrozenTrial:
    """A trial whose driver has died."""
    trial = study.ask()
    if drawn:
        trial.suggest_float("beta", 0.1, 20)
        trial.suggest_categorical("readout", ["sum", "mean"])
        trial.set_user_attr(DRAWN, trial.number)
    return study.trials[trial.number]


def waiting(study: optuna.Study) -> list[FrozenTrial]:
    return study.get_trials(states=(TrialState.WAITING,))


def test_orphans_fail_and_are_enqueued_once_more(study: optuna.Study) -> None:
    orphan = left(study)
    study.tell(study.ask(), 1.0)
    put_back_orphans(study)
    assert [t.state.name for t in study.trials] == ["FAIL", "COMPLETE", "WAITING"]
    assert failure_of(study.trials[0]) == INTERRUPTED
    (again,) = waiting(study)
    assert again.user_attrs == {AGAIN: 0, FIRST: 0, DEATHS: 1, DRAWN: 0}
    assert again.system_attrs["fixed_params"] == orphan.params
    put_back_orphans(study)
    assert len(study.trials) == 3
    assert TrialCounts.of(study).failures == {}


def test_settings_that_ended_three_drivers_are_not_tried_again(study: optuna.Study) -> None:
    study.enqueue_trial({"beta": 2.0, "readout": "sum"}, user_attrs={GRID: True})
    for deaths in (1, 2):
        assert left(study).params == {"beta": 2.0, "readout": "sum"}
        put_back_orphans(study)
        assert waiting(study)[0].user_attrs == {
            AGAIN: deaths - 1, FIRST: 0, GRID: True, DEATHS: deaths, DRAWN: deaths - 1,
        }  # fmt: skip
    left(study)
    put_back_orphans(study)
    assert waiting(study) == []
    ((reason, n),) = TrialCounts.of(study).failures.items()
    assert says(reason, "search", "ended", 3)
    assert n == 1


def test_what_is_given_back_after_ctrl_c_costs_no_try(study: optuna.Study) -> None:
    left(study)
    for number in range(3):
        put_back(study, study.trials[number], died=False)
        assert DEATHS not in waiting(study)[0].user_attrs
        assert left(study).params == study.trials[0].params
    assert TrialCounts.of(study).failures == {}


def test_fixed_settings_are_kept_that_were_not_drawn_yet(study: optuna.Study) -> None:
    study.enqueue_trial({"beta": 2.0, "readout": "mean"})
    left(study, drawn=False)
    put_back_orphans(study)
    assert waiting(study)[0].system_attrs["fixed_params"] == {"beta": 2.0, "readout": "mean"}


@pytest.mark.parametrize("some", [False, True])
def test_a_trial_that_was_not_drawn_to_its_end_is_drawn_anew(*, some: bool) -> None:
    study = optuna.create_study(sampler=sampler("random", 0))
    for number in range(5):  # however often: its training has ended no driver
        trial = study.ask()
        if some:
            trial.suggest_float("beta", 0.1, 20)
        put_back_orphans(study)
        (again,) = waiting(study)
        assert again.user_attrs == {AGAIN: number, FIRST: 0, BATCH: [0, 1]}
        assert again.system_attrs["fixed_params"] == {}
    assert TrialCounts.of(study).failures == {}


def test_a_driver_that_died_between_enqueuing_and_failing_loses_and_repeats_nothing(
    study: optuna.Study,
) -> None:
    orphan = left(study)
    enqueue_again(study, orphan, deaths=1)
    put_back_orphans(study)
    assert [t.state.name for t in study.trials] == ["FAIL", "WAITING"]


def test_counts_are_of_what_ended_and_why_others_failed(study: optuna.Study) -> None:
    ends: list[tuple[TrialState, float | None, str | None]] = [
        (TrialState.COMPLETE, 60.0, None), (TrialState.COMPLETE, 70.0, None),
        (TrialState.PRUNED, None, None), (TrialState.FAIL, None, "a"), (TrialState.FAIL, None, "a"),
        (TrialState.FAIL, None, "b"), (TrialState.FAIL, None, SURPLUS),
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
    assert counts == TrialCounts(2, 1, 1, Counter(a=2, b=1), study.best_trial)
    assert counts.finished == 3
    assert [counts.over(asked) for asked in (2, 3, 4)] == [True, True, False]
    assert TrialCounts.of(optuna.create_study()) == TrialCounts(0, 0, 0, Counter(), None)


def test_of_equal_scores_the_oldest_is_the_best(study: optuna.Study) -> None:
    for value in (50.0, 70.0, 70.0):
        study.tell(study.ask(), value)
    best = best_trial(study.trials)
    assert best is not None
    assert best.number == 1


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


@pytest.mark.parametrize("finished", [False, True])
def test_a_trial_that_another_driver_has_ended_keeps_its_score(*, finished: bool) -> None:
    study = optuna.create_study()
    trial = study.ask()
    if finished:
        study.tell(trial, 1.0)
    storage.fail(study, trial, "refused")
    (stored,) = study.trials
    assert (stored.value, failure_of(stored)) == ((1.0, None) if finished else (None, "refused"))


@pytest.mark.parametrize("kind", ["db", "journal"])
@pytest.mark.parametrize("changed", ["score", "setting", "outer"])
def test_a_score_that_is_not_what_was_stored_is_named(
    changed: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A digit that changes on a disk would make another trial the best."""
    path = tmp_path / f"s.{kind}"
    arguments = ["--method=hscl", "--trials=2", "--epochs=1", "--layers=1", "--dim=4",
                 "--threads=1", "--ensemble-size=1", f"--storage={path}",
                 f"--output={tmp_path / 'out'}", "--study-name=s"]  # fmt: skip
    assert tune.main(arguments) == 0
    assert tune.main([*arguments, "--report-only"]) == 0
    study = optuna.load_study(study_name="s", storage=opened(url_of(str(path), tmp_path, "s")))
    trial = study.trials[1]
    old = {"score": trial.values[0], "setting": trial.params["beta"],
           "outer": next(iter(study.user_attrs["outer"].values()))}[changed]  # fmt: skip
    del study
    change_number(path, old, old + 0.125)
    capsys.readouterr()
    assert tune.main([*arguments, "--report-only"]) == 2
    named = "an outer score" if changed == "outer" else "trial 1"
    assert named in capsys.readouterr().err


def change_number(path: Path, old: float, new: float) -> None:
    """Put another number in all places of a storage that hold one."""
    if path.suffix == ".journal":
        text = path.read_text(encoding="utf-8")
        for prefix in ('"values":[', '"param_value_internal":', '\\": ', '": ', '":'):
            text = text.replace(f"{prefix}{old}", f"{prefix}{new}")
        path.write_text(text, encoding="utf-8")
        return
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        base.execute("UPDATE trial_values SET value = ? WHERE value = ?", (new, old))
        base.execute("UPDATE trial_params SET param_value = ? WHERE param_value = ?", (new, old))
        base.execute(
            "UPDATE study_user_attributes SET value_json = replace(value_json, ?, ?) "
            "WHERE key = 'outer'", (str(old), str(new)),
        )  # fmt: skip
