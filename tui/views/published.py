"""The JSON schemas of the views and of the commands around them; `tui/commands/published.py` adds those of the tools."""

from __future__ import annotations

from typing import Any

from dynamo.trace import events as ev
from tui.views.compare import Comparison
from tui.views.faults import Faults
from tui.views.schema import DRAFT, definition, schema_of
from tui.views.table import VIEWS
from tui.views.verdict import Verdict

Schema = dict[str, Any]
STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}
STRINGS: Schema = {"type": "array", "items": STRING}
EXIT: Schema = {"anyOf": [INTEGER, {"type": "null"}]}

# What the JSON of a view begins with.
_ENVELOPE: dict[str, Schema] = {"script": STRING, "engine": STRING, "exit": EXIT, "problems": STRINGS}
_COMPILE = {
    "id": STRING,
    "status": STRING,
    "outcome": STRING,
    "detail": STRING,
    "parent": STRING,
    "is_resume": BOOLEAN,
    "seconds": NUMBER,
    "graphs": STRINGS,
}


def record(fields: dict[str, Schema]) -> Schema:
    """An object with these fields, and maybe more: fields are added, never renamed."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def listed(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _report(definitions: dict[str, Any]) -> dict[str, Schema]:
    """The fields of `explain`, behind the verdict."""
    event = {cls: listed(definition(cls, definitions)) for cls in (ev.GraphBroke, ev.GuardInstalled, ev.Recompiled, ev.CacheLooked)}
    graph = listed({"allOf": [definition(ev.GraphCaptured, definitions), record({"id": STRING})]})
    frame = record({"id": STRING, "name": STRING, "file": STRING, "line": INTEGER, "status": STRING, "compiles": listed(record(_COMPILE))})
    return {
        "verdict": definition(Verdict, definitions),
        "script": STRING,
        "argv": STRINGS,
        "engine": STRING,
        "processes": listed({"allOf": [definition(ev.ProcessStarted, definitions), record({"compiles": INTEGER})]}),
        "exit": EXIT,
        "error": STRING,
        "internal_errors": listed(definition(ev.InternalError, definitions)),
        "memory_faults": listed(definition(ev.MemoryFault, definitions)),
        "graphs": graph,
        "later_graphs": graph,
        "breaks": event[ev.GraphBroke],
        "guards": event[ev.GuardInstalled],
        "recompiles": event[ev.Recompiled],
        "frames": listed(frame),
        "cache": event[ev.CacheLooked],
        "skipped": listed(definition(ev.FrameSkipped, definitions)),
        "limits": listed(definition(ev.LimitHit, definitions)),
        "frozen_misses": listed(definition(ev.FrozenMiss, definitions)),
        "times": {"type": "object", "additionalProperties": record({"count": INTEGER, "seconds": NUMBER})},
        "compile_seconds": NUMBER,
        "notes": listed(definition(ev.Note, definitions)),
        "problems": STRINGS,
    }


def _explain(title: str, more: dict[str, Schema] | None = None, without: tuple[str, ...] = ()) -> Schema:
    definitions: dict[str, Any] = {}
    fields = {name: schema for name, schema in {**(more or {}), **_report(definitions)}.items() if name not in without}
    return whole(title, record(fields), definitions)


def report(title: str) -> Schema:
    """What `trace --json` prints, without the name of the record."""
    return _explain(title, without=("verdict",))


def whole(title: str, schema: Schema, definitions: dict[str, Any] | None = None) -> Schema:
    found = {"$defs": dict(sorted(definitions.items()))} if definitions else {}
    return {"$schema": DRAFT, "title": title, **schema, **found}


def _stage() -> Schema:
    definitions: dict[str, Any] = {}
    artefact = {"stage": STRING, "compile_id": STRING, "graph_id": STRING, "title": STRING, "language": STRING, "text": STRING}
    fields = {
        "stage": STRING,
        "about": STRING,
        "artefacts": listed(record(artefact)),
        "decisions": listed(definition(ev.Decided, definitions)),
        "times": listed(definition(ev.StageTimed, definitions)),
    }
    return whole("dynamo-debug explain --stage NAME --json", record(fields), definitions)


def _graphs() -> Schema:
    definitions: dict[str, Any] = {}
    graph = {"allOf": [definition(ev.GraphCaptured, definitions), record({"id": STRING})]}
    return whole("dynamo-debug explain --graph ID --json", listed(graph), definitions)


def _decisions() -> Schema:
    definitions: dict[str, Any] = {}
    return whole("dynamo-debug explain --decisions --json", listed(definition(ev.Decided, definitions)), definitions)


_TREE = listed(record({"key": STRING, "parent": STRING, "title": STRING, "status": STRING}))
_PAGE = {"id": STRING, "title": STRING, "explanation": STRING, "hint": STRING, "example": STRING, "also": STRINGS}
_CACHE = {"directory": STRING, "entries": INTEGER, "bytes": INTEGER}
_SECTIONS = {"type": "object", "additionalProperties": {"type": "object"}}
_SIGNATURE = dict.fromkeys(("kind", "message", "frame", "accuracy", "stage"), STRING) | {"exceptions": STRINGS, "code": INTEGER}
_CLUSTER = {
    **dict.fromkeys(("stage", "culprit", "kind", "status", "repro", "bundle", "issue", "test", "detail"), STRING),
    "signature": record(_SIGNATURE),
    "programs": listed(INTEGER),
    "op_nodes": INTEGER,
    "seconds": NUMBER,
    "tried": STRINGS,
}
_COUNTS: Schema = {"type": "object", "additionalProperties": INTEGER}
_FUZZ = {
    **dict.fromkeys(("engine", "backend"), STRING),
    **dict.fromkeys(("seed", "first", "next", "programs"), INTEGER),
    "outcomes": _COUNTS,
    "kinds": _COUNTS,
    "seconds": NUMBER,
    "searching_seconds": NUMBER,
    "interrupted": BOOLEAN,
    "clusters": listed(record(_CLUSTER)),
}


def schemas() -> dict[str, Schema]:
    """File name without ending -> schema."""
    views = {name: schema_of(view.shape, f"dynamo-debug {name} --json", _ENVELOPE) for name, view in VIEWS.items()}
    return {
        "explain": _explain("dynamo-debug explain --json"),
        "explain-stage": _stage(),
        "explain-decisions": _decisions(),
        "explain-graph": _graphs(),
        "explain-codes": whole("dynamo-debug explain --code --json", listed(record({"id": STRING, "title": STRING}))),
        "explain-code": whole("dynamo-debug explain --code ID --json", record(_PAGE)),
        **views,
        "compare": schema_of(Comparison, "dynamo-debug compare A B --json"),
        "trace": _explain("dynamo-debug trace --json", {"record": STRING}, without=("verdict",)),
        "tui": _explain("dynamo-debug tui --json", {"tree": _TREE}, without=("verdict",)),
        "cache": whole("dynamo-debug cache info|clear --json", record(_CACHE)),
        "sanitize": schema_of(Faults, "dynamo-debug sanitize --json", _ENVELOPE),
        "fuzz": whole("dynamo-debug fuzz --json", record(_FUZZ)),
        "doctor": whole("dynamo-debug doctor --json", _SECTIONS),
        "verify": whole("dynamo-debug verify --json", listed(record({"check": STRING, "ok": BOOLEAN, "detail": STRING}))),
    }
