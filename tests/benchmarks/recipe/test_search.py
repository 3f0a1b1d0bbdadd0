"""Searches for a recipe: what a file asks for, what is chosen, and the configs that are written.

Scores are made up, so that what is chosen can be worked out by hand.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from benchmarks.recipe.search import (
    Chosen,
    RecipeSearch,
    check_folder,
    choose,
    gain,
    over_sets,
    read_search,
    said,
    write,
)
from gcl_hard.errors import GclHardError, InputError
from gcl_hard.evaluation.significance import Interval
from gcl_hard.runs.plan import Run
from gcl_hard.runs.record import RunResult
from gcl_hard.settings import presets
from gcl_hard.settings.graphs import GraphConfig
from gcl_hard.settings.presets import recipe
from tests.benchmarks.recipe.made_search import (
    FOLDS,
    SEEDS,
    START,
    Bench,
    Effect,
    chosen,
    interval,
    search_of,
)
from tests.said import says

WIDE = interval(np.array([-1, 0, 1] * len(SEEDS)))[2]
"""Half the interval of one set, for a spread of 1."""
ERROR = WIDE / 1.96


def by_lr(points: Mapping[float, tuple[float, float]]) -> Effect:
    """Effects of learning rates on trained methods."""
    return lambda config: (0.0, 0.0) if config.is_baseline else points.get(config.lr, (0.0, 0.0))


def added(points: Mapping[tuple[str, Any], float]) -> Effect:
    """Effects of settings on trained methods, summed."""

    def effect(config: GraphConfig) -> tuple[float, float]:
        if config.is_baseline:
            return 0.0, 0.0
        return sum(p for (name, value), p in points.items() if getattr(config, name) == value), 0.0

    return effect


def settings(several: Any) -> list[dict[str, Any]]:
    return [dict(one.settings) for one in several]


# What is asked for


def test_only_hold_outs_are_asked_for_with_the_file_s_seeds_and_folds() -> None:
    ablations = {"rate": [{"lr": 0.1}, {"lr": 0.2}], "length": [{"epochs": 60}]}
    found, bench = chosen(ablations, added({("lr", 0.1): 2, ("epochs", 60): 1}))
    assert found.joined
    assert all(run.inner for run in bench.runs)
    assert {run.seed for run in bench.runs} == set(SEEDS)
    assert {(run.config.protocol, run.config.folds) for run in bench.runs} == {("inductive", FOLDS)}
    assert {(j.config.dataset, j.config.method) for j in bench.runs} == {
        (d, m) for d in ("MUTAG", "ENZYMES") for m in ("untrained", "hucl", "hscl")
    }


def test_nothing_is_asked_for_twice() -> None:
    ablations = {
        "rate": [{"lr": 0.1}],
        "length": [{"epochs": 60}],
        "both": [{"lr": 0.1, "epochs": 60}],
    }
    _, bench = chosen(ablations, added({("lr", 0.1): 2, ("epochs", 60): 1}))
    assert len(set(bench.runs)) == len(bench.runs)
    assert all(bench.asked)


def test_first_comes_every_alternative_by_itself_then_what_is_joined() -> None:
    ablations = {"rate": [{"lr": 0.1}, {"lr": 0.2}], "length": [{"epochs": 60}]}
    _, bench = chosen(ablations, added({("lr", 0.1): 2, ("epochs", 60): 1}))
    lr, epochs = START["lr"], START["epochs"]
    assert bench.settings(0) == {(lr, epochs), (0.1, epochs), (0.2, epochs), (lr, 60)}
    assert bench.settings(1) == {(0.1, 60)}
    assert len(bench.asked) == 2


def test_baselines_have_one_config_for_all_that_they_do_not_read() -> None:
    _, bench = chosen({"rate": [{"lr": 0.1}], "width": [{"dim": 8}]}, lambda _: (0.0, 0.0))
    baselines = [run.config for run in bench.runs if run.config.is_baseline]
    assert len(baselines) == len(SEEDS) * 2 * 2
    assert {config.dim for config in baselines} == {8, GraphConfig().dim}


def test_edge_labels_are_skipped_where_there_are_none() -> None:
    def effect(config: GraphConfig) -> tuple[float, float]:
        return (3.0 if config.edge_labels else 0.0), 1.0 if config.edge_labels else 0.0

    found, bench = chosen({"edges": [{"edge_labels": True}]}, effect, edges=["MUTAG"])
    (tried,) = found.alternatives
    assert tried.gains["ENZYMES"] == Interval(0.0, 0.0, 0.0)
    assert tried.gains["MUTAG"].mean == pytest.approx(3.0)
    with_edges = [run.config.dataset for run in bench.runs if run.config.edge_labels]
    assert set(with_edges) == {"MUTAG"}
    assert len([j for j in bench.runs if j.config.dataset == "ENZYMES"]) == len(SEEDS) * 3
    assert len([j for j in bench.runs if j.config.dataset == "MUTAG"]) == len(SEEDS) * 6


# Gains


def test_a_gain_is_paired_and_of_the_trained_methods_alone() -> None:
    table: dict[Run, list[float]] = {}
    rng = np.random.default_rng(0)

    class Noisy(Bench):
        def accuracies(self, run: Run) -> list[float]:
            return table.setdefault(run, rng.uniform(40, 80, FOLDS).tolist())

    search = search_of({"rate": [{"lr": 0.1}]})
    found = choose(search, Noisy(lambda _: (0.0, 0.0)), with_edges=lambda _: False)

    def scores(name: str, method: str, given: Mapping[str, Any]) -> Any:
        config = search.config(name, method, given)
        return np.array([table[Run(config, seed, inner=True)] for seed in SEEDS])

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
    def effect(config: GraphConfig) -> tuple[float, float]:
        if config.method == "untrained":
            return (points if config.dim == 8 else 0.0), 0.0
        return -points / 10 if config.dim == 8 else 0.0, 0.0

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
    def effect(config: GraphConfig) -> tuple[float, float]:
        return (0.8 * ERROR, 1.0) if config.lr == 0.1 else (0.0, 0.0)  # 0.8 > 1 / √2

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
    assert [one.ablation for one in found.joined] == ["width", "", ""]


def test_what_does_not_raise_the_gain_is_left_out_and_the_next_one_tried() -> None:
    def effect(config: GraphConfig) -> tuple[float, float]:
        points = 3 * (config.dim == 8) + 2 * (config.lr == 0.1) + 1 * (config.epochs == 60)
        return points - 2.0 * (config.dim == 8 and config.lr == 0.1), 0.0

    found, bench = chosen(THREE, effect)
    assert settings(found.joined) == [{"dim": 8}, {"dim": 8, "epochs": 60}]
    assert settings(found.left_out) == [{"lr": 0.1}]
    assert found.best == {"dim": 8, "epochs": 60}
    assert bench.settings(2) == {(START["lr"], 60)}


def test_what_cannot_be_set_together_is_left_out() -> None:
    jsd = {"contrast": "local-global", "objective": "jsd", "temperature": None}
    ablations = {"objective": [jsd], "temperature": [{"temperature": 0.2}], "width": [{"dim": 8}]}
    start = {**START, "objective": "infonce", "temperature": 0.5}
    effect = added({("objective", "jsd"): 3, ("temperature", 0.2): 2, ("dim", 8): 1})
    found, _ = chosen(ablations, effect, start=start)
    assert found.best == {**jsd, "dim": 8}
    assert settings(found.left_out) == [{"temperature": 0.2}]


def test_nothing_helps_and_the_start_is_the_recipe() -> None:
    found, bench = chosen(THREE, lambda _: (0.0, 0.0))
    assert (found.best, found.own, len(bench.asked)) == ({}, {}, 1)
    assert [*found.helping, *found.joined, *found.left_out] == []
    assert found.final == found.scores


# Recipes of a set's own


def on_mutag(points: Callable[[GraphConfig], tuple[float, float]]) -> Effect:
    """An effect on MUTAG, whose negative on ENZYMES leaves nothing over both."""

    def effect(config: GraphConfig) -> tuple[float, float]:
        gained, spread = points(config)
        return (gained, spread) if config.dataset == "MUTAG" else (-gained, spread)

    return effect


@pytest.mark.parametrize(("share", "own"), [(0.99, False), (1.01, True)])
def test_a_set_has_its_own_where_its_interval_is_above_0(share: float, own: bool) -> None:
    effect = on_mutag(lambda config: (share * WIDE, 1.0) if config.dim == 8 else (0.0, 0.0))
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
    def points(config: GraphConfig) -> tuple[float, float]:
        wide, fast = config.dim == 8, config.lr == 0.1
        return (2.0 * (wide + fast) - 3.5 * (wide and fast), 1.0 if wide or fast else 0.0)

    found, bench = chosen(THREE, on_mutag(points))
    assert all(one.gains["MUTAG"].low > 0 for one in found.alternatives[1:])
    assert (START["lr"], 60) in bench.settings(0)
    asked = {(run.config.dataset, run.config.dim, run.config.lr) for run in bench.asked[1]}
    assert asked == {("MUTAG", 8, 0.1)}
    assert found.own == {}


def test_its_own_is_weighed_against_the_recipe_for_all_and_not_the_start() -> None:
    def effect(config: GraphConfig) -> tuple[float, float]:
        both = config.dim == 8 and config.epochs == 60
        points = 4.0 * (config.dim == 8)
        if config.dataset == "MUTAG":
            points += 2.0 * (config.epochs == 60) - 3.0 * both
        else:
            points -= 2.0 * (config.epochs == 60)
        return points, 0.0

    found, _ = chosen(THREE, effect)
    assert found.best == {"dim": 8}
    assert found.alternatives[0].gains["MUTAG"].low > 0
    assert found.own == {}  # 3 by both against 4


def test_its_own_is_added_to_the_recipe_for_all() -> None:
    def effect(config: GraphConfig) -> tuple[float, float]:
        sign = 1 if config.dataset == "MUTAG" else -1
        return 4.0 * (config.dim == 8) + sign * 2.0 * (config.epochs == 60), 0.0

    found, bench = chosen(THREE, effect)
    assert found.best == {"dim": 8}
    tried = found.own["MUTAG"]
    assert tried.settings == {"dim": 8, "epochs": 60}
    assert tried.gains["MUTAG"].mean == pytest.approx(2.0)
    assert {run.config.dataset for run in bench.asked[-1]} == {"MUTAG"}
    hscl = found.search.config("MUTAG", "hscl", tried.settings)
    made_up = [bench.accuracies(Run(hscl, seed, inner=True)) for seed in SEEDS]
    assert found.final["MUTAG", "hscl"] == pytest.approx(np.mean(made_up))
    best = found.search.config("ENZYMES", "hscl", found.best)
    made_up = [bench.accuracies(Run(best, seed, inner=True)) for seed in SEEDS]
    assert found.final["ENZYMES", "hscl"] == pytest.approx(np.mean(made_up))


def test_of_what_a_set_prefers_the_better_one_has_its_way() -> None:
    linear = {"kernel": "linear", "c_grid": (0.1,)}
    ablations = {"grid": [{"c_grid": (0.1, 1.0)}, {"c_grid": (5.0,)}], "kernel": [linear],
              "rate": [{"lr": 0.1}], "other": [{"c_grid": (7.0,), "lr": 0.2}]}  # fmt: skip
    gained = {("c_grid", (5.0,)): 4, ("c_grid", (0.1, 1.0)): 1, ("kernel", "linear"): 3,
              ("lr", 0.1): 2, ("c_grid", (7.0,)): 1}  # fmt: skip
    effect = added(gained)
    found, _ = chosen(ablations, on_mutag(effect))
    assert found.own["MUTAG"].settings == {"c_grid": (5.0,), "kernel": "linear", "lr": 0.1}


def test_a_set_passes_over_what_cannot_be_set_together() -> None:
    jsd = {"contrast": "local-global", "objective": "jsd", "temperature": None}
    ablations = {"temperature": [{"temperature": 0.2}], "objective": [jsd]}
    start = {**START, "objective": "infonce", "temperature": 0.5}
    effect = on_mutag(added({("objective", "jsd"): 2, ("temperature", 0.2): 3}))
    found, _ = chosen(ablations, effect, start=start)
    assert found.own["MUTAG"].settings == {"temperature": 0.2}


# What is missing


@pytest.mark.parametrize(("epochs", "named"), [(30, "start"), (60, "epochs 60")])
def test_a_score_that_is_missing_is_named(epochs: int, named: str) -> None:
    class Failing(Bench):
        def __call__(self, runs: list[Run]) -> dict[Run, RunResult]:
            made = super().__call__(runs)
            lost = ("hscl", 9, epochs)
            return {j: r for j, r in made.items()
                    if (j.config.method, j.seed, j.config.epochs) != lost}  # fmt: skip

    search = search_of(THREE)
    message = rf"MUTAG hscl β=1 .*inductive, seed 9\b.*\binner\b.*\b{named}\b"
    with pytest.raises(GclHardError, match=message):
        choose(search, Failing(lambda _: (0.0, 0.0)), with_edges=lambda _: False)


# Gains, against NumPy and SciPy


def random_scores(seed: int, *, seeds: int = 3, folds: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).uniform(40, 80, (seeds, folds))


@pytest.mark.parametrize("n_methods", [1, 2, 3])
@pytest.mark.parametrize("shape", [(1, 2), (3, 3), (2, 10)])
def test_a_gain_is_the_corrected_interval_of_paired_means(
    n_methods: int, shape: tuple[int, int]
) -> None:
    ours, theirs = (
        [random_scores(10 * k + m, seeds=shape[0], folds=shape[1]) for m in range(n_methods)]
        for k in (1, 2)
    )
    found = gain(ours, theirs)
    difference = sum(a - b for a, b in zip(ours, theirs, strict=True)) / n_methods
    assert (found.mean, found.low, found.high) == pytest.approx(interval(difference), abs=1e-9)


def test_what_is_added_to_a_hold_out_of_both_changes_nothing() -> None:
    ours, theirs, hardness = random_scores(1), random_scores(2), 100 * random_scores(3)
    before, after = gain([ours], [theirs]), gain([ours + hardness], [theirs + hardness])
    assert (after.mean, after.low, after.high) == pytest.approx(
        (before.mean, before.low, before.high), abs=1e-9
    )


def test_the_same_scores_gain_exactly_nothing() -> None:
    ours = [random_scores(1), random_scores(2)]
    assert gain(ours, ours) == Interval(0.0, 0.0, 0.0)


def test_the_same_difference_everywhere_has_no_width() -> None:
    found = gain([random_scores(1) + 2.5], [random_scores(1)])
    assert (found.mean, found.low, found.high) == pytest.approx((2.5, 2.5, 2.5), abs=1e-9)


def test_sets_weigh_the_same_and_their_errors_are_independent() -> None:
    gains = [Interval(1.0, -3.0, 5.0), Interval(-2.0, -3.0, -1.0), Interval(4.0, 4.0, 4.0)]
    whole = over_sets(gains)
    half = np.sqrt(4.0**2 + 1.0**2 + 0.0**2) / 3
    assert (whole.mean, whole.low, whole.high) == pytest.approx((1.0, 1.0 - half, 1.0 + half))


def test_one_set_is_all_sets() -> None:
    one = Interval(1.5, -0.5, 3.5)
    assert over_sets([one]) == one


# Searches as files


SHIPPED = Path(__file__).parents[3] / "benchmarks" / "recipe" / "search.yaml"
STATED: dict[str, Any] = {
    "dataset": ["ptc", "MUTAG"], "method": ["untrained", "HSCL"], "seeds": [3, 1], "folds": 4,
    "start": {"contrast": "two-view", "lr": 0.002, "augmentations": ["drop-nodes"]},
    "ablations": {"rate": [{"lr": 0.1}, {"lr": 1}], "grid": [{"c_grid": [1, 10]}]},
}  # fmt: skip


def read(folder: Path, **changed: Any) -> RecipeSearch:
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(STATED | changed, sort_keys=False), encoding="utf-8")
    return read_search(path)


def refusal(folder: Path, text: str | None = None, **changed: Any) -> str:
    """What is said of a file; of any, that it is this one."""
    path = folder / "mine.yaml"
    path.write_text(
        yaml.safe_dump(STATED | changed, sort_keys=False) if text is None else text,
        encoding="utf-8",
    )
    with pytest.raises(InputError) as caught:
        read_search(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


def test_a_file_is_read_as_it_is_stated(tmp_path: Path) -> None:
    search = read(tmp_path)
    assert search.datasets == ("PTC_MR", "MUTAG")
    assert (search.methods, search.deciding) == (("untrained", "hscl"), ("hscl",))
    assert (tuple(search.seeds), search.folds) == ((3, 1), 4)
    start = {"contrast": "two-view", "lr": 0.002, "augmentations": ("drop-nodes",)}
    assert search.start == start
    assert [(a.ablation, a.settings) for a in search.ablations] == [
        ("rate", {"lr": 0.1}), ("rate", {"lr": 1.0}), ("grid", {"c_grid": (1.0, 10.0)}),
    ]  # fmt: skip
    assert search.config("MUTAG", "hscl", {"lr": 0.1}) == GraphConfig(
        dataset="MUTAG", method="hscl", protocol="inductive", folds=4, **{**start, "lr": 0.1}
    )


def test_one_name_needs_no_list_and_none_counts_twice(tmp_path: Path) -> None:
    search = read(tmp_path, dataset="MUTAG", method="hucl", seeds=2)
    assert (search.datasets, search.methods) == (("MUTAG",), ("hucl",))
    assert tuple(search.seeds) == (0, 1)
    twice = read(tmp_path, dataset=["PTC", "PTC_MR"], method=["hscl", "hucl", "Hscl"])
    assert (twice.datasets, twice.methods) == (("PTC_MR",), ("hscl", "hucl"))


def test_numbers_as_yaml_misreads_them_are_numbers(tmp_path: Path) -> None:
    text = yaml.safe_dump(STATED).replace("lr: 0.002", "lr: 2e-3")
    assert yaml.safe_load(text)["start"]["lr"] == "2e-3"  # as YAML 1.1 has it
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    assert read_search(path).start["lr"] == 0.002


def test_the_shipped_search_says_what_its_file_says() -> None:
    stated, search = yaml.safe_load(SHIPPED.read_text(encoding="utf-8")), read_search(SHIPPED)
    assert set(search.datasets) == {"PTC_MR", "MUTAG", "ENZYMES", "IMDB-BINARY"}
    assert (tuple(search.seeds), search.folds) == ((0, 1, 2), 3)
    assert search.deciding == ("hucl", "hscl")
    rows = [(name, one) for name, some in stated["ablations"].items() for one in some]
    assert len(rows) == len(search.ablations) > 30
    for (name, one), found in zip(rows, search.ablations, strict=True):
        assert found.ablation == name
        assert {k: list(v) if isinstance(v, tuple) else v for k, v in found.settings.items()} == one


def test_every_row_of_the_shipped_search_changes_a_config_and_has_a_name_of_its_own() -> None:
    search = read_search(SHIPPED)
    names = [said(alternative.settings) for alternative in search.ablations]
    assert len(set(names)) == len(names)
    configs = [
        search.config("MUTAG", "hscl", alternative.settings) for alternative in search.ablations
    ]
    assert len({search.config("MUTAG", "hscl", {}), *configs}) == len(configs) + 1


def test_some_of_the_sets_leave_the_rest_as_it_is() -> None:
    search = search_of({"rate": [{"lr": 0.1}]})
    some = search.on(["imdb-b", "PTC", "ptc_mr"])
    assert some.datasets == ("IMDB-BINARY", "PTC_MR")
    assert (some.start, some.ablations, some.seeds) == (
        search.start,
        search.ablations,
        search.seeds,
    )


# What is wrong with a file


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.yaml\b.*No such file"):
        read_search(tmp_path / "gone.yaml")


@pytest.mark.parametrize("text", ["start: {lr: [", "\tstart: 1", "a: b: c"])
def test_what_is_no_yaml_is_named(tmp_path: Path, text: str) -> None:
    assert "YAML" in refusal(tmp_path, text)


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(b"\xff\xfe\x00ablations")
    with pytest.raises(InputError, match=r"mine\.yaml\b.*UTF-8"):
        read_search(tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("text", "got"), [("", "NoneType"), ("- 1", "list"), ("space: {}\nbeta: 1", "space, beta")]
)
def test_another_kind_of_file_is_told_what_a_search_states(
    tmp_path: Path, text: str, got: str
) -> None:
    states = "dataset, method, seeds, folds, start, ablations"
    assert says(refusal(tmp_path, text), states, got)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ablations": [{"lr": 0.1}]}, "^ablations.*names.*lists"),
        ({"ablations": {"rate": {"lr": 0.1}}}, "^ablations.*names.*lists"),
        ({"ablations": {"rate": [0.1]}}, r"^ablations, rate\b.*settings.* 0\.1$"),
        ({"ablations": {"rate": [{}]}}, "^ablations, rate: .*settings"),
        ({"ablations": {"r": [{"lrr": 1}]}}, r"^ablations, r: .*'lrr'[^,]*\blr\b"),
        ({"start": {"edge-labels": True}}, "^start: .*'edge-labels'[^,]*edge_labels"),
        ({"start": {"protocol": "transductive"}}, "^start: protocol .*recipe"),
        ({"ablations": {"l": [{"train_share": 0.5}]}}, "^ablations, l: train_share .*recipe"),
        ({"start": None}, "^start: .*settings.* None$"),
        ({"start": {"epochs": 2.5}}, r"^start: epochs .*whole.* 2\.5$"),
        ({"start": {"lr": "fast"}}, "^start: lr .*number.* fast$"),
        ({"ablations": {"r": [{"readout": "boht"}]}}, r"readout 'boht'[^,]*\bboth\b"),
        ({"ablations": {"e": [{"encodings": []}]}}, "^ablations, e: encodings: .*value"),
        ({"ablations": {"r": [{"lr": -1.0}]}}, r"^ablations, r: lr\b.* 0\b.*-1\.0\b"),
        ({"ablations": {"o": [{"objective": "jsd", "temperature": 0.5}]}},
         r"^ablations, o: temperature\b.*\b0\.5\b.*infonce"),
        ({"start": {"layers": 0}}, r"^start: layers\D+1\D+0$"),
        ({"folds": "three"}, "^folds: .*whole.* 'three'$"),
        ({"folds": True}, "^folds: .*whole.* True$"),
        ({"folds": 1}, r"^start: folds\D+2\D+1$"),
        ({"seeds": "x"}, r"^seeds: .*\b1\b.* x$"),
        ({"seeds": None}, r"^seeds: .*\b1\b.* None$"),
        ({"seeds": [1, 1]}, r"^seeds: .*\b1\b.*different.* \[1, 1\]$"),
        ({"dataset": []}, r"^dataset: .*names.* \[\]$"),
        ({"method": 3}, "^method: .*names.* 3$"),
        ({"method": "hslc"}, r"method 'hslc'[^,]*\bhscl\b"),
        ({"dataset": "a,b"}, "dataset 'a,b'.*letters, digits"),
        ({"method": ["untrained", "wl"]}, r"method\b.*\btrained\b.* untrained, wl$"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    assert re.search(message, refusal(tmp_path, **changed))


# Settings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, ""),
        ({"lr": 0.0003}, "lr 0.0003"),
        ({"temperature": 1.0, "epochs": 80}, "temperature 1, epochs 80"),
        ({"virtual_node": True, "standardise": False}, "virtual node, no standardise"),
        ({"objective": "jsd", "temperature": None}, "objective jsd, no temperature"),
        ({"augmentations": ("drop-nodes",)}, "augmentations drop-nodes"),
        ({"encodings": ("degree", "wl")}, "encodings degree + wl"),
        ({"c_grid": (0.001, 0.01, 1.0)}, "c grid 0.001 … 1 (3 values)"),
    ],
)  # fmt: skip
def test_settings_in_words(settings: dict[str, Any], words: str) -> None:
    assert said(settings) == words


# Recipes as files

COMMAND = "python -m benchmarks.recipe search --best DIR"
ODD: dict[str, Any] = {
    "contrast": "two-view", "objective": "infonce", "temperature": 0.1 + 0.2, "lr": 1e-05,
    "weight_decay": 1 / 3, "augmentations": ("drop-nodes", "perturb-edges"), "strength": 0.4,
    "c_grid": (1e-3, 1 / 7, 1e22), "standardise": False, "epochs": 7, "class_prior": None,
}  # fmt: skip


def one_own(**changed: Any) -> Chosen:
    """More epochs for all sets, and an own width on MUTAG alone."""

    def effect(config: GraphConfig) -> tuple[float, float]:
        sign = 1 if config.dataset == "MUTAG" else -1
        return 4.0 * (config.epochs == 60) + sign * 2.0 * (config.dim == 8), 0.0

    found, _ = chosen({"length": [{"epochs": 60}], "width": [{"dim": 8}]}, effect, **changed)
    assert (found.best, list(found.own)) == ({"epochs": 60}, ["MUTAG"])
    return found


def none_own() -> Chosen:
    return chosen({"rate": [{"lr": 0.1}]}, lambda _: (0.0, 0.0))[0]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Where recipes are looked for."""
    both = tmp_path / "package", tmp_path / "checkout"
    for folder in both:
        folder.mkdir()
    monkeypatch.setattr(presets, "RECIPE_FOLDERS", both)
    return both


def test_a_config_a_recipe_and_no_others(tmp_path: Path) -> None:
    found = one_own()
    written = write(found, tmp_path, command=COMMAND)
    assert written == [tmp_path / "all.yaml", tmp_path / "mutag.yaml"]
    assert sorted(tmp_path.iterdir()) == written
    assert yaml.safe_load(written[0].read_text(encoding="utf-8")) == {**START, "epochs": 60}
    own = {**START, "epochs": 60, "dim": 8}
    assert yaml.safe_load(written[1].read_text(encoding="utf-8")) == own


def test_settings_stand_in_the_order_of_a_config(tmp_path: Path) -> None:
    start = dict(reversed([*ODD.items()])) | {"epochs": 30}
    (path, _) = write(one_own(start=start), tmp_path, command=COMMAND)
    stated = [*yaml.safe_load(path.read_text(encoding="utf-8"))]
    assert stated == [name for name in vars(GraphConfig()) if name in ODD]


def test_every_number_comes_back_bit_for_bit(folders: tuple[Path, Path]) -> None:
    found = one_own(start={**ODD, "epochs": 30})
    write(found, folders[1], command=COMMAND)
    for dataset, settings in (("ENZYMES", found.best), ("MUTAG", found.own["MUTAG"].settings)):
        read = recipe(dataset)
        asked = {**found.search.start, **settings}
        assert read == asked
        assert {k: type(v) for k, v in read.items()} == {k: type(v) for k, v in asked.items()}
        config = GraphConfig(
            dataset=dataset, protocol="inductive", folds=found.search.folds, **read
        )
        assert config == found.search.config(dataset, "hscl", settings)


def test_its_head_says_whose_it_is_how_it_was_made_and_how_it_is_used(tmp_path: Path) -> None:
    for path, name, dataset in zip(
        write(one_own(), tmp_path, command=COMMAND),
        ("all sets", "MUTAG"), ("NAME", "MUTAG"), strict=True,
    ):  # fmt: skip
        first, made, used, *_ = path.read_text(encoding="utf-8").splitlines()
        sets = ", ".join(one_own().search.datasets)
        assert says(first, name, "inner", sets, "seeds 4, 9")
        assert made == f"#   {COMMAND}"
        arguments = shlex.split(used.removeprefix("#   python -m gcl_hard.bench"))
        assert arguments == ["--recipe", "best", "--dataset", dataset, "--method", "hscl"]


# An older search


def test_recipes_of_an_older_search_go_and_nothing_else(tmp_path: Path) -> None:
    write(one_own(), tmp_path, command=COMMAND)
    (tmp_path / "ptc_mr.yaml").write_text("dataset: PTC_MR\n", encoding="utf-8")
    (tmp_path / "notes.md").write_text("# Our recipe for tea\n", encoding="utf-8")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe")
    assert write(none_own(), tmp_path, command=COMMAND) == [tmp_path / "all.yaml"]
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"all.yaml", "ptc_mr.yaml", "notes.md", "bytes.yaml"}
    assert yaml.safe_load((tmp_path / "all.yaml").read_text(encoding="utf-8")) == START


@pytest.mark.parametrize("name", ["all", "mutag"])
def test_the_config_of_another_kind_is_never_written_over(tmp_path: Path, name: str) -> None:
    write(one_own(), tmp_path, command=COMMAND)
    check_folder(tmp_path, ["MUTAG", "ENZYMES"])
    (tmp_path / f"{name}.yaml").write_text("# The paper's\nlr: 0.01\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"{name}\.yaml\b.*search.*--best"):
        check_folder(tmp_path, ["MUTAG", "ENZYMES"])


def test_configs_of_sets_that_are_not_searched_are_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "ptc_mr.yaml").write_text("lr: 0.01\n", encoding="utf-8")
    check_folder(tmp_path, ["MUTAG", "ENZYMES"])
