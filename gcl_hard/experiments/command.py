"""What every door does around its work: errors as one message and an exit status."""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence

from gcl_hard.errors import GclHardError

SECRETS = (
    (re.compile(r"(://[^:/@\s]*:)\S*@"), r"\1***@"),
    (re.compile(r"([?&](?:password|passwd)=)[^&\s]*"), r"\1***"),
)
"""Passwords in a URL, and what is left of them."""
STOPPED = 130
"""Exit status after Ctrl-C, as shells have it."""


def answer(work: Callable[[], int], *, on_stop: Callable[[], str]) -> int:
    """Do a door's work.

    Args:
        work: returns the exit status.
        on_stop: gives what to say after Ctrl-C.

    Returns:
        The exit status: 2 for an error of ours, which is printed as one message.
    """
    # torch-geometric uses torch.jit at import; the person at the keyboard cannot help it.
    warnings.filterwarnings("ignore", message=".*torch.jit.* is deprecated")
    try:
        return work()
    except GclHardError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\n{on_stop()}", file=sys.stderr)
        return STOPPED


def shown(arguments: Sequence[str], door: str = "bench") -> str:
    """The command that a page of results shows: it runs what is open, on anybody's machine.

    Args:
        arguments: of the command.
        door: its name.

    Returns:
        The command, without a machine's data folder, passwords, and what only concerns the caller.

    Example:
        >>> shown(["--table", "2", "--data-dir", "a/b", "--json=c.json", "--force"])
        'python -m gcl_hard.bench --table 2 --data-dir DIR'
    """
    words, items = ["python", "-m", f"gcl_hard.{door}"], iter(arguments)
    for item in items:
        flag, given, _ = item.partition("=")
        if flag in ("--data-dir", "--json"):
            if not given:
                next(items, None)
            words += ["--data-dir", "DIR"] * (flag == "--data-dir")
        elif flag not in ("--report-only", "--force"):
            words.append(item)
    return shlex.join(map(without_password, words))


def without_password(text: str) -> str:
    """A URL, or any text that may be one, as it may be shown.

    Example:
        >>> without_password("postgresql://me:secret@host/db")
        'postgresql://me:***@host/db'
    """
    for pattern, left in SECRETS:
        text = pattern.sub(left, text)
    return text
