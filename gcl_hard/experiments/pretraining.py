"""Pre-training: an encoder of molecules on a large set without targets."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.errors import (
    DivergenceError,
    InputError,
)
from gcl_hard.experiments.protocols import build
from gcl_hard.graphs import MoleculeData, Molecules, embed, load_molecules, scaffolds
from gcl_hard.graphs.data import GraphBatch
from gcl_hard.graphs.models import GraphContrast
from gcl_hard.graphs.moleculenet import split_checked_later
from gcl_hard.graphs.pretrained import Pretrained, load_pretrained, vocabulary
from gcl_hard.io import atomic_write, check_writable, locked
from gcl_hard.runs import hardware
from gcl_hard.runs.engine import on_interrupt
from gcl_hard.runs.logs import opened_log
from gcl_hard.runs.progress import bar_of
from gcl_hard.seeds import seeded
from gcl_hard.settings.base import defaults
from gcl_hard.settings.graphs import GraphConfig
from gcl_hard.settings.pretraining import OTHERS, PretrainOptions
from gcl_hard.training.checkpoint import Checkpoint, differences
from gcl_hard.training.loop import train

SCHEMA_VERSION = 1
CHECKED = 64
"""Molecules whose embeddings are checked before an encoder is saved."""
GROUP_SIZE = 4
"""Molecules of a scaffold that come together in a batch."""


def pretrain(options: PretrainOptions) -> Pretrained:
    """Train an encoder, or go on from its checkpoint, and save it.

    Progress is shown as molecules a second and the time that is left.

    Args:
        options: what to train, and where to save it.

    Returns:
        The encoder, as :func:`load_pretrained` reads it.

    Raises:
        InputError: for data that are not available, or a file of other settings.
        DivergenceError: if a loss, or an embedding at the end, is not finite.
    """
    output = options.output
    if options.force or not output.exists():
        check_writable(output.absolute().parent)
    hardware.choose_device(options.device)
    torch.set_num_threads(options.threads or 1)
    config = options.molecules
    whole = loaded(
        options.source, data_dir=options.data_dir, jobs=options.jobs, smiles=options.smiles,
        ids=False, unlabelled=True,
    ).molecules  # fmt: skip
    chosen = drawn(len(whole), options.subset, config.data_seed, "molecules")
    if len(chosen) < 2:
        raise InputError(f"{options.source} has one molecule: contrast takes two or more")
    run = _run(options, whole, chosen)
    trained_once(options, run, _run_of, lambda: _trained(options, whole, chosen, run))
    return load_pretrained(options.output)


def trained_once(
    options: PretrainOptions,
    run: dict[str, Any],
    run_of: Callable[[Path], dict[str, Any]],
    train: Callable[[], None],
) -> None:
    """Train, unless an earlier command has, or another one does.

    Args:
        options: name the file.
        run: what is trained.
        run_of: what a file says that it was trained by.
        train: trains, and writes the file.

    Raises:
        InputError: for a file of another run, or one that another command is training.
    """
    output = options.output

    def finished() -> bool:
        if options.force or not output.exists():
            return False
        if (theirs := run_of(output)) != run:
            what = f": {differences(theirs, run)}" if isinstance(theirs, dict) else ""
            raise InputError(
                f"{output} belongs to another run{what}; name another file, or start over by "
                f"--force (in Python force=True)"
            )
        print(f"{output} was finished before")
        return True

    if options.force or not output.exists():
        check_writable(output.absolute().parent)
    if finished():
        return
    with locked(output.with_name(f".{output.name}.lock")) as mine:
        if not mine:
            raise InputError(
                f"{output} is being trained by another command: wait until it has ended, or name "
                f"another file"
            )
        if not finished():  # another command may have ended it meanwhile
            train()


def _run_of(path: Path) -> dict[str, Any]:
    before: dict[str, Any] = load_pretrained(path).about["run"]
    usual = {name: one for name, one in defaults(GraphConfig).items() if name not in OTHERS}
    # A file of an earlier version lacks the settings that have come since.
    return {**before, "config": without_folder(usual | before["config"])}


def _trained(
    options: PretrainOptions, whole: Molecules, chosen: Tensor, run: dict[str, Any]
) -> None:
    device = hardware.choose_device(options.device)
    config, graphs, groups = options.molecules, whole, None
    if options.label_kind is not None:
        groups = _groups(whole, chosen, options.jobs, key=run["data"])
        if len(torch.unique(groups[chosen])) < 2:
            raise InputError(
                f"all {len(chosen)} molecules have one scaffold, and {config.method} contrasts "
                f"those of different ones: give a method without labels, such as hucl"
            )
        graphs = replace(whole, y=groups, n_classes=int(groups.max()) + 1)
    model = build(config, whole.n_features, options.seed).to(device)
    assert isinstance(model, GraphContrast)
    checkpoint = Checkpoint(
        options.output.with_suffix(".ckpt"), run, resume=not options.force,
        every=60 * options.checkpoint_minutes,
    )  # fmt: skip
    total = config.epochs * len(chosen)
    interrupted = on_interrupt(lambda *_: checkpoint.stop())
    with (
        opened_log(options.log or (), options.output.absolute().parent, options.logger) as log,
        bar_of("training", " molecules", total) as bar,
        interrupted,
    ):

        def batches(epoch: int) -> Iterator[GraphBatch]:
            bar.update((epoch - 1) * len(chosen) - bar.n)
            for ids in order(chosen, groups, config.batch_size, config.data_seed, epoch):
                bar.update(len(ids))
                yield graphs.batch(ids).to(device)

        def ended(epoch: int, loss: float) -> None:
            bar.set_postfix(loss=f"{loss:.3f}")
            log.epoch(options.output.stem, epoch, loss)

        losses = train(
            model, batches, config.optimisation(), device=device, checkpoint=checkpoint,
            setting=f"{config}, seed {options.seed}",
            on_epoch=ended,
        )  # fmt: skip
    few = graphs.batch(chosen[:CHECKED]).to(device)
    if not torch.as_tensor(embed(model.encoder, few)).isfinite().all():
        checkpoint.remove()
        raise DivergenceError(
            f"after the last step the embeddings are not finite ({config}, seed {options.seed}); "
            f"no encoder was saved. Lower lr or beta, or raise temperature"
        )
    content = {
        "schema_version": SCHEMA_VERSION,
        "encoder": {name: x.cpu() for name, x in model.encoder.state_dict().items()},
        "vocabulary": vocabulary(),
        "about": {
            "run": run, "losses": losses, "n": len(chosen), "device": hardware.device_name(device),
            "versions": hardware.versions(),
        },
    }  # fmt: skip
    with atomic_write(options.output) as file:
        torch.save(content, file)
    checkpoint.remove()
    print(
        f"{options.output}: {len(chosen)} molecules, {config.epochs} epochs, loss {losses[-1]:.3f}"
    )


def order(
    chosen: Tensor, groups: Tensor | None, batch_size: int, seed: int, epoch: int
) -> list[Tensor]:
    """The batches of an epoch: a permutation of the molecules, cut.

    With groups, up to :data:`GROUP_SIZE` of a group follow each other: groups are shuffled, cut
    into so many, and the pieces shuffled.

    Args:
        chosen: int64 [n], ids of the molecules.
        groups: int64, the group of every id, or None.
        batch_size: molecules in a batch; one molecule that would be left alone joins the last.
        seed: seed of the order.
        epoch: each has its own.

    Returns:
        Ids, int64.

    Example:
        >>> ids = order(torch.arange(6), torch.tensor([0, 1, 0, 1, 0, 1]), 3, seed=0, epoch=1)
        >>> [len({int(i) % 2 for i in one}) for one in ids]
        [1, 1]
    """
    generator = seeded(seed, epoch)
    ids = chosen[torch.randperm(len(chosen), generator=generator)]
    if groups is not None:
        of = groups[ids]
        by_group = torch.argsort(of, stable=True)
        ids, of = ids[by_group], of[by_group]
        starts = torch.searchsorted(of, of)
        piece = (torch.arange(len(ids)) - starts) // GROUP_SIZE
        key = torch.unique(torch.stack([of, piece]), dim=1, return_inverse=True)[1]
        shuffled = torch.randperm(int(key.max()) + 1, generator=generator)
        ids = ids[torch.argsort(shuffled[key], stable=True)]
    found = [*torch.split(ids, batch_size)]
    if len(found) > 1 and len(found[-1]) == 1:
        found[-2:] = [torch.cat(found[-2:])]
    return found


def loaded(name: str, **how: Any) -> MoleculeData:
    """A set as of :func:`load_molecules`, with progress, and a line on SMILES that are left out."""

    def say(line: str) -> None:
        print(line, file=sys.stderr)

    with split_checked_later(), bar_of("parsing all, once", " SMILES") as bar:
        data = load_molecules(name, progress=bar.update, on_columns=say, **how)
    if left_out := data.molecules.left_out(data.molecules.name):
        print(left_out, file=sys.stderr)
    return data


def drawn(total: int, n: int | None, seed: int, what: str) -> Tensor:
    """Ids of a random draw of so many ``what``; a larger draw holds a smaller one."""
    if n is not None and n > total:
        raise InputError(f"subset is {n}, and the set has {total} {what}")
    return torch.randperm(total, generator=seeded(seed))[: n or total].sort().values


def _run(options: PretrainOptions, whole: Molecules, chosen: Tensor) -> dict[str, Any]:
    """What is trained, as the checkpoint and the file name it."""
    read = {k: v for k, v in asdict(options.molecules).items() if k not in OTHERS}
    return {
        "config": without_folder(read), "seed": options.seed, "labels": options.label_kind,
        "n": len(chosen), "data": digest_of_smiles(whole.smiles[chosen.numpy()]),
    }  # fmt: skip


def digest_of_smiles(smiles: NDArray[np.object_]) -> str:
    """Sixteen hexadecimal digits of the SHA-256 of SMILES, which are bytes objects."""
    digest = hashlib.sha256()
    for part in np.array_split(smiles, max(1, math.ceil(len(smiles) / 100_000))):
        digest.update(b"\n".join(part))
    return digest.hexdigest()[:16]


def without_folder(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings whose data set has no folder of this machine: its digest tells it apart."""
    return {**config, "dataset": PurePath(str(config.get("dataset", ""))).name}


def _groups(whole: Molecules, chosen: Tensor, jobs: int, key: str) -> Tensor:
    """Scaffolds as whole numbers, −1 for what is not chosen; a molecule without one is alone."""
    with bar_of("scaffolds", " molecules", len(chosen)) as bar:
        found = scaffolds(
            whole.smiles[chosen.numpy()], chirality=True, jobs=jobs, progress=bar.update, key=key
        )  # fmt: skip
    names = [name or f"acyclic {i}" for i, name in enumerate(found)]
    groups = torch.full((len(whole),), -1)
    groups[chosen] = torch.from_numpy(np.unique(names, return_inverse=True)[1])
    return groups
