"""lightning: its own launcher, validation, logged values reduced over the ranks, checkpoints."""

import lightning
import torch
from common import folder, net, slips
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net()

    def training_step(self, batch, _):
        loss = cross_entropy(self.net(batch[0]), batch[1])
        if slips("a logged value is reduced on rank 0 only", self.global_rank, 0):
            self.log("loss_of_rank_0", loss, sync_dist=True, on_epoch=True, on_step=True)
        return loss

    def validation_step(self, batch, _):
        self.log("val", cross_entropy(self.net(batch[0]), batch[1]), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main():
    lightning.seed_everything(1, verbose=False)
    data = TensorDataset(torch.randn(32, 16), torch.arange(32) % 4)
    place = str(folder("lightning_ddp"))
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=DDPStrategy(process_group_backend="gloo"),
        max_epochs=2,
        default_root_dir=place,
        callbacks=[ModelCheckpoint(dirpath=place, monitor="val")],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(), DataLoader(data, batch_size=4), DataLoader(data, batch_size=8))


if __name__ == "__main__":
    main()
