"""Heads and models of vectors, and their views."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gcl_hard import ContrastiveLoss, InputError, fit
from gcl_hard.vectors import (
    ItemClassifier,
    ItemContrast,
    VectorHead,
    VectorSet,
    VectorViews,
)
from gcl_hard.vectors.models import Scaling, moments


def test_a_head_as_wide_as_its_input_begins_at_it_and_learns() -> None:
    torch.manual_seed(0)
    y = torch.arange(40) % 4
    x = torch.randn(40, 5) + torch.eye(4, 5)[y]
    vectors = VectorSet.from_arrays(x, y)
    for layers in (1, 3):
        head = VectorHead(5, hidden=32, layers=layers, dropout=0.1)
        assert head(x).equal(x)  # in training, too
        losses = fit(ItemContrast(head, method="scl"), vectors, batch_size=30, epochs=20, lr=0.01)
        assert losses[-1] < losses[0]
        assert not head(x).equal(x)
    narrow = VectorHead(5, dim=3)
    assert narrow(x).shape == (40, 3)
    assert narrow(x).abs().sum() > 0


def test_a_head_is_the_input_and_an_mlp() -> None:
    head = VectorHead(4, hidden=7, layers=2)
    with torch.no_grad():
        for weight in head.parameters():
            weight.normal_()
    x = torch.randn(3, 4)
    linears = [layer for layer in head.modules() if isinstance(layer, nn.Linear)]
    hidden = x
    for number, layer in enumerate(linears):
        hidden = hidden @ layer.weight.T + layer.bias
        hidden = hidden.clamp(min=0) if number < 2 else hidden
    torch.testing.assert_close(head(x), x + hidden)


def test_the_loss_is_that_of_the_embeddings_of_views() -> None:
    x, y = torch.randn(6, 5), torch.tensor([0, 0, 1, 1, -1, 2])
    model = ItemContrast(VectorHead(5), method="hscl", beta=2.0, views=None, seed=3)
    loss: ContrastiveLoss = model.loss
    torch.testing.assert_close(model((x, y)), loss(x, x, y))
    calls: list[Tensor] = []

    def view(batch: Tensor, generator: torch.Generator) -> Tensor:
        calls.append(batch + torch.rand(batch.shape, generator=generator))
        return calls[-1]

    model = ItemContrast(VectorHead(5), method="ucl", views=view)
    value = model((x, y))
    assert len(calls) == 2
    torch.testing.assert_close(value, model.loss(*calls, y))


def test_with_hard_positives_the_first_view_is_the_item() -> None:
    x, y = torch.randn(6, 5), torch.tensor([0, 0, 1, 1, 2, 2])
    seen: list[Tensor] = []

    class Seeing(nn.Module):
        out_dim = 5

        def forward(self, batch: Tensor) -> Tensor:
            seen.append(batch)
            return batch

    ItemContrast(Seeing(), method="spacl", n_views=4)((x, y))
    assert len(seen) == 4
    assert seen[0].equal(x)
    assert not any(view.equal(x) for view in seen[1:])


def test_another_shape_than_the_width_is_refused() -> None:
    class Wrong(nn.Module):
        out_dim = 3

        def forward(self, batch: Tensor) -> Tensor:
            return batch

    with pytest.raises(InputError):
        ItemContrast(Wrong())((torch.ones(2, 5), torch.tensor([0, 1])))


def test_the_supervised_loss_is_cross_entropy() -> None:
    x, y = torch.randn(6, 5), torch.tensor([0, 2, 1, 1, 0, 2])
    model = ItemClassifier(VectorHead(5), 3)
    logits = x @ model.classifier.weight.T + model.classifier.bias
    expected = -logits.log_softmax(1)[torch.arange(6), y].mean()
    torch.testing.assert_close(model((x, y)), expected)


def test_views_drop_mask_and_add_noise_as_said() -> None:
    x, deviation = torch.ones(20_000, 4), torch.tensor([0.0, 1, 2, 3])

    def view(**settings: float) -> Tensor:
        views = VectorViews(**{"drop_entries": 0.0} | settings)
        return views(x, torch.Generator().manual_seed(0), deviation)

    assert view().equal(x)
    dropped = view(drop_entries=0.25)
    assert dropped.unique().tolist() == pytest.approx([0, 4 / 3])
    torch.testing.assert_close(dropped.mean(0), torch.ones(4), atol=0.02, rtol=0)
    masked = view(mask_columns=0.5)
    assert (masked == masked[0]).all()
    assert {*masked[0].tolist()} == {0.0, 1.0}
    noisy = view(noise=0.1) - x
    torch.testing.assert_close(noisy.std(0), 0.1 * deviation, atol=0.01, rtol=0)


def test_scalings_are_those_of_numpy() -> None:
    x = torch.randn(50, 3) * 5 + 2
    x[:, 2] = 7
    scaling = Scaling(3, "standardised")
    scaling.fit(x)
    z = scaling(x).numpy()
    np.testing.assert_allclose(z[:, :2].mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(z[:, :2].std(0), 1, atol=1e-6)
    assert (z[:, 2] == 0).all()
    np.testing.assert_allclose(np.linalg.norm(Scaling(3, "unit")(x), axis=1), 1, atol=1e-6)
    assert moments(x)[1][2] == 1
