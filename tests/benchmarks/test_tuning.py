from __future__ import annotations

import csv
import importlib
import shutil
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from gcl_hard import tune
from gcl_hard.commands.tune import parse_tune
from gcl_hard.experiments.trials import Candidate, TrialGroup
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.tuning.options import TuneOptions


@pytest.fixture(scope="module")
def script(bare_names: None) -> ModuleType:
    return importlib.import_module("tuning")


@pytest.fixture(scope="module")
def cases(bare_names: None) -> ModuleType:
    return importlib.import_module("tuning_cases")


@pytest.mark.slow
def test_quick_run_writes_all_rows(
    script: ModuleType,
    cases: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[TuneOptions] = []
    kept = tmp_path / "kept.json"

    def command(arguments: list[str]) -> None:
        """In this process: others take seconds to start."""
        options = parse_tune(arguments)
        asked.append(options)
        if options.jobs == 1:
            assert tune.main(arguments) == 0
            (written,) = options.output.glob("*.json")
            shutil.copy(written, kept)
        else:
            shutil.copy(kept, options.output / "as_alone_search.json")

    monkeypatch.setattr(cases, "command", command)
    out = tmp_path / "tuning.csv"
    script.main(["--quick", f"--out={out}"])
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert ",".join(rows[0]) == "benchmark,case,metric,median,min,max,unit,pairs"
    rows_by_metric = {(row["case"], row["metric"]): row for row in rows}
    expected = {
        ("MUTAG hscl", "one by one"): "trials an hour",
        ("MUTAG hscl", "batched"): "trials an hour",
        ("MUTAG hscl", "batched, two threads"): "trials an hour",
        ("MUTAG hscl", "one by one / batched"): "x",
        ("MUTAG hscl", "one by one / batched, two threads"): "x",
        ("MUTAG hscl", "trials at once"): "trials",
        ("MUTAG hscl", "scoring, batched"): "%",
    }
    for measure in ("command", "trials"):
        one_job, two_jobs = f"{measure}, one job", f"{measure}, two jobs"
        expected |= {("MUTAG hscl", name): "s" for name in (one_job, two_jobs)}
        expected["MUTAG hscl", f"{one_job} / {two_jobs}"] = "x"
    for storage in ("SQLite", "journal"):
        for batch in (1, 8):
            for kind in ("a trial", "a trial, 5 reports"):
                expected[f"{storage}, batch {batch}", kind] = "ms"
                expected[f"{storage}, batch {batch}", f"{kind}, of 10 s"] = "%"
    assert {key: row["unit"] for key, row in rows_by_metric.items()} == expected
    assert all(float(row["median"]) > 0 and row["pairs"] == "1" for row in rows)
    assert float(rows_by_metric["MUTAG hscl", "trials at once"]["median"]) == 2
    assert float(rows_by_metric["MUTAG hscl", "scoring, batched"]["median"]) < 100
    share = rows_by_metric["SQLite, batch 8", "a trial, of 10 s"]  # 1 ms is 0.01 % of it
    trial_row = rows_by_metric["SQLite, batch 8", "a trial"]
    assert float(share["median"]) == pytest.approx(float(trial_row["median"]) / 100, rel=1e-4)
    for (case, metric), row in rows_by_metric.items():
        slow, slash, fast = metric.partition(" / ")
        if slash:
            ratio = float(rows_by_metric[case, slow]["median"]) / float(
                rows_by_metric[case, fast]["median"]
            )
            if slow == "one by one":  # trials an hour, not seconds
                ratio = 1 / ratio
            assert float(row["median"]) == pytest.approx(ratio, rel=1e-4)
    assert [(options.jobs, options.threads, options.trials) for options in asked] == [
        (1, 1, 4),
        (2, 2, 4),
    ]
    assert asked[0].output != asked[1].output
    printed = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("| MUTAG hscl | one by one / batched | ") for line in printed) == 1


def test_both_contenders_train_the_same_settings_to_the_same_scores(
    script: ModuleType, cases: ModuleType
) -> None:
    case = cases.Case("MUTAG", trials=5, epochs=1)
    # Rounding differs with the number of threads, and that with the batch.
    single, batched = (
        cases.whole_study(case, "--threads=1", f"--ensemble-size={n}") for n in (1, 4)
    )
    assert (single.batch, batched.batch) == (1, 4)
    assert len(single.trials) == 5
    assert single.scores == batched.scores
    script.check_same(single, batched)
    with pytest.raises(AssertionError, match="settings"):
        script.check_same(single, replace(batched, trials=batched.trials | {4: single.trials[3]}))


def test_scoring_is_clocked_and_what_it_found_is_handed_on(
    cases: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def score(*args: object) -> tuple[object, ...]:
        time.sleep(0.02)
        return args

    monkeypatch.setattr(TrialGroup, "values", score)
    spent: list[float] = []
    begin = time.perf_counter()
    with cases.clocked_scoring(spent):
        values = [TrialGroup.values(n, 3) for n in (1, 2)]  # type: ignore[arg-type]
    assert values == [(1, 3), (2, 3)]
    assert TrialGroup.values is score
    assert len(spent) == 2
    assert all(seconds >= 0.02 for seconds in spent)
    assert sum(spent) <= time.perf_counter() - begin


@pytest.mark.parametrize(("reports", "steps"), [(0, []), (5, [10, 20, 30, 40, 50])])
def test_trials_without_work_report_as_often_whatever_the_pruner_says(
    cases: ModuleType, reports: int, steps: list[int]
) -> None:
    reported: list[tuple[object, ...]] = []

    def report(*values: object, wait: bool = False) -> bool:
        reported.append(values)
        return False

    tried = [Candidate(n, GraphConfig(lr=lr)) for n, lr in ((7, 0.1), (9, 0.01))]
    cases.no_work(50, reports, None, None, 0, None, tried, report=report)
    scores = [values for values in reported if values[0] == "scored"]
    assert [values[2] for values in scores] == [7, 9]
    assert scores[0][3] != scores[1][3]
    between = [values[3] for values in reported if values[0] == "intermediate"]
    assert between == [step for step in steps for _ in tried]
    shares = [values[3] for values in reported if values[0] == "progress"]
    assert len(shares) == 100
    assert shares[-1] == 1


def test_a_search_that_lost_a_trial_is_no_timing(
    cases: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loses(arguments: list[str]) -> None:
        (output,) = (flag.partition("=")[2] for flag in arguments if flag.startswith("--output"))
        content = '{"studies": [{"complete": 2, "pruned": 1, "seconds": 1.0}]}'
        (Path(output) / "a_search.json").write_text(content, encoding="utf-8")

    monkeypatch.setattr(cases, "command", loses)
    assert cases.whole_search(cases.Case("MUTAG", trials=3), 2)[1] == 1.0
    with pytest.raises(AssertionError, match=r"\b2 jobs\b.*\b3\b.*\b4\b"):
        cases.whole_search(cases.Case("MUTAG", trials=4), 2)
