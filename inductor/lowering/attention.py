"""`flex_attention`: the program's functions of one score become expressions over its place, which a target puts into its kernels.

What is no expression (a table that a function makes, random numbers) leaves the call as it is, which is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo.aot.branches import Branch
from dynamo.aot.scores import ATTENTION, ATTENTION_BACKWARD, ATTENTION_LEARNED, Scores
from dynamo.trace import emit
from dynamo.trace.events import Note
from inductor.ir import types
from inductor.ir.affine import ZERO, Axis, Index, const, of_atom
from inductor.ir.attention import BEHIND, BLOCKS, SCORE, Attention, Formulas, at_place, axes_of
from inductor.ir.dims import Dim, as_shape, at_least, is_known
from inductor.ir.expr import Expr, cast, const_value, index_value, load, rebuild, rewrite, walk
from inductor.ir.expr import const as constant
from inductor.ir.nest import Extern, Nest, Origin, Program, View
from inductor.lowering.context import Context
from inductor.lowering.tensor import Tensor

aten = torch.ops.aten
UNFUSED = "DI023"
OPERATORS = (ATTENTION, ATTENTION_BACKWARD, ATTENTION_LEARNED)
RESTS = frozenset({aten.remainder.Scalar, aten.remainder.Tensor})
DIVISIONS = RESTS | {aten.floor_divide.default, aten.floor_divide.Scalar, aten.div.Tensor_mode, aten.div.Scalar_mode}
Lowered = Callable[[GraphModule], Program]


class Unfusable(Exception):
    """Why a function of the program is no expression."""


def attention(ctx: Context, target: Any, args: Sequence[Any], lowered: Lowered) -> Any:
    """The call, with what becomes of a score where that is an expression. `lowered` lowers a graph."""
    which = args[-3]
    own = Scores.of(which)
    captured = [as_traced(ctx, t, meta) for t, meta in zip(args[-1], traced_as(own), strict=True)]
    found = ctx.extern(target, [*args[:-1], captured], {}, ctx.meta)
    step = ctx.program.steps.pop()
    assert isinstance(step, Extern)
    try:
        made = formulas(own, step, target, lowered)
    except Unfusable as why:
        emit(Note(UNFUSED, f"flex_attention{at(ctx.origins)} has all scores in memory: {why}", "info"))
        ctx.program.steps.append(step)
        return found
    ctx.program.steps.append(Attention(**{f.name: getattr(step, f.name) for f in fields(step)}, formulas=made))
    return found


def at(origins: Sequence[Origin]) -> str:
    return f" at {origins[0].file}:{origins[0].line}" if origins and origins[0].file else ""


def traced_as(own: Scores) -> list[torch.Tensor]:
    """The fakes that the functions were traced with."""
    of_score = metas(own.score)[5 : 5 + own.read]
    of_mask = metas(own.mask)[4:]
    return [*of_score, *of_mask[: len(of_mask) - len(own.mask.held)]]


def metas(branch: Branch) -> list[torch.Tensor]:
    return [n.meta["val"] for n in branch.graph.graph.nodes if n.op == "placeholder"]


def as_traced(ctx: Context, t: Tensor, meta: torch.Tensor) -> Tensor:
    """A captured tensor in the layout that the functions know."""
    t, strides = ctx.dense(t), as_shape(meta.stride())
    view = t.view()
    assert view is not None
    same = all(n == 1 or a == b for n, a, b in zip(view.shape, view.strides, strides, strict=True))
    return t if same else ctx.copy(t, strides)


def formulas(own: Scores, step: Extern, target: Any, lowered: Lowered) -> Formulas:
    """What becomes of one score. Raises Unfusable."""
    is_backward = target is not ATTENTION
    query, key = (step.args[1], step.args[2]) if is_backward else (step.args[0], step.args[1])
    assert isinstance(query, View) and isinstance(key, View)
    lengths = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    if not all(is_known(n) for n in (*query.shape, *key.shape)):
        raise Unfusable("its sizes are known only when it runs")
    if step.dtype == torch.float64:
        raise Unfusable("its scores are of float64")
    axes = axes_of(*lengths)
    places = [cast(index_value(of_atom(a)), "i32") for a in axes]
    score, behind = (at_place(name, axes, lengths) for name in (SCORE, BEHIND))
    captured, n = [f"read{k}" for k in range(len(step.args[-1]))], own.read
    owner: dict[Expr, tuple[Origin, ...]] = {}
    (changed,) = Inside(own.score, [score, *places], captured[:n], [], lowered, owner).run()
    (kept,) = Inside(own.mask, places, captured[n:], [], lowered, owner).run()
    grad, learned = None, Formulas.learned
    if target is ATTENTION_BACKWARD:
        assert own.grad is not None
        (grad,) = Inside(own.grad, [score, *places], captured[:n], [behind], lowered, owner).run()
    if target is ATTENTION_LEARNED:
        assert own.learned is not None
        each = [read_of(e) for e in Inside(own.learned.values, [score, *places], captured[:n], [], lowered, owner).run()]
        behind_each = Inside(own.learned.grads, [score, *places], captured[:n], [*each, behind], lowered, owner).run()
        numbers = [own.learned.tensors.index(k) for k in own.learned.of]
        learned = tuple(zip(each, behind_each, numbers, strict=True))
    there = tuple(name for name, is_there in zip(BLOCKS, own.there, strict=False) if is_there)
    if target is ATTENTION_BACKWARD and own.settings[1] and "q_num_blocks" not in there:
        raise Unfusable("its block mask has no blocks of queries; make it with compute_q_blocks=True")
    mask = kept if const_value(kept) is None else None
    if mask is None and not const_value(kept):
        raise Unfusable("its mask leaves nothing")
    return Formulas(axes, changed, mask, grad, own.settings[0], own.settings[1], own.settings[2], there, owner, learned)


def read_of(value: Expr) -> Expr:
    """The load that an element is, whatever type it is computed in."""
    while value.op == "cast":
        value = value.args[0]
    if value.op != "load":
        raise Unfusable("an element that a function of it reads is no load")
    return value


class Inside:
    """One graph of numbers as expressions. `given`, `captured` and `behind` are what its placeholders stand for, in order."""

    def __init__(
        self,
        branch: Branch,
        given: Sequence[Expr],
        captured: Sequence[str],
        behind: Sequence[Expr],
        lowered: Lowered,
        owner: dict[Expr, tuple[Origin, ...]],
    ) -> None:
        self.program, self.owner = lowered(branch.graph), owner
        names = self.program.inputs
        own = [*names[: len(given)], *names[len(given) + len(captured) : len(given) + len(captured) + len(behind)]]
        self.values: dict[str, Expr] = dict(zip(own, [*given, *behind], strict=True))
        self.captured = dict(zip(names[len(given) : len(given) + len(captured)], captured, strict=True))
        held = names[len(given) + len(captured) + len(behind) :]
        for name, real in [*zip(held, branch.held, strict=True), *self.program.constants.items()]:
            self.values[name] = number(real)

    def run(self) -> list[Expr]:
        for step in self.program.steps:
            if isinstance(step, Extern) and (found := self.divided(step)) is not None:
                self.values[str(step.outs[0])] = found
                continue
            if not isinstance(step, Nest) or step.axes or len(step.stores) != 1 or step.reduced:
                what = step.target if isinstance(step, Extern) else step.origins[0].op if step.origins else "a loop"
                raise Unfusable(f"{what} in a function of it is no expression of one score")
            (store,) = step.stores
            if store.index is not ZERO or store.mode != "set" or store.indirect:
                raise Unfusable("a function of it computes more than one number")
            before = set(walk(*self.values.values()))
            self.values[store.buffer] = self.expression(store.value)
            self.owner.update({e: step.origins for e in walk(self.values[store.buffer]) if e not in before and e not in self.owner})
        return [self.result(getattr(view, "buffer", "")) for view in self.program.outputs]

    def result(self, buffer: str) -> Expr:
        if buffer in self.captured:
            return load(self.captured[buffer], self.program.buffers[buffer].type, ZERO)
        if buffer not in self.values:
            raise Unfusable("a function of it gives what it was given")
        return self.values[buffer]

    def divided(self, step: Extern) -> Expr | None:
        """The quotient or rest of a place by a number."""
        if step.target not in DIVISIONS or len(step.args) != 2 or step.kwargs.get("rounding_mode", "floor") != "floor":
            return None
        view, by = step.args
        value = self.values.get(view.buffer) if isinstance(view, View) else None
        found = affine(value) if value is not None else None
        if value is None or found is None or type(by) is not int or by <= 0:
            return None
        return cast(index_value(found % by if step.target in RESTS else found // by), value.type)

    def expression(self, value: Expr) -> Expr:
        (found,) = rewrite([value], self.change)
        return found

    def change(self, node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op == "check":
            return within(args[0], node.attr) or rebuild(node, args, node.attr)
        if node.op != "load":
            return rebuild(node, args, node.attr)
        buffer, index = node.attr
        if buffer in self.captured:
            return element_of(node, self.captured[buffer], args)
        if index is not ZERO or buffer not in self.values:
            raise Unfusable("a function of it reads a table of its own")
        return self.values[buffer]


def affine(node: Expr) -> Index | None:
    """The sum of places that an integer is, or None. Sums of places overflow nothing."""
    if node.op == "cast" and types.TYPES[node.type].kind == "int":
        return affine(node.args[0]) if types.TYPES[node.args[0].type].kind == "int" else None
    value = const_value(node)
    if value is not None:
        return const(int(value))
    if node.op in ("add", "sub", "neg", "mul") and types.TYPES[node.type].kind == "int":
        parts = [affine(a) for a in node.args]
        first, last = parts[0], parts[-1]
        if first is None or last is None:
            return None
        if node.op == "mul":
            first, last = (last, first) if not first.terms else (first, last)
            return first * last.const if not last.terms else None
        return first * -1 if node.op == "neg" else first + last if node.op == "add" else first + last * -1
    return node.attr if node.op == "index" else None


def within(position: Expr, extent: Dim) -> Expr | None:
    """An index that is a place which a tensor has for certain: neither counted from the end nor checked."""
    found = affine(position.args[-1] if position.op == "where" else position)
    if found is None:
        return None
    low, high = found.bounds
    return index_value(found) if at_least(low, 0) and at_least(extent, high + 1) else None


def element_of(node: Expr, buffer: str, args: tuple[Expr, ...]) -> Expr:
    """A load from another buffer; of its computed indices those that are places are computed no more."""
    index: Index = node.attr[1]
    left: list[Expr] = []
    by_name = {axis.name: axis for axis in index.axes}
    moved: dict[Axis, Index] = {}
    for k, arg in enumerate(args):
        axis, found = by_name.get(f"${k}"), affine(arg)
        if axis is None:
            continue
        moved[axis] = of_atom(Axis(f"${len(left)}", axis.extent)) if found is None else found
        left += [arg] if found is None else []
    return load(buffer, node.type, index.substitute(moved), tuple(left))


def number(real: torch.Tensor) -> Expr:
    """A tensor that a function holds."""
    if real.dim() or not types.known(real.dtype):
        raise Unfusable("a function of it makes a table")
    kind = types.of_torch(real.dtype)
    return cast(constant(real.item(), types.compute(kind)), kind)
