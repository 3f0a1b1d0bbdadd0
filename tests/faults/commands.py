"""Commands, executed in this process, that may refuse but not fail."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import pytest

from tests.fuzz.survival import alarm

SMALL = ["--epochs=1", "--seeds=1", "--folds=2", "--layers=1", "--dim=4", "--threads=1"]
STATUSES = (0, 1, 2)
"""Done, some runs failed, refused."""


def ended(
    capsys: pytest.CaptureFixture[str], name: str, arguments: Sequence[str], seconds: int = 60
) -> tuple[int, str]:
    """The status of a command and what it said, which names no line of code.

    A fault that no line of ours turns into a message is raised by ``main``, and fails the test.
    """
    main = importlib.import_module(f"gcl_hard.{name}").main
    with alarm(seconds):
        try:
            status = main([*arguments])
        except SystemExit as end:  # of the argument parser
            status = end.code if isinstance(end.code, int) else 1
    output = "".join(capsys.readouterr())
    assert status in STATUSES
    assert "Traceback" not in output
    assert status == 0 or output.strip(), "it has ended without a word"
    return status, output
