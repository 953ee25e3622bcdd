"""From plain data to a function and its inputs. Only making them imports modules and runs code; opening the file does not."""

from __future__ import annotations

import abc
import builtins
import collections
import functools
import importlib
import linecache
import platform
import types
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from safetensors import SafetensorError
from safetensors.torch import load as unpack

from dynamo.recording.format import FIELD, Recording, RecordingError
from dynamo.recording.known import MAKERS, Missing

_LAYOUTS = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format, "qscheme": torch.qscheme}
_WRAPPERS: dict[str, Callable[..., Any]] = {
    "staticmethod": staticmethod,
    "classmethod": classmethod,
    "property": property,
    "field": FIELD,
}
_MUTABLE: dict[str, Callable[[], Any]] = {"list": list, "set": set}
_WHOLE: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "frozenset": frozenset, "Size": torch.Size}
_CONTAINERS: dict[str, Any] = {c.__name__: c for c in (collections.OrderedDict, dict, list, set)}
_DICTS: dict[str, Callable[[], dict[Any, Any]]] = {"dict": dict, "OrderedDict": collections.OrderedDict}


class NotRecorded(RuntimeError):
    """The replayed frame used a value that the recording has no more than a name of."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"a {kind} is not in the recording, only its name; make it again before the call, or record without it")
        self.kind = kind


class Placeholder:
    """Stands for a value that could not be kept. Any use but passing it on says so."""

    def __init__(self, kind: str, text: str = "") -> None:
        object.__setattr__(self, "_kind", f"{kind} ({text})" if text else kind)

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        kind = object.__getattribute__(self, "_kind")
        raise NotRecorded(kind)

    __getattr__ = __setattr__ = __call__ = __getitem__ = __iter__ = __len__ = __enter__ = __exit__ = __bool__ = _refuse

    def __repr__(self) -> str:
        return f"<not recorded: {object.__getattribute__(self, '_kind')}>"


class Builder:
    """Makes the values of one recording. Raises RecordingError where data do not fit together."""

    def __init__(self, recording: Recording) -> None:
        self.path, self.frame = recording.path, recording.frame
        mine, theirs = platform.python_version_tuple()[:2], str(self.frame["versions"].get("python")).split(".")[:2]
        if list(mine) != theirs:
            raise RecordingError(f"{self.path}: recorded under Python {'.'.join(theirs)}; its bytecode runs there only")
        try:
            self.memory = unpack(recording.tensors)
        except (SafetensorError, ValueError, RuntimeError) as e:
            raise RecordingError(f"{self.path}: the memory of the tensors is damaged: {e}") from e
        self._made: dict[int, Any] = {}
        self._making: set[int] = set()
        self._later: list[Callable[[], object]] = []
        self._last: list[Callable[[], object]] = []
        self._spaces: dict[int, dict[str, Any]] = {}
        self._codes: dict[int, types.CodeType] = {}
        for file, text in self.frame["sources"].items():
            # without a time of change, so that nobody looks for the file
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)

    def value(self, number: int) -> Any:
        """The object of a row, made once."""
        if number in self._made:
            return self._made[number]
        if number in self._making:
            raise RecordingError(f"{self.path}: value {number} is part of itself")
        self._making.add(number)
        row = self.frame["values"][number]
        try:
            made = _MAKERS[row["kind"]](self, number, row)
        except RecordingError:
            raise
        except NotRecorded as e:
            made = Placeholder(f"{row['kind']} that needs {e.kind}")
        except Missing as e:
            made = Placeholder(str(e))
        except RecursionError as e:
            raise RecordingError(f"{self.path}: values are nested too deep") from e
        except (TypeError, ValueError, LookupError, AttributeError, RuntimeError, ImportError, OverflowError) as e:
            raise RecordingError(f"{self.path}: value {number} ({row['kind']}) can't be made: {e}") from e
        self._making.discard(number)
        self._made[number] = made
        return made

    def whole(self, number: int) -> Any:
        """The object, and all that is to be put into objects that came first because something in them leads back to them."""
        made = self.value(number)
        while self._later or self._last:
            (self._later or self._last).pop()()
        return made

    def later(self, fill: Callable[[], object]) -> None:
        """Do it when the objects that are being made are there."""
        self._later.append(fill)

    def last(self, keys: list[int], fill: Callable[[], object]) -> None:
        """Do it when what objects hold is there too, which the hashes of these keys may need."""
        if all(self.frame["values"][key]["kind"] in ("plain", "torch") for key in keys):
            fill()
        else:
            self.later(lambda: self.values(keys))
            self._last.append(fill)

    def keep(self, number: int, obj: Any) -> Any:
        """An object that is there before what it holds is."""
        self._made[number] = obj
        return obj

    def values(self, numbers: list[int]) -> list[Any]:
        return [self.value(n) for n in numbers]

    def names(self, pairs: list[list[Any]]) -> dict[str, Any]:
        return {name: self.value(n) for name, n in pairs}

    def code(self, number: int) -> types.CodeType:
        if number not in self._codes:
            c = self.frame["codes"][number]
            consts = tuple(self.values(c["consts"]))
            binary = {name: bytes.fromhex(c[name]) for name in ("code", "linetable", "exceptiontable")}
            self._codes[number] = types.CodeType(
                c["argcount"], c["posonlyargcount"], c["kwonlyargcount"], c["nlocals"], c["stacksize"], c["flags"], binary["code"], consts,
                tuple(c["names"]), tuple(c["varnames"]), c["filename"], c["name"], c["qualname"], c["firstlineno"], binary["linetable"],
                binary["exceptiontable"], tuple(c["freevars"]), tuple(c["cellvars"]),
            )  # fmt: skip
        return self._codes[number]

    def space(self, number: int) -> dict[str, Any]:
        """A namespace; the frame's functions share it."""
        if number not in self._spaces:
            row = self.frame["namespaces"][number]
            space = self._spaces[number] = {"__name__": row["name"], "__file__": row["file"], "__builtins__": builtins}
            self.later(lambda: space.update(self.names(row["names"])))
        return self._spaces[number]


# ---- kinds ----------------------------------------------------------------------------------------------------


def _plain(b: Builder, number: int, row: dict[str, Any]) -> Any:
    return _PLAIN[row["type"]](row["text"])


def _complex(text: str) -> complex:
    real, imag = text.split()
    return complex(float.fromhex(real), float.fromhex(imag))


_PLAIN: dict[str, Callable[[str], Any]] = {
    "NoneType": lambda text: None,
    "ellipsis": lambda text: ...,
    "NotImplementedType": lambda text: NotImplemented,
    "bool": lambda text: {"True": True, "False": False}[text],
    "int": lambda text: int(text, 0),
    "float": float.fromhex,
    "complex": _complex,
    "str": lambda text: bytes.fromhex(text).decode("utf-8", "surrogatepass"),
    "bytes": bytes.fromhex,
}


def _sequence(b: Builder, number: int, row: dict[str, Any]) -> Any:
    if row["type"] in _WHOLE:
        return _WHOLE[row["type"]](b.values(row["items"]))
    made = b.keep(number, _MUTABLE[row["type"]]())
    if type(made) is list:
        made.extend(b.values(row["items"]))
    else:
        b.last(row["items"], lambda: made.update(b.values(row["items"])))
    return made


def _dict(b: Builder, number: int, row: dict[str, Any]) -> Any:
    made = b.keep(number, _DICTS[row["type"]]())
    b.last([key for key, _ in row["items"]], lambda: made.update((b.value(key), b.value(value)) for key, value in row["items"]))
    return made


def _defaultdict(b: Builder, number: int, row: dict[str, Any]) -> Any:
    made = b.keep(number, collections.defaultdict(b.value(row["factory"])))
    b.last([key for key, _ in row["items"]], lambda: made.update((b.value(key), b.value(value)) for key, value in row["items"]))
    return made


def _deque(b: Builder, number: int, row: dict[str, Any]) -> Any:
    made = b.keep(number, collections.deque(maxlen=b.value(row["limit"])))
    made.extend(b.values(row["items"]))
    return made


def _range(b: Builder, number: int, row: dict[str, Any]) -> Any:
    return {"range": range, "slice": slice}[row["type"]](*b.values(row["items"]))


def _torch(b: Builder, number: int, row: dict[str, Any]) -> Any:
    if row["type"] == "device":
        return torch.device(row["text"])
    found = getattr(torch, row["text"])
    if not isinstance(found, _LAYOUTS[row["type"]]):
        raise TypeError(f"torch.{row['text']} is no {row['type']}")
    return found


def _tensor(b: Builder, number: int, row: dict[str, Any]) -> torch.Tensor:
    dtype, memory = getattr(torch, row["dtype"]), b.memory[row["storage"]]
    if not isinstance(dtype, torch.dtype) or memory.dtype != torch.uint8 or memory.dim() != 1:
        raise TypeError("no dtype, or no plain memory")
    size, stride, offset = row["size"], row["stride"], row["offset"]
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if all(size) else 0
    if offset < 0 or (all(size) and (last + 1) * dtype.itemsize > memory.numel()):
        raise ValueError("a tensor reaches beyond its memory")
    usable = memory[: memory.numel() // dtype.itemsize * dtype.itemsize]
    flat = usable.view(dtype) if usable.numel() else torch.empty(0, dtype=dtype)
    made = flat.as_strided(size, stride, offset if all(size) else 0).detach()
    device = torch.device(row["device"])
    if device.type == "cuda" and torch.cuda.is_available():
        made = made.to(device)
    return torch.nn.Parameter(made, row["requires_grad"]) if row["is_parameter"] else made.requires_grad_(row["requires_grad"])


def _import(b: Builder, number: int, row: dict[str, Any]) -> Any:
    return importlib.import_module(row["name"])


def _module(b: Builder, number: int, row: dict[str, Any]) -> Any:
    made = b.keep(number, types.ModuleType(row["name"]))
    b.later(lambda: vars(made).update(b.names(row["names"])))
    return made


def _reference(b: Builder, number: int, row: dict[str, Any]) -> Any:
    found: Any = importlib.import_module(row["module"])
    for part in row["name"].split("."):
        found = getattr(found, part)
    return found


def _function(b: Builder, number: int, row: dict[str, Any]) -> Any:
    code = b.code(row["code"])
    cells = tuple(b.values(row["closure"]))
    if not all(isinstance(cell, types.CellType) for cell in cells):
        raise TypeError("the closure holds no cells")
    made = b.keep(number, types.FunctionType(code, b.space(row["globals"]), row["name"], None, cells))
    made.__qualname__ = row["qualname"]
    b.later(lambda: _complete(b, made, row))
    return made


def _complete(b: Builder, made: types.FunctionType, row: dict[str, Any]) -> None:
    made.__defaults__ = None if row["defaults"] is None else tuple(b.values(row["defaults"]))
    made.__kwdefaults__ = b.names(row["kwdefaults"]) or None
    vars(made).update(b.names(row["attributes"]))


def _method(b: Builder, number: int, row: dict[str, Any]) -> Any:
    return types.MethodType(b.value(row["function"]), b.value(row["instance"]))


def _wrapper(b: Builder, number: int, row: dict[str, Any]) -> Any:
    return _WRAPPERS[row["type"]](*b.values(row["items"]))


def _partial(b: Builder, number: int, row: dict[str, Any]) -> Any:
    return functools.partial(b.value(row["function"]), *b.values(row["items"]), **b.names(row["keywords"]))


def _cell(b: Builder, number: int, row: dict[str, Any]) -> Any:
    made = b.keep(number, types.CellType())
    if row["contents"] is not None:
        b.later(lambda: setattr(made, "cell_contents", b.value(row["contents"])))
    return made


def _class_of(b: Builder, number: int, row: dict[str, Any]) -> Any:
    meta = b.value(row["metaclass"])
    return meta if isinstance(meta, Placeholder) else _class(b, number, row, meta)


def _beside(meta: type, statement: tuple[Any, ...]) -> type:
    """A class of a metaclass of the program, which made it once already: what that has done is in the names of the class."""
    makes: Any = abc.ABCMeta if issubclass(meta, abc.ABCMeta) else type
    made: type = makes.__new__(meta, *statement)
    return made


def _class(b: Builder, number: int, row: dict[str, Any], meta: type = type) -> Any:
    bases = tuple(b.values(row["bases"]))
    missing = [base for base in bases if isinstance(base, Placeholder)]
    if missing:
        return missing[0]
    slots = {name: b.value(n) for name, n in row["names"] if name == "__slots__"}
    statement = row["name"], bases, {"__module__": row["module"], "__qualname__": row["qualname"], **slots}
    made = b.keep(number, type(*statement) if meta is type else _beside(meta, statement))
    for name, value in row["names"]:
        if name != "__slots__":
            b.later(functools.partial(_set, b, made, name, value))
    return made


def _set(b: Builder, cls: type, name: str, number: int) -> None:
    type.__setattr__(cls, name, b.value(number))


def _object(b: Builder, number: int, row: dict[str, Any]) -> Any:
    cls = b.value(row["class"])
    if isinstance(cls, Placeholder):
        return cls
    made = b.keep(number, object.__new__(cls))
    b.later(lambda: _fill(b, made, row))
    return made


def _fill(b: Builder, made: object, row: dict[str, Any]) -> None:
    if row["attributes"]:
        made.__dict__.update(b.names(row["attributes"]))
    for name, value in b.names(row["slots"]).items():
        object.__setattr__(made, name, value)


def _named(b: Builder, number: int, row: dict[str, Any]) -> Any:
    cls = b.value(row["class"])
    return cls if isinstance(cls, Placeholder) else tuple.__new__(cls, b.values(row["items"]))


def _container(b: Builder, number: int, row: dict[str, Any]) -> Any:
    cls, base = b.value(row["class"]), _CONTAINERS[row["base"]]
    if isinstance(cls, Placeholder):
        return cls
    made = b.keep(number, base.__new__(cls))

    def fill() -> None:
        items = b.values(row["items"])
        if issubclass(base, dict):
            for key, value in zip(items[::2], items[1::2], strict=True):
                base.__setitem__(made, key, value)
        else:
            add = list.append if base is list else set.add
            for item in items:
                add(made, item)
        _fill(b, made, row)

    b.last(row["items"], fill)
    return made


def _of_parts(b: Builder, number: int, row: dict[str, Any]) -> Any:
    parts = b.values(row["items"])
    missing = [part for part in parts if isinstance(part, Placeholder)]
    return missing[0] if missing else MAKERS[row["type"]](*parts)


def _enumeration(b: Builder, number: int, row: dict[str, Any]) -> Any:
    def body(space: dict[str, Any]) -> None:
        space.update({"__module__": row["module"], "__qualname__": row["qualname"]})
        for name, value in [*b.names(row["members"]).items(), *b.names(row["names"]).items()]:
            space[name] = value

    bases = tuple(b.values(row["bases"]))
    missing = [base for base in bases if isinstance(base, Placeholder)]
    return missing[0] if missing else types.new_class(row["name"], bases, {}, body)


def _enum(b: Builder, number: int, row: dict[str, Any]) -> Any:
    return b.value(row["base"])(row["name"], list(b.names(row["names"]).items()), module=row["module"])


_MAKERS: dict[str, Callable[[Builder, int, dict[str, Any]], Any]] = {
    "plain": _plain,
    "sequence": _sequence,
    "dict": _dict,
    "defaultdict": _defaultdict,
    "deque": _deque,
    "range": _range,
    "torch": _torch,
    "tensor": _tensor,
    "import": _import,
    "module": _module,
    "reference": _reference,
    "function": _function,
    "method": _method,
    "wrapper": _wrapper,
    "partial": _partial,
    "cell": _cell,
    "class": _class,
    "class of": _class_of,
    "object": _object,
    "named": _named,
    "container": _container,
    "made": _of_parts,
    "enumeration": _enumeration,
    "enum": _enum,  # of files that were written before there were enumerations
    "member": lambda b, number, row: b.value(row["class"])[row["name"]],
    "code": lambda b, number, row: b.code(row["code"]),
    "placeholder": lambda b, number, row: Placeholder(row["type"], row["text"]),
}
