"""Element types of the loop IR, one row each, and the rules that relate them to torch dtypes."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Type:
    """`compute` is the type arithmetic happens in: half types are storage only and compute in f32."""

    name: str
    torch: torch.dtype
    size: int
    kind: str  # float, int, uint or bool
    compute: str


TYPES: dict[str, Type] = {
    t.name: t
    for t in (
        Type("f64", torch.float64, 8, "float", "f64"),
        Type("f32", torch.float32, 4, "float", "f32"),
        Type("bf16", torch.bfloat16, 2, "float", "f32"),
        Type("f16", torch.float16, 2, "float", "f32"),
        Type("i64", torch.int64, 8, "int", "i64"),
        Type("i32", torch.int32, 4, "int", "i32"),
        Type("i16", torch.int16, 2, "int", "i16"),
        Type("i8", torch.int8, 1, "int", "i8"),
        Type("u8", torch.uint8, 1, "uint", "u8"),
        Type("bool", torch.bool, 1, "bool", "bool"),
    )
}

BY_TORCH: dict[torch.dtype, str] = {t.torch: t.name for t in TYPES.values()}


def of_torch(dtype: torch.dtype) -> str:
    """The IR type of a torch dtype; KeyError for the ones that only extern calls handle (complex, quantised, ...)."""
    return BY_TORCH[dtype]


def known(dtype: torch.dtype) -> bool:
    return dtype in BY_TORCH


def compute(name: str) -> str:
    return TYPES[name].compute


def is_float(name: str) -> bool:
    return TYPES[name].kind == "float"


def is_half(name: str) -> bool:
    return TYPES[name].compute != name
