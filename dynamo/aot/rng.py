"""Random ops in compiled graphs, and those that read and set the state they draw from.

Random numbers come from torch's default generators, in the order of the program, so `torch.manual_seed` makes a compiled run
reproducible. Three rules keep forward and backward in agreement: a random op is never recomputed (the partitioner saves its
result, also inside checkpointed regions); it is never removed or merged; an in-place draw (`bernoulli_`) is recorded as the
functional draw that consumes the generator the same way, in the order of the memory it goes to.

Seeding, reading and setting the state are operators here (`STATE_OPS`) that count as draws, so all of that stays in program order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from dynamo.fake.rules import RULES

_library = torch.library.Library("dynamo_debug", "FRAGMENT")
_STATE = torch.get_rng_state()


def _seed(seed: int) -> None:
    torch.manual_seed(seed)


def _integers(like: torch.Tensor, low: int, high: int | None, *, generator: torch.Generator | None = None) -> torch.Tensor:
    return torch.empty_like(like).random_(low, high, generator=generator)


def _normal_apart(like: torch.Tensor, mean: float = 0.0, std: float = 1.0, *, generator: torch.Generator | None = None) -> torch.Tensor:
    apart = torch.empty((*like.shape, 2), dtype=like.dtype, device=like.device).select(-1, 0)
    return apart.normal_(mean, std, generator=generator).clone(memory_format=torch.contiguous_format)


DEVICES = frozenset({"cuda"})  # whose generator and dropout are known here
BLOCK = 256  # threads of a block of eager's dropout
WORDS = 4  # that the generator of a GPU makes at once


def threads_of(device: torch.device, count: int) -> int:
    """How many threads eager's dropout gives a tensor of so many elements."""
    at_once = 132 * 2048  # of an H100: what graphs are made for where there is no GPU
    if device.type == "cuda" and torch.cuda.is_available():
        found = torch.cuda.get_device_properties(device)
        at_once = found.multi_processor_count * (found.max_threads_per_multi_processor // BLOCK) * BLOCK
    return min(at_once, -(-count // BLOCK) * BLOCK)


def numbers_of(count: int, threads: int) -> int:
    """How far eager's dropout moves the generator on."""
    return ((count - 1) // (threads * WORDS) + 1) * WORDS


def _philox_state(numbers: int, device: torch.device) -> torch.Tensor:
    """The seed of a GPU's generator, and how many times four numbers were drawn; `numbers` more are taken.

    While the program captures a CUDA graph of its own, the state cannot be read: then both are drawn, anew in every replay.
    """
    torch.cuda.init()
    if torch.cuda.is_current_stream_capturing():
        return torch.empty(2, dtype=torch.int64, device=device).random_()
    generator = torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
    seed, offset = generator.initial_seed(), generator.get_offset()
    generator.set_offset(offset + numbers)
    signed = seed - (1 << 64) if seed >> 63 else seed
    return torch.tensor([signed, offset // WORDS]).to(device, non_blocking=True)


# schema, what runs, what it gives while tracing
_OPERATORS: tuple[tuple[str, Callable[..., Any], Callable[..., Any]], ...] = (
    ("manual_seed(int seed) -> ()", _seed, lambda device, seed: None),
    (
        "get_rng_state() -> Tensor",
        torch.random.get_rng_state,
        lambda device: torch.empty(_STATE.shape, dtype=_STATE.dtype, device="meta"),
    ),
    ("set_rng_state(Tensor state) -> ()", torch.random.set_rng_state, lambda device, state: None),
    # aten's own is the overload `from`, which can't be written down in the Python code of a graph
    (
        "random_from(Tensor like, int low, int? high, *, Generator? generator=None) -> Tensor",
        _integers,
        lambda device, like, low, high: torch.empty_like(like),
    ),
    # into contiguous memory `normal_` draws pairs, into other memory one number after the other
    (
        "normal_apart(Tensor like, float mean=0., float std=1., *, Generator? generator=None) -> Tensor",
        _normal_apart,
        lambda device, like, *moments: torch.empty_like(like, memory_format=torch.contiguous_format),
    ),
    (
        "philox_state(int numbers, Device device) -> Tensor",
        _philox_state,
        lambda device, numbers, own: torch.empty(2, dtype=torch.int64, device="meta"),
    ),
)


def _declare(schema: str, run: Callable[..., Any], rule: Callable[..., Any]) -> None:
    name = schema.partition("(")[0]
    _library.define(schema, tags=(torch.Tag.nondeterministic_seeded,))
    _library.impl(name, run, "CompositeExplicitAutograd")
    RULES[getattr(torch.ops.dynamo_debug, name).default] = rule


for _row in _OPERATORS:
    _declare(*_row)

PHILOX_STATE = torch.ops.dynamo_debug.philox_state.default

# function of the program -> operator that takes the same arguments
STATE_OPS: dict[Callable[..., Any], Any] = {
    torch.random.manual_seed: torch.ops.dynamo_debug.manual_seed.default,
    torch.random.get_rng_state: torch.ops.dynamo_debug.get_rng_state.default,
    torch.random.set_rng_state: torch.ops.dynamo_debug.set_rng_state.default,
}


def draw(emit: Callable[..., Any], op: Any, form: Any, target: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record an in-place draw as its functional form, over nodes. It fills `target` in the order of its memory, not of its dims."""
    if target.is_contiguous():
        return emit(form, *args, **kwargs)
    strides = target.stride()
    if op is torch.ops.aten.normal_.default:
        form = torch.ops.dynamo_debug.normal_apart.default
    order = sorted(range(target.dim()), key=lambda d: -strides[d])
    if order == list(range(target.dim())):
        return emit(form, *args, **kwargs)

    def turned(value: Any) -> Any:
        if not isinstance(value, Node):
            return value
        if value.meta["val"].shape != target.shape:
            value = emit(torch.ops.aten.expand.default, value, list(target.shape))
        return emit(torch.ops.aten.permute.default, value, order)

    drawn = emit(form, *map(turned, args), **kwargs)
    return emit(torch.ops.aten.permute.default, drawn, [order.index(d) for d in range(target.dim())])
