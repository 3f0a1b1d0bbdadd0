"""``python -m gcl_hard.bench``: from a data set to an accuracy."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gcl_hard.experiments.choose import backend_for
from gcl_hard.experiments.command import answer, shown
from gcl_hard.experiments.options import parse_bench

STOPPED = "stopped; finished seeds are saved, the same command{} continues"
QUICK = "A quick look, with few seeds and epochs: these are not results."


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, run, print.

    Args:
        arguments: of the command line; ``sys.argv`` if None.

    Returns:
        Exit status: 0; 2 if something was wrong with the input or a seed diverged; 130 after
        Ctrl-C.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)

    def work() -> int:
        options = parse_bench(given)
        from rich.console import Console

        from gcl_hard.experiments.lines import lines
        from gcl_hard.experiments.reporting.terminal import drawing
        from gcl_hard.experiments.run import run

        console = Console()
        outcome = run(options, console)
        if outcome.path is not None:
            if options.quick:
                console.print(QUICK, style="bold yellow")
            console.print(drawing(lines(outcome.results)))
            written = [outcome.path]
            if options.report is not None:
                from gcl_hard.experiments.reporting.page import write

                command, quick = shown(given), options.quick
                pages = write(outcome.results, options.report, command=command, quick=quick)
                written += map(str, pages)
            console.print(f"results: {', '.join(written)}", highlight=False, soft_wrap=True)
        for failure in outcome.failures:
            print(f"error: {failure}", file=sys.stderr)
        return 2 if outcome.failures else 0

    return answer(
        work, on_stop=lambda: STOPPED.format(" with --resume" * (backend_for(given) == "images"))
    )


if __name__ == "__main__":
    sys.exit(main())
