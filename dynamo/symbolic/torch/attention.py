"""`flex_attention` as one node, on devices that have a kernel for it: `attention.flex_attention(score, mask, settings, blocks, ...)`.

The two functions of the program are traced with one score and its place, as eager's `vmap` calls them. Elsewhere, and with
arguments that eager refuses or that are out of the ordinary, the call is a break: eager runs it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Graph, GraphModule, Node

from dynamo.fake import FakeTensor
from dynamo.graph import attention
from dynamo.surroundings.modes import without_autocast
from dynamo.symbolic.attempt.graph import Scope
from dynamo.symbolic.protocols.attributes import getattr_, tx_call
from dynamo.symbolic.torch.regions import pure_region
from dynamo.symbolic.values.errors import BreakError
from dynamo.symbolic.values.kinds import NONE, Const, FunctionValue, TensorValue, TupleValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

DEVICES = {"cuda"}  # that have a kernel for it
HOME = "torch.nn.attention.flex_attention"
TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
BLOCKS = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices")
TRANSPOSED = ("q_num_blocks", "q_indices", "full_q_num_blocks", "full_q_indices")
TUNING = frozenset("BLOCK_M BLOCK_N BLOCK_M1 BLOCK_N1 BLOCK_M2 BLOCK_N2 num_warps num_stages".split())  # noqa: SIM905  # a list of words
DEPRECATED = (
    "return_lse is deprecated and will be removed in v2.10. Please use return_aux=AuxRequest(lse=True) instead."  # as torch says it, once
)
ONE_BLOCK = 1 << 30  # as torch writes a mask that leaves out nothing


def flex(tx: Tracer, fn: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """The verdict on a function of torch's module."""
    if fn.name != "flex_attention" or fn.obj is None:
        return None
    try:
        given = inspect.signature(fn.obj).bind(*args, **kwargs).arguments
    except TypeError as e:
        raise _native(tx, "with these arguments", e) from e
    tensors = [given[name] for name in ("query", "key", "value")]
    if not all(isinstance(v, TensorValue) and v.cls in (torch.Tensor, torch.nn.Parameter) for v in tensors):
        raise _native(tx, "of other things than tensors")
    known: list[TensorValue] = [v for v in tensors if isinstance(v, TensorValue)]
    if known[0].fake.device.type not in DEVICES:
        return None
    return _Call(tx, fn, given, known).run()


def _native(tx: Tracer, why: str, cause: BaseException | None = None) -> BreakError:
    return tx.break_("DD022", f"flex_attention {why}", cause=cause)


class _Call:
    """One call. `given`: its arguments by name."""

    def __init__(self, tx: Tracer, fn: FunctionValue, given: dict[str, Value], tensors: list[TensorValue]) -> None:
        self.tx, self.given, self.tensors = tx, given, tensors
        assert fn.obj is not None
        self.names = fn.obj.__globals__

    @property
    def query(self) -> FakeTensor:
        return self.tensors[0].fake

    @property
    def key(self) -> FakeTensor:
        return self.tensors[1].fake

    @property
    def value(self) -> FakeTensor:
        return self.tensors[2].fake

    def run(self) -> Value:
        if torch.is_autocast_enabled(self.query.device.type):
            self.cast()
        self.check_tensors()
        scale = self.plain("scale")
        if scale is None:
            scale = 1.0 / math.sqrt(self.query.shape[-1])
        if type(scale) not in (int, float):
            raise _native(self.tx, "with a scale that is no number")
        wants_sums = self.results()
        blocks, rows, columns, mask = self.block_mask()
        score = self.given.get("score_mod", NONE)
        scored = self.traced(FunctionValue(attention.unchanged) if self.is_none(score) else score, with_score=True)  # type: ignore[arg-type]  # a plain function
        kept = self.traced(FunctionValue(attention.everything) if mask is None else mask, with_score=False)  # type: ignore[arg-type]  # the same
        return self.emitted(scored, kept, (float(scale), rows, columns), blocks, wants_sums)

    def cast(self) -> None:
        """As eager does under autocast, whose scores and functions then know nothing of it."""
        device = self.query.device.type
        key = torch._C.DispatchKey.AutocastCUDA if device == "cuda" else torch._C.DispatchKey.AutocastCPU
        if key not in getattr(self.names.get("flex_attention_hop"), "py_kernels", ()):
            raise _native(self.tx, "under autocast, which this torch leaves to the operators inside")
        dtype, cast = torch.get_autocast_dtype(device), []
        for v in self.tensors:
            is_cast = v.fake.is_floating_point() and v.fake.device.type == device and v.fake.dtype not in (torch.float64, dtype)
            found = tx_call(self.tx, getattr_(self.tx, v, "to"), [Const(dtype)], {}) if is_cast else v
            assert isinstance(found, TensorValue)
            cast.append(found)
        self.tensors = cast

    # arguments

    def plain(self, name: str) -> Any:
        """An argument that is known while tracing."""
        found = self.tx.try_python(self.given.get(name, NONE))
        if found is None:
            raise _native(self.tx, f"with a {name} that is not known")
        return found[0]

    def is_none(self, v: Value) -> bool:
        return isinstance(v, Const) and v.value is None

    def check_tensors(self) -> None:
        q, k, v = self.query, self.key, self.value
        if any(t.dim() != 4 or t.dtype not in TYPES or t.dtype != q.dtype or t.device != q.device or not t.numel() for t in (q, k, v)):
            raise _native(self.tx, "of these shapes or types")
        groups = bool(self.plain("enable_gqa"))
        fits = k.shape[:3] == v.shape[:3] and q.shape[0] == k.shape[0] and q.shape[3] == k.shape[3]
        if not fits or q.shape[1] % k.shape[1] or (not groups and q.shape[1] != k.shape[1]):
            raise _native(self.tx, "of shapes that don't fit")
        if any(scope.is_rehearsal or scope.is_elementwise for scope in self.tx.builder.scopes):
            raise _native(self.tx, "in a function that the graph calls")
        options = self.plain("kernel_options")
        if options is not None and not TUNING.issuperset(options):
            raise _native(self.tx, "with options of torch's kernels")

    def results(self) -> str:
        """Which form the result has: '' for the tensor alone, 'lse' for a pair of tensors, 'aux' for one with an AuxOutput, 'nothing' if
        that is empty."""
        aux = self.plain("return_aux")
        if self.plain("return_lse"):
            if aux is not None:
                raise _native(self.tx, "with both return_lse and return_aux")
            warn_once = self.names.get("_warn_once")
            if warn_once is None:
                raise _native(self.tx, "with return_lse")
            warn_once("deprecated_return_lse", DEPRECATED, category=FutureWarning)
            return "lse"
        if aux is None:
            return ""
        if aux.max_scores:
            raise _native(self.tx, "with max_scores")
        return "aux" if aux.lse else "nothing"

    def block_mask(self) -> tuple[list[Value], int, int, Value | None]:
        """Tensors of the block mask, rows and columns of its blocks, and its function."""
        given = self.given.get("block_mask", NONE)
        if self.is_none(given):
            return [], 0, 0, None
        if given.cls is not self.names["BlockMask"]:
            raise _native(self.tx, "with a block mask of another class")
        found = [getattr_(self.tx, given, name) for name in (*BLOCKS, *TRANSPOSED)]
        lengths = [self.tx.as_python(getattr_(self.tx, given, name)) for name in ("seq_lengths", "BLOCK_SIZE")]
        (rows, columns), mask = lengths[1], getattr_(self.tx, given, "mask_mod")
        if (rows, columns) == (ONE_BLOCK, ONE_BLOCK):
            return [], 0, 0, mask
        if tuple(lengths[0]) != (self.query.shape[2], self.key.shape[2]) or rows >= ONE_BLOCK or columns >= ONE_BLOCK:
            raise _native(self.tx, "with a block mask of other lengths")
        for k, v in enumerate(found):
            if not self.is_none(v) and not (isinstance(v, TensorValue) and v.fake.dim() == 3 + k % 2 and self.is_of_blocks(v.fake)):
                raise _native(self.tx, "with a block mask of other kinds")
        return found, rows, columns, mask

    def is_of_blocks(self, t: torch.Tensor) -> bool:
        batches, heads = t.shape[:2] if t.dim() > 2 else (0, 0)
        fits = batches in (1, self.query.shape[0]) and heads in (1, self.query.shape[1])
        return fits and t.dtype == torch.int32 and t.device == self.query.device

    # functions of the program

    def traced(self, fn: Value, *, with_score: bool) -> tuple[GraphModule, list[Node]]:
        """The graph of a function over one score, and the outer tensors that it reads."""
        tx, device, kind = self.tx, self.query.device, attention.computed_in(self.query)
        under = f"{fn.describe()} under flex_attention"
        with without_autocast(), pure_region(tx, under, "function", partial(_native, tx)) as scope:
            scope.is_elementwise = True
            places = [_place(scope, "score", kind, device)] if with_score else []
            places += [_place(scope, name, torch.int32, device) for name in ("b", "h", "q_idx", "kv_idx")]
            result = tx_call(tx, fn, list(places), {})
            wanted = kind if with_score else torch.bool
            if not isinstance(result, TensorValue) or result.fake.dim() or result.fake.dtype != wanted:
                raise _native(tx, f"whose {'score' if with_score else 'mask'} function gives no {wanted} without dimensions")
            scope.graph.output((tx.builder.node_here(result.node),))
        return _body(tx, scope), list(scope.order)

    def emitted(
        self,
        score: tuple[GraphModule, list[Node]],
        mask: tuple[GraphModule, list[Node]],
        settings: attention.Settings,
        blocks: list[Value],
        form: str,
    ) -> Value:
        tx = self.tx
        captured = [*score[1], *mask[1]]
        learned = [k for k, n in enumerate(score[1]) if torch.is_grad_enabled() and n.meta["val"].requires_grad]
        if learned and attention.elements(score[0], learned) is None:
            raise _native(tx, "whose score function reads more than elements of a tensor that needs gradients")
        bodies = [tx.attribute_for(body, None) for body, _ in (score, mask)]
        around = [tx.to_fx(v) for v in self.tensors]
        places = tuple(tx.to_fx(v) for v in blocks)
        args = (*bodies, settings, places, *around, len(score[1]), *(tx.builder.node_here(n) for n in captured))
        out = tx.builder.propagate("call_function", attention.flex_attention, args, {})
        node = tx.add_node("call_function", attention.flex_attention, args, {}, out)
        found = tx.wrap_output(node, out)
        assert isinstance(found, TupleValue)
        result, sums = tx.items(found.items)
        if not form:
            return result
        if form == "lse":
            return tx.make_tuple([result, sums])
        aux = TupleValue([sums if form == "aux" else NONE, NONE], self.names["AuxOutput"])
        return tx.make_tuple([result, aux])


def _place(scope: Scope, name: str, dtype: torch.dtype, device: torch.device) -> TensorValue:
    fake = FakeTensor(torch.empty((), dtype=dtype, device="meta"), device)
    node = scope.graph.placeholder(name)
    node.meta["val"] = fake
    return TensorValue(node, fake, torch.Tensor)


def _body(tx: Tracer, scope: Scope) -> GraphModule:
    if any(not isinstance(n.meta["val"], torch.Tensor) for n in scope.order):
        raise _native(tx, "whose function uses what is no tensor")
    if any(scope.version_of(n) != scope.versions[n] for n in scope.order):
        raise _native(tx, "whose function writes to what it reads")
    graph = Graph()
    graph.output(graph.graph_copy(scope.graph, {}))
    graph.eliminate_dead_code()
    return GraphModule(torch.nn.Module(), graph, "OneScore")


def element(tx: Tracer, v: TensorValue, key: Value) -> Value | None:
    """`x[i, j]` with tensors of single numbers, in a function of one score: eager reads it as an element and asks nobody for the number."""
    if not tx.builder.scopes or not tx.builder.scopes[-1].is_elementwise:
        return None
    keys = tx.items(key.items) if isinstance(key, TupleValue) and key.cls is tuple else [key]
    if not any(isinstance(k, TensorValue) for k in keys):
        return None
    if not all(isinstance(k, TensorValue) and not k.fake.dim() and not k.fake.dtype.is_floating_point for k in keys):
        raise _native(tx, "whose function reads more than an element")
    before: Sequence[Any] = ()
    node = v.node
    if node.target is torch.ops.aten.index.Tensor and isinstance(node.args[1], list | tuple) and node in _lookups(tx):
        node, before = node.args[0], node.args[1]  # type: ignore[assignment]  # x[i][j]
    at = [*before, *(tx.to_fx(k) for k in keys)]
    target = torch.ops.aten.index.Tensor
    args = (tx.builder.node_here(node) if isinstance(node, Node) else node, list(at))
    out = tx.builder.propagate("call_function", target, args, {})
    made = tx.add_node("call_function", target, args, {}, out)
    return tx.wrap_output(made, out)


def _lookups(tx: Tracer) -> set[Node]:
    """Elements and rows that the function being traced has read."""
    return {n for n in tx.builder.scopes[-1].graph.nodes if n.target is torch.ops.aten.index.Tensor}
