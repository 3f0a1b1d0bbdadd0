"""Draw a figure of a paper's idea: PNG, SVG, and its numbers as CSV.

Example:
    python -m benchmarks.paper fig3 --dataset MUTAG -o figures
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.paper.anchor_sets import AXES, encoder, fig3
from gcl_hard.commands.figures import parse_only
from gcl_hard.errors import InputError
from gcl_hard.reports.runs import stem
from gcl_hard.reports.theme import write

RESULTS = Path(__file__).parents[1] / "results/figures"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: arguments of the command line; ``sys.argv`` if None.

    Returns:
        The exit status: 0, or 2 if results do not give the figure.
    """
    options = paper_parser().parse_intermixed_args(arguments)
    try:
        only = parse_only([f"dataset={options.dataset}", *options.only])
        record, path = encoder(options.results or [RESULTS], only)
        drawn = fig3(
            record, path, anchor=options.anchor, projection=options.projection,
            threshold=options.threshold,
        )  # fmt: skip
        name = options.name or stem(options.figure, record.run.config)
        files = write(drawn, options.output, name)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(drawn.note)
    print(f"figure: {', '.join(map(str, files))}")
    return 0


def paper_parser() -> argparse.ArgumentParser:
    """The parser of ``python -m benchmarks.paper``."""
    description, _, example = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.paper", description=description, epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "figure", choices=["fig3"],
        help="fig3: the sets of hard negatives of one anchor, in two dimensions",
    )  # fmt: skip
    parser.add_argument(
        "results", nargs="*", type=Path, metavar="RESULTS",
        help="folders that python -m gcl_hard.bench --diagnostics N wrote to; by default the "
        "committed results",
    )  # fmt: skip
    parser.add_argument("--dataset", required=True, metavar="NAME", help="the data set")
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
        help="number of the anchor, from 0; by default a typical anchor",
    )  # fmt: skip
    parser.add_argument(
        "--threshold", type=float, metavar="L",
        help="the cosine l; by default the paper's, or what a quarter of all pairs reach",
    )  # fmt: skip
    parser.add_argument(
        "--projection", choices=AXES, default="pca", help="onto two dimensions (pca)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
