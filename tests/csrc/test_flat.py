"""Flat forms of guard subtrees: whatever happens to the objects, a tree that has seen it all agrees with one made a moment ago."""

from __future__ import annotations

import contextlib
import gc
import random
import types
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import Parameter

from dynamo import _C

from .kit import Node, instance, leaf_on_input, node, tree

Undo = Callable[[], Any]


class Thing:
    def __init__(self, **attrs: Any) -> None:
        for name, value in attrs.items():
            setattr(self, name, value)


class Other(Thing):
    """A class that a Thing can be turned into."""


class Fixed:
    def __init__(self, a: Any, b: Any) -> None:
        self.a = a
        self.b = b


class Keys(dict):
    """A subclass made in Python."""


def one() -> int:
    return 1


def two() -> int:
    return 2


def cell(value: Any) -> Any:
    return types.CellType(value)


class World:
    """A random object graph, guards that hold for it, and random changes to it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.root = Thing(**{name: self.make(4) for name in "abcd"})
        self.ids = 0
        self.groups: dict[int, int] = {}  # id of an object -> the group of its "same" leaves
        self.distinct = True

    def scalar(self) -> Any:
        return self.rng.choice([0, 1, True, None, "a", "long " * 5, 2.5, 10**20, (1, "x"), torch.float32])

    def make(self, depth: int) -> Any:
        rng = self.rng
        kind = rng.randrange(14 if depth else 5)
        if kind < 2:
            return self.scalar()
        if kind == 2:
            return torch.zeros([rng.randrange(1, 4) for _ in range(rng.randrange(7))], requires_grad=rng.random() < 0.3)
        if kind == 3:
            return Parameter(torch.zeros(2, rng.randrange(1, 4)), requires_grad=rng.random() < 0.7)
        if kind == 4:
            return types.FunctionType(rng.choice([one, two]).__code__, {})
        if kind in (5, 6, 7):
            classes: list[Callable[[], Any]] = [dict, dict, OrderedDict, Keys, lambda: defaultdict(int)]
            made = rng.choice(classes)()
            made.update({rng.choice([key, 7, (1, key)]): self.make(depth - 1) for key in "abcde"[: rng.randrange(6)]})
            return made
        if kind == 8:
            return [self.make(depth - 1) for _ in range(rng.randrange(4))]
        if kind == 9:
            return tuple(self.make(depth - 1) for _ in range(rng.randrange(4)))
        if kind == 10:
            return cell(self.make(depth - 1))
        if kind == 11:
            return Fixed(self.make(depth - 1), self.make(depth - 1))
        return rng.choice([Thing, Other])(**{key: self.make(depth - 1) for key in "abcde"[: rng.randrange(1, 6)]})

    def leaf(self, kind: str, arg: Any) -> tuple[int, str, Any]:
        self.ids += 1
        return (self.ids, kind, arg)

    def guards(self, obj: Any, depth: int = 8) -> list[Any]:
        """Leaves and children of a node for obj, all of which hold."""
        rng = self.rng
        parts: list[Any] = []

        def maybe(kind: str, arg: Any, chance: float = 0.4) -> None:
            if rng.random() < chance:
                parts.append(self.leaf(kind, arg))

        def child(accessor: str, arg: Any, value: Any, chance: float = 0.8) -> None:
            if rng.random() < chance:
                parts.append(node(accessor, arg, *self.guards(value, depth - 1)))

        maybe("type", type(obj), 0.8)
        maybe("same", self.groups.setdefault(id(obj), len(self.groups)), 0.3)
        maybe("is_not", self, 0.1)
        if isinstance(obj, torch.Tensor):
            dims = tuple(rng.random() < 0.8 for _ in range(obj.dim())) if rng.random() < 0.2 else None
            maybe("tensor", _C.TensorFacts(obj, dims), 0.9)
            maybe("is", obj, 0.2)
            maybe("distinct", None, 0.2 if self.distinct else 0)
        elif isinstance(obj, types.FunctionType):
            maybe("code", obj.__code__, 0.8)
            maybe("is", obj, 0.3)
        elif isinstance(obj, dict):
            maybe("len", len(obj))
            maybe("dict_keys", tuple(obj))
            maybe("no_key", "zz")
            for key in list(obj):
                maybe("has_key", key, 0.2)
                child("dict_item", key, obj[key])
        elif isinstance(obj, list | tuple) and type(obj) in (list, tuple):
            maybe("len", len(obj))
            for i, item in enumerate(obj):
                child(f"{type(obj).__name__}_item", i, item)
        elif isinstance(obj, types.CellType):
            child("cell", None, obj.cell_contents)
        elif isinstance(obj, Thing | Fixed):
            maybe("no_inst_attr", "zz")
            for name, value in list(vars(obj).items()):
                if rng.random() < 0.8:
                    parts.append(instance(name, *self.guards(value, depth - 1)))
            if rng.random() < 0.2:
                child("inst_dict", None, vars(obj))
            child("type", None, type(obj), 0.1)
            if rng.random() < 0.02:
                parts.append(self.leaf("pred", lambda o: o is not None))
        elif isinstance(obj, type):
            maybe("is", obj)
        else:
            maybe("eq", obj, 0.9)
            if isinstance(obj, str):
                maybe("len", len(obj))
        return parts

    def spec(self) -> Node:
        """Guards of the graph as an input, and again as an object that the guards hold themselves."""
        self.distinct = True
        as_input = self.guards(self.root)
        self.distinct = False
        return node("root", None, node("input", 0, *as_input), node("const", self.root, *self.guards(self.root)))

    def reachable(self) -> list[Any]:
        found: dict[int, Any] = {}
        todo: list[Any] = [self.root]
        while todo:
            obj = todo.pop()
            if id(obj) in found or isinstance(obj, type):
                continue
            found[id(obj)] = obj
            if isinstance(obj, dict):
                todo += obj.values()
            elif isinstance(obj, list | tuple):
                todo += obj
            elif isinstance(obj, types.CellType):
                todo.append(obj.cell_contents)
            elif isinstance(obj, Thing | Fixed):
                todo += vars(obj).values()
        return [
            obj
            for obj in found.values()
            if isinstance(obj, dict | list | torch.Tensor | types.CellType | types.FunctionType | Thing | Fixed)
        ]

    def value(self, old: Any) -> Any:
        """Something to put in the place of `old`: often nearly the same, and often at the address of what has just gone."""
        kind = self.rng.randrange(4)
        if kind == 0:
            return self.make(2)
        if kind == 1 and isinstance(old, Thing):
            return type(old)(**vars(old))
        if kind == 1 and isinstance(old, dict | list):
            return old.copy()
        return self.scalar()

    def change(self) -> Undo:
        """Changes something; the result puts it back (if nothing else has happened to it since)."""
        rng = self.rng
        obj = rng.choice(self.reachable())
        if isinstance(obj, torch.Tensor):
            return self.change_tensor(obj)
        if isinstance(obj, types.FunctionType):
            code = obj.__code__
            obj.__code__ = rng.choice([one, two]).__code__
            return lambda: setattr(obj, "__code__", code)
        if isinstance(obj, types.CellType):
            inside = obj.cell_contents
            obj.cell_contents = self.value(inside)
            return lambda: setattr(obj, "cell_contents", inside)
        if isinstance(obj, list):
            return self.change_list(obj)
        if isinstance(obj, dict):
            return self.change_dict(obj)
        return self.change_thing(obj)

    def change_tensor(self, t: Any) -> Undo:
        step = self.rng.randrange(5)
        if step == 0:
            was = t.requires_grad
            t.requires_grad_(not was)
            return lambda: t.requires_grad_(was)
        if step == 1:
            data = t.data
            t.data = self.rng.choice([torch.zeros(2, 3), torch.zeros_like(data), data.double(), torch.zeros(1, 2, 1, 2, 1, 2)])
            return lambda: setattr(t, "data", data)
        if step == 2:
            (t * 2).sum()
            return lambda: None
        if step == 3:
            other = type(t)(self.rng.choice([torch.zeros(2, 3), t.detach().clone()]))
            return self.swap(t, other)
        t.grad = None
        t.data.add_(1)
        return lambda: None

    @staticmethod
    def swap(a: Any, b: Any) -> Undo:
        """The tensor object stays and what it stands for is exchanged; torch refuses where autograd still holds one of them."""

        def swap() -> None:
            with contextlib.suppress(RuntimeError):
                torch._C._swap_tensor_impl(a, b)

        swap()
        return swap

    def change_list(self, items: list[Any]) -> Undo:
        old = list(items)
        step = self.rng.randrange(4)
        if step == 0:
            items.append(self.scalar())
        elif items and step == 1:
            items.pop(self.rng.randrange(len(items)))
        elif items:
            i = self.rng.randrange(len(items))
            items[i] = self.value(items[i])
        if self.rng.random() < 0.5:
            old = []  # drop what was taken out, so that its address is free
            return lambda: None
        return lambda: items.__setitem__(slice(None), old)

    def change_dict(self, d: Any) -> Undo:
        old = list(dict.items(d))

        def undo() -> None:
            d.clear()
            d.update(old)

        key = self.rng.choice(list(d)) if d and self.rng.random() < 0.8 else self.rng.choice(["zz", "a", 7])
        step = self.rng.randrange(6)
        if step == 0:
            d.pop(key, None)
        elif step == 1 and isinstance(d, OrderedDict) and key in d:
            d.move_to_end(key)
        elif step == 2:
            d.clear()
        elif step == 3:
            d.setdefault(key, 0)
        else:
            d[key] = self.value(d.get(key))
        return undo

    def change_thing(self, obj: Any) -> Undo:
        rng = self.rng
        step = rng.randrange(6)
        name = rng.choice([*vars(obj), "zz"])
        attrs = dict(vars(obj))

        def undo() -> None:
            vars(obj).clear()
            vars(obj).update(attrs)

        if step == 0 and isinstance(obj, Thing):
            cls = type(obj)
            obj.__class__ = rng.choice([Thing, Other])
            return lambda: setattr(obj, "__class__", cls)
        if step == 1:
            was = vars(obj)
            obj.__dict__ = dict(was)
            return lambda: setattr(obj, "__dict__", was)
        if step == 2:
            obj.__dict__.pop(name, None)
        elif step == 3:
            vars(obj)[name] = self.value(attrs.get(name))
        else:
            setattr(obj, name, self.value(attrs.get(name)))
        return undo


@pytest.mark.parametrize("seed", range(30))
def test_random_changes(seed: int) -> None:
    world = World(seed)
    held, idle = 0, 100
    undone: list[Undo] = []
    for _ in range(1500):
        if idle >= 40:  # too far from where the guards hold: new guards for what is there now
            idle = 0
            undone.clear()
            spec = world.spec()
            old = _C.GuardTree(spec)
        for _ in range(world.rng.choice([1, 1, 5])):
            verdict = old.check((world.root,))
            assert verdict == _C.GuardTree(spec).check((world.root,))
            held += verdict
        idle = 0 if verdict else idle + 1
        if undone and world.rng.random() < 0.6:
            undone.pop()()
        else:
            undone.append(world.change())
        if len(undone) > 3:
            while undone:
                undone.pop()()
    assert held > 100


def test_a_counter_among_many_objects() -> None:
    """What changes on every call is looked at on every call, and so is everything else."""
    layers: dict[str, Any] = {str(i): Thing(w=torch.zeros(2, 2), k={"n": 0}) for i in range(5)}
    model: Any = Thing(layers=layers, calls=0)
    guards = tree(
        node(
            "input",
            0,
            (1, "type", Thing),
            instance(
                "layers",
                *(
                    node(
                        "dict_item",
                        name,
                        (2, "type", Thing),
                        instance("w", (3, "tensor", _C.TensorFacts(layer.w))),
                        instance("k", node("dict_item", "n", (4, "eq", 0))),
                    )
                    for name, layer in layers.items()
                ),
            ),
        )
    )
    for step in range(3000):
        if step % 3:
            model.calls += 1
        if step % 5:
            layers["2"].calls = step
        assert guards.check((model,))
        if step % 50 == 0:
            layer = layers[str(step // 50 % 5)]
            layer.k["n"] = 1
            assert not guards.check((model,))
            layer.k["n"] = 0
            layer.w.requires_grad_()
            assert not guards.check((model,))
            layer.w.requires_grad_(False)
            assert guards.check((model,))


def test_a_view_asks_its_base_for_requires_grad() -> None:
    base = torch.zeros(4, 4)
    view = base[0]
    holder = {"view": view}
    guards = tree(node("input", 0, node("dict_item", "view", (1, "tensor", _C.TensorFacts(view)))))
    for _ in range(3):
        assert guards.check((holder,))
    base.mul_(torch.ones(4, requires_grad=True))
    assert view.requires_grad
    assert not guards.check((holder,))


def test_results_and_hooks_of_tensors() -> None:
    """What autograd does to a guarded leaf is no difference; what makes it a result is one."""
    weight = torch.zeros(3, requires_grad=True)
    plain = torch.zeros(3)
    known = torch.zeros(3, requires_grad=True).requires_grad_(False)  # unlike `plain`, autograd has something about it already
    holder = {"w": weight, "p": plain, "k": known}
    guards = tree(
        node(
            "input",
            0,
            node("dict_item", "w", (1, "tensor", _C.TensorFacts(weight))),
            node("dict_item", "p", (2, "tensor", _C.TensorFacts(plain))),
            node("dict_item", "k", (3, "tensor", _C.TensorFacts(known))),
        )
    )
    for _ in range(3):
        (weight * 2).sum().backward()
        assert guards.check((holder,))
        weight.register_hook(lambda g: g)
        assert guards.check((holder,))
        weight.grad = None
    for t in (plain, known):
        t.mul_(weight)
        assert not guards.check((holder,))
        t.detach_()
        assert guards.check((holder,))


@pytest.mark.parametrize("ndim", [2, 7])
def test_sizes_and_strides_one_by_one(ndim: int) -> None:
    tail = [1] * (ndim - 2)
    memory = torch.zeros(100)
    t = torch.zeros(4, 3, *tail)
    t.data = memory.as_strided([4, 3, *tail], [5, 1, *tail])
    holder = {"t": t}
    guards = tree(node("input", 0, node("dict_item", "t", (1, "tensor", _C.TensorFacts(t)))))
    rows = tree(node("input", 0, node("dict_item", "t", (1, "tensor", _C.TensorFacts(t, (False, *[True] * (ndim - 1)))))))
    for shape, stride in (((4, 3), (5, 1)), ((5, 3), (5, 1)), ((4, 3), (6, 1)), ((4, 2), (5, 1)), ((4, 3), (5, 2))):
        t.data = memory.as_strided([4, 3, *tail], [5, 1, *tail])
        for _ in range(2):
            assert guards.check((holder,))
            assert rows.check((holder,))
        t.data = memory.as_strided([*shape, *tail], [*stride, *tail])
        assert guards.check((holder,)) is ((shape, stride) == ((4, 3), (5, 1)))
        assert rows.check((holder,)) is ((shape[1], stride[1]) == (3, 1))


def test_nothing_is_kept_alive() -> None:
    class Local:
        def __init__(self) -> None:
            self.items = [Thing(x=1)]
            self.k = {"t": torch.zeros(2)}

    thing = Local()
    guards = tree(
        node(
            "input",
            0,
            instance("items", node("list_item", 0, (1, "type", Thing), instance("x", (2, "eq", 1)))),
            instance("k", node("dict_item", "t", (3, "tensor", _C.TensorFacts(thing.k["t"])))),
        )
    )
    for _ in range(20):
        assert guards.check((thing,))
    gone = [weakref.ref(o) for o in (thing, thing.items[0], thing.k["t"])]
    del thing
    assert [ref() for ref in gone] == [None] * 3
    assert guards.check((Local(),))
    assert not guards.check((Thing(),))


def test_a_class_is_given_up_with_its_tree() -> None:
    """A flat form keeps the classes it relies upon, in the sight of the garbage collector."""

    class Local:
        guards: Any = None

    Local.guards = tree(node("input", 0, (1, "no_inst_attr", "y")))
    thing = Local()
    for _ in range(20):
        assert Local.guards.check((thing,))
    gone = [weakref.ref(o) for o in (thing, Local)]
    del thing
    assert gone[0]() is None
    del Local
    gc.collect()
    assert gone[1]() is None


@pytest.mark.parametrize("place", ["list", "cell", "tuple", "attribute"])
def test_objects_at_the_address_of_others(place: str) -> None:
    """Where there is no version, nothing tells that what was read is another object now, at the same address."""
    holder: dict[str, Any] = {"at": cell(None) if place == "cell" else Fixed(None, 0) if place == "attribute" else [None]}

    def put(value: Any) -> None:
        at = holder["at"]
        if place == "attribute":
            at.a = value
        elif place == "cell":
            at.cell_contents = value
        else:
            at[0] = (value,) if place == "tuple" else value

    def inside(*parts: Any) -> _C.GuardTree:
        if place == "tuple":
            parts = (node("tuple_item", 0, *parts),)
        step = ("cell", None) if place == "cell" else ("list_item", 0)
        at = instance("a", *parts) if place == "attribute" else node(*step, *parts)
        return tree(node("input", 0, node("dict_item", "at", at)))

    number = inside((1, "eq", 1.5))
    attribute = inside((1, "type", Fixed), instance("a", (2, "eq", 1)))
    for i in range(2000):
        good = i % 3 != 0
        put(float("1.5" if good else "2.5"))
        assert number.check((holder,)) is good
        put(None)
        put(Fixed(1 if good else 2, None))
        assert attribute.check((holder,)) is good
        put(None)


def test_what_no_word_of_memory_tells() -> None:
    """The order of an OrderedDict is looked at each time."""
    holder: dict[str, Any] = {"order": OrderedDict(a=1, b=2)}
    guards = tree(node("input", 0, node("dict_item", "order", (3, "dict_keys", ("a", "b")))))
    for _ in range(3):
        assert guards.check((holder,))
        holder["order"].move_to_end("a")
        assert not guards.check((holder,))
        holder["order"].move_to_end("b")


def test_code() -> None:
    def f() -> None: ...

    guards = leaf_on_input("code", one.__code__)
    assert guards.check((one,))
    made = types.FunctionType(one.__code__, {})
    assert guards.check((made,))
    for other in (two, f, None, one.__code__, len, Thing):
        assert not guards.check((other,))
        assert guards.explain((other,)) == (7, other)
    made.__code__ = two.__code__
    assert not guards.check((made,))
    with pytest.raises(TypeError, match="a code object"):
        leaf_on_input("code", one)


def test_user_code_that_checks_the_same_tree() -> None:
    """A check inside a check, which replaces what the outer one is looking at."""
    box: dict[str, Any] = {"k": {"n": 1}, "depth": 0}

    def inner(_: object) -> bool:
        if box["depth"] < 2:
            box["depth"] += 1
            box["k"] = {"n": 1}
            assert guards.check((box,))
            box["depth"] -= 1
        return True

    guards = tree(node("input", 0, node("dict_item", "k", node("dict_item", "n", (1, "eq", 1))), (2, "pred", inner)))
    for _ in range(50):
        assert guards.check((box,))
