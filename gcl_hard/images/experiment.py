"""Experiments on images: ResNets, the official split, a linear probe of the test images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.export import Dim

from gcl_hard.core.extras import check_extra
from gcl_hard.core.setting import declared
from gcl_hard.errors import InputError
from gcl_hard.evaluation.folds import inner_holdout
from gcl_hard.experiments import hardware
from gcl_hard.experiments.embedding import Items, batch_bounds, set_named
from gcl_hard.experiments.experiment import (
    Experiment,
    Parts,
    PretrainingData,
    Reading,
    Report,
    RunContext,
    TrainedRun,
    silent,
)
from gcl_hard.experiments.exporting import Exportable
from gcl_hard.experiments.protocols import (
    BESIDE,
    METRIC,
    SPLIT,
    UNSEEN,
    of_one_protocol,
    protocol_score,
)
from gcl_hard.experiments.record import Scored
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import OwnTraining, of_part
from gcl_hard.images import KNOWN, canonical_name, has_dataset, is_misspelt, training
from gcl_hard.images.augment import ViewRecipe, Views
from gcl_hard.images.datasets import ImageSet, Split, load_folder, load_images
from gcl_hard.images.files import paths
from gcl_hard.images.models import ImageContrast, PixelEncoder
from gcl_hard.images.parts import ImageData, digest_of_images, image_data, image_facts
from gcl_hard.images.settings import RESNETS, ImageConfig
from gcl_hard.images.training import (
    Encoding,
    at_a_time,
    build,
    check_encoder,
    fit_run,
    new_encoder,
    score_run,
)
from gcl_hard.losses.gathering import world_size
from gcl_hard.training.loop import memory_for


class ImageExperiment(Experiment[ImageConfig, ImageData]):
    """Experiments on images; methods as in ``Experiment``."""

    item: ClassVar[str] = "image"
    quick: ClassVar[Mapping[str, Any]] = {
        "dataset": ("digits",),
        "encoder": ("resnet18",),
        "seeds": (0, 1),
        "epochs": (3,),
        "beta": (1.0, 5.0),
        "threshold_start": (-0.5,),
        "threshold_end": (0.0,),
    }
    pretraining: ClassVar[PretrainingData] = PretrainingData(
        "images",
        (*of_part(ImageConfig, "split"), *of_part(ImageConfig, "probe"), "probe_split", "subset",
         "classes", "label_noise", *declared(OwnTraining)),
        ("smiles", "pseudo_labels", "jobs"),
        {"method": "hucl"},
    )  # fmt: skip
    options: ClassVar[frozenset[str]] = frozenset({"diagnostics", "save_encoder"})
    shape: ClassVar[frozenset[str]] = frozenset({"size"})
    beside: ClassVar[Mapping[str, tuple[str, ...]]] = BESIDE

    def load(
        self,
        config: ImageConfig,
        context: RunContext,
        user_data: ImageData | ImageSet | None = None,
    ) -> ImageData:
        """The splits; with loader workers only the test split is on the device."""
        if isinstance(user_data, ImageData):
            return user_data
        if config.encoder.startswith("timm:"):
            check_extra("timm", config.encoder)
        device, on_cpu = torch.device(context.device), context.options.loader_workers > 0
        with memory_for(
            lambda: (
                f"{config.dataset} does not fit into the memory of {device}: --loader-workers N "
                f"keeps its training images on the CPU"
            )
        ):
            return image_data(config, context.data_dir, device, on_cpu=on_cpu, image_set=user_data)

    def facts(self, data: ImageData) -> dict[str, Any]:
        """Sizes and a digest."""
        return image_facts(data)

    def files(self, config: ImageConfig, data_dir: Path | None) -> list[Path]:
        """Files of a set; none for a set of a library."""
        return paths(config.dataset, data_dir=data_dir)

    def set_name(self, config: ImageConfig) -> str:
        """Name of the data set in tables, with the number of classes if ``classes`` is given."""
        return config.dataset + (f", {config.classes} classes" if config.classes else "")

    def resolved(self, config: ImageConfig, facts: Mapping[str, Any]) -> dict[str, Any]:
        """The size of views and the stem that goes with it."""
        size = config.size or int(facts["side"])
        if config.encoder not in RESNETS or config.method in ("majority", "pixels"):
            return {"size": size}
        return {"size": size, "stem": config.stem_at(size)}

    def combined(self, configs: Sequence[ImageConfig]) -> Sequence[ImageConfig]:
        """Without the most frequent class where classes are not what is scored."""
        return of_one_protocol(configs)

    def metrics(self, config: ImageConfig, data: ImageData) -> tuple[str, ...]:
        """The accuracy or MAP@R."""
        return (METRIC[config.protocol],)

    def validates(self, config: ImageConfig) -> bool:
        """On classes to choose on, under ``unseen``."""
        return config.protocol == UNSEEN

    def test_share(self, config: ImageConfig, facts: Mapping[str, Any]) -> float:
        """Under ``unseen`` n_test / n_train of classes, of which each seed has a draw."""
        if config.protocol == SPLIT:
            return 0.0
        return float(facts["test_classes"] / facts["train_classes"])

    def size(self, data: ImageData) -> tuple[int, int]:
        """Images to train on, and to score."""
        return len(data.pretrain), len(data.probe) + len(data.test)

    def check(
        self, config: ImageConfig, data: ImageData, context: RunContext, *, inner: bool
    ) -> None:
        """Check labels, batch size and precision before training."""
        data = data.of_run(Run(config, 0, inner))
        for name, part in ((config.probe_split, data.probe), ("test", data.test)):
            if bool((part.labels < 0).any()):
                raise InputError(
                    f"{config.dataset}: split {name} has images without labels, and the probe "
                    f"reads labels"
                )
        if config.protocol == SPLIT:
            _check_classes(config, data)
        if config.encoder not in RESNETS:
            check_encoder(config, data, context.parts)
        if not config.encoders:
            return
        if config.reads_labels and bool((data.pretrain.labels < 0).any()):
            raise InputError(
                f"{config.dataset}: split {config.pretrain_split} has images without labels, and "
                f"{config.method} with these settings reads labels"
            )
        if config.batch_size < 2 * world_size():
            raise InputError(
                f"batch-size {config.batch_size} is shared by {world_size()} processes, which need "
                f"two images each: raise it"
            )
        if config.precision == "fp16" and torch.device(context.device).type != "cuda":
            raise InputError("precision fp16 needs a CUDA device; bf16 works on CPUs too")

    def advice(self, config: ImageConfig, data: ImageData) -> str | None:
        """Warns of test images that are in training as well, and of classes without test images."""
        remarks = []
        if seen := data.seen_tests:
            remarks.append(
                f"{config.dataset}: {seen} of {len(data.test)} test images are training images, too"
            )
        if untested := _classes_of(data, _counts(data.test.labels, data) == 0):
            remarks.append(f"{config.dataset} has no test images of class {untested}")
        return "\n".join(remarks) or None

    def train_run(
        self, run: Run, data: ImageData, context: RunContext, report: Report
    ) -> TrainedRun:
        """Train a single run: one network fills the device."""
        hardware.use_threads(context.threads, math.inf, 1, context.cores)
        return training.train_run(run, data, context, report)

    def fit(
        self, config: ImageConfig, data: ImageData, context: RunContext, seed: int
    ) -> ImageContrast:
        """A model trained on the training images."""
        hardware.use_threads(context.threads, math.inf, 1, context.cores)
        encoding = build(config, data, seed, context.parts)
        trained, context = TrainedRun(Run(config, seed)), context.without_checkpoints()
        fit_run(trained, data, encoding, context, silent)
        return encoding.model

    def score(self, trained: TrainedRun, data: ImageData, context: RunContext) -> Scored:
        """The predictions of a linear probe for the test images, or their rankings."""
        hardware.use_threads(context.threads, math.inf, 1, context.cores)
        if trained.run.config.protocol == UNSEEN:
            return _ranked(trained, data)
        tested = data.of_run(trained.run).test
        scored = Scored.of((score_run(trained, data),), tested.labels.cpu().numpy())
        return replace(scored, facts=trained.facts)

    def new_encoder(
        self, config: ImageConfig, saved: Mapping[str, Any], parts: Parts | None
    ) -> nn.Module:
        """A ResNet, or another encoder that the configuration names."""
        return new_encoder(config, saved["size"], parts)

    def items(
        self, encoder: nn.Module, saved: Mapping[str, Any], data: Any, reading: Reading
    ) -> Items:
        """All images of a folder or a set, scaled to the size that the encoder was trained on."""
        if lacking := [name for name in ("mean", "std") if name not in saved]:
            raise InputError(f"the file of this encoder lacks {lacking[0]} of its images")
        side = int(saved.get("side", saved["size"]))
        split, columns, notes = _to_embed(data, reading.context.data_dir, side)
        if (pixels := split.images.shape[-1]) != side:
            notes += (f"images of {pixels} pixels, and the encoder's had {side}: they are scaled",)
        config, device = saved["config"], torch.device(reading.context.device)
        views = _saved_views(saved).to(device)
        model = ImageContrast(encoder, method="ucl", channels_last=config.channels_last).to(device)
        encoding, n = Encoding(model, views, view_seed=0), reading.batch_size or at_a_time(config)
        bounds = batch_bounds(len(split), n)
        return Items(
            columns, digest_of_images(split), bounds,
            lambda k: encoding.embed(split[bounds[k] : bounds[k + 1]], config, n), notes,
        )  # fmt: skip

    def exportable(self, encoder: nn.Module, saved: Mapping[str, Any]) -> Exportable:
        """Embeddings of images as loaded: the program resizes and normalises them."""
        side = int(saved.get("side", saved["size"]))

        def example(n: int) -> dict[str, Tensor]:
            generator = torch.Generator().manual_seed(n)
            shape = n, 3, side, side
            return {"images": torch.randint(256, shape, generator=generator, dtype=torch.uint8)}

        facts = {name: saved[name] for name in ("size", "mean", "std")} | {"side": side}
        return Exportable(
            PixelEncoder(encoder, _saved_views(saved)), {"images": {0: Dim("images", min=1)}},
            {"embeddings": "images"}, example, facts,
        )  # fmt: skip

    def arrays(self, trained: TrainedRun, data: ImageData) -> dict[str, NDArray[Any]]:
        """``train``, under ``unseen`` ``valid``, float32 [n, d], and ``test``, with ``_labels`` and
        ``_ids`` of each.
        """
        arrays: dict[str, NDArray[Any]] = {}
        parts = data.of_run(trained.run).embedded
        for (name, part), z in zip(parts.items(), trained.embeddings, strict=True):
            arrays |= {name: z, f"{name}_labels": part.labels.cpu().numpy()}
            arrays |= {f"{name}_ids": np.asarray(part.ids)}
        return arrays

    def file_facts(self, data: Any) -> dict[str, Any]:
        """Size and normalisation of views."""
        if not isinstance(data, Views):
            return super().file_facts(data)
        mean, std = data.mean.flatten().tolist(), data.std.flatten().tolist()
        return {"size": data.size, "mean": mean, "std": std}

    def pretrains_on(self, source: str, data_dir: Path | None) -> bool:
        """Folders, too, and names nearly those of known sets, which are refused later."""
        folder = source.endswith("/") or Path(source).is_dir()
        return folder or has_dataset(source, data_dir) or is_misspelt(source)


def _ranked(trained: TrainedRun, data: ImageData) -> Scored:
    """Rankings of the test images of a draw of classes, or of those to choose on."""
    run, labels = trained.run, data.test.labels.cpu().numpy()
    draw, (valid_z, test_z) = data.draw(run), trained.embeddings
    z = np.zeros((len(labels), valid_z.shape[1]), np.float32)
    z[draw.valid if run.inner else draw.test] = test_z
    z[draw.valid] = valid_z
    score = protocol_score(UNSEEN, z, labels, draw, inner=run.inner)
    counts = {
        f"{name}_classes": len(np.unique(labels[ids])) for name, ids in draw._asdict().items()
    }
    return Scored(
        (score.tested,), validation=(score.validation,), facts={**trained.facts, **counts}
    )


def _saved_views(saved: Mapping[str, Any]) -> Views:
    """Views that normalise as the file of an encoder says."""
    return Views(ViewRecipe(), size=saved["size"], mean=saved["mean"], std=saved["std"])


def _to_embed(
    data: Any, data_dir: Path | None, side: int
) -> tuple[Split, dict[str, NDArray[Any]], tuple[str, ...]]:
    """Images, the columns that name their rows, and notes.

    The column ``part`` of a named set tells training from test images.
    """
    if isinstance(data, str | Path) and Path(data).is_dir():
        if canonical_name(str(data)) in KNOWN:
            raise InputError(
                f"{data} is a known set, and a folder here: give {data}/ for the folder, or work "
                f"in another one"
            )
        (split,) = load_folder(data, side=side, whole=True).splits.values()
        return split, {"id": np.asarray(split.ids)}, ()
    if isinstance(data, str | Path):
        name, folder = set_named(data)
        data = load_images(name, data_dir=folder or data_dir)
    if isinstance(data, ImageSet):
        parts = data.splits
        joined = Split(
            torch.cat([part.images for part in parts.values()]),
            torch.cat([part.labels for part in parts.values()]),
            np.concatenate([np.asarray(part.ids) for part in parts.values()]),
        )
        names = np.repeat([*parts], [len(part) for part in parts.values()])
        return joined, {"id": np.asarray(joined.ids), "part": names}, ()
    if isinstance(data, Tensor):
        data = Split(data, torch.full((len(data),), -1))
    if not isinstance(data, Split):
        raise InputError(
            f"images are a folder, a set, a gcl_hard.images.Split, or uint8 [n, 3, S, S], got "
            f"{type(data).__name__}"
        )
    return data, {"id": np.asarray(data.ids)}, ()


def _check_classes(config: ImageConfig, data: ImageData) -> None:
    """Check, before training, the classes that the probe needs."""
    if not _several(data.probe.labels):
        raise InputError(
            f"{config.dataset}: the training images have one class only, and the probe tells "
            f"classes apart"
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
    labels = data.probe.labels.cpu().numpy()
    inner_holdout(np.arange(len(labels)), labels, seed=0)


def _counts(labels: Tensor, data: ImageData) -> Tensor:
    """Images of each class, int64 [C]."""
    labels = labels.cpu()
    return torch.bincount(labels[labels >= 0], minlength=data.n_classes)


def _classes_of(data: ImageData, mask: Tensor) -> str:
    """Names of the classes of a mask [C], at most five of them."""
    names = [name for name, is_in in zip(data.class_names, mask.tolist(), strict=True) if is_in]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _several(labels: Tensor) -> bool:
    """Whether there are at least two classes."""
    return bool((labels != labels[0]).any())


EXPERIMENT = ImageExperiment
