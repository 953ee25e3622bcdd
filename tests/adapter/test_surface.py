"""The list of torch's names is that of the installed torch; what scripts may set raises as torch does."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from dynamo.peer.names import MODULES
from dynamo.peer.survey import CONFIGS, surface
from tests.adapter.test_script_adapter import output


@pytest.mark.slow
def test_the_committed_list_is_that_of_this_torch() -> None:
    """Otherwise: `python -m dynamo.peer.survey > dynamo/peer/surface.json`, and look at what is new."""
    done = subprocess.run([sys.executable, "-m", "dynamo.peer.survey"], capture_output=True, text=True, check=True)
    now = json.loads(done.stdout)
    if now["torch"] != surface()["torch"]:
        pytest.fail(f"surveyed with torch {surface()['torch']}, this is {now['torch']}")
    assert now == surface()


def test_rows_name_what_exists() -> None:
    named = surface()["names"]
    old = {"CompileProfiler", "RecompileLimitExceeded", "skip", "disable"}  # of other versions of torch, or imported
    for module, names in MODULES.items():
        if module in named and module not in CONFIGS:
            assert not set(names) - set(named[module]) - old, module


@pytest.mark.slow
def test_everything_on_the_list_can_be_had_by_a_script() -> None:
    program = """
    import importlib
    from dynamo.peer.survey import surface
    print([f"{module}.{name}" for module, names in surface()["names"].items() for name in names
           if not hasattr(importlib.import_module(module), name)])
    print([f"{module}.{name}" for module, names in surface()["options"].items() for name in names
           if "." not in name and not hasattr(importlib.import_module(module), name)])
    """

    assert output(program).splitlines() == ["[]", "[]"]


REFUSED = {
    "mode": ("mode='max-autotone'", "RuntimeError"),
    "both": ("mode='default', options={'max_autotune': True}", "RuntimeError"),
    "key": ("options={'max_autotone': True}", "unexpected optimization option max_autotone; did you mean max_autotune?"),
    "type": ("options={'max_autotune': 'yes'}", "unexpected type of option max_autotune: got str, should be bool"),
}


def test_mistakes_are_refused_as_torch_refuses_them() -> None:
    lines = [f"tried({how})" for how, _ in REFUSED.values()]
    program = """
    def tried(**how):
        try:
            torch.compile(lambda x: x + 1, **how)
        except Exception as e:
            print(type(e).__name__, e)
""" + "".join(f"    {line}\n" for line in lines)
    said = output(program).splitlines()

    assert len(said) == len(REFUSED)
    for line, (_, expected) in zip(said, REFUSED.values(), strict=True):
        assert line.startswith("RuntimeError") and expected in line


COUNTED = """
    from torch._dynamo.utils import counters
    def helper(x):
        print("here")
    @torch.compile(backend="eager")
    def f(x):
        x = x + 1
        helper(x)
        return x * 2
    f(torch.ones(2))
    print(counters["stats"]["unique_graphs"], sum(counters["graph_break"].values()), "stats" in counters)
    counters.clear()
    f(torch.ones(2))
    print(counters["stats"]["unique_graphs"], dict(counters))
    f(torch.ones(3))
    print(counters["stats"]["unique_graphs"], sum(counters["recompiles"].values()) > 0, peer())
"""


def test_counters_count_here() -> None:
    assert output(COUNTED).splitlines() == ["here", "2 1 True", "here", "0 {'stats': Counter()}", "here", "2 True []"]


@pytest.mark.parametrize("variable", ["TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "DYNAMO_DISABLE"])
def test_the_switches_of_torch_switch_this_off(variable: str) -> None:
    prologue = f"import os\nos.environ['{variable}'] = '1'\n"
    program = """
    import sys
    from dynamo.peer.script_adapter import install_when_torch_loads
    install_when_torch_loads()
    import torch
    from dynamo.trace import current, events
    f = torch.compile(lambda x: x + 1)
    print(f(torch.ones(1)).item(), len(current().of(events.CompileStarted)))
    """

    assert output(program, prologue) == "2.0 0"
