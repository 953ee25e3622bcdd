"""`dynamo-debug sanitize`: from a reported illegal memory access to the kernel, the element and the line."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from dynamo import config
from dynamo.trace import codec
from tui import options
from tui.child import Request
from tui.commands.views import envelope
from tui.console import page, put_json, put_lines
from tui.errors import CliError
from tui.exits import Exit
from tui.runs import run_or_open
from tui.views import faults
from tui.views.page import Page

BACKEND = "sanitizer"
_TARGETS = ("", "cpu", "cuda")

Kernels = Annotated[
    str,
    typer.Option(
        help="Check the kernels for `cpu` or `cuda`, wherever tensors are; without it those for their device.", show_default=False
    ),
]
Calls = Annotated[int, typer.Option(help="Calls of each graph that are checked; later ones run in eager.", min=1)]


def sanitize(
    script: options.Script,
    args: options.Args = None,
    kernels: Kernels = "",
    calls: Calls = config.sanitizer_calls,
    internals: options.Internals = False,
    python: options.Python = None,
    full: options.Full = False,
    as_json: options.AsJson = False,
) -> int:
    """Run SCRIPT with its kernels in interpreters that check every access, and name what is out of bounds, raced for or never written.

    Nothing of ours is launched on a GPU, so a script that ends with an illegal memory access goes on to its end here.

    Example: dynamo-debug sanitize train.py
    """
    if kernels not in _TARGETS:
        raise CliError("CL013", f"--kernels {kernels}: unknown; it is {' or '.join(_TARGETS[1:])}")
    given = {"DYNAMO_SANITIZER_KERNELS": kernels, "DYNAMO_SANITIZER_CALLS": str(calls)}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        outcome = run_or_open(Request(script, options.given(args), backend=BACKEND, internals=internals, python=tuple(python or ())), ())
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    found = faults.view(outcome.run)
    if as_json:
        put_json({**envelope(outcome.run), **codec.members(found), "faults": [codec.fields(f) for f in found.faults]})
    else:
        shown = page()
        put_lines(faults.lines(found, Page(shown.width, shown.colour, full)))
    return Exit.FINDING if found.faults else outcome.code
