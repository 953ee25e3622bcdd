"""What the tracer knows of NumPy's types. NumPy is optional, as it is for torch."""

from __future__ import annotations

from typing import Any

np: Any
try:
    import numpy as np
except ImportError:  # then no program has an object of these types
    np = None

_NAMES = """
bool_ int8 int16 int32 int64 longlong intc uint8 uint16 uint32 uint64 ulonglong uintc float16 float32 float64 complex64 complex128
"""

# Types of numbers: immutable, and numbers to torch's operators. Those without a Python number of the same value are left out.
NUMBERS: tuple[type, ...] = tuple(dict.fromkeys(getattr(np, name) for name in _NAMES.split())) if np is not None else ()


def as_number(x: Any) -> Any:
    """The Python number that torch takes a NumPy number for; anything else unchanged."""
    return x.item() if type(x) in NUMBERS else x
