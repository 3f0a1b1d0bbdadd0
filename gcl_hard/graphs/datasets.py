"""TUDataset sets by name: looked up, read, checked against a manifest, given node features."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path

from gcl_hard.errors import InputError
from gcl_hard.graphs.batches import GraphSet
from gcl_hard.graphs.features import check_kind
from gcl_hard.graphs.reading import RawGraphs, parse, read_texts
from gcl_hard.graphs.sources import find


@dataclass(frozen=True)
class Sizes:
    """What a known set must contain; edges count once per direction, labels as columns."""

    graphs: int
    nodes: int
    edges: int
    classes: int
    node_labels: int = 0
    node_attributes: int = 0
    edge_labels: int = 0


MANIFEST = {
    "MUTAG": Sizes(188, 3371, 7442, 2, node_labels=7, edge_labels=4),
    "PTC_MR": Sizes(344, 4915, 10108, 2, node_labels=18, edge_labels=4),
    "ENZYMES": Sizes(600, 19580, 74564, 6, node_labels=3, node_attributes=18),
    "IMDB-BINARY": Sizes(1000, 19773, 193062, 2),
    "IMDB-MULTI": Sizes(1500, 19502, 197806, 3),
}
ALIASES = {"PTC": "PTC_MR", "IMDB-B": "IMDB-BINARY", "IMDB-M": "IMDB-MULTI"}


def lacks_edge_labels(name: str) -> bool:
    """Whether a set is known to have no edge labels, without reading it.

    Example:
        >>> lacks_edge_labels("IMDB-B"), lacks_edge_labels("MUTAG"), lacks_edge_labels("PROTEINS")
        (True, False, False)
    """
    known = MANIFEST.get(canonical_name(name))
    return known is not None and not known.edge_labels


def canonical_name(name: str) -> str:
    """A set's name as TUDataset spells it; known names and aliases in any case.

    Args:
        name: as the user wrote it. Names outside the manifest are returned as they are.

    Returns:
        The name.

    Raises:
        InputError: it cannot be the name of a file.

    Example:
        >>> canonical_name("ptc"), canonical_name("imdb-b"), canonical_name("PROTEINS")
        ('PTC_MR', 'IMDB-BINARY', 'PROTEINS')
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", name, flags=re.ASCII):
        raise InputError(f"dataset {name!r}; expected letters, digits, '_', '-', '.' or '+'")
    known = {key.casefold(): value for key, value in ALIASES.items()}
    known |= {key.casefold(): key for key in MANIFEST}
    return known.get(name.casefold(), name)


def locate(
    name: str,
    *,
    data_dir: str | Path | None = None,
    download: bool = True,
    cache_dir: str | Path | None = None,
) -> Path:
    """The zip or folder that :func:`load` reads a set from; arguments and errors are its own.

    Example:
        >>> locate("mutag", download=False).stem
        'MUTAG'
    """
    return find(
        canonical_name(name),
        data_dir=data_dir,
        cache_dir=cache_dir,
        download=download,
        known=(*MANIFEST, *ALIASES),
    )


def load(
    name: str,
    *,
    data_dir: str | Path | None = None,
    features: str = "auto",
    download: bool = True,
    cache_dir: str | Path | None = None,
) -> GraphSet:
    """A graph classification set of the TUDataset collection.

    Looked for as ``NAME/`` or ``NAME.zip`` in the data folder, then the cache, then the package
    (MUTAG), then downloaded into the cache.

    Args:
        name: PTC_MR (PTC), MUTAG, ENZYMES, IMDB-BINARY (IMDB-B), IMDB-MULTI (IMDB-M), or any
            other TUDataset classification set.
        data_dir: the data folder; by default the environment's ``GCL_HARD_DATA``.
        features: a kind of :data:`gcl_hard.graphs.features.KINDS`.
        download: whether the network may be asked.
        cache_dir: the cache's root, see :func:`gcl_hard.graphs.sources.cache_folder`.

    Returns:
        The set, on the CPU.

    Raises:
        InputError: the set cannot be had, its files are damaged or contradict each other or the
            manifest, or it lacks the features asked for.

    Source:
        Morris et al. 2020, "TUDataset: A collection of benchmark datasets for learning with
        graphs", https://chrsmrrs.github.io/datasets

    Example:
        >>> mutag = load("mutag", download=False)
        >>> mutag.n_graphs, mutag.n_features, mutag.features, mutag.class_counts.tolist()
        (188, 7, 'labels', [63, 125])
    """
    check_kind(features)
    name = canonical_name(name)
    path = locate(name, data_dir=data_dir, download=download, cache_dir=cache_dir)
    raw = parse(read_texts(path, name), origin=str(path))
    _check_sizes(name, raw, path)
    return GraphSet.from_raw(raw, name=name, features=features)


def _check_sizes(name: str, raw: RawGraphs, path: Path) -> None:
    if name not in MANIFEST:
        return
    expected = MANIFEST[name]
    got = Sizes(
        graphs=raw.y.numel(),
        nodes=int(raw.node_ptr[-1]),
        edges=raw.edge_index.shape[1],
        classes=int(raw.y.max()) + 1,
        node_labels=0 if raw.node_labels is None else raw.node_labels.shape[1],
        node_attributes=0 if raw.node_attributes is None else raw.node_attributes.shape[1],
        edge_labels=0 if raw.edge_labels is None else raw.edge_labels.shape[1],
    )
    wrong = [
        f"{getattr(got, field.name)} {field.name.replace('_', ' ')} where {name} has "
        f"{getattr(expected, field.name)}"
        for field in fields(Sizes)
        if getattr(got, field.name) != getattr(expected, field.name)
    ]
    if wrong:
        raise InputError(f"{path} is not the TUDataset's {name}: {'; '.join(wrong)}")
