"""The reference interpreter: what a program means, executed slowly and with every access checked.

It evaluates each nest over its whole iteration space at once with torch's eager functions, so it shares nothing with the
code generators. It reports accesses out of bounds, reads of memory nothing has written, reads of what a kernel could have
overwritten by then, two stores to one element, and the first instruction that made a NaN out of operands without one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from inductor.ir.affine import Axis, Div, Index
from inductor.ir.dims import is_empty, number
from inductor.ir.expr import Expr, const_value
from inductor.ir.nest import Buffer, Extern, Nest, Program, Store, View
from inductor.ir.ops import OPS
from inductor.ir.text import print_instruction, print_nest
from inductor.ir.types import TYPES


class InterpError(RuntimeError):
    """A memory fault in a program; the message names the nest and the access."""


# Torch's loop of vectors says NaN of the smallest divisors, that of single elements (memory with gaps) what C says.
_ONE_BY_ONE = frozenset({"fmod", "remainder"})
OUTSIDE, RACE, UNWRITTEN = "out of bounds", "race", "never written"  # kinds of faults


@dataclass(frozen=True)
class Access:
    """A load or store of a nest. `is_atomic`: additions of several points are all counted; `is_scatter`: elements are computed."""

    what: str
    buffer: str
    index: Index
    is_atomic: bool = False
    is_scatter: bool = False

    def __str__(self) -> str:
        return f"{self.what} {self.buffer}[{self.index}]"


# torch has no indexing kernels for these
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


@dataclass
class Memory:
    """Flat storage of every buffer, and which elements have been written. `old` are inputs whose first content is gone."""

    device: str = "cpu"
    data: dict[str, torch.Tensor] = field(default_factory=dict)
    written: dict[str, torch.Tensor] = field(default_factory=dict)
    old: set[str] = field(default_factory=set)

    def add(self, buffer: Buffer, content: torch.Tensor | None) -> None:
        flat = torch.zeros(max(buffer.size, 1), dtype=buffer.dtype, device=self.device)
        written = torch.zeros(flat.numel(), dtype=torch.bool, device=self.device)
        # What an operator gives beside its result may be empty where nobody asked for it.
        if content is not None and buffer.size and tuple(content.shape) == tuple(map(number, buffer.shape)):
            # Elements may share memory (an expanded input) and leave gaps between them (every second column), which stay unwritten.
            places = torch.arange(flat.numel(), device=self.device).as_strided(buffer.shape, buffer.strides).reshape(-1)
            values, bits = content.detach().to(self.device).reshape(-1), _SIGNED.get(buffer.dtype)
            if bits is None:
                flat[places] = values
            else:
                flat.view(bits)[places] = values.view(bits)
            written[places] = True
        self.data[buffer.name] = flat
        self.written[buffer.name] = written

    def begin(self, program: Program, inputs: Sequence[torch.Tensor]) -> None:
        """Every buffer of the program, inputs and constants with what they hold."""
        content = dict(zip(program.inputs, inputs, strict=True)) | program.constants
        for buffer in program.buffers.values():
            self.add(buffer, content.get(buffer.name))

    def end(self, program: Program, inputs: Sequence[torch.Tensor]) -> list[Any]:
        """The outputs. Inputs that the program changes get what they hold now."""
        content = dict(zip(program.inputs, inputs, strict=True))
        outputs = [self.view(o) if isinstance(o, View) else o for o in program.outputs]
        for name in sorted(program.mutated):
            buffer = program.buffers[name]
            content[name].copy_(self.view(View(name, buffer.shape, buffer.strides, 0)))
        return outputs

    def view(self, view: View) -> torch.Tensor:
        return self.data[view.buffer].as_strided(view.shape, view.strides, view.offset)


@dataclass(frozen=True)
class NanOrigin:
    """The first instruction whose result has a NaN while its operands have none."""

    nest: str
    instruction: str
    origins: tuple[str, ...]


class NestRun:
    """One nest over all points: values are tensors of the full iteration shape (axes, then reduced axes).

    `fault` is told of every access that memory doesn't allow, and `accessed` of all; what is not allowed reads and writes nothing.
    `span` (axis, start, end) runs some iterations of one axis.
    """

    def __init__(self, nest: Nest, memory: Memory, report: Callable[[NanOrigin], None], span: tuple[Axis, int, int] | None = None) -> None:
        self.nest, self.memory, self.report, self.device = nest, memory, report, memory.device
        self.axes, self.span = nest.axes + nest.reduced, span
        self.shape = tuple(map(self.length, self.axes))
        self.ones = (1,) * len(self.axes)
        self.values: dict[tuple[Expr, int], torch.Tensor] = {}

    def length(self, axis: Axis) -> int:
        """Iterations that are run."""
        return self.span[2] - self.span[1] if self.span is not None and axis == self.span[0] else number(axis.extent)

    def first(self, axis: Axis) -> int:
        return self.span[1] if self.span is not None and axis == self.span[0] else 0

    def fault(self, access: Access, kind: str, what: str, at: torch.Tensor, wrong: torch.Tensor) -> None:
        """`wrong`: at which points, `at`: their elements, in one shape. Raises InterpError."""
        raise InterpError(f"{self.nest.name}: {access} {what}\n{print_nest(self.nest)}")

    def accessed(self, access: Access, at: torch.Tensor, live: torch.Tensor) -> None:
        """Elements `at` are touched at the points that are `live`."""

    def index(self, index: Index, indirect: Sequence[torch.Tensor]) -> torch.Tensor:
        total = torch.full(self.ones, index.const, dtype=torch.int64, device=self.device)
        for atom, coef in index.terms:
            if isinstance(atom, Axis):
                total = total + coef * self.axis(atom, indirect)
            else:
                inner = self.index(atom.of, indirect)
                total = total + coef * (inner.div(atom.by, rounding_mode="floor") if isinstance(atom, Div) else inner.remainder(atom.by))
        return total

    def axis(self, axis: Axis, indirect: Sequence[torch.Tensor]) -> torch.Tensor:
        if axis.name.startswith("$"):
            return indirect[int(axis.name[1:])]
        at = self.axes.index(axis)
        start = self.first(axis)
        places = torch.arange(start, start + self.length(axis), device=self.device)
        return places.view([-1 if i == at else 1 for i in range(len(self.axes))])

    def load(self, node: Expr, mask: torch.Tensor | None) -> torch.Tensor:
        name, index = node.attr
        at = self.index(index, [self.value(a, mask) for a in node.args])
        live = torch.ones_like(at, dtype=torch.bool) if mask is None else mask
        at, live = torch.broadcast_tensors(at, live)
        access = Access("load of", name, index)
        if name in self.memory.old:
            self.fault(access, RACE, "comes after it is overwritten", at, live)
        if bool(live.any()):
            self.check_own_stores(access, at, live)
            live = self.inside(access, at, live)
            self.accessed(access, at, live)
            unwritten = live & ~self.memory.written[name][torch.where(live, at, 0)]
            if bool(unwritten.any()):
                self.fault(access, UNWRITTEN, "reads elements that nothing has written", at, unwritten)
        return self.memory.data[name][torch.where(live, at, 0)]

    def inside(self, access: Access, at: torch.Tensor, live: torch.Tensor) -> torch.Tensor:
        """The live points at which the element is there."""
        size = self.memory.data[access.buffer].numel()
        outside = live & ((at < 0) | (at >= size))
        if not bool(outside.any()):
            return live
        low, high = int(at[live].min()), int(at[live].max())
        self.fault(access, OUTSIDE, f"reaches {low}..{high}, outside 0..{size - 1}", at, outside)
        return live & ~outside

    def check_own_stores(self, access: Access, at: torch.Tensor, live: torch.Tensor) -> None:
        """A kernel runs the points in any order: none may read an element that another one stores."""
        for store in self.nest.stores:
            if store.buffer == access.buffer and store.mode == "set" and not store.indirect:
                to, here = torch.broadcast_tensors(self.index(store.index, ()), at)
                wrong = (here != to) & live.expand(here.shape) & torch.isin(here, to.reshape(-1))
                if bool(wrong.any()):
                    self.fault(access, RACE, "reads elements that other points of the nest overwrite", here, wrong)

    def value(self, node: Expr, mask: torch.Tensor | None = None) -> torch.Tensor:
        key = (node, 0 if mask is None else id(mask))
        if key not in self.values:
            self.values[key] = self.compute(node, mask)
        return self.values[key]

    def compute(self, node: Expr, mask: torch.Tensor | None) -> torch.Tensor:
        dtype = TYPES[node.type].torch
        if node.op == "const":
            value = const_value(node)
            assert value is not None
            return torch.full(self.ones, value, dtype=dtype, device=self.device)
        if node.op == "index":
            return self.index(node.attr, ())
        if node.op == "load":
            return self.load(node, mask)
        if node.op == "masked":
            condition = self.value(node.args[0], mask)
            inner = condition if mask is None else condition & mask
            return torch.where(condition, self.value(node.args[1], inner), self.value(node.args[2], mask))
        if node.op == "reduce" and any(is_empty(a.extent) for a in node.attr[1]):
            # no point is met, so nothing may be said of what its loads find
            mask = torch.zeros(self.ones, dtype=torch.bool, device=self.device)
        args = [self.value(a, mask) for a in node.args]
        if node.op == "check":
            return self.check(args[0], number(node.attr), mask)
        if node.op == "cast":
            result = args[0].to(dtype)
        elif node.op == "reduce":
            result = self.reduce(node, args[0])
        elif node.op == "scan":
            at = self.axes.index(node.attr[1])
            result = (torch.cumsum if node.attr[0] == "sum" else torch.cumprod)(args[0].expand(self.shape), at).to(dtype)
        else:
            given = [torch.stack([a, a], -1)[..., 0] for a in args] if node.op in _ONE_BY_ONE else args
            result = OPS[node.op].interpret(*given).to(dtype)
        self.check_nan(node, args, result)
        return result

    def check(self, value: torch.Tensor, size: int, mask: torch.Tensor | None) -> torch.Tensor:
        outside = (value < 0) | (value >= size)
        if mask is not None:
            outside, value = torch.broadcast_tensors(outside & mask, value)
        if bool(outside.any()):
            raise IndexError(f"{self.nest.name}: index {int(value[outside][0])} is out of bounds for a dimension of size {size}")
        return torch.where((value < 0) | (value >= size), 0, value)

    def check_nan(self, node: Expr, args: list[torch.Tensor], result: torch.Tensor) -> None:
        if not result.is_floating_point() or not bool(result.isnan().any()):
            return
        if any(a.is_floating_point() and bool(a.isnan().any()) for a in args):
            return
        names = {e: f"%{i}" for i, e in enumerate(self.nest.exprs())}
        self.report(NanOrigin(self.nest.name, print_instruction(node, names), tuple(map(str, self.nest.origins))))

    def reduce(self, node: Expr, value: torch.Tensor) -> torch.Tensor:
        kind, axes, output = node.attr
        dims = [self.axes.index(a) for a in axes]
        kept = [i for i in range(len(self.axes)) if i not in dims]
        flat = (
            value.expand(self.shape).permute(kept + dims).reshape([self.shape[i] for i in kept] + [math.prod(self.shape[i] for i in dims)])
        )
        reduced = _REDUCE[kind, output](flat).to(TYPES[node.type].torch)
        return reduced.reshape([self.shape[i] if i in kept else 1 for i in range(len(self.axes))])

    def run(self) -> None:
        """Every value is computed before any is stored."""
        if not any(is_empty(a.extent) for a in self.nest.axes):
            for root in (root for store in self.nest.stores for root in store.roots()):
                self.value(root)
            for store in self.nest.stores:
                self.store(store)

    def store(self, store: Store) -> None:
        points = [self.length(a) for a in self.nest.axes] + [1] * len(self.nest.reduced)
        value = self.value(store.value)
        at = self.index(store.index, [self.value(e) for e in store.indirect])
        at = at.expand(points)
        access = Access("store to", store.buffer, store.index, store.mode == "add", bool(store.indirect))
        live = self.inside(access, at, torch.ones_like(at, dtype=torch.bool))
        self.accessed(access, at, live)
        if store.mode == "set" and not store.indirect:
            several = self.meeting(at, live)
            if bool(several.any()):
                self.fault(access, RACE, "meets one element at two points", at, several)
        data, found, value = self.memory.data[store.buffer], at[live], value.expand(points)[live]
        if store.mode == "add":
            data.index_put_((found,), value, accumulate=True)
        else:
            data[found] = value.clone()  # it may be a load of the same buffer
        self.memory.written[store.buffer][found] = True

    def meeting(self, at: torch.Tensor, live: torch.Tensor) -> torch.Tensor:
        """The live points that share their element with another one."""
        _, place, count = at[live].unique(return_inverse=True, return_counts=True)
        return torch.zeros_like(live).masked_scatter(live, count[place] > 1)


def _online_sum(flat: torch.Tensor) -> torch.Tensor:
    return (flat - flat.amax(-1, keepdim=True)).exp().sum(-1)


_REDUCE: dict[tuple[str, int], Callable[[torch.Tensor], torch.Tensor]] = {
    ("sum", 0): lambda t: t.sum(-1),
    ("prod", 0): lambda t: t.prod(-1),
    ("max", 0): lambda t: t.amax(-1),
    ("min", 0): lambda t: t.amin(-1),
    ("any", 0): lambda t: t.any(-1),
    ("all", 0): lambda t: t.all(-1),
    ("argmax", 0): lambda t: t.argmax(-1),
    ("argmin", 0): lambda t: t.argmin(-1),
    ("welford", 0): lambda t: t.mean(-1),
    ("welford", 1): lambda t: (t - t.mean(-1, keepdim=True)).square().sum(-1),
    ("online_softmax", 0): lambda t: t.amax(-1),
    ("online_softmax", 1): _online_sum,
}


def run(program: Program, inputs: Sequence[torch.Tensor]) -> tuple[list[Any], NanOrigin | None]:
    """Execute a program, its writes to inputs too. Returns the outputs and where the first NaN came from (None: nothing made one)."""
    memory = Memory(program.device)
    found: list[NanOrigin] = []
    memory.begin(program, inputs)
    for step in program.steps:
        if isinstance(step, Extern):
            run_extern(step, program, memory)
            continue
        for nest in (step,) if isinstance(step, Nest) else step.unrolled():
            NestRun(nest, memory, found.append).run()
            memory.old |= nest.writes() & program.mutated
    return memory.end(program, inputs), (found[0] if found else None)


def run_extern(step: Extern, program: Program, memory: Memory) -> None:
    def resolve(tree: Any) -> Any:
        if isinstance(tree, View):
            return memory.view(tree)
        if isinstance(tree, (list, tuple)):
            return type(tree)(resolve(t) for t in tree)
        return tree

    result = step.target(*resolve(step.args), **{k: resolve(v) for k, v in step.kwargs.items()})
    for name, value in zip(step.outs, [result] if step.single else result, strict=True):
        if name is not None:
            memory.add(program.buffers[name], value)
