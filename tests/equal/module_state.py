"""Modules that change: buffers, parametrizations, norms of weights, lazy layers, all kinds of hooks, shared parameters, copies."""

from __future__ import annotations

import copy
import warnings

import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm

from repro_corpus.program import program


def constant(module: nn.Module) -> nn.Module:
    for i, p in enumerate(module.parameters()):
        nn.init.constant_(p, 0.1 * (i + 1))
    return module


class Running(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("count", torch.tensor(0), persistent=False)
        self.history = []

    def forward(self, x):
        if self.training:
            self.count += 1
            self.mean = self.mean + (x.detach().float().mean(0) - self.mean) / self.count
            self.history.append(int(self.count))
        return x - self.mean


@program("", "buffers that are reassigned and counted in forward, toggled between train and eval")
def running_mean(compile):
    m = Running()
    f = compile(m)
    found = [f(torch.full((3, 2), float(i))) for i in (1, 2)]
    m.eval()
    found.append(f(torch.ones(1, 2)))
    m.train()
    m.mean = torch.ones(2)
    found.append(f(torch.zeros(1, 2)))
    return found, m.mean, m.count, m.history, sorted(m.state_dict())


class Scaled(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = nn.Parameter(torch.tensor(k))

    def forward(self, w):
        return w.tril() * self.k

    def right_inverse(self, w):
        return w / 2


@program("", "two parametrizations on one weight, cached, assigned through, and removed")
def parametrized(compile):
    m = constant(nn.Linear(3, 3))
    parametrize.register_parametrization(m, "weight", Scaled(2.0))
    parametrize.register_parametrization(m, "weight", Scaled(0.5))
    f = compile(m)
    x = torch.ones(2, 3)
    found = [f(x)]
    with parametrize.cached():
        found += [f(x), f(x)]
    with torch.no_grad():
        m.weight = torch.eye(3)
    found.append(f(x))
    if found[-1].requires_grad:
        found[-1].sum().backward()
    grads = [p.grad for p in m.parameters()]
    parametrize.remove_parametrizations(m, "weight")
    found.append(f(x))
    return found, grads, [n for n, _ in m.named_parameters()], type(m).__name__


@program("", "weight, spectral and orthogonal norms, trained and evaluated")
def norms(compile):
    torch.manual_seed(0)
    m = nn.Sequential(weight_norm(nn.Linear(3, 4)), spectral_norm(nn.Linear(4, 3), n_power_iterations=2), orthogonal(nn.Linear(3, 3)))
    f = compile(m)
    x = torch.ones(2, 3)
    first = f(x)
    second = f(x)
    if second.requires_grad:
        second.sum().backward()
    m.eval()
    return first, second, f(x), [p.grad for p in m.parameters()], m[1].parametrizations.weight[0]._u


@program("", "lazy layers get their shapes in the first compiled call, a second input has another width")
def lazy(compile):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = nn.Sequential(nn.LazyLinear(2), nn.ReLU(), nn.LazyBatchNorm1d())
    m[0].register_forward_hook(lambda mod, args, out: seen.append(type(mod).__name__))
    seen = []
    torch.manual_seed(0)
    f = compile(m)
    a = f(torch.ones(3, 4))
    try:
        f(torch.ones(3, 5))
    except RuntimeError as e:
        failed = str(e)[:30]
    return a.shape, type(m[0]).__name__, m[0].weight.shape, m[2].num_batches_tracked, seen, failed, [p.shape for p in m.parameters()]


@program("", "state_dict hooks rename and fill in, around compiled calls and a load")
def state_hooks(compile):
    m = constant(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)))
    log = []
    m.register_state_dict_post_hook(lambda mod, state, prefix, meta: state.update({prefix + "extra": torch.ones(1)}))
    m.register_load_state_dict_pre_hook(lambda mod, state, *rest: log.append(sorted(state)) or state.pop("extra", None))
    m.register_load_state_dict_post_hook(lambda mod, keys: log.append(len(keys.missing_keys)))
    f = compile(m)
    x = torch.ones(1, 2)
    before = f(x)
    state = {k: v * 2 for k, v in m.state_dict().items()}
    m.load_state_dict(state)
    middle = f(x)
    m.load_state_dict({k: v * 2 for k, v in m.state_dict().items()}, assign=True)
    return before, middle, f(x), log, list(m.state_dict())


@program("", "forward pre-hooks with kwargs that replace both, hooks that always run, prepended, removed")
def hooks_with_kwargs(compile):
    class Block(nn.Module):
        def forward(self, x, *, scale=1.0, fail=False):
            if fail:
                raise ValueError("block")
            return x * scale

    m = Block()
    log = []
    m.register_forward_pre_hook(
        lambda mod, args, kwargs: ((args[0] + 1,), {**kwargs, "scale": kwargs.get("scale", 1.0) * 2}), with_kwargs=True
    )
    handle = m.register_forward_hook(lambda mod, args, kwargs, out: log.append(sorted(kwargs)) or out * 10, with_kwargs=True)
    m.register_forward_hook(lambda mod, args, out: log.append("always"), always_call=True, prepend=True)
    f = compile(m)
    x = torch.ones(2)
    found = [f(x), f(x, scale=3.0)]
    handle.remove()
    found.append(f(x, scale=3.0))
    try:
        f(x, fail=True)
    except ValueError as e:
        found.append(str(e))
    return found, log


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([constant(nn.Linear(2, 2))])
        self.names = nn.ModuleDict()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        if len(self.layers) < 3:
            self.layers.append(copy.deepcopy(self.layers[-1]))
            self.names[f"n{len(self.layers)}"] = self.layers[-1]
        if "seen" not in self._buffers:
            self.register_buffer("seen", torch.zeros(()))
        self.seen += x.detach().float().sum()
        return x, len(self.layers)


@program("", "a ModuleList grows in forward, a ModuleDict beside it, and a buffer is registered on the way")
def growing(compile):
    m = Growing()
    f = compile(m)
    found = [f(torch.ones(1, 2)) for _ in range(4)]
    return found, m.seen, list(m.names), len(list(m.parameters())), sorted(m.state_dict())


@program("", "one parameter in two layers: tied, updated, untied between calls")
def tied(compile):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(4, 3)
            self.out = nn.Linear(3, 4, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, i):
            return self.out(self.embed(i).tanh())

    m = constant(Model())
    f = compile(m)
    i = torch.tensor([0, 3])
    found = [f(i)]
    if found[0].requires_grad:
        found[0].pow(2).sum().backward()
        with torch.no_grad():
            for p in m.parameters():
                p -= p.grad
    found.append(f(i))
    m.out.weight = nn.Parameter(torch.ones(4, 3))
    found.append(f(i))
    return found, [p.grad for p in m.parameters()], len(list(m.parameters())), m.embed.weight is m.out.weight


@program("", "a deep copy of a module between compiled calls goes its own way, as does one with a hook and one by load")
def copies(compile):
    m = constant(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    m[0].register_forward_hook(lambda mod, args, out: out * mod.factor)
    m[0].factor = 2.0
    f = compile(m)
    x = torch.arange(4.0).view(2, 2)
    a = f(x)
    twin = copy.deepcopy(m)
    twin[0].factor = 3.0
    with torch.no_grad():
        twin[0].weight.zero_()
    g = compile(twin)
    b, c = g(x), f(x)
    twin.load_state_dict(m.state_dict())
    return a, b, c, g(x), m[1].running_mean, twin[1].running_mean, m[1].num_batches_tracked


class Loud(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = constant(nn.Linear(2, 2))
        self.calls = 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return {"out": super().__call__(*args, **kwargs), "call": self.calls}

    def __getattr__(self, name):
        if name == "missing":
            return 4.0
        return super().__getattr__(name)

    def forward(self, x):
        return self.inner(x) * self.missing


@program("", "__call__ and __getattr__ of a module are overridden, and counted")
def overridden_call(compile):
    m = Loud()
    f = compile(m)
    nested = compile(lambda x: m(x)["out"] + m.forward(x))
    x = torch.ones(1, 2)
    return f(x), f(x), nested(x), m.calls


@program("", "parameters are frozen, replaced, pruned by a mask and moved to another type between calls")
def changed_parameters(compile):
    m = constant(nn.Linear(2, 2))
    f = compile(lambda x: m(x).sum())
    x = torch.ones(1, 2)
    found = []

    def call():
        m.zero_grad()
        out = f(x.to(m.weight.dtype))
        if out.requires_grad:
            out.backward()
        found.append((out.detach(), [None if p.grad is None else p.grad.clone() for p in m.parameters()]))

    call()
    m.bias.requires_grad_(False)
    call()
    m.weight = nn.Parameter(torch.eye(2))
    call()
    m.register_parameter("bias", None)
    call()
    m.weight.data *= torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    m.double()
    call()
    m.requires_grad_(False)
    call()
    return found


@program("", "hooks registered on a compiled module are the module's")
def hooks_of_compiled_modules(compile):
    seen = []
    m = torch.nn.Linear(3, 3)
    with torch.no_grad():
        m.weight.copy_(torch.eye(3))
        m.bias.fill_(1)
    c = compile(m)
    found = [c(torch.ones(2, 3))]
    handles = [
        c.register_forward_hook(lambda mod, args, out: out + 1),
        c.register_forward_pre_hook(lambda mod, args: (args[0] * 2,)),
        c.register_full_backward_hook(lambda mod, given, grads: seen.append(grads[0].sum())),
        c.register_full_backward_pre_hook(lambda mod, grads: seen.append("before")),
        c.register_forward_hook(lambda mod, args, kwargs, out: seen.append(sorted(kwargs)), with_kwargs=True, always_call=True),
    ]
    found += [c(torch.ones(2, 3, requires_grad=True)), m(torch.ones(2, 3, requires_grad=True))]
    found[-1].sum().backward()
    found[-2].sum().backward()
    while handles:
        handles.pop().remove()
        found.append(c(input=torch.ones(2, 3)) if len(handles) < 2 else c(torch.ones(2, 3, requires_grad=True)))
    return found, seen, len(m._forward_hooks), m.weight.grad
