"""A second target, to prove the boundary: kernels as Python over flat lists, called one after another.

It shares everything above `inductor.targets.protocol`: passes, lowering, the schedule with its fusions and reuse of memory, verifiers,
recipe. Of the CPU's it takes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from inductor.ir.affine import Axis, Div, Index
from inductor.ir.expr import Expr, const_value
from inductor.ir.nest import Batch, Extern, Nest, Program, Store, View
from inductor.runtime.recipe import KernelCall, Recipe
from inductor.schedule.group import Group
from inductor.schedule.kernel import Kernel
from inductor.schedule.limits import Limits
from inductor.schedule.plan import Plan
from inductor.schedule.stages import Stage, Stager
from inductor.targets.protocol import Text

PRELUDE = """
import math, struct
from math import inf, nan

def guarded(fn):
    def call(*args):
        try:
            return fn(*args)
        except OverflowError:
            return inf
        except ValueError:
            return nan
    return call

def f32(x):
    try:
        return struct.unpack("f", struct.pack("f", x))[0]
    except OverflowError:
        return math.copysign(inf, x)

def f16(x):
    try:
        return struct.unpack("e", struct.pack("e", x))[0]
    except OverflowError:
        return math.copysign(inf, x)

def bf16(x):
    if x != x or abs(x) == inf:
        return x
    bits = struct.unpack("I", struct.pack("f", f32(x)))[0] if abs(f32(x)) != inf else 0x7F800000
    return struct.unpack("f", struct.pack("I", (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000)))[0]

def f64(x):
    return float(x)

def wrap(bits):
    def cut(x):
        if x != x or abs(x) == inf:
            x = -1 << (bits - 1)
        x = int(x) & ((1 << bits) - 1)
        return x - (1 << bits) if x >> (bits - 1) else x
    return cut

i64, i32, i16, i8 = map(wrap, (64, 32, 16, 8))
u8 = lambda x: i64(x) & 255
boolean = lambda x: bool(x != 0)

def div(x, y):
    if y == 0:
        return nan if x == 0 or x != x else math.copysign(inf, x) * math.copysign(1.0, y)
    return x / y

def power(x, y):
    try:
        return float(x) ** float(y) if not (x < 0 and y != int(y)) else nan
    except ZeroDivisionError:
        return inf if not (y == int(y) and int(y) % 2 and math.copysign(1.0, x) < 0) else -inf
    except (OverflowError, ValueError):
        return -inf if x < 0 and y == int(y) and int(y) % 2 else inf

def log(x):
    return -inf if x == 0 else guarded(math.log)(x)

def most(x, y):
    return x if x != x or not (y > x or y != y) else y

def least(x, y):
    return x if x != x or not (y < x or y != y) else y

def whole(fn):
    return lambda x: x if x != x or abs(x) == inf else math.copysign(float(fn(x)), x)

def remainder(x, y):
    m = guarded(math.fmod)(x, y)
    return m + y if m and (y < 0) != (m < 0) else m

def floordiv(x, y):
    return div(x, y) if y == 0 else whole(math.floor)((x - remainder(x, y)) / y)

nextafter_f64 = math.nextafter

def nextafter_f32(x, y):
    if x != x or y != y:
        return nan
    if x == y:
        return y
    if x == 0:
        return math.copysign(2.0**-149, y)
    (bits,) = struct.unpack("i", struct.pack("f", x))
    return struct.unpack("f", struct.pack("i", bits + (1 if (y > x) == (x > 0) else -1)))[0]

def philox(seed, counter, thread, lane):
    low = 0xFFFFFFFF
    x, y, z, w = counter & low, counter >> 32 & low, thread & low, thread >> 32 & low
    first, second = seed & low, seed >> 32 & low
    for _ in range(10):
        a, b = x * 0xD2511F53, z * 0xCD9E8D57
        x, y, z, w = b >> 32 ^ y ^ first, b & low, a >> 32 ^ w ^ second, a & low
        first, second = first + 0x9E3779B9 & low, second + 0xBB67AE85 & low
    return f32(f32((x, y, z, w)[lane]) * 2.0**-32 + 2.0**-33)

def check(i, n):
    if not 0 <= i < n:
        raise IndexError(f"index {i} is out of bounds for a dimension of size {n}")
    return i
"""


def _math(name: str) -> str:
    return f"guarded(math.{name})({{0}})"


PYTHON: dict[str, str] = {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "fma": "({0} * {1} + {2})",
    "div": "div({0}, {1})",
    "neg": "(-{0})",
    "abs": "abs({0})",
    "max": "most({0}, {1})",
    "min": "least({0}, {1})",
    "eq": "({0} == {1})",
    "ne": "({0} != {1})",
    "lt": "({0} < {1})",
    "le": "({0} <= {1})",
    "gt": "({0} > {1})",
    "ge": "({0} >= {1})",
    "and": "({0} & {1})",
    "or": "({0} | {1})",
    "xor": "({0} ^ {1})",
    "not": "({0} ^ (True if isinstance({0}, bool) else -1))",
    "where": "({1} if {0} else {2})",
    "isnan": "({0} != {0})",
    "isinf": "(abs({0}) == inf)",
    "signbit": "(math.copysign(1.0, {0}) < 0)",
    "floor": "whole(math.floor)({0})",
    "ceil": "whole(math.ceil)({0})",
    "trunc": "whole(math.trunc)({0})",
    "round": "whole(round)({0})",
    "copysign": "math.copysign({0}, {1})",
    "fmod": "guarded(math.fmod)({0}, {1})",
    "remainder": "remainder({0}, {1})",
    "floordiv": "floordiv({0}, {1})",
    "nextafter": "nextafter_{t}({0}, {1})",
    "hypot": "math.hypot({0}, {1})",
    "atan2": "math.atan2({0}, {1})",
    "pow": "power({0}, {1})",
    "log": "log({0})",
    **{name: _math(name) for name in ("sqrt", "exp", "exp2", "expm1", "log1p", "sin", "cos", "tan", "asin", "acos", "atan")},
    **{name: _math(name) for name in ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma")},
    "log2": "(log({0}) / math.log(2))",
    "log10": "(log({0}) / math.log(10))",
    "philox": "philox({0}, {1}, {2}, {3})",
}

# kind -> (start of each accumulator, the lines that take {x} at position {p} into {0}, {1}, ...)
REDUCTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "sum": (("0",), ("{0} = {0} + {x}",)),
    "prod": (("1",), ("{0} = {0} * {x}",)),
    "max": (("None",), ("{0} = {x} if {0} is None else most({0}, {x})",)),
    "min": (("None",), ("{0} = {x} if {0} is None else least({0}, {x})",)),
    "any": (("False",), ("{0} = bool({0} or {x})",)),
    "all": (("True",), ("{0} = bool({0} and {x})",)),
    "argmax": (("0", "None"), ("{0}, {1} = ({p}, {x}) if {1} is None or {1} == {1} and ({x} > {1} or {x} != {x}) else ({0}, {1})",)),
    "argmin": (("0", "None"), ("{0}, {1} = ({p}, {x}) if {1} is None or {1} == {1} and ({x} < {1} or {x} != {x}) else ({0}, {1})",)),
    "welford": (
        ("0.0", "0.0", "0"),
        ("{2} += 1", "d = {x} - {0}", "{0} = {0} + d / {2}", "{1} = {1} + d * ({x} - {0})"),
    ),
    "online_softmax": (
        ("-inf", "0.0"),
        (
            "h = most({0}, {x})",
            "{1} = {1} * (1.0 if {0} == h else math.exp({0} - h)) + (1.0 if {x} == h else math.exp({x} - h))",
            "{0} = h",
        ),
    ),
}
_EMPTY = {"max": "-inf", "min": "inf"}


@dataclass
class ListKernel(Kernel):
    mutated: frozenset[str] = field(default=frozenset(), kw_only=True)


class Printer:
    """One kernel as a Python function of a dict of flat lists."""

    def __init__(self, kernel: ListKernel) -> None:
        self.kernel = kernel
        self.lines: list[str] = []
        self.depth = 0
        self.count = 0
        self.known: list[dict[Expr, str]] = []
        self.reduced: dict[tuple[str, tuple[Axis, ...], Expr], list[str]] = {}
        self.updated: set[tuple[str, tuple[Axis, ...], Expr]] = set()
        self.scans: dict[Expr, str] = {}
        self.here: dict[tuple[str, Index], str] = {}  # what this very loop body has stored

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def text(self) -> str:
        self.add(f"def {self.kernel.name}(m):")
        self.depth += 1
        start = self.depth
        self.loops(self.kernel.outer)
        for stage in self.kernel.stages:
            for group in [stage] if not self.kernel.is_batch else [Stage(m.axes, [m]) for m in stage.members]:
                self.stage(group)
        self.add("pass")
        self.depth = start - 1
        return "\n".join(self.lines) + "\n"

    def loops(self, axes: Sequence[Axis]) -> None:
        for axis in axes:
            self.add(f"for {axis.name} in range({axis.extent}):")
            self.depth += 1

    def stage(self, stage: Stage) -> None:
        self.known, self.reduced, depth = [{}], {}, self.depth
        nests = [m for m in stage.members if m.reduced]
        scans = {e: self.fresh() for m in stage.members for e in m.exprs() if e.op == "scan"}
        for name, node in ((name, node) for node, name in scans.items()):
            assert stage.axes == (node.attr[1],)
            self.add(f"{name} = {0 if node.attr[0] == 'sum' else 1}")
        for node in (e for m in nests for e in m.exprs() if e.op == "reduce"):
            kind, axes, _ = node.attr
            key = (kind, axes, node.args[0])
            if key not in self.reduced:
                starts, _ = REDUCTIONS[kind]
                self.reduced[key] = [self.fresh() for _ in starts]
                for name, start in zip(self.reduced[key], starts, strict=True):
                    self.add(f"{name} = {start}")
        self.scans = scans
        self.loops(stage.axes)
        self.known.append({})
        self.here, self.updated = {}, set()
        late: list[str] = []  # stores over values that others in the body may read
        for nest in stage.members:
            if nest.reduced:
                self.accumulate(nest)
            else:
                late += [line for store in nest.stores if (line := self.store(store))]
        for line in late or ["pass"]:
            self.add(line)
        self.depth = depth
        self.known.pop()
        self.here = {}
        for (kind, _, _), names in self.reduced.items():
            if kind in _EMPTY:
                self.add(f"{names[0]} = {_EMPTY[kind]} if {names[0]} is None else {names[0]}")
        for store in (s for m in nests for s in m.stores):
            if line := self.store(store):
                self.add(line)

    def accumulate(self, nest: Nest) -> None:
        for kind, axes, operand in dict.fromkeys((*e.attr[:2], e.args[0]) for e in nest.exprs() if e.op == "reduce"):
            if (kind, axes, operand) in self.updated:
                continue
            self.updated.add((kind, axes, operand))
            value, position = self.value(operand), "0"
            for axis in axes:
                position = f"({position}) * {axis.extent} + {axis.name}"
            for line in REDUCTIONS[kind][1]:
                self.add(line.format(*self.reduced[kind, axes, operand], x=value, p=position))

    def store(self, store: Store) -> str:
        """Store a value, or give back the line that does, where it destroys one that others of the loop body may read."""
        value = self.value(store.value)
        at = f"m[{store.buffer!r}][{self.index(store.index, [self.value(e) for e in store.indirect])}]"
        text = self.rounded(store.value.type, f"{at} + {value}" if store.mode == "add" else value)
        if store.mode == "add":
            self.add(f"{at} = {text}")
            return ""
        name = self.named(text)
        if not store.indirect:
            self.here[store.buffer, store.index] = name
        if store.buffer in self.kernel.mutated or store.buffer in self.kernel.over:
            return f"{at} = {name}"
        self.add(f"{at} = {name}")
        return ""

    def rounded(self, type_name: str, text: str) -> str:
        return f"{'boolean' if type_name == 'bool' else type_name}({text})"

    def index(self, index: Index, indirect: Sequence[str] = ()) -> str:
        parts = [str(index.const)]
        for atom, coef in index.terms:
            if isinstance(atom, Axis):
                text = indirect[int(atom.name[1:])] if atom.name.startswith("$") else atom.name
            else:
                text = f"(({self.index(atom.of, indirect)}) {'//' if isinstance(atom, Div) else '%'} {atom.by})"
            parts.append(f"{coef} * {text}")
        return " + ".join(parts)

    def value(self, node: Expr) -> str:
        if node.op == "load" and not node.args and node.attr in self.here:
            return self.here[node.attr]
        for known in reversed(self.known):
            if node in known:
                return known[node]
        name = self.compute(node)
        self.known[-1][node] = name
        return name

    def compute(self, node: Expr) -> str:
        if node.op == "const":
            value = const_value(node)
            assert value is not None
            return f"({value!r})" if math.isfinite(value) else f"({value})"
        if node.op == "reduce":
            kind, axes, output = node.attr
            return self.named(self.rounded(node.type, self.reduced[kind, axes, node.args[0]][output]))
        if node.op == "index":
            return self.named(self.index(node.attr))
        if node.op == "masked":
            return self.masked(node)
        args = [self.value(a) for a in node.args]
        if node.op == "load":
            buffer, index = node.attr
            return self.named(f"m[{buffer!r}][{self.index(index, args)}]")
        if node.op == "check":
            return self.named(f"check({args[0]}, {node.attr})")
        if node.op == "cast":
            return self.named(self.rounded(node.type, args[0]))
        if node.op == "scan":
            name, symbol = self.scans[node], "+" if node.attr[0] == "sum" else "*"
            self.add(f"{name} = {name} {symbol} {args[0]}")
            return self.named(name)
        return self.named(self.rounded(node.type, PYTHON[node.op].format(*args, t=node.args[-1].type)))

    def named(self, text: str) -> str:
        name = self.fresh()
        self.add(f"{name} = {text}")
        return name

    def masked(self, node: Expr) -> str:
        condition, name = self.value(node.args[0]), self.fresh()
        for head, arg in ((f"if {condition}:", node.args[1]), ("else:", node.args[2])):
            self.add(head)
            self.depth += 1
            self.known.append({})
            self.add(f"{name} = {self.value(arg)}")
            self.known.pop()
            self.depth -= 1
        return name


class ListTarget:
    name = "cpu"
    limits = Limits(
        members=8,
        few_iterations=1,
        small_work=64,
        piece=64,
        few_results=4,
        long_reduction=1000,
        programs=0,
        columns=1,
        large=0,
        large_program=0,
        align=1,
    )

    def kernel(self, name: str, group: Group, program: Program, needed: frozenset[str]) -> ListKernel:
        stages = Stager(group, program.mutated).run()
        return self.made(name, group.outer, stages, group.members, program)

    def batch(self, name: str, batch: Batch, program: Program) -> ListKernel:
        nests = list(batch.unrolled())
        kernel = self.made(name, (), [Stage(nests[0].axes, nests)], nests, program)
        return replace(kernel, is_batch=True)

    def extern(self, name: str, step: Extern, program: Program) -> tuple[()]:
        return ()

    def made(self, name: str, outer: tuple[Axis, ...], stages: Sequence[Stage], members: Sequence[Nest], program: Program) -> ListKernel:
        writes = frozenset().union(*(m.writes() for m in members))
        reads = frozenset().union(*(m.reads() for m in members)) - writes
        origins = tuple(dict.fromkeys(o for m in members for o in m.origins))
        work = sum(m.points for m in members)
        mutated = frozenset(program.mutated & writes)
        return ListKernel(name, outer, stages, tuple(sorted(reads)), tuple(sorted(writes)), work, origins, mutated=mutated)

    def source(self, plan: Plan) -> str:
        kernels = [k for k in plan.kernels if isinstance(k, ListKernel)]
        return "\n\n".join([PRELUDE, *(Printer(k).text() for k in kernels), f"kernels = [{', '.join(k.name for k in kernels)}]\n"])

    def texts(self, plan: Plan, source: str, graph_id: str) -> Iterator[Text]:
        yield Text("kernels", "list", "python", source)


class ListRuntime:
    def versions(self) -> tuple[str, ...]:
        return ()

    def start(self, source: str) -> list[Callable[[dict[str, list[Any]]], None]]:
        names: dict[str, Any] = {}
        exec(compile(source, "<lists>", "exec"), names)  # the target's own text
        return names["kernels"]

    def program(self, recipe: Recipe, library: Any) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        return lambda inputs: run(recipe, library or [], inputs)


def run(recipe: Recipe, kernels: Sequence[Callable[..., None]], inputs: Sequence[Any]) -> tuple[Any, ...]:
    tensors: dict[str, torch.Tensor] = dict(zip(recipe.inputs, inputs, strict=True)) | dict(recipe.constants)

    def whole(name: str) -> torch.Tensor:
        if name not in tensors:
            buffer = recipe.buffers[name]
            old = tensors.get(recipe.over.get(name, ""))
            empty = torch.empty_strided(buffer.shape, buffer.strides, dtype=buffer.dtype)
            tensors[name] = empty if old is None else old.as_strided(buffer.shape, buffer.strides, old.storage_offset())
        return tensors[name]

    def resolve(tree: Any) -> Any:
        if isinstance(tree, View):
            base = whole(tree.buffer)
            return base.as_strided(tree.shape, tree.strides, base.storage_offset() + tree.offset)
        return type(tree)(map(resolve, tree)) if isinstance(tree, (list, tuple)) else tree

    left = iter(kernels)
    for step in recipe.steps:
        if isinstance(step, KernelCall):
            flats: dict[str, torch.Tensor] = {}
            for name in (*step.reads, *step.writes):
                t = whole(name)
                flats[name] = t.as_strided((max(recipe.buffers[name].size, 0),), (1,), t.storage_offset())
            lists: dict[tuple[int, torch.dtype], list[Any]] = {}
            shared = {name: lists.setdefault((flat.data_ptr() or id(flat), flat.dtype), flat.tolist()) for name, flat in flats.items()}
            next(left)(shared)
            for name in step.writes:
                if flats[name].numel():
                    flats[name].copy_(torch.tensor(shared[name][: flats[name].numel()], dtype=flats[name].dtype))
            continue
        result = step.target(*resolve(step.args), **{k: resolve(v) for k, v in step.kwargs.items()})
        for name, value in zip(step.outs, [result] if step.single else result, strict=True):
            if name is not None:
                buffer = recipe.buffers[name]
                tensors[name] = torch.empty_strided(buffer.shape, buffer.strides, dtype=buffer.dtype).copy_(value)
    return tuple(resolve(o) for o in recipe.outputs)
