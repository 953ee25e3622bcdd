"""What the tracer knows of NumPy's types. NumPy is optional, as it is for torch."""

from __future__ import annotations

from typing import Any

from dynamo.graph.numpy_calls import np

_NAMES = """
bool_ int8 int16 int32 int64 longlong intc uint8 uint16 uint32 uint64 ulonglong uintc float16 float32 float64 complex64 complex128
"""

# Types of numbers: immutable, and numbers to torch's operators. Those without a Python number of the same value are left out.
NUMBERS: tuple[type, ...] = tuple(dict.fromkeys(getattr(np, name) for name in _NAMES.split())) if np is not None else ()


# Those that torch takes for the Python number of the same value; booleans it takes for floats, short complex numbers for their real part.
_PLAIN = tuple(t for t in NUMBERS if issubclass(t, np.integer | np.floating | complex)) if np is not None else ()


def as_number(x: Any) -> Any:
    """The Python number that torch takes a NumPy number for; None where it takes it for another; anything else unchanged."""
    if type(x) in NUMBERS:
        return x.item() if type(x) in _PLAIN else None
    return x


def has_numbers(x: Any) -> bool:
    """Whether nested data has NumPy's numbers, whose dtype a tensor made of it takes over."""
    return any(has_numbers(y) for y in x) if isinstance(x, list | tuple) else type(x) in NUMBERS
