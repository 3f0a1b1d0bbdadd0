"""Typed keyword arguments: the dictionaries that ``**settings`` are, made of the declarations.

``python -m tests.losses.test_keywords > gcl_hard/losses/keywords.py`` writes them anew.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from gcl_hard import evaluate, pretrain_encoder, study
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.flags import options_of
from gcl_hard.experiments.pretraining_settings import PretrainOptions
from gcl_hard.experiments.settings import HEAD, known
from gcl_hard.losses import ContrastiveLoss, methods
from gcl_hard.losses import loss as losses
from gcl_hard.losses.methods import SETTINGS, contrastive_loss
from gcl_hard.training.loop import Optimisation

ROOT = Path(__file__).parents[2]
FILE = ROOT / "gcl_hard/losses/keywords.py"
HEADER = '''"""Typed keyword arguments, made of the declared settings.

Written by ``python -m tests.losses.test_keywords > gcl_hard/losses/keywords.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict

from gcl_hard.functional.pool import HardPositives
from gcl_hard.functional.schedules import Schedule
'''
KEPT = ("Schedule", "HardPositives")
"""Classes that annotations name."""


def text_of(kind: Any) -> set[str]:
    """The alternatives of a type, as they are written."""
    if get_origin(kind) in (Union, types.UnionType):
        return {one for part in get_args(kind) for one in text_of(part)}
    if get_origin(kind) is Literal:
        return {f"Literal[{value!r}]".replace("'", '"') for value in get_args(kind)}
    if kind is type(None):
        return {"None"}
    if get_origin(kind) is tuple:
        return {f"Sequence[{joined(text_of(get_args(kind)[0]))}]"}
    if getattr(kind, "__name__", "") in KEPT or kind in (str, int, float, bool):
        return {kind.__name__}
    return {"Any"}


def joined(texts: Iterable[str]) -> str:
    """Alternatives as one type."""
    found = {*texts}
    if "Any" in found:
        return "Any"
    if "str" in found:
        found = {one for one in found if not one.startswith("Literal")}
    if "float" in found:
        found.discard("int")
    words = sorted(one for one in found if one.startswith("Literal"))
    values = ", ".join(one.removeprefix("Literal[").removesuffix("]") for one in words)
    rest = sorted(found - {*words, "None"}, key=lambda one: (one.startswith("Sequence"), one))
    first = [f"Literal[{values}]"] if words else []
    return " | ".join([*first, *rest, *sorted(found & {"None"})])


def settings(*, several: bool) -> dict[str, str]:
    """The settings of all domains with their types, of one run or of several."""
    kinds: dict[str, set[str]] = {}
    for config in CONFIGS.values():
        for name, one in known(config).items():
            found = text_of(one.kind)
            if one.setting.custom:
                found |= {"Callable[..., Any]"} | (
                    {"Sequence[str | Callable[..., Any]]"} if "Sequence[str]" in found else set()
                )
                found.discard("Sequence[str]")
            if several and one.setting.several:
                found |= {f"Sequence[{joined(found - {'None'})}]"}
            kinds.setdefault(name, set()).update(found)
    return {name: joined(one) for name, one in kinds.items()}


def explicit(function: Callable[..., Any]) -> set[str]:
    """Named parameters."""
    return {*inspect.signature(function).parameters}


def of_losses() -> dict[str, str]:
    """Settings of some methods alone."""
    return {name: joined({*text_of(one.kind), "None"}) for name, one in SETTINGS.items()}


def dictionaries() -> dict[str, tuple[str, str, Mapping[str, str]]]:
    """Of each dictionary its parent, its docstring and its keys."""
    one, many = settings(several=False), settings(several=True)
    common = set(one) - explicit(study) - explicit(pretrain_encoder) - {*HEAD}
    alike = {n: one[n] for n in one if n in common - explicit(evaluate) and one[n] == many[n]}
    more = {name: joined(text_of(kind)) for name, (kind, *_) in options_of(PretrainOptions).items()}

    def beside(function: Callable[..., Any], all_of: Mapping[str, str]) -> dict[str, str]:
        names = [name for name in all_of if name not in explicit(function) | common]
        return {name: all_of[name] for name in names}

    hints = {
        name: eval(text, vars(methods))
        for name, text in contrastive_loss.__annotations__.items() if name != "options"
    }  # fmt: skip
    named = ("beta", "threshold", "class_prior", "positives")
    return {
        "LossOptions": (
            "TypedDict", "Arguments of :class:`ContrastiveLoss` that a method does not decide.",
            {
                name: joined(text_of(eval(text, vars(losses))))
                for name, text in ContrastiveLoss.__init__.__annotations__.items()
                if name not in ("sampler", "positives", "class_prior", "return")
            },
        ),
        "OwnOptions": ("LossOptions", "Further options of :func:`contrastive_loss`.", of_losses()),
        "MethodOptions": (
            "OwnOptions", "Options of :func:`contrastive_loss`, but ``seed``.",
            {name: joined(text_of(hints[name])) for name in named} | {"without": "Sequence[str]"},
        ),
        "SeededOptions": ("MethodOptions", "Options of :func:`contrastive_loss`.", {"seed": "int"}),
        "SharedSettings": ("TypedDict", "Settings of a run that have one value.", alike),
        "RunSettings": (
            "SharedSettings", "Settings of a run.",
            {name: one[name] for name in one if name in common - {*alike}},
        ),
        "StudySettings": ("RunSettings", "Settings of :func:`study`.", beside(study, one)),
        "PretrainSettings": (
            "RunSettings", "Settings of :func:`pretrain_encoder`.",
            beside(pretrain_encoder, {k: v for k, v in (one | more).items() if k not in HEAD}),
        ),
        "EvaluateSettings": (
            "SharedSettings", "Settings of :func:`evaluate`; of some several values are compared.",
            {n: many[n] for n in many if n not in {*explicit(evaluate), *alike, *HEAD[:2]}},
        ),
        "OptimisationOptions": (
            "TypedDict", "Arguments of :class:`Optimisation`.",
            {
                field.name: joined(text_of(get_type_hints(Optimisation)[field.name]))
                for field in fields(Optimisation)
            },
        ),
    }  # fmt: skip


def written() -> str:
    """The module."""
    parts = [HEADER]
    for name, (parent, text, keys) in dictionaries().items():
        lines = [f"    {key}: {kind}" for key, kind in keys.items()]
        parts.append(
            f'class {name}({parent}, total=False):\n    """{text}"""\n\n' + "\n".join(lines)
        )
    return "\n\n".join(parts) + "\n"


def test_the_dictionaries_are_those_of_the_declarations() -> None:
    now, wanted = (ast.dump(ast.parse(text)) for text in (FILE.read_text("utf-8"), written()))
    assert now == wanted, "python -m tests.losses.test_keywords > gcl_hard/losses/keywords.py"


USES = """
import gcl_hard
from gcl_hard.graphs import GIN, InfoGraph, TwoView, load

mutag = load("MUTAG")
InfoGraph(GIN(7), method="hscl", beta=2.0, hardness_scale="rank", seed=1)
TwoView(GIN(7), method="hucl", temperature=0.2)
gcl_hard.evaluate("gin", mutag, "hscl", beta=[1.0, 2.0], epochs=3, layers=2)
gcl_hard.study("MUTAG", "hscl", epochs=3, protocol="inductive")
gcl_hard.pretrain_encoder("photos/", "hucl", epochs=3, crop=0.2)
gcl_hard.fit(InfoGraph(GIN(7)), mutag, epochs=2, lr=0.1)
gcl_hard.contrastive_loss("bcl", auc=0.7, temperature=0.5)
"""
WRONG = {
    "betta": 'InfoGraph(GIN(7), method="hscl", betta=2.0)',
    "hardness_scale": 'InfoGraph(GIN(7), hardness_scale="ranks")',
    "epoch": 'gcl_hard.evaluate("gin", mutag, epoch=3)',
    "layers": 'gcl_hard.study("MUTAG", layers="two")',
    "lr": 'gcl_hard.fit(InfoGraph(GIN(7)), mutag, lr="fast")',
    "cropp": 'gcl_hard.pretrain_encoder("photos/", cropp=0.2)',
}


@pytest.mark.slow
def test_a_type_checker_sees_misspelt_settings(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(USES)
    (tmp_path / "wrong.py").write_text(USES + "\n".join(WRONG.values()) + "\n")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache")]
    found = subprocess.run(
        [*command, "right.py", "wrong.py"], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    ).stdout  # fmt: skip
    errors = [line for line in found.splitlines() if ": error:" in line]
    assert len(errors) == len(WRONG), found
    for name, line in zip(WRONG, errors, strict=True):
        assert line.startswith("wrong.py")
        assert name in line


if __name__ == "__main__":
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FILE), "-"]
    sys.exit(subprocess.run(ruff, input=written(), text=True, check=False).returncode)
