"""What real objects show: exceptions, tracebacks, caches with effects, finalizers, one of several views, memory of results."""

from __future__ import annotations

import functools
import traceback
import types
from typing import Any

import torch

from repro_corpus.program import Compile, program


def raised(fn: Any, *args: Any) -> Any:
    try:
        return fn(*args)
    except (RuntimeError, ValueError, TypeError) as e:
        return type(e).__name__, str(e).partition(" of ")[2][:40]  # the number of the output is not kept


@program("", "`args` of an exception that existed before the call, set by `__init__` and by assignment")
def args_of_real_exceptions(compile: Compile) -> Any:
    def by_init(e, x):
        ValueError.__init__(e, "mine", 3)
        return x + 1, e.args, str(e)

    def by_assignment(e, x):
        e.args = ["set", 4]
        return x + 1, e.args

    out = []
    for fn in (by_init, by_assignment):
        fast = compile(fn)
        for _ in range(2):
            e = ValueError(1)
            out.append((fast(e, torch.ones(1)), e.args))
    return out


@program("", "`__exit__`, `sys.exc_info` and `__traceback__` give a traceback, not None")
def tracebacks_are_there(compile: Compile) -> Any:
    class Swallow:
        def __exit__(self, kind, error, tb):
            self.seen = (kind is ValueError, tb is not None, error.__traceback__ is tb)
            return True

        def __enter__(self):
            return self

    @compile
    def f(x):
        with Swallow() as s:
            raise ValueError("a")
        try:
            raise KeyError("b")
        except KeyError as e:
            there = e.__traceback__ is not None
        return x + 1, s.seen, there, ValueError("new").__traceback__

    return f(torch.ones(2)), f(torch.ones(2))


@program("", "a cached function with an effect has it once per key; one without an effect stays in the graph")
def caches_with_effects(compile: Compile) -> Any:
    calls = []

    @functools.cache
    def loud(n):
        calls.append(n)
        return n * 2

    @functools.lru_cache(maxsize=4)
    def quiet(n):
        return n + 1

    @compile
    def f(x, n):
        return x * loud(n) + loud(n) + quiet(n)

    return f(torch.ones(2), 3), f(torch.ones(2), 3), f(torch.ones(2), 4), calls


@program("", "objects with `__del__` that the call makes are finalized")
def finalizers_run(compile: Compile) -> Any:
    log = []

    class Noisy:
        def __init__(self, n):
            self.n = n

        def __del__(self):
            log.append(self.n)

    @compile
    def f(x):
        a = Noisy(1)
        return x + a.n

    return f(torch.ones(2)), f(torch.ones(2)), log


@program("", "facts of a class are not asked of its metaclass's `__getattr__`")
def metaclass_getattr(compile: Compile) -> Any:
    asked = []

    class Meta(type):
        def __getattr__(cls, name):
            asked.append(name)
            return len(name)

    class A(metaclass=Meta):
        pass

    @compile
    def f(x):
        return x + 1, isinstance(3, A), isinstance(x, A), A.hello

    return f(torch.ones(2)), f(torch.ones(2)), asked


@program("", "an attribute that a function lacks and gets later, also a new function of the same code")
def attributes_of_functions(compile: Compile) -> Any:
    def once():
        def b(x):
            return x

        fast = compile(lambda x: x + getattr(b, "attr", 0))
        out = [fast(torch.zeros(1))]
        b.attr = 3
        out.append(fast(torch.zeros(1)))
        del b.attr
        return [*out, fast(torch.zeros(1))]

    return once(), once()


@program("", "autograd refuses writes to one of several views, also where a graph returned it")
def one_of_several_views(compile: Compile) -> Any:
    def unbound(x):
        u, _ = x.clone().unbind(0)
        return u.mul_(2)

    def split(x):
        y = x.clone()
        y.chunk(2)[1].mul_(2)
        return y

    def stale(x):
        y = x.clone()
        u, _ = y.unbind(0)
        y.mul_(2)
        return u

    def without_grad(x):
        y = x.clone()
        with torch.no_grad():
            y.split(1)[0].mul_(2)
        return y

    def given(x):
        return x.unbind(0)[0], x.split(1)[1]

    out = []
    for fn in (unbound, split, without_grad):
        fast = compile(fn)
        out += [raised(fast, torch.ones(2, 2, requires_grad=True)), raised(fast, torch.ones(2, 2))]
    out.append(raised(lambda v: v.grad_fn is None, compile(stale)(torch.ones(2, 2, requires_grad=True))))
    for view in compile(given)(torch.ones(2, 2, requires_grad=True) * 1):
        out.append(raised(view.mul_, 2))
    return out


@program("", "a copy that was reshaped and the same copy once more are two tensors")
def copies_have_memory_of_their_own(compile: Compile) -> Any:
    out = []
    for fn in (
        lambda x: (x.reshape(-1), x.contiguous()),
        lambda x: (x.contiguous(), x.flatten()),
        lambda x: (x.reshape(2, -1), x.clone(memory_format=torch.contiguous_format)),
    ):
        for x in (torch.ones(4, 6).t(), torch.ones(4, 6)[::2, 1::2]):
            a, b = compile(fn)(x)
            a.add_(1)
            out += [a, b]
    return out


@program("", "namespaces made inside, also of a subclass, returned and kept")
def namespaces(compile):
    class Mine(types.SimpleNamespace):
        def total(self):
            return self.x.sum()

    kept = []

    @compile
    def f(x):
        n = types.SimpleNamespace(x=x + 1, names=["a"])
        n.extra = n
        kept.append(Mine(x=x * 2))
        return n, kept[-1].total(), n == types.SimpleNamespace(x=1)

    n, total, same = f(torch.ones(2))
    return n.x, n.names, n.extra is n, total, same, type(kept[0]).__name__, kept[0].x


@program("", "methods of builtins, bound: their classes, names, owners, and what they are equal to")
def bound_builtin_methods(compile):
    import types

    @compile
    def f(x):
        values = []
        methods = values.append, x.add, "".join, {}.get, (1).__add__, x.__add__, dict.fromkeys, x.sin, f.__call__, x.__len__
        facts = [(type(m).__name__, m.__name__, m.__class__.__name__, callable(m), hasattr(m, "__func__")) for m in methods]
        kinds = [isinstance(m, types.MethodType) or isinstance(m, types.BuiltinMethodType) * 2 for m in methods[:8]]
        values.append.__call__(x.add.__call__(1))
        more = x.add.__qualname__, values.append.__qualname__, x.sin.__module__, getattr(x.sin, "__func__", 0)
        return values, facts[:8], kinds, more, values.append == values.append, x.add == x.sin, values.append.__self__ is values

    return f(torch.ones(2)), f(torch.ones(3, dtype=torch.int64))


@program("", "methods of builtins as arguments, the one and the other kind in turn")
def methods_as_arguments(compile):
    @compile
    def f(m, x):
        return m(x), type(m).__name__, hasattr(m, "__func__"), getattr(m, "__module__", 0)

    class Adds:
        def add(self, x):
            return x + 1

    x = torch.ones(2)
    return [f(m, x) for m in (x.add, Adds().add, x.mul, x.__add__, [x].count, torch.ones(2).add, torch.add)[:4]]


@program("", "tracebacks of errors that are caught and kept: functions, lines, causes, raised again, taken away, read after a break")
def tracebacks_of_kept_errors(compile: Compile) -> Any:
    def inner(x, n):
        if n:
            raise ValueError(n)
        return x

    def middle(x, n):
        return inner(x, n) + 1

    kept = []

    @compile
    def f(x, n, pause):
        try:
            middle(x, n)
        except ValueError as e:
            kept.append(e)
        try:
            try:
                inner(x, n)
            except ValueError as e:
                raise KeyError("k") from e
        except KeyError as e:
            kept.append(e)
        try:
            try:
                inner(x, n)
            finally:
                x = x + 1
        except ValueError as e:
            kept.append(e)
        for again in (True, False):
            try:
                try:
                    inner(x, n)
                except ValueError as e:
                    if again:
                        raise
                    raise e
            except ValueError as e:
                kept.append(e)
        try:
            raise TypeError("t")
        except TypeError as e:
            kept.append(e.with_traceback(None))
        if pause:
            print("pause")
        return x * 2, [e.__traceback__ is not None for e in kept]

    def shown(e):
        return [(s.name, s.lineno, s.line) for s in traceback.extract_tb(e.__traceback__)] if e is not None else None

    results = [f(torch.ones(1), 3, False), f(torch.ones(1), 4, True)]
    return results, [(type(e).__name__, shown(e), shown(e.__cause__), shown(e.__context__)) for e in kept]


@program("", "texts of errors that are given or were kept over a break: of the system, of codecs, of syntax")
def texts_of_given_errors(compile: Compile) -> Any:
    @compile
    def read(x: torch.Tensor, error: BaseException) -> Any:
        return x + 1, str(error), f"{error}"

    @compile
    def changed(x: torch.Tensor, error: OSError) -> Any:
        error.strerror = "moved"
        return x + 1, str(error)

    @compile
    def kept(x: torch.Tensor, *args: Any) -> Any:
        try:
            raise OSError(*args)
        except OSError as error:
            return x * 2, str(error), error.errno

    forms: list[tuple[Any, ...]] = [(2, "gone", "name"), (2, "gone"), ("gone",), (), (2, "gone", "a", None, "b"), (13, "no", None)]
    seen: list[Any] = []
    for args in forms:
        seen += [read(torch.ones(1), OSError(*args)), changed(torch.ones(1), OSError(*args)), kept(torch.ones(1), *args)]
    others = [
        UnicodeDecodeError("utf-8", b"a\xff", 1, 2, "bad"),
        SyntaxError("bad", ("f.py", 3, 1, "x y")),
        KeyError("k"),
        ImportError("no", name="m"),
    ]
    return seen + [read(torch.ones(1), error) for error in others]
