"""Names that are imported when used: they are the same objects."""

from __future__ import annotations

import importlib
import pickle

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
def test_classes_can_be_pickled_by_name(package: str) -> None:
    module = importlib.import_module(package)
    classes = [v for v in map(module.__getattr__, module.__all__) if isinstance(v, type)]
    assert classes
    assert [pickle.loads(pickle.dumps(c)) for c in classes] == classes
