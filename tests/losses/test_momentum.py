"""The momentum encoder against averages by hand, alone and in the training of images."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gcl_hard import InputError, MomentumEncoder, Queue, contrastive_loss, fit
from gcl_hard.images import ImageContrast, ViewPair
from gcl_hard.images.training import build
from gcl_hard.training.checkpoint import Checkpoint
from tests.experiments.tiny_images import few_digits, runs_in, same_bits, small, tiny_encoder
from tests.said import says

__all__ = ["tiny_encoder"]

M = 0.8


class Pixels(nn.Module):
    out_dim = 6

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * 4 * 4, 6)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.linear(x.flatten(1)).tanh()
        return z


def pairs(epoch: int = 1) -> Iterator[ViewPair]:
    generator = torch.Generator().manual_seed(epoch)
    for first, second in torch.randn(4, 2, 6, 3, 4, 4, generator=generator):
        yield ViewPair(first, second, torch.arange(6) % 4)


def images(method: str = "hscl", size: int = 15, **options: Any) -> ImageContrast:
    torch.manual_seed(0)
    options = {"momentum": M, "queue": Queue(size, 4)} | options
    return ImageContrast(Pixels(), method=method, head=nn.Linear(6, 4), **options)


def test_weights_are_averages_and_buffers_those_of_the_encoder() -> None:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double()
    keys = MomentumEncoder(encoder, momentum=M)
    by_hand = [parameter.detach().clone() for parameter in encoder.parameters()]
    for _ in range(5):
        with torch.no_grad():
            for parameter in encoder.parameters():
                parameter.add_(torch.randn_like(parameter))
        encoder(torch.randn(6, 3).double())  # moves BatchNorm's statistics
        keys.update(encoder)
        by_hand = [M * k + (1 - M) * q for k, q in zip(by_hand, encoder.parameters(), strict=True)]
        copied = keys.average.module
        for ours, theirs in zip(copied.parameters(), by_hand, strict=True):
            torch.testing.assert_close(ours.detach(), theirs)
        for ours, theirs in zip(copied.buffers(), encoder.buffers(), strict=True):
            assert torch.equal(ours, theirs)
        assert not keys(torch.randn(6, 3).double()).requires_grad
    again = MomentumEncoder(encoder, momentum=M)
    again.load_state_dict(keys.state_dict())
    for parameter in (keys, again):
        parameter.update(encoder)
    assert same_bits(keys.state_dict(), again.state_dict())


@pytest.mark.parametrize("parts", [1, 3])
def test_a_training_is_that_by_hand(parts: int) -> None:
    model = images()
    encoder, head = copy.deepcopy(model.encoder), copy.deepcopy(model.head)
    slow = copy.deepcopy(nn.Sequential(encoder, head))
    loss, known = contrastive_loss("hscl"), deque[tuple[Tensor, int]](maxlen=15)
    quick = nn.Sequential(encoder, head)
    optimizer = torch.optim.Adam(quick.parameters(), lr=0.01)
    expected = []
    for epoch in (1, 2):
        values = []
        for pair in pairs(epoch):
            with torch.no_grad():
                for key, parameter in zip(slow.parameters(), quick.parameters(), strict=True):
                    key.copy_(M * key + (1 - M) * parameter)
                keys = nn.functional.normalize(slow(pair.second), dim=1)
            more = {}
            if known:
                more = {
                    "candidates": torch.stack([z for z, _ in known]),
                    "candidate_labels": torch.tensor([y for _, y in known]),
                }
            value = loss(quick(pair.first), keys, pair.labels, **more)
            assert pair.labels is not None
            known.extend(zip(keys, pair.labels.tolist(), strict=True))
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            values.append(value.item())
        expected.append(sum(values) / len(values))
    assert fit(model, pairs, epochs=2, lr=0.01, parts=parts) == pytest.approx(expected, rel=1e-5)
    for ours, theirs in ((model.encoder, encoder), (model.head, head)):
        for parameter, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(parameter, other, rtol=1e-4, atol=1e-5)
    assert model.momentum is not None
    for parameter, other in zip(
        model.momentum.average.parameters(), slow.parameters(), strict=True
    ):
        torch.testing.assert_close(parameter, other, rtol=1e-4, atol=1e-5)


def test_a_resumed_training_goes_on_with_both(tmp_path: Path) -> None:
    whole, first, second = images(), images(), images()
    fit(whole, pairs, epochs=2, lr=0.01)
    path, run = tmp_path / "run.ckpt", {"lr": 0.01}
    fit(
        first, pairs, epochs=2, lr=0.01, checkpoint=Checkpoint(path, run),
        on_epoch=lambda epoch, loss: False,
    )  # fmt: skip
    fit(second, pairs, epochs=2, lr=0.01, checkpoint=Checkpoint(path, run, resume=True))
    assert same_bits(whole.state_dict(), second.state_dict())


def test_what_is_not_training_changes_neither() -> None:
    model = images()
    (pair, *_) = pairs()
    model(pair)
    before = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        model(pair)
    model.eval()
    model(pair)
    assert same_bits(before, model.state_dict())


@pytest.mark.usefixtures("tiny_encoder")
def test_runs_on_images_have_both_as_settings(tmp_path: Path) -> None:
    config = small(momentum_encoder=M, queue=50)
    model = build(config, few_digits(), 0).model
    assert (model.momentum.momentum, len(model.queue.embeddings)) == (M, 50)
    run = runs_in(tmp_path)
    ran, plain = run(config), run(small())
    assert not same_bits(ran.weights, plain.weights)
    assert ran.weights.keys() == plain.weights.keys()  # the encoder alone is saved
    assert same_bits(ran.weights, run(config).weights)


def test_what_does_not_fit_is_refused() -> None:
    encoder = nn.Linear(3, 2)
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (lambda: MomentumEncoder(encoder, 1.0), ("momentum", 1)),
        (lambda: images("spacl"), ("hard", "momentum")),
    ]  # fmt: skip
    for call, needed in calls:
        with pytest.raises(InputError) as caught:
            call()
        assert says(str(caught.value), *needed)
