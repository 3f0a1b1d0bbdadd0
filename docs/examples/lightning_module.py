"""InfoGraph with hard negatives as a LightningModule: needs `pip install lightning`."""

import lightning
import torch
from torch_geometric.loader import DataLoader

from gcl_hard.graphs import GIN, InfoGraph, load_graphs


class Contrastive(lightning.LightningModule):
    def __init__(self, model, lr=0.001):
        super().__init__()
        self.model, self.lr = model, lr

    def on_train_epoch_start(self):
        self.model.set_epoch(self.current_epoch + 1, self.trainer.max_epochs)  # schedules of β

    def training_step(self, batch):
        loss = self.model(batch)
        self.log("loss", loss, batch_size=batch.num_graphs)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


graphs = load_graphs("MUTAG")
loader = DataLoader(list(graphs), batch_size=64, shuffle=True)
module = Contrastive(InfoGraph(GIN(graphs.n_features), method="hscl", beta=1.0))
trainer = lightning.Trainer(max_epochs=3, accelerator="auto", log_every_n_steps=1)
trainer.fit(module, loader)
print(module.model.embed(graphs).shape)
