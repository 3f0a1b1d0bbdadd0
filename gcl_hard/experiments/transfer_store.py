"""The store of transfer: one JSON file per finished run, or all of them in one .jsonl.gz."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gcl_hard.errors import InputError
from gcl_hard.io import atomic_write
from gcl_hard.runs.store import compact_lines, compact_rows, write_compact

SCHEMA_VERSION = 1
COMPACT, FORMER = "transfer.jsonl.gz", "transfer.jsonl"
"""File name of the compact form, and the one that it had."""
SHARED = ("test", "y", "cliffs", "sizes", "versions", "device", "finetuning")
"""Fields that many results have in common."""


def compact(folder: Path) -> int:
    """Move the single files of a folder into the compact form; a single file replaces a line.

    Returns:
        Results in the compact form.

    Raises:
        InputError: if a file is damaged, or the folder cannot be written to.
    """
    singles = sorted(folder.glob("[!.]*_seed*.json"))
    results = finished_results(folder) | {path.stem: result_in(path) for path in singles}
    with atomic_write(folder / COMPACT) as file:
        write_compact(file, compact_lines(results, SHARED, 2))
    (folder / FORMER).unlink(missing_ok=True)
    for path in singles:
        path.unlink()
    return len(results)


def finished_results(folder: Path) -> dict[str, dict[str, Any]]:
    """Results of the compact form of a folder, by their keys."""
    empty: dict[str, list[str]] = {"one_class": [], "few": []}

    def whole(row: dict[str, Any]) -> dict[str, Any]:
        del row["run"], row["schema_version"]
        row["score"] = {**(empty if "auc" in row["score"] else {}), **row["score"]}
        return row

    files = (folder / FORMER, folder / COMPACT)
    return {key: row for path in files for key, row in compact_rows(path, SHARED, whole)}


def result_in(path: Path) -> dict[str, Any]:
    """The result of a single file."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version = found.pop("schema_version")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is damaged: remove it, and run its command again") from error
    if version != SCHEMA_VERSION:
        raise InputError(f"{path} has schema {version}, and this version writes {SCHEMA_VERSION}")
    return found
