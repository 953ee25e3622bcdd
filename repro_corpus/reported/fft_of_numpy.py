"""np.fft of float32 gives another dtype than NumPy."""

import numpy as np
import torch


def f(x):
    y = np.fft.fft((x * 2).numpy()).real
    return torch.from_numpy(y) * 2


x = torch.arange(4.0)
torch.testing.assert_close(torch.compile(f)(x), f(x))
