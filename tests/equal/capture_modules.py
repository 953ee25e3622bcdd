"""Lazy modules, before and after the call that gives them their shapes."""

from __future__ import annotations

import torch
from torch import nn

from repro_corpus.program import program


def _graphs(compile, module, x, calls=3):
    """Results of several calls, and the classes and state of what is called then."""
    torch.manual_seed(0)
    c = compile(module)
    out = [c(x) for _ in range(calls)]
    return out, [type(m).__name__ for m in module.modules()], dict(module.state_dict())


@program("", "lazy linear layers in containers, compiled before their first call")
def lazy_containers(compile):
    def layers():
        return nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.Sequential(nn.LazyLinear(2), nn.Tanh()))

    called = layers()
    called(torch.ones(2, 4))
    for p in called.parameters():
        nn.init.constant_(p, 0.5)
    x = torch.ones(2, 4)
    return _graphs(compile, layers(), x), _graphs(compile, called, x), _graphs(compile, nn.LazyLinear(2), x)


@program("", "lazy convolutions and norms: statistics are of the calls that eager counts")
def lazy_convolutions(compile):
    torch.manual_seed(1)
    x = torch.randn(2, 2, 6, 6)
    a = nn.Sequential(nn.LazyConv2d(3, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3))
    b = nn.Sequential(nn.LazyConvTranspose2d(3, 3), nn.LazyInstanceNorm2d(affine=True, track_running_stats=True))
    return _graphs(compile, a, x), _graphs(compile, b, x)


class Scale(nn.modules.lazy.LazyModuleMixin, nn.Module):
    """Becomes no other class."""

    def __init__(self):
        super().__init__()
        self.w, self.b = nn.UninitializedParameter(), nn.UninitializedBuffer()

    def initialize_parameters(self, x):
        if self.has_uninitialized_params():
            with torch.no_grad():
                self.w.materialize((x.shape[-1],))
                self.w.fill_(2)
                self.b.materialize((x.shape[-1],))
                self.b.fill_(3)

    def forward(self, x):
        return x * self.w + self.b


@program("", "a lazy module of the program's own, alone and beside another")
def lazy_own(compile):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.LazyLinear(3), Scale()

        def forward(self, x):
            return self.b(self.a(x.sin()))

    return _graphs(compile, Scale(), torch.ones(2, 4)), _graphs(compile, Net(), torch.ones(2, 4))


@program("", "training from the first call on; parameters that were loaded")
def lazy_training(compile):
    torch.manual_seed(0)
    m = nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(1))
    c = compile(m)
    c(torch.ones(2, 4))
    opt = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(4):
        opt.zero_grad()
        c(torch.ones(2, 4)).sum().backward()
        opt.step()
    loaded = nn.LazyLinear(2)
    d = compile(loaded)
    loaded.load_state_dict(nn.Linear(4, 2).state_dict())
    return [p.detach() for p in m.parameters()], d(torch.ones(4)), d(torch.ones(4)), type(loaded).__name__


@program("", "an input that the first call refuses, and one that fits; hooks; what is left of laziness")
def lazy_refuses(compile):
    torch.manual_seed(0)
    m = nn.LazyConv2d(2, 3)
    c, out, seen = compile(m), [], []
    m.register_forward_pre_hook(lambda m, args: seen.append("before"))
    m.register_forward_hook(lambda m, args, result: seen.append(type(m).__name__))
    for shape in ((2,), (1, 3, 5, 5), (1, 3, 5, 5)):
        try:
            out.append(c(torch.ones(shape)))
        except RuntimeError as e:
            out.append(str(e))
    return out, seen, type(m).__name__, len(m._forward_pre_hooks), hasattr(m, "_initialize_hook")


@program("", "what a compiled module contains, its truth, its names, and items of it that are set and deleted")
def special_methods_of_modules(compile):
    layers = compile(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()))
    named = compile(torch.nn.ModuleDict({"a": torch.nn.ReLU()}))
    plain = compile(torch.nn.Linear(2, 2))

    class Own(torch.nn.Module):
        def __contains__(self, key):
            return key == "k"

        def __bool__(self):
            return False

        def __reversed__(self):
            return "reversed"

        def forward(self, x):
            return x * 2

    own = compile(Own())
    found = [
        "a" in named,
        "b" in named,
        "k" in own,
        bool(own),
        bool(plain),
        bool(layers),
        reversed(own),
        not compile(torch.nn.Sequential()),
    ]
    layers[0] = torch.nn.Sigmoid()
    del layers[1]
    named["b"] = torch.nn.Tanh()
    x = torch.randn(3)
    found += [len(layers), layers(x), list(named), named["b"](x), "weight" in dir(plain), own(x)]
    try:
        found.append("a" in plain)
    except TypeError:
        found.append("no container")
    return found
