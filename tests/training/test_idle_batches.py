"""Batches that train nothing, in every kind of training."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gcl_hard import contrastive_loss
from gcl_hard.errors import InputError
from gcl_hard.graphs import GIN, Ensemble, GraphSet, InfoGraph, TwoView, load_graphs
from gcl_hard.training.checkpoint import Checkpoint
from gcl_hard.training.ensemble import train_ensemble
from gcl_hard.training.loop import Optimisation, train
from tests.said import says
from tests.training.ensembles import in_dtype


class Pairs(nn.Module):
    """Two noisy views of points, under a loss."""

    def __init__(self, method: str = "hscl") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Linear(3, 4)
        self.loss = contrastive_loss(method)

    def forward(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, y = batch
        value: Tensor = self.loss(self.net(x), self.net(x + 0.1), y)
        return value


def batches(*classes: list[int]) -> list[tuple[Tensor, Tensor]]:
    torch.manual_seed(1)
    return [(torch.randn(len(y), 3), torch.tensor(y)) for y in classes]


MIXED, ONE, OTHER = [0, 0, 1, 1], [1, 1, 1], [0, 1, 2, 2]


def test_the_zeros_of_batches_without_negatives_are_counted_and_not_in_the_mean() -> None:
    batch_list = batches(MIXED, ONE, OTHER, ONE)
    model = Pairs()
    before = copy.deepcopy(model)
    seen: list[float] = []
    for batch in batch_list:  # at a rate so small that the weights stay as they are
        seen.append(before(batch).item())
    assert [loss > 0 for loss in seen] == [True, False, True, False]
    with pytest.warns(UserWarning, match=r"\b2\b.*\b4 batches\b") as caught:
        means = train(model, batch_list, Optimisation(epochs=2, lr=1e-12))
    assert len(caught) == 1
    assert means == pytest.approx([(seen[0] + seen[2]) / 2] * 2, rel=1e-6)


@pytest.mark.parametrize(
    ("method", "classes"), [("scl", [ONE, ONE]), ("hscl-tau", [ONE]), ("ucl", [[0], [1], [1]])]
)
def test_an_epoch_that_trains_nothing_is_refused(method: str, classes: list[list[int]]) -> None:
    n = len(classes)
    with pytest.raises(InputError) as caught:
        train(Pairs(method), batches(*classes), Optimisation(epochs=3, lr=0.01))
    assert says(str(caught.value), n, n, "epoch", 1, "negative")


def test_a_small_last_batch_is_no_matter_either_but_its_zero_is_not_in_the_mean() -> None:
    batch_list = batches([0, 1] * 3, [0, 1] * 3, [1, 1])
    seen = [Pairs()(batch).item() for batch in batch_list]
    means = train(
        Pairs(), batch_list, Optimisation(epochs=1, lr=1e-12)
    )  # a warning would be an error
    assert means == pytest.approx([(seen[0] + seen[1]) / 2], rel=1e-6)


def test_a_resumed_run_keeps_what_trained(tmp_path: Path) -> None:
    batch_list = batches(ONE, MIXED, OTHER)
    optimisation = Optimisation(epochs=2, lr=0.01)
    with pytest.warns(UserWarning, match=r"\b1\b.*\b3 batches\b"):
        expected = train(Pairs(), batch_list, optimisation)
    first = Checkpoint(tmp_path / "run.ckpt", {}, every=0)

    class Stopping(Pairs):
        def forward(self, batch: tuple[Tensor, Tensor]) -> Tensor:
            if len(batch[1]) == len(OTHER) and bool((batch[1] == 2).any()):
                first.stop()
            return super().forward(batch)

    with pytest.raises(KeyboardInterrupt):
        train(Stopping(), batch_list, optimisation, checkpoint=first)
    again = Checkpoint(tmp_path / "run.ckpt", {}, resume=True, every=math.inf)
    with pytest.warns(UserWarning, match=r"\b1\b.*\b3 batches\b"):
        assert train(Pairs(), batch_list, optimisation, checkpoint=again) == expected


def skewed() -> GraphSet:
    """Ten graphs of a class and two of another, in small batches."""
    mutag = load_graphs("MUTAG")
    y = mutag.y.tolist()
    ids = [i for i, c in enumerate(y) if c == 1][:10] + [i for i, c in enumerate(y) if c == 0][:2]
    return mutag.take(torch.tensor(ids))


@pytest.mark.filterwarnings("ignore:.*batches")
@pytest.mark.parametrize("kind", [InfoGraph, TwoView])
def test_an_ensemble_counts_them_as_its_models_do_alone(kind: Any) -> None:
    graphs = in_dtype(skewed(), torch.float64)
    methods = ("hscl", "ucl", "scl") if kind is InfoGraph else ("hscl", "scl")
    held_out = [None, torch.tensor([0, 1, 2]), torch.tensor([10])] if kind is InfoGraph else None
    optimisation = Optimisation(epochs=1, lr=1e-9, precision="64-true")

    def models() -> list[Any]:
        torch.manual_seed(2)
        return [kind(GIN(7, dim=4, layers=1), method=method).double() for method in methods]

    together = Ensemble(models(), graphs, batch_size=3, held_out=held_out)
    with pytest.warns(UserWarning, match=r"\b[1-3]\b.*\b4 batches\b"):
        results = train_ensemble(together, optimisation)
    for m, model in enumerate(models()):
        alone = train(model, lambda epoch, m=m: together.batches_of(m, epoch), optimisation)
        assert results[m] == pytest.approx(alone, rel=1e-6)


class Halves(Pairs):
    """Two losses a batch, of which the last may have no negative, and what else there is."""

    def __init__(self, more: float = 0.0) -> None:
        super().__init__()
        self.more = more

    def forward(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        parts = zip(*(tensor.chunk(2) for tensor in batch), strict=True)
        value: Tensor = sum(super(Halves, self).forward(part) for part in parts)  # type: ignore[assignment]
        return value + self.more * self.net.weight.square().sum()


def test_a_batch_trains_if_any_part_of_its_loss_does() -> None:
    optimisation = Optimisation(epochs=1, lr=0.01)
    assert train(Halves(), batches([0, 1, 0, 1, 0, 0, 0, 0]), optimisation)[0] > 0
    assert train(Halves(0.1), batches([0] * 8), optimisation)[0] > 0
    with pytest.raises(InputError, match=r"\b1\b.*\b1 batches\b"):
        train(Halves(), batches([0] * 8), optimisation)


def test_a_loss_that_training_cannot_see_is_told_by_its_zeros() -> None:
    class Hidden(Pairs):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = [self.loss]
            del self.loss

        def forward(self, batch: tuple[Tensor, Tensor]) -> Tensor:
            x, y = batch
            value: Tensor = self.hidden[0](self.net(x), self.net(x + 0.1), y)
            return value

    with pytest.warns(UserWarning, match="every batch"):
        assert train(Hidden(), batches(ONE, ONE), Optimisation(epochs=2, lr=0.01)) == [0, 0]
    assert train(Hidden(), batches(MIXED, ONE), Optimisation(epochs=1, lr=0.01))[0] > 0
