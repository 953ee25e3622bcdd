"""A loss whose weight follows the epoch, an int that the compiled function takes.

first: the epoch makes it compile again, and reaches the limit
says: loss_of reached its recompile limit of 4 because epoch changes: it now runs in eager | epoch = 0, 1, 2, 3, 4: make it a tensor
report: compiled, recompiles=loss_of
every run
"""

import torch

torch._dynamo.config.recompile_limit = 4
model = torch.nn.Linear(3, 1)
with torch.no_grad():
    model.weight.fill_(0.1)
    model.bias.zero_()
x, y = torch.ones(4, 3), torch.zeros(4, 1)


@torch.compile(backend="eager")
def loss_of(out, target, epoch):
    schedule = [1.0, 0.5, 0.25, 0.2, 0.1, 0.05, 0.01, 0.0]
    return (out - target).abs().mean() * schedule[epoch]


for epoch in range(8):
    print(epoch, f"{loss_of(model(x), y, epoch).item():.3f}")
