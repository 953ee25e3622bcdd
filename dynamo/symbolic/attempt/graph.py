"""The graph that an attempt builds: nodes, regions inside it, names, and operators run on fakes."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.utils._device import DeviceContext

from dynamo import fake
from dynamo.fake.composites import COMPOSITES
from dynamo.faults import through
from dynamo.surroundings.kernel_warnings import Kept, Said, each_time
from dynamo.symbolic.values.errors import BreakError
from dynamo.symbolic.values.kinds import TensorValue

# What operators of torch raise for arguments that they refuse.
_RAISED = (RuntimeError, TypeError, ValueError, LookupError, AttributeError, NotImplementedError, AssertionError, ArithmeticError)


class Scope:
    """A graph inside the graph: the body of a region. Outer nodes that it uses become its placeholders."""

    def __init__(self, outer: Graph, is_rehearsal: bool = False) -> None:
        self.outer = outer
        self.is_rehearsal = is_rehearsal  # what runs is the program's function, and not this graph of it
        self.is_elementwise = False  # its values stand for one element each: see `symbolic/torch/attention.py`
        self.graph = Graph()
        self.lifted: dict[Node, Node] = {}  # outer node -> placeholder, or the inner node that last wrote to it
        self.order: list[Node] = []
        self.placeholders: list[Node] = []  # one per node of `order`
        self.versions: dict[Node, int] = {}  # how often the value of an outer node was written before the region reads it

    @staticmethod
    def version_of(node: Node) -> int:
        val = node.meta["val"]
        return val._version if isinstance(val, torch.Tensor) and not val.is_inference() else 0

    def placeholder(self, node: Node) -> Node:
        """The inner node that stands for an outer one."""
        found = self.lifted.get(node)
        if found is None:
            first = next((n for n in self.graph.nodes if n.op != "placeholder"), None)
            with self.graph.inserting_before(first) if first is not None else contextlib.nullcontext():
                found = self.graph.create_node("placeholder", node.name, (), {}, name=node.name)
            found.meta.update(node.meta)
            self.lifted[node] = found
            self.order.append(node)
            self.placeholders.append(found)
            self.versions[node] = self.version_of(node)
        return found


class GraphBuilder:
    """Breaks that are raised here know no place; the loop of the frame that they leave puts it in."""

    def __init__(self) -> None:
        self.graph = self.root = Graph()
        self.scopes: list[Scope] = []  # regions being traced, innermost last
        self.mode = fake.FakeMode()
        self.attributes: dict[str, Any] = {}  # get_attr name -> tensor or other attribute of the GraphModule
        self.placeholders: list[tuple[Node, TensorValue]] = []
        self.has_ops = False
        self.said: list[Said] = []  # what the operator that ran last on fakes warns about
        self._names: set[str] = set()
        self._next_name: dict[str, int] = {}  # where the search for a free name begins

    def add_node(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], val: Any) -> Node:
        """A node with the value that it has on fakes."""
        node = self.graph.create_node(op, through("capture", target, target, args, kwargs, val))
        # apart from creating, which since torch 2.13 flattens all arguments to look for symbolic numbers: half the cost of a node
        node.args = args
        if kwargs:
            node.kwargs = kwargs
        self.has_ops = True
        node.meta["val"] = val
        return node

    def add_attribute(self, name: str, obj: object, val: object) -> Node:
        """A node that reads an attribute of the GraphModule."""
        self.attributes[name] = obj
        node = self.root.create_node("get_attr", name, (), {})
        node.meta["val"] = val
        return node

    def new_placeholder(self, name: str, val: object) -> Node:
        """Placeholders come before all operations, in the order they were met."""
        last = self.placeholders[-1][0] if self.placeholders else None
        with self.root.inserting_after(last) if last is not None else self.root.inserting_before(next(iter(self.root.nodes), None)):
            node = self.root.create_node("placeholder", name, (), {})
        node.meta["val"] = val
        return node

    def now_at(self, v: TensorValue, node: Node) -> None:
        """Later uses of `v` read `node`, so that the order of writes and reads shows in the graph."""
        if self.scopes and v.node.graph is not self.graph:
            self.scopes[-1].lifted[v.node] = node
        else:
            v.node = node

    def node_here(self, node: Node) -> Node:
        """The node of the graph being built that stands for a node of an outer one."""
        if node.graph is self.graph:
            return node
        if not any(node.graph is s.outer for s in self.scopes):
            raise BreakError("DD022", f"{node.name}, made inside a region, is used outside of it")
        return self.scopes[-1].placeholder(node)

    def propagate(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one graph op on fake tensors. What can't be known without data is a break; what fails would fail in eager too."""
        f_args, f_kwargs = torch.fx.node.map_arg((args, kwargs), _given)
        name = target_name(target)
        target = through("shape", target, target, args, kwargs, None)
        if torch._C._len_torch_function_stack():
            self._refuse_function_modes()
        try:
            with Kept() as kept, self.mode:
                self.said = kept.said
                return self._run(op, target, f_args, f_kwargs)
        except fake.DataDependent as e:
            raise BreakError("DD003", name, cause=e) from e
        except (fake.NoMeta, fake.Unsupported) as e:
            raise BreakError("DD008", f"{name}: {e}", cause=e) from e
        except _RAISED as e:
            raise BreakError("DD009", f"{name}: {type(e).__name__}: {e}", cause=e) from e

    def _run(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if op == "call_method" and isinstance(target, str):
            return getattr(args[0], target)(*args[1:], **kwargs)
        return COMPOSITES.get(target, target)(*args, **kwargs)

    def said_each_time(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Said], list[Said]]:
        """See `each_time`. The operator that said it runs again, so it must not be one that writes."""
        f_args, f_kwargs = torch.fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])
        with self.mode:
            return each_time(self.said, lambda: self._run(op, target, f_args, f_kwargs))

    def _refuse_function_modes(self) -> None:
        """A torch function mode of the program must see the calls that the program makes, and no others."""
        for mode in torch.overrides._get_current_function_mode_stack():
            if not isinstance(mode, DeviceContext):
                raise BreakError("DD022", f"an active {type(mode).__name__}")

    def fresh_name(self, text: str) -> str:
        base = re.sub(r"\W+", "_", text).strip("_") or "x"
        if base[0].isdigit():
            base = "_" + base
        name, n = base, self._next_name.get(base, 0)
        while name in self._names:
            n += 1
            name = f"{base}_{n}"
        self._names.add(name)
        self._next_name[base] = n
        return name


def _given(node: Node) -> Any:
    """The value of an argument. Kernels that copy such a one as below record histories outside inference mode, and those of fakes don't."""
    value = node.meta["val"]
    if isinstance(value, torch.Tensor) and value.requires_grad and value.is_inference() and not torch.is_inference_mode_enabled():
        raise BreakError("DD022", "an inference tensor that needs a gradient, outside inference mode")
    return value


def target_name(target: Any) -> str:
    return target if isinstance(target, str) else str(getattr(target, "__name__", target))
