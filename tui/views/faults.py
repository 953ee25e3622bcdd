"""What the sanitizer found: kernel, buffer, element, where in the kernel, and the user lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynamo.trace import events as ev
from dynamo.trace.model import Run, plural, short
from tui.views.page import Page

_FORMS = {"loops": "in its loops", "triton": "in its printed text"}


@dataclass(frozen=True)
class Faults:
    """Accesses that memory does not allow, each once, and how many kernels of how many graphs were looked at."""

    graphs: int
    kernels: int
    faults: tuple[ev.MemoryFault, ...]


def view(run: Run) -> Faults:
    steps = [s for item in run.compiles.values() for s in item.steps if s.what == "kernel"]
    return Faults(len({s.graph_id for s in steps}), len(steps), tuple(run.memory_faults))


def lines(found: Faults, page: Page) -> list[str]:
    """The worst first: what leaves memory, then what meets in it."""
    count = plural(len(found.faults), "fault") if found.faults else "no faults"
    out = [page.paint(f"{count} in {plural(found.kernels, 'kernel')} of {plural(found.graphs, 'graph')}", "bold")]
    for f in sorted(found.faults, key=lambda f: f.found != "out of bounds"):
        out += ["", *_fault(f, page)]
    return out


def _fault(f: ev.MemoryFault, page: Page) -> Sequence[str]:
    what = f"element {f.index} of {f.buffer}, which has elements 0 to {f.size - 1}" if f.buffer else f"index {f.index} of {f.size}"
    return [
        page.clip(f"{page.paint(f.found, 'red')}  kernel {f.kernel} of graph {f.graph_id}, {_FORMS[f.form]}"),
        page.clip(f"  {what}"),
        page.clip(f"  {f.access}"),
        page.clip(f"  at {f.place}"),
        *(page.clip(f"  {short(line)}") for line in f.lines),
    ]
