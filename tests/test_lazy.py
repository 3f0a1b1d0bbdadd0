"""Names that are imported when used: the same objects, and only what is needed."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys

import pytest

PACKAGES = ("gcl_hard.graphs", "gcl_hard.evaluation")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        if getattr(value, "__module__", "").startswith("gcl_hard"):
            assert value.__module__.startswith(f"{package}."), name
            assert getattr(importlib.import_module(value.__module__), name) is value
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Nothing'"):
        _ = module.Nothing


@pytest.mark.parametrize("package", PACKAGES)
def test_classes_can_be_pickled_by_name(package: str) -> None:
    module = importlib.import_module(package)
    classes = [v for v in map(module.__getattr__, module.__all__) if isinstance(v, type)]
    assert classes
    assert [pickle.loads(pickle.dumps(c)) for c in classes] == classes


@pytest.mark.parametrize(
    ("line", "unwanted"),
    [
        ("from gcl_hard.graphs import load", "torch_geometric"),
        ("from gcl_hard.evaluation import corrected_t_test, wilcoxon", "sklearn"),
        ("from gcl_hard.evaluation import corrected_t_test, wilcoxon", "scipy.stats"),
        ("import gcl_hard.experiments.bench", "sklearn"),
        ("import gcl_hard.experiments.bench", "torch_geometric"),
    ],
)
def test_what_is_not_used_is_not_imported(line: str, unwanted: str) -> None:
    code = f"{line}\nimport sys; print({unwanted!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
