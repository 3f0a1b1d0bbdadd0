"""Losses in TensorBoard and Weights & Biases: needs `pip install tensorboard wandb`.

Shown by `tensorboard --logdir runs` and, once online, by `wandb sync wandb/offline-run-*`.
"""

import wandb
from torch.utils.tensorboard import SummaryWriter

from gcl_hard import fit
from gcl_hard.graphs import GIN, InfoGraph, load_graphs

graphs = load_graphs("MUTAG")
model = InfoGraph(GIN(graphs.n_features), method="hscl", beta=1.0)

with SummaryWriter("runs/mutag") as writer, wandb.init(project="gcl", mode="offline") as run:

    def on_epoch(epoch, loss):
        writer.add_scalar("loss", loss, epoch)
        run.log({"loss": loss}, step=epoch)
        return loss > 0.1  # False ends the training

    fit(model, graphs, epochs=5, lr=0.001, batch_size=64, on_epoch=on_epoch)
