"""Foreach operators: a chain over lists of tensors becomes one batch, whose code is that of one row.

The walker hands foreach nodes over as it meets them; nothing is lowered until another node needs a result or the graph ends.
Then the rows (position k of every list) are sorted into classes that compute alike, each class is lowered once with its
largest row as the example, and all rows of a class run the same kernel. A chain that doesn't fit (an operator without a
pointwise row, shapes that broadcast, rows that read what others write) is given back to be lowered call by call.

Results without dims are computed in float64 and rounded where they are stored: they are bias corrections and step sizes,
which eager's optimizers compute as Python floats.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from dynamo.decisions import decide
from dynamo.ops.facts import known_facts, overload
from inductor.ir import types
from inductor.ir.affine import ZERO, Axis, Index, of_atom
from inductor.ir.dims import Dim, Shape, contiguous_strides, is_dense, numel
from inductor.ir.expr import Expr, cast, const, kept, load, moved, rewrite, widen
from inductor.ir.nest import Batch, Nest, Origin, Store
from inductor.lowering.context import Context, Decline, loop_axes, to_storage
from inductor.lowering.contract import contract
from inductor.lowering.registry import ROWS
from inductor.lowering.tensor import Tensor, of_strides

EXAMPLE = 64  # elements of a row while its expressions are made; the loop gets its real extent afterwards
LOOP = Axis("i0", EXAMPLE)

# overload of a foreach operator -> overloads its pointwise operator may have, the first with a row is taken
_OVERLOADS = {
    "default": "default",
    "Scalar": "Scalar Tensor_Scalar Tensor default",
    "ScalarList": "Scalar Tensor_Scalar Tensor default",
    "List": "Tensor Tensor_Tensor default",
    "Tensor": "Tensor Tensor_Tensor default",
    "ScalarAndTensor": "Scalar",
}
_VALUE_LAST = ("addcmul", "addcdiv")  # whose fourth argument is a keyword of the pointwise operator
_SHARED = {("addcmul", "Tensor"), ("addcdiv", "Tensor")}  # one tensor that holds a number for every row


def pointwise(target: Any) -> Any:
    """The row that lowers one item of a foreach operator, or None."""
    facts = known_facts(target)
    if facts is None or not facts.base.startswith("_foreach_") or facts.writes or target.namespace != "aten":
        return None
    name, kind = facts.base.removeprefix("_foreach_"), target._overloadname
    if (name, kind) in _SHARED:
        return None
    if name in ("copy", "zero"):
        return name
    for candidate in _OVERLOADS.get(kind, "").split():
        row = ROWS.get(overload(f"{name}.{candidate}"))
        if row is not None and row.kind == "native":
            return row
    return None


@dataclass
class Chain:
    """Foreach nodes that wait, the nodes of their single results, and the writes of those into inputs."""

    calls: list[Node] = field(default_factory=list)
    items: dict[Node, tuple[Node, int]] = field(default_factory=dict)
    copies: dict[Node, Node] = field(default_factory=dict)  # copy_ node -> item
    origins: dict[Node, Origin] = field(default_factory=dict)

    def takes(self, node: Node) -> bool:
        """Add a node to the chain, if it belongs there."""
        if node.target is operator.getitem and node.args[0] in self.calls:
            self.items[node] = (node.args[0], node.args[1])  # type: ignore[assignment]  # an item of a call
            return True
        if node.target is torch.ops.aten.copy_.default and node.args[1] in self.items:
            self.copies[node] = node.args[1]  # type: ignore[assignment]  # a node, as it is in `items`
            return True
        if pointwise(node.target) is None or not node.meta["val"] or (self.calls and len(node.meta["val"]) != self.length):
            return False
        self.calls.append(node)
        return True

    @property
    def length(self) -> int:
        return len(self.calls[0].meta["val"])

    def reaches(self, node: Node) -> bool:
        """Does the node need a result of the chain, overwrite an input that the chain reads, or end the graph?"""
        if node.op == "output":
            return True
        if node.target is torch.ops.aten.copy_.default and any(node.args[0] in c.all_input_nodes for c in self.calls):
            return True
        return any(n in self.items or n in self.calls for n in node.all_input_nodes)

    def nodes(self) -> Iterator[Node]:
        yield from sorted((*self.calls, *self.items, *self.copies))


class Lane(Context):
    """Lowers the calls of one row. No nests are made: every result stays an expression over what the row reads."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, Expr] = {}
        self.known: dict[Expr, Expr] = {}

    def value(self, value: Expr, shape: Shape, dtype: torch.dtype) -> Tensor:
        """A tensor whose elements are an expression."""
        name = self.fresh("v")
        self.values[name] = value
        return of_strides(name, shape, contiguous_strides(shape), dtype)

    def fill(self, out: Tensor, body: Callable[[tuple[Index, ...]], Expr], mode: str = "set") -> None:
        _, where = loop_axes(out)
        self.values[out.buffer] = self.resolved(contract(to_storage(body(where), out.type)))

    def resolved(self, node: Expr) -> Expr:
        return rewrite((node,), self._resolve, self.known)[0]

    def _resolve(self, node: Expr, args: tuple[Expr, ...]) -> Expr:
        value = self.values.get(node.attr[0]) if node.op == "load" else None
        return kept(node, args) if value is None else value


@dataclass
class Row:
    """One position of all lists: what it reads, what it writes, and a key that is equal for rows that compute alike."""

    number: int
    reads: dict[Node, Tensor | Expr]  # tensors without dims, tensors in the row's layout, or constants
    shape: Shape
    strides: Shape
    key: Hashable = None
    buffers: list[str] = field(default_factory=list)  # each once, in an order that is the same for rows of one class
    writes: list[tuple[Node, str]] = field(default_factory=list)  # call, and a buffer its item goes to


def dims(meta: Any) -> int:
    return int(meta.dim())


def wide(dtype: torch.dtype, ndim: int) -> torch.dtype:
    return torch.float64 if ndim == 0 and dtype is torch.float32 else dtype


class Batcher:
    """Lowers one chain. `env` gives the tensors of nodes outside of it; Decline leaves the program as it was."""

    def __init__(self, chain: Chain, ctx: Context, env: dict[Node, Any]) -> None:
        self.chain, self.ctx, self.env = chain, ctx, env
        self.constants = constant_buffers(ctx)
        self.nodes_of: dict[tuple[Node, int], list[Node]] = {}  # an item may have several nodes, where outputs show it twice
        for node, where in chain.items.items():
            self.nodes_of.setdefault(where, []).append(node)
        self.targets_of: dict[Node, list[Any]] = {}
        for copy, item in chain.copies.items():
            self.targets_of.setdefault(item, []).append(copy.args[0])
        inside = {*chain.calls, *chain.copies}
        self.shown = {item for item in chain.items if not inside.issuperset(item.users)}

    def run(self) -> None:
        if any(user not in self.chain.items for call in self.chain.calls for user in call.users):
            raise Decline
        if not decide("lower", f"batch {len(self.chain.calls)} foreach calls from {self.chain.calls[0].name}"):
            raise Decline
        rows = [self.row(k) for k in range(self.chain.length)]
        self.check_independent(rows)
        for row in rows:
            self.find_writes(row)
        classes: dict[Hashable, list[Row]] = {}
        for row in rows:
            classes.setdefault(row.key, []).append(row)
        steps = [step for members in classes.values() for step in self.lower(members)]
        # What has no dims is read by the other kernels of its row, so it is overwritten after them.
        steps.sort(key=lambda step: not step.nest.axes)
        self.ctx.program.steps += steps

    # ---- rows ----

    def arguments(self, call: Node, number: int) -> list[Any]:
        """The call's arguments in one row; results of other calls as (call, number)."""
        found = [a[number] if isinstance(a, (list, tuple)) else a for a in call.args]
        return [self.chain.items.get(a, a) if isinstance(a, Node) else a for a in found]

    def row(self, number: int) -> Row:
        found: dict[Node, Any] = {}
        for call in self.chain.calls:
            for argument in self.arguments(call, number):
                if isinstance(argument, Node):
                    found[argument] = self.env[argument]
                elif isinstance(argument, tuple) and argument[1] != number:
                    raise Decline
        layouts = [self.env[t] for t in self.targets(number)] + list(found.values())
        layout = next((t.view() for t in layouts if t.ndim and t.view() is not None), None)
        shape, strides = (layout.shape, layout.strides) if layout is not None else ((), ())
        if not is_dense(shape, strides):
            strides = contiguous_strides(shape)
        row = Row(number, {}, shape, strides)
        for node, tensor in found.items():
            row.reads[node] = self.read(tensor, row)
        return row

    def targets(self, number: int) -> list[Any]:
        items = [node for call in self.chain.calls for node in self.nodes_of.get((call, number), ())]
        return [target for item in items for target in self.targets_of.get(item, ())]

    def read(self, tensor: Tensor, row: Row) -> Tensor | Expr:
        """The tensor as the row's loop can read it: a constant, one element, or memory in the row's layout."""
        if not types.known(tensor.dtype) or (tensor.ndim and tensor.shape != row.shape):
            raise Decline
        if tensor.buffer in self.constants:
            return self.constants[tensor.buffer]
        view = tensor.view()
        strides = row.strides if tensor.ndim else ()
        if view is None or view.offset or view.strides != strides:
            return self.ctx.make(tensor.shape, tensor.dtype, tensor.load, strides or contiguous_strides(tensor.shape))
        return tensor

    def check_independent(self, rows: Sequence[Row]) -> None:
        """No row reads or writes what another row writes, and each buffer is written once and whole."""
        owner: dict[str, int] = {}
        for row in rows:
            for node in self.targets(row.number):
                target = self.env[node]
                buffer = self.ctx.program.buffers[target.buffer]
                whole = target == of_strides(buffer.name, buffer.shape, buffer.strides, buffer.dtype)
                is_alike = not target.ndim or (target.shape, buffer.strides) == (row.shape, row.strides)
                if target.buffer in owner or not whole or not is_alike or not types.known(target.dtype):
                    raise Decline
                owner[target.buffer] = row.number
        for row in rows:
            for read in row.reads.values():
                if isinstance(read, Tensor) and owner.get(read.buffer, row.number) != row.number:
                    raise Decline
        for copy in self.chain.copies:
            placeholder = copy.args[0]
            assert isinstance(placeholder, Node)
            if placeholder.op != "placeholder" or any(u > copy and u.op != "output" for n in (placeholder, copy) for u in n.users):
                raise Decline

    def find_writes(self, row: Row) -> None:
        """Decide where every result goes, and fill the row's key."""
        numbers: dict[str, int] = {}
        key: list[Hashable] = []
        for read in row.reads.values():
            if isinstance(read, Tensor):
                key.append((read.type, read.ndim == 0, numbers.setdefault(read.buffer, len(numbers))))
            else:
                key.append(read)
        for call in self.chain.calls:
            key.append(tuple(repr(a) for a in self.arguments(call, row.number) if not isinstance(a, (Node, tuple))))
            meta = call.meta["val"][row.number]
            if not types.known(meta.dtype) or (dims(meta) and tuple(meta.shape) != row.shape):
                raise Decline
            nodes = self.nodes_of.get((call, row.number), [])
            names = [self.env[t].buffer for node in nodes for t in self.targets_of.get(node, ()) if self.fits(t, meta)]
            shown = [node for node in nodes if node in self.shown]
            for node in shown:
                self.env[node] = self.ctx.buffer(row.shape, meta.dtype, row.strides) if dims(meta) else self.ctx.buffer((), meta.dtype, ())
                names.append(self.env[node].buffer)
            for name in names:
                row.writes.append((call, name))
                key.append((numbers.setdefault(name, len(numbers)), types.of_torch(self.ctx.program.buffers[name].dtype)))
            key.append(len(shown))
        row.buffers = list(numbers)
        row.key = tuple(key)

    def fits(self, target: Any, meta: Any) -> bool:
        if self.env[target].ndim != dims(meta):
            raise Decline
        self.ctx.program.mutated.add(self.env[target].buffer)
        return True

    # ---- classes ----

    def lower(self, rows: Sequence[Row]) -> Iterator[Batch]:
        """One batch for results that have dims and one for those that have none; both use the largest row as example."""
        rows = sorted(rows, key=lambda r: -numel(r.shape))
        example = rows[0]
        lane = Lane()
        results = self.results(lane, example)
        for ndim in (1, 0):
            stores = [
                self.store(lane, name, results[call], numel(example.shape))
                for call, name in example.writes
                if min(results[call].ndim, 1) == ndim
            ]
            if stores:
                yield self.batch(example, rows, stores, ndim)

    def batch(self, example: Row, rows: Sequence[Row], stores: Sequence[Store], ndim: int) -> Batch:
        origins = tuple(dict.fromkeys(self.chain.origins.values()))
        axes = (Axis(LOOP.name, numel(example.shape)),) if ndim else ()
        nest = Nest(self.ctx.fresh("n"), axes, tuple(stores), origins)
        used = nest.reads() | nest.writes()
        positions = [k for k, name in enumerate(example.buffers) if name in used]
        extents: tuple[Dim, ...] = tuple(numel(row.shape) if ndim else 1 for row in rows)
        return Batch(nest, tuple(tuple(row.buffers[k] for k in positions) for row in rows), extents)

    def store(self, lane: Lane, name: str, result: Tensor, extent: Dim) -> Store:
        """The store of one result of the example, its loop as long as the example is."""
        wanted = types.of_torch(self.ctx.program.buffers[name].dtype)
        value = to_storage(cast(widen(lane.values[result.buffer]), types.compute(wanted)), wanted)
        loop = of_atom(Axis(LOOP.name, extent))
        return Store(name, loop if result.ndim else ZERO, rewrite((value,), moved({LOOP: loop}))[0])

    def results(self, lane: Lane, row: Row) -> dict[Node, Tensor]:
        """Every call of the chain, lowered for one row."""
        known: dict[Any, Tensor] = {node: self.operand(lane, node, read) for node, read in row.reads.items()}
        results: dict[Node, Tensor] = {}
        for call in self.chain.calls:
            arguments = [known.get(a, a) for a in self.arguments(call, row.number)]
            meta = call.meta["val"][row.number]
            dtype, shape = wide(meta.dtype, dims(meta)), (EXAMPLE,) if dims(meta) else ()
            lane.meta = torch.empty(shape, dtype=dtype, device="meta")
            out = self.apply(lane, call, arguments)
            if out.dtype is not dtype or out.shape != shape:
                raise Decline
            results[call] = known[call, row.number] = out
        return results

    def operand(self, lane: Lane, node: Node, read: Tensor | Expr) -> Tensor:
        meta = node.meta["val"]
        ndim, dtype = dims(meta), wide(meta.dtype, dims(meta))
        shape: Shape = (EXAMPLE,) if ndim else ()
        if isinstance(read, Tensor):
            index = of_atom(LOOP) if ndim else ZERO
            value = load(read.buffer, read.type, index)
        else:
            value = read
        if dtype is not meta.dtype:
            value = cast(widen(value), types.of_torch(dtype))
        return lane.value(value, shape, dtype)

    def apply(self, lane: Lane, call: Node, arguments: list[Any]) -> Tensor:
        row = pointwise(call.target)
        if row == "copy":
            return lane.map(lambda e: e, arguments[1:2], lane.meta.dtype)
        if row == "zero":
            return lane.map(lambda e: const(0, e.type), arguments[:1], lane.meta.dtype)
        kwargs = dict(call.kwargs)
        name = call.target._schema.name.removeprefix("aten::_foreach_")  # type: ignore[union-attr]  # has a row, so it is an operator
        if name in _VALUE_LAST and len(arguments) > 3:
            kwargs["value"] = arguments.pop()
        out: Tensor = row.lower(lane, *arguments, **kwargs)
        return out


def constant_buffers(ctx: Context) -> dict[str, Expr]:
    """Temporaries filled with one constant, such as an optimizer's state in its first step."""
    found: dict[str, Expr] = {}
    for step in ctx.program.steps:
        if isinstance(step, Nest) and len(step.stores) == 1 and step.has_plain_stores:
            value = step.stores[0].value
            if value.op == "const" or (value.op == "cast" and value.args[0].op == "const"):
                found[step.stores[0].buffer] = value
    return found
