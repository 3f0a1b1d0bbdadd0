"""Models side by side: each is what it would be alone, whatever its neighbours are or do."""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from gcl_hard.errors import DivergenceError
from gcl_hard.graphs import Ensemble, GraphSet
from gcl_hard.graphs.models import GraphModel
from gcl_hard.graphs.order import epoch_batches
from gcl_hard.training.ensemble import Adam, Stacked, train_ensemble
from gcl_hard.training.loop import Optimisation, train
from tests.said import says
from tests.training.ensembles import (
    METHODS,
    RATE,
    STEPS,
    assert_same_model,
    batches_of,
    classifiers,
    folds,
    in_dtype,
    models,
    mutag,
    same_bits,
)

__all__ = ["mutag"]


# Exactness


@pytest.mark.parametrize("kind", [models, classifiers])
@pytest.mark.parametrize("inductive", [False, True])
def test_a_model_in_an_ensemble_is_the_model_in_an_ensemble_of_one(
    mutag: GraphSet, kind: Any, *, inductive: bool
) -> None:
    """To 1e-9: a library may add up a product of another shape in another order.

    Of single precision a test below compares errors against float64.
    """
    graphs = in_dtype(mutag, torch.float64)
    together, apart = kind(graphs, torch.float64), kind(graphs, torch.float64)
    held_out = [torch.arange(0, graphs.n_graphs, 10) if inductive else None] * len(together)
    optimisation = Optimisation(epochs=-(-STEPS // 3), lr=RATE, precision="64-true")
    losses = train_ensemble(
        Ensemble(together, graphs, batch_size=64, held_out=held_out), optimisation
    )
    for m, alone in enumerate(apart):
        if kind is models and by_rank(m):
            continue  # two scores that rounding swaps have each other's rank from then on
        (of_one,) = train_ensemble(
            Ensemble([alone], graphs, batch_size=64, held_out=[held_out[m]]), optimisation
        )
        assert losses[m] == pytest.approx(of_one, rel=1e-6)  # means are kept in single precision
        assert_same_model(together[m], alone, graphs)


@pytest.mark.parametrize("kind", [models, classifiers])
@pytest.mark.parametrize("inductive", [False, True])
def test_on_every_step_losses_and_gradients_are_those_of_the_models_node_by_node(
    mutag: GraphSet, kind: Any, *, inductive: bool
) -> None:
    """Along the population's own way of some steps: two ways would part by Adam's doing.

    Adam divides a gradient by its size, so that one that is 0 but for rounding (a bias before a
    normalisation) moves as far as any other.
    """
    compared = 0
    for mine, plain in along(kind, mutag, torch.float64, inductive=inductive, epochs=2):
        assert abs(mine.loss - plain.loss) <= 1e-9 * abs(plain.loss)
        assert (mine.gradient - plain.gradient).norm() <= 1e-9 * plain.gradient.norm()
        torch.testing.assert_close(mine.buffers, plain.buffers, rtol=1e-9, atol=1e-9)
        compared += 1
    assert compared >= 6 * len(kind(mutag, torch.float64))


@pytest.mark.parametrize("inductive", [True])
def test_in_single_precision_they_are_closer_to_the_truth_than_node_by_node(
    mutag: GraphSet, *, inductive: bool
) -> None:
    """Fewer and shorter sums: the truth is float64 at the same weights.

    How close depends on the order in which a CPU sums, so one is measured by the other.
    """
    double = in_dtype(mutag, torch.float64)
    off: dict[int, list[tuple[float, ...]]] = {}
    for mine, plain in along(models, mutag, torch.float32, inductive=inductive):
        truth = at(copy.deepcopy(plain.model).double(), plain.index, double)
        size, norm = abs(float(truth.loss)), float(truth.gradient.norm())
        errors = [abs(float(seen.loss - truth.loss)) / size for seen in (mine, plain)]
        errors += [float((seen.gradient - truth.gradient).norm()) / norm for seen in (mine, plain)]
        off.setdefault(mine.member, []).append(tuple(errors))
    assert len(off) == len(METHODS)
    for member, member_losses in off.items():
        loss, plain_loss, gradient, plain_gradient = map(
            statistics.median, zip(*member_losses, strict=True)
        )
        if by_rank(member):
            continue  # scores that are equal in single precision have two ranks in double
        assert loss <= plain_loss
        assert gradient <= plain_gradient


def by_rank(member: int) -> bool:
    return METHODS[member][1].get("hardness_scale") == "rank"


class Seen(NamedTuple):
    """What a model made of a batch."""

    member: int
    loss: Tensor
    gradient: Tensor
    buffers: dict[str, Tensor]
    model: GraphModel
    index: Tensor


def along(
    kind: Any, mutag: GraphSet, dtype: torch.dtype, *, inductive: bool, epochs: int = 4
) -> Iterator[tuple[Seen, Seen]]:
    """Step by step, member by member: what the population makes, and the model by itself."""
    graphs = in_dtype(mutag, dtype)
    members = kind(graphs, dtype)
    held_out = folds(graphs, len(members)) if inductive else [None] * len(members)
    population = Ensemble(members, graphs, batch_size=64, held_out=held_out)
    stacked = Stacked(members)
    adam = Adam(stacked, [(0.01, 0.0)] * len(members))
    for epoch in range(1, epochs + 1):
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
            for m, member in enumerate(members):
                with torch.no_grad():
                    for name, parameter in member.named_parameters():
                        parameter.copy_(weights[name][m])
                gradient = torch.cat(
                    [gradients[n][m].flatten() for n, _ in member.named_parameters()]
                )
                buffers = {name: value[m] for name, value in stacked.buffers.items()}
                index = chunks[m][number]
                yield (
                    Seen(m, losses[m].detach(), gradient, buffers, member, index),
                    at(member, index, graphs),
                )
            adam.step()


def at(model_: GraphModel, index: Tensor, graphs: GraphSet) -> Seen:
    """What a model makes of a batch by itself; its normalisations move on."""
    model_.zero_grad()
    loss: Tensor = model_(graphs.batch(index))
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = [p.grad.flatten() for p in model_.parameters() if p.grad is not None]
    return Seen(0, loss.detach(), torch.cat(gradients), dict(model_.named_buffers()), model_, index)


# Held-out graphs


@pytest.mark.parametrize("kind", [models, classifiers])
@pytest.mark.parametrize(("garbage", "masks"), [(math.nan, False), (1e30, True)])
def test_features_of_held_out_graphs_reach_no_member(
    mutag: GraphSet, kind: Any, garbage: float, *, masks: bool
) -> None:
    """No bit, where all hold out the same; by masks only the rounding of longer sums."""
    graphs = in_dtype(mutag, torch.float64)
    held_out = torch.arange(0, graphs.n_graphs, 5)
    x = graphs.x.clone()
    owner = torch.repeat_interleave(torch.arange(graphs.n_graphs), graphs.node_ptr.diff())
    x[torch.isin(owner, held_out)] = garbage
    clean, dirty = kind(graphs, torch.float64), kind(graphs, torch.float64)
    optimisation = Optimisation(epochs=4, lr=1e-4, precision="64-true")
    others = [torch.arange(1, 9), *[held_out] * (len(clean) - 1)] if masks else None
    losses = []
    for members, graphs_ in ((clean, graphs), (dirty, replace(graphs, x=x))):
        apart = others or [held_out] * len(members)
        population = Ensemble(members, graphs_, batch_size=64, held_out=apart)
        losses.append(train_ensemble(population, optimisation))
    kept = torch.ones(graphs.n_graphs, dtype=torch.bool)
    kept[held_out] = False
    batch = graphs.batch(kept.nonzero().flatten())
    for m, (clean_model, dirty_model) in enumerate(zip(clean, dirty, strict=True)):
        if masks and m == 0:  # it does see them
            assert losses[1][m] != losses[0][m]
        elif masks:
            assert losses[1][m] == pytest.approx(losses[0][m], rel=1e-6)
            with torch.no_grad():
                assert float(dirty_model.train()(batch)) == pytest.approx(
                    float(clean_model.train()(batch)), 1e-9
                )
        else:
            assert losses[1][m] == losses[0][m]
            assert same_bits(clean_model, dirty_model)


@pytest.mark.parametrize("kind", [models, classifiers])
def test_labels_of_held_out_graphs_change_no_bit(mutag: GraphSet, kind: Any) -> None:
    held_out = torch.arange(0, mutag.n_graphs, 5)
    y = mutag.y.clone()
    y[held_out] = 1 - y[held_out]
    clean, dirty = kind(mutag, torch.float32), kind(mutag, torch.float32)
    for members, graphs_ in ((clean, mutag), (dirty, replace(mutag, y=y))):
        population = Ensemble(members, graphs_, batch_size=64, held_out=[held_out] * len(members))
        train_ensemble(population, Optimisation(epochs=3))
    assert all(map(same_bits, clean, dirty))


def test_features_may_be_each_members_own(mutag: GraphSet) -> None:
    graphs = in_dtype(mutag, torch.float64)
    features = [graphs.x, graphs.x * 3]
    together, apart = (models(mutag, torch.float64)[:2] for _ in range(2))
    optimisation = Optimisation(epochs=3, lr=1e-4, precision="64-true")
    losses = train_ensemble(Ensemble(together, graphs, features=features), optimisation)
    for m, alone in enumerate(apart):
        (of_one,) = train_ensemble(Ensemble([alone], replace(graphs, x=features[m])), optimisation)
        assert losses[m] == pytest.approx(of_one, rel=1e-6)
    assert losses[0] != losses[1]


# Differences between members


def test_members_may_differ_in_rate_decay_schedule_and_epochs(mutag: GraphSet) -> None:
    optimisations = [
        Optimisation(epochs=2, lr=0.01),
        Optimisation(epochs=4, lr=0.001, weight_decay=0.1),
        Optimisation(epochs=3, lr=0.01, lr_schedule="cosine"),
        Optimisation(epochs=4, lr=0.01, lr_schedule="cosine"),
    ]
    together, apart = (models(mutag, torch.float64)[:4] for _ in range(2))
    graphs = in_dtype(mutag, torch.float64)
    optimisations = [replace(optimisation, precision="64-true") for optimisation in optimisations]
    seen: list[tuple[int, list[int]]] = []
    losses = train_ensemble(
        Ensemble(together, graphs, batch_size=64), optimisations,
        on_epoch=lambda epoch, numbers, means: seen.append((epoch, list(numbers))),
    )  # fmt: skip
    assert seen == [(1, [0, 1, 2, 3]), (2, [0, 1, 2, 3]), (3, [1, 2, 3]), (4, [1, 3])]
    for m, (alone, optimisation) in enumerate(zip(apart, optimisations, strict=True)):
        (of_one,) = train_ensemble(Ensemble([alone], graphs, batch_size=64), optimisation)
        assert losses[m] == pytest.approx(of_one, rel=1e-6)
        plain = models(mutag, torch.float64)[m]
        by_loop = train(plain, lambda e: batches_of(graphs, 64, None, e), optimisation)
        assert losses[m][:2] == pytest.approx(by_loop[:2], rel=1e-5)


def test_a_model_that_diverges_stops_and_the_others_are_what_they_would_be_without_it(
    mutag: GraphSet,
) -> None:
    """To 1e-9, as above: the others are in another company than without it."""
    graphs = in_dtype(mutag, torch.float64)
    together, apart = (models(mutag, torch.float64)[:3] for _ in range(2))
    torch.nn.init.constant_(together[1].encoder.norms[0].weight, math.nan)  # type: ignore
    optimisation = Optimisation(epochs=3, lr=RATE, precision="64-true")
    results = train_ensemble(
        Ensemble(together, graphs, batch_size=64),
        optimisation,
        settings=["first", "second", "third"],
    )
    assert isinstance(results[1], DivergenceError)
    assert says(str(results[1]), "loss", "nan", "epoch 1", "batch 1", 3, "(second)")
    for m in (0, 2):
        train_ensemble(Ensemble([apart[m]], graphs, batch_size=64), optimisation)
        assert_same_model(together[m], apart[m], graphs)
        assert isinstance(results[m], list)


def test_when_all_members_diverge_training_ends(mutag: GraphSet) -> None:
    members = models(mutag, torch.float32)[:2]
    results = train_ensemble(Ensemble(members, mutag), Optimisation(epochs=50, lr=1e30))
    assert all(isinstance(result, DivergenceError) for result in results)


@pytest.mark.gpu
@pytest.mark.parametrize("inductive", [False, True])
def test_on_a_gpu_losses_and_gradients_are_those_of_the_cpu(
    mutag: GraphSet, *, inductive: bool
) -> None:
    outputs = []
    for device in ("cpu", "cuda"):
        graphs = in_dtype(mutag, torch.float64).to(device)
        members = [member.to(device) for member in models(mutag, torch.float64)]
        held_out = folds(mutag, len(members)) if inductive else None
        population = Ensemble(members, graphs, batch_size=64, held_out=held_out)
        stacked = Stacked(members)
        population.set_epoch(1, [20] * len(members))
        for batch in population.batches(1):
            losses = population.losses(stacked.parameters, stacked.buffers, batch)
            losses.sum().backward()  # type: ignore[no-untyped-call]
        assert stacked.flat.grad is not None
        outputs.append((losses.detach().cpu(), stacked.flat.grad.cpu(), stacked.buffers))
    for on_cpu, on_gpu in zip(*(output[:2] for output in outputs), strict=True):
        assert (on_gpu - on_cpu).norm() <= 1e-9 * on_cpu.norm()
    results = train_ensemble(population, Optimisation(epochs=2, precision="64-true"))
    assert all(isinstance(result, list) for result in results)
