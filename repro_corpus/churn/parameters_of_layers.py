"""The forward of each layer is compiled, and they share its code."""

import torch


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * self.weight


layers = [Layer() for _ in range(3)]
for layer in layers:
    layer.forward = torch.compile(layer.forward, backend="eager")
x = torch.ones(3)
for layer in layers:
    print(layer(x).tolist())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: parameter of another module | self.weight | 12 | 9 | compile the function or module that calls them all | no
