"""A domain that the package does not know: readings, each with a real number to predict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar

import numpy as np

from gcl_hard.core.setting import Setting
from gcl_hard.evaluation.metrics import METRICS, Metric, register_metric
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.registry import REGISTERED, register
from gcl_hard.experiments.settings import LR, RunConfig, configuration, method_setting
from tests.experiments import record

BASELINES = ("mean", "wl")


@configuration
class ReadingConfig(RunConfig):
    """The settings of an experiment on readings: folds, or one test part."""

    baselines: ClassVar[tuple[str, ...]] = BASELINES
    baseline_protocol: ClassVar[str] = "in turn"
    domain: ClassVar[str] = "readings"
    item: ClassVar[str] = "reading"

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


class ValidatedConfig(ReadingConfig):
    """The same, with a validation part beside each test part."""

    @property
    def has_validation(self) -> bool:
        """Settings are chosen by the run itself."""
        return True


def _error(targets: Any, predicted: Any) -> float:
    return float(np.sqrt(np.mean((np.asarray(targets) - np.asarray(predicted)) ** 2)))


ERROR = Metric("RMSE", _error, higher=False, unit="cm", digits=3)


@contextmanager
def known() -> Iterator[None]:
    """The domain and its metric, known while the block runs."""
    register(ReadingConfig, lambda: None)  # type: ignore[arg-type,return-value]
    register_metric("error", ERROR)
    try:
        yield
    finally:
        del CONFIGS["readings"], REGISTERED["readings"], METRICS["error"]


def scored(config: RunConfig, seed: int, errors: list[float], **changed: Any) -> RunResult:
    """A result with the errors given, one a fold."""
    data = {"n_readings": 90, "digest": "ab"}
    given = {"scores": {"error": errors}, "metric": "error", "data": data, "fold_c": []}
    return record(config, seed, [], **{**given, **changed})
