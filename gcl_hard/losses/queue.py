"""A queue of earlier embeddings, as further candidates of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn

from gcl_hard.core.tracing import hooked, in_backward
from gcl_hard.errors import InputError, check_at_least
from gcl_hard.functional.labels import check_unknown
from gcl_hard.functional.negatives import as_labels, described

STATE = "embeddings", "labels", "pointer", "filled"


class Queue(nn.Module):
    """The embeddings of the last batches, the oldest out first.

    They are in the module's ``state_dict`` and move with it. They are no buffers, which
    DistributedDataParallel would overwrite with those of the first process: each process has its
    own queue, and all continue with the first process's after a restart. For one queue of all
    processes add what :func:`gcl_hard.gather` returns.

    Args:
        size: number of embeddings, ≥ 1 and at least those of a batch.
        dim: width d of the embeddings.
        unknown: label of items of unknown class, as in the loss; embeddings added without labels
            get it. If None, labels are returned only while all are known, that is at least 0.

    Attributes:
        pointer: int64 [], where the next embedding goes.
        filled: bool [], whether the queue has been filled once.

    Raises:
        InputError: for sizes below 1; for adding more embeddings than it holds, or of another
            width.

    Source:
        He, Fan, Wu, Xie, Girshick (2020), *Momentum Contrast for Unsupervised Visual Representation
        Learning*; there the embeddings are those of a slowly moving copy of the encoder.

    Example:
        >>> from gcl_hard import contrastive_loss
        >>> queue, loss = Queue(size=8, dim=4), contrastive_loss("hscl")
        >>> for _ in range(3):
        ...     z1, z2, y = torch.randn(4, 4), torch.randn(4, 4), torch.arange(4)
        ...     _ = loss(z1, z2, y, **queue.candidates())
        ...     queue.add(z1, y)
        >>> len(queue), bool(queue.filled)
        (8, True)
    """

    # Counts on the host, so that nothing waits for a GPU: embeddings held, and how many of the
    # latest came with labels; None after a state was loaded.
    _held: int | None = None
    _labelled: int | None = None

    def __init__(self, size: int, dim: int, *, unknown: int | None = None) -> None:
        super().__init__()
        check_at_least("size", size, 1)
        check_at_least("dim", dim, 1)
        self.unknown = None if unknown is None else check_unknown(unknown)
        self.embeddings = torch.zeros(size, dim)
        self.labels = torch.full((size,), self._none)
        self.pointer = torch.zeros((), dtype=torch.int64)
        self.filled = torch.zeros((), dtype=torch.bool)
        self._held = self._labelled = 0

    @property
    def _none(self) -> int:
        """The label of embeddings without one."""
        return -1 if self.unknown is None else self.unknown

    def extra_repr(self) -> str:
        """The summary that ``print`` shows."""
        size, dim = self.embeddings.shape
        known = "" if self.unknown is None else f", unknown={self.unknown}"
        return f"size={size}, dim={dim}, holds={len(self)}{known}"

    def __len__(self) -> int:
        if self._held is None or self.pointer.device.type == "cpu":
            self._held = len(self.embeddings) if self.filled else int(self.pointer)
        return self._held

    @torch.no_grad()
    def add(self, z: Tensor, labels: Tensor | None = None) -> None:
        """Add embeddings in place of the oldest.

        Args:
            z: float [B, d]; kept without a gradient.
            labels: int64 [B], where the loss uses labels.
        """
        _refuse_recomputed()
        size, dim = self.embeddings.shape
        if z.shape[1:] != (dim,):
            raise InputError(f"a queue takes embeddings [B, {dim}], got {described(z)}")
        known = None if labels is None else as_labels(labels)
        if known is not None and (known.is_floating_point() or known.shape != z.shape[:1]):
            raise InputError(
                f"a queue keeps classes, integers [{len(z)}], got {described(known)}: keep other "
                f"labels yourself, as candidate_labels"
            )
        if len(z) > size:
            raise InputError(
                f"a queue of {size} is smaller than a batch of {len(z)} embeddings: make it larger"
            )
        at = (self.pointer + torch.arange(len(z), device=self.pointer.device)) % size
        self.embeddings[at] = z.detach().to(self.embeddings)
        self.labels[at] = self._none if known is None else known.to(self.labels)
        self.filled |= self.pointer + len(z) >= size
        self.pointer.copy_((self.pointer + len(z)) % size)
        if self._labelled is not None:
            self._labelled = 0 if known is None else min(size, self._labelled + len(z))
        if self._held is not None:
            self._held = min(size, self._held + len(z))

    @contextmanager
    def _as_buffers(self) -> Iterator[None]:
        """Context in which PyTorch moves, saves and loads the state as buffers."""
        self._buffers.update((name, self.__dict__.pop(name)) for name in STATE)
        try:
            yield
        finally:
            self.__dict__.update((name, self._buffers.pop(name)) for name in STATE)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        with self._as_buffers():
            super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _save_to_state_dict(self, *args: Any) -> None:
        with self._as_buffers():
            super()._save_to_state_dict(*args)

    def _load_from_state_dict(self, *args: Any) -> None:
        self._held = self._labelled = None
        with self._as_buffers():
            super()._load_from_state_dict(*args)

    def candidates(self) -> dict[str, Tensor]:
        """Keyword arguments of a call of the loss, none while the queue is empty."""
        _refuse_recomputed()
        if (n := len(self)) == 0:
            return {}
        arguments = {"candidates": self.embeddings[:n].clone()}
        if self.unknown is not None or self._all_labelled(n):
            arguments["candidate_labels"] = self.labels[:n].clone()
        return arguments

    def _all_labelled(self, n: int) -> bool:
        """Whether all n embeddings have labels; on a GPU negative labels count as labels."""
        if self._labelled is None or self.labels.device.type == "cpu":
            known = bool((self.labels[:n] >= 0).all())
            self._labelled = n if known else 0
        return self._labelled >= n


def _refuse_recomputed() -> None:
    """InputError inside activation checkpointing, which would see a queue that has moved on."""
    if in_backward() and hooked():
        raise InputError(
            "activation checkpointing recomputes what is inside it, when the queue has changed: "
            "take candidates and add embeddings outside of it"
        )
