"""How long each command takes on a large record.

    python -m tests.benchmarks.records [--megabytes 77] [--record DIR] [--keep DIR]

A record is written (of a GPT-2-like stack of layers, or the one named) and repeated under new compile ids until it has the size; then every
command that takes a record runs on it, text and JSON. Prints seconds per command, and exits with 1 when one takes longer than `--limit`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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


def measure(record: Path) -> dict[str, float]:
    """Seconds of every command, text and JSON, as a user waits for them."""
    rows = [(name, [name, str(record)]) for name in COMMANDS]
    rows += [(f"{name} --json", [name, "--json", str(record)]) for name in COMMANDS]
    rows += [("export --to chrome", ["export", str(record)]), ("compare with itself", ["compare", str(record), str(record)])]
    found = {}
    for name, arguments in rows:
        start = time.perf_counter()
        subprocess.run([*COMMAND, *arguments], check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        found[name] = time.perf_counter() - start
    return found


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
        times = measure(record)
    for name, seconds in times.items():
        print(f"{name:<22} {seconds:6.2f} s{'  over the limit' if seconds > options.limit else ''}")
    return int(max(times.values()) > options.limit)


if __name__ == "__main__":
    sys.exit(main())
