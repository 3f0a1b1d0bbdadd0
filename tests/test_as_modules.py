"""Losses as modules like any other: state dicts, activation checkpointing, meta, vmap, compile."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gcl_hard import (
    ContrastiveLoss,
    InputError,
    Linear,
    NegativeSampler,
    Queue,
    Schedule,
    contrastive_loss,
)
from gcl_hard.graphs import GIN, TwoView, load_graphs
from gcl_hard.images import ImageContrast, ViewPair, ViewRecipe, Views, fast_net
from gcl_hard.losses.methods import METHODS
from tests.said import says


def views(n: int = 12, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, 6, generator=generator, dtype=torch.float64) for _ in range(2)]


LABELS = torch.arange(12) % 3


@pytest.mark.parametrize("method", METHODS)
def test_a_loss_adds_nothing_to_a_state_dict(method: str) -> None:
    loss = contrastive_loss(method)
    z1, z2 = views()
    expected = loss(z1, z2, LABELS)
    assert loss.state_dict() == {}
    twin = contrastive_loss(method)
    twin.load_state_dict({}, strict=True)
    value = torch.func.functional_call(twin, {}, (z1, z2, LABELS))
    assert value.item() == expected.item()


def test_what_is_learned_is_all_that_a_loss_has_in_a_state_dict() -> None:
    by_temperature = contrastive_loss("hscl", temperature=torch.nn.Parameter(torch.tensor(0.5)))
    assert by_temperature.state_dict().keys() == {"temperature"}
    weights = torch.nn.Bilinear(2, 2, 1)
    by_weights = ContrastiveLoss(NegativeSampler(pair_weights=weights))
    assert [*by_weights.parameters()] == [*weights.parameters()]
    assert len(by_weights.state_dict()) == len(weights.state_dict())


def test_a_model_loads_strictly_the_weights_of_its_layers() -> None:
    model = ImageContrast(fast_net(2), method="mochi")
    weights = {f"encoder.{k}": v for k, v in fast_net(2).state_dict().items()}
    weights |= {f"head.{k}": v for k, v in copy.deepcopy(model.head).state_dict().items()}
    model.load_state_dict(weights, strict=True)
    halves = {k: (v + weights[k]) / 2 for k, v in model.state_dict().items()}
    assert all(torch.allclose(halves[k], v.to(halves[k])) for k, v in weights.items())


def drawing() -> ContrastiveLoss:
    return ContrastiveLoss(NegativeSampler(draws=3, seed=5))


DRAWN: list[Callable[[], Any]] = [
    drawing,
    lambda: contrastive_loss("mochi", seed=2),
    lambda: contrastive_loss("spacl", seed=2),
    lambda: contrastive_loss("spacl-sup"),
]


@pytest.mark.parametrize("labels", [None, LABELS])
@pytest.mark.parametrize(
    "between", ["nothing", "the same", "others", "a second backward pass", "the same inputs twice"]
)
@pytest.mark.parametrize(
    "make", [*DRAWN, lambda: contrastive_loss("ucl"), lambda: contrastive_loss("progcl")]
)
def test_draws_are_repeated_whatever_comes_between(
    make: Callable[[], Any], between: str, labels: Tensor | None
) -> None:
    results = []
    for recomputes in (False, True):
        loss = make()
        if labels is None and loss.sampler.needs_labels:
            return
        (a, b), (c, d) = views(seed=3), views(seed=4)
        a, c = a.requires_grad_(), c.requires_grad_()

        def value(
            z: Tensor, other: Tensor, loss: Any = loss, recompute: bool = recomputes
        ) -> Tensor:
            def forward(z: Tensor) -> Tensor:
                output: Tensor = loss(z, other, labels)
                return output

            return checkpoint(forward, z, use_reentrant=False) if recompute else forward(z)

        first = value(a, b)
        if between in ("the same", "others"):
            with torch.no_grad():
                loss(*((a, b) if between == "the same" else views(seed=5)), labels)
        if between == "the same inputs twice":  # before one backward pass
            (first - 3 * value(a, b)).backward()
        else:
            second, twice = value(c, d), between == "a second backward pass"
            first.backward(retain_graph=twice)
            if twice:
                first.backward()
            second.backward()
        results.append(torch.cat([z.grad for z in (a, c) if z.grad is not None]))
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-15)


def test_a_loss_in_a_backward_pass_that_repeats_nothing_draws() -> None:
    z1, z2 = views()
    loss, seen = drawing(), []
    z = z1.requires_grad_() * 2
    z.register_hook(lambda slope: seen.append(loss(z1.detach(), z2).item()))
    z.sum().backward()
    assert seen == [drawing()(z1.detach(), z2).item()]


def test_a_queue_inside_a_pass_that_is_computed_again_is_refused() -> None:
    queue, loss, (z1, z2) = Queue(12, 6), contrastive_loss("ucl"), views()
    queue.add(z1)

    def forward(z: Tensor) -> Tensor:
        output: Tensor = loss(z, z2, **queue.candidates())
        queue.add(z)
        return output

    value = checkpoint(forward, z1.requires_grad_(), use_reentrant=False)
    with pytest.raises(InputError, match="queue"):
        value.backward()


def test_a_state_may_be_assigned_and_unknown_keys_are_told() -> None:
    full = Queue(4, 2)
    full.add(torch.ones(3, 2), torch.arange(3))
    with torch.device("meta"):
        built = Queue(4, 2)
    built.load_state_dict(full.state_dict(), assign=True)
    assert built.candidates()["candidate_labels"].tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="embedings"):
        Queue(4, 2).load_state_dict({**full.state_dict(), "embedings": torch.ones(4, 2)})


def test_gradients_of_torch_func_reach_adversarial_negatives() -> None:
    z1, z2 = (z.float() for z in views())
    slope = torch.func.grad(lambda z: contrastive_loss("spacl")(z, z2))(z1)
    loss = contrastive_loss("spacl")
    loss(z1.requires_grad_(), z2).backward()
    torch.testing.assert_close(slope, z1.grad)


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_temperature_that_is_set_is_checked_too(value: float) -> None:
    loss = contrastive_loss("ucl")
    loss.temperature = value
    with pytest.raises(InputError, match="temperature"):
        loss(*views())
    with pytest.raises(InputError, match=r"\[2\]"):
        contrastive_loss("ucl", temperature=nn.Parameter(torch.ones(2)))  # type: ignore[arg-type]


def test_a_hardening_may_be_set_as_it_is_given() -> None:
    loss, (z1, z2) = contrastive_loss("hucl"), views()
    loss.sampler.hardening = None
    assert loss(z1, z2).item() == contrastive_loss("ucl")(z1, z2).item()
    loss.sampler.hardening = lambda t: 2.0 * t
    assert loss(z1, z2).item() == pytest.approx(contrastive_loss("hucl", beta=2.0)(z1, z2).item())


def test_activation_checkpointing_repeats_the_augmentations() -> None:
    batch = load_graphs("MUTAG").batch(range(8))
    results = []
    for recomputes in (False, True):
        torch.manual_seed(0)
        model = TwoView(GIN(7, dim=4, layers=1), method="ucl")
        model.eval()  # running statistics would be updated twice
        value = checkpoint(model, batch, use_reentrant=False) if recomputes else model(batch)
        value.backward()
        results.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-8)


def test_a_pass_whose_draws_are_not_known_is_refused() -> None:
    z1, z2 = views()
    z1.requires_grad_()
    loss = contrastive_loss("spacl")
    value = checkpoint(lambda z: loss(z, z2), z1, use_reentrant=True)  # without a gradient at first
    with pytest.raises(InputError) as caught:
        value.backward()
    assert says(str(caught.value), "torch.utils.checkpoint", "use_reentrant=False")


@pytest.mark.parametrize("method", METHODS)
def test_a_loss_is_built_under_meta(method: str) -> None:
    with torch.device("meta"):
        loss = contrastive_loss(method)
    z1, z2 = views()
    assert loss(z1, z2, LABELS).item() == contrastive_loss(method)(z1, z2, LABELS).item()


def test_views_are_built_under_meta() -> None:
    recipe = ViewRecipe(noise=0.1)
    statistics: Any = {"size": 8, "mean": (0.5,) * 3, "std": (0.2, 0.3, 0.4)}
    with torch.device("meta"):
        module = Views(recipe, **statistics)
    images = torch.randint(256, (3, 3, 8, 8), dtype=torch.uint8)
    assert torch.equal(module(images, seed=1), Views(recipe, **statistics)(images, seed=1))


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of torch, in mochi
@pytest.mark.parametrize("method", ["ucl", "hscl", "ot", "mochi", "spacl"])
def test_vmap_gives_the_losses_or_says_why_not(method: str) -> None:
    pairs = [views(seed=s) for s in range(3)]
    z1, z2 = (torch.stack(tensors) for tensors in zip(*pairs, strict=True))
    loss = contrastive_loss(method)
    mapped = torch.vmap(lambda a, b: loss(a, b, LABELS), randomness="different")
    if method in ("ot", "spacl"):
        with pytest.raises(InputError, match="vmap"):
            mapped(z1, z2)
        return
    values = mapped(z1, z2)
    assert values.shape == (3,)
    if method != "mochi":  # which draws
        for value, (a, b) in zip(values, pairs, strict=True):
            assert value.item() == pytest.approx(loss(a, b, LABELS).item(), rel=1e-12)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("method", "schedule"),
    [
        ("hscl", {"beta": Linear(0.0, 2.0)}),
        ("hscl-tau", {"threshold": Linear(-0.5, 0.5)}),
    ],
)
def test_a_schedule_compiles_no_graph_for_each_epoch(
    method: str, schedule: dict[str, Schedule]
) -> None:
    graphs: list[int] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(1)
        return graph.forward

    torch.compiler.reset()
    loss, (z1, z2) = contrastive_loss(method, **schedule), views()  # type: ignore[arg-type]
    compiled = torch.compile(loss, backend=backend)
    for epoch in range(1, 7):
        loss.set_epoch(epoch, 6)
        torch.testing.assert_close(compiled(z1, z2, LABELS), loss(z1, z2, LABELS))
    assert len(graphs) <= 2


def test_a_hardening_that_is_set_counts_at_once() -> None:
    from gcl_hard import Exponential

    loss, (z1, z2) = contrastive_loss("hucl", beta=1.0), views()
    loss.set_epoch(2, 3)
    loss.sampler.hardening = Exponential(Linear(0.0, 4.0))
    assert loss(z1, z2).item() == contrastive_loss("hucl", beta=2.0)(z1, z2).item()


@pytest.mark.parametrize("batch", [[torch.ones(4, 3, 8, 8), torch.arange(4)], torch.ones(4, 3, 8)])
def test_a_batch_of_images_that_is_no_pair_is_refused(batch: Any) -> None:
    with pytest.raises(InputError) as caught:
        ImageContrast(fast_net(2), method="ucl")(batch)
    assert says(str(caught.value), "ViewPair", type(batch).__name__)


def test_a_pair_needs_no_labels_where_the_loss_needs_none() -> None:
    x = torch.randn(4, 3, 8, 8)
    torch.manual_seed(0)
    model = ImageContrast(fast_net(2), method="ucl").eval()
    labelled = model(ViewPair(x, x.flip(3), torch.arange(4)))
    assert model(ViewPair(x, x.flip(3))).item() == labelled.item()
    with pytest.raises(InputError, match="labels"):
        ImageContrast(fast_net(2), method="scl")(ViewPair(x, x, None))


@pytest.mark.parametrize("method", ["ucl", "spacl"])
def test_sparse_embeddings_are_refused_with_the_remedy(method: str) -> None:
    z1, z2 = views()
    with pytest.raises(InputError, match="to_dense"):
        contrastive_loss(method)(z1.to_sparse(), z2.to_sparse())
