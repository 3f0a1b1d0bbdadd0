"""Builds the pages of results from the committed records, and compares them with the tables kept.

Run: python benchmarks/pages.py [NAME …] [--jobs 2] [--one-of 3] [--keep]

Nothing is trained. `benchmarks/pages.yaml` has the name of each page and its command; the pages go
to docs/research/pages, which git ignores, for `mkdocs build`.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
LIST = ROOT / "benchmarks/pages.yaml"
BUILT = Path("docs/research/pages")
"""Folder of the pages, from the root of the repository, where their commands run."""
KEPT = ROOT / "benchmarks/results/pages"


def commands() -> dict[str, str]:
    """Each page's command, by its name."""
    groups: dict[str, dict[str, str]] = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    return {name: command for pages in groups.values() for name, command in pages.items()}


def build(name: str, command: str, folder: Path) -> str:
    """Build a page; its command runs in the working folder.

    Returns:
        What the command printed, if it failed; empty if it did not.
    """
    entry, *arguments = shlex.split(command)
    arguments += ["--report", str(folder / f"{name}.md"), "--report-only"]
    if entry == "bench":
        arguments += ["--json", str(folder / f"{name}.json")]
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        status = importlib.import_module(f"gcl_hard.{entry}").main(arguments)
    return printed.getvalue() if status else ""


def table(path: Path) -> list[list[str]]:
    """The lines of a CSV, or the settings of a YAML file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".csv":
        return [*csv.reader(text.splitlines())]
    settings: dict[str, Any] = yaml.safe_load(text)
    return [[key, str(value)] for key, value in settings.items()]


def pair(name: str, built: Path) -> tuple[Path, Path]:
    """The table of a built page and its kept copy; for a search, its best settings."""
    if name.startswith("search-"):
        kept = ROOT / f"configs/best/{name.removeprefix('search-')}-best.yaml"
        return built / f"{name}-best.yaml", kept
    return built / f"{name}.csv", KEPT / f"{name}.csv"


def differences(new: Path, kept: Path) -> list[str]:
    """Lines that one of two tables lacks, each with a diff's sign."""
    if not kept.exists():
        return [f"  there is no {kept}"]
    new_lines, kept_lines = (["\t".join(line) for line in table(path)] for path in (new, kept))
    lines = [f"  - {line}" for line in kept_lines if line not in new_lines]
    lines += [f"  + {line}" for line in new_lines if line not in kept_lines]
    return lines or ["  the order of lines"] * (new_lines != kept_lines)


def drawn(names: Sequence[str], one_of: int) -> list[str]:
    """Every ``one_of``-th page, the first drawn by the commit."""
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    return [*names][int(commit or "0", 16) % one_of :: one_of]


def main(arguments: Sequence[str] | None = None) -> int:
    """Build pages; the exit status is 1 if one fails, or differs from its kept copy."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="pages; all if none is named")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--one-of", type=int, default=1, metavar="N",
                        help="build every Nth page, the first drawn by the commit")  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="replace the tables that are kept")
    options, known = parser.parse_args(arguments), commands()
    if unknown := {*options.names}.difference(known):
        parser.error(f"no such page: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    names = options.names or drawn([*known], options.one_of)
    (ROOT / BUILT).mkdir(parents=True, exist_ok=True)
    failed = 0
    with ProcessPoolExecutor(options.jobs, initializer=os.chdir, initargs=(ROOT,)) as pool:
        results = {name: pool.submit(build, name, known[name], BUILT) for name in names}
        for name, result in results.items():
            try:
                lines = result.result().splitlines()
            except Exception as error:
                lines = [f"  {type(error).__name__}: {error}"]
            new, kept = pair(name, ROOT / BUILT)
            if not lines and options.keep and kept.suffix == ".csv":
                kept.write_bytes(new.read_bytes())
            lines = lines or differences(new, kept)
            missing = any(line.endswith("is not available") for line in lines)
            failed += bool(lines) and not missing
            state = (
                "not built, for want of its data" if missing else "differs" if lines else "as kept"
            )
            print("\n".join([f"{name}: {state}", *lines[:20]]), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
