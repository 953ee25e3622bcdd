"""`dynamo-debug minify`: from a script to a repro that was seen to fail."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from minifier.engine import Verdict
from minifier.graph.ir import GraphError
from minifier.graph.oracle import judge
from minifier.ladder import recorded_run
from minifier.recordings import VALUES, recorded
from tests.cli.command import COMMAND, environment, run, write
from tests.schemas import validate

MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(6, 5)
        self.b = torch.nn.Linear(5, 4)

    def forward(self, x):
        y = torch.tanh(self.a(x))
        print("between")
        return self.b(torch.relu(y) * 2).softmax(-1).sum(0)

net = torch.compile(Net(), backend=%r)
torch.manual_seed(0)
net(torch.randn(3, 6)).sum().backward()
"""


KEYS = """status stage graph repro bundle op_nodes inputs oracle_calls distinct_calls seconds signature reproduction_rate one_minimal
other_failures""".split()


def test_failing_script_ends_at_one_operation(tmp_path: Path) -> None:
    done = run("minify", write(tmp_path, MODEL % "relu_compile_error_TESTING_ONLY"), "--json", "--pytest", cwd=tmp_path, timeout=400)
    report = json.loads(done.stdout)
    validate("minify", report)

    assert done.returncode == 1
    assert list(report) == KEYS
    assert [report[k] for k in ("status", "stage", "op_nodes", "inputs")] == ["reproduced", "backend", 1, 1]
    assert report["graph"] not in (None, "0/0")  # it is the one behind the print
    assert report["one_minimal"]
    assert report["reproduction_rate"] == 1.0
    assert report["signature"]["exceptions"] == ["dynamo.backends.testing.ReluCompileError"]
    text = (tmp_path / report["repro"]).read_text()
    assert "relu = torch.relu(" in text
    assert "script.py:13" in text
    assert "Seen in 3 of 3 runs, each in a new process, with python" in text
    assert text.rstrip() in (tmp_path / "minified" / "issue.md").read_text()
    assert "timeout=120" in (tmp_path / "minified" / "test_repro.py").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["minified", "script.py"]

    (tmp_path / "elsewhere").mkdir()
    again = run("run", str(tmp_path / report["bundle"]), "--json", cwd=tmp_path / "elsewhere")
    validate("run", json.loads(again.stdout))
    assert (again.returncode, json.loads(again.stdout)["status"]) == (1, "reproduced")
    validate("run-show", json.loads(run("run", str(tmp_path / report["bundle"]), "--show", "--json", cwd=tmp_path).stdout))
    assert not list((tmp_path / "elsewhere").iterdir())


def test_backend_that_only_the_command_line_names_is_found_beside_the_script(tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    write(folder, "import torch\ntorch.compile(lambda x: torch.sin(x).cos() + 1)(torch.ones(2))\n")
    write(folder, "import torch\nfrom parts import refuse\n\ndef mine(gm, inputs):\n    return refuse(gm)\n", "own.py")
    write(
        folder,
        "import torch\n\ndef refuse(gm):\n    if any(n.target is torch.cos or n.target == 'cos' for n in gm.graph.nodes):\n"
        "        raise ValueError('no cosines')\n    return gm.forward\n",
        "parts.py",
    )
    done = run("minify", "scripts/script.py", "--backend", "own:mine", "--json", cwd=tmp_path, timeout=400)
    report = json.loads(done.stdout)

    assert [report[k] for k in ("status", "stage", "op_nodes")] == ["reproduced", "backend", 1], done.stderr
    assert report["signature"]["message"] == "no cosines"
    explained = json.loads(run("explain", "--json", "--backend", "own:mine", "scripts/script.py", cwd=tmp_path).stdout)
    assert "no cosines" in json.dumps(explained["verdict"])


@pytest.mark.slow
def test_standard_input_from_a_file_is_that_of_every_run(tmp_path: Path) -> None:
    """Of a pipe nothing could be read a second time: then the script has none, and that is said."""
    compiled = "torch.compile(lambda x: torch.relu(x) + 1, backend='relu_compile_error_TESTING_ONLY')"
    write(tmp_path, f"import sys, torch\nfor line in sys.stdin:\n    {compiled}(torch.ones(2))\n")
    write(tmp_path, "one\ntwo\n", "rows")
    command = [*COMMAND, "minify", "script.py"]
    piped = subprocess.run(command, cwd=tmp_path, env=environment(), input="one\n", capture_output=True, text=True, timeout=200)
    with (tmp_path / "rows").open() as rows:
        given = subprocess.run(command, cwd=tmp_path, env=environment(), stdin=rows, capture_output=True, text=True, timeout=200)

    assert (given.returncode, "1 graph recorded\n" in given.stderr) == (1, True), given.stderr
    assert (piped.returncode, piped.stdout) == (0, "nothing fails\n")
    with (tmp_path / "rows").open() as rows:
        command = [*COMMAND, "bisect", "script.py"]
        checked = subprocess.run(command, cwd=tmp_path, env=environment(), stdin=rows, capture_output=True, text=True, timeout=200)
    assert checked.stderr.startswith("dynamo-debug: graph 0/0: "), checked.stderr
    assert "0 graphs recorded: only Python programs that it starts are looked into, and standard input is empty" in piped.stderr


HANGS = """
import torch

def mine(gm, inputs):
    while any(n.target is torch.tanh for n in gm.graph.nodes):
        pass
    return gm.forward

@torch.compile(backend=mine)
def f(x, y):
    a = torch.sin(x) + y
    b = torch.tanh(a) * 2
    return torch.cos(b).sum() + a.mean()

print(f(torch.ones(4, 5), torch.ones(5)))
"""


@pytest.mark.slow
def test_a_graph_that_never_ends_is_a_failure_like_others(tmp_path: Path) -> None:
    done = run("minify", write(tmp_path, HANGS), "--json", "--timeout", "10", cwd=tmp_path, timeout=500)
    report = json.loads(done.stdout)

    assert done.returncode == 1, done.stderr
    assert [report[k] for k in ("status", "stage", "op_nodes", "one_minimal")] == ["reproduced", "backend", 1, True]
    assert report["signature"]["kind"] == "hang"
    assert "graph 0/0 under script_backend:mine still runs after" in done.stderr
    assert "tanh = torch.tanh(" in (tmp_path / report["repro"]).read_text()


def test_healthy_script_yields_no_repro(tmp_path: Path) -> None:
    done = run("minify", write(tmp_path, MODEL % "aot_eager"), "--accuracy", cwd=tmp_path, timeout=400)

    assert (done.returncode, done.stdout) == (0, "nothing fails\n")
    assert "no journal" not in done.stderr and "numbers were not compared" not in done.stderr


def test_script_that_changes_its_folder_keeps_it_clean(tmp_path: Path) -> None:
    moving = MODEL.replace("import torch", "import os, torch\nos.makedirs('out', exist_ok=True)\nos.chdir('out')", 1)
    done = run("minify", write(tmp_path, moving % "relu_compile_error_TESTING_ONLY"), "--json", cwd=tmp_path, timeout=400)

    assert (done.returncode, json.loads(done.stdout)["status"]) == (1, "reproduced"), done.stderr
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    "script, holds, says",
    [
        ("repro.py", (), ".: repro.py would be replaced"),
        ("script.py", ("trial/notes.txt", "test_repro.py"), ".: test_repro.py, trial would be replaced"),
        ("script.py", ("source/main.py",), ".: source would be replaced"),
        ("repro.py", ("recorded-aot/0000.json",), ".: repro.py there is the script itself, and would be replaced"),
        ("script.py", ("recorded-aot/0000.json", "issue.md/x"), ".: issue.md there is a folder"),
    ],
)
def test_files_of_the_user_are_not_replaced(tmp_path: Path, script: str, holds: tuple[str, ...], says: str) -> None:
    write(tmp_path, "pass\n", script)
    for name in holds:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    done = run("minify", script, "-o", ".", cwd=tmp_path)

    line = f"dynamo-debug: error[CL032]: {says}; choose another folder with -o\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)
    assert sorted(tmp_path.rglob("*")) == before


def test_resuming_where_nothing_was_begun_says_so(tmp_path: Path) -> None:
    script = write(tmp_path, "import torch\ntorch.compile(torch.sin, backend='eager')(torch.ones(1))\n")
    done = run("minify", script, "--resume", cwd=tmp_path, timeout=400)

    assert (done.returncode, done.stdout) == (0, "nothing fails\n")
    assert "numbers were not compared; with --accuracy wrong ones are failures too" in done.stderr
    assert done.stderr.count("--resume: minified has no journal of an earlier run; this one begins anew") == 1
    assert not (tmp_path / "minified" / "repro.py").exists()


@pytest.mark.parametrize(
    "text, options, error, says",
    [
        ("raise LookupError('no data')", (), "CL018", "no data"),
        ("x = 1", ("--after", "dynmo"), "CL013", "did you mean dynamo?"),
        ("x = 1", ("--engine", "troch"), "CL010", "did you mean torch?"),
        ("x = 1", ("--oracle", "no-such-command"), "CL020", "no command no-such-command"),
        ("x = 1", ("--graph", "0/0"), "CL006", "graphs are none"),
        ("x = 1", ("--keep-signature", "lose"), "CL017", "did you mean loose?"),
    ],
)
def test_mistakes_have_one_line(tmp_path: Path, text: str, options: tuple[str, ...], error: str, says: str) -> None:
    done = run("minify", write(tmp_path, text), *options, cwd=tmp_path)

    assert done.returncode == 2
    assert f"error[{error}]" in done.stderr
    assert says in done.stderr


def test_numbers_of_later_calls_are_left_to_bisect(tmp_path: Path) -> None:
    lazy = """
    import torch

    def lazy(gm, inputs):
        calls = []
        def run(*args):
            calls.append(args)
            return gm(*args) if len(calls) == 1 else tuple(o * 0 for o in gm(*args))
        return run

    f = torch.compile(lambda x: x.cos(), backend=lazy)
    print(f(torch.ones(3)), f(torch.zeros(3)))
    """
    script = write(tmp_path, textwrap.dedent(lazy))
    done = run("minify", script, "--accuracy", cwd=tmp_path, timeout=400)

    assert (done.returncode, done.stdout) == (0, "nothing fails\n")
    assert "numbers of the first call of each graph were compared; `dynamo-debug bisect` calls them again" in done.stderr
    assert run("bisect", script, cwd=tmp_path, timeout=400).returncode == 1


@pytest.mark.parametrize("words", [("failing.py",), ("-m", "failing")])
def test_a_script_that_raises_shows_its_own_frames_alone(tmp_path: Path, words: tuple[str, ...]) -> None:
    write(tmp_path, "import torch\n\ndef load():\n    raise LookupError('no data')\n\nload()\n", "failing.py")

    def said(*command: str) -> list[str]:
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120)
        assert done.returncode == 1
        return [line for line in done.stderr.splitlines() if "<frozen runpy>" not in line]

    (tmp_path / "out").mkdir()
    request = json.dumps({"pipe": 1, "backend": "", "draws": 1, "graph": "", "device": ""})

    expected = said(*words)
    assert said("-m", "minifier.whole", "dynamo", "", *words) == expected
    assert said("-m", "minifier.record", str(tmp_path / "out"), "dynamo", "dynamo", "", *words) == expected
    assert said("-m", "minifier.bisect.script", request, *words) == expected


def test_aot_graphs_are_recorded_with_their_backward(tmp_path: Path) -> None:
    script = write(tmp_path, MODEL % "inductor")
    (tmp_path / "out").mkdir()
    command = [sys.executable, "-m", "minifier.record", str(tmp_path / "out"), "dynamo", "aot", "", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120)
    found = recorded(tmp_path / "out")

    assert (done.returncode, done.stderr) == (0, "")
    assert [g.problem for g in found] == [""] * 4
    first, last = found[0].name.partition(".")[0], found[-1].name.partition(".")[0]
    assert [g.name for g in found] == [f"{first}.fw", f"{first}.bw", f"{last}.fw", f"{last}.bw"]
    assert [g.answers_to(last) for g in found] == [False, False, True, True]
    assert [g.is_backward for g in found] == [False, True, False, True]
    assert all(n.target.startswith(("torch.ops.", "_operator.")) for g in found if g.graph for n in g.graph.nodes)


@pytest.mark.parametrize("after", ["dynamo", "aot"])
def test_recording_leaves_the_random_numbers_of_the_script_alone(tmp_path: Path, after: str) -> None:
    """Numbers that are drawn after the first compile are those of a run without."""
    text = "import torch\ntorch.manual_seed(7)\nf = torch.compile(lambda x: F.dropout(x.sin(), 0.5))\n"
    text += "import torch.nn.functional as F\nprint(f(torch.randn(3)).tolist(), torch.randn(3).tolist())\n"
    script = write(tmp_path, text)
    (tmp_path / "out").mkdir()
    plain = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env=environment() | {"TORCHDYNAMO_DISABLE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    command = [sys.executable, "-m", "minifier.record", str(tmp_path / "out"), "dynamo", after, "", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    assert len(recorded(tmp_path / "out")) == 1


BACKEND = """
import torch
import dynamo

WRONG = 2.0


def times(node):
    return "mul" in str(node.target)


@dynamo.register_backend
def halves(gm, inputs):
    for node in filter(times, list(gm.graph.nodes)):
        node.args = (node.args[0], WRONG)
    gm.recompile()
    return gm.forward


if __name__ == "__main__":
    WRONG = float("nan")
    torch.compile(lambda x: x.sin() * 4, backend=%s)(torch.ones(3))
"""


def test_backend_of_the_script_itself_is_found_by_other_processes(tmp_path: Path) -> None:
    script = write(tmp_path, BACKEND % "halves")
    found = recorded_run(tmp_path / "out", str(tmp_path / script), (), "dynamo", "dynamo", "", 120.0)[1][0]
    setting = found.setting("dynamo", "dynamo", True, str(tmp_path / "out" / VALUES))
    assert found.graph is not None
    outcome = judge(found.graph, setting)

    assert (found.backend, outcome.verdict) == ("script_backend:halves", Verdict.INTERESTING), outcome.detail
    assert outcome.signature is not None and outcome.signature.accuracy == "value"  # what runs the script is not run


def test_a_graph_that_cannot_be_judged_is_not_called_healthy(tmp_path: Path) -> None:
    script = write(tmp_path, BACKEND % "(lambda bits: lambda gm, inputs: bits and gm.forward)(8)")
    done = run("minify", script, "--accuracy", cwd=tmp_path, timeout=400)

    assert (done.returncode, done.stdout) == (4, "not looked at\n")
    assert "graph 0/0 can't be judged: no other process finds the backend __main__:<lambda>.<locals>.<lambda>; define it" in done.stderr


def test_damaged_recording_is_named(tmp_path: Path) -> None:
    (tmp_path / "0000.json").write_text('{"backend": "eager"}')
    with pytest.raises(GraphError, match=r"0000\.json: not a recorded graph"):
        recorded(tmp_path)


ACCIDENT = """
from pathlib import Path

seen = Path(__file__).with_name("seen")
if not seen.exists():
    seen.touch()
    raise RuntimeError("an accident")
"""


@pytest.mark.slow
def test_a_run_that_fails_once_hides_no_failing_graph(tmp_path: Path) -> None:
    done = run("minify", write(tmp_path, ACCIDENT + MODEL % "relu_compile_error_TESTING_ONLY"), "--json", cwd=tmp_path, timeout=400)
    report = json.loads(done.stdout)

    assert [report[k] for k in ("status", "stage", "op_nodes")] == ["reproduced", "backend", 1]


PACKAGE = {
    "__init__": "",
    "net": """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        y = torch.sin(x)
        print("between")
        return y * 2
""",
    "ops": "import torch\n\nREFUSED = torch.tanh\n",
    "captured": """
import torch
from .net import Net

torch.compile(Net(), backend="eager", fullgraph=True)(torch.ones(3))
""",
    "__main__": """
import sys
import torch
from . import ops
from .ops import REFUSED

def refuses(gm, inputs):
    if any(n.target is ops.REFUSED for n in gm.graph.nodes):
        raise LookupError("no tanh today")
    return gm.forward

assert (__package__, sys.argv[1:], REFUSED) == ("package", ["--steps", "2"], torch.tanh)
torch.compile(lambda x: torch.tanh(torch.sin(x)) * 2, backend=refuses)(torch.ones(3))
""",
}


@pytest.mark.parametrize(
    "arguments, stage, files",
    [
        (("package", "--", "--steps", "2"), "backend", ["package/__init__.py", "package/ops.py", "repro.py", "script_backend.py"]),
        pytest.param(("package.captured",), "capture", ["package/__init__.py", "package/net.py", "repro.py"], marks=pytest.mark.slow),
    ],
    ids=["graph", "source"],
)
def test_module_of_a_package_ends_at_a_repro_that_needs_no_folder(
    tmp_path: Path, arguments: tuple[str, ...], stage: str, files: list[str]
) -> None:
    (tmp_path / "package").mkdir()
    for name, text in PACKAGE.items():
        write(tmp_path, text, f"package/{name}.py")
    done = run("minify", "--json", "-m", *arguments, cwd=tmp_path, timeout=400)
    report = json.loads(done.stdout)

    assert (done.returncode, report["stage"], report["status"]) == (1, stage, "reproduced"), done.stderr
    (tmp_path / "elsewhere").mkdir()
    unpacked = run("run", report["bundle"], "--to", "elsewhere/repro", "--json", cwd=tmp_path, timeout=200)
    assert json.loads(unpacked.stdout)["status"] == "reproduced"
    shutil.rmtree(tmp_path / "package")
    place = tmp_path / "elsewhere" / "repro"
    assert sorted(p.relative_to(place).as_posix() for p in place.rglob("*.py")) == files
    assert subprocess.run([sys.executable, str(place / "repro.py")], cwd=place, env=environment(), timeout=200, check=False).returncode == 1


def test_modules_that_are_not_there_have_one_line(tmp_path: Path) -> None:
    for command in ("minify", "bisect", "profile", "record"):
        done = run(command, "-m", "nowhere.at_all", cwd=tmp_path)

        assert done.returncode == 2
        assert "error[CL001]: -m nowhere.at_all: no such module" in done.stderr


READING = """
import sys
from pathlib import Path
import torch

limit = int(open("limits/rows.txt").read())
scale = int((Path(__file__).parent / sys.argv[1]).read_text())
f = torch.compile(lambda x: x.tolist() if limit + scale == 7 else x, fullgraph=True)
f(torch.ones(2))
"""


@pytest.mark.slow
def test_a_script_that_reads_files_is_reduced_with_copies_of_them(tmp_path: Path) -> None:
    (tmp_path / "limits").mkdir()
    (tmp_path / "limits" / "rows.txt").write_text("3")
    (tmp_path / "scale.txt").write_text("4")

    done = run("minify", "--json", write(tmp_path, READING), "scale.txt", cwd=tmp_path, timeout=300)

    found = json.loads(done.stdout)
    assert (done.returncode, found["status"], found["stage"]) == (1, "reproduced", "capture"), done.stderr
    shown = run("run", "--show", "--json", str(tmp_path / "minified" / "repro.ddbg"), cwd=tmp_path)
    assert "limits/rows.txt" in shown.stdout or "limits" not in (tmp_path / found["repro"]).read_text()
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (tmp_path / "minified" / "repro.ddbg").rename(moved / "repro.ddbg")
    shutil.rmtree(tmp_path / "limits")
    assert run("run", "repro.ddbg", cwd=moved, timeout=200).returncode == 1
