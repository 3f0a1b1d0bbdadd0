"""Runs of transfer: which representation is scored on which split, and how it is fine-tuned."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import groupby, product
from pathlib import Path
from typing import Annotated, Any

from gcl_hard.errors import InputError, check_at_least, check_number, check_option
from gcl_hard.functional.labels import LabelGap, check_gap
from gcl_hard.graphs.augment import check_views
from gcl_hard.graphs.moleculenet import canonical, has_split, is_file
from gcl_hard.graphs.pretrained import USUAL_SHAPE, load_pretrained
from gcl_hard.io import file_digest
from gcl_hard.methods import METHODS, contrastive_loss

CHIRALITY = "-chirality"
"""Ending of splits by scaffolds of which mirror images differ."""
ORDERS = ("scaffold", "random-0", "random-1", "random-2")
SPLITS = ("given", *ORDERS, *(f"{one}{CHIRALITY}" for one in ORDERS))
FIXED = ("ecfp", "wl", "counts")
"""Representations without an encoder."""
UNTRAINED, NONE, SUPERVISED = "untrained", "none", "supervised"
PROBES = ("kernel", "linear", "nystroem")
LISTS = ("beta", "similarity", "neighbours")
"""Settings of fine-tuning of which a command takes several."""


@dataclass(frozen=True)
class Finetuning:
    """How an encoder is trained on labelled molecules.

    Attributes:
        method: a method that reads labels, or ``supervised``, a linear head trained with it.
        beta: β of its hardening.
        similarity: κ of the pair weights.
        neighbours: how many of its most similar molecules follow each drawn one in its batch.
    """

    method: str
    beta: float = 1.0
    similarity: float = 0.0
    neighbours: int = 0
    epochs: Annotated[int | None, "passes over the training part (30, supervised 100)"] = None
    lr: Annotated[float | None, "learning rate of Adam (0.0003, supervised 0.001)"] = None
    batch_size: Annotated[int, "molecules in a batch"] = 128
    temperature: Annotated[float, "γ of InfoNCE"] = 0.5
    augmentations: Annotated[tuple[str, ...], "views, in order"] = ("mask-columns",)
    strength: Annotated[float, "share that each augmentation changes"] = 0.2
    label_gap: Annotated[
        tuple[float, ...] | None,
        "δ₊,δ₋: pairs of real-valued targets up to δ₊ apart are positives, beyond δ₋ negatives "
        "(0.3,1); for several tasks by their disagreement (0.2,0.5)",
    ] = None

    def __post_init__(self) -> None:
        check_option("finetune", self.method, (*METHODS, SUPERVISED))
        supervised = self.method == SUPERVISED
        if not supervised and not METHODS[self.method].label_aware:
            aware = ", ".join(name for name, row in METHODS.items() if row.label_aware)
            raise InputError(f"{self.method} reads no labels: finetune is {aware} or {SUPERVISED}")
        for name, usual in (("epochs", 100 if supervised else 30),
                            ("lr", 1e-3 if supervised else 3e-4)):  # fmt: skip
            if getattr(self, name) is None:
                object.__setattr__(self, name, usual)
        check_at_least("epochs", self.epochs, 1)
        check_at_least("batch-size", self.batch_size, 2)
        check_number("lr", self.lr, above=0)
        check_number("similarity", self.similarity, least=0)
        check_at_least("neighbours", self.neighbours, 0)
        check_views(self.augmentations, self.strength)
        if self.label_gap is not None:
            if len(self.label_gap) != 2:
                raise InputError(f"label-gap is two numbers, got {len(self.label_gap)}")
            check_gap(self.gap("values"))
        if not supervised:
            contrastive_loss(self.method, beta=self.beta, temperature=self.temperature)

    def gap(self, kind: str) -> LabelGap:
        """δ₊ and δ₋ for a kind of targets."""
        low, high = self.label_gap or ((0.3, 1.0) if kind == "values" else (0.2, 0.5))
        return low, high


@dataclass(frozen=True)
class TransferRun:
    """One representation on one split of a set.

    Attributes:
        dataset: name of the set.
        embedding: a file of :func:`gcl_hard.experiments.pretraining.pretrain`, ``untrained``
            or ``untrained:FILE``, of the shape of a file's encoder, ``ecfp``, ``wl`` or
            ``counts``, of atoms and bonds of each code; joined with a plus, their kernels are
            added.
        finetuning: how the encoder is trained on the training part, None for not at all.
        split: one of :data:`SPLITS`.
        seed: seed of weights, views and draws.
        train_share: share of the training part that is used.
        targets: columns of targets of a file; None for all others that are numbers.
        probe: one of :data:`PROBES`; None for linear where the set is large, and else kernel.
        row: label of its row in tables.
        choice: label of the row of the best of several settings; empty if there is one.
    """

    dataset: str
    embedding: str
    finetuning: Finetuning | None
    split: str
    seed: int
    train_share: float = 1.0
    targets: tuple[str, ...] | None = None
    probe: str | None = None
    row: str = field(default="", compare=False)
    choice: str = field(default="", compare=False)

    @property
    def set_name(self) -> str:
        """Name of the set; for a file, without folder and suffix."""
        return _stem(self.dataset)

    @property
    def parts(self) -> list[str]:
        """The representations that are joined."""
        return self.embedding.split("+")

    @property
    def encoders(self) -> list[str]:
        """The parts that are no :data:`FIXED`; one at most may be joined."""
        return [part for part in self.parts if part not in FIXED]

    @property
    def encoder(self) -> str | None:
        """The part that is an encoder, if one is."""
        return next(iter(self.encoders), None)

    @property
    def is_untrained(self) -> bool:
        """Whether an encoder begins with new weights."""
        return self.encoder is not None and _is_untrained(self.encoder)

    @property
    def file(self) -> str | None:
        """The file of an encoder, or of its shape if it is untrained; None for the usual one."""
        encoder = self.encoder
        if encoder is not None and _is_untrained(encoder):
            return encoder.partition(":")[2] or None
        return encoder

    @property
    def shape(self) -> dict[str, Any]:
        """Arguments of its :class:`~gcl_hard.graphs.MoleculeGIN`."""
        return load_pretrained(self.file).shape if self.file else USUAL_SHAPE

    @property
    def is_head(self) -> bool:
        """Whether a supervised head predicts in the place of a probe."""
        return self.finetuning is not None and self.finetuning.method == SUPERVISED

    @property
    def needs_embedding(self) -> bool:
        """Whether a probe reads the embeddings of an encoder."""
        return self.encoder is not None and not self.is_head

    @property
    def epochs(self) -> int:
        """Passes of fine-tuning over the training part."""
        return 0 if self.finetuning is None else self.finetuning.epochs or 0

    def __str__(self) -> str:
        """Name in messages and progress bars."""
        return f"{self.set_name} ({self.split}) {self.row}, seed {self.seed}"

    @property
    def trained(self) -> TransferRun:
        """The run of its encoder alone: what joins others with it trains no second one."""
        return self if self.encoder is None else replace(self, embedding=self.encoder, probe=None)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What decides the numbers; for a file its content, not its path."""
        found = asdict(self)
        del found["row"], found["choice"]
        found["split"] = self.split.removesuffix(CHIRALITY)
        if self.split in ORDERS:
            found["chirality"] = False  # before there was a choice, all splits kept it
        if self.train_share == 1:
            del found["train_share"]  # as before there was one
        for name in ("targets", "probe"):
            if found[name] is None:
                del found[name]
        if self.finetuning is not None and not self.finetuning.neighbours:
            del found["finetuning"]["neighbours"]  # as before there were any
        if is_file(self.dataset):
            found["dataset"] = f"{self.set_name} {file_digest(self.dataset)}"
        if self.file:
            name = _with_shape(self.shape) if self.is_untrained else file_digest(self.file)
            names = [name if part == self.encoder else part for part in self.parts]
            found["embedding"] = "+".join(names)
        return found

    @property
    def key(self) -> str:
        """Name of its file, without suffix."""
        text = json.dumps(self.identity, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        name = "+".join(
            UNTRAINED if _is_untrained(part) else Path(part).stem for part in self.parts
        )
        tuned = self.finetuning.method if self.finetuning else NONE
        split = self.identity["split"]
        return f"{self.set_name}_{name}_{tuned}_{split}_{digest}_seed{self.seed}"


def runs_of(
    datasets: Sequence[str],
    embeddings: Sequence[str],
    finetunings: Sequence[Finetuning | None],
    splits: Sequence[str] | None,
    seeds: Sequence[int],
    *,
    train_shares: Sequence[float] = (1.0,),
) -> list[TransferRun]:
    """All combinations that mean something.

    What has no encoder has no fine-tuning, and a head is its own probe, joined with nothing. What
    no seed changes has one: fingerprints, and one file of an encoder that is not fine-tuned.
    ``{seed}`` in a file's name stands for the seed. Without splits it is the given one
    where the set has one, and else scaffold.

    Raises:
        InputError: for an unknown set, representation or split, or a file that is not there.
    """
    found = []
    labels = {one: _label(one) for one in embeddings}
    if len({*labels.values()}) < len(labels):
        labels = {one: one for one in embeddings}
    names = [one if is_file(one) else canonical(one) for one in datasets]
    for name, same in groupby(sorted(dict.fromkeys(names), key=_stem), key=_stem):
        if len(paths := [*same]) > 1:
            raise InputError(
                f"{' and '.join(paths)} are both named {name}, and results are told apart by this "
                f"name: rename one"
            )
    for dataset, embedding, tuned, share, seed in product(
        names, embeddings, finetunings, train_shares, seeds
    ):
        given = has_split(dataset)
        for split in splits or (("given",) if given else ("scaffold",)):
            check_option("split", split, SPLITS)
            if split == "given" and not given:
                raise InputError(f"{dataset} has no given split: {', '.join(SPLITS[1:])}")
            run = TransferRun(
                dataset, embedding.replace("{seed}", str(seed)), tuned, split, seed, share
            )
            row, choice = _names(labels[embedding], tuned, finetunings)
            if not run.encoders:
                run, row, choice = replace(run, finetuning=None), labels[embedding], ""
            of = share_label(share) if len({*train_shares}) > 1 else ""
            run = replace(run, row=row + of, choice=choice and choice + of)
            encoders = run.encoders
            if len(encoders) > 1:
                raise InputError(
                    f"{embedding} joins two encoders: join one with {', '.join(FIXED)}"
                )
            drawn = run.is_untrained or "{seed}" in embedding or run.finetuning is not None
            if not drawn and share == 1:
                run = replace(run, seed=0)
            if run.file and not Path(run.file).is_file():
                raise InputError(
                    f"{run.file} is not there: an embedding is untrained, {', '.join(FIXED)}, "
                    f"or a file of python -m gcl_hard.pretrain"
                )
            if tuned is not None and tuned.method == SUPERVISED and len(run.parts) > 1:
                continue
            found.append(run)
    return list(dict.fromkeys(found))


def _stem(dataset: str) -> str:
    return Path(dataset).name.partition(".")[0]


def share_label(share: float) -> str:
    """What a row's label ends with, if a command has several shares."""
    return f", {100 * share:g} % of the training part"


def _names(
    label: str, tuned: Finetuning | None, all_of: Sequence[Finetuning | None]
) -> tuple[str, str]:
    """The row of a run and of its choice: what differs among a method's settings is named."""
    if tuned is None:
        return label, ""
    mine = [one for one in all_of if one is not None and one.method == tuned.method]
    said = [
        f"{name} {getattr(tuned, name):g}"
        for name in LISTS
        if len({getattr(one, name) for one in mine}) > 1
    ]
    row = f"{label}, {tuned.method}"
    return ", ".join([row, *said]), f"{row}, chosen" if said else ""


def _label(embedding: str) -> str:
    """Names of the parts: for a file its stem, without the place of the seed."""
    return "+".join(_name(part) for part in embedding.split("+"))


def _name(part: str) -> str:
    if part in (*FIXED, UNTRAINED):
        return part
    of = f"{UNTRAINED}:" if _is_untrained(part) else ""
    return of + re.sub(r"[-_.]?\{seed\}", "", Path(part.removeprefix(of)).stem)


def _is_untrained(part: str) -> bool:
    return part.partition(":")[0] == UNTRAINED


def _with_shape(shape: Mapping[str, Any]) -> str:
    """``untrained``, with what of the shape is not as usual."""
    unusual = [f"{name} {value}" for name, value in shape.items() if value != USUAL_SHAPE[name]]
    return " ".join([UNTRAINED, *unusual])
