"""The data of a search, cut, and its studies: the same in every process and on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import torch
from optuna import Study
from optuna.distributions import distribution_to_json

from gcl_hard.experiments import hardware
from gcl_hard.experiments.backends import backend_of
from gcl_hard.experiments.config import RunConfig
from gcl_hard.experiments.data import Data
from gcl_hard.experiments.place import Running
from gcl_hard.tuning import samplers
from gcl_hard.tuning.home import About, Home
from gcl_hard.tuning.options import TuneOptions
from gcl_hard.tuning.own_encoder import check_output
from gcl_hard.tuning.part import Local, Outer
from gcl_hard.tuning.storage import url_of


@dataclass(frozen=True)
class Setup:
    """What every process of a search needs.

    Attributes:
        options: with the data set spelt canonically.
        local: the machine.
        digest: of the data.
        outers: the outer parts.
    """

    options: TuneOptions
    local: Local
    digest: str
    outers: tuple[Outer, ...]

    @property
    def cell(self) -> RunConfig:
        """The settings that are not searched."""
        return self.options.base.alone

    @cached_property
    def methods(self) -> str:
        """The method, or those that are searched."""
        return "+".join(self.options.space.methods(self.options.base))

    @property
    def stem(self) -> str:
        """Of the names of studies and files."""
        cell = self.cell
        stem = self.options.study_name or f"{cell.dataset}_{self.methods}_{cell.protocol}"
        return stem.replace("/", "-").replace("\\", "-")

    @property
    def names(self) -> list[str]:
        """Of the studies."""
        n = len(self.outers)
        return [self.stem] if n == 1 else [f"{self.stem}_outer{k + 1}of{n}" for k in range(n)]

    @property
    def url(self) -> str:
        """Of the storage."""
        return url_of(self.options.storage, self.options.output, self.stem)

    def join(self) -> list[Study]:
        """Make the studies or join them.

        Raises:
            InputError: if the storage cannot be used, or a study is of something else.
        """
        options = self.options
        grid = options.space.grid_of(options.base)
        first = Home.at(self.url, self.names[0], create=not options.report_only)
        if options.report_only:
            homes = [replace(first, name=name) for name in self.names]
            return [home.found(self._about(k)) for k, home in enumerate(homes)]
        return [
            replace(first, name=name).join(
                self._about(k), grid,
                sampler=samplers.sampler(options.sampler, options.seed + k),
                pruner=samplers.pruner(options.pruner, options.inner, self.cell.epochs),
            )
            for k, name in enumerate(self.names)
        ]  # fmt: skip

    def _about(self, k: int) -> About:
        options, cell = self.options, self.cell
        searched = {dimension.name for dimension in options.space.dimensions}
        named = {"dataset", "method", "protocol"}
        settings = {n: v for n, v in cell.changed().items() if n not in searched | named}
        make = options.encoder
        return About(
            dataset=cell.dataset, method=self.methods, protocol=cell.protocol, settings=settings,
            space=space_in_words(options), digest=self.digest, inner=inner_in_words(options),
            outer=f"part {k + 1}, {outer_in_words(options)}", sampler=options.sampler,
            pruner=options.pruner, seed=options.seed,
            encoder=None if make is None else getattr(make, "__name__", type(make).__name__),
        )  # fmt: skip

    def facts(self) -> dict[str, Any]:
        """What describes the search, for pages and files."""
        options, outer = self.options, self.outers[0]
        return asdict(self._about(0)) | {
            "outer": outer_in_words(options),
            "space": options.space_name,
            "dimensions": space_in_words(options),
            "grid": "the paper's grid" if options.space.grid == "paper" else "the grid",
            "encoder_own": options.encoder is not None,
            "graphs_own": options.graphs is not None,
            "device": hardware.device_name(self.local.device),
            "n_inner_test": outer.part.n_scored(options.inner),
            "n_outer_test": outer.n_test or None,
            "study": self.stem,
            "versions": hardware.versions(),
        }


def setup(options: TuneOptions, *, share: int = 1) -> Setup:
    """Load and cut the data.

    Args:
        options: of the search.
        share: processes that share this machine.

    Raises:
        InputError: if the data cannot be had or cut.
    """
    device = hardware.choose_device(options.device)
    local = _local(options, device, share)
    cell = options.base.alone
    if options.graphs is None:
        name = backend_of(cell).canonical_name(cell.dataset)
    else:
        name = options.graphs.name
    settings: Mapping[str, Any] = {**options.base.settings, "dataset": name}
    options = replace(options, base=replace(options.base, settings=settings))
    data, digest = _data(options, device)
    if options.encoder is not None:
        check_output(options, data.to("cpu"))
    outers = _outers(options, data, local)
    for outer in outers:
        outer.part.n_scored(options.inner)  # refuses a class that is too small
    return Setup(options, local, digest, outers)


def _local(options: TuneOptions, device: torch.device, share: int) -> Local:
    return Local(
        device,
        cores=max(1, hardware.available_cores() // share),
        threads=None if options.threads is None else max(1, options.threads // share),
        members=1 if options.batch == 1 else None,
    )


def _data(options: TuneOptions, device: torch.device) -> tuple[Any, str]:
    cell = options.base.alone
    if options.graphs is not None:
        from gcl_hard.experiments.graph_backend import facts

        data, digest = options.graphs.to(device), facts(options.graphs)["digest"]
    else:
        sets = Data(options.data_dir, device, hardware.source_digest(), Running())
        data, digest = sets.of(cell), sets.facts(cell)["digest"]
    if cell.backend == "images" or cell.protocol == "paper":
        backend_of(cell).check(cell, data, inner=cell.backend == "images", device=device)
    return data, digest


def _outers(options: TuneOptions, data: Any, local: Local) -> tuple[Outer, ...]:
    cell, make = options.base.alone, options.encoder
    if cell.backend == "images":
        from gcl_hard.tuning import image_part

        return (image_part.ImageOuter(data, local, options.inner),)
    from gcl_hard.tuning import graph_part  # torch-geometric takes seconds

    if cell.protocol == "paper":
        return (graph_part.GraphPaper(data, local, make),)
    folds = graph_part.cut(data, options.outer_folds, options.seed)
    return tuple(graph_part.GraphOuter(data, fold, local, make) for fold in folds)


def space_in_words(options: TuneOptions) -> dict[str, Any]:
    """The dimensions as Optuna writes them, and the grid."""
    found: dict[str, Any] = {
        dimension.name: distribution_to_json(dimension.distribution)
        for dimension in options.space.dimensions
    }
    return found | {"grid": options.space.grid_of(options.base)}


def inner_in_words(options: TuneOptions) -> str:
    """How trials are scored."""
    if options.base.alone.protocol == "paper":
        return "the test folds"
    n = options.inner_folds
    if n == 1:
        return "a hold-out of 20 %"
    return f"{n} hold-outs of 20 %" if options.base.alone.backend == "images" else f"{n} folds"


def outer_in_words(options: TuneOptions) -> str:
    """What the best trial is scored on."""
    if options.base.alone.protocol == "paper":
        return "nothing"
    if options.base.alone.backend == "images":
        return "the official test images"
    return "a hold-out of 30 %" if options.outer_folds == 1 else f"{options.outer_folds} folds"
