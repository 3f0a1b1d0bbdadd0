"""Options of ``bench``, and the configurations that it runs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_origin

from gcl_hard.errors import InputError, unknown
from gcl_hard.experiments.domains import groups_of
from gcl_hard.experiments.experiment import RunOptions
from gcl_hard.experiments.options import ExecutionOptions
from gcl_hard.experiments.presets import Preset
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import LogKind, RunConfig, defaults, known, of_part
from gcl_hard.experiments.values import as_seeds, check_report
from gcl_hard.losses.methods import METHODS


@dataclass(frozen=True, kw_only=True)
class BenchOptions(ExecutionOptions):
    """The options of ``python -m gcl_hard.bench``.

    Attributes:
        configs: every combination of data set, method, protocol, β, thresholds, lr and epochs.
        run: options of execution.
        table: predefined table; 1: Table I, images, with baselines, grids and tests; 2: Table II,
            graphs, with baselines, both protocols and tests.
        recipe: defaults: paper, or best (ours).
        metric: scores shown, such as accuracy,balanced_accuracy,f1_macro; tests and --select use
            the first.
        select: choose β, temperature, lr, epochs, … inside training data, if several are given.
        select_epochs: choose by one run of so many epochs of each candidate; run what is chosen.
        select_subset: as --select-epochs, on so many training images.
        select_splits: as --select-epochs, on the first so many of common splits.
        seeds: a count (5 is 0…4) or a list (0,1,2).
        quick: smoke run: few seeds and epochs, two β; not reportable.
        small: --table 1 on 20,000 images by a fast net: hours on CPUs.
        json: result file; one in the output folder if not given.
        report: page.md with CSV, LaTeX, figures; or page.html.
        control: methods or labels of the rows that the others are compared with, such as raw; if
            not given, ucl and scl, or the first row.
        log: write losses and scores as they come: csv, tensorboard, wandb, or several.
        report_only: run nothing: show what is finished.
        force: repeat finished runs.
        compact: move a folder's result files into one file, and exit.
        jobs: processes on this machine; --table 2: one per core.
    """

    configs: tuple[RunConfig, ...]
    run: RunOptions
    jobs: int | None = 1  # type: ignore[assignment]
    table: str | None = None
    recipe: str = "paper"
    metric: tuple[str, ...] | None = None
    select: bool = False
    select_epochs: int | None = None
    select_subset: int | None = None
    select_splits: int | None = None
    seeds: Annotated[tuple[int, ...], as_seeds] = (0, 1, 2, 3, 4)
    quick: bool = False
    small: bool = False
    json: Path | None = None
    report: Path | None = None
    control: tuple[str, ...] | None = None
    log: tuple[LogKind, ...] | None = None
    report_only: bool = False
    force: bool = False
    compact: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_report(self.report, ".md", ".html")


def shortened(options: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the shorter runs by which settings are chosen.

    Args:
        options: values by name; those of ``select_NAME`` are read.

    Example:
        >>> shortened({"select": True, "select_epochs": 20, "select_subset": None})
        {'epochs': 20}
    """
    return {
        name.removeprefix("select_"): value
        for name, value in options.items()
        if name.startswith("select_") and value is not None
    }


def all_values(config: type[RunConfig], stated: Mapping[str, Any]) -> dict[str, Any]:
    """Stated values and defaults of all settings; those that take several values as tuples."""
    values = {**defaults(config), **stated}
    for name, field in known(config).items():
        if field.setting.several and not isinstance(values[name], list | tuple):
            values[name] = (values[name],)
        if field.setting.several and get_origin(field.kinds[0]) is tuple:  # a text joins parts by +
            values[name] = tuple((x,) if isinstance(x, str) else x for x in values[name])
    return values


def bench_configs(
    config: type[RunConfig], values: Mapping[str, Any], preset: Preset | None, stated: set[str]
) -> list[RunConfig]:
    """All combinations of the listed settings.

    Args:
        config: class of the configurations.
        values: values of all flags.
        preset: the predefined table, or None.
        stated: names of settings that win over those of the preset or the recipe.
    """
    if values["recipe"] not in ("paper", "best"):
        raise unknown("recipe", values["recipe"], ("paper", "best"))
    if preset and values["recipe"] != "paper":
        raise InputError(f"--table {values['table']} uses the paper's recipe: leave out recipe")
    listed = [name for name, field in known(config).items() if field.setting.several]
    shared = {name: values[name] for name in defaults(config) if name not in listed}
    rows = [METHODS[name] for name in map(str.casefold, values["method"]) if name in METHODS]
    if "contrast" in shared and any(row.infonce_only for row in rows):
        shared["contrast"] = shared["contrast"] or "two-view"  # for all, so that they compare
    with_prior = [row.name for row in rows if row.takes_prior]
    groups = groups_of(config.domain)
    sets = (groups.get(name.casefold(), (name,)) for name in values["dataset"])
    values = {**values, "dataset": tuple(itertools.chain.from_iterable(sets))}
    configs = []
    for combination in itertools.product(*(values[name] for name in listed)):
        settings = dict(zip(listed, combination, strict=True))
        dataset, has_prior = settings["dataset"], settings["method"].casefold() in with_prior
        usual = dict(preset.by_dataset.get(dataset, {})) if preset else {}
        if values["recipe"] == "best":
            usual |= {"protocol": "inductive"} | experiment_of(config).recipe(dataset)
        fixed = {n for n, f in known(config).items() if stated & {n, *f.setting.follows}}
        usual = {name: value for name, value in usual.items() if name not in fixed}
        settings |= shared | usual
        if len(values.get("encoder", ())) > 1:  # the others read what this one does not
            usual = {name: defaults(config)[name] for name in of_part(config, "gin")}
            unread = config(**settings | usual).unread
            all_unread = [
                config(**settings | usual | {"encoder": e}).unread for e in values["encoder"]
            ]
            read = {name for name in unread if not all(name in others for others in all_unread)}
            settings |= {name: value for name, value in usual.items() if name in read}
        if not has_prior and (with_prior or "class_prior" in usual):
            settings["class_prior"] = None  # only for methods that have one
        configs.append(config(**settings))
    return [*experiment_of(config).combined(configs)]
