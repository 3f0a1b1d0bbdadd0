"""Optional dependencies: what to type when one is missing."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from gcl_hard.errors import MissingExtraError

EXTRAS = {"grakel": "kernels", "torch_scatter": "scatter"}
NO_GRAKEL = (3, 13)
"""From this Python on grakel has no wheel."""


def require(module: str, python: tuple[int, int] = sys.version_info[:2]) -> ModuleType:
    """Import a module of an optional extra.

    Args:
        module: its name, one of ``EXTRAS``.
        python: version that the message is for.

    Returns:
        The module.

    Raises:
        MissingExtraError: if it is not installed; the message is the line that installs it, or
            says that there is none for this Python.

    Example:
        >>> require("grakel", python=(3, 13))  # doctest: +SKIP
        Traceback (most recent call last):
        ...
        gcl_hard.errors.MissingExtraError: grakel has no wheel for Python 3.13: use 3.11 or 3.12
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if module == "grakel" and python >= NO_GRAKEL:
            hint = f"grakel has no wheel for Python {python[0]}.{python[1]}: use 3.11 or 3.12"
        elif module == "torch_scatter":
            hint = (
                "torch_scatter is not installed; it is built against the installed torch: "
                "pip install --no-build-isolation torch-scatter"
            )
        else:
            hint = f"{module} is not installed: pip install 'gcl-hard[{EXTRAS[module]}]'"
        raise MissingExtraError(hint) from error
