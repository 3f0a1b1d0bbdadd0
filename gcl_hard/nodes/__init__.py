"""Nodes of one graph: sets, views, encoders, models of contrast between nodes.

Names are imported when they are used; here is what sets are called, and where their files are.
"""

from pathlib import Path
from typing import Literal, NamedTuple

from gcl_hard.core.lazy import lazy
from gcl_hard.files import locating
from gcl_hard.files.io import expanded

__getattr__, __dir__, __all__ = lazy(__name__, __file__, "graphs")

GNN_BENCHMARK = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
HETEROPHILOUS = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data"
WIKI_CS = "https://github.com/pmernyei/wiki-cs-dataset/raw/master/dataset"


class KnownGraph(NamedTuple):
    """A set that is known by name.

    Attributes:
        reader: the class of PyTorch Geometric that downloads and reads it.
        named: its name there; empty where the class has one set.
        n_features: F.
        n_classes: C.
        file: its published npz file; empty if it is published otherwise.
        url: address of the folder that it is published in.
        counts: whether its features are counts, of which 1 is read where they are above 0.
        metric: what its authors score.
        splits: splits that are published with it.
    """

    reader: str
    named: str
    n_features: int
    n_classes: int
    file: str = ""
    url: str = GNN_BENCHMARK
    counts: bool = False
    metric: Literal["accuracy", "auc"] = "accuracy"
    splits: int = 0


KNOWN = {
    "Cora": KnownGraph("Planetoid", "Cora", 1_433, 7, "cora.npz", splits=1),
    "CiteSeer": KnownGraph("Planetoid", "CiteSeer", 3_703, 6, "citeseer.npz", splits=1),
    "PubMed": KnownGraph("Planetoid", "PubMed", 500, 3, "pubmed.npz", splits=1),
    "WikiCS": KnownGraph("WikiCS", "", 300, 10, url=WIKI_CS, splits=20),
    "Photo": KnownGraph("Amazon", "Photo", 745, 8, "amazon_electronics_photo.npz", counts=True),
    "Computers": KnownGraph(
        "Amazon", "Computers", 767, 10, "amazon_electronics_computers.npz", counts=True
    ),
    "CS": KnownGraph("Coauthor", "CS", 6_805, 15, "ms_academic_cs.npz", counts=True),
    "Physics": KnownGraph("Coauthor", "Physics", 8_415, 5, "ms_academic_phy.npz", counts=True),
    **{
        name: KnownGraph(
            "HeterophilousGraphDataset", name, n_features, n_classes,
            f"{name.lower().replace('-', '_')}.npz", HETEROPHILOUS,
            metric="auc" if n_classes == 2 else "accuracy", splits=10,
        )
        for name, n_features, n_classes in (
            ("Roman-empire", 300, 18), ("Amazon-ratings", 300, 5), ("Minesweeper", 7, 2),
            ("Tolokers", 10, 2), ("Questions", 301, 2),
        )
    },
}  # fmt: skip
"""Sets by name: Sen et al. (2008) as Yang et al. (2016) split them; Mernyei and Cangea (2020);
Shchur et al. (2018); Platonov et al. (2023)."""


def _folded(name: str) -> str:
    return "".join(char for char in name.casefold() if char not in "-_ ")


ALIASES = {
    _folded(spelt): name
    for name, known in KNOWN.items()
    for spelt in (name, f"{known.reader}{known.named}", known.file.removesuffix(".npz"))
    if spelt
}
"""Names of the sets, with and without those of the classes of PyTorch Geometric, or their files."""
from_paths = True
"""Whether commands take the path of a data set, FOLDER/NAME.npz, for NAME in FOLDER."""
marks = files_beside = ("edges",)
"""Settings that say that a command's data are nodes; they name a second file beside the set."""
from_one_graph = True
"""Whether one graph of PyTorch Geometric or NetworkX makes a set."""


def canonical_name(name: str) -> str:
    """The canonical spelling of a known set's name; any other name unchanged.

    Example:
        >>> canonical_name("cora"), canonical_name("amazon-photo"), canonical_name("coauthor_cs")
        ('Cora', 'Photo', 'CS')
    """
    return ALIASES.get(_folded(name.strip()), name.strip())


def published_metric(name: str) -> Literal["accuracy", "auc"]:
    """The metric that the authors of a set score; accuracy of any other set.

    Example:
        >>> published_metric("tolokers"), published_metric("Cora")
        ('auc', 'accuracy')
    """
    known = KNOWN.get(canonical_name(name))
    return known.metric if known else "accuracy"


def given_splits_of(name: str) -> int:
    """The number of splits that are published with a set; 0 of any other set.

    Example:
        >>> given_splits_of("WikiCS"), given_splits_of("CS")
        (20, 0)
    """
    known = KNOWN.get(canonical_name(name))
    return known.splits if known else 0


def is_file(name: str) -> bool:
    """Whether a set is given by the path of its npz file."""
    return Path(name).suffix.casefold() == ".npz"


def has_dataset(name: str, data_dir: str | Path | None = None) -> bool:
    """Whether a name belongs to a graph with classes of nodes.

    A known set, or a NAME.npz of such a graph in the folder or the cache, or its path.

    Args:
        name: name of a data set.
        data_dir: the data folder; by default that of ``GCL_HARD_DATA``.

    Example:
        >>> has_dataset("cora"), has_dataset("MUTAG")
        (True, False)
    """
    if is_file(name):
        return locating.npz_kind(expanded(name)) == "nodes"
    name = canonical_name(name)
    if own_file(name, data_dir) is not None:
        return True
    others = [
        path.stem for folder in locating.searched("nodes", data_dir)
        for path in npz_files(folder, name)
    ]  # fmt: skip
    return name in KNOWN and name.casefold() not in map(str.casefold, others)


def own_file(name: str, data_dir: str | Path | None = None) -> Path | None:
    """The npz file of a set in the folder or the cache; None if there is none."""
    folders = locating.searched("nodes", data_dir)
    return next((path for folder in folders for path in namesakes(folder, name)), None)


def namesakes(folder: Path, name: str) -> list[Path]:
    """The npz files of nodes in a folder that are called as a set, or as it is published."""
    return [path for path in npz_files(folder, name) if locating.npz_kind(path) == "nodes"]


def npz_files(folder: Path, name: str) -> list[Path]:
    """The npz files of any kind in a folder that are called as a set, or as it is published."""
    return locating.npz_files(folder, name, canonical_name)
