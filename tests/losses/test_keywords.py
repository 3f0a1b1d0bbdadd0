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
        return {text for part in get_args(kind) for text in text_of(part)}
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
    alternatives = {*texts}
    if "Any" in alternatives:
        return "Any"
    if "str" in alternatives:
        alternatives = {text for text in alternatives if not text.startswith("Literal")}
    if "float" in alternatives:
        alternatives.discard("int")
    words = sorted(text for text in alternatives if text.startswith("Literal"))
    values = ", ".join(text.removeprefix("Literal[").removesuffix("]") for text in words)
    rest = sorted(
        alternatives - {*words, "None"}, key=lambda text: (text.startswith("Sequence"), text)
    )
    first = [f"Literal[{values}]"] if words else []
    return " | ".join([*first, *rest, *sorted(alternatives & {"None"})])


def settings(*, several: bool) -> dict[str, str]:
    """The settings of all domains with their types, of one run or of several."""
    kinds: dict[str, set[str]] = {}
    for config in CONFIGS.values():
        for name, field in known(config).items():
            texts = text_of(field.kind)
            if field.setting.custom:
                texts |= {"Callable[..., Any]"} | (
                    {"Sequence[str | Callable[..., Any]]"} if "Sequence[str]" in texts else set()
                )
                texts.discard("Sequence[str]")
            if several and field.setting.several:
                texts |= {f"Sequence[{joined(texts - {'None'})}]"}
            kinds.setdefault(name, set()).update(texts)
    return {name: joined(texts) for name, texts in kinds.items()}


def explicit(function: Callable[..., Any]) -> set[str]:
    """Named parameters."""
    return {*inspect.signature(function).parameters}


def documented() -> dict[str, str]:
    """Settings of some methods alone."""
    return {name: joined({*text_of(field.kind), "None"}) for name, field in SETTINGS.items()}


def dictionaries() -> dict[str, tuple[str, str, Mapping[str, str]]]:
    """Of each dictionary its parent, its docstring and its keys."""
    single, several_ = settings(several=False), settings(several=True)
    common = set(single) - explicit(study) - explicit(pretrain_encoder) - {*HEAD}
    alike = {
        n: single[n]
        for n in single
        if n in common - explicit(evaluate) and single[n] == several_[n]
    }
    more = {
        name: joined(text_of(kind))
        for name, kind in get_type_hints(PretrainOptions).items()
        if name in ("pseudo_labels", "log")
    }

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
        "OwnOptions": ("LossOptions", "Further options of :func:`contrastive_loss`.", documented()),
        "MethodOptions": (
            "OwnOptions", "Options of :func:`contrastive_loss`, but ``seed``.",
            {name: joined(text_of(hints[name])) for name in named} | {"without": "Sequence[str]"},
        ),
        "SeededOptions": ("MethodOptions", "Options of :func:`contrastive_loss`.", {"seed": "int"}),
        "SharedSettings": ("TypedDict", "Settings of a run that have one value.", alike),
        "RunSettings": (
            "SharedSettings", "Settings of a run.",
            {name: single[name] for name in single if name in common - {*alike}},
        ),
        "StudySettings": ("RunSettings", "Settings of :func:`study`.", beside(study, single)),
        "PretrainSettings": (
            "RunSettings", "Settings of :func:`pretrain_encoder`.",
            beside(pretrain_encoder, {k: v for k, v in (single | more).items() if k not in HEAD}),
        ),
        "EvaluateSettings": (
            "SharedSettings", "Settings of :func:`evaluate`; of some several values are compared.",
            {n: several_[n] for n in several_ if n not in {*explicit(evaluate), *alike, *HEAD[:2]}},
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
    done = subprocess.run(
        [*command, "right.py", "wrong.py"], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    ).stdout  # fmt: skip
    errors = [line for line in done.splitlines() if ": error:" in line]
    assert len(errors) == len(WRONG), done
    for name, line in zip(WRONG, errors, strict=True):
        assert line.startswith("wrong.py")
        assert name in line


if __name__ == "__main__":
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FILE), "-"]
    sys.exit(subprocess.run(ruff, input=written(), text=True, check=False).returncode)
