"""The entry points as processes: exit statuses, SIGKILL, resuming, and what a search may see."""

from __future__ import annotations

import json
import os
import runpy
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gcl_hard.evaluation.folds import inner_holdout

CPU = ["--device=cpu", "--threads=1"]
SEARCH = [
    *CPU, "--method=hscl", "--layers=1", "--dim=4", "--trials=6", "--ensemble-size=1",
    "--sampler=random", "--study-name=search",
]  # fmt: skip


def command(entry: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"gcl_hard.{entry}", *arguments]


def run(entry: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(entry, *arguments), capture_output=True, text=True, check=False)


def killed_when(ready: Callable[[], bool], entry: str, *arguments: str) -> None:
    """Start a command and end it by SIGKILL, with every process below it, once it is so far."""
    with subprocess.Popen(
        command(entry, *arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            while not ready():
                assert process.poll() is None, "the command ended before it could be killed"
                time.sleep(0.005)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("entry", "arguments"),
    [
        ("bench", ["--dataset=MUTAG", "--epochs=0"]),
        ("tune", ["--dataset=MUTAG", "--trials=0"]),
        ("figures", ["fig4", "nothing-here", "-o", "figures"]),
        ("pretrain", ["--dataset=nothing-here.csv"]),
        ("bench", ["--dataset=nothing-here.csv", "--method=ecfp"]),
    ],
)
def test_what_cannot_be_run_is_one_message_and_status_2(
    entry: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [entry, *arguments])
    warnings.filterwarnings("ignore", message=".*found in sys.modules")
    with pytest.raises(SystemExit) as left:
        runpy.run_module(f"gcl_hard.{entry}", run_name="__main__")
    out, err = capsys.readouterr()
    assert (left.value.code, out) == (2, "")
    assert err.startswith("error: ")
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def record(output: Path) -> dict[str, Any]:
    """The one record of a folder, without times and the digest that covers them."""
    (path,) = output.glob("*_seed0.json")
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    times = [k for k in content if k in ("finished", "digest") or k.startswith("seconds")]
    return {k: v for k, v in content.items() if k not in times}


@pytest.mark.slow
def test_an_image_seed_killed_in_training_and_resumed_ends_with_the_same_bits(
    tmp_path: Path,
) -> None:
    settings = [
        "--dataset=digits", "--encoder=resnet18", "--subset=60", "--batch-size=20", "--epochs=3",
        "--probe-epochs=3", "--seeds=1", "--checkpoint-minutes=0", *CPU,
    ]  # fmt: skip
    assert run("bench", *settings, f"--output={tmp_path / 'whole'}").returncode == 0
    stopped = [*settings, f"--output={tmp_path / 'killed'}"]
    killed_when(lambda: any((tmp_path / "killed").glob("*.ckpt")), "bench", *stopped)
    assert not list((tmp_path / "killed").glob("*_seed0.json"))
    assert run("bench", *stopped).returncode == 0
    assert record(tmp_path / "killed") == record(tmp_path / "whole")


def complete(output: Path) -> int:
    """Trials that have a score, as the database says while a search runs."""
    try:
        with closing(sqlite3.connect(output / "search.db")) as base:
            (count,) = base.execute("SELECT COUNT(*) FROM trials WHERE state = 'COMPLETE'")
            return int(count[0])
    except sqlite3.OperationalError:
        return 0


def scores(output: Path) -> list[tuple[float, float]]:
    """β and inner score of every complete trial."""
    import optuna

    study = optuna.load_study(study_name="search", storage=f"sqlite:///{output / 'search.db'}")
    trials = [t for t in study.trials if t.state == optuna.trial.TrialState.COMPLETE]
    return sorted((trial.params["beta"], trial.values[0]) for trial in trials)


def outcome(output: Path) -> dict[str, Any]:
    """What a search found: best settings, inner and outer score, outer scorings."""
    (path,) = output.glob("*_search.json")
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    (study,) = content["studies"]
    return {key: study[key] for key in ("params", "inner", "outer", "n_outer", "complete")}


@pytest.mark.slow
def test_a_search_that_was_killed_keeps_its_trials_and_scores_outside_once(tmp_path: Path) -> None:
    settings = ["--dataset=MUTAG", "--epochs=60", *SEARCH]
    killed = tmp_path / "killed"
    killed_when(lambda: complete(killed) >= 2, "tune", *settings, f"--output={killed}")
    before, ends = scores(killed), []
    assert 2 <= len(before) < 6
    for _ in range(2):  # the second call finds everything done
        assert run("tune", *settings, f"--output={killed}").returncode == 0
        ends.append((scores(killed), outcome(killed)))
    assert {*before} < {*ends[0][0]}
    assert len({*ends[0][0]}) == 6
    assert ends[0] == ends[1]
    assert outcome(killed)["n_outer"] == 1


def graphs(folder: Path, garbage: frozenset[int]) -> np.ndarray:
    """A set of rings, half of them with chords; some have other edges and node labels instead."""
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2
    edges, indicator, nodes = [], [], []
    for graph, label in enumerate(labels):
        n, offset = int(rng.integers(8, 14)), len(nodes)
        ring = [(i, (i + 1) % n) for i in range(n)]
        pairs = ring + [(i, (i + n // 2) % n) for i in range(n // 4)] * int(label)
        kinds = rng.integers(0, 3, n)
        if graph in garbage:
            pairs, kinds = [(0, i) for i in range(1, n)], 2 - kinds
        both = [*pairs, *((j, i) for i, j in pairs)]
        edges += [f"{i + offset + 1}, {j + offset + 1}" for i, j in both]
        indicator += [str(graph + 1)] * n
        nodes += [str(kind) for kind in kinds]
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "RINGS.zip", "w") as archive:
        for name, lines in {
            "A": edges, "graph_indicator": indicator, "node_labels": nodes,
            "graph_labels": list(map(str, labels)),
        }.items():  # fmt: skip
            archive.writestr(f"RINGS/RINGS_{name}.txt", "\n".join(lines) + "\n")
    return labels


@pytest.mark.slow
def test_garbage_in_the_outer_part_changes_no_bit_of_a_search_but_its_outer_score(
    tmp_path: Path,
) -> None:
    labels = graphs(tmp_path / "clean", frozenset())
    outside = inner_holdout(np.arange(len(labels)), labels, seed=0, fraction=0.3).test
    graphs(tmp_path / "spoilt", frozenset(outside.tolist()))
    graphs(tmp_path / "inside", frozenset(np.setdiff1d(np.arange(len(labels)), outside).tolist()))
    outcomes = {}
    for name in ("clean", "spoilt", "inside"):
        output = tmp_path / f"results-{name}"
        data = [f"--data-dir={tmp_path / name}", f"--output={output}"]
        done = run("tune", "--dataset=RINGS", "--epochs=5", *SEARCH, *data)
        assert done.returncode == 0, done.stderr
        outcomes[name] = scores(output), outcome(output)["outer"]
    assert outcomes["spoilt"][0] == outcomes["clean"][0]
    assert outcomes["spoilt"][1] != outcomes["clean"][1]
    assert outcomes["inside"][0] != outcomes["clean"][0]  # so the garbage could have been seen
