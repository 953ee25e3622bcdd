"""Tensor subclasses: `__torch_function__`, `__torch_dispatch__` and `__tensor_flatten__`."""

from __future__ import annotations

import torch
from torch import nn

from repro_corpus.program import program


class Logged(torch.Tensor):
    """Every call is counted and its result is of the class."""

    calls: list[str] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


class Scaled(torch.Tensor):
    """Addition is something else."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (torch.add, torch.Tensor.add, torch.Tensor.__add__):
            return super().__torch_function__(torch.mul, types, args, kwargs)
        return super().__torch_function__(func, types, args, kwargs)


class Plain(torch.Tensor):
    """No override at all."""

    def twice(self):
        return self * 2

    @property
    def first(self):
        return self[0]


class NoFunction(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


@program("", "a subclass without overrides: methods, properties, results of the class")
def plain_subclass(compile):
    @compile
    def f(x):
        return x.twice() + 1, x.first, type(x.sin()).__name__, isinstance(x * 2, Plain)

    return f(torch.arange(3.0).as_subclass(Plain))


@program("", "a subclass whose __torch_function__ calls super")
def super_subclass(compile):
    @compile
    def f(x):
        return torch.sin(x) + x.cos() @ torch.ones(3)

    return f(torch.arange(3.0).as_subclass(Logged))


@program("", "a subclass that changes what addition means")
def override_add(compile):
    @compile
    def f(x, y):
        return x + y, torch.add(x, y), x.add(y), y + x, x * y

    return f(torch.arange(3.0).as_subclass(Scaled), torch.full((3,), 5.0))


@program("", "a subclass with __torch_function__ disabled")
def disabled_function(compile):
    @compile
    def f(x):
        y = x * 2
        return y, type(y).__name__

    return f(torch.arange(3.0).as_subclass(NoFunction))


@program("", "as_subclass inside the function")
def as_subclass_inside(compile):
    @compile
    def f(x):
        y = (x * 2).as_subclass(Scaled)
        z = y + 3
        return z, z.as_subclass(torch.Tensor) + 3

    return f(torch.arange(3.0))


@program("", "a parameter of a subclass in a module, with gradient")
def subclass_parameter(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3).as_subclass(Scaled))

        def forward(self, x):
            return (x + self.w).sum()

    m = M()
    y = compile(m)(torch.arange(3.0))
    y.backward()
    return y, m.w.grad


@program("", "attributes of a subclass are kept by its __torch_function__")
def metadata(compile):
    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            out = super().__torch_function__(func, types, args, kwargs or {})
            if isinstance(out, Named):
                out.tag = next((a.tag for a in args if isinstance(a, Named)), None)
            return out

    @compile
    def f(x):
        y = x.sin() * 2
        return y, y.tag

    x = torch.arange(3.0).as_subclass(Named)
    x.tag = "hello"
    first = f(x)
    x.tag = "other"
    return first, f(x)


@program("", "an object that is no tensor and has __torch_function__")
def tensor_like(compile):
    class Like:
        def __init__(self, t):
            self.t = t

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return Like(func(*[a.t if isinstance(a, Like) else a for a in args], **(kwargs or {})))

    @compile
    def f(x):
        return torch.mul(Like(x + 1), 2).t

    @compile
    def g(x):
        return torch.add(x, x)

    return f(torch.ones(2)), g(Like(torch.ones(2))).t


class TwoTensor(torch.Tensor):
    """Two tensors under one name; everything is done to both."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(
            cls, a.shape, strides=a.stride(), dtype=a.dtype, device=a.device, requires_grad=a.requires_grad or b.requires_grad
        )

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, meta, size, stride):
        return TwoTensor(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        from torch.utils import _pytree as pytree

        kwargs = kwargs or {}
        flat, spec = pytree.tree_flatten((args, kwargs))
        sides = []
        for name in ("a", "b"):
            a, k = pytree.tree_unflatten([getattr(v, name) if isinstance(v, TwoTensor) else v for v in flat], spec)
            sides.append(func(*a, **k))
        if isinstance(sides[0], torch.Tensor):
            return TwoTensor(*sides)
        return sides[0]


@program("", "a traceable wrapper subclass as argument and result")
def two_tensor(compile):
    @compile
    def f(x):
        return x.sin() * 2 + 1

    y = f(TwoTensor(torch.arange(3.0), torch.ones(3)))
    return y.a, y.b, type(y).__name__


@program("", "a traceable wrapper subclass: its parts are used and it is made inside")
def two_tensor_inside(compile):
    @compile
    def f(x, t):
        made = TwoTensor(x, x + 1) * 2
        return made.a + made.b, t.a + t.b, (t * made).b

    return f(torch.ones(2), TwoTensor(torch.arange(2.0), torch.ones(2)))


@program("", "a traceable wrapper subclass with gradients")
def two_tensor_grad(compile):
    @compile
    def f(x):
        return (x * x).sin()

    a, b = torch.arange(3.0), torch.ones(3)
    x = TwoTensor(a, b).requires_grad_()
    y = f(x)
    y.sum().backward()
    return y.a, y.b, x.grad.a, x.grad.b


@program("", "a traceable wrapper subclass as parameter of a module")
def two_tensor_parameter(compile):
    m = nn.Linear(3, 2, bias=False)
    m.weight = nn.Parameter(TwoTensor(torch.ones(2, 3), torch.zeros(2, 3)))
    y = compile(m)(torch.ones(1, 3))
    y.sum().backward()
    return y.a, y.b, m.weight.grad.a, m.weight.grad.b


@program("", "a subclass with __torch_dispatch__ only")
def dispatch_only(compile):
    class Doubling(torch.Tensor):
        @staticmethod
        def __new__(cls, t):
            made = torch.Tensor._make_wrapper_subclass(cls, t.shape, dtype=t.dtype)
            made.held = t
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            args = [a.held if isinstance(a, Doubling) else a for a in args]
            return func(*args, **(kwargs or {})) * 2

    @compile
    def f(x):
        return x + 1

    return f(Doubling(torch.ones(2)))


def seen_by(body, compile, make=lambda: torch.arange(1.0, 4.0)):
    """Which functions the class is asked about, in three calls."""
    seen = []

    class Noted(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    f = compile(body)
    out = []
    for _ in range(3):
        y = f(make().as_subclass(Noted))
        out.append(y.as_subclass(torch.Tensor) if isinstance(y, torch.Tensor) else y)
    return out, list(seen)


@program("", "a class is asked exactly as often as in eager: attributes, sizes, items, functions, branches")
def asked_as_often(compile):
    bodies = (
        lambda x: tuple((x + 1).shape),
        lambda x: (x.dim(), str(x.dtype), x.is_leaf, x.grad, x.requires_grad, x.ndim, str(x.device)),
        lambda x: x.mT + x.data if x.dim() > 1 else x.data + 1,
        lambda x: (len(x), [float(v) for v in x], hasattr(x, "missing"), hasattr(x, "shape"), tuple(x[0].size())),
        lambda x: torch.zeros(x.shape) + torch.nn.functional.relu(x),
        lambda x: x * 2 if x.sum() > 0 else x + 1,
        lambda x: f"{tuple(x.shape)} {x[0].item()} {int(x[1])} {bool(x[2])} {x.tolist()}",
    )
    return [seen_by(body, compile) for body in bodies]


@program("", "writes to a subclass, and its functions switched off around a call")
def writes_and_switches(compile):
    @compile
    def f(x):
        x.add_(1)
        x *= 2
        x[0] = 7
        return x

    @compile
    def g(x):
        with torch._C.DisableTorchFunctionSubclass():
            y = x + 1
        with torch._C.DisableTorchFunction():
            z = x + 2
        return y, type(y).__name__, z, type(z).__name__, x + 3

    x = torch.arange(3.0).as_subclass(Scaled)
    return f(x) is x, x.as_subclass(torch.Tensor), g(x)


class Doubled(torch.Tensor):
    """Results are multiplied by an attribute of the class."""

    scale = 2

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            out = func(*args, **(kwargs or {}))
        return (out * cls.scale).as_subclass(cls) if isinstance(out, torch.Tensor) else out

    @staticmethod
    def of(t):
        return t.as_subclass(Doubled)


@program("", "an attribute of the class decides, and changes between calls")
def class_attribute(compile):
    @compile
    def f(x):
        return x + 1, x.scale, torch.cat([x, x]), Doubled.of(torch.ones(2)) - 1

    out = []
    try:
        for scale in (2, 5, 2):
            Doubled.scale = scale
            out.append([y.as_subclass(torch.Tensor) if isinstance(y, torch.Tensor) else y for y in f(Doubled.of(torch.arange(3.0)))])
    finally:
        Doubled.scale = 2
    return out


@program("", "subclasses of Parameter, a buffer of a subclass that is written to")
def module_state(compile):
    class Kept(nn.Parameter):
        pass

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = Kept(torch.ones(3))
            self.register_buffer("b", torch.ones(3).as_subclass(Scaled))

        def forward(self, x):
            self.b.add_(1)
            return x * self.w + self.b, type(self.w).__name__, isinstance(self.w, Kept)

    m = M()
    c = compile(m)
    y = []
    for _ in range(2):
        y.append(c(torch.arange(3.0)))
        y[-1][0].sum().backward()
    return [(v.as_subclass(torch.Tensor), *rest) for v, *rest in y], m.w.grad, m.b.as_subclass(torch.Tensor)


def pair():
    return TwoTensor(torch.arange(3.0), torch.ones(3))


@program("", "a traceable wrapper subclass that is written to, viewed, and given back")
def two_tensor_written(compile):
    @compile
    def f(x):
        x.add_(1)
        x[0] = 5
        return x * 2

    @compile
    def g(x):
        v = x[1:]
        v.mul_(3)
        return x + 1, v

    @compile
    def h(x):
        return x

    t, u = pair(), pair()
    r, (s, v) = f(t), g(u)
    return r.a, r.b, t.a, t.b, s.a, s.b, v.a, v.b, u.a, h(t) is t


@program("", "a traceable wrapper subclass beside plain tensors, and calls with one kind and the other")
def two_tensor_beside(compile):
    @compile
    def f(x, y):
        return x * y + torch.ones(3), y.sum()

    @compile
    def g(x):
        return x.sin(), x.shape, isinstance(x, TwoTensor)

    r, q = f(pair(), torch.full((3,), 2.0))
    out = [r.a, r.b, q]
    for x in (torch.ones(3), pair(), torch.ones(3), TwoTensor(torch.ones(4), torch.zeros(4))):
        y, shape, is_two = g(x)
        out += [y.a if is_two else y, shape, is_two]
    return out


@program("", "training with parameters that are traceable wrapper subclasses")
def two_tensor_training(compile):
    m = nn.Linear(3, 2)
    m.weight = nn.Parameter(TwoTensor(torch.ones(2, 3), torch.zeros(2, 3)))
    m.bias = nn.Parameter(TwoTensor(torch.ones(2), torch.zeros(2)))
    c, o = compile(m), torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        o.zero_grad()
        c(torch.ones(1, 3)).sum().backward()
        o.step()
    return m.weight.a, m.weight.b, m.bias.a, m.bias.b


@program("", "a number read of a subclass is what it holds now")
def numbers_now(compile):
    @compile
    def f(x):
        return int(x), float(x), bool(x), x.item(), f"{x.item()}", [1, 2, 3, 4, 5][int(x)], torch.ones(2) * float(x)

    @compile
    def g(x):
        return torch.ones(int(x)) + 1

    out = []
    for make in (lambda: torch.tensor(1.0).as_subclass(Plain), lambda: torch.tensor(1.0).as_subclass(Logged), lambda: torch.tensor(1.0)):
        x = make()
        for _ in range(3):
            out.append((f(x), g(x)))
            torch.Tensor.add_(x, 1)
    return out


@program("", "a number read of a sparse and of a wrapper tensor is what it holds now")
def numbers_of_kinds(compile):
    @compile
    def f(x):
        return float(x), x.sum().item(), int(x) + 1

    out = []
    x, y = torch.tensor(1.0).to_sparse(), Doubled.of(torch.tensor(1.0))
    for _ in range(3):
        out += [f(x), f(y)]
        x.add_(x.clone())
        torch.Tensor.copy_(y.as_subclass(torch.Tensor), torch.tensor(5.0))
    return out


class Marked(torch.Tensor):
    """Operators take it as a plain tensor and give plain ones; it has names of its own."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    scale = 3

    def twice(self):
        return self * 2

    @property
    def halved(self):
        return self / 2


class Shard(nn.Parameter):
    """A parameter that knows which part it is."""

    def __new__(cls, data, part=0):
        made = super().__new__(cls, data)
        made.part = part
        return made

    def whole(self):
        return self.part == 0


@program("", "a class that only adds names is part of one graph: methods, attributes, type, writes")
def only_adds(compile):
    @compile(fullgraph=True)
    def f(x):
        y = x.twice() + x.halved + x.scale
        return y, x.tag, type(x).__name__, isinstance(x, Marked), type(x + 1).__name__, x.add_(1), x[1:], x.detach(), x.float()

    @compile
    def g(x):
        return x + 1, type(x).__name__

    out = []
    for tag in ("a", "b"):
        x = torch.arange(3.0).as_subclass(Marked)
        x.tag = tag
        out += [f(x), x.as_subclass(torch.Tensor), f(x)[5] is x]
    return out, [g(x) for x in (torch.ones(3), torch.ones(3).as_subclass(Marked), nn.Parameter(torch.ones(3)), Shard(torch.ones(3)))]


@program("", "subclasses of Parameter in a module are part of one graph, with gradients and training")
def own_parameters(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.v = Shard(torch.ones(3)), Shard(torch.full((3,), 2.0), part=1)

        def forward(self, x):
            return x * self.w + self.v if self.w.whole() and not self.v.whole() else x

    m = M()
    c, o = compile(m, fullgraph=True), torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
    out = []
    for _ in range(3):
        o.zero_grad()
        y = c(torch.arange(3.0)).pow(2).sum()
        y.backward()
        compile(o.step)()
        out.append(y)
    m.v.part = 0
    out.append(c(torch.ones(3)))
    m.v = nn.Parameter(torch.zeros(3))
    m.v.whole = lambda: False
    return out, c(torch.ones(3)), m.w.grad, type(m.w).__name__, isinstance(m.w, nn.Parameter)


@program("", "a class that only added names overrides an operator, a method and torch's functions afterwards")
def overrides_later(compile):
    class Later(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    @compile
    def f(x):
        return x + 1, x.sin(), torch.cos(x), x.shape

    x = torch.arange(3.0).as_subclass(Later)
    out = [f(x)]
    Later.__add__ = lambda self, other: "added"
    out.append(f(x))
    Later.sin = lambda self: "sine"
    out.append(f(x))
    Later.shape = property(lambda self: "shape")
    out.append(f(x))
    Later.__torch_function__ = classmethod(lambda cls, func, types, args=(), kwargs=None: func.__name__)
    out.append(f(x)[:3])
    del Later.__add__, Later.sin, Later.shape
    Later.__torch_function__ = torch._C._disabled_torch_function_impl
    return out, f(x)


@program("", "methods that a class overrides are called, also those that operators and indices go through")
def overridden_methods(compile):
    class Own(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

        def __add__(self, other):
            return torch.Tensor.mul(self, other)

        def __getitem__(self, i):
            return "item"

        def sum(self):
            return torch.ones(1)

        def __len__(self):
            return 7

        @property
        def shape(self):
            return (1, 2)

    @compile
    def f(x):
        return x + 3, x[0], x.sum(), len(x), x.shape, torch.sum(x), 3 + x, x * 2

    return f(torch.arange(3.0).as_subclass(Own))
