"""The four losses on one batch, with the same positives and the same M."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor

from gcl_hard.functional import objectives
from gcl_hard.functional.comparison import Comparison


class Losses(NamedTuple):
    """The four losses, float64 [A] each, nats; NaN where the distribution has no support.

    Attributes:
        ucl: UCL.
        scl: SCL.
        hucl: H-UCL.
        hscl: H-SCL.
        common: bool [A], anchors that have all four.
    """

    ucl: Tensor
    scl: Tensor
    hucl: Tensor
    hscl: Tensor
    common: Tensor

    def means(self) -> dict[str, float]:
        """Each loss averaged over the same anchors, those that have all four; NaN if none has."""
        return {name: getattr(self, name)[self.common].mean().item() for name in self._fields[:-1]}


def losses(comparison: Comparison) -> Losses:
    r"""UCL, SCL, H-UCL and H-SCL of every anchor, with one positive and one M.

    .. math:: \log\left(1 + M e^{-t^+} \mathbb{E}_q[e^t]\right)
              \quad\text{or}\quad
              \operatorname{softplus}(-t^+) + \mathbb{E}_q[\operatorname{softplus}(t)] - 2 \log 2

    Args:
        comparison: of a batch; M is its ``n_others``.

    Returns:
        :class:`Losses`.

    Source:
        H-SCL paper, Eq. 3 and Fig. 5; InfoGraph's JSD.

    Example:
        >>> import torch
        >>> from gcl_hard.functional.comparison import compare
        >>> from gcl_hard.functional.scores import two_view_scores
        >>> scores = two_view_scores(torch.ones(2, 1), torch.ones(2, 1), torch.tensor([0, 1]))
        >>> {k: round(v, 4) for k, v in losses(compare(scores, torch.zeros(4, 4))).means().items()}
        {'ucl': 1.0986, 'scl': 1.0986, 'hucl': 1.0986, 'hscl': 1.0986}
    """
    t_pos = comparison.t_pos
    four = comparison.log_mean[:4]
    if comparison.objective == "infonce":
        log_m = comparison.n_others.double().log()
        values = [objectives.infonce(log_mean, t_pos, log_m) for log_mean in four]
    else:
        values = [objectives.jsd(log_mean.exp(), t_pos) for log_mean in four]
    # Hardened, there may be none left; the unhardened have support wherever these do.
    alpha = comparison.log_alpha
    common = (alpha.hucl != -math.inf) & (alpha.hscl != -math.inf)
    ucl, scl, hucl, hscl = values
    return Losses(ucl, scl, hucl, hscl, common)
