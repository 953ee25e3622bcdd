"""Classes of defects that the generators are for, each made again by taking its mechanism out: `python -m tests.generator.defects`.

Prints how many programs it took to find each one and the shortest program that shows it; exits with 1 if one stays hidden.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import dynamo.aot.track
import inductor.ir.overwrites
import inductor.schedule.fuse
from dynamo import config
from dynamo.aot.track import Track
from dynamo.guards.build import _Node
from dynamo.ops import facts
from dynamo.symbolic.protocols import tables, wrap
from tests.generator.families import FAMILIES
from tests.generator.running import run_programs

LIMIT = 2000  # programs until a defect counts as hidden
BATCH = 200  # of one number: long runs draw in such parts too, one that is much longer repeats itself
NUMBER = 7


@dataclass(frozen=True)
class Defect:
    """`without` are the attributes that hold the mechanism, and what stands in for each."""

    family: str
    without: Sequence[tuple[Any, str, Any]]


def _other_facts(change: Callable[[facts.Facts], facts.Facts]) -> tuple[Any, str, Any]:
    real = facts.facts_of
    return facts, "facts_of", lambda op: change(real(op))


def _no_guards(kind: str) -> tuple[Any, str, Any]:
    freeze = _Node.freeze

    def freeze_others(node: _Node, hold: Any) -> Any:
        node.leaves = [leaf for leaf in node.leaves if leaf[1] != kind]
        return freeze(node, hold)

    return _Node, "freeze", freeze_others


DEFECTS: dict[str, Defect] = {
    "code runs on after a method, a function or a class was replaced": Defect("state-eager", [_no_guards("defined")]),
    "what comes in later is taken for the object that was known first": Defect("state-eager", [(wrap, "_identity_guard", lambda *_: None)]),
    "code runs on for a dict of other keys": Defect("state-eager", [(tables, "guard_keys", lambda *_: None)]),
    "code runs on under another grad mode or autocast": Defect("state-aot", [_no_guards("state")]),
    "writes read what they have overwritten": Defect(
        "state-inductor",
        [
            (inductor.ir.overwrites, "is_harmless", lambda *_: True),
            (inductor.schedule.fuse, "is_harmless", lambda *_: True),
            (inductor.ir.overwrites, "must_precede", lambda steps, mutated: [set() for _ in steps]),
        ],
    ),
    "operators that check their arguments are dead code": Defect("state-aot", [_other_facts(lambda f: f._replace(refuses=False))]),
    "operators that draw or set random state are dead code": Defect("state-aot", [_other_facts(lambda f: f._replace(acts=bool(f.writes)))]),
    "what .data gives counts the writes of others": Defect("shared-aot", [(Track, "counts_apart", lambda _: False)]),
    "views are made in whatever mode the call is in": Defect("shared-aot", [(dynamo.aot.track, "ambient_mode", lambda: "grad")]),
}


@contextmanager
def made(defect: Defect) -> Iterator[None]:
    """The compiler with the defect; nothing that it makes is kept for later."""
    with ExitStack() as stack, config.patch(graph_cache=False):
        for holder, name, value in defect.without:
            stack.enter_context(mock.patch.object(holder, name, value))
        yield


def find(defect: Defect, limit: int = LIMIT) -> tuple[int, Any, str] | None:
    """Number of programs until the first that shows it, the shortest such program, and what that one shows. None: hidden."""
    family = FAMILIES[defect.family]
    drawn, first, shown = 0, 0, ("", "")

    def check(program: Any) -> None:
        nonlocal drawn, first, shown
        drawn += 1
        try:
            family.check(program)
        except Exception as e:
            first = first or drawn
            shown = program, str(e)
            raise

    try:
        with made(defect):
            for number in range(-(-limit // BATCH)):
                run_programs(family.strategy(), check, NUMBER + number, min(BATCH, limit))
    except Exception:  # noqa: BLE001  # what was raised has been kept; Hypothesis may wrap it
        if "[DD090]" in shown[1]:
            raise AssertionError(f"what stands in for a mechanism fails itself:\n{shown[1]}") from None
        return first, *shown
    return None


def main() -> int:
    hidden = 0
    for name, defect in DEFECTS.items():
        found = find(defect)
        if found is None:
            hidden += 1
            print(f"hidden: {name}: not shown by {LIMIT} programs of {defect.family}")
            continue
        first, program, message = found
        print(f"found: {name}: program {first} of {defect.family}\n{program}\n{message.strip().splitlines()[-1]}\n", flush=True)
    return 1 if hidden else 0


if __name__ == "__main__":
    sys.exit(main())
