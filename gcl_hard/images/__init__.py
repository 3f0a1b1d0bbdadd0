"""Images: data sets, random views, ResNets, and contrastive models of two views.

Names are imported on first use, so that reading a set does not import torchvision or kornia; here
is what sets are called, and where their files are.
"""

import difflib
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from gcl_hard.core.lazy import lazy
from gcl_hard.errors import InputError
from gcl_hard.files import locating

__getattr__, __dir__, __all__ = lazy(__name__, __file__, "images")

Layout = Literal["npz", "torchvision", "folders", "classes"]


class Known(NamedTuple):
    """Official sizes of a set, and where it is published, if no package holds it.

    Attributes:
        n_train: images to train on.
        n_test: images to test on.
        n_classes: C.
        side: pixels of an image's side.
        folder: folder of the published set once unpacked; empty for one that a package holds.
        url: its address.
        checksum: that of the published file, as for :class:`gcl_hard.files.locating.Download`.
        layout: layout of its files.
    """

    n_train: int
    n_test: int
    n_classes: int
    side: int
    folder: str = ""
    url: str = ""
    checksum: str = ""
    layout: Layout = "torchvision"


KNOWN: dict[str, Known] = {
    "digits": Known(1_437, 360, 10, 8),
    "CIFAR10": Known(
        50_000, 10_000, 10, 32, "cifar-10-batches-py",
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "md5:c58f30108f718f92721af3b95e74349a",
    ),
    "CIFAR100": Known(
        50_000, 10_000, 100, 32, "cifar-100-python",
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        "md5:eb9058c3a382ffc7106e4002c42a8d85",
    ),
    "STL10": Known(
        5_000, 8_000, 10, 96, "stl10_binary",
        "https://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
        "md5:91f7769df0f17e558f3565bffb0c7dfb",
    ),
    "TinyImageNet": Known(
        100_000, 10_000, 200, 64, "tiny-imagenet-200",
        "https://cs231n.stanford.edu/tiny-imagenet-200.zip", layout="folders",
    ),
}  # fmt: skip
"""The sets that need no NAME.npz."""
from_paths = True
"""Whether commands take the path of a data set, FOLDER/NAME or NAME.npz, for NAME in FOLDER."""


def canonical_name(name: str) -> str:
    """The canonical spelling of a known set's name; any other name unchanged.

    Example:
        >>> canonical_name("cifar-10"), canonical_name("tiny_imagenet"), canonical_name("Mine")
        ('CIFAR10', 'TinyImageNet', 'Mine')
    """
    folded = {known.casefold(): known for known in KNOWN}
    return folded.get(name.strip().casefold().replace("-", "").replace("_", ""), name.strip())


def has_dataset(name: str, data_dir: str | Path | None = None) -> bool:
    """Whether a name belongs to an image set.

    A known one, any name that ends in ``.npz`` and is no file of another kind, or such a NAME.npz
    or a folder NAME/train/CLASS/ or NAME/CLASS/ of images in the folder or cache.

    Args:
        name: name of a data set.
        data_dir: an offline mirror; by default the folder in ``GCL_HARD_DATA``.

    Returns:
        True for images.

    Example:
        >>> has_dataset("cifar10"), has_dataset("MUTAG")
        (True, False)
    """
    path = Path(name)
    if path.suffix.casefold() == ".npz":
        return locating.npz_kind(path) in ("images", None)
    return canonical_name(name) in KNOWN or own_file(name, data_dir) is not None


def is_misspelt(name: str) -> bool:
    """Whether a name is nearly that of a known set.

    Example:
        >>> is_misspelt("CIFR10"), is_misspelt("MUTAG")
        (True, False)
    """
    known = [known.casefold() for known in KNOWN]
    return bool(difflib.get_close_matches(name.casefold(), known, cutoff=0.75))


def own_file(name: str, data_dir: str | Path | None = None) -> Path | None:
    """The NAME.npz, or the folder NAME of images, in the folder given or the cache; or None.

    Raises:
        InputError: if several of them have the name, or a known set and a folder do.
    """
    return locating.own_file("images", partial(in_folder, name=canonical_name(name)), data_dir)


def in_folder(folder: Path, name: str) -> Path | None:
    """The user's NAME.npz or folder NAME in a folder; a known set's name in any spelling."""
    paths = namesakes(folder, name)
    images = [path for path in paths if path.is_dir()]
    if images and name in KNOWN:
        raise InputError(f"{images[0]} has the name of a known set: give your images another one")
    arrays = [path for path in paths if path not in images]
    exact = [path for path in arrays if path.stem == name]
    return locating.single([*images, *(exact or arrays)], name)


def namesakes(folder: Path, name: str) -> list[Path]:
    """Folders of images that have a set's name, and .npz files, in any spelling of a known one."""
    name = canonical_name(name)
    spelt = [folder / name]
    if name in KNOWN:
        spelt = [path for path in folder.glob("*") if canonical_name(path.name) == name]
    arrays = locating.npz_files(folder, name, canonical_name)
    return [
        *(path for path in spelt if _has_images(path, in_classes=name not in KNOWN)),
        *(path for path in arrays if locating.npz_kind(path) in ("images", None)),
    ]


def _has_images(path: Path, *, in_classes: bool = True) -> bool:
    if not path.is_dir():
        return False
    from gcl_hard.images import folders  # which nothing but such a folder needs

    return folders.has_classes(path) if in_classes else folders.has_images(path)
