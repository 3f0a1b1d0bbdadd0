"""The extras of pyproject.toml: what each brings, what runs with it alone, and who names it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from datetime import date
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gcl_hard.core.extras import EXTRAS as MODULES

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CORE: list[str] = PROJECT["dependencies"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
USED = sorted(EXTRAS.keys() - {"all", "dev", "docs"})
"""The extras that bring what the package imports."""
COMPILED = "scatter"
APART = {COMPILED, "minilm"}
"""Extras that `all` leaves out."""
NAMED = re.compile(r"(?:\bgcl[-_]hard|(?<!\w)\.)\[([a-z][a-z, ]*)\]")  # gcl-hard[a], .[a,b]
READ = {".md", ".py", ".pyi", ".j2", ".ipynb", ".yaml", ".yml"}
ALONE = {
    "core": "", **{name: name for name in USED if name != COMPILED},
    "graphs_bench": "graphs,bench", "images_bench": "images,bench",
}  # fmt: skip
"""By script of tests/extras: the extras that it is to run with, and nothing else."""


def extras_in(text: str) -> set[str]:
    return {extra.strip() for names in NAMED.findall(text) for extra in names.split(",")}


def requirements(lines: Iterable[str]) -> list[Requirement]:
    """The requirements of lines, with those of our own extras in their place."""
    wanted = list[Requirement]()
    for requirement in map(Requirement, lines):
        if canonicalize_name(requirement.name) == "gcl-hard":
            wanted += requirements(line for extra in requirement.extras for line in EXTRAS[extra])
        else:
            wanted.append(requirement)
    return wanted


def packages(lines: Iterable[str]) -> set[str]:
    """The packages of lines of requirements."""
    return {canonicalize_name(requirement.name) for requirement in requirements(lines)}


def needed_by(wanted: Iterable[Requirement]) -> set[str]:
    """The installed packages among some, and those that they need in turn."""
    needed, seen = set[str](), set[tuple[str, str]]()
    left = [
        (canonicalize_name(requirement.name), extra)
        for requirement in wanted
        for extra in ("", *requirement.extras)
    ]
    while left:
        name, extra = left.pop()
        if (name, extra) not in seen:
            seen.add((name, extra))
            with contextlib.suppress(metadata.PackageNotFoundError):
                wanted = [Requirement(line) for line in metadata.requires(name) or ()]
                needed.add(name)
                left += [
                    (canonicalize_name(requirement.name), further)
                    for requirement in wanted
                    if not requirement.marker or requirement.marker.evaluate({"extra": extra})
                    for further in ("", *requirement.extras)
                ]
    return needed


def installed_beside(extras: str) -> set[str]:
    """What `pip install '.[extras]'` would bring, with all that it needs."""
    lines = [line for extra in filter(None, extras.split(",")) for line in EXTRAS[extra]]
    return needed_by(requirements([*CORE, *lines]))


def linked(names: Iterable[str], folder: Path) -> None:
    """Fill a folder with links to packages, as if they alone were installed there."""
    for name in names:
        for file in metadata.files(name) or ():
            place = folder / file.parts[0]
            if file.parts[0] not in ("..", "__pycache__") and not place.is_symlink():
                place.symlink_to(metadata.distribution(name).locate_file(file.parts[0]))


def constraints() -> str:
    """The versions of `all` that are installed here, as lines of a file for pip's `-c`."""
    names = sorted(installed_beside("all"))
    return "\n".join([
        "# Versions that were tested together: pip install -e '.[all]' -c configs/constraints.txt",
        "# Written by: python -m tests.test_extras > configs/constraints.txt",
        f"# {date.today()}, Python {'.'.join(map(str, sys.version_info[:2]))}, {sys.platform}",
        *(f"{name}=={metadata.version(name)}" for name in names), "",
    ])  # fmt: skip


def test_constraints_name_what_all_brings_within_its_bounds() -> None:
    lines = (ROOT / "configs" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert any(re.match(r"# \d{4}-\d\d-\d\d, Python 3", line) for line in lines)
    stated = dict(line.split("==") for line in lines if not line.startswith("#"))
    for requirement in requirements([*CORE, *EXTRAS["all"]]):
        assert requirement.specifier.contains(stated[canonicalize_name(requirement.name)]), (
            requirement
        )


def test_the_core_is_torch_and_numpy() -> None:
    assert packages(CORE) == {"torch", "numpy"}


def test_extras_bring_the_modules_that_the_package_looks_for() -> None:
    assert {*MODULES} == {*USED}
    packages_of = metadata.packages_distributions()
    for extra in {*USED} - {COMPILED}:
        by_module = [
            {canonicalize_name(package) for package in packages_of[name]} for name in MODULES[extra]
        ]
        brought = packages(EXTRAS[extra])
        assert brought <= set().union(*by_module), extra
        assert all(packages_of_module & brought for packages_of_module in by_module), extra


def test_all_is_every_extra_but_those_apart_and_dev_has_it() -> None:
    assert packages(EXTRAS["all"]) == packages(
        line for name in USED if name not in APART for line in EXTRAS[name]
    )
    assert packages(EXTRAS["all"]) < packages(EXTRAS["dev"])


@pytest.mark.slow
@pytest.mark.parametrize("script", ALONE)
def test_an_extra_is_enough_for_what_it_is_for(script: str, tmp_path: Path) -> None:
    """In a process that finds PyTorch, NumPy and what the extra brings, and nothing else."""
    # dill, of datasets, takes modules outside of a folder of this name for the user's own
    packages, work = tmp_path / "site-packages", tmp_path / "work"
    packages.mkdir()
    work.mkdir()
    linked(installed_beside(ALONE[script]), packages)
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-W", "ignore", ROOT / "tests" / "extras" / f"{script}.py"],
        capture_output=True, text=True, check=False, cwd=work,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{packages}{os.pathsep}{ROOT}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_pages_and_messages_name_the_extras_there_are() -> None:
    files = [*ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "mkdocs.yml"]
    for folder in ("gcl_hard", "docs", "benchmarks", "configs"):
        files += [p for p in (ROOT / folder).rglob("*") if p.suffix in READ]
    named = {
        (extra, str(file.relative_to(ROOT)))
        for file in files
        for extra in extras_in(file.read_text(encoding="utf-8"))
    }
    assert {(extra, file) for extra, file in named if extra not in EXTRAS} == set()
    assert {extra for extra, _ in named} == set(EXTRAS)


if __name__ == "__main__":
    print(constraints(), end="")
