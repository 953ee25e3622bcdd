"""A model is written with `torch.export.save`, loaded again and compiled from its graph.

first: the loaded program compiled whole
says: compiled whole: 1 function
report: compiled, breaks=0
"""

import os
import tempfile

import torch
from torch.export import Dim


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, x, *, scale=2.0):
        y = self.layer(x) * scale
        self.seen.add_(1)
        return {"y": y, "seen": self.seen}


torch.manual_seed(0)
shapes = {"x": {0: Dim("batch", min=2)}, "scale": None}
program = torch.export.export(Model(), (torch.ones(5, 4),), {"scale": 3.0}, dynamic_shapes=shapes)
print([spec.kind.name for spec in program.graph_signature.input_specs])
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "model.pt2")
    torch.export.save(program, path)
    loaded = torch.export.load(path).module()
print(loaded(torch.ones(6, 4), scale=3.0)["y"].shape)
compiled = torch.compile(loaded, backend="eager")
print(compiled(torch.ones(5, 4), scale=3.0)["seen"].tolist())
