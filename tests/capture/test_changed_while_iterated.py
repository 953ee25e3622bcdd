"""Containers that change while something iterates over them: what comes next, and the errors, are CPython's."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch

import dynamo

_DICT_CHANGES = """d['z']=1 ;; d.pop('a') ;; d['a']=5 ;; d.clear() ;; d.update(q=1) ;; d['z']=1;del d['z'] ;; d['z']=1;del d['a'] ;;
    d['bx']=d.pop('b') ;; d.popitem() ;; d.setdefault('a',1) ;; d.setdefault('y',1) ;; d|={'a':2} ;; d|={'w':2} ;;
    d.pop('a');d.pop('b');d.pop('c') ;; d.popitem();d.popitem();d.popitem()"""
_DICT_WALKS = ("iter(d)", "iter(d.items())", "iter(d.values())", "reversed(d)")
_LIST_CHANGES = """d.append(1) ;; d.pop() ;; d[0]=5 ;; d.clear() ;; d.extend([]) ;; d.extend([7]) ;; d.extend(iter([3])) ;; d*=0 ;; d*=1 ;;
    d*=2 ;; d+=[] ;; d.reverse() ;; d.insert(0,1) ;; d.append(1);d.pop() ;; d.remove(2) ;; del d[0] ;; d.__init__([1,2])"""
# What makes the container, how it is walked, what changes it.
TABLE = {
    "dict": ("dict(a=1,b=2,c=3)", _DICT_WALKS, _DICT_CHANGES),
    "defaultdict": ("collections.defaultdict(int,a=1,b=2,c=3)", _DICT_WALKS, _DICT_CHANGES + ";; d['none']"),
    "OrderedDict": (
        "collections.OrderedDict(a=1,b=2,c=3)",
        _DICT_WALKS,
        _DICT_CHANGES + ";; d.move_to_end('a') ;; d.move_to_end('c') ;; d.popitem(False)",
    ),
    "list": ("[1,2,3]", ("iter(d)", "reversed(d)"), _LIST_CHANGES + ";; d.sort() ;; d[:1]=[4,5]"),
    "deque": (
        "collections.deque([1,2,3])",
        ("iter(d)", "reversed(d)"),
        _LIST_CHANGES + ";; d.rotate(0) ;; d.rotate(1) ;; d.appendleft(1) ;; d.popleft() ;; d.extendleft([1])",
    ),
    "set": ("{1}", ("iter(d)",), "d.add(2) ;; d.add(1) ;; d.discard(1) ;; d.clear() ;; d.add(2);d.remove(2)"),
}


def _program(make: str, walk: str, steps: int, change: str, is_given: bool) -> Any:
    world = {"collections": collections}
    exec(
        f"""
def f(x, given):
    d = given if {is_given} else {make}
    walk = {walk}
    out = [next(walk, "end") for _ in range({steps})]
    {change}
    for _ in range(4):
        try:
            out.append(next(walk))
        except (RuntimeError, StopIteration) as e:
            out.append(repr(e))
    return x + 1, out, list(d)
""",
        world,
    )
    return world["f"]


@pytest.mark.parametrize("kind", TABLE)
def test_what_comes_next(kind: str) -> None:
    make, walks, changes = TABLE[kind]
    wrong = []
    for walk in walks:
        for change in [c.strip() for c in changes.split(";;")]:
            for steps in (0, 1, 3):
                for is_given in (True, False):
                    f = _program(make, walk, steps, change, is_given)
                    expected = f(torch.ones(1), eval(make))[1:]
                    dynamo.reset()
                    found = dynamo.compile(f, backend="eager")(torch.ones(1), eval(make))[1:]
                    if found != expected:
                        wrong.append(f"{walk}, {steps} steps, {change}: {found} instead of {expected}")
    assert not wrong, "\n".join(wrong)
