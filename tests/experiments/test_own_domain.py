"""A domain that the package does not know, as docs/own-domain.md shows it, through public doors."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from gcl_hard import bench, tune
from gcl_hard.experiments.outside import import_domain
from gcl_hard.experiments.store import Store
from tests.experiments import engine_tasks as tasks
from tests.said import says

PAGE = Path(__file__).parents[2] / "docs" / "own-domain.md"
MEASURED = ["--domain=measured", "--dataset=wine", "--epochs=4", "--seeds=2", "--output=out"]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's module in the working folder."""
    (code,) = re.findall(r'^```python title="measured.py"\n(.*?)^```$', PAGE.read_text("utf-8"),
                         re.MULTILINE | re.DOTALL)  # fmt: skip
    path = tmp_path / "measured.py"
    path.write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("COLUMNS", "300")
    yield path
    sys.modules.pop("measured", None)


def command(*arguments: str, module: str = "gcl_hard.bench") -> subprocess.CompletedProcess[str]:
    """A command in the working folder, in a process that knows no more than its arguments say."""
    return subprocess.run(
        [sys.executable, "-W", "ignore::FutureWarning", "-m", module, *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def scores(folder: str = "out") -> dict[str, Any]:
    import_domain("measured")
    return {record.name: record.scores for record in Store(Path(folder)).rows()}


def test_the_page_is_a_domain_in_a_hundred_lines_of_code(module: Path) -> None:
    lines = [line for line in module.read_text("utf-8").splitlines() if line.strip()]
    assert len(lines) <= 100


def test_a_table_a_page_and_records_from_methods_and_baselines(
    module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [*MEASURED, "--method=ucl,hscl,raw", "--noise=0.1,0.5", "--report=page.md"]
    assert bench.main(asked) == 0
    output = capsys.readouterr()
    assert "measured" in output.err  # that it is imported
    records = list(Store(Path("out")).rows())
    assert len(records) == 2 * (2 * 2 + 1)  # baselines read no noise
    for record in records:
        assert record.domain == "measured"
        assert {"beta", "noise", "width", "lr"} <= record.config.keys()
        assert record.data["n_test"] == 60
        (tested,) = record.tested()
        assert record.scores["accuracy"] == [100 * np.mean(tested.predicted == tested.targets)]
    page = Path("page.md").read_text("utf-8")
    assert says(page, "hscl", "σ=0.5")
    assert "95 % intervals" in page
    assert Path("page.csv").exists()
    assert bench.main(asked) == 0
    assert says(capsys.readouterr().out, 10, 10, "finished")


def test_a_baseline_is_what_scikit_learn_says(module: Path) -> None:
    assert bench.main([*MEASURED, "--method=raw"]) == 0
    x, y = load_wine(return_X_y=True)
    train, test = train_test_split(np.arange(178), test_size=1 / 3, stratify=y, random_state=0)
    x = StandardScaler().fit(x[train]).transform(x)
    probe = LogisticRegression(max_iter=1000).fit(x[train], y[train])
    predicted = probe.predict(x[test])
    (first, *others) = scores().values()
    assert first["accuracy"] == [100 * float((predicted == y[test]).mean())]
    assert first["f1_macro"] == pytest.approx([100 * f1_score(y[test], predicted, average="macro")])
    assert all(other == first for other in others)


def test_its_settings_are_flags_and_yaml_and_are_checked(
    module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.yaml").write_text("domain: measured\nmethod: [ucl]\nnoise: [0.7]\nwidth: 5\n")
    assert bench.main(["--config=mine.yaml", "--epochs=1", "--seeds=1", "--output=out"]) == 0
    (record,) = Store(Path("out")).rows()
    assert (record.config["noise"], record.config["width"]) == (0.7, 5)
    for wrong, *facts in (
        ("--noise=-1", "noise", -1.0),
        ("--layers=2", "--layers", "graphs", "measured"),
        ("--nois=1", "--nois", "--noise"),
        ("--method=wl", "wl", "raw"),
    ):
        assert bench.main([*MEASURED, wrong]) == 2
        assert says(capsys.readouterr().err, *facts), wrong
    with pytest.raises(SystemExit):
        bench.main(["--domain=measured", "--help", "all"])
    assert "--noise" in capsys.readouterr().out


def test_settings_are_chosen_inside_the_training_part(
    module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [*MEASURED, "--method=hscl", "--beta=0.5,4", "--select=true"]
    assert bench.main(asked) == 0
    assert says(capsys.readouterr().out, "inside", "split")
    inner = [record for record in Store(Path("out")).rows() if record.inner]
    assert len(inner) == 4
    assert all(record.predicted is None for record in inner)


def test_a_search_proposes_its_settings(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [argument for argument in MEASURED if not argument.startswith("--seeds")]
    asked += ["--method=hscl", "--space=noise,lr", "--trials=3", "--report=page.md"]
    assert tune.main(asked) == 0
    result = json.loads(Path("out/wine_hscl_split_search.json").read_text("utf-8"))
    (study,) = result["studies"]
    assert {*study["params"]} == {"noise", "lr"}
    assert 0.01 <= study["params"]["noise"] <= 1
    assert 0 <= study["outer"] <= 100
    assert Path("page.md").exists()
    assert bench.main(["--config=page-best.yaml", "--output=best"]) == 0
    assert next(Store(Path("best")).rows()).config["noise"] == study["params"]["noise"]
    assert tune.main([*asked, "--trials=4"]) == 0  # it goes on
    again = json.loads(Path("out/wine_hscl_split_search.json").read_text("utf-8"))
    assert again["studies"][0]["complete"] == 4
    capsys.readouterr()
    for refused, fact in (("--pruner=median", "pruner"), ("--outer-folds=2", "--outer-folds")):
        assert tune.main([*asked, refused, "--study-name=other"]) == 2
        assert says(capsys.readouterr().err, fact), refused


def test_what_its_experiment_cannot_do_is_refused_before_training(
    module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for asked in ("--save-encoder", "--diagnostics=1"):
        assert bench.main([*MEASURED, "--method=hscl", asked]) == 2
        assert says(capsys.readouterr().err, asked.partition("=")[0], "measured")
    assert not list(Path("out").glob("*_seed*.json"))


@pytest.mark.slow
def test_test_folds_are_those_that_its_configuration_has(
    module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "of.Scored((of.Tested(part.test, data.y[part.test], probe.predict(z[part.test])),))"
    code = module.read_text("utf-8").replace(
        f"return {line}", f"return of.Scored({line}.folds * 2)"
    )
    module.write_text(code, encoding="utf-8")
    assert bench.main([*MEASURED, "--method=raw"]) == 2
    assert says(capsys.readouterr().err, 2, "n_scores", 1)
    two = 'domain: ClassVar[str] = "measured"'
    module.write_text(code.replace(two, f"{two}\n    n_scores = 2"), encoding="utf-8")
    assert command(*MEASURED, "--method=raw").returncode == 0
    refused = command("--domain=measured", "--method=ucl", module="gcl_hard.tune")
    assert says(refused.stderr, "measured", 2, "--select")


@pytest.mark.slow
@pytest.mark.exact
def test_an_edited_module_is_said_to_have_made_no_results(module: Path) -> None:
    assert command(*MEASURED, "--method=raw").returncode == 0
    module.write_text(module.read_text("utf-8").replace("1000", "2000"), encoding="utf-8")
    again = command(*MEASURED, "--method=raw")
    assert says(again.stdout + again.stderr, 2, "measured", "--force")
    assert command(*MEASURED, "--method=raw", "--force").returncode == 0
    finished = command(*MEASURED, "--method=raw")
    assert "--force" not in finished.stdout + finished.stderr


ERRORS = """
from dataclasses import dataclass
import numpy as np
from gcl_hard import experiments as of
from gcl_hard.evaluation.metrics import Metric, register_metric
from measured import MeasuredConfig, MeasuredExperiment

@dataclass(frozen=True)
class ErrorConfig(MeasuredConfig):
    domain = "errors"

class Errors(MeasuredExperiment):
    def metrics(self, config, data):
        return "errors", "accuracy"

def errors(targets, predicted):
    return float((np.asarray(targets) != np.asarray(predicted)).sum())

register_metric("errors", Metric("errors", errors, higher=False, unit="", digits=0))
of.register(ErrorConfig, Errors)
"""


def test_a_search_by_errors_finds_what_one_by_accuracies_finds(
    module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("errors.py").write_text(ERRORS, encoding="utf-8")
    asked = ["--dataset=digits", "--epochs=1", "--method=hscl", "--space=noise,beta,lr",
             "--trials=5", "--sampler=random", "--output=out"]  # fmt: skip
    results = {}
    for name in ("errors", "measured"):
        assert tune.main([*asked, f"--domain={name}", f"--study-name={name}"]) == 0
        results[name] = json.loads(Path(f"out/{name}_search.json").read_text("utf-8"))
    errors, shares = (result["studies"][0] for result in results.values())
    assert errors["params"] == shares["params"]
    n_inner, n_outer = 240, 599  # of 1797 items
    assert errors["inner"] == pytest.approx(n_inner * (1 - shares["inner"] / 100))
    assert errors["outer"] == pytest.approx(n_outer * (1 - shares["outer"] / 100))
    assert errors["optimism"] == errors["outer"] - errors["inner"]
    assert tune.main([*asked, "--domain=errors", "--study-name=measured"]) == 2
    assert bench.main(["--domain=errors", "--epochs=1", "--seeds=1", "--output=out"]) == 0
    (record,) = Store(Path("out")).rows()
    assert record.metric == "errors"
    assert record.scores["errors"] == pytest.approx([60 * (1 - record.scores["accuracy"][0] / 100)])


def test_a_module_that_does_not_register_one_domain_is_refused(
    module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty.py").write_text("")
    Path("both.py").write_text(BOTH, encoding="utf-8")
    for name in ("empty", "nowhere", "./measured.py", "both"):
        assert bench.main([f"--domain={name}"]) == 2
        assert says(capsys.readouterr().err, "--domain", name)


BOTH = """
from dataclasses import dataclass
from gcl_hard import experiments as of
from measured import MeasuredConfig, MeasuredExperiment

@dataclass(frozen=True)
class FirstConfig(MeasuredConfig):
    domain = "first"

@dataclass(frozen=True)
class SecondConfig(MeasuredConfig):
    domain = "second"

of.register(FirstConfig, MeasuredExperiment)
of.register(SecondConfig, MeasuredExperiment)
"""


@pytest.mark.slow
@pytest.mark.exact
def test_without_the_domain_its_records_are_named_counted_and_kept(module: Path) -> None:
    assert command(*MEASURED, "--method=ucl,raw").returncode == 0
    before = sorted(path.name for path in Path("out").glob("*_seed*.json"))
    compacted = command("--compact=out")
    assert compacted.returncode == 0, compacted.stderr
    assert says(compacted.stdout + compacted.stderr, 4, "measured")
    assert sorted(path.name for path in Path("out").glob("*_seed*.json")) == before
    assert not Path("out/runs.jsonl.gz").exists()
    drawn = command("geometry", "out", "-o", "figures", module="gcl_hard.figures")
    assert says(drawn.stdout + drawn.stderr, 4, "measured")
    assert command("--domain=measured", "--compact=out").returncode == 0
    lines = gzip.decompress(Path("out/runs.jsonl.gz").read_bytes()).decode().splitlines()
    assert sum('"run"' in line for line in lines) == 4
    assert not list(Path("out").glob("*_seed*.json"))
    assert command("--compact=out").returncode == 0  # unread lines stay
    again = command(*MEASURED, "--method=ucl,raw", "--report-only")
    assert says(again.stdout, 4, 4, "finished")


@pytest.mark.slow
@pytest.mark.exact
def test_workers_know_it_and_train_the_same(module: Path) -> None:
    asked = [*MEASURED, "--method=ucl,hscl,raw"]
    alone = command(*asked, "--output=alone")
    assert alone.returncode == 0, alone.stderr
    both = command(*asked, "--jobs=2")
    assert both.returncode == 0, both.stderr
    assert scores() == scores("alone")
    assert len(scores()) == 6


@pytest.mark.slow
@pytest.mark.exact
def test_a_command_that_is_killed_goes_on(module: Path) -> None:
    asked = [*MEASURED, "--method=ucl,hscl", "--seeds=4", "--epochs=60"]
    words = [sys.executable, "-W", "ignore", "-m", "gcl_hard.bench", *asked]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        tasks.wait_for(lambda: list(Path("out").glob("*_seed*.json")))
        process.send_signal(signal.SIGKILL)
    left = len(list(Path("out").glob("*_seed*.json")))
    assert command(*asked).returncode == 0
    assert command(*asked, "--output=alone").returncode == 0
    assert scores() == scores("alone")
    assert 0 < left <= len(scores()) == 8
