"""The documentation runs: its Python blocks, the output it prints, the commands it shows."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from gcl_hard.errors import InputError
from gcl_hard.experiments.options import parse_bench

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("README.md")])
DOOR = "python -m gcl_hard.bench"
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


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(match[1], match[2], text[: match.start(2)].count("\n"))
        for match in FENCE.finditer(text)
    ]


def commands() -> list[tuple[str, str]]:
    """Every line of a console block that calls the door: page and arguments."""
    found = []
    for page in PAGES:
        shown = [b.code for b in blocks(page) if b.language in {"console", "bash", "sh", "shell"}]
        for line in "".join(shown).replace("\\\n", " ").splitlines():
            call = line.removeprefix("$ ").partition("#")[0].strip()
            if DOOR in call:
                found.append((page.name, call.partition(DOOR)[2]))
    return found


RUNNABLE = [page for page in PAGES if any(b.language == "python" for b in blocks(page))]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_python_blocks_run_and_print_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "docs"}
    found = blocks(page)
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block.language != "python":
            continue
        printed = io.StringIO()
        padded = "\n" * block.line + block.code  # tracebacks then name the page's line
        with contextlib.redirect_stdout(printed):
            exec(compile(padded, str(page), "exec"), namespace)
        if after is not None and after.language == "text":
            assert printed.getvalue() == after.code, f"{page.name}, line {after.line}"


def test_every_page_but_results_and_api_has_a_block_that_runs() -> None:
    without = {page.name for page in PAGES} - {page.name for page in RUNNABLE}
    assert without <= {"results.md", "api.md", "README.md"}


def test_expected_output_follows_the_block_that_prints_it() -> None:
    for page in PAGES:
        languages = [block.language for block in blocks(page)]
        for before, language in zip([None, *languages], languages, strict=False):
            assert language != "text" or before == "python", f"{page.name}: text after {before}"


@pytest.mark.parametrize(("page", "arguments"), commands())
def test_shown_commands_parse(page: str, arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # where configs/ is
    assert parse_bench(shlex.split(arguments)).cells


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
    from gcl_hard import evaluation, graphs

    shown = set(re.findall(r"^::: (\S+)$", (ROOT / "docs/api.md").read_text(), re.MULTILINE))
    constants = {"C_GRID", "K_GRID", "check_labels"}
    for module in (gcl_hard, graphs, evaluation):
        names = {f"{module.__name__}.{name}" for name in set(module.__all__) - constants}
        assert names <= shown, sorted(names - shown)
