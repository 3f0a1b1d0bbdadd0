"""SIGTERM does what Ctrl-C does, also where a shell has its background jobs ignore Ctrl-C."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, time
from gcl_hard.core.signals import terminated_as_interrupted
with terminated_as_interrupted() as termination:
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(9)
    except KeyboardInterrupt:
        print("stopped", termination.came)
"""


@pytest.mark.parametrize("start", ["", "trap '' INT; "])
def test_sigterm_stops_whether_or_not_ctrl_c_is_ignored(start: str) -> None:
    command = f'{start}exec "{sys.executable}" -c "$0"'
    finished = subprocess.run(
        ["/bin/sh", "-c", command, PROGRAM], capture_output=True, text=True, check=True
    )
    assert finished.stdout == "stopped True\n"
