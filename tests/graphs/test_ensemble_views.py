"""Two-view models on shared views: each is what it would be alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gcl_hard import ContrastiveLoss, NegativeSampler
from gcl_hard.errors import DivergenceError, InputError
from gcl_hard.graphs import GIN, GraphBatch, GraphSet, TwoView, load_graphs
from gcl_hard.graphs.batching import PairedViews
from gcl_hard.graphs.ensemble import Ensemble, refusal
from gcl_hard.graphs.order import epoch_batches
from gcl_hard.training.ensemble import train_ensemble
from gcl_hard.training.loop import Optimisation, train
from tests.training.ensembles import RATE, assert_close, same_bits, stored

METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ucl", {}),
    ("hscl", {"beta": 1.0, "temperature": 0.3}),
    ("hucl", {"beta": 2.0}),
    ("dcl", {"objective": "jsd", "class_prior": 0.1}),
)
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "mean": {"readout": "mean"},
    "both": {"readout": "both"},
    "last": {"jk": "last"},
    "edges": {"edge_dim": 4},
    "virtual": {"virtual_node": True},
    "everything": {"readout": "both", "jk": "last", "edge_dim": 4, "virtual_node": True},
}
HELD_OUT = torch.arange(0, 40, 5)


@pytest.fixture(scope="module")
def some() -> GraphSet:
    """Forty graphs of MUTAG, with edge features."""
    return load_graphs("MUTAG").take(torch.arange(40))


def of_dtype(graphs: GraphSet, dtype: torch.dtype) -> GraphSet:
    assert graphs.edge_attr is not None
    return replace(graphs, x=graphs.x.to(dtype), edge_attr=graphs.edge_attr.to(dtype))


def model(number: int, dtype: torch.dtype = torch.float32, **settings: Any) -> TwoView:
    """A model with weights of its own."""
    torch.manual_seed(number)
    views = {n: settings.pop(n) for n in ("augmentations", "strength", "seed") if n in settings}
    gin = GIN(7, **({"dim": 8, "layers": 3} | settings))
    for layer in gin.modules():  # without biases, what no unit lights up sits on ReLU's corner
        if isinstance(layer, nn.Linear):
            nn.init.uniform_(layer.bias, -0.3, 0.3)
    name, options = METHODS[number]
    return TwoView(gin, method=name, **options, **({"seed": 5} | views)).to(dtype)


def together(
    models: Sequence[TwoView], graphs: GraphSet, training: Any, held_out: Tensor | None = None
) -> list[list[float] | DivergenceError]:
    dtype = next(models[0].parameters()).dtype
    graphs = of_dtype(graphs, dtype) if graphs.edge_attr is not None else graphs
    if dtype == torch.float64:
        each = [training] if isinstance(training, Optimisation) else training
        training = [replace(settings, precision="64-true") for settings in each]
        training = training[0] if len(training) == 1 else training
    ensemble = Ensemble(models, graphs, batch_size=16, held_out=[held_out] * len(models))
    assert ensemble.alone is None
    return train_ensemble(ensemble, training)


def plainly(
    single: TwoView, graphs: GraphSet, training: Optimisation, held_out: Tensor | None = None
) -> list[float]:
    """One model by its own forward, in the plain loop."""

    def batches(epoch: int) -> Iterator[GraphBatch]:
        for index in epoch_batches(graphs.n_graphs, 16, seed=0, epoch=epoch, held_out=held_out):
            yield graphs.batch(index)

    return train(single, batches, training, device="cpu", setting="alone")


# What they compute


@pytest.mark.parametrize("held_out", [None, HELD_OUT], ids=["all", "inductive"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_member_is_the_model_trained_alone(
    shape: str, held_out: Tensor | None, some: GraphSet
) -> None:
    graphs = of_dtype(some, torch.float64)
    training = Optimisation(epochs=2, lr=0.001, precision="64-true")
    members, apart = (
        [model(number, torch.float64, **SHAPES[shape]) for number in range(3)] for _ in range(2)
    )
    before = stored(members[0])
    losses = together(members, graphs, training, held_out)
    for mine, of_member, alone in zip(members, losses, apart, strict=True):
        assert of_member == pytest.approx(plainly(alone, graphs, training, held_out), rel=1e-9)
        for (name, weight), other in zip(stored(mine).items(), stored(alone).values(), strict=True):
            # A bias that no ReLU cuts has no gradient before a normalisation but rounding errors,
            # and Adam divides a gradient by its size; the mean moves along.
            off = 1e-6 if name.endswith(("nn.2.bias", "running_mean")) else 1e-9
            # A variance is of degree two in the weights, and so in those of all layers before.
            share = 1e-8 if name.endswith("running_var") else 1e-9
            torch.testing.assert_close(weight, other, rtol=share, atol=off)
    moved = stored(members[0])
    assert [k for k, v in before.items() if torch.equal(moved[k], v)] == [
        f"encoder.convs.{k}.eps" for k in range(3)
    ]


@pytest.mark.parametrize("pair", [("hcl", "mochi"), ("spacl", "spacl-sup"), ("ring", "ot")])
def test_members_with_several_views_are_the_models_trained_alone(
    pair: tuple[str, str], some: GraphSet
) -> None:
    training = Optimisation(epochs=2, lr=0.001, precision="64-true")
    members, apart = (
        [
            TwoView(GIN(7, dim=8, layers=2), method=method, n_views=3, seed=5).double()
            for method in pair
            if torch.manual_seed(0)
        ]
        for _ in range(2)
    )
    graphs = of_dtype(some, torch.float64)
    losses = together(members, graphs, training)
    for of_member, alone in zip(losses, apart, strict=True):
        assert of_member == pytest.approx(plainly(alone, graphs, training), rel=1e-6)


def test_models_with_other_views_are_not_stacked(some: GraphSet) -> None:
    for other in ({"n_views": 3}, {"n_views": 2, "method": "spacl"}):
        members = [
            TwoView(GIN(7, dim=8, layers=2), **{"method": "ucl", **settings})
            for settings in ({}, other)
        ]
        with pytest.raises(InputError, match="views"):
            Ensemble(members, some)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_the_models(shape: str, some: GraphSet) -> None:
    """On graphs with an isolated node, a loop and a pair of nodes linked twice."""
    odd = SimpleNamespace(
        x=torch.eye(7)[:4], edge_index=torch.tensor([[0, 1, 0, 1, 2], [1, 0, 1, 0, 2]]), y=0,
        edge_attr=torch.eye(5)[:, :4], num_nodes=4,
    )  # fmt: skip
    views = [
        GraphSet.from_graphs([odd, replace_labels(odd, 3), replace_labels(odd, 1)]).all()
        for _ in range(2)
    ]
    views = [replace(v, x=v.x.double(), edge_attr=v.edge_attr.double()) for v in views]
    views[1] = replace(views[1], x=views[1].x.flip(0))
    members = [model(number, torch.float64, **SHAPES[shape]) for number in range(len(METHODS))]
    ensemble = Ensemble(members, of_dtype(some, torch.float64))
    tables = [
        {k: torch.stack([dict(kind(m))[k] for m in members]).detach().clone() for k, _ in
         kind(members[0])}
        for kind in (nn.Module.named_parameters, nn.Module.named_buffers)
    ]  # fmt: skip
    parameters, buffers = {k: v.requires_grad_() for k, v in tables[0].items()}, tables[1]
    batch = PairedViews.of(views[0], views[1], by_edge="edge_dim" in SHAPES[shape])
    losses = ensemble.losses(parameters, buffers, batch)
    losses.sum().backward()  # type: ignore[no-untyped-call]
    for m, member in enumerate(members):
        z = member.project(views[0].followed_by(views[1]))
        loss = member.loss(*z.chunk(2), views[0].y)
        loss.backward()
        torch.testing.assert_close(losses[m], loss, rtol=1e-10, atol=1e-12)
        for name, parameter in member.named_parameters():
            gradient = parameters[name].grad
            assert gradient is not None
            torch.testing.assert_close(gradient[m], parameter.grad, rtol=1e-7, atol=1e-10)
        for name, buffer in member.named_buffers():
            torch.testing.assert_close(buffers[name][m], buffer, rtol=1e-10, atol=1e-12)


def replace_labels(graph: SimpleNamespace, y: int) -> SimpleNamespace:
    return SimpleNamespace(**(vars(graph) | {"y": y}))


@pytest.mark.parametrize("draws", [None, 3])
def test_a_loss_of_ones_own_draws_as_it_would_alone(draws: int | None, some: GraphSet) -> None:
    graphs = of_dtype(some, torch.float64)

    def custom() -> TwoView:
        torch.manual_seed(0)
        loss = ContrastiveLoss(NegativeSampler(draws=draws, seed=3), temperature=0.4)
        return TwoView(GIN(7, dim=8, layers=2), loss=loss, seed=5).double()

    mine, alone = custom(), custom()
    training = Optimisation(epochs=2, lr=0.01, precision="64-true")
    other = model(0, torch.float64, layers=2)
    losses = together([other, mine], graphs, training)
    assert losses[1] == pytest.approx(plainly(alone, graphs, training), rel=1e-9)


# Neighbours


def assert_alone(
    mine: TwoView, losses: Any, some: GraphSet, training: Optimisation, number: int, **shape: Any
) -> None:
    """To 1e-9: a library may add up a product of another shape in another order."""
    alone = model(number, torch.float64, **shape)
    assert losses == pytest.approx(together([alone], some, training)[0], rel=1e-6)
    assert_close(stored(mine), stored(alone))


def test_members_of_other_rates_and_epochs_leave_without_a_trace(some: GraphSet) -> None:
    """``keep`` drops rows in the middle of training."""
    members = [model(number, torch.float64) for number in range(3)]
    trainings = [Optimisation(epochs=n, lr=RATE / d) for n, d in ((3, 1), (1, 2), (2, 10))]
    losses = together(members, some, trainings)
    assert [len(of_member) for of_member in losses if isinstance(of_member, list)] == [3, 1, 2]
    for number, (mine, training) in enumerate(zip(members, trainings, strict=True)):
        assert_alone(mine, losses[number], some, training, number)


def test_a_model_that_diverges_leaves_the_others_as_they_are(some: GraphSet) -> None:
    members = [model(number, torch.float64) for number in range(3)]
    trainings = [Optimisation(epochs=3, lr=lr) for lr in (RATE, 1e300, RATE / 10)]
    losses = together(members, some, trainings)
    assert isinstance(losses[1], DivergenceError)
    for m in (0, 2):
        assert_alone(members[m], losses[m], some, trainings[m], m)


# Leakage


@pytest.mark.parametrize("shape", ["plain", "everything"])
def test_garbage_in_held_out_graphs_leaves_every_bit(shape: str, some: GraphSet) -> None:
    owner = torch.repeat_interleave(torch.arange(40), some.node_ptr.diff())
    of_edge = torch.repeat_interleave(torch.arange(40), some.edge_ptr.diff())
    dirty = of_dtype(some, torch.float32)
    assert dirty.edge_attr is not None
    x, edges, attributes, y = (
        t.clone() for t in (dirty.x, dirty.edge_index, dirty.edge_attr, dirty.y)
    )
    x[torch.isin(owner, HELD_OUT)] = float("nan")
    hidden = torch.isin(of_edge, HELD_OUT)
    edges[:, hidden] = some.node_ptr[of_edge[hidden]]
    attributes[hidden] = float("nan")
    y[HELD_OUT] = 1000 + torch.arange(len(HELD_OUT))
    garbage = replace(dirty, x=x, edge_index=edges, edge_attr=attributes, y=y)
    clean, other = ([model(number, **SHAPES[shape]) for number in range(3)] for _ in range(2))
    training = Optimisation(epochs=2, lr=0.01)
    assert together(clean, some, training, HELD_OUT) == together(other, garbage, training, HELD_OUT)
    assert all(same_bits(member, twin) for member, twin in zip(clean, other, strict=True))
    seen = [model(number, **SHAPES[shape]) for number in range(3)]
    together(seen, replace(some, x=some.x.flip(1)), training, HELD_OUT)
    assert not same_bits(seen[0], clean[0])


def test_held_out_graphs_are_in_no_view(some: GraphSet) -> None:
    ensemble = Ensemble(
        [model(0)], replace(some, y=torch.arange(40)), batch_size=16, held_out=[HELD_OUT]
    )
    labels = [int(y) for views in ensemble.batches(3) for y in views.y]
    assert sorted(labels) == sorted(set(range(40)) - set(HELD_OUT.tolist()))
    assert labels != sorted(labels)


# Refusals


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 6}, {"strength": 0.1}, {"augmentations": ["drop-nodes"]}, {"readout": "mean"},
        {"jk": "last"}, {"dim": 4}, {"edge_dim": 4}, {"virtual_node": True},
    ],
)  # fmt: skip
def test_members_share_their_views_and_shape(other: dict[str, Any], some: GraphSet) -> None:
    with pytest.raises(InputError):
        together([model(0), model(1, **other)], some, Optimisation(epochs=1))


def test_models_of_two_views_share_held_out_graphs_and_features(some: GraphSet) -> None:
    two = [model(0), model(1)]
    for options in ({"held_out": [HELD_OUT, None]}, {"features": [some.x, some.x]}):
        with pytest.raises(InputError, match=r"node features\b.*\bheld-out\b"):
            Ensemble(two, some, **options)  # type: ignore[arg-type]


def test_no_model_and_ids_out_of_range(some: GraphSet) -> None:
    with pytest.raises(InputError, match=r"ensemble\b.*\bmodel\b"):
        Ensemble([], some)
    with pytest.raises(IndexError):
        Ensemble([model(0)], some, held_out=[torch.tensor([40])])


class Learnt(ContrastiveLoss):
    """A loss with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__(NegativeSampler())
        self.scale = nn.Parameter(torch.ones(()))


def odd_ones() -> Iterator[Any]:
    yield type("Mine", (TwoView,), {})(GIN(7))
    yield TwoView(type("Own", (GIN,), {})(7))
    yield TwoView(GIN(7), one_forward=False)
    yield TwoView(GIN(7), loss=Learnt())
    frozen = TwoView(GIN(7))
    next(frozen.parameters()).requires_grad_(False)
    yield frozen
    for name in ("norms.0", "virtual.0.2"):
        other = TwoView(GIN(7, virtual_node=True))
        other.encoder.get_submodule(name).momentum = None  # type: ignore[assignment]
        yield other
    other = TwoView(GIN(7))
    other.encoder.get_submodule("convs.0").eps = torch.tensor(0.5)
    yield other


@pytest.mark.parametrize("odd", list(odd_ones()))
def test_what_shares_no_views_trains_one_by_one(odd: Any, some: GraphSet) -> None:
    reason = refusal(odd)
    assert reason is not None
    ensemble = Ensemble([model(0), odd], some, batch_size=16)
    assert ensemble.alone == reason
    assert refusal(model(0)) is None
    with pytest.warns(UserWarning, match="2 models are trained one by one"):
        losses = train_ensemble(ensemble, Optimisation(epochs=1))
    assert all(isinstance(of_one, list) for of_one in losses)
