"""Interface of the C host program (`inductor/csrc`)."""

from collections.abc import Callable, Sequence
from typing import Any, final

# A step is one of
#   (KERNEL, address, release[, work])                          run a kernel, without the interpreter lock if `release`
#   (CALL, function, args, slots of the results, single)        Refs and Builds in `args` stand for tensors; slot -1 drops a result
#   (EMPTY, slot, sizes, strides, dtype number[, huge])         a new tensor; `huge` are bytes worth huge pages, or 0
#   (VIEW, slot, slot of the base, sizes, strides, offset)
#   (DROP, slot)                                                nothing reads it again
#   (LAUNCH, name, function, bytes of shared memory, grid, threads, slots of the buffers, numbers, maker)   a kernel on a GPU
#       `maker` gives (function, bytes of shared memory) of the form for a mask of the buffers that begin at no multiple of 16 bytes
#   (CHECK,)                                                    fail here if something was refused: what follows is seen by others
# A device is (type, index) as torch numbers them, and on a GPU also (context, address of the flag for indices or 0, function from an
# index to torch's current stream there).
# A layout is (sizes, strides, dtype number, bytes of an element, number of elements or 0 where there are gaps between them).

@final
class Program:
    """Steps over numbered slots; call it with the list of inputs."""

    lays_out_inputs: bool
    is_below_autograd: bool
    def __init__(
        self,
        n_slots: int,
        inputs: tuple[int, ...],
        steps: tuple[tuple[Any, ...], ...],
        outputs: tuple[int, ...],
        output_values: tuple[Any, ...],
        constants: tuple[Any, ...],
        constant_slots: tuple[int, ...],
        temp_slots: tuple[int, ...],
        temp_offsets: tuple[int, ...],
        arena_slots: tuple[int, ...],
        expected: tuple[tuple[Any, ...] | None, ...],
        arena_bytes: int,
        make_base: Callable[[int], Any] | None,
        make_views: Callable[[Any], tuple[Any, ...]] | None,
        restride: Callable[[int, Any], Any],
        owns_inputs: bool,
        device: tuple[Any, ...],
        keep: object,
        /,
    ) -> None: ...
    def __call__(self, inputs: Sequence[Any], /) -> tuple[Any, ...]: ...

@final
class Ref:
    """Stands for the tensor of a slot in the arguments of a call."""

    def __init__(self, slot: int, /) -> None: ...

@final
class Build:
    """Stands for a list or tuple that has Refs inside."""

    def __init__(self, items: tuple[Any, ...], is_list: bool, /) -> None: ...

def set_team_work(work: tuple[int, ...], /) -> None:
    """Work from which on a kernel is shared among a team of 0, 1, 2, ... 256 threads."""

def configure(
    handle_offset: int,
    data_ptr: int,
    strides: int,
    empty_strided: int,
    reinterpret: int,
    delete_object: int,
    wrap: int,
    threads: int,
    team: int,
    guard: Callable[[], Any],
    /,
) -> None:
    """Where a tensor object has its handle, the addresses of libtorch functions and of GOMP_parallel (0: none), and what makes the context
    that calls run in."""

def data_ptr(tensor: Any, /) -> int:
    """Data pointer of a tensor, read as programs read it."""

def fingerprint(tensors: tuple[Any, ...], sizes: tuple[int, ...], /) -> bytes:
    """16 bytes that tell the contents of tensors apart; `sizes` are bytes of each."""

def keep_freed_memory() -> None:
    """Raise the threshold from which on glibc gives freed memory back to the kernel, to 64 MB."""

def object_word(obj: object, offset: int, /) -> int:
    """Eight bytes of an object at an offset."""

# the CUDA driver (driver.c)

def open_driver(path: str, /) -> int:
    """Find the CUDA driver; its version, 13010 for 13.1. Raises OSError where there is none and RuntimeError where it has no device."""

def device_context(index: int, /) -> int:
    """The context that torch uses on a device."""

def load_kernel(image: bytes, name: str, shared: int, context: int, device: int, /) -> tuple[int, int, int, int]:
    """(function, registers, bytes of spills, most threads of a block) of a compiled kernel. Raises RuntimeError."""

# captured graphs (graphs.c)

# A row of an input is (kind, address, buffer that is copied to, bytes, strides that callers may have others of, or None), one of a result
# (tensor over its whole storage, the storage, bytes, elements, dtype number, whether it is copied out), one of an output (kind, number of
# the result or input, sizes, strides, offset, what is returned in every call or True for the input itself). Kinds are those of
# inductor/runtime/graphs.py.

@final
class Pool:
    """Graphs that share memory. Its length: how many results they have."""

    def __init__(self, device_type: int, device_index: int, context: int, stream_of: Callable[[int], int], unused: int, /) -> None: ...
    def __len__(self) -> int: ...
    def owns(self, storage: int, /) -> bool: ...

@final
class Recording:
    """A captured graph."""

    kept: tuple[bool, ...]
    def __init__(
        self,
        pool: Pool,
        keep: object,
        executable: int,
        replay: Callable[[], Any] | None,
        copy: Callable[[list[Any], list[Any]], Any] | None,
        inputs: tuple[tuple[Any, ...], ...],
        results: tuple[tuple[Any, ...], ...],
        outputs: tuple[tuple[Any, ...], ...],
        /,
    ) -> None: ...
    def replay(self, inputs: list[Any], /) -> tuple[Any, ...] | None: ...
    def moved(self, inputs: list[Any], /) -> list[int]: ...

@final
class Graphed:
    """A program whose recordings are replayed where one fits."""

    lays_out_inputs: bool
    is_below_autograd: bool
    def __init__(
        self,
        program: Callable[[Sequence[Any]], Any],
        pool: Pool,
        recordings: list[Recording],
        otherwise: Callable[[Sequence[Any], Recording | None], tuple[Any, ...]],
        owns_inputs: bool,
        is_below_autograd: bool,
        lays_out_inputs: bool,
        /,
    ) -> None: ...
    def __call__(self, inputs: Sequence[Any], /) -> tuple[Any, ...]: ...

def storage_uses(storage: int, /) -> int:
    """The reference count of a storage, by its address."""
