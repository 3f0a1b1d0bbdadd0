"""Where image sets come from, what is checked on the way, and what the messages say."""

from __future__ import annotations

import ast
import functools
import hashlib
import http.server
import inspect
import io
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits
from torchvision import datasets as tv

from gcl_hard.errors import InputError
from gcl_hard.images import datasets, sources
from gcl_hard.images.datasets import (
    KNOWN,
    ImageSet,
    Known,
    Split,
    canonical_name,
    is_image_set,
    load,
    locate,
)

REAL = Path(__file__).parents[3] / "shared" / "data" / "images"
NOWHERE = "http://127.0.0.1:9"
rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own, empty cache; nothing from the machine's environment; no way to the real sites."""
    monkeypatch.delenv("GCL_HARD_DATA", raising=False)
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for name, site in sources.SITES.items():
        set_url(monkeypatch, name, f"{NOWHERE}/{site.folder}.tar.gz")
    return tmp_path / "cache" / "images"


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    folder = tmp_path / "mirror"
    folder.mkdir()
    return folder


def set_url(monkeypatch: pytest.MonkeyPatch, name: str, url: str) -> None:
    monkeypatch.setitem(sources.SITES, name, sources.SITES[name]._replace(url=url))
    if hasattr(tv, name):
        monkeypatch.setattr(getattr(tv, name), "url", url)


def pixels(n: int, side: int = 6) -> NDArray[np.uint8]:
    return rng.integers(0, 256, (n, side, side, 3), dtype=np.uint8)


def arrays(n_train: int = 5, n_test: int = 3, **changed: Any) -> dict[str, Any]:
    """A mirror file's arrays with three classes; an entry of None is left out."""
    stored = {
        "train_images": pixels(n_train), "train_labels": np.arange(n_train) % 3,
        "test_images": pixels(n_test), "test_labels": np.arange(n_test) % 3,
        "class_names": np.array(["ant", "bee", "cow"]),
    }  # fmt: skip
    return {key: value for key, value in (stored | changed).items() if value is not None}


def write(folder: Path, name: str = "Mine", **changed: Any) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    stored = arrays(**changed)
    np.savez(folder / f"{name}.npz", **stored)
    return stored


def same(split: Split, images: NDArray[Any], labels: Any) -> bool:
    """Pixel by pixel, in the order n, row, column, channel."""
    back = split.images.permute(0, 2, 3, 1).numpy()
    return np.array_equal(back, images) and split.labels.tolist() == list(labels)


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
    assert all(is_image_set(name.swapcase()) for name in KNOWN)
    assert not is_image_set("Mine")
    assert not is_image_set("Mine", mirror)
    write(mirror, "mine")
    assert is_image_set("Mine", mirror)
    assert not is_image_set("Min", mirror)
    monkeypatch.setenv("GCL_HARD_DATA", str(mirror))
    assert is_image_set("Mine")
    write(cache, "Other")
    assert is_image_set("other")


def test_telling_images_from_graphs_waits_for_nothing_heavy() -> None:
    seen = set()
    waiting = [datasets]
    while waiting:  # what the module imports at its top, and what that imports
        module = waiting.pop()
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.Import):
                seen |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                seen.add(node.module.split(".")[0])
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                waiting += [sys.modules[name] for name in names if name in sys.modules
                            and name.startswith("gcl_hard.")]  # fmt: skip
    assert {"torch", "numpy", "zlib"} <= seen
    assert seen.isdisjoint({"torchvision", "kornia", "sklearn", "scipy", "PIL", "tqdm"})


def test_splits_are_taken_from_and_moved_as_they_are(mirror: Path) -> None:
    stored = write(mirror)
    found = load("Mine", data_dir=mirror)
    assert (found.name, found.n_classes, found.size) == ("Mine", 3, (6, 6))
    assert found.whole is None
    train = found.split("train")
    assert (train.images.dtype, train.labels.dtype) == (torch.uint8, torch.int64)
    assert len(train) == 5
    part = train.take(torch.tensor([4, 0, 4]))
    assert same(part, stored["train_images"][[4, 0, 4]], [1, 0, 1])
    elsewhere = found.to(torch.device("meta"))
    assert {part.images.device.type for part in elsewhere.splits.values()} == {"meta"}
    assert elsewhere.split("test").labels.device.type == "meta"
    assert elsewhere.class_names == found.class_names == ("ant", "bee", "cow")
    with pytest.raises(InputError, match=r"split of Mine 'tset'; did you mean test.*train, test"):
        found.split("tset")


def test_whole_is_told_by_the_official_numbers() -> None:
    def of(name: str, **sizes: int) -> ImageSet:
        parts = {
            split: Split(torch.zeros(n, 3, 8, 8, dtype=torch.uint8), torch.zeros(n).long())
            for split, n in sizes.items()
        }
        return ImageSet(name, parts, ("a",))

    assert of("digits", train=1437, test=360).whole is True
    assert of("digits", train=1436, test=360).whole is False
    assert of("digits", train=1437, test=359).whole is False
    assert of("digits", train=1437).whole is True
    assert of("Mine", train=1437, test=360).whole is None


# Digits


def test_digits_are_scikit_learns_each_in_one_split() -> None:
    found = load("Digits")
    assert found.whole
    assert (found.size, found.class_names) == ((8, 8), tuple("0123456789"))
    train, test = found.split("train"), found.split("test")
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
    assert torch.equal(load("digits").split("test").images, test.images)


def test_digits_need_no_file_unless_one_is_given(mirror: Path) -> None:
    assert locate("digits", download=False) is None
    images = np.repeat(pixels(10, side=8)[..., :1], 3, axis=-1)
    labels = np.arange(10)
    write(mirror, "digits", train_images=images, train_labels=labels, test_images=images,
          test_labels=labels, class_names=None)  # fmt: skip
    assert locate("digits", data_dir=mirror) == mirror / "digits.npz"
    found = load("digits", data_dir=mirror)
    assert same(found.split("train"), images, labels)
    assert found.whole is False


# NAME.npz: where it is found


def test_the_given_folder_comes_before_the_cache_and_the_cache_before_the_network(
    mirror: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(cache, n_train=5)
    write(tmp_path / "env", "MINE", n_train=6)
    write(mirror, "mine", n_train=7)
    assert len(load("Mine").split("train")) == 5
    monkeypatch.setenv("GCL_HARD_DATA", str(tmp_path / "env"))
    assert len(load("Mine").split("train")) == 6
    assert len(load("Mine", data_dir=mirror).split("train")) == 7
    assert locate("Mine", data_dir=mirror) == mirror / "mine.npz"
    monkeypatch.delenv("GCL_HARD_DATA")
    write(tmp_path / "other" / "images", n_train=8)
    assert len(load("Mine", cache_dir=tmp_path / "other").split("train")) == 8


def test_a_name_spelt_exactly_comes_before_other_capitals(mirror: Path) -> None:
    write(mirror, "mine", n_train=6)
    write(mirror, "Mine", n_train=7)
    assert len(load("Mine", data_dir=mirror).split("train")) == 7
    assert len(load("mine", data_dir=mirror).split("train")) == 6


@pytest.mark.parametrize("name", ["CIFAR10", "CIFAR100", "STL10", "TinyImageNet"])
def test_a_set_that_cannot_be_had_says_what_was_tried_and_what_to_do(
    name: str, mirror: Path, cache: Path
) -> None:
    site = sources.SITES[name]
    with pytest.raises(InputError) as caught:
        load(name, data_dir=mirror)
    text = str(caught.value)
    for part in (f"dataset '{name}' cannot be had", f"data folder {mirror}", f"cache {cache}",
                 f"no {name}.npz", f"no {site.folder}/", f"download {site.url}: ", "refused",
                 f"into {mirror}", "--data-dir", "GCL_HARD_DATA", "digits"):  # fmt: skip
        assert part in text
    with pytest.raises(InputError, match="switched off"):
        load(name, download=False)
    assert not list(cache.glob("*"))


def test_an_unknown_name_offers_those_that_are_near(mirror: Path) -> None:
    with pytest.raises(InputError, match=r"'CIFAR11'; did you mean .*CIFAR10.* CIFAR11.npz"):
        load("CIFAR11")
    with pytest.raises(InputError, match=r"dataset 'zzz' cannot be had(.|\n)*put zzz.npz into"):
        load("zzz", data_dir=mirror)
    with pytest.raises(InputError, match="data_dir='/no/such' is not a folder"):
        load("CIFAR10", data_dir="/no/such")


# NAME.npz: what is in it


def test_a_mirror_file_is_read_pixel_by_pixel(mirror: Path) -> None:
    stored = write(mirror)
    found = load("Mine", data_dir=mirror)
    for split in ("train", "test"):
        assert same(found.split(split), stored[f"{split}_images"], stored[f"{split}_labels"])
    assert list(load("Mine", data_dir=mirror, splits=("test",)).splits) == ["test"]


def test_classes_without_names_are_called_by_their_numbers(mirror: Path) -> None:
    write(mirror, class_names=None, test_labels=np.array([0, 3, 1], np.uint8))
    assert load("Mine", data_dir=mirror, splits=("train",)).class_names == tuple("0123")
    assert load("Mine", data_dir=mirror).split("test").labels.tolist() == [0, 3, 1]
    write(mirror, class_names=np.array([b"ant", b"bee", b"cow"]))
    assert load("Mine", data_dir=mirror).class_names == ("ant", "bee", "cow")


def test_images_without_labels_are_a_split_of_their_own(mirror: Path) -> None:
    stored = write(mirror, unlabeled_images=pixels(4))
    found = load("Mine", data_dir=mirror, splits=("unlabeled", "test", "train+unlabeled"))
    assert list(found.splits) == ["unlabeled", "test", "train+unlabeled"]
    assert same(found.split("unlabeled"), stored["unlabeled_images"], [-1] * 4)
    both = np.concatenate([stored["train_images"], stored["unlabeled_images"]])
    assert same(found.split("train+unlabeled"), both, [0, 1, 2, 0, 1, -1, -1, -1, -1])
    write(mirror, unlabeled_images=pixels(4, side=7))
    with pytest.raises(InputError, match=r"different size: \[5, 6, 6, 3\] and \[4, 7, 7, 3\]"):
        load("Mine", data_dir=mirror, splits=("train+unlabeled",))
    write(mirror)
    with pytest.raises(InputError, match="split of Mine 'unlabeled'; known: train, test"):
        load("Mine", data_dir=mirror, splits=("unlabeled",))


GREY = pixels(5)[..., 0]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"test_labels": None}, r"lacks test_labels; it has class_names, test_images, train_im"),
        ({"train_images": None}, r"lacks train_images; it has"),
        ({"train_images": pixels(5) / 255}, r": train: images must be uint8, 0 to 255, got float6"),
        ({"train_images": pixels(5).astype(np.int64)}, r"must be uint8, 0 to 255, got int64 \[5"),
        ({"train_images": GREY}, r"grey ones.*repeat\(images\[\.\.\., None\], 3, axis=-1\)"),
        ({"train_images": GREY[..., None]}, r"grey ones.*numpy\.repeat\(images, 3, axis=-1\)"),
        ({"train_images": pixels(5).transpose(0, 3, 1, 2)}, r"last: numpy\.moveaxis\(images, 1, "),
        ({"train_images": pixels(5).reshape(5, -1)}, r"must be \[n, S, S, 3\], got uint8 \[5, 108"),
        ({"train_images": pixels(5)[:, :4]}, r"must be square, got uint8 \[5, 4, 6, 3\]"),
        ({"test_images": pixels(3, side=7)}, r"of different size: train 6 pixels, test 7 pixels"),
        ({"train_images": pixels(0), "train_labels": np.arange(0)}, r": train: there are no image"),
        ({"train_labels": np.arange(4)}, r": train: labels must be 5 integers, .* int64 \[4\]"),
        ({"test_labels": np.zeros((3, 1), int)}, r": test: labels must be 3 .* int64 \[3, 1\]"),
        ({"test_labels": np.zeros(3)}, r"labels must be 3 integers, .* got float64 \[3\]"),
        ({"test_labels": np.zeros(3), "class_names": None}, r"3 integers, .* got float64 \[3\]"),
        ({"train_labels": np.array([0, 1, 2, 3, 9])}, r"label 3 of image 3 .* 3 classes, 0 to 2"),
        ({"test_labels": np.array([0, -2, 9])}, r": test: label -2 of image 1 is out of range"),
        ({"train_labels": np.array([0, 1, 2, 0, 10**12]), "class_names": None},
         r"there is a label 1000000000000, and only 8 images"),
        ({"class_names": np.array(["ant", None], object)}, r"class_names is no plain array"),
    ],
)  # fmt: skip
def test_a_mirror_file_that_cannot_be_used_says_why(
    changed: dict[str, Any], message: str, mirror: Path
) -> None:
    write(mirror, **changed)
    with pytest.raises(InputError, match=message) as caught:
        load("Mine", data_dir=mirror)
    assert str(mirror / "Mine.npz") in str(caught.value)


def test_the_remedies_offered_work(mirror: Path) -> None:
    grey, first = GREY[..., None], pixels(5).transpose(0, 3, 1, 2)
    repaired = [
        np.repeat(GREY[..., None], 3, axis=-1), np.repeat(grey, 3, axis=-1),
        np.moveaxis(first, 1, -1), (255 * (pixels(5) / 255)).round().astype(np.uint8),
    ]  # fmt: skip
    for images in repaired:
        write(mirror, train_images=images)
        assert same(load("Mine", data_dir=mirror).split("train"), images, [0, 1, 2, 0, 1])


def test_a_damaged_file_is_told_from_a_good_one(mirror: Path) -> None:
    file = mirror / "Mine.npz"
    for content in (b"", b"hello", zipped := packed_bytes()[:-30]):
        file.write_bytes(content)
        with pytest.raises(InputError, match=r"Mine\.npz is truncated or no \.npz file .*: copy"):
            load("Mine", data_dir=mirror)
    assert len(zipped) > 100
    whole = bytearray(packed_bytes())
    inside = whole.index(arrays_fixed()["train_images"].tobytes()[:40])
    whole[inside + 5] ^= 255
    file.write_bytes(whole)
    with pytest.raises(InputError, match=r"Mine\.npz is damaged in train_images .*CRC"):
        load("Mine", data_dir=mirror)
    np.save(mirror / "one.npy", pixels(2))
    shutil.copy(mirror / "one.npy", file)
    with pytest.raises(InputError, match="is one array"):
        load("Mine", data_dir=mirror)


def test_a_damaged_compressed_file_is_told_too(mirror: Path) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays_fixed())
    with zipfile.ZipFile(buffer) as archive:
        start = archive.getinfo("train_images.npy").header_offset
    damaged = bytearray(buffer.getvalue())
    damaged[start + 60 : start + 120] = b"\xff" * 60
    (mirror / "Mine.npz").write_bytes(damaged)
    with pytest.raises(InputError, match="is damaged in train_images"):
        load("Mine", data_dir=mirror)


@functools.cache
def arrays_fixed() -> dict[str, Any]:
    return arrays()


def packed_bytes() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays_fixed())
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("changed", "got"),
    [({}, "3 classes and 32 pixels"), ({"class_names": np.arange(10)}, "10 classes and 16 pixels")],
)
def test_a_file_of_another_set_is_not_taken_for_a_known_one(
    changed: dict[str, Any], got: str, mirror: Path
) -> None:
    side = int(got.split()[3])
    write(mirror, "cifar10", train_images=pixels(5, side), test_images=pixels(3, side), **changed)
    with pytest.raises(InputError, match=f"cifar10.npz is not CIFAR10: {got}.* it has 10 and 32"):
        load("CIFAR10", data_dir=mirror)


# The real CIFAR files


needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="no ../shared/data/images")


@needs_real
@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_packed_files_are_named_with_the_command_that_unpacks_them(name: str) -> None:
    message = rf"{name}\.npz is packed; .*python unpack\.py {name} OUT .*--full.*--data-dir OUT"
    with pytest.raises(InputError, match=message):
        load(name, data_dir=REAL)


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
    found = load(name, data_dir=tmp_path)
    train, test = found.split("train"), found.split("test")
    assert (len(train), len(test), found.size) == (*sizes, (32, 32))
    assert found.whole is False
    for part in (train, test):
        counts = part.labels.bincount(minlength=found.n_classes)
        assert counts.tolist() == [len(part) // found.n_classes] * found.n_classes
    flat = train.images[::4].permute(1, 0, 2, 3).reshape(3, -1).double() / 255
    torch.testing.assert_close(flat.mean(1), torch.tensor(mean).double(), rtol=0, atol=5e-3)
    torch.testing.assert_close(flat.std(1), torch.tensor(std).double(), rtol=0, atol=5e-3)
    assert found.class_names == tuple(sorted(found.class_names))


# torchvision's layouts, tiny and with checksums of their own


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def fake_cifar(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Pickles as in the archive: rows of 3072 numbers, red, green, blue plane after plane."""
    kind = getattr(tv, name)
    root = folder / kind.base_folder
    root.mkdir(parents=True)
    n_classes = KNOWN[name].n_classes
    written: dict[str, Any] = {}
    for split, attribute in (("train", "train_list"), ("test", "test_list")):
        images: list[NDArray[np.uint8]] = []
        labels: list[int] = []
        sums: list[list[str]] = []
        for file, _ in getattr(kind, attribute):
            part, chosen = pixels(4, side=32), rng.integers(0, n_classes, 4).tolist()
            rows = np.stack([np.concatenate([im[..., c].ravel() for c in range(3)]) for im in part])
            key = "labels" if name == "CIFAR10" else "fine_labels"
            (root / file).write_bytes(pickle.dumps({"data": rows, key: chosen}, protocol=2))
            images, labels = [*images, part], [*labels, *chosen]
            sums.append([file, md5(root / file)])
        monkeypatch.setattr(kind, attribute, sums)
        written[split] = np.concatenate(images), labels
    names = [f"class {i}" for i in range(n_classes)]
    meta = root / kind.meta["filename"]
    meta.write_bytes(pickle.dumps({kind.meta["key"]: names}, protocol=2))
    monkeypatch.setattr(kind, "meta", kind.meta | {"md5": md5(meta)})
    return written


def fake_stl10(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, NDArray[np.uint8]]:
    """Binary files as in the archive: plane after plane, column after column, labels from 1."""
    root = folder / "stl10_binary"
    root.mkdir(parents=True)
    written = {split: pixels(n, side=96) for split, n in
               (("train", 10), ("test", 5), ("unlabeled", 3))}  # fmt: skip
    for split, images in written.items():
        columns = [np.asfortranarray(im[..., c]).ravel("F") for im in images for c in range(3)]
        (root / f"{split}_X.bin").write_bytes(b"".join(c.tobytes() for c in columns))
    (root / "train_y.bin").write_bytes(bytes(range(1, 11)))
    (root / "test_y.bin").write_bytes(bytes([10, 1, 2, 3, 4]))
    (root / "class_names.txt").write_text("\n".join(f"class {i}" for i in range(10)))
    for attribute in ("train_list", "test_list"):
        listed = [[file, md5(root / file)] for file, _ in getattr(tv.STL10, attribute)]
        monkeypatch.setattr(tv.STL10, attribute, listed)
    return written


@pytest.mark.parametrize("name", ["CIFAR10", "CIFAR100"])
def test_cifar_is_read_as_torchvision_lays_it_out(
    name: str, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = fake_cifar(mirror, name, monkeypatch)
    assert locate(name, data_dir=mirror) == mirror / sources.SITES[name].folder
    found = load(name, data_dir=mirror)
    for split, (images, labels) in written.items():
        assert same(found.split(split), images, labels)
    assert found.class_names[:2] == ("class 0", "class 1")
    assert found.n_classes == KNOWN[name].n_classes
    with pytest.raises(InputError, match=f"split of {name} 'unlabeled'; known: train, test"):
        load(name, data_dir=mirror, splits=("unlabeled",))
    n_classes, side = KNOWN[name].n_classes, 32
    write(mirror, name, train_images=pixels(2, side), train_labels=np.arange(2),
          test_images=pixels(2, side), test_labels=np.arange(2),
          class_names=np.arange(n_classes))  # fmt: skip
    assert len(load(name, data_dir=mirror).split("train")) == 2  # the npz comes first


def test_files_of_cifar_that_are_absent_or_changed_are_named(
    mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cifar(mirror, "CIFAR10", monkeypatch)
    root = mirror / "cifar-10-batches-py"
    (root / "data_batch_3").unlink()
    with (root / "test_batch").open("ab") as file:
        file.write(b"x")
    with pytest.raises(InputError) as caught:
        load("CIFAR10", data_dir=mirror)
    text = str(caught.value)
    assert f"{root} is incomplete or damaged: no data_batch_3, test_batch has another che" in text
    assert f"unpack {NOWHERE}" in text
    shutil.rmtree(root)
    fake_cifar(mirror, "CIFAR10", monkeypatch)
    (root / "batches.meta").unlink()
    with pytest.raises(InputError, match=r"damaged: no batches\.meta;"):
        load("CIFAR10", data_dir=mirror)


def test_stl10_is_read_as_torchvision_lays_it_out(
    mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = fake_stl10(mirror, monkeypatch)
    found = load("stl10", data_dir=mirror)
    assert list(found.splits) == ["train", "test"]
    assert same(found.split("train"), written["train"], range(10))
    assert same(found.split("test"), written["test"], [9, 0, 1, 2, 3])
    assert (found.size, found.n_classes, found.whole) == ((96, 96), 10, False)
    found = load("STL10", data_dir=mirror, splits=("train+unlabeled", "unlabeled"))
    assert same(found.split("unlabeled"), written["unlabeled"], [-1] * 3)
    both = np.concatenate([written["train"], written["unlabeled"]])
    assert same(found.split("train+unlabeled"), both, [*range(10), -1, -1, -1])
    with pytest.raises(InputError, match=r"split of STL10 'extra'; .*known: train, train\+unl"):
        load("STL10", data_dir=mirror, splits=("extra",))
    (mirror / "stl10_binary" / "class_names.txt").unlink()
    with pytest.raises(InputError, match=r"damaged: no class_names\.txt; unpack"):
        load("STL10", data_dir=mirror)


# TinyImageNet's folders


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, mirror: Path) -> Path:
    """Three classes of two images and three validation images, the second training image grey."""
    monkeypatch.setitem(datasets.KNOWN, "TinyImageNet", Known(6, 3, 3, 64))
    return write_tiny(mirror / "tiny-imagenet-200")


WNIDS = ["n03", "n01", "n02"]  # the file's order is not theirs


def write_tiny(root: Path) -> Path:
    shade = iter(range(0, 250, 20))

    def image(path: Path, mode: str = "RGB") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        level = next(shade)
        Image.new(mode, (64, 64), level if mode == "L" else (level, level, level)).save(path)

    for wnid in sorted(WNIDS):
        for i in range(2):
            file = root / "train" / wnid / "images" / f"{wnid}_{i}.JPEG"
            image(file, "L" if (wnid, i) == ("n01", 1) else "RGB")
    for i in range(3):
        image(root / "val" / "images" / f"val_{i}.JPEG")
    (root / "wnids.txt").write_text("\n".join(WNIDS) + "\n")
    lines = [f"val_{i}.JPEG\t{wnid}\t0\t0\t9\t9\n" for i, wnid in enumerate(["n02", "n01", "n03"])]
    (root / "val" / "val_annotations.txt").write_text("".join(lines))
    return root


def levels(split: Split) -> list[int]:
    """The one grey level of each image, as all its pixels show it."""
    means = split.images.double().mean((1, 2, 3))
    assert (split.images.double() - means[:, None, None, None]).abs().max() <= 1
    return means.round().long().tolist()


def test_tiny_imagenet_is_read_from_its_folders(tiny: Path) -> None:
    found = load("tiny-imagenet", data_dir=tiny.parent)
    train, test = found.split("train"), found.split("test")
    assert (found.size, found.class_names, found.whole) == ((64, 64), ("n01", "n02", "n03"), True)
    assert (levels(train), train.labels.tolist()) == ([0, 20, 40, 60, 80, 100], [0, 0, 1, 1, 2, 2])
    assert (levels(test), test.labels.tolist()) == ([120, 140, 160], [1, 0, 2])


def test_tiny_imagenet_is_decoded_once_until_it_changes(
    tiny: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    first = load("TinyImageNet", data_dir=tiny.parent)
    assert capfd.readouterr().err == ""  # no bar: this is no terminal
    (kept,) = cache.glob("*")
    assert re.fullmatch(r"TinyImageNet-[0-9a-f]{12}\.npz", kept.name)
    with monkeypatch.context() as patch:
        patch.setattr(Image, "open", None)
        again = load("TinyImageNet", data_dir=tiny.parent)
        only = load("TinyImageNet", data_dir=tiny.parent, splits=("test",))
    assert list(only.splits) == ["test"]
    for split, part in first.splits.items():
        assert torch.equal(part.images, again.split(split).images)
        assert torch.equal(part.labels, again.split(split).labels)
    assert again.class_names == first.class_names
    wnids = tiny / "wnids.txt"
    os.utime(wnids, ns=(0, wnids.stat().st_mtime_ns + 1))
    load("TinyImageNet", data_dir=tiny.parent)
    assert len(list(cache.glob("*"))) == 2
    with pytest.raises(InputError, match="cannot be had"):  # a mirror's copy is not the cache's
        load("TinyImageNet")


def test_tiny_imagenet_is_read_where_nothing_can_be_kept(tiny: Path, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("in the way")
    assert len(load("TinyImageNet", data_dir=tiny.parent).split("train")) == 6
    assert cache.read_text() == "in the way"


def test_one_split_of_tiny_imagenet_is_not_kept_for_both(tiny: Path, cache: Path) -> None:
    assert len(load("TinyImageNet", data_dir=tiny.parent, splits=("test",)).split("test")) == 3
    assert not cache.exists()


def test_faults_of_tiny_imagenet_are_named(tiny: Path) -> None:
    def refused(message: str) -> None:
        with pytest.raises(InputError, match=message):
            load("TinyImageNet", data_dir=tiny.parent)

    listed = tiny / "val" / "val_annotations.txt"
    lines = listed.read_text()
    listed.write_text(lines.replace("val_1.JPEG\tn01", "val_1.JPEG n01"))
    refused(r"val_annotations.txt, line 2: expected a file name, a tab .* 3 classes .*'val_1.JPEG ")
    listed.write_text(lines.replace("\tn03", "\tn09"))
    refused(r"val_annotations.txt, line 3: expected")
    listed.write_text(lines.replace("val_2", "val_7"))
    refused(r"val_7.JPEG cannot be read as an image \(.*No such file")
    listed.write_text("")
    refused("there are no images")
    listed.unlink()
    refused(r"there is no .*val_annotations.txt: unpack TinyImageNet anew")
    listed.write_text(lines)
    broken = tiny / "train" / "n02" / "images" / "n02_1.JPEG"
    whole = broken.read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])
    refused(r"n02_1.JPEG cannot be read as an image")
    Image.new("RGB", (32, 64)).save(broken)
    refused(r"n02_1.JPEG is of shape \[64, 32, 3\], those before it of \[64, 64, 3\]")
    shutil.rmtree(broken.parent)
    refused(r"no \*.JPEG images in .*n02/images: unpack")
    (tiny / "wnids.txt").unlink()
    refused(r"there is no .*wnids.txt")


# Downloads


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder served as a download site, and its address."""
    folder = tmp_path / "site"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_cifar_is_downloaded_into_the_cache_once(
    site: tuple[Path, str], cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = site
    written = fake_cifar(tmp_path / "made", "CIFAR10", monkeypatch)
    archive = folder / tv.CIFAR10.filename
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(tmp_path / "made" / "cifar-10-batches-py", "cifar-10-batches-py")
    set_url(monkeypatch, "CIFAR10", f"{address}/{archive.name}")
    monkeypatch.setattr(tv.CIFAR10, "tgz_md5", "0" * 32)
    with pytest.raises(InputError, match=f"download {address}/{archive.name}: .*corrupted"):
        load("CIFAR10")
    assert not list(cache.glob("*"))
    monkeypatch.setattr(tv.CIFAR10, "tgz_md5", md5(archive))
    assert same(load("CIFAR10").split("test"), *written["test"])
    assert [path.name for path in cache.glob("*")] == ["cifar-10-batches-py"]
    archive.unlink()
    assert same(load("CIFAR10").split("train"), *written["train"])
    assert socket.getdefaulttimeout() is None


def test_tiny_imagenet_is_downloaded_whole_or_not_at_all(
    site: tuple[Path, str], cache: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = site
    archive = Path(shutil.make_archive(str(folder / "tiny"), "zip", tiny.parent))
    set_url(monkeypatch, "TinyImageNet", f"{address}/tiny.zip")
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=f"download {address}/tiny.zip: File is not a zip file"):
        load("TinyImageNet")
    assert not list(cache.glob("*"))
    archive.write_bytes(whole)
    assert locate("TinyImageNet") == cache / "tiny-imagenet-200"
    archive.unlink()
    assert len(load("TinyImageNet").split("train")) == 6


def test_a_server_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        for name in ("CIFAR10", "TinyImageNet"):
            set_url(monkeypatch, name, address)
            with pytest.raises(InputError, match=f"download {address}: .*timed out"):
                load(name)
