"""Anchors and candidates of a batch: views of items, or nodes against graphs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.functional.labels import LabelGap, labels_for, separated
from gcl_hard.functional.negatives import (
    Labels,
    as_labels,
    check_dense,
    described,
    is_integer,
    readable,
    within,
)
from gcl_hard.functional.plan import Pairing, unit
from gcl_hard.functional.pool import HardPositives
from gcl_hard.losses.gathering import counts_of, gathered, offset, summed


class LabelUse(NamedTuple):
    """What a loss does with labels.

    Attributes:
        needed_by: what needs them, for messages; None if nothing does.
        gap: the sampler's label gap.
        unknown: label of items of unknown class, or None.
    """

    needed_by: str | None
    gap: LabelGap | None
    unknown: int | None = None

    def read(self, labels: Labels | None, n: int, device: torch.device, suffix: str = "") -> Tensor:
        """Labels of n items, checked, on the device of their embeddings."""
        user = f"{self.needed_by or 'a diagnostic'}{suffix}"
        return labels_for(labels, n, user, self.gap, device, unknown=self.unknown)

    def classes(self, labels: Tensor) -> Tensor:
        """Labels that have been read, with a class of its own for each unknown one."""
        return labels if self.unknown is None else separated(labels, self.unknown)


class ViewBatch(NamedTuple):
    """Views of the same items, and further candidates."""

    views: list[Tensor]  # V of [B, d]
    labels: Labels | None  # [B]
    candidates: Tensor | None = None  # [K, d]
    candidate_labels: Labels | None = None  # [K]


def views_of(
    z1: Tensor | Sequence[Tensor], z2: Tensor | Labels | None, labels: Labels | None
) -> ViewBatch:
    """The arguments of a loss of views, checked."""
    views: list[Any] = [z1] if hasattr(z1, "ndim") else [*z1]
    if len(views) == 1 and isinstance(z1, Tensor) and z1.dim() == 3:
        views = list(z1.unbind(1))
        if 1 < len(z1) < len(views) and z2 is labels is None:
            warnings.warn(
                f"views [B, V, d] of {[*z1.shape]} are {len(views)} views of {len(z1)} items: "
                f"stack views along axis 1",
                stacklevel=4,
            )
    is_view = labels is not None or (isinstance(z2, Tensor) and _is_view(z2))
    if z2 is not None and hasattr(z1, "ndim") and is_view:
        views.append(z2)
    elif z2 is not None and labels is not None:
        raise InputError("labels are given twice: loss(z1, z2, labels) or loss([z1, …], labels)")
    elif z2 is not None:
        labels = z2
    fit = all(isinstance(z, Tensor) and z.dim() == 2 and z.shape == views[0].shape for z in views)
    if not views or not fit:
        got = " and ".join(map(described, views))
        raise InputError(f"views must be tensors [B, d] each or [B, V, d] together, got {got}")
    if isinstance(labels, Tensor) and labels.requires_grad:
        raise InputError("labels require a gradient: three views are a list, loss([z1, z2, z3])")
    if isinstance(labels, Tensor) and labels.shape[:1] != views[0].shape[:1]:
        stacked = ": stack views along axis 1" * (isinstance(z1, Tensor) and z1.dim() == 3)
        raise InputError(
            f"labels must be {len(views[0])}, one for each item, got {described(labels)}{stacked}"
        )
    return ViewBatch(views, labels)


def pair_views(views: ViewBatch, use: LabelUse, *, gathers: bool) -> Pairing:
    """Every view of every item as an anchor, against all views and further candidates.

    Args:
        views: as passed by the user.
        use: what labels are needed for.
        gathers: whether candidates are those of all processes.
    """
    n_views, n_items = len(views.views), len(views.views[0])
    z = anchors = at_least_float32(torch.cat(views.views))
    device, n_mine = z.device, n_items
    labels = None if use.needed_by is None else use.read(views.labels, n_items, device)
    extra = None if views.candidates is None else _as_candidates(views.candidates, z)
    more = None if labels is None else _extra_labels(labels, views, use)
    rows = None
    if gathers:
        z = z.view(n_views, n_items, z.shape[1]).transpose(0, 1)  # all views of an item in a row
        counts = counts_of(z, *(() if labels is None else (labels,)))
        z = gathered(z.contiguous(), counts).transpose(0, 1).flatten(0, 1)
        labels = None if labels is None else gathered(labels, counts)
        n_items = sum(counts)
        mine = offset(counts) + torch.arange(n_mine, device=device)
        rows = (n_items * torch.arange(n_views, device=device)[:, None] + mine).flatten()
        anchors = z[rows]
    n, candidates = len(z), z
    if extra is not None:
        candidates = torch.cat([z, extra])
    index = torch.arange(len(candidates), device=device)
    columns = torch.where(index < n, index % max(n_items, 1), index - n + n_items)
    me = index[:n] if rows is None else rows

    n_extra = len(candidates) - n
    if labels is not None:
        labels = _candidate_labels(labels, n_views, more, use)
    known = None
    if labels is None and views.labels is not None and not gathers:
        known = partial(_read_views, views, use, n_items)
    return Pairing(
        anchors, candidates, columns[me], columns, n_items, n_views * (n_items - 1) + n_extra,
        n, labels, known, me, n_views,
    )  # fmt: skip


def pair_pools(views: ViewBatch, use: LabelUse, rule: HardPositives, *, gathers: bool) -> Pairing:
    """A view of each item as an anchor, with its own positives, against the items' first views.

    Args:
        views: as passed by the user, the items themselves first.
        use: what labels are needed for.
        rule: chooses the anchors and their positives.
        gathers: whether candidates are those of all processes.
    """
    pool = at_least_float32(torch.stack(views.views))
    items = torch.arange(pool.shape[1], device=pool.device)
    anchor, *others = rule.choose(unit(pool)).unbind(1)
    positives = torch.stack([pool[view, items] for view in others], 1)
    pairing = pair_views(views._replace(views=views.views[:1]), use, gathers=gathers)
    return pairing._replace(anchors=pool[anchor, items], me=None, positives=positives)


def only(pairing: Pairing, anchors: Tensor | Sequence[int]) -> Pairing:
    """The embeddings of some items as the only anchors, against the candidates of all.

    Args:
        pairing: of views.
        anchors: ids of the items; an invalid one that cannot be read makes the loss NaN.
    """
    n_items, device = pairing.n_items, pairing.anchors.device
    ids = _item_ids(anchors, n_items, device)
    within = ids.clamp(0, max(n_items - 1, 0))
    steps = n_items * torch.arange(pairing.n_views, device=device)
    rows = (steps[:, None] + within).flatten()
    pairing = pairing.rows(rows)
    if not readable(ids):
        wrong = (ids != within).repeat(pairing.n_views)
        marked = torch.where(wrong[:, None], math.nan, pairing.anchors)
        pairing = pairing._replace(anchors=marked)
    return pairing._replace(n_anchors=len(rows))


def _item_ids(anchors: Tensor | Sequence[int], n_items: int, device: torch.device) -> Tensor:
    """Ids of items, int64 [A]; InputError for anything else."""
    ids = as_labels(anchors, device)
    ids = ids if ids.numel() else ids.long()  # an empty list is of float
    if ids.dim() != 1 or not is_integer(ids) or len(ids) > n_items:
        raise InputError(f"anchors must be ids of items, integers [A], got {described(ids)}")
    if len(ids) and readable(ids):
        if not within(ids, n_items):
            raise InputError(f"anchors must be ids of items from 0 to {n_items - 1}")
        if int(ids.bincount().max()) > 1:
            raise InputError("anchors must be different items")
    return ids.long().to(device)


def pair_local_global(
    nodes: Tensor, graphs: Tensor, batch: Tensor, labels: Labels | None, use: LabelUse, *,
    gathers: bool,
) -> Pairing:  # fmt: skip
    """Every node as an anchor, against all graphs.

    Args:
        nodes: float [N, d].
        graphs: float [G, d].
        batch: int64 [N].
        labels: of graphs, as passed by the user.
        use: what they are needed for.
        gathers: whether graphs are those of all processes.
    """
    nodes, graphs, n_nodes = at_least_float32(nodes), at_least_float32(graphs), len(nodes)
    n_graphs = len(graphs)
    classes = None if use.needed_by is None else use.read(labels, n_graphs, graphs.device)
    if gathers:
        counts = counts_of(graphs, *(() if classes is None else (classes,)))
        graphs, batch = gathered(graphs, counts), batch + offset(counts)
        classes = None if classes is None else gathered(classes, counts)
        n_nodes = int(summed(batch.new_tensor(n_nodes)))
    known = None
    if classes is None and labels is not None and not gathers:
        known = partial(_read_graphs, labels, use, graphs)
    columns = torch.arange(len(graphs), device=batch.device)
    n_others = len(graphs) - 1
    classes = None if classes is None else use.classes(classes)
    return Pairing(nodes, graphs, batch, columns, len(graphs), n_others, n_nodes, classes, known)


def _candidate_labels(labels: Tensor, n_views: int, more: Tensor | None, use: LabelUse) -> Tensor:
    """Labels of items for all their views and for further candidates."""
    n_items = len(labels)
    classes = use.classes(labels if more is None else torch.cat([labels, more]))
    views = classes[:n_items].repeat(n_views, *[1] * (labels.dim() - 1))
    return torch.cat([views, classes[n_items:]])


def _extra_labels(labels: Tensor, views: ViewBatch, use: LabelUse) -> Tensor | None:
    """Labels of further candidates, if there are any."""
    if views.candidates is None:
        return None
    n_extra, device = len(views.candidates), labels.device
    if views.candidate_labels is None:
        raise InputError(
            f"{use.needed_by or 'a diagnostic'} needs candidate_labels [{n_extra}] of candidates, "
            f"which a Queue(unknown=-1) keeps where embeddings are added with labels or −1"
        )
    return use.read(views.candidate_labels, n_extra, device)


def _read_views(views: ViewBatch, use: LabelUse, n_items: int) -> Tensor:
    labels = use.read(views.labels, n_items, views.views[0].device)
    return _candidate_labels(labels, len(views.views), _extra_labels(labels, views, use), use)


def _read_graphs(labels: Labels, use: LabelUse, graphs: Tensor) -> Tensor:
    return use.classes(use.read(labels, len(graphs), graphs.device))


def at_least_float32(z: Tensor) -> Tensor:
    """Embeddings in single or double precision; InputError for integers."""
    check_dense(z, "embeddings")
    if not z.is_floating_point() or z.shape[-1:] == (0,):
        raise InputError(f"embeddings must be floating point, with columns, got {described(z)}")
    return z.float() if z.dtype.itemsize < 4 else z


def _is_view(z: Tensor) -> bool:
    """Whether a second argument is a view, not labels."""
    return z.is_floating_point() and z.dim() != 1


def _as_candidates(candidates: Tensor, z: Tensor) -> Tensor:
    if candidates.shape[1:] != z.shape[1:]:
        raise InputError(f"candidates must be [K, {z.shape[1]}], got {described(candidates)}")
    return at_least_float32(candidates).to(z.dtype)


class ClassPairs:
    """Another item of each item's class, drawn uniformly; the item itself in a class of one.

    Args:
        labels: int64 [n], ≥ 0.

    Raises:
        InputError: if a label is missing.

    Source: H-SCL paper, section V-A (positives by augmentation and label); the pairs are those of
        HCL's code for true positives.

    Example:
        >>> pairs = ClassPairs(torch.tensor([0, 1, 0]))
        >>> pairs.draw(torch.tensor([0, 1, 2]), torch.Generator()).tolist()
        [2, 1, 0]
    """

    def __init__(self, labels: Tensor) -> None:
        labels = labels.cpu()
        if bool((labels < 0).any()):
            raise InputError("class-pairs need labels, and some items have none")
        by_class = labels.argsort(stable=True)
        sizes = labels.bincount()
        starts = sizes.cumsum(0) - sizes
        self._by_class = by_class
        self._size, self._start = sizes[labels], starts[labels]
        self._position = torch.empty_like(labels)
        self._position[by_class] = torch.arange(len(labels)) - self._start[by_class]

    def draw(self, index: Tensor, generator: torch.Generator) -> Tensor:
        """Partners of some items.

        Args:
            index: int64 [B], on the CPU.
            generator: generator of the CPU.

        Returns:
            int64 [B], items of the same classes.
        """
        size, position = self._size[index], self._position[index]
        draws = torch.rand(len(index), generator=generator, dtype=torch.float64)
        other = (draws * (size - 1)).long()
        other = torch.where(size == 1, position, other + (other >= position))
        return self._by_class[self._start[index] + other]
