"""What a search asks for and chooses, on made-up scores, against NumPy and by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from gcl_hard.errors import GclHardError
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.recipe.gains import Gain
from gcl_hard.experiments.recipe.search import Tried, choose
from gcl_hard.experiments.records import Record
from tests.experiments.recipe.made_up import (
    FOLDS,
    SEEDS,
    START,
    Bench,
    Effect,
    chosen,
    interval,
    search_of,
)

WIDE = interval(np.array([-1, 0, 1] * len(SEEDS)))[2]
"""Half the interval of one set, for a spread of 1."""
ERROR = WIDE / 1.96


def by_lr(points: Mapping[float, tuple[float, float]]) -> Effect:
    """Effects of learning rates on trained methods."""
    return lambda cell: (0.0, 0.0) if cell.is_floor else points.get(cell.lr, (0.0, 0.0))


def added(points: Mapping[tuple[str, Any], float]) -> Effect:
    """Effects of settings on trained methods, summed."""

    def effect(cell: GraphCell) -> tuple[float, float]:
        if cell.is_floor:
            return 0.0, 0.0
        return sum(p for (name, value), p in points.items() if getattr(cell, name) == value), 0.0

    return effect


def settings(several: Any) -> list[dict[str, Any]]:
    return [dict(one.settings) for one in several]


# What is asked for


def test_only_hold_outs_are_asked_for_with_the_file_s_seeds_and_folds() -> None:
    levers = {"rate": [{"lr": 0.1}, {"lr": 0.2}], "length": [{"epochs": 60}]}
    found, bench = chosen(levers, added({("lr", 0.1): 2, ("epochs", 60): 1}))
    assert found.joined
    assert all(job.inner for job in bench.jobs)
    assert {job.seed for job in bench.jobs} == set(SEEDS)
    assert {(job.cell.protocol, job.cell.folds) for job in bench.jobs} == {("inductive", FOLDS)}
    assert {(j.cell.dataset, j.cell.method) for j in bench.jobs} == {
        (d, m) for d in ("MUTAG", "ENZYMES") for m in ("untrained", "hucl", "hscl")
    }


def test_nothing_is_asked_for_twice() -> None:
    levers = {
        "rate": [{"lr": 0.1}],
        "length": [{"epochs": 60}],
        "both": [{"lr": 0.1, "epochs": 60}],
    }
    _, bench = chosen(levers, added({("lr", 0.1): 2, ("epochs", 60): 1}))
    assert len(set(bench.jobs)) == len(bench.jobs)
    assert all(bench.asked)


def test_first_comes_every_alternative_by_itself_then_what_is_joined() -> None:
    levers = {"rate": [{"lr": 0.1}, {"lr": 0.2}], "length": [{"epochs": 60}]}
    _, bench = chosen(levers, added({("lr", 0.1): 2, ("epochs", 60): 1}))
    lr, epochs = START["lr"], START["epochs"]
    assert bench.settings(0) == {(lr, epochs), (0.1, epochs), (0.2, epochs), (lr, 60)}
    assert bench.settings(1) == {(0.1, 60)}
    assert len(bench.asked) == 2


def test_floors_have_one_cell_for_all_that_they_do_not_read() -> None:
    _, bench = chosen({"rate": [{"lr": 0.1}], "width": [{"dim": 8}]}, lambda _: (0.0, 0.0))
    floors = [job.cell for job in bench.jobs if job.cell.is_floor]
    assert len(floors) == len(SEEDS) * 2 * 2
    assert {cell.dim for cell in floors} == {8, GraphCell().dim}


def test_edge_labels_are_skipped_where_there_are_none() -> None:
    def effect(cell: GraphCell) -> tuple[float, float]:
        return (3.0 if cell.edge_labels else 0.0), 1.0 if cell.edge_labels else 0.0

    found, bench = chosen({"edges": [{"edge_labels": True}]}, effect, edges=["MUTAG"])
    (tried,) = found.alternatives
    assert tried.gains["ENZYMES"] == Gain(0.0, 0.0, 0.0)
    assert tried.gains["MUTAG"].mean == pytest.approx(3.0)
    with_edges = [job.cell.dataset for job in bench.jobs if job.cell.edge_labels]
    assert set(with_edges) == {"MUTAG"}
    assert len([j for j in bench.jobs if j.cell.dataset == "ENZYMES"]) == len(SEEDS) * 3
    assert len([j for j in bench.jobs if j.cell.dataset == "MUTAG"]) == len(SEEDS) * 6


# Gains


def test_a_gain_is_paired_and_of_the_trained_methods_alone() -> None:
    table: dict[Job, list[float]] = {}
    rng = np.random.default_rng(0)

    class Noisy(Bench):
        def accuracies(self, job: Job) -> list[float]:
            return table.setdefault(job, rng.uniform(40, 80, FOLDS).tolist())

    search = search_of({"rate": [{"lr": 0.1}]})
    found = choose(search, Noisy(lambda _: (0.0, 0.0)), with_edges=lambda _: False)

    def scores(name: str, method: str, given: Mapping[str, Any]) -> Any:
        cell = search.cell(name, method, given)
        return np.array([table[Job(cell, seed, inner=True)] for seed in SEEDS])

    (tried,) = found.alternatives
    expected = {}
    for name in search.datasets:
        by_method = [scores(name, m, {"lr": 0.1}) - scores(name, m, {}) for m in ("hucl", "hscl")]
        expected[name] = interval(np.mean(by_method, axis=0))
        got = tried.gains[name]
        assert (got.mean, got.low, got.high) == pytest.approx(expected[name])
    half = np.sqrt(sum(((high - low) / 2) ** 2 for _, low, high in expected.values())) / 2
    mean = np.mean([m for m, _, _ in expected.values()])
    assert (tried.gain.mean, tried.gain.low, tried.gain.high) == pytest.approx(
        (mean, mean - half, mean + half)
    )
    for method in search.methods:
        means = [(scores(n, method, {"lr": 0.1}) - scores(n, method, {})).mean()
                 for n in search.datasets]  # fmt: skip
        assert tried.by_method[method].mean == pytest.approx(np.mean(means))
        for name in search.datasets:
            assert found.scores[name, method] == pytest.approx(scores(name, method, {}).mean())


@pytest.mark.parametrize("points", [-50.0, 50.0])
def test_the_untrained_encoder_never_decides(points: float) -> None:
    def effect(cell: GraphCell) -> tuple[float, float]:
        if cell.method == "untrained":
            return (points if cell.dim == 8 else 0.0), 0.0
        return -points / 10 if cell.dim == 8 else 0.0, 0.0

    found, _ = chosen({"width": [{"dim": 8}]}, effect)
    (tried,) = found.alternatives
    assert tried.gain.mean == pytest.approx(-points / 10)
    assert tried.by_method["untrained"].mean == pytest.approx(points)
    assert found.best == ({"dim": 8} if points < 0 else {})


# Which alternative helps


@pytest.mark.parametrize(
    ("rates", "taken"),
    [
        ({0.1: (1.0, 0.0), 0.2: (2.0, 0.0)}, 0.2),
        ({0.1: (2.0, 0.0), 0.2: (1.0, 0.0)}, 0.1),
        ({0.1: (2.0, 0.0), 0.2: (2.0, 0.0)}, 0.1),  # of two the first
        ({0.1: (ERROR * 1.01, 1.0)}, 0.1),
        ({0.1: (ERROR * 0.99, 1.0)}, None),
        ({0.1: (-3.0, 0.0)}, None),
        ({}, None),
        ({0.1: (2.0, 4.0), 0.2: (1.0, 0.0)}, None),  # the best one is not clear
    ],
)
def test_the_best_alternative_is_taken_if_it_is_above_one_standard_error(
    rates: dict[float, tuple[float, float]], taken: float | None
) -> None:
    found, _ = chosen({"rate": [{"lr": 0.1}, {"lr": 0.2}]}, by_lr(rates), datasets=("MUTAG",))
    assert found.best == ({} if taken is None else {"lr": taken})
    assert settings(found.helping) == ([] if taken is None else [{"lr": taken}])
    assert settings(found.joined) == settings(found.helping)


def test_the_standard_error_is_that_of_the_mean_over_sets() -> None:
    def effect(cell: GraphCell) -> tuple[float, float]:
        return (0.8 * ERROR, 1.0) if cell.lr == 0.1 else (0.0, 0.0)  # 0.8 > 1 / √2

    assert chosen({"rate": [{"lr": 0.1}]}, effect)[0].best == {"lr": 0.1}
    assert chosen({"rate": [{"lr": 0.1}]}, effect, datasets=("MUTAG",))[0].best == {}


# Joining


THREE = {"length": [{"epochs": 60}], "width": [{"dim": 8}], "rate": [{"lr": 0.1}]}


def test_what_helps_is_joined_best_first() -> None:
    found, _ = chosen(THREE, added({("epochs", 60): 1, ("dim", 8): 3, ("lr", 0.1): 2}))
    assert settings(found.helping) == [{"dim": 8}, {"lr": 0.1}, {"epochs": 60}]
    assert settings(found.joined) == [
        {"dim": 8}, {"dim": 8, "lr": 0.1}, {"dim": 8, "lr": 0.1, "epochs": 60},
    ]  # fmt: skip
    assert [one.gain.mean for one in found.joined] == pytest.approx([3, 5, 6])
    assert found.best == {"dim": 8, "lr": 0.1, "epochs": 60}
    assert not found.left_out
    assert [one.lever for one in found.joined] == ["width", "", ""]


def test_what_does_not_raise_the_gain_is_left_out_and_the_next_one_tried() -> None:
    def effect(cell: GraphCell) -> tuple[float, float]:
        points = 3 * (cell.dim == 8) + 2 * (cell.lr == 0.1) + 1 * (cell.epochs == 60)
        return points - 2.0 * (cell.dim == 8 and cell.lr == 0.1), 0.0

    found, bench = chosen(THREE, effect)
    assert settings(found.joined) == [{"dim": 8}, {"dim": 8, "epochs": 60}]
    assert settings(found.left_out) == [{"lr": 0.1}]
    assert found.best == {"dim": 8, "epochs": 60}
    assert bench.settings(2) == {(START["lr"], 60)}


def test_what_cannot_be_set_together_is_left_out() -> None:
    jsd = {"contrast": "local-global", "objective": "jsd", "temperature": None}
    levers = {"objective": [jsd], "temperature": [{"temperature": 0.2}], "width": [{"dim": 8}]}
    start = {**START, "objective": "infonce", "temperature": 0.5}
    effect = added({("objective", "jsd"): 3, ("temperature", 0.2): 2, ("dim", 8): 1})
    found, _ = chosen(levers, effect, start=start)
    assert found.best == {**jsd, "dim": 8}
    assert settings(found.left_out) == [{"temperature": 0.2}]


def test_nothing_helps_and_the_start_is_the_recipe() -> None:
    found, bench = chosen(THREE, lambda _: (0.0, 0.0))
    assert (found.best, found.own, len(bench.asked)) == ({}, {}, 1)
    assert [*found.helping, *found.joined, *found.left_out] == []
    assert found.final == found.scores


# Recipes of a set's own


def on_mutag(points: Callable[[GraphCell], tuple[float, float]]) -> Effect:
    """An effect on MUTAG, whose negative on ENZYMES leaves nothing over both."""

    def effect(cell: GraphCell) -> tuple[float, float]:
        gained, spread = points(cell)
        return (gained, spread) if cell.dataset == "MUTAG" else (-gained, spread)

    return effect


@pytest.mark.parametrize(("share", "own"), [(0.99, False), (1.01, True)])
def test_a_set_has_its_own_where_its_interval_is_above_0(share: float, own: bool) -> None:
    effect = on_mutag(lambda cell: (share * WIDE, 1.0) if cell.dim == 8 else (0.0, 0.0))
    found, _ = chosen(THREE, effect)
    assert found.best == {}
    assert list(found.own) == ["MUTAG"] * own
    if own:
        (tried,) = found.own.values()
        assert (tried.settings, list(tried.gains)) == ({"dim": 8}, ["MUTAG"])
        got = tried.gains["MUTAG"]
        d = [[share * WIDE + fold for fold in (-1, 0, 1)]] * 2
        assert (got.mean, got.low, got.high) == pytest.approx(interval(np.array(d)))
        assert tried.by_method.keys() == {*found.search.methods}
        for one in tried.by_method.values():
            assert one.mean == pytest.approx(share * WIDE)


def test_joined_its_interval_must_be_above_0_again() -> None:
    def points(cell: GraphCell) -> tuple[float, float]:
        wide, fast = cell.dim == 8, cell.lr == 0.1
        return (2.0 * (wide + fast) - 3.5 * (wide and fast), 1.0 if wide or fast else 0.0)

    found, bench = chosen(THREE, on_mutag(points))
    assert all(one.gains["MUTAG"].low > 0 for one in found.alternatives[1:])
    assert (START["lr"], 60) in bench.settings(0)
    asked = {(job.cell.dataset, job.cell.dim, job.cell.lr) for job in bench.asked[1]}
    assert asked == {("MUTAG", 8, 0.1)}
    assert found.own == {}


def test_its_own_is_weighed_against_the_recipe_for_all_and_not_the_start() -> None:
    def effect(cell: GraphCell) -> tuple[float, float]:
        both = cell.dim == 8 and cell.epochs == 60
        points = 4.0 * (cell.dim == 8)
        if cell.dataset == "MUTAG":
            points += 2.0 * (cell.epochs == 60) - 3.0 * both
        else:
            points -= 2.0 * (cell.epochs == 60)
        return points, 0.0

    found, _ = chosen(THREE, effect)
    assert found.best == {"dim": 8}
    assert found.alternatives[0].gains["MUTAG"].low > 0
    assert found.own == {}  # 3 by both against 4


def test_its_own_is_added_to_the_recipe_for_all() -> None:
    def effect(cell: GraphCell) -> tuple[float, float]:
        sign = 1 if cell.dataset == "MUTAG" else -1
        return 4.0 * (cell.dim == 8) + sign * 2.0 * (cell.epochs == 60), 0.0

    found, bench = chosen(THREE, effect)
    assert found.best == {"dim": 8}
    tried = found.own["MUTAG"]
    assert tried.settings == {"dim": 8, "epochs": 60}
    assert tried.gains["MUTAG"].mean == pytest.approx(2.0)
    assert {job.cell.dataset for job in bench.asked[-1]} == {"MUTAG"}
    hscl = found.search.cell("MUTAG", "hscl", tried.settings)
    made_up = [bench.accuracies(Job(hscl, seed, inner=True)) for seed in SEEDS]
    assert found.final["MUTAG", "hscl"] == pytest.approx(np.mean(made_up))
    best = found.search.cell("ENZYMES", "hscl", found.best)
    made_up = [bench.accuracies(Job(best, seed, inner=True)) for seed in SEEDS]
    assert found.final["ENZYMES", "hscl"] == pytest.approx(np.mean(made_up))


def test_of_what_a_set_prefers_the_better_one_has_its_way() -> None:
    linear = {"kernel": "linear", "c_grid": (0.1,)}
    levers = {"grid": [{"c_grid": (0.1, 1.0)}, {"c_grid": (5.0,)}], "kernel": [linear],
              "rate": [{"lr": 0.1}], "other": [{"c_grid": (7.0,), "lr": 0.2}]}  # fmt: skip
    gained = {("c_grid", (5.0,)): 4, ("c_grid", (0.1, 1.0)): 1, ("kernel", "linear"): 3,
              ("lr", 0.1): 2, ("c_grid", (7.0,)): 1}  # fmt: skip
    effect = added(gained)
    found, _ = chosen(levers, on_mutag(effect))
    assert found.own["MUTAG"].settings == {"c_grid": (5.0,), "kernel": "linear", "lr": 0.1}


def test_a_set_passes_over_what_cannot_be_set_together() -> None:
    jsd = {"contrast": "local-global", "objective": "jsd", "temperature": None}
    levers = {"temperature": [{"temperature": 0.2}], "objective": [jsd]}
    start = {**START, "objective": "infonce", "temperature": 0.5}
    effect = on_mutag(added({("objective", "jsd"): 2, ("temperature", 0.2): 3}))
    found, _ = chosen(levers, effect, start=start)
    assert found.own["MUTAG"].settings == {"temperature": 0.2}


# What is missing


@pytest.mark.parametrize(("epochs", "named"), [(30, r"the start"), (60, r"epochs 60")])
def test_a_score_that_is_missing_is_named(epochs: int, named: str) -> None:
    class Failing(Bench):
        def __call__(self, jobs: list[Job]) -> dict[Job, Record]:
            made = super().__call__(jobs)
            return {j: r for j, r in made.items()
                    if (j.cell.method, j.seed, j.cell.epochs) != ("hscl", 9, epochs)}  # fmt: skip

    search = search_of(THREE)
    message = rf"no score of MUTAG hscl β=1 inductive, seed 9, inner hold-out \({named}\)"
    with pytest.raises(GclHardError, match=message):
        choose(search, Failing(lambda _: (0.0, 0.0)), with_edges=lambda _: False)


def test_gains_over_all_sets_are_worked_out_once() -> None:
    tried = Tried({}, "", {"A": Gain(1, 0, 2), "B": Gain(3, 2, 4)}, {})
    assert tried.gain is tried.gain
    assert tried.gain.mean == 2
