"""Extras that messages and pages name, against those of pyproject.toml."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from gcl_hard.errors import MissingExtraError
from gcl_hard.graphs import from_smiles
from gcl_hard.images import image_encoder
from gcl_hard.tuning.storage import opened

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
NAMED = re.compile(r"(?:\bgcl[-_]hard|(?<!\w)\.)\[([a-z][a-z, ]*)\]")  # gcl-hard[a], .[a,b]
READ = {".md", ".py", ".pyi", ".j2", ".ipynb", ".yaml", ".yml"}
MISSING: dict[str, tuple[str, Callable[[], object]]] = {
    "rdkit": ("rdkit.Chem", lambda: from_smiles(["C"])),
    "timm": ("timm", lambda: image_encoder("timm:resnet18")),
    "psycopg": ("psycopg", lambda: opened("postgresql+psycopg://me@127.0.0.1/db")),
}
"""By package: the module that is imported, and what needs it."""


def extras_in(text: str) -> set[str]:
    return {extra.strip() for found in NAMED.findall(text) for extra in found.split(",")}


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


@pytest.mark.parametrize("package", MISSING)
def test_the_extra_of_a_message_installs_what_is_missing(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, use = MISSING[package]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError) as caught:
        use()
    (extra,) = extras_in(str(caught.value))
    assert package in {Requirement(line).name for line in EXTRAS[extra]}


def test_every_message_of_a_missing_extra_is_tried_here() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "gcl_hard").rglob("*.py")]
    assert sum(source.count("raise MissingExtraError(") for source in sources) == len(MISSING)
