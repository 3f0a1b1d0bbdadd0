"""Experiments on images: ResNets, the official split, a linear probe of the test images."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gcl_hard.errors import DivergenceError, GclHardError, InputError
from gcl_hard.evaluation import FoldScore, ProbeRecipe, inner_holdout, linear_probe, weighted_knn
from gcl_hard.experiments.custom import check_call, own_part
from gcl_hard.experiments.image_data import ImageData, image_data, image_facts
from gcl_hard.gathering import rank, world_size
from gcl_hard.images import (
    ImageClassifier,
    ImageContrast,
    Split,
    ViewPair,
    ViewPairs,
    Views,
    channel_statistics,
    image_encoder,
)
from gcl_hard.methods import method
from gcl_hard.models import evaluating
from gcl_hard.runs import hardware
from gcl_hard.runs.experiment import (
    ENCODERS,
    Clock,
    Experiment,
    Parts,
    Report,
    RunContext,
    TrainedRun,
    seeded_weights,
    silent,
)
from gcl_hard.runs.plan import Run
from gcl_hard.runs.record import Scored
from gcl_hard.runs.snapshots import snapshot_epochs
from gcl_hard.seeds import seed_for
from gcl_hard.settings.images import RESNETS, ImageConfig
from gcl_hard.training.checkpoint import Checkpoint
from gcl_hard.training.loop import memory_for, train

if TYPE_CHECKING:
    from gcl_hard.experiments.diagnostics import DiagnosticsCallback

Floats = NDArray[np.float32]
HALF = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
NEIGHBOURS, TEMPERATURE = 200, 0.5  # of HCL's and H-SCL's code
QUERIES, SHARE = 2_000, 0.1  # of the monitoring curve: at most so many images, and this share
PIXELS_AT_A_TIME, EMBEDDED_AT_A_TIME = 4096, 512  # images
OnEpochEnd = Callable[[int, Callable[[], FoldScore]], None]
"""Called after an epoch with a function that scores the encoder as it is then; may raise to end
training."""


class ImageExperiment(Experiment[ImageConfig, ImageData]):
    """Experiments on images; methods as in ``Experiment``."""

    def load(
        self, config: ImageConfig, context: RunContext, own: ImageData | None = None
    ) -> ImageData:
        """The splits of a configuration; with loader workers only the test one is on the device."""
        if own is not None:
            return own
        device, on_cpu = torch.device(context.device), context.options.loader_workers > 0
        with memory_for(
            lambda: (
                f"{config.dataset} does not fit into the memory of {device}: --loader-workers N "
                f"keeps its training images on the CPU"
            )
        ):
            return image_data(config, context.data_dir, device, on_cpu=on_cpu)

    def facts(self, data: ImageData) -> dict[str, Any]:
        """Sizes and a digest."""
        return image_facts(data)

    def size(self, data: ImageData) -> tuple[int, int]:
        """Images to train on, and to score."""
        return len(data.pretrain), len(data.probe) + len(data.test)

    def check(
        self, config: ImageConfig, data: ImageData, context: RunContext, *, inner: bool
    ) -> None:
        """Check labels, batch size and precision before training."""
        if inner:
            data = data.held_out(0)
        for name, part in ((config.probe_split, data.probe), ("test", data.test)):
            if bool((part.labels < 0).any()):
                remedy = "remove these images" if name == "test" else "choose another --probe-split"
                raise InputError(
                    f"{config.dataset}: split {name} has images without labels, and the probe "
                    f"reads labels; {remedy}"
                )
        _check_classes(config, data)
        if config.encoder not in RESNETS:
            check_encoder(config, data, context.parts)
        if not config.encoders:
            return
        if config.reads_labels and bool((data.pretrain.labels < 0).any()):
            raise InputError(
                f"{config.dataset}: split {config.pretrain_split} has images without labels, and "
                f"{config.label_reader} reads labels in training; choose another --pretrain-split, "
                f"or train without labels (ucl, dcl, hucl or hcl, positives view, no class pairs, "
                f"no balanced batches)"
            )
        of_others = not config.is_baseline and method(config.method).admit == "other_labels"
        if of_others and not _several(data.pretrain.labels):
            raise InputError(
                f"{config.dataset}: split {config.pretrain_split} has one class only, and "
                f"{config.method} takes its negatives from other classes"
            )
        if config.batch_size > len(data.pretrain):
            raise InputError(
                f"batch-size {config.batch_size} is larger than the {len(data.pretrain)} images of "
                f"{config.dataset} to train on: lower it"
            )
        if config.batch_size < 2 * world_size():
            raise InputError(
                f"batch-size {config.batch_size} is shared by {world_size()} processes, which need "
                f"two images each: raise it"
            )
        if config.precision == "fp16" and torch.device(context.device).type != "cuda":
            raise InputError("precision fp16 needs a CUDA device; bf16 works on CPUs too")

    def advice(self, config: ImageConfig, data: ImageData) -> str | None:
        """That bf16 is slow on a CPU without instructions for it, and what classes are short of."""
        said = []
        on_cpu = data.test.images.device.type == "cpu" and config.encoders > 0
        if config.precision == "bf16" and on_cpu and not hardware.has_bf16():
            said.append(
                "this CPU has no instructions for bf16: a run takes several times as long as with "
                "--precision fp32"
            )
        if untested := _classes_of(data, _counts(data.test.labels, data) == 0):
            said.append(f"{config.dataset} has no test images of class {untested}")
        if config.balanced and config.encoders:
            counts = _counts(data.pretrain.labels, data)
            per_class = config.batch_size // int((counts > 0).sum())
            if few := _classes_of(data, (counts > 0) & (counts < per_class)):
                said.append(
                    f"balanced batches of {config.batch_size} take {per_class} images per class, "
                    f"more than there are of {few}: other classes fill the rest; a smaller "
                    f"batch-size makes the parts equal"
                )
        return "\n".join(said) or None

    def train(
        self, runs: Sequence[Run], data: ImageData, context: RunContext, report: Report
    ) -> Iterator[TrainedRun]:
        """Train runs one after the other: a single network fills the device."""
        hardware.use_threads(context.threads, math.inf, 1, context.cores)
        for run in runs:
            yield train_run(run, data, context, report)

    def fit(
        self, config: ImageConfig, data: ImageData, context: RunContext, seed: int
    ) -> ImageContrast:
        """A model trained on the training images."""
        hardware.use_threads(context.threads, math.inf, 1, context.cores)
        encoding = build(config, data, seed, context.parts)
        with tempfile.TemporaryDirectory() as folder:
            context = replace(context, output=Path(folder))
            found = TrainedRun(Run(config, seed))
            _fit(found, data, encoding, context, report=silent, on_epoch_end=None)
        return encoding.model

    def score(self, trained: TrainedRun, data: ImageData, context: RunContext) -> Scored:
        """What a linear probe predicts of the test images."""
        hardware.use_threads(context.threads, math.inf, 1, context.cores)
        tested = data.held_out(trained.run.seed) if trained.run.inner else data
        return Scored.of((score_run(trained, data),), tested.test.labels.cpu().numpy())

    def arrays(self, trained: TrainedRun, data: ImageData) -> dict[str, NDArray[Any]]:
        """``train`` float32 [n, d] and ``test``, with ``train_labels`` and ``test_labels``."""
        train, test = trained.embeddings
        labels = {"train_labels": data.probe.labels, "test_labels": data.test.labels}
        return {"train": train, "test": test} | {k: v.cpu().numpy() for k, v in labels.items()}


def _check_classes(config: ImageConfig, data: ImageData) -> None:
    """Check, before training, the classes that the probe needs."""
    if not _several(data.probe.labels):
        raise InputError(
            f"{config.dataset}: the training images have one class only, and the probe tells "
            f"classes apart: add images of a second one"
        )
    in_probe = _counts(data.probe.labels, data)
    if strange := _classes_of(data, (_counts(data.test.labels, data) > 0) & (in_probe == 0)):
        raise InputError(
            f"{config.dataset}: class {strange} has test images, but none among the "
            f"{len(data.probe)} images of {config.probe_split} that the probe is trained on"
        )
    chooses = config.probe == "logistic" or len(config.probe_lr) > 1
    if config.method == "majority" or not chooses:
        return
    if alone := _classes_of(data, in_probe == 1):
        raise InputError(
            f"{config.dataset}: class {alone} has one training image, and the probe, which is "
            f"chosen on a fifth of them, needs two: give more, leave the class out, or give one "
            f"--probe-lr, which needs no choice"
        )
    labels = data.probe.labels.cpu().numpy()
    try:
        inner_holdout(np.arange(len(labels)), labels, seed=0)
    except InputError as error:
        raise InputError(
            f"{config.dataset}: the probe is chosen on a part of its {len(labels)} training "
            f"images: {error}; give more of them, or one --probe-lr, which needs no choice"
        ) from error


def _counts(labels: Tensor, data: ImageData) -> Tensor:
    """Images of each class, int64 [C]."""
    labels = labels.cpu()
    return torch.bincount(labels[labels >= 0], minlength=data.n_classes)


def _classes_of(data: ImageData, which: Tensor) -> str:
    """Names of the classes of a mask [C], at most five of them."""
    names = [name for name, one in zip(data.class_names, which.tolist(), strict=True) if one]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _several(labels: Tensor) -> bool:
    """Whether there are at least two classes."""
    return bool((labels != labels[0]).any())


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

    def embed(self, split: Split, config: ImageConfig) -> Floats:
        """Embeddings of the images of a split, as many at a time as a training step has views."""
        n = min(EMBEDDED_AT_A_TIME, 2 * config.batch_size)
        with memory_for(
            lambda: (
                f"out of memory in embedding {n} images of {self.views.size} pixels at a time "
                f"({config}): lower size or batch-size, or use precision bf16 or a smaller encoder"
            )
        ):
            z = self.model.embed(
                split.images, self.views, batch_size=n, precision=HALF[config.precision]
            )
            found: Floats = z.cpu().numpy()
        return found


def views_of(config: ImageConfig, data: ImageData) -> Views:
    """The views of a config, normalised by the images that its encoder is trained on."""
    mean, std = channel_statistics(data.pretrain.images)
    return Views(config.view_recipe(), size=config.size or data.side, mean=mean, std=std)


def new_encoder(config: ImageConfig, size: int, parts: Parts | None) -> nn.Module:
    """A new encoder of a config for views of a size in pixels; ``parts`` as of :func:`build`."""
    if (make := own_part(config.encoder, parts)) is not None:
        check_call(make, "encoder()")
        made: nn.Module = make()
        return made
    return image_encoder(config.encoder, stem=config.stem_at(size), width=config.width)


def check_encoder(config: ImageConfig, data: ImageData, parts: Parts | None) -> None:
    """Check an encoder on two images of the size of views.

    Raises:
        InputError: if it cannot be made, has no width, gives another shape, or fails; says why.
    """
    size, named = config.size or data.side, config.encoder.partition("@")[0]
    with torch.random.fork_rng(devices=[]):
        try:
            encoder = new_encoder(config, size, parts)
        except GclHardError:
            raise
        except (
            Exception
        ) as error:  # from the user's code, such as a file of weights that is missing
            raise InputError(
                f"the encoder {named} cannot be made ({type(error).__name__}: {error})"
            ) from error
        model = ImageContrast(encoder, method="ucl")
    try:
        with evaluating(model):
            model.encode(torch.zeros(2, 3, size, size))
    except InputError:
        raise
    except Exception as error:  # from the user's code or a library's, which may raise anything
        raise InputError(
            f"the encoder {named} fails on images of {size} pixels ({type(error).__name__}: "
            f"{error}); --size gives them another size"
        ) from error


def build(config: ImageConfig, data: ImageData, seed: int, parts: Parts | None = None) -> Encoding:
    """The untrained model of a config; the global random state is left as it was.

    The encoder starts from the same weights for every method.

    Args:
        config: the settings.
        data: decides sizes and statistics.
        seed: seed of weights and views.
        parts: the user's own encoders.

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
            of = ImageConfig(method="ucl") if config.is_baseline else config
            model = ImageContrast(encoder, loss=of.loss(view_seed), **memory)
    device = data.test.images.device
    encoding = Encoding(model.to(device), views_of(config, data).to(device), view_seed)
    if config.compile and config.encoders:
        encoding.model.encoder.compile()
    return encoding


def train_run(
    run: Run,
    data: ImageData,
    context: RunContext,
    report: Report,
    on_epoch_end: OnEpochEnd | None = None,
) -> TrainedRun:
    """Train one run and embed its images.

    Args:
        run: ``inner`` puts a fifth of the training images, held out of all training, in the place
            of the test images.
        data: the images, on the device to train on.
        context: where checkpoints and encoders are kept.
        report: called with the progress; if it returns False, training ends with a checkpoint.
        on_epoch_end: called after every epoch.

    Returns:
        Embeddings to score, their cost, and the monitoring curve.

    Raises:
        DivergenceError: if a loss or an embedding is not finite.
        OutOfMemory: if the device's memory does not hold a batch.
        KeyboardInterrupt: if ``report`` returned False.
    """
    config = cast("ImageConfig", run.config)
    if run.inner:
        data = data.held_out(run.seed)
    if config.method == "majority":
        return TrainedRun(run, scores=majority(data))
    if config.method == "pixels":
        clock, views = Clock(), views_of(config, data)
        with memory_for(
            lambda: (
                f"out of memory in reading the pixels of {len(data.probe)} training and "
                f"{len(data.test)} test images of {views.size} pixels ({run}): lower size or subset"
            )
        ):
            embedded = pixels(views, data.probe), pixels(views, data.test)
        clock.evaluate()
        return TrainedRun(run, (), *clock.seconds, embeddings=embedded, knn=_knn(data, *embedded))
    encoding = build(config, data, run.seed, context.parts)
    found, clock = TrainedRun(run), Clock()
    if config.encoders:
        clock = _fit(found, data, encoding, context, report=report, on_epoch_end=on_epoch_end)
    if rank() == 0:
        found.embeddings = _embed(run, data, encoding)
        found.knn = _knn(data, *found.embeddings)
    clock.evaluate()
    found.seconds_train, found.seconds_eval = clock.seconds
    if ENCODERS in context.saves(run):
        found.encoders = encoder_state(run, encoding)
    return found


def score_run(trained: TrainedRun, data: ImageData) -> FoldScore:
    """Accuracy of the linear probe on the embeddings of a run, if training did not score it."""
    if trained.scores is not None:
        found: FoldScore = trained.scores
        return found
    run, config = trained.run, cast("ImageConfig", trained.run.config)
    if run.inner:
        data = data.held_out(run.seed)
    return _probe(run, config, data, *trained.embeddings)


def _embed(run: Run, data: ImageData, encoding: Encoding) -> tuple[Floats, Floats]:
    """Finite embeddings of the probe's and the test images."""
    config = cast("ImageConfig", run.config)
    train_z, test_z = (encoding.embed(part, config) for part in (data.probe, data.test))
    if not (np.isfinite(train_z).all() and np.isfinite(test_z).all()):
        raise DivergenceError(
            f"embeddings are not finite after epoch {config.epochs} ({run}); nothing of this run "
            f"was saved. Lower lr or beta, raise temperature, or use precision fp32"
        )
    return train_z, test_z


def _fit(
    found: TrainedRun,
    data: ImageData,
    encoding: Encoding,
    context: RunContext,
    *,
    report: Report,
    on_epoch_end: OnEpochEnd | None,
) -> Clock:
    """Train, from a checkpoint if there is one to resume; fills in losses, curve and snapshots.

    Returns:
        A clock with the time that training took.
    """
    run, config = found.run, cast("ImageConfig", found.run.config)
    options, device = context.options, data.test.images.device
    every = 0 if config.is_baseline else options.diagnostics
    checkpoint = _checkpoint(run, context, every)
    split, views = data.pretrain, encoding.views
    if options.loader_workers:  # their views are made on the CPU
        split, views = split.to(torch.device("cpu")), views_of(config, data)
    pairs = ViewPairs(
        split, views,
        batch_size=config.batch_size, seed=encoding.view_seed, data_seed=config.data_seed,
        balanced=config.balanced, class_pairs=config.class_pairs, workers=options.loader_workers,
        device=device, n_views=config.views or 2, with_item=encoding.model.loss.takes_items,
        part=(rank(), world_size()),
    )  # fmt: skip
    monitored = snapshot_epochs(0 if run.inner else options.monitor_every, config.epochs)
    parts = _monitored(data.probe) if monitored else None
    diagnostics: DiagnosticsCallback[ImageContrast] | None = None
    if every and rank() == 0:
        diagnostics = _diagnostics(config, data, encoding, every)
    notes, last_mean = checkpoint.notes, math.nan
    clock = Clock(notes)
    n_steps = len(data.pretrain) // config.batch_size

    def progress(epoch: float, loss: float) -> None:
        if not report(run, epoch / config.epochs, loss):
            checkpoint.stop()

    def batches(epoch: int) -> Iterator[ViewPair]:
        for step, pair in enumerate(pairs(epoch)):
            clock.train()
            progress(epoch - 1 + step / n_steps, last_mean)
            yield pair

    def ended(epoch: int, mean: float) -> None:
        nonlocal last_mean
        last_mean = mean
        clock.train()
        if parts is not None and epoch in monitored and rank() == 0:
            accuracy = _monitor(encoding, config, parts)
            notes.setdefault("curve", []).append((epoch, accuracy))
        clock.evaluate()
        if diagnostics is not None:
            diagnostics.snapshots, diagnostics.seconds = notes.get("diagnostics", ([], 0.0))
            diagnostics(epoch, encoding.model, encoding.model.loss.sampler.current)
            notes["diagnostics"] = [diagnostics.snapshots, diagnostics.seconds]
            clock.pause()
        if on_epoch_end is not None:
            on_epoch_end(epoch, lambda: _probe(run, config, data, *_embed(run, data, encoding)))
        clock.evaluate()
        progress(epoch, mean)

    losses = train(
        encoding.model, batches, config.optimisation(), device=device, on_epoch=ended,
        setting=str(run), checkpoint=checkpoint, together=world_size() > 1,
        images=(config.batch_size, encoding.views.size),
    )  # fmt: skip
    clock.train()
    found.losses = (losses[-1],)
    found.curve = tuple((int(epoch), accuracy) for epoch, accuracy in notes.get("curve", []))
    if diagnostics is not None:
        found.snapshots, found.seconds_diagnostics = notes["diagnostics"]
        found.points = diagnostics.last_points(encoding.model)
    return clock


def _diagnostics(
    config: ImageConfig, data: ImageData, encoding: Encoding, every: int
) -> DiagnosticsCallback[ImageContrast]:
    from gcl_hard.experiments.diagnostics import DiagnosticsCallback
    from gcl_hard.experiments.image_snapshots import image_sampler

    make = partial(image_sampler, config, data.probe, encoding.views, HALF[config.precision])
    return DiagnosticsCallback(config.epochs, every, make)


def _checkpoint(run: Run, context: RunContext, diagnostics: int) -> Checkpoint:
    """The checkpoint of a run, with the settings that it can be resumed with."""
    options = context.options
    identity = {**asdict(run.config), "seed": run.seed, "inner": run.inner, "data": context.digest}
    if world_size() > 1:
        identity["processes"] = world_size()
    if diagnostics:  # a checkpoint without snapshots cannot be resumed with them
        identity["diagnostics"] = diagnostics
    return Checkpoint(
        context.checkpoint(run), identity,
        resume=options.resume, every=60 * options.checkpoint_minutes,
    )  # fmt: skip


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


def _monitor(encoding: Encoding, config: ImageConfig, parts: tuple[Split, Split]) -> float:
    """Accuracy in percent of nearest neighbours among training images."""
    bank, queries = (encoding.embed(part, config) for part in parts)
    return _neighbours(bank, queries, parts)


def _knn(data: ImageData, train_z: Floats, test_z: Floats) -> float:
    """Accuracy in percent of the test images by their nearest neighbours among the probe's."""
    return _neighbours(train_z, test_z, (data.probe, data.test))


def _neighbours(bank: Floats, queries: Floats, parts: tuple[Split, Split]) -> float:
    known, asked = (part.labels.cpu().numpy() for part in parts)
    return 100 * weighted_knn(
        bank, known, queries, asked, k=min(NEIGHBOURS, len(bank)), temperature=TEMPERATURE,
        device=str(parts[1].images.device),
    )  # fmt: skip


def _probe(
    run: Run, config: ImageConfig, data: ImageData, train_z: Floats, test_z: Floats
) -> FoldScore:
    recipe = ProbeRecipe(
        solver=config.probe, rates=config.probe_lr, weight_decay=config.probe_weight_decay,
        epochs=config.probe_epochs, batch_size=config.probe_batch_size,
    )  # fmt: skip
    known, asked = (part.labels.cpu().numpy() for part in (data.probe, data.test))
    device, seed = str(data.test.images.device), seed_for(run.seed, 1) % 2**32
    with memory_for(lambda: f"out of memory in the probe ({run}): lower probe-batch-size"):
        return linear_probe(train_z, known, test_z, asked, seed=seed, recipe=recipe, device=device)


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
    found: Floats = np.concatenate(rows)
    return found


def encoder_state(run: Run, encoding: Encoding) -> dict[str, Any]:
    """What is saved of a trained encoder.

    ``encoder`` (its state dict), ``config``, ``seed``, the ``stem`` and ``size`` of views that
    "auto" resolved to, and ``mean`` and ``std`` of the channels.
    """
    config = cast("ImageConfig", run.config)
    return {
        "encoder": {k: v.cpu() for k, v in encoding.model.encoder.state_dict().items()},
        "config": asdict(config),
        "seed": run.seed,
        "stem": config.stem_at(encoding.views.size),
        "size": encoding.views.size,
        "mean": encoding.views.mean.flatten().tolist(),
        "std": encoding.views.std.flatten().tolist(),
    }
