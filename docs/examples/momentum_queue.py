"""Trains an encoder of digits with a momentum encoder and a queue, and scores it.

python momentum_queue.py [EPOCHS]: accuracy of nearest neighbours before and after. Needs
`pip install 'gcl-hard[evaluation]'`.
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

from gcl_hard import MomentumEncoder, Queue, contrastive_loss
from gcl_hard.evaluation import knn_cross_validation

torch.manual_seed(0)
epochs = int((*sys.argv, 20)[1])
pixels, labels = load_digits(return_X_y=True)
images = torch.from_numpy(pixels).float().view(-1, 1, 8, 8) / 16

encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8))
keys, queue = MomentumEncoder(encoder, momentum=0.99), Queue(size=1024, dim=8)
loss = contrastive_loss("hucl", beta=1.0, temperature=0.2)
optimizer = torch.optim.Adam(encoder.parameters(), lr=0.001)


def view(x):
    """Each digit turned by up to 17°, and moved by up to a pixel."""
    turn, moved = 0.6 * (torch.rand(len(x)) - 0.5), 0.5 * (torch.rand(len(x), 2, 1) - 0.5)
    rows = [turn.cos(), -turn.sin()], [turn.sin(), turn.cos()]
    turned = torch.stack([torch.stack(row, 1) for row in rows], 1)
    grid = nn.functional.affine_grid(torch.cat([turned, moved], 2), list(x.shape), False)
    return nn.functional.grid_sample(x, grid, align_corners=False)


def accuracy():
    with torch.no_grad():
        return knn_cross_validation(encoder(images).numpy(), labels, seed=0).accuracy


before = accuracy()
for _ in range(epochs):
    for index in torch.randperm(len(images)).split(128)[:-1]:
        keys.update(encoder)
        key = keys(view(images[index]))
        value = loss(encoder(view(images[index])), key, **queue.candidates())
        queue.add(key)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
print(f"nearest neighbours: {100 * before:.1f} % untrained, {100 * accuracy():.1f} % trained")
