"""Which runs a figure is drawn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

from gcl_hard.errors import InputError, unknown
from gcl_hard.experiments.cell import flag
from gcl_hard.experiments.figures.runs import Run
from gcl_hard.graphs.datasets import ALIASES
from gcl_hard.images.datasets import canonical_name
from gcl_hard.reports.text import (
    values,
)

ONE = ("dataset", "protocol", "contrast", "objective")
"""Settings of which a figure has one value."""


def choose(runs: Sequence[Run], only: Mapping[str, Sequence[str]] | None = None) -> list[Run]:
    """The runs of trained methods that were asked for, all of one kind.

    Args:
        runs: any.
        only: of settings of a cell, or of ``seed``, the values to show.

    Returns:
        The runs, in their order; floors are passed over.

    Raises:
        InputError: for a key or value that is not there, or if a mixture of data sets, protocols,
            contrasts or objectives is left; says what would choose.

    Example:
        >>> from pathlib import Path
        >>> from gcl_hard.experiments.graph_cell import GraphCell
        >>> cells = [GraphCell(method="ucl"), GraphCell(), GraphCell(beta=2)]
        >>> runs = [Run(cell, 0, (80.0,), (), (), None, Path("a.json")) for cell in cells]
        >>> [run.cell.beta for run in choose(runs, {"method": ["hscl"], "beta": ["2"]})]
        [2.0]
    """
    wanted = only or {}
    left = trained = [run for run in runs if not run.cell.is_floor]
    if not trained:
        raise InputError(
            f"these results are of floors alone ({_there(runs, 'method')}); figures are of "
            f"trained methods"
        )
    for key, texts in wanted.items():
        _check(runs, trained, key, texts)
        left = [run for run in left if any(_is(run, key, text) for text in texts)]
    if not left:
        asked = " and ".join(f"{key}={','.join(texts)}" for key, texts in wanted.items())
        raise InputError(f"no result has {asked} at once")
    for name in ONE:
        if len(found := _words(left, name)) > 1:
            raise InputError(
                f"these results are of several {PLURAL[name]} ({', '.join(found)}), and a figure "
                f"is of one: choose it, as --only {name}={found[0]}"
            )
    return left


PLURAL = {
    "dataset": "data sets", "protocol": "protocols", "contrast": "contrasts",
    "objective": "objectives",
}  # fmt: skip


def _check(runs: Sequence[Run], trained: Sequence[Run], key: str, texts: Sequence[str]) -> None:
    """Whether a key is a setting, and every value one that is there."""
    known = dict.fromkeys(f.name for run in trained for f in fields(run.cell))
    if key not in (*known, "seed"):
        raise unknown("setting in --only", flag(key), map(flag, (*known, "seed")))
    for text in texts:
        if any(_is(run, key, text) for run in trained):
            continue
        if any(_is(run, key, text) for run in runs if run.cell.is_floor):
            raise InputError(f"{text} is a floor; figures are of trained methods")
        raise unknown(f"{flag(key)} in these results", text, _words(trained, key))


def _is(run: Run, key: str, text: str) -> bool:
    """Whether a run's setting is what a text says."""
    if key == "dataset":
        text = ALIASES.get(text.upper(), canonical_name(text))
    said = _word(run, key)
    if said.casefold() == text.casefold():
        return True
    try:
        return float(said) == float(text)
    except ValueError:
        return False


def _words(runs: Sequence[Run], key: str) -> list[str]:
    """The different values of a setting that are there; not what does not apply."""
    return [word for word in dict.fromkeys(_word(run, key) for run in runs) if word != "none"]


def _there(runs: Sequence[Run], key: str) -> str:
    return ", ".join(_words(runs, key))


def _word(run: Run, key: str) -> str:
    if key == "seed":
        return str(run.seed)
    value = getattr(run.cell, key, None)
    if value is None or isinstance(value, str):
        return value or "none"
    return values([run.cell], key)
