"""`dynamo-debug minify --engine torch` beside torch's own minifier in isolated mode, from the same failing scripts, end to end.

    python -m tests.benchmarks.minifying_scripts [--times N] [--ops N ...] [--kinds chain dag]

A script compiles a seeded graph that holds one operation of the kind that torch's own test suite injects a bug into. The peer is run as its
users do: `TORCHDYNAMO_REPRO_AFTER=aot` writes a launcher, and the launcher asks in a new interpreter per query. It is stopped after
`--times` the time that ours took, each time on the clock, since the two run one after the other on the same machine; CPU time of all
processes is shown beside. Both have their caches in an empty folder.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HEAD = """import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"


def f(v0, v1):
"""
TAIL = """

torch.manual_seed(0)
torch.compile(f)(torch.randn(8, 16), torch.randn(8, 16))
"""
OPERATIONS = ("torch.sin({0})", "torch.cos({0})", "torch.tanh({0})", "{0} + {1}", "{0} * {1}", "torch.maximum({0}, {1})")


@dataclass
class Row:
    """Seconds on the clock and of CPU, operations left, and whether it came to its end with a repro."""

    seconds: float
    cpu: float
    left: int
    ended: bool


def script(kind: str, count: int) -> str:
    """A chain reads the last value, a dag one of the last four. What nothing reads is a result, so that no operation is dead."""
    draw = random.Random(f"{kind} {count}")
    lines: list[str] = []
    reach = 1 if kind == "chain" else 4
    unread: dict[str, None] = {}
    for i in range(2, count + 2):
        names = [f"v{draw.randrange(max(0, i - reach), i)}" for _ in range(2)]
        made = (
            f"torch.relu({names[0]})" if i == 2 + count // 2 else draw.choice(OPERATIONS[: 3 if kind == "chain" else None]).format(*names)
        )
        lines.append(f"    v{i} = {made}\n")
        for read in re.findall(r"v\d+", made):
            unread.pop(read, None)
        unread[f"v{i}"] = None
    return HEAD + "".join(lines) + f"    return {', '.join(unread)}\n" + TAIL


def ours(folder: Path) -> Row:
    command = [sys.executable, "-m", "tui.main", "minify", "script.py", "--engine", "torch", "--json"]
    seconds, cpu, said = _timed([command], folder, {}, None)
    report = json.loads(said)
    return Row(seconds, cpu, report["op_nodes"], report["status"] == "reproduced" and report["one_minimal"])


def peer(folder: Path, limit: float) -> Row:
    debug = folder / "debug"
    variables = {"TORCHDYNAMO_REPRO_AFTER": "aot", "TORCH_COMPILE_DEBUG_DIR": str(debug), "TORCHDYNAMO_DEBUG_DIR": str(debug)}
    seconds, cpu, _ = _timed([[sys.executable, "script.py"]], folder, variables, limit)
    launchers = sorted(folder.rglob("minifier_launcher.py"))
    if not launchers:
        return Row(seconds, cpu, 0, False)
    more, used, _ = _timed(
        [[sys.executable, str(launchers[0].absolute()), "minify", "--isolate"]], launchers[0].parent, {}, limit - seconds
    )
    found = sorted(folder.rglob("repro.py"))
    kept = sorted(folder.rglob("checkpoints/*.py"), key=lambda p: p.stat().st_mtime)
    last = (found or kept or launchers)[-1].read_text()
    is_done = bool(found) and seconds + more < limit  # it may write a repro before its last
    return Row(seconds + more, cpu + used, last.count("torch.ops."), is_done)


def _timed(commands: list[list[str]], folder: Path, variables: dict[str, str], limit: float | None) -> tuple[float, float, str]:
    """The time of commands and of all that they start, and what the last one printed."""
    before, began, said = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), b""
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, **cache, **variables, "PYTHONPATH": os.getcwd()}
    for command in commands:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - began, used, said.decode()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=float, default=6.0, help="stop the peer after this many times our time")
    parser.add_argument("--ops", type=int, nargs="+", default=[24, 60], help="operations of the graphs")
    parser.add_argument("--kinds", nargs="+", default=["chain", "dag"], choices=["chain", "dag"])
    given = parser.parse_args()
    print(f"{'graph':<10}   {'ours: s':>8} {'cpu':>6} {'left':>4}   {'peer: s':>8} {'cpu':>7} {'left':>4}   ratio")
    missed = 0
    for kind, count in [(k, c) for c in given.ops for k in given.kinds]:
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            for place in (one, two):
                (Path(place) / "script.py").write_text(script(kind, count))
            a = ours(Path(one))
            b = peer(Path(two), given.times * a.seconds)
        ratio = b.seconds / a.seconds
        missed += not a.ended or ratio < 5
        theirs = f"{'' if b.ended else '>'}{b.seconds:.1f}"
        print(
            f"{kind} {count:<4}   {a.seconds:>8.1f} {a.cpu:>6.1f} {a.left:>4}   {theirs:>8} {b.cpu:>7.1f} {b.left:>4}   {ratio:.1f}",
            flush=True,
        )
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
