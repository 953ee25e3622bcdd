"""What commands that show one view never read of a record, by kind of event: large records open faster without."""

from __future__ import annotations

from dynamo.trace.record import LATER_NODES

_TEXTS = ("code_generated",)
UNREAD: dict[str, tuple[str, ...]] = {
    "graphs": (*_TEXTS, "decided", "step_scheduled", "kernel_loaded", "stage_timed"),
    "guards": (*_TEXTS, LATER_NODES, "decided", "step_scheduled", "kernel_loaded", "stage_timed"),
    "breaks": (*_TEXTS, LATER_NODES, "decided", "step_scheduled", "kernel_loaded", "stage_timed", "guard_installed"),
    "recompiles": (*_TEXTS, LATER_NODES, "decided", "step_scheduled", "kernel_loaded", "stage_timed", "guard_installed"),
    "kernels": (LATER_NODES, "decided", "stage_timed", "guard_installed"),
    "passes": (*_TEXTS, "step_scheduled", "kernel_loaded", "stage_timed", "guard_installed"),
    "timeline": (*_TEXTS, LATER_NODES, "decided", "step_scheduled", "kernel_loaded", "guard_installed"),
}
# Nor what only the JSON of a view shows.
UNREAD_BY_TEXT: dict[str, tuple[str, ...]] = {"graphs": (LATER_NODES,)}
UNREAD_BY_COMPARE = (*_TEXTS, "decided")
