"""Own encoders and graphs in the protocols: from Python, from the command line, and saved."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, f1_score
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

import gcl_hard
from gcl_hard import bench, tune
from gcl_hard.commands.evaluate import Evaluation
from gcl_hard.errors import GclHardError, InputError
from gcl_hard.evaluation import svm_fold
from gcl_hard.evaluation.significance import crossed_test
from gcl_hard.experiments import runner
from gcl_hard.graphs import GIN, GraphSet, embed_graphs, load_graphs
from gcl_hard.graphs.experiment import GraphExperiment
from gcl_hard.graphs.protocols import folds_of
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from tests.experiments import rewrite
from tests.said import says

SMALL: dict[str, Any] = {"seeds": 1, "folds": 2, "epochs": 1, "threads": 1, "progress": False}
TINY = ["--epochs=1", "--folds=2", "--device=cpu", "--threads=1", "--seeds=1"]
MODULE = """
import networkx as nx
from gcl_hard.graphs import GIN

class Mine(GIN):
    def __init__(self, n_features, edge_dim=None, dim={dim}):
        super().__init__(n_features, dim, 1, edge_dim=edge_dim)

def shapes():
    graphs = [nx.cycle_graph(6 + k % 5) if k % 2 else nx.star_graph(5 + k % 4) for k in range(24)]
    for k, graph in enumerate(graphs):
        graph.graph["y"] = "cycle" if k % 2 else "star"
    return graphs

listed = shapes()
"""


class Sums(nn.Module):
    """Sums of linear node embeddings."""

    def __init__(self, n_features: int, out_dim: int = 4) -> None:
        super().__init__()
        self.out_dim = out_dim
        self.layer = nn.Linear(n_features, out_dim)

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, **_: Any
    ) -> tuple[Tensor, Tensor]:
        nodes = self.layer(x)
        graphs = nodes.new_zeros(int(batch.max()) + 1, self.out_dim)
        return nodes, graphs.index_add(0, batch, nodes)


class Noise(BaseTransform):
    """Adds noise to node features."""

    def __init__(self, by: float) -> None:
        self.by = by

    def forward(self, data: Data) -> Data:
        data.x = data.x + self.by * torch.randn_like(data.x)
        return data


class OneLayer(GIN):
    """Our encoder under a name of its own."""

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features, dim=4, layers=1)


@pytest.fixture
def mutag() -> GraphSet:
    return load_graphs("MUTAG")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with a module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    # A module that is written again within a second has the byte code of the one before.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "own_module.py").write_text(MODULE.format(dim=4))
    yield tmp_path
    sys.modules.pop("own_module", None)


def evaluated(output: Path, *arguments: Any, **settings: Any) -> Evaluation:
    runner._DATA.clear()
    return gcl_hard.evaluate(*arguments, **SMALL | {"output": output} | settings)


def accuracies(evaluation: Evaluation, method: str = "hscl") -> list[list[float]]:
    return [r.values for r in evaluation.results.records.values()
            if r.config["method"] == method]  # fmt: skip


@pytest.mark.parametrize("protocol", ["inductive", "transductive"])
def test_an_own_encoder_gets_what_the_same_built_in_one_gets(
    protocol: str, tmp_path: Path, mutag: GraphSet
) -> None:
    mine = evaluated(tmp_path, OneLayer, mutag, "hscl", protocol=protocol)
    ours = evaluated(tmp_path, "gin", mutag, "hscl", protocol=protocol, dim=4, layers=1)
    assert mine.table["mean"].tolist() == ours.table["mean"].tolist()
    np.testing.assert_allclose(mine.embeddings(), ours.embeddings(), rtol=1e-4, atol=1e-4)
    assert mine.embeddings().shape == (2 if protocol == "inductive" else 1, 188, 4)


def test_further_scores_come_of_what_runs_predicted(tmp_path: Path, mutag: GraphSet) -> None:
    first = evaluated(tmp_path, Sums, mutag, ["ucl", "hscl"], seeds=2)
    files = {path: path.read_bytes() for path in tmp_path.glob("*.json")}
    for path, content in files.items():  # a result that recorded its accuracies alone
        rewrite(path, scores={"accuracy": json.loads(content)["scores"]["accuracy"]})
    again = evaluated(tmp_path, Sums, mutag, ["ucl", "hscl"], seeds=2,
                      metric=["f1_macro", "accuracy"])  # fmt: skip
    assert {record.data["digest"] for record in again.results.records.values()}
    assert all(json.loads(path.read_text())["scores"].keys() == {"accuracy"} for path in files)
    table = again.table
    assert table["metric"].tolist() == ["f1_macro"] * 4 + ["accuracy"] * 4
    assert table["mean"].tolist()[4:] == first.table["mean"].tolist()
    records = [r for r in again.results.records.values() if r.config["method"] == "hscl"]
    expected = [
        100 * f1_score(fold.targets, fold.predicted, average="macro")
        for record in records for fold in record.tested()
    ]  # fmt: skip
    row = table[(table["method"] == "hscl") & (table["metric"] == "f1_macro")]
    assert row["mean"].item() == pytest.approx(np.mean(expected))
    tested = again.compare_items("hscl", "ucl", metric="accuracy")
    right = {
        method: [
            {
                i: f.targets[k] == f.predicted[k]
                for f in result.tested()
                for k, i in enumerate(f.items)
            }
            for run, result in sorted(again.results.records.items(), key=lambda pair: pair[0].seed)
            if run.config.method == method
        ]
        for method in ("hscl", "ucl")
    }
    rights = [[[100.0 * run[i] for i in range(188)] for run in right[m]] for m in ("hscl", "ucl")]
    assert tested == crossed_test(*rights)
    with pytest.raises(InputError, match="f1_macro"):
        again.compare_items("hscl", "ucl")
    with pytest.raises(InputError, match=r"\bauc\b"):
        again.compare_items("hscl", "ucl", metric="auc")
    confusion = again.confusion("hscl")
    y = np.concatenate([[f.targets, f.predicted] for r in records for f in r.tested()], axis=1)
    assert (confusion.to_numpy() == confusion_matrix(*y)).all()
    assert confusion.to_numpy().sum() == 2 * 188
    with pytest.raises(InputError, match=r"\brmse\b"):
        evaluated(tmp_path, Sums, mutag, "ucl", seeds=2, metric="rmse")
    with pytest.raises(InputError, match=r"f1_macro"):
        evaluated(tmp_path, Sums, mutag, "ucl", seeds=2, metric="f1_macros")


def test_results_without_predictions_are_named_and_counted(tmp_path: Path, mutag: GraphSet) -> None:
    evaluated(tmp_path, Sums, mutag, "ucl", seeds=2)
    (path, *_) = sorted(tmp_path.glob("*ucl*.json"))
    scores = {"accuracy": json.loads(path.read_text())["scores"]["accuracy"]}
    rewrite(path, scores=scores, test=None, predicted=None)
    with pytest.warns(UserWarning, match=r"\b1 of 6\b.*balanced_accuracy.*\bucl\b.*--force"):
        evaluation = evaluated(tmp_path, Sums, mutag, "ucl", seeds=2, metric="balanced_accuracy")
    assert evaluation.table.set_index("method")["seeds"]["ucl"] == 1


def test_the_table_has_the_control_that_is_named(tmp_path: Path, mutag: GraphSet) -> None:
    table = evaluated(tmp_path, Sums, mutag, "ucl", seeds=2, control="majority").table
    table = table.set_index("method")
    difference = table["mean"]["ucl"] - table["mean"]["majority"]
    assert table["vs_majority"]["ucl"] == pytest.approx(difference)
    assert table["vs_ucl"].isna().all()


def test_settings_are_chosen_by_the_first_metric(tmp_path: Path, mutag: GraphSet) -> None:
    evaluation = evaluated(
        tmp_path, Sums, mutag, "hscl", seeds=1, beta=[1, 8], select=True, baselines=[],
        metric=["balanced_accuracy", "accuracy"],
    )  # fmt: skip
    records = evaluation.results.records
    inner = {run.config.beta: record for run, record in records.items() if run.inner}
    outer = {run.config.beta: record for run, record in records.items() if not run.inner}
    by = [inner[beta].scores["balanced_accuracy"] for beta in (1, 8)]
    taken = [(1, 8)[int(b > a)] for a, b in zip(*by, strict=True)]
    table = evaluation.table[evaluation.table["kind"] == "inside"].set_index("metric")["mean"]
    for name in ("balanced_accuracy", "accuracy"):
        expected = [outer[beta].scores.get(name) or outer[beta].by(name).scores[name]
                    for beta in taken]  # fmt: skip
        assert table[name] == pytest.approx(np.mean([e[k] for k, e in enumerate(expected)]))


def test_saved_embeddings_give_the_scores_of_the_table(tmp_path: Path, mutag: GraphSet) -> None:
    """Scored fold by fold, each by the encoder that has not seen it."""
    evaluation = evaluated(tmp_path, Sums, mutag, "hscl")
    (file,) = tmp_path.glob("MUTAG_hscl*.embeddings.npz")
    with np.load(file) as saved:
        z, labels, fold_of = (saved[name] for name in ("embeddings", "labels", "fold"))
    assert (labels == mutag.y.numpy()).all()
    folds = folds_of(GraphConfig(folds=2), labels, seed=0)
    scores = [100 * svm_fold(z[k].astype(float), labels, fold, seed=0).accuracy
              for k, fold in enumerate(folds)]  # fmt: skip
    assert scores == accuracies(evaluation)[0]
    for k, fold in enumerate(folds):
        assert (fold_of[fold.test] == k).all()


def test_saved_encoders_make_the_saved_embeddings(tmp_path: Path, mutag: GraphSet) -> None:
    evaluation = evaluated(tmp_path, Sums, mutag, "hscl")
    (file,) = tmp_path.glob("*.pt")
    for k, encoder in enumerate(evaluation.encoders()):
        assert not encoder.training
        np.testing.assert_array_equal(embed_graphs(encoder, mutag), evaluation.embeddings()[k])
        again = gcl_hard.load_encoder(file, Sums, fold=k)
        np.testing.assert_array_equal(embed_graphs(again, mutag), evaluation.embeddings()[k])
    with pytest.raises(InputError, match="2 encoders"):
        gcl_hard.load_encoder(file, Sums)
    with pytest.raises(InputError, match="Sums"):
        gcl_hard.load_encoder(file)
    with (
        pytest.warns(UserWarning, match=r"code.*\.pt\b.*Sums@"),
        pytest.raises(InputError, match=r"_hscl_.*\.pt\b.*Sums:"),
    ):
        gcl_hard.load_encoder(file, lambda n: Sums(n, 5))
    with pytest.raises(InputError, match="fold 2"):
        gcl_hard.load_encoder(file, Sums, fold=2)
    file.write_bytes(b"garbage")
    with pytest.raises(InputError, match="damaged"):
        gcl_hard.load_encoder(file, Sums)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_features": 9}, "other ones"), ({"dim": 5}, "other ones"), ({}, "finite"),
    ],
)  # fmt: skip
def test_an_encoder_unlike_its_settings_is_refused(
    change: dict[str, int], words: str, tmp_path: Path, mutag: GraphSet
) -> None:
    evaluated(tmp_path, "gin", mutag, "hscl", dim=4, layers=1, baselines=())
    (whole,) = tmp_path.glob("*.pt")
    saved = torch.load(whole, weights_only=True)
    for name, value in change.items():
        (saved if name == "n_features" else saved["config"])[name] = value
    if not change:
        next(iter(saved["encoders"][0].values()))[0] = torch.nan
    torch.save(saved, tmp_path / "some.pt")
    with pytest.raises(InputError, match=rf"some\.pt\b.*\b{words}\b"):
        gcl_hard.load_encoder(tmp_path / "some.pt")


def test_files_of_other_data_are_not_taken_for_these(tmp_path: Path, mutag: GraphSet) -> None:
    first = replace(mutag[:100], name="mine")
    other = replace(mutag[50:150], name="mine")
    evaluation = evaluated(tmp_path, Sums, first, baselines=())
    kept = evaluation.embeddings()
    evaluated(tmp_path, Sums, other, baselines=())
    for read in (evaluation.embeddings, evaluation.encoders):
        with pytest.raises(InputError, match=r"mine_hscl.*graphs.*name='mine'"):
            read()
    options = {"save_embeddings": False, "save_encoder": False, "baselines": ()}
    again = evaluated(tmp_path, Sums, first, **options)
    with pytest.raises(InputError, match="save_embeddings=True"):
        again.embeddings()
    np.testing.assert_array_equal(evaluated(tmp_path, Sums, first).embeddings("hscl"), kept)


def test_finished_runs_are_not_repeated_but_changed_ones_are(
    tmp_path: Path, mutag: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[str] = []
    train = GraphExperiment.train

    def counted(self: Any, runs: Any, *rest: Any) -> Any:
        trained.extend(run.config.method for run in runs)
        return train(self, runs, *rest)

    monkeypatch.setattr(GraphExperiment, "train", counted)

    def methods(*arguments: Any, **settings: Any) -> list[str]:
        trained.clear()
        evaluated(tmp_path, *arguments, **settings)
        return sorted(trained)

    assert methods(Sums, mutag) == ["hscl", "majority", "untrained"]
    assert methods(Sums, mutag) == []
    assert methods(Sums, mutag, "ucl") == ["ucl"]
    assert methods(lambda n: Sums(n, 5), mutag) == ["hscl", "untrained"]  # other code
    changed = replace(mutag, edge_attr=torch.ones(mutag.edge_index.shape[1], 4))
    assert "hscl" in methods(Sums, changed)
    for file in tmp_path.glob("MUTAG_hscl*.pt"):
        file.unlink()
    assert methods(Sums, changed) == ["hscl"]  # for its encoders


def test_own_augmentations_are_evaluated_and_told_apart(tmp_path: Path, mutag: GraphSet) -> None:
    def embeddings(*augmentations: Any) -> list[Any]:
        evaluation = evaluated(
            tmp_path, "gin", mutag, "ucl", baselines=(), contrast="two-view",
            augmentations=augmentations, protocol="transductive",
        )  # fmt: skip
        return list(evaluation.embeddings().tolist())

    def same(data: Data) -> Data:
        return data

    jittered = [embeddings(Noise(by), "drop-nodes") for by in (0.1, 0.5)]
    assert jittered[0] != jittered[1]
    assert embeddings(same, "drop-nodes") not in jittered
    assert len(list(tmp_path.glob("*_seed0.json"))) == 3
    assert embeddings(Noise(0.1), "drop-nodes") == jittered[0]
    with pytest.raises(InputError, match="augmentation 'jitter'"):
        embeddings("jitter")


def test_a_part_of_a_known_set_is_not_taken_for_it(tmp_path: Path, mutag: GraphSet) -> None:
    part = evaluated(tmp_path, Sums, mutag[:100], protocol="transductive")
    assert set(part.table["dataset"]) == {"MUTAG-100"}
    whole = evaluated(tmp_path, Sums, "MUTAG", protocol="transductive")
    assert not {"paper", "gap"} & ({*part.table} | {*whole.table})


def test_graphs_of_networkx_with_words_for_classes(tmp_path: Path) -> None:
    graphs = [nx.cycle_graph(5 + k % 3) if k % 2 else nx.star_graph(5) for k in range(24)]
    for k, graph in enumerate(graphs):
        graph.graph["y"] = ("star", "cycle")[k % 2]
    evaluation = evaluated(tmp_path, Sums, graphs, name="shapes")
    assert set(evaluation.table["dataset"]) == {"shapes"}
    for number, graph in enumerate(graphs):
        graph.graph["y"] = number / 2
    with pytest.raises(InputError, match="floats"):
        evaluated(tmp_path, Sums, graphs)
    unlabelled = [nx.cycle_graph(5)] * 24
    with pytest.raises(InputError, match=r"custom\b.*labels.*\by\b"):
        evaluated(tmp_path, Sums, unlabelled)


@pytest.mark.parametrize(
    ("encoder", "settings", "message"),
    [
        (Sums(7), {}, r"encoder\(n_features.*Sums\("),
        (lambda: Sums(7), {}, "too many positional arguments"),
        (nn.Linear, {}, "missing a required argument"),
        (lambda n: nn.Linear(n, 3), {}, "out_dim"),
        ("no_such_module:Mine", {}, r"no_such_module:Mine\b.*\bno_such_module\b"),
        (Sums, {"layers": 2}, r"^layers\b.*\bGIN\b"),
        (Sums, {"layer": 2}, r"setting 'layer'[^,]*\blayers\b"),
        (Sums, {"select": True}, r"select\b.*several"),
        (Sums, {"features": "constant"}, r"features labels\b.*\bconstant\b.*features"),
        (Sums, {"report": "page.txt"}, "NAME.md"),
        (Sums, {"seeds": 1.5}, "seeds"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_before_training(
    encoder: Any, settings: dict[str, Any], message: str, tmp_path: Path, mutag: GraphSet
) -> None:
    with pytest.raises(InputError, match=message):
        evaluated(tmp_path, encoder, mutag, **settings)
    assert not list(tmp_path.glob("*.json"))


def test_failures_are_errors_if_nothing_is_left_and_warnings_otherwise(
    tmp_path: Path, mutag: GraphSet
) -> None:
    high = {"lr": 1e30, "epochs": 3}
    with pytest.raises(GclHardError, match=r"\blr\b.*\btemperature\b"):
        evaluated(tmp_path, OneLayer, mutag, baselines=(), **high)
    with pytest.warns(UserWarning, match=r"\blr\b.*\btemperature\b"):
        evaluation = evaluated(tmp_path, OneLayer, mutag, baselines=("majority",), **high)
    assert evaluation.table["seeds"].tolist() == [0, 1]
    with pytest.raises(InputError, match=r"MUTAG hscl .*, seed 0\b.*\bfinished\b"):
        evaluation.embeddings("hscl")
    with pytest.raises(InputError, match=r"\bmethod scl\b"):
        evaluation.embeddings("scl")


# The command


def command(*arguments: str) -> int:
    runner._DATA.clear()
    return bench.main([*TINY, *arguments])


def test_the_command_trains_an_encoder_of_a_module(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--encoder=own_module:Mine", "--dataset=own_module:shapes", "--protocol=inductive"]
    assert command(*flags, "--method=hscl,untrained", "--save-encoder", "--save-embeddings") == 0
    assert "shapes" in capsys.readouterr().out
    (file,) = Path("results").glob("shapes_hscl*.pt")
    capsys.readouterr()
    sys.modules.pop("own_module")
    with pytest.raises(InputError) as caught:
        gcl_hard.load_encoder(file)
    assert says(str(caught.value), file.name, "own_module:Mine", "encoder", "trust=True")
    assert "own_module" not in sys.modules
    assert isinstance(gcl_hard.load_encoder(file, fold=1, trust=True), GIN)
    assert says(capsys.readouterr().err, "own_module", "own_module:Mine")
    assert len(list(Path("results").glob("*.embeddings.npz"))) == 2
    assert command(*flags, "--method=hscl,untrained") == 0
    assert says(capsys.readouterr().out, 2, 2, "finished")
    sys.modules.pop("own_module")
    (folder / "own_module.py").write_text(MODULE.format(dim=5))
    assert command(*flags, "--method=hscl") == 0
    assert not says(capsys.readouterr().out, "finished")


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["--encoder=own_module:Nothing"], ["own_module", "'Nothing'"]),
        (["--encoder=broken:Mine"], ["broken", "ZeroDivisionError"]),
        (["--encoder=own_module:shapes"], ["shapes", "encoder(n_features)", "default"]),
        (["--dataset=own_module:Mine"], ["Mine()", "'n_features'", "default"]),
        (["--encoder=Mine@12345678"], ["Mine@12345678", "gcl_hard.evaluate", "--encoder"]),
        (["--encoder=own_module:Mine@12345678"], ["own_module:Mine", "changed"]),
    ],
)
def test_what_a_module_lacks_is_said(
    arguments: list[str], facts: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.py").write_text("1 / 0")
    assert command(*arguments) == 2
    err = capsys.readouterr().err
    assert says(err, *facts)
    assert "Traceback" not in err


def test_a_search_takes_an_encoder_and_graphs_of_a_module(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = folder / "space.yaml"
    space.write_text("encoder.dim: {type: int, low: 3, high: 5}\n")
    arguments = ["--encoder=own_module:Mine", "--dataset=own_module:shapes", "--method=ucl",
                 f"--space={space}", "--trials=2", "--epochs=1", "--threads=1"]  # fmt: skip
    assert tune.main(arguments) == 0
    (file,) = Path("results").glob("*_search.json")
    assert "own_module-Mine" in file.name
    capsys.readouterr()
    assert tune.main(arguments) == 0
    assert says(capsys.readouterr().out, 2, 2, "trials", "done")


# Probes of large sets


@pytest.mark.parametrize("probe", ["logistic", "nystroem"])
def test_probes_score_what_the_svm_scores(probe: str, tmp_path: Path, mutag: GraphSet) -> None:
    settings = {"baselines": (), "protocol": "transductive", "epochs": 3}
    svm = evaluated(tmp_path, "gin", mutag, **settings)
    other = evaluated(tmp_path, "gin", mutag, probe=probe, **settings)
    assert other.embeddings().tolist() == svm.embeddings().tolist()
    assert abs(other.table["mean"][0] - svm.table["mean"][0]) < 10
    with pytest.raises(InputError, match=r"\bkernel linear\b.*\bSVM\b"):
        evaluated(tmp_path, "gin", mutag, probe=probe, kernel="linear")


def test_a_faster_probe_is_offered_where_the_svm_takes_long(mutag: GraphSet) -> None:
    experiment = GraphExperiment()
    many = mutag.take(torch.arange(188).repeat(100))
    assert experiment.advice(GraphConfig(), mutag) is None
    assert "--probe nystroem" in (experiment.advice(GraphConfig(), many) or "")
    assert experiment.advice(GraphConfig(probe="logistic"), many) is None
    assert experiment.advice(GraphConfig(method="majority"), many) is None
    codes = replace(mutag, features="codes")
    assert "--encoder molecule-gin" in (experiment.advice(GraphConfig(), codes) or "")
    assert experiment.advice(GraphConfig(encoder="molecule-gin"), codes) is None


@pytest.mark.parametrize(
    "config",
    [
        GraphConfig(method="wl-oa"),
        GraphConfig(kernel="rbf+wl"),
        GraphConfig(method="supervised", encodings=("degree", "wl")),
    ],
)
def test_what_wl_starts_from_is_said_before_and_kept(config: GraphConfig, mutag: GraphSet) -> None:
    x = torch.rand(mutag.n_nodes, 2, generator=torch.Generator().manual_seed(0))
    graphs = replace(mutag, x=x, features="attributes")
    experiment = GraphExperiment()
    assert says(experiment.advice(config, graphs) or "", "MUTAG", "degrees")
    assert experiment.advice(config, mutag) is None
    assert experiment.advice(GraphConfig(method="graph-size"), graphs) is None
    assert experiment.facts(graphs)["wl_start"] == "degrees"
    assert "degrees" not in map(str, experiment.facts(mutag).values())


@pytest.mark.parametrize("domain", ["graphs", "images"])
@pytest.mark.parametrize("name", ["os:system", "os:system@0badf00d", "subprocess:getoutput"])
def test_a_file_of_someone_else_calls_nothing(domain: str, name: str, tmp_path: Path) -> None:
    proof, path = tmp_path / "called", tmp_path / "some.pt"
    config = asdict(GraphConfig() if domain == "graphs" else ImageConfig()) | {"encoder": name}
    saved = {
        "config": config, "seed": 0, "edge_dim": None, "encoders": [{}], "encoder": {}, "data": "x",
        "n_features": f"touch {proof}", "size": f"touch {proof}",
    }  # fmt: skip
    torch.save(saved, path)
    with pytest.raises(InputError) as caught:
        gcl_hard.load_encoder(path)
    assert says(str(caught.value), path.name, name.partition("@")[0])
    assert not proof.exists()


class Touch:
    """Makes a file when a pickle of it is loaded as any object may be."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("load_file", [gcl_hard.load_encoder, gcl_hard.load_pretrained])
def test_nothing_in_a_file_of_weights_is_executed(load_file: Any, tmp_path: Path) -> None:
    proof, path = tmp_path / "called", tmp_path / "some.pt"
    torch.save({"config": Touch(proof), "vocabulary": Touch(proof)}, path)
    with pytest.raises(InputError) as caught:
        load_file(path)
    assert says(str(caught.value), path.name)
    assert not proof.exists()
    torch.load(path, weights_only=False)
    assert proof.exists()


# Several encoders, and other data


def test_encoders_stand_side_by_side_each_with_its_own_settings(tmp_path: Path) -> None:
    mutag = load_graphs("MUTAG")
    options: dict[str, Any] = {
        "seeds": 1, "folds": 2, "epochs": 1, "c_grid": (1.0,), "progress": False, "threads": 1,
    }  # fmt: skip
    report = tmp_path / "page.md"
    both = gcl_hard.evaluate(
        [Sums, "gin"], mutag, "ucl", layers=2, dim=4, baselines=[], report=report,
        output=tmp_path / "both", **options,
    )  # fmt: skip
    alone = [
        gcl_hard.evaluate(Sums, mutag, "ucl", baselines=[], output=tmp_path / "own", **options),
        gcl_hard.evaluate(
            "gin", mutag, "ucl", layers=2, dim=4, baselines=[], output=tmp_path / "gin", **options
        ),
    ]
    expected = [next(iter(evaluation.results.records.values())).values for evaluation in alone]
    values = {
        run.config.encoder.partition("@")[0]: record.values
        for run, record in both.results.records.items()
    }
    assert values == dict(zip(("Sums", "gin"), expected, strict=True))
    rows = {choice.partition("@")[0] for choice in both.table["choice"]}
    assert rows >= {"Sums", "gin"}
    page = tmp_path / "own.md"
    gcl_hard.evaluate(
        Sums, mutag, "ucl", baselines=[], report=page, output=tmp_path / "own", **options
    )
    assert "readout" in report.read_text()
    assert "readout" not in page.read_text()  # of the GIN, which Sums replaces


def test_several_encoders_are_each_compared_with_their_own_control(tmp_path: Path) -> None:
    mutag = load_graphs("MUTAG")
    options: dict[str, Any] = {
        "seeds": 2, "folds": 3, "epochs": 1, "c_grid": (1.0,), "progress": False, "threads": 1,
    }  # fmt: skip
    together = gcl_hard.evaluate(
        [Sums, "gin"], mutag, ["ucl", "hucl"], layers=2, dim=4, baselines=["untrained"],
        output=tmp_path / "both", **options,
    )  # fmt: skip
    alone = gcl_hard.evaluate(
        "gin", mutag, ["ucl", "hucl"], layers=2, dim=4, baselines=["untrained"],
        output=tmp_path / "both", **options,
    )  # fmt: skip
    both, gin = (
        table.set_index(["method", "choice"])["vs_ucl"] for table in (together.table, alone.table)
    )
    assert both.notna().sum() == 2 * gin.notna().sum() == 4  # hucl and untrained of each
    for (method, choice), difference in gin.dropna().items():
        assert both[method, f"{choice} gin".strip()] == pytest.approx(difference)
    assert not any("best" in choice for choice in together.table["choice"])
    assert len({str(config) for config in together.results.configs}) == 6  # what logs name runs by
    with pytest.raises(InputError, match="encoder="):
        together.confusion("hucl")
    assert together.confusion("hucl", encoder="gin").equals(alone.confusion("hucl"))


def test_links_and_images_of_ones_own_are_evaluated(tmp_path: Path) -> None:
    options: dict[str, Any] = {"seeds": 1, "epochs": 1, "progress": False, "threads": 1}
    folder = tmp_path / "kin"
    folder.mkdir()
    rng = np.random.default_rng(0)
    pairs = rng.permutation([(a, b) for a in range(9) for b in range(9)])
    for part, rows in (("train", pairs[:60]), ("valid", pairs[60:70]), ("test", pairs[70:])):
        lines = [f"e{a}\trelated\te{b}" for a, b in rows]
        (folder / f"{part}.txt").write_text("\n".join(lines) + "\n")
    links = gcl_hard.links.read_links(folder)
    evaluation = gcl_hard.evaluate(
        ["distmult", "transe"],
        links,
        "ucl",
        dim=4,
        baselines=[],
        output=tmp_path / "links",
        **options,
    )
    assert {record.metric for record in evaluation.results.records.values()} == {"mrr"}
    assert len(evaluation.results.records) == 2
    assert len(evaluation.encoders("ucl", encoder="transe")) == 1
    assert evaluation.embeddings("ucl", encoder="transe").shape == (9, 4)
    names = [{"method": "ucl", "encoder": encoder} for encoder in ("transe", "distmult")]
    by_label = evaluation.compare_items("ucl transe", "ucl distmult")
    assert by_label == evaluation.compare_items(*names)
    distmult, transe = evaluation.table["mean"]
    assert by_label.difference == pytest.approx(transe - distmult)
    for row in ("ucl", "hucl transe"):
        with pytest.raises(InputError, match="ucl distmult; ucl transe"):
            evaluation.compare_items(row, "ucl transe")

    pixels = rng.integers(0, 256, (40, 3, 8, 8), np.uint8)
    parts = {
        name: gcl_hard.images.Split(pixels[rows], np.arange(40)[rows] % 2)
        for name, rows in (("train", slice(30)), ("test", slice(30, 40)))
    }
    images = gcl_hard.images.ImageSet("mine", parts, ("a", "b"))
    evaluation = gcl_hard.evaluate(
        "fast", images, "ucl", width=4, batch_size=10, baselines=["majority"],
        output=tmp_path / "images", **options,
    )  # fmt: skip
    scores = {
        run.config.method: record.values for run, record in evaluation.results.records.items()
    }
    assert [*scores["majority"]] == [50.0]
    assert 0 <= scores["ucl"][0] <= 100


def test_a_result_is_drawn_into_a_file(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "seeds": 2, "folds": 2, "epochs": 1, "c_grid": (1.0,), "progress": False, "threads": 1,
        "baselines": [], "output": tmp_path,
    }  # fmt: skip
    mutag = load_graphs("MUTAG")
    evaluation = gcl_hard.evaluate(OneLayer, mutag, "ucl", **options)
    for suffix, head in ((".pdf", b"%PDF"), (".svg", b"<?xml"), (".png", b"\x89PNG")):
        first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
        figure = evaluation.plot(first)
        evaluation.plot(second)
        assert first.read_bytes().startswith(head)
        assert first.read_bytes() == second.read_bytes()
    (mean,) = evaluation.table["mean"]
    lines = [line.get_xdata() for line in figure.axes[0].lines]
    assert any(len(x) == 1 and x[0] == pytest.approx(mean) for x in lines)
    with pytest.raises(InputError, match=r"\.txt"):
        evaluation.plot(tmp_path / "a.txt")
    both = gcl_hard.evaluate(
        OneLayer, mutag, "ucl", protocol=["inductive", "transductive"], **options
    )
    with pytest.raises(InputError) as error:
        both.plot()
    assert says(str(error.value), "inductive", "transductive", "protocol")
    assert both.plot(protocol="transductive") is not None
