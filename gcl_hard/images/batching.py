"""Which images make a batch, in which order, and with whom they are paired."""

from __future__ import annotations

import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.seeds import seeded


def epoch_batches(
    labels: Tensor, batch_size: int, *, seed: int, epoch: int, balanced: bool = False
) -> list[Tensor]:
    """The batches of one epoch; what is left over after the last whole one is dropped.

    So every batch has the same number of negatives, and the weight M is one number.

    Args:
        labels: int64 [n], of the images to train on.
        batch_size: images per batch, ≥ 2.
        seed: ≥ 0, of the order.
        epoch: ≥ 0; each has its own order.
        balanced: every batch holds the classes in equal parts, as far as they divide it (which
            classes have one image more is drawn). A small class is gone through several times an
            epoch, a large one not wholly.

    Returns:
        CPU int64 index tensors, each [batch_size].

    Raises:
        InputError: if the batch is below 2 or larger than the set, or balanced classes are asked
            of images without labels.

    Example:
        >>> batches = epoch_batches(torch.arange(6) % 2, 4, seed=0, epoch=1, balanced=True)
        >>> [sorted((batch % 2).tolist()) for batch in batches]
        [[0, 0, 1, 1]]
    """
    n = len(labels)
    if batch_size < 2:
        raise InputError(f"batch-size must be at least 2, or nothing is negative, got {batch_size}")
    if batch_size > n:
        raise InputError(
            f"batch-size {batch_size} is larger than the {n} images to train on: lower it to at "
            f"most {n}"
        )
    generator = seeded(seed, epoch)
    n_batches = n // batch_size
    if not balanced:
        order = torch.randperm(n, generator=generator)
    else:
        order = _balanced_order(labels.cpu(), n_batches, batch_size, generator)
    return list(torch.split(order[: n_batches * batch_size], batch_size))


def _balanced_order(
    labels: Tensor, n_batches: int, batch_size: int, generator: torch.Generator
) -> Tensor:
    if bool((labels < 0).any()):
        raise InputError("balanced batches need labels: some images have none")
    classes = torch.unique(labels)
    rounds = -(-batch_size // len(classes))
    seats = torch.cat([
        torch.cat([
            classes[torch.randperm(len(classes), generator=generator)] for _ in range(rounds)
        ])[:batch_size]
        for _ in range(n_batches)
    ])  # fmt: skip
    order = torch.empty_like(seats)
    for one in classes:
        members, taken = (labels == one).nonzero().flatten(), (seats == one).nonzero().flatten()
        times = -(-len(taken) // len(members))
        stream = [members[torch.randperm(len(members), generator=generator)] for _ in range(times)]
        order[taken] = torch.cat([*stream, members[:0]])[: len(taken)]
    return order


class ClassPairs:
    """For each image another one of its class, drawn uniformly; a class of one gives its own.

    Args:
        labels: int64 [n], ≥ 0.

    Raises:
        InputError: if a label is missing.

    Source: H-SCL paper, section V-A (positives by augmentation and label); the pairs are those of
        HCL's code for true positives.

    Example:
        >>> pairs = ClassPairs(torch.tensor([0, 1, 0]))
        >>> pairs.draw(torch.tensor([0, 1, 2]), seeded(0)).tolist()
        [2, 1, 0]
    """

    def __init__(self, labels: Tensor) -> None:
        labels = labels.cpu()
        if bool((labels < 0).any()):
            raise InputError("class-pairs need labels: some images have none")
        by_class = labels.argsort(stable=True)
        sizes = labels.bincount()
        starts = sizes.cumsum(0) - sizes
        self._by_class = by_class
        self._size, self._start = sizes[labels], starts[labels]
        self._place = torch.empty_like(labels)
        self._place[by_class] = torch.arange(len(labels)) - self._start[by_class]

    def draw(self, index: Tensor, generator: torch.Generator) -> Tensor:
        """Partners of some images.

        Args:
            index: int64 [B], on the CPU.
            generator: of the CPU.

        Returns:
            int64 [B], images of the same classes.
        """
        size, place = self._size[index], self._place[index]
        draws = torch.rand(len(index), generator=generator, dtype=torch.float64)
        other = (draws * (size - 1)).long()
        other = torch.where(size == 1, place, other + (other >= place))
        return self._by_class[self._start[index] + other]
