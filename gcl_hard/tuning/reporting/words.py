"""Settings, values and times as words, the same in tables and figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def setting(name: str) -> str:
    """What people call a setting of a cell or of an encoder.

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


def settings(params: Mapping[str, Any]) -> str:
    """A trial's settings in a line.

    Example:
        >>> settings({"beta": 2.0, "lr": 0.001})
        'β 2, learning rate 0.001'
    """
    return ", ".join(f"{setting(name)} {value(given)}" for name, given in params.items())
