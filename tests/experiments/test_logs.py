"""Losses and scores of runs as they come: in a CSV, TensorBoard, or a logger of one's own."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gcl_hard
from gcl_hard import InputError, bench
from gcl_hard.errors import GclHardError
from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.store import Store
from gcl_hard.graphs import GIN, load_graphs

RUN = ["--dataset=MUTAG", "--method=ucl", "--epochs=3", "--layers=1", "--dim=4", "--folds=2",
       "--c-grid=1", "--threads=1"]  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def lines() -> list[dict[str, str]]:
    with Path("out/log.csv").open(encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)]


def results() -> list[RunResult]:
    return [*Store(Path("out")).rows()]


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_table_has_the_losses_of_epochs_and_the_score_of_each_run(jobs: int) -> None:
    assert bench.main([*RUN, "--seeds=2", "--output=out", "--log=csv", f"--jobs={jobs}"]) == 0
    rows, of_runs = lines(), results()
    assert len({line["run"] for line in rows}) == 2
    scores = sorted(float(row["value"]) for row in rows if row["name"] == "accuracy")
    assert scores == pytest.approx(
        sorted(sum(result.values) / len(result.values) for result in of_runs)
    )
    for run in {line["run"] for line in rows}:
        losses = [line for line in rows if line["run"] == run and line["name"] == "loss"]
        steps = [int(line["step"]) for line in losses]
        assert steps == sorted({*steps})
        assert {*steps} <= {1, 2, 3}
        assert jobs > 1 or steps == [1, 2, 3]


def test_a_command_that_goes_on_adds_to_its_table() -> None:
    assert bench.main([*RUN, "--seeds=1", "--output=out", "--log=csv"]) == 0
    before = lines()
    assert bench.main([*RUN, "--seeds=2", "--output=out", "--log=csv"]) == 0
    assert lines()[: len(before)] == before
    assert len({line["run"] for line in lines()}) == 2


def test_tensorboard_reads_what_is_written() -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    assert bench.main([*RUN, "--seeds=1", "--output=out", "--log=tensorboard,csv"]) == 0
    log = events.EventAccumulator("out/tensorboard").Reload()
    for tag in log.Tags()["scalars"]:
        run, _, name = tag.rpartition("/")
        expected = {
            int(line["step"]): float(line["value"]) for line in lines()
            if (line["run"], line["name"]) == (run, name)
        }  # fmt: skip
        assert {scalar.step: scalar.value for scalar in log.Scalars(tag)} == pytest.approx(expected)
    assert len(log.Tags()["scalars"]) == 2


class Kept:
    """A logger such as Lightning's."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[tuple[int | None, float]]] = {}

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        for name, value in metrics.items():
            self.numbers.setdefault(name, []).append((step, value))


def test_python_takes_a_logger() -> None:
    logger, mutag = Kept(), load_graphs("MUTAG")
    results = gcl_hard.evaluate(
        lambda n: GIN(n, dim=4, layers=1), mutag, "ucl", seeds=1, folds=2, epochs=2, c_grid=(1.0,),
        baselines=[], output="out", progress=False, logger=logger, threads=1,
    )  # fmt: skip
    (loss,) = [name for name in logger.numbers if name.endswith("/loss")]
    assert [step for step, _ in logger.numbers[loss]] == [1, 2]
    (score,) = [name for name in logger.numbers if name.endswith("/accuracy")]
    (record,) = results.results.records.values()
    assert logger.numbers[score][0][1] == pytest.approx(sum(record.values) / len(record.values))
    with pytest.raises(InputError, match="log_metrics"):
        gcl_hard.evaluate(GIN, mutag, "ucl", output="out", logger=print)  # type: ignore[arg-type]


class Ended(Kept):
    """A logger that is told how a command ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[str] = []

    def finalize(self, status: str) -> None:
        self.ended.append(status)
        raise RuntimeError("full")


def evaluated(logger: Any, method: str = "ucl", **settings: Any) -> Any:
    return gcl_hard.evaluate(
        "gin", load_graphs("MUTAG"), method, seeds=1, folds=2, epochs=2, layers=1, dim=4,
        c_grid=(1.0,), baselines=[], output="out", progress=False, logger=logger, threads=1,
        **settings,
    )  # fmt: skip


def test_a_logger_of_lightning_that_keeps_its_rows_has_them_on_the_disk_afterwards() -> None:
    csv_logs = pytest.importorskip("lightning.pytorch.loggers.csv_logs")
    evaluated(csv_logs.CSVLogger("logs"))
    (file,) = Path("logs").rglob("metrics.csv")
    written: dict[str, list[tuple[int | None, float]]] = {}
    with file.open(encoding="utf-8", newline="") as rows:
        for row in csv.DictReader(rows):
            for name in {*row} - {"step"}:
                if row[name]:
                    written.setdefault(name, []).append((int(row["step"]), float(row[name])))
    logger = Kept()
    evaluated(logger, force=True)
    assert len(logger.numbers) == 2  # losses, and the score
    assert written.keys() == logger.numbers.keys()
    for name, values in logger.numbers.items():
        assert np.array(written[name]) == pytest.approx(np.array(values), rel=1e-5)


def test_a_logger_is_told_once_how_a_command_ended_and_may_fail_at_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good, bad, stopped, searching = (Ended() for _ in range(4))
    with pytest.warns(UserWarning, match="Ended.*full"):
        assert len(evaluated(good).results.records) == 1
    assert good.ended == ["success"]
    with pytest.warns(UserWarning, match="Ended.*full"), pytest.raises(GclHardError):
        evaluated(bad, lr=1e30)
    assert bad.ended == ["failed"]
    with pytest.warns(UserWarning, match="Ended.*full"):
        gcl_hard.study("MUTAG", "hucl", trials=1, epochs=1, layers=1, dim=4, c_grid=(1.0,),
                       threads=1, output="out", progress=False, logger=searching)  # fmt: skip
    assert searching.ended == ["success"]

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stopped, "log_metrics", stop)
    with pytest.warns(UserWarning, match="Ended.*full"), pytest.raises(KeyboardInterrupt):
        evaluated(stopped, "scl")
    assert stopped.ended == ["failed"]


def test_a_logger_that_fails_costs_no_run(tmp_path: Path) -> None:
    class Broken:
        def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
            raise RuntimeError("full")

    mutag = load_graphs("MUTAG")
    with pytest.warns(UserWarning, match="Broken.*full"):
        results = gcl_hard.evaluate(
            "gin", mutag, "ucl", seeds=1, folds=2, epochs=2, layers=1, dim=4, c_grid=(1.0,),
            baselines=[], output="out", progress=False, logger=Broken(), threads=1,
        )  # fmt: skip
    assert len(results.results.records) == 1
    with pytest.raises(InputError, match="log_metrics"):
        gcl_hard.evaluate("gin", mutag, "ucl", output="out", logger=Broken)  # type: ignore[arg-type]
