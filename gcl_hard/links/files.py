"""Reading sets of facts: folders and archives of tab-separated triples, and tables."""

from __future__ import annotations

import os
import re
import tarfile
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from gcl_hard.errors import InputError
from gcl_hard.files import locating
from gcl_hard.files.io import expanded, reading
from gcl_hard.files.locating import Download, Wanted
from gcl_hard.files.tables import SUFFIXES, is_table
from gcl_hard.graphs.parts import count
from gcl_hard.links import ARCHIVES, KNOWN, PARTS, Part, canonical_name, in_folder, is_name, is_set
from gcl_hard.links.data import LinkSet
from gcl_hard.links.tables import ENDS, RELATIONS, VAGUE, Columns, Triple

SITE = "https://raw.githubusercontent.com/TimDettmers/ConvE/f3c0eb2"
FIELDS = 3
NAMES = {*chain(*ENDS), *RELATIONS, *VAGUE}
"""Names of columns, in small letters."""
NEWLINE = re.compile(r"\r\n|\r|\n")
TERM = re.compile(r"(<[^>]*>|_:\S+)\t<[^>]*>\t.*\.")
"""A line of N-Triples whose terms are separated by tabs."""


def load_links(
    name: str | Path,
    *,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    download: bool = True,
    columns: Columns = None,
    shares: Sequence[float] | None = None,
    split_seed: int = 0,
) -> LinkSet:
    """A set of facts (head, relation, tail), in parts to train on, to choose by and to test on.

    It is looked for in the data folder, then in the cache's ``links``, and downloaded there if it
    is known: as a folder NAME with ``train.txt``, ``valid.txt`` and ``test.txt``, or as an archive
    of these, ``NAME.tar.gz``. A line is a fact, its three names separated by tabs. A first line of
    names of columns, such as head, relation and tail, is left out if none of them is in another
    line, and noted. A table, NAME.csv, NAME.tsv or NAME.parquet, is read as by
    :meth:`LinkSet.from_table`.

    Args:
        name: FB15k-237, WN18RR, UMLS or Kinship, in any case; any other NAME of a folder or
            archive, or of a table with its suffix, or the path of one.
        data_dir: the data folder; by default that of ``GCL_HARD_DATA``.
        cache_dir: root of the cache, as for :func:`gcl_hard.files.io.cache_root`.
        download: whether the network may be used.
        columns: of a table, as of :meth:`LinkSet.from_table`.
        shares: likewise.
        split_seed: likewise.

    Returns:
        The set, on the CPU.

    Raises:
        InputError: if the set cannot be found, a line has no three names, a fact stands in two
            parts, or a known set has other numbers than the published one.

    Source:
        Dettmers, Minervini, Stenetorp and Riedel, *Convolutional 2D Knowledge Graph Embeddings*,
        AAAI 2018: FB15k-237 (Toutanova and Chen, 2015) and WN18RR.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for part, line in {"train": "a\\tis\\tb", "valid": "b\\tis\\ta",
        ...                        "test": "a\\tis\\ta"}.items():
        ...         _ = (Path(folder) / f"{part}.txt").write_text(line)
        ...     load_links(folder).entities
        ('a', 'b')
    """
    name = os.fspath(name)
    if columns is not None and not is_table(name):
        raise InputError(f"columns are those of a table, CSV, TSV or Parquet, and {name} is none")
    path = locate(name, data_dir=data_dir, cache_dir=cache_dir, download=download)
    if is_table(path.name):
        return LinkSet.from_table(
            path, columns=columns, shares=shares, split_seed=split_seed, name=path.name
        )
    links = read_links(path, name=canonical_name(name) if is_name(name) else None)
    known = KNOWN.get(links.name)
    sizes = (links.n_entities, links.n_relations, *(len(links.part(part)) for part in PARTS))
    if known is not None and sizes != known.counts:
        raise InputError(
            f"{path} is not the published {links.name}: it has {_sizes(sizes)} in place of "
            f"{_sizes(known.counts)}; give a set of your own another name"
        )
    return links


def _sizes(counts: tuple[int, ...]) -> str:
    kinds = ("entities", "relations", "training", "validation", "test facts")
    return ", ".join(f"{n:,} {kind}" for n, kind in zip(counts, kinds, strict=True))


def locate(
    name: str,
    *,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    download: bool = True,
) -> Path:
    """The folder or archive of a set; arguments of :func:`load_links`.

    Raises:
        InputError: if it cannot be found; lists what was tried, and where to put which file.
    """
    here = data_dir is None and is_table(name) and expanded(name).is_file()
    if here or not is_name(name):
        path = expanded(name)
        if is_set(path):
            return path
        raise InputError(
            f"{path} is no set of facts: a folder with train.txt, valid.txt and test.txt, an "
            f"archive of them ({', '.join(ARCHIVES)}), or a table ({', '.join(SUFFIXES)})"
        )
    name = canonical_name(name)
    places = locating.folders(
        "links", data_dir=data_dir, cache_dir=cache_dir, files="NAME.tar.gz or folders NAME"
    )
    known = KNOWN.get(name)
    site = None
    kind = "table" if is_table(name) else "folder"
    parts = " with train.txt, valid.txt and test.txt" * (kind == "folder")
    put = [(f"a {kind}{parts}", name)]
    if known is not None:
        site = Download(f"{SITE}/{known.file}", known.file, f"sha256:{known.sha256}")
        put.insert(0, (site.url, known.file))
    wanted = Wanted(
        look=partial(in_folder, name=name),
        lacks=lambda folder: f"no {kind} {name}, no {name}{ARCHIVES[0]}",
        headline=locating.headline("set of facts", name, KNOWN, f"needs its folder {name}"),
        put=put,
        hint="no set of facts is in the package: LinkSet.from_triples makes one of your own",
        download=site,
    )
    return locating.locate(wanted, places, download=download)


def read_links(path: str | Path, *, name: str | None = None) -> LinkSet:
    """A set of facts from a folder or an archive.

    Args:
        path: the folder with ``train.txt``, ``valid.txt`` and ``test.txt``, or their archive.
        name: name of the set in results; that of the folder or archive if None.

    Raises:
        InputError: for a file that is missing, empty or no UTF-8, a line without three names, or
            columns in another order.
    """
    path, notes = Path(path), list[str]()
    name = name or canonical_name(path.name.partition(".tar")[0].removesuffix(".tgz"))
    triples = [_facts(content, path, part, notes) for part, content in _contents(path).items()]
    uses = Counter(chain.from_iterable(chain.from_iterable(triples)))
    for part, (first, *_) in zip(PARTS, triples, strict=True):
        if all(uses[name] == 1 for name in first):
            raise InputError(
                f"{path}, {part}.txt, line 1: {' '.join(first)}, whose names stand in no other "
                f"line: remove it if they name the columns, and move it down if it is a fact"
            )
    return LinkSet.from_triples(*triples, name=name, notes=notes)


def _contents(path: Path) -> dict[Part, bytes]:
    """The contents of the three files."""
    if path.is_dir():
        return {part: (path / f"{part}.txt").read_bytes() for part in PARTS}
    contents = dict[Part, bytes]()
    with (
        reading(path, "an archive of train.txt, valid.txt and test.txt"),
        tarfile.open(path) as archive,
    ):
        members = {Path(member.name).name: member for member in archive if member.isfile()}
        for part in PARTS:
            opened = archive.extractfile(members[f"{part}.txt"])
            assert opened is not None
            contents[part] = opened.read()
    return contents


def _facts(content: bytes, path: Path, part: Part, notes: list[str]) -> list[Triple]:
    """The facts of a file; a line ends with \\n, \\r\\n or \\r, and blank ones are none.

    A first line of names of columns that stand in no other line is left out, and noted.
    """
    try:
        lines = NEWLINE.split(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, {part}.txt is not UTF-8: {error}") from error
    facts, spaced = list[Triple](), set[str]()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        fields = line.split("\t")
        names = [field.strip() for field in fields]
        if len(names) != FIELDS or not all(names) or TERM.fullmatch(line.strip()):
            raise InputError(
                f"{path}, {part}.txt, line {number}: expected head, relation and tail, separated "
                f"by tabs (N-Triples without the dot), got {line[:80]!r}"
            )
        spaced |= {*fields} - {*names}
        facts.append((names[0], names[1], names[2]))
    if not facts:
        raise InputError(f"{path}, {part}.txt is empty: each part needs a fact")
    if spaced:
        spaces = f"spaces around {count(len(spaced), 'name')} dropped, such as {min(spaced)!r}"
        notes.append(f"{part}: {spaces}")
    head, *others = facts
    if not {word.casefold() for word in head} <= NAMES:
        return facts
    line = f"{part}: line 1, {' '.join(head)},"
    if {*head} & {name for fact in others for name in fact}:
        notes.append(f"{line} may be names of columns, and is a fact: other lines have its names")
        return facts
    if head[1].casefold() not in (*RELATIONS, *VAGUE):
        raise InputError(
            f"{path}, {part}.txt, line 1: columns must be head, relation and tail, got "
            f"{', '.join(head)}"
        )
    notes.append(f"{line} is names of columns, and left out")
    return others
