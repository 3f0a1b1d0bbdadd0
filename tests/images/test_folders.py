"""Folders of images: parts and classes, links, what is left out, and how pictures are decoded."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torchvision.datasets import ImageFolder

from gcl_hard.errors import InputError
from gcl_hard.images import decoding, has_dataset, load_images
from gcl_hard.images.datasets import ImageSet
from gcl_hard.images.files import paths
from tests.said import says

SIDE = 8


def put(path: Path, shade: int = 0, kind: str | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (SIDE, SIDE), (shade, 0, 0)).save(path, kind)


def image_folder(tmp_path: Path, *folders: str, n: int = 2) -> Path:
    """The folder ``set`` with n images in each of some folders, of one shade per folder."""
    for shade, folder in enumerate(folders):
        for i in range(n):
            put(tmp_path / "set" / folder / f"{i}.png", shade)
    return tmp_path / "set"


def read(path: Path) -> ImageSet:
    return load_images(path.name, data_dir=path.parent, cache_dir=path.parent / "cache")


def shades(images: Tensor) -> list[int]:
    return images[:, 0, 0, 0].tolist()


@contextmanager
def warned(*facts: object) -> Iterator[None]:
    """One warning that states some facts, and no other."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    (only,) = caught
    assert says(str(only.message), *facts)


def refused(path: Path, *facts: object) -> None:
    with pytest.raises(InputError) as caught:
        read(path)
    assert says(str(caught.value), *facts)


# Parts of a split, and classes


@pytest.mark.parametrize(
    ("train", "test"),
    [("train", "test"), ("Train", "Test"), ("TRAIN", "VAL"), ("training", "testing"),
     ("train", "Valid"), ("Training", "validation"), ("train", "dev")],
)  # fmt: skip
def test_a_split_is_read_as_torchvision_reads_its_parts(
    train: str, test: str, tmp_path: Path
) -> None:
    folders = [f"{part}/{name}" for part in (train, test) for name in ("cat", "cat/b", "dog")]
    root = image_folder(tmp_path, *folders)
    image_set = read(root)
    assert has_dataset("set", tmp_path)
    for part, name in (("train", train), ("test", test)):
        theirs = ImageFolder(str(root / name))
        split = image_set.split(part)
        assert image_set.class_names == tuple(theirs.classes)
        assert split.labels.tolist() == theirs.targets
        assert shades(split.images) == [image.getpixel((0, 0))[0] for image, _ in theirs]
        assert split.ids is not None
        assert split.ids.tolist() == [
            Path(file).relative_to(root).as_posix() for file, _ in theirs.samples
        ]


@pytest.mark.parametrize(
    "names",
    [
        ("train", "plane", "car"), ("trains", "valley", "testudo"), ("test", "control"),
        ("val", "hill"), ("train/steam", "train/diesel", "plane", "car"),
        ("cat/in", "dog/out", "dog"), ("train", "train/night", "plane", "plane/night"),
        ("contrast", "attestA"), ("TRAINEE", "TESTER"),
    ],
)  # fmt: skip
def test_classes_that_are_called_like_parts_are_classes(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    image_set = read(image_folder(tmp_path, *names, n=5))
    classes = sorted({name.partition("/")[0] for name in names})
    assert image_set.class_names == tuple(classes)
    for part in image_set.splits.values():
        folders = [names[shade].partition("/")[0] for shade in shades(part.images)]
        assert folders == [image_set.class_names[label] for label in part.labels.tolist()]
    assert sum(map(len, image_set.splits.values())) == 5 * len(names)


def test_a_class_of_a_split_may_be_called_train(tmp_path: Path) -> None:
    folders = [
        f"{part}/{name}" for part in ("train", "test") for name in ("plane", "test", "train")
    ]
    image_set = read(image_folder(tmp_path, *folders))
    assert image_set.class_names == ("plane", "test", "train")
    assert shades(image_set.split("test").images) == [3, 3, 4, 4, 5, 5]


@pytest.mark.parametrize(
    "folders",
    [
        ["train", "test"], ["Training", "Validation", "plane"], ["trainA", "trainB", "testA"],
        ["seg_train/cat", "seg_train/dog", "seg_test/cat"], ["TrainSet", "TestSet"],
        ["train/cat", "train/dog", "holdout/cat", "holdout/dog"],
        ["train/cat", "train/dog", "cat", "dog"], ["train/cat", "train/dog"],
        ["pets/train/cat", "pets/test/cat"], ["cat/train", "cat/test", "dog/train", "dog/test"],
        ["images/train", "images/val", "labels/train"], ["train/cat", "train/dog", "test"],
        ["fold1/cat", "fold1/dog", "fold2/cat", "fold2/dog"],
        ["train/all/cat", "train/all/dog", "test/all/cat"],
    ],
)  # fmt: skip
def test_folders_that_are_in_no_layout_are_shown_with_what_is_read(
    folders: list[str], tmp_path: Path
) -> None:
    root = image_folder(tmp_path, *folders, n=5)
    with pytest.raises(InputError) as caught:
        read(root)
    assert says(str(caught.value), "train/CLASS/", "test/CLASS/", "CLASS/")
    assert f"{min(root.iterdir()).name}/" in str(caught.value)


@pytest.mark.parametrize(
    ("folders", "facts"),
    [
        (["train/cat", "Train/cat", "test/cat"], ["set/train", "set/Train"]),
        (["train/cat", "valid/cat", "validation/cat"], ["set/valid", "set/validation"]),
        (["train/cat", "test/cat", "test/cow"], ["test/cow", "class", "training"]),
    ],
)
def test_two_readings_of_a_part_are_refused(
    folders: list[str], facts: list[object], tmp_path: Path
) -> None:
    refused(image_folder(tmp_path, *folders), *facts)


def test_a_part_that_is_not_used_is_named_with_its_images(tmp_path: Path) -> None:
    folders = [f"{part}/{name}" for part in ("train", "val", "test") for name in ("cat", "dog")]
    root = image_folder(tmp_path, *folders)
    with warned(4, "images", str(root / "val" / "cat" / "0.png")):
        image_set = read(root)
    assert shades(image_set.split("test").images) == [4, 4, 5, 5]
    for file in [*root.glob("test/*/*")]:
        file.rename(file.parents[1] / f"{file.parent.name}{file.name}")
    for name in ("cat", "dog"):
        (root / "test" / name).rmdir()
    with warned(4, "images", str(root / "test" / "cat0.png")):  # without folders of classes
        assert shades(read(root).split("test").images) == [2, 2, 3, 3]


@pytest.mark.parametrize("where", ["", "train", "test"])
def test_images_beside_the_folders_of_classes_are_counted(where: str, tmp_path: Path) -> None:
    root = image_folder(tmp_path, "train/cat", "train/dog", "test/cat", "test/dog")
    for i in range(3):
        put(root / where / f"{i}.png")
    with warned(3, "images", "outside", str(root / where / "0.png")):
        assert len(read(root).split("train")) == 4


# Links


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    return image_folder(tmp_path, "train/cat", "train/dog", "test/cat", "test/dog")


def test_links_to_what_they_lie_in_are_not_followed(pets: Path) -> None:
    """Two of them are 2^40 paths for torchvision."""
    for name in ("one", "two"):
        (pets / "train" / "cat" / name).symlink_to(".")
    with warned(2, "links", str(pets / "train" / "cat" / "one")):
        image_set = read(pets)
    assert shades(image_set.split("train").images) == [0, 0, 1, 1]


def test_links_to_folders_and_files_elsewhere_are_followed(tmp_path: Path) -> None:
    store = image_folder(tmp_path, "a", "a/b", "c", "d").rename(tmp_path / "store")
    root = tmp_path / "set"
    for part, name, target in (("train", "cat", "a"), ("train", "dog", "c"), ("test", "dog", "d")):
        (root / part).mkdir(parents=True, exist_ok=True)
        (root / part / name).symlink_to(store / target, target_is_directory=True)
    put(root / "test" / "cat" / "0.png", 9)
    (root / "test" / "cat" / "1.png").symlink_to(root / "target.bin")
    put(root / "target.bin", 8, "PNG")
    image_set = read(root)
    assert shades(image_set.split("train").images) == [0, 0, 1, 1, 2, 2]
    assert shades(image_set.split("test").images) == [9, 8, 3, 3]
    assert {*paths("set", data_dir=tmp_path)} == {*root.glob("*/*/*.png")} | {
        root / "train" / "cat" / "b" / f"{i}.png" for i in range(2)
    }


def test_links_to_one_folder_or_file_twice_give_each_image_once(tmp_path: Path) -> None:
    root = image_folder(tmp_path, "train/cat", "train/dog", "test/cat", "test/dog", "../store/in")
    store = tmp_path / "store"
    for name, target in (("x", store), ("y", store), ("z", store / "in")):
        (root / "train" / "dog" / name).symlink_to(target, target_is_directory=True)
    with warned(2, "links", str(root / "train/dog/y"), str(root / "train/dog/z")):
        assert shades(read(root).split("train").images) == [0, 0, 1, 1, 4, 4]
    for name in "xyz":
        (root / "train" / "dog" / name).unlink()
    (root / "train" / "dog" / "9.png").symlink_to("0.png")
    with warned(1, "links", str(root / "train/dog/9.png")):
        assert shades(read(root).split("train").images) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("link", "target"),
    [("train/cat/more", "../dog"), ("train/cow", "dog"), ("train/cat/9.png", "../dog/0.png")],
)
def test_a_file_of_two_classes_is_refused(link: str, target: str, pets: Path) -> None:
    (pets / link).symlink_to(target)
    refused(pets, str(pets / "train/dog/0.png"), "two", "classes")


@pytest.mark.parametrize("link", ["train/cow", "train/cat/5.png"])
def test_a_link_to_nothing_is_named(link: str, pets: Path) -> None:
    (pets / link).symlink_to(pets / "gone")
    with pytest.raises(FileNotFoundError, match=link):
        read(pets)


# Which files are images


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("x.jfif", "JPEG"), ("x.JPE", "JPEG"), ("x.jp2", "JPEG2000"), ("x.tga", "TGA"),
        ("x.apng", "PNG"), ("x.qoi", "QOI"), ("x", "PNG"), ("photo 12", "JPEG"),
    ],
)  # fmt: skip
def test_whatever_picture_pillow_opens_is_read(name: str, kind: str, pets: Path) -> None:
    put(pets / "train" / "cat" / name, 200, kind)
    split = read(pets).split("train")
    assert split.labels.tolist() == [0, 0, 0, 1, 1]
    assert max(shades(split.images)) == pytest.approx(200, abs=3)


@pytest.mark.parametrize("name", ["x.heic", "x.pdf", "x.eps", "x.mpg", "x.h5", "x.png.bak", "x"])
def test_files_that_are_no_pictures_are_counted(name: str, pets: Path) -> None:
    file = pets / "train" / "cat" / name
    file.write_bytes(b"%PDF-1.4 and what not")
    with warned(1, str(file), file.suffix or "suffix"):
        assert len(read(pets).split("train")) == 4


def test_hidden_files_and_companions_of_images_need_no_word(pets: Path) -> None:
    for name in ("Thumbs.db", ".DS_Store", "0.txt", "labels.CSV", "._0.png"):
        (pets / "train" / "cat" / name).write_bytes(b"\0 what not")
    for hidden in (".ipynb_checkpoints", "__MACOSX", "@eaDir/0.png"):
        for where in ("train/cat", "train", ""):
            put(pets / where / hidden / "0.png", 99)
    assert shades(read(pets).split("train").images) == [0, 0, 1, 1]


def test_of_several_pictures_in_a_file_the_first_is_read_with_a_word(pets: Path) -> None:
    pages = [Image.new("RGB", (SIDE, SIDE), (shade, 0, 0)) for shade in (70, 80, 90)]
    for name in ("a.gif", "b.tif", "c.webp"):
        file = pets / "train" / "cat" / name
        pages[0].save(file, save_all=True, append_images=pages[1:], lossless=True)
    for _ in range(2):  # decoded, and from the cache
        with warned("set", 3, "first", str(pets / "train" / "cat" / "a.gif")):
            assert shades(read(pets).split("train").images)[2:5] == [70, 70, 70]


# Names that are no UTF-8


def latin(name: bytes) -> str:
    return os.fsdecode(name)


def test_names_that_are_no_utf8_are_read(tmp_path: Path) -> None:
    root = image_folder(
        tmp_path, latin(b"train/n\xe9e"), latin(b"test/n\xe9e"), "train/tea", "test/tea"
    )
    small = root / "train" / latin(b"n\xe9e") / latin(b"ni\xf1o.png")
    Image.new("RGB", (4, 30)).save(small)
    for file in [*root.glob("t*/*/?.png")]:
        Image.new("RGB", (30, 30)).save(file)
    for _ in range(2):  # decoded, and from the cache
        with pytest.warns(UserWarning, match="4 pixels"):
            image_set = read(root)
    assert image_set.size == (4, 4)
    assert sorted(image_set.class_names) == [r"n\xe9e", "tea"]
    assert "".join(image_set.class_names).encode()
    whole = tmp_path / latin(b"s\xe9t")
    root.rename(whole)
    small.unlink(missing_ok=True)
    (whole / "train" / latin(b"n\xe9e") / small.name).unlink()
    assert len(read(whole).split("test")) == 4


# Decoding


PATTERN = np.arange(SIDE * SIDE, dtype=np.uint8).reshape(SIDE, SIDE) * 3
TURNED = {
    1: PATTERN, 2: PATTERN[:, ::-1], 3: PATTERN[::-1, ::-1], 4: PATTERN[::-1], 5: PATTERN.T,
    6: PATTERN[::-1].T, 7: PATTERN[::-1, ::-1].T, 8: PATTERN.T[::-1],
}  # fmt: skip
"""What a viewer shows for each EXIF orientation."""


@pytest.mark.parametrize("suffix", ["png", "tif", "webp"])
@pytest.mark.parametrize("orientation", TURNED)
def test_images_stand_as_their_exif_data_say(orientation: int, suffix: str, pets: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = pets / "train" / "cat" / f"z.{suffix}"
    Image.fromarray(PATTERN).convert("RGB").save(file, exif=exif, lossless=True)
    shown = read(pets).split("train").images[2]
    assert np.array_equal(shown[1].numpy(), TURNED[orientation])


def test_exif_data_that_cannot_be_read_are_passed_over(pets: Path) -> None:
    file = pets / "train" / "cat" / "z.png"
    Image.fromarray(PATTERN).save(file, exif=b"Exif\0\0 this is none")
    assert np.array_equal(read(pets).split("train").images[2, 0].numpy(), PATTERN)


ALPHA = np.repeat(np.array([0, 51, 255, 255], np.uint8), SIDE * SIDE // 4).reshape(SIDE, SIDE)


@pytest.mark.parametrize(
    "mode", ["RGBA", "LA", "palette", "PNG of a palette", "grey", "GIF", "TGA of a palette"]
)
def test_what_is_transparent_is_shown_on_white(mode: str, pets: Path) -> None:
    """A fully transparent quarter, one of 80 %, where the format has that, and the rest opaque."""
    alpha, hidden = ALPHA.copy(), 40
    if mode not in (
        "RGBA",
        "LA",
        "PNG of a palette",
    ):  # one colour is transparent, and no part of it
        alpha[2:] = 255
    file = pets / "train" / "cat" / ("z.gif" if mode == "GIF" else "z.png")
    grey = np.where(ALPHA == 0, hidden, 120).astype(np.uint8)
    if mode in ("RGBA", "LA", "PNG of a palette"):
        picture = Image.merge("LA", [Image.fromarray(grey), Image.fromarray(ALPHA)])
        picture = picture.convert("RGBA") if mode != "LA" else picture
        picture = picture.quantize(8) if mode == "PNG of a palette" else picture
        picture.save(file)
    elif mode == "TGA of a palette":
        file = file.with_suffix(".tga")
        header = bytes([0, 1, 1, 0, 0, 2, 0, 32, 0, 0, 0, 0, SIDE, 0, SIDE, 0, 8, 0x20])
        colours = bytes([hidden] * 3 + [0] + [120] * 3 + [255])
        file.write_bytes(header + colours + (grey == 120).astype(np.uint8).tobytes())
    elif mode == "grey":
        Image.fromarray(grey).save(file, transparency=hidden)
    else:
        indices = Image.fromarray((grey == 120).astype(np.uint8), "P")
        indices.putpalette([hidden] * 3 + [120] * 3)
        indices.save(file, transparency=0)
    share = alpha / 255
    expected = share * grey + (1 - share) * 255
    shown = read(pets).split("train").images[2].float().numpy()
    np.testing.assert_allclose(shown, np.broadcast_to(expected, (3, SIDE, SIDE)), atol=1.5)


# Images decoded before


def test_files_replaced_with_their_old_sizes_and_times_are_decoded_again(pets: Path) -> None:
    files = sorted(pets.rglob("*.png"))
    for file in files:
        Image.new("RGB", (SIDE, SIDE), (10, 0, 0)).save(file.with_suffix(".bmp"))
        file.unlink()
    assert shades(read(pets).split("test").images) == [10] * 4
    for file in (image.with_suffix(".bmp") for image in files):
        before = file.stat()
        Image.new("RGB", (SIDE, SIDE), (200, 0, 0)).save(file)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (file.stat().st_size, file.stat().st_mtime_ns) == (
            before.st_size,
            before.st_mtime_ns,
        )
    assert shades(read(pets).split("test").images) == [200] * 4


def test_images_decoded_in_another_way_are_decoded_again(
    pets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = read(pets).split("train").images.clone()  # it is mapped
    (kept,) = (pets.parent / "cache" / "images").iterdir()
    before = (kept / "train.npy").stat()
    read(pets)
    assert (kept / "train.npy").stat() == before  # it is read from there
    source = Path(decoding.__file__).read_text(encoding="utf-8")
    changed = pets.parent / "decoding.py"
    changed.write_text(source.replace('"white"', '"black"'), encoding="utf-8")
    monkeypatch.setattr(decoding, "__file__", str(changed))
    assert torch.equal(read(pets).split("train").images, first)
    assert not kept.exists()
