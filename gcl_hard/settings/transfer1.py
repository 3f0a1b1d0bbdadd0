"""Results of the store that transfer had of its own, and their names: frozen, for they name files.

They are read as records of today; see ``RunConfig.earlier``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from gcl_hard.io import packed

FILES = ("transfer.jsonl", "transfer.jsonl.gz")
"""Names of the compact form, the older first."""
SHARED = ("test", "y", "cliffs", "sizes", "versions", "device", "finetuning")
"""Fields of the compact form that many results have in common."""
SCHEMA = 1
"""Schema of a single file."""
_FIXED = ("ecfp", "wl", "counts")
_CHIRALITY = "-chirality"
_TUNED = (
    "method", "beta", "similarity", "neighbours", "epochs", "lr", "batch_size", "temperature",
    "augmentations", "strength", "label_gap",
)  # fmt: skip


def knows(row: Mapping[str, Any]) -> bool:
    """Whether a result is one of these."""
    return isinstance(row.get("identity"), dict) and "embedding" in row


def stem(values: Mapping[str, Any], seed: int) -> str:
    """The stem of a result's file.

    Args:
        values: every setting of molecules.
        seed: seed of the run.
    """
    fixed = values["method"] in _FIXED
    frozen = fixed or values["method"] == "untrained"
    encoder, split = values["encoder"], values["split"] or "scaffold"
    name, _, digest = values["dataset"].partition("@")
    _, _, shape = encoder.partition("untrained:")
    words = ["untrained", *(one.replace("=", " ") for one in shape.split("+") if one)]
    known = encoder.partition("@")[2] or " ".join(words)
    joined = [*(values["joined"] or ())]
    parts = [values["method"] if fixed else known, *joined]
    label = values["method"] if fixed else "untrained"
    if "@" in encoder and not fixed:
        label = PurePosixPath(encoder.partition("@")[0]).stem
    tuned = None if frozen else {one: values[one] for one in _TUNED}
    if tuned is not None:
        tuned["beta"] = 1.0 if tuned["beta"] is None else tuned["beta"]
        tuned["temperature"] = tuned["temperature"] or 0.5
        if not tuned["neighbours"]:
            del tuned["neighbours"]
    identity = {
        "dataset": f"{name} {digest}" if digest else name, "embedding": "+".join(parts),
        "finetuning": tuned, "split": split.removesuffix(_CHIRALITY), "seed": seed,
    }  # fmt: skip
    if split != "given" and not split.endswith(_CHIRALITY):
        identity["chirality"] = False  # before there was a choice, all splits kept it
    identity |= {"train_share": values["train_share"]} if values["train_share"] != 1 else {}
    identity |= {one: values[one] for one in ("targets", "probe") if values[one] is not None}
    text = json.dumps(identity, sort_keys=True)
    of_key = hashlib.sha256(text.encode()).hexdigest()[:10]
    method = "none" if frozen else values["method"]
    return f"{name}_{'+'.join([label, *joined])}_{method}_{identity['split']}_{of_key}_seed{seed}"


def settings(row: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a result, as far as they are not as usual."""
    identity = row["identity"]
    tuned, split = identity["finetuning"], identity["split"]
    found: dict[str, Any] = {"joined": []}
    for part, name in zip(identity["embedding"].split("+"), row["embedding"].split("+"),
                          strict=True):  # fmt: skip
        if part in _FIXED:
            found["joined"].append(part)
        elif part.partition(" ")[0] == "untrained":
            words = part.split(" ")[1:]
            shape = [f"{a}={b}" for a, b in zip(words[::2], words[1::2], strict=True)]
            found["encoder"] = ":".join(["untrained", *["+".join(shape)] * bool(shape)])
        else:
            found["encoder"] = f"{PurePosixPath(name).name}@{part}"
    if tuned is not None:
        found |= {one: tuned[one] for one in _TUNED if one in tuned}
    else:
        found["method"] = "untrained" if "encoder" in found else found["joined"].pop(0)
    name, _, digest = identity["dataset"].rpartition(" ")
    chirality = split != "given" and identity.get("chirality") is not False
    found |= {one: identity[one] for one in ("train_share", "targets", "probe") if one in identity}
    return found | {
        "dataset": f"{name}@{digest}" if name else digest,
        "split": split + _CHIRALITY * chirality,
    }


def record(row: Mapping[str, Any]) -> dict[str, Any]:
    """A result as a record of today, but for its settings; its scores are those it was given."""
    score, y = row["score"], np.array(row["y"], np.float64)
    n, classes = len(row["test"]), "auc" in row["score"]
    known = np.isfinite(y)
    predictions = np.array(row["predictions"], np.float64)
    if len(predictions) == y.size:  # version 0.2.0 kept those of unknown targets, too
        predictions = predictions[known]
    test: dict[str, Any] = {"sizes": [n], "items": packed(row["test"]), "targets": packed(y)}
    if y.size > n:
        test["width"] = y.size // n
    if row.get("cliffs") is not None:
        test["masks"] = {"cliffs": packed(row["cliffs"])}
    validation = row.get("validation")
    data = {"kind": row["kind"], "tasks": row.get("tasks"), "invalid": row.get("invalid", 0),
            "sizes": row["sizes"], "split": settings(row)["split"],
            "probe": row["identity"].get("probe"), "pretrained": row.get("pretrained"),
            "one_class": score.get("one_class"), "few": score.get("few")}  # fmt: skip
    metrics = [one for one in ("auc", "rmse", "cliff_rmse") if one in score]
    return {
        "seed": row["seed"],
        "domain": "molecules",
        "scores": {one: [score[one]] for one in metrics},
        "metric": metrics[0],
        "validation": [] if validation is None else [validation * (100 if classes else 1)],
        "seconds_train": row["seconds"],
        "seconds_eval": 0.0,
        "data": {name: value for name, value in data.items() if value is not None},
        "device": row["device"],
        "versions": row["versions"],
        "finished": row["finished"],
        "test": test,
        "predicted": packed(predictions),
        "migrated": SCHEMA,
    }
