"""How places are given and shown, and what is said when they cannot be used."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gcl_hard.tuning.home import Home

from gcl_hard.errors import InputError, MissingExtraError
from gcl_hard.tuning import storage
from gcl_hard.tuning.storage import reachable, shown, url_of
from tests.tuning import storages
from tests.tuning.postgres import free_port
from tests.tuning.storages import MINE, TRIED, enqueued, join

at, sqlite = storages.at, storages.sqlite  # here pytest finds the fixtures


# Names of places


@pytest.mark.parametrize(
    ("given", "meant"),
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
def test_a_storage_is_a_file_a_journal_or_a_database(given: str | None, meant: str) -> None:
    assert url_of(given, Path("results"), "PTC_MR_hscl") == meant


@pytest.mark.parametrize("given", ["sqlite://", "sqlite:///", "sqlite:////"])
def test_a_storage_keeps_what_is_in_it(given: str) -> None:
    with pytest.raises(InputError, match="is in memory and keeps nothing: give a file"):
        url_of(given, Path("results"), "PTC_MR_hscl")


@pytest.mark.parametrize("given", [":memory:", "sqlite:///:memory:", "sqlite:/folder/a.db"])
def test_what_is_no_file_either_is_refused(given: str) -> None:
    with pytest.raises(InputError):
        url_of(given, Path("results"), "PTC_MR_hscl")


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


def unusable(url: str, at: Callable[..., Home]) -> str:
    with pytest.raises(InputError) as caught:
        join(at(url))
    return str(caught.value)


@pytest.mark.parametrize("name", ["a.db", "a.journal"])
def test_a_folder_that_is_a_file_is_named(
    tmp_path: Path, at: Callable[..., Home], name: str
) -> None:
    (tmp_path / "file").write_text("something else", encoding="utf-8")
    url = url_of(str(tmp_path / "file" / name), tmp_path, "")
    said = unusable(url, at)
    assert said.startswith(f"storage {url} cannot be used: ")
    assert "its folder must be there and writable" in said


@pytest.mark.parametrize("name", ["a.db", "a.journal"])
def test_a_file_that_is_a_folder_is_named(
    tmp_path: Path, at: Callable[..., Home], name: str
) -> None:
    (tmp_path / name).mkdir()
    url = url_of(str(tmp_path / name), tmp_path, "")
    assert unusable(url, at).startswith(f"storage {url} cannot be used: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("name", ["a.db", "a.journal"])
def test_a_folder_that_is_not_writable_is_named(
    tmp_path: Path, at: Callable[..., Home], name: str
) -> None:
    tmp_path.chmod(0o500)
    assert "its folder must be there and writable" in unusable(
        url_of(str(tmp_path / name), tmp_path, ""), at
    )
    tmp_path.chmod(0o700)


def test_a_server_that_does_not_answer_is_named_without_the_password(
    at: Callable[..., Home],
) -> None:
    port = free_port()
    said = unusable(url_of(f"postgresql://me:secret@127.0.0.1:{port}/db", Path(), ""), at)
    where = f"postgresql+psycopg://me:***@127.0.0.1:{port}/db"
    assert said.startswith(f"storage {where} cannot be used: ")
    assert "refused" in said
    assert "secret" not in said


def test_a_text_file_is_no_database(tmp_path: Path, at: Callable[..., Home]) -> None:
    (tmp_path / "a.db").write_text("notes\n" * 200, encoding="utf-8")
    said = unusable(f"sqlite:///{tmp_path}/a.db", at)
    assert "a.db cannot be used: file is not a database" in said
    assert (tmp_path / "a.db").read_text(encoding="utf-8") == "notes\n" * 200


@pytest.mark.parametrize(
    "there", [b"notes\n" * 20, b"notes", b'{"loss": 1}\n', b"3\n", b"null\n", b"\xff\n", b"\n"]
)
def test_another_file_is_no_journal(tmp_path: Path, at: Callable[..., Home], there: bytes) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(there)
    said = f"{path} is no journal of Optuna: give --storage another name"
    assert unusable(f"journal:{path}", at) == said
    assert path.read_bytes() == there


def test_an_empty_file_becomes_a_journal(tmp_path: Path, at: Callable[..., Home]) -> None:
    (tmp_path / "a.log").touch()
    assert enqueued(join(at(f"journal:{tmp_path}/a.log"))) == TRIED
    assert enqueued(join(at(f"journal:{tmp_path}/a.log"))) == TRIED


@pytest.mark.parametrize("url", ["http://host/x", "postgresq://host/x", "sqlite:/a.db"])
def test_what_is_no_url_of_a_database_is_shown_some(at: Callable[..., Home], url: str) -> None:
    said = unusable(url, at)
    assert said.startswith(f"storage {url} is no URL of a database; examples: results/a.db, ")
    assert "shared/a.journal, postgresql://user@host/name" in said


@pytest.mark.parametrize(
    "url",
    ["postgresq://me:secret@host/x", "postgresql://me:secret@host:x/y", "redis://me:secret@host"],
)
def test_a_misspelt_url_keeps_its_password(at: Callable[..., Home], url: str) -> None:
    assert "secret" not in unusable(url_of(url, Path(), ""), at)


@pytest.fixture
def locked(at: Callable[..., Home], sqlite: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A study in a file that another program holds."""
    join(at(sqlite))
    monkeypatch.setattr(storage, "LOCK_SECONDS", 0.1)
    home = at(sqlite)
    with contextlib.closing(
        sqlite3.connect(sqlite.removeprefix("sqlite:///"), isolation_level=None)
    ) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield home


def test_a_locked_file_is_said_to_be(locked: Home, at: Callable[..., Home]) -> None:
    said = f"storage {locked.url} has been locked by another program for more than 0.1 s"
    for use in (lambda: at(locked.url), lambda: join(locked), lambda: locked.found(MINE)):
        with pytest.raises(InputError) as caught:
            use()
        assert str(caught.value).startswith(said)
        assert "NAME.journal" in str(caught.value)


def test_a_file_that_is_locked_for_a_moment_is_waited_for(
    at: Callable[..., Home], sqlite: str
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


def test_a_file_of_another_optuna_is_said_to_be(at: Callable[..., Home], sqlite: str) -> None:
    join(at(sqlite))
    with contextlib.closing(sqlite3.connect(sqlite.removeprefix("sqlite:///"))) as file:
        file.execute("UPDATE version_info SET schema_version = 99")
        file.execute("UPDATE alembic_version SET version_num = 'v99'")
        file.commit()
    said = unusable(sqlite, at)
    assert said.startswith(f"storage {sqlite} cannot be used: ")
    assert "optuna" in said


def test_postgresql_without_its_driver_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r'pip install "gcl-hard\[postgres\]"'):
        Home.at("postgresql+psycopg://me@127.0.0.1/db", "study")


def test_other_databases_need_a_driver_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "MySQLdb", None)
    said = r"mysql://me:\*\*\*@host/db needs a driver: .*MySQLdb"
    with pytest.raises(InputError, match=said) as caught:
        Home.at("mysql://me:secret@host/db", "study")
    assert "secret" not in str(caught.value)


def test_what_breaks_later_is_said_too(at: Callable[..., Home], sqlite: str) -> None:
    study = join(at(sqlite))
    with contextlib.closing(sqlite3.connect(sqlite.removeprefix("sqlite:///"))) as file:
        file.execute("DROP TABLE trials")
        file.commit()
    said = r"storage sqlite:///.*a\.db cannot be used: no such table: trials"
    with pytest.raises(InputError, match=said), reachable(sqlite):
        study.ask()


def test_what_is_wrong_elsewhere_is_not_blamed_on_the_storage() -> None:
    for error in (OSError("no file of graphs"), ValueError("shape"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught, reachable("sqlite:///a.db"):
            raise error
        assert caught.value is error
