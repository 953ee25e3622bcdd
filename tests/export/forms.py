"""The forms that `export` takes, one row each: a function or module, example arguments, and a second set for the same graph.

`docs/export.md` has the same table in words; `test_docs` compares the names.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.utils.checkpoint
from torch import nn

import dynamo

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Pair(NamedTuple):
    u: Any
    v: Any


@dataclass
class Point:
    x: Any
    y: Any = 3


@dataclass(frozen=True)
class Frozen:
    t: torch.Tensor
    scale: float = 2.0


class Attributes(dict):  # type: ignore[type-arg]  # as models write it
    """A dict whose items are attributes too, as results of models are."""

    def __init__(self, **items: Any) -> None:
        super().__init__(items)
        self.__dict__.update(items)


class Box:
    def __init__(self, t: Any, k: int) -> None:
        self.t = t
        self.k = k


@dataclass(frozen=True)
class Form:
    """`calls` makes the arguments of each call, the first is the example. `savable`: it has a form in a file."""

    name: str
    make: Callable[[], Callable[..., Any]]
    calls: Callable[[], list[Arguments]]
    savable: bool = True
    classes: tuple[type, ...] = field(default=())


FORMS: list[Form] = []


def form(name: str, *calls: Callable[[], Arguments], savable: bool = True, classes: tuple[type, ...] = ()) -> Callable[[Any], Any]:
    """A row for a function, or (for a class) a module that is made anew for each test."""

    def add(f: Any) -> Any:
        make = f if isinstance(f, type) else lambda: f
        FORMS.append(Form(name, make, lambda: [call() for call in calls], savable, classes))
        return f

    return add


def a(*args: Any, **kwargs: Any) -> Arguments:
    return args, kwargs


def t(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


# ---- arguments ----------------------------------------------------------------------------------------------


@form("positional", lambda: a(t(3), t(3)), lambda: a(t(3), t(3)))
def positional(x: Any, y: Any) -> Any:
    return x.sin() + y


@form("positional by name", lambda: a(t(3), y=t(3)), lambda: a(y=t(3), x=t(3)))
def by_name(x: Any, y: Any) -> Any:
    return x - y


@form("keyword-only with defaults", lambda: a(t(3), scale=2), lambda: a(t(3), scale=2, shift=1.5))
def keyword_only(x: Any, *, scale: int, shift: float = 1.5) -> Any:
    return x * scale + shift


@form("positional-only", lambda: a(t(3), 2), lambda: a(t(3)))
def positional_only(x: Any, n: int = 2, /) -> Any:
    return x**n


@form("star and double star", lambda: a(t(3), t(3), t(3), z=t(3), w=t(3)), lambda: a(t(3), t(3), t(3), w=t(3), z=t(3)))
def stars(first: Any, *rest: Any, **named: Any) -> Any:
    return first + rest[0] * rest[1] - named["z"] / named["w"]


@form("list, tuple and dict", lambda: a([t(2), (t(2), {"k": t(2)})]), lambda: a([t(2), (t(2), {"k": t(2)})]))
def nested(xs: Any) -> Any:
    return {"sum": xs[0] + xs[1][0], "rest": [xs[1][1]["k"] * 2, (xs[0],)]}


@form("dataclass", lambda: a(Point(t(2), 3)), lambda: a(Point(t(2), 3)))
def data_class(p: Any) -> Any:
    return Point(p.x * p.y, 4)


@form("frozen dataclass", lambda: a(Frozen(t(2))), lambda: a(Frozen(t(2))))
def frozen(p: Any) -> Any:
    return dataclasses.replace(p, t=p.t * p.scale)


@form("named tuple", lambda: a(Pair(t(2), 7)), lambda: a(Pair(t(2), 8)))
def named_tuple(p: Any) -> Any:
    return Pair(p.u * 2, p.v)


@form(
    "ordered and default dict, deque",
    lambda: a(collections.OrderedDict(b=t(2), a=t(2))),
    lambda: a(collections.OrderedDict(b=t(2), a=t(2))),
)
def collections_(d: Any) -> Any:
    out = collections.OrderedDict(z=d["a"] + 1, y=None)
    return out, collections.defaultdict(list, {"k": [d["b"]]}), collections.deque([d["a"]])


@form("dict with attributes", lambda: a(t(2)), lambda: a(t(2)))
def attributes(x: Any) -> Any:
    return Attributes(loss=x.sum(), logits=x)


@form("object that holds tensors", lambda: a(Box(t(2), 2)), lambda: a(Box(t(2), 2)), classes=(Box,))
def box(b: Any) -> Any:
    return Box(b.t * b.k, b.k)


@form("None and flags", lambda: a(t(2), None, True), lambda: a(t(2), None, True))
def none(x: Any, mask: Any, flag: Any) -> Any:
    return (x if mask is None else x * mask) + (1 if flag else 2), None


@form("numbers and strings", lambda: a(t(2), 3, 0.5, "mean"), lambda: a(t(2), 3, 0.5, "mean"))
def plain(x: Any, n: int, p: float, how: str) -> Any:
    y = x * n + p
    return (y.mean() if how == "mean" else y.sum()), n, how


@form("the same tensor twice", lambda: (lambda x: a(x, x))(t(2)), lambda: (lambda x: a(x, x))(t(2)))
def same(x: Any, y: Any) -> Any:
    return x + y, x, y


@form("parameters with names that code of graphs uses", lambda: a(t(2), "cpu", inf=t(2)), lambda: a(t(2), inf=t(2), device="cpu"))
def taken_names(torch: Any, device: str, *, inf: Any, nan: float = 2.0) -> Any:
    return torch.to(device) * nan + inf.clamp(max=float("inf")), torch.new_zeros(2, device=device)


def called_self() -> Callable[..., Any]:
    w = torch.ones(2) * 3

    def f(self: Any, x: Any) -> Any:
        return self * w + x

    return f


form("a parameter called self", lambda: a(t(2), t(2)), lambda: a(t(2), x=t(2)))(called_self())


@form("unread arguments", lambda: a(t(2), t(3), Box(None, 1)), lambda: a(t(2), t(3), Box(None, 2)))
def unread(x: Any, y: Any, z: Any) -> Any:
    return x.cos()


# ---- results ------------------------------------------------------------------------------------------------


@form("inputs returned untouched", lambda: a(t(2), 5, {"k": [t(1)]}), lambda: a(t(2), 6, {"k": [t(1)]}))
def untouched(x: Any, n: Any, d: Any) -> Any:
    return x, n, d, d["k"]


@form("the same object twice in the result", lambda: a(t(2)), lambda: a(t(2)))
def shared_result(x: Any) -> Any:
    y = [x.sin()]
    return y, {"again": y, "inner": y[0]}


@form("constants of every kind", lambda: a(t(2)), lambda: a(t(2)))
def constants(x: Any) -> Any:
    return (
        1,
        2.5,
        float("inf"),
        1j,
        True,
        None,
        "s",
        b"b",
        x.dtype,
        x.device,
        x.shape,
        slice(1, 2),
        ...,
        {1, 2},
        frozenset("a"),
        torch.strided,
    )


@form("struct sequences of torch", lambda: a(t(2, 3)), lambda: a(t(2, 3)))
def struct_sequence(x: Any) -> Any:
    return x.max(0), torch.sort(x, dim=1)


@form("nothing computed", lambda: a(t(2)), lambda: a(t(2)))
def nothing(x: Any) -> Any:
    return None


@form("views and aliases", lambda: a(t(2, 3)), lambda: a(t(2, 3)))
def views(x: Any) -> Any:
    return x.t(), x[0], x.view(6), x


# ---- constants of the program -------------------------------------------------------------------------------

WEIGHT = torch.arange(2.0)


@form("global tensors", lambda: a(t(2)), lambda: a(t(2)))
def global_tensor(x: Any) -> Any:
    return x * WEIGHT, WEIGHT


def closed_over() -> Callable[..., Any]:
    w = torch.ones(2) * 3
    return lambda x: x + w


form("closures", lambda: a(t(2)), lambda: a(t(2)))(closed_over())


@dynamo.assume_constant_result
def assumed(kind: str) -> Any:
    results: dict[str, Any] = {
        "none": None,
        "number": 2.5,
        "string": "s",
        "tensor": torch.ones(2) * 4,
        "list": [1, torch.ones(2)],
        "tuple": (1, torch.ones(2)),
        "dict": {"k": torch.ones(2)},
        "named tuple": Pair(1, torch.ones(2)),
        "dataclass": Point(torch.ones(2), 1),
        "dtype": torch.float64,
        "size": torch.Size([2]),
    }
    return results[kind]


for _kind in ("none", "number", "string", "tensor", "list", "tuple", "dict", "named tuple", "dataclass", "dtype", "size"):

    def _assume(kind: str) -> Callable[..., Any]:
        def f(x: Any) -> Any:
            return x + 1, assumed(kind)

        return f

    form(f"assume_constant_result: {_kind}", lambda: a(t(2)), lambda: a(t(2)))(_assume(_kind))


@form("assume_constant_result of a method, of tensors", lambda: a(torch.tensor([0.0, 2.0])), lambda: a(torch.tensor([0.0, 3.0])))
class ConstantMethod(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.tensor([1.0, 0.0]))

    @dynamo.assume_constant_result
    def places(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x)

    def forward(self, x: Any) -> Any:
        return x * 2, self.places(x), self.places(self.p), self.places(x.sin())


# ---- modules ------------------------------------------------------------------------------------------------


@form("module with parameters", lambda: a(t(4, 3)), lambda: a(t(4, 3)))
class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 5)
        self.second = nn.Linear(5, 2)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x).relu())


@form("buffers written in place", lambda: a(t(4, 3)), lambda: a(t(4, 3)))
class Statistics(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: Any) -> Any:
        return self.norm(x)


@form("buffers that are replaced", lambda: a(t(3)), lambda: a(t(3)))
class Counter(nn.Module):
    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        before = self.count
        self.count = self.count + x.detach()
        return before, x * self.count


@form("shared parameters", lambda: a(torch.tensor([0, 2, 1])), lambda: a(torch.tensor([2, 2, 1])))
class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(3, 4)
        self.head = nn.Linear(4, 3, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Any) -> Any:
        return self.head(self.embedding(tokens))


@form("recurrent module", lambda: a(t(5, 2, 3)), lambda: a(t(5, 2, 3)))
class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4)

    def forward(self, x: Any) -> Any:
        return self.lstm(x)


@form("attention", lambda: a(t(2, 3, 4)), lambda: a(t(2, 3, 4)))
class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.attention(x, x, x, need_weights=False)


@form("numbered children", lambda: a(t(1, 1, 6, 6)), lambda: a(t(1, 1, 6, 6)))
class Numbered(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Sequential(nn.Conv2d(2, 1, 3), nn.Sigmoid()), nn.Flatten())


@form("bound method", lambda: a(t(3)), lambda: a(t(3)))
def bound(x: Any) -> Any:
    return Scaled(3.0).apply(x)


class Scaled:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def apply(self, x: Any) -> Any:
        return x * self.factor


# ---- effects inside the graph -------------------------------------------------------------------------------


@form("arguments written in place", lambda: a(t(2, 2), t(2)), lambda: a(t(2, 2), t(2)))
def written(x: Any, y: Any) -> Any:
    x.add_(1)
    y[0].mul_(2)
    return x * 2, y


@form("modes", lambda: a(t(2, 2)), lambda: a(t(2, 2)))
def modes(x: Any) -> Any:
    with torch.no_grad():
        y = x * 2
    with torch.autocast("cpu"):
        z = x @ x
    return y, z, x @ x


@form("checkpoint", lambda: a(t(2, 2)), lambda: a(t(2, 2)))
def checkpoint(x: Any) -> Any:
    return torch.utils.checkpoint.checkpoint(lambda y: (y @ y).sin(), x, use_reentrant=False)


@form("transforms of torch.func", lambda: a(t(4, 3)), lambda: a(-t(4, 3)))
def transformed(x: Any) -> Any:
    return torch.vmap(torch.func.grad(lambda row: (row.sin() * row).sum()))(x), torch.func.jacrev(torch.sin)(x[0])


@form("torch.cond", lambda: a(t(2, 2)), lambda: a(-t(2, 2)))
def condition(x: Any) -> Any:
    y = x.exp()
    return torch.cond(x.sum() > 0, lambda x: x.sin() * y, lambda x: x + y, (x,))


@form("complex numbers", lambda: a(torch.randn(2, dtype=torch.complex64)), lambda: a(torch.randn(2, dtype=torch.complex64)))
def complex_numbers(x: Any) -> Any:
    return x.conj() * 2j, torch.view_as_real(x * 2)


@form("pytrees in the program", lambda: a({"a": [t(2)], "b": (t(1),)}), lambda: a({"a": [t(2)], "b": (t(1),)}))
def pytrees(tree: Any) -> Any:
    return torch.utils._pytree.tree_map(lambda x: x * 2, tree)


@form("random numbers", lambda: a(t(3)), lambda: a(t(3)))
def random(x: Any) -> Any:
    return x + torch.rand(3), torch.nn.functional.dropout(x, 0.5, training=True)


form("function of a C library", lambda: a(t(3)), lambda: a(t(3)))(torch.sin)
