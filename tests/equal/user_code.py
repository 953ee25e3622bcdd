"""User code that a compiler runs when the program doesn't, or fails to run when the program does."""

from __future__ import annotations

import threading
import types
import warnings

import numpy as np
import torch

from repro_corpus.program import program


class Slotted:
    """`__slots__` and a `__getattr__` that reads a slot: before the slot is set, any stray lookup recurses for ever."""

    __slots__ = ("inner", "seen")

    def __init__(self, inner):
        self.inner = inner
        self.seen = []

    def __getattr__(self, name):
        self.seen.append(name)
        return getattr(self.inner, name)


class Half:
    __slots__ = ("inner",)

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Counting:
    """Counts how often the program asks for an attribute that is not there."""

    __slots__ = ("asked",)

    def __init__(self):
        object.__setattr__(self, "asked", [])

    def __getattr__(self, name):
        self.asked.append(name)
        if name.startswith("__"):
            raise AttributeError(name)
        return 3


@program("", "__slots__ and __getattr__: nothing asks the object for what the program does not")
def slots_and_getattr(compile):
    box = Slotted(types.SimpleNamespace(scale=2.0))

    @compile
    def f(x, box):
        return x * box.scale

    return f(torch.ones(3), box), f(torch.ones(3), box), box.seen


@program("", "an object whose __getattr__ recurses while it is being made is passed on untouched")
def recursing_getattr(compile):
    half = Half.__new__(Half)

    @compile
    def f(x, half):
        return x + 1, half

    return f(torch.ones(3), half)[0]


@program("", "__getattr__ of an object in a list, in a closure and in a global is not run by tracing")
def counted_getattr(compile):
    a, b = Counting(), Counting()

    @compile
    def f(x, items):
        print("break")
        return x * items[0].size + b.width

    return f(torch.ones(3), [a]), a.asked, b.asked


@program("", "a resume function takes such an object as an argument")
def getattr_across_break(compile):
    half = Half.__new__(Half)
    counting = Counting()

    def inner(x, half, counting):
        print("inner")
        return x + counting.width

    @compile
    def f(x, half, counting):
        y = x * 2
        print(y.shape)
        return inner(y, half, counting)

    return f(torch.ones(3), half, counting), counting.asked


@program("", "import sympy inside a function")
def imports_sympy(compile):
    @compile
    def f(x):
        import sympy

        return x * int(sympy.Integer(3) + 1)

    return f(torch.ones(3))


@program("", "imports inside a function: a package, a name from a module, a relative name of a submodule")
def imports_modules(compile):
    @compile
    def f(x):
        import fractions
        from collections import OrderedDict as od
        from fractions import Fraction as fraction

        d = od(a=fractions.Fraction(1, 2))
        return x * float(fraction(3, 2) + d["a"])

    return f(torch.ones(3))


@program("", "torch.autograd.grad inside a function in a fresh process")
def autograd_grad_inside(compile):
    @compile
    def f(x):
        y = (x * x).sum()
        (g,) = torch.autograd.grad(y, x)
        return g * 2

    return f(torch.arange(3.0, requires_grad=True))


_local = threading.local()


@program("", "attributes of a threading.local")
def thread_local(compile):
    _local.scale = 3.0

    @compile
    def f(x):
        return x * _local.scale

    first = f(torch.ones(3))
    _local.scale = 5.0
    seen = [first, f(torch.ones(3))]

    def other():
        _local.scale = 7.0
        seen.append(f(torch.ones(3)))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    seen.append(f(torch.ones(3)))
    return seen


@program("", "a threading.local that is written, and one whose attribute is missing in this thread")
def thread_local_writes(compile):
    store = threading.local()

    @compile
    def f(x):
        store.count = getattr(store, "count", 0) + 1
        return x * store.count

    @compile
    def g(x):
        return x * store.missing if hasattr(store, "missing") else x

    return f(torch.ones(3)), f(torch.ones(3)), store.count, g(torch.ones(3))


class LocalWithInit(threading.local):
    def __init__(self, start):
        self.value = start


@program("", "a subclass of threading.local runs __init__ once per thread")
def thread_local_subclass(compile):
    store = LocalWithInit(2)

    @compile
    def f(x):
        return x * store.value

    seen = [f(torch.ones(3))]
    store.value = 9
    thread = threading.Thread(target=lambda: seen.append(f(torch.ones(3))))
    thread.start()
    thread.join()
    return [*seen, f(torch.ones(3))]


class AttrDict(dict):
    __setattr__ = dict.__setitem__
    __getattr__ = dict.__getitem__
    __delattr__ = dict.__delitem__


@program("", "a dict subclass with __setattr__ = dict.__setitem__")
def dict_with_setattr(compile):
    @compile
    def f(x, d):
        d.scale = 3
        d.total = x * d.scale
        return d.total + d["scale"]

    d = AttrDict(a=1)
    return f(torch.ones(3), d), d


@program("", "the same made inside the function, with a deletion, and read back after a break")
def dict_with_setattr_inside(compile):
    @compile
    def f(x):
        d = AttrDict()
        d.a = x + 1
        d.b = 2
        print(sorted(d))
        del d.b
        return d, d.a * 2

    return f(torch.ones(3))


class Lists(list):
    __setattr__ = list.__setitem__
    __call__ = list.__getitem__


class Recorder:
    __getitem__ = dict({"a": 2, "b": 3}).__getitem__
    __contains__ = frozenset({"a"}).__contains__
    __len__ = (1, 2, 3).__len__

    def __init__(self):
        self.k = 1


@program("", "special methods that are C methods, bound or not")
def c_special_methods(compile):
    @compile
    def f(x, r):
        return x * r["a"] + len(r) + (1 if "a" in r else 0) + (1 if "b" in r else 0)

    @compile
    def g(x, items):
        return x * items(1)

    return f(torch.ones(3), Recorder()), g(torch.ones(3), Lists([4, 5]))


@program("", "try: 1 // n except ZeroDivisionError around a folded constant")
def folded_division(compile):
    @compile
    def f(x, n):
        try:
            k = 1 // n
        except ZeroDivisionError as e:
            return x + 7, str(e)
        return x + k, ""

    return f(torch.ones(3), 0), f(torch.ones(3), 2), f(torch.ones(3), 0)


@program("", "the errors of folded operations reach the program's own except: %, **, shift, int(), index, conversion")
def folded_errors(compile):
    @compile
    def f(x, n, text, xs):
        seen = []
        for operation in (
            lambda: 5 % n,
            lambda: 0**-n,
            lambda: 1 << -n,
            lambda: int(text),
            lambda: xs[n],
            lambda: 5.0 / n,
            lambda: text + n,
        ):
            try:
                seen.append(operation())
            except (ZeroDivisionError, ValueError, IndexError, TypeError, ArithmeticError) as e:
                seen.append((type(e).__name__, str(e)))
        return x * len(seen), seen

    return f(torch.ones(3), 0, "q", []), f(torch.ones(3), 1, "7", [1, 2])


@program("", "a constant division in the code itself, caught, with a finally")
def constant_division(compile):
    @compile
    def f(x):
        done = []
        try:
            try:
                k = 1 // 0
            finally:
                done.append("finally")
        except ZeroDivisionError:
            k = 4
        try:
            1.0 / 0
        except ZeroDivisionError:
            done.append("float")
        try:
            divmod(3, 0)
        except ZeroDivisionError:
            done.append("divmod")
        return x * k, done

    return f(torch.ones(3))


@program("", "warnings.warn reaches the program's filters")
def warns(compile):
    @compile
    def f(x):
        warnings.warn("first", UserWarning, stacklevel=1)
        y = x * 2
        warnings.warn(DeprecationWarning("second"), stacklevel=1)
        return y

    seen = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = f(torch.ones(3))
        seen.append([(w.category.__name__, str(w.message)) for w in caught])
    return result, seen


@program("", "warnings.warn turned into an error is caught by the program")
def warns_as_error(compile):
    @compile
    def f(x):
        try:
            warnings.warn("careful", RuntimeWarning, stacklevel=1)
        except RuntimeWarning as e:
            return x * 5, str(e)
        return x, ""

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return f(torch.ones(3))


@program("", "warnings are errors, and the compiler has something to say: that code changes too often")
def own_warnings_as_errors(compile):
    @compile
    def f(x, name):
        return x * len(name), name + "!"

    @compile
    def g(x, name):
        try:
            return f(x, name)
        except UserWarning:
            return "not the program's"

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [f(torch.ones(3), chr(97 + n) * n) for n in range(12)], [g(torch.ones(2), chr(97 + n) * n) for n in range(12)]


@program("", "catch_warnings inside the function, and warn_explicit")
def catches_warnings(compile):
    @compile
    def f(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("inside", UserWarning, stacklevel=1)
            warnings.warn_explicit("explicit", UserWarning, "somewhere.py", 7)
        return x * len(caught), [str(w.message) for w in caught]

    return f(torch.ones(3))


@program("", "numpy scalars as arguments: np.float64, np.int64, np.bool_, np.float32")
def numpy_scalars(compile):
    @compile
    def f(x, a, b):
        return x * a + b, a, b

    rows = [(np.float64(2.5), np.int64(3)), (np.float32(1.5), np.bool_(True)), (np.float64(2.5), np.int64(4))]
    return [f(torch.ones(3), a, b) for a, b in rows]


@program("", "numpy scalars kept in attributes and closures, across a break and in results")
def numpy_scalars_elsewhere(compile):
    k = np.float64(0.5)
    box = types.SimpleNamespace(n=np.int32(4), z=np.complex128(1 + 2j))

    @compile
    def f(x):
        y = x * k
        print("at", box.n)
        return y + float(box.n), {"k": k, "n": box.n}, box.z

    return f(torch.ones(3))


@program("", "a deleted closure variable")
def deleted_closure_variable(compile):
    def outer(delete):
        scale = 3

        @compile
        def f(x):
            try:
                return x * scale
            except NameError as e:
                return x, type(e).__name__, str(e)

        first = f(torch.ones(3))
        if delete:
            del scale
        return first, f(torch.ones(3))

    return outer(True), outer(False)


@program("", "a closure variable deleted and set by the function itself, and one that is not yet set")
def deleted_inside(compile):
    def outer():
        @compile
        def f(x):
            nonlocal late
            try:
                y = x * late
            except NameError as e:
                y = x - 1
                late = 4
                return y, str(e)
            del late
            return y, "set"

        results = [f(torch.ones(3))]
        results.append(f(torch.ones(3)))
        results.append(f(torch.ones(3)))
        late = 8
        results.append(f(torch.ones(3)))
        return results

    return outer()


@program("", "Tensor attributes added later")
def tensor_attribute_later(compile):
    x = torch.ones(3)

    @compile
    def f(x):
        return x * x.scale if hasattr(x, "scale") else x - 1

    first = f(x)
    x.scale = 4
    second = f(x)
    x.scale = 5
    third = f(x)
    del x.scale
    return first, second, third, f(x)


class Held(torch.Tensor):
    pass


@program("", "attributes of tensors, parameters and subclasses that have the name of a method")
def tensor_attribute_named_like_a_method(compile):
    @compile
    def read(x):
        return x.t, x.held, x.sin

    @compile
    def called(x):
        return x.sum(), x.cos()

    @compile
    def put_inside(x):
        x.sum = lambda: 7
        return x.sum(), x.detach() * 2

    found = []
    for make in (torch.ones, lambda n: torch.ones(n).as_subclass(Held), lambda n: torch.nn.Parameter(torch.ones(n))):
        x = make(2)
        x.t, x.held, x.sin = 5, 6, [7]
        x.sum = lambda x=x: x * 3
        found += [read(x), called(x), put_inside(x), called(x)]
    return found


@program("", "attributes of parameters and of the Tensor class added later")
def tensor_class_attribute_later(compile):
    p = torch.nn.Parameter(torch.ones(3))

    @compile
    def f(x):
        return x * getattr(x, "corpus_extra", 2), hasattr(x, "corpus_extra")

    seen = [f(p)]
    torch.Tensor.corpus_extra = 10
    try:
        seen.append(f(p))
        p.corpus_extra = 7
        seen.append(f(p))
    finally:
        del torch.Tensor.corpus_extra
    seen.append(f(p))
    del p.corpus_extra
    return [*seen, f(p)]


class Noisy:
    """Every protocol says when it is used."""

    def __init__(self, log):
        self.log = log

    def __eq__(self, other):
        self.log.append("eq")
        return self is other

    def __hash__(self):
        self.log.append("hash")
        return 7

    def __bool__(self):
        self.log.append("bool")
        return True

    def __len__(self):
        self.log.append("len")
        return 1

    def __repr__(self):
        self.log.append("repr")
        return "Noisy"


@program("", "an object that says when it is compared, hashed, tested or printed is only passed through")
def noisy_object(compile):
    log = []
    noisy = Noisy(log)
    table = {noisy: 2}
    log.clear()

    @compile
    def f(x, noisy, table):
        print("break")
        return x + 1, [noisy], table

    f(torch.ones(3), noisy, table)
    f(torch.ones(3), noisy, table)
    return log


class Descriptor:
    def __init__(self, log):
        self.log = log

    def __get__(self, obj, owner=None):
        self.log.append("get" if obj is not None else "class")
        return 3

    def __set__(self, obj, value):
        self.log.append(("set", value))


@program("", "a user's data descriptor runs as often as in eager")
def descriptor_runs(compile):
    log = []

    class Holder:
        size = Descriptor(log)

    holder = Holder()

    @compile
    def f(x, holder):
        holder.size = 5
        return x * holder.size

    return f(torch.ones(3), holder), f(torch.ones(3), holder), log


@program("", "a property with an effect runs once per call")
def property_with_effect(compile):
    class Counter:
        def __init__(self):
            self.n = 0

        @property
        def next(self):
            self.n += 1
            return self.n

    counter = Counter()

    @compile
    def f(x):
        return x * counter.next

    return [f(torch.ones(2)) for _ in range(3)], counter.n


@program("", "__getattribute__ of the user runs once for each lookup")
def own_getattribute(compile):
    class Watched:
        def __init__(self):
            object.__setattr__(self, "log", [])
            object.__setattr__(self, "k", 2)

        def __getattribute__(self, name):
            if name != "log":
                object.__getattribute__(self, "log").append(name)
            return object.__getattribute__(self, name)

    w = Watched()

    @compile
    def f(x, w):
        return x * w.k + w.k

    return f(torch.ones(3), w), f(torch.ones(3), w), w.log


@program("", "a warning before the first operator, of a function that does nothing else")
def warned_first(compile):
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        warnings.warn("first of all", UserWarning, 1)
        return x * 2

    @compile
    def g(x: torch.Tensor) -> torch.Tensor:
        warnings.warn("nothing else", RuntimeWarning, 1)
        return x

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = [f(torch.ones(2)), f(torch.ones(2)), g(torch.ones(2))]
    return results, [(w.category.__name__, str(w.message)) for w in caught]
