"""Why a graph cannot be captured as a CUDA graph: the table of reasons, and those that an ATen graph itself shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo.ops.facts import is_random
from dynamo.trace import emit
from dynamo.trace.events import Note
from inductor.runtime.recipe import Capture

REASONS = {
    "DI030": "{0} is on the processor, and a graph has the work of one GPU only",
    "DI031": "{0} waits for the device to decide what comes next",
    "DI032": "{0} acts on the state of random numbers on the processor",
    "DI033": "the graph runs uncompiled",
    "DI034": "it writes to inputs that are at other addresses in almost every call: {0}",
    "DI035": "its inputs or results are at other addresses in almost every call",
    "DI036": "the device refused to capture it: {0}",
    "DI037": "there was no memory left to capture it: {0}",
    "DI038": "it cannot be replayed here: {0}",
}
ON_PROCESSOR, WAITS, SETS_RANDOM_STATE, UNCOMPILED, WRITES_ELSEWHERE, MOVES, NOT_CAPTURED, NO_MEMORY, NO_REPLAY = REASONS

GPU = "cuda"

# Operators that a capture refuses although no tag says so.
WAITING = frozenset({"aten._local_scalar_dense", "aten.item", "aten.equal", "aten.is_nonzero", "dynamo_regions.run_branch"})
TAGS = frozenset({torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output, torch.Tag.cudagraph_unsafe})
# Operators of ours that draw on the device, by torch's generator, as ATen's do.
DRAWING = frozenset({"dynamo_debug.random_from", "dynamo_debug.normal_apart"})


@dataclass(frozen=True)
class Refusal:
    """Why a graph is launched step by step: a row of `REASONS` with its words, and the user line it is about ('': none)."""

    id: str
    what: str = ""
    place: str = ""

    def note(self) -> None:
        """Tell the record, once for each graph."""
        at = f" at {self.place}" if self.place else ""
        emit(Note(self.id, f"not captured as a CUDA graph: the graph{at}: {REASONS[self.id].format(self.what)}", "info"))


def capture_of(gm: GraphModule) -> Capture:
    """What the recipe of an ATen graph says about its capture, which was asked for."""
    found = refusal_of(gm)
    return Capture(place_of(gm)) if found is None else Capture(found.place or place_of(gm), found.id, found.what)


def refusal_of(gm: GraphModule) -> Refusal | None:
    """The first thing in a graph that no capture can hold."""
    for node in gm.graph.nodes:
        for value in values_of(node):
            if value.device.type != GPU:
                return Refusal(ON_PROCESSOR, name_of(node), line_of(node) or reader_line(node))
        if node.op == "call_function" and (reason := operator_reason(node.target)):
            return Refusal(reason, name_of(node), line_of(node))
    return None


def operator_reason(op: Any) -> str:
    """The id of what an operator does that cannot be captured; '' for nothing."""
    name = ".".join(str(op).split(".")[:2])
    if name in WAITING or TAGS.intersection(getattr(op, "tags", ())):
        return WAITS
    if name.startswith("dynamo_debug.") and is_random(op) and name not in DRAWING:
        return SETS_RANDOM_STATE
    return ""


def values_of(node: Node) -> list[torch.Tensor]:
    found = node.meta.get("val")
    return [v for v in (found if isinstance(found, (list, tuple)) else (found,)) if isinstance(v, torch.Tensor)]


def name_of(node: Node) -> str:
    return node.name if node.op in ("placeholder", "get_attr") else str(node.target).removeprefix("aten.").partition(".")[0]


def line_of(node: Node) -> str:
    file, line = (*node.meta.get("source", ("", 0)),)[:2]
    return f"{file}:{line}" if file else ""


def reader_line(node: Node) -> str:
    return next((place for user in node.users if (place := line_of(user))), "")


def place_of(gm: GraphModule) -> str:
    """The first user line of a graph."""
    return next((place for node in gm.graph.nodes if (place := line_of(node))), "")
