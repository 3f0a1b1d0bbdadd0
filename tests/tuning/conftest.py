"""What tests of searches share."""

from __future__ import annotations

from collections.abc import Iterator

import optuna
import pytest
import torch

from gcl_hard.graphs import GraphSet, load_graphs
from gcl_hard.tuning import objective
from tests.tuning import postgres

postgres_url = postgres.postgres_url  # here pytest finds the fixture


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Threads and Optuna's log as before, and nothing left of other searches."""
    threads, verbosity = torch.get_num_threads(), optuna.logging.get_verbosity()
    objective._CUT.clear()
    yield
    torch.set_num_threads(threads)
    optuna.logging.set_verbosity(verbosity)


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    return load_graphs("MUTAG")


@pytest.fixture(scope="module")
def fewer(mutag: GraphSet) -> GraphSet:
    """Every third graph: SVMs of a moment."""
    return mutag.take(torch.arange(0, mutag.n_graphs, 3))
