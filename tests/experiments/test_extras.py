"""What a missing extra says."""

from __future__ import annotations

import sys

import pytest

from gcl_hard import MissingExtraError
from gcl_hard.experiments.extras import require


@pytest.mark.parametrize(
    ("module", "python", "message"),
    [
        ("grakel", (3, 12), r"pip install 'gcl-hard\[kernels\]'"),
        ("grakel", (3, 13), r"no wheel for Python 3\.13: use 3\.11 or 3\.12"),
        ("torch_scatter", (3, 12), "pip install --no-build-isolation torch-scatter"),
    ],
)
def test_a_missing_extra_says_what_to_type(module, python, message, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=message):
        require(module, python)


def test_an_installed_module_is_returned():
    import json

    assert require("json") is json
