"""Two random views of every image, contrasted between projected embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gcl_hard.errors import InputError
from gcl_hard.images.augment import Views
from gcl_hard.images.batching import ClassPairs, epoch_batches
from gcl_hard.images.datasets import Split
from gcl_hard.images.encoders import projection_head
from gcl_hard.losses import ContrastiveLoss
from gcl_hard.models import evaluating, loss_of, width
from gcl_hard.seeds import seed_for, seeded


@dataclass(eq=False)  # not frozen: Fabric converts the views' precision in a copy
class ViewPair:
    """Two views of each image of a batch.

    Attributes:
        first: float [B, 3, S, S].
        second: float [B, 3, S, S], of the same images, or of others of their classes.
        labels: int64 [B]; −1 where there is none.
    """

    first: Tensor
    second: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device) -> ViewPair:
        """The same on a device."""
        first, second, labels = (
            tensor.to(device, non_blocking=True)
            for tensor in (self.first, self.second, self.labels)
        )
        return ViewPair(first, second, labels)


class ViewPairs:
    """The batches of an epoch as pairs of views: what :func:`gcl_hard.training.loop.train` takes.

    Images, partners and views of a batch depend on the seeds, the epoch and the step alone: a run
    that is resumed meets the views that it would have met.

    Args:
        split: the images to train on. Views are made where they lie, unless there are workers.
        views: makes a view of each image.
        batch_size: images per batch; n = 2 × batch_size embeddings.
        seed: of the views and partners.
        data_seed: of the batch order.
        balanced: whether every batch holds the classes in equal parts.
        class_pairs: whether the second view is made from another random image of the class.
        workers: processes that make views on the CPU, for sets that do not fit on the device; 0
            makes them in this process, where the images lie.
        device: where pairs made by workers go.

    Example:
        >>> from gcl_hard.images import ViewRecipe, load
        >>> digits = load("digits")
        >>> views = Views(ViewRecipe(), size=8, mean=(0.5,) * 3, std=(0.5,) * 3)
        >>> pairs = ViewPairs(digits.split("train"), views, batch_size=256)
        >>> [pair.first.shape for pair in pairs(epoch=1)][:1]
        [torch.Size([256, 3, 8, 8])]
    """

    def __init__(
        self,
        split: Split,
        views: Views,
        *,
        batch_size: int = 256,
        seed: int = 0,
        data_seed: int = 0,
        balanced: bool = False,
        class_pairs: bool = False,
        workers: int = 0,
        device: str | torch.device = "cpu",
    ) -> None:
        self.split = split
        self.views = views
        self.batch_size = batch_size
        self.seed, self.data_seed = seed, data_seed
        self.balanced = balanced
        self.workers = workers
        self.device = torch.device(device)
        self._pairs = ClassPairs(split.labels) if class_pairs else None
        self._labels = split.labels.cpu()

    def __call__(self, epoch: int) -> Iterator[ViewPair]:
        """The pairs of an epoch (from 1), made as they are asked for."""
        batches = epoch_batches(
            self._labels, self.batch_size, seed=self.data_seed, epoch=epoch, balanced=self.balanced
        )
        steps = _Steps(self, batches, epoch)
        if not self.workers:
            for step in range(len(steps)):
                yield steps[step]
            return
        # A generator of its own: the loader would draw from the global one.
        loader = torch.utils.data.DataLoader(
            steps, batch_size=None, num_workers=self.workers, generator=seeded(self.seed, epoch)
        )
        for pair in loader:
            yield pair.to(self.device)

    def pair(self, index: Tensor, epoch: int, step: int) -> ViewPair:
        """The views of some images, int64 [B] on the CPU, in a step (from 0) of an epoch."""
        partners = index
        if self._pairs is not None:
            partners = self._pairs.draw(index, seeded(self.seed, epoch, step))
        both = self.split.images[torch.cat([index, partners]).to(self.split.images.device)]
        first, second = self.views(both, seed=seed_for(self.seed, epoch, step, 1)).chunk(2)
        return ViewPair(first, second, self.split.labels[index.to(self.split.labels.device)])


class _Steps(torch.utils.data.Dataset[ViewPair]):
    """The steps of an epoch, for workers."""

    def __init__(self, pairs: ViewPairs, batches: list[Tensor], epoch: int) -> None:
        self._make = pairs.pair
        self._batches, self._epoch = batches, epoch

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, step: int) -> ViewPair:
        return self._make(self._batches[step], self._epoch, step)


class ImageContrast(nn.Module):
    """An image encoder trained by a contrastive loss between two views.

    Args:
        encoder: any module from float [B, 3, S, S] to embeddings [B, d].
        out_dim: d; read from ``encoder.out_dim`` if None.
        method: a name of ``METHODS``.
        loss: a :class:`ContrastiveLoss` of your own instead of a method's.
        head: from embeddings to what the loss sees; SimCLR's if None.
        one_forward: encode both views in one forward pass, so that BatchNorm sees them together;
            False takes two passes, as the papers' code does.
        channels_last: whether views are handed on in channels-last memory format; the encoder's
            weights are moved to it too.
        **options: of :func:`gcl_hard.contrastive_loss`.

    Raises:
        InputError: for a width that is not known, or an encoder that returns something else.

    Source: Chen et al. (2020), *SimCLR*; H-SCL paper, section V-A.

    Example:
        >>> from gcl_hard.images import resnet
        >>> model = ImageContrast(resnet("resnet18"), method="hscl", beta=1.0)
        >>> x, labels = torch.rand(4, 3, 8, 8), torch.tensor([0, 0, 1, 1])
        >>> model(ViewPair(x, x.flip(3), labels)).isfinite()
        tensor(True)
    """

    def __init__(
        self,
        encoder: nn.Module,
        out_dim: int | None = None,
        *,
        method: str = "hscl",
        loss: ContrastiveLoss | None = None,
        head: nn.Module | None = None,
        one_forward: bool = True,
        channels_last: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self.loss: ContrastiveLoss = loss_of(method, loss, options)
        self.out_dim: int = width(encoder, out_dim)
        self.encoder: nn.Module = encoder
        self.head: nn.Module = projection_head(self.out_dim) if head is None else head
        self.one_forward = one_forward
        self.channels_last = channels_last
        if channels_last:
            self.encoder.to(memory_format=torch.channels_last)

    def set_epoch(self, epoch: int, epochs: int) -> None:
        """Move the loss's schedules to ``epoch`` (1 … ``epochs``)."""
        self.loss.set_epoch(epoch, epochs)

    def forward(self, pair: ViewPair) -> Tensor:
        """Loss of a batch of two images or more, float [], nats."""
        if len(pair) < 2:
            raise InputError(f"a batch must have at least 2 images, got {len(pair)}")
        if self.one_forward:
            z1, z2 = self.project(torch.cat([pair.first, pair.second])).chunk(2)
        else:
            z1, z2 = self.project(pair.first), self.project(pair.second)
        labels = pair.labels if self._needs_labels else None
        loss: Tensor = self.loss(z1, z2, labels)
        return loss

    @property
    def _needs_labels(self) -> bool:
        return self.loss.sampler.needs_labels or self.loss.positives == "class"

    def project(self, images: Tensor) -> Tensor:
        """What the loss sees: float [B, 128] of unit rows, from normalised images."""
        projected: Tensor = self.head(self.encode(images))
        return nn.functional.normalize(projected.float(), dim=1)

    def encode(self, images: Tensor) -> Tensor:
        """Embeddings float [B, d] of normalised images, in the mode that the encoder is in."""
        if self.channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        z: Tensor = self.encoder(images)
        if not isinstance(z, Tensor) or z.shape != (len(images), self.out_dim):
            got = f"{list(z.shape)}" if isinstance(z, Tensor) else type(z).__name__
            raise InputError(
                f"the encoder must return embeddings [{len(images)}, {self.out_dim}], got {got}; "
                f"is out_dim={self.out_dim} its width?"
            )
        return z

    def embed(
        self,
        images: Tensor,
        views: Views,
        *,
        batch_size: int = 512,
        precision: torch.dtype = torch.float32,
        on_batch: Callable[[int], None] = lambda done: None,
    ) -> Tensor:
        """The encoder's embeddings in eval mode, without gradient: what a probe sees.

        Args:
            images: uint8 [n, 3, H, W], on any device.
            views: whose :meth:`~gcl_hard.images.Views.plain` normalises them.
            batch_size: images encoded at a time.
            precision: ``torch.float32``, or a half precision to encode in.
            on_batch: called with the images done.

        Returns:
            float32 [n, d] on the model's device; every module is left in the mode it was in.
        """
        device = next(self.parameters()).device
        half = precision != torch.float32
        found = []
        with evaluating(self), torch.autocast(device.type, dtype=precision, enabled=half):
            for chunk in torch.split(images, batch_size):
                found.append(self.encode(views.plain(chunk.to(device))).float())
                on_batch(sum(map(len, found)))
        return torch.cat(found)
