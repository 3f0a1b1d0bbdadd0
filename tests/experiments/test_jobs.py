"""What a command has to do, and in which order."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.jobs import Job, candidate_groups, plan

FLOORS = ("majority", "graph-size", "label-histogram", "wl", "wl-oa", "untrained")
"""Those that train no encoder."""


def inductive(method: str = "hscl", **settings: Any) -> GraphCell:
    return GraphCell(**{"method": method, "protocol": "inductive", "folds": 3, **settings})


# Jobs


def test_every_job_has_a_file_of_its_own() -> None:
    cells = [
        inductive(),
        inductive(beta=2.0),
        inductive("ucl"),
        inductive(protocol="paper"),
        inductive(dataset="PTC_MR"),
        inductive("supervised"),
        inductive("majority"),
    ]
    jobs = [Job(*parts) for parts in itertools.product(cells, (0, 1, 11), (False, True))]
    names = [job.file_name for job in jobs]
    assert len({name.casefold() for name in names}) == len(jobs)
    for job, name in zip(jobs, names, strict=True):
        assert name.startswith(job.cell.key())
        assert name.endswith(f"_seed{job.seed}.json")


def test_messages_tell_jobs_of_a_command_apart() -> None:
    cells = [inductive(), inductive(beta=2.0), inductive("ucl"), inductive(protocol="paper")]
    jobs = [Job(*parts) for parts in itertools.product(cells, (0, 1), (False, True))]
    assert len({str(job) for job in jobs}) == len(jobs)


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("method", ["hscl", "ucl", "supervised"])
def test_cost_grows_with_all_that_is_work(method: str, inner: bool) -> None:
    def cost(n_nodes: int = 3000, n_graphs: int = 200, **settings: Any) -> float:
        return Job(inductive(method, **settings), 0, inner).cost((n_nodes, n_graphs))

    more = [cost(epochs=201), cost(folds=4), cost(n_nodes=3001), cost(n_graphs=201)]
    assert all(dear > cost() > 0 for dear in more)


def test_cost_of_training_is_nodes_times_epochs_times_encoders() -> None:
    """Apart from scoring, which is the same for all: an inner encoder sees 4 of 5 graphs."""
    scoring = Job(inductive("majority"), 0).cost((3000, 200))
    costs = [
        Job(inductive(protocol="paper"), 0).cost((3000, 200)),
        Job(inductive(), 0).cost((3000, 200)),
        Job(inductive(), 0, inner=True).cost((3000, 200)),
    ]
    expected = [3000 * 200, 3 * 3000 * 200, 0.8 * 3 * 3000 * 200]
    assert [cost - scoring for cost in costs] == pytest.approx(expected)


@pytest.mark.parametrize("method", FLOORS)
def test_a_floor_without_an_encoder_costs_its_scoring_alone(method: str) -> None:
    cheap, same = inductive(method), inductive(method, epochs=9000)
    assert 0 < Job(cheap, 0).cost((3000, 200)) == Job(same, 0).cost((30_000, 200))
    assert Job(cheap, 0).cost((3000, 200)) < Job(inductive(epochs=1), 0).cost((3000, 200))


# What can be chosen inside training folds


@pytest.mark.parametrize(
    ("listed", "values"),
    [("beta", (1.0, 2.0, 10.0)), ("lr", (0.01, 0.001)), ("epochs", (20, 100))],
)
def test_cells_that_differ_in_what_can_be_chosen_are_candidates(
    listed: str, values: tuple[Any, ...]
) -> None:
    cells = [inductive(**{listed: value}) for value in values]
    assert candidate_groups(cells) == [tuple(cells)]
    assert candidate_groups(reversed(cells)) == [tuple(reversed(cells))]


def test_a_grid_of_all_three_is_one_group_a_method_and_data_set() -> None:
    grid = list(itertools.product((1.0, 2.0), (0.01, 0.001), (20, 100)))
    cells = [
        inductive(method, dataset=dataset, beta=beta, lr=lr, epochs=epochs)
        for beta, lr, epochs in grid
        for method in ("hscl", "hucl")
        for dataset in ("MUTAG", "PTC_MR")
    ]
    groups = candidate_groups(cells)
    assert len(groups) == 4
    assert sorted(map(cells.index, itertools.chain(*groups))) == list(range(len(cells)))
    for group in groups:
        assert len({(cell.method, cell.dataset) for cell in group}) == 1
        assert [(cell.beta, cell.lr, cell.epochs) for cell in group] == grid


@pytest.mark.parametrize(
    "cells",
    [
        [],
        [inductive()],
        [inductive("hscl"), inductive("hucl"), inductive("ucl")],
        [inductive(protocol="paper", beta=beta) for beta in (1.0, 2.0)],
        [inductive(beta=1.0), inductive(beta=2.0, protocol="paper")],
        [inductive(beta=1.0), inductive(beta=2.0, dim=16)],
        [inductive(beta=1.0), inductive(beta=2.0, weight_decay=0.1)],
        [inductive("hscl-tau", dim=dim) for dim in (16, 32)],
        [inductive(method) for method in FLOORS],
        [inductive("untrained", dim=16), inductive("untrained", dim=32)],
        [inductive("supervised"), inductive("supervised", dim=16)],
    ],
)
def test_there_is_nothing_to_choose_between(cells: list[GraphCell]) -> None:
    assert candidate_groups(cells) == []


@pytest.mark.parametrize("setting", [{"lr": 0.001}, {"epochs": 20}])
def test_supervised_has_candidates_as_methods_have(setting: dict[str, Any]) -> None:
    cells = [inductive("supervised"), inductive("majority"), inductive("supervised", **setting)]
    assert candidate_groups(cells) == [(cells[0], cells[2])]


# Order


CELLS = [
    inductive("hscl", beta=1.0),
    inductive("hscl", beta=2.0),
    inductive("hscl", beta=1.0, protocol="paper"),
    inductive("hscl", beta=2.0, protocol="paper"),
    inductive("ucl"),
    inductive("majority"),
    inductive("supervised"),
]
CHEAP = [cell for cell in CELLS if cell.protocol == "paper" or cell.method == "majority"]
DEAR = [cell for cell in CELLS if cell not in CHEAP]


def test_what_needs_no_encoder_a_fold_is_first_and_both_parts_go_seed_by_seed() -> None:
    expected = [Job(cell, seed) for part in (CHEAP, DEAR) for seed in (4, 0) for cell in part]
    assert plan(CELLS, (4, 0), select=False) == expected


def test_only_candidates_are_scored_on_hold_outs_too() -> None:
    jobs = plan(CELLS, (4, 0), select=True)
    assert [job for job in jobs if not job.inner] == plan(CELLS, (4, 0), select=False)
    inner = [job for job in jobs if job.inner]
    assert inner == [Job(cell, seed, inner=True) for seed in (4, 0) for cell in CELLS[:2]]
    assert [job.seed for job in jobs if job.cell in DEAR] == [4] * 6 + [0] * 6


def test_stopped_anywhere_no_method_is_more_than_a_seed_ahead() -> None:
    jobs = [job for job in plan(CELLS, range(4), select=True) if job.cell in DEAR]
    parts = {(job.cell, job.inner) for job in jobs}
    for stop in range(len(jobs)):
        done = [(job.cell, job.inner) for job in jobs[:stop]]
        counts = [done.count(part) for part in parts]
        assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("select", [False, True])
def test_nothing_is_planned_twice(select: bool) -> None:
    jobs = plan(CELLS, range(3), select=select)
    assert len(jobs) == len(set(jobs)) == 3 * (len(CELLS) + 2 * select)
    assert plan([], range(3), select=select) == plan(CELLS, [], select=select) == []
