"""Random views of vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from gcl_hard.core.setting import Setting
from gcl_hard.errors import check_number


def _share(description: str, symbol: str) -> Setting:
    return Setting(
        description, "views", least=0, below=1, several=True, chosen=True, space=(0.0, 0.8),
        symbol=symbol, common=True,
    )  # fmt: skip


@dataclass(frozen=True)
class VectorViews:
    """A random view of each vector: entries dropped, columns masked, Gaussian noise.

    Args:
        drop_entries: probability p in [0, 1) with which an entry is 0, the others × 1 / (1 − p).
        mask_columns: probability in [0, 1) with which a column of all vectors of the view is 0.
        noise: deviation ≥ 0 of the noise, in deviations of the column.

    Raises:
        InputError: for a number out of range.

    Example:
        >>> views = VectorViews(drop_entries=0.5)
        >>> sorted({*views(torch.ones(2, 50), torch.Generator().manual_seed(0)).flatten().tolist()})
        [0.0, 2.0]
    """

    drop_entries: Annotated[float, _share(
        "share of the entries of each vector that a view drops", "entries"
    )] = 0.1  # fmt: skip
    mask_columns: Annotated[float, _share(
        "share of the columns that a view masks", "columns"
    )] = 0.0  # fmt: skip
    noise: Annotated[float, Setting(
        "deviation of Gaussian noise in a view, in deviations of the column in the training part",
        "views", least=0, several=True, chosen=True, space=(0.0, 1.0), symbol="σ", common=True,
    )] = 0.0  # fmt: skip

    def __post_init__(self) -> None:
        for name in ("drop_entries", "mask_columns"):
            check_number(name, getattr(self, name), least=0, below=1)
        check_number("noise", self.noise, least=0)

    def __call__(self, x: Tensor, generator: torch.Generator, deviation: Any = 1.0) -> Tensor:
        """A view of vectors [n, d].

        Args:
            x: the vectors.
            generator: on their device.
            deviation: of each column, [d] or a number.
        """
        if self.noise:
            x = x + self.noise * deviation * torch.randn(
                x.shape, generator=generator, device=x.device, dtype=x.dtype
            )
        if self.mask_columns:
            x = x * self._kept((1, x.shape[1]), self.mask_columns, x, generator)
        if self.drop_entries:
            kept = self._kept(x.shape, self.drop_entries, x, generator)
            x = x * kept / (1 - self.drop_entries)
        return x

    @staticmethod
    def _kept(shape: Any, share: float, x: Tensor, generator: torch.Generator) -> Tensor:
        return torch.rand(shape, generator=generator, device=x.device) >= share
