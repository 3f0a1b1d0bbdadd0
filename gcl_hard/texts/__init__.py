"""Texts with labels: sets, sentence encoders of which the last layers are trained, experiments, and
a contrastive loss for sentence-transformers.

Names are imported when they are used; here is what sets are called, and where their files are.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gcl_hard.core.lazy import lazy
from gcl_hard.files import locating
from gcl_hard.files.tables import is_table

__getattr__, __dir__, __all__ = lazy(
    __name__, __file__, {"SentenceEncoder": "texts", "TextInputs": "texts", "TextLoss": "texts"}
)

POLYAI = "https://raw.githubusercontent.com/PolyAI-LDN/task-specific-datasets/57ec275"


class KnownTexts(NamedTuple):
    """A published set of texts.

    Attributes:
        files: its tables, with their addresses and SHA-256, by part.
        columns: the columns of texts and of classes.
        counts: texts to train on, texts to test on, and classes.
    """

    files: dict[str, tuple[str, str, str]]
    columns: tuple[str, str]
    counts: tuple[int, int, int]


KNOWN = {
    "BANKING77": KnownTexts(
        {
            "train": (
                "banking77_train.csv", f"{POLYAI}/banking_data/train.csv",
                "b06e26ac675513959a63135f11b94ea7786ed02da65db93a5650d8838cbc664b",
            ),
            "test": (
                "banking77_test.csv", f"{POLYAI}/banking_data/test.csv",
                "d12d6e3bc4c3103966ae786dc435913c0c563dfa328f5a3646d0e62cfeeb474d",
            ),
        },
        ("text", "category"),
        (10_003, 3_080, 77),
    )
}  # fmt: skip
"""Questions to a bank by intent, Casanueva et al. (2020)."""
TEXTS = ("text", "sentence", "utterance", "question", "query", "document")
LABELS = ("label", "class", "category", "intent")
"""Columns that are recognised, in any case."""
from_paths = True
"""Whether commands take the path of a data set, a table, for NAME in FOLDER."""
marks = ("text",)
"""Settings that say that a command's data are texts."""


def canonical_name(name: str) -> str:
    """The spelling of a known set; other names are returned as given.

    Example:
        >>> canonical_name("banking77"), canonical_name("Mine")
        ('BANKING77', 'Mine')
    """
    return next((known for known in KNOWN if known.casefold() == name.casefold()), name)


def has_dataset(name: str, data_dir: str | Path | None = None) -> bool:
    """Whether a name belongs to a known set of texts; a table may hold anything: see
    :func:`has_columns`.

    Example:
        >>> has_dataset("banking77"), has_dataset("MUTAG")
        (True, False)
    """
    return canonical_name(name) in KNOWN


def has_columns(header: Sequence[str]) -> bool:
    """Whether a table has a column that is called as texts are.

    Example:
        >>> has_columns(["Text", "intent"]), has_columns(["x1", "label"])
        (True, False)
    """
    return not {name.casefold() for name in header}.isdisjoint(TEXTS[:2])


def own_file(name: str, data_dir: str | Path | None = None) -> Path | None:
    """The table, or the folder of a known set, in the data folder or the cache; None if there is
    none.
    """
    return locating.own_file("texts", partial(in_folder, name=name), data_dir)


def in_folder(folder: Path, name: str) -> Path | None:
    """The table of a set in a folder, or the folder that has the tables of a known one."""
    if is_table(name):
        return folder / name if (folder / name).is_file() else None
    known = KNOWN.get(canonical_name(name))
    files = () if known is None else [file for file, *_ in known.files.values()]
    places = (folder, folder / canonical_name(name)) if files else ()
    return next((p for p in places if all((p / file).is_file() for file in files)), None)
