"""Everything that a saved graph may call, by name. A file names rows of these tables; nothing else is ever looked up or imported.

Torch's own list of what `__torch_function__` sees (functions of tensors) is the base; creation functions and the switches of global
modes are added by name, and what reads or writes files is taken away.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
import types
from collections.abc import Callable, Container
from typing import Any

import torch
import torch.utils.checkpoint  # loads what the helper of that name needs

from dynamo.aot.decompose import words
from dynamo.export.facts import SaveError, VocabularyError
from dynamo.graph import helpers as graph_helpers
from dynamo.graph import transforms

_C_SPACES = ("_VariableFunctions", "_nn", "_fft", "_linalg", "_special", "_sparse", "_nested")
_PYTHON_SPACES = ("torch.nn.functional", "torch.functional", "torch.linalg", "torch.fft", "torch.special", "torch.sparse", "torch")

# they reach files, foreign memory, processes or the compiler
_DENIED = frozenset(
    words(
        """from_file load save frombuffer from_numpy from_dlpack to_dlpack compile import_ir_module handle_torch_function boolean_dispatch
    assert_int_or_pair has_torch_function has_torch_function_unary has_torch_function_variadic set_num_threads"""
    )
)
_DENIED_METHODS = frozenset(
    words(
        """apply_ map_ map2_ register_hook register_post_accumulate_grad_hook share_memory_ storage untyped_storage _typed_storage numpy
    tolist data_ptr __reduce__ __reduce_ex__ __setstate__ __deepcopy__ __array__ __array_wrap__ __dlpack__ module_load to_dlpack
    backward reinforce set_ __torch_dispatch__ __dlpack_device__ __cuda_array_interface__ pin_memory cuda xpu mtia ipu"""
    )
)

_BY_NAME = words("""
    torch._C._set_grad_enabled torch._C._disable_torch_function
    torch.set_autocast_enabled torch.set_autocast_dtype torch.set_autocast_cache_enabled torch.autocast_increment_nesting
    torch.autocast_decrement_nesting torch.clear_autocast_cache torch.manual_seed torch.set_default_dtype
    torch.amp.autocast_mode._enter_autocast torch.amp.autocast_mode._exit_autocast
    torch._assert torch._assert_async torch._check torch.is_grad_enabled torch.is_tensor
    operator.add operator.sub operator.mul operator.truediv operator.floordiv operator.mod operator.pow operator.matmul operator.neg
    operator.pos operator.invert operator.and_ operator.or_ operator.xor operator.lshift operator.rshift operator.lt operator.le
    operator.eq operator.ne operator.gt operator.ge operator.getitem operator.setitem operator.iadd operator.isub operator.imul
    operator.itruediv operator.ifloordiv operator.imod operator.ipow operator.imatmul operator.iand operator.ior operator.ixor
    operator.ilshift operator.irshift operator.not_ operator.abs operator.inv operator.index operator.truth
    math.ceil math.floor math.trunc math.sqrt builtins.abs builtins.round builtins.min builtins.max builtins.sum builtins.pow
    builtins.divmod builtins.getattr builtins.len
    dynamo.graph_helpers.enter_inference_mode dynamo.graph_helpers.exit_inference_mode dynamo.graph_helpers.set_data
    dynamo.graph_helpers.make_parameter dynamo.graph_helpers.make_buffer dynamo.graph_helpers.checkpoint
    dynamo.graph_helpers.cond
    dynamo.transforms.vmap dynamo.transforms.grad dynamo.transforms.primal dynamo.transforms.vjp dynamo.transforms.push
    dynamo.transforms.jvp dynamo.transforms.jacrev dynamo.transforms.jacfwd
""")
_ROOTS: dict[str, Any] = {"torch": torch, "operator": operator, "math": math, "builtins": builtins}
_ROOTS |= {"graph_helpers": graph_helpers, "transforms": transforms}  # ours, below the name `dynamo`

OPERATOR_NAMESPACES = ("aten", "prims")
_DENIED_OPERATORS = frozenset({"from_file", "save", "load", "_export", "open"})

TYPES: dict[str, type] = {c.__name__: c for c in (int, float, bool, complex, str, list, tuple, dict, set, frozenset)}
TYPES |= {"torch.Tensor": torch.Tensor, "torch.nn.Parameter": torch.nn.Parameter, "torch.Size": torch.Size}


@functools.cache
def functions() -> dict[str, Callable[..., Any]]:
    """Name -> function."""
    found: dict[str, Callable[..., Any]] = {}
    for space in _C_SPACES:
        home = getattr(torch._C, space, None)
        for name in dir(home) if home is not None else ():
            fn = getattr(home, name)
            if isinstance(fn, types.BuiltinFunctionType) and not name.startswith("__") and name not in _DENIED:
                found[f"torch._C.{space}.{name}"] = fn
    overridable = {id(fn) for fns in torch.overrides.get_overridable_functions().values() for fn in fns}
    for space in _PYTHON_SPACES:
        home = _resolve(space)
        for name in dir(home):
            fn = getattr(home, name)
            is_function = isinstance(fn, types.FunctionType | types.BuiltinFunctionType)
            is_tensor_function = id(fn) in overridable or (space == "torch.nn.functional" and not name.startswith("_"))
            if is_function and is_tensor_function and name not in _DENIED and str(fn.__module__ or "torch").startswith("torch"):
                found[f"{space}.{name}"] = fn
    for name in _BY_NAME:
        fn = _resolve(name)
        if fn is not None:
            found[name] = fn
    return found


def _resolve(name: str) -> Any:
    """An attribute of a module by a name of ours (never by one from a file). None where this torch lacks it."""
    first, *rest = name.split(".")
    if first == "dynamo":
        first, *rest = rest
    at: Any = _ROOTS.get(first)
    for part in rest:
        at = getattr(at, part, None)
    return at


@functools.cache
def _names() -> dict[int, str]:
    names: dict[int, str] = {}
    for name, fn in functions().items():
        names[id(fn)] = name if id(fn) not in names or len(name) < len(names[id(fn)]) else names[id(fn)]
    return names


@functools.cache
def methods() -> frozenset[str]:
    """Names of tensor methods."""
    own = {
        name
        for fns in (torch.overrides.get_overridable_functions().get(torch.Tensor, []),)
        for fn in fns
        if (name := getattr(fn, "__name__", "")) and callable(getattr(torch.Tensor, name, None))
    }
    created = {n for n in dir(torch.Tensor) if n.startswith("new_")} | {"to", "type_as", "type", "new", "as_strided"}
    return frozenset((own | created) - _DENIED_METHODS)


@functools.cache
def properties() -> frozenset[str]:
    """Names that `getattr` of a tensor may read."""
    return frozenset({"T", "mT", "H", "mH", "real", "imag", "data", "grad", "shape", "dtype", "device", "ndim", "requires_grad", "is_leaf"})


def name_of(fn: Any) -> str:
    """The name of a function. Raises SaveError for one that is in no table."""
    if isinstance(fn, torch._ops.OpOverload):
        return f"torch.ops.{fn._schema.name.replace('::', '.')}.{fn._overloadname}"
    if isinstance(fn, torch._ops.OpOverloadPacket):
        return f"torch.ops.{fn._qualified_op_name.replace('::', '.')}"
    name = _names().get(id(fn))
    if name is None:
        text = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or repr(fn)
        raise SaveError(f"the graph calls {text}, which is no function of torch; make it a custom operator (torch.library) [EXP002]")
    return name


def function_of(name: str, namespaces: Container[str] = ()) -> Callable[..., Any]:
    """The function of a name. `namespaces` of custom operators are allowed besides torch's own. Raises VocabularyError."""
    if name.startswith("torch.ops."):
        return _operator(name, namespaces)
    fn = functions().get(name)
    if fn is None:
        raise VocabularyError(f"the file calls {_quoted(name)}, which is not in the vocabulary of exported graphs [EXP004]")
    return fn


def _operator(name: str, namespaces: Container[str]) -> Callable[..., Any]:
    parts = name.split(".")[2:]
    is_plain = len(parts) in (2, 3) and all(p.isidentifier() for p in parts)
    if not is_plain or parts[1] in _DENIED_OPERATORS or (parts[1].startswith("__") and not parts[1].endswith("__")):
        raise VocabularyError(f"the file calls {_quoted(name)}, which is not in the vocabulary of exported graphs [EXP004]")
    if parts[0] not in OPERATOR_NAMESPACES and parts[0] not in namespaces:
        raise VocabularyError(
            f"the file calls {_quoted(name)} of the library {parts[0]!r}; allow it with load(..., operators=[{parts[0]!r}]) [EXP004]"
        )
    found: Any = torch.ops
    for part in parts:
        found = getattr(found, part, None)
    kinds = torch._ops.OpOverload if len(parts) == 3 else torch._ops.OpOverloadPacket
    if not isinstance(found, kinds):
        raise VocabularyError(f"the file calls {_quoted(name)}, which this process lacks; import the library that defines it [EXP004]")
    return found


def checked_method(name: Any) -> str:
    if not isinstance(name, str) or name not in methods():
        raise VocabularyError(f"the file calls the tensor method {_quoted(name)}, which is not in the vocabulary [EXP004]")
    return name


def _quoted(name: Any) -> str:
    text = repr(name)
    return text if len(text) <= 80 else text[:77] + "..."
