"""The options of a search that are flags, and the spaces that come with the package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from gcl_hard.errors import InputError, check_at_least, check_number, check_option
from gcl_hard.experiments.options import ExecutionOptions
from gcl_hard.experiments.settings import LogKind
from gcl_hard.experiments.values import check_report

SamplerName = Literal["tpe", "cmaes", "random"]
PrunerName = Literal["none", "median", "hyperband", "wilcoxon"]
FOLDERS = (
    Path(__file__).parents[1] / "tuning" / "spaces",
    Path(__file__).parents[2] / "configs" / "search",
)
"""Folders of spaces: in an installed package, and in a checkout."""


def shipped() -> dict[str, Path]:
    """Space files of the package by name.

    Example:
        >>> sorted(shipped())
        ['beta', 'full', 'images', 'tau-schedule']
    """
    return {path.stem: path for folder in reversed(FOLDERS) for path in folder.glob("*.yaml")}


@dataclass(frozen=True, kw_only=True)
class SearchOptions(ExecutionOptions):
    """Options of a search, each a flag of the command line.

    Attributes:
        space: YAML file; a space that comes with the package (beta, full, images, tau-schedule); or
            names of settings, such as temperature,lr; by the method if not given.
        recipe: defaults: paper, or best (ours).
        trials: complete or pruned trials of each study.
        minutes: after which no trial begins, counted anew by each command; the best trial so far is
            then scored on the outer part. No end if not given.
        sampler: tpe, cmaes (numbers only) or random.
        pruner: none, median or hyperband (by epochs), wilcoxon (by folds).
        metric: what trials are scored by, such as balanced_accuracy or f1_macro; that of the data
            if not given.
        inner_folds: folds that score a trial, inside the outer-training part; 1: a hold-out of
            20 %.
        outer_folds: studies, each scored on data it never saw; 1: a hold-out of 30 %.
        ensemble_size: trials trained as one ensemble, a number or auto (default).
        seed: seed of splits, encoders and sampler.
        storage: NAME.db, NAME.journal, or the URL of a database that several commands share.
        study_name: by data set, method and protocol if not given.
        log: write scores of trials as they come: csv, tensorboard, wandb, or several.
        report: page.md to write, with figures and YAML.
        report_only: run nothing: show what was found so far.
        output: folder of the storage and of the result.
        jobs: processes on this machine that score trials.
        scheduler: tcp://HOST:PORT of a Dask scheduler, whose workers score trials.
    """

    space: str | None = None
    recipe: str = "paper"
    trials: int = 64
    minutes: float | None = None
    sampler: SamplerName | Any = "tpe"
    """Its name, or from Python the user's own."""
    pruner: PrunerName | Any = "none"
    metric: str | None = None
    inner_folds: int = 1
    outer_folds: int = 1
    ensemble_size: int | None = None
    seed: int = 0
    storage: str | None = None
    study_name: str | None = None
    log: tuple[LogKind, ...] | None = None
    report: Path | None = None
    report_only: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("trials", "inner_folds", "outer_folds", "jobs", "seed", "ensemble_size"):
            value = getattr(self, name)
            if value is not None or name != "ensemble_size":
                check_at_least(name.replace("_", "-"), value, 0 if name == "seed" else 1)
        if self.minutes is not None:
            check_number("minutes", self.minutes, above=0)
        if self.seed >= 2**32:
            raise InputError(f"seed must be a whole number from 0 to 2**32 - 1, got {self.seed}")
        for kind, names in (("sampler", SamplerName), ("pruner", PrunerName)):
            if isinstance(choice := getattr(self, kind), str):  # else the user's own, from Python
                check_option(kind, choice, get_args(names))
        check_report(self.report, ".md")
