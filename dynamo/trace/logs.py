"""Artefacts on stderr: `DYNAMO_LOGS=output_code,fusion`. One row per name; the names are those of torch's `TORCH_LOGS` where it has one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from dynamo.trace import events as ev
from dynamo.trace.events import Event
from dynamo.trace.rows import id_of, lines_of


@dataclass(frozen=True)
class Log:
    """One name, what it prints, and which events are meant."""

    name: str
    doc: str
    wants: Callable[[Event], bool]


def _graph(*endings: str) -> Callable[[Event], bool]:
    return lambda e: isinstance(e, ev.GraphCaptured) and e.graph_id.endswith(endings)


def _code(*endings: str) -> Callable[[Event], bool]:
    return lambda e: isinstance(e, ev.CodeGenerated) and e.name.endswith(endings)


def _kind(*kinds: type[Event]) -> Callable[[Event], bool]:
    return lambda e: isinstance(e, kinds)


def _decided(*stages: str) -> Callable[[Event], bool]:
    return lambda e: isinstance(e, ev.Decided) and (not stages or e.stage in stages)


LOGS: tuple[Log, ...] = (
    Log("bytecode", "the code object before it is captured", _code("bytecode")),
    Log("graph_code", "graphs as they were captured", lambda e: isinstance(e, ev.GraphCaptured) and e.stage == "capture"),
    Log("graph_breaks", "where graphs broke and why", _kind(ev.GraphBroke)),
    Log("guards", "what compiled code relies on", _kind(ev.GuardInstalled)),
    Log("recompiles", "why a compiled function was compiled again, or could not be", _kind(ev.Recompiled, ev.LimitHit, ev.FrozenMiss)),
    Log("cache", "what the cache on disk had, and why not", _kind(ev.CacheLooked)),
    Log("aot", "joint, forward and backward ATen graphs", _graph(".aot", ".fw", ".bw")),
    Log("aot_joint_graph", "the joint forward and backward graph", _graph(".aot")),
    Log("aot_graphs", "the forward and the backward graph", _graph(".fw", ".bw")),
    Log("post_grad_graphs", "ATen graphs after the graph passes", _graph(".passes")),
    Log("lowering", "how each operator becomes code", _kind(ev.GraphLowered)),
    Log("ir_pre_fusion", "loop IR before fusion", _code(".lowered")),
    Log("ir_post_fusion", "loop IR after fusion", _code(".fused")),
    Log("fusion", "what was fused, what was not, and why", _decided("fuse")),
    Log("decisions", "every optional step of the compiler, taken or refused", _decided()),
    Log("schedule", "kernels and operator calls in order, with their buffers", _kind(ev.StepScheduled)),
    Log("kernels", "what kernels need of a GPU, and how long they take", _kind(ev.KernelLoaded)),
    Log("output_code", "generated C and the host program", _code(".c", ".py")),
    Log("kernel_code", "generated C", _code(".c")),
    Log("stages", "how long each stage took", _kind(ev.StageTimed)),
)
BY_NAME: dict[str, Log] = {log.name: log for log in LOGS}
ALL, HELP = "all", "help"


def parse(text: str) -> str:
    """The value of `DYNAMO_LOGS`, checked. Names may have torch's `+` in front."""
    for name in names(text):
        if name not in BY_NAME and name not in (ALL, HELP):
            raise ValueError(f"no such artefact {name!r}; write {ALL}, {HELP}, or names of {', '.join(BY_NAME)}")
    return text


def names(text: str) -> list[str]:
    return [part.strip().lstrip("+") for part in text.split(",") if part.strip()]


def known(text: str) -> str:
    """What of a `TORCH_LOGS` value has a meaning here; the rest is torch's own."""
    return ",".join(name for name in names(text) if name in BY_NAME)


def help_text() -> str:
    width = max(map(len, BY_NAME))
    return "".join(f"{log.name:<{width}}  {log.doc}\n" for log in LOGS)


class LogWriter:
    """A listener of the event store that prints the artefacts it was asked for."""

    def __init__(self, text: str, put: Callable[[str], object] = lambda text: sys.stderr.write(text)) -> None:
        wanted = names(text)
        self.logs = LOGS if ALL in wanted else tuple(BY_NAME[name] for name in wanted if name in BY_NAME)
        self.put = put
        if HELP in wanted:
            put(help_text())

    def __call__(self, event: Event) -> None:
        for log in self.logs:
            if log.wants(event):
                first, *rest = lines_of(event)
                self.put("".join(f"{line}\n" for line in (f"dynamo [{id_of(event)}] {log.name}: {first}", *rest)))
                return
