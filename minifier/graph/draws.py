"""Random numbers that are the same in a run with wider types: they are drawn in the type of the run that is compared with."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map

from dynamo.ops.facts import is_random
from minifier.compare.modes import EagerMode


class DrawnAs(EagerMode):
    """Operators that draw random numbers for float64 draw them as for `dtype`: a generator gives other numbers for other types."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not is_random(func):
            return func(*args, **kwargs)
        narrow: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

        def narrowed(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.dtype is torch.float64:
                narrow[id(value)] = value, value.to(self.dtype)
                return narrow[id(value)][1]
            return value

        drawn = func(*tree_map(narrowed, args), **tree_map(narrowed, kwargs))
        written = {id(small): wide for wide, small in narrow.values()}

        def widened(value: Any) -> Any:
            if id(value) in written:  # drawn in place
                return written[id(value)].copy_(value)
            return value.to(torch.float64) if narrow and isinstance(value, torch.Tensor) and value.dtype is self.dtype else value

        return tree_map(widened, drawn)
