"""Encoders by name: ResNets, the fast net, those of libraries; and the projection head."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torchvision import models

from gcl_hard.errors import InputError
from gcl_hard.images.models import image_encoder, resnet, stem_for


@pytest.mark.parametrize(
    ("name", "d", "n_parameters"),
    # of the CIFAR ResNets with ten classes in the literature, 11,173,962 and 23,520,842, less
    # their classifiers of 10 · (d + 1)
    [("resnet18", 512, 11_168_832), ("resnet50", 2048, 23_500_352)],
)
def test_a_resnet_with_the_cifar_stem(name: str, d: int, n_parameters: int) -> None:
    encoder = resnet(name, stem="cifar")  # type: ignore[arg-type]
    assert sum(p.numel() for p in encoder.parameters()) == n_parameters
    assert encoder.out_dim == d
    seen: list[torch.Size] = []
    encoder.layer1.register_forward_hook(lambda *args: seen.append(args[1][0].shape))
    assert encoder(torch.zeros(2, 3, 32, 32)).shape == (2, d)
    assert seen[0][-2:] == (32, 32)  # nothing was thrown away before the first block


@pytest.mark.parametrize(("name", "times"), [("resnet18", 8), ("resnet50", 32)])
@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
def test_a_slim_resnet_has_the_layers_of_the_usual_one(name: str, times: int, stem: str) -> None:
    usual, slim = resnet(name, stem=stem), resnet(name, stem=stem, width=16)  # type: ignore[arg-type]
    assert slim.out_dim == 16 * times
    assert slim(torch.rand(2, 3, 32, 32)).shape == (2, 16 * times)
    shapes = dict(usual.named_parameters())
    for key, value in slim.named_parameters():
        scaled = [n if n == 3 or i > 1 else n // 4 for i, n in enumerate(shapes.pop(key).shape)]
        assert list(value.shape) == scaled
        assert value.ndim < 4 or value.detach().std() == pytest.approx(
            (2 / (value.shape[0] * value.shape[2:].numel())) ** 0.5, rel=0.2
        )
    assert not shapes


@pytest.mark.parametrize("width", [4, 32])
def test_the_fast_net_reads_small_images(width: int) -> None:
    net = image_encoder("fast", width=width)
    assert net.out_dim == 4 * width
    for side in (8, 32, 33):
        assert net(torch.rand(3, 3, side, side)).shape == (3, 4 * width)
    w = width
    convolutions = 12 * w + w + 9 * (w * w * (1 + 1 + 2 + 4 + 8 + 16))
    norms = 2 * w * (1 + 2 * (1 + 2 + 4))
    assert sum(p.numel() for p in net.parameters()) == convolutions + norms


@pytest.mark.parametrize(
    "name",
    ["shufflenet_v2_x0_5", "mobilenet_v3_small", "densenet121", "efficientnet_b0", "squeezenet1_1",
     "googlenet", "inception_v3"],
)  # fmt: skip
def test_torchvisions_encoders_have_all_but_the_classifier(name: str) -> None:
    encoder = image_encoder(f"torchvision:{name}")
    d = encoder.out_dim
    auxiliary = name in ("googlenet", "inception_v3")
    plain = {"aux_logits": False, "init_weights": False} if auxiliary else {}
    whole = models.get_model(name, weights=None, **plain)
    n_parameters = sum(p.numel() for p in whole.parameters()) - 1000 * (d + 1)
    assert sum(p.numel() for p in encoder.parameters()) == n_parameters
    whole.load_state_dict(encoder.state_dict(), strict=False)
    *_, classifier = (m for m in whole.modules() if isinstance(m, nn.Linear | nn.Conv2d))
    read: list[torch.Tensor] = []
    classifier.register_forward_hook(lambda module, inputs, _: read.append(inputs[0]))
    x = torch.rand(2, 3, 80, 80)
    with torch.no_grad():
        whole.eval()(x)
        z = read[0].mean((2, 3)) if read[0].ndim == 4 else read[0]
        torch.testing.assert_close(encoder.eval()(x), z)
        assert encoder.train()(x).shape == (2, d)


@pytest.mark.parametrize("name", ["test_resnet", "test_efficientnet", "test_convnext", "test_vit"])
def test_timms_encoders_have_all_but_the_classifier(name: str) -> None:
    timm = pytest.importorskip("timm")
    encoder = image_encoder(f"timm:{name}").eval()
    whole = timm.create_model(name).eval()
    whole.load_state_dict(encoder.state_dict(), strict=False)
    x = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        z = encoder(x)
        assert z.shape == (2, encoder.out_dim)
        torch.testing.assert_close(whole.get_classifier()(z), whole(x))


def test_weights_of_timm_are_not_left_out_in_silence() -> None:
    pytest.importorskip("timm")
    with pytest.raises(InputError, match=r"c3_in1k\b.*\btimm:resnet10t, .*MODULE:FUNCTION"):
        image_encoder("timm:resnet10t.c3_in1k")


def test_the_imagenet_stem_is_torchvisions() -> None:
    encoder = resnet("resnet18", stem="imagenet")
    seen: list[torch.Size] = []
    encoder.layer1.register_forward_hook(lambda *args: seen.append(args[1][0].shape))
    assert encoder(torch.zeros(1, 3, 96, 96)).shape == (1, 512)
    assert seen[0][-2:] == (24, 24)
    assert [stem_for(size) for size in (8, 64, 65, 224)] == ["cifar"] * 2 + ["imagenet"] * 2
