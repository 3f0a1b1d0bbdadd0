"""The contrastive model between an encoder and the loss."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from gcl_hard import ContrastiveLoss, NegativeSampler, contrastive_loss
from gcl_hard.errors import InputError
from gcl_hard.functional.hardening import Rows
from gcl_hard.images.batching import ViewPair
from gcl_hard.images.datasets import Split
from gcl_hard.images.models import ImageClassifier, ImageContrast, fast_net, resnet
from gcl_hard.losses.methods import METHODS
from gcl_hard.training.loop import fit
from tests.images.sets import images, views
from tests.reference import loops
from tests.said import says

MET = torch.ones(1, 1, dtype=torch.bool)


class Flat(nn.Module):
    """A user's own encoder: no ResNet, no out_dim."""

    def __init__(self, size: int = 8, d: int = 6) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * size * size, d)
        self.norm = nn.BatchNorm1d(d)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.linear(x.flatten(1)))
        return out


def pair(n: int = 6, seed: int = 0) -> ViewPair:
    generator = torch.Generator().manual_seed(seed)
    first, second = torch.rand(2, n, 3, 8, 8, generator=generator)
    return ViewPair(first, second, torch.arange(n) % 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ImageContrast(Flat()), r"^out_dim\b.*\bFlat\b.* None$"),
        (lambda: ImageContrast(Flat(), 7)(pair()), r"embeddings \[12, 7\]\D+\[12, 6\]"),
        (lambda: ImageContrast(nn.Identity(), 3)(pair()), r"\[12, 3\]\D+\[12, 3, 8, 8\]"),
    ],
)
def test_an_encoder_that_does_not_fit_is_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=message):
        call()


def test_images_that_are_no_views_yet_are_told_how_to_be_trained_on() -> None:
    split = Split(torch.zeros(8, 3, 8, 8, dtype=torch.uint8), torch.arange(8) % 2)
    with pytest.raises(InputError) as caught:
        fit(ImageContrast(fast_net(4)), split)
    assert says(str(caught.value), "Split", "ViewPairs", "images")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_any_module(method: str) -> None:
    model = ImageContrast(Flat(), 6, method=method)
    loss = model(pair())
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_the_loss_is_that_of_the_projected_unit_rows() -> None:
    model, both = ImageContrast(Flat(), 6, method="hscl", beta=2.0, temperature=0.5), pair()
    with torch.no_grad():
        z = model.project(torch.cat([both.first, both.second]))
        got = model(both)
    assert torch.allclose(z.norm(dim=1), torch.ones(12))
    expected = loops.infonce_two_view(
        z[:6].tolist(), z[6:].tolist(), both.labels.tolist(), admit="other_labels",
        positives="class", eta=lambda t: math.exp(2 * t), gamma=0.5, reduction="pairs",
    )  # fmt: skip
    assert got.item() == pytest.approx(expected, rel=1e-5)


def test_one_pass_or_two_differ_by_batchnorm_alone() -> None:
    joint = ImageContrast(Flat(), 6, method="ucl")
    separate = copy.deepcopy(joint)
    separate.one_forward = False
    both = pair()
    assert not torch.equal(joint(both), separate(both))
    joint.eval()
    separate.load_state_dict(joint.state_dict())
    separate.eval()
    torch.testing.assert_close(joint(both), separate(both))


def test_a_loss_of_ones_own_and_a_schedule() -> None:
    custom = ContrastiveLoss(NegativeSampler(admit="others"), temperature=0.3)
    assert ImageContrast(Flat(), 6, loss=custom).loss is custom
    with pytest.raises(InputError, match=r"\bloss\b.*\bbeta\b"):
        ImageContrast(Flat(), 6, loss=custom, beta=1.0)
    model = ImageContrast(Flat(), 6, loss=contrastive_loss("hscl-tau"))
    losses: list[Tensor] = []
    for epoch in (1, 5):
        model.set_epoch(epoch, 5)
        sampler = model.loss.sampler.current
        losses.append(sampler.log_eta(Rows(torch.tensor([[-0.2]]), 0.5, torch.zeros(1, 1), MET)))
    assert [row.item() for row in losses] == [0.0, -math.inf]  # −0.2 ≥ −0.5, and < 0


def test_embeddings_are_the_encoders_in_eval_mode_and_change_nothing() -> None:
    model = ImageContrast(Flat(), 6)
    model(pair())  # running statistics
    model.head.eval()
    before = copy.deepcopy(dict(model.encoder.state_dict()))
    x, plain = images(7), views()
    z = model.embed(x, plain, batch_size=3)
    assert model.training
    assert not model.head.training
    assert all(torch.equal(before[k], v) for k, v in model.encoder.state_dict().items())
    assert z.dtype == torch.float32
    assert not z.requires_grad
    model.eval()
    expected = torch.stack([model.encoder(plain.plain(x[i : i + 1]))[0] for i in range(7)])
    torch.testing.assert_close(z, expected, rtol=1e-5, atol=1e-6)
    half = model.embed(x, plain, precision=torch.bfloat16)
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, z, rtol=0.05, atol=0.05)


def test_channels_last_gives_the_same_embeddings() -> None:
    torch.manual_seed(0)
    plain = ImageContrast(resnet("resnet18")).eval()
    last = ImageContrast(copy.deepcopy(plain.encoder), channels_last=True).eval()
    x = images(3)
    assert last.encoder.conv1.weight.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(
        plain.embed(x, views()), last.embed(x, views()), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("one_forward", [True, False])
def test_the_supervised_baseline_has_the_cross_entropy_of_its_classifier(one_forward: bool) -> None:
    model = ImageClassifier(Flat(), 3, out_dim=6, one_forward=one_forward).eval()
    batch = pair()
    losses = []
    for view in batch.views:
        logits = (model.encoder(view) @ model.head.weight.T + model.head.bias).tolist()
        for row, label in zip(logits, batch.labels.tolist(), strict=True):
            losses.append(math.log(sum(map(math.exp, row))) - row[label])
    assert float(model(batch).detach()) == pytest.approx(sum(losses) / len(losses), rel=1e-5)
