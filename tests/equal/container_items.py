"""Items that a function sets and removes: what that does to the real container depends on what it has at each call."""

from __future__ import annotations

from collections import OrderedDict
from types import SimpleNamespace

import torch

from repro_corpus.program import program


def _calls(f, make):
    """Containers that have the item or don't, in both orders of a first call."""
    out = []
    for first in (True, False):
        for has in (first, not first, first):
            container = make(has)
            try:
                f(torch.ones(2), container)
            except (KeyError, AttributeError) as e:
                out.append(type(e).__name__)
            out.append(list(vars(container).items()) if isinstance(container, SimpleNamespace) else list(container))
    return out


@program("", "an item of a dict")
def item_of_dict(compile):
    @compile
    def f(x, d):
        d["a"] = 1
        del d["a"]
        return x + 1

    return _calls(f, lambda has: {"a": 3, "b": 4} if has else {"b": 4})


@program("", "an item that pop() takes, in a loop that a tensor decides on")
def popped_across_breaks(compile):
    @compile
    def f(x, d):
        for n in (1, 2):
            if (x != 0).any():
                d["a"] = n
                d.pop("a", None)
        return x

    return _calls(f, lambda has: {"a": 3, "b": 4} if has else {"b": 4})


@program("", "an item that comes back under another name")
def renamed_item(compile):
    @compile
    def f(x, d):
        d.update(a=1)
        d["c"] = d.pop("a")
        return x * d["c"]

    return _calls(f, lambda has: OrderedDict(a=3, b=4) if has else OrderedDict(b=4))


@program("", "the last item, which is another where the key was there before")
def last_item(compile):
    @compile
    def f(x, d):
        d["a"] = 1
        d.popitem()
        return x + 1

    return _calls(f, lambda has: {"a": 3, "b": 4} if has else {"b": 4})


@program("", "a member of a set")
def member_of_set(compile):
    @compile
    def f(x, s):
        s.add("a")
        s.remove("a")
        return x + 1

    return _calls(f, lambda has: {"a", "b"} if has else {"b"})


@program("", "an attribute of an object")
def attribute_of_object(compile):
    @compile
    def f(x, o):
        o.a = 1
        del o.a
        return x + o.b

    return _calls(f, lambda has: SimpleNamespace(a=3, b=4) if has else SimpleNamespace(b=4))


@program("", "new keys come in the order of the program, whichever of them the first dict had")
def order_of_new_keys(compile):
    @compile
    def f(x, d):
        d["t"] = x
        d["b"] = 0
        d["t"] = 1
        return x

    @compile
    def g(x, o):
        o.t = x
        o.b = 1
        del o.t
        o.t = 2
        return x

    keys = [("a", "b"), ("a",), ("t",), ("b", "t"), ()]
    dicts = [dict.fromkeys(names, 5) for names in keys]
    objects = [SimpleNamespace(**dict.fromkeys(names, 5)) for names in keys]
    x = torch.ones(2)
    return [(f(x, d), list(d.items())) for d in dicts], [(g(x, o), list(vars(o).items())) for o in objects]


@program("", "what is stored is at the first call what was there")
def stored_again(compile):
    @compile
    def item(x, d):
        d["b"] = x
        return x + 1

    @compile
    def attribute(x, o):
        o.b = x
        return x + 1

    @compile
    def from_elsewhere(x, d, e):
        d["b"] = e["c"]
        return x + 1

    class Keeping(torch.nn.Module):
        last = None

        @compile
        def forward(self, x):
            self.last = x
            return x * 2

    x, results = torch.ones(3), []
    module = Keeping()
    for there in (x, 5, None, x):
        d, e, o = {"b": there}, {"c": x}, SimpleNamespace(b=there)
        module.last = there
        results += [item(x, d), attribute(x, o), module(x), module.last, d["b"], o.b]
        d["b"] = there
        results += [from_elsewhere(x, d, e), d["b"]]
    return results


class Named:
    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return isinstance(other, Named) and self.name == other.name

    def __hash__(self):
        return hash(self.name)


class Crowded(Named):
    """All have the same hash."""

    def __hash__(self):
        return 1


@program("", "objects with their own equality, made inside, as keys of dicts and sets from outside")
def keys_with_their_own_equality(compile):
    def of(kind):
        d, s = {kind("a"): 10, kind("b"): 20}, {kind("c"), kind("d")}

        @compile
        def f(x):
            made = {kind("e"): 1}
            made[kind("e")] = 3
            other = dict(d)
            other[kind("a")] = 7
            removed = other.pop(kind("b"), None)
            found = kind("a") in d, d.get(kind("b")), d.get(kind("z"), -1), kind("c") in s, kind("z") in s
            found = (*found, (kind("a"), 2) in {(kind("a"), 2): 0})
            return x * d.get(kind("a"), 5), found, len(made), made[kind("e")], len(other), other[kind("a")], removed

        results = [f(torch.ones(2))]
        d[kind("z")], d[kind("b")] = 30, 21
        s.add(kind("z"))
        results.append(f(torch.ones(2)))
        del d[kind("a")]
        s.remove(kind("c"))
        return [*results, f(torch.ones(2))]

    return of(Named), of(Crowded)


@program("", "objects with an equality of their own, given and made inside, alone and in tuples, as keys")
def compared_keys(compile):
    import dataclasses
    import typing

    @dataclasses.dataclass(frozen=True)
    class K:
        a: int
        b: str = "x"

    class Pair(typing.NamedTuple):
        k: K
        n: int

    table = {K(1): 2.0, (K(2), 3): 4.0, Pair(K(1, "y"), 1): 5.0, frozenset([K(4)]): 6.0}
    members = {K(1), K(2), (K(3),)}

    @compile
    def given(x, k):
        return x * table.get(k, -1.0), k in table, k in members, (k, 3) in table, frozenset([k]) in table

    @compile
    def made(x, n):
        y = x * table[K(n)] if K(n) in table else x * table.get((K(n), 3), -1.0)
        table[Pair(K(n), 9)] = n
        return y, table[Pair(K(1, "y"), 1)], (K(n),) in members, hash(K(n)) == hash((n, "x")), hash((K(n), "z")) == hash((K(n), "z"))

    @compile
    def sets(x, n):
        own = {K(n), K(2), (K(3),)}
        same = own == members, own <= members, members - own, own & members, own ^ members, len(own | members), own.isdisjoint(members)
        own.discard(K(2))
        own.add(K(n))
        return x + len(own), same, {K(1): 1, K(2): 2} == {K(2): 2, K(n): 1}, {K(n): 0}.keys() & members

    x = torch.ones(2)
    first = [given(x, k) for k in (K(1), K(2), K(1), K(4), K(3))]
    return first, [made(x, n) for n in (1, 2, 3, 1)], sorted(map(repr, table)), [_plain(sets(x, n)) for n in (1, 2, 7)]


def _plain(value):
    if isinstance(value, tuple):
        return tuple(_plain(v) for v in value)
    return sorted(map(repr, value)) if isinstance(value, set) else value


@program("", "two given objects of one hash: __eq__ of the program runs as often and reads what the next call changes")
def keys_of_one_hash(compile):
    class Key:
        def __init__(self, name):
            self.name = name

        def __hash__(self):
            return 7

        def __eq__(self, other):
            return isinstance(other, Key) and self.name == other.name

    table = {Key("a"): 1.0, Key("b"): 2.0}

    @compile
    def f(x, k):
        return x * table.get(k, -1.0), k in table, k in {Key("a"), Key("c")}

    given = [Key(n) for n in ("a", "b", "c")]
    out = [f(torch.ones(2), k) for k in given]
    for key, name in zip(given, ("b", "z", "a"), strict=True):
        key.name = name
    return out, [f(torch.ones(2), k) for k in given]


class Loud(OrderedDict):
    def items(self):
        raise AssertionError

    keys = __iter__ = items


@program("", "the order of an OrderedDict that was moved before the call, of a subclass, and moved again by the function")
def moved_items(compile):
    given, loud = OrderedDict(a=1, b=2, c=3), Loud()
    for i, name in enumerate("xyz"):
        OrderedDict.__setitem__(loud, name, i)
    for d, name in ((given, "c"), (loud, "y")):
        d.move_to_end(name, last=False)

    @compile
    def f(x):
        found = list(given), list(given.items()), dict(given), next(iter(given)), list(reversed(given)), [*given.values()], {**given}
        return x * next(iter(given.values())), found, OrderedDict.popitem(loud, last=False) if len(loud) else None

    @compile
    def move(x):
        given.move_to_end("b")
        given["d"] = given.pop("a")
        return x + 1, list(given)

    found = [f(torch.ones(2))]
    given.move_to_end("a")
    found += [f(torch.ones(2)), move(torch.ones(2)), f(torch.ones(2)), move.__name__]
    return found, given, list(OrderedDict.items(loud))


hashed: list[int] = []


class Hashed:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        hashed.append(self.n)
        return self.n

    def __eq__(self, other):
        return isinstance(other, Hashed) and other.n == self.n


@program("", "a __hash__ that writes to a list: how often it is called is no part of the result")
def hash_with_an_effect(compile):
    key = Hashed(1)
    table = {key: 2.0, Hashed(3): 4.0}

    @compile
    def f(x, k):
        made = {k: x}
        made[Hashed(1)] = x + 1
        return x * table[key], Hashed(5) in table, made[Hashed(1)], len(made)

    found = [f(torch.ones(2), Hashed(1)), f(torch.ones(2), key)]
    return found, set(hashed)
