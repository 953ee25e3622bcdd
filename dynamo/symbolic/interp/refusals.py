"""Branches on tensors of which one side only raises: `assert (x > 0).all()`, `if bad.any(): raise ValueError(...)`.

Such a branch need not break the graph. The graph checks that the side that raises is not taken, and goes on with the other one. Where the
check fails, the graph raises, and the frame is run again from its beginning as plain Python (`graph/rescue.py`): that takes the branch
and raises what eager raises. A graph that can't be started over has the break instead (`Decisions.plain_branches`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from dynamo.bytecode.analyse import flow
from dynamo.graph.rescue import TAKES_OTHER_SIDE, can_start_over
from dynamo.symbolic.protocols import operators
from dynamo.symbolic.values.kinds import Const, MethodValue, TensorValue, Value

if TYPE_CHECKING:
    from dynamo.bytecode.decode import Instr
    from dynamo.symbolic.attempt.frame import Frame
    from dynamo.symbolic.attempt.tracer import Tracer

# Behind more instructions than this, what raises is no mere refusal.
_REACH = 200


def decide(tx: Tracer, f: Frame, v: Value, jump: int) -> bool:
    """Truth of `v`, which the conditional jump at `jump` tests."""
    if isinstance(v, TensorValue) and v.fake.constant is None:
        assumed = _side_that_stays(f, jump)
        if assumed is not None and _can_check(tx, v):
            cond: Value = v if assumed else tx.call_function(torch.logical_not, [v], {})
            tx.call_function(torch._assert_async, [cond, Const(TAKES_OTHER_SIDE)], {})
            tx.assumed = True
            return assumed
    return operators.truth(tx, v)


def decide_result(tx: Tracer, v: Value) -> bool:
    """`bool(v)`, called by the innermost frame: the branch may stand right behind it, or behind the call of a function that returns it."""
    for f in reversed(tx.frames):
        code, after = f.program.normal, f.current + 1
        if code[after].op != "RETURN_VALUE":
            return decide(tx, f, v, after + (code[after].op == "TO_BOOL"))
        caller = f.parent
        if caller is None or caller.instr.op not in ("CALL", "CALL_KW"):
            break
        callee = caller.calling
        while isinstance(callee, MethodValue):
            callee = callee.fn
        if callee is not f.fn:
            break
    return operators.truth(tx, v)


def _can_check(tx: Tracer, v: TensorValue) -> bool:
    """On other devices than processors a failed check would be the last thing that the device does for the process."""
    return (
        not tx.known.plain_branches
        and not tx.builder.scopes
        and v.fake.device.type == "cpu"
        and v.fake.numel() == 1
        and can_start_over(tx.builder.mode.ran)
    )


def _side_that_stays(f: Frame, jump: int) -> bool | None:
    """What the tested value is where the jump doesn't lead to a `raise`; None when both sides, or neither, go on."""
    code = f.program.normal
    ins = code[jump]
    if not ins.op.startswith("POP_JUMP_IF_") or ins.target is None:
        return None
    jumps_if = ins.op == "POP_JUMP_IF_TRUE"
    key = ("refusals", jump)
    if key not in f.program.facts:
        target, following = _only_raises(code, ins.target), _only_raises(code, jump + 1)
        f.program.facts[key] = None if target is following else (not jumps_if if target else jumps_if)
    found: bool | None = f.program.facts[key]
    return found


def _only_raises(code: tuple[Instr, ...], start: int) -> bool:
    """Do all ways from here end in a `raise`?"""
    seen: set[int] = set()
    todo = [start]
    while todo:
        i = todo.pop()
        if i in seen:
            continue
        if len(seen) > _REACH:
            return False
        seen.add(i)
        op = code[i].op
        if op == "RAISE_VARARGS":
            continue
        if op.startswith(("RETURN", "YIELD", "FOR_ITER", "SEND")):
            return False
        todo += flow(code, i)
    return True
