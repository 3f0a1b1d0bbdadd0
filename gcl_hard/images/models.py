"""An image encoder and projection head under a contrastive loss between two views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gcl_hard.errors import InputError
from gcl_hard.images.augment import Views
from gcl_hard.images.batching import ViewPair
from gcl_hard.images.encoders import projection_head
from gcl_hard.losses import ContrastiveLoss
from gcl_hard.models import evaluating, loss_of, width


class ImageContrast(nn.Module):
    """An image encoder trained by a contrastive loss between two views.

    Args:
        encoder: any module from float [B, 3, S, S] to embeddings [B, d].
        out_dim: d; read from ``encoder.out_dim`` if None.
        method: a name of ``METHODS``.
        loss: a :class:`ContrastiveLoss` of your own instead of a method's.
        head: the projection from embeddings to the loss's inputs; SimCLR's if None.
        one_forward: encode both views in one forward pass, with joint BatchNorm statistics; False
            takes two passes, as the papers' code does.
        channels_last: whether views and the encoder's weights are in channels-last memory format.
        **options: of :func:`gcl_hard.contrastive_loss`.

    Raises:
        InputError: if the encoder's width is unknown, or its output is not of that width.

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
        """The loss's inputs of normalised images: unit rows, float [B, 128]."""
        projected: Tensor = self.head(self.encode(images))
        return nn.functional.normalize(projected.float(), dim=1)

    def encode(self, images: Tensor) -> Tensor:
        """Embeddings float [B, d] of normalised images, in the encoder's current mode."""
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
        """The encoder's embeddings in eval mode, without gradient, as probes use them.

        Args:
            images: uint8 [n, 3, H, W], on any device.
            views: whose :meth:`~gcl_hard.images.Views.plain` normalises them.
            batch_size: number of images encoded at a time.
            precision: ``torch.float32``, or a half precision to encode in.
            on_batch: called after each batch with the number of images encoded so far.

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
