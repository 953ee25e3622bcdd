"""A backend of the user's refuses `tanh`.

    FAULTY_BACKEND='1' python user_backend_error.py
"""

import torch

import dynamo
from repro_corpus.faulty_backends import refuses_tanh


def model(x, w):
    y = (x * w).relu()
    return torch.tanh(y - 1).sum(1)


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
print(dynamo.compile(model, backend=refuses_tanh)(x, w).shape)
