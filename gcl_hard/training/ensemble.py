"""Models of one shape trained together: stacked parameters, one Adam, a loss for each model."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from gcl_hard.errors import DivergenceError, InputError
from gcl_hard.training.loop import Optimisation, adam, mean_loss, memory_for, train

__all__ = [
    "EnsembleLike",
    "Snapshots",
    "train_ensemble",
]

OnEpoch = Callable[[int, Sequence[int], Sequence[float]], None]
"""Called with the epoch, the models that trained in it and their mean losses."""

PRECISIONS = {"32-true": torch.float32, "64-true": torch.float64}


class Snapshots(NamedTuple):
    """Measures models while they train, and may stop them.

    Attributes:
        epochs: for each model, the epochs after which it is measured.
        see: called with the epoch and the models then, by number; returns those that stop.
    """

    epochs: Sequence[Container[int]]
    see: Callable[[int, Mapping[int, nn.Module]], Collection[int]]


class EnsembleLike(Protocol):
    """Interface of ensembles; ``gcl_hard.graphs.Ensemble`` is one."""

    @property
    def models(self) -> Sequence[nn.Module]:
        """The models, already on the device."""

    @property
    def alone(self) -> str | None:
        """Why the models cannot be stacked and must train one by one; None if they can."""

    def set_epoch(self, epoch: int, epochs: Sequence[int]) -> None:
        """Set every model's schedules to ``epoch`` (from 1) of its ``epochs``."""

    def batches(self, epoch: int) -> Iterable[Any]:
        """Batches that all models share."""

    def batches_of(self, model: int, epoch: int) -> Iterable[Any]:
        """Batches of a model that is trained alone."""

    def losses(
        self, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], batch: Any
    ) -> Tensor:
        """Loss of every model, float [P]; buffers are updated in place."""

    def trained(self, batch: Any) -> Tensor:
        """Which models the batch of the last losses trains, bool [P]."""

    def keep(self, rows: Sequence[int]) -> None:
        """Continue with a subset of the models."""


def train_ensemble(
    ensemble: EnsembleLike,
    optimisation: Optimisation | Sequence[Optimisation],
    *,
    on_epoch: OnEpoch | None = None,
    settings: Sequence[str] = (),
    snapshots: Snapshots | None = None,
) -> list[list[float] | DivergenceError]:
    """Train all models in place.

    A model whose loss is not finite stops with its error and keeps its last weights; the others
    continue. Models may differ in everything of :class:`Optimisation` but precision, which is that
    of their weights.

    Args:
        ensemble: the ensemble, its models already on the device.
        optimisation: settings of the optimiser, for all models or for each.
        on_epoch: called as an epoch ends.
        settings: description of each model, for the message if it diverges.
        snapshots: when and how models are measured.

    Returns:
        For each model its mean loss per trained epoch, nats, or the error that stopped it.

    Raises:
        InputError: for another number of optimisations than of models, or a precision that
            models cannot share.
        OutOfMemory: if memory runs out; says what to lower.

    Example:
        >>> from gcl_hard.graphs import GIN, Ensemble, InfoGraph, load_graphs
        >>> mutag = load_graphs("MUTAG")
        >>> betas = {"method": "hscl", "beta": 1.0}, {"method": "hscl", "beta": 10.0}
        >>> models = [InfoGraph(GIN(mutag.n_features), **options) for options in betas]
        >>> losses = train_ensemble(Ensemble(models, mutag), Optimisation(epochs=2))
        >>> [len(model_losses) for model_losses in losses]
        [2, 2]
    """
    n = len(ensemble.models)
    each = [optimisation] * n if isinstance(optimisation, Optimisation) else list(optimisation)
    if len(each) != n:
        raise InputError(f"{len(each)} optimisations for {n} models")
    names = list(settings) or [f"model {m}" for m in range(n)]
    for model in ensemble.models:
        model.train()
    if ensemble.alone is not None:
        return _one_by_one(ensemble, each, names, on_epoch, snapshots)
    dtype = next(ensemble.models[0].parameters()).dtype
    for options in each:
        other = {
            "optimizer": options.optimizer is not None,
            "lr_schedule": callable(options.lr_schedule),
            "precision": PRECISIONS.get(options.precision) != dtype,
            "accumulate": options.accumulate > 1,
            "parts": options.parts > 1,
        }
        if any(other.values()):
            different = ", ".join(name for name, used in other.items() if used)
            raise InputError(
                f"an ensemble trains by Adam on whole batches in {dtype}: with another {different} "
                f"train models one by one, by gcl_hard.fit"
            )
    with memory_for(lambda: f"out of memory with {n} models in an ensemble"):
        return _Run(copy.copy(ensemble), each, names).train(on_epoch, snapshots)


class _Run:
    """State of training: stacked parameters, optimiser, and the models still in training."""

    def __init__(
        self, ensemble: EnsembleLike, optimisations: list[Optimisation], names: list[str]
    ) -> None:
        self.ensemble, self.optimisations, self.names = ensemble, optimisations, names
        self.results: list[list[float] | DivergenceError] = [[] for _ in names]
        self.numbers = list(range(len(names)))  # for each row
        self.stacked = Stacked(ensemble.models)
        self.adam = Adam(self.stacked, [(o.lr, o.weight_decay) for o in optimisations])

    def train(
        self, on_epoch: OnEpoch | None, snapshots: Snapshots | None
    ) -> list[list[float] | DivergenceError]:
        for epoch in range(1, max(o.epochs for o in self.optimisations) + 1):
            if not self.numbers:
                break
            self._end_epoch(epoch, self._train_epoch(epoch), on_epoch, snapshots)
        return self.results

    def _train_epoch(self, epoch: int) -> Tensor:
        """Loss of every batch and model, and whether it trained, [2, B, P]."""
        each = [self.optimisations[m] for m in self.numbers]
        self.ensemble.set_epoch(epoch, [o.epochs for o in each])
        self.adam.set_rates([_rate(o, epoch) for o in each])
        results: list[Tensor] = []
        for batch in self.ensemble.batches(epoch):
            self.adam.zero_grad()
            losses = self.ensemble.losses(self.stacked.parameters, self.stacked.buffers, batch)
            losses.sum().backward()  # type: ignore[no-untyped-call]
            self.adam.step()
            results.append(torch.stack([losses.detach().float(), self.ensemble.trained(batch)]))
        return torch.stack(results, 1).cpu()  # waits once for a device

    def _end_epoch(
        self, epoch: int, batches: Tensor, on_epoch: OnEpoch | None, snapshots: Snapshots | None
    ) -> None:
        losses, trained = batches
        means: dict[int, float] = {}
        seen: dict[int, nn.Module] = {}
        for row, number in enumerate(self.numbers):
            result, model = self.results[number], self.ensemble.models[row]
            assert isinstance(result, list)
            try:
                result.append(mean_loss(losses[:, row], epoch, self.names[number], trained[:, row]))
            except DivergenceError as error:
                self.results[number] = error
                continue
            means[number] = result[-1]
            if snapshots is not None and epoch in snapshots.epochs[number]:
                seen[number] = model
            if number in seen or epoch == self.optimisations[number].epochs:
                self.stacked.write_back(row, model)
        if on_epoch is not None:
            on_epoch(epoch, list(means), list(means.values()))
        leaving = snapshots.see(epoch, seen) if snapshots is not None and seen else ()
        self._keep([
            row
            for row, number in enumerate(self.numbers)
            if number in means
            and number not in leaving
            and epoch < self.optimisations[number].epochs
        ])  # fmt: skip

    def _keep(self, staying: list[int]) -> None:
        """Continue with a subset of the rows."""
        if len(staying) < len(self.numbers):
            self.numbers = [self.numbers[row] for row in staying]
            if staying:
                self.ensemble.keep(staying)
                self.adam.keep(staying)


class _Stopped(Exception):  # noqa: N818
    """Raised when a measured model is to stop."""


def _one_by_one(
    ensemble: EnsembleLike,
    optimisations: list[Optimisation],
    names: list[str],
    on_epoch: OnEpoch | None,
    snapshots: Snapshots | None,
) -> list[list[float] | DivergenceError]:
    if len(names) > 1:
        warnings.warn(f"{ensemble.alone}: {len(names)} models are trained one by one", stacklevel=3)

    def train_alone(m: int, model: nn.Module) -> list[float] | DivergenceError:
        losses: list[float] = []

        def ended(epoch: int, loss: float) -> None:
            losses.append(loss)
            if on_epoch is not None:
                on_epoch(epoch, [m], [loss])
            if snapshots is None or epoch not in snapshots.epochs[m]:
                return
            if m in snapshots.see(epoch, {m: model}):
                raise _Stopped

        device, batches = next(model.parameters()).device, partial(ensemble.batches_of, m)
        try:
            train(
                model, batches, optimisations[m], device=device, on_epoch=ended, setting=names[m]
            )  # fmt: skip
        except DivergenceError as error:
            return error
        except _Stopped:
            pass
        return losses

    return [train_alone(m, model) for m, model in enumerate(ensemble.models)]


def _rate(optimisation: Optimisation, epoch: int) -> float:
    """Learning rate of an epoch, as in PyTorch's schedulers."""
    if optimisation.lr_schedule == "constant":
        return optimisation.lr
    turn = torch.pi * (epoch - 1) / optimisation.epochs
    return optimisation.lr * 0.5 * (1 + float(torch.cos(torch.tensor(turn, dtype=torch.float64))))


class Stacked:
    """Parameters and buffers of equal modules, a row for each.

    Args:
        modules: at least one; all with parameters of the same names, shapes and dtype.

    Attributes:
        flat: float [P, D], all parameters, the leaf of the gradient.
        buffers: by name, [P, …].

    Raises:
        InputError: for no modules, or modules that differ; names the first difference.

    Example:
        >>> stacked = Stacked([nn.Linear(2, 3), nn.Linear(2, 3)])
        >>> stacked.parameters["weight"].shape
        torch.Size([2, 3, 2])
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        _check_equal(modules)
        self._shapes = {name: value.shape for name, value in modules[0].named_parameters()}
        rows = [
            torch.cat([m.get_parameter(name).detach().flatten() for name in self._shapes])
            for m in modules
        ]
        self.flat = torch.stack(rows).requires_grad_()
        self.buffers = {
            name: torch.stack([module.get_buffer(name) for module in modules])
            for name, _ in modules[0].named_buffers()
        }

    @property
    def parameters(self) -> dict[str, Tensor]:
        """Parameters by name, [P, …]: views of ``flat`` in the current graph."""
        return self.named(self.flat)

    def named(self, table: Tensor) -> dict[str, Tensor]:
        """Views of a table like ``flat``, such as its gradient, by parameter name."""
        parts = table.split_with_sizes([shape.numel() for shape in self._shapes.values()], 1)
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
    """PyTorch's Adam on stacked parameters: neighbouring rows of equal settings are one parameter,
    so that the host's cost of a step does not grow with their number.

    Args:
        stacked: the table.
        settings: learning rate and weight decay of each row.
    """

    def __init__(self, stacked: Stacked, settings: Sequence[tuple[float, float]]) -> None:
        self.stacked, self._settings = stacked, list(settings)
        self._group({})

    def _group(self, moments: Mapping[str, Tensor]) -> None:
        """Create the optimiser, with the rows' moments [P, D] and steps [P], if any."""
        starts = [0, *(
            row for row in range(1, len(self._settings))
            if self._settings[row] != self._settings[row - 1]
        )]  # fmt: skip
        self._parts = [slice(*ends) for ends in pairwise([*starts, len(self._settings)])]
        flat = self.stacked.flat.detach()
        self._blocks = [nn.Parameter(flat[part]) for part in self._parts]
        self._adam = adam([
            {"params": [block], "lr": lr, "weight_decay": decay}
            for block, (lr, decay) in zip(
                self._blocks, (self._settings[start] for start in starts), strict=True
            )
        ])  # fmt: skip
        for block, part in zip(self._blocks, self._parts, strict=True):
            if moments:
                self._adam.state[block] = {
                    name: values[part][0] if name == "step" else values[part]
                    for name, values in moments.items()
                }

    @property
    def _moments(self) -> dict[str, Tensor]:
        """The moments and steps of all rows."""
        states = [self._adam.state[block] for block in self._blocks]
        if not states[0]:
            return {}
        return {
            name: torch.cat([
                state[name].expand(len(block)) if name == "step" else state[name]
                for state, block in zip(states, self._blocks, strict=True)
            ])
            for name in states[0]
        }  # fmt: skip

    def set_rates(self, rates: Sequence[float]) -> None:
        """Set the learning rate of each row."""
        before = self._settings
        self._settings = [(rate, d) for rate, (_, d) in zip(rates, before, strict=True)]
        together = all(len({*self._settings[part]}) == 1 for part in self._parts)
        if not together:
            self._group(self._moments)
            return
        for group, part in zip(self._adam.param_groups, self._parts, strict=True):
            group["lr"] = self._settings[part.start][0]

    def zero_grad(self) -> None:
        """Clear the gradient."""
        self.stacked.flat.grad = None

    def step(self) -> None:
        """Update every row by its gradient."""
        assert self.stacked.flat.grad is not None
        for block, part in zip(self._blocks, self._parts, strict=True):
            block.grad = self.stacked.flat.grad[part]
        self._adam.step()

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all other rows of the table too."""
        index = torch.tensor(rows, device=self.stacked.flat.device)
        moments = {name: values[index.to(values.device)] for name, values in self._moments.items()}
        self.stacked.keep(rows)
        self._settings = [self._settings[row] for row in rows]
        self._group(moments)


def _check_equal(modules: Sequence[nn.Module]) -> None:
    kind, first = type(modules[0]).__name__, _shapes(modules[0])
    for m, module in enumerate(modules[1:], start=2):
        other, shapes = type(module).__name__, _shapes(module)
        if other != kind:
            raise InputError(f"models of an ensemble must be equal, got {kind} and {other}")
        for name in (name for name in first | shapes if first.get(name) != shapes.get(name)):
            raise InputError(
                f"models of an ensemble must have equal shapes: {name} is {first.get(name)} in the "
                f"first and {shapes.get(name)} in number {m}"
            )


def _shapes(module: nn.Module) -> dict[str, str]:
    named = (*module.named_parameters(), *module.named_buffers())
    return {name: f"{[*value.shape]} {value.dtype} {value.device}" for name, value in named}
