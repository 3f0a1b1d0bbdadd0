"""A training of a run, as commands follow it, stop it and continue it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any

import torch
from torch import nn

from gcl_hard.core.seeds import seeded_globally
from gcl_hard.errors import InputError
from gcl_hard.experiments.experiment import Clock, Report, RunContext
from gcl_hard.experiments.hardware import own_source
from gcl_hard.experiments.run import Run
from gcl_hard.losses.gathering import world_size
from gcl_hard.training.checkpoint import Checkpoint
from gcl_hard.training.loop import Optimisation, train
from gcl_hard.training.stopping import EarlyStopping


class Training:
    """One of the trainings of a run: its checkpoint, its time, and what it reports.

    Where :data:`Report` says to stop, the checkpoint is saved after the step, and training ends by
    KeyboardInterrupt. None is kept where there are infinitely many minutes between two.

    Args:
        run: the run.
        context: where its checkpoints are, and the digest of its data; or its checkpoint.
        report: told how much of the run is trained.
        n_batches: batches of an epoch.
        number: number of this training, from 0.
        of: trainings of the run, one after the other.

    Attributes:
        checkpoint: with ``notes`` of the experiment's own.
        clock: time of this training, before a resume too.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from gcl_hard.graphs import GIN, InfoGraph, load
        >>> from gcl_hard.graphs.settings import GraphConfig
        >>> mutag = load("MUTAG", download=False)
        >>> run, told = Run(GraphConfig("MUTAG", "ucl", epochs=2), 0), []
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     context = RunContext(Path(folder), None, "cpu", 1, 1, {}, lambda config: None)
        ...     training = Training(run, context, lambda run, *now: not told.append(now[0]))
        ...     losses = training.train(
        ...         InfoGraph(GIN(mutag.n_features)), mutag.batches(200, seed=0), Optimisation(2),
        ...         device=torch.device("cpu"), seed=0,
        ...     )
        >>> len(losses), told  # before each batch, and after each epoch
        (2, [0.0, 0.5, 0.5, 1.0])
    """

    def __init__(
        self,
        run: Run,
        context: RunContext | Checkpoint,
        report: Report,
        *,
        n_batches: int = 1,
        number: int = 0,
        of: int = 1,
    ) -> None:
        self.run, self._report = run, report
        self._n_batches, self._number, self._of = n_batches, number, of
        self.checkpoint = (
            context if isinstance(context, Checkpoint) else _checkpoint(run, context, number)
        )
        self._kept = self.checkpoint.every < math.inf
        self.clock = Clock(self.checkpoint.notes)
        self._loss = math.nan

    def train(
        self,
        model: nn.Module,
        batches: Callable[[int], Iterable[Any]],
        optimisation: Optimisation,
        *,
        device: torch.device,
        seed: int,
        stopping: EarlyStopping | None = None,
        on_epoch: Callable[[int, float], Any] | None = None,
        **how: Any,
    ) -> list[float]:
        """Train a model, from its checkpoint if there is one.

        Args:
            model: as of :func:`gcl_hard.training.loop.train`, as are what is not named here, the
                results and the errors.
            batches: those of an epoch.
            optimisation: how it is optimised.
            device: where.
            seed: of the global random states, from which dropout and the user's own parts draw.
            stopping: what may end it early.
            on_epoch: called with an epoch and its mean loss as it ends, before it is reported.
            **how: the rest.
        """

        def followed(epoch: int) -> Iterator[Any]:
            for step, batch in enumerate(batches(epoch)):
                self.clock.train()
                self._tell(epoch - 1 + step / self._n_batches)
                yield batch

        def ended(epoch: int, loss: float) -> None:
            self.clock.train()
            if on_epoch is not None:
                on_epoch(epoch, loss)
            self._loss = loss
            over = stopping is not None and stopping.ended
            self._tell(self.run.epochs if over else epoch)

        kept = self.checkpoint if self._kept else None
        with seeded_globally(torch.Generator(device).manual_seed(seed)):
            return train(
                model, followed, optimisation, device=device, setting=str(self.run),
                on_epoch=ended, stopping=stopping, checkpoint=kept, **how,
            )  # fmt: skip

    def _tell(self, epochs: float) -> None:
        share = (self._number + epochs / self.run.epochs) / self._of
        if not self._report(self.run, share, self._loss):
            if not self._kept:
                raise KeyboardInterrupt
            self.checkpoint.stop()


def continues(run: Run, context: RunContext) -> str:
    """Where the training of a run continues, in words; empty where it begins or is refused."""
    if not (kept := context.checkpoints(run)):
        return ""
    number = len(kept) - 1  # encoders are trained one after the other
    checkpoint = _checkpoint(run, context, number)
    try:
        state = checkpoint.load()
    except InputError:  # training says why
        return ""
    if state is None:
        return ""
    saved = datetime.fromtimestamp(checkpoint.path.stat().st_mtime)
    several = f"encoder {number + 1} of {run.config.encoders}, "
    return (
        f"continues from {several if run.config.encoders > 1 else ''}"
        f"epoch {min(state['epoch'], run.epochs)} of {run.epochs}, saved {saved:%Y-%m-%d %H:%M}"
    )


def _checkpoint(run: Run, context: RunContext, number: int) -> Checkpoint:
    """The checkpoint of a training, with what must be the same for it to be continued."""
    options, config = context.options, run.config
    identity = {
        **asdict(config), "seed": run.seed, "inner": run.inner, "data": context.digest,
        "source": context.versions.get("source", "") + own_source(type(config).__module__),
        "device": torch.device(context.device).type,
    }  # fmt: skip
    if world_size() > 1:
        identity["processes"] = world_size()
    if options.diagnostics and not config.is_baseline:  # the snapshots before would be missing
        identity["diagnostics"] = options.diagnostics
    return Checkpoint(
        context.checkpoint(run, number), identity,
        resume=True, every=60 * options.checkpoint_minutes,
    )  # fmt: skip
