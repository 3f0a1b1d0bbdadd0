"""Accuracies of configs, and of settings chosen inside training folds, against NumPy and loops."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcl_hard.experiments.domains import from_dict
from gcl_hard.experiments.plan import plan
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import selectable
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.reports.frame import (
    SCHEMA_VERSION,
    Results,
    Scores,
    result_json,
    standard_error,
)
from tests.experiments import record

FOLDS = 3
TABLE = [[80.0, 90.0, 85.0], [70.0, 71.0, 78.0], [92.0, 88.0, 84.0]]
SCORES = Scores((5, 0, 7), tuple(map(tuple, TABLE)))


def config(method: str = "hscl", protocol: str = "inductive", **settings: Any) -> GraphConfig:
    return GraphConfig(**{"method": method, "protocol": protocol, "folds": FOLDS, **settings})


def noise(run: Run) -> list[float]:
    """Accuracies that depend on the run alone, never tied; they rise by 3 points with β."""
    name = f"{run.config} {run.config.lr} {run.config.epochs}"
    level = 60 + zlib.crc32(name.encode()) % 5 + 3 * (run.config.beta or 0.0)
    rng = np.random.default_rng(zlib.crc32(f"{name} {run}".encode()))
    return [float(a) for a in level + rng.standard_normal(run.config.folds)]


def filled(
    configs: Sequence[GraphConfig],
    seeds: Sequence[int] = (0, 1, 2),
    *,
    select: bool = False,
    missing: Collection[Run] = (),
) -> Results:
    """Everything finished but what is missing; hold-outs of every config where ``select``.

    A run takes 20 + 3 seconds, on hold-outs 7 + 3.
    """
    runs = [
        Run(c, s, inner)
        for c in configs
        for s in seeds
        for inner in ((False, True) if select and c.encoders == c.folds else (False,))
    ]
    records = {
        j: record(j.config, j.seed, noise(j), inner=j.inner, seconds_train=7.0 if j.inner else 20.0)
        for j in runs
        if j not in missing
    }
    return Results(configs, tuple(seeds), records, select)


BETAS = [config(beta=beta) for beta in (1.0, 2.0, 10.0)]


# Scores


def test_scores_are_numpys() -> None:
    table = np.array(TABLE)
    assert SCORES.means == pytest.approx(table.mean(axis=1).tolist())
    assert SCORES.mean == pytest.approx(table.mean())
    assert SCORES.std == pytest.approx(table.mean(axis=1).std(ddof=1))
    assert SCORES.fold_std == pytest.approx(table.std(axis=1, ddof=1).mean())
    assert SCORES.flat == table.ravel().tolist()


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_the_test_share_counts_what_was_trained_on(share: float) -> None:
    n_graphs = 600
    n_test = n_graphs // FOLDS
    n_train = share * (n_graphs - n_test)
    configs = [config("hscl", beta=beta, train_share=share) for beta in (1.0, 2.0)]
    (selection,) = filled(configs, select=True).selections
    for scores in (selection.scores, *selection.outer):
        assert scores.test_share == pytest.approx(n_test / n_train)
        assert scores.restricted([2]).test_share == scores.test_share


# Selection


def test_over_epochs_there_is_a_choice_but_no_best() -> None:
    configs = [config(epochs=epochs) for epochs in (20, 100)]
    results = filled(configs, select=True)
    (selection,) = results.selections
    hold_outs = np.array([[noise(Run(c, s, inner=True)) for s in range(3)] for c in configs])
    np.testing.assert_array_equal(selection.chosen, hold_outs.argmax(axis=0))
    assert (selection.best, selection.optimism) == (None, None)
    (content,) = result_json(results)["selections"]
    assert (content["best_on_test"], content["optimism"]) == (None, None)
    assert content["accuracies"] == selection.scores.means


@st.composite
def commands(draw: st.DrawFn) -> tuple[Results, list[GraphConfig]]:
    """Candidates with accuracies that are often tied, some of them still open."""
    n_folds = draw(st.integers(2, 4))
    seeds = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True))
    configs = [config(beta=float(c), folds=n_folds) for c in range(draw(st.integers(2, 4)))]
    folds = st.lists(st.integers(0, 3).map(float), min_size=n_folds, max_size=n_folds)
    runs = [Run(c, s, inner) for c in configs for s in seeds for inner in (False, True)]
    left_open = draw(st.lists(st.sampled_from(runs), max_size=3))
    records = {
        run: record(run.config, run.seed, draw(folds), inner=run.inner)
        for run in draw(st.permutations(runs))
        if run not in left_open
    }
    return Results(configs, tuple(seeds), records, select=True), configs


@given(commands())
def test_a_selection_is_a_loop_over_seeds_and_folds(
    command: tuple[Results, list[GraphConfig]],
) -> None:
    results, configs = command
    seeds, chosen, accuracies = [], [], []
    means: list[list[float]] = [[] for _ in configs]
    for seed in results.seeds:
        runs = [(Run(c, seed, inner=True), Run(c, seed)) for c in configs]
        if any(run not in results.records for pair in runs for run in pair):
            continue
        inner = [results.records[run].values for run, _ in runs]
        outer = [results.records[run].values for _, run in runs]
        row = []
        for k in range(configs[0].folds):
            winner = 0
            for c in range(len(configs)):
                if inner[c][k] > inner[winner][k]:
                    winner = c
            row.append(winner)
        seeds.append(seed)
        chosen.append(row)
        accuracies.append([outer[c][k] for k, c in enumerate(row)])
        for c, folds in enumerate(outer):
            means[c].append(float(np.mean(folds)))
    if not seeds:
        assert results.selections == []
        return
    (selection,) = results.selections
    assert selection.scores.seeds == tuple(seeds)
    assert [list(row) for row in selection.chosen] == chosen
    assert [list(row) for row in selection.scores.folds] == accuracies
    best = max(float(np.mean(of_seeds)) for of_seeds in means)
    assert selection.optimism == pytest.approx(best - np.mean(accuracies), abs=1e-9)
    assert all(scores.seeds == tuple(seeds) for scores in selection.outer)


def test_each_group_of_candidates_has_its_selection() -> None:
    others = [config("hucl", beta=2.0), config("hucl", beta=1.0)]
    paper = [config(protocol="transductive", beta=beta) for beta in (1.0, 2.0)]
    configs = [*BETAS, *paper, config("ucl"), *others, config("majority")]
    results = filled(configs, select=True)
    scores_by_config = [[*selection.candidates] for selection in results.selections]
    assert scores_by_config == [BETAS, others]
    not_asked_for = Results(configs, results.seeds, results.records)
    assert not_asked_for.selections == []


# What is finished and what is open


def test_every_run_of_a_command_is_open_or_has_a_record() -> None:
    configs = [*BETAS, config("ucl"), config("majority"), config("hscl", "transductive")]
    runs = plan(configs, (2, 0, 1), select=True)
    missing = runs[::3]
    results = filled(configs, (2, 0, 1), select=True, missing=missing)
    assert results.open == missing
    assert filled(configs, select=True).open == []
    assert Results(configs, (2, 0, 1), {}, select=True).open == runs
    assert not any(run.inner for run in Results(configs, (0,), {}).open)


def test_records_of_seeds_and_configs_that_were_not_asked_for_do_not_count() -> None:
    more = filled(BETAS, (0, 1, 2, 3))
    results = Results(BETAS[:1], (3, 1), more.records)
    assert [run_config["beta"] for run_config in result_json(results)["configs"]] == [BETAS[0].beta]
    scores = results.scores(BETAS[0])
    assert scores is not None
    assert scores.seeds == (3, 1)
    assert results.scores(BETAS[0], seeds=[]) is None


def test_the_standard_error_is_that_of_a_mean_of_hits() -> None:
    for right, n in ((34, 48), (0, 5), (5, 5), (1, 103)):
        hits = 100 * (np.arange(n) < right)
        error = standard_error(100 * right / n, n)
        assert error == pytest.approx(hits.std() / np.sqrt(n))


# The result file


def test_the_result_file_survives_json_and_gives_everything_back() -> None:
    configs = [*BETAS, config("ucl", "transductive"), config("majority")]
    results = filled(configs, (3, 1), select=True, missing=[Run(configs[3], 3)])
    content = result_json(results)
    read = json.loads(json.dumps(content, allow_nan=False))
    assert read == content
    assert (read["schema_version"], read["quick"]) == (SCHEMA_VERSION, False)
    assert result_json(results, quick=True) == {**content, "quick": True}
    assert [from_dict(run_config["config"]) for run_config in read["configs"]] == configs
    for run_config, asked in zip(read["configs"], configs, strict=True):
        expected = {s: noise(Run(asked, s)) for s in (3, 1) if Run(asked, s) in results.records}
        assert (
            dict(zip(run_config["seeds"], run_config["fold_accuracies"], strict=True)) == expected
        )
        means = [np.mean(folds) for folds in expected.values()]
        assert run_config["accuracies"] == pytest.approx(means)
        assert run_config["accuracy_mean"] == pytest.approx(np.mean(means))
        if len(means) == 1:
            assert run_config["accuracy_std"] is None
        else:
            assert run_config["accuracy_std"] == pytest.approx(np.std(means, ddof=1))
        for name in ("dataset", "method", "protocol", "beta"):
            assert run_config[name] == run_config["config"][name]


def test_a_config_in_the_result_file_has_the_keys_of_its_schema() -> None:
    run_config = config("hscl", "transductive")
    data = {"n_graphs": 188, "n_classes": 2, "n_features": 7, "features": "labels", "digest": "ab"}
    (content,) = result_json(
        Results(
            [run_config],
            (0, 1),
            {Run(run_config, s): record(run_config, s, TABLE[s], data=data) for s in (0, 1)},
        )
    )["configs"]
    assert list(content) == [
        "dataset", "method", "protocol", "beta", "seeds", "accuracies", "fold_accuracies",
        "accuracy_mean", "accuracy_std", "paper_accuracy", "n_graphs", "n_classes", "n_features",
        "features", "domain", "metric", "config", "versions", "device", "seconds_train",
        "seconds_eval",
    ]  # fmt: skip
    assert (content["seconds_train"], content["seconds_eval"]) == (40.0, 6.0)
    assert (content["n_graphs"], content["features"], content["device"]) == (188, "labels", "CPU")
    assert content["paper_accuracy"] == 87.2


def test_a_selection_in_the_result_file_can_be_checked_from_its_candidates() -> None:
    content = result_json(filled(BETAS, select=True, missing=[Run(BETAS[0], 1)]))
    (selection,) = content["selections"]
    assert list(selection) == [
        "dataset", "method", "protocol", "settings", "candidates", "seeds", "chosen", "accuracies",
        "fold_accuracies", "accuracy_mean", "accuracy_std", "best_on_test", "optimism",
    ]  # fmt: skip
    assert [c["beta"] for c in selection["candidates"]] == [1.0, 2.0, 10.0]
    assert all(set(c) == set(selectable(GraphConfig)) for c in selection["candidates"])
    assert selection["seeds"] == [0, 2]
    tables = [dict(zip(c["seeds"], c["fold_accuracies"], strict=True)) for c in content["configs"]]
    for seed, row, folds in zip(
        selection["seeds"], selection["chosen"], selection["fold_accuracies"], strict=True
    ):
        assert folds == [tables[c][seed][k] for k, c in enumerate(row)]
    means = [np.mean([table[seed] for seed in selection["seeds"]]) for table in tables]
    assert selection["best_on_test"] == np.argmax(means)
    assert selection["optimism"] == pytest.approx(max(means) - selection["accuracy_mean"])
