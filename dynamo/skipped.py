"""Which files' frames are left to CPython when they are reached from broken code."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import types

import torch

# Distributions whose Python code does no tensor work of its own worth capturing.
_PACKAGES = ("numpy", "scipy", "hypothesis", "_pytest", "pluggy", "textual", "typer", "rich", "click", "IPython", "debugpy", "coverage")


@functools.cache
def _roots() -> tuple[str, ...]:
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    ours = [os.path.join(here, package) + os.sep for package in ("dynamo", "inductor", "minifier", "tui")]
    libraries = [os.path.dirname(torch.__file__) + os.sep]
    site = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    libraries += [os.path.join(base, package) + os.sep for base in site for package in _PACKAGES]
    return (*ours, *libraries, "<frozen", "<entry ", "<eval_with_key>", "<string>")


def user_place() -> tuple[str, int]:
    """File and line of the innermost calling frame that is the user's own; for warnings."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and skip_file(frame.f_code.co_filename):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("<unknown>", 0)


@functools.cache
def skip_file(filename: str) -> bool:
    """True for torch, this project, the standard library and generated code."""
    if filename.startswith(_roots()):
        return True
    stdlib = sysconfig.get_path("stdlib") + os.sep
    site = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    return (
        filename.startswith((stdlib, sys.base_prefix + os.sep + "lib"))
        and not filename.startswith(site)
        and "site-packages" not in filename
    )
