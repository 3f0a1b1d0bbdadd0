"""Draw a figure of the papers from results: PNG, SVG, and its numbers as CSV.

  fig1  accuracy against epochs, one line per method
  fig3  the sets of hard negatives of one anchor, in two dimensions
  fig5  the four losses on one encoder, against epoch
  beta  accuracy against β, and the effect of debiasing
  histograms  cosines of pairs of one label and of two

Example:
    python -m benchmarks.paper fig3 --dataset MUTAG -o figures
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.paper.accuracy import beta, fig1
from benchmarks.paper.anchor_sets import AXES, encoder, fig3
from benchmarks.paper.histograms import histograms
from benchmarks.paper.losses import fig5
from gcl_hard.commands.figures import parse_only
from gcl_hard.errors import InputError
from gcl_hard.experiments.record import RunResult
from gcl_hard.reports.runs import read, select, stem
from gcl_hard.reports.theme import Drawn, write

RESULTS = Path(__file__).parents[1] / "results/figures"
FIGURES: dict[str, Callable[..., Drawn]] = {
    "fig1": fig1, "fig3": fig3, "fig5": fig5, "beta": beta, "histograms": histograms,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: arguments of the command line; ``sys.argv`` if None.

    Returns:
        The exit status: 0, or 2 if results do not give the figure.
    """
    options = paper_parser().parse_intermixed_args(arguments)
    try:
        record, drawn = _draw(options)
        name = options.name or stem(options.figure, record.run.config)
        files = write(drawn, options.output, name)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(drawn.note)
    print(f"figure: {', '.join(map(str, files))}")
    return 0


def _draw(options: argparse.Namespace) -> tuple[RunResult, Drawn]:
    """The figure, and a run that it shows."""
    dataset = [f"dataset={options.dataset}"] if options.dataset else []
    results, only = options.results or [RESULTS], parse_only([*dataset, *options.only])
    if options.figure == "fig3":
        record, path = encoder(results, only)
        style = {name: getattr(options, name) for name in ("anchor", "projection", "threshold")}
        return record, fig3(record, path, **style)
    records = select(read(results), only, measured=options.figure in ("fig5", "histograms"))
    every = {"every": "method" in only} if options.figure == "fig5" else {}
    return records[0], FIGURES[options.figure](records, **every)


def paper_parser() -> argparse.ArgumentParser:
    """The parser of ``python -m benchmarks.paper``."""
    description, _, example = (__doc__ or "").partition("\n\nExample")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.paper", description=description, epilog=f"Example{example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("figure", choices=[*FIGURES])
    parser.add_argument(
        "results", nargs="*", type=Path, metavar="RESULTS",
        help="folders that python -m gcl_hard.bench wrote to; by default the committed results",
    )  # fmt: skip
    parser.add_argument("--dataset", metavar="NAME", help="the data set")
    parser.add_argument(
        "-o", "--output", required=True, type=Path, metavar="DIR", help="folder to write to"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="KEY=VALUE",
        help="show only results with these settings: method=hscl, seed=0; may be repeated",
    )  # fmt: skip
    parser.add_argument("--name", help="name of the files, without a suffix; chosen if not given")
    parser.add_argument(
        "--anchor", type=int, metavar="INDEX",
        help="fig3: number of the anchor, from 0; by default a typical anchor",
    )  # fmt: skip
    parser.add_argument(
        "--threshold", type=float, metavar="L",
        help="fig3: the cosine l; by default the paper's, or what a quarter of all pairs reach",
    )  # fmt: skip
    parser.add_argument(
        "--projection", choices=AXES, default="pca", help="fig3: onto two dimensions (pca)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
