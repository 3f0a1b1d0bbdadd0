"""Names in the package say what a thing is: words that say nothing are rare among them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "gcl_hard"
EMPTY = frozenset(
    ("one", "found", "own", "given", "said", "told", "of", "which", "how", "what", "made", "there")
)
MOST = 0.01


def bound(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of what is bound in a module, but for constructors `of`."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name="of", decorator_list=[ast.Name("classmethod")]):
                pass
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                for alias in aliases:
                    yield node.lineno, alias.asname or alias.name.partition(".")[0]


def is_empty(name: str) -> bool:
    return name.strip("_") in EMPTY


def test_names_say_what_a_thing_is() -> None:
    names = [
        (path.relative_to(PACKAGE.parent), line, name)
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, name in sorted(bound(ast.parse(path.read_text(encoding="utf-8"))))
    ]
    empty = [f"{path}:{line}: {name}" for path, line, name in names if is_empty(name)]
    assert len(empty) <= MOST * len(names), "\n".join(
        [f"{len(empty)} of {len(names)} names say nothing:", *empty[:20]]
    )


def test_all_kinds_of_names_are_seen() -> None:
    code = """
from library import found as which
import how.far

class _Own:
    @classmethod
    def of(cls, given): ...

def told(*one, there=0, **what):
    try:
        self.said = [made for made in there]
    except ValueError as of:
        found = of
"""
    names = [name for _, name in bound(ast.parse(code))]
    assert sorted(name.strip("_").casefold() for name in names if is_empty(name.casefold())) == (
        sorted(EMPTY)
    )
    assert {"cls"} == {name for name in names if not is_empty(name.casefold())}
