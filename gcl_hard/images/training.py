"""The training of a run on images: its model, its views, its probe, what is saved of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gcl_hard.core.seeds import seed_for
from gcl_hard.errors import InputError, calling_own
from gcl_hard.evaluation.folds import FoldScore, inner_holdout, stopping_holdout
from gcl_hard.evaluation.metrics import score_of_logits
from gcl_hard.evaluation.probes import ProbeRecipe, linear_probe, weighted_knn
from gcl_hard.evaluation.retrieval import retrieve
from gcl_hard.experiments.custom import check_call, own_part
from gcl_hard.experiments.experiment import (
    ENCODERS,
    Clock,
    Parts,
    Pruned,
    Report,
    RunContext,
    TrainedRun,
    check_finite,
    seeded_weights,
)
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.training import Training
from gcl_hard.images.augment import Views, channel_statistics
from gcl_hard.images.batching import ViewPairs
from gcl_hard.images.datasets import Split
from gcl_hard.images.models import PROJECTED, ImageClassifier, ImageContrast, image_encoder
from gcl_hard.images.parts import ImageData
from gcl_hard.images.settings import ImageConfig
from gcl_hard.losses.gathering import of_first, rank, world_size
from gcl_hard.losses.queue import Queue
from gcl_hard.models import evaluating
from gcl_hard.theory.snapshots import snapshot_epochs
from gcl_hard.training.loop import memory_for
from gcl_hard.training.stopping import EarlyStopping

if TYPE_CHECKING:
    from gcl_hard.theory.diagnostics import DiagnosticsCallback

Floats = NDArray[np.float32]
HALF = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
NEIGHBOURS, TEMPERATURE = 200, 0.5  # of HCL's and H-SCL's code
QUERIES, SHARE = 2_000, 0.1  # of the monitoring curve: at most so many images, and this share
PIXELS_AT_A_TIME, EMBEDDED_AT_A_TIME = 4096, 512  # images


@dataclass(frozen=True)
class Encoding:
    """The model and views of a configuration.

    Attributes:
        model: the encoder, its head and its loss.
        views: the views, with the channel statistics of the images trained on.
        view_seed: seed of the random views.
    """

    model: ImageContrast
    views: Views
    view_seed: int

    def embed(self, split: Split, config: ImageConfig, n: int | None = None) -> Floats:
        """Embeddings of the images of a split, n at a time; None as of :func:`at_a_time`."""
        n = n or at_a_time(config)
        with memory_for(
            lambda: (
                f"out of memory in embedding {n} images of {self.views.size} pixels at a time "
                f"({config}): lower size or batch-size, or use precision bf16 or a smaller encoder"
            )
        ):
            z = self.model.embed(
                split.images, self.views, batch_size=n, precision=HALF[config.precision]
            )
            embedded: Floats = z.cpu().numpy()
        return embedded


def at_a_time(config: ImageConfig) -> int:
    """How many images are embedded at a time: as many as a training step has views."""
    return min(EMBEDDED_AT_A_TIME, 2 * config.batch_size)


def views_of(config: ImageConfig, data: ImageData) -> Views:
    """The views of a config, normalised by the images that its encoder is trained on."""
    mean, std = channel_statistics(data.pretrain.images)
    return Views(config.view_recipe(), size=config.size or data.side, mean=mean, std=std)


def new_encoder(config: ImageConfig, size: int, parts: Parts | None) -> nn.Module:
    """A new encoder of a config for views of a size in pixels; ``parts`` as of :func:`build`."""
    if (make := own_part(config.encoder, parts)) is not None:
        check_call(make, "encoder()")
        return make()
    return image_encoder(config.encoder, stem=config.stem_at(size), width=config.width)


def check_encoder(config: ImageConfig, data: ImageData, parts: Parts | None) -> None:
    """Check an encoder on two images of the size of views.

    Raises:
        InputError: if it cannot be made, has no width, gives another shape, or fails; says why.
    """
    size, named = config.size or data.side, config.encoder.partition("@")[0]
    with torch.random.fork_rng(devices=[]), calling_own(f"the encoder {named} cannot be made"):
        model = ImageContrast(new_encoder(config, size, parts), method="ucl")
    call = f"the encoder {named} fails on images of {size} pixels"
    with calling_own(call, "; --size gives them another size"), evaluating(model):
        model.encode(torch.zeros(2, 3, size, size))


def build(
    config: ImageConfig,
    data: ImageData,
    seed: int,
    parts: Parts | None = None,
    *,
    unknown: int | None = None,
) -> Encoding:
    """The untrained model of a config; the global random state is left as it was.

    The encoder starts from the same weights for every method.

    Args:
        config: the settings.
        data: decides sizes and statistics.
        seed: seed of weights and views.
        parts: the user's own encoders.
        unknown: label of images whose class is not known, as of :class:`ContrastiveLoss`.

    Returns:
        The model, on the device of the images.
    """
    size = config.size or data.side
    with seeded_weights(seed, 0) as view_seed:
        encoder = new_encoder(config, size, parts)
        memory: dict[str, Any] = {
            "one_forward": config.forward == "fused",
            "channels_last": config.channels_last,
        }
        if config.method == "supervised":
            model: ImageContrast = ImageClassifier(encoder, data.n_classes, **memory)
        else:
            trained = ImageConfig(method="ucl") if config.is_baseline else config
            queue = None if trained.queue is None else Queue(trained.queue, PROJECTED)
            model = ImageContrast(
                encoder, loss=trained.loss(view_seed, unknown=unknown),
                momentum=trained.momentum_encoder,
                queue=queue, **memory,
            )  # fmt: skip
    device = data.test.images.device
    encoding = Encoding(model.to(device), views_of(config, data).to(device), view_seed)
    if config.compile and config.encoders:
        encoding.model.encoder.compile()
    return encoding


def train_run(run: Run, data: ImageData, context: RunContext, report: Report) -> TrainedRun:
    """Train one run and embed its images.

    Args:
        run: ``inner`` puts a fifth of the training images, held out of all training, or the
            images of the classes to choose on, in the place of the test images.
        data: the images, on the device to train on.
        context: where checkpoints and encoders are kept.
        report: called with the progress; if it returns False, training ends with a checkpoint.

    Returns:
        Embeddings to score, their cost, and the monitoring curve.

    Raises:
        DivergenceError: if a loss or an embedding is not finite.
        OutOfMemory: if the device's memory does not hold a batch.
        KeyboardInterrupt: if ``report`` returned False.
        Pruned: if ``context.interim`` prunes it.
    """
    config, data = cast("ImageConfig", run.config), data.of_run(run)
    if config.method == "majority":
        return TrainedRun(run, scores=majority(data))
    if config.method == "pixels":
        clock, views = Clock(), views_of(config, data)
        embedded = tuple(pixels(views, part) for part in data.embedded.values())
        clock.evaluate()
        knn = _votes(data, embedded)
        return TrainedRun(run, (), *clock.seconds, embeddings=embedded, knn=knn)
    encoding = build(config, data, run.seed, context.parts)
    trained, clock = TrainedRun(run), Clock()
    if config.encoders:
        clock = fit_run(trained, data, encoding, context, report)
    if rank() == 0:
        trained.embeddings = _embed(run, data, encoding)
        trained.knn = _votes(data, trained.embeddings)
    clock.evaluate()
    trained.seconds_train, trained.seconds_eval = clock.seconds
    if ENCODERS in context.saves(run):
        trained.encoders = encoder_state(run, encoding, data.side)
    return trained


def score_run(trained: TrainedRun, data: ImageData) -> FoldScore:
    """Accuracy of the linear probe on the embeddings of a run, if training did not score it."""
    if trained.scores is not None:
        return trained.scores
    run, config = trained.run, cast("ImageConfig", trained.run.config)
    data = data.of_run(run)
    recipe = ProbeRecipe(
        solver=config.probe, rates=config.probe_lr, weight_decay=config.probe_weight_decay,
        epochs=config.probe_epochs, batch_size=config.probe_batch_size,
    )  # fmt: skip
    train_z, test_z = trained.embeddings
    with memory_for(lambda: f"out of memory in the probe ({run}): lower probe-batch-size"):
        return linear_probe(
            train_z, data.probe.labels.cpu().numpy(), test_z, data.test.labels.cpu().numpy(),
            seed=seed_for(run.seed, 1) % 2**32, recipe=recipe, device=str(data.test.images.device),
        )  # fmt: skip


def _embed(run: Run, data: ImageData, encoding: Encoding) -> tuple[Floats, ...]:
    """Finite embeddings of ``data.embedded``."""
    config = cast("ImageConfig", run.config)
    embedded = tuple(encoding.embed(part, config) for part in data.embedded.values())
    for z in embedded:
        check_finite(z, run)
    return embedded


def _votes(data: ImageData, embedded: Sequence[Floats]) -> float | None:
    """Accuracy of nearest neighbours of the test images; None if their classes are unseen."""
    return None if data.valid else neighbours(data.probe, data.test, *embedded)


def fit_run(
    trained: TrainedRun, data: ImageData, encoding: Encoding, context: RunContext, report: Report
) -> Clock:
    """Train, from a checkpoint if there is one; fills in losses, curve and snapshots.

    Args:
        trained: the run, to be filled in.
        data: its images.
        encoding: its model and views.
        context: where and how.
        report: as of :func:`train_run`.

    Returns:
        A clock with the time that training took.
    """
    run, config = trained.run, cast("ImageConfig", trained.run.config)
    options, interim, device = context.options, context.interim, data.test.images.device
    every = 0 if config.is_baseline else options.diagnostics
    split, stopping = data.pretrain, None
    if config.patience:
        split, stopping = _stopping(run, data, encoding)
    pairs = pairs_of(config, data, split, encoding, options.loader_workers)
    monitored = snapshot_epochs(0 if run.inner else options.monitor_every, run.epochs)
    parts = _monitored(data.probe) if monitored else None
    diagnostics: DiagnosticsCallback[ImageContrast] | None = None
    if every and rank() == 0:
        diagnostics = _diagnostics(config, data, encoding, every)
    training = Training(run, context, report, n_batches=len(split) // config.batch_size)
    clock, notes = training.clock, training.checkpoint.notes

    def ended(epoch: int, mean: float) -> None:
        if parts is not None and epoch in monitored and rank() == 0:
            embedded = (encoding.embed(part, config) for part in parts)
            accuracy = neighbours(*parts, *embedded)
            notes.setdefault("curve", []).append((epoch, accuracy))
        if interim is not None and epoch in interim.epochs(run.epochs):
            now = TrainedRun(run, embeddings=_embed(run, data, encoding))
            if run in interim.pruned(epoch, [now]):
                raise Pruned
        clock.evaluate()

    losses = training.train(
        encoding.model, pairs, config.optimisation(), device=device, seed=encoding.view_seed,
        stopping=stopping, on_epoch=ended, diagnostics=diagnostics, together=world_size() > 1,
    )  # fmt: skip
    trained.losses = (losses[-1],)
    if stopping is not None:
        trained.facts = {"best_epoch": stopping.best_epoch}
    trained.curve = tuple((int(epoch), accuracy) for epoch, accuracy in notes.get("curve", []))
    trained.take_snapshots(diagnostics)
    return clock


def pairs_of(
    config: ImageConfig, data: ImageData, split: Split, encoding: Encoding, workers: int
) -> ViewPairs:
    """Pairs of views of the images to train on, those of this process."""
    views, device = encoding.views, data.test.images.device
    if workers:  # their views are made on the CPU
        split, views = split.to(torch.device("cpu")), views_of(config, data)
    return ViewPairs(
        split, views,
        batch_size=config.batch_size, seed=encoding.view_seed, data_seed=config.data_seed,
        balanced=config.balanced, class_pairs=config.class_pairs, workers=workers,
        device=device, n_views=config.views or 2, with_item=encoding.model.loss.takes_items,
        part=(rank(), world_size()),
    )  # fmt: skip


def _stopping(run: Run, data: ImageData, encoding: Encoding) -> tuple[Split, EarlyStopping]:
    """What a classifier is trained on, and what ends it by the images that are held out."""
    config, model = cast("ImageConfig", run.config), encoding.model
    kept, valid, device = data.pretrain, data.valid, data.test.images.device
    if valid is None:
        labels = kept.labels.cpu().numpy()
        fold = stopping_holdout(np.arange(len(labels)), labels, seed=run.seed)
        kept, valid = (kept.take(torch.from_numpy(ids)) for ids in (fold.train, fold.test))

    def score() -> tuple[float, ...]:
        z = encoding.embed(valid, config)
        if data.valid is not None:
            return of_first([retrieve(z, valid.labels.cpu().numpy()).map_at_r], device)
        with torch.no_grad():
            logits = model.head(torch.from_numpy(z).to(device))
        return of_first(score_of_logits(logits, valid.labels.to(device)), device)

    return kept, EarlyStopping(model, score, patience=config.patience)


def _diagnostics(
    config: ImageConfig, data: ImageData, encoding: Encoding, every: int
) -> DiagnosticsCallback[ImageContrast]:
    from gcl_hard.images.snapshots import image_sampler
    from gcl_hard.theory.diagnostics import DiagnosticsCallback

    make = partial(image_sampler, config, data.probe, encoding.views, HALF[config.precision])
    return DiagnosticsCallback(config.epochs, every, make)


def _monitored(split: Split) -> tuple[Split, Split] | None:
    """Training images that vote in the monitoring curve, and those that it classifies.

    None if a class is too small to leave an image out; training goes on without a curve.
    """
    labels = split.labels.cpu().numpy()
    share = min(SHARE, QUERIES / len(labels))
    try:
        fold = inner_holdout(np.arange(len(labels)), labels, seed=0, fraction=share)
    except InputError:
        return None
    return split.take(torch.from_numpy(fold.train)), split.take(torch.from_numpy(fold.test))


def neighbours(probe: Split, test: Split, probe_z: Floats, test_z: Floats) -> float:
    """Accuracy in percent of images by the nearest neighbours of their embeddings among others."""
    return 100 * weighted_knn(
        probe_z, probe.labels.cpu().numpy(), test_z, test.labels.cpu().numpy(),
        k=min(NEIGHBOURS, len(probe)), temperature=TEMPERATURE, device=str(test.images.device),
    )  # fmt: skip


def majority(data: ImageData) -> FoldScore:
    """Accuracy of predicting the most frequent training class; on a tie the first."""
    frequent = data.probe.labels.bincount().argmax()
    share = float((data.test.labels == frequent).double().mean())
    n = len(data.test)
    return FoldScore(
        share, None, len(data.probe), n, None,
        test=np.arange(n), predicted=np.full(n, int(frequent)),
    )  # fmt: skip


def pixels(views: Views, split: Split) -> Floats:
    """Normalised pixels of images, one row each, float32 [n, 3 · S · S]."""
    rows = [
        views.plain(chunk).flatten(1).cpu().numpy()
        for chunk in torch.split(split.images, PIXELS_AT_A_TIME)
    ]
    return np.concatenate(rows)


def encoder_state(run: Run, encoding: Encoding, side: int) -> dict[str, Any]:
    """What is saved of a trained encoder.

    ``encoder`` (its state dict), ``config``, ``seed``, the ``stem`` and ``size`` of views that
    "auto" resolved to, ``side`` of the images before that, and ``mean`` and ``std`` of the
    channels.
    """
    config = cast("ImageConfig", run.config)
    return {
        "encoder": {k: v.cpu() for k, v in encoding.model.encoder.state_dict().items()},
        "config": asdict(config),
        "seed": run.seed,
        "stem": config.stem_at(encoding.views.size),
        "size": encoding.views.size,
        "side": side,
        "mean": encoding.views.mean.flatten().tolist(),
        "std": encoding.views.std.flatten().tolist(),
    }
