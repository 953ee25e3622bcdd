"""The steps of an export."""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.utils._pytree as pytree

from dynamo import _C
from dynamo.compile.capture import Captured, capture
from dynamo.errors import GraphBreakError
from dynamo.export.aten import to_aten
from dynamo.export.calling import ExportResult, module_of
from dynamo.export.captured import Flat, path_text
from dynamo.export.facts import Call, ExportError, Guard, Leaf, Parameter, Tree, class_name
from dynamo.export.trees import take_apart
from dynamo.guards.build import BuiltGuards, build
from dynamo.guards.kinds import GuardRecord, failure, guard_text
from dynamo.surroundings.collector import paused
from dynamo.symbolic.attempt.tracer import Decisions
from dynamo.symbolic.values.errors import BreakError
from dynamo.trace import emit, events


@dataclass(frozen=True)
class Options:
    """`decompositions` maps ATen operators to functions, for `aten_graph` only."""

    aten_graph: bool = False
    decompositions: Mapping[Any, Callable[..., Any]] | None = None


@dataclass
class Arguments:
    """The arguments of the example call by parameter, taken apart. `passed` are those of the call itself, as it wrote them: what a function
    is given by position, by name or not at all may make a difference to its decorators.
    """

    parameters: list[Parameter]
    values: dict[str, Any]
    passed: dict[str, str]
    trees: list[Tree]
    paths: list[str]
    leaves: list[Any]


def export(
    f: Callable[..., Any],
    /,
    *args: Any,
    aten_graph: bool = False,
    pre_dispatch: bool = False,
    decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
    tracing_mode: str = "symbolic",
    assume_static_by_default: bool = True,
    dynamic_shapes: Any = None,
    same_signature: bool = True,
    **kwargs: Any,
) -> Any:
    """`export(f, *args, **kwargs)` or `export(f)(*args, **kwargs)`: ExportResult(graph_module, guards).

    The module is called like `f` and gives the same result; it checks its arguments. `aten_graph`: the graph is made of functional ATen
    operators, split further where `decomposition_table` has a function for one. Shapes are static in this version, so `tracing_mode`,
    `assume_static_by_default` and `dynamic_shapes` change nothing (note DD092).

    Raises GraphBreakError for a break, ExportError when `f` changes objects of its caller or gives a result that has no form as data.
    """
    if tracing_mode not in ("symbolic", "fake", "real"):
        raise ValueError(f"tracing_mode is symbolic, fake or real, got {tracing_mode!r}")
    if dynamic_shapes is not None or not assume_static_by_default:
        emit(events.Note("DD092", "export: shapes are static in this version; the graph is for the shapes of the example", "info"))
    options = Options(aten_graph or pre_dispatch, decomposition_table)
    if args or kwargs:
        return run(f, args, kwargs, options)
    return lambda *a, **k: run(f, a, k, options)


def run(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], options: Options) -> ExportResult:
    """bind -> capture -> flat graph -> facts of the arguments -> (ATen graph) -> module."""
    f = getattr(f, "_orig_mod", f) if not isinstance(f, _C.Compiled) else f.fn
    name = name_of(f)
    with paused():
        arguments = bind(f, *twins_apart(args, kwargs))
        captured = captured_frame(f, name, arguments)
        if captured.tx.guards.asked & ASKS_FOR_IDENTITY:
            arguments = bind(f, args, kwargs)
            captured = captured_frame(f, name, arguments)
        flat = Flat(captured, [p.name for p in arguments.parameters], arguments.leaves, arguments.paths, f)
        call = describe(captured, flat, arguments, name)
        if options.aten_graph:
            graph, attributes, call = to_aten(flat, call, arguments.leaves, options.decompositions)
        else:
            graph, attributes = flat.graph, flat.attributes
        gm = module_of(graph, attributes, call, f)
        captured.tx.forget()
    return ExportResult(gm, list(call.guards))


def twins_apart(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with a tensor object of its own, of the same memory, at each place of a tensor that is there twice.

    So the graph has an input for each, and may be called with two tensors. A function that asks whether they are one is traced again.
    """
    seen: set[int] = set()

    def apart(t: torch.Tensor) -> torch.Tensor:
        if id(t) not in seen:
            seen.add(id(t))
            return t
        is_plain = type(t) is torch.Tensor and t.is_leaf and t.grad is None and not vars(t) and t.layout is torch.strided
        return t.detach().requires_grad_(t.requires_grad) if is_plain else t

    found = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    if len({id(t) for t in found}) == len(found):
        return args, kwargs
    made: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map_only(torch.Tensor, apart, (args, kwargs))
    return made


def name_of(f: Any) -> str:
    return getattr(f, "__name__", None) or type(f).__name__


# ---- arguments ----------------------------------------------------------------------------------------------


def bind(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """Arguments by the name of the parameter, defaults included. Raises TypeError as the call itself would."""
    signature = signature_of(f)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    parameters = [
        Parameter(p.name, p.kind.name, p.default is not p.empty, None if p.default is p.empty else p.default)
        for p in signature.parameters.values()
    ]
    found: list[tuple[str, Any]] = []
    trees = [take_apart(bound.arguments[p.name], p.name, found) for p in parameters]
    by_position = [p.name for p in parameters if p.kind.startswith("POSITIONAL")][: len(args)]
    by_name = [p.name for p in parameters if p.name in kwargs and p.name not in by_position and p.kind != "VAR_KEYWORD"]
    texts = [(p.name, f"{p.name}={p.name}" if p.name in by_name else _MARKS.get(p.kind, "") + p.name) for p in parameters]
    passed = {name: text for name, text in texts if name in (*by_position, *by_name) or text.startswith("*")}
    return Arguments(parameters, dict(bound.arguments), passed, trees, [path for path, _ in found], [leaf for _, leaf in found])


def signature_of(f: Any) -> inspect.Signature:
    target = f.forward if isinstance(f, torch.nn.Module) else f
    try:
        return inspect.signature(target)
    except (TypeError, ValueError):  # functions of C libraries don't tell
        return inspect.Signature(
            [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL), inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)]
        )


def root_function(f: Any, name: str, arguments: Arguments) -> types.FunctionType:
    """A function with the parameters of `f`, so that what is read from them has their names. Its own lines are no user lines."""
    params = ", ".join(p.name for p in arguments.parameters)
    passed = ", ".join(arguments.passed.values())
    label = name if name.isidentifier() else "call"
    text = f"def outer(__f__):\n def {label}({params}):\n  return __f__({passed})\n return {label}\n"
    scope: dict[str, Any] = {}
    exec(compile(text, os.path.join(os.path.dirname(__file__), f"<call of {label}>"), "exec"), scope)
    made = scope["outer"](f)
    assert isinstance(made, types.FunctionType)
    return made


_MARKS = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}


# ---- capture ------------------------------------------------------------------------------------------------


def captured_frame(f: Any, name: str, arguments: Arguments) -> Captured:
    root = root_function(f, name, arguments)
    values = [arguments.values[p.name] for p in arguments.parameters]
    inputs = (*values, *(root.__closure__ or ()))
    try:
        # an exported graph has no program to hand over to, which would raise the exception that it names
        captured = capture(root, inputs, fullgraph=True, known=Decisions(plain_branches=True))
    except BreakError as e:
        raise GraphBreakError(e) from e.cause
    if captured.result is None:
        raise ExportError(f"{name} raises for these inputs: {captured.reason} [DD094]")
    return captured


# ---- facts --------------------------------------------------------------------------------------------------


def describe(captured: Captured, flat: Flat, arguments: Arguments, name: str) -> Call:
    """Which facts of the arguments the graph relies on."""
    records = list(captured.tx.guards.records.values())
    count = len(arguments.parameters)
    on_arguments = [r for r in records if r.source is not None and r.source.root.kind == "input" and int(r.source.root.arg) < count]
    kinds: dict[str, set[str]] = {}
    for r in on_arguments:
        assert r.source is not None
        kinds.setdefault(path_text(r.source), set()).add(r.kind)
    first: dict[int, int] = {}
    leaves: list[Leaf] = []
    defaults = [p.name for p in arguments.parameters if p.name not in arguments.passed]  # their values are in the function
    for i, (path, obj) in enumerate(zip(arguments.paths, arguments.leaves, strict=True)):
        below = {k for p, found in kinds.items() if is_below(p, path) for k in found}
        known = {"default"} if any(path == d or is_below(path, d) for d in defaults) else kinds.get(path, set()) | below
        leaves.append(_leaf(path, obj, i, flat, known, first))
    built = build(records, [], captured.state)
    guards = tuple(Guard(_words(r, name), guard_text(r)[1]) for r in built.records)
    objects = [leaf.path for leaf in leaves if leaf.kind == "object"]
    rest = [r for r in on_arguments if r.source is not None and _leads_into(path_text(r.source), objects)]
    more = _live_check(rest, arguments) if rest else None
    restores = bool(captured.tx.effects.on_exit)
    apart = "objects" if "is" in captured.tx.guards.asked else ""
    parameters, trees = tuple(arguments.parameters), tuple(arguments.trees)
    return Call(name, parameters, trees, tuple(leaves), tuple(flat.results.rows), guards, restores_modes=restores, apart=apart, more=more)


def _words(record: GuardRecord, name: str) -> str:
    """Where a guarded fact was read, with the function under its own name."""
    return guard_text(record)[0] if record.source is None else path_text(record.source).replace("__f__", name, 1)


def _leaf(path: str, obj: Any, i: int, flat: Flat, kinds: set[str], first: dict[int, int]) -> Leaf:
    if isinstance(obj, torch.Tensor):
        same = first.setdefault(id(obj), i)
        leaf = Leaf(path, "tensor", shape=tuple(obj.shape), dtype=obj.dtype, device=str(obj.device), same_as=same if same != i else None)
        if same not in flat.read:
            return leaf
        asked = flat.tx.guards.asked
        strides = tuple(obj.stride()) if asked & ASKS_FOR_STRIDES else None
        return replace(leaf, read="value", strides=strides, requires_grad=obj.requires_grad if asked & ASKS_FOR_GRADIENTS else None)
    read = "" if not kinds else "type" if kinds == {"type"} and obj is not None else "value"
    if isinstance(obj, VALUES):
        return Leaf(path, "value", read, obj)
    return Leaf(path, "object", "type" if kinds == {"default"} else read, cls=class_name(type(obj)))


ASKS_FOR_STRIDES = {"stride", "is_contiguous", "storage_offset", "is_non_overlapping_and_dense"}
ASKS_FOR_GRADIENTS = {"requires_grad", "is_leaf"}
ASKS_FOR_IDENTITY = {"is", "is in torch"}  # torch's own code does it for speed only
VALUES = (
    *(int, float, complex, bool, str, bytes, type(None), slice, range, type(Ellipsis), torch.Size),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)


def _leads_into(path: str, objects: list[str]) -> bool:
    return any(path == o or is_below(path, o) for o in objects)


def is_below(path: str, above: str) -> bool:
    """Whether a path leads into what another leads to."""
    return path.startswith(above) and path[len(above) :][:1] in (".", "[")


def _live_check(records: list[GuardRecord], arguments: Arguments) -> Callable[[dict[str, Any]], str]:
    """Guards on objects that have no form as data, checked as compiled code checks them."""
    built: BuiltGuards = build(records, [], _C.GlobalState())
    names = [p.name for p in arguments.parameters]

    def check(given: dict[str, Any]) -> str:
        inputs = tuple(given[n] for n in names)
        found = built.tree.explain(inputs)
        if found is None or built.records[found[0]].kind == "state":
            return ""
        record = built.records[found[0]]
        assert record.source is not None
        return failure(record, found[1]).replace(record.source.name, path_text(record.source), 1)

    return check


# ---- the module ---------------------------------------------------------------------------------------------
