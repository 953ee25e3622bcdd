"""Watch torch's own compiler and tell its story in our events. The only file that may touch it.

torch writes a structured trace (the one behind TORCH_TRACE) as log records with metadata and a payload. A handler on that
logger translates what it knows and leaves out the rest; nothing of the compiler is changed.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import logging
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dynamo.peer.after_import import AfterImport
from dynamo.trace import current, emit
from dynamo.trace import events as ev

Metadata = dict[str, Any]

# Names of torch's timed regions that mean one of our stages; others keep their name.
_STAGES = {"bytecode_tracing": "capture", "backend_compile": "backend", "build_guards": "guards"}
_NOT_STAGES = ("entire_frame_compile", "compile_attempt_")
# Frames that stand in a user stack without being the user's: torch's compiler, and what runs the script.
_SPEC = importlib.util.find_spec("torch")
_TORCH = os.path.dirname(_SPEC.origin or "") if _SPEC is not None else ""
_PROJECT = str(Path(__file__).resolve().parents[2])
_NOT_USER = (os.path.join(_TORCH, "_dynamo"), os.path.join(_PROJECT, "tui"), "<string>", "<frozen")
# Guards that torch adds to every tensor and that say nothing about the program.
_NOISE = ("DIMENSION_DYNAMIC_MARKING_GUARD", "NO_HASATTR")

# Plain strings: `re` compiles each when it is first asked for, which a run without torch's compiler never does.
_BREAK_PLACE = r"Graph break in user code at (?P<file>.+):(?P<line>\d+)"
_BREAK_REASON = r"Graph Break Reason: (?:Encountered graph break when attempting to trace .*:\s+)?(?P<reason>.+)"
_BREAK_WHY = r"(?s)  Explanation: (?P<why>.*?)(?=\n\n|\n  Hint:)"
_BREAK_HINT = r"  Hint: (?P<hint>.+)"
_BREAK_ID = r"/gb(?P<number>\d+)\.html"
_STACK_LINE = r'  File "(?P<file>.+)", line (?P<line>\d+), in (?P<name>.+)'
_GUARD = r"\+- (?P<kind>[A-Z_]+): (?P<check>.*?)(?:  # (?P<code>.*?))?(?:  # (?P<file>\S+):(?P<line>\d+) in .*)?$"
_GUARD_SOURCE = r"\+- (?:\w*GuardManager|KeyManager.*|ValueManager.*): source=(?P<source>[^,]+(?:\[[^\]]*\])*)"
_NODE_PLACE = r"# File: (?P<file>.+?):(?P<line>\d+) in "
_NODE = r'        (?P<name>\w+)(?:: "(?P<shape>[^"]*)")? = (?P<text>.*?)(?:;  .*)?$'
_INPUT = r'(?P<name>\w+): "(?P<shape>[^"]*)"'
_NAME = r"[A-Za-z_]\w*"
_FAILURE = r"\d+/\d+: "
_LIMIT = r"hit config\.\w+ \((?P<limit>\d+)\)\s+function: (?P<function>.+)\s+last reason: (?P<reason>.+)"


def observe_when_torch_loads(backend: str = "") -> None:
    """Start to watch as soon as the program imports torch. `backend` replaces the one it asks torch.compile for."""
    if "torch" in sys.modules:
        observe(backend)
    else:
        sys.meta_path.insert(0, AfterImport("torch", functools.partial(observe, backend)))


def observe(backend: str | Callable[..., Any] = "") -> None:
    """Start to watch now."""
    import torch  # noqa: PLC0415  # the script decides when torch is loaded

    trace_log = torch._logging._internal.trace_log
    trace_log.addHandler(Translator(torch.utils._traceback.shorten_filename))
    trace_log.setLevel(logging.DEBUG)
    trace_log.propagate = False
    logging.getLogger("torch._dynamo.convert_frame").addHandler(LimitWatcher())
    if backend:
        _force(torch, backend)


def _force(torch: Any, backend: str | Callable[..., Any]) -> None:
    original = torch.compile

    @functools.wraps(original)
    def forced(*args: Any, **kwargs: Any) -> Any:
        kept = {k: v for k, v in kwargs.items() if k not in ("mode", "options")}
        return original(*args, **{**kept, "backend": backend})

    torch.compile = forced


@dataclass
class _Frame:
    """What is known of a compile that is under way."""

    name: str = "?"
    file: str = ""
    breaks: set[tuple[str, int, str]] = field(default_factory=set)
    ops: int = 0
    begun: dict[str, float] = field(default_factory=dict)


class Translator(logging.Handler):
    """Log records of the structured trace to events."""

    def __init__(self, shortened: Callable[[str], str]) -> None:
        """`shortened`: names of files as torch writes them."""
        super().__init__(logging.DEBUG)
        self._shortened = shortened
        self._strings: dict[int, str] = {}
        self._compiles: dict[str, _Frame] = {}
        self._files: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", None)
        if not isinstance(metadata, dict):
            return
        payload = getattr(record, "payload", None)
        text = payload if isinstance(payload, str) else ""
        for kind, translate in _TRANSLATIONS.items():
            if kind in metadata:
                translate(self, _compile_id(metadata), metadata[kind], text)

    def frame(self, compile_id: str) -> _Frame:
        return self._compiles.setdefault(compile_id, _Frame())

    def string(self, compile_id: str, value: Any, text: str) -> None:
        name, index = value
        self._strings[index] = name

    def start(self, compile_id: str, value: Any, text: str) -> None:
        frame = self.frame(compile_id)
        innermost = value["stack"][-1] if value.get("stack") else {}
        frame.name = innermost.get("name", "?")
        frame.file = self._strings.get(innermost.get("filename", -1), "")
        self._files.add(frame.file)
        resumed = "resume_in_" in frame.name
        emit(ev.CompileStarted(compile_id, frame.name, frame.file, innermost.get("line", 0), "", resumed))

    def graph(self, compile_id: str, value: Any, text: str) -> None:
        nodes = graph_nodes(text)
        ops = self.frame(compile_id).ops = sum(node.op == "call_function" for node in nodes)
        emit(ev.GraphCaptured(compile_id, compile_id, "capture", ops, text.strip("\n"), nodes))

    def guards(self, compile_id: str, value: Any, text: str) -> None:
        for number, (source, check, file, line) in enumerate(guard_rows(text)):
            emit(ev.GuardInstalled(compile_id, number, source, check, self._full(file), line))

    def _full(self, file: str) -> str:
        """Guards name files as torch shortens them, which cuts a letter too many where only "/" is shared with torch's own path."""
        return next((full for full in self._files if self._shortened(full) == file), file)

    def artifact(self, compile_id: str, value: Any, text: str) -> None:
        if value.get("name") == "dynamo_graph_break_reason":
            self._break(compile_id, text)
        elif value.get("name") == "recompile_reasons":
            failures = tuple(line.partition("  #")[0].strip() for line in _lines(text) if re.match(_FAILURE, line))
            name = self.frame(f"{compile_id.split('/')[0]}/0").name
            emit(ev.Recompiled(compile_id, name, failures[0] if failures else text.strip(), failures))

    def _break(self, compile_id: str, text: str) -> None:
        broke = graph_break(compile_id, text)
        seen = self.frame(compile_id).breaks
        if broke is not None and (broke.file, broke.line, broke.reason) not in seen:
            seen.add((broke.file, broke.line, broke.reason))
            emit(broke)

    def timed(self, compile_id: str, value: Any, text: str) -> None:
        event = json.loads(text) if text else {}
        name, phase = event.get("name", ""), event.get("ph")
        begun = self.frame(compile_id).begun
        if not compile_id or name.startswith(_NOT_STAGES):
            return
        if phase == "B":
            begun[name] = current().now()
        elif phase == "E" and name in begun:
            start = begun.pop(name)
            emit(ev.StageTimed(compile_id, _STAGES.get(name, name), start, current().now() - start))

    def metrics(self, compile_id: str, value: Any, text: str) -> None:
        frame = self.frame(compile_id)
        failed = value.get("fail_type")
        outcome = "error" if failed else "break" if frame.breaks else "ok" if frame.ops else "empty"
        emit(ev.CompileEnded(compile_id, outcome, f"{failed}: {value.get('fail_reason')}" if failed else ""))


_TRANSLATIONS: dict[str, Callable[[Translator, str, Any, str], None]] = {
    "str": Translator.string,
    "dynamo_start": Translator.start,
    "dynamo_output_graph": Translator.graph,
    "dynamo_cpp_guards_str": Translator.guards,
    "artifact": Translator.artifact,
    "chromium_event": Translator.timed,
    "compilation_metrics": Translator.metrics,
}


class LimitWatcher(logging.Handler):
    """The warning that a recompile limit was reached."""

    def emit(self, record: logging.LogRecord) -> None:
        found = re.search(_LIMIT, record.getMessage())
        if found:
            emit(ev.LimitHit(found["function"].strip(), int(found["limit"]), found["reason"].strip()))


def _compile_id(metadata: Metadata) -> str:
    frame, variant = metadata.get("frame_id"), metadata.get("frame_compile_id")
    return "" if frame is None else f"{frame}/{variant or 0}"


def _lines(text: str) -> list[str]:
    """Reasons are a JSON list, or plain lines when there is only one."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text.splitlines()
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def graph_break(compile_id: str, text: str) -> ev.GraphBroke | None:
    """The report of a graph break as an event."""
    place = re.search(_BREAK_PLACE, text)
    if place is None:
        return None
    reason, why, number = re.search(_BREAK_REASON, text), re.search(_BREAK_WHY, text), re.search(_BREAK_ID, text)
    hints = dict.fromkeys(found["hint"] for found in re.finditer(_BREAK_HINT, text))
    frames = re.finditer(_STACK_LINE, text.partition("User code traceback")[2])
    stack = tuple(f"{s['file']}:{s['line']} {s['name']}" for s in frames if not s["file"].startswith(_NOT_USER))
    line = int(place["line"])
    return ev.GraphBroke(
        compile_id,
        f"GB{number['number']}" if number else "",
        place["file"],
        line,
        0,
        line + 1,
        0,
        reason["reason"] if reason else "unknown",
        " ".join(why["why"].split()) if why else "",
        " ".join(hints),
        stack,
    )


def guard_rows(text: str) -> list[tuple[str, str, str, int]]:
    """(source, check, file name, line) of each guard in torch's printed guard tree."""
    rows, source = [], ""
    for line in text.splitlines():
        if found := re.search(_GUARD_SOURCE, line):
            source = found["source"]
        elif (found := re.search(_GUARD, line)) and found["kind"] not in _NOISE:
            check = f"{found['kind']}: {found['check'].strip()}"
            rows.append((source, check, found["file"] or "", int(found["line"] or 0)))
    return rows


def graph_nodes(text: str) -> tuple[ev.GraphNode, ...]:
    """Nodes of a graph from its printed form; the comment above a node names its user line."""
    nodes: list[ev.GraphNode] = []
    file, line = "", 0
    for row in text.splitlines():
        if place := re.search(_NODE_PLACE, row):
            file, line = place["file"], int(place["line"])
        elif row.startswith("    def forward"):
            nodes += [ev.GraphNode(i["name"], "placeholder", i["name"], i["name"], i["shape"], "", 0) for i in re.finditer(_INPUT, row)]
        elif (found := re.match(_NODE, row)) and not _is_alias(found["text"], nodes):
            used = tuple(dict.fromkeys(name for name in re.findall(_NAME, found["text"]) if any(n.name == name for n in nodes)))
            shown = f"{found['name']} = {found['text']}"
            op = "get_attr" if found["text"].startswith("self.") else "call_function"
            target = found["text"].partition("(")[0]
            nodes.append(ev.GraphNode(found["name"], op, target, shown, found["shape"] or "", file, line, (), used))
    return tuple(nodes)


def _is_alias(text: str, nodes: list[ev.GraphNode]) -> bool:
    """`l_x_ = L_x_` renames an input."""
    return any(node.op == "placeholder" and node.name == text for node in nodes)
