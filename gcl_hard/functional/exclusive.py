r"""Sums over all negatives but one: each positive's own denominator under admission ``"rest"``.

.. math:: L_p = \log \sum_{j \ne p} e^{x_j}

Subtracting e^{x_p} from the whole sum loses all digits where p dominates it, so the largest term
of a row is set aside and the others are summed with respect to the second largest.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


def logsumexp_without(x: Tensor) -> Tensor:
    r"""Log-sum-exp of each row without one entry, for each entry.

    .. math:: L_{ip} = \log \sum_{j \ne p} e^{x_{ij}}

    Args:
        x: float [A, C], −inf at entries that do not count.

    Returns:
        float [A, C]; a large negative number where no entry is left.

    Example:
        >>> logsumexp_without(torch.tensor([[1.0, 2.0, -math.inf]]))
        tensor([[2.0000, 1.0000, 2.3133]])
    """
    top = x.detach().argmax(1, keepdim=True)
    is_top = torch.zeros_like(x, dtype=torch.bool).scatter_(1, top, True)
    least = torch.finfo(x.dtype).min
    rest = x.masked_fill(is_top, -math.inf).clamp(min=least).logsumexp(1, keepdim=True)
    x = x.clamp(min=least)
    total = torch.logaddexp(x.gather(1, top), rest)
    share = torch.where(is_top, -math.inf, x - total).exp()
    return torch.where(is_top, rest, total + torch.log1p(-share))


class SumsWithout(NamedTuple):
    """Sums of a block of rows that each leave out one positive, with their gradient.

    Attributes:
        terms: float [R, C], e^{x − second largest x}, 0 at the largest.
        top: int64 [R, 1], column of the largest x.
        above: float [R, 1], the largest x.
        shift: float [R, 1], the second largest x.
        rest: float [R, 1], sum of the terms.
        total: float [R, 1], log-sum-exp of the whole row.
    """

    terms: Tensor
    top: Tensor
    above: Tensor
    shift: Tensor
    rest: Tensor
    total: Tensor

    @classmethod
    def of(cls, x: Tensor) -> SumsWithout:
        """The sums of x [R, C], −inf at ignored entries; overwrites x."""
        least = torch.finfo(x.dtype).min
        above, top = x.max(1, keepdim=True)
        x.scatter_(1, top, -math.inf)
        shift = x.amax(1, keepdim=True).clamp(min=least)
        terms = x.sub_(shift).exp_()
        rest = terms.sum(1, keepdim=True)
        above = above.clamp(min=least)
        total = torch.logaddexp(above, shift + rest.log())
        return cls(terms, top, above, shift, rest, total)

    def without(self, terms: Tensor, is_top: Tensor) -> Tensor:
        """Log of the sums without each of some columns, float [R, P].

        Args:
            terms: float [R, P], the terms of these columns.
            is_top: bool [R, P], whether they are the largest.
        """
        others = self.total + torch.log1p(-self._share(terms))
        return torch.where(is_top, self.shift + self.rest.log(), others)

    def slopes(self, pull: Tensor, terms: Tensor, is_top: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient of Σ pull · log of the sums: at all columns, and the excess of some.

        Args:
            pull: float [R, P], 0 at columns that are not left out.
            terms: as for :meth:`without`.
            is_top: likewise.

        Returns:
            float [R, C], in place of the terms, and float [R, P] to subtract.
        """
        scaled = torch.where(is_top, 0.0, pull / (1 - self._share(terms)))
        rest_share = (self.shift - self.total).exp()
        all_but_top = scaled.sum(1, keepdim=True)
        top_pull = torch.where(is_top, pull, 0.0).sum(1, keepdim=True)
        at_top = (self.above - self.total).exp() * all_but_top
        too_much = scaled * terms * rest_share
        self.terms.mul_(all_but_top * rest_share + top_pull / self.rest.clamp(min=1))
        self.terms.scatter_(1, self.top, at_top)
        return self.terms, too_much

    def _share(self, terms: Tensor) -> Tensor:
        return terms * (self.shift - self.total).exp()
