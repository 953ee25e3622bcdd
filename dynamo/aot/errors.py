"""What the ahead-of-time tracer refuses."""

from __future__ import annotations


class AotError(RuntimeError):
    """The graph can't be made functional; the message says which op and why."""


DOUBLE_BACKWARD = (
    "a compiled graph was differentiated twice (create_graph=True or grad of grad). Its backward is compiled too and records no "
    "history; run the part that needs second derivatives outside the compiled function"
)
