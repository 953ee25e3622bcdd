"""What a call becomes: a node of the graph, a folded constant, a break, or (None) the callee's own code inlined.

Functions are judged by where they are defined: `_HOMES` has a row per part of torch that isn't simply inlined.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch._library.custom_ops

from dynamo import _C, marks
from dynamo.graph import helpers as graph_helpers
from dynamo.source import const_source
from dynamo.symbolic.protocols.attributes import closure, tx_call
from dynamo.symbolic.protocols.calls import fold, inline
from dynamo.symbolic.protocols.constants import is_c_enum
from dynamo.symbolic.protocols.names import cell_get
from dynamo.symbolic.protocols.overrides import ask_all, overriding
from dynamo.symbolic.protocols.rows import inlined
from dynamo.symbolic.torch import attention
from dynamo.symbolic.torch.classes import make
from dynamo.symbolic.torch.modes import call_it
from dynamo.symbolic.torch.modules import call_module
from dynamo.symbolic.torch.numpy_arrays import array_method, dispatched, tensor_from, ufunc, with_dtype
from dynamo.symbolic.torch.optimizers import count_on_device
from dynamo.symbolic.torch.polyfills import DISTRIBUTIONS, nesterov, use_grad
from dynamo.symbolic.torch.real import real_objects
from dynamo.symbolic.torch.regions import rehearse_operator
from dynamo.symbolic.torch.scans import scan
from dynamo.symbolic.torch.tensors import python_method, tensor_method
from dynamo.symbolic.torch.transforms import transform
from dynamo.symbolic.values.errors import NotConstant, RestartTrace
from dynamo.symbolic.values.kinds import (
    FALSE,
    NONE,
    TRUE,
    ArrayValue,
    BuiltinValue,
    ClassValue,
    FunctionValue,
    MethodValue,
    ObjectValue,
    OpaqueValue,
    PartialValue,
    TensorValue,
    Value,
)
from dynamo.symbolic.values.numpy_types import np

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

    Args = list[Value]
    Kwargs = dict[str, Value]
    Verdict = Callable[[Tracer, Any, Args, Kwargs], Value | None]


def python_function(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
    """The verdict for a Python function; None = inline it."""
    found = _marked(tx, fn, fn.obj, args, kwargs)
    if found is not None:
        return found
    row = _home_row(str(fn.globals.get("__name__", "")))
    return row(tx, fn, args, kwargs) if row is not None else None


def c_function(tx: Tracer, fn: BuiltinValue, args: Args, kwargs: Kwargs) -> Value | None:
    """The verdict for a builtin function of torch or numpy; None = not known here."""
    obj = fn.obj
    found = _marked(tx, fn, obj, args, kwargs)
    if found is not None:
        return found
    name = getattr(obj, "__name__", "")
    if is_graph_op(obj, name):
        asked = overriding(tx, (*args, *kwargs.values()))
        if asked:
            return ask_all(tx, obj, asked, args, kwargs)
        if name in _DATA_FROM_OUTSIDE or (name in _LOSES_OUT and "out" in kwargs):
            raise tx.break_("DD005", f"torch.{name}")
        return _from_data(tx, obj, args, kwargs) if name in _FROM_DATA else tx.call_function(obj, args, kwargs)
    if args and is_c_enum(args[0].cls):
        return fold_now(tx, obj, args, kwargs)
    home = _c_home(obj)
    if home.startswith("torch") and _GETTER.match(name):
        return fold_now(tx, obj, args, kwargs) if args or kwargs or name in _IN_STATE else _switch(tx, obj)
    return None


def _switch(tx: Tracer, getter: Callable[[], Any]) -> Value | None:
    """What a switch of torch's says now. Setters that have no row are a break: what is read is what the entry finds."""
    found = fold_now(tx, getter, [], {})
    known = tx.try_python(found) if found is not None else None
    if known and all(type(part) is bool for part in (known[0] if type(known[0]) is tuple else known)):
        tx.guard(const_source(getter, f"{getter.__name__}()").step("call", call_it), "eq", known[0])
    return found


def class_call(tx: Tracer, fn: ClassValue, args: Args, kwargs: Kwargs) -> Value | None:
    """The verdict for making an instance; None = the ordinary way."""
    if marks.disabled(fn.obj) is not None or marks.allowed(fn.obj) is False:
        raise tx.break_("DD021", fn.describe())
    return make(tx, fn, args, kwargs)


def callable_object(fn: Value) -> Callable[[Tracer, Any, Args, Kwargs], Value] | None:
    """The handler for calling an instance of a class that needs one."""
    for cls, handler in _CALLABLES:
        if issubclass(fn.cls, cls):
            return handler
    return None


def c_method(tx: Tracer, raw: Any, self_: Value, rest: Args, kwargs: Kwargs) -> Value | None:
    """The verdict for a method of a C type where an array or a tensor is its receiver or an argument; None = no matter of theirs."""
    if isinstance(self_, ArrayValue) or any(isinstance(a, ArrayValue) for a in rest):
        return array_method(tx, raw, self_, rest, kwargs)
    if isinstance(self_, TensorValue) or any(isinstance(a, TensorValue) for a in rest):
        return tensor_method(tx, raw, self_, rest, kwargs)
    return None


def _from_data(tx: Tracer, obj: Any, args: Args, kwargs: Kwargs) -> Value:
    """`torch.tensor` and its kin, which look into what they are given."""
    found = tensor_from(tx, obj.__name__, args, kwargs)
    return found if found is not None else tx.call_function(obj, args, with_dtype(tx, obj, args, kwargs))


# ---- marks ------------------------------------------------------------------------------------------------


def _marked(tx: Tracer, fn: Value, obj: Any, args: Args, kwargs: Kwargs) -> Value | None:
    """What the user said about the function, through this package or through `torch.compiler`."""
    name = getattr(obj, "__qualname__", repr(obj))
    said = mark_of(obj)
    if said in REFUSALS:
        raise tx.break_(*refusal(obj, said))
    if said == "optimizer":
        inner = _optimizer_under_mark(obj)
        return tx_call(tx, tx.wrap(inner, const_source(inner, name)), args, kwargs)
    if said == "allowed":
        _same_object(tx, fn, obj)
        return tx.call_function(obj, args, kwargs)
    if said == "constant":
        _same_object(tx, fn, obj)
        try:
            known = real_objects(tx, [*args, *kwargs.values()])
        except NotConstant as e:
            raise tx.break_("DD010", f"arguments of {name}, whose result is assumed constant", cause=e) from e
        return tx.wrap(obj(*known[: len(args)], **dict(zip(kwargs, known[len(args) :], strict=True))), None)
    return None


REFUSALS = {"disabled": "is disabled", "disallowed": "is disallowed in graphs"}


def mark_of(obj: Any) -> str:
    """What the user said about a function: disabled, disallowed, allowed, constant, or nothing ("")."""
    own = marks.disabled(obj)
    if own is not None or getattr(obj, "_torchdynamo_disable", False) is True:
        return "disabled" if own is not None or _optimizer_under_mark(obj) is None else "optimizer"
    say = marks.allowed(obj)
    if say is None:
        say = _said_to_peer(obj)
    if say is not None:
        return "allowed" if say else "disallowed"
    return "constant" if marks.constant(obj) or getattr(obj, "_dynamo_marked_constant", False) is True else ""


def refusal(obj: Any, mark: str) -> tuple[str, str]:
    """Id of the break and the thing at hand, for a function that the user keeps out of graphs."""
    why = marks.reason(obj)
    return "DD021", f"{getattr(obj, '__qualname__', repr(obj))} {REFUSALS[mark]}" + (f" ({why})" if why else "")


def _optimizer_under_mark(obj: Any) -> types.FunctionType | None:
    """The function of `torch.optim` under a mark that torch's own compiler put there for its own sake when it was first used.

    What a script gets from this compiler doesn't depend on whether it uses that one too.
    """
    inner = getattr(obj, "_torchdynamo_orig_callable", None)
    is_optimizer = type(inner) is types.FunctionType and f"{inner.__module__}.".startswith("torch.optim.")
    return inner if is_optimizer else None


def _said_to_peer(obj: Any) -> bool | None:
    """Marks that a script gave to torch's own compiler, if it has loaded that."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    for name, verdict in (("_disallowed_callable_ids", False), ("_allowed_callable_ids", True), ("_nonstrict_trace_callable_ids", True)):
        ids = getattr(rules, name, None)
        if id(obj) in _own_ids(ids):
            return verdict
    return None


def _own_ids(ids: Any) -> Any:
    """Only what was added by hand: the set is filled from torch's own list when it is first asked for."""
    return getattr(ids, "function_ids", None) or ()


def _same_object(tx: Tracer, fn: Value, obj: Any) -> None:
    if fn.source is not None and fn.source.kind != "const":
        tx.guard(fn.source, "is", obj)


# ---- verdicts ---------------------------------------------------------------------------------------------


def leaf(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
    """A node of the graph, unless a Python callable is among the arguments."""
    if any(_has_callable(v) for v in (*args, *kwargs.values())) or overriding(tx, (*args, *kwargs.values())):
        return None
    assert type(fn.obj) is types.FunctionType  # python_function is asked for real functions only
    tx.guards.definitions.used_by(fn.obj, vars(torch))
    return tx.call_function(fn.obj, args, kwargs)


def _has_callable(v: Value) -> bool:
    return isinstance(v, FunctionValue | MethodValue | PartialValue) or (isinstance(v, ObjectValue) and issubclass(v.cls, torch.nn.Module))


def _tensor_function(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
    """Methods of torch.Tensor that are written in Python."""
    return python_method(tx, fn, args, kwargs)


def is_tensor_function(fn: FunctionValue) -> bool:
    return _home_row(str(fn.globals.get("__name__", ""))) is _tensor_function


def _jit_internal(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
    """`boolean_dispatch` makes functions such as `F.max_pool2d`; the rest is inlined."""
    return leaf(tx, fn, args, kwargs) if "boolean_dispatch" in fn.qualname or fn.code.co_qualname.startswith("boolean_dispatch") else None


def _script_if_tracing(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
    """Functions under `script_if_tracing` are themselves unless TorchScript traces them; what traces is a break."""
    if fn.code.co_qualname != "_script_if_tracing.<locals>.wrapper":
        raise tx.break_("DD021", f"{fn.globals.get('__name__')}.{fn.qualname}")
    return None


def _undecorated(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
    """Functions of torch that are kept from torch's own compiler: what they do can be captured here."""
    inner = inspect.getattr_static(fn.obj, "__wrapped__", None)
    if type(inner) is not types.FunctionType:
        return None
    return tx_call(tx, tx.wrap(inner, const_source(inner, inner.__qualname__)), args, kwargs)


def _optimizer(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
    """`torch.optim` wraps `step` in a function that imports torch's own compiler and breaks its graph.

    The `capturable` variants compute with tensors only; the others would need the step count as a number.
    """
    if fn.name.startswith(("_single_tensor_", "_multi_tensor_")) and kwargs.get("capturable") is not None:
        return inline(tx, fn, args, {**kwargs, "capturable": TRUE})
    if fn.name == "sgd" and tx.try_python(*(kwargs.get(n, NONE) for n in ("nesterov", "foreach", "fused"))) == [True, None, None]:
        return inlined(tx, nesterov, [fn, *args], kwargs)
    if fn.code.co_qualname != "_use_grad_for_differentiable.<locals>._use_grad":
        return None
    if args and isinstance(args[0], ObjectValue) and isinstance(args[0].obj, torch.optim.Optimizer):
        count_on_device(args[0].obj)
    step = cell_get(tx, closure(tx, fn)[fn.code.co_freevars.index("func")], "func", True)
    return tx_call(tx, tx.wrap(use_grad, const_source(use_grad, "use_grad")), [step, *args], kwargs)


def _own(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
    """This package's own public functions; what stands for compiled modules and callables is inlined."""
    if fn.name == "graph_break":
        raise tx.break_("DD002", "dynamo.graph_break()")
    if fn.name == "is_compiling":
        return TRUE
    if fn.obj is not None and fn.obj.__globals__.get(fn.name) is fn.obj:
        raise tx.break_("DD021", f"dynamo.{fn.name}")
    return None


def _peer(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
    """torch's own compiler, when the program imports it."""
    if fn.name == "graph_break":
        raise tx.break_("DD002", "torch._dynamo.graph_break()")
    if fn.name in ("is_compiling", "is_dynamo_compiling"):
        return TRUE
    if fn.name in ("mark_static", "mark_dynamic", "maybe_mark_dynamic", "mark_static_address", "mark_unbacked"):
        return NONE
    if original := _AROUND.get(fn.code.co_qualname):
        method = cell_get(tx, closure(tx, fn)[fn.code.co_freevars.index(original)], original, True)
        return tx_call(tx, method, args, kwargs)
    raise tx.break_("DD021", f"{fn.globals.get('__name__')}.{fn.qualname}")


# What torch's compiler puts around functions, with the variable that holds the function. Once it is used it replaces methods of `nn.Module`
# by ones that then note down which modules are new; the last one sets options of it during the call.
_AROUND = {
    "install_generation_tagging_init.<locals>.patched_init": "init",
    "install_generation_tagging_init.<locals>.patched_setstate": "setstate",
    "wrap_dunder_call_ctx_manager.<locals>.inner": "func",
}


def _scan(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
    return scan(tx, fn, args, kwargs) if fn.name == "associative_scan" else None


def _twin(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
    """Constraints of distributions that ask tensors questions as they go, and weak references."""
    twin = DISTRIBUTIONS.get(fn.obj) if type(fn.obj) is types.FunctionType else None
    return inlined(tx, twin, args, kwargs) if twin is not None else None


def _said_once(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
    """transformers' `logger.warning_once`: said now, which is once, as far as anybody can see."""
    known = tx.try_python(*args[1:])
    logger = getattr(args[0], "obj", None) if args else None
    if not fn.name.endswith("_once") or logger is None or known is None or kwargs:
        return None
    getattr(logger, fn.name)(*known)
    return NONE


def _capturing_hooks(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
    """transformers hooks into a model under a lock when its inner outputs are first asked for: done now, then traced anew."""
    model = getattr(args[0], "obj", None) if args else None
    if fn.name != "maybe_install_capturing_hooks" or model is None or getattr(model, "_output_capturing_hooks_installed", False):
        return None
    fn.obj(model)  # type: ignore[misc]  # python_function is asked for real functions only
    raise RestartTrace(fn.name)


def _broken(id: str) -> Verdict:
    def verdict(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
        raise tx.break_(id, f"{fn.globals.get('__name__')}.{fn.qualname}")

    return verdict


def _broken_names(id: str, *names: str) -> Verdict:
    def verdict(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
        if fn.name in names:
            raise tx.break_(id, f"{fn.globals.get('__name__')}.{fn.qualname}")
        return None

    return verdict


def _onnx(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
    # Judged here and not by a row of its own: importing torch.onnx for the row would cost 80 ms.
    if fn.name == "is_in_onnx_export":
        return FALSE
    raise tx.break_("DD021", f"torch.onnx.{fn.name}")


def fold_now(tx: Tracer, fn: Any, args: Args, kwargs: Kwargs) -> Value | None:
    """Call a question of torch's now; None when an argument isn't known, or the answer isn't plain."""
    return fold(tx, fn, args, kwargs)


_inline: Verdict = lambda tx, fn, args, kwargs: None  # noqa: E731  # a row like the others

# Module that defines the function (the longest matching prefix counts) -> verdict.
_HOMES: dict[str, Verdict] = {
    "pdb": _broken_names("DD033", "set_trace"),
    "torch.functional": leaf,
    "torch.nn.functional": leaf,
    "torch.nn.init": leaf,
    "torch.special": leaf,
    "torch.linalg": leaf,
    "torch.fft": leaf,
    "torch.signal": leaf,
    "torch.sparse": leaf,
    "torch._refs": leaf,
    "torch._decomp": leaf,
    "torch._prims": leaf,
    "torch._prims_common": leaf,
    "torch._tensor": _tensor_function,
    "torch._jit_internal": _jit_internal,
    "torch._compile": _undecorated,
    "torch.autograd": _broken_names("DD022", "backward", "grad"),
    "torch.autograd.functional": _broken("DD022"),
    "torch.autograd.graph": _broken_names("DD022", "register_multi_grad_hook"),
    "torch.autograd.grad_mode": _inline,
    "torch.autograd.function": _inline,
    "torch.autograd.profiler": _inline,
    "torch.autograd.forward_ad": _broken("DD022"),
    "torch._functorch": transform,
    "torch._functorch.functional_call": _inline,
    "torch._functorch.utils": _inline,
    # Eager runs cond, while_loop, map and scan by torch's own compiler, which decides what their functions may do and what is raised.
    # Called between graphs they are eager's own. `torch.cond` has a row of its own (`conditionals.py`), for what is surely accepted.
    "torch._higher_order_ops": _broken("DD022"),
    "torch._higher_order_ops.associative_scan": _scan,
    attention.HOME: attention.flex,
    "torch.distributions.constraints": _twin,
    "torch.distributions.transforms": _twin,
    "transformers.utils.logging": _said_once,
    "transformers.utils.output_capturing": _capturing_hooks,
    "torch._dynamo": _peer,
    "torch.optim": _optimizer,
    "dynamo.public.api": _own,
    "torch._inductor": _broken("DD021"),
    "torch.export": _broken("DD021"),
    "torch.export._tree_utils": _inline,
    "torch.export._unlift": _inline,  # what modules of exported programs do around their graph
    "torch.onnx": _onnx,
    "torch.serialization": _broken("DD005"),
    "torch.hub": _broken("DD005"),
    "torch.multiprocessing": _broken("DD005"),
    "torch.utils.data": _broken("DD005"),
    "torch.jit._trace": _script_if_tracing,
    "torch.jit._script": _broken("DD021"),
    "torch.cuda.streams": _broken("DD022"),
    "torch.cuda.graphs": _broken("DD022"),
    "torch.distributed.distributed_c10d": _broken("DD005"),
    "numpy": _broken("DD005"),
    "scipy": _broken("DD005"),
    "random": _broken("DD023"),
}


@functools.cache
def _home_row(module: str) -> Verdict | None:
    while module:
        row = _HOMES.get(module)
        if row is not None:
            return row
        module = module.rpartition(".")[0]
    return None


# ---- builtins ---------------------------------------------------------------------------------------------

_DATA_FROM_OUTSIDE = frozenset({"from_numpy", "frombuffer", "from_file", "from_dlpack"})
# Compute anew without their `out` what is a tensor of a subclass, as those of a trace are.
_LOSES_OUT = frozenset({"linalg_matrix_rank"})
_FROM_DATA = frozenset({"tensor", "as_tensor", "asarray"})
# Part of the state guard of every entry, and switched inside of functions.
_IN_STATE = frozenset(
    {"is_inference_mode_enabled", "_is_torch_function_enabled", "_is_torch_function_all_disabled", "_is_any_autocast_enabled"}
)
_GETTER = re.compile(r"_{0,2}(cuda_|cpu_)?(is|are|get|has|can|len|dispatch_has|dispatch_get|supports|cuda_isIn|cuda_getDevice)(_|[A-Z])")


_SPACES = ("_VariableFunctions", "_nn", "_fft", "_linalg", "_special", "_sparse", "_nested")
SPACES = tuple(getattr(torch._C, name, None) for name in _SPACES)  # where torch keeps its builtin functions of tensors


def is_graph_op(obj: Any, name: str) -> bool:
    """Whether a builtin function computes tensors. Each is kept under its own name, so the other thousand need not be looked at."""
    if not isinstance(obj, types.BuiltinFunctionType) or name.startswith("__"):
        return False
    return any(getattr(space, name, None) is obj for space in SPACES)


def _c_home(obj: Any) -> str:
    owner = getattr(obj, "__self__", None)
    return getattr(obj, "__module__", None) or (owner.__name__ if isinstance(owner, types.ModuleType) else "")


# ---- callable objects -------------------------------------------------------------------------------------


def _operator(tx: Tracer, fn: ObjectValue, args: Args, kwargs: Kwargs) -> Value:
    """torch.ops objects, custom operators, scripted functions: one node."""
    if fn.obj is None:
        raise tx.break_("DD005", fn.describe())
    _same_object(tx, fn, fn.obj)
    if marks.allowed(fn.obj) is False or marks.disabled(fn.obj) is not None:
        raise tx.break_("DD021", fn.describe())
    if isinstance(fn.obj, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        _rehearse_operator(tx, fn.obj, args, kwargs)
    target = fn.obj if not isinstance(fn.obj, torch.jit.ScriptFunction) else graph_helpers.calling(fn.obj, str(fn.obj.name))
    return tx.call_function(target, args, kwargs)


def _custom_operator(tx: Tracer, fn: ObjectValue, args: Args, kwargs: Kwargs) -> Value:
    if fn.obj is None:
        raise tx.break_("DD005", fn.describe())
    _same_object(tx, fn, fn.obj)
    _rehearse_operator(tx, fn.obj._opoverload, args, kwargs)
    return tx.call_function(fn.obj._opoverload, args, kwargs)


def _rehearse_operator(tx: Tracer, op: Any, args: Args, kwargs: Kwargs) -> None:
    rehearse_operator(tx, op, args, kwargs)


def _ufunc(tx: Tracer, fn: OpaqueValue, args: Args, kwargs: Kwargs) -> Value:
    _same_object(tx, fn, fn.obj)
    return ufunc(tx, fn, args, kwargs)


def _numpy_function(tx: Tracer, fn: OpaqueValue, args: Args, kwargs: Kwargs) -> Value:
    _same_object(tx, fn, fn.obj)
    return dispatched(tx, fn, args, kwargs)


def _machinery(tx: Tracer, fn: Value, args: Args, kwargs: Kwargs) -> Value:
    raise tx.break_("DD022", fn.describe())


def _scripted_module(tx: Tracer, fn: Value, args: Args, kwargs: Kwargs) -> Value:
    raise tx.break_("DD005", fn.describe())


def _compiled(tx: Tracer, fn: OpaqueValue, args: Args, kwargs: Kwargs) -> Value:
    """A function compiled by this package, called from another: its code is part of the caller's graph."""
    _same_object(tx, fn, fn.obj)
    inner = fn.obj.fn
    return tx_call(tx, tx.wrap(inner, const_source(inner, getattr(inner, "__qualname__", "compiled"))), args, kwargs)


def _module(tx: Tracer, fn: ObjectValue, args: Args, kwargs: Kwargs) -> Value:
    return call_module(tx, fn, args, kwargs)


_CALLABLES: tuple[tuple[type, Callable[[Tracer, Any, Args, Kwargs], Value]], ...] = (
    (torch.jit.ScriptModule, _scripted_module),
    *(((np.ufunc, _ufunc), (type(np.sum), _numpy_function)) if np is not None else ()),
    (torch.nn.Module, _module),
    (torch._ops.HigherOrderOperator, _machinery),
    (torch._ops.OperatorBase, _operator),
    (torch._ops.OpOverloadPacket, _operator),
    (torch._library.custom_ops.CustomOpDef, _custom_operator),
    (torch.jit.ScriptFunction, _operator),
    (_C.Compiled, _compiled),
)
