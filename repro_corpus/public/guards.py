"""After reports of compiled code that was used again although what it was made from had changed, or that kept models alive."""

from __future__ import annotations

import contextlib
import gc
import weakref

import torch

from repro_corpus.program import program


@program("pytorch#124357", "an attribute of a module that changes between calls is taken for a constant")
def module_number_changes(compile):
    class Toy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.value = -1

        def forward(self, x):
            return x + self.value

    toy = Toy()
    f = compile(toy)
    seen = []
    for toy.value in (6, 8, 10):
        seen.append(f(torch.ones(2, 3)))
    return seen


@program("pytorch#176851", "a class attribute read through the class is not guarded")
def class_attribute_changes(compile):
    class State:
        factor = 1.0

    f = compile(lambda x: x * State.factor)
    seen = [f(torch.tensor([4.0]))]
    State.factor = 10.0
    return [*seen, f(torch.tensor([4.0]))]


@program("pytorch#197860", "__code__ of an inlined method is replaced")
def method_code_changes(compile):
    class Model:
        def m(self, x):
            return x * 2.0

    model = Model()
    f = compile(lambda x: model.m(x))
    seen = [f(torch.arange(3.0))]
    Model.m.__code__ = (lambda self, x: x * 9.0).__code__
    return [*seen, f(torch.arange(3.0))]


@program("pytorch#197860", "the same of a classmethod and of a function that a property calls")
def classmethod_code_changes(compile):
    class Model:
        @classmethod
        def c(cls, x):
            return x + 1

        @property
        def p(self):
            return 2

    model = Model()
    f = compile(lambda x: model.c(x) * model.p)
    seen = [f(torch.arange(3.0))]
    Model.c.__func__.__code__ = (lambda cls, x: x + 10).__code__
    seen.append(f(torch.arange(3.0)))
    vars(Model)["p"].fget.__code__ = (lambda self: 5).__code__
    return [*seen, f(torch.arange(3.0))]


@program("pytorch#124717", "a flag of a compiled module is switched by a context manager")
def adapter_switched(compile):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.disabled = False

        def forward(self, x):
            out = x * x
            return out if self.disabled else out + 1

    @contextlib.contextmanager
    def without(net):
        net.disabled = True
        try:
            yield
        finally:
            net.disabled = False

    net = compile(Net())
    seen = [net(torch.arange(4.0))]
    with without(net):
        seen.append(net(torch.arange(4.0)))
    return [*seen, net(torch.arange(4.0))]


@program("pytorch#197859", "an entry of a module's __dict__ hides a submodule")
def submodule_hidden(compile):
    class Wrapper(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.sub = torch.nn.ReLU()

        def forward(self, x):
            return self.sub(x)

    net = Wrapper()
    f = compile(net)
    x = torch.tensor([-1.0, 2.0])
    seen = [f(x)]
    object.__setattr__(net, "sub", torch.nn.Tanh())
    seen.append(f(x))
    object.__delattr__(net, "sub")
    return [*seen, f(x)]


@program("pytorch#197859", "the same of a parameter and of a buffer")
def parameter_hidden(compile):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(2))
            self.register_buffer("b", torch.ones(2))

        def forward(self, x):
            return x * self.w + self.b

    net = Net()
    f = compile(net)
    seen = [f(torch.ones(2))]
    object.__setattr__(net, "w", torch.full((2,), 3.0))
    seen.append(f(torch.ones(2)))
    object.__setattr__(net, "b", torch.full((2,), 5.0))
    return [*seen, f(torch.ones(2))]


@program("pytorch#111785", "a buffer's view kept as an attribute moves from call to call")
def view_attribute_moves(compile):
    class Cache(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("all", torch.zeros(4, 6))
            self.now = self.all

        def forward(self, x):
            self.now.copy_(x)
            return self.now * 2

    net = Cache()
    f = compile(net)
    seen = []
    for i in range(4):
        net.now = net.all[i : i + 1]
        seen.append(f(torch.ones(1, 6) + i).clone())
    return seen, net.all


@program("pytorch#174050", "__class__ is a property")
def class_is_a_property(compile):
    class Other:
        pass

    class Mask:
        @property
        def __class__(self):
            return Other

    mask = Mask()

    @compile
    def f(x, mask):
        return x + (1 if isinstance(mask, Mask) else 10)

    return f(torch.ones(2), mask)


@program("pytorch#97480", "getattr with a default on None")
def getattr_of_none(compile):
    return compile(lambda x: x + getattr(None, "arg", 3))(torch.ones(2))


@program("pytorch#122649", "a property returns a part of a class attribute")
def property_of_class_dict(compile):
    class X:
        parts = {"a": (torch.tensor(1.0),), "b": (torch.tensor(2.0),)}

        @property
        def outputs(self):
            return self.parts["a"]

    f = compile(lambda x: x.outputs[0] + 1)
    x = X()
    seen = [f(x)]
    X.parts = {"a": (torch.tensor(5.0),)}
    return [*seen, f(x)]


@program("pytorch#149895", "an object is made whose class has its own __getattribute__")
def made_with_getattribute(compile):
    class Foo:
        def __init__(self, a):
            self.a = a

        def __getattribute__(self, name):
            return super().__getattribute__(name)

    return compile(lambda x: x.sin() * Foo(3).a)(torch.ones(2))


@program("pytorch#127172", "getattr of a builtin type with a default")
def getattr_of_type(compile):
    class Mine:
        foo = 1

    f = compile(lambda x, m: x + (Mine.foo if getattr(type(m), "foo", 0) else 5))
    return f(torch.zeros(2), Mine()), f(torch.zeros(2), 0)


@program("pytorch#125702", "a property of a module reads a closure variable")
def property_with_closure(compile):
    x = torch.ones(2, 2)

    class Mod(torch.nn.Module):
        @property
        def y(self):
            return x * 2

        def forward(self, t):
            return t @ self.y

    net = Mod()
    f = compile(lambda t: net(t))
    seen = [f(torch.ones(2, 2))]
    x = torch.full((2, 2), 3.0)
    return [*seen, f(torch.ones(2, 2))]


@program("pytorch#105181", "a compiled model's memory stays after it is deleted")
def deleted_model(compile):
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    made = compile(net)
    made(torch.ones(2, 3))
    refs = [weakref.ref(p) for p in net.parameters()]
    del net, made
    gc.collect()
    return [r() is None for r in refs]


@program("pytorch#122969", "the same after a training step")
def deleted_after_training(compile):
    net = torch.nn.Linear(3, 3)
    made = compile(net)
    made(torch.ones(2, 3)).sum().backward()
    refs = [weakref.ref(x) for x in (net.weight, net.weight.grad)]
    del net, made
    gc.collect()
    return [r() is None for r in refs]
