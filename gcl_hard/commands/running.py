"""Entry points of commands: errors, signals, and consoles of any encoding."""

from __future__ import annotations

import codecs
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from gcl_hard.core.extras import check_extra
from gcl_hard.core.signals import TERMINATED, terminated_as_interrupted
from gcl_hard.errors import GclHardError, refusal

STOPPED = 130
"""Exit status after Ctrl-C, as in shells."""
SPELT = {
    "β": "beta", "γ": "gamma", "τ": "tau", "δ": "delta", "η": "eta", "±": "+-", "−": "-",
    "–": "-", "—": "-", "×": "x", "≥": ">=", "≤": "<=", "→": "->", "…": "...", "†": "*",
    "’": "'", "“": '"', "”": '"', "·": ".", "√": "sqrt ", "Σ": "sum ", "²": "^2", "⁺": "+",
}  # fmt: skip
"""Replacements for signs that the console's encoding lacks; others become question marks."""


def run_command(command: Callable[[], int], *, stopped: Callable[[], str]) -> int:
    """Run an entry point and turn an error of this package or the system into one message.

    A console that is closed or lacks a letter does not end the command: what it cannot show is
    dropped.

    Args:
        command: returns the exit status.
        stopped: returns the message to print after a Ctrl-C that has none.

    Returns:
        The exit status: 2 for an error of this package or the system, 130 after Ctrl-C, 143 after
        SIGTERM, which does what Ctrl-C does.
    """
    with steady_console(), our_warnings(), terminated_as_interrupted() as termination:
        try:
            return command()
        except GclHardError as error:
            return _failed(str(error))
        except KeyboardInterrupt as stop:
            print(f"\n{str(stop) or stopped()}", file=sys.stderr)
            return TERMINATED if termination.came else STOPPED
        except Exception as error:
            message = refusal(error)
            if message is None:
                raise
            return _failed(message)


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
            Exit status: 0; 1 if no trial of a search has a score; 2 if something was wrong with the
            input, or a run failed; 130 after Ctrl-C.
        """
        words, stopped = sys.argv[1:] if arguments is None else [*arguments], "stopped"

        def command() -> int:
            nonlocal stopped
            check_extra(extra, f"gcl_hard.{name}")
            module = import_module(f"gcl_hard.commands.{name}")
            stopped = module.STOPPED
            status: int = module.command(words)
            return status

        return run_command(command, stopped=lambda: stopped)

    main.__module__, main.__qualname__ = f"gcl_hard.{name}", "main"
    return main


def _failed(message: str) -> int:
    """Print an error, and return the exit status."""
    if os.environ.get("RANK", "0") == "0":  # by one of torchrun's processes
        print(f"error: {message}", file=sys.stderr)
    return 2


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
    codecs.register_error("spelt", _spelt)
    sys.stdout, sys.stderr = (stream if stream is None else _Steady(stream) for stream in before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, _Steady):
                stream.flush()
        sys.stdout, sys.stderr = before


def _spelt(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    letters = error.object[error.start : error.end]
    return "".join(SPELT.get(letter, "?") for letter in letters), error.end


class _Steady(io.TextIOBase):
    """A stream that drops what it cannot write, also after its reader has gone."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        with suppress(AttributeError, ValueError, io.UnsupportedOperation):
            if not stream.encoding.lower().replace("-", "").startswith("utf"):
                stream.reconfigure(errors="spelt")

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except UnicodeEncodeError:  # a lone surrogate, from a name that is not UTF-8
            self.write(text.encode("utf-8", "replace").decode("utf-8", "replace"))
        except (OSError, ValueError):
            self._lose()
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except (OSError, ValueError):
            self._lose()

    def _lose(self) -> None:
        """Discard what is still buffered, and all that follows."""
        with suppress(OSError, ValueError, AttributeError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return str(getattr(self._stream, "encoding", None) or "utf-8")

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return getattr(self._stream, "errors", None)

    def isatty(self) -> bool:
        with suppress(ValueError):  # closed
            return bool(self._stream.isatty())
        return False

    def fileno(self) -> int:
        return int(self._stream.fileno())

    def writable(self) -> bool:
        return True
