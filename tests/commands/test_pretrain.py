"""Pre-training from Python: what the command does, and parts of one's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import gcl_hard
from gcl_hard import InputError, pretrain_encoder
from gcl_hard.pretrain import main
from tests.said import says

CHAINS = ["C" * n + end for n in range(1, 9) for end in ("O", "N", "F")]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))
    Path("chains.csv").write_text("smiles\n" + "\n".join(CHAINS) + "\n")
    Path("photos").mkdir()
    draws = np.random.default_rng(0)
    for k in range(6):
        Image.fromarray(draws.integers(0, 255, (8, 8, 3), np.uint8)).save(f"photos/{k}.png")


class Kept:
    """A logger such as Lightning's."""

    def __init__(self) -> None:
        self.numbers: list[tuple[str, float, int | None]] = []

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.numbers += [(name, value, step) for name, value in metrics.items()]


class Pixels(nn.Module):
    """An encoder of one's own."""

    out_dim = 5

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 5)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.linear(x.mean((2, 3)))
        return z


def test_molecules_as_by_the_command() -> None:
    pytest.importorskip("rdkit")
    logger = Kept()
    encoder = pretrain_encoder(
        "chains.csv", "hucl", layers=2, dim=8, batch_size=8, epochs=2, beta=0.5, logger=logger,
        output="python.pt",
    )  # fmt: skip
    flags = ["--layers=2", "--dim=8", "--batch-size=8", "--epochs=2", "--beta=0.5"]
    assert main(["--dataset=chains.csv", "--method=hucl", *flags, "--output=command.pt"]) == 0
    expected = gcl_hard.load_pretrained("command.pt")
    for name, value in encoder.state_dict().items():
        assert torch.equal(value, expected.encoder.state_dict()[name])
    losses = [(value, step) for _, value, step in logger.numbers]
    assert [step for _, step in losses] == [1, 2]
    np.testing.assert_allclose([value for value, _ in losses], expected.about["losses"], rtol=1e-6)


def test_photos_with_an_encoder_of_ones_own() -> None:
    encoder = pretrain_encoder("photos/", encoder=Pixels, batch_size=3, epochs=1, output="own.pt")
    assert isinstance(encoder, Pixels)
    assert not encoder.training
    embeddings = gcl_hard.embed("own.pt", "photos/", encoder=Pixels)
    assert embeddings.values.shape == (6, 5)
    written = Path("own.pt").stat().st_mtime_ns
    again = pretrain_encoder("photos/", encoder=Pixels, batch_size=3, epochs=1, output="own.pt")
    assert Path("own.pt").stat().st_mtime_ns == written
    assert torch.equal(encoder.linear.weight, again.linear.weight)


def test_some_of_the_photos_and_a_log_in_a_file() -> None:
    pretrain_encoder(
        "photos/", encoder=Pixels, subset=4, batch_size=2, epochs=2, output="some.pt", log="csv"
    )
    assert torch.load("some.pt", weights_only=True)["about"]["n"] == 4
    assert len(Path("log.csv").read_text().splitlines()) == 1 + 2


@pytest.mark.parametrize(
    ("data", "settings", "words"),
    [
        ("photos/", {"epoch": 3}, ["epoch", "epochs"]),
        ("photos/", {"smiles": "smiles"}, ["smiles", "images"]),
        ("photos/", {"contrast": "two-view"}, ["contrast", "images"]),
        ("photos/", {"classes": 3}, ["classes", "not read"]),
        ("chains.csv", {"labels": "labels.csv"}, ["labels", "molecules"]),
        ("photos/", {"logger": print}, ["log_metrics"]),
        ("photos/", {"encoder": Pixels()}, ["Pixels", "class"]),
        ("photos/", {"dataset": "digits"}, ["dataset"]),
        ("photos/", {"log": "cvs"}, ["cvs", "csv"]),
        ("nowhere/", {}, ["nowhere"]),
    ],
)
def test_what_is_not_read_is_refused(
    data: str, settings: dict[str, object], words: list[str]
) -> None:
    with pytest.raises(InputError) as raised:
        pretrain_encoder(data, batch_size=3, epochs=1, **settings)  # type: ignore[arg-type]
    assert says(str(raised.value), *words)
    assert not Path("encoder.pt").exists()
