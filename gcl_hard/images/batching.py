"""Batches of images: their order, partners of the same class, and pairs of views."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import starmap
from typing import Any

import torch
from torch import Tensor

from gcl_hard.core.ahead import ahead
from gcl_hard.core.seeds import seed_for, seeded
from gcl_hard.core.signals import leave_to_parent
from gcl_hard.errors import InputError, check_at_least
from gcl_hard.images.augment import Views
from gcl_hard.images.datasets import Split
from gcl_hard.losses.pairing import ClassPairs


def epoch_batches(
    labels: Tensor, batch_size: int, *, seed: int, epoch: int, balanced: bool = False
) -> list[Tensor]:
    """The batches of an epoch, without an incomplete last one.

    So every batch has the same number of negatives, and the same weight M.

    Args:
        labels: int64 [n], labels of the training images.
        batch_size: images per batch, ≥ 2.
        seed: seed of the order, ≥ 0.
        epoch: ≥ 0; each has its own order.
        balanced: every batch has equally many images of each class, as far as divisible (classes
            with one image more are drawn). A small class is repeated within an epoch, a large one
            is not used completely. No batch contains an image twice, which would be its own
            negative: a class with too few images contributes all, and the others fill the batch
            equally.

    Returns:
        CPU int64 index tensors, each [batch_size].

    Raises:
        InputError: if the batch is below 2 or larger than the set, labels are not [n], or balanced
            batches are requested for images without labels.

    Example:
        >>> batches = epoch_batches(torch.arange(6) % 2, 4, seed=0, epoch=1, balanced=True)
        >>> [sorted((batch % 2).tolist()) for batch in batches]
        [[0, 0, 1, 1]]
    """
    if labels.ndim != 1:
        raise InputError(f"labels must be one per image, [n], got {[*labels.shape]}")
    n = len(labels)
    check_at_least("batch-size", batch_size, 2)
    if batch_size > n:
        raise InputError(
            f"batch-size {batch_size} is larger than the {n} images to train on: lower it"
        )
    generator = seeded(seed, epoch)
    n_batches = n // batch_size
    if not balanced:
        order = torch.randperm(n, generator=generator)
    else:
        order = _balanced_order(labels.cpu().long(), n_batches, batch_size, generator)
    return list(torch.split(order[: n_batches * batch_size], batch_size))


def _balanced_order(
    labels: Tensor, n_batches: int, batch_size: int, generator: torch.Generator
) -> Tensor:
    if bool((labels < 0).any()):
        raise InputError("balanced batches need labels: some images have none")
    classes, sizes = torch.unique(labels, return_counts=True)
    rounds: list[Tensor] = []
    n_seats = 0
    while n_seats < batch_size:  # a class has a seat in one round per image
        rounds.append(classes[sizes > len(rounds)])
        n_seats += len(rounds[-1])
    seats = torch.stack([
        torch.cat([
            present[torch.randperm(len(present), generator=generator)] for present in rounds
        ])[:batch_size]
        for _ in range(n_batches)
    ])  # fmt: skip
    seats = seats.flatten()
    order = torch.empty_like(seats)
    members = torch.split(labels.argsort(stable=True), sizes.tolist())
    per_class = torch.searchsorted(classes, seats).bincount(minlength=len(classes))
    position_groups = torch.split(seats.argsort(stable=True), per_class.tolist())
    for ids, positions in zip(members, position_groups, strict=True):
        drawn: list[Tensor] = []
        queue = ids[:0]
        per_batch = (positions // batch_size).bincount()
        for n_seats in per_batch[per_batch > 0].tolist():
            if n_seats > len(queue):
                fresh = ids[torch.randperm(len(ids), generator=generator)]
                repeated = torch.isin(fresh, queue)  # repeats wait until the next batch
                queue = torch.cat([queue, fresh[~repeated], fresh[repeated]])
            drawn.append(queue[:n_seats])
            queue = queue[n_seats:]
        if drawn:
            order[positions] = torch.cat(drawn)
    return order


@dataclass(eq=False)  # not frozen: Fabric converts the views' precision in a copy
class ViewPair:
    """Two views of each image of a batch, or more.

    Attributes:
        first: float [B, 3, S, S].
        second: float [B, 3, S, S], of the same images, or of others in their classes.
        labels: int64 [B]; −1 without a label. None if not needed.
        more: further views.
    """

    first: Tensor
    second: Tensor
    labels: Tensor | None = None
    more: tuple[Tensor, ...] = ()

    @property
    def views(self) -> tuple[Tensor, ...]:
        """All views."""
        return self.first, self.second, *self.more

    def __len__(self) -> int:
        return len(self.first)

    def to(self, device: str | torch.device) -> ViewPair:
        """The pair on a device."""
        return self._each(lambda part: part.to(device, non_blocking=True))

    def pin_memory(self) -> ViewPair:
        """The pair in pinned memory, from which copies to a GPU are asynchronous."""
        return self._each(Tensor.pin_memory)

    def _each(self, convert: Callable[[Tensor], Tensor]) -> ViewPair:
        first, second, *more = map(convert, self.views)
        labels = None if self.labels is None else convert(self.labels)
        return ViewPair(first, second, labels, tuple(more))


@dataclass(eq=False)
class ViewPairs:
    """The batches of an epoch as pairs of views, for :func:`gcl_hard.training.loop.train`.

    Images, partners and views of a batch depend only on the seeds, the epoch and the step, so that
    a resumed run sees the same views as an uninterrupted one.

    Args:
        split: the training images. Views are computed on their device, unless there are workers.
        views: function that makes a view of each image.
        batch_size: images per batch; n = 2 × batch_size embeddings.
        seed: seed of the views and partners.
        data_seed: seed of the batch order.
        balanced: whether every batch has equally many images of each class.
        class_pairs: whether the second view is made from another random image of the class.
        workers: processes that compute views on the CPU, for sets that do not fit on the device; 0
            computes them in this process, on the images' device.
        device: device that pairs from workers are moved to.
        n_views: views of each image, ≥ 2; with ``class_pairs`` all but the first show other images.
        with_item: whether the first view is the image itself, resized and not augmented.
        part: (r, W): the r-th of W parts of each batch, for process r of W that train together.

    Example:
        >>> from gcl_hard.images import ViewRecipe, load_images
        >>> digits = load_images("digits")
        >>> views = Views(ViewRecipe(), size=8, mean=(0.5,) * 3, std=(0.5,) * 3)
        >>> pairs = ViewPairs(digits.split("train"), views, batch_size=256)
        >>> [pair.first.shape for pair in pairs(epoch=1)][:1]
        [torch.Size([256, 3, 8, 8])]
    """

    split: Split
    views: Views
    _: KW_ONLY
    batch_size: int = 256
    seed: int = 0
    data_seed: int = 0
    balanced: bool = False
    class_pairs: bool = False
    workers: int = 0
    device: str | torch.device = "cpu"
    n_views: int = 2
    with_item: bool = False
    part: tuple[int, int] = (0, 1)

    def __post_init__(self) -> None:
        check_at_least("n_views", self.n_views, 2)
        self._labels = self.split.labels.cpu()
        self._pairs = ClassPairs(self._labels) if self.class_pairs else None

    def __call__(self, epoch: int) -> Iterator[ViewPair]:
        """The pairs of an epoch (from 1), made one at a time."""
        batches = epoch_batches(
            self._labels, self.batch_size, seed=self.data_seed, epoch=epoch, balanced=self.balanced
        )
        image_device = self.split.images.device
        if batches and self._pairs is None and image_device.type != "cpu":  # moved once per epoch
            sizes = [len(index) for index in batches]
            batches = [*torch.split_with_sizes(torch.cat(batches).to(image_device), sizes)]
        # Any: PyTorch's annotations do not accept a list as a data set.
        steps: Any = [(index, epoch, step) for step, index in enumerate(batches)]
        if not self.workers:
            yield from ahead(starmap(self.pair, steps), image_device)
            return
        # With its own generator: the loader would draw from the global one.
        loader: torch.utils.data.DataLoader[Any] = torch.utils.data.DataLoader(
            steps, batch_size=None, num_workers=self.workers, generator=seeded(self.seed, epoch),
            collate_fn=self._pair_of, worker_init_fn=leave_to_parent,
            pin_memory=torch.device(self.device).type == "cuda",
        )  # fmt: skip
        for pair in loader:
            yield pair.to(self.device)

    def _pair_of(self, step: Any) -> ViewPair:
        return self.pair(*step)

    def pair(self, index: Tensor, epoch: int, step: int) -> ViewPair:
        """The views of a batch in a step (from 0) of an epoch.

        ``index``, int64 [B], is on the CPU if partners in the same class are drawn.
        """
        view_ids = [index] * self.n_views
        if self._pairs is not None:
            generator = seeded(self.seed, epoch, step)
            view_ids[1:] = [self._pairs.draw(index, generator) for _ in view_ids[1:]]
        rank, world = self.part
        view_ids = [ids.tensor_split(world)[rank] for ids in view_ids]
        labels = self.split.labels[view_ids[0].to(self.split.labels.device)]
        images = [self.split.images[ids.to(self.split.images.device)] for ids in view_ids]
        first_views = [self.views.plain(images.pop(0))] if self.with_item else []
        seed = seed_for(self.seed, epoch, step, 1 + rank)
        drawn = self.views(torch.cat(images), seed=seed)
        first, second, *more = first_views + list(drawn.chunk(len(images)))
        return ViewPair(first, second, labels, tuple(more))
