"""Links between entities: sets of facts, scorers, contrast of their queries.

Names are imported when they are used; here is what sets are called, and where their files are.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from gcl_hard.core.lazy import lazy
from gcl_hard.files import locating
from gcl_hard.files.io import expanded
from gcl_hard.files.tables import is_table

__getattr__, __dir__, __all__ = lazy(__name__, __file__, "graphs")

Part = Literal["train", "valid", "test"]
PARTS: tuple[Part, ...] = get_args(Part)
ARCHIVES = (".tar.gz", ".tgz", ".tar")
from_paths = True
"""Whether commands take the path of a data set, FOLDER/NAME, for NAME in FOLDER."""
marks = ("columns",)
"""Settings that say that a command's data are facts."""


class KnownLinks(NamedTuple):
    """A published set of facts.

    Attributes:
        file: its archive.
        sha256: of the archive.
        counts: entities, relations, and facts to train on, to choose by and to test on.
    """

    file: str
    sha256: str
    counts: tuple[int, int, int, int, int]


KNOWN = {
    "FB15k-237": KnownLinks(
        "FB15k-237.tar.gz", "311df7930f842a02979eaa7a802484a6afe62303c07f915f1e6edbc30cbe05e8",
        (14_541, 237, 272_115, 17_535, 20_466),
    ),
    "WN18RR": KnownLinks(
        "WN18RR.tar.gz", "1eb9152f804c140d163462c0d49f65e5a0b30ab5fbb375c5e3353c11a6249060",
        (40_943, 11, 86_835, 3_034, 3_134),
    ),
    "UMLS": KnownLinks(
        "umls.tar.gz", "26223aa91f0ec8db2324e0f489b9a4425e04d1d0df72ce5cfd62af4b91aee6fd",
        (135, 46, 5_216, 652, 661),
    ),
    "Kinship": KnownLinks(
        "kinship.tar.gz", "a3cb9ca67213eb38133aebc12901195e283d844ebd59f1a6cbf2d4fa12ced4e6",
        (104, 25, 8_544, 1_068, 1_074),
    ),
}  # fmt: skip
"""The archives of Dettmers et al. (2018), *Convolutional 2D Knowledge Graph Embeddings*."""


def canonical_name(name: str) -> str:
    """The spelling of a known set; other names are returned as given.

    Example:
        >>> canonical_name("fb15k-237"), canonical_name("mine")
        ('FB15k-237', 'mine')
    """
    return next((known for known in KNOWN if known.casefold() == name.casefold()), name)


def has_dataset(name: str, data_dir: str | Path | None = None) -> bool:
    """Whether a name belongs to a set of facts: a known one, or one in the folder or the cache.

    A table may hold anything: see :func:`has_columns`.

    Args:
        name: name of a data set, or the path of a folder or archive.
        data_dir: the data folder; by default that of ``GCL_HARD_DATA``.

    Example:
        >>> has_dataset("wn18rr"), has_dataset("MUTAG")
        (True, False)
    """
    if is_table(name):
        return False
    if not is_name(name):
        return is_set(expanded(name))
    return canonical_name(name) in KNOWN or own_file(name, data_dir) is not None


def has_columns(header: Sequence[str]) -> bool:
    """Whether the columns of a table are called as those of facts are."""
    from gcl_hard.links.tables import named_columns

    return named_columns(header, surely=True) is not None


def own_file(name: str, data_dir: str | Path | None = None) -> Path | None:
    """The folder or archive of a set in the data folder or the cache; None if there is none."""
    return locating.own_file("links", partial(in_folder, name=name), data_dir)


def is_name(name: str) -> bool:
    """Whether a set is given by its name, and not by its path."""
    return Path(name).name == name and not name.endswith(ARCHIVES)


def is_set(path: Path) -> bool:
    """Whether a path is that of a folder, archive or table of facts."""
    if path.is_dir():
        return all((path / f"{part}.txt").is_file() for part in PARTS)
    return path.is_file() and (path.name.endswith(ARCHIVES) or is_table(path.name))


def in_folder(folder: Path, name: str) -> Path | None:
    """The folder or archive of a set; InputError where there are several."""
    if not folder.is_dir():
        return None
    names = {name.casefold(), *(f"{name}{end}".casefold() for end in ARCHIVES)}
    paths = [path for path in sorted(folder.iterdir()) if path.name.casefold() in names]
    return locating.single([path for path in paths if is_set(path)], name)
