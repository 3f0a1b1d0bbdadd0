"""The keys of results of schema 2, from its defaults: frozen, for they name files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_COMMON = {
    "dataset": None, "method": "hscl", "beta": 1.0, "beta_changes": 0, "threshold_start": -0.5,
    "threshold_end": 0.0, "temperature": None, "class_prior": None, "auc": None, "hardness": None,
    "quota": None, "hard_positives": None, "without": None, "ring_inner": None, "ring_outer": None,
    "epsilon": None, "hardest": None, "mixed": None, "mixed_with_anchor": None, "views": None,
    "detach_weights": False, "epochs": 200, "lr_schedule": "constant", "data_seed": 0,
}  # fmt: skip
DEFAULTS: dict[str, dict[str, Any]] = {
    "graphs": _COMMON
    | {
        "dataset": "MUTAG", "protocol": "transductive", "batch_size": 128, "lr": 0.01,
        "weight_decay": 0.0, "objective": None, "hardness_scale": "batch-max",
        "contrast": "local-global", "augmentations": None, "strength": None, "encoder": "gin",
        "layers": 3, "dim": 32, "readout": "sum", "features": "auto", "standardise": True,
        "folds": 10, "jk": "cat", "edge_labels": False, "virtual_node": False, "encodings": None,
        "probe": "svm", "kernel": "rbf", "c_grid": None, "train_share": 1.0,
    },
    "images": _COMMON
    | {
        "dataset": "digits", "protocol": "split", "batch_size": 256, "lr": 0.001,
        "weight_decay": 1e-6, "positives": None, "class_pairs": False, "balanced": False,
        "encoder": "resnet50", "width": None, "stem": "auto", "size": None,
        "pretrain_split": "train", "probe_split": "train", "subset": None, "classes": None,
        "label_noise": 0.0, "crop": 0.08, "flip": None, "jitter": 0.4, "grayscale": 0.2,
        "blur": 0.5, "noise": 0.0, "forward": "fused", "precision": "fp32", "channels_last": True,
        "compile": False, "accumulate": 1, "negatives": "local", "probe": "adam",
        "probe_lr": (0.0001, 0.001, 0.01), "probe_weight_decay": 1e-6, "probe_epochs": 100,
        "probe_batch_size": 512,
    },
}  # fmt: skip
"""What schema 2 left out of a key, by domain; where a default had changed, the first one."""


def schema2(domain: str, values: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """What the key of a result is a digest of.

    Args:
        domain: domain of the settings.
        values: all of them, resolved.
        stated: those that differ from their first defaults given the rest; settings added since
            count only if they do.
    """
    usual = DEFAULTS.get(domain, {})
    found = {name: value for name, value in values.items() if value != usual.get(name, ...)}
    if values.get("hardness_scale") is None:  # it does not apply, as it never did
        found.pop("hardness_scale", None)
    return {name: value for name, value in found.items() if name in usual or name in stated}
