"""Global state, copies, parametrised and shared weights, gradients and refused writes in the middle of a function."""

from __future__ import annotations

import copy
import io
import pickle

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

from repro_corpus.program import program


@program("", "deep copies and pickles of tensors and modules in the middle")
def copies_in_the_middle(compile):
    lin = nn.Linear(2, 2)
    nn.init.ones_(lin.weight), nn.init.zeros_(lin.bias)

    @compile
    def f(x):
        y = x * 2
        z = copy.deepcopy(y.detach())
        z.add_(1)
        other = copy.deepcopy(lin)
        with torch.no_grad():
            other.weight.mul_(2)
        w = pickle.loads(pickle.dumps({"a": z, "n": 3}))
        buffer = io.BytesIO()
        torch.save(z, buffer)
        buffer.seek(0)
        return y + w["a"] * w["n"], other(x), lin(x), torch.load(buffer), copy.copy(z) is z

    x = torch.ones(2, requires_grad=True)
    out = f(x)
    (out[0].sum() + out[2].sum()).backward()
    return out, x.grad, lin.weight.grad


@program("", "parametrised weights, cached and not, removed afterwards; spectral and weight norm")
def parametrised(compile):
    class Sym(nn.Module):
        def forward(self, w):
            return w.triu() + w.triu(1).mT

        def right_inverse(self, w):
            return w.triu()

    torch.manual_seed(0)
    lin = nn.Linear(3, 3)
    parametrize.register_parametrization(lin, "weight", Sym())
    sn = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))
    wn = torch.nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))

    @compile
    def f(x):
        with parametrize.cached():
            y = lin(x) + lin(x * 2)
        return y, sn(x), wn(x)

    x = torch.ones(2, 3, requires_grad=True)
    out = f(x)
    sum(o.sum() for o in out).backward()
    grads = [p.grad for m in (lin, sn, wn) for p in m.parameters()]
    second = f(x)
    sn.eval()
    third = f(x)
    parametrize.remove_parametrizations(lin, "weight")
    return out, grads, second, third, f(x), list(sn.state_dict())


@program("", "weights that two modules share, changed through one, and state that is loaded in the middle")
def tied_and_loaded(compile):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(4, 3)
            self.out = nn.Linear(3, 4, bias=False)
            self.out.weight = self.emb.weight

        def forward(self, i):
            return self.out(self.emb(i))

    torch.manual_seed(1)
    net = Net()
    saved = {k: v * 2 for k, v in net.state_dict().items()}

    @compile
    def f(i):
        a = net(i)
        net.load_state_dict(saved)
        b = net(i)
        keys = list(net.state_dict())
        return a, b, keys, len(list(net.parameters()))

    out = f(torch.tensor([1, 2]))
    out[1].sum().backward()
    return out, net.emb.weight.grad, net.out.weight is net.emb.weight


@program("", "gradients inside a function: of a gradient, with a hook that replaces it, with retain_grad")
def gradients_inside(compile):
    @compile
    def f(x):
        y = x**3
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        z = x * 2
        z.retain_grad()
        z.register_hook(lambda grad: grad * 3)
        (z * z).sum().backward()
        return y, g, h, z.grad, x.grad

    x = torch.arange(3.0, requires_grad=True)
    return f(x), f(x)


@program("", "checkpoints in checkpoints with dropout, and their random state afterwards")
def nested_checkpoints(compile):
    lin = nn.Linear(4, 4)
    torch.manual_seed(3)
    nn.init.normal_(lin.weight)

    def inner(x):
        return F.dropout(lin(x), 0.5).relu()

    def outer(x):
        return checkpoint(inner, x, use_reentrant=False) + F.dropout(x, 0.2)

    @compile
    def f(x):
        return checkpoint(outer, x, use_reentrant=False).sum() + torch.rand(1).sum()

    x = torch.ones(3, 4, requires_grad=True)
    torch.manual_seed(5)
    loss = f(x)
    loss.backward()
    return loss, x.grad, lin.weight.grad, torch.rand(2)


@program("", "default dtype and device changed inside, outside, and by a context that fails")
def defaults_inside(compile):
    @compile
    def f(x, n):
        before = torch.get_default_dtype()
        try:
            torch.set_default_dtype(torch.float64)
            y = torch.ones(2) * x + torch.tensor(1.5)
            if n:
                raise ValueError("out")
        except ValueError:
            y = torch.zeros(2)
        finally:
            torch.set_default_dtype(before)
        with torch.device("meta"):
            m = torch.empty(3)
        with torch.device("cpu"):
            c = torch.arange(2.0)
        return y, m.device.type, c, torch.ones(1)

    a = [f(torch.ones(2), n) for n in (0, 1)]
    torch.set_default_dtype(torch.bfloat16)
    b = f(torch.ones(2), 0)
    torch.set_default_dtype(torch.float32)
    return a, b, f(torch.ones(2), 0)


@program("", "deterministic algorithms, around and inside, with what they fill and refuse")
def deterministic(compile):
    @compile
    def f(x, i):
        torch.use_deterministic_algorithms(True)
        a = torch.empty(3)
        b = x.index_add(0, i, torch.ones(3))
        on = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(False)
        return a.isnan().all(), b, on, torch.are_deterministic_algorithms_enabled()

    return f(torch.zeros(2), torch.tensor([0, 1, 0])), f(torch.zeros(2), torch.tensor([1, 1, 0]))


@program("", "forked random state, generators as arguments, a generator that is cloned")
def random_forks(compile):
    @compile
    def f(x, g):
        a = torch.rand(2)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            b = torch.rand(2)
        c = torch.rand(2, generator=g)
        d = torch.randperm(4, generator=g)
        return a + x, b, c, d, torch.rand(1), x.new_empty(2).uniform_(generator=g)

    g, h = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    torch.manual_seed(0)
    return [f(torch.ones(2), k) for k in (g, h, g)], g.get_state().sum(), h.initial_seed(), torch.rand(1)


@program("", "writes over expanded and overlapping memory, results of the wrong dtype and shape")
def refused_writes(compile):
    def said(fn, *args):
        try:
            return fn(*args)
        except (RuntimeError, TypeError) as e:
            return type(e).__name__

    @compile
    def one(x):
        return x.expand(3, 2).add_(1)

    @compile
    def two(x):
        return torch.add(x, x, out=torch.empty(2, dtype=torch.int32))

    @compile
    def three(x):
        y = torch.arange(6.0).as_strided((3, 2), (1, 1))
        y.mul_(2)
        return y

    @compile
    def four(x):
        out = torch.empty(2, 2)
        return torch.sum(torch.stack([x, x]), 0, out=out[0]), out.shape

    @compile
    def five(x):
        y = x.clone()
        y[1:].copy_(y[:-1])
        torch.mul(y, 2, out=y)
        return y, torch.cat([y, y], out=torch.empty(4)), torch.max(y, 0, out=(torch.empty(()), torch.empty((), dtype=torch.long)))

    return [said(fn, torch.ones(2)) for fn in (one, two, three, four, five)]


@program("", "__getattr__ and __setattr__ of modules, properties with effects, buffers that come and go")
def module_attributes(compile):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(2, 2)
            self.reads = 0

        def __getattr__(self, name):
            if name.startswith("lazy_"):
                return float(len(name))
            return super().__getattr__(name)

        def __setattr__(self, name, value):
            super().__setattr__(name, value * 2 if name == "doubled" else value)

        @property
        def scale(self):
            self.reads += 1
            return self.reads

        def forward(self, x):
            self.doubled = 4
            if not hasattr(self, "seen"):
                self.register_buffer("seen", torch.zeros(2), persistent=False)
            self.seen += 1
            y = self.lin(x) * self.scale + self.lazy_one + self.doubled
            if self.reads > 2:
                del self.seen
            return y

    torch.manual_seed(0)
    net = Net()
    fn = compile(net)
    out = [fn(torch.ones(2)) for _ in range(4)]
    return out, net.reads, [k for k, _ in net.named_buffers()], net.doubled


@program("", "a mode for torch functions that counts, replaces and is left by an error")
def function_modes(compile):
    from torch.overrides import TorchFunctionMode

    class Count(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.n = 0

        def __torch_function__(self, fn, types, args=(), kwargs=None):
            self.n += 1
            if fn is torch.sin:
                return torch.cos(*args)
            return fn(*args, **(kwargs or {}))

    @compile
    def f(x, fail):
        with Count() as mode:
            y = torch.sin(x) + 1
            if fail:
                raise LookupError(mode.n)
        return y, mode.n

    def caught():
        try:
            return f(torch.ones(2), True)
        except LookupError as e:
            return e.args

    with Count() as outer:
        a = f(torch.ones(2), False)
    return f(torch.ones(2), False), caught(), a, outer.n, torch.sin(torch.zeros(1))
