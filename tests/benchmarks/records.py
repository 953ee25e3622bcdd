"""What each command costs on a large record.

    python -m tests.benchmarks.records [--megabytes 77] [--record DIR] [--limit 3]

A record is written (of a GPT-2-like stack of layers, or the one named) and repeated under new compile ids until it has the size; then every
command that takes a record runs on it, text and JSON. Prints seconds of CPU (user and system) per command, and in brackets those on the
clock, which say little on a busy machine. Exits with 1 when one costs more CPU than `--limit`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dynamo.trace.record import EVENTS, LONG_TEXT

COMMAND = [sys.executable, "-c", "from tui.main import main; main()"]
MEGABYTE = 1 << 20
COMMANDS = ("explain", "graphs", "guards", "breaks", "recompiles", "kernels", "passes", "timeline", "tui")
_NAMED = ("compile_id", "graph_id", "parent")
_ONCE = ("header", "run_started", "run_ended", "end", "source_read")

PROGRAM = """
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)
        self.up = torch.nn.Linear(32, 64)
        self.down = torch.nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Block() for _ in range(12))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        print("hidden", x.shape)
        return x.mean()

model = torch.compile(Model())
for size in (4, 5, 6):
    model(torch.randn(size, 32)).backward()
"""


def make(folder: Path, megabytes: float, given: Path | None = None) -> Path:
    """A record of that size below `folder`, made of a real one."""
    seed = given
    if seed is None:
        (folder / "program.py").write_text(PROGRAM)
        seed = folder / "seed"
        subprocess.run([*COMMAND, "trace", "-o", str(seed), str(folder / "program.py")], check=True, capture_output=True)
    lines = [json.loads(line) for line in (seed / EVENTS).read_text(encoding="utf-8").splitlines()]
    frames = {v["compile_id"].split("/")[0] for v in lines if "compile_id" in v}
    events = [v for v in lines if v["kind"] not in _ONCE]
    out = folder / "large"
    out.mkdir()
    os.symlink((seed / "artifacts").resolve(), out / "artifacts")
    written, count, copy = 0, 0, 0
    with open(out / EVENTS, "w", encoding="utf-8") as file:
        for v in (v for v in lines if v["kind"] in _ONCE[:2] + _ONCE[-1:]):
            written += file.write(json.dumps(v, separators=(",", ":")) + "\n")
            count += v["kind"] != "header"
        while written < megabytes * MEGABYTE:
            for v in events:
                again = {**v, **{name: _moved(v[name], copy * len(frames)) for name in _NAMED if v.get(name)}}
                written += file.write(json.dumps(again, separators=(",", ":")) + "\n")
                count += 1
            copy += 1
        for v in lines:
            if v["kind"] == "run_ended":
                file.write(json.dumps(v, separators=(",", ":")) + "\n")
                count += 1
        file.write(json.dumps({"kind": "end", "events": count}) + "\n")
    return out


def _moved(compile_id: str, by: int) -> str:
    frame, slash, rest = compile_id.partition("/")
    return f"{int(frame) + by}{slash}{rest}" if frame.isdigit() else compile_id


class Cost(NamedTuple):
    """Seconds of CPU, and on the clock."""

    cpu: float
    clock: float


def measure(record: Path) -> dict[str, Cost]:
    """What every command costs, text and JSON, from its start to its end."""
    rows = [(name, [name, str(record)]) for name in COMMANDS]
    rows += [(f"{name} --json", [name, "--json", str(record)]) for name in COMMANDS]
    rows += [("export --to chrome", ["export", str(record)]), ("export --to dot", ["export", "--to", "dot", str(record)])]
    rows += [("compare", ["compare", str(record), str(record)]), ("compare --json", ["compare", "--json", str(record), str(record)])]
    return {name: cost([*COMMAND, *arguments]) for name, arguments in rows}


def cost(command: Sequence[str]) -> Cost:
    before, start = _spent(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    return Cost(_spent() - before, time.perf_counter() - start)


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=77.0)
    parser.add_argument("--record", type=Path, help="a record to make it of")
    parser.add_argument("--limit", type=float, default=3.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        record = make(Path(folder), options.megabytes, options.record)
        size = (record / EVENTS).stat().st_size / MEGABYTE
        print(f"record of {size:.0f} MB, texts longer than {LONG_TEXT} characters beside it")
        costs = measure(record)
    for name, found in costs.items():
        print(f"{name:<20} {found.cpu:6.2f} s  ({found.clock:.2f} s){'  over the limit' if found.cpu > options.limit else ''}")
    return int(max(found.cpu for found in costs.values()) > options.limit)


if __name__ == "__main__":
    sys.exit(main())
