"""Looks while seeds of graphs train: when they are taken, at whom, and that nothing changes."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from gcl_hard.evaluation import outer_folds
from gcl_hard.experiments import graph_seeds, protocols
from gcl_hard.experiments.config import GraphConfig
from gcl_hard.experiments.diagnostics import graph_sampler, look_at, watch
from gcl_hard.experiments.ensembles import Encoder, Trained, train_encoders
from gcl_hard.experiments.store import points_of
from gcl_hard.graphs import GraphSet, load
from gcl_hard.graphs.models import GraphContrast
from tests.experiments.diagnostics import EPOCHS, epochs, go, saved

# The digest of the source, too: somebody may edit it meanwhile.
OF_THE_RUN = ("diagnostics", "seconds_diagnostics", "seconds_train", "seconds_eval", "finished",
              "versions")  # fmt: skip

# Nothing changes


COMMANDS = {
    "paper": ["--method=ucl,hscl-tau,hcl", "--beta=5", "--seeds=2", "--members=4"],
    "inductive": ["--method=ucl,hscl", "--protocol=inductive", "--seeds=1", "--batch-size=40"],
    "two-view": ["--contrast=two-view", "--seeds=1", "--augmentations=drop-nodes,mask-attributes"],
    "infonce": ["--objective=infonce", "--seeds=1"],
    "two-view jsd": ["--contrast=two-view", "--objective=jsd", "--method=hucl", "--seeds=1"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_of_a_seed_changes(tmp_path: Path, name: str) -> None:
    found = []
    for folder, more in (("without", ()), ("with", ("--diagnostics=2",))):
        go(tmp_path / folder, *COMMANDS[name], *more)
        stored = saved(tmp_path / folder)
        looks = [epochs(one) for one in stored.values()]
        assert looks == ([[2, 4, 5]] * len(stored) if more else [[]] * len(stored))
        for one in stored.values():
            assert (one["seconds_diagnostics"] > 0) == bool(more)
            assert all(look["anchors"] > 0 for look in one["diagnostics"])
        points = {points_of(tmp_path / folder / file) for file in stored} if more else set()
        assert {*(tmp_path / folder).glob("*.npz")} == points
        found.append({
            file: {k: v for k, v in one.items() if k not in OF_THE_RUN}
            for file, one in stored.items()
        })  # fmt: skip
    assert len(found[0]) == len(COMMANDS[name][0].split(",")) * (2 if name == "paper" else 1)
    assert found[0] == found[1]


def test_without_the_flag_nothing_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError

    for where, name in (
        (graph_seeds, "graph_sampler"), (graph_seeds, "Watch"), (watch, "look_at"),
        (watch.Watch, "look"),
    ):  # fmt: skip
        monkeypatch.setattr(where, name, never)
    for name in ("inductive", "two-view"):
        go(tmp_path, *COMMANDS[name], "--method=hscl")
    go(tmp_path, "--seeds=1", "--diagnostics=0")
    monkeypatch.undo()
    assert not any(epochs(one) for one in saved(tmp_path).values())


def test_time_spent_on_looks_is_in_no_other_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    real = watch.look_at

    def slow(*arguments: Any, **more: Any) -> Any:
        now[0] += 1000
        return real(*arguments, **more)

    monkeypatch.setattr(watch, "look_at", slow)
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    go(tmp_path, "--method=ucl,hscl", "--seeds=1", "--diagnostics=2")
    for one in saved(tmp_path).values():
        assert one["seconds_diagnostics"] == 3000
        assert one["seconds_train"] == one["seconds_eval"] == 0


# What is kept


@pytest.mark.parametrize(
    ("every", "expected"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (5, [5]), (9, [5])]
)
def test_looks_are_taken_every_so_many_epochs_and_at_the_last(
    tmp_path: Path, every: int, expected: list[int]
) -> None:
    go(tmp_path, "--seeds=1", f"--diagnostics={every}")
    (one,) = saved(tmp_path).values()
    assert epochs(one) == expected
    assert ["histograms" in look for look in one["diagnostics"]] == [
        epoch == EPOCHS for epoch in expected
    ]


def by_hand(cell: GraphConfig, graphs: GraphSet, seed: int, epoch: int) -> dict[str, Any]:
    """A look at the seed's first encoder, trained for so many epochs and no more."""
    cell = replace(cell, epochs=epoch)
    encoder = Encoder(cell, graphs, seed)
    if cell.protocol == "inductive":
        fold = outer_folds(graphs.y.numpy(), seed=seed, n_folds=cell.folds)[0]
        encoder = Encoder.of_fold(cell, graphs, seed, 0, fold)
    (result,) = train_encoders([encoder], graphs)
    assert isinstance(result.trained, Trained)
    model = result.trained.model
    assert isinstance(model, GraphContrast)
    sample = graph_sampler(cell, encoder.graphs, encoder.held_out)(model)
    current = model.loss.sampler.current
    found = look_at(sample, current, epoch, last=epoch == EPOCHS)
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--method=ucl,hscl", "--beta=7", "--seeds=3,8", "--members=1"],  # as by hand, to the bit
        ["--protocol=inductive", "--beta=7", "--seeds=3"],
        ["--protocol=inductive", "--contrast=two-view", "--features=degree-scalar", "--seeds=3"],
    ],
)
def test_looks_are_at_the_first_encoder_as_it_is_after_the_epoch(
    tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    real = watch.look_at

    def counted(*of: Any, **more: Any) -> Any:
        calls.append(of)
        return real(*of, **more)

    monkeypatch.setattr(watch, "look_at", counted)
    outcome = go(tmp_path, *arguments, "--diagnostics=3")
    assert len(calls) == 2 * len(outcome.results.records)
    for job, of in outcome.results.records.items():
        cell = job.cell
        assert isinstance(cell, GraphConfig)
        kind = cell.features if cell.features != "auto" else "labels"
        graphs = load("MUTAG", download=False, features=kind)
        expected = [by_hand(cell, graphs, job.seed, epoch) for epoch in (3, 5)]
        assert of.diagnostics == expected
        assert saved(tmp_path)[job.file_name]["diagnostics"] == expected


def test_floors_and_inner_hold_outs_are_not_looked_at(tmp_path: Path) -> None:
    arguments = ["--method=hscl,supervised,untrained,majority", "--protocol=inductive",
                 "--beta=1,2", "--select=true", "--seeds=1", "--diagnostics=5"]  # fmt: skip
    go(tmp_path, *arguments)
    found = {file: bool(epochs(one)) for file, one in saved(tmp_path).items()}
    looked = {file for file, some in found.items() if some}
    assert looked == {file for file in found if "_hscl_" in file and "_inner" not in file}
    assert (len(looked), len(found)) == (2, 7)
    assert {*tmp_path.glob("*.npz")} == {points_of(tmp_path / file) for file in looked}
    said = StringIO()
    go(tmp_path, *arguments, said=said)
    assert "7 of 7 seeds were finished before" in said.getvalue()
    assert "run again" not in said.getvalue()


# The hardening of the training


def own(folder: Path) -> dict[str, list[str | None]]:
    """By method, of each look, which hardening was measured beside."""
    return {
        one["config"]["method"]: [
            look["settings"].get("own", {}).get("setting") for look in one["diagnostics"]
        ]
        for one in saved(folder).values()
    }


def test_the_own_hardening_is_that_of_the_epoch(tmp_path: Path) -> None:
    go(tmp_path, "--method=ucl,hscl,hscl-tau", "--beta=5", "--threshold-start=-0.5",
       "--threshold-end=0.3", "--seeds=1", "--diagnostics=1")  # fmt: skip
    assert own(tmp_path) == {
        "ucl": [None] * 5, "hscl": ["beta=5"] * 5,
        "hscl-tau": ["l=-0.5", "l=-0.3", "l=-0.1", "l=0.1", "l=0.3"],
    }  # fmt: skip


def test_annealed_beta_is_that_of_the_epoch(tmp_path: Path) -> None:
    go(tmp_path, "--method=hcl", "--beta=15", "--beta-changes=5", "--seeds=1", "--diagnostics=1")
    assert own(tmp_path) == {"hcl": ["beta=15", "beta=12", "beta=9", "beta=6", "beta=3"]}


# What is not finite


def test_an_encoder_that_is_not_finite_is_looked_past(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = protocols.build
    looks: list[bool] = []

    def broken(head: torch.nn.Module, _: Any, out: Tensor) -> Tensor:
        if head.training:
            return out
        looks.append(True)
        return out * float("nan") if len(looks) <= 2 else out

    def build(*arguments: Any, **more: Any) -> Any:
        model = real(*arguments, **more)
        model.graph_head.register_forward_hook(broken)
        return model

    monkeypatch.setattr(protocols, "build", build)
    go(tmp_path, "--seeds=1", "--diagnostics=2")
    (one,) = saved(tmp_path).values()
    empty = {"anchors": 0, "settings": {}, "geometry": {}}
    assert one["diagnostics"][:2] == [{"epoch": 2, **empty}, {"epoch": 4, **empty}]
    assert one["diagnostics"][2]["anchors"] > 0
    assert len(one["fold_accuracies"]) == 2
    assert len(list(tmp_path.glob("*.npz"))) == 1
