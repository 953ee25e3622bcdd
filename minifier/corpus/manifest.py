"""A case: a script, how its fault is switched on, and what should be found. Manifests are TOML, beside their scripts.

| key | meaning |
|---|---|
| `summary`, `kind` | one line; the class of defect |
| `stage` | where the fault is: a row of `dynamo/trace/stages.py`, `run`, or `backend` for one of the user's |
| `decision` | the beginning of the culprit, as `stage: what`; absent where no decision is to blame |
| `report` | only of torch's own faults, whose `decision` is the part of its compiler: the public issue, `repository#number`, or `own` |
| `environment` | the variables that switch the fault on; without them the script is healthy |
| `script.ends` | how it ends with the fault: `exit 1`, `exit 7`, `signal 11`, `timeout` |
| `script.says` | a text that its error output then has |
| `minify.after`, `minify.accuracy` | what `minify` is asked |
| `expect.signature` | fields of the failure signature |
| `expect.op_nodes`, `expect.source_lines` | the known minimum: operations of a graph, or lines of a script |
| `expect.elements` | elements of the largest input at the threshold |
| `expect.rung` | what `minify` calls the stage, where that is not the rung of its ladder that `stage` belongs to |
| `expect.others` | beginnings of the failures that are to be listed beside |
| `expect.flaky` | the failure comes and goes |
"""

from __future__ import annotations

import importlib.util
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from dynamo.trace.stages import BY_NAME

# below the package `repro_corpus`, by the engine that has the fault
FOLDERS = {"dynamo": "seeded", "torch": "reported"}
AFTER = ("auto", "dynamo", "aot")
_HEAD = ("summary", "kind", "stage", "environment", "script", "minify", "expect")


class ManifestError(ValueError):
    """A manifest can't be used; the message names the file and the key."""


@dataclass(frozen=True)
class Expected:
    """What a reduction should end at; see the head of the file."""

    signature: Mapping[str, Any]
    op_nodes: int = 0
    source_lines: int = 0
    elements: int = 0
    rung: str = ""
    others: tuple[str, ...] = ()
    flaky: bool = False


@dataclass(frozen=True)
class Case:
    """One manifest. `ends` and `says` are those of the script alone."""

    name: str
    script: Path
    summary: str
    kind: str
    stage: str
    environment: Mapping[str, str]
    ends: str
    expected: Expected
    says: str = ""
    decision: str = ""
    report: str = ""
    after: str = "dynamo"
    accuracy: bool = False
    text: str = field(default="", repr=False)

    @property
    def waits(self) -> bool:
        """Whether most of what is run of it waits for its end: it hangs."""
        return self.expected.signature.get("kind") == "hang"

    @property
    def command(self) -> str:
        """What a person types to see the fault."""
        return " ".join([*(f"{key}='{value}'" for key, value in self.environment.items()), "python", str(self.script)])


def load(path: Path) -> Case:
    """Read one manifest. Raises ManifestError."""
    try:
        text = path.read_text()
        data = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise ManifestError(f"{path}: {e}") from e
    for key in _HEAD:
        if key not in data:
            raise ManifestError(f"{path}: `{key}` is missing")
    for table, allowed in (
        (data, (*_HEAD, "decision", "report")),
        (data["script"], ("ends", "says")),
        (data["minify"], ("after", "accuracy")),
        (data["expect"], tuple(f.name for f in fields(Expected))),
    ):
        for key in table:
            if key not in allowed:
                raise ManifestError(f"{path}: unknown key `{key}`; keys are {', '.join(allowed)}")
    case = _case(path, text, data)
    _check(path, case)
    return case


def _case(path: Path, text: str, data: Mapping[str, Any]) -> Case:
    try:
        expect = dict(data["expect"])
        return Case(
            path.stem,
            path.with_suffix(".py"),
            str(data["summary"]),
            str(data["kind"]),
            str(data["stage"]),
            {str(k): str(v) for k, v in data["environment"].items()},
            str(data["script"]["ends"]),
            Expected(**{**expect, "others": tuple(expect.get("others", ()))}),
            str(data["script"].get("says", "")),
            str(data.get("decision", "")),
            str(data.get("report", "")),
            str(data["minify"].get("after", "dynamo")),
            bool(data["minify"].get("accuracy", False)),
            text,
        )
    except (KeyError, TypeError, AttributeError) as e:
        raise ManifestError(f"{path}: {e}") from e


def _check(path: Path, case: Case) -> None:
    expected = case.expected
    if not case.script.is_file():
        raise ManifestError(f"{path}: there is no script {case.script.name} beside it")
    if case.stage not in (*BY_NAME, "run", "backend"):
        raise ManifestError(f"{path}: stage {case.stage!r} is no row of dynamo/trace/stages.py, `run` or `backend`")
    if case.after not in AFTER:
        raise ManifestError(f"{path}: minify.after is one of {', '.join(AFTER)}")
    if (expected.op_nodes > 0) is (expected.source_lines > 0):
        raise ManifestError(f"{path}: expect has either op_nodes or source_lines")
    how, _, number = case.ends.partition(" ")
    if how not in ("exit", "signal", "timeout") or (how != "timeout") is not number.isdigit():
        raise ManifestError(f"{path}: script.ends is `exit N`, `signal N` or `timeout`")


def load_all(folder: Path | None = None, engine: str = "dynamo") -> list[Case]:
    """All cases of a folder (by default those of an engine that come with the project), by name. Raises ManifestError."""
    folder = folder or home(engine)
    return [load(path) for path in sorted(folder.glob("*.toml"))]


def home(engine: str = "dynamo") -> Path:
    """The folder of the cases of an engine that come with the project. Raises ManifestError where they are not installed."""
    spec = importlib.util.find_spec("repro_corpus")
    if spec is None or spec.origin is None:
        raise ManifestError("the package repro_corpus is not installed beside this one; run from a checkout")
    return Path(spec.origin).parent / FOLDERS[engine]
