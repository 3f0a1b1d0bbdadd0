"""The command ``figures``: from snapshots of training to a figure."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from gcl_hard.commands.parser import RaisingParser, add_version, program
from gcl_hard.errors import InputError
from gcl_hard.experiments.outside import import_domain

FIGURES = {
    "fig4": "share of anchors at which Assumption 1 holds, against epoch",
    "geometry": "alignment, uniformity, neural collapse and more, against epoch",
}
"""What each figure shows; each is a function of ``snapshot_figures``."""


def figures_parser() -> argparse.ArgumentParser:
    """The parser of ``python -m gcl_hard.figures``."""
    parser = RaisingParser(
        prog=program("gcl_hard.figures"),
        description="Draw what --diagnostics measured: PNG, SVG, and its numbers as CSV.\n"
        "Neither the data set nor a GPU is needed.\n\n"
        + "\n".join(f"  {name:9} {text}" for name, text in FIGURES.items()),
        epilog="Example:\n"
        f"  {program('gcl_hard.bench')} --dataset MUTAG --method hscl,hucl --diagnostics 1\n"
        f"  {program('gcl_hard.figures')} fig4 results -o figures --only dataset=MUTAG",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_version(parser)
    parser.add_argument("figure", choices=[*FIGURES], metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument(
        "results", nargs="+", type=Path, metavar="RESULTS",
        help="folders that python -m gcl_hard.bench wrote to (--output)",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", required=True, type=Path, metavar="DIR", help="folder to write to"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="KEY=VALUE",
        help="show only results with these settings: dataset=PTC_MR, method=hscl,hucl, seed=0; "
        "may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--domain", action="append", default=[], metavar="MODULE",
        help="module that registers the domain of results; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--name", default=None, help="name of the files, without a suffix; chosen if not given"
    )
    return parser


def parse_figures(arguments: Sequence[str]) -> argparse.Namespace:
    """Read a command line.

    Args:
        arguments: without the program's name.

    Returns:
        ``figure``, ``results``, ``output``, ``only`` (by setting, the values to keep) and ``name``.

    Raises:
        InputError: for anything that cannot be drawn; names the flag.

    Example:
        >>> parse_figures(["fig4", "results", "-o", "figures"]).output.as_posix()
        'figures'
    """
    options = figures_parser().parse_intermixed_args(list(arguments))
    for module in options.domain:
        import_domain(module)
    options.only = parse_only(options.only)
    return options


def parse_only(only: Iterable[str]) -> dict[str, list[str]]:
    """The values of ``--only``, by setting.

    Args:
        only: ``KEY=VALUE`` or ``KEY=VALUE,VALUE`` each.

    Returns:
        The values of each setting, spelt as a field.

    Raises:
        InputError: for anything else.

    Example:
        >>> parse_only(["method=hscl,hucl", "batch-size=128"])
        {'method': ['hscl', 'hucl'], 'batch_size': ['128']}
    """
    values: dict[str, list[str]] = {}
    for condition in only:
        key, _, text = condition.partition("=")
        texts = [value.strip() for value in text.split(",") if value.strip()]
        if not (key.strip() and texts):
            raise InputError(f"--only takes KEY=VALUE or KEY=VALUE,VALUE, got {condition!r}")
        values.setdefault(key.strip().replace("-", "_"), []).extend(texts)
    return values


STOPPED = "stopped; every file that was written is complete"


def command(arguments: Sequence[str]) -> int:
    """Run the command line, and return its exit status."""
    options = parse_figures(arguments)  # before the modules that draw are imported

    from gcl_hard.reports import snapshot_figures
    from gcl_hard.reports.runs import read, select, stem
    from gcl_hard.reports.theme import write

    records = select(read(options.results), options.only, measured=True)
    drawn = getattr(snapshot_figures, options.figure)(records)
    name = options.name or stem(options.figure, records[0].run.config)
    files = write(drawn, options.output, name)
    print(drawn.note)
    print(f"figure: {', '.join(map(str, files))}")
    return 0
