"""Walk an ATen FX graph and lower every node: a row of the table, or an extern call for everything else."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_map

from dynamo.aot.facts import attribute
from dynamo.faults import through
from dynamo.ops.facts import known_facts
from inductor.errors import Unsupported
from inductor.ir import types
from inductor.ir.affine import ZERO
from inductor.ir.dims import as_shape, is_dense, no_elements
from inductor.ir.expr import cast, const
from inductor.ir.nest import Buffer, Origin, Program, View
from inductor.ir.overwrites import Memory, put_writes_last
from inductor.lowering import attention, families
from inductor.lowering.context import Context, Decline
from inductor.lowering.elsewhere import Elsewhere, check_devices
from inductor.lowering.foreach import Batcher, Chain, pointwise
from inductor.lowering.registry import ROWS, Lower, Row
from inductor.lowering.tensor import Tensor, of_strides

families.load()
COPY_INTO = torch.ops.aten.copy_.default


def origin_of(node: Node) -> Origin:
    """The user line recorded in `meta["source"]`: an object with file and line, or a (file, line, ...) tuple."""
    source = node.meta.get("source")
    name = str(node.target).removeprefix("aten.").removeprefix("dynamo_regions.") if node.op == "call_function" else node.op
    is_backward = node.meta.get("phase") == "backward"
    if source is None:
        return Origin(name, is_backward=is_backward)
    if isinstance(source, tuple):
        return Origin(name, str(source[0]), int(source[1]), is_backward)
    return Origin(name, str(source.file), int(source.line), is_backward)


class Walker:
    """Lowers node by node; `env` maps FX nodes to Tensors, tuples of them, or plain values."""

    def __init__(self, gm: GraphModule, device: str, *, draws: bool) -> None:
        self.gm = gm
        self.ctx = Context(device)
        self.ctx.draws = draws
        self.env: dict[Node, Any] = {}
        self.how: dict[str, str] = {}
        self.chain = Chain()
        self.elsewhere = Elsewhere(self.ctx) if device != "cpu" else None

    def run(self) -> Program:
        for node in self.gm.graph.nodes:
            if node.op == "call_function" and self.chain.takes(node):
                self.chain.origins[node] = origin_of(node)
                continue
            if self.chain.calls and (self.chain.reaches(node) or pointwise(node.target) is not None):
                self.finish_chain()
                if self.chain.takes(node):
                    self.chain.origins[node] = origin_of(node)
                    continue
            self.step(node)
        if self.elsewhere is not None:
            check_devices(self.ctx.program)
        return self.ctx.program

    def step(self, node: Node) -> None:
        handlers = {"placeholder": self.placeholder, "get_attr": self.get_attr, "call_function": self.call, "output": self.output}
        self.ctx.origins, self.ctx.begin = (origin_of(node),), begin_of(node)
        self.ctx.meta = node.meta.get("val")
        handlers[node.op](node)

    def finish_chain(self) -> None:
        """Lower the foreach calls that wait: as one batch, or one by one where they don't fit."""
        chain, self.chain = self.chain, Chain()
        mark = len(self.ctx.program.steps)
        try:
            Batcher(chain, self.ctx, self.env).run()
        except Decline:
            del self.ctx.program.steps[mark:]
            self.ctx.materialised.clear()
            for node in chain.nodes():
                self.step(node)
            return
        self.how.update({call.name: "native" for call in chain.calls})
        for copy in chain.copies:
            self.env[copy] = self.resolve(copy.args[0])

    def leaf(self, name: str, kind: str, meta: Any) -> Tensor:
        shape, strides = as_shape(meta.shape), as_shape(meta.stride())
        self.ctx.program.buffers[name] = Buffer(name, meta.dtype, shape, strides, kind, str(meta.device))
        return of_strides(name, shape, strides, meta.dtype)

    def placeholder(self, node: Node) -> None:
        meta = node.meta.get("val")
        name = f"a{len(self.ctx.program.inputs)}"
        self.ctx.program.inputs.append(name)
        if isinstance(meta, torch.Tensor):
            self.env[node] = self.leaf(name, "input", meta)
        else:
            self.ctx.program.buffers[name] = Buffer(name, torch.float32, (), (), "object")
            self.env[node] = meta

    def get_attr(self, node: Node) -> None:
        value = attribute(self.gm, str(node.target))
        if isinstance(value, torch.Tensor):
            name = f"c{len(self.ctx.program.constants)}"
            self.ctx.program.constants[name] = value.detach()
            self.env[node] = self.leaf(name, "const", value)
        else:
            self.env[node] = value

    def resolve(self, tree: Any) -> Any:
        if isinstance(tree, Node):
            return self.env[tree]
        if isinstance(tree, (list, tuple)):
            return type(tree)(self.resolve(t) for t in tree) if type(tree) in (list, tuple) else [self.resolve(t) for t in tree]
        if isinstance(tree, dict):
            return {k: self.resolve(v) for k, v in tree.items()}
        return tree

    def call(self, node: Node) -> None:
        args, kwargs = self.resolve(node.args), self.resolve(node.kwargs)
        if node.target is operator.getitem:
            self.env[node] = args[0][args[1]]
            return
        if node.target is COPY_INTO:
            self.env[node] = self.copy_into(node, *args)
            return
        self.check_supported(node)
        if node.target in attention.OPERATORS:
            self.how[node.name] = "extern"
            given = self.elsewhere.bring(args) if self.elsewhere is not None else args
            self.env[node] = attention.attention(self.ctx, node.target, given, self.inner)
            return
        planted: Lower | None = through("lower", None, node)
        if self.tried(node, planted, args, kwargs):
            self.how[node.name] = "extern"
            return
        row = ROWS.get(node.target)
        if self.elsewhere is not None:
            if not self.elsewhere.is_left_to_aten(node, metas_of(self.ctx.meta)):
                args, kwargs = self.elsewhere.bring(args), self.elsewhere.bring(kwargs)
            elif row is not None and row.kind != "view":
                row = None
        if row is not None and supported(row, (args, kwargs), self.ctx.meta) and (row.any_dtype or not reads_marked(node)):
            for attempt in (row.lower, as_vectors(row, args), nothing_to_compute):
                if self.tried(node, attempt, args, kwargs):
                    self.how[node.name] = row.kind
                    return
        self.how[node.name] = "extern"
        self.env[node] = self.ctx.extern(node.target, args, kwargs, self.ctx.meta)

    def inner(self, gm: GraphModule) -> Program:
        """The program of a graph that an operator of this one holds."""
        return Walker(gm, self.ctx.program.device, draws=False).run()

    def tried(self, node: Node, attempt: Lower | None, args: Any, kwargs: Any) -> bool:
        """Lower a node in one way; False, with nothing left behind, when that way declines."""
        if attempt is None:
            return False
        mark = len(self.ctx.program.steps)
        try:
            self.env[node] = attempt(self.ctx, *args, **kwargs)
        except Decline:
            del self.ctx.program.steps[mark:]
            self.ctx.materialised.clear()
            self.ctx.meta = node.meta.get("val")
            return False
        return True

    def check_supported(self, node: Node) -> None:
        facts = known_facts(node.target)
        if facts is None:
            raise Unsupported(f"{node.target} at {self.ctx.origins[0]} is not an ATen operator [{Unsupported.id}]")
        if facts.writes:
            raise Unsupported(f"{node.target} at {self.ctx.origins[0]} changes its arguments [{Unsupported.id}]")
        if any(isinstance(size, torch.SymInt) for meta in metas_of(self.ctx.meta) for size in (*meta.shape, *meta.stride())):
            raise Unsupported(f"the result of {node.target} at {self.ctx.origins[0]} has a size that depends on data [{Unsupported.id}]")
        if any(not isinstance(m, torch.Tensor) and m is not None for m in read_metas(node)):
            raise Unsupported(f"{node.target} at {self.ctx.origins[0]} gives a value that is not a tensor [{Unsupported.id}]")

    def copy_into(self, node: Node, target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
        """Write back to an input: the last thing that happens to it."""
        placeholder = node.args[0]
        buffer = self.ctx.program.buffers[target.buffer]
        readers = [u for n in (placeholder, node) if isinstance(n, Node) for u in n.users]
        later = [u for u in readers if u > node and u.op != "output"]
        whole = target == of_strides(buffer.name, buffer.shape, buffer.strides, buffer.dtype)
        if not isinstance(placeholder, Node) or placeholder.op != "placeholder" or later or not whole or not types.known(target.dtype):
            raise Unsupported(f"copy_ at {self.ctx.origins[0]} is not a final write to an input [{Unsupported.id}]")
        if not is_dense(buffer.shape, buffer.strides) or not types.known(source.dtype):
            raise Unsupported(f"copy_ at {self.ctx.origins[0]} writes to an input with gaps or overlaps [{Unsupported.id}]")
        if reads_marked(node):
            source = self.ctx.extern(torch.ops.aten.clone.default, [source], {}, node.meta["val"])
        if not no_elements(target.shape):
            self.ctx.program.mutated.add(target.buffer)
            if source != target and self.ctx.program.mutated & Memory(self.ctx.program.steps).of(source.buffer):
                source = self.ctx.copy(source)
            self.ctx.fill(target, lambda where: cast(source.broadcast_load(where), types.compute(target.type)))
        return target

    def output(self, node: Node) -> None:
        self.ctx.program.outputs = [self.output_value(arg) for arg in outputs_of(node)]
        put_writes_last(self.ctx.program)

    def output_value(self, arg: Any) -> Any:
        value = self.resolve(arg)
        if not isinstance(value, Tensor):
            return value
        meta = arg.meta.get("val")
        wanted = as_shape(meta.stride()) if isinstance(meta, torch.Tensor) else None
        self.ctx.origins = (origin_of(arg),)
        view = value.view()
        if view is None:
            return self.ctx.copy(value, wanted).view()
        if wanted is not None and not same_strides(view, wanted):
            self.ctx.meta = meta
            return View(**{**vars(self.ctx.copy(value, wanted).view()), "strides": wanted})
        return View(view.buffer, view.shape, wanted or view.strides, view.offset)


def as_vectors(row: Row, args: Sequence[Any]) -> Lower | None:
    """Ops over a dim treat a tensor without dims as one of a single element. Pointwise ops do not: their dtype rules tell them apart."""
    if row.family.startswith("pointwise") or row.any_dtype or not args or not isinstance(args[0], Tensor) or args[0].ndim:
        return None

    def vector(value: Any) -> Any:
        return value.remap((1,), []) if isinstance(value, Tensor) and not value.ndim else value

    def lower(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        metas = ctx.meta
        ctx.meta = tree_map(lambda m: torch.empty(1, dtype=m.dtype) if isinstance(m, torch.Tensor) and not m.dim() else m, metas)
        out = row.lower(ctx, *map(vector, args), **kwargs)
        ctx.meta = metas
        return tree_map(lambda t: t.remap((), [ZERO]) if t and t.shape == (1,) else t, out, is_leaf=lambda t: isinstance(t, Tensor))

    return lower


def nothing_to_compute(ctx: Context, *args: Any, **kwargs: Any) -> Any:
    """Results without elements."""
    metas = as_list(ctx.meta)
    if any(m is None or m.numel() for m in metas):
        raise Decline

    def empty(meta: torch.Tensor) -> Tensor:
        return ctx.make(as_shape(meta.shape), meta.dtype, lambda where: const(0, types.compute(types.of_torch(meta.dtype))))

    made = [empty(m) for m in metas]
    return tuple(made) if isinstance(ctx.meta, (tuple, list)) else made[0]


def same_strides(view: View, wanted: Sequence[int]) -> bool:
    """Strides of dims that hold one element or none do not matter."""
    if no_elements(view.shape):
        return True
    return all(n == 1 or a == b for n, a, b in zip(view.shape, view.strides, wanted, strict=True))


def as_list(meta: Any) -> list[Any]:
    return list(meta) if isinstance(meta, (tuple, list)) else [meta]


def reads_marked(node: Node) -> bool:
    """An operand is a conjugate or negative view, whose values are not those in memory; ATen knows that by a bit of the tensor."""
    return any(m.is_conj() or m.is_neg() for n in node.all_input_nodes for m in metas_of(n.meta.get("val")))


def read_metas(node: Node) -> list[Any]:
    """The fake results of a node that something reads."""
    metas = as_list(node.meta.get("val"))
    if len(metas) > 1 and all(user.target is operator.getitem for user in node.users):
        return [metas[user.args[1]] for user in node.users if user.users]  # type: ignore[index]  # the position of a result
    return metas if node.users else []


def begin_of(node: Node) -> int:
    """Where the first operand of a node starts in its storage."""
    first = node.args[0] if node.args else None
    val = first.meta.get("val") if isinstance(first, Node) else None
    return int(val.storage_offset()) if isinstance(val, torch.Tensor) and val.layout is torch.strided else 0


def metas_of(meta: Any) -> list[torch.Tensor]:
    """The tensors among the fake results of a node."""
    return [m for m in as_list(meta) if isinstance(m, torch.Tensor)]


def outputs_of(node: Node) -> Sequence[Any]:
    first = node.args[0]
    return first if isinstance(first, (list, tuple)) else (first,)


def supported(row: Row, args: Any, meta: Any) -> bool:
    """Rows compute on strided tensors of the IR's types; view rows move indices of any type."""
    metas = meta if isinstance(meta, (tuple, list)) else (meta,)
    if not all(m is None or isinstance(m, torch.Tensor) for m in metas):
        return False
    if row.any_dtype:
        return True
    if not all(types.known(m.dtype) and m.layout == torch.strided for m in metas_of(meta)):
        return False
    return all(types.known(t.dtype) for t in tensors_of(args))


def tensors_of(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, (list, tuple)):
        return [t for item in tree for t in tensors_of(item)]
    if isinstance(tree, dict):
        return [t for item in tree.values() for t in tensors_of(item)]
    return []


def lower_graph(gm: GraphModule, device: str = "cpu", *, draws: bool = False) -> tuple[Program, dict[str, str]]:
    """The program of an ATen graph whose kernels are for one device, and how each node was lowered (native, decomposed, view or extern).

    `draws`: kernels draw random numbers as a GPU of torch's does, where they can.
    """
    walker = Walker(gm, device, draws=draws)
    return walker.run(), walker.how
