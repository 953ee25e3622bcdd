"""Copies of compiled modules: deep, shallow and pickled; parameters are the copy's own or shared, as in eager."""

from __future__ import annotations

import copy
import pickle

import torch
from torch import nn

from repro_corpus.program import program


def trained(m, x):
    m(x).sum().backward()
    return m(x), [(p, p.grad) for p in m.parameters()]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.calls = nn.Linear(3, 4), nn.BatchNorm1d(4), 0
        self.scale = torch.ones(4)

    def forward(self, x):
        self.calls += 1
        return self.norm(self.a(x)).tanh() * self.scale


@program("", "a deep copy has parameters, buffers and numbers of its own")
def deep(compile):
    m = compile(Net())
    x = torch.rand(5, 3)
    trained(m, x)
    other = copy.deepcopy(m)
    with torch.no_grad():
        other.a.weight.mul_(2)
    other.scale = torch.zeros(4)
    return trained(other, x), trained(m, x), (m.calls, other.calls), m.norm.running_mean, other.norm.running_mean


@program("", "a shallow copy shares them, and its numbers are its own")
def shallow(compile):
    m = compile(Net())
    x = torch.rand(5, 3)
    m(x)
    other = copy.copy(m)
    with torch.no_grad():
        other.a.weight.mul_(2)
    out = trained(other, x), m(x), (m.calls, other.calls), other.a is m.a
    other.scale = torch.zeros(4)
    return out, m(x), other(x)


@program("", "a pickled module, and one that is loaded from a state")
def pickled(compile):
    m = compile(Net())
    x = torch.rand(5, 3)
    trained(m, x)
    other = pickle.loads(pickle.dumps(m))
    fresh = compile(Net())
    fresh.load_state_dict(m.state_dict())
    return trained(other, x), trained(fresh, x), trained(m, x), (m.calls, other.calls, fresh.calls)


@program("", "copies before the first call, an average of weights, tied weights and a copied list of modules")
def several(compile):
    m = compile(nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)))
    m[2].weight = m[0].weight
    early = copy.deepcopy(m)
    x = torch.rand(2, 3)
    out = [trained(m, x), trained(early, x), early[2].weight is early[0].weight]
    layers = nn.ModuleList([copy.deepcopy(m) for _ in range(3)])
    for layer in layers:
        with torch.no_grad():
            for p, q in zip(layer.parameters(), m.parameters(), strict=True):
                p.lerp_(q * 2, 0.5)
        x = layer(x)
    return out, x
