"""The options of a search that are flags, and the spaces that come with the package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

from gcl_hard.errors import InputError, check_option, check_processes
from gcl_hard.experiments.settings import COMMON, LogKind, flag
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


SPACES = (
    f"YAML file; one of: {', '.join(sorted(shipped()))}; or names of settings, such as "
    f"temperature,lr (default: by the method)"
)


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options of a search, each a flag of the command line."""

    space: Annotated[str | None, SPACES, COMMON] = None
    recipe: Annotated[str, "defaults: paper, or best (ours)", COMMON] = "paper"
    trials: Annotated[int, "complete or pruned trials of each study", COMMON] = 64
    sampler: Annotated[SamplerName, "tpe, cmaes (numbers only) or random", COMMON] = "tpe"
    pruner: Annotated[
        PrunerName, "none, median or hyperband (by epochs), wilcoxon (by folds)", COMMON
    ] = "none"
    metric: Annotated[
        str | None,
        "what trials are scored by, such as balanced_accuracy or f1_macro; that of the data if "
        "not given",
    ] = None
    inner_folds: Annotated[
        int, "folds that score a trial, inside the outer-training part; 1: a hold-out of 20 %"
    ] = 1
    outer_folds: Annotated[
        int, "studies, each scored on data it never saw; 1: a hold-out of 30 %", COMMON
    ] = 1
    ensemble_size: Annotated[
        int | None, "trials trained as one ensemble, a number or auto (default)"
    ] = None
    jobs: Annotated[int, "processes on this machine that score trials", COMMON] = 1
    scheduler: Annotated[
        str | None, "tcp://HOST:PORT of a Dask scheduler, whose workers score trials"
    ] = None
    seed: Annotated[int, "seed of splits, encoders and sampler", COMMON] = 0
    storage: Annotated[
        str | None,
        "NAME.db, NAME.journal, or the URL of a database that several commands share",
        COMMON,
    ] = None
    study_name: Annotated[str | None, "default: data set, method and protocol"] = None
    output: Annotated[Path, "folder of the storage and of the result", COMMON] = Path("results")
    log: Annotated[
        tuple[LogKind, ...] | None,
        "write scores of trials as they come: csv, tensorboard, wandb, or several",
        COMMON,
    ] = None
    report: Annotated[Path | None, "page.md to write, with figures, page.html and YAML", COMMON] = (
        None
    )
    report_only: Annotated[bool, "run nothing: show what was found so far", COMMON] = False
    device: Annotated[str, "auto, cpu, cuda or cuda:N", COMMON] = "auto"
    data_dir: Annotated[
        Path | None, "folder with your data sets (or set GCL_HARD_DATA)", COMMON
    ] = None
    threads: Annotated[
        int | None, "CPU threads of all processes together; at least one per process"
    ] = None

    def __post_init__(self) -> None:
        unset = "threads", "ensemble_size"
        for name in ("trials", "inner_folds", "outer_folds", "jobs", *unset, "seed"):
            value = getattr(self, name)
            if value is None and name in unset:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(f"{flag(name)} must be a whole number, got {value!r}")
            if value < 1 and name != "seed":
                raise InputError(f"{flag(name)} must be at least 1, got {value}")
        check_processes(jobs=self.jobs, threads=self.threads)
        if self.metric is not None and (not isinstance(self.metric, str) or not self.metric):
            raise InputError(
                f"metric must be the name of one metric, such as f1_macro, got {self.metric!r}"
            )
        if not 0 <= self.seed < 2**32:
            raise InputError(f"seed must be a whole number from 0 to 2**32 - 1, got {self.seed}")
        check_option("sampler", self.sampler, get_args(SamplerName))
        check_option("pruner", self.pruner, get_args(PrunerName))
        check_report(self.report, html=False)  # page.html is written beside it
