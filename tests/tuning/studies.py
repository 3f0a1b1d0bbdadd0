"""Studies of a part without data, and workers on them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import optuna
from gcl_hard.experiments.graph_cell import GraphCell
from optuna import Study
from optuna.storages import BaseStorage
from optuna.trial import Trial, TrialState

from gcl_hard.tuning import lease, samplers
from gcl_hard.tuning.lease import LEASE
from gcl_hard.tuning.part import Candidate, Inner, Score, Watch
from gcl_hard.tuning.search import Search
from gcl_hard.tuning.space import Base, Space

COMPLETE, PRUNED, FAIL = TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL
RUNNING, WAITING = TrialState.RUNNING, TrialState.WAITING
LOG = {"type": "float", "low": 0.001, "high": 0.1, "log": True}
BASE = Base(GraphCell, {"method": "hscl"})
SPACE = Space.of({"lr": LOG})

Place = str | BaseStorage
Event = Callable[[Candidate, Watch], Score | None]


def formula(candidate: Candidate) -> float:
    """A score that knows its settings."""
    return 90 - 100 * abs(candidate.cell.lr - 0.01)


class Fake:
    """A part without data: scores by a formula, unless something happens to a trial."""

    def __init__(self, event: Event | None = None) -> None:
        self.event = event or (lambda candidate, watch: None)
        self.batches: list[list[Candidate]] = []

    @property
    def seen(self) -> list[Candidate]:
        return [candidate for batch in self.batches for candidate in batch]

    def n_scored(self, inner: Inner) -> int:
        return 1

    def scores(
        self, candidates: Sequence[Candidate], inner: Inner, watch: Watch
    ) -> Iterator[Score]:
        self.batches.append(list(candidates))
        for one in candidates:
            watch.progress(one.number, 0.5)
            happened = self.event(one, watch)
            yield happened or Score(one.number, formula(one))


def study_at(url: Place | None = None, *, sampler: str = "random", seed: int = 0) -> Study:
    """A study, made or joined; in memory without a URL."""
    return optuna.create_study(
        storage=url, study_name="study", load_if_exists=True, direction="maximize",
        sampler=samplers.sampler(sampler, seed),  # type: ignore[arg-type]
    )  # fmt: skip


def searching(study: Study, part: Any, trials: int, batch: int = 1, **options: Any) -> Search:
    settings: dict[str, Any] = {"space": SPACE, "base": BASE, "inner": Inner()} | options
    return Search(study=study, part=part, trials=trials, batch=batch, **settings)


def states(study: Study) -> Counter[TrialState]:
    return Counter(trial.state for trial in study.get_trials(deepcopy=False))


def rates(study: Study, *of: TrialState) -> list[float]:
    """Settings of the trials that are in some states."""
    return [trial.params["lr"] for trial in study.trials if trial.state in (of or (COMPLETE,))]


def as_of(pid: int, trial: Trial) -> None:
    """The lease of another process."""
    since = lease.born(pid)
    about = {"worker": "other", "host": lease.host(), "pid": pid, "born": since}
    trial.set_user_attr(LEASE, about | {"time": time.time()})


def asked_by_another(url: Place, n: int) -> list[Trial]:
    """Trials that a worker who lives has asked for."""
    other = study_at(url)
    found = []
    for _ in range(n):
        trial = other.ask()
        as_of(1, trial)  # init: it does not die
        SPACE.draw(trial, BASE)
        found.append(trial)
    return found
