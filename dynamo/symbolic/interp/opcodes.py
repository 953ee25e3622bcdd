"""What each (normalised) opcode does: one row per opcode. Those that lead to another frame or handler are in `frame_opcodes.py`.

Handlers get the tracer, the frame and the instruction; they work on `frame.stack`. Version differences are gone before
this point, except where NULL stands beside callables (`facts.NULL_AFTER_CALLABLE`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dynamo.bytecode import facts
from dynamo.bytecode.origins import is_free
from dynamo.inspection import MAPPING, SEQUENCE, c_name, has_flag
from dynamo.symbolic.attempt.frame import Frame
from dynamo.symbolic.interp import patterns, refusals
from dynamo.symbolic.interp.generators import discard
from dynamo.symbolic.interp.loop import OPS, Handler, op
from dynamo.symbolic.protocols import containers, iteration, operators
from dynamo.symbolic.protocols.attributes import MISSING, closure, getattr_, setattr_
from dynamo.symbolic.protocols.calls import call
from dynamo.symbolic.protocols.names import cell_get, cell_set, load_global
from dynamo.symbolic.protocols.tables import dict_set, set_name
from dynamo.symbolic.python.strings import format_value
from dynamo.symbolic.values.errors import Raised
from dynamo.symbolic.values.kinds import (
    FALSE,
    NONE,
    NULL,
    TRUE,
    CellValue,
    ClassValue,
    Const,
    DictValue,
    GeneratorValue,
    ListValue,
    MethodValue,
    Null,
    SetValue,
    SliceValue,
    TupleValue,
    Value,
)

if TYPE_CHECKING:
    from dynamo.bytecode.decode import Instr
    from dynamo.symbolic.attempt.tracer import Tracer


@op("NOP", "RESUME", "CACHE", "EXTENDED_ARG", "PRECALL", "KW_NAMES", "SETUP_ANNOTATIONS")
def _nop(tx: Tracer, f: Frame, ins: Instr) -> None:
    pass


# ---- stack ------------------------------------------------------------------------------------------------


@op("POP_TOP", "END_FOR")
def _pop_top(tx: Tracer, f: Frame, ins: Instr) -> None:
    if type(f.stack[-1]) is GeneratorValue:
        discard(tx, [f.stack.pop()])
    else:
        f.stack.pop()


@op("PUSH_NULL")
def _push_null(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(NULL)


@op("COPY")
def _copy(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(f.stack[-ins.arg])


@op("SWAP")
def _swap(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.stack[-1], f.stack[-ins.arg] = f.stack[-ins.arg], f.stack[-1]


# ---- names ------------------------------------------------------------------------------------------------


@op("LOAD_CONST")
def _load_const(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(containers.code_constant(tx, ins.argval))


@op("LOAD_FAST")
def _load_fast(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = f.slots[ins.arg]
    if v is None:
        raise tx.throw(UnboundLocalError, f"cannot access local variable '{ins.argval}' where it is not associated with a value")
    if not isinstance(v, Value):
        v = f.slots[ins.arg] = tx.wrap(v.obj, v.source)
    f.push(v)


@op("LOAD_FAST_AND_CLEAR")
def _load_fast_and_clear(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = f.slots[ins.arg]
    f.push(NULL if v is None else tx.realize(v))
    f.slots[ins.arg] = None


@op("STORE_FAST")
def _store_fast(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = f.pop()
    old, f.slots[ins.arg] = f.slots[ins.arg], None if isinstance(v, Null) else v
    if type(old) is GeneratorValue:
        held = [old]
        del v, old  # an exception may keep this frame alive, and what it has would count as held
        discard(tx, held)


@op("DELETE_FAST")
def _delete_fast(tx: Tracer, f: Frame, ins: Instr) -> None:
    if f.slots[ins.arg] is None:
        raise tx.throw(UnboundLocalError, f"cannot access local variable '{ins.argval}' where it is not associated with a value")
    held = [f.slots[ins.arg]]
    f.slots[ins.arg] = None
    if type(held[0]) is GeneratorValue:
        discard(tx, held)


@op("MAKE_CELL")
def _make_cell(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.slots[ins.arg] = CellValue(f.slots[ins.arg])


@op("COPY_FREE_VARS")
def _copy_free_vars(tx: Tracer, f: Frame, ins: Instr) -> None:
    cells = closure(tx, f.fn)
    f.slots[len(f.slots) - len(cells) :] = cells


def _cell(tx: Tracer, f: Frame, ins: Instr) -> CellValue:
    v = f.slots[ins.arg]
    if v is not None and not isinstance(v, CellValue):
        v = f.slots[ins.arg] = tx.realize(v)
    assert isinstance(v, CellValue), ins
    return v


@op("LOAD_DEREF")
def _load_deref(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(cell_get(tx, _cell(tx, f, ins), str(ins.argval), is_free(f.program, ins.arg)))


@op("STORE_DEREF")
def _store_deref(tx: Tracer, f: Frame, ins: Instr) -> None:
    cell_set(tx, _cell(tx, f, ins), f.pop())


@op("DELETE_DEREF")
def _delete_deref(tx: Tracer, f: Frame, ins: Instr) -> None:
    cell = _cell(tx, f, ins)
    cell_get(tx, cell, str(ins.argval), is_free(f.program, ins.arg))
    cell_set(tx, cell, None)


@op("LOAD_GLOBAL")
def _load_global(tx: Tracer, f: Frame, ins: Instr) -> None:
    _push_callee(f, load_global(tx, f.globals, str(ins.argval)), ins.push_null)


def _push_callee(f: Frame, v: Value, with_null: bool) -> None:
    """What may be called next: where it is, NULL stands beside it in the place of `self`."""
    f.stack += [v] if not with_null else [v, NULL] if facts.NULL_AFTER_CALLABLE else [NULL, v]


@op("LOAD_NAME")
def _load_name(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(load_global(tx, f.globals, str(ins.argval)))


@op("STORE_GLOBAL", "STORE_NAME")
def _store_global(tx: Tracer, f: Frame, ins: Instr) -> None:
    set_name(tx, f.globals, str(ins.argval), f.pop())


@op("DELETE_GLOBAL", "DELETE_NAME")
def _delete_global(tx: Tracer, f: Frame, ins: Instr) -> None:
    load_global(tx, f.globals, str(ins.argval))
    set_name(tx, f.globals, str(ins.argval), None)


@op("LOAD_BUILD_CLASS")
def _load_build_class(tx: Tracer, f: Frame, ins: Instr) -> None:
    raise tx.break_("DD019", "class statement")


@op("LOAD_ATTR")
def _load_attr(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = getattr_(tx, f.pop(), str(ins.argval))
    if ins.method and isinstance(v, MethodValue):
        f.stack += [v.fn, v.self_]
    else:
        _push_callee(f, v, bool(ins.method))


@op("LOAD_SUPER_ATTR")
def _load_super_attr(tx: Tracer, f: Frame, ins: Instr) -> None:
    self_, cls = f.stack.pop(), f.stack.pop()
    fn = f.stack.pop()
    given = ins.arg & facts.SUPER_TWO_ARGUMENTS or (isinstance(fn, ClassValue) and fn.obj is super)
    f.push(call(tx, fn, [cls, self_] if given else [], {}))
    _load_attr(tx, f, ins)


# ---- operators --------------------------------------------------------------------------------------------

# How many values the opcode takes from the stack, and of these, lowest first, the value that it puts there.
_VALUES: dict[str, tuple[int, Callable[..., Value]]] = {
    "LOAD_ASSERTION_ERROR": (0, lambda tx, ins: tx.wrap(AssertionError, None)),
    "BINARY_OP": (2, lambda tx, ins, a, b: operators.binary(tx, str(ins.argval), a, b)),
    "COMPARE_OP": (2, lambda tx, ins, a, b: operators.compare(tx, str(ins.argval), a, b)),
    "IS_OP": (2, lambda tx, ins, a, b: truth(operators.is_(tx, a, b) != bool(ins.arg))),
    "CONTAINS_OP": (2, lambda tx, ins, item, owner: truth(operators.contains(tx, owner, item) != bool(ins.arg))),
    "UNARY_NOT": (1, lambda tx, ins, v: truth(not operators.truth(tx, v))),
    **dict.fromkeys(("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT"), (1, lambda tx, ins, v: operators.unary(tx, ins.op, v))),
    "BINARY_SUBSCR": (2, lambda tx, ins, owner, key: operators.getitem(tx, owner, key)),
    "BINARY_SLICE": (3, lambda tx, ins, owner, start, stop: operators.getitem(tx, owner, SliceValue([start, stop, NONE]))),
    "CONVERT_VALUE": (1, lambda tx, ins, v: format_value(tx, v, ("", "str", "repr", "ascii")[ins.arg & 3], Const(""))),
    "FORMAT_SIMPLE": (1, lambda tx, ins, v: format_value(tx, v, "", Const(""))),
    "FORMAT_WITH_SPEC": (2, lambda tx, ins, v, spec: format_value(tx, v, "", spec)),
}
# The same, of those that put nothing there.
_ACTS: dict[str, tuple[int, Callable[..., None]]] = {
    "STORE_ATTR": (2, lambda tx, ins, v, owner: setattr_(tx, owner, str(ins.argval), v)),
    "DELETE_ATTR": (1, lambda tx, ins, owner: setattr_(tx, owner, str(ins.argval), None)),
    "STORE_SUBSCR": (3, lambda tx, ins, v, owner, key: operators.setitem(tx, owner, key, v)),
    "DELETE_SUBSCR": (2, lambda tx, ins, owner, key: operators.delitem(tx, owner, key)),
    "STORE_SLICE": (4, lambda tx, ins, v, owner, start, stop: operators.setitem(tx, owner, SliceValue([start, stop, NONE]), v)),
}


def _value(count: int, make: Callable[..., Value]) -> Handler:
    return lambda tx, f, ins: f.push(make(tx, ins, *f.popn(count)))


def _act(count: int, act: Callable[..., None]) -> Handler:
    return lambda tx, f, ins: act(tx, ins, *f.popn(count))


OPS.update({name: _value(*row) for name, row in _VALUES.items()})
OPS.update({name: _act(*row) for name, row in _ACTS.items()})


@op("TO_BOOL")
def _to_bool(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(truth(refusals.decide(tx, f, f.pop(), f.current + 1)))


def truth(x: bool) -> Const:
    return TRUE if x else FALSE


# ---- building ---------------------------------------------------------------------------------------------


@op("BUILD_TUPLE")
def _build_tuple(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(tx.make_tuple(f.popn(ins.arg)))


@op("BUILD_LIST")
def _build_list(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(tx.make_list(f.popn(ins.arg)))


@op("BUILD_SET")
def _build_set(tx: Tracer, f: Frame, ins: Instr) -> None:
    s = SetValue()
    for v in f.popn(ins.arg):
        containers.set_add(tx, s, v)
    f.push(s)


@op("BUILD_MAP")
def _build_map(tx: Tracer, f: Frame, ins: Instr) -> None:
    flat = f.popn(2 * ins.arg)
    d = DictValue()
    for k, v in zip(flat[::2], flat[1::2], strict=True):
        dict_set(tx, d, k, v)
    f.push(d)


@op("BUILD_CONST_KEY_MAP")
def _build_const_key_map(tx: Tracer, f: Frame, ins: Instr) -> None:
    keys = tx.as_python(f.pop())
    d = DictValue()
    for k, v in zip(keys, f.popn(ins.arg), strict=True):
        dict_set(tx, d, tx.wrap(k, None), v)
    f.push(d)


@op("BUILD_SLICE")
def _build_slice(tx: Tracer, f: Frame, ins: Instr) -> None:
    parts = f.popn(ins.arg)
    f.push(SliceValue([*parts, NONE][:3]))


@op("BUILD_STRING")
def _build_string(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(Const("".join(tx.as_python(v) for v in f.popn(ins.arg))))


@op("FORMAT_VALUE")
def _format_value(tx: Tracer, f: Frame, ins: Instr) -> None:
    spec = f.pop() if ins.arg & 4 else Const("")
    f.push(format_value(tx, f.pop(), ("", "str", "repr", "ascii")[ins.arg & 3], spec))


@op("LIST_APPEND")
def _list_append(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = f.pop()
    target = f.stack[-ins.arg]
    assert isinstance(target, ListValue)
    tx.touch(target)  # after a break the list being built is a real one
    target.append_unread(v)


@op("SET_ADD")
def _set_add(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = f.pop()
    target = f.stack[-ins.arg]
    assert isinstance(target, SetValue)
    tx.touch(target)
    containers.set_add(tx, target, v)


@op("MAP_ADD")
def _map_add(tx: Tracer, f: Frame, ins: Instr) -> None:
    v, k = f.pop(), f.pop()
    target = f.stack[-ins.arg]
    assert isinstance(target, DictValue)
    dict_set(tx, target, k, v)


@op("LIST_EXTEND")
def _list_extend(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = f.pop()
    target = f.stack[-ins.arg]
    assert isinstance(target, ListValue)
    try:
        added = iteration.unpack_iterable(tx, v, with_room=True)
    except Raised:
        if all(tx.lookup(v.cls, name) is MISSING for name in ("__iter__", "__getitem__")):
            raise tx.throw(TypeError, f"Value after * must be an iterable, not {c_name(v.cls)}") from None
        raise
    tx.touch(target)
    for x in added:
        target.append_unread(x)


@op("SET_UPDATE")
def _set_update(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = f.pop()
    target = f.stack[-ins.arg]
    assert isinstance(target, SetValue)
    tx.touch(target)
    for x in iteration.unpack_iterable(tx, v):
        containers.set_add(tx, target, x)


@op("DICT_UPDATE")
def _dict_update(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = f.pop()
    target = f.stack[-ins.arg]
    assert isinstance(target, DictValue)
    for k, x in containers.mapping_items(tx, v):
        dict_set(tx, target, k, x)


@op("DICT_MERGE")
def _dict_merge(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = f.pop()
    target = f.stack[-ins.arg]
    assert isinstance(target, DictValue)
    containers.merge_keywords(tx, target, v, f.stack[-ins.arg - (3 if facts.NULL_AFTER_CALLABLE else 2)])


@op("LIST_TO_TUPLE")
def _list_to_tuple(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = f.pop()
    assert isinstance(v, ListValue)
    f.push(TupleValue(list(v.items)))


@op("UNPACK_SEQUENCE")
def _unpack_sequence(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = f.pop()
    containers.check_unpackable(tx, v)
    items = iteration.unpack_iterable(tx, v, limit=ins.arg + 1)
    if len(items) > ins.arg:
        raise tx.throw(ValueError, f"too many values to unpack (expected {ins.arg})")
    if len(items) < ins.arg:
        raise tx.throw(ValueError, f"not enough values to unpack (expected {ins.arg}, got {len(items)})")
    f.stack.extend(reversed(items))


@op("UNPACK_EX")
def _unpack_ex(tx: Tracer, f: Frame, ins: Instr) -> None:
    before, after = ins.arg & 0xFF, ins.arg >> 8
    v = f.pop()
    containers.check_unpackable(tx, v)
    items = iteration.unpack_iterable(tx, v)
    if len(items) < before + after:
        raise tx.throw(ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
    end = len(items) - after
    f.stack.extend(reversed([*items[:before], tx.make_list(items[before:end]), *items[end:]]))


# ---- jumps and loops --------------------------------------------------------------------------------------


def target_of(ins: Instr) -> int:
    assert ins.target is not None
    return ins.target


@op("JUMP")
def _jump(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.ip = target_of(ins)


@op("POP_JUMP_IF_TRUE")
def _pop_jump_if_true(tx: Tracer, f: Frame, ins: Instr) -> None:
    if refusals.decide(tx, f, f.pop(), f.current):
        f.ip = target_of(ins)


@op("POP_JUMP_IF_FALSE")
def _pop_jump_if_false(tx: Tracer, f: Frame, ins: Instr) -> None:
    if not refusals.decide(tx, f, f.pop(), f.current):
        f.ip = target_of(ins)


@op("POP_JUMP_IF_NONE")
def _pop_jump_if_none(tx: Tracer, f: Frame, ins: Instr) -> None:
    if operators.is_(tx, f.pop(), NONE):
        f.ip = target_of(ins)


@op("POP_JUMP_IF_NOT_NONE")
def _pop_jump_if_not_none(tx: Tracer, f: Frame, ins: Instr) -> None:
    if not operators.is_(tx, f.pop(), NONE):
        f.ip = target_of(ins)


@op("JUMP_IF_TRUE_OR_POP")
def _jump_if_true_or_pop(tx: Tracer, f: Frame, ins: Instr) -> None:
    if operators.truth(tx, f.stack[-1]):
        f.ip = target_of(ins)
    else:
        f.pop()


@op("JUMP_IF_FALSE_OR_POP")
def _jump_if_false_or_pop(tx: Tracer, f: Frame, ins: Instr) -> None:
    if not operators.truth(tx, f.stack[-1]):
        f.ip = target_of(ins)
    else:
        f.pop()


@op("GET_ITER")
def _get_iter(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(iteration.iter_(tx, f.pop()))


@op("GET_YIELD_FROM_ITER")
def _get_yield_from_iter(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(iteration.iter_(tx, f.pop()))


@op("FOR_ITER")
def _for_iter(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = iteration.next_(tx, f.stack[-1])
    if v is None:
        f.pop()
        f.ip = target_of(ins)
    else:
        f.push(v)


@op("GET_LEN")
def _get_len(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(operators.len_(tx, f.stack[-1]))


@op("MATCH_SEQUENCE")
def _match_sequence(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(truth(has_flag(f.stack[-1].cls, SEQUENCE)))


@op("MATCH_MAPPING")
def _match_mapping(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(truth(has_flag(f.stack[-1].cls, MAPPING)))


@op("MATCH_KEYS")
def _match_keys(tx: Tracer, f: Frame, ins: Instr) -> None:
    keys, subject = f.stack[-1], f.stack[-2]
    assert isinstance(keys, TupleValue)
    found: list[Value] = []
    for k in tx.items(keys.items):
        if not operators.contains(tx, subject, k):
            f.push(NONE)
            return
        found.append(operators.getitem(tx, subject, k))
    f.push(tx.make_tuple(found))


@op("MATCH_CLASS")
def _match_class(tx: Tracer, f: Frame, ins: Instr) -> None:
    names, cls, subject = f.pop(), f.pop(), f.pop()
    f.push(patterns.match_class(tx, subject, cls, ins.arg, tx.as_python(names)))
