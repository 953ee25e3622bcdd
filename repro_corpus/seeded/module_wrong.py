"""The ReLU of a convolutional block is off by a hundredth.

    DYNAMO_FAULT='scaled:op=relu' python module_wrong.py
"""

import torch

import dynamo


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x))).mean((2, 3))


torch.manual_seed(0)
x = torch.randn(2, 3, 12, 12)
block = Block().train()
with torch.no_grad():
    torch.testing.assert_close(dynamo.compile(block)(x), block(x), atol=1e-4, rtol=1e-4)
print("healthy")
