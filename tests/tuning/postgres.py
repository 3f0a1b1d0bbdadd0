"""A PostgreSQL server of the tests' own, in a temporary folder: `postgres_url`."""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

DEBIAN = Path("/usr/lib/postgresql")
# Nothing outlives the tests, so nothing has to survive a power cut.
SETTINGS = ["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"]


def binaries() -> Path | None:
    """The folder of initdb and postgres: the one on PATH, else Debian's newest."""
    on_path = shutil.which("postgres")
    folders = [Path(on_path).parent] if on_path else []
    newest_first = sorted(
        DEBIAN.glob("*/bin"),
        key=lambda folder: [int(part) for part in re.findall(r"\d+", folder.parent.name)],
        reverse=True,
    )
    for folder in [*folders, *newest_first]:
        if all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres")):
            return folder
    return None


def unprivileged() -> pwd.struct_passwd | None:
    """The account to run as where we are root, whom the server refuses; else None."""
    if os.geteuid() != 0:
        return None
    accounts = {account.pw_name: account for account in pwd.getpwall()}
    return accounts.get("postgres") or accounts["nobody"]


def shared_place() -> Path:
    """A folder for temporary folders that any account can enter, as pytest's own is not."""
    places = [Path(tempfile.gettempdir()).resolve(), Path("/tmp"), Path("/var/tmp")]
    return next(
        place
        for place in places
        if all(folder.stat().st_mode & 0o001 for folder in (place, *place.parents))
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(url: str, process: subprocess.Popen[bytes], seconds: float = 60) -> bool:
    """Wait until the server lets us in; False when it ended instead."""
    import psycopg  # not where tests are only collected

    deadline = time.monotonic() + seconds
    while process.poll() is None:
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return True
    return False


@contextmanager
def running(
    command: list[str | Path], log: Path, **options: Any
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, **options)
    try:
        yield process
    finally:
        # An immediate shutdown: clients still connected are dropped, no checkpoint is written.
        process.send_signal(signal.SIGQUIT)
        process.wait()


@contextmanager
def server(programs: Path) -> Iterator[str]:
    """Run a server until the block ends; gives its libpq URL."""
    folder = Path(tempfile.mkdtemp(prefix="gcl-pg-", dir=shared_place()))
    try:
        # Not trust: who may log in may also run programs as the server's account.
        password, password_file = secrets.token_hex(16), folder / "password"
        password_file.write_text(password)
        options: dict[str, Any] = {"cwd": folder}
        if account := unprivileged():
            options |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            for path in (folder, password_file):
                os.chown(path, account.pw_uid, account.pw_gid)
        data, log = folder / "data", folder / "log"
        make: list[str | Path] = [programs / "initdb", "-D", data, "-U", "tests", "--no-locale"]
        make += ["--encoding=UTF8", "--no-sync", "--auth=scram-sha-256", "--pwfile", password_file]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL, **options)
        for _ in range(3):  # another process may take the port before the server does
            port = free_port()
            url = f"postgresql://tests:{password}@127.0.0.1:{port}/postgres"
            serve: list[str | Path] = [programs / "postgres", "-D", data, "-k", folder]
            serve += ["-h", "127.0.0.1", "-p", str(port), *SETTINGS]
            with running(serve, log, **options) as process:
                if answers(url, process):
                    yield url
                    return
        raise RuntimeError(f"the PostgreSQL server does not start:\n{log.read_text()}")
    finally:
        shutil.rmtree(folder)


def programs_or_skip() -> Path:
    """The programs; without them the tests are skipped, but never silently where CI is "true"."""
    if folder := binaries():
        return folder
    reason = f"no PostgreSQL server on PATH or in {DEBIAN}: apt-get install postgresql"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """URL, for SQLAlchemy and psycopg 3, of an empty database; one server a session and worker."""
    with server(programs_or_skip()) as url:
        yield url.replace("postgresql://", "postgresql+psycopg://", 1)
