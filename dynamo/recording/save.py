"""From a function and its inputs to plain data: what can't be kept becomes a placeholder that says what it was."""

from __future__ import annotations

import abc
import collections
import contextlib
import dis
import enum
import functools
import linecache
import platform
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from safetensors.torch import save as pack

from dynamo import _C
from dynamo.inspection import WRITTEN_BITS, attributes_of, is_statement
from dynamo.recording.format import FIELD, NAME, VERSION
from dynamo.recording.known import BY_CLASS, KNOWN, described, of_numpy, sparse_parts
from dynamo.skipped import skip_file
from dynamo.surroundings.modes import MODES

Value = dict[str, Any]
_SEQUENCES = (list, tuple, set, frozenset, torch.Size)
_TENSORS = (torch.Tensor, torch.nn.Parameter)
_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.qscheme)
_BUILT = (types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinMethodType)
# Of a class what Python makes again, or what is about the class statement only.
_OF_CLASSES = frozenset(
    {"__dict__", "__weakref__", "__module__", "__qualname__", "__doc__", "__annotations__", "__dataclass_fields__", "__dataclass_params__",
     "__abstractmethods__", "_abc_impl", "__parameters__", "__orig_bases__", "__firstlineno__", "__static_attributes__", "__match_args__",
     "_backward_cls"}
)  # fmt: skip

_OF_ENUMERATIONS = (types.FunctionType, property, staticmethod, classmethod)  # what is no member
_CONTAINERS = (collections.OrderedDict, dict, list, set)
_OF_FUNCTIONS = type(torch.autograd.Function)  # makes a class for the backward of each
RANDOM = "random state"
_OF_MACHINES = ("get_num_threads",)


class Saver:
    """Fills the tables of one file."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.codes: list[dict[str, Any]] = []
        self.namespaces: list[dict[str, Any]] = []
        self.memory: dict[str, torch.Tensor] = {}
        self.storages: dict[int, int] = {}  # by address; all tensors of the frame are alive meanwhile
        self.sources: dict[str, str] = {}
        self._known: dict[int, int] = {}
        self._kept: list[object] = []  # so that no number of an object is given twice
        self._spaces: dict[int, int] = {}
        self._codes: dict[int, int] = {}
        self._names: set[str] = set()
        self._modules: dict[int, types.ModuleType] = {}

    def value(self, obj: Any) -> int:
        """The number of a value in the table."""
        found = self._known.get(id(obj))
        if found is None:
            found = self._known[id(obj)] = len(self.values)
            self._kept.append(obj)
            self.values.append({})
            self.values[found] = self._row(obj)
        return found

    def names(self, mapping: dict[str, Any]) -> list[list[Any]]:
        return [[name, self.value(obj)] for name, obj in mapping.items() if type(name) is str]

    def _row(self, obj: Any) -> Value:
        for cls in type(obj).__mro__:
            row = ROWS.get(cls)
            if row is not None and (cls is type(obj) or cls in _WITH_SUBCLASSES):
                return row(self, obj)
        return _object(self, obj)

    def code(self, code: types.CodeType) -> int:
        found = self._codes.get(id(code))
        if found is None:
            found = self._codes[id(code)] = len(self.codes)
            self._kept.append(code)
            self.codes.append({})
            self._source(code.co_filename)
            self._names.update(code.co_names)
            self.codes[found] = _code_fields(self, code)
        return found

    def space(self, globals_: dict[str, Any], code: types.CodeType) -> int:
        """A namespace, with what `code` reads of it."""
        found = self._spaces.get(id(globals_))
        if found is None:
            found = self._spaces[id(globals_)] = len(self.namespaces)
            self._kept.append(globals_)
            self.namespaces.append({"name": str(globals_.get("__name__")), "file": str(globals_.get("__file__", "")), "names": []})
        names: list[list[Any]] = self.namespaces[found]["names"]
        known = {name for name, _ in names}
        for name in sorted(_globals_read(code) - known):
            if name in globals_:
                entry = [name, 0]
                names.append(entry)
                entry[1] = self.value(globals_[name])
        return found

    def module(self, module: types.ModuleType) -> None:
        """A module of the user's, to be filled once it is known what recorded code asks for."""
        self._modules[self._known[id(module)]] = module

    def fill_modules(self) -> None:
        """Give modules of the user's the attributes that any recorded code names. Filling one may bring more code."""
        count = -1
        while count != len(self.values):
            count = len(self.values)
            for number, module in list(self._modules.items()):
                names = self.values[number]["names"]
                known = {name for name, _ in names}
                for name in sorted(self._names & vars(module).keys() - known):
                    names.append([name, self.value(vars(module)[name])])

    def _source(self, file: str) -> None:
        if file not in self.sources and not skip_file(file):
            self.sources[file] = "".join(linecache.getlines(file))


def save(fn: types.FunctionType, inputs: tuple[Any, ...], error: str, fullgraph: bool) -> tuple[dict[str, Any], bytes]:
    """(frame, memory of tensors) of one frame before it ran: see `dynamo.recording.format`."""
    saver = Saver()
    modes = [(mode.name, mode.read()) for mode in MODES if mode.name not in _OF_MACHINES]
    modes.append((RANDOM, torch.get_rng_state()))
    function, values = saver.value(fn), [saver.value(x) for x in inputs]
    kept = [[name, saver.value(value)] for name, value in modes]
    saver.fill_modules()
    frame = {
        "format": NAME,
        "version": VERSION,
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "error": error,
        "function": function,
        "inputs": values,
        "modes": kept,
        "fullgraph": fullgraph,
        "sources": saver.sources,
        "values": saver.values,
        "codes": saver.codes,
        "namespaces": saver.namespaces,
    }
    return frame, pack(saver.memory)


def _code_fields(saver: Saver, code: types.CodeType) -> dict[str, Any]:
    numbers = ("argcount", "posonlyargcount", "kwonlyargcount", "nlocals", "stacksize", "flags", "firstlineno")
    fields: dict[str, Any] = {name: getattr(code, f"co_{name}") for name in (*numbers, "filename", "name", "qualname")}
    fields |= {name: getattr(code, f"co_{name}").hex() for name in ("code", "linetable", "exceptiontable")}
    fields |= {name: list(getattr(code, f"co_{name}")) for name in ("names", "varnames", "freevars", "cellvars")}
    return fields | {"consts": [saver.value(const) for const in code.co_consts]}


def _globals_read(code: types.CodeType) -> set[str]:
    """Names of globals that code, or code in it, reads."""
    found = {str(i.argval) for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return found.union(*(_globals_read(const) for const in code.co_consts if isinstance(const, types.CodeType)))


# ---- rows -----------------------------------------------------------------------------------------------------


def placeholder(obj: Any) -> Value:
    """Stands for what can't be kept; nothing of the object's own is asked for its text."""
    return {"kind": "placeholder", "type": f"{type(obj).__module__}.{type(obj).__qualname__}", "text": described(obj)}


def _plain(text: Callable[[Any], str]) -> Callable[[Saver, Any], Value]:
    return lambda saver, obj: {"kind": "plain", "type": type(obj).__name__, "text": text(obj)}


def _complex(obj: complex) -> str:
    return f"{obj.real.hex()} {obj.imag.hex()}"


def _sequence(saver: Saver, obj: Any) -> Value:
    return {"kind": "sequence", "type": type(obj).__name__, "items": [saver.value(x) for x in obj]}


def _dict(saver: Saver, obj: Any) -> Value:
    return {"kind": "dict", "type": type(obj).__name__, "items": [[saver.value(k), saver.value(v)] for k, v in obj.items()]}


def _defaultdict(saver: Saver, obj: Any) -> Value:
    return {"kind": "defaultdict", "factory": saver.value(obj.default_factory), "items": _dict(saver, obj)["items"]}


def _deque(saver: Saver, obj: Any) -> Value:
    return {"kind": "deque", "items": [saver.value(x) for x in obj], "limit": saver.value(obj.maxlen)}


def _range(saver: Saver, obj: Any) -> Value:
    return {"kind": "range", "type": type(obj).__name__, "items": [saver.value(x) for x in (obj.start, obj.stop, obj.step)]}


def _torch(saver: Saver, obj: Any) -> Value:
    return {"kind": "torch", "type": type(obj).__name__, "text": str(obj).removeprefix("torch.")}


def _tensor(saver: Saver, obj: torch.Tensor) -> Value:
    sparse = sparse_parts(obj) if type(obj) is torch.Tensor and not obj.is_meta else None
    if sparse is not None:
        return _of_parts(saver, obj, *sparse)
    if obj.layout is not torch.strided or obj.is_quantized or obj.is_meta or obj.is_conj() or obj.is_neg():
        return placeholder(obj)
    with torch.no_grad():
        storage = obj.detach().untyped_storage()
        key = str(saver.storages.setdefault(storage.data_ptr() if storage.nbytes() else 0, len(saver.storages)))
        if key not in saver.memory:
            saver.memory[key] = torch.empty(0, dtype=torch.uint8, device=obj.device).set_(storage).clone().cpu()
    return {
        "kind": "tensor",
        "storage": key,
        "dtype": str(obj.dtype).removeprefix("torch."),
        "size": list(obj.shape),
        "stride": list(obj.stride()),
        "offset": obj.storage_offset(),
        "requires_grad": obj.requires_grad,
        "is_parameter": type(obj) is torch.nn.Parameter,
        "device": str(obj.device),
    }


def _module(saver: Saver, obj: types.ModuleType) -> Value:
    file = getattr(obj, "__file__", None)
    if not isinstance(file, str) or skip_file(file) or "site-packages" in file:
        return {"kind": "import", "name": obj.__name__}
    saver.module(obj)
    return {"kind": "module", "name": obj.__name__, "names": []}


def _reference(obj: Any) -> Value | None:
    """What an import finds again, if it is of a library."""
    module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if module is None and isinstance(obj, types.BuiltinMethodType):
        owner = obj.__self__
        module = owner.__name__ if isinstance(owner, types.ModuleType) else owner.__module__ if isinstance(owner, type) else None
    if not isinstance(name, str) or not isinstance(module, str):
        owner = getattr(obj, "__objclass__", None)
        module = getattr(owner, "__module__", None)
    own = str(getattr(obj, "__name__", None))
    if vars(torch).get(own) is obj:  # what such a function calls its home is no attribute of any module
        module, name = "torch", own
    elif vars(types).get(own) is obj:  # what says it is of `builtins`, where it is not
        module, name = "types", own
    if not isinstance(name, str) or not isinstance(module, str) or "<locals>" in name:
        return None
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None)
    if loaded is None or module == "__main__" or (isinstance(file, str) and not skip_file(file) and "site-packages" not in file):
        return None
    found: Any = loaded
    for part in name.split("."):
        found = getattr(found, part, None)
    return {"kind": "reference", "module": module, "name": name} if found is obj else None


def _function(saver: Saver, obj: types.FunctionType) -> Value:
    found = _reference(obj)
    if found is not None:
        return found
    row = {"kind": "function", "name": obj.__name__, "qualname": obj.__qualname__, "code": saver.code(obj.__code__)}
    row["globals"] = saver.space(obj.__globals__, obj.__code__)
    row["defaults"] = None if obj.__defaults__ is None else [saver.value(x) for x in obj.__defaults__]
    row["kwdefaults"] = saver.names(obj.__kwdefaults__ or {})
    row["closure"] = [saver.value(cell) for cell in obj.__closure__ or ()]
    row["attributes"] = saver.names({k: v for k, v in vars(obj).items() if not k.startswith("__")})
    return row


def _compiled(saver: Saver, obj: _C.Compiled) -> Value:
    return _function(saver, obj.fn) if type(obj.fn) is types.FunctionType else placeholder(obj)


def _method(saver: Saver, obj: types.MethodType) -> Value:
    return {"kind": "method", "function": saver.value(obj.__func__), "instance": saver.value(obj.__self__)}


def _wrapper(saver: Saver, obj: Any) -> Value:
    parts = (obj.fget, obj.fset, obj.fdel) if isinstance(obj, property) else (obj.__func__,)
    return {"kind": "wrapper", "type": type(obj).__name__, "items": [saver.value(part) for part in parts]}


def _field(saver: Saver, obj: Any) -> Value:
    """The descriptor of a field of a named tuple."""
    return {"kind": "wrapper", "type": "field", "items": [saver.value(x) for x in obj.__reduce__()[1]]}


def _partial(saver: Saver, obj: functools.partial[Any]) -> Value:
    return {
        "kind": "partial",
        "function": saver.value(obj.func),
        "items": [saver.value(x) for x in obj.args],
        "keywords": saver.names(obj.keywords),
    }


def _cell(saver: Saver, obj: types.CellType) -> Value:
    try:
        contents = obj.cell_contents
    except ValueError:
        return {"kind": "cell", "contents": None}
    return {"kind": "cell", "contents": saver.value(contents)}


def _class(saver: Saver, obj: type) -> Value:
    found = _reference(obj)
    if found is not None:
        return found
    meta: type[Any] = type(obj)
    is_own = meta not in (type, abc.ABCMeta, _OF_FUNCTIONS)
    if is_own and (issubclass(meta, (_OF_FUNCTIONS, enum.EnumMeta)) or not all(is_statement(c) for c in meta.__mro__[:-2])):
        return placeholder(obj)
    own = {name: x for name, x in vars(obj).items() if name not in _OF_CLASSES and type(x) is not types.MemberDescriptorType}
    bases = [saver.value(base) for base in obj.__bases__]
    return {
        **({"kind": "class of", "metaclass": saver.value(meta)} if is_own else {"kind": "class"}),
        "name": obj.__name__,
        "qualname": obj.__qualname__,
        "module": obj.__module__,
        "bases": bases,
        "names": saver.names(own),
    }


def _named(saver: Saver, obj: tuple[Any, ...]) -> Value:
    """An instance of a subclass of tuple. Others of C classes have state that nothing here knows."""
    return {"kind": "named", "class": saver.value(type(obj)), "items": [saver.value(x) for x in tuple.__iter__(obj)]}


def _enum(saver: Saver, obj: type[enum.Enum]) -> Value:
    """Of an enumeration names and values, and what its class statement defines. One that makes its members itself is not kept."""
    found = _reference(obj)
    if found is not None:
        return found
    own = {name: x for name, x in vars(obj).items() if type(x) in _OF_ENUMERATIONS and not name.startswith("_")}
    if any(
        type(vars(cls).get("__new__")) is staticmethod and cls.__module__ != "enum" and "_new_member_" in vars(cls) for cls in obj.__mro__
    ):
        return placeholder(obj)
    return {
        "kind": "enumeration",
        "name": obj.__name__,
        "qualname": obj.__qualname__,
        "module": obj.__module__,
        "bases": [saver.value(base) for base in obj.__bases__],
        "members": saver.names({name: member.value for name, member in obj.__members__.items()}),
        "names": saver.names(own),
    }


def _member(saver: Saver, obj: enum.Enum) -> Value:
    if obj.name in type(obj).__members__:
        return {"kind": "member", "class": saver.value(type(obj)), "name": str(obj.name)}
    return {"kind": "made", "type": "member", "items": [saver.value(type(obj)), saver.value(obj.value)]}


def _made(saver: Saver, obj: Any) -> Value:
    name = BY_CLASS[type(obj)]
    return _of_parts(saver, obj, name, KNOWN[name].parts(obj))


def _of_parts(saver: Saver, obj: Any, name: str, parts: Sequence[Any] | None) -> Value:
    return placeholder(obj) if parts is None else {"kind": "made", "type": name, "items": [saver.value(part) for part in parts]}


def _container(saver: Saver, obj: Any) -> Value | None:
    """An instance of a Python class below a container of Python's own."""
    cls = type(obj)
    base = next((c for c in cls.__mro__ if c in _CONTAINERS), None)
    if base is None or cls.__new__ is not base.__new__ or not all(is_statement(c) for c in cls.__mro__[: cls.__mro__.index(base)]):
        return None
    items = [x for pair in base.items(obj) for x in pair] if issubclass(base, dict) else list(base.__iter__(obj))
    return {
        "kind": "container",
        "class": saver.value(cls),
        "base": base.__name__,
        "items": [saver.value(x) for x in items],
        "attributes": saver.names(attributes_of(obj) or {}),
        "slots": saver.names(_slots(obj)),
    }


def _slots(obj: Any) -> dict[str, Any]:
    """What the slots of an object hold; one may be empty."""
    found = {}
    for cls in reversed(type(obj).__mro__):
        for name, slot in vars(cls).items():
            if type(slot) is types.MemberDescriptorType:
                with contextlib.suppress(AttributeError):
                    found[name] = slot.__get__(obj)
    return found


def _object(saver: Saver, obj: Any) -> Value:
    """An instance of a Python class whose state is all in its dict, slots and items; what an import of a library finds, or a row of it
    makes; else a placeholder."""
    cls, state = type(obj), attributes_of(obj)
    if isinstance(obj, tuple) and cls.__base__ is tuple:
        return _named(saver, obj)
    python = all(is_statement(c) for c in cls.__mro__ if c is not object)
    is_slotted = state is None and all("__slots__" in vars(c) for c in cls.__mro__ if c is not object)
    made: Any = getattr(cls, "__new__", None)
    is_plain = made == object.__new__ or type(made) is types.FunctionType  # one of Python's ends in that of object
    if python and is_plain and (is_slotted or type(state) is dict):
        slots = saver.names(_slots(obj))
        return {"kind": "object", "class": saver.value(cls), "attributes": saver.names(state or {}), "slots": slots}
    numbers = of_numpy(obj)
    if numbers is not None:
        return _of_parts(saver, obj, *numbers)
    return _container(saver, obj) or _reference(obj) or _stream(obj) or placeholder(obj)


def _stream(obj: Any) -> Value | None:
    """One of the three that every process has."""
    found = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is obj]
    return {"kind": "reference", "module": "sys", "name": found[0]} if found else None


def _referred(saver: Saver, obj: Any) -> Value:
    return _reference(obj) or placeholder(obj)


ROWS: dict[type, Callable[[Saver, Any], Value]] = {
    **dict.fromkeys((type(None), type(...), type(NotImplemented)), _plain(lambda x: "")),
    bool: _plain(str),
    int: _plain(lambda x: str(x) if x.bit_length() <= WRITTEN_BITS else hex(x)),
    float: _plain(float.hex),
    complex: _plain(_complex),
    str: _plain(lambda x: x.encode("utf-8", "surrogatepass").hex()),
    bytes: _plain(bytes.hex),
    **dict.fromkeys(_SEQUENCES, _sequence),
    **dict.fromkeys((dict, collections.OrderedDict), _dict),
    collections.defaultdict: _defaultdict,
    collections.deque: _deque,
    **dict.fromkeys((range, slice), _range),
    **dict.fromkeys(_TORCH, _torch),
    **dict.fromkeys(_TENSORS, _tensor),
    **dict.fromkeys(_BUILT, _referred),
    types.ModuleType: _module,
    types.FunctionType: _function,
    _C.Compiled: _compiled,
    types.MethodType: _method,
    **dict.fromkeys((staticmethod, classmethod, property), _wrapper),
    FIELD: _field,
    functools.partial: _partial,
    types.CellType: _cell,
    types.CodeType: lambda saver, obj: {"kind": "code", "code": saver.code(obj)},
    enum.EnumMeta: _enum,
    enum.Enum: _member,
    type: _class,
    **dict.fromkeys(BY_CLASS, _made),
}
# Of other classes a row is for their own instances: a subclass may keep more.
_WITH_SUBCLASSES = (type, enum.EnumMeta, enum.Enum, types.ModuleType)
