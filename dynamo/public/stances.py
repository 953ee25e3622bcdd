"""`torch.compiler.set_stance` for this compiler: how calls of compiled functions are treated for a while."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dynamo import _C
from dynamo.compile.wanted import want_compiles

# By torch's name: the stance of the frame engine (see `set_stance` in dynamo/_C.pyi), and whether a call may compile.
STANCES = {"default": (0, True), "eager_on_recompile": (1, True), "fail_on_recompile": (0, False), "force_eager": (2, True)}
UNKNOWN = "default"


def _take(stance: tuple[int, bool]) -> tuple[int, bool]:
    """Takes effect at once; what it was before."""
    return _C.set_stance(stance[0]), want_compiles(stance[1])


class Stance:
    """Takes effect when it is made; as a context manager until the end of the block, as a decorator during calls. Per thread."""

    def __init__(self, name: str) -> None:
        self._stance = STANCES[name]
        self._before = _take(self._stance)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        _take(self._before)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        _take(self._before)

        @functools.wraps(fn)
        def with_stance(*args: Any, **kwargs: Any) -> Any:
            before = _take(self._stance)
            try:
                return fn(*args, **kwargs)
            finally:
                _take(before)

        return with_stance
