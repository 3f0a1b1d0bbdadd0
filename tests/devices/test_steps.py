"""Training steps on a GPU: no wait of the host, one copy a batch, launches that do not grow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from gcl_hard import ContrastiveLoss, NegativeSampler, contrastive_loss
from gcl_hard.graphs import GIN, Ensemble, GraphClassifier, GraphSet, InfoGraph, TwoView
from gcl_hard.graphs.copies import on_device
from gcl_hard.graphs.models import GraphModel
from gcl_hard.graphs.tudataset import load_graphs
from gcl_hard.graphs.view_losses import ViewLosses
from gcl_hard.training.ensemble import train_ensemble
from gcl_hard.training.loop import Optimisation
from tests.devices.pretended import OnDevice, Record, pretended

GPU = "cuda"
STEPS = 2  # of an epoch: MUTAG has two batches
METHODS: list[dict[str, Any]] = [
    {"method": "ucl"}, {"method": "hucl", "beta": 2.0}, {"method": "scl"},
    {"method": "hscl", "beta": 1.0},
]  # fmt: skip


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    return load_graphs("MUTAG")


def info(graphs: GraphSet, **settings: Any) -> GraphModel:
    return InfoGraph(GIN(graphs.n_features, dim=8, layers=2), **settings)


def views(graphs: GraphSet, **settings: Any) -> GraphModel:
    return TwoView(GIN(graphs.n_features, dim=8, layers=2), **settings)


def supervised(graphs: GraphSet, **settings: Any) -> GraphModel:
    return GraphClassifier(GIN(graphs.n_features, dim=8, layers=2), n_classes=2)


def on_both(
    kind: Any, graphs: GraphSet, settings: Sequence[dict[str, Any]]
) -> tuple[list[Any], list[Any], Record]:
    """Losses on the CPU and there, and what a GPU was asked for by one epoch more."""
    losses, records = [], []
    for epochs, on_gpu in ((3, False), (1, True), (3, True)):
        torch.manual_seed(0)
        models = [kind(graphs, **options) for options in settings]
        with pretended() as record:
            moved = graphs
            if on_gpu:
                models, moved = [model.to(GPU) for model in models], graphs.to(GPU)
            start = len(record)
            # At the usual rate a rounding grows a thousandfold in six steps, by the CPU.
            optimisation = Optimisation(epochs=epochs, lr=0.001)
            losses.append(train_ensemble(Ensemble(models, moved), optimisation))
        records.append(record[start:])
    more = Counter(records[2]) - Counter(records[1])  # of two epochs
    return losses[0], losses[2], Record(more.elements())


@pytest.mark.parametrize("kind", [info, views, supervised])
def test_an_ensemble_trains_there_as_here_and_a_step_waits_for_nothing(
    kind: Any, mutag: GraphSet
) -> None:
    on_cpu, on_gpu, record = on_both(kind, mutag, METHODS)
    torch.testing.assert_close(torch.tensor(on_gpu), torch.tensor(on_cpu), rtol=1e-4, atol=1e-5)
    assert record.count("wait") == 2, record.tally("wait")  # an epoch's losses
    copies = Counter(event.operation for event in record if event.kind == "to device")
    assert copies["pinned"] == 2 * STEPS
    assert copies["pageable"] <= 2 * 8, record.tally("to device")  # an epoch's schedules
    assert record.count("double") == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", [info, views, supervised])
def test_launches_of_a_step_do_not_grow_with_the_models(kind: Any, mutag: GraphSet) -> None:
    few, many = (
        on_both(kind, mutag, [options for options in METHODS for _ in range(times)])[2].count(
            "launch"
        )
        for times in (1, 4)
    )
    assert many <= 1.02 * few


def test_a_model_trained_by_itself_waits_once_an_epoch(mutag: GraphSet) -> None:
    _, _, record = on_both(info, mutag, [{"method": "hucl", "objective": "infonce"}])
    assert record.count("wait") == 2, record.tally("wait")


def test_what_goes_to_a_device_goes_in_one_copy_and_keeps_types_shapes_and_sparsity() -> None:
    csr = torch.eye(3, dtype=torch.float64).to_sparse_csr()
    content = (
        torch.arange(5),
        [torch.ones(2, 3, dtype=torch.float64), csr],
        torch.tensor(True),
        "a",
    )
    with pretended() as record:
        moved = on_device(content, GPU, torch.float32)
        assert record.count("to device") == 1
        numbers, (ones, sparse), flag, word = moved
        assert all(isinstance(tensor, OnDevice) for tensor in (numbers, ones, sparse, flag))
        assert (numbers.dtype, ones.dtype, sparse.layout) == (
            torch.int64, torch.float32, torch.sparse_csr,
        )  # fmt: skip
        assert word == "a"
        assert numbers.tolist() == [0, 1, 2, 3, 4]
        assert (sparse @ ones.T.new_ones(3, 1)).flatten().tolist() == [1, 1, 1]
        assert bool(flag)
        assert ones.cpu().equal(torch.ones(2, 3))


def test_gradients_pass_where_tensors_are_moved() -> None:
    x: Tensor = torch.ones(2, requires_grad=True)
    with pretended():
        moved, _ = on_device((x, torch.ones(1)), GPU)
        (3 * moved).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3, 3]


def test_losses_that_are_not_finite_are_not_hidden_where_models_are_taken_together() -> None:
    z = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0))
    z[1, 3] = torch.nan
    losses = [contrastive_loss("ucl"), contrastive_loss("hucl")]
    y = torch.arange(4) % 2
    here, used = ViewLosses(losses, z)(z, 2, y)
    with pretended():
        losses_, counted = ViewLosses(losses, z.to(GPU))(z.to(GPU), 2, y.to(GPU))
        on_gpu, counted = losses_.cpu(), counted.cpu()
    torch.testing.assert_close(on_gpu, here, equal_nan=True)
    assert counted.equal(used)


def test_a_loss_of_ones_own_is_called() -> None:
    class Thrice(ContrastiveLoss):
        def forward(self, *args: Any, **named: Any) -> Tensor:
            return 3 * super().forward(*args, **named)

    z = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0))
    y = torch.arange(4) % 2
    once, thrice = (
        [kind(NegativeSampler()) for _ in range(2)] for kind in (ContrastiveLoss, Thrice)
    )
    for device in ("cpu", GPU):
        with pretended():
            (single, _), (threefold, _) = (
                ViewLosses(losses, z.to(device))(z.to(device), 2, y.to(device))
                for losses in (once, thrice)
            )
            torch.testing.assert_close(threefold.cpu(), 3 * single.cpu())
