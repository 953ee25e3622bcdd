# ruff: noqa: INP001 a script, not a module of a package
"""Fill the generated blocks of the documents from the code they describe, and write the schemas of JSON output.

    python docs/generate.py            rewrite docs/*.md and docs/schemas/*.json
    python docs/generate.py --check    exit 1 when a block is out of date

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`; NAME is a row of BLOCKS.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from dynamo import config  # noqa: E402 the checkout must be importable first
from dynamo.peer.names import MODULES, NOTES  # noqa: E402
from dynamo.trace import codec  # noqa: E402
from dynamo.trace.events import SCHEMA, Change, Event, GraphNode  # noqa: E402
from dynamo.trace.logs import LOGS  # noqa: E402
from dynamo.trace.stages import STAGES  # noqa: E402
from tui.commands.published import schemas  # noqa: E402
from tui.errors import ERRORS  # noqa: E402
from tui.exits import MEANINGS, SCRIPT_RULE  # noqa: E402
from tui.keys import KEYS  # noqa: E402

_BLOCK = re.compile(r"(<!-- generated: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |\n" for row in lines)


def _doc(cls: type) -> str:
    return " ".join(inspect.cleandoc(cls.__doc__ or "").split()) if not (cls.__doc__ or "").startswith(cls.__name__ + "(") else ""


def events() -> str:
    parts = [f"Schema {SCHEMA}. Every event also has `t`: seconds since the run began.\n"]
    for kind, cls in codec.KINDS.items():
        parts.append(f"\n### `{kind}`\n\n{_doc(cls)}\n\n{_fields(cls)}")
    parts.append(f"\n### changes of `recompiled`\n\n{_doc(Change)}\n\n{_fields(Change)}")
    parts.append(f"\n### nodes of `graph_captured`\n\n{_doc(GraphNode)}\n\n{_fields(GraphNode)}")
    return "".join(parts)


def _fields(cls: type) -> str:
    inherited = {f.name for f in dataclasses.fields(Event)}
    rows = []
    for f in dataclasses.fields(cls):
        if f.name not in inherited:
            default = "" if f.default is dataclasses.MISSING else f"`{f.default!r}`"
            rows.append((f"`{f.name}`", f"`{f.type}`", default))
    return _table(("field", "type", "default"), rows)


def stages() -> str:
    return _table(("stage", "package", "what it does"), [(f"`{s.name}`", s.package, s.doc) for s in STAGES])


def exits() -> str:
    return (
        _table(("code", "meaning"), [(str(code.value), text) for code, text in MEANINGS.items()])
        + f"\n{SCRIPT_RULE[0].upper()}{SCRIPT_RULE[1:]}.\n"
    )


def errors() -> str:
    rows = [(row.id, row.title, str(row.exit.value)) for row in ERRORS.values()]
    return _table(("id", "error", "exit code"), rows)


def notes() -> str:
    return _table(("id", "note"), [(note_id, title) for note_id, (title, _) in NOTES.items()])


def keys() -> str:
    return _table(("key", "what it does"), [(f"`{key.shown}`", key.text) for key in KEYS])


def served() -> str:
    return _table(
        ("module", "names"),
        [(f"`{module}`", ", ".join(f"`{n}`" for n in sorted(names)) or "every option") for module, names in MODULES.items()],
    )


def options() -> str:
    rows = [(f"`{o.name}`", f"`{o.default!r}`", f"`{o.env}`", o.doc) for o in config.OPTIONS]
    return _table(("option", "default", "environment", "what it does"), rows)


def logs() -> str:
    return _table(("name", "what it prints"), [(f"`{log.name}`", log.doc) for log in LOGS])


BLOCKS: dict[str, Callable[[], str]] = {f.__name__: f for f in (events, stages, exits, errors, notes, keys, served, options, logs)}


def filled(text: str) -> str:
    """The document with all its blocks up to date."""
    return _BLOCK.sub(lambda found: found[1] + "\n" + BLOCKS[found["name"]]() + "\n" + found[3], text)


def write_schemas(check: bool) -> list[str]:
    """docs/schemas/*.json: names of those that are not what the code says."""
    folder = DOCS / "schemas"
    texts = {f"{name}.json": json.dumps(schema, indent=1) + "\n" for name, schema in schemas().items()}
    found = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    stale = [name for name in {**texts, **found} if texts.get(name) != found.get(name)]
    for name in [] if check else stale:
        folder.mkdir(exist_ok=True)
        if name in texts:
            (folder / name).write_text(texts[name], encoding="utf-8")
        else:
            (folder / name).unlink()
    return [f"schemas/{name}" for name in stale]


def main(arguments: list[str]) -> int:
    stale = write_schemas("--check" in arguments)
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if filled(text) != text:
            stale.append(path.name)
            if "--check" not in arguments:
                path.write_text(filled(text), encoding="utf-8")
    for name in stale:
        print(f"{name}: out of date; run python docs/generate.py" if "--check" in arguments else f"{name}: written", file=sys.stderr)
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
