"""What a run of transfer predicts, and its scores: the part of the work that a worker does."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import hstack

from gcl_hard.evaluation.folds import ScaffoldSplit
from gcl_hard.evaluation.transfer import (
    Probed,
    kernel_predictions,
    linear_predictions,
    nystroem_features,
    rbf_kernels,
    rmse,
    roc_auc,
    standardised,
)
from gcl_hard.experiments import hardware
from gcl_hard.experiments.finetuning import finetune, new_encoder, train_head
from gcl_hard.experiments.labelled import Labelled
from gcl_hard.experiments.transfer_runs import TransferRun
from gcl_hard.graphs import embed, load_molecules
from gcl_hard.graphs.moleculenet import is_file
from gcl_hard.graphs.pretrained import load_pretrained
from gcl_hard.io import file_digest
from gcl_hard.training.loop import OnEpoch

Report = Callable[..., bool]


def score_runs(
    runs: tuple[TransferRun, ...], data_dir: Path | None, threads: int, *, report: Report
) -> list[dict[str, Any] | None]:
    """Task: the results of runs of one :attr:`TransferRun.trained`, whose encoder is trained once.

    Args:
        runs: on one split of one set.
        data_dir: folder with the molecules.
        threads: CPU threads.
        report: called with the key of the first run, the epoch and its loss; returns whether to
            go on.

    Returns:
        A result of each run, None where the set is too large for its kernel.

    Raises:
        KeyboardInterrupt: if ``report`` returned False.
    """
    hardware.use_threads(threads, 0, 0)
    first = runs[0]
    digest = file_digest(first.dataset) if is_file(first.dataset) else None
    labelled = _labelled(first.dataset, first.targets, data_dir, digest)

    def on_epoch(epoch: int, loss: float) -> None:
        if not report(first.key, epoch, loss):
            raise KeyboardInterrupt

    embedded: NDArray[Any] | None = None
    results: list[dict[str, Any] | None] = []
    for run in runs:
        start = time.perf_counter()
        if "wl" in run.parts and labelled.probe_of(run) != "kernel":
            results.append(None)
            continue
        if run.is_head:
            found = train_head(run, labelled, on_epoch)
        else:
            if embedded is None and run.encoder is not None:
                embedded = embeddings_of(run, labelled, on_epoch)
            found = predict(run, labelled, embedded)
        results.append(_result(run, labelled, found, time.perf_counter() - start))
    return results


@lru_cache(maxsize=1)
def _labelled(
    dataset: str, targets: tuple[str, ...] | None, data_dir: Path | None, digest: str | None
) -> Labelled:
    """The set of this process's last run; of a file with this content."""
    return Labelled(load_molecules(dataset, data_dir=data_dir, targets=targets))


def embeddings_of(
    run: TransferRun, labelled: Labelled, on_epoch: OnEpoch | None = None
) -> NDArray[Any]:
    """Embeddings of all molecules by a run's encoder, [n, d], after its fine-tuning."""
    frozen = run.finetuning is None
    encoder = new_encoder(run, labelled) if frozen else finetune(run, labelled, on_epoch)
    return np.asarray(embed(encoder, labelled.molecules))


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
    of_pairs = {"ecfp": "tanimoto", "wl": "wl"}
    fixed: Any = sum(getattr(labelled, of_pairs[part]) for part in run.parts if part in of_pairs)
    of_blocks = [rbf_kernels(block, split.train) for block in blocks]
    kernels = [fixed + sum(same_width) for same_width in zip(*of_blocks, strict=True)] or [fixed]
    return kernel_predictions(kernels, y, split, classes=classes)


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


def _result(run: TransferRun, labelled: Labelled, found: Probed, seconds: float) -> dict[str, Any]:
    split, (predictions, validation) = labelled.split_of(run), found
    y = np.ravel(labelled.y[split.test])
    return {
        **asdict(run),
        "dataset": run.set_name,
        "identity": run.identity,
        "kind": labelled.data.kind,
        "score": scored(labelled, split, predictions),
        "validation": _known(validation),
        "sizes": [len(part) for part in split],
        "test": labelled.molecules.rows[split.test].tolist(),
        "y": [_known(one) for one in y],
        "cliffs": None if labelled.data.cliffs is None
        else labelled.data.cliffs[split.test].tolist(),
        # Of known targets alone: three of four of ToxCast are not.
        "predictions": [_known(float(f"{x:.6g}")) for x in np.ravel(predictions)[np.isfinite(y)]],
        "invalid": len(labelled.molecules.invalid),
        "pretrained": _pretrained_on(run),
        "seconds": seconds,
        "device": hardware.device_name(torch.device("cpu")),
        "versions": hardware.versions(),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip


def _pretrained_on(run: TransferRun) -> int | None:
    """Molecules that the encoder of a run was pre-trained on."""
    if run.encoder in (None, "untrained"):
        return 0 if run.encoder else None
    return int(load_pretrained(str(run.encoder)).about["n"])
