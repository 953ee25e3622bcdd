"""A graph as plain data: inputs, operations in order, results. Immutable, hashable, written as JSON and read back.

Every value has a number of its own, which it keeps whatever is edited: what was computed by a node may become an input of the same number.
Nothing here imports torch or can be executed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any


class GraphError(ValueError):
    """Bytes that are no graph."""


@dataclass(frozen=True)
class Ref:
    """The value with that number."""

    id: int


@dataclass(frozen=True)
class Named:
    """A constant of torch by name: `torch.float32`, `device:cpu`, `memory_format` and the like."""

    kind: str
    text: str


@dataclass(frozen=True)
class Seq:
    """A list, slice or dict among arguments; tuples are tuples. Dicts are pairs."""

    kind: str
    items: tuple[Any, ...]


@dataclass(frozen=True)
class Tensor:
    """What a tensor looks like."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    device: str = "cpu"

    def fits(self, other: object) -> bool:
        """Whether one can stand where the other does: same shape, dtype and device."""
        return isinstance(other, Tensor) and (self.shape, self.dtype, self.device) == (other.shape, other.dtype, other.device)


@dataclass(frozen=True)
class Number:
    """A Python number that a node gives, with the value it has."""

    value: int | float | bool


@dataclass(frozen=True)
class Other:
    """Anything else: several values, or nothing."""

    text: str = ""


Spec = Tensor | Number | Other


@dataclass(frozen=True)
class Recipe:
    """How an input gets its values: `randn`, `rand`, `randint`, `ones`, `zeros`, `arange`, or `stored` under a key."""

    kind: str = "randn"
    low: int = 0
    high: int = 2
    key: str = ""


@dataclass(frozen=True)
class Input:
    """An argument or, with `is_attribute`, a parameter or buffer. `base` shares the memory of another input, from `offset` elements on."""

    id: int
    name: str
    spec: Tensor
    recipe: Recipe = Recipe()
    requires_grad: bool = False
    is_attribute: bool = False
    base: int | None = None
    offset: int = 0


@dataclass(frozen=True)
class Node:
    """One operation. `op` is `function` or `method`; `target` the qualified name or the method's; `source` the user's line."""

    id: int
    name: str
    op: str
    target: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    spec: Spec
    recipe: Recipe = Recipe()
    requires_grad: bool = False
    source: str = ""

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """Numbers of the values among the arguments, in order, each once."""
        return tuple(dict.fromkeys(refs((self.args, self.kwargs))))

    @cached_property
    def row(self) -> list[Any]:
        """As `dump` writes it."""
        start = [self.id, self.name, self.op, self.target, _out(self.args), _out(self.kwargs)]
        return [*start, _spec_out(self.spec), vars(self.recipe), self.requires_grad, self.source]


@dataclass(frozen=True)
class Graph:
    """Inputs, nodes in an order in which they can run, and the numbers of the results."""

    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]

    @cached_property
    def values(self) -> tuple[Input | Node, ...]:
        return (*self.inputs, *self.nodes)

    @cached_property
    def specs(self) -> dict[int, Spec]:
        return {v.id: v.spec for v in self.values}

    @cached_property
    def users(self) -> dict[int, list[int]]:
        """Numbers of the nodes that read a value, for every value."""
        found: dict[int, list[int]] = {v.id: [] for v in self.values}
        for node in self.nodes:
            for read in node.reads:
                found[read].append(node.id)
        return found

    @cached_property
    def by_id(self) -> dict[int, Node]:
        return {n.id: n for n in self.nodes}


def refs(value: Any) -> Iterator[int]:
    """Numbers of the values in an argument, in order."""
    return (leaf.id for leaf in leaves(value) if isinstance(leaf, Ref))


def leaves(value: Any) -> list[Any]:
    """Everything in an argument that holds nothing else, in order."""
    if isinstance(value, Seq):
        return leaves(value.items)
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, tuple) else [value]


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """An argument with `change` applied to everything in it that holds nothing else."""
    if isinstance(value, Seq):
        return replace(value, items=mapped(value.items, change))
    if isinstance(value, tuple):
        return tuple(mapped(item, change) for item in value)
    return change(value)


def canonical(graph: Graph) -> bytes:
    """The graph without names and source lines, numbered by place: equal for graphs that compute the same from the same inputs."""
    number = {v.id: i for i, v in enumerate(graph.values)}

    def renamed(value: Any) -> Any:
        return Ref(number[value.id]) if isinstance(value, Ref) else value

    rows: list[Any] = []
    for i in graph.inputs:
        base = None if i.base is None else number[i.base]
        seed = i.id if i.recipe.kind in ("randn", "rand", "randint") else 0
        rows.append([_spec_out(i.spec), vars(i.recipe), seed, i.requires_grad, i.is_attribute, base, i.offset])
    for n in graph.nodes:
        rows.append([n.op, n.target, _out(mapped(n.args, renamed)), _out(mapped(n.kwargs, renamed))])
    rows.append([number[o] for o in graph.outputs])
    return json.dumps(rows).encode()


def dump(graph: Graph) -> bytes:
    """The whole graph. `load` gives an equal one back."""
    inputs = [[i.id, i.name, _spec_out(i.spec), vars(i.recipe), i.requires_grad, i.is_attribute, i.base, i.offset] for i in graph.inputs]
    return json.dumps({"inputs": inputs, "nodes": [n.row for n in graph.nodes], "outputs": graph.outputs}).encode()


def load(data: bytes) -> Graph:
    """Raises GraphError for what `dump` did not write."""
    try:
        value = json.loads(data)
        inputs = tuple(
            Input(i, str(name), _tensor_in(spec), Recipe(**recipe), bool(grad), bool(attr), base, int(offset))
            for i, name, spec, recipe, grad, attr, base, offset in value["inputs"]
        )
        nodes = tuple(
            Node(i, str(name), str(op), str(target), _in(args), _in(kwargs), _spec_in(spec), Recipe(**recipe), bool(grad), str(source))
            for i, name, op, target, args, kwargs, spec, recipe, grad, source in value["nodes"]
        )
        graph = Graph(inputs, nodes, tuple(value["outputs"]))
        check(graph)
        return graph
    except (ValueError, TypeError, KeyError, RecursionError) as e:
        raise GraphError(f"not a graph: {e}") from e


def check(graph: Graph) -> None:
    """Raises GraphError unless every value is defined once, before it is read."""
    known: set[int] = set()
    for value in graph.values:
        for read in value.reads if isinstance(value, Node) else ():
            if read not in known:
                raise GraphError(f"{value.name} reads value {read} before it is there")
        if not isinstance(value.id, int) or value.id in known:
            raise GraphError(f"{value.name} has the number of another value")
        known.add(value.id)
    if missing := set(graph.outputs) - known:
        raise GraphError(f"no value has the number of result {min(missing)}")


def _out(value: Any) -> Any:
    match value:
        case Ref(id):
            return {"ref": id}
        case Named(kind, text):
            return {"named": [kind, text]}
        case Seq(kind, items):
            return {kind: [_out(i) for i in items]}
        case tuple():
            return {"tuple": [_out(i) for i in value]}
        case complex():
            return {"complex": [value.real, value.imag]}
        case None | bool() | int() | float() | str():
            return value
    raise GraphError(f"{type(value).__name__} among arguments")


def _in(value: Any) -> Any:
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise GraphError("a bare list among arguments")
        return value
    ((kind, items),) = value.items()
    match kind:
        case "ref":
            return Ref(items)
        case "named":
            return Named(*map(str, items))
        case "tuple":
            return tuple(_in(i) for i in items)
        case "complex":
            return complex(*items)
        case "list" | "slice" | "dict":
            return Seq(kind, tuple(_in(i) for i in items))
    raise GraphError(f"{kind!r} among arguments")


def _spec_out(spec: Spec) -> Any:
    match spec:
        case Tensor(shape, stride, dtype, device):
            return ["tensor", shape, stride, dtype, device]
        case Number(value):
            return ["number", value]
        case Other(text):
            return ["other", text]


def _spec_in(value: Any) -> Spec:
    match value:
        case ["tensor", *_]:
            return _tensor_in(value)
        case ["number", number]:
            return Number(number)
        case ["other", text]:
            return Other(str(text))
    raise GraphError(f"{value!r:.40} describes no value")


def _tensor_in(value: Any) -> Tensor:
    _, shape, stride, dtype, device = value
    return Tensor(tuple(map(int, shape)), tuple(map(int, stride)), str(dtype), str(device))
