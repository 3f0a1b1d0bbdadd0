"""Seeds and random generators derived from whole numbers."""

from __future__ import annotations

import inspect
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gcl_hard.core.tracing import hooked, in_backward, may_be_repeated
from gcl_hard.errors import InputError


def seed_for(*key: int) -> int:
    """A seed derived from whole numbers such as seed, epoch and step.

    Args:
        key: each from 0 to 2**32 − 1; different keys of the same length give unrelated seeds.

    Returns:
        A 64-bit number.

    Example:
        >>> seed_for(0, 1) == seed_for(0, 1), seed_for(0, 1) == seed_for(1, 0)
        (True, False)
    """
    import numpy as np  # `import gcl_hard` needs torch alone

    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])


def seeded(*key: int) -> torch.Generator:
    """A new generator on the CPU; arguments as for :func:`seed_for`.

    Example:
        >>> torch.randperm(4, generator=seeded(0, 1)).sort().values
        tensor([0, 1, 2, 3])
    """
    return torch.Generator().manual_seed(seed_for(*key))


class Drawing(TorchFunctionMode):
    """Inside it torch's random functions draw from one generator, in this thread alone.

    For code that has no argument for a generator; torch's global random state is neither read nor
    changed. Draws are float32 where nothing else is said, whatever the default dtype is.

    Args:
        generator: generator on the device that is drawn on.

    Example:
        >>> with Drawing(seeded(0)):
        ...     a = torch.rand(2)
        >>> a.equal(torch.rand(2, generator=seeded(0)))
        True
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call a function of torch, with the generator if it draws."""
        kwargs = dict(kwargs or {})
        if _draws(func) and kwargs.get("generator") is None:
            kwargs["generator"] = self.generator
        if func in (torch.rand, torch.randn):
            kwargs.setdefault("dtype", torch.float32)
        return func(*args, **kwargs)


@cache
def _draws(function: Any) -> bool:
    """Whether a function of torch takes a generator."""
    # Functions in Python, as those of torch.nn.init, hide what they call from the mode.
    if isinstance(function, FunctionType):
        return "generator" in inspect.signature(function).parameters
    return function in RANDOM


RANDOM = frozenset({
    torch.bernoulli, torch.multinomial, torch.normal, torch.rand, torch.randint, torch.randn,
    torch.randperm, Tensor.bernoulli, Tensor.bernoulli_, Tensor.exponential_, Tensor.multinomial,
    Tensor.normal_, Tensor.random_, Tensor.uniform_,
})  # fmt: skip
"""Functions in C++ that draw from a generator."""


T = TypeVar("T")


@dataclass
class _Pass(Generic[T]):
    """A forward pass that may be computed again, and what it drew."""

    hooked: bool
    mark: Tensor
    drawn: T
    used: bool = False


class Replay(Generic[T]):
    """What forward passes drew, for activation checkpointing, which computes them again.

    Passes are found again by their inputs. If several had equal inputs, the last one comes first,
    as in a backward pass. The last :data:`PASSES` that may be computed again are kept.
    """

    def __init__(self) -> None:
        self._kept: deque[_Pass[T]] = deque(maxlen=PASSES)

    def keep(self, inputs: Sequence[Tensor], drawn: Callable[[], T]) -> None:
        """Keep what a forward pass drew, if it may be computed again."""
        if may_be_repeated():
            self._kept.append(_Pass(hooked(), _mark(inputs), drawn()))

    def again(self, inputs: Sequence[Tensor]) -> T | None:
        """In a backward pass, what was drawn for these inputs; None if it is not computed again.

        Raises:
            InputError: if it is, and its draws are not known.
        """
        of, mark = hooked(), _mark(inputs)
        equal = [one for one in self._kept if one.hooked == of and torch.equal(one.mark, mark)]
        if not equal:
            if of:
                raise InputError(
                    f"activation checkpointing computes a forward pass again whose draws are not "
                    f"known: it is none of the last {PASSES}, or its inputs differ"
                )
            return None
        if all(one.used for one in equal):  # another backward pass through the same graph
            for one in equal:
                one.used = False
        found = next(one for one in reversed(equal) if not one.used)
        found.used = True
        return found.drawn


PASSES = 256
"""Forward passes that are kept."""


def _mark(inputs: Sequence[Tensor]) -> Tensor:
    """Numbers that tell inputs from others: the sums of their columns."""
    return torch.cat([one.detach().nan_to_num().sum(0).reshape(-1) for one in inputs])


class Generators:
    """One generator per device, created on first use from one seed; their state can be saved.

    Args:
        seed: ≥ 0.

    Example:
        >>> a, b = Generators(0), Generators(0)
        >>> inputs = torch.ones(2, 3)
        >>> _ = torch.rand(3, generator=a.on(inputs))
        >>> b.restore(a.state())
        >>> bool(torch.rand(1, generator=a.on(inputs)) == torch.rand(1, generator=b.on(inputs)))
        True
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._by_device: dict[str, torch.Generator] = {}
        self._passes = Replay[Tensor]()

    def on(self, *inputs: Tensor) -> torch.Generator:
        """The generator of the inputs' device; as it was, where their pass is computed again.

        Args:
            *inputs: [n, d], what the draws are for.

        Raises:
            InputError: if that pass is not known.
        """
        if in_backward() and (state := self._passes.again(inputs)) is not None:
            return torch.Generator(inputs[0].device).set_state(state)
        generator = self._of(inputs[0].device)
        self._passes.keep(inputs, generator.get_state)
        return generator

    def _of(self, device: torch.device) -> torch.Generator:
        key = str(device)
        if key not in self._by_device:
            self._by_device[key] = torch.Generator(device).manual_seed(self.seed)
        return self._by_device[key]

    def state(self) -> dict[str, Any]:
        """The state of each generator."""
        return {key: generator.get_state() for key, generator in self._by_device.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state` returned."""
        self._by_device.clear()
        for key, value in state.items():
            self._of(torch.device(key)).set_state(value.cpu())


@contextmanager
def seeded_globally(generator: torch.Generator) -> Iterator[None]:
    """Seed the global random states from a generator; they are put back afterwards."""
    import numpy as np

    device = generator.device
    seed = int(torch.randint(2**62, (), generator=generator, device=device))
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - users may draw from it
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            torch.cuda.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002


class Draws:
    """Base of a model that draws from :class:`Generators`, whose states checkpoints keep.

    Example:
        >>> class Noise(Draws):
        ...     def __init__(self, seed):
        ...         self._generators = Generators(seed)
        >>> a, b, inputs = Noise(0), Noise(1), torch.ones(2, 3)
        >>> _ = torch.rand(3, generator=a._generators.on(inputs))
        >>> b.set_run_state(a.run_state())
        >>> b.run_state().keys()
        dict_keys(['cpu'])
    """

    _generators: Generators

    def run_state(self) -> dict[str, Any]:
        """States of the generators, so that a resumed run draws the same."""
        return self._generators.state()

    def set_run_state(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`run_state` returned."""
        self._generators.restore(state)
