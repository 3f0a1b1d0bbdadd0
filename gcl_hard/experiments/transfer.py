"""Transfer: encoders of molecules scored on labelled sets, against fingerprints."""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from gcl_hard.errors import InputError, check_at_least, check_number, check_option
from gcl_hard.evaluation.folds import ScaffoldSplit, scaffold_split
from gcl_hard.evaluation.transfer import (
    LARGE,
    Probed,
    kernel_predictions,
    linear_predictions,
    rbf_kernels,
    rmse,
    roc_auc,
)
from gcl_hard.experiments import hardware
from gcl_hard.experiments.experiment import seeded_weights
from gcl_hard.experiments.pretraining import loaded
from gcl_hard.experiments.store import (
    check_writable,
    compact_lines,
    compact_rows,
    locked,
    write_json,
)
from gcl_hard.functional.labels import LabelGap, check_gap
from gcl_hard.graphs import (
    MoleculeData,
    MoleculeGIN,
    TwoView,
    embed,
    fingerprints,
    scaffolds,
    tanimoto,
)
from gcl_hard.graphs.augment import check_views
from gcl_hard.graphs.data import GraphBatch
from gcl_hard.graphs.models import GraphModel, encode
from gcl_hard.graphs.moleculenet import SOURCES, canonical, has_split, is_file
from gcl_hard.graphs.molecules import most_similar
from gcl_hard.graphs.order import beside, epoch_batches
from gcl_hard.graphs.pretrained import load_pretrained
from gcl_hard.graphs.refinement import wl_kernel
from gcl_hard.io import atomic_write, file_digest
from gcl_hard.methods import METHODS, contrastive_loss
from gcl_hard.models import evaluating
from gcl_hard.training.loop import Optimisation, train

NINE = ("BACE", "BBBP", "ClinTox", "SIDER", "Tox21", "ToxCast", "ESOL", "FreeSolv", "Lipo")
CLIFFS = tuple(name for name in SOURCES if name.startswith("CHEMBL"))
SPLITS = ("given", "scaffold", "random-0", "random-1", "random-2")
FIXED = ("ecfp", "wl", "counts")
"""Representations without an encoder."""
NONE, SUPERVISED = "none", "supervised"
DRAWN = 0.1
"""Share of a given training part that is drawn for validation."""
CALIBRATION = 10
"""Batches by which an untrained encoder's BatchNorm is calibrated."""


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
        "(0.3,1); of several tasks by their disagreement (0.2,0.5)",
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
        embedding: ``untrained``, a file of :func:`gcl_hard.experiments.pretraining.pretrain`,
            ``ecfp``, ``wl`` or ``counts``, of atoms and bonds of each code; joined with a plus,
            their kernels are added.
        finetuning: how the encoder is trained on the training part, None for not at all.
        split: one of :data:`SPLITS`.
        seed: of weights, views and draws.
        train_share: share of the training part that is used.
        targets: columns of targets of a file; None for all others that are numbers.
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
    row: str = field(default="", compare=False)
    choice: str = field(default="", compare=False)

    @property
    def set_name(self) -> str:
        """Name of the set; of a file without folder and suffix."""
        return Path(self.dataset).name.partition(".")[0]

    @property
    def parts(self) -> list[str]:
        """The representations that are joined."""
        return self.embedding.split("+")

    @property
    def encoders(self) -> list[str]:
        """The parts that are ``untrained`` or a file; one at most may be joined."""
        return [part for part in self.parts if part not in FIXED]

    @property
    def encoder(self) -> str | None:
        """``untrained`` or a file; None without an encoder."""
        return next(iter(self.encoders), None)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What decides the numbers; of a file its content, not its path."""
        found = asdict(self)
        del found["row"], found["choice"]
        if self.train_share == 1:
            del found["train_share"]  # as before there was one
        if self.targets is None:
            del found["targets"]
        if self.finetuning is not None and not self.finetuning.neighbours:
            del found["finetuning"]["neighbours"]  # as before there were any
        if is_file(self.dataset):
            found["dataset"] = f"{self.set_name} {file_digest(self.dataset)}"
        if self.encoder not in (None, "untrained"):
            digest = file_digest(str(self.encoder))
            names = [digest if part == self.encoder else part for part in self.parts]
            found["embedding"] = "+".join(names)
        return found

    @property
    def key(self) -> str:
        """Name of its file, without suffix."""
        text = json.dumps(self.identity, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        name = "+".join(Path(part).stem for part in self.parts)
        tuned = self.finetuning.method if self.finetuning else NONE
        return f"{self.set_name}_{name}_{tuned}_{self.split}_{digest}_seed{self.seed}"


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
            drawn = "untrained" in encoders or "{seed}" in embedding or run.finetuning is not None
            if not drawn and share == 1:
                run = replace(run, seed=0)
            if encoders and encoders[0] != "untrained" and not Path(encoders[0]).is_file():
                raise InputError(
                    f"{encoders[0]} is not there: an embedding is untrained, {', '.join(FIXED)}, "
                    f"or a file of python -m gcl_hard.pretrain"
                )
            if tuned is not None and tuned.method == SUPERVISED and len(run.parts) > 1:
                continue
            found.append(run)
    return list(dict.fromkeys(found))


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
    """Names of the parts: of a file its stem, without the place of the seed."""
    names = [
        part if part in FIXED else re.sub(r"[-_.]?\{seed\}", "", Path(part).stem)
        for part in embedding.split("+")
    ]  # fmt: skip
    return "+".join(names)


class Labelled:
    """A labelled set with what several runs share: scaffolds, fingerprints, kernels."""

    def __init__(self, data: MoleculeData) -> None:
        self.data, self.molecules = data, data.molecules
        self._splits: dict[str, ScaffoldSplit] = {}
        self.y = data.molecules.y.numpy().astype(np.float64)
        if data.kind == "unlabelled":
            raise InputError(f"{data.molecules.name} has no targets to be scored by")
        if data.kind == "values" and self.y.ndim > 1:
            tasks = ", ".join(data.molecules.tasks)
            raise InputError(
                f"{data.molecules.name} has several columns of numbers: name one of {tasks} by "
                f"targets"
            )
        if data.kind == "classes" and data.molecules.n_classes != 2:
            raise InputError(
                f"{data.molecules.name} has {data.molecules.n_classes} classes: transfer scores two"
            )

    def large(self, split: ScaffoldSplit) -> bool:
        """Whether there are too many molecules and tasks for kernel machines."""
        return len(split.train) * (self.y[:1].size) > LARGE

    @property
    def classes(self) -> bool:
        """Whether targets are 0 and 1."""
        return self.data.kind != "values"

    @cached_property
    def fingerprints(self) -> Any:
        """ECFP, uint8 [n, bits]."""
        return fingerprints(self.molecules)

    @cached_property
    def tanimoto(self) -> Any:
        """Their similarities, [n, n]."""
        return tanimoto(self.fingerprints, self.fingerprints)

    @cached_property
    def counts(self) -> Any:
        """Log of one more than the number of atoms and bonds of each code, [n, codes]."""
        return np.log1p(self.molecules.counts())

    @cached_property
    def wl(self) -> Any:
        """The Weisfeiler-Lehman kernel, [n, n]."""
        graphs = replace(self.molecules, x=self.molecules.x.float())
        return wl_kernel(graphs, optimal_assignment=False)

    @cached_property
    def scaffolds(self) -> list[str]:
        """Of every molecule."""
        return scaffolds(self.molecules.smiles)

    def split_of(self, run: TransferRun) -> ScaffoldSplit:
        """The parts of a run: of its training part the share that it uses, drawn by its seed; a
        larger share holds a smaller one.
        """
        split = self.split(run.split)
        drawn = np.random.default_rng(run.seed).permutation(split.train)
        n = max(1, round(run.train_share * len(drawn)))
        return split if n == len(drawn) else split._replace(train=np.sort(drawn[:n]))

    def split(self, name: str) -> ScaffoldSplit:
        """The parts of a split by its name."""
        if name not in self._splits:
            self._splits[name] = self._split(name)
        return self._splits[name]

    def _split(self, name: str) -> ScaffoldSplit:
        if name != "given":
            seed = None if name == "scaffold" else int(name.removeprefix("random-"))
            return scaffold_split(self.scaffolds, seed=seed)
        test = self.data.test
        if test is None or not test.any() or test.all():
            raise InputError(
                f"{self.molecules.name}: its column split names no test, or nothing else"
            )
        if (valid := self.data.valid) is not None:
            rest = np.flatnonzero(~(test | valid))
            if not len(rest):
                raise InputError(f"{self.molecules.name}: its column split leaves none to train on")
            return ScaffoldSplit(rest, np.flatnonzero(valid), np.flatnonzero(test))
        train = np.random.default_rng(0).permutation(np.flatnonzero(~test))
        n = max(1, round(DRAWN * len(train)))
        return ScaffoldSplit(np.sort(train[n:]), np.sort(train[:n]), np.flatnonzero(test))


def new_encoder(run: TransferRun, labelled: Labelled) -> MoleculeGIN:
    """The encoder that a run begins with; BatchNorm of an untrained one is calibrated."""
    if run.encoder != "untrained":
        return load_pretrained(str(run.encoder)).encoder
    with seeded_weights(run.seed, 0):
        encoder = MoleculeGIN()
    norms = [part for part in encoder.modules() if isinstance(part, nn.BatchNorm1d)]
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = None  # a plain mean
    train_ids = labelled.split_of(run).train
    with torch.no_grad():
        for ids in torch.split(torch.from_numpy(train_ids), 256)[:CALIBRATION]:
            encode(encoder, labelled.molecules.batch(ids), encoder.out_dim)
    for norm, momentum in zip(norms, usual, strict=True):
        norm.momentum = momentum
    return encoder.eval()


class TargetModel(GraphModel):
    r"""The supervised baseline: an encoder and a linear head.

    .. math:: \ell = \text{mean over known targets of } \operatorname{BCE}(\hat y, y)
              \text{ or } (\hat y - y)^2

    Args:
        encoder: trained with the head.
        n_targets: T.
        classes: whether targets are 0 and 1.
        scale: mean and standard deviation of the training targets, for numbers.
    """

    def __init__(
        self, encoder: MoleculeGIN, n_targets: int, *, classes: bool, scale: tuple[float, float]
    ) -> None:
        super().__init__(encoder)
        # Sums over atoms are large, and a head that begins at 0 predicts the mean.
        self.norm = nn.LayerNorm(self.out_dim)
        self.head = nn.Linear(self.out_dim, n_targets)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.classes, self.scale = classes, scale

    def forward(self, graphs: GraphBatch) -> Tensor:
        """Loss of a batch, float []."""
        y, found = graphs.y.float().view(graphs.n_graphs, -1), self._targets(graphs)
        known = y.isfinite()
        if not known.any():
            return found.sum() * 0
        if self.classes:
            return nn.functional.binary_cross_entropy_with_logits(found[known], y[known])
        return nn.functional.mse_loss(found[known], (y[known] - self.scale[0]) / self.scale[1])

    def _targets(self, graphs: GraphBatch) -> Tensor:
        _, z = encode(self.encoder, graphs, self.out_dim)
        found: Tensor = self.head(self.norm(z))
        return found

    def predict(self, graphs: GraphBatch) -> np.ndarray[Any, Any]:
        """Logits or numbers, [G, T], in evaluation mode."""
        with evaluating(self):
            found = self._targets(graphs).double().numpy()
        return found if self.classes else found * self.scale[1] + self.scale[0]


def finetune(run: TransferRun, labelled: Labelled, split: ScaffoldSplit) -> MoleculeGIN | Probed:
    """Train a run's encoder on its training part.

    Returns:
        The encoder; of the supervised baseline its predictions, after the epoch that is best on
        the validation part.
    """
    how = run.finetuning
    assert how is not None
    part = labelled.molecules.take(torch.from_numpy(split.train))
    current: list[Tensor] = [torch.empty(0, dtype=torch.int64)]

    near = most_similar(labelled.fingerprints[split.train]) if how.neighbours else None

    def batches(epoch: int) -> Iterator[GraphBatch]:
        drawn = [*epoch_batches(len(part), how.batch_size, seed=run.seed, epoch=epoch)]
        if near is not None:
            order = beside(torch.cat(drawn).numpy(), near, how.neighbours)
            drawn = [*torch.split(torch.from_numpy(order), [*map(len, drawn)])]
        for ids in drawn:
            current[0] = ids
            yield part.batch(ids)

    assert how.epochs is not None
    assert how.lr is not None
    optimisation = Optimisation(epochs=how.epochs, lr=how.lr)
    encoder = new_encoder(run, labelled)
    fit = partial(train, batches=batches, optimisation=optimisation, setting=run.key)
    with seeded_weights(run.seed, 1) as views:
        if how.method == SUPERVISED:
            return _supervised(encoder, fit, labelled, split)
        loss = contrastive_loss(how.method, beta=how.beta, temperature=how.temperature, seed=views)
    if part.n_classes == 0:
        loss.sampler.label_gap = check_gap(how.gap(labelled.data.kind))
    if how.similarity:
        bits = labelled.fingerprints[split.train]

        def weights(rows: Tensor, columns: Tensor) -> Tensor:
            a, b = (bits[current[0][of].numpy()] for of in (rows, columns))
            return torch.from_numpy(how.similarity * tanimoto(a, b)).float()

        loss.sampler.pair_weights = weights
    with seeded_weights(run.seed, 2) as views:
        model = TwoView(
            encoder, loss=loss, augmentations=how.augmentations, strength=how.strength, seed=views
        )
    fit(model)
    return encoder


def _supervised(encoder: MoleculeGIN, fit: Any, labelled: Labelled, split: ScaffoldSplit) -> Probed:
    y, classes = labelled.y, labelled.classes
    known = y[split.train][np.isfinite(y[split.train])]
    scale = (0.0, 1.0) if classes else (float(known.mean()), float(known.std()) or 1.0)
    model = TargetModel(encoder, 1 if y.ndim == 1 else y.shape[1], classes=classes, scale=scale)
    valid, test = (
        labelled.molecules.batch(torch.from_numpy(part)) for part in (split.valid, split.test)
    )
    best: dict[str, Any] = {"error": np.inf}

    def on_epoch(epoch: int, loss: float) -> None:
        found = model.predict(valid)
        if classes:
            score = roc_auc(y[split.valid], found.reshape(y[split.valid].shape)).mean
        else:
            score = rmse(y[split.valid], found[:, 0])
        error = math.inf if math.isnan(score) else -score if classes else score
        if error <= best["error"]:  # the last, where validation cannot tell
            best.update(error=error, validation=score, test=model.predict(test))

    fit(model, on_epoch=on_epoch)
    found: np.ndarray[Any, Any] = best["test"]
    if classes:
        columns = y[split.train].reshape(len(split.train), -1)
        found[:, [len(set(one[np.isfinite(one)])) < 2 for one in columns.T]] = np.nan
    return Probed(found[:, 0] if y.ndim == 1 else found, best["validation"])


def predict(run: TransferRun, labelled: Labelled) -> Probed:
    """What a run predicts of the test part, with its score on the validation part."""
    split, z = labelled.split_of(run), None
    if run.finetuning is not None:
        found = finetune(run, labelled, split)
        if isinstance(found, Probed):
            return found
        z = embed(found, labelled.molecules)
    elif run.encoder is not None:
        z = embed(new_encoder(run, labelled), labelled.molecules)
    blocks = ([z] if z is not None else []) + [labelled.counts] * ("counts" in run.parts)
    if labelled.large(labelled.split(run.split)):
        blocks += [labelled.fingerprints] * ("ecfp" in run.parts)
        x = np.concatenate([np.asarray(block, np.float64) for block in blocks], 1)
        return linear_predictions(x, labelled.y, split, classes=labelled.classes)
    of_pairs = {"ecfp": "tanimoto", "wl": "wl"}
    fixed: Any = sum(getattr(labelled, of_pairs[part]) for part in run.parts if part in of_pairs)
    of_blocks = [rbf_kernels(block, split.train) for block in blocks]
    kernels = [fixed + sum(same_width) for same_width in zip(*of_blocks, strict=True)] or [fixed]
    return kernel_predictions(kernels, labelled.y, split, classes=labelled.classes)


def scored(labelled: Labelled, split: ScaffoldSplit, found: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The scores of predictions of the test part, None where undefined, and what was left out."""
    y = labelled.y[split.test]
    if labelled.classes:
        auc, names = roc_auc(y, found), labelled.molecules.tasks
        return {
            "auc": _known(100 * auc.mean),
            "one_class": [names[task] for task in auc.one_class],
            "few": [names[task] for task in auc.few],
        }
    score = {"rmse": _known(rmse(y, found))}
    if labelled.data.cliffs is not None:
        score["cliff_rmse"] = _known(rmse(y, found, labelled.data.cliffs[split.test]))
    return score


def _said(result: dict[str, Any]) -> str:
    """A result in a line: its scores, what has none, and its seconds."""
    score = result["score"]
    said = [f"{k} {v:.3f}" for k, v in score.items() if isinstance(v, float)]
    if score.get("one_class"):
        said.append(
            f"one class alone in the training or the test part, left out: "
            f"{', '.join(score['one_class'])}"
        )
    return f"{'; '.join(said)} ({result['seconds']:.0f} s)"


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


@dataclass(frozen=True)
class TransferOptions:
    """The options of ``python -m gcl_hard.transfer``."""

    dataset: Annotated[tuple[str, ...], "sets of molecules, or files NAME.csv"] = ("BACE",)
    targets: Annotated[
        tuple[str, ...] | None,
        "columns of targets of a file; all others that are numbers if not given",
    ] = None
    embeddings: Annotated[
        tuple[str, ...],
        "untrained, ecfp, wl, counts (of atoms and bonds), or a file of gcl_hard.pretrain; a+b "
        "joins kernels; {seed} in a file's name is the seed",
    ] = ("untrained", "ecfp")
    finetune: Annotated[
        tuple[str, ...], "none, a method that reads labels, or supervised, of encoders"
    ] = (NONE,)
    split: Annotated[
        tuple[str, ...] | None,
        "given, scaffold, random-0 to random-2, random orders of scaffolds (given where there is "
        "one, else scaffold)",
    ] = None
    seeds: Annotated[tuple[int, ...], "a count (3 is 0…2) or a list (0,1,2)"] = (0, 1, 2)
    train_share: Annotated[
        tuple[float, ...], "shares of the training part that are used, a learning curve if several"
    ] = (1.0,)
    beta: Annotated[
        tuple[float, ...], "β of fine-tuning by hscl; of several, validation chooses"
    ] = (1.0,)
    similarity: Annotated[
        tuple[float, ...],
        "κ of fine-tuning: pairs weigh e^(κ·Tanimoto), so that similar molecules are harder; of "
        "several, validation chooses",
    ] = (0.0,)
    neighbours: Annotated[
        tuple[int, ...],
        "of fine-tuning: how many of its most similar molecules follow each drawn one in its "
        "batch; of several, validation chooses",
    ] = (0,)
    table: Annotated[
        str | None, "transfer: the nine sets of MoleculeNet; cliffs: the twenty of MoleculeACE"
    ] = None
    output: Annotated[Path, "folder of the results, which are saved as runs finish"] = Path(
        "transfer"
    )
    report: Annotated[Path | None, "page.md to write"] = None
    report_only: Annotated[bool, "run nothing: show what is finished"] = False
    compact: Annotated[Path | None, "move a folder's result files into one file, and exit"] = None
    data_dir: Annotated[Path | None, "folder with the molecules (or set GCL_HARD_DATA)"] = None
    threads: Annotated[int | None, "CPU threads"] = None
    finetuning: Mapping[str, Any] | None = None

    def runs(self) -> list[TransferRun]:
        """All runs."""
        datasets = self.dataset
        if self.table is not None:
            check_option("table", self.table, ("transfer", "cliffs"))
            datasets = NINE if self.table == "transfer" else CLIFFS
        how = [one for name in self.finetune for one in self._settings_of(name)]
        for share in self.train_share:
            check_number("train-share", share, above=0, most=1)
        runs = runs_of(
            datasets, self.embeddings, how, self.split, self.seeds, train_shares=self.train_share
        )
        if self.targets is None:
            return runs
        if named := [one for one in datasets if not is_file(one)]:
            raise InputError(f"targets are columns of files of yours, and {named[0]} has its own")
        return [replace(run, targets=self.targets) for run in runs]

    def _settings_of(self, name: str) -> list[Finetuning | None]:
        """Fine-tuning by a name, once for each combination of what it reads."""
        if name == NONE:
            return [None]
        hardened = name in METHODS and METHODS[name].hardening == "exponential"
        betas = self.beta if hardened else (Finetuning.beta,)
        supervised = name == SUPERVISED
        kappas = (Finetuning.similarity,) if supervised else self.similarity
        counts = (Finetuning.neighbours,) if supervised else self.neighbours
        return [
            Finetuning(
                name, beta=beta, similarity=kappa, neighbours=count, **(self.finetuning or {})
            )
            for beta, kappa, count in product(betas, kappas, counts)
        ]


def transfer(options: TransferOptions, command: str = "") -> list[dict[str, Any]]:
    """Run what is not finished, write the page, and return all results.

    Args:
        options: what to run.
        command: the command line, for the page.

    Raises:
        InputError: for anything that cannot be run.
    """
    if options.compact is not None:
        print(f"{compact(options.compact)} results in {options.compact / COMPACT}")
        return []
    runs = options.runs()
    known = finished_results(options.output)
    if options.report is not None and options.report.suffix != ".md":
        raise InputError(f"report is a page of Markdown, NAME.md, got {options.report}")
    if options.report is not None:
        check_writable(options.report.absolute().parent)
    hardware.use_threads(options.threads or 1, 0, 0)
    numbered = [*enumerate(runs, 1)]
    results = {i: one for i, run in numbered if (one := _stored(options.output, run, known))}
    too_large: list[str] = []
    if not options.report_only and len(results) < len(runs):
        check_writable(options.output)
        _run_others(options, runs, results, too_large)
    found = [results[number] for number in sorted(results)]
    n_open = len(runs) - len(found) - len(too_large)
    if not found:
        raise InputError(f"none of {len(runs)} runs is finished in {options.output}")
    from gcl_hard.reports import transfer as page

    found += chosen(found)
    data = page.frame(found)
    for metric in data["metric"].drop_duplicates():
        print(f"\n{page.METRICS[metric]}\n{page.table(data, metric).to_string()}")
    if options.report is not None:
        page.write_page(options.report, found, command, n_open, too_large=too_large)
    return found


def _stored(
    folder: Path, run: TransferRun, known: Mapping[str, dict[str, Any]]
) -> dict[str, Any] | None:
    """The result of a finished run, in the row that it is asked for."""
    path = folder / f"{run.key}.json"
    finished = _result_in(path) if path.exists() else known.get(run.key)
    return finished and finished | {"row": run.row, "choice": run.choice}


def _run_others(
    options: TransferOptions,
    runs: Sequence[TransferRun],
    results: dict[int, dict[str, Any]],
    too_large: list[str],
) -> None:
    """Add the missing results, by number, and wait for those that another command is at."""
    sets: dict[str, Labelled] = {}
    versions = hardware.versions()
    todo = [(number, run) for number, run in enumerate(runs, 1) if number not in results]
    while todo:
        elsewhere = []
        for number, run in todo:
            if run.dataset not in sets:
                sets.clear()
                sets[run.dataset] = Labelled(
                    loaded(run.dataset, data_dir=options.data_dir, targets=run.targets)
                )
            labelled = sets[run.dataset]
            if "wl" in run.parts and labelled.large(labelled.split(run.split)):
                too_large.append(f"{run.dataset} ({run.split}), {run.row}")
                print(f"{run.dataset} is too large for the kernel of wl: left out", file=sys.stderr)
                continue
            path = options.output / f"{run.key}.json"
            with locked(path.with_name(f".{path.name}.lock")) as mine:
                if not mine:
                    elsewhere.append((number, run))
                    continue
                if (result := _stored(options.output, run, {})) is None:
                    result = _result(run, labelled, versions)
                    write_json({"schema_version": SCHEMA_VERSION, **result}, path)
            results[number] = result
            print(f"{number}/{len(runs)} {run.key}: {_said(result)}", file=sys.stderr)
        todo = elsewhere
        if todo:
            print(f"waiting for another command to end {len(todo)} runs", file=sys.stderr)
            time.sleep(5.0)


def chosen(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of every choice the result that is best on the validation part, by set, split and seed.

    A choice without the validation score of one of its results is not made.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in results:
        if one["choice"]:
            key = one["choice"], one["dataset"], one["split"], one["seed"]
            groups.setdefault(key, []).append(one)
    found = []
    for (row, *_), mine in groups.items():
        if all(one.get("validation") is not None for one in mine):
            best = max if "auc" in mine[0]["score"] else min
            found.append(best(mine, key=lambda one: one["validation"]) | {"row": row})
    return found


SCHEMA_VERSION = 1
COMPACT = "transfer.jsonl"
"""File name of the compact form."""
SHARED = ("test", "y", "cliffs", "sizes", "versions", "device", "finetuning")
"""Fields that many results have in common."""


def compact(folder: Path) -> int:
    """Move the single files of a folder into the compact form; of two results the single one stays.

    Returns:
        Results in the compact form.

    Raises:
        InputError: if a file is damaged, or the folder cannot be written to.
    """
    singles = sorted(folder.glob("[!.]*_seed*.json"))
    results = finished_results(folder) | {path.stem: _result_in(path) for path in singles}
    with atomic_write(folder / COMPACT) as file:
        file.writelines(f"{line}\n".encode() for line in compact_lines(results, SHARED))
    for path in singles:
        path.unlink()
    return len(results)


def finished_results(folder: Path) -> dict[str, dict[str, Any]]:
    """Results of the compact form of a folder, by their keys."""
    empty: dict[str, list[str]] = {"one_class": [], "few": []}

    def whole(row: dict[str, Any]) -> dict[str, Any]:
        row["score"] = {**(empty if "auc" in row["score"] else {}), **row["score"]}
        return row

    return dict(compact_rows(folder / COMPACT, SHARED, whole))


def _result_in(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version = found.pop("schema_version")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is damaged: remove it, and run its command again") from error
    if version != SCHEMA_VERSION:
        raise InputError(f"{path} is of schema {version}, and this version writes {SCHEMA_VERSION}")
    return found


def _result(run: TransferRun, labelled: Labelled, versions: dict[str, str]) -> dict[str, Any]:
    start = time.perf_counter()
    split = labelled.split_of(run)
    predictions, validation = predict(run, labelled)
    return {
        **asdict(run),
        "dataset": run.set_name,
        "identity": run.identity,
        "kind": labelled.data.kind,
        "score": scored(labelled, split, predictions),
        "validation": _known(validation),
        "sizes": [len(part) for part in split],
        "test": labelled.molecules.rows[split.test].tolist(),
        "y": [None if math.isnan(y) else y for y in np.ravel(labelled.y[split.test])],
        "cliffs": None if labelled.data.cliffs is None
        else labelled.data.cliffs[split.test].tolist(),
        "predictions": [_known(float(f"{x:.6g}")) for x in np.ravel(predictions)],
        "invalid": len(labelled.molecules.invalid),
        "pretrained": _pretrained_on(run),
        "seconds": time.perf_counter() - start,
        "device": hardware.device_name(torch.device("cpu")),
        "versions": versions,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip


def _pretrained_on(run: TransferRun) -> int | None:
    """Molecules that the encoder of a run was pre-trained on."""
    if run.encoder in (None, "untrained"):
        return 0 if run.encoder else None
    return int(load_pretrained(str(run.encoder)).about["n"])


LISTS = ("beta", "similarity", "neighbours")
"""Settings of fine-tuning of which a command takes several."""
SETTINGS = tuple(one.name for one in fields(Finetuning) if one.name not in ("method", *LISTS))
"""The others."""
