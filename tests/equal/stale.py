"""What a graph was made from changes between calls: the compiled code must not be used again as if it had not."""

from __future__ import annotations

import builtins
import logging
import types

import torch
import torch.nn.functional as F

from repro_corpus.program import program

SCALE = 2


@program("", "storage_offset() of a view at another offset")
def storage_offset(compile):
    base = torch.arange(12.0)

    @compile
    def f(x):
        return x * x.storage_offset()

    return f(base[1:4]), f(base[5:8]), f(base[0:3])


@program("", "as_strided of a view at another offset")
def as_strided_offset(compile):
    base = torch.arange(12.0)

    @compile
    def f(x):
        return torch.as_strided(x, (2, 2), (2, 1)) * 2

    @compile
    def g(x):
        return x.as_strided((2, 2), (2, 1), 3) + x.as_strided((2, 2), (1, 2))

    rows = [base[1:5], base[4:8], base[0:4]]
    return [f(x) for x in rows], [g(x) for x in rows]


@program("", "an intermediate view's storage_offset, and set_ and as_strided_ on inputs")
def derived_offsets(compile):
    base = torch.arange(24.0)

    @compile
    def f(x):
        y = x[1:]
        return y * y.storage_offset() + y.as_strided((5,), (2,))

    @compile
    def g(x):
        y = x.clone()
        return y.as_strided((2,), (1,), 1) + x.as_strided((2,), (1,))

    rows = [base[2:8], base[5:11], base[0:6]]
    return [f(x) for x in rows], [g(x) for x in rows]


@program("", "a method overridden later in a middle class")
def middle_class(compile):
    class Base:
        def scale(self):
            return 2

    class Middle(Base):
        pass

    class Leaf(Middle):
        pass

    leaf = Leaf()

    @compile
    def f(x):
        return x * leaf.scale()

    seen = [f(torch.ones(3))]
    Middle.scale = lambda self: 5
    seen.append(f(torch.ones(3)))
    Leaf.scale = lambda self: 7
    seen.append(f(torch.ones(3)))
    del Leaf.scale
    seen.append(f(torch.ones(3)))
    del Middle.scale
    return [*seen, f(torch.ones(3))]


@program("", "a class attribute and a super() method overridden later in a middle class")
def middle_class_super(compile):
    class Base:
        size = 2

        def scale(self):
            return self.size

    class Middle(Base):
        pass

    class Leaf(Middle):
        def scale(self):
            return super().scale() + 1

    @compile
    def f(x, leaf):
        return x * leaf.scale()

    leaf = Leaf()
    seen = [f(torch.ones(3), leaf)]
    Middle.size = 4
    seen.append(f(torch.ones(3), leaf))
    Middle.scale = lambda self: 10
    seen.append(f(torch.ones(3), leaf))
    del Middle.scale
    leaf.size = 6
    seen.append(f(torch.ones(3), leaf))
    return seen


@program("", "an nn.Module's forward and a helper of it replaced on the class, on a base and on the instance")
def module_methods(compile):
    class Base(torch.nn.Module):
        def helper(self, x):
            return x + 1

        def forward(self, x):
            return self.helper(x) * 2

    class Net(Base):
        pass

    net = Net()
    g = compile(net)
    seen = [g(torch.ones(3))]
    Base.helper = lambda self, x: x + 10
    seen.append(g(torch.ones(3)))
    Net.helper = lambda self, x: x + 20
    seen.append(g(torch.ones(3)))
    Net.forward = lambda self, x: self.helper(x) * 3
    seen.append(g(torch.ones(3)))
    net.helper = lambda x: x + 30
    seen.append(g(torch.ones(3)))
    net.forward = lambda x: x - 1
    seen.append(g(torch.ones(3)))
    return seen


@program("", "property, staticmethod and classmethod replaced on a class")
def replaced_descriptors(compile):
    class Holder:
        @property
        def a(self):
            return 1

        @staticmethod
        def b():
            return 10

        @classmethod
        def c(cls):
            return 100

    holder = Holder()

    @compile
    def f(x, holder):
        return x * holder.a + holder.b() + holder.c()

    @compile
    def g(x):
        return x + Holder.b() + Holder.c()

    def both():
        return f(torch.ones(3), holder), g(torch.ones(3))

    seen = [both()]
    Holder.a = property(lambda self: 2)
    seen.append(both())
    Holder.b = staticmethod(lambda: 20)
    seen.append(both())
    Holder.c = classmethod(lambda cls: 200)
    seen.append(both())
    Holder.a = 3
    seen.append(both())
    Holder.b = lambda self=None: 30
    seen.append(both())
    return seen


@program("", "a property's functions are the same but their code is replaced")
def replaced_code(compile):
    class Holder:
        @property
        def a(self):
            return 1

        @staticmethod
        def b():
            return 10

        def c(self, k=3):
            return k

    holder = Holder()

    @compile
    def f(x, holder):
        return x * holder.a + holder.b() + holder.c()

    seen = [f(torch.ones(3), holder)]
    Holder.__dict__["a"].fget.__code__ = (lambda self: 2).__code__
    seen.append(f(torch.ones(3), holder))
    Holder.b.__code__ = (lambda: 20).__code__
    seen.append(f(torch.ones(3), holder))
    Holder.c.__defaults__ = (4,)
    seen.append(f(torch.ones(3), holder))
    return seen


@program("", "special methods replaced on a class: __call__, __getitem__, __len__, __add__, __init__, __getattr__, __enter__")
def replaced_special_methods(compile):
    class Thing:
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x * self.k

        def __getitem__(self, i):
            return self.k + i

        def __len__(self):
            return 1

        def __add__(self, other):
            return other + self.k

        def __getattr__(self, name):
            return 5

        def __enter__(self):
            return 2

        def __exit__(self, *exc):
            return None

    thing = Thing(2)

    @compile
    def f(x, thing):
        with thing as e:
            return thing(x) + thing[1] + len(thing) + (thing + 1) + thing.other + Thing(4).k + e

    seen = [f(torch.ones(3), thing)]
    changes = {
        "__call__": lambda self, x: x * 100,
        "__getitem__": lambda self, i: 200,
        "__len__": lambda self: 300,
        "__add__": lambda self, other: 400,
        "__getattr__": lambda self, name: 500,
        "__init__": lambda self, k: self.__dict__.update(k=600),
        "__enter__": lambda self: 700,
    }
    for name, value in changes.items():
        setattr(Thing, name, value)
        seen.append(f(torch.ones(3), thing))
    return seen


@program("", "special methods added later: truth, equality, iteration, hashing, attribute access")
def added_special_methods(compile):
    class Thing:
        pass

    thing = Thing()

    @compile
    def f(x, thing):
        return x * (2 if thing else 3), thing == 4, hasattr(thing, "extra")

    seen = [f(torch.ones(3), thing)]
    Thing.__bool__ = lambda self: False
    seen.append(f(torch.ones(3), thing))
    Thing.__eq__ = lambda self, other: other == 4
    seen.append(f(torch.ones(3), thing))
    Thing.__getattr__ = lambda self, name: 1
    seen.append(f(torch.ones(3), thing))
    del Thing.__getattr__
    Thing.extra = 3
    seen.append(f(torch.ones(3), thing))
    return seen


@program("", "__bases__ and __class__ replaced")
def replaced_bases(compile):
    class A:
        def k(self):
            return 1

    class B:
        def k(self):
            return 2

    class C(A):
        pass

    class D(B):
        pass

    c = C()

    @compile
    def f(x, c):
        return x * c.k()

    seen = [f(torch.ones(3), c)]
    C.__bases__ = (B,)
    seen.append(f(torch.ones(3), c))
    C.__bases__ = (A,)
    seen.append(f(torch.ones(3), c))
    c.__class__ = D
    seen.append(f(torch.ones(3), c))
    return seen


@program("", "F.relu = ... after compile")
def replaced_functional(compile):
    @compile
    def f(x):
        return F.relu(x)

    @compile
    def g(x):
        return torch.nn.functional.relu(x) + torch.sin(x)

    x = torch.tensor([-1.0, 2.0])
    seen = [f(x), g(x)]
    old, old_sin = F.relu, torch.sin
    F.relu = lambda x: x * 100
    try:
        seen += [f(x), g(x)]
        torch.sin = lambda x: x + 1000
        seen += [f(x), g(x)]
    finally:
        F.relu, torch.sin = old, old_sin
    return [*seen, f(x), g(x)]


@program("", "a function that a library module uses is replaced")
def replaced_inside_library(compile):
    layer = torch.nn.Linear(3, 3)
    torch.nn.init.ones_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    relu = torch.nn.ReLU()

    @compile
    def f(x):
        return relu(layer(x))

    x = torch.tensor([-1.0, 2.0, 3.0])
    seen = [f(x)]
    old_linear, old_relu = F.linear, torch.nn.ReLU.forward
    F.linear = lambda x, weight, bias=None: x - 5
    try:
        seen.append(f(x))
        torch.nn.ReLU.forward = lambda self, x: x * 7
        seen.append(f(x))
    finally:
        F.linear, torch.nn.ReLU.forward = old_linear, old_relu
    return [*seen, f(x)]


@program("", "a method of Tensor replaced, and an operator of it")
def replaced_tensor_method(compile):
    @compile
    def f(x):
        return x.relu() + 1

    x = torch.tensor([-1.0, 2.0])
    seen = [f(x)]
    torch.Tensor.relu = lambda self: self * 50
    try:
        seen.append(f(x))
    finally:
        del torch.Tensor.relu
    seen.append(f(x))
    torch.Tensor.__add__, old = (lambda self, other: self * other * 3), torch.Tensor.__add__
    try:
        seen.append(f(x))
    finally:
        if "__add__" in vars(torch._C.TensorBase):
            del torch.Tensor.__add__
        else:
            torch.Tensor.__add__ = old
    return [*seen, f(x)]


@program("", "builtins replaced")
def replaced_builtins(compile):
    @compile
    def f(x, items):
        return x * len(items) + max(items)

    seen = [f(torch.ones(3), [1, 2, 3])]
    old_len, old_max = builtins.len, builtins.max
    try:
        builtins.len = lambda items: 100
        seen.append(f(torch.ones(3), [1, 2, 3]))
        builtins.max = lambda items: 1000
        seen.append(f(torch.ones(3), [1, 2, 3]))
    finally:
        builtins.len, builtins.max = old_len, old_max
    return [*seen, f(torch.ones(3), [1, 2, 3])]


@program("", "a builtin hidden by a global later, and a new builtin")
def hidden_builtins(compile):
    namespace = {"torch": torch}
    exec(
        "def f(x, items):\n    return x * len(items)\ndef g(x):\n    return x * corpus_new if 'corpus_new' in dir(__builtins__) else x\n",
        namespace,
    )
    f = compile(namespace["f"])
    seen = [f(torch.ones(3), [1, 2])]
    namespace["len"] = lambda items: 7
    seen.append(f(torch.ones(3), [1, 2]))
    del namespace["len"]
    seen.append(f(torch.ones(3), [1, 2]))

    @compile
    def h(x):
        try:
            return x * corpus_extra  # defined below, as a builtin
        except NameError as e:
            return x, str(e)

    seen.append(h(torch.ones(3)))
    builtins.corpus_extra = 5
    try:
        seen.append(h(torch.ones(3)))
    finally:
        del builtins.corpus_extra
    return [*seen, h(torch.ones(3))]


@program("", "a global, a closure variable, a default and an attribute of a function changed between calls")
def changed_names(compile):
    global SCALE
    SCALE = 2
    k = 3

    def helper(x, by=2):
        return x * by + helper.extra

    helper.extra = 1

    @compile
    def f(x):
        return helper(x) * SCALE + k

    seen = [f(torch.ones(3))]
    SCALE = 5
    seen.append(f(torch.ones(3)))
    k = 7
    seen.append(f(torch.ones(3)))
    helper.__defaults__ = (11,)
    seen.append(f(torch.ones(3)))
    helper.extra = 13
    seen.append(f(torch.ones(3)))
    helper.__code__ = (lambda x, by=2: x - by * helper.extra).__code__
    seen.append(f(torch.ones(3)))
    SCALE = 2
    return [*seen, f(torch.ones(3))]


@program("", "functions in a module of the user replaced, and the module itself")
def changed_module(compile):
    module = types.ModuleType("corpus_module")
    exec("import torch\nK = 2\ndef double(x):\n    return x * K\n", module.__dict__)

    @compile
    def f(x):
        return module.double(x)

    seen = [f(torch.ones(3))]
    module.K = 3
    seen.append(f(torch.ones(3)))
    module.double = lambda x: x + 100
    seen.append(f(torch.ones(3)))
    module = types.SimpleNamespace(double=lambda x: x - 100)
    seen.append(f(torch.ones(3)))
    return seen


@program("", "metaclass attributes, class attributes seen through the class, and an attribute that hides one of a base")
def class_attributes(compile):
    class Meta(type):
        depth = 2

    class Base(metaclass=Meta):
        width = 3

    class Leaf(Base):
        pass

    @compile
    def f(x):
        return x * Leaf.width + Leaf.depth, hasattr(Leaf, "extra")

    seen = [f(torch.ones(3))]
    Base.width = 4
    seen.append(f(torch.ones(3)))
    Leaf.width = 5
    seen.append(f(torch.ones(3)))
    Meta.depth = 6
    seen.append(f(torch.ones(3)))
    Leaf.depth = 7
    seen.append(f(torch.ones(3)))
    Meta.extra = 8
    seen.append(f(torch.ones(3)))
    Leaf.__slots_hint__ = None
    return seen


@program("", "an enum's and a dataclass's methods replaced")
def enum_and_dataclass(compile):
    import dataclasses
    import enum

    class Color(enum.Enum):
        RED = 2

        def scale(self):
            return self.value

    @dataclasses.dataclass
    class Point:
        a: int = 3

        def total(self):
            return self.a

    point = Point()

    @compile
    def f(x, c):
        return x * c.scale() + point.total() + Point().a

    seen = [f(torch.ones(3), Color.RED)]
    Color.scale = lambda self: 9
    seen.append(f(torch.ones(3), Color.RED))
    Point.total = lambda self: 50
    seen.append(f(torch.ones(3), Color.RED))
    Point.__init__ = lambda self: setattr(self, "a", 70)
    seen.append(f(torch.ones(3), Color.RED))
    return seen


@program("", "objects that the function reaches by itself first are other ones at the next call")
def met_as_constants_first(compile):
    import enum

    class Op(enum.Flag):
        NEG = enum.auto()
        SQUARE = enum.auto()

    class Level(enum.Enum):
        LOW = 1
        HIGH = 2

    @compile
    def flags(x, op):
        if Op.NEG in op:
            x = -x
        return x * x if op & Op.SQUARE else x

    @compile
    def table(x, level):
        return x * {Level.LOW: 2, Level.HIGH: 3}[level], level is Level.LOW

    @compile
    def default(x, level=None, *, known=Level):
        low = known.LOW
        return x + (1 if level == low else 10)

    x = torch.arange(3.0)
    every = [flags(x, op) for op in (Op.NEG, Op.NEG | Op.SQUARE, Op.SQUARE, Op(0), Op.NEG)]
    return every, [(table(x, level), default(x, level)) for level in (Level.LOW, Level.HIGH, Level.LOW)]


@program("", "functions of the standard library replaced")
def replaced_stdlib(compile):
    import math
    import operator

    @compile
    def f(x):
        return x * math.floor(2.5) + operator.add(1, 2)

    seen = [f(torch.ones(3))]
    old = math.floor
    math.floor = lambda v: 40
    try:
        seen.append(f(torch.ones(3)))
    finally:
        math.floor = old
    return [*seen, f(torch.ones(3))]


@program("", "context managers and hooks: a module's hooks and a function's wrapper added later")
def added_hooks(compile):
    net = torch.nn.Linear(2, 2, bias=False)
    torch.nn.init.ones_(net.weight)
    g = compile(net)
    seen = [g(torch.ones(2))]
    handle = net.register_forward_hook(lambda m, args, out: out * 10)
    seen.append(g(torch.ones(2)))
    handle.remove()
    seen.append(g(torch.ones(2)))
    handle = torch.nn.modules.module.register_module_forward_hook(lambda m, args, out: out + 100)
    seen.append(g(torch.ones(2)))
    handle.remove()
    return [*seen, g(torch.ones(2))]


@program("", "switches of torch's that no state guard holds are read, switched outside, and read again")
def switches_are_read_again(compile):
    @compile
    def f(x):
        return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled(), torch.is_warn_always_enabled(), x + 1

    def switched():
        yield f(torch.ones(2))
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            yield f(torch.ones(2))
        torch.set_warn_always(True)
        yield f(torch.ones(2))
        torch.set_warn_always(False)
        yield f(torch.ones(2))

    return list(switched())


@program("", "the type and the cache of autocast are switched while it is off")
def autocast_switched_while_off(compile):
    @compile
    def f(x):
        return torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled(), x + 1

    @compile
    def block(x):
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=True):
            y = x @ x
        return y, torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()

    x = torch.ones(2, 2)
    found = [f(x), block(x)]
    torch.set_autocast_dtype("cpu", torch.float16)
    torch.set_autocast_cache_enabled(False)
    found += [f(x), block(x), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()]
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    torch.set_autocast_cache_enabled(True)
    return found, f(x), block(x)


@program("", "a logger is switched off and on, and all loggers up to a level")
def logger_switched_off(compile):
    logger = logging.getLogger("tests.equal.stale")
    logger.setLevel(logging.INFO)

    @compile
    def f(x):
        return x + 1 if logger.isEnabledFor(logging.INFO) else x

    found = [f(torch.ones(2))]
    logger.disabled = True
    found.append(f(torch.ones(2)))
    logger.disabled = False
    found.append(f(torch.ones(2)))
    logging.disable(logging.ERROR)
    found.append(f(torch.ones(2)))
    logging.disable(logging.NOTSET)
    return found, f(torch.ones(2))


@program("", "a logger that said nothing is switched on again")
def silent_logger_speaks(compile):
    logger = logging.getLogger("tests.equal.stale.silent")
    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logger.addHandler(handler)
    logger.propagate = False

    @compile
    def f(x):
        logger.error("shape %s", tuple(x.shape))
        return x + 1

    logger.disabled = True
    f(torch.ones(2))
    logger.disabled = False
    f(torch.ones(3))
    logging.disable(logging.CRITICAL)
    f(torch.ones(4))
    logging.disable(logging.NOTSET)
    f(torch.ones(4))
    logger.removeHandler(handler)
    return said
