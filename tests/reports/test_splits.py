"""A domain of many splits that are the same for all: what tables, pages and choices say of it."""

from __future__ import annotations

import csv
import json
import math
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest
from scipy import stats

from gcl_hard import bench, experiments
from gcl_hard.commands.bench import parse_bench
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.registry import EXPERIMENTS
from gcl_hard.experiments.store import Store
from tests.said import says

N, TRAIN, VALIDATION = 100, 20, 20
N_TEST = N - TRAIN - VALIDATION
SHARE = N_TEST / TRAIN
WRONG = {"hucl": 0.02, "majority": 0.6}
"""How often a method is wrong, if not one time in five."""
ALL = ["--method=ucl,hucl,scl,majority", "--seeds=3"]


@dataclass(frozen=True)
class PointConfig(experiments.RunConfig):
    """Points, of which label-aware methods see 2 splits by one seed, and others 4 by all."""

    domain: ClassVar[str] = "points"
    baselines: ClassVar[tuple[str, ...]] = ("majority",)

    dataset: Annotated[
        Literal["line", "circle"], experiments.Setting("which", "data", several=True)
    ] = "line"
    method: Annotated[str, experiments.method_setting(("majority",))] = "ucl"
    protocol: Annotated[Literal["transductive"], experiments.Setting("all points", "split")] = (
        "transductive"
    )
    splits: Annotated[
        int | None,
        experiments.Setting(
            "number of splits", "split", least=1, read_by=("majority",),
            usual=lambda above: 2 if above["method"] in ("scl", "hscl") else 4,
        ),
    ] = None  # fmt: skip

    @property
    def n_scores(self) -> int:
        return int(self.splits)

    @property
    def encoders(self) -> int:
        return 0 if self.is_baseline else self.n_scores if self.reads_labels else 1

    @property
    def is_deterministic(self) -> bool:
        return self.is_baseline


class Points(experiments.Experiment[PointConfig, None]):
    """Predictions that depend on the method, its β, the seed and the split alone."""

    item: ClassVar[str] = "point"
    common_splits: ClassVar[bool] = True
    has_validation: ClassVar[bool] = True

    def sees_test_labels(self, config: PointConfig) -> bool:
        return False

    def can_select(self, config: PointConfig) -> bool:
        return not config.is_baseline

    def seeds_used(self, config: PointConfig, seeds: Any) -> tuple[int, ...]:
        return tuple(seeds[:1]) if config.reads_labels else super().seeds_used(config, seeds)

    def test_share(self, config: PointConfig, facts: Any) -> float:
        return float(facts["n_test"] / facts["n_train"])

    def load(self, config: PointConfig, context: Any, user_data: Any = None) -> None:
        return None

    def facts(self, data: None) -> dict[str, Any]:
        return {"n_train": TRAIN, "n_test": N_TEST, "digest": "0"}

    def train_run(self, run: Any, data: None, context: Any, report: Any) -> experiments.TrainedRun:
        return experiments.TrainedRun(run)

    def score(
        self, trained: experiments.TrainedRun, data: None, context: Any
    ) -> experiments.Scored:
        config, seed = trained.run.config, trained.run.seed
        folds = []
        for split in range(config.splits):
            items = np.sort(np.random.default_rng(split).permutation(N)[-N_TEST:])
            point = f"{config.method} {config.beta} {0 if config.is_baseline else seed} {split}"
            wrong = np.random.default_rng(zlib.crc32(point.encode())).random(N_TEST) < WRONG.get(
                config.method, 0.2
            )
            folds.append(experiments.Tested(items, items % 3, (items + wrong) % 3))
        beta = config.beta or 0.0
        validation = [
            60 + 10 * beta if split == 0 else 90 - 10 * beta for split in range(len(folds))
        ]
        return experiments.Scored(tuple(folds), validation=tuple(validation))


@pytest.fixture(autouse=True)
def domain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The domain, known while a test runs, in an empty working folder."""
    experiments.register(PointConfig, Points)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    yield
    CONFIGS.pop("points")
    EXPERIMENTS.pop("points")


def run(*arguments: str) -> int:
    return bench.main(["--domain=points", "--epochs=1", "--output=out", *arguments])


def scores(method: str) -> np.ndarray[Any, Any]:
    """Accuracies [seeds, splits] of a method, from the predictions that are stored."""
    numbers = {}
    for record in Store(Path("out")).rows():
        if record.run.config.method == method:
            numbers[record.seed] = [
                100 * float(np.mean(fold.targets == fold.predicted)) for fold in record.tested()
            ]
    return np.array([numbers[seed] for seed in sorted(numbers)])


def corrected(d: np.ndarray[Any, Any], share: float = SHARE) -> tuple[float, float, float]:
    """p, and the ends of the 95 % interval, of Nadeau and Bengio's t-test of differences [seeds,
    splits], whose splits are the same for all seeds."""
    d = d.mean(0)
    error = np.sqrt((1 / d.size + share) * d.var(ddof=1))
    p = 2 * stats.t.sf(abs(d.mean()) / error, d.size - 1)
    half = stats.t.ppf(0.975, d.size - 1) * error
    return p, d.mean() - half, d.mean() + half


def holm(raw: dict[str, float]) -> dict[str, float]:
    """p-values, corrected by Holm's steps."""
    numbers, least = {}, 0.0
    for rank, (name, p) in enumerate(sorted(raw.items(), key=lambda pair: pair[1])):
        least = max(least, min(1.0, p * (len(raw) - rank)))
        numbers[name] = least
    return numbers


def lines() -> dict[str, dict[str, str]]:
    with Path("page.csv").open(encoding="utf-8") as file:
        return {line["method"]: line for line in csv.DictReader(file)}


def test_rows_are_means_and_deviations_over_seeds_and_splits() -> None:
    assert run(*ALL, "--report=page.md") == 0
    for method, line in lines().items():
        values = scores(method)
        assert float(line["mean"]) == pytest.approx(values.mean(), abs=1e-4)
        assert float(line["std"]) == pytest.approx(values.std(ddof=1), abs=1e-4)
        assert int(line["splits"]) == values.shape[1]
        _, low, high = corrected(values)
        inside = np.clip([low, high], 0, 100)  # of what an accuracy can be
        ends = float(line["low"]), float(line["high"])
        assert ends == pytest.approx(tuple(inside), abs=1e-4)
        assert line["se_test"] == ""
    (result,) = (json.loads(p.read_text("utf-8")) for p in Path("out").glob("*ajority*.json")
                 if "seed" not in p.name)  # fmt: skip
    stds = {run_result["method"]: run_result["accuracy_std"] for run_result in result["configs"]}
    assert stds["scl"] == pytest.approx(scores("scl").std(ddof=1))


def test_a_control_is_named_on_the_command_line() -> None:
    assert run(*ALL, "--report=page.md", "--control=majority") == 0
    numbers, majority = lines(), scores("majority")
    raw = {}
    for method in ("ucl", "hucl", "scl"):
        values = scores(method)
        d = values - majority[:, : values.shape[1]]
        raw[method] = corrected(d)[0]
        assert float(numbers[method]["vs_majority"]) == pytest.approx(d.mean(), abs=1e-4)
        assert int(numbers[method]["splits_vs_majority"]) == d.shape[1]
        assert numbers[method]["vs_ucl"] == numbers[method]["vs_scl"] == ""
    for method, p in holm(raw).items():
        assert float(numbers[method]["p_majority"]) == pytest.approx(p, rel=1e-3)
    assert numbers["majority"]["vs_majority"] == ""


def test_rows_are_compared_on_the_seeds_and_splits_that_both_have() -> None:
    assert run(*ALL, "--report=page.md") == 0
    ucl, scl, majority = scores("ucl"), scores("scl"), scores("majority")
    differences = {
        ("hucl", "ucl"): scores("hucl") - ucl, ("scl", "ucl"): scl - ucl[:1, :2],
        ("majority", "ucl"): majority - ucl, ("majority", "scl"): majority[:, :2] - scl,
        ("ucl", "scl"): ucl[:1, :2] - scl,
    }  # fmt: skip
    numbers = lines()
    for (method, control), d in differences.items():
        line = numbers[method]
        assert float(line[f"vs_{control}"]) == pytest.approx(d.mean(), abs=1e-4)
        shape = int(line[f"seeds_vs_{control}"]), int(line[f"splits_vs_{control}"])
        assert shape == d.shape
    raw = {
        method: corrected(d)[0] for (method, control), d in differences.items() if control == "ucl"
    }
    expected = pytest.approx(holm(raw), rel=1e-3)
    assert {method: float(numbers[method]["p_ucl"]) for method in raw} == expected


def test_the_page_says_what_varies_in_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*ALL, "--report=page.md") == 0
    page, printed = Path("page.md").read_text("utf-8"), capsys.readouterr().out
    for text in (page, printed):
        for method, extent in (("ucl", "3 × 4"), ("scl", "1 × 2"), ("majority", "– × 4")):
            assert re.search(rf"\b{method}\b.*{extent}", text.replace("\N{NO-BREAK SPACE}", " "))
    assert "over splits" in page
    assert f"{TRAIN} training and {N_TEST} test points" in page
    assert not re.search(r"\bfolds?\b", page)
    assert "§" not in printed


def test_settings_are_chosen_on_the_first_splits_and_fixed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["--method=ucl,hucl", "--beta=1,2", "--select=true", "--seeds=2"]
    chosen = {}
    for n in (1, 4):
        assert run(*asked, f"--select-splits={n}", f"--report=page{n}.md", f"--output=out{n}") == 0
        records = [
            run_result
            for run_result in Store(Path(f"out{n}")).rows()
            if run_result.run.config.method == "hucl"
        ]
        whole = [run_result for run_result in records if run_result.seed == 1]
        assert {run_result.run.config.splits for run_result in records} == {n, 4}
        (chosen[n],) = {run_result.run.config.beta for run_result in whole}
        assert all(run_result.run.config.splits == 4 for run_result in whole)
    # The first validation score rises by β, their mean falls.
    assert chosen == {1: 2.0, 4: 1.0}
    assert "seed 0; epochs 1; splits 1" in Path("page1.md").read_text("utf-8")


def test_without_shorter_runs_every_split_chooses() -> None:
    assert run("--method=hucl", "--beta=1,2", "--select=true", "--seeds=2", "--report=page.md") == 0
    by_beta = {
        run_result.run.config.beta: run_result
        for run_result in Store(Path("out")).rows()
        if run_result.seed == 1
    }
    folds = [by_beta[beta].tested()[k] for k, beta in enumerate((2, 1, 1, 1))]
    taken = [100 * float(np.mean(fold.targets == fold.predicted)) for fold in folds]
    page = json.loads(
        next(p for p in Path("out").glob("*.json") if "seed" not in p.name).read_text()
    )
    (selection,) = page["selections"]
    assert selection["fold_accuracies"][1] == pytest.approx(taken)


def test_rows_without_common_splits_of_other_numbers_are_not_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Points, "common_splits", False)
    assert run("--method=ucl,scl", "--seeds=1") == 2
    assert says(capsys.readouterr().err, 4, "accuracy", 2, "fold")


def test_one_common_split_is_a_test_over_seeds() -> None:
    asked = ["--method=ucl,hucl,majority", "--splits=1", "--seeds=3", "--report=page.md"]
    assert run(*asked) == 0
    line = lines()["hucl"]
    ucl, hucl, majority = (scores(method)[:, 0] for method in ("ucl", "hucl", "majority"))
    raw = {"hucl": stats.ttest_rel(hucl, ucl).pvalue,
           "majority": stats.ttest_1samp(ucl, majority.item()).pvalue}  # fmt: skip
    assert float(line["p_ucl"]) == pytest.approx(holm(raw)["hucl"], rel=1e-3)
    assert float(line["std"]) == pytest.approx(scores("hucl").std(ddof=1), abs=1e-4)
    p = scores("hucl").mean() / 100
    assert float(line["se_test"]) == pytest.approx(100 * math.sqrt(p * (1 - p) / N_TEST), abs=1e-3)


def test_a_path_is_a_name_in_its_folder_where_a_domain_takes_paths(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("sub").mkdir()
    np.savez(Path("sub/line.npz"), x=[0])
    asked = ["--domain=points", "--dataset=sub/line.npz", "--method=majority"]
    assert bench.main(asked) == 2  # no such set
    assert says(capsys.readouterr().err, "sub/line.npz", "circle")
    monkeypatch.setattr(sys.modules[__name__], "from_paths", True, raising=False)
    options = parse_bench(asked)
    assert (options.configs[0].dataset, options.data_dir) == ("line", Path("sub"))


def test_a_module_says_which_data_sets_are_its_domains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys.modules[__name__], "has_dataset", lambda name, data_dir=None: name == "line",
        raising=False,
    )  # fmt: skip
    (config,) = parse_bench(["--dataset=line", "--method=ucl"]).configs
    assert type(config) is PointConfig
