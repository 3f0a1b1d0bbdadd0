"""A tiny encoder and a few digits: one run on images in a tenth of a second."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gcl_hard import bench
from gcl_hard.evaluation import FoldScore
from gcl_hard.experiments import runner
from gcl_hard.experiments.experiment import RunContext, TrainedRun
from gcl_hard.experiments.run import Run
from gcl_hard.images import Split
from gcl_hard.images import training as image_training
from gcl_hard.images.experiment import ImageExperiment
from gcl_hard.images.parts import ImageData, image_data
from gcl_hard.images.settings import ImageConfig
from tests.experiments.made import context, same_bits

__all__ = ["same_bits"]

CPU = torch.device("cpu")


class Tiny(nn.Sequential):
    """An encoder with what a ResNet has: convolutions, BatchNorm, pooling."""

    out_dim = 8

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip


@cache
def few_digits() -> ImageData:
    """120 + 60 images."""
    data = image_data(ImageConfig(subset=120), None, CPU)
    return replace(data, test=data.test.take(torch.arange(60)))


def small(method: str = "hscl", **settings: Any) -> ImageConfig:
    """Two epochs of three steps, and a short probe."""
    return ImageConfig(
        **{"method": method, "subset": 120, "epochs": 2, "batch_size": 40, "blur": 0.0,
           "probe_epochs": 40, "probe_lr": (0.01, 0.1), **settings}
    )  # fmt: skip


@pytest.fixture
def tiny_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trains :class:`Tiny` in the place of a ResNet."""
    monkeypatch.setattr(image_training, "image_encoder", lambda name, stem, width: Tiny())


@dataclass(frozen=True)
class Ran:
    """A run that was trained and scored.

    Attributes:
        trained: what training left.
        score: of the probe.
        context: of its files.
        reports: of progress: share and loss.
    """

    trained: TrainedRun
    score: FoldScore
    context: RunContext
    reports: list[tuple[float, float]]

    @property
    def saved(self) -> dict[str, Any]:
        """The saved encoder; empty if there is none."""
        return self.trained.encoders or {}

    @property
    def weights(self) -> dict[str, Tensor]:
        """Of the saved encoder."""
        weights = self.saved["encoder"]
        assert isinstance(weights, dict)
        return weights


Execute = Callable[..., Ran]


def runs_in(folder: Path) -> Execute:
    """Trains and scores runs, each in a folder of its own."""
    count = iter(range(1_000))

    def execute(
        config: ImageConfig,
        data: ImageData | None = None,
        seed: int = 3,
        inner: bool = False,
        **options: Any,
    ) -> Ran:
        where = folder / str(next(count))
        where.mkdir(parents=True)
        reports: list[tuple[float, float]] = []

        def report(run: Run, share: float, loss: float) -> bool:
            reports.append((share, loss))
            assert math.isnan(loss) == (share * run.epochs < 1)
            return True

        run_context = context(where, **{"save_encoder": True, "monitor_every": 1, **options})
        experiment, images = ImageExperiment(), data or few_digits()
        (trained,) = experiment.train([Run(config, seed, inner)], images, run_context, report)
        return Ran(trained, image_training.score_run(trained, images), run_context, reports)

    return execute


def garbage(split: Split, seed: int = 0) -> Split:
    """Other pixels, and every label another one."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randint(256, split.images.shape, generator=generator, dtype=torch.uint8)
    return Split(noise, (split.labels + 1) % 10)


def at(split: Split, index: Tensor, other: Split) -> Split:
    """The split with some of its images and labels replaced."""
    images, labels = split.images.clone(), split.labels.clone()
    images[index], labels[index] = other.images, other.labels
    return Split(images, labels)


TINY = [
    "--subset=120", "--epochs=2", "--batch-size=40", "--blur=0", "--probe-epochs=3", "--seeds=1",
    "--device=cpu", "--threads=1", "--monitor-every=1",
]  # fmt: skip


class Command:
    """``python -m gcl_hard.bench`` in this process, with tiny settings and a folder of its own.

    What it trains is :class:`Tiny`; forward passes in training are counted in ``steps``.
    """

    def __init__(
        self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("GCL_HARD_DATA", raising=False)
        monkeypatch.setenv("GCL_HARD_CACHE", str(folder / "cache"))
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
        monkeypatch.setattr(
            image_training, "image_encoder", lambda name, stem, width: self._encoder()
        )
        self.folder, self.output = folder, folder / "results"
        self.steps, self.stop_at = 0, -1
        self._capsys = capsys
        self.out = self.err = ""

    def _encoder(self) -> nn.Module:
        encoder = Tiny()
        encoder.register_forward_pre_hook(self._count)
        return encoder

    def _count(self, encoder: nn.Module, _: Any) -> None:
        self.steps += encoder.training
        if self.steps == self.stop_at:
            raise KeyboardInterrupt

    def __call__(self, *arguments: str) -> int:
        """Run it as another process would; what it printed is in ``out`` and ``err``."""
        self.steps = 0
        runner._DATA.clear()
        status = bench.main(["--dataset=digits", *TINY, f"--output={self.output}", *arguments])
        self.out, self.err = self._capsys.readouterr()
        return status

    def interrupted(self, step: int, *arguments: str) -> None:
        """Run it until Ctrl-C in a step, from 1, of training."""
        self.stop_at = step
        assert self(*arguments) == 130
        self.stop_at = -1

    def files(self, pattern: str = "*") -> list[Path]:
        """Whatever lies in the output folder."""
        return sorted(path for path in self.output.rglob(pattern) if path.is_file())

    def refuses(self, *arguments: str) -> str:
        """The one message; nothing was trained and nothing is left."""
        before = self.files()
        assert self(*arguments) == 2
        assert self.err.startswith("error: ")
        assert self.err.count("error: ") == 1
        assert "Traceback" not in self.out + self.err
        assert (self.steps, self.files()) == (0, before)
        return self.err
