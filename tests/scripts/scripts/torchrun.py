"""Two ranks started by torchrun, each with a compiled step and a collective.

run: -m torch.distributed.run --nproc-per-node 2 --master-port 29519 torchrun.py
first: what each rank compiled
says: (in ranks 0, 1)
report: compiled, rank=0, rank=1
"""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
step = torch.compile(lambda x: x * 2 + 1, backend="eager")
x = step(torch.ones(2) * dist.get_rank())
dist.all_reduce(x)
if dist.get_rank() == 0:
    print(x.tolist(), os.environ["WORLD_SIZE"])
dist.destroy_process_group()
