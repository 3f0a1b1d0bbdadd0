"""Runs on nodes, links and vectors that are stopped and resumed end as undisturbed ones."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gcl_hard import bench, evaluate, fit
from gcl_hard.experiments import hardware
from gcl_hard.experiments.experiment import TrainedRun
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.links import DistMult, LinkContrast, LinkSet
from gcl_hard.links.settings import LinkConfig
from gcl_hard.nodes import NodeContrast, NodeSet
from gcl_hard.nodes.settings import NodeConfig
from gcl_hard.training.checkpoint import Checkpoint
from gcl_hard.vectors.settings import VectorConfig
from tests.experiments.made import context
from tests.nodes.test_experiment import community_graph, data
from tests.said import says
from tests.vectors.sets import blobs


class Dropping(nn.Module):
    """An encoder of one's own that draws from the global random state."""

    out_dim = 4

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_features, 4)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        output: Tensor = nn.functional.dropout(self.linear(x), training=self.training)
        return output


class DroppingFacts(DistMult):
    """A model of facts that draws from the global random state."""

    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        output: Tensor = nn.functional.dropout(super().query(entity, relation), 0.2, self.training)
        return output


def facts() -> LinkSet:
    """Twenty people in a ring, of whom each has a next one, and others further on."""
    facts = [(f"p{i}", name, f"p{(i + step) % 20}") for i in range(20)
            for step, name in enumerate(("next", "second", "third"), 1)]  # fmt: skip
    order = np.random.default_rng(0).permutation(len(facts)).tolist()
    parts = ([facts[i] for i in ids] for ids in (order[:45], order[45:52], order[52:]))
    return LinkSet.from_triples(*parts, name="ring")


NODES = NodeConfig("mine", "ucl", epochs=3, splits=2, dim=4)
LINKS = LinkConfig("ring", "hucl", epochs=3, dim=4, candidates=6, batch_size=32, patience=1)
VECTORS = VectorConfig("blobs", "hscl", epochs=2, splits=2, hidden=4, dropout=0.2, batch_size=40)
CONFIGS: dict[str, RunConfig] = {
    "nodes": NODES,
    "an encoder a split": replace(NODES, method="hscl", epochs=2),
    "neighbours": replace(NODES, neighbours=(3, 2), batch_size=60, method="scl", epochs=2),
    "a fitted mixture": replace(NODES, method="progcl"),
    "best epochs": replace(NODES, method="supervised", patience=1),
    "nodes of one's own": NodeConfig("mine", "ucl", epochs=3, splits=2, encoder="own:Dropping"),
    "links": LINKS,
    "links of one's own": replace(LINKS, encoder="own:DroppingFacts", patience=0),
    "vectors": replace(VECTORS, noise=0.2, scale="standardised"),
    "unseen classes": replace(VECTORS, method="supervised", protocol="unseen", patience=1),
}


def leaves(state: Any) -> Iterator[Any]:
    """Arrays and numbers in what a run ends with."""
    if isinstance(state, nn.Module):
        state = state.state_dict()
    if isinstance(state, dict):
        state = list(state.values())
    if isinstance(state, list | tuple):
        for part in state:
            yield from leaves(part)
    else:
        yield None if state is None else np.asarray(state)


def same(trained: TrainedRun, other: TrainedRun) -> bool:
    """Whether two runs ended with the same bits."""
    kept = "losses", "embeddings", "scores", "encoders", "facts", "snapshots", "points"
    parts = [[getattr(run, name) for name in kept] for run in (trained, other)]
    pairs = zip(leaves(parts[0]), leaves(parts[1]), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", CONFIGS)
def test_stopped_anywhere_it_ends_as_undisturbed(name: str, tmp_path: Path) -> None:
    config = CONFIGS[name]
    inputs: Any = {"nodes": data, "links": facts, "vectors": blobs}[config.domain]()
    experiment, run = experiment_of(config), Run(config, 0)
    saving = {"save_encoder": config.domain != "links"}
    saving |= {"diagnostics": 1} if name in ("nodes", "an encoder a split") else {}

    def trained(folder: str, stops: Callable[[int], bool]) -> tuple[TrainedRun | None, int]:
        calls = 0

        def report(run: Run, share: float, loss: float) -> bool:
            nonlocal calls
            calls += 1
            assert 0 <= share <= 1
            return not stops(calls)

        where = context(tmp_path / folder, **saving)
        where = replace(where, parts={"own:Dropping": Dropping, "own:DroppingFacts": DroppingFacts})
        where.output.mkdir(exist_ok=True)
        try:
            (trained,) = experiment.train([run], inputs, where, report)
        except KeyboardInterrupt:
            assert where.checkpoints(run)
            return None, calls
        return trained, calls

    torch.manual_seed(1)
    whole, n_calls = trained("whole", lambda call: False)
    assert whole is not None
    assert n_calls >= 6
    torch.manual_seed(2)  # of which nothing depends
    for number in range(1, n_calls + 1):
        stopped, _ = trained(f"after {number}", lambda call, at=number: call >= at)
        assert stopped is None
        resumed, _ = trained(f"after {number}", lambda call: False)
        assert resumed is not None
        assert same(whole, resumed), number
    again = None  # stopped after every few reports
    for _ in range(n_calls):
        again, _ = trained("often", lambda call: call >= 3)
        if again is not None:
            break
    resumed, _ = trained("often", lambda call: False)
    assert resumed is not None
    assert same(whole, resumed)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GCL_HARD_DATA", "")
    monkeypatch.setenv("COLUMNS", "300")
    np.savez(tmp_path / "mine.npz", **community_graph())
    return tmp_path


SHORT = "--dataset=mine.npz", "--epochs=3", "--splits=2", "--dim=4", "--seeds=1", "--output=out"


def stop_in(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Press Ctrl-C in a step of training, from 1."""
    forward, calls = NodeContrast.forward, 0

    def pressed(self: NodeContrast, graph: Any) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == step:
            os.kill(os.getpid(), signal.SIGINT)
        return forward(self, graph)

    monkeypatch.setattr(NodeContrast, "forward", pressed)


def test_a_stopped_command_continues_and_says_from_where(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = [*SHORT, "--method=scl,sgc", "--json=table.json"]
    with monkeypatch.context() as patch:
        stop_in(patch, 5)
        assert bench.main(command) == 130
    assert says(capsys.readouterr().err, "1 saved in checkpoints")
    left = sorted(path.name[-7:] for path in Path("out").glob("*.ckpt"))
    assert left == [".1.ckpt", "d0.ckpt"]  # of both splits
    assert bench.main(command) == 0
    (line,) = (text for text in capsys.readouterr().out.splitlines() if "continues" in text)
    assert says(line, "scl")
    assert ".1.ckpt" in line
    assert not [*Path("out").glob("*.ckpt")]
    resumed = json.loads(Path("table.json").read_text())
    assert bench.main([*command, "--output=whole"]) == 0
    whole = json.loads(Path("table.json").read_text())
    for result, other in zip(resumed["configs"], whole["configs"], strict=True):
        assert result["fold_accuracies"] == other["fold_accuracies"]


def test_force_starts_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        stop_in(patch, 5)
        assert bench.main([*SHORT, "--method=scl"]) == 130
    assert bench.main([*SHORT, "--method=scl", "--force"]) == 0
    assert not [*Path("out").glob("*.ckpt")]


def test_evaluate_called_again_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = NodeSet.from_graph(data(), name="mine")

    def called(output: str) -> Any:
        return evaluate(
            "gcn", nodes, ["scl"],
            seeds=1, epochs=3, splits=2, dim=4, baselines=[], output=output, progress=False,
        )  # fmt: skip

    with monkeypatch.context() as patch:
        stop_in(patch, 5)
        with pytest.raises(KeyboardInterrupt):
            called("out")
    assert [*Path("out").glob("*.ckpt")]
    resumed, whole = called("out"), called("whole")
    assert not [*Path("out").glob("*.ckpt")]
    np.testing.assert_array_equal(resumed.embeddings("scl"), whole.embeddings("scl"))


@pytest.mark.parametrize("other", ["data", "source", "device"])
def test_a_checkpoint_of_another_run_is_refused_and_kept(
    other: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whether or not a flag asks for it; --force starts over."""
    command = [*SHORT, "--method=ucl"]
    with monkeypatch.context() as patch:
        stop_in(patch, 2)
        assert bench.main(command) == 130
    (path,) = Path("out").glob("*.ckpt")
    if other == "data":
        np.savez("mine.npz", **community_graph(seed=1))
    elif other == "source":
        monkeypatch.setattr(hardware, "source_digest", lambda: "another")
    else:  # as a GPU would have left it
        whole = torch.load(path, weights_only=True)
        torch.save(whole | {"run": whole["run"] | {"device": "cuda"}}, path)
    content = path.read_bytes()
    capsys.readouterr()
    assert bench.main(command) == 2
    assert says(capsys.readouterr().err, str(path), f"{other} ", "remove")
    assert path.read_bytes() == content
    assert bench.main([*command, "--force"]) == 0
    assert not [*Path("out").glob("*.ckpt")]


def test_candidates_of_links_are_drawn_as_before_in_a_loop_of_ones_own(tmp_path: Path) -> None:
    links = facts()

    def weights(resume: bool, stop: int | None) -> Tensor:
        torch.manual_seed(0)
        model = LinkContrast(
            DistMult(links.n_entities, links.n_relations, dim=4), links,
            method="ucl", candidates=5, temperature=1.0, seed=3,
        )  # fmt: skip
        path = tmp_path / ("kept" if stop or resume else "whole")
        checkpoint = Checkpoint(path, {}, resume=resume, every=0)
        seen = 0

        def on_epoch(epoch: int, loss: float) -> None:
            nonlocal seen
            seen += 1
            if seen == stop:
                checkpoint.stop()

        fit(model, links, epochs=4, batch_size=32, checkpoint=checkpoint, on_epoch=on_epoch)
        embedded: Tensor = model.scorer.candidates(None).detach()
        return embedded

    with pytest.raises(KeyboardInterrupt):
        weights(resume=False, stop=2)
    assert torch.equal(weights(resume=True, stop=None), weights(resume=False, stop=None))
