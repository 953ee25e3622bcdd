"""Vector math: which libm functions have SIMD forms on this machine, and the prototypes that let gcc use them.

glibc's math.h declares the SIMD forms only under -ffast-math, so generated code declares them itself. A function that
this glibc's libmvec lacks is declared without the attribute and runs one element at a time.
"""

from __future__ import annotations

import ctypes
import functools
import platform
from collections.abc import Iterable

TWO_OPERANDS = frozenset({"pow", "atan2", "hypot", "fmod", "nextafter"})
_ISA_LETTERS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {"f": ("bN4", "dN8", "eN16"), "": ("bN2", "dN4", "eN8")},
    "aarch64": {"f": ("nN4",), "": ("nN2",)},
}


@functools.cache
def _libmvec() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libmvec.so.1")
    except OSError:
        return None


@functools.cache
def has_vector_form(function: str) -> bool:
    """gcc picks the width, so every width it may pick must exist."""
    library = _libmvec()
    letters = _ISA_LETTERS.get(platform.machine())
    if library is None or letters is None:
        return False
    is_float = function.endswith("f") and function != "erf"
    base = function[:-1] if is_float else function
    operands = "vv" if base in TWO_OPERANDS else "v"
    return all(hasattr(library, f"_ZGV{isa}{operands}_{function}") for isa in letters["f" if is_float else ""])


def has_any() -> bool:
    return _libmvec() is not None


def prototypes(functions: Iterable[str]) -> str:
    """Declarations for the functions a unit uses."""
    lines = []
    for function in sorted(functions):
        if has_vector_form(function):
            is_float = function.endswith("f") and function != "erf"
            kind = "float" if is_float else "double"
            base = function[:-1] if is_float else function
            operands = ", ".join([kind] * (2 if base in TWO_OPERANDS else 1))
            lines.append(f'__attribute__((simd("notinbranch"), const, nothrow)) {kind} {function}({operands});')
    return "\n".join(lines) + "\n"
