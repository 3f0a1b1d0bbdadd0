"""``python -m gcl_hard.tune``: from a data set to the best settings of a method."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gcl_hard.cli import parse_tune, run_command

STOPPED = "stopped; trials that have ended are saved, the same command continues"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: arguments of the command line; ``sys.argv`` if None.

    Returns:
        Exit status: 0; 1 if no trial has a score; 2 if something was wrong with the input; 130
        after Ctrl-C.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)

    def command() -> int:
        options = parse_tune(given)
        from gcl_hard.tuning.api import tune

        return tune(options, given)

    return run_command(command, stopped=lambda: STOPPED)


if __name__ == "__main__":
    sys.exit(main())
