"""What the oracle for graphs is started with. Nothing here loads torch, so that its process can be started before that."""

from __future__ import annotations

import json
from typing import Any

from minifier.isolation import OracleSpec

VARIABLE = "DYNAMO_DEBUG_ORACLE"  # how the setting gets to the child
OF_ONE, OF_MANY = "minifier.graph.oracle:ask", "minifier.ladder.probe:ask"  # graphs under the setting; each with a setting of its own


def environment(setting: dict[str, Any]) -> dict[str, str]:
    """What a child reads a setting from, of which `setting` has what is not as by default."""
    found = {VARIABLE: json.dumps(setting)}
    return {**found, "TORCHINDUCTOR_COMPILE_THREADS": "1"} if setting.get("engine") == "torch" else found


def spec(function: str, setting: dict[str, Any]) -> OracleSpec:
    """An oracle for graphs, warmed with what a setting needs."""
    lends = setting.get("engine") == "torch"
    return OracleSpec(function, warm=("minifier.graph.oracle:warm",), name="graph.json", environment=environment(setting), lends=lends)
