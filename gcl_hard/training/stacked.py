"""Parameters of several equal modules as rows of one table, and Adam on all rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor, nn

from gcl_hard.errors import InputError

ALIGN = 16
"""Numbers to which rows are padded, so that vector instructions end with them: what a member's
neighbours are does not change its bits."""


class Stacked:
    """Parameters and buffers of equal modules, a row for each.

    Args:
        modules: at least one; all with parameters of the same names, shapes and dtype.

    Attributes:
        flat: float [P, D], all parameters: the leaf that gradients are taken of.
        buffers: by name, [P, …].

    Raises:
        InputError: for none, or modules that differ; names the first difference.

    Example:
        >>> stacked = Stacked([nn.Linear(2, 3), nn.Linear(2, 3)])
        >>> stacked.parameters["weight"].shape
        torch.Size([2, 3, 2])
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        if not modules:
            raise InputError("a population needs at least one model, got none")
        _check_equal(modules)
        self._shapes = {name: value.shape for name, value in modules[0].named_parameters()}
        rows = [
            torch.cat([m.get_parameter(name).detach().flatten() for name in self._shapes])
            for m in modules
        ]
        spare = -len(rows[0]) % ALIGN
        self.flat = nn.functional.pad(torch.stack(rows), (0, spare)).requires_grad_()
        self.buffers = {
            name: torch.stack([module.get_buffer(name) for module in modules])
            for name, _ in modules[0].named_buffers()
        }

    @property
    def parameters(self) -> dict[str, Tensor]:
        """By name, [P, …]: parts of ``flat`` in today's graph."""
        return self.named(self.flat)

    def named(self, table: Tensor) -> dict[str, Tensor]:
        """Parts of a table like ``flat``, its gradient for one, by parameter."""
        sizes = [shape.numel() for shape in self._shapes.values()]
        *parts, _ = table.split_with_sizes([*sizes, table.shape[1] - sum(sizes)], 1)
        shapes = self._shapes.items()
        return {n: x.view(-1, *shape) for (n, shape), x in zip(shapes, parts, strict=True)}

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all other rows."""
        index = torch.tensor(rows, device=self.flat.device)
        self.flat = self.flat.detach()[index].requires_grad_()
        self.buffers = {name: value[index] for name, value in self.buffers.items()}

    @torch.no_grad()
    def write_back(self, row: int, module: nn.Module) -> None:
        """Copy a row into a module."""
        for name, value in self.parameters.items():
            module.get_parameter(name).copy_(value[row])
        for name, value in self.buffers.items():
            module.get_buffer(name).copy_(value[row])


class Adam:
    """PyTorch's Adam on the rows of a table, in one call for all rows of one setting.

    Args:
        stacked: the table.
        settings: learning rate and weight decay of each row.
    """

    def __init__(self, stacked: Stacked, settings: Sequence[tuple[float, float]]) -> None:
        self.stacked, self._settings = stacked, list(settings)
        self._make()

    def _make(self) -> None:
        groups, start = [], 0
        for (lr, decay), rows in groupby(self._settings):
            end = start + len(list(rows))
            part = nn.Parameter(self.stacked.flat.detach()[start:end])
            groups.append({"params": [part], "lr": lr, "weight_decay": decay})
            start = end
        fused = self.stacked.flat.device.type in ("cpu", "cuda")
        self._adam = torch.optim.Adam(groups, fused=fused)

    def set_rates(self, rates: Sequence[float]) -> None:
        """The learning rate of each row from now on; rows of one group share theirs."""
        self._settings = [(r, d) for r, (_, d) in zip(rates, self._settings, strict=True)]
        start = 0
        for group in self._adam.param_groups:
            size = len(group["params"][0])
            if len(set(rates[start : start + size])) > 1:
                self.keep(range(len(rates)))
                return
            group["lr"] = rates[start]
            start += size

    def zero_grad(self) -> None:
        """Forget the gradient."""
        self.stacked.flat.grad = None

    def step(self) -> None:
        """Move every row by its gradient."""
        start = 0
        grad = self.stacked.flat.grad
        assert grad is not None
        for group in self._adam.param_groups:
            (part,) = group["params"]
            part.grad = grad[start : start + len(part)]
            start += len(part)
        self._adam.step()

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all other rows of the table too."""
        state: list[tuple[Tensor, Tensor, Tensor]] = []
        for group in self._adam.param_groups:
            part = group["params"][0]
            moments = self._adam.state[part]
            state += [
                (moments["step"], moments["exp_avg"][row], moments["exp_avg_sq"][row])
                for row in range(len(part) if moments else 0)
            ]
        rows = list(rows)
        if rows != list(range(len(self._settings))):
            self.stacked.keep(rows)
        self._settings = [self._settings[row] for row in rows]
        self._make()
        start = 0
        for group in self._adam.param_groups if state else ():
            part = group["params"][0]
            mine = [state[row] for row in rows[start : start + len(part)]]
            self._adam.state[part] = {
                "step": mine[0][0].clone(),
                "exp_avg": torch.stack([one[1] for one in mine]),
                "exp_avg_sq": torch.stack([one[2] for one in mine]),
            }
            start += len(part)


def _check_equal(modules: Sequence[nn.Module]) -> None:
    first = _shapes(modules[0])
    for m, module in enumerate(modules[1:], start=1):
        if _shapes(module) == first:
            continue
        if type(module) is not type(modules[0]):
            kinds = type(modules[0]).__name__, type(module).__name__
            raise InputError(f"models of a population must be equal, got {kinds[0]} and {kinds[1]}")
        other = _shapes(module)
        name = next(n for n in (*first, *other) if first.get(n) != other.get(n))
        raise InputError(
            f"models of a population must have equal shapes: {name} is {_shown(first.get(name))} "
            f"in the first and {_shown(other.get(name))} in number {m + 1}"
        )


def _shapes(module: nn.Module) -> dict[str, tuple[object, ...]]:
    named = (*module.named_parameters(), *module.named_buffers())
    return {name: (tuple(value.shape), value.dtype, value.device) for name, value in named}


def _shown(found: tuple[object, ...] | None) -> str:
    return "absent" if found is None else ", ".join(map(str, found))
