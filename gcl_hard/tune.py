"""``python -m gcl_hard.tune``: from a data set to the best settings of a method."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gcl_hard.cli import answer, shown
from gcl_hard.tuning.options import parse_tune

STOPPED = "stopped; trials that have ended are saved, the same command continues"


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, search, print.

    Args:
        arguments: of the command line; ``sys.argv`` if None.

    Returns:
        Exit status: 0; 1 if no trial has a score; 2 if something was wrong with the input; 130
        after Ctrl-C.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)

    def work() -> int:
        options = parse_tune(given)
        from rich.console import Console

        from gcl_hard.reports import study_page
        from gcl_hard.tuning.outcome import AllFailed
        from gcl_hard.tuning.run import run

        console = Console()
        try:
            outcome, path = run(options, console)
        except AllFailed as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        console.print(study_page.terminal(outcome), highlight=False)
        written = [str(path)]
        if options.report is not None:
            command = shown(given, door="tune")
            written += map(str, study_page.write(outcome, options.report, command=command))
        line = f"results: {', '.join(written)}"
        console.print(line, highlight=False, markup=False, soft_wrap=True)
        return 0

    return answer(work, on_stop=lambda: STOPPED)


if __name__ == "__main__":
    sys.exit(main())
