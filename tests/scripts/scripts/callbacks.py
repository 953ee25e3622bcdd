"""A trainer with callbacks: compiled methods of a module get the number of the batch, and hooks read what they logged.

first: it compiled whole; what the number of the batch changes costs compiles
says: Lit.training_step | 2 compiles
report: compiled, breaks=0, recompiles=training_step
"""

import torch
import torch.nn.functional as F
from torch import nn


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad = patience, float("inf"), 0

    def on_epoch_end(self, trainer):
        loss = trainer.metrics["val_loss"]
        self.best, self.bad = (loss, 0) if loss < self.best else (self.best, self.bad + 1)
        trainer.should_stop = self.bad >= self.patience


class Lit(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        self.logged = {}

    def training_step(self, batch, index):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        if index % 2 == 0:
            self.logged["accuracy"] = (self.net(x).argmax(-1) == y).float().mean()
        return {"loss": loss, "n": len(x)}

    def validation_step(self, batch):
        x, y = batch
        self.logged["val_loss"] = F.cross_entropy(self.net(x), y).detach()


class Trainer:
    def __init__(self, epochs, callbacks):
        self.epochs, self.callbacks, self.should_stop, self.metrics = epochs, callbacks, False, {}

    def fit(self, module, batches):
        training = torch.compile(module.training_step, backend="aot_eager", dynamic=False)
        validation = torch.compile(module.validation_step, backend="aot_eager", dynamic=False)
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
        for epoch in range(self.epochs):
            for index, batch in enumerate(batches):
                optimizer.zero_grad()
                training(batch, index)["loss"].backward()
                optimizer.step()
            with torch.no_grad():
                validation(batches[0])
            self.metrics = {name: value.item() for name, value in module.logged.items()}
            for callback in self.callbacks:
                callback.on_epoch_end(self)
            print(epoch, sorted(self.metrics), self.should_stop)


torch.manual_seed(0)
x = torch.randn(16, 8)
Trainer(2, [EarlyStopping(2)]).fit(Lit(), [(x, x[:, :3].argmax(-1))] * 2)
