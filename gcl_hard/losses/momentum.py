"""A momentum encoder: a slowly moving copy of an encoder, whose embeddings fill a queue."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from gcl_hard.errors import check_number


class MomentumEncoder(nn.Module):
    r"""A copy of an encoder that follows it slowly: an exponential moving average of its weights.

    .. math:: \theta_k \leftarrow m\, \theta_k + (1 - m)\, \theta

    It begins with the encoder's weights and has no gradient. Buffers, such as BatchNorm's running
    statistics, are the encoder's as of the last update. The average is in the module's
    ``state_dict``, so that a resumed run goes on with it.

    Args:
        encoder: any module, or several in an ``nn.Sequential``, such as with a projection head.
        momentum: m in [0, 1); 0.999 or so for a queue of many batches.

    Attributes:
        average: PyTorch's ``AveragedModel``; ``average.module`` is the copy.

    Raises:
        InputError: for a momentum out of range.

    Source:
        He, Fan, Wu, Xie, Girshick (2020), *Momentum Contrast for Unsupervised Visual Representation
        Learning*, Eq. 2.

    Example:
        >>> from gcl_hard import Queue, contrastive_loss
        >>> encoder, loss, queue = nn.Linear(3, 2), contrastive_loss("ucl"), Queue(8, 2)
        >>> keys = MomentumEncoder(encoder, momentum=0.9)
        >>> for first, second in torch.randn(2, 2, 4, 3):
        ...     keys.update(encoder)
        ...     key = keys(second)
        ...     value = loss(encoder(first), key, **queue.candidates())
        ...     queue.add(key)
        >>> key.requires_grad, len(queue)
        (False, 8)
    """

    def __init__(self, encoder: nn.Module, momentum: float = 0.999) -> None:
        super().__init__()
        check_number("momentum", momentum, least=0, below=1)
        self.momentum = momentum
        self._average_in = get_ema_multi_avg_fn(momentum)  # type: ignore[no-untyped-call]
        self.average = AveragedModel(encoder, multi_avg_fn=self._average_in)
        self.average.requires_grad_(False)
        self.average.update_parameters(encoder)  # the first update copies

    def update(self, encoder: nn.Module) -> None:
        """Move towards the weights of the encoder, once for each batch.

        Args:
            encoder: the encoder that this is a copy of.
        """
        # As AveragedModel.update_parameters, which asks a GPU whether this is the first time.
        with torch.no_grad():
            copy, n = self.average.module, self.average.n_averaged
            averaged, followed = (
                [parameter.detach() for parameter in model.parameters()]
                for model in (copy, encoder)
            )
            if averaged:
                followed = [new.to(old) for old, new in zip(averaged, followed, strict=True)]
                self._average_in(averaged, followed, n)
            for old, new in zip(copy.buffers(), encoder.buffers(), strict=True):
                old.copy_(new)
            self.average.n_averaged += 1

    @torch.no_grad()
    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Output of the copy, without a gradient."""
        return self.average(*inputs, **named)

    def extra_repr(self) -> str:
        """The summary that ``print`` shows."""
        return f"momentum={self.momentum:g}"
