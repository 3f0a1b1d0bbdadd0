"""The options of pre-training."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from gcl_hard.errors import InputError, check_at_least, check_number, check_option, check_processes
from gcl_hard.experiments.options import ExecutionOptions
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import LogKind, RunConfig, flag
from gcl_hard.losses.methods import method

PseudoLabels = Literal["scaffold"]


def settings_read(config: RunConfig) -> dict[str, Any]:
    """The settings that pre-training reads, by name."""
    return {
        k: v for k, v in asdict(config).items() if k not in experiment_of(config).pretraining.unread
    }


@dataclass(frozen=True, kw_only=True)
class PretrainOptions(ExecutionOptions):
    """The options of ``python -m gcl_hard.pretrain``.

    Attributes:
        config: data, method, encoder and training; of molecules as of graphs.
        source: the data as they were named.
        output: file of the encoder, NAME.pt; its checkpoint is NAME.ckpt.
        smiles: molecules: column of SMILES of a CSV; smiles or the like if not given.
        subset: number of molecules or images, drawn at random; all if not given.
        pseudo_labels: molecules: labels of label-aware methods, scaffold (their default).
        labels: images: a CSV with columns file and label, of some images of a folder; else
            label-aware methods read its folders as classes.
        seed: seed of weights and views.
        loader_workers: images: processes that make views on the CPU; 0: on the device.
        log: write losses as they come: csv, tensorboard, wandb, or several.
        checkpoint_minutes: minutes between checkpoints.
        force: start over.
        jobs: molecules: processes that parse SMILES, the first time.
        threads: CPU threads.
        logger: the user's own, from Python, as ``experiments.logs.Logger``.
        parts: the user's own encoder, from Python, as ``experiments.custom.UserParts``.
    """

    config: RunConfig
    source: str
    output: Path = Path("encoder.pt")
    smiles: str | None = None
    subset: int | None = None
    pseudo_labels: PseudoLabels | None = None
    labels: Path | None = None
    seed: int = 0
    loader_workers: int = 0
    log: tuple[LogKind, ...] | None = None
    checkpoint_minutes: float = 5.0
    force: bool = False
    logger: Any = None
    parts: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        pretraining = experiment_of(self.config).pretraining
        for field in fields(self):
            if field.name in pretraining.refused and getattr(self, field.name) != field.default:
                raise InputError(
                    f"{flag(field.name)} does not apply to {pretraining.data}, which {self.source} "
                    f"was taken for"
                )
        if self.subset is not None:
            check_at_least("subset", self.subset, 2)
        check_processes(least=0, loader_workers=self.loader_workers)
        check_number("checkpoint-minutes", self.checkpoint_minutes, least=0)
        check_at_least("seed", self.seed, 0)
        if self.output.suffix != ".pt":
            raise InputError(f"output is the file of the encoder, NAME.pt, got {self.output}")
        if self.config.is_baseline:
            raise InputError(f"{self.config.method} trains no encoder by contrast: choose a method")
        if self.pseudo_labels is not None:
            check_option("pseudo-labels", self.pseudo_labels, get_args(PseudoLabels))

    @property
    def label_kind(self) -> PseudoLabels | None:
        """Pseudo-labels; scaffolds if the method needs labels and none are named."""
        if self.pseudo_labels is None and method(self.config.method).label_aware:
            return "scaffold"
        return self.pseudo_labels
