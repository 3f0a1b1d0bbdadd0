"""Hand-kept lists of setting names in the package: each is a place that a new setting can miss.

    python benchmarks/setting_names.py [TREE]

prints every literal (tuple, list, set, keys of a dictionary) that names two settings or more and
nothing else, and their number. Left out are the modules that declare settings, and presets, which
are values of settings.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = (
    "settings/base.py", "settings/graphs.py", "settings/images.py", "settings/molecules.py",
    "settings/presets.py",
)  # fmt: skip


def named(node: ast.AST) -> list[str]:
    """The words of a literal; none if it holds anything but words."""
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        parts: Sequence[ast.expr | None] = node.elts
    elif isinstance(node, ast.Dict):
        parts = [key for key in node.keys if key is not None]
    else:
        return []
    words = [one.value for one in parts if isinstance(one, ast.Constant)]
    starred = sum(isinstance(one, ast.Starred) for one in parts)
    return [str(word) for word in words] if len(words) + starred == len(parts) else []


def lists(tree: Path, names: set[str]) -> Iterator[tuple[str, int, list[str]]]:
    """Module, line and words of each hand-kept list of these names."""
    package = tree / "gcl_hard"
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package).as_posix()
        if module in LEFT_OUT:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            words = named(node)
            if len(words) > 1 and {*words} <= names:
                yield module, node.lineno, words  # type: ignore[attr-defined]


def setting_names() -> set[str]:
    """Names of all settings of configurations."""
    from gcl_hard.settings.base import known
    from gcl_hard.settings.domains import CONFIGS

    return {name for config in CONFIGS.values() for name in known(config)}


def main(arguments: Sequence[str]) -> None:
    found = [*lists(Path(arguments[0] if arguments else ROOT), setting_names())]
    for module, line, words in found:
        print(f"{module}:{line}: {', '.join(words)}")
    print(f"{len(found)} lists in {len({module for module, *_ in found})} modules")


if __name__ == "__main__":
    main(sys.argv[1:])
