"""`torch.compiler.set_stance` for this compiler: how calls of compiled functions are treated for a while."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dynamo import _C

# Stances of the frame engine by torch's name for them (see `set_stance` in dynamo/_C.pyi).
STANCES = {"default": 0, "eager_on_recompile": 1, "force_eager": 2}
UNKNOWN = "default"


class Stance:
    """Takes effect when it is made; as a context manager until the end of the block, as a decorator during calls. Per thread."""

    def __init__(self, name: str) -> None:
        self._stance = STANCES[name]
        self._before = _C.set_stance(self._stance)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        _C.set_stance(self._before)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        _C.set_stance(self._before)

        @functools.wraps(fn)
        def with_stance(*args: Any, **kwargs: Any) -> Any:
            before = _C.set_stance(self._stance)
            try:
                return fn(*args, **kwargs)
            finally:
                _C.set_stance(before)

        return with_stance
