"""What compiles for a kind of device."""

from __future__ import annotations

import functools

from inductor.runtime import devices
from inductor.targets.protocol import Target


@functools.cache
def target(device: str) -> Target:
    """What compiles for a device of `inductor.runtime.devices`. Raises KeyError for one of no row."""
    return devices.made(devices.ROWS[device].target)
