"""Commands with ``--device cuda``: every domain trains and scores there, as on the CPU."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from gcl_hard.commands.bench import command as bench
from gcl_hard.commands.tune import command as tune
from gcl_hard.experiments.store import Store
from gcl_hard.graphs import Ensemble
from tests.devices.pretended import Record, pretended
from tests.vectors.sets import blobs, npz

DATA = Path(__file__).parents[2].parent / "shared" / "data"
SHORT = "--seeds=1 --threads=1 --epochs=1"


@pytest.fixture(autouse=True)
def in_one_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without workers, whose start takes seconds; slow tests have them."""
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr("gcl_hard.experiments.runner.installed", lambda extra: False)


def records(folder: Path) -> dict[str, Any]:
    return {row.name: row for row in Store(folder).rows()}


def ran_on_both(arguments: str, folder: Path) -> Record:
    """Runs a command on the CPU and there; scores are about the same."""
    for device in ("cpu", "cuda"):
        flags = [*arguments.split(), f"--device={device}", f"--output={folder / device}"]
        with pretended() as record:
            assert bench(flags) == 0
    on_cpu, on_gpu = records(folder / "cpu"), records(folder / "cuda")
    assert on_cpu.keys() == on_gpu.keys()
    for name, row in on_cpu.items():
        assert on_gpu[name].values == pytest.approx(row.values, abs=15)  # two epochs of rounding
        assert on_gpu[name].final_losses == pytest.approx(row.final_losses, rel=0.02)
        assert on_gpu[name].device == "a pretended device"
    return record


@pytest.mark.parametrize(
    "arguments",
    [
        "--dataset=MUTAG --method=ucl,hscl,untrained --folds=2",
        "--dataset=MUTAG --method=hscl,supervised --protocol=inductive --folds=2 --patience=0",
        "--dataset=MUTAG --method=hscl --contrast=two-view --diagnostics=1 --folds=2",
        "--dataset=MUTAG --method=hscl --objective=infonce --folds=2 --save-encoder",
    ],
)
def test_graphs(arguments: str, tmp_path: Path) -> None:
    ran_on_both(f"{arguments} {SHORT}", tmp_path)


def test_training_graphs_waits_once_an_epoch(tmp_path: Path) -> None:
    def waits(epochs: int) -> Counter[tuple[str, str]]:
        arguments = (
            f"--dataset=MUTAG --method=ucl,hscl --seeds=1 --threads=1 --folds=2 --device=cuda "
            f"--epochs={epochs} --output={tmp_path / str(epochs)}"
        )
        with pretended() as record:
            assert bench(arguments.split()) == 0
        return record.tally("wait")

    assert sum((waits(4) - waits(2)).values()) == 2


needs_data = pytest.mark.skipif(not (DATA / "nodes").exists(), reason="needs ../shared/data")


@needs_data
def test_nodes(tmp_path: Path) -> None:
    methods = "ucl,hscl,progcl,untrained"
    ran_on_both(
        f"--dataset=Cora --data-dir={DATA / 'nodes'} --method={methods} --anchors=200 "
        f"--dim=16 --splits=2 {SHORT}",
        tmp_path,
    )


@needs_data
def test_links(tmp_path: Path) -> None:
    ran_on_both(
        f"--dataset=UMLS --data-dir={DATA / 'links'} --method=ucl,hscl --dim=8 {SHORT}", tmp_path
    )


@pytest.mark.parametrize("protocol", ["split", "unseen", "ood"])
def test_vectors(protocol: str, tmp_path: Path) -> None:
    methods = "hscl,supervised,untrained,raw,lda"
    ran_on_both(
        f"--dataset={npz(blobs(12, 30), tmp_path / 'mine.npz')} --protocol={protocol} "
        f"--method={methods} --splits=2 --hidden=8 --noise=0.1 --scale=standardised {SHORT}",
        tmp_path,
    )


def test_a_search(tmp_path: Path) -> None:
    arguments = (
        f"--dataset=MUTAG --method=hscl --trials=2 --epochs=2 --folds=2 --device=cuda --threads=1 "
        f"--output={tmp_path}"
    )
    with pretended():
        assert tune(arguments.split()) == 0


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="scores beside the training")
def test_scores_of_workers_are_those_of_one_process(tmp_path: Path) -> None:
    arguments = "--dataset=MUTAG --method=hscl --folds=2 --epochs=2 --device=cuda --threads=1"
    for jobs, seeds, name in ((2, 2, "together"), (1, 1, "alone")):
        asked = f"--jobs={jobs} --seeds={seeds} --output={tmp_path / name}"
        with pretended():
            assert bench([*arguments.split(), *asked.split()]) == 0
    together, alone = records(tmp_path / "together"), records(tmp_path / "alone")
    assert len(together) == 2
    (name,) = alone
    assert together[name].values == alone[name].values


def test_tf32_and_deterministic_sums_are_switched_on_for_the_run_and_said(tmp_path: Path) -> None:
    def state() -> tuple[bool, bool]:
        matmul = torch.backends.cuda.matmul
        return matmul.allow_tf32, torch.are_deterministic_algorithms_enabled()

    seen, before = [], state()

    def losses(self: Ensemble, *args: Any) -> Any:
        seen.append(state())
        return usual(self, *args)

    usual = Ensemble.losses
    args = (
        f"--dataset=MUTAG --method=ucl --folds=2 --device=cuda --tf32=true --deterministic=true "
        f"{SHORT} --output={tmp_path}"
    )
    with pretended(), mock.patch.object(Ensemble, "losses", losses):
        assert bench(args.split()) == 0
    assert set(seen) == {(True, True)}
    assert state() == before
    (record,) = records(tmp_path).values()
    assert record.device == "a pretended device, TF32, deterministic"
