"""A command's seeds: saved at once, never run twice, and what is left when one of them stops."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from gcl_hard.experiments.options import BenchOptions, parse_bench
from gcl_hard.experiments.run import Outcome, run
from rich.console import Console

from gcl_hard.errors import InputError
from gcl_hard.experiments import ensembles, graph_seeds, protocols
from gcl_hard.experiments.store import SCHEMA_VERSION

TINY = ["--epochs=1", "--layers=1", "--dim=4", "--folds=2", "--device=cpu", "--threads=1"]

Started = list[tuple[str, int]]


def options(output: Path, *arguments: str) -> BenchOptions:
    return parse_bench([*TINY, "--output", str(output), *arguments])


def go(output: Path, *arguments: str) -> Outcome:
    return run(options(output, *arguments), Console(file=StringIO()))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The seeds that are run from now on, with their methods."""
    seen: Started = []
    real = graph_seeds.train_seeds

    def train_seeds(jobs: Any, *arguments: Any, **settings: Any) -> Any:
        seen.extend((job.cell.method, job.seed) for job in jobs)
        return real(jobs, *arguments, **settings)

    monkeypatch.setattr(graph_seeds, "train_seeds", train_seeds)
    return seen


@pytest.fixture
def diverging(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes the loss of one seed NaN."""
    real = protocols.build

    def make(bad: int) -> None:
        def build(cell: Any, n_features: int, seed: int, member: int = 0, **more: Any) -> Any:
            model = real(cell, n_features, seed, member, **more)
            if seed == bad:
                torch.nn.init.constant_(model.graph_head.shortcut.bias, torch.nan)
            return model

        monkeypatch.setattr(protocols, "build", build)

    return make


def records(folder: Path) -> dict[str, Path]:
    """Saved seeds by method and seed, as in ``ucl_0``."""
    found = sorted(folder.glob("*_seed*.json"))
    return {f"{p.stem.split('_')[1]}_{p.stem.rpartition('_seed')[2]}": p for p in found}


def numbers(path: Path) -> dict[str, Any]:
    """A record without what changes from run to run."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    return {k: v for k, v in stored.items() if k not in {"seconds_train", "seconds_eval",
                                                         "finished"}}  # fmt: skip


def cells_in(path: str | None) -> list[dict[str, Any]]:
    assert path is not None
    cells: list[dict[str, Any]] = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
    return cells


# Results


def test_every_seed_leaves_a_record_and_the_result_file_agrees(tmp_path: Path) -> None:
    outcome = go(tmp_path, "--method=ucl,hscl", "--seeds=2")
    saved = records(tmp_path)
    assert list(saved) == ["hscl_0", "hscl_1", "ucl_0", "ucl_1"]
    cells = cells_in(outcome.path)
    assert [(c["method"], c["seeds"]) for c in cells] == [("ucl", [0, 1]), ("hscl", [0, 1])]
    for cell in cells:
        folds = [numbers(saved[f"{cell['method']}_{s}"])["fold_accuracies"] for s in (0, 1)]
        assert cell["fold_accuracies"] == folds
        assert cell["accuracies"] == pytest.approx([sum(f) / 2 for f in folds])
        assert (cell["n_graphs"], cell["n_classes"], cell["n_features"]) == (188, 2, 7)
        assert (cell["features"], cell["config"]["epochs"]) == ("labels", 1)
        assert torch.__version__.startswith(cell["versions"]["torch"])
        assert cell["device"].startswith("CPU")
        assert cell["seconds_train"] > 0
        assert cell["seconds_eval"] > 0
    assert outcome.failures == []


def test_the_result_file_stands_where_it_was_asked_for(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "result.json"
    outcome = go(tmp_path / "out", "--seeds=1", f"--json={target}")
    assert outcome.path == str(target)
    assert json.loads(target.read_text(encoding="utf-8"))["schema_version"] == SCHEMA_VERSION
    assert [path.name for path in (tmp_path / "out").iterdir()] == [records(tmp_path / "out")[
        "hscl_0"].name]  # fmt: skip


def test_progress_names_seed_epoch_and_the_time_left(tmp_path: Path) -> None:
    console = Console(file=StringIO(), force_terminal=True, width=160)
    run(options(tmp_path, "--seeds=2", "--epochs=2", "--protocol=inductive"), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for part in ("2 seeds", "seed 0", "seed 1", "encoder 2/2", "epoch 2/2", "ETA"):
        assert part in text, part


# Resuming


def test_the_same_command_runs_nothing_twice(tmp_path: Path, started: Started) -> None:
    arguments = ("--method=ucl,hscl", "--seeds=2")
    first = cells_in(go(tmp_path, *arguments).path)
    assert started == [("ucl", 0), ("hscl", 0), ("ucl", 1), ("hscl", 1)]
    started.clear()
    assert cells_in(go(tmp_path, *arguments).path) == first
    assert started == []
    again = ("--method=hscl", "--seeds=1,2", "--objective=jsd", "--dataset=mutag", "--members=1")
    go(tmp_path, *again)
    assert started == [("hscl", 2)]


def test_only_lost_and_damaged_seeds_are_run_again_with_the_same_numbers(
    tmp_path: Path, started: Started
) -> None:
    arguments = ("--method=ucl,hscl", "--seeds=2")
    go(tmp_path, *arguments)
    saved = records(tmp_path)
    before = {name: numbers(path) for name, path in saved.items()}
    stamps = {name: path.stat().st_mtime_ns for name, path in saved.items()}
    saved["ucl_1"].unlink()
    content = saved["hscl_0"].read_bytes()
    saved["hscl_0"].write_bytes(content[: len(content) // 2])
    started.clear()

    go(tmp_path, *arguments)  # the group is trained whole, what was finished is not stored again
    assert started == [("ucl", 0), ("hscl", 0), ("ucl", 1), ("hscl", 1)]
    assert {name: numbers(path) for name, path in records(tmp_path).items()} == before
    kept = {name for name, path in saved.items() if path.stat().st_mtime_ns == stamps[name]}
    assert kept == set(saved) - {"ucl_1", "hscl_0"}


def spoil(path: Path, **changed: Any) -> dict[str, Any]:
    """Change a record, give back what it held."""
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**stored, **changed}))
    return stored


def test_a_record_of_an_older_schema_is_run_again_and_said_so(
    tmp_path: Path, started: Started
) -> None:
    go(tmp_path, "--seeds=2")
    path = records(tmp_path)["hscl_1"]
    stored = spoil(path, schema_version=SCHEMA_VERSION - 1, fold_accuracies=[0.0, 0.0])
    started.clear()
    console = Console(file=StringIO(), width=300)
    outcome = run(options(tmp_path, "--seeds=2"), console)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"run again: {path.name} is of the older schema {SCHEMA_VERSION - 1}" in said
    assert started == [("hscl", 0), ("hscl", 1)]  # the whole group
    assert cells_in(outcome.path)[0]["fold_accuracies"][1] == stored["fold_accuracies"]


def test_a_record_of_a_newer_schema_is_neither_trusted_nor_overwritten(
    tmp_path: Path, started: Started
) -> None:
    go(tmp_path, "--seeds=1")
    path = records(tmp_path)["hscl_0"]
    spoil(path, schema_version=SCHEMA_VERSION + 1)
    before = path.read_bytes()
    started.clear()
    with pytest.raises(InputError, match=f"schema {SCHEMA_VERSION + 1}.*upgrade"):
        go(tmp_path, "--seeds=2")
    assert (started, path.read_bytes()) == ([], before)


def test_a_half_written_record_is_named(tmp_path: Path) -> None:
    go(tmp_path, "--seeds=1")
    path = records(tmp_path)["hscl_0"]
    path.write_bytes(path.read_bytes()[:100])
    console = Console(file=StringIO(), width=300)
    run(options(tmp_path, "--seeds=1"), console)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"run again: {path.name} is half-written or damaged" in said


def test_force_runs_everything_once_more(tmp_path: Path, started: Started) -> None:
    go(tmp_path, "--seeds=2")
    path = records(tmp_path)["hscl_0"]
    stored = spoil(path, finished="2020-01-01T00:00:00+00:00", fold_accuracies=[0.0, 0.0])
    started.clear()
    go(tmp_path, "--seeds=1", "--force")
    assert started == [("hscl", 0)]
    assert numbers(path)["fold_accuracies"] == stored["fold_accuracies"]


def test_report_only_runs_nothing_and_needs_no_data(
    tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(tmp_path, "--seeds=1", "--method=ucl,hscl")
    started.clear()
    monkeypatch.setattr("gcl_hard.graphs.tudataset.load", None)
    outcome = go(tmp_path, "--seeds=2", "--method=ucl,hscl", "--report-only")
    assert started == []
    assert [c["seeds"] for c in cells_in(outcome.path)] == [[0], [0]]
    assert [str(job) for job in outcome.results.open] == [
        "MUTAG ucl paper, seed 1", "MUTAG hscl β=1 paper, seed 1",
    ]  # fmt: skip


def test_other_graphs_of_the_same_name_do_not_meet_old_numbers(
    tmp_path: Path, started: Started
) -> None:
    go(tmp_path, "--seeds=1")
    path = records(tmp_path)["hscl_0"]
    stored = json.loads(path.read_text(encoding="utf-8"))
    spoil(path, data={**stored["data"], "digest": "0" * 16})
    started.clear()
    go(tmp_path, "--seeds=1")
    assert started == [("hscl", 0)]


def test_a_finished_command_is_read_back_without_reading_the_graphs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = cells_in(go(tmp_path, "--seeds=1").path)
    monkeypatch.setattr("gcl_hard.graphs.tudataset.load", None)
    assert cells_in(go(tmp_path, "--seeds=1").path) == first


def test_a_copied_record_does_not_count_as_another_seed(tmp_path: Path) -> None:
    go(tmp_path, "--seeds=1")
    path = records(tmp_path)["hscl_0"]
    path.with_name(path.name.replace("seed0", "seed1")).write_bytes(path.read_bytes())
    (cell,) = cells_in(go(tmp_path, "--seeds=2").path)
    assert cell["seeds"] == [0, 1]


def test_a_changed_setting_never_meets_old_numbers(tmp_path: Path, started: Started) -> None:
    go(tmp_path, "--seeds=1")
    path = records(tmp_path)["hscl_0"]
    before = path.read_bytes()
    changes = ("--epochs=2", "--lr=0.02", "--folds=3", "--data-seed=1")
    for done, changed in enumerate(changes, start=1):
        go(tmp_path, "--seeds=1", changed)
        assert started == [("hscl", 0)] * (done + 1), changed
        assert len(list(tmp_path.glob("*_seed0.json"))) == done + 1
    assert path.read_bytes() == before


def test_an_interrupt_loses_the_running_group_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Started
) -> None:
    real = ensembles.train_ensemble

    def train(*args: Any, settings: Any, on_epoch: Callable[..., None], **kw: Any) -> Any:
        def stop(epoch: int, *of: Any) -> None:
            on_epoch(epoch, *of)
            if settings[0].endswith("seed 1") and epoch == 2:
                raise KeyboardInterrupt

        return real(*args, settings=settings, on_epoch=stop, **kw)

    with monkeypatch.context() as patch:
        patch.setattr(ensembles, "train_ensemble", train)
        with pytest.raises(KeyboardInterrupt):
            go(tmp_path, "--seeds=3", "--epochs=3", "--members=1")
    assert [path.name for path in tmp_path.iterdir()] == [records(tmp_path)["hscl_0"].name]
    kept = numbers(records(tmp_path)["hscl_0"])

    started.clear()
    resumed = go(tmp_path, "--seeds=3", "--epochs=3", "--members=1")
    assert started == [("hscl", 1), ("hscl", 2)]
    whole = go(tmp_path / "at-once", "--seeds=3", "--epochs=3", "--members=1")
    assert numbers(records(tmp_path)["hscl_0"]) == kept
    one, other = cells_in(resumed.path)[0], cells_in(whole.path)[0]
    assert one["fold_accuracies"] == other["fold_accuracies"]


# What goes wrong


def test_a_seed_that_diverges_is_reported_and_the_others_stay(
    tmp_path: Path, diverging: Callable[[int], None]
) -> None:
    diverging(1)
    outcome = go(tmp_path, "--seeds=3", "--batch-size=64")
    (failure,) = outcome.failures
    assert failure.startswith("the loss is nan in epoch 1, batch 1 of 3 (MUTAG hscl β=1 paper, se")
    assert "seed 1)" in failure
    assert list(records(tmp_path)) == ["hscl_0", "hscl_2"]
    (cell,) = cells_in(outcome.path)
    assert cell["seeds"] == [0, 2]
    assert all(0 <= value <= 100 for folds in cell["fold_accuracies"] for value in folds)


def test_when_every_seed_diverges_nothing_is_written(tmp_path: Path) -> None:
    outcome = go(tmp_path, "--seeds=2", "--lr=1e30", "--batch-size=64")
    assert len(outcome.failures) == 2
    assert (outcome.results.records, outcome.path) == ({}, None)
    assert list(tmp_path.iterdir()) == []


def test_the_result_file_holds_what_was_chosen(tmp_path: Path) -> None:
    outcome = go(
        tmp_path, "--beta=1,5", "--protocol=inductive", "--select=true", "--seeds=2", "--folds=3"
    )
    assert outcome.path is not None
    content = json.loads(Path(outcome.path).read_text(encoding="utf-8"))
    (selection,) = content["selections"]
    inner = {
        (beta, seed): numbers(path)["fold_accuracies"]
        for beta in (1.0, 5.0)
        for seed in (0, 1)
        for path in tmp_path.glob(f"*_inner_seed{seed}.json")
        if numbers(path)["config"]["beta"] == beta
    }
    for row, (seed, chosen) in enumerate(enumerate(selection["chosen"])):
        for fold, choice in enumerate(chosen):
            ones, fives = inner[1.0, seed][fold], inner[5.0, seed][fold]
            assert choice == int(fives > ones)
            cell = content["cells"][choice]
            assert selection["fold_accuracies"][row][fold] == cell["fold_accuracies"][row][fold]


def test_a_part_of_a_table_does_not_overwrite_the_whole_ones_file(tmp_path: Path) -> None:
    small = ("--table=2", "--dataset=MUTAG", "--method=majority", "--jobs=1", "--seeds=1")
    name = Path(go(tmp_path, *small).path or "").name
    assert name.startswith("table-2-")
    assert name != Path(go(tmp_path, *small, "--quick").path or "").name


def test_what_can_be_known_before_training_is_refused_before_training(
    tmp_path: Path, started: Started
) -> None:
    (tmp_path / "folder").mkdir()
    for arguments, says in (
        (["--device=gpu"], "device must be"),
        (["--dataset=MUTAG,no/name"], "dataset 'no/name'"),
        (["--features=attributes"], "not in this set"),
        (["--folds=64"], "63 members"),
        ([f"--json={tmp_path / 'folder'}"], "folder"),
    ):
        with pytest.raises(InputError, match=says):
            go(tmp_path / "out", "--seeds=1", *arguments)
        assert started == [], arguments
    assert not list((tmp_path / "out").iterdir())


def test_a_smoke_run_is_not_written_over_results_and_that_is_known_before(
    tmp_path: Path, started: Started
) -> None:
    page = tmp_path / "results.md"
    page.write_text("# Results\n")
    with pytest.raises(InputError, match="holds results: give a smoke run another"):
        go(tmp_path / "out", "--quick", "--seeds=1", f"--report={page}")
    assert started == []
    assert page.read_text() == "# Results\n"
