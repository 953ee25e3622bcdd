"""DistributedDataParallel around a model, compiled, with gloo in one process.

env: MASTER_ADDR=127.0.0.1 MASTER_PORT=29531 RANK=0 WORLD_SIZE=1
first: the wrapped model is one graph; what is around it breaks in torch's own file
says: Net.forward ddp.py:21 T 1 compile, 1 graph | a graph break at distributed.py
report: compiled
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel



class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))

    def forward(self, x):
        return self.body(x)


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(Net())
fast = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
x, y = torch.randn(6, 4), torch.randint(0, 2, (6,))
for _ in range(3):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(fast(x), y)
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")
dist.destroy_process_group()
