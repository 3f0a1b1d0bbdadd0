"""Tests of experiments on nodes: what is read and what is not, by the command and from Python."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch_geometric.data import Data

from gcl_hard import InputError, bench, evaluate, load_encoder, tune
from gcl_hard.core.setting import declared, stated
from gcl_hard.evaluation import random_splits
from gcl_hard.experiments.domains import from_dict
from gcl_hard.experiments.experiment import RunContext, silent
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.store import Store
from gcl_hard.nodes import GCN, NodeSet, embed_nodes
from gcl_hard.nodes.experiment import NodeExperiment, known_ids, splits_of
from gcl_hard.nodes.settings import NodeConfig
from gcl_hard.nodes.views import NodeBatch, transformed_by
from tests.said import says

N = 90


def community_graph(classes: int = 3, n: int = N, seed: int = 0) -> dict[str, Any]:
    """A graph of communities in the layout of the heterophilous sets."""
    draws = np.random.default_rng(seed)
    y = np.arange(n) % classes
    edges = np.argwhere(np.triu(draws.random((n, n)) < np.where(y[:, None] == y, 0.2, 0.02), 1))
    x = draws.normal(size=(n, 8)) ** 2 + np.eye(classes, 8)[y]
    return {"node_features": x.astype(np.float32), "node_labels": y, "edges": edges}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GCL_HARD_DATA", "")
    np.savez(tmp_path / "mine.npz", **community_graph())
    return tmp_path


def run_bench(*arguments: str) -> int:
    usual = ["--output=out", "--json=table.json", "--epochs=3", "--splits=2", "--dim=4"]
    return bench.main(["--dataset=mine.npz", *usual, *arguments])


def results(folder: Path) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((folder / "table.json").read_text())
    return table


def context(folder: Path) -> RunContext:
    return RunContext(folder, None, "cpu", 1, 1, {}, lambda config: NodeExperiment())


def data(classes: int = 3) -> NodeSet:
    arrays = community_graph(classes)
    ends = torch.from_numpy(arrays["edges"].T.copy())
    both = torch.cat([ends, ends.flip(0)], 1)
    y = torch.from_numpy(arrays["node_labels"])
    return NodeSet.from_graph(
        Data(torch.from_numpy(arrays["node_features"]), both, y=y), name="mine"
    )


METHODS = "majority,raw,sgc,untrained,supervised,ucl,hucl,progcl,scl,hscl"


def test_a_table_of_an_own_graph(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_bench(f"--method={METHODS}", "--seeds=2", "--report=page.md") == 0
    out = capsys.readouterr().out
    configs = {config["method"]: config for config in results(folder)["configs"]}
    assert {*configs} == {*METHODS.split(",")}
    seeds = {name: len(config["seeds"]) for name, config in configs.items()}
    each = {"ucl", "hucl", "progcl", "untrained"}
    assert seeds == {name: 2 if name in each else 1 for name in configs}
    assert all(len(config["fold_accuracies"][0]) == 2 for config in configs.values())
    assert configs["sgc"]["accuracy_mean"] > configs["majority"]["accuracy_mean"] + 20
    assert says(out, "scl", "1 × 2")
    assert says((folder / "page.md").read_text(), "mine", "transductive")
    run_bench(f"--method={METHODS}", "--seeds=2")
    assert says(capsys.readouterr().out, 14, 14, "finished")


def test_majority_and_sgc_are_what_loops_say(folder: Path) -> None:
    run_bench("--method=majority,sgc", "--hops=2", "--seeds=1")
    accuracies = {
        config["method"]: config["fold_accuracies"][0] for config in results(folder)["configs"]
    }
    arrays = community_graph()
    y, a = arrays["node_labels"], np.eye(N)
    for u, v in arrays["edges"]:
        a[u, v] = a[v, u] = 1
    d = a.sum(1) ** -0.5
    z = arrays["node_features"] / arrays["node_features"].sum(1, keepdims=True)
    for _ in range(2):
        z = (d[:, None] * a * d) @ z
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    from sklearn.linear_model import LogisticRegression

    for k, split in enumerate(random_splits(range(N), 2)):
        most = np.bincount(y[split.train]).argmax()
        assert accuracies["majority"][k] == pytest.approx(100 * np.mean(y[split.test] == most))
        best, expected = -1.0, []
        for c in (4.0**p for p in range(-5, 8)):
            model = LogisticRegression(C=c, max_iter=9999, tol=1e-8)
            model.fit(z[split.train], y[split.train])
            value = model.score(z[split.valid], y[split.valid])
            if value > best:
                best, expected = value, [model.score(z[split.test], y[split.test])]
        assert accuracies["sgc"][k] == pytest.approx(100 * expected[0], abs=1.5)


def test_results_of_one_solver_are_not_those_of_the_other() -> None:
    newton, lbfgs = (NodeConfig("Cora", "ucl", solver=solver) for solver in ("newton", "lbfgs"))
    assert newton == NodeConfig("Cora", "ucl")
    assert newton.key() != lbfgs.key()
    assert newton.encoder_config == lbfgs.encoder_config  # trained once for both
    recorded = {name: value for name, value in lbfgs.values.items() if name != "solver"}
    assert from_dict(recorded, "nodes", recorded=True) == lbfgs
    for unprobed in ("majority", "supervised"):
        assert NodeConfig("Cora", unprobed, solver="lbfgs") == NodeConfig("Cora", unprobed)


@pytest.mark.parametrize("score", ["accuracy", "auc"])
@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize("method", ["ucl", "scl", "hscl", "supervised", "sgc", "raw", "progcl"])
def test_labels_of_test_nodes_reach_no_encoder_and_no_choice(
    tmp_path: Path, method: str, k: int, score: str
) -> None:
    config = NodeConfig("mine", method, epochs=2, dim=4, splits=2, score=score)
    clean = data(2 if score == "auc" else 3)
    ids = torch.from_numpy(splits_of(config, clean)[k].test)
    poisoned = clean.y.clone()
    poisoned[ids] = (poisoned[ids] + 1) % clean.n_classes
    scores = []
    for nodes in (clean, replace(clean, y=poisoned)):
        experiment, run = NodeExperiment(), Run(config, 0)
        (trained,) = experiment.train([run], nodes, context(tmp_path), silent)
        scored = experiment.score(trained, nodes, context(tmp_path))
        chosen = scored.chosen[k : k + 1]
        scores.append((scored.folds[k].predicted, scored.validation[k], chosen))
    assert np.array_equal(scores[0][0], scores[1][0])
    assert scores[0][1:] == scores[1][1:]


def test_the_choice_of_a_setting_reads_no_label_of_the_first_splits_test_nodes(
    folder: Path,
) -> None:
    arrays = community_graph()
    (split,) = random_splits(range(N), 1)
    poisoned = arrays["node_labels"].copy()
    poisoned[split.test] = (poisoned[split.test] + 1) % 3
    np.savez(folder / "poisoned.npz", **arrays | {"node_labels": poisoned})
    chosen = []
    for name in ("mine", "poisoned"):
        run_bench(
            f"--dataset={name}.npz", "--method=hscl", "--beta=0.5,4", "--lr=0.001,0.05",
            "--select=true", "--select-splits=1",
        )  # fmt: skip
        chosen += [
            (config["config"]["beta"], config["config"]["lr"])
            for config in results(folder)["configs"]
        ]
    assert len(chosen) == 2
    assert chosen[0] == chosen[1]


def test_validation_labels_reach_no_encoder(tmp_path: Path) -> None:
    config = NodeConfig("mine", "hscl", epochs=2, dim=4, splits=1)
    clean = data()
    (split,) = splits_of(config, clean)
    poisoned = clean.y.clone()
    poisoned[torch.from_numpy(split.valid)] = 0
    embedded = [
        next(iter(NodeExperiment().train([Run(config, 0)], nodes, context(tmp_path), silent)))
        for nodes in (clean, replace(clean, y=poisoned))
    ]
    assert np.array_equal(embedded[0].embeddings[0], embedded[1].embeddings[0])


def test_shares_of_known_labels_are_nested_and_matter(tmp_path: Path) -> None:
    (split,) = random_splits(range(1000), 1)
    id_sets = [known_ids(split, 0, share) for share in (0.1, 0.5, 1.0)]
    assert [*map(len, id_sets)] == [10, 50, 100]
    assert {*id_sets[0]} < {*id_sets[1]} < {*split.train} == {*id_sets[2]}
    nodes = data()
    z = {}
    for method, share in (("hucl", 1.0), ("hscl", 0.0), ("hscl", 0.5), ("hscl", 1.0)):
        config = NodeConfig("mine", method, epochs=2, dim=4, splits=1, known_labels=share)
        (trained,) = NodeExperiment().train([Run(config, 0)], nodes, context(tmp_path), silent)
        z[method, share] = np.asarray(trained.embeddings).reshape(N, 4)
    np.testing.assert_allclose(z["hscl", 0.0], z["hucl", 1.0], atol=1e-5)
    assert not np.allclose(z["hscl", 0.5], z["hscl", 1.0])


def test_a_search_is_scored_on_validation_nodes(folder: Path) -> None:
    arguments = ["--dataset=mine.npz", "--method=hucl", "--epochs=2", "--dim=4", "--splits=1"]
    assert tune.main([*arguments, "--space=beta", "--trials=2", "--output=found"]) == 0
    (path,) = (folder / "found").glob("*.json")
    (study,) = json.loads(path.read_text())["studies"]
    beta = study["params"]["beta"]
    run_bench("--method=hucl", f"--beta={beta}", "--seeds=1", "--epochs=2", "--splits=1")
    (record,) = Store(folder / "out").rows()
    assert study["inner"] == pytest.approx(record.validation[0])
    assert study["outer"] == pytest.approx(record.values[0])


def test_embeddings_and_encoders_come_out(folder: Path) -> None:
    run_bench("--method=scl,ucl", "--seeds=1", "--save-embeddings", "--save-encoder")
    out = folder / "out"
    saved = {method: np.load(next(out.glob(f"mine_{method}_*.npz"))) for method in ("scl", "ucl")}
    assert saved["scl"]["embeddings"].shape == (2, N, 4)
    assert saved["ucl"]["embeddings"].shape == (N, 4)
    assert np.array_equal(saved["ucl"]["nodes"], np.arange(N))
    split = random_splits(range(N), 2)[1]
    assert np.array_equal(np.flatnonzero(saved["ucl"]["split"][1] == 2), split.test)
    encoder = load_encoder(next(out.glob("mine_scl_*.pt")), fold=1)
    z = embed_nodes(encoder, data().normalised())
    np.testing.assert_allclose(z, saved["scl"]["embeddings"][1], atol=1e-5)


def test_snapshots_measure_the_encoder_of_the_first_split(folder: Path) -> None:
    run_bench("--method=hscl", "--seeds=1", "--diagnostics=2")
    (record,) = [*Store(folder / "out").rows()]
    assert [snapshot["epoch"] for snapshot in record.diagnostics] == [2, 3]
    assert record.diagnostics[0]["anchors"] == 2 * N


@pytest.mark.parametrize("extra", [["--anchors=10"], ["--neighbours=4,3", "--batch-size=30"],
                                   ["--encoder=sage", "--adaptive=true"]])  # fmt: skip
def test_other_ways_to_train(folder: Path, extra: Sequence[str]) -> None:
    run_bench("--method=ucl,hscl,supervised", "--seeds=1", *extra)
    run_bench("--method=ucl,hscl,supervised", "--seeds=1")
    losses: dict[str, set[float]] = {}
    for record in Store(folder / "out").rows():
        losses.setdefault(record.config["method"], set()).add(record.final_losses[0])
        assert all(0 < value <= 100 for value in record.values)
    changed = {"ucl", "hscl"} | ({"supervised"} if extra[0] != "--anchors=10" else set())
    assert {name for name, values in losses.items() if len(values) == 2} == changed


def test_parts_are_normalised_by_the_graph_or_by_themselves_under_keys_of_their_own(
    folder: Path,
) -> None:
    drawn = ("--method=hucl", "--seeds=1", "--layers=1", "--neighbours=4", "--batch-size=30")
    run_bench(*drawn, "--degrees=graph,part")
    by_degrees = {record.config["degrees"]: record for record in Store(folder / "out").rows()}
    assert by_degrees["graph"].final_losses != by_degrees["part"].final_losses
    assert "remarks" not in by_degrees["graph"].data
    (remark,) = by_degrees["part"].data["remarks"]
    assert says(remark, "gcn", "%")
    assert NodeConfig("Cora", "ucl").degrees == "graph"
    # What a version without the setting computed keeps its key, and is no result of today's.
    part = NodeConfig("Cora", "hucl", neighbours=(4, 3), degrees="part")
    assert "degrees" not in stated(declared(NodeConfig), part.values, keyed=True)
    assert "degrees" in stated(
        declared(NodeConfig), replace(part, degrees="graph").values, keyed=True
    )


def test_two_classes_are_scored_by_the_roc_auc(folder: Path) -> None:
    np.savez(folder / "two.npz", **community_graph(2))
    run_bench(
        "--dataset=two.npz", "--method=majority,sgc,supervised,ucl", "--score=auc", "--seeds=1"
    )
    records = [*Store(folder / "out").rows()]
    y = community_graph(2)["node_labels"]
    for record in records:
        (first, *_) = record.tested()
        assert record.metric == "auc"
        expected = 100 * roc_auc_score(y[first.items], first.predicted)
        assert record.values[0] == pytest.approx(expected)
    assert {r.values[0] for r in records if r.config["method"] == "majority"} == {50.0}


def test_given_splits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = community_graph()
    masks = np.zeros((3, 3, N), bool)
    for k in range(3):
        order = np.random.default_rng(k + 9).permutation(N)
        for part, ids in enumerate(np.split(order, [20, 40])):
            masks[part, k, ids] = True
    names = ("train_masks", "val_masks", "test_masks")
    np.savez(folder / "given.npz", **arrays, **dict(zip(names, masks, strict=True)))
    arguments = ["--dataset=given.npz", "--method=sgc", "--split=given"]
    run_bench(*arguments)
    (record,) = [*Store(folder / "out").rows()]
    assert [np.array_equal(fold.items, np.flatnonzero(masks[2, k]))
            for k, fold in enumerate(record.tested())] == [True, True]  # fmt: skip
    assert run_bench(*arguments, "--splits=4") == 2
    assert says(capsys.readouterr().err, "given", 3, 4)
    assert run_bench("--method=sgc", "--split=given") == 2
    assert says(capsys.readouterr().err, "masks")


class Own(GCN):
    """An encoder of one's own."""

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features, dim=3, layers=1)


def test_evaluate_takes_a_graph_and_an_encoder_of_ones_own(tmp_path: Path) -> None:
    evaluation = evaluate(
        Own, data(), ["ucl", "hscl"], seeds=2, splits=2, epochs=2, output=tmp_path,
        baselines=["sgc", "untrained"], progress=False,
    )  # fmt: skip
    assert {*evaluation.table["method"]} == {"ucl", "hscl", "sgc", "untrained"}
    assert evaluation.embeddings("ucl").shape == (N, 3)
    assert [type(encoder) for encoder in evaluation.encoders("hscl")] == [Own, Own]


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({"method": "spacl"}, ["spacl"]),
        ({"anchors": 5, "neighbours": (3, 3)}, ["anchors", "neighbours"]),
        ({"neighbours": (3,)}, ["neighbours", 2]),
        ({"method": "ot", "anchors": 5}, ["anchors", "Transport"]),
        ({"encoder": "gin"}, ["gin", "gcn"]),
        ({"batch_size": 64}, ["batch-size", "neighbours"]),
        ({"method": "supervised", "known_labels": 0}, ["supervised", "known-labels"]),
        ({"dataset": "mine", "split": "given"}, ["mine", "--splits"]),
        ({"encoder": "mine:Net", "layers": 3}, ["layers"]),
        ({"hops": (-1,), "method": "sgc"}, ["hops"]),
    ],
)
def test_combinations_without_a_meaning_are_refused(
    settings: dict[str, Any], facts: Sequence[object]
) -> None:
    with pytest.raises(InputError) as error:
        NodeConfig(**settings)
    assert says(str(error.value), *facts)


def of_columns(graph: Data) -> Data:
    """The augmentation that people write first: it sets columns to 0."""
    x = graph.x.clone()
    x[:, torch.rand(x.shape[1]) < 0.3] = 0
    graph.x = x
    return graph


def failing(graph: Data) -> Data:
    raise RuntimeError("not here")


def test_augmentations_of_ones_own_are_given_dense_features_and_tried_first(tmp_path: Path) -> None:
    nodes = data()
    sparse = replace(nodes, x=(nodes.x * (nodes.x > 1)).to_sparse_csr())
    settings: dict[str, Any] = {"seeds": 1, "epochs": 2, "splits": 1, "dim": 4, "baselines": []}
    where = {"output": tmp_path, "progress": False}
    evaluate("gcn", sparse, ["ucl"], augmentations=[of_columns], **settings, **where)
    views = [
        transformed_by(NodeBatch.of(graph), [of_columns], torch.Generator().manual_seed(3))
        for graph in (sparse, sparse.dense())
    ]
    assert [view.x.layout for view in views] == [torch.sparse_csr, torch.strided]
    assert views[0].x.to_dense().equal(views[1].x)
    assert (views[1].x != 0).sum() < (sparse.dense().x != 0).sum()
    trained = [*tmp_path.glob("*_seed0.json")]
    with pytest.raises(InputError, match=r"failing fails on .* nodes"):
        evaluate("gcn", sparse, ["ucl"], augmentations=[failing], **settings, **where)
    assert [*tmp_path.glob("*_seed0.json")] == trained
