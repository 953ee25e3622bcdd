"""Values of libraries that are made again from what they tell of themselves: a row for classes, with parts and what makes one of them.

Parts are values of the recording too. Nothing of a program's own runs, neither to take a value apart nor to make it.
"""

from __future__ import annotations

import array
import datetime as dt
import decimal
import fractions
import functools
import importlib
import io
import logging
import operator
import pathlib
import random
import re
import sys
import threading
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch


class Known(NamedTuple):
    """How values of some classes are kept. `parts` gives None for one that can't be."""

    classes: tuple[type, ...]
    parts: Callable[[Any], Sequence[Any] | None]
    make: Callable[..., Any]


class Missing(LookupError):
    """Nobody has what is to be found by its name; the text says what."""


class _Died:
    """What a weak reference without an object referred to."""


def _ref(*referent: Any) -> Any:
    return weakref.ref(*referent) if referent else weakref.ref(_Died())


def _generator(device: str, state: torch.Tensor) -> torch.Generator:
    made = torch.Generator(device if device == "cpu" or torch.cuda.is_available() else "cpu")
    if made.device.type == torch.device(device).type:
        made.set_state(state)
    return made


def sparse_parts(value: torch.Tensor) -> tuple[str, Sequence[Any]] | None:
    """The row and the parts of a sparse tensor, None of others."""
    plain = value.detach()
    if value.layout is torch.sparse_coo:
        return "sparse", (plain._indices(), plain._values(), plain.shape, plain.is_coalesced(), value.requires_grad)
    if value.layout in (torch.sparse_csr, torch.sparse_bsr):
        indices = plain.crow_indices(), plain.col_indices()
    elif value.layout in (torch.sparse_csc, torch.sparse_bsc):
        indices = plain.ccol_indices(), plain.row_indices()
    else:
        return None
    return "sparse compressed", (*indices, plain.values(), plain.shape, value.layout, value.requires_grad)


def _sparse(indices: torch.Tensor, values: torch.Tensor, size: torch.Size, is_coalesced: bool, requires_grad: bool) -> torch.Tensor:
    made = torch.sparse_coo_tensor(indices, values, size, is_coalesced=is_coalesced, check_invariants=True)
    return made.requires_grad_(requires_grad)


def _sparse_compressed(
    outer: torch.Tensor, inner: torch.Tensor, values: torch.Tensor, size: torch.Size, layout: torch.layout, requires_grad: bool
) -> torch.Tensor:
    made = torch.sparse_compressed_tensor(outer, inner, values, size, layout=layout, check_invariants=True)
    return made.requires_grad_(requires_grad)


def _random(state: Any) -> random.Random:
    made = random.Random()
    made.setstate(state)
    return made


def _stream(cls: type) -> Callable[[Any, int], Any]:
    def make(text: Any, at: int) -> Any:
        made = cls(text)
        made.seek(at)
        return made

    return make


def _operator(name: str) -> Any:
    found: Any = torch.ops
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise Missing(f"torch operator {name}, which the program defines,") from None
    return found


def _exception(name: str, args: tuple[Any, ...]) -> BaseException:
    cls = getattr(importlib.import_module("builtins"), name)
    if not (isinstance(cls, type) and issubclass(cls, BaseException)):
        raise TypeError(f"{name} is no exception")
    made: BaseException = cls.__new__(cls, *args)
    made.args = args
    return made


def _exception_parts(error: BaseException) -> Sequence[Any] | None:
    return (type(error).__name__, error.args) if type(error).__module__ == "builtins" and not vars(error) else None


def _own_reduction(value: Any) -> Sequence[Any]:
    """The arguments of a C class that pickles by calling itself."""
    return tuple(value.__reduce__()[1])


def _iterator(value: Any) -> Sequence[Any] | None:
    reduced = value.__reduce__()
    return (reduced[1][0], reduced[2]) if len(reduced) == 3 else (reduced[1][0], 0)


def _list_iterator(items: Any, at: int) -> Any:
    made = iter(items)
    made.__setstate__(at)
    return made


def _lru(function: Any, size: int | None, typed: bool) -> Any:
    return functools.lru_cache(size, typed)(function)


_EXCEPTIONS = tuple(c for c in vars(sys.modules["builtins"]).values() if isinstance(c, type) and issubclass(c, BaseException))
_PATHS = (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath)
_INFOS = {"finfo": torch.finfo, "iinfo": torch.iinfo}

KNOWN: dict[str, Known] = {
    "re.Pattern": Known((re.Pattern,), lambda x: (x.pattern, x.flags), re.compile),
    "lock": Known((type(threading.Lock()),), lambda x: (), threading.Lock),  # a new one, which nobody holds
    "rlock": Known((type(threading.RLock()),), lambda x: (), threading.RLock),
    "logger": Known((logging.Logger,), lambda x: (x.name,), logging.getLogger),
    "root logger": Known((logging.RootLogger,), lambda x: (), logging.getLogger),
    "StringIO": Known((io.StringIO,), lambda x: None if x.closed else (x.getvalue(), x.tell()), _stream(io.StringIO)),
    "BytesIO": Known((io.BytesIO,), lambda x: None if x.closed else (x.getvalue(), x.tell()), _stream(io.BytesIO)),
    "bytearray": Known((bytearray,), lambda x: (bytes(x),), bytearray),
    "array": Known((array.array,), lambda x: (x.typecode, x.tobytes()), lambda code, data: array.array(code, data)),
    "path": Known(_PATHS, lambda x: (type(x).__name__, str(x)), lambda name, text: {c.__name__: c for c in _PATHS}[name](text)),
    "date": Known((dt.date,), lambda x: (x.year, x.month, x.day), dt.date),
    "datetime": Known(
        (dt.datetime,),
        lambda x: (x.year, x.month, x.day, x.hour, x.minute, x.second, x.microsecond, x.tzinfo),
        dt.datetime,
    ),
    "timedelta": Known((dt.timedelta,), lambda x: (x.days, x.seconds, x.microseconds), dt.timedelta),
    "timezone": Known((dt.timezone,), lambda x: (x.utcoffset(None),), dt.timezone),
    "decimal": Known((decimal.Decimal,), lambda x: (str(x),), decimal.Decimal),
    "fraction": Known((fractions.Fraction,), lambda x: (x.numerator, x.denominator), fractions.Fraction),
    "namespace": Known((types.SimpleNamespace,), lambda x: (dict(vars(x)),), lambda names: types.SimpleNamespace(**names)),
    "mappingproxy": Known((types.MappingProxyType,), lambda x: (dict(x),), types.MappingProxyType),
    "generic alias": Known((types.GenericAlias,), lambda x: (x.__origin__, x.__args__), types.GenericAlias),
    "union": Known((types.UnionType,), lambda x: x.__args__, lambda *args: functools.reduce(operator.or_, args)),
    "itemgetter": Known((operator.itemgetter,), _own_reduction, operator.itemgetter),
    "attrgetter": Known((operator.attrgetter,), _own_reduction, operator.attrgetter),
    "lru_cache": Known((functools._lru_cache_wrapper,), lambda x: (x.__wrapped__, *x.cache_parameters().values()), _lru),
    "list iterator": Known((type(iter([])), type(iter(()))), _iterator, _list_iterator),
    "random": Known((random.Random,), lambda x: (x.getstate(),), _random),
    "exception": Known(_EXCEPTIONS, _exception_parts, _exception),
    "weakref": Known((weakref.ReferenceType,), lambda x: () if x() is None else (x(),), _ref),
    "torch.Generator": Known((torch.Generator,), lambda x: (str(x.device), x.get_state()), _generator),
    "sparse": Known((), lambda x: None, _sparse),
    "sparse compressed": Known((), lambda x: None, _sparse_compressed),
    "finfo": Known(tuple(_INFOS.values()), lambda x: (type(x).__name__, _dtype(x.dtype)), lambda name, dtype: _INFOS[name](dtype)),
    "member": Known((), lambda x: None, lambda cls, value: cls(value)),  # of an enumeration, without a name of its own
    "operator": Known((type(torch.ops.aten.sin.default),), lambda x: (str(x),), _operator),
    "operators": Known((type(torch.ops.aten.sin),), lambda x: (str(x),), _operator),
}


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name)
    assert isinstance(found, torch.dtype)
    return found


# ---- numpy, where it is there ------------------------------------------------------------------------------------------------------------


def of_numpy(value: Any) -> tuple[str, Sequence[Any]] | None:
    """The row and the parts of an array, a scalar, a dtype or a random generator; None for others, and for fields that hold objects."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(value, numpy.dtype):
        told = _told(value)
        return None if told is None else ("numpy.dtype", (told,))
    if type(value) is not numpy.ndarray and not isinstance(value, numpy.generic):
        return _of_numpy_random(value)
    told = _told(value.dtype)
    if isinstance(value, numpy.generic):
        return None if told is None else ("numpy scalar", (told, value.tobytes()))
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    if value.dtype == object:
        return "numpy array of objects", (tuple(value.shape), order, value.ravel(order).tolist())
    if told is None:
        return None
    memory = torch.frombuffer(bytearray(value.tobytes(order)), dtype=torch.uint8) if value.nbytes else torch.empty(0, dtype=torch.uint8)
    return "numpy.ndarray", (told, tuple(value.shape), order, memory)


def _of_numpy_random(value: Any) -> tuple[str, Sequence[Any]] | None:
    """Of what draws random numbers the state."""
    numpy_random: Any = sys.modules.get("numpy.random")
    name = type(value).__name__
    if numpy_random is None or type(value) is not getattr(numpy_random, name, None):
        return None
    if name in _BITS:
        return "numpy.BitGenerator", (name, value.state)
    if name == "RandomState":
        return "numpy.RandomState", (value._bit_generator, value.get_state(legacy=False))  # it holds a number that it drew ahead
    return ("numpy.Generator", (value.bit_generator,)) if name == "Generator" else None


def _told(dtype: Any) -> Any:
    """What makes that dtype, None of one that holds objects or was made of fields in another way."""
    if dtype.hasobject:
        return None
    if not dtype.fields:
        return dtype.str
    told: list[Any] = dtype.descr
    return told if _numpy_dtype(told) == dtype else None


def _numpy_objects(shape: tuple[int, ...], order: Any, items: list[Any]) -> Any:
    flat = importlib.import_module("numpy").empty(len(items), dtype=object)
    for number, item in enumerate(items):
        flat[number] = item
    return flat.reshape(shape, order=order)


def _bit_generator(name: str, state: dict[str, Any]) -> Any:
    if name not in _BITS:
        raise TypeError(f"numpy.random.{name} is no generator of bits")
    made = getattr(importlib.import_module("numpy.random"), name)()
    made.state = state
    return made


def _numpy_random(name: str, bits: Any) -> Any:
    numpy_random: Any = importlib.import_module("numpy.random")
    if not isinstance(bits, numpy_random.BitGenerator):
        raise TypeError(f"{type(bits).__name__} is no generator of bits")
    return getattr(numpy_random, name)(bits)


def _random_state(bits: Any, state: dict[str, Any]) -> Any:
    made = _numpy_random("RandomState", bits)
    made.set_state(state)
    return made


def _numpy(dtype: Any, shape: tuple[int, ...], order: str, memory: torch.Tensor) -> Any:
    numpy: Any = importlib.import_module("numpy")
    data = bytearray(memory.numel())
    if data:
        torch.frombuffer(data, dtype=torch.uint8).copy_(memory)
    return numpy.ndarray(shape, _numpy_dtype(dtype), data, order=order)


def _numpy_scalar(dtype: Any, data: bytes) -> Any:
    return importlib.import_module("numpy").frombuffer(data, _numpy_dtype(dtype))[0]


def _numpy_dtype(told: Any) -> Any:
    found: Any = importlib.import_module("numpy").dtype(told)
    if found.hasobject:
        raise TypeError("a dtype with objects")
    return found


_BITS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
OF_NUMPY: dict[str, Callable[..., Any]] = {
    "numpy.dtype": _numpy_dtype,
    "numpy scalar": _numpy_scalar,
    "numpy.ndarray": _numpy,
    "numpy array of objects": _numpy_objects,
    "numpy.BitGenerator": _bit_generator,
    "numpy.Generator": functools.partial(_numpy_random, "Generator"),
    "numpy.RandomState": _random_state,
}
MAKERS: dict[str, Callable[..., Any]] = {**{name: row.make for name, row in KNOWN.items()}, **OF_NUMPY}
BY_CLASS: dict[type, str] = {cls: name for name, row in KNOWN.items() for cls in row.classes}


def described(value: Any) -> str:
    """What there is to say of a value that can't be kept, besides its class. Nothing of a program's own is asked."""
    if isinstance(value, io.TextIOWrapper | io.BufferedReader | io.BufferedWriter | io.FileIO):
        return f"the file {value.name!r}, open for {value.mode!r}" if not value.closed and isinstance(value.name, str) else ""
    if isinstance(value, types.GeneratorType | types.CoroutineType | types.AsyncGeneratorType):
        code = getattr(value, "gi_code", None) or getattr(value, "cr_code", None) or getattr(value, "ag_code", None)
        return "" if code is None else f"of {code.co_qualname}, {code.co_filename}:{code.co_firstlineno}"
    if isinstance(value, threading.Thread):
        return f"{value.name!r}"
    if isinstance(value, torch.Tensor):
        return (
            f"{str(value.layout).removeprefix('torch.')}, {str(value.dtype).removeprefix('torch.')} {list(value.shape)} on {value.device}"
        )
    return ""
