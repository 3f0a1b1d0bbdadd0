"""The objective of trials: the parts of a data set, and the tasks that score trials on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gcl_hard.errors import DivergenceError, GclHardError, InputError, OutOfMemory
from gcl_hard.experiments.custom import check_call, edge_argument
from gcl_hard.experiments.experiment import RunContext
from gcl_hard.experiments.registry import experiment_of, outer_parts
from gcl_hard.experiments.runner import data_sets
from gcl_hard.experiments.settings import RunConfig, is_own
from gcl_hard.experiments.trials import Candidate, Inner, Outer, Scoring
from gcl_hard.tuning.space import Base, Space

MOST_CHARACTERS = 500
"""Length of the reason for a failure at most."""


def failure_reason(error: Exception) -> str:
    """A short, countable reason for a failure."""
    if isinstance(error, DivergenceError):
        return "diverged"
    if isinstance(error, OutOfMemory):
        return "out of memory"
    return _described(error)[:MOST_CHARACTERS]


def _described(error: Exception) -> str:
    kind = "" if isinstance(error, GclHardError) else f"{type(error).__name__}: "
    return f"{kind}{' '.join(str(error).split())}"


# The user's own encoder


def check_encoder(base: Base, space: Space) -> None:
    """Check that the user's own encoder, if there is one, can be searched.

    Args:
        base: the settings that are not searched.
        space: fitted to it.

    Raises:
        InputError: for a domain whose searches take none, or settings that it does not take.
    """
    make = base.make
    is_users = make is not None or is_own(base.settings.get("encoder", ""))
    if is_users and not experiment_of(base.kind).searches_user_parts:
        raise InputError("your own encoder can be searched on graphs only: leave it out")
    if make is None:
        return
    call = "encoder(n_features, **searched as encoder.NAME)"
    check_call(make, call, 1, **edge_argument(make, None) | dict.fromkeys(space.of_encoder))


def check_output(base: Base, space: Space, data: Any) -> None:
    """Check the output of the user's own encoder with the first values of what is searched.

    Args:
        base: with the user's own encoder.
        space: fitted to it.
        data: a part of the set, on the CPU.

    Raises:
        InputError: if the encoder has no width or gives another shape.
    """
    assert base.make is not None
    first = {name: dimension.ends[0] for name, dimension in space.of_encoder.items()}
    experiment_of(base.kind).check_encoder(partial(base.make, **first), data)


# The objective, and the tasks that score trials, in this process or in a Dask worker


@dataclass(frozen=True)
class Objective:
    """Scores the trials of a search; picklable.

    Attributes:
        config: settings that are not searched, with the canonical name of the data set.
        inner: how trials are scored.
        outer_folds: number of outer parts, a study each; 1 is a hold-out.
        digest: digest of the data.
    """

    config: RunConfig
    inner: Inner
    outer_folds: int
    digest: str

    def load(self, context: RunContext, graphs: Any) -> tuple[Outer, ...]:
        """The outer parts, loaded and split once in a process.

        Args:
            context: has the folder of the data and the device.
            graphs: the user's own set, in place of a named one.

        Raises:
            InputError: if the data are missing, cannot be split or differ from the driver's.
        """
        key = self, context.data_dir, context.device
        if key not in _CUT or _CUT[key][0] is not graphs:
            _CUT.clear()
            _CUT[key] = graphs, tuple(self._cut(context, graphs))
        return _CUT[key][1]

    def _cut(self, context: RunContext, graphs: Any) -> Sequence[Outer]:
        config, sets = self.config, data_sets(context)
        data = sets.load(config, graphs)
        if graphs is None and sets.facts(config)["digest"] != self.digest:
            raise InputError(
                f"{config.dataset} differs between the machines of this search: give all of them "
                f"the same files"
            )
        return outer_parts(config, data, context, self.inner, self.outer_folds)


_CUT: dict[tuple[Objective, Path | None, str], tuple[Any, tuple[Outer, ...]]] = {}
"""The outer parts of the latest search in this process, with the user's own set."""


def score_trials(
    context: RunContext,
    objective: Objective,
    study: int,
    graphs: Any,
    candidates: Sequence[Candidate],
    *,
    report: Callable[..., bool],
) -> None:
    """Task: score the trials of a group, and report every score as it comes.

    Args:
        context: where and how runs are executed.
        objective: objective of the search.
        study: number of the study and of its outer part.
        graphs: the user's own set, or None.
        candidates: settings of the trials.
        report: see :class:`Scoring`.
    """
    scoring = Scoring(context, objective.inner, study, report)
    # A task is repeated after its worker died, when some of its trials may have their scores.
    unscored = [c for c in candidates if report("begin", study, c.number, wait=True)]
    if unscored:
        part = objective.load(context, graphs)[study].part
        for score in part.scores(unscored, scoring):
            reason = None if score.error is None else failure_reason(score.error)
            report("scored", study, score.number, score.value, reason, wait=True)


def score_outside(
    context: RunContext,
    objective: Objective,
    study: int,
    graphs: Any,
    candidate: Candidate,
    *,
    report: Callable[..., bool],
) -> float | str | None:
    """Task: score the best settings of a study on its outer test part.

    Returns:
        The score, or why the settings failed.
    """
    outer = objective.load(context, graphs)[study]
    score = outer.score(candidate, Scoring(context, objective.inner, study, report))
    if score.error is not None:
        return f"on the whole part its settings failed: {_described(score.error)}"
    return score.value
