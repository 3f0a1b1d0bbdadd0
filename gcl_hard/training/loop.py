"""Training loop for any module that maps a batch to a loss."""

from __future__ import annotations

import itertools
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

import torch
from torch import Tensor, nn

from gcl_hard.core.extras import check_extra
from gcl_hard.errors import (
    DivergenceError,
    InputError,
    OutOfMemory,
    check_at_least,
    check_number,
    check_option,
    unknown,
)
from gcl_hard.functional.negatives import all_finite
from gcl_hard.losses.caching import cached_backward
from gcl_hard.losses.gathering import InStep, summed, world_size
from gcl_hard.training.checkpoint import Checkpoint, State, fits, random_state, restore_random_state
from gcl_hard.training.stopping import EarlyStopping

if TYPE_CHECKING:
    from typing import Unpack

__all__ = [
    "Optimisation",
    "OptimisationOptions",
    "fit",
    "sparse_adam",
    "train",
]

LrSchedule = Literal["constant", "cosine"]
Precision = Literal["32-true", "64-true", "16-mixed", "bf16-mixed"]
# PyTorch has an error class for a GPU's memory, but none for the CPU's or cuBLAS's
OUT_OF_MEMORY = re.compile("can't allocate memory|not enough memory|out of memory|ALLOC_FAILED")


OptimizerMaker = Callable[..., torch.optim.Optimizer]
"""Called as ``maker(parameters, lr=…, weight_decay=…)``."""
ScheduleMaker = Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]


OnEpoch = Callable[[int, float], Any]
"""Called with an epoch and its mean loss; False ends the training, anything else does not."""


@dataclass(frozen=True)
class Optimisation:
    """Settings of a model's optimisation, by Adam unless stated otherwise.

    Args:
        epochs: number of epochs, ≥ 1.
        lr: learning rate, > 0.
        weight_decay: ≥ 0.
        lr_schedule: ``"constant"``, ``"cosine"`` to 0 over the epochs, or a function from the
            optimiser to a schedule of PyTorch, which makes a step after every epoch.
        precision: as Lightning Fabric names it.
        accumulate: batches ≥ 1 whose mean gradient makes one step; the last of an epoch may have
            fewer. A batch's negatives stay its own: accumulation does not add any.
        optimizer: another than Adam, such as ``torch.optim.AdamW``: called as
            ``optimizer(parameters, lr=lr, weight_decay=weight_decay)``.
        parts: parts ≥ 1 in which a batch is encoded, by :func:`gcl_hard.cached_backward`: all
            negatives, with the activations of one part in memory. With BatchNorm each part has its
            own statistics, so that the gradient is not that of the whole batch. A small batch has
            fewer parts.

    Raises:
        InputError: for a value out of range.

    Example:
        >>> Optimisation(epochs=0)
        Traceback (most recent call last):
        ...
        gcl_hard.errors.InputError: epochs must be at least 1, got 0
    """

    epochs: int = 200
    lr: float = 0.01
    weight_decay: float = 0.0
    lr_schedule: LrSchedule | ScheduleMaker = "constant"
    precision: Precision = "32-true"
    accumulate: int = 1
    optimizer: OptimizerMaker | None = None
    parts: int = 1

    def __post_init__(self) -> None:
        check_at_least("epochs", self.epochs, 1)
        check_at_least("accumulate", self.accumulate, 1)
        check_at_least("parts", self.parts, 1)
        check_number("lr", self.lr, above=0)
        check_number("weight-decay", self.weight_decay, least=0)
        if not callable(self.lr_schedule):
            check_option("lr-schedule", self.lr_schedule, get_args(LrSchedule))
        check_option("precision", self.precision, get_args(Precision))
        if not (self.optimizer is None or callable(self.optimizer)):
            raise InputError(f"optimizer is {self.optimizer!r}: give a class, as torch.optim.AdamW")


class OptimisationOptions(TypedDict, total=False):
    """Arguments of :class:`Optimisation`."""

    epochs: int
    lr: float
    weight_decay: float
    lr_schedule: LrSchedule | ScheduleMaker
    precision: Precision
    accumulate: int
    optimizer: OptimizerMaker | None
    parts: int


def train(
    model: nn.Module,
    batches: Callable[[int], Iterable[Any]] | Iterable[Any],
    optimisation: Optimisation,
    *,
    device: str | torch.device = "cpu",
    on_epoch: OnEpoch | None = None,
    stopping: EarlyStopping | None = None,
    setting: str = "",
    checkpoint: Checkpoint | None = None,
    together: bool = False,
) -> list[float]:
    """Train a model in place.

    Args:
        model: ``model(batch)`` is the loss, float []; its ``set_epoch(epoch, epochs)``, if it has
            one, is called as an epoch begins. With several parts ``model.in_parts(batch, n)``
            returns a list of parts and the loss of the joined outputs of
            ``model.encode_part(part)``; see ``InfoGraph``, ``TwoView`` and ``ImageContrast``.
        batches: a function from the epoch (from 1) to its batches on ``device``, or a loader that
            is iterated over once an epoch.
        optimisation: settings of the optimiser.
        device: device to train on.
        on_epoch: called with the epoch and its mean loss as it ends, before it is saved; if it
            returns False, training ends.
        stopping: ends the training some epochs after the best one, and restores the weights of
            that epoch; called before ``on_epoch``, and kept in the checkpoint.
        setting: description of the run, for the message if it diverges.
        checkpoint: file of the state, saved during training and resumed from; on a CPU a resumed
            run ends with the bits of an undisturbed one.
        together: whether the processes that torchrun has started train one model, each on its own
            batches; the process group must have been set up.

    Returns:
        Mean loss per epoch, nats, over all processes, including epochs before a resume.

    Raises:
        InputError: for a checkpoint that is damaged or belongs to another run; on all processes,
            if they have unequal numbers of batches.
        OutOfMemory: if memory runs out; says what to lower.
        DivergenceError: if a loss, or a weight at the end, is not finite; names epoch, batch and
            setting.
        KeyboardInterrupt: after ``checkpoint.stop()``, once the step has been saved
            (unless its loss is not finite).

    Example:
        >>> class Square(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.w = nn.Parameter(torch.ones(1))
        ...     def forward(self, batch):
        ...         return (self.w * batch).square().sum()
        >>> losses = train(Square(), lambda epoch: [torch.ones(1)], Optimisation(5, lr=0.1))
        >>> losses[0] > losses[-1]
        True
    """
    if stopping is not None and stopping.best_epoch:
        raise InputError("this EarlyStopping has been used in a training: give a new one")
    epoch_batches = batches if callable(batches) else lambda epoch: batches
    run = _Run(
        model, optimisation, torch.device(device), setting, checkpoint,
        stopping=stopping, together=together,
    )  # fmt: skip
    model.train()
    over = stopping is not None and stopping.ended
    for epoch in () if over else range(run.epoch, optimisation.epochs + 1):
        run.train_epoch(epoch, epoch_batches)
        if not run.end_epoch(epoch, on_epoch):
            break
    if stopping is not None:
        stopping.restore()
    if not all_finite(model.parameters()):
        raise DivergenceError(
            f"after the last step some weights are not finite{_suffix(setting)}; nothing of this "
            f"run was saved. Lower lr or beta, or raise temperature"
        )
    return run.means


def fit(
    model: nn.Module,
    data: Any,
    *,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    on_epoch: OnEpoch | None = None,
    stopping: EarlyStopping | None = None,
    checkpoint: Checkpoint | None = None,
    **optimisation: Unpack[OptimisationOptions],
) -> list[float]:
    """Train a model in place on a set of graphs, or on a loader.

    Args:
        model: such as ``InfoGraph`` or ``TwoView``.
        data: a :class:`gcl_hard.graphs.GraphSet` or a :class:`gcl_hard.nodes.NodeSet`; or batches
            as for :func:`train`, such as a ``torch_geometric.loader.DataLoader``, which are moved
            to the device.
        batch_size: graphs in a batch of a set, ≥ 2.
        seed: seed of the order of a set.
        device: device to train on; None for the model's, ``auto`` for a GPU if there is one.
        on_epoch: called with the epoch and its mean loss, for example to log them; if it returns
            False, training ends.
        stopping: as for :func:`train`.
        checkpoint: likewise.
        **optimisation: arguments of :class:`Optimisation`: ``epochs``, ``lr``, ``optimizer``, ….

    Returns:
        Mean loss per epoch, nats.

    Raises:
        InputError: for data of another type, settings out of range, or data that the model's
            ``check_data`` refuses.
        DivergenceError: if a loss, or a weight at the end, is not finite.

    Example:
        >>> from gcl_hard.graphs import GIN, InfoGraph, load_graphs
        >>> mutag = load_graphs("MUTAG", download=False)
        >>> losses = fit(InfoGraph(GIN(mutag.n_features)), mutag, epochs=2, lr=0.001)
        >>> len(losses)
        2
    """
    if (check_data := getattr(model, "check_data", None)) is not None:
        check_data(data)
    if wrong := [name for name in optimisation if name not in OptimisationOptions.__annotations__]:
        raise unknown("argument of fit", wrong[0], OptimisationOptions.__annotations__)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device is None:
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
    make_batches = getattr(data, "batches", None)
    if make_batches is None and (isinstance(data, str | list) or hasattr(data, "edge_index")):
        raise InputError(
            f"fit takes a set (GraphSet.from_graphs([…]), NodeSet.from_graph(graph), ViewPairs) "
            f"or a loader, got {type(data).__name__}"
        )
    batches = data if make_batches is None else make_batches(batch_size, seed=seed)

    def moved(epoch: int) -> Iterator[Any]:
        for batch in batches(epoch) if callable(batches) else batches:
            yield _on_device(batch, torch.device(device))

    return train(
        model.to(device), moved, Optimisation(**optimisation), device=device, on_epoch=on_epoch,
        stopping=stopping, checkpoint=checkpoint,
    )  # fmt: skip


def _on_device(batch: Any, device: torch.device) -> Any:
    """A batch on a device: moves tensors and the like, in lists, tuples and dictionaries.

    Example:
        >>> _on_device({"z": [torch.ones(2)], "name": "a"}, torch.device("cpu"))
        {'z': [tensor([1., 1.])], 'name': 'a'}
    """
    from torch.utils._pytree import tree_map

    return tree_map(lambda value: value.to(device) if hasattr(value, "to") else value, batch)


class _Alone:
    """One device in single precision: Fabric's interface without its import."""

    is_global_zero = True

    def __init__(self, device: torch.device) -> None:
        self.device = device
        if device.type == "cuda":
            torch.cuda.set_device(device)

    def setup(self, model: nn.Module, optimizer: Any) -> tuple[nn.Module, Any]:
        return model.to(self.device), optimizer

    def backward(self, loss: Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]


class _Encoding(nn.Module):
    """A module whose call encodes a part of a batch, so that Fabric can wrap it."""

    def __init__(self, model: nn.Module, parts: int) -> None:
        super().__init__()
        kind = type(model)
        if not hasattr(model, "in_parts") or _depth(kind, "forward") < _depth(kind, "in_parts"):
            raise InputError(
                f"parts is {parts}, and {kind.__name__} has no in_parts(batch, n) of its forward"
            )
        self.model: Any = model

    def forward(self, part: Any) -> SimpleNamespace:
        # Fabric would convert bare float64 tensors to float32.
        return SimpleNamespace(rows=self.model.encode_part(part))


def _depth(kind: type, name: str) -> int:
    """Position in the MRO of the class that defines a method."""
    return next(depth for depth, base in enumerate(kind.__mro__) if name in vars(base))


class _Run:
    """State of training: model, optimiser, epoch and batch."""

    def __init__(
        self,
        model: nn.Module,
        optimisation: Optimisation,
        device: torch.device,
        setting: str,
        checkpoint: Checkpoint | None,
        *,
        stopping: EarlyStopping | None,
        together: bool,
    ) -> None:
        self.model, self.optimisation, self.setting = model, optimisation, setting
        self.stopping = stopping
        world = world_size() if together else 1
        if world > 1 and "LOCAL_RANK" not in os.environ:
            raise InputError("processes that train together are started by torchrun")
        local = int(os.environ.get("LOCAL_WORLD_SIZE", world))
        self.world = world
        self.fabric: Any = _Alone(device)
        if world > 1 or optimisation.precision != "32-true":
            self.fabric = _fabric(device, world, local, optimisation.precision)
        self.in_step = InStep() if world > 1 else None
        params = list(model.parameters())
        rates = {"lr": optimisation.lr, "weight_decay": optimisation.weight_decay}
        self.optimizer = (optimisation.optimizer or adam_of)(params, **rates)
        called = model if optimisation.parts == 1 else _Encoding(model, optimisation.parts)
        self.wrapped, self.wrapped_optimizer = self.fabric.setup(called, self.optimizer)
        self.scheduler: torch.optim.lr_scheduler.LRScheduler | None = None
        if callable(optimisation.lr_schedule):
            self.scheduler = optimisation.lr_schedule(self.optimizer)
        elif optimisation.lr_schedule == "cosine":
            self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(
                self.optimizer, optimisation.epochs
            )
        self.epoch, self.step = 1, 0
        self.means: list[float] = []
        self.losses: list[Tensor] = []
        self.trained: list[Tensor] = []  # whether each batch trained anything
        self.contrasts: list[Any] = [m for m in model.modules() if hasattr(m, "counts")]
        self.random_at_epoch: State = {}
        self.random_now: State = {}
        self.checkpoint = checkpoint
        if checkpoint is not None and (state := checkpoint.load()) is not None:
            self._restore(state, checkpoint.path)

    @property
    def _scaler(self) -> Any:
        """Scaler of losses in half precision, or None."""
        return None if isinstance(self.fabric, _Alone) else self.fabric.strategy.precision

    def train_epoch(self, epoch: int, batches: Callable[[int], Iterable[Any]]) -> None:
        set_epoch: Callable[[int, int], None] | None = getattr(self.model, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch, self.optimisation.epochs)
        self.epoch = epoch

        def ran_out() -> str:
            in_parts = "raise parts, " if hasattr(self.model, "in_parts") else ""
            return (
                f"out of memory in epoch {epoch}, batch {len(self.losses) + 1}"
                f"{_suffix(self.setting)}: {in_parts}lower batch-size (or size, that of images), "
                f"or use bf16"
            )

        with memory_for(ran_out):
            for group in _groups(self._open(batches), self.optimisation.accumulate):
                self._in_step(len(group))
                self._train_group(group)
                self._checkpoint()
            self._in_step(0)

    def _in_step(self, number: int) -> None:
        """Check that all processes have this number of batches for the next step."""
        if self.in_step is not None:
            self.in_step.check(number, f"after {self.step} batches of epoch {self.epoch}")

    def _open(self, batches: Callable[[int], Iterable[Any]]) -> Iterable[Any]:
        """The batches of an epoch; after a resume the remaining ones."""
        if self.checkpoint is None:
            return batches(self.epoch)
        if not self.step:
            self.random_at_epoch = random_state()
            return batches(self.epoch)
        restore_random_state(self.random_at_epoch)
        remaining = iter(batches(self.epoch))  # redrawn, so that the rest is the same
        drawn = sum(1 for _ in itertools.islice(remaining, self.step))
        if drawn < self.step:
            raise InputError(
                f"{self.checkpoint.path} is {self.step} batches into epoch {self.epoch}, which has "
                f"only {drawn}; remove it to start over"
            )
        restore_random_state(self.random_now)
        return remaining

    def _train_group(self, group: Sequence[Any]) -> None:
        """One step of the optimiser, on the mean gradient of some batches."""
        self.wrapped_optimizer.zero_grad()
        for batch in group:
            for contrast in self.contrasts:
                contrast.counts = None
            self._keep(self._backward(batch, len(group)))
        self.wrapped_optimizer.step()
        self.step += len(group)

    def _backward(self, batch: Any, n_batches: int) -> Tensor:
        """The loss of a batch, one of ``n_batches`` whose mean gradient makes a step."""

        def backward(loss: Tensor) -> None:
            self.fabric.backward(loss if n_batches == 1 else loss / n_batches)

        if self.optimisation.parts > 1:
            model: Any = self.model
            parts, joined_loss = model.in_parts(batch, self.optimisation.parts)
            return cached_backward(
                lambda part: self.wrapped(part).rows, parts, joined_loss,
                backward=backward, modules=self.wrapped,
            )  # fmt: skip
        loss: Tensor = self.wrapped(batch)
        backward(loss)
        return loss.detach()

    def _keep(self, loss: Tensor) -> None:
        """Keep a batch's loss, and whether it trained anything, without waiting for a GPU."""
        known = [contrast.counts for contrast in self.contrasts if contrast.counts is not None]
        trained = loss.new_ones((), dtype=torch.bool)
        if known:
            trained = torch.stack([counts["contributing"] for counts in known]).sum() > 0
            trained |= loss != 0  # through another part of the loss
        if self.world > 1:  # the mean over processes that trained
            total, n = summed(torch.stack([loss * trained, trained.to(loss)]))
            loss, trained = total / n.clamp(min=1), n > 0
        self.losses.append(loss)
        self.trained.append(trained)

    def end_epoch(self, epoch: int, on_epoch: OnEpoch | None) -> bool:
        """End an epoch; returns whether to continue."""
        self.means.append(mean_loss(self.losses, epoch, self.setting, self.trained))
        if isinstance(self.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            self.scheduler.step(self.means[-1])
        elif self.scheduler is not None:
            self.scheduler.step()
        self.epoch, self.step = epoch + 1, 0
        self.losses, self.trained = [], []
        goes_on = True
        if self.stopping is not None:
            goes_on = self.stopping(epoch)
            self.model.train()  # a score may have left it in evaluation mode
        answer: Any = None if on_epoch is None else on_epoch(epoch, self.means[-1])
        goes_on &= (answer.item() if hasattr(answer, "item") else answer) is not False
        self._checkpoint(last=not goes_on or epoch == self.optimisation.epochs)
        return goes_on

    def _checkpoint(self, *, last: bool = False) -> None:
        """Save if due; after ``stop``, end training unless it is over anyway."""
        if self.checkpoint is None:
            return
        if last or self.checkpoint.due():
            self._save(self.checkpoint)
        # Only the first process saves, so that its state is written before any process ends.
        if self.checkpoint.stopping and not last and self.fabric.is_global_zero:
            self.checkpoint.stopping = False
            raise KeyboardInterrupt

    def _save(self, checkpoint: Checkpoint) -> None:
        if not self.fabric.is_global_zero:
            return
        if not all_finite([*self.losses, *self.model.parameters()]):
            return  # diverging: the last good state is worth more
        now = random_state()
        checkpoint.save({
            "model": self.model.state_dict(),
            "modules": {n: m.run_state() for n, m in _with_run_state(self.model)},
            "stopping": None if self.stopping is None else self.stopping.run_state(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "scaler": self._scaler.state_dict() if self._scaler else {},
            "epoch": self.epoch,
            "step": self.step,
            "means": self.means,
            "losses": self.losses,
            "trained": self.trained,
            "random": now,
            "random_at_epoch": self.random_at_epoch if self.step else now,
        })  # fmt: skip

    def _restore(self, state: State, path: Path) -> None:
        with fits(path, "model"):
            self.model.load_state_dict(state["model"])
            for name, module in _with_run_state(self.model):
                module.set_run_state(state["modules"][name])
        with fits(path, "state"):
            kept = state.get("stopping")
            if (kept is None) != (self.stopping is None):
                raise ValueError("only one of them has early stopping")
            if self.stopping is not None and kept is not None:
                self.stopping.set_run_state(kept)
            self.optimizer.load_state_dict(state["optimizer"])
            if self.scheduler is not None:
                self.scheduler.load_state_dict(state["scheduler"])
            if self._scaler:
                self._scaler.load_state_dict(state["scaler"])
            self.epoch, self.step = int(state["epoch"]), int(state["step"])
            self.means = list(state["means"])
            self.losses = [value.to(self.fabric.device) for value in state["losses"]]
            self.trained = [value.to(self.fabric.device) for value in state["trained"]]
            self.random_now, self.random_at_epoch = state["random"], state["random_at_epoch"]
            restore_random_state(self.random_now)


def _fabric(device: torch.device, world: int, local: int, precision: Precision) -> Any:
    """Fabric for several devices or other precisions; takes seconds to import."""
    check_extra("images", f"training in {precision} on {world} device(s)", "lightning_fabric")
    from lightning_fabric import Fabric

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it announces precisions
    alone: list[int] | int = [device.index or 0] if device.type == "cuda" else 1
    fabric = Fabric(
        accelerator=device.type, devices=local if world > 1 else alone,
        num_nodes=max(world // local, 1), strategy="ddp" if world > 1 else "auto",
        precision=precision,
    )  # fmt: skip
    fabric.launch()
    return fabric


def _with_run_state(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Modules with a state beside weights, such as random generators."""
    return (
        (name, module) for name, module in model.named_modules() if hasattr(module, "run_state")
    )


def adam_of(parameters: list[Any], **rates: float) -> torch.optim.Adam:
    """:func:`adam` with a single group."""
    return adam([{"params": parameters, **rates}])


def sparse_adam(
    parameters: Iterable[Tensor], *, lr: float, weight_decay: float = 0.0
) -> torch.optim.SparseAdam:
    """Adam that updates only the rows of a batch, for embeddings with sparse gradients.

    The cost of a step does not grow with the number of rows. Moments of the other rows are left
    unchanged, which Adam would decay.

    Args:
        parameters: of embeddings with ``sparse=True``.
        lr: learning rate.
        weight_decay: 0; it would change all rows.

    Raises:
        InputError: for a weight decay.

    Example:
        >>> table = nn.Embedding(3, 2, sparse=True)
        >>> optimiser = sparse_adam(table.parameters(), lr=0.1)
        >>> before = table.weight.detach().clone()
        >>> table(torch.tensor([1])).sum().backward()
        >>> optimiser.step()
        >>> (table.weight != before).any(1)
        tensor([False,  True, False])
    """
    if weight_decay:
        raise InputError(f"a weight decay of {weight_decay:g} would change all rows of a table")
    return torch.optim.SparseAdam([*parameters], lr=lr)


def adam(groups: list[dict[str, Any]]) -> torch.optim.Adam:
    """PyTorch's Adam, fused where the device supports it.

    Args:
        groups: ``params``, ``lr`` and ``weight_decay`` of each.
    """
    kind = groups[0]["params"][0].device.type
    return torch.optim.Adam(groups, fused=kind in ("cpu", "cuda"))


def _groups(batches: Iterable[Any], size: int) -> Iterator[Sequence[Any]]:
    """Batches in groups, the last possibly smaller; groups of one are not delayed."""
    if size == 1:
        yield from ([batch] for batch in batches)
        return
    iterator = iter(batches)
    while group := list(itertools.islice(iterator, size)):
        yield group


@contextmanager
def memory_for(make_message: Callable[[], str]) -> Iterator[None]:
    """Turn PyTorch's out-of-memory errors into :class:`OutOfMemory`.

    Args:
        make_message: returns the message: where it happened and what to lower.

    Raises:
        OutOfMemory: if memory runs out inside.

    Example:
        >>> with memory_for(lambda: "lower batch-size"):
        ...     raise MemoryError
        Traceback (most recent call last):
        ...
        gcl_hard.errors.OutOfMemory: lower batch-size
    """
    try:
        yield
    except OutOfMemory:  # named where it happened
        raise
    except (MemoryError, RuntimeError) as error:
        known = isinstance(error, (MemoryError, torch.OutOfMemoryError))
        if not known and not OUT_OF_MEMORY.search(str(error)):
            raise
        raise OutOfMemory(make_message()) from error


def mean_loss(
    losses: Sequence[Tensor] | Tensor,
    epoch: int,
    setting: str,
    trained: Sequence[Tensor] | Tensor | None = None,
) -> float:
    """Mean loss of an epoch, read once per epoch, so that no step waits for a GPU.

    Args:
        losses: losses of its batches.
        epoch: from 1; in the first a warning counts the batches that trained nothing, unless that
            is only the last one, which may be smaller.
        setting: description of the run, for messages.
        trained: which batches have an anchor with a positive and a negative; None if all do. The
            zeros of the others are not in the mean.

    Returns:
        The mean, nats.

    Raises:
        DivergenceError: if one is not finite; names epoch, batch and setting.
        InputError: without batches, or if no batch trained anything.
    """
    if not len(losses):
        raise InputError(f"epoch {epoch} has no batch to train on{_suffix(setting)}")
    values = (losses if isinstance(losses, Tensor) else torch.stack(list(losses))).float()
    if trained is not None and not isinstance(trained, Tensor):
        trained = torch.stack([*trained])
    those = torch.ones_like(values) if trained is None else trained.to(values)
    values, those = torch.stack([values, those]).cpu()  # waits once for a device
    those = those > 0
    bad = (~values.isfinite()).nonzero()
    if len(bad):
        batch = int(bad[0])
        raise DivergenceError(
            f"the loss is {values[batch].item()} in epoch {epoch}, batch {batch + 1} of "
            f"{len(losses)}{_suffix(setting)}; nothing of this run was saved. "
            + (
                "It is before the first step: look for numbers that are not finite in the data"
                if (epoch, batch) == (1, 0)
                else "Lower lr or beta, or raise temperature"
            )
        )
    if trained is None:
        return float(values.mean())
    n_idle = len(those) - int(those.sum())
    if n_idle:
        note = (
            f"{n_idle} of {len(those)} batches of epoch {epoch} have no anchor with a positive and "
            f"a negative, and train nothing"
        )
        remedy = "batches need two items, and several classes unless the method is as ucl or hucl"
        if n_idle == len(those):
            raise InputError(f"{note}{_suffix(setting)}: {remedy}")
        if epoch == 1 and (n_idle > 1 or those[-1]):
            warnings.warn(f"{note} (their losses of 0 are not in the mean): {remedy}", stacklevel=2)
    if epoch == 1 and not n_idle and not values.any():
        warnings.warn("the loss of every batch of the first epoch is 0", stacklevel=2)
    return float(values[those].mean())


def _suffix(setting: str) -> str:
    return f" ({setting})" if setting else ""
