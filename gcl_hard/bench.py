"""``python -m gcl_hard.bench``: from a data set to an accuracy."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gcl_hard.experiments.choose import backend_for
from gcl_hard.experiments.command import answer, shown
from gcl_hard.experiments.options import BenchOptions, parse_bench

if TYPE_CHECKING:
    from gcl_hard.reports.frame import Results

STOPPED = "stopped; finished seeds are saved, the same command{} continues"
QUICK = "A smoke run with few seeds and epochs: not reportable."


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

        from gcl_hard.experiments.run import run

        console = Console()
        if options.search is not None:
            from gcl_hard.experiments.recipe.run import search

            search(options, console, shown(given))
            return 0
        outcome = run(options, console)
        if outcome.path is not None:
            if options.quick:
                console.print(QUICK, style="bold yellow")
            console.print(_shown(options, outcome.results), highlight=options.table != "recipe")
            written = [outcome.path]
            if options.report is not None:
                command, quick = shown(given), options.quick
                write = _writer(options)
                pages = write(outcome.results, options.report, command=command, quick=quick)
                written += map(str, pages)
            console.print(f"results: {', '.join(written)}", highlight=False, soft_wrap=True)
        for failure in outcome.failures:
            print(f"error: {failure}", file=sys.stderr)
        return 2 if outcome.failures else 0

    return answer(
        work, on_stop=lambda: STOPPED.format(" with --resume" * (backend_for(given) == "images"))
    )


def _shown(options: BenchOptions, results: Results) -> Any:
    """Results as a terminal shows them."""
    if options.table == "recipe":
        from gcl_hard.reports.recipe import RecipeTable, terminal

        return terminal(RecipeTable(results, quick=options.quick))
    from gcl_hard.reports import rows, tables

    return tables.terminal(rows.rows(results))


def _writer(options: BenchOptions) -> Any:
    """What writes the page."""
    if options.table == "recipe":
        from gcl_hard.reports import recipe_page

        return recipe_page.write
    from gcl_hard.reports import page

    return page.write


if __name__ == "__main__":
    sys.exit(main())
