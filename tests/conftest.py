"""Which tests run and how: slow ones on request, and on request the rounding of another CPU."""

from __future__ import annotations

import http.server
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.perturbation import perturbed

ROOT = Path(__file__).parents[1]
hypothesis.settings.register_profile("same", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("same")


SHARES = {"slow": 5, "faults": 10}
"""Markers of tests that take long, and of how many CI runs one."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gcl_hard")
    group.addoption(
        "--perturb-matmul", action="store_true",
        help="move every matrix product by one unit in the last place, as another CPU might; "
        "doctests and tests marked exact run as they are",
    )  # fmt: skip
    group.addoption(
        "--slow", choices=["none", "some", "all"], default="none",
        help="tests marked slow or faults that run too: none; a fifth of the slow and a tenth of "
        "the faults, drawn by the commit; or all",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    # Jobs in the background of a shell ignore Ctrl-C, and so would what they start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    by_marker = {
        marker: [item for item in items if item.get_closest_marker(marker)] for marker in SHARES
    }
    slow = [item for each in by_marker.values() for item in each]
    match config.getoption("slow"):
        case "all":
            kept = slow
        case "some":
            kept = [
                item
                for marker, share in SHARES.items()
                for item in shared(by_marker[marker], share)
            ]
        case _:
            kept = []
    config.hook.pytest_deselected(items=[*{*slow}.difference(kept)])
    # First, so that at the end no process waits for the minutes of another.
    items[:] = kept + [item for item in items if not any(map(item.get_closest_marker, SHARES))]


def shared(items: list[pytest.Item], one_of: int) -> list[pytest.Item]:
    """One of so many tests, drawn by the commit."""
    return sorted(items, key=lambda item: item.nodeid)[commit() % one_of :: one_of]


@pytest.fixture(autouse=True)
def domains_as_before() -> Iterator[None]:
    """What a test registers is not known to the next one."""
    module = sys.modules.get("gcl_hard.experiments.outside")
    before = [] if module is None else [(table, {**table}) for table in module.TABLES]
    yield
    for table, content in before:
        if table != content:
            table.clear()
            table.update(content)


def commit() -> int:
    """The commit of the checkout as a number; 0 outside of git."""
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return int(done.stdout.strip() or "0", 16)


def pytest_report_header(config: pytest.Config) -> str:
    return f"slow tests: {config.getoption('slow')}, matrix products " + (
        "perturbed" if config.getoption("perturb_matmul") else "as they are"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    exact = isinstance(item, pytest.DoctestItem) or item.get_closest_marker("exact")
    moved = item.config.getoption("perturb_matmul") and not exact
    with perturbed() if moved else nullcontext():
        return (yield)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GCL_HARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("gcl_hard.files.locating.RETRIES", 0)  # which would wait for seconds
        yield


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder served as a download site, and its address."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
