"""Whose code asks for a name of torch's compiler: the script, a library, or torch itself."""

from __future__ import annotations

import sysconfig
from enum import Enum, auto
from types import FrameType

# Parts of torch that belong to its compiler: they get torch's own modules whatever they ask for.
_PEER_PARTS = (
    "torch._dynamo",
    "torch._inductor",
    "torch._functorch",
    "torch._subclasses",
    "torch.export",
    "torch._export",
    "torch.fx.experimental",
)
# Operators of torch that compile what they are given before they run it in eager. No user asked for a compiler there.
_COMPILES_FOR_ITSELF = ("torch._higher_order_ops", "torch.nn.attention.flex_attention", "torch.utils._python_dispatch")
_MACHINERY = ("dynamo.peer.", "importlib")
_LIBRARIES = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})


class Asker(Enum):
    """Who asks for a name of torch's compiler. Only scripts are told what has no effect; libraries get torch's own without a word."""

    SCRIPT = auto()
    LIBRARY = auto()
    PEER = auto()


def _outer(frame: FrameType | None) -> FrameType | None:
    """The first frame that is neither of the import machinery nor of this package."""
    while frame is not None:
        name, file = str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename
        if not name.startswith(_MACHINERY) and not file.startswith("<frozen importlib"):
            return frame
        frame = frame.f_back
    return None


def asker(frame: FrameType | None) -> Asker:
    """Whose code `frame` is, or was called from."""
    found = _outer(frame)
    if found is None:
        return Asker.SCRIPT
    name, file = str(found.f_globals.get("__name__", "")), found.f_code.co_filename
    if name.startswith(_PEER_PARTS):
        return Asker.PEER
    if name == "torch" or name.startswith("torch.") or file.startswith(_LIBRARIES):
        return Asker.LIBRARY
    return Asker.SCRIPT


def is_torchs_own(frame: FrameType | None) -> bool:
    """Whether an operator of torch asks for a compiler on its own account."""
    found = _outer(frame)
    return found is not None and str(found.f_globals.get("__name__", "")).startswith((*_PEER_PARTS, *_COMPILES_FOR_ITSELF))
