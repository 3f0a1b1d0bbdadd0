"""Searches with objects of Optuna, callbacks, plain spaces, recipes, and the best retrained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import optuna
import pytest
import torch
import yaml
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import MaxTrialsCallback

from gcl_hard import tune
from gcl_hard.commands.study import study
from gcl_hard.errors import InputError
from gcl_hard.graphs import GraphSet, embed_graphs, load_graphs
from gcl_hard.graphs.presets import recipe
from gcl_hard.images import training as image_training
from gcl_hard.tuning import Space
from tests.commands.test_study import DIGITS, LR, searched
from tests.experiments.tiny_images import Tiny
from tests.said import says


@pytest.fixture
def mutag() -> GraphSet:
    return load_graphs("MUTAG")


# Spaces


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        ({"beta": (0, 20)}, FloatDistribution(0, 20)),
        ({"epochs": (1, 3)}, IntDistribution(1, 3)),
        ({"encoder.width": (1, 3)}, IntDistribution(1, 3)),
        ({"encoder.share": (0.0, 1)}, FloatDistribution(0, 1)),
        ({"readout": ["sum", "mean"]}, CategoricalDistribution(("sum", "mean"))),
        ({"beta": [0.5, 1.0]}, CategoricalDistribution((0.5, 1.0))),
        ({"lr": FloatDistribution(1e-3, 1e-1, log=True)}, FloatDistribution(1e-3, 1e-1, log=True)),
    ],
)
def test_a_space_may_be_a_plain_dictionary(space: dict[str, Any], expected: Any) -> None:
    for whole in (space, {"space": space}):
        (dimension,) = Space.of(whole).dimensions
        assert (dimension.name, dimension.distribution) == (next(iter(space)), expected)


# Objects of Optuna


class First(optuna.samplers.BaseSampler):
    """Draws the lowest value."""

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        return {}

    def sample_relative(self, study: Any, trial: Any, space: Any) -> dict[str, Any]:
        return {}

    def sample_independent(self, study: Any, trial: Any, name: str, distribution: Any) -> float:
        return float(distribution.low)


class Never(optuna.pruners.BasePruner):
    """Remembers what it saw."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def prune(self, study: Any, trial: Any) -> bool:
        self.seen.append(trial.last_step)
        return len(self.seen) == 2


def test_a_sampler_and_a_pruner_of_ones_own_are_asked(tmp_path: Path, mutag: GraphSet) -> None:
    pruner = Never()
    result = searched(tmp_path, mutag, "ucl", sampler=First(), pruner=pruner, epochs=3, trials=3)
    assert [trial.params["lr"] for trial in result.study.trials] == [1e-4] * 3
    states = [trial.state.name for trial in result.study.trials]
    assert sorted(states) == ["COMPLETE", "COMPLETE", "PRUNED"]
    assert {*pruner.seen} <= {1, 2}
    assert result.facts["sampler"] == "First"
    with pytest.raises(InputError, match=r"\bsampler First\b.*\brandom\b"):
        searched(tmp_path, mutag, "ucl", epochs=3)


def test_a_sampler_serves_several_studies(tmp_path: Path, mutag: GraphSet) -> None:
    sampler = optuna.samplers.TPESampler(seed=0, n_startup_trials=1)
    result = searched(tmp_path, mutag, "ucl", sampler=sampler, outer_folds=2, trials=3)
    assert [len(study.trials) for study in result.studies] == [3, 3]


def test_a_pruner_of_ones_own_sees_folds_where_there_are_several(
    tmp_path: Path, mutag: GraphSet
) -> None:
    pruner = Never()
    searched(tmp_path, mutag, "ucl", pruner=pruner, inner_folds=3, trials=2)
    assert {*pruner.seen} <= {0, 1, 2}
    assert pruner.seen


def test_callbacks_see_every_trial_and_may_end_the_search(tmp_path: Path, mutag: GraphSet) -> None:
    seen: list[tuple[int, str]] = []

    def note(study: Any, trial: Any) -> None:
        seen.append((trial.number, trial.state.name))

    result = searched(
        tmp_path, mutag, "ucl", trials=9, ensemble_size=1, callbacks=[note, MaxTrialsCallback(3)]
    )
    assert seen == [(number, "COMPLETE") for number in range(3)]
    assert len(result.study.trials) == 3
    assert result.outer is not None


# Recipes


def test_a_recipe_fills_what_is_neither_given_nor_searched(
    tmp_path: Path, mutag: GraphSet, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = recipe("MUTAG")
    result = searched(tmp_path, mutag, "hscl", recipe="best", batch_size=32)
    for name, value in ours.items():
        if name not in ("lr", "batch_size", "epochs", "layers", "dim"):
            assert getattr(result.best, name) == value, name
    assert result.best.batch_size == 32
    with pytest.raises(InputError, match=r"'bset'.*\bbest\b.*\bpaper\b"):
        searched(tmp_path, mutag, "hscl", recipe="bset")
    with pytest.raises(SystemExit):
        tune.main(["--recipe=best", "--dataset=MUTAG", "--print-config"])
    assert yaml.safe_load(capsys.readouterr().out)["recipe"] == "best"
    assert tune.main(["--recipe=best", "--dataset=digits", f"--output={tmp_path}"]) == 2
    assert says(capsys.readouterr().err, "recipes", "graphs", "digits", "images")


# The best, retrained


def test_the_best_settings_are_retrained_on_all_graphs(tmp_path: Path, mutag: GraphSet) -> None:
    result = searched(tmp_path, mutag, "hscl")
    models = [result.retrain_best(seed) for seed in (0, 0, 1)]
    z = [embed_graphs(model.encoder, mutag) for model in models]  # type: ignore[arg-type]
    assert (z[0] == z[1]).all()
    assert (z[0] != z[2]).any()
    assert z[0].shape == (188, 4)
    assert not models[0].training


def test_an_own_encoder_is_retrained_with_its_searched_settings(
    tmp_path: Path, mutag: GraphSet
) -> None:
    def linear(n_features: int, width: int = 3) -> torch.nn.Module:
        from tests.commands.test_evaluate import Sums

        return Sums(n_features, width)

    result = searched(
        tmp_path, mutag, "ucl", encoder=linear, space=LR | {"encoder.width": (5, 5)}, trials=1
    )
    assert result.retrain_best().out_dim == 5


def test_images_are_retrained_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_training, "image_encoder", lambda name, stem, width: Tiny())
    result = study("digits", "ucl", output=tmp_path, **DIGITS)
    models = [result.retrain_best(seed) for seed in (0, 0)]
    states = [model.state_dict() for model in models]
    weights = [name for name, value in states[0].items() if isinstance(value, torch.Tensor)]
    assert weights
    assert all(torch.equal(states[0][name], states[1][name]) for name in weights)
