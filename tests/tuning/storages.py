"""Studies that are made, joined and closed, wherever they are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.pruners import NopPruner
from optuna.storages import RDBStorage
from optuna.trial import TrialState

from gcl_hard.tuning.home import About, Home
from gcl_hard.tuning.lease import GRID
from gcl_hard.tuning.samplers import sampler
from gcl_hard.tuning.storage import url_of

MINE = About(
    dataset="MUTAG", method="hscl", protocol="inductive", settings={"epochs": 50},
    space={"beta": "0.1 to 20"}, digest="abc", inner="a hold-out of 20 %",
    outer="1 of a hold-out of 30 %", sampler="tpe", pruner="none", seed=0,
)  # fmt: skip
TRIED = [{"beta": 1.0}, {"beta": 2.0}, {"beta": 10.0}]


def join(
    home: Home, about: About = MINE, tried: list[dict[str, Any]] | None = None
) -> optuna.Study:
    tried = TRIED if tried is None else tried
    return home.join(about, tried, sampler=sampler("random", 0), pruner=NopPruner())


def close(home: Home) -> None:
    """Let go of a database's connections, which warn when they are forgotten."""
    database = getattr(home.storage, "_backend", None)
    if isinstance(database, RDBStorage):
        database.remove_session()
        database.engine.dispose()


@pytest.fixture
def at() -> Iterator[Callable[..., Home]]:
    """Opens studies, and closes them in the end."""
    opened: list[Home] = []

    def open_(url: str, name: str = "study", **how: bool) -> Home:
        opened.append(Home.at(url, name, **how))
        return opened[-1]

    yield open_
    for home in opened:
        close(home)


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    return url_of(None, tmp_path, "a")


def enqueued(study: optuna.Study) -> list[dict[str, Any]]:
    waiting = study.get_trials(states=(TrialState.WAITING,))
    assert all(trial.user_attrs.get(GRID) for trial in waiting)
    return [trial.system_attrs["fixed_params"] for trial in waiting]
