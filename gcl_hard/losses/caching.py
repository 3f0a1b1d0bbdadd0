"""Gradient caching: a batch that is encoded in parts, with the gradient of the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gcl_hard.errors import InputError, check_at_least
from gcl_hard.functional.negatives import readable
from gcl_hard.losses.gathering import InStep
from gcl_hard.losses.loss import ContrastiveLoss

Part = TypeVar("Part")
Row = tuple[Tensor, ...]
"""The embeddings of a part."""
TOLERANCE = 0.01
"""Share of the largest number by which the second pass may differ from the first."""


def cached_backward(
    encode: Callable[[Part], Tensor | tuple[Tensor, ...]],
    parts: Iterable[Part],
    loss: Callable[..., Tensor],
    *,
    backward: Callable[[Tensor], Any] | None = None,
    modules: nn.Module | Iterable[nn.Module] | None = None,
    generators: Iterable[torch.Generator] = (),
) -> Tensor:
    r"""Backward pass of a loss over a batch that is held in memory one part at a time.

    .. math:: \frac{\partial \ell}{\partial \theta} = \sum_p \left\langle
              \frac{\partial \ell}{\partial z_p}, \frac{\partial z_p}{\partial \theta}
              \right\rangle

    All parts are encoded without a gradient and joined; the loss gives its gradient for the joined
    embeddings; then each part is encoded once more, and its share of that gradient goes on to the
    weights. Activations are those of one part, negatives those of the whole batch, and the encoder
    computes a forward pass more. Randomness in ``encode``, such as dropout, is drawn once: the
    second pass begins with the same states of torch's generators (CPU and CUDA) and of those
    passed here. The content of ``parts``, such as views, is drawn by the caller.

    The gradient is that of the whole batch, up to rounding, if ``encode`` treats items one by one.
    **BatchNorm does not**: its statistics are those of a part, as if the parts were encoded one
    after the other with their graphs kept, so the gradient differs from the whole batch's.
    Running statistics, and all other buffers, move once for each part.

    Args:
        encode: called with a part, twice; returns a tensor [rows, …] or a tuple of them, such as
            two views, or nodes and graphs, which need not have as many rows.
        parts: ≥ 1 parts, of any sizes.
        loss: called as ``loss(*joined)`` with what ``encode`` returns, joined along dimension 0
            in the order of the parts; returns a float []. Half precision is joined as float32.
            Labels, a batch vector (shifted from part to part by the graphs before), queue and
            gathering are left to it. Its parameters get their gradients, too.
        backward: replaces ``Tensor.backward``, called once for each part:
            Fabric's ``backward``, or ``lambda x: scaler.scale(x).backward()``.
        modules: modules that ``encode`` calls; needed unless it is a module or a method of one.
            Their buffers are restored, and their generators where they have a public ``run_state``,
            as :class:`gcl_hard.graphs.TwoView` has. Under DistributedDataParallel it is the
            wrapped module, and gradients are exchanged in the last part alone.
        generators: other generators that ``encode`` draws from.

    Returns:
        The loss, float [], detached; gradients are added to ``.grad``.

    Raises:
        InputError: for outputs other than tensors with rows, and, where this can be seen without
            waiting for a device, for an ``encode`` whose second pass differs; on all processes, if
            they have unequal numbers of parts.

    Source:
        Gao, Zhang, Han, Callan (2021), *Scaling Deep Contrastive Learning Batch Size under Memory
        Limited Setup*, section 3.2.

    Example:
        >>> from gcl_hard import contrastive_loss
        >>> encoder, loss, x = nn.Linear(3, 2), contrastive_loss("ucl"), torch.randn(6, 3)
        >>> value = cached_backward(encoder, x.split(2), lambda z: loss(z, z.roll(1, 0)))
        >>> whole = encoder(x)
        >>> (grad,) = torch.autograd.grad(loss(whole, whole.roll(1, 0)), encoder.weight)
        >>> torch.allclose(encoder.weight.grad, grad, atol=1e-6)
        True
    """
    batch = _Batch(encode, parts, modules, generators)
    value = batch.first_pass(loss)
    batch.second_pass(backward or Tensor.backward)
    return value


def cached_loss(
    encode: Callable[[Part], Tensor | tuple[Tensor, ...]],
    parts: Iterable[Part],
    loss: Callable[..., Tensor],
    *,
    modules: nn.Module | Iterable[nn.Module] | None = None,
    generators: Iterable[torch.Generator] = (),
) -> Tensor:
    """Loss over a batch in parts, for loops that call its ``backward`` themselves, once.

    What :func:`cached_backward` does, with the second pass deferred to ``backward``, which may
    scale the loss before: that reaches all gradients. It is under the autocast of the first pass.

    Args:
        encode: as for :func:`cached_backward`.
        parts: likewise.
        loss: likewise.
        modules: likewise.
        generators: likewise.

    Returns:
        The loss, float []; without gradients enabled, of one pass.

    Raises:
        InputError: as :func:`cached_backward`; what the second pass finds, in ``backward``.

    Source:
        As of :func:`cached_backward`.

    Example:
        >>> from gcl_hard import contrastive_loss
        >>> encoder, loss, x = nn.Linear(3, 2), contrastive_loss("ucl"), torch.randn(6, 3)
        >>> cached_loss(encoder, x.split(2), lambda z: loss(z, z.roll(1, 0))).backward()
        >>> encoder.weight.grad.shape
        torch.Size([2, 3])
    """
    batch = _Batch(encode, parts, modules, generators)
    if not torch.is_grad_enabled():
        return loss(*batch.joined())
    value = batch.first_pass(loss).requires_grad_()
    device = value.device.type
    autocast = torch.autocast(
        device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)
    )

    def second_pass(grad: Tensor) -> None:
        with autocast:
            batch.second_pass(lambda term: torch.autograd.backward(term * grad))

    value.register_hook(second_pass)  # type: ignore[no-untyped-call]
    return value


class _Batch:
    """A batch in parts, which are encoded twice."""

    def __init__(
        self,
        encode: Callable[[Any], Any],
        parts: Iterable[Any],
        modules: nn.Module | Iterable[nn.Module] | None,
        generators: Iterable[torch.Generator],
    ) -> None:
        self._encode, self._parts, self._called = encode, [*parts], _modules(encode, modules)
        check_at_least("parts", len(self._parts), 1)
        self._parallel = [
            m
            for module in self._called
            for m in module.modules()
            if isinstance(m, DistributedDataParallel)
        ]
        if self._parallel:
            in_step = _in_step(torch.distributed.group.WORLD)
            in_step.check(len(self._parts), "in this batch", "parts")
        self._draws = _Draws(self._called, generators)
        self._before: list[Any] = []
        self._encoded: list[Row] = []

    def joined(self) -> list[Tensor]:
        """Embeddings of all parts, leaves of the loss's graph."""
        with torch.no_grad(), _leaving(self._called, self._parallel):
            for part in self._parts:
                self._before.append(self._draws.state())
                # Clones hold no more than themselves: a view would hold a part's activations.
                rows = _rows(self._encode(part), self._encoded)
                self._encoded.append(tuple(z.clone() for z in rows))
        torch.clear_autocast_cache()  # of weights that PyTorch 2.8 has cast without a gradient
        return [_joined(column) for column in zip(*self._encoded, strict=True)]

    def first_pass(self, loss: Callable[..., Tensor]) -> Tensor:
        """The loss, detached; keeps its gradient for the embeddings."""
        joined = self.joined()
        with torch.enable_grad():
            value = loss(*joined)
        grads, self._learned = _gradients(value, joined)
        self._split_grads = [
            [None] * len(self._parts) if g is None else torch.split(g, [len(z) for z in column])
            for g, column in zip(grads, zip(*self._encoded, strict=True), strict=True)
        ]
        return value.detach()

    def second_pass(self, backward: Callable[[Tensor], Any]) -> None:
        """Encode each part once more, and pass its share of the gradient on to the weights."""
        after = self._draws.state()
        for number, part in enumerate(self._parts):
            last = number == len(self._parts) - 1
            self._draws.restore(self._before[number])
            with ExitStack() as stack, torch.enable_grad():
                for module in self._parallel if not last else ():
                    stack.enter_context(module.no_sync())
                again = _rows(self._encode(part), self._encoded)
                _check_again(again, self._encoded[number])
                shares = [*zip(again, (g[number] for g in self._split_grads), strict=True)]
                shares += self._learned if last else []
                terms = [
                    (_at_least_single(z) * g).sum()
                    for z, g in shares
                    if g is not None and z.requires_grad
                ]
                if not terms:
                    raise InputError(
                        f"part {number + 1} of {len(self._parts)} has no gradient: encode's output "
                        f"is detached, or the loss does not depend on it"
                    )
                backward(torch.stack(terms).sum() if len(terms) > 1 else terms[0])
        self._draws.restore(after)


def _modules(encode: Any, modules: nn.Module | Iterable[nn.Module] | None) -> list[nn.Module]:
    if modules is None:
        modules = encode if isinstance(encode, nn.Module) else getattr(encode, "__self__", None)
        if not isinstance(modules, nn.Module):
            raise InputError("encode is no module or method of one: name modules=[…] that it calls")
    return [modules] if isinstance(modules, nn.Module) else [*modules]


@lru_cache(maxsize=1)
def _in_step(world: Any) -> InStep:
    """The check of a process group, cached: all processes must create it together."""
    return InStep()


class _Draws:
    """The generators that an encoder may draw from."""

    def __init__(self, modules: Iterable[nn.Module], generators: Iterable[torch.Generator]) -> None:
        self.modules: list[Any] = [m for module in modules for m in _encoding(module)]
        self.modules = [module for module in self.modules if hasattr(module, "run_state")]
        self.generators = [*generators]

    def state(self) -> tuple[Any, ...]:
        on_gpu = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        return (
            torch.get_rng_state(),
            torch.cuda.get_rng_state_all() if on_gpu else [],
            [module.run_state() for module in self.modules],
            [generator.get_state() for generator in self.generators],
        )

    def restore(self, state: tuple[Any, ...]) -> None:
        on_cpu, on_gpu, run_states, generator_states = state
        torch.set_rng_state(on_cpu)
        for device, rng_state in enumerate(on_gpu):
            torch.cuda.set_rng_state(rng_state, device)
        for module, run_state in zip(self.modules, run_states, strict=True):
            module.set_run_state(run_state)
        for generator, rng_state in zip(self.generators, generator_states, strict=True):
            generator.set_state(rng_state)


def _encoding(module: nn.Module) -> Iterator[nn.Module]:
    """A module and its submodules, except losses, which encode nothing."""
    if not isinstance(module, ContrastiveLoss):
        yield module
        for child in module.children():
            yield from _encoding(child)


@contextmanager
def _leaving(
    modules: Iterable[nn.Module], parallel: Iterable[DistributedDataParallel]
) -> Iterator[None]:
    """Context that restores buffers at its end, and in which processes exchange none."""
    kept = [
        (m, name, buffer, buffer.clone())
        for module in modules
        for m in module.modules()
        for name, buffer in m._buffers.items()
        if buffer is not None
    ]
    exchange = [(wrapper, wrapper.require_forward_param_sync) for wrapper in parallel]
    for wrapper, _ in exchange:
        wrapper.require_forward_param_sync = False
    try:
        yield
    finally:
        for wrapper, needed in exchange:
            wrapper.require_forward_param_sync = needed
        with torch.no_grad():
            for module, name, buffer, value in kept:
                module._buffers[name] = buffer.copy_(value)


def _rows(encoded: Any, others: Sequence[Row]) -> Row:
    """The embeddings of a part, checked, as a tuple."""
    rows = encoded if isinstance(encoded, tuple) else (encoded,)
    shapes = [[getattr(z, "shape", None) for z in row] for row in (rows, *others[:1])]
    whole = [[shape and shape[1:] for shape in row] for row in shapes]
    if not all(map(all, shapes)) or whole[0] != whole[-1]:
        raise InputError(
            f"encode must return a tensor [rows, …] or a tuple of them, of the same shapes for "
            f"each part, got shapes {shapes[0]}"
        )
    return rows


def _at_least_single(z: Tensor) -> Tensor:
    return z.float() if z.dtype in (torch.float16, torch.bfloat16) else z


def _joined(column: Sequence[Tensor]) -> Tensor:
    """Rows of all parts, a leaf of the loss's graph."""
    # In half precision the gradients of many items would vanish before a scaler sees them.
    z = _at_least_single(torch.cat([*column]))
    return z.requires_grad_(z.is_floating_point())


def _gradients(
    value: Any, joined: Sequence[Tensor]
) -> tuple[list[Tensor | None], list[tuple[Tensor, Tensor | None]]]:
    """Gradients of a loss for the joined embeddings, and for each parameter that it reads."""
    leaves = [z for z in joined if z.requires_grad]
    learned = [leaf for leaf in _leaves(value) if all(leaf is not z for z in leaves)]
    gradients = iter(torch.autograd.grad(value, [*leaves, *learned], allow_unused=True))
    grads = [next(gradients) if z.requires_grad else None for z in joined]
    return grads, [*zip(learned, gradients, strict=True)]


def _leaves(value: Tensor) -> list[Tensor]:
    """The leaves of a graph."""
    leaves: list[Tensor] = []
    seen, todo = set(), [value.grad_fn]
    while todo:
        node: Any = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if (leaf := getattr(node, "variable", None)) is not None:
            leaves.append(leaf)
        todo += [parent for parent, _ in node.next_functions]
    return leaves


def _check_again(again: Row, first: Row) -> None:
    """InputError if the second encoding of a part differs, where that can be seen."""
    for z, expected in zip(again, first, strict=True):
        if not (readable(z) and z.is_floating_point() and z.numel()):
            continue
        new, old = z.detach().double(), expected.double()
        if z.shape != expected.shape or (new - old).abs().max() > TOLERANCE * old.abs().max():
            raise InputError(
                "encode returns other embeddings the second time: draw what is random beforehand, "
                "from torch's generators, or from those passed (generators=, modules=)"
            )
