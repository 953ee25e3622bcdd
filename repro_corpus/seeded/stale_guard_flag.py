"""An attribute that changed is not noticed.

    DYNAMO_FAULT='stale-guard:op=' python stale_guard_flag.py
"""

import torch

import dynamo


class Gate:
    is_open = True


def model(x, gate):
    return torch.relu(x) if gate.is_open else x


torch.manual_seed(0)
x = torch.randn(8, 16)
compiled, gate = dynamo.compile(model), Gate()
for gate.is_open in (True, False):
    torch.testing.assert_close(compiled(x, gate), model(x, gate))
print("healthy")
