"""A domain that the package does not know: readings, each with a real number to predict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from gcl_hard.core.setting import Setting
from gcl_hard.evaluation.metrics import METRICS, Metric, register_metric
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.experiment import Experiment
from gcl_hard.experiments.record import RunResult, Scored
from gcl_hard.experiments.registry import EXPERIMENTS, register
from gcl_hard.experiments.settings import LR, RunConfig, method_setting
from tests.experiments import record

BASELINES = ("mean", "wl")


@dataclass(frozen=True)
class ReadingConfig(RunConfig):
    """The settings of an experiment on readings: folds, or one test part."""

    baselines: ClassVar[tuple[str, ...]] = BASELINES
    domain: ClassVar[str] = "readings"

    dataset: Annotated[str, Setting("a series", "data", several=True)] = "river"
    method: Annotated[str, method_setting(BASELINES)] = "hscl"
    protocol: Annotated[str, Setting("in turn, or once", "split", several=True)] = "in turn"
    lr: Annotated[float, LR] = 0.5
    parts: Annotated[int, Setting("folds", "split", least=1, read_by=BASELINES)] = 3
    sensor: Annotated[str, Setting("of what", several=True, symbol="sensor")] = "level"

    @property
    def n_scores(self) -> int:
        """One score a fold."""
        return self.parts


@dataclass(frozen=True)
class ValidatedConfig(ReadingConfig):
    """The same, with a validation part beside each test part."""

    domain: ClassVar[str] = "validated"


class Readings(Experiment[ReadingConfig, None]):
    """Tables of readings; nothing is run."""

    item: ClassVar[str] = "reading"

    def load(self, *_: Any, **__: Any) -> None:
        """Nothing."""

    def facts(self, data: None) -> dict[str, Any]:
        """None."""
        return {}

    def score(self, *_: Any) -> Scored:
        """Not called."""
        raise AssertionError


class Validated(Readings):
    """The same, where settings are chosen by the run itself."""

    has_validation: ClassVar[bool] = True


def _error(targets: Any, predicted: Any) -> float:
    return float(np.sqrt(np.mean((np.asarray(targets) - np.asarray(predicted)) ** 2)))


ERROR = Metric("RMSE", _error, higher=False, unit="cm", digits=3)


@contextmanager
def known() -> Iterator[None]:
    """The domain and its metric, known while the block runs."""
    register(ReadingConfig, Readings)
    register(ValidatedConfig, Validated)
    register_metric("error", ERROR)
    try:
        yield
    finally:
        for name in ("readings", "validated"):
            del CONFIGS[name], EXPERIMENTS[name]
        del METRICS["error"]


def scored(config: RunConfig, seed: int, errors: list[float], **changed: Any) -> RunResult:
    """A result with the errors given, one a fold."""
    data = {"n_readings": 90, "digest": "ab"}
    fields = {"scores": {"error": errors}, "metric": "error", "data": data, "fold_c": []}
    return record(config, seed, [], **{**fields, **changed})
