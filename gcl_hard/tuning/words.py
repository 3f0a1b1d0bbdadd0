"""How settings and splits are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def value_in_words(value: Any) -> str:
    """A value as one would write it: four digits are enough to know a trial by.

    Example:
        >>> value_in_words(0.0123456), value_in_words("sum"), value_in_words(None)
        ('0.01235', 'sum', 'none')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else str(value)


def settings_in_words(params: Mapping[str, Any]) -> str:
    """A trial's settings in a line.

    Example:
        >>> settings_in_words({"beta": 2.0, "lr": 0.001})
        'beta 2, lr 0.001'
    """
    return ", ".join(f"{name} {value_in_words(value)}" for name, value in params.items())
