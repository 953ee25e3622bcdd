"""Methods and attributes of tensors."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynamo.graph import helpers as graph_helpers
from dynamo.inspection import is_library
from dynamo.source import const_source
from dynamo.symbolic.protocols import tensor_numbers
from dynamo.symbolic.protocols.iteration import iter_, list_iter
from dynamo.symbolic.protocols.operators import len_, truth
from dynamo.symbolic.protocols.registry import METHODS, method
from dynamo.symbolic.torch.attention import element
from dynamo.symbolic.torch.numpy_arrays import with_dtype
from dynamo.symbolic.values.kinds import (
    NONE,
    NOT_IMPLEMENTED,
    ClassValue,
    Const,
    FunctionValue,
    TensorValue,
    TupleValue,
    Value,
)
from dynamo.symbolic.values.slots import fill

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

    Args = list[Value]
    Kwargs = dict[str, Value]

Base = torch._C.TensorBase
Tensor = torch.Tensor

# ---- methods ----------------------------------------------------------------------------------------------

# method name -> id of the break
_BREAKING: dict[str, str] = {
    **dict.fromkeys(("item", "tolist", "numpy", "__array__", "__dlpack__", "__dlpack_device__", "data_ptr"), "DD003"),
    **dict.fromkeys(("nonzero_static", "__reduce_ex__", "__repr__", "__format__", "__dir__"), "DD003"),
    **dict.fromkeys(("backward", "register_hook", "register_post_accumulate_grad_hook", "_backward_hooks", "retain_grad"), "DD022"),
    **dict.fromkeys(("untyped_storage", "storage", "_typed_storage", "storage_type", "share_memory_", "is_shared", "module_load"), "DD014"),
    **dict.fromkeys(("set_", "as_subclass", "_make_subclass", "map_", "map2_", "apply_", "record_stream", "pin_memory"), "DD022"),
    **dict.fromkeys(("to_sparse", "to_sparse_coo", "to_sparse_csr", "to_sparse_csc", "to_sparse_bsr", "to_mkldnn"), "DD011"),
}
_WITH_CONSTANT = frozenset({"item", "tolist", "__bool__", "__int__", "__float__", "__complex__", "__index__"})


def tensor_method(tx: Tracer, raw: Any, self_: Value, rest: Args, kwargs: Kwargs) -> Value | None:
    """A C method with a tensor as receiver or among the arguments; None = not a matter of tensors."""
    name = raw.__name__
    if not isinstance(self_, TensorValue):
        # `(3).__add__(tensor)`: the number steps back, so that the tensor's reflected method is asked.
        return NOT_IMPLEMENTED if isinstance(self_, Const) and name.startswith("__") and name.endswith("__") else None
    return call_tensor_method(tx, name, self_, rest, kwargs) if is_tensor_descriptor(raw) else None


def is_tensor_descriptor(raw: Any) -> bool:
    return raw.__objclass__ is not object and issubclass(Tensor, raw.__objclass__)


def breaking_method(name: str, self_: TensorValue) -> tuple[str, str] | None:
    """(id of the break, what) for a method that can't be captured."""
    reason = _BREAKING.get(name)
    if reason is None or (name in _WITH_CONSTANT and self_.fake.constant is not None) or tensor_numbers.wanted(name, self_):
        return None
    return reason, f"Tensor.{name}"


def call_tensor_method(tx: Tracer, name: str, self_: TensorValue, rest: Args, kwargs: Kwargs) -> Value:
    certain = breaking_method(name, self_)
    if certain is not None:
        raise tx.break_(*certain)
    if name in ("item", "tolist") and self_.fake.constant is None and not rest and not kwargs:
        return tensor_numbers.read(tx, name, self_)
    return tx.call_method(name, [self_, *rest], kwargs)


def python_method(tx: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
    """A method that torch defines in Python (torch/_tensor.py)."""
    if not args or not isinstance(args[0], TensorValue):
        if any(isinstance(a, TensorValue) for a in args):
            return NOT_IMPLEMENTED
        return None
    row = _PYTHON_METHODS.get(fn.name)
    if row is not None:
        return row(tx, args[0], args[1:], kwargs)
    return call_tensor_method(tx, fn.name, args[0], args[1:], kwargs)


def _len(tx: Tracer, self_: TensorValue, rest: Args, kwargs: Kwargs) -> Value:
    return len_(tx, self_)


def _iter(tx: Tracer, self_: TensorValue, rest: Args, kwargs: Kwargs) -> Value:
    return iter_(tx, self_)


def _hash(tx: Tracer, self_: TensorValue, rest: Args, kwargs: Kwargs) -> Value:
    raise tx.break_("DD013", f"hash of {self_.describe()}")


_PYTHON_METHODS: dict[str, Callable[[Tracer, TensorValue, Args, Kwargs], Value]] = {"__len__": _len, "__iter__": _iter, "__hash__": _hash}


def _number(cls: type) -> Callable[..., Value]:
    def row(tx: Tracer, self_: Value, args: Args, kwargs: Kwargs) -> Value:
        constant = self_.fake.constant if isinstance(self_, TensorValue) else None
        if constant is None:
            name = f"__{cls.__name__}__"
            if isinstance(self_, TensorValue) and tensor_numbers.wanted(name, self_):
                return tensor_numbers.read(tx, name, self_)
            raise tx.break_("DD003", f"{cls.__name__}() of {self_.describe()}")
        try:
            return tx.wrap(cls(constant), None)
        except (RuntimeError, ValueError, TypeError) as e:
            raise tx.throw(type(e), *e.args) from e

    return row


for _name, _cls in (("__bool__", bool), ("__int__", int), ("__float__", float), ("__complex__", complex), ("__index__", int)):
    METHODS.add(getattr(Base, _name))(_number(_cls))


@method(Base.type)
def _type(tx: Tracer, self_: TensorValue, args: Args, kwargs: Kwargs) -> Value:
    """`x.type()` is a name; `x.type(dtype)` converts."""
    if args and isinstance(args[0], ClassValue) and args[0].obj in (bool, int, float, complex):  # which are dtypes everywhere else
        raise tx.throw(ValueError, f"invalid type: '{args[0].obj.__name__}'")
    if args or kwargs:
        return tx.call_method("type", [self_, *args], kwargs)
    f = self_.fake
    name = torch.empty(0, dtype=f.dtype).type()
    return Const(name if f.device.type == "cpu" else name.replace("torch.", f"torch.{f.device.type}."))


def _scaled(name: str, combine: Callable[..., Any] | None, scale: str) -> Callable[..., Value]:
    """`x.add_(y, alpha=a)` and its kin take a number; optimizers that are traced have a tensor there."""
    inplace = name.endswith("_")

    def row(tx: Tracer, self_: TensorValue, args: Args, kwargs: Kwargs) -> Value:
        factor = kwargs.get(scale)
        if not isinstance(factor, TensorValue):
            return tx.call_method(name, [self_, *args], kwargs)
        term = tx.call_function(combine, args, {}) if combine is not None else args[0]
        term = tx.call_function(torch.mul, [term, factor], {})
        return tx.call_method("add_" if inplace else "add", [self_, term], {})

    return row


for _name, _combine, _scale in (("add", None, "alpha"), ("addcdiv", torch.div, "value"), ("addcmul", torch.mul, "value")):
    for _suffix in ("", "_"):
        METHODS.add(getattr(Base, _name + _suffix))(_scaled(_name + _suffix, _combine, _scale))


@method(Base.new)
def _new(tx: Tracer, self_: TensorValue, args: Args, kwargs: Kwargs) -> Value:
    """`x.new(x.shape)` is a shape where `x.new((2, 3))` is data; in the arguments of a graph both are tuples."""
    if len(args) == 1 and args[0].cls is torch.Size:
        return tx.call_method("new_empty", [self_, *args], kwargs)
    return tx.call_method("new", [self_, *args], kwargs)


@method(Base.new_tensor)
def _new_tensor(tx: Tracer, self_: TensorValue, args: Args, kwargs: Kwargs) -> Value:
    return tx.call_method("new_tensor", [self_, *args], with_dtype(tx, torch.empty(0, dtype=self_.fake.dtype).new_tensor, args, kwargs))


@method(Base.get_device)
def _get_device(tx: Tracer, self_: TensorValue, args: Args, kwargs: Kwargs) -> Value:
    device = self_.fake.device
    return Const(-1 if device.type == "cpu" else device.index or 0)


@method(Base._is_view)
def _is_view(tx: Tracer, self_: TensorValue, args: Args, kwargs: Kwargs) -> Value:
    raise tx.break_("DD014", f"_is_view of {self_.describe()}")


# ---- reading attributes -----------------------------------------------------------------------------------

_FACTS = frozenset(
    {
        *("shape", "dtype", "device", "ndim", "requires_grad", "is_leaf", "layout", "itemsize", "nbytes", "output_nr"),
        *("is_cuda", "is_cpu", "is_meta", "is_sparse", "is_sparse_csr", "is_quantized", "is_mkldnn", "is_mps", "is_xpu", "is_xla"),
        *("is_ipu", "is_maia", "is_mtia", "is_nested", "is_vulkan", "names", "name", "_has_symbolic_sizes_strides", "grad_dtype"),
    }
)
_HISTORY = frozenset({"is_leaf", "output_nr", "grad_dtype"})
_NODES = frozenset({"T", "mT", "H", "mH", "real", "imag", "data"})


def tensor_getset(tx: Tracer, v: TensorValue, name: str) -> Value | None:
    """An attribute that torch implements in C."""
    if name in v.attrs:
        return v.attrs[name]
    if name in _FACTS:
        tx.note_asked(name)
        if name in _HISTORY:
            is_leaf = _is_leaf(tx, v)
            if name != "is_leaf" and not is_leaf:
                raise tx.break_("DD014", f"{name} of {v.describe()}, which is no leaf")
            _guard_history(tx, v, "is_leaf")
        return tx.wrap(getattr(v.fake, name), None)
    if name in _NODES:
        return tx.call_function(getattr, [v, Const(name)], {})
    row = _ATTRIBUTES.get(name)
    if row is not None:
        return row(tx, v)
    if name == "__dict__":
        raise tx.break_("DD014", f"__dict__ of {v.describe()}")
    raise tx.break_("DD014", f"attribute {name!r} of {v.describe()}")


def _is_leaf(tx: Tracer, v: TensorValue) -> bool:
    """Whether a tensor has no history. That of a view is made anew after a write, from its base: where a view of a leaf that is itself a
    view was written to without gradients, the base may have none to give, which for fakes is an error of torch's own."""
    try:
        return v.fake.is_leaf
    except RuntimeError as e:
        raise tx.break_("DD014", f"the history of {v.describe()}, a view that was written to since", cause=e) from e


def _grad(tx: Tracer, v: TensorValue) -> Value:
    """The accumulated gradient: a fact of an input, None for what the graph makes (nothing runs backward in a graph)."""
    if v.fake.requires_grad and not _is_leaf(tx, v):
        raise tx.break_("DD014", f"grad of {v.describe()}, which is no leaf")  # torch warns, and it may retain its gradient
    if v.obj is None or v.source is None or not v.obj.is_leaf:
        return NONE
    return tx.wrap(v.obj.grad, v.source.attr("grad"))


def _guard_history(tx: Tracer, v: TensorValue, name: str) -> None:
    """What autograd knows of an input that needs a gradient is no fact of inputs otherwise: few programs ask."""
    if v.obj is not None and v.source is not None and v.obj.requires_grad:
        tx.guard(v.source.attr(name), "eq", getattr(v.obj, name))


def _grad_fn(tx: Tracer, v: TensorValue) -> Value:
    if not v.fake.requires_grad or _is_leaf(tx, v):
        _guard_history(tx, v, "is_leaf")
        return NONE
    raise tx.break_("DD014", f"grad_fn of {v.describe()}")


def _retains_grad(tx: Tracer, v: TensorValue) -> Value:
    _guard_history(tx, v, "retains_grad")
    return Const(v.fake.retains_grad or (v.obj is not None and v.obj.retains_grad))


def _backward_hooks(tx: Tracer, v: TensorValue) -> Value:
    if v.obj is not None and v.obj._backward_hooks:
        raise tx.break_("DD022", f"hooks of {v.describe()}")
    if v.obj is not None and v.source is not None:
        tx.guard(v.source.attr("_backward_hooks"), "eq", v.obj._backward_hooks)
    return NONE


def _base(tx: Tracer, v: TensorValue) -> Value:
    if v.source is None and v.fake._base is None:  # no guard asks what an input is a view of
        return NONE
    raise tx.break_("DD014", f"_base of {v.describe()}")


_ATTRIBUTES: dict[str, Callable[[Tracer, TensorValue], Value]] = {
    "grad": _grad,
    "_grad": _grad,
    "grad_fn": _grad_fn,
    "_grad_fn": _grad_fn,
    "_backward_hooks": _backward_hooks,
    "retains_grad": _retains_grad,
    "_base": _base,
}


def user_attribute(tx: Tracer, v: TensorValue, name: str, raw: Any) -> Value | None:
    """An attribute that Python code put on a tensor; None (and guarded) when there is none. `raw` is the entry of the tensor's class."""
    if name in v.attrs:
        return v.attrs[name]
    if v.obj is None:
        return None
    source = v.source if v.source is not None else const_source(v.obj, "tensor")
    members = getattr(v.obj, "__dict__", None) or {}
    if name in members:
        return tx.wrap(members[name], source.step("inst_dict").step("dict_item", name))
    if name not in _NEVER_SET and not _is_of_torch(raw):
        tx.guard(source, "no_inst_attr", name)
    return None


def _is_of_torch(raw: Any) -> bool:
    """Whether an entry of a tensor's class is a method that torch defines: that no instance has another one is not guarded."""
    return callable(raw) and is_library(str(getattr(raw, "__module__", None) or getattr(raw, "__objclass__", torch.Tensor).__module__))


# Names that library code asks every tensor for; guarding their absence would cost each parameter a check.
_NEVER_SET = frozenset({"_is_param", "_spec", "device_mesh", "__torch_function__", "_dynamo_dynamic_indices"})

# ---- setting attributes -----------------------------------------------------------------------------------


def tensor_setattr(tx: Tracer, v: TensorValue, name: str, value: Value | None) -> None:
    """`v.name = value`; None deletes."""
    raw = next((c.__dict__[name] for c in v.cls.__mro__ if name in c.__dict__), None)
    if raw is None and value is not None:
        tx.touch(v)
        v.attrs[name] = value
        return
    row = _SETTERS.get(name)
    if row is None or value is None or not isinstance(raw, types.GetSetDescriptorType | property):
        raise tx.break_("DD015", f"{v.describe()}.{name}")
    row(tx, v, value)


def set_flag(tx: Tracer, v: TensorValue, flag: Value) -> None:
    """A graph is differentiated as a whole, from inputs to results: what becomes or stops being a leaf does so between graphs."""
    known = tx.try_python(flag)
    is_refused = v.fake.is_inference() and not torch.is_inference_mode_enabled()  # also where the flag has that value
    if known is None or known[0] is not v.fake.requires_grad or (known[0] and is_refused):
        raise tx.break_("DD027", f"requires_grad of {v.describe()} is changed")
    if known[0]:  # which it may have by its base alone
        tx.guard_leaf(v)


def _set_requires_grad(tx: Tracer, v: TensorValue, value: Value) -> None:
    set_flag(tx, v, value)


def _set_grad(tx: Tracer, v: TensorValue, value: Value) -> None:
    if not isinstance(value, TensorValue) and value is not NONE and not (isinstance(value, Const) and value.value is None):
        raise tx.break_("DD015", f"{v.describe()}.grad = {value.describe()}")
    tx.touch(v)
    v.attrs["grad"] = value
    if tx.builder.has_ops or isinstance(value, TensorValue):
        tx.effects.grads_dropped.discard(id(v))
    else:
        tx.effects.grads_dropped.add(id(v))


def _set_data(tx: Tracer, v: TensorValue, value: Value) -> None:
    if not isinstance(value, TensorValue):
        raise tx.break_("DD015", f"{v.describe()}.data = {value.describe()}")
    tx.call_function(graph_helpers.set_data, [v, value], {})


_SETTERS: dict[str, Callable[[Tracer, TensorValue, Value], None]] = {
    "requires_grad": _set_requires_grad,
    "grad": _set_grad,
    "data": _set_data,
}


# ---- operators --------------------------------------------------------------------------------------------


def _truth_of(tx: Tracer, v: TensorValue) -> bool:
    constant = getattr(v.fake, "constant", None)
    if constant is not None and constant.numel() == 1:
        return bool(constant)
    raise tx.break_("DD001", v.describe())


def _length(tx: Tracer, v: TensorValue) -> Value:
    if v.fake.dim() == 0:
        raise tx.throw(TypeError, "len() of a 0-d tensor")
    return Const(int(v.fake.shape[0]))


def _getitem(tx: Tracer, v: TensorValue, key: Value) -> Value:
    found = element(tx, v, key)
    return found if found is not None else tx.call_function(operator.getitem, [v, key], {})


def _setitem(tx: Tracer, v: TensorValue, key: Value, x: Value) -> None:
    tx.call_function(operator.setitem, [v, key, x], {})


def _contains(tx: Tracer, v: TensorValue, x: Value) -> bool:
    return truth(tx, tx.call_method("__contains__", [v, x], {}))


def _rows_of(tx: Tracer, v: TensorValue) -> Value:
    if v.fake.dim() == 0:
        raise tx.throw(TypeError, "iteration over a 0-d tensor")
    parts = tx.call_method("unbind", [v, Const(0)], {})
    assert isinstance(parts, TupleValue)
    return list_iter(tx, tx.items(parts.items))


fill(
    TensorValue,
    truth=_truth_of,
    len=_length,
    getitem=_getitem,
    setitem=_setitem,
    contains=_contains,
    iter=_rows_of,
    getset=tensor_getset,
    own_attribute=user_attribute,
    set_attribute=tensor_setattr,
)
