"""Each accessor and leaf, holding and failing; explain(); malformed trees."""

from __future__ import annotations

import time
import weakref
from collections import OrderedDict, defaultdict, deque
from typing import Any, NamedTuple

import pytest
import torch

from dynamo import _C

from .kit import instance, leaf_on_input, node, tree


class Pair(NamedTuple):
    x: Any
    y: Any


class Plain:
    kind = "class attribute"

    def __init__(self, **attrs: Any) -> None:
        self.__dict__.update(attrs)


class Slotted:
    __slots__ = ("a",)


class Loud(dict):
    """Every overridable access raises: guards must not reach them."""

    def __getitem__(self, key: object) -> Any:
        raise AssertionError

    __len__ = __contains__ = __iter__ = __eq__ = __getitem__
    __hash__ = None


class LoudList(list):
    __getitem__ = __len__ = __iter__ = Loud.__getitem__


class LoudAttr:
    def __init__(self) -> None:
        object.__getattribute__(self, "__dict__")["a"] = 1

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError


def cell(*value: Any) -> Any:
    x: Any = None
    box = (lambda: x).__closure__[0]
    x = value[0] if value else None
    if not value:
        del box.cell_contents
    return box


def function() -> None: ...


# (accessor, arg, a parent it reads 1 from, parents it fails for)
ACCESS = [
    ("attr", "a", Plain(a=1), [Plain(), 5]),
    ("dict_item", "k", {"k": 1}, [{}, {"k": 2}, 3, ["k"]]),
    ("dict_item", (1, 2), {(1, 2): 1}, [{}]),
    ("dict_item", "k", Loud(k=1), [Loud()]),
    ("dict_item", "k", defaultdict(lambda: 1, k=1), [defaultdict(lambda: 1)]),
    ("dict_item", "k", OrderedDict(k=1), [OrderedDict()]),
    ("list_item", 1, [0, 1], [[0], [], (0, 1), [0, 2]]),
    ("list_item", 1, LoudList([0, 1]), [LoudList()]),
    ("tuple_item", 1, (0, 1), [(0,), [0, 1]]),
    ("tuple_item", 1, Pair(0, 1), [Pair(1, 0)]),
    ("cell", None, cell(1), [cell(), cell(2), 5]),
    ("call", lambda o: o + 1, 0, ["text", 1]),
]


@pytest.mark.parametrize(("accessor", "arg", "good", "bad"), ACCESS, ids=[f"{i}-{row[0]}" for i, row in enumerate(ACCESS)])
def test_accessors(accessor: str, arg: Any, good: Any, bad: list[Any]) -> None:
    guards = tree(node("input", 0, node(accessor, arg, (3, "eq", 1))))
    for _ in range(3):  # the second and third time from what was remembered
        assert guards.check((good,))
        assert guards.explain((good,)) is None
        for parent in bad:
            assert not guards.check((parent,)), parent
            found = guards.explain((parent,))
            assert found is not None
            assert found[0] == 3


# (name, a parent in whose dict it is 1, parents it fails for)
INSTANCES = [
    ("a", Plain(a=1), [Plain(), 5, Slotted(), Plain(a=2)]),
    ("a", LoudAttr(), []),
    ("kind", Plain(kind=1), [Plain()]),
]


@pytest.mark.parametrize(("name", "good", "bad"), INSTANCES, ids=range(len(INSTANCES)))
def test_own_attributes(name: str, good: Any, bad: list[Any]) -> None:
    guards = tree(node("input", 0, instance(name, (3, "eq", 1))))
    for _ in range(3):
        assert guards.check((good,))
        assert guards.explain((good,)) is None
        assert not any(guards.check((parent,)) for parent in bad)
        assert all((guards.explain((parent,)) or [None])[0] == 3 for parent in bad)


def test_type_accessor() -> None:
    guards = tree(node("input", 0, node("type", None, (1, "is", Plain))))
    assert guards.check((Plain(),))
    assert guards.explain((5,)) == (1, int)


def test_inst_dict_is_the_dict_itself() -> None:
    thing = Plain(a=1)
    guards = tree(node("input", 0, node("inst_dict", None, (1, "is", thing.__dict__), (2, "dict_keys", ("a",)))))
    assert guards.check((thing,))
    assert not guards.check((Plain(a=1),))
    assert not guards.check((5,))
    thing.b = 2
    assert guards.explain((thing,)) == (2, {"a": 1, "b": 2})


def test_const_and_globals() -> None:
    space = {"x": 1}
    guards = tree(node("const", space, node("dict_item", "x", (4, "eq", 1))))
    assert guards.check(())
    space["x"] = 2
    assert guards.explain(()) == (4, 2)
    del space["x"]
    assert guards.explain(()) == (4, "AccessError: dict_item 'x' of dict is not there")


ALIVE = Plain()
LEAVES = [
    ("type", int, [3], [True, 3.0, "3"]),
    ("type", Plain, [Plain()], [object()]),
    ("is", ALIVE, [ALIVE], [Plain(), None]),
    ("is_not", None, [0, ALIVE], [None]),
    ("eq", 1, [1], [True, 1.0, 2]),
    ("eq", True, [True], [1, False]),
    ("eq", 10**30, [10**30], [10**30 + 1]),
    ("eq", "text", ["text", "".join(["te", "xt"])], ["other", b"text"]),
    ("eq", 0.0, [0.0], [-0.0, 0]),
    ("eq", float("nan"), [float("nan")], [-float("nan"), 0.0]),
    ("eq", 1 + 0j, [1 + 0j], [complex(1, -0.0), complex(1, float("nan")), 1]),
    ("eq", (1, (2.0, "x")), [(1, (2.0, "x"))], [(1, (2, "x")), (True, (2.0, "x")), (1,)]),
    ("eq", Pair(1, 2), [Pair(1, 2)], [(1, 2), Pair(1, 2.0)]),
    ("eq", frozenset([1, "a", (2, 3)]), [frozenset(["a", (2, 3), 1])], [frozenset([1.0, "a", (2, 3)]), frozenset([1])]),
    ("eq", slice(1, 2), [slice(1, 2)], [slice(1, 2.0), slice(1, 2, 3)]),
    ("eq", torch.float32, [torch.float32], [torch.float64, "float32"]),
    ("eq", torch.device("cpu"), [torch.device("cpu")], [torch.device("meta")]),
    ("eq", torch.Size([1, 2]), [torch.Size([1, 2])], [(1, 2), torch.Size([2, 1])]),
    (
        "len",
        2,
        [[1, 2], (1, 2), {1: 1, 2: 2}, {1, 2}, "ab", b"ab", deque([1, 2]), range(2), Loud(a=1, b=2), LoudList([1, 2])],
        [[], "a", 3, None, LoudList()],
    ),
    (
        "dict_keys",
        ("a", 1),
        [{"a": 0, 1: 0}, OrderedDict([("a", 0), (1, 0)]), Loud([("a", 0), (1, 0)])],
        [{1: 0, "a": 0}, {"a": 0, True: 0}, {"a": 0}, ["a", 1]],
    ),
    ("dict_keys", (), [{}, OrderedDict()], [{"a": 1}, []]),
    ("has_key", "a", [{"a": 0}, Loud(a=1)], [{}, ["a"], Loud()]),
    ("no_key", "a", [{}, Loud()], [{"a": 0}, Loud(a=1), []]),
    ("no_inst_attr", "a", [Plain(), 5, Slotted()], [Plain(a=1), LoudAttr()]),
    ("pred", lambda o: o > 1, [2], [1, "text"]),
]


@pytest.mark.parametrize(("kind", "arg", "good", "bad"), LEAVES, ids=[f"{i}-{row[0]}" for i, row in enumerate(LEAVES)])
@pytest.mark.parametrize("place", ["input", "in a dict"])
def test_leaves(kind: str, arg: Any, good: list[Any], bad: list[Any], place: str) -> None:
    def inputs(obj: Any) -> tuple[Any]:
        return (obj,) if place == "input" else ({"k": obj, "other": 1},)

    leaf = (7, kind, arg)
    guards = (
        tree(node("input", 0, leaf)) if place == "input" else tree(node("input", 0, node("dict_item", "k", leaf), (8, "has_key", "other")))
    )
    for _ in range(2):
        for obj in good:
            held = inputs(obj)
            assert guards.check(held), obj
            assert guards.check(held), obj
            assert guards.explain(held) is None
        for obj in bad:
            held = inputs(obj)
            assert not guards.check(held), obj
            found = guards.explain(held)
            assert found is not None
            assert found[0] == 7
            assert found[1] is obj


def test_move_to_end_changes_the_keys_of_an_ordered_dict() -> None:
    d = OrderedDict(a=1, b=2)
    guards = leaf_on_input("dict_keys", ("a", "b"))
    assert guards.check((d,))
    d.move_to_end("a")
    assert not guards.check((d,))


@pytest.mark.parametrize("n", [2, 5, 100])
def test_distinct(n: int) -> None:
    guards = tree(*(node("input", i, (i, "distinct", None)) for i in range(n)))
    things = [Plain() for _ in range(n)]
    for _ in range(2):
        assert guards.check(tuple(things))
    twice = [*things[:-1], things[0]]
    assert not guards.check(tuple(twice))
    assert guards.explain(tuple(twice)) == (n - 1, things[0])
    assert guards.check(tuple(things))


class Fresh:
    """Gives other objects at every access, `twice` the same one."""

    @property
    def made(self) -> Any:
        return [object()]

    @property
    def twice(self) -> Any:
        self.kept = getattr(self, "kept", None) or object()
        return self.kept

    @property
    def fails(self) -> Any:
        raise ValueError("no such thing")


@pytest.mark.parametrize("kind", ["distinct", "same"])
def test_objects_made_for_a_check_are_compared_while_they_live(kind: str) -> None:
    arg = 0 if kind == "same" else None
    below = node("list_item", 0, (2, kind, arg))
    guards = tree(*(node("input", 0, node("attr", "made", below)) for _ in range(3)))
    assert [guards.check((Fresh(),)) for _ in range(20)] == [kind == "distinct"] * 20
    for _ in range(50):
        said = guards.explain((Fresh(),))
        assert said is None if kind == "distinct" else repr(said[1]).startswith("<object")
    guards = tree(*(node("input", 0, node("call", lambda x: x.twice, (i, kind, arg))) for i in range(2)))
    assert [guards.check((Fresh(),)) for _ in range(3)] == [kind == "same"] * 3


@pytest.mark.parametrize("kind", ["distinct", "same"])
def test_noted_objects_that_are_gone_or_raise(kind: str) -> None:
    arg = 0 if kind == "same" else None
    thing = Fresh()
    forget = node("attr", "made", (3, "pred", lambda _: thing.__dict__.clear() or True))
    guards = tree(node("input", 0, node("attr", "twice", (1, kind, arg)), forget))
    assert all(guards.check((thing,)) for _ in range(3))
    guards = tree(node("input", 0, node("attr", "twice", (1, kind, arg)), node("attr", "fails", (2, kind, arg))))
    assert not any(guards.check((thing,)) for _ in range(3))
    assert guards.explain((thing,)) == (2, "AccessError: attr 'fails' of Fresh: no such thing")
    plain = Plain(a=Plain(), b=Plain())
    guards = tree(node("input", 0, instance("a", (1, kind, arg)), instance("b", (2, kind, arg))))
    assert guards.check((plain,)) == (kind == "distinct")
    plain.b = plain.a
    assert guards.check((plain,)) == (kind == "same")
    del plain.b
    assert not guards.check((plain,))
    assert guards.explain((plain,)) == (2, "AccessError: dict_item 'b' of dict is not there")


@pytest.mark.parametrize("n", [2, 5, 100])
def test_same(n: int) -> None:
    guards = tree(*(node("input", i, (i, "same", i % 2)) for i in range(n + 1)))
    even, odd = Plain(), Plain()
    things = [(even, odd)[i % 2] for i in range(n + 1)]
    for _ in range(2):
        assert guards.check(tuple(things))
    other = [*things[:-1], Plain()]
    assert not guards.check(tuple(other))
    assert guards.explain(tuple(other)) == (n, other[-1])
    assert guards.check(tuple([even] * (n + 1)))
    assert guards.check(tuple(things))


def test_same_across_subtrees_that_are_remembered() -> None:
    one, two = Plain(), Plain()

    def path(i: int) -> Any:
        return node("input", i, instance("a", instance("b", (i, "same", 0))))

    guards = tree(path(0), path(1))
    one.a, two.a = Plain(), Plain()
    one.a.b = two.a.b = Plain()
    for _ in range(40):
        assert guards.check((one, two))
    two.a.b = Plain()
    assert not guards.check((one, two))
    one.a.b = two.a.b
    assert guards.check((one, two))
    assert guards.explain((one, two)) is None


def test_explain_gives_the_first_failure_in_the_given_order() -> None:
    guards = tree(
        node("input", 0, instance("a", (1, "eq", 1)), node("attr", "kind", (2, "eq", "other")), instance("b", (3, "eq", 1))),
        node("input", 1, (4, "is", None)),
    )
    assert guards.explain((Plain(a=1), None)) == (2, "class attribute")
    assert guards.explain((Plain(b=1), None)) == (1, "AccessError: dict_item 'a' of dict is not there")
    assert guards.explain((5, None)) == (1, "AccessError: inst_dict None of int is not there")
    no_attr = tree(node("input", 0, node("attr", "zz", node("list_item", 0, (9, "is", None)))))
    assert no_attr.explain((Plain(),)) == (9, "AccessError: attr 'zz' of Plain: 'Plain' object has no attribute 'zz'")


def test_only_exceptions_are_failures() -> None:
    def interrupt(_: object) -> bool:
        raise KeyboardInterrupt

    guards = leaf_on_input("pred", interrupt)
    with pytest.raises(KeyboardInterrupt):
        guards.check((1,))
    with pytest.raises(KeyboardInterrupt):
        guards.explain((1,))


def test_user_code_that_drops_what_is_being_looked_at() -> None:
    holder = {"k": [Plain()]}

    def drop(_: object) -> bool:
        holder.clear()
        return True

    guards = tree(node("input", 0, node("dict_item", "k", (1, "pred", drop), (2, "len", 1), node("list_item", 0, (3, "type", Plain)))))
    assert guards.check((holder,))
    assert not guards.check((holder,))


def test_guards_keep_no_input_alive() -> None:
    thing = Plain(a=Plain(b=1))
    guards = tree(node("input", 0, instance("a", instance("b", (1, "eq", 1)))), node("input", 0, (2, "distinct", None)))
    assert guards.check((thing,))
    gone = weakref.ref(thing)
    del thing
    assert gone() is None
    assert guards.check((Plain(a=Plain(b=1)),))


BAD_TREES = [
    ("root", TypeError, "a node is"),
    (("root", None, (), ()) + (1,), TypeError, "a node is"),
    (node("input", 0), ValueError, "outermost"),
    (node("root", None, node("root")), ValueError, "outermost"),
    (node("root", None, node("nonsense")), ValueError, "unknown accessor 'nonsense'"),
    (node("root", None, (1, "nonsense", None)), ValueError, "unknown leaf 'nonsense'"),
    (("root", None, ((1, "is"),), ()), TypeError, "a leaf is"),
    (("root", None, (("x", "is", None),), ()), TypeError, "a leaf is"),
    (node("root", None, node("input", -1)), TypeError, "an index"),
    (node("root", None, node("input", 0, node("attr", 3))), TypeError, "an attribute name"),
    (node("root", None, node("input", 0, node("dict_item", []))), TypeError, "unhashable"),
    (node("root", None, node("input", 0, node("call", 3))), TypeError, "a callable"),
    (node("root", None, node("input", 0, node("input", 0))), ValueError, "directly under the root"),
    (node("root", None, node("input", 0, (1, "type", 3))), TypeError, "a class"),
    (node("root", None, node("input", 0, node("cell", 1))), TypeError, 'accessor "cell" takes None, not 1'),
    (node("root", None, node("input", 0, (1, "same", -1))), TypeError, "the number of a group"),
    (node("root", None, node("input", 0, (1, "len", "x"))), TypeError, "an int"),
    (node("root", None, node("input", 0, (1, "dict_keys", ["x"]))), TypeError, "a tuple"),
    (node("root", None, node("input", 0, (1, "has_key", []))), TypeError, "unhashable"),
    (node("root", None, node("input", 0, (1, "tensor", 3))), TypeError, "TensorFacts"),
    (node("root", None, node("input", 0, (1, "state", _C.GlobalState()))), ValueError, "belongs to the root"),
    (node("root", None, (1, "state", 3)), TypeError, "GlobalState"),
]


@pytest.mark.parametrize(("spec", "error", "text"), BAD_TREES, ids=range(len(BAD_TREES)))
def test_malformed_trees(spec: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        _C.GuardTree(spec)


def test_a_tree_too_deep_is_refused() -> None:
    deep: Any = node("list_item", 0)
    for _ in range(100_000):
        deep = node("list_item", 0, deep)
    with pytest.raises(RecursionError):
        tree(node("input", 0, deep))
    while deep[3]:  # a tuple this deep can't be dropped in one go on every version
        deep = deep[3][0]


def test_root_leaves_see_the_inputs() -> None:
    assert tree((1, "len", 2)).check((1, 2))
    assert not tree((1, "len", 2)).check((1,))
    assert tree((1, "pred", lambda inputs: inputs == (1,))).check((1,))


def test_inputs_must_be_a_tuple() -> None:
    with pytest.raises(TypeError, match="must be a tuple"):
        tree().check([1])
    with pytest.raises(TypeError, match="must be a tuple"):
        tree().explain([1])


def test_cost() -> None:
    guards = tree(
        (1, "state", _C.GlobalState()),
        node("input", 0, (2, "distinct", None), instance("a", node("attr", "real", (3, "eq", 1)))),
        node("input", 1, (4, "pred", lambda _: time.sleep(0.001) is None), (5, "distinct", None)),
    )
    rows = guards.cost((Plain(a=1), 2), n=5)
    assert [guard for guard, _ in rows] == [1, 2, 3, 4, 5]
    assert all(0 < ns < 5e5 for guard, ns in rows if guard != 4)
    assert dict(rows)[4] > 1e6
    assert [guard for guard, _ in guards.cost((Plain(a=2), 2))] == [1, 2, 3]
    assert [guard for guard, _ in guards.cost((Plain(), 2))] == [1, 2]
    with pytest.raises(ValueError, match="at least 1"):
        guards.cost((), 0)
