"""Looks in records and result files, and the points beside them."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gcl_hard.experiments.options import parse_bench

from gcl_hard.errors import InputError
from gcl_hard.experiments.config import GraphConfig, from_dict
from gcl_hard.experiments.runs import Run
from gcl_hard.experiments.store import RunResult, lacks, load, points_of
from tests.experiments import record
from tests.experiments.diagnostics import epochs, go, saved, small

# Records


def test_a_record_from_before_looks_is_read(tmp_path: Path) -> None:
    go(tmp_path, "--seeds=1")
    ((file, one),) = saved(tmp_path).items()
    del one["diagnostics"], one["seconds_diagnostics"]
    (tmp_path / file).write_text(json.dumps(one))
    said = StringIO()
    go(tmp_path, "--seeds=1", said=said)
    assert "1 of 1 seeds were finished before" in said.getvalue()
    old = load(tmp_path / file, Run(from_dict(one["config"]), 0))
    assert isinstance(old, RunResult)
    assert (old.diagnostics, old.seconds_diagnostics) == ([], 0.0)
    assert lacks(old, 2)
    assert not lacks(old, 0)


def test_a_record_lacks_looks_only_if_it_could_have_them() -> None:
    cell = small(epochs=4, protocol="inductive")

    def lacking(every: int, had: list[int], of: GraphConfig = cell, **more: Any) -> bool:
        looks = [{"epoch": epoch} for epoch in had]
        return lacks(record(of, 0, [1.0] * 3, diagnostics=looks, **more), every)

    assert [lacking(every, []) for every in (0, 1, 9)] == [False, True, True]
    assert [lacking(every, [2, 4]) for every in (0, 1, 2, 3, 4, 9)] == [
        False, True, False, True, False, False,
    ]  # fmt: skip
    assert not any(lacking(every, [1, 2, 3, 4]) for every in range(9))
    assert not lacking(1, [], inner=True)
    assert not lacking(1, [], of=small("supervised"))
    assert not lacking(1, [], of=small("untrained"))


@pytest.mark.parametrize("damaged", [None, "x", [1], [{}], [{"epoch": 1}]])
def test_a_record_whose_looks_are_damaged_is_not_trusted(tmp_path: Path, damaged: Any) -> None:
    go(tmp_path, "--seeds=1", "--diagnostics=1")
    ((file, one),) = saved(tmp_path).items()
    job = Run(from_dict(one["config"]), 0)
    assert load(tmp_path / file, job) is not None
    (tmp_path / file).write_text(json.dumps(one | {"diagnostics": damaged}))
    assert load(tmp_path / file, job) is None


def test_points_of_another_run_do_not_stay(tmp_path: Path) -> None:
    go(tmp_path, "--seeds=1", "--diagnostics=1")
    ((file, _),) = saved(tmp_path).items()
    assert len(list(tmp_path.glob("*.npz"))) == 1
    (tmp_path / file).unlink()
    go(tmp_path, "--seeds=1")
    assert list(tmp_path.glob("*.npz")) == []


def test_a_finished_seed_without_the_looks_is_run_again_and_said_so(tmp_path: Path) -> None:
    arguments = ["--method=ucl,majority", "--seeds=1"]
    go(tmp_path, *arguments)
    before = saved(tmp_path)
    for every, due, again in ((2, [2, 4, 5], True), (5, [2, 4, 5], False), (1, range(1, 6), True),
                              (2, range(1, 6), False), (0, range(1, 6), False)):  # fmt: skip
        said = StringIO()
        go(tmp_path, *arguments, f"--diagnostics={every}", said=said)
        stored = saved(tmp_path)
        (ucl,) = (file for file in stored if "_ucl_" in file)
        assert epochs(stored[ucl]) == list(due)
        message = f"run again: {ucl} lacks diagnostics every {every} epochs\n"
        assert (message in said.getvalue()) == again
        assert ("run again" in said.getvalue()) == again
        assert f"{2 - again} of 2 seeds" in said.getvalue()
        assert stored[ucl]["fold_accuracies"] == before[ucl]["fold_accuracies"]


def test_what_is_shown_without_running_needs_no_looks(tmp_path: Path) -> None:
    go(tmp_path, "--seeds=1")
    said = StringIO()
    outcome = go(tmp_path, "--seeds=1", "--diagnostics=1", "--report-only", said=said)
    assert len(outcome.results.records) == 1
    assert "lacks" not in said.getvalue()


@pytest.mark.parametrize("value", ["-1", "1.5", "x"])
def test_a_flag_that_is_no_number_of_epochs_is_refused(value: str) -> None:
    with pytest.raises(InputError, match="diagnostics"):
        parse_bench([f"--diagnostics={value}"])


# The result file and the points


def test_the_result_file_has_the_looks_of_each_seed(tmp_path: Path) -> None:
    outcome = go(tmp_path, "--method=hscl,majority", "--seeds=2", "--diagnostics=3")
    assert outcome.path is not None
    hscl, majority = json.loads(Path(outcome.path).read_text(encoding="utf-8"))["cells"]
    of_seeds = [one for file, one in saved(tmp_path).items() if "_hscl_" in file]
    assert hscl["diagnostics"] == [one["diagnostics"] for one in of_seeds]
    assert [[look["epoch"] for look in looks] for looks in hscl["diagnostics"]] == [[3, 5]] * 2
    total = sum(one["seconds_diagnostics"] for one in of_seeds)
    assert hscl["seconds_diagnostics"] == pytest.approx(total)
    for cell in (hscl, majority):
        assert "curves" not in cell
    assert "diagnostics" not in majority
    assert "seconds_diagnostics" not in majority


def softmax_means(weights: np.ndarray, h: np.ndarray, of: np.ndarray) -> np.ndarray:
    """E_q[h], q ∝ weights on ``of``; NaN where that is empty."""
    kept = weights * of
    with np.errstate(invalid="ignore"):
        return np.asarray((kept * h).sum(1) / kept.sum(1))


def assert_points_give_the_look(file: Path, look: dict[str, Any]) -> None:
    with np.load(file) as stored:
        points = dict(stored)
    assert points.keys() == {
        "anchors", "candidates", "anchor_labels", "candidate_labels", "positive", "own", "scale",
        "temperature", "objective",
    }  # fmt: skip
    assert points["anchors"].dtype == points["candidates"].dtype == np.float32
    assert len(points["anchors"]) == look["anchors"]
    a, c = (points[name].astype(np.float64) for name in ("anchors", "candidates"))
    infonce, gamma = str(points["objective"]) == "infonce", float(points["temperature"])
    if infonce:
        a, c = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (a, c))
    t = a @ c.T / (gamma if infonce else 1)
    every = np.arange(len(c))
    others = (every != points["own"][:, None]) & (every != points["positive"][:, None])
    same = points["anchor_labels"][:, None] == points["candidate_labels"]
    s = t / float(points["scale"])
    assert np.abs(s[others]).max() <= 1 + 1e-6
    h = np.exp(t) if infonce else np.logaddexp(0, t)
    for beta in (1, 2):
        eta, setting = np.exp(beta * s / gamma), look["settings"][f"beta={beta}"]
        left, right = (softmax_means(eta, h, others & of) for of in (same, ~same))
        defined = ~np.isnan(left) & ~np.isnan(right)
        holds = (left >= right)[defined].mean()
        assert setting["defined"] == defined.sum()
        assert setting["assumption_1"] == pytest.approx(holds, rel=1e-5)
        assert setting["collisions"] == pytest.approx(left[defined].mean(), rel=1e-5)
        assert setting["negatives"] == pytest.approx(right[defined].mean(), rel=1e-5)


@pytest.mark.parametrize("contrast", ["local-global", "two-view"])
@pytest.mark.parametrize("objective", ["jsd", "infonce"])
def test_the_points_give_the_last_look_again(tmp_path: Path, contrast: str, objective: str) -> None:
    go(tmp_path, f"--contrast={contrast}", f"--objective={objective}", "--batch-size=100",
       "--seeds=1", "--diagnostics=4")  # fmt: skip
    ((file, one),) = saved(tmp_path).items()
    assert_points_give_the_look(points_of(tmp_path / file), one["diagnostics"][-1])
