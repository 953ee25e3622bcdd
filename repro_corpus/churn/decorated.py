"""Evaluation is a function under a decorator, and training calls the same compiled code."""

import torch

weight = torch.ones(3, requires_grad=True)


@torch.compile(backend="eager")
def loss(x):
    return (x * weight).sum()


@torch.no_grad()
def evaluate(x):
    return loss(x).item()


for step in range(3):
    loss(torch.ones(3)).backward()
    print(evaluate(torch.ones(3)), weight.grad.tolist())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: global mode | grad mode | 15 | 13 | one compile each is the least | no
