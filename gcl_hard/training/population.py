"""Train several equal models side by side: one optimiser, one batch order, a loss each."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from gcl_hard.errors import DivergenceError, InputError
from gcl_hard.training.loop import Optimisation, mean_loss, train
from gcl_hard.training.memory import memory_for
from gcl_hard.training.stacked import Adam, Stacked

OnEpoch = Callable[[int, Sequence[int], Sequence[float]], None]
"""Called with the epoch, the members that trained in it and their mean losses."""


PRECISIONS = {"32-true": torch.float32, "64-true": torch.float64}


class Look(NamedTuple):
    """Members that are looked at while they train, and may go no further.

    Attributes:
        epochs: of each member, those after which it is looked at.
        see: called with the epoch and, by member, models as they are then; gives the members
            that leave.
    """

    epochs: Sequence[Container[int]]
    see: Callable[[int, Mapping[int, nn.Module]], Collection[int]]


class Population(Protocol):
    """What can be trained side by side; ``gcl_hard.graphs.Population`` is one."""

    @property
    def models(self) -> Sequence[nn.Module]:
        """The members, on the device already."""

    @property
    def alone(self) -> str | None:
        """Why they cannot share their steps, or None; they are then trained one by one."""

    def set_epoch(self, epoch: int, epochs: Sequence[int]) -> None:
        """Move every member's schedules to ``epoch`` (from 1) of its ``epochs``."""

    def batches(self, epoch: int) -> Iterable[Any]:
        """Batches that all members share."""

    def batches_of(self, member: int, epoch: int) -> Iterable[Any]:
        """Batches of one member trained by itself."""

    def losses(
        self, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], batch: Any
    ) -> Tensor:
        """Loss of every member, float [P]; buffers are updated in place."""

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some of the members."""


def train_population(
    population: Population,
    optimisation: Optimisation | Sequence[Optimisation],
    *,
    on_epoch: OnEpoch | None = None,
    settings: Sequence[str] = (),
    look: Look | None = None,
) -> list[list[float] | DivergenceError]:
    """Train all members in place.

    A member whose loss is not finite stops with its error and keeps the weights that it had before;
    the others do not notice. Members may differ in everything of :class:`Optimisation` but
    precision, which is that of their weights.

    Args:
        population: what to train; its models are on the device already.
        optimisation: how, of all members or of each.
        on_epoch: called as an epoch ends.
        settings: what each member is, for the message when it diverges.
        look: when members are looked at, and by whom.

    Returns:
        Of each member its mean loss per epoch that it trained, nats, or why it stopped.

    Raises:
        InputError: for another number of optimisations than of members, or a precision that
            members cannot share.
        OutOfMemory: says what to lower.

    Example:
        >>> from gcl_hard.graphs import GIN, InfoGraph, Population, load
        >>> mutag = load("MUTAG")
        >>> models = [InfoGraph(GIN(mutag.n_features), beta=beta) for beta in (1.0, 10.0)]
        >>> losses = train_population(Population(models, mutag), Optimisation(epochs=2))
        >>> [len(of_member) for of_member in losses]
        [2, 2]
    """
    n = len(population.models)
    each = [optimisation] * n if isinstance(optimisation, Optimisation) else list(optimisation)
    if len(each) != n:
        raise InputError(f"{len(each)} optimisations for {n} models")
    names = list(settings) or [f"member {m}" for m in range(n)]
    for model in population.models:
        model.train()
    if population.alone is not None:
        return _one_by_one(population, each, names, on_epoch, look)
    dtype = next(population.models[0].parameters()).dtype
    for one in each:
        if PRECISIONS.get(one.precision) != dtype or one.accumulate != 1:
            raise InputError(
                f"members of a population train without accumulation in the precision that they "
                f"are in, {dtype}, got {one.precision} and accumulate {one.accumulate}"
            )
    with memory_for(lambda: f"out of memory with {n} models side by side"):
        return _SideBySide(copy.copy(population), each, names).train(on_epoch, look)


class _SideBySide:
    """What changes: the tables, their optimiser, and who is still in training."""

    def __init__(
        self, population: Population, optimisations: list[Optimisation], names: list[str]
    ) -> None:
        self.population, self.optimisations, self.names = population, optimisations, names
        self.results: list[list[float] | DivergenceError] = [[] for _ in names]
        self.members = list(range(len(names)))  # of each row
        self.stacked = Stacked(population.models)
        self.adam = Adam(self.stacked, [(o.lr, o.weight_decay) for o in optimisations])

    def train(
        self, on_epoch: OnEpoch | None, look: Look | None
    ) -> list[list[float] | DivergenceError]:
        for epoch in range(1, max(o.epochs for o in self.optimisations) + 1):
            if not self.members:
                break
            self._train_epoch(epoch)
            self._end_epoch(epoch, on_epoch, look)
        return self.results

    def begin(self, epoch: int) -> None:
        """Move schedules and learning rates of those in training."""
        each = [self.optimisations[m] for m in self.members]
        self.population.set_epoch(epoch, [o.epochs for o in each])
        self.adam.set_rates([_rate(o, epoch) for o in each])

    def step(self, batch: Any) -> Tensor:
        """One step of all members; their losses, float [P]."""
        self.adam.zero_grad()
        losses = self.population.losses(self.stacked.parameters, self.stacked.buffers, batch)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self.adam.step()
        return losses.detach()

    def _train_epoch(self, epoch: int) -> None:
        self.begin(epoch)
        found = [self.step(batch) for batch in self.population.batches(epoch)]
        self.losses = torch.stack(found).float().cpu()

    def _end_epoch(self, epoch: int, on_epoch: OnEpoch | None, look: Look | None) -> None:
        means: dict[int, float] = {}
        looked: dict[int, nn.Module] = {}
        for row, member in enumerate(self.members):
            result, model = self.results[member], self.population.models[row]
            assert isinstance(result, list)
            try:
                result.append(mean_loss(self.losses[:, row], epoch, self.names[member]))
            except DivergenceError as error:
                self.results[member] = error
                continue
            means[member] = result[-1]
            if look is not None and epoch in look.epochs[member]:
                looked[member] = model
            if member in looked or epoch == self.optimisations[member].epochs:
                self.stacked.write_back(row, model)
        if on_epoch is not None:
            on_epoch(epoch, list(means), list(means.values()))
        leaving = look.see(epoch, looked) if look is not None and looked else ()
        self._keep([
            row
            for row, member in enumerate(self.members)
            if member in means
            and member not in leaving
            and epoch < self.optimisations[member].epochs
        ])  # fmt: skip

    def _keep(self, staying: list[int]) -> None:
        """Go on with some of the rows."""
        if len(staying) < len(self.members):
            self.members = [self.members[row] for row in staying]
            if staying:
                self.population.keep(staying)
                self.adam.keep(staying)


class _Leaves(Exception):  # noqa: N818
    """A member that was looked at goes no further."""


def _one_by_one(
    population: Population,
    optimisations: list[Optimisation],
    names: list[str],
    on_epoch: OnEpoch | None,
    look: Look | None,
) -> list[list[float] | DivergenceError]:
    if len(names) > 1:
        warnings.warn(
            f"{population.alone}: {len(names)} models are trained one by one", stacklevel=3
        )
    results: list[list[float] | DivergenceError] = []
    for m, (model, optimisation) in enumerate(zip(population.models, optimisations, strict=True)):
        losses: list[float] = []

        def told(
            epoch: int, loss: float, m: int = m, losses: list[float] = losses,
            model: nn.Module = model,
        ) -> None:  # fmt: skip
            losses.append(loss)
            if on_epoch is not None:
                on_epoch(epoch, [m], [loss])
            if look is not None and epoch in look.epochs[m] and m in look.see(epoch, {m: model}):
                raise _Leaves

        def batches(epoch: int, m: int = m) -> Iterable[Any]:
            return population.batches_of(m, epoch)

        device = next(model.parameters()).device
        try:
            train(model, batches, optimisation, device=device, on_epoch=told, setting=names[m])
        except DivergenceError as error:
            results.append(error)
            continue
        except _Leaves:
            pass
        results.append(losses)
    return results


def _rate(optimisation: Optimisation, epoch: int) -> float:
    """The learning rate of an epoch, as PyTorch's schedulers have it."""
    if optimisation.lr_schedule == "constant":
        return optimisation.lr
    turn = torch.pi * (epoch - 1) / optimisation.epochs
    return optimisation.lr * 0.5 * (1 + float(torch.cos(torch.tensor(turn, dtype=torch.float64))))
