"""Nests as ATen calls: what a kernel must compute, in a form that runs on any device.

It is the reference that the kernel's own script compares with, and what runs where there is no Triton form or Triton refuses it.
Buffers are flat tensors; every value is a tensor over the loops of its nest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from inductor.ir.affine import Axis, Div, Index
from inductor.ir.dims import is_empty
from inductor.ir.expr import Expr, const_value
from inductor.ir.nest import Buffer, Nest, Store
from inductor.ir.ops import OPS
from inductor.ir.tasks import Task, each, run
from inductor.ir.types import TYPES
from inductor.targets.triton.comments import origin_line

REDUCE = {
    ("sum", 0): "{0}.sum(-1, dtype={0}.dtype)",
    ("prod", 0): "{0}.prod(-1, dtype={0}.dtype)",
    ("max", 0): "{0}.amax(-1)",
    ("min", 0): "{0}.amin(-1)",
    ("any", 0): "{0}.any(-1)",
    ("all", 0): "{0}.all(-1)",
    ("argmax", 0): "{0}.argmax(-1)",
    ("argmin", 0): "{0}.argmin(-1)",
    ("welford", 0): "{0}.mean(-1)",
    ("welford", 1): "({0} - {0}.mean(-1, keepdim=True)).square().sum(-1)",
    ("online_softmax", 0): "{0}.amax(-1)",
    ("online_softmax", 1): "({0} - {0}.amax(-1, keepdim=True)).exp().sum(-1)",
}


def reference_lines(
    members: Sequence[Nest],
    names: Mapping[str, str],
    parameters: Sequence[str],
    buffers: Mapping[str, Buffer],
    lengths: Mapping[Axis, str] | None = None,
) -> list[str]:
    """The function `reference` over flat tensors. `lengths` names loops whose length is a parameter."""
    lines = [f"def reference({', '.join(parameters)}):", f"    device = {parameters[0]}.device"]
    used = dict.fromkeys(b for nest in members for b in (*sorted(nest.reads()), *sorted(nest.writes())))
    private = {b: f"tmp{k}" for k, b in enumerate(b for b in used if b not in names)}
    for b, name in private.items():
        lines.append(f"    {name} = torch.empty({max(buffers[b].size, 1)}, dtype={buffers[b].dtype}, device=device)")
    names = {**names, **private}
    for nest in members:
        if nest.points or not any(is_empty(a.extent) for a in nest.axes):
            lines += [f"    {line}" for line in NestText(nest, names, lengths or {}).run()]
    return lines


class NestText:
    """One nest: its axes, values in order, then its stores."""

    def __init__(self, nest: Nest, names: Mapping[str, str], lengths: Mapping[Axis, str]) -> None:
        self.nest, self.names = nest, names
        self.axes = nest.axes + nest.reduced
        self.shape = tuple(a.extent for a in self.axes)
        self.lengths = lengths
        self.at = {a: f"i{k}" for k, a in enumerate(self.axes)}
        self.lines: list[str] = []
        self.known: dict[tuple[Expr, str], str] = {}

    def run(self) -> list[str]:
        text = origin_line(self.nest.origins)
        self.lines += [f"# {text}"] if text else []
        for k, axis in enumerate(self.axes):
            view = ", ".join("-1" if i == k else "1" for i in range(len(self.axes)))
            self.lines.append(f"i{k} = torch.arange({self.lengths.get(axis, axis.extent)}, device=device).view({view})")
        for store in self.nest.stores:
            for root in store.roots():
                self.value(root, "")
        for store in self.nest.stores:
            self.store(store)
        return self.lines

    def let(self, text: str) -> str:
        name = f"v{len(self.known)}_{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def index(self, index: Index, indirect: Sequence[str] = ()) -> str:
        parts = []
        for atom, coef in index.terms:
            if isinstance(atom, Axis):
                text = indirect[int(atom.name[1:])] if atom.name.startswith("$") else self.at[atom]
            else:
                text = f"(({self.index(atom.of, indirect)}) {'//' if isinstance(atom, Div) else '%'} {atom.by})"
            parts.append(text if coef == 1 else f"{text} * {coef}")
        if index.const or not parts:
            parts.append(str(index.const))
        return " + ".join(parts)

    def scalar(self, text: str, type_name: str) -> str:
        return f"torch.full({(1,) * len(self.axes)}, {text}, dtype={TYPES[type_name].torch}, device=device)"

    def value(self, node: Expr, mask: str) -> str:
        return run(self.valued(node, mask))

    def valued(self, node: Expr, mask: str) -> Task[str]:
        key = (node, mask)
        if key not in self.known:
            self.known[key] = yield self.compute(node, mask)
        return self.known[key]

    def compute(self, node: Expr, mask: str) -> Task[str]:
        dtype = TYPES[node.type].torch
        if node.op == "const":
            number = const_value(node)
            assert number is not None
            return self.let(self.scalar(repr(number) if math.isfinite(number) else f'float("{number}")', node.type))
        if node.op == "index":
            return self.let(self.index(node.attr))
        if node.op == "load":
            return (yield self.load(node, mask))
        if node.op == "masked":
            condition = yield self.valued(node.args[0], mask)
            inner = self.let(f"{condition} & {mask}") if mask else condition
            body = yield self.valued(node.args[1], inner)
            return self.let(f"torch.where({condition}, {body}, {(yield self.valued(node.args[2], mask))})")
        args = yield each(self.valued(a, mask) for a in node.args)
        if node.op == "check":
            outside = self.let(f"({args[0]} < 0) | ({args[0]} >= {node.attr})")
            self.lines.append(f"bad |= ({outside}{f' & {mask}' if mask else ''}).any().to(bad.device)")
            return self.let(f"torch.where({outside}, 0, {args[0]})")
        if node.op == "cast":
            return self.let(f"{args[0]}.to({dtype})")
        if node.op == "reduce":
            return self.reduce(node, args[0])
        if node.op == "scan":
            at = self.axes.index(node.attr[1])
            name = "cumsum" if node.attr[0] == "sum" else "cumprod"
            return self.let(f"torch.{name}({args[0]}.expand({self.shape}), {at}, dtype={dtype})")
        if node.op == "fma":
            return self.let(f"({args[0]}.double() * {args[1]}.double() + {args[2]}.double()).to({dtype})")
        if node.op == "philox":
            self.lines.append("from inductor.ir.philox import philox")
            return self.let(f"philox({', '.join(args)})")
        return self.let(f"torch.{OPS[node.op].torch.__name__}({', '.join(args)})")

    def load(self, node: Expr, mask: str) -> Task[str]:
        buffer, index = node.attr
        where = self.index(index, (yield each(self.valued(a, mask) for a in node.args)))
        if not re.search(r"[iv]\d", where):
            where = f"torch.full({(1,) * len(self.axes)}, {where}, device=device)"
        if mask:
            where = f"torch.where({mask}, {where}, 0)"
        return self.let(f"{self.names[buffer]}[{where}]")

    def reduce(self, node: Expr, value: str) -> str:
        kind, axes, output = node.attr
        dims = [self.axes.index(a) for a in axes]
        kept = [i for i in range(len(self.axes)) if i not in dims]
        length = 1
        for d in dims:
            length *= self.shape[d]
        flat = self.let(f"{value}.expand({self.shape}).permute({kept + dims}).reshape({[self.shape[i] for i in kept] + [length]})")
        shape = [self.shape[i] if i in kept else 1 for i in range(len(self.axes))]
        return self.let(f"{REDUCE[kind, output].format(flat)}.to({TYPES[node.type].torch}).reshape({shape})")

    def store(self, store: Store) -> None:
        sizes = [str(self.lengths.get(a, a.extent)) for a in self.nest.axes] + ["1"] * len(self.nest.reduced)
        points = f"({''.join(f'{s}, ' for s in sizes)})"
        where = self.index(store.index, [self.value(e, "") for e in store.indirect])
        at = self.let(f"({where} + torch.zeros({points}, dtype=torch.int64, device=device)).reshape(-1)")
        value = self.let(f"{self.value(store.value, '')}.expand({points}).reshape(-1)")
        accumulate = ", accumulate=True" if store.mode == "add" else ""
        self.lines.append(f"{self.names[store.buffer]}.index_put_(({at},), {value}{accumulate})")
