"""The ATen form of an exported graph: functional operators, then the writes to arguments and buffers, then the results.

It is the forward graph of `dynamo.aot`. Autograd runs through its operators as through any others, except where the program itself cut
the history (`no_grad`, `detach`): below autograd nothing of that is left, so the results of such a graph have no history at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from dynamo.aot import AotError
from dynamo.aot import partition as partitions
from dynamo.aot.branches import RUN_BRANCH, Pair
from dynamo.aot.facts import Output as Placed
from dynamo.aot.facts import attribute, paths_of
from dynamo.aot.joint import Joint, Primal, trace_joint
from dynamo.export.calling import put
from dynamo.export.captured import Flat, stack_text
from dynamo.export.facts import Call, Constant, ExportError, Output, Row
from dynamo.fake import FakeError
from dynamo.graph import helpers as graph_helpers

aten = torch.ops.aten

# what cuts the history of gradients
_CUTS = ("detach", "detach_", "enter_inference_mode", "set_data", "checkpoint", "data", "requires_grad_")


def to_aten(
    flat: Flat, call: Call, leaves: list[Any], decompositions: Mapping[Any, Callable[..., Any]] | None
) -> tuple[Graph, dict[str, Any], Call]:
    """The graph, its attributes and how it is called. Raises ExportError for what can't be made functional."""
    holder = torch.nn.Module()
    for name, obj in flat.attributes.items():
        put(holder, name, obj)
    gm = GraphModule(holder, flat.graph)
    try:
        joint = trace_joint(gm, leaves, dict(decompositions or {}))
        if joint.modes_after:
            raise AotError("the function leaves a global mode changed")
        made = _Writer(flat, joint, gm)
    except (AotError, FakeError) as e:
        raise ExportError(f"{call.name} has no ATen graph: {e} [DD094]") from e
    rows = tuple(made.row(row) for row in call.result)
    apart = "memory" if joint.sharing() is not None else call.apart
    call = replace(call, result=rows, is_aten=True, has_gradients=not _cuts(flat.graph), restores_modes=False, apart=apart)
    return made.graph, made.attributes, call


def _cuts(graph: Graph) -> bool:
    """Whether the program cuts the history of a value that has one."""
    is_on = torch.is_grad_enabled()
    for node in graph.nodes:
        name = getattr(node.target, "__name__", node.target)
        if name == "_set_grad_enabled":
            is_on = bool(node.args[0])
        cuts = not is_on or name in _CUTS or hasattr(node.target, "function")
        if cuts and any(getattr(n.meta.get("val"), "requires_grad", False) for n in node.all_input_nodes):
            return True
    return False


def _bodies(node: Node) -> list[tuple[str, GraphModule]]:
    """The graphs of a conditional, which its node names by a number that only this process knows."""
    number: Any = node.args[1]
    pair = Pair.of(number)
    if pair.when_true.held or pair.when_false.held:
        raise AotError("a branch of torch.cond holds a constant tensor")
    return [(f"true_branch_{number}", _plain(pair.when_true.graph)), (f"false_branch_{number}", _plain(pair.when_false.graph))]


def _branch_arguments(node: Node, bodies: list[Node], env: Mapping[Node, Node]) -> tuple[Node, ...]:
    predicate, inputs = node.args[0], node.args[2]
    assert isinstance(predicate, Node) and isinstance(inputs, list | tuple)
    return (env[predicate], *bodies, *[env[n] for n in inputs if isinstance(n, Node)])


def _plain(gm: GraphModule) -> GraphModule:
    """The graph of a branch with its own conditionals written out."""
    root, graph, env = torch.nn.Module(), Graph(), dict[Node, Node]()
    for node in gm.graph.nodes:
        if node.target is not RUN_BRANCH:
            env[node] = graph.node_copy(node, env.__getitem__)
            continue
        for name, body in (bodies := _bodies(node)):
            setattr(root, name, body)
        env[node] = graph.call_function(graph_helpers.cond, _branch_arguments(node, [graph.get_attr(name) for name, _ in bodies], env))
    return GraphModule(root, graph)


class _Writer:
    """From the joint graph to one that is called with the leaves."""

    def __init__(self, flat: Flat, joint: Joint, gm: GraphModule) -> None:
        self.joint = joint
        self.graph = Graph()
        self.attributes: dict[str, Any] = {}
        self.paths = paths_of(gm)
        self.inputs = [self.graph.placeholder(n.name) for n in flat.inputs]
        for new, old in zip(self.inputs, flat.inputs, strict=True):
            new.meta.update(old.meta)
        forward = partitions.inference(joint).forward
        env: dict[Node, Node] = {}
        placeholders = [n for n in forward.graph.nodes if n.op == "placeholder"]
        for node, primal in zip(placeholders, joint.primals, strict=True):
            env[node] = self._primal(node, primal)
        self.primals = [env[n] for n in placeholders]
        targets = dict(env)
        if joint.needs_backward:  # autograd may keep what an operator read, which the writes at the end would change
            env |= {placeholders[i]: self._emit(aten.clone.default, (self.primals[i],)) for i in (*joint.written, *joint.returned)}
        results: tuple[Any, ...] = ()
        for node in forward.graph.nodes:
            if node.op == "output":
                results = tuple(env[r] for r in node.args[0])
            elif node.op == "get_attr":
                env[node] = self._get(str(node.target), attribute(forward, str(node.target)))
            elif node.target is RUN_BRANCH:
                env[node] = self._branch(node, env)
            elif node.op != "placeholder":
                made = env[node] = self.graph.node_copy(node, lambda n: env[n])
                if node.target is aten.copy_.default:
                    made.update_arg(0, targets[node.args[0]])
                made.meta["stack_trace"] = stack_text(node)
        self._writes(results)
        outputs = [self._placed(o, results) for o in joint.outputs]
        self.constants = {i: o.value for i, o in enumerate(joint.outputs) if o.kind == "constant"}
        self.graph.output(tuple(outputs))
        self._clean()

    def _primal(self, node: Node, primal: Primal) -> Node:
        if primal.members:
            raise AotError("arguments that share memory are written")
        if primal.argument is not None:
            self.inputs[primal.argument].meta.update(node.meta)
            return self.inputs[primal.argument]
        return self._get(self.paths.get(id(primal.real)) or f"lifted_{len(self.attributes)}", primal.real, node)

    def _get(self, name: str, obj: Any, like: Node | None = None) -> Node:
        self.attributes[name] = obj
        made = self.graph.get_attr(name)
        if like is not None:
            made.meta.update(like.meta)
        return made

    def _branch(self, node: Node, env: dict[Node, Node]) -> Node:
        bodies = [self._get(name, body) for name, body in _bodies(node)]
        made = self.graph.call_function(graph_helpers.cond, _branch_arguments(node, bodies, env))
        made.meta.update(node.meta)
        return made

    def _writes(self, results: tuple[Any, ...]) -> None:
        joint = self.joint
        first = len(joint.results) - len(joint.returned)
        for result, i in enumerate(joint.returned, first):
            self._emit(aten.copy_.default, (self.primals[i], results[result]))
        for i, shape, strides, offset in joint.relaid:
            self._emit(aten.as_strided_.default, (self.primals[i], list(shape), list(strides), joint.sources[i].layout[2] + offset))

    def _placed(self, o: Placed, results: tuple[Any, ...]) -> Any:
        if o.kind == "constant":
            return o.value
        node = results[o.index] if o.kind == "graph" else self.primals[o.index]
        for step in o.steps:
            node = self._emit(step.op, (node, *step.args), dict(step.kwargs))
        return node

    def _emit(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Node:
        node = self.graph.call_function(op, args, kwargs or {})
        source = next((a for a in reversed(args) if isinstance(a, Node)), None)
        if source is not None:
            node.meta.update({k: v for k, v in source.meta.items() if k in ("source", "stack_trace")})
            vals = [a.meta.get("val") if isinstance(a, Node) else a for a in args]
            node.meta["val"] = vals[0] if op is aten.copy_.default else op(*vals, **(kwargs or {}))
        return node

    def _clean(self) -> None:
        for node in reversed(list(self.graph.nodes)):
            if node.op == "get_attr" and not node.users:
                self.graph.erase_node(node)
                self.attributes.pop(str(node.target), None)

    def row(self, row: Row) -> Row:
        """Outputs that are constants have no node."""
        return Constant(self.constants[row.index]) if isinstance(row, Output) and row.index in self.constants else row
