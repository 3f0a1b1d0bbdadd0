"""Ranks of right answers among all candidates, and what is computed from them."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from gcl_hard.errors import InputError, check_at_least
from gcl_hard.evaluation.checks import as_array


class AnswerRanks(NamedTuple):
    """Ranks of queries' right answers.

    Attributes:
        rank: float64 [n], from 1; the mean rank of tied scores.
        candidates: int64 [n], number of ranked candidates, the answer included.
    """

    rank: Tensor
    candidates: Tensor

    @classmethod
    def joined(cls, parts: list[AnswerRanks]) -> Self:
        """The ranks of several batches."""
        return cls(*(torch.cat([*tensors]) for tensors in zip(*parts, strict=True)))


def filtered_ranks(
    scores: ArrayLike | Tensor,
    answer: ArrayLike | Tensor,
    known: tuple[ArrayLike | Tensor, ArrayLike | Tensor] | None = None,
) -> AnswerRanks:
    r"""Ranks of right answers, other right answers left out.

    .. math:: r_i = 1 + \#\{j : s_{ij} > s_{i a_i}\} + \tfrac{1}{2} \#\{j \ne a_i : s_{ij} =
              s_{i a_i}\}

    over the candidates j that are no known answer of the query. The mean over ties gives a model
    with constant scores the rank of chance.

    Args:
        scores: real numbers [B, E], higher is better; NaN counts as the lowest.
        answer: integers [B], the right answer of each query, 0..E-1.
        known: rows and columns of the known answers, integers [K] each; the right one may be among
            them. None for none.

    Returns:
        One rank for each query.

    Raises:
        InputError: for mismatched shapes, or invalid answers.

    Source:
        Bordes et al. (2013), filtered setting; ties as in Berrendorf et al., *On the Ambiguity of
        Rank-Based Evaluation of Entity Alignment or Link Prediction Methods*, 2020 ("realistic").

    Example:
        >>> scores = torch.tensor([[3.0, 2.0, 2.0, 1.0]])
        >>> known = torch.tensor([0, 0]), torch.tensor([0, 1])
        >>> filtered_ranks(scores, torch.tensor([1])).rank
        tensor([2.5000], dtype=torch.float64)
        >>> filtered_ranks(scores, torch.tensor([1]), known).rank
        tensor([1.5000], dtype=torch.float64)
    """
    scores, answers = _as_tensor("scores", scores), _as_tensor("answers", answer)
    scores = scores if scores.is_floating_point() else scores.double()
    right = _ids(answers, scores) if scores.dim() == 2 else None
    if right is None or right.shape != scores.shape[:1]:
        raise InputError(
            f"scores and answers must be [B, E] and [B], the answers whole numbers in 0..E-1, got "
            f"{[*scores.shape]} and {answers.dtype} {[*answers.shape]}"
        )
    pairs = None if known is None else _checked(known, scores)
    right_scores = scores.gather(1, right[:, None])
    if not right_scores.isfinite().all():  # else NaN would be neither above nor level
        scores = scores.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
        right_scores = scores.gather(1, right[:, None])
    above, level = (
        _count(torch.gt, scores, right_scores),
        _count(torch.eq, scores, right_scores) - 1,
    )
    n_ranked = torch.full_like(right, scores.shape[1])
    if pairs is not None:
        rows, columns = _others(pairs, right, scores.shape[1])
        known_scores, ones = scores[rows, columns], torch.ones_like(rows)
        above.index_add_(0, rows, -(known_scores > right_scores[rows, 0]).double())
        level.index_add_(0, rows, -(known_scores == right_scores[rows, 0]).double())
        n_ranked.index_add_(0, rows, -ones)
    return AnswerRanks(1 + above + level / 2, n_ranked)


def _count(compare: Any, scores: Tensor, right_scores: Tensor) -> Tensor:
    """Number of scores of each row for which the comparison holds, float64 [B]."""
    # Sums of booleans go through int64, which takes ten times as long.
    kind = torch.float32 if scores.shape[1] < 2**24 else torch.float64
    comparison = torch.empty(scores.shape, dtype=kind, device=scores.device)
    compare(scores, right_scores, out=comparison)
    return comparison.sum(1).double()


def _as_tensor(name: str, values: Any) -> Tensor:
    """A dense tensor without gradient from an array, a list or a tensor."""
    tensor = values
    if not isinstance(tensor, Tensor):
        array = as_array(name, values)
        if array.dtype.kind not in "fiub":
            raise InputError(f"{name} must be real numbers, got dtype {array.dtype}")
        kinds = {"f": np.float64, "b": np.bool_}
        tensor = torch.from_numpy(array.astype(kinds.get(array.dtype.kind, np.int64)))
    return tensor.detach().to_dense()


def _ids(values: Tensor, scores: Tensor, along: int = 1) -> Tensor | None:
    """Rows or columns of scores, int64 [K], on their device; None for anything else."""
    kinds = values.is_floating_point(), values.is_complex(), values.dtype == torch.bool
    ids = values.to(scores.device).long()
    fits = ids.dim() == 1 and (not any(kinds) or not len(ids))
    return ids if fits and bool(((ids >= 0) & (ids < scores.shape[along])).all()) else None


def _checked(known: Any, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and columns of pairs.

    Raises:
        InputError: for anything else.
    """
    if isinstance(known, tuple) and len(known) == 2:
        rows, columns = (
            _ids(_as_tensor("known", ids), scores, along) for along, ids in enumerate(known)
        )
        if rows is not None and columns is not None and len(rows) == len(columns):
            return rows, columns
    raise InputError(
        f"known must be rows and columns of pairs within {[*scores.shape]}, whole numbers [K] "
        f"each; of a mask they are mask.nonzero(as_tuple=True)"
    )


def _others(known: tuple[Tensor, Tensor], answer: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Known pairs without the right ones, each once."""
    rows, columns = known
    keys = rows * n + columns
    if bool((keys[1:] <= keys[:-1]).any()):
        keys = torch.unique(keys)
        rows, columns = keys // n, keys % n
    other = columns != answer[rows]
    return rows[other], columns[other]


def reciprocals(ranks: AnswerRanks) -> Tensor:
    """1 / r of each query, float64 [n]."""
    return 1 / _doubles("ranks", ranks.rank)


def mean_reciprocal_rank(ranks: AnswerRanks) -> float:
    r"""MRR, the mean of 1 / r.

    Example:
        >>> mean_reciprocal_rank(AnswerRanks(torch.tensor([1.0, 2.0]), torch.tensor([9, 9])))
        0.75
    """
    return reciprocals(ranks).mean().item()


def _doubles(name: str, values: Any) -> Tensor:
    """Numbers [n] of any type, n ≥ 1, in double precision."""
    numbers = _as_tensor(name, values).double()
    if numbers.dim() != 1 or not len(numbers):
        raise InputError(f"{name} must be numbers [n], one or more, got {[*numbers.shape]}")
    return numbers


def hits(ranks: AnswerRanks, k: int) -> float:
    """Hits@k, the share of ranks of at most k.

    Args:
        ranks: ranks of right answers.
        k: ≥ 1.

    Example:
        >>> hits(AnswerRanks(torch.tensor([1.0, 2.5]), torch.tensor([9, 9])), 2)
        0.5
    """
    check_at_least("k", k, 1)
    return (_doubles("ranks", ranks.rank) <= k).double().mean().item()


def adjusted_mean_rank_index(ranks: AnswerRanks) -> float:
    r"""AMRI: 1 if all ranks are 1, 0 at chance, below 0 if worse than chance.

    .. math:: 1 - \frac{\sum_i (r_i - 1)}{\sum_i (\mathbb{E}[r_i] - 1)}, \qquad
              \mathbb{E}[r_i] = \frac{n_i + 1}{2}

    with n_i candidates after filtering. NaN if no query has another candidate.

    Source:
        Berrendorf, Faerman, Vermue and Tresp, 2020.

    Example:
        >>> adjusted_mean_rank_index(AnswerRanks(torch.tensor([1.0, 5.0]), torch.tensor([9, 9])))
        0.5
    """
    expected = (_doubles("candidates", ranks.candidates) - 1) / 2
    return 1 - ((_doubles("ranks", ranks.rank) - 1).sum() / expected.sum()).item()
