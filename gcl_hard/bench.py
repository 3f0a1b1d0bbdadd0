"""``python -m gcl_hard.bench``: from a data set to an accuracy."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gcl_hard.cli import parse_bench, run_command

STOPPED = "stopped before any run; the same command begins again"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: arguments of the command line; ``sys.argv`` if None.

    Returns:
        Exit status: 0; 2 if something was wrong with the input or a run failed; 130 after Ctrl-C.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)

    def command() -> int:
        options = parse_bench(given)
        from gcl_hard.experiments.bench import bench

        return bench(options, given)

    return run_command(command, stopped=lambda: STOPPED)


if __name__ == "__main__":
    sys.exit(main())
