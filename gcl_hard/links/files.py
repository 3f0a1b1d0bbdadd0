"""Reading sets of facts: folders and archives of tab-separated triples."""

from __future__ import annotations

import io
import os
import re
import tarfile
from functools import partial
from pathlib import Path

from gcl_hard.errors import InputError
from gcl_hard.files import locating
from gcl_hard.files.io import expanded
from gcl_hard.files.locating import Download, Wanted
from gcl_hard.graphs.parts import count
from gcl_hard.links import ARCHIVES, KNOWN, PARTS, Part, canonical_name, in_folder, is_name, is_set
from gcl_hard.links.data import LinkSet, Triple

SITE = "https://raw.githubusercontent.com/TimDettmers/ConvE/f3c0eb2"
FIELDS = 3
ENDS = {
    "head", "tail", "h", "t", "subject", "object", "subj", "obj", "s", "o", "source", "target",
    "src", "dst", "from", "to", "entity1", "entity2", "head_id", "tail_id", "node1", "node2",
}  # fmt: skip
RELATIONS = {
    "relation", "rel", "r", "relation_id", "relation_type", "relationship", "predicate", "pred",
    "p", "property", "type", "edge", "edge_type", "label", "kind", "verb",
}  # fmt: skip
"""Names of columns, in small letters."""
TERM = re.compile(r"(<[^>]*>|_:\S+)\t<[^>]*>\t.*\.")
"""A line of N-Triples whose terms are separated by tabs."""


def load_links(
    name: str | Path,
    *,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    download: bool = True,
) -> LinkSet:
    """A set of facts (head, relation, tail), in parts to train on, to choose by and to test on.

    It is looked for in the data folder, then in the cache's ``links``, and downloaded there if it
    is known: as a folder NAME with ``train.txt``, ``valid.txt`` and ``test.txt``, or as an archive
    of these, ``NAME.tar.gz``. A line is a fact, its three names separated by tabs. A first line of
    names of columns, such as head, relation and tail, is left out if none of them is in another
    line; of N-Triples, so is the dot at the end of each line. Notes say so.

    Args:
        name: FB15k-237, WN18RR, UMLS or Kinship, in any case; any other NAME of a folder or
            archive, or the path of one.
        data_dir: the data folder; by default that of ``GCL_HARD_DATA``.
        cache_dir: root of the cache, as for :func:`gcl_hard.files.io.cache_root`.
        download: whether the network may be used.

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
    path = locate(name, data_dir=data_dir, cache_dir=cache_dir, download=download)
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
    if not is_name(name):
        path = expanded(name)
        if is_set(path):
            return path
        raise InputError(
            f"{path} is no set of facts: a folder with train.txt, valid.txt and test.txt, or an "
            f"archive of them ({', '.join(ARCHIVES)})"
        )
    name = canonical_name(name)
    places = locating.folders(
        "links", data_dir=data_dir, cache_dir=cache_dir, files="NAME.tar.gz or folders NAME"
    )
    known = KNOWN.get(name)
    site = None
    put = [("a folder with train.txt, valid.txt and test.txt", name)]
    if known is not None:
        site = Download(f"{SITE}/{known.file}", known.file, f"sha256:{known.sha256}")
        put.insert(0, (site.url, known.file))
    wanted = Wanted(
        look=partial(in_folder, name=name),
        lacks=lambda folder: f"no folder {name}, no {name}{ARCHIVES[0]}",
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
    path = Path(path)
    name = name or canonical_name(path.name.partition(".tar")[0].removesuffix(".tgz"))
    texts = _texts(path)
    notes, spaced = list[str](), set[str]()
    triples = {
        part: _triples(text, f"{path}, {part}.txt", part, spaced, notes)
        for part, text in texts.items()
    }
    if spaced:
        notes.append(f"spaces around {count(len(spaced), 'name')} dropped, such as {min(spaced)!r}")
    notes += _without_headers(triples, path)
    return LinkSet.from_triples(*(triples[part] for part in PARTS), name=name, notes=notes)


def _without_headers(triples: dict[Part, list[Triple]], path: Path) -> list[str]:
    """Leave out first lines of names of columns that no other line has; returns what to note."""
    headers = {
        part: facts[0]
        for part, facts in triples.items()
        if all(word.casefold() in ENDS | RELATIONS for word in facts[0])
    }
    if not headers:
        return []
    others = {
        name
        for part, facts in triples.items()
        for fact in facts[part in headers :]
        for name in fact
    }
    notes = []
    for part, words in headers.items():
        line = f"{part}: line 1, {' '.join(words)},"
        if again := others & {*words}:
            notes.append(
                f"{line} may be names of columns, and is a fact: another has {min(again)!r}"
            )
        elif words[1].casefold() not in RELATIONS:
            raise InputError(
                f"{path}, {part}.txt, line 1: columns must be head, relation and tail, got "
                f"{', '.join(words)}"
            )
        else:
            triples[part].pop(0)
            notes.append(f"{line} is names of columns, and left out")
    return notes


def _texts(path: Path) -> dict[Part, str]:
    """The three texts, with universal newlines."""
    if path.is_dir():
        files = {part: path / f"{part}.txt" for part in PARTS}
        return {part: _text(file.read_bytes(), str(file)) for part, file in files.items()}
    try:
        with tarfile.open(path) as archive:
            members = {Path(member.name).name: member for member in archive if member.isfile()}
            texts = dict[Part, str]()
            for part in PARTS:
                member = members.get(f"{part}.txt")
                opened = None if member is None else archive.extractfile(member)
                if opened is None:
                    raise InputError(f"{path} has no {part}.txt")
                texts[part] = _text(opened.read(), f"{path}, {part}.txt")
            return texts
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _text(content: bytes, where: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{where} is not UTF-8: {error}") from error
    if not text.strip():
        raise InputError(f"{where} is empty: each part needs a fact")
    return text


def _triples(text: str, where: str, part: Part, spaced: set[str], notes: list[str]) -> list[Triple]:
    """The facts of a text; a line ends with \\n, \\r\\n or \\r, and blank ones are none.

    Names with spaces around them, which are dropped, are added to ``spaced``.
    """
    lines = {
        number: line.rstrip("\n")
        for number, line in enumerate(io.StringIO(text, newline=None), 1)
        if line.strip()
    }
    terms = {number for number, line in lines.items() if TERM.fullmatch(line.strip())}
    if terms:
        lines = {number: line for number, line in lines.items() if not line.startswith("#")}
        if other := lines.keys() - terms:
            raise InputError(
                f"{where}, line {min(other)}: other lines are N-Triples, which end with a dot, got "
                f"{lines[min(other)][:80]!r}"
            )
        lines = {number: line.rstrip()[:-1].rstrip() for number, line in lines.items()}
        notes.append(f"{part}: read as N-Triples, without the dots at the end of lines")
    facts = list[Triple]()
    for number, line in lines.items():
        fields = line.split("\t")
        names = [field.strip() for field in fields]
        if len(names) != FIELDS or not all(names):
            raise InputError(
                f"{where}, line {number}: expected head, relation and tail, separated by tabs, got "
                f"{line[:80]!r}"
            )
        spaced.update(field for field, name in zip(fields, names, strict=True) if field != name)
        facts.append((names[0], names[1], names[2]))
    return facts
