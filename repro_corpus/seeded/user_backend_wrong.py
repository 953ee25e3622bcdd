"""A backend of the user's gives `exp` a wrong base.

    FAULTY_BACKEND='1' python user_backend_wrong.py
"""

import torch

import dynamo
from repro_corpus.faulty_backends import wrong_exp


def model(x, w):
    y = torch.exp(x * 0.5) + w
    return y.mean(1) - x.sum(1)


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
torch.testing.assert_close(dynamo.compile(model, backend=wrong_exp)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
