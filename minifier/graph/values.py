"""Values of inputs: from recipes, always the same for the same number; and recipes and specs from values that were seen."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from minifier.graph.ir import Graph, Input, Number, Other, Recipe, Spec, Tensor


class MissingValues(ValueError):
    """Stored values of an input are not there, or are of another layout."""


def dtype_of(spec: Tensor) -> torch.dtype:
    found = getattr(torch, spec.dtype, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"torch has no dtype {spec.dtype}")
    return found


def spec_of(value: Any) -> Spec:
    """What a value looks like."""
    if isinstance(value, torch.Tensor):
        return Tensor(tuple(value.shape), tuple(value.stride()), str(value.dtype).removeprefix("torch."), str(value.device))
    if isinstance(value, (bool, int, float)):
        return Number(value)
    return Other(type(value).__name__)


def recipe_of(value: Any) -> Recipe:
    """A recipe for values of the same kind: whole numbers in the same range, floats of the same sign."""
    if not isinstance(value, torch.Tensor) or value.numel() == 0 or value.dtype.is_complex or value.device.type == "meta":
        return Recipe()
    if value.dtype == torch.bool:
        return Recipe("randint", 0, 2)
    if value.dtype.is_floating_point:
        return Recipe("rand" if bool((value >= 0).all()) else "randn")
    low, high = value.min().item(), value.max().item()
    return Recipe("randint", int(low), int(high) + 1)


def inputs_of(graph: Graph, store: Path | None) -> dict[int, torch.Tensor]:
    """Values for the inputs of a graph. Raises MissingValues where they are stored and can't be had."""
    made: dict[int, torch.Tensor] = {}
    for i in sorted(graph.inputs, key=lambda i: i.base is not None):
        source = made[i.base] if i.base is not None else None
        made[i.id] = _made(i, store, source)
    return made


def _made(i: Input, store: Path | None, base: torch.Tensor | None) -> torch.Tensor:
    spec, dtype = i.spec, dtype_of(i.spec)
    if base is not None:
        value = torch.as_strided(base.detach(), spec.shape, spec.stride, i.offset)
    else:
        count = 1 + sum((n - 1) * s for n, s in zip(spec.shape, spec.stride, strict=True)) if all(spec.shape) else 0
        value = _flat(i, dtype, count, store).to(spec.device).as_strided(spec.shape, spec.stride)
    if i.is_attribute and i.requires_grad:
        return torch.nn.Parameter(value)
    return value.requires_grad_(i.requires_grad)


def _flat(i: Input, dtype: torch.dtype, count: int, store: Path | None) -> torch.Tensor:
    recipe, draw = i.recipe, torch.Generator().manual_seed(i.id)
    match recipe.kind:
        case "stored":
            return stored(store, recipe.key, count, dtype)
        case "ones":
            return torch.ones(count, dtype=dtype)
        case "zeros":
            return torch.zeros(count, dtype=dtype)
        case "arange":
            return torch.arange(count).to(dtype)
        case "randint":
            return torch.randint(recipe.low, max(recipe.high, recipe.low + 1), (count,), generator=draw).to(dtype)
        case "rand":
            return torch.rand(count, generator=draw).to(dtype)
        case "randn":
            if dtype.is_floating_point or dtype.is_complex:
                return torch.randn(count, generator=draw, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
            return torch.randint(0, 2, (count,), generator=draw).to(dtype)
    raise MissingValues(f"input {i.name}: no recipe {recipe.kind!r}")


def store_value(store: Path, value: torch.Tensor) -> str:
    """Write the memory of a tensor, once per content, and give its key."""
    span = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True)) if value.numel() else 0
    flat = value.detach().as_strided((span,), (1,), value.storage_offset()).cpu().contiguous()
    key = hashlib.sha256(flat.view(torch.uint8).numpy().tobytes() + str(flat.dtype).encode()).hexdigest()[:32]
    store.mkdir(parents=True, exist_ok=True)
    path = store / f"{key}.safetensors"
    if not path.exists():
        partial = path.with_suffix(".partial")
        save_file({"value": flat}, partial)
        partial.rename(path)
    return key


def stored(store: Path | None, key: str, count: int, dtype: torch.dtype) -> torch.Tensor:
    """What `store_value` wrote. Raises MissingValues."""
    if store is None or not key.isalnum():
        raise MissingValues(f"no stored values under {key!r}")
    try:
        value = load_file(store / f"{key}.safetensors")["value"]
    except (OSError, KeyError, ValueError) as e:
        raise MissingValues(f"no stored values under {key!r}: {e}") from e
    if value.dtype != dtype or value.numel() < count:
        raise MissingValues(f"stored values under {key!r} are {value.numel()} of {value.dtype}")
    return value[:count].clone()
