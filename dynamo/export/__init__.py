"""Export: one graph of a function for these inputs, callable as the function is; a graph break is an error.

    gm, guards = dynamo.export(f, x, {"y": y})        # or dynamo.export(f)(x, {"y": y})
    dynamo.export.save(gm, "f.dd")
    dynamo.export.load("f.dd")(x, {"y": y})

The module is the function too: `dynamo.export` has both uses.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from dynamo.export.calling import ExportResult
from dynamo.export.exporting import export
from dynamo.export.facts import (
    ArgumentError,
    Call,
    ExportError,
    Guard,
    LoadError,
    SaveError,
    VocabularyError,
)
from dynamo.export.store import load, save

__all__ = [
    "ArgumentError",
    "Call",
    "ExportError",
    "ExportResult",
    "Guard",
    "LoadError",
    "SaveError",
    "VocabularyError",
    "export",
    "load",
    "save",
    "to_exported_program",
]


def to_exported_program(exported: Any) -> Any:
    """The export as a `torch.export.ExportedProgram`: see `dynamo.export.handover`."""
    from dynamo.export.handover import to_exported_program as make  # noqa: PLC0415  # loads torch.export, and with it torch's own compiler

    return make(exported)


class Exporter(types.ModuleType):
    """This module, callable. Importing a submodule sets `dynamo.export` to the module, and `dynamo.export(f, x)` must stay a call."""

    export = staticmethod(export)
    save = staticmethod(save)
    load = staticmethod(load)
    to_exported_program = staticmethod(to_exported_program)

    def __call__(self, f: Any, /, *args: Any, **kwargs: Any) -> Any:
        return export(f, *args, **kwargs)


sys.modules[__name__].__class__ = Exporter
