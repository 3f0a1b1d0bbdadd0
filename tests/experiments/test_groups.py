"""Which seeds train together."""

from __future__ import annotations

from typing import Any

import pytest

from gcl_hard.experiments.config import GraphConfig, ImageConfig
from gcl_hard.experiments.groups import FOLD_BY_FOLD, groups, usual_size
from gcl_hard.experiments.runs import Run


def jobs(n_seeds: int, *cells: GraphConfig) -> list[Run]:
    return [Run(cell, seed) for seed in range(n_seeds) for cell in cells]


def cells(protocol: Any = "paper") -> list[GraphConfig]:
    return [GraphConfig(method=name, protocol=protocol) for name in ("ucl", "hucl", "scl", "hscl")]


def test_methods_rates_and_epochs_train_together_as_far_as_there_is_room() -> None:
    other = [GraphConfig(lr=0.1), GraphConfig(epochs=5), GraphConfig(beta=10.0)]
    todo = jobs(4, *cells(), *other)
    found = groups(todo)
    assert [len(group) for group in found] == [7, 7, 7, 7]
    assert [job for group in found for job in group] == todo
    assert usual_size("cpu") == 8


@pytest.mark.parametrize(
    "apart",
    [
        {"dataset": "PTC_MR"}, {"protocol": "inductive"}, {"dim": 16}, {"layers": 2},
        {"readout": "mean"}, {"batch_size": 64}, {"data_seed": 1}, {"features": "constant"},
        {"method": "supervised"},
    ],
)  # fmt: skip
def test_other_data_shapes_and_batches_train_apart(apart: dict[str, Any]) -> None:
    found = groups(jobs(1, GraphConfig(), GraphConfig(**apart), GraphConfig(beta=2.0)))
    assert [[job.cell for job in group] for group in found] == [
        [GraphConfig(), GraphConfig(beta=2.0)], [GraphConfig(**apart)]
    ]  # fmt: skip


def test_floors_infonce_and_images_train_alone() -> None:
    alone = [
        GraphConfig(method="wl"), GraphConfig(method="untrained"), GraphConfig(objective="infonce"),
        ImageConfig(dataset="digits"),
    ]  # fmt: skip
    todo = [Run(cell, seed) for cell in alone for seed in (0, 1)]
    assert groups(todo) == [(job,) for job in todo]


def test_on_a_cpu_those_train_together_that_hold_out_the_same_graphs() -> None:
    todo = [*jobs(2, *cells("inductive")), Run(GraphConfig(protocol="inductive"), 0, inner=True)]
    found = groups(todo)
    assert [len(group) for group in found] == [4, 4, 1]
    assert all(len({(job.seed, job.inner) for job in group}) == 1 for group in found)
    many = [GraphConfig(protocol="inductive", beta=beta) for beta in range(9)]
    sizes = [len(group) for group in groups(jobs(1, *many))]
    assert sizes == [3, 3, 3]
    assert max(sizes) <= FOLD_BY_FOLD
    assert [len(group) for group in groups(jobs(1, *many), members=2)] == [2, 2, 1, 2, 2]


def test_a_gpu_takes_all_folds_of_all_seeds() -> None:
    todo = jobs(5, *cells("inductive"))
    assert [len(group) for group in groups(todo, device="cuda:0")] == [20]
    assert [len(group) for group in groups(todo, device="cuda:0", members=45)] == [4] * 5
    assert [len(group) for group in groups(todo, device="cuda:0", members=3)] == [1] * 20


def test_those_of_one_seed_and_fold_train_together_that_share_views() -> None:
    two_view = [GraphConfig(method=name, contrast="two-view") for name in ("ucl", "hscl")]
    for device in ("cpu", "cuda"):
        found = groups(jobs(2, *two_view), device=device)
        assert [{job.seed for job in group} for group in found] == [{0}, {1}]


def test_ten_seeds_of_one_cell_are_work_for_two_processes() -> None:
    assert [len(group) for group in groups(jobs(10, GraphConfig()))] == [5, 5]
    assert [len(group) for group in groups(jobs(5, GraphConfig()), members=1)] == [1] * 5
