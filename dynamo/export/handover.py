"""An exported ATen graph as a `torch.export.ExportedProgram`, through the constructors of `torch.export`.

Parameters, buffers and constants become the first inputs of its graph, writes to them results. Importing `torch.export` loads nothing
of torch's own compiler; what an `ExportedProgram` itself loads when it is made (its checks, `.module()`) is torch's affair, so this file
is imported when somebody asks.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.export import exported_program as programs
from torch.export import graph_signature as signatures
from torch.fx import Graph, Node

from dynamo.aot.facts import attribute
from dynamo.export.calling import ExportResult, call_of, inspect_signature
from dynamo.export.facts import At, Call, ExportError, Group, Tree
from dynamo.export.trees import KINDS, build
from dynamo.fake import FakeTensor
from dynamo.ops.facts import facts_of

aten = torch.ops.aten


def to_exported_program(exported: Any) -> Any:
    """A `torch.export.ExportedProgram` of what `export(..., aten_graph=True)` gave.

    Raises ExportError where torch's form has no room: arguments or results of classes that `torch.utils._pytree` doesn't know, results
    that are made from other objects of the arguments than tensors, written parameters.
    """
    gm = exported.graph_module if isinstance(exported, ExportResult) else exported
    call = call_of(gm)
    if not call.is_aten:
        raise ExportError("torch.export holds ATen graphs: export with aten_graph=True [DD094]")
    lifted = _Lifted(gm, call)
    args, kwargs = _example(call)
    outputs = build(call.result, _given(call, args, kwargs), [_Ref(i) for i in range(len(lifted.results))])
    flat, out_spec = pytree.tree_flatten(outputs)
    inputs, in_spec = pytree.tree_flatten((args, kwargs))
    if len(inputs) != len(call.leaves):
        raise ExportError("an argument is of a class that torch.utils._pytree doesn't know: register it [DD094]")
    kinds = signatures.InputKind
    in_specs = [
        signatures.InputSpec(getattr(kinds, kind), signatures.TensorArgument(name=node.name), target, persistent)
        for node, kind, target, persistent in lifted.inputs
    ]
    in_specs += [
        signatures.InputSpec(kinds.USER_INPUT, _argument(node, leaf), None) for node, leaf in zip(lifted.user, call.leaves, strict=True)
    ]
    out_specs = [
        signatures.OutputSpec(getattr(signatures.OutputKind, kind), signatures.TensorArgument(name=node.name), target)
        for node, kind, target in lifted.writes
    ]
    user_outputs = [_result(x, lifted) for x in flat]
    out_specs += [signatures.OutputSpec(signatures.OutputKind.USER_OUTPUT, argument, None) for argument, _ in user_outputs]
    lifted.graph.output((*(node for node, _, _ in lifted.writes), *(value for _, value in user_outputs)))
    lifted.graph.lint()
    signature = programs.ModuleCallSignature(inputs=[], outputs=[], in_spec=in_spec, out_spec=out_spec)
    return programs.ExportedProgram(
        root=torch.nn.Module(),
        graph=lifted.graph,
        graph_signature=signatures.ExportGraphSignature(in_specs, out_specs),
        state_dict=lifted.state,
        range_constraints={},
        module_call_graph=[programs.ModuleCallEntry(fqn="", signature=signature)],
        example_inputs=None,
        constants=lifted.constants,
    )


class _Ref:
    """Stands for result `index` of the graph while the tree of results is made."""

    def __init__(self, index: int) -> None:
        self.index = index


class _Lifted:
    """The graph with attributes as inputs and writes as results."""

    def __init__(self, gm: Any, call: Call) -> None:
        self.graph = Graph()
        self.inputs: list[tuple[Node, str, str, bool | None]] = []
        self.state: dict[str, torch.Tensor] = {}
        self.constants: dict[str, Any] = {}
        self.writes: list[tuple[Node, str, str]] = []
        self.results: tuple[Any, ...] = ()
        env: dict[Node, Any] = {}
        nodes = list(gm.graph.nodes)
        kept = gm.state_dict(keep_vars=True)
        by_target: dict[str, Node] = {}
        for node in nodes:
            if node.op == "get_attr":
                name = str(node.target)
                if name not in by_target:
                    by_target[name] = self._lift(gm, name, kept)
                env[node] = by_target[name]
        self.user = [self._placeholder(n.name, n.meta.get("val")) for n in nodes if n.op == "placeholder"]
        env |= dict(zip((n for n in nodes if n.op == "placeholder"), self.user, strict=True))
        for node in nodes:
            if node.op == "output":
                self.results = tuple(env[x] if isinstance(x, Node) else x for x in node.args[0])
            elif node.op == "call_function":
                self._copy(node, env)

    def _lift(self, gm: Any, name: str, kept: dict[str, Any]) -> Node:
        tensor = attribute(gm, name)
        flat = name.replace(".", "_")
        if isinstance(tensor, torch.nn.Parameter):
            prefix, kind, persistent = "p", "PARAMETER", None
        else:
            prefix, kind, persistent = "b", "BUFFER", name in kept
        (self.state if kind == "PARAMETER" or persistent else self.constants)[name] = tensor
        node = self._placeholder(f"{prefix}_{flat}", tensor)
        self.inputs.append((node, kind, name, persistent))
        return node

    def _placeholder(self, name: str, val: Any) -> Node:
        node = self.graph.placeholder(name)
        node.meta["val"] = _meta(val)
        return node

    def _copy(self, node: Node, env: dict[Node, Any]) -> None:
        if node.target is aten.copy_.default:
            target, value = (env[n] for n in node.all_input_nodes[:2])
            self._write(target, value)
            for old in [n for n in env if env[n] is target]:
                env[old] = value
            env[node] = value
            return
        if isinstance(node.target, torch._ops.OpOverload) and facts_of(node.target).writes:
            raise ExportError(f"torch.export has no form for {node.target}, which changes an argument's shape [DD094]")
        made = env[node] = self.graph.node_copy(node, lambda n: env[n])
        val = node.meta.get("val")
        made.meta = {"val": pytree.tree_map(_meta, val), "stack_trace": node.meta.get("stack_trace", "")}

    def _write(self, target: Node, value: Node) -> None:
        for node, kind, name, _ in self.inputs:
            if node is target:
                if kind == "PARAMETER":
                    raise ExportError(f"torch.export has no form for the write to the parameter {name} [DD094]")
                self.writes.append((value, "BUFFER_MUTATION", name))
                return
        self.writes.append((value, "USER_INPUT_MUTATION", target.name))


def _meta(val: Any) -> Any:
    if not isinstance(val, torch.Tensor):
        return val
    facts = val.meta if isinstance(val, FakeTensor) else val
    return torch.empty_strided(tuple(facts.shape), facts.stride(), dtype=facts.dtype, device="meta")


def _argument(node: Node, leaf: Any) -> Any:
    if leaf.kind == "tensor":
        return signatures.TensorArgument(name=node.name)
    return signatures.ConstantArgument(name=node.name, value=leaf.value)


def _result(value: Any, lifted: _Lifted) -> tuple[Any, Any]:
    if isinstance(value, _Ref):
        node = lifted.results[value.index]
        return signatures.TensorArgument(name=node.name), node
    if value is None or isinstance(value, int | float | bool | str):
        return signatures.ConstantArgument(name="", value=value), value
    raise ExportError(f"torch.export has no form for a {type(value).__qualname__} in the result [DD094]")


def _example(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of the right structure, with a placeholder object for each tensor."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter, tree in zip(call.parameters, call.arguments, strict=True):
        value = _filled(tree, call)
        if parameter.kind == "VAR_POSITIONAL":
            args += value
        elif parameter.kind == "VAR_KEYWORD":
            kwargs |= value
        elif parameter.kind == "KEYWORD_ONLY":
            kwargs[parameter.name] = value
        else:
            args.append(value)
    return tuple(args), kwargs


def _filled(tree: Tree, call: Call) -> Any:
    match tree:
        case At(index):
            leaf = call.leaves[index]
            return leaf.value if leaf.kind != "tensor" else _Ref(-1)
        case Group(kind, cls, keys, items):
            return KINDS[kind].make(cls, keys, [_filled(t, call) for t in items])


def _given(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    bound = inspect_signature(call.parameters).bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)
