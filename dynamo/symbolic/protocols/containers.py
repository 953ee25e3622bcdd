"""Helpers over containers that opcodes and handlers share: code constants, mappings, indexes, class patterns, imports."""

from __future__ import annotations

import importlib.util
import sys
import types
from typing import TYPE_CHECKING, Any

from dynamo.inspection import c_name
from dynamo.symbolic.protocols.attributes import MISSING, find_attr, lookup, tx_call
from dynamo.symbolic.protocols.iteration import iter_, next_, unpack_iterable
from dynamo.symbolic.protocols.operators import equal, getitem, special
from dynamo.symbolic.protocols.tables import dict_has, dict_items, dict_set, key_in
from dynamo.symbolic.values.errors import Raised
from dynamo.symbolic.values.keys import object_key
from dynamo.symbolic.values.kinds import (
    FALSE,
    TRUE,
    BuiltinValue,
    Const,
    DictValue,
    ExceptionValue,
    FunctionValue,
    MethodValue,
    ModuleValue,
    OpaqueValue,
    SetValue,
    SliceValue,
    TensorValue,
    TracingState,
    TupleValue,
    Value,
)
from dynamo.symbolic.values.numpy_types import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamo.symbolic.attempt.tracer import Tracer


def bool_(x: bool) -> Const:
    return TRUE if x else FALSE


def code_constant(tx: Tracer, obj: object) -> Value:
    """A member of co_consts."""
    if isinstance(obj, tuple):
        return TupleValue([code_constant(tx, x) for x in obj])
    if isinstance(obj, frozenset):
        s = SetValue(frozenset)
        for x in obj:
            set_add(tx, s, code_constant(tx, x))
        return s
    if isinstance(obj, types.CodeType):
        return OpaqueValue(types.CodeType, obj)
    return tx.wrap(obj, None)


# ---- sets and mappings ------------------------------------------------------------------------------------


def set_add(tx: Tracer, s: SetValue, v: Value) -> None:
    key = key_in(tx, v, s.table)
    if key not in s.table:
        tx.touch(s)
        s.table[key] = v


def ordered(tx: Tracer, s: SetValue) -> list[Value]:
    """The items in the order in which a real set with them iterates, where the items are known."""
    real = s.obj if s.obj is not None and id(s) not in tx.effects.mutated else None
    keys: Any = real if real is not None else set(s.table)
    if real is None:
        return [s.table[k] for k in keys]
    return [s.table[object_key(k)] for k in keys]


def has_key(tx: Tracer, v: Value, key: Value) -> bool:
    if isinstance(v, DictValue):
        return dict_has(tx, v, key)
    table: dict[Any, Any] = getattr(v, "table", {})
    return key_in(tx, key, table) in table


def plain_dict(v: Value) -> bool:
    """Whether C code reads v's table directly: a dict that iterates like one, whatever else its class defines."""
    return isinstance(v, DictValue) and type(lookup(v.cls, "__iter__")) is not types.FunctionType


def mapping_items(tx: Tracer, v: Value) -> list[tuple[Value, Value]]:
    """(key, value) pairs of a mapping: a dict, or anything with keys() and __getitem__."""
    if isinstance(v, DictValue) and plain_dict(v):
        return dict_items(tx, v)
    keys = find_attr(tx, v, "keys")
    if keys is None:
        raise tx.throw(TypeError, f"'{c_name(v.cls)}' object is not a mapping")
    return [(k, getitem(tx, v, k)) for k in unpack_iterable(tx, tx_call(tx, keys, []))]


def shown_callable(fn: Value) -> str:
    """How CPython names a callee in complaints about its arguments."""
    obj = getattr(fn.fn if isinstance(fn, MethodValue) else fn, "obj", None)
    made = isinstance(fn, FunctionValue) and obj is None
    name = fn.qualname if isinstance(fn, FunctionValue) and made else getattr(obj, "__qualname__", None)
    if name is None:
        return f"{c_name(fn.cls)} object"
    module = fn.globals.get("__name__") if isinstance(fn, FunctionValue) and made else getattr(obj, "__module__", None)
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"


def merge_keywords(tx: Tracer, target: DictValue, v: Value, fn: Value) -> None:
    """`**v` of a call of fn, into the keywords so far."""
    if not isinstance(v, DictValue) and (isinstance(v, Const) or find_attr(tx, v, "keys") is None):
        raise tx.throw(TypeError, f"{shown_callable(fn)} argument after ** must be a mapping, not {c_name(v.cls)}")
    for k, x in mapping_items(tx, v):
        if has_key(tx, target, k):
            raise tx.throw(TypeError, f"{shown_callable(fn)} got multiple values for keyword argument '{tx.as_python(k)}'")
        if not issubclass(k.cls, str):
            raise tx.throw(TypeError, "keywords must be strings")
        dict_set(tx, target, k, x)


def pairs_of(tx: Tracer, v: Value, ordered: bool = False) -> list[tuple[Value, Value]]:
    """What dict(v) and d.update(v) take: a mapping, or an iterable of pairs. OrderedDict (`ordered`) has other words for errors."""
    if isinstance(v, DictValue) or (not isinstance(v, Const) and find_attr(tx, v, "keys") is not None):
        return mapping_items(tx, v)
    out = []
    for i, pair in enumerate(steps(tx, iter_(tx, v))):
        try:
            both = unpack_iterable(tx, pair)
        except Raised as e:
            if issubclass(e.value.cls, TypeError) and not ordered:
                raise tx.throw(TypeError, f"cannot convert dictionary update sequence element #{i} to a sequence") from e
            raise
        if ordered and len(both) != 2:
            few = f"need more than {len(both)} value{'' if len(both) == 1 else 's'} to unpack"
            raise tx.throw(ValueError, few if len(both) < 2 else "too many values to unpack (expected 2)")
        if len(both) != 2:
            raise tx.throw(ValueError, f"dictionary update sequence element #{i} has length {len(both)}; 2 is required")
        out.append((both[0], both[1]))
    return out


# ---- iteration --------------------------------------------------------------------------------------------


def steps(tx: Tracer, it: Value) -> Iterator[Value]:
    """The values of an iterator, taken one by one."""
    while (x := next_(tx, it)) is not None:
        yield x


def is_iterable(v: Value) -> bool:
    """Whether iter(v) finds a protocol to use."""
    if isinstance(v, TracingState | TensorValue):
        return True
    found = lookup(v.cls, "__iter__")
    return found is not None and (found is not MISSING or lookup(v.cls, "__getitem__") is not MISSING)


def check_unpackable(tx: Tracer, v: Value) -> None:
    """The complaint of an unpacking assignment about its right side."""
    if not is_iterable(v):
        raise tx.throw(TypeError, f"cannot unpack non-iterable {c_name(v.cls)} object")


def find_index(tx: Tracer, items: list[Value], v: Value) -> int | None:
    return next((i for i, x in enumerate(items) if equal(tx, x, v)), None)


# ---- indexes ----------------------------------------------------------------------------------------------


def index_of(tx: Tracer, v: Value, complaint: str = "") -> int:
    """operator.index(v)."""
    if isinstance(v, Const) and (isinstance(v.value, int) or (v.cls in NUMBERS and hasattr(v.cls, "__index__"))):
        return int(v.value)
    if issubclass(v.cls, int):
        return int(tx.as_python(tx_call(tx, BuiltinValue(int.__index__), [v])))  # what its class defines is not asked
    found = special(tx, v, "__index__") if not isinstance(v, Const) else None
    if found is not None:
        known = tx.as_python(found)
        if type(known) is not int:
            raise tx.break_("DD009", f"__index__ that gives {found.describe()}")
        return known
    raise tx.throw(TypeError, complaint or f"'{c_name(v.cls)}' object cannot be interpreted as an integer")


def subscript_of(tx: Tracer, v: Value, error: type[Exception], complaint: str = "") -> int:
    """The index that a C function makes of an object (PyNumber_AsSsize_t), which refuses with `error` what C has no room for."""
    i = index_of(tx, v, complaint)
    if not -sys.maxsize - 1 <= i <= sys.maxsize:
        raise tx.throw(error, f"cannot fit '{c_name(v.cls)}' into an index-sized integer")
    return i


def size_of(tx: Tracer, v: Value, complaint: str = "") -> int:
    """An integer argument of a C function (format "n", PyLong_AsSsize_t)."""
    i = index_of(tx, v, complaint)
    if not -sys.maxsize - 1 <= i <= sys.maxsize:
        raise tx.throw(OverflowError, "Python int too large to convert to C ssize_t")
    return i


def slice_of(tx: Tracer, v: SliceValue) -> slice:
    """The slice with plain integers."""

    def part(x: Value) -> int | None:
        if isinstance(x, Const) and x.value is None:
            return None
        return index_of(tx, x, "slice indices must be integers or None or have an __index__ method")

    return slice(*(part(x) for x in v.parts))


def as_slice(tx: Tracer, v: Value) -> slice | None:
    return slice_of(tx, v) if isinstance(v, SliceValue) else None


def position(tx: Tracer, v: Value, n: int, what: str, owner: str) -> int:
    """A checked index into a sequence of n items."""
    i = subscript_of(tx, v, IndexError, f"{owner} indices must be integers or slices, not {c_name(v.cls)}")
    i = i + n if i < 0 else i
    if not 0 <= i < n:
        raise tx.throw(IndexError, f"{what} out of range")
    return i


# ---- import -----------------------------------------------------------------------------------------------


def import_name(tx: Tracer, globals_: dict[str, Any], name: str, fromlist: Any, level: int) -> Value:
    """An import statement inside a function: finds modules that are loaded already; loading one runs its code, which is a break."""
    full = name
    if level:
        package = globals_.get("__package__") or (globals_.get("__name__") or "").rpartition(".")[0]
        try:
            full = importlib.util.resolve_name("." * level + name, package)
        except ImportError as e:
            raise tx.throw(ImportError, str(e)) from e
    module = sys.modules.get(full)
    if module is None:
        raise tx.break_("DD005", f"import {full}", "import the module at the top of the file.")
    found = _loaded(tx, full)
    if not fromlist and not level:
        return _loaded(tx, full.partition(".")[0])
    for n in fromlist:
        if n != "*" and not hasattr(module, n):
            if f"{full}.{n}" not in sys.modules and hasattr(module, "__path__"):  # only packages load what is missing
                raise tx.break_("DD005", f"from {full} import {n}", "import the module at the top of the file.")
    return found


def _loaded(tx: Tracer, name: str) -> Value:
    module = sys.modules[name]
    tx.guards.definitions.of_dict(sys.modules, name, module)
    return tx.wrap(module, None)


def submodule(tx: Tracer, package: Value, name: str) -> Value:
    """`from package import name` where the package has no such attribute: a module loaded already, or the ImportError that Python gives."""
    if not isinstance(package, ModuleValue) or not name.isidentifier():
        raise tx.break_("DD005", f"from {package.describe()} import {name}")
    full = f"{package.obj.__name__}.{name}"
    if full in sys.modules:
        return _loaded(tx, full)
    if hasattr(package.obj, "__path__") or sys.modules.get(package.obj.__name__) is not package.obj:
        raise tx.break_("DD005", f"from {package.describe()} import {name}", "import the module at the top of the file.")
    try:
        exec(f"from {package.obj.__name__} import {name}", {})
    except ImportError as e:
        raised = tx.throw(ImportError, *e.args)
        assert isinstance(raised.value, ExceptionValue)
        for field in ("name", "path", "name_from"):
            if hasattr(e, field):
                raised.value.slots[field] = tx.wrap(getattr(e, field), None)
        raise raised from None
    raise tx.break_("DD014", f"attribute {name!r} of {package.describe()}")
