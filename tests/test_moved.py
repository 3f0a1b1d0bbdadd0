"""Old import paths: they give what is elsewhere now, and say where."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from packaging.version import Version

import gcl_hard
from gcl_hard import moved, study
from gcl_hard.commands.pretrain import parse_pretrain
from gcl_hard.commands.tune import parse_tune
from gcl_hard.errors import InputError
from tests.said import says

PACKAGE = Path(gcl_hard.__file__).parent
OLD = [
    ("gcl_hard.experiments.store", "Store", "gcl_hard.runs.store"),
    ("gcl_hard.experiments.store", "write_json", "gcl_hard.io"),
    ("gcl_hard.experiments.config", "GraphConfig", "gcl_hard.settings.graphs"),
    ("gcl_hard.experiments.runs", "plan", "gcl_hard.runs.plan"),
    ("gcl_hard.experiments.api", "Evaluation", "gcl_hard.commands.evaluate"),
    ("gcl_hard.cli", "parse_tune", "gcl_hard.commands.tune"),
    ("gcl_hard.tuning", "study", "gcl_hard"),
]
"""Paths of version 0.2: module, name, and the module that has it now."""


@pytest.mark.parametrize(("old", "name", "new"), OLD)
def test_an_old_path_works_and_names_the_new_one(old: str, name: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=old) as said:
        found = getattr(importlib.import_module(old), name)
    assert found is getattr(importlib.import_module(new), name)
    (first, *_) = [str(one.message) for one in said]
    assert says(first, f"{old}.{name}", f"{new}.{name}", moved.REMOVED_IN)
    assert said[0].filename == __file__


def test_what_was_never_there_is_not_there() -> None:
    for old in ("gcl_hard.experiments.store", "gcl_hard.tuning", "gcl_hard"):
        module = importlib.import_module(old)
        with pytest.raises(AttributeError, match=f"{old}.*no_such_name"):
            module.no_such_name  # noqa: B018
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("gcl_hard.experiments.no_such_module")


def test_the_version_that_drops_the_old_paths_is_not_out() -> None:
    assert Version(gcl_hard.__version__) < Version(moved.REMOVED_IN), "remove moved.py's entries"


def test_no_old_module_is_there_any_more_and_every_new_one_is() -> None:
    for old, new in moved.MODULES.items():
        assert not (PACKAGE.parent / f"{old.replace('.', '/')}.py").exists()
        for name in new:
            importlib.import_module(name)


def test_the_package_itself_uses_no_old_path() -> None:
    """Nor do its tests and benchmarks: an alias would hide that a name is gone."""
    root = PACKAGE.parent
    found = []
    for path in (
        p for part in ("gcl_hard", "tests", "benchmarks") for p in (root / part).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = {str(node.module), *(f"{node.module}.{one.name}" for one in node.names)}
            elif isinstance(node, ast.Import):
                names = {one.name for one in node.names}
            else:
                continue
            if names & moved.MODULES.keys():
                found.append(f"{path.relative_to(root)}:{node.lineno}")
    assert found == []


def test_importing_the_package_imports_no_old_or_new_module() -> None:
    code = "import sys, gcl_hard; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    new = {one for names in moved.MODULES.values() for one in names} - {"gcl_hard.io"}
    assert not {*done.stdout.split()} & (new | moved.MODULES.keys())


def test_an_old_module_is_no_reason_to_warn_before_it_is_used() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        importlib.import_module("gcl_hard.experiments.store")


def test_flags_keys_and_arguments_are_read_by_their_old_names(tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text("batch: 3\n", encoding="utf-8")
    for asked in (["--batch=3"], [f"--config={tmp_path / 'old.yaml'}"]):
        with pytest.warns(FutureWarning, match=r"batch.*ensemble_size"):
            assert parse_tune(asked) == parse_tune(["--ensemble-size=3"])
    with pytest.warns(FutureWarning, match=r"n.*subset"):
        assert parse_pretrain(["--n=30"]) == parse_pretrain(["--subset=30"])
    with pytest.raises(InputError, match=r"batch.*ensemble_size"):
        parse_tune(["--batch=3", "--ensemble-size=3"])
    with pytest.warns(FutureWarning, match="batch"), pytest.raises(InputError, match="ensemble"):
        study("MUTAG", batch=0)  # type: ignore[call-arg]
