"""``python -m gcl_hard.tune``: exit statuses, what is printed, and what is left on disk."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import torch
import yaml
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from gcl_hard import InputError, bench, study, tune
from gcl_hard.commands import tune as tune_command
from gcl_hard.evaluation import inner_holdout
from gcl_hard.experiments import hardware
from gcl_hard.experiments.trials import Candidate, Inner, Scoring, Trial
from gcl_hard.graphs import GraphSet, load_graphs, protocols, tudataset
from gcl_hard.graphs import training as ensembles
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.graphs.trials import GraphOuter
from gcl_hard.images import training as image_training
from gcl_hard.images.trials import ImageOuter
from gcl_hard.tuning import objective
from tests.experiments.tiny_images import Tiny
from tests.said import says
from tests.tuning.scoring import context, outer_accuracy

TINY = ["--epochs=1", "--layers=1", "--dim=4", "--device=cpu", "--threads=1"]
DIGITS = [
    "--dataset=digits", "--encoder=resnet18", "--subset=60", "--epochs=1", "--batch-size=30",
    "--probe-epochs=3", "--device=cpu", "--threads=1",
]  # fmt: skip


class Command:
    """The command in this process, with tiny settings and a folder of its own.

    Studies are in a file that is quickly made, unless a test is about the usual database.
    """

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.output = folder / "results"
        self.tested: list[int] = []
        self.database = False
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str, tiny: list[str] = TINY) -> int:
        """Run it; what it printed is in ``out`` and ``err``, each in one line."""
        stored = [] if self.database else [f"--storage={self.output / 'study.journal'}"]
        if any(argument.startswith("--storage") for argument in arguments):
            stored = []
        status = tune.main([*tiny, f"--output={self.output}", *stored, *arguments])
        self.out, self.err = (" ".join(text.split()) for text in self._capsys.readouterr())
        assert "Traceback" not in self.out + self.err
        return status

    @property
    def result(self) -> dict[str, Any]:
        """What the one result file holds."""
        (path,) = self.output.glob("*_search.json")
        assert self.out.endswith(f"results: {path}")
        result = json.loads(path.read_text(encoding="utf-8"))
        assert isinstance(result, dict)
        return result

    def study(self, name: str, file: str | None = None) -> optuna.Study:
        if not self.database:
            journal = JournalFileBackend(str(self.output / "study.journal"))
            return optuna.load_study(study_name=name, storage=JournalStorage(journal))
        path = self.output / (file or f"{name}.db")
        return optuna.load_study(study_name=name, storage=f"sqlite:///{path}")

    def refuses(self, *arguments: str, tiny: list[str] = TINY) -> str:
        """The message; nothing is left, and nothing was scored."""
        before = sorted(self.output.rglob("*"))
        assert self(*arguments, tiny=tiny) == 2
        assert self.err.startswith("error: ")
        assert sorted(self.output.rglob("*")) == before
        return self.err


@pytest.fixture
def command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Command]:
    """The command, offline; the trials that are scored on outer parts are noted."""
    monkeypatch.delenv("GCL_HARD_DATA", raising=False)
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(tudataset, "SITE", "http://127.0.0.1:9")
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    objective._CUT.clear()
    runner = Command(tmp_path, capsys)
    for kind in (GraphOuter, ImageOuter):

        def noted(outer: Any, candidate: Candidate, *rest: Any, real: Any = kind.score) -> Any:
            runner.tested.append(candidate.number)
            return real(outer, candidate, *rest)

        monkeypatch.setattr(kind, "score", noted)
    yield runner
    optuna.logging.set_verbosity(optuna.logging.INFO)


SCORE = r"{} \D*(\d+\.\d) %"


def numbers(shown: str) -> tuple[float, ...]:
    """The three numbers that are printed."""
    match = re.search(
        rf"{SCORE.format('inner')}.*{SCORE.format('outer')}.*optimism\D*?([+−-]?\d+\.\d) ", shown
    )
    assert match, shown
    return tuple(float(number.replace("−", "-")) for number in match.groups())


# What works


def test_a_search_prints_three_numbers_and_writes_what_it_found(command: Command) -> None:
    command.database = True
    assert command("--trials=4", "--ensemble-size=2", "--seed=3") == 0
    assert command.err == ""
    result = command.result
    inner, outer, optimism = (result[name] for name in ("inner", "outer", "optimism"))
    assert numbers(command.out) == tuple(round(x, 1) for x in (inner, outer, optimism))
    assert optimism == pytest.approx(inner - outer)
    assert result["trials"] == 4
    (finding,) = result["studies"]
    assert (finding["complete"], finding["pruned"], finding["failures"]) == (4, 0, {})
    assert finding["n_outer"] == 1
    study = command.study("MUTAG_hscl_inductive")
    assert finding["trial"] == study.best_trial.number == command.tested[0]
    assert finding["params"] == study.best_params
    assert (finding["inner"], inner) == (study.best_value, study.best_value)
    assert {trial.params["beta"] for trial in study.trials[:3]} == {1.0, 2.0, 10.0}  # the paper's
    assert {trial.params["lr"] for trial in study.trials[:3]} == {0.01}
    facts = result["facts"]
    assert (facts["dataset"], facts["method"], facts["protocol"]) == ("MUTAG", "hscl", "inductive")
    assert (facts["n_inner_test"], facts["n_outer_test"]) == (27, 57)  # 20 % of 131, 30 % of 188
    assert facts["settings"] == {"epochs": 1, "layers": 1, "dim": 4}
    assert f"trial {finding['trial']}" in command.out


def test_what_it_saves_is_a_cell_that_scores_the_same_outside(command: Command) -> None:
    assert command("--trials=2", "--seed=1") == 0
    result = command.result
    stored = result["studies"][0]["config"]
    cell = GraphConfig(**stored)
    graphs = load_graphs("MUTAG")
    ids, labels = torch.arange(188).numpy(), graphs.y.numpy()
    fold = inner_holdout(ids, labels, seed=1, fraction=0.3)
    outer = GraphOuter(graphs, fold)
    assert outer_accuracy(outer, cell, 1, threads=1) == result["outer"]


def test_the_same_command_again_scores_nothing(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("--trials=2") == 0
    first, tested = command.result, list(command.tested)
    assert len(tested) == 1
    monkeypatch.setattr(ensembles, "train_encoders", None)  # nothing is trained
    monkeypatch.setattr(hardware, "device_name", lambda device: "the device of the reader")
    for more in ((), ("--report-only",)):
        assert command("--trials=2", *more) == 0
        again = command.result
        assert command.tested == tested
        assert again == first
        assert numbers(command.out)[0] == round(first["inner"], 1)
        before = re.search(r"\bMUTAG_hscl_inductive: 2 \w+ 2\b", command.out)
        assert before or "--report-only" in more


def test_more_trials_go_on_with_the_study(command: Command) -> None:
    assert command("--trials=2", "--space=beta", "--sampler=random") == 0
    before = command.study("MUTAG_hscl_inductive").trials
    assert command("--trials=5", "--space=beta", "--sampler=random") == 0
    assert re.search(r"\bMUTAG_hscl_inductive: 2 \w+ 5\b", command.out)
    after = command.study("MUTAG_hscl_inductive").trials
    assert [trial.value for trial in after[:2]] == [trial.value for trial in before[:2]]
    assert sum(trial.state == optuna.trial.TrialState.COMPLETE for trial in after) == 5
    assert len({tuple(trial.params.items()) for trial in after}) == 5
    best = command.result["studies"][0]
    assert best["n_outer"] == len({*command.tested}) == len(command.tested)
    assert best["trial"] == command.tested[-1]


def test_outer_folds_are_studies_of_their_own_and_the_score_is_their_mean(
    command: Command,
) -> None:
    command.database = True
    assert command("--trials=2", "--outer-folds=2", "--method=ucl") == 0
    result = command.result
    names = [f"MUTAG_ucl_inductive_outer{k}of2" for k in (1, 2)]
    assert [row["study"] for row in result["studies"]] == names
    for number in ("inner", "outer", "optimism"):
        mean = sum(row[number] for row in result["studies"]) / 2
        assert result[number] == pytest.approx(mean)
    for name in names:
        study = command.study(name, "MUTAG_ucl_inductive.db")
        assert len(study.trials) == 2
        assert says(study.user_attrs["gcl_hard"]["outer"], names.index(name) + 1, "2 folds")
    assert len(command.tested) == 2
    assert numbers(command.out) == tuple(
        round(result[number], 1) for number in ("inner", "outer", "optimism")
    )


def test_the_papers_protocol_is_called_what_it_is(command: Command) -> None:
    assert command("--trials=2", "--protocol=paper", "--folds=3") == 0
    assert says(command.out, "no estimate", "chosen", "test folds")
    assert not re.search(SCORE.format("outer"), command.out)
    assert not says(command.out, "optimism")
    result = command.result
    assert (result["outer"], result["optimism"]) == (None, None)
    assert result["facts"]["n_inner_test"] == 188
    assert command.tested == []


@pytest.mark.parametrize(
    ("pruner", "more"),
    [("median", ["--epochs=3"]), ("hyperband", ["--epochs=3"]), ("wilcoxon", ["--inner-folds=5"])],
)
def test_every_pruner_works(command: Command, pruner: str, more: list[str]) -> None:
    assert command("--trials=3", f"--pruner={pruner}", "--ensemble-size=2", *more) == 0
    (finding,) = command.result["studies"]
    assert finding["complete"] + finding["pruned"] == 3
    for trial in command.study("MUTAG_hscl_inductive").trials:
        steps = [0, 1, 2, 3, 4] if pruner == "wilcoxon" else [1, 2]
        assert [*trial.intermediate_values] == steps[: len(trial.intermediate_values)]
        if trial.state == optuna.trial.TrialState.COMPLETE:
            assert len(trial.intermediate_values) == len(steps)


def test_digits_are_searched_too(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_training, "image_encoder", lambda name, stem, width: Tiny())
    assert command("--trials=2", tiny=DIGITS) == 0
    result = command.result
    assert numbers(command.out)[1] == round(result["outer"], 1)
    facts = result["facts"]
    assert (facts["dataset"], facts["protocol"]) == ("digits", "split")
    assert facts["n_inner_test"] == 12
    assert says(facts["outer"], "official", "test")
    done = command.study("digits_hscl_split").get_trials(states=[optuna.trial.TrialState.COMPLETE])
    assert [trial.params["beta"] for trial in done] == [0.1, 0.5]  # the paper's first two of five
    assert len(command.tested) == 1


# What does not


def test_without_any_score_it_counts_the_reasons(command: Command, tmp_path: Path) -> None:
    space = tmp_path / "space.yaml"
    space.write_text("space: {lr: {type: float, low: 1.0e+29, high: 1.0e+30}}", encoding="utf-8")
    assert command("--trials=3", f"--space={space}", "--epochs=3") == 1
    assert command.err.startswith("error: ")
    counts = ("0 pruned", "3 failed", "3 x diverged")
    assert says(command.err, "MUTAG_hscl_inductive", *counts, "--study-name")
    assert not list(command.output.glob("*.json"))
    assert command.tested == []
    assert command("--trials=3", f"--space={space}", "--epochs=3") == 1  # it is over
    assert len(command.study("MUTAG_hscl_inductive").trials) == 3


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--space=betta"], r"'betta'.*\bbeta\b.*\bbeta\b.*\bfull\b"),  # and all that are known
        (["--space=gone.yaml"], r"\bgone\.yaml\b.*\bfile\b"),
        (["--dataset=MUTGA"], r"\bdataset 'MUTGA'.*\bMUTAG\b.*\bMUTAG\b"),
        (
            ["--storage=mysql+nothing://x/y"],
            r"mysql\+nothing://x/y\b.*\bpostgresql://user@host/name",
        ),
        (["--storage=/dev/null/study.db"], r"/dev/null\b"),
        (["--report-only"], r"\bstudy\.journal\b.*--report-only\b"),
        (["--inner-folds=64"], r"\bclass 0\b.*\b44\b.*\b64\b"),
        (["--outer-folds=64"], r"\bclass 0\b.*\b63\b.*\b64\b"),
    ],
)
def test_bad_input_is_one_message_and_status_2(
    command: Command, arguments: list[str], named: str
) -> None:
    command.output.mkdir()
    assert re.search(named, command.refuses(*arguments))
    assert command.tested == []


def test_ctrl_c_ends_with_130_and_the_same_command_goes_on(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ensembles.train_encoders
    groups = iter(range(100))

    def train(*arguments: Any, **settings: Any) -> Iterator[Any]:
        if next(groups) == 2:
            raise KeyboardInterrupt
        yield from real(*arguments, **settings)

    monkeypatch.setattr(ensembles, "train_encoders", train)
    command.database = True
    assert command("--trials=6", "--ensemble-size=2") == 130
    assert command.err == tune_command.STOPPED
    assert command.tested == []
    assert command("--trials=6", "--ensemble-size=2") == 0
    assert command.tested == [command.result["studies"][0]["trial"]]
    (finding,) = command.result["studies"]
    assert (finding["complete"], finding["failures"]) == (6, {})
    states = [trial.state.name for trial in command.study("MUTAG_hscl_inductive").trials]
    assert sorted(states) == ["COMPLETE"] * 6 + ["FAIL"] * 2


def test_a_report_alone_of_a_search_that_was_stopped_scores_nothing_outside(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More trials may come; an outer score before the end may steer them."""
    real, groups = ensembles.train_encoders, iter(range(100))

    def train(*arguments: Any, **settings: Any) -> Iterator[Any]:
        if next(groups) == 1:
            raise KeyboardInterrupt
        yield from real(*arguments, **settings)

    monkeypatch.setattr(ensembles, "train_encoders", train)
    assert command("--trials=4", "--ensemble-size=2") == 130
    command("--trials=4", "--report-only")
    assert command.tested == []


# Other metrics


@pytest.mark.parametrize("inner_folds", [1, 3])
@pytest.mark.parametrize("metric", ["balanced_accuracy", "f1_macro"])
def test_trials_are_scored_by_the_metric_that_is_named(
    metric: str, inner_folds: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """scikit-learn's score of what each fold's SVM predicts; a study of another is another."""
    from sklearn.metrics import balanced_accuracy_score, f1_score

    named = {
        "balanced_accuracy": balanced_accuracy_score, "f1_macro": lambda *arrays: f1_score(
            *arrays, average="macro", zero_division=0
        ),
    }[metric]  # fmt: skip
    score, means = protocols.score_embeddings, list[float]()

    def scored(config: GraphConfig, graphs: GraphSet, *rest: Any, **settings: Any) -> Any:
        folds, y = score(config, graphs, *rest, **settings), graphs.y.numpy()
        means.append(float(np.mean([100 * named(y[fold.test], fold.predicted) for fold in folds])))
        return folds

    monkeypatch.setattr(protocols, "score_embeddings", scored)
    options: dict[str, Any] = {
        "trials": 2, "space": {"lr": (1e-3, 1e-1)}, "output": tmp_path, "progress": False,
        "storage": str(tmp_path / "s.journal"), "inner_folds": inner_folds, "epochs": 1,
        "layers": 1, "dim": 4, "device": "cpu", "threads": 1, "ensemble_size": 1,
    }  # fmt: skip
    result = study("MUTAG", "ucl", metric=metric, **options)
    values = [trial.values[0] for trial in result.study.trials]
    of_trials = np.reshape(means[:-1], (2, inner_folds)).mean(1)
    assert values == pytest.approx(list(of_trials))
    assert result.outer == pytest.approx(means[-1])
    assert result.findings[0].metric == metric
    with pytest.raises(InputError, match=metric):
        study("MUTAG", "ucl", **options)


def test_a_trial_whose_metric_is_not_defined_has_failed() -> None:
    scoring = Scoring(context(), Inner(metric="auc"), 0, lambda *_, **__: True)
    trial = Trial(Candidate(0, GraphConfig()), scoring, values=[50.0, float("nan")])
    scored = trial.score()
    assert scored.value is None
    assert says(str(scored.error), "auc", "not defined")


def test_a_metric_of_other_predictions_is_refused(command: Command) -> None:
    assert command("--metric=rmse", "--trials=1") == 2
    assert says(command.err, "accuracy", "f1_macro", "rmse")
    assert command("--metric=f1_makro", "--trials=1") == 2
    assert says(command.err, "f1_makro", "f1_macro")


MODULE = """
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, global_add_pool

def graphs():
    found = []
    for k in range(60):
        ring = torch.arange(5 + k % 4)
        ends = torch.stack([ring, ring.roll(1 + k % 2)])
        x = torch.rand(len(ring), 3, generator=torch.Generator().manual_seed(k))
        found.append(Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], 1), y=k % 2))
    return found

class Encoder(torch.nn.Module):
    out_dim = 4

    def __init__(self, n_features):
        super().__init__()
        self.conv = GCNConv(n_features, 4)

    def forward(self, x, edge_index, batch):
        nodes = self.conv(x, edge_index).relu()
        return nodes, global_add_pool(nodes, batch)
"""


def test_the_best_settings_of_ones_own_module_run_as_they_are_written(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own_of_tune.py").write_text(MODULE)
    module_flags = [
        "--dataset=own_of_tune:graphs",
        "--encoder=own_of_tune:Encoder",
        "--metric=f1_macro",
    ]
    flags = ["--epochs=1", "--device=cpu", "--threads=1"]
    assert command(*module_flags, "--trials=1", "--report=page.md", tiny=flags) == 0
    best = yaml.safe_load(Path("page-best.yaml").read_text())
    assert (best["dataset"], best["metric"]) == (["own_of_tune:graphs"], ["f1_macro"])
    assert says(Path("page.md").read_text(), "gcl_hard.bench --config page-best.yaml")
    bench_flags = ["--config=page-best.yaml", "--seeds=1", "--folds=2", "--json=table.json"]
    assert bench.main([*bench_flags, "--output=runs", "--threads=1"]) == 0
    (row,) = json.loads(Path("table.json").read_text())["configs"]
    assert row["config"]["beta"] == best["beta"][0]
    assert row["config"]["encoder"].startswith("own_of_tune:Encoder@")
    assert best.get("patience") is None  # supervised, if it is added, has its own
