"""Studies and outcomes made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from gcl_hard.evaluation.metrics import METRICS
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.tuning.result import Finding, SearchResult
from gcl_hard.tuning.storage import best_trial

SPACE: dict[str, BaseDistribution] = {
    "beta": FloatDistribution(0.1, 20.0, log=True),
    "lr": FloatDistribution(1e-4, 0.1, log=True),
    "temperature": FloatDistribution(0.1, 2.0),
    "class_prior": FloatDistribution(0.01, 0.5),
    "layers": IntDistribution(1, 5),
    "readout": CategoricalDistribution(("sum", "mean")),
    "encoder.hidden": CategoricalDistribution((16, 32)),
}
SHARE = METRICS["accuracy"]
START = datetime(2026, 1, 1, 12)
FACTS: dict[str, Any] = {
    "dataset": "PTC_MR", "method": "hscl", "protocol": "inductive", "space": "beta", "seed": 0,
    "sampler": "TPE", "pruner": None, "inner": "a hold-out of 20 %", "outer": "a hold-out of 30 %",
    "device": "CPU", "n_inner_test": 48, "n_outer_test": 103,
    "grid": "the paper's grid", "encoder": None, "encoder_own": False, "graphs_own": False,
}  # fmt: skip


def trial(
    value: float | str | None,
    params: Mapping[str, Any],
    *,
    grid: bool = False,
    steps: Sequence[float] = (),
    begun: float = 0.0,
    seconds: float = 30.0,
    **attributes: Any,
) -> FrozenTrial:
    """A complete trial; with a reason for a value a failed one; with None a pruned one."""
    start = START + timedelta(seconds=begun)
    state = TrialState.PRUNED if value is None else TrialState.COMPLETE
    if isinstance(value, str):
        state, attributes = TrialState.FAIL, attributes | {"failure": value}
    return FrozenTrial(
        number=-1, trial_id=-1, state=state, value=value if isinstance(value, float) else None,
        datetime_start=start, datetime_complete=start + timedelta(seconds=seconds),
        params=dict(params), distributions={name: SPACE[name] for name in params},
        user_attrs=attributes | ({"grid": True} if grid else {}), system_attrs={},
        intermediate_values=dict(enumerate(steps, 1)),
    )  # fmt: skip


def study(*trials: FrozenTrial) -> Study:
    """A study of them, without Optuna's log."""
    storage = optuna.storages.InMemoryStorage()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    number = storage.create_new_study([StudyDirection.MAXIMIZE], "made")
    for frozen in trials:
        storage.create_new_trial(number, frozen)
    return optuna.load_study(study_name="made", storage=storage)


def searched() -> Study:
    """Two of a grid, four others, one pruned, two failed; the best is number 3."""
    return study(
        trial(60.0, {"beta": 1.0, "lr": 0.01, "temperature": 0.5}, grid=True, steps=(40, 50)),
        trial(65.0, {"beta": 2.0, "lr": 0.01, "temperature": 0.5}, grid=True, steps=(40, 55)),
        trial(55.0, {"beta": 0.2, "lr": 0.001, "temperature": 1.0}, worker="one"),
        trial(70.0, {"beta": 5.0, "lr": 0.02, "temperature": 0.4}, steps=(50, 60)),
        trial(None, {"beta": 9.0, "lr": 0.09, "temperature": 1.5}, steps=(20,)),
        trial("diverged", {"beta": 19.0, "lr": 0.1, "temperature": 0.1}),
        trial(62.0, {"beta": 3.0, "lr": 0.03, "temperature": 0.8}),
        trial("diverged", {"beta": 18.0, "lr": 0.1, "temperature": 0.1}),
        trial(58.0, {"beta": 0.5, "lr": 0.003, "temperature": 1.9}),
    )


def mirrored(original: Study) -> Study:
    """The same search by 100 less each score, of which less is better."""
    storage = optuna.storages.InMemoryStorage()
    number = storage.create_new_study([StudyDirection.MINIMIZE], "mirrored")
    for frozen in original.get_trials():
        frozen.value = None if frozen.value is None else 100 - frozen.value
        frozen.intermediate_values = {k: 100 - v for k, v in frozen.intermediate_values.items()}
        storage.create_new_trial(number, frozen)
    return optuna.load_study(study_name="mirrored", storage=storage)


def finding(searches: Study, *, outer: float | None = 61.0, config: RunConfig | None = None,
            why: str | None = None, n_outer: int = 1,
            metric: str = "accuracy") -> Finding:  # fmt: skip
    best = best_trial(searches.trials, higher=searches.direction == StudyDirection.MAXIMIZE)
    assert best is not None
    assert best.value is not None
    settings = {"beta": best.params["beta"]} if "beta" in best.params else {}
    chosen = config or GraphConfig(
        dataset="PTC_MR", method="hscl", protocol="inductive", **settings
    )
    return Finding(searches, best, chosen, best.value, outer, why, n_outer, metric)


PAPER = GraphConfig(dataset="PTC_MR", method="hscl", protocol="transductive")


def result_of(*findings: Finding, asked: int = 7, **changed: Any) -> SearchResult:
    return SearchResult(findings or (finding(searched()),), asked, FACTS | changed)
