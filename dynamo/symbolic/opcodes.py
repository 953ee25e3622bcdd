"""What each (normalised) opcode does: one row per opcode.

Handlers get the tracer, the frame and the instruction; they work on `frame.stack`. Version differences are gone before
this point, except where NULL stands beside callables (`facts.NULL_AFTER_CALLABLE`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynamo.bytecode import facts
from dynamo.symbolic import containers, exception_groups, operators
from dynamo.symbolic.attributes import MISSING, find_attr, getattr_, lookup, setattr_
from dynamo.symbolic.calls import call
from dynamo.symbolic.errors import Raised
from dynamo.symbolic.frame import Frame, Return, Yield
from dynamo.symbolic.generators import discard, not_stop_iteration
from dynamo.symbolic.hashing import dict_set
from dynamo.symbolic.strings import format_value
from dynamo.symbolic.values import (
    FALSE,
    NONE,
    NULL,
    TRUE,
    CellValue,
    ClassValue,
    Const,
    DictValue,
    ExceptionGroupValue,
    ExceptionValue,
    FunctionValue,
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
    from dynamo.symbolic.tracer import Tracer

Handler = Callable[["Tracer", Frame, "Instr"], None]
OPS: dict[str, Handler] = {}
_HAS_END_SEND = "END_SEND" in facts.OPMAP  # 3.12+: SEND leaves the receiver for END_SEND to drop


def op(*names: str) -> Callable[[Handler], Handler]:
    def put(fn: Handler) -> Handler:
        for name in names:
            OPS[name] = fn
        return fn

    return put


@op("NOP", "RESUME", "CACHE", "EXTENDED_ARG", "PRECALL", "COPY_FREE_VARS_DONE", "SETUP_ANNOTATIONS")
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
    f.slots[ins.arg] = None if isinstance(v, Null) else v


@op("DELETE_FAST")
def _delete_fast(tx: Tracer, f: Frame, ins: Instr) -> None:
    if f.slots[ins.arg] is None:
        raise tx.throw(UnboundLocalError, f"cannot access local variable '{ins.argval}' where it is not associated with a value")
    f.slots[ins.arg] = None


@op("MAKE_CELL")
def _make_cell(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.slots[ins.arg] = CellValue(f.slots[ins.arg])


@op("COPY_FREE_VARS")
def _copy_free_vars(tx: Tracer, f: Frame, ins: Instr) -> None:
    from dynamo.symbolic.attributes import closure

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
    f.push(tx.cell_get(_cell(tx, f, ins), str(ins.argval), f.program.slots[ins.arg].kind == "free"))


@op("STORE_DEREF")
def _store_deref(tx: Tracer, f: Frame, ins: Instr) -> None:
    tx.cell_set(_cell(tx, f, ins), f.pop())


@op("DELETE_DEREF")
def _delete_deref(tx: Tracer, f: Frame, ins: Instr) -> None:
    cell = _cell(tx, f, ins)
    tx.cell_get(cell, str(ins.argval), f.program.slots[ins.arg].kind == "free")
    tx.cell_set(cell, None)


@op("LOAD_GLOBAL")
def _load_global(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = tx.load_global(f.globals, str(ins.argval))
    if not ins.push_null:
        f.push(v)
    elif facts.NULL_AFTER_CALLABLE:
        f.push(v)
        f.push(NULL)
    else:
        f.push(NULL)
        f.push(v)


@op("LOAD_NAME")
def _load_name(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(tx.load_global(f.globals, str(ins.argval)))


@op("STORE_GLOBAL", "STORE_NAME")
def _store_global(tx: Tracer, f: Frame, ins: Instr) -> None:
    tx.set_global(f.globals, str(ins.argval), f.pop())


@op("DELETE_GLOBAL", "DELETE_NAME")
def _delete_global(tx: Tracer, f: Frame, ins: Instr) -> None:
    tx.load_global(f.globals, str(ins.argval))
    tx.set_global(f.globals, str(ins.argval), None)


@op("LOAD_BUILD_CLASS")
def _load_build_class(tx: Tracer, f: Frame, ins: Instr) -> None:
    raise tx.break_("DD019", "class statement")


@op("LOAD_ASSERTION_ERROR")
def _load_assertion_error(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(tx.wrap(AssertionError, None))


@op("LOAD_ATTR")
def _load_attr(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = getattr_(tx, f.pop(), str(ins.argval))
    if not ins.method:
        f.push(v)
    elif isinstance(v, MethodValue):
        f.push(v.fn)
        f.push(v.self_)
    elif facts.NULL_AFTER_CALLABLE:
        f.push(v)
        f.push(NULL)
    else:
        f.push(NULL)
        f.push(v)


@op("LOAD_SUPER_ATTR")
def _load_super_attr(tx: Tracer, f: Frame, ins: Instr) -> None:
    self_, cls = f.stack.pop(), f.stack.pop()
    fn = f.stack.pop()
    given = ins.arg & facts.SUPER_TWO_ARGUMENTS or (isinstance(fn, ClassValue) and fn.obj is super)
    f.push(call(tx, fn, [cls, self_] if given else [], {}))
    _load_attr(tx, f, ins)


@op("STORE_ATTR")
def _store_attr(tx: Tracer, f: Frame, ins: Instr) -> None:
    owner, v = f.pop(), f.pop()
    setattr_(tx, owner, str(ins.argval), v)


@op("DELETE_ATTR")
def _delete_attr(tx: Tracer, f: Frame, ins: Instr) -> None:
    setattr_(tx, f.pop(), str(ins.argval), None)


# ---- operators --------------------------------------------------------------------------------------------


@op("BINARY_OP")
def _binary_op(tx: Tracer, f: Frame, ins: Instr) -> None:
    b, a = f.pop(), f.pop()
    f.push(operators.binary(tx, str(ins.argval), a, b))


@op("COMPARE_OP")
def _compare_op(tx: Tracer, f: Frame, ins: Instr) -> None:
    b, a = f.pop(), f.pop()
    f.push(operators.compare(tx, str(ins.argval), a, b))


@op("IS_OP")
def _is_op(tx: Tracer, f: Frame, ins: Instr) -> None:
    b, a = f.pop(), f.pop()
    f.push(_bool(operators.is_(tx, a, b) != bool(ins.arg)))


@op("CONTAINS_OP")
def _contains_op(tx: Tracer, f: Frame, ins: Instr) -> None:
    b, a = f.pop(), f.pop()
    f.push(_bool(operators.contains(tx, b, a) != bool(ins.arg)))


@op("UNARY_NOT")
def _unary_not(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(_bool(not operators.truth(tx, f.pop())))


@op("TO_BOOL")
def _to_bool(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(_bool(operators.truth(tx, f.pop())))


@op("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT")
def _unary(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(operators.unary(tx, ins.op, f.pop()))


@op("BINARY_SUBSCR")
def _binary_subscr(tx: Tracer, f: Frame, ins: Instr) -> None:
    key, owner = f.pop(), f.pop()
    f.push(operators.getitem(tx, owner, key))


@op("STORE_SUBSCR")
def _store_subscr(tx: Tracer, f: Frame, ins: Instr) -> None:
    key, owner, v = f.pop(), f.pop(), f.pop()
    operators.setitem(tx, owner, key, v)


@op("DELETE_SUBSCR")
def _delete_subscr(tx: Tracer, f: Frame, ins: Instr) -> None:
    key, owner = f.pop(), f.pop()
    operators.delitem(tx, owner, key)


@op("BINARY_SLICE")
def _binary_slice(tx: Tracer, f: Frame, ins: Instr) -> None:
    stop, start, owner = f.pop(), f.pop(), f.pop()
    f.push(operators.getitem(tx, owner, SliceValue([start, stop, NONE])))


@op("STORE_SLICE")
def _store_slice(tx: Tracer, f: Frame, ins: Instr) -> None:
    stop, start, owner, v = f.pop(), f.pop(), f.pop(), f.pop()
    operators.setitem(tx, owner, SliceValue([start, stop, NONE]), v)


def _bool(x: bool) -> Const:
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


@op("CONVERT_VALUE")
def _convert_value(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(format_value(tx, f.pop(), ("", "str", "repr", "ascii")[ins.arg & 3], Const("")))


@op("FORMAT_SIMPLE")
def _format_simple(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(format_value(tx, f.pop(), "", Const("")))


@op("FORMAT_WITH_SPEC")
def _format_with_spec(tx: Tracer, f: Frame, ins: Instr) -> None:
    spec = f.pop()
    f.push(format_value(tx, f.pop(), "", spec))


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
        added = operators.unpack_iterable(tx, v)
    except Raised:
        if all(lookup(v.cls, name) is MISSING for name in ("__iter__", "__getitem__")):
            raise tx.throw(TypeError, f"Value after * must be an iterable, not {v.cls.__name__}") from None
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
    for x in operators.unpack_iterable(tx, v):
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
    items = operators.unpack_iterable(tx, v, limit=ins.arg + 1)
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
    items = operators.unpack_iterable(tx, v)
    if len(items) < before + after:
        raise tx.throw(ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
    end = len(items) - after
    f.stack.extend(reversed([*items[:before], tx.make_list(items[before:end]), *items[end:]]))


# ---- jumps and loops --------------------------------------------------------------------------------------


def _target(ins: Instr) -> int:
    assert ins.target is not None
    return ins.target


@op("JUMP")
def _jump(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.ip = _target(ins)


@op("POP_JUMP_IF_TRUE")
def _pop_jump_if_true(tx: Tracer, f: Frame, ins: Instr) -> None:
    if operators.truth(tx, f.pop()):
        f.ip = _target(ins)


@op("POP_JUMP_IF_FALSE")
def _pop_jump_if_false(tx: Tracer, f: Frame, ins: Instr) -> None:
    if not operators.truth(tx, f.pop()):
        f.ip = _target(ins)


@op("POP_JUMP_IF_NONE")
def _pop_jump_if_none(tx: Tracer, f: Frame, ins: Instr) -> None:
    if operators.is_(tx, f.pop(), NONE):
        f.ip = _target(ins)


@op("POP_JUMP_IF_NOT_NONE")
def _pop_jump_if_not_none(tx: Tracer, f: Frame, ins: Instr) -> None:
    if not operators.is_(tx, f.pop(), NONE):
        f.ip = _target(ins)


@op("JUMP_IF_TRUE_OR_POP")
def _jump_if_true_or_pop(tx: Tracer, f: Frame, ins: Instr) -> None:
    if operators.truth(tx, f.stack[-1]):
        f.ip = _target(ins)
    else:
        f.pop()


@op("JUMP_IF_FALSE_OR_POP")
def _jump_if_false_or_pop(tx: Tracer, f: Frame, ins: Instr) -> None:
    if not operators.truth(tx, f.stack[-1]):
        f.ip = _target(ins)
    else:
        f.pop()


@op("GET_ITER")
def _get_iter(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(operators.iter_(tx, f.pop()))


@op("GET_YIELD_FROM_ITER")
def _get_yield_from_iter(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(operators.iter_(tx, f.pop()))


@op("FOR_ITER")
def _for_iter(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = operators.next_(tx, f.stack[-1])
    if v is None:
        f.pop()
        f.ip = _target(ins)
    else:
        f.push(v)


@op("GET_LEN")
def _get_len(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(operators.len_(tx, f.stack[-1]))


@op("MATCH_SEQUENCE")
def _match_sequence(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(_bool(bool(f.stack[-1].cls.__flags__ & (1 << 5))))


@op("MATCH_MAPPING")
def _match_mapping(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.push(_bool(bool(f.stack[-1].cls.__flags__ & (1 << 6))))


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
    f.push(containers.match_class(tx, subject, cls, ins.arg, tx.as_python(names)))


# ---- functions --------------------------------------------------------------------------------------------


@op("KW_NAMES")
def _kw_names(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.kw_names = ins.argval  # type: ignore[assignment]  # the decoder puts a tuple of str here


@op("CALL")
def _call(tx: Tracer, f: Frame, ins: Instr) -> None:
    _finish_call(tx, f, ins.arg, ins.argval if isinstance(ins.argval, tuple) else ())


@op("CALL_KW")
def _call_kw(tx: Tracer, f: Frame, ins: Instr) -> None:
    _finish_call(tx, f, ins.arg, tx.as_python(f.pop()))


def _finish_call(tx: Tracer, f: Frame, nargs: int, names: tuple[Any, ...]) -> None:
    args = f.popn(nargs)
    second, first = f.pop(), f.pop()
    fn, self_ = _callee(first, second)
    if self_ is not None:
        args.insert(0, self_)
    split = len(args) - len(names)
    f.push(call(tx, fn, args[:split], dict(zip(names, args[split:], strict=True))))


def _callee(first: Value, second: Value) -> tuple[Value, Value | None]:
    """The two stack entries below the arguments: (callable, self) or a callable beside NULL."""
    if isinstance(first, Null):
        return second, None
    if isinstance(second, Null):
        return first, None
    return first, second


@op("CALL_FUNCTION_EX")
def _call_function_ex(tx: Tracer, f: Frame, ins: Instr) -> None:
    kwargs = f.pop() if ins.arg & 1 else None
    args = f.pop()
    if facts.NULL_AFTER_CALLABLE:
        f.pop()
        fn = f.pop()
    else:
        fn = f.pop()
        f.pop()
    kw: dict[str, Value] = {}
    if kwargs is not None:
        for k, v in containers.mapping_items(tx, kwargs):
            name = tx.as_python(k)
            if not isinstance(name, str):
                raise tx.throw(TypeError, "keywords must be strings")
            kw[name] = v
    if not containers.is_iterable(args):
        raise tx.throw(TypeError, f"{containers.shown_callable(fn)} argument after * must be an iterable, not {args.cls.__name__}")
    f.push(call(tx, fn, operators.unpack_iterable(tx, args), kw))


@op("MAKE_FUNCTION")
def _make_function(tx: Tracer, f: Frame, ins: Instr) -> None:
    code = tx.as_python(f.pop())
    fn = FunctionValue(None)
    fn.code, fn.globals = code, f.globals
    fn.name, fn.qualname = code.co_name, code.co_qualname
    if ins.arg & 8:
        fn.closure = list(f.pop().items)  # type: ignore[attr-defined]  # a tuple of cells
    else:
        fn.closure = []
    if ins.arg & 4:
        fn.annotations = f.pop()
    fn.kwdefaults = f.pop() if ins.arg & 2 else NONE
    fn.defaults = f.pop() if ins.arg & 1 else NONE
    f.push(fn)


@op("SET_FUNCTION_ATTRIBUTE")
def _set_function_attribute(tx: Tracer, f: Frame, ins: Instr) -> None:
    fn, v = f.pop(), f.pop()
    assert isinstance(fn, FunctionValue)
    if ins.arg == 8:
        fn.closure = list(v.items)  # type: ignore[attr-defined]  # a tuple of cells
    elif ins.arg == 4:
        fn.annotations = v
    elif ins.arg == 2:
        fn.kwdefaults = v
    else:
        fn.defaults = v
    f.push(fn)


@op("RETURN_VALUE")
def _return_value(tx: Tracer, f: Frame, ins: Instr) -> None:
    result = f.pop()
    discard(tx, f.stack)
    if any(type(v) is GeneratorValue for v in f.slots):
        discard(tx, f.slots)
    raise Return(result)


@op("RETURN_GENERATOR")
def _return_generator(tx: Tracer, f: Frame, ins: Instr) -> None:
    # The generator object exists already (calls.inline made it); POP_TOP that follows drops what a first send leaves.
    f.push(NONE)


@op("YIELD_VALUE")
def _yield_value(tx: Tracer, f: Frame, ins: Instr) -> None:
    raise Yield(f.pop())


@op("SEND")
def _send(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = f.pop()
    done, result = operators.send(tx, f.stack[-1], v)
    if done:
        if _HAS_END_SEND:
            f.push(result)
        else:
            f.stack[-1] = result
        f.ip = _target(ins)
    else:
        f.push(result)


@op("END_SEND")
def _end_send(tx: Tracer, f: Frame, ins: Instr) -> None:
    del f.stack[-2]


@op("IMPORT_NAME")
def _import_name(tx: Tracer, f: Frame, ins: Instr) -> None:
    names, level = tx.as_python(f.pop()), tx.as_python(f.pop())
    f.push(containers.import_name(tx, f.globals, str(ins.argval), names, level))


@op("IMPORT_FROM")
def _import_from(tx: Tracer, f: Frame, ins: Instr) -> None:
    found = find_attr(tx, f.stack[-1], str(ins.argval))
    f.push(found if found is not None else containers.submodule(tx, f.stack[-1], str(ins.argval)))


# ---- exceptions and with ----------------------------------------------------------------------------------


@op("RAISE_VARARGS")
def _raise_varargs(tx: Tracer, f: Frame, ins: Instr) -> None:
    cause = f.pop() if ins.arg == 2 else None
    if ins.arg == 0:
        if not f.handled:
            handled = next((g.handled[-1] for g in reversed(tx.frames) if g.handled), None)
            if handled is None:
                raise tx.throw(RuntimeError, "No active exception to reraise")
            raise Raised(handled)
        raise Raised(f.handled[-1])
    exc = _as_exception(tx, f.pop())
    if cause is not None:
        none = isinstance(cause, Const) and cause.value is None
        exc.slots["__cause__"] = cause if none else _as_exception(tx, cause, "exception causes")
        exc.slots["__suppress_context__"] = TRUE
    if isinstance(exc, ExceptionGroupValue):
        exc.traceback = object()
    raise Raised(exc)


def _as_exception(tx: Tracer, v: Value, what: str = "exceptions") -> ExceptionValue:
    if isinstance(v, ClassValue) and issubclass(v.obj, BaseException):
        v = call(tx, v, [], {})
    if isinstance(v, ExceptionValue):
        return v
    raise tx.throw(TypeError, f"{what} must derive from BaseException")


@op("PUSH_EXC_INFO")
def _push_exc_info(tx: Tracer, f: Frame, ins: Instr) -> None:
    exc = f.pop()
    f.push(f.handled[-1] if f.handled else NONE)
    f.push(exc)
    f.handled.append(exc)


@op("POP_EXCEPT")
def _pop_except(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.pop()
    if f.handled:
        f.handled.pop()


@op("CHECK_EXC_MATCH")
def _check_exc_match(tx: Tracer, f: Frame, ins: Instr) -> None:
    kinds = tx.as_python(f.pop())
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise tx.throw(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    f.push(_bool(issubclass(f.stack[-1].cls, kinds)))


@op("CHECK_EG_MATCH")
def _check_eg_match(tx: Tracer, f: Frame, ins: Instr) -> None:
    kinds, exc = f.pop(), f.pop()
    matched, rest = exception_groups.match(tx, exc, kinds)
    f.push(rest)
    f.push(matched)
    if matched is not NONE:
        f.handled[-1] = matched


@op("PREP_RERAISE_STAR")
def _prep_reraise_star(tx: Tracer, f: Frame, ins: Instr) -> None:
    outcomes, original = f.pop(), f.pop()
    f.push(exception_groups.reraise(tx, original, outcomes))


@op("RERAISE")
def _reraise(tx: Tracer, f: Frame, ins: Instr) -> None:
    exc = f.pop()
    assert isinstance(exc, ExceptionValue)
    raise Raised(exc)


@op("BEFORE_WITH")
def _before_with(tx: Tracer, f: Frame, ins: Instr) -> None:
    manager = f.pop()
    enter, leave = _special(tx, manager, "__enter__"), _special(tx, manager, "__exit__", " (missed __exit__ method)")
    result = call(tx, enter, [], {})
    f.push(leave)
    f.push(result)


def _special(tx: Tracer, manager: Value, name: str, what: str = "") -> Value:
    from dynamo.symbolic.attributes import bind_descriptor

    raw = lookup(manager.cls, name)
    found = bind_descriptor(tx, raw, manager, manager.cls, name) if raw is not MISSING else None
    if found is None:
        raise tx.throw(TypeError, f"'{manager.cls.__name__}' object does not support the context manager protocol{what}")
    return found


@op("WITH_EXCEPT_START")
def _with_except_start(tx: Tracer, f: Frame, ins: Instr) -> None:
    exc, leave = f.stack[-1], f.stack[-4]
    f.push(call(tx, leave, [tx.wrap(exc.cls, None), exc, NONE], {}))


# STOPITERATION_ERROR (3.12+, CALL_INTRINSIC_1): a StopIteration that leaves a generator becomes a RuntimeError.
@op("STOPITERATION_ERROR")
def _stopiteration_error(tx: Tracer, f: Frame, ins: Instr) -> None:
    exc = f.stack[-1]
    assert isinstance(exc, ExceptionValue)
    f.stack[-1] = not_stop_iteration(tx, Raised(exc)).value


@op("CALL_INTRINSIC_1")
def _call_intrinsic_1(tx: Tracer, f: Frame, ins: Instr) -> None:
    name = str(ins.argval).removeprefix("INTRINSIC_")
    handler = OPS.get(name)
    if handler is None:
        raise tx.break_("DD016", name)
    handler(tx, f, ins)
