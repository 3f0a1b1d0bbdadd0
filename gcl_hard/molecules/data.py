"""Molecules as graphs: SMILES to integer codes of atoms and bonds, kept on disk."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.core.extras import check_extra
from gcl_hard.core.ids import checked_names, in_order
from gcl_hard.errors import InputError, check_main_guard, check_processes
from gcl_hard.files.cached import cached_folder
from gcl_hard.files.io import cache_root
from gcl_hard.graphs.data import NO_LABEL, GraphSet, checked_targets
from gcl_hard.graphs.features import ATOMS, BONDS, CODES
from gcl_hard.graphs.order import Ids, checked_ids

UNKNOWN = 0
"""Code of unknown values, and of those outside the vocabulary, in every field; masking sets it."""
FORMAT = 3
"""Version of the files on disk."""
ROWS_AT_A_TIME = 1024  # of similarities
CHUNK = 2000
"""SMILES that are parsed at a time."""
SHOWN = 60
"""Letters of a SMILES that a message shows."""
LONGEST = 3000
"""Most letters of a SMILES that is read: time grows with their cube, to minutes for each."""
ATOM_MAP = re.compile(r":\d+(?=\])")
"""The atom map number of a reaction, as in [CH3:7]."""
_BOND_TYPES = {"SINGLE": 1, "DOUBLE": 2, "TRIPLE": 3, "AROMATIC": 4}
_STEREO = {"NONE": 1, "Z": 2, "E": 3, "CIS": 4, "TRANS": 5, "ANY": 6}
Progress = Callable[[int], Any]
"""Called with the number of SMILES parsed since the last call."""


S = TypeVar("S")
T = TypeVar("T")


class Invalid(NamedTuple):
    """An invalid SMILES, or one of more than 3,000 letters."""

    row: int
    smiles: str


@dataclass(frozen=True, eq=False, repr=False)
class Molecules(GraphSet):
    """Molecules: graphs of integer codes, with their SMILES.

    A :class:`GraphSet` whose ``x`` is uint8 [N, 6] of the fields of :data:`ATOMS` and whose
    ``edge_attr`` is uint8 [E, 4] of those of :data:`BONDS`; :class:`gcl_hard.molecules.MoleculeGIN`
    embeds them. Their arrays may be memory-mapped files.

    Attributes:
        smiles: bytes objects [G], unchanged.
        rows: int64 [G], row of each molecule in the source; in a part of a set, row in the part.
        ids: names of the molecules, [G]; by default their rows.
        tasks: names of the targets, one for each column of ``y``.
        invalid: SMILES that could not be read.

    Example:
        >>> alcohols = from_smiles(["CO", "CCO", "no"], [0.0, 1.0, 2.0])
        >>> alcohols
        Molecules(custom: 2 graphs, 5 nodes with 6 features (codes), 4 edge features, no class \
labels)
        >>> alcohols.invalid, alcohols.y.tolist(), alcohols[1].x[:, 0].tolist()
        ((Invalid(row=2, smiles='no'),), [0.0, 1.0], [6, 6, 8])
    """

    smiles: NDArray[np.object_] = field(default_factory=lambda: np.empty(0, object))
    rows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    tasks: tuple[str, ...] = ()
    invalid: tuple[Invalid, ...] = ()

    def take(self, index: Ids) -> Molecules:
        """A set of some of the molecules, without data of the others."""
        ids = checked_ids(index, self.n_graphs, "index")
        part = super().take(ids)
        assert isinstance(part, Molecules)
        return replace(part, smiles=self.smiles[ids.numpy()], rows=np.arange(len(ids)), invalid=())

    def counts(self) -> NDArray[np.int64]:
        """Number of atoms and bonds of each molecule with each code, [G, codes].

        Example:
            >>> counts = from_smiles(["CO", "CCO"]).counts()
            >>> counts[:, [6, 8]].tolist()  # carbon, oxygen
            [[1, 1], [2, 1]]
        """
        blocks = []
        for codes, ptr, fields in (
            (self.x, self.node_ptr, ATOMS), (self.edge_attr, self.edge_ptr, BONDS),
        ):  # fmt: skip
            assert codes is not None
            owner = torch.arange(len(self)).repeat_interleave(ptr.diff())
            for field_codes, size in zip(codes.long().T, fields.values(), strict=True):
                pairs = owner * size + field_codes
                blocks.append(torch.bincount(pairs, minlength=len(self) * size).view(-1, size))
        return torch.cat(blocks, 1).numpy()

    def left_out(self, name: str) -> str | None:
        """A message on SMILES that could not be read; None if all could.

        Args:
            name: name of the set.
        """
        if not self.invalid:
            return None
        first = [f"{smiles[:SHOWN]!r} (number {row + 1})" for row, smiles in self.invalid[:3]]
        return (
            f"{name}: {len(self.invalid)} of {len(self) + len(self.invalid)} SMILES cannot be read "
            f"and are left out: {', '.join(first)}{', …' * (len(self.invalid) > 3)}"
        )

    def called(self, ids: Any) -> Molecules:
        """The same molecules under other names.

        Args:
            ids: a number or a word for each SMILES of the source, including invalid ones.

        Raises:
            InputError: for another number of ids, or ids of another type.

        Example:
            >>> from_smiles(["CO", "no", "CCO"]).called(["a", "b", "c"]).names.tolist()
            ['a', 'c']
        """
        n_rows = len(self.rows) + len(self.invalid)
        return replace(self, ids=checked_names(ids, n_rows, "molecule")[self.rows])

    def with_targets(
        self, targets: Any, *, classes: bool = False, tasks: Sequence[str] = ()
    ) -> Molecules:
        """The same molecules with other targets.

        Args:
            targets: [rows] or [rows, T], a row for each SMILES of the source, including invalid
                ones; NaN if unknown.
            classes: whether they are classes, whole numbers from 0 on, in one column.
            tasks: names of the targets.

        Raises:
            InputError: for another number of rows or names, numbers that are not finite in single
                precision, or invalid classes.
        """
        y = _as_numbers(targets)
        n_rows = len(self.rows) + len(self.invalid)
        if y.ndim not in (1, 2) or len(y) != n_rows:
            raise InputError(
                f"targets must have a row for each of {n_rows} SMILES, got {[*y.shape]}"
            )
        if tasks and len(tasks) != (y.shape[1] if y.ndim == 2 else 1):
            raise InputError(f"tasks names {len(tasks)} targets, and y has {[*y.shape]}")
        labels, n_classes = torch.from_numpy(y[self.rows]), 0
        if classes:
            if labels.dim() != 1 or not bool(((labels % 1 == 0) & (labels >= 0)).all()):
                raise InputError("classes must be whole numbers from 0 on, one for each molecule")
            labels = labels.long()
            n_classes = int(labels.max()) + 1
        return replace(self, y=labels, n_classes=n_classes, class_names=(), tasks=(*tasks,))


def _as_numbers(targets: Any) -> NDArray[np.float64]:
    """Targets as float64; InputError for words, and for numbers beyond single precision."""
    try:
        y = np.asarray(targets, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"targets are numbers, NaN if unknown: {error}; number the classes"
        ) from error
    return checked_targets(y, "row")


def rdkit(module: str = "Chem") -> Any:
    """A module of rdkit.

    Raises:
        MissingExtraError: if rdkit is not installed; names the command.
    """
    check_extra("molecules", "reading molecules", "rdkit")
    loaded = import_module(f"rdkit.{module}")
    import_module("rdkit.RDLogger").DisableLog("rdApp.*")  # invalid SMILES are counted
    return loaded


def molecule(smiles: str | bytes) -> Any:
    """An rdkit molecule without atom map numbers; None for an invalid SMILES.

    rdkit tells atoms with different map numbers apart, in scaffolds and in chirality.

    Example:
        >>> molecule("[CH3:2][OH:1]").GetAtomWithIdx(0).GetAtomMapNum()
        0
    """
    text = smiles if isinstance(smiles, str) else smiles.decode()
    return rdkit().MolFromSmiles(ATOM_MAP.sub("", text))


class Coded(NamedTuple):
    """A molecule as codes: of n atoms, of the ends of 2b directed bonds, and of these bonds."""

    atoms: NDArray[np.uint8]
    edges: NDArray[np.int32]
    bonds: NDArray[np.uint8]


def codes(smiles: str) -> Coded | None:
    """A molecule as codes; None for a SMILES that is invalid, or has no atoms, several lines, or
    more than 3,000 letters.

    Args:
        smiles: the SMILES.

    Returns:
        uint8 [n, 6], int32 [2b, 2] (both directions of every bond), uint8 [2b, 4].

    Source:
        Hu et al. (2020), *Open Graph Benchmark*, with its fields except redundant ones of atoms;
        degrees do not count hydrogens, which are a field of their own. Chirality is, as there, that
        of rdkit: clockwise or not in the order in which the SMILES names the neighbours, so that a
        molecule has one code if its SMILES is canonical.

    Example:
        >>> aldehyde = codes("C=O")
        >>> aldehyde.atoms.tolist(), aldehyde.bonds[0].tolist()
        ([[6, 2, 6, 3, 1, 1], [8, 2, 6, 1, 1, 1]], [2, 1, 1, 1])
    """
    if not isinstance(smiles, str):
        raise InputError(f"SMILES are strings, got {type(smiles).__name__}: {smiles!r}")
    readable = len(smiles) <= LONGEST and len(smiles.splitlines()) == 1
    mol = molecule(smiles) if readable else None
    if mol is None or not mol.GetNumAtoms():
        return None
    atoms = np.array([
        (
            atom.GetAtomicNum(),
            _code(atom.GetDegree(), 0, 10),
            _code(atom.GetFormalCharge(), -5, 5),
            _code(atom.GetTotalNumHs(), 0, 8),
            1 + atom.GetIsAromatic(),
            1 + min(int(atom.GetChiralTag()), 3),
        )
        for atom in mol.GetAtoms()
    ], np.uint8)  # fmt: skip
    bonds = mol.GetBonds()
    edges = np.array([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in bonds], np.int32)
    kinds = np.array([
        (
            _BOND_TYPES.get(bond.GetBondType().name, 5),
            1 + bond.IsInRing(),
            1 + bond.GetIsConjugated(),
            _STEREO.get(bond.GetStereo().name.removeprefix("STEREO"), UNKNOWN),
        )
        for bond in bonds
    ], np.uint8)  # fmt: skip
    edges, kinds = edges.reshape(-1, 2), kinds.reshape(-1, len(BONDS))
    both = np.concatenate([edges, edges[:, ::-1]])
    return Coded(atoms, both, np.concatenate([kinds, kinds]))


def _code(value: int, low: int, high: int) -> int:
    return value - low + 1 if low <= value <= high else UNKNOWN


def from_smiles(
    smiles: Iterable[str],
    targets: Any = None,
    *,
    name: str = "custom",
    classes: bool = False,
    tasks: Sequence[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
    cache_dir: str | Path | None = None,
    key: str | None = None,
) -> Molecules:
    """Molecules from SMILES; invalid ones are left out and listed in ``invalid``.

    So are SMILES of more than 3,000 letters.

    Args:
        smiles: the SMILES.
        targets: as of :meth:`Molecules.with_targets`; None for none. If both are objects of pandas,
            they are matched by index.
        name: name of the set in results.
        classes: whether targets are classes.
        tasks: names of the targets.
        jobs: processes that read them.
        progress: called with the number of SMILES read since the last call.
        cache_dir: root of the cache, as for :func:`gcl_hard.files.io.cache_root`.
        key: identifies the SMILES, such as a digest of their file: with it the molecules are parsed
            once, kept in the cache's ``molecules``, and used from disk.

    Returns:
        The molecules.

    Raises:
        InputError: if none is valid, if ``smiles`` is a single string or holds anything else, and
            for targets as in :meth:`Molecules.with_targets`.
        MissingExtraError: without rdkit.

    Example:
        >>> from_smiles(["c1ccccc1", "C"]).edge_ptr.tolist()
        [0, 12, 12]
    """
    check_processes(jobs=jobs)
    if isinstance(smiles, str | bytes | bytearray):
        raise InputError(
            f"smiles must be a list of SMILES, got {smiles!r}: for one give [{smiles!r}]"
        )
    index = smiles.index.tolist() if hasattr(smiles, "iloc") else None  # type: ignore[attr-defined]
    targets = targets if index is None else in_order(targets, index, "molecule", "targets")
    if key is None:
        with tempfile.TemporaryDirectory() as folder:
            _write(smiles, Path(folder), jobs=jobs, progress=progress)
            molecules = _read(Path(folder), name, mapped=False)
    else:
        make = partial(_write, smiles, jobs=jobs, progress=progress)
        molecules = _read(cached_folder(_cache_path(name, key, cache_dir), make), name, mapped=True)
    if targets is None:
        return molecules
    return molecules.with_targets(targets, classes=classes, tasks=tasks)


_FILES: dict[str, tuple[Any, int]] = {
    "atoms": (np.uint8, len(ATOMS)), "edges": (np.int32, 2), "bonds": (np.uint8, len(BONDS)),
    "n_atoms": (np.int64, 1), "n_edges": (np.int64, 1), "rows": (np.int64, 1),
}  # fmt: skip
"""Files of a set: type and number of columns."""


def _write(smiles: Iterable[str], folder: Path, *, jobs: int, progress: Progress | None) -> None:
    """Parse the SMILES and write the arrays one by one, so that memory does not grow."""
    invalid, row, nodes = list[Invalid](), -1, 0
    with ExitStack() as stack:
        texts = stack.enter_context((folder / "smiles.txt").open("wb"))
        files = {name: stack.enter_context((folder / f"{name}.bin").open("wb")) for name in _FILES}
        for row, (text, coded) in enumerate(_mapped(codes, smiles, jobs)):
            if progress is not None:
                progress(1)
            if coded is None:
                invalid.append(Invalid(row, text))
                continue
            texts.write(text.encode() + b"\n")
            parts: dict[str, Any] = coded._asdict() | {
                "edges": coded.edges + nodes, "n_atoms": len(coded.atoms),
                "n_edges": len(coded.edges), "rows": row,
            }  # fmt: skip
            for name, (dtype, _) in _FILES.items():
                files[name].write(np.asarray(parts[name], dtype).tobytes())  # tofile: no errno
            nodes += len(coded.atoms)
    if not nodes:
        first = f": the first is {invalid[0].smiles[:SHOWN]!r}" if invalid else ""
        raise InputError(f"none of {row + 1} SMILES is a molecule{first}; is it the right column?")
    (folder / "about.json").write_text(json.dumps({"invalid": invalid}), encoding="utf-8")


def _mapped(work: Callable[[S], T], items: Iterable[S], jobs: int) -> Iterator[tuple[S, T]]:
    """Items, each with the function's result, in order."""
    rdkit()  # raises here if it is missing, not in a worker
    if jobs == 1:
        yield from ((item, work(item)) for item in items)
        return
    check_main_guard(f"jobs={jobs}")
    remaining = iter(items)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        # Not all at once: a million SMILES would be waiting in memory.
        while queued := [*islice(remaining, 8 * jobs * CHUNK)]:
            yield from zip(queued, pool.map(work, queued, chunksize=CHUNK), strict=True)


def _read(folder: Path, name: str, *, mapped: bool) -> Molecules:
    """The set in a folder; ``mapped`` maps its large arrays into memory."""
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    read: Any = partial(np.memmap, mode="c") if mapped else np.fromfile
    parts = {}
    for file, (dtype, columns) in _FILES.items():
        path = folder / f"{file}.bin"
        empty = not path.stat().st_size  # an empty file cannot be mapped
        part = np.empty(0, dtype) if empty else read(path, dtype=dtype)
        parts[file] = part.reshape(-1, columns) if columns > 1 else part
    with (folder / "smiles.txt").open("rb") as lines:
        texts = np.fromiter(map(bytes.rstrip, lines), object)  # a fixed width would pad them
    tensors = {file: torch.from_numpy(part) for file, part in parts.items() if file != "rows"}
    return Molecules(
        name=name, x=tensors["atoms"], edge_index=tensors["edges"].T,
        y=torch.full((len(parts["rows"]),), NO_LABEL), node_ptr=_ends(tensors["n_atoms"]),
        edge_ptr=_ends(tensors["n_edges"]), n_classes=0, features=CODES,
        edge_attr=tensors["bonds"], smiles=texts, rows=np.asarray(parts["rows"]),
        invalid=tuple(Invalid(row, text) for row, text in about["invalid"]),
        ids=np.asarray(parts["rows"]),
    )  # fmt: skip


def _ends(sizes: Tensor) -> Tensor:
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


def scaffolds(
    smiles: Iterable[str | bytes],
    *,
    chirality: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
    cache_dir: str | Path | None = None,
    key: str | None = None,
) -> list[str]:
    """The Murcko scaffold of each molecule, as SMILES; empty without rings.

    Args:
        smiles: SMILES of valid molecules, such as :attr:`Molecules.smiles`.
        chirality: whether mirror images are different scaffolds; DeepChem and MoleculeNet split
            by scaffolds without it.
        jobs: processes.
        progress: called with the number of molecules done since the last call.
        cache_dir: root of the cache, as for :func:`gcl_hard.files.io.cache_root`.
        key: identifies the SMILES: with it the scaffolds are kept in the cache.

    Raises:
        MissingExtraError: without rdkit.

    Source:
        Bemis & Murcko (1996), *The Properties of Known Drugs. 1. Molecular Frameworks*.

    Example:
        >>> scaffolds(["Cc1ccccc1", "CCO"])
        ['c1ccccc1', '']
    """
    name = "scaffolds" if chirality else "scaffolds-without-chirality"

    def lines() -> Iterator[str]:
        for _, scaffold in _mapped(partial(_scaffold, chirality=chirality), smiles, jobs):
            yield scaffold
            if progress is not None:
                progress(1)

    def write(folder: Path) -> None:
        with (folder / "scaffolds.txt").open("wb") as file:
            file.writelines(f"{scaffold}\n".encode() for scaffold in lines())

    if key is None:
        return [*lines()]
    folder = cached_folder(_cache_path(name, key, cache_dir), write)
    return (folder / "scaffolds.txt").read_text(encoding="utf-8").splitlines()


def _cache_path(name: str, key: str, cache_dir: str | Path | None) -> Path:
    """Cache folder of results for the SMILES with a key."""
    version = f"{FORMAT} {rdkit('rdBase').rdkitVersion} {key}"
    digest = hashlib.sha256(version.encode()).hexdigest()[:16]
    return cache_root(cache_dir) / "molecules" / f"{name}-{digest}"


def _scaffold(smiles: str | bytes, *, chirality: bool) -> str:
    mol = molecule(smiles)
    if not mol.GetRingInfo().NumRings():  # faster than rdkit for long chains
        return ""
    murcko = rdkit("Chem.Scaffolds.MurckoScaffold")
    return murcko.MurckoScaffoldSmiles(mol=mol, includeChirality=chirality)


def fingerprints(molecules: Molecules, *, radius: int = 2, bits: int = 1024) -> NDArray[np.uint8]:
    """Extended-connectivity fingerprints (ECFP), uint8 [G, bits] of 0 and 1.

    Args:
        molecules: the molecules.
        radius: bonds around an atom; 2 is ECFP4.
        bits: length.

    Source:
        Rogers & Hahn (2010), *Extended-Connectivity Fingerprints*.

    Example:
        >>> fingerprints(from_smiles(["CCO"])).sum()
        np.uint64(6)
    """
    maker = rdkit("Chem.rdFingerprintGenerator")
    generator = maker.GetMorganGenerator(radius=radius, fpSize=bits)
    mols = map(molecule, molecules.smiles)
    return np.stack([generator.GetFingerprintAsNumPy(mol) for mol in mols])


def tanimoto(a: Any, b: Any) -> NDArray[np.float64]:
    """Tanimoto similarity of fingerprints, float64 [A, B]: shared bits over bits of either.

    Args:
        a: [A, bits] of 0 and 1.
        b: [B, bits].

    Returns:
        Values in [0, 1]; 1 for two fingerprints of zeros.

    Example:
        >>> tanimoto([[1, 1, 0]], [[1, 0, 0], [1, 1, 0], [0, 0, 1]]).tolist()
        [[0.5, 1.0, 0.0]]
    """
    a, b = np.asarray(a), np.asarray(b, np.float64)
    similarity = np.ones((len(a), len(b)))
    for start in range(0, len(a), ROWS_AT_A_TIME):
        rows = np.asarray(a[start : start + ROWS_AT_A_TIME], np.float64)
        shared = rows @ b.T
        either = rows.sum(1)[:, None] + b.sum(1)[None] - shared
        np.divide(shared, either, out=similarity[start : start + len(rows)], where=either > 0)
    return similarity


def most_similar(bits: NDArray[Any], most: int = 64) -> NDArray[np.int64]:
    """The most similar other molecules of each.

    Args:
        bits: fingerprints of 0 and 1, [n, bits].
        most: largest number for each.

    Returns:
        int64 [n, min(most, n − 1)], the most similar first; among equals the first.

    Example:
        >>> most_similar(np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]]), 1).tolist()
        [[1], [0], [0]]
    """
    neighbours = []
    for start in range(0, len(bits), ROWS_AT_A_TIME):
        similarity = tanimoto(bits[start : start + ROWS_AT_A_TIME], bits)
        n = len(similarity)
        similarity[np.arange(n), np.arange(start, start + n)] = -1
        order = np.argsort(-similarity, axis=1, kind="stable")
        neighbours.append(order[:, : min(most, len(bits) - 1)])
    return np.concatenate(neighbours)


TU_ATOMS = {
    "MUTAG": (6, 7, 8, 9, 53, 17, 35),
    "PTC_MR": (49, 15, 8, 7, 11, 6, 17, 16, 35, 9, 19, 29, 30, 53, 56, 50, 82, 20),
}
"""Atomic numbers of the node labels of TU sets, from the tables in their README files."""
TU_BONDS = {"MUTAG": (4, 1, 2, 3), "PTC_MR": (3, 2, 1, 4)}
"""Codes of their edge labels' types."""


def from_tu(graphs: GraphSet) -> GraphSet:
    """MUTAG or PTC_MR in the codes of molecules, so that an encoder of molecules embeds them.

    Elements, degrees, types of bonds and aromaticity are known; charges, hydrogens, chirality,
    rings, conjugation and stereo are not.

    Raises:
        InputError: for another set, or one without node and edge labels.

    Example:
        >>> from gcl_hard.graphs import load_graphs
        >>> from_tu(load_graphs("MUTAG", download=False))[0].x[0].tolist()
        [6, 3, 0, 0, 2, 0]
    """
    if graphs.name not in TU_ATOMS:
        raise InputError(f"{graphs.name} has no table of elements: {', '.join(TU_ATOMS)} have")
    if graphs.features != "labels" or graphs.edge_attr is None:
        raise InputError(f"{graphs.name} must be loaded with features labels and its edge labels")
    x = torch.zeros(graphs.n_nodes, len(ATOMS), dtype=torch.uint8)
    bonds = torch.zeros(graphs.edge_index.shape[1], len(BONDS), dtype=torch.uint8)
    kind = torch.tensor(TU_BONDS[graphs.name])[graphs.edge_attr.argmax(1)]
    source = graphs.edge_index[0]
    x[:, 0] = torch.tensor(TU_ATOMS[graphs.name])[graphs.x.argmax(1)].to(x)
    x[:, 1] = (torch.bincount(source, minlength=len(x)) + 1).to(x)
    x[:, 4] = 1
    x[source[kind == 4], 4] = 2
    bonds[:, 0] = kind.to(bonds)
    return replace(graphs, x=x, edge_attr=bonds, features=CODES)
