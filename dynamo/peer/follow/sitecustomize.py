"""Runs at the start of every Python process that a followed script starts: its folder is first in their PYTHONPATH.

It waits until the process imports torch and does then what is asked; one that never does pays for this file alone. A `sitecustomize` of
the user's own runs too.
"""

import importlib.util
import json
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_OURS = ("dynamo", "inductor")


class _Waiting:
    """A finder that finds nothing and hears of the import of torch."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname == "torch":
            sys.meta_path.remove(self)
            _follow(self.request)
            return importlib.util.find_spec(fullname)
        return None


def _follow(request: dict[str, Any]) -> None:
    root, pid = request["root"], request["pid"]
    if pid == os.getpid() and "dynamo.trace.store" in sys.modules:
        return  # the script's own process, unless that began anew with `os.exec*`
    theirs = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in _OURS and not _is_ours(name, root)}
    module, _, function = request["begin"].partition(":")
    sys.path.insert(0, root)
    try:
        following = importlib.import_module("dynamo.peer.following")
        importlib.import_module("inductor")
        begin = getattr(importlib.import_module(module), function)
    finally:
        sys.path.remove(root)
    begin(request)
    following.step_aside(root, theirs)


def _is_ours(name: str, root: str) -> bool:
    """Whether a loaded module is of this installation: the process may use it by its name."""
    return str(getattr(sys.modules[name], "__file__", "")).startswith(root + os.sep)


def _next_sitecustomize() -> None:
    """The one that this file hides."""
    paths = [path for path in sys.path if os.path.abspath(path) != _HERE]
    spec = PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if "DYNAMO_DEBUG_FOLLOW" in os.environ:
    sys.meta_path.insert(0, _Waiting(json.loads(os.environ["DYNAMO_DEBUG_FOLLOW"])))
_next_sitecustomize()
