"""Scripts that start processes, against what Python's own spawned processes do with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import gcl_hard
from tests.said import says

BEGIN = f"""
import sys
from multiprocessing import get_context
package = type(sys)("gcl_hard")  # without what the package itself imports
package.__path__ = [{str(Path(gcl_hard.__file__).parent)!r}]
sys.modules["gcl_hard"] = package
from gcl_hard.errors import check_main_guard
MAIN = "__main__"

def start():
    check_main_guard("jobs=2")
    with get_context("spawn").Pool(1) as pool:
        print(pool.map(abs, [-3]))
"""
GUARDED = {
    "if": 'if __name__ == "__main__":\n    start()\n',
    "match": 'match __name__:\n    case "__main__":\n        start()\n',
    "in a function": 'def main():\n    if __name__ == "__main__":\n        start()\nmain()\n',
}
UNGUARDED = {"nothing": "start()\n", "another name": "if MAIN:\n    start()\n"}


def run(folder: Path, text: str, *command: str, file: str = "mine.py") -> tuple[int, str, str]:
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(BEGIN + text)
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("text", GUARDED.values(), ids=GUARDED)
def test_whatever_tests_the_name_is_a_guard(text: str, tmp_path: Path) -> None:
    assert run(tmp_path, text, "mine.py") == (0, "[3]\n", "")


@pytest.mark.parametrize("text", UNGUARDED.values(), ids=UNGUARDED)
@pytest.mark.parametrize("command", [("mine.py",), ("-m", "mine")])
def test_a_script_without_one_is_refused(
    text: str, command: tuple[str, ...], tmp_path: Path
) -> None:
    code, out, error = run(tmp_path, text, *command)
    assert (code, out) == (1, "")
    assert says(error, "jobs=2", "mine.py")


@pytest.mark.parametrize("command", [("-m", "pkg"), ("pkg",)])
def test_the_main_module_of_a_package_needs_none(command: tuple[str, ...], tmp_path: Path) -> None:
    assert run(tmp_path, "start()\n", *command, file="pkg/__main__.py") == (0, "[3]\n", "")
