"""The code of an exported graph: it has the signature of the original function, checks its arguments, and builds the result.

def forward(self, x, d, *, k = 2):
    given_ = call_.given(x, d, k)
    x, d_y, k, = call_.leaves(given_)       # raises ArgumentError with the name of the argument that doesn't fit
    add = x + d_y
    return call_.result(given_, [add])
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import torch
from torch.fx import GraphModule
from torch.fx.graph import CodeGen, PythonCode

from dynamo.export.facts import ArgumentError, Call, ExportError, Guard, Parameter
from dynamo.export.trees import build, misfit, refusal, together
from dynamo.surroundings.modes import snapshot

RESERVED = ("given_", "call_")  # names of the generated code that no node may have
_IN_BODIES = frozenset({*RESERVED, "self", "torch", "device", "inf", "nan", "NoneType", "pytree", "fx_pytree", "operator", "math"})


class Caller:
    """What the generated code calls."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.names = [p.name for p in call.parameters]
        self.defaults = {p.name: p.default for p in call.parameters if p.has_default}

    def __deepcopy__(self, memo: dict[int, Any]) -> Caller:
        return self

    def given(self, *values: Any) -> dict[str, Any]:
        return dict(zip(self.names, values, strict=True))

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by parameter, where the code can't have the parameters themselves. Raises TypeError."""
        bound = inspect_signature(self.call.parameters).bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def leaves(self, given: dict[str, Any]) -> list[Any]:
        """The leaves in order. Raises ArgumentError."""
        call = self.call
        found: list[Any] = []
        for name, tree in zip(self.names, call.arguments, strict=True):
            wrong = refusal(tree, given[name], name, found)
            if wrong:
                raise self._error(wrong)
        for leaf, obj in zip(call.leaves, found, strict=True):
            wrong = misfit(leaf, obj, found, call.leaves)
            if wrong:
                raise self._error(wrong)
        wrong = together(call, found) if call.apart else ""
        wrong = wrong or (call.more(given) if call.more is not None else "")
        if wrong:
            raise self._error(wrong)
        return found

    def _error(self, wrong: str) -> ArgumentError:
        return ArgumentError(f"argument {wrong}; {self.call.name} was exported for that [EXP001]")

    def result(self, given: dict[str, Any], outputs: Any) -> Any:
        return build(self.call.result, given, outputs)

    @contextlib.contextmanager
    def surroundings(self) -> Iterator[None]:
        """A graph that switches global modes puts them back when it raises; one without gradients runs without."""
        restore = snapshot()
        try:
            with contextlib.nullcontext() if self.call.has_gradients else torch.no_grad():
                yield
        except BaseException:
            restore()
            raise


class ExportCode(CodeGen):
    """Writes the `forward` of an exported graph."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call
        self.caller = Caller(call)
        self._given: dict[str, Any] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> ExportCode:
        return ExportCode(self.call)

    def additional_globals(self) -> list[tuple[str, Any]]:
        return [("call_", self.caller)]

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **options: Any) -> str:
        names = ", ".join(p.name for p in self.call.parameters)
        parameters, given = ", ".join(["self", *signature_text(self.call.parameters)]), f"call_.given({names})"
        if any(p.name in _IN_BODIES for p in self.call.parameters):  # the body would take the parameter for what it calls
            parameters, given = "self, *args, **kwargs", "call_.bound(args, kwargs)"
        leaves = ", ".join(v.split(":")[0].split("#")[0].strip() for v in free_vars)
        target = f"{leaves}, = " if leaves else ""
        head = f"def {self._func_name}({parameters}){maybe_return_annotation}:"
        return f"{head}\n    given_ = {given}\n    {target}call_.leaves(given_)"

    def generate_output(self, output_args: Any, *, descs: Any = None, repr_fn: Any = None) -> str:
        return f"return call_.result(given_, {(repr_fn or repr)(output_args)})"

    def process_inputs(self, *args: Any) -> Any:
        """For interpreters: the values of the placeholders."""
        self._given = self.caller.bound(args, {})
        return self.caller.leaves(self._given)

    def process_outputs(self, outputs: Any) -> Any:
        return self.caller.result(self._given, outputs)

    def _gen_python_code(self, *args: Any, **options: Any) -> PythonCode:
        code = super()._gen_python_code(*args, **options)
        if self.call.has_gradients and not self.call.restores_modes:
            return code
        lines = code.src.splitlines()
        (start,) = [i + 1 for i, line in enumerate(lines) if line.strip().endswith("call_.leaves(given_)")]
        body = ["    with call_.surroundings():", *("    " + line for line in lines[start:])]
        code.src = "\n".join([*lines[:start], *body]) + "\n"
        return code


class ExportedModule(GraphModule):
    """An exported graph. `__reduce__` goes by way of the saved form, which executes nothing when it is read."""

    reduced: ClassVar[Callable[[GraphModule], Any]]  # `store.py`, which knows the saved form, gives it

    def __reduce__(self) -> Any:
        return ExportedModule.reduced(self)

    def _deepcopy_init(self) -> Any:
        return ExportedModule.__init__


def call_of(gm: GraphModule) -> Call:
    """How an exported graph is called. Raises ExportError for another module."""
    code = getattr(getattr(gm, "graph", None), "_codegen", None)
    if not isinstance(code, ExportCode):
        raise ExportError(f"expected what dynamo.export gave, got a {type(gm).__name__} [DD094]")
    return code.call


class ExportResult(NamedTuple):
    """The graph, called as the function was, and the facts it relies on."""

    graph_module: GraphModule
    guards: list[Guard]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.graph_module(*args, **kwargs)

    @property
    def call(self) -> Call:
        """How the graph is called, as data."""
        return call_of(self.graph_module)


_MARKS = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}


def signature_text(parameters: tuple[Parameter, ...]) -> list[str]:
    """The parameters as a `def` has them."""
    out: list[str] = []
    kinds = [p.kind for p in parameters]
    for i, p in enumerate(parameters):
        if p.kind == "KEYWORD_ONLY" and "VAR_POSITIONAL" not in kinds and "KEYWORD_ONLY" not in kinds[:i]:
            out.append("*")
        out.append(_MARKS.get(p.kind, "") + p.name + (f" = call_.defaults[{p.name!r}]" if p.has_default else ""))
        if p.kind == "POSITIONAL_ONLY" and kinds[i + 1 : i + 2] != ["POSITIONAL_ONLY"]:
            out.append("/")
    return out


def inspect_signature(parameters: tuple[Parameter, ...]) -> inspect.Signature:
    kinds = {k.name: k for k in (*_ALL_KINDS,)}
    return inspect.Signature(
        [inspect.Parameter(p.name, kinds[p.kind], default=p.default if p.has_default else inspect.Parameter.empty) for p in parameters]
    )


_ALL_KINDS = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.KEYWORD_ONLY,
    inspect.Parameter.VAR_KEYWORD,
)


def module_of(graph: Any, attributes: dict[str, Any], call: Call, root: Any) -> GraphModule:
    """The graph with its attributes. Parameters and buffers have the names and the order that they have in the exported module, shared ones
    all of their names; other tensors of the program are no part of the state.
    """
    module = root if isinstance(root, torch.nn.Module) else getattr(root, "__self__", None)
    owned = list(_tensors_of(module)) if isinstance(module, torch.nn.Module) else []
    holder = torch.nn.Module()
    for name, obj in (*((n, t) for n, t, _ in owned), *attributes.items()):
        put(holder, name, obj)
    graph._codegen = ExportCode(call)
    gm = ExportedModule(holder, graph, class_name="GraphModule")
    for table in (gm._modules, gm._parameters, gm._buffers):
        table.clear()
    for name, t, persistent in owned:
        put(gm, name, t, persistent)
    names = {name for name, _, _ in owned}
    for name, obj in attributes.items():
        if name not in names:
            put(gm, name, obj, persistent=False)
    gm.train(module.training if isinstance(module, torch.nn.Module) else True)
    return gm


def _tensors_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor, bool]]:
    """(name, tensor, whether it is part of the state) of every parameter and buffer, with all names of those that are shared."""
    for prefix, part in module.named_modules(remove_duplicate=False):
        for name, t in (*part._parameters.items(), *part._buffers.items()):
            if t is not None:
                yield f"{prefix}.{name}" if prefix else name, t, name not in part._non_persistent_buffers_set


def put(module: torch.nn.Module, name: str, obj: Any, persistent: bool = True) -> None:
    """Set the attribute that `name` (dotted) says, making modules on the way."""
    *owners, last = name.split(".")
    for part in owners:
        below = getattr(module, part, None)
        if not isinstance(below, torch.nn.Module):
            below = torch.nn.Module()
            setattr(module, part, below)
        module = below
    if isinstance(obj, torch.nn.Parameter):
        module.register_parameter(last, obj)
    elif isinstance(obj, torch.Tensor):
        if last in module.__dict__:
            delattr(module, last)
        module._buffers.pop(last, None)
        module.register_buffer(last, obj, persistent)
    else:
        setattr(module, last, obj)
