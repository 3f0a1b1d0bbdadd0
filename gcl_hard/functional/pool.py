"""Anchors and hard positives from a pool of views of each item."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from gcl_hard.core.setting import Setting
from gcl_hard.errors import InputError, check_at_least


@dataclass(frozen=True)
class HardPositives:
    r"""SPACL's anchors and positives, chosen from the views of an item.

    With the dissimilarity :math:`d(u, v) = -\langle u, v \rangle` of unit vectors, the anchor is
    the view that is on average least similar to the rest of its pool, and further views are added
    to P = {anchor} one by one, each the farthest from what P holds:

    .. math:: \arg\max_u \frac{1}{|C| - 1} \sum_{v \ne u} d(u, v), \qquad
              \arg\max_u \min_{v \in P} d(u, v)

    until |P| = λ_P. The anchor counts, but is not its own positive: where f = g it would crowd out
    the others. The first view is the item itself, and a candidate of other items' anchors.

    Args:
        number: λ_P ≥ 2, the anchor included.
        dynamic_anchor: whether the anchor is chosen; else it is the first view.
        farthest: whether positives are chosen; else they are the first of the other views.

    Raises:
        InputError: for a number below 2; from the loss, for one above the number of views.

    Source:
        SPACL, "Hard Positive Construction".

    Example:
        >>> pool = torch.tensor([[[1.0, 0.0]], [[0.6, 0.8]], [[0.0, 1.0]], [[0.8, 0.6]]])
        >>> HardPositives(number=2).choose(pool)
        tensor([[0, 2]])
    """

    number: Annotated[
        int, Setting("λ_P of spacl, the anchor included", name="hard_positives", least=2)
    ] = 2
    dynamic_anchor: bool = True
    farthest: bool = True

    def __post_init__(self) -> None:
        check_at_least("the number of hard positives, the anchor included,", self.number, 2)

    def choose(self, pool: Tensor) -> Tensor:
        """Views of each item, the anchor first.

        Args:
            pool: float [V, B, d], unit rows.

        Returns:
            int64 [B, λ_P].
        """
        n_views, n_items = pool.shape[:2]
        if self.number > n_views:
            raise InputError(f"{self.number} hard positives need as many views, got {n_views}")
        cosines = torch.einsum("vbd,wbd->bvw", pool.detach(), pool.detach())
        diagonal = torch.eye(n_views, dtype=torch.bool, device=pool.device)
        anchor = torch.zeros(n_items, dtype=torch.int64, device=pool.device)
        if self.dynamic_anchor:
            anchor = cosines.masked_fill(diagonal, 0.0).sum(2).argmin(1)
        chosen = [anchor]
        left = torch.ones(n_items, n_views, dtype=torch.bool, device=pool.device)
        nearest = cosines.new_full((n_items, n_views), -math.inf)
        rows = torch.arange(n_items, device=pool.device)
        for _ in range(self.number - 1):
            left = left & ~nn.functional.one_hot(chosen[-1], n_views).bool()
            nearest = torch.maximum(nearest, cosines[rows, chosen[-1]])
            if self.farthest:
                chosen.append(nearest.masked_fill(~left, math.inf).argmin(1))
            else:
                chosen.append(left.int().argmax(1))
        return torch.stack(chosen, 1)
