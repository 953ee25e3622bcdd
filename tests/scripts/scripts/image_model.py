"""A small convolutional network with the default backend, timed before and after, as blogs do.

first: one graph, compiled whole
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | largest step
report: compiled, breaks=0
"""

import time

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels, 1)
        )

    def forward(self, x):
        return torch.relu(x + self.body(x))


def timed(f, *args):
    begin = time.perf_counter()
    out = f(*args)
    return out, time.perf_counter() - begin


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.set_float32_matmul_precision("high")
model = nn.Sequential(nn.Conv2d(3, 8, 3), Residual(8), Residual(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)).to(device).eval()
fast = torch.compile(model, mode="max-autotune-no-cudagraphs")
x = torch.randn(2, 3, 16, 16, device=device)
with torch.inference_mode():
    expected, slow_time = timed(model, x)
    found, first_time = timed(fast, x)
    found, fast_time = timed(fast, x)
print(torch.allclose(expected, found, atol=1e-4), min(slow_time, first_time, fast_time) > 0)
