"""`--engine torch`: the same report about torch's own compiler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynamo.peer import watching as peer
from tests.cli.command import run, write

SCRIPT = """
import torch

def bar(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b

f = torch.compile(bar, backend="eager")
f(torch.ones(10), torch.ones(10))
f(torch.ones(5), torch.ones(5))
print("script says done")
"""


def test_torch_is_reported_in_the_same_form(tmp_path: Path) -> None:
    write(tmp_path, SCRIPT)
    done = run("explain", "--json", "--engine", "torch", "script.py", cwd=tmp_path)
    value = json.loads(done.stdout)
    script = str(tmp_path / "script.py")

    assert done.returncode == 0
    assert done.stderr == "script says done\n"
    assert value["engine"] == "torch"
    assert value["graphs"][0]["id"] == "0/0"
    assert value["graphs"][0]["ops"] == 5
    assert ("abs_1", script, 5) in [(n["name"], n["file"], n["line"]) for n in value["graphs"][0]["nodes"]]
    broke = value["breaks"][0]
    assert (broke["id"], broke["file"], broke["line"]) == ("GB0170", script, 6)
    assert "data-dependent" in broke["explanation"]
    assert broke["hint"]
    assert ("L['b']", script, 6) in [(g["source"], g["file"], g["line"]) for g in value["guards"]]
    assert value["recompiles"][0]["frame"] == "bar"
    assert "size mismatch" in value["recompiles"][0]["reason"]
    assert value["times"]["capture"]["count"] >= 3
    assert value["frames"][0]["compiles"][0]["outcome"] == "break"
    assert [entry.rpartition(":")[0] for entry in broke["stack"]] == [script, script]


GUARDS = """
TREE_GUARD_MANAGER:
+- RootGuardManager
| +- GLOBAL_STATE: ___check_global_state() against {}
| +- GuardManager: source=L['a'], accessed_by=FrameLocalsGuardAccessor(key='a'), type=<class 'torch.Tensor'>
| | +- TENSOR_MATCH: check_tensor(L['a'], size=[10])  # x = a + 1  # script.py:14 in bar
| | +- DIMENSION_DYNAMIC_MARKING_GUARD: hasattr(L['a'], '_d') == False  # x = a + 1  # script.py:14 in bar
| | +- NO_TENSOR_ALIASING: check_no_aliasing(L['a'], L['b'])
"""


def test_guard_trees_are_read() -> None:
    assert peer.guard_rows(GUARDS) == [
        ("", "GLOBAL_STATE: ___check_global_state() against {}", "", 0),
        ("L['a']", "TENSOR_MATCH: check_tensor(L['a'], size=[10])", "script.py", 14),
        ("L['a']", "NO_TENSOR_ALIASING: check_no_aliasing(L['a'], L['b'])", "", 0),
    ]


@pytest.mark.parametrize("text", ["", "something else entirely\n", "Graph break in user code at nowhere"])
def test_unknown_break_texts_are_left_out(text: str) -> None:
    assert peer.graph_break("0/0", text) is None
