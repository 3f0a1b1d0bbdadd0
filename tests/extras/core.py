"""Losses, every method, the queue, and `fit` on one's own loader; what the extras are named for."""

import torch

import gcl_hard
from gcl_hard import Exponential, Queue, contrastive_loss, fit
from gcl_hard.core.extras import EXTRAS
from gcl_hard.losses.methods import METHODS
from tests.extras.absent import refused_command, refused_import

z1, z2 = torch.randn(2, 64, 128).unbind()
labels = torch.randint(0, 10, (64,))
sampler = gcl_hard.NegativeSampler(admit="other_labels", hardening=Exponential(beta=1.0))
gcl_hard.ContrastiveLoss(sampler, positives="class", temperature=0.5)(z1, z2, labels)

done = 0
for name in METHODS:
    try:
        contrastive_loss(name)(z1, z2, labels).isfinite()
        done += 1
    except gcl_hard.InputError:  # of methods for something else than InfoNCE of two views
        pass
assert done >= 10, done

exec("from gcl_hard import *", {})  # without the names that need an extra
assert "fit" in dir(gcl_hard)
assert "evaluate" not in dir(gcl_hard)

queue = Queue(256, 128)
queue.add(z1, labels)
contrastive_loss("hscl")(z1, z2, labels, **queue.candidates())


class Model(torch.nn.Module):
    """A linear encoder of vectors, whose second view is noisy."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.loss = torch.nn.Linear(128, 16), contrastive_loss("scl")

    def forward(self, batch: list[torch.Tensor]) -> torch.Tensor:
        x, y = batch
        value: torch.Tensor = self.loss(self.layer(x), self.layer(x + torch.randn_like(x)), y)
        return value


def loader() -> torch.utils.data.DataLoader[tuple[torch.Tensor, ...]]:
    """The vectors in batches."""
    data = torch.utils.data.TensorDataset(z1, labels)
    return torch.utils.data.DataLoader(data, batch_size=32)


assert len(fit(Model(), loader(), epochs=2)) == 2

for public, extra in {
    "gcl_hard.evaluate": "bench", "gcl_hard.load_encoder": "bench", "gcl_hard.study": "tune",
    "gcl_hard.load_pretrained": "graphs", "gcl_hard.graphs.InfoGraph": "graphs",
    "gcl_hard.graphs.load_graphs": "graphs", "gcl_hard.images.ImageContrast": "images",
    "gcl_hard.evaluation.svm_cross_validation": "evaluation",
    "gcl_hard.experiments.register": "bench", "gcl_hard.tuning.SearchResult": "tune",
}.items():  # fmt: skip
    refused_import(public, extra)
for command, extra in {
    "bench": "bench", "tune": "tune", "figures": "bench", "pretrain": "bench",
}.items():  # fmt: skip
    refused_command(extra, command)
try:
    fit(Model(), loader(), epochs=1, precision="bf16-mixed")
except gcl_hard.MissingExtraError as error:
    assert "[images]" in str(error), error
else:
    raise AssertionError("trained in bf16 without Fabric")
assert {"graphs", "images", "molecules", "bench", "tune", "cluster"} < EXTRAS.keys()
