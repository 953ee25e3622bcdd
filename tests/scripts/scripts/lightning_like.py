"""A trainer class with callbacks that compiles the step of a module, logging to stdout.

first: the step of the module is one graph
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | ✓ Classifier.training_step lightning_like.py:26
report: compiled, breaks=0
"""

import logging
import sys
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s:%(name)s:%(message)s")
log = logging.getLogger("trainer")


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.logged = {}
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.logged["loss"] = loss.detach()
        return loss


class PrintLoss:
    def on_epoch_end(self, trainer, module):
        log.info("epoch %d loss %.3f", trainer.epoch, module.logged["loss"].item())


@dataclass
class Trainer:
    epochs: int = 2
    callbacks: list = field(default_factory=list)
    epoch: int = 0

    def fit(self, module, loader):
        optimizer = torch.optim.Adam(module.parameters(), lr=1e-2)
        step = torch.compile(module.training_step, backend="aot_eager")
        for self.epoch in range(self.epochs):
            for index, batch in enumerate(loader):
                loss = step(batch, index)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
            for callback in self.callbacks:
                callback.on_epoch_end(self, module)


torch.manual_seed(0)
data = TensorDataset(torch.randn(24, 8), torch.randint(0, 3, (24,)))
Trainer(callbacks=[PrintLoss()]).fit(Classifier(), DataLoader(data, batch_size=8))
