"""From torch.fx to plain data and back, and running plain data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import fx

from minifier.graph.ir import Graph, Input, Named, Node, Other, Recipe, Ref, Seq, Tensor
from minifier.graph.names import Unsupported, constant_in, constant_out, name_of, resolve
from minifier.graph.values import recipe_of, spec_of, store_value

_NO_SPEC = Other()


def from_fx(module: fx.GraphModule, inputs: Sequence[Any], store: Path | None = None, left_out: list[str] | None = None) -> Graph:
    """The graph of a module that is called with `inputs`. Values are seen by running it once, in eager.

    With a `store`, the inputs are kept there exactly; without, they get recipes. What can't be written down is left out where there is a
    list `left_out`, which is told of it: tensors that come from there are inputs, and those that go there are results. Raises Unsupported
    without one, or what running it raises; TypeError where the number of inputs is wrong.
    """
    expected = sum(n.op == "placeholder" for n in module.graph.nodes)
    if len(inputs) != expected:
        raise TypeError(f"the graph takes {expected} inputs, not {len(inputs)}")
    made: list[Input] = []
    nodes: list[Node] = []
    outputs: list[int] = []
    numbers: dict[fx.Node, Any] = {}
    values: dict[int, Any] = {}
    given, made_outside = iter(inputs), {} if left_out is None else _made_outside(module, inputs, left_out)
    for id, n in enumerate(module.graph.nodes):
        if n in made_outside:
            # Nothing else may read these, and what is no result and read by nothing is neither computed nor compared.
            outputs += [r.id for a in n.all_input_nodes if isinstance(r := numbers.get(a), Ref)]
            if isinstance(value := made_outside[n], torch.Tensor):
                numbers[n], values[id] = Ref(id), value
                made.append(_input(id, n, value, made, values, store))
        elif n.op in ("placeholder", "get_attr"):
            value = next(given) if n.op == "placeholder" else _attribute(module, n)
            if not isinstance(value, torch.Tensor):
                numbers[n] = _literal(n, value)
                continue
            numbers[n], values[id] = Ref(id), value
            made.append(_input(id, n, value, made, values, store))
        elif n.op == "output":
            outputs += [r.id for r in _flat_refs(n.args[0], numbers)]
        elif n.op in ("call_function", "call_method"):
            numbers[n] = Ref(id)
            nodes.append(_node(id, n, numbers))
        else:
            raise Unsupported(f"{n.format_node()}: {n.op} can't be reduced")
    computed = {n.id for n in nodes}
    graph = Graph(tuple(made), tuple(nodes), tuple(dict.fromkeys(o for o in outputs if o in computed)))
    return described(graph, {id: _copied(v) for id, v in values.items()}, has_values=True)


def to_fx(graph: Graph) -> fx.GraphModule:
    """A module with that graph. Its attributes are there but have no values yet (`bind`). Raises Unsupported."""
    made = fx.Graph()
    known: dict[int, fx.Node] = {}
    for i in sorted(graph.inputs, key=lambda i: i.is_attribute):
        known[i.id] = made.get_attr(_attribute_name(i)) if i.is_attribute else made.placeholder(i.name)
    for n in graph.nodes:
        args, kwargs = real(n.args, known), {k: real(v, known) for k, v in n.kwargs}
        target = n.target if n.op == "method" else resolve(n.target)
        known[n.id] = made.create_node(f"call_{n.op}", target, args, kwargs, name=n.name)
    made.output(tuple(known[o] for o in graph.outputs))
    root = torch.nn.Module()
    for i in graph.inputs:
        if i.is_attribute:
            empty = torch.empty(0)
            root.register_parameter(_attribute_name(i), torch.nn.Parameter(empty)) if i.requires_grad else root.register_buffer(
                _attribute_name(i), empty
            )
    return fx.GraphModule(root, made)


def bind(module: fx.GraphModule, graph: Graph, values: dict[int, torch.Tensor]) -> list[torch.Tensor]:
    """Give the attributes of a module of `to_fx` their values; what it is to be called with."""
    for i in graph.inputs:
        if i.is_attribute:
            setattr(module, _attribute_name(i), values[i.id])
    return [values[i.id] for i in graph.inputs if not i.is_attribute]


def execute(graph: Graph, values: dict[int, Any], see: Callable[[Node, Any], None] = lambda node, value: None) -> list[Any]:
    """Run a graph in eager; `see` is told the value of each node. Results in order. Raises whatever an operation raises."""
    last = {read: n.id for n in graph.nodes for read in n.reads}
    wanted, known = set(graph.outputs), dict(values)
    for n in graph.nodes:
        args, kwargs = real(n.args, known), {k: real(v, known) for k, v in n.kwargs}
        known[n.id] = getattr(args[0], n.target)(*args[1:], **kwargs) if n.op == "method" else resolve(n.target)(*args, **kwargs)
        see(n, known[n.id])
        for read in n.reads:
            if last[read] == n.id and read not in wanted:
                del known[read]
    return [known[o] for o in graph.outputs]


def described(graph: Graph, values: dict[int, Any], has_values: bool) -> Graph:
    """The graph with what its values look like when it is run on these; with `has_values`, recipes for values like them too."""
    seen: dict[int, Node] = {}

    def see(node: Node, value: Any) -> None:
        grad = isinstance(value, torch.Tensor) and value.requires_grad
        recipe = recipe_of(value) if has_values else node.recipe
        seen[node.id] = replace(node, spec=spec_of(value), recipe=recipe, requires_grad=grad)

    execute(graph, values, see)
    nodes = tuple(seen[n.id] for n in graph.nodes)
    tensors = {n.id for n in nodes if isinstance(n.spec, Tensor)}
    return Graph(graph.inputs, nodes, tuple(o for o in graph.outputs if o in tensors))


def real(value: Any, known: dict[int, Any]) -> Any:
    """An argument with values in the place of numbers. Raises Unsupported for constants that torch doesn't have."""
    if isinstance(value, Ref):
        return known[value.id]
    if isinstance(value, Named):
        return constant_in(value)
    if isinstance(value, tuple):
        return tuple(real(v, known) for v in value)
    if isinstance(value, Seq):
        items = [real(v, known) for v in value.items]
        return items if value.kind == "list" else slice(*items) if value.kind == "slice" else dict(items)
    return value


_OUTSIDE = "outside"  # key of `meta`


def _made_outside(module: fx.GraphModule, inputs: Sequence[Any], left_out: list[str]) -> dict[fx.Node, Any]:
    """Nodes that can't be written down, and those that read what is no tensor of theirs, with their values when they are run."""
    for n in module.graph.nodes:
        try:
            if n.op == "get_attr" and not isinstance(value := _attribute(module, n), torch.Tensor):
                _literal(n, value)
            elif n.op.startswith("call_"):
                _node(0, n, dict.fromkeys(n.all_input_nodes, Ref(0)))
        except Unsupported as e:
            left_out.append(str(e))
            n.meta[_OUTSIDE] = True
    return _Outside(module).found_with(inputs) if left_out else {}


class _Outside(fx.Interpreter):
    """Keeps what nodes give that are marked, and those that read what is no tensor of these."""

    def found_with(self, inputs: Sequence[Any]) -> dict[fx.Node, Any]:
        self.found: dict[fx.Node, Any] = {}
        self.run(*(_copied(i) if isinstance(i, torch.Tensor) else i for i in inputs))
        return self.found

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        reads = (self.found[a] for a in n.all_input_nodes if a in self.found)
        if n.op != "output" and (n.meta.pop(_OUTSIDE, False) or not all(isinstance(r, torch.Tensor) for r in reads)):
            self.found[n] = _copied(value) if isinstance(value, torch.Tensor) else value
        return value


def _input(id: int, n: fx.Node, value: torch.Tensor, made: list[Input], values: dict[int, Any], store: Path | None) -> Input:
    spec = spec_of(value)
    assert isinstance(spec, Tensor)
    recipe = recipe_of(value) if store is None else Recipe("stored", key=store_value(store, value))
    is_attribute = n.op == "get_attr"
    plain = Input(id, n.name, spec, recipe, value.requires_grad, is_attribute)
    for other in made:
        first = values[other.id]
        if other.base is None and not is_attribute and _shares(first, value) and _holds(first, value):
            return replace(plain, base=other.id, offset=value.storage_offset() - first.storage_offset(), requires_grad=False)
    return plain


def _copied(value: torch.Tensor) -> torch.Tensor:
    """The same values in memory of their own, laid out the same; of a tensor that overlaps itself, the tensor."""
    plain = value.detach()
    if all(s > 0 or n <= 1 for s, n in zip(value.stride(), value.shape, strict=True)):
        plain = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device).copy_(plain)
    return plain.requires_grad_(value.requires_grad)


def _shares(one: torch.Tensor, two: torch.Tensor) -> bool:
    return one.dtype == two.dtype and one.untyped_storage().data_ptr() == two.untyped_storage().data_ptr() != 0


def _holds(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether the memory from the first to the last element of one has that of the other in it."""

    def span(t: torch.Tensor) -> tuple[int, int]:
        first = int(t.storage_offset())
        return first, first + sum((int(n) - 1) * int(s) for n, s in zip(t.shape, t.stride(), strict=True))

    return span(one)[0] <= span(two)[0] and span(two)[1] <= span(one)[1]


def _attribute(module: fx.GraphModule, n: fx.Node) -> Any:
    value: Any = module
    for part in str(n.target).split("."):
        value = getattr(value, part)
    return value


def _attribute_name(i: Input) -> str:
    return f"attr_{i.name}"


def _literal(n: fx.Node, value: Any) -> Any:
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    raise Unsupported(f"{n.format_node()}: {type(value).__name__} can't be reduced")


def _node(id: int, n: fx.Node, numbers: dict[fx.Node, Any]) -> Node:
    try:
        target = str(n.target) if n.op == "call_method" else name_of(n.target)  # type: ignore[arg-type]  # of a function: callable
        args, kwargs = _plain(n.args, numbers), tuple((k, _plain(v, numbers)) for k, v in n.kwargs.items())
    except Unsupported as e:
        raise Unsupported(f"{n.format_node()}: {e}") from e
    return Node(id, n.name, n.op.removeprefix("call_"), target, args, kwargs, _NO_SPEC, source=_source(n))


def _source(n: fx.Node) -> str:
    """The user's line that a node comes from, as `file:line`; capture notes it as a tuple that begins with the two."""
    noted = n.meta.get("source")
    return f"{noted[0]}:{noted[1]}" if isinstance(noted, tuple) and len(noted) >= 2 else ""


def _plain(value: Any, numbers: dict[fx.Node, Any]) -> Any:
    if isinstance(value, fx.Node):
        return numbers[value]
    if isinstance(value, (bool, int, float, complex, str, type(None))):
        return value
    if isinstance(value, slice):
        return Seq("slice", tuple(_plain(v, numbers) for v in (value.start, value.stop, value.step)))
    if isinstance(value, dict):
        return Seq("dict", tuple((_plain(k, numbers), _plain(v, numbers)) for k, v in value.items()))
    if isinstance(value, list):
        return Seq("list", tuple(_plain(v, numbers) for v in value))
    if isinstance(value, tuple):
        return tuple(_plain(v, numbers) for v in value)
    named = constant_out(value)
    if named is None:
        raise Unsupported(f"{type(value).__name__} among arguments")
    return named


def _flat_refs(value: Any, numbers: dict[fx.Node, Any]) -> list[Ref]:
    if isinstance(value, fx.Node):
        return [r] if isinstance(r := numbers[value], Ref) else []
    if isinstance(value, (tuple, list)):
        return [r for v in value for r in _flat_refs(v, numbers)]
    return [r for v in value.values() for r in _flat_refs(v, numbers)] if isinstance(value, dict) else []
