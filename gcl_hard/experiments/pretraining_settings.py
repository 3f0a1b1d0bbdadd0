"""The options of pre-training."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from gcl_hard.errors import (
    InputError,
    check_at_least,
    check_number,
    check_option,
    check_processes,
)
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import COMMON, LogKinds, RunConfig, flag
from gcl_hard.losses.methods import method

PseudoLabels = Literal["scaffold"]


def settings_read(config: RunConfig) -> dict[str, Any]:
    """The settings that pre-training reads, by name."""
    return {
        k: v for k, v in asdict(config).items() if k not in experiment_of(config).pretraining.unread
    }


def of_others(name: str, config: type[RunConfig], source: str | Path) -> InputError:
    """The error for an option or setting that applies only to other data."""
    here = experiment_of(config).pretraining.data
    others = [experiment_of(kind).pretraining.data for kind in CONFIGS.values()]
    kinds = " and ".join(data for data in others if data not in ("", here))
    return InputError(f"{flag(name)} applies to {kinds}, and {source} was taken for {here}")


@dataclass(frozen=True)
class PretrainOptions:
    """The options of ``python -m gcl_hard.pretrain``.

    Attributes:
        config: data, method, encoder and training; of molecules as of graphs.
        source: the data as they were named.
        logger: the user's own, from Python, as ``runs.logs.Logger``.
        parts: the user's own encoder, from Python, as ``experiments.custom.UserParts``.
        output: file of the encoder, NAME.pt; its checkpoint is next to it.
    """

    config: RunConfig
    source: str
    output: Annotated[Path, "file of the encoder, NAME.pt; its checkpoint is NAME.ckpt", COMMON] = (
        Path("encoder.pt")
    )
    smiles: Annotated[
        str | None, "molecules: column of SMILES of a CSV; smiles or the like if not given", COMMON
    ] = None
    subset: Annotated[
        int | None, "number of molecules or images, drawn at random; all if not given", COMMON
    ] = None
    pseudo_labels: Annotated[
        PseudoLabels | None,
        "molecules: labels of label-aware methods, scaffold (their default)",
        COMMON,
    ] = None
    labels: Annotated[
        Path | None,
        "images: a CSV with columns file and label, of some images of a folder; else "
        "label-aware methods read its folders as classes",
        COMMON,
    ] = None
    seed: Annotated[int, "seed of weights and views", COMMON] = 0
    data_dir: Annotated[Path | None, "folder with the molecules (or set GCL_HARD_DATA)", COMMON] = (
        None
    )
    device: Annotated[str, "auto, cpu, cuda or cuda:N", COMMON] = "auto"
    jobs: Annotated[int, "molecules: processes that parse SMILES, the first time"] = 1
    loader_workers: Annotated[
        int, "images: processes that make views on the CPU; 0: on the device"
    ] = 0
    threads: Annotated[int | None, "CPU threads"] = None
    log: Annotated[LogKinds, COMMON] = None
    checkpoint_minutes: Annotated[float, "minutes between checkpoints"] = 5.0
    force: Annotated[bool, "start over", COMMON] = False
    logger: Any = None
    parts: Any = None

    def __post_init__(self) -> None:
        if self.subset is not None:
            check_at_least("subset", self.subset, 2)
        check_processes(threads=self.threads, jobs=self.jobs)
        check_processes(least=0, loader_workers=self.loader_workers)
        self._check_domain()
        check_number("checkpoint-minutes", self.checkpoint_minutes, least=0)
        check_at_least("seed", self.seed, 0)
        if self.output.suffix != ".pt":
            raise InputError(f"output is the file of the encoder, NAME.pt, got {self.output}")
        if self.config.is_baseline:
            raise InputError(f"{self.config.method} trains no encoder by contrast: choose a method")
        if self.pseudo_labels is not None:
            check_option("pseudo-labels", self.pseudo_labels, get_args(PseudoLabels))

    def _check_domain(self) -> None:
        """Refuse options of the other kind of data."""
        usual = {field.name: field.default for field in fields(self)}
        for name in experiment_of(self.config).pretraining.refused:
            if getattr(self, name) != usual[name]:
                raise of_others(name, type(self.config), self.source)

    @property
    def label_kind(self) -> PseudoLabels | None:
        """Pseudo-labels; scaffolds if the method needs labels and none are named."""
        if self.pseudo_labels is None and method(self.config.method).label_aware:
            return "scaffold"
        return self.pseudo_labels
