"""Encoders of images by name, a library's or the user's own, from the command line."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from gcl_hard import bench, load_encoder
from gcl_hard.images import ViewRecipe, Views, load_images
from tests.experiments.tiny_images import TINY
from tests.said import says

OWN_ENCODER = """
from torch import nn

class Small(nn.Sequential):
    out_dim = {width}

    def __init__(self):
        super().__init__(nn.Conv2d(3, {width}, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())

def fails():
    return nn.Linear(3, 4)

def of_wrong_width():
    encoder = Small()
    encoder.out_dim = 5
    return encoder
"""
SHORT = ("--dataset=digits", *TINY, "--monitor-every=0")


@pytest.fixture
def own_encoders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a module of the user's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    # A module that is written again within a second has the byte code of the one before.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "own_images.py").write_text(OWN_ENCODER.format(width=4))
    sys.modules.pop("own_images", None)
    return tmp_path


@pytest.mark.parametrize(
    "name", ["own_images:Small", "timm:test_efficientnet", "torchvision:resnet18"]
)
def test_an_encoder_by_name_is_trained_saved_and_loaded(name: str, own_encoders: Path) -> None:
    if name.startswith("timm"):
        pytest.importorskip("timm")
    assert bench.main([*SHORT, f"--encoder={name}", "--save-encoder", "--save-embeddings"]) == 0
    (file,) = Path("results").glob("*.pt")
    encoder = load_encoder(file, trust=name.startswith("own"))
    saved = torch.load(file, weights_only=True)
    views = Views(ViewRecipe(), size=saved["size"], mean=saved["mean"], std=saved["std"])
    with torch.no_grad():
        z = encoder(views.plain(load_images("digits").split("test").images))
    with np.load(*Path("results").glob("*.embeddings.npz")) as stored:
        np.testing.assert_allclose(z, stored["test"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        (["--encoder=own_images:fails"], ["out_dim"]),
        (["--encoder=own_images:of_wrong_width"], ["[2, 5]", "[2, 4]", "out_dim=5"]),
        (["--encoder=own_images:Missing"], ["own_images", "'Missing'"]),
        (["--encoder=own_images:Small", "--width=8"], ["width", "resnets"]),
        (["--encoder=torchvision:resnet34", "--stem=cifar"], ["stem", "resnets"]),
        (["--encoder=torchvision:vit_b_32"], ["torchvision:vit_b_32", "8 pixels", "--size"]),
        (["--encoder=torchvision:resnet43"], ["resnet43", "Unknown model"]),
    ],
)
def test_an_encoder_that_cannot_be_used_is_refused_before_training(
    settings: list[str], facts: list[str], own_encoders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main([*SHORT, *settings]) == 2
    assert says(capsys.readouterr().err, *facts)
    assert not list(Path("results").glob("*.json"))


def test_an_encoder_whose_code_has_changed_is_trained_anew(own_encoders: Path) -> None:
    for width in (4, 6):
        (own_encoders / "own_images.py").write_text(OWN_ENCODER.format(width=width))
        sys.modules.pop("own_images", None)
        assert bench.main([*SHORT, "--encoder=own_images:Small"]) == 0
    assert len(list(Path("results").glob("*_seed0.json"))) == 2
