"""From a captured frame to a flat graph: a placeholder per leaf, parameters under their own names, changed buffers written back."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Graph, Node

from dynamo.compile.capture import Captured
from dynamo.export.calling import RESERVED
from dynamo.export.facts import ExportError
from dynamo.export.results import Results
from dynamo.source import Source
from dynamo.symbolic.attempt.tracer import Tracer
from dynamo.symbolic.values.kinds import DictValue, Lazy, ObjectValue, TensorValue, Value


class Flat:
    """The graph, the attributes it reads, and the rows of the result."""

    def __init__(self, captured: Captured, parameters: list[str], leaves: list[Any], paths: list[str], root: Any) -> None:
        assert captured.result is not None
        self.tx: Tracer = captured.tx
        self.graph = Graph()
        self.attributes: dict[str, Any] = {}
        self._names = own_names(root)
        self._attribute_of: dict[int, str] = {}
        self._env: dict[Node, Node] = {}
        self.inputs = [self.graph.placeholder(_name(path)) for path in paths]
        self._leaf_of = {id(leaf): i for i, leaf in reversed(list(enumerate(leaves))) if isinstance(leaf, torch.Tensor)}
        for node, leaf in zip(self.inputs, leaves, strict=True):
            if not isinstance(leaf, torch.Tensor):
                node.meta["val"] = leaf
        buffers = list(self._changed_buffers())
        self.read: set[int] = set()
        for node, v in self.tx.builder.placeholders:
            self._env[node] = self._input(node, v, parameters)
        for node in self.tx.builder.graph.nodes:
            if node not in self._env and node.op not in ("placeholder", "output"):
                self._copy(node)
        self.results = Results(captured, parameters, self.node_of, self._constant)
        replaced = self._write_buffers(buffers)
        self.graph.output(tuple(replaced.get(n, n) for n in self.results.outputs))
        for node in reversed(list(self.graph.nodes)):
            if node.op == "get_attr" and not node.users:
                self.graph.erase_node(node)

    def _input(self, node: Node, v: TensorValue, parameters: list[str]) -> Node:
        i = self._leaf_of.get(id(v.obj))
        if i is not None:
            self.read.add(i)
            placeholder = self.inputs[i]
            placeholder.meta.update(node.meta)
            return placeholder
        if v.source is not None and v.source.root.kind == "input" and int(v.source.root.arg) < len(parameters):
            where = path_text(v.source)
            raise ExportError(
                f"{where} is a tensor inside an argument that can't be taken apart; make it a dataclass or register it as a pytree [DD094]"
            )
        return self._attribute(node, v.obj)

    def _copy(self, node: Node) -> None:
        if node.op == "get_attr":
            self._env[node] = self._attribute(node, self.tx.builder.attributes[str(node.target)])
        else:
            made = self._env[node] = self.graph.node_copy(node, lambda n: self._env[n])
            made.meta["stack_trace"] = stack_text(node)

    def _constant(self, obj: torch.Tensor) -> Node:
        """The node of a tensor that nothing in the trace has read."""
        name = self._attribute_of.get(id(obj)) or self._names.get(id(obj)) or self._free("constant")
        self._attribute_of[id(obj)] = name
        self.attributes[name] = obj
        made = self.graph.get_attr(name)
        made.meta["val"] = self.tx.builder.mode.from_real(obj)
        return made

    def _attribute(self, node: Node, obj: Any) -> Node:
        i = self._leaf_of.get(id(obj))
        if i is not None and isinstance(obj, torch.Tensor):
            self.read.add(i)
            return self.inputs[i]
        name = self._attribute_of.get(id(obj))
        if name is None:
            name = self._names.get(id(obj)) or self._free(node.name)
            self._attribute_of[id(obj)] = name
            self.attributes[name] = obj
        made = self.graph.get_attr(name)
        made.meta.update(node.meta)
        return made

    def _free(self, name: str) -> str:
        name = name.strip("_") or "constant"
        taken = {n.partition(".")[0] for n in (*self._names.values(), *self.attributes)}
        while name in taken:
            name = f"{name}_"
        return name

    def node_of(self, v: TensorValue) -> Node:
        return self._env[v.node]

    # ---- what the function changes ------------------------------------------------------------------------

    def _changed_buffers(self) -> Iterator[tuple[torch.Tensor, TensorValue, str]]:
        """Buffers of modules that were given another tensor. Raises ExportError for any other change outside of the function."""
        tx = self.tx
        owners = {
            id(v.obj._buffers): v for v in tx.identities.by_id.values() if isinstance(v, ObjectValue) and isinstance(v.obj, torch.nn.Module)
        }
        refused: list[str] = []
        for v in tx.effects.mutated.values():
            owner = owners.get(id(getattr(v, "obj", None)))
            if isinstance(v, DictValue) and owner is not None:
                for name, old, new in _entries(tx, v):
                    where = f"{_place(owner)}.{name}"
                    if _same_layout(old, new):
                        yield old, new, where
                    elif new is not old:
                        refused.append(where)
            else:
                refused += _changes(tx, v)
        refused += [name for _, name, _ in tx.effects.global_writes.values()]
        refused += [f"{cls.__qualname__}.{name}" for cls, name in tx.effects.class_writes]
        refused += [var.name for var in tx.effects.context_writes]
        if refused:
            raise ExportError(
                f"export needs a function without side effects, this one changes {', '.join(refused)}; "
                "return the new value, or keep it in a buffer of the module [DD094]"
            )

    def _write_buffers(self, changed: list[tuple[torch.Tensor, TensorValue, str]]) -> dict[Node, Node]:
        """Write new values into the old tensors. Results that are the old tensor itself are copied before."""
        values = [(old, self.node_of(new)) for old, new, _ in changed]
        names = {self._attribute_of.get(id(old)) for old, _ in values}
        held: dict[Node, Node] = {}
        for node in {*self.results.outputs, *(n for _, n in values)}:
            if node.op == "get_attr" and node.target in names:
                held[node] = self.graph.call_method("clone", (node,))
                held[node].meta.update(node.meta)
        with_grad_off = [(old, held.get(n, n)) for old, n in values]
        for old, node in with_grad_off:
            target = self._attribute(node, old)
            written = self.graph.call_function(torch.ops.aten.copy_.default, (target, node))
            written.meta.update(node.meta)
        return held


def own_names(root: Any) -> dict[int, str]:
    """The name of each parameter and buffer of the module that is exported, or whose method is; a shared one has its first name."""
    module = root if isinstance(root, torch.nn.Module) else getattr(root, "__self__", None)
    names: dict[int, str] = {}
    if isinstance(module, torch.nn.Module):
        for name, t in (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)):
            names.setdefault(id(t), name)
    return names


def _entries(tx: Tracer, d: DictValue) -> Iterator[tuple[str, Any, Any]]:
    """(name, tensor before, value after) of the entries that were looked at."""
    for key, child in d.table.values():
        if not isinstance(child, Lazy):
            name = tx.as_python(key)
            before = d.obj.get(name)
            after = before if getattr(child, "obj", None) is before and before is not None else child
            yield name, before, after


def _same_layout(old: Any, new: Any) -> bool:
    return (
        isinstance(old, torch.Tensor)
        and isinstance(new, TensorValue)
        and old.shape == new.fake.shape
        and old.dtype == new.fake.dtype
        and str(old.device) == str(new.fake.fake_device)
        and not new.fake.requires_grad
    )


def _changes(tx: Tracer, v: Value) -> list[str]:
    """What changed in a value, by name. Attributes that were given what they had are no change."""
    if isinstance(v, DictValue) and v.owner is not None:
        found = []
        for key, child in v.table.values():
            if isinstance(child, Lazy):
                continue
            name = tx.as_python(key)
            before = v.obj.get(name) if isinstance(v.obj, dict) else None
            if not (name in (v.obj or {}) and _is_still(tx, child, before)):
                found.append(f"{_place(v.owner)}.{name}")
        gone = [k for k in (v.obj or {}) if k not in {tx.as_python(key) for key, _ in v.table.values()}]
        return found + [f"{_place(v.owner)}.{k}" for k in gone]
    return [_place(v)]


def _is_still(tx: Tracer, v: Value, before: Any) -> bool:
    if getattr(v, "obj", None) is before and before is not None:
        return True
    known = tx.try_python(v)
    return known is not None and type(known[0]) is type(before) and isinstance(before, int | float | str | None) and known[0] == before


def _place(v: Value) -> str:
    return path_text(v.source) if v.source is not None else v.describe()


def path_text(source: Source) -> str:
    """A source as the program would write it: `x`, `d['y']`, `cfg.scale`."""
    base = source.base
    if base is None:
        return str(source.name).removeprefix("L['").removesuffix("']")
    if source.kind in ("inst_dict", "cell"):
        return path_text(base)
    if base.kind == "inst_dict":
        return f"{path_text(base)}.{source.arg}"
    return path_text(base) + source.name[len(base.name) :] if source.name.startswith(base.name) else source.name


def stack_text(node: Node) -> str:
    """The user's lines that led to a node, as tracebacks print them."""
    lines = []
    for place in node.meta.get("source", ("", 0, ()))[2]:
        where, _, name = place.rpartition(" ")
        file, _, line = where.rpartition(":")
        lines.append(f'  File "{file}", line {line}, in {name}\n    {linecache.getline(file, int(line)).strip()}')
    return "\n".join(lines)


def _name(path: str) -> str:
    name = "".join(c if c.isalnum() else "_" for c in path)
    while "__" in name:
        name = name.replace("__", "_")
    name = name.strip("_") or "arg"
    return f"{name}_" if name in (*RESERVED, "self") else name
