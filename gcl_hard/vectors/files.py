"""Sets of vectors in files: npz files of arrays, and tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gcl_hard.errors import InputError
from gcl_hard.files import locating
from gcl_hard.files.io import array_of, expanded, opened_npz
from gcl_hard.files.locating import Wanted
from gcl_hard.files.tables import is_table
from gcl_hard.vectors import KNOWN, canonical_name, in_folder, is_npz
from gcl_hard.vectors.data import VectorSet


def load_vectors(
    name: str | os.PathLike[str],
    *,
    data_dir: str | Path | None = None,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    id: str | None = None,
) -> VectorSet:
    """A set of vectors by its name, or from its file.

    Args:
        name: wine, iris or breast-cancer, of scikit-learn; NAME of a NAME.npz in the data folder or
            the cache; or the path of an npz file or a table.
        data_dir: folder with your sets; that of ``GCL_HARD_DATA`` if None.
        columns: of a table, as of :meth:`VectorSet.from_table`, as are label and id.
        label: likewise.
        id: likewise.

    Raises:
        InputError: if there is no such set, or its file does not fit.

    Example:
        >>> load_vectors("wine")
        VectorSet(wine: 178 vectors, 3 classes)
    """
    text = canonical_name(os.fspath(name))
    if text in KNOWN:
        from sklearn import datasets

        loaded = getattr(datasets, KNOWN[text])()
        words = loaded.target_names[loaded.target]
        return VectorSet.from_arrays(loaded.data, words, columns=loaded.feature_names, name=text)
    path = locate(text, data_dir=data_dir)
    if is_table(path.name):
        return VectorSet.from_table(path, columns=columns, label=label, id=id)
    if refused := [flag for flag in (columns, label, id) if flag is not None]:
        raise InputError(f"{path} is no table, whose columns {refused[0]!r} would name")
    return read_npz(path)


def read_npz(path: str | Path) -> VectorSet:
    """Vectors of an npz file; no pickle is loaded.

    Args:
        path: a file with ``x`` [n, d] and ``y`` [n], and perhaps ``split`` [n], ``names`` [n] and
            ``columns`` [d]; see :meth:`VectorSet.from_arrays`.

    Raises:
        InputError: for a file that cannot be read, or whose arrays do not fit.
    """
    path = Path(path)
    with opened_npz(path) as stored:
        known = [key for key in ("split", "names", "columns") if key in stored.files]
        x, y, *others = (array_of(stored, path, key) for key in ("x", "y", *known))
    more = dict(zip(known, others, strict=True))
    return VectorSet.from_arrays(
        x, y, split=more.get("split"), ids=more.get("names"),
        columns=[str(column) for column in more.get("columns", ())], name=path.stem,
    )  # fmt: skip


def paths(name: str, *, data_dir: str | Path | None = None) -> list[Path]:
    """The file of a set; none of scikit-learn's."""
    return [] if canonical_name(name) in KNOWN else [locate(name, data_dir=data_dir)]


def locate(name: str, *, data_dir: str | Path | None = None) -> Path:
    """The file of a set by its name or path; InputError if it cannot be found."""
    path = expanded(name)
    if data_dir is None and (is_table(name) or is_npz(name)) and path.is_file():
        return path
    places = locating.folders(
        "vectors", data_dir=data_dir, cache_dir=None, files="NAME.npz files and tables"
    )
    file = name if is_table(name) else f"{name}.npz"
    wanted = Wanted(
        look=partial(in_folder, name=name),
        lacks=lambda folder: f"no {file} of vectors",
        headline=locating.headline("set of vectors", name, KNOWN, f"needs its {file}"),
        put=[("arrays x [n, d] and y [n]", file)],
        hint="VectorSet.from_arrays and from_table make sets of your own",
    )
    return locating.locate(wanted, places, download=False)
