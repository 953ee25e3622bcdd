"""What is generated for the rows of `gpu.py`, without a device: `python -m tests.benchmarks.gpu_shapes --rows "column sum" --compile`.

A line per kernel: its shape, the programs, and the megabytes of what it reads and writes, each buffer once. Their sum beside the bytes of
the row says how often memory is walked, and its kernels what starting them costs (about a microsecond each in a CUDA graph).
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from dynamo.decisions import compiling
from inductor.compile import device_of
from inductor.ir.nest import Extern
from inductor.lowering.graph import lower_graph
from inductor.passes.rewrite import rewrite
from inductor.schedule.plan import Plan, schedule
from inductor.schedule.reuse import touched
from inductor.targets.triton.bundle import parted
from inductor.targets.triton.target import TritonTarget
from tests.benchmarks.gpu import ROWS, Row
from tests.inductor.triton.seam import compiled_for, function_text, registers_and_spills


def plan_of(row: Row) -> tuple[Plan, list[str]]:
    """The schedule of a row, and the files of its kernels."""
    with FakeTensorMode():
        gm = make_fx(row.fn)(*row.make())
    target = TritonTarget()
    with compiling("shapes", "shapes.fw"):
        program, _ = lower_graph(rewrite(gm), str(device_of(gm)), draws=True)
        plan = schedule(program, target)
    return plan, parted(target.source(plan))


def describe(row: Row, *, compiles: bool, prints: bool) -> None:
    plan, files = plan_of(row)
    buffers, texts, total = plan.program.buffers, iter(files), 0.0
    print(f"{row.name}: {row.megabytes:.0f} MB, rule {row.rule:.0f} %")
    for step in plan.steps:
        moved = sum(buffers[b].nbytes for b in touched(step)) / 1e6
        total += moved
        if isinstance(step, Extern):
            print(f"  {step.target}: {moved:.1f} MB")
            continue
        text = next(texts)
        grid = re.search(r"^GRID = \((.*),\)$", text, re.MULTILINE)
        print(f"  {step.name} {'; '.join(step.how())}, {grid[1] if grid else '?'} programs: {moved:.1f} MB")
        if compiles:
            with tempfile.TemporaryDirectory() as folder:
                kernel = compiled_for(text, 90, Path(folder))
                if kernel is not None:
                    registers, spills = registers_and_spills(kernel)
                    print(f"    {registers} registers, {spills} bytes of spills, {kernel.metadata.shared} bytes shared")
        if prints:
            print(function_text(text))
    print(f"  {len(plan.steps)} steps, {total:.0f} MB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="", help="only rows whose name has this")
    parser.add_argument("--compile", action="store_true", help="for compute capability 9.0, a few seconds per kernel")
    parser.add_argument("--text", action="store_true", help="print the kernels")
    options = parser.parse_args()
    for row in ROWS:
        if options.rows in row.name:
            try:
                describe(row, compiles=options.compile, prints=options.text)
            except RuntimeError as error:  # a few operators ask for the device itself while they are traced
                print(f"{row.name}: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
