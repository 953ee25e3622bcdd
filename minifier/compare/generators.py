"""The states of torch's default generators: of the processor, and of every GPU once this process has used one."""

from __future__ import annotations

from collections.abc import Sequence

import torch

States = tuple[torch.Tensor, ...]


def states() -> States:
    """The processor's, then those of the GPUs."""
    gpus: list[torch.Tensor] = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return (torch.get_rng_state(), *gpus)


def put_back(kept: States) -> None:
    torch.set_rng_state(kept[0])
    if len(kept) > 1:
        torch.cuda.set_rng_state_all(kept[1:])


def seeded(seed: int) -> States:
    """What `states` gives after `torch.manual_seed(seed)`."""
    count = torch.cuda.device_count() if torch.cuda.is_initialized() else 0
    devices = ("cpu", *(f"cuda:{k}" for k in range(count)))
    return tuple(torch.Generator(d).manual_seed(seed).get_state() for d in devices)


def are_equal(one: States, other: States) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))


def devices_of(values: Sequence[object]) -> tuple[torch.device, ...]:
    """Where the tensors among some values are; the processor where there are none."""
    return tuple(dict.fromkeys(v.device for v in values if isinstance(v, torch.Tensor))) or (torch.device("cpu"),)
