"""Runs: their names and costs, and the order in which a command does them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from gcl_hard.experiments.plan import candidate_groups, plan
from gcl_hard.experiments.run import Run
from gcl_hard.graphs.settings import GraphConfig

"""Baselines that train no encoder."""


def inductive(method: str = "hscl", **settings: Any) -> GraphConfig:
    return GraphConfig(**{"method": method, "protocol": "inductive", "folds": 3, **settings})


# Runs


def test_every_run_has_a_key_of_its_own() -> None:
    configs = [
        inductive(),
        inductive(beta=2.0),
        inductive("ucl"),
        inductive(protocol="transductive"),
        inductive(dataset="PTC_MR"),
        inductive("supervised"),
        inductive("majority"),
    ]
    runs = [Run(*parts) for parts in itertools.product(configs, (0, 1, 11), (False, True))]
    names = [run.key for run in runs]
    assert len({name.casefold() for name in names}) == len(runs)
    for run, name in zip(runs, names, strict=True):
        assert name.startswith(run.config.key())
        assert name.endswith(f"_seed{run.seed}")


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("method", ["hscl", "ucl", "supervised"])
def test_cost_grows_with_all_that_is_work(method: str, inner: bool) -> None:
    def cost(n_nodes: int = 3000, n_graphs: int = 200, **settings: Any) -> float:
        return Run(inductive(method, **settings), 0, inner).cost((n_nodes, n_graphs))

    more = [cost(epochs=201), cost(folds=4), cost(n_nodes=3001), cost(n_graphs=201)]
    assert all(dear > cost() > 0 for dear in more)


def test_cost_of_training_is_nodes_times_epochs_times_encoders() -> None:
    """Apart from scoring, which is the same for all: an inner encoder sees 4 of 5 graphs."""
    scoring = Run(inductive("majority"), 0).cost((3000, 200))
    costs = [
        Run(inductive(protocol="transductive"), 0).cost((3000, 200)),
        Run(inductive(), 0).cost((3000, 200)),
        Run(inductive(), 0, inner=True).cost((3000, 200)),
    ]
    expected = [3000 * 200, 3 * 3000 * 200, 0.8 * 3 * 3000 * 200]
    assert [cost - scoring for cost in costs] == pytest.approx(expected)


# What can be chosen inside training folds


@pytest.mark.parametrize(
    ("listed", "values"),
    [("beta", (1.0, 2.0, 10.0)), ("lr", (0.01, 0.001)), ("epochs", (20, 100))],
)
def test_configs_that_differ_in_what_can_be_chosen_are_candidates(
    listed: str, values: tuple[Any, ...]
) -> None:
    configs = [inductive(**{listed: value}) for value in values]
    assert candidate_groups(configs) == [tuple(configs)]
    assert candidate_groups(reversed(configs)) == [tuple(reversed(configs))]


def test_a_grid_of_all_three_is_one_group_a_method_and_data_set() -> None:
    grid = list(itertools.product((1.0, 2.0), (0.01, 0.001), (20, 100)))
    configs = [
        inductive(method, dataset=dataset, beta=beta, lr=lr, epochs=epochs)
        for beta, lr, epochs in grid
        for method in ("hscl", "hucl")
        for dataset in ("MUTAG", "PTC_MR")
    ]
    groups = candidate_groups(configs)
    assert len(groups) == 4
    assert sorted(map(configs.index, itertools.chain(*groups))) == list(range(len(configs)))
    for group in groups:
        assert len({(config.method, config.dataset) for config in group}) == 1
        assert [(config.beta, config.lr, config.epochs) for config in group] == grid


# Order


CONFIGS = [
    inductive("hscl", beta=1.0),
    inductive("hscl", beta=2.0),
    inductive("hscl", beta=1.0, protocol="transductive"),
    inductive("hscl", beta=2.0, protocol="transductive"),
    inductive("ucl"),
    inductive("majority"),
    inductive("supervised"),
]
CHEAP = [
    config for config in CONFIGS if config.protocol == "transductive" or config.method == "majority"
]
DEAR = [config for config in CONFIGS if config not in CHEAP]


def test_what_needs_no_encoder_a_fold_is_first_and_both_parts_go_seed_by_seed() -> None:
    expected = [Run(config, seed) for part in (CHEAP, DEAR) for seed in (4, 0) for config in part]
    assert plan(CONFIGS, (4, 0), select=False) == expected


def test_only_candidates_are_scored_on_hold_outs_too() -> None:
    runs = plan(CONFIGS, (4, 0), select=True)
    assert [run for run in runs if not run.inner] == plan(CONFIGS, (4, 0), select=False)
    inner = [run for run in runs if run.inner]
    assert inner == [Run(config, seed, inner=True) for seed in (4, 0) for config in CONFIGS[:2]]
    assert [run.seed for run in runs if run.config in DEAR] == [4] * 6 + [0] * 6


def test_stopped_anywhere_no_method_is_more_than_a_seed_ahead() -> None:
    runs = [run for run in plan(CONFIGS, range(4), select=True) if run.config in DEAR]
    parts = {(run.config, run.inner) for run in runs}
    for stop in range(len(runs)):
        done = [(run.config, run.inner) for run in runs[:stop]]
        counts = [done.count(part) for part in parts]
        assert max(counts) - min(counts) <= 1
