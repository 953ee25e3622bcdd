"""The JSON schema of every command that has `--json`; `docs/generate.py` writes them to docs/schemas. Those of views are in `tui/views`,
which knows nothing of the tools."""

from __future__ import annotations

from typing import Any

from minifier.bisect.report import Report as BisectReport
from minifier.corpus.running import Verdict as CaseVerdict
from minifier.engine.signature import Signature
from minifier.minify import KEYS
from minifier.minify import Report as MinifyReport
from minifier.recompiles.profile import Broke, Finding, GuardCost
from tui.views import published as views
from tui.views.published import BOOLEAN, INTEGER, NUMBER, STRING, STRINGS, Schema, listed, record, whole
from tui.views.schema import definition

_NUMBERS: Schema = {"type": "object", "additionalProperties": INTEGER}
_TEXTS: Schema = {"type": "object", "additionalProperties": STRING}


def schemas() -> dict[str, Schema]:
    """File name without ending -> schema. Titles begin with the command."""
    case = {"name": STRING, "command": STRING}
    row = record({**case, "kind": STRING, "stage": STRING, "summary": STRING})
    return {
        **views.schemas(),
        "minify": _minify(),
        "bisect": _bisect(),
        "profile": _profile(),
        "run": _run(),
        "run-show": _run_show(),
        "record": whole("dynamo-debug record --json", record({"files": STRINGS})),
        "replay": views.report("dynamo-debug replay --json"),
        "replay-show": whole("dynamo-debug replay --show --json", record(_FRAME)),
        "corpus-list": whole("dynamo-debug corpus list --json", listed(row)),
        "corpus-show": whole("dynamo-debug corpus show --json", listed(record({**case, "manifest": STRING, "script": STRING}))),
        "corpus-run": _corpus(),
    }


_FRAME: dict[str, Schema] = {
    "frame": STRING,
    "error": STRING,
    "versions": _TEXTS,
    "values": INTEGER,
    "tensor_bytes": INTEGER,
    "sources": STRINGS,
    "not_recorded": STRINGS,
}


def _fields(cls: type, definitions: dict[str, Any]) -> dict[str, Schema]:
    """Schemas of the fields of a dataclass."""
    definition(cls, definitions)
    found: dict[str, Schema] = definitions.pop(cls.__name__)["properties"]
    return found


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _minify() -> Schema:
    definitions: dict[str, Any] = {}
    fields = _fields(MinifyReport, definitions)
    fields["signature"] = _or_null(definition(Signature, definitions))
    return whole("dynamo-debug minify --json", record({name: fields[name] for name in KEYS}), definitions)


def _bisect() -> Schema:
    definitions: dict[str, Any] = {}
    fields = {**_fields(BisectReport, definitions), "times": _or_null(NUMBER)}
    fields |= {"graphs": INTEGER, "other_findings": STRINGS, "problems": STRINGS}
    return whole("dynamo-debug bisect --json", record(fields), definitions)


def _profile() -> Schema:
    definitions: dict[str, Any] = {}
    fields = {
        "compiles": INTEGER,
        "compile_seconds": NUMBER,
        "breaks": INTEGER,
        "break_places": listed(definition(Broke, definitions)),
        "recompiles": listed(definition(Finding, definitions)),
        "unexplained": INTEGER,
        "compiles_with_fixes": _or_null(INTEGER),
        "limits": STRINGS,
        "guard_cost_ns": listed(definition(GuardCost, definitions)),
    }
    return whole("dynamo-debug profile --json", record(fields), definitions)


def _run() -> Schema:
    definitions: dict[str, Any] = {}
    fields = {"status": STRING, "signature": definition(Signature, definitions), "reproduction_rate": NUMBER, "runs": INTEGER}
    return whole("dynamo-debug run --json", record(fields), definitions)


def _run_show() -> Schema:
    definitions: dict[str, Any] = {}
    fields = {"stage": STRING, "graph": _or_null(STRING), "signature": definition(Signature, definitions)}
    fields |= {"rate": listed(INTEGER), "versions": _TEXTS, "files": _NUMBERS}
    return whole("dynamo-debug run --show --json", record(fields), definitions)


def _corpus() -> Schema:
    definitions: dict[str, Any] = {}
    return whole("dynamo-debug corpus run --json", listed(record({**_fields(CaseVerdict, definitions), "met": BOOLEAN})), definitions)
