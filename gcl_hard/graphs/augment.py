"""Random augmentations of graph batches for two-view training; no edge ever crosses graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from gcl_hard.core.seeds import seeded_globally
from gcl_hard.errors import InputError, check_number, check_option
from gcl_hard.graphs.data import GraphBatch

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = [
    "AUGMENTATIONS",
    "Augmentation",
    "augment",
    "drop_nodes",
    "identity",
    "mask_attributes",
    "mask_columns",
    "perturb_edges",
    "random_walk_subgraph",
]

Transform = Callable[["Data"], "Data"]
"""A user-defined augmentation, such as a PyTorch Geometric transform: called with a batch as one
``torch_geometric.data.Data``, whose ``batch`` is the graph of each node."""
WALK_FACTOR = 4
"""Steps of a random walk per node to visit."""


class Augmentation(Protocol):
    """A function from a batch to a changed batch of the same graphs in the same order."""

    def __call__(self, batch: GraphBatch, p: float, *, generator: torch.Generator) -> GraphBatch:
        """Change a share p in [0, 1) of each graph."""
        ...


def identity(batch: GraphBatch, p: float, *, generator: torch.Generator) -> GraphBatch:
    """The batch unchanged, for any p; draws nothing from the generator."""
    check_number("p", p, least=0, below=1)
    return batch


def drop_nodes(batch: GraphBatch, p: float, *, generator: torch.Generator) -> GraphBatch:
    """Remove a random share p of each graph's nodes, with their rows and edges.

    Of n nodes, p * n are removed, rounded up or down at random so that the mean is exact; at
    least one node is kept.

    Args:
        batch: any graphs.
        p: share in [0, 1).
        generator: random generator, on any device.

    Returns:
        The smaller batch, nodes renumbered.

    Raises:
        InputError: if p is out of range.

    Source:
        You et al. 2020, "Graph Contrastive Learning with Augmentations", Table 1.

    Example:
        >>> from gcl_hard.graphs import load_graphs
        >>> batch = load_graphs("MUTAG", download=False).all()
        >>> drop_nodes(batch, 0.5, generator=torch.Generator().manual_seed(0)).num_graphs
        188
    """
    sizes = torch.bincount(batch.batch, minlength=batch.n_graphs)
    dropped = share(p, sizes, generator, spare=1)
    return _induced(batch, rank(batch.batch, sizes, generator) >= dropped[batch.batch])


def mask_attributes(batch: GraphBatch, p: float, *, generator: torch.Generator) -> GraphBatch:
    """Set the feature rows of a random share p of each graph's nodes to zero.

    Args:
        batch: any graphs.
        p: share in [0, 1), rounded as in :func:`drop_nodes`.
        generator: random generator, on any device.

    Returns:
        The batch with new features, otherwise unchanged.

    Raises:
        InputError: if p is out of range.

    Source:
        You et al. 2020, "Graph Contrastive Learning with Augmentations", Table 1.

    Example:
        >>> from gcl_hard.graphs import load_graphs
        >>> batch = load_graphs("MUTAG", download=False).all()
        >>> view = mask_attributes(batch, 0.2, generator=torch.Generator().manual_seed(0))
        >>> round(1 - float(view.x.sum() / batch.x.sum()), 2)
        0.2
    """
    sizes = torch.bincount(batch.batch, minlength=batch.n_graphs)
    masked = share(p, sizes, generator)
    hidden = rank(batch.batch, sizes, generator) < masked[batch.batch]
    return replace(batch, x=batch.x.masked_fill(hidden.unsqueeze(1), 0))


def mask_columns(batch: GraphBatch, p: float, *, generator: torch.Generator) -> GraphBatch:
    """Set a random share p of the feature columns of each graph's nodes, and of its edges, to zero.

    Args:
        batch: any graphs.
        p: share in [0, 1), rounded as in :func:`drop_nodes`, of the columns of each graph.
        generator: random generator, on any device.

    Returns:
        The batch with new features, otherwise unchanged.

    Raises:
        InputError: if p is out of range.

    Source:
        Zhu et al. 2020, "Deep Graph Contrastive Representation Learning" (masking node features).

    Example:
        >>> from gcl_hard.molecules import from_smiles
        >>> batch = from_smiles(["CCO"]).all()
        >>> view = mask_columns(batch, 0.5, generator=torch.Generator().manual_seed(0))
        >>> int((view.x == 0).all(0).sum())
        3
    """
    attributes = batch.edge_attr
    x = batch.x.masked_fill(_columns(batch, batch.x, p, generator)[batch.batch], 0)
    if attributes is not None:
        hidden = _columns(batch, attributes, p, generator)
        attributes = attributes.masked_fill(hidden[batch.batch[batch.edge_index[0]]], 0)
    return replace(batch, x=x, edge_attr=attributes)


def _columns(batch: GraphBatch, rows: Tensor, p: float, generator: torch.Generator) -> Tensor:
    """Columns that are hidden in each graph, bool [B, columns]."""
    shape = batch.n_graphs, rows.shape[1]
    n = share(p, torch.full(shape[:1], shape[1], device=rows.device), generator)
    return uniform(shape, generator, rows.device).argsort(1).argsort(1) < n[:, None]


def perturb_edges(batch: GraphBatch, p: float, *, generator: torch.Generator) -> GraphBatch:
    """Remove a random share p of each graph's undirected edges and add as many new ones.

    A new edge links two different nodes of one graph that were not linked before; a graph with
    fewer such pairs than removed edges gets fewer. Self loops are removed, repeated edges merged.

    Args:
        batch: graphs with each undirected edge in both directions; nodes in any order.
        p: share in [0, 1), rounded as in :func:`drop_nodes`.
        generator: random generator, on any device.

    Returns:
        The batch with other edges, nodes graph after graph; new edges come last, with an
        edge_attr of zeros.

    Raises:
        InputError: if p is out of range.

    Source:
        You et al. 2020, "Graph Contrastive Learning with Augmentations", Table 1.

    Example:
        >>> from gcl_hard.graphs import load_graphs
        >>> batch = load_graphs("MUTAG", download=False).all()
        >>> view = perturb_edges(batch, 0.2, generator=torch.Generator().manual_seed(0))
        >>> view.edge_index.shape == batch.edge_index.shape
        True
    """
    batch = _together(batch)
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
    """Keep the first nodes that a random walk visits, up to a share 1 - p of each graph.

    There is one walk per graph, from a random node. It has ``WALK_FACTOR`` steps for each node
    that the largest graph should keep; if it runs out of steps, or its component is smaller,
    fewer nodes are kept.

    Args:
        batch: any graphs, nodes in any order; edges are walked from row 0 to row 1 of
            ``edge_index``.
        p: share to remove, in [0, 1), rounded as in :func:`drop_nodes`.
        generator: random generator, on any device.

    Returns:
        The induced subgraphs, nodes renumbered.

    Raises:
        InputError: if p is out of range.

    Source:
        You et al. 2020, "Graph Contrastive Learning with Augmentations", Table 1 (subgraph).

    Example:
        >>> from gcl_hard.graphs import load_graphs
        >>> batch = load_graphs("MUTAG", download=False).all()
        >>> view = random_walk_subgraph(batch, 0.2, generator=torch.Generator().manual_seed(0))
        >>> len(view.x) <= 0.82 * len(batch.x)
        True
    """
    batch = _together(batch)
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
    "mask-columns": mask_columns,
    "random-walk": random_walk_subgraph,
    "identity": identity,
}


def augment(
    batch: GraphBatch, by: str | Transform, p: float, *, generator: torch.Generator
) -> GraphBatch:
    """Apply an augmentation to every graph of a batch.

    Args:
        batch: any graphs.
        by: a name in ``AUGMENTATIONS``, or a :data:`Transform`, which draws from the global random
            states: they are seeded by the generator and restored afterwards.
        p: share in [0, 1) that a named augmentation changes.
        generator: random generator, on the device of the batch.

    Returns:
        The same graphs in the same order.

    Raises:
        InputError: if a transform returns anything but ``Data``, or links different graphs.

    Example:
        >>> from torch_geometric.transforms import AddSelfLoops
        >>> from gcl_hard.graphs import load_graphs
        >>> batch = load_graphs("MUTAG", download=False).batch([0])
        >>> looped = augment(batch, AddSelfLoops("edge_attr"), 0.0, generator=torch.Generator())
        >>> looped.edge_index.shape[1] - batch.edge_index.shape[1]
        17
    """
    if isinstance(by, str):
        return AUGMENTATIONS[by](batch, p, generator=generator)
    from torch_geometric.data import Data

    # Copies: a transform may change its graph in place, and the other view needs the original.
    attributes = None if batch.edge_attr is None else batch.edge_attr.clone()
    fields = {"y": batch.y, "batch": batch.batch.clone(), "num_graphs": batch.n_graphs}
    data = Data(batch.x.clone(), batch.edge_index.clone(), attributes, **fields)
    with seeded_globally(generator):
        augmented: Any = by(data)
    name = f"the augmentation {getattr(by, '__name__', type(by).__name__)}"
    if not isinstance(augmented, Data):
        raise InputError(f"{name} must return Data, got {type(augmented).__name__}")
    x, edges, owner = augmented.x, augmented.edge_index, augmented.batch
    kept = [] if owner is None else owner.unique().tolist()
    if owner is None or len(owner) != len(x) or kept != [*range(batch.n_graphs)]:
        raise InputError(
            f"{name} must keep a node of each of the {batch.n_graphs} graphs, and its row of batch"
        )
    if edges.numel() and (int(edges.min()) < 0 or int(edges.max()) >= len(x)):
        raise InputError(f"{name} gives an edge to a node that is not there: renumber the others")
    if (owner[edges[0]] != owner[edges[1]]).any():
        raise InputError(f"{name} links different graphs: link nodes only where batch is the same")
    if augmented.edge_attr is not None and len(augmented.edge_attr) != edges.shape[1]:
        raise InputError(f"{name} must keep a row of edge_attr for each edge")
    return replace(batch, x=x, edge_index=edges, batch=owner, edge_attr=augmented.edge_attr)


def check_views(augmentations: Iterable[str | Transform], strength: float) -> None:
    """Check the names and the strength of augmentations.

    Args:
        augmentations: names in ``AUGMENTATIONS``, or functions.
        strength: share p in [0, 1).

    Raises:
        InputError: if a name is unknown (offers the closest), or the share is out of range.

    Example:
        >>> check_views(("drop-nodes", "mask-attributes"), strength=0.2)
    """
    if isinstance(augmentations, str):
        raise InputError(f"augmentations are a list, as [{augmentations!r}]")
    for name in augmentations:
        if not callable(name):
            check_option("augmentation", name, AUGMENTATIONS)
    check_number("strength", strength, least=0, below=1)


def _together(batch: GraphBatch) -> GraphBatch:
    """The batch with its nodes sorted by graph; a transform may have mixed them."""
    if not (batch.batch.diff() < 0).any():
        return batch
    order = torch.argsort(batch.batch, stable=True)
    place = torch.argsort(order)
    return replace(
        batch, x=batch.x[order], edge_index=place[batch.edge_index], batch=batch.batch[order]
    )


def _induced(batch: GraphBatch, keep: Tensor) -> GraphBatch:
    """The subgraphs induced by the kept nodes (bool [n]), renumbered."""
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
    """Adjacency lists: starts [n], degrees [n], neighbours [e]; dead ends get a self loop."""
    n_nodes = len(batch.batch)
    ends = torch.bincount(batch.edge_index[0], minlength=n_nodes) == 0
    stay = torch.nonzero(ends).T
    source, target = torch.cat([batch.edge_index, stay.expand(2, -1)], dim=1)
    degree = torch.bincount(source, minlength=n_nodes)
    return degree.cumsum(0) - degree, degree, target[torch.argsort(source, stable=True)]


def uniform(shape: tuple[int, ...], generator: torch.Generator, device: torch.device) -> Tensor:
    """Float64 draws from [0, 1), made on the generator's device, so equal on every device.

    Example:
        >>> uniform((3,), torch.Generator().manual_seed(0), torch.device("cpu")).shape
        torch.Size([3])
    """
    draws = torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float64)
    return draws.to(device)


def share(p: float, sizes: Tensor, generator: torch.Generator, *, spare: int = 0) -> Tensor:
    """p * sizes rounded up or down at random, so that the mean is exact.

    Args:
        p: in [0, 1).
        sizes: int64 [B], items per graph.
        generator: random generator.
        spare: items per graph that are never chosen.

    Returns:
        int64 [B], at most sizes - spare.

    Raises:
        InputError: if p is out of range.

    Example:
        >>> share(0.5, torch.tensor([4, 10]), torch.Generator()).tolist()
        [2, 5]
    """
    check_number("p", p, least=0, below=1)
    up = uniform(tuple(sizes.shape), generator, sizes.device)
    return torch.minimum((p * sizes.double() + up).floor().long(), sizes - spare)


def rank(owner: Tensor, sizes: Tensor, generator: torch.Generator) -> Tensor:
    """Rank of each item, from 0, in a random order within its graph.

    Args:
        owner: int64 [n], sorted: graph of each item.
        sizes: int64 [B], items per graph.
        generator: random generator.

    Returns:
        int64 [n].

    Example:
        >>> ranks = rank(torch.tensor([0, 0, 0, 1]), torch.tensor([3, 1]), torch.Generator())
        >>> sorted(ranks[:3].tolist()), ranks[3].item()
        ([0, 1, 2], 0)
    """
    order = torch.argsort(owner + uniform(tuple(owner.shape), generator, owner.device))
    return positions(order, sizes.cumsum(0) - sizes, owner)


def positions(order: Tensor, start: Tensor, owner: Tensor) -> Tensor:
    """The position of each item within its graph, given an order that keeps graphs together.

    Args:
        order: int64 [n], a permutation.
        start: int64 [B], first position of each graph in it.
        owner: int64 [n], graph of each item.

    Returns:
        int64 [n].

    Example:
        >>> positions(torch.tensor([1, 0, 2]), torch.tensor([0, 2]), torch.tensor([0, 0, 1]))
        tensor([1, 0, 0])
    """
    position = torch.empty_like(order)
    position[order] = torch.arange(len(order), device=order.device)
    return position - start[owner]


def encode(edges: Tensor, owner: Tensor, sizes: Tensor) -> Tensor:
    """Number the unordered pairs of different nodes, graph after graph, without gaps.

    With the n nodes on a circle, a pair is a first node i and a clockwise distance d <= n/2. Its
    number is (d - 1) n + i, which covers 0 .. n (n - 1) / 2 - 1 for even and odd n.

    Args:
        edges: int64 [2, e], no self loops, no edge between graphs.
        owner: int64 [n], sorted: graph of each node.
        sizes: int64 [B], nodes per graph.

    Returns:
        int64 [e].

    Example:
        >>> both = torch.tensor([[0, 1, 3], [1, 0, 4]])
        >>> encode(both, torch.tensor([0, 0, 0, 1, 1]), torch.tensor([3, 2]))
        tensor([0, 0, 3])
    """
    graph = owner[edges[0]]
    n = sizes[graph]
    start = (sizes.cumsum(0) - sizes)[graph]
    low, high = torch.minimum(*edges) - start, torch.maximum(*edges) - start
    short = 2 * (high - low) <= n
    distance = torch.where(short, high - low, n - (high - low))
    slots = sizes * (sizes - 1) // 2
    return (slots.cumsum(0) - slots)[graph] + (distance - 1) * n + torch.where(short, low, high)


def decode(codes: Tensor, sizes: Tensor) -> Tensor:
    """Pairs by their numbers, the inverse of :func:`encode`.

    Args:
        codes: int64 [k].
        sizes: int64 [B], nodes per graph.

    Returns:
        int64 [2, k].

    Example:
        >>> decode(torch.tensor([0, 3]), torch.tensor([3, 2])).tolist()
        [[0, 3], [1, 4]]
    """
    slots = sizes * (sizes - 1) // 2
    graph = torch.searchsorted(slots.cumsum(0), codes, right=True)
    local = codes - (slots.cumsum(0) - slots)[graph]
    n, start = sizes[graph], (sizes.cumsum(0) - sizes)[graph]
    low = local % n
    return torch.stack([low, (low + local // n + 1) % n]) + start


def absent(codes: Tensor, free: Tensor, wanted: Tensor, generator: torch.Generator) -> Tensor:
    """Distinct random numbers in the range of each graph that are not among ``codes``.

    Every subset of that size is equally likely. The r-th absent number is r plus the number of
    codes below it.

    Args:
        codes: int64 [c], sorted, distinct: the numbers in use.
        free: int64 [B], how many numbers of each graph are not in use.
        wanted: int64 [B], how many to draw for each graph.
        generator: random generator.

    Returns:
        int64, sorted, min(wanted, free) numbers per graph.

    Example:
        >>> four, two = torch.tensor([4]), torch.tensor([2])
        >>> absent(torch.tensor([0, 3]), two, four, torch.Generator())
        tensor([1, 2])
    """
    nth = subsets(free, torch.minimum(wanted, free), generator)
    below = codes - torch.arange(len(codes), device=codes.device)
    return nth + torch.searchsorted(below, nth, right=True)


def subsets(sizes: Tensor, wanted: Tensor, generator: torch.Generator) -> Tensor:
    """A random subset of each graph's numbers, which are consecutive from graph to graph.

    Repeats are redrawn until there are enough; for a graph that gives more than half of its numbers
    the complement is drawn. Every subset of a size is equally likely.

    Args:
        sizes: int64 [B], how many numbers each graph has.
        wanted: int64 [B], how many to draw, at most ``sizes``.
        generator: random generator.

    Returns:
        int64, sorted.

    Example:
        >>> two = torch.tensor([2, 3])
        >>> subsets(two, two, torch.Generator())
        tensor([0, 1, 2, 3, 4])
    """
    ends = sizes.cumsum(0)
    many = 2 * wanted > sizes
    n_drawn = torch.where(many, sizes - wanted, wanted)
    drawn = torch.empty(0, dtype=torch.int64, device=sizes.device)
    missing = n_drawn
    while len(owner := torch.repeat_interleave(missing)):
        draws = uniform(tuple(owner.shape), generator, owner.device)
        new = torch.minimum((draws * sizes[owner]).long(), sizes[owner] - 1)
        drawn = torch.unique(torch.cat([drawn, new + (ends - sizes)[owner]]))
        missing = n_drawn - torch.bincount(
            torch.searchsorted(ends, drawn, right=True), minlength=len(sizes)
        )
    candidates = torch.arange(int(sizes[many].sum()), device=sizes.device)
    graph_ids = torch.repeat_interleave(sizes * many)
    before = (sizes * many).cumsum(0) - sizes * many
    candidates = candidates + (ends - sizes)[graph_ids] - before[graph_ids]
    kept = ~many[torch.searchsorted(ends, drawn, right=True)]
    rest = candidates[~torch.isin(candidates, drawn)]
    return torch.cat([drawn[kept], rest]).sort().values
