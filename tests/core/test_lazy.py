"""Names that are imported when used: they are the same objects."""

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
    with pytest.raises(AttributeError, match=f"'{package}'.*'Nothing'"):
        _ = module.Nothing


@pytest.mark.parametrize("package", PACKAGES)
def test_names_are_listed_before_they_are_used(package: str) -> None:
    """As completion in a shell and `help` list them, in a process that has used none."""
    program = (
        f"import gcl_hard; print({{*gcl_hard.{package.removeprefix('gcl_hard.')}.__all__}} "
        f"<= {{*dir({package})}}, {{*gcl_hard.__all__}} <= {{*dir(gcl_hard)}})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=True)  # fmt: skip
    assert done.stdout.split() == ["True", "True"]


@pytest.mark.parametrize("package", PACKAGES)
def test_classes_can_be_pickled_by_name(package: str) -> None:
    module = importlib.import_module(package)
    classes = [v for v in map(module.__getattr__, module.__all__) if isinstance(v, type)]
    assert classes
    assert [pickle.loads(pickle.dumps(c)) for c in classes] == classes
