"""Pages of results from templates, with CSV, LaTeX and figures next to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gcl_hard.evaluation.metrics import Metric, metric
from gcl_hard.reports import molecules, tables
from gcl_hard.reports.frame import LEVEL, Results
from gcl_hard.reports.html import all_rows, write_html
from gcl_hard.reports.rendering import TEMPLATES, check_target, line, rendered, write_files
from gcl_hard.reports.rows import Row, rows
from gcl_hard.reports.splits import fold_name
from gcl_hard.runs.record import ACCURACY
from gcl_hard.settings.base import HEAD

OF_DOMAIN = {"molecules": molecules}
"""What pages of a domain have beside those of all."""
ALT = molecules.ALT | {
    "accuracy": "Mean accuracies with 95 % intervals",
    "scores": "Means with 95 % intervals",
    "ranks": "Average ranks over data sets with the critical difference",
    "beta": "{title} against β",
    "curve": "Monitoring accuracy against epoch",
    "gain": "What hardness adds at equal other settings, with 95 % intervals",
    "grid": "{title} and effective negatives over temperature and β",
}
"""What figures of results show, of a metric with a title."""


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
    from gcl_hard.reports.grid import gain_figure, gains, grid, grid_figure
    from gcl_hard.reports.result_figures import FIGURES

    check_target(path, quick=quick)
    shown = rows(results) if shown is None else shown
    sections = tables.sections(shown)
    beside = _beside(results)
    draws = FIGURES | (beside.FIGURES if beside else {})
    drawn = {
        path.with_name(f"{path.stem}-{slug(key, sections)}-{figure_name(name, key)}.png"): figure
        for key, own in sections.items()
        for name, draw in draws.items()
        if (figure := draw(own)) is not None
    }
    if len({config.protocol for config in results.shown}) == 1:
        of_hardness = {"grid": grid_figure(grid(results)), "gain": gain_figure(gains(results))}
        drawn |= {
            path.with_name(f"{path.stem}-{slug(next(iter(sections)), sections)}-{name}.png"): figure
            for name, figure in of_hardness.items()
            if figure is not None
        }
    contexts = {key: section_context(results, shown, key) for key in sections}
    text = page(results, shown, command=command, quick=quick, figures=[f.name for f in drawn])
    if path.suffix == ".html":
        return write_html(path, text, drawn, all_rows(shown))
    captions = {key: line("caption.tex.j2", **one) for key, one in contexts.items()}
    texts = {
        path: text,
        path.with_suffix(".csv"): tables.to_csv(shown),
        path.with_suffix(".tex"): "% A smoke run: not reportable.\n" * quick
        + tables.to_latex(shown, captions),
    }
    return write_files(texts, drawn)


def _beside(results: Results) -> Any:
    """What the pages of a domain have beside those of all; None for nothing."""
    return next((OF_DOMAIN.get(config.domain) for config in results.shown), None)


Section = tuple[str, str]
"""A protocol and the name of a metric, whose numbers never share a table."""


def slug(section: Section, sections: Iterable[Section]) -> str:
    """A section in the names of files: its protocol, with the metric where there are several."""
    protocol, name = section
    several = [one for one, _ in sections].count(protocol) > 1
    return (f"{protocol}-{name}" if several else protocol).replace(" ", "-")


def figure_name(name: str, section: Section) -> str:
    """The name of a figure of a section."""
    return "scores" if name == "accuracy" and section[1] != ACCURACY else name


def page(
    results: Results, shown: Sequence[Row], *, command: str, quick: bool, figures: Sequence[str]
) -> str:
    """The page of results, as Markdown for GitHub and MkDocs.

    Args:
        results: results of a command.
        shown: its rows.
        command: the command that made them.
        quick: whether they come from a smoke run, which the page then says first.
        figures: file names, ``NAME-<protocol>-<figure>.png``.
    """
    from gcl_hard.reports.grid import choice_lines, gain_table, gains

    sections, kinds = tables.sections(shown), [type(config) for config in results.shown]
    metrics = {name: metric(name) for _, name in sections}
    gaps = sorted((row.gap, f"{row.dataset} {row.method}") for row in shown if row.gap is not None)
    return rendered(
        "results.md.j2",
        title=title(results),
        command=command,
        results=results,
        quick=quick,
        words=words(kinds[0].domain if kinds else ""),
        item=kinds[0].item if kinds else "item",
        unit=kinds[0].unit if kinds else "",
        scored=" or ".join(map(tables.in_words, metrics)),
        share=any(how.share for how in metrics.values()),
        means=any(how.each for how in metrics.values()),
        split=any(config.n_scores == 1 for config in results.shown),
        validated=any(config.has_validation for config in results.shown),
        epochs=tables.values((c for c in results.shown if c.encoders), "epochs"),
        folds=tables.values(results.shown, "n_scores"),
        fold=fold_name(shown),
        shares=_shares(shown),
        sizes=_sizes(results),
        compared=_compared(shown),
        gaps=gaps,
        wilcoxon=wilcoxon_limit(shown),
        protocols=[
            section_context(results, shown, key)
            | {"figures": _figures_of(figures, slug(key, sections), metrics[key[1]])}
            for key in sections
        ],
        origin=origin(results),
        gains=gain_table(gains(results)),
        tried=choice_lines(results) if results.shorter else None,
        undecided=[
            f"{one.candidates[0].method} on {one.candidates[0].set_name} "
            f"({one.finished} of {len(one.candidates)})"
            for one in results.undecided
        ],
        shorter=_shorter(results),
    )


def title(results: Results) -> str:
    """The data sets of a page, their protocols, and the settings by which it differs from others.

    These are the settings of several values, or else the first ones that were stated.
    """
    trained = [config for config in results.configs if not config.is_baseline]
    stated = dict.fromkeys(name for config in trained for name in config.stated())
    found = {name: tables.values(trained, name) for name in stated if name not in TITLED}
    several = {name: text for name, text in found.items() if "," in text}
    settings = [*(several or found).items()][:MOST_IN_TITLE]
    sets = [*dict.fromkeys(config.set_name for config in results.configs)]
    protocols = dict.fromkeys(config.protocol for config in results.configs)
    shown = sets if len(sets) <= MOST_IN_TITLE else [f"{len(sets)} data sets"]
    parts = [
        " and ".join(protocols),
        *(f"{name.replace('_', ' ')} {text}" for name, text in settings),
    ]
    return f"Results on {', '.join(shown)}: {'; '.join(parts)}"


TITLED, MOST_IN_TITLE = {*HEAD, "beta"}, 3


def _shorter(results: Results) -> dict[str, Any]:
    """The seeds, epochs and whatever else is not their own of the runs that settings are chosen by,
    as text.
    """
    runs = [*results.shorter.values()]
    changed = {
        name
        for config, run in results.shorter.items()
        for name, value in run.config.values.items()
        if value != getattr(config, name)
    }
    changed |= {"epochs", "subset"}.intersection(*(run.config.values for run in runs))
    found = {name: tables.values((run.config for run in runs), name) for name in sorted(changed)}
    seeds = dict.fromkeys(run.seed for run in runs)
    return {"seed": " and ".join(map(str, seeds))} | {k: v for k, v in found.items() if v}


def words(domain: str) -> str:
    """The template of what pages say of a domain."""
    own = f"domains/{domain}.j2"
    return own if (TEMPLATES / own).is_file() else "domains/any.j2"


def _compared(shown: Sequence[Row]) -> list[dict[str, Any]]:
    """Tables over all protocols, of each metric with a comparison."""
    found = []
    for name, own in tables.by_metric(shown).items():
        how, significance = metric(name), tables.significance_table(own)
        if not significance.empty:
            found.append({
                "how": how, "most": "highest" if how.higher else "lowest",
                "significance": significance, "baselines": tables.baseline_table(own),
                "protocols": tables.protocol_table(own), "optimism": tables.optimism_table(own),
            })  # fmt: skip
    return found


def _figures_of(figures: Iterable[str], section: str, how: Metric) -> dict[str, str]:
    """The figures of a section by their file names, and what they show."""
    title = f"{how.title[0].upper()}{how.title[1:]}"
    found = {}
    for file in figures:
        stem, _, name = Path(file).stem.rpartition("-")
        if stem.endswith(f"-{section}"):
            found[file] = ALT[name].format(title=title)
    return found


def section_context(results: Results, shown: Sequence[Row], section: Section) -> dict[str, Any]:
    """Template variables of a protocol and metric."""
    from gcl_hard.reports.grid import negatives_table

    protocol, name = section
    own, how = [row for row in shown if (row.protocol, row.metric) == section], metric(name)
    split, item = any(row.one_split for row in own), own[0].item if own else "item"
    fold, unit = fold_name(own), own[0].unit if own else ""
    scored = tables.in_words(name)
    scored = scored.removeprefix("an ").removeprefix("a ").removeprefix("the ")
    beside, means = _beside(results), [row for row in own if row.sets > 1]
    stds: dict[str, list[float]] = {}
    for row in own:
        if row.scores and row.kind == "fixed" and row.scores.fold_std is not None:
            stds.setdefault(row.dataset, []).append(row.scores.fold_std)
    chosen = [
        one
        for one in results.selections
        if (one.candidates[0].protocol, one.scores.metric) == section
    ]
    return {
        "protocol": protocol,
        "how": how,
        "several": len({row.metric for row in shown}) > 1,
        "most": "highest" if how.higher else "lowest",
        "caption": f"{scored[0].upper()}{scored[1:]}",
        "item": item,
        "split": split,
        "fold": fold,
        "rows": own,
        "seeds": len(results.seeds),
        "seeing": tables.names((row for row in own if row.sees_test_labels), "method"),
        "aware": tables.names((row for row in own if row.reads_labels), "method"),
        "has_baselines": any(row.is_baseline for row in own),
        "scores": tables.score_tables(own),
        "fold_stds": {name: sum(some) / len(some) for name, some in stds.items()},
        "tested": any("ucl" in row.tests for row in own),
        "untested": bool(tables.untested(own)),
        "kinds": {row.kind for row in own},
        "some_open": any(row.scores and not row.whole for row in own),
        "all_open": any(row.scores is None and not row.undefined for row in own),
        "gaps": any(row.gap is not None for row in own),
        "knn": any(row.knn for row in own),
        "remarks": [*tables.remarks(own), *(beside.remarks(own) if beside else [])],
        "published": beside.published(own) if beside else None,
        "test_part": tables.test_part(item, one_split=split, fold=fold),
        "test_name": tables.test_name(one_split=split, unit=unit),
        "varied": tables.varied(item, one_split=split, fold=fold, unit=unit),
        "controls": " and ".join(tables.controls(own)),
        "means": tables.difference_table(means),
        "differences": tables.difference_table([row for row in own if row.sets == 1]),
        "choices": tables.choice_table(chosen) if chosen else None,
        "negatives": negatives_table(results, protocol, tables.names(own, "dataset")),
    }


def _shares(shown: Sequence[Row]) -> dict[str, list[str]]:
    """Of rows on common splits, n_test / n_train by data set."""
    found: dict[str, list[str]] = {}
    for row in shown:
        if row.common_splits and row.scores:
            share = f"{row.scores.test_share:.3g}"
            found.setdefault(row.dataset, []).extend({share}.difference(found.get(row.dataset, ())))
    return found


def _sizes(results: Results) -> list[dict[str, Any]]:
    """Data sets with a training and a test part, as they were used."""
    known: dict[tuple[Any, ...], dict[str, Any]] = {}
    for config in results.configs:
        for data in (r.data for r in results.of(config) if {"n_train", "n_test"} <= r.data.keys()):
            one = known.setdefault((config.set_name, data["n_train"], data["n_test"]), {})
            one |= {"dataset": config.set_name} | {k: data[k] for k in SIZES if k in data}
    return [*known.values()]


SIZES = ("n_train", "n_test", "n_official", "size", "stem")


def wilcoxon_limit(shown: Sequence[Row]) -> dict[str, Any] | None:
    """Seeds that Wilcoxon's test needs, if the finished ones can never reach the level."""
    tests = [test for row in shown for test in row.tests.values()]
    families = Counter((r.protocol, r.dataset, control) for r in shown for control in r.tests)
    n, m = max((test.seeds for test in tests), default=0), max(families.values(), default=0)
    if not n or m * 2.0 ** (1 - n) < LEVEL:
        return None
    enough = next(k for k in range(n, 99) if m * 2.0 ** (1 - k) < LEVEL)
    return {"seeds": n, "least": 2.0 ** (1 - n), "family": m, "enough": enough}


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
        "versions": {name: sorted(found) for name, found in versions.items()},
        "settings": {
            name.replace("_", "-"): value
            for name in vars(next(iter(asked)))
            if name not in HEAD and (value := tables.values(trained, name))
        },
    }
