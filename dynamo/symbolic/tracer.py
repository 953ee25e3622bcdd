"""The state of one capture: the FX graph so far, guards, identities, effects, and the stack of inlined frames.

A `Tracer` is made per attempt. Operations on values live in sibling modules and take the tracer as `tx`.
"""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Graph, Node
from torch.utils._pytree import tree_leaves

from dynamo import fake
from dynamo.pristine import builtin
from dynamo.source import Source, const_source
from dynamo.symbolic.choices import ChoiceValue, plainly, tensor_of_choice
from dynamo.symbolic.definitions import MISSING, Definitions, lookup
from dynamo.symbolic.errors import BreakError, NotConstant, Raised, RestartTrace
from dynamo.symbolic.numpy_types import as_number
from dynamo.symbolic.values import (
    NULL,
    ArrayValue,
    CellValue,
    Const,
    DictValue,
    ExceptionValue,
    GraphValue,
    Lazy,
    ListValue,
    NumberValue,
    ObjectValue,
    OpaqueValue,
    SetValue,
    SliceValue,
    TensorValue,
    TupleValue,
    Value,
)

if TYPE_CHECKING:
    from dynamo.symbolic.frame import Frame
    from dynamo.symbolic.warning_rows import Warned, WarningScope


@dataclass
class GuardRecord:
    """A fact the capture relies on. `kind`/`arg` are a leaf of the C guard tree; `file`/`line` the user line that read the value."""

    source: Source | None
    kind: str
    arg: Any
    file: str = ""
    line: int = 0


@dataclass
class Decisions:
    """What earlier attempts at the same frame learned; grows from attempt to attempt, so attempts end.

    break_at: stop before this root step, for this reason. inputs: tensor sources to pass in instead of baking in.
    plain_branches: no branch on a tensor is assumed to be taken. changing: sources of numbers that differ from call to call.
    plain_choices: max() and min() of tensors branch.
    """

    break_at: int | None = None
    reason: BreakError | None = None
    inputs: set[str] = field(default_factory=set)
    plain_branches: bool = False
    changing: frozenset[str] = frozenset()
    plain_choices: bool = False


class Scope:
    """A graph inside the graph: the body of a region. Outer nodes that it uses become its placeholders."""

    def __init__(self, outer: Graph) -> None:
        self.outer = outer
        self.graph = Graph()
        self.lifted: dict[Node, Node] = {}  # outer node -> placeholder, or the inner node that last wrote to it
        self.order: list[Node] = []

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
        return found


class Tracer:
    """One attempt to capture one root frame."""

    def __init__(self, known: Decisions) -> None:
        self.known = known
        self.graph = self.root_graph = Graph()
        self.scopes: list[Scope] = []  # regions being traced, innermost last
        self.assumed = False  # whether the graph checks which side of a branch is taken
        self.switched: set[object] = set()  # setters of global modes that the trace has called
        self.mode = fake.FakeMode()
        self.guards: dict[Any, GuardRecord] = {}
        self.definitions = Definitions()
        self.owners: dict[Source, object] = {}  # source of an instance dict -> the object that it is of
        self.baked: list[tuple[object, str, str, torch.Tensor]] = []  # tensors that are part of the graph: module, table, name
        self.by_id: dict[int, Value] = {}
        self.keep: list[object] = []  # keeps objects alive whose id() is a key
        self.attributes: dict[str, Any] = {}  # get_attr name -> tensor or other attribute of the GraphModule
        self.arrays: list[ArrayValue] = []  # NumPy's, that came in
        self.arrays_written = False  # whether tensors over one of them may be written to
        self.placeholders: list[tuple[Node, TensorValue]] = []
        self.has_choices = False  # whether there are values of which tensors decide which one they are
        self.chosen: list[Any] = []  # fakes of the choices that are arguments of the operator at hand
        self.numbers: dict[Source, TensorValue] = {}  # inputs made of Python numbers that change
        self.frames: list[Frame] = []
        self.root_step = 0
        self.step_of_handler = 0  # root step at which the root frame last entered an exception handler
        self.mutated: dict[int, Value] = {}
        self.grads_dropped: set[int] = set()  # tensors (by id of their value) whose gradient was dropped before the first op
        self.has_ops = False
        self.has_numbers = False  # whether there are Python numbers that the graph computes, or that change
        self.global_writes: dict[tuple[int, str], tuple[dict[str, Any], str, Value | None]] = {}
        self.class_writes: dict[tuple[type, str], Value | None] = {}  # None: deleted
        self.context_writes: dict[ContextVar[Any], Value] = {}
        self.on_exit: list[Callable[[], None]] = []  # restores real global modes, last first
        self.warned: list[Warned] = []  # warnings that the entry gives
        self.warning_scopes: list[WarningScope] = []  # entered now, innermost last
        self.user_line: tuple[str, int] = ("", 0)
        self.fullgraph = False
        self.asked: set[str] = set()  # facts of tensors, by the name of the method or attribute, that code of the user's has asked for
        self.apart: dict[Source, None] = {}  # objects that the trace has found to be different from each other
        self.names: set[str] = set()
        self.next_name: dict[str, int] = {}  # where the search for a free name begins

    def forget(self) -> None:
        """Drop everything once the entry is made: values refer to their tracer, so only the collector would free them and the inputs."""
        for v in self.by_id.values():
            if isinstance(v, ObjectValue | CellValue):
                vars(v).clear()  # an object and its attributes refer to each other
        vars(self).clear()

    # ---- where we are -------------------------------------------------------------------------------------

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def user_stack(self) -> tuple[tuple[str, int, str], ...]:
        """Frames from the root inwards, without torch's own and our polyfills."""
        out = [(f.code.co_filename, f.line, f.code.co_qualname) for f in self.frames if not f.internal]
        return tuple(out)

    def where(self) -> tuple[str, int]:
        for f in reversed(self.frames):
            if not f.internal:
                return f.code.co_filename, f.line
        return "", 0

    def note_asked(self, name: str) -> None:
        """A fact of a tensor became a constant of the trace. What torch's own code asks for changes no result."""
        if self.frames and not self.frames[-1].internal:
            self.asked.add(name)

    # ---- guards -------------------------------------------------------------------------------------------

    def guard(self, source: Source | None, kind: str, arg: Any = None) -> None:
        """Rely on a fact; repeated facts are kept once, with the first line that needed them."""
        key: Any
        if kind == "code" and source is not None and source.kind == "const":
            self.definitions.of_function(source.arg)
            return
        try:
            key = (source, kind, arg if kind in ("eq", "len", "no_key", "has_key") else id(arg))
            if key in self.guards and type(self.guards[key].arg) is type(arg):
                return
            key = (source, kind, type(arg), arg) if kind == "eq" else key
            hash(key)
        except TypeError:
            key = (source, kind, id(arg))
        if key not in self.guards:
            file, line = self.where()
            self.guards[key] = GuardRecord(source, kind, arg, file, line)

    def lookup(self, cls: type, name: str) -> Any:
        """Raw entry of `name` along the bases of `cls`, or MISSING; relied upon. Never runs user code."""
        raw = lookup(cls, name)
        self.definitions.of_class(cls, name, raw)
        return raw

    def rely_on_apart(self, a: Value, b: Value) -> None:
        """Rely on two objects being different. Those of different classes are, and tensors are guarded to be."""
        x, y = getattr(a, "obj", None), getattr(b, "obj", None)
        if x is None or y is None or a.cls is not b.cls or isinstance(a, Const | TensorValue):
            return
        if a.source is not None and b.source is not None:
            self.apart[a.source] = self.apart[b.source] = None
        elif a.source is not None:
            self.guard(a.source, "is_not", y)
        elif b.source is not None:
            self.guard(b.source, "is_not", x)

    # ---- values from real objects -------------------------------------------------------------------------

    def realize(self, child: Value | Lazy) -> Value:
        if isinstance(child, Lazy):
            return self.wrap(child.obj, child.source)
        return child

    def wrap(self, obj: object, source: Source | None) -> Value:
        """The value of a real object. With a source its type is guarded, deeper facts when they are read."""
        from dynamo.symbolic.wrap import wrap

        return wrap(self, obj, source)

    def remember(self, obj: object, value: Value) -> Value:
        self.by_id[id(obj)] = value
        self.keep.append(obj)
        return value

    def item(self, items: list[Value | Lazy], i: int) -> Value:
        child = items[i]
        if isinstance(child, Lazy):
            child = items[i] = self.wrap(child.obj, child.source)
        return child

    def items(self, items: list[Value | Lazy]) -> list[Value]:
        return [self.item(items, i) for i in range(len(items))]

    def make_list(self, items: Iterable[Value]) -> ListValue:
        return ListValue(list(items))

    def make_tuple(self, items: Iterable[Value]) -> TupleValue:
        return TupleValue(list(items))

    # ---- known Python objects -----------------------------------------------------------------------------

    def as_python(self, v: Value) -> Any:
        """The Python object of a value that is fully known, or NotConstant. Containers come out as fresh copies."""
        from dynamo.symbolic.constants import as_python

        return as_python(self, v)

    def try_python(self, *vs: Value) -> list[Any] | None:
        try:
            return [self.as_python(v) for v in vs]
        except NotConstant:
            return None

    # ---- leaving ------------------------------------------------------------------------------------------

    def throw(self, cls: type[BaseException], *args: object) -> Raised:
        """The exception to raise for an exception of the program: `raise tx.throw(ValueError, "...")`."""
        return Raised(ExceptionValue(cls, [a if isinstance(a, Value) else self.wrap(a, None) for a in args]))

    def break_(self, id: str, what: str, hint: str = "", cause: BaseException | None = None) -> BreakError:
        """The exception to raise for a graph break: `raise tx.break_("DD003", "...")`."""
        e = BreakError(id, what, hint, cause)
        self.locate(e)
        return e

    def locate(self, e: BreakError) -> None:
        if not e.stack and self.frames:
            e.stack = self.user_stack()
            f = next((f for f in reversed(self.frames) if not f.internal), self.frames[-1])
            e.span = f.span()

    # ---- effects ------------------------------------------------------------------------------------------

    def touch(self, v: Value) -> None:
        """Call before changing a value. Changes of objects that existed before the frame are replayed by the entry."""
        obj = getattr(v, "obj", None)
        if (obj is not None or v.source is not None) and id(v) not in self.mutated:
            self.mutated[id(v)] = v

    def has_effects(self) -> bool:
        """Whether the entry has changes to replay."""
        return bool(self.mutated or self.global_writes or self.class_writes or self.context_writes)

    def set_global(self, globals_: dict[str, Any], name: str, v: Value | None) -> None:
        self.global_writes[(id(globals_), name)] = (globals_, name, v)

    # ---- graph --------------------------------------------------------------------------------------------

    def call_function(self, target: Callable[..., Any], args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self._leaf("call_function", target, args, kwargs)

    def call_method(self, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self._leaf("call_method", name, args, kwargs)

    def _leaf(self, op: str, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if self.has_numbers and not kwargs:
            from dynamo.symbolic.tensor_numbers import as_operands

            args = as_operands(self, _target_name(target), args)
        outer, self.chosen = self.chosen, []
        fx_args = tuple(self.to_fx(a) for a in args)
        fx_kwargs = {k: self.to_fx(v) for k, v in kwargs.items()}
        chosen = {f.untyped_storage()._cdata for f in self.chosen}
        self.chosen = outer
        out = self.propagate(op, target, fx_args, fx_kwargs)
        if chosen and (_writes(op, target) or any(t.untyped_storage()._cdata in chosen for t in _tensors(out))):
            raise plainly(self)
        if _target_name(target).partition(".")[0] in _READS_OFFSET:
            self._guard_offset(args[0])
        if not _has_tensor(out):
            if not _is_plain(out):
                raise self.break_("DD010", f"{_target_name(target)} gives a {type(out).__name__}")
            if not _writes(op, target):
                self.note_asked(_target_name(target))
                return self.wrap(out, None)
        written = self._written(out, args, kwargs)
        if written is None and _is_new_leaf(out):
            raise self.break_("DD027", f"{_target_name(target)} makes a leaf")
        node = self.add_node(op, target, fx_args, fx_kwargs, out)
        if written is None:
            return self.wrap_output(node, out)
        self.now_at(written, node)
        return written

    def _guard_offset(self, v: Value) -> None:
        """Where a tensor begins in its storage is no fact of inputs otherwise: few programs can see it."""
        storage = v.fake.untyped_storage()._cdata if isinstance(v, TensorValue) else None
        for _, given in self.placeholders:
            if given.source is not None and given.fake.untyped_storage()._cdata == storage:
                self.guard(given.source.step("call", torch._C.TensorBase.storage_offset), "eq", given.obj.storage_offset())

    def _written(self, out: Any, args: list[Value], kwargs: dict[str, Value]) -> TensorValue | None:
        """The argument that an op gave back: in-place methods, `out=`, conversions that had nothing to do."""
        if isinstance(out, torch.Tensor):
            for v in (*args, *kwargs.values()):
                if isinstance(v, TensorValue) and v.fake is out:
                    return v
        return None

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
            raise self.break_("DD022", f"{node.name}, made inside a region, is used outside of it")
        return self.scopes[-1].placeholder(node)

    def add_node(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], val: Any) -> Node:
        node = self.graph.create_node(op, target, args, kwargs)
        self.has_ops = True
        node.meta["val"] = val
        file, line = self.where()
        node.meta["source"] = (file, line, tuple(f"{f}:{ln} {fn}" for f, ln, fn in self.user_stack()))
        return node

    def propagate(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one graph op on fake tensors. What can't be known without data is a break; what fails would fail in eager too."""
        f_args, f_kwargs = torch.fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])
        name = _target_name(target)
        if torch._C._len_torch_function_stack():
            self._refuse_function_modes()
        try:
            with self.mode:
                if op == "call_method":
                    return getattr(f_args[0], target)(*f_args[1:], **f_kwargs)
                return target(*f_args, **f_kwargs)
        except fake.DataDependent as e:
            raise self.break_("DD003", name, cause=e) from e
        except (fake.NoMeta, fake.Unsupported) as e:
            raise self.break_("DD008", f"{name}: {e}", cause=e) from e
        except _RAISED as e:
            raise self.break_("DD009", f"{name}: {type(e).__name__}: {e}", cause=e) from e

    def _refuse_function_modes(self) -> None:
        """A torch function mode of the program must see the calls that the program makes, and no others."""
        from torch.utils._device import DeviceContext

        for mode in torch.overrides._get_current_function_mode_stack():
            if not isinstance(mode, DeviceContext):
                raise self.break_("DD022", f"an active {type(mode).__name__}")

    def to_fx(self, v: Value) -> Any:
        """A graph argument: nodes for tensors, Python objects for everything known."""
        if isinstance(v, TensorValue | GraphValue):
            return self.node_here(v.node)
        if isinstance(v, ChoiceValue):
            if not v.is_tensor:
                raise plainly(self)
            made = tensor_of_choice(self, v)
            self.chosen.append(made.fake)
            return self.node_here(made.node)
        if isinstance(v, ListValue):
            return [self.to_fx(x) for x in self.items(v.items)]
        if isinstance(v, TupleValue):
            parts = tuple(self.to_fx(x) for x in self.items(v.items))
            if v.cls is tuple or v.cls is torch.Size:
                return parts
            return v.cls(*parts) if hasattr(v.cls, "_fields") else parts
        if isinstance(v, SliceValue):
            return slice(*(self.to_fx(x) for x in v.parts))
        if isinstance(v, DictValue):
            return {self.as_python(k): self.to_fx(self.realize(x)) for k, x in v.table.values()}
        if isinstance(v, SetValue):
            return {self.to_fx(x) for x in v.table.values()}
        try:
            obj = self.as_python(v)
        except NotConstant as e:
            kind = "DD003" if isinstance(v, NumberValue) else "DD011" if issubclass(v.cls, torch.Tensor) else "DD010"
            raise self.break_(kind, v.describe()) from e
        if isinstance(obj, enum.Enum) and isinstance(obj, int | float | str):
            obj = obj.value  # a member of an IntEnum and the like prints as itself in the code of a graph
        if isinstance(obj, _TENSOR_TYPE):
            obj = f"{obj.__module__}.{obj.__name__}"  # `x.type()` takes the name too, and that can be written down
        number = as_number(obj)  # so does a number of NumPy
        if number is None and obj is not None:
            raise self.break_("DD010", v.describe())
        obj = number
        if _graph_constant(obj):
            return obj
        if not isinstance(obj, _ATTRIBUTE_KINDS):
            raise self.break_("DD011" if isinstance(obj, torch.Tensor) else "DD010", v.describe())
        return self.attribute_for(obj, v.source)

    def attribute_for(self, obj: object, source: Source | None) -> Node:
        """A non-tensor object a graph op needs (a generator, a process group): an attribute of the GraphModule."""
        if source is not None:
            self.guard(source, "is", obj)
        name = self.fresh_name(source.name if source is not None else type(obj).__name__)
        self.attributes[name] = obj
        node = self.root_graph.create_node("get_attr", name, (), {})
        node.meta["val"] = obj
        return self.node_here(node)

    def wrap_output(self, node: Node, out: Any, cls: type | None = None) -> Value:
        """Values for what a graph op returned; members of sequences get `getitem` nodes."""
        import operator

        if isinstance(out, torch.Tensor):
            node.meta["val"] = out
            return TensorValue(node, out, cls or torch.Tensor)
        if isinstance(out, tuple | list):
            parts: list[Value | Lazy] = []
            for i, x in enumerate(out):
                if _has_tensor(x):
                    sub = self.add_node("call_function", operator.getitem, (node, i), {}, x)
                    parts.append(self.wrap_output(sub, x))
                else:
                    parts.append(self.wrap(x, None))
            return TupleValue(parts, type(out)) if isinstance(out, tuple) else ListValue(parts)
        if isinstance(out, dict):
            d = DictValue()
            from dynamo.symbolic.hashing import dict_set

            for k, x in out.items():
                sub = self.add_node("call_function", operator.getitem, (node, k), {}, x)
                dict_set(self, d, self.wrap(k, None), self.wrap_output(sub, x))
            return d
        return self.wrap(out, None)

    def fresh_name(self, text: str) -> str:
        base = re.sub(r"\W+", "_", text).strip("_") or "x"
        if base[0].isdigit():
            base = "_" + base
        name, n = base, self.next_name.get(base, 0)
        while name in self.names:
            n += 1
            name = f"{base}_{n}"
        self.names.add(name)
        self.next_name[base] = n
        return name

    def add_input(self, t: torch.Tensor, source: Source, baked: bool) -> Value:
        """A tensor that existed before the frame: a get_attr node guarded by identity (`baked`), or a placeholder guarded by its facts.

        Kinds of tensors that fakes don't cover are opaque: reading them must not break, or a resume function could not take them.
        """
        try:
            fake_t = self.mode.from_real(t)
        except fake.Unsupported:
            self.guard(source, "type", type(t))
            return OpaqueValue(type(t), t, source)
        if baked:
            name = self.fresh_name(source.name)
            self.attributes[name] = t
            node = self.root_graph.create_node("get_attr", name, (), {})
            self.guard(source, "is", t)
            self.guard(source, "tensor", t)
        else:
            name = self.fresh_name(source.name) + "_"
            node = self._new_placeholder(name)
            self.guard(source, "tensor", t)
        node.meta["val"] = fake_t
        node.meta["source"] = (*self.where(), tuple(f"{f}:{ln} {fn}" for f, ln, fn in self.user_stack()))
        v = TensorValue(node, fake_t, type(t), t, source)
        if not baked:
            self.placeholders.append((node, v))
        self.remember(t, v)
        return v

    def _new_placeholder(self, name: str) -> Node:
        """Placeholders come before all operations, in the order they were met."""
        graph = self.root_graph
        if self.placeholders:
            with graph.inserting_after(self.placeholders[-1][0]):
                return graph.create_node("placeholder", name, (), {})
        with graph.inserting_before(next(iter(graph.nodes), None)):
            return graph.create_node("placeholder", name, (), {})

    # ---- cells and globals --------------------------------------------------------------------------------

    def cell_get(self, cell: CellValue, name: str, free: bool) -> Value:
        if cell.contents is None:
            if cell.source is not None and id(cell) not in self.mutated:
                self.guard(cell.source, "pred", _is_empty)
            kind = "free" if free else "local"
            if free:
                text = f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
                raise self.name_error(text, name)
            raise self.throw(UnboundLocalError, f"cannot access {kind} variable '{name}' where it is not associated with a value")
        v = cell.contents = self.realize(cell.contents)
        return v

    def cell_set(self, cell: CellValue, v: Value | None) -> None:
        self.touch(cell)
        cell.contents = v

    def load_global(self, globals_: dict[str, Any], name: str) -> Value:
        """LOAD_GLOBAL / LOAD_NAME, with guards on the name found; what libraries define is taken as unchanging."""
        from dynamo.symbolic.attributes import is_library

        written = self.global_writes.get((id(globals_), name))
        if written is not None:
            if written[2] is None:
                raise self.name_error(f"name '{name}' is not defined", name)
            return written[2]
        base = const_source(globals_, "G") if id(globals_) not in self._globals else self._globals[id(globals_)]
        self._globals[id(globals_)] = base
        fixed = is_library(str(globals_.get("__name__", "")))
        if name in globals_:
            obj = globals_[name]
            if fixed and isinstance(obj, _FIXED_KINDS):
                return self.defined(globals_, name, obj)
            return self.wrap(obj, base.step("dict_item", name, f"G[{name!r}]"))
        builtins = globals_.get("__builtins__", __builtins__)
        table = builtins if isinstance(builtins, dict) else vars(builtins)
        if not fixed:
            self.guard(base, "no_key", name)
        found = builtin(table, name, MISSING)
        if found is not MISSING:
            return self.defined(table, name, found)
        self.definitions.of_dict(table, name, MISSING)
        raise self.name_error(f"name '{name}' is not defined", name)

    def defined(self, holder: dict[str, Any], name: str, obj: object) -> Value:
        """What a library, or builtins, define under a name; relied upon, with the code of a function that was put there later."""
        self.definitions.of_dict(holder, name, obj)
        if id(obj) not in self.by_id and isinstance(obj, FunctionType | torch.Tensor):
            return self.wrap(obj, const_source(obj, name))
        return self.wrap(obj, None)

    def name_error(self, text: str, name: str) -> Raised:
        """A NameError that knows the name; an UnboundLocalError never does."""
        e = self.throw(NameError, text)
        assert isinstance(e.value, ExceptionValue)
        e.value.slots["name"] = Const(name)
        return e

    @property
    def _globals(self) -> dict[int, Source]:
        return self.__dict__.setdefault("_global_sources", {})

    def restart_as_input(self, source: Source) -> RestartTrace:
        self.known.inputs.add(source.name)
        return RestartTrace(source.name)


def _is_empty(cell: CellType) -> bool:
    """is empty"""
    try:
        cell.cell_contents  # noqa: B018  # read for its error
    except ValueError:
        return True
    return False


_FIXED_KINDS = (ModuleType, FunctionType, BuiltinFunctionType, type)


def _has_tensor(x: Any) -> bool:
    if isinstance(x, torch.Tensor):
        return True
    if isinstance(x, tuple | list):
        return any(_has_tensor(y) for y in x)
    if isinstance(x, dict):
        return any(_has_tensor(y) for y in x.values())
    return False


def _tensors(x: Any) -> list[torch.Tensor]:
    return [t for t in tree_leaves(x) if isinstance(t, torch.Tensor)]


def _is_new_leaf(x: Any) -> bool:
    # a view made under no_grad has no history either and takes the flag from its base
    return isinstance(x, torch.Tensor) and x.requires_grad and x.is_leaf and not x._is_view()


_TENSOR_TYPE = type(torch.FloatTensor)  # of the legacy names of types
# What operators of torch raise for arguments that they refuse.
_RAISED = (RuntimeError, TypeError, ValueError, LookupError, AttributeError, NotImplementedError, AssertionError, OverflowError)
_PLAIN = (int, float, bool, str, type(None), complex, torch.dtype, torch.device, torch.layout, torch.memory_format)


def _is_plain(x: Any) -> bool:
    if isinstance(x, tuple | list):
        return all(_is_plain(y) for y in x)
    return isinstance(x, _PLAIN)


# Objects that are not plain but may be arguments of a graph op, as attributes of the GraphModule.
_ATTRIBUTE_KINDS = (torch.Generator, torch.ScriptObject, torch.nn.Module)


def _target_name(target: Any) -> str:
    return target if isinstance(target, str) else str(getattr(target, "__name__", target))


def _writes(op: str, target: Any) -> bool:
    """Ops kept for their effect although they return nothing of interest."""
    if isinstance(target, torch._ops.OpOverload):
        return bool(target._schema.is_mutable or not target._schema.returns)
    if isinstance(target, torch._ops.OpOverloadPacket):
        return any(_writes(op, getattr(target, name)) for name in target.overloads())
    name = _target_name(target)
    return (name.endswith("_") and not name.endswith("__")) or name in _KEPT


_READS_OFFSET = frozenset({"storage_offset", "as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter"})
_KEPT = frozenset({"__setitem__", "setitem", "_assert_async", "_functional_assert_async", "_assert_scalar"})


def _graph_constant(obj: object) -> bool:
    return isinstance(obj, (*_PLAIN, type, slice, bytes, type(Ellipsis), torch.Size, range)) or callable(obj)


__all__ = ["NULL", "CodeType", "Const", "Decisions", "GuardRecord", "ObjectValue", "Tracer"]
