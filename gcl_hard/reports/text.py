"""Numbers and settings as text, the same in tables, pages, figures and the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from gcl_hard.evaluation.significance import Interval
from gcl_hard.experiments.config import RunConfig

NBSP = "\u00a0"
"""Keeps a number in one piece."""
ACCURACY = "inner accuracy, %"
"""What the values of a study are."""
BETA, TEMPERATURE = "β", "temperature γ"
NAMES = {
    "beta": BETA,
    "temperature": TEMPERATURE,
    "class_prior": "class prior τ⁺",
    "threshold_start": "threshold in the first epoch",
    "threshold_end": "threshold in the last epoch",
    "lr": "learning rate",
    "dim": "width of a layer",
}
"""Settings that have another name in tables than in configurations."""


def points(value: float) -> str:
    """A difference in points, with its sign.

    Example:
        >>> points(1.25), points(-0.01)
        ('+1.2', '+0.0')
    """
    return f"{value:+z.1f}"


def interval(one: Interval) -> str:
    """A difference with its interval, in one piece.

    Example:
        >>> interval(Interval(1.25, -0.01, 3.0)).replace(NBSP, " ")
        '+1.2 [+0.0, +3.0]'
    """
    return f"{points(one.mean)} [{points(one.low)},{NBSP}{points(one.high)}]"


def p_value(p: float | None) -> str:
    """A p-value in three decimals.

    Example:
        >>> p_value(0.0312), p_value(0.0002), p_value(1.0), p_value(None)
        ('.031', '<.001', '1', '–')
    """
    if p is None:
        return "–"
    if p < 0.001:
        return "<.001"
    return "1" if p >= 0.9995 else f"{p:.3f}".removeprefix("0")


def percent(accuracy: float | None) -> str:
    """An accuracy.

    Example:
        >>> percent(88.06), percent(None)
        ('88.1 %', '–')
    """
    return "–" if accuracy is None else f"{accuracy:.1f} %"


def duration(seconds: float) -> str:
    """A time, in the unit that suits it.

    Example:
        >>> duration(42), duration(600), duration(9000)
        ('42 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def count(n: int, word: str) -> str:
    """A number of things, ``1 seed`` or ``2 seeds``."""
    return f"{n} {word}{'s' * (n != 1)}"


def values(configs: Iterable[RunConfig], name: str) -> str:
    """The different values of a setting, in their order, as flags write them."""
    found = dict.fromkeys(getattr(config, name) for config in configs)
    return ", ".join(_flag(value) for value in found if value is not None)


def _flag(given: object) -> str:
    if isinstance(given, tuple):
        return "+".join(map(_flag, given))
    return f"{given:g}" if isinstance(given, float) else str(given).lower()


def setting(name: str) -> str:
    """The name of a setting, of a configuration or of an encoder, in tables.

    Example:
        >>> setting("lr"), setting("weight_decay"), setting("encoder.hidden_dim")
        ('learning rate', 'weight decay', 'encoder hidden dim')
    """
    return NAMES.get(name, name.replace(".", " ").replace("_", " "))


def value(given: Any) -> str:
    """A value of a setting, in three digits.

    Example:
        >>> value(0.012345), value(3), value(True), value(None)
        ('0.0123', '3', 'true', '–')
    """
    if given is None:
        return "–"
    if isinstance(given, bool):
        return str(given).lower()
    return f"{given:.3g}" if isinstance(given, float) else str(given)


def settings(params: Mapping[str, Any]) -> str:
    """A trial's settings in a line.

    Example:
        >>> settings({"beta": 2.0, "lr": 0.001})
        'β 2, learning rate 0.001'
    """
    return ", ".join(f"{setting(name)} {value(given)}" for name, given in params.items())


def of_images(protocol: str) -> bool:
    """Whether a protocol is that of images: one split, no folds."""
    return protocol == "split"


def test_part(protocol: str) -> str:
    """What accuracies are measured on."""
    return "test images" if of_images(protocol) else "test folds"


def test_name(protocol: str) -> str:
    """The test whose p-values stand first."""
    return "paired t-test over seeds" if of_images(protocol) else "corrected resampled t-test"


def escaped(text: str) -> str:
    """Text of users in Markdown, with nothing in it taken for HTML or for a column.

    Example:
        >>> escaped("a|b <i>")
        'a\\\\|b &lt;i&gt;'
    """
    return escape(text, quote=False).replace("|", "\\|")
