"""Pages of results from templates, with CSV, LaTeX and figures next to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gcl_hard.evaluation.metrics import metric
from gcl_hard.experiments.record import ACCURACY
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import HEAD
from gcl_hard.reports import tables
from gcl_hard.reports.frame import Results, set_name
from gcl_hard.reports.html import all_rows, write_html
from gcl_hard.reports.rendering import check_target, rendered, write_files
from gcl_hard.reports.rows import Row, controls, rows

CAPTIONS = {
    "accuracy": "means with 95 % intervals",
    "ranks": "average ranks over data sets; a bar joins ranks within the critical difference",
    "beta": "means against β",
    "curve": "monitoring: nearest neighbours among training images, which the encoder has seen",
    "part": "differences from scl on a part of the test items",
    "learning": "means against the size of the training data",
    "gain": "what hardness adds at equal other settings, with 95 % intervals",
}
"""What figures show."""

Section = tuple[str, str]
"""A protocol and the name of a metric, whose numbers never share a table."""


def write(
    results: Results, path: Path, *, command: str, quick: bool, shown: Sequence[Row] | None = None
) -> list[Path]:
    """Write the page of results, with its CSV, LaTeX and figures next to it.

    Args:
        results: results of a command.
        path: the page, NAME.html, which has all in one file; or NAME.md, beside which are NAME.csv,
            NAME.tex and NAME-<protocol>-<figure>.png, or NAME-<protocol>-<metric>-<figure>.png
            where a protocol has scores by several metrics.
        command: the command that made the results.
        quick: whether they come from a smoke run.
        shown: their rows, where these are made already.

    Returns:
        The files written, the page first.

    Raises:
        InputError: if the path cannot be written to, or a smoke run would replace results.
    """
    from gcl_hard.reports.grid import gain_figure, gains
    from gcl_hard.reports.result_figures import FIGURES

    check_target(path, quick=quick)
    shown = rows(results) if shown is None else shown
    sections = tables.sections(shown)
    stem = "page" if path.suffix == ".html" else path.stem
    figures, files = dict[Section, dict[str, str]](), dict[Path, Any]()
    for section, section_rows in sections.items():
        drawn = {name: draw(section_rows) for name, draw in FIGURES.items()}
        if not figures and len({config.protocol for config in results.shown}) == 1:
            drawn["gain"] = gain_figure(gains(results))
        named = {"accuracy": "accuracy" if section[1] == ACCURACY else "scores",
                 "part": metric(section[1]).mask}  # fmt: skip
        figures[section] = {
            name: f"{stem}-{slug(section, sections)}-{named.get(name, name)}.png"
            for name, figure in drawn.items()
            if figure is not None
        }
        files |= {path.with_name(file): drawn[name] for name, file in figures[section].items()}
    text = page(results, shown, command=command, quick=quick, figures=figures)
    if path.suffix == ".html":
        return write_html(path, text, files, all_rows(shown))
    texts = {
        path: text,
        path.with_suffix(".csv"): tables.to_csv(shown),
        path.with_suffix(".tex"): "% A smoke run: not reportable.\n" * quick
        + tables.to_latex(shown),
    }
    return write_files(texts, files)


def slug(section: Section, sections: Mapping[Section, Any]) -> str:
    """A section in the names of files: its protocol, with the metric where there are several."""
    protocol, name = section
    several = [other for other, _ in sections].count(protocol) > 1
    return (f"{protocol}-{name}" if several else protocol).replace(" ", "-")


def page(
    results: Results, shown: Sequence[Row], *, command: str, quick: bool,
    figures: Mapping[Section, Mapping[str, str]],
) -> str:  # fmt: skip
    """The page of results, as Markdown for GitHub and MkDocs.

    Args:
        results: results of a command.
        shown: its rows.
        command: the command that made them.
        quick: whether they come from a smoke run, which the page then says first.
        figures: of each section, the files of its figures, by the keys of :data:`CAPTIONS`.
    """
    from gcl_hard.reports.grid import choice_lines

    return rendered(
        "results.md.j2",
        title=title(results),
        command=command,
        results=results,
        quick=quick,
        item=experiment_of(results.shown[0]).item if results.shown else "item",
        sizes=_sizes(results),
        compared=_compared(shown),
        sections=[
            section_context(results, section_rows, figures.get(section, {}))
            for section, section_rows in tables.sections(shown).items()
        ],
        origin=origin(results),
        tried=choice_lines(results) if results.shorter else None,
        shorter=_shorter(results),
    )


def title(results: Results) -> str:
    """The data sets of a page, their protocols, and the settings by which it differs from others.

    These are the settings of several values, or else the first ones that were stated.
    """
    trained = [config for config in results.configs if not config.is_baseline]
    stated = dict.fromkeys(name for config in trained for name in config.stated())
    values = {name: tables.values(trained, name) for name in stated if name not in TITLED}
    several = {name: text for name, text in values.items() if "," in text}
    settings = [*(several or values).items()][:MOST_IN_TITLE]
    sets = [*dict.fromkeys(set_name(config) for config in results.configs)]
    protocols = dict.fromkeys(config.protocol for config in results.configs)
    shown = sets if len(sets) <= MOST_IN_TITLE else [f"{len(sets)} data sets"]
    parts = [
        " and ".join(protocols),
        *(f"{name.replace('_', ' ')} {text}" for name, text in settings),
    ]
    return f"Results on {', '.join(shown)}: {'; '.join(parts)}"


TITLED, MOST_IN_TITLE = {*HEAD, "beta"}, 3


def _shorter(results: Results) -> dict[str, Any]:
    """Seeds, epochs and other changed settings of the runs that choose settings, as text."""
    runs = [*results.shorter.values()]
    changed = {
        name
        for config, run in results.shorter.items()
        for name, value in run.config.values.items()
        if value != getattr(config, name)
    }
    changed |= {"epochs", "subset"}.intersection(*(run.config.values for run in runs))
    values = {name: tables.values((run.config for run in runs), name) for name in sorted(changed)}
    seeds = dict.fromkeys(run.seed for run in runs)
    return {"seed": " and ".join(map(str, seeds))} | {k: v for k, v in values.items() if v}


def _compared(shown: Sequence[Row]) -> list[dict[str, Any]]:
    """Tables over all protocols, of each metric with a comparison."""
    return [
        {"metric": metric(name), "significance": significance}
        for name, metric_rows in tables.by_metric(shown).items()
        if not (significance := tables.significance_table(metric_rows)).empty
    ]  # fmt: skip


def section_context(
    results: Results, section_rows: Sequence[Row], figures: Mapping[str, str]
) -> dict[str, Any]:
    """Template variables of the rows of a protocol and metric."""
    from gcl_hard.reports.grid import gain_table, gains, negatives_table

    section = protocol, name = section_rows[0].protocol, section_rows[0].metric
    experiment, measure = experiment_of(results.shown[0]), metric(name)
    source, means = experiment.published_means(name, max(row.sets for row in section_rows))
    chosen = [
        selection
        for selection in results.selections
        if (selection.candidates[0].protocol, selection.scores.metric) == section
    ]
    further = {
        "means": tables.difference_table([row for row in section_rows if row.sets > 1]),
        "published": tables.text_frame(
            ["", measure.label], [(label, measure.text(mean)) for label, mean in means.items()]
        ),
        "differences": tables.difference_table([row for row in section_rows if row.sets == 1]),
        "negatives": negatives_table(results, protocol, tables.names(section_rows, "dataset")),
        "gains": gain_table(gains(results)) if "gain" in figures else None,
        "choices": tables.choice_table(chosen) if chosen else None,
    }
    single = [record for row in section_rows if row.sets == 1 for record in row.records]
    scores = tables.score_tables(section_rows)
    scored = measure.label + tables.LESS * (not measure.higher)
    return {
        "protocol": protocol, "scored": scored, "scores": scores, "source": source,
        "figures": {file: CAPTIONS[name] for name, file in figures.items()},
        "controls": ", ".join(controls(section_rows)),
        "remarks": [*tables.remarks(section_rows), *experiment.page_remarks(single)],
        "legend": tables.legend_of(
            section_rows, *scores, *further.values(), heads=(protocol, scored)
        ),
    } | further  # fmt: skip


def _sizes(results: Results) -> list[dict[str, Any]]:
    """Data sets with a training and a test part, as they were used."""
    known: dict[tuple[Any, ...], dict[str, Any]] = {}
    for config in results.configs:
        for data in (r.data for r in results.of(config) if {"n_train", "n_test"} <= r.data.keys()):
            sizes = known.setdefault((set_name(config), data["n_train"], data["n_test"]), {})
            sizes |= {"dataset": set_name(config)} | {k: data[k] for k in SIZES if k in data}
    return [*known.values()]


SIZES = ("n_train", "n_test", "n_official", "size", "stem")


def origin(results: Results) -> dict[str, Any] | None:
    """Dates, devices, versions and settings of the results."""
    records = [*results.records.values()]
    if not records:
        return None
    versions: dict[str, set[str]] = {}
    for record in records:
        for package, version in record.versions.items():
            versions.setdefault(package, set()).add(version)
    days = sorted(record.finished[:10] for record in records)
    asked = dict.fromkeys((*results.configs, *results.shorter))
    trained = [config for config in asked if not config.is_baseline]
    return {
        "records": len(records),
        "days": dict.fromkeys((days[0], days[-1])),
        "sources": len(versions.pop("source", ())),
        "without_source": sum("source" not in record.versions for record in records),
        "devices": sorted({record.device for record in records}),
        "versions": {name: sorted(releases) for name, releases in versions.items()},
        "settings": {
            name.replace("_", "-"): value
            for name in vars(next(iter(asked)))
            if name not in HEAD and (value := tables.values(trained, name))
        },
    }
