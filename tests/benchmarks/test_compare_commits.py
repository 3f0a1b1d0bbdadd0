"""Comparing two commits: what counts as equal, what is translated, and how it is run."""

from __future__ import annotations

import importlib
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.said import says

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def commits(bare_names: None) -> ModuleType:
    return importlib.import_module("compare_commits")


@pytest.fixture(scope="module")
def plan(bare_names: None) -> ModuleType:
    return importlib.import_module("compare_plan")


@pytest.fixture(scope="module")
def shown(bare_names: None) -> ModuleType:
    return importlib.import_module("documented_commands")


def record(method: str, seed: int, **changed: Any) -> dict[str, Any]:
    config = {"dataset": "MUTAG", "method": method, "protocol": "transductive", "epochs": 3}
    return {
        "config": config | changed.pop("config", {}),
        "seed": seed,
        "fold_accuracies": [80.0 + seed, 90.0],
        "final_losses": [1.0 + seed / 10],
        "seconds_train": 1.0,
        "finished": "2026-11-22",
    } | changed


Files = dict[str, str]


@pytest.fixture
def compared(tmp_path: Path, commits: ModuleType, plan: ModuleType) -> Callable[..., Any]:
    """Compare two folders of made-up files."""

    def compare(old: Files, new: Files, *renames: Any, ensemble: bool = False) -> Any:
        written = []
        for name, files, words in (("old", old, plan.Words(renames)), ("new", new, plan.Words())):
            for path, text in files.items():
                file = tmp_path / name / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            ignored = commits.VARYING | plan.Words(renames).ignored
            written.append(commits.read(tmp_path / name, words, ignored))
        return commits.compare(*written, ensemble=ensemble)

    return compare


def folder(*records: dict[str, Any]) -> Files:
    return {f"results/{index}.json": json.dumps(r) for index, r in enumerate(records)}


def test_times_order_and_names_of_records_are_free(compared: Callable[..., Any]) -> None:
    old = [record("ucl", 0), record("hscl", 0), record("hscl", 1)]
    new = [{**r, "seconds_train": 9.0, "finished": "later"} for r in reversed(old)]
    found = compared(folder(*old), {"results.jsonl": "\n".join(map(json.dumps, new))})
    assert (found.differences, found.runs, found.largest) == ([], 3, 0.0)
    assert found.values == 3 * 10  # 4 settings, the seed, 3 scores, 2 lengths


def test_one_unit_in_the_last_place_is_a_difference(compared: Callable[..., Any]) -> None:
    moved = math.nextafter(1.1, 2.0)
    old, new = record("ucl", 1), record("ucl", 1, final_losses=[moved])
    found = compared(folder(old), folder(new))
    (difference,) = found.differences
    assert re.fullmatch(rf"seed 1: final_losses\.0: 1\.1 .*base\W+{moved!r} .*", difference)
    assert found.largest == moved - 1.1


@pytest.mark.parametrize("change", [{"fold_accuracies": [81.0]}, {"inner": True}, {"curve": []}])
def test_what_is_missing_is_a_difference(
    change: dict[str, Any], compared: Callable[..., Any]
) -> None:
    assert compared(folder(record("ucl", 1)), folder(record("ucl", 1, **change))).differences


def test_a_setting_of_one_tree_alone_does_not_part_the_runs(compared: Callable[..., Any]) -> None:
    old = [record("ucl", 0), record("hscl", 0)]
    new = [record(name, 0, config={"added": True}) for name in ("ucl", "hscl")]
    found = compared(folder(*old), folder(*new))
    assert found.runs == 2
    for name, difference in zip(("hscl", "ucl"), sorted(found.differences), strict=True):
        assert says(difference, f"method={name} seed 0: config.added:", "here")


def test_tables_are_compared_by_their_words_in_any_order(compared: Callable[..., Any]) -> None:
    old = {"page.csv": "method,epoch,mean,seconds\nucl,1,80.5,3\nucl,2,81,3\nhscl,1,,3\n"}
    new = {"page.csv": "epoch,method,mean\n1,hscl,\n1,ucl,80.5\n2,ucl,81.0\n"}
    found = compared(old, new)
    assert (found.differences, found.values) == ([], 9)
    (name,) = compared(old, {"page.csv": new["page.csv"].replace("81.0", "81.5")}).differences
    assert re.fullmatch(r"page\.csv\.\[ucl #2\]\.mean: 81\.0 .*base\W+81\.5 .*", name)


def test_older_words_are_read_as_the_new_ones(
    compared: Callable[..., Any], plan: ModuleType
) -> None:
    new = folder(record("ucl", 0), record("baseline", 0)) | {
        "page.csv": "protocol,mean\ntransductive,80\n",
        "result.json": json.dumps({"configs": [{"protocol": "transductive", "mean": 80}]}),
    }
    old = {path.replace("result.", "outcome."): text for path, text in new.items()}
    for word, former in {
        "transductive": "paper", "baseline": "floor", "configs": "cells", "fold_acc": "score_acc",
        "epochs": "passes",
    }.items():  # fmt: skip
        old = {path: text.replace(word, former) for path, text in old.items()}
    newest = plan.Rename(
        "x",
        values={"protocol": {"transductive": "whole"}, "method": {"baseline": "floor"}},
        keys={"configs": "cells", "epochs": "passes"},
        paths={"result.json": "outcome.json"},
    )
    oldest = plan.Rename(
        "y",
        values={"protocol": {"whole": "paper"}},
        keys={"fold_accuracies": "score_accuracies"},
    )
    assert len(compared(old, new).differences) > 3
    found = compared(old, new, newest, oldest)
    assert (found.differences, found.runs) == ([], 2)


def test_keys_of_one_tree_alone_can_be_left_out(
    compared: Callable[..., Any], plan: ModuleType
) -> None:
    new = record("ucl", 0, config={"added": True})
    rename = plan.Rename("x", ignored=frozenset({"added"}))
    assert compared(folder(record("ucl", 0)), folder(new)).differences != []
    assert compared(folder(record("ucl", 0)), folder(new), rename).differences == []


def ensembles(shift: float, loss: float = 0.0, seeds: int = 20) -> Files:
    return folder(
        *(
            record("ucl", seed, fold_accuracies=[80.0 + (-1) ** seed + shift * (seed != 3), 90.0],
                   final_losses=[1.0 + loss])
            for seed in range(seeds)
        )
    )  # fmt: skip


def test_ensembles_agree_to_a_tolerance(compared: Callable[..., Any]) -> None:
    found = compared(ensembles(0.0), ensembles(0.0, 5e-5), ensemble=True)
    assert found.differences == []
    assert found.largest == pytest.approx(5e-5)


def test_ensembles_whose_losses_or_accuracies_moved_differ(compared: Callable[..., Any]) -> None:
    assert len(compared(ensembles(0.0), ensembles(0.0, 2e-4), ensemble=True).differences) == 20
    (moved,) = compared(ensembles(0.0), ensembles(-1.0), ensemble=True).differences
    assert says(moved, -0.475, "points", 20, "seeds")


def test_accuracies_of_an_ensemble_may_scatter(compared: Callable[..., Any]) -> None:
    old = [record("ucl", seed) for seed in range(20)]
    new = [record("ucl", s, fold_accuracies=[80.0 + s + (-1) ** s, 90.0]) for s in range(20)]
    assert compared(folder(*old), folder(*new), ensemble=True).differences == []


def test_trials_of_a_search_are_read_from_its_database(
    tmp_path: Path, commits: ModuleType, plan: ModuleType
) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(study_name="s", storage=f"sqlite:///{tmp_path}/s.db")
    study.optimize(lambda trial: trial.suggest_float("beta", 0, 1), n_trials=2)
    values = commits.read(tmp_path, plan.Words()).values
    optuna.logging.set_verbosity(optuna.logging.INFO)
    assert values["s.db.s.length"] == 2
    for number, trial in enumerate(study.trials):
        assert values[f"s.db.s.{number}.params.beta"] == trial.params["beta"]
        assert values[f"s.db.s.{number}.values.0"] == trial.value


def test_command_lines_are_translated_there_and_back(plan: ModuleType) -> None:
    words = plan.Words(
        (
            plan.Rename(
                "x",
                flags={
                    "--ensemble-size": "--members",
                    "tune --jobs": "--workers",
                    "bench --loader-workers": "--workers",
                },
                values={"protocol": {"transductive": "paper"}},
                paths={"store/runs": "results/cells"},
            ),
        )
    )
    new = ["--ensemble-size", "4", "--protocol=transductive,inductive", "--output", "store/runs/x"]
    old = ["--members", "4", "--protocol=paper,inductive", "--output", "results/cells/x"]
    assert words.arguments("bench", new) == old
    assert words.modern("bench", old) == new
    assert words.arguments("tune", ["--jobs", "2"]) == ["--workers", "2"]
    assert words.modern("tune", ["--workers", "2"]) == ["--jobs", "2"]
    assert words.modern("bench", ["--workers", "2"]) == ["--loader-workers", "2"]
    only = ["fig4", "x", "--only", "protocol=transductive"]
    assert words.arguments("figures", only) == ["fig4", "x", "--only", "protocol=paper"]


def test_options_are_translated_by_their_whole_path(plan: ModuleType) -> None:
    options = {"run.ensemble_size": "run.members", "jobs": "workers", "search": None}
    words = plan.Words((plan.Rename("x", keys={"run": "running"}, options=options),))
    read = words.read({"running": {"members": 4, "workers": 0}, "workers": 2})
    assert read == {"run": {"members": 4, "workers": 0}, "workers": 2}
    assert words.path("run.members") == "run.ensemble_size"
    assert (words.path("workers"), words.path("run.workers")) == ("jobs", "run.workers")
    assert words.incomparable == {"search"}


def test_a_rename_counts_for_trees_without_its_mark(tmp_path: Path, plan: ModuleType) -> None:
    (tmp_path / "cli.py").write_text("members = 1", encoding="utf-8")
    newest, old = plan.Rename("cli.py:ensemble"), plan.Rename("cli.py")
    assert plan.Words.of(tmp_path, [newest, old]).renames == (newest,)


def test_named_commands_come_with_those_whose_results_they_read(plan: ModuleType) -> None:
    assert [c.name for c in plan.chosen(["fig1"])] == ["epochs", "fig1"]
    assert [c.name for c in plan.chosen([])] == list(plan.COMMANDS)


def test_documented_commands_parse_in_a_process_of_their_own(shown: ModuleType) -> None:
    commands = shown.documented(ROOT)
    pages = {one.page for one in commands}
    assert {"README.md", "docs/theory.md"} <= pages
    assert {p.relative_to(ROOT).as_posix() for p in ROOT.glob("configs/**/*.yaml")} <= pages
    typed = [(one.entry, one.arguments) for one in commands]
    parsed = shown.configurations(ROOT, [*typed, ("bench", ["--protocl", "inductive"])])
    refused = {
        " ".join(one.arguments): found["error"]
        for one, found in zip(commands, parsed, strict=False)
        if "error" in found
    }
    # What stands for the reader's own folder and file.
    assert list(refused) == [
        "--dataset photos/pets --encoder fast --batch-size 8 --epochs 1",
        "--config NAME-best.yaml",
    ]
    assert "--protocl" in parsed[-1]["error"]
    assert parsed[0] == json.loads(json.dumps(parsed[0]))
