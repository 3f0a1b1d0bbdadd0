"""A small training, of one process or of several: its weights in a file."""

from __future__ import annotations

import os

import torch
from torch import distributed, nn

from gcl_hard import contrastive_loss
from gcl_hard.losses import gathering
from gcl_hard.training.loop import Optimisation, train

LABELS = torch.arange(10) % 3


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.encoder = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()
        self.loss = contrastive_loss("hscl", negatives="gathered", detach_weights=False)

    def forward(self, batch):
        x, y = batch
        return self.loss(*self.encode_part(x), y)

    def in_parts(self, batch, n):
        x, y = batch
        return x.tensor_split(n), lambda first, second: self.loss(first, second, y)

    def encode_part(self, x):
        return self.encoder(x), self.encoder(x + 0.1)


def batches(epoch):
    """Three batches of ten items, of which each process takes a part; parts differ in size."""
    generator = torch.Generator().manual_seed(epoch)
    for x in torch.randn(3, 10, 4, generator=generator, dtype=torch.float64):
        yield tuple(
            tensor.tensor_split(gathering.world_size())[gathering.rank()] for tensor in (x, LABELS)
        )


def main(rank: int, world: int, path: str, parts: int = 1) -> None:
    """One of several processes, with the environment that torchrun gives it."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    if world > 1:
        distributed.init_process_group(
            "gloo", init_method=f"file://{path}.meet", rank=rank, world_size=world
        )
    model = Model()
    optimisation = Optimisation(epochs=4, lr=0.05, precision="64-true", parts=parts)
    losses = train(model, batches, optimisation, together=True)
    if rank == 0:
        torch.save((losses, model.state_dict()), path)
    if world > 1:
        distributed.destroy_process_group()
