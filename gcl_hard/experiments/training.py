"""A training of a run, as commands follow it, stop it and continue it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from gcl_hard.core.seeds import seeded_globally
from gcl_hard.experiments.experiment import ENCODERS, Clock, Report, RunContext, TrainedRun
from gcl_hard.experiments.hardware import own_source
from gcl_hard.experiments.run import Run
from gcl_hard.losses.gathering import world_size
from gcl_hard.training.checkpoint import Checkpoint
from gcl_hard.training.loop import Optimisation, train
from gcl_hard.training.stopping import EarlyStopping

if TYPE_CHECKING:
    from gcl_hard.theory.diagnostics import DiagnosticsCallback, Sampler


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
        total: trainings of the run, one after the other.

    Attributes:
        checkpoint: with ``notes`` of the experiment's own.
        clock: time of this training, before a resume too.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from gcl_hard.graphs import GIN, InfoGraph, load_graphs
        >>> from gcl_hard.graphs.settings import GraphConfig
        >>> mutag = load_graphs("MUTAG", download=False)
        >>> run, shares = Run(GraphConfig("MUTAG", "ucl", epochs=2), 0), []
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     context = RunContext(Path(folder), None, "cpu", 1, 1, {}, lambda config: None)
        ...     training = Training(run, context, lambda run, *now: not shares.append(now[0]))
        ...     losses = training.train(
        ...         InfoGraph(GIN(mutag.n_features)), mutag.batches(200, seed=0), Optimisation(2),
        ...         device=torch.device("cpu"), seed=0,
        ...     )
        >>> len(losses), shares  # before each batch, and after each epoch
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
        total: int = 1,
    ) -> None:
        self.run, self._report = run, report
        self._n_batches, self._number, self._total = n_batches, number, total
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
        diagnostics: DiagnosticsCallback[Any] | None = None,
        **options: Any,
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
            diagnostics: takes snapshots of the model, those before a resume among them.
            **options: the rest.
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
            if diagnostics is not None:
                hardening = cast("Any", model).loss.sampler.current
                diagnostics.after(self.checkpoint.notes, epoch, model, hardening)
                self.clock.pause()
            self._loss = loss
            over = stopping is not None and stopping.ended
            self._tell(self.run.epochs if over else epoch)

        kept = self.checkpoint if self._kept else None
        with seeded_globally(torch.Generator(device).manual_seed(seed)):
            losses = train(
                model, followed, optimisation, device=device, setting=str(self.run),
                on_epoch=ended, stopping=stopping, checkpoint=kept, **options,
            )  # fmt: skip
        self.clock.train()
        if diagnostics is not None:
            diagnostics.complete(self.checkpoint.notes, model)
            self.clock.pause()
        return losses

    def _tell(self, epochs: float) -> None:
        share = (self._number + epochs / self.run.epochs) / self._total
        if not self._report(self.run, share, self._loss):
            if not self._kept:
                raise KeyboardInterrupt
            self.checkpoint.stop()


class TrainedEncoders:
    """What a run keeps of its encoders as the training of each ends.

    Args:
        run: the run.
        context: whether weights are saved, and the epochs between two snapshots.
        make_sampler: makes what snapshots of the first encoder are taken of.

    Attributes:
        diagnostics: takes these snapshots, if there are any.
        seconds_train: time of training.
        seconds_eval: time of embedding, or of scoring.
    """

    def __init__(
        self, run: Run, context: RunContext, make_sampler: Callable[[], Sampler[Any]]
    ) -> None:
        self.diagnostics: DiagnosticsCallback[Any] | None = None
        every = context.options.diagnostics
        if every and not run.inner and not run.config.is_baseline:
            from gcl_hard.theory.diagnostics import DiagnosticsCallback

            self.diagnostics = DiagnosticsCallback(run.epochs, every, make_sampler)
        self.seconds_train = self.seconds_eval = 0.0
        self._saves = ENCODERS in context.saves(run)
        self._ended: dict[int, tuple[float, Any, int | None, dict[str, Tensor]]] = {}

    def add(
        self, k: int, encoder: nn.Module, loss: float, output: Any, stopping: EarlyStopping | None
    ) -> None:
        """Keep what is needed of the k-th encoder.

        Args:
            k: its index.
            encoder: with its final weights.
            loss: mean of its last epoch, nats.
            output: its embeddings, or the predictions of a supervised one.
            stopping: what may have ended its training early.
        """
        state = encoder.state_dict() if self._saves else {}
        weights = {name: weight.detach().cpu().clone() for name, weight in state.items()}
        best_epoch = None if stopping is None else stopping.best_epoch
        self._ended[k] = loss, output, best_epoch, weights

    def trained(self, run: Run, saved: Mapping[str, Any]) -> TrainedRun:
        """The run, once all encoders are trained, with embeddings or scores of each.

        Args:
            run: the run, or one that shares its encoders.
            saved: what is saved with their weights.
        """
        ended = (self._ended[k] for k in sorted(self._ended))
        losses, outputs, best_epochs, weights = zip(*ended, strict=True)
        trained = TrainedRun(run, losses, self.seconds_train, self.seconds_eval)
        if run.config.is_baseline:
            trained.scores = outputs
        else:
            trained.embeddings = outputs
        if None not in best_epochs:
            trained.facts["best_epoch"] = [*best_epochs]
        if self._saves:
            trained.encoders = {
                "encoders": [*weights], "config": asdict(run.config), "seed": run.seed, **saved
            }  # fmt: skip
        trained.take_snapshots(self.diagnostics)
        return trained


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
