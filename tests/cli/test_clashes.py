"""Scripts beside modules that have the names of our packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import TIMEOUT, environment, write

# As the installed command is started: no folder of the user's is searched for our modules.
COMMAND = [sys.executable, "-c", "import sys; sys.path[0] = sys.path[1]; from tui.main import main; main()"]

PROGRAM = """
import json, sys
import minifier, repro_corpus, tui, tui.part
import random, signal
print(json.dumps([minifier.x, repro_corpus.x, tui.x, tui.part.x, getattr(random, "x", None), hasattr(signal, "SIGINT")]))
"""


def _run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], cwd=cwd, env=environment(), capture_output=True, text=True, timeout=TIMEOUT)


def test_a_script_finds_its_own_modules(tmp_path: Path) -> None:
    scripts = tmp_path / "scripts"
    (scripts / "tui").mkdir(parents=True)
    write(scripts, PROGRAM)
    for i, name in enumerate(("minifier.py", "repro_corpus.py", "tui/__init__.py", "tui/part.py", "random.py")):
        write(scripts, f"x = {i}\n", name)
    for name in ("json.py", "signal.py", "tui.py", "dynamo.py"):  # the folder it is started in is not searched
        write(tmp_path, "raise RuntimeError('not mine')\n", name)
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    plain = subprocess.run([sys.executable, "scripts/script.py"], cwd=tmp_path, env=own, capture_output=True, text=True, check=True)
    done = _run("trace", "scripts/script.py", "-o", "rec", cwd=tmp_path)

    assert json.loads(plain.stdout) in ([0, 1, 2, 3, 4, True], [0, 1, 2, 3, None, True])  # where a .pth file has imported random
    assert done.stdout == plain.stdout


THEIRS = """
import pickle
import dynamo, inductor.mine
from dynamo import Field
import torch
f = torch.compile(lambda x: (x * dynamo.scale).sin().sum())
print(dynamo.__file__, inductor.mine.x, pickle.loads(pickle.dumps(Field())).name)
print(f(torch.zeros(2)).item(), "dynamo.public" in __import__("sys").modules, f(torch.zeros(3)).item())
"""


def test_a_script_finds_its_own_dynamo_and_ours_compiles(tmp_path: Path) -> None:
    (tmp_path / "inductor").mkdir()
    write(tmp_path, "", "inductor/__init__.py")
    write(tmp_path, "x = 1\n", "inductor/mine.py")
    write(tmp_path, "scale = 2.0\n\n\nclass Field:\n    name = 'theirs'\n", "dynamo.py")
    write(tmp_path, THEIRS)
    done = _run("explain", "--json", "script.py", cwd=tmp_path)

    assert done.stderr.splitlines() == [f"{tmp_path / 'dynamo.py'} 1 theirs", "0.0 False 0.0"]
    assert len(json.loads(done.stdout)["frames"]) == 1


SPAWNED = """
import torch
import torch.multiprocessing as mp
import dynamo

def work(i):
    assert dynamo.scale == 2.0
    torch.compile(lambda x: x * dynamo.scale, backend="eager")(torch.ones(1))

if __name__ == "__main__":
    mp.spawn(work, nprocs=1)
    print(dynamo.scale)
"""


@pytest.mark.slow
def test_so_does_a_process_that_it_starts(tmp_path: Path) -> None:
    write(tmp_path, "scale = 2.0\n", "dynamo.py")
    write(tmp_path, SPAWNED)
    done = _run("explain", "--json", "script.py", cwd=tmp_path)

    assert done.stderr == "2.0\n"
    assert [p["compiles"] for p in json.loads(done.stdout)["processes"]] == [1]
