"""The page of results, and the files and figures beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gcl_hard.errors import InputError
from gcl_hard.experiments.lines import Line, lines
from gcl_hard.experiments.reporting.csv_file import to_csv
from gcl_hard.experiments.reporting.explained import SPLIT_TESTS, TESTS, seen
from gcl_hard.experiments.reporting.findings import findings
from gcl_hard.experiments.reporting.latex import to_latex
from gcl_hard.experiments.reporting.markdown import choices, markdown_table, marks, to_markdown
from gcl_hard.experiments.reporting.origin import origin
from gcl_hard.experiments.reporting.pick import protocols
from gcl_hard.experiments.reporting.rows import DIFFERENCE_HEADS, rows_of_tests
from gcl_hard.experiments.reporting.words import (
    count,
    of_images,
    test_name,
    training_part,
    values,
)
from gcl_hard.experiments.reporting.written import write_files
from gcl_hard.experiments.results import Results, Selection
from gcl_hard.experiments.runs import plan

ALT = {
    "accuracy": "Mean accuracies with 95 % intervals, protocol {}",
    "ranks": "Average ranks over data sets with the critical difference, protocol {}",
    "beta": "Accuracy against β, protocol {}",
    "curve": "Monitoring accuracy against epoch, protocol {}",
}

CAPTION = {
    "curve": "Monitoring, not results: the 200 nearest neighbours (cosine; all, where they are "
    "fewer) among training images, asked for training images that the bank leaves out. The encoder "
    "has seen all of them, and a label-aware one their labels; no test image is looked at.",
}

QUICK = "**A quick look:"


def write(results: Results, path: Path, *, command: str, quick: bool) -> list[Path]:
    """Write the page, and its CSV, LaTeX and figures beside it.

    Args:
        results: of a command.
        path: of the page, NAME.md; the rest is NAME.csv, NAME.tex and NAME-<protocol>-<figure>.svg.
        command: that made the results.
        quick: whether they are a quick look.

    Returns:
        What was written, the page first.

    Raises:
        InputError: if the place cannot be written to; names it.
    """
    # matplotlib, only where it draws
    from gcl_hard.experiments.reporting.figures import FIGURES

    check_target(path, quick=quick)
    found = lines(results)
    drawn = {
        f"{protocol}-{name}": figure
        for protocol in protocols(found)
        for name, draw in FIGURES.items()
        if (figure := draw(found, protocol)) is not None
    }
    names = {name: f"{path.stem}-{name}.svg" for name in drawn}
    table = "% A quick look: not results.\n" * quick + to_latex(found)
    texts = {
        path: page(results, command=command, quick=quick, figures=names),
        path.with_suffix(".csv"): to_csv(found),
        path.with_suffix(".tex"): table,
    }
    return write_files(texts, {path.with_name(names[n]): figure for n, figure in drawn.items()})


def check_target(path: Path, *, quick: bool) -> None:
    """Refuse to put a quick look in the place of results.

    Args:
        path: of the page to be written.
        quick: whether it will be a quick look.

    Raises:
        InputError: if there is a page of results.
    """
    try:
        there = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    if quick and there.strip() and QUICK not in there:
        raise InputError(f"{path} holds results: give a quick look another --report")


def page(results: Results, *, command: str, quick: bool, figures: Mapping[str, str]) -> str:
    """The page, as Markdown for GitHub and MkDocs.

    Args:
        results: of a command.
        command: that made them.
        quick: whether they are a quick look, which the page then says first.
        figures: relative paths by name, ``<protocol>-accuracy``, ``-ranks`` or ``-beta``.

    Returns:
        The text; every sentence about the numbers is made from them.
    """
    found = lines(results)
    parts = ["# Results", _quick(results)] if quick else ["# Results"]
    parts += [
        _number(results),
        _open(results),
        f"```bash\n{command}\n```",
        f"## What {'this quick look' if quick else 'the comparison'} shows",
        "\n".join(findings(found)) or "Nothing is finished yet.",
    ]
    for protocol in protocols(found):
        own = [line for line in found if line.protocol == protocol]
        chosen = [s for s in results.selections if s.outer[0].cell.protocol == protocol]
        parts += _protocol(own, protocol, figures, chosen)
    return (
        "\n\n".join(
            [*parts, SPLIT_TESTS if of_images(found[0].protocol) else TESTS, origin(results)]
        )
        + "\n"
    )


def _quick(results: Results) -> str:
    epochs = values((c for c in results.cells if c.encoders), "epochs")
    return (
        f"> {QUICK} {count(len(results.seeds), 'seed')}, {epochs or 'no'} epochs; not "
        f"results.** Nothing below says how good a method is."
    )


def _number(results: Results) -> str:
    if all(of_images(c.protocol) for c in results.cells):
        return (
            f"A number is an accuracy in percent on the test images: the mean ± standard "
            f"deviation over {count(len(results.seeds), 'seed')}. A seed varies weights, views and "
            f"probe; the split and the order of batches are the same for all. No epoch is chosen: "
            f"an encoder is what it is after its last. {_images(results)}"
        ).rstrip()
    folds = values(results.cells, "folds")
    return (
        f"A number is an accuracy in percent: the mean ± standard deviation over "
        f"{count(len(results.seeds), 'seed')}. A seed varies the encoder and the folds; the order "
        f"of batches is the same for all. Its accuracy is the mean over {folds} test folds of an "
        f"SVM on the embeddings, whose C is chosen inside each training fold (nested "
        f"cross-validation). No epoch is chosen: an encoder is what it is after its last."
    )


def _images(results: Results) -> str:
    """Sizes of the sets, and which of them are not whole."""
    said = []
    for name in dict.fromkeys(cell.dataset for cell in results.cells):
        known = [r.data for job, r in results.records.items() if job.cell.dataset == name]
        for n_train, n_test in dict.fromkeys((d["n_train"], d["n_test"]) for d in known):
            official = known[0].get("n_official")
            part = official is not None and n_train < official
            of = f" of {official:,}" if part else ""
            seen = {f"views of {d['size']} pixels, stem {d['stem']}" for d in known if "stem" in d}
            images = f"{name}: {n_train:,}{of} training and {n_test:,} test images"
            said.append(", ".join([images, *sorted(seen)]))
    return f"{'; '.join(said)}." if said else ""


def _open(results: Results) -> str:
    n, n_open = len(plan(results.cells, results.seeds, select=results.select)), len(results.open)
    if not n_open:
        return f"All {n} runs (a seed of a setting each) are finished, by this command:"
    return f"{n_open} of {n} runs (a seed of a setting each) are open. This command finishes them:"


def _protocol(
    own: Sequence[Line], protocol: str, figures: Mapping[str, str], chosen: Sequence[Selection]
) -> list[str]:
    parts = [f"## Protocol `{protocol}`", seen(own, protocol), *to_markdown(own)]
    parts.append("\n".join(f"- {note}" for note in marks(own)))
    if tested := rows_of_tests(own):
        heads = (DIFFERENCE_HEADS.dataset, DIFFERENCE_HEADS.method, *DIFFERENCE_HEADS[3:])
        body = [(row.dataset, row.method, *row[3:]) for row in tested]
        parts.append(
            '<details markdown="1">\n<summary>Differences from ucl and scl, with p-values'
            f"</summary>\n\nPoints; ns: not significant. p of the {test_name(protocol)}, in "
            "brackets of Wilcoxon's test over seeds, both Holm-corrected.\n\n"
            f"{markdown_table(heads, body, texts=2)}\n\n</details>"
        )
    for name, alt in ALT.items():
        if path := figures.get(f"{protocol}-{name}"):
            parts.append(f"![{alt.format(protocol)}]({path})")
            parts += [CAPTION[name]] if name in CAPTION else []
    if chosen:
        parts += [f"What the {training_part(protocol)} chose, all seeds:", choices(chosen)]
    return parts
