"""Node features of a graph set; part of the protocol and stored with results."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gcl_hard.errors import InputError, check_option

KINDS = ("auto", "labels", "degree-onehot", "degree-scalar", "constant", "attributes")
CODES = "codes"
"""Feature kind of molecules: integer codes of atoms."""
ATOMS = {"element": 119, "degree": 12, "charge": 12, "hydrogens": 10, "aromatic": 3, "chirality": 5}
"""Number of codes of each field of an atom: atomic numbers 1 to 118; degrees 0 to 10; charges −5 to
5; hydrogens 0 to 8; no, yes; none, clockwise, counter-clockwise, other."""
BONDS = {"type": 6, "ring": 3, "conjugated": 3, "stereo": 7}
"""Number of codes of each field of a bond: single, double, triple, aromatic, other; no, yes; no,
yes; none, Z, E, cis, trans, any."""
MAX_ONE_HOT_DEGREE = 1000


def check_kind(kind: str) -> str:
    """The kind, checked to be in ``KINDS``.

    Raises:
        InputError: for an unknown kind; offers the closest.

    Example:
        >>> check_kind("labels")
        'labels'
    """
    return check_option("node feature kind", kind, KINDS)


def node_features(
    kind: str,
    edge_index: Tensor,
    n_nodes: int,
    *,
    labels: Tensor | None = None,
    attributes: Tensor | None = None,
) -> tuple[Tensor, str]:
    """Features of all nodes of a set, and their kind with ``auto`` resolved.

    ``auto`` is ``labels`` if there are any. Otherwise it is ``constant`` if all degrees are equal,
    ``degree-onehot`` for degrees below 1000, and ``degree-scalar`` above. ``attributes`` appends
    the one-hot labels to the continuous attributes if there are both.

        degree-scalar: x_i = (d_i - mean(d)) / std(d)

    Args:
        kind: one of ``KINDS``.
        edge_index: int64 [2, E], each undirected edge in both directions.
        n_nodes: N.
        labels: float32 [N, L] one-hot, or None.
        attributes: float32 [N, A], or None.

    Returns:
        float32 [N, F] and the kind, never ``auto``. One-hot degrees have max(d) + 1 columns.

    Raises:
        InputError: if the kind is unknown, or the set does not have it.

    Source:
        One-hot labels, else degrees, as in InfoGraph (Sun et al. 2020) and GIN (Xu et al. 2019);
        the scalar for large degrees as in PyTorch Geometric's graph kernel benchmark.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> x, kind = node_features("auto", path, 3)
        >>> kind, x.argmax(dim=1).tolist()
        ('degree-onehot', [1, 2, 1])
    """
    check_kind(kind)
    blocks = {"labels": labels, "attributes": attributes}
    if blocks.get(kind, edge_index) is None:
        available = [name for name in KINDS if blocks.get(name, edge_index) is not None]
        raise InputError(
            f"node features {kind!r} are not in this set; it has {', '.join(available)}"
        )
    if labels is not None and kind in {"auto", "labels"}:
        return labels, "labels"
    if attributes is not None and kind == "attributes":
        columns = attributes if labels is None else torch.cat([attributes, labels], dim=1)
        return columns, "attributes"

    degree = torch.bincount(edge_index[0], minlength=n_nodes)
    if kind == "auto":
        kind = _by_degree(degree)
    if kind == "constant":
        return torch.ones(n_nodes, 1, device=degree.device), kind
    if kind == "degree-scalar":
        return standardise(degree.double().unsqueeze(1)).float(), kind
    return torch.nn.functional.one_hot(degree).float(), kind


def column_names(
    kind: str, x: Tensor, attributes: tuple[str, ...] = (), labels: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Names of the columns of node features; empty if unknown.

    Args:
        kind: kind of the features, never ``auto``.
        x: [N, F], the features.
        attributes: names of continuous attributes.
        labels: names of one-hot labels.

    Example:
        >>> column_names("degree-onehot", torch.eye(3))
        ('degree=0', 'degree=1', 'degree=2')
    """
    if kind == "degree-onehot":
        return tuple(f"degree={d}" for d in range(x.shape[1]))
    names = {"labels": labels, "attributes": attributes + labels}.get(kind, (kind,))
    return names if len(names) == x.shape[1] else ()


def aligned_columns(
    x: Tensor, names: Sequence[str], wanted: Sequence[str], *, field: str, name: str
) -> Tensor:
    """Features rearranged into the wanted columns by name; 0 for missing categories.

    Args:
        x: [n, F], dense or ``torch.sparse_csr``.
        names: names of its columns.
        wanted: names of the wanted columns, in order.
        field: name of the features, for messages.
        name: name of the set.

    Raises:
        InputError: if a row has features outside the wanted columns, or a wanted column is missing
            that is not a category (such as ``label=3``), so that 0 cannot stand for it.

    Example:
        >>> x = torch.tensor([[1.0, 2.0]])
        >>> aligned_columns(x, ["age", "sum"], ["sum", "kind=a", "age"], field="x", name="a set")
        tensor([[2., 0., 1.]])
    """
    values = x if x.layout == torch.strided else x.to_sparse(layout=torch.sparse_coo)
    position, requested = {column: i for i, column in enumerate(names)}, {*wanted}
    extra_columns = [i for i, column in enumerate(names) if column not in requested]
    extra = values.index_select(1, torch.tensor(extra_columns, device=x.device).long())
    _, columns = (extra.to_sparse() if values is x else extra).coalesce().indices()
    if len(columns):
        examples = [names[extra_columns[i]] for i in columns.unique().tolist()]
        raise InputError(
            f"{name} has features ({field}) that are not among the {len(wanted)} columns: "
            f"{', '.join(examples[:5])}: leave out what has them"
        )
    if lacking := [column for column in wanted if column not in position and "=" not in column]:
        raise InputError(
            f"{name} lacks the column {', '.join(lacking[:5])} of {field}, and only categories "
            f"(such as label=3) default to 0: add it"
        )
    zeros = torch.zeros(len(x), 1, dtype=x.dtype, device=x.device)
    wide = torch.cat([values, zeros if values is x else zeros.to_sparse()], 1)
    indices = [position.get(column, len(names)) for column in wanted]
    index = torch.tensor(indices, device=x.device).long()
    chosen = wide.index_select(1, index)
    return chosen if values is x else chosen.coalesce().to_sparse_csr()


def _by_degree(degree: Tensor) -> str:
    low, high = (int(bound) for bound in degree.aminmax())
    if low == high:
        return "constant"
    return "degree-onehot" if high < MAX_ONE_HOT_DEGREE else "degree-scalar"


def standardise(x: Tensor, rows: Tensor | None = None) -> Tensor:
    """Columns minus their mean, divided by their standard deviation (1 if that is 0).

    Args:
        x: float [N, F].
        rows: int64 or bool index of the rows for mean and standard deviation; all by default.

    Returns:
        float [N, F], all rows.

    Example:
        >>> standardise(torch.tensor([[1.0], [3.0], [9.0]]), torch.tensor([0, 1])).T
        tensor([[-1.,  1.,  7.]])
    """
    sample = x if rows is None else x[rows]
    deviation = sample.std(dim=0, correction=0)
    scale = torch.where(deviation > 0, deviation, torch.ones_like(deviation))
    return (x - sample.mean(dim=0)) / scale


def vocabulary() -> dict[str, dict[str, int]]:
    """Number of codes of each field of atoms and bonds."""
    return {"atoms": dict(ATOMS), "bonds": dict(BONDS)}
