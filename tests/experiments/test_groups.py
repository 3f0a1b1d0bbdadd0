"""Groups: which runs of a plan train as one ensemble."""

from __future__ import annotations

from typing import Any

from gcl_hard.experiments.plan import FOLD_BY_FOLD, groups_of, usual_size
from gcl_hard.experiments.run import Run
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig


def runs_of(n_seeds: int, *configs: GraphConfig) -> list[Run]:
    return [Run(config, seed) for seed in range(n_seeds) for config in configs]


def configs(protocol: Any = "transductive") -> list[GraphConfig]:
    return [GraphConfig(method=name, protocol=protocol) for name in ("ucl", "hucl", "scl", "hscl")]


def test_methods_rates_and_epochs_train_together_as_far_as_there_is_room() -> None:
    other = [GraphConfig(lr=0.1), GraphConfig(epochs=5), GraphConfig(beta=10.0)]
    todo = runs_of(4, *configs(), *other)
    groups = groups_of(todo)
    assert [len(group) for group in groups] == [7, 7, 7, 7]
    assert [run for group in groups for run in group] == todo
    assert usual_size("cpu") == 8


def test_floors_infonce_and_images_train_alone() -> None:
    alone = [
        GraphConfig(method="wl"), GraphConfig(method="untrained"), GraphConfig(objective="infonce"),
        ImageConfig(dataset="digits"),
    ]  # fmt: skip
    todo = [Run(config, seed) for config in alone for seed in (0, 1)]
    assert groups_of(todo) == [(run,) for run in todo]


def test_on_a_cpu_those_train_together_that_hold_out_the_same_graphs() -> None:
    todo = [
        *runs_of(2, *configs("inductive")),
        Run(GraphConfig(protocol="inductive"), 0, inner=True),
    ]
    for size in (None, 16):  # that has room for all of them
        groups = groups_of(todo, size=size)
        assert [len(group) for group in groups] == [4, 4, 1]
        assert all(len({(run.seed, run.inner) for run in group}) == 1 for group in groups)
    many = [GraphConfig(protocol="inductive", beta=beta) for beta in range(9)]
    sizes = [len(group) for group in groups_of(runs_of(1, *many))]
    assert sizes == [3, 3, 3]
    assert max(sizes) <= FOLD_BY_FOLD
    assert [len(group) for group in groups_of(runs_of(1, *many), size=2)] == [2, 2, 1, 2, 2]


def test_a_gpu_takes_all_folds_of_all_seeds() -> None:
    todo = runs_of(5, *configs("inductive"))
    assert [len(group) for group in groups_of(todo, device="cuda:0")] == [20]
    assert [len(group) for group in groups_of(todo, device="cuda:0", size=45)] == [4] * 5
    assert [len(group) for group in groups_of(todo, device="cuda:0", size=3)] == [1] * 20


def test_those_of_one_seed_and_fold_train_together_that_share_views() -> None:
    two_view = [GraphConfig(method=name, contrast="two-view") for name in ("ucl", "hscl")]
    for device in ("cpu", "cuda"):
        groups = groups_of(runs_of(2, *two_view), device=device)
        assert [{run.seed for run in group} for group in groups] == [{0}, {1}]
