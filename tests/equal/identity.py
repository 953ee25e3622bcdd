"""What was read from the identity of objects: comparisons, keys of dicts and members of sets, found again by the next call."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from repro_corpus.program import Compile, program


class Plain:
    def method(self) -> int:
        return 1


def first_function() -> None:
    pass


def second_function() -> None:
    pass


def makers() -> tuple[Any, Any]:
    """Two functions with one code."""

    def make(n: int) -> Any:
        return lambda: n

    return make(1), make(2)


ONE, TWO, THREE = Plain(), Plain(), Plain()
PAIRS = {
    "objects": (ONE, TWO),
    "lists": ([1], [1]),
    "dicts": ({}, {}),
    "modules": (nn.Linear(1, 1), nn.Linear(1, 1)),
    "functions": (first_function, second_function),
    "functions of one code": makers(),
    "tensors": (torch.ones(1), torch.ones(1)),
    "classes": (Plain, int),
}


def _each(compile: Compile, what: Any) -> dict[str, Any]:
    """The results for two objects, then one twice, then the two swapped; and what a global object gives."""
    out = {}
    for name, (a, b) in PAIRS.items():
        fast = compile(what())
        x = torch.ones(1)
        out[name] = [fast(x, a, b), fast(x, a, a), fast(x, b, a), fast(x, b, b)]
    return out


@program("", "`a is b` was false at the first call and is true at the second")
def compared_by_is(compile: Compile) -> Any:
    def make():
        def f(x, a, b):
            return x + 1 if a is b else x - 1, a is not b

        return f

    return _each(compile, make)


@program("", "a search in a list goes by identity before equality")
def searched_in_lists(compile: Compile) -> Any:
    def make():
        def f(x, a, b):
            return x + [b, a].index(a), any(a is y for y in [b]), [a, b].count(a) if not isinstance(a, torch.Tensor) else 0

        return f

    return _each(compile, make)


@program("", "an object as a key among keys that were made inside")
def keys_made_inside(compile: Compile) -> Any:
    def make():
        def f(x, a, b):
            if isinstance(a, list | dict):
                return x
            table = {a: 1}
            table[b] = table.get(b, 5) + 1
            return x * len(table), a in {b}, len({a, b}), table[a]

        return f

    return _each(compile, make)


BY_OBJECT = {ONE: 1, TWO: 2}
BY_METHOD = {ONE.method: 1}
BY_FUNCTION = {first_function: 1}
MEMBERS = {ONE, first_function}


@program("", "an object that is no key of a table at one call, and one at the next")
def keys_of_global_tables(compile: Compile) -> Any:
    @compile
    def objects(x, key):
        return x + BY_OBJECT.get(key, 9), key in BY_OBJECT, key in MEMBERS

    @compile
    def methods(x, key):
        return x + BY_METHOD.get(key, 9), key in BY_METHOD

    @compile
    def functions(x, key):
        return x + BY_FUNCTION.get(key, 9), key in BY_FUNCTION, key in MEMBERS

    x = torch.ones(1)
    return (
        [objects(x, key) for key in (THREE, ONE, TWO, ONE, THREE)],
        [methods(x, key) for key in (TWO.method, ONE.method, THREE.method)],
        [functions(x, key) for key in (second_function, first_function, *PAIRS["functions of one code"])],
    )


@program("", "a table that fills up: each object misses once, then hits")
def memo_of_objects(compile: Compile) -> Any:
    memo: dict[Any, Any] = {}

    @compile
    def f(x, key):
        if key not in memo:
            memo[key] = len(memo)
        return x + memo[key]

    x = torch.ones(1)
    return [f(x, key) for key in (ONE, TWO, ONE, THREE, TWO)], list(memo.values())


@program("", "modules seen twice in a tree are counted once, also when they are shared later")
def shared_modules(compile: Compile) -> Any:
    module = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1), nn.ReLU())

    @compile
    def f(x):
        return x + len(list(module.modules())), len(list(module.parameters())), [n for n, _ in module.named_modules()]

    x = torch.ones(1)
    first = f(x)
    module[1] = module[0]
    second = f(x)
    module[1] = nn.Linear(1, 1)
    return first, second, f(x)


@program("", "whether an input is a view, and of what, changes between calls")
def base_of_inputs(compile):
    @compile
    def f(x):
        return x._base is None, x._is_view(), (x * 2)._base is None, x[0]._base is None, x + 1

    whole = torch.ones(2, 4)
    return [f(x) for x in (torch.ones(2, 2), whole[:, :2], whole[:, 2:].contiguous(), torch.nn.Parameter(torch.ones(2, 2)))]


def _largest(x):
    values, places = torch.empty(5), torch.empty(5, dtype=torch.long)
    given = torch.max(x, 0, out=(values, places))
    values.add_(1)
    return given[0] is values, given.indices is places, given, values, places


def _copied_parts(x):
    parts = [torch.zeros(4, 2), torch.zeros(4, 3)]
    nothing = torch.split_with_sizes_copy(x, [2, 3], 1, out=parts)
    return nothing, parts, [p * 2 for p in parts]


def _broadcast(x):
    y = x * 2
    part = y[1:]
    first, second = torch.broadcast_tensors(part, part)
    wide = torch.broadcast_tensors(part, part[0])
    return first is part, first is second, wide[0] is part, first, part, second, wide


def _broadcast_and_written(x):
    y = x * 2
    first, second = torch.broadcast_tensors(y, y)
    first.add_(1)
    return y, second, first is y


def _argument_back(x):
    given = torch.broadcast_tensors(x, x[0])
    given[0].mul_(2)
    return given[0] is x, torch.atleast_2d(x, x)[1] is x, torch.atleast_1d([x, x * 1])[0] is x


def _other_in_its_place(x):
    y = x * 2
    both = list(torch.broadcast_tensors(y, y))
    both[0] = both[0] + 1
    return both, y


@program("", "operators that give several tensors, some of them their arguments as they are")
def several_results_and_arguments(compile):
    found = []
    for fn in (_largest, _copied_parts, _broadcast, _broadcast_and_written, _argument_back, _other_in_its_place):
        x = torch.arange(20.0).view(4, 5)
        found.append((fn.__name__, compile(fn)(x), x))
    return found
