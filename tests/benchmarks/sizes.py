"""Lines of the product at a revision and in the working tree: `python -m tests.benchmarks.sizes REVISION`.

Lines are those of Python, stubs and C, blank ones and comments counted. A row of `LATER` is what was built since 871fc82: where it is
now, and where what it grew from was then. What no row names is code that was there at the revision, moved and mended.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("dynamo", "inductor", "minifier", "tui")
ENDINGS = (".py", ".pyi", ".c", ".h")
LATER: dict[str, tuple[str, str]] = {
    "Triton target: printing, building, tuning": ("inductor/targets/triton", ""),
    "GPU: CUDA driver and captured graphs": (
        (
            "inductor/csrc/driver.c inductor/csrc/driver.h inductor/csrc/graphs.c inductor/csrc/graphs.h inductor/csrc/pool.c "
            "inductor/csrc/recording.c inductor/runtime/graphs.py inductor/runtime/capturable.py"
        ),
        "",
    ),
    "GPU: schedules, passes, random numbers": (
        (
            "inductor/schedule/moments.py inductor/schedule/persistent.py inductor/schedule/spread.py inductor/passes/fused_convolution.py "
            "inductor/passes/together.py inductor/passes/masks.py inductor/lowering/elsewhere.py inductor/lowering/random.py "
            "inductor/ir/philox.py"
        ),
        "",
    ),
    "sanitizer of kernels": ("inductor/sanitizer", ""),
    "faults that can be planted": ("dynamo/faults inductor/faults", ""),
    "scripts written for torch's compiler": ("dynamo/peer", "dynamo/peer_names.py dynamo/script_adapter.py dynamo/backends/peer.py"),
    "frames recorded in files": ("dynamo/recording dynamo/public/replay.py", ""),
    "torch.cond": ("dynamo/aot/branches.py dynamo/symbolic/torch/conditionals.py", ""),
    "flex_attention, but for its Triton kernels": (
        "dynamo/graph/attention.py dynamo/symbolic/torch/attention.py inductor/ir/attention.py inductor/lowering/attention.py",
        "",
    ),
    "several backward passes through one graph": (
        "dynamo/aot/histories.py dynamo/aot/plan.py dynamo/aot/reach.py dynamo/aot/several.py",
        "",
    ),
    "record: processes, fast reading, differences of guards": (
        "dynamo/trace/processes.py dynamo/trace/quick.py dynamo/guards/difference.py",
        "",
    ),
    "minifier": ("minifier", "minifier"),
    "command line: views and commands": ("tui/views tui/commands", "tui/commands"),
}


def lines_at(revision: str) -> dict[str, int]:
    """Lines of every file of the product at a revision."""
    found = {}
    for name in filter(_counts, _git("ls-tree", "-r", "--name-only", revision, *PACKAGES).splitlines()):
        found[name] = _git("show", f"{revision}:{name}").count("\n")
    return found


def lines_now() -> dict[str, int]:
    names = filter(_counts, _git("ls-files", "--cached", "--others", "--exclude-standard", *PACKAGES).splitlines())
    return {name: (ROOT / name).read_text().count("\n") for name in names if (ROOT / name).exists()}


def under(lines: dict[str, int], paths: Iterable[str]) -> int:
    """Lines of the files at paths or below them."""
    wanted = tuple(paths)
    return sum(count for name, count in lines.items() if any(name == path or name.startswith(f"{path}/") for path in wanted))


def table(then: dict[str, int], now: dict[str, int]) -> list[tuple[str, int, int]]:
    """Rows of (name, lines then, lines now): packages, what was built since, and the rest."""
    packages = [(package, under(then, [package]), under(now, [package])) for package in PACKAGES]
    later = [(name, under(then, old.split()), under(now, new.split())) for name, (new, old) in LATER.items()]
    rest = tuple(sum(row[i] for row in packages) - sum(row[i] for row in later) for i in (1, 2))
    return [*packages, ("all", sum(then.values()), sum(now.values())), *later, ("all else: code that was there", *rest)]


def _counts(name: str) -> bool:
    return name.endswith(ENDINGS)


def _git(*command: str) -> str:
    return subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.sizes", description=__doc__)
    parser.add_argument("revision")
    options = parser.parse_args()
    print("| what | then | now | more |\n|---|---|---|---|")
    for name, then, now in table(lines_at(options.revision), lines_now()):
        print(f"| {name} | {then:,} | {now:,} | {now - then:+,} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
