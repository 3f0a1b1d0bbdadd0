"""Settings of a cell on images: the paper's, one form for one experiment, all bad values named."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gcl_hard.errors import InputError
from gcl_hard.experiments.cells import from_dict
from gcl_hard.experiments.image_cell import FLOORS, ImageCell
from gcl_hard.experiments.options import parse_bench
from gcl_hard.functional.hardening import Threshold
from gcl_hard.images import stem_for
from gcl_hard.methods import METHODS

CONFIGS = Path(__file__).parents[2] / "configs" / "images"
OF_THE_PAPER = ("cifar10", "cifar100", "stl10", "tinyimagenet")

TAU = {"method": "hscl-tau"}
CHANGED: dict[str, tuple[dict[str, Any], Any]] = {
    "dataset": ({"flip": 0.0}, "CIFAR10"),
    "method": ({"positives": "class"}, "hucl"),
    "beta": ({}, 2.0),
    "beta_changes": ({}, 4),
    "threshold_start": (TAU, -0.25),
    "threshold_end": (TAU, -0.05),
    "temperature": ({}, 0.2),
    "class_prior": ({"method": "dcl"}, 0.2),
    "detach_weights": ({}, True),
    "epochs": ({}, 100),
    "batch_size": ({}, 64),
    "lr": ({}, 0.01),
    "lr_schedule": ({}, "cosine"),
    "weight_decay": ({}, 1e-4),
    "data_seed": ({}, 1),
    "positives": ({}, "view"),
    "class_pairs": ({}, True),
    "balanced": ({}, True),
    "encoder": ({}, "resnet18"),
    "stem": ({}, "imagenet"),
    "size": ({}, 16),
    "pretrain_split": ({}, "train+unlabeled"),
    "probe_split": ({}, "extra"),
    "subset": ({}, 200),
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
    "probe": ({}, "logistic"),
    "probe_lr": ({}, (0.001,)),
    "probe_weight_decay": ({}, 0.0),
    "probe_epochs": ({}, 10),
    "probe_batch_size": ({}, 64),
}
"""Every setting but the one protocol: under which others it applies, and another value."""


# The paper's


def test_defaults_are_the_papers() -> None:
    cell = ImageCell()
    assert (cell.dataset, cell.method, cell.protocol, cell.beta) == ("digits", "hscl", "split", 1.0)
    assert (cell.epochs, cell.batch_size, cell.lr, cell.weight_decay) == (200, 256, 1e-3, 1e-6)
    assert (cell.temperature, cell.detach_weights, cell.class_pairs) == (0.5, False, False)
    assert (cell.encoder, cell.stem, cell.lr_schedule) == ("resnet50", "auto", "constant")
    assert (cell.pretrain_split, cell.probe_split, cell.subset) == ("train", "train", None)
    adam = (cell.probe, cell.probe_weight_decay, cell.probe_epochs, cell.probe_batch_size)
    assert adam == ("adam", 1e-6, 100, 512)
    assert 1e-3 in cell.probe_lr
    assert cell.loss().objective == "infonce"


def test_small_images_have_the_stem_of_cifar() -> None:
    assert [stem_for(size) for size in (8, 32, 64, 65, 96, 224)] == ["cifar"] * 3 + ["imagenet"] * 3


@pytest.mark.parametrize("method", METHODS)
def test_positives_are_of_the_class_where_labels_are_read(method: str) -> None:
    label_aware = method in {"scl", "hscl", "hscl-tau"}
    cell = ImageCell(method=method)
    assert cell.positives == ("class" if label_aware else "view")
    assert cell.loss().positives == cell.positives
    assert cell.reads_labels == label_aware
    assert ImageCell(method=method, positives="view").positives == "view"
    assert ImageCell(method=method, positives="view").reads_labels == label_aware
    assert ImageCell(method=method, positives="class").reads_labels
    assert ImageCell(method=method, class_pairs=True).reads_labels
    assert ImageCell(method=method, balanced=True).reads_labels


def test_the_threshold_runs_from_start_to_end_over_the_epochs() -> None:
    loss = ImageCell(**TAU, threshold_start=-0.3, threshold_end=0.1, epochs=3).loss()
    for epoch, expected in ((1, -0.3), (2, -0.1), (3, 0.1)):
        loss.set_epoch(epoch, 3)
        assert isinstance(loss.sampler.current, Threshold)
        assert loss.sampler.current.cosine == pytest.approx(expected)


@pytest.mark.parametrize(
    ("dataset", "flip"), [("digits", 0.0), ("Digits", 0.0), ("CIFAR10", 0.5), ("mine", 0.5)]
)
def test_digits_are_not_mirrored_unless_one_asks_for_it(dataset: str, flip: float) -> None:
    assert ImageCell(dataset=dataset).flip == flip
    assert ImageCell(dataset=dataset, flip=0.3).flip == 0.3


# One experiment, one form


@pytest.mark.parametrize(
    ("method", "empty"),
    [
        ("ucl", {"beta", "threshold_start", "threshold_end", "class_prior"}),
        ("dcl", {"beta", "threshold_start", "threshold_end"}),
        ("hucl", {"threshold_start", "threshold_end", "class_prior"}),
        ("hcl", {"threshold_start", "threshold_end"}),
        ("scl", {"beta", "threshold_start", "threshold_end", "class_prior"}),
        ("hscl", {"threshold_start", "threshold_end", "class_prior"}),
        ("hscl-tau", {"beta", "class_prior"}),
    ],
)
def test_what_does_not_apply_is_emptied(method: str, empty: set[str]) -> None:
    cell = ImageCell(method=method)
    assert {k for k, v in asdict(cell).items() if v is None} == {*empty, "size", "subset"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"positives": "class", "temperature": 0.5, "flip": 0}),
        ({}, {"threshold_start": -1.0, "threshold_end": 1.0}),
        ({"method": "ucl"}, {"method": "UCL", "beta": 7.0, "beta_changes": 3}),
        ({"method": "dcl"}, {"method": "dcl", "class_prior": 0.1, "beta": None}),
        (TAU, {**TAU, "beta": 3.0, "threshold_start": -0.5}),
        ({"beta": 2.0, "lr": 1.0, "crop": 1.0}, {"beta": 2, "lr": 1, "crop": 1}),
        ({"probe_lr": (0.1, 1.0)}, {"probe_lr": (1, 0.1, 0.1)}),
        ({"probe": "logistic"}, {"probe": "logistic", "probe_lr": (1.0,), "probe_epochs": 3}),
        ({"probe": "logistic"}, {"probe": "logistic", "probe_batch_size": 9}),
        ({"probe": "logistic"}, {"probe": "logistic", "probe_weight_decay": 0.1}),
        ({"method": "pixels", "probe_lr": (1.0,)}, {"method": "pixels", "probe_lr": (1,)}),
        ({"method": "majority"}, {"method": "majority", "probe": "logistic", "size": 9}),
    ],
)
def test_equal_settings_are_equal_cells_with_equal_keys(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert ImageCell(**one) == ImageCell(**other)
    assert ImageCell(**one).key() == ImageCell(**other).key()


def test_every_setting_changes_the_key() -> None:
    assert set(CHANGED) == {field.name for field in fields(ImageCell)} - {"protocol"}
    plain = {ImageCell(**others).key() for others, _ in CHANGED.values()}
    keys = set()
    for name, (others, value) in CHANGED.items():
        changed = ImageCell(**{**others, name: value})
        assert getattr(changed, name) == value
        keys.add(changed.key())
    assert len(keys - plain) == len(CHANGED)


READ = {
    "majority": {"dataset", "probe_split", "subset"},
    "pixels": {
        "dataset", "probe_split", "subset", "size", "probe", "probe_lr", "probe_weight_decay",
        "probe_epochs", "probe_batch_size",
    },
}  # fmt: skip
READ["untrained"] = READ["pixels"] | {
    "encoder", "stem", "precision", "channels_last", "pretrain_split",
}  # fmt: skip


@pytest.mark.parametrize("floor", FLOORS)
def test_a_floor_is_told_apart_by_what_it_reads_alone(floor: str) -> None:
    plain = ImageCell(method=floor)
    assert (plain.encoders, plain.n_scores, plain.can_select) == (0, 1, False)
    told = {
        name
        for name, (_, value) in CHANGED.items()
        if name != "method" and ImageCell(**{"method": floor, name: value}).key() != plain.key()
    }
    assert told == READ[floor]


@pytest.mark.parametrize("method", [*METHODS, *FLOORS])
@pytest.mark.parametrize("others", [{}, {"dataset": "CIFAR10", "probe_lr": (1, 0.1), "subset": 99}])
def test_a_cell_survives_json_and_is_its_own_normal_form(
    method: str, others: dict[str, Any]
) -> None:
    cell = ImageCell(method=method, **others)
    stored = json.loads(json.dumps(asdict(cell)))
    again = from_dict(stored)
    assert type(again) is ImageCell
    assert (again, again.key(), replace(cell)) == (cell, cell.key(), cell)
    for name in set(stored) - {"method", "encoder", *others}:  # as stored before it existed
        older = from_dict({key: value for key, value in stored.items() if key != name})
        assert (older, older.key()) == (cell, cell.key()), name


def test_the_papers_figures_stand_beside_runs_on_all_labelled_images_alone() -> None:
    def paper(**settings: Any) -> float | None:
        return ImageCell(**{"dataset": "STL10", **settings}).paper

    assert paper() == 72.52
    assert paper(method="hscl-tau") == 71.02
    assert paper(dataset="digits") is None
    assert paper(subset=1_000) is None
    assert paper(pretrain_split="train+unlabeled") is None
    assert paper(method="untrained") is None


# What is refused


NOT_FINITE = [
    "beta", "threshold_start", "threshold_end", "temperature", "class_prior", "lr", "weight_decay",
    "crop", "flip", "jitter", "grayscale", "blur", "noise", "probe_weight_decay",
]  # fmt: skip
BAD: dict[str, list[dict[str, Any]]] = {
    "method": [{"method": "hslc"}],
    "protocol": [{"protocol": "paper"}],
    "beta": [{"beta": -1.0}, {"beta": None}, {"method": "ucl", "beta": -1.0}],
    "beta-changes": [{"beta_changes": -1}],
    "threshold-start": [{"threshold_start": 1.5}, {**TAU, "threshold_start": None}],
    "threshold-end": [{"threshold_end": -1.01}, {**TAU, "threshold_end": None}],
    "temperature": [{"temperature": 0.0}],
    "class.prior": [{"class_prior": 0.1}, {"method": "dcl", "class_prior": 1.0}],
    "epochs": [{"epochs": 0}],
    "batch-size": [{"batch_size": 1}],
    "lr": [{"lr": 0.0}],
    "lr-schedule": [{"lr_schedule": "step"}],
    "weight-decay": [{"weight_decay": -0.1}],
    "data-seed": [{"data_seed": -1}],
    "positives": [{"positives": "both"}],
    "encoder": [{"encoder": "resnet34"}],
    "stem": [{"stem": "small"}],
    "size": [{"size": 3}],
    "pretrain-split": [
        {"pretrain_split": "test"}, {"method": "untrained", "pretrain_split": "test"},
    ],
    "probe-split": [{"probe_split": "test"}, {"method": "pixels", "probe_split": "test"}],
    "subset": [{"subset": 3}],
    "crop": [{"crop": 0.0}, {"crop": 1.1}],
    "flip": [{"flip": -0.1}, {"flip": 1.1}],
    "jitter": [{"jitter": -0.1}, {"jitter": 2.1}],
    "grayscale": [{"grayscale": 1.1}],
    "blur": [{"blur": -0.1}],
    "noise": [{"noise": -0.1}],
    "forward": [{"forward": "both"}],
    "precision": [{"precision": "fp8"}],
    "accumulate": [{"accumulate": 0}],
    "probe": [{"probe": "svm"}],
    "probe-lr": [
        {"probe_lr": ()}, {"probe_lr": (0.1, 0.0)}, {"probe_lr": (math.nan,)},
        {"probe": "logistic", "probe_lr": (math.inf,)}, {"method": "pixels", "probe_lr": (-1,)},
    ],
    "probe-weight-decay": [
        {"probe_weight_decay": -0.1}, {"probe": "logistic", "probe_weight_decay": -0.1},
    ],
    "probe-epochs": [{"probe_epochs": 0}, {"probe": "logistic", "probe_epochs": 0}],
    "probe-batch-size": [{"probe_batch_size": 0}],
}  # fmt: skip


def test_every_setting_that_has_a_wrong_value_is_tried() -> None:
    any_value = {"dataset", "detach-weights", "class-pairs", "balanced", "channels-last", "compile"}
    tried = {name.replace(".", "-") for name in BAD} | any_value
    assert tried == {field.name.replace("_", "-") for field in fields(ImageCell)}


@pytest.mark.parametrize(
    ("flag", "settings"), [(flag, settings) for flag, bad in BAD.items() for settings in bad]
)
def test_a_value_that_means_nothing_is_refused_by_name(flag: str, settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=rf"(^|\W){flag}($|\W)"):
        ImageCell(**settings)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", NOT_FINITE)
def test_no_number_may_be_nan_or_infinite(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{name.replace('_', '-')} must be a finite number"):
        ImageCell(**{name: value})


# The configs


def config(name: str) -> tuple[dict[str, Any], list[ImageCell]]:
    """What a file states, and the cells that the command makes of it."""
    path = CONFIGS / f"{name}.yaml"
    cells = parse_bench(["--config", str(path)]).cells
    found = [cell for cell in cells if isinstance(cell, ImageCell)]
    assert len(found) == len(cells)
    return yaml.safe_load(path.read_text(encoding="utf-8")), found


def test_there_is_a_config_for_every_set() -> None:
    assert {path.stem for path in CONFIGS.glob("*.yaml")} == {*OF_THE_PAPER, "digits"}


@pytest.mark.parametrize("name", [*OF_THE_PAPER, "digits"])
def test_a_config_states_every_setting(name: str) -> None:
    stated, cells = config(name)
    assert {field.name for field in fields(ImageCell)} <= set(stated)
    assert {cell.dataset.casefold() for cell in cells} == {name}


@pytest.mark.parametrize("name", OF_THE_PAPER)
def test_a_config_of_the_paper_has_its_values(name: str) -> None:
    stated, cells = config(name)
    assert stated["select"] is True
    assert stated["seeds"] == (5 if name == "stl10" else 1)
    for cell in cells:
        own = (cell.epochs, cell.batch_size, cell.lr, cell.weight_decay, cell.temperature)
        assert own == (200, 256, 1e-3, 1e-6, 0.5)
        assert (cell.encoder, cell.pretrain_split, cell.probe_split) == ("resnet50",) + (
            "train",
        ) * 2
        assert cell.stem == "cifar" or (cell.stem == "auto" and cell.size is None)
        assert not cell.detach_weights
        assert cell.positives == ("class" if "scl" in cell.method else "view")
    betas = [(cell.method, cell.beta) for cell in cells if cell.beta is not None]
    assert betas == [(m, b) for m in ("hucl", "hscl") for b in (0.1, 0.5, 1.0, 2.0, 5.0)]
    thresholds = {(c.threshold_start, c.threshold_end) for c in cells if c.method == "hscl-tau"}
    assert thresholds == {(start, end) for start in (-0.5, -0.3, -0.1) for end in (-0.1, 0.0, 0.1)}
    methods = list(dict.fromkeys(cell.method for cell in cells))
    assert methods == ["ucl", "hucl", "scl", "hscl", "hscl-tau"]
    comment = (CONFIGS / f"{name}.yaml").read_text(encoding="utf-8").split("dataset:")[0]
    papers = {m: next(c.paper for c in cells if c.method == m) for m in methods}
    for method, paper in papers.items():
        assert f"{method} {paper}" in comment, method


def test_the_config_of_digits_is_a_small_look_at_all_methods() -> None:
    _, cells = config("digits")
    assert [cell.method for cell in cells] == [*METHODS, *FLOORS]
    trained = [cell for cell in cells if not cell.is_floor]
    assert {(cell.encoder, cell.epochs, cell.flip) for cell in trained} == {("resnet18", 3, 0.0)}
