"""Entry points of commands: errors, signals, and consoles of any encoding."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from gcl_hard.core.extras import check_extra
from gcl_hard.core.signals import TERMINATED, terminated_as_interrupted
from gcl_hard.errors import GclHardError

STOPPED = 130
"""Exit status after Ctrl-C, as in shells."""


def run_command(command: Callable[[], int], *, stopped: Callable[[], str]) -> int:
    """Run an entry point and turn an error into one line.

    A console that is closed or lacks a letter does not end the command: what it cannot show is
    dropped.

    Args:
        command: returns the exit status.
        stopped: returns the message to print after a Ctrl-C that has none.

    Returns:
        The exit status: that of an error of this package, or 2, also of the system; 1 for any
        other, whose traceback is in a file that is named; 130 after Ctrl-C, 143 after SIGTERM,
        which does what Ctrl-C does.
    """
    with steady_console(), our_warnings(), terminated_as_interrupted() as termination:
        try:
            return command()
        except (GclHardError, OSError) as error:
            return _failed(str(error), getattr(error, "status", 2))
        except KeyboardInterrupt as stop:
            print(f"\n{str(stop) or stopped()}", file=sys.stderr)
            return TERMINATED if termination.came else STOPPED
        except Exception as error:
            with tempfile.NamedTemporaryFile(
                "w", prefix="gcl-hard-", suffix=".txt", encoding="utf-8", delete=False
            ) as file:
                traceback.print_exc(file=file)
            words = f"{type(error).__name__}: {error}".splitlines()[0]
            return _failed(f"{words} (the traceback is in {file.name})", 1)


def entry_point(name: str, extra: str) -> Callable[..., int]:
    """The ``main`` of a command, whose module is imported when it is called.

    The module has ``command(arguments)``, which returns the exit status, and ``STOPPED``, which is
    printed after a Ctrl-C that has no message.

    Args:
        name: name of the command.
        extra: the extra that it needs.
    """

    def main(arguments: Sequence[str] | None = None) -> int:
        """Run the command line.

        Args:
            arguments: arguments of the command line; ``sys.argv`` if None.

        Returns:
            Exit status: 0; 1 if no trial of a search has a score, or for an error of this package's
            own; 2 if something was wrong with the input, or a run failed; 130 after Ctrl-C.
        """
        words, stopped = sys.argv[1:] if arguments is None else [*arguments], "stopped"

        def command() -> int:
            nonlocal stopped
            check_extra(extra, f"gcl_hard.{name}")
            module = import_module(f"gcl_hard.commands.{name}")
            stopped = module.STOPPED
            return module.command(words)

        return run_command(command, stopped=lambda: stopped)

    main.__module__, main.__qualname__ = f"gcl_hard.{name}", "main"
    return main


def _failed(message: str, status: int) -> int:
    """Print an error, and return the exit status."""
    if os.environ.get("RANK", "0") == "0":  # by one of torchrun's processes
        print(f"error: {message}", file=sys.stderr)
    return status


@contextmanager
def our_warnings() -> Iterator[None]:
    """Show a warning of this package as one line, without its place in the source."""
    # torch-geometric uses torch.jit at import; the user cannot change that.
    warnings.filterwarnings("ignore", message=".*torch.jit.* is deprecated")
    usual = warnings.formatwarning

    def format_warning(message: Any, category: Any, path: str, *line: Any) -> str:
        if Path(path).is_relative_to(Path(__file__).parents[1]):
            return f"warning: {message}\n"
        return usual(message, category, path, *line)

    warnings.formatwarning = format_warning  # type: ignore[assignment]
    try:
        yield
    finally:
        warnings.formatwarning = usual


@contextmanager
def steady_console() -> Iterator[None]:
    """Standard output and error that take any letter, also after their reader has gone."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Steady(stream) if stream else stream for stream in before)
    try:
        yield
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        sys.stdout, sys.stderr = before


class _Steady:
    """A stream that drops what it cannot write, also after its reader has gone."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        with suppress(AttributeError, ValueError):  # pytest's, or closed
            stream.reconfigure(errors="replace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, call: Callable[..., object], *text: str) -> None:
        """Write; once the reader has gone, discard this and all later output."""
        try:
            call(*text)
        except (OSError, ValueError):
            with suppress(OSError, ValueError, AttributeError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
