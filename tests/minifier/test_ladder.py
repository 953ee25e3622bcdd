"""The ladder: which graph fails first, at which stage, with gradients only where it needs them."""

from __future__ import annotations

import contextlib
import json
import random
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import fx

from dynamo.faults.planting import planted
from minifier.engine import FunctionTransport, Kind, Outcome, Signature, Verdict
from minifier.graph.fx import from_fx
from minifier.graph.ir import Graph, load
from minifier.ladder import Found, Ladder, run_in_eager, runs
from minifier.ladder.patience import first_run
from minifier.ladder.probe import answer
from minifier.recordings import Recorded
from minifier.state import State


def plain(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) + 1


def waves(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * x


def climbed(fault: str, folder: Path, backend: str = "inductor", accuracy: bool = False) -> tuple[Found | None, Ladder]:
    """What the ladder finds in a script of two graphs, with a fault planted in this process."""
    graphs = [Recorded(n, backend, False, recorded(f, folder), name=f"{n}/0", state=State()) for n, f in enumerate((plain, waves))]
    ladder = Ladder("dynamo", accuracy, folder, folder, transport=FunctionTransport(judged))
    with planted(fault):
        return ladder.first_failure(graphs, "dynamo"), ladder


def judged(asked: bytes) -> Outcome:
    return answer(asked)


def recorded(program: object, folder: Path) -> Graph:
    return from_fx(fx.symbolic_trace(program), [torch.rand(8, requires_grad=True)], folder)  # type: ignore[arg-type]  # a function


@pytest.mark.parametrize(
    "fault, accuracy, stage",
    [("lower-error:op=sin", False, "codegen"), ("aot-error:op=sin", False, "aot"), ("scaled:op=sin", True, "codegen")],
)
def test_stage_and_graph_are_named(tmp_path: Path, fault: str, accuracy: bool, stage: str) -> None:
    found, ladder = climbed(fault, tmp_path, accuracy=accuracy)

    assert found is not None
    assert (found.stage, found.recorded.name) == (stage, "1/0")
    assert found.setting.backend == ("aot_eager" if stage == "aot" else "inductor")
    assert found.outcome.signature is not None
    assert ladder.problems == []
    assert len(ladder.asked) >= 3


def test_what_comes_and_goes_is_of_the_first_stage_that_shows_it(tmp_path: Path) -> None:
    """Seven of ten runs of a tracer that fails three times in ten show nothing, under the shorter backend too."""
    graph = Recorded(0, "inductor", False, recorded(waves, tmp_path), name="0/0", state=State())
    stages = []
    for seed in range(40):
        draw = random.Random(seed)
        failure = Outcome(Verdict.INTERESTING, Signature(Kind.EXCEPTION, exceptions=("Refused",)))
        transport = FunctionTransport(lambda asked, d=draw, f=failure: f if d.random() < 0.3 else Outcome(Verdict.BORING))  # type: ignore[misc]
        found = Ladder("dynamo", False, tmp_path, tmp_path, transport=transport).first_failure([graph], "dynamo")
        stages.append("" if found is None else found.stage)

    assert stages.count("aot") >= 38


@pytest.mark.parametrize("home, runs", [("torch._inductor.exc", 5), ("somewhere", 9)])
def test_what_code_generation_raises_was_seen_to_come_past_all_before_it(tmp_path: Path, home: str, runs: int) -> None:
    asked = []

    def judge(question: bytes) -> Outcome:
        asked.append(json.loads(question)["setting"]["backend"])
        failure = Outcome(Verdict.INTERESTING, Signature(Kind.EXCEPTION, exceptions=(f"{home}.Refused",)))
        return failure if asked[-1] == "inductor" else Outcome(Verdict.BORING)

    graph = Recorded(0, "inductor", False, recorded(waves, tmp_path), name="0/0", state=State())
    found = Ladder("torch", False, tmp_path, tmp_path, transport=FunctionTransport(judge)).first_failure([graph], "dynamo")

    assert found is not None and (found.stage, len(found.again)) == ("codegen", 2)
    assert len(asked) == runs and set(asked) == {"inductor", "aot_eager", "eager"}


def test_what_only_a_fork_dies_of_is_not_the_failure(tmp_path: Path) -> None:
    backend = "tests.minifier.backends:refuses_and_survives_no_fork"
    graphs = [Recorded(n, backend, False, recorded(f, tmp_path), name=f"{n}/0", state=State()) for n, f in enumerate((plain, waves))]
    with contextlib.closing(Ladder("dynamo", False, tmp_path, tmp_path / "ladder")) as ladder:
        found = ladder.first_failure(graphs, "dynamo")

    assert found is not None and found.recorded.name == "1/0"
    assert found.outcome.signature is not None and found.outcome.signature.exceptions == ("tests.minifier.backends.LoweringError",)


def test_backward_needs_gradients(tmp_path: Path) -> None:
    found, _ = climbed("wrong-operator", tmp_path, accuracy=True)

    assert found is not None
    assert found.setting.backward
    assert found.stage == "aot"


def test_backend_of_the_program_is_a_stage(tmp_path: Path) -> None:
    found, _ = climbed("", tmp_path, "relu_compile_error_TESTING_ONLY")
    assert found is None

    graph = recorded(lambda x: torch.relu(x), tmp_path)
    ladder = Ladder("dynamo", False, tmp_path, tmp_path, transport=FunctionTransport(judged))
    found = ladder.first_failure([Recorded(0, "relu_compile_error_TESTING_ONLY", False, graph, name="0/0")], "dynamo")
    assert found is not None
    assert found.stage == "backend"


def test_healthy_graphs_are_not_found_failing(tmp_path: Path) -> None:
    found, ladder = climbed("", tmp_path, accuracy=True)

    assert found is None
    assert [a.partition(": ")[2] for a in ladder.asked] == ["boring, no failure"] * 4


def test_graph_that_can_t_be_judged_is_told(tmp_path: Path) -> None:
    found, ladder = climbed("", tmp_path, "no_such_backend")

    assert found is None
    assert len(ladder.problems) == 2
    assert "graph 0/0 can't be judged: unknown backend 'no_such_backend'" in ladder.problems[0]


def test_names_of_graphs() -> None:
    backward = Recorded(3, "inductor", True, None, name="3/1.bw")

    assert [backward.answers_to(name) for name in ("", "3/1", "3/1.bw", "3/1.fw", "3")] == [True, True, True, False, False]


def test_backward_graph_is_compiled_as_one(tmp_path: Path) -> None:
    """A compiled backward graph may use the memory of what it is given: that is no wrong result."""
    seen = []

    def program(tangent: torch.Tensor, saved: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.mul.Tensor(torch.ops.aten.exp.default(tangent), saved)

    graph = from_fx(fx.symbolic_trace(program), [torch.rand(64), torch.rand(64)], tmp_path)
    for is_backward in (False, True):
        one = Recorded(0, "inductor", is_backward, graph, name="0/0.bw", state=State(grad=False))
        ladder = Ladder("dynamo", True, tmp_path, tmp_path, transport=FunctionTransport(judged))
        assert ladder.first_failure([one], "aot") is None
        seen += ladder.asked
        assert ladder.problems == []
    assert len(seen) == 2
    assert Verdict.BORING.value in seen[0]


def test_aten_graphs_under_a_healthy_backend_of_the_program(tmp_path: Path) -> None:
    """It makes what is called with inputs one by one, as of captured graphs."""
    graph = from_fx(fx.symbolic_trace(lambda x, y: torch.ops.aten.mul.Tensor(x, y)), [torch.rand(8), torch.rand(8)], tmp_path)
    one = Recorded(0, "tests.minifier.backends:wrong_relu", False, graph, name="0/0.fw", state=State(grad=False))
    ladder = Ladder("dynamo", True, tmp_path, tmp_path, transport=FunctionTransport(judged))

    assert ladder.first_failure([one], "aot", tries=1) is None
    assert ladder.problems == []
    assert Verdict.BORING.value in ladder.asked[0]


@pytest.mark.parametrize("is_backward", [False, True])
def test_nodes_of_a_backward_graph_are_of_the_backward(tmp_path: Path, is_backward: bool) -> None:
    """What the compiler does with gradients only, it does with a backward graph alone too."""
    graph = from_fx(fx.symbolic_trace(lambda x: torch.ops.aten.exp.default(x)), [torch.rand(64)], tmp_path)
    one = Recorded(0, "inductor", is_backward, graph, name="0/0.bw", state=State(grad=False))
    ladder = Ladder("dynamo", False, tmp_path, tmp_path, transport=FunctionTransport(judged))

    with planted("lower-error:op=exp,backward=1"):
        found = ladder.first_failure([one], "aot")

    assert (found is not None) is is_backward


def test_graphs_are_tried_again_where_none_fails(tmp_path: Path) -> None:
    asked = []

    def judged_later(question: bytes) -> Outcome:
        asked.append(question)
        return judged(question) if len(asked) > 9 else Outcome(Verdict.BORING)

    graphs = [Recorded(1, "inductor", False, recorded(waves, tmp_path), name="1/0", state=State())]
    ladder = Ladder("dynamo", False, tmp_path, tmp_path, transport=FunctionTransport(judged_later))
    with planted("lower-error:op=sin"):
        assert ladder.first_failure(graphs, "dynamo", tries=1) is None
        assert len(asked) == 2
        found = ladder.first_failure(graphs, "dynamo")

    assert found is not None
    assert found.stage == "codegen"
    assert len(ladder.asked) == len(set(ladder.asked))


def test_a_script_that_does_not_end_is_stopped_with_all_that_it_started(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import subprocess\nchild = subprocess.Popen(['sleep', '1000'])\nprint(child.pid, flush=True)\nchild.wait()\n")
    ended = run_in_eager(str(script), (), "dynamo", 8.0)

    assert (ended.timed_out, ended.error) == (True, "it does not end within 8 s")
    deadline = time.monotonic() + 30
    while (state := state_of(ended.said.splitlines()[-1])) not in "ZX" and time.monotonic() < deadline:
        time.sleep(0.05)  # a signal that ends it is one thing, that it gets a core to end on another
    assert state in "ZX"


def state_of(pid: str) -> str:
    """What Linux says of a process; 'X' of one that is gone. One that was ended stays until its new parent looks."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


class Timed(FunctionTransport):
    """Runs take so many seconds per operation and stop at the limit; with an operation that hangs they never end otherwise."""

    def __init__(self, each: float, hangs: str = "", longest: float = 300.0) -> None:
        super().__init__(self.judge)
        self.each, self.hangs, self.longest = each, hangs, longest
        self.limit = longest
        self.waited: list[float] = []

    def calibrated(self, seconds: float) -> None:
        self.limit = min(self.longest, 10 * seconds)

    def judge(self, asked: bytes) -> Outcome:
        nodes = load(asked).nodes
        seconds = self.each * len(nodes) if not any(n.target == self.hangs for n in nodes) else float("inf")
        self.waited.append(min(seconds, self.limit))
        if seconds > self.limit:
            return Outcome(Verdict.INTERESTING, Signature(Kind.HANG), self.limit)
        return Outcome(Verdict.BORING, seconds=seconds)


def steps(x: torch.Tensor) -> torch.Tensor:
    for function in (torch.cos, torch.exp, torch.tanh, torch.sin, torch.neg, torch.abs, torch.erf, torch.relu):
        x = function(x)
    return x


@pytest.mark.parametrize(
    "each, hangs, verdict, needs, most",
    [
        (0.25, "", Verdict.BORING, 0.0, 2.0),
        (0.25, "torch.sin", Verdict.INTERESTING, 2.0, 63.0),  # one half hangs, the other ends and says it
        (0.25, "torch.tanh", Verdict.INTERESTING, 2.0, 63.0),
        (5.0, "", Verdict.BORING, 40.0, 91.0),  # 40 seconds are more than anybody expects, and less than parts say
        (40.0, "", Verdict.INTERESTING, 3.0, 300.0),  # longer than can be waited for
    ],
)
def test_parts_of_a_graph_say_how_long_it_may_take(
    tmp_path: Path, each: float, hangs: str, verdict: Verdict, needs: float, most: float
) -> None:
    transport = Timed(each, hangs)
    heard: list[str] = []
    told = first_run(recorded(steps, tmp_path), transport, "graph 0/0", heard.append)

    assert (told.outcome.verdict, told.needs) == (verdict, needs)
    assert sum(transport.waited) <= most
    assert heard == (["graph 0/0 still runs after 30 s; parts of it say how long it may"] if needs else [])
    assert transport.limit >= min(transport.longest, 10 * needs)


def test_a_hang_is_found_with_what_a_run_that_ends_needs(tmp_path: Path) -> None:
    class Unposed(Timed):
        def judge(self, asked: bytes) -> Outcome:
            return super().judge(json.dumps(json.loads(asked)["graph"]).encode())

    ladder = Ladder("dynamo", False, tmp_path, tmp_path, transport=Unposed(0.1, "torch.sin"))
    found = ladder.first_failure([Recorded(0, "inductor", False, recorded(steps, tmp_path), name="0/0", state=State())], "dynamo")

    assert found is not None
    assert (found.stage, found.needs, str(found.outcome.signature)) == ("aot", pytest.approx(0.8), "hang")


@pytest.mark.parametrize("takes, soon, limit, ends", [(1000.0, 0.1, 0.2, False), (0.5, 0.1, 60.0, True), (0.0, 60.0, 0.0, True)])
def test_a_script_that_takes_long_is_given_what_one_without_a_compiler_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes: float, soon: float, limit: float, ends: bool
) -> None:
    monkeypatch.setattr(runs, "SOON", soon)
    monkeypatch.setattr(runs, "environment", lambda: {})
    asked = []
    command = [sys.executable, "-S", "-c", f"import time; time.sleep({takes})"]
    ended = runs._run(command, 120.0, limit=lambda: asked.append(1) or runs.Limit(limit, 1000.0))

    assert (ended.timed_out, len(asked)) == (not ends, int(soon < 60))


@pytest.mark.parametrize("does, ends", [("time.sleep(1000)", False), ("time.sleep(7)", True), ("while True: pass", False)])
def test_a_script_that_stands_still_is_ended_before_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, ends: bool
) -> None:
    monkeypatch.setattr(runs, "SOON", 1.0)
    (tmp_path / "script.py").write_text(f"import time\n{does}\n")
    still = 5.0 if ends else 2.0
    ended, _ = runs.recorded_run(
        tmp_path / "graphs", str(tmp_path / "script.py"), (), "dynamo", "dynamo", "", 60.0, lambda: runs.Limit(50.0, still)
    )

    assert (ended.timed_out, ended.seconds < 30) == (not ends, True)


FORKS = """
import os
import torch

def compiled(fn):
    return torch.compile(fn)(torch.ones(2))

compiled(lambda x: x + 1)
children = []
for fn in (torch.sin, torch.cos):
    children.append(os.fork())
    if not children[-1]:
        compiled(lambda x: fn(x))
        os._exit(0)
for child in children:
    os.waitpid(child, 0)
compiled(lambda x: x.tan())
"""


def test_graphs_of_forks_are_recorded_beside_those_of_the_script(tmp_path: Path) -> None:
    script = tmp_path / "forks.py"
    script.write_text(FORKS)

    ended, graphs = runs.recorded_run(tmp_path / "out", str(script), (), "dynamo", "dynamo", "", 120.0)

    assert ended.is_well, ended.said
    assert [g.number for g in graphs] == [0, 1, 2, 3]
    found = {str(node.target).rpartition(".")[2] for g in graphs if g.graph is not None for node in g.graph.nodes}
    assert found == {"add", "sin", "cos", "tan"}


GARBAGE = """
import gc, os, sys
import torch

class Finalized:
    def __init__(self):
        self.own = self

    def __del__(self, write=os.write):
        write(1, b"finalized")

kept = Finalized()
gone = [m for m in gc.get_objects() if m is vars(torch)]
sys.exit(2 * len(gone) + (not any(o is kept for o in gc.get_objects())))
"""


@pytest.mark.parametrize("engine", ["torch", "dynamo"])
def test_a_script_that_is_recorded_is_looked_through_for_garbage_and_torch_is_not(tmp_path: Path, engine: str) -> None:
    (tmp_path / "script.py").write_text(GARBAGE)
    ended, _ = runs.recorded_run(tmp_path / "out", str(tmp_path / "script.py"), (), engine, "dynamo", "", 120.0)

    assert ended.code == 0, ended.said
    assert ended.said == "finalized"
