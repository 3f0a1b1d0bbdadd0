"""Gradient caching against batches that are encoded in one go, and against parts kept in memory."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gcl_hard import InputError, Queue, cached_backward, contrastive_loss
from gcl_hard.losses.caching import cached_loss
from gcl_hard.losses.methods import METHODS

SIZES = [5, 1, 4, 7]
N = sum(SIZES)
LABELS = torch.arange(N) % 4
GRAPH_SIZES = torch.arange(N) % 3 + 1


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def encoder(*between: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), *between, nn.Tanh(), nn.Linear(8, 5)).double()


def gradients(module: nn.Module) -> list[Tensor | None]:
    return [parameter.grad for parameter in module.parameters()]


def same(actual: nn.Module, expected: nn.Module, **tolerance: float) -> None:
    """The same gradients and buffers."""
    tolerance = tolerance or {"rtol": 1e-10, "atol": 1e-13}
    pairs = zip(actual.named_parameters(), expected.parameters(), strict=True)
    for (name, ours), theirs in pairs:
        assert theirs.grad is not None, name
        assert theirs.grad.abs().max() > 0, name
        torch.testing.assert_close(ours.grad, theirs.grad, **tolerance)
    for ours, theirs in zip(actual.buffers(), expected.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)


def kept(encode: Any, parts: Any, loss: Any) -> Tensor:
    """The same parts, encoded once each, with all their graphs in memory."""
    encoded = [encode(part) for part in parts]
    encoded = [output if isinstance(output, tuple) else (output,) for output in encoded]
    value: Tensor = loss(*(torch.cat(column) for column in zip(*encoded, strict=True)))
    value.backward()
    return value.detach()


def views_of(model: nn.Module) -> Any:
    def encode(views: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(model(x) for x in views)

    return encode


def views(n_views: int = 2) -> tuple[list[Tensor], list[tuple[Tensor, ...]]]:
    whole = [numbers(N, 6, seed=v) for v in range(n_views)]
    return whole, [*zip(*(x.split(SIZES) for x in whole), strict=True)]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_the_gradient_of_the_whole_batch(name: str) -> None:
    ours, theirs = encoder(), encoder()
    losses = [contrastive_loss(name, detach_weights=False) for _ in range(2)]
    for loss in losses:
        loss.set_epoch(9, 10)
    whole, parts = views(4 if METHODS[name].positives == "hard" else 2)
    expected = losses[0]([theirs(x) for x in whole], labels=LABELS)
    expected.backward()
    value = cached_backward(
        views_of(ours), parts, lambda *z: losses[1](z, labels=LABELS), modules=ours
    )
    torch.testing.assert_close(value, expected.detach())
    assert not value.requires_grad
    same(ours, theirs)


class NodesAndGraphs(nn.Module):
    """Embeddings of nodes, and their sums over graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.net = encoder()

    def forward(self, part: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        x, batch = part
        nodes = self.net(x)
        return nodes, nodes.new_zeros(int(batch.max()) + 1, 5).index_add(0, batch, nodes)


@pytest.mark.parametrize("objective", ["jsd", "infonce"])
@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if not row.infonce_only])
def test_nodes_and_graphs_have_the_gradient_of_the_whole_batch(name: str, objective: str) -> None:
    batch = torch.arange(N).repeat_interleave(GRAPH_SIZES)
    x = numbers(len(batch), 6)
    ends = torch.tensor(SIZES).cumsum(0)
    parts = []
    for first, last in zip([0, *ends], ends, strict=False):
        inside = (batch >= first) & (batch < last)
        parts.append((x[inside], batch[inside] - first))
    ours, theirs = NodesAndGraphs(), NodesAndGraphs()
    losses = [contrastive_loss(name, objective=objective) for _ in range(2)]
    for loss in losses:
        loss.set_epoch(9, 10)
    expected = losses[0].local_global(*theirs((x, batch)), batch, LABELS)
    expected.backward()
    value = cached_backward(
        ours, parts, lambda nodes, graphs: losses[1].local_global(nodes, graphs, batch, LABELS)
    )
    torch.testing.assert_close(value, expected.detach())
    same(ours, theirs)


def test_a_queue_and_a_learned_temperature_take_part() -> None:
    whole, parts = views()
    models, queues, temperatures, values = [], [], [], []
    for encode_all in (False, True):
        model, queue = encoder(), Queue(40, 5, unknown=-1)
        queue.add(numbers(9, 5, seed=7), LABELS[:9])
        learned = nn.Parameter(torch.tensor(0.3, dtype=torch.float64))
        loss = contrastive_loss("hscl", temperature=learned, unknown=-1)

        def joined_loss(z1: Tensor, z2: Tensor, loss: Any = loss, queue: Queue = queue) -> Tensor:
            value: Tensor = loss(z1, z2, LABELS, **queue.candidates())
            queue.add(z1, LABELS)
            return value

        if encode_all:
            value = joined_loss(*map(model, whole))
            value.backward()
        else:
            value = cached_backward(views_of(model), parts, joined_loss, modules=[model])
        models.append(model)
        queues.append(queue)
        temperatures.append(learned)
        values.append(value.detach())
    same(*models)
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*(temperature.grad for temperature in temperatures))
    torch.testing.assert_close(*(queue.candidates() for queue in queues))


class Noisy(nn.Module):
    """Dropout by torch's generator, and noise by generators of one's own."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.net = encoder(nn.Dropout(0.4))
        self.inner, self.outer = torch.Generator().manual_seed(3), generator

    def run_state(self) -> dict[str, Tensor]:
        return {"own": self.inner.get_state()}

    def set_run_state(self, state: dict[str, Tensor]) -> None:
        self.inner.set_state(state["own"])

    def forward(self, x: Tensor) -> Tensor:
        for generator in (self.inner, self.outer):
            x = x + torch.randn(x.shape, generator=generator, dtype=x.dtype)
        output: Tensor = self.net(x)
        return output


def test_what_is_random_is_drawn_once() -> None:
    _, parts = views()
    outputs = []
    for backward in (kept, cached_backward):
        generator = torch.Generator().manual_seed(5)
        model, loss = Noisy(generator), contrastive_loss("hucl")

        def and_draws(*z: Tensor, loss: Any = loss) -> Tensor:
            torch.rand(3)  # as a loss may
            value: Tensor = loss(z)
            return value

        torch.manual_seed(1)
        more: dict[str, Any] = {"modules": model, "generators": [generator]}
        value = backward(views_of(model), parts, and_draws, **more if backward is not kept else {})
        after = torch.get_rng_state(), model.inner.get_state(), generator.get_state()
        outputs.append((value, model, after))
    (expected, theirs, states), (value, ours, again) = outputs
    torch.testing.assert_close(value, expected)
    same(ours, theirs)
    assert all(map(torch.equal, states, again))


def test_a_deferred_backward_pass_passes_its_scale_on_and_draws_as_before() -> None:
    _, parts = views()
    ours, theirs, loss = encoder(nn.Dropout(0.4)), encoder(nn.Dropout(0.4)), contrastive_loss("ucl")
    torch.manual_seed(1)
    cached_backward(
        views_of(theirs),
        parts,
        lambda *z: loss(z),
        modules=theirs,
        backward=lambda x: (x / 4).backward(),
    )
    torch.manual_seed(1)
    value = cached_loss(views_of(ours), parts, lambda *z: loss(z), modules=ours)
    assert all(grad is None for grad in gradients(ours))
    state = torch.rand(3), torch.get_rng_state()
    (value / 4).backward()
    assert torch.equal(torch.get_rng_state(), state[1])
    same(ours, theirs)


def test_a_generator_that_is_not_named_is_found() -> None:
    _, parts = views()
    generator = torch.Generator().manual_seed(5)
    model = Noisy(generator)
    with pytest.raises(InputError, match="generators="):
        cached_backward(views_of(model), parts, contrastive_loss("ucl"), modules=model)


def test_statistics_of_batches_are_those_of_the_parts_and_move_once() -> None:
    whole, parts = views()
    parts = [part for part in parts if len(part[0]) > 1]  # which BatchNorm needs
    whole = [torch.cat(x) for x in zip(*parts, strict=True)]
    models = []
    for _ in range(3):
        models.append(encoder(nn.BatchNorm1d(8), nn.BatchNorm1d(8, momentum=None)))
        nn.utils.parametrizations.spectral_norm(models[-1][-1])  # its buffers move, too
    ours, theirs, joint = models
    loss = contrastive_loss("hucl")
    expected = kept(views_of(theirs), parts, loss)
    value = cached_backward(views_of(ours), parts, loss, modules=ours)
    torch.testing.assert_close(value, expected)
    same(ours, theirs)
    assert ours[1].num_batches_tracked == 2 * len(parts)
    loss(*map(joint, whole)).backward()
    first, other = ours[0].weight.grad, joint[0].weight.grad
    assert (first - other).norm() > 0.01 * other.norm()


def test_mixed_precision_around_both_passes() -> None:
    _, parts = views()
    parts = [tuple(x.float() for x in part) for part in parts]
    ours, theirs = encoder().float(), encoder().float()
    loss = contrastive_loss("hucl")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = kept(views_of(theirs), parts, loss)
        value = cached_backward(views_of(ours), parts, loss, modules=ours)
    torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-6)
    same(ours, theirs, rtol=0.05, atol=1e-3)  # the order of sums in bfloat16


def test_small_gradients_of_half_precision_survive() -> None:
    """The loss's gradient is far below what float16 holds, as of a very large batch."""
    (x, _), _ = views()
    x = x.half()
    ours, theirs = encoder().half(), encoder().half()
    scale = 2.0**16

    def loss(z: Tensor) -> Tensor:
        return z.float().square().mean() * 1e-8

    (loss(theirs(x)) * scale).backward()
    cached_backward(ours, x.split(SIZES), loss, backward=lambda v: (v * scale).backward())
    same(ours, theirs, rtol=0.05, atol=1e-6)


def test_a_scaler_scales_once() -> None:
    _, parts = views()
    ours, theirs = encoder(), encoder()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    learned = nn.Parameter(torch.tensor(0.3, dtype=torch.float64))
    loss = contrastive_loss("hucl", temperature=learned)
    kept(views_of(theirs), parts, loss)
    (alone,) = (learned.grad,)
    learned.grad = None
    cached_backward(
        views_of(ours), parts, loss, modules=ours,
        backward=lambda x: scaler.scale(x).backward(),
    )  # fmt: skip
    torch.testing.assert_close(learned.grad, 1024 * alone)
    for parameter in theirs.parameters():
        parameter.grad *= 1024
    same(ours, theirs)


def test_encode_may_return_what_has_no_gradient() -> None:
    """Whole numbers, and embeddings of a second encoder."""
    whole, parts = views()
    ours, theirs, second = encoder(), encoder(), deepcopy(encoder()).requires_grad_(False)
    loss = contrastive_loss("hscl")

    def encode(part: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        return ours(part[0]), second(part[1]), part[2]

    triples = [(*part, y) for part, y in zip(parts, LABELS.split(SIZES), strict=True)]
    value = cached_backward(encode, triples, loss, modules=[ours, second])
    expected = loss(theirs(whole[0]), second(whole[1]), LABELS)
    expected.backward()
    torch.testing.assert_close(value, expected.detach())
    same(ours, theirs)
    assert all(gradient is None for gradient in gradients(second))


def test_what_cannot_be_is_refused() -> None:
    model, loss, (x, _) = encoder(), contrastive_loss("ucl"), views()[0]
    parts = x.split(SIZES)
    pair = lambda z: loss(z, z)  # noqa: E731
    encoders: list[tuple[str, Any]] = [
        ("shapes", lambda p: [model(p)]),
        ("shapes", lambda p: model(p).sum()),
        ("shapes", lambda p: model(p)[:, : len(p)]),
        ("no gradient", lambda p: model(p).detach()),
    ]
    for reason, encode in encoders:
        with pytest.raises(InputError, match=reason):
            cached_backward(encode, parts, pair, modules=model)
    with pytest.raises(InputError, match="modules"):
        cached_backward(lambda p: model(p) + 1, parts, pair)
    assert all(gradient is None for gradient in gradients(model))


class Held:
    """What graphs hold for backward passes, and the most numbers that they held at a time."""

    now = most = 0

    class Pack:
        def __init__(self, held: Held, x: Tensor) -> None:
            self.held, self.x = held, x
            held.now += x.numel()
            held.most = max(held.most, held.now)

        def __del__(self) -> None:
            self.held.now -= self.x.numel()

    def __enter__(self) -> Held:
        self.hooks = torch.autograd.graph.saved_tensors_hooks(
            lambda x: Held.Pack(self, x), lambda pack: pack.x
        )
        self.hooks.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.hooks.__exit__(*error)


def test_graphs_hold_the_activations_of_a_part() -> None:
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(12)]
    model, loss = nn.Sequential(nn.Linear(6, 64), *layers), contrastive_loss("ucl")
    (x, other), number = torch.randn(2, 256, 6), 16
    pairs = [*zip(x.chunk(number), other.chunk(number), strict=True)]
    with Held() as whole:
        loss(model(x), model(other)).backward()
    with Held() as parts:
        cached_backward(views_of(model), pairs, loss, modules=model)
    # What is left is that of the loss, of the embeddings, and the weights of the layers.
    assert parts.most < whole.most / 4
