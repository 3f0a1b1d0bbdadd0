"""Presets: the paper's tables and published accuracies, smoke runs, our recipes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gcl_hard.errors import InputError
from gcl_hard.experiments.settings import Domain, RunConfig
from gcl_hard.files.stored import read_yaml
from gcl_hard.graphs.settings import GIN, GRAPH_BASELINES, MOLECULE_GIN, GraphConfig
from gcl_hard.images.settings import IMAGE_BASELINES, ImageConfig

TABLE_II: dict[str, dict[str, float]] = {
    "MUTAG": {"ucl": 86.8, "hucl": 87.2, "scl": 86.9, "hscl": 87.2},
    "ENZYMES": {"ucl": 50.4, "hucl": 50.4, "scl": 50.4, "hscl": 50.7},
    "PTC_MR": {"ucl": 55.3, "hucl": 57.3, "scl": 55.8, "hscl": 57.7},
    "IMDB-BINARY": {"ucl": 72.2, "hucl": 72.8, "scl": 72.4, "hscl": 73.0},
    "IMDB-MULTI": {"ucl": 49.6, "hucl": 49.6, "scl": 49.9, "hscl": 50.1},
}
"""H-SCL paper, Table II: accuracy in percent, 10 runs of 10-fold cross-validation. For hucl and
hscl the paper reports the best of β ∈ {1, 2, 10}, chosen on the test folds."""

PAPERS_BETAS = (1.0, 2.0, 10.0)
"""H-SCL paper, section V-C: β on graphs."""
TABLE_I: dict[str, dict[str, float]] = {
    "STL10": {"ucl": 64.36, "hucl": 67.82, "scl": 68.28, "hscl": 72.52, "hscl-tau": 71.02},
    "CIFAR10": {"ucl": 89.16, "hucl": 90.35, "scl": 93.46, "hscl": 93.98, "hscl-tau": 92.95},
    "CIFAR100": {"ucl": 64.02, "hucl": 67.77, "scl": 71.68, "hscl": 75.11, "hscl-tau": 72.97},
    "TinyImageNet": {"ucl": 53.40, "hucl": 56.22, "scl": 62.06, "hscl": 65.39, "hscl-tau": 63.84},
}
"""H-SCL paper, Table I: top-1 accuracy in percent of a linear classifier, for STL10 the mean of 5
runs; the best of a grid over β or thresholds; the paper does not say where that grid was
scored."""


def published_accuracy(config: RunConfig) -> float | None:
    """Accuracy that the H-SCL paper reports for a configuration.

    Args:
        config: with the canonical name of its data set.

    Returns:
        Percent; None for what the paper does not have: other domains, other protocols, two views
        of a graph, a part of an image set.

    Example:
        >>> published_accuracy(GraphConfig(dataset="PTC_MR"))
        57.7
        >>> published_accuracy(GraphConfig(dataset="PTC_MR", protocol="inductive")) is None
        True
    """
    if isinstance(config, GraphConfig):
        ours = config.encoder == GIN and config.contrast == "local-global"
        comparable = ours and config.protocol == "transductive"
        table = TABLE_II
    elif isinstance(config, ImageConfig):
        splits = config.pretrain_split, config.probe_split
        whole = config.subset is None and config.classes is None and not config.label_noise
        comparable = whole and splits == ("train", "train")
        table = TABLE_I
    else:
        return None
    return table.get(config.dataset, {}).get(config.method) if comparable else None


@dataclass(frozen=True)
class Preset:
    """Default values of a ``--table``.

    Attributes:
        domain: domain of its configurations.
        shows: description in the help.
        values: values of flags that are not given; a list where the flag takes several.
        by_dataset: the same for single data sets.
    """

    domain: Domain
    shows: str
    values: dict[str, Any]
    by_dataset: dict[str, dict[str, Any]] = field(default_factory=dict)


PRESETS: dict[str, Preset] = {
    "1": Preset(
        "images",
        "Table I, images, with baselines, grids and tests",
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
    ),
    "2": Preset(
        "graphs",
        "Table II, graphs, with baselines, both protocols and tests",
        {
            "dataset": (*TABLE_II,),
            "method": ("ucl", "hucl", "scl", "hscl", *GRAPH_BASELINES),
            "protocol": ("transductive", "inductive"),
            "beta": (0.5, 1.0, 2.0),
            "select": True,
            "jobs": None,
        },
    ),
}
"""Presets by the value of ``--table``; settings are chosen inside training data."""

PRETRAINING: dict[str, Any] = {
    "dataset": "MOSES", "method": "hucl", "contrast": "two-view", "encoder": MOLECULE_GIN,
    "augmentations": ("mask-attributes", "mask-columns", "drop-nodes"), "layers": 4, "dim": 64,
    "epochs": 1, "batch_size": 256, "lr": 0.001,
}  # fmt: skip
"""Settings of graphs in pre-training that differ from their defaults."""
PRETRAINING_IMAGES: dict[str, Any] = {"method": "hucl"}
"""Likewise, of images."""

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

RECIPE_FOLDERS = (
    Path(__file__).parents[1] / "data" / "recipes",
    Path(__file__).parents[2] / "configs" / "graphs" / "best",
)
"""Folders of recipes: in an installed package, and in a checkout."""


def recipe(dataset: str) -> dict[str, Any]:
    """Our recipe for a graph data set: its own if there is one, else the one for all sets.

    Args:
        dataset: canonical name.

    Returns:
        Settings of a :class:`GraphConfig`.

    Raises:
        InputError: for a file that is not a recipe.

    Example:
        >>> recipe("PTC_MR")["contrast"]
        'two-view'
    """
    from gcl_hard.experiments.flags import settings_from  # it loads the parser of flags

    for stem in (dataset.lower(), "all"):
        for folder in RECIPE_FOLDERS:
            path = folder / f"{stem}.yaml"
            if path.is_file():
                return settings_from(read_yaml(path), str(path))
    raise InputError(f"no recipe in {' or '.join(map(str, RECIPE_FOLDERS))}")


def best_recipe(config: type[RunConfig], dataset: str) -> dict[str, Any]:
    """:func:`recipe` of a data set by any of its names; InputError for images."""
    from gcl_hard.graphs.tudataset import canonical_name

    if config is not GraphConfig:
        raise InputError(f"recipes exist for graphs only, and {dataset} holds images")
    return recipe(canonical_name(dataset))
