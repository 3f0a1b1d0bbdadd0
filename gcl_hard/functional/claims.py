"""What the H-SCL paper claims of a batch, anchor by anchor: Assumption 1 and Lemma 1."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor

from gcl_hard.functional.comparison import Comparison
from gcl_hard.functional.masked import mean_or_nan

SLACK = 1e-12
"""How far below the other side, in logs, still counts as ≥: equal sides differ by rounding."""


class Claim(NamedTuple):
    """An inequality, anchor by anchor.

    Attributes:
        holds: bool [A], False where it is not defined.
        defined: bool [A], both sides have support.
    """

    holds: Tensor
    defined: Tensor

    @property
    def fraction(self) -> float:
        """Share of the anchors at which it is defined where it holds; NaN if there are none."""
        defined = int(self.defined.sum())
        return int(self.holds.sum()) / defined if defined else math.nan


class Undefined(NamedTuple):
    """Why Assumption 1 says nothing at an anchor; bool [A] each, at most one of them true.

    Attributes:
        alone: no other carries its label.
        spared: some do, but η is 0 on all of them: α_Hcol = 0 and so H-UCL = H-SCL.
        unopposed: it has hard collisions, but no hard negative of another label: α_H-SCL = 0.
    """

    alone: Tensor
    spared: Tensor
    unopposed: Tensor


def assumption_1(comparison: Comparison) -> Claim:
    r"""Assumption 1: collisions lie nearer than hard negatives of other labels.

    .. math:: \mathbb{E}_{\text{Hcol}}[h] \ge \mathbb{E}_{\text{H-SCL}}[h]

    Args:
        comparison: of a batch.

    Returns:
        :class:`Claim`; sides that differ by less than ``SLACK`` in logs are equal.

    Source:
        H-SCL paper, Assumption 1; with softplus(t) for JSD.

    Example:
        >>> import torch
        >>> from gcl_hard.functional.comparison import compare
        >>> from gcl_hard.functional.scores import two_view_scores
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
        >>> scores = two_view_scores(z, z, torch.tensor([0, 0, 1]))
        >>> claim = assumption_1(compare(scores, torch.zeros(6, 6)))
        >>> claim.fraction, int(claim.defined.sum())
        (1.0, 4)
    """
    return _at_least(comparison, comparison.log_mean.hcol, comparison.log_alpha.hcol)


def lemma_1(comparison: Comparison) -> Claim:
    r"""Lemma 1's inequality: the H-UCL loss of an anchor is no smaller than its H-SCL loss.

    .. math:: \mathbb{E}_{\text{H-UCL}}[h] \ge \mathbb{E}_{\text{H-SCL}}[h]

    Both losses rise with their expectation and share everything else. It holds at an anchor if
    and only if Assumption 1 does; where Hcol has no support both sides are equal.

    Args:
        comparison: of a batch.

    Returns:
        :class:`Claim`; sides that differ by less than ``SLACK`` in logs are equal.

    Source:
        H-SCL paper, Lemma 1 (an "if", on average) and its proof (per anchor).

    Example:
        >>> import torch
        >>> from gcl_hard.functional.comparison import compare
        >>> from gcl_hard.functional.scores import two_view_scores
        >>> scores = two_view_scores(torch.eye(2), torch.eye(2), torch.tensor([0, 1]))
        >>> lemma_1(compare(scores, torch.zeros(4, 4))).fraction
        1.0
    """
    return _at_least(comparison, comparison.log_mean.hucl, comparison.log_alpha.hucl)


def undefined(comparison: Comparison) -> Undefined:
    """Why Assumption 1 is not defined where it is not; together with those where it is, all.

    Args:
        comparison: of a batch.

    Returns:
        :class:`Undefined`.

    Source:
        H-SCL paper, section IV, which assumes every α to be above 0.

    Example:
        >>> import torch
        >>> from gcl_hard.functional.comparison import compare
        >>> from gcl_hard.functional.scores import two_view_scores
        >>> scores = two_view_scores(torch.eye(2), torch.eye(2), torch.tensor([0, 1]))
        >>> undefined(compare(scores, torch.zeros(4, 4))).alone.all()
        tensor(True)
    """
    alone = comparison.n_same == 0
    no_collision = comparison.log_alpha.hcol == -math.inf
    no_negative = comparison.log_alpha.hscl == -math.inf
    return Undefined(alone, no_collision & ~alone, no_negative & ~no_collision)


def eq17_averages(comparison: Comparison) -> tuple[float, float]:
    r"""Both sides of Assumption 1, averaged over the anchors at which it is defined.

    .. math:: \operatorname{mean}_i \mathbb{E}_{\text{Hcol}}[h], \qquad
              \operatorname{mean}_i \mathbb{E}_{\text{H-SCL}}[h]

    Args:
        comparison: of a batch.

    Returns:
        The two averages; NaN if there is no such anchor.

    Source:
        Jiang et al. (2022), first version of the H-SCL paper, Eq. 17: 1.44 and 0.99 on STL-10.

    Example:
        >>> import torch
        >>> from gcl_hard.functional.comparison import compare
        >>> from gcl_hard.functional.scores import two_view_scores
        >>> scores = two_view_scores(torch.eye(3), torch.eye(3), torch.tensor([0, 0, 1]))
        >>> eq17_averages(compare(scores, torch.zeros(6, 6)))
        (1.0, 1.0)
    """
    defined = assumption_1(comparison).defined
    left, right = comparison.log_mean.hcol, comparison.log_mean.hscl
    return mean_or_nan(left.exp(), defined), mean_or_nan(right.exp(), defined)


def _at_least(comparison: Comparison, log_left: Tensor, log_alpha: Tensor) -> Claim:
    """Whether an expectation reaches that of H-SCL, where both have support."""
    defined = (log_alpha != -math.inf) & (comparison.log_alpha.hscl != -math.inf)
    return Claim(defined & (log_left >= comparison.log_mean.hscl - SLACK), defined)
