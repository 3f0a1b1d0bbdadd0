"""Errors that speak to the person at the keyboard: the doors print them without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class GclHardError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(GclHardError, ValueError):
    """An argument, file or data set that cannot be used; the message says what would be."""


class DivergenceError(GclHardError, ArithmeticError):
    """Training produced a value that is not finite; the message names epoch, batch and setting."""


class OutOfMemory(GclHardError, MemoryError):  # noqa: N818
    """A device's memory does not hold a batch; the message says what to lower."""


class MissingExtraError(GclHardError, ImportError):
    """An optional dependency is not installed; the message is the line that installs it."""


def nearest(got: str, options: Iterable[str], n: int = 3) -> list[str]:
    """Options that a misspelt word probably meant, best first.

    Args:
        got: what was written; case does not matter.
        options: what would have been accepted.
        n: how many to offer at most.

    Returns:
        Up to ``n`` of the options, spelt as given; empty when none is close.

    Example:
        >>> nearest("hslc", ["ucl", "scl", "hscl"], n=1)
        ['hscl']
    """
    by_folded = {option.casefold(): option for option in options}
    close = difflib.get_close_matches(got.casefold(), by_folded, n=n, cutoff=0.5)
    return [by_folded[word] for word in close]


def unknown(kind: str, got: str, options: Iterable[str]) -> InputError:
    """The error for a word that is not among the options: names it, and the nearest ones.

    Args:
        kind: what the word should name, in the user's words ("dataset", "method").
        got: the word.
        options: what would have been accepted.

    Returns:
        The error, to be raised by the caller.

    Example:
        >>> print(unknown("method", "hslc", ["ucl", "scl", "hscl"]))
        unknown method 'hslc'; did you mean hscl or scl? known: ucl, scl, hscl
    """
    known = list(options)
    close = nearest(got, known)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return InputError(f"unknown {kind} {got!r}; {hint}known: {', '.join(known)}")
