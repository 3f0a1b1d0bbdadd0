"""Command lines that are refused, and search spaces for them in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gcl_hard.errors import InputError
from gcl_hard.tuning.options import parse_tune

LR = "lr: {type: float, low: 0.0001, high: 0.1, log: true}"


def refusal(*arguments: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_tune(arguments)
    return str(caught.value)


@pytest.fixture
def space_of(tmp_path: Path) -> Any:
    """Writes a search space and gives its path."""

    def write(*lines: str, grid: str = "") -> str:
        path = tmp_path / "space.yaml"
        path.write_text("space:\n" + "".join(f"  {line}\n" for line in lines) + grid, "utf-8")
        return str(path)

    return write
