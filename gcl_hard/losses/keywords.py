"""Typed keyword arguments, made of the declared settings.

Written by ``python -m tests.losses.test_keywords > gcl_hard/losses/keywords.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict

from gcl_hard.functional.pool import HardPositives
from gcl_hard.functional.schedules import Schedule


class LossOptions(TypedDict, total=False):
    """Arguments of :class:`ContrastiveLoss` that a method does not decide."""

    temperature: float | None
    objective: Literal["infonce", "jsd"]
    pooling: Literal["logsumexp", "pair"]
    weight: Literal["kept", "others"] | float
    detach_weights: bool
    detach_candidates: bool
    reduction: Literal["anchors", "none", "pairs"] | None
    streaming: Literal["auto"] | bool
    hardness_scale: Literal["anchor", "batch-max", "cosine", "rank", "score"] | None
    negatives: Literal["gathered", "local"]
    unknown: int | None
    on_empty: Literal["raise", "skip"]


class OwnOptions(LossOptions, total=False):
    """Further options of :func:`contrastive_loss`."""

    auc: float | None
    hardness: float | None
    fit_after: float | None
    ring_inner: float | None
    ring_outer: Schedule | float | None
    epsilon: float | None
    hardest: int | None
    mixed: int | None
    mixed_with_anchor: int | None
    quota: float | None
    hard_positives: int | None


class MethodOptions(OwnOptions, total=False):
    """Options of :func:`contrastive_loss`, but ``seed``."""

    beta: Schedule | float
    threshold: Schedule | float | None
    class_prior: float | None
    positives: Literal["class", "hard", "view"] | HardPositives | None
    without: Sequence[str]


class SeededOptions(MethodOptions, total=False):
    """Options of :func:`contrastive_loss`."""

    seed: int


class SharedSettings(TypedDict, total=False):
    """Settings of a run that have one value."""

    contrast: Literal["local-global", "two-view"] | None
    objective: Literal["infonce", "jsd"] | None
    auc: float | None
    hardness: float | None
    fit_after: float | None
    ring_inner: float | None
    ring_outer: float | None
    epsilon: float | None
    hardest: int | None
    mixed: int | None
    mixed_with_anchor: int | None
    quota: float | None
    hard_positives: int | None
    class_prior: float | None
    detach_weights: bool
    lr_schedule: Literal["constant", "cosine"]
    weight_decay: float | None
    data_seed: int | None
    patience: int
    supervised_epochs: int | None
    supervised_lr: float | None
    augmentations: Callable[..., Any] | Sequence[str | Callable[..., Any]] | Sequence[str] | None
    strength: float | None
    layers: int | None
    dim: int
    readout: Literal["both", "mean", "sum"]
    features: str
    standardise: bool
    folds: int
    jk: Literal["cat", "last"]
    edge_labels: bool
    virtual_node: bool
    encodings: Sequence[str] | None
    probe: Literal["adam", "kernel", "linear", "logistic", "nystroem", "svm"] | None
    kernel: Literal["linear", "rbf", "rbf+wl", "rbf+wl-oa"]
    c_grid: Sequence[float] | None
    parts: int
    adaptive: bool
    neighbours: int | Sequence[int] | None
    activation: Literal["prelu", "relu"]
    dropout: float | None
    projection: int | None
    splits: int | None
    score: Literal["accuracy", "auc"] | None
    hops: Sequence[int] | None
    candidate_pool: Literal["all", "batch", "uniform"]
    rare: bool
    sparse: bool
    positives: Literal["class", "hard", "view"] | None
    class_pairs: bool
    balanced: bool
    crop: float
    flip: float | None
    jitter: float
    grayscale: float
    blur: float
    noise: float
    width: int | None
    stem: Literal["auto", "cifar", "imagenet"]
    size: int | None
    pretrain_split: str
    probe_split: str
    forward: Literal["fused", "split"]
    precision: Literal["bf16", "fp16", "fp32"]
    channels_last: bool
    compile: bool
    accumulate: int
    momentum_encoder: float | None
    queue: int | None
    negatives: Literal["gathered", "local"]
    probe_lr: Sequence[float]
    probe_weight_decay: float
    probe_epochs: int
    probe_batch_size: int
    label_gap: Sequence[float] | None
    targets: Sequence[str] | None


class RunSettings(SharedSettings, total=False):
    """Settings of a run."""

    hardness_scale: Literal["anchor", "batch-max", "cosine", "rank", "score"] | None
    beta: float | None
    threshold_start: float | None
    threshold_end: float | None
    lr: float | None
    epochs: int | None
    beta_changes: int
    without: str | None
    views: int | None
    temperature: float | None
    batch_size: int
    train_share: float
    reduction: Literal["anchors", "pairs"]
    drop_edges: float
    mask_columns: float
    second_drop_edges: float | None
    second_mask_columns: float | None
    anchors: int | None
    degrees: Literal["graph", "part"]
    known_labels: float
    split: str | None
    bias: float | None
    candidates: int | None
    n3: float
    classes: int | None
    label_noise: float
    similarity: float
    joined: Sequence[str] | None


class StudySettings(RunSettings, total=False):
    """Settings of :func:`study`."""

    protocol: str | None
    subset: int | None
    smiles: str | None


class PretrainSettings(RunSettings, total=False):
    """Settings of :func:`pretrain_encoder`."""

    pseudo_labels: Literal["scaffold"] | None
    log: Sequence[Literal["csv", "tensorboard", "wandb"]] | None


class EvaluateSettings(SharedSettings, total=False):
    """Settings of :func:`evaluate`; of some several values are compared."""

    hardness_scale: (
        Literal["anchor", "batch-max", "cosine", "rank", "score"]
        | Sequence[Literal["anchor", "batch-max", "cosine", "rank"]]
        | Sequence[Literal["anchor", "rank", "score"]]
        | None
    )
    beta: float | Sequence[float] | None
    threshold_start: float | Sequence[float] | None
    threshold_end: float | Sequence[float] | None
    lr: float | Sequence[float] | None
    epochs: int | Sequence[int] | None
    beta_changes: int | Sequence[int]
    without: str | Sequence[str] | None
    views: int | Sequence[int] | None
    temperature: float | Sequence[float] | None
    batch_size: int | Sequence[int]
    train_share: float | Sequence[float]
    reduction: Literal["anchors", "pairs"] | Sequence[Literal["anchors", "pairs"]]
    drop_edges: float | Sequence[float]
    mask_columns: float | Sequence[float]
    second_drop_edges: float | Sequence[float] | None
    second_mask_columns: float | Sequence[float] | None
    anchors: int | Sequence[int] | None
    degrees: Literal["graph", "part"] | Sequence[Literal["graph", "part"]]
    known_labels: float | Sequence[float]
    split: str | Sequence[str] | None
    bias: float | Sequence[float] | None
    candidates: int | Sequence[int] | None
    n3: float | Sequence[float]
    subset: int | None
    classes: int | Sequence[int] | None
    label_noise: float | Sequence[float]
    similarity: float | Sequence[float]
    smiles: str | None
    joined: Sequence[Sequence[str]] | Sequence[str] | None


class OptimisationOptions(TypedDict, total=False):
    """Arguments of :class:`Optimisation`."""

    epochs: int
    lr: float
    weight_decay: float
    lr_schedule: Any
    precision: Literal["16-mixed", "32-true", "64-true", "bf16-mixed"]
    accumulate: int
    optimiser: Any
    parts: int
