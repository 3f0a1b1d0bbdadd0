"""Command line of ``python -m gcl_hard.figures``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from gcl_hard.errors import InputError, unknown

FIGURES = {
    "fig1": "accuracy against epochs, a line a method",
    "fig3": "the sets of hard negatives of one anchor, in two dimensions",
    "fig4": "share of anchors at which Assumption 1 holds, against epoch",
    "fig5": "the four losses on one encoder, against epoch",
    "histograms": "cosines of pairs of one label and of two",
    "geometry": "alignment, uniformity, neural collapse and more, against epoch",
    "beta": "accuracy against β, and what debiasing adds",
}
"""By name, what they show; each is a module of this package."""


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text}") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, got {text}") from None


OWN: dict[str, dict[str, tuple[Callable[[str], Any], str, str]]] = {
    "fig3": {
        "seed": (_whole, "SEED", "whose encoder is shown; the first there is if not given"),
        "anchor": (_whole, "INDEX", "from 0; a usual one if not given"),
        "projection": (str, "NAME", "pca, tsne or mds"),
        "setting": (_number, "L", "threshold l, a cosine"),
    },
}
"""Flags of one figure: type, metavariable and help."""


@dataclass(frozen=True)
class FigureOptions:
    """What ``python -m gcl_hard.figures`` was asked for.

    Attributes:
        figure: of ``FIGURES``.
        results: files and folders.
        output: folder of what is written.
        only: of settings, the values whose results are shown; all if empty.
        name: of the files, without a suffix; None to make one.
        own: what ``draw`` of the figure takes beside the runs.
    """

    figure: str
    results: tuple[Path, ...]
    output: Path
    only: dict[str, list[str]] = field(default_factory=dict)
    name: str | None = None
    own: dict[str, Any] = field(default_factory=dict)


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
    parser.add_argument("figure", nargs="?", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument(
        "results", nargs="*", type=Path, metavar="RESULTS",
        help="of python -m gcl_hard.bench: folders (--output), records, result files (--json)",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="folder to write to; is made"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="KEY=VALUE",
        help="show only results with these settings: dataset=PTC_MR, method=hscl,hucl, seed=0; "
        "may be repeated",
    )  # fmt: skip
    parser.add_argument("--name", help="of the files, without a suffix; made if not given")
    for figure, flags in OWN.items():
        for name, (kind, metavar, words) in flags.items():
            parser.add_argument(f"--{name}", type=kind, metavar=metavar, help=f"{figure}: {words}")
    return parser


def parse_figures(arguments: Sequence[str]) -> FigureOptions:
    """Read a command line.

    Args:
        arguments: without the program's name.

    Returns:
        The options.

    Raises:
        InputError: for anything that cannot be drawn; names the flag and the nearest ones.

    Example:
        >>> parse_figures(["fig4", "results", "-o", "figures"]).output.as_posix()
        'figures'
    """
    parser = figures_parser()
    values, surplus = parser.parse_known_intermixed_args(list(arguments))
    if surplus:
        flags = [o for a in parser._actions for o in a.option_strings if o.startswith("--")]
        raise unknown("flag", surplus[0].split("=")[0], flags)
    if values.figure is None:
        raise InputError(f"which figure? one of {', '.join(FIGURES)}; --help shows an example")
    if values.figure not in FIGURES:
        raise unknown("figure", values.figure, FIGURES)
    if not values.results:
        raise InputError(
            f"{values.figure} of which results? give the folder that python -m gcl_hard.bench "
            f"wrote to (--output), records or result files"
        )
    if values.output is None:
        raise InputError("where to? give a folder: -o DIR")
    if values.name is not None and (not values.name or Path(values.name).name != values.name):
        raise InputError(f"--name is a file's name without a folder, got {values.name!r}")
    return FigureOptions(
        figure=values.figure, results=tuple(values.results), output=values.output,
        only=asked(values.only), name=values.name, own=_own(values),
    )  # fmt: skip


def asked(only: Iterable[str]) -> dict[str, list[str]]:
    """What ``--only`` was given, by setting.

    Args:
        only: ``KEY=VALUE`` or ``KEY=VALUE,VALUE`` each.

    Returns:
        The values of each setting, spelt as a field.

    Raises:
        InputError: for anything else.

    Example:
        >>> asked(["method=hscl,hucl", "batch-size=128"])
        {'method': ['hscl', 'hucl'], 'batch_size': ['128']}
    """
    found: dict[str, list[str]] = {}
    for item in only:
        key, _, text = item.partition("=")
        texts = [value.strip() for value in text.split(",") if value.strip()]
        if not (key.strip() and texts):
            raise InputError(f"--only takes KEY=VALUE or KEY=VALUE,VALUE, got {item!r}")
        found.setdefault(key.strip().replace("-", "_"), []).extend(texts)
    return found


def _own(values: argparse.Namespace) -> dict[str, Any]:
    """The figure's own flags that were given; another figure's are refused."""
    for figure, flags in OWN.items():
        given = {name: getattr(values, name) for name in flags}
        given = {name: value for name, value in given.items() if value is not None}
        if given and figure != values.figure:
            raise InputError(f"--{next(iter(given))} is of {figure}, and not of {values.figure}")
        if given:
            return given
    return {}
