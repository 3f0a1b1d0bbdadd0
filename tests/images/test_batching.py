"""Batches of images, partners of their classes and pairs of views, against counting by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from gcl_hard.core.seeds import seeded
from gcl_hard.errors import InputError
from gcl_hard.images.augment import ViewRecipe
from gcl_hard.images.batching import ViewPair, ViewPairs, epoch_batches
from gcl_hard.images.datasets import Split
from gcl_hard.losses.pairing import ClassPairs
from tests.images.sets import images, views

LABELS = torch.tensor([0] * 7 + [1] * 5 + [2] * 9)


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("batch_size", [2, 4, 10, 21])
def test_batches_are_whole_and_seeded(batch_size: int, balanced: bool) -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        batches = epoch_batches(LABELS, batch_size, seed=seed, epoch=epoch, balanced=balanced)
        return [batch.tolist() for batch in batches]

    first = order(0, 1)
    assert [len(batch) for batch in first] == [batch_size] * (21 // batch_size)
    assert order(0, 1) == first
    assert order(0, 2) != first
    assert order(1, 1) != first
    assert {i for batch in first for i in batch} <= set(range(21))


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    batch_size=st.integers(2, 20),
    seed=st.integers(0, 99),
)
@settings(deadline=None)
def test_no_balanced_batch_holds_an_image_twice(
    sizes: list[int], batch_size: int, seed: int
) -> None:
    """Seats are dealt class by class in turn; a class without an image left passes."""
    assume(batch_size <= sum(sizes))
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    parts, left = [0] * len(sizes), batch_size
    while left >= (able := sum(part < size for part, size in zip(parts, sizes, strict=True))) > 0:
        parts = [min(part + 1, size) for part, size in zip(parts, sizes, strict=True)]
        left -= able
    met = Counter[int]()
    for batch in epoch_batches(labels, batch_size, seed=seed, epoch=1, balanced=True):
        images = batch.tolist()
        assert len(set(images)) == batch_size
        met.update(images)
        more = [n - part for n, part in zip(labels[batch].bincount(minlength=len(sizes)).tolist(),
                                            parts, strict=True)]  # fmt: skip
        assert sum(more) == left
        assert set(more) <= {0, 1}
    for label in range(len(sizes)):  # a class is gone through before an image comes once more
        times = [met[i] for i in range(len(labels)) if labels[i] == label]
        assert max(times) - min(times) <= 1


def balanced_one_class_at_a_time(labels: Tensor, size: int, seed: int, epoch: int) -> list[Tensor]:
    """Balanced batches, for which each class looks through all labels and all seats."""
    generator = seeded(seed, epoch)
    n_batches = len(labels) // size
    classes, sizes = torch.unique(labels, return_counts=True)
    rounds = [classes[sizes > i] for i in range(int(sizes.max()))]
    seating = []
    for _ in range(n_batches):
        seats: list[int] = []
        for some in rounds:
            if len(seats) < size:
                seats += some[torch.randperm(len(some), generator=generator)].tolist()
        seating.append(seats[:size])
    order: list[tuple[int, int, int]] = []
    for label in classes.tolist():
        members = (labels == label).nonzero().flatten()
        queue: list[int] = []
        for batch, seats in enumerate(seating):
            taken = [i for i, seat in enumerate(seats) if seat == label]
            if len(taken) > len(queue):
                fresh = members[torch.randperm(len(members), generator=generator)].tolist()
                waiting = [i for i in fresh if i in queue]
                queue += [i for i in fresh if i not in queue] + waiting
            drawn, queue = queue[: len(taken)], queue[len(taken) :]
            order.extend(zip([batch] * len(taken), taken, drawn, strict=True))
    batches = torch.empty(n_batches, size, dtype=torch.int64)
    for batch, seat, image in order:
        batches[batch, seat] = image
    return list(batches)


@pytest.mark.parametrize(("n_classes", "size"), [(3, 10), (30, 8), (5, 60), (40, 64)])
def test_balanced_batches_are_those_of_one_class_at_a_time(n_classes: int, size: int) -> None:
    labels = 7 * torch.randint(0, n_classes, (130,), generator=seeded(n_classes))
    for epoch in (1, 2):
        batches = epoch_batches(labels, size, seed=3, epoch=epoch, balanced=True)
        expected = balanced_one_class_at_a_time(labels, size, 3, epoch)
        assert all(map(torch.equal, batches, expected))
        assert len(batches) == len(expected)


def test_labels_of_any_integers_are_balanced_and_one_hot_rows_refused() -> None:
    labels = torch.arange(600) % 3
    expected = epoch_batches(labels, 6, seed=0, epoch=1, balanced=True)
    for dtype in (torch.uint8, torch.int32):
        batches = epoch_batches(labels.to(dtype), 6, seed=0, epoch=1, balanced=True)
        assert all(map(torch.equal, batches, expected))
    with pytest.raises(InputError, match=r"\[600, 3\]"):
        epoch_batches(torch.eye(3)[labels], 6, seed=0, epoch=1, balanced=True)


@pytest.mark.parametrize(
    ("labels", "batch_size", "balanced", "message"),
    [
        (LABELS, 1, False, r"batch-size\D+2\D+1$"),
        (LABELS, 22, False, r"batch-size 22\D+21 images"),
        (torch.tensor([0, 1, -1, 0]), 2, True, r"\bbalanced\b.*\blabels\b"),
    ],
)
def test_batches_that_cannot_be_made_are_refused(
    labels: torch.Tensor, batch_size: int, balanced: bool, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        epoch_batches(labels, batch_size, seed=0, epoch=1, balanced=balanced)


def test_a_partner_is_any_other_image_of_the_class_equally_often() -> None:
    labels = LABELS[torch.randperm(21, generator=seeded(5))]
    pairs, drawn = ClassPairs(labels), Counter[tuple[int, int]]()
    n = 3000
    for step in range(n):
        index = torch.arange(21)
        drawn.update(zip(index.tolist(), pairs.draw(index, seeded(0, step)).tolist(), strict=True))
    for i in range(21):
        others = [j for j in range(21) if labels[j] == labels[i] and j != i]
        assert {b for a, b in drawn if a == i} == set(others)
        expected = n / len(others)
        chi2 = sum((drawn[i, j] - expected) ** 2 / expected for j in others)
        assert chi2 < 40  # 8 degrees of freedom at most: p < 1e-5


def test_a_class_of_one_is_its_own_partner_and_missing_labels_are_refused() -> None:
    pairs = ClassPairs(torch.tensor([4, 0, 4]))
    assert pairs.draw(torch.tensor([1, 1, 0]), seeded(0)).tolist() == [1, 1, 2]
    with pytest.raises(InputError, match=r"class-pairs\b.*\blabels\b"):
        ClassPairs(torch.tensor([0, -1]))


def everything(pairs: Iterable[ViewPair]) -> list[Tensor]:
    return [tensor for pair in pairs for tensor in (pair.first, pair.second, pair.labels)]


def split(n: int = 20) -> Split:
    return Split(images(n), torch.arange(n) % 4)


def test_views_depend_on_seed_epoch_and_step_alone() -> None:
    def tensors(epoch: int = 1, **changed: int) -> list[Tensor]:
        return everything(ViewPairs(split(), views(), batch_size=8, **changed)(epoch))  # type: ignore[arg-type]

    first = tensors()
    torch.manual_seed(7)
    assert all(map(torch.equal, first, tensors()))
    assert torch.equal(first[2], tensors(seed=1)[2])  # the order is data_seed's
    assert not torch.equal(first[0], tensors(seed=1)[0])
    for other in (tensors(2), tensors(data_seed=1)):
        assert not torch.equal(first[2], other[2])


def test_both_views_are_of_the_same_images_or_of_partners_of_their_class() -> None:
    data = Split(images(20), torch.arange(20) % 4)
    off = ViewRecipe(crop=1.0, flip=0.0, jitter=0.0, grayscale=0.0, blur=0.0)
    plain = views(off)
    known = plain.plain(data.images)

    def who(view: Tensor) -> list[int]:
        return [int((known - x).abs().flatten(1).sum(1).argmin()) for x in view]

    for pair in ViewPairs(data, plain, batch_size=10)(epoch=1):
        assert who(pair.first) == who(pair.second)
        assert (data.labels[who(pair.first)] == pair.labels).all()
    for pair in ViewPairs(data, plain, batch_size=10, class_pairs=True)(epoch=1):
        mine, partners = who(pair.first), who(pair.second)
        assert (data.labels[partners] == pair.labels).all()
        assert all(a != b for a, b in zip(mine, partners, strict=True))


def test_more_views_are_of_the_same_images_and_the_first_may_be_the_image_itself() -> None:
    data = Split(images(20), torch.arange(20) % 4)
    for with_item in (False, True):
        pairs = ViewPairs(data, views(), batch_size=10, n_views=4, with_item=with_item)
        batch = epoch_batches(data.labels, 10, seed=0, epoch=1)[0]
        pair = next(pairs(epoch=1))
        assert [len(view) for view in pair.views] == [10] * 4
        assert torch.equal(pair.labels, data.labels[batch])
        plain = views().plain(data.images[batch])
        assert [torch.equal(view, plain) for view in pair.views] == [with_item] + [False] * 3
        assert len({view.sum().item() for view in pair.views}) == 4
        assert all(map(torch.equal, pair.to("cpu").views, pair.views))
    usual, more = (next(ViewPairs(data, views(), batch_size=10, n_views=n)(1)) for n in (2, 3))
    assert len(usual.views) == 2
    with pytest.raises(InputError, match="n_views"):
        ViewPairs(data, views(), n_views=1)
    assert len(more.views) == 3


def test_workers_make_the_same_views() -> None:
    alone, helped = (
        everything(ViewPairs(split(), views(), batch_size=8, class_pairs=True, workers=n)(1))
        for n in (0, 1)
    )
    assert all(map(torch.equal, alone, helped))
