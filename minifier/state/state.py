"""The state as a value."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import torch

from minifier.state.flags import FLAGS

_DEVICES = ("cpu", "cuda")
_BY_NAME = {flag.name: flag for flag in FLAGS}


@dataclass(frozen=True)
class State:
    """What a call ran under. `flags` holds those rows of FLAGS that a new process has otherwise.

    `autocast` has a device and a dtype for each that is on. `threads` 0: as many as torch takes. `seed` is given to `torch.manual_seed`.
    """

    grad: bool = True
    inference: bool = False
    autocast: tuple[tuple[str, str], ...] = ()
    seed: int = 0
    threads: int = 1
    flags: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> State:
        """Raises TypeError, ValueError or KeyError for data that `asdict` did not make."""
        unknown = set(data["flags"]) - set(_BY_NAME)
        if unknown:
            raise ValueError(f"no flag {min(unknown)!r}")
        return cls(**{**data, "autocast": tuple((str(device), str(dtype)) for device, dtype in data["autocast"])})

    def lines(self) -> list[str]:
        """What a script writes to set flags, threads and seed."""
        set_flags = [_BY_NAME[name].line.format(value=repr(value)) for name, value in self.flags.items()]
        return [*([f"torch.set_num_threads({self.threads})"] if self.threads else []), *set_flags, f"torch.manual_seed({self.seed})"]

    def contexts(self) -> list[str]:
        """What a script writes after `with`: grad mode and autocast."""
        grad = "torch.inference_mode()" if self.inference else f"torch.set_grad_enabled({self.grad})"
        return [grad, *(f'torch.autocast("{device}", dtype=torch.{dtype})' for device, dtype in self.autocast)]


def captured(seed: int | None = None) -> State:
    """The state now. `seed` is the one the program's random numbers began with, if not the last it gave to `torch.manual_seed`."""
    flags = {f.name: value for f in FLAGS if (value := f.value()) != f.plain}
    on = tuple(
        (device, str(torch.get_autocast_dtype(device)).removeprefix("torch."))
        for device in _DEVICES
        if torch.is_autocast_enabled(device)
    )
    begun = torch.initial_seed() if seed is None else seed
    return State(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), on, begun, torch.get_num_threads(), flags)


@contextlib.contextmanager
def applied(state: State) -> Iterator[None]:
    """Run a block under a state; flags, modes and threads are put back, the random numbers are not."""
    before = captured()
    with contextlib.ExitStack() as stack:
        stack.callback(_write, before)
        _write(state)
        torch.manual_seed(state.seed)
        stack.enter_context(torch.inference_mode() if state.inference else torch.set_grad_enabled(state.grad))
        for device in _DEVICES:
            dtype = dict(state.autocast).get(device)
            if dtype is not None or torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, getattr(torch, dtype or "float16"), enabled=dtype is not None))
        yield


def _write(state: State) -> None:
    for flag in FLAGS:
        value = state.flags.get(flag.name, flag.plain)
        if flag.value() != value:
            flag.write(value)
    if state.threads and state.threads != torch.get_num_threads():
        torch.set_num_threads(state.threads)


def versions() -> dict[str, str]:
    """Versions of what a failure depends on, and the machine."""
    found = {"python": platform.python_version()}
    for name in ("torch", "triton", "dynamo-debug"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return {**found, "machine": f"{platform.system()} {platform.machine()}"}
