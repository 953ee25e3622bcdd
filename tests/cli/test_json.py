"""What commands print with `--json` is what their published schemas say. Slow commands are held to theirs where they are tested."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from tests.schemas import FOLDER, validate
from tests.trace.test_quick import sample_record
from tui.commands.published import schemas
from tui.main import COMMANDS, main
from tui.views.table import VIEWS

RECORD = "RECORD"
PRINTED: dict[str, tuple[str, list[str]]] = {
    **{name: (name, [name, RECORD]) for name in ("explain", "tui", *VIEWS)},
    "explain one graph": ("explain-graph", ["explain", "--graph", "0/0", RECORD]),
    "explain a stage": ("explain-stage", ["explain", "--stage", "aot", RECORD]),
    "explain decisions": ("explain-decisions", ["explain", "--decisions", RECORD]),
    "explain a page": ("explain-code", ["explain", "--code", "DD001"]),
    "explain all pages": ("explain-codes", ["explain", "--code"]),
    "compare": ("compare", ["compare", RECORD, RECORD]),
    "cache": ("cache", ["cache", "info"]),
    "corpus list": ("corpus-list", ["corpus", "list"]),
    "corpus show": ("corpus-show", ["corpus", "show", "two_errors"]),
    "doctor": ("doctor", ["doctor"]),
}


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_record(tmp_path_factory.mktemp("json"))


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    with pytest.raises(SystemExit):
        main(arguments)
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", PRINTED)
def test_json_is_what_its_schema_says(name: str, record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema, arguments = PRINTED[name]
    command, *rest = (str(record) if a == RECORD else a for a in arguments)

    validate(schema, printed([command, "--json", *rest], capsys))


def test_every_command_with_json_has_a_schema() -> None:
    titles = [schema["title"] for schema in schemas().values()]
    with_json = [c.name for c in COMMANDS if "as_json" in inspect.signature(c.run).parameters]

    assert [name for name in with_json if not any(t.startswith(f"dynamo-debug {name} ") for t in titles)] == []


def test_every_schema_is_published_as_the_code_has_it() -> None:
    assert {f.stem: json.loads(f.read_text()) for f in FOLDER.iterdir()} == json.loads(json.dumps(schemas()))
