"""Reword the prose of the package, and see which tests fail: those depend on the wording.

    python benchmarks/reword.py [TESTS ...]

In a copy of the checkout every string of four words or more, in code and templates, gets other
small words (``is`` becomes ``was``, ``of`` becomes ``from``); docstrings, what stands in backticks
or braces, and patterns stay. Tests are those of ``tests/`` that read no committed page; arguments
are handed to pytest in their place.
"""

from __future__ import annotations

import ast
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS = {
    "a": "some", "all": "each and every", "an": "some", "and": "plus", "are": "were", "at": "near",
    "has": "had", "have": "had", "in": "within", "is": "was", "it": "this", "must": "shall",
    "no": "not one", "none": "not any", "not": "never", "of": "from", "on": "upon",
    "one": "a single", "so": "thus", "that": "which", "the": "that", "there": "here", "to": "unto",
    "was": "had been", "were": "had been", "with": "by means of",
}  # fmt: skip
WORD = re.compile(rf"(?<![^\s\"'(])({'|'.join(WORDS)})(?![^\s.,:;)\"])")
PROSE = re.compile(r"(?:[A-Za-z][a-z']+\W+){3,}[A-Za-z]")
PATTERN = re.compile(r"\.[*+?]|\\[bdsw]|\w\|\w")
QUOTED = re.compile(r"(```.*?```|`[^`\n]*`|\{[%{#].*?[%}#]\}|<[^>\n]*>)", re.DOTALL)
PAGES = ("test_results.py", "test_docs.py", "test_readme.py", "test_examples.py")


def reworded(text: str) -> str:
    """Prose with other small words.

    >>> reworded("the loss of `a b` is one")
    'that loss from `a b` was a single'
    """
    parts = QUOTED.split(text)
    parts[::2] = [WORD.sub(lambda found: WORDS[found[1]], part) for part in parts[::2]]
    return "".join(parts)


def outside_braces(text: str) -> Iterator[tuple[str, bool]]:
    """Parts of an f-string, and whether they are text."""
    depth = start = 0
    for at, one in enumerate(text):
        if one == "{":
            if depth == 0:
                yield text[start:at], True
                start = at
            depth += 1
        elif one == "}" and depth:
            depth -= 1
            if depth == 0:
                yield text[start : at + 1], False
                start = at + 1
    yield text[start:], True


def in_code(source: str) -> str:
    """A module whose strings are reworded."""
    kept = set()  # docstrings, and the messages that a filter of warnings matches
    for node in ast.walk(ast.parse(source)):
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or (isinstance(node, ast.Call) and "filterwarnings" in ast.dump(node.func)):
            inner = [n for n in ast.walk(node) if isinstance(n, ast.Constant)]
            kept |= {(one.lineno, one.col_offset) for one in inner}
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    edits = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.STRING or token.start in kept:
            continue
        prefix = token.string.partition('"')[0].lower()
        if "r" in prefix or "b" in prefix or not PROSE.search(token.string):
            continue
        if not PATTERN.search(token.string):
            parts = outside_braces(token.string) if "f" in prefix else [(token.string, True)]
            new = "".join(reworded(part) if text else part for part, text in parts)
            begin, end = (starts[row - 1] + column for row, column in (token.start, token.end))
            edits.append((begin, end, new))
    for begin, end, new in reversed(edits):
        source = source[:begin] + new + source[end:]
    ast.parse(source)
    return source


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "main"
        listed = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True
        )
        for name in filter(None, listed.stdout.split("\0")):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
        if (ROOT.parent / "shared").exists():
            (tree.parent / "shared").symlink_to(ROOT.parent / "shared")
        for path in sorted((tree / "gcl_hard").rglob("*")):
            if path.suffix in {".py", ".j2"}:
                text = path.read_text(encoding="utf-8")
                changed = in_code(text) if path.suffix == ".py" else reworded(text)
                path.write_text(changed, encoding="utf-8")
        tests = sys.argv[1:] or ["tests", *(f"--ignore=tests/{name}" for name in PAGES)]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
        environment = os.environ | {"PYTHONPATH": str(tree)}
        sys.exit(subprocess.run(command, cwd=tree, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
