"""Ensembles of encoders: which share one, how many, and what happens without memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from gcl_hard.commands.bench import parse_bench
from gcl_hard.errors import OutOfMemory
from gcl_hard.evaluation import outer_folds
from gcl_hard.experiments.plan import plan
from gcl_hard.graphs import Ensemble, GraphSet
from gcl_hard.graphs import training as ensembles
from gcl_hard.graphs.training import Encoder, train_encoders
from tests.experiments.made import Ran
from tests.experiments.small_cells import assert_each_its_own, float64, mutag, small, weights

__all__ = ["float64", "mutag"]

ROOT = Path(__file__).parents[2]


Sizes = list[int]


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> Sizes:
    """Models of the ensembles that are trained from now on."""
    seen: Sizes = []
    real = ensembles.train_ensemble

    def train(ensemble: Ensemble, *arguments: Any, **settings: Any) -> Any:
        seen.append(len(ensemble.models))
        return real(ensemble, *arguments, **settings)

    monkeypatch.setattr(ensembles, "train_ensemble", train)
    return seen


def folds_of(graphs: GraphSet, *methods: str) -> list[Encoder]:
    folds = outer_folds(graphs.y.numpy(), seed=0, n_folds=3)
    return [
        Encoder(small(method, protocol="inductive"), graphs, 0, k, torch.from_numpy(fold.test))
        for method in methods
        for k, fold in enumerate(folds)
    ]


@pytest.mark.usefixtures("float64")
def test_on_a_cpu_the_models_of_an_ensemble_hold_out_the_same_graphs(
    mutag: GraphSet, sizes: Sizes
) -> None:
    encoders = folds_of(mutag, "ucl", "hscl")
    together = list(train_encoders(encoders, mutag, size=16))
    assert sizes == [2, 2, 2]
    assert [result.number for result in together] == [0, 3, 1, 4, 2, 5]
    alone = list(train_encoders(encoders, mutag, size=1))
    assert [result.number for result in alone] == [0, 1, 2, 3, 4, 5]
    assert_each_its_own(weights(together), weights(alone))
    assert all(result.seconds > 0 for result in together)


@pytest.mark.usefixtures("float64")
def test_results_are_those_of_their_encoders_however_they_are_sorted(mutag: GraphSet) -> None:
    kinds = [small("hscl"), small("ucl"), small("scl", lr=0.1), small("ucl", epochs=1)]
    encoders = [Encoder(cell, mutag, seed) for seed, cell in enumerate(kinds)]
    together = weights(list(train_encoders(encoders, mutag, size=4)))
    alone = [weights(list(train_encoders([encoder], mutag)))[0] for encoder in encoders]
    assert_each_its_own(together, dict(enumerate(alone)))


def test_what_cannot_be_stacked_trains_by_itself_beside_the_rest(
    mutag: GraphSet, sizes: Sizes
) -> None:
    encoders = [
        Encoder(small(beta=beta, hardness_scale="cosine"), mutag, 0) for beta in (1.0, 500.0, 2.0)
    ]
    results = list(train_encoders(encoders, mutag, size=4))
    assert sorted(sizes) == [1, 2]
    assert sorted(result.number for result in results) == [0, 1, 2]


def test_held_out_graphs_that_join_batches_get_a_ensemble_of_their_own(
    mutag: GraphSet, sizes: Sizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ensembles, "_shares", ensembles.joins)  # as on a GPU
    from gcl_hard.graphs import epoch_batches

    last = epoch_batches(188, 93, seed=0, epoch=2)[-1]
    assert len(last) == 2
    cell = small(batch_size=93, protocol="inductive")
    encoders = [
        Encoder(cell, mutag, 0, k, ids) for k, ids in enumerate((last, torch.arange(9), last[:1]))
    ]
    results = list(train_encoders(encoders, mutag, size=4))
    assert len(results) == 3
    assert sorted(sizes) == [1, 2]


# Memory


def test_an_ensemble_that_runs_out_of_memory_names_a_size_to_try(
    mutag: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not trained in parts: its numbers would hang on the memory that was free."""

    def losses(*_: Any) -> torch.Tensor:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(Ensemble, "losses", losses)
    encoders = [Encoder(small(), mutag, seed) for seed in range(5)]
    with pytest.raises(OutOfMemory, match=r"\b5 models.*--ensemble-size 2\b"):
        list(train_encoders(encoders, mutag))


# The command


TINY = ["--epochs=2", "--layers=1", "--dim=4", "--folds=2", "--device=cpu", "--seeds=2"]


def command(output: Path, *arguments: str) -> dict[str, tuple[Any, ...]]:
    options = parse_bench([*TINY, *arguments, f"--output={output}"])
    runs = plan(options.configs, options.seeds, select=options.select)
    size = options.run.ensemble_size
    ran = Ran(output, runs, jobs=options.jobs, ensemble_size=size)
    assert ran.failures == []
    return {
        f"{run.key}.json": (result.values, result.fold_c, result.final_losses)
        for run, result in ran.results.items()
    }


MANY = [
    "--dim=8", "--method=ucl,hscl,supervised", "--beta=1,10", "--protocol=transductive,inductive",
    "--select=true", "--threads=1", "--seeds=3", "--batch-size=64",
]  # fmt: skip


@pytest.mark.slow
def test_what_is_finished_already_changes_no_number(tmp_path: Path) -> None:
    """Groups are cut from all that the command plans, and an unfinished one is trained whole."""
    fresh = command(tmp_path, *MANY, "--ensemble-size=4")
    for number, name in enumerate(sorted(fresh)):
        if number % 2:
            (tmp_path / name).unlink()
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*_seed*.json")}
    assert 0 < len(kept) < len(fresh)
    assert command(tmp_path, *MANY, "--ensemble-size=4") == fresh
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())


@pytest.mark.slow
@pytest.mark.exact
def test_the_number_of_processes_changes_no_number(tmp_path: Path) -> None:
    """Nor what is finished already: every group has runs that processes train along."""
    alone = command(tmp_path, *MANY, "--jobs=1")
    for name in sorted(alone)[::2]:
        (tmp_path / name).unlink()
    assert command(tmp_path, *MANY, "--jobs=2") == alone
