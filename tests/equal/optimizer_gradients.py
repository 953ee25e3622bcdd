"""What an optimizer's step leaves in `.grad`, and values of constants that an operator refuses."""

from __future__ import annotations

import torch
from torch import nn

from repro_corpus.program import program


def descended(m, optimizer, x):
    """The loss of `m`, after a step down its gradients."""
    optimizer.zero_grad()
    loss = m(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


def stepped(compile, make, steps=3):
    """Weights and gradients after a few compiled steps."""
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
    optimizer = make(m.parameters())

    @compile
    def step(x):
        return descended(m, optimizer, x)

    losses = [step(torch.linspace(-1, 1, 12).view(4, 3)) for _ in range(steps)]
    return losses, list(m.parameters()), [p.grad for p in m.parameters()]


@program("", "SGD with Nesterov's momentum leaves gradients alone, unless it is told to work on lists")
def nesterov(compile):
    kinds = ({}, {"foreach": True}, {"foreach": False}, {"maximize": True}, {"weight_decay": 0.1}, {"foreach": True, "maximize": True})
    return [stepped(compile, lambda p, k=k: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, **k)) for k in kinds]


@program("", "the learning rate of Nesterov's momentum is a tensor, changes, and groups differ")
def nesterov_groups(compile):
    w, v = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))
    groups = [{"params": [w]}, {"params": [v], "nesterov": False, "lr": 0.5}]
    optimizer = torch.optim.SGD(groups, lr=torch.tensor(0.1), momentum=0.9, nesterov=True)
    step = compile(optimizer.step)
    out = []
    for scale in (1.0, 2.0, 3.0):
        w.grad, v.grad = torch.arange(3.0) * scale, torch.ones(2) * scale
        optimizer.param_groups[0]["lr"] = torch.tensor(0.1 * scale)
        step()
        out.append((w.detach().clone(), v.detach().clone(), w.grad, v.grad))
    return out


@program("", "the other optimizers that change gradients nowhere")
def other_optimizers(compile):
    makers = (
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
        lambda p: torch.optim.Rprop(p),
        lambda p: torch.optim.Adagrad(p, maximize=True),
        lambda p: torch.optim.RMSprop(p, centered=True, momentum=0.5),
        lambda p: torch.optim.ASGD(p, weight_decay=0.1),
        lambda p: torch.optim.Adadelta(p),
    )
    return [stepped(compile, make) for make in makers]


@program("", "weights are averaged, and swapped for their averages while a block runs")
def averages_swapped_in(compile):
    m = nn.Linear(3, 2)
    averages = [p.detach().clone() for p in m.parameters()]
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, nesterov=True)

    @compile
    def step(x):
        loss = descended(m, optimizer, x)
        with torch.no_grad():
            for average, p in zip(averages, m.parameters(), strict=True):
                average.mul_(0.5).add_(p, alpha=0.5)
        return loss

    @compile
    def averaged(x):
        own = [p.data for p in m.parameters()]
        try:
            for p, average in zip(m.parameters(), averages, strict=True):
                p.data = average
            return m(x)
        finally:
            for p, kept in zip(m.parameters(), own, strict=True):
                p.data = kept

    x = torch.linspace(-1, 1, 12).view(4, 3)
    out = [(step(x), averaged(x), m(x)) for _ in range(3)]
    return out, averages, list(m.parameters()), [p.grad for p in m.parameters()]


@program("", "operators that refuse constants made inside raise when the graph runs, and not when it is compiled")
def refused_constants(compile):
    bodies = (
        lambda x: x + torch.ones(2)[torch.tensor([7])],
        lambda x: x + torch.ones(3).index_select(0, torch.tensor([3])),
        lambda x: x + torch.gather(torch.ones(2), 0, torch.tensor([0, 5])),
        lambda x: x + torch.linalg.inv(torch.zeros(2, 2)),
        lambda x: x + torch.ones(2, dtype=torch.int64) // torch.zeros(2, dtype=torch.int64),
        lambda x: x + torch.nn.functional.one_hot(torch.tensor([5]), 3),
    )
    out = []
    for body in bodies:
        try:
            out.append(compile(body)(torch.ones(2)))
        except (IndexError, RuntimeError) as e:
            out.append(type(e).__name__)
    return out
