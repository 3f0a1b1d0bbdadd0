"""Random changes of a graph batch for two-view training; none lets an edge cross graphs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from gcl_hard.errors import InputError, unknown
from gcl_hard.graphs.batches import GraphBatch
from gcl_hard.graphs.draws import (
    absent,
    check_share,
    decode,
    encode,
    positions,
    rank,
    share,
    uniform,
)

WALK_FACTOR = 4  # steps of a random walk per node that it should visit


class Augmentation(Protocol):
    """Anything that turns a batch into another with the same graphs in the same order."""

    def __call__(self, batch: GraphBatch, p: float, *, generator: torch.Generator) -> GraphBatch:
        """The changed batch; p is the share to change, in [0, 1)."""
        ...


def identity(batch: GraphBatch, p: float, *, generator: torch.Generator) -> GraphBatch:
    """The batch unchanged, whatever p; nothing is drawn from the generator."""
    check_share(p)
    return batch


def drop_nodes(batch: GraphBatch, p: float, *, generator: torch.Generator) -> GraphBatch:
    """Remove a random share p of each graph's nodes, with their rows and edges.

    p * n nodes of a graph of n go, rounded up or down at random so that the mean is exact; one
    node always stays.

    Args:
        batch: of any graphs.
        p: share in [0, 1).
        generator: source of randomness, on any device.

    Returns:
        The smaller batch, nodes renumbered.

    Raises:
        InputError: p is out of range.

    Source:
        You et al. 2020, "Graph Contrastive Learning with Augmentations", Table 1.

    Example:
        >>> from gcl_hard.graphs.datasets import load
        >>> batch = load("MUTAG", download=False).all()
        >>> drop_nodes(batch, 0.5, generator=torch.Generator().manual_seed(0)).num_graphs
        188
    """
    sizes = torch.bincount(batch.batch, minlength=batch.n_graphs)
    dropped = share(p, sizes, generator, spare=1)
    return _induced(batch, rank(batch.batch, sizes, generator) >= dropped[batch.batch])


def mask_attributes(batch: GraphBatch, p: float, *, generator: torch.Generator) -> GraphBatch:
    """Set the feature rows of a random share p of each graph's nodes to zero.

    Args:
        batch: of any graphs.
        p: share in [0, 1), rounded as in :func:`drop_nodes`.
        generator: source of randomness, on any device.

    Returns:
        The batch with new features and everything else as it was.

    Raises:
        InputError: p is out of range.

    Source:
        You et al. 2020, "Graph Contrastive Learning with Augmentations", Table 1.

    Example:
        >>> from gcl_hard.graphs.datasets import load
        >>> batch = load("MUTAG", download=False).all()
        >>> view = mask_attributes(batch, 0.2, generator=torch.Generator().manual_seed(0))
        >>> round(1 - float(view.x.sum() / batch.x.sum()), 2)
        0.2
    """
    sizes = torch.bincount(batch.batch, minlength=batch.n_graphs)
    masked = share(p, sizes, generator)
    hidden = rank(batch.batch, sizes, generator) < masked[batch.batch]
    return replace(batch, x=batch.x.masked_fill(hidden.unsqueeze(1), 0.0))


def perturb_edges(batch: GraphBatch, p: float, *, generator: torch.Generator) -> GraphBatch:
    """Remove a random share p of each graph's undirected edges and add as many new ones.

    A new edge links two different nodes of one graph that were not linked before, so a graph with
    fewer such pairs than removed edges gets fewer. Self loops are removed, repeats are one edge.

    Args:
        batch: of graphs with each undirected edge in both directions.
        p: share in [0, 1), rounded as in :func:`drop_nodes`.
        generator: source of randomness, on any device.

    Returns:
        The batch with other edges; new ones stand last and have an edge_attr of zeros.

    Raises:
        InputError: p is out of range.

    Source:
        You et al. 2020, "Graph Contrastive Learning with Augmentations", Table 1.

    Example:
        >>> from gcl_hard.graphs.datasets import load
        >>> batch = load("MUTAG", download=False).all()
        >>> view = perturb_edges(batch, 0.2, generator=torch.Generator().manual_seed(0))
        >>> view.edge_index.shape == batch.edge_index.shape
        True
    """
    sizes = torch.bincount(batch.batch, minlength=batch.n_graphs)
    slots = sizes * (sizes - 1) // 2
    proper = batch.edge_index[0] != batch.edge_index[1]
    edges = batch.edge_index[:, proper]
    codes, undirected = torch.unique(encode(edges, batch.batch, sizes), return_inverse=True)

    owner = torch.searchsorted(slots.cumsum(0), codes, right=True)
    linked = torch.bincount(owner, minlength=batch.n_graphs)
    removed = share(p, linked, generator)
    keep = (rank(owner, linked, generator) >= removed[owner])[undirected]

    added = absent(codes, slots - linked, removed, generator)
    new = decode(added, sizes)
    new = torch.cat([new, new.flip(0)], dim=1)
    edge_attr = batch.edge_attr
    if edge_attr is not None:
        edge_attr = edge_attr[proper][keep]
        edge_attr = torch.cat([edge_attr, edge_attr.new_zeros(new.shape[1], edge_attr.shape[1])])
    return replace(batch, edge_index=torch.cat([edges[:, keep], new], dim=1), edge_attr=edge_attr)


def random_walk_subgraph(batch: GraphBatch, p: float, *, generator: torch.Generator) -> GraphBatch:
    """Keep the nodes that a random walk meets first, until a share 1 - p of a graph is seen.

    One walk per graph, from a random node, all walks at once. Each has ``WALK_FACTOR`` steps per
    node that the largest graph should keep; a walk that runs out of them, or whose component is
    smaller, keeps fewer nodes.

    Args:
        batch: of any graphs; edges are walked from row 0 to row 1 of ``edge_index``.
        p: share to leave out, in [0, 1), rounded as in :func:`drop_nodes`.
        generator: source of randomness, on any device.

    Returns:
        The induced subgraphs, nodes renumbered.

    Raises:
        InputError: p is out of range.

    Source:
        You et al. 2020, "Graph Contrastive Learning with Augmentations", Table 1 (subgraph).

    Example:
        >>> from gcl_hard.graphs.datasets import load
        >>> batch = load("MUTAG", download=False).all()
        >>> view = random_walk_subgraph(batch, 0.2, generator=torch.Generator().manual_seed(0))
        >>> len(view.x) <= 0.82 * len(batch.x)
        True
    """
    sizes = torch.bincount(batch.batch, minlength=batch.n_graphs)
    wanted = sizes - share(p, sizes, generator, spare=1)
    first, degree, neighbour = _neighbours(batch)

    start = sizes.cumsum(0) - sizes
    steps = WALK_FACTOR * int(wanted.max())
    draws = uniform((steps, batch.n_graphs), generator, batch.x.device)
    path = [start + (draws[0] * sizes).long()]
    for draw in draws[1:]:
        here = path[-1]
        turn = (draw * degree.index_select(0, here)).long()
        path.append(neighbour.index_select(0, first.index_select(0, here) + turn))

    met = torch.full_like(batch.batch, steps)
    at = torch.arange(steps, device=met.device).repeat_interleave(batch.n_graphs)
    met = met.scatter_reduce(0, torch.cat(path), at, "amin")
    order = torch.argsort(batch.batch * (steps + 1) + met)
    keep = (positions(order, start, batch.batch) < wanted[batch.batch]) & (met < steps)
    return _induced(batch, keep)


AUGMENTATIONS: dict[str, Augmentation] = {
    "drop-nodes": drop_nodes,
    "perturb-edges": perturb_edges,
    "mask-attributes": mask_attributes,
    "random-walk": random_walk_subgraph,
    "identity": identity,
}


def check_views(augmentations: Iterable[str], strength: float) -> None:
    """Refuse names that are no augmentation, and shares that none of them takes.

    Args:
        augmentations: names of ``AUGMENTATIONS``.
        strength: share p in [0, 1).

    Raises:
        InputError: for either; offers the nearest names.

    Example:
        >>> check_views(("drop-nodes", "mask-attributes"), strength=0.2)
    """
    for name in augmentations:
        if name not in AUGMENTATIONS:
            raise unknown("augmentation", name, AUGMENTATIONS)
    if not 0 <= strength < 1:
        raise InputError(f"strength must be in [0, 1), got {strength}")


def _induced(batch: GraphBatch, keep: Tensor) -> GraphBatch:
    """The subgraphs on the kept nodes (bool [n]), renumbered."""
    within = keep[batch.edge_index].all(dim=0)
    new_id = keep.cumsum(0) - 1
    return replace(
        batch,
        x=batch.x[keep],
        edge_index=new_id[batch.edge_index[:, within]],
        batch=batch.batch[keep],
        edge_attr=None if batch.edge_attr is None else batch.edge_attr[within],
    )


def _neighbours(batch: GraphBatch) -> tuple[Tensor, Tensor, Tensor]:
    """First position, degree [n] and the neighbours [e] they point into; dead ends stay put."""
    n_nodes = len(batch.batch)
    ends = torch.bincount(batch.edge_index[0], minlength=n_nodes) == 0
    stay = torch.nonzero(ends).T
    source, target = torch.cat([batch.edge_index, stay.expand(2, -1)], dim=1)
    degree = torch.bincount(source, minlength=n_nodes)
    return degree.cumsum(0) - degree, degree, target[torch.argsort(source, stable=True)]
