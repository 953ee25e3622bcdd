"""Connects the C host program to libtorch: finds the C shim's functions and where a tensor object holds its handle.

Neither is promised by torch, so both are checked on real tensors; `is_connected` says no rather than guess.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import torch

from dynamo.aot.runtime import below_autograd
from inductor import _host

SHIM = (
    "aoti_torch_get_data_ptr",
    "aoti_torch_get_strides",
    "aoti_torch_empty_strided",
    "aoti_torch__reinterpret_tensor",
    "aoti_torch_delete_tensor_object",
)
WRAP = "_Z16THPVariable_WrapRKN2at10TensorBaseE"
THREADS = "_ZN2at15get_num_threadsEv"
TEAM = "GOMP_parallel"  # of the OpenMP runtime that torch uses, whose pool is the one to share


def _address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


def _handle_offset() -> int | None:
    """Where in the Python object the at::Tensor is: the only word that equals `_cdata` in several tensors."""
    samples = [torch.empty(3), torch.empty(2, 2, dtype=torch.int64), torch.nn.Parameter(torch.empty(1)), torch.empty(4, 4).t()]
    offsets = [o for o in range(16, torch.Tensor.__basicsize__ - 7, 8) if all(_host.object_word(s, o) == s._cdata for s in samples)]
    return offsets[0] if len(offsets) == 1 else None


@functools.cache
def is_connected() -> bool:
    """Whether the C host program can read the tensors of this torch; from then on it is configured."""
    folder = Path(torch.__file__).parent / "lib"
    try:
        cpu, python = ctypes.CDLL(str(folder / "libtorch_cpu.so")), ctypes.CDLL(str(folder / "libtorch_python.so"))
        shim = [_address(cpu, name) for name in SHIM]
        wrap, threads = _address(python, WRAP), _address(cpu, THREADS)
    except (OSError, AttributeError):
        return False
    offset = _handle_offset()
    if offset is None or not all((*shim, wrap, threads)):
        return False
    data_ptr, strides, empty_strided, reinterpret, delete_object = shim
    team = _address(cpu, TEAM) if hasattr(cpu, TEAM) else 0
    _host.configure(offset, data_ptr, strides, empty_strided, reinterpret, delete_object, wrap, threads, team, below_autograd)
    probe = torch.empty(8)[3:]
    return _host.data_ptr(probe) == probe.data_ptr()


@functools.cache
def dtype_number(dtype: torch.dtype) -> int:
    """The C shim's number of a dtype."""
    cpu = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    return int(getattr(cpu, f"aoti_torch_dtype_{str(dtype).removeprefix('torch.')}")())
