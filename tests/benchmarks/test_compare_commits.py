"""Comparing two commits: what counts as equal, and how it is run."""

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
        "scores": {"accuracy": [80.0 + seed, 90.0]},
        "metric": "accuracy",
        "final_losses": [1.0 + seed / 10],
        "seconds_train": 1.0,
        "finished": "2026-11-22",
        "digest": f"{seed:016}",
    } | changed


Files = dict[str, str]


@pytest.fixture
def compared(tmp_path: Path, commits: ModuleType) -> Callable[..., Any]:
    """Compare two folders of made-up files."""

    def compare(old: Files, new: Files, *, ensemble: bool = False) -> Any:
        written = []
        for name, files in (("old", old), ("new", new)):
            for path, text in files.items():
                file = tmp_path / name / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            written.append(commits.read(tmp_path / name))
        return commits.compare(*written, ensemble=ensemble)

    return compare


def folder(*records: dict[str, Any]) -> Files:
    return {f"results/{index}.json": json.dumps(r) for index, r in enumerate(records)}


def test_times_order_and_names_of_records_are_free(compared: Callable[..., Any]) -> None:
    old = [record("ucl", 0), record("hscl", 0), record("hscl", 1)]
    new = [
        {**r, "seconds_train": 9.0, "finished": "later", "digest": "of these"}
        for r in reversed(old)
    ]
    comparison = compared(folder(*old), {"results.jsonl": "\n".join(map(json.dumps, new))})
    assert (comparison.differences, comparison.runs, comparison.largest) == ([], 3, 0.0)
    assert comparison.values == 3 * 11  # 4 settings, the seed, the metric, 3 scores, 2 lengths


def test_one_unit_in_the_last_place_is_a_difference(compared: Callable[..., Any]) -> None:
    moved = math.nextafter(1.1, 2.0)
    old, new = record("ucl", 1), record("ucl", 1, final_losses=[moved])
    comparison = compared(folder(old), folder(new))
    (difference,) = comparison.differences
    assert re.fullmatch(rf"seed 1: final_losses\.0: 1\.1 .*base\W+{moved!r} .*", difference)
    assert comparison.largest == moved - 1.1


@pytest.mark.parametrize(
    "change", [{"scores": {"accuracy": [81.0]}}, {"inner": True}, {"curve": []}]
)
def test_what_is_missing_is_a_difference(
    change: dict[str, Any], compared: Callable[..., Any]
) -> None:
    assert compared(folder(record("ucl", 1)), folder(record("ucl", 1, **change))).differences


def test_tables_are_compared_by_their_words_in_any_order(compared: Callable[..., Any]) -> None:
    old = {"page.csv": "method,epoch,mean,seconds\nucl,1,80.5,3\nucl,2,81,3\nhscl,1,,3\n"}
    new = {"page.csv": "epoch,method,mean\n1,hscl,\n1,ucl,80.5\n2,ucl,81.0\n"}
    comparison = compared(old, new)
    assert (comparison.differences, comparison.values) == ([], 9)
    (name,) = compared(old, {"page.csv": new["page.csv"].replace("81.0", "81.5")}).differences
    assert re.fullmatch(r"page\.csv\.\[ucl #2\]\.mean: 81\.0 .*base\W+81\.5 .*", name)


def ensembles(shift: float, loss: float = 0.0, seeds: int = 20) -> Files:
    return folder(
        *(
            record("ucl", seed, final_losses=[1.0 + loss],
                   scores={"accuracy": [80.0 + (-1) ** seed + shift * (seed != 3), 90.0]})
            for seed in range(seeds)
        )
    )  # fmt: skip


def test_ensembles_agree_to_a_tolerance(compared: Callable[..., Any]) -> None:
    comparison = compared(ensembles(0.0), ensembles(0.0, 5e-5), ensemble=True)
    assert comparison.differences == []
    assert comparison.largest == pytest.approx(5e-5)


def test_ensembles_whose_losses_or_accuracies_moved_differ(compared: Callable[..., Any]) -> None:
    assert len(compared(ensembles(0.0), ensembles(0.0, 2e-4), ensemble=True).differences) == 20
    (moved,) = compared(ensembles(0.0), ensembles(-1.0), ensemble=True).differences
    assert "-0.475 points" in moved
    old = [record("ucl", seed) for seed in range(20)]
    new = [record("ucl", s, scores={"accuracy": [80.0 + s + (-1) ** s, 90.0]}) for s in range(20)]
    assert compared(folder(*old), folder(*new), ensemble=True).differences == []


def test_trials_of_a_search_are_read_from_its_database(tmp_path: Path, commits: ModuleType) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(study_name="s", storage=f"sqlite:///{tmp_path}/s.db")
    study.optimize(lambda trial: trial.suggest_float("beta", 0, 1), n_trials=2)
    values = commits.read(tmp_path).values
    optuna.logging.set_verbosity(optuna.logging.INFO)
    assert values["s.db.s.length"] == 2
    for number, trial in enumerate(study.trials):
        assert values[f"s.db.s.{number}.params.beta"] == trial.params["beta"]
        assert values[f"s.db.s.{number}.values.0"] == trial.value


def test_saved_weights_are_compared_to_the_bit(tmp_path: Path, commits: ModuleType) -> None:
    import torch

    weights = torch.tensor([[1.5, -2.0], [0.1, 3.0]])
    comparisons = []
    for name, moved in (("old", weights), ("new", torch.nextafter(weights, weights + 1))):
        (tmp_path / name).mkdir()
        content = {"encoder": {"layer": moved}, "config": {}, "seed": 0, "device": name}
        torch.save(content, tmp_path / name / "a.pt")
        comparisons.append(commits.read(tmp_path / name))
    assert comparisons[0].values["a.pt.saved.encoder.layer.1.0"] == weights[1, 0].item()
    assert commits.compare(comparisons[0], comparisons[0]).differences == []
    assert len(commits.compare(*comparisons).differences) == weights.numel()


@pytest.fixture
def tree(tmp_path: Path, commits: ModuleType) -> Any:
    """A tree whose one module is ``gcl_hard.bench``; it writes what it was told."""
    module = tmp_path / "tree/gcl_hard/bench.py"
    module.parent.mkdir(parents=True)
    module.write_text("import json, sys; json.dump(sys.argv[1:], open('told.json', 'w'))")
    (module.parent / "__init__.py").touch()
    return commits.Tree(tmp_path / "tree", tmp_path / "results", tmp_path / "shared")


def test_commands_are_of_the_tree_and_have_its_folders(
    tree: Any, tmp_path: Path, plan: ModuleType
) -> None:
    command = plan.Command("a", "bench", "--config {tree}/x --data-dir {shared}/data")
    assert tree.run(command, None)["status"] == 0
    written = json.loads((tmp_path / "results/a/told.json").read_text())
    assert written == ["--config", f"{tmp_path}/tree/x", "--data-dir", f"{tmp_path}/shared/data"]


def test_scripts_run_again_when_their_text_changes(
    tree: Any, tmp_path: Path, plan: ModuleType
) -> None:
    script = tmp_path / "shared/script.py"
    script.parent.mkdir()
    command = plan.Command("a", "python", "{shared}/script.py")
    written = tmp_path / "results/a/count.json"
    for number, runs in ((1, True), (1, False), (2, True)):
        script.write_text(f"open('count.json', 'w').write('{number}')")
        written.unlink(missing_ok=True)
        assert tree.run(command, None)["status"] == 0
        assert written.exists() == runs


def test_named_commands_come_with_those_whose_results_they_read(plan: ModuleType) -> None:
    assert [c.name for c in plan.chosen(["fig4"])] == ["diagnostics", "fig4"]
    assert [c.name for c in plan.chosen([])] == list(plan.COMMANDS)


@pytest.mark.slow
def test_documented_commands_parse_in_a_process_of_their_own(shown: ModuleType) -> None:
    commands = shown.documented(ROOT)
    pages = {command.page for command in commands}
    assert {"README.md", "docs/research/theory.md"} <= pages
    assert {command.entry for command in commands} == {"bench", "tune", "figures", "pretrain"}
    assert {p.relative_to(ROOT).as_posix() for p in ROOT.glob("configs/**/*.yaml")} <= pages
    typed = [(command.entry, command.arguments) for command in commands]
    parsed = shown.configurations(ROOT, [*typed, ("bench", ["--protocl", "inductive"])])
    refused = [each["error"] for each in parsed[:-1] if "error" in each]
    # What stands for the reader's own module and files.
    absent = {"texts.jsonl", "measured", "NAME-best.yaml"}
    assert {next((name for name in absent if name in why), why) for why in refused} == absent
    assert "--protocl" in parsed[-1]["error"]
    assert parsed[0] == json.loads(json.dumps(parsed[0]))
