"""Remembered dict versions: whatever changes a dict, through whichever path, is seen by the next check."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from dynamo import _C

from .kit import instance, node, tree


class Thing:
    def __init__(self, **attrs: Any) -> None:
        for name, value in attrs.items():
            setattr(self, name, value)


class Fixed:
    """Assigned in __init__ by name, so that its values stay inline where CPython does that."""

    def __init__(self, a: Any, b: Any) -> None:
        self.a = a
        self.b = b


def store(obj: Any, value: Any) -> None:
    obj.a = value


def delete(obj: Any) -> None:
    del obj.a


def warm(guards: _C.GuardTree, *inputs: Any) -> None:
    for _ in range(4):
        assert guards.check(inputs)


CHANGES: dict[str, Callable[[Any], None]] = {
    "store": lambda o: store(o, 2),
    "setattr": lambda o: setattr(o, "a", 2),
    "object.__setattr__": lambda o: object.__setattr__(o, "a", 2),
    "dict store": lambda o: o.__dict__.__setitem__("a", 2),
    "dict update": lambda o: o.__dict__.update(a=2),
    "dict replaced": lambda o: setattr(o, "__dict__", {"a": 2, "b": 0}),
    "vars": lambda o: vars(o).__setitem__("a", 2),
    "delete": delete,
    "dict clear": lambda o: o.__dict__.clear(),
    "dict pop": lambda o: o.__dict__.pop("a"),
    "delete and store": lambda o: (delete(o), store(o, 2)),
}


@pytest.mark.parametrize("cls", [Thing, Fixed])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("specialised", [False, True])
@pytest.mark.parametrize("materialised", [False, True])
def test_every_way_to_change_an_attribute_is_seen(cls: Any, change: str, specialised: bool, materialised: bool) -> None:
    if specialised:  # let STORE_ATTR and DELETE_ATTR above settle on their fast forms for this class
        for other in [cls(a=0, b=0) for _ in range(50)]:
            for i in range(5):
                store(other, i)
    thing = cls(a=1, b=0)
    if materialised:
        assert thing.__dict__
    guards = tree(node("input", 0, instance("a", (1, "eq", 1)), (2, "no_inst_attr", "c")))
    warm(guards, thing)
    CHANGES[change](thing)
    assert not guards.check((thing,))
    thing.a = 1
    assert guards.check((thing,))
    thing.c = 3
    assert not guards.check((thing,))


@pytest.mark.parametrize("n", [1, 5, 40])
def test_specialised_stores_after_stamping(n: int) -> None:
    """The store site is warmed on the very object whose dict is stamped."""
    thing = Fixed(1, 0)
    for i in range(n):
        setattr(thing, f"more{i}", i)
    guards = tree(node("input", 0, instance("a", (1, "eq", 1))))
    for i in range(200):
        store(thing, 1)
        assert guards.check((thing,))
        assert guards.check((thing,))
        store(thing, 2)
        assert not guards.check((thing,)), i


def test_a_reused_address_is_not_taken_for_the_old_dict() -> None:
    guards = tree(node("input", 0, node("dict_item", "a", (1, "eq", 1)), (2, "len", 1)))
    addresses = set()
    for i in range(2000):
        good = i % 2 == 0
        d = {"a": 1 if good else 2}
        addresses.add(id(d))
        assert guards.check((d,)) is good
        assert guards.check((d,)) is good
        del d
    assert len(addresses) < 1000


def test_what_is_mutable_below_an_unchanged_dict_is_looked_at() -> None:
    inner = {"x": 1}
    items = [1]
    t = torch.zeros(3)
    obj = Thing(y=1)
    d = {"inner": inner, "items": items, "t": t, "obj": obj, "pair": (items, 5)}
    guards = tree(
        node(
            "input",
            0,
            node("dict_item", "inner", node("dict_item", "x", (1, "eq", 1))),
            node("dict_item", "items", (2, "len", 1), node("list_item", 0, (3, "eq", 1))),
            node("dict_item", "t", (4, "tensor", _C.TensorFacts(t))),
            node("dict_item", "obj", (5, "type", Thing), instance("y", (6, "eq", 1))),
            node(
                "dict_item",
                "pair",
                (7, "len", 2),
                node("tuple_item", 1, (8, "eq", 5)),
                node("tuple_item", 0, node("list_item", 0, (9, "eq", 1))),
            ),
        )
    )

    def failing(undo: Callable[[], Any], expected: int) -> None:
        assert not guards.check((d,))
        found = guards.explain((d,))
        assert found is not None
        assert found[0] == expected
        undo()
        warm(guards, d)

    warm(guards, d)
    inner["x"] = 2
    failing(lambda: inner.update(x=1), 1)
    items.append(2)
    failing(items.pop, 2)
    items[0] = 7
    failing(lambda: items.__setitem__(0, 1), 3)
    t.requires_grad_()
    failing(lambda: t.requires_grad_(False), 4)
    t.resize_(5)
    failing(lambda: t.resize_(3), 4)
    obj.__class__ = Fixed
    failing(lambda: setattr(obj, "__class__", Thing), 5)
    obj.y = 2
    failing(lambda: setattr(obj, "y", 1), 6)


@pytest.mark.parametrize("seed", range(5))
def test_random_changes_against_an_unremembering_tree(seed: int) -> None:
    """A fresh tree remembers nothing: it must agree with one that has seen every earlier state."""
    rng = random.Random(seed)
    things = [Fixed(0, {"k": 0}) for _ in range(3)]
    spec = node(
        "root",
        None,
        *(
            node(
                "input",
                i,
                instance("a", (1, "eq", 0)),
                instance("b", (2, "dict_keys", ("k",)), node("dict_item", "k", (3, "eq", 0))),
                (4, "no_inst_attr", "z"),
            )
            for i in range(3)
        ),
    )
    old = _C.GuardTree(spec)
    for _ in range(1500):
        thing = rng.choice(things)
        step = rng.randrange(8)
        if step == 0:
            thing.a = rng.randrange(2)
        elif step == 1:
            thing.b["k"] = rng.randrange(2)
        elif step == 2:
            thing.b = {"k": 0}
        elif step == 3:
            thing.b["more"] = 1
        elif step == 4:
            thing.b.pop("more", None)
        elif step == 5:
            thing.z = 1
        elif step == 6:
            thing.__dict__.pop("z", None)
        else:
            things[rng.randrange(3)] = Fixed(0, {"k": 0})
        inputs = tuple(things)
        assert old.check(inputs) == _C.GuardTree(spec).check(inputs)


def test_threads_sharing_a_tree() -> None:
    guards = tree(node("input", 0, instance("a", (1, "eq", 1)), node("attr", "b", (2, "pred", lambda b: b is not None))))
    errors: list[Any] = []

    def work(good: bool) -> None:
        for _ in range(3000):
            if guards.check((Fixed(1 if good else 2, 0),)) is not good:
                errors.append(good)

    threads = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_module_tree() -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(5)))
    layers = [
        node(
            "dict_item",
            str(i),
            (1, "type", torch.nn.Linear),
            instance("training", (2, "eq", True)),
            instance(
                "_parameters",
                *(node("dict_item", n, (3, "tensor", _C.TensorFacts(getattr(model[i], n)))) for n in ("weight", "bias")),
            ),
            instance("_forward_hooks", (4, "len", 0)),
        )
        for i in range(5)
    ]
    guards = tree(node("input", 0, instance("_modules", (5, "dict_keys", tuple("01234")), *layers)))

    def changed(do: Callable[[], Any], undo: Callable[[], Any], leaf: int) -> None:
        do()
        assert not guards.check((model,))
        found = guards.explain((model,))
        assert found is not None
        assert found[0] == leaf
        undo()
        warm(guards, model)

    warm(guards, model)
    changed(model.eval, model.train, 2)
    weight, layer = model[2].weight, model[2]
    changed(lambda: setattr(model[2], "weight", torch.nn.Parameter(torch.zeros(3, 3))), lambda: setattr(model[2], "weight", weight), 3)
    changed(lambda: weight.requires_grad_(False), lambda: weight.requires_grad_(True), 3)
    changed(lambda: setattr(weight, "data", torch.zeros(2, 2, dtype=torch.float64)), lambda: setattr(weight, "data", torch.zeros(2, 2)), 3)
    hooks: list[Any] = []
    changed(lambda: hooks.append(model[1].register_forward_hook(lambda *a: None)), lambda: hooks[0].remove(), 4)
    changed(lambda: model.__setitem__(2, torch.nn.ReLU()), lambda: model.__setitem__(2, layer), 1)
    changed(lambda: model.append(torch.nn.ReLU()), lambda: model.pop(5), 5)
