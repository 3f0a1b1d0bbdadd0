"""Models side by side: each is what it would be alone, whatever its neighbours are or do."""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from gcl_hard import ContrastiveLoss, Exponential, NegativeSampler
from gcl_hard.errors import DivergenceError, InputError, OutOfMemory
from gcl_hard.functional.hardening import MeanThreshold
from gcl_hard.functional.schedules import Linear
from gcl_hard.graphs import GIN, GraphSet, InfoGraph, Population, Supervised, TwoView, load
from gcl_hard.graphs.batches import epoch_batches
from gcl_hard.graphs.contrast import GraphModel
from gcl_hard.graphs.population import refusal
from gcl_hard.training.loop import Optimisation, train
from gcl_hard.training.population import seconds_per_step, train_population
from gcl_hard.training.stacked import Adam, Stacked

METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ucl", {}),
    ("hscl", {"beta": 1.0, "detach_weights": False}),
    ("scl", {}),
    ("hucl", {"beta": 10.0, "detach_weights": False}),
    ("dcl", {"class_prior": 0.1}),
    ("hcl", {"beta": 2.0, "class_prior": 0.2, "detach_weights": True}),
    ("hscl-tau", {"threshold": Linear(-0.5, 0.0)}),
    ("hucl", {"beta": 60.0, "detach_weights": False}),  # weights in float64
)
STEPS = 50


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    return load("MUTAG", download=False)


def model(graphs: GraphSet, which: int, dtype: torch.dtype, **shape: Any) -> GraphModel:
    torch.manual_seed(which)
    gin = GIN(graphs.n_features, **({"dim": 8, "layers": 2} | shape))
    name, options = METHODS[which % len(METHODS)]
    return InfoGraph(gin, method=name, **options).to(dtype)


def models(graphs: GraphSet, dtype: torch.dtype, **shape: Any) -> list[GraphModel]:
    return [model(graphs, which, dtype, **shape) for which in range(len(METHODS))]


def classifiers(graphs: GraphSet, dtype: torch.dtype) -> list[GraphModel]:
    found: list[GraphModel] = []
    for which in range(3):
        torch.manual_seed(which)
        found.append(Supervised(GIN(graphs.n_features, dim=8, layers=2), n_classes=2).to(dtype))
    return found


def folds(graphs: GraphSet, n: int) -> list[Tensor | None]:
    """Of every member other graphs held out; of the last none."""
    return [*(torch.arange(k, graphs.n_graphs, n) for k in range(n - 1)), None]


def of_dtype(graphs: GraphSet, dtype: torch.dtype) -> GraphSet:
    return replace(graphs, x=graphs.x.to(dtype))


def stored(module: nn.Module) -> dict[str, Tensor]:
    return {k: v.clone() for k, v in module.state_dict().items() if isinstance(v, Tensor)}


def same_bits(one: nn.Module, other: nn.Module) -> bool:
    first, second = stored(one), stored(other)
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


def batches_of(graphs: GraphSet, size: int, held_out: Tensor | None, epoch: int) -> Iterator[Any]:
    for index in epoch_batches(graphs.n_graphs, size, seed=0, epoch=epoch, held_out=held_out):
        yield graphs.batch(index)


# Exactness


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", [models, classifiers])
@pytest.mark.parametrize("inductive", [False, True])
def test_a_member_is_bit_for_bit_the_model_trained_alone_in_a_population_of_one(
    mutag: GraphSet, dtype: torch.dtype, kind: Any, *, inductive: bool
) -> None:
    """Where members hold out the same graphs: other masks make sums of other lengths."""
    graphs = of_dtype(mutag, dtype)
    together, apart = kind(graphs, dtype), kind(graphs, dtype)
    held_out = [torch.arange(0, graphs.n_graphs, 10) if inductive else None] * len(together)
    how = Optimisation(epochs=-(-STEPS // 3), lr=0.01, precision=precision(dtype))
    losses = train_population(Population(together, graphs, batch_size=64, held_out=held_out), how)
    for m, alone in enumerate(apart):
        (of_one,) = train_population(
            Population([alone], graphs, batch_size=64, held_out=[held_out[m]]), how
        )
        assert losses[m] == of_one
        assert same_bits(together[m], alone)


def precision(dtype: torch.dtype) -> Any:
    return "64-true" if dtype == torch.float64 else "32-true"


@pytest.mark.parametrize("kind", [models, classifiers])
@pytest.mark.parametrize("inductive", [False, True])
def test_on_every_step_losses_and_gradients_are_those_of_the_models_node_by_node(
    mutag: GraphSet, kind: Any, *, inductive: bool
) -> None:
    """Along the population's own way of 50 steps: two ways would part by Adam's doing.

    Adam divides a gradient by its size, so that one that is 0 but for rounding (a bias before a
    normalisation) moves as far as any other.
    """
    compared = 0
    for mine, plain in along(kind, mutag, torch.float64, inductive=inductive):
        assert abs(mine.loss - plain.loss) <= 1e-9 * abs(plain.loss)
        assert (mine.gradient - plain.gradient).norm() <= 1e-9 * plain.gradient.norm()
        torch.testing.assert_close(mine.buffers, plain.buffers, rtol=1e-9, atol=1e-9)
        compared += 1
    assert compared >= STEPS * len(kind(mutag, torch.float64))


@pytest.mark.parametrize("inductive", [False, True])
def test_in_single_precision_they_are_closer_to_the_truth_than_node_by_node(
    mutag: GraphSet, *, inductive: bool
) -> None:
    """Fewer and shorter sums: the truth is float64 at the same weights."""
    double = of_dtype(mutag, torch.float64)
    off: dict[int, list[tuple[float, ...]]] = {}
    for mine, plain in along(models, mutag, torch.float32, inductive=inductive):
        truth = at(copy.deepcopy(plain.model).double(), plain.index, double)
        size, norm = abs(float(truth.loss)), float(truth.gradient.norm())
        errors = [abs(float(one.loss - truth.loss)) / size for one in (mine, plain)]
        errors += [float((one.gradient - truth.gradient).norm()) / norm for one in (mine, plain)]
        off.setdefault(mine.member, []).append(tuple(errors))
    assert len(off) == len(METHODS)
    for of_member in off.values():
        loss, plain_loss, gradient, plain_gradient = map(
            statistics.median, zip(*of_member, strict=True)
        )
        assert loss <= min(1e-5, plain_loss)
        assert gradient <= min(1e-5, plain_gradient)


class Seen(NamedTuple):
    """What a model made of a batch."""

    member: int
    loss: Tensor
    gradient: Tensor
    buffers: dict[str, Tensor]
    model: GraphModel
    index: Tensor


def along(
    kind: Any, mutag: GraphSet, dtype: torch.dtype, *, inductive: bool
) -> Iterator[tuple[Seen, Seen]]:
    """Step by step, member by member: what the population makes, and the model by itself."""
    graphs = of_dtype(mutag, dtype)
    members = kind(graphs, dtype)
    held_out = folds(graphs, len(members)) if inductive else [None] * len(members)
    population = Population(members, graphs, batch_size=64, held_out=held_out)
    stacked = Stacked(members)
    adam = Adam(stacked, [(0.01, 0.0)] * len(members))
    for epoch in range(1, -(-STEPS // 3) + 1):
        population.set_epoch(epoch, [20] * len(members))
        chunks = [
            epoch_batches(graphs.n_graphs, 64, seed=0, epoch=epoch, held_out=held)
            for held in held_out
        ]
        for number, batch in enumerate(population.batches(epoch)):
            weights = stacked.named(stacked.flat.detach().clone())
            adam.zero_grad()
            losses = population.losses(stacked.parameters, stacked.buffers, batch)
            losses.sum().backward()  # type: ignore[no-untyped-call]
            assert stacked.flat.grad is not None
            gradients = stacked.named(stacked.flat.grad)
            for m, one in enumerate(members):
                with torch.no_grad():
                    for name, parameter in one.named_parameters():
                        parameter.copy_(weights[name][m])
                gradient = torch.cat([gradients[n][m].flatten() for n, _ in one.named_parameters()])
                buffers = {name: value[m] for name, value in stacked.buffers.items()}
                index = chunks[m][number]
                yield (
                    Seen(m, losses[m].detach(), gradient, buffers, one, index),
                    at(one, index, graphs),
                )
            adam.step()


def at(one: GraphModel, index: Tensor, graphs: GraphSet) -> Seen:
    """What a model makes of a batch by itself; its normalisations move on."""
    one.zero_grad()
    loss: Tensor = one(graphs.batch(index))
    loss.backward()  # type: ignore[no-untyped-call]
    found = [p.grad.flatten() for p in one.parameters() if p.grad is not None]
    return Seen(0, loss.detach(), torch.cat(found), dict(one.named_buffers()), one, index)


@pytest.mark.parametrize("inductive", [False, True])
def test_after_50_free_steps_losses_are_those_of_the_models_trained_by_the_plain_loop(
    mutag: GraphSet, *, inductive: bool
) -> None:
    """At a small learning rate, where what rounding adds to Adam's steps stays small."""
    graphs = of_dtype(mutag, torch.float64)
    together, apart = models(graphs, torch.float64), models(graphs, torch.float64)
    held_out = folds(graphs, len(together)) if inductive else [None] * len(together)
    how = Optimisation(epochs=-(-STEPS // 3), lr=1e-5, precision="64-true")
    losses = train_population(Population(together, graphs, batch_size=64, held_out=held_out), how)
    for m, alone in enumerate(apart):
        plain = train(alone, lambda e, m=m: batches_of(graphs, 64, held_out[m], e), how)  # type: ignore[misc]
        assert losses[m] == pytest.approx(plain, rel=1e-6)  # means are kept in single precision
        batch = graphs.all()
        with torch.no_grad():
            assert float(together[m](batch)) == pytest.approx(float(alone(batch)), rel=1e-9)


# Held-out graphs


@pytest.mark.parametrize("kind", [models, classifiers])
@pytest.mark.parametrize("garbage", [math.nan, 1e30, 7.0])
@pytest.mark.parametrize("masks", [False, True])
def test_features_of_held_out_graphs_reach_no_member(
    mutag: GraphSet, kind: Any, garbage: float, *, masks: bool
) -> None:
    """No bit, where all hold out the same; by masks only the rounding of longer sums."""
    graphs = of_dtype(mutag, torch.float64)
    held_out = torch.arange(0, graphs.n_graphs, 5)
    x = graphs.x.clone()
    owner = torch.repeat_interleave(torch.arange(graphs.n_graphs), graphs.node_ptr.diff())
    x[torch.isin(owner, held_out)] = garbage
    clean, dirty = kind(graphs, torch.float64), kind(graphs, torch.float64)
    how = Optimisation(epochs=4, lr=1e-4, precision="64-true")
    others = [torch.arange(1, 9), *[held_out] * (len(clean) - 1)] if masks else None
    losses = []
    for members, of in ((clean, graphs), (dirty, replace(graphs, x=x))):
        apart = others or [held_out] * len(members)
        population = Population(members, of, batch_size=64, held_out=apart)
        losses.append(train_population(population, how))
    kept = torch.ones(graphs.n_graphs, dtype=torch.bool)
    kept[held_out] = False
    batch = graphs.batch(kept.nonzero().flatten())
    for m, (one, other) in enumerate(zip(clean, dirty, strict=True)):
        if masks and m == 0:  # it does see them
            assert losses[1][m] != losses[0][m]
        elif masks:
            assert losses[1][m] == pytest.approx(losses[0][m], rel=1e-6)
            with torch.no_grad():
                assert float(other.train()(batch)) == pytest.approx(float(one.train()(batch)), 1e-9)
        else:
            assert losses[1][m] == losses[0][m]
            assert same_bits(one, other)


@pytest.mark.parametrize("kind", [models, classifiers])
def test_labels_of_held_out_graphs_change_no_bit(mutag: GraphSet, kind: Any) -> None:
    held_out = torch.arange(0, mutag.n_graphs, 5)
    y = mutag.y.clone()
    y[held_out] = 1 - y[held_out]
    clean, dirty = kind(mutag, torch.float32), kind(mutag, torch.float32)
    for members, of in ((clean, mutag), (dirty, replace(mutag, y=y))):
        population = Population(members, of, batch_size=64, held_out=[held_out] * len(members))
        train_population(population, Optimisation(epochs=3))
    assert all(map(same_bits, clean, dirty))


def test_features_may_be_each_members_own(mutag: GraphSet) -> None:
    graphs = of_dtype(mutag, torch.float64)
    own = [graphs.x, graphs.x * 3]
    together, apart = (models(mutag, torch.float64)[:2] for _ in range(2))
    how = Optimisation(epochs=3, lr=1e-4, precision="64-true")
    losses = train_population(Population(together, graphs, features=own), how)
    for m, alone in enumerate(apart):
        (of_one,) = train_population(Population([alone], replace(graphs, x=own[m])), how)
        assert losses[m] == pytest.approx(of_one, rel=1e-6)
    assert losses[0] != losses[1]


# Differences between members


def test_members_may_differ_in_rate_decay_schedule_and_epochs(mutag: GraphSet) -> None:
    hows = [
        Optimisation(epochs=2, lr=0.01),
        Optimisation(epochs=4, lr=0.001, weight_decay=0.1),
        Optimisation(epochs=3, lr=0.01, lr_schedule="cosine"),
        Optimisation(epochs=4, lr=0.01, lr_schedule="cosine"),
    ]
    together, apart = (models(mutag, torch.float64)[:4] for _ in range(2))
    graphs = of_dtype(mutag, torch.float64)
    hows = [replace(how, precision="64-true") for how in hows]
    seen: list[tuple[int, list[int]]] = []
    losses = train_population(
        Population(together, graphs, batch_size=64), hows,
        on_epoch=lambda epoch, of, means: seen.append((epoch, list(of))),
    )  # fmt: skip
    assert seen == [(1, [0, 1, 2, 3]), (2, [0, 1, 2, 3]), (3, [1, 2, 3]), (4, [1, 3])]
    for m, (alone, how) in enumerate(zip(apart, hows, strict=True)):
        (of_one,) = train_population(Population([alone], graphs, batch_size=64), how)
        assert losses[m] == pytest.approx(of_one, rel=1e-6)
        plain = models(mutag, torch.float64)[m]
        by_loop = train(plain, lambda e: batches_of(graphs, 64, None, e), how)
        assert losses[m][:2] == pytest.approx(by_loop[:2], rel=1e-5)


def test_a_member_that_diverges_stops_and_the_others_keep_their_bits(mutag: GraphSet) -> None:
    together, apart = (models(mutag, torch.float32)[:3] for _ in range(2))
    torch.nn.init.constant_(together[1].encoder.norms[0].weight, math.nan)  # type: ignore
    results = train_population(
        Population(together, mutag, batch_size=64), Optimisation(epochs=3),
        settings=["first", "second", "third"],
    )  # fmt: skip
    assert isinstance(results[1], DivergenceError)
    assert str(results[1]).startswith("the loss is nan in epoch 1, batch 1 of 3 (second)")
    for m in (0, 2):
        train_population(Population([apart[m]], mutag, batch_size=64), Optimisation(epochs=3))
        assert same_bits(together[m], apart[m])
        assert isinstance(results[m], list)


def test_when_all_members_diverge_training_ends(mutag: GraphSet) -> None:
    members = models(mutag, torch.float32)[:2]
    results = train_population(Population(members, mutag), Optimisation(epochs=50, lr=1e30))
    assert all(isinstance(result, DivergenceError) for result in results)


# What cannot be stacked


class Mine(nn.Module):
    """An encoder of a user's own."""

    out_dim = 4

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(7, 4)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        nodes = self.linear(x)
        graphs = nodes.new_zeros(int(batch[-1]) + 1, 4).index_add(0, batch, nodes)
        return nodes, graphs


def test_an_encoder_of_ones_own_is_trained_one_by_one_and_that_is_said(mutag: GraphSet) -> None:
    def mine() -> list[GraphModel]:
        torch.manual_seed(0)
        return [InfoGraph(Mine(), method=name) for name in ("ucl", "hscl")]

    together, apart = mine(), mine()
    held_out = [torch.arange(20), None]
    population = Population(together, mutag, batch_size=64, held_out=held_out)
    assert population.alone == "Mine has no member dimension"
    with pytest.warns(UserWarning, match="^Mine has no member dimension: 2 models are trained one"):
        losses = train_population(population, Optimisation(epochs=2))
    for m, alone in enumerate(apart):
        plain = train(
            alone, lambda e, m=m: batches_of(mutag, 64, held_out[m], e), Optimisation(epochs=2)  # type: ignore[misc]
        )  # fmt: skip
        assert losses[m] == plain
        assert same_bits(together[m], alone)


def jsd(sampler: NegativeSampler, **options: Any) -> InfoGraph:
    return InfoGraph(GIN(7, dim=4), loss=ContrastiveLoss(sampler, objective="jsd", **options))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: TwoView(GIN(7)), "TwoView has no member dimension"),
        (lambda: InfoGraph(GIN(7), objective="infonce"), "only JSD"),
        (lambda: jsd(NegativeSampler(draws=3)), "only JSD without draws"),
        (lambda: jsd(NegativeSampler(), on_empty="raise"), "on_empty='raise'"),
        (lambda: jsd(NegativeSampler(hardening=MeanThreshold())), "MeanThreshold has no member"),
        (lambda: jsd(NegativeSampler(hardening=lambda t: t)), "Custom has no member dimension"),
        (lambda: jsd(NegativeSampler(hardening=Exponential(500.0))), "beta 500 span more"),
        (lambda: jsd(NegativeSampler(hardening=Exponential(Linear(0.0, 500.0)))), "beta 500 span"),
    ],
)
def test_why_a_model_trains_alone_is_said(make: Any, why: str) -> None:
    assert why in (refusal(make()) or "")


def spoilt(change: Any, make: Any = None) -> Any:
    def made() -> GraphModel:
        one = InfoGraph(GIN(7, dim=4)) if make is None else make()
        change(one)
        return one

    return made


class OwnLoss(ContrastiveLoss):
    """A loss of a user's own."""


@pytest.mark.parametrize(
    "make",
    [
        spoilt(lambda one: one.encoder.convs[0].requires_grad_(requires_grad=False)),
        spoilt(lambda one: setattr(one, "loss", OwnLoss(NegativeSampler(), objective="jsd"))),
        spoilt(lambda one: setattr(one, "node_head", nn.Linear(12, 12))),
        spoilt(lambda one: one.encoder.convs[1].eps.fill_(0.5)),
        spoilt(lambda one: one.encoder.norms.__setitem__(0, nn.LayerNorm(4))),
        spoilt(lambda one: one.encoder.norms.__setitem__(0, nn.BatchNorm1d(4, momentum=None))),
        spoilt(lambda one: one.encoder.norms.__setitem__(0, nn.BatchNorm1d(4, affine=False))),
    ],
)
def test_what_only_looks_like_our_model_trains_alone(mutag: GraphSet, make: Any) -> None:
    assert "member dimension" in (refusal(make()) or "")
    if isinstance(make().node_head, nn.Linear):
        return
    torch.manual_seed(0)
    one = make()
    torch.manual_seed(0)
    other = make()
    (losses,) = train_population(Population([one], mutag), Optimisation(epochs=2))
    assert losses == train(other, lambda e: batches_of(mutag, 128, None, e), Optimisation(epochs=2))


@pytest.mark.parametrize(
    ("held_out", "message"),
    [(torch.tensor([999]), "held_out holds graph ids 999..999"), (torch.tensor([-1]), "-1..-1"),
     (torch.tensor([0.5]), "expected graph ids"), (torch.ones(188).bool(), "torch.bool")],
)  # fmt: skip
def test_held_out_graphs_that_are_none_are_refused(
    mutag: GraphSet, held_out: Tensor, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Population([InfoGraph(GIN(7))], mutag, held_out=[held_out])


def test_features_of_another_width_are_named(mutag: GraphSet) -> None:
    with pytest.raises(InputError, match=r"\[3371, 5\].* this GIN takes, got \[3371, 7\]"):
        Population([InfoGraph(GIN(5))], mutag)
    with pytest.raises(InputError, match=r"got \[20, 7\]"):
        Population([InfoGraph(GIN(7))], mutag, features=[mutag.x[:20]])


def test_a_population_can_be_trained_twice(mutag: GraphSet) -> None:
    members = models(mutag, torch.float32)[:2]
    population = Population(members, mutag)
    hows = [Optimisation(epochs=1), Optimisation(epochs=3)]
    assert [len(losses) for losses in train_population(population, hows)] == [1, 3]
    assert population.models == members
    assert [len(losses) for losses in train_population(population, hows)] == [1, 3]


def test_several_threads_give_the_same_bits_again(mutag: GraphSet) -> None:
    """On wide layers, where they add in parts."""
    found = []
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for n in (1, 1, 1, 3):
            members = [model(mutag, which, torch.float32, dim=128, layers=3) for which in range(n)]
            train_population(Population(members, mutag), Optimisation(epochs=1))
            found.append(members[0])
    finally:
        torch.set_num_threads(threads)
    assert all(same_bits(found[0], other) for other in found[1:])


def test_no_model_is_no_population(mutag: GraphSet) -> None:
    with pytest.raises(InputError, match="at least one model, got none"):
        Population([], mutag)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: InfoGraph(GIN(7, dim=4)), r"encoder.convs.0.nn.0.weight is \(8, 7\), .* \(4, 7\)"),
        (lambda: InfoGraph(GIN(7, dim=8, layers=2)).double(), "torch.float32.* torch.float64"),
        (lambda: InfoGraph(GIN(7, dim=8, layers=2, readout="mean")), "must be equal"),
        (lambda: Supervised(GIN(7, dim=8, layers=2), 2), "got InfoGraph and Supervised"),
    ],
)
def test_models_of_different_shapes_are_named(mutag: GraphSet, other: Any, message: str) -> None:
    first = InfoGraph(GIN(7, dim=8, layers=2))
    with pytest.raises(InputError, match=message):
        train_population(Population([first, other()], mutag), Optimisation(epochs=1))


def test_lists_of_another_length_are_refused(mutag: GraphSet) -> None:
    members = models(mutag, torch.float32)[:2]
    with pytest.raises(InputError, match="held_out has 1 entries for 2 models"):
        Population(members, mutag, held_out=[None])
    with pytest.raises(InputError, match="1 optimisations for 2 models"):
        train_population(Population(members, mutag), [Optimisation()])
    with pytest.raises(InputError, match=r"torch\.float32, got bf16-mixed and accumulate 1"):
        train_population(Population(members, mutag), Optimisation(precision="bf16-mixed"))


def test_held_out_graphs_that_leave_members_other_batches_are_refused(mutag: GraphSet) -> None:
    members = models(mutag, torch.float32)[:2]
    last = epoch_batches(mutag.n_graphs, 93, seed=0, epoch=1)[-1]
    assert len(last) == 2
    population = Population(members, mutag, batch_size=93, held_out=[last, None])
    with pytest.raises(InputError, match="different batches in epoch 1"):
        train_population(population, Optimisation(epochs=1))


def test_memory_that_runs_out_says_what_to_lower(
    mutag: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    population = Population(models(mutag, torch.float32)[:2], mutag)

    def full(*_: object) -> Tensor:
        raise MemoryError

    monkeypatch.setattr(population, "losses", full)
    with pytest.raises(OutOfMemory, match="with 2 models side by side: train fewer at a time"):
        train_population(population, Optimisation(epochs=1))


def test_timing_steps_leaves_the_models_as_they_are(mutag: GraphSet) -> None:
    members = models(mutag, torch.float32)[:2]
    before = [stored(one) for one in members]
    assert seconds_per_step(Population(members, mutag), Optimisation(), steps=2) > 0
    for one, was in zip(members, before, strict=True):
        assert all(torch.equal(stored(one)[name], value) for name, value in was.items())


def test_mean_readout_and_more_layers_are_those_of_the_plain_model(mutag: GraphSet) -> None:
    graphs = of_dtype(mutag, torch.float64)

    def mean() -> list[GraphModel]:
        torch.manual_seed(1)
        gins = (GIN(7, dim=5, layers=4, readout="mean") for _ in range(2))
        return [InfoGraph(gin, method="hscl").double() for gin in gins]

    together, apart = mean(), mean()
    how = Optimisation(epochs=2, lr=1e-5, precision="64-true")
    losses: Sequence[Any] = train_population(Population(together, graphs), how)
    for m, alone in enumerate(apart):
        plain = train(alone, lambda e: batches_of(graphs, 128, None, e), how)
        assert losses[m] == pytest.approx(plain, rel=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("inductive", [False, True])
def test_on_a_gpu_losses_and_gradients_are_those_of_the_cpu(
    mutag: GraphSet, *, inductive: bool
) -> None:
    found = []
    for device in ("cpu", "cuda"):
        graphs = of_dtype(mutag, torch.float64).to(device)
        members = [one.to(device) for one in models(mutag, torch.float64)]
        held_out = folds(mutag, len(members)) if inductive else None
        population = Population(members, graphs, batch_size=64, held_out=held_out)
        stacked = Stacked(members)
        population.set_epoch(1, [20] * len(members))
        for batch in population.batches(1):
            losses = population.losses(stacked.parameters, stacked.buffers, batch)
            losses.sum().backward()  # type: ignore[no-untyped-call]
        assert stacked.flat.grad is not None
        found.append((losses.detach().cpu(), stacked.flat.grad.cpu(), stacked.buffers))
    for on_cpu, on_gpu in zip(*(one[:2] for one in found), strict=True):
        assert (on_gpu - on_cpu).norm() <= 1e-9 * on_cpu.norm()
    results = train_population(population, Optimisation(epochs=2, precision="64-true"))
    assert all(isinstance(result, list) for result in results)
