"""What tests of searches share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest
import torch
from optuna.storages import BaseStorage, InMemoryStorage

from gcl_hard.graphs import GraphSet, load
from gcl_hard.tuning import search
from tests.tuning import postgres

postgres_url = postgres.postgres_url  # here pytest finds the fixture


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """As many as before: scoring a trial sets their number."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Workers that wait do not wait long, and Optuna says nothing."""
    monkeypatch.setattr(search, "PAUSE", 0.01)
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield
    optuna.logging.set_verbosity(before)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database, not made yet."""
    return f"sqlite:///{tmp_path / 'study.db'}"


@pytest.fixture
def memory() -> BaseStorage:
    """A storage for several studies in this process: SQLite takes milliseconds to write a word."""
    return InMemoryStorage()


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    return load("MUTAG", download=False)


@pytest.fixture(scope="module")
def fewer(mutag: GraphSet) -> GraphSet:
    """Every third graph: SVMs of a moment."""
    return mutag.take(torch.arange(0, mutag.n_graphs, 3))
