"""`torch._dynamo.comptime`: code that torch runs while it compiles, with a view into its tracer. There is no such view here.

Outside of compiled code torch does nothing either, so nothing is what all of it does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynamo.peer.installation import note


class Comptime:
    """The callable `comptime`, with its shorthands (`comptime.print_graph()`, `comptime.breakpoint()`, ...)."""

    def __call__(self, fn: Callable[[Any], Any], fallback_fn: Callable[[], Any] = lambda: None) -> Any:
        note("DN015", "torch._dynamo.comptime has no effect on this compiler")
        return fallback_fn()

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._nothing

    def _nothing(self, *args: Any, **kwargs: Any) -> None:
        note("DN015", "torch._dynamo.comptime has no effect on this compiler")


comptime = Comptime()
