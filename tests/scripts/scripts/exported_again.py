"""An exported program, saved, loaded, and compiled.

first: the loaded module is one graph, with the exporter's checks of its inputs
says: GraphModuleImpl.forward is compiled 2 times because x.size(0) changes | 2 compiles, 2 graphs, 4 ops
report: compiled, breaks=0
"""

import io

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        nn.init.ones_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)

    def forward(self, x):
        return self.layer(x).relu()


batch = torch.export.Dim("batch", min=2, max=16)
program = torch.export.export(Model(), (torch.ones(3, 4),), dynamic_shapes={"x": {0: batch}})
file = io.BytesIO()
torch.export.save(program, file)
file.seek(0)
module = torch.export.load(file).module()
fast = torch.compile(module, backend="eager")
for size in (2, 5):
    print(fast(torch.ones(size, 4)).tolist())
