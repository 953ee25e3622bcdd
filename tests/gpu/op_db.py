"""The first sample of every operator of torch's test database on the device: `python -m tests.gpu.op_db [--jobs 12] [--seconds 500]`.

Forward in four dtypes, gradients in float32, compared with eager there. Without pytest; operators are dealt out to processes, and
one whose context dies goes on behind the operator that killed it. The last lines say what differed; what ran out of time is counted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.utils._pytree import tree_map

import dynamo
from dynamo.trace.events import Note

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
DEAD = ("CUDA error", "an illegal memory access")
UNDEFINED = {  # results that hold nothing, where nothing is drawn: the state of a generator
    "torch.ops.aten._efficient_attention_forward": "result 2:",
    "torch.ops.aten._flash_attention_forward": "result 2:",
}
FELL_BACK = ("DI001", "DI002", "DI021")


def check(op: Any, dtype: torch.dtype) -> tuple[str, list[str]]:
    """'' or how compiled differs from eager, and the notes about what could not be compiled."""
    from tests.inductor import sweep  # the database takes seconds to import, and only workers need it

    case = sweep.draw(op, dtype, "cuda", 1)
    why, store = case.check()
    if why and (why.startswith(UNDEFINED.get(op.name, "?")) or (dtype is torch.bfloat16 and why.startswith("result") and is_nearer(case))):
        why = ""
    return why, [f"{n.id}: {n.message}" for n in store.of(Note) if n.id in FELL_BACK]


def is_nearer(case: Any) -> bool:
    """Whether compiled is no farther from what float64 gives than eager, which rounds in between: a running sum in bfloat16 is far off."""
    from tests.inductor import sweep  # as above

    wide = tree_map(lambda v: v.detach().double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v, case.samples)
    exact = sweep.evaluate(sweep.program(case.op.op), sweep.Case(case.op, torch.float64, wide, case.finish))
    eager = sweep.evaluate(sweep.program(case.op.op), case)
    ours = sweep.evaluate(dynamo.compile(sweep.program(case.op.op), backend="inductor"), case)
    return all(distance(o, x) <= distance(e, x) for o, e, x in zip(ours, eager, exact, strict=True) if isinstance(x, torch.Tensor))


def distance(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.detach().double() - exact.detach().double()).norm())


def worker(part: int, parts: int, start: int, seconds: float) -> int:
    """One line per case, `STATE position operator dtype what`. Exits with 3 when the device's context is gone."""
    from torch.testing._internal.common_methods_invocations import op_db  # as above

    from tests.inductor import sweep  # as above

    end = time.monotonic() + seconds
    with sweep.samples_unseeded():
        for at in range(start, len(op_db[part::parts])):
            op = op_db[part::parts][at]
            for dtype in DTYPES:
                if not op.supports_dtype(dtype, "cuda"):
                    continue
                case = f"{at} {sweep.name_of(op)} {str(dtype).removeprefix('torch.')}"
                if time.monotonic() > end:
                    print(f"LATE {case}", flush=True)
                    continue
                try:
                    why, notes = check(op, dtype)
                except Exception as error:  # noqa: BLE001  drawing samples may fail too, and the next case may tell more
                    why, notes = f"{type(error).__name__}: {error}", []
                text = " ".join((why or "; ".join(notes)).split())[:400]
                print(f"{'WRONG' if why else 'NOTED' if notes else 'EQUAL'} {case} {text}", flush=True)
                if any(d in why for d in DEAD):
                    return 3
    return 0


def lines_of(part: int, parts: int, seconds: float) -> list[str]:
    """All lines of one share of the operators, in as many processes as contexts die."""
    end, start, lines = time.monotonic() + seconds, 0, []
    while True:
        command = [sys.executable, "-m", "tests.gpu.op_db", "--worker", str(part), str(parts), str(start), str(end - time.monotonic())]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = [line for line in done.stdout.splitlines() if line.startswith(("EQUAL", "NOTED", "WRONG", "LATE"))]
        lines += found
        if done.returncode == 0:
            return lines
        if not found:
            return [*lines, f"WRONG {start} a-worker died {' '.join(done.stderr.split())[-600:]}"]
        start = int(found[-1].split()[1]) + 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=12, help="processes beside each other")
    parser.add_argument("--seconds", type=float, default=500, help="after this no case is started")
    parser.add_argument("--worker", nargs=4, metavar=("PART", "PARTS", "START", "SECONDS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        part, parts, start = map(int, given.worker[:3])
        return worker(part, parts, start, float(given.worker[3]))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    with ThreadPoolExecutor(given.jobs) as pool:
        shares = list(pool.map(lambda part: lines_of(part, given.jobs, given.seconds), range(given.jobs)))
    lines = sorted(line for share in shares for line in share)
    count = Counter(line.split()[0] for line in lines)
    for line in lines:
        if not line.startswith(("EQUAL", "LATE")):
            state, _, rest = line.partition(" ")
            print(state, rest.partition(" ")[2])
    print(
        f"{count['EQUAL'] + count['NOTED']} equal ({count['NOTED']} not by kernels alone), {count['WRONG']} wrong, {count['LATE']} not run"
    )
    return int(count["WRONG"] > 0)


if __name__ == "__main__":
    sys.exit(main())
