"""Settings of experiments on labelled molecules."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from gcl_hard.core.setting import Setting
from gcl_hard.errors import InputError, check_option
from gcl_hard.experiments.settings import (
    BATCH_SIZE,
    DETACH_WEIGHTS,
    EPOCHS,
    LR,
    ConfigHead,
    Domain,
    RunConfig,
    Values,
    by_method,
    chooses_views,
    defaults,
    is_pretrained,
    method_setting,
    of_part,
)
from gcl_hard.functional.labels import LabelGap, check_gap
from gcl_hard.losses.methods import METHODS
from gcl_hard.molecules import is_file

CHIRALITY = "-chirality"
"""Suffix of splits by scaffolds in which mirror images differ."""
ORDERS = ("scaffold", "random-0", "random-1", "random-2")
SPLITS = ("given", *ORDERS, *(f"{order}{CHIRALITY}" for order in ORDERS))
FIXED = ("ecfp", "wl", "counts")
"""Representations without an encoder."""
UNTRAINED, SUPERVISED = "untrained", "supervised"
PROBED = (UNTRAINED, *FIXED)
ENCODED = (UNTRAINED, SUPERVISED)
"""Baselines that read settings of the probe, and of the encoder."""
MOLECULE_BASELINES = (UNTRAINED, SUPERVISED, *FIXED)
"""Baselines on molecules; ``untrained`` is the encoder as it begins, which may come from a file."""
_UNLABELLED = {name: "reads no labels" for name in METHODS if not METHODS[name].label_aware}
SEED = "{seed}"
"""Stands for the seed of a run in the name of an encoder's file."""
AWARE = tuple(name for name in METHODS if name not in _UNLABELLED)
MoleculeProtocol = Literal["split"]
MoleculeProbe = Literal["kernel", "linear", "nystroem"]


def is_table(name: str) -> bool:
    """Whether a data set is the user's own table: a file, or ``NAME@digest`` once it is known.

    Example:
        >>> is_table("mine.csv"), is_table("mine@0123456789abcdef"), is_table("BACE")
        (True, True, False)
    """
    return "@" in name or is_file(name)


def _split(above: Values) -> str | None:
    """The split that a known set is scored on; that of a table depends on its columns."""
    name = above["dataset"]
    if is_table(name):
        return None
    return "given" if name.casefold().startswith("chembl") else "scaffold"


def _joined(texts: tuple[str, ...], above: Values) -> tuple[str, ...] | None:
    parts = tuple(part for text in texts for part in text.split("+") if part != "none")
    for part in parts:
        check_option("joined", part, FIXED)
    return parts or None


@dataclass(frozen=True)
class MoleculeLoss(ConfigHead):
    """How pairs weigh, and which are positives."""

    similarity: Annotated[float, Setting(
        "κ: pairs weigh e^(κ·Tanimoto), so that similar molecules are harder",
        least=0, symbol="κ", title="similarity κ", several=True, chosen=True,
    )] = 0.0  # fmt: skip
    label_gap: Annotated[tuple[float, ...] | None, Setting(
        "δ₊,δ₋: pairs of real-valued targets up to δ₊ apart are positives, beyond δ₋ negatives "
        "(0.3,1); for several tasks by their disagreement (0.2,0.5)",
    )] = None  # fmt: skip


@dataclass(frozen=True)
class MoleculeConfig(RunConfig, MoleculeLoss):
    """The settings of an experiment on labelled molecules.

    An encoder is trained on the training part with its labels, or left as it is. A probe, fitted to
    its embeddings of the training part with settings chosen on the validation part, predicts the
    test part.

    Raises:
        InputError: for a value out of range, an unknown name, or a meaningless
            combination; before anything is loaded or written.

    Example:
        >>> MoleculeConfig("BACE", "scl").epochs, MoleculeConfig("BACE", "supervised").epochs
        (30, 100)
    """

    baselines: ClassVar[tuple[str, ...]] = MOLECULE_BASELINES
    domain: ClassVar[Domain] = "molecules"

    dataset: Annotated[str, Setting(
        "BACE, CHEMBL…, all of moleculenet or cliffs, or NAME.csv",
        "data", common=True, several=True,
    )] = "BACE"  # fmt: skip
    method: Annotated[
        str, method_setting(MOLECULE_BASELINES, items="labelled molecules", refused=_UNLABELLED)
    ] = "hscl"
    protocol: Annotated[
        MoleculeProtocol, Setting("split, tested once", "split", common=True, several=True)
    ] = "split"
    epochs: Annotated[
        int | None, by_method(EPOCHS, 100, 30, help="passes (30, supervised 100)")
    ] = None  # type: ignore[assignment]  # it is resolved
    lr: Annotated[float | None, by_method(LR, 1e-3, 3e-4, help="0.0003, supervised 0.001")] = None  # type: ignore[assignment]
    detach_weights: Annotated[bool, DETACH_WEIGHTS] = True
    batch_size: Annotated[int, replace(BATCH_SIZE, help="molecules in a batch")] = 128
    views: Annotated[int | None, Setting(
        "views of a molecule (2)",
        "views", least=2, several=True, usual=lambda above: 2 if chooses_views(above) else None,
        canonical=lambda views, above: None if views == 2 and not chooses_views(above) else views,
    )] = None  # fmt: skip
    data_seed: Annotated[int | None, Setting(
        "seed of the batch order; that of the run if not given",
        "training", least=0, read_by=(SUPERVISED,),
    )] = None  # type: ignore[assignment]  # fmt: skip
    neighbours: Annotated[int, Setting(
        "how many of its most similar molecules follow each drawn one in its batch",
        "training", least=0, several=True, chosen=True,
    )] = 0  # fmt: skip
    augmentations: Annotated[
        tuple[str, ...], Setting("augmentations of views, in order", "views")
    ] = ("mask-columns",)
    strength: Annotated[
        float, Setting("share that each augmentation changes", "views", space=(0.05, 0.5))
    ] = 0.2
    encoder: Annotated[str, Setting(
        "untrained, untrained:FILE.pt, or FILE-{seed}.pt of pretrain",
        "encoder", several=True, common=True, read_by=ENCODED,
    )] = UNTRAINED  # fmt: skip
    targets: Annotated[tuple[str, ...] | None, Setting(
        "columns of targets of a table; all others that are numbers if not given",
        "data", read_by=MOLECULE_BASELINES, canonical=lambda columns, above: columns or None,
    )] = None  # fmt: skip
    smiles: Annotated[str | None, Setting(
        "column of SMILES of a table; smiles, canonical_smiles or mol if not given",
        "data", read_by=MOLECULE_BASELINES,
    )] = None  # fmt: skip
    split: Annotated[str | None, Setting(
        "given, scaffold, random-0 to random-2, random orders of scaffolds; scaffold-chirality "
        "tells mirror images apart, as random-0-chirality does (given where there is one, else "
        "scaffold)",
        "split", several=True, read_by=MOLECULE_BASELINES, usual=_split,
        canonical=lambda name, above: check_option("split", name, SPLITS),
    )] = None  # fmt: skip
    train_share: Annotated[float, Setting(
        "share of the training part that is used",
        "split", above=0, most=1, several=True, read_by=MOLECULE_BASELINES,
    )] = 1.0  # fmt: skip
    joined: Annotated[tuple[str, ...] | None, Setting(
        "none, ecfp, wl or counts (of atoms and bonds), or several, ecfp+wl, which the probe "
        "reads beside an encoder, or beside fingerprints if all methods are: kernels are added",
        "probe", several=True, read_by=PROBED, canonical=_joined,
    )] = None  # fmt: skip
    probe: Annotated[MoleculeProbe | None, Setting(
        "kernel (SVM, SVR), linear (logistic, ridge) or nystroem, linear on features that stand "
        "for an RBF kernel; for large sets linear, else kernel, if not given",
        "probe", read_by=PROBED,
    )] = None  # fmt: skip

    def check(self) -> None:
        """Refuse meaningless combinations."""
        if self.split == "given" and _split(self.values) == "scaffold":
            raise InputError(f"{self.dataset} has no given split: {', '.join(SPLITS[1:])}")
        if (self.targets or self.smiles) and not is_table(self.dataset):
            raise InputError(
                f"targets and smiles are columns of your own tables, {self.dataset} has its own"
            )
        if self.encoder != UNTRAINED and not self.shape and not is_pretrained(self.encoder):
            raise InputError(
                f"encoder is {UNTRAINED}, {UNTRAINED}:FILE.pt or FILE.pt of gcl_hard.pretrain, got "
                f"{self.encoder!r}"
            )
        if self.probe not in (None, "kernel") and "wl" in self.parts:
            raise InputError(
                f"wl is a kernel, which no {self.probe} probe reads: leave wl out, or give --probe "
                f"kernel"
            )
        if self.label_gap is not None:
            check_gap(self.label_gap)
        if not self.is_baseline:
            from gcl_hard.graphs.augment import check_views

            check_views(self.augmentations, self.strength)

    @property
    def has_encoder(self) -> bool:
        """Whether an encoder embeds the molecules."""
        return self.method not in FIXED

    @property
    def shape(self) -> dict[str, Any]:
        """Arguments of a new encoder that differ from the defaults."""
        _, _, text = self.encoder.partition(f"{UNTRAINED}:")
        pairs = [pair.partition("=") for pair in text.split("+") if "=" in pair]
        return {name: int(value) if value.isdecimal() else value for name, _, value in pairs}

    @property
    def parts(self) -> tuple[str, ...]:
        """Fixed representations that the probe reads."""
        fixed = () if self.has_encoder else (self.method,)
        return (*fixed, *(self.joined or ()))

    @property
    def is_deterministic(self) -> bool:
        """Whether no seed changes the probe's inputs: fingerprints, one file's frozen encoder."""
        drawn = is_new(self) or self.encoders > 0 or SEED in self.encoder
        return not drawn and self.train_share == 1

    @property
    def encoder_config(self) -> Self:
        """The settings that embedding reads: joined parts do not change the encoder."""
        if not self.has_encoder:
            return self
        unseen = {name: defaults(type(self))[name] for name in of_part(type(self), "probe")}
        return replace(self, **unseen)

    @property
    def group_key(self) -> Hashable | None:
        """Key of the encoder that embeds; None without one, and for a supervised head."""
        return self.encoder_config if self.has_encoder and self.method != SUPERVISED else None

    @property
    def shares_views(self) -> bool:
        """Runs of a group read one encoder, so they have one seed."""
        return True

    def __str__(self) -> str:
        """Name in messages and progress bars."""
        trained = "" if self.method in PROBED else f", {self.method}"
        beta = "" if self.beta is None else f" β={self.beta:g}"
        split = "" if self.split is None else f" ({self.split})"
        return f"{set_name(self.dataset)}{split} {representation(self)}{trained}{beta}"


def is_new(config: MoleculeConfig) -> bool:
    """Whether the encoder starts from new weights."""
    return config.has_encoder and not is_pretrained(config.encoder.partition(":")[0])


def set_name(dataset: str) -> str:
    """Name of a set; for a table without folder, suffix and digest."""
    return Path(dataset.partition("@")[0]).name.partition(".")[0]


def representation(config: MoleculeConfig) -> str:
    """Name of the probe's inputs in tables."""
    shape, new, file = config.encoder.partition("@")[0].rpartition(":")
    file = Path(file).name.removesuffix(".pt").removesuffix(".safetensors")
    encoder = shape + new + re.sub(rf"[-_.]?{re.escape(SEED)}", "", file)
    return "+".join([encoder, *config.parts] if config.has_encoder else config.parts)


def label_gap(config: MoleculeConfig, kind: str) -> LabelGap:
    """δ₊ and δ₋ for a kind of targets."""
    low, high = config.label_gap or ((0.3, 1.0) if kind == "values" else (0.2, 0.5))
    return low, high


CONFIG = MoleculeConfig
