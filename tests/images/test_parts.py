"""Images: stratified subsets, hold-outs hidden from all training, digests."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.experiments.registry import canonical
from gcl_hard.images import Split, load_images
from gcl_hard.images.parts import ImageData, image_data, image_facts, mislabelled
from gcl_hard.images.settings import ImageConfig

CPU = torch.device("cpu")
SIDE, CLASSES = 4, 3
SIZES = {"train": 60, "extra": 45, "unlabeled": 30, "test": 24}


def numbered(first: int, n: int) -> np.ndarray:
    """Images that tell their number: the first two pixels of each channel spell it."""
    images = np.zeros((n, SIDE, SIDE, 3), np.uint8)
    ids = np.arange(first, first + n)
    images[:, 0, 0], images[:, 0, 1] = (ids // 256)[:, None], (ids % 256)[:, None]
    return images


def numbers(split: Split) -> list[int]:
    pixels = split.images[:, 0, 0, :2].int()
    return (256 * pixels[:, 0] + pixels[:, 1]).tolist()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A mirror whose images are numbered: train 0 …, extra 1000 …, unlabeled 2000 …, test 3000 …"""
    arrays: dict[str, Any] = {}
    for k, (name, n) in enumerate(SIZES.items()):
        arrays[f"{name}_images"] = numbered(1_000 * k, n)
        arrays[f"{name}_labels"] = np.arange(n) % CLASSES
    del arrays["unlabeled_labels"]
    np.savez(tmp_path / "numbered.npz", **arrays)
    return tmp_path


def data(folder: Path, **settings: Any) -> ImageData:
    return image_data(ImageConfig(dataset="numbered", **settings), folder, CPU)


# Splits and subsets


def test_splits_are_those_named(folder: Path) -> None:
    images = data(folder, method="ucl", pretrain_split="unlabeled", probe_split="extra")
    assert numbers(images.pretrain) == list(range(2_000, 2_030))
    assert numbers(images.probe) == list(range(1_000, 1_045))
    assert numbers(images.test) == list(range(3_000, 3_024))
    assert (images.side, images.n_classes) == (SIDE, CLASSES)
    assert (images.pretrain.labels == -1).all()
    same = data(folder)
    assert same.pretrain is same.probe


def test_a_name_that_no_result_file_can_have_is_refused() -> None:
    assert canonical(ImageConfig(dataset="café")).dataset == "café"
    with pytest.raises(InputError, match="UTF-8"):
        canonical(ImageConfig(dataset=os.fsdecode(b"\xe9")))


def test_an_unknown_split_is_named_with_those_there_are(folder: Path) -> None:
    with pytest.raises(InputError, match=r"'extar'[^,]*\bextra\b"):
        data(folder, probe_split="extar")


def test_the_first_classes_alone_come_with_what_has_no_label(folder: Path) -> None:
    images = data(folder, classes=2, pretrain_split="train+unlabeled")
    assert numbers(images.probe) == [n for n in range(60) if n % 3 < 2]
    assert numbers(images.test) == [n for n in range(3_000, 3_024) if n % 3 < 2]
    assert numbers(images.pretrain) == [*numbers(images.probe), *range(2_000, 2_030)]
    assert images.shared.tolist() == [*range(40)]
    assert images.n_classes == 2
    with pytest.raises(InputError, match=r"classes 4\D+3\D+numbered"):
        data(folder, classes=4)


def test_wrong_labels_are_of_training_alone(folder: Path) -> None:
    clean, noisy = data(folder), data(folder, label_noise=0.4)
    assert numbers(noisy.pretrain) == numbers(clean.pretrain)
    wrong = noisy.pretrain.labels != clean.pretrain.labels
    assert int(wrong.sum()) == 24
    assert set(noisy.pretrain.labels.tolist()) == {0, 1, 2}
    assert (noisy.probe.labels == clean.probe.labels).all()
    assert (noisy.test.labels == clean.test.labels).all()
    assert (data(folder, label_noise=0.4).pretrain.labels == noisy.pretrain.labels).all()
    held = noisy.held_out(0)
    hidden = set(numbers(held.test))
    assert hidden
    assert hidden.isdisjoint(numbers(held.pretrain))
    assert hidden.isdisjoint(numbers(held.probe))
    right = dict(zip(numbers(clean.pretrain), clean.pretrain.labels.tolist(), strict=True))
    assert held.test.labels.tolist() == [right[n] for n in numbers(held.test)]


def test_wrong_classes_are_drawn_alike() -> None:
    labels = torch.zeros(9_000, dtype=torch.int64)
    labels[:1_000] = -1
    noisy = mislabelled(labels, 0.75, 4, seed=1)
    assert (noisy[:1_000] == -1).all()
    counts = noisy[1_000:].bincount()
    assert int(counts[0]) == 2_000
    # 2,000 of each are expected, with a standard deviation of 37.
    assert (counts[1:] - 2_000).abs().max() < 185


@pytest.mark.parametrize("n", [100, 200, 1_400])
def test_a_subset_keeps_the_shares_of_the_classes(n: int) -> None:
    whole = load_images("digits").split("train")
    images = image_data(ImageConfig(subset=n), None, CPU)
    assert len(images.probe) == n
    expected = whole.labels.bincount() * n / len(whole)
    assert (images.probe.labels.bincount() - expected).abs().max() < 1
    seen = {image.numpy().tobytes() for image in whole.images}
    assert {image.numpy().tobytes() for image in images.probe.images} <= seen
    assert len(images.test) == 360


def test_a_subset_is_the_same_for_all_configs(folder: Path) -> None:
    plain = numbers(data(folder, subset=12).probe)
    assert plain == sorted(set(plain))
    for settings in (
        {"method": "ucl", "epochs": 3, "data_seed": 7},
        {"method": "majority"},
        {"method": "ucl", "pretrain_split": "unlabeled"},
    ):
        assert numbers(data(folder, subset=12, **settings).probe) == plain


@pytest.mark.parametrize("n", [None, 60])
def test_all_images_are_kept_in_their_order(folder: Path, n: int | None) -> None:
    assert numbers(data(folder, subset=n).probe) == list(range(60))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"subset": 61}, r"subset 61\D+60 images\D+train\b"),
        ({"subset": 40, "pretrain_split": "unlabeled"}, r"subset 40\D+30 images\D+unlabeled"),
        ({"subset": 59}, r"subset 59\D+60 images"),
    ],
)
def test_a_subset_that_cannot_be_drawn_is_refused(
    folder: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        data(folder, **settings)


# Hold-outs


HELD_OUT = {
    "the same split": ({}, True),
    "the same subset": ({"subset": 30}, True),
    "another split": ({"pretrain_split": "extra"}, False),
    "a split without labels": ({"pretrain_split": "unlabeled"}, False),
    "more than the probe's split": ({"pretrain_split": "train+unlabeled"}, True),
    "subsets of both": ({"pretrain_split": "train+unlabeled", "subset": 20}, True),
}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("case", HELD_OUT)
def test_what_is_held_out_is_hidden_from_all_training(folder: Path, case: str, seed: int) -> None:
    settings, shares = HELD_OUT[case]
    whole = data(folder, method="ucl", **settings)
    inner = whole.held_out(seed)
    hidden, kept = set(numbers(inner.test)), set(numbers(inner.probe))
    assert len(inner.test) == -(-len(whole.probe) // 5)
    assert (hidden | kept, hidden & kept) == (set(numbers(whole.probe)), set())
    before, after = numbers(whole.pretrain), numbers(inner.pretrain)
    assert after == [number for number in before if number not in hidden]
    assert bool(hidden & set(before)) == shares
    assert inner.test.labels.unique().tolist() == list(range(CLASSES))
    for split in (inner.probe, inner.test):  # labels went along
        assert [number % CLASSES for number in numbers(split)] == split.labels.tolist()
    assert not hidden & set(numbers(whole.test))


def test_each_seed_holds_out_others(folder: Path) -> None:
    whole = data(folder)
    first, again, other = (set(numbers(whole.held_out(s).test)) for s in (0, 0, 1))
    assert first == again != other


def test_where_probe_images_are_among_those_of_pretraining(folder: Path) -> None:
    both = data(folder, method="ucl", pretrain_split="train+unlabeled", subset=20)
    before = numbers(both.pretrain)
    positions = [before.index(n) if n in before else -1 for n in numbers(both.probe)]
    assert both.shared.tolist() == positions
    assert len(set(positions)) > 2
    assert -1 in positions


def test_a_class_that_cannot_be_held_out_is_refused() -> None:
    labels = torch.tensor([0, 0, 0, 0, 0, 1])
    split = Split(torch.zeros(6, 3, SIDE, SIDE, dtype=torch.uint8), labels)
    lonely = ImageData("lonely", split, split, split, torch.arange(6), ("a", "b"))
    with pytest.raises(InputError, match=r"class 1\D+1 of 2 members\b"):
        lonely.held_out(0)


# Facts


def test_facts_are_sizes(folder: Path) -> None:
    facts = image_facts(data(folder, method="ucl", pretrain_split="unlabeled"))
    digest = facts.pop("digest")
    assert facts == {
        "n_pretrain": 30, "n_train": 60, "n_test": 24, "n_official": None,
        "n_official_test": None, "n_classes": 3,
        "side": SIDE, "classes": ["0", "1", "2"],
    }  # fmt: skip
    assert len(digest) == 16
    digits = image_facts(image_data(ImageConfig(subset=200), None, CPU))
    assert (digits["n_official"], digits["n_train"], digits["n_test"]) == (1_437, 200, 360)


def one_more(values: Tensor) -> Tensor:
    """A copy whose last value is one more."""
    copy = values.clone()
    copy.view(-1)[-1] += 1
    return copy


@pytest.mark.parametrize("part", ["pretrain", "probe", "test"])
@pytest.mark.parametrize("field", ["images", "labels"])
def test_the_digest_tells_one_pixel_and_one_label(folder: Path, part: str, field: str) -> None:
    whole = data(folder, method="ucl", pretrain_split="extra")
    split = getattr(whole, part)
    other = replace(split, **{field: one_more(getattr(split, field))})
    assert image_facts(replace(whole, **{part: other}))["digest"] != image_facts(whole)["digest"]
    assert image_facts(data(folder, method="scl", pretrain_split="extra")) == image_facts(whole)
