"""``python -m gcl_hard.transfer``: from encoders of molecules to scores on labelled sets."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gcl_hard.cli import parse_transfer, public_command, run_command

STOPPED = "stopped; what is finished is saved, the same command goes on"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: arguments of the command line; ``sys.argv`` if None.

    Returns:
        Exit status: 0; 2 if something was wrong with the input; 130 after Ctrl-C.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)

    def command() -> int:
        options = parse_transfer(given)
        from gcl_hard.experiments.transfer import transfer

        transfer(options, public_command(given, "transfer"))
        return 0

    return run_command(command, stopped=lambda: STOPPED)


if __name__ == "__main__":
    sys.exit(main())
