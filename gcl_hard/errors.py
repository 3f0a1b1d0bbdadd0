"""User-facing errors: the command line prints them without a traceback."""

from __future__ import annotations

import difflib
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ParamSpec

P = ParamSpec("P")


class GclHardError(Exception):
    """Base of every error this package raises on purpose."""

    status = 2
    """Exit status of a command that it ends."""


class InputError(GclHardError, ValueError):
    """An unusable argument, file or data set; the message says what would be accepted."""


class DivergenceError(GclHardError, ArithmeticError):
    """Training produced a value that is not finite; the message names epoch, batch and config."""


class OutOfMemory(GclHardError, MemoryError):  # noqa: N818
    """A batch does not fit into the memory of a device; the message says what to reduce."""


class MissingExtraError(GclHardError, ImportError):
    """An optional dependency is missing; the message is the command that installs it."""


THRESHOLDS = ("threshold", "threshold_start", "threshold_end")
OTHER_NAMES = {
    "tau": ("temperature", *THRESHOLDS),
    "t": ("temperature",), "gamma": ("temperature",), "l": THRESHOLDS, "margin": THRESHOLDS,
    "tau_plus": ("class_prior",), "prior": ("class_prior",), "m": ("weight",),
    "alpha": ("beta",), "hardness_strength": ("beta",), "learning_rate": ("lr",),
    "max_epochs": ("epochs",), "bs": ("batch_size",), "timeout": ("minutes",),
    **dict.fromkeys(
        ("simclr", "nt_xent", "ntxent", "infonce", "infograph", "grace", "moco"), ("ucl",)
    ),
    "supcon": ("scl",),
}  # fmt: skip
"""Other names of settings and methods in the field, which are not close in spelling."""


def nearest(got: str, options: Iterable[str], n: int = 3) -> list[str]:
    """The options that a word may mean, best first: by another name, or close in spelling.

    Args:
        got: the word; case does not matter.
        options: the accepted words.
        n: largest number of options returned.

    Returns:
        Up to ``n`` options in their own spelling; empty if none is close.

    Example:
        >>> nearest("hslc", ["ucl", "scl", "hscl"], n=1)
        ['hscl']
        >>> nearest("tau", ["auc", "beta", "temperature"])
        ['temperature']
    """
    by_folded = {option.casefold(): option for option in options}
    plain = {folded.lstrip("-").replace("-", "_"): option for folded, option in by_folded.items()}
    others = OTHER_NAMES.get(got.casefold().lstrip("-").replace("-", "_"), ())
    if meant := [plain[name] for name in others if name in plain]:
        return meant[:n]
    close = difflib.get_close_matches(got.casefold(), by_folded, n=n, cutoff=0.5)
    return [by_folded[word] for word in close]


def unknown(kind: str, got: str, options: Iterable[str]) -> InputError:
    """The error for a word that is not an option; it names the word and the closest options.

    Args:
        kind: what the word should be, for the message ("dataset", "method").
        got: the word.
        options: the accepted words.

    Returns:
        The error, for the caller to raise.

    Example:
        >>> print(unknown("method", "hslc", ["ucl", "scl", "hscl"]))
        unknown method 'hslc'; did you mean hscl or scl? known: ucl, scl, hscl
    """
    known = list(options)
    close = nearest(got, known)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return InputError(f"unknown {kind} {got!r}; {hint}known: {', '.join(known)}")


def check_option(kind: str, got: str, options: Iterable[str]) -> str:
    """Check that a word is one of the options.

    Args:
        kind: what the word should be, as for :func:`unknown`.
        got: the word.
        options: the accepted words.

    Returns:
        The word.

    Raises:
        InputError: if it is not an option; offers the closest.

    Example:
        >>> check_option("method", "hscl", ["ucl", "scl", "hscl"])
        'hscl'
    """
    known = list(options)
    if got not in known:
        raise unknown(kind, str(got), known)
    return got


def checking_keywords(**elsewhere: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Decorator of ``__init__``: an unknown keyword is an InputError, with the nearest known ones.

    Args:
        elsewhere: what to give in place of a keyword, with ``{}`` for its value.

    Example:
        >>> class Sampler:
        ...     @checking_keywords(beta="hardening=Exponential({})")
        ...     def __init__(self, hardening=None): ...
        >>> Sampler(beta=1)
        Traceback (most recent call last):
        ...
        gcl_hard.errors.InputError: Sampler has no beta: give hardening=Exponential(1)
    """

    def checking(init: Callable[P, None]) -> Callable[P, None]:
        kind, known = init.__qualname__.split(".")[-2], [*signature(init).parameters][1:]

        @wraps(init)
        def checked(*args: P.args, **keywords: P.kwargs) -> None:
            for name in keywords.keys() - known:
                if name not in elsewhere:
                    raise unknown(f"argument of {kind}", name, known)
                place = elsewhere[name].format(keywords[name])
                raise InputError(f"{kind} has no {name}: give {place}")
            init(*args, **keywords)

        return checked

    return checking


LARGEST = 2**53
"""The largest integer of a setting: up to it JSON and floats are exact."""


def check_at_least(name: str, value: object, least: int) -> None:
    """InputError for an argument that is no integer, below its smallest useful value, or huge.

    Args:
        name: the argument's name, for the message.
        value: the argument's value.
        least: the smallest value accepted.

    Raises:
        InputError: ``value`` is not an integer, is below ``least``, or above 2⁵³.

    Example:
        >>> check_at_least("n_jobs", 2, 1)
    """
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise InputError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise InputError(f"{name} must be at least {least}, got {value!r}")
    if int(value) > LARGEST:
        raise InputError(f"{name} must be at most {LARGEST:,}, got {value!r}")


def check_processes(*, least: int = 1, **counts: object) -> None:
    """InputError for numbers of processes or threads that this machine could not start.

    Args:
        least: the smallest number accepted.
        counts: the numbers by the names of their arguments; None is ignored.

    Raises:
        InputError: one is not an integer, is below ``least``, or above four for each processor,
            and above 64.

    Example:
        >>> check_processes(jobs=2, threads=None)
    """
    processors = os.cpu_count() or 1
    most = max(64, 4 * processors)
    for argument, value in counts.items():
        name = argument.replace("_", "-")
        if value is not None:
            check_at_least(name, value, least)
            if int(value) > most:  # type: ignore[call-overload]
                raise InputError(
                    f"{name} must be at most {most} on this machine, which has {processors} "
                    f"processors, got {value}"
                )


def check_main_guard(setting: str) -> None:
    """InputError for starting processes from a script that each of them would execute again.

    Args:
        setting: the setting that asks for processes, such as ``jobs=2``.

    Raises:
        InputError: the running script names ``__name__`` nowhere; shows how. A package's
            ``__main__.py`` needs no such line, as no process executes it again.

    Example:
        >>> check_main_guard("jobs=2")
    """
    main = sys.modules.get("__main__")
    file, spec = (getattr(main, attribute, None) for attribute in ("__file__", "__spec__"))
    is_package = getattr(spec, "name", "").rpartition(".")[2] == "__main__"
    if file is None or not file.endswith(".py") or is_package or not Path(file).exists():
        return
    if "__name__" not in Path(file).read_text(encoding="utf-8", errors="replace"):
        raise InputError(
            f"{setting} starts processes, and each imports {Path(file).name} again: put its code "
            f'below a line\n\n    if __name__ == "__main__":\n\nor leave {setting} out'
        )


def check_number(
    name: str,
    value: object,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> None:
    """InputError for an argument that is not a finite number, or is out of range.

    Args:
        name: the argument's name, for the message.
        value: the argument's value; NumPy's numbers are accepted, tensors are not.
        least: the smallest value accepted, None for any.
        above: exclusive lower bound.
        most: the largest value accepted.
        below: exclusive upper bound.

    Raises:
        InputError: ``value`` is not a number, NaN, infinite, or out of range.

    Example:
        >>> check_number("class_prior", 1, least=0, below=1)
        Traceback (most recent call last):
        ...
        gcl_hard.errors.InputError: class_prior must be a finite number of at least 0 and below 1, \
got 1
    """
    got: Any = value if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    bounds = (
        ("of at least", least, least is None or got >= least),
        ("above", above, above is None or got > above),
        ("of at most", most, most is None or got <= most),
        ("below", below, below is None or got < below),
    )
    if not math.isfinite(got) or not all(holds for *_, holds in bounds):
        words = " and ".join(
            f"{relation} {bound:g}" for relation, bound, _ in bounds if bound is not None
        )
        kind = f"a finite number {words}" if words else "a finite number"
        raise InputError(f"{name} must be {kind}, got {value!r}")


SECRETS = (
    (re.compile(r"(://[^:/@\s]*:)\S*@"), r"\1***@"),
    (re.compile(r"([?&](?:password|passwd)=)[^&\s]*"), r"\1***"),
)
"""Patterns of passwords in a URL, and their replacements."""


def without_password(text: str) -> str:
    """A URL, or any text that may be one, without its password.

    Example:
        >>> without_password("postgresql://me:secret@host/db")
        'postgresql://me:***@host/db'
    """
    for pattern, shown in SECRETS:
        text = pattern.sub(shown, text)
    return text


@contextmanager
def calling_own(failure: str, hint: str = "") -> Iterator[None]:
    """Turn any error of the user's own code inside into an InputError.

    Args:
        failure: the failing call, as in the example.
        hint: a remedy, after the error.

    Example:
        >>> with calling_own("the encoder f fails on 2 nodes"):
        ...     1 / 0
        Traceback (most recent call last):
        ...
        gcl_hard.errors.InputError: the encoder f fails on 2 nodes (ZeroDivisionError: division by \
zero)
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{failure} ({type(error).__name__}: {error}){hint}") from error
