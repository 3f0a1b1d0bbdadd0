"""Where image sets come from, what is checked on the way, and what the messages say."""

from __future__ import annotations

import ast
import functools
import inspect
import io
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from gcl_hard.errors import InputError
from gcl_hard.images import KNOWN, canonical_name, datasets, has_dataset
from gcl_hard.images.datasets import Split, load_images
from gcl_hard.images.files import locate
from tests.images.sets import REAL, arrays, pixels, same, write
from tests.said import says

# Names, and the set itself


@pytest.mark.parametrize(
    ("written", "meant"),
    [("cifar10", "CIFAR10"), ("CIFAR-10", "CIFAR10"), ("Cifar100", "CIFAR100"), ("stl10", "STL10"),
     ("tinyimagenet", "TinyImageNet"), ("Tiny-ImageNet", "TinyImageNet"), ("DIGITS", "digits"),
     ("Mine", "Mine"), ("my-set_2", "my-set_2"), ("MUTAG", "MUTAG")],
)  # fmt: skip
def test_known_names_are_read_in_any_case(written: str, meant: str) -> None:
    assert canonical_name(written) == meant


def test_a_name_means_images_if_known_or_if_its_npz_lies_there(
    mirror: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(has_dataset(name.swapcase()) for name in KNOWN)
    assert not has_dataset("Mine")
    assert not has_dataset("Mine", mirror)
    write(mirror, "mine")
    assert has_dataset("Mine", mirror)
    assert not has_dataset("Min", mirror)
    monkeypatch.setenv("GCL_HARD_DATA", str(mirror))
    assert has_dataset("Mine")
    write(cache, "Other")
    assert has_dataset("other")


def test_telling_images_from_graphs_waits_for_nothing_heavy() -> None:
    seen, visited = set(), set()
    waiting = [datasets]
    while waiting:  # what the module imports at its top, and what that imports
        module = waiting.pop()
        visited.add(module.__name__)
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.Import):
                seen |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                seen.add(node.module.split(".")[0])
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                waiting += [sys.modules[name] for name in names if name in sys.modules
                            and name.startswith("gcl_hard.")]  # fmt: skip
    assert {"torch", "numpy"} <= seen
    assert {"gcl_hard.images.files", "gcl_hard.files.io"} <= visited
    assert seen.isdisjoint({"torchvision", "kornia", "sklearn", "scipy", "PIL", "tqdm"})


def test_splits_are_taken_from_and_moved_as_they_are(mirror: Path) -> None:
    stored = write(mirror)
    image_set = load_images("Mine", data_dir=mirror)
    assert (image_set.name, image_set.n_classes, image_set.size) == ("Mine", 3, (6, 6))
    train = image_set.split("train")
    assert (train.images.dtype, train.labels.dtype) == (torch.uint8, torch.int64)
    assert len(train) == 5
    part = train.take(torch.tensor([4, 0, 4]))
    assert same(part, stored["train_images"][[4, 0, 4]], [1, 0, 1])
    elsewhere = image_set.to(torch.device("meta"))
    assert {part.images.device.type for part in elsewhere.splits.values()} == {"meta"}
    assert elsewhere.split("test").labels.device.type == "meta"
    assert elsewhere.class_names == image_set.class_names == ("ant", "bee", "cow")
    with pytest.raises(InputError, match=r"\bMine 'tset'[^,]*\btest\b.*\btrain, test"):
        image_set.split("tset")


# Digits


def test_digits_are_scikit_learns_each_in_one_split() -> None:
    digits = load_images("Digits")
    assert (digits.size, digits.class_names) == ((8, 8), tuple("0123456789"))
    train, test = digits.split("train"), digits.split("test")
    images = torch.cat([train.images, test.images])
    assert torch.equal(images, images[:, :1].expand(-1, 3, -1, -1))
    assert (int(images.min()), int(images.max())) == (0, 255)
    bunch = load_digits()
    levels = (images[:, 0].double() / 255 * 16).round().long()  # 0..16 come back exactly
    got = sorted(
        (*row, label)
        for row, label in zip(
            levels.flatten(1).tolist(), [*train.labels.tolist(), *test.labels.tolist()], strict=True
        )
        for row in [tuple(row)]
    )
    assert got == sorted(
        (*map(int, row), int(label)) for row, label in zip(bunch.data, bunch.target, strict=True)
    )
    shares = np.bincount(test.labels.numpy()) / np.bincount(bunch.target)
    assert (np.abs(shares - 360 / 1797) < 0.01).all()
    assert torch.equal(load_images("digits").split("test").images, test.images)


def test_a_split_has_a_length_and_gives_its_images_and_parts() -> None:
    split = datasets.load_images("digits").split("test")
    image, label = split[3]
    assert torch.equal(image, split.images[3])
    assert label == split.labels[3]
    assert sum(1 for _ in split) == len(split) == len(split.labels)
    for index in (slice(2, 5), [2, 3, 4], torch.tensor([2, 3, 4]), np.array([2, 3, 4])):
        assert torch.equal(split[index].images, split.images[2:5])
        assert torch.equal(split[index].labels, split.labels[2:5])
    assert str(len(split)) in repr(split)
    assert len(repr(split)) < 80


@pytest.mark.parametrize(
    "labels", [[0, 2, 1], (0, 2, 1), np.array([0, 2, 1], np.uint8), torch.tensor([0, 2, 1]).int()]
)
@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_arrays_and_lists_are_a_split_too(kind: str, labels: Any) -> None:
    images = torch.randint(256, (3, 3, 4, 4), dtype=torch.uint8)
    backwards = images.numpy()[::-1]
    backwards.flags.writeable = False  # as of np.load(..., mmap_mode="r")
    split = Split(backwards if kind == "array" else images.flip(0), labels)
    assert torch.equal(split.images, images.flip(0))
    assert split.labels.dtype == torch.int64
    assert split.labels.tolist() == [0, 2, 1]
    assert torch.equal(split[1][0], images[1])
    assert split[[0, 2]].labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("images", "labels", "facts"),
    [
        (torch.zeros(2, 3, 4, 4).byte(), [0.5, 1], ["labels", "torch.float64"]),
        (torch.zeros(2, 3, 4, 4).byte(), [0], ["labels", 2, 1]),
        (torch.zeros(2, 3, 4, 4).byte(), 0, ["labels", 2]),
        (np.zeros((2, 4, 4, 3), np.uint8), [0, 1], ["images", 2, 4, 4, 3]),
        (np.zeros((2, 4, 4), np.uint8), [0, 1], ["images", 2, 4, 4]),
        (torch.zeros(2, 3, 4, 4), [0, 1], ["images", "torch.float32"]),
    ],
)
def test_what_is_no_split_is_refused(images: Any, labels: Any, facts: list[object]) -> None:
    with pytest.raises(InputError) as caught:
        Split(images, labels)
    assert says(str(caught.value), *facts)


def test_digits_need_no_file_unless_one_is_given(mirror: Path) -> None:
    assert locate("digits", download=False) is None
    images = np.repeat(pixels(10, side=8)[..., :1], 3, axis=-1)
    labels = np.arange(10)
    write(mirror, "digits", train_images=images, train_labels=labels, test_images=images,
          test_labels=labels, class_names=None)  # fmt: skip
    assert locate("digits", data_dir=mirror) == mirror / "digits.npz"
    assert same(load_images("digits", data_dir=mirror).split("train"), images, labels)


# NAME.npz: where it is found


def test_the_given_folder_comes_before_the_cache_and_the_cache_before_the_network(
    mirror: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(cache, n_train=5)
    write(tmp_path / "env", "MINE", n_train=6)
    write(mirror, "mine", n_train=7)
    assert len(load_images("Mine").split("train")) == 5
    monkeypatch.setenv("GCL_HARD_DATA", str(tmp_path / "env"))
    assert len(load_images("Mine").split("train")) == 6
    assert len(load_images("Mine", data_dir=mirror).split("train")) == 7
    assert locate("Mine", data_dir=mirror) == mirror / "mine.npz"
    monkeypatch.delenv("GCL_HARD_DATA")
    write(tmp_path / "other" / "images", n_train=8)
    assert len(load_images("Mine", cache_dir=tmp_path / "other").split("train")) == 8


def test_a_name_spelt_exactly_comes_before_other_capitals(mirror: Path) -> None:
    write(mirror, "mine", n_train=6)
    write(mirror, "Mine", n_train=7)
    assert len(load_images("Mine", data_dir=mirror).split("train")) == 7
    assert len(load_images("mine", data_dir=mirror).split("train")) == 6


@pytest.mark.parametrize("name", ["CIFAR10", "CIFAR100", "STL10", "TinyImageNet"])
def test_a_set_that_cannot_be_had_says_what_was_tried_and_what_to_do(
    name: str, mirror: Path, cache: Path
) -> None:
    site = KNOWN[name]
    with pytest.raises(InputError) as caught:
        load_images(name, data_dir=mirror)
    text = str(caught.value)
    for part in (f"'{name}'", f" {mirror}", f"cache {cache}", f"{name}.npz", f"{site.folder}/",
                 f"download {site.url}", "refused", "--data-dir", "GCL_HARD_DATA",
                 "digits"):  # fmt: skip
        assert part in text
    with pytest.raises(InputError, match=rf"download {site.url}: .*\boff\b"):
        load_images(name, download=False)
    assert not list(cache.glob("*"))


def test_an_unknown_name_offers_those_that_are_near(mirror: Path) -> None:
    with pytest.raises(InputError, match=r"'CIFAR11'[^,]*\bCIFAR10\b.*\bCIFAR11\.npz"):
        load_images("CIFAR11")
    with pytest.raises(InputError, match=rf"'zzz'(.|\n)*{mirror}(.|\n)*\bzzz\.npz\b.* {mirror}"):
        load_images("zzz", data_dir=mirror)
    with pytest.raises(InputError, match=r"data_dir='/no/such'.*\bfolder\b"):
        load_images("CIFAR10", data_dir="/no/such")


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8)).save(path)


@pytest.mark.parametrize(
    ("asked", "folder"),
    [("digits", "digits"), ("digits", "Digits"), ("Digits", "digits"), ("Digits", "DIGITS"),
     ("CIFAR10", "cifar10"), ("cifar-10", "CIFAR-10"), ("TinyImageNet", "tiny_imagenet"),
     ("stl10", "STL-10")],
)  # fmt: skip
@pytest.mark.parametrize("inside", ["train/cat/0.png", "cat/0.png", "0.png"])
def test_images_under_a_known_sets_name_are_refused_in_any_spelling(
    asked: str, folder: str, inside: str, mirror: Path
) -> None:
    picture(mirror / folder / inside)
    with pytest.raises(InputError, match=rf"{mirror / folder}\b.*\bname\b.*\bknown\b"):
        load_images(asked, data_dir=mirror)


def test_a_folder_of_other_things_may_have_a_known_sets_name(mirror: Path) -> None:
    (mirror / "digits").mkdir()
    (mirror / "digits" / "page.md").touch()
    assert locate("digits", data_dir=mirror) is None


def test_a_known_sets_npz_may_be_spelt_as_its_name_may(mirror: Path) -> None:
    stored = write(mirror, "CIFAR-10", train_images=pixels(5, 32), test_images=pixels(3, 32),
                   class_names=np.arange(10))  # fmt: skip
    test = load_images("cifar10", data_dir=mirror).split("test")
    assert same(test, stored["test_images"], [0, 1, 2])
    (mirror / "CIFAR-10.npz").rename(mirror / "cifar_10.NPZ")
    assert locate("CIFAR10", data_dir=mirror) == mirror / "cifar_10.NPZ"


def test_two_sets_of_one_name_are_refused(mirror: Path) -> None:
    write(mirror, "pets")
    for i in range(10):
        picture(mirror / "pets" / "ab"[i % 2] / f"{i}.png")
    with pytest.raises(InputError) as caught:
        load_images("pets", data_dir=mirror)
    assert says(str(caught.value), str(mirror / "pets"), str(mirror / "pets.npz"))
    write(mirror, "mine")
    write(mirror, "Mine")
    with pytest.raises(InputError) as caught:
        load_images("MINE", data_dir=mirror)
    assert says(str(caught.value), str(mirror / "mine.npz"), str(mirror / "Mine.npz"))


def test_a_name_with_its_suffix_is_of_images_and_says_what_to_type(
    mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(mirror, "Mine")
    monkeypatch.chdir(mirror)
    assert has_dataset("Mine.npz")
    with pytest.raises(InputError) as caught:
        load_images("Mine.npz")
    assert says(str(caught.value), "'Mine'", "data_dir")
    assert len(load_images("Mine", data_dir=".").split("train")) == 5


# NAME.npz: what is in it


def test_a_mirror_file_is_read_pixel_by_pixel(mirror: Path) -> None:
    stored = write(mirror)
    image_set = load_images("Mine", data_dir=mirror)
    for split in ("train", "test"):
        assert same(image_set.split(split), stored[f"{split}_images"], stored[f"{split}_labels"])
    assert list(load_images("Mine", data_dir=mirror, splits=("test",)).splits) == ["test"]


def test_classes_without_names_are_called_by_their_numbers(mirror: Path) -> None:
    write(mirror, class_names=None, test_labels=np.array([0, 3, 1], np.uint8))
    assert load_images("Mine", data_dir=mirror, splits=("train",)).class_names == tuple("0123")
    assert load_images("Mine", data_dir=mirror).split("test").labels.tolist() == [0, 3, 1]
    write(mirror, class_names=np.array([b"ant", b"bee", b"cow"]))
    assert load_images("Mine", data_dir=mirror).class_names == ("ant", "bee", "cow")
    write(mirror, class_names=np.array(["thé".encode(), b"bee", b"cow"]))
    assert load_images("Mine", data_dir=mirror).class_names == ("thé", "bee", "cow")


def test_images_without_labels_are_a_split_of_their_own(mirror: Path) -> None:
    stored = write(mirror, unlabeled_images=pixels(4))
    splits = ["unlabeled", "test", "train+unlabeled"]
    image_set = load_images("Mine", data_dir=mirror, splits=splits)
    assert list(image_set.splits) == splits
    assert same(image_set.split("unlabeled"), stored["unlabeled_images"], [-1] * 4)
    both = np.concatenate([stored["train_images"], stored["unlabeled_images"]])
    assert same(image_set.split("train+unlabeled"), both, [0, 1, 2, 0, 1, -1, -1, -1, -1])
    write(mirror, unlabeled_images=pixels(4, side=7))
    with pytest.raises(InputError, match=r"\bsize\b.*\[5, 6, 6, 3\].*\[4, 7, 7, 3\]"):
        load_images("Mine", data_dir=mirror, splits=("train+unlabeled",))
    write(mirror)
    with pytest.raises(InputError, match=r"\bMine 'unlabeled'.*\btrain, test$"):
        load_images("Mine", data_dir=mirror, splits=("unlabeled",))


GREY = pixels(5)[..., 0]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"test_labels": None}, r"\.npz lacks test_labels\b.*\bclass_names, test_images, train_im"),
        ({"train_images": None}, r"\.npz lacks train_images\b.*\bclass_names, test_im"),
        ({"train_images": pixels(5) / 255}, r": train: images\b.*\buint8\b.*\bfloat64 "),
        ({"train_images": pixels(5).astype(np.int64)}, r"images\b.*\buint8\b.*\bint64 \[5, "),
        ({"train_images": GREY}, r"uint8 \[5, 6, 6\]"),
        ({"train_images": GREY[..., None]}, r"uint8 \[5, 6, 6, 1\]"),
        ({"train_images": pixels(5).transpose(0, 3, 1, 2)}, r"uint8 \[5, 3, 6, 6\]"),
        ({"train_images": pixels(5)[:, :4]}, r"images\b.*\bsquare\b.*uint8 \[5, 4, 6, 3\]"),
        ({"test_images": pixels(3, side=7)}, r"\bsize\b.*train 6 pixels, test 7 pixels"),
        ({"train_images": pixels(0), "train_labels": np.arange(0)},
         r": train: .*\bimages\b.*uint8 \[0, 6, 6, 3\]"),
        ({"train_labels": np.arange(4)}, r": train: labels\D+5 integers\b.* int64 \[4\]"),
        ({"test_labels": np.zeros((3, 1), int)}, r": test: labels\D+3 integers\b.* int64 \[3, 1\]"),
        ({"test_labels": np.zeros(3)}, r": test: labels\D+3 integers\b.* float64 \[3\]"),
        ({"test_labels": np.zeros(3), "class_names": None},
         r": test: labels\D+3 integers\b.* float64 \[3\]"),
        ({"train_labels": np.array([0, 1, 2, 3, 9])},
         r": train: label 3\D+image 3\D+3 classes\D+0\D+2\b"),
        ({"test_labels": np.array([0, -2, 9])},
         r": test: label -2\D+image 1\D+3 classes\D+0\D+2\b"),
        ({"class_names": np.array([b"th\xe9", b"bee"])}, r"\bclass_names\b.*\btext\b.*\bUTF-8\b"),
        ({"class_names": np.array(["ant", None], object)}, r"\bclass_names\b.*\bobjects\b"),
    ],
)  # fmt: skip
def test_a_mirror_file_that_cannot_be_used_says_why(
    changed: dict[str, Any], message: str, mirror: Path
) -> None:
    write(mirror, **changed)
    with pytest.raises(InputError, match=message) as caught:
        load_images("Mine", data_dir=mirror)
    assert str(mirror / "Mine.npz") in str(caught.value)


def test_a_damaged_file_is_told_from_a_good_one(mirror: Path) -> None:
    file = mirror / "Mine.npz"
    for content in (b"", b"hello", zipped := packed_bytes()[:-30]):
        file.write_bytes(content)
        with pytest.raises(InputError, match=r"Mine\.npz\b.*\bdamaged\b"):
            load_images("Mine", data_dir=mirror)
    assert len(zipped) > 100
    whole = bytearray(packed_bytes())
    inside = whole.index(arrays_fixed()["train_images"].tobytes()[:40])
    whole[inside + 5] ^= 255
    file.write_bytes(whole)
    with pytest.raises(InputError, match=r"Mine\.npz: train_images\b.*\bdamaged\b.*CRC"):
        load_images("Mine", data_dir=mirror)
    np.save(mirror / "one.npy", pixels(2))
    shutil.copy(mirror / "one.npy", file)
    with pytest.raises(InputError, match=r"Mine\.npz\b.*\barrays\b.*numpy\.savez"):
        load_images("Mine", data_dir=mirror)


@functools.cache
def arrays_fixed() -> dict[str, Any]:
    return arrays()


def packed_bytes() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays_fixed())
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("changed", "got"),
    [({}, r"3 classes\D+32 pixels"), ({"class_names": np.arange(10)}, r"10 classes\D+16 pixels")],
)
def test_a_file_of_another_set_is_not_taken_for_a_known_one(
    changed: dict[str, Any], got: str, mirror: Path
) -> None:
    side = 16 if changed else 32
    write(mirror, "cifar10", train_images=pixels(5, side), test_images=pixels(3, side), **changed)
    with pytest.raises(InputError, match=rf"cifar10\.npz\b.*\bCIFAR10\b.* {got}\D+10\D+32\b"):
        load_images("CIFAR10", data_dir=mirror)


# The real CIFAR files


needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="no ../shared/data/images")


@needs_real
@pytest.mark.parametrize(
    ("name", "sizes", "mean", "std"),
    [("cifar10", (23_000, 10_000), (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
     ("cifar100", (20_000, 5_000), (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))],
)  # fmt: skip
def test_the_real_images_have_the_published_mean_and_deviation(
    name: str, sizes: tuple[int, int], mean: Any, std: Any, tmp_path: Path
) -> None:
    command = [sys.executable, str(REAL / "unpack.py"), name, str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    image_set = load_images(name, data_dir=tmp_path)
    train, test = image_set.split("train"), image_set.split("test")
    assert (len(train), len(test), image_set.size) == (*sizes, (32, 32))
    for part in (train, test):
        counts = part.labels.bincount(minlength=image_set.n_classes)
        assert counts.tolist() == [len(part) // image_set.n_classes] * image_set.n_classes
    flat = train.images[::4].permute(1, 0, 2, 3).reshape(3, -1).double() / 255
    torch.testing.assert_close(flat.mean(1), torch.tensor(mean).double(), rtol=0, atol=5e-3)
    torch.testing.assert_close(flat.std(1), torch.tensor(std).double(), rtol=0, atol=5e-3)
    assert image_set.class_names == tuple(sorted(image_set.class_names))
