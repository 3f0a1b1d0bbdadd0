"""Pre-training: train an encoder on a whole set, resume where it was stopped, and save it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gcl_hard.core.seeds import seeded
from gcl_hard.errors import DivergenceError, InputError
from gcl_hard.experiments import hardware
from gcl_hard.experiments.engine import on_interrupt
from gcl_hard.experiments.logs import opened_log
from gcl_hard.experiments.pretraining_settings import PretrainOptions, settings_read
from gcl_hard.experiments.progress import bar_of
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import defaults
from gcl_hard.experiments.training import Training
from gcl_hard.files.io import atomic_write, check_writable, locked, reading
from gcl_hard.files.stored import load_torch
from gcl_hard.training.checkpoint import Checkpoint, differences

SCHEMA_VERSION = 1
CHECKED = 64
"""Items whose embeddings are checked before an encoder is saved."""


class Prepared(NamedTuple):
    """A model that is ready to be pre-trained.

    Attributes:
        model: maps a batch to its loss.
        batches: returns the batches of an epoch.
        n_batches: number of batches of an epoch.
        seed: seed of the global random states.
        embed: embeds up to :data:`CHECKED` items.
        content: returns the file's content: ``encoder``, its weights, and what rebuilds it.
    """

    model: nn.Module
    batches: Callable[[int], Iterable[Any]]
    n_batches: int
    seed: int
    embed: Callable[[], Any]
    content: Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class Pretraining:
    """What a domain pre-trains.

    Attributes:
        run: settings and seed.
        items: what the samples are called, such as ``images``.
        n: number of samples.
        digest: digest of the data.
        prepare: makes the model on a device; called only if there is something to train.
        more: what else distinguishes it from other runs.
        facts: facts of the data for the file.
    """

    run: Run
    items: str
    n: int
    digest: str
    prepare: Callable[[torch.device], Prepared]
    more: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> dict[str, Any]:
        """Identity of the training in its checkpoint and file."""
        return {
            "config": settings_read(self.run.config), "seed": self.run.seed, **self.more,
            "n": self.n, "data": self.digest,
        }  # fmt: skip


def pretrain(options: PretrainOptions, describe: Callable[[PretrainOptions], Pretraining]) -> None:
    """Train an encoder, or go on from its checkpoint, and save it.

    A file that an earlier command finished is kept. Progress shows items per second and the time
    left.

    Args:
        options: what to train, and where to save it.
        describe: reads the data of a domain.

    Raises:
        InputError: for data that are not available, or a file of another run, or one that another
            command is training.
        DivergenceError: if a loss, or an embedding at the end, is not finite.
    """
    output = options.output
    if options.force or not output.exists():
        check_writable(output.absolute().parent)
    device = hardware.choose_device(options.device)
    pretraining = describe(options)
    if _finished(options, pretraining):
        return
    with locked(output.with_name(f".{output.name}.lock")) as mine:
        if not mine:
            raise InputError(
                f"{output} is being trained by another command: wait until it has ended, or name "
                f"another file"
            )
        if not _finished(options, pretraining):  # another command may have ended it meanwhile
            _train(options, pretraining, device)


def drawn(total: int, n: int | None, seed: int, items: str) -> Tensor:
    """Ids of ``n`` items drawn at random; a larger draw contains a smaller one."""
    if n is not None and n > total:
        raise InputError(f"subset is {n}, and the set has {total} {items}")
    return torch.randperm(total, generator=seeded(seed))[: n or total].sort().values


def _finished(options: PretrainOptions, pretraining: Pretraining) -> bool:
    """Whether the file exists already; a file of another run is refused."""
    output, ours, kind = options.output, pretraining.identity, "a pre-trained encoder"
    if options.force or not output.exists():
        return False
    with reading(output, kind):
        theirs = load_torch(output, kind, {"about": dict[str, Any]})["about"]["run"]
        usual = defaults(type(pretraining.run.config))  # of settings that are newer than the file
        theirs = {**theirs, "config": {k: usual[k] for k in ours["config"]} | theirs["config"]}
    if theirs != ours:
        raise InputError(
            f"{output} belongs to another run: {differences(theirs, ours)}; name another file, or "
            f"start over by --force (in Python force=True)"
        )
    print(f"{output} was finished before")
    return True


def _train(options: PretrainOptions, pretraining: Pretraining, device: torch.device) -> None:
    output, run, identity = options.output, pretraining.run, pretraining.identity
    prepared = pretraining.prepare(device)
    checkpoint = Checkpoint(
        output.with_suffix(".ckpt"), identity, resume=not options.force,
        every=60 * options.checkpoint_minutes,
    )  # fmt: skip
    total = run.epochs * pretraining.n
    with (
        opened_log(options.log or (), output.absolute().parent, options.logger) as log,
        bar_of("training", f" {pretraining.items}", total) as bar,
        on_interrupt(lambda *_: checkpoint.stop()),
    ):

        def report(run: Run, share: float, loss: float) -> bool:
            bar.update(round(share * total) - bar.n)
            log.epoch(output.stem, share * run.epochs, loss)
            if not math.isnan(loss):
                bar.set_postfix(loss=f"{loss:.3f}")
            return True

        losses = Training(run, checkpoint, report, n_batches=prepared.n_batches).train(
            prepared.model, prepared.batches, run.config.optimisation(), device=device,
            seed=prepared.seed,
        )  # fmt: skip
    if not torch.as_tensor(prepared.embed()).isfinite().all():
        checkpoint.remove()
        raise DivergenceError(
            f"after the last step the embeddings are not finite ({run}); no encoder was saved. "
            f"Lower lr or beta, or raise temperature"
        )
    about = {
        "run": identity, "losses": losses, "n": pretraining.n, **pretraining.facts,
        "device": hardware.device_name(device), "versions": hardware.versions(),
    }  # fmt: skip
    with atomic_write(output) as file:
        torch.save(prepared.content() | {"schema_version": SCHEMA_VERSION, "about": about}, file)
    checkpoint.remove()
    print(
        f"{output}: {pretraining.n} {pretraining.items}, {run.epochs} epochs, loss {losses[-1]:.3f}"
    )
