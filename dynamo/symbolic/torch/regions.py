"""Calls that put a whole function into the graph: `autograd.Function.apply`, `torch.utils.checkpoint`, operators with gradients in Python.

All trace the function into a graph of its own first (`Scope`). For a checkpoint that graph becomes the body of the region; for
an `autograd.Function` it only proves that `forward` and `backward` can be run on fakes without effects, and the node calls `apply` itself.
So it does for the gradient of a custom operator.
"""

from __future__ import annotations

import inspect
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch._library.autograd
import torch._library.custom_ops
import torch.utils.checkpoint
from torch.fx import Graph, GraphModule, Node

from dynamo import torch_facts
from dynamo.graph import helpers as graph_helpers
from dynamo.source import const_source
from dynamo.symbolic.attempt.effects import contents_of
from dynamo.symbolic.attempt.graph import Scope
from dynamo.symbolic.protocols.attributes import getattr_, hasattr_, setattr_, tx_call
from dynamo.symbolic.protocols.registry import function
from dynamo.symbolic.protocols.tables import dict_items, dict_set
from dynamo.symbolic.values.errors import BreakError, Raised
from dynamo.symbolic.values.kinds import (
    FALSE,
    NONE,
    TRUE,
    ClassValue,
    Const,
    DictValue,
    Lazy,
    ListValue,
    ObjectValue,
    TensorValue,
    TupleValue,
    Value,
)

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

    Args = list[Value]
    Kwargs = dict[str, Value]


@contextmanager
def region(tx: Tracer, is_rehearsal: bool = False) -> Iterator[Scope]:
    """Operations inside go into a graph of their own."""
    scope = Scope(tx.builder.graph, is_rehearsal)
    tx.builder.scopes.append(scope)
    tx.builder.graph = scope.graph
    try:
        yield scope
    finally:
        tx.builder.graph = scope.outer
        tx.builder.scopes.pop()


@contextmanager
def without_effects(tx: Tracer, what: str) -> Iterator[None]:
    """Break when the code inside changes an object that existed before: it would be replayed another number of times than eager does."""
    effects, changed = tx.effects, dict(tx.effects.mutated)
    written = [dict(table) for table in (effects.global_writes, effects.class_writes, effects.context_writes)]
    with effects.watched() as before:
        yield
    if written != [effects.global_writes, effects.class_writes, effects.context_writes] or any(
        not (type(v) is DictValue or key in changed) or not _is_as_before(tx, contents_of(v), was) for key, (v, was) in before.items()
    ):
        raise tx.break_("DD022", f"{what} changes a Python object outside of it")
    effects.mutated.clear()
    effects.mutated.update(changed)  # what was changed is as it was


def _is_as_before(tx: Tracer, now: Any, was: Any) -> bool:
    if isinstance(was, list | tuple):
        return type(now) is type(was) and len(now) == len(was) and all(_is_as_before(tx, n, w) for n, w in zip(now, was, strict=True))
    if isinstance(was, Lazy) and isinstance(now, Value):
        return now.source is was.source or tx.identities.by_id.get(id(was.obj)) is now
    return now is was or (isinstance(was, str | int) and bool(now == was))


@contextmanager
def pure_region(tx: Tracer, what: str, part: str, refused: Callable[..., BreakError]) -> Iterator[Scope]:
    """A region whose code changes nothing outside, draws no random numbers, raises nothing and leaves modes as they were; else a break."""
    ran, tx.builder.mode.ran = tx.builder.mode.ran, Counter()
    was_grad = torch.is_grad_enabled()
    try:
        with region(tx) as scope, without_effects(tx, what):
            yield scope
        if _draws(tx.builder.mode.ran):
            raise refused("of random numbers")
    except Raised as e:
        raise refused(f"whose {part} raises", e) from e
    finally:
        ran.update(tx.builder.mode.ran)
        tx.builder.mode.ran = ran
    if torch.is_grad_enabled() != was_grad:
        raise refused(f"whose {part} leaves a mode changed")


def _draws(ran: Iterable[Any]) -> bool:
    return any(torch.Tag.nondeterministic_seeded in op.tags for op in ran)


def flat(tx: Tracer, v: Value) -> Iterator[Value]:
    """The leaves of a structure of lists, tuples and dicts."""
    if isinstance(v, ListValue | TupleValue) and v.cls in (list, tuple):
        for item in tx.items(v.items):
            yield from flat(tx, item)
    elif isinstance(v, DictValue) and v.cls is dict:
        for _, x in dict_items(tx, v):
            yield from flat(tx, x)
    else:
        yield v


def structure_of(tx: Tracer, v: Value) -> Any:
    """The structure of a result, without its tensors."""
    if isinstance(v, ListValue | TupleValue):
        return (v.cls, *[structure_of(tx, x) for x in tx.items(v.items)])
    if isinstance(v, DictValue):
        return (dict, *[(key, structure_of(tx, x)) for key, (_, x) in zip(v.table, dict_items(tx, v), strict=True)])
    return None


def filled(tx: Tracer, v: Value, leaves: Iterator[Value]) -> Value:
    """The structure of a result with other tensors in it."""
    if isinstance(v, ListValue | TupleValue):
        items = [filled(tx, x, leaves) for x in tx.items(v.items)]
        return tx.make_list(items) if v.cls is list else tx.make_tuple(items)
    if isinstance(v, DictValue):
        d = DictValue()
        for key, x in dict_items(tx, v):
            dict_set(tx, d, key, filled(tx, x, leaves))
        return d
    return next(leaves)


def body_of(scope: Scope, given: Sequence[Node], read: Sequence[Node], refused: Callable[..., BreakError]) -> GraphModule:
    """The region as a graph that takes its own placeholders `given`, then what it reads of the tensors `read` outside.

    Graphs inside it are attributes of its own.
    """
    root, graph = torch.nn.Module(), Graph()
    env: dict[Node, Node] = {}
    stands_for = dict(zip(scope.placeholders, scope.order, strict=True))
    places: dict[Node, Node] = {}
    for outer in (*given, *read):
        place = places[outer] = graph.placeholder(outer.name)
        place.target = place.name  # two of them may have had one name
        place.meta.update(outer.meta)
    for node in scope.graph.nodes:
        if node.op != "placeholder":
            env[node] = graph.node_copy(node, env.__getitem__)
            continue
        outer = stands_for.get(node, node)
        held = outer.meta["val"]
        if isinstance(held, torch.Tensor):
            env[node] = places[outer]
        elif isinstance(held, GraphModule):
            setattr(root, outer.name, held)
            env[node] = graph.get_attr(outer.name)
            env[node].meta.update(outer.meta)
        else:
            raise refused(f"that uses a {type(held).__name__}")
    return GraphModule(root, graph, "Region")


# ---- torch.autograd.Function ------------------------------------------------------------------------------


_Function: Any = torch.autograd.Function
_RAW_APPLY = torch.autograd.Function.__dict__["apply"]


@function(_RAW_APPLY if torch_facts.FUNCTION_APPLY_IS_C else _RAW_APPLY.__func__)
def _apply(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    cls, rest = args[0], args[1:]
    assert isinstance(cls, ClassValue)
    _rehearse(tx, cls, rest, kwargs)
    fx_args = tuple(_argument(tx, a) for a in rest)
    fx_kwargs = {k: _argument(tx, v) for k, v in kwargs.items()}
    target = graph_helpers.applying(cls.obj)
    out = tx.builder.propagate("call_function", target, fx_args, fx_kwargs)
    node = tx.add_node("call_function", target, fx_args, fx_kwargs, out)
    return _same_tensors(tx, tx.wrap_output(node, out), rest)


def _rehearse(tx: Tracer, cls: ClassValue, args: Args, kwargs: Kwargs) -> None:
    """Trace the class's methods for their guards and for breaks; what they computed is dropped."""
    own: Any = cls.obj
    ctx = ObjectValue(torch.autograd.function.FunctionCtx)
    separate = own.setup_context is not _Function.setup_context
    grad = torch.is_grad_enabled()
    tracked = [TRUE if isinstance(a, TensorValue) and a.fake.requires_grad else FALSE for a in args]
    warned = len(tx.effects.warned)
    setattr_(tx, ctx, "needs_input_grad", tx.make_tuple(tracked))
    try:
        with region(tx, is_rehearsal=True), without_effects(tx, own.__name__):
            torch._C._set_grad_enabled(False)
            out = tx_call(tx, _method_of(tx, own, "forward"), args if separate else [ctx, *args], kwargs)
            if separate:
                args = _with_defaults(tx, own, args, kwargs)
                tx_call(tx, _method_of(tx, own, "setup_context"), [ctx, tx.make_tuple(args), out], {})
            if grad and TRUE in tracked:
                _rehearse_backward(tx, own, ctx, args, out)
    finally:
        torch._C._set_grad_enabled(grad)
    if len(tx.effects.warned) != warned:  # its own code gives them, each pass where it runs
        raise tx.break_("DD004", f"a warning of {own.__name__}")


def _method_of(tx: Tracer, own: Any, name: str) -> Value:
    return tx.wrap(getattr(own, name), const_source(own, own.__qualname__).attr(name))


def _with_defaults(tx: Tracer, own: Any, args: Args, kwargs: Kwargs) -> Args:
    """What `setup_context` gets as inputs."""
    bound = inspect.signature(own.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return [a if isinstance(a, Value) else tx.wrap(a, None) for a in bound.args]


def _rehearse_backward(tx: Tracer, own: Any, ctx: ObjectValue, args: Args, out: Value) -> None:
    name = next((n for n in ("backward", "vjp") if getattr(own, n) is not getattr(_Function, n)), None)
    if name is None:
        raise tx.break_("DD022", f"{own.__name__} without backward")
    if hasattr_(tx, ctx, "materialize_grads"):
        raise tx.break_("DD022", f"{own.__name__} asks for gradients that may be missing")
    _differentiate(tx, f"{own.__name__}.{name}", _method_of(tx, own, name), ctx, args, out)


def _differentiate(tx: Tracer, what: str, backward: Value, ctx: ObjectValue, args: Args, out: Value) -> None:
    """The engine calls `backward` once per pass, and ahead-of-time tracing once per compile: effects of its own would be lost."""
    setattr_(tx, ctx, "saved_tensors", getattr_(tx, ctx, "to_save") if hasattr_(tx, ctx, "to_save") else tx.make_tuple([]))
    outputs = tx.items(out.items) if isinstance(out, TupleValue) else [out]
    grads = [_zeros(tx, o) for o in outputs]
    before = _state(ctx)
    result = tx_call(tx, backward, [ctx, *grads], {})
    if _state(ctx) != before:
        raise tx.break_("DD022", f"{what} changes its context")
    found = tx.items(result.items) if isinstance(result, TupleValue) else [result]
    if len(found) < len(args) or not all(_fits(g, a) for g, a in itertools.zip_longest(found, args, fillvalue=NONE)):
        raise tx.break_("DD022", f"{what} gives gradients that don't fit the inputs")


def _zeros(tx: Tracer, out: Value) -> Value:
    """A gradient of a result."""
    if isinstance(out, TensorValue):
        return tx.call_function(torch.zeros_like, [out], {})
    return tx.make_list(_zeros(tx, x) for x in tx.items(out.items)) if type(out) is ListValue else NONE


def _state(ctx: ObjectValue) -> list[Any]:
    members = [(k, x) for k, (_, x) in ctx.inst.table.items()] if ctx.inst is not None else []
    return [(k, id(x), contents_of(x) if isinstance(x, ObjectValue) else None) for k, x in members]


def _fits(grad: Value, given: Value) -> bool:
    if isinstance(grad, TensorValue):
        return isinstance(given, TensorValue) and grad.fake.shape == given.fake.shape
    if isinstance(given, ListValue | TupleValue) and isinstance(grad, ListValue | TupleValue):
        return len(grad.items) == len(given.items)
    return isinstance(grad, Const) and grad.value is None


def _argument(tx: Tracer, v: Value) -> Any:
    """An argument as a graph constant; any real object may be one, since `forward` gets it unchanged."""
    obj = getattr(v, "obj", None)
    try:
        if isinstance(v, DictValue) and v.cls is dict:
            return {tx.as_python(k): _argument(tx, x) for k, x in dict_items(tx, v)}
        if isinstance(v, ListValue) and v.cls is list:
            return [_argument(tx, x) for x in tx.items(v.items)]
        if obj is None or isinstance(v, ClassValue) or not callable(obj):  # graphs can't print other callables
            return tx.to_fx(v)
    except BreakError:
        if obj is None:
            raise
    if id(v) in tx.effects.mutated:
        raise tx.break_("DD010", v.describe())
    return tx.attribute_for(obj, v.source)


def _same_tensors(tx: Tracer, result: Value, args: Args) -> Value:
    """Inputs that `forward` changed and returned, alone or among others, are the same tensors for the program."""
    known = {id(a.fake): a for a in args if isinstance(a, TensorValue)}
    if isinstance(result, TensorValue) and id(result.fake) in known:
        same = known[id(result.fake)]
        tx.builder.now_at(same, result.node)
        return same
    if isinstance(result, TupleValue):
        return tx.make_tuple([_same_tensors(tx, x, args) for x in tx.items(result.items)])
    return result


# ---- operators of torch.library ---------------------------------------------------------------------------


def rehearse_operator(tx: Tracer, op: Any, args: Args, kwargs: Kwargs) -> None:
    """Trace what the program registered as the gradient of an operator, as for an `autograd.Function`."""
    own: Any = torch._library.custom_ops.OPDEFS.get(op._qualified_op_name if isinstance(op, torch._ops.OpOverloadPacket) else op._name)
    keys = _python_keys(op) if own is None else ()
    if "CompositeImplicitAutograd" in keys:
        raise tx.break_("DD005", f"{op}, a kernel in Python that is differentiated through")
    in_python = own is not None or bool(keys)
    given = list(tensors_of(tx, tx.make_tuple([*args, *kwargs.values()]))) if in_python else []
    if not torch.is_grad_enabled() or not any(v.fake.requires_grad for v in given):
        return
    found = (own, own._opoverload) if own is not None else _registered(tx, op, args, kwargs)
    if found is None:
        return
    own, overload = found
    bound = _bound(tx, overload._schema, args, kwargs)
    source = const_source(own, overload._name)
    backward = tx.wrap(own._backward_fn, source.attr("_backward_fn"))
    setup = tx.wrap(own._setup_context_fn, source.attr("_setup_context_fn"))
    if bound is None or (isinstance(backward, Const) and backward.value is None):
        return  # the operator refuses these arguments, or backward does
    inputs, by_name = bound
    ctx = ObjectValue(torch.autograd.function.FunctionCtx)
    tracked = [any(v.fake.requires_grad for v in tensors_of(tx, a)) for a in inputs]
    setattr_(tx, ctx, "needs_input_grad", tx.make_tuple([TRUE if t else FALSE for t in tracked]))
    try:
        with region(tx, is_rehearsal=True), without_effects(tx, overload._name):
            torch._C._set_grad_enabled(False)
            out = tx.call_function(overload, args, kwargs)
            if not (isinstance(setup, Const) and setup.value is None):
                named = {"ctx": ctx, "inputs": tx.make_tuple(inputs), "output": out}
                if by_name.table:
                    named["keyword_only_inputs"] = by_name
                tx_call(tx, setup, [], named)
            _differentiate(tx, f"the gradient of {overload._name}", backward, ctx, inputs, out)
    finally:
        torch._C._set_grad_enabled(True)


_KEYS_OF_GRADIENTS = ("Autograd", "AutogradCPU", "AutogradCUDA", "AutogradMeta", "CompositeImplicitAutograd")


def _python_keys(op: Any) -> Sequence[str]:
    """The keys for which the program has registered kernels in Python for an operator that decide how it is differentiated."""
    packet = op if isinstance(op, torch._ops.OpOverloadPacket) else getattr(op, "overloadpacket", None)
    space, _, name = getattr(packet, "_qualified_op_name", "aten::").partition("::")
    if space in ("aten", "prims"):
        return ()
    names = [name, *(f"{name}.{overload}" for overload in packet.overloads())]  # type: ignore[union-attr]  # None is in aten, above
    return [key for key in _KEYS_OF_GRADIENTS if any(f"{space}/{n}/{key}" in torch.library._impls for n in names)]


def _registered(tx: Tracer, op: Any, args: Args, kwargs: Kwargs) -> tuple[Any, Any] | None:
    """What `torch.library.register_autograd` was given for an operator of a `Library`, and the overload of it that is called.

    The dispatcher alone has the kernel. But it differentiates by an `autograd.Function` made for the operator, and results lead there.
    """
    with region(tx):
        results = list(tensors_of(tx, tx.call_function(op, args, kwargs)))
    nodes = [v.fake.grad_fn for v in results if v.fake.grad_fn is not None]
    backward = getattr(getattr(type(nodes[0]), "_forward_cls", None), "backward", None) if nodes else None
    backward = _closed_over(backward, "orig_backward") or backward  # of operators that take lists
    own, overload = _closed_over(backward, "info"), _closed_over(backward, "op")
    if isinstance(own, torch._library.autograd.Info) and isinstance(overload, torch._ops.OpOverload):
        return own, overload
    if nodes:
        raise tx.break_("DD005", f"{op}, whose gradient is a kernel in Python")
    return None


def _closed_over(fn: Any, name: str) -> Any:
    cells = dict(zip(getattr(getattr(fn, "__code__", None), "co_freevars", ()), getattr(fn, "__closure__", None) or (), strict=False))
    return cells[name].cell_contents if name in cells else None


def _bound(tx: Tracer, schema: Any, args: Args, kwargs: Kwargs) -> tuple[Args, DictValue] | None:
    """The arguments as `setup_context` gets them: positional ones and those by name, with defaults."""
    inputs, by_name = [], DictValue()
    for i, a in enumerate(schema.arguments):
        v = args[i] if i < len(args) and not a.kwarg_only else kwargs.get(a.name)
        if v is None:
            if not a.has_default_value():
                return None
            v = tx.wrap(a.default_value, None)
        if a.kwarg_only:
            dict_set(tx, by_name, Const(a.name), v)
        else:
            inputs.append(v)
    return inputs, by_name


# ---- torch.utils.checkpoint -------------------------------------------------------------------------------

_OPTIONS = ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop")


@function(torch.utils.checkpoint.checkpoint, graph_helpers._checkpoint)
def _checkpoint(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    fn, *rest = args
    options = {k: _option(tx, k, kwargs[k]) for k in _OPTIONS if k in kwargs}
    if options.get("use_reentrant") is None:
        options["use_reentrant"] = True
    inner_kwargs = {k: v for k, v in kwargs.items() if k not in _OPTIONS}
    if inner_kwargs and options["use_reentrant"]:
        raise tx.throw(ValueError, "Unexpected keyword arguments: " + ",".join(inner_kwargs))
    before = Counter(tx.builder.mode.ran)
    with region(tx) as scope:
        given = len({tx.builder.node_here(v.node) for v in rest if isinstance(v, TensorValue)})
        with without_effects(tx, f"{fn.describe()} under checkpoint"):
            result = tx_call(tx, fn, rest, inner_kwargs)
        results = list(dict.fromkeys(v for v in tensors_of(tx, result) if v.node.graph is scope.graph))
        scope.graph.output(tuple(v.node for v in results))
    if not results:
        return result
    if options.get("preserve_rng_state") is False and _draws(tx.builder.mode.ran - before):
        raise tx.break_("DD022", "a checkpoint with preserve_rng_state=False draws other random numbers in its backward")
    body = GraphModule(torch.nn.Module(), scope.graph, "CheckpointBody")
    outer = [tx.builder.node_here(n) for n in scope.order]
    _emit(tx, body, options, given, outer, results)
    return result


def _option(tx: Tracer, name: str, v: Value) -> Any:
    known = tx.try_python(v)
    if known is None:
        raise tx.break_("DD010", f"{name} of checkpoint")
    return known[0]


def _emit(tx: Tracer, body: GraphModule, options: dict[str, Any], given: int, outer: list[Node], results: list[TensorValue]) -> None:
    """The node of the region, and the results' values moved to it."""
    region_body = tx.attribute_for(body, None)
    args = (region_body, options, given, *outer)
    out = tx.builder.propagate("call_function", graph_helpers.checkpoint, args, {})
    for said in tx.builder.said:
        if said.file == torch.utils.checkpoint.__file__:  # the operators inside have said theirs
            tx.says(said)
    node = tx.add_node("call_function", graph_helpers.checkpoint, args, {}, out)
    node.meta["checkpoint"] = dict(options)
    outputs = tx.wrap_output(node, out)
    assert isinstance(outputs, TupleValue)
    for v, new in zip(results, tx.items(outputs.items), strict=True):
        assert isinstance(new, TensorValue)
        v.node, v.fake = new.node, new.fake


def tensors_of(tx: Tracer, v: Value | Lazy, seen: set[int] | None = None) -> Iterator[TensorValue]:
    """Every tensor in a value that the trace made, in order."""
    seen = set() if seen is None else seen
    if isinstance(v, Lazy) or id(v) in seen:
        return
    seen.add(id(v))
    if isinstance(v, TensorValue):
        yield v
        return
    children: list[Value | Lazy] = []
    if isinstance(v, ListValue | TupleValue):
        children += v.items
    if isinstance(v, DictValue):
        children += [x for _, x in v.table.values()]
    if isinstance(v, ObjectValue):
        children += [x for x in v.slots.values() if x is not None]
        children += [v.inst] if v.inst is not None else []
    for child in children:
        yield from tensors_of(tx, child, seen)
