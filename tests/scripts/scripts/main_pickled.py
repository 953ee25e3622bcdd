"""Objects of `__main__` that are pickled and read again: a dataclass, a module, a compiled call on them.

first: the module that was read again is compiled
says: Net.forward
report: compiled, breaks=0
"""

import copy
import dataclasses
import pickle

import torch


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    n: int = 1


class Net(torch.nn.Module):
    def forward(self, batch):
        return batch.x * batch.n


batch = pickle.loads(pickle.dumps(Batch(torch.ones(2), 3)))
net = pickle.loads(pickle.dumps(Net()))
print(type(batch), type(net), copy.deepcopy(batch))
print(torch.compile(net, backend="eager")(batch).tolist())
