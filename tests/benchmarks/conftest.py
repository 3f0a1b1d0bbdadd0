"""What tests of benchmark scripts share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def bare_names() -> Iterator[None]:
    """The scripts import their neighbours by their bare names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield
