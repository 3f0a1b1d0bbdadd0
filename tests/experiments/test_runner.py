"""The runner: results are stored at once, found again, and a failure stops no other run."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from distributed import KilledWorker
from rich.console import Console

from gcl_hard.bench import main
from gcl_hard.errors import InputError, OutOfMemory
from gcl_hard.experiments import runner
from gcl_hard.experiments.engine import TRIES
from gcl_hard.experiments.plan import plan
from gcl_hard.experiments.progress import Bars, progress
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.store import Store
from gcl_hard.graphs import protocols
from gcl_hard.graphs.experiment import GraphExperiment
from gcl_hard.graphs.settings import GraphConfig
from tests.experiments import engine_tasks as tasks
from tests.experiments import rewrite
from tests.experiments.made import Ran, numbers
from tests.experiments.test_store import held_elsewhere, lock_of
from tests.said import says

Started = list[tuple[str, int]]
SMALL = [
    "--layers=1", "--dim=8", "--folds=2", "--device=cpu", "--threads=1", "--ensemble-size=1",
]  # fmt: skip
BENCH = [*tasks.command("gcl_hard.bench"), *SMALL]


def tiny(method: str = "hscl", **settings: Any) -> GraphConfig:
    return GraphConfig(
        **{"method": method, "epochs": 1, "layers": 1, "dim": 4, "folds": 2, **settings}
    )


def runs(*methods: str, seeds: int = 2, **settings: Any) -> list[Run]:
    configs = [tiny(method, **settings) for method in methods or ("hscl",)]
    return plan(configs, range(seeds), select=False)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The runs that are trained from now on, by method and seed."""
    seen: Started = []
    real = GraphExperiment.train

    def train(self: Any, several: Any, *arguments: Any) -> Any:
        seen.extend((run.config.method, run.seed) for run in several)
        return real(self, several, *arguments)

    monkeypatch.setattr(GraphExperiment, "train", train)
    return seen


@pytest.fixture
def diverging(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes the loss of one seed NaN."""
    real = protocols.build

    def make(bad: int) -> None:
        def build(config: Any, n_features: int, seed: int, *rest: Any, **more: Any) -> Any:
            model = real(config, n_features, seed, *rest, **more)
            if seed == bad:
                torch.nn.init.constant_(model.graph_head.shortcut.bias, torch.nan)
            return model

        monkeypatch.setattr(protocols, "build", build)

    return make


# Results


def test_every_run_leaves_a_result_that_says_what_made_it(tmp_path: Path) -> None:
    todo = runs("ucl", "hscl")
    ran = Ran(tmp_path, todo)
    assert ran.failures == []
    assert list(ran.results) == todo
    assert {path.name for path in tmp_path.iterdir()} == {f"{run.key}.json" for run in todo}
    store = Store(tmp_path)
    for run, result in ran.results.items():
        assert store.get(run) == result
        assert (result.run, len(result.values), len(result.fold_c)) == (run, 2, 2)
        data = {k: v for k, v in result.data.items() if not k.endswith("digest")}
        assert data == {
            "n_graphs": 188, "n_classes": 2, "n_features": 7, "features": "labels",
            "class_names": ["-1", "1"],
        }  # fmt: skip
        assert torch.__version__.startswith(result.versions["torch"])
        assert result.device.startswith("CPU")
        assert min(result.seconds_train, result.seconds_eval) > 0
        accuracy = sum(result.values) / 2
        assert f"{run}: {accuracy:.1f} %" in ran.shown


def test_results_of_a_command_are_found_again_and_nothing_is_run_twice(
    tmp_path: Path, started: Started
) -> None:
    first = Ran(tmp_path, runs("ucl", "hscl")).results
    assert sorted(started) == [("hscl", 0), ("hscl", 1), ("ucl", 0), ("ucl", 1)]
    started.clear()
    again = Ran(tmp_path, runs("ucl", "hscl"))
    assert again.results == first
    assert says(again.shown, 4, 4, "finished")
    Store(tmp_path).compact()
    assert Ran(tmp_path, runs("ucl", "hscl")).results == first
    assert started == []


def test_finished_runs_of_a_group_keep_their_results_and_the_others_get_the_same_numbers(
    tmp_path: Path,
) -> None:
    todo = runs("ucl", "hscl", epochs=2)
    Ran(tmp_path, todo)
    before = numbers(tmp_path)
    lost, damaged, *kept = (tmp_path / f"{run.key}.json" for run in todo)
    content = {path: path.read_bytes() for path in kept}
    lost.unlink()
    damaged.write_bytes(damaged.read_bytes()[:100])
    ran = Ran(tmp_path, todo)
    assert says(ran.shown, damaged.name, "damaged")
    assert says(ran.shown, 2, 4, "finished")
    assert numbers(tmp_path) == before
    assert {path: path.read_bytes() for path in kept} == content


def test_a_result_of_another_version_or_run_is_neither_trusted_nor_overwritten(
    tmp_path: Path, started: Started
) -> None:
    (run, other) = runs()
    Ran(tmp_path, [run])
    path, copy = (tmp_path / f"{each.key}.json" for each in (run, other))
    shutil.copy(path, copy)
    rewrite(path, schema_version=99)
    before = path.read_bytes(), copy.read_bytes()
    started.clear()
    for force in (False, True):
        for each, why in ((run, "schema 99"), (other, run.key)):
            with pytest.raises(InputError, match=why):
                Ran(tmp_path, [each], force=force)
    assert (started, (path.read_bytes(), copy.read_bytes())) == ([], before)


def test_other_graphs_of_the_same_name_do_not_meet_old_numbers(
    tmp_path: Path, started: Started
) -> None:
    (run,) = runs(seeds=1)
    result = Ran(tmp_path, [run]).results[run]
    rewrite(tmp_path / f"{run.key}.json", data={**result.data, "digest": "0" * 16})
    started.clear()
    ran = Ran(tmp_path, [run])
    assert ran.results[run].data == result.data
    assert started == [("hscl", 0)]
    assert says(ran.shown, 1, "data", "MUTAG", "--output")


def test_force_runs_everything_once_more(tmp_path: Path, started: Started) -> None:
    todo = runs()
    first = Ran(tmp_path, todo).results
    path = tmp_path / f"{todo[0].key}.json"
    rewrite(path, finished="2020-01-01T00:00:00+00:00", scores={"accuracy": [0.0, 0.0]})
    started.clear()
    again = Ran(tmp_path, todo[:1], force=True).results
    assert started == [("hscl", 0)]
    assert again[todo[0]].values == first[todo[0]].values


def test_report_only_runs_nothing_and_needs_no_data(
    tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = runs("ucl", "hscl", seeds=1)
    first = Ran(tmp_path, done).results
    started.clear()
    monkeypatch.setattr(runner, "_DATA", {})
    monkeypatch.setattr(GraphExperiment, "load", None)
    ran = Ran(tmp_path, runs("ucl", "hscl", seeds=2), report_only=True)
    assert (ran.results, ran.failures, started) == (first, [], [])
    assert says(ran.shown, 2, 4, "finished")
    assert Ran(tmp_path / "none", runs(), report_only=True).results == {}
    assert not (tmp_path / "none").exists()


def test_a_finished_command_is_read_back_without_reading_the_graphs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))  # of this test alone
    monkeypatch.setattr(runner, "_DATA", {})
    first = Ran(tmp_path, runs()).results
    monkeypatch.setattr(runner, "_DATA", {})  # as another process has it
    monkeypatch.setattr(GraphExperiment, "load", None)
    assert Ran(tmp_path, runs()).results == first


def test_what_can_be_known_before_training_is_refused_before_training(
    tmp_path: Path, started: Started
) -> None:
    for settings, message in (
        ({"features": "attributes"}, r"'attributes'.*\blabels\b"),
        ({"folds": 64}, r"class 0\D+63\D+64"),
    ):
        with pytest.raises(InputError, match=message):
            Ran(tmp_path / "out", [*runs(), *runs(**settings)])
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=rf"{tmp_path}/file/out\b.*Not a directory"):
        Ran(tmp_path / "file" / "out", runs())
    assert started == []
    assert not (tmp_path / "out").exists()


def test_progress_fits_80_columns_and_counts_scoring_as_work() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=80, color_system=None)
    todo = runs(protocol="inductive")
    with progress(console) as shown:
        bars = Bars(shown, dict.fromkeys(todo, 10.0), dict.fromkeys(todo, 4.0))
        for run in todo:
            bars.started(run)
        bars.report(todo[0].key, 1.0, 2.0)
        assert [task.percentage for task in shown.tasks] == pytest.approx([30, 60])
        plain = Console(file=StringIO(), width=80)
        plain.print(shown.get_renderable())
        lines = plain.file.getvalue().splitlines()  # type: ignore[attr-defined]
        for part in ("60 %", "ETA", "scoring"):
            assert part in lines[1]
        assert max(map(len, lines)) <= 80
        bars.ended(todo[0])
        assert says(shown.tasks[0].description, 1, 2, "done")


def test_where_there_is_no_terminal_lines_tell_the_progress() -> None:
    console = Console(file=StringIO())
    with progress(console, every=0.05) as shown:
        shown.add_task("scoring: a run", total=2, completed=1)
        tasks.wait_for(lambda: console.file.getvalue().count("50 %") > 1)  # type: ignore
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "scoring: a run" in text


# What goes wrong


def test_a_run_that_diverges_is_named_and_the_others_stay(
    tmp_path: Path, diverging: Callable[[int], None]
) -> None:
    diverging(1)
    todo = runs(seeds=3, batch_size=64)
    ran = Ran(tmp_path, todo)
    (failure,) = ran.failures
    assert says(failure, "loss", "nan", "epoch 1", "batch 1", 3)
    assert str(todo[1]) in failure
    assert {*ran.results} == {todo[0], todo[2]}
    assert {path.name for path in tmp_path.iterdir()} == {f"{r.key}.json" for r in ran.results}
    assert f"failed: {failure.splitlines()[0]}" in ran.shown


def test_an_accident_in_scoring_is_its_runs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = protocols.svm_cross_validation

    def broken(*arguments: Any, seed: int, **settings: Any) -> Any:
        if seed == 1:
            raise ZeroDivisionError("by zero")
        return real(*arguments, seed=seed, **settings)

    monkeypatch.setattr(protocols, "svm_cross_validation", broken)
    ran = Ran(tmp_path, runs(seeds=3))
    assert [run.seed for run in ran.results] == [0, 2]
    (failure,) = ran.failures
    assert failure.startswith("MUTAG hscl")
    assert ", seed 1: ZeroDivisionError: by zero\n" in failure
    assert "in broken" in failure
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("accident", "message"),
    [
        (ZeroDivisionError("by zero"), "seed 1: ZeroDivisionError: by zero"),
        (KilledWorker("train_group", None, TRIES - 1), r"seed 1: .*\bkilled\b"),
    ],
)
def test_an_accident_in_a_group_is_traced_to_its_run_and_the_others_are_done(
    accident: Exception, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = protocols.build

    def broken(config: Any, n_features: int, seed: int, *rest: Any, **more: Any) -> Any:
        if seed == 1:
            raise accident
        return real(config, n_features, seed, *rest, **more)

    monkeypatch.setattr(protocols, "build", broken)
    ran = Ran(tmp_path, runs(seeds=3))
    assert {run.seed for run in ran.results} == {0, 2}
    (failure,) = ran.failures
    assert re.search(message, failure)
    assert not list(tmp_path.glob(".*"))


def test_a_wrong_input_to_a_group_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OutOfMemory("out of memory in epoch 1")

    monkeypatch.setattr(GraphExperiment, "train", refuse)
    assert Ran(tmp_path, runs(seeds=3)).failures == ["out of memory in epoch 1"]


def test_an_interrupt_loses_the_running_group_alone_and_the_same_plan_goes_on(
    tmp_path: Path, started: Started
) -> None:
    todo = runs(seeds=3, epochs=3)
    real = GraphExperiment.train

    def train(self: Any, several: Any, graphs: Any, where: Any, report: Any) -> Any:
        def stop(run: Run, share: float, loss: float) -> bool:
            if run.seed == 1 and share > 0.5:
                signal.raise_signal(signal.SIGINT)
            return bool(report(run, share, loss))

        return real(self, several, graphs, where, stop)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraphExperiment, "train", train)
        with pytest.raises(KeyboardInterrupt):
            Ran(tmp_path, todo, ensemble_size=1)
    assert [path.name for path in tmp_path.iterdir()] == [f"{todo[0].key}.json"]
    kept = numbers(tmp_path)
    started.clear()
    Ran(tmp_path, todo, ensemble_size=1)
    assert started == [("hscl", 1), ("hscl", 2)]
    Ran(tmp_path / "whole", todo, ensemble_size=1)
    assert numbers(tmp_path) == numbers(tmp_path / "whole")
    assert kept.items() <= numbers(tmp_path).items()


# Two commands in one folder


def test_runs_of_another_command_are_waited_for_and_then_read(
    tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = runs()
    result = Ran(tmp_path / "other", [first], ensemble_size=1).results[first]
    started.clear()
    here = Store(tmp_path / "here")
    with ExitStack() as other:
        other.enter_context(held_elsewhere(lock_of(here, first)))

        def while_waiting(seconds: float) -> None:
            """The other command ends its run, and itself."""
            here.put(first, result)
            other.close()

        monkeypatch.setattr("gcl_hard.experiments.runner.time.sleep", while_waiting)
        ran = Ran(here.folder, [first, second], ensemble_size=1)
    assert started == [("hscl", 1)]
    assert ran.results[first] == result
    assert second in ran.results
    assert says(ran.shown, "waiting", "1 runs")
    assert not list(here.folder.glob(".*"))


def bench(output: Path, *arguments: str) -> list[str]:
    return [*BENCH, f"--output={output}", f"--json={output.parent / 'all.json'}", *arguments]


@pytest.mark.slow
@pytest.mark.exact
def test_two_commands_share_a_folder_without_losing_or_doubling(tmp_path: Path) -> None:
    shared = ("--method=ucl,scl", "--seeds=3", "--epochs=20")
    with (
        tasks.process(*bench(tmp_path / "out", *shared)) as first,
        tasks.process(*bench(tmp_path / "out", *shared)) as other,
    ):
        outputs = [process.communicate() for process in (first, other)]
        assert [process.returncode for process in (first, other)] == [0, 0], outputs
    assert main([*SMALL, *shared, f"--output={tmp_path / 'alone'}"]) == 0
    assert len(numbers(tmp_path / "alone")) == 6
    assert numbers(tmp_path / "out") == numbers(tmp_path / "alone")
    assert not list((tmp_path / "out").glob(".*"))


# Several processes


def todo_on_two() -> list[Run]:
    return runs("ucl", "hscl", seeds=2, epochs=60, dim=8)


def expected(folder: Path) -> dict[str, Any]:
    """The numbers of one process."""
    Ran(folder, todo_on_two(), ensemble_size=1)
    return numbers(folder)


ON_TWO = ("--method=ucl,hscl", "--seeds=2", "--epochs=60", "--layers=1", "--dim=8")


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("kind", ["local", "scheduler"])
def test_a_worker_that_is_killed_costs_time_alone(kind: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with ExitStack() as stack:
        more, owner = ["--jobs=2"], None
        if kind == "scheduler":
            address, _ = stack.enter_context(tasks.scheduler(tmp_path))
            more, owner = [f"--scheduler={address}"], os.getpid()
        driver = stack.enter_context(tasks.process(*bench(out, *ON_TWO, *more)))
        tasks.wait_for(lambda: list(out.glob("*_seed*.json")))
        victims = [pid for pid in tasks.below(owner or driver.pid) if tasks.is_worker(pid)]
        assert len(victims) >= 2
        os.kill(victims[0], signal.SIGKILL)
        _, err = driver.communicate()
        assert driver.returncode == 0, err
    assert numbers(out) == expected(tmp_path / "one")
    assert not list(out.glob(".*"))


@pytest.mark.slow
@pytest.mark.exact
def test_workers_end_with_a_killed_driver_and_the_same_command_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = bench(out, *ON_TWO, "--jobs=2")
    with tasks.process(*command) as driver:
        tasks.wait_for(lambda: list(out.glob("*_seed*.json")))
        workers = [pid for pid in tasks.below(driver.pid) if tasks.is_worker(pid)]
        assert len(workers) >= 2
        os.kill(driver.pid, signal.SIGKILL)
        tasks.wait_for(lambda: not any(map(tasks.alive, workers)))
    with tasks.process(*command) as driver:
        _, err = driver.communicate()
        assert driver.returncode == 0, err
    assert numbers(out) == expected(tmp_path / "one")
    assert not list(out.glob(".*"))


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize(
    ("jobs", "number", "workers"),
    [(1, signal.SIGINT, 0), (2, signal.SIGINT, 0), (1, signal.SIGTERM, 2), (2, signal.SIGTERM, 0)],
)
def test_ctrl_c_leaves_checkpoints_of_images_that_are_gone_on_from(
    jobs: int, number: int, workers: int, tmp_path: Path
) -> None:
    """And SIGTERM, which a batch system sends to all processes of a job."""
    images = [
        "--dataset=digits", "--encoder=fast", "--width=4", "--size=8", "--subset=60",
        "--batch-size=20", "--blur=0", "--probe-epochs=3", "--method=ucl", "--epochs=150",
        "--monitor-every=0", "--device=cpu", "--threads=1",
    ]  # fmt: skip
    command = [*tasks.command("gcl_hard.bench"), *images, f"--jobs={jobs}", f"--seeds={jobs}"]
    command += [f"--loader-workers={workers}"] * (workers > 0)
    out, whole = tmp_path / "out", tmp_path / "whole"
    with tasks.process(*command, f"--output={out}", "--checkpoint-minutes=0") as driver:
        tasks.wait_for(lambda: list(out.glob("*.ckpt")))
        os.killpg(driver.pid, number)  # as a terminal does: the workers too
        _, err = driver.communicate()
        assert driver.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number], err
        assert says(err, "saved in checkpoints")
        assert "Traceback" not in err
    assert {path.suffix for path in out.iterdir()} == {".ckpt"}
    with tasks.process(*command, f"--output={out}") as driver:
        _, err = driver.communicate()
        assert driver.returncode == 0, err
    assert main([*images, f"--seeds={jobs}", f"--output={whole}"]) == 0
    assert numbers(out) == numbers(whole)
