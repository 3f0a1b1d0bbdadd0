"""What a population cannot be made of, or trained with, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gcl_hard import ContrastiveLoss, Exponential, NegativeSampler
from gcl_hard.errors import InputError, OutOfMemory
from gcl_hard.functional.rowwise import MeanThreshold
from gcl_hard.functional.schedules import Linear
from gcl_hard.graphs import GIN, Ensemble, GraphClassifier, GraphSet, InfoGraph, TwoView
from gcl_hard.graphs.ensemble import refusal
from gcl_hard.graphs.models import GraphModel
from gcl_hard.graphs.order import epoch_batches
from gcl_hard.training.ensemble import train_ensemble
from gcl_hard.training.loop import Optimisation, train
from tests.said import says
from tests.training.ensembles import (
    batches_of,
    models,
    mutag,
    same_bits,
)

__all__ = ["mutag"]


# What cannot be stacked


class Mine(nn.Module):
    """An encoder of a user's own."""

    out_dim = 4

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(7, 4)

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, **_: Tensor
    ) -> tuple[Tensor, Tensor]:
        nodes = self.linear(x)
        graphs = nodes.new_zeros(int(batch[-1]) + 1, 4).index_add(0, batch, nodes)
        return nodes, graphs


def test_an_encoder_of_ones_own_is_trained_one_by_one_and_that_is_said(mutag: GraphSet) -> None:
    def mine() -> list[GraphModel]:
        torch.manual_seed(0)
        return [InfoGraph(Mine(), method=name) for name in ("ucl", "hscl")]

    together, apart = mine(), mine()
    held_out = [torch.arange(20), None]
    population = Ensemble(together, mutag, batch_size=64, held_out=held_out)
    assert says(str(population.alone), "Mine", "stacked")
    with pytest.warns(UserWarning, match=r"\bMine\b.*\bstacked\b.*\b2 models\b"):
        losses = train_ensemble(population, Optimisation(epochs=2))
    for m, alone in enumerate(apart):
        plain = train(
            alone, lambda e, m=m: batches_of(mutag, 64, held_out[m], e), Optimisation(epochs=2)  # type: ignore[misc]
        )  # fmt: skip
        assert losses[m] == plain
        assert same_bits(together[m], alone)


def jsd(sampler: NegativeSampler, **options: Any) -> InfoGraph:
    return InfoGraph(GIN(7, dim=4), loss=ContrastiveLoss(sampler, objective="jsd", **options))


def cosine(hardening: Exponential) -> InfoGraph:
    return jsd(NegativeSampler(hardening=hardening), hardness_scale="cosine")


@pytest.mark.parametrize(
    "make",
    [
        lambda: TwoView(GIN(7), one_forward=False),
        lambda: InfoGraph(GIN(7), objective="infonce"),
        lambda: jsd(NegativeSampler(draws=3)),
        lambda: jsd(NegativeSampler(), on_empty="raise"),
        lambda: jsd(NegativeSampler(hardening=MeanThreshold())),
        lambda: jsd(NegativeSampler(hardening=lambda t: t)),
        lambda: cosine(Exponential(Linear(0.0, 500.0))),
        lambda: jsd(NegativeSampler(pair_weights=torch.zeros(9, 9))),
    ],
)
def test_a_model_that_no_ensemble_can_train_trains_alone(make: Any) -> None:
    assert refusal(make())
    assert refusal(InfoGraph(GIN(7, dim=4))) is None


def spoilt(change: Any, make: Any = None) -> Any:
    def build() -> GraphModel:
        model_ = InfoGraph(GIN(7, dim=4)) if make is None else make()
        change(model_)
        return model_

    return build


class OwnLoss(ContrastiveLoss):
    """A loss of a user's own."""


@pytest.mark.parametrize(
    "make",
    [
        spoilt(lambda model_: model_.encoder.convs[0].requires_grad_(requires_grad=False)),
        spoilt(lambda model_: setattr(model_, "loss", OwnLoss(NegativeSampler(), objective="jsd"))),
        spoilt(lambda model_: setattr(model_, "node_head", nn.Linear(12, 12))),
        spoilt(lambda model_: model_.encoder.convs[1].eps.fill_(0.5)),
        spoilt(lambda model_: model_.encoder.norms.__setitem__(0, nn.LayerNorm(4))),
        spoilt(
            lambda model_: model_.encoder.norms.__setitem__(0, nn.BatchNorm1d(4, momentum=None))
        ),
        spoilt(lambda model_: model_.encoder.norms.__setitem__(0, nn.BatchNorm1d(4, affine=False))),
    ],
)
def test_what_only_looks_like_our_model_trains_alone(mutag: GraphSet, make: Any) -> None:
    assert says(refusal(make()) or "", "stacked")
    if isinstance(make().node_head, nn.Linear):
        return
    torch.manual_seed(0)
    look_alike = make()
    torch.manual_seed(0)
    other = make()
    (losses,) = train_ensemble(Ensemble([look_alike], mutag), Optimisation(epochs=2))
    assert losses == train(other, lambda e: batches_of(mutag, 128, None, e), Optimisation(epochs=2))


def test_what_no_ensemble_can_be_made_of_or_trained_with_is_refused(mutag: GraphSet) -> None:
    first, two = InfoGraph(GIN(7, dim=8, layers=2)), models(mutag, torch.float32)[:2]
    wrong = torch.tensor([999]), torch.tensor([-1]), torch.tensor([0.5]), torch.ones(187).bool()

    def beside(other: Any) -> Any:
        return lambda: train_ensemble(Ensemble([first, other], mutag), Optimisation(epochs=1))

    for ids in wrong:
        with pytest.raises((InputError, IndexError)):
            Ensemble([first], mutag, held_out=[ids])
    for name, call in (
        ("held_out", lambda: Ensemble(two, mutag, held_out=[None])),
        ("model", lambda: Ensemble([], mutag)),
        ("shapes", beside(InfoGraph(GIN(7, dim=4)))),
        ("float64", beside(InfoGraph(GIN(7, dim=8, layers=2)).double())),
        ("mean", beside(InfoGraph(GIN(7, dim=8, layers=2, readout="mean")))),
        ("GraphClassifier", beside(GraphClassifier(GIN(7, dim=8, layers=2), 2))),
        ("optimisations", lambda: train_ensemble(Ensemble(two, mutag), [Optimisation()])),
        *((name, lambda more=more: train_ensemble(Ensemble(two, mutag), Optimisation(**more)))
          for name, more in (
              ("precision", {"precision": "bf16-mixed"}), ("parts", {"parts": 4}),
              ("Adam", {"optimizer": torch.optim.SGD}),
          )),
    ):  # fmt: skip
        with pytest.raises(InputError, match=name):
            call()


def test_a_population_can_be_trained_twice(mutag: GraphSet) -> None:
    members = models(mutag, torch.float32)[:2]
    population = Ensemble(members, mutag)
    hows = [Optimisation(epochs=1), Optimisation(epochs=3)]
    assert [len(losses) for losses in train_ensemble(population, hows)] == [1, 3]
    assert population.models == members
    assert [len(losses) for losses in train_ensemble(population, hows)] == [1, 3]


def test_held_out_graphs_that_leave_members_other_batches_are_refused(mutag: GraphSet) -> None:
    members = models(mutag, torch.float32)[:2]
    last = epoch_batches(mutag.n_graphs, 93, seed=0, epoch=1)[-1]
    assert len(last) == 2
    population = Ensemble(members, mutag, batch_size=93, held_out=[last, None])
    with pytest.raises(InputError, match=r"held-out\b.*\bbatches\b.*\bepoch 1\b"):
        train_ensemble(population, Optimisation(epochs=1))


def test_memory_that_runs_out_says_what_to_lower(
    mutag: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    population = Ensemble(models(mutag, torch.float32)[:2], mutag)

    def full(*_: object) -> Tensor:
        raise MemoryError

    monkeypatch.setattr(population, "losses", full)
    with pytest.raises(OutOfMemory, match=r"\b2 models\b"):
        train_ensemble(population, Optimisation(epochs=1))
