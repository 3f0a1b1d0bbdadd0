"""Configurations: what is refused, what counts as the same experiment, what names its files."""

from __future__ import annotations

import json
import math
import re
import string
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gcl_hard.commands.bench import parse_bench
from gcl_hard.core.setting import declared
from gcl_hard.errors import InputError
from gcl_hard.experiments.domains import from_dict
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import OwnTraining, RunConfig, defaults
from gcl_hard.functional.hardening import Exponential, Hardening, Threshold
from gcl_hard.graphs import GraphSet
from gcl_hard.graphs.experiment import GraphExperiment
from gcl_hard.graphs.settings import GRAPH_BASELINES, GraphConfig
from gcl_hard.images import stem_for
from gcl_hard.images.settings import IMAGE_BASELINES, ImageConfig
from gcl_hard.losses.methods import METHODS
from tests.experiments import small
from tests.experiments.made import context, go_on

ROOT = Path(__file__).parents[2]

Settings = dict[str, Any]
TWO_VIEW: Settings = {"contrast": "two-view"}
TAU: Settings = {"method": "hscl-tau"}
SPACL: Settings = {"method": "spacl"}
OF_ONE: dict[str, tuple[Settings, Any]] = {
    "auc": ({"method": "bcl"}, 0.7),
    "hardness": ({"method": "bcl"}, 0.8),
    "fit_after": ({"method": "progcl"}, 0.5),
    "quota": (SPACL, 0.8),
    "hard_positives": (SPACL, 3),
    "without": (SPACL, "anchor"),
    "ring_inner": ({"method": "ring"}, 0.02),
    "ring_outer": ({"method": "ring"}, 0.2),
    "epsilon": ({"method": "ot"}, 0.3),
    "hardest": ({"method": "mochi"}, 9),
    "mixed": ({"method": "mochi"}, 8),
    "mixed_with_anchor": ({"method": "mochi"}, 7),
    "views": (SPACL, 5),
}
"""Settings of some methods alone."""
CHANGED_LOSS: dict[str, tuple[Settings, Any]] = {
    "beta": ({}, 2.0),
    "beta_changes": ({}, 4),
    "threshold_start": (TAU, -0.25),
    "threshold_end": (TAU, -0.05),
    "class_prior": ({"method": "dcl"}, 0.2),
    **OF_ONE,
    "detach_weights": ({}, True),
    "epochs": ({}, 100),
    "batch_size": ({}, 64),
    "lr_schedule": ({}, "cosine"),
    "weight_decay": ({}, 1e-4),
    "data_seed": ({}, 1),
}
CHANGED_OWN_TRAINING: dict[str, tuple[Settings, Any]] = {
    "patience": ({"method": "supervised"}, 5),
    "supervised_epochs": ({"method": "supervised"}, 7),
    "supervised_lr": ({"method": "supervised"}, 0.5),
}
THRESHOLDS = ("threshold_start", "threshold_end")
COSINE: Settings = {"hardness_scale": "cosine"}
CHANGED_GRAPHS: dict[str, tuple[Settings, Any]] = {
    **CHANGED_LOSS,
    "dataset": ({}, "PTC_MR"),
    "method": ({}, "hucl"),
    "protocol": ({}, "inductive"),
    "temperature": ({"objective": "infonce"}, 0.2),
    "objective": ({}, "infonce"),
    "hardness_scale": ({}, "anchor"),
    "contrast": ({}, "two-view"),
    "augmentations": (TWO_VIEW, ("drop-nodes",)),
    "strength": (TWO_VIEW, 0.3),
    "lr": ({}, 0.001),
    "layers": ({}, 4),
    "dim": ({}, 64),
    "readout": ({}, "mean"),
    "features": ({}, "constant"),
    "standardise": ({}, False),
    "folds": ({}, 5),
    "jk": ({}, "last"),
    "edge_labels": ({}, True),
    "virtual_node": ({}, True),
    "encodings": ({}, ("degree",)),
    "encoder": ({}, "mine:Own"),
    "probe": ({}, "logistic"),
    "kernel": ({}, "rbf+wl"),
    "c_grid": ({}, (0.5, 2.0)),
    "train_share": ({"protocol": "inductive"}, 0.5),
    "parts": ({}, 2),
    **CHANGED_OWN_TRAINING,
}
CHANGED_IMAGES: dict[str, tuple[Settings, Any]] = {
    **CHANGED_LOSS,
    **CHANGED_OWN_TRAINING,
    "dataset": ({"flip": 0.0}, "CIFAR10"),
    "method": ({"positives": "class"}, "hucl"),
    "protocol": ({}, "unseen"),
    "shares": ({"protocol": "unseen"}, (0.6, 0.2, 0.2)),
    "temperature": ({}, 0.2),
    "lr": ({}, 0.01),
    "positives": ({}, "view"),
    "parts": ({}, 2),
    "momentum_encoder": ({}, 0.99),
    "queue": ({}, 512),
    "class_pairs": ({}, True),
    "balanced": ({}, True),
    "encoder": ({}, "resnet18"),
    "stem": ({}, "imagenet"),
    "size": ({}, 16),
    "pretrain_split": ({}, "train+unlabeled"),
    "probe_split": ({}, "extra"),
    "subset": ({}, 200),
    "width": ({}, 16),
    "classes": ({}, 5),
    "label_noise": ({}, 0.4),
    "crop": ({}, 0.2),
    "flip": ({}, 0.5),
    "jitter": ({}, 0.5),
    "grayscale": ({}, 0.1),
    "blur": ({}, 0.0),
    "noise": ({}, 0.1),
    "forward": ({}, "split"),
    "precision": ({}, "bf16"),
    "channels_last": ({}, False),
    "compile": ({}, True),
    "accumulate": ({}, 2),
    "negatives": ({}, "gathered"),
    "probe": ({}, "logistic"),
    "probe_lr": ({}, (0.001,)),
    "probe_weight_decay": ({}, 0.0),
    "probe_epochs": ({}, 10),
    "probe_batch_size": ({}, 64),
}
CHANGED: dict[type[RunConfig], dict[str, tuple[Settings, Any]]] = {
    GraphConfig: CHANGED_GRAPHS, ImageConfig: CHANGED_IMAGES,
}  # fmt: skip
"""Every setting: under which others it applies, and a value that is not its default."""
BOTH = pytest.mark.parametrize("kind", [GraphConfig, ImageConfig])


def stored(config: RunConfig) -> Settings:
    """As a result file has it."""
    settings: Settings = json.loads(json.dumps(asdict(config)))
    return settings


# Defaults


def test_small_images_have_the_stem_of_cifar() -> None:
    assert [stem_for(size) for size in (8, 32, 64, 65, 96, 224)] == ["cifar"] * 3 + ["imagenet"] * 3


@pytest.mark.parametrize(
    ("dataset", "flip"), [("digits", 0.0), ("Digits", 0.0), ("CIFAR10", 0.5), ("mine", 0.5)]
)
def test_digits_are_not_mirrored_unless_asked_for(dataset: str, flip: float) -> None:
    assert ImageConfig(dataset=dataset).flip == flip
    assert ImageConfig(dataset=dataset, flip=0.3).flip == 0.3


def test_paper_is_another_name_of_the_transductive_protocol() -> None:
    assert GraphConfig(protocol="paper") == GraphConfig()  # type: ignore[arg-type]
    assert from_dict({**stored(GraphConfig()), "protocol": "paper"}) == GraphConfig()
    assert GraphConfig(protocol="paper").key() == GraphConfig().key()  # type: ignore[arg-type]


# The same experiment, however it was asked for


@pytest.mark.parametrize(
    ("kind", "settings", "other"),
    [
        (GraphConfig, {}, {"objective": "jsd"}),
        (GraphConfig, {}, {"strength": 0.7, "augmentations": ("drop-nodes",)}),
        (GraphConfig, {"objective": "infonce"}, {"objective": "infonce", "temperature": 0.5}),
        (
            GraphConfig,
            TWO_VIEW,
            {
                **TWO_VIEW,
                "objective": "infonce",
                "temperature": 0.5,
                "augmentations": ("mask-attributes", "perturb-edges"),
                "strength": 0.2,
            },
        ),
        (GraphConfig, {}, {"encodings": (), "c_grid": ()}),
        (GraphConfig, {"c_grid": (1, 10)}, {"c_grid": (1.0, 10.0)}),
        (GraphConfig, {"method": "wl", "c_grid": [1, 10]}, {"method": "wl", "c_grid": (1.0, 10.0)}),
        (ImageConfig, {}, {"positives": "class", "temperature": 0.5, "flip": 0}),
        (ImageConfig, {"crop": 1.0}, {"crop": 1}),
        (ImageConfig, {"probe_lr": (0.1, 1.0)}, {"probe_lr": (1, 0.1, 0.1)}),
        (ImageConfig, {"probe": "logistic"}, {"probe": "logistic", "probe_lr": (1.0,)}),
        (ImageConfig, {"probe": "logistic"}, {"probe": "logistic", "probe_epochs": 3}),
        (ImageConfig, {"probe": "logistic"}, {"probe": "logistic", "probe_batch_size": 9}),
        (ImageConfig, {"probe": "logistic"}, {"probe": "logistic", "probe_weight_decay": 0.1}),
        (
            ImageConfig,
            {"method": "pixels", "probe_lr": (1.0,)},
            {"method": "pixels", "probe_lr": (1,)},
        ),
        (
            ImageConfig,
            {"method": "majority"},
            {"method": "majority", "probe": "logistic", "size": 9},
        ),
        *(
            (kind, settings, other)
            for kind in (GraphConfig, ImageConfig)
            for settings, other in (
                ({}, {"threshold_start": -1.0, "threshold_end": 1.0}),
                ({"method": "ucl"}, {"method": "UCL", "beta": 7.0, "beta_changes": 3}),
                ({"method": "dcl"}, {"method": "dcl", "class_prior": 0.1, "beta": None}),
                (TAU, {**TAU, "beta": 3.0, "threshold_end": 0.0}),
                ({"beta": 2.0}, {"beta": 2}),
                ({"lr": 1.0, "weight_decay": 1.0}, {"lr": 1, "weight_decay": 1}),
            )
        ),
    ],
)
def test_equal_settings_are_equal_configs_with_equal_keys(
    kind: type[RunConfig], settings: Settings, other: Settings
) -> None:
    assert kind(**settings) == kind(**other)
    assert kind(**settings).key() == kind(**other).key()


@BOTH
def test_every_setting_changes_the_key(kind: type[RunConfig]) -> None:
    changed = CHANGED[kind]
    assert set(changed) == {field.name for field in fields(kind)}
    keys = set()
    for name, (others, value) in changed.items():
        config = kind(**{**others, name: value})
        assert getattr(config, name) == value
        assert config.key() != kind(**others).key(), name
        keys.add(config.key())
    assert len(keys) == len(changed)


METHODS_AND_BASELINES = [
    *((GraphConfig, {"method": m, **more}) for m in METHODS for more in ({}, TWO_VIEW)),
    *((GraphConfig, {"method": m}) for m in GRAPH_BASELINES),
    *(
        (ImageConfig, {"method": m, **more})
        for m in (*METHODS, *IMAGE_BASELINES)
        for more in ({}, {"dataset": "CIFAR10", "probe_lr": (1, 0.1), "subset": 99})
    ),
]


@pytest.mark.parametrize(("kind", "settings"), METHODS_AND_BASELINES)
def test_a_config_survives_json_and_is_its_own_normal_form(
    kind: type[RunConfig], settings: Settings
) -> None:
    config = kind(**{"epochs": 7, **settings})
    again = from_dict(stored(config))
    assert type(again) is kind
    assert (again, again.key(), hash(again)) == (config, config.key(), hash(config))
    assert replace(config) == config
    left = {"method", "encoder", "epochs", "hardness_scale", *settings}
    for name in set(stored(config)) - left:  # as stored before the setting existed
        older = from_dict({k: v for k, v in stored(config).items() if k != name})
        assert (older, older.key()) == (config, config.key()), name


@given(
    method=st.sampled_from(["ucl", "hucl", "hscl", "hscl-tau"]),
    beta=st.floats(0, 100),
    threshold=st.floats(-1, 1),
    lr=st.floats(1e-6, 10),
    contrast=st.sampled_from(["local-global", "two-view"]),
    epochs=st.integers(1, 1000),
)
def test_any_numbers_survive_json(**settings: Any) -> None:
    settings["threshold_start"] = settings.pop("threshold")
    config = GraphConfig(**settings)
    again = from_dict(stored(config))
    assert (again, again.key(), replace(config)) == (config, config.key(), config)


def test_a_stored_config_with_a_setting_from_the_future_is_refused() -> None:
    with pytest.raises(InputError, match="colour, shape"):
        from_dict({**asdict(GraphConfig()), "shape": 1, "colour": 2})


def test_a_key_begins_readably_and_fits_into_a_file_name() -> None:
    key = GraphConfig(dataset="IMDB-BINARY", method="hscl-tau", protocol="inductive").key()
    assert key.startswith("IMDB-BINARY_hscl-tau_inductive_")
    assert set(key) <= set(string.ascii_letters + string.digits + "_-")


# What is refused


WRONG: dict[str, tuple[Any, ...]] = {
    "method": ("hslc",), "protocol": ("indcutive",), "contrast": ("two-veiw",),
    "objective": ("jds",), "hardness_scale": ("z-score",), "lr_schedule": ("cosin",),
    "readout": ("max",), "jk": ("lats",), "features": ("degree-onehto",), "kernel": ("rbf+wloa",),
    "encodings": (("cycels",), ("wl", "wl")),
    "positives": ("both",), "stem": ("small",), "pretrain_split": ("test",),
    "probe_split": ("test",), "forward": ("both",), "precision": ("fp8",), "negatives": ("all",),
    "probe": ("svm+",), "without": ("filtre", "anchor+x"),
    "beta": (-1.0,), "beta_changes": (-1,), "temperature": (0.0,), "class_prior": (1.0,),
    "threshold_start": (1.5,), "threshold_end": (-1.01,), "epochs": (0,), "batch_size": (1,),
    "lr": (0.0,), "weight_decay": (-0.1,), "data_seed": (-1,), "parts": (0,), "views": (1,),
    "auc": (0.3,), "hardness": (1.2,), "fit_after": (1.0,), "quota": (0.0, 1.1),
    "hard_positives": (1,), "ring_inner": (0.5,), "ring_outer": (1.1,), "epsilon": (0.0,),
    "hardest": (0,), "mixed": (-1,), "mixed_with_anchor": (-1,), "patience": (-1,),
    "supervised_epochs": (0,), "supervised_lr": (0.0,), "layers": (0,), "dim": (0,), "folds": (1,),
    "strength": (1.0,), "c_grid": ((1.0, 0.0), (math.nan,), (math.inf,)),
    "shares": ((0.5, 0.5), (0.5, 0.5, 0.5)),
    "train_share": (0.0, 1.5), "size": (3,), "subset": (3,), "width": (0,), "classes": (1,),
    "label_noise": (-0.1, 1.0), "crop": (0.0, 1.1), "flip": (-0.1, 1.1), "jitter": (-0.1, 2.1),
    "grayscale": (1.1,), "blur": (-0.1,), "noise": (-0.1,), "accumulate": (0,),
    "momentum_encoder": (-0.1, 1.0), "queue": (0,), "encoder": ("resnet34",),
    "probe_lr": ((), (0.1, 0.0), (math.inf,)), "probe_weight_decay": (-0.1,),
    "probe_epochs": (0,), "probe_batch_size": (0,),
}  # fmt: skip
"""Values that mean nothing, whatever the other settings."""
SWITCHES = {
    "augmentations", "dataset", "detach_weights", "standardise", "edge_labels", "virtual_node",
    "class_pairs", "balanced", "channels_last", "compile",
}  # fmt: skip
"""Settings without a value of their type that means nothing."""


@BOTH
def test_a_value_that_means_nothing_is_refused_by_name(kind: type[RunConfig]) -> None:
    """Where the setting applies, and out of bounds also where it does not."""
    names = {field.name for field in fields(kind)}
    assert names <= {*WRONG, *SWITCHES}
    for name in sorted(names & {*WRONG}):
        settings = {**(TAU if name in THRESHOLDS else {}), **CHANGED[kind].get(name, ({}, None))[0]}
        scale = COSINE if name in THRESHOLDS and kind is GraphConfig else {}
        for value in WRONG[name]:
            with pytest.raises(InputError) as caught:
                kind(**{**scale, **settings, name: value})
            words = value.split("+") if isinstance(value, str) else ()
            named = re.search(name.rstrip("s").replace("_", "[-_. ]"), str(caught.value))
            assert named or any(f"{word!r}" in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.5}, "JSD .*temperature"),
        *(
            ({"method": name, "class_prior": 0.1}, rf"class prior 0\.1 \D*\blabel-aware {name}:")
            for name in ("scl", "hscl", "hscl-tau")
        ),
        ({"method": "ucl", "class_prior": 0.1}, r"class prior 0\.1 \D*\bucl:.*\bdcl, hcl, bcl"),
        ({"method": "ucl", "beta": -1.0}, r"^beta\D+0\D+-1\.0$"),  # ucl has no use for it
        ({**TWO_VIEW, "threshold_start": 1.5}, r"^threshold-start\b.* 1\.5$"),
        ({"train_share": 0.5}, "^train-share .*transductive.*protocol inductive"),
        ({"method": "majority", "folds": 1}, r"^folds\D+2\D+1$"),
        ({"method": "untrained", "dim": 0}, r"^dim\D+1\D+0$"),
        ({"method": "supervised", "lr": 0.0}, r"^lr\D+0\D+0\.0$"),
        ({"method": "wl", "features": "degree-onehto"}, "'degree-onehto'[^,]*degree-onehot"),
        ({"method": "majorty"}, r"method 'majorty'[^,]*\bmajority\b"),
        ({**TWO_VIEW, "augmentations": ("drop-node",)}, "'drop-node'[^,]*drop-nodes"),
        ({**SPACL, "views": 2, "hard_positives": 3}, "hard-positives 3.*views 2"),
    ],
)
def test_a_combination_that_means_nothing_is_refused(settings: Settings, message: str) -> None:
    with pytest.raises(InputError, match=message):
        GraphConfig(**settings)


def numbers(kind: type[RunConfig]) -> Iterator[str]:
    """Settings that are one number with a fraction."""
    values = {**defaults(kind), **{name: value for name, (_, value) in CHANGED[kind].items()}}
    yield from (name for name, value in values.items() if isinstance(value, float))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@BOTH
def test_no_number_may_be_nan_or_infinite(kind: type[RunConfig], value: float) -> None:
    names = [*numbers(kind)]
    assert {"beta", "temperature", "class_prior", "lr", "weight_decay"} <= {*names}
    for name in names:
        with pytest.raises(InputError, match=rf"^{name.replace('_', '-')}\b.*finite.* {value}$"):
            kind(**{name: value})


# What the settings make


def hardening_at(config: RunConfig, epoch: int) -> Hardening:
    loss = config.loss()
    loss.set_epoch(epoch, config.epochs)
    return loss.sampler.current


@BOTH
def test_the_threshold_runs_from_start_to_end_over_the_epochs(kind: type[RunConfig]) -> None:
    config = kind(**TAU, threshold_start=-0.4, threshold_end=0.2, epochs=3)
    for epoch, expected in ((1, -0.4), (2, -0.1), (3, 0.2)):
        now = hardening_at(config, epoch)
        assert isinstance(now, Threshold)
        assert now.cosine == pytest.approx(expected)


@BOTH
def test_beta_is_constant_unless_it_is_annealed(kind: type[RunConfig]) -> None:
    for changes, expected in ((0, [4.0, 4.0, 4.0, 4.0]), (2, [4.0, 2.0, 2.0, 0.0])):
        config = kind(method="hscl", beta=4.0, beta_changes=changes, epochs=4)
        now = [hardening_at(config, epoch) for epoch in (1, 2, 3, 4)]
        assert [getattr(h, "beta", None) for h in now] == expected
        assert isinstance(now[0], Exponential)


@pytest.mark.parametrize("method", METHODS)
def test_positives_of_images_are_of_the_class_where_labels_are_read(method: str) -> None:
    row = METHODS[method]
    label_aware, usual = row.admit == "other_labels", row.positives
    config = ImageConfig(method=method)
    assert config.positives == usual
    assert config.loss().takes_items == (usual == "hard")
    assert config.reads_labels == label_aware
    assert ImageConfig(method=method, positives="view").positives == "view"
    assert ImageConfig(method=method, positives="view").reads_labels == label_aware
    assert ImageConfig(method=method, positives="class").reads_labels
    assert ImageConfig(method=method, class_pairs=True).reads_labels
    assert ImageConfig(method=method, balanced=True).reads_labels


def test_encoder_config_leaves_out_what_only_the_svm_sees() -> None:
    config = small(
        contrast="two-view", kernel="linear", standardise=False, c_grid=(1.0,), virtual_node=True
    )
    assert config.encoder_config == small(contrast="two-view", virtual_node=True)
    assert Run(config, 3, inner=True).training == Run(config.encoder_config, 3, inner=True)
    names = set(defaults(GraphConfig)) - {"kernel", "standardise", "c_grid"}
    assert all(getattr(config, name) == getattr(config.encoder_config, name) for name in names)


@pytest.mark.parametrize(
    ("dataset", "kept"),
    [("MUTAG", True), ("PTC_MR", True), ("PROTEINS", True), ("ENZYMES", False),
     ("IMDB-MULTI", False)],
)  # fmt: skip
def test_edge_labels_train_apart_unless_a_set_is_known_to_have_none(
    dataset: str, kept: bool
) -> None:
    with_edges, without = (small(dataset=dataset, edge_labels=read) for read in (True, False))
    assert (with_edges.encoder_config != without.encoder_config) is kept
    assert (with_edges.group_key != without.group_key) is kept


def test_what_trains_together_shares_data_shapes_views_and_batches() -> None:
    key = small().group_key
    assert key is not None
    for alike in ({"method": "ucl"}, {"lr": 0.1}, {"epochs": 9}, {"beta": 3.0}, {"c_grid": (1.0,)}):
        assert small(**alike).group_key == key
    for other in ({"dim": 5}, {"batch_size": 32}, {"data_seed": 1}, {"features": "constant"},
                  {"protocol": "inductive"}, {"contrast": "two-view"}, {"dataset": "PTC_MR"},
                  {"method": "supervised"}):  # fmt: skip
        assert small(**other).group_key != key
    assert small(objective="infonce").group_key is None
    assert small(parts=2).group_key is None
    assert small("untrained").group_key is None
    assert ImageConfig().group_key is None


# Baselines: what one reads tells its configurations apart, and nothing else does

GIN = {"encodings", "layers", "dim", "readout", "jk", "edge_labels", "virtual_node"}
OPTIMISATION = {
    "epochs", "lr", "lr_schedule", "weight_decay", "supervised_epochs", "supervised_lr",
}  # fmt: skip
READ: dict[str, set[str]] = {
    "majority": set(),
    "graph-size": {"standardise", "c_grid", "train_share"},
    "label-histogram": {"features", "standardise", "c_grid", "train_share"},
    "wl": {"features", "c_grid", "train_share"},
    "wl-oa": {"features", "c_grid", "train_share"},
    "untrained": {
        "features", "standardise", "probe", "kernel", "c_grid", "train_share", "encoder", *GIN,
    },
    "supervised": {
        "features", "batch_size", "data_seed", "train_share", "encoder", "patience", *GIN,
        *OPTIMISATION,
    },
}  # fmt: skip
"""What each baseline on graphs is made from, beside data set and folds."""
OTHER: Settings = {
    name: value
    for name, (_, value) in CHANGED_GRAPHS.items()
    if name not in ("method", "protocol", "encoder", "probe")
}
"""All settings, but those that others exclude."""
PROBE = {"probe", "probe_lr", "probe_weight_decay", "probe_epochs", "probe_batch_size"}
IMAGES_READ = {
    "majority": {"dataset", "protocol", "probe_split", "subset", "classes"},
    "pixels": {"dataset", "protocol", "probe_split", "subset", "classes", "size", *PROBE},
}
IMAGES_READ["untrained"] = IMAGES_READ["pixels"] | {
    "encoder", "width", "stem", "precision", "channels_last", "pretrain_split",
}  # fmt: skip
IMAGES_READ["supervised"] = IMAGES_READ["untrained"] | {
    "epochs", "batch_size", "lr", "lr_schedule", "weight_decay", "data_seed", "label_noise",
    "balanced", "crop", "flip", "jitter", "grayscale", "blur", "noise", "forward", "compile",
    "accumulate", "patience", "supervised_epochs", "supervised_lr",
}  # fmt: skip


def baseline(name: str, **settings: Any) -> GraphConfig:
    return GraphConfig(**{"method": name, **settings})


class Spy:
    """A configuration that remembers which settings were read."""

    def __init__(self, config: GraphConfig) -> None:
        self.config, self.read = config, set[str]()

    def __getattr__(self, name: str) -> Any:
        self.read |= OPTIMISATION if name == "optimisation" else {name}
        return getattr(self.config, name)

    def __hash__(self) -> int:
        return hash(self.config)


def small_set() -> GraphSet:
    """24 graphs of two classes: edges, and paths of three nodes."""
    graphs = []
    for i in range(24):
        pairs = [(0, 1), (1, 0)] + [(1, 2), (2, 1)] * (i % 2)
        x = torch.eye(3)[: 2 + i % 2]
        edges = torch.tensor(pairs).T
        graphs.append(
            SimpleNamespace(x=x, edge_index=edges, edge_attr=None, y=i % 2, num_nodes=len(x))
        )
    return GraphSet.from_graphs(graphs)


@pytest.mark.parametrize("name", READ)
def test_running_a_baseline_reads_what_is_said_here(name: str, tmp_path: Path) -> None:
    """So that the tests below stand on what happens; columns are read where sets are loaded."""
    spy = Spy(baseline(name, folds=2, epochs=1, layers=1, dim=4))
    experiment, graphs = GraphExperiment(), small_set()
    run = Run(spy, 0)  # type: ignore[arg-type]
    spy.encoder_config = spy  # type: ignore[attr-defined]
    (trained,) = experiment.train([run], graphs, context(tmp_path), go_on)
    if trained.scores is None:
        experiment.score(trained, graphs, context(tmp_path))
    settings = {field.name for field in fields(GraphConfig)}
    # Threads go by the size of a batch; a majority has its whole folds; parts are always 1.
    always = {"method", "folds", "batch_size", "dim", "layers", "parts"}
    always |= {"train_share"} if name == "majority" else set()
    assert spy.read & settings - always == READ[name] - {"features", "encodings"} - always


def test_the_tables_of_baselines_are_whole() -> None:
    apart = {"method", "protocol", "encoder", "probe"}
    assert set(OTHER) == {field.name for field in fields(GraphConfig)} - apart
    assert set(READ) == set(GRAPH_BASELINES)
    assert set(IMAGES_READ) == set(IMAGE_BASELINES)
    assert not {*GRAPH_BASELINES, *IMAGE_BASELINES} & set(METHODS)


@pytest.mark.parametrize("name", READ)
def test_exactly_what_a_baseline_reads_makes_another_config_of_it(name: str) -> None:
    plain = baseline(name)
    for setting, value in OTHER.items():
        changed = baseline(name, **{setting: value})
        read = setting in {"dataset", "folds", *READ[name]}
        assert (changed != plain) == read, setting
        assert (changed.key() != plain.key()) == read, setting
        assert (getattr(changed, setting) == value) == read, setting


@pytest.mark.parametrize("name", IMAGES_READ)
def test_exactly_what_a_baseline_on_images_reads_makes_another_config_of_it(name: str) -> None:
    plain = ImageConfig(method=name)
    trained = name == "supervised"
    assert (plain.encoders, plain.n_scores, experiment_of(plain).can_select(plain)) == (
        trained,
        1,
        trained,
    )
    kept = {
        setting
        for setting, (_, value) in CHANGED_IMAGES.items()
        if setting != "method"
        and ImageConfig(**{"method": name, setting: value}).key() != plain.key()
    }
    assert kept == IMAGES_READ[name]


@pytest.mark.parametrize("name", READ)
def test_a_baseline_is_inductive_and_has_nothing_of_a_contrastive_loss(name: str) -> None:
    config = baseline(name, **OTHER, protocol="transductive")
    assert config == baseline(name, **OTHER, protocol="inductive")
    assert config.key().startswith(f"PTC_MR_{name}_inductive_")
    for setting in ("beta", "threshold_start", "threshold_end", "temperature", "class_prior",
                    "objective", "augmentations", "strength"):  # fmt: skip
        assert getattr(config, setting) is None, setting
    loss = (config.beta_changes, config.contrast, config.detach_weights)
    assert loss == (0, "local-global", False)
    assert "β" not in str(config)
    for spelling in (name.upper(), name.title()):
        assert baseline(spelling, **OTHER) == config
        assert baseline(spelling).is_baseline


def test_only_supervised_trains_encoders_one_for_every_fold() -> None:
    counts = {name: baseline(name, folds=4).encoders for name in READ}
    assert counts == {**dict.fromkeys(READ, 0), "supervised": 4}
    assert GraphConfig(folds=4).encoders == 1
    assert GraphConfig(folds=4, protocol="inductive").encoders == 4
    assert not GraphConfig().is_baseline


# The files in configs/

GRAPH_FILES = sorted(
    path for path in (ROOT / "configs" / "graphs").rglob("*.yaml") if path.parent.name != "best"
)
IMAGE_FILES = sorted((ROOT / "configs" / "images").glob("*.yaml"))
OF_THE_PAPER = [path for path in IMAGE_FILES if path.stem != "digits"]


@pytest.mark.parametrize("path", [*GRAPH_FILES, *IMAGE_FILES], ids=lambda path: path.stem)
def test_a_file_states_every_setting_and_can_be_run(path: Path) -> None:
    stated = yaml.safe_load(path.read_text(encoding="utf-8"))
    configs = parse_bench(["--config", str(path)]).configs
    assert {type(config) for config in configs} <= {GraphConfig, ImageConfig}
    of_some = {*OF_ONE, *declared(OwnTraining), "shares"}
    assert {field.name for field in fields(configs[0])} - of_some <= set(stated)


def test_there_is_a_file_for_every_image_set() -> None:
    sets = {"cifar10", "cifar100", "stl10", "tinyimagenet", "digits"}
    assert {path.stem for path in IMAGE_FILES} == sets
    for path in IMAGE_FILES:
        configs = parse_bench(["--config", str(path)]).configs
        assert {config.dataset.casefold() for config in configs} == {path.stem}


@pytest.mark.parametrize("path", OF_THE_PAPER, ids=lambda path: path.stem)
def test_a_file_of_the_papers_images_has_its_values(path: Path) -> None:
    options = parse_bench(["--config", str(path)])
    assert options.select is True
    assert len(options.seeds) == (5 if path.stem == "stl10" else 1)
    configs = [config for config in options.configs if isinstance(config, ImageConfig)]
    for config in configs:
        training = (
            config.epochs,
            config.batch_size,
            config.lr,
            config.weight_decay,
            config.temperature,
        )
        assert training == (200, 256, 1e-3, 1e-6, 0.5)
        parts = (config.encoder, config.pretrain_split, config.probe_split)
        assert parts == ("resnet50", "train", "train")
        assert config.stem == "cifar" or (config.stem == "auto" and config.size is None)
        assert not config.detach_weights
        assert config.positives == ("class" if "scl" in config.method else "view")
    betas = [(config.method, config.beta) for config in configs if config.beta is not None]
    assert betas == [(m, b) for m in ("hucl", "hscl") for b in (0.1, 0.5, 1.0, 2.0, 5.0)]
    tau = {(c.threshold_start, c.threshold_end) for c in configs if c.method == "hscl-tau"}
    assert tau == {(start, end) for start in (-0.5, -0.3, -0.1) for end in (-0.1, 0.0, 0.1)}
    methods = list(dict.fromkeys(config.method for config in configs))
    assert methods == ["ucl", "hucl", "scl", "hscl", "hscl-tau"]
