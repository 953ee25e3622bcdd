"""Calling `nn.Module`s: straight to `forward` when nothing is hooked in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as nn_module
from torch.nn.modules.lazy import LazyModuleMixin

from dynamo import marks
from dynamo.graph import helpers as graph_helpers
from dynamo.source import Source, const_source
from dynamo.symbolic.protocols.attributes import getattr_, instance_dict, tx_call
from dynamo.symbolic.protocols.calls import inline
from dynamo.symbolic.protocols.registry import function
from dynamo.symbolic.protocols.tables import dict_get
from dynamo.symbolic.values.kinds import Const, DictValue, FunctionValue, ObjectValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

    Args = list[Value]
    Kwargs = dict[str, Value]

Module = torch.nn.Module
_FORWARD_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")
_GLOBAL_HOOKS: tuple[tuple[dict[Any, Any], bool, Source], ...] = tuple(
    (table, backward, const_source(table, "torch.nn.modules.module hooks"))
    for table, backward in (
        (nn_module._global_forward_hooks, False),
        (nn_module._global_forward_pre_hooks, False),
        (nn_module._global_backward_hooks, True),
        (nn_module._global_backward_pre_hooks, True),
    )
)


def call_module(tx: Tracer, m: ObjectValue, args: Args, kwargs: Kwargs) -> Value:
    """`m(*args, **kwargs)`."""
    if m.obj is not None:
        found = _marked(tx, m, args, kwargs)
        if found is not None:
            return found
    call = tx.lookup(m.cls, "__call__")
    if call is Module.__call__:
        return call_hooked(tx, m, args, kwargs)
    return tx_call(tx, tx.wrap(call, const_source(call, f"{m.cls.__name__}.__call__")), [m, *args], kwargs)


def _marked(tx: Tracer, m: ObjectValue, args: Args, kwargs: Kwargs) -> Value | None:
    if marks.disabled(m.obj) is not None or marks.disabled(m.cls) is not None:
        raise tx.break_("DD021", f"{m.describe()} is disabled")
    say = marks.allowed(m.obj) if marks.allowed(m.obj) is not None else marks.allowed(m.cls)
    if say is False:
        raise tx.break_("DD021", f"{m.describe()} is disallowed in graphs")
    if not say:
        compiled = m.obj.__dict__.get("_compiled_call_impl")
        return None if compiled is None else tx_call(tx, tx.wrap(compiled, const_source(compiled, "compiled")), args, kwargs)
    if m.source is not None:
        tx.guard(m.source, "is", m.obj)
    return tx.call_function(graph_helpers.calling(m.obj, m.cls.__name__), args, kwargs)


def call_hooked(tx: Tracer, m: ObjectValue, args: Args, kwargs: Kwargs) -> Value:
    """`nn.Module.__call__`: `forward`, or torch's own `_call_impl` inlined when there are hooks to run."""
    if not _hooks(tx, m):
        return tx_call(tx, getattr_(tx, m, "forward"), args, kwargs)
    impl: Any = Module._call_impl
    fn = tx.wrap(impl, const_source(impl, "Module._call_impl"))
    assert isinstance(fn, FunctionValue)
    return inline(tx, fn, [m, *args], kwargs)


def _hooks(tx: Tracer, m: ObjectValue) -> bool:
    """Whether forward hooks exist; backward hooks are a break. Either way the answer is guarded."""
    found = False
    for table, backward, source in _GLOBAL_HOOKS:
        if table and backward:
            raise tx.break_("DD022", "a global backward hook of modules")
        if table:
            found = True
        else:
            tx.guard(source, "len", 0)
    d = instance_dict(tx, m)
    if issubclass(m.cls, LazyModuleMixin) and d is not None and d.source is not None and "_initialize_hook" in d.table:
        e = tx.break_("DD029", m.describe())
        e.because = (d.source, "has_key", "_initialize_hook")
        raise e
    for name in _FORWARD_HOOKS:
        found = _some(tx, d, name) or found
    for name in _BACKWARD_HOOKS:
        if _some(tx, d, name):
            raise tx.break_("DD022", f"backward hooks of {m.describe()}")
    return found


def _some(tx: Tracer, d: DictValue | None, name: str) -> bool:
    """Whether a hook table has entries. A real and empty one costs a single guard."""
    if d is None:
        return False
    real = d.obj.get(name) if d.obj is not None else None
    entry = d.table.get(name)
    if real is not None and not real and d.source is not None and id(d) not in tx.effects.mutated and id(real) not in tx.identities.by_id:
        tx.guard(d.source.step("dict_item", name), "len", 0)
        return False
    if entry is None:
        return False
    hooks = dict_get(tx, d, Const(name))
    if not isinstance(hooks, DictValue):
        return False
    if not hooks.table and hooks.source is not None:
        tx.guard(hooks.source, "len", 0)
    return bool(hooks.table)


@function(Module.__call__)
def _module_call(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """`super().__call__(...)` and `nn.Module.__call__(m, ...)`."""
    m = args[0]
    if not isinstance(m, ObjectValue):
        raise tx.break_("DD005", f"nn.Module.__call__ of {m.describe()}")
    return call_hooked(tx, m, args[1:], kwargs)
