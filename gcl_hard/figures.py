"""``python -m gcl_hard.figures``: from results to a figure of the papers."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gcl_hard.cli import run_command
from gcl_hard.reports.command import make, parse_figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, draw, print.

    Args:
        arguments: of the command line; ``sys.argv`` if None.

    Returns:
        Exit status: 0; 2 if something was wrong with the input; 130 after Ctrl-C.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)

    def command() -> int:
        files, note = make(parse_figures(given))
        print(note)
        print(f"figure: {', '.join(map(str, files))}")
        return 0

    return run_command(command, stopped=lambda: "stopped; every file that was written is whole")


if __name__ == "__main__":
    sys.exit(main())
