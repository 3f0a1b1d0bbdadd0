"""Seeded draws within the graphs of a batch: how many, which items, which absent pairs."""

from __future__ import annotations

import torch
from torch import Tensor

from gcl_hard.errors import InputError


def uniform(shape: tuple[int, ...], generator: torch.Generator, device: torch.device) -> Tensor:
    """Float64 draws from [0, 1), made where the generator lives: one seed, one view everywhere.

    Example:
        >>> uniform((3,), torch.Generator().manual_seed(0), torch.device("cpu")).shape
        torch.Size([3])
    """
    draws = torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float64)
    return draws.to(device)


def check_share(p: float) -> float:
    """The share itself when it lies in [0, 1).

    Raises:
        InputError: it does not.

    Example:
        >>> check_share(0.2)
        0.2
    """
    if not 0 <= p < 1:
        raise InputError(f"p={p}; expected a share in [0, 1)")
    return p


def share(p: float, sizes: Tensor, generator: torch.Generator, *, spare: int = 0) -> Tensor:
    """p * sizes rounded up or down at random, so that the mean is exact.

    Args:
        p: in [0, 1).
        sizes: int64 [B], items per graph.
        generator: source of randomness.
        spare: items per graph that are never counted.

    Returns:
        int64 [B], at most sizes - spare.

    Raises:
        InputError: p is out of range.

    Example:
        >>> share(0.5, torch.tensor([4, 10]), torch.Generator()).tolist()
        [2, 5]
    """
    up = uniform(tuple(sizes.shape), generator, sizes.device)
    return torch.minimum((check_share(p) * sizes.double() + up).floor().long(), sizes - spare)


def rank(owner: Tensor, sizes: Tensor, generator: torch.Generator) -> Tensor:
    """Each item's place, from 0, in a random order of its graph's items.

    Args:
        owner: int64 [n], sorted: each item's graph.
        sizes: int64 [B], items per graph.
        generator: source of randomness.

    Returns:
        int64 [n].

    Example:
        >>> places = rank(torch.tensor([0, 0, 0, 1]), torch.tensor([3, 1]), torch.Generator())
        >>> sorted(places[:3].tolist()), places[3].item()
        ([0, 1, 2], 0)
    """
    order = torch.argsort(owner + uniform(tuple(owner.shape), generator, owner.device))
    return positions(order, sizes.cumsum(0) - sizes, owner)


def positions(order: Tensor, start: Tensor, owner: Tensor) -> Tensor:
    """Each item's place within its graph, given an order that keeps the graphs' order.

    Args:
        order: int64 [n], a permutation.
        start: int64 [B], each graph's first place in it.
        owner: int64 [n], each item's graph.

    Returns:
        int64 [n].

    Example:
        >>> positions(torch.tensor([1, 0, 2]), torch.tensor([0, 2]), torch.tensor([0, 0, 1]))
        tensor([1, 0, 0])
    """
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    return place - start[owner]


def encode(edges: Tensor, owner: Tensor, sizes: Tensor) -> Tensor:
    """Number the unordered pairs of different nodes, graph after graph, without gaps.

    On a circle of n nodes a pair is a first node i and a clockwise distance d <= n/2; it gets
    (d - 1) n + i, which runs through 0 .. n (n - 1) / 2 - 1 for even and odd n.

    Args:
        edges: int64 [2, e], no self loops, no edge between graphs.
        owner: int64 [n], sorted: each node's graph.
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
    """The pairs that :func:`encode` numbers so.

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
    """Distinct random numbers of each graph's range that are not among ``codes``.

    With k draws from 0 .. free - k sorted, adding 0 .. k - 1 makes them distinct (near uniform
    for k well below free); the r-th absent number is r plus the number of codes below it.

    Args:
        codes: int64 [c], sorted, distinct: the numbers taken.
        free: int64 [B], how many of each graph's range are not.
        wanted: int64 [B].
        generator: source of randomness.

    Returns:
        int64, min(wanted, free) per graph, sorted.

    Example:
        >>> four, two = torch.tensor([4]), torch.tensor([2])
        >>> absent(torch.tensor([0, 3]), two, four, torch.Generator())
        tensor([1, 2])
    """
    wanted = torch.minimum(wanted, free)
    owner = torch.repeat_interleave(wanted)
    draws = uniform(tuple(owner.shape), generator, owner.device)
    drawn = (draws * (free - wanted + 1)[owner]).long() + (free.cumsum(0) - free)[owner]
    step = torch.arange(len(owner), device=owner.device) - (wanted.cumsum(0) - wanted)[owner]
    nth = drawn.sort().values + step
    below = codes - torch.arange(len(codes), device=codes.device)
    return nth + torch.searchsorted(below, nth, right=True)
