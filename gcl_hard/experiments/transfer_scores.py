"""What a run of transfer predicts, and its scores: the part of the work that a worker does."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, reduce
from operator import add
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import hstack

from gcl_hard.errors import InputError, OutOfMemory
from gcl_hard.evaluation.folds import ScaffoldSplit
from gcl_hard.evaluation.transfer import (
    GAMMAS,
    Probed,
    kernel_predictions,
    linear_predictions,
    nystroem_features,
    rbf_kernels,
    rmse,
    roc_auc,
    standardised,
)
from gcl_hard.experiments.finetuning import diverged, finetune, new_encoder, train_head
from gcl_hard.experiments.labelled import Labelled
from gcl_hard.graphs import embed, load_molecules
from gcl_hard.graphs.moleculenet import split_checked_later
from gcl_hard.graphs.pretrained import load_pretrained
from gcl_hard.runs import hardware
from gcl_hard.runs.engine import on_interrupt
from gcl_hard.settings.molecules import TransferRun
from gcl_hard.training.loop import OnEpoch

OF_PAIRS = {"ecfp": "tanimoto", "wl": "wl"}
"""Parts of an embedding that are kernels, and which."""


@dataclass(frozen=True)
class Context:
    """Where and how a command scores.

    Attributes:
        data_dir: folder with the molecules.
        threads: CPU threads of a process.
        versions: versions of the packages that numbers depend on.
        command: tells the sets that a worker keeps from those of another command.
    """

    data_dir: Path | None
    threads: int
    versions: dict[str, str] = field(default_factory=hardware.versions, hash=False)
    command: str = field(default_factory=lambda: uuid4().hex)

    def labelled(self, run: TransferRun) -> Labelled:
        """The set of a run, kept until one of another set is asked for."""
        return _labelled(self, run.dataset, run.targets)


@lru_cache(maxsize=1)
def _labelled(context: Context, dataset: str, targets: tuple[str, ...] | None) -> Labelled:
    with split_checked_later():
        return Labelled(load_molecules(dataset, data_dir=context.data_dir, targets=targets))


def forget() -> None:
    """Free the set that this process keeps."""
    _labelled.cache_clear()


def embed_run(
    context: Context, run: TransferRun, *, report: Callable[..., bool]
) -> tuple[NDArray[Any], float]:
    """Task: embeddings by a run's encoder, which is fine-tuned first.

    Args:
        context: where and how.
        run: with an encoder and without a supervised head.
        report: called with the run's key, the share of its training done, and its loss; returns
            whether to go on.

    Returns:
        Embeddings of all molecules, [n, d], and the seconds that they took.

    Raises:
        DivergenceError: if a loss or an embedding is not finite.
        OutOfMemory: if the kernels of the probe are larger than the memory.
        KeyboardInterrupt: if ``report`` returned False.
    """
    start = time.perf_counter()
    labelled = _begun(context, run)
    found = embeddings_of(run, labelled, _told(run, report))
    return found, time.perf_counter() - start


def score_run(
    context: Context,
    run: TransferRun,
    embedded: tuple[NDArray[Any], float] | None,
    *,
    report: Callable[..., bool],
) -> dict[str, Any]:
    """Task: the result of a run.

    Args:
        context: where and how.
        run: the run.
        embedded: from :func:`embed_run`; None without an encoder, and for a supervised head.
        report: see :func:`embed_run`; a probe does not report.

    Raises:
        DivergenceError: if a loss or a prediction is not finite.
        OutOfMemory: if the kernels of the probe are larger than the memory.
        KeyboardInterrupt: on Ctrl-C, or if ``report`` returned False.
    """
    start = time.perf_counter()
    labelled = _begun(context, run)
    z, seconds = embedded or (None, 0.0)
    with on_interrupt(signal.default_int_handler):  # a probe has nothing to save
        if run.is_head:
            found = train_head(run, labelled, _told(run, report))
        else:
            found = predict(run, labelled, z)
    return _result(context, run, labelled, found, seconds + time.perf_counter() - start)


def _begun(context: Context, run: TransferRun) -> Labelled:
    """The set of a run, if its files are those that the command began with."""
    hardware.use_threads(context.threads, 0, 0)
    if replace(run).identity != run.identity:
        raise InputError(
            f"{run.key}: a file of its molecules or its encoder is another than when the command "
            f"began: give the command again"
        )
    labelled = context.labelled(run)
    needed, free = _kernel_bytes(run, labelled), hardware.available_memory()
    if free is not None and needed > free:
        raise _too_large(run, labelled, f", and {free / 1e9:.3g} GB are free")
    return labelled


def _kernel_bytes(run: TransferRun, labelled: Labelled) -> int:
    """Memory that the kernels of a run take at most, those of the set that are there left out."""
    if run.is_head or labelled.probe_of(run) != "kernel":
        return 0
    n, n_train = len(labelled.y), len(labelled.split_of(run).train)
    fixed = [OF_PAIRS[part] for part in run.parts if part in OF_PAIRS]
    arrays = sum(name not in vars(labelled) for name in fixed) + (len(fixed) > 1)
    if (blocks := len(run.parts) - len(fixed)) == 0:
        return 8 * (arrays * n**2 + n_train**2)
    return 8 * (arrays + 1 + len(GAMMAS) * blocks) * n**2  # distances, and a kernel of every width


def _too_large(run: TransferRun, labelled: Labelled, free: str = "") -> OutOfMemory:
    return OutOfMemory(
        f"{run.key}: the kernels of {len(labelled.y):,} molecules take about "
        f"{_kernel_bytes(run, labelled) / 1e9:.3g} GB{free}: give --probe linear, or nystroem, "
        f"which stands for an RBF kernel" + ", and leave out wl" * ("wl" in run.parts)
    )


def _told(run: TransferRun, report: Callable[..., bool]) -> OnEpoch:
    def on_epoch(epoch: int, loss: float) -> None:
        if not report(run.key, epoch / run.epochs, loss):
            raise KeyboardInterrupt

    return on_epoch


def embeddings_of(
    run: TransferRun, labelled: Labelled, on_epoch: OnEpoch | None = None
) -> NDArray[Any]:
    """Embeddings of all molecules by a run's encoder, [n, d], after its fine-tuning.

    Raises:
        DivergenceError: if a loss or an embedding is not finite.
    """
    frozen = run.finetuning is None
    encoder = new_encoder(run, labelled) if frozen else finetune(run, labelled, on_epoch)
    found = np.asarray(embed(encoder, labelled.molecules))
    if not np.isfinite(found).all():
        raise diverged(run, "embeddings")
    return found


def predict(run: TransferRun, labelled: Labelled, embedded: NDArray[Any] | None) -> Probed:
    """What a probe predicts of the test part, with its score on the validation part.

    Args:
        run: not with a supervised head.
        labelled: its set.
        embedded: :func:`embeddings_of` its encoder; None without one.
    """
    split, y, classes = labelled.split_of(run), labelled.y, labelled.classes
    blocks = [] if embedded is None else [embedded]
    blocks += [labelled.counts] * ("counts" in run.parts)
    probe = labelled.probe_of(run)
    if probe != "kernel":
        return linear_predictions(
            _columns(run, labelled, blocks, probe), y, split, classes=classes
        )  # fmt: skip
    try:
        kernels = _kernels(run, labelled, blocks)
        return kernel_predictions(kernels, y, split, classes=classes)
    except MemoryError as error:
        raise _too_large(run, labelled) from error


def _kernels(run: TransferRun, labelled: Labelled, blocks: Sequence[Any]) -> list[Any]:
    """The candidates of a kernel probe, one for each width where there are blocks of columns."""
    train = labelled.split_of(run).train
    of_pairs = [getattr(labelled, OF_PAIRS[part]) for part in run.parts if part in OF_PAIRS]
    fixed = reduce(add, of_pairs) if of_pairs else 0.0
    if not blocks:
        return [fixed]
    kernels = rbf_kernels(blocks[0], train)
    for block in blocks[1:]:
        for kernel, added in zip(kernels, rbf_kernels(block, train), strict=True):
            np.add(kernel, added, out=kernel)  # in place: each takes gigabytes for a large set
    return [np.add(kernel, fixed, out=kernel) for kernel in kernels]


def _columns(run: TransferRun, labelled: Labelled, blocks: Sequence[Any], probe: str) -> list[Any]:
    """The candidates of a linear probe: joined columns, of Nyström's features one for each width.

    Fingerprints stay bits.
    """
    train = labelled.split_of(run).train
    bits = standardised(labelled.fingerprints, train, sparse=True) if "ecfp" in run.parts else None
    if bits is not None and not blocks:
        return [bits]
    of_blocks = [
        nystroem_features(block, train) if probe == "nystroem" else [standardised(block, train)]
        for block in blocks
    ]
    joined = [np.concatenate(same_width, 1) for same_width in zip(*of_blocks, strict=True)]
    return joined if bits is None else [hstack([one, bits], format="csr") for one in joined]


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


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _result(
    context: Context, run: TransferRun, labelled: Labelled, found: Probed, seconds: float
) -> dict[str, Any]:
    split, (predictions, validation) = labelled.split_of(run), found
    y = np.ravel(labelled.y[split.test])
    return {
        **asdict(run),
        "dataset": run.set_name,
        "identity": run.identity,
        "kind": labelled.data.kind,
        "tasks": [*labelled.molecules.tasks],
        "score": scored(labelled, split, predictions),
        "validation": _known(validation),
        "sizes": [len(part) for part in split],
        "test": labelled.molecules.rows[split.test].tolist(),
        "y": [_known(one) for one in y],
        "cliffs": None if labelled.data.cliffs is None
        else labelled.data.cliffs[split.test].tolist(),
        # For known targets alone: in ToxCast, three of four are not.
        "predictions": [_known(float(f"{x:.9g}")) for x in np.ravel(predictions)[np.isfinite(y)]],
        "invalid": len(labelled.molecules.invalid),
        "pretrained": _pretrained_on(run),
        "seconds": seconds,
        "device": hardware.device_name(torch.device("cpu")),
        "versions": context.versions,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip


def _pretrained_on(run: TransferRun) -> int | None:
    """Molecules that the encoder of a run was pre-trained on."""
    if run.encoder is None:
        return None
    return 0 if run.is_untrained else int(load_pretrained(str(run.file)).about["n"])
