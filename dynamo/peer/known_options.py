"""Options of torch's inductor backend: which there are, and which a script has set that mean nothing here."""

from __future__ import annotations

import builtins
import difflib
import sys
from typing import Any

from dynamo import config
from dynamo.peer.installation import note
from dynamo.peer.survey import surface

_CONFIG = "torch._inductor.config"
# Options of this compiler's own `options=`, and what torch spells in another way.
_OURS = frozenset({"fuel", "trace"})


def check(options: dict[str, Any]) -> None:
    """RuntimeError for a key or the type of a value that torch refuses, named with the nearest one there is."""
    known = surface()["options"][_CONFIG]
    for key, value in options.items():
        name = key.replace("-", "_")
        if name in _OURS:
            continue
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else "torch._inductor.list_options() names all"
            raise RuntimeError(f"unexpected optimization option {key}; {hint}")
        kind = getattr(builtins, known[name], None)
        if isinstance(kind, type) and not isinstance(value, kind):
            raise RuntimeError(f"unexpected type of option {key}: got {type(value).__name__}, should be {known[name]}")


def note_changes() -> None:
    """What the script has set in `torch._inductor.config`, if it loaded that: set here where we have it, noted where not."""
    module: Any = sys.modules.get(_CONFIG)
    if module is None:
        return
    for name, entry in vars(module).get("_config", {}).items():
        value = getattr(entry, "user_override", None)
        if not isinstance(value, bool | int | float | str) or value == getattr(entry, "default", None):
            continue
        if name in _HERE:
            setattr(config, name, value)
        else:
            note("DN012", f"{_CONFIG}.{name} has no effect in this compiler")


_HERE = frozenset({"force_disable_caches", "freezing", "triton.cudagraphs"})
