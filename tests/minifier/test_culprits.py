"""Which part of torch's compiler fails: the search over parts and steps, and the switches it stands on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from minifier.culprits import OF_SCRIPT, first_part, of_script
from minifier.engine.signature import frame_name
from minifier.isolation import LocalTransport
from minifier.scripts import ScriptSetting, spec_for
from tests.cli.command import environment

DECOMPOSED = "aot_eager_decomp_partition"

# (backend, part or '' for all of it, steps from which on it fails), what is named
SEARCHES = [
    (("inductor", "lowerings", 1), "inductor: lowerings, step 1"),
    (("inductor", "lowerings", 13), "inductor: lowerings, step 13"),
    (("inductor", "post_grad_passes", 6), "inductor: post_grad_passes, step 6"),
    ((DECOMPOSED, "decomposition", 3), f"{DECOMPOSED}: decomposition, step 3"),
    ((DECOMPOSED, "", 0), DECOMPOSED),
    (("inductor", "", 0), "inductor"),
]


@pytest.mark.parametrize("fault, named", SEARCHES, ids=[n for _, n in SEARCHES])
def test_the_part_and_its_last_step_are_named(fault: tuple[str, str, int], named: str) -> None:
    home, guilty, step = fault

    def fails(backend: str, part: str, most: int) -> bool:
        """`inductor` does all that the shorter backend does, and more."""
        if backend == DECOMPOSED != home:
            return False
        return part != guilty or not guilty or backend != home or most >= step

    assert first_part(fails) == named


SWITCHES = """
import json
import torch
from dynamo.peer import patient

patient.warm("eager")

class Model:
    def m(self, x):
        return x * 2.0

def run():
    model, x = Model(), torch.ones(2)
    f = torch.compile(lambda x: model.m(x), backend="eager")
    found = [f(x).tolist()]
    old, Model.m.__code__ = Model.m.__code__, (lambda self, x: x * 9.0).__code__
    found.append(f(x).tolist())
    Model.m.__code__ = old
    return found

stale = run()
net = torch.compile(torch.nn.ReLU(), backend="eager")
original = torch.compile
patient.compile_every_call()
fresh = run()
layer = torch.nn.ReLU()
net = torch.compile(layer, backend="eager")
x = torch.tensor([-1.0, 2.0])
net(x)
layer.register_forward_hook(lambda m, args, y: y * 3)
hooked = net(x).tolist()
torch.compile = original
patient.switch_off()
print(json.dumps({"stale": stale, "fresh": fresh, "hooked": hooked, "off": run()}))
"""


def test_nothing_is_used_again_and_nothing_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "switches.py").write_text(SWITCHES)
    done = subprocess.run([sys.executable, "switches.py"], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)

    assert said["fresh"] == said["off"] == [[2.0, 2.0], [9.0, 9.0]]
    assert said["hooked"] == [0.0, 6.0]
    assert said["stale"][0] == [2.0, 2.0]


USED_AGAIN = """
import torch
graphs = []
def backend(gm, inputs):
    graphs.append(gm)
    return gm.forward
f = torch.compile(lambda x: x + 1, backend=backend)
f(torch.ones(2))
f(torch.ones(2))
assert len(graphs) != 1{more}
"""


def test_part_of_a_script_is_asked_of_the_same_process(tmp_path: Path) -> None:
    setting = ScriptSetting("script.py", str(tmp_path), engine="torch", backend="")
    transport = LocalTransport(spec_for(setting), tmp_path)
    always = USED_AGAIN.format(more=" and not graphs")
    try:
        assert of_script(USED_AGAIN.format(more=""), setting, transport) == "dynamo: guards"
        assert of_script(always, setting, transport) == OF_SCRIPT
    finally:
        transport.close()


def test_generated_files_are_not_counted() -> None:
    assert frame_name("<eval_with_key>.13", "forward") == "<eval_with_key>:forward"
    assert frame_name("module.3.py", "f") == "module.3.py:f"
    assert frame_name("cpx2prale4sntpzenkj5yfh5rps5mysys2cfo65sqxnwukipq624.py", "call") == "<compiled>:call"
