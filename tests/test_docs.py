"""The documentation runs: its Python blocks, the output it prints, the commands it shows."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from gcl_hard.errors import InputError
from gcl_hard.cli import parse_bench
from gcl_hard.reports.command import parse_figures
from gcl_hard.cli import parse_tune

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("README.md")])
DOORS: dict[str, Callable[[list[str]], object]] = {
    "python -m gcl_hard.bench": parse_bench,
    "python -m gcl_hard.tune": parse_tune,
    "python -m gcl_hard.figures": parse_figures,
}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUESTIONS = (
    "Which epoch is this?",
    "Is val the same as test?",
    "Is beta before or after temperature?",
    "Does it need labels?",
    "Which split of STL10?",
    "Does it see negatives from other GPUs?",
    "Why NaN?",
    "Where is the config of Table 2?",
    "How do I install scatter?",
)


class Block(NamedTuple):
    language: str
    code: str
    line: int
    output: str | None = None  # of the text block right under it


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for match in FENCE.finditer(text):
        if match[1] == "text" and found and not text[end : match.start()].strip():
            found[-1] = found[-1]._replace(output=match[2])
        else:
            found.append(Block(match[1], match[2], text[: match.start(2)].count("\n")))
        end = match.end()
    return found


def commands() -> list[tuple[str, str, str]]:
    """Every line of a console block that calls a door: page, door and arguments."""
    found = []
    for page in PAGES:
        shown = [b.code for b in blocks(page) if b.language in {"console", "bash", "sh", "shell"}]
        for line in "".join(shown).replace("\\\n", " ").splitlines():
            call = line.removeprefix("$ ").partition("#")[0].strip()
            found += [(page.name, door, call.partition(door)[2]) for door in DOORS if door in call]
    return found


RUNNABLE = [page for page in PAGES if any(b.language == "python" for b in blocks(page))]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_python_blocks_run_and_print_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "docs"}
    for block in blocks(page):
        if block.language != "python":
            continue
        printed = io.StringIO()
        padded = "\n" * block.line + block.code  # tracebacks then name the page's line
        with contextlib.redirect_stdout(printed):
            exec(compile(padded, str(page), "exec"), namespace)
        if block.output is not None:
            assert printed.getvalue() == block.output, f"{page.name}, block of line {block.line}"


def test_every_page_but_results_and_api_has_a_block_that_runs() -> None:
    without = {page.name for page in PAGES} - {page.name for page in RUNNABLE}
    made = ("results", "search-", "recipe")  # by commands
    assert {name for name in without if not name.startswith(made)} <= {"api.md", "README.md"}


def test_output_in_the_docs_stands_right_under_what_prints_it() -> None:
    shown = [block for page in PAGES if page.name != "README.md" for block in blocks(page)]
    assert all(block.language != "text" for block in shown)
    assert sum(block.output is not None for block in shown) >= 10


@pytest.mark.parametrize(("page", "door", "arguments"), commands())
def test_shown_commands_parse(
    page: str, door: str, arguments: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)  # where configs/ is
    assert DOORS[door](shlex.split(arguments))


def test_there_are_commands_and_a_wrong_flag_would_fail() -> None:
    assert len(commands()) >= 3
    with pytest.raises(InputError):
        parse_bench(["--protocl", "paper"])


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_is_answered_at_the_head_of_one_page(question: str) -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES if page.parent.name == "docs"]
    assert sum(question in text for text in texts) == 1
    assert any(f"**{question}**" in text.partition("\n## ")[0] for text in texts)


def test_every_public_name_stands_in_the_api_page() -> None:
    import gcl_hard
    from gcl_hard import evaluation, graphs, images, tuning

    shown = set(re.findall(r"^::: (\S+)$", (ROOT / "docs/api.md").read_text(), re.MULTILINE))
    constants = {"C_GRID", "K_GRID", "check_labels"}
    for module in (gcl_hard, graphs, images, evaluation, tuning):
        names = {f"{module.__name__}.{name}" for name in set(module.__all__) - constants}
        assert names <= shown, sorted(names - shown)


def test_docstrings_become_markdown() -> None:
    pytest.importorskip("griffe", reason="needs the docs extra")
    spec = importlib.util.spec_from_file_location("docstrings", ROOT / "docs/docstrings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
