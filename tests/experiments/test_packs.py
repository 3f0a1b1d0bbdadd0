"""Which seeds train together."""

from __future__ import annotations

from typing import Any

import pytest

from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.image_cell import ImageCell
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.packs import FOLD_BY_FOLD, packs, usual_size


def jobs(n_seeds: int, *cells: GraphCell) -> list[Job]:
    return [Job(cell, seed) for seed in range(n_seeds) for cell in cells]


def cells(protocol: Any = "paper") -> list[GraphCell]:
    return [GraphCell(method=name, protocol=protocol) for name in ("ucl", "hucl", "scl", "hscl")]


def test_methods_rates_and_epochs_train_together_as_far_as_there_is_room() -> None:
    other = [GraphCell(lr=0.1), GraphCell(epochs=5), GraphCell(beta=10.0)]
    todo = jobs(4, *cells(), *other)
    found = packs(todo)
    assert [len(pack) for pack in found] == [7, 7, 7, 7]
    assert [job for pack in found for job in pack] == todo
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
    found = packs(jobs(1, GraphCell(), GraphCell(**apart), GraphCell(beta=2.0)))
    assert [[job.cell for job in pack] for pack in found] == [
        [GraphCell(), GraphCell(beta=2.0)], [GraphCell(**apart)]
    ]  # fmt: skip


def test_floors_infonce_and_images_train_alone() -> None:
    alone = [
        GraphCell(method="wl"), GraphCell(method="untrained"), GraphCell(objective="infonce"),
        ImageCell(dataset="digits"),
    ]  # fmt: skip
    todo = [Job(cell, seed) for cell in alone for seed in (0, 1)]
    assert packs(todo) == [(job,) for job in todo]


def test_on_a_cpu_those_train_together_that_hold_out_the_same_graphs() -> None:
    todo = [*jobs(2, *cells("inductive")), Job(GraphCell(protocol="inductive"), 0, inner=True)]
    found = packs(todo)
    assert [len(pack) for pack in found] == [4, 4, 1]
    assert all(len({(job.seed, job.inner) for job in pack}) == 1 for pack in found)
    many = [GraphCell(protocol="inductive", beta=beta) for beta in range(9)]
    sizes = [len(pack) for pack in packs(jobs(1, *many))]
    assert sizes == [3, 3, 3]
    assert max(sizes) <= FOLD_BY_FOLD
    assert [len(pack) for pack in packs(jobs(1, *many), members=2)] == [2, 2, 1, 2, 2]


def test_a_gpu_takes_all_folds_of_all_seeds() -> None:
    todo = jobs(5, *cells("inductive"))
    assert [len(pack) for pack in packs(todo, device="cuda:0")] == [20]
    assert [len(pack) for pack in packs(todo, device="cuda:0", members=45)] == [4] * 5
    assert [len(pack) for pack in packs(todo, device="cuda:0", members=3)] == [1] * 20


def test_those_of_one_seed_and_fold_train_together_that_share_views() -> None:
    two_view = [GraphCell(method=name, contrast="two-view") for name in ("ucl", "hscl")]
    for device in ("cpu", "cuda"):
        found = packs(jobs(2, *two_view), device=device)
        assert [{job.seed for job in pack} for pack in found] == [{0}, {1}]


def test_ten_seeds_of_one_cell_are_work_for_two_processes() -> None:
    assert [len(pack) for pack in packs(jobs(10, GraphCell()))] == [5, 5]
    assert [len(pack) for pack in packs(jobs(5, GraphCell()), members=1)] == [1] * 5
