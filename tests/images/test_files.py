"""Image sets as their publishers pack them: torchvision's layouts, folders, downloads."""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import tarfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision import datasets as tv

from gcl_hard.errors import InputError
from gcl_hard.images import KNOWN, has_dataset
from gcl_hard.images.datasets import Split, load_images
from gcl_hard.images.files import locate
from tests.images.sets import NOWHERE, pixels, rng, same, set_url, write
from tests.said import says

OURS = dict(KNOWN)  # before the tests put addresses of their own there
THEIRS = {
    name: (getattr(tv, name).url, getattr(tv, name).tgz_md5) for name in KNOWN if name in vars(tv)
}

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
    assert locate(name, data_dir=mirror) == mirror / KNOWN[name].folder
    image_set = load_images(name, data_dir=mirror)
    for split, (images, labels) in written.items():
        assert same(image_set.split(split), images, labels)
    assert image_set.class_names[:2] == ("class 0", "class 1")
    assert image_set.n_classes == KNOWN[name].n_classes
    with pytest.raises(InputError, match=rf"\b{name} 'unlabeled'.*\btrain, test$"):
        load_images(name, data_dir=mirror, splits=("unlabeled",))
    n_classes, side = KNOWN[name].n_classes, 32
    write(mirror, name, train_images=pixels(2, side), train_labels=np.arange(2),
          test_images=pixels(2, side), test_labels=np.arange(2),
          class_names=np.arange(n_classes))  # fmt: skip
    assert len(load_images(name, data_dir=mirror).split("train")) == 2  # the npz comes first


def test_files_of_cifar_that_are_absent_or_changed_are_named(
    mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cifar(mirror, "CIFAR10", monkeypatch)
    root = mirror / "cifar-10-batches-py"
    (root / "data_batch_3").unlink()
    with (root / "test_batch").open("ab") as file:
        file.write(b"x")
    with pytest.raises(InputError) as caught:
        load_images("CIFAR10", data_dir=mirror)
    text = str(caught.value)
    assert says(text, str(root), "damaged", f"unpack {NOWHERE}")
    shutil.rmtree(root)
    fake_cifar(mirror, "CIFAR10", monkeypatch)
    (root / "batches.meta").unlink()
    with pytest.raises(InputError, match=rf"{root}\b.*\bdamaged\b"):
        load_images("CIFAR10", data_dir=mirror)


def test_stl10_is_read_as_torchvision_lays_it_out(
    mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = fake_stl10(mirror, monkeypatch)
    image_set = load_images("stl10", data_dir=mirror)
    assert list(image_set.splits) == ["train", "test"]
    assert same(image_set.split("train"), written["train"], range(10))
    assert same(image_set.split("test"), written["test"], [9, 0, 1, 2, 3])
    assert (image_set.size, image_set.n_classes) == ((96, 96), 10)
    image_set = load_images("STL10", data_dir=mirror, splits=("train+unlabeled", "unlabeled"))
    assert same(image_set.split("unlabeled"), written["unlabeled"], [-1] * 3)
    both = np.concatenate([written["train"], written["unlabeled"]])
    assert same(image_set.split("train+unlabeled"), both, [*range(10), -1, -1, -1])
    with pytest.raises(InputError, match=r"\bSTL10 'extra'.*\btrain, train\+unl"):
        load_images("STL10", data_dir=mirror, splits=("extra",))
    (mirror / "stl10_binary" / "class_names.txt").unlink()
    with pytest.raises(InputError, match=r"\bdamaged\b.*\bunpack\b"):
        load_images("STL10", data_dir=mirror)


# TinyImageNet's folders


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, mirror: Path) -> Path:
    """Three classes of two images and three validation images, the second training image grey."""
    tiny = KNOWN["TinyImageNet"]._replace(n_train=6, n_test=3, n_classes=3)
    monkeypatch.setitem(KNOWN, "TinyImageNet", tiny)
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
    image_set = load_images("tiny-imagenet", data_dir=tiny.parent)
    train, test = image_set.split("train"), image_set.split("test")
    assert (image_set.size, image_set.class_names) == ((64, 64), ("n01", "n02", "n03"))
    assert (levels(train), train.labels.tolist()) == ([0, 20, 40, 60, 80, 100], [0, 0, 1, 1, 2, 2])
    assert (levels(test), test.labels.tolist()) == ([120, 140, 160], [1, 0, 2])


def test_tiny_imagenet_is_decoded_once_until_it_changes(
    tiny: Path,
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    first = load_images("TinyImageNet", data_dir=tiny.parent)
    assert capfd.readouterr().err == ""  # no bar: this is no terminal
    (kept,) = cache.glob("*")
    assert kept.name.startswith("TinyImageNet-")
    with monkeypatch.context() as patch:
        patch.setattr(Image, "open", None)
        again = load_images("TinyImageNet", data_dir=tiny.parent)
        only = load_images("TinyImageNet", data_dir=tiny.parent, splits=("test",))
    assert list(only.splits) == ["test"]
    for split, part in first.splits.items():
        assert torch.equal(part.images, again.split(split).images)
        assert torch.equal(part.labels, again.split(split).labels)
    assert again.class_names == first.class_names
    wnids = tiny / "wnids.txt"
    os.utime(wnids, ns=(0, wnids.stat().st_mtime_ns + 1))
    shutil.copytree(tiny, tmp_path / "copy" / tiny.name)
    load_images("TinyImageNet", data_dir=tmp_path / "copy")
    load_images("TinyImageNet", data_dir=tiny.parent)
    assert not kept.exists()
    assert len(list(cache.glob("*"))) == 2  # of the copy and of the new state
    # a mirror's copy is not the cache's
    with pytest.raises(InputError, match=r"'TinyImageNet'(.|\n)*tiny-imagenet-200"):
        load_images("TinyImageNet")


def test_faults_of_tiny_imagenet_are_named(tiny: Path) -> None:
    def refused(message: str) -> None:
        with pytest.raises(InputError, match=message):
            load_images("TinyImageNet", data_dir=tiny.parent)

    listed = tiny / "val" / "val_annotations.txt"
    lines = listed.read_text()
    listed.write_text(lines.replace("val_1.JPEG\tn01", "val_1.JPEG n01"))
    refused(r"val_annotations\.txt, line 2\b.*\btab\b.* 3 classes .*'val_1\.JPEG ")
    listed.write_text(lines.replace("\tn03", "\tn09"))
    refused(r"val_annotations\.txt, line 3\b.*\btab\b")
    listed.write_text(lines.replace("val_2", "val_7"))
    refused(r"val_7\.JPEG\b.*\bread\b.*No such file")
    listed.write_text("")
    refused(r": test: .*\bimages\b.*\[0, 64, 64, 3\]")
    listed.unlink()
    with pytest.raises(FileNotFoundError, match=r"val_annotations\.txt"):
        load_images("TinyImageNet", data_dir=tiny.parent)
    listed.write_text(lines)
    broken = tiny / "train" / "n02" / "images" / "n02_1.JPEG"
    whole = broken.read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])
    refused(r"n02_1\.JPEG\b.*\bread\b.*\b[Tt]runcated\b")
    Image.new("RGB", (32, 64)).save(broken)
    refused(r"n02_1\.JPEG\b.*\bread\b.*\b32 × 64 pixels\D+64 × 64\b")
    shutil.rmtree(broken.parent)
    refused(r"\*\.JPEG\b.*n02/images\b.*\bunpack\b")


# Downloads


def test_cifar_is_downloaded_into_the_cache_once(
    site: tuple[Path, str], cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = site
    written = fake_cifar(tmp_path / "made", "CIFAR10", monkeypatch)
    archive = folder / tv.CIFAR10.filename
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(tmp_path / "made" / "cifar-10-batches-py", "cifar-10-batches-py")
    set_url(monkeypatch, "CIFAR10", f"{address}/{archive.name}", checksum="md5:" + "0" * 32)
    with pytest.raises(InputError, match=f"download {address}/{archive.name}: .*{'0' * 32}"):
        load_images("CIFAR10")
    assert not list(cache.glob("*"))
    set_url(monkeypatch, "CIFAR10", f"{address}/{archive.name}", checksum=f"md5:{md5(archive)}")
    assert same(load_images("CIFAR10").split("test"), *written["test"])
    assert [path.name for path in cache.glob("[!.]*")] == ["cifar-10-batches-py"]
    archive.unlink()
    assert same(load_images("CIFAR10").split("train"), *written["train"])


# Folders of classes


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of photos of two classes, of different sizes, a shade each."""
    for split, n in (("train", 6), ("val", 2)):
        for label, name in enumerate(("cat", "dog")):
            folder = tmp_path / "pets" / split / name
            folder.mkdir(parents=True)
            for k in range(n):
                picture = Image.new("RGB", (20 + k, 30 - k), (100 * label, 10 * k, 7))
                picture.save(folder / f"{k}.{'png' if k % 2 else 'bmp'}")
    (tmp_path / "pets" / "train" / "cat" / "notes.txt").write_text("no image")
    return tmp_path


def test_a_folder_of_classes_is_an_image_set(photos: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert has_dataset("pets", photos)
    image_set = load_images("pets", data_dir=photos, cache_dir=cache)
    assert image_set.class_names == ("cat", "dog")
    train, test = image_set.split("train"), image_set.split("test")
    assert train.images.shape == (12, 3, 20, 20)
    assert test.labels.tolist() == [0, 0, 1, 1]
    assert train.images[:, 0].float().mean((1, 2)).tolist() == [0] * 6 + [100] * 6
    assert train.images[:, 1].float().mean((1, 2)).tolist() == [0, 10, 20, 30, 40, 50] * 2
    assert len(list(cache.rglob("pets-*"))) == 1
    again = load_images("pets", data_dir=photos, cache_dir=cache)
    assert torch.equal(again.split("test").images, test.images)
    extra = photos / "pets" / "train" / "cat" / "9.png"
    Image.new("RGB", (40, 40)).save(extra)
    assert len(load_images("pets", data_dir=photos, cache_dir=cache).split("train")) == 13
    Image.new("RGB", (40, 40), (200, 200, 200)).save(extra)
    image_set = load_images("pets", data_dir=photos, cache_dir=cache).split("train")
    assert image_set.images.amax() == 200
    Image.new("I;16", (40, 40)).save(extra)
    with pytest.raises(InputError, match=r"\b8 bits\b.*\b255\b"):
        load_images("pets", data_dir=photos, cache_dir=cache)


def test_what_is_wrong_with_a_folder_of_classes_is_said(photos: Path, tmp_path: Path) -> None:
    broken = photos / "pets" / "train" / "cat" / "8.png"
    broken.write_text("no image")
    with pytest.raises(InputError, match=r"8\.png\b.*\bread\b"):
        load_images("pets", data_dir=photos, cache_dir=tmp_path)
    for k in range(22):
        (photos / "pets" / "val" / "dog" / f"broken{k}.jpg").write_text("no image")
    with pytest.raises(InputError) as caught:
        load_images("pets", data_dir=photos, cache_dir=tmp_path)
    assert "broken3.jpg" in str(caught.value)
    assert says(str(caught.value), "3 more")
    assert not [*(tmp_path / "images").glob("*")]  # nothing half-written
    for k in range(22):
        (photos / "pets" / "val" / "dog" / f"broken{k}.jpg").unlink()
    broken.unlink()
    (photos / "pets" / "train" / "ant").mkdir()
    with pytest.raises(InputError, match=r"/ant\b.*\bimages\b"):
        load_images("pets", data_dir=photos, cache_dir=tmp_path)
    (photos / "pets" / "train" / "ant").rmdir()
    (photos / "pets" / "val" / "cow").mkdir()
    with pytest.raises(InputError, match=r"/cow\b.*\bclass\b"):
        load_images("pets", data_dir=photos, cache_dir=tmp_path)
    shutil.rmtree(photos / "pets" / "val")
    with pytest.raises(InputError, match=r"\bimages\b.*test/CLASS/"):
        load_images("pets", data_dir=photos, cache_dir=tmp_path)
    (photos / "pets").rename(photos / "digits")
    with pytest.raises(InputError, match=r"/digits\b.*\bknown\b"):
        load_images("digits", data_dir=photos, cache_dir=tmp_path)


def test_images_of_any_mode_become_rgb(tmp_path: Path) -> None:
    colour, modes = (200, 40, 90), ("RGB", "RGBA", "CMYK", "P", "L", "LA", "1", "YCbCr")
    for part in ("train", "test"):
        for name, mode in zip("abcdefgh", modes, strict=True):
            folder = tmp_path / "modes" / part / name
            folder.mkdir(parents=True)
            picture = Image.new("RGB", (9, 9), colour).convert(mode)
            picture.save(folder / ("0.tif" if mode in ("CMYK", "YCbCr") else "0.png"))
    split = load_images("modes", data_dir=tmp_path, cache_dir=tmp_path / "cache").split("test")
    means = split.images.float().mean((2, 3))
    for n, mode in enumerate(modes):
        expected = Image.new("RGB", (9, 9), colour).convert(mode).convert("RGB")
        np.testing.assert_allclose(means[n], np.asarray(expected).mean((0, 1)), atol=0.5)


def test_a_folder_is_decoded_once_by_whatever_path(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    load_images("pets", data_dir=photos, cache_dir=cache)
    monkeypatch.chdir(photos)
    load_images("pets", data_dir=".", cache_dir=cache)
    assert len([*cache.rglob("pets-*")]) == 1


def test_images_of_folders_stay_on_the_disk(photos: Path, tmp_path: Path) -> None:
    for k in range(40):
        noise = np.random.default_rng(k).integers(0, 256, (160, 200, 3), dtype=np.uint8)
        for part in ("train", "val"):
            Image.fromarray(noise).save(photos / "pets" / part / "dog" / f"noise{k}.png")
    for small in (photos / "pets").rglob("[0-9].*"):
        Image.new("L", (300, 170)).save(small)
    split = load_images("pets", data_dir=photos, cache_dir=tmp_path / "cache").split("train")
    mapped = Path("/proc/self/maps").read_text() if Path("/proc/self/maps").exists() else None
    assert split.images.shape == (52, 3, 160, 160)
    assert split.images.is_contiguous()
    assert mapped is None or str(tmp_path / "cache") in mapped
    middle = Image.open(photos / "pets" / "train" / "dog" / "noise7.png").crop((20, 0, 180, 160))
    index = [*sorted((photos / "pets" / "train" / "cat").glob("*.[bp]*"))]
    names = sorted(path.name for path in (photos / "pets" / "train" / "dog").iterdir())
    shown = split.images[len(index) + names.index("noise7.png")]
    assert torch.equal(shown, torch.from_numpy(np.array(middle)).permute(2, 0, 1))


def test_classes_without_a_split_are_split(photos: Path, tmp_path: Path) -> None:
    flat = photos / "flat"
    for name in ("cat", "dog"):
        shutil.copytree(photos / "pets" / "train" / name, flat / name)
    assert has_dataset("flat", photos)
    image_set = load_images("flat", data_dir=photos, cache_dir=tmp_path / "cache")
    train, test = image_set.split("train"), image_set.split("test")
    assert (len(train), len(test)) == (9, 3)
    assert {*test.labels.tolist()} == {*train.labels.tolist()} == {0, 1}
    seen = [tuple(image[:2, 0, 0].tolist()) for image in (*train.images, *test.images)]
    assert sorted(seen) == [(100 * label, 10 * k) for label in (0, 1) for k in range(6)]
    again = load_images("flat", data_dir=photos, cache_dir=tmp_path / "other")
    assert torch.equal(again.split("test").images, test.images)
    for path in sorted((flat / "dog").iterdir())[1:]:
        path.unlink()
    with pytest.raises(InputError, match=r"\b7 images\b.*train/.*test/"):
        load_images("flat", data_dir=photos, cache_dir=tmp_path / "cache")


def test_a_single_small_image_is_named(photos: Path, tmp_path: Path) -> None:
    small = photos / "pets" / "train" / "dog" / "small.png"
    Image.new("RGB", (9, 30)).save(small)
    for _ in range(2):  # decoded, and from the cache
        with pytest.warns(UserWarning, match=f"{small} .* 9 pixels"):
            image_set = load_images("pets", data_dir=photos, cache_dir=tmp_path)
        assert image_set.size == (9, 9)
    Image.new("RGB", (3, 30)).save(small)
    with pytest.raises(InputError, match=f"{small} .* 3 pixels"):
        load_images("pets", data_dir=photos, cache_dir=tmp_path)
    Image.new("RGB", (14, 30)).save(small)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_images("pets", data_dir=photos, cache_dir=tmp_path)


def test_addresses_and_checksums_are_those_of_torchvision() -> None:
    assert THEIRS.keys() == {"CIFAR10", "CIFAR100", "STL10"}
    for name, (url, md5) in THEIRS.items():
        encrypted = url.replace("http://", "https://")
        assert (OURS[name].url, OURS[name].checksum) == (encrypted, f"md5:{md5}")
