"""What `dynamo-debug fuzz` finds: faults planted one by one in our compiler and in backends as users write them.

    python -m tests.benchmarks.fuzzing --time 10m [--only NAME] [--kind ours|user|healthy] [--out DIR] [--jobs 2]

Prints a row per fault: whether a certified repro came out that works without the fault, programs drawn, seconds of searching and of making
it small, operations of the repro. With `--table` the rows of an earlier run in the same folder are printed again, and rows that are there
are not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

OURS = (
    "wrong-lowering:op=sin",
    "wrong-lowering:op=exp,as=exp2",
    "wrong-lowering:op=maximum,as=minimum",
    "wrong-lowering:op=sub,as=add,dtype=float64",
    "scaled:op=relu",
    "scaled:op=sum",
    "scaled:op=sqrt,numel=100",
    "nan:op=rsqrt",
    "truncated:op=mul,dtype=bfloat16",
    "ignored-strides:op=abs",
    "dropped-mask",
    "wrong-rewrite:op=abs",
    "bad-inline:op=mul",
    "alias-clobber",
    "wrong-text:op=sub,as=add",
    "bad-text:op=sqrt",
    "wrong-operator:op=mul,as=add,backward=1",
    "stale-guard:op=eq",
    "lower-error:op=tanh",
    "kernels-segfault:op=exp",
)
USERS = ("refuses_tanh", "wrong_exp", "drops_detach", "forgets_second_result", "keeps_first_call")
HEALTHY = "none"


@dataclass(frozen=True)
class Row:
    """One fault: what came of it. `seconds` are of searching, `reducing` of making the first failure small."""

    fault: str
    found: bool
    status: str
    stage: str
    programs: int
    seconds: float
    reducing: float
    op_nodes: int
    shown: str
    repro_lines: int


def environment(fault: str) -> dict[str, str]:
    """The variables that plant a fault."""
    clean = {k: v for k, v in os.environ.items() if k not in ("DYNAMO_FAULT", "FAULTY_BACKEND")} | {"OMP_NUM_THREADS": "1"}
    if fault in USERS:
        return clean | {"FAULTY_BACKEND": "1"}
    return clean if fault == HEALTHY else clean | {"DYNAMO_FAULT": fault}


def run(fault: str, folder: Path, seconds: str, reduce: float, jobs: int, seed: int) -> Row:
    """One search, in a process of its own."""
    backend = f"repro_corpus.faulty_backends:{fault}" if fault in USERS else "inductor"
    command = [sys.executable, "-m", "tui.main", "fuzz", "--json", "--backend", backend]
    command += ["--time", seconds, "--reduce", str(reduce)]
    command += ["--jobs", str(jobs), "--seed", str(seed), "--out", str(folder), "--failures", "0" if fault == HEALTHY else "1"]
    with (folder.parent / f"{folder.name}.log").open("w") as log:
        done = subprocess.run(command, env=environment(fault), stdout=subprocess.PIPE, stderr=log, text=True)
    told = json.loads(done.stdout)
    first = max(told["clusters"], key=lambda c: c["status"] == "certified", default=None)
    if first is None:
        return Row(fault, False, "not found", "", told["programs"], told["searching_seconds"], 0.0, 0, "", 0)
    lines = len(Path(first["repro"]).read_text().splitlines()) if first["repro"] else 0
    status = first["status"]
    if status == "certified" and fault != HEALTHY and not _works(first["repro"]):
        status = "not of the fault"
    return Row(
        fault,
        status == "certified",
        status,
        first["stage"],
        told["programs"],
        told["searching_seconds"],
        first["seconds"],
        first["op_nodes"],
        first["signature"]["message"] or first["signature"]["accuracy"] or first["signature"]["kind"],
        lines,
    )


def _works(repro: str) -> bool:
    """Whether a repro works with nothing planted."""
    return subprocess.run([sys.executable, repro], env=environment(HEALTHY), capture_output=True).returncode == 0


def rows(faults: list[str], options: argparse.Namespace) -> Iterator[Row]:
    """The rows of faults, those of an earlier run from their files."""
    options.out.mkdir(parents=True, exist_ok=True)
    for fault in faults:
        name = "".join(c if c.isalnum() else "-" for c in fault)
        kept = options.out / f"{name}.json"
        if kept.exists():
            yield Row(**json.loads(kept.read_text()))
        elif not options.table:
            row = run(fault, options.out / name, options.time, options.reduce, options.jobs, options.seed)
            kept.write_text(json.dumps(asdict(row)))
            yield row


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.fuzzing", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--time", default="10m", help="of searching for one fault")
    parser.add_argument("--reduce", type=float, default=180.0, help="seconds in which a failure is made small")
    parser.add_argument("--only", default="", help="faults whose name contains this")
    parser.add_argument("--kind", choices=("ours", "user", "healthy", "all"), default="all")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("fuzzing"))
    parser.add_argument("--table", action="store_true", help="run nothing, print what is there")
    options = parser.parse_args()
    groups = {"ours": OURS, "user": USERS, "healthy": (HEALTHY,)}
    chosen = [f for kind, names in groups.items() if options.kind in (kind, "all") for f in names if options.only in f]
    began = time.monotonic()
    found = 0
    head = ("fault", "certified", "stage", "programs", "seconds", "reducing", "operations", "lines", "failure")
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for row in rows(chosen, options):
        found += row.found
        cells = (f"`{row.fault}`", row.status, row.stage, row.programs, f"{row.seconds:.0f}", f"{row.reducing:.0f}", row.op_nodes or "")
        print("| " + " | ".join(map(str, (*cells, row.repro_lines or "", row.shown[:50].replace("|", "/")))) + " |", flush=True)
    print(f"{found} of {len(chosen)} in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
