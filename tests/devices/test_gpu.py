"""On a GPU that is there: losses, steps, commands, probes, half precision, compilation."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch import Tensor, distributed

from gcl_hard import METHODS, contrastive_loss
from gcl_hard.bench import main as bench
from gcl_hard.evaluation import linear_probe
from gcl_hard.experiments.store import Store
from gcl_hard.graphs import GIN, Ensemble, InfoGraph, TwoView, load_graphs
from gcl_hard.training.ensemble import train_ensemble
from gcl_hard.training.loop import Optimisation
from gcl_hard.tune import main as tune

pytestmark = pytest.mark.gpu
GPU = "cuda"


def views(n: int) -> tuple[list[Tensor], Tensor]:
    drawn = torch.Generator().manual_seed(0)
    return [torch.randn(n, 16, generator=drawn) for _ in range(2)], torch.arange(n) % 4


def value_and_gradient(loss: torch.nn.Module, z: list[Tensor], y: Tensor) -> tuple[Tensor, Tensor]:
    z = [view.clone().requires_grad_() for view in z]
    value = loss(z, labels=y)
    value.backward()
    return value.detach().cpu(), torch.stack(
        [view.grad for view in z if view.grad is not None]
    ).cpu()


@pytest.mark.parametrize("n", [64, 1500])
@pytest.mark.parametrize("method", [name for name in METHODS if "spacl" not in name])
def test_losses_and_gradients_are_those_of_the_cpu(method: str, n: int) -> None:
    z, y = views(n)
    here = value_and_gradient(contrastive_loss(method), z, y)
    on_gpu = value_and_gradient(
        contrastive_loss(method).to(GPU), [view.to(GPU) for view in z], y.to(GPU)
    )
    for ours, theirs in zip(on_gpu, here, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("method", ["ucl", "hscl"])
def test_a_loss_waits_for_nothing(method: str) -> None:
    z, y = views(64)
    loss, views_, labels = contrastive_loss(method).to(GPU), [view.to(GPU) for view in z], y.to(GPU)
    loss(views_, labels=labels)
    torch.cuda.set_sync_debug_mode("error")
    try:
        loss([view.requires_grad_() for view in views_], labels=labels).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_single(dtype: torch.dtype) -> None:
    z, y = views(64)
    half = [view.to(GPU, dtype) for view in z]
    with torch.autocast(GPU, dtype):
        value = contrastive_loss("hscl")(half, labels=y.to(GPU))
    expected = contrastive_loss("hscl")([view.float() for view in half], labels=y.to(GPU))
    torch.testing.assert_close(value, expected)


def test_a_compiled_loss_is_the_loss() -> None:
    z, y = views(64)
    loss = contrastive_loss("hscl", streaming=False).to(GPU)
    views_, labels = [view.to(GPU) for view in z], y.to(GPU)
    torch.testing.assert_close(
        torch.compile(loss)(views_, labels=labels),
        loss(views_, labels=labels),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("kind", [InfoGraph, TwoView])
def test_an_ensemble_trains_as_on_the_cpu(kind: type[InfoGraph] | type[TwoView]) -> None:
    mutag = load_graphs("MUTAG")
    losses = []
    for device in ("cpu", GPU):
        torch.manual_seed(0)
        models = [kind(GIN(mutag.n_features), method=m).to(device) for m in ("ucl", "hucl", "hscl")]
        losses.append(train_ensemble(Ensemble(models, mutag.to(device)), Optimisation(epochs=2)))
    torch.testing.assert_close(torch.tensor(losses[1]), torch.tensor(losses[0]), rtol=0.05, atol=0)


SHORT = "--dataset=MUTAG --method=hscl --epochs=3 --folds=2 --device=cuda --threads=1"


def test_the_same_command_has_the_same_bits_if_that_is_asked_for(tmp_path: Path) -> None:
    outputs = []
    for name in "ab":
        arguments = f"{SHORT} --seeds=4 --deterministic=true --output={tmp_path / name}"
        assert bench(arguments.split()) == 0
        outputs.append([(row.name, row.final_losses) for row in Store(tmp_path / name).rows()])
    assert outputs[0] == outputs[1]


def test_a_search(tmp_path: Path) -> None:
    assert tune([*SHORT.split(), "--trials=4", f"--output={tmp_path}"]) == 0


def test_a_probe_is_that_of_the_cpu() -> None:
    drawn = torch.Generator().manual_seed(0)
    y = torch.arange(80) % 4
    x = torch.nn.functional.one_hot(y, 8).float() + 0.3 * torch.randn(80, 8, generator=drawn)
    scores = [
        linear_probe(
            x[:60].numpy(), y[:60].numpy(), x[60:].numpy(), y[60:].numpy(), seed=0, device=device
        ).accuracy
        for device in ("cpu", GPU)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=0.05)


def test_a_process_of_its_own_trains_over_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "RANK": "0", "WORLD_SIZE": "1",
    }.items():  # fmt: skip
        monkeypatch.setitem(os.environ, name, value)
    distributed.init_process_group("nccl")
    try:
        z, y = views(32)
        views_, labels = [view.to(GPU) for view in z], y.to(GPU)
        gathered = contrastive_loss("hscl", negatives="gathered").to(GPU)
        torch.testing.assert_close(
            gathered(views_, labels=labels), contrastive_loss("hscl").to(GPU)(views_, labels=labels)
        )
    finally:
        distributed.destroy_process_group()
