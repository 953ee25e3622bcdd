"""Names of frames: cells and globals, with the guards that reading one needs."""

from __future__ import annotations

from types import BuiltinFunctionType, CellType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import torch

from dynamo.guards.definitions import MISSING
from dynamo.inspection import is_library
from dynamo.source import const_source
from dynamo.surroundings.pristine import builtin
from dynamo.symbolic.protocols.tables import name_written
from dynamo.symbolic.values.errors import Raised
from dynamo.symbolic.values.kinds import CellValue, Const, ExceptionValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

_FIXED_KINDS = (ModuleType, FunctionType, BuiltinFunctionType, type)


def cell_get(tx: Tracer, cell: CellValue, name: str, free: bool) -> Value:
    if cell.contents is None:
        if cell.source is not None and id(cell) not in tx.effects.mutated:
            tx.guard(cell.source, "pred", _is_empty)
        if free:
            raise name_error(tx, f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope", name)
        raise tx.throw(UnboundLocalError, f"cannot access local variable '{name}' where it is not associated with a value")
    v = cell.contents = tx.realize(cell.contents)
    return v


def cell_set(tx: Tracer, cell: CellValue, v: Value | None) -> None:
    tx.touch(cell)
    cell.contents = v


def load_global(tx: Tracer, globals_: dict[str, Any], name: str) -> Value:
    """LOAD_GLOBAL / LOAD_NAME, with guards on the name found; what libraries define is taken as unchanging."""
    written = name_written(tx, globals_, name)
    if written is not MISSING:
        if written is None:
            raise name_error(tx, f"name '{name}' is not defined", name)
        return written
    base = tx.globals.get(id(globals_))
    if base is None:
        base = tx.globals[id(globals_)] = const_source(globals_, "G")
    fixed = is_library(str(globals_.get("__name__", "")))
    if name in globals_:
        obj = globals_[name]
        if fixed and isinstance(obj, _FIXED_KINDS):
            return defined(tx, globals_, name, obj)
        return tx.wrap(obj, base.step("dict_item", name, f"G[{name!r}]"))
    builtins = globals_.get("__builtins__", __builtins__)
    table = builtins if isinstance(builtins, dict) else vars(builtins)
    if not fixed:
        tx.guard(base, "no_key", name)
    found = builtin(table, name, MISSING)
    if found is not MISSING:
        return defined(tx, table, name, found)
    tx.guards.definitions.of_dict(table, name, MISSING)
    raise name_error(tx, f"name '{name}' is not defined", name)


def defined(tx: Tracer, holder: dict[str, Any], name: str, obj: object) -> Value:
    """What a library, or builtins, define under a name; relied upon, with the code of a function that was put there later."""
    tx.guards.definitions.of_dict(holder, name, obj)
    if id(obj) not in tx.identities.by_id and isinstance(obj, FunctionType | torch.Tensor):
        return tx.wrap(obj, const_source(obj, name))
    return tx.wrap(obj, None)


def name_error(tx: Tracer, text: str, name: str) -> Raised:
    """A NameError that knows the name; an UnboundLocalError never does."""
    e = tx.throw(NameError, text)
    assert isinstance(e.value, ExceptionValue)
    e.value.slots["name"] = Const(name)
    return e


def _is_empty(cell: CellType) -> bool:
    """is empty"""
    try:
        cell.cell_contents  # noqa: B018  # read for its error
    except ValueError:
        return True
    return False
