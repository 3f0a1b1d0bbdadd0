"""Early stopping by a score on held-out items."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor, nn

from gcl_hard.errors import check_at_least


class EarlyStopping:
    """End a training some epochs after the best one, whose weights are kept.

    ``fit(…, stopping=stopping)`` calls it at the end of each epoch, restores it after the last,
    and keeps it in its checkpoint; in your own loop, do the first two.

    Args:
        model: the model in training.
        score: scores the model on items that are neither trained nor tested on; NaN is the worst.
            Of several numbers, the later ones break ties.
        patience: epochs without a better score after which training ends, at least 1.
        higher: whether more is better.

    Attributes:
        best_epoch: the best epoch, from 1; 0 before the first.
        best: its score.
        ended: whether training has ended.

    Raises:
        InputError: for a patience below 1.

    Example:
        >>> import torch
        >>> model, scores = nn.Linear(1, 1), iter([1.0, 3.0, 2.0, 2.5])
        >>> stopping = EarlyStopping(model, lambda: next(scores), patience=2)
        >>> [stopping(epoch) for epoch in (1, 2, 3, 4)]
        [True, True, True, False]
        >>> stopping.restore()
        >>> stopping.best_epoch, stopping.best
        (2, 3.0)
    """

    def __init__(
        self,
        model: nn.Module,
        score: Callable[[], float | tuple[float, ...]],
        *,
        patience: int,
        higher: bool = True,
    ) -> None:
        check_at_least("patience", patience, 1)
        self.model, self.score = model, score
        self.patience, self.higher = patience, higher
        self.best_epoch = 0
        self.best: float | tuple[float, ...] = math.nan
        self.ended = False
        self._weights: dict[str, Tensor] = {}

    def __call__(self, epoch: int, loss: float = math.nan) -> bool:
        """Score the model after an epoch, from 1; returns whether to continue."""
        score = self.score()
        if not self._weights or self._order(score) > self._order(self.best):
            self.best_epoch, self.best = epoch, score
            state = self.model.state_dict()
            self._weights = {name: tensor.detach().clone() for name, tensor in state.items()}
        self.ended = epoch - self.best_epoch >= self.patience
        return not self.ended

    def _order(self, score: float | tuple[float, ...]) -> tuple[float, ...]:
        """A sort key, larger for a better score."""
        signed = ((value if self.higher else -value) for value in np.atleast_1d(score).tolist())
        return tuple(-math.inf if math.isnan(value) else value for value in signed)

    def restore(self) -> None:
        """Restore the weights of the best epoch, if there was one."""
        if self._weights:
            self.model.load_state_dict(self._weights)

    def run_state(self) -> dict[str, Any]:
        """State for a checkpoint: the best epoch, its score and weights, whether it has ended."""
        best = [float(value) for value in np.atleast_1d(self.best)]
        return {
            "epoch": self.best_epoch, "best": best, "ended": self.ended, "weights": self._weights
        }  # fmt: skip

    def set_run_state(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`run_state` returned."""
        ours = self.model.state_dict()
        best = state["best"]
        self.best_epoch, self.ended = state["epoch"], state["ended"]
        self.best = best[0] if len(best) == 1 else tuple(best)
        self._weights = {n: tensor.to(ours[n].device) for n, tensor in state["weights"].items()}
