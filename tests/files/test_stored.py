"""Types of what is read again, and files of PyTorch that are not what they should be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.files.stored import conforms, load_torch, unlike

DECLARED = {"n": int, "x": list[float], "state": dict[str, Tensor], "note": str | None}
WHOLE: dict[str, Any] = {"n": 1, "x": [1, 0.5], "state": {"w": torch.ones(2)}}


@pytest.mark.parametrize(
    ("value", "kind", "right"),
    [
        (1, int, True), (True, int, False), (1, float, True), (1.5, int, False), ("1", int, False),
        (None, int | None, True), (None, int, False), (None, Any, True), (None, None, True),
        ([], list[int] | None, True), ((1,), list[int], False), ({"a": 1}, dict[str, int], True),
    ],
)  # fmt: skip
def test_types(value: object, kind: Any, right: bool) -> None:
    assert conforms(value, kind) is right


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"n": "1"}, "n"),
        ({"x": 0.5}, "x"),
        ({"state": [1]}, "state"),
        ({"note": 3}, "note"),
    ],
)
def test_the_field_is_named(change: dict[str, Any], field: str, tmp_path: Path) -> None:
    assert unlike(WHOLE | {"note": "a", "more": 1}, DECLARED) is None
    assert str(unlike(WHOLE | change, DECLARED)).startswith(field)
    lacking = {name: value for name, value in WHOLE.items() if name != field}
    assert (unlike(lacking, DECLARED) is None) == (field == "note")
    path = tmp_path / "a.pt"
    torch.save(WHOLE | change, path)
    with pytest.raises(InputError, match=r"a\.pt"):
        load_torch(path, "a toy", DECLARED)


@pytest.mark.parametrize("content", [[1], "word", 3, None])
def test_what_is_no_dictionary_is_refused(content: object, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"a\.pt"):
        load_torch(tmp_path / "a.pt", "a toy", {})
