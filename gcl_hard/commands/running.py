"""A command from its start to its exit status: whatever the console and the system do."""

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
"""How signs are written where the console's encoding lacks them; others become question marks."""


def run_command(command: Callable[[], int], *, stopped: Callable[[], str]) -> int:
    """Run an entry point and turn an error of this package or the system into one message.

    A console that is closed, or lacks a letter, ends nothing: what cannot be shown is dropped.

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
            return _said(str(error))
        except KeyboardInterrupt as stop:
            print(f"\n{str(stop) or stopped()}", file=sys.stderr)
            return TERMINATED if termination.came else STOPPED
        except Exception as error:
            message = refusal(error)
            if message is None:
                raise
            return _said(message)


def entry_point(name: str, extra: str) -> Callable[..., int]:
    """The ``main`` of a command, whose module is imported when it is called.

    The module has ``command(arguments)``, which returns the exit status, and ``STOPPED``, which is
    printed after a Ctrl-C that has no message.

    Args:
        name: the command's.
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
        given, stopped = sys.argv[1:] if arguments is None else [*arguments], "stopped"

        def command() -> int:
            nonlocal stopped
            check_extra(extra, f"gcl_hard.{name}")
            module = import_module(f"gcl_hard.commands.{name}")
            stopped = module.STOPPED
            status: int = module.command(given)
            return status

        return run_command(command, stopped=lambda: stopped)

    main.__module__, main.__qualname__ = f"gcl_hard.{name}", "main"
    return main


def _said(message: str) -> int:
    if os.environ.get("RANK", "0") == "0":  # one of torchrun's processes says it
        print(f"error: {message}", file=sys.stderr)
    return 2


@contextmanager
def our_warnings() -> Iterator[None]:
    """Show a warning of this package as a line without the place in its source."""
    # torch-geometric uses torch.jit at import; the user cannot change that.
    warnings.filterwarnings("ignore", message=".*torch.jit.* is deprecated")
    usual = warnings.formatwarning

    def format_warning(message: Any, kind: Any, path: str, *of_line: Any) -> str:
        if Path(path).is_relative_to(Path(__file__).parents[1]):
            return f"warning: {message}\n"
        return usual(message, kind, path, *of_line)

    warnings.formatwarning = format_warning  # type: ignore[assignment]
    try:
        yield
    finally:
        warnings.formatwarning = usual


@contextmanager
def steady_console() -> Iterator[None]:
    """Standard output and error that take whatever is printed, and outlive who reads them."""
    before = sys.stdout, sys.stderr
    codecs.register_error("spelt", _spelt)
    sys.stdout, sys.stderr = (one if one is None else _Steady(one) for one in before)
    try:
        yield
    finally:
        for one in (sys.stdout, sys.stderr):
            if isinstance(one, _Steady):
                one.flush()
        sys.stdout, sys.stderr = before


def _spelt(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    letters = error.object[error.start : error.end]
    return "".join(SPELT.get(one, "?") for one in letters), error.end


class _Steady(io.TextIOBase):
    """A stream that drops what it cannot write, and works on after its reader has gone."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        with suppress(AttributeError, ValueError, io.UnsupportedOperation):
            if not stream.encoding.lower().replace("-", "").startswith("utf"):
                stream.reconfigure(errors="spelt")

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except UnicodeEncodeError:  # a lone surrogate, of a name that is no UTF-8
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
        """Send what is still buffered, and all that follows, nowhere."""
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
