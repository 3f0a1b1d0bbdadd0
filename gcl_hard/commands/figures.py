"""The command ``figures``: from results to a figure of the papers."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from gcl_hard.commands.parser import add_version
from gcl_hard.errors import InputError, unknown
from gcl_hard.experiments.outside import import_domain

FIGURES = {
    "fig1": "accuracy against epochs, one line per method",
    "fig4": "share of anchors at which Assumption 1 holds, against epoch",
    "fig5": "the four losses on one encoder, against epoch",
    "histograms": "cosines of pairs of one label and of two",
    "geometry": "alignment, uniformity, neural collapse and more, against epoch",
    "beta": "accuracy against β, and the effect of debiasing",
}
"""What each figure shows; each is a function of ``theory_figures``."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message.replace("argument ", "", 1))


def figures_parser() -> argparse.ArgumentParser:
    """The parser of ``python -m gcl_hard.figures``."""
    parser = _Parser(
        prog="python -m gcl_hard.figures",
        usage=f"python -m gcl_hard.figures {'|'.join(FIGURES)} RESULTS... -o DIR [...]",
        description="Draw a figure of the papers from results: PNG, SVG, and its numbers as CSV.\n"
        "Neither the data set nor a GPU is needed.\n\n"
        + "\n".join(f"  {name:11} {words}" for name, words in FIGURES.items()),
        epilog="Example:\n"
        "  python -m gcl_hard.bench --dataset MUTAG --method hscl,hucl --diagnostics 1\n"
        "  python -m gcl_hard.figures fig4 results -o figures --only dataset=MUTAG",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_version(parser)
    parser.add_argument("figure", nargs="?", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument(
        "results", nargs="*", type=Path, metavar="RESULTS",
        help="from python -m gcl_hard.bench: folders (--output), run files, result files (--json)",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="folder to write to")
    parser.add_argument(
        "--only", action="append", default=[], metavar="KEY=VALUE",
        help="show only results with these settings: dataset=PTC_MR, method=hscl,hucl, seed=0; "
        "may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--domain", action="append", default=[], metavar="MODULE",
        help="module that registers the domain of results; may be repeated",
    )  # fmt: skip
    parser.add_argument("--name", help="name of the files, without a suffix; chosen if not given")
    return parser


def parse_figures(arguments: Sequence[str]) -> argparse.Namespace:
    """Read a command line.

    Args:
        arguments: without the program's name.

    Returns:
        ``figure``, ``results``, ``output``, ``only`` (by setting, the values to keep) and ``name``.

    Raises:
        InputError: for anything that cannot be drawn; names the flag and the nearest ones.

    Example:
        >>> parse_figures(["fig4", "results", "-o", "figures"]).output.as_posix()
        'figures'
    """
    parser = figures_parser()
    options, surplus = parser.parse_known_intermixed_args(list(arguments))
    if surplus:
        known = [o for a in parser._actions for o in a.option_strings if o.startswith("--")]
        raise unknown("flag", surplus[0].split("=")[0], known)
    if options.figure is None:
        raise InputError(f"missing FIGURE: one of {', '.join(FIGURES)}; --help shows an example")
    if options.figure not in FIGURES:
        raise unknown("figure", options.figure, FIGURES)
    if not options.results:
        raise InputError(
            f"{options.figure}: missing RESULTS: give the folder that python -m gcl_hard.bench "
            f"wrote to (--output), run files or result files"
        )
    if options.output is None:
        raise InputError("no folder to write to: give -o DIR")
    if options.name is not None and (not options.name or Path(options.name).name != options.name):
        raise InputError(f"--name is a file's name without a folder, got {options.name!r}")
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

    from gcl_hard.reports import theory_figures
    from gcl_hard.reports.runs import read, select, stem
    from gcl_hard.reports.theme import write

    measured = options.figure not in ("fig1", "beta")
    records = select(read(options.results), options.only, measured=measured)
    every = {"every": "method" in options.only} if options.figure == "fig5" else {}
    drawn = getattr(theory_figures, options.figure)(records, **every)
    name = options.name or stem(options.figure, records[0].run.config)
    files = write(drawn, options.output, name)
    print(drawn.note)
    print(f"figure: {', '.join(map(str, files))}")
    return 0
