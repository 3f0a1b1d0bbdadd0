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
    """Context in which torch's random functions draw from one generator, in this thread alone.

    For code that takes no generator; torch's global random state is neither read nor changed.
    Draws are float32 unless a dtype is given, whatever the default dtype.

    Args:
        generator: generator on the device of the draws.

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
    # Functions in Python, such as those of torch.nn.init, hide their calls from the mode.
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
    """A forward pass that may be recomputed, and its draws."""

    hooked: bool
    mark: Tensor
    drawn: T
    used: bool = False


class Replay(Generic[T]):
    """Draws of forward passes, for activation checkpointing, which recomputes the passes.

    Passes are identified by their inputs. If several had equal inputs, the last comes first, as in
    a backward pass. The last :data:`PASSES` that may be recomputed are kept.
    """

    def __init__(self) -> None:
        self._kept: deque[_Pass[T]] = deque(maxlen=PASSES)

    def keep(self, inputs: Sequence[Tensor], drawn: Callable[[], T]) -> None:
        """Keep the draws of a forward pass, if it may be recomputed."""
        if may_be_repeated():
            self._kept.append(_Pass(hooked(), _mark(inputs), drawn()))

    def again(self, inputs: Sequence[Tensor]) -> T | None:
        """In a backward pass, the draws for these inputs; None if it recomputes nothing.

        Raises:
            InputError: if it recomputes a pass whose draws are unknown.
        """
        is_hooked, mark = hooked(), _mark(inputs)
        equal = [p for p in self._kept if p.hooked == is_hooked and torch.equal(p.mark, mark)]
        if not equal:
            if is_hooked:
                raise InputError(
                    f"activation checkpointing recomputes a forward pass whose draws are unknown: "
                    f"it is none of the last {PASSES}, or its inputs differ"
                )
            return None
        if all(p.used for p in equal):  # another backward pass through the same graph
            for p in equal:
                p.used = False
        match = next(p for p in reversed(equal) if not p.used)
        match.used = True
        return match.drawn


PASSES = 256
"""Forward passes that are kept."""


def _mark(inputs: Sequence[Tensor]) -> Tensor:
    """Fingerprint of inputs: the sums of their columns."""
    return torch.cat([x.detach().nan_to_num().sum(0).reshape(-1) for x in inputs])


class Generators:
    """One generator per device, seeded alike on first use; their states can be saved.

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
        """The generator of the inputs' device; in its earlier state when their pass is recomputed.

        Args:
            *inputs: [n, d], inputs of the pass that draws.

        Raises:
            InputError: if that pass is unknown.
        """
        if in_backward() and (state := self._passes.again(inputs)) is not None:
            return torch.Generator(inputs[0].device).set_state(state)
        generator = self._on_device(inputs[0].device)
        self._passes.keep(inputs, generator.get_state)
        return generator

    def _on_device(self, device: torch.device) -> torch.Generator:
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
            self._on_device(torch.device(key)).set_state(value.cpu())


@contextmanager
def seeded_globally(generator: torch.Generator) -> Iterator[None]:
    """Context that seeds the global random states from a generator, and restores them."""
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
