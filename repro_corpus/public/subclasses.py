"""Programs after public reports about subclasses of Tensor in compiled functions."""

from __future__ import annotations

import torch
from torch.utils._pytree import tree_map_only

from repro_corpus.program import program


class Boxed(torch.Tensor):
    """One tensor in another, as the reports have it."""

    @staticmethod
    def __new__(cls, data):
        return torch.Tensor._make_wrapper_subclass(
            cls, data.size(), strides=data.stride(), dtype=data.dtype, device=data.device, requires_grad=data.requires_grad
        )

    def __init__(self, data):
        self._data = data

    def __tensor_flatten__(self):
        return ["_data"], {}

    @staticmethod
    def __tensor_unflatten__(inner, meta, size, stride):
        return Boxed(inner["_data"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        args, kwargs = tree_map_only(Boxed, lambda t: t._data, (args, kwargs or {}))
        return tree_map_only(torch.Tensor, Boxed, func(*args, **kwargs))


@program("pytorch#112264", "the tensor inside a wrapper is read in the function that made it")
def attribute_of_wrapper(compile):
    @compile
    def f(x):
        y = Boxed(x)
        return torch.ops.aten.sin(y._data), (y + 1)._data

    return f(torch.arange(3.0))


@program("pytorch#124878", "wrappers in wrappers, and their gradients")
def nested_wrappers(compile):
    @compile
    def f(x):
        return x.sin().cos()

    a = torch.ones(4, requires_grad=True)
    out = f(Boxed(Boxed(a)))
    return type(out).__name__, type(out._data).__name__, out._data._data


@program("pytorch#194323", "a bare subclass with __getattr__")
def bare_with_getattr(compile):
    @compile
    def f():
        class Custom(torch.Tensor):
            def __getattr__(self, name):
                if name == "custom":
                    return lambda x: self + x
                raise AttributeError(name)

        return Custom([1, 2, 3]).custom(torch.tensor([4, 5, 6]))

    return f().as_subclass(torch.Tensor)


@program("pytorch#115646", "a subclass with __torch_dispatch__ and no __tensor_flatten__")
def no_flatten(compile):
    class Counting(torch.Tensor):
        seen = 0

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            Counting.seen += 1
            return func(*[a.as_subclass(torch.Tensor) if isinstance(a, Counting) else a for a in args], **(kwargs or {}))

    @compile
    def f(x, y):
        return (y + 1) * 2 + torch.ones(2), x is not None

    return f(torch.ones(2).as_subclass(Counting), torch.ones(2))


@program("pytorch#128961", "an item of a subclass")
def item_of_subclass(compile):
    class Own(torch.Tensor):
        pass

    @compile
    def f(x):
        return x[0], x[1:] * 2, type(x[0]).__name__

    return f(torch.arange(4.0).as_subclass(Own))


@program("pytorch#132235", "tensors made inside __torch_dispatch__")
def made_inside_dispatch(compile):
    class Adding(torch.Tensor):
        @staticmethod
        def __new__(cls, src):
            return torch.Tensor._make_wrapper_subclass(cls, src.shape, strides=src.stride(), dtype=src.dtype, device=src.device)

        def __init__(self, src):
            self.src = src

        def __tensor_flatten__(self):
            return ["src"], None

        @classmethod
        def __tensor_unflatten__(cls, inner, meta, size, stride):
            return cls(inner["src"])

        @classmethod
        def __torch_dispatch__(cls, func, types, args, kwargs=None):
            args = tree_map_only(Adding, lambda t: t.src + torch.ones(t.shape, dtype=t.dtype), args)
            return tree_map_only(torch.Tensor, Adding, func(*args, **(kwargs or {})))

    @compile
    def f(x):
        return x * 2

    return f(Adding(torch.zeros(3))).src


@program("pytorch#128160", "__torch_function__ prints at each call")
def printing_function(compile):
    class Derived(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            print("function", getattr(func, "__name__", func))
            return super().__torch_function__(func, types, args, kwargs or {})

    @compile
    def f(x):
        return torch.sin(x) + 1

    y = f(torch.ones(2).as_subclass(Derived))
    return type(y) is Derived, y.as_subclass(torch.Tensor)
