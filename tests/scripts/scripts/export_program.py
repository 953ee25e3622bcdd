"""A model exported with `torch.export` and called again, beside a compiled one.

first: the exported program is torch's own; what is reported is the compiled call
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | Model.forward
report: compiled, breaks=0
"""

import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        return (x @ y).relu()


program = torch.export.export(Model(), (torch.ones(2, 3), torch.ones(3, 2)))
print([node.op for node in program.graph.nodes])
print(program.module()(torch.ones(2, 3), torch.ones(3, 2)).tolist())
print(torch.compile(Model(), backend="eager")(torch.ones(2, 3), torch.ones(3, 2)).tolist())
