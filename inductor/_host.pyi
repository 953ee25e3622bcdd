"""The C host program (`inductor/csrc/host.c`)."""

from collections.abc import Sequence
from typing import Any

class Program:
    """Steps over numbered slots; call it with the list of inputs."""

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
        expected_strides: tuple[tuple[int, ...] | None, ...],
        make_arena: Any,
        restride: Any,
        keep: Any,
    ) -> None: ...
    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]: ...

class Ref:
    """Stands for the tensor of a slot in the arguments of a call."""

    def __init__(self, slot: int) -> None: ...

class Build:
    """Stands for a list or tuple that has Refs inside."""

    def __init__(self, items: tuple[Any, ...], is_list: bool) -> None: ...

def set_team_work(work: tuple[int, ...]) -> None:
    """Work from which on a kernel is shared among a team of 0, 1, 2, ... 256 threads."""

def configure(handle_offset: int, *addresses_then_guard: Any) -> None:
    """Set the addresses of libtorch functions."""

def data_ptr(tensor: Any) -> int:
    """Data pointer of a tensor, read as programs read it."""

def fingerprint(tensors: tuple[Any, ...], sizes: tuple[int, ...]) -> bytes:
    """16 bytes that tell the contents of tensors apart; `sizes` are bytes of each."""

def keep_freed_memory() -> None:
    """Raise the threshold from which on glibc gives freed memory back to the kernel, to 64 MB."""

def object_word(obj: object, offset: int) -> int:
    """Eight bytes of an object at an offset."""
