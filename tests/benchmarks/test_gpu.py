"""The script for machines with a GPU, with a Python that only notes what it is asked to run."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from gcl_hard.commands.bench import parse_bench
from gcl_hard.commands.pretrain import parse_pretrain
from tests.benchmarks.conftest import BENCHMARKS
from tests.said import says

NOTES = """#!/usr/bin/env bash
printf '%q ' "$@" >> "$NOTED"
echo >> "$NOTED"
exit "${STATUS:-0}"
"""
PARSERS = {
    "gcl_hard.bench": parse_bench,
    "gcl_hard.pretrain": parse_pretrain,
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the script, its Python, and data."""
    for folder in ("benchmarks/results", "data"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(BENCHMARKS / "gpu.sh", tmp_path / "benchmarks")
    python = tmp_path / "python"
    python.write_text(NOTES)
    python.chmod(0o755)
    return tmp_path


def ran(project: Path, *parts: str, status: int = 0) -> tuple[int, str, list[list[str]]]:
    """Exit status, output and the commands of some parts."""
    noted = project / "noted"
    noted.unlink(missing_ok=True)
    done = subprocess.run(
        [project / "benchmarks" / "gpu.sh", project / "data", *parts],
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(project / "python"), "NOTED": str(noted),
             "STATUS": str(status)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    commands = noted.read_text().splitlines() if noted.exists() else []
    return done.returncode, done.stdout + done.stderr, [shlex.split(line) for line in commands]


def test_every_command_of_the_script_is_one_that_the_project_has(project: Path) -> None:
    status, output, commands = ran(project)
    assert status == 0, output
    assert len(commands) >= 12
    for command in commands:
        if command[0] == "-m" and command[1] in PARSERS:
            assert PARSERS[command[1]](command[2:])
        elif command[0] != "-m":
            script = (BENCHMARKS.parent / command[0]).read_text(encoding="utf-8")
            assert all(f'"{flag}"' in script for flag in command if flag.startswith("--"))


def test_a_measurement_that_is_there_is_not_made_again(project: Path) -> None:
    (project / "data").mkdir(exist_ok=True)
    (project / "data" / "methods-gpu.csv").touch()
    assert ran(project, "methods")[2] == []
    assert len(ran(project, "losses")[2]) == 1


def test_a_part_whose_time_is_up_says_so_and_ends_the_script(project: Path) -> None:
    status, output, commands = ran(project, "cifar10", "losses", status=130)
    assert status == 130
    assert says(output, "cifar10", "time", "command")
    assert len(commands) == 1
    assert ran(project, "losses", status=1)[0] == 1


def test_an_unknown_part_is_refused(project: Path) -> None:
    status, output, commands = ran(project, "cifar11")
    assert (status, commands) == (2, [])
    assert says(output, "cifar11", "gpu.sh")


def test_what_is_scored_has_a_page_of_its_own(project: Path) -> None:
    parts = ("cifar10", "cifar100", "time-to-94", "table2", "recipe")
    commands = [command for part in parts for command in ran(project, part)[2]]
    options = [PARSERS[command[1]](command[2:]) for command in commands if command[0] == "-m"]
    pages = [option.report for option in options]
    assert None not in pages
    assert len({*pages}) == len(pages) == 6
    assert "docs/research/results.md" not in {*map(str, pages)}  # of a CPU
    configs = [config for option in options[:2] for config in option.configs]
    compiled = {getattr(config, "compile", None) for config in configs if config.encoders}
    assert compiled == {True}
