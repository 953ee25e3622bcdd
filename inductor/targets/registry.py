"""The targets, by torch's name of the device: one row each. A half is imported when it is first asked for."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inductor.targets.protocol import Runtime, Target

DEVICES = ("cpu",)


@functools.cache
def target(device: str) -> Target:
    """What compiles for a device. Raises KeyError for one of no row."""
    if device == "cpu":
        from inductor.targets.cpu.target import CpuTarget  # with the printer: not needed where the cache has the graph

        return CpuTarget()
    raise KeyError(device)


@functools.cache
def runtime(device: str) -> Runtime:
    """What runs on a device. Raises KeyError for one of no row."""
    if device == "cpu":
        from inductor.targets.cpu.runtime import CpuRuntime  # other devices have other libraries

        return CpuRuntime()
    raise KeyError(device)
