"""Ensembles of graph models of which some graphs have no known class: those one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gcl_hard import InputError
from gcl_hard.graphs import GIN, Ensemble, GraphSet, InfoGraph, TwoView
from gcl_hard.graphs.models import GraphModel
from gcl_hard.training.ensemble import Stacked
from tests.said import says
from tests.training.ensembles import METHODS, in_dtype, mutag  # noqa: F401 (a fixture)

SHARES = (0.0, 0.3, 1.0)


def labelled(graphs: GraphSet, share: float) -> GraphSet:
    """The graphs, of which a share has no known class."""
    order = torch.randperm(graphs.n_graphs, generator=torch.Generator().manual_seed(0))
    y = graphs.y.clone()
    y[order[: round(share * len(order))]] = -1
    return replace(in_dtype(graphs, torch.float64), y=y)


def models_of(kind: type, graphs: GraphSet) -> list[GraphModel]:
    built: list[GraphModel] = []
    for index, (name, options) in enumerate(METHODS):
        torch.manual_seed(index)
        gin = GIN(graphs.n_features, dim=8, layers=2)
        loss_options = options if kind is InfoGraph else {}
        built.append(kind(gin, method=name, unknown=-1, **loss_options).double().train())
    return built


@pytest.mark.filterwarnings("ignore:.*class_prior:UserWarning")
@pytest.mark.parametrize("inductive", [False, True])
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("kind", [InfoGraph, TwoView])
def test_losses_and_gradients_are_those_of_the_models_one_by_one(
    kind: type,
    share: float,
    mutag: GraphSet,  # noqa: F811
    *,
    inductive: bool,
) -> None:
    graphs = labelled(mutag, share)
    models = models_of(kind, graphs)
    held_out = [torch.arange(m % 3 if kind is InfoGraph else 0, 188, 5) for m in range(len(models))]
    ensemble = Ensemble(
        models, graphs, batch_size=64, held_out=held_out if inductive else None
    )  # fmt: skip
    assert ensemble.alone is None
    stacked = Stacked(models)
    ensemble.set_epoch(2, [3] * len(models))
    losses = ensemble.losses(stacked.parameters, stacked.buffers, next(iter(ensemble.batches(1))))
    (gradients,) = torch.autograd.grad(losses.sum(), stacked.flat)
    for m, model in enumerate(models):
        loss = model(next(iter(ensemble.batches_of(m, 1))))
        slopes = torch.autograd.grad(loss, list(model.parameters()))
        together = torch.cat([slope.flatten() for slope in slopes])
        assert abs(losses[m] - loss) <= 1e-9 * abs(loss)
        assert (gradients[m] - together).norm() <= 1e-9 * together.norm()


@pytest.mark.parametrize("mark", [-1, 255])
def test_a_batch_trains_the_models_that_have_a_negative(
    mark: int,
    mutag: GraphSet,  # noqa: F811
) -> None:
    """One class, and no, one, or every graph that has no known one."""
    one_class = mutag[(mutag.y == 1).nonzero()[:6, 0]]
    for marked, trains in ((0, False), (1, True), (6, True)):
        y = one_class.y.clone()
        y[:marked] = mark
        graphs = replace(one_class, y=y)
        models = [
            InfoGraph(GIN(graphs.n_features, dim=8, layers=2), method=name, unknown=mark)
            for name in ("ucl", "hscl")
        ]
        ensemble = Ensemble(models, graphs)
        ensemble.set_epoch(1, [1, 1])
        (batch,) = ensemble.batches(1)
        assert ensemble.trained(batch).tolist() == [True, trains]
        alone = models[1].loss
        models[1](graphs.all())
        assert alone.counts is not None
        assert bool(alone.counts["contributing"] > 0) == trains


def test_labels_that_are_not_known_are_told_of_as_by_a_model_alone(
    mutag: GraphSet,  # noqa: F811
) -> None:
    graphs, gin = labelled(mutag, 0.3), {"dim": 8, "layers": 2}
    plain = InfoGraph(GIN(graphs.n_features, **gin), method="hscl")
    marked = InfoGraph(GIN(graphs.n_features, **gin), method="scl", unknown=-1)
    free = InfoGraph(GIN(graphs.n_features, **gin), method="ucl")
    with pytest.raises(InputError) as error:
        Ensemble([free, plain], graphs)
    assert says(str(error.value), "labels", -1, "unknown=-1")
    with pytest.raises(InputError) as error:
        Ensemble([plain, marked], mutag)
    assert says(str(error.value), "labels", "unknown")
    assert Ensemble([free, marked], graphs).alone is None
    assert Ensemble([free], graphs).alone is None
    known = (graphs.y < 0).nonzero()[:, 0]
    assert Ensemble([plain], graphs, held_out=[known]).alone is None
