"""Which names of torch's compiler scripts can touch in the installed torch: `python -m dynamo.peer.survey > dynamo/peer/surface.json`.

The result is data of this package. `tests/adapter/test_surface.py` makes it again and compares, so that a newer torch shows what it added.
"""

from __future__ import annotations

import importlib
import json
import sys
import typing
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

_SURFACE = Path(__file__).with_name("surface.json")

# Modules whose names scripts, notebooks and tests of users import. Of the rest scripts get torch's own.
MODULES = (
    "torch._dynamo",
    "torch._dynamo.backends.registry",
    "torch._dynamo.callback",
    "torch._dynamo.comptime",
    "torch._dynamo.decorators",
    "torch._dynamo.eval_frame",
    "torch._dynamo.exc",
    "torch._dynamo.testing",
    "torch._dynamo.utils",
    "torch._inductor",
    "torch._inductor.utils",
    "torch._logging",
    "torch.compiler",
)
CONFIGS = ("torch._dynamo.config", "torch._inductor.config", "torch.compiler.config")


@cache
def surface() -> dict[str, Any]:
    """The committed survey: `torch` (version), `names` (module to names), `options` (config module to option to the name of its type)."""
    value: dict[str, Any] = json.loads(_SURFACE.read_text())
    return value


def survey() -> dict[str, Any]:
    """The same of the torch that is installed. Loads torch's own compiler."""
    torch = importlib.import_module("torch")
    return {
        "torch": ".".join(torch.__version__.split(".")[:2]),
        "names": {name: public_names(importlib.import_module(name)) for name in MODULES},
        "options": {name: _options(importlib.import_module(name)) for name in CONFIGS},
    }


def public_names(module: ModuleType) -> list[str]:
    """What `module` offers: its `__all__`, and what is defined in it without an underscore."""
    offered = set(getattr(module, "__all__", ()))
    for name, value in vars(module).items():
        imported = isinstance(value, ModuleType) or getattr(value, "__module__", module.__name__) != module.__name__
        if not name.startswith("_") and not imported and name not in ("annotations", "TYPE_CHECKING"):
            offered.add(name)
    return sorted(offered)


def _options(module: Any) -> dict[str, str]:
    return {name: _type_name(module.get_type(name)) for name in sorted(module.get_config_copy())}


def _type_name(kind: Any) -> str:
    """'' where torch checks nothing either."""
    return kind.__name__ if typing.get_origin(kind) is None and isinstance(kind, type) else ""


if __name__ == "__main__":
    json.dump(survey(), sys.stdout, indent=1, sort_keys=True)
    print()
