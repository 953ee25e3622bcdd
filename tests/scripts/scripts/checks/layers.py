"""A user's suite with a conftest and fixtures that reset the compiler, run by `-m pytest` on its folder.

run: -m pytest -qq -p no:cacheprovider -c /dev/null --rootdir=. --confcutdir=. -k "gate or refuses" checks/layers.py
first: which line broke under fullgraph=True, in the test that asks for it
says: graph break under fullgraph=True: output to the terminal or a log: print at layers.py:33 | Gate.forward
report: compiled, breaks=0
"""

import pytest
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.lin = nn.Linear(size, 2 * size)

    def forward(self, x):
        a, b = self.lin(x).chunk(2, -1)
        return a * b.sigmoid()


@pytest.mark.parametrize("size", [2, 4])
def test_gate_is_equal(compiled, size):
    gate = Gate(size)
    x = torch.randn(3, size)
    torch.testing.assert_close(compiled(gate)(x), gate(x))


def test_refuses_breaks(compiled):
    def f(x):
        print("in the middle")
        return x + 1

    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(f)(torch.ones(1))
