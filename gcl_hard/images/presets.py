"""Table I of the H-SCL paper, in full and small, for CPUs."""

from __future__ import annotations

from typing import Any

from gcl_hard.experiments.presets import Preset
from gcl_hard.images.settings import IMAGE_BASELINES, ImageConfig

TABLE_I: dict[str, dict[str, float]] = {
    "STL10": {"ucl": 64.36, "hucl": 67.82, "scl": 68.28, "hscl": 72.52, "hscl-tau": 71.02},
    "CIFAR10": {"ucl": 89.16, "hucl": 90.35, "scl": 93.46, "hscl": 93.98, "hscl-tau": 92.95},
    "CIFAR100": {"ucl": 64.02, "hucl": 67.77, "scl": 71.68, "hscl": 75.11, "hscl-tau": 72.97},
    "TinyImageNet": {"ucl": 53.40, "hucl": 56.22, "scl": 62.06, "hscl": 65.39, "hscl-tau": 63.84},
}
"""H-SCL paper, Table I: top-1 accuracy in percent of a linear classifier, for STL10 the mean of 5
runs; the best of a grid over β or thresholds; the paper does not say where that grid was
scored."""

SMALL: dict[str, Any] = {
    "dataset": ("CIFAR10", "CIFAR100"),
    "method": ("ucl", "hucl", "hcl", "bcl", "scl", "hscl", "hscl-tau", *IMAGE_BASELINES),
    "beta": (0.25, 1.0, 3.0),
    "temperature": (0.1, 0.2, 0.35, 0.5, 1.0),
    "threshold_start": (-0.5, -0.1),
    "threshold_end": (0.0,),
    "select_epochs": 10,
    "select_subset": 10_000,
    "encoder": ("fast",),
    "precision": "bf16",
    "subset": 20_000,
    "epochs": (15,),
    "patience": 0,  # supervised is trained as long as the others are
    "seeds": (0, 1, 2),
    "monitor_every": 3,
    "diagnostics": 5,
}
"""Values of ``--table 1 --small``: Table I at a size that CPUs train in hours."""


TABLES: dict[str, Preset] = {
    "1": Preset(
        {
            "dataset": (*TABLE_I,),
            "method": ("ucl", "hucl", "scl", "hscl", "hscl-tau", *IMAGE_BASELINES),
            "beta": (0.1, 0.5, 1.0, 2.0, 5.0),
            "threshold_start": (-0.5, -0.3, -0.1),
            "threshold_end": (-0.1, 0.0, 0.1),
            "select": True,
        },
        by_dataset={
            "STL10": {"size": 32, "stem": "cifar"},  # as in configs/images/stl10.yaml
            "CIFAR100": {"class_prior": 0.01},  # one over the number of classes
            "TinyImageNet": {"class_prior": 0.005},
        },
        small=SMALL,
    )
}
"""Presets by the value of ``--table``."""


def published(config: ImageConfig) -> float | None:
    """Accuracy in percent that the H-SCL paper reports for a configuration, if any."""
    splits = config.pretrain_split, config.probe_split
    whole = config.subset is None and config.classes is None and not config.label_noise
    comparable = whole and splits == ("train", "train")
    return TABLE_I.get(config.dataset, {}).get(config.method) if comparable else None
