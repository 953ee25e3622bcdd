"""Transforms of `torch.func` as one node, `dynamo/graph/transforms.py`, of the function traced into a graph of its own.

The function sees what it sees in eager: one example under `vmap`, leaves that need gradients under the others. What a transform refuses,
and functions that do more than compute tensors of what they are given, are a break: eager runs the call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node

from dynamo.fake import FakeTensor
from dynamo.graph import transforms
from dynamo.symbolic.attempt.graph import Scope
from dynamo.symbolic.protocols.attributes import closure, tx_call
from dynamo.symbolic.protocols.names import cell_get
from dynamo.symbolic.protocols.registry import CODES, nested_code
from dynamo.symbolic.protocols.tables import dict_items
from dynamo.symbolic.torch.regions import body_of, filled, flat, pure_region, structure_of
from dynamo.symbolic.values.errors import BreakError
from dynamo.symbolic.values.kinds import NONE, Const, DictValue, FunctionValue, ListValue, TensorValue, TupleValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

    Args = list[Value]
    Kwargs = dict[str, Value]

_PLAIN = (torch.Tensor, torch.nn.Parameter)


@dataclass
class Traced:
    """A function as traced: its graph, the outer tensors it reads besides the given ones, its results (their tensors are of the graph)."""

    body: GraphModule
    read: list[Node]
    result: Value


class _Call:
    """One call of a transformed function. `name`: of the transform."""

    def __init__(self, tx: Tracer, name: str, fn: Value) -> None:
        self.tx, self.name, self.fn = tx, name, fn
        if any(scope.is_rehearsal or scope.is_elementwise for scope in tx.builder.scopes):
            raise self.native("in a function that the graph calls")
        if torch.is_inference_mode_enabled():
            raise self.native("in inference mode")

    def native(self, why: str, cause: BaseException | None = None) -> BreakError:
        return self.tx.break_("DD022", f"torch.func.{self.name} {why}", cause=cause)

    # arguments

    def known(self, v: Value) -> Any:
        """An option, which must be known while tracing."""
        found = self.tx.try_python(v)
        if found is None:
            raise self.native("with options that are not known")
        return found[0]

    def leaves(self, v: Value) -> list[Value]:
        """Tensors and other values in a structure of lists, tuples and dicts."""
        found = list(flat(self.tx, v))
        for leaf in found:
            if isinstance(leaf, ListValue | TupleValue | DictValue) or (isinstance(leaf, TensorValue) and leaf.cls not in _PLAIN):
                raise self.native(f"with a {leaf.cls.__name__}")
        return found

    def tensors(self, v: Value) -> list[TensorValue]:
        found = [leaf for leaf in self.leaves(v) if isinstance(leaf, TensorValue)]
        if not found or len(found) != len(self.leaves(v)):
            raise self.native("of other things than tensors")
        return found

    # the function

    def traced(self, args: Args, kwargs: Kwargs, order: Sequence[int], inner: Callable[[int], FakeTensor], fixed: Kwargs) -> Traced:
        """The graph of the function. It takes the tensors of its arguments in this `order` of their positions, each as `inner` makes it,
        then what it reads besides. `fixed`: arguments that the transform passes on as they are."""
        tx = self.tx
        tensors = self.places(args, kwargs)
        with pure_region(tx, f"{self.fn.describe()} under {self.name}", "function", self.native) as scope:
            places = {k: self.place(scope, tensors[k], inner(k)) for k in order}
            given = [place.node for place in places.values()]  # operators that give back what they get move a value to another node
            versions = [place.fake._version for place in places.values()]
            found = iter([places[k] for k in range(len(tensors))])
            around = tx.make_tuple([self.inside(a, found) for a in args])
            named = {key: self.inside(v, found) for key, v in kwargs.items()}
            result = tx_call(tx, self.fn, tx.items(around.items), {**named, **fixed})
            scope.graph.output(tuple(tx.builder.node_here(v.node) for v in self.tensors(result)))
        if versions != [place.fake._version for place in places.values()] or any(
            scope.version_of(n) != scope.versions[n] for n in scope.order
        ):
            raise self.native("of a function that writes to what it is given")
        self.check(scope)
        read = [n for n in scope.order if isinstance(n.meta["val"], torch.Tensor)]
        if any(n.meta["val"].is_inference() for n in read):
            raise self.native("with inference tensors")
        return Traced(body_of(scope, given, read, self.native), read, result)

    def places(self, args: Args, kwargs: Kwargs) -> list[TensorValue]:
        """The tensors of arguments, as often as they occur: each is another one for the function."""
        return [leaf for a in (*args, *kwargs.values()) for leaf in self.leaves(a) if isinstance(leaf, TensorValue)]

    def place(self, scope: Scope, outer: TensorValue, fake: FakeTensor) -> TensorValue:
        node = scope.graph.placeholder(outer.node.name)
        node.meta["val"] = fake
        return TensorValue(node, fake, torch.Tensor)

    def inside(self, v: Value, found: Iterator[TensorValue]) -> Value:
        return filled(self.tx, v, iter([next(found) if isinstance(leaf, TensorValue) else leaf for leaf in self.leaves(v)]))

    def check(self, scope: Scope) -> None:
        """Regions of other kinds are no graphs of operators that a transform can go through."""
        for node in scope.graph.nodes:
            home = getattr(node.target, "__module__", None) or ""
            if node.op == "call_function" and home.startswith("dynamo.") and node.target not in transforms.ALL:
                raise self.native(f"of a function that calls {getattr(node.target, '__name__', node.target)}")

    def emitted(self, target: Callable[..., Any], settings: Any, given: Sequence[TensorValue], traced: Traced) -> list[Value]:
        """The node's results."""
        tx = self.tx
        body = tx.attribute_for(traced.body, None)
        args = (body, settings, *(tx.to_fx(v) for v in given), *(tx.builder.node_here(n) for n in traced.read))
        out = tx.builder.propagate("call_function", target, args, {})
        if any(t is n.meta["val"] for t in out for n in traced.read):
            raise self.native("that gives the tensors themselves that it reads")
        node = tx.add_node("call_function", target, args, {}, out)
        outputs = tx.wrap_output(node, out)
        assert isinstance(outputs, TupleValue)
        same: dict[int, Value] = {id(v.fake): v for v in given}  # what is given may be given back, and a result be there twice
        return [same.setdefault(id(t), v) for t, v in zip(out, tx.items(outputs.items), strict=True)]


# ---- vmap -----------------------------------------------------------------------------------------------------


def _vmap(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """`vmap_impl(function, in_dims, out_dims, randomness, chunk_size, *args, **kwargs)`."""
    fn, in_dims, out_dims, randomness, chunk, *rest = args
    call = _Call(tx, "vmap", fn)
    dims = list(_spread(call, call.known(in_dims), tx.make_tuple(rest)))
    leaves = [leaf for a in rest for leaf in call.leaves(a)]
    if any(dim is not None and not isinstance(leaf, TensorValue) for leaf, dim in zip(leaves, dims, strict=True)):
        raise call.native("along a dimension of what is no tensor")
    tensors = call.places(rest, {})
    along = tuple(dim for leaf, dim in zip(leaves, dims, strict=True) if isinstance(leaf, TensorValue))
    if not any(dim is not None for dim in along) or not all(map(_fits, tensors, along)):
        raise call.native("along dimensions that aren't there")

    def example(k: int) -> FakeTensor:
        at, dim = tensors[k], along[k]
        return at.fake if dim is None else tx.builder.propagate("call_method", "select", (at.node, dim, 0), {})

    traced = call.traced(rest, {}, range(len(tensors)), example, kwargs)
    ends = tuple(_ends(call, call.known(out_dims), traced.result))
    settings = ((*along, *[None] * len(traced.read)), ends, call.known(randomness), call.known(chunk))
    return filled(tx, traced.result, iter(call.emitted(transforms.vmap, settings, tensors, traced)))


def _fits(v: TensorValue, dim: int | None) -> bool:
    return dim is None or (-v.fake.dim() <= dim < v.fake.dim() and v.fake.shape[dim] > 0)


def _ends(call: _Call, dims: Any, result: Value) -> Iterator[int | None]:
    if isinstance(result, TensorValue) and type(dims) is tuple and len(dims) == 1:
        dims = dims[0]
    return _spread(call, dims, result)


def _spread(call: _Call, dims: Any, v: Value) -> Iterator[int | None]:
    """The dimension of each leaf; one that is given for a structure is that of all its leaves."""
    if isinstance(dims, list | tuple | dict):
        if not isinstance(v, ListValue | TupleValue | DictValue) or type(dims) is not v.cls:
            raise call.native("whose dimensions don't have the form of the arguments or results")
        items = call.tx.items(v.items) if not isinstance(v, DictValue) else [x for _, x in dict_items(call.tx, v)]
        inner: Iterable[Any] = dims
        if isinstance(v, DictValue):
            keys = [call.known(key) for key, _ in dict_items(call.tx, v)]
            if set(keys) != set(dims):
                raise call.native("whose dimensions have other keys than the arguments or results")
            inner = [dims[key] for key in keys]
        inner = list(inner)
        if len(inner) != len(items):
            raise call.native("whose dimensions don't have the form of the arguments or results")
        for one, item in zip(inner, items, strict=True):
            yield from _spread(call, one, item)
        return
    if dims is not None and type(dims) is not int:
        raise call.native("along what is no dimension")
    for _ in call.leaves(v):
        yield dims


# ---- gradients ------------------------------------------------------------------------------------------------


class Derivative:
    """A call that differentiates by some of its arguments. `learned`: their tensors; `wanted`: their structure."""

    def __init__(self, tx: Tracer, name: str, fn: Value, args: Args, kwargs: Kwargs, argnums: Value) -> None:
        self.call = call = _Call(tx, name, fn)
        numbers = call.known(argnums)
        several = type(numbers) is tuple
        picked = list(numbers) if several else [numbers]
        if not picked or any(type(n) is not int or not -len(args) <= n < len(args) for n in picked):
            raise call.native("by arguments that aren't there")
        picked = [n % len(args) for n in picked]
        self.args, self.kwargs = args, kwargs
        self.wanted: Value = tx.make_tuple([args[n] for n in picked]) if several else args[picked[0]]
        self.learned = call.tensors(self.wanted)
        if len(set(picked)) != len(picked):
            raise call.native("by one argument twice")
        if not all(v.fake.dtype.is_floating_point or v.fake.dtype.is_complex for v in self.learned):
            raise call.native("by integers")
        self.tensors, starts = call.places(args, kwargs), [0]
        for a in args:
            starts.append(starts[-1] + len(call.places([a], {})))
        first = [k for n in picked for k in range(starts[n], starts[n + 1])]
        self.order = [*first, *(k for k in range(len(self.tensors)) if k not in first)]
        self.given = [self.tensors[k] for k in self.order]

    def traced(self, *, by_backward: bool) -> Traced:
        mode = self.call.tx.builder.mode
        first = self.order[: len(self.learned)] if by_backward else []

        def leaf(k: int) -> FakeTensor:
            with mode:
                fake = self.tensors[k].fake.detach()
                # a wrapper of an inference tensor takes gradients, the tensor itself does not
                return (fake.clone() if fake.is_inference() else fake).requires_grad_(k in first)

        with torch.enable_grad() if by_backward else nullcontext():
            return self.call.traced(self.args, self.kwargs, self.order, leaf, {})

    def split(self, result: Value, has_aux: bool) -> tuple[Value, Value | None]:
        """What is differentiated, and what comes besides."""
        if not has_aux:
            return result, None
        items = self.call.tx.items(result.items) if isinstance(result, TupleValue) and result.cls is tuple else []
        if len(items) != 2:
            raise self.call.native("of a function that gives no pair")
        return items[0], items[1]


def _grad_and_value(tx: Tracer, args: Args, kwargs: Kwargs) -> tuple[Value, Value, Value | None]:
    """`(function, argnums, has_aux, args, kwargs)`: gradients, value, and what comes besides."""
    fn, argnums, has_aux, around, named = args
    assert isinstance(around, TupleValue)
    assert isinstance(named, DictValue)
    by_name = {tx.as_python(key): x for key, x in dict_items(tx, named)}
    d = Derivative(tx, "grad", fn, tx.items(around.items), by_name, argnums)
    traced = d.traced(by_backward=True)
    value, aux = d.split(traced.result, d.call.known(has_aux))
    if not isinstance(value, TensorValue) or value.fake.dim():
        raise d.call.native("of a function that gives no number")
    found = iter(d.call.emitted(transforms.grad, len(d.learned), d.given, traced))
    grads = filled(tx, d.wanted, found)
    return grads, next(found), None if aux is None else filled(tx, aux, found)


def _grad(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    grads, _, aux = _grad_and_value(tx, args, kwargs)
    return grads if aux is None else tx.make_tuple([grads, aux])


def _value_too(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    grads, value, aux = _grad_and_value(tx, args, kwargs)
    return tx.make_tuple([grads, value if aux is None else tx.make_tuple([value, aux])])


def _jacobian(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs, *, name: str, target: Callable[..., Any], option: str) -> Value:
    """A function that `jacrev` or `jacfwd` has made. Each tensor of the result is replaced by the structure of the arguments."""
    names = fn.code.co_freevars
    cells = {n: cell_get(tx, cell, n, True) for n, cell in zip(names, closure(tx, fn), strict=True)}
    d = Derivative(tx, name, cells["func"], args, kwargs, cells["argnums"])
    if d.kwargs:
        raise d.call.native("with arguments by name")
    traced = d.traced(by_backward=name == "jacrev")
    result, aux = d.split(traced.result, d.call.known(cells["has_aux"]))
    results = d.call.tensors(result)
    settings = (len(d.learned), len(results), d.call.known(cells[option]))
    found = iter(d.call.emitted(target, settings, d.given, traced))
    rows = filled(tx, result, iter([filled(tx, d.wanted, found) for _ in results]))
    return rows if aux is None else tx.make_tuple([rows, filled(tx, aux, found)])


for _transform, _node, _option in (
    (torch.func.jacrev, transforms.jacrev, "chunk_size"),
    (torch.func.jacfwd, transforms.jacfwd, "randomness"),
):
    CODES.add(nested_code(_transform.__code__, "wrapper_fn"))(partial(_jacobian, name=_transform.__name__, target=_node, option=_option))


def _jvp(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """`jvp(function, primals, tangents, *, strict, has_aux)`."""
    try:
        given = inspect.signature(torch.func.jvp).bind(*args, **kwargs).arguments
    except TypeError as e:
        raise tx.break_("DD022", "torch.func.jvp with these arguments", cause=e) from e
    primals, tangents = given["primals"], given["tangents"]
    if not isinstance(primals, TupleValue) or primals.cls is not tuple or not primals.items:
        raise tx.break_("DD022", "torch.func.jvp without a tuple")
    items = tx.items(primals.items)
    d = Derivative(tx, "jvp", given["func"], items, {}, Const(tuple(range(len(items)))))
    moved = d.call.tensors(tangents)
    if d.call.known(given.get("strict", NONE)) or not isinstance(tangents, TupleValue) or len(moved) != len(d.learned):
        raise d.call.native("with tangents of another form")
    if structure_of(tx, tangents) != structure_of(tx, primals):
        raise d.call.native("with tangents of another form")
    if any(t.fake.is_inference() for t in moved):  # which autograd copies, and can save then, by where the other is in its storage
        raise d.call.native("with tangents made in inference mode")
    traced = d.traced(by_backward=False)
    result, aux = d.split(traced.result, bool(d.call.known(given.get("has_aux", NONE))))
    count = len(d.call.tensors(result))
    found = iter(d.call.emitted(transforms.jvp, (len(moved), count), [*d.given, *moved], traced))
    parts = [filled(tx, result, found), filled(tx, result, found)]
    return tx.make_tuple(parts if aux is None else [*parts, filled(tx, aux, found)])


# ---- functions of torch's modules -----------------------------------------------------------------------------

_INLINED = frozenset(
    """
    vmap grad grad_and_value jacrev jacfwd hessian vmap.<locals>.wrapped grad.<locals>.wrapper grad_and_value.<locals>.wrapper
    _check_randomness_arg _wraps_without_dynamo_attrs _wraps_without_dynamo_attrs.<locals>.inner
    """.split()  # noqa: SIM905  # a list of words
)
NODES: dict[str, Callable[[Tracer, Args, Kwargs], Value]] = {
    "vmap_impl": _vmap,
    "grad_impl": _grad,
    "grad_and_value_impl": _value_too,
    "jvp": _jvp,
}
_NO_HOOKS = "doesnt_support_saved_tensors_hooks.<locals>.fn"  # around some of them


def transform(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
    """The verdict on a function of torch's modules of transforms."""
    name = fn.code.co_qualname if fn.code.co_qualname != _NO_HOOKS else fn.qualname
    if name in _INLINED:
        return None
    if name in NODES:
        return NODES[name](tx, args, kwargs)
    raise tx.break_("DD022", f"{fn.globals.get('__name__')}.{fn.qualname}")
